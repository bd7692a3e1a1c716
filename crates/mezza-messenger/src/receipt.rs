//! Receipts: the claims of a reader about received notes, and their value as evidence for the
//! writer.
//!
//! **Reader.** A [`Window`] per contact and era records which seqs were stored. `floor` is the
//! highest seq with no open seq at or below it. The 1,024 seqs above it are recorded one by one. A
//! seq is *settled* if it arrived or was voided before it arrived. The floor passes settled seqs of
//! both kinds, so a gap that the writer gave up blocks nothing. Bits are set for arrived seqs only.
//!
//! **Writer.** [`Receipt::proves_seq`] checks one note of the writer. For a note that was not given
//! up, floor and bits are evidence. For a voided note only a bit is evidence, because the reader's
//! floor passes a voided seq in any case (MSG-14).
//!
//! **A void crosses its note on the way.** Three orders are possible. The window distinguishes
//! them, also for the last 1,024 seqs below its floor:
//!
//! ```text
//! note, then void     the seq has arrived: the reader answers the void with its bit
//! void, then note     the note is dropped without receipt: SeqStatus::Voided
//! void twice          the seq never arrived: still no bit
//! ```
//!
//! A note older than that history is reported as known and gets no bit, so the writer's state may
//! be weaker than the truth, never stronger. A writer repeats a void until a receipt's floor has
//! passed it. It keeps at most [`REACH`] seqs open above the floor that it knows.

mod bits;
mod kept;
mod window;

use crate::note::Era;
use mezza_core::{DecodeError, Reader, Writer};

pub use kept::{Kept, NoteDigest};
pub(crate) use window::collect_ranges;
pub use window::{SeqRange, SeqStatus, Window, WindowRanges};

/// Number of seqs above and below its floor that a window records one by one.
pub const REACH: u32 = 1_024;

/// A claim of the reader about notes of one era of the writer. Wire form: 21 B.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Receipt {
    /// [`Receipt::DELIVERED`] or [`Receipt::READ`].
    pub what: u8,
    /// The writer's era.
    pub era: Era,
    /// Every seq up to this one is settled.
    pub floor: u32,
    /// The seq of bit 0.
    pub base: u32,
    /// Bit i, counted from the lowest, is set if seq base + i has arrived.
    pub bits: u64,
}

impl Receipt {
    /// Value of `what`: the notes are on the reader's disk.
    pub const DELIVERED: u8 = 1;
    /// Value of `what`: the reader has seen the notes and allows read receipts.
    pub const READ: u8 = 2;

    /// Returns true if the floor or a bit covers `seq`. Seq 0 requests no receipt and is never
    /// covered.
    pub fn covers_seq(&self, seq: u32) -> bool {
        seq > 0 && (seq <= self.floor || self.has_bit(seq))
    }

    /// Returns true if this receipt is evidence for the writer's note `seq` of its era. `voided` is
    /// true if the writer gave the note up; the floor is then no evidence.
    pub fn proves_seq(&self, seq: u32, voided: bool) -> bool {
        // The floor also passes voids, so for a voided note only its own bit counts (MSG-14).
        if voided { seq > 0 && self.has_bit(seq) } else { self.covers_seq(seq) }
    }

    /// Returns the receipt for a number that arrived with two different contents. It sets a bit for
    /// a seq that no writer reaches, so it is evidence for no note (MSG-91).
    pub fn for_conflict(era: Era) -> Self {
        // The last u32 is a seq that no writer reaches (MSG-91).
        Self { what: Self::DELIVERED, era, floor: 0, base: u32::MAX, bits: 1 }
    }

    /// Returns true if this receipt covers a seq from `next` on, none of which was used yet.
    /// Another copy of the same vault then writes in this era.
    pub fn is_ahead(&self, next: u32) -> bool {
        self.highest_seq() >= next
    }

    /// Returns the highest seq that this receipt covers; 0 for none.
    pub fn highest_seq(&self) -> u32 {
        let highest = self.bits.checked_ilog2().map(|bit| self.base.saturating_add(bit));
        self.floor.max(highest.unwrap_or(0))
    }

    /// Returns true if the bit of `seq` is set. Bits above the last seq are ignored.
    fn has_bit(&self, seq: u32) -> bool {
        seq.checked_sub(self.base)
            .and_then(|i| self.bits.checked_shr(i))
            .is_some_and(|bits| bits & 1 == 1)
    }

    pub(crate) fn write(&self, w: &mut Writer) {
        w.put_u8(self.what)
            .put_bytes(&self.era.0)
            .put_u32(self.floor)
            .put_u32(self.base)
            .put_u64(self.bits);
    }

    pub(crate) fn read(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let what = r.read_u8()?;
        // Other values are reserved. A receipt of unknown meaning proves nothing.
        if what != Self::DELIVERED && what != Self::READ {
            return Err(DecodeError::Value);
        }
        Ok(Self {
            what,
            era: Era::read(r)?,
            floor: r.read_u32()?,
            base: r.read_u32()?,
            bits: r.read_u64()?,
        })
    }
}
