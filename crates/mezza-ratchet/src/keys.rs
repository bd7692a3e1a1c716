//! Key roles as types.

use core::fmt;

use curve25519_dalek::montgomery::MontgomeryPoint;
use mezza_core::{CryptoRng, Hash512, PublicKey, Secret, StaticKey, blake2b, snapshot};

use crate::{KeyError, xeddsa};

/// The prime 2^255 - 19, little-endian, without its lowest byte (0xed) and its highest (0x7f).
const PRIME_MIDDLE: [u8; 30] = [0xff; 30];

/// The five canonical u-coordinates of low order (RFC 7748, section 7; both curve and twist).
const LOW_ORDER: [[u8; 32]; 5] = [
    [0; 32],
    {
        let mut one = [0; 32];
        one[0] = 1;
        one
    },
    [
        0xe0, 0xeb, 0x7a, 0x7c, 0x3b, 0x41, 0xb8, 0xae, 0x16, 0x56, 0xe3, 0xfa, 0xf1, 0x9f, 0xc4,
        0x6a, 0xda, 0x09, 0x8d, 0xeb, 0x9c, 0x32, 0xb1, 0xfd, 0x86, 0x62, 0x05, 0x16, 0x5f, 0x49,
        0xb8, 0x00,
    ],
    [
        0x5f, 0x9c, 0x95, 0xbc, 0xa3, 0x50, 0x8c, 0x24, 0xb1, 0xd0, 0xb1, 0x55, 0x9c, 0x83, 0xef,
        0x5b, 0x04, 0x44, 0x5c, 0xc4, 0x58, 0x1c, 0x8e, 0x86, 0xd8, 0x22, 0x4e, 0xdd, 0xd0, 0x9f,
        0x11, 0x57,
    ],
    {
        let mut minus_one = [0xff; 32];
        minus_one[0] = 0xec;
        minus_one[31] = 0x7f;
        minus_one
    },
];

/// Refuses a u-coordinate that is not below 2^255 - 19 or has bit 255 set.
pub(crate) fn check_canonical(PublicKey(key): &PublicKey) -> Result<(), KeyError> {
    let above = key[31] > 0x7f || (key[31] == 0x7f && key[1..31] == PRIME_MIDDLE && key[0] >= 0xed);
    if above { Err(KeyError::NotCanonical) } else { Ok(()) }
}

/// Returns true if a canonical key lies on the curve and in its subgroup of prime order.
pub(crate) fn torsion_free(PublicKey(key): &PublicKey) -> bool {
    MontgomeryPoint(*key).to_edwards(0).is_some_and(|point| point.is_torsion_free())
}

/// A canonical key that is not of low order.
pub(crate) fn check_usable(key: &PublicKey) -> Result<(), KeyError> {
    check_canonical(key)?;
    if LOW_ORDER.contains(&key.0) { Err(KeyError::LowOrder) } else { Ok(()) }
}

/// The public identity key IK of a device: a checked u-coordinate, 32 bytes. One IK is one
/// identity.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct IdentityKey(PublicKey);

snapshot!(struct IdentityKey(key));

impl IdentityKey {
    /// Takes a canonical u-coordinate that is not of low order.
    pub fn decode(bytes: &[u8; 32]) -> Result<Self, KeyError> {
        let key = PublicKey(*bytes);
        check_usable(&key)?;
        Ok(Self(key))
    }

    /// The key, for a DH with the identity.
    pub fn public_key(&self) -> &PublicKey {
        &self.0
    }

    /// The u-coordinate, 32 bytes, little-endian.
    pub fn as_bytes(&self) -> &[u8; 32] {
        self.0.as_bytes()
    }
}

impl fmt::Debug for IdentityKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("IdentityKey")
    }
}

/// The identity pair of this device: agrees on keys and signs (section "Parties and keys" of the
/// specification).
pub struct IdentityKeyPair {
    pair: StaticKey,
    public: IdentityKey,
}

snapshot!(struct IdentityKeyPair { pair, public });

impl IdentityKeyPair {
    /// The identity of a pair that is kept for ever.
    pub fn new(pair: StaticKey) -> Self {
        // A clamped scalar times the base point is canonical and never of low order.
        let public = IdentityKey(*pair.public_key());
        Self { pair, public }
    }

    /// The public key.
    pub fn public_key(&self) -> IdentityKey {
        self.public
    }

    /// The pair, for a DH with the identity.
    pub fn pair(&self) -> &StaticKey {
        &self.pair
    }

    /// Signs `parts`, one behind the other (`XEdDSA`, 64 bytes), with 64 fresh bytes of `rng`.
    pub fn sign<H: Hash512>(&self, parts: &[&[u8]], rng: &mut dyn CryptoRng) -> [u8; 64] {
        xeddsa::sign::<H>(self.pair.scalar(), parts, &Secret::random(rng))
    }

    /// A second copy, named so that each one is seen in a review.
    #[must_use]
    pub fn duplicate(&self) -> Self {
        Self { pair: self.pair.duplicate(), public: self.public }
    }
}

impl fmt::Debug for IdentityKeyPair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("IdentityKeyPair")
    }
}

/// The exporter secret of one handshake. It is returned once, never stored, wiped on drop.
pub struct Exporter(pub(crate) Secret<32>);

impl Exporter {
    /// One 32-byte secret for each label, equal on both sides.
    pub fn export_secrets<const N: usize>(self, labels: [&str; N]) -> [Secret<32>; N] {
        labels.map(|label| {
            Secret::init_with(|out| {
                blake2b(out, self.0.expose(), "b2c20 export", &[label.as_bytes()]);
            })
        })
    }
}

impl fmt::Debug for Exporter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Exporter")
    }
}
