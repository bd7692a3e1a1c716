//! The carriers behind one port. Only this file lists the carriers and their types.

mod carrier;
pub mod link;
pub mod mesh;
pub mod mixnet;
mod port;
pub mod relay;

use alloc::boxed::Box;
use core::fmt;

use mezza_core::{Backend, StaticKey, Time, snapshot};
use mezza_lanes::{Kernel, portable};

use crate::backup::BackupNetwork;
use crate::error::DeviceError;
use crate::io::{ContactId, Ctx, Input, KeyringStep};
use crate::view::NetworkView;
use link::{Link, LinkInput, LinkOutput};
use mesh::{Mesh, MeshInput, MeshOutput};
use mixnet::{Mixnet, MixnetInput, MixnetLine, MixnetOutput};
use relay::{Relay, RelayInput, RelayOutput};

pub use carrier::{Bundles, Carrier, Exchange, Invitations, Routing, Storage, Welcome};
pub(crate) use mixnet::LeftNetwork;
pub use port::Port;
pub use relay::CardPlan;

/// An input of the driver to one of the carriers.
pub enum CarrierInput {
    /// A relay sent an answer or mail, or its connection changed.
    Relay(RelayInput),
    /// An event of the mixnet, or a request of the user to it.
    Mixnet(MixnetInput),
    /// An event of the mesh node, or a request of the user to it.
    Mesh(MeshInput),
    /// An event of a connection to a paired device, or a request of the user.
    Link(LinkInput),
}

/// A request from a carrier to the driver.
pub enum CarrierOutput {
    /// A request to the connection of a relay.
    Relay(RelayOutput),
    /// A request to the connection of the mixnet.
    Mixnet(MixnetOutput),
    /// A request to the mesh node.
    Mesh(MeshOutput),
    /// A request to the connections of paired devices.
    Link(LinkOutput),
}

snapshot!(enum CarrierOutput [Relay(a), Mixnet(a), Mesh(a), Link(a)]);

impl CarrierOutput {
    /// Returns the keyring step in this request. A keyring step is a change of the stored keys of
    /// the mesh key tree, and the driver stores it by itself (MSG-135).
    ///
    /// # Errors
    /// Returns any other request unchanged; it belongs to the driver's part for its carrier.
    pub fn into_keyring_step(self) -> Result<KeyringStep, Box<Self>> {
        match self {
            Self::Mesh(MeshOutput::Keyring(step)) => Ok(step),
            other => Err(Box::new(other)),
        }
    }
}

impl CarrierInput {
    /// Returns the input that reports to the mesh carrier that the keyring step of this generation
    /// is durable.
    pub fn keyring_stored(generation: u64) -> Self {
        Self::Mesh(MeshInput::KeyringStored { generation })
    }
}

impl From<MeshInput> for CarrierInput {
    fn from(input: MeshInput) -> Self {
        Self::Mesh(input)
    }
}

impl From<MeshOutput> for CarrierOutput {
    fn from(output: MeshOutput) -> Self {
        Self::Mesh(output)
    }
}

impl From<LinkInput> for CarrierInput {
    fn from(input: LinkInput) -> Self {
        Self::Link(input)
    }
}

impl From<LinkOutput> for CarrierOutput {
    fn from(output: LinkOutput) -> Self {
        Self::Link(output)
    }
}

impl From<RelayInput> for CarrierInput {
    fn from(input: RelayInput) -> Self {
        Self::Relay(input)
    }
}

impl From<MixnetInput> for CarrierInput {
    fn from(input: MixnetInput) -> Self {
        Self::Mixnet(input)
    }
}

impl<I: Into<CarrierInput>> From<I> for Input<CarrierInput> {
    fn from(input: I) -> Self {
        Self::Carrier(input.into())
    }
}

impl From<RelayOutput> for CarrierOutput {
    fn from(output: RelayOutput) -> Self {
        Self::Relay(output)
    }
}

impl From<MixnetOutput> for CarrierOutput {
    fn from(output: MixnetOutput) -> Self {
        Self::Mixnet(output)
    }
}

impl fmt::Debug for CarrierInput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Relay(input) => write!(f, "{input:?}"),
            Self::Mixnet(input) => write!(f, "{input:?}"),
            Self::Mesh(input) => write!(f, "{input:?}"),
            Self::Link(input) => write!(f, "{input:?}"),
        }
    }
}

impl fmt::Debug for CarrierOutput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Relay(output) => write!(f, "{output:?}"),
            Self::Mixnet(output) => write!(f, "{output:?}"),
            Self::Mesh(output) => write!(f, "{output:?}"),
            Self::Link(output) => write!(f, "{output:?}"),
        }
    }
}

/// The carriers of this version.
pub struct CarrierSet<B: Backend> {
    pub(crate) relay: Relay<B>,
    pub(crate) mixnet: Mixnet<B>,
    pub(crate) mesh: Mesh,
    pub(crate) link: Link,
}

snapshot!(struct CarrierSet<B> { relay, mixnet, mesh, link });

impl<B: Backend> Default for CarrierSet<B> {
    fn default() -> Self {
        Self::new(portable())
    }
}

impl<B: Backend> CarrierSet<B> {
    /// Creates the carriers without a relay and a network; the mixnet client computes on `kernel`.
    pub fn new(kernel: &'static dyn Kernel) -> Self {
        Self {
            relay: Relay::default(),
            mixnet: Mixnet::new(kernel),
            mesh: Mesh::default(),
            link: Link::default(),
        }
    }

    /// Adds the mixnet line (the connection to the entry server, with its rounds) that the locked
    /// device kept open, so that it continues (MIX-78).
    #[must_use]
    pub fn with_line(mut self, line: MixnetLine) -> Self {
        self.mixnet.set_line(line);
        self
    }

    /// Takes the mixnet line from the device when the device is locked.
    pub fn into_line(self, now: Time) -> Option<MixnetLine> {
        self.mixnet.into_line(now)
    }

    /// Returns the spent privacy budgets of all mixnets that were joined, for a backup.
    pub(crate) fn charges(&self) -> impl Iterator<Item = BackupNetwork> {
        self.mixnet.charges()
    }

    /// Returns the view of the mixnet, or `None` if no network was joined.
    pub fn network_view(&self, now: Time) -> Option<NetworkView> {
        self.mixnet.view(now)
    }

    /// Returns true if the device of this contact is paired.
    pub fn is_paired(&self, contact: ContactId) -> bool {
        self.link.is_paired(contact)
    }
}

impl<B: Backend> Port for CarrierSet<B> {
    type Backend = B;
    type Input = CarrierInput;
    type Output = CarrierOutput;

    fn all_carriers(&self) -> impl Iterator<Item = &dyn Carrier> {
        let all: [&dyn Carrier; 4] = [&self.relay, &self.mixnet, &self.mesh, &self.link];
        all.into_iter()
    }

    fn all_carriers_mut(&mut self) -> impl Iterator<Item = &mut dyn Carrier> {
        let all: [&mut dyn Carrier; 4] =
            [&mut self.relay, &mut self.mixnet, &mut self.mesh, &mut self.link];
        all.into_iter()
    }

    fn handle_input(
        &mut self,
        input: CarrierInput,
        seals: &[&StaticKey],
        ctx: &mut Ctx<'_>,
    ) -> Result<(), DeviceError> {
        match input {
            CarrierInput::Relay(input) => self.relay.handle_input(input, seals, ctx),
            CarrierInput::Mixnet(input) => self.mixnet.handle_input(input, ctx),
            CarrierInput::Mesh(input) => self.mesh.handle_input(input, ctx),
            CarrierInput::Link(input) => self.link.handle_input(input, ctx),
        }
    }

    fn poll(&mut self) -> Option<CarrierOutput> {
        let relay = self.relay.poll().map(CarrierOutput::Relay);
        let mixnet = relay.or_else(|| self.mixnet.poll().map(CarrierOutput::Mixnet));
        let mesh = mixnet.or_else(|| self.mesh.poll().map(CarrierOutput::Mesh));
        mesh.or_else(|| self.link.poll().map(CarrierOutput::Link))
    }
}
