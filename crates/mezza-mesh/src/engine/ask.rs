//! Announcements of neighbours, and requests for missing cells.

use alloc::vec::Vec;
use core::cmp::Reverse;
use rand_core::Rng;

use super::column::{ASKED, FAILED, KNOWN, WAITED, WAITING};
use super::{Engine, MeshLinkId, MeshNeighbour, NeighbourId};
use crate::chance::draw_below;
use crate::frame::{MeshFrame, Name};
use crate::limits::{
    HAVE, MISSING_MAX, MS, NEVER, OPEN_FIRST, OPEN_LATER, PATIENCE, PROMISE, SHORTS_PER_FRAME,
    SILENT, STALE, TRUSTED_AFTER,
};
use crate::set::{Set, Slot, WordMask, highest_bits, iter_bits};
use crate::table::CellTable;
use crate::table::rows::Seat;

/// How long the engine waits while every announcer is busy, µs.
const STUCK: u64 = 100 * MS;

/// Cells of one word that were requested from a neighbour.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request {
    /// Time of the request.
    pub at: u64,
    pub of: NeighbourId,
    pub word: u32,
    pub mask: u64,
}

/// Cells of one word (64 slots) that are not requested before a certain time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hold {
    pub until: u64,
    pub word: u32,
    pub mask: u64,
}

/// The order in which announcers of the same cell are asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AskRank {
    /// The neighbour delivered cells before.
    Giver,
    /// Nothing is known about the neighbour. A name costs nothing, so one device may have many.
    Unknown,
    /// Requests to the neighbour often failed.
    Unreliable,
}

impl AskRank {
    const ALL: [Self; 3] = [Self::Giver, Self::Unknown, Self::Unreliable];

    fn from_neighbour(neighbour: &MeshNeighbour) -> Self {
        match neighbour.gave {
            _ if neighbour.is_unreliable() => Self::Unreliable,
            0 => Self::Unknown,
            _ => Self::Giver,
        }
    }
}

impl Engine {
    #[inline]
    pub(super) fn hear_have(
        &mut self,
        from: NeighbourId,
        set: &Set,
        now: u64,
        table: &mut impl CellTable,
        rng: &mut (impl Rng + ?Sized),
    ) {
        for part in set.parts() {
            let (hot, has) = table.rows_mut().hot_with_neighbour(self.seat, part.word, from);
            *has |= part.mask;
            // Known cells need no request. Cells that are missing already keep their first
            // announcement.
            let new = part.mask & !(hot[KNOWN] | self.missing.word(part.word));
            if new != 0 {
                self.add_missing(from, WordMask { word: part.word, mask: new }, now, table, rng);
            }
        }
    }

    /// Records cells of one word that `from` announces and that are not known here.
    fn add_missing(
        &mut self,
        from: NeighbourId,
        WordMask { word, mask: new }: WordMask,
        now: u64,
        table: &mut impl CellTable,
        rng: &mut (impl Rng + ?Sized),
    ) {
        // A number without a neighbour is stale: nothing is recorded for it.
        let Some(Some(neighbour)) = self.neighbours.get(usize::from(from)) else { return };
        // The last eight requests to this neighbour failed: its announcements are ignored for 60 s
        // (Learning what a neighbour has).
        if neighbour.ignored_until > now {
            return;
        }
        // The limit is checked before an id gets a slot, so that many announced ids cannot fill the
        // table (MESH-62).
        let room = self.room_for(from, neighbour.gave, table).min(self.missing_room());
        let new = highest_bits(new, room);
        if new == 0 {
            return;
        }
        self.missing.insert(word, new);
        let link = &mut self.links[usize::from(neighbour.link)];
        let longest = self.settings.ask;
        // A random wait: one device of a crowd requests first, and the response on the shared link
        // serves all others.
        if link.want_at > now + longest {
            link.want_at = now + draw_below(rng, longest as usize + 1) as u64;
            self.due = self.due.min(link.want_at);
        }
    }

    /// Returns how many more cells announced by `from` may be missing here. Call this before an
    /// announced id gets a slot, so that the table is not filled with ids that are never requested
    /// (MESH-62).
    pub fn room_for_announced(&self, from: NeighbourId, now: u64, table: &impl CellTable) -> u32 {
        // No room for an unknown or ignored neighbour.
        let Some(neighbour) = self.neighbour(from).filter(|n| n.ignored_until <= now) else {
            return 0;
        };
        if !self.settings.budgets {
            return self.missing_room();
        }
        let open = self.open_of(from, table);
        self.open_limit(neighbour.gave).saturating_sub(open).min(self.missing_room())
    }

    /// Returns up to `count` missing cells that only `from` announced and that are not requested,
    /// oldest announcement first, at most once in half the time between two announcements. Dropping
    /// them makes room for new announcements of `from`: during a flood, old ones would not be
    /// requested in time (MESH-78).
    pub fn take_outdated(
        &mut self,
        from: NeighbourId,
        count: usize,
        now: u64,
        table: &impl CellTable,
    ) -> Vec<Slot> {
        let Some(Some(neighbour)) = self.neighbours.get_mut(usize::from(from)) else {
            return Vec::new();
        };
        // At most every 100 ms: the search reads the whole table of missing cells.
        if neighbour.ignored_until > now || neighbour.outdated_at + HAVE / 2 > now {
            return Vec::new();
        }
        neighbour.outdated_at = now;
        let seat = self.seat;
        let rows = table.rows();
        let others: Vec<NeighbourId> =
            self.neighbours().map(|(id, _)| id).filter(|id| *id != from).collect();
        let mut slots = Vec::new();
        for WordMask { word, mask } in self.missing.parts() {
            let own = mask & rows.neighbour_bits(seat, word, from) & !rows.hot(seat, word)[ASKED];
            // An id that other neighbours announced too can be requested from them.
            let shared =
                others.iter().fold(0, |all, id| all | rows.neighbour_bits(seat, word, *id));
            slots.extend(iter_bits(own & !shared).map(|bit| 64 * word + bit));
        }
        slots.sort_unstable_by_key(|slot| table.announced_at(*slot));
        slots.truncate(count);
        slots
    }

    /// Returns true if this missing cell was announced too long ago and is not requested now. The
    /// sets are then compared soon with its announcers, in case the cell still lives.
    pub fn give_up(&mut self, slot: Slot, now: u64, table: &impl CellTable) -> bool {
        let word = slot / 64;
        let bit = 1 << (slot % 64);
        let is_old = table.announced_at(slot).is_some_and(|announced| announced.at + STALE < now);
        // A request in progress must end first, or its response would count as unrequested.
        if !is_old || table.rows().hot(self.seat, word)[ASKED] & bit != 0 {
            return false;
        }
        let rows = table.rows();
        let announced = |id: &NeighbourId| rows.neighbour_bits(self.seat, word, *id) & bit != 0;
        let from: Vec<_> = self.neighbours().map(|(id, _)| id).filter(announced).collect();
        for id in from {
            // The next SYNC finds the cell again if it still lives (MESH-78).
            self.compare_soon(id, now);
        }
        true
    }

    /// Returns how many cells announced by a neighbour may be missing, given the number of cells
    /// that it delivered. Once the table is half full all neighbours get the small limit, so that
    /// long-known ones cannot exclude newcomers.
    fn open_limit(&self, gave: u32) -> u32 {
        // Above half of the table everybody gets the small limit, so that long-known neighbours
        // cannot exclude newcomers.
        let roomy = self.missing.count() < MISSING_MAX as u32 / 2;
        if gave >= TRUSTED_AFTER && roomy { OPEN_LATER } else { OPEN_FIRST }
    }

    /// Returns how many cells announced by `from` are missing.
    fn open_of(&self, from: NeighbourId, table: &impl CellTable) -> u32 {
        let seat = self.seat;
        let rows = table.rows();
        let open =
            |part: WordMask| (part.mask & rows.neighbour_bits(seat, part.word, from)).count_ones();
        self.missing.parts().map(open).sum()
    }

    /// Returns how many more cells announced by `from` may be missing. `gave` is the number of
    /// cells that `from` delivered before.
    fn room_for(&self, from: NeighbourId, gave: u32, table: &impl CellTable) -> u32 {
        if !self.settings.budgets {
            return u32::MAX;
        }
        let limit = self.open_limit(gave);
        // While few cells are missing in all, no neighbour can be at its limit, and the expensive
        // count over all columns is skipped.
        if self.missing.count() + 64 <= limit {
            return 64;
        }
        limit.saturating_sub(self.open_of(from, table))
    }

    /// Returns how many more cells may be missing in all.
    fn missing_room(&self) -> u32 {
        (MISSING_MAX as u32).saturating_sub(self.missing.count())
    }

    /// Handles an overheard request to `to` on this link. If `to` announced the cell here too, its
    /// response will arrive here, so our own request waits once.
    #[inline]
    pub(super) fn overhear_want(
        &mut self,
        to: Name,
        set: &Set,
        now: u64,
        table: &mut impl CellTable,
    ) {
        for part in set.parts() {
            let hot = table.rows().hot(self.seat, part.word);
            let mask = part.mask & self.missing.word(part.word) & !hot[ASKED];
            if mask != 0
                // The addressed device must have announced the cell here too, else its response may
                // be out of range.
                && let Some(id) = self.names.iter().position(|name| *name == to)
            {
                let mask =
                    mask & table.rows().neighbour_bits(self.seat, part.word, id as NeighbourId);
                let waited = &mut table.rows_mut().cold_mut(self.seat, part.word)[WAITED];
                // A cell waits once only. Otherwise a chain of overheard requests would delay it
                // without end.
                let mask = mask & !*waited;
                *waited |= mask;
                table.rows_mut().hot_mut(self.seat, part.word)[WAITING] |= mask;
                self.holds.push_back(Hold {
                    until: now + self.settings.hold,
                    word: part.word,
                    mask,
                });
            }
        }
    }

    /// Requests cells from one neighbour of `link`: those that it announced and that are not
    /// requested elsewhere.
    pub(super) fn make_want(
        &mut self,
        link: MeshLinkId,
        now: u64,
        table: &mut impl CellTable,
        rng: &mut (impl Rng + ?Sized),
    ) -> Option<MeshFrame> {
        self.end_holds(now, table);
        self.end_requests(now, table);
        let mut open = Set::default();
        for WordMask { word, mask } in self.missing.parts() {
            let hot = table.rows().hot(self.seat, word);
            // One request at a time for each cell (MESH-11).
            open.push_word(word, mask & !hot[ASKED] & !hot[WAITING]);
        }
        let frame = if open.is_empty() { None } else { self.ask_one(link, &open, now, table, rng) };
        let next = if frame.is_some() { now } else { self.ask_again_at(&open, now, table) };
        self.links[usize::from(link)].want_at = next;
        frame
    }

    /// Tries the neighbours from a random start: first those that gave cells before, last those
    /// that often fail.
    fn ask_one(
        &mut self,
        link: MeshLinkId,
        open: &Set,
        now: u64,
        table: &mut impl CellTable,
        rng: &mut (impl Rng + ?Sized),
    ) -> Option<MeshFrame> {
        let count = self.neighbours.len();
        let start = draw_below(rng, count);
        for rank in AskRank::ALL {
            for step in 0..count {
                let at = start + step;
                let id = (if at < count { at } else { at - count }) as NeighbourId;
                let announced = open
                    .parts()
                    .any(|p| table.rows().neighbour_bits(self.seat, p.word, id) & p.mask != 0);
                if announced
                    && self.may_ask(id, link, rank, now)
                    && let Some(frame) = self.ask_of(id, open, now, table)
                {
                    return Some(frame);
                }
            }
        }
        None
    }

    fn may_ask(&self, id: NeighbourId, link: MeshLinkId, rank: AskRank, now: u64) -> bool {
        self.neighbour(id).is_some_and(|n| {
            n.link == link
                && AskRank::from_neighbour(n) == rank
                // Skip busy, ignored and silent neighbours, so that no request is wasted for 1.5 s.
                && n.busy_until.max(n.ignored_until) <= now
                && n.heard_at + SILENT >= now
        })
    }

    fn ask_of(
        &mut self,
        of: NeighbourId,
        open: &Set,
        now: u64,
        table: &mut impl CellTable,
    ) -> Option<MeshFrame> {
        let neighbour = self.neighbours.get_mut(usize::from(of))?.as_mut()?;
        // 40 new cells a second bound the bandwidth that one neighbour can cause (section Limits).
        let tokens = if self.settings.budgets { neighbour.refill_tokens(now) } else { u64::MAX };
        let room = tokens.min(SHORTS_PER_FRAME as u64) as u32;
        let set = first_of(self.seat, of, open, room, table);
        if set.is_empty() {
            return None;
        }
        let mut again = false;
        for WordMask { word, mask } in set.parts() {
            table.rows_mut().hot_mut(self.seat, word)[ASKED] |= mask;
            // `again` lifts the receiver's rule to send a cell only once in 200 ms, since an
            // earlier response was lost (MESH-12).
            again |= table.rows().cold(self.seat, word)[FAILED] & mask != 0;
            self.requests.push_back(Request { at: now, of, word, mask });
        }
        neighbour.tokens = neighbour.tokens.saturating_sub(u64::from(set.count()));
        Some(MeshFrame::Want { to: neighbour.name, again, set })
    }

    /// Ends the delays that are over, and those whose cells have arrived.
    fn end_holds(&mut self, now: u64, table: &mut impl CellTable) {
        while let Some(hold) = self.holds.front().copied() {
            let hot = table.rows_mut().hot_mut(self.seat, hold.word);
            // The queue is ordered by time, so the first delay that is still valid ends the loop.
            if hold.until > now && hold.mask & self.missing.word(hold.word) != 0 {
                break;
            }
            hot[WAITING] &= !hold.mask;
            self.holds.pop_front();
        }
    }

    /// Ends requests that were answered or have timed out; the next announcer is asked then.
    fn end_requests(&mut self, now: u64, table: &mut impl CellTable) {
        while let Some(request) = self.requests.front().copied() {
            let missing = request.mask & self.missing.word(request.word);
            // PATIENCE limits the delay that one silent announcer can cause (MESH-43).
            if missing != 0 && request.at + PATIENCE > now {
                break;
            }
            self.requests.pop_front();
            // If the request was made late, its failure does not count against the neighbour: the
            // cell may have expired meanwhile (MESH-78).
            if !is_late(&request, missing, table)
                && let Some(Some(neighbour)) = self.neighbours.get_mut(usize::from(request.of))
            {
                neighbour.count_answer(missing != 0, now);
            }
            if missing != 0 {
                self.fail_request(request, missing, table);
            }
        }
    }

    /// Handles a request that was not answered. The announcer counts as not having the cell. If no
    /// other neighbour announced the cell, it is no longer missing.
    fn fail_request(&mut self, request: Request, missing: u64, table: &mut impl CellTable) {
        self.counts.failed += u64::from(missing.count_ones());
        let (hot, has) = table.rows_mut().hot_with_neighbour(self.seat, request.word, request.of);
        hot[ASKED] &= !missing;
        // An announcer that failed counts as not having the cell, so the next announcer is asked.
        *has &= !missing;
        table.rows_mut().cold_mut(self.seat, request.word)[FAILED] |= missing;
        // If no other neighbour announced the cell, it is no longer missing. A SYNC finds it again.
        let lost = missing & !table.rows().announced_bits(self.seat, request.word);
        self.clear_missing(request.word, lost, table);
    }

    /// Returns the time of the next request for the cells in `open`, which are missing and could
    /// not be requested.
    fn ask_again_at(&mut self, open: &Set, now: u64, table: &mut impl CellTable) -> u64 {
        let hold = self.holds.front().map_or(NEVER, |hold| hold.until);
        let request = self.requests.front().map_or(NEVER, |request| request.at + PATIENCE);
        let stuck = if self.is_stuck(open, table) { now + STUCK } else { NEVER };
        hold.min(request).min(stuck)
    }

    /// Returns true if a cell of `open` was announced by a neighbour that is busy or has used up
    /// its rate limit. Cells without announcers are removed from the missing ones.
    fn is_stuck(&mut self, open: &Set, table: &mut impl CellTable) -> bool {
        let mut stuck = false;
        for WordMask { word, mask } in open.parts() {
            let announced = table.rows().announced_bits(self.seat, word);
            // Cells without announcers can never be requested, so they are not missing any more.
            self.clear_missing(word, mask & !announced, table);
            stuck |= mask & announced != 0;
        }
        stuck
    }

    /// Removes cells from the missing ones.
    pub(super) fn clear_missing(&mut self, word: u32, found: u64, table: &mut impl CellTable) {
        self.missing.remove(word, found);
        table.rows_mut().hot_mut(self.seat, word)[ASKED] &= !found;
    }
}

/// Returns up to `room` of the open cells that `of` announced: newest announcement first, in the
/// order of the announcement (MESH-78).
fn first_of<T: CellTable>(
    seat: Seat,
    of: NeighbourId,
    open: &Set,
    mut room: u32,
    table: &T,
) -> Set {
    let announced = |part: &WordMask| part.mask & table.rows().neighbour_bits(seat, part.word, of);
    // If the table records which neighbour brought a cell, the newest announcement is served first
    // (MESH-78).
    if T::KNOWS_BRINGERS {
        let slots =
            open.parts().flat_map(|p| iter_bits(announced(&p)).map(move |bit| 64 * p.word + bit));
        let mut slots: Vec<Slot> = slots.collect();
        slots.sort_unstable_by_key(|slot| Reverse(table.announced_at(*slot)));
        slots.truncate(room as usize);
        return slots.into_iter().collect();
    }
    let mut set = Set::default();
    for part in open.parts() {
        let mask = highest_bits(announced(&part), room);
        room -= mask.count_ones();
        set.push_word(part.word, mask);
    }
    set
}

/// Returns true if all cells that a request did not get were announced so long before it that they
/// may have expired. The failure then does not count against the neighbour.
fn is_late(request: &Request, missing: u64, table: &impl CellTable) -> bool {
    let is_old = |bit| {
        let announced = table.announced_at(64 * request.word + bit);
        // Announced 10 s or more before the request: the neighbour may not have the cell any more.
        announced.is_some_and(|announced| announced.at + PROMISE < request.at)
    };
    missing != 0 && iter_bits(missing).all(is_old)
}
