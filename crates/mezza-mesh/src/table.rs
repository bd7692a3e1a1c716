//! The view of an engine on cells, wherever they are kept.

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

/// Cells by slot. A crowd has one table for all devices, a node has its own.
pub trait CellTable {
    /// A place for one more engine.
    fn seat(&mut self) -> Seat {
        self.rows_mut().seat()
    }

    /// The bit columns.
    fn rows(&self) -> &Rows;

    /// The bit columns.
    fn rows_mut(&mut self) -> &mut Rows;

    /// How many words were ever opened, where slots are used again in a ring. Whoever lags behind
    /// empties the columns of the words that were opened since.
    fn opened(&self) -> u64 {
        0
    }

    /// Returns the facts of the cell in `slot`.
    fn facts(&self, slot: Slot) -> CellFacts;

    /// Its place in the order of sending: the greatest goes first. `None`: the order of the ring.
    fn rank(&self, _: Slot) -> Option<u64> {
        None
    }
}
