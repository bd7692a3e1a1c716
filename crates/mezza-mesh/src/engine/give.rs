//! Requests of neighbours, and cells sent and received.

use super::column::{AHEAD, HELD, KNOWN};
use super::{Engine, MeshLinkId, MeshNeighbour, NeighbourId, NewCells};
use crate::epoch::Age;
use crate::frame::MeshFrame;
use crate::limits::{BUSY_MS, CLASSES, DRAWN_FIRST, NEIGHBOURS_MAX, NEVER, OWED_BUSY, SECOND};
use crate::set::{Set, Slot, WordMask, highest_bits, iter_bits};
use crate::table::CellTable;

/// Cells of one word that were sent on a link.
#[derive(Clone, Copy, Debug)]
pub(super) struct Given {
    until: u64,
    pub word: u32,
    pub mask: u64,
}

impl Engine {
    #[inline]
    pub(super) fn hear_want(
        &mut self,
        from: NeighbourId,
        again: bool,
        set: &Set,
        now: u64,
        table: &mut impl CellTable,
    ) {
        let live = self.live_count();
        let Some(Some(neighbour)) = self.neighbours.get_mut(usize::from(from)) else { return };
        neighbour.heard_at = now;
        let id = neighbour.link;
        // A neighbour that requests more than its share gets BUSY instead of cells.
        if self.has_to_wait(from, set.count(), now) {
            return;
        }
        let Some(Some(neighbour)) = self.neighbours.get_mut(usize::from(from)) else { return };
        // Cells sent to a neighbour are counted per minute, so that it cannot request the whole
        // store again and again.
        if now >= neighbour.drawn_at + 60 * SECOND {
            (neighbour.drawn, neighbour.drawn_at) = (0, now);
        }
        neighbour.drawn = neighbour.drawn.saturating_add(set.count());
        // Twice the number of live cells covers losses and repeats. More would be an amplification
        // attack (MESH-16).
        if self.settings.budgets && neighbour.drawn > 2 * live + DRAWN_FIRST {
            return;
        }
        self.end_given(id, now);
        let mut some = false;
        for part in set.parts() {
            let (hot, has) = table.rows_mut().hot_with_neighbour(self.seat, part.word, from);
            // The neighbour requests the cell, so it does not have it, even if it announced it
            // earlier.
            *has &= !part.mask;
            let held = part.mask & hot[HELD];
            let link = &mut self.links[usize::from(id)];
            // A cell that was just sent reached all devices on the link (MESH-12).
            let given = if again { 0 } else { link.given.word(part.word) };
            link.owed.insert(part.word, held & !given);
            some |= held & !given != 0;
        }
        if some {
            self.schedule_give(id, now);
        }
    }

    /// Returns true if a neighbour that requests `count` cells must wait: many cells are owed on
    /// its link, and it already requested its share in this second. The share is the number of owed
    /// cells divided by the number of neighbours that requested some.
    fn has_to_wait(&mut self, from: NeighbourId, count: u32, now: u64) -> bool {
        let Some(Some(neighbour)) = self.neighbours.get_mut(usize::from(from)) else { return true };
        let id = neighbour.link;
        if now >= neighbour.asked_at + SECOND {
            // The share is measured per second, so that an old burst does not count.
            (neighbour.asked, neighbour.asked_at) = (0, now);
        }
        neighbour.asked = neighbour.asked.saturating_add(count);
        let asked = neighbour.asked;
        // Below its part of the busy limit a neighbour is never refused.
        if asked <= OWED_BUSY / NEIGHBOURS_MAX as u32 || !self.settings.budgets {
            return false;
        }
        let owed = self.links[usize::from(id)].owed.count();
        // With few cells owed on the link all requests are served.
        if owed < OWED_BUSY {
            return false;
        }
        let askers = |n: &&MeshNeighbour| n.link == id && n.asked > 0 && n.asked_at + SECOND > now;
        let askers = self.neighbours.iter().flatten().filter(askers).count() as u32;
        // Only askers of this second share what is owed.
        if asked <= owed / askers.max(1) {
            return false;
        }
        let link = &mut self.links[usize::from(id)];
        // A neighbour is queued for one BUSY only.
        if !link.busy.contains(&from) {
            link.busy.push_back(from);
        }
        link.give_at = link.give_at.min(now);
        self.due = self.due.min(now);
        true
    }

    /// Makes a BUSY for one neighbour: the time that half of the owed cells take at the pace of the
    /// last second.
    pub(super) fn say_busy(&mut self, id: MeshLinkId) -> Option<MeshFrame> {
        let from = self.links[usize::from(id)].busy.pop_front()?;
        let to = self.neighbour(from)?.name;
        let owed = self.links[usize::from(id)].owed.count();
        let pace = self.links[usize::from(id)].pace;
        let a_second = pace[0].max(pace[1]).max(1);
        let wait_ms = u64::from(owed / 2) * 1_000 / u64::from(a_second);
        // Bounds on both sides: a wrong pace must neither stop a neighbour nor let it hammer.
        let wait_ms = wait_ms.clamp(BUSY_MS.0.into(), BUSY_MS.1.into()) as u16;
        Some(MeshFrame::Busy { to, wait_ms })
    }

    /// Schedules owed cells of a link after the gathering time.
    pub(super) fn schedule_give(&mut self, id: MeshLinkId, now: u64) {
        let link = &mut self.links[usize::from(id)];
        // Requests are collected for 5 ms, so that one DATA frame serves several neighbours.
        link.give_at = link.give_at.min(now + self.settings.gather);
        self.due = self.due.min(link.give_at);
    }

    /// Handles cells from `from`. Accepts cells that were announced and are missing, and cells that
    /// a comparison with this neighbour allows.
    #[inline]
    pub(super) fn hear_data<T: CellTable>(
        &mut self,
        from: NeighbourId,
        set: &Set,
        now: u64,
        table: &mut T,
        mut taken: impl FnMut(Slot),
    ) {
        for part in set.parts() {
            let (hot, has) = table.rows_mut().hot_with_neighbour(self.seat, part.word, from);
            *has |= part.mask;
            let new = part.mask & !hot[KNOWN];
            let mut wanted = new & self.missing.word(part.word);
            let unasked = new & !wanted;
            if unasked != 0 {
                // Cells that were not requested are accepted only after a comparison, up to its
                // limit (MESH-10).
                let drawn =
                    highest_bits(unasked, self.take_unasked(from, unasked.count_ones(), now));
                self.counts.unsolicited += u64::from((unasked & !drawn).count_ones());
                wanted |= drawn;
            }
            if wanted != 0 {
                let new = WordMask { word: part.word, mask: wanted };
                self.take_cells(from, new, now, table, &mut taken);
            }
        }
    }

    /// Counts cells that `from` sent without a request against the number that a comparison allows.
    /// Returns how many are accepted.
    fn take_unasked(&mut self, from: NeighbourId, count: u32, now: u64) -> u32 {
        let Some(Some(neighbour)) = self.neighbours.get_mut(usize::from(from)) else { return 0 };
        let room = neighbour.unasked_left(now);
        // Without budgets only the 10 s apply, and no number of cells.
        if room > 0 && !self.settings.budgets {
            return count;
        }
        neighbour.unasked = neighbour.unasked.saturating_sub(count.min(room));
        count.min(room)
    }

    fn take_cells<T: CellTable>(
        &mut self,
        from: NeighbourId,
        WordMask { word, mask: wanted }: WordMask,
        now: u64,
        table: &mut T,
        taken: &mut impl FnMut(Slot),
    ) {
        // Count new cells by class, since each class travels on its own links.
        let mut live = [0_u64; CLASSES];
        let mut sum = [0; CLASSES];
        for bit in iter_bits(wanted) {
            let facts = table.facts(64 * word + bit);
            let hot = table.rows_mut().hot_mut(self.seat, word);
            match facts.life.judge_tick(facts.tick, self.cur) {
                Age::Live => {
                    let class = usize::from(facts.class) % CLASSES;
                    live[class] |= 1 << bit;
                    sum[class] ^= facts.sum;
                    taken(64 * word + bit);
                }
                // A stale cell is marked as known, so that it is not requested again.
                Age::Stale => hot[KNOWN] |= 1 << bit,
                // Ahead of our clock: marked as known, and requested again when the clock has
                // moved.
                Age::Ahead => {
                    hot[KNOWN] |= 1 << bit;
                    table.rows_mut().cold_mut(self.seat, word)[AHEAD] |= 1 << bit;
                }
            }
        }
        self.clear_missing(word, wanted, table);
        let count: u32 = live.iter().map(|live| live.count_ones()).sum();
        self.counts.taken += u64::from(count);
        self.counts.refused += u64::from(wanted.count_ones() - count);
        for (class, (live, sum)) in (0..).zip(live.into_iter().zip(sum)) {
            if live != 0 {
                let new = NewCells { word, bits: live, sum, class };
                self.store_new(table, &new, now);
            }
        }
        if let Some(Some(neighbour)) = self.neighbours.get_mut(usize::from(from)) {
            neighbour.gave = neighbour.gave.saturating_add(count);
            if count > 0 {
                neighbour.busies = 0;
            }
        }
    }

    /// Returns the next owed cells of a link, newest first, up to one burst.
    pub(super) fn make_data<T: CellTable>(
        &mut self,
        id: MeshLinkId,
        now: u64,
        table: &mut T,
    ) -> Option<MeshFrame> {
        let mut set = Set::default();
        let mut room = self.settings.burst;
        while room > 0
            && let Some((word, mask)) = self.select_newest(id, room, table)
        {
            // Cells may have expired since they were requested, and are not sent any more (MESH-4).
            let held = mask & table.rows().hot(self.seat, word)[HELD];
            let link = &mut self.links[usize::from(id)];
            link.owed.remove(word, mask);
            if held != 0 {
                // The other devices drop a cell that is not announced yet. They must get it when
                // they request it after the announcement (MESH-12).
                let announced = held & !link.fresh.word(word);
                if announced != 0 {
                    link.given.insert(word, announced);
                    let until = now + self.settings.repeat;
                    link.given_until.push_back(Given { until, word, mask: announced });
                }
                set.push_word(word, held);
                room -= held.count_ones();
            }
        }
        let link = &mut self.links[usize::from(id)];
        link.give_at = if link.owed.is_empty() { NEVER } else { now };
        if now >= link.pace_at + SECOND {
            // The pace is that of the last full second, and 0 after an idle one.
            let last = if now < link.pace_at + 2 * SECOND { link.pace[0] } else { 0 };
            (link.pace, link.pace_at) = ([0, last], now);
        }
        link.pace[0] += set.count();
        self.counts.given += u64::from(set.count());
        (!set.is_empty()).then_some(MeshFrame::Data(set))
    }

    /// Returns up to `room` owed cells of one word, in order of sending.
    fn select_newest<T: CellTable>(
        &self,
        id: MeshLinkId,
        room: u32,
        table: &T,
    ) -> Option<(u32, u64)> {
        let mut best: Option<(u64, u32, u64)> = None;
        let words = table.rows().words();
        let newest = (table.opened_words().wrapping_sub(1) % u64::from(words)) as u32;
        for WordMask { word, mask } in self.links[usize::from(id)].owed.parts() {
            // Slots form a ring, so the word that was opened last has the newest cells.
            let age = (newest + words - word) % words;
            match table.rank(64 * word) {
                None => {
                    // In a crowd the ring gives the order: the word that was opened last is the
                    // newest.
                    if best.is_none_or(|(rank, ..)| u64::from(words - age) > rank) {
                        best = Some((u64::from(words - age), word, highest_bits(mask, room)));
                    }
                }
                Some(_) => {
                    // In a node each cell has a rank by tick and arrival, so newer ones go first.
                    for bit in iter_bits(mask) {
                        let rank = table.rank(64 * word + bit).unwrap_or(0);
                        if best.is_none_or(|(held, ..)| rank >= held) {
                            best = Some((rank, word, 1 << bit));
                        }
                    }
                }
            }
        }
        best.map(|(_, word, mask)| (word, mask))
    }

    /// Allows cells that were sent long enough ago to be sent again.
    pub(super) fn end_given(&mut self, id: MeshLinkId, now: u64) {
        let link = &mut self.links[usize::from(id)];
        while let Some(given) = link.given_until.front().copied()
            && given.until <= now
        {
            link.given.remove(given.word, given.mask);
            link.given_until.pop_front();
        }
    }
}
