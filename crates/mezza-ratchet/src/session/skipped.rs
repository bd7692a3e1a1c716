//! Keys of messages that were skipped: one row each, at most 2,000 in a session, for at most 30
//! days. Chain keys of old chains are not kept, so the number of old chains needs no limit.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use mezza_core::{DecodeError, PublicKey, Reader, Secret, Time, Writer, snapshot};

use super::chain::MessageKey;
use super::{SESSION_ID_BYTES, SKIPPED_D, SKIPPED_MAX};
use crate::{Changes, Table};

/// The ratchet key and the index of a message.
type MessagePosition = (PublicKey, u32);

struct SkippedKey {
    key: MessageKey,
    /// The time at which the message was skipped, in hours since 1970.
    born: u32,
    /// The order in which keys were added, to drop the oldest first. Only the hour is stored, not
    /// this order.
    order: u64,
}

snapshot!(struct SkippedKey { key, born, order });

impl SkippedKey {
    fn wipe_time(&self) -> Time {
        Time::from_ms(u64::from(self.born) * Time::HOUR_MS).plus_ms(SKIPPED_D * Time::DAY_MS)
    }
}

/// The skipped keys of one session.
#[derive(Default)]
pub(crate) struct Skipped {
    entries: BTreeMap<MessagePosition, SkippedKey>,
    next_order: u64,
}

snapshot!(struct Skipped { entries, next_order });

impl Skipped {
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns the key of a message, unless the key is older than 30 days.
    pub(super) fn find_key(&self, key: &PublicKey, n: u32, now: Time) -> Option<&MessageKey> {
        let entry = self.entries.get(&(*key, n))?;
        (now < entry.wipe_time()).then_some(&entry.key)
    }

    /// Removes a key that was used, with its row.
    pub(super) fn remove_key(
        &mut self,
        id: &[u8; SESSION_ID_BYTES],
        key: &PublicKey,
        n: u32,
        changes: &mut Changes,
    ) {
        if self.entries.remove(&(*key, n)).is_some() {
            changes.drop_row(Table::Skipped, row_key(id, &(*key, n)));
        }
    }

    /// Adds keys, oldest first. Above the limit the oldest keys of the session are dropped.
    pub(super) fn add_keys(
        &mut self,
        id: &[u8; SESSION_ID_BYTES],
        mut rows: Vec<(PublicKey, u32, MessageKey)>,
        now: Time,
        changes: &mut Changes,
    ) {
        rows.drain(..rows.len().saturating_sub(SKIPPED_MAX));
        let excess = (self.entries.len() + rows.len()).saturating_sub(SKIPPED_MAX);
        self.drop_oldest(id, excess, changes);
        for (ratchet_key, n, key) in rows {
            let place = (ratchet_key, n);
            let born = now.as_hours();
            changes.put_row(Table::Skipped, row_key(id, &place), row_value(&key, born));
            self.insert_key(place, key, born);
        }
    }

    fn drop_oldest(&mut self, id: &[u8; SESSION_ID_BYTES], count: usize, changes: &mut Changes) {
        if count == 0 {
            return;
        }
        let mut places: Vec<_> = self.entries.iter().map(|(place, e)| (e.order, *place)).collect();
        places.sort_unstable();
        for (_, place) in places.into_iter().take(count) {
            self.entries.remove(&place);
            changes.drop_row(Table::Skipped, row_key(id, &place));
        }
    }

    fn insert_key(&mut self, place: MessagePosition, key: MessageKey, born: u32) {
        self.entries.insert(place, SkippedKey { key, born, order: self.next_order });
        self.next_order += 1;
    }

    /// Wipes keys that are older than 30 days.
    pub(crate) fn sweep_expired(
        &mut self,
        id: &[u8; SESSION_ID_BYTES],
        now: Time,
        changes: &mut Changes,
    ) {
        self.entries.retain(|place, entry| {
            let keep = now < entry.wipe_time();
            if !keep {
                changes.drop_row(Table::Skipped, row_key(id, place));
            }
            keep
        });
    }

    /// Drops all rows of skipped keys, because the session is removed.
    pub(crate) fn drop_all(&self, id: &[u8; SESSION_ID_BYTES], changes: &mut Changes) {
        for place in self.entries.keys() {
            changes.drop_row(Table::Skipped, row_key(id, place));
        }
    }

    /// Returns the time at which the oldest key must be wiped.
    pub(crate) fn deadline(&self) -> Option<Time> {
        self.entries.values().map(SkippedKey::wipe_time).min()
    }

    /// Records the row of every skipped key.
    pub(crate) fn record_rows(&self, id: &[u8; SESSION_ID_BYTES], changes: &mut Changes) {
        for (place, entry) in &self.entries {
            changes.put_row(Table::Skipped, row_key(id, place), row_value(&entry.key, entry.born));
        }
    }

    /// Loads the stored rows of this session. The order of arrival is estimated from hour and
    /// index.
    pub(crate) fn load_rows(&mut self, mut rows: Vec<StoredKey>) -> Result<(), DecodeError> {
        rows.sort_by_key(|row| (row.born, row.n, row.ratchet_key));
        if rows.len() > SKIPPED_MAX {
            return Err(DecodeError::Value);
        }
        for row in rows {
            self.insert_key((row.ratchet_key, row.n), row.key, row.born);
        }
        Ok(())
    }
}

/// One skipped key as it is stored.
pub(crate) struct StoredKey {
    pub(crate) session: [u8; SESSION_ID_BYTES],
    ratchet_key: PublicKey,
    n: u32,
    key: MessageKey,
    born: u32,
}

impl StoredKey {
    /// Decodes a row. Key: `session id | ratchet key | n u32`, 52 bytes. Value: `mk[32] | born
    /// u32`, 36 bytes.
    pub(crate) fn decode(key: &[u8], value: &[u8]) -> Result<Self, DecodeError> {
        let (session, ratchet_key, n) = Reader::decode_exact(key, |reader| {
            Ok::<_, DecodeError>((
                reader.read_array()?,
                PublicKey::read_from(reader)?,
                reader.read_u32()?,
            ))
        })?;
        Reader::decode_exact(value, |reader| {
            let key = MessageKey::new(Secret::read_from(reader)?);
            Ok(Self { session, ratchet_key, n, key, born: reader.read_u32()? })
        })
    }
}

fn row_key(id: &[u8; SESSION_ID_BYTES], (ratchet_key, n): &MessagePosition) -> Vec<u8> {
    let mut writer = Writer::with_capacity(52);
    writer.put_bytes(id).put_bytes(&ratchet_key.0).put_u32(*n);
    writer.finish()
}

fn row_value(key: &MessageKey, born: u32) -> Vec<u8> {
    let mut writer = Writer::with_capacity(36);
    writer.put_bytes(key.secret().expose()).put_u32(born);
    writer.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: [u8; SESSION_ID_BYTES] = [1; SESSION_ID_BYTES];
    const NOW: Time = Time::from_ms(1_800_000_000_000);

    fn key() -> MessageKey {
        MessageKey::new(Secret::init_with(|bytes| bytes.fill(7)))
    }

    /// Makes `count` keys of one chain, whose ratchet key repeats one byte.
    fn chain(ratchet_key: u8, count: u32) -> Vec<(PublicKey, u32, MessageKey)> {
        (0..count).map(|n| (PublicKey([ratchet_key; 32]), n, key())).collect()
    }

    #[test]
    fn the_oldest_by_arrival_make_room() {
        let mut skipped = Skipped::default();
        let mut changes = Changes::new();
        // The chain that is added first sorts after the second chain.
        for (ratchet_key, count) in [(9, 2), (3, SKIPPED_MAX as u32 - 1)] {
            skipped.add_keys(&ID, chain(ratchet_key, count), NOW, &mut changes);
        }
        assert_eq!(skipped.len(), SKIPPED_MAX);
        let held = |n| skipped.find_key(&PublicKey([9; 32]), n, NOW).is_some();
        assert_eq!([held(0), held(1)], [false, true]);
    }

    #[test]
    fn as_many_rows_load_as_are_kept() {
        let rows = |count| -> Vec<StoredKey> {
            let row = |n| StoredKey {
                session: ID,
                ratchet_key: PublicKey([3; 32]),
                n,
                key: key(),
                born: 1,
            };
            (0..count).map(row).collect()
        };
        let load = |count| Skipped::default().load_rows(rows(count));
        assert_eq!(load(SKIPPED_MAX as u32), Ok(()));
        assert_eq!(load(SKIPPED_MAX as u32 + 1), Err(DecodeError::Value));
    }
}
