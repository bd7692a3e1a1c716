//! Comparing whole sets, to find cells that were lost in transit.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::column::{HELD, KNOWN};
use super::{Engine, MeshLinkId, NeighbourId};
use crate::frame::{MeshFrame, Name, SyncFrame};
use crate::limits::{
    COMPARES_AT_ONCE, MS, NEVER, NEWCOMER, NEWCOMER_PER_SECOND, SECOND, SLICE_CELLS,
    SYNC_CELLS_MAX, SYNC_OPEN,
};
use crate::set::{Set, WordMask, highest_bits, iter_bits};
use crate::table::{CellTable, in_turn};
use crate::wire::sketch::SLICES_MAX;

/// How a comparison with a neighbour begins.
#[derive(Clone, Copy, Debug)]
pub struct ComparePlan {
    /// The number of slices, a power of two.
    pub slices: u8,
    /// True if the last beacon of the neighbour showed number and sum of our cells.
    pub equal: bool,
    /// The cells of both devices, as far as beacons showed them.
    pub cells: u32,
}

impl Engine {
    /// Sends our set of cells to one neighbour whose comparison is due.
    pub(super) fn make_sync(
        &mut self,
        id: MeshLinkId,
        now: u64,
        table: &impl CellTable,
    ) -> Option<MeshFrame> {
        let due = |n: &super::MeshNeighbour| n.link == id && n.sync_due;
        let mut waiting = self.neighbours.iter_mut().flatten().filter(|n| due(n));
        let neighbour = waiting.next();
        let more = waiting.next().is_some();
        // One comparison per 10 ms: a SYNC is large, and other frames must fit between.
        self.links[usize::from(id)].sync_at = if more { now + 10 * MS } else { NEVER };
        let neighbour = neighbour?;
        neighbour.sync_due = false;
        neighbour.synced_at = now.max(1);
        // Cells in response to this comparison are accepted without a request for 10 s only
        // (MESH-10).
        neighbour.sync_until = now + SYNC_OPEN;
        neighbour.unasked = SYNC_CELLS_MAX;
        let to = neighbour.name;
        let held = self.held_set(table);
        Some(MeshFrame::Sync(Box::new(SyncFrame { to, held, within: None, more: false })))
    }

    /// Records that a comparison was sent in `frames` frames. Each frame allows the neighbour to
    /// send some cells without a request; further ones are refused (MESH-10).
    pub fn grant_answers(&mut self, link: MeshLinkId, to: Name, frames: u32) {
        let compared = |n: &&mut super::MeshNeighbour| n.link == link && n.name == to;
        if let Some(neighbour) = self.neighbours.iter_mut().flatten().find(compared) {
            // The limit equals the number of cells that a response may have, so that a neighbour
            // cannot push more.
            neighbour.unasked = frames.saturating_mul(SYNC_CELLS_MAX);
        }
    }

    /// Returns true if a comparison of this slice begins now, and counts it: one for each slice, and
    /// four in all, of a neighbour in ten seconds. Without budgets (in a crowd) each one begins.
    pub fn may_compare(&mut self, from: NeighbourId, slice: u8, now: u64) -> bool {
        let budgets = self.settings.budgets;
        let Some(Some(neighbour)) = self.neighbours.get_mut(usize::from(from)) else {
            return false;
        };
        // 0 means "never answered", so a time of 0 is stored as 1.
        if neighbour.answered_at == 0 || neighbour.answered_at + SYNC_OPEN <= now {
            (neighbour.answered_at, neighbour.answered) = (now.max(1), 0);
        }
        let bit = 1_u128 << (slice % 128);
        // The same slice again within 10 s would only cause the same response twice (MESH-16), and
        // each comparison costs work for all cells (MESH-88).
        let fresh =
            neighbour.answered & bit == 0 && neighbour.answered.count_ones() < COMPARES_AT_ONCE;
        if fresh {
            neighbour.answered |= bit;
        }
        fresh || !budgets
    }

    /// Records that a sketch was too short for a neighbour: the next one describes a quarter of the
    /// cells. Compares again soon.
    pub fn divide_comparison(&mut self, from: NeighbourId, now: u64) {
        if let Some(Some(neighbour)) = self.neighbours.get_mut(usize::from(from)) {
            neighbour.slices = neighbour.slices.saturating_mul(4).min(SLICES_MAX);
        }
        self.compare_soon(from, now);
    }

    /// Returns the number of slices for a sketch of our cells on a link, and true if the last
    /// beacon of the neighbour showed the same cells.
    pub fn plan_comparison(&self, link: MeshLinkId, to: Name) -> ComparePlan {
        let (live, sum) = self.live_on(&self.links[usize::from(link)]);
        let compared = |n: &&super::MeshNeighbour| n.link == link && n.name == to;
        let Some(neighbour) = self.neighbours.iter().flatten().find(compared) else {
            return ComparePlan { slices: 1, equal: false, cells: live };
        };
        let theirs = u32::from(neighbour.beacon.live);
        let equal = (neighbour.beacon.sum, theirs) == (sum, live) && live > 0;
        // A sketch shows the difference or, if that is smaller, the whole set of the neighbour.
        let differ = live.abs_diff(theirs).min(live).min(theirs);
        let slices = (differ / SLICE_CELLS).max(1).next_power_of_two().min(SLICES_MAX.into());
        let slices = neighbour.slices.max(slices as u8);
        ComparePlan { slices, equal, cells: live + theirs }
    }

    /// Handles the set of a neighbour. Sends some of the cells that it lacks, and announces the
    /// rest.
    pub(super) fn hear_sync(
        &mut self,
        from: NeighbourId,
        sync: &SyncFrame,
        now: u64,
        table: &mut impl CellTable,
    ) {
        let live = self.live_count();
        let SyncFrame { held, within, .. } = sync;
        // The neighbour holds cells that are unknown here, so our own set is sent soon as well
        // (MESH-65).
        if sync.more || (within.is_none() && self.lacks_any(held, table)) {
            // Both sides compare, even if only one has just met the other.
            self.compare_soon(from, now);
        }
        let Some(Some(neighbour)) = self.neighbours.get_mut(usize::from(from)) else { return };
        neighbour.heard_at = now;
        let id = neighbour.link;
        neighbour.refill_answers(live, now);
        // Each response counts against the budget of this neighbour (MESH-16).
        let allowed = if self.settings.budgets { neighbour.answers } else { u32::MAX };
        let most = allowed.min(SYNC_CELLS_MAX);
        // Cells whose waiting time of 200 ms is over may be part of this response.
        self.end_given(id, now);
        let compared = within.as_ref().map(|set| set.parts().collect::<Vec<_>>());
        let theirs = held.parts().collect::<Vec<_>>();
        let mut lacked = Vec::new();
        for word in (0..table.rows().words()).rev() {
            let (hot, has) = table.rows_mut().hot_with_neighbour(self.seat, word, from);
            let all = compared.as_ref().map_or(u64::MAX, |parts| mask_of(parts, word));
            let here = hot[HELD] & all;
            if here == 0 {
                continue;
            }
            let there = mask_of(&theirs, word) & here;
            // Only cells in the compared slice are updated: the frame says nothing about others.
            *has = (*has & !here) | there;
            if here & !there != 0 {
                lacked.push(WordMask { word, mask: here & !there });
            }
        }
        let gives = self.select_answers(id, &lacked, most, table);
        let link = &mut self.links[usize::from(id)];
        let mut given = 0;
        let mut tells = false;
        for (WordMask { word, mask }, give) in lacked.into_iter().zip(gives) {
            link.owed.insert(word, give);
            link.fresh.insert(word, mask & !give);
            given += give.count_ones();
            tells |= mask & !give != 0;
        }
        let owes = given > 0;
        if let Some(Some(neighbour)) = self.neighbours.get_mut(usize::from(from)) {
            // Cells beyond the budget are announced and then cost a request each.
            neighbour.answers = neighbour.answers.saturating_sub(given);
        }
        if tells {
            let link = &mut self.links[usize::from(id)];
            link.have_at = link.have_at.min(now.max(link.had_at + self.settings.have));
            self.due = self.due.min(link.have_at);
        }
        if owes {
            self.schedule_give(id, now);
        }
    }

    /// Selects the cells to send from those that the neighbour lacks, at most `room`: a mask for
    /// each word of slots. The others are announced.
    fn select_answers<T: CellTable>(
        &self,
        id: MeshLinkId,
        lacked: &[WordMask],
        mut room: u32,
        table: &T,
    ) -> Vec<u64> {
        // A cell that was just sent reached all devices on the link: announce it again, but do not
        // send it (MESH-12).
        let given = &self.links[usize::from(id)].given;
        let free = |part: &WordMask| part.mask & !given.word(part.word);
        if T::KNOWS_BRINGERS {
            // Cells from different neighbours take turns, so that the cells of one flood do not
            // fill the response (MESH-77).
            let slots = lacked
                .iter()
                .flat_map(|part| iter_bits(free(part)).map(|bit| 64 * part.word + bit));
            let mut first = in_turn(slots.collect(), table);
            first.truncate(room as usize);
            let first: Vec<_> = first.into_iter().collect::<Set>().parts().collect();
            return lacked.iter().map(|part| mask_of(&first, part.word)).collect();
        }
        let give = |part| {
            let give = highest_bits(free(part), room);
            room -= give.count_ones();
            give
        };
        lacked.iter().map(give).collect()
    }
}

impl Engine {
    /// Returns true if some of these cells are neither known nor announced here.
    fn lacks_any(&self, held: &Set, table: &impl CellTable) -> bool {
        held.parts().any(|WordMask { word, mask }| {
            let known = table.rows().hot(self.seat, word)[KNOWN] | self.missing.word(word);
            mask & !known != 0
        })
    }
}

impl super::MeshNeighbour {
    /// Refills the number of cells that comparisons may still send to a neighbour. A newcomer gets
    /// a few and then slowly more, so that a new name does not give a new budget at once. Later the
    /// budget per minute is the number of live cells (MESH-16).
    fn refill_answers(&mut self, live: u32, now: u64) {
        let most = live.max(SYNC_CELLS_MAX);
        if self.answers_at == 0 {
            (self.answers, self.answers_at) = (SYNC_CELLS_MAX, now.max(1));
        } else if now < self.met_at + NEWCOMER {
            // A new name gets its budget slowly: otherwise new names would multiply the responses
            // (MESH-16).
            let gained = (now - self.answers_at) * NEWCOMER_PER_SECOND / SECOND;
            self.answers = self.answers.saturating_add(gained as u32).min(most);
            // The mark moves by whole cells only, so that no part of the budget is lost.
            self.answers_at += gained * SECOND / NEWCOMER_PER_SECOND;
        } else if now >= self.answers_at + 60 * SECOND {
            // After the first minute the budget is refilled once a minute.
            (self.answers, self.answers_at) = (most, now);
        }
    }
}

/// Returns the mask of a word in a list sorted by word, or 0.
fn mask_of(parts: &[WordMask], word: u32) -> u64 {
    parts.binary_search_by_key(&word, |part| part.word).map_or(0, |at| parts[at].mask)
}
