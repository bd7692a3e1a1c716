//! Coins of a guard for the client's own keys (co-random mode): `X = X_c + rho G`, where the guard
//! committed to rho before it received `X_c`.
//!
//! ```text
//! guard:   rho = Wide(HMAC-SHA512(CoinKey, "rho" | client | purpose | dest | i))
//!          h = SHA-256("guard1 coin" | client | purpose | dest | i | rho)      SLOT -->
//! client:  x_c, stored before anything leaves; Z = its point                   <-- POINT
//! guard:   stores (slot, Z) durably, then                                      COIN rho -->
//! client:  checks h; x = x_c + rho; puts X = x G into the unmodified protocol
//! guard:   lets the frame pass if its field is enc(Z + rho G); then slot i + 1
//! ```
//! A slot stays the same until its X was seen on the wire, so an abandoned coin is worth nothing.

use alloc::vec::Vec;
use core::fmt;

use curve25519_dalek::constants::ED25519_BASEPOINT_TABLE;
use curve25519_dalek::constants::RISTRETTO_BASEPOINT_TABLE;
use curve25519_dalek::edwards::CompressedEdwardsY;
use curve25519_dalek::ristretto::CompressedRistretto;
use curve25519_dalek::scalar::Scalar;
use curve25519_dalek::traits::IsIdentity as _;
use mezza_core::{CryptoRng, EphemeralKey, PortableBackend, PublicKey, Secret, ZeroSecret};
use subtle::ConstantTimeEq as _;
use zeroize::{Zeroize as _, Zeroizing};

use crate::group::reduce_wide;
use crate::keys::{GuardClientId, hmac_sha512, sha256};

/// The purpose of a coin. Further numbers are reserved: 16 X3DH, 17 ratchet key, 18 signed prekey,
/// 19 one-time prekey, 20 signature nonce, 21 onion key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CoinPurpose {
    /// The ephemeral key of a link that this client dials.
    LinkDialling = 1,
    /// The ephemeral key of a link that this client answers.
    LinkAnswering = 2,
}

impl CoinPurpose {
    /// Returns the byte on the wire.
    pub const fn wire_byte(self) -> u8 {
        self as u8
    }

    /// Returns the purpose with this byte, or `None`.
    pub const fn from_byte(byte: u8) -> Option<Self> {
        match byte {
            1 => Some(Self::LinkDialling),
            2 => Some(Self::LinkAnswering),
            _ => None,
        }
    }
}

/// The encoding of a public key in a frame, 32 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CoinEncoding {
    /// An element of ristretto255.
    Ristretto,
    /// A u-coordinate of X25519. Z is sent as a compressed Edwards point of an eighth of the scalar
    /// and multiplied by 8, which removes torsion (GUARD-27).
    X25519,
}

/// A slot without its counter: client, purpose and destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SlotName {
    /// The client.
    pub client: GuardClientId,
    /// The purpose of the key.
    pub purpose: CoinPurpose,
    /// The number of the destination, or `fff0` plus the lane of an inbound connection.
    pub dest: u16,
}

/// One coin: its slot and number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SlotIndex {
    /// The slot.
    pub name: SlotName,
    /// The number, from 0. It increases when X was seen on the wire.
    pub index: u64,
}

impl SlotIndex {
    fn to_bytes(self) -> Vec<u8> {
        let Self { name: SlotName { client, purpose, dest }, index } = self;
        [&client.0[..], &[purpose.wire_byte()], &dest.to_be_bytes(), &index.to_be_bytes()].concat()
    }
}

/// The key from which all coins of a guard are derived. If it is stolen, future coins no longer
/// close channels (P2) or help against a broken generator (P5). No secret of the user is lost.
pub struct CoinKey(Secret<32>);

/// 32 random bytes per start of a guard. With a restored ledger the guard therefore derives other
/// coins.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct CoinEra(pub [u8; 32]);

impl fmt::Debug for CoinEra {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CoinEra")
    }
}

impl CoinKey {
    /// Creates the key from stored bytes.
    pub const fn from_secret(secret: Secret<32>) -> Self {
        Self(secret)
    }

    /// Derives the key of an era: the first 32 bytes of HMAC-SHA512(CoinKey, "era" | era).
    #[must_use]
    pub fn in_era(&self, era: &CoinEra) -> Self {
        // A restored ledger is used in another era, so its slots get other coins.
        let mut mac = hmac_sha512(self.0.expose(), &[b"era", &era.0]);
        let key = Secret::init_with(|key| key.copy_from_slice(&mac[..32]));
        mac.zeroize();
        Self(key)
    }

    /// Derives the coin of a slot, which the slot determines completely (GUARD-20).
    pub fn derive_rho(&self, slot: &SlotIndex) -> Rho {
        let mut mac = hmac_sha512(self.0.expose(), &[b"rho", &slot.to_bytes()]);
        // 64 bytes are reduced modulo q, so that the bias stays below 2^-250.
        let rho = Rho(Zeroizing::new(reduce_wide(&mac)));
        mac.zeroize();
        rho
    }
}

impl fmt::Debug for CoinKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CoinKey")
    }
}

/// A coin: a scalar, 32 bytes, little-endian. There is no `Clone`.
pub struct Rho(Zeroizing<Scalar>);

impl Rho {
    /// Reads a coin.
    ///
    /// # Errors
    /// [`CoinError::Form`] for values at and above the order.
    pub fn decode(bytes: &[u8; 32]) -> Result<Self, CoinError> {
        // Scalars have one form: values at and above q are refused (GUARD-2).
        let scalar = Option::from(Scalar::from_canonical_bytes(*bytes)).ok_or(CoinError::Form)?;
        Ok(Self(Zeroizing::new(scalar)))
    }

    /// Encodes the coin in 32 bytes.
    pub fn encode(&self) -> Zeroizing<[u8; 32]> {
        Zeroizing::new(self.0.to_bytes())
    }

    /// Returns h, the guard's commitment to the coin before it receives the point.
    pub fn commitment(&self, slot: &SlotIndex) -> [u8; 32] {
        // The slot is included, so that one coin cannot be shown for another slot.
        sha256(&[b"guard1 coin", &slot.to_bytes(), &*self.encode()])
    }

    /// Returns the public key that a client with point Z must send.
    ///
    /// # Errors
    /// [`CoinError::Form`] if Z is not a point, or the key would be the identity.
    pub fn public_key(&self, encoding: CoinEncoding, z: &[u8; 32]) -> Result<[u8; 32], CoinError> {
        match encoding {
            CoinEncoding::Ristretto => {
                let z = CompressedRistretto(*z).decompress().ok_or(CoinError::Form)?;
                let x = z + RISTRETTO_BASEPOINT_TABLE * &*self.0;
                // A client that guesses rho could send the identity, which no peer accepts.
                if x.is_identity() { Err(CoinError::Form) } else { Ok(x.compress().to_bytes()) }
            }
            CoinEncoding::X25519 => {
                let z = CompressedEdwardsY(*z).decompress().ok_or(CoinError::Form)?;
                // The cofactor removes torsion: a point of small order in Z would be a flag of 3
                // bits (GUARD-27).
                let x = z.mul_by_cofactor() + ED25519_BASEPOINT_TABLE * &*self.0;
                if x.is_identity() {
                    Err(CoinError::Form)
                } else {
                    Ok(x.to_montgomery().to_bytes())
                }
            }
        }
    }
}

impl fmt::Debug for Rho {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Rho")
    }
}

/// The reason why a coin is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CoinError {
    /// The bytes are not the canonical form of a point or scalar.
    #[error("not the canonical form of a point or scalar")]
    Form,
    /// The guard's rho does not match its commitment (GUARD-25).
    #[error("the guard's coin is not the one that it committed to")]
    Commitment,
}

/// The secret `x_c` that a client draws for one slot and stores before it sends Z.
pub struct CoinSecret(Zeroizing<Scalar>);

impl CoinSecret {
    /// Draws `x_c`: 64 random bytes modulo q.
    pub fn random(rng: &mut dyn CryptoRng) -> Self {
        let mut bytes = [0; 64];
        rng.fill_bytes(&mut bytes);
        let secret = Self(Zeroizing::new(reduce_wide(&bytes)));
        bytes.zeroize();
        secret
    }

    /// Reads a stored secret.
    ///
    /// # Errors
    /// [`CoinError::Form`] for values at and above the order.
    pub fn decode(bytes: &[u8; 32]) -> Result<Self, CoinError> {
        Ok(Self(Rho::decode(bytes)?.0))
    }

    /// Encodes the stored form, 32 bytes.
    pub fn encode(&self) -> Secret<32> {
        Secret::init_with(|bytes| *bytes = self.0.to_bytes())
    }

    /// Copies the secret. There is no `Clone`, so that a review sees each copy.
    #[must_use]
    pub fn duplicate(&self) -> Self {
        Self(self.0.clone())
    }

    /// Returns the point Z, 32 bytes.
    pub fn point(&self, encoding: CoinEncoding) -> [u8; 32] {
        match encoding {
            CoinEncoding::Ristretto => (RISTRETTO_BASEPOINT_TABLE * &*self.0).compress().to_bytes(),
            CoinEncoding::X25519 => {
                // The guard multiplies by 8, so the sum belongs to x_c itself.
                let eighth = Zeroizing::new(*self.0 * Scalar::from(8_u8).invert());
                (ED25519_BASEPOINT_TABLE * &*eighth).compress().to_bytes()
            }
        }
    }

    /// Returns the key `x_c + rho`, if rho matches the guard's commitment `h`.
    ///
    /// # Errors
    /// [`CoinError::Commitment`] if rho does not match, [`CoinError::Form`] if the sum is 0.
    pub fn with_coin(
        &self,
        slot: &SlotIndex,
        h: &[u8; 32],
        rho: &Rho,
    ) -> Result<CoinKeyPair, CoinError> {
        // A guard that chose rho after it received Z could choose the key (GUARD-25).
        if !bool::from(rho.commitment(slot).ct_eq(h)) {
            return Err(CoinError::Commitment);
        }
        let x = Zeroizing::new(*self.0 + *rho.0);
        if *x == Scalar::ZERO { Err(CoinError::Form) } else { Ok(CoinKeyPair(x)) }
    }
}

impl fmt::Debug for CoinSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CoinSecret")
    }
}

/// An ephemeral key that guard and client generated together.
pub struct CoinKeyPair(Zeroizing<Scalar>);

/// The order l of the base point, little-endian, 32 bytes.
const ORDER: [u8; 32] = [
    0xed, 0xd3, 0xf5, 0x5c, 0x1a, 0x63, 0x12, 0x58, 0xd6, 0x9c, 0xf7, 0xa2, 0xde, 0xf9, 0xde, 0x14,
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x10,
];

impl CoinKeyPair {
    /// Returns the public key in the encoding of the frame, 32 bytes.
    pub fn public_key(&self, encoding: CoinEncoding) -> [u8; 32] {
        match encoding {
            CoinEncoding::Ristretto => (RISTRETTO_BASEPOINT_TABLE * &*self.0).compress().to_bytes(),
            CoinEncoding::X25519 => (ED25519_BASEPOINT_TABLE * &*self.0).to_montgomery().to_bytes(),
        }
    }

    /// Returns the scalar of ristretto255, for GKX and the variants.
    pub fn scalar(&self) -> &Scalar {
        &self.0
    }

    /// Returns the X25519 shared secret with `their`, 32 bytes. It uses the unclamped ladder over
    /// x' = x + (3x mod 8) l, a multiple of 8 below 2^256. The result agrees with every clamped
    /// peer, and torsion in the peer's point has no effect.
    ///
    /// # Errors
    /// [`ZeroSecret`] if the peer's key has low order.
    pub fn agree_x25519(self, their: &PublicKey) -> Result<Secret<32>, ZeroSecret> {
        self.into_ephemeral().diffie_hellman::<PortableBackend>(their)
    }

    /// Converts the pair into the key of an X25519 exchange, so that a protocol uses it as one that
    /// the device has drawn.
    pub fn into_ephemeral(self) -> EphemeralKey {
        let public = PublicKey(self.public_key(CoinEncoding::X25519));
        let scalar = Secret::copy_from(&multiple_of_eight(&self.0));
        // Joint: clamping would set bits of x' and break the agreement with the wire key.
        EphemeralKey::from_joint_scalar(scalar, public)
    }
}

impl fmt::Debug for CoinKeyPair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CoinKeyPair")
    }
}

/// Returns x + (3x mod 8) l, little-endian. l is 5 modulo 8, so the sum is x + 15 x = 0 modulo 8.
fn multiple_of_eight(x: &Scalar) -> Zeroizing<[u8; 32]> {
    let mut sum = Zeroizing::new(x.to_bytes());
    let times = u16::from((3 * (sum[0] & 7)) & 7);
    let mut carry = 0;
    for (byte, order) in sum.iter_mut().zip(ORDER) {
        carry += u16::from(*byte) + times * u16::from(order);
        *byte = carry.to_le_bytes()[0];
        carry >>= 8;
    }
    sum
}
