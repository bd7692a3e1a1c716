//! Rows of earlier versions whose fields now belong to several components. The row of a contact
//! contained the fields of five:
//!
//! ```text
//! version 2 or 3 | phase | blocked | card | petname | verified | policy | theirs | intro |
//! ours u32 | next seq u32 | last reset u64 | flags u8 | root for | owed | version 3: share
//! share = day u32 | notes u32 | bytes u32 | refused u32 | again at u64 | again u8 | year u32 | talk u64
//! ```

use alloc::vec::Vec;

use mezza_core::{DecodeError, PortableBackend, Reader, Time};

use crate::carriers::mixnet::{MixnetPeer, Talk};
use crate::carriers::relay::{Relay, RelayPeer};
use crate::contacts::Contact;
use crate::io::{ContactId, RecordKind, StoredRecord, key32, read_flag};
use crate::outbox::{AgainWish, Lane, Owed};
use crate::sessions::Renewal;
use crate::threads::Quota;

/// The version without a share.
const SHARELESS: u8 = 2;
/// The last version of this format.
const LAST: u8 = 3;

/// Kinds of the rows into which the single row of a contact, as earlier versions stored it, is
/// split.
pub(super) const KINDS: [RecordKind; 6] = [
    RecordKind::Contact,
    RecordKind::Owed,
    RecordKind::Renewal,
    RecordKind::RelayPeer,
    RecordKind::MixnetPeer,
    RecordKind::Quota,
];

/// Returns the row with the number of the next mailbox, which earlier versions stored in the
/// profile.
pub(super) fn next_mailbox(number: u32) -> [StoredRecord; 1] {
    let row = Relay::<PortableBackend>::write_next(number.max(1));
    [(RecordKind::RelayPeer, Vec::new(), row)]
}

/// Splits the single row of a contact, as earlier versions stored it, into the present rows.
/// Returns `None` if it does not decode.
pub(super) fn split_row(id: ContactId, row: &[u8]) -> Option<Vec<StoredRecord>> {
    Reader::decode_exact(row, |r| read_rows(id, r)).ok()
}

fn read_rows(id: ContactId, r: &mut Reader<'_>) -> Result<Vec<StoredRecord>, DecodeError> {
    let version = r.read_u8()?;
    // Another version is not split and is quarantined as it is (MSG-42).
    if !(SHARELESS..=LAST).contains(&version) {
        return Err(DecodeError::Value);
    }
    let contact = Contact::read_body(r)?;
    let relay = RelayPeer::read_body(r)?;
    let next_seq = r.read_u32()?;
    let last_reset = Time::from_ms(r.read_u64()?);
    let (renew, has_called) = match r.read_u8()? {
        bits @ 0..=3 => (bits & 1 == 1, bits >> 1 == 1),
        _ => return Err(DecodeError::Value),
    };
    let root_for = if read_flag(r)? { Some(r.read_array()?) } else { None };
    let owed = Owed::read(r, false)?;
    let mut quota = Quota::default();
    let mut again = AgainWish::default();
    let mut talk = Talk::default();
    // Version 2 had no shares, so they start empty.
    if version > SHARELESS {
        quota = Quota::read_body(r)?;
        again = AgainWish::read(r)?;
        talk = Talk::read(r)?;
    }
    let renewal = Renewal { renew, last_reset, told: 0, waits: false };
    let mixnet = MixnetPeer::from_stored(root_for, has_called, talk);
    let rows = [
        (RecordKind::Contact, Some(contact.write())),
        (RecordKind::Owed, Some(Lane::from_stored(next_seq, owed, again, None).write())),
        (RecordKind::Renewal, renewal.stored()),
        (RecordKind::RelayPeer, relay.stored_form()),
        (RecordKind::MixnetPeer, mixnet.stored_form()),
        (RecordKind::Quota, quota.stored_form()),
    ];
    let rows = rows.into_iter().filter_map(|(kind, row)| Some((kind, key32(id.0), row?)));
    Ok(rows.collect())
}
