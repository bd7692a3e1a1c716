//! Hashes with 64 bytes of output, as signatures and safety numbers need them.

use crate::blake2b;
use sha2::Digest;

/// A hash function with 64 bytes of output.
pub trait Hash512 {
    /// The digest of `parts`, one behind the other.
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

/// BLAKE2b with 64 bytes of output, no key, no person (RFC 7693).
#[derive(Debug)]
pub struct Blake2b512;

impl Hash512 for Blake2b512 {
    fn hash(parts: &[&[u8]]) -> [u8; 64] {
        let mut out = [0; 64];
        blake2b(&mut out, &[], "", parts);
        out
    }
}
