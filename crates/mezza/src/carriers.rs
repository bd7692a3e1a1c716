//! Carriers outside the device: the lines to relays, and the line to a mixnet.
//!
//! The pool holds no state but live connections. A connection that breaks voids what was in
//! flight on it; the device asks again once it hears `Up`. Every line has a serial number, so
//! that a late report of a line that was hung up is dropped.

pub mod mixnet;
pub mod relay;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use mezza_messenger::card::RelayEntry;
use mezza_messenger::{CarrierCaps, Input, Output, SlotId};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::node::Job;
use crate::relay::Tap;

/// Orders that may wait for one line: more than a device has in flight.
pub const ORDERS_MAX: usize = 4_096;

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

impl Dialer {
    /// What a relay can do, as dialled from here.
    pub fn caps(&self) -> CarrierCaps {
        CarrierCaps { demo: self.demo, ..CarrierCaps::RELAY }
    }
}

/// What a line tells the node.
pub struct Report {
    /// Which line.
    pub serial: u64,
    /// What.
    pub news: News,
}

/// What happened on a line.
pub enum News {
    /// It stands; orders go here until it is down.
    Up {
        /// The relay's key.
        relay: [u8; 32],
        /// What it can do.
        caps: CarrierCaps,
        /// Where orders go.
        orders: relay::Orders,
    },
    /// It is gone.
    Down {
        /// The relay's key.
        relay: [u8; 32],
    },
    /// Something for the device.
    Input(Input),
    /// It cannot be reached or trusted, in words for people.
    Trouble {
        /// The relay's key.
        relay: [u8; 32],
        /// What is wrong and what to do.
        text: String,
    },
}

struct Line {
    serial: u64,
    keeper: JoinHandle<()>,
    orders: Option<relay::Orders>,
    trouble: Option<String>,
}

/// All lines of one node.
pub struct Pool {
    dialer: Dialer,
    jobs: mpsc::Sender<Job>,
    lines: BTreeMap<[u8; 32], Line>,
    slots: BTreeMap<SlotId, [u8; 32]>,
    /// The line to the mixnet, once the device wants one.
    net: Option<mixnet::Line>,
    serial: u64,
    /// How many parcels were ordered to be carried.
    #[cfg(test)]
    pub(crate) carried: usize,
}

impl Pool {
    /// A pool without lines.
    pub fn new(dialer: Dialer, jobs: mpsc::Sender<Job>) -> Self {
        let (lines, slots) = (BTreeMap::new(), BTreeMap::new());
        Self {
            dialer,
            jobs,
            lines,
            slots,
            net: None,
            serial: 0,
            #[cfg(test)]
            carried: 0,
        }
    }

    /// Carries out an output of the device.
    pub fn order(&mut self, output: Output) {
        #[cfg(test)]
        {
            self.carried += usize::from(matches!(output, Output::Carry { .. }));
        }
        let output = match output {
            Output::Net(order) => return self.net().order(order),
            output => output,
        };
        match &output {
            Output::Dial { relay } => self.dial(relay.clone()),
            Output::Hang { relay } => self.hang(relay),
            Output::Watch { slot, relay, .. } => {
                self.slots.insert(*slot, *relay);
                let relay = *relay;
                self.send(&relay, output);
            }
            Output::Take { slot, .. } => {
                if let Some(relay) = self.slots.get(slot).copied() {
                    self.send(&relay, output);
                }
            }
            Output::Carry { relay, .. }
            | Output::Open { relay, .. }
            | Output::Close { relay, .. }
            | Output::Publish { relay, .. }
            | Output::Fetch { relay, .. } => {
                let relay = *relay;
                self.send(&relay, output);
            }
            Output::Net(_) | Output::Store(_) | Output::Durable(_) | Output::Show(_) => {}
        }
    }

    /// Takes a report in; what is for the device comes back.
    pub fn report(&mut self, report: Report) -> Option<Input> {
        if self.net.as_ref().is_some_and(|net| net.serial() == report.serial) {
            return match report.news {
                News::Input(input) => Some(input),
                _ => None,
            };
        }
        let known = self.lines.values_mut().find(|line| line.serial == report.serial)?;
        match report.news {
            News::Up { relay, caps, orders } => {
                known.orders = Some(orders);
                known.trouble = None;
                Some(Input::Up { relay, caps })
            }
            News::Down { relay } => {
                known.orders = None;
                Some(Input::Down { relay })
            }
            News::Trouble { text, .. } => {
                known.trouble = Some(text);
                None
            }
            News::Input(input) => Some(input),
        }
    }

    /// What is wrong with the lines, in words for people.
    pub fn troubles(&self) -> impl Iterator<Item = &str> {
        self.lines.values().filter_map(|line| line.trouble.as_deref())
    }

    /// Hangs all lines up.
    pub fn clear(&mut self) {
        for line in std::mem::take(&mut self.lines).into_values() {
            line.keeper.abort();
        }
        self.slots.clear();
        self.net = None;
    }

    fn net(&mut self) -> &mut mixnet::Line {
        self.net.get_or_insert_with(|| {
            self.serial += 1;
            mixnet::Line::new(self.serial, self.jobs.clone())
        })
    }

    fn dial(&mut self, relay: RelayEntry) {
        if self.lines.contains_key(&relay.key) {
            return;
        }
        self.serial += 1;
        let key = relay.key;
        let task = relay::keep(relay, self.dialer.clone(), self.serial, self.jobs.clone());
        let keeper = tokio::spawn(task);
        let line = Line { serial: self.serial, keeper, orders: None, trouble: None };
        self.lines.insert(key, line);
    }

    fn hang(&mut self, relay: &[u8; 32]) {
        if let Some(line) = self.lines.remove(relay) {
            line.keeper.abort();
        }
        self.slots.retain(|_, at| at != relay);
    }

    /// Gives an order to a line. A line that is down needs none: the device asks again at `Up`.
    /// One that does not keep up is cut off, which the device hears as `Down`.
    fn send(&mut self, relay: &[u8; 32], output: Output) {
        let Some(line) = self.lines.get_mut(relay) else { return };
        if line.orders.as_ref().is_some_and(|orders| !orders.give(output)) {
            line.orders = None;
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.clear();
    }
}
