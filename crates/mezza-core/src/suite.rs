//! Suites: the primitives that two users share. The suite is visible on the wire, the backend is
//! not.

use alloc::vec::Vec;
use core::fmt;

use crate::{Backend, Hash512, Secret};

/// The number of a suite on the wire, 2 bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SuiteId(pub u16);

impl fmt::Debug for SuiteId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "0x{:04X}", self.0)
    }
}

impl fmt::Display for SuiteId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// The primitives of one suite.
pub trait Suite {
    /// Number of the suite on the wire.
    const ID: SuiteId;
    /// Name of the suite in texts for users.
    const NAME: &'static str;
    /// Hash function of the signatures.
    type SignatureHash: Hash512;
    /// AEAD of message bodies.
    type Aead: Aead;
}

/// Authenticated encryption with a message key that encrypts only one text.
pub trait Aead {
    /// Bytes of the explicit nonce in front of the ciphertext.
    const NONCE_BYTES: usize;

    /// Returns the sealed length in bytes of `text` bytes before padding: nonce, ciphertext and
    /// tag.
    fn sealed_len(text: usize) -> usize;

    /// Encrypts `out[start..]` in place. The caller leaves `NONCE_BYTES` bytes at `start` for the
    /// nonce; the text follows.
    fn seal<B: Backend>(mk: &Secret<32>, aad: &[u8], out: &mut Vec<u8>, start: usize);

    /// Returns the decrypted text, or `None` if the bytes are malformed or the tag is wrong.
    /// `aad[0]` is authenticated before the sealed text. `aad[1]` follows it in formats that
    /// authenticate the sealed text in the middle.
    fn open<B: Backend>(mk: &Secret<32>, aad: [&[u8]; 2], sealed: &[u8]) -> Option<Vec<u8>>;
}
