//! The window of seen packet numbers (RFC 6479).

use crate::limits::WINDOW_FRAMES;

/// Bits of a word.
const WORD_BITS: u32 = 64;
/// Number of words in the ring: twice the window, so that words ahead of it can be cleared.
const WORDS: usize = 2 * (WINDOW_FRAMES / WORD_BITS) as usize;

/// The seen packet numbers of one direction; all below `next - WINDOW_FRAMES` count as seen.
///
/// [`ReplayWindow::is_new`] only checks and [`ReplayWindow::mark_seen`] changes: a frame is marked
/// only after it opened (SEKA-43).
#[derive(Clone, Debug)]
pub struct ReplayWindow {
    words: [u64; WORDS],
    /// One more than the highest seen number.
    next: u32,
}

impl Default for ReplayWindow {
    fn default() -> Self {
        Self { words: [0; WORDS], next: 0 }
    }
}

impl ReplayWindow {
    /// Returns true if this number was not seen and is not too old.
    pub fn is_new(&self, number: u32) -> bool {
        if number >= self.next {
            return true;
        }
        // Too old numbers count as seen: their bits were overwritten (RFC 6479).
        self.next - number <= WINDOW_FRAMES
            && self.words[word_index(number)] & bit_mask(number) == 0
    }

    /// Marks a new number as seen.
    pub fn mark_seen(&mut self, number: u32) {
        if number >= self.next {
            self.advance_to(number);
        }
        self.words[word_index(number)] |= bit_mask(number);
    }

    /// Returns one more than the highest seen number.
    pub fn next(&self) -> u32 {
        self.next
    }

    /// Clears the words between the highest number so far and `number`.
    fn advance_to(&mut self, number: u32) {
        // The word of the last number keeps its bits, so clearing starts after it.
        let from = self.next.div_ceil(WORD_BITS);
        let to = number / WORD_BITS;
        let count = (to + 1).saturating_sub(from).min(WORDS as u32);
        for index in 0..count {
            self.words[(to - index) as usize % WORDS] = 0;
        }
        self.next = number.saturating_add(1);
    }
}

fn word_index(number: u32) -> usize {
    (number / WORD_BITS) as usize % WORDS
}

fn bit_mask(number: u32) -> u64 {
    1 << (number % WORD_BITS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeSet;
    use proptest::prelude::*;

    /// A reference window that stores a set of all numbers.
    #[derive(Default)]
    struct Naive {
        seen: BTreeSet<u32>,
    }

    impl Naive {
        fn take(&mut self, number: u32) -> bool {
            let greatest = self.seen.last().copied();
            let old = greatest.is_some_and(|g| number < g && g - number >= WINDOW_FRAMES);
            !old && self.seen.insert(number)
        }
    }

    proptest! {
        #[test]
        fn seka_42_the_window_agrees_with_a_set_of_all_numbers(
            steps in proptest::collection::vec((any::<bool>(), 0_u32..20_000), 1..400),
        ) {
            let mut window = ReplayWindow::default();
            let mut naive = Naive::default();
            let mut at = 0_u32;
            for (forward, by) in steps {
                let number = if forward { at + by % 700 } else { at.saturating_sub(by % 9_000) };
                at = at.max(number);
                let allowed = window.is_new(number);
                prop_assert_eq!(allowed, naive.take(number), "{}", number);
                if allowed {
                    window.mark_seen(number);
                }
            }
        }
    }

    #[test]
    fn a_jump_over_the_whole_ring_clears_it() {
        let mut window = ReplayWindow::default();
        (0..200).for_each(|number| window.mark_seen(number));
        window.mark_seen(50_000_000);
        assert!(!window.is_new(199) && !window.is_new(50_000_000));
        assert!(window.is_new(49_999_999) && window.is_new(50_000_001));
    }
}
