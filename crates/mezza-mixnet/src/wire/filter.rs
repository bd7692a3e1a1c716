//! The tokens of one call bucket as a Golomb-Rice set: about 25.6 bits each, false positives with
//! probability 2^-24.
//!
//! Each of N tokens becomes `v = floor(first 8 bytes x N 2^24 / 2^64)`. The v are sorted, and their
//! differences d are written as `d >> 24` one bits, a zero bit, and the low 24 bits. The object is
//! `count u32 | bits`, the last byte padded with zeros.

use alloc::vec::Vec;

use mezza_core::{DecodeError, Reader, Writer};

use crate::service::TOKEN_BYTES;

/// Low bits of a difference, written unchanged; false positives have the probability 2^-24.
const LOW_BITS: u32 = 24;
/// Fewest bits of one token: a zero bit and the low bits.
const TOKEN_BITS_MIN: u64 = LOW_BITS as u64 + 1;

/// Returns the value v of a token in a set of `count`.
fn token_place(token: &[u8; TOKEN_BYTES], count: u32) -> u64 {
    let (head, _) = token.split_at(8);
    let head = head.iter().fold(0_u128, |sum, byte| (sum << 8) | u128::from(*byte));
    ((head * (u128::from(count) << LOW_BITS)) >> 64) as u64
}

/// Encodes the object of a call bucket. It does not depend on the order of the tokens; equal tokens
/// are kept.
///
/// # Panics
/// In debug builds above 2^32 - 1 tokens, far more than a round can have.
pub fn encode(tokens: &[[u8; TOKEN_BYTES]]) -> Vec<u8> {
    debug_assert!(u32::try_from(tokens.len()).is_ok());
    let count = tokens.len() as u32;
    let mut places: Vec<u64> = tokens.iter().map(|token| token_place(token, count)).collect();
    // The object must not reveal the order of the batch.
    places.sort_unstable();
    let mut writer = Writer::with_capacity(4 + places.len() * 26 / 8 + 1);
    writer.put_u32(count);
    let mut bits = BitWriter { writer, byte: 0, used: 0 };
    let mut last = 0;
    for place in places {
        bits.write_difference(place - last);
        last = place;
    }
    bits.finish()
}

/// The decoded set of one call bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter {
    count: u32,
    places: Vec<u64>,
}

impl Filter {
    /// Decodes an object. A count that exceeds the bytes is refused before memory is allocated for
    /// it.
    ///
    /// # Errors
    /// [`DecodeError`] unless the object is the result of [`encode`] for some tokens.
    pub fn decode(object: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(object);
        let count = reader.read_u32()?;
        let bytes = reader.read_rest();
        // Each token takes 25 bits or more, so the bytes bound the count (MIX-12).
        if u64::from(count) * TOKEN_BITS_MIN > bytes.len() as u64 * 8 {
            return Err(DecodeError::Truncated);
        }
        let mut bits = BitReader { bytes, at: 0 };
        let mut places = Vec::with_capacity(count as usize);
        let mut last = 0_u64;
        let end = u64::from(count) << LOW_BITS;
        for _ in 0..count {
            last += bits.read_difference(end - last)?;
            // `end` itself is too large, because values are below count x 2^24.
            if last >= end {
                return Err(DecodeError::Value);
            }
            places.push(last);
        }
        bits.expect_end()?;
        Ok(Self { count, places })
    }

    /// Returns the number of tokens in the set.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Returns true if the token is in the set, and with probability 2^-24 if it is not.
    pub fn may_hold(&self, token: &[u8; TOKEN_BYTES]) -> bool {
        self.places.binary_search(&token_place(token, self.count)).is_ok()
    }
}

struct BitWriter {
    writer: Writer,
    byte: u8,
    used: u32,
}

impl BitWriter {
    fn push_bit(&mut self, bit: bool) {
        self.byte = (self.byte << 1) | u8::from(bit);
        self.used += 1;
        if self.used == 8 {
            self.writer.put_u8(self.byte);
            (self.byte, self.used) = (0, 0);
        }
    }

    fn write_difference(&mut self, difference: u64) {
        (0..difference >> LOW_BITS).for_each(|_| self.push_bit(true));
        self.push_bit(false);
        (0..LOW_BITS).rev().for_each(|at| self.push_bit(difference >> at & 1 == 1));
    }

    fn finish(mut self) -> Vec<u8> {
        if self.used > 0 {
            self.writer.put_u8(self.byte << (8 - self.used));
        }
        self.writer.finish()
    }
}

struct BitReader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl BitReader<'_> {
    fn read_bit(&mut self) -> Result<bool, DecodeError> {
        let byte = self.bytes.get(self.at / 8).ok_or(DecodeError::Truncated)?;
        let bit = byte >> (7 - self.at % 8) & 1 == 1;
        self.at += 1;
        Ok(bit)
    }

    /// Reads the next difference. A difference above `max` is refused while its one bits are
    /// counted.
    fn read_difference(&mut self, max: u64) -> Result<u64, DecodeError> {
        let mut difference = 0_u64;
        while self.read_bit()? {
            difference += 1 << LOW_BITS;
            // Checked while counting, so that a long run of ones cannot make the reader process the
            // whole object.
            if difference > max {
                return Err(DecodeError::Value);
            }
        }
        for at in (0..LOW_BITS).rev() {
            difference |= u64::from(self.read_bit()?) << at;
        }
        Ok(difference)
    }

    /// Checks that only zeros, fewer than eight of them, are left.
    fn expect_end(&mut self) -> Result<(), DecodeError> {
        // Whole bytes after the last token would allow two objects for the same set.
        if self.at.div_ceil(8) < self.bytes.len() {
            return Err(DecodeError::Trailing);
        }
        while self.at < self.bytes.len() * 8 {
            if self.read_bit()? {
                return Err(DecodeError::Value);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_token_is_found(tokens in proptest::collection::vec(any::<[u8; 16]>(), 0..300)) {
            let object = encode(&tokens);
            let filter = Filter::decode(&object).expect("what was encoded");
            prop_assert_eq!(filter.count() as usize, tokens.len());
            prop_assert!(tokens.iter().all(|token| filter.may_hold(token)));
            let mut turned = tokens;
            turned.reverse();
            prop_assert_eq!(encode(&turned), object);
        }

        #[test]
        fn what_is_decoded_is_canonical(object in proptest::collection::vec(any::<u8>(), 4..60), count in 0_u32..16) {
            let mut object = object;
            object[..4].copy_from_slice(&count.to_be_bytes());
            if let Ok(filter) = Filter::decode(&object) {
                let last = filter.places.last().copied().unwrap_or(0);
                prop_assert!(last < u64::from(count.max(1)) << LOW_BITS);
            }
        }
    }

    #[test]
    fn strangers_are_rare_and_the_size_is_that_of_the_specification() {
        let mut rng = <rand_chacha::ChaCha20Rng as rand_core::SeedableRng>::from_seed([1; 32]);
        let mut tokens = alloc::vec![[0; 16]; 7_461];
        for token in &mut tokens {
            rand_core::Rng::fill_bytes(&mut rng, token);
        }
        let object = encode(&tokens);
        assert!((23_700..24_100).contains(&object.len()), "{} bytes", object.len());
        let filter = Filter::decode(&object).expect("what was encoded");
        let mut false_answers = 0;
        for _ in 0..200_000 {
            let mut stranger = [0; 16];
            rand_core::Rng::fill_bytes(&mut rng, &mut stranger);
            false_answers += u32::from(filter.may_hold(&stranger));
        }
        assert!(false_answers <= 2, "{false_answers} false answers");
    }

    #[test]
    fn bombs_are_refused_before_anything_is_allocated() {
        let mut bomb = alloc::vec![0xff, 0xff, 0xff, 0xff];
        bomb.resize(1_000, 0);
        assert_eq!(Filter::decode(&bomb), Err(DecodeError::Truncated));
        // A token whose one bits never end.
        let mut ones = alloc::vec![0, 0, 0, 1];
        ones.resize(1_000, 0xff);
        assert_eq!(Filter::decode(&ones), Err(DecodeError::Value));
    }

    #[test]
    fn cut_long_and_padded_sets_are_refused() {
        let object = encode(&[[0x80; 16], [0x20; 16], [0xf0; 16]]);
        for cut in 0..object.len() {
            assert_eq!(Filter::decode(&object[..cut]), Err(DecodeError::Truncated), "{cut}");
        }
        let mut long = object.clone();
        long.push(0);
        assert_eq!(Filter::decode(&long), Err(DecodeError::Trailing));
        let mut padded = object;
        *padded.last_mut().expect("a byte") |= 1;
        assert_eq!(Filter::decode(&padded), Err(DecodeError::Value));
        assert_eq!(Filter::decode(&[0; 4]).map(|filter| filter.count()), Ok(0));
        assert_eq!(Filter::decode(&[0; 5]), Err(DecodeError::Trailing));
    }
}
