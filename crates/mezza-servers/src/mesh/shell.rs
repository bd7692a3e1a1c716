//! Connects the machine to its surroundings: frames to sockets, cells to listeners, the clock to
//! the machine.

use std::collections::BTreeMap;

use mezza_core::{Machine as _, Time};
use mezza_mesh::node::{Error as NodeError, Input, Output, Refusal, Ticket};
use mezza_mesh::{CellLife, Grade, MeshCell, Node};
use serde_json::{Value, json};

use super::ble::BleIdentity;
use super::cell_store::{CellStore, CopyChange, StoredCell};
use super::control::{self, CellFollower, MeshAsk};
use super::grade::{self, BentClock, ClockFiles};
use super::kernel_clock::KernelClock;
use super::link::MeshLinkEvent;
use super::links::Links;
use super::listeners::{LISTENERS_MAX, Listeners};
use super::system_clock::SystemClock;
use mezza_host::api::{Exit, Fault};
use mezza_host::clock::{Clock, Moment};
use mezza_host::process::control::{ControlAnswer, ControlRequest};
use mezza_host::process::drive::Shell;
use mezza_host::process::rng::OsRng;

/// A clock that may be off by more deletes no copy (MESH-84), ms.
const WRONG_CLOCK_MS: u64 = 150_000;
/// How soon the links are checked again for room for more frames, ms.
const REFILL_MS: u64 = 10;
/// How often the time of day is read, ms.
const READ_MS: u64 = 60_000;
/// How often the time of day is read while `timedatectl` runs, ms.
const ANSWER_MS: u64 = 1_000;
/// How often interfaces are looked for, ms.
const LOOK_MS: u64 = 3_000;
/// Maximum number of our cells whose progress is sent over a connection of their own.
const SENDERS_MAX: usize = 64;
/// Maximum number of our cells that listeners follow (MESH-86).
const FOLLOWED_MAX: usize = 4_096;

/// The receiver of a cell's progress.
enum ProgressReceiver {
    /// The response to the request that sent the cell.
    Response(ControlAnswer),
    /// A listener, which may follow any number of cells over one connection.
    Listener(CellFollower),
}

/// Events around the machine.
pub(super) enum MeshEvent {
    /// An event of a link.
    Link(MeshLinkEvent),
    /// A request on the control socket.
    Control(ControlRequest<MeshAsk>),
}

impl From<ControlRequest<MeshAsk>> for MeshEvent {
    fn from(request: ControlRequest<MeshAsk>) -> Self {
        Self::Control(request)
    }
}

/// The clock of a node, and the sources of its accuracy.
pub(super) struct NodeClock {
    pub clock: Clock,
    pub bent: BentClock,
    pub system: SystemClock,
    pub files: ClockFiles,
    pub kernel: KernelClock,
}

impl NodeClock {
    /// Reads the clock. Returns the input for the node.
    fn read_input(&mut self, now: Moment) -> Input {
        // The kernel is queried only if no stamp exists, and never for a clock whose grade a test
        // sets.
        let source = match self.files.last_synchronised() {
            None if self.bent.grade.is_none() => self.kernel.poll_statement(now),
            stamp => stamp,
        };
        self.system.on_reading(now, source);
        self.system.store_record();
        let time = self.bent.shift_time(now.wall);
        match self.bent.grade.filter(|_| !self.system.has_person()) {
            _ if time < grade::EARLIEST => Input::Rtc { time, grade: Grade::None },
            Some(grade) => Input::Rtc { time, grade },
            None => {
                let within_ms = self.system.within_ms(now.wall, self.bent.offset_ms.unsigned_abs());
                Input::RtcWithin { time, within_ms }
            }
        }
    }
}

impl Copies {
    /// Reads the stored copies of cells, which are restored once the time is known.
    fn read(store: Option<CellStore>) -> Self {
        let waiting = store.as_ref().map(CellStore::load_cells).transpose();
        let waiting = waiting.unwrap_or_else(|fault| {
            tracing::warn!(target: "mezza", "{fault}");
            None
        });
        Self { store, waiting: waiting.unwrap_or_default(), ..Self::default() }
    }
}

/// A cell that a program asks to flood.
#[derive(Clone, Copy)]
struct CellAsked<'a> {
    /// The lifetime code, as on the wire.
    life: u8,
    tick: u32,
    /// The sealed envelope in base64.
    envelope: &'a str,
}

/// Everything around the machine.
pub(super) struct MeshShell {
    node: Node,
    clock: Clock,
    own: NodeClock,
    links: Links,
    listeners: Listeners,
    senders: BTreeMap<Ticket, ProgressReceiver>,
    next_ticket: Ticket,
    shown_clock: Option<Value>,
    /// Boot time of the next reading of the clock.
    read_at: Time,
    look_at: Time,
    refill_at: Option<Time>,
    copies: Copies,
}

/// The copies of carried cells on the disk, and the changes that are not on the disk yet.
#[derive(Default)]
struct Copies {
    /// `None` if this node stores no cells, or has no disk.
    store: Option<CellStore>,
    /// Changes that are not on the disk yet.
    changes: Vec<CopyChange>,
    /// Cells of an earlier run that are not restored yet, because the time is unknown or not
    /// accurate enough.
    waiting: Vec<StoredCell>,
    /// True after the disk refused a write, so that this is reported once.
    is_refused: bool,
}

impl MeshShell {
    pub(super) fn new(node: Node, own: NodeClock, links: Links, store: Option<CellStore>) -> Self {
        let clock = own.clock.clone();
        let now = clock.read();
        Self {
            node,
            clock,
            own,
            links,
            listeners: Listeners::default(),
            senders: BTreeMap::new(),
            next_ticket: 1,
            shown_clock: None,
            read_at: now.boot,
            look_at: now.boot,
            refill_at: None,
            copies: Copies::read(store),
        }
    }

    /// Reads the clock and looks for interfaces if their intervals have passed. Also called before
    /// the loop, so that the first links are up.
    pub(super) fn look_around(&mut self) {
        let now = self.clock.read();
        // A step of the system's clock is passed on at once.
        if now.boot >= self.read_at || self.own.system.moved_ms(now) > Time::SECOND_MS {
            self.read_clock();
        }
        if now.boot >= self.look_at {
            self.look_at = now.boot.plus_ms(LOOK_MS);
            self.look_for_links();
        }
        if self.refill_at.is_some_and(|at| now.boot >= at) {
            self.refill_links();
        }
    }

    fn read_clock(&mut self) {
        let now = self.clock.read();
        let reading = self.own.read_input(now);
        let soon = self.own.kernel.is_asking();
        self.read_at = now.boot.plus_ms(if soon { ANSWER_MS } else { READ_MS });
        let _ = self.apply_input(reading);
        self.restore_cells();
        if self.copies.store.as_ref().is_some_and(CellStore::has_pending) {
            self.write_copies();
        }
    }

    /// Restores the cells of an earlier run once the time is known, by which their age is judged.
    /// While the clock may be wrong, a copy of a cell that seems to have expired is not deleted: a
    /// device whose clock starts in another year keeps its cells (MESH-84).
    fn restore_cells(&mut self) {
        if self.copies.waiting.is_empty() {
            return;
        }
        let within_ms = self.node.status(self.clock.boot()).within_ms;
        for cell in std::mem::take(&mut self.copies.waiting) {
            let StoredCell { id, bringer, ref bytes } = cell;
            let restored = self.apply_input(Input::Restore { cell: bytes.clone(), bringer });
            match restored {
                // The node already has the cell, from this copy or from a neighbour that delivered
                // it first.
                Ok(()) | Err(NodeError::Refused(Refusal::Repeated)) => (),
                Err(NodeError::NoTime) => self.copies.waiting.push(cell),
                Err(NodeError::Refused(Refusal::Time)) if within_ms > WRONG_CLOCK_MS => {
                    self.copies.waiting.push(cell);
                }
                Err(_) => self.copies.changes.push(CopyChange::Forget { id }),
            }
        }
        self.store_copies();
    }

    /// Writes all changes to the disk. A failure is reported once. The node continues in memory,
    /// and the changes are repeated with the next change or the next reading of the clock.
    fn store_copies(&mut self) {
        if !self.copies.changes.is_empty() {
            self.write_copies();
        }
    }

    fn write_copies(&mut self) {
        let changes = std::mem::take(&mut self.copies.changes);
        let Some(store) = &mut self.copies.store else { return };
        match store.apply_changes(changes, &mut OsRng) {
            Ok(()) => self.copies.is_refused = false,
            Err(fault) if !self.copies.is_refused => {
                tracing::warn!(target: "mezza", "{fault}");
                self.copies.is_refused = true;
            }
            Err(_) => (),
        }
    }

    /// Opens links on new interfaces, and closes those of interfaces that are gone.
    pub(super) fn look_for_links(&mut self) {
        let inputs = self.links.refresh_interfaces(self.clock.boot());
        self.node.set_takes_streams(self.links.takes_streams());
        self.give_all(inputs);
    }

    fn refill_links(&mut self) {
        let inputs = self.links.collect_sent();
        let waiting = self.links.are_waiting();
        self.refill_at = waiting.then(|| self.clock.boot().plus_ms(REFILL_MS));
        self.give_all(inputs);
    }

    /// The links.
    pub(super) fn links(&self) -> &Links {
        &self.links
    }

    fn give_all(&mut self, inputs: Vec<Input>) {
        for input in inputs {
            let _ = self.apply_input(input);
        }
    }

    fn apply_input(&mut self, input: Input) -> Result<(), mezza_mesh::node::Error> {
        let up = match &input {
            Input::LinkUp { link, .. } => Some(*link),
            _ => None,
        };
        let done = self.node.handle(input, self.clock.boot(), &mut OsRng);
        // A link that the node refuses is closed, and `status` does not show it (MESH-70).
        if let (Some(link), Err(_)) = (up, &done) {
            self.links.close_link(link);
        }
        done
    }

    fn drain_outputs(&mut self) {
        while let Some(output) = self.node.poll() {
            match output {
                Output::Keep { id, bringer, bytes } => {
                    self.copies.changes.push(CopyChange::Keep { id, bringer, bytes });
                }
                Output::Forget { id } => self.copies.changes.push(CopyChange::Forget { id }),
                Output::Send { link, frame } => {
                    // Cells that a frame names must be on disk before the frame is sent (MESH-82).
                    self.store_copies();
                    self.links.send_frame(link, frame);
                    let soon = self.clock.boot().plus_ms(REFILL_MS);
                    self.refill_at.get_or_insert(soon);
                }
                Output::Dial { source } => self.links.dial_source(source),
                Output::Close { link } => {
                    if let Some(down) = self.links.close_link(link) {
                        let _ = self.apply_input(down);
                    }
                }
                Output::NewName { name, silence_ms } => {
                    let net = self.node.net();
                    let inputs = self.links.change_identity(BleIdentity { name, net, silence_ms });
                    self.give_all(inputs);
                }
                Output::Cell { payload, tick, life } => {
                    self.listeners.tell_cell(&cell_line(&payload, tick, life));
                }
                Output::Handed { ticket } => {
                    self.report_progress(ticket, &json!({ "event": "handed", "names": 1 }));
                }
                Output::Carried { ticket, names } => {
                    self.report_progress(ticket, &json!({ "event": "carried", "names": names }));
                }
                Output::Expired { ticket } => {
                    self.report_progress(ticket, &json!({ "event": "expired" }));
                    self.senders.remove(&ticket);
                }
                Output::Clock { cur, anchor_tick, state, grade, within_ms } => {
                    let around = self.node.count_around(self.clock.boot());
                    let line = json!({
                        "event": "clock", "around": around, "cur": cur, "anchor_tick": anchor_tick,
                        "state": state.word(), "grade": grade.word(), "within_ms": within_ms,
                    });
                    self.listeners.tell_clock(&line);
                    self.shown_clock = Some(line);
                }
                Output::Neighbours(around) => {
                    if let Some(line) = &mut self.shown_clock {
                        line["around"] = json!(around);
                        self.listeners.tell_clock(line);
                    }
                }
            }
        }
        self.store_copies();
        self.listeners.flush();
    }

    fn hear_link(&mut self, event: MeshLinkEvent) {
        let now = self.clock.boot();
        let from = event.source_ip();
        let Some(input) = self.links.handle_event(event, now) else { return };
        let frame = match &input {
            Input::Frame { link, source, .. } => Some((*link, *source)),
            _ => None,
        };
        // Frames of unknown senders are refused all the time, so they are not logged. `status`
        // counts them.
        if self.apply_input(input).is_ok()
            && let Some((link, source)) = frame
        {
            self.links.on_accepted(link, now);
            if let Some(from) = from {
                self.links.remember_source(source, from, now);
            }
        }
    }

    fn report_progress(&mut self, ticket: Ticket, line: &Value) {
        let is_received = match self.senders.get(&ticket) {
            None => return,
            Some(ProgressReceiver::Response(answer)) => answer.send_line(line),
            Some(ProgressReceiver::Listener(follower)) => {
                self.listeners.report_progress(*follower, line.clone())
            }
        };
        if !is_received {
            self.senders.remove(&ticket);
        }
    }

    fn answer_request(&mut self, ControlRequest { asked, answer }: ControlRequest<MeshAsk>) {
        let done = match asked {
            MeshAsk::Status => {
                let _ = answer.send_line(&self.build_status());
                Ok(())
            }
            MeshAsk::Clock { grade, trust_neighbours } => {
                self.clock_asked(grade.as_deref(), trust_neighbours).map(|()| {
                    let _ = answer.send_line(&self.build_status());
                })
            }
            MeshAsk::Send { life, tick, envelope, follower } => {
                let receiver = match follower {
                    Some(follower) => ProgressReceiver::Listener(follower),
                    None => ProgressReceiver::Response(answer.clone()),
                };
                self.send_asked(CellAsked { life, tick, envelope: &envelope }, receiver).map(
                    |line| {
                        let _ = answer.send_line(&line);
                    },
                )
            }
            MeshAsk::Listen { name } => self.listen_asked(name, &answer),
            MeshAsk::Export => {
                self.export_asked(&answer);
                Ok(())
            }
            MeshAsk::Import { cells } => self.import_asked(&cells, &answer),
        };
        if let Err(fault) = done {
            answer.send_fault(&fault);
        }
    }

    fn build_status(&self) -> Value {
        let status = self.node.status(self.clock.boot());
        control::describe_status(&status, &self.links.describe_all(), self.links.lacks_streams())
    }

    fn clock_asked(&mut self, word: Option<&str>, trust: bool) -> Result<(), Fault> {
        if let Some(word) = word {
            let wrong = || Fault::new(Exit::Usage, "no such grade", "good, fair or poor");
            let grade = grade::of_word(word).ok_or_else(wrong)?;
            // The user judges the clock as it is now, so earlier moves of the clock must not count
            // against it.
            self.read_clock();
            self.own.system.on_person(grade, self.clock.read());
            self.read_clock();
        }
        if trust && self.apply_input(Input::TrustNeighbours).is_err() {
            let text = "the clocks around do not contradict this one";
            return Err(Fault::new(Exit::No, text, "look at `mezza mesh clock`"));
        }
        Ok(())
    }

    /// Floods a cell. Returns the line that confirms it.
    fn send_asked(
        &mut self,
        cell: CellAsked<'_>,
        receiver: ProgressReceiver,
    ) -> Result<Value, Fault> {
        self.check_room(&receiver)?;
        let life = CellLife::from_number(cell.life).ok_or_else(|| Fault::bug("a life above 2"))?;
        let payload = control::decode_base64(cell.envelope)?;
        let ticket = self.next_ticket;
        let input = Input::Originate { ticket, life, tick: cell.tick, payload };
        self.apply_input(input).map_err(not_taken)?;
        self.next_ticket += 1;
        self.senders.insert(ticket, receiver);
        let around = self.node.count_around(self.clock.boot());
        Ok(json!({ "event": "accepted", "neighbours": around }))
    }

    /// Checks that there is room for another cell with this receiver of its progress.
    fn check_room(&mut self, receiver: &ProgressReceiver) -> Result<(), Fault> {
        match receiver {
            ProgressReceiver::Listener(follower)
                if !self.listeners.have_name(follower.listener) =>
            {
                let text = "no program listens under this name";
                return Err(Fault::new(Exit::Busy, text, "listen first"));
            }
            _ => (),
        }
        let of_kind = |one: &ProgressReceiver| {
            std::mem::discriminant(one) == std::mem::discriminant(receiver)
        };
        let most = match receiver {
            ProgressReceiver::Response(_) => SENDERS_MAX,
            ProgressReceiver::Listener(_) => FOLLOWED_MAX,
        };
        if self.senders.values().filter(|one| of_kind(one)).count() < most {
            return Ok(());
        }
        // Cells of a listener that is gone are flooded on, and nobody receives their progress.
        let listeners = &self.listeners;
        self.senders.retain(|_, one| match one {
            ProgressReceiver::Response(answer) => !answer.is_closed(),
            ProgressReceiver::Listener(follower) => listeners.have_name(follower.listener),
        });
        if self.senders.values().filter(|one| of_kind(one)).count() < most {
            return Ok(());
        }
        Err(Fault::new(Exit::Busy, format!("{most} messages wait already"), "wait a minute"))
    }

    fn listen_asked(&mut self, name: Option<u64>, answer: &ControlAnswer) -> Result<(), Fault> {
        if !self.listeners.have_room() {
            let text = format!("{LISTENERS_MAX} programs listen already");
            return Err(Fault::new(Exit::Busy, text, "end one of them"));
        }
        let cells: Vec<MeshCell> = self.node.live_cells().into_iter().cloned().collect();
        let lines = cells.into_iter().map(|cell| {
            let facts = cell.facts();
            cell_line(cell.payload(), facts.tick, facts.life)
        });
        self.listeners.add(answer, name, self.shown_clock.clone(), lines);
        Ok(())
    }

    /// Sends all live cells and then their number, so that a truncated file is not taken for
    /// complete.
    fn export_asked(&self, answer: &ControlAnswer) {
        let cells: Vec<MeshCell> = self.node.live_cells().into_iter().cloned().collect();
        let end = json!({ "event": "end", "cells": cells.len() });
        let lines =
            cells.into_iter().map(|cell| json!({ "cell": control::encode_base64(cell.bytes()) }));
        answer.send_all(lines.chain([end]));
    }

    fn import_asked(&mut self, cells: &[String], answer: &ControlAnswer) -> Result<(), Fault> {
        let mut taken = 0;
        for cell in cells {
            let cell = control::decode_base64(cell)?;
            taken += usize::from(self.apply_input(Input::Import { cell }).is_ok());
        }
        let _ = answer.send_line(&json!({ "taken": taken, "of": cells.len() }));
        Ok(())
    }
}

impl Shell for MeshShell {
    type Event = MeshEvent;

    /// The loop uses the time of day, the machine boot time: the deadline is converted by the time
    /// left.
    fn deadline(&self) -> Option<Time> {
        let now = self.clock.read();
        let own = [Some(self.read_at), Some(self.look_at), self.refill_at, self.node.deadline()];
        let first = own.into_iter().flatten().min()?;
        Some(mezza_host::clock::now().plus_ms(first.since_ms(now.boot)))
    }

    fn wake(&mut self, _: Time) {
        self.look_around();
        self.node.wake(self.clock.boot(), &mut OsRng);
    }

    fn handle_event(&mut self, event: MeshEvent) {
        match event {
            MeshEvent::Link(event) => self.hear_link(event),
            MeshEvent::Control(request) => self.answer_request(request),
        }
    }

    async fn settle_outputs(&mut self) -> Result<(), Fault> {
        self.drain_outputs();
        Ok(())
    }

    fn stop(&mut self) {
        let _ = self.apply_input(Input::Leave);
    }
}

fn cell_line(payload: &[u8], tick: u32, life: CellLife) -> Value {
    json!({
        "event": "cell", "tick": tick, "life": life.number(), "envelope": control::encode_base64(payload),
    })
}

fn not_taken(error: mezza_mesh::node::Error) -> Fault {
    use mezza_mesh::node::Error;
    match error {
        Error::Refused(Refusal::Slow) => {
            Fault::new(Exit::Busy, "too many messages at once", "wait a second")
        }
        Error::Full => Fault::new(Exit::Busy, "the store of the node is full", "wait a minute"),
        Error::Refused(Refusal::Life) => Fault::new(
            Exit::Config,
            "this network carries keys of another life than those of the card",
            "ask for a card whose keys live for a minute",
        ),
        Error::Refused(Refusal::Time) => {
            Fault::new(Exit::No, "the tick of the envelope is past", "send it again")
        }
        Error::NoTime => Fault::new(
            Exit::Config,
            "this device does not know the time",
            "set its clock, then `mezza mesh clock --grade fair`",
        ),
        other @ (Error::Malformed(_)
        | Error::Cell(_)
        | Error::OtherNetwork
        | Error::Stranger
        | Error::Own
        | Error::Unasked
        | Error::Time
        | Error::Share
        | Error::Compared
        | Error::NoLink
        | Error::NothingToDecide
        | Error::Refused(_)) => Fault::new(Exit::No, other.to_string(), "send it again"),
    }
}

#[cfg(test)]
mod tests;
