//! Prekey bundles: what a responder publishes, and the checks before an initiator uses it.

use alloc::vec::Vec;
use core::fmt;

use mezza_core::{Backend, DecodeError, Ephemeral, Time};

use crate::{BundleError, Exporter, Identity, IdentityKey, List, Session};

/// A one-time prekey as it travels beside a bundle: `id u32 | key[32]`, 36 bytes, unsigned.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct OneTime {
    /// 1 to 16,777,214.
    pub id: u32,
    /// The public key, 32 bytes.
    pub key: [u8; 32],
}

impl OneTime {
    /// Decodes 36 bytes.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let _ = bytes;
        todo!()
    }

    /// The wire form, 36 bytes.
    pub fn encode(&self) -> [u8; 36] {
        todo!()
    }
}

impl fmt::Debug for OneTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OneTime")
    }
}

/// A bundle as it came from a server: decoded, nothing checked.
#[derive(Debug)]
pub struct Bundle {}

impl Bundle {
    /// Decodes a bundle; `Malformed` is the only error.
    pub fn decode(bytes: &[u8]) -> Result<Self, BundleError> {
        let _ = bytes;
        todo!()
    }

    /// Checks the bundle against the identity and the list of the card, in the order of the
    /// specification: suites, end, signature, keys.
    pub fn check(
        self,
        identity: &IdentityKey,
        floor: &List,
        now: Time,
    ) -> Result<CheckedBundle, BundleError> {
        let _ = (identity, floor, now);
        todo!()
    }
}

/// A bundle that passed every check.
#[derive(Debug)]
pub struct CheckedBundle {}

impl CheckedBundle {
    /// When the bundle ends.
    pub fn not_after(&self) -> Time {
        todo!()
    }

    /// The public signed prekey, 32 bytes.
    pub fn spk(&self) -> &[u8; 32] {
        todo!()
    }

    /// The id of the signed prekey.
    pub fn spk_id(&self) -> u32 {
        todo!()
    }

    /// Runs X3DH as the initiator. `ephemeral` is the base key EK; the session is pending until
    /// [`Conversation::begin`](crate::Conversation::begin) takes it and a reply was opened.
    pub fn initiate<B: Backend>(
        self,
        identity: &Identity,
        ephemeral: Ephemeral,
        one_time: Option<OneTime>,
    ) -> Result<(Session<B>, Exporter), BundleError> {
        let _ = (identity, ephemeral, one_time);
        todo!()
    }
}

/// Keeps `Vec` in use while the format is being written.
#[expect(dead_code, reason = "used by the encoder")]
type Bytes = Vec<u8>;
