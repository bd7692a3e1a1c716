//! The rows of one contact or inviter: they load together or not at all. A session without the
//! memory of what came in it, or a card without its session, would be another contact.

mod older;

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;

use mezza_core::{Backend, DecodeError, Wiping};
use mezza_ratchet::{Conversation, IdentityKey, StoredRow, Table};

use super::{RowsByKey, id32};
use crate::carriers::CarrierSet;
use crate::carriers::mixnet::{self, Inviter, MixnetPeer};
use crate::carriers::relay::RelayPeer;
use crate::contacts::{self, Contact};
use crate::device::Parts;
use crate::io::{At, ContactId, RecordKind, Retention, key32};
use crate::note::Era;
use crate::outbox::Lane;
use crate::sessions::{Renewal, SessionPeer};
use crate::threads::{Quota, StoredNote, Windows, read_windows};
use crate::view::Part;

/// The kinds of rows that belong to one person, but for where relays reach them.
pub(super) const KINDS: [RecordKind; 9] = [
    RecordKind::Contact,
    RecordKind::Guest,
    RecordKind::Session,
    RecordKind::Skipped,
    RecordKind::Seen,
    RecordKind::Owed,
    RecordKind::Renewal,
    RecordKind::MixnetPeer,
    RecordKind::Quota,
];

/// Bytes of a contact's number, with which the keys of all its rows begin.
const PERSON_BYTES: usize = 4;

/// The eras of which there are notes of a contact, each of which has a window among the rows of
/// that contact.
type Heard = BTreeSet<(ContactId, Era)>;
/// A row of a person.
type Row = (RecordKind, Vec<u8>, Wiping<Vec<u8>>);

/// The rows of one person.
struct Person {
    id: ContactId,
    rows: Vec<Row>,
}

/// A contact with everything that is stored of it.
struct Known<B: Backend> {
    contact: Contact,
    windows: BTreeMap<Era, Windows>,
    quota: Quota,
    peer: SessionPeer<B>,
    lane: Lane,
    relay: RelayPeer,
    mixnet: MixnetPeer,
}

/// What the rows of a person are.
enum Loaded<B: Backend> {
    Contact(Box<Known<B>>),
    Inviter(Box<(Inviter, SessionPeer<B>)>),
}

/// Loads everybody.
pub(super) fn load<B: Backend>(
    parts: &mut Parts<CarrierSet<B>>,
    shelves: Vec<(RecordKind, RowsByKey)>,
    notes: &RowsByKey,
    at: &mut At<'_>,
) {
    let lost = parts.aside.lost(RecordKind::Seen);
    let heard = if lost { heard(notes) } else { Heard::new() };
    let mut people = BTreeMap::<[u8; PERSON_BYTES], Vec<Row>>::new();
    for (kind, shelf) in shelves {
        for (key, value) in shelf {
            match key.first_chunk() {
                Some(id) => people.entry(*id).or_default().push((kind, key, value)),
                None => parts.aside.add(Part::Other, kind, key, value.len()),
            }
        }
    }
    for (id, rows) in people {
        let id = u32::from_be_bytes(id);
        parts.profile.skip_contact(id);
        load_person(parts, &Person { id: ContactId(id), rows }, &heard, at);
    }
}

fn load_person<B: Backend>(
    parts: &mut Parts<CarrierSet<B>>,
    person: &Person,
    heard: &Heard,
    at: &mut At<'_>,
) {
    let id = person.id;
    let older = person.value(RecordKind::Contact).and_then(|row| older::split(id, row));
    let upgraded = older.map(|rows| person.with(rows));
    let local = parts.profile.identity().public();
    match upgraded.as_ref().unwrap_or(person).load(local, heard) {
        Ok(Loaded::Contact(known)) => {
            for (kind, key, row) in upgraded.into_iter().flat_map(|person| person.rows) {
                if older::KINDS.contains(&kind) {
                    at.step.put(kind, key, Retention::Permanent, row);
                }
            }
            let row = person.value(RecordKind::Contact).unwrap_or_default();
            let form = known.contact.write();
            if form[..] != *row {
                // The card was united by a version before, without a bound.
                at.step.put(RecordKind::Contact, key32(id.0), Retention::Permanent, form);
            }
            let Known { contact, windows, quota, mut peer, lane, relay, mixnet } = *known;
            if parts.aside.lost(RecordKind::RelayPeer) && relay == RelayPeer::default() {
                // Where it reads is lost; a new session says where we do.
                peer.renewal.renew = true;
            }
            parts.contacts.load(id, contact);
            parts.threads.load(id, windows, quota);
            parts.sessions.load(id, peer, at.step);
            parts.outbox.load(id, lane, at.step);
            parts.carriers.relay.load_peer(id, relay);
            parts.carriers.mixnet.load_peer(id, mixnet);
        }
        Ok(Loaded::Inviter(loaded)) => {
            let (inviter, peer) = *loaded;
            parts.sessions.load(id, peer, at.step);
            parts.carriers.mixnet.load_inviter(id, inviter, at.step);
        }
        Err(_) => set_aside(parts, person),
    }
}

fn set_aside<B: Backend>(parts: &mut Parts<CarrierSet<B>>, person: &Person) {
    let part = person.part();
    if let Some((ik, name)) = person.owner() {
        parts.aside.belongs_to(&ik);
        if let Some(name) = name {
            parts.aside.call(part, name);
        }
    }
    for (kind, key, value) in &person.rows {
        parts.aside.add(part, *kind, key.clone(), value.len());
    }
}

impl Person {
    fn of(&self, kind: RecordKind) -> impl Iterator<Item = (&[u8], &[u8])> {
        let own = self.rows.iter().filter(move |(other, _, _)| *other == kind);
        own.map(|(_, key, value)| (&key[PERSON_BYTES..], value.as_slice()))
    }

    /// The one row of this kind, if there is one.
    fn value(&self, kind: RecordKind) -> Option<&[u8]> {
        self.of(kind).find(|(key, _)| key.is_empty()).map(|(_, value)| value)
    }

    /// The same with other rows of some kinds.
    fn with(&self, newer: Vec<Row>) -> Self {
        let stays = |kind: &RecordKind| newer.iter().all(|(other, _, _)| other != kind);
        let kept = self.rows.iter().filter(|(kind, _, _)| stays(kind));
        let kept = kept.map(|(kind, key, row)| (*kind, key.clone(), Wiping::new(row.to_vec())));
        let rows = kept.collect::<Vec<_>>().into_iter().chain(newer).collect();
        Self { id: self.id, rows }
    }

    fn peer<B: Backend>(
        &self,
        local: IdentityKey,
        remote: IdentityKey,
    ) -> Result<SessionPeer<B>, DecodeError> {
        let record = |table| move |(key, value)| StoredRow { table, key, value };
        let sessions = self.of(RecordKind::Session).map(record(Table::Session));
        let skipped = self.of(RecordKind::Skipped).map(record(Table::Skipped));
        let conversation = Conversation::load(local, remote, sessions.chain(skipped))?;
        let mut peer = SessionPeer::new(conversation);
        if let Some(row) = self.value(RecordKind::Renewal) {
            peer.renewal = Renewal::read(row)?;
        }
        for (key, row) in self.of(RecordKind::Seen) {
            if let [place] = key {
                peer.replays.read(*place, row)?;
            }
        }
        Ok(peer)
    }

    /// A row that is there once something is to be stored.
    fn optional<T: Default>(
        &self,
        kind: RecordKind,
        read: fn(&[u8]) -> Result<T, DecodeError>,
    ) -> Result<T, DecodeError> {
        self.value(kind).map_or_else(|| Ok(T::default()), read)
    }

    fn load<B: Backend>(
        &self,
        local: IdentityKey,
        heard: &Heard,
    ) -> Result<Loaded<B>, DecodeError> {
        id32(&self.id.0.to_be_bytes())?;
        let singles = self.of(RecordKind::Contact).chain(self.of(RecordKind::Guest));
        if singles.count() != 1 {
            return Err(DecodeError::Value);
        }
        if let Some(row) = self.value(RecordKind::Contact) {
            return Ok(Loaded::Contact(Box::new(self.contact(row, local, heard)?)));
        }
        let inviter = Inviter::read(self.value(RecordKind::Guest).ok_or(DecodeError::Value)?)?;
        let peer = self.peer(local, inviter.ik)?;
        let windows = self.of(RecordKind::Seen).any(|(key, _)| key.len() != 1);
        if windows {
            Err(DecodeError::Value)
        } else {
            Ok(Loaded::Inviter(Box::new((inviter, peer))))
        }
    }

    fn contact<B: Backend>(
        &self,
        row: &[u8],
        local: IdentityKey,
        heard: &Heard,
    ) -> Result<Known<B>, DecodeError> {
        let contact = Contact::read(row)?;
        let peer = self.peer(local, *contact.card.ik())?;
        let mut windows = BTreeMap::new();
        for (key, row) in self.of(RecordKind::Seen).filter(|(key, _)| key.len() != 1) {
            let (era, of_era) = read_windows(key, row)?;
            windows.insert(era, of_era);
        }
        let mut eras = heard.iter().filter(|(of, _)| *of == self.id).map(|(_, era)| era);
        if !eras.all(|era| windows.contains_key(era)) {
            return Err(DecodeError::Value);
        }
        Ok(Known {
            // Without it a number might be used twice.
            lane: Lane::read(self.value(RecordKind::Owed).ok_or(DecodeError::Value)?)?,
            quota: self.optional(RecordKind::Quota, Quota::read)?,
            relay: self.optional(RecordKind::RelayPeer, RelayPeer::read)?,
            mixnet: self.optional(RecordKind::MixnetPeer, MixnetPeer::read)?,
            contact,
            windows,
            peer,
        })
    }

    /// Which part of the device it is.
    fn part(&self) -> Part {
        match self.value(RecordKind::Guest) {
            Some(_) if self.value(RecordKind::Contact).is_none() => Part::Guest(self.id),
            _ => Part::Contact(self.id),
        }
    }

    /// Who it is and what the person calls it, as far as the rows still say so.
    fn owner(&self) -> Option<(IdentityKey, Option<String>)> {
        let contact = self.value(RecordKind::Contact).and_then(contacts::owner);
        let contact = contact.map(|(ik, name)| (ik, Some(name)));
        contact.or_else(|| Some((mixnet::owner(self.value(RecordKind::Guest)?)?, None)))
    }
}

/// Whose notes of which eras have arrived, as far as the notes still say so.
fn heard(notes: &RowsByKey) -> Heard {
    let notes = notes.values().filter_map(|value| StoredNote::read(value).ok());
    notes.filter(|note| note.incoming).map(|note| (note.contact, note.era)).collect()
}
