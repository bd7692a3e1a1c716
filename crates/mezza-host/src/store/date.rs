//! The date by which a vault went last, beside its rolling day (MSG-103).
//!
//! The rolling day never goes back, so that it is no witness of what the date was: a clock that was ahead
//! once leaves a day that lies ahead for good.

use mezza_messenger::{RecordChange, RecordKind, Retention, WriteBatch};

use super::keyring::Keyring;
use super::record;
use super::rows::Rows;
use crate::api::Fault;
use crate::clock::WrittenDate;

/// The vault's record.
const KIND: RecordKind = RecordKind::Setting;
const KEY: &[u8] = b"date";

/// The batch that writes a date down.
pub fn put_date(date: &WrittenDate) -> WriteBatch {
    let key = KEY.to_vec();
    let value = date.to_bytes();
    WriteBatch(vec![RecordChange::Put { kind: KIND, key, bucket: Retention::Permanent, value }])
}

/// The date that is written down, if the row is there and opens.
pub(super) fn read_written(rows: &Rows, ring: &Keyring) -> Result<Option<WrittenDate>, Fault> {
    let mut found = None;
    rows.of_kind(KIND as u8, |place, body| {
        let content = ring.key(place.bucket).and_then(|key| record::open(key, place, body));
        let date = content.filter(|content| content.key == KEY);
        // Of two rows with one key the newer counts, as everywhere.
        found = found.or(date.and_then(|date| WrittenDate::from_bytes(&date.value).ok()));
    })?;
    Ok(found)
}
