//! The view of an engine on cells, wherever they are kept.

use alloc::vec::Vec;
use core::cmp::Reverse;

pub mod bits;
pub mod ids;
pub mod rows;

use crate::epoch::Life;
use crate::set::Slot;
use rows::{Rows, Seat};

/// Facts of a cell that every device may know.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CellFacts {
    /// Tick of sealing.
    pub tick: u32,
    /// How long it lives.
    pub life: Life,
    /// Its size class: 512 bytes times two to the power of this.
    pub class: u8,
    /// Four bytes of its id, for the sum in a beacon.
    pub sum: u32,
}

/// When a cell was announced first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Announced {
    /// The time, µs.
    pub at: u64,
    /// Its place in the frame, counted back, so that the first one is the greatest.
    pub place: u8,
}

impl Announced {
    /// The `nth` of a frame that arrives now.
    pub fn new(now: u64, nth: usize) -> Self {
        Self { at: now, place: u8::MAX - u8::try_from(nth).unwrap_or(u8::MAX) }
    }
}

/// The order in which cells are announced and given: bringers take turns, so that many cells of one hold back no
/// others (MESH-77). Of one bringer those come first that stood first in its own announcements, since these were
/// in turn too, and then the newest.
pub(crate) fn in_turn(mut slots: Vec<Slot>, table: &impl CellTable) -> Vec<Slot> {
    // The order of sending must not show which cells are our own (MESH-5).
    slots.sort_unstable_by_key(|slot| {
        (table.bringer(*slot), Reverse(table.announced_place(*slot)), Reverse(table.rank(*slot)))
    });
    let mut turns = Vec::with_capacity(slots.len());
    for same in slots.chunk_by(|one, other| table.bringer(*one) == table.bringer(*other)) {
        turns.extend(same.iter().enumerate().map(|(turn, slot)| (turn, *slot)));
    }
    // The first of each bringer, then the second of each: a flood only delays itself (MESH-77).
    turns.sort_unstable_by_key(|(turn, slot)| (*turn, Reverse(table.rank(*slot))));
    turns.into_iter().map(|(_, slot)| slot).collect()
}

/// Cells by slot. A crowd has one table for all devices, a node has its own.
pub trait CellTable {
    /// True if it knows who brought a cell, and when a missing one was announced. A crowd's table does not:
    /// there the order of the slots counts.
    const KNOWS_BRINGERS: bool = false;

    /// A place for one more engine.
    fn add_seat(&mut self) -> Seat {
        self.rows_mut().add_seat()
    }

    /// The bit columns.
    fn rows(&self) -> &Rows;

    /// The bit columns.
    fn rows_mut(&mut self) -> &mut Rows;

    /// How many words were ever opened, where slots are used again in a ring. Whoever lags behind
    /// empties the columns of the words that were opened since.
    fn opened_words(&self) -> u64 {
        0
    }

    /// Returns the facts of the cell in `slot`.
    fn facts(&self, slot: Slot) -> CellFacts;

    /// Its place in the order of sending: the greatest goes first. `None`: the order of the ring.
    fn rank(&self, _: Slot) -> Option<u64> {
        None
    }

    /// Returns the bringer of the cell in `slot`, as a number: bringers take turns (MESH-77).
    fn bringer(&self, _: Slot) -> u64 {
        0
    }

    /// The place at which its bringer announced the cell in `slot`, counted back; the greatest if it did not.
    fn announced_place(&self, _: Slot) -> u8 {
        u8::MAX
    }

    /// When a missing cell was announced: the newest announcement is asked for first (MESH-78).
    fn announced_at(&self, _: Slot) -> Option<Announced> {
        None
    }
}
