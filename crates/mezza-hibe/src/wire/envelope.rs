//! The envelope: one sealed message, in one of four sizes.
//!
//! | at | bytes | field |
//! |---|---|---|
//! | 0 | 1 | kind: suite (high nibble), bucket (low nibble) |
//! | 1 | 1 | tick modulo 256 |
//! | 2 | 192 | C: four points of G1 |
//! | 194 | total - 226 | body: `r[32]`, length u16, payload, zeros; encrypted |
//! | total - 32 | 32 | tag over all before it |

use super::{join_nibbles, low_of_suite};
use crate::curve::SCALAR_BYTES;
use crate::pairing::HEADER_BYTES;

/// Bytes of the authentication tag.
pub const TAG_BYTES: usize = 32;
/// Bytes before C: the kind and the tick.
pub const KIND_BYTES: usize = 2;
/// Bytes before the body.
pub const BODY_AT: usize = KIND_BYTES + HEADER_BYTES;
/// Bytes of a body before its payload: r and the length.
pub const PAYLOAD_AT: usize = SCALAR_BYTES + 2;
/// Most bytes of a payload, over all buckets.
pub const PAYLOAD_BYTES_MAX: usize = Bucket::LARGEST.payload_bytes_max();

/// One of the four sizes of an envelope: 506, 1018, 2042 or 4090 bytes. Six bytes remain for a
/// carrier's own header in a cell whose size is a power of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Bucket(u8);

impl Bucket {
    /// The bucket of 506 bytes.
    pub const SMALLEST: Self = Self(0);
    /// The bucket of 4090 bytes.
    pub const LARGEST: Self = Self(3);

    /// Returns the bucket with a number from 0 to 3.
    pub fn new(number: u8) -> Option<Self> {
        (number <= Self::LARGEST.0).then_some(Self(number))
    }

    /// Returns the number of the bucket, 0 to 3.
    pub const fn number(self) -> u8 {
        self.0
    }

    /// Returns the bytes of a whole envelope.
    pub const fn total_bytes(self) -> usize {
        (512 << self.0) - 6
    }

    /// Returns the bytes of the longest payload: 246, 758, 1782 or 3830.
    pub const fn payload_bytes_max(self) -> usize {
        self.total_bytes() - BODY_AT - PAYLOAD_AT - TAG_BYTES
    }

    /// Returns the smallest bucket that has room for the payload and is not smaller than `self`;
    /// `None` if the payload is too long.
    pub fn fit_payload(self, payload_bytes: usize) -> Option<Self> {
        (self.0..=Self::LARGEST.0).map(Self).find(|b| payload_bytes <= b.payload_bytes_max())
    }

    /// Returns the kind byte of envelopes of this size.
    pub(crate) const fn kind(self) -> u8 {
        join_nibbles(self.0)
    }

    /// Returns the bucket of an envelope; `None` if the length does not agree with the kind byte
    /// (HIBE-40).
    pub fn from_envelope(envelope: &[u8]) -> Option<Self> {
        let number = low_of_suite(*envelope.first()?)?;
        Self::new(number).filter(|bucket| bucket.total_bytes() == envelope.len())
    }
}

/// The fields of an envelope whose length agrees with its kind byte.
pub(crate) struct Fields<'a> {
    /// The tick of the envelope modulo 256.
    pub tick_low: u8,
    pub header: &'a [u8; HEADER_BYTES],
    pub body: &'a [u8],
    pub tag: &'a [u8; TAG_BYTES],
    /// The bytes that the tag authenticates.
    pub tagged: &'a [u8],
}

impl<'a> Fields<'a> {
    pub fn split_envelope(envelope: &'a [u8]) -> Option<Self> {
        Bucket::from_envelope(envelope)?;
        let (tagged, tag) = envelope.split_last_chunk()?;
        let (head, body) = tagged.split_at_checked(BODY_AT)?;
        let header = head.last_chunk()?;
        Some(Self { tick_low: envelope[1], header, body, tag, tagged })
    }
}
