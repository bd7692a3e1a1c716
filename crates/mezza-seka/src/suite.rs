//! Suites: the functions for tags, states and frames. The suite of a pairing never changes.

pub mod default;
pub mod paper;

use mezza_core::{AeadKey, CryptoRng, Secret};

use crate::backend::LinkBackend;
use crate::keys::{CanonicalPoint, LinkId, LinkPair, LinkRole, LinkState, SessionKey};
use crate::limits::TAG_BYTES;
use crate::session::NoncePrefixes;

/// Results of an exchange: the next state, and the key of the session.
#[derive(Debug)]
pub struct ExchangeKeys {
    /// The state under which the next exchange runs.
    pub state: LinkState,
    /// The key of this session.
    pub session: SessionKey,
}

/// The view of an exchange that both sides share when they derive keys.
#[derive(Clone, Copy, Debug)]
pub struct ExchangeView<'a> {
    /// The names of both sides.
    pub pair: &'a LinkPair,
    /// The session id, 16 bytes.
    pub session_id: &'a [u8; TAG_BYTES],
    /// The initiator's ephemeral key.
    pub m1: &'a CanonicalPoint,
    /// The responder's ephemeral key.
    pub m2: &'a CanonicalPoint,
}

/// The position of a tag, for a MAC that needs a unique number.
#[derive(Clone, Copy, Debug)]
pub struct TagPlace {
    /// The side that makes the tag. The other side checks it.
    pub sender: LinkRole,
    /// Number of the tag in this direction under this state (used only by suite `paper`).
    pub counter: u16,
}

/// The key of tags under one state.
pub trait LinkMac: Send {
    /// Makes the key of a state, for a pair with these nonce prefixes.
    fn new(state: &LinkState, prefixes: &NoncePrefixes) -> Self;

    /// Computes the tag of the concatenated `parts`, at most 512 bytes in all.
    fn compute_tag(&self, place: &TagPlace, parts: &[&[u8]]) -> [u8; TAG_BYTES];
}

/// The key of the frames of one subkey.
pub trait FrameKey: Send {
    /// Makes the key from a subkey, of which a suite may use only the first 16 bytes.
    fn from_subkey(subkey: &Secret<32>) -> Self;

    /// Encrypts `text` in place and returns the tag.
    fn seal(&self, iv: &[u8; 12], aad: &[u8], text: &mut [u8]) -> [u8; TAG_BYTES];

    /// Decrypts `text` in place if the tag is right; else `text` must not be used.
    fn open(&self, iv: &[u8; 12], aad: &[u8], text: &mut [u8], tag: &[u8; TAG_BYTES]) -> bool;
}

/// AES-GCM of a backend as the key of frames; `K` is 16 or 32.
pub struct GcmFrames<const K: usize, A>(A);

impl<const K: usize, A: AeadKey<K> + Send> FrameKey for GcmFrames<K, A> {
    fn from_subkey(subkey: &Secret<32>) -> Self {
        let mut key = mezza_core::Wiping::new([0; K]);
        key.copy_from_slice(&subkey.expose()[..K]);
        Self(A::new(&key))
    }

    fn seal(&self, iv: &[u8; 12], aad: &[u8], text: &mut [u8]) -> [u8; TAG_BYTES] {
        self.0.seal(iv, aad, text)
    }

    fn open(&self, iv: &[u8; 12], aad: &[u8], text: &mut [u8], tag: &[u8; TAG_BYTES]) -> bool {
        self.0.open(iv, aad, text, tag)
    }
}

/// A suite of a link: its MAC, its cipher, and the limits that follow from them.
pub trait LinkSuite: Send + 'static {
    /// The implementation of the primitives.
    type Backend: LinkBackend;
    /// The MAC of tags.
    type Mac: LinkMac;
    /// The cipher of frames.
    type Frames: FrameKey;

    /// The suite's number on the wire.
    const NUMBER: u8;
    /// The suite's name in settings and texts.
    const NAME: &'static str;
    /// True if the suite has SAS pairing, nudges and streams.
    const COMPLETE: bool;
    /// Attempts allowed under one state; `None`: any number.
    const ATTEMPTS_MAX: Option<i64>;

    /// Returns the session id of an initiator's ephemeral key.
    fn session_id(
        initiator: &LinkId,
        m1: &CanonicalPoint,
        rng: &mut dyn CryptoRng,
    ) -> [u8; TAG_BYTES];

    /// Returns true if an honest initiator may send this session id with this key.
    fn is_session_id(id: &[u8; TAG_BYTES], initiator: &LinkId, m1: &CanonicalPoint) -> bool;

    /// Derives the first state from the shared secret of a pairing's ephemeral keys.
    fn derive_first_state(shared: &Secret<32>, view: &ExchangeView<'_>) -> LinkState;

    /// Derives next state and session key from the shared secret of an exchange's ephemeral keys.
    fn derive_exchange_keys(
        shared: &Secret<32>,
        state: &LinkState,
        view: &ExchangeView<'_>,
    ) -> ExchangeKeys;
}
