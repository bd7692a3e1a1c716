//! Key encapsulation that a handshake adds to its DHs. An attacker who records the handshake today
//! cannot read it later with a quantum computer.

use alloc::vec::Vec;

use libcrux_ml_kem::mlkem1024::{MlKem1024KeyPair, MlKem1024PublicKey};
use libcrux_ml_kem::{kyber1024, mlkem1024};
use mezza_core::Secret;
use zeroize::Zeroize;

/// Bytes of a public key of either KEM.
pub const KEM_KEY_BYTES: usize = 1_568;
/// Bytes of a ciphertext of either KEM.
pub const KEM_CIPHERTEXT_BYTES: usize = 1_568;
/// Bytes of the seed that a key pair is made from.
pub const KEM_SEED_BYTES: usize = 64;

/// The kinds of key encapsulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kem {
    /// ML-KEM-1024 (FIPS 203).
    MlKem1024,
    /// Kyber1024 as submitted to round 3 of the NIST competition; Signal uses this version.
    Kyber1024,
}

impl Kem {
    /// Returns the public key of a seed, 1,568 bytes. Key pairs are stored as seeds.
    pub fn public_key(self, seed: &Secret<KEM_SEED_BYTES>) -> Vec<u8> {
        self.expand_pair(seed).pk().to_vec()
    }

    /// Returns a ciphertext and a shared secret for a public key, made with 32 fresh bytes; `None`
    /// if the key is malformed.
    pub fn encapsulate(self, key: &[u8], coins: &Secret<32>) -> Option<(Vec<u8>, Secret<32>)> {
        let key: MlKem1024PublicKey = key.try_into().ok()?;
        if !mlkem1024::validate_public_key(&key) {
            return None;
        }
        let (ciphertext, mut shared) = match self {
            Self::MlKem1024 => mlkem1024::encapsulate(&key, *coins.expose()),
            Self::Kyber1024 => kyber1024::encapsulate(&key, *coins.expose()),
        };
        let secret = Secret::copy_from(&shared);
        shared.zeroize();
        Some((ciphertext.as_slice().to_vec(), secret))
    }

    /// Returns the public key of a seed and the shared secret of a ciphertext. The secret is a
    /// different one if the ciphertext was made for another key. `None` if the ciphertext has a
    /// wrong length.
    pub fn decapsulate(
        self,
        seed: &Secret<KEM_SEED_BYTES>,
        ciphertext: &[u8],
    ) -> Option<(Vec<u8>, Secret<32>)> {
        let ciphertext = ciphertext.try_into().ok()?;
        let pair = self.expand_pair(seed);
        let mut shared = match self {
            Self::MlKem1024 => mlkem1024::decapsulate(pair.private_key(), &ciphertext),
            Self::Kyber1024 => kyber1024::decapsulate(pair.private_key(), &ciphertext),
        };
        let secret = Secret::copy_from(&shared);
        shared.zeroize();
        Some((pair.pk().to_vec(), secret))
    }

    fn expand_pair(self, seed: &Secret<KEM_SEED_BYTES>) -> MlKem1024KeyPair {
        match self {
            Self::MlKem1024 => mlkem1024::generate_key_pair(*seed.expose()),
            Self::Kyber1024 => kyber1024::generate_key_pair(*seed.expose()),
        }
    }
}
