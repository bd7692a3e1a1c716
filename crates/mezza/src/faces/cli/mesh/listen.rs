//! `mezza mesh listen`: tries to open cells, with keys that are erased in time.
//!
//! The node forwards cells independently of their readers, and this separate process opens them, so
//! its results change no frame (MESH-33). One thread reads lines and reconnects when the node is
//! gone. The main thread opens cells in batches, and erases keys each half minute even without a
//! line.

mod keys;

use std::collections::{BTreeSet, VecDeque};
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

use data_encoding::{BASE64, HEXLOWER};
use mezza_hibe::{
    CarriedEnvelope, EnvelopeTime, Life, OpenedEnvelope, Tick, Trial, trial_open_carried,
};
use serde_json::{Value, json};

use super::super::{CliContext, hibe, show};
use super::{START, ask_lines, gone_fault};
use crate::faces::cli::args::ListenArgs;
use keys::Keys;
pub(super) use keys::NodeClock;
use mezza_host::api::{Exit, Fault};
use mezza_host::clock::Clock;
use mezza_host::process::control::ControlLines;
use mezza_host::process::home::private;
use mezza_servers::mesh::control::{self, MeshAsk};

/// Cells that are tried in one batch.
const BATCH: usize = 64;
/// Lines that wait; further ones stay in the socket, and the node then drops and counts them.
const LINES_MAX: usize = 4_096;
/// Ids of opened envelopes that are remembered, so that nothing is printed twice.
const SEEN_MAX: usize = 4_096;
/// How often keys are erased by boot time alone, ms.
const ERASE_MS: u64 = 30_000;
/// The silence of a node that is reported, ms: a node reports each new tick.
const SILENT_MS: u64 = 75_000;
/// Pause between two attempts to reconnect to the node.
const AGAIN: Duration = Duration::from_secs(2);

/// `mezza mesh listen`
pub(super) fn run_listen(context: &CliContext, asked: &ListenArgs) -> Result<Exit, Fault> {
    let folder = hibe::open_tree(context, &asked.dir, asked.key.passphrase_file.as_deref())?;
    if let Some(dir) = &asked.out {
        private::make_folder(dir)?;
    }
    let answer = ask_lines(context, &MeshAsk::Listen { name: None })?;
    let (sender, waiting) = sync_channel(LINES_MAX);
    let socket = control::socket_path(&context.home);
    std::thread::spawn(move || read_lines(answer, &socket, &sender));
    let mut listener = Listener::new(Keys::new(folder, Clock::system().boot().as_ms()));
    loop {
        for opened in listener.wait_and_try(context, &waiting)? {
            show_message(context, asked, &opened);
            // If standard output is closed, stop: further messages would be lost.
            if asked.once || show::is_over() {
                return Ok(Exit::Done);
            }
        }
    }
}

/// Something that the reading thread found.
enum NodeNews {
    Line(Value),
    /// The node of this home is gone, and why.
    Gone(Fault),
}

/// Reads lines of the node, and reconnects while it is gone; keys are erased meanwhile.
fn read_lines(mut answer: ControlLines, socket: &Path, sender: &SyncSender<NodeNews>) {
    loop {
        let mut why = gone_fault();
        for line in answer {
            let sent = match line {
                Ok(line) => sender.send(NodeNews::Line(line)),
                Err(fault) => {
                    why = fault;
                    break;
                }
            };
            if sent.is_err() {
                return;
            }
        }
        if sender.send(NodeNews::Gone(why)).is_err() {
            return;
        }
        answer = loop {
            std::thread::sleep(AGAIN);
            if let Ok(answer) = mezza_host::process::control::ask_server(
                socket,
                &MeshAsk::Listen { name: None },
                START,
            ) {
                break answer;
            }
        };
    }
}

/// A cell that the node reports: its envelope, and life and tick from its header.
struct HeardCell {
    envelope: Vec<u8>,
    time: EnvelopeTime,
}

impl HeardCell {
    /// Reads a line whose event is `cell`. Returns `None` for a life or a tick that this version does not
    /// know.
    ///
    /// # Errors
    /// Exit code 65 if the envelope is no base64.
    fn of_line(line: &Value) -> Result<Option<Self>, Fault> {
        let number = |key: &str| line[key].as_u64().and_then(|n| u32::try_from(n).ok());
        let life = number("life").and_then(|n| u8::try_from(n).ok()).and_then(Life::from_number);
        let (Some(life), Some(tick)) = (life, number("tick").map(Tick)) else { return Ok(None) };
        let envelope = control::decode_base64(line["envelope"].as_str().unwrap_or_default())?;
        Ok(Some(Self { envelope, time: EnvelopeTime { life, tick } }))
    }
}

/// The current keys, cells that are not tried yet, and messages that are not stored yet.
struct Listener {
    keys: Keys,
    clock: Clock,
    cells: Vec<HeardCell>,
    seen: BTreeSet<[u8; 16]>,
    /// The same ids in the order of arrival: the oldest are forgotten first.
    seen_order: VecDeque<[u8; 16]>,
    /// Boot time at which keys are erased next, ms.
    erase_at_ms: u64,
    /// Boot time of the last line of the node, ms.
    spoke_ms: u64,
    is_silent: bool,
}

impl Listener {
    fn new(keys: Keys) -> Self {
        let clock = Clock::system();
        let now_ms = clock.boot().as_ms();
        Self {
            keys,
            clock,
            cells: Vec::new(),
            seen: BTreeSet::new(),
            seen_order: VecDeque::new(),
            erase_at_ms: now_ms + ERASE_MS,
            spoke_ms: now_ms,
            is_silent: false,
        }
    }

    /// Waits for a line or for the time to erase, reads further waiting lines, and tries their
    /// cells.
    fn wait_and_try(
        &mut self,
        context: &CliContext,
        waiting: &Receiver<NodeNews>,
    ) -> Result<Vec<OpenedEnvelope>, Fault> {
        let pause =
            Duration::from_millis(self.erase_at_ms.saturating_sub(self.clock.boot().as_ms()));
        match waiting.recv_timeout(pause) {
            Ok(news) => self.take_news(context, news)?,
            Err(RecvTimeoutError::Timeout) => (),
            Err(RecvTimeoutError::Disconnected) => return Err(gone_fault()),
        }
        while self.cells.len() < BATCH
            && let Ok(news) = waiting.try_recv()
        {
            self.take_news(context, news)?;
        }
        self.erase_in_time(context)?;
        Ok(self.open_cells())
    }

    /// Erases keys each half minute by boot time, independently of the node.
    fn erase_in_time(&mut self, context: &CliContext) -> Result<(), Fault> {
        let now_ms = self.clock.boot().as_ms();
        if now_ms < self.erase_at_ms {
            return Ok(());
        }
        self.erase_at_ms = now_ms + ERASE_MS;
        if now_ms > self.spoke_ms + SILENT_MS && !self.is_silent {
            self.is_silent = true;
            context.out.print_aside(
                "the mesh node tells no time any more; keys are erased by the clock of this machine. \
                 Look at `mezza mesh status`",
            );
        }
        self.keys.on_time(now_ms, context.out)
    }

    fn take_news(&mut self, context: &CliContext, news: NodeNews) -> Result<(), Fault> {
        let out = context.out;
        let line = match news {
            NodeNews::Line(line) => line,
            NodeNews::Gone(why) => {
                out.print_aside(&format!(
                    "{why}; until it is back, keys are erased by the clock here"
                ));
                self.is_silent = true;
                return Ok(());
            }
        };
        match line["event"].as_str() {
            Some("clock") => {
                self.spoke_ms = self.clock.boot().as_ms();
                if std::mem::take(&mut self.is_silent) {
                    out.print_aside("the mesh node tells the time again");
                }
                self.keys.on_clock(NodeClock::of_line(&line), self.spoke_ms, out)?;
            }
            Some("cell") => {
                // A cell of a life (lifetime class) that is unknown here is meant for a later
                // version.
                self.cells.extend(HeardCell::of_line(&line)?);
            }
            Some("lost") => {
                let lost = line["cells"].as_u64().unwrap_or(0);
                out.print_aside(&format!(
                    "{lost} cells were not tried: this program is too slow for them"
                ));
            }
            // Unknown events may come from a later version.
            _ => (),
        }
        Ok(())
    }

    fn open_cells(&mut self) -> Vec<OpenedEnvelope> {
        let cells = std::mem::take(&mut self.cells);
        let carried = cells
            .iter()
            .map(|cell| CarriedEnvelope { envelope: &cell.envelope, time: Some(cell.time) });
        let carried: Vec<_> = carried.collect();
        let trials = trial_open_carried(self.keys.system(), self.keys.held(), &carried);
        let mut opened = Vec::new();
        for trial in trials {
            if let Trial::Opened(envelope) = trial
                && self.seen.insert(envelope.id.0)
            {
                self.seen_order.push_back(envelope.id.0);
                opened.push(envelope);
            }
        }
        while self.seen_order.len() > SEEN_MAX {
            if let Some(oldest) = self.seen_order.pop_front() {
                self.seen.remove(&oldest);
            }
        }
        opened
    }
}

/// Prints a message, or stores it in the given folder. If the disk refuses, the message is printed,
/// because its cell may have expired when there is room again.
fn show_message(context: &CliContext, asked: &ListenArgs, opened: &OpenedEnvelope) {
    let out = context.out;
    let payload = opened.payload.as_slice();
    let id = HEXLOWER.encode(&opened.id.0);
    let at_ms = opened.tick.start_time().as_ms();
    let path = asked.out.as_ref().map(|dir| dir.join(&id));
    let kept = path.filter(|path| match private::replace(path, payload) {
        Ok(()) => true,
        Err(fault) => {
            out.print_aside(&format!("{fault}; the message is printed instead"));
            false
        }
    });
    if out.json {
        out.print_value(&json!({
            "event": "message", "id": id, "tick": opened.tick.0, "minute": show::format_utc(at_ms),
            "life": hibe::lives::life_name(opened.life),
            "payload": kept.is_none().then(|| BASE64.encode(payload)), "file": kept.as_deref().map(show::format_path),
        }));
        return;
    }
    let minute = show::format_time(at_ms);
    out.print_line(format!("{minute}  somebody who holds your card wrote:"));
    match &kept {
        Some(path) => out.print_line(format!("{} bytes, in {}", payload.len(), path.display())),
        // Text of unknown senders must not control the terminal.
        None => {
            for line in String::from_utf8_lossy(payload).lines() {
                out.print_foreign(show::clean_text(line));
            }
        }
    }
}
