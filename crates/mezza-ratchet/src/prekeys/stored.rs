//! The state and the stored form of prekeys.
//!
//! ```text
//! SPK   01 | suite u16 | id u32 | made u32 | list | kind u8 | scalar[32] | public[32] | sig[64]
//!          [| kem_id u32 | seed[64] [| sig of the KEM key[64], outside 0x01xx]]
//! OPK   02 | id u32 | made u32 | kind u8 | scalar[32] | public[32]
//! seen  03 | spk_id u32 | B_16("", "b2c20 seen", EK)
//! ```
//! The list of a suite outside 0x01xx is 00. `made` counts minutes since 1970. Kind 00 is a plain
//! scalar. Kind 01 (a coin) is refused when read, because clamping would change the scalar.

use alloc::vec::Vec;

use mezza_core::{
    CryptoRng, DecodeError, PublicKey, Reader, Secret, StaticKey, SuiteId, Time, Writer, blake2b,
    snapshot,
};

use super::{BUNDLE_VALID_D, WIPE_D};
use crate::bundle::{KemKey, PREKEY_ID_MAX, SignalBundle, SignalKem, SignedPrekeyEntry, signal};
use crate::suite::kem::KEM_SEED_BYTES;
use crate::suite::{self, is_container};
use crate::{Changes, IdentityKeyPair, OneTimePrekey, SuiteList, Table};

const SPK: u8 = 1;
const OPK: u8 = 2;
const SEEN: u8 = 3;

/// The kind of a plain scalar; no row has another kind so far.
const PLAIN: u8 = 0;

fn time_from_minutes(made: u32) -> Time {
    Time::from_ms(u64::from(made) * Time::MINUTE_MS)
}

/// A signed prekey as it is stored.
pub(super) struct StoredSignedPrekey {
    pub(super) suite: SuiteId,
    pub(super) id: u32,
    /// The creation time in minutes since 1970.
    pub(super) made: u32,
    /// The suite list of the bundle for which the prekey was signed; `None` outside the container
    /// suites.
    pub(super) list: Option<SuiteList>,
    pub(super) pair: StaticKey,
    signature: [u8; 64],
    /// The KEM key; present only in a post-quantum suite.
    pub(super) kem: Option<KemPair>,
}

snapshot!(struct StoredSignedPrekey { suite, id, made, list, pair, signature, kem });

/// A KEM key, stored as its seed.
pub(super) struct KemPair {
    pub(super) id: u32,
    pub(super) seed: Secret<KEM_SEED_BYTES>,
    /// The signature over the public KEM key; present only in Signal's suites.
    signature: Option<[u8; 64]>,
}

snapshot!(struct KemPair { id, seed, signature });

impl KemPair {
    fn draw(rng: &mut dyn CryptoRng) -> Self {
        Self { id: drawn_id(rng), seed: Secret::random(rng), signature: None }
    }

    fn read_from(reader: &mut Reader<'_>, suite: SuiteId) -> Result<Option<Self>, DecodeError> {
        if suite::kem(suite).is_none() {
            return Ok(None);
        }
        let id = reader.read_u32()?;
        let seed = Secret::read_from(reader)?;
        let signature = if is_container(suite) { None } else { Some(reader.read_array()?) };
        Ok(Some(Self { id, seed, signature }))
    }

    fn write_to(&self, writer: &mut Writer) {
        writer.put_u32(self.id).put_bytes(self.seed.expose());
        if let Some(signature) = &self.signature {
            writer.put_bytes(signature);
        }
    }
}

impl StoredSignedPrekey {
    /// Makes a prekey without a signature.
    pub(super) const fn new(
        suite: SuiteId,
        id: u32,
        pair: StaticKey,
        list: Option<SuiteList>,
        made: u32,
    ) -> Self {
        Self { suite, id, made, list, pair, signature: [0; 64], kem: None }
    }

    /// Signs the prekey. If the suite has a KEM, a KEM seed and id are drawn and signed too.
    pub(super) fn sign(self, identity: &IdentityKeyPair, rng: &mut dyn CryptoRng) -> Self {
        let kem = suite::kem(self.suite).map(|_| KemPair::draw(rng));
        let mut spk = Self { kem, ..self };
        spk.signature = match &spk.list {
            Some(list) => spk.bundle_entry().sign(identity, list, rng),
            None => signal::sign_prekey(identity, spk.pair.public_key(), rng),
        };
        let key = spk.kem_key().filter(|_| spk.list.is_none());
        if let (Some(kem), Some(KemKey { key, .. })) = (&mut spk.kem, key) {
            kem.signature = Some(signal::sign_kem(identity, &key, rng));
        }
        spk
    }

    /// Returns the entry of this prekey in a bundle.
    pub(super) fn bundle_entry(&self) -> SignedPrekeyEntry {
        SignedPrekeyEntry {
            suite: self.suite,
            spk_id: self.id,
            spk: *self.pair.public_key(),
            not_after: bundle_end(self.made),
            signature: self.signature,
            kem: self.kem_key(),
        }
    }

    /// Returns the bundle of a device of Signal, without a one-time key.
    pub(super) fn signal_bundle(&self, registration: u32) -> SignalBundle {
        let signature = self.kem.as_ref().and_then(|kem| kem.signature);
        let kem = self.kem_key().zip(signature);
        SignalBundle {
            registration,
            spk_id: self.id,
            spk: *self.pair.public_key(),
            signature: self.signature,
            one_time: None,
            kem: kem.map(|(KemKey { id, key }, signature)| SignalKem { id, key, signature }),
        }
    }

    fn kem_key(&self) -> Option<KemKey> {
        let (kind, pair) = suite::kem(self.suite).zip(self.kem.as_ref())?;
        Some(KemKey { id: pair.id, key: kind.public_key(&pair.seed) })
    }

    pub(super) fn made_at(&self) -> Time {
        time_from_minutes(self.made)
    }

    pub(super) fn not_after(&self) -> Time {
        time_from_minutes(bundle_end(self.made))
    }

    pub(super) fn wiped_at(&self) -> Time {
        self.made_at().plus_ms(WIPE_D * Time::DAY_MS)
    }

    pub(super) fn record_row(&self, changes: &mut Changes) {
        let mut writer = Writer::with_capacity(160);
        writer.put_u8(SPK).put_u16(self.suite.0).put_u32(self.id).put_u32(self.made);
        match &self.list {
            Some(list) => list.write_to(&mut writer),
            None => {
                writer.put_u8(0);
            }
        }
        write_pair(&mut writer, &self.pair);
        writer.put_bytes(&self.signature);
        if let Some(kem) = &self.kem {
            kem.write_to(&mut writer);
        }
        changes.put_row(Table::Spk, row_key(self.id), writer.finish());
    }

    pub(super) fn decode(row: &[u8], value: &[u8]) -> Result<Self, DecodeError> {
        let spk = Reader::decode_exact(value, |reader| {
            expect_version(reader, SPK)?;
            let suite = SuiteId(reader.read_u16()?);
            Ok::<_, DecodeError>(Self {
                suite,
                id: reader.read_u32()?,
                made: reader.read_u32()?,
                list: read_list(reader)?,
                pair: read_pair(reader)?,
                signature: reader.read_array()?,
                kem: KemPair::read_from(reader, suite)?,
            })
        })?;
        let fits = match &spk.list {
            Some(list) => list.has_suite(spk.suite),
            None => suite::is_known(spk.suite) && !is_container(spk.suite),
        };
        let sound = row == row_key(spk.id) && fits;
        if sound { Ok(spk) } else { Err(DecodeError::Value) }
    }
}

/// Reads a suite list, or one byte 00, which stands for no list.
fn read_list(reader: &mut Reader<'_>) -> Result<Option<SuiteList>, DecodeError> {
    if reader.peek().first() == Some(&0) {
        reader.read_u8()?;
        return Ok(None);
    }
    SuiteList::read_from(reader).map(Some)
}

/// Returns the end of a bundle in minutes since 1970: 14 days after `made`.
fn bundle_end(made: u32) -> u32 {
    made.saturating_add((BUNDLE_VALID_D * 24 * 60) as u32)
}

/// A one-time prekey as it is stored.
pub(super) struct StoredOneTimePrekey {
    pub(super) id: u32,
    /// The creation time in minutes since 1970.
    pub(super) made: u32,
    pub(super) pair: StaticKey,
}

snapshot!(struct StoredOneTimePrekey { id, made, pair });

impl StoredOneTimePrekey {
    pub(super) fn one_time(&self) -> OneTimePrekey {
        OneTimePrekey { id: self.id, key: *self.pair.public_key() }
    }

    pub(super) fn wiped_at(&self) -> Time {
        time_from_minutes(self.made).plus_ms(WIPE_D * Time::DAY_MS)
    }

    pub(super) fn record_row(&self, changes: &mut Changes) {
        let mut writer = Writer::with_capacity(74);
        writer.put_u8(OPK).put_u32(self.id).put_u32(self.made);
        write_pair(&mut writer, &self.pair);
        changes.put_row(Table::Opk, row_key(self.id), writer.finish());
    }

    pub(super) fn decode(row: &[u8], value: &[u8]) -> Result<Self, DecodeError> {
        let opk = Reader::decode_exact(value, |reader| {
            expect_version(reader, OPK)?;
            let id = reader.read_u32()?;
            let made = reader.read_u32()?;
            Ok::<_, DecodeError>(Self { id, made, pair: read_pair(reader)? })
        })?;
        if row == row_key(opk.id) && opk.id != 0 { Ok(opk) } else { Err(DecodeError::Value) }
    }
}

/// Draws a random id. Counted ids would tell everyone who has the card how many people wrote to
/// this device.
pub(super) fn drawn_id(rng: &mut dyn CryptoRng) -> u32 {
    (rng.next_u64() % u64::from(PREKEY_ID_MAX)) as u32 + 1
}

/// Returns the key of a prekey's row, 4 bytes.
pub(super) fn row_key(id: u32) -> Vec<u8> {
    id.to_be_bytes().to_vec()
}

/// Returns the digest under which a base key is remembered, 16 bytes.
pub(super) fn seen_hash(PublicKey(base): &PublicKey) -> [u8; 16] {
    let mut hash = [0; 16];
    blake2b(&mut hash, &[], "b2c20 seen", &[base]);
    hash
}

/// Returns the key of a base key's row: `spk_id u32 | digest[16]`, 20 bytes.
pub(super) fn seen_key(spk_id: u32, hash: &[u8; 16]) -> Vec<u8> {
    let mut writer = Writer::with_capacity(20);
    writer.put_u32(spk_id).put_bytes(hash);
    writer.finish()
}

pub(super) fn put_seen(spk_id: u32, hash: &[u8; 16], changes: &mut Changes) {
    let mut writer = Writer::with_capacity(21);
    writer.put_u8(SEEN).put_u32(spk_id).put_bytes(hash);
    changes.put_row(Table::Seen, seen_key(spk_id, hash), writer.finish());
}

pub(super) fn decode_seen(row: &[u8], value: &[u8]) -> Result<(u32, [u8; 16]), DecodeError> {
    let (spk_id, hash) = Reader::decode_exact(value, |reader| {
        expect_version(reader, SEEN)?;
        Ok::<_, DecodeError>((reader.read_u32()?, reader.read_array()?))
    })?;
    if row == seen_key(spk_id, &hash) { Ok((spk_id, hash)) } else { Err(DecodeError::Value) }
}

fn expect_version(reader: &mut Reader<'_>, version: u8) -> Result<(), DecodeError> {
    if reader.read_u8()? == version { Ok(()) } else { Err(DecodeError::Value) }
}

fn write_pair(writer: &mut Writer, pair: &StaticKey) {
    writer.put_u8(PLAIN).put_bytes(pair.scalar().expose()).put_bytes(&pair.public_key().0);
}

fn read_pair(reader: &mut Reader<'_>) -> Result<StaticKey, DecodeError> {
    expect_version(reader, PLAIN)?;
    let scalar = Secret::read_from(reader)?;
    Ok(StaticKey::from_stored(scalar, PublicKey::read_from(reader)?))
}
