//! Receipts: what a reader may claim, and what a writer may believe.
//!
//! **Reader.** A [`Window`] per contact and era remembers which seqs were stored. `floor` is the
//! highest seq with nothing open at or below it; above it 1,024 seqs are told apart one by one.
//! A seq is *settled* if it arrived or was voided before it arrived; the floor passes settled
//! seqs of both kinds, so a gap that the writer gave up blocks nothing. Bits stand for arrived
//! seqs alone.
//!
//! **Writer.** [`Receipt::proves_seq`] answers for one own note. For a note that was not given up,
//! floor and bits are evidence. For a voided one only a bit is: the reader's floor passes it
//! whether it arrived or not (MSG-14).
//!
//! **A void crosses its note on the way.** Three orders are possible, and the window keeps them
//! apart for the last 1,024 seqs below its floor too:
//!
//! ```text
//! note, then void     the seq has arrived: the reader answers the void with its bit
//! void, then note     the note is dropped without receipt: Arrival::Voided
//! void twice          the seq never arrived: still no bit
//! ```
//!
//! A note older than that history is reported as known and gets no bit: the writer then shows
//! less than is true, never more. A writer repeats a void until a receipt's floor has passed it,
//! and keeps no more than [`REACH`] seqs open above the floor it knows of.

mod bits;
mod kept;
mod window;

use crate::note::Era;
use mezza_core::{DecodeError, Reader, Writer};

pub use kept::{Kept, NoteDigest};
pub(crate) use window::collect_ranges;
pub use window::{SeqRange, SeqStatus, Window, WindowRanges};

/// How many seqs above its floor, and below it, a window tells apart.
pub const REACH: u32 = 1_024;

/// A claim of the reader about notes of one era of the writer. Wire form: 21 B.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Receipt {
    /// [`Receipt::DELIVERED`] or [`Receipt::READ`].
    pub what: u8,
    /// The writer's era.
    pub era: Era,
    /// Every seq up to here is settled.
    pub floor: u32,
    /// The seq of bit 0.
    pub base: u32,
    /// Bit i, counted from the lowest, stands for seq base + i.
    pub bits: u64,
}

impl Receipt {
    /// The notes are on the reader's disk.
    pub const DELIVERED: u8 = 1;
    /// The reader has seen the notes and lets the writer know.
    pub const READ: u8 = 2;

    /// Returns true if floor or bits stand for `seq`. Seq 0 asks for no receipt and has none.
    pub fn covers_seq(&self, seq: u32) -> bool {
        seq > 0 && (seq <= self.floor || self.has_bit(seq))
    }

    /// Returns true if this receipt is evidence for the own note `seq` of its era; `voided`: whether the
    /// writer gave the note up, so that the floor says nothing about it.
    pub fn proves_seq(&self, seq: u32, voided: bool) -> bool {
        // The floor also passes voids, so for a voided note only its own bit counts (MSG-14).
        if voided { seq > 0 && self.has_bit(seq) } else { self.covers_seq(seq) }
    }

    /// Returns the receipt for a number that came with other content than before: it names a seq that no writer
    /// gets to, so that it is evidence for no note (MSG-91).
    pub fn for_conflict(era: Era) -> Self {
        // A bit for the last u32: no writer reaches it (MSG-91).
        Self { what: Self::DELIVERED, era, floor: 0, base: u32::MAX, bits: 1 }
    }

    /// Returns true if this stands for a seq from `next` on, none of which was given yet: then somebody else
    /// writes in this era, another life of the same vault.
    pub fn is_ahead(&self, next: u32) -> bool {
        self.highest_seq() >= next
    }

    /// The highest seq that this stands for; 0 for none.
    pub fn highest_seq(&self) -> u32 {
        let highest = self.bits.checked_ilog2().map(|bit| self.base.saturating_add(bit));
        self.floor.max(highest.unwrap_or(0))
    }

    /// Returns true if a bit stands for `seq`. A bit above the end of all seqs stands for nothing.
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
