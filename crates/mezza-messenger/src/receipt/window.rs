//! The window of notes that have arrived from one writer in one era.

mod ranges;

use alloc::vec::Vec;
use core::fmt;

use crate::note::Era;
use mezza_core::{DecodeError, Reader, Writer, snapshot};

use super::bits::Bits;
use super::{REACH, Receipt};
pub(crate) use ranges::collect_ranges;
pub use ranges::{SeqRange, WindowRanges};

/// The status of a seq in a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SeqStatus {
    /// The note is new: store it, show it, send a receipt.
    Fresh,
    /// The note arrived before: do not show it again, but repeat the receipt.
    Known,
    /// The writer gave the note up before it arrived: drop it, send no receipt.
    Voided,
    /// The seq is more than [`REACH`] above the floor: nothing was recorded.
    TooFar,
}

/// The arrived notes of one writer and era: a floor and 1,024 bits.
///
/// Stored form: `era[4] | floor u32 | arrived | voided | passed`, each bit array as `n u8 | n words
/// u64`. It has 11 B while all notes arrive in order, and 395 B at most.
#[derive(Clone, PartialEq, Eq)]
pub struct Window {
    era: Era,
    /// Every seq up to this one is settled, and the next one is not.
    floor: u32,
    /// Bit i is set if seq floor + 1 + i has arrived.
    arrived: Bits,
    /// Bit i is set if seq floor + 1 + i was voided and has not arrived.
    voided: Bits,
    /// Bit i is set if seq floor - i was voided and had not arrived when the floor passed it.
    passed: Bits,
}

snapshot!(struct Window { era, floor, arrived, voided, passed });

impl Window {
    /// Creates a window without arrived notes.
    pub fn new(era: Era) -> Self {
        Self { era, floor: 0, arrived: Bits::NONE, voided: Bits::NONE, passed: Bits::NONE }
    }

    /// Returns the writer's era.
    pub fn era(&self) -> Era {
        self.era
    }

    /// Returns the highest seq up to which every seq is settled.
    pub fn floor(&self) -> u32 {
        self.floor
    }

    /// Returns the number of open seqs below the highest settled one; these notes are on their way.
    pub fn count_missing(&self) -> usize {
        let settled = self.arrived.union(&self.voided);
        settled.highest().map_or(0, |highest| highest + 1 - settled.count()) as usize
    }

    /// Returns the result that [`Window::insert`] would have.
    pub fn check_seq(&self, seq: u32) -> SeqStatus {
        if seq == 0 {
            return SeqStatus::Fresh;
        }
        let (voided, arrived) = match seq.checked_sub(self.floor) {
            None | Some(0) => (self.passed.has_bit(self.floor - seq), true),
            // Nothing is recorded beyond the reach, so the writer sends the note again (5.4).
            Some(above) if above > REACH => return SeqStatus::TooFar,
            Some(above) => (self.voided.has_bit(above - 1), self.arrived.has_bit(above - 1)),
        };
        match (voided, arrived) {
            (true, _) => SeqStatus::Voided,
            (false, true) => SeqStatus::Known,
            (false, false) => SeqStatus::Fresh,
        }
    }

    /// Records that the note `seq` is stored. Only [`SeqStatus::Fresh`] changes the window.
    ///
    /// A note with seq 0 requests no receipt. It is always fresh and is not recorded.
    pub fn insert(&mut self, seq: u32) -> SeqStatus {
        let arrival = self.check_seq(seq);
        if arrival == SeqStatus::Fresh && seq > 0 {
            self.arrived.set_bit(seq - self.floor - 1);
            self.advance_floor();
        }
        arrival
    }

    /// Records that the writer gave up `from..=to`. Notes that have arrived stay arrived.
    ///
    /// Returns false if the end of the range is above the reach and was not recorded; the writer
    /// repeats the void later.
    pub fn void_range(&mut self, from: u32, to: u32) -> bool {
        // Numbers beyond the reach cannot be recorded, and the writer repeats the void (5.4).
        if to > self.floor {
            self.void_within_reach(from, to);
        }
        if to <= self.floor {
            return true;
        }
        if from <= self.floor.saturating_add(1) {
            // The range covered the whole window, so no seq above the new floor has arrived.
            let gone = to - self.floor;
            self.passed = if gone >= REACH { Bits::ALL } else { shift_in_ones(gone, &self.passed) };
            self.floor = to;
            return true;
        }
        to - self.floor <= REACH
    }

    /// Returns receipts for all arrived notes: the floor and the bits above it, at most 16.
    ///
    /// The list is empty if no seq is settled.
    pub fn list_receipts(&self, what: u8) -> Vec<Receipt> {
        let mut receipts = self.bit_receipts(what, self.floor.saturating_add(1), u32::MAX);
        if receipts.is_empty() && self.floor > 0 {
            let Self { era, floor, .. } = *self;
            receipts.push(Receipt { what, era, floor, base: 0, bits: 0 });
        }
        receipts
    }

    /// Returns the answer to a void: receipts with a bit for each recorded seq of `from..=to` that
    /// has arrived. There are at most 32, and none if no seq has arrived.
    pub fn answer_void(&self, what: u8, from: u32, to: u32) -> Vec<Receipt> {
        self.bit_receipts(what, from, to)
    }

    /// Appends the stored form.
    pub fn write(&self, w: &mut Writer) {
        w.put_bytes(&self.era.0).put_u32(self.floor);
        self.arrived.write(w);
        self.voided.write(w);
        self.passed.write(w);
    }

    /// Reads the stored form from the front of the reader.
    pub fn read(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let era = Era::read(r)?;
        let floor = r.read_u32()?;
        let arrived = Bits::read(r)?;
        let voided = Bits::read(r)?;
        let passed = Bits::read(r)?;
        let settled = arrived.union(&voided);
        let end = settled.highest().map_or(0, |i| u64::from(i) + 1) + u64::from(floor);
        let begin = passed.highest().map_or(0, |i| i + 1);
        // A seq is either arrived or voided, and the one above the floor is open.
        let is_sound = !arrived.meets(&voided) && !settled.has_bit(0);
        if !is_sound || end > u64::from(u32::MAX) || begin > floor {
            return Err(DecodeError::Value);
        }
        Ok(Self { era, floor, arrived, voided, passed })
    }

    fn void_within_reach(&mut self, from: u32, to: u32) {
        let first = from.max(self.floor + 1);
        let last = to.min(self.floor.saturating_add(REACH));
        for seq in first..=last {
            let i = seq - self.floor - 1;
            if !self.arrived.has_bit(i) {
                self.voided.set_bit(i);
            }
        }
        self.advance_floor();
    }

    /// Moves the floor over settled seqs, and records which of them were voided.
    fn advance_floor(&mut self) {
        let run = self.arrived.union(&self.voided).leading_run();
        if run == 0 {
            return;
        }
        let mut passed = self.passed.shifted_up(run);
        // Bit i above the floor becomes seq floor - (run - 1 - i) below the new one.
        (0..run).filter(|i| self.voided.has_bit(*i)).for_each(|i| passed.set_bit(run - 1 - i));
        self.passed = passed;
        self.arrived = self.arrived.shifted_down(run);
        self.voided = self.voided.shifted_down(run);
        self.floor += run;
    }

    /// Returns true if `seq` has arrived; it must be within the recorded range.
    fn has_arrived(&self, seq: u32) -> bool {
        match seq.checked_sub(self.floor) {
            None | Some(0) => !self.passed.has_bit(self.floor - seq),
            Some(above) => self.arrived.has_bit(above - 1),
        }
    }

    fn bit_receipts(&self, what: u8, from: u32, to: u32) -> Vec<Receipt> {
        // Lower seqs are not recorded, and seq 0 identifies no note.
        let lowest = self.floor.saturating_sub(REACH - 1).max(from).max(1);
        let highest = self.floor.saturating_add(REACH).min(to);
        let mut receipts: Vec<Receipt> = Vec::new();
        for seq in (lowest..=highest).filter(|seq| self.has_arrived(*seq)) {
            match receipts.last_mut() {
                Some(last) if seq - last.base < 64 => last.bits |= 1 << (seq - last.base),
                _ => {
                    let Self { era, floor, .. } = *self;
                    receipts.push(Receipt { what, era, floor, base: seq, bits: 1 });
                }
            }
        }
        receipts
    }
}

impl fmt::Debug for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Window(floor {}, missing {})", self.floor, self.count_missing())
    }
}

/// Returns `older` moved up by `n`, which must be below 1,024, with ones in the lowest `n` bits.
fn shift_in_ones(n: u32, older: &Bits) -> Bits {
    let mut out = older.shifted_up(n);
    (0..n).for_each(|i| out.set_bit(i));
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const READ: u8 = 2;

    /// Returns a window in which all notes up to `floor` have arrived.
    fn settled(floor: u32) -> Window {
        let mut window = Window::new(Era([7; 4]));
        for seq in 1..=floor {
            assert_eq!(window.insert(seq), SeqStatus::Fresh);
        }
        window
    }

    /// Returns the seqs whose bits are set in an answer.
    fn answered(window: &Window, from: u32, to: u32) -> Vec<u32> {
        let receipts = window.answer_void(READ, from, to);
        let seqs =
            |r: Receipt| (0..64).filter(move |i| r.bits >> i & 1 == 1).map(move |i| r.base + i);
        receipts.into_iter().flat_map(seqs).collect()
    }

    #[test]
    fn an_answer_has_what_arrived_and_nothing_else() {
        let mut window = settled(10);
        assert!(window.void_range(5, 30), "the range covers the window");
        assert_eq!(window.floor(), 30);
        assert_eq!(answered(&window, 0, 40), (1..=10).collect::<Vec<_>>());
        assert_eq!(window.insert(33), SeqStatus::Fresh);
        assert_eq!(answered(&window, 9, 33), [9, 10, 33]);
        // The range ends above the reach.
        let mut window = Window::new(Era([7; 4]));
        assert_eq!(window.insert(500), SeqStatus::Fresh);
        assert!(window.void_range(1, REACH + 100));
        assert_eq!(answered(&window, 0, 2 * REACH), [500]);
    }

    #[test]
    fn an_answer_is_of_the_range_that_was_asked_for() {
        let mut window = settled(10);
        assert!(window.void_range(11, 30));
        assert_eq!(window.insert(33), SeqStatus::Fresh);
        assert_eq!(answered(&window, 9, 33), [9, 10, 33]);
    }

    #[test]
    fn what_lies_too_deep_is_not_said_to_have_arrived() {
        let mut window = settled(3);
        assert!(window.void_range(1, 5_000));
        assert_eq!(answered(&window, 0, 5_000), []);
        assert_eq!(
            answered(&settled(3_000), 0, 3_000),
            (3_000 - REACH + 1..=3_000).collect::<Vec<_>>()
        );
    }

    #[test]
    fn a_void_is_recorded_as_far_as_the_window_reaches() {
        let mut window = settled(600);
        assert!(window.void_range(700, 800) && window.void_range(700, 600 + REACH));
        assert!(!window.void_range(700, 600 + REACH + 1));
        assert_eq!(window.floor(), 600);
    }

    #[test]
    fn a_window_ends_where_seqs_end() {
        let stored = |floor: u32| {
            let mut w = Writer::new();
            // Bit 1 of the arrived bits is the note floor + 2.
            w.put_bytes(&[7; 4]).put_u32(floor).put_u8(1).put_u64(2).put_u8(0).put_u8(0);
            Reader::decode_exact(&w.finish(), Window::read).map(|_| ())
        };
        assert_eq!(stored(u32::MAX - 2), Ok(()));
        assert_eq!(stored(u32::MAX - 1), Err(DecodeError::Value));
    }
}
