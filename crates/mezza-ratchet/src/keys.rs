//! Types for identity keys, with the checks of public keys.

use core::fmt;

use curve25519_dalek::montgomery::MontgomeryPoint;
use mezza_core::{CryptoRng, Hash512, PublicKey, Secret, StaticKey, blake2b, snapshot};

use crate::{KeyError, xeddsa};

/// Bytes 1 to 30 of the prime 2^255 - 19, little-endian. The lowest byte is 0xed, the highest 0x7f.
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

/// Returns an error if the u-coordinate is not below 2^255 - 19, or has bit 255 set.
pub(crate) fn check_canonical(PublicKey(key): &PublicKey) -> Result<(), KeyError> {
    let above = key[31] > 0x7f || (key[31] == 0x7f && key[1..31] == PRIME_MIDDLE && key[0] >= 0xed);
    if above { Err(KeyError::NotCanonical) } else { Ok(()) }
}

/// Returns true if a canonical key lies on the curve and in its subgroup of prime order.
pub(crate) fn torsion_free(PublicKey(key): &PublicKey) -> bool {
    MontgomeryPoint(*key).to_edwards(0).is_some_and(|point| point.is_torsion_free())
}

/// Returns an error if the key is not canonical or has low order.
pub(crate) fn check_usable(key: &PublicKey) -> Result<(), KeyError> {
    check_canonical(key)?;
    if LOW_ORDER.contains(&key.0) { Err(KeyError::LowOrder) } else { Ok(()) }
}

/// The public identity key IK of a device, 32 bytes: a u-coordinate that was checked. Each key is a
/// different identity.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct IdentityKey(PublicKey);

snapshot!(struct IdentityKey(key));

impl IdentityKey {
    /// Decodes a u-coordinate. Returns an error if the key is not canonical or has low order.
    pub fn decode(bytes: &[u8; 32]) -> Result<Self, KeyError> {
        let key = PublicKey(*bytes);
        check_usable(&key)?;
        Ok(Self(key))
    }

    /// Returns the key for a DH with the identity.
    pub fn public_key(&self) -> &PublicKey {
        &self.0
    }

    /// Returns the u-coordinate, 32 bytes, little-endian.
    pub fn as_bytes(&self) -> &[u8; 32] {
        self.0.as_bytes()
    }
}

impl fmt::Debug for IdentityKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("IdentityKey")
    }
}

/// The identity pair of this device, for key agreement and signatures (section "Parties and keys"
/// of the specification).
pub struct IdentityKeyPair {
    pair: StaticKey,
    public: IdentityKey,
}

snapshot!(struct IdentityKeyPair { pair, public });

impl IdentityKeyPair {
    /// Creates the identity from a long-term pair.
    pub fn new(pair: StaticKey) -> Self {
        // A clamped scalar times the base point is always canonical and never of low order.
        let public = IdentityKey(*pair.public_key());
        Self { pair, public }
    }

    /// Returns the public identity key.
    pub fn public_key(&self) -> IdentityKey {
        self.public
    }

    /// Returns the pair for a DH with the identity.
    pub fn pair(&self) -> &StaticKey {
        &self.pair
    }

    /// Signs the concatenation of `parts` with `XEdDSA` and 64 fresh bytes of `rng`. Returns 64
    /// bytes.
    pub fn sign<H: Hash512>(&self, parts: &[&[u8]], rng: &mut dyn CryptoRng) -> [u8; 64] {
        xeddsa::sign::<H>(self.pair.scalar(), parts, &Secret::random(rng))
    }

    /// Returns a copy. The name makes every copy of the secret visible in a review.
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

/// The exporter secret of one handshake: returned once, never stored, wiped on drop.
pub struct Exporter(pub(crate) Secret<32>);

impl Exporter {
    /// Derives one 32-byte secret for each label. Both sides get equal secrets.
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
