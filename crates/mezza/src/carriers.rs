//! Adapters of the device's carriers: the connections of each carrier, behind one trait. Only this
//! file distinguishes carriers.
//!
//! Adapters hold no state but live connections. Every connection has a serial number within its
//! carrier, so that late reports of a closed connection are dropped.

pub(crate) mod link;
pub(crate) mod mesh;
pub(crate) mod mixnet;
mod pace;
pub(crate) mod relay;

use std::time::Instant;

use mezza_core::{Secret, Time};
use mezza_messenger::card::RelayKey;
use mezza_messenger::carriers::link::LinkReport;
use mezza_messenger::carriers::mixnet::{MixnetCover, MixnetLine};
use mezza_messenger::{CarrierId, CarrierInput, CarrierOutput, ContactId, MeshInput, RelayInput};
use mezza_mixnet::wire::Frame;
use tokio::sync::mpsc;

use link::LinkAdapter;
use mesh::MeshAdapter;
use mezza_host::api::json::HealthLine;
use mezza_host::api::words::CarrierFacts;
use mezza_host::backend::kernel::choose_kernel;
use mezza_host::clock::Clock;
use mezza_host::process::rng::OsRng;
use mixnet::MixnetAdapter;
use relay::{RelayAdapter, RelayCommands};

pub use link::LinkListen;
pub(crate) use link::{Listening, PairingState};
pub use mesh::MeshPlace;
pub(crate) use mezza_messenger::carriers::link::{PairRequest, PairingStep};
pub use relay::Dialer;

/// Orders that may wait for one connection; a device has fewer in flight.
pub(crate) const ORDERS_MAX: usize = 4_096;

/// The connections of one carrier.
pub(crate) trait Adapter {
    /// Handles a report of the connection with this serial number. Returns the input for the
    /// device, if any.
    fn handle_report(&mut self, serial: u64, news: ConnectionEvent) -> Option<CarrierInput>;

    /// Returns the lines of this carrier in the node's health report.
    fn health_lines(&self, facts: &CarrierFacts) -> Vec<HealthLine>;

    /// Returns true if unknown senders can write to us over this carrier.
    fn is_reachable(&self) -> bool {
        false
    }

    /// Ends the connections of a device that is gone: the vault was locked or a commit failed. The
    /// node drops later reports until a new device orders something; an adapter that continues
    /// keeps them, within a bound.
    fn on_device_gone(&mut self);
}

/// A report of a connection to the node.
pub struct ConnectionReport {
    carrier: CarrierId,
    serial: u64,
    /// The event.
    pub(crate) news: ConnectionEvent,
}

/// An event of a connection.
pub(crate) enum ConnectionEvent {
    /// The connection is open; orders go to this queue until it closes.
    Up {
        /// The queue for orders.
        orders: RelayCommands,
        /// The relay and its time, if the relay is on another machine.
        time: Option<(RelayKey, Time)>,
    },
    /// The connection has closed.
    Down,
    /// An input for the device.
    Input(CarrierInput),
    /// A frame of the mixnet, with the time when it was read from the connection.
    Frame {
        /// The frame.
        frame: Box<Frame>,
        /// Time when the frame was read.
        read_at: Instant,
    },
    /// Why the last dial failed, in words for the user; `None` if there is nothing to report.
    Trouble(Option<String>),
}

/// Reports the events of one connection to the node.
struct Reporter<E> {
    carrier: CarrierId,
    serial: u64,
    jobs: mpsc::Sender<E>,
}

impl<E> Clone for Reporter<E> {
    fn clone(&self) -> Self {
        Self { jobs: self.jobs.clone(), ..*self }
    }
}

impl<E: From<ConnectionReport>> Reporter<E> {
    /// Makes the reporter for the first connection of a carrier.
    const fn new(carrier: CarrierId, jobs: mpsc::Sender<E>) -> Self {
        Self { carrier, serial: 0, jobs }
    }

    /// Returns the reporter for the next connection, with the next serial number.
    fn next_connection(&mut self) -> Self {
        self.serial += 1;
        self.clone()
    }

    /// Sends an event to the node. Returns false if the node has ended.
    async fn send_news(&self, news: ConnectionEvent) -> bool {
        let report = ConnectionReport { carrier: self.carrier, serial: self.serial, news };
        self.jobs.send(report.into()).await.is_ok()
    }

    /// Sends an event to the node from a thread that may wait. Returns false if the node has ended.
    fn report_blocking(&self, news: ConnectionEvent) -> bool {
        let report = ConnectionReport { carrier: self.carrier, serial: self.serial, news };
        self.jobs.blocking_send(report.into()).is_ok()
    }
}

/// All connections of one node.
pub(crate) struct Adapters<E> {
    relay: RelayAdapter<E>,
    mixnet: MixnetAdapter<E>,
    mesh: MeshAdapter<E>,
    link: LinkAdapter<E>,
}

impl<E: From<ConnectionReport> + Send + 'static> Adapters<E> {
    /// Makes the adapters, without connections.
    pub(crate) fn new(means: CarrierMeans, clock: Clock, jobs: &mpsc::Sender<E>) -> Self {
        let CarrierMeans { dialer, mesh, link } = means;
        let reporter = |carrier| Reporter::new(carrier, jobs.clone());
        Self {
            relay: RelayAdapter::new(dialer, clock.clone(), reporter(CarrierId::RELAY)),
            mixnet: MixnetAdapter::new(clock.clone(), reporter(CarrierId::MIXNET)),
            mesh: MeshAdapter::new(mesh, clock.clone(), reporter(CarrierId::MESH)),
            link: LinkAdapter::new(link, clock, reporter(CarrierId::LINK)),
        }
    }

    fn all_adapters(&self) -> [(CarrierId, &dyn Adapter); 4] {
        [
            (CarrierId::RELAY, &self.relay),
            (CarrierId::MIXNET, &self.mixnet),
            (CarrierId::MESH, &self.mesh),
            (CarrierId::LINK, &self.link),
        ]
    }

    fn all_mut(&mut self) -> [(CarrierId, &mut dyn Adapter); 4] {
        [
            (CarrierId::RELAY, &mut self.relay),
            (CarrierId::MIXNET, &mut self.mixnet),
            (CarrierId::MESH, &mut self.mesh),
            (CarrierId::LINK, &mut self.link),
        ]
    }

    /// Begins to serve a device that was opened. Returns the first inputs for it.
    pub(crate) fn on_device_open(&mut self) -> Vec<CarrierInput> {
        let link = self.link.on_device_open();
        self.mesh.on_device_open().into_iter().chain([link]).collect()
    }

    /// Begins a pairing for the user. Returns the input for the device.
    pub(crate) fn begin_pairing(&mut self, request: PairRequest) -> CarrierInput {
        self.link.begin_pairing(request)
    }

    /// Returns the input with the user's decision about the digits of a pairing.
    pub(crate) fn confirm_pairing(&self, equal: bool) -> CarrierInput {
        self.link.make_input(LinkReport::Confirm { equal })
    }

    /// Returns the input that ends the pairing.
    pub(crate) fn cancel_pairing(&self) -> CarrierInput {
        self.link.make_input(LinkReport::CancelPairing)
    }

    /// Returns the input with another address of a paired device.
    pub(crate) fn set_link_address(&self, contact: ContactId, address: String) -> CarrierInput {
        self.link.make_input(LinkReport::SetAddress { contact, address })
    }

    /// Returns the input that joins a guard.
    pub(crate) fn join_guard(&self, address: String, key: Secret<32>) -> CarrierInput {
        self.link.make_input(LinkReport::JoinGuard { address, key })
    }

    /// Returns the input that leaves the guard.
    pub(crate) fn leave_guard(&self) -> CarrierInput {
        self.link.make_input(LinkReport::LeaveGuard)
    }

    /// Returns the input that leads the link to a contact through the guard, or around it.
    pub(crate) fn set_guard_dest(&self, contact: ContactId, dest: Option<u16>) -> CarrierInput {
        self.link.make_input(LinkReport::SetGuardDest { contact, dest })
    }

    /// Returns what the listener for paired devices has done, or `None` while it starts.
    pub(crate) fn listening(&self) -> Option<Listening> {
        self.link.listening()
    }

    /// Returns the pairing in progress, or the last one.
    pub(crate) fn pairing(&self) -> Option<&PairingState> {
        self.link.pairing()
    }

    /// Carries out an order of the device for a carrier. `doubted` is true if the vault was
    /// restored and the user has not decided yet.
    pub(crate) fn carry_out_order(&mut self, output: CarrierOutput, doubted: bool) {
        match output {
            CarrierOutput::Relay(order) => self.relay.carry_out_order(order),
            CarrierOutput::Mixnet(order) => self.mixnet.carry_out_order(order, doubted),
            CarrierOutput::Mesh(order) => self.mesh.carry_out_order(order),
            CarrierOutput::Link(order) => self.link.carry_out_order(order),
        }
    }

    /// Handles a report. Returns the input for the device, if any.
    pub(crate) fn handle_report(&mut self, report: ConnectionReport) -> Option<CarrierInput> {
        let (_, one) = self.all_mut().into_iter().find(|(id, _)| *id == report.carrier)?;
        one.handle_report(report.serial, report.news)
    }

    /// Returns the health lines of each carrier, computed from the facts about it.
    pub(crate) fn health_lines(
        &self,
        facts: impl Fn(CarrierId) -> CarrierFacts,
    ) -> Vec<Vec<HealthLine>> {
        self.all_adapters().map(|(id, one)| one.health_lines(&facts(id))).into()
    }

    /// Returns true if unknown senders can write to us over one of the carriers.
    pub(crate) fn are_reachable(&self) -> bool {
        self.all_adapters().iter().any(|(_, one)| one.is_reachable())
    }

    /// Starts the dial that waited, because the user decided to continue with a restored vault.
    pub(crate) fn resume_restored(&mut self) {
        self.mixnet.resume_restored();
    }

    /// Ends the connections of a device that is gone, see [`Adapter::on_device_gone`].
    pub(crate) fn on_device_gone(&mut self) {
        self.all_mut().into_iter().for_each(|(_, one)| one.on_device_gone());
    }

    /// Ends the connections to relays, but not the one to the mixnet.
    pub(crate) fn lock_relay(&mut self) {
        self.relay.on_device_gone();
    }

    /// Handles a lock of the device. If there is a line to the mixnet, its rounds continue
    /// (MIX-78).
    pub(crate) fn lock_but_for(&mut self, line: Option<LockedLine>, now: Time) {
        let Some(line) = line else { return self.on_device_gone() };
        self.lock_relay();
        // Keys must not outlive the lock. The mesh node continues without them.
        self.mesh.on_device_gone();
        self.link.on_device_gone();
        self.mixnet.begin_cover(MixnetCover::new(line, choose_kernel(), now, &mut OsRng));
    }

    /// Takes the line to the mixnet that continued while the device was locked.
    pub(crate) fn take_line(&mut self) -> Option<LockedLine> {
        self.mixnet.take_line()
    }

    /// Returns the time of the next work while the device is locked.
    pub(crate) fn deadline(&self) -> Option<Time> {
        self.mixnet.deadline()
    }

    /// Does due work while the device is locked.
    pub(crate) fn wake(&mut self) {
        self.mixnet.wake();
    }
}

/// The means by which carriers reach the world.
#[derive(Clone, Default)]
pub(crate) struct CarrierMeans {
    /// How relays are dialled.
    pub dialer: Dialer,
    /// The mesh node of this home; `None`: this node is in no mesh.
    pub mesh: Option<MeshPlace>,
    /// Where connections of paired devices are accepted; `None`: nowhere.
    pub link: Option<LinkListen>,
}

/// Returns the input that makes the keys of the mesh. `confirmed`: the user confirmed the clock.
pub(crate) fn mesh_keys_input(confirmed: bool) -> CarrierInput {
    MeshInput::MakeTree { confirmed }.into()
}

/// A connection that continues while the device is locked.
pub(crate) type LockedLine = MixnetLine;

/// Returns true if the effects of this input may wait for the next commit: no caller waits for
/// them.
pub(crate) fn may_wait(input: &CarrierInput) -> bool {
    matches!(input, CarrierInput::Relay(RelayInput::Done { .. }))
}

#[cfg(test)]
impl<E> Adapters<E> {
    /// Returns how many parcels relays were ordered to carry.
    pub(crate) fn carried(&self) -> usize {
        self.relay.carried
    }

    /// Returns true if the dial of the mixnet waits for the user.
    pub(crate) fn withholds(&self) -> bool {
        self.mixnet.withheld.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mezza_messenger::{MixnetInput, MixnetOutput};

    fn adapters() -> Adapters<ConnectionReport> {
        Adapters::new(CarrierMeans::default(), Clock::default(), &mpsc::channel(8).0)
    }

    #[test]
    fn a_report_is_of_one_carrier_and_of_a_connection_that_is_kept() {
        let mut adapters = adapters();
        let mut is_heard = |carrier, serial, locked| {
            if locked {
                adapters.on_device_gone();
            }
            let news = ConnectionEvent::Input(MixnetInput::Down.into());
            adapters.handle_report(ConnectionReport { carrier, serial, news }).is_some()
        };
        assert!(is_heard(CarrierId::MIXNET, 0, false));
        assert!(!is_heard(CarrierId::RELAY, 0, false), "the relay has no such connection");
        assert!(!is_heard(CarrierId::MIXNET, 0, true), "it was closed");
        assert!(is_heard(CarrierId::MIXNET, 1, false));
    }

    #[tokio::test]
    async fn msg_63_a_dial_that_waits_ends_with_what_it_was_for() {
        let connect = || {
            let hello = Frame::Hello { version: 1, config: [0; 32] };
            let at = Time::from_ms(0);
            let address = "127.0.0.1:1".into();
            MixnetOutput::Connect { at, hello, address, key: None }
        };
        for end in [MixnetOutput::Disconnect, MixnetOutput::Leave] {
            let mut adapters = adapters();
            adapters.carry_out_order(connect().into(), true);
            assert!(adapters.withholds());
            adapters.carry_out_order(end.into(), true);
            assert!(!adapters.withholds());
        }
        let mut adapters = adapters();
        adapters.carry_out_order(connect().into(), true);
        adapters.on_device_gone();
        assert!(!adapters.withholds());
        adapters.carry_out_order(connect().into(), false);
        assert!(!adapters.withholds(), "it is dialled");
    }
}
