//! Prekey bundles: the signed prekeys that a responder publishes, and the checks that an initiator
//! makes before he uses a bundle.
//!
//! ```text
//! Bundle -check(IK and list of the card, now)-> CheckedBundle -initiate-> Session (pending), Exporter
//!
//! bundle  01 | list | entries u8 | entry ..            entries in the order of the list
//! entry   suite u16 | len u16 | spk_id u32 | SPK[32] | not_after u32 (minutes) | sig[64]
//!            [| kem_id u32 | kem key[1568]]
//! sig     XEdDSA of "b2c20 bundle 1" | suite | B_32("", "b2c20 list", list) | spk_id | SPK | not_after
//!            [| kem_id | kem key]
//! ```

use alloc::vec::Vec;
use core::fmt;

use mezza_core::{
    Backend, CryptoRng, DecodeError, EphemeralKey, PublicKey, Reader, Suite, SuiteId, Time, Writer,
    snapshot,
};

use crate::suite::{self, B2c20, is_container, of_suite};
use crate::{BundleError, Exporter, IdentityKey, IdentityKeyPair, Session, SuiteList, keys, x3dh};

mod entry;
pub mod signal;

pub(crate) use entry::{KemKey, SignedPrekeyEntry};

pub use signal::{SignalBundle, SignalKem};

const VERSION: u8 = 1;
/// An expired bundle is accepted for 1 day after its end, because the clocks of two devices differ.
const CLOCK_ERROR_MS: u64 = Time::DAY_MS;
/// The largest id of a prekey: 2^24 - 2.
pub(crate) const PREKEY_ID_MAX: u32 = 16_777_214;

/// A one-time prekey as it travels beside a bundle: `id u32 | key[32]`, 36 bytes, unsigned.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct OneTimePrekey {
    /// The id: 1 to 16,777,214; up to 2^32 - 1 if the key comes from a device of Signal.
    pub id: u32,
    /// The public X25519 key, 32 bytes.
    pub key: PublicKey,
}

snapshot!(struct OneTimePrekey { id, key });

impl OneTimePrekey {
    /// Bytes of an encoded one-time prekey.
    pub const BYTES: usize = 36;

    /// Decodes 36 bytes. Returns an error for an id out of range, and for a key that is not
    /// canonical or has low order.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let decoded = Reader::decode_exact(bytes, |reader| {
            Ok::<_, DecodeError>(Self {
                id: reader.read_u32()?,
                key: PublicKey::read_from(reader)?,
            })
        })?;
        decoded.check_fields()?;
        Ok(decoded)
    }

    /// Returns the wire form, `id u32 | key[32]`, 36 bytes.
    pub fn encode(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..4].copy_from_slice(&self.id.to_be_bytes());
        bytes[4..].copy_from_slice(&self.key.0);
        bytes
    }

    fn check_fields(&self) -> Result<(), DecodeError> {
        self.check_in(B2c20::ID).map_err(|_| DecodeError::Value)
    }

    /// Checks that a session of `suite` may begin with this key. In container suites the id is 1 to
    /// 16,777,214, and an id of 0 in a message means that no one-time key was used. Devices of
    /// Signal give ids of 32 bits.
    pub(crate) fn check_in(&self, suite: SuiteId) -> Result<(), BundleError> {
        let id_max = if is_container(suite) { PREKEY_ID_MAX } else { u32::MAX };
        if !(1..=id_max).contains(&self.id) {
            return Err(BundleError::BadId(self.id));
        }
        keys::check_usable(&self.key).map_err(|_| BundleError::BadKey)
    }
}

impl fmt::Debug for OneTimePrekey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OneTimePrekey")
    }
}

/// Encodes a bundle: version, suite list, number of entries, entries.
pub(crate) fn encode<'a>(
    list: &SuiteList,
    entries: impl ExactSizeIterator<Item = &'a SignedPrekeyEntry>,
) -> Vec<u8> {
    let mut writer = Writer::new();
    writer.put_u8(VERSION);
    list.write_to(&mut writer);
    writer.put_u8(entries.len() as u8);
    for entry in entries {
        entry.write_to(&mut writer);
    }
    writer.finish()
}

/// A bundle that was decoded, with no signature or key checked yet.
pub struct Bundle {
    list: SuiteList,
    /// The entries of the suites that this version knows.
    entries: Vec<SignedPrekeyEntry>,
}

impl Bundle {
    /// Decodes a bundle. Entries of unknown suites are skipped. The only error is `Malformed`.
    pub fn decode(bytes: &[u8]) -> Result<Self, BundleError> {
        Reader::decode_exact(bytes, |reader| {
            if reader.read_u8()? != VERSION {
                return Err(BundleError::Malformed);
            }
            let list = SuiteList::read_from(reader)?;
            let count = usize::from(reader.read_u8()?);
            if count == 0 || count > list.ids().len() {
                return Err(BundleError::Malformed);
            }
            // Each entry must stand later in the list than the entry before, so the order is that
            // of the list.
            let mut ids = list.ids().iter();
            let mut entries = Vec::with_capacity(count);
            for _ in 0..count {
                let suite = SuiteId(reader.read_u16()?);
                let body = reader.read_var16()?;
                ids.find(|id| **id == suite).ok_or(BundleError::Malformed)?;
                if suite::is_known(suite) {
                    entries.push(Reader::decode_exact(body, |reader| {
                        SignedPrekeyEntry::read_from(reader, suite)
                    })?);
                }
            }
            Ok(Self { list, entries })
        })
    }

    /// Returns the suites that the bundle offers.
    pub fn list(&self) -> &SuiteList {
        &self.list
    }

    /// Checks the bundle against the identity and the suite list of the contact's card, in this
    /// order: suites, end, signature, keys. A bundle with unexpected suites is therefore never
    /// reported as a forged signature.
    pub fn check(
        self,
        identity: &IdentityKey,
        floor: &SuiteList,
        now: Time,
    ) -> Result<CheckedBundle, BundleError> {
        self.check_with(&SuiteList::our_suites(), identity, floor, now)
    }

    /// Does the same as [`check`](Self::check) for an initiator who offers the suites `ours`.
    /// `ours` is [`SuiteList::without_kem`] if the first messages have no room for a KEM
    /// ciphertext.
    pub fn check_with(
        self,
        ours: &SuiteList,
        identity: &IdentityKey,
        floor: &SuiteList,
        now: Time,
    ) -> Result<CheckedBundle, BundleError> {
        let downgrade = BundleError::SuiteDowngrade { offered: self.list, pinned: *floor };
        if !self.list.covers_floor(floor) {
            return Err(downgrade);
        }
        let suite = ours
            .best_common(&self.list)
            .ok_or(BundleError::NoCommonSuite { offered: self.list, ours: *ours })?;
        let entry = self.entries.into_iter().find(|e| e.suite == suite).ok_or(downgrade)?;
        let not_after = Time::from_ms(u64::from(entry.not_after) * Time::MINUTE_MS);
        if now > not_after.plus_ms(CLOCK_ERROR_MS) {
            return Err(BundleError::Expired);
        }
        if !entry.verify(identity, &self.list) {
            return Err(BundleError::BadSignature);
        }
        keys::check_usable(&entry.spk).map_err(|_| BundleError::BadKey)?;
        let lists = Some((*ours, self.list));
        Ok(CheckedBundle { identity: *identity, lists, entry, not_after, registration: 0 })
    }
}

impl fmt::Debug for Bundle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Bundle")
    }
}

/// A bundle that passed every check.
pub struct CheckedBundle {
    identity: IdentityKey,
    /// In a container suite, our suite list and the list of the bundle.
    lists: Option<(SuiteList, SuiteList)>,
    entry: SignedPrekeyEntry,
    not_after: Time,
    /// The registration number of our own install, sent in first messages of Signal's formats.
    registration: u32,
}

impl CheckedBundle {
    /// Returns the time at which the bundle ends. A bundle of Signal has no end; for such a bundle
    /// this is the largest `Time`.
    pub fn not_after(&self) -> Time {
        self.not_after
    }

    /// Returns the public signed prekey, 32 bytes.
    pub fn spk(&self) -> &PublicKey {
        &self.entry.spk
    }

    /// Returns the id of the signed prekey.
    pub fn spk_id(&self) -> u32 {
        self.entry.spk_id
    }

    /// Returns the suite of a session that is started from this bundle.
    pub fn suite(&self) -> SuiteId {
        self.entry.suite
    }

    /// Returns the identity that signed the bundle.
    pub fn identity(&self) -> &IdentityKey {
        &self.identity
    }

    pub(crate) fn our_suites(&self) -> Option<&SuiteList> {
        self.lists.as_ref().map(|(ours, _)| ours)
    }

    pub(crate) fn their_suites(&self) -> Option<&SuiteList> {
        self.lists.as_ref().map(|(_, theirs)| theirs)
    }

    pub(crate) fn kem(&self) -> Option<&KemKey> {
        self.entry.kem.as_ref()
    }

    pub(crate) fn registration(&self) -> u32 {
        self.registration
    }

    /// Runs X3DH as the initiator. `ephemeral` is the base key EK. A post-quantum suite draws 32
    /// bytes of `rng` for its encapsulation. Hand the session to
    /// [`Conversation::add_session`](crate::Conversation::add_session) before sealing; the session
    /// then sends first messages until a reply was opened.
    pub fn initiate_session<B: Backend>(
        self,
        identity: &IdentityKeyPair,
        ephemeral: EphemeralKey,
        one_time: Option<OneTimePrekey>,
        rng: &mut dyn CryptoRng,
    ) -> Result<(Session<B>, Exporter), BundleError> {
        of_suite!(self.suite(), S => {
            let begun = x3dh::initiate_session::<S, B>(&self, identity, ephemeral, one_time, rng)?;
            Ok((begun.0.into(), begun.1))
        }, else Err(BundleError::Malformed))
    }
}

impl fmt::Debug for CheckedBundle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CheckedBundle")
    }
}
