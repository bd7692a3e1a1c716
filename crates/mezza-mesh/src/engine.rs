//! All rules of one device: what it announces, requests, sends, compares and forgets.
//!
//! ```text
//! a cell:       announced by others ──> asked ──> held ──> dead         one's own: held ──> dead
//! a neighbour:  heard (beacon) ──> compared (SYNC) ──> steady ──> silent (10 s) ──> gone (60 s)
//! ```
//!
//! An engine knows cells as slots of a [`CellTable`] and never sees their bytes. It has no queue of
//! frames: owed cells are state, and [`Engine::next_frame`] makes the next frame when the link can
//! take one, so that no queue grows on a slow link. The driver's contract: after each
//! [`Engine::handle_frame`], and at [`Engine::due`], call `next` for each link that can take a
//! frame, until there is none.

mod announce;
mod ask;
mod compare;
mod give;
mod neighbours;
mod settings;
mod turns;

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use rand_core::Rng;

use crate::chance::draw_below;
use crate::clock::MeshClock;
use crate::epoch::Age;
use crate::frame::{Beacon, MeshFrame, Name};
use crate::limits::{BEACON_QUIET, MS, NEVER, SECOND};
use crate::set::{Column, Set, Slot, iter_bits};
use crate::table::rows::Seat;
use crate::table::{CellFacts, CellTable};
use ask::{Hold, Request};
pub use compare::ComparePlan;
use give::Given;
pub use neighbours::{MeshNeighbour, NeighbourId};
pub use settings::{EngineCounts, EngineSettings};

/// Indices of the bit columns of a word (64 slots). Cold columns are rarely used.
pub(crate) mod column {
    /// Held, expired, or refused because its tick is ahead: the cell is not requested.
    pub const KNOWN: usize = 0;
    /// The cell was requested, and the time limit for the reply is not over.
    pub const ASKED: usize = 1;
    /// The cell is not requested now, because another device requested it on this link.
    pub const WAITING: usize = 2;
    /// The cell is live and in the store.
    pub const HELD: usize = 3;

    /// Cold: the cell is known, but its tick is ahead. It may be accepted when the clock advances.
    pub const AHEAD: usize = 0;
    /// Cold: the cell has waited once for another device's request.
    pub const WAITED: usize = 1;
    /// Cold: a request for the cell failed.
    pub const FAILED: usize = 2;
}
use column::{AHEAD, ASKED, FAILED, HELD, KNOWN, WAITING};

/// Number of rarely used (cold) columns of an engine.
pub(crate) const COLD_COLUMNS: usize = 3;

/// How long a send time that produced no frame is postponed, µs.
const PUT_OFF: u64 = 100 * MS;

/// The number of a link of an engine.
pub type MeshLinkId = u8;

/// One link of the engine.
#[derive(Clone, Debug)]
struct Link {
    up: bool,
    /// Size classes of cells that travel on this link, one bit each.
    classes: u8,
    /// Usual delay of a frame, µs.
    delay: u64,
    beacon_at: u64,
    /// True if nothing may be sent on this link until the first beacon under the current name.
    mute: bool,
    /// Time of the last beacon.
    beaconed_at: Option<u64>,
    have_at: u64,
    /// Time of the last opportunity to announce cells.
    had_at: u64,
    want_at: u64,
    give_at: u64,
    sync_at: u64,
    /// Cells that were not announced yet.
    fresh: Column,
    /// Cells that neighbours requested.
    owed: Column,
    /// Cells that were sent on the link within the last 200 ms.
    given: Column,
    /// For the cells in `given`: the time when each may be sent again.
    given_until: VecDeque<Given>,
    /// Neighbours that must be sent a BUSY.
    busy: VecDeque<NeighbourId>,
    /// Number of cells sent in the second from `pace_at`, and in the second before.
    pace: [u32; 2],
    /// Start of the present second.
    pace_at: u64,
    /// True if there was news since the last beacon.
    news: bool,
}

impl Link {
    /// Clears slots that are reused, so that nothing is owed or announced for their old cells.
    ///
    /// Only this function removes slots from the columns of a link because their cell is gone, so
    /// that no send time remains without a cell to send (MESH-54).
    fn forget_slots(&mut self, word: u32, gone: u64) {
        self.fresh.remove(word, gone);
        self.owed.remove(word, gone);
        // Few words have cells in `given`, so the queue is searched only for those.
        if self.given.word(word) & gone != 0 {
            self.given.remove(word, gone);
            let of_word = self.given_until.iter_mut().filter(|given| given.word == word);
            of_word.for_each(|given| given.mask &= !gone);
        }
    }

    /// Postpones every send time that has passed without a frame, or the driver would be woken
    /// endlessly (MESH-54).
    fn put_off(&mut self, now: u64) {
        let times = [&mut self.have_at, &mut self.want_at, &mut self.sync_at, &mut self.give_at];
        // Only times that have passed move: later ones belong to work that is still valid.
        for at in times.into_iter().filter(|at| **at <= now) {
            *at = now + PUT_OFF;
        }
    }

    /// Returns the latest time at which the link must be served.
    fn due(&self) -> u64 {
        // Under a new name the beacon must be the first frame, because it binds the name to its
        // address.
        if self.mute {
            return self.beacon_at;
        }
        let others = self.want_at.min(self.sync_at).min(self.give_at);
        self.beacon_at.min(self.have_at).min(others)
    }
}

/// All rules of one device.
#[derive(Clone, Debug)]
pub struct Engine {
    name: Name,
    settings: EngineSettings,
    clock: MeshClock,
    seat: Seat,
    links_max: usize,
    /// Number of words of the table.
    words: u32,
    links: Vec<Link>,
    /// Links whose stamps do not count, one bit each.
    silent_links: u32,
    neighbours: Vec<Option<MeshNeighbour>>,
    /// The names of the neighbours, in a compact list.
    names: Vec<Name>,
    /// Number of neighbours ever met.
    met: u64,
    /// Cells that neighbours announced and that are not known here.
    missing: Column,
    requests: VecDeque<Request>,
    holds: VecDeque<Hold>,
    opened: u64,
    expire_at: u64,
    cur: u32,
    /// Number and checksum of live cells of two groups: size classes sent by datagram, and the
    /// others.
    live: [u32; 2],
    sum: [u32; 2],
    /// Until then beacons show no checksum: a set that no other device has would link two names.
    shy_until: u64,
    /// The earliest of all deadlines.
    due: u64,
    counts: EngineCounts,
}

/// The surroundings of one call: the time in microseconds, the cells and the generator.
pub struct EngineCtx<'a, T, R: ?Sized> {
    /// Microseconds.
    pub now: u64,
    /// The cells.
    pub table: &'a mut T,
    /// The source of random times and choices.
    pub rng: &'a mut R,
}

/// New cells of one class in one word of slots.
struct NewCells {
    word: u32,
    /// One bit for each slot of the word.
    bits: u64,
    /// The sum of the cells.
    sum: u32,
    class: u8,
}

impl Engine {
    /// Makes an engine without links; `links` is the maximum number of links.
    pub fn new(
        name: Name,
        settings: EngineSettings,
        clock: MeshClock,
        table: &mut impl CellTable,
        links: usize,
        now: u64,
    ) -> Self {
        let cur = clock.tick_at(now);
        let expire_at = clock.next_tick(now);
        Self {
            name,
            settings,
            clock,
            seat: table.add_seat(),
            links_max: links,
            words: table.rows().words(),
            links: Vec::new(),
            silent_links: 0,
            neighbours: Vec::new(),
            names: Vec::new(),
            met: 0,
            missing: Column::new(table.rows().words()),
            requests: VecDeque::new(),
            holds: VecDeque::new(),
            opened: 0,
            expire_at,
            cur,
            live: [0; 2],
            sum: [0; 2],
            shy_until: 0,
            due: expire_at,
            counts: EngineCounts::default(),
        }
    }

    /// Brings a link up. `classes` has a bit for each size class that travels on the link; `delay`
    /// is the usual age of an arriving frame, µs.
    ///
    /// # Panics
    /// If the engine was made for fewer links.
    pub fn link_up(&mut self, classes: u8, delay: u64, at: u64) -> MeshLinkId {
        let link = Link {
            up: true,
            classes,
            delay,
            beacon_at: at,
            mute: self.settings.introduces,
            beaconed_at: None,
            have_at: NEVER,
            had_at: 0,
            want_at: NEVER,
            give_at: NEVER,
            sync_at: NEVER,
            fresh: Column::new(self.words),
            owed: Column::new(self.words),
            given: Column::new(self.words),
            given_until: VecDeque::new(),
            busy: VecDeque::new(),
            pace: [0; 2],
            pace_at: at,
            news: false,
        };
        self.due = self.due.min(at);
        let free = self.links.iter().position(|link| !link.up);
        let id = free.unwrap_or(self.links.len());
        // `silent_links` has a bit for each of these links, and their number is bounded (MESH-40).
        assert!(id < self.links_max, "an engine has the links it was made for");
        // The number may be reused from a stream, whose stamps did not count.
        self.silent_links &= !(1 << id);
        match self.links.get_mut(id) {
            Some(place) => *place = link,
            None => self.links.push(link),
        }
        id as MeshLinkId
    }

    /// Returns the name of the device.
    pub fn name(&self) -> Name {
        self.name
    }

    /// Returns the clock.
    pub fn clock(&self) -> &MeshClock {
        &self.clock
    }

    /// Returns the current tick.
    pub fn current_tick(&self) -> u32 {
        self.cur
    }

    /// Returns the number of live cells.
    pub fn live_count(&self) -> u32 {
        self.live[0] + self.live[1]
    }

    /// Returns true if the store holds cells of the two larger classes.
    pub fn has_large(&self) -> bool {
        self.live[1] > 0
    }

    /// Returns number and sum of the live cells that travel on a link.
    fn live_on(&self, link: &Link) -> (u32, u32) {
        let mut live = 0;
        let mut sum = 0;
        for (at, classes) in [0b0011, 0b1100].into_iter().enumerate() {
            if link.classes & classes != 0 {
                live += self.live[at];
                sum ^= self.sum[at];
            }
        }
        // The field of a beacon has 16 bits, so the count saturates.
        (live.min(u32::from(u16::MAX)), sum)
    }

    /// Returns the counters.
    pub fn counts(&self) -> EngineCounts {
        self.counts
    }

    /// Returns true if the store holds the cell in `slot`.
    pub fn holds_slot(&self, slot: Slot, table: &impl CellTable) -> bool {
        table.rows().hot(self.seat, slot / 64)[HELD] >> (slot % 64) & 1 == 1
    }

    /// Returns the set of cells in the store.
    pub fn held_set(&self, table: &impl CellTable) -> Set {
        let mut held = Set::default();
        for word in 0..table.rows().words() {
            held.push_word(word, table.rows().hot(self.seat, word)[HELD]);
        }
        held
    }

    /// Returns the latest time at which [`Self::next_frame`] has work.
    #[inline]
    pub fn due(&self) -> u64 {
        self.due
    }

    /// Takes a cell that this device made. Returns true if its tick is live and the cell was taken.
    pub fn originate(&mut self, slot: Slot, now: u64, table: &mut impl CellTable) -> bool {
        self.catch_up(table);
        self.expire_cells(now, table);
        let facts = table.facts(slot);
        // The device's own clock decides as for any other cell: own cells get no privilege
        // (MESH-5).
        if facts.life.judge_tick(facts.tick, self.cur) != Age::Live || self.holds_slot(slot, table)
        {
            return false;
        }
        let CellFacts { sum, class, .. } = facts;
        let new = NewCells { word: slot / 64, bits: 1 << (slot % 64), sum, class };
        self.store_new(table, &new, now);
        self.update_due();
        true
    }

    /// Handles one frame of the neighbour `from`. `taken` is called for each new cell. Returns true
    /// if the engine must act earlier than before.
    #[inline]
    pub fn handle_frame<T: CellTable>(
        &mut self,
        from: NeighbourId,
        frame: &MeshFrame,
        ctx: EngineCtx<'_, T, impl Rng + ?Sized>,
        taken: impl FnMut(Slot),
    ) -> bool {
        let EngineCtx { now, table, rng } = ctx;
        self.catch_up(table);
        let due = self.due;
        match frame {
            MeshFrame::Beacon(beacon) => self.hear_beacon(from, beacon, now),
            MeshFrame::Have(set) => self.hear_have(from, set, now, table, rng),
            MeshFrame::Want { to, again, set } if *to == self.name => {
                self.hear_want(from, *again, set, now, table);
            }
            MeshFrame::Want { to, set, .. } => self.overhear_want(*to, set, now, table),
            // Data is handled here and not by the node, since only the engine knows open requests
            // (MESH-10).
            MeshFrame::Data(set) => self.hear_data(from, set, now, table, taken),
            MeshFrame::Sync(sync) if sync.to == self.name => {
                self.hear_sync(from, sync, now, table);
            }
            MeshFrame::Busy { to, wait_ms } if *to == self.name => {
                self.hear_busy(from, *wait_ms, now, table);
            }
            // A SYNC or BUSY for another device is irrelevant here.
            MeshFrame::Sync(_) | MeshFrame::Busy { .. } => (),
            MeshFrame::Bye => self.hear_bye(from, now),
        }
        self.due < due
    }

    /// Returns the next frame for `link`, if there is one now. Also does due work.
    pub fn next_frame<T: CellTable>(
        &mut self,
        link: MeshLinkId,
        now: u64,
        table: &mut T,
        rng: &mut (impl Rng + ?Sized),
    ) -> Option<MeshFrame> {
        self.catch_up(table);
        self.expire_cells(now, table);
        let frame = self.make_frame(link, now, table, rng);
        if frame.is_none()
            // Every passed send time is postponed, or the driver would loop without a pause
            // (MESH-54).
            && let Some(link) = self.links.get_mut(usize::from(link))
        {
            link.put_off(now);
        }
        self.update_due();
        frame
    }

    fn make_frame<T: CellTable>(
        &mut self,
        id: MeshLinkId,
        now: u64,
        table: &mut T,
        rng: &mut (impl Rng + ?Sized),
    ) -> Option<MeshFrame> {
        let link = self.links.get(usize::from(id)).filter(|link| link.up)?;
        // The beacon goes first: votes and the removal of silent neighbours happen once per beacon.
        if link.beacon_at <= now {
            return Some(self.make_beacon(id, now, table, rng));
        }
        // Other frames would be refused until a beacon has bound the name to its address.
        if link.mute {
            return None;
        }
        if link.have_at <= now {
            return Some(self.make_have(id, now, table));
        }
        if link.want_at <= now
            && let Some(frame) = self.make_want(id, now, table, rng)
        {
            return Some(frame);
        }
        // Requests go before comparisons, because a missing cell loses lifetime with each second.
        if self.links[usize::from(id)].sync_at <= now
            && let Some(frame) = self.make_sync(id, now, table)
        {
            return Some(frame);
        }
        if self.links[usize::from(id)].give_at <= now {
            // BUSY before cells, so that refused neighbours request elsewhere at once.
            return self.say_busy(id).or_else(|| self.make_data(id, now, table));
        }
        None
    }

    /// Makes a beacon; once per beacon, votes and removes silent neighbours.
    fn make_beacon(
        &mut self,
        id: MeshLinkId,
        now: u64,
        table: &mut impl CellTable,
        rng: &mut (impl Rng + ?Sized),
    ) -> MeshFrame {
        if self.settings.votes && self.clock.vote(self.count_around(now), now, rng) {
            // The vote may have moved the clock to another tick, and expiry must be checked within
            // a second (MESH-4).
            self.expire_at = self.clock.next_tick(now).min(now + SECOND);
        }
        self.forget_silent(now, table);
        let quiet = self.clock.state() == crate::clock::ClockState::Agreed;
        let link = &mut self.links[usize::from(id)];
        // Agreed devices without news send rarely, which saves most of the idle traffic.
        let every = if quiet && !link.news {
            BEACON_QUIET.max(self.settings.beacon)
        } else {
            self.settings.beacon
        };
        link.news = false;
        (link.mute, link.beaconed_at) = (false, Some(now));
        // A tenth of jitter keeps devices from sending in step.
        link.beacon_at = now + every - every / 10 + draw_below(rng, every as usize / 5 + 1) as u64;
        let shown = now >= self.shy_until;
        let (live, sum) = self.live_on(&self.links[usize::from(id)]);
        MeshFrame::Beacon(Beacon {
            // The first beacons of a name must not resemble the last ones of the old name
            // (MESH-30).
            stamp: if shown { self.clock.make_stamp(now) } else { self.clock.stamp_among(now) },
            agreed: quiet && shown,
            streams: self.settings.streams,
            large: self.has_large() && shown,
            live: if shown { live as u16 } else { 0 },
            sum: if shown { sum } else { 0 },
        })
    }

    /// Takes new cells of one word into the store: they are announced on every link.
    fn store_new(&mut self, table: &mut impl CellTable, cells: &NewCells, now: u64) {
        let NewCells { word, bits: new, sum, class } = *cells;
        let hot = table.rows_mut().hot_mut(self.seat, word);
        hot[KNOWN] |= new;
        hot[HELD] |= new;
        let small = usize::from(class >= 2);
        self.live[small] += new.count_ones();
        self.sum[small] ^= sum;
        for link in &mut self.links {
            // Large cells travel on streams only, so cast links (multicast) do not announce them.
            if !link.up || link.classes >> class & 1 == 0 {
                continue;
            }
            link.fresh.insert(word, new);
            link.news = true;
            // At least 200 ms apart, also for own cells, so that timing does not show an author
            // (MESH-5).
            link.have_at = link.have_at.min(now.max(link.had_at + self.settings.have));
            self.due = self.due.min(link.have_at);
        }
    }

    /// Follows the clock: removes expired cells, and allows new requests for cells that were ahead.
    fn expire_cells(&mut self, now: u64, table: &mut impl CellTable) {
        if now < self.expire_at {
            return;
        }
        let cur = self.clock.tick_at(now);
        self.expire_at = self.clock.next_tick(now);
        // Within a tick no cell can expire.
        if cur == self.cur {
            return;
        }
        // If the clock was set back, stale cells are live again, so their marks are cleared.
        let back = cur < self.cur;
        self.cur = cur;
        for word in 0..table.rows().words() {
            // Cells whose tick was ahead of the clock may be live now and are requested again.
            let ahead = core::mem::take(&mut table.rows_mut().cold_mut(self.seat, word)[AHEAD]);
            let hot = table.rows_mut().hot_mut(self.seat, word);
            hot[KNOWN] = if back { hot[HELD] } else { hot[KNOWN] & !ahead };
            let mut dead = 0_u64;
            for bit in iter_bits(hot[HELD]) {
                let facts = table.facts(64 * word + bit);
                // A dead cell must leave store, queues and tables within a second (MESH-4).
                if facts.life.judge_tick(facts.tick, cur) != Age::Live {
                    dead |= 1 << bit;
                    self.subtract_live(facts);
                }
            }
            if dead != 0 {
                self.clear_slots(table, word, dead);
            }
        }
    }

    /// Removes a cell from the counts of live cells.
    fn subtract_live(&mut self, facts: CellFacts) {
        let small = usize::from(facts.class >= 2);
        self.live[small] -= 1;
        self.sum[small] ^= facts.sum;
    }

    /// Removes cells from the store. They remain marked as known and as held by neighbours.
    fn clear_slots(&mut self, table: &mut impl CellTable, word: u32, gone: u64) {
        let hot = table.rows_mut().hot_mut(self.seat, word);
        for column in [ASKED, WAITING, HELD] {
            hot[column] &= !gone;
        }
        table.rows_mut().cold_mut(self.seat, word)[FAILED] &= !gone;
        self.links.iter_mut().for_each(|link| link.forget_slots(word, gone));
    }

    /// Clears the columns of words that the table has begun to reuse since the last call.
    #[inline]
    fn catch_up(&mut self, table: &mut impl CellTable) {
        while self.opened < table.opened_words() {
            self.open_word(table);
        }
    }

    #[cold]
    fn open_word(&mut self, table: &mut impl CellTable) {
        let word = (self.opened % u64::from(table.rows().words())) as u32;
        self.opened += 1;
        // The ring of slots is longer than the life of cells, so the cells left in this word have
        // expired.
        let held = table.rows().hot(self.seat, word)[HELD].count_ones();
        self.live[0] = self.live[0].saturating_sub(held);
        self.missing.remove(word, u64::MAX);
        self.links.iter_mut().for_each(|link| link.forget_slots(word, u64::MAX));
        table.rows_mut().clear_word(self.seat, word);
        if self.live[0] == 0 {
            self.sum[0] = 0;
        }
    }

    /// Computes the earliest of all deadlines.
    fn update_due(&mut self) {
        let links = self.links.iter().filter(|link| link.up).map(Link::due);
        self.due = links.min().unwrap_or(NEVER).min(self.expire_at);
    }
}
