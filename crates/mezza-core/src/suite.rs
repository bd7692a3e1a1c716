//! Suites: which primitives two people speak. A suite is visible on the wire, a backend is not.

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
    /// Its number on the wire.
    const ID: SuiteId;
    /// Its name in texts for people.
    const NAME: &'static str;
    /// The hash under its signatures.
    type SignatureHash: Hash512;
    /// How it seals message bodies.
    type Aead: Aead;
}

/// Authenticated encryption under a message key that is used for one text alone.
pub trait Aead {
    /// Bytes of the explicit nonce in front of the ciphertext.
    const NONCE_BYTES: usize;

    /// Bytes that sealing a padded text of `text` bytes gives: nonce, ciphertext and tag.
    fn sealed_len(text: usize) -> usize;

    /// Seals in place what stands in `out` from `start` on: room for the nonce, then the text.
    fn seal<B: Backend>(mk: &Secret<32>, aad: &[u8], out: &mut Vec<u8>, start: usize);

    /// The text, or `None` for whatever reason. `aad` is what is authenticated in front of the
    /// sealed text and, in formats that put it in the middle, behind it.
    fn open<B: Backend>(mk: &Secret<32>, aad: [&[u8]; 2], sealed: &[u8]) -> Option<Vec<u8>>;
}
