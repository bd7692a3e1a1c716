//! The mesh node of this home, through its control socket, and the trials of what it carries.
//!
//! ```text
//! node --clock, cells--> thread --trial with the keys of now--> Opened --> device
//! device --Send--> thread of one cell --Announced .. Expired--> device
//! ```
//!
//! The node is a server of its own that forwards while the vault is locked. It knows nothing of
//! what opens here, so that no frame depends on it (MESH-33). Without the keys of an unlocked
//! device nothing is tried.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use mezza_hibe::{
    CarriedEnvelope, EnvelopeTime, Life, OpenedEnvelope, Tick, Trial, trial_open_carried,
};
use mezza_messenger::CarrierInput;
use mezza_messenger::carriers::mesh::{CAPS, MeshInput, MeshOutput, MeshReport, TrialKeys};
use serde_json::{Value, json};

use super::{Adapter, ConnectionEvent, ConnectionReport, Reporter};
use mezza_host::api::json::HealthLine;
use mezza_host::api::words::{self, CarrierFacts};
use mezza_host::api::{Exit, Fault};
use mezza_host::clock::Clock;
use mezza_host::process::control::{self, ControlLines};

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
    /// The life for which own notes are sealed, where the contact's card has it.
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
}

/// The mesh of one node; without a place there is none.
pub(crate) struct MeshAdapter<E> {
    place: Option<MeshPlace>,
    reporter: Reporter<E>,
    clock: Clock,
    /// Reports of earlier devices are dropped.
    since: u64,
    shared: Arc<Shared>,
}

impl<E: From<ConnectionReport> + Send + 'static> MeshAdapter<E> {
    /// Makes the adapter. It begins to listen with a device.
    pub(super) fn new(place: Option<MeshPlace>, clock: Clock, reporter: Reporter<E>) -> Self {
        Self { place, reporter, clock, since: 0, shared: Arc::default() }
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
    fn start_listening(&self) {
        let Some(place) = &self.place else { return };
        let number = self.shared.listener.fetch_add(1, Ordering::Relaxed) + 1;
        let listener = Listener {
            number,
            socket: place.socket.clone(),
            clock: self.clock.clone(),
            reporter: self.reporter.clone(),
            shared: Arc::clone(&self.shared),
        };
        spawn_thread("mesh listener", move || listener.run());
    }

    /// Carries out an order of the device.
    pub(super) fn carry_out_order(&self, order: MeshOutput) {
        match order {
            MeshOutput::Keys(keys) => {
                // Cells that came before the first keys are asked for again.
                if self.shared.set_keys(Some(keys)) {
                    self.start_listening();
                }
            }
            MeshOutput::Send { ticket, life, tick, envelope } => {
                let Some(place) = &self.place else { return };
                let socket = place.socket.clone();
                let reporter = self.reporter.clone();
                let envelope = data_encoding::BASE64.encode(&envelope);
                let ask =
                    json!({ "ask": "send", "life": life, "tick": tick, "envelope": envelope });
                spawn_thread("mesh cell", move || follow_cell(ticket, &ask, &socket, &reporter));
            }
            // The node's shell stores keyrings itself.
            MeshOutput::Keyring(_) => {}
        }
    }
}

/// Starts a thread. A system that refuses one loses a cell or a listener, which is tried again.
fn spawn_thread(name: &str, work: impl FnOnce() + Send + 'static) {
    if let Err(error) = thread::Builder::new().name(name.into()).spawn(work) {
        tracing::warn!(target: "mezza", %error, "no thread for the mesh");
    }
}

/// Floods one cell, and reports its progress until its end.
fn follow_cell<E: From<ConnectionReport>>(
    ticket: u64,
    ask: &Value,
    socket: &std::path::Path,
    reporter: &Reporter<E>,
) {
    let end = flood_cell(ticket, ask, socket, reporter).unwrap_or_else(|fault| match fault.code {
        // The tick of the envelope is past: its note is sealed for another one.
        Exit::No | Exit::Config => MeshInput::Expired { ticket },
        _ => MeshInput::Refused { ticket },
    });
    report_input(reporter, end);
}

/// Reports the neighbours that announce a cell. Returns how it ended.
fn flood_cell<E: From<ConnectionReport>>(
    ticket: u64,
    ask: &Value,
    socket: &std::path::Path,
    reporter: &Reporter<E>,
) -> Result<MeshInput, Fault> {
    for line in control::ask_server(socket, ask, START)? {
        let line = line?;
        let names = u16::try_from(line["names"].as_u64().unwrap_or(1)).unwrap_or(u16::MAX);
        match line["event"].as_str() {
            Some("expired") => return Ok(MeshInput::Expired { ticket }),
            Some("handed" | "carried") => {
                report_input(reporter, MeshInput::Announced { ticket, names });
            }
            _ => {}
        }
    }
    // The node ended.
    Ok(MeshInput::Refused { ticket })
}

/// Reports an input for the device. Returns false if the program has ended.
fn report_input<E: From<ConnectionReport>>(reporter: &Reporter<E>, input: MeshInput) -> bool {
    reporter.report_blocking(ConnectionEvent::Input(input.into()))
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
            match control::ask_server(&self.socket, &json!({ "ask": "listen" }), START) {
                Ok(lines) => {
                    self.read_lines(lines);
                    since_report = AWAY;
                }
                Err(fault) => self.shared.set_trouble(Some(fault.text)),
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

    /// Reads lines until the node ends, or another listener takes over.
    fn read_lines(&self, lines: ControlLines) {
        self.shared.set_trouble(None);
        for line in lines {
            let Ok(line) = line else { return };
            if !self.shared.is_listener(self.number) {
                return;
            }
            let input = match line["event"].as_str() {
                Some("clock") => {
                    Some(MeshInput::Clock(read_clock(&line, self.clock.boot().as_ms())))
                }
                Some("cell") => self.try_cell(&line).map(MeshInput::Opened),
                // Lost cells come with the next listener, if they still live then.
                _ => None,
            };
            if input.is_some_and(|input| !self.report(input)) {
                return;
            }
        }
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

    /// Forgets the keys. The node goes on, and knows nothing of it.
    fn on_device_gone(&mut self) {
        self.since = 0;
        self.shared.listener.fetch_add(1, Ordering::Relaxed);
        self.shared.set_keys(None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_clock_is_read_and_a_poor_one_settles_nothing() {
        let line = json!({
            "event": "clock", "cur": 60_000_001, "anchor_tick": 60_000_000, "within_ms": 2_500,
            "grade": "good", "state": "alone", "around": 3,
        });
        let clock = read_clock(&line, 7);
        assert_eq!((clock.cur, clock.own, clock.within_ms), (60_000_001, 60_000_000, 2_500));
        assert!(clock.settled && clock.around == 3 && clock.boot_ms == 7 && clock.level == 2);
        let poor = read_clock(&json!({ "event": "clock", "cur": 5, "grade": "poor" }), 7);
        assert!(!poor.settled && poor.around == 0 && poor.within_ms == u64::MAX);
    }
}
