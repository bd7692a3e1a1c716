//! Every message between two devices. Nothing else knows bytes.
//!
//! The first byte tells the family: F1 is our container, 3x Signal's own format, 4x the same with a
//! post-quantum handshake.

use alloc::borrow::Cow;
use alloc::vec::Vec;

use mezza_core::{DecodeError, PublicKey, Suite, SuiteId, Wiping, blake2b};

use crate::suite::{RatchetSuite, V3, V4, of_suite};
use crate::{IdentityKey, SuiteList};

pub mod container;
pub mod proto;
pub mod signal;

pub use container::ContainerFormat;
pub use signal::SignalFormat;

/// Bytes of a ciphertext's digest.
const NOTED_BYTES: usize = 32;

/// Longest body of a message in bytes.
pub const BODY_BYTES_MAX: usize = 2 << 20;
/// Longest outer part that a message is bound to, in bytes.
pub const OUTER_BYTES_MAX: usize = 64;
/// [`Padding::Blocks`] fills up to a multiple of this many bytes.
pub const PAD_BYTES: usize = 160;
/// Longest sealed text in bytes: body, padding, nonce and tag.
pub const SEALED_BYTES_MAX: usize = BODY_BYTES_MAX + PAD_BYTES + 32;

/// How a body is filled up before it is sealed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Padding {
    /// To the next multiple of 160 bytes.
    #[default]
    Blocks,
    /// So that the whole message has exactly this many bytes.
    To(usize),
}

/// A wire format of the Double Ratchet.
///
/// A `prefix` is what a session keeps of the handshake to write its first messages, empty for
/// other messages; the initiator is whose identity stands in them.
pub trait Wire {
    /// Most messages in one chain, so that a count fits its field.
    const CHAIN_MAX: u32;
    /// True if a message can be bound to an outer part.
    const OUTER: bool;

    /// Decodes a message of either kind; keys are canonical afterwards.
    fn decode(message: &[u8]) -> Result<DecodedMessage<'_>, DecodeError>;
    /// The prefix of the first messages of a session.
    fn encode_prefix(first: &FirstMessageHeader) -> Vec<u8>;
    /// Reads a prefix that was stored; it must be of this suite and initiator.
    fn read_prefix(
        suite: SuiteId,
        initiator: &IdentityKey,
        prefix: &[u8],
    ) -> Result<FirstMessageHeader, DecodeError>;
    /// Appends the additional data in front of the head.
    fn append_aad(sender: &IdentityKey, receiver: &IdentityKey, outer: &[u8], out: &mut Vec<u8>);
    /// Appends the head: the message up to the sealed part, as it is authenticated.
    fn append_head(header: &Header<'_>, out: &mut Vec<u8>);
    /// A message up to the sealed part, with room for the rest.
    fn begin_message(
        prefix: &[u8],
        initiator: &IdentityKey,
        head: &[u8],
        sealed_bytes: usize,
    ) -> Vec<u8>;
    /// Appends what stands behind the sealed part.
    fn append_end(prefix: &[u8], initiator: &IdentityKey, out: &mut Vec<u8>);
    /// Bytes of a whole message.
    fn message_bytes(prefix: &[u8], initiator: &IdentityKey, header: &Header<'_>) -> usize;
    /// Returns the header field for a previous chain of `count` messages.
    fn encode_pn(count: u32) -> u32;
    /// The index at which a header closes the previous chain.
    fn closed_at(pn: u32) -> u32;
    /// Bytes of the padded body, so that a message that needs `fixed_bytes` besides it comes out
    /// as `padding` says; `None` if the body does not fit.
    fn padded_bytes(body_bytes: usize, padding: Padding, fixed_bytes: usize) -> Option<usize>;
    /// Appends a body, filled up to `padded_bytes`.
    fn pad_body(body: &[u8], padded_bytes: usize, out: &mut Vec<u8>);
    /// Takes the padding off again; `None` if it is not what [`pad_body`](Self::pad_body) makes.
    fn unpad_body(text: Vec<u8>) -> Option<Wiping<Vec<u8>>>;
}

/// The header of a message that is written.
pub struct Header<'a> {
    /// The suite of the session.
    pub suite: SuiteId,
    /// Our ratchet key.
    pub key: &'a PublicKey,
    /// Index in the chain.
    pub n: u32,
    /// The field of the previous chain ([`Wire::encode_pn`]).
    pub pn: u32,
    /// Bytes of the sealed part.
    pub sealed_bytes: usize,
}

/// A message, decoded, not authenticated.
pub struct DecodedMessage<'a> {
    /// Further fields of a first message.
    pub first: Option<FirstMessageHeader>,
    /// The message of the ratchet itself.
    pub inner: RatchetMessage<'a>,
}

/// The part of a first message that carries the handshake.
#[derive(Clone, PartialEq, Eq)]
pub struct FirstMessageHeader {
    /// The suite of the session.
    pub suite: SuiteId,
    /// The identity of the initiator, not checked.
    pub identity: PublicKey,
    /// The base key EK, canonical.
    pub base: PublicKey,
    /// Which signed prekey was used.
    pub spk_id: u32,
    /// Which one-time prekey was used; 0: none.
    pub opk_id: u32,
    /// The suites of the initiator; a container always has them, Signal's formats never.
    pub list: Option<SuiteList>,
    /// The number of the initiator's install, which Signal's formats carry beside the handshake;
    /// not authenticated, 0 in a container.
    pub registration: u32,
    /// The encapsulation of a post-quantum suite.
    pub kem: Option<Encapsulated>,
}

/// The KEM ciphertext of a first message, and the key of the bundle that it is for.
#[derive(Clone, PartialEq, Eq)]
pub struct Encapsulated {
    /// Which KEM key was used.
    pub id: u32,
    /// 1,568 bytes; in what a responder keeps, their digest of 32.
    pub ciphertext: Vec<u8>,
}

impl FirstMessageHeader {
    /// Returns true if both have the same initiator and base key.
    pub(crate) fn same_base(&self, other: &Self) -> bool {
        self.identity == other.identity && self.base == other.base
    }

    /// Returns the form that a responder stores: a digest is enough to recognise the ciphertext.
    pub(crate) fn with_ciphertext_digest(&self) -> Self {
        let mut noted = self.clone();
        if let Some(kem) = &mut noted.kem {
            let mut digest = [0; NOTED_BYTES];
            blake2b(&mut digest, &[], "b2c20 kem", &[&kem.ciphertext]);
            kem.ciphertext = digest.to_vec();
        }
        noted
    }

    /// Returns true if both begin the same session: all but the registration is equal.
    pub(crate) fn same_handshake(&self, other: &Self) -> bool {
        *self == Self { registration: self.registration, ..other.clone() }
    }
}

/// A message of the ratchet.
pub struct RatchetMessage<'a> {
    /// The ratchet key of the sender, canonical.
    pub key: PublicKey,
    /// Index in the chain.
    pub n: u32,
    /// The field of the previous chain.
    pub pn: u32,
    /// The bytes in front of the sealed part, as they are authenticated.
    pub head: Cow<'a, [u8]>,
    /// The sealed part.
    pub sealed: Cow<'a, [u8]>,
    /// Authenticated bytes behind the ciphertext: fields that a newer peer added.
    pub tail: &'a [u8],
}

/// The suite that a message claims, and whether it is a first message, from its first bytes.
pub fn peek_suite(message: &[u8]) -> Result<(SuiteId, bool), DecodeError> {
    match message.split_first().ok_or(DecodeError::Truncated)? {
        (&container::FAMILY, _) => container::peek_suite(message),
        (0x30..=0x3f, protobuf) => {
            Ok((V3::ID, proto::PreKeySignalMessage::is_prekey_message(protobuf)))
        }
        (0x40..=0x4f, protobuf) => {
            Ok((V4::ID, proto::PreKeySignalMessage::is_prekey_message(protobuf)))
        }
        _ => Err(DecodeError::Value),
    }
}

/// Decodes a message of a suite that sessions may speak.
pub fn decode_message(message: &[u8]) -> Result<DecodedMessage<'_>, DecodeError> {
    let (suite, _) = peek_suite(message)?;
    decode_as(suite, message)
}

/// Decodes a message that claims this suite.
pub(crate) fn decode_as(suite: SuiteId, message: &[u8]) -> Result<DecodedMessage<'_>, DecodeError> {
    of_suite!(suite, S => <S as RatchetSuite>::Wire::decode(message), else Err(DecodeError::Value))
}

/// The identity key in a first message, unauthenticated: to find the contact. `None` if this is no
/// first message, or the key is not allowed.
pub fn first_identity(message: &[u8]) -> Option<IdentityKey> {
    let (_, is_first) = peek_suite(message).ok()?;
    let first = if is_first { decode_message(message).ok()?.first } else { None };
    IdentityKey::decode(first?.identity.as_bytes()).ok()
}
