//! Loads our prekeys from their rows.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use mezza_core::{DecodeError, Wiping};
use mezza_ratchet::{IdentityKeyPair, Prekeys, StoredRow, Table};

use crate::carriers::Port;
use crate::device::Turn;
use crate::device::aside::Aside;
use crate::io::{Publication, RecordKind, RowsByKey, StoredRows};
use crate::view::Part;

/// Bytes of the number of a signed prekey.
const ID_BYTES: usize = 4;

impl<P: Port> Turn<'_, P> {
    /// Loads our prekeys. A prekey that does not load is quarantined alone. The record of the
    /// sessions that began with a signed prekey is quarantined with it: without that record, a
    /// repeated first message could begin a session again.
    pub(super) fn load_prekeys(&mut self, stored: &mut StoredRows<'_>) {
        let mut rows = stored.take_kind(RecordKind::Prekey);
        if let Some(publication) = rows.remove(&Publication::KEY[..]) {
            // The carriers load the publication.
            stored.put(RecordKind::Prekey, Publication::KEY.into(), publication);
        }
        let identity = self.device.profile.identity();
        // Most vaults are sound, so rows are tried one by one only after a failure.
        if decode_prekeys(identity, rows.iter()).is_err() {
            let bad = find_unsound(identity, &rows);
            let (bad, good) = rows.into_iter().partition(|(key, _)| bad.contains(key));
            quarantine_rows(&mut self.device.aside, bad);
            rows = good;
        }
        match decode_prekeys(identity, rows.iter()) {
            Ok(prekeys) => self.device.sessions.load_prekeys(prekeys, self.ctx.effects),
            Err(_) => quarantine_rows(&mut self.device.aside, rows),
        }
    }
}

fn quarantine_rows(aside: &mut Aside, rows: RowsByKey) {
    for (key, value) in rows {
        aside.add(Part::Prekeys, RecordKind::Prekey, key, value.len());
    }
}

fn decode_prekeys<'a>(
    identity: &IdentityKeyPair,
    rows: impl Iterator<Item = (&'a Vec<u8>, &'a Wiping<Vec<u8>>)>,
) -> Result<Prekeys, DecodeError> {
    let mut records = Vec::new();
    for (key, value) in rows {
        let (number, key) = key.split_first().ok_or(DecodeError::Truncated)?;
        let table = Table::from_number(*number).ok_or(DecodeError::Value)?;
        records.push(StoredRow { table, key, value });
    }
    Prekeys::load(identity.duplicate(), records)
}

/// Returns the keys of the prekey rows that do not load, and of the rows that depend on them.
fn find_unsound(identity: &IdentityKeyPair, rows: &RowsByKey) -> BTreeSet<Vec<u8>> {
    let (seen, pairs): (Vec<_>, Vec<_>) =
        rows.iter().partition(|(key, _)| key.first() == Some(&Table::Seen.number()));
    let alone = |row| decode_prekeys(identity, core::iter::once(row)).is_ok();
    let mut bad: BTreeSet<Vec<u8>> =
        pairs.into_iter().filter(|row| !alone(*row)).map(|(key, _)| key.clone()).collect();
    let signed = |key: &[u8]| {
        let id = key.get(1..1 + ID_BYTES).unwrap_or_default();
        [&[Table::Spk.number()], id].concat()
    };
    for row in &seen {
        let spk = rows.get_key_value(&signed(row.0));
        if decode_prekeys(identity, spk.into_iter().chain([*row])).is_err() {
            bad.extend([row.0.clone(), signed(row.0)]);
        }
    }
    let left = seen.into_iter().filter(|(key, _)| bad.contains(&signed(key)));
    let left: Vec<Vec<u8>> = left.map(|(key, _)| key.clone()).collect();
    bad.extend(left);
    bad
}
