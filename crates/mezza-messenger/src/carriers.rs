//! The carriers behind one port. Only this file lists the carriers and their types.

mod carrier;
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
use crate::io::{At, Input, KeyringStep};
use crate::view::NetworkView;
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
}

/// A request from a carrier to the driver.
pub enum CarrierOutput {
    /// A request to the connection of a relay.
    Relay(RelayOutput),
    /// A request to the connection of the mixnet.
    Mixnet(MixnetOutput),
    /// A request to the mesh node.
    Mesh(MeshOutput),
}

snapshot!(enum CarrierOutput [Relay(a), Mixnet(a), Mesh(a)]);

impl CarrierOutput {
    /// Returns the step of a keyring that the driver stores by itself (MSG-135).
    ///
    /// # Errors
    /// Any other request, which goes to the driver's part for its carrier.
    pub fn into_keyring_step(self) -> Result<KeyringStep, Box<Self>> {
        match self {
            Self::Mesh(MeshOutput::Keyring(step)) => Ok(step),
            other => Err(Box::new(other)),
        }
    }
}

impl CarrierInput {
    /// Returns the report that the keyring step of this generation is durable.
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
        }
    }
}

impl fmt::Debug for CarrierOutput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Relay(output) => write!(f, "{output:?}"),
            Self::Mixnet(output) => write!(f, "{output:?}"),
            Self::Mesh(output) => write!(f, "{output:?}"),
        }
    }
}

/// The carriers of this version.
pub struct CarrierSet<B: Backend> {
    pub(crate) relay: Relay<B>,
    pub(crate) mixnet: Mixnet<B>,
    pub(crate) mesh: Mesh,
}

snapshot!(struct CarrierSet<B> { relay, mixnet, mesh });

impl<B: Backend> Default for CarrierSet<B> {
    fn default() -> Self {
        Self::new(portable())
    }
}

impl<B: Backend> CarrierSet<B> {
    /// Creates the carriers without a relay and a network; the mixnet client computes on `kernel`.
    pub fn new(kernel: &'static dyn Kernel) -> Self {
        Self { relay: Relay::default(), mixnet: Mixnet::new(kernel), mesh: Mesh::default() }
    }

    /// Adds the mixnet line that the locked device kept open, so that it continues (MIX-78).
    #[must_use]
    pub fn with_line(mut self, line: MixnetLine) -> Self {
        self.mixnet.set_line(line);
        self
    }

    /// Takes the mixnet line from the device when the device is locked.
    pub fn into_line(self, now: Time) -> Option<MixnetLine> {
        self.mixnet.into_line(now)
    }

    /// The charges of the networks that were joined, for a backup.
    pub(crate) fn charges(&self) -> impl Iterator<Item = BackupNetwork> {
        self.mixnet.charges()
    }

    /// Returns the view of the mixnet, or `None` if no network was joined.
    pub fn network_view(&self, now: Time) -> Option<NetworkView> {
        self.mixnet.view(now)
    }
}

impl<B: Backend> Port for CarrierSet<B> {
    type Backend = B;
    type Input = CarrierInput;
    type Output = CarrierOutput;

    fn all_carriers(&self) -> impl Iterator<Item = &dyn Carrier> {
        let all: [&dyn Carrier; 3] = [&self.relay, &self.mixnet, &self.mesh];
        all.into_iter()
    }

    fn all_carriers_mut(&mut self) -> impl Iterator<Item = &mut dyn Carrier> {
        let all: [&mut dyn Carrier; 3] = [&mut self.relay, &mut self.mixnet, &mut self.mesh];
        all.into_iter()
    }

    fn handle_input(
        &mut self,
        input: CarrierInput,
        seals: &[&StaticKey],
        at: &mut At<'_>,
    ) -> Result<(), DeviceError> {
        match input {
            CarrierInput::Relay(input) => self.relay.handle_input(input, seals, at),
            CarrierInput::Mixnet(input) => self.mixnet.handle_input(input, at),
            CarrierInput::Mesh(input) => self.mesh.handle_input(input, at),
        }
    }

    fn poll(&mut self) -> Option<CarrierOutput> {
        let relay = self.relay.poll().map(CarrierOutput::Relay);
        let mixnet = relay.or_else(|| self.mixnet.poll().map(CarrierOutput::Mixnet));
        mixnet.or_else(|| self.mesh.poll().map(CarrierOutput::Mesh))
    }
}
