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
    /// Four bytes of the id, for the sum in a beacon.
    pub sum: u32,
}

/// The first announcement of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Announced {
    /// The time, µs.
    pub at: u64,
    /// Its position in the frame, counted down, so that the first one is the highest.
    pub place: u8,
}

impl Announced {
    /// Makes the `nth` announcement of a frame that arrives now.
    pub fn new(now: u64, nth: usize) -> Self {
        Self { at: now, place: u8::MAX - u8::try_from(nth).unwrap_or(u8::MAX) }
    }
}

/// Sorts cells into the order of announcing and sending: bringers take turns, so that many cells of
/// one do not delay others (MESH-77). Within one bringer, cells that were first in its own
/// announcements come first, since those were in turn too, and then the newest.
pub(crate) fn in_turn(mut slots: Vec<Slot>, table: &impl CellTable) -> Vec<Slot> {
    // The order of sending must not show which cells are our own (MESH-5).
    slots.sort_unstable_by_key(|slot| {
        (table.bringer(*slot), Reverse(table.announced_place(*slot)), Reverse(table.rank(*slot)))
    });
    let mut turns = Vec::with_capacity(slots.len());
    for same in slots.chunk_by(|one, other| table.bringer(*one) == table.bringer(*other)) {
        turns.extend(same.iter().enumerate().map(|(turn, slot)| (turn, *slot)));
    }
    // First one cell of each bringer, then the second of each: a flood only delays itself
    // (MESH-77).
    turns.sort_unstable_by_key(|(turn, slot)| (*turn, Reverse(table.rank(*slot))));
    turns.into_iter().map(|(_, slot)| slot).collect()
}

/// Cells by slot. A crowd shares one table, a node has its own.
pub trait CellTable {
    /// True if the table knows who brought a cell, and when a missing one was announced. A crowd's
    /// table does not; the order of its slots counts.
    const KNOWS_BRINGERS: bool = false;

    /// Adds one more engine. Returns its seat.
    fn add_seat(&mut self) -> Seat {
        self.rows_mut().add_seat()
    }

    /// Returns the bit columns.
    fn rows(&self) -> &Rows;

    /// Returns the bit columns for changes.
    fn rows_mut(&mut self) -> &mut Rows;

    /// Returns how many words were ever opened, if slots are reused in a ring. An engine that lags
    /// behind empties the columns of the words opened since.
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

    /// Returns the bringer of the cell in `slot`, as a number: bringers take turns (MESH-77).
    fn bringer(&self, _: Slot) -> u64 {
        0
    }

    /// Returns the position at which its bringer announced the cell in `slot`, counted down; the
    /// highest value if it was not announced.
    fn announced_place(&self, _: Slot) -> u8 {
        u8::MAX
    }

    /// Returns the announcement of a missing cell: the newest one is requested first (MESH-78).
    fn announced_at(&self, _: Slot) -> Option<Announced> {
        None
    }
}
