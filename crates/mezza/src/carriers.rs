//! Adapters of the device's carriers: the connections of each, behind one trait. Only this file tells
//! one from another.
//!
//! Adapters hold no state but live connections. Every connection has a serial number within its
//! carrier, so that a late report of one that was closed is dropped.

pub(crate) mod mixnet;
mod pace;
pub(crate) mod relay;

use std::time::Instant;

use mezza_core::Time;
use mezza_messenger::card::RelayKey;
use mezza_messenger::carriers::mixnet::{MixnetCover, MixnetLine};
use mezza_messenger::{CarrierId, CarrierInput, CarrierOutput, RelayInput};
use mezza_mixnet::wire::Frame;
use tokio::sync::mpsc;

use mezza_host::api::json::HealthLine;
use mezza_host::api::words::CarrierFacts;
use mezza_host::backend::kernel::choose_kernel;
use mezza_host::clock::Clock;
use mezza_host::process::rng::OsRng;
use mixnet::MixnetAdapter;
use relay::{RelayAdapter, RelayCommands};

pub use relay::Dialer;

/// Orders that may wait for one connection: more than a device has in flight.
pub(crate) const ORDERS_MAX: usize = 4_096;

/// The connections of one carrier.
pub(crate) trait Adapter {
    /// Takes in what the connection with this serial number reports; what is for the device comes back.
    fn handle_report(&mut self, serial: u64, news: ConnectionEvent) -> Option<CarrierInput>;

    /// The lines of the node's health that are this carrier's.
    fn health_lines(&self, facts: &CarrierFacts) -> Vec<HealthLine>;

    /// Returns true if strangers can write to us by it.
    fn is_reachable(&self) -> bool {
        false
    }

    /// The device is gone, as the vault was locked or a commit failed. What is reported until another
    /// device orders something is dropped by the node: an adapter that lives on keeps it, within a
    /// bound.
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
    /// It stands; orders go here until it is down.
    Up {
        /// Where orders go.
        orders: RelayCommands,
        /// The relay, and the time there, if it is on another machine.
        time: Option<(RelayKey, Time)>,
    },
    /// It is gone.
    Down,
    /// Something for the device.
    Input(CarrierInput),
    /// A frame of the mixnet, with the time when it was read from the line.
    Frame {
        /// The frame.
        frame: Box<Frame>,
        /// When it was read.
        read_at: Instant,
    },
    /// Why the last dial failed, in words for people; `None`: there is nothing to say.
    Trouble(Option<String>),
}

/// Tells the node what becomes of one connection.
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
    /// For the first connection of a carrier.
    const fn new(carrier: CarrierId, jobs: mpsc::Sender<E>) -> Self {
        Self { carrier, serial: 0, jobs }
    }

    /// The same for another connection: its own is the next number.
    fn next_connection(&mut self) -> Self {
        self.serial += 1;
        self.clone()
    }

    /// Returns true if the node still listens.
    async fn send_news(&self, news: ConnectionEvent) -> bool {
        let report = ConnectionReport { carrier: self.carrier, serial: self.serial, news };
        self.jobs.send(report.into()).await.is_ok()
    }
}

/// All connections of one node.
pub(crate) struct Adapters<E> {
    relay: RelayAdapter<E>,
    mixnet: MixnetAdapter<E>,
}

impl<E: From<ConnectionReport> + Send + 'static> Adapters<E> {
    /// No connections yet.
    pub(crate) fn new(dialer: Dialer, clock: Clock, jobs: &mpsc::Sender<E>) -> Self {
        let reporter = |carrier| Reporter::new(carrier, jobs.clone());
        Self {
            relay: RelayAdapter::new((dialer, clock.clone()), reporter(CarrierId::RELAY)),
            mixnet: MixnetAdapter::new(clock, reporter(CarrierId::MIXNET)),
        }
    }

    fn all_adapters(&self) -> [(CarrierId, &dyn Adapter); 2] {
        [(CarrierId::RELAY, &self.relay), (CarrierId::MIXNET, &self.mixnet)]
    }

    fn all_mut(&mut self) -> [(CarrierId, &mut dyn Adapter); 2] {
        [(CarrierId::RELAY, &mut self.relay), (CarrierId::MIXNET, &mut self.mixnet)]
    }

    /// Carries out what a carrier of the device wants. `doubted`: the vault was put back, and the person
    /// has not decided yet.
    pub(crate) fn carry_out_order(&mut self, output: CarrierOutput, doubted: bool) {
        match output {
            CarrierOutput::Relay(order) => self.relay.carry_out_order(order),
            CarrierOutput::Mixnet(order) => self.mixnet.carry_out_order(order, doubted),
        }
    }

    /// Takes a report in; what is for the device comes back.
    pub(crate) fn handle_report(&mut self, report: ConnectionReport) -> Option<CarrierInput> {
        let (_, one) = self.all_mut().into_iter().find(|(id, _)| *id == report.carrier)?;
        one.handle_report(report.serial, report.news)
    }

    /// The lines of each carrier, by the facts about it.
    pub(crate) fn health_lines(
        &self,
        facts: impl Fn(CarrierId) -> CarrierFacts,
    ) -> Vec<Vec<HealthLine>> {
        self.all_adapters().map(|(id, one)| one.health_lines(&facts(id))).into()
    }

    /// Returns true if strangers can write to us by one of the carriers.
    pub(crate) fn are_reachable(&self) -> bool {
        self.all_adapters().iter().any(|(_, one)| one.is_reachable())
    }

    /// The person goes on with a vault that was put back.
    pub(crate) fn resume_restored(&mut self) {
        self.mixnet.resume_restored();
    }

    /// The device is gone, see [`Adapter::on_device_gone`].
    pub(crate) fn on_device_gone(&mut self) {
        self.all_mut().into_iter().for_each(|(_, one)| one.on_device_gone());
    }

    /// Ends the connections to relays alone.
    pub(crate) fn lock_relay(&mut self) {
        self.relay.on_device_gone();
    }

    /// The device is locked. Its rounds go on where there is a line to the mixnet (MIX-78).
    pub(crate) fn lock_but_for(&mut self, line: Option<LockedLine>, now: Time) {
        let Some(line) = line else { return self.on_device_gone() };
        self.lock_relay();
        self.mixnet.begin_cover(MixnetCover::new(line, choose_kernel(), now, &mut OsRng));
    }

    /// Takes the line of the mixnet that went on while the device was locked.
    pub(crate) fn take_line(&mut self) -> Option<LockedLine> {
        self.mixnet.take_line()
    }

    /// Returns the time of the next work while the device is locked.
    pub(crate) fn deadline(&self) -> Option<Time> {
        self.mixnet.deadline()
    }

    /// Does what is due while the device is locked.
    pub(crate) fn wake(&mut self) {
        self.mixnet.wake();
    }
}

/// A line that goes on while the device is locked.
pub(crate) type LockedLine = MixnetLine;

/// Returns true if what came of this input may wait for the next commit: a fact that no caller waits for.
pub(crate) fn may_wait(input: &CarrierInput) -> bool {
    matches!(input, CarrierInput::Relay(RelayInput::Done { .. }))
}

#[cfg(test)]
impl<E> Adapters<E> {
    /// How many parcels relays were ordered to take.
    pub(crate) fn carried(&self) -> usize {
        self.relay.carried
    }

    /// Returns true if the dial of the mixnet waits for the person.
    pub(crate) fn withholds(&self) -> bool {
        self.mixnet.withheld.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mezza_messenger::{MixnetInput, MixnetOutput};

    fn adapters() -> Adapters<ConnectionReport> {
        Adapters::new(Dialer::default(), Clock::default(), &mpsc::channel(8).0)
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
