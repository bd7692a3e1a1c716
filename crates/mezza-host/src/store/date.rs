//! The last date that a vault used, stored in addition to its rolling day (MSG-103).
//!
//! The rolling day never goes back, so it does not show the date: a clock that was ahead once
//! leaves a rolling day that stays ahead.

use mezza_messenger::{RecordChange, RecordKind, Retention, WriteBatch};

use super::keyring::Keyring;
use super::record;
use super::rows::Rows;
use crate::api::Fault;
use crate::clock::WrittenDate;

/// The kind of the record of the date.
const KIND: RecordKind = RecordKind::Setting;
const KEY: &[u8] = b"date";

/// Returns the batch that stores a date.
pub fn put_date(date: &WrittenDate) -> WriteBatch {
    let key = KEY.to_vec();
    let value = date.to_bytes();
    WriteBatch(vec![RecordChange::Put { kind: KIND, key, bucket: Retention::Permanent, value }])
}

/// Reads the stored date, if its row exists and opens.
pub(super) fn read_written(rows: &Rows, ring: &Keyring) -> Result<Option<WrittenDate>, Fault> {
    let mut found = None;
    rows.of_kind(KIND as u8, |place, body| {
        let content = ring.key(place.bucket).and_then(|key| record::open(key, place, body));
        let date = content.filter(|content| content.key == KEY);
        // Of two rows with one key the newer is used, as everywhere.
        found = found.or(date.and_then(|date| WrittenDate::from_bytes(&date.value).ok()));
    })?;
    Ok(found)
}
