//! The wire formats of every message between two devices. No other module knows these bytes.
//!
//! The first byte shows the family: F1 is our container, 3x is Signal's own format, 4x is Signal's
//! format with a post-quantum handshake.

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

/// Bytes of the digest that is stored instead of a ciphertext.
const NOTED_BYTES: usize = 32;

/// Longest body of a message in bytes.
pub const BODY_BYTES_MAX: usize = 2 << 20;
/// Most bytes of the outer part that a message authenticates.
pub const OUTER_BYTES_MAX: usize = 64;
/// [`Padding::Blocks`] fills up to a multiple of this many bytes.
pub const PAD_BYTES: usize = 160;
/// Longest sealed text in bytes: body, padding, nonce and tag.
pub const SEALED_BYTES_MAX: usize = BODY_BYTES_MAX + PAD_BYTES + 32;

/// The length to which a body is padded before it is sealed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Padding {
    /// Pad the body to the next multiple of 160 bytes.
    #[default]
    Blocks,
    /// Pad the body so that the whole message has exactly this many bytes.
    To(usize),
}

/// A wire format of the Double Ratchet.
///
/// A `prefix` is the part of the handshake that a session stores to write its first messages; the
/// prefix of other messages is empty. `initiator` is the identity in these first messages.
pub trait Wire {
    /// Most messages in one chain, so that a count fits its field on the wire.
    const CHAIN_MAX: u32;
    /// True if a message can authenticate an outer part.
    const OUTER: bool;

    /// Decodes a first message or a later one. All keys in the result are canonical.
    fn decode(message: &[u8]) -> Result<DecodedMessage<'_>, DecodeError>;
    /// Encodes the prefix of the first messages of a session.
    fn encode_prefix(first: &FirstMessageHeader) -> Vec<u8>;
    /// Decodes a stored prefix, which must be of this suite and initiator.
    fn read_prefix(
        suite: SuiteId,
        initiator: &IdentityKey,
        prefix: &[u8],
    ) -> Result<FirstMessageHeader, DecodeError>;
    /// Appends the part of the additional data that precedes the head.
    fn append_aad(sender: &IdentityKey, receiver: &IdentityKey, outer: &[u8], out: &mut Vec<u8>);
    /// Appends the head: the authenticated bytes of the message before the sealed part.
    fn append_head(header: &Header<'_>, out: &mut Vec<u8>);
    /// Returns the message up to the sealed part, with capacity for the rest.
    fn begin_message(
        prefix: &[u8],
        initiator: &IdentityKey,
        head: &[u8],
        sealed_bytes: usize,
    ) -> Vec<u8>;
    /// Appends the bytes after the sealed part.
    fn append_end(prefix: &[u8], initiator: &IdentityKey, out: &mut Vec<u8>);
    /// Returns the bytes of a whole message.
    fn message_bytes(prefix: &[u8], initiator: &IdentityKey, header: &Header<'_>) -> usize;
    /// Returns the header field for a previous chain of `count` messages.
    fn encode_pn(count: u32) -> u32;
    /// Returns the index at which a header with `pn` closes the previous chain.
    fn closed_at(pn: u32) -> u32;
    /// Returns the bytes of the padded body, so that a message with `fixed_bytes` further bytes has
    /// the length that `padding` demands; `None` if the body does not fit.
    fn padded_bytes(body_bytes: usize, padding: Padding, fixed_bytes: usize) -> Option<usize>;
    /// Appends a body and its padding, `padded_bytes` in all.
    fn pad_body(body: &[u8], padded_bytes: usize, out: &mut Vec<u8>);
    /// Removes the padding; `None` if the padding is not the one that [`pad_body`](Self::pad_body)
    /// makes.
    fn unpad_body(text: Vec<u8>) -> Option<Wiping<Vec<u8>>>;
}

/// The header of a message that is to be written.
pub struct Header<'a> {
    /// The suite of the session.
    pub suite: SuiteId,
    /// The ratchet key of the sender.
    pub key: &'a PublicKey,
    /// The index of the message in its chain.
    pub n: u32,
    /// The field for the previous chain, made by [`Wire::encode_pn`].
    pub pn: u32,
    /// Bytes of the sealed part.
    pub sealed_bytes: usize,
}

/// A message that was decoded but not authenticated.
pub struct DecodedMessage<'a> {
    /// The handshake; `Some` in a first message.
    pub first: Option<FirstMessageHeader>,
    /// The message of the Double Ratchet.
    pub inner: RatchetMessage<'a>,
}

/// The part of a first message that carries the handshake.
#[derive(Clone, PartialEq, Eq)]
pub struct FirstMessageHeader {
    /// The suite of the session.
    pub suite: SuiteId,
    /// The identity key of the initiator, not checked.
    pub identity: PublicKey,
    /// The base key EK; canonical.
    pub base: PublicKey,
    /// The id of the signed prekey that was used.
    pub spk_id: u32,
    /// The id of the one-time prekey that was used; 0 if none was used.
    pub opk_id: u32,
    /// The suite list of the initiator; always `Some` in a container, never in Signal's formats.
    pub list: Option<SuiteList>,
    /// The registration number of the initiator's install. Signal's formats send this number
    /// unauthenticated; 0 in a container.
    pub registration: u32,
    /// The KEM ciphertext; `Some` in a post-quantum suite.
    pub kem: Option<Encapsulated>,
}

/// The KEM ciphertext of a first message, with the id of the KEM key that it was made for.
#[derive(Clone, PartialEq, Eq)]
pub struct Encapsulated {
    /// The id of the KEM key that was used.
    pub id: u32,
    /// The ciphertext, 1,568 bytes. A responder stores a digest of 32 bytes instead.
    pub ciphertext: Vec<u8>,
}

impl FirstMessageHeader {
    /// Returns true if both headers have the same initiator and base key.
    pub(crate) fn same_base(&self, other: &Self) -> bool {
        self.identity == other.identity && self.base == other.base
    }

    /// Returns the form that a responder stores, with a digest in place of the ciphertext. The
    /// digest suffices to recognise a repeated ciphertext.
    pub(crate) fn with_ciphertext_digest(&self) -> Self {
        let mut noted = self.clone();
        if let Some(kem) = &mut noted.kem {
            let mut digest = [0; NOTED_BYTES];
            blake2b(&mut digest, &[], "b2c20 kem", &[&kem.ciphertext]);
            kem.ciphertext = digest.to_vec();
        }
        noted
    }

    /// Returns true if both headers begin the same session: all fields but the registration number
    /// are equal.
    pub(crate) fn same_handshake(&self, other: &Self) -> bool {
        *self == Self { registration: self.registration, ..other.clone() }
    }
}

/// A message of the Double Ratchet, decoded.
pub struct RatchetMessage<'a> {
    /// The ratchet key of the sender; canonical.
    pub key: PublicKey,
    /// The index of the message in its chain.
    pub n: u32,
    /// The field for the previous chain.
    pub pn: u32,
    /// The authenticated bytes before the sealed part.
    pub head: Cow<'a, [u8]>,
    /// The ciphertext with its nonce or tag.
    pub sealed: Cow<'a, [u8]>,
    /// Authenticated bytes after the ciphertext: fields that a newer version added.
    pub tail: &'a [u8],
}

/// Reads from the first bytes of a message which suite it claims. Also returns true if the message
/// is a first message.
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

/// Decodes a message of any suite that sessions may speak.
pub fn decode_message(message: &[u8]) -> Result<DecodedMessage<'_>, DecodeError> {
    let (suite, _) = peek_suite(message)?;
    decode_as(suite, message)
}

/// Decodes a message as one of this suite.
pub(crate) fn decode_as(suite: SuiteId, message: &[u8]) -> Result<DecodedMessage<'_>, DecodeError> {
    of_suite!(suite, S => <S as RatchetSuite>::Wire::decode(message), else Err(DecodeError::Value))
}

/// Returns the unauthenticated identity key in a first message, to find the contact. `None` if the
/// message is not a first message, or if the key is not canonical or has low order.
pub fn first_identity(message: &[u8]) -> Option<IdentityKey> {
    let (_, is_first) = peek_suite(message).ok()?;
    let first = if is_first { decode_message(message).ok()?.first } else { None };
    IdentityKey::decode(first?.identity.as_bytes()).ok()
}
