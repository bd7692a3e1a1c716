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
    type Sig: Hash512;
    /// How it seals message bodies.
    type Aead: Aead;
}

/// Authenticated encryption under a message key that is used for one text alone.
pub trait Aead {
    /// Bytes that sealing a padded text of `text` bytes gives: nonce, ciphertext and tag.
    fn sealed_len(text: usize) -> usize;

    /// Appends the sealed `text` to `out`.
    fn seal<B: Backend>(mk: &Secret<32>, aad: &[u8], text: &[u8], out: &mut Vec<u8>);

    /// The text, or `None` for whatever reason.
    fn open<B: Backend>(mk: &Secret<32>, aad: &[u8], sealed: &[u8]) -> Option<Vec<u8>>;
}
