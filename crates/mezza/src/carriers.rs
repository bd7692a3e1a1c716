//! Adapters of the device's carriers: the connections to relays, and the connection to a mixnet.
//!
//! Adapters hold no state but live connections. A relay is named by its key, host and port
//! (`RelayConnectionId`). If its connection breaks, the requests in flight are void, and the device repeats
//! them after `Up`. Every connection has a serial number, so that a late report of one that was
//! closed is dropped.

pub(crate) mod mixnet;
mod pace;
pub(crate) mod relay;

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;

use mezza_core::Time;
use mezza_messenger::card::{RelayEntry, RelayKey};
use mezza_messenger::carriers::mixnet::MixnetOutput;
use mezza_messenger::{
    CarrierInput, CarrierOutput, MailboxId, RelayConnectionId, RelayInput, RelayOutput, RequestId,
};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::clock::Clock;
use crate::connection::tap::Tap;

/// Orders that may wait for one connection: more than a device has in flight.
pub(crate) const ORDERS_MAX: usize = 4_096;

/// How relays are dialled.
#[derive(Clone, Default)]
pub struct Dialer {
    /// Relays of this very process, wherever their cards say they are.
    pub at_home: BTreeMap<RelayKey, SocketAddr>,
    /// Records what passes, below and above TLS.
    pub tap: Option<Arc<dyn Tap>>,
    /// Whether the carrier says of itself that it is a demonstration.
    pub demo: bool,
}

/// A report of a connection to the node.
pub(crate) struct ConnectionReport {
    /// The serial number of the connection.
    pub serial: u64,
    /// The event.
    pub news: ConnectionEvent,
}

/// An event of a connection.
pub(crate) enum ConnectionEvent {
    /// It stands; orders go here until it is down.
    Up {
        /// Where orders go.
        orders: relay::RelayCommands,
        /// The relay, and the time there, if it is on another machine.
        time: Option<(RelayKey, Time)>,
    },
    /// It is gone.
    Down,
    /// Something for the device.
    Input(CarrierInput),
    /// Why the last dial failed, in words for people; `None`: there is nothing to say.
    Trouble(Option<String>),
}

struct PooledRelay {
    serial: u64,
    keeper: JoinHandle<()>,
    orders: Option<relay::RelayCommands>,
    trouble: Option<String>,
    /// Requests to open an own mailbox or to publish prekeys that the relay has not answered yet.
    unconfirmed: BTreeSet<RequestId>,
}

/// All connections of one node.
pub(crate) struct Adapters<E> {
    dialer: Dialer,
    clock: Clock,
    jobs: mpsc::Sender<E>,
    connections: BTreeMap<RelayConnectionId, PooledRelay>,
    mailboxes: BTreeMap<MailboxId, RelayConnectionId>,
    /// The connection to the mixnet, once the device wants one.
    net: Option<mixnet::EntryConnection<E>>,
    serial: u64,
    /// How many parcels were ordered to be carried.
    #[cfg(test)]
    pub(crate) carried: usize,
}

impl<E: From<ConnectionReport> + Send + 'static> Adapters<E> {
    /// No connections yet.
    pub(crate) fn new(dialer: Dialer, clock: Clock, jobs: mpsc::Sender<E>) -> Self {
        let (connections, mailboxes) = (BTreeMap::new(), BTreeMap::new());
        Self {
            dialer,
            clock,
            jobs,
            connections,
            mailboxes,
            net: None,
            serial: 0,
            #[cfg(test)]
            carried: 0,
        }
    }

    /// Carries out what a carrier of the device wants.
    pub(crate) fn order(&mut self, output: CarrierOutput) {
        #[cfg(test)]
        {
            self.carried +=
                usize::from(matches!(output, CarrierOutput::Relay(RelayOutput::Put { .. })));
        }
        let output = match output {
            // What its tasks still report bears a serial number that nobody has any more.
            CarrierOutput::Mixnet(MixnetOutput::Leave) => return self.net = None,
            CarrierOutput::Mixnet(order) => return self.net().order(order),
            CarrierOutput::Relay(order) => order,
        };
        match &output {
            RelayOutput::Connect { relay } => self.dial(relay.clone()),
            RelayOutput::Disconnect { connection } => self.disconnect(*connection),
            RelayOutput::Watch { mailbox: slot, connection, .. } => {
                self.mailboxes.insert(*slot, *connection);
                self.send(*connection, output);
            }
            RelayOutput::Acknowledge { mailbox: slot, .. } => {
                if let Some(connection) = self.mailboxes.get(slot).copied() {
                    self.send(connection, output);
                }
            }
            RelayOutput::Put { connection, .. }
            | RelayOutput::Open { connection, .. }
            | RelayOutput::Close { connection, .. }
            | RelayOutput::Publish { connection, .. }
            | RelayOutput::Fetch { connection, .. } => self.send(*connection, output),
        }
    }

    /// Takes a report in; what is for the device comes back.
    pub(crate) fn report(&mut self, report: ConnectionReport) -> Option<CarrierInput> {
        if let Some(net) = self.net.as_mut().filter(|net| net.serial() == report.serial) {
            return net.report(report.news);
        }
        let known =
            self.connections.iter_mut().find(|(_, connection)| connection.serial == report.serial);
        let (connection, known) = known.map(|(connection, known)| (*connection, known))?;
        match report.news {
            ConnectionEvent::Up { orders, .. } => {
                known.orders = Some(orders);
                known.trouble = None;
                let (level, demo) =
                    (mezza_messenger::carriers::relay::CAPS.level, self.dialer.demo);
                Some(RelayInput::Up { connection, level, demo }.into())
            }
            ConnectionEvent::Down => {
                known.orders = None;
                known.unconfirmed.clear();
                Some(RelayInput::Down { connection }.into())
            }
            ConnectionEvent::Trouble(text) => {
                known.trouble = text;
                None
            }
            ConnectionEvent::Input(input) => {
                if let CarrierInput::Relay(
                    RelayInput::Done { ticket } | RelayInput::Refused { ticket, .. },
                ) = &input
                {
                    known.unconfirmed.remove(ticket);
                }
                Some(input)
            }
        }
    }

    /// The faults of the connections, in words for people.
    pub(crate) fn troubles(&self) -> impl Iterator<Item = &str> {
        self.connections.values().filter_map(|connection| connection.trouble.as_deref())
    }

    /// Why the entry server of the mixnet is not who it should be, in words for people.
    pub(crate) fn entry_trouble(&self) -> Option<&str> {
        self.net.as_ref().and_then(mixnet::EntryConnection::trouble)
    }

    /// Whether each relay has answered every request to open an own mailbox or to publish prekeys.
    pub(crate) fn relays_have_confirmed(&self) -> bool {
        self.connections.values().all(|connection| connection.unconfirmed.is_empty())
    }

    /// Closes all connections.
    pub(crate) fn clear(&mut self) {
        self.connections.clear();
        self.mailboxes.clear();
        self.net = None;
    }

    fn net(&mut self) -> &mut mixnet::EntryConnection<E> {
        self.net.get_or_insert_with(|| {
            self.serial += 1;
            mixnet::EntryConnection::new(self.serial, self.jobs.clone())
        })
    }

    fn dial(&mut self, relay: RelayEntry) {
        let id = relay.connection();
        if self.connections.contains_key(&id) {
            return;
        }
        self.serial += 1;
        let (dialer, clock) = (self.dialer.clone(), self.clock.clone());
        let task = relay::keep(relay, (dialer, clock), self.serial, self.jobs.clone());
        let keeper = tokio::spawn(task);
        let (serial, unconfirmed) = (self.serial, BTreeSet::new());
        let connection = PooledRelay { serial, keeper, orders: None, trouble: None, unconfirmed };
        self.connections.insert(id, connection);
    }

    fn disconnect(&mut self, connection: RelayConnectionId) {
        self.connections.remove(&connection);
        self.mailboxes.retain(|_, at| *at != connection);
    }

    /// Gives an order to a relay's connection. If it is down, the order is dropped: the device asks
    /// again at `Up`. A connection that does not keep up is closed, which the device hears as `Down`.
    fn send(&mut self, connection: RelayConnectionId, output: RelayOutput) {
        let Some(connection) = self.connections.get_mut(&connection) else { return };
        if let RelayOutput::Open { ticket, .. } | RelayOutput::Publish { ticket, .. } = &output {
            connection.unconfirmed.insert(*ticket);
        }
        if connection.orders.as_ref().is_some_and(|orders| !orders.give(output)) {
            connection.orders = None;
        }
    }
}

impl Drop for PooledRelay {
    fn drop(&mut self) {
        self.keeper.abort();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mezza_core::Secret;
    use mezza_messenger::relay_wire::{MailboxAddress, MailboxKind};

    #[tokio::test]
    async fn msg_50_a_line_goes_by_key_host_and_port() {
        let (jobs, _reports) = mpsc::channel::<ConnectionReport>(8);
        let mut adapters = Adapters::new(Dialer::default(), Clock::default(), jobs);
        let at = |port| RelayEntry {
            key: RelayKey([7; 32]),
            address: MailboxAddress([0; 16]),
            port,
            host: "127.0.0.1".into(),
        };
        let (evil, good) = (at(1), at(2));
        for relay in [&evil, &good, &good] {
            adapters.order(RelayOutput::Connect { relay: relay.clone() }.into());
        }
        assert_eq!(adapters.connections.keys().count(), 2);
        let serial = adapters.connections[&evil.connection()].serial;
        let heard = adapters.report(ConnectionReport { serial, news: ConnectionEvent::Down });
        assert!(
            matches!(heard, Some(CarrierInput::Relay(RelayInput::Down { connection })) if connection == evil.connection())
        );
        adapters.order(RelayOutput::Disconnect { connection: evil.connection() }.into());
        assert!(adapters.connections.keys().eq([&good.connection()]));
    }

    #[tokio::test]
    async fn a_relay_has_confirmed_once_it_answers_or_its_connection_breaks() {
        let (jobs, _reports) = mpsc::channel::<ConnectionReport>(8);
        let mut adapters = Adapters::new(Dialer::default(), Clock::default(), jobs);
        let address = MailboxAddress([0; 16]);
        let relay =
            RelayEntry { key: RelayKey([7; 32]), address, port: 1, host: "127.0.0.1".into() };
        let connection = relay.connection();
        adapters.order(RelayOutput::Connect { relay }.into());
        let serial = adapters.connections[&connection].serial;
        let open = |ticket| {
            let (token, kind) = (Secret::init_with(|_| {}), MailboxKind::Intro);
            CarrierOutput::from(RelayOutput::Open { ticket, connection, token, kind })
        };
        let (one, two) = (RequestId(1), RequestId(2));
        assert!(adapters.relays_have_confirmed());
        adapters.order(open(one));
        adapters.order(open(two));
        let refused = RelayInput::Refused { ticket: one, code: 5, retry_s: 9 };
        for answer in [RelayInput::Done { ticket: two }, refused] {
            assert!(!adapters.relays_have_confirmed());
            let news = ConnectionEvent::Input(answer.into());
            assert!(adapters.report(ConnectionReport { serial, news }).is_some());
        }
        assert!(adapters.relays_have_confirmed());
        adapters.order(open(one));
        adapters.report(ConnectionReport { serial, news: ConnectionEvent::Down });
        assert!(adapters.relays_have_confirmed());
    }
}
