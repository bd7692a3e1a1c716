//! The bytes of everything that leaves this crate. Integers are big-endian, points compressed, a
//! trailing byte is an error.

pub mod card;
pub mod envelope;
pub mod ring;

/// Suite 1 in the high nibble: BKP14 with MAC_HPS and k = 1.
pub const SUITE: u8 = 1;

/// `suite | low` as one byte.
pub(crate) const fn join_nibbles(low: u8) -> u8 {
    SUITE << 4 | low
}

/// The low nibble of a byte whose high one is the suite.
pub(crate) const fn low_of_suite(byte: u8) -> Option<u8> {
    if byte >> 4 == SUITE { Some(byte & 0xf) } else { None }
}
