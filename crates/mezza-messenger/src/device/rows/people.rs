//! The rows of one contact or inviter, which load together or not at all. A session without its
//! replay protection, or a card without its session, would be a different contact.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;

use mezza_core::{Backend, DecodeError, Wiping};
use mezza_ratchet::{Conversation, IdentityKey, StoredRow, Table};

use super::older;
use crate::carriers::Port;
use crate::contacts::{self, Contact};
use crate::device::Turn;
use crate::io::{
    ContactId, PersonRows, RecordKind, RowsByKey, StoredRecord, StoredRows, id32, key32,
};
use crate::note::Era;
use crate::outbox::{Aftermath, Lane};
use crate::sessions::{Renewal, SessionPeer};
use crate::threads::{Quota, StoredNote, Windows, read_windows};
use crate::view::Part;

/// The eras of a contact's notes; each era has a window among the contact's rows.
type Heard = BTreeSet<(ContactId, Era)>;

/// A contact with all its loaded state.
struct Known<P: Port> {
    contact: Contact,
    windows: BTreeMap<Era, Windows>,
    quota: Quota,
    peer: SessionPeer<P::Backend>,
    lane: Lane,
    left: Option<Aftermath>,
}

impl<P: Port> Turn<'_, P> {
    /// Loads all contacts and inviters.
    pub(super) fn load_people(&mut self, stored: &mut StoredRows<'_>, notes: &RowsByKey) {
        // The windows are checked only if some of them are lost, because reading all notes twice is
        // slow.
        let lost = self.device.aside.has_lost(RecordKind::Seen);
        let heard = if lost { collect_heard(notes) } else { Heard::new() };
        for person in stored.take_people(|id| self.device.carriers.carrier(id).is_some()) {
            self.device.profile.skip_contact(person.id.0);
            let older = person
                .single_row(RecordKind::Contact)
                .and_then(|row| older::split_row(person.id, row));
            let newer = older.map(|rows| with_rows(&person, rows));
            if self.load_person(newer.as_ref().unwrap_or(&person), &heard, stored).is_err() {
                self.quarantine_person(&person);
                continue;
            }
            for (kind, key, row) in newer.into_iter().flat_map(|person| person.rows) {
                if older::KINDS.contains(&kind) {
                    self.ctx.effects.put(kind, key, row);
                }
            }
        }
    }

    /// Loads a contact or an inviter. A refused one changes nothing.
    fn load_person(
        &mut self,
        rows: &PersonRows,
        heard: &Heard,
        stored: &StoredRows<'_>,
    ) -> Result<(), DecodeError> {
        let id = ContactId(id32(&rows.id.0.to_be_bytes())?);
        let local = self.device.profile.identity().public_key();
        // Exactly one row of the two kinds must exist, or two contacts would share one number.
        if rows.rows_of(RecordKind::Contact).chain(rows.rows_of(RecordKind::Inviter)).count() != 1 {
            return Err(DecodeError::Value);
        }
        self.device.carriers.all_carriers().try_for_each(|one| one.check_rows(rows))?;
        let known = rows.single_row(RecordKind::Contact);
        let inviter = rows.single_row(RecordKind::Inviter);
        match (known, inviter) {
            (Some(row), None) => {
                let mut known = Known::<P>::read(row, rows, local, heard)?;
                let form = known.contact.write();
                if form[..] != *row {
                    // An earlier version merged the card without a size limit, so its row is
                    // written again.
                    self.ctx.effects.put(RecordKind::Contact, key32(id.0), form);
                }
                self.device.carriers.notify_all(|one| {
                    known.peer.renewal.renew |= one.load_person(rows, stored, &mut self.ctx);
                });
                self.device.contacts.load(id, known.contact);
                self.device.threads.load_thread(id, known.windows, known.quota);
                self.device.sessions.load(id, known.peer, self.ctx.effects);
                self.device.outbox.load_lane(id, known.lane, self.ctx.effects);
                if let Some(left) = known.left {
                    self.device.outbox.load_aftermath(id, left);
                }
            }
            (None, Some(row)) => {
                let ik = self.device.carriers.all_carriers().find_map(|one| one.inviter_key(row));
                let ik = ik.ok_or(DecodeError::Value)?;
                let peer = load_peer(rows, local, ik)?;
                // An inviter has no windows, because none of its notes was acknowledged.
                if rows.rows_of(RecordKind::Seen).any(|(key, _)| key.len() != 1) {
                    return Err(DecodeError::Value);
                }
                self.device.sessions.load(id, peer, self.ctx.effects);
                // Only a session of a contact is renewed, so the result is ignored.
                self.device.carriers.notify_all(|one| {
                    one.load_person(rows, stored, &mut self.ctx);
                });
            }
            _ => return Err(DecodeError::Value),
        }
        Ok(())
    }

    fn quarantine_person(&mut self, person: &PersonRows) {
        let part = part_of(person);
        if let Some((ik, name)) = find_owner(&self.device.carriers, person) {
            self.device.aside.add_identity(&ik);
            if let Some(name) = name {
                self.device.aside.name_part(part, name);
            }
        }
        for (kind, key, value) in &person.rows {
            self.device.aside.add(part, *kind, key.clone(), value.len());
        }
    }
}

/// Returns the rows of a contact, with those of some kinds replaced by `newer`.
fn with_rows(person: &PersonRows, newer: Vec<StoredRecord>) -> PersonRows {
    let stays = |kind: &RecordKind| newer.iter().all(|(other, _, _)| other != kind);
    let kept = person.rows.iter().filter(|(kind, _, _)| stays(kind));
    let kept = kept.map(|(kind, key, row)| (*kind, key.clone(), Wiping::new(row.to_vec())));
    let rows = kept.collect::<Vec<_>>().into_iter().chain(newer).collect();
    PersonRows { id: person.id, rows }
}

fn load_peer<B: Backend>(
    rows: &PersonRows,
    local: IdentityKey,
    remote: IdentityKey,
) -> Result<SessionPeer<B>, DecodeError> {
    let record = |table| move |(key, value)| StoredRow { table, key, value };
    let sessions = rows.rows_of(RecordKind::Session).map(record(Table::Session));
    let skipped = rows.rows_of(RecordKind::Skipped).map(record(Table::Skipped));
    let conversation = Conversation::load(local, remote, sessions.chain(skipped))?;
    let mut peer = SessionPeer::new(conversation);
    peer.renewal = rows.read_optional(RecordKind::Renewal, Renewal::read)?;
    for (key, row) in rows.rows_of(RecordKind::Seen) {
        if let [place] = key {
            peer.replays.read(*place, row)?;
        }
    }
    Ok(peer)
}

impl<P: Port> Known<P> {
    fn read(
        row: &[u8],
        rows: &PersonRows,
        local: IdentityKey,
        heard: &Heard,
    ) -> Result<Self, DecodeError> {
        let contact = Contact::read(row)?;
        let peer = load_peer(rows, local, *contact.card.ik())?;
        let mut windows = BTreeMap::new();
        for (key, row) in rows.rows_of(RecordKind::Seen).filter(|(key, _)| key.len() != 1) {
            let (era, of_era) = read_windows(key, row)?;
            windows.insert(era, of_era);
        }
        let mut eras = heard.iter().filter(|(of, _)| *of == rows.id).map(|(_, era)| era);
        // Without the window of an era its notes would be shown a second time.
        if !eras.all(|era| windows.contains_key(era)) {
            return Err(DecodeError::Value);
        }
        // Without the row of the lane a note number might be used twice.
        let lane = Lane::read(rows.single_row(RecordKind::Owed).ok_or(DecodeError::Value)?)?;
        let quota = rows.read_optional(RecordKind::Quota, Quota::read)?;
        let left = rows.single_row(RecordKind::Aftermath).map(Aftermath::read).transpose()?;
        Ok(Self { contact, windows, quota, peer, lane, left })
    }
}

/// Returns the part of the device to which these rows belong.
fn part_of(person: &PersonRows) -> Part {
    match person.single_row(RecordKind::Inviter) {
        Some(_) if person.single_row(RecordKind::Contact).is_none() => Part::Inviter(person.id),
        _ => Part::Contact(person.id),
    }
}

/// Returns the identity key and the name of a contact, if the rows still contain them.
fn find_owner(carriers: &impl Port, person: &PersonRows) -> Option<(IdentityKey, Option<String>)> {
    let contact = person.single_row(RecordKind::Contact).and_then(contacts::read_owner);
    let contact = contact.map(|(ik, name)| (ik, Some(name)));
    contact.or_else(|| {
        let row = person.single_row(RecordKind::Inviter)?;
        Some((carriers.all_carriers().find_map(|one| one.inviter_key(row))?, None))
    })
}

/// Returns contact and era of every received note that can be read.
fn collect_heard(notes: &RowsByKey) -> Heard {
    let notes = notes.values().filter_map(|value| StoredNote::read(value).ok());
    notes.filter(|note| note.incoming).map(|note| (note.contact, note.era)).collect()
}
