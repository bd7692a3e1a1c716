//! Adapters of the device's carriers: the connections to relays, and the connection to a mixnet.
//!
//! Adapters hold no state but live connections. A relay is named by its key, host and port
//! (`LineId`). If its connection breaks, the requests in flight are void, and the device repeats
//! them after `Up`. Every connection has a serial number, so that a late report of one that was
//! closed is dropped.

pub(crate) mod mixnet;
mod pace;
pub(crate) mod relay;

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;

use mezza_messenger::card::RelayEntry;
use mezza_messenger::{
    CarrierInput, CarrierOutput, LineId, MailboxId, RelayInput, RelayOutput, RequestId,
};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::connection::tap::Tap;

/// Orders that may wait for one line: more than a device has in flight.
pub(crate) const ORDERS_MAX: usize = 4_096;

/// How relays are dialled.
#[derive(Clone, Default)]
pub struct Dialer {
    /// Relays of this very process, wherever their cards say they are.
    pub at_home: BTreeMap<[u8; 32], SocketAddr>,
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
    },
    /// It is gone.
    Down,
    /// Something for the device.
    Input(CarrierInput),
    /// It cannot be reached or trusted, in words for people.
    Trouble(String),
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
    jobs: mpsc::Sender<E>,
    lines: BTreeMap<LineId, PooledRelay>,
    mailboxes: BTreeMap<MailboxId, LineId>,
    /// The connection to the mixnet, once the device wants one.
    net: Option<mixnet::EntryConnection<E>>,
    serial: u64,
    /// How many parcels were ordered to be carried.
    #[cfg(test)]
    pub(crate) carried: usize,
}

impl<E: From<ConnectionReport> + Send + 'static> Adapters<E> {
    /// No connections yet.
    pub(crate) fn new(dialer: Dialer, jobs: mpsc::Sender<E>) -> Self {
        let (lines, mailboxes) = (BTreeMap::new(), BTreeMap::new());
        Self {
            dialer,
            jobs,
            lines,
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
            CarrierOutput::Mixnet(order) => return self.net().order(order),
            CarrierOutput::Relay(order) => order,
        };
        match &output {
            RelayOutput::Connect { relay } => self.dial(relay.clone()),
            RelayOutput::Disconnect { line } => self.disconnect(*line),
            RelayOutput::Watch { mailbox: slot, line, .. } => {
                self.mailboxes.insert(*slot, *line);
                self.send(*line, output);
            }
            RelayOutput::Acknowledge { mailbox: slot, .. } => {
                if let Some(line) = self.mailboxes.get(slot).copied() {
                    self.send(line, output);
                }
            }
            RelayOutput::Put { line, .. }
            | RelayOutput::Open { line, .. }
            | RelayOutput::Close { line, .. }
            | RelayOutput::Publish { line, .. }
            | RelayOutput::Fetch { line, .. } => self.send(*line, output),
        }
    }

    /// Takes a report in; what is for the device comes back.
    pub(crate) fn report(&mut self, report: ConnectionReport) -> Option<CarrierInput> {
        if self.net.as_ref().is_some_and(|net| net.serial() == report.serial) {
            return match report.news {
                ConnectionEvent::Input(input) => Some(input),
                _ => None,
            };
        }
        let known = self.lines.iter_mut().find(|(_, line)| line.serial == report.serial);
        let (line, known) = known.map(|(line, known)| (*line, known))?;
        match report.news {
            ConnectionEvent::Up { orders } => {
                known.orders = Some(orders);
                known.trouble = None;
                let (level, demo) =
                    (mezza_messenger::carriers::relay::CAPS.level, self.dialer.demo);
                Some(RelayInput::Up { line, level, demo }.into())
            }
            ConnectionEvent::Down => {
                known.orders = None;
                known.unconfirmed.clear();
                Some(RelayInput::Down { line }.into())
            }
            ConnectionEvent::Trouble(text) => {
                known.trouble = Some(text);
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
        self.lines.values().filter_map(|line| line.trouble.as_deref())
    }

    /// Whether each relay has answered every request to open an own mailbox or to publish prekeys.
    pub(crate) fn relays_have_confirmed(&self) -> bool {
        self.lines.values().all(|line| line.unconfirmed.is_empty())
    }

    /// Closes all connections.
    pub(crate) fn clear(&mut self) {
        self.lines.clear();
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
        let id = relay.line();
        if self.lines.contains_key(&id) {
            return;
        }
        self.serial += 1;
        let task = relay::keep(relay, self.dialer.clone(), self.serial, self.jobs.clone());
        let keeper = tokio::spawn(task);
        let (serial, unconfirmed) = (self.serial, BTreeSet::new());
        let line = PooledRelay { serial, keeper, orders: None, trouble: None, unconfirmed };
        self.lines.insert(id, line);
    }

    fn disconnect(&mut self, line: LineId) {
        self.lines.remove(&line);
        self.mailboxes.retain(|_, at| *at != line);
    }

    /// Gives an order to a relay's connection. If it is down, the order is dropped: the device asks
    /// again at `Up`. A connection that does not keep up is closed, which the device hears as `Down`.
    fn send(&mut self, line: LineId, output: RelayOutput) {
        let Some(line) = self.lines.get_mut(&line) else { return };
        if let RelayOutput::Open { ticket, .. } | RelayOutput::Publish { ticket, .. } = &output {
            line.unconfirmed.insert(*ticket);
        }
        if line.orders.as_ref().is_some_and(|orders| !orders.give(output)) {
            line.orders = None;
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
        let mut adapters = Adapters::new(Dialer::default(), jobs);
        let at = |port| RelayEntry {
            key: [7; 32],
            address: MailboxAddress([0; 16]),
            port,
            host: "127.0.0.1".into(),
        };
        let (evil, good) = (at(1), at(2));
        for relay in [&evil, &good, &good] {
            adapters.order(RelayOutput::Connect { relay: relay.clone() }.into());
        }
        assert_eq!(adapters.lines.keys().count(), 2);
        let serial = adapters.lines[&evil.line()].serial;
        let heard = adapters.report(ConnectionReport { serial, news: ConnectionEvent::Down });
        assert!(
            matches!(heard, Some(CarrierInput::Relay(RelayInput::Down { line })) if line == evil.line())
        );
        adapters.order(RelayOutput::Disconnect { line: evil.line() }.into());
        assert!(adapters.lines.keys().eq([&good.line()]));
    }

    #[tokio::test]
    async fn a_relay_has_confirmed_once_it_answers_or_its_connection_breaks() {
        let (jobs, _reports) = mpsc::channel::<ConnectionReport>(8);
        let mut adapters = Adapters::new(Dialer::default(), jobs);
        let address = MailboxAddress([0; 16]);
        let relay = RelayEntry { key: [7; 32], address, port: 1, host: "127.0.0.1".into() };
        let line = relay.line();
        adapters.order(RelayOutput::Connect { relay }.into());
        let serial = adapters.lines[&line].serial;
        let open = |ticket| {
            let (token, kind) = (Secret::init_with(|_| {}), MailboxKind::Intro);
            CarrierOutput::from(RelayOutput::Open { ticket, line, token, kind })
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
