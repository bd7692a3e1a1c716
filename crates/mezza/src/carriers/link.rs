//! Connections between paired devices: TCP on a cable or a local network.
//!
//! ```text
//! listener ----accept----> connection task --frames--> node --> device
//! Dial ------------------> connection task <--Send---- node <-- device
//! WakeAt --> timer task, by boot time --> Due
//! ```
//!
//! The device owns pairings, sessions and all deadlines. This adapter owns the sockets, and holds
//! no key.

mod connection;
mod listener;

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use mezza_core::Time;
use mezza_messenger::carriers::link::{
    GuardTrouble, LinkConnection, LinkReport, PairRequest, PairingStep,
};
use mezza_messenger::{CarrierInput, ContactId, LinkInput, LinkOutput};
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::sleep;

use super::pace::Pace;
use super::{Adapter, ConnectionEvent, ConnectionReport, ORDERS_MAX, Reporter};
use mezza_host::api::json::HealthLine;
use mezza_host::api::words::{self, CarrierFacts};
use mezza_host::clock::Clock;
use mezza_host::process::rng::mix_gift;

pub use listener::LinkListen;

/// The longest sleep of the timer: a suspend stops the clock of the sleep, and not boot time.
const NAP: Duration = Duration::from_secs(5);
/// Accepted connections from one address.
const ACCEPTED_MAX: usize = 4;

/// The open connections, shared with their tasks.
#[derive(Default)]
struct Lines {
    last: AtomicU32,
    open: Mutex<BTreeMap<LinkConnection, mpsc::Sender<Vec<u8>>>>,
    accepted: Mutex<BTreeMap<IpAddr, usize>>,
    /// The last look of the listener; `None` while it starts, and without one.
    listening: Mutex<Option<Listening>>,
}

/// The addresses on which this device accepts connections.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Listening {
    /// The addresses with their real ports.
    pub addresses: Vec<SocketAddr>,
    /// Why an address is missing, in words for the user.
    pub trouble: Option<String>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Lines {
    /// Adds a connection. Returns its number, and the queue of its frames.
    fn add(&self) -> (LinkConnection, mpsc::Receiver<Vec<u8>>) {
        let connection = LinkConnection(self.last.fetch_add(1, Ordering::Relaxed));
        let (orders, queue) = mpsc::channel(ORDERS_MAX);
        lock(&self.open).insert(connection, orders);
        (connection, queue)
    }

    /// Removes a connection. Its task ends once the queued frames are sent.
    fn remove(&self, connection: LinkConnection) -> bool {
        lock(&self.open).remove(&connection).is_some()
    }

    /// Queues a frame. A full queue belongs to a peer that does not read: its connection ends.
    fn send(&self, connection: LinkConnection, bytes: Vec<u8>) {
        let mut open = lock(&self.open);
        let is_sent = open.get(&connection).is_some_and(|orders| orders.try_send(bytes).is_ok());
        if !is_sent {
            open.remove(&connection);
        }
    }

    /// Counts an accepted connection. Returns `None` if the address has too many.
    fn admit(self: &Arc<Self>, from: IpAddr) -> Option<AcceptedSeat> {
        let mut accepted = lock(&self.accepted);
        let count = accepted.entry(from).or_default();
        if *count >= ACCEPTED_MAX {
            return None;
        }
        *count += 1;
        Some(AcceptedSeat { lines: Arc::clone(self), from })
    }
}

/// The place of an accepted connection among those of its address, until it is dropped.
struct AcceptedSeat {
    lines: Arc<Lines>,
    from: IpAddr,
}

impl Drop for AcceptedSeat {
    fn drop(&mut self) {
        let mut accepted = lock(&self.lines.accepted);
        if let Some(count) = accepted.get_mut(&self.from) {
            *count -= 1;
            if *count == 0 {
                accepted.remove(&self.from);
            }
        }
    }
}

/// The context of a task of the adapter.
struct Means<E> {
    reporter: Reporter<E>,
    clock: Clock,
    lines: Arc<Lines>,
    pace: Arc<Pace>,
}

impl<E> Clone for Means<E> {
    fn clone(&self) -> Self {
        Self {
            reporter: self.reporter.clone(),
            clock: self.clock.clone(),
            lines: Arc::clone(&self.lines),
            pace: Arc::clone(&self.pace),
        }
    }
}

impl<E: From<ConnectionReport>> Means<E> {
    /// Reports an event to the device, with the present boot time. Returns false if the node has
    /// ended.
    async fn report_event(&self, event: LinkReport) -> bool {
        let input = at_boot_time(&self.clock, event);
        self.reporter.send_news(ConnectionEvent::Input(input)).await
    }
}

/// Returns an event as an input for the device.
fn at_boot_time(clock: &Clock, event: LinkReport) -> CarrierInput {
    LinkInput { boot_ms: clock.boot().as_ms(), event }.into()
}

/// The last step of a pairing, for the user.
pub(crate) struct PairingState {
    /// The contact of the pairing.
    pub contact: ContactId,
    /// The step; `None` before the first one.
    pub step: Option<PairingStep>,
}

/// The links of one node.
pub(crate) struct LinkAdapter<E> {
    listen: Option<LinkListen>,
    means: Means<E>,
    /// The listener, the timer and the connections; dropping the adapter ends them.
    tasks: JoinSet<()>,
    timer: Option<AbortHandle>,
    pairing: Option<PairingState>,
    /// Why the guard does not lead to the devices of these contacts.
    guard: BTreeMap<ContactId, GuardTrouble>,
}

impl<E: From<ConnectionReport> + Send + 'static> LinkAdapter<E> {
    /// Makes the adapter. It begins to listen with a device.
    pub(super) fn new(listen: Option<LinkListen>, clock: Clock, reporter: Reporter<E>) -> Self {
        let means = Means { reporter, clock, lines: Arc::default(), pace: Arc::new(Pace::new()) };
        Self {
            listen,
            means,
            tasks: JoinSet::new(),
            timer: None,
            pairing: None,
            guard: BTreeMap::new(),
        }
    }

    /// Begins to serve a device that was opened. Returns its first input.
    pub(super) fn on_device_open(&mut self) -> CarrierInput {
        if let Some(listen) = self.listen.clone() {
            self.tasks.spawn(listener::run_listener(listen, self.means.clone()));
        }
        self.make_input(LinkReport::Due)
    }

    /// Returns an event as an input of now.
    pub(super) fn make_input(&self, event: LinkReport) -> CarrierInput {
        at_boot_time(&self.means.clock, event)
    }

    /// Carries out an order of the device.
    pub(super) fn carry_out_order(&mut self, order: LinkOutput) {
        // Ended tasks are forgotten, so that the set does not grow.
        while self.tasks.try_join_next().is_some() {}
        match order {
            LinkOutput::Dial { contact, address } => {
                self.tasks.spawn(connection::dial(contact, address, self.means.clone()));
            }
            LinkOutput::Send { connection, bytes } => self.means.lines.send(connection, bytes),
            LinkOutput::Close { connection } => {
                self.means.lines.remove(connection);
            }
            LinkOutput::WakeAt { boot_ms } => self.set_timer(boot_ms.map(Time::from_ms)),
            LinkOutput::Pairing { contact, step } => {
                self.pairing = Some(PairingState { contact, step: Some(step) });
            }
            // From here on all draws of this program depend on the guard's bytes, too (GUARD-58).
            LinkOutput::Gift { gift } => mix_gift(&gift),
            LinkOutput::GuardTrouble { contact, trouble: None } => {
                self.guard.remove(&contact);
            }
            LinkOutput::GuardTrouble { contact, trouble: Some(trouble) } => {
                self.guard.insert(contact, trouble);
            }
        }
    }

    /// Begins a pairing for the user. Returns the input for the device.
    pub(super) fn begin_pairing(&mut self, request: PairRequest) -> CarrierInput {
        // A refused request leaves the last step of the pairing in progress.
        let is_over = |pairing: &PairingState| {
            matches!(pairing.step, Some(PairingStep::Paired | PairingStep::Failed(_)))
        };
        if self.pairing.as_ref().is_none_or(is_over) {
            self.pairing = Some(PairingState { contact: request.contact, step: None });
        }
        self.make_input(LinkReport::Pair(request))
    }

    /// Returns what the listener has done, or `None` while it starts.
    pub(super) fn listening(&self) -> Option<Listening> {
        lock(&self.means.lines.listening).clone()
    }

    /// Returns the pairing in progress, or the last one.
    pub(super) fn pairing(&self) -> Option<&PairingState> {
        self.pairing.as_ref()
    }

    fn set_timer(&mut self, at: Option<Time>) {
        if let Some(timer) = self.timer.take() {
            timer.abort();
        }
        let Some(at) = at else { return };
        let means = self.means.clone();
        self.timer = Some(self.tasks.spawn(async move {
            loop {
                let left = at.since_ms(means.clock.boot());
                if left == 0 {
                    break;
                }
                sleep(Duration::from_millis(left).min(NAP)).await;
            }
            means.report_event(LinkReport::Due).await;
        }));
    }
}

impl<E: From<ConnectionReport> + Send + 'static> Adapter for LinkAdapter<E> {
    fn handle_report(&mut self, serial: u64, news: ConnectionEvent) -> Option<CarrierInput> {
        match news {
            ConnectionEvent::Input(input) if serial == self.means.reporter.serial => Some(input),
            _ => None,
        }
    }

    fn health_lines(&self, facts: &CarrierFacts) -> Vec<HealthLine> {
        let trouble = self.listening().and_then(|listening| listening.trouble);
        let guard = self.guard.values().next().copied();
        words::link::describe_health(trouble.as_deref(), guard, facts).into_iter().collect()
    }

    /// Late reports of the dropped tasks bear an old serial number and are dropped.
    fn on_device_gone(&mut self) {
        let reporter = self.means.reporter.next_connection();
        *self = Self::new(self.listen.take(), self.means.clock.clone(), reporter);
    }
}
