//! One transaction: the changes of the device since the last one.

use std::collections::{BTreeMap, BTreeSet};

use mezza_messenger::{RecordChange, Retention, WriteBatch};
use rand_core::Rng;

use super::aead::NONCE_BYTES;
use super::bucket::RetentionCode;
use super::keyring::Keyring;
use super::record::{self, RecordHeader};
use super::rows::Writing;
use super::{KIND_MEMORY, MEMORY_ID, Row, Vault, record_name};
use crate::api::Fault;
use crate::process::rng::OsRng;

/// The key of the vault's own record.
const KEY_MEMORY: &[u8] = b"ring";

/// The new content of one record, with its bucket; `None` if the record is deleted.
type Fate<'a> = Option<(Retention, &'a [u8])>;

impl Vault {
    /// Carries out all changes of all batches in order, in one transaction that is durable when
    /// this returns: one sync of the log. A record changed more than once is written once.
    ///
    /// A new bucket first gets its key, durably, which costs two more syncs. After an error the
    /// vault is unchanged. Errors: 73 if the disk is full or fails.
    pub fn commit(&mut self, batches: &[WriteBatch]) -> Result<(), Fault> {
        let fates = last_changes(batches);
        if fates.is_empty() {
            return Ok(());
        }
        self.add_keys(&fates)?;
        let today = self.today_bucket()?;
        let plan = self.plan_steps(fates, today);
        let ring = &self.ring;
        let is_new_ring = self.remembered != ring.generation();
        self.rows.transaction(|writing| {
            for Step { name, was, becomes } in &plan {
                match (becomes, was) {
                    (Some((row, value)), _) => {
                        let place = RecordHeader { kind: name[0], id: row.id, bucket: row.bucket };
                        put_record(writing, ring, place, &name[1..], value)?;
                    }
                    (None, Some(row)) => writing.delete(row.id)?,
                    (None, None) => {}
                }
            }
            if is_new_ring { put_memory(writing, ring, today) } else { Ok(()) }
        })?;
        self.remembered = self.ring.generation();
        // A record may have been put into a bucket after the sweep found it empty, so the sweep is
        // repeated.
        self.swept = false;
        for Step { name, becomes, .. } in plan {
            match becomes {
                Some((row, _)) => {
                    self.last_id = self.last_id.max(row.id);
                    self.index.insert(name, row);
                }
                None => drop(self.index.remove(&name)),
            }
        }
        Ok(())
    }

    /// Makes missing bucket keys before records are sealed under them.
    fn add_keys(&mut self, fates: &BTreeMap<Vec<u8>, Fate<'_>>) -> Result<(), Fault> {
        let today = self.today_bucket()?.rolling_day().unwrap_or_default();
        let needed = fates.values().flatten().map(|(bucket, _)| RetentionCode::new(*bucket, today));
        let missing: BTreeSet<_> = needed.filter(|code| self.ring.key(*code).is_none()).collect();
        if missing.is_empty() {
            return Ok(());
        }
        self.ring.add_keys(&missing.into_iter().collect::<Vec<_>>(), &mut OsRng)
    }

    fn plan_steps<'a>(
        &self,
        fates: BTreeMap<Vec<u8>, Fate<'a>>,
        today: RetentionCode,
    ) -> Vec<Step<'a>> {
        let today = today.rolling_day().unwrap_or_default();
        let mut last_id = self.last_id;
        let step = |(name, fate): (Vec<u8>, Fate<'a>)| {
            let was = self.index.get(&name).copied();
            let becomes = fate.map(|(bucket, value)| {
                let id = was.map_or_else(|| last_id + 1, |row| row.id);
                last_id = last_id.max(id);
                (Row { id, bucket: RetentionCode::new(bucket, today) }, value)
            });
            Step { name, was, becomes }
        };
        fates.into_iter().map(step).collect()
    }
}

/// One record of a transaction: its present row, and its future row and content.
struct Step<'a> {
    name: Vec<u8>,
    was: Option<Row>,
    becomes: Option<(Row, &'a [u8])>,
}

/// Returns the last change of each record.
fn last_changes(batches: &[WriteBatch]) -> BTreeMap<Vec<u8>, Fate<'_>> {
    let changes = batches.iter().flat_map(|batch| &batch.0);
    changes
        .map(|change| match change {
            RecordChange::Put { kind, key, bucket, value } => {
                (record_name(*kind, key), Some((*bucket, value.as_slice())))
            }
            RecordChange::Drop { kind, key } => (record_name(*kind, key), None),
        })
        .collect()
}

/// Seals a record and writes its row.
pub(super) fn put_record(
    writing: &Writing<'_>,
    ring: &Keyring,
    place: RecordHeader,
    key: &[u8],
    value: &[u8],
) -> Result<(), Fault> {
    let bucket_key = ring.key(place.bucket);
    let bucket_key = bucket_key.ok_or_else(|| Fault::bug("a bucket of the vault has no key"))?;
    let mut nonce = [0; NONCE_BYTES];
    OsRng.fill_bytes(&mut nonce);
    writing.put_row(place, &record::seal(bucket_key, &nonce, place, key, value)?)
}

/// Stores the keyring's generation and tag in the database.
pub(super) fn put_memory(
    writing: &Writing<'_>,
    ring: &Keyring,
    today: RetentionCode,
) -> Result<(), Fault> {
    let place = RecordHeader { kind: KIND_MEMORY, id: MEMORY_ID, bucket: today };
    let value = [ring.generation().to_be_bytes().as_slice(), ring.tag()].concat();
    put_record(writing, ring, place, KEY_MEMORY, &value)
}
