//! The set of a device in nine bits per cell: hashed, sorted, differences Golomb-Rice coded.
//!
//! A value is `H_8("mezza/mesh sync", nonce, id) mod (n * 2^p)` of each live cell of one slice, in
//! order; each difference is its upper part in unary (ones, then a zero) and `p` bits, high bit
//! first; zeros fill the last byte. With p = 7, one of 128 missing cells seems to be present; the
//! next nonce finds it.

use alloc::vec::Vec;
use mezza_core::{DecodeError, Reader, Writer, labelled_hash};

use crate::cell::{CellId, short_id};

/// Bits of a remainder.
pub const P: u8 = 7;
/// Minimum and maximum accepted number of remainder bits.
const P_RANGE: core::ops::RangeInclusive<u8> = 6..=20;
/// Most cells of one slice.
pub const N_MAX: usize = 8_192;
/// Most slices.
pub const SLICES_MAX: u8 = 64;

/// A filter as sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SyncFilter<'a> {
    /// Random number that makes the values differ each time.
    pub nonce: u64,
    /// The number of the slice.
    pub slice: u8,
    /// The number of slices: a power of two.
    pub slices: u8,
    /// Bits of a remainder.
    pub p: u8,
    /// Number of cells in the slice.
    pub n: u16,
    /// The encoded differences.
    pub bits: &'a [u8],
}

impl<'a> SyncFilter<'a> {
    pub(super) fn encode(&self, w: &mut Writer) {
        w.put_u64(self.nonce)
            .put_u8(self.slice)
            .put_u8(self.slices)
            .put_u8(self.p)
            .put_u16(self.n)
            .put_bytes(self.bits);
    }

    /// Decodes the header; [`read_values`](Self::read_values) decodes the differences.
    pub(super) fn decode(r: &mut Reader<'a>) -> Result<Self, DecodeError> {
        let nonce = r.read_u64()?;
        let slice = r.read_u8()?;
        let slices = r.read_u8()?;
        let p = r.read_u8()?;
        let n = r.read_u16()?;
        // Slices are a power of two, since the mixer's upper bits select one.
        let fits = slices.is_power_of_two()
            && slices <= SLICES_MAX
            && slice < slices
            && P_RANGE.contains(&p)
            && usize::from(n) <= N_MAX;
        let bits = r.read_rest();
        // A difference has at least p + 1 bits.
        let least = (usize::from(n) * (usize::from(p) + 1)).div_ceil(8);
        // A count that the bits cannot hold is refused before `values` allocates (MESH-15,
        // MESH-41).
        if !fits || bits.len() < least || (n == 0 && !bits.is_empty()) {
            return Err(DecodeError::Value);
        }
        Ok(Self { nonce, slice, slices, p, n, bits })
    }

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

    /// Returns true if a cell belongs to the slice of this filter.
    pub fn covers(&self, id: &CellId) -> bool {
        slice_of(self.nonce, id, self.slices) == self.slice
    }
}

/// Returns the slice of a cell. The nonce is drawn after the cells exist, so that cells that all
/// fall into one slice cannot be made (MESH-64). A mixer and no hash: a receiver computes this for
/// every cell it holds, for each slice.
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
        // The end of the bits ends the reading: the work is bounded by their length (MESH-15).
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn filter(nonce: u64, p: u8, ids: &[CellId], bits: &[u8]) -> Vec<u64> {
        let n = ids.len() as u16;
        let filter = SyncFilter { nonce, slice: 0, slices: 1, p, n, bits };
        let values = filter.read_values().expect("our own bits");
        for id in ids {
            assert!(values.binary_search(&filter.value_of(id)).is_ok());
        }
        values
    }

    proptest! {
        /// A filter never reports a held cell as missing.
        #[test]
        fn every_cell_is_found_in_its_filter(nonce: u64, p in 6u8..=20, ids in proptest::collection::vec(any::<[u8; 16]>(), 0..300)) {
            let bits = encode(nonce, p, &ids);
            prop_assert_eq!(filter(nonce, p, &ids, &bits).len(), ids.len());
        }
    }

    #[test]
    fn nine_bits_a_cell_and_one_of_a_hundred_missed() {
        let id = |n: u32| labelled_hash::<16>("test", &[&n.to_be_bytes()]);
        let ids: Vec<CellId> = (0..1_000).map(id).collect();
        let bits = encode(3, P, &ids);
        assert!(bits.len() <= 1_000 * 9 / 8 + 60, "{} bytes", bits.len());
        let values = filter(3, P, &ids, &bits);
        let other = SyncFilter { nonce: 3, slice: 0, slices: 1, p: P, n: 1_000, bits: &bits };
        let missed =
            (1_000..11_000).filter(|n| values.binary_search(&other.value_of(&id(*n))).is_ok());
        assert!((30..130).contains(&missed.count()));
    }

    #[test]
    fn mesh_15_a_wrong_filter_costs_its_own_length() {
        let decode = |bytes: &[u8]| {
            SyncFilter::decode(&mut Reader::new(bytes)).and_then(|f| f.read_values())
        };
        let head = |slice: u8, slices: u8, p: u8, n: u16| {
            let mut w = Writer::new();
            w.put_u64(1).put_u8(slice).put_u8(slices).put_u8(p).put_u16(n);
            w.finish()
        };
        for bad in [
            head(0, 3, 7, 0),
            head(2, 2, 7, 0),
            head(0, 128, 7, 0),
            head(0, 1, 5, 0),
            head(0, 1, 21, 0),
            head(0, 1, 7, 8_193),
            head(0, 1, 7, 8_000),
        ] {
            assert_eq!(decode(&bad), Err(DecodeError::Value), "{bad:?}");
        }
        let ones = [head(0, 1, 7, 3), alloc::vec![0xff; 1_000]].concat();
        assert_eq!(decode(&ones), Err(DecodeError::Truncated));
        let far = [head(0, 1, 7, 1), alloc::vec![0b1000_0000, 0]].concat();
        assert_eq!(decode(&far), Err(DecodeError::Value));
        let long = [head(0, 1, 7, 1), alloc::vec![0, 0]].concat();
        assert_eq!(decode(&long), Err(DecodeError::Trailing));
        assert_eq!(decode(&head(0, 1, 7, 0)), Ok(Vec::new()));
    }
}
