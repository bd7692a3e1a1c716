//! Loads a device from stored rows, and writes all rows.
//!
//! ```text
//! rows -> profile (without it there is nobody to be)
//!      -> prekeys | people | notes -> parcels | undecrypted | what carriers have
//!              a row that does not load -> aside, with what cannot do without it
//!      -> what can stand in for it is made -> start
//! ```

mod mend;
mod older;
mod people;
mod prekeys;

use alloc::vec::Vec;

use mezza_core::{DecodeError, PortableBackend, Wiping};

use super::Parts;
use super::aside::Aside;
use crate::carriers::Port;
use crate::contacts::Contact;
use crate::error::LoadError;
use crate::io::{
    At, ContactId, NoteId, ParcelId, Publication, RecordChange, RecordKind, RecordOwner, RowFate,
    RowsByKey, Step, StoredRecord, StoredRows, Unread, fits_vault, id32, id64,
};
use crate::outbox::{Aftermath, Lane, Parcel};
use crate::profile::Profile;
use crate::sessions::{HeldBundle, Renewal, ReplayCache, Undecrypted};
use crate::threads::{Quota, StoredNote, read_windows, write_windows};
use crate::view::Part;

/// Puts a device together. What does not load is quarantined, and everything else is there.
pub(super) fn load_device<P: Port>(
    carriers: P,
    records: impl IntoIterator<Item = StoredRecord>,
    unread: &[Unread],
    at: &mut At<'_>,
) -> Result<Parts<P>, LoadError> {
    let mut stored = StoredRows::new(records, unread);
    let profile = load_profile::<P>(&mut stored, at)?;
    let mut parts = Parts::new(profile, carriers);
    // Rows that did not open are added first, because they decide which other rows can be trusted.
    parts.aside.add_unread(unread);
    prekeys::load_prekeys(&mut parts, &mut stored, at);
    let notes = stored.take_kind(RecordKind::Note);
    people::load_people(&mut parts, &mut stored, &notes, at);
    load_bundles(&mut parts, stored.take_kind(RecordKind::Bundle));
    // Notes are loaded before parcels, because a parcel takes its lowest level from its note.
    load_notes(&mut parts, notes, at);
    load_parcels(&mut parts, stored.take_kind(RecordKind::Parcel), at);
    load_undecrypted(&mut parts, stored.take_kind(RecordKind::Held), at);
    load_carriers(&mut parts, &mut stored, at);
    let known: Vec<ContactId> = parts.contacts.iter().map(|(id, _)| id).collect();
    // Carriers serve no contact before this call.
    for id in known {
        super::contact::update_levels(&mut parts, id, at);
    }
    // Rows without an owner stay in the store and are shown (MSG-42).
    stored.into_rest().for_each(|row| parts.aside.add_unloaded(row));
    mend::replace_lost(&mut parts, at);
    Ok(parts)
}

fn load_profile<P: Port>(
    stored: &mut StoredRows<'_>,
    at: &mut At<'_>,
) -> Result<Profile, LoadError> {
    let row = stored.take_one(RecordKind::Profile, &[]).ok_or(LoadError::Empty)?;
    let (profile, mailbox) = Profile::read::<P::Backend>(&row).map_err(LoadError::Profile)?;
    if let Some(mailbox) = mailbox {
        profile.store(at.step);
        for (kind, key, row) in older::next_mailbox(mailbox) {
            at.step.put(kind, key.clone(), Wiping::new(row.to_vec()));
            stored.put(kind, key, row);
        }
    }
    Ok(profile)
}

/// Returns the part of a contact that did not load.
fn part_of(aside: &Aside, id: ContactId) -> Part {
    let guest = Part::Inviter(id);
    if aside.has_part(guest) { guest } else { Part::Contact(id) }
}

fn load_carriers<P: Port>(parts: &mut Parts<P>, stored: &mut StoredRows<'_>, at: &mut At<'_>) {
    let Parts { carriers, contacts, aside, .. } = parts;
    let carriers = carriers.all_carriers_mut();
    let known = |id| contacts.holds(id);
    for mut row in carriers.flat_map(|one| one.load_own_rows(stored, &known, at)) {
        if let Part::Contact(id) = row.part {
            row.part = part_of(aside, id);
        }
        aside.add_unloaded(row);
    }
}

fn load_bundles<P: Port>(parts: &mut Parts<P>, rows: RowsByKey) {
    for (key, value) in rows {
        let read = id32(&key).and_then(|id| Ok((ContactId(id), HeldBundle::read(&value)?)));
        match read {
            Ok((id, held)) if parts.contacts.holds(id) => parts.sessions.load_held(id, held),
            _ => parts.aside.add(Part::Bundles, RecordKind::Bundle, key, value.len()),
        }
    }
}

fn load_notes<P: Port>(parts: &mut Parts<P>, rows: RowsByKey, at: &mut At<'_>) {
    for (key, value) in rows {
        let id = id64(&key);
        if let Ok(id) = id {
            // A number that was used once is never used again, even if its row is damaged.
            parts.profile.skip_note(id);
        }
        let part = match id.and_then(|id| Ok((NoteId(id), StoredNote::read(&value)?))) {
            Ok((id, note)) if parts.contacts.holds(note.contact) => {
                parts.threads.load_note(id, note, at.step);
                continue;
            }
            Ok((_, note)) => part_of(&parts.aside, note.contact),
            Err(_) => Part::Notes,
        };
        parts.aside.add(part, RecordKind::Note, key, value.len());
    }
}

/// A parcel whose note is not there is quarantined: the note has the pin under which it leaves.
fn load_parcels<P: Port>(parts: &mut Parts<P>, rows: RowsByKey, at: &mut At<'_>) {
    for (key, value) in rows {
        let read = id64(&key).and_then(|id| Ok((ParcelId(id), Parcel::read(&value)?)));
        let part = match read {
            Ok((id, parcel)) => {
                let known = parts.contacts.holds(parcel.contact);
                // Without its note the lowest level of a parcel is unknown, so it may not leave
                // (P4).
                if known && parcel.note.is_none_or(|note| parts.threads.get(note).is_some()) {
                    let form = parcel.write();
                    if form[..] != value[..] {
                        // The row is in the form of an earlier version, so it is written again.
                        at.step.put(RecordKind::Parcel, key, form);
                    }
                    parts.outbox.load_parcel(id, parcel, at.now, at.step);
                    continue;
                }
                if known { Part::Notes } else { part_of(&parts.aside, parcel.contact) }
            }
            Err(_) => Part::Parcels,
        };
        parts.aside.add(part, RecordKind::Parcel, key, value.len());
    }
    parts.outbox.skip_parcel(parts.aside.next_number(RecordKind::Parcel).saturating_sub(1));
}

fn load_undecrypted<P: Port>(parts: &mut Parts<P>, rows: RowsByKey, at: &mut At<'_>) {
    for (key, value) in rows {
        let read = id64(&key).and_then(|id| Ok((id, Undecrypted::read(&value)?)));
        let part = match read {
            Ok((id, kept)) if parts.contacts.holds(kept.contact) => {
                parts.sessions.load_undecrypted(id, kept, at.step);
                continue;
            }
            Ok((_, kept)) => part_of(&parts.aside, kept.contact),
            Err(_) => Part::Parcels,
        };
        parts.aside.add(part, RecordKind::Held, key, value.len());
    }
    parts.sessions.skip_undecrypted(parts.aside.next_number(RecordKind::Held).saturating_sub(1));
}

/// Returns every row as it is stored, except quarantined rows and the rows of the mixnet client.
pub(super) fn collect_records<P: Port>(parts: &Parts<P>) -> Vec<RecordChange> {
    let mut step = Step::default();
    parts.profile.store(&mut step);
    parts.contacts.put_records(&mut step);
    parts.threads.put_records(&mut step);
    parts.sessions.records(&mut step);
    parts.outbox.put_records(&mut step);
    parts.carriers.all_carriers().for_each(|one| one.put_records(&mut step));
    let put = |((kind, key), fate)| match fate {
        RowFate::Put(bucket, value) => Some(RecordChange::Put { kind, key, bucket, value }),
        RowFate::Drop => None,
    };
    step.rows.into_iter().filter_map(put).collect()
}

/// Returns true if a changed row loads at the next start and encodes to the same bytes (MSG-43).
/// The ratchet checks its own rows.
pub(super) fn loads_again(carriers: &impl Port, change: &RecordChange) -> bool {
    let RecordChange::Put { kind, key, value, bucket } = change else { return true };
    // A row under a wrong key or bucket would not be found at the next start.
    if !kind.accepts_key(key, *bucket) {
        return false;
    }
    let again = match kind {
        RecordKind::Profile => {
            Profile::read::<PortableBackend>(value).map(|(profile, _)| Some(profile.write()))
        }
        RecordKind::Contact => Contact::read(value).map(|contact| Some(contact.write())),
        RecordKind::Note => StoredNote::read(value).map(|note| Some(note.write())),
        RecordKind::Parcel => Parcel::read(value).map(|parcel| Some(parcel.write())),
        RecordKind::Seen => seen_again(key, value).map(Some),
        RecordKind::Held => Undecrypted::read(value).map(|kept| Some(kept.write())),
        RecordKind::Bundle => HeldBundle::read(value).map(|held| Some(held.write())),
        RecordKind::Owed => Lane::read(value).map(|lane| Some(lane.write())),
        RecordKind::Renewal => Renewal::read(value).map(|renewal| renewal.stored()),
        RecordKind::Aftermath => Aftermath::read(value).map(|left| left.stored()),
        RecordKind::Quota => Quota::read(value).map(|quota| quota.stored_form()),
        RecordKind::Prekey if *key == Publication::KEY => {
            Publication::read(value).map(|publication| Some(publication.write()))
        }
        // The ratchet checks its own rows when it loads them.
        RecordKind::Session | RecordKind::Skipped | RecordKind::Prekey => return fits_vault(value),
        _ => {
            let RecordOwner::Carrier(id) = kind.owner() else { return false };
            return carriers.carrier(id).is_some_and(|one| one.loads_again(*kind, key, value));
        }
    };
    crate::io::loads_again(value, again)
}

fn seen_again(key: &[u8], value: &[u8]) -> Result<Wiping<Vec<u8>>, DecodeError> {
    match key.get(4..).unwrap_or_default() {
        [place] => {
            let mut replays = ReplayCache::default();
            replays.read(*place, value)?;
            Ok(replays.write(*place))
        }
        era => Ok(write_windows(&read_windows(era, value)?.1)),
    }
}
