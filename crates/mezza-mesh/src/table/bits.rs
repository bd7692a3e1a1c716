//! One table for a whole simulated crowd: a slot means the same cell for every device.

use alloc::vec::Vec;

use super::rows::Rows;
use super::{CellFacts, CellTable};
use crate::engine::COLD_COLUMNS;
use crate::set::{Slot, WORDS_MAX};

/// Cells of a crowd in a ring of words. A slot is reused after one turn of the ring; no device may
/// hold its cell by then, so the ring must be longer than the life of cells.
#[derive(Clone, Debug)]
pub struct Bits {
    cells: Vec<CellFacts>,
    made: u64,
    rows: Rows,
}

impl Bits {
    /// Makes a ring for at least `cells` cells, at most 32,768.
    pub fn new(cells: usize) -> Self {
        // There are at least two words: the newest one is cleared as a whole when it is opened,
        // while the other is in use.
        let words = cells.div_ceil(64).clamp(2, WORDS_MAX);
        Self {
            cells: alloc::vec![CellFacts::default(); 64 * words],
            made: 0,
            rows: Rows::new(words, COLD_COLUMNS),
        }
    }

    /// Makes room for this number of engines.
    pub fn reserve(&mut self, engines: usize) {
        self.rows.reserve(engines);
    }

    /// Adds a cell. Returns its slot and its number, which is never reused.
    pub fn add(&mut self, facts: CellFacts) -> (Slot, u64) {
        let number = self.made;
        let slot = number % self.cells.len() as u64;
        self.cells[slot as usize] = facts;
        self.made += 1;
        (slot as Slot, number)
    }

    /// Returns the slot of the cell with this number, or `None` if the slot was reused.
    pub fn slot(&self, number: u64) -> Option<Slot> {
        let len = self.cells.len() as u64;
        // The word of the newest cells was cleared as a whole when it was opened, so older numbers
        // of its slots are gone.
        let kept = (self.made.div_ceil(64) * 64).saturating_sub(len);
        (kept..self.made).contains(&number).then_some((number % len) as Slot)
    }

    /// Returns the number of the newest cell in `slot`.
    pub fn number(&self, slot: Slot) -> u64 {
        let len = self.cells.len() as u64;
        let last = self.made.saturating_sub(1);
        let behind = (last % len + len - u64::from(slot)) % len;
        last.saturating_sub(behind)
    }

    /// Returns the number of slots.
    pub fn slots(&self) -> usize {
        self.cells.len()
    }

    /// Returns the number of cells ever added.
    pub fn made(&self) -> u64 {
        self.made
    }
}

impl CellTable for Bits {
    fn rows(&self) -> &Rows {
        &self.rows
    }

    fn rows_mut(&mut self) -> &mut Rows {
        &mut self.rows
    }

    #[inline]
    fn opened_words(&self) -> u64 {
        self.made.div_ceil(64)
    }

    #[inline]
    fn facts(&self, slot: Slot) -> CellFacts {
        self.cells[slot as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_come_round_and_numbers_do_not() {
        let mut bits = Bits::new(128);
        for n in 0..130 {
            assert_eq!(bits.add(CellFacts::default()), (n as u32 % 128, n));
        }
        assert_eq!((bits.number(0), bits.number(1), bits.number(2)), (128, 129, 2));
        assert_eq!(
            (bits.slot(129), bits.slot(1), bits.slot(63), bits.slot(64)),
            (Some(1), None, None, Some(64))
        );
        assert_eq!((bits.slots(), bits.opened_words()), (128, 3));
    }
}
