//! The settings of one round: `config hash 32 | service 1 | round 8 | collect_ms 4 | slots 1 |
//! buckets 4 | policy 2 | n 1 | n x key 32`, 53 + 32 n bytes, signed by every mix.

use alloc::vec::Vec;

use mezza_core::{DecodeError, Reader, Writer, snapshot};

use crate::limits::{BUCKETS_MAX, MIXES_MAX, SLOTS_MAX};
use crate::service::RoundId;
use crate::sign::{self, Purpose, Signature, Signer, VerifyKey};

/// Bytes of settings without their keys.
pub const SETTINGS_HEAD_BYTES: usize = 53;

/// The settings of one round, on which all parties agree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The hash of the config in force, 32 bytes.
    pub config: [u8; 32],
    /// The service and round.
    pub id: RoundId,
    /// Milliseconds for which the entry server collects onions.
    pub collect_ms: u32,
    /// Number of onions of each client.
    pub slots: u8,
    /// Number of buckets of a call or invitation round; 1 for conversations.
    pub buckets: u32,
    /// Index of the service's policy in the config.
    pub policy: u16,
    /// The X25519 round key of each mix, first mix first.
    pub keys: Vec<[u8; 32]>,
}

snapshot!(struct Settings { config, id, collect_ms, slots, buckets, policy, keys });

impl Settings {
    /// Reads settings with exactly as many keys as the count, 1 to 8.
    ///
    /// # Errors
    /// [`DecodeError`] if bytes are missing or a value is outside its limits.
    pub fn read_from(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let config = reader.read_array()?;
        let id = RoundId::read_from(reader)?;
        let collect_ms = reader.read_u32()?;
        let slots = reader.read_u8()?;
        let buckets = reader.read_u32()?;
        let policy = reader.read_u16()?;
        let count = usize::from(reader.read_u8()?);
        let buckets_fit = buckets.is_power_of_two() && buckets <= BUCKETS_MAX;
        let fits = (1..=SLOTS_MAX).contains(&slots) && (1..=MIXES_MAX).contains(&count);
        // Checked before keys are read, so that a peer's count allocates nothing (MIX-12).
        if !fits || !buckets_fit {
            return Err(DecodeError::Value);
        }
        let keys = (0..count).map(|_| reader.read_array()).collect::<Result<_, _>>()?;
        Ok(Self { config, id, collect_ms, slots, buckets, policy, keys })
    }

    /// Decodes settings; bytes after them are refused.
    ///
    /// # Errors
    /// As [`read_from`](Self::read_from).
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        Reader::decode_exact(bytes, Self::read_from)
    }

    /// Encodes the bytes that are sent and signed, 53 + 32 n.
    pub fn encode(&self) -> Vec<u8> {
        let mut writer = Writer::with_capacity(SETTINGS_HEAD_BYTES + 32 * self.keys.len());
        writer.put_bytes(&self.config);
        self.id.write_to(&mut writer);
        writer
            .put_u32(self.collect_ms)
            .put_u8(self.slots)
            .put_u32(self.buckets)
            .put_u16(self.policy);
        writer.put_u8(self.keys.len() as u8);
        self.keys.iter().for_each(|key| {
            writer.put_bytes(key);
        });
        writer.finish()
    }

    /// Signs the settings as a mix.
    pub fn sign(&self, signer: &Signer) -> Signature {
        signer.sign(Purpose::Settings, &[&self.encode()])
    }

    /// Returns true if `key` signed exactly these settings.
    pub fn signed_by(&self, key: &VerifyKey, signature: &Signature) -> bool {
        sign::verify(key, Purpose::Settings, &[&self.encode()], signature)
    }
}

/// Settings with the signatures of all their mixes, as clients get them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignedSettings {
    /// The signed settings.
    pub settings: Settings,
    /// One signature per key of the settings, in their order.
    pub signatures: Vec<Signature>,
    /// Milliseconds until the entry server stops collecting; this hint is not signed.
    pub closes_in_ms: u32,
}

snapshot!(struct SignedSettings { settings, signatures, closes_in_ms });

impl SignedSettings {
    /// Reads settings, one signature per key, and the hint.
    ///
    /// # Errors
    /// As [`Settings::read_from`].
    pub fn read_from(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let settings = Settings::read_from(reader)?;
        let signatures =
            settings.keys.iter().map(|_| reader.read_array()).collect::<Result<_, _>>()?;
        Ok(Self { settings, signatures, closes_in_ms: reader.read_u32()? })
    }

    /// Writes settings, signatures and the hint.
    pub fn write_to(&self, writer: &mut Writer) {
        writer.put_bytes(&self.settings.encode());
        self.signatures.iter().for_each(|signature| {
            writer.put_bytes(signature);
        });
        writer.put_u32(self.closes_in_ms);
    }

    /// Returns true if every mix signed. `mixes` are their identity keys in order.
    pub fn signed_by_all<'a>(&self, mixes: impl ExactSizeIterator<Item = &'a VerifyKey>) -> bool {
        // Fewer signatures than mixes must never verify (MIX-5).
        mixes.len() == self.settings.keys.len()
            && mixes.len() == self.signatures.len()
            && mixes.zip(&self.signatures).all(|(mix, sig)| self.settings.signed_by(mix, sig))
    }
}
