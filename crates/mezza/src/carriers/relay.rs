//! The connections to relays.
//!
//! A relay is named by its key, host and port (`RelayConnectionId`). If its connection breaks, its
//! requests in flight are lost, and the device repeats them after `Up`.

mod flight;
mod keeper;

use std::collections::{BTreeMap, BTreeSet};
use std::iter;
use std::net::SocketAddr;
use std::sync::Arc;

use mezza_messenger::card::{RelayEntry, RelayKey};
use mezza_messenger::carriers::relay::CAPS;
use mezza_messenger::view::ConnectionView;
use mezza_messenger::{
    CarrierInput, MailboxId, RelayConnectionId, RelayInput, RelayOutput, RequestId,
};
use tokio::task::JoinSet;

use super::{Adapter, ConnectionEvent, ConnectionReport, Reporter};
use mezza_host::api::json::HealthLine;
use mezza_host::api::words::{self, CarrierFacts};
use mezza_host::clock::Clock;
use mezza_host::connection::tap::Tap;

pub(crate) use keeper::RelayCommands;

/// Options for connections to relays.
#[derive(Clone, Default)]
pub struct Dialer {
    /// Addresses of relays that run in this process, used instead of those in their cards.
    pub at_home: BTreeMap<RelayKey, SocketAddr>,
    /// Records the bytes of connections, below and above TLS.
    pub tap: Option<Arc<dyn Tap>>,
    /// True if the carrier must be labelled as a demonstration.
    pub demo: bool,
}

struct PooledRelay {
    serial: u64,
    _keeper: JoinSet<()>,
    orders: Option<RelayCommands>,
    trouble: Option<String>,
    /// Requests to open our own mailbox or to publish prekeys that the relay has not confirmed yet.
    unconfirmed: BTreeSet<RequestId>,
}

/// The connections of one node to relays.
pub(crate) struct RelayAdapter<E> {
    dialer: Dialer,
    clock: Clock,
    reporter: Reporter<E>,
    connections: BTreeMap<RelayConnectionId, PooledRelay>,
    mailboxes: BTreeMap<MailboxId, RelayConnectionId>,
    /// Number of parcels ordered to be carried.
    #[cfg(test)]
    pub(super) carried: usize,
}

impl<E: From<ConnectionReport> + Send + 'static> RelayAdapter<E> {
    /// Makes the adapter, without connections.
    pub(super) fn new(dialer: Dialer, clock: Clock, reporter: Reporter<E>) -> Self {
        Self {
            dialer,
            clock,
            reporter,
            connections: BTreeMap::new(),
            mailboxes: BTreeMap::new(),
            #[cfg(test)]
            carried: 0,
        }
    }

    /// Carries out an order of the device for relays.
    pub(super) fn carry_out_order(&mut self, order: RelayOutput) {
        #[cfg(test)]
        {
            self.carried += usize::from(matches!(order, RelayOutput::Put { .. }));
        }
        match &order {
            RelayOutput::Connect { relay } => self.start_dial(relay.clone()),
            RelayOutput::Disconnect { connection } => self.drop_connection(*connection),
            RelayOutput::Watch { mailbox: slot, connection, .. } => {
                self.mailboxes.insert(*slot, *connection);
                self.send_order(*connection, order);
            }
            RelayOutput::Acknowledge { mailbox: slot, .. } => {
                if let Some(connection) = self.mailboxes.get(slot).copied() {
                    self.send_order(connection, order);
                }
            }
            RelayOutput::Put { connection, .. }
            | RelayOutput::Open { connection, .. }
            | RelayOutput::Close { connection, .. }
            | RelayOutput::Publish { connection, .. }
            | RelayOutput::Fetch { connection, .. } => self.send_order(*connection, order),
        }
    }

    fn start_dial(&mut self, relay: RelayEntry) {
        let id = relay.connection_id();
        if self.connections.contains_key(&id) {
            return;
        }
        let reporter = self.reporter.next_connection();
        let serial = reporter.serial;
        let mut keeper = JoinSet::new();
        let dialer = self.dialer.clone();
        keeper.spawn(keeper::keep_connected(relay, dialer, self.clock.clone(), reporter));
        let orders = None;
        let trouble = None;
        let unconfirmed = BTreeSet::new();
        let connection = PooledRelay { serial, _keeper: keeper, orders, trouble, unconfirmed };
        self.connections.insert(id, connection);
    }

    fn drop_connection(&mut self, connection: RelayConnectionId) {
        self.connections.remove(&connection);
        self.mailboxes.retain(|_, at| *at != connection);
    }

    /// Passes an order to a relay's connection. Without a connection the order is dropped: the
    /// device repeats it at `Up`. A connection with a full queue is closed, and the device gets
    /// `Down`.
    fn send_order(&mut self, connection: RelayConnectionId, output: RelayOutput) {
        let Some(connection) = self.connections.get_mut(&connection) else { return };
        if let RelayOutput::Open { ticket, .. } | RelayOutput::Publish { ticket, .. } = &output {
            connection.unconfirmed.insert(*ticket);
        }
        if connection.orders.as_ref().is_some_and(|orders| !orders.send_order(output)) {
            connection.orders = None;
        }
    }

    /// Returns true if each relay has confirmed every request to open our own mailbox or to publish
    /// prekeys.
    fn have_confirmed(&self) -> bool {
        self.connections.values().all(|connection| connection.unconfirmed.is_empty())
    }
}

impl<E: From<ConnectionReport> + Send + 'static> Adapter for RelayAdapter<E> {
    fn handle_report(&mut self, serial: u64, news: ConnectionEvent) -> Option<CarrierInput> {
        let mut known = self.connections.iter_mut();
        let (connection, known) = known.find(|(_, known)| known.serial == serial)?;
        let connection = *connection;
        match news {
            ConnectionEvent::Up { orders, .. } => {
                (known.orders, known.trouble) = (Some(orders), None);
                let level = CAPS.level;
                let demo = self.dialer.demo;
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
            // Frames belong to the mixnet.
            ConnectionEvent::Frame { .. } => None,
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

    fn health_lines(&self, facts: &CarrierFacts) -> Vec<HealthLine> {
        let is_left = |id: RelayConnectionId| {
            let left = facts.connections.iter().filter(|connection| connection.left.is_some());
            let mut left = left.filter_map(|connection| connection.relay.as_ref());
            left.any(|relay| relay.connection_id() == id)
        };
        let mut in_use = self.connections.iter().filter(|(id, _)| !is_left(**id));
        let trouble = in_use.find_map(|(_, known)| known.trouble.as_deref());
        let line = words::relay::describe_health(trouble, &facts.connections);
        let mailbox = words::relay::mailbox_line(&facts.connections, self.have_confirmed());
        let left = |one: &ConnectionView| words::relay::left_line(one, facts.date);
        let left = facts.connections.iter().filter_map(left);
        iter::once(line).chain(mailbox).chain(left).collect()
    }

    /// True if one relay is connected, and all have confirmed mailbox and prekeys.
    fn is_reachable(&self) -> bool {
        self.connections.values().any(|known| known.orders.is_some()) && self.have_confirmed()
    }

    /// Closes all connections.
    fn on_device_gone(&mut self) {
        self.connections.clear();
        self.mailboxes.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mezza_core::Secret;
    use mezza_messenger::CarrierId;
    use mezza_messenger::relay_wire::{MailboxAddress, MailboxKind};
    use tokio::sync::mpsc;

    fn adapter() -> RelayAdapter<ConnectionReport> {
        let reporter = Reporter::new(CarrierId::RELAY, mpsc::channel(8).0);
        RelayAdapter::new(Dialer::default(), Clock::default(), reporter)
    }

    fn relay(port: u16) -> RelayEntry {
        let key = RelayKey([7; 32]);
        let address = MailboxAddress([0; 16]);
        RelayEntry { key, address, port, host: "127.0.0.1".into() }
    }

    #[tokio::test]
    async fn msg_50_a_line_goes_by_key_host_and_port() {
        let mut adapter = adapter();
        let evil = relay(1);
        let good = relay(2);
        for relay in [&evil, &good, &good] {
            adapter.carry_out_order(RelayOutput::Connect { relay: relay.clone() });
        }
        assert_eq!(adapter.connections.keys().count(), 2);
        let serial = adapter.connections[&evil.connection_id()].serial;
        let heard = adapter.handle_report(serial, ConnectionEvent::Down);
        assert!(
            matches!(heard, Some(CarrierInput::Relay(RelayInput::Down { connection })) if connection == evil.connection_id())
        );
        adapter.carry_out_order(RelayOutput::Disconnect { connection: evil.connection_id() });
        assert!(adapter.connections.keys().eq([&good.connection_id()]));
        assert!(adapter.handle_report(serial, ConnectionEvent::Down).is_none(), "it was closed");
    }

    #[tokio::test]
    async fn a_relay_has_confirmed_once_it_answers_or_its_connection_breaks() {
        let mut adapter = adapter();
        let relay = relay(1);
        let connection = relay.connection_id();
        adapter.carry_out_order(RelayOutput::Connect { relay });
        let serial = adapter.connections[&connection].serial;
        let open = |ticket| {
            let token = Secret::init_with(|_| {});
            let kind = MailboxKind::Intro;
            RelayOutput::Open { ticket, connection, token, kind }
        };
        let one = RequestId(1);
        let two = RequestId(2);
        assert!(adapter.have_confirmed());
        adapter.carry_out_order(open(one));
        adapter.carry_out_order(open(two));
        let refused = RelayInput::Refused { ticket: one, code: 5, retry_s: 9 };
        for answer in [RelayInput::Done { ticket: two }, refused] {
            assert!(!adapter.have_confirmed());
            let news = ConnectionEvent::Input(answer.into());
            assert!(adapter.handle_report(serial, news).is_some());
        }
        assert!(adapter.have_confirmed());
        adapter.carry_out_order(open(one));
        adapter.handle_report(serial, ConnectionEvent::Down);
        assert!(adapter.have_confirmed());
    }
}
