//! The machine of one device: the engine, its store, its links, and its reports to the user.
//!
//! ```text
//! Starting (no clock was read: nothing is sent) ──Rtc──> Running ──Leave──> Leaving (farewell on every link)
//! ```
//!
//! A node holds no secret and stores nothing: after a start it is empty and requests cells. `now`
//! is the time since the device booted; the time of day is given by [`Input::Rtc`].

mod compare;
mod dates;
mod evidence;
mod hear;
mod io;
mod places;
mod speak;
mod status;
mod streams;

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use mezza_core::{CryptoRng, Machine, Time, Wiping};

pub use dates::OtherDate;
pub use evidence::{Refusal, Ticket};
pub use io::{Bringer, Error, Input, LinkKind, LinkNumber, NodeSettings, Output, Source};
pub use status::{NeighbourStatus, NodeStatus};

use self::hear::LinkShape;
use crate::clock::{ClockState, Grade, MeshClock};
use crate::engine::{Engine, EngineSettings, MeshLinkId, NeighbourId};
use crate::frame::Name;
use crate::limits::{LINKS_MAX, MS, NEVER, SECOND};
use crate::network::MeshNetwork;
use crate::table::ids::Ids;
use compare::Comparisons;
use dates::OtherDates;
use evidence::OwnCells;

/// How long a device is silent after a change of its name, µs.
const SILENCE: (u64, u64) = (5 * SECOND, 15 * SECOND);
/// How long beacons of a new name show no checksum of the cells.
const SHY: u64 = 30 * SECOND;
/// How often expired cells are removed from the store.
const SWEEP: u64 = SECOND;

/// Kinds of work that become due at a certain time.
///
/// [`Machine::deadline`] and [`Node::do_due_work`] both iterate over [`Duty::ALL`] and use
/// [`Node::due_at`], so that each deadline has its work (MESH-54).
#[derive(Clone, Copy, Debug)]
enum Duty {
    /// A tick begins.
    Tick,
    /// The name is at the end of its life.
    Rename,
    /// Dead cells must leave the store.
    Sweep,
    /// A comparison can go on.
    Compare,
    /// A link that can take a frame has one to send.
    Speak,
}

impl Duty {
    /// The duties in order of execution.
    const ALL: [Self; 5] = [Self::Tick, Self::Rename, Self::Sweep, Self::Compare, Self::Speak];
}

/// A link as the driver knows it.
#[derive(Debug)]
struct NodeLink {
    engine: MeshLinkId,
    kind: LinkKind,
    frame_bytes_max: usize,
    /// Frames that the transport takes now.
    room: usize,
    names: BTreeMap<Name, (NeighbourId, Source)>,
    /// Time from which a new neighbour may replace an old one, while all neighbour slots of the
    /// link are in use.
    replace_at: u64,
    /// For a stream: the time since when no cell needs it.
    idle_since: u64,
}

/// One device of the mesh.
#[derive(Debug)]
pub struct Node {
    settings: NodeSettings,
    network: MeshNetwork,
    engine: Engine,
    ids: Ids,
    links: BTreeMap<LinkNumber, NodeLink>,
    own: OwnCells,
    /// Neighbours to which a stream was requested, with the time.
    dialled: BTreeMap<Name, u64>,
    outputs: VecDeque<Output>,
    /// True if the clock was read and its grade is above [`Grade::None`].
    running: bool,
    leaving: bool,
    silent_until: u64,
    rename_at: u64,
    named_at: u64,
    /// The name before the current one. A frame under it may return over a link that loops.
    former: Option<Name>,
    sweep_at: u64,
    /// The tick at which expired cells were last removed from the store.
    swept: u32,
    shown: Option<(u32, ClockState, Grade)>,
    shown_neighbours: usize,
    /// Bytes received and sent.
    bytes: (u64, u64),
    /// Devices of this network whose clocks show another date.
    dates: OtherDates,
    compares: Comparisons,
}

impl Node {
    /// Makes a node that waits for its clock to be read. A new `name` is drawn before anything is
    /// sent.
    pub fn new(settings: NodeSettings, network: MeshNetwork, now: Time) -> Self {
        let now = to_micros(now);
        // The store is bounded by the settings and by 8 MiB, whichever is less (MESH-40).
        let mut ids = Ids::new(settings.store_bytes, settings.carried_bytes);
        // The clock was not read yet, so the node neither sends nor receives.
        let clock = MeshClock::new(settings.mode, Grade::None, 0);
        let rules = EngineSettings { introduces: true, ..settings.engine.clone() };
        let engine = Engine::new(0, rules, clock, &mut ids, LINKS_MAX, now);
        Self {
            settings,
            network,
            engine,
            ids,
            links: BTreeMap::new(),
            own: OwnCells::default(),
            dialled: BTreeMap::new(),
            outputs: VecDeque::new(),
            running: false,
            leaving: false,
            silent_until: 0,
            rename_at: NEVER,
            named_at: now,
            former: None,
            sweep_at: now + SWEEP,
            swept: 0,
            shown: None,
            shown_neighbours: 0,
            bytes: (0, 0),
            dates: OtherDates::default(),
            compares: Comparisons::default(),
        }
    }

    fn read_clock(&mut self, time: Time, grade: Grade, now: u64, rng: &mut dyn CryptoRng) {
        let anchor = to_micros(time).cast_signed() - now.cast_signed();
        self.engine.read_clock(anchor, grade, now, &mut self.ids);
        self.start_or_stop(grade != Grade::None, now, rng);
    }

    fn read_clock_within(&mut self, time: Time, within_ms: u32, now: u64, rng: &mut dyn CryptoRng) {
        let anchor = to_micros(time).cast_signed() - now.cast_signed();
        let bound = i64::from(within_ms) * MS.cast_signed();
        self.engine.read_clock_bounded(anchor, bound, now, &mut self.ids);
        self.start_or_stop(true, now, rng);
    }

    /// Starts or stops the node: it runs while its own clock shows a plausible time.
    fn start_or_stop(&mut self, running: bool, now: u64, rng: &mut dyn CryptoRng) {
        let starts = running && !self.running;
        self.running = running;
        // The name before the stop may be known to observers, so a start takes a new one.
        if starts {
            self.change_name(now, 0, rng);
        }
        self.report_changes(now);
    }

    /// Takes a new name. Knowledge about links and neighbours is dropped, and nothing is sent for a
    /// while.
    fn change_name(&mut self, now: u64, silence: u64, rng: &mut dyn CryptoRng) {
        // 48 bits, the size of a name on the wire.
        let name = rng.next_u64() >> 16;
        let quarter = (SECOND / 4).cast_signed();
        // The offset of stamps is new with each name, so that stamps do not link two names
        // (MESH-30).
        let veil = (rng.next_u64() % (SECOND / 2)).cast_signed() - quarter;
        self.silent_until = now + silence;
        let (shortest, longest) = self.settings.name_life_s;
        self.rename_at = self.silent_until + draw_between(shortest * SECOND, longest * SECOND, rng);
        self.named_at = now;
        // Frames under the old name may return over a link that loops, and must be recognised.
        self.former = Some(self.engine.name());
        // A set of cells that no other device holds would link two names, so its checksum is hidden
        // for 30 s (MESH-30).
        let shy_until = if silence == 0 { 0 } else { self.silent_until + SHY };
        self.engine.change_name(name, veil, self.silent_until, shy_until, &mut self.ids);
        self.links.values_mut().for_each(|link| link.names.clear());
        // Streams end with the name (section Links), so attempts to open streams are dropped.
        self.dialled.clear();
        self.compares.clear();
        self.outputs.push_back(Output::NewName { name, silence_ms: silence / MS });
    }

    /// Returns the latest time of a duty. After [`Node::perform_duty`] it is later than now.
    fn due_at(&self, duty: Duty) -> u64 {
        match duty {
            Duty::Tick => self.engine.tick_due(),
            // A new tick makes cells expire, so the store is checked at once (MESH-4).
            Duty::Sweep if self.swept != self.engine.current_tick() => 0,
            Duty::Sweep => self.sweep_at,
            // A node without a time, or one that leaves, changes no name and sends nothing.
            Duty::Rename | Duty::Compare | Duty::Speak if !self.may_speak() => NEVER,
            Duty::Compare => self.compares.due(),
            Duty::Rename => self.rename_at,
            Duty::Speak => {
                let ready = self.links.values().filter(|link| link.room > 0);
                let first = ready.map(|link| self.engine.link_due(link.engine)).min();
                // Nothing is sent before the end of the silence, even if cells are owed.
                first.unwrap_or(NEVER).max(self.silent_until)
            }
        }
    }

    fn perform_duty(&mut self, duty: Duty, now: u64, rng: &mut dyn CryptoRng) {
        match duty {
            Duty::Tick => self.engine.advance_time(now, &mut self.ids),
            Duty::Rename => {
                // BYE is sent under the old name, before the new one is drawn.
                self.say_bye();
                let silence = draw_between(SILENCE.0, SILENCE.1, rng);
                self.change_name(now, silence, rng);
            }
            Duty::Sweep => {
                (self.sweep_at, self.swept) = (now + SWEEP, self.engine.current_tick());
                self.sweep_store(now);
                self.close_idle_streams(now);
                self.compares.forget_old(now);
                // The states agreed and doubtful must also end when no frame arrives (MESH-57).
                self.engine.observe_clock(now);
            }
            Duty::Compare => self.act_on_comparisons(now, rng),
            Duty::Speak => self.send_due(now, rng),
        }
    }

    /// Does all due work.
    fn do_due_work(&mut self, now: u64, rng: &mut dyn CryptoRng) {
        self.network.follow_clock(self.engine.clock().mesh_time(now));
        for duty in Duty::ALL {
            // Each duty is checked again: an earlier one may have made it due.
            if self.due_at(duty) <= now {
                self.perform_duty(duty, now, rng);
            }
        }
        self.forget_left();
        self.report_changes(now);
    }

    /// Removes expired cells from the store, and frees slots whose cells are given up.
    fn sweep_store(&mut self, now: u64) {
        let engine = &self.engine;
        // The engine decides which cells are live. The table only follows.
        let dead = |slot: &u32| !engine.holds_slot(*slot, &self.ids);
        let dead: Vec<_> = self.ids.held_cells().map(|(slot, _)| slot).filter(dead).collect();
        for slot in dead {
            if let Some(ticket) = self.own.expire(slot) {
                self.outputs.push_back(Output::Expired { ticket });
            }
            // The name of a dead cell stays known, so that it is not requested again (MESH-4).
            self.ids.bury_cell(slot);
        }
        let vain = self.ids.expected_slots().filter(|slot| !self.engine.is_missing(*slot));
        let mut free: Vec<_> = vain.collect();
        let open: Vec<_> =
            self.ids.expected_slots().filter(|slot| self.engine.is_missing(*slot)).collect();
        // An announced id whose cell nobody delivered for 30 s makes room for others (MESH-78).
        free.extend(open.into_iter().filter(|slot| self.engine.give_up(*slot, now, &self.ids)));
        // Ids of expired cells may use up to a quarter of the table.
        let past: Vec<_> = self.ids.past_slots().collect();
        // If more than a quarter of the table has ids of expired cells, the oldest are removed
        // first.
        free.extend(past.iter().rev().skip(self.settings.store_bytes / 512 / 4));
        for slot in free {
            self.release_slot(slot);
        }
    }

    /// Frees a slot.
    fn release_slot(&mut self, slot: u32) {
        self.engine.release_slot(slot, &mut self.ids);
        self.ids.free_slot(slot);
    }

    /// Requests that the driver deletes the stored copies of long-lived cells that left the store.
    fn forget_left(&mut self) {
        let left = self.ids.take_left();
        self.outputs.extend(left.into_iter().map(|id| Output::Forget { id }));
    }

    /// Reports changes of clock and neighbours.
    fn report_changes(&mut self, now: u64) {
        let clock = self.engine.clock();
        let state = clock.state();
        let grade = clock.grade();
        let shown = Some((self.engine.current_tick(), state, grade));
        // Only changes are reported, so that a program that listens is not woken each second.
        if self.running && self.shown != shown {
            self.shown = shown;
            let cur = self.engine.current_tick();
            let anchor_tick = clock.anchor_tick(now);
            let within_ms = clock.bound_us().unsigned_abs() / 1_000;
            self.outputs.push_back(Output::Clock { cur, anchor_tick, state, grade, within_ms });
        }
        let around = self.engine.count_around(now);
        if around != self.shown_neighbours {
            self.shown_neighbours = around;
            self.outputs.push_back(Output::Neighbours(around));
        }
    }
}

impl Machine for Node {
    type Input = Input;
    type Output = Output;
    type Error = Error;

    fn handle(&mut self, input: Input, now: Time, rng: &mut dyn CryptoRng) -> Result<(), Error> {
        let now = to_micros(now);
        match input {
            Input::LinkUp { link, kind, frame_bytes_max, delay_us, room } => {
                let shape = LinkShape { frame_bytes_max, delay_us, room };
                self.link_up(link, kind, &shape, now, rng)?;
            }
            Input::LinkDown { link } => {
                let down = self.links.remove(&link).ok_or(Error::NoLink)?;
                self.engine.link_down(down.engine, &mut self.ids);
            }
            Input::Frame { link, source, bytes } => {
                self.handle_frame(link, source, &bytes, now, rng)?;
            }
            Input::Room { link, frames } => {
                let link = self.links.get_mut(&link).ok_or(Error::NoLink)?;
                // The number of free frames is a claim of the driver, so it saturates instead of
                // wrapping.
                link.room = link.room.saturating_add(frames);
            }
            Input::Rtc { time, grade } => self.read_clock(time, grade, now, rng),
            Input::RtcWithin { time, within_ms } => {
                self.read_clock_within(time, within_ms, now, rng);
            }
            Input::Trusted { correction_ms } => {
                let correction = correction_ms.saturating_mul(MS.cast_signed());
                self.engine.trust_correction(correction, now, &mut self.ids);
            }
            Input::TrustNeighbours => {
                // A clock that is not in doubt needs no trust. An error tells the user that nothing changed.
                if !self.engine.trust_neighbours(now, &mut self.ids) {
                    return Err(Error::NothingToDecide);
                }
                self.report_changes(now);
            }
            Input::Originate { ticket, life, tick, payload } => {
                self.originate(ticket, life, tick, &payload, now)?;
            }
            Input::Import { cell } => self.import_cell(&cell, now)?,
            Input::Restore { cell, bringer } => self.restore_cell(&cell, bringer, now)?,
            Input::Leave => {
                self.leaving = true;
                self.say_bye();
            }
        }
        self.do_due_work(now, rng);
        Ok(())
    }

    fn wake(&mut self, now: Time, rng: &mut dyn CryptoRng) {
        self.do_due_work(to_micros(now), rng);
    }

    fn poll(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    fn deadline(&self) -> Option<Time> {
        let first = Duty::ALL.into_iter().map(|duty| self.due_at(duty)).min();
        // Round up to whole milliseconds, never before the deadline.
        first.map(|at| Time::from_ms(at.div_ceil(MS)))
    }

    fn snapshot(&self) -> Wiping<Vec<u8>> {
        // Every field of every part derives `Debug`; the key of a closed network never changes.
        Wiping::new(alloc::format!("{self:?}").into_bytes())
    }
}

/// Converts a time to the engine's microseconds.
fn to_micros(time: Time) -> u64 {
    time.as_ms().saturating_mul(MS)
}

/// Draws a time between two others.
fn draw_between(low: u64, high: u64, rng: &mut dyn CryptoRng) -> u64 {
    low + rng.next_u64() % (high - low + 1)
}
