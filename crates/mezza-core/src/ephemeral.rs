//! A Diffie-Hellman pair that the caller hands in: pure code draws no key itself.

use core::fmt;

use crate::{Backend, Secret};
use rand_core::CryptoRng;

/// How the scalar of an [`Ephemeral`] came to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A clamped X25519 scalar (RFC 7748, section 5).
    Plain,
    /// A scalar chosen together with a reverse firewall; no backend accepts it yet.
    Coin,
}

/// An X25519 pair: 32-byte scalar, 32-byte u-coordinate (RFC 7748).
pub struct Ephemeral {
    scalar: Secret<32>,
    public: [u8; 32],
    kind: Kind,
}

impl Ephemeral {
    /// Draws a fresh pair.
    pub fn draw<B: Backend>(rng: &mut dyn CryptoRng) -> Self {
        Self::from_scalar::<B>(Secret::random(rng))
    }

    /// The pair of a scalar, clamped here.
    #[expect(clippy::needless_pass_by_value, reason = "who hands a scalar in keeps no copy")]
    pub fn from_scalar<B: Backend>(scalar: Secret<32>) -> Self {
        let scalar = clamped(&scalar);
        let public = B::public(&scalar);
        Self { scalar, public, kind: Kind::Plain }
    }

    /// Puts a stored pair together again without computing the public key anew.
    #[expect(clippy::needless_pass_by_value, reason = "who hands a scalar in keeps no copy")]
    pub fn from_stored(scalar: Secret<32>, public: [u8; 32]) -> Self {
        Self { scalar: clamped(&scalar), public, kind: Kind::Plain }
    }

    /// The scalar, 32 bytes, clamped.
    pub fn scalar(&self) -> &Secret<32> {
        &self.scalar
    }

    /// The u-coordinate, 32 bytes, little-endian.
    pub fn public(&self) -> &[u8; 32] {
        &self.public
    }

    /// How the scalar came to be.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// A second copy, named so that each one is seen in a review.
    #[must_use]
    pub fn duplicate(&self) -> Self {
        Self { scalar: self.scalar.duplicate(), public: self.public, kind: self.kind }
    }
}

impl fmt::Debug for Ephemeral {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Ephemeral({:?})", self.kind)
    }
}

fn clamped(scalar: &Secret<32>) -> Secret<32> {
    Secret::fill(|s| {
        s.copy_from_slice(scalar.expose());
        s[0] &= 0xf8;
        s[31] = (s[31] & 0x7f) | 0x40;
    })
}
