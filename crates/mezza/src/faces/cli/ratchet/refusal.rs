//! Why a peer refused a line: a stable code for programs, and a text for the user.

use mezza_core::DecodeError;
use mezza_ratchet::{BundleError, KeyError, OpenError, PrekeysError, SealError};

/// The word after `err`. `docs/protocols/ratchet.md` lists the words; they do not change.
#[derive(Debug)]
pub(super) struct Refusal {
    /// Lower-case words joined by `-`.
    pub code: &'static str,
    /// The fault, in words for people.
    pub text: String,
}

impl Refusal {
    /// Makes a refusal by the peer itself.
    pub(super) fn new(code: &'static str, text: impl Into<String>) -> Self {
        Self { code, text: text.into() }
    }

    /// Refuses a line that the protocol does not have.
    pub(super) fn line(text: impl Into<String>) -> Self {
        Self::new("line", text)
    }

    /// Refuses a field with a malformed value.
    pub(super) fn field(text: impl Into<String>) -> Self {
        Self::new("field", text)
    }
}

impl From<BundleError> for Refusal {
    fn from(error: BundleError) -> Self {
        let code = match error {
            BundleError::Malformed => "malformed",
            BundleError::SuiteDowngrade { .. } => "suite-downgrade",
            BundleError::NoCommonSuite { .. } => "no-common-suite",
            BundleError::Expired => "expired",
            BundleError::BadSignature => "bad-signature",
            BundleError::BadKey => "bad-key",
            BundleError::BadId(_) => "bad-id",
            BundleError::NoKem => "no-kem",
        };
        Self::new(code, error.to_string())
    }
}

impl From<SealError> for Refusal {
    fn from(error: SealError) -> Self {
        let code = match error {
            SealError::NoSession => "no-session",
            SealError::TooLong => "too-long",
            SealError::OuterUnsupported => "outer-unsupported",
            SealError::Unanswered => "unanswered",
            SealError::ChainEnd => "chain-end",
            SealError::BadKey => "bad-key",
            SealError::NeedEphemeral => "need-ephemeral",
        };
        Self::new(code, error.to_string())
    }
}

impl From<OpenError> for Refusal {
    fn from(error: OpenError) -> Self {
        let code = match error {
            OpenError::Malformed => "malformed",
            OpenError::SuiteUnsupported(_) => "suite-unsupported",
            OpenError::SuiteMismatch { .. } => "suite-mismatch",
            OpenError::SuiteDowngrade => "suite-downgrade",
            OpenError::UnknownPrekey(_) => "unknown-prekey",
            OpenError::ReusedBaseKey => "reused-base-key",
            OpenError::NoSession => "no-session",
            OpenError::Duplicate => "duplicate",
            OpenError::TooFar(_) => "too-far",
            OpenError::Forged => "forged",
        };
        Self::new(code, error.to_string())
    }
}

impl From<KeyError> for Refusal {
    fn from(error: KeyError) -> Self {
        Self::new("bad-key", error.to_string())
    }
}

impl From<DecodeError> for Refusal {
    fn from(error: DecodeError) -> Self {
        Self::new("malformed", error.to_string())
    }
}

impl From<PrekeysError> for Refusal {
    fn from(error: PrekeysError) -> Self {
        Self::new("other", error.to_string())
    }
}
