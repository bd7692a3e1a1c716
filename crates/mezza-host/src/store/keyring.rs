//! The keyring: one key for each bucket, in one small file of two slots (module `slots`), which are
//! overwritten in place (VAULT-16). Each slot holds
//!
//! ```text
//! generation u64 | nonce[24] | XChaCha20-Poly1305(ring key, n u16 | n * (bucket u32 | key[32]))
//! ring key = keyed BLAKE2b-256(MK, "mezza/vault/ring")
//! additional data = "mezza/ring" | generation u64
//! ```
//!
//! A file of an older version is only these bytes. It is converted to slots when it is read, and
//! its old bytes are overwritten.
//!
//! Erasing a key erases all records of its bucket, in all copies. The database stores the
//! generation and the file's tag, so that an older keyring, or one of a diverged copy of the vault,
//! is detected. It stores only generations that are certainly on the disk (MSG-60). A failed write
//! uses its number up and is repeated later; work without new keys continues meanwhile.

use std::collections::BTreeMap;
use std::path::PathBuf;

use mezza_core::{CryptoRng, DecodeError, Reader, Secret, Time, Wiping, Writer};

use super::aead::{self, NONCE_BYTES, SEAL_BYTES, TAG_BYTES};
use super::bucket::RetentionCode;
use super::head::MasterKey;
use crate::api::{Exit, Fault};
use crate::process::home::private;
use crate::process::slots::{self, SlotFile};

/// Maximum number of keys: the stored count has 16 bits.
pub(crate) const KEYS_MAX: usize = u16::MAX as usize;
/// Bytes of one entry.
const ENTRY_BYTES: usize = 36;
/// Maximum size of the file.
const FILE_BYTES_MAX: usize = 8 + SEAL_BYTES + 2 + KEYS_MAX * ENTRY_BYTES;
/// The label before the additional data.
const AAD_LABEL: &[u8] = b"mezza/ring";
/// The purpose of the ring key.
const PURPOSE: &str = "mezza/vault/ring";

/// The bucket keys of a vault, and their file.
pub struct Keyring {
    path: PathBuf,
    /// The file; `None` before the first write, and after a failure that left its form unknown.
    file: Option<SlotFile>,
    ring_key: Secret<32>,
    /// The highest generation that a write has used.
    used: u64,
    /// The highest generation whose write succeeded. If it is below `used`, the content of the file
    /// is unknown.
    written: u64,
    /// The tag of that generation's file: its last bytes.
    tag: [u8; TAG_BYTES],
    keys: BTreeMap<RetentionCode, Secret<32>>,
}

impl Keyring {
    /// Makes an empty keyring of generation 0, not yet written.
    pub fn new(path: PathBuf, master: &MasterKey) -> Self {
        let ring_key = master.derive(PURPOSE);
        Self {
            path,
            file: None,
            ring_key,
            used: 0,
            written: 0,
            tag: [0; TAG_BYTES],
            keys: BTreeMap::new(),
        }
    }

    /// Reads the file, and finishes a [`Keyring::write`] that a crash interrupted. The vault opens
    /// even if the disk refuses that, for example a full one: the next write repeats it.
    pub fn read(path: PathBuf, master: &MasterKey) -> Result<Self, Fault> {
        private::sweep_leftover(&path)?;
        let file = SlotFile::open_any(&path)?;
        let bytes = match &file {
            Some(file) => file.read().map_err(|_| damage_fault())?,
            None => Wiping::new(private::read(&path, FILE_BYTES_MAX + 1)?),
        };
        let mut ring = Self { file, ..Self::new(path, master) };
        ring.decode(&bytes).map_err(|_| damage_fault())?;
        let settled = slots::finish_superseding(&ring.path).and_then(|()| match &ring.file {
            Some(file) => file.finish_step(),
            None => ring.put_bytes(&bytes),
        });
        if let Err(fault) = settled {
            tracing::warn!(target: "mezza", "the keyring is not settled yet: {fault}");
            ring.file = None;
        }
        Ok(ring)
    }

    /// Increments the generation and overwrites the file durably.
    ///
    /// A failure uses the number up, too: the content of the disk is unknown then.
    pub fn write(&mut self, rng: &mut dyn CryptoRng) -> Result<(), Fault> {
        self.used += 1;
        let mut nonce = [0; NONCE_BYTES];
        rng.fill_bytes(&mut nonce);
        let bytes = self.encode(&nonce)?;
        self.put_bytes(&bytes)?;
        (self.written, self.tag) = (self.used, tag_of(&bytes));
        Ok(())
    }

    /// Makes these bytes the only content of the file.
    fn put_bytes(&mut self, bytes: &[u8]) -> Result<(), Fault> {
        if self.file.is_none() && self.path.symlink_metadata().is_ok() {
            slots::finish_superseding(&self.path)?;
            self.file = SlotFile::open_any(&self.path)?;
        }
        if let Some(file) = self.file.take().filter(|file| file.has_room_for(bytes.len())) {
            return self.file.insert(file).write(bytes);
        }
        // After a failure in `supersede` the name may refer to the old or the new file.
        let room = slots::room_for(bytes.len());
        self.file = Some(SlotFile::supersede(&self.path, room, bytes)?);
        Ok(())
    }

    /// Marks generations up to this one as used by writes that the disk may lack.
    pub fn mark_used(&mut self, generation: u64) {
        self.used = self.used.max(generation);
    }

    /// Returns true if the last write failed; [`super::Vault::tick`] repeats it.
    pub fn is_doubtful(&self) -> bool {
        self.written != self.used
    }

    /// Encodes the bytes of the file.
    pub fn encode(&self, nonce: &[u8; NONCE_BYTES]) -> Result<Vec<u8>, Fault> {
        let n = u16::try_from(self.keys.len())
            .map_err(|_| Fault::bug("the keyring has more keys than its file can hold"))?;
        let mut w = Writer::with_capacity(2 + self.keys.len() * ENTRY_BYTES);
        w.put_u16(n);
        for (bucket, key) in &self.keys {
            w.put_u32(bucket.0).put_bytes(key.expose());
        }
        let text = Wiping::new(w.finish());
        let sealed = aead::seal(&self.ring_key, nonce, &aad(self.used), &text)?;
        Ok([self.used.to_be_bytes().as_slice(), &sealed].concat())
    }

    /// Decodes generation and keys from a file's bytes; malformed bytes change nothing.
    pub fn decode(&mut self, bytes: &[u8]) -> Result<(), DecodeError> {
        let mut r = Reader::new(bytes);
        let generation = r.read_u64()?;
        let text = aead::open(&self.ring_key, &aad(generation), r.read_rest())
            .ok_or(DecodeError::Value)?;
        let keys = Reader::decode_exact(&text, read_entries)?;
        (self.used, self.written, self.tag) = (generation, generation, tag_of(bytes));
        self.keys = keys;
        Ok(())
    }

    /// Returns the newest generation that is certainly on the disk, which a database may store.
    pub fn generation(&self) -> u64 {
        self.written
    }

    /// Returns the tag of that generation's file, which is unique.
    pub fn tag(&self) -> &[u8; TAG_BYTES] {
        &self.tag
    }

    /// Returns the key of a bucket.
    pub fn key(&self, bucket: RetentionCode) -> Option<&Secret<32>> {
        self.keys.get(&bucket)
    }

    /// Returns all buckets that have a key, ascending.
    pub fn buckets(&self) -> impl Iterator<Item = RetentionCode> {
        self.keys.keys().copied()
    }

    /// Returns the newest day of live state.
    pub fn newest_day(&self) -> Option<u32> {
        self.buckets().filter_map(RetentionCode::rolling_day).max()
    }

    /// Returns the buckets whose keys must be erased: ended ones, and days of live state before the
    /// newest.
    pub fn stale_buckets(&self, now: Time) -> Vec<RetentionCode> {
        let today = self.newest_day();
        let is_stale =
            |b: &RetentionCode| b.is_over(now) || b.rolling_day().is_some_and(|d| Some(d) < today);
        self.buckets().filter(is_stale).collect()
    }

    /// Makes keys for `buckets` and writes the file; after a failure the ring has none of them.
    pub fn add_keys(
        &mut self,
        buckets: &[RetentionCode],
        rng: &mut dyn CryptoRng,
    ) -> Result<(), Fault> {
        if self.keys.len() + buckets.len() > KEYS_MAX {
            return Err(Fault::bug("the keyring has more keys than its file can hold"));
        }
        for bucket in buckets {
            self.keys.insert(*bucket, Secret::random(rng));
        }
        let written = self.write(rng);
        if written.is_err() {
            self.keys.retain(|bucket, _| !buckets.contains(bucket));
        }
        written
    }

    /// Erases the keys of `buckets` and writes the file. They are erased from memory in any case.
    pub fn forget_keys(
        &mut self,
        buckets: &[RetentionCode],
        rng: &mut dyn CryptoRng,
    ) -> Result<(), Fault> {
        self.keys.retain(|bucket, _| !buckets.contains(bucket));
        self.write(rng)
    }
}

fn damage_fault() -> Fault {
    Fault::new(
        Exit::Malformed,
        "the vault's keyring is damaged or belongs to another vault",
        "put the whole folder of the vault back from a copy",
    )
}

fn tag_of(bytes: &[u8]) -> [u8; TAG_BYTES] {
    bytes.last_chunk().copied().unwrap_or_default()
}

fn aad(generation: u64) -> Vec<u8> {
    [AAD_LABEL, &generation.to_be_bytes()].concat()
}

fn read_entries(r: &mut Reader<'_>) -> Result<BTreeMap<RetentionCode, Secret<32>>, DecodeError> {
    let mut keys = BTreeMap::new();
    for _ in 0..r.read_u16()? {
        let bucket = RetentionCode(r.read_u32()?);
        let ascending = keys.last_key_value().is_none_or(|(last, _)| *last < bucket);
        if !ascending || !bucket.is_valid() {
            return Err(DecodeError::Value);
        }
        keys.insert(bucket, Secret::read_from(r)?);
    }
    Ok(keys)
}

#[cfg(test)]
mod tests;
