//! Error types, one enum for each kind of operation. No variant holds a string or a secret.

use mezza_core::{DecodeError, SuiteId, ZeroSecret, snapshot};

use crate::SuiteList;

/// The reason why 32 bytes are not accepted as a public key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// The u-coordinate is not below 2^255 - 19, or bit 255 is set.
    #[error("the key is not canonical")]
    NotCanonical,
    /// The order of the point is 1, 2, 4 or 8, so every shared secret with this key is known.
    #[error("the key has a low order")]
    LowOrder,
}

/// The reason why a prekey bundle was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BundleError {
    /// The bytes are not a bundle.
    #[error("the bundle is malformed")]
    Malformed,
    /// The bundle lacks a suite of the contact's card, or lacks the entry of a suite in its own
    /// list.
    #[error("the bundle offers {offered}, the card lists {pinned}")]
    SuiteDowngrade {
        /// The suites that the bundle offers.
        offered: SuiteList,
        /// The suites that the card lists.
        pinned: SuiteList,
    },
    /// This version knows none of the suites of the bundle.
    #[error("the bundle offers {offered}, we know {ours}")]
    NoCommonSuite {
        /// The suites that the bundle offers.
        offered: SuiteList,
        /// The suites that this device knows.
        ours: SuiteList,
    },
    /// The bundle ended more than a day ago.
    #[error("the bundle has expired")]
    Expired,
    /// The prekey is not signed by this identity.
    #[error("the signature of the prekey is wrong")]
    BadSignature,
    /// A key is not canonical, or has low order.
    #[error("a key of the bundle is not allowed")]
    BadKey,
    /// The id of the one-time key is 0, or above the largest id of the suite.
    #[error("one-time id {0} is not allowed")]
    BadId(u32),
    /// The bundle has no KEM key, but the suite of the device needs one.
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

/// The reason why a body was not sealed. The state is unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SealError {
    /// There is no session. Start one from a bundle.
    #[error("there is no session")]
    NoSession,
    /// This message starts a turn. Call again with a fresh
    /// [`EphemeralKey`](mezza_core::EphemeralKey).
    #[error("a fresh ratchet key is needed")]
    NeedEphemeral,
    /// The body or the outer part is above its limit, or the message has no room for the body at
    /// this padding.
    #[error("the body is too long")]
    TooLong,
    /// Messages in the suite of the session cannot authenticate an outer part.
    #[error("this suite cannot bind an outer part")]
    OuterUnsupported,
    /// The contact has not answered for 30 days. Start a new session.
    #[error("the session was never answered")]
    Unanswered,
    /// The sending chain has reached its largest count. The next message from the contact begins a
    /// new chain.
    #[error("the chain is used up")]
    ChainEnd,
    /// The ratchet key of the contact has low order. Start a new session.
    #[error("the ratchet key of the other side is not allowed")]
    BadKey,
}

impl From<ZeroSecret> for SealError {
    fn from(_: ZeroSecret) -> Self {
        Self::BadKey
    }
}

/// The reason why a message was not opened. The state is unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// The bytes are not a message, or an authentic message holds wrong padding.
    #[error("the message is malformed")]
    Malformed,
    /// This version does not speak the suite of the message.
    #[error("suite {0} is not supported")]
    SuiteUnsupported(SuiteId),
    /// The suite of the message is not the suite of the session.
    #[error("the session speaks {session}, the message {message}")]
    SuiteMismatch {
        /// The suite of the active session.
        session: SuiteId,
        /// The suite of the message.
        message: SuiteId,
    },
    /// The suite of the first message is not the best suite of both lists.
    #[error("both sides know a better suite than the message uses")]
    SuiteDowngrade,
    /// The prekey with this id is not stored (any more), or accepts no more first messages.
    #[error("prekey {0} is not held")]
    UnknownPrekey(u32),
    /// The base key of the first message was used with this signed prekey before.
    #[error("the base key was used before")]
    ReusedBaseKey,
    /// There is no session with this contact.
    #[error("there is no session")]
    NoSession,
    /// The message was opened before, or its message key was wiped.
    #[error("the message was opened before")]
    Duplicate,
    /// The index of the message is this far ahead of the last one in the chain, which is above the
    /// limit.
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

/// No authentic message is made with a key whose DH result is zero, so the message is forged.
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

/// The reason why [`Prekeys`](crate::Prekeys) refused an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PrekeysError {
    /// The number of fresh keys is not the number that was requested.
    #[error("these keys were not asked for")]
    Unasked,
}
