//! The cells as an engine sees them, independent of their storage.

use alloc::vec::Vec;
use core::cmp::Reverse;

pub mod bits;
pub mod ids;
pub mod rows;

use crate::epoch::CellLife;
use crate::set::Slot;
use rows::{Rows, Seat};

/// Facts of a cell that every device may know.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CellFacts {
    /// Tick of sealing.
    pub tick: u32,
    /// The life of the cell.
    pub life: CellLife,
    /// The size class: 512 bytes times two to the power of this.
    pub class: u8,
    /// Four bytes of the id, for the checksum in a beacon.
    pub sum: u32,
}

impl CellFacts {
    /// Returns true if a device that erased the keys of all ticks below `floor` of the shortest life
    /// still has the key of this cell. A device keeps the keys of the present and the previous epoch
    /// of each life.
    pub fn has_key_after(&self, floor: u32) -> bool {
        // `floor` is the tick before the highest that the clock showed.
        let newest = self.life.epoch_of(floor.saturating_add(1));
        self.life.epoch_of(self.tick).saturating_add(1) >= newest
    }
}

/// The first announcement of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Announced {
    /// The time, µs.
    pub at: u64,
    /// The position in its frame, counted down: the first id of a frame has the highest value.
    pub place: u8,
}

impl Announced {
    /// Makes the `nth` announcement of a frame that arrives now.
    pub fn new(now: u64, nth: usize) -> Self {
        Self { at: now, place: u8::MAX - u8::try_from(nth).unwrap_or(u8::MAX) }
    }
}

/// Sorts cells into the order of announcing and sending. The neighbours that brought them take
/// turns, so that many cells of one do not delay others (MESH-77). Cells of one neighbour are
/// sorted by their position in its announcement, which was in turns already, and then by age,
/// newest first.
pub(crate) fn in_turn(mut slots: Vec<Slot>, table: &impl CellTable) -> Vec<Slot> {
    // The order of sending must not show which cells are our own (MESH-5).
    slots.sort_unstable_by_key(|slot| {
        (table.bringer(*slot), Reverse(table.announced_place(*slot)), Reverse(table.rank(*slot)))
    });
    let mut turns = Vec::with_capacity(slots.len());
    for same in slots.chunk_by(|one, other| table.bringer(*one) == table.bringer(*other)) {
        turns.extend(same.iter().enumerate().map(|(turn, slot)| (turn, *slot)));
    }
    // First one cell of each neighbour that brought some, then the second of each: a flood only
    // delays its own cells (MESH-77).
    turns.sort_unstable_by_key(|(turn, slot)| (*turn, Reverse(table.rank(*slot))));
    turns.into_iter().map(|(_, slot)| slot).collect()
}

/// Cells by slot. A crowd shares one table, a node has its own.
pub trait CellTable {
    /// True if the table records which neighbour brought a cell, and when a missing cell was
    /// announced. The table of a simulated crowd does not; there the order of slots counts.
    const KNOWS_BRINGERS: bool = false;

    /// Adds an engine to the table. Returns its seat, the index of its columns.
    fn add_seat(&mut self) -> Seat {
        self.rows_mut().add_seat()
    }

    /// Returns the bit columns.
    fn rows(&self) -> &Rows;

    /// Returns the bit columns for changes.
    fn rows_mut(&mut self) -> &mut Rows;

    /// Returns the number of words that were opened so far, if slots are reused in a ring. An
    /// engine clears its columns of all words opened since its last call.
    fn opened_words(&self) -> u64 {
        0
    }

    /// Returns the facts of the cell in `slot`.
    fn facts(&self, slot: Slot) -> CellFacts;

    /// Returns the position in the order of sending: the highest goes first. `None`: the order of
    /// the ring.
    fn rank(&self, _: Slot) -> Option<u64> {
        None
    }

    /// Returns a number for the address that brought the cell in `slot`. In announcements and
    /// responses these addresses take turns (MESH-77).
    fn bringer(&self, _: Slot) -> u64 {
        0
    }

    /// Returns the position of the cell in the announcement of the neighbour that brought it,
    /// counted down; the highest value if it was not announced.
    fn announced_place(&self, _: Slot) -> u8 {
        u8::MAX
    }

    /// Returns the announcement of a missing cell: the newest one is requested first (MESH-78).
    fn announced_at(&self, _: Slot) -> Option<Announced> {
        None
    }
}
