//! Announcements of new cells.

use alloc::vec::Vec;

use super::column::HELD;
use super::{Engine, MeshLinkId};
use crate::frame::MeshFrame;
use crate::limits::{NEVER, SHORTS_PER_FRAME};
use crate::set::{Set, WordMask, highest_bits, iter_bits};
use crate::table::{CellTable, in_turn};

impl Engine {
    /// Announces new cells since the last announcement, as many as one frame holds.
    pub(super) fn make_have<T: CellTable>(
        &mut self,
        id: MeshLinkId,
        now: u64,
        table: &mut T,
    ) -> MeshFrame {
        // The neighbours that brought the cells take turns, so that one flood cannot use all
        // announcements (MESH-77).
        let set = if T::KNOWS_BRINGERS {
            self.fresh_in_turn(id, table)
        } else {
            self.fresh_by_slot(id, table)
        };
        let link = &mut self.links[usize::from(id)];
        link.had_at = now;
        link.have_at = if link.fresh.is_empty() { NEVER } else { now + self.settings.have };
        MeshFrame::Have(set)
    }

    fn fresh_in_turn(&mut self, id: MeshLinkId, table: &impl CellTable) -> Set {
        let link = &mut self.links[usize::from(id)];
        let mut waiting = Vec::new();
        for WordMask { word, mask } in link.fresh.parts().collect::<Vec<_>>() {
            // A cell that died after it was queued is not announced.
            let held = mask & table.rows().hot(self.seat, word)[HELD];
            link.fresh.remove(word, !held);
            waiting.extend(iter_bits(held).map(|bit| 64 * word + bit));
        }
        let mut first = in_turn(waiting, table);
        first.truncate(SHORTS_PER_FRAME);
        for slot in &first {
            link.fresh.remove(slot / 64, 1 << (slot % 64));
        }
        first.into_iter().collect()
    }

    fn fresh_by_slot(&mut self, id: MeshLinkId, table: &impl CellTable) -> Set {
        let mut set = Set::default();
        let mut room = SHORTS_PER_FRAME as u32;
        let link = &mut self.links[usize::from(id)];
        let mut from = 0;
        while room > 0
            && let Some(WordMask { word, mask }) = link.fresh.next_part(from)
        {
            let held = table.rows().hot(self.seat, word)[HELD];
            let some = highest_bits(mask & held, room);
            link.fresh.remove(word, some | !held);
            set.push_word(word, some);
            room -= some.count_ones();
            from = word + 1;
        }
        set
    }
}
