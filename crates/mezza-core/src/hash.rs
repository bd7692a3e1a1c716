//! The labelled hash, and two hash functions with 64 bytes of output for signatures and safety
//! numbers.

use crate::blake2b;
use sha2::Digest;

/// Most parts that one labelled hash takes.
const PARTS_MAX: usize = 8;

/// Unkeyed BLAKE2b (RFC 7693) of `N` bytes, 1 to 64, over `u8 len(label) | label | parts`.
///
/// The parts are concatenated without lengths, so only the last one may vary in length. Labels are
/// constants of at most 255 bytes, and there are at most 8 parts. The function allocates nothing.
pub fn labelled_hash<const N: usize>(label: &str, parts: &[&[u8]]) -> [u8; N] {
    debug_assert!(label.len() <= 0xff && parts.len() <= PARTS_MAX);
    let label_bytes = [label.len() as u8];
    let mut input: [&[u8]; PARTS_MAX + 2] = [&[]; PARTS_MAX + 2];
    input[0] = &label_bytes;
    input[1] = label.as_bytes();
    input[2..2 + parts.len()].copy_from_slice(parts);
    let mut out = [0; N];
    blake2b(&mut out, &[], "", &input[..2 + parts.len()]);
    out
}

/// A hash function with 64 bytes of output.
pub trait Hash512 {
    /// Returns the 64-byte digest of the concatenated `parts`.
    fn hash(parts: &[&[u8]]) -> [u8; 64];
}

/// SHA-512 (FIPS 180-4).
#[derive(Debug)]
pub struct Sha512;

impl Hash512 for Sha512 {
    fn hash(parts: &[&[u8]]) -> [u8; 64] {
        let mut hash = sha2::Sha512::new();
        for part in parts {
            hash.update(part);
        }
        hash.finalize().into()
    }
}

/// BLAKE2b (RFC 7693) with 64 bytes of output, without key and personalisation.
#[derive(Debug)]
pub struct Blake2b512;

impl Hash512 for Blake2b512 {
    fn hash(parts: &[&[u8]]) -> [u8; 64] {
        let mut out = [0; 64];
        blake2b(&mut out, &[], "", parts);
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Computed with Python's hashlib: `blake2b(b"\x0amezza/slot" + bytes(32), digest_size=16)`.
    #[test]
    fn the_labelled_hash_equals_that_of_hashlib() {
        let expected = [
            0x34, 0x2d, 0x8e, 0x16, 0x1e, 0x1c, 0x41, 0xd1, 0x1a, 0x02, 0x25, 0xd0, 0xfc, 0x7f,
            0x9d, 0xf4,
        ];
        assert_eq!(labelled_hash::<16>("mezza/slot", &[&[0; 32]]), expected);
        assert_eq!(labelled_hash::<16>("mezza/slot", &[&[0; 5], &[0; 27]]), expected);
    }

    #[test]
    fn the_length_of_the_label_keeps_label_and_parts_apart() {
        assert_ne!(labelled_hash::<32>("mezza/a", &[b"bc"]), labelled_hash("mezza/ab", &[b"c"]));
    }
}
