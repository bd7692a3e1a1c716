//! A window as ranges of numbers: the form of backups and inventories.

use alloc::vec::Vec;

use super::{Bits, Era, REACH, Window};

/// Numbers from the first to the last, both included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SeqRange {
    /// The first number, at least 1.
    pub from: u32,
    /// The last number.
    pub to: u32,
}

/// The content of a [`Window`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WindowRanges {
    /// Every number up to this one is settled: it has arrived or was voided.
    pub floor: u32,
    /// Numbers above the floor that have arrived, ascending.
    pub arrived: Vec<SeqRange>,
    /// Numbers above the floor that were voided first, ascending.
    pub voided: Vec<SeqRange>,
    /// Numbers at most 1,023 below the floor that never arrived, ascending.
    pub passed: Vec<SeqRange>,
}

impl Window {
    /// Returns the content of the window as ranges.
    pub fn to_ranges(&self) -> WindowRanges {
        let above = |bits: &Bits| {
            collect_ranges((0..REACH).filter(|i| bits.has_bit(*i)).map(|i| self.floor + 1 + i))
        };
        let below = (0..REACH.min(self.floor)).rev().filter(|i| self.passed.has_bit(*i));
        WindowRanges {
            floor: self.floor,
            arrived: above(&self.arrived),
            voided: above(&self.voided),
            passed: collect_ranges(below.map(|i| self.floor - i)),
        }
    }

    /// Makes a window from its ranges; `None` if no window has this content.
    pub fn from_ranges(era: Era, ranges: &WindowRanges) -> Option<Self> {
        let mut window = Self::new(era);
        window.floor = ranges.floor;
        let above = |seq: u32| seq.checked_sub(ranges.floor.checked_add(1)?);
        fill_bits(&mut window.arrived, &ranges.arrived, above)?;
        fill_bits(&mut window.voided, &ranges.voided, above)?;
        let below = |seq: u32| ranges.floor.checked_sub(seq).filter(|_| seq > 0);
        fill_bits(&mut window.passed, &ranges.passed, below)?;
        // The ranges must ascend without touching, so that each window has one form.
        (window.to_ranges() == *ranges && !window.arrived.meets(&window.voided)).then_some(())?;
        let open = !window.arrived.has_bit(0) && !window.voided.has_bit(0);
        open.then_some(window)
    }
}

/// Sets a bit for each number of the ranges. Returns `None` if one is outside of the window.
fn fill_bits(
    bits: &mut Bits,
    ranges: &[SeqRange],
    index: impl Fn(u32) -> Option<u32>,
) -> Option<()> {
    for range in ranges {
        // A range that is wider than a window must not cost a loop over all numbers.
        let width = range.to.checked_sub(range.from)?;
        if width >= REACH {
            return None;
        }
        for seq in range.from..=range.to {
            bits.set_bit(index(seq).filter(|i| *i < REACH)?);
        }
    }
    Some(())
}

/// Joins ascending numbers to ranges.
pub(crate) fn collect_ranges(seqs: impl Iterator<Item = u32>) -> Vec<SeqRange> {
    let mut ranges: Vec<SeqRange> = Vec::new();
    for seq in seqs {
        match ranges.last_mut() {
            Some(last) if last.to.checked_add(1) == Some(seq) => last.to = seq,
            _ => ranges.push(SeqRange { from: seq, to: seq }),
        }
    }
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Any window that operations can make has one form as ranges, and comes back from it.
        #[test]
        fn backup_1_a_window_comes_back_from_its_ranges(
            steps in proptest::collection::vec((any::<bool>(), 1_u32..1_500, 0_u32..40), 0..40),
        ) {
            let mut window = Window::new(Era([7; 4]));
            for (voids, seq, more) in steps {
                if voids {
                    let _ = window.void_range(seq, seq + more);
                } else {
                    let _ = window.insert(seq);
                }
            }
            let ranges = window.to_ranges();
            prop_assert_eq!(Window::from_ranges(window.era(), &ranges), Some(window));
        }
    }

    #[test]
    fn backup_1_ranges_of_no_window_are_refused() {
        let range = |from, to| SeqRange { from, to };
        let good = WindowRanges {
            floor: 10,
            arrived: [range(12, 14)].into(),
            voided: [range(16, 16)].into(),
            passed: [range(3, 4)].into(),
        };
        let made = |ranges: &WindowRanges| Window::from_ranges(Era([1; 4]), ranges);
        assert!(made(&good).is_some());
        let wrong = [
            WindowRanges { arrived: [range(11, 14)].into(), ..good.clone() },
            WindowRanges { arrived: [range(14, 12)].into(), ..good.clone() },
            WindowRanges { arrived: [range(12, u32::MAX)].into(), ..good.clone() },
            WindowRanges { arrived: [range(12, 13), range(14, 14)].into(), ..good.clone() },
            WindowRanges { voided: [range(12, 12)].into(), ..good.clone() },
            WindowRanges { passed: [range(0, 1)].into(), ..good.clone() },
            WindowRanges { passed: [range(11, 11)].into(), ..good.clone() },
            WindowRanges { floor: u32::MAX, ..good.clone() },
        ];
        for ranges in &wrong {
            assert!(made(ranges).is_none(), "{ranges:?}");
        }
    }
}
