//! `mezza mesh listen`: trial opening beside the node, with keys that are erased in time.
//!
//! The node forwards cells whether or not anybody here can open them; this process tries them, so what
//! it learns changes no frame (MESH-33). One thread reads lines, this one opens in batches.

use std::collections::BTreeSet;
use std::sync::mpsc::{Receiver, sync_channel};

use data_encoding::{BASE64, HEXLOWER};
use mezza_hibe::floor::{ClockTrust, FloorHeld, FloorRule};
use mezza_hibe::{
    Epoch, HeldKeys, OpenedEnvelope, System, Tick, TreeError, Trial, trial_open_batch,
};
use serde_json::{Value, json};

use super::super::{CliContext, hibe, show};
use super::{gone, lines};
use crate::faces::cli::args::ListenArgs;
use mezza_host::api::{Exit, Fault};
use mezza_host::clock::Clock;
use mezza_host::process::home::private;
use mezza_host::process::rng::OsRng;
use mezza_host::store::tree_folder::{TreeFolder, tree_fault};
use mezza_servers::mesh::control::{self, MeshAsk};

/// Cells that are tried together.
const BATCH: usize = 64;
/// Lines that wait: more are held back in the socket, and then lost and counted by the node.
const LINES_MAX: usize = 4_096;
/// Epochs ahead of the present one that are made ready.
const AHEAD: u32 = 2;
/// Ids of opened envelopes that are remembered, so that nothing is printed twice.
const SEEN_MAX: usize = 4_096;

/// `mezza mesh listen`
pub(super) fn listen(context: &CliContext, asked: &ListenArgs) -> Result<Exit, Fault> {
    let folder = hibe::open_tree(context, &asked.dir, asked.key.passphrase_file.as_deref())?;
    if let Some(dir) = &asked.out {
        private::folder(dir)?;
    }
    let answer = lines(context, &MeshAsk::Listen)?;
    let (sender, waiting) = sync_channel(LINES_MAX);
    std::thread::spawn(move || {
        for line in answer {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    let mut listener = Listener::new(folder);
    loop {
        for opened in listener.step(context, &waiting)? {
            give(context, asked, &opened)?;
            // Whoever reads no more is given no message that would be lost.
            if asked.once || show::is_over() {
                return Ok(Exit::Done);
            }
        }
    }
}

/// The tree, its keys of now, and cells that are not tried yet.
struct Listener {
    folder: TreeFolder,
    system: System,
    held: HeldKeys,
    clock: Clock,
    rule: Option<FloorRule>,
    told: Option<FloorHeld>,
    cells: Vec<Vec<u8>>,
    seen: BTreeSet<[u8; 16]>,
}

impl Listener {
    fn new(folder: TreeFolder) -> Self {
        Self {
            folder,
            system: System::new(),
            held: HeldKeys::new(),
            clock: Clock::system(),
            rule: None,
            told: None,
            cells: Vec::new(),
            seen: BTreeSet::new(),
        }
    }

    /// Waits for a line, takes what else is there, and tries the cells among them.
    fn step(
        &mut self,
        context: &CliContext,
        waiting: &Receiver<Result<Value, Fault>>,
    ) -> Result<Vec<OpenedEnvelope>, Fault> {
        let first = waiting.recv().map_err(|_| gone())??;
        self.line(context, &first)?;
        while self.cells.len() < BATCH
            && let Ok(line) = waiting.try_recv()
        {
            self.line(context, &line?)?;
        }
        let cells = std::mem::take(&mut self.cells);
        let envelopes: Vec<&[u8]> = cells.iter().map(Vec::as_slice).collect();
        let trials = trial_open_batch(&self.system, &self.held, &envelopes);
        let mut opened = Vec::new();
        for trial in trials {
            if let Trial::Opened(envelope) = trial
                && self.seen.insert(envelope.id.0)
            {
                opened.push(envelope);
            }
        }
        while self.seen.len() > SEEN_MAX {
            self.seen.pop_first();
        }
        Ok(opened)
    }

    fn line(&mut self, context: &CliContext, line: &Value) -> Result<(), Fault> {
        match line["event"].as_str() {
            Some("clock") => self.follow(context, line),
            Some("cell") => {
                let envelope = line["envelope"].as_str().unwrap_or_default();
                self.cells.push(control::bytes(envelope)?);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// The clock moved: keys that are over are erased, then those of now are opened.
    fn follow(&mut self, context: &CliContext, line: &Value) -> Result<(), Fault> {
        let number = |key: &str| u32::try_from(line[key].as_u64().unwrap_or(0)).unwrap_or(0);
        let (cur, boot_ms) = (number("cur"), self.clock.boot().ms());
        let trust = trust(line["grade"].as_str());
        let card = self.folder.tree().card();
        let (floor, profile) = (self.folder.tree().floor(), card.profile());
        let rule = self.rule.get_or_insert_with(|| FloorRule::new(profile, floor, trust, boot_ms));
        let settled = line["grade"] == "good" || line["state"] == "agreed";
        let earliest = card.epoch_of(trust.earliest(Tick(cur), settled)).ok();
        let (floor, held) = rule.floor(earliest, boot_ms);
        if held != self.told && held == Some(FloorHeld::Confirm) {
            context.out.aside(
                "the clock is more than a day ahead of the keys: none is erased on its word; if the date \
                 is right, stop `listen` and run `mezza hibe advance --yes`",
            );
        }
        self.told = held;
        let Ok(current) = card.epoch_of(Tick(cur)) else { return Ok(()) };
        self.erase(floor, current)?;
        self.hold(current)
    }

    fn erase(&mut self, floor: Epoch, current: Epoch) -> Result<(), Fault> {
        let tree = self.folder.tree_mut();
        if floor > tree.floor() {
            tree.erase_below(floor, &mut OsRng).map_err(tree_fault)?;
        }
        tree.prepare(current.plus(AHEAD), u32::MAX, &mut OsRng).map_err(tree_fault)?;
        self.held.drop_below(floor);
        self.folder.store(&mut OsRng)
    }

    /// The keys of the epoch before, of this one and of the next.
    fn hold(&mut self, current: Epoch) -> Result<(), Fault> {
        self.held.drop_below(current.minus(1));
        for epoch in current.minus(1).0..=current.plus(1).0 {
            if self.held.holds(Epoch(epoch)) {
                continue;
            }
            match self.folder.tree().open_key(&self.system, Epoch(epoch), &mut OsRng) {
                Ok(key) => self.held.insert(key),
                Err(TreeError::Erased | TreeError::Over) => {}
                Err(error) => return Err(tree_fault(error)),
            }
        }
        Ok(())
    }
}

/// How much a clock of this grade is trusted.
fn trust(grade: Option<&str>) -> ClockTrust {
    match grade {
        Some("good") => ClockTrust::GOOD,
        Some("fair") => ClockTrust::FAIR,
        _ => ClockTrust::POOR,
    }
}

/// Prints a message, or keeps it in a file of the folder that was named.
fn give(context: &CliContext, asked: &ListenArgs, opened: &OpenedEnvelope) -> Result<(), Fault> {
    let (out, payload) = (context.out, opened.payload.as_slice());
    let (id, minute) = (HEXLOWER.encode(&opened.id.0), show::time(opened.tick.time().ms()));
    let kept = asked.out.as_ref().map(|dir| dir.join(&id));
    if let Some(path) = &kept {
        private::replace(path, payload)?;
    }
    if out.json {
        out.value(&json!({
            "event": "message", "id": id, "tick": opened.tick.0, "minute": minute,
            "payload": kept.is_none().then(|| BASE64.encode(payload)), "file": kept.as_deref().map(show::path),
        }));
        return Ok(());
    }
    out.line(format!("{minute}  somebody who holds your card wrote:"));
    match &kept {
        Some(path) => out.line(format!("{} bytes, in {}", payload.len(), path.display())),
        // What a stranger wrote moves no cursor and rings no bell.
        None => {
            for line in String::from_utf8_lossy(payload).lines() {
                out.line(show::clean(line));
            }
        }
    }
    Ok(())
}
