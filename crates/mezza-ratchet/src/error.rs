//! Errors, one enum per kind of operation. No variant carries a string or a secret.

use mezza_core::{DecodeError, SuiteId, ZeroSecret, snapshot};

use crate::SuiteList;

/// Why 32 bytes are not a public key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// The u-coordinate is not below 2^255 - 19, or bit 255 is set.
    #[error("the key is not canonical")]
    NotCanonical,
    /// The point has an order of 1, 2, 4 or 8, so that every secret with it is known.
    #[error("the key has a low order")]
    LowOrder,
}

/// Why no session comes from a prekey bundle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BundleError {
    /// The bytes are not a bundle.
    #[error("the bundle is malformed")]
    Malformed,
    /// The bundle lacks a suite that the card lists, or the entry of the suite it lists.
    #[error("the bundle offers {offered}, the card lists {pinned}")]
    SuiteDowngrade {
        /// Suites that the bundle offers.
        offered: SuiteList,
        /// Suites that the card lists.
        pinned: SuiteList,
    },
    /// We know none of the suites.
    #[error("the bundle offers {offered}, we know {ours}")]
    NoCommonSuite {
        /// Suites that the bundle offers.
        offered: SuiteList,
        /// Suites that this device knows.
        ours: SuiteList,
    },
    /// The bundle ended more than a day ago.
    #[error("the bundle has expired")]
    Expired,
    /// The prekey was not signed by this identity.
    #[error("the signature of the prekey is wrong")]
    BadSignature,
    /// A key is not canonical, or has a low order.
    #[error("a key of the bundle is not allowed")]
    BadKey,
    /// The id of the one-time key is 0, or above the range of the suite.
    #[error("one-time id {0} is not allowed")]
    BadId(u32),
    /// The bundle has no KEM key, which the suite of this device needs.
    #[error("the bundle lacks the KEM key of its suite")]
    NoKem,
}

snapshot!(enum BundleError [
    Malformed, SuiteDowngrade { offered, pinned }, NoCommonSuite { offered, ours }, Expired,
    BadSignature, BadKey, BadId(a), NoKem,
]);

impl From<DecodeError> for BundleError {
    fn from(_: DecodeError) -> Self {
        Self::Malformed
    }
}

impl From<ZeroSecret> for BundleError {
    fn from(_: ZeroSecret) -> Self {
        Self::BadKey
    }
}

/// Why a body was not sealed. The state is as before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SealError {
    /// There is no session; start one from a bundle.
    #[error("there is no session")]
    NoSession,
    /// This message starts a turn: call again with a fresh [`EphemeralKey`](mezza_core::EphemeralKey).
    #[error("a fresh ratchet key is needed")]
    NeedEphemeral,
    /// The body or the outer part is above its limit, or the padding leaves no room for it.
    #[error("the body is too long")]
    TooLong,
    /// The suite of the session has no place for an outer part.
    #[error("this suite cannot bind an outer part")]
    OuterUnsupported,
    /// The other side has not answered for 30 days; start a new session.
    #[error("the session was never answered")]
    Unanswered,
    /// The chain is used up; it goes on after the next message from the other side.
    #[error("the chain is used up")]
    ChainEnd,
    /// The ratchet key of the other side has low order; start a new session.
    #[error("the ratchet key of the other side is not allowed")]
    BadKey,
}

impl From<ZeroSecret> for SealError {
    fn from(_: ZeroSecret) -> Self {
        Self::BadKey
    }
}

/// Why a message was not opened. The state is as before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// The bytes are not a message, or an authentic message holds wrong padding.
    #[error("the message is malformed")]
    Malformed,
    /// A suite that this version does not speak.
    #[error("suite {0} is not supported")]
    SuiteUnsupported(SuiteId),
    /// A message of another suite than the session it came for.
    #[error("the session speaks {session}, the message {message}")]
    SuiteMismatch {
        /// The suite of the active session.
        session: SuiteId,
        /// The suite of the message.
        message: SuiteId,
    },
    /// The first message uses another suite than both lists give.
    #[error("both sides know a better suite than the message uses")]
    SuiteDowngrade,
    /// The prekey with this id is not held (any more), or takes no more first messages.
    #[error("prekey {0} is not held")]
    UnknownPrekey(u32),
    /// The base key was used with this signed prekey before.
    #[error("the base key was used before")]
    ReusedBaseKey,
    /// There is no session with this contact.
    #[error("there is no session")]
    NoSession,
    /// The message was opened before, or its key is gone.
    #[error("the message was opened before")]
    Duplicate,
    /// The message lies this many messages ahead, above the limit.
    #[error("the message lies {0} messages ahead")]
    TooFar(u32),
    /// The message is not from this contact, or was changed, or no session has its key.
    #[error("the message does not open")]
    Forged,
}

snapshot!(enum OpenError [
    Malformed, SuiteUnsupported(a), SuiteMismatch { session, message }, SuiteDowngrade,
    UnknownPrekey(a), ReusedBaseKey, NoSession, Duplicate, TooFar(a), Forged,
]);

/// A key that gives no secret is one with which nothing authentic was made.
impl From<ZeroSecret> for OpenError {
    fn from(_: ZeroSecret) -> Self {
        Self::Forged
    }
}

impl From<DecodeError> for OpenError {
    fn from(_: DecodeError) -> Self {
        Self::Malformed
    }
}

/// Why the prekey machine refused an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PrekeysError {
    /// Fresh keys came in other numbers than were asked for.
    #[error("these keys were not asked for")]
    Unasked,
}
