//! Comparing whole sets, so that what was lost on the way is found.

use alloc::vec::Vec;

use super::column::{FRESH, HELD, OWED};
use super::{Engine, MeshLinkId, NeighbourId};
use crate::frame::MeshFrame;
use crate::limits::{MS, NEVER, SECOND, SYNC_CELLS_MAX, SYNC_OPEN};
use crate::set::{Set, highest};
use crate::table::CellTable;

impl Engine {
    /// What is held here, for one neighbour that is due.
    pub(super) fn sync(
        &mut self,
        id: MeshLinkId,
        now: u64,
        table: &impl CellTable,
    ) -> Option<MeshFrame> {
        let due = |n: &super::MeshNeighbour| n.link == id && n.sync_due;
        let mut waiting = self.neighbours.iter_mut().flatten().filter(|n| due(n));
        let neighbour = waiting.next();
        let more = waiting.next().is_some();
        self.links[usize::from(id)].sync_at = if more { now + 10 * MS } else { NEVER };
        let neighbour = neighbour?;
        neighbour.sync_due = false;
        neighbour.synced_at = now.max(1);
        neighbour.sync_until = now + SYNC_OPEN;
        let to = neighbour.name;
        Some(MeshFrame::Sync { to, held: self.held(table) })
    }

    /// What a neighbour holds. It is given some of what it lacks, and told of the rest.
    pub(super) fn hear_sync(
        &mut self,
        from: NeighbourId,
        held: &Set,
        now: u64,
        table: &mut impl CellTable,
    ) {
        let live = self.live;
        let Some(Some(neighbour)) = self.neighbours.get_mut(usize::from(from)) else { return };
        neighbour.heard_at = now;
        let id = neighbour.link;
        if self.settings.budgets
            && neighbour.answered_at + SYNC_OPEN > now
            && neighbour.answered_at > 0
        {
            return;
        }
        neighbour.answered_at = now.max(1);
        if now >= neighbour.answers_at + 60 * SECOND || neighbour.answers_at == 0 {
            (neighbour.answers, neighbour.answers_at) = (live.max(SYNC_CELLS_MAX), now.max(1));
        }
        let allowed = if self.settings.budgets { neighbour.answers } else { u32::MAX };
        let mut room = allowed.min(SYNC_CELLS_MAX);
        let theirs = held.parts().collect::<Vec<_>>();
        let (mut owes, mut tells) = (false, false);
        for word in (0..table.rows().words()).rev() {
            let (hot, has) = table.rows_mut().with(self.seat, word, from);
            let here = hot[HELD];
            if here == 0 {
                continue;
            }
            let at = theirs.binary_search_by_key(&word, |part| part.word);
            let there = at.map_or(0, |at| theirs[at].mask) & here;
            *has = (*has & !here) | there;
            let give = highest(here & !there, room);
            let tell = here & !there & !give;
            if give != 0 {
                *self.link_bits(table, id, word, OWED) |= give;
                self.links[usize::from(id)].owed.set(word);
                room -= give.count_ones();
                owes = true;
            }
            if tell != 0 {
                *self.link_bits(table, id, word, FRESH) |= tell;
                self.links[usize::from(id)].fresh.set(word);
                tells = true;
            }
        }
        if let Some(Some(neighbour)) = self.neighbours.get_mut(usize::from(from)) {
            neighbour.answers =
                neighbour.answers.saturating_sub(allowed.min(SYNC_CELLS_MAX) - room);
        }
        if tells {
            let link = &mut self.links[usize::from(id)];
            link.have_at = link.have_at.min(now.max(link.had_at + self.settings.have));
            self.due = self.due.min(link.have_at);
        }
        if owes {
            self.owe(id, now);
        }
    }
}
