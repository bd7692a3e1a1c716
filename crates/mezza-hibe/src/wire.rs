//! The encoding of everything that leaves this crate. Integers are big-endian, points are
//! compressed, and trailing bytes are an error.

pub mod card;
pub mod envelope;
pub mod ring;

/// The number of the suite in the high nibble: BKP14 with MAC_HPS and k = 1.
pub const SUITE: u8 = 1;

/// Returns suite and `low` as the two nibbles of one byte.
pub(crate) const fn join_nibbles(low: u8) -> u8 {
    SUITE << 4 | low
}

/// Returns the low nibble of a byte; `None` if the high nibble is not the suite.
pub(crate) const fn low_of_suite(byte: u8) -> Option<u8> {
    if byte >> 4 == SUITE { Some(byte & 0xf) } else { None }
}
