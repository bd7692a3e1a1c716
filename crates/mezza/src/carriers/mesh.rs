//! The mesh node of this home, through its control socket, and the trials of what it carries.
//!
//! ```text
//! node --clock, cells, progress of own cells--> listener thread --> device
//! device --Send--> sender thread --one request for each cell--> node
//! ```
//!
//! The node is a server of its own that forwards cells while the vault is locked. It does not learn
//! which cells this device can open, so that no frame depends on it (MESH-33). Without the keys of
//! an unlocked device no cell is tried.
//!
//! Two threads and one open connection serve all cells of a device, however many they are and
//! however long they live (MESH-86).

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use mezza_hibe::{
    CarriedEnvelope, EnvelopeTime, Life, OpenedEnvelope, Tick, Trial, trial_open_carried,
};
use mezza_messenger::CarrierInput;
use mezza_messenger::carriers::mesh::{CAPS, MeshInput, MeshOutput, MeshReport, TrialKeys};
use rand_core::Rng as _;
use serde_json::{Value, json};

use super::{Adapter, ConnectionEvent, ConnectionReport, Reporter};
use mezza_host::api::json::HealthLine;
use mezza_host::api::words::{self, CarrierFacts};
use mezza_host::api::{Exit, Fault};
use mezza_host::clock::Clock;
use mezza_host::process::control::{self, ControlLines};
use mezza_host::process::rng::OsRng;

/// Pause between two attempts to reach the node.
const AGAIN: Duration = Duration::from_secs(2);
/// The longest time between two reports of boot time while no node answers.
const AWAY: Duration = Duration::from_secs(30);
/// The next step if no node answers.
const START: &str = "look at the log of `mezza node run`";

/// The mesh node of a home.
#[derive(Clone, Debug)]
pub struct MeshPlace {
    /// The control socket of the node.
    pub socket: PathBuf,
    /// The life (lifetime class of keys) for which our notes are sealed, if the contact's card
    /// offers it.
    pub life: Life,
}

/// State that the adapter shares with its threads.
#[derive(Default)]
struct Shared {
    /// The keys of the present epochs; `None` while the device is locked or has none.
    keys: Mutex<Option<TrialKeys>>,
    /// The number of the thread that listens; earlier ones end at their next line.
    listener: AtomicU64,
    /// The reason why no node answers, in words for the user.
    trouble: Mutex<Option<String>>,
    /// The stream of the listener, and the cells that it follows.
    stream: Mutex<Stream>,
}

/// The stream on which the node reports the progress of our cells.
#[derive(Default)]
struct Stream {
    /// The name of the listener while the node answers.
    name: Option<u64>,
    /// The serial number of the device that the stream serves.
    serial: u64,
    /// Cells whose progress is still awaited.
    tickets: BTreeSet<u64>,
}

impl Shared {
    fn keys(&self) -> Option<TrialKeys> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Replaces the keys. Returns true if there were none before.
    fn set_keys(&self, keys: Option<TrialKeys>) -> bool {
        let mut held = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut *held, keys).is_none()
    }

    fn set_trouble(&self, trouble: Option<String>) {
        *self.trouble.lock().unwrap_or_else(PoisonError::into_inner) = trouble;
    }

    fn is_listener(&self, number: u64) -> bool {
        self.listener.load(Ordering::Relaxed) == number
    }

    fn stream(&self) -> MutexGuard<'_, Stream> {
        self.stream.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the wait for a cell. Returns false if it ended before.
    fn end_ticket(&self, serial: u64, ticket: u64) -> bool {
        let mut stream = self.stream();
        stream.serial == serial && stream.tickets.remove(&ticket)
    }
}

impl Stream {
    /// Begins the stream of a listener. Returns the cells of an earlier stream of the same device,
    /// whose progress no stream reports any more.
    fn begin(&mut self, name: u64, serial: u64) -> BTreeSet<u64> {
        let old =
            std::mem::replace(self, Self { name: Some(name), serial, tickets: BTreeSet::new() });
        if old.serial == serial { old.tickets } else { BTreeSet::new() }
    }

    /// Ends the stream of a listener. Returns the cells whose progress no stream reports any more.
    fn end(&mut self, name: u64) -> BTreeSet<u64> {
        // A later listener has taken over.
        if self.name != Some(name) {
            return BTreeSet::new();
        }
        self.name = None;
        std::mem::take(&mut self.tickets)
    }
}

/// A cell that the device wants to flood.
struct CellOrder<E> {
    ticket: u64,
    life: u8,
    tick: u32,
    envelope: Vec<u8>,
    /// The reporter of the device that gave the order.
    reporter: Reporter<E>,
}

/// The orders that wait for the sender thread. The device bounds them by the cells of each contact.
struct OrderQueue<E> {
    sender: mpsc::Sender<CellOrder<E>>,
    /// The thread that sends holds the lock while it lives.
    receiver: Arc<Mutex<mpsc::Receiver<CellOrder<E>>>>,
    thread: Option<JoinHandle<()>>,
}

/// The mesh of one node; without a place there is none.
pub(crate) struct MeshAdapter<E> {
    place: Option<MeshPlace>,
    reporter: Reporter<E>,
    clock: Clock,
    /// The start of the present device; reports from before it are dropped.
    since: u64,
    shared: Arc<Shared>,
    orders: OrderQueue<E>,
    /// False if the system refused a thread to the listener; the next order tries again.
    listens: bool,
}

impl<E: From<ConnectionReport> + Send + 'static> MeshAdapter<E> {
    /// Makes the adapter. It begins to listen with a device.
    pub(super) fn new(place: Option<MeshPlace>, clock: Clock, reporter: Reporter<E>) -> Self {
        let (sender, receiver) = mpsc::channel();
        let orders = OrderQueue { sender, receiver: Arc::new(Mutex::new(receiver)), thread: None };
        Self { place, reporter, clock, since: 0, shared: Arc::default(), orders, listens: false }
    }

    /// Begins to listen for a device that was opened. Returns its first input.
    pub(super) fn on_device_open(&mut self) -> Option<CarrierInput> {
        let life = self.place.as_ref()?.life;
        self.since = self.reporter.next_connection().serial;
        self.start_listening();
        Some(MeshInput::Life(life).into())
    }

    /// Starts a thread that listens, in the place of an earlier one. The node names all cells that
    /// it holds to a new listener.
    fn start_listening(&mut self) {
        let Some(place) = &self.place else { return };
        let number = self.shared.listener.fetch_add(1, Ordering::Relaxed) + 1;
        let listener = Listener {
            number,
            socket: place.socket.clone(),
            clock: self.clock.clone(),
            reporter: self.reporter.clone(),
            shared: Arc::clone(&self.shared),
        };
        self.listens =
            spawn_thread(&self.shared, "mesh listener", move || listener.run()).is_some();
    }

    /// Carries out an order of the device.
    pub(super) fn carry_out_order(&mut self, order: MeshOutput) {
        if !self.listens && self.since > 0 {
            self.start_listening();
        }
        match order {
            MeshOutput::Keys(keys) => {
                // Cells that arrived before the first keys are requested again.
                if self.shared.set_keys(Some(keys)) {
                    self.start_listening();
                }
            }
            MeshOutput::Send { ticket, life, tick, envelope } => {
                let reporter = self.reporter.clone();
                self.send_cell(CellOrder { ticket, life, tick, envelope, reporter });
            }
            // The node's shell stores keyrings itself.
            MeshOutput::Keyring(_) => {}
        }
    }

    /// Queues a cell for the sender thread, which is started if it does not run.
    fn send_cell(&mut self, order: CellOrder<E>) {
        let Some(place) = &self.place else { return };
        // The receiver lives as long as the adapter, so the order waits even without a thread.
        let _ = self.orders.sender.send(order);
        if self.orders.thread.as_ref().is_some_and(|thread| !thread.is_finished()) {
            return;
        }
        let sender = CellSender {
            socket: place.socket.clone(),
            shared: Arc::clone(&self.shared),
            orders: Arc::clone(&self.orders.receiver),
        };
        self.orders.thread = spawn_thread(&self.shared, "mesh sender", move || sender.run());
    }
}

/// Starts a thread. A system that refuses one is named as the trouble; the next order of the device
/// tries again.
fn spawn_thread(
    shared: &Shared,
    name: &str,
    work: impl FnOnce() + Send + 'static,
) -> Option<JoinHandle<()>> {
    match thread::Builder::new().name(name.into()).spawn(work) {
        Ok(thread) => Some(thread),
        Err(error) => {
            tracing::warn!(target: "mezza", %error, "no thread for the mesh");
            shared.set_trouble(Some(format!("the system refuses a thread: {error}")));
            None
        }
    }
}

/// Reports an input for the device. Returns false if the program has ended.
fn report_input<E: From<ConnectionReport>>(reporter: &Reporter<E>, input: MeshInput) -> bool {
    reporter.report_blocking(ConnectionEvent::Input(input.into()))
}

/// The thread that hands cells to the node.
struct CellSender<E> {
    socket: PathBuf,
    shared: Arc<Shared>,
    orders: Arc<Mutex<mpsc::Receiver<CellOrder<E>>>>,
}

impl<E: From<ConnectionReport>> CellSender<E> {
    /// Sends cells until the adapter is gone.
    fn run(self) {
        let orders = self.orders.lock().unwrap_or_else(PoisonError::into_inner);
        for order in orders.iter() {
            self.send(&order);
        }
    }

    /// Hands a cell to the node. The listener reports its progress, and its end.
    fn send(&self, order: &CellOrder<E>) {
        let CellOrder { ticket, reporter, .. } = order;
        let name = {
            let mut stream = self.shared.stream();
            match stream.name {
                // The cell is awaited before it is sent, because its progress may be reported
                // before the request returns.
                Some(name) if stream.serial == reporter.serial => {
                    stream.tickets.insert(*ticket);
                    name
                }
                // No node answers. The device tries again, or has gone.
                _ => {
                    drop(stream);
                    report_input(reporter, MeshInput::Refused { ticket: *ticket });
                    return;
                }
            }
        };
        let ask = json!({
            "ask": "send", "life": order.life, "tick": order.tick,
            "envelope": data_encoding::BASE64.encode(&order.envelope),
            "follower": { "listener": name, "ticket": ticket },
        });
        let Err(fault) = request_line(&self.socket, &ask) else { return };
        let end = match fault.code {
            // The tick of the envelope is past: its note is sealed for another one.
            Exit::No | Exit::Config => MeshInput::Expired { ticket: *ticket },
            _ => MeshInput::Refused { ticket: *ticket },
        };
        // The stream may have ended meanwhile, and reported the same.
        if self.shared.end_ticket(reporter.serial, *ticket) {
            report_input(reporter, end);
        }
    }
}

/// Sends a request whose response is one line.
fn request_line(socket: &Path, ask: &Value) -> Result<Value, Fault> {
    let gone = || Fault::new(Exit::Unreachable, "the mesh node ended", START);
    control::ask_server(socket, ask, START)?.next().ok_or_else(gone)?
}

/// One thread that listens to the node.
struct Listener<E> {
    number: u64,
    socket: PathBuf,
    clock: Clock,
    reporter: Reporter<E>,
    shared: Arc<Shared>,
}

impl<E: From<ConnectionReport>> Listener<E> {
    fn run(self) {
        let mut since_report = AWAY;
        while self.shared.is_listener(self.number) {
            let name = OsRng.next_u64();
            let ask = json!({ "ask": "listen", "name": name });
            match control::ask_server(&self.socket, &ask, START) {
                Ok(lines) => {
                    self.read_lines(name, lines);
                    let lost = self.shared.stream().end(name);
                    self.report_refused(&lost);
                    since_report = AWAY;
                }
                Err(fault) if self.shared.is_listener(self.number) => {
                    self.shared.set_trouble(Some(fault.text));
                }
                Err(_) => return,
            }
            if !self.shared.is_listener(self.number) {
                return;
            }
            // Keys are erased by boot time while no node answers (HIBE-74).
            if since_report >= AWAY {
                since_report = Duration::ZERO;
                let boot_ms = self.clock.boot().as_ms();
                if !self.report(MeshInput::Away { boot_ms }) {
                    return;
                }
            }
            thread::sleep(AGAIN);
            since_report += AGAIN;
        }
    }

    fn report(&self, input: MeshInput) -> bool {
        report_input(&self.reporter, input)
    }

    /// Reports cells whose progress nobody receives any more: the device sends them again.
    fn report_refused(&self, tickets: &BTreeSet<u64>) {
        for ticket in tickets {
            self.report(MeshInput::Refused { ticket: *ticket });
        }
    }

    /// Reads lines until the node ends, or another listener takes over.
    fn read_lines(&self, name: u64, lines: ControlLines) {
        for line in lines {
            let line = match line {
                Ok(line) => line,
                Err(fault) => return self.shared.set_trouble(Some(fault.text)),
            };
            if !self.shared.is_listener(self.number) {
                return;
            }
            let input = match line["event"].as_str() {
                Some("listening") => {
                    self.shared.set_trouble(None);
                    let lost = self.shared.stream().begin(name, self.reporter.serial);
                    self.report_refused(&lost);
                    None
                }
                Some("clock") => {
                    Some(MeshInput::Clock(read_clock(&line, self.clock.boot().as_ms())))
                }
                Some("cell") => self.try_cell(&line).map(MeshInput::Opened),
                Some("handed" | "carried" | "expired") => self.read_progress(&line),
                // Lost cells come with the next listener, if they still live then.
                _ => None,
            };
            if input.is_some_and(|input| !self.report(input)) {
                return;
            }
        }
    }

    /// Reads the progress of an own cell. Returns `None` if nobody waits for it.
    fn read_progress(&self, line: &Value) -> Option<MeshInput> {
        let ticket = line["ticket"].as_u64()?;
        if line["event"] == "expired" {
            let is_awaited = self.shared.end_ticket(self.reporter.serial, ticket);
            return is_awaited.then_some(MeshInput::Expired { ticket });
        }
        let is_awaited = self.shared.stream().tickets.contains(&ticket);
        let names = u16::try_from(line["names"].as_u64().unwrap_or(1)).unwrap_or(u16::MAX);
        is_awaited.then_some(MeshInput::Announced { ticket, names })
    }

    fn try_cell(&self, line: &Value) -> Option<OpenedEnvelope> {
        // Without keys nothing can be tried. The next listener gets the cell again.
        let keys = self.shared.keys()?;
        let number = |key: &str| line[key].as_u64().and_then(|n| u32::try_from(n).ok());
        let life = u8::try_from(number("life")?).ok().and_then(Life::from_number)?;
        let time = EnvelopeTime { life, tick: Tick(number("tick")?) };
        let envelope = data_encoding::BASE64.decode(line["envelope"].as_str()?.as_bytes()).ok()?;
        let carried = CarriedEnvelope { envelope: &envelope, time: Some(time) };
        match trial_open_carried(&keys.system, &keys.held, &[carried]).pop()? {
            Trial::Opened(opened) => Some(opened),
            Trial::NotForMe | Trial::NoKey | Trial::Malformed => None,
        }
    }
}

/// Reads a line whose event is `clock`.
fn read_clock(line: &Value, boot_ms: u64) -> MeshReport {
    let number = |key: &str| line[key].as_u64().and_then(|n| u32::try_from(n).ok());
    let cur = number("cur").unwrap_or(0);
    MeshReport {
        cur,
        own: number("anchor_tick").unwrap_or(cur),
        within_ms: line["within_ms"].as_u64().unwrap_or(u64::MAX),
        settled: line["grade"] == "good" || line["state"] == "agreed",
        around: number("around").unwrap_or(0),
        boot_ms,
        // Addresses of the operating system stay on IP links.
        level: CAPS.level,
    }
}

impl<E: From<ConnectionReport> + Send + 'static> Adapter for MeshAdapter<E> {
    fn handle_report(&mut self, serial: u64, news: ConnectionEvent) -> Option<CarrierInput> {
        match news {
            ConnectionEvent::Input(input) if serial >= self.since && self.since > 0 => Some(input),
            _ => None,
        }
    }

    fn health_lines(&self, facts: &CarrierFacts) -> Vec<HealthLine> {
        if self.place.is_none() {
            return Vec::new();
        }
        let trouble = self.shared.trouble.lock().unwrap_or_else(PoisonError::into_inner).clone();
        vec![words::mesh::describe_health(trouble.as_deref(), facts)]
    }

    /// Forgets the keys. The node continues and does not notice this.
    fn on_device_gone(&mut self) {
        self.since = 0;
        self.listens = false;
        self.shared.listener.fetch_add(1, Ordering::Relaxed);
        *self.shared.stream() = Stream::default();
        self.shared.set_keys(None);
    }
}

#[cfg(test)]
mod tests;
