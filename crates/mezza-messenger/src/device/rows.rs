//! Loads a device from stored rows, and writes all rows.
//!
//! ```text
//! rows -> profile (a device without it does not load)
//!      -> prekeys | people | notes -> parcels | undecrypted | rows of carriers
//!              a row that does not load is quarantined with the rows that depend on it
//!      -> substitutes for quarantined rows -> start
//! ```

mod mend;
mod older;
mod people;
mod prekeys;

use alloc::vec::Vec;

use mezza_core::{DecodeError, PortableBackend, Wiping};

use super::aside::Aside;
use super::{Components, Turn};
use crate::carriers::Port;
use crate::contacts::Contact;
use crate::error::LoadError;
use crate::io::{
    ContactId, Ctx, Effects, NoteId, ParcelId, Publication, RecordChange, RecordKind, RecordOwner,
    RowFate, RowsByKey, StoredRecord, StoredRows, Unread, fits_vault, id32, id64,
};
use crate::outbox::{Aftermath, Lane, Parcel};
use crate::profile::Profile;
use crate::sessions::{HeldBundle, Renewal, ReplayCache, Undecrypted};
use crate::threads::{Quota, StoredNote, read_windows, write_windows};
use crate::view::Part;

/// Loads the components of a device. Rows that do not load are quarantined.
///
/// # Errors
/// The profile is missing or does not load.
pub(super) fn load_components<P: Port>(
    carriers: P,
    records: impl IntoIterator<Item = StoredRecord>,
    unread: &[Unread],
    ctx: &mut Ctx<'_>,
) -> Result<Components<P>, LoadError> {
    let mut stored = StoredRows::new(records, unread);
    let profile = load_profile::<P>(&mut stored, ctx)?;
    let mut components = Components::new(profile, carriers);
    // Rows that did not open are added first, because they decide which other rows can be trusted.
    components.aside.add_unread(unread);
    Turn::new(&mut components, ctx.reborrow()).load_rows(stored);
    Ok(components)
}

fn load_profile<P: Port>(
    stored: &mut StoredRows<'_>,
    ctx: &mut Ctx<'_>,
) -> Result<Profile, LoadError> {
    let row = stored.take_one(RecordKind::Profile, &[]).ok_or(LoadError::Empty)?;
    let (profile, mailbox) = Profile::read::<P::Backend>(&row).map_err(LoadError::Profile)?;
    if let Some(mailbox) = mailbox {
        profile.store(ctx.effects);
        for (kind, key, row) in older::next_mailbox(mailbox) {
            ctx.effects.put(kind, key.clone(), Wiping::new(row.to_vec()));
            stored.put(kind, key, row);
        }
    }
    Ok(profile)
}

/// Returns the part of a contact or inviter that did not load.
fn part_of(aside: &Aside, id: ContactId) -> Part {
    let inviter = Part::Inviter(id);
    if aside.has_part(inviter) { inviter } else { Part::Contact(id) }
}

impl<P: Port> Turn<'_, P> {
    /// Loads all rows, except the profile.
    fn load_rows(&mut self, mut stored: StoredRows<'_>) {
        self.load_prekeys(&mut stored);
        let notes = stored.take_kind(RecordKind::Note);
        self.load_people(&mut stored, &notes);
        self.load_bundles(stored.take_kind(RecordKind::Bundle));
        // Notes are loaded before parcels, because a parcel takes its lowest level from its note.
        self.load_notes(notes);
        self.load_parcels(stored.take_kind(RecordKind::Parcel));
        self.load_undecrypted(stored.take_kind(RecordKind::Held));
        self.load_carriers(&mut stored);
        let known: Vec<ContactId> = self.device.contacts.iter().map(|(id, _)| id).collect();
        // Carriers serve no contact before this call.
        for id in known {
            self.update_levels(id);
        }
        // Rows without an owner stay in the store and are shown (MSG-42).
        stored.into_rest().for_each(|row| self.device.aside.add_unloaded(row));
        self.replace_quarantined();
    }

    fn load_carriers(&mut self, stored: &mut StoredRows<'_>) {
        let Components { carriers, contacts, aside, .. } = &mut *self.device;
        let carriers = carriers.all_carriers_mut();
        let known = |id| contacts.holds(id);
        for mut row in carriers.flat_map(|one| one.load_own_rows(stored, &known, &mut self.ctx)) {
            if let Part::Contact(id) = row.part {
                row.part = part_of(aside, id);
            }
            aside.add_unloaded(row);
        }
    }

    fn load_bundles(&mut self, rows: RowsByKey) {
        for (key, value) in rows {
            let read = id32(&key).and_then(|id| Ok((ContactId(id), HeldBundle::read(&value)?)));
            match read {
                Ok((id, held)) if self.device.contacts.holds(id) => {
                    self.device.sessions.load_held(id, held);
                }
                _ => self.device.aside.add(Part::Bundles, RecordKind::Bundle, key, value.len()),
            }
        }
    }

    fn load_notes(&mut self, rows: RowsByKey) {
        for (key, value) in rows {
            let id = id64(&key);
            if let Ok(id) = id {
                // A number that was used once is never used again, even if its row is damaged.
                self.device.profile.skip_note(id);
            }
            let part = match id.and_then(|id| Ok((NoteId(id), StoredNote::read(&value)?))) {
                Ok((id, note)) if self.device.contacts.holds(note.contact) => {
                    self.device.threads.load_note(id, note, self.ctx.effects);
                    continue;
                }
                Ok((_, note)) => part_of(&self.device.aside, note.contact),
                Err(_) => Part::Notes,
            };
            self.device.aside.add(part, RecordKind::Note, key, value.len());
        }
    }

    /// Loads parcels. A parcel whose note is missing is quarantined, because the note has the
    /// lowest level at which the parcel may leave.
    fn load_parcels(&mut self, rows: RowsByKey) {
        for (key, value) in rows {
            let read = id64(&key).and_then(|id| Ok((ParcelId(id), Parcel::read(&value)?)));
            let part = match read {
                Ok((id, parcel)) => {
                    let known = self.device.contacts.holds(parcel.contact);
                    // Without its note the lowest level of a parcel is unknown, so it may not leave
                    // (P4).
                    if known
                        && parcel.note.is_none_or(|note| self.device.threads.get(note).is_some())
                    {
                        let form = parcel.write();
                        if form[..] != value[..] {
                            // The row is in the form of an earlier version, so it is written again.
                            self.ctx.effects.put(RecordKind::Parcel, key, form);
                        }
                        self.device.outbox.load_parcel(id, parcel, self.ctx.now, self.ctx.effects);
                        continue;
                    }
                    if known { Part::Notes } else { part_of(&self.device.aside, parcel.contact) }
                }
                Err(_) => Part::Parcels,
            };
            self.device.aside.add(part, RecordKind::Parcel, key, value.len());
        }
        self.device
            .outbox
            .skip_parcel(self.device.aside.next_number(RecordKind::Parcel).saturating_sub(1));
    }

    fn load_undecrypted(&mut self, rows: RowsByKey) {
        for (key, value) in rows {
            let read = id64(&key).and_then(|id| Ok((id, Undecrypted::read(&value)?)));
            let part = match read {
                Ok((id, kept)) if self.device.contacts.holds(kept.contact) => {
                    self.device.sessions.load_undecrypted(id, kept, self.ctx.effects);
                    continue;
                }
                Ok((_, kept)) => part_of(&self.device.aside, kept.contact),
                Err(_) => Part::Parcels,
            };
            self.device.aside.add(part, RecordKind::Held, key, value.len());
        }
        self.device
            .sessions
            .skip_undecrypted(self.device.aside.next_number(RecordKind::Held).saturating_sub(1));
    }
}

impl<P: Port> Components<P> {
    /// Returns every row as it is stored, except quarantined rows and the rows of the mixnet
    /// client.
    pub(super) fn collect_records(&self) -> Vec<RecordChange> {
        let mut effects = Effects::default();
        self.profile.store(&mut effects);
        self.contacts.put_records(&mut effects);
        self.threads.put_records(&mut effects);
        self.sessions.records(&mut effects);
        self.outbox.put_records(&mut effects);
        self.carriers.all_carriers().for_each(|one| one.put_records(&mut effects));
        let put = |((kind, key), fate)| match fate {
            RowFate::Put(bucket, value) => Some(RecordChange::Put { kind, key, bucket, value }),
            RowFate::Drop => None,
        };
        effects.rows.into_iter().filter_map(put).collect()
    }
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
