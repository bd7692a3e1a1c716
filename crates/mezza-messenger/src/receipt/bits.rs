//! An array of 1,024 bits.

use mezza_core::{DecodeError, Reader, Writer, snapshot};

use super::REACH;

const WORDS: usize = REACH as usize / 64;

/// Bits 0 to 1,023. A bit above 1,023 reads as 0.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Bits([u64; WORDS]);

snapshot!(struct Bits(words));

impl Bits {
    pub const NONE: Self = Self([0; WORDS]);
    pub const ALL: Self = Self([u64::MAX; WORDS]);

    pub fn has_bit(&self, i: u32) -> bool {
        self.0.get(i as usize / 64).is_some_and(|word| word >> (i % 64) & 1 == 1)
    }

    /// Sets bit `i`, which must be below 1,024.
    pub fn set_bit(&mut self, i: u32) {
        self.0[i as usize / 64] |= 1 << (i % 64);
    }

    /// Returns the number of ones from bit 0 up to the first zero.
    pub fn leading_run(&self) -> u32 {
        let full = self.0.iter().take_while(|word| **word == u64::MAX).count();
        full as u32 * 64 + self.0.get(full).map_or(0, |word| word.trailing_ones())
    }

    /// Returns the number of the highest set bit, or `None`.
    pub fn highest(&self) -> Option<u32> {
        let word = self.0.iter().rposition(|word| *word != 0)?;
        Some(word as u32 * 64 + self.0[word].ilog2())
    }

    pub fn count(&self) -> u32 {
        self.0.iter().map(|word| word.count_ones()).sum()
    }

    pub fn union(&self, other: &Self) -> Self {
        Self(core::array::from_fn(|i| self.0[i] | other.0[i]))
    }

    pub fn meets(&self, other: &Self) -> bool {
        self.0.iter().zip(&other.0).any(|(a, b)| a & b != 0)
    }

    /// Moves bit i to bit i - n; the lowest n bits are lost.
    pub fn shifted_down(&self, n: u32) -> Self {
        let words = n as usize / 64;
        let bits = n % 64;
        let pair = |i| u128::from(self.word(i + 1)) << 64 | u128::from(self.word(i));
        Self(core::array::from_fn(|i| (pair(i + words) >> bits) as u64))
    }

    /// Moves bit i to bit i + n; the highest n bits are lost.
    pub fn shifted_up(&self, n: u32) -> Self {
        let words = n as usize / 64;
        let bits = n % 64;
        let word = |i: Option<usize>| u128::from(i.map_or(0, |i| self.word(i)));
        let pair = |i: usize| word(i.checked_sub(words)) << 64 | word(i.checked_sub(words + 1));
        Self(core::array::from_fn(|i| ((pair(i) << bits) >> 64) as u64))
    }

    fn word(&self, i: usize) -> u64 {
        self.0.get(i).copied().unwrap_or(0)
    }

    /// Appends `n u8 | n words u64`; zero words at the high end are left out.
    pub fn write(&self, w: &mut Writer) {
        let words = self.highest().map_or(0, |i| i as usize / 64 + 1);
        w.put_u8(words as u8);
        for word in &self.0[..words] {
            w.put_u64(*word);
        }
    }

    /// Reads the form of [`Bits::write`] with at most 16 words.
    pub fn read(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let words = usize::from(r.read_u8()?);
        let mut out = Self::NONE;
        for word in out.0.get_mut(..words).ok_or(DecodeError::Value)? {
            *word = r.read_u64()?;
        }
        // Only the shortest form is accepted, so that a row is the same when written again
        // (MSG-43).
        let is_shortest = words == 0 || out.0[words - 1] != 0;
        if is_shortest { Ok(out) } else { Err(DecodeError::Value) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn shifts_move_each_bit(words: [u64; WORDS], n in 0..=REACH) {
            let bits = Bits(words);
            let up = bits.shifted_up(n);
            let down = bits.shifted_down(n);
            for i in 0..REACH {
                prop_assert_eq!(up.has_bit(i), i >= n && bits.has_bit(i - n));
                prop_assert_eq!(down.has_bit(i), bits.has_bit(i + n));
            }
        }
    }
}
