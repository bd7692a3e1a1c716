//! The messages of all variants, and their encoding.

use alloc::vec::Vec;
use core::fmt;

use crate::error::GroupError;
use crate::group::{Group, ViewDependent};

/// A message between two parties, or between a party and its firewall.
///
/// ```text
/// kind u8 | elements and scalars, each of the group's fixed size
/// 1 key  A               2 commitment  C1 C2         3 opening  r s
/// 4 encryption key  h    5 encryption key  g' h'     6 ciphertext  c0 c1
/// ```
#[derive(Clone)]
pub enum Message<G: Group> {
    /// A Diffie-Hellman public key g^a.
    Key(ViewDependent<G::Element>),
    /// A commitment to a public key: g^r h^s and h^s g^b.
    Commitment([ViewDependent<G::Element>; 2]),
    /// The opening of a commitment: r and s.
    Opening([ViewDependent<G::Scalar>; 2]),
    /// An El-Gamal public key h under the group's own generator.
    EncryptionKey(ViewDependent<G::Element>),
    /// An El-Gamal public key with its own generator, from a mauling firewall.
    MauledKey([ViewDependent<G::Element>; 2]),
    /// An El-Gamal ciphertext: g^b and h^b m.
    Ciphertext([ViewDependent<G::Element>; 2]),
}

impl<G: Group> Message<G> {
    /// Creates a key message.
    pub const fn key(key: G::Element) -> Self {
        Self::Key(ViewDependent::new(key))
    }

    /// Creates a commitment message.
    pub fn commitment(c1: G::Element, c2: G::Element) -> Self {
        Self::Commitment([c1, c2].map(ViewDependent::new))
    }

    /// Creates an opening message.
    pub fn opening(r: G::Scalar, s: G::Scalar) -> Self {
        Self::Opening([r, s].map(ViewDependent::new))
    }

    /// Creates an encryption key message for the group's generator.
    pub const fn encryption_key(h: G::Element) -> Self {
        Self::EncryptionKey(ViewDependent::new(h))
    }

    /// Creates an encryption key message with its own generator.
    pub fn mauled_key(g: G::Element, h: G::Element) -> Self {
        Self::MauledKey([g, h].map(ViewDependent::new))
    }

    /// Creates a ciphertext message.
    pub fn ciphertext(c0: G::Element, c1: G::Element) -> Self {
        Self::Ciphertext([c0, c1].map(ViewDependent::new))
    }

    /// Returns the byte of the message's kind.
    pub const fn kind(&self) -> u8 {
        match self {
            Self::Key(_) => 1,
            Self::Commitment(_) => 2,
            Self::Opening(_) => 3,
            Self::EncryptionKey(_) => 4,
            Self::MauledKey(_) => 5,
            Self::Ciphertext(_) => 6,
        }
    }

    /// Encodes the message: the kind, then fields of fixed size (GUARD-5).
    pub fn encode(&self, group: &G) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(1 + 2 * group.element_bytes());
        bytes.push(self.kind());
        for field in self.encode_fields(group) {
            bytes.extend_from_slice(&field);
        }
        bytes
    }

    /// Encodes the fields in their order, as an observer of the wire sees them.
    pub fn encode_fields(&self, group: &G) -> Vec<Vec<u8>> {
        let element = |element: &ViewDependent<G::Element>| group.encode(element.seen());
        match self {
            Self::Key(one) | Self::EncryptionKey(one) => [one].map(element).into(),
            Self::Commitment(two) | Self::MauledKey(two) | Self::Ciphertext(two) => {
                two.each_ref().map(element).into()
            }
            Self::Opening(two) => two.each_ref().map(|s| group.encode_scalar(s.seen())).into(),
        }
    }

    /// Reads a message; every element and scalar is checked (GUARD-1, GUARD-2).
    ///
    /// # Errors
    /// [`GroupError`] for another kind or size, or a value outside the group.
    pub fn decode(group: &G, bytes: &[u8]) -> Result<Self, GroupError> {
        let (kind, body) = bytes.split_first().ok_or(GroupError::Message)?;
        let element = |bytes| group.decode(bytes).map(ViewDependent::new);
        let scalar = |bytes| group.decode_scalar(bytes).map(ViewDependent::new);
        let one = || element(body);
        let two = || -> Result<_, GroupError> {
            let [a, b] = split_halves(body, group.element_bytes())?;
            Ok([element(a)?, element(b)?])
        };
        Ok(match kind {
            1 => Self::Key(one()?),
            2 => Self::Commitment(two()?),
            3 => {
                let [r, s] = split_halves(body, group.scalar_bytes())?;
                Self::Opening([scalar(r)?, scalar(s)?])
            }
            4 => Self::EncryptionKey(one()?),
            5 => Self::MauledKey(two()?),
            6 => Self::Ciphertext(two()?),
            _ => return Err(GroupError::Message),
        })
    }
}

/// Splits a body into two fields of `each` bytes.
fn split_halves(body: &[u8], each: usize) -> Result<[&[u8]; 2], GroupError> {
    let (first, second) = body.split_at_checked(each).ok_or(GroupError::Message)?;
    // Surplus bytes would pass every firewall unchanged (GUARD-5).
    if second.len() == each { Ok([first, second]) } else { Err(GroupError::Message) }
}

impl<G: Group> PartialEq for Message<G> {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Key(a), Self::Key(b)) | (Self::EncryptionKey(a), Self::EncryptionKey(b)) => {
                a == b
            }
            (Self::Commitment(a), Self::Commitment(b))
            | (Self::MauledKey(a), Self::MauledKey(b))
            | (Self::Ciphertext(a), Self::Ciphertext(b)) => a == b,
            (Self::Opening(a), Self::Opening(b)) => a == b,
            _ => false,
        }
    }
}

impl<G: Group> fmt::Debug for Message<G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Message {}", self.kind())
    }
}
