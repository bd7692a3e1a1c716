//! The prekeys of a device that speaks Signal's formats. Such a bundle has no wire form here and no
//! end, and its signature covers only the signed prekey.

use alloc::vec::Vec;
use core::fmt;

use mezza_core::{CryptoRng, PublicKey, Suite, SuiteId, Time};

use super::{CheckedBundle, KemKey, SignedPrekeyEntry};
use crate::suite::{RatchetSuite, V3, V4};
use crate::wire::proto::KEY_TYPE;
use crate::wire::signal::KEM_TYPE;
use crate::{BundleError, IdentityKey, IdentityKeyPair, OneTimePrekey, keys, xeddsa};

/// The bundle that a device of `signal-v3` or `signal-v4` publishes.
#[derive(Clone)]
pub struct SignalBundle {
    /// The registration number of the device's install, 1 to 16,380.
    pub registration: u32,
    /// The id of the signed prekey.
    pub spk_id: u32,
    /// The public signed prekey, 32 bytes.
    pub spk: PublicKey,
    /// `XEdDSA` of the device's identity over `05 | spk`, 64 bytes.
    pub signature: [u8; 64],
    /// A one-time prekey, or `None` if the device has none left.
    pub one_time: Option<OneTimePrekey>,
    /// The KEM key; `None` for a device that does not speak `signal-v4`.
    pub kem: Option<SignalKem>,
}

/// The KEM key in a bundle of a device that speaks `signal-v4`.
#[derive(Clone)]
pub struct SignalKem {
    /// The id of the KEM key.
    pub id: u32,
    /// The public key of Kyber1024, 1,568 bytes, without the type byte in front.
    pub key: Vec<u8>,
    /// `XEdDSA` of the device's identity over `08 | key`, 64 bytes.
    pub signature: [u8; 64],
}

impl SignalBundle {
    /// Checks the bundle of a device that speaks `suite`, which is `signal-v3` or `signal-v4` (any
    /// other suite gives `Malformed`), against the identity of the device. The checks are, in this
    /// order: the KEM key is present if the suite needs one, the signatures, the keys. The caller
    /// names the suite, because a server could remove the KEM key to choose `signal-v3`.
    /// `registration` is the number of our own install, 1 to 16,380, for the first messages.
    pub fn check(
        &self,
        suite: SuiteId,
        identity: &IdentityKey,
        registration: u32,
    ) -> Result<CheckedBundle, BundleError> {
        match suite {
            V4::ID => self.check_as::<V4>(identity, registration),
            V3::ID => self.check_as::<V3>(identity, registration),
            _ => Err(BundleError::Malformed),
        }
    }

    /// Does the same as [`check`](Self::check) for the suite `S`, which must use Signal's formats.
    pub fn check_as<S: RatchetSuite>(
        &self,
        identity: &IdentityKey,
        registration: u32,
    ) -> Result<CheckedBundle, BundleError> {
        if S::KEM.is_some() && self.kem.is_none() {
            return Err(BundleError::NoKem);
        }
        if !xeddsa::verify_signed::<S::SignatureHash>(
            identity,
            &[&[KEY_TYPE], &self.spk.0],
            &self.signature,
        ) {
            return Err(BundleError::BadSignature);
        }
        let kem = self.kem.as_ref().filter(|_| S::KEM.is_some());
        let kem = kem.map(|kem| kem.check_key::<S>(identity)).transpose()?;
        keys::check_usable(&self.spk).map_err(|_| BundleError::BadKey)?;
        let entry = SignedPrekeyEntry {
            suite: S::ID,
            spk_id: self.spk_id,
            spk: self.spk,
            not_after: u32::MAX,
            signature: self.signature,
            kem,
        };
        let not_after = Time::from_ms(u64::MAX);
        Ok(CheckedBundle { identity: *identity, lists: None, entry, not_after, registration })
    }
}

impl SignalKem {
    fn check_key<S: Suite>(&self, identity: &IdentityKey) -> Result<KemKey, BundleError> {
        if !xeddsa::verify_signed::<S::SignatureHash>(
            identity,
            &[&[KEM_TYPE], &self.key],
            &self.signature,
        ) {
            return Err(BundleError::BadSignature);
        }
        Ok(KemKey { id: self.id, key: self.key.clone() })
    }
}

/// Signs the public signed prekey as Signal's suites do.
pub(crate) fn sign_prekey(
    identity: &IdentityKeyPair,
    spk: &PublicKey,
    rng: &mut dyn CryptoRng,
) -> [u8; 64] {
    identity.sign::<<V3 as Suite>::SignatureHash>(&[&[KEY_TYPE], &spk.0], rng)
}

/// Signs the public KEM key as Signal's suites do.
pub(crate) fn sign_kem(
    identity: &IdentityKeyPair,
    key: &[u8],
    rng: &mut dyn CryptoRng,
) -> [u8; 64] {
    identity.sign::<<V4 as Suite>::SignatureHash>(&[&[KEM_TYPE], key], rng)
}

impl fmt::Debug for SignalKem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SignalKem")
    }
}

impl fmt::Debug for SignalBundle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SignalBundle")
    }
}
