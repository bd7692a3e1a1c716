//! One session: a Double Ratchet in any of the suites.

use alloc::vec::Vec;
use core::fmt;

use mezza_core::{Backend, EphemeralKey, SuiteId, Time, Wiping, snapshot};

use crate::suite::{B2c20, B2c20Pq, RatchetSuite, V3, V4};
use crate::wire::{FirstMessageHeader, RatchetMessage};
use crate::{Changes, IdentityKey, OpenError, Padding, SealError};

mod chain;
mod ratchet;
mod skipped;
mod stored;

use chain::{ReceiveChain, SendChain};
pub use ratchet::Ratchet;
pub(crate) use ratchet::{Parties, Role};
use skipped::Skipped;
pub(crate) use skipped::StoredKey;
pub(crate) use stored::SESSION_ID_BYTES;

/// Most messages by which the index of a message may be ahead of the last one in its chain.
pub const JUMP_MAX: u32 = 5_000;
/// Most skipped keys of one session.
pub const SKIPPED_MAX: usize = 2_000;
/// Days after which a skipped key is wiped.
pub const SKIPPED_D: u64 = 30;
/// Days after which a session that was never answered can seal no more messages.
pub const PENDING_D: u64 = 30;

/// A session in any of the suites.
pub enum Session<B: Backend> {
    /// A session in suite 0x0003, `signal-v3`.
    V3(Ratchet<V3, B>),
    /// A session in suite 0x0004, `signal-v4`.
    V4(Ratchet<V4, B>),
    /// A session in suite 0x0101.
    B2c20(Ratchet<B2c20, B>),
    /// A session in suite 0x0102.
    B2c20Pq(Ratchet<B2c20Pq, B>),
}

/// Implements `Debug`, the snapshot and the conversion from the ratchet of one suite.
macro_rules! sessions {
    ($($suite:ident),*) => {
        impl<B: Backend> fmt::Debug for Session<B> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self {
                    $(Self::$suite(_) => f.write_str(concat!("Session(", stringify!($suite), ")")),)*
                }
            }
        }

        snapshot!(enum Session<B: Backend> [$($suite(a)),*]);

        $(impl<B: Backend> From<Ratchet<$suite, B>> for Session<B> {
            fn from(ratchet: Ratchet<$suite, B>) -> Self {
                Self::$suite(ratchet)
            }
        })*
    };
}
sessions!(V3, V4, B2c20, B2c20Pq);

/// Runs an expression on the ratchet inside a session.
macro_rules! each {
    ($session:expr, $ratchet:ident => $value:expr) => {
        match $session {
            Session::V3($ratchet) => $value,
            Session::V4($ratchet) => $value,
            Session::B2c20($ratchet) => $value,
            Session::B2c20Pq($ratchet) => $value,
        }
    };
}

impl<B: Backend> Session<B> {
    /// Returns the suite of the session.
    pub fn suite(&self) -> SuiteId {
        fn ratchet_suite<S: RatchetSuite, B>(_: &Ratchet<S, B>) -> SuiteId {
            S::ID
        }
        each!(self, r => ratchet_suite(r))
    }

    pub(crate) fn id(&self) -> &[u8; SESSION_ID_BYTES] {
        each!(self, r => &r.parties.id)
    }

    pub(crate) fn local(&self) -> &IdentityKey {
        each!(self, r => &r.parties.local)
    }

    pub(crate) fn remote(&self) -> &IdentityKey {
        each!(self, r => &r.parties.remote)
    }

    pub(crate) fn is_initiator(&self) -> bool {
        each!(self, r => r.initiator)
    }

    pub(crate) fn is_pending(&self) -> bool {
        each!(self, r => r.pending)
    }

    pub(crate) fn has_own(&self) -> bool {
        each!(self, r => r.own_ratchet_key.is_some())
    }

    pub(crate) fn needs_ephemeral(&self) -> bool {
        each!(self, r => r.send.is_none())
    }

    /// Returns the number of messages sealed in the sending chain, and the next index of the
    /// receiving chain.
    pub(crate) fn counters(&self) -> (u32, u32) {
        each!(self, r => (
            r.send.as_ref().map_or(0, SendChain::sealed_count),
            r.recv.as_ref().map_or(0, ReceiveChain::next_index),
        ))
    }

    pub(crate) fn last_opened(&self) -> Option<Time> {
        each!(self, r => (r.opened.as_ms() != 0).then_some(r.opened))
    }

    /// Returns the later one of creation time and time of the last opened message.
    pub(crate) fn last_used(&self) -> Time {
        each!(self, r => r.created.max(r.opened))
    }

    pub(crate) fn set_created(&mut self, now: Time) {
        each!(self, r => r.created = now);
    }

    /// Returns the header of the message that began the session, on the responder's side.
    pub(crate) fn accepted_header(&self) -> Option<FirstMessageHeader> {
        each!(self, r => if r.initiator { None } else { r.first_header().ok() })
    }

    /// Returns true if the key of a message can be found without a DH.
    pub(crate) fn has_message_key(&self, inner: &RatchetMessage<'_>, now: Time) -> bool {
        each!(self, r => {
            r.is_current_key(&inner.key) || r.skipped.find_key(&inner.key, inner.n, now).is_some()
        })
    }

    pub(crate) fn message_bytes(&self, body_bytes: usize) -> Option<usize> {
        each!(self, r => r.message_bytes(body_bytes))
    }

    pub(crate) fn fits_body(&self, body_bytes: usize, padding: Padding) -> bool {
        each!(self, r => r.fits_body(body_bytes, padding))
    }

    pub(crate) fn check_limits(&self, now: Time) -> Result<(), SealError> {
        each!(self, r => r.check_limits(now))
    }

    pub(crate) fn seal(
        &mut self,
        body: &[u8],
        outer: &[u8],
        padding: Padding,
        fresh: Option<EphemeralKey>,
        now: Time,
    ) -> Result<Vec<u8>, SealError> {
        each!(self, r => r.seal(body, outer, padding, fresh, now))
    }

    pub(crate) fn open(
        &mut self,
        inner: &RatchetMessage<'_>,
        outer: &[u8],
        now: Time,
        changes: &mut Changes,
    ) -> Result<Wiping<Vec<u8>>, OpenError> {
        each!(self, r => r.open(inner, outer, now, changes))
    }

    pub(crate) fn skipped(&self) -> &Skipped {
        each!(self, r => &r.skipped)
    }

    pub(crate) fn skipped_mut(&mut self) -> &mut Skipped {
        each!(self, r => &mut r.skipped)
    }

    pub(crate) fn encode(&self, active: bool) -> Vec<u8> {
        each!(self, r => r.encode(active))
    }
}
