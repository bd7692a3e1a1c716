//! Every message between two devices. Nothing else knows bytes.
//!
//! The first byte tells the family: F1 is our container, 3x and 4x are Signal's own formats,
//! which this version names but does not speak.

use alloc::vec::Vec;

use mezza_core::{DecodeError, SuiteId};
use zeroize::Zeroizing;

use crate::{IdentityKey, List};

pub mod container;

pub use container::Container;

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
pub trait Wire {
    /// Most messages in one chain, so that a count fits its field.
    const CHAIN_MAX: u32;
    /// Whether a message can be bound to an outer part.
    const OUTER: bool;

    /// The additional data in front of the message header.
    fn aad(sender: &IdentityKey, receiver: &IdentityKey, outer: &[u8]) -> Vec<u8>;
    /// The message up to the sealed part.
    fn head(suite: SuiteId, key: &[u8; 32], n: u32, pn: u32, sealed_bytes: usize) -> Vec<u8>;
    /// A message without its sealed part: `head`, behind `prefix` if this is a first message.
    fn message(prefix: &[u8], head: &[u8]) -> Vec<u8>;
    /// Bytes of a whole message whose sealed part has `sealed_bytes`.
    fn message_bytes(prefix: &[u8], sealed_bytes: usize) -> usize;
    /// What stands in the header for a previous chain of `count` messages.
    fn pn(count: u32) -> u32;
    /// The index at which a header closes the previous chain.
    fn closed_at(pn: u32) -> u32;
    /// Bytes of the padded body, so that a message that needs `fixed_bytes` besides it comes out
    /// as `padding` says; `None` if the body does not fit.
    fn padded_bytes(body_bytes: usize, padding: Padding, fixed_bytes: usize) -> Option<usize>;
    /// Fills a body up to `padded_bytes`.
    fn pad(body: &[u8], padded_bytes: usize) -> Zeroizing<Vec<u8>>;
    /// Takes the padding off again; `None` if it is not what [`pad`](Self::pad) makes.
    fn unpad(text: Vec<u8>) -> Option<Zeroizing<Vec<u8>>>;
}

/// A message, decoded, not authenticated.
pub struct Envelope<'a> {
    /// What a first message carries besides.
    pub first: Option<First<'a>>,
    /// The message of the ratchet itself.
    pub inner: Inner<'a>,
}

/// The prefix of a first message.
pub struct First<'a> {
    /// The identity of the initiator, not checked.
    pub identity: [u8; 32],
    /// The base key EK, canonical.
    pub base: [u8; 32],
    /// Which signed prekey was used.
    pub spk_id: u32,
    /// Which one-time prekey was used; 0: none.
    pub opk_id: u32,
    /// The suites of the initiator.
    pub list: List,
    /// The bytes up to and with the list.
    pub prefix: &'a [u8],
}

/// A message of the ratchet.
pub struct Inner<'a> {
    /// The ratchet key of the sender, canonical.
    pub key: [u8; 32],
    /// Index in the chain.
    pub n: u32,
    /// What the header says of the previous chain.
    pub pn: u32,
    /// The bytes in front of the sealed part, as they are authenticated.
    pub head: Vec<u8>,
    /// The sealed part.
    pub sealed: &'a [u8],
}

/// The suite that a message claims, and whether it is a first message, from its first bytes.
pub fn claim(message: &[u8]) -> Result<(SuiteId, bool), DecodeError> {
    match message.first().ok_or(DecodeError::Truncated)? {
        &container::FAMILY => container::claim(message),
        0x30..=0x3f => Ok((SuiteId(0x0003), false)),
        0x40..=0x4f => Ok((SuiteId(0x0004), false)),
        _ => Err(DecodeError::Value),
    }
}

/// The identity key in a first message, 32 bytes, unauthenticated: to find the contact. `None` if
/// this is no first message.
pub fn first_identity(message: &[u8]) -> Option<[u8; 32]> {
    container::decode(message).ok()?.first.map(|first| first.identity)
}
