//! Tags of the three frames of an exchange, and of a nudge, under a state.
//!
//! ```text
//! t1 = Mac(st, "seka1-t1" | KE1[0..72])
//! t2 = Mac(st, "seka1-t2" | KE2[0..72] | KE1[0..72])
//! t3 = Mac(st, "seka1-t3" | KE3[0..40] | KE1[0..72] | KE2[0..72])
//! tn = Mac(st, "seka1-nu" | NUDGE[0..24])
//! ```

use mezza_core::{Snapshot, Writer};
use subtle::ConstantTimeEq;

use crate::keys::LinkRole;
use crate::limits::TAG_BYTES;
use crate::record::PeerRecord;
use crate::session::NoncePrefixes;
use crate::suite::{LinkMac, LinkSuite, TagPlace};

/// Bytes of KE1 and of KE2 before their tags.
pub(crate) const KE_BYTES: usize = 72;
/// Bytes of KE3 before its tag.
pub(crate) const KE3_BYTES: usize = 40;
/// Bytes of a nudge before its tag.
pub(crate) const NUDGE_BYTES: usize = 24;

/// The key of the tags under one state.
pub(crate) struct TagKey<S: LinkSuite> {
    /// The attempt whose exchange made the state; -1 for the first state of the pairing.
    born: i64,
    mac: S::Mac,
}

/// The kind of a tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TagOf {
    Ke1,
    Ke2,
    Ke3,
    Nudge,
}

impl TagOf {
    const fn label(self) -> &'static [u8; 8] {
        match self {
            Self::Ke1 => b"seka1-t1",
            Self::Ke2 => b"seka1-t2",
            Self::Ke3 => b"seka1-t3",
            Self::Nudge => b"seka1-nu",
        }
    }

    const fn sender(self) -> LinkRole {
        match self {
            Self::Ke1 | Self::Ke3 => LinkRole::Initiator,
            Self::Ke2 | Self::Nudge => LinkRole::Responder,
        }
    }
}

impl<S: LinkSuite> TagKey<S> {
    /// Returns the key under the present state of a pairing.
    pub(crate) fn from_current(record: &PeerRecord, prefixes: &NoncePrefixes) -> Self {
        // The attempt that made the state is the origin of the counter (key schedule, ctr).
        Self { born: record.current_born, mac: S::Mac::new(&record.current, prefixes) }
    }

    /// Returns the key under the pending state, which waits for its third message.
    pub(crate) fn from_pending(record: &PeerRecord, prefixes: &NoncePrefixes) -> Option<Self> {
        let state = record.pending.as_ref()?;
        Some(Self { born: record.pending_born, mac: S::Mac::new(state, prefixes) })
    }

    /// Returns how many attempts came before `attempt` under this state.
    pub(crate) fn attempts_before(&self, attempt: u32) -> i64 {
        i64::from(attempt) - self.born - 1
    }

    /// Returns true if the suite allows this attempt under this state (SEKA-26).
    pub(crate) fn allows_attempt(&self, attempt: u32) -> bool {
        // A negative count is an attempt from before this state, which an old record could allow.
        let before = self.attempts_before(attempt);
        before >= 0 && S::ATTEMPTS_MAX.is_none_or(|most| before < most)
    }

    /// Computes the tag over `parts` in `attempt`.
    pub(crate) fn compute_tag(&self, of: TagOf, attempt: u32, parts: &[&[u8]]) -> [u8; TAG_BYTES] {
        // Of the tags of an attempt two go from the initiator to the responder, and one goes back.
        let counter = 2 * self.attempts_before(attempt) + i64::from(of == TagOf::Ke3);
        // An attempt above the limit was refused before, so this value is never used for a tag
        // (SEKA-26).
        let counter = u16::try_from(counter).unwrap_or(u16::MAX);
        let place = TagPlace { sender: of.sender(), counter };
        let mut all: [&[u8]; 4] = [of.label(), &[], &[], &[]];
        all[1..=parts.len()].copy_from_slice(parts);
        self.mac.compute_tag(&place, &all[..=parts.len()])
    }

    /// Verifies a tag in constant time (SEKA-5). Returns true if the tag is right.
    pub(crate) fn verify_tag(
        &self,
        of: TagOf,
        attempt: u32,
        parts: &[&[u8]],
        tag: &[u8; TAG_BYTES],
    ) -> bool {
        // The bound is checked first: suite 01 must never compute a tag with a repeated nonce
        // (SEKA-25).
        self.allows_attempt(attempt) && self.compute_tag(of, attempt, parts).ct_eq(tag).into()
    }
}

/// The key is derived from the state, which is part of the record.
impl<S: LinkSuite> Snapshot for TagKey<S> {
    fn snapshot_into(&self, w: &mut Writer) {
        w.put_bytes(&self.born.to_be_bytes());
    }
}
