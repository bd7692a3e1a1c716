//! Coins of a guard for the client's own keys (co-random mode): `X = X_c + rho G`, where the guard
//! committed to rho before it saw `X_c`.
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
use curve25519_dalek::montgomery::MontgomeryPoint;
use curve25519_dalek::ristretto::CompressedRistretto;
use curve25519_dalek::scalar::Scalar;
use curve25519_dalek::traits::IsIdentity as _;
use mezza_core::{CryptoRng, PublicKey, Secret, ZeroSecret};
use subtle::ConstantTimeEq as _;
use zeroize::{Zeroize as _, Zeroizing};

use crate::group::reduce_wide;
use crate::keys::{GuardClientId, hmac_sha512, sha256};

/// The purpose of a coin. Others are reserved: 16 X3DH, 17 ratchet key, 18 signed prekey, 19 one-time
/// prekey, 20 signature nonce, 21 onion key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CoinPurpose {
    /// The ephemeral key of a link that this client dials.
    LinkDialling = 1,
    /// The ephemeral key of a link that this client answers.
    LinkAnswering = 2,
}

impl CoinPurpose {
    /// The byte on the wire.
    pub const fn wire_byte(self) -> u8 {
        self as u8
    }

    /// The purpose of a byte.
    pub const fn from_byte(byte: u8) -> Option<Self> {
        match byte {
            1 => Some(Self::LinkDialling),
            2 => Some(Self::LinkAnswering),
            _ => None,
        }
    }
}

/// How a public key stands in the field of a frame, 32 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CoinEncoding {
    /// An element of ristretto255.
    Ristretto,
    /// A u-coordinate of X25519. Z travels as a compressed Edwards point of a eighth of the scalar, and
    /// is multiplied by 8, which removes torsion (GUARD-27).
    X25519,
}

/// The client, purpose and destination of coins: the slot without its counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SlotName {
    /// The client.
    pub client: GuardClientId,
    /// The purpose of the key.
    pub purpose: CoinPurpose,
    /// The destination's number, or `fff0` and the lane of an inbound connection.
    pub dest: u16,
}

/// One coin: its slot and its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SlotIndex {
    /// The slot.
    pub name: SlotName,
    /// The number, from 0 up; it goes up when X was seen on the wire.
    pub index: u64,
}

impl SlotIndex {
    fn to_bytes(self) -> Vec<u8> {
        let Self { name: SlotName { client, purpose, dest }, index } = self;
        [&client.0[..], &[purpose.wire_byte()], &dest.to_be_bytes(), &index.to_be_bytes()].concat()
    }
}

/// The key that all coins of a guard derive from. Losing it costs P5 and P2 of coins to come, never a
/// secret of the user.
pub struct CoinKey(Secret<32>);

/// 32 bytes drawn at each start of a guard: a ledger that was put back draws other coins.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct CoinEra(pub [u8; 32]);

impl fmt::Debug for CoinEra {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CoinEra")
    }
}

impl CoinKey {
    /// The key of stored bytes.
    pub const fn from_secret(secret: Secret<32>) -> Self {
        Self(secret)
    }

    /// The key in force in an era: HMAC-SHA512(CoinKey, "era" | era), the first 32 bytes.
    #[must_use]
    pub fn in_era(&self, era: &CoinEra) -> Self {
        // A ledger that was put back meets another era, so its slots get other coins.
        let mut mac = hmac_sha512(self.0.expose(), &[b"era", &era.0]);
        let key = Secret::init_with(|key| key.copy_from_slice(&mac[..32]));
        mac.zeroize();
        Self(key)
    }

    /// The coin of a slot (GUARD-20: it is fixed by the slot).
    pub fn derive_rho(&self, slot: &SlotIndex) -> Rho {
        let mut mac = hmac_sha512(self.0.expose(), &[b"rho", &slot.to_bytes()]);
        // 64 bytes modulo q, so that the bias stays below 2^-250.
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
    /// [`CoinError::Form`] at and above the order.
    pub fn decode(bytes: &[u8; 32]) -> Result<Self, CoinError> {
        // Scalars have one form: at and above q they are refused (GUARD-2).
        let scalar = Option::from(Scalar::from_canonical_bytes(*bytes)).ok_or(CoinError::Form)?;
        Ok(Self(Zeroizing::new(scalar)))
    }

    /// Its bytes.
    pub fn encode(&self) -> Zeroizing<[u8; 32]> {
        Zeroizing::new(self.0.to_bytes())
    }

    /// h, what the guard commits to before it sees the point.
    pub fn commitment(&self, slot: &SlotIndex) -> [u8; 32] {
        // The slot is bound, so that one coin cannot be shown for another slot.
        sha256(&[b"guard1 coin", &slot.to_bytes(), &*self.encode()])
    }

    /// The public key that a client with point Z must put on the wire.
    ///
    /// # Errors
    /// [`CoinError::Form`] if Z is no point, or the key would be the identity.
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

/// Why a coin is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CoinError {
    /// Not the canonical form of a point or scalar.
    #[error("not the canonical form of a point or scalar")]
    Form,
    /// The guard: rho is not what it committed to (GUARD-25).
    #[error("the guard's coin is not the one that it committed to")]
    Commitment,
}

/// The secret that a client draws for one slot, and stores before it sends Z.
pub struct CoinSecret(Zeroizing<Scalar>);

impl CoinSecret {
    /// A fresh `x_c`: 64 bytes of the generator modulo q.
    pub fn random(rng: &mut dyn CryptoRng) -> Self {
        let mut bytes = [0; 64];
        rng.fill_bytes(&mut bytes);
        let secret = Self(Zeroizing::new(reduce_wide(&bytes)));
        bytes.zeroize();
        secret
    }

    /// Reads a stored one.
    ///
    /// # Errors
    /// [`CoinError::Form`] at and above the order.
    pub fn decode(bytes: &[u8; 32]) -> Result<Self, CoinError> {
        Ok(Self(Rho::decode(bytes)?.0))
    }

    /// Its stored form, 32 bytes.
    pub fn encode(&self) -> Secret<32> {
        Secret::init_with(|bytes| *bytes = self.0.to_bytes())
    }

    /// A second copy, named so that each one is seen in a review.
    #[must_use]
    pub fn duplicate(&self) -> Self {
        Self(self.0.clone())
    }

    /// Z, 32 bytes.
    pub fn point(&self, encoding: CoinEncoding) -> [u8; 32] {
        match encoding {
            CoinEncoding::Ristretto => (RISTRETTO_BASEPOINT_TABLE * &*self.0).compress().to_bytes(),
            CoinEncoding::X25519 => {
                // The guard multiplies by 8, so that the sum belongs to x_c itself.
                let eighth = Zeroizing::new(*self.0 * Scalar::from(8_u8).invert());
                (ED25519_BASEPOINT_TABLE * &*eighth).compress().to_bytes()
            }
        }
    }

    /// The key for the wire: `x_c + rho`, if rho is what the guard committed to as `h`.
    ///
    /// # Errors
    /// [`CoinError::Commitment`] if it is not, [`CoinError::Form`] if the sum is 0.
    pub fn with_coin(
        &self,
        slot: &SlotIndex,
        h: &[u8; 32],
        rho: &Rho,
    ) -> Result<CoinKeyPair, CoinError> {
        // A guard that chose rho after seeing Z would choose the key (GUARD-25).
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

/// An ephemeral key that guard and client made together.
pub struct CoinKeyPair(Zeroizing<Scalar>);

/// The order l of the base point, little-endian, 32 bytes.
const ORDER: [u8; 32] = [
    0xed, 0xd3, 0xf5, 0x5c, 0x1a, 0x63, 0x12, 0x58, 0xd6, 0x9c, 0xf7, 0xa2, 0xde, 0xf9, 0xde, 0x14,
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x10,
];

impl CoinKeyPair {
    /// The public key as it stands in the frame, 32 bytes.
    pub fn public_key(&self, encoding: CoinEncoding) -> [u8; 32] {
        match encoding {
            CoinEncoding::Ristretto => (RISTRETTO_BASEPOINT_TABLE * &*self.0).compress().to_bytes(),
            CoinEncoding::X25519 => (ED25519_BASEPOINT_TABLE * &*self.0).to_montgomery().to_bytes(),
        }
    }

    /// The scalar of ristretto255, for GKX and the variants.
    pub fn scalar(&self) -> &Scalar {
        &self.0
    }

    /// X25519 with `their`, 32 bytes: the unclamped ladder over x' = x + (3x mod 8) l, a multiple of 8
    /// below 2^256. It agrees with every clamped peer, and torsion in the peer's point vanishes.
    ///
    /// # Errors
    /// The peer's key has low order.
    pub fn agree_x25519(self, their: &PublicKey) -> Result<Secret<32>, ZeroSecret> {
        let scalar = multiple_of_eight(&self.0);
        // Unclamped: clamping would set bits of x' and break the agreement with the wire key.
        let bits = (0..256).rev().map(|bit| (scalar[bit / 8] >> (bit % 8)) & 1 == 1);
        let mut shared = MontgomeryPoint(their.0).mul_bits_be(bits);
        let secret = Secret::copy_from(shared.as_bytes());
        shared.zeroize();
        // A zero result means that the peer's key has low order, and anybody knows the secret (RFC
        // 7748).
        if secret == Secret::init_with(|_| {}) { Err(ZeroSecret) } else { Ok(secret) }
    }
}

impl fmt::Debug for CoinKeyPair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CoinKeyPair")
    }
}

/// x + (3x mod 8) l, little-endian. l is 5 modulo 8, so the sum is x + 15 x = 0 modulo 8.
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
