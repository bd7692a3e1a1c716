//! Signatures of servers and guardians: Ed25519 (RFC 8032) over `label | 0x00 | bytes`.

use alloc::vec::Vec;
use core::fmt;

use ed25519_dalek::{Signer as _, SigningKey, VerifyingKey};
use mezza_core::{Secret, Wiping, snapshot};

/// An Ed25519 public key: the identity of a server or guardian, 32 bytes.
pub type VerifyKey = [u8; 32];
/// An Ed25519 signature, 64 bytes.
pub type Signature = [u8; 64];

/// The purpose of a signature. A signature for one purpose is invalid for another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// The settings of a round, by each mix.
    Settings,
    /// The early end of a round, by the server that ended it.
    Abort,
    /// Traps that did not return, by the mix that set them.
    Alarm,
    /// The manifest of the buckets of a round, by the last mix.
    Bucket,
    /// A config, by a guardian.
    Config,
}

impl Purpose {
    const fn label(self) -> &'static [u8] {
        match self {
            Self::Settings => b"mezza/sign settings",
            Self::Abort => b"mezza/sign abort",
            Self::Alarm => b"mezza/sign alarm",
            Self::Bucket => b"mezza/sign bucket",
            Self::Config => b"mezza/sign config",
        }
    }

    fn signed_message(self, parts: &[&[u8]]) -> Vec<u8> {
        let mut message = Vec::with_capacity(32 + parts.iter().map(|p| p.len()).sum::<usize>());
        message.extend_from_slice(self.label());
        // The zero ends the label, so that no purpose is a prefix of another one.
        message.push(0);
        for part in parts {
            message.extend_from_slice(part);
        }
        message
    }
}

/// A private signing key, wiped on drop. `Debug` shows nothing of it.
pub struct Signer(SigningKey);

snapshot!(struct Signer(key => Wiping::new(key.to_bytes())));

impl Signer {
    /// Derives the key from a seed of 32 bytes (RFC 8032, section 5.1.5).
    pub fn from_seed(seed: &Secret<32>) -> Self {
        Self(SigningKey::from_bytes(seed.expose()))
    }

    /// Returns the public key, 32 bytes.
    pub fn public_key(&self) -> VerifyKey {
        self.0.verifying_key().to_bytes()
    }

    /// Signs the concatenation of `parts` for one purpose.
    pub fn sign(&self, purpose: Purpose, parts: &[&[u8]]) -> Signature {
        self.0.sign(&purpose.signed_message(parts)).to_bytes()
    }
}

impl fmt::Debug for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Signer")
    }
}

/// Returns true if `key` signed `parts` for this purpose. Keys of low order and signatures that are not
/// canonical are refused.
pub fn verify(key: &VerifyKey, purpose: Purpose, parts: &[&[u8]], signature: &Signature) -> bool {
    let signature = ed25519_dalek::Signature::from_bytes(signature);
    VerifyingKey::from_bytes(key)
        // Verification is strict, because one signature must not verify under several keys or in
        // several encodings.
        .is_ok_and(|key| key.verify_strict(&purpose.signed_message(parts), &signature).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;

    #[test]
    fn a_signature_serves_one_purpose_one_key_and_one_text() {
        let signer = Signer::from_seed(&Secret::init_with(|s| s.fill(7)));
        let other = Signer::from_seed(&Secret::init_with(|s| s.fill(8)));
        let signature = signer.sign(Purpose::Abort, &[b"a", b"b"]);
        assert!(verify(&signer.public_key(), Purpose::Abort, &[b"ab"], &signature));
        assert!(!verify(&signer.public_key(), Purpose::Alarm, &[b"ab"], &signature));
        assert!(!verify(&signer.public_key(), Purpose::Abort, &[b"ac"], &signature));
        assert!(!verify(&other.public_key(), Purpose::Abort, &[b"ab"], &signature));
        assert!(!verify(&[0; 32], Purpose::Abort, &[b"ab"], &[0; 64]));
        assert_eq!(format!("{signer:?}"), "Signer");
    }
}
