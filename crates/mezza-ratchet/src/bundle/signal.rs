//! The prekeys of a device that speaks Signal's formats. Such a bundle has no wire form of its own
//! and no end; its signature covers the signed prekey alone.

use core::fmt;

use mezza_core::{CryptoRng, Suite, Time};

use super::{CheckedBundle, Entry};
use crate::suite::{RatchetSuite, V3};
use crate::wire::proto::KEY_TYPE;
use crate::{BundleError, Identity, IdentityKey, OneTime, keys, xeddsa};

/// What a device of `signal-v3` publishes.
#[derive(Clone)]
pub struct SignalBundle {
    /// The number of the device's install, 1 to 16,380.
    pub registration: u32,
    /// The id of the signed prekey.
    pub spk_id: u32,
    /// The signed prekey, 32 bytes.
    pub spk: [u8; 32],
    /// `XEdDSA` of the device's identity over `05 | spk`, 64 bytes.
    pub signature: [u8; 64],
    /// A one-time prekey, if one is left.
    pub one_time: Option<OneTime>,
}

impl SignalBundle {
    /// Checks the bundle against the identity of its device: the signature, then the keys.
    /// `registration` is the number of our own install, 1 to 16,380, for the first messages.
    pub fn check(
        &self,
        identity: &IdentityKey,
        registration: u32,
    ) -> Result<CheckedBundle, BundleError> {
        self.check_as::<V3>(identity, registration)
    }

    /// [`check`](Self::check) in another suite that speaks the same formats.
    pub fn check_as<S: RatchetSuite>(
        &self,
        identity: &IdentityKey,
        registration: u32,
    ) -> Result<CheckedBundle, BundleError> {
        if !xeddsa::verify_signed::<S::Sig>(identity, &[&[KEY_TYPE], &self.spk], &self.signature) {
            return Err(BundleError::BadSignature);
        }
        keys::usable(&self.spk).map_err(|_| BundleError::BadKey)?;
        let entry = Entry {
            suite: S::ID,
            spk_id: self.spk_id,
            spk: self.spk,
            not_after: u32::MAX,
            signature: self.signature,
        };
        let not_after = Time::from_ms(u64::MAX);
        Ok(CheckedBundle { identity: *identity, list: None, entry, not_after, registration })
    }
}

/// Signs a prekey as Signal's suites do.
pub(crate) fn sign<S: Suite>(
    identity: &Identity,
    spk: &[u8; 32],
    rng: &mut dyn CryptoRng,
) -> [u8; 64] {
    identity.sign::<S::Sig>(&[&[KEY_TYPE], spk], rng)
}

impl fmt::Debug for SignalBundle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SignalBundle")
    }
}
