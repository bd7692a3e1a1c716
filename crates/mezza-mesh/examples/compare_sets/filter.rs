//! The comparison of version 1, to be measured beside its successor.
//!
//! A filter over the set of cells of a device, nine bits per cell: hashes, sorted, differences
//! Golomb-Rice coded.
//!
//! A value is `H_8("mezza/mesh sync", nonce, id) mod (n * 2^p)` of each live cell of one slice, in
//! order; each difference is its upper part in unary (ones, then a zero) and `p` bits, high bit
//! first; zeros fill the last byte. With p = 7, one of 128 missing cells seems to be present; the
//! next nonce finds it.

use mezza_core::{DecodeError, labelled_hash};

use mezza_mesh::CellId;
use mezza_mesh::cell::short_id;

/// Number of bits of a remainder in the Golomb-Rice code.
pub const P: u8 = 7;

/// A filter as sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SyncFilter<'a> {
    /// Random number that makes the values differ each time.
    pub nonce: u64,
    /// The number of the slice.
    pub slice: u8,
    /// The number of slices, a power of two.
    pub slices: u8,
    /// Number of bits of a remainder in the Golomb-Rice code.
    pub p: u8,
    /// Number of cells in the slice.
    pub n: u16,
    /// The encoded differences.
    pub bits: &'a [u8],
}

impl SyncFilter<'_> {
    /// Returns the values, sorted.
    ///
    /// # Errors
    /// If the bits end before `n` values, or a value is not below `n * 2^p`.
    pub fn read_values(&self) -> Result<Vec<u64>, DecodeError> {
        let range = u64::from(self.n) << self.p;
        let mut bits = Bits { bytes: self.bits, at: 0 };
        let mut last = 0;
        let mut values = Vec::with_capacity(usize::from(self.n));
        for _ in 0..self.n {
            let upper = bits.read_unary()?;
            last += upper << self.p | bits.read_number(self.p)?;
            // Values are below n * 2^p. A sum above that is a forged filter.
            if last >= range {
                return Err(DecodeError::Value);
            }
            values.push(last);
        }
        // A whole unused byte would allow several encodings of a filter.
        if bits.bytes.len() * 8 - bits.at >= 8 {
            return Err(DecodeError::Trailing);
        }
        Ok(values)
    }

    /// Returns the value of a cell under this filter.
    pub fn value_of(&self, id: &CellId) -> u64 {
        hash_value(self.nonce, id, u64::from(self.n) << self.p)
    }
}

/// Returns the slice of a cell. The nonce is drawn after the cells exist, so nobody can make cells
/// that all fall into one slice (MESH-64). A mixer replaces a hash, because a receiver computes
/// this for every cell and each slice.
pub fn slice_of(nonce: u64, id: &CellId, slices: u8) -> u8 {
    let mut mixed = short_id(id) ^ nonce;
    for factor in [0x9e37_79b9_7f4a_7c15_u64, 0xbf58_476d_1ce4_e5b9] {
        mixed = (mixed ^ mixed >> 32).wrapping_mul(factor);
    }
    (mixed >> 58) as u8 & (slices - 1)
}

/// Returns the value of a cell.
fn hash_value(nonce: u64, id: &CellId, range: u64) -> u64 {
    let hash = labelled_hash::<8>("mezza/mesh sync", &[&nonce.to_be_bytes(), id]);
    // An empty slice has range 0, and its value is never compared.
    u64::from_be_bytes(hash).checked_rem(range).unwrap_or(0)
}

/// Encodes the differences of the cells of one slice.
pub fn encode(nonce: u64, p: u8, ids: &[CellId]) -> Vec<u8> {
    let range = (ids.len() as u64) << p;
    let mut values: Vec<u64> = ids.iter().map(|id| hash_value(nonce, id, range)).collect();
    values.sort_unstable();
    let mut bytes = Vec::with_capacity(ids.len() * 9 / 8 + 1);
    let mut room = 0_u8;
    let mut last = 0;
    let mut push = |bit: bool| {
        if room == 0 {
            bytes.push(0);
            room = 8;
        }
        room -= 1;
        if let Some(byte) = bytes.last_mut() {
            *byte |= u8::from(bit) << room;
        }
    };
    for value in values {
        let difference = value - last;
        last = value;
        (0..difference >> p).for_each(|_| push(true));
        push(false);
        (0..p).rev().for_each(|bit| push(difference >> bit & 1 == 1));
    }
    bytes
}

/// A reader of bits, highest first.
struct Bits<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Bits<'_> {
    fn next_bit(&mut self) -> Result<u64, DecodeError> {
        // The number of bits limits the work (MESH-15), so reading ends with an error when none is
        // left.
        let byte = self.bytes.get(self.at / 8).ok_or(DecodeError::Truncated)?;
        let bit = byte >> (7 - self.at % 8) & 1;
        self.at += 1;
        Ok(u64::from(bit))
    }

    /// Reads ones up to a zero, at most as many as there are bits.
    fn read_unary(&mut self) -> Result<u64, DecodeError> {
        let mut ones = 0;
        while self.next_bit()? == 1 {
            ones += 1;
        }
        Ok(ones)
    }

    fn read_number(&mut self, p: u8) -> Result<u64, DecodeError> {
        (0..p).try_fold(0, |number, _| Ok(number << 1 | self.next_bit()?))
    }
}
