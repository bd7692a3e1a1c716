//! From stored records to a device.
//!
//! ```text
//! rows -> profile (without it there is nobody to be)
//!      -> prekeys | people | mailboxes | bundles | notes -> parcels | held | network
//!              a record that does not load -> aside, with what cannot do without it
//!      -> what can stand in for it is made -> start
//! ```

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;

use super::invite::HeldBundle;
use super::mailbox::ANNOUNCEMENT_KEY;
use super::{
    Backend, CryptoRng, Device, Mailbox, MailboxId, NoteId, OwnIdentity, Parcel, PrekeyUpload,
    Prekeys, RecordKind, StoredNote, Time, UndecryptedParcel, key64,
};
use crate::carriers::mixnet::{JoinedNetwork, Membership};
use crate::contact::{self, Contact};
use crate::error::LoadError;
use crate::evidence::FactKind;
use crate::guest::{self, IncomingInvitation};
use crate::io::{ContactId, Unread};
use crate::note::Era;
use crate::relay_wire::MailboxAddress;
use crate::share::Amount;
use crate::view::Part;
use mezza_core::{DecodeError, Reader, Wiping};
use mezza_lanes::{Kernel, portable};
use mezza_ratchet::{Conversation, IdentityKey, IdentityKeyPair, StoredRow, Table};

/// Stored records of one kind by key.
type RecordsByKey = BTreeMap<Vec<u8>, Wiping<Vec<u8>>>;
/// Stored records by kind and key.
type Rows = BTreeMap<RecordKind, RecordsByKey>;

/// The eras of which there are notes of a contact, each of which has a window among the records of
/// that contact.
type Heard = BTreeSet<(ContactId, Era)>;

/// Bytes of a contact's number, with which the keys of all its records begin.
const PERSON_BYTES: usize = 4;

/// The records of one contact or guest: they load together or not at all. A session without the
/// memory of what came in it, or a card without its session, would be another contact.
struct Person {
    id: ContactId,
    rows: Vec<(RecordKind, Vec<u8>, Wiping<Vec<u8>>)>,
}

/// What the records of a person are.
enum Known<B: Backend> {
    Contact(Box<Contact<B>>),
    Guest(IncomingInvitation<B>),
}

impl Person {
    fn of(&self, kind: RecordKind) -> impl Iterator<Item = (&[u8], &[u8])> {
        let own = self.rows.iter().filter(move |(other, _, _)| *other == kind);
        own.map(|(_, key, value)| (&key[PERSON_BYTES..], value.as_slice()))
    }

    /// The one record of this kind, if there is one.
    fn value(&self, kind: RecordKind) -> Option<&[u8]> {
        self.of(kind).find(|(key, _)| key.is_empty()).map(|(_, value)| value)
    }

    fn conversation<B: Backend>(
        &self,
        local: IdentityKey,
        remote: IdentityKey,
    ) -> Result<Conversation<B>, DecodeError> {
        let record = |table| move |(key, value)| StoredRow { table, key, value };
        let sessions = self.of(RecordKind::Session).map(record(Table::Session));
        let skipped = self.of(RecordKind::Skipped).map(record(Table::Skipped));
        Conversation::load(local, remote, sessions.chain(skipped))
    }

    fn load<B: Backend>(&self, local: IdentityKey, heard: &Heard) -> Result<Known<B>, DecodeError> {
        let id = ContactId(id32(&self.id.0.to_be_bytes())?);
        let singles = self.of(RecordKind::Contact).chain(self.of(RecordKind::Guest));
        if singles.count() != 1 {
            return Err(DecodeError::Value);
        }
        if let Some(value) = self.value(RecordKind::Contact) {
            let talk = |card: &crate::card::Card| self.conversation(local, *card.ik());
            let mut contact = Contact::read(id, value, talk)?;
            for (key, value) in self.of(RecordKind::Seen) {
                contact.read_arrived(key, value)?;
            }
            let mut eras = heard.iter().filter(|(of, _)| *of == id).map(|(_, era)| era);
            if !eras.all(|era| contact.arrived.contains_key(era)) {
                return Err(DecodeError::Value);
            }
            return Ok(Known::Contact(Box::new(contact)));
        }
        let value = self.value(RecordKind::Guest).ok_or(DecodeError::Value)?;
        let guest = IncomingInvitation::read(id, value, |ik| self.conversation(local, ik))?;
        let seen = self.of(RecordKind::Seen).next().is_some();
        if seen { Err(DecodeError::Value) } else { Ok(Known::Guest(guest)) }
    }

    /// Which part of the device it is.
    fn part(&self) -> Part {
        match self.value(RecordKind::Guest) {
            Some(_) if self.value(RecordKind::Contact).is_none() => Part::Guest(self.id),
            _ => Part::Contact(self.id),
        }
    }

    /// Who it is and what the person calls it, as far as the records still say so.
    fn owner(&self) -> Option<(IdentityKey, Option<String>)> {
        let contact = self.value(RecordKind::Contact).and_then(contact::owner);
        let contact = contact.map(|(ik, name)| (ik, Some(name)));
        contact.or_else(|| Some((guest::owner(self.value(RecordKind::Guest)?)?, None)))
    }
}

impl<B: Backend> Device<B> {
    /// Puts a device together from what was stored, as it was after the last commit. What does not
    /// load is set aside ([`set_aside`](Self::set_aside)), and everything else is there.
    ///
    /// # Errors
    /// Without its profile a device is nobody's.
    pub fn load(
        records: impl IntoIterator<Item = (RecordKind, Vec<u8>, Wiping<Vec<u8>>)>,
        now: Time,
        rng: &mut dyn CryptoRng,
    ) -> Result<Self, LoadError> {
        Self::load_on(portable(), records, &[], now, rng)
    }

    /// The same, with what a mixnet's client computes on and what the store could not open.
    ///
    /// # Errors
    /// Without its profile a device is nobody's.
    pub fn load_on(
        kernel: &'static dyn Kernel,
        records: impl IntoIterator<Item = (RecordKind, Vec<u8>, Wiping<Vec<u8>>)>,
        unread: &[Unread],
        now: Time,
        rng: &mut dyn CryptoRng,
    ) -> Result<Self, LoadError> {
        let mut rows = Rows::new();
        for (kind, key, value) in records {
            rows.entry(kind).or_default().insert(key, value);
        }
        let mut take = |kind| rows.remove(&kind).unwrap_or_default();
        let mut profiles = take(RecordKind::Profile);
        let profile = profiles.remove(&[][..]).ok_or(LoadError::Empty)?;
        let profile = OwnIdentity::read(&profile).map_err(LoadError::Profile)?;
        let identity = profile.identity::<B>();
        let prekeys = Prekeys::new(identity.duplicate());
        let mut device = Self::empty(profile, identity, prekeys);
        device.kernel = kernel;
        device.aside.sealed(unread);
        device.set_aside_all(Part::Other, RecordKind::Profile, profiles);
        device.load_prekeys(take(RecordKind::Prekey));
        let people = [
            RecordKind::Contact,
            RecordKind::Guest,
            RecordKind::Session,
            RecordKind::Skipped,
            RecordKind::Seen,
        ];
        let people = people.map(|kind| (kind, take(kind)));
        let notes = take(RecordKind::Note);
        let heard =
            if device.aside.lost(RecordKind::Seen) { heard(&notes) } else { BTreeSet::new() };
        device.load_people(people, &heard);
        device.load_mailboxes(take(RecordKind::Slot));
        device.load_bundles(take(RecordKind::Bundle));
        device.load_notes(notes);
        device.load_parcels(take(RecordKind::Parcel));
        device.load_held(take(RecordKind::Held));
        device.load_net(&take(RecordKind::Network), take(RecordKind::NetworkRow), now, rng);
        device.mend(now, rng);
        device.start(now, rng);
        Ok(device)
    }

    /// Sets records aside.
    fn set_aside_all(&mut self, part: Part, kind: RecordKind, rows: RecordsByKey) {
        for (key, value) in rows {
            self.aside.add(part, kind, key, value.len());
        }
    }

    /// A prekey that does not load is set aside alone. The memory of the sessions that began with a
    /// signed prekey belongs to it: without that, what began one could begin it once more.
    fn load_prekeys(&mut self, mut rows: RecordsByKey) {
        if let Some(value) = rows.remove(&ANNOUNCEMENT_KEY[..]) {
            self.announcement = PrekeyUpload::read(&value).ok();
            if self.announcement.is_none() {
                let key = ANNOUNCEMENT_KEY.into();
                self.aside.add(Part::Prekeys, RecordKind::Prekey, key, value.len());
            }
        }
        if prekeys_of(&self.identity, rows.iter()).is_err() {
            let bad = unsound_prekeys(&self.identity, &rows);
            let (bad, good) = rows.into_iter().partition(|(key, _)| bad.contains(key));
            self.set_aside_all(Part::Prekeys, RecordKind::Prekey, bad);
            rows = good;
        }
        match prekeys_of(&self.identity, rows.iter()) {
            Ok(prekeys) => self.prekeys = prekeys,
            Err(_) => self.set_aside_all(Part::Prekeys, RecordKind::Prekey, rows),
        }
    }

    fn load_people<const N: usize>(
        &mut self,
        shelves: [(RecordKind, RecordsByKey); N],
        heard: &Heard,
    ) {
        let mut people = BTreeMap::<[u8; PERSON_BYTES], Vec<_>>::new();
        for (kind, shelf) in shelves {
            for (key, value) in shelf {
                match key.first_chunk() {
                    Some(id) => people.entry(*id).or_default().push((kind, key, value)),
                    None => self.aside.add(Part::Other, kind, key, value.len()),
                }
            }
        }
        for (id, rows) in people {
            let id = ContactId(u32::from_be_bytes(id));
            self.load_person(&Person { id, rows }, heard);
        }
    }

    fn load_person(&mut self, person: &Person, heard: &Heard) {
        self.profile.next_contact = above(self.profile.next_contact, person.id.0);
        match person.load(self.identity.public(), heard) {
            Ok(Known::Contact(contact)) => {
                let id = contact.id;
                let stored = person.value(RecordKind::Contact).unwrap_or_default();
                let older = contact.write()[..] != *stored;
                self.contacts.insert(id, *contact);
                self.threads.entry(id).or_default();
                if older {
                    self.store_contact(id);
                }
            }
            Ok(Known::Guest(guest)) => drop(self.guests.insert(guest.id, guest)),
            Err(_) => {
                let part = person.part();
                if let Some((ik, name)) = person.owner() {
                    self.aside.belongs_to(&ik);
                    if let Some(name) = name {
                        self.aside.call(part, name);
                    }
                }
                for (kind, key, value) in &person.rows {
                    self.aside.add(part, *kind, key.clone(), value.len());
                }
            }
        }
    }

    fn load_mailboxes(&mut self, rows: RecordsByKey) {
        for (key, value) in rows {
            let read = id32(&key).and_then(|id| Ok((MailboxId(id), Mailbox::read(&value)?)));
            let number = key.first_chunk().map_or(0, |id| u32::from_be_bytes(*id));
            self.profile.next_slot = above(self.profile.next_slot, number);
            let part = match read {
                Ok((id, slot)) => match slot.contact.filter(|id| !self.contacts.contains_key(id)) {
                    None => {
                        self.slots.insert(id, slot);
                        continue;
                    }
                    Some(contact) => self.part_of(contact),
                },
                Err(_) => Part::Mailbox(MailboxId(number)),
            };
            self.aside.add(part, RecordKind::Slot, key, value.len());
        }
    }

    fn load_bundles(&mut self, rows: RecordsByKey) {
        for (key, value) in rows {
            let read = id32(&key).and_then(|id| Ok((ContactId(id), HeldBundle::read(&value)?)));
            match read {
                Ok((id, held)) if self.contacts.contains_key(&id) => {
                    self.bundles.insert(id, held);
                }
                _ => self.aside.add(Part::Bundles, RecordKind::Bundle, key, value.len()),
            }
        }
    }

    fn load_notes(&mut self, rows: RecordsByKey) {
        for (key, value) in rows {
            let id = id64(&key);
            let next = id.map_or(0, |id| id + 1);
            self.profile.next_note = self.profile.next_note.max(next);
            let part = match id.and_then(|id| Ok((NoteId(id), StoredNote::read(&value)?))) {
                Ok((id, entry)) if self.contacts.contains_key(&entry.contact) => {
                    self.index(id, &entry);
                    self.notes.insert(id, entry);
                    continue;
                }
                Ok((_, entry)) => self.part_of(entry.contact),
                Err(_) => Part::Notes,
            };
            self.aside.add(part, RecordKind::Note, key, value.len());
        }
    }

    /// A parcel whose note is not there is set aside: the note has the pin under which it leaves.
    fn load_parcels(&mut self, rows: RecordsByKey) {
        for (key, value) in rows {
            let read = id64(&key).and_then(|id| Ok((id, Parcel::read(&value)?)));
            let part = match read {
                Ok((id, parcel)) => {
                    let known = self.contacts.contains_key(&parcel.contact);
                    if known && parcel.note.is_none_or(|note| self.notes.contains_key(&note)) {
                        self.parcels.insert(id, parcel);
                        continue;
                    }
                    if known { Part::Notes } else { self.part_of(parcel.contact) }
                }
                Err(_) => Part::Parcels,
            };
            self.aside.add(part, RecordKind::Parcel, key, value.len());
        }
        let last = self.parcels.last_key_value().map_or(0, |(id, _)| *id);
        self.next_parcel = (last + 1).max(self.aside.next(RecordKind::Parcel));
    }

    fn load_held(&mut self, rows: RecordsByKey) {
        for (key, value) in rows {
            let read = id64(&key).and_then(|id| Ok((id, read_held(&value)?)));
            let part = match read {
                Ok((id, held)) if self.contacts.contains_key(&held.contact) => {
                    self.held.insert(id, held);
                    continue;
                }
                Ok((_, held)) => self.part_of(held.contact),
                Err(_) => Part::Parcels,
            };
            self.aside.add(part, RecordKind::Held, key, value.len());
        }
    }

    /// The network loads with its client or not at all. The client goes on without a row that it
    /// cannot read.
    fn load_net(
        &mut self,
        networks: &RecordsByKey,
        rows: RecordsByKey,
        now: Time,
        rng: &mut dyn CryptoRng,
    ) {
        let all = networks.iter().map(|row| (RecordKind::Network, row));
        let all = all.chain(rows.iter().map(|row| (RecordKind::NetworkRow, row)));
        let all = all.map(|(kind, (key, value))| (kind, key.clone(), value.len()));
        let mut all = all.collect::<Vec<_>>();
        let member = networks.get(&[][..]).and_then(|value| Membership::read(value).ok());
        let name = member.as_ref().map(|member| member.link.address.clone());
        let numbered = rows.into_iter().map(|(key, row)| Ok((id64(&key)?, row)));
        let numbered = numbered.collect::<Result<Vec<_>, DecodeError>>().ok();
        self.net = member
            .zip(numbered)
            .filter(|_| networks.len() == 1 && !self.aside.lost(RecordKind::NetworkRow))
            .and_then(|(member, rows)| {
                JoinedNetwork::restore(member, self.kernel, &rows, now, rng).ok()
            });
        let part = match &self.net {
            None => Part::Network,
            Some(net) => {
                let unread = net.client.aside().iter().map(|row| key64(row.seq));
                let unread: BTreeSet<_> = unread.collect();
                all.retain(|(kind, key, _)| {
                    *kind == RecordKind::NetworkRow && unread.contains(key)
                });
                Part::NetworkRows
            }
        };
        if let Some(name) = name {
            self.aside.call(part, name);
        }
        for (kind, key, bytes) in all {
            self.aside.add(part, kind, key, bytes);
        }
    }

    /// What belongs to somebody who did not load.
    fn part_of(&self, id: ContactId) -> Part {
        let guest = Part::Guest(id);
        if self.aside.has(guest) { guest } else { Part::Contact(id) }
    }

    /// Makes what can stand in the place of what was set aside.
    fn mend(&mut self, now: Time, rng: &mut dyn CryptoRng) {
        let lost = self.aside.parcels();
        if lost != self.profile.mended {
            self.profile.mended = lost;
            self.store_profile();
            if lost != [0; 16] {
                self.seal_again();
            }
        }
        self.wait_again();
        let homeless = self.contacts.values_mut().filter_map(|contact| {
            contact.our_mailbox.take_if(|slot| !self.slots.contains_key(slot))?;
            Some(contact.id)
        });
        for id in homeless.collect::<Vec<_>>() {
            self.store_contact(id);
        }
        let relays = self.profile.relays.clone();
        let open: BTreeSet<MailboxAddress> =
            self.slots.values().map(|slot| slot.relay.address).collect();
        self.profile.relays.retain(|relay| open.contains(&relay.address));
        if self.profile.relays.len() < relays.len() {
            let name = self.profile.name.clone();
            // The same name and relays as on the card before, with another mailbox.
            let _ = self.reissue(name, &relays, now, rng);
        }
        if self.aside.holds(RecordKind::Prekey, &ANNOUNCEMENT_KEY)
            || self.aside.lost(RecordKind::Prekey)
        {
            self.offer_again();
        }
    }

    /// Other parcels are set aside than before, nobody knows whose: what was in them is sealed once
    /// more, under the same numbers, and what they said of the device itself is owed again.
    fn seal_again(&mut self) {
        let out: BTreeSet<NoteId> =
            self.parcels.values().filter_map(|parcel| parcel.note).collect();
        let lost = self.notes.iter().filter(|(id, entry)| {
            let handed = entry.facts.iter().any(|fact| fact.what == FactKind::Handed);
            let own = !entry.incoming && entry.seq > 0 && !entry.voided;
            own && !handed && !entry.is_delivered() && !out.contains(id)
        });
        for id in lost.map(|(id, _)| *id).collect::<Vec<_>>() {
            if let Some(entry) = self.notes.get_mut(&id) {
                entry.again = true;
                self.store_note(id);
            }
        }
        let all: Vec<ContactId> = self.contacts.keys().copied().collect();
        for id in all {
            self.owe_again(id);
        }
    }

    /// Own notes that are to be sealed.
    fn wait_again(&mut self) {
        let out: BTreeSet<NoteId> =
            self.parcels.values().filter_map(|parcel| parcel.note).collect();
        let waiting = self.notes.iter().filter(|(id, entry)| {
            let sealed = entry.seq > 0 && !entry.again;
            !entry.incoming && !entry.is_delivered() && !sealed && !out.contains(id)
        });
        self.waiting.extend(waiting.map(|(id, entry)| (entry.contact, *id)));
    }

    /// Puts a note into everything that is derived from the notes.
    pub(super) fn index(&mut self, id: NoteId, entry: &StoredNote) {
        self.threads.entry(entry.contact).or_default().insert(id);
        self.ends.extend(entry.due().map(|due| (due, id)));
        self.count_unseen(entry, Amount::add);
        if entry.incoming {
            return;
        }
        self.clients.insert(entry.client, id);
        if entry.seq > 0 && entry.era == self.era(entry.contact) {
            let read = entry.facts.iter().any(|f| f.what == FactKind::Read);
            if !entry.is_delivered() {
                self.unreceipted[0].insert((entry.contact, entry.seq), id);
            } else if !read {
                self.unreceipted[1].insert((entry.contact, entry.seq), id);
            }
        }
    }

    /// Counts a note that the person has not seen.
    pub(super) fn count_unseen(&mut self, entry: &StoredNote, count: fn(&mut Amount, u32)) {
        if entry.incoming
            && !entry.seen
            && let Some(contact) = self.contacts.get_mut(&entry.contact)
        {
            count(&mut contact.unseen, entry.body_bytes());
        }
    }

    /// Takes a note out of everything that is derived from the notes.
    pub(super) fn unindex(&mut self, id: NoteId, entry: &StoredNote) {
        if let Some(thread) = self.threads.get_mut(&entry.contact) {
            thread.remove(&id);
        }
        if let Some(due) = entry.due() {
            self.ends.remove(&(due, id));
        }
        self.count_unseen(entry, Amount::subtract);
        self.clients.remove(&entry.client);
        self.waiting.remove(&(entry.contact, id));
        for list in &mut self.unreceipted {
            list.remove(&(entry.contact, entry.seq));
        }
    }
}

/// Whose notes of which eras have arrived, as far as the notes still say so.
fn heard(notes: &RecordsByKey) -> Heard {
    let entries = notes.values().filter_map(|value| StoredNote::read(value).ok());
    entries.filter(|entry| entry.incoming).map(|entry| (entry.contact, entry.era)).collect()
}

fn prekeys_of<'a>(
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

/// The prekey records that do not load, and those that cannot do without them.
fn unsound_prekeys(identity: &IdentityKeyPair, rows: &RecordsByKey) -> BTreeSet<Vec<u8>> {
    let (seen, pairs): (Vec<_>, Vec<_>) =
        rows.iter().partition(|(key, _)| key.first() == Some(&Table::Seen.number()));
    let alone = |row| prekeys_of(identity, core::iter::once(row)).is_ok();
    let mut bad: BTreeSet<Vec<u8>> =
        pairs.into_iter().filter(|row| !alone(*row)).map(|(key, _)| key.clone()).collect();
    let signed = |key: &[u8]| {
        let id = key.get(1..1 + PERSON_BYTES).unwrap_or_default();
        [&[Table::Spk.number()], id].concat()
    };
    for row in &seen {
        let spk = rows.get_key_value(&signed(row.0));
        if prekeys_of(identity, spk.into_iter().chain([*row])).is_err() {
            bad.extend([row.0.clone(), signed(row.0)]);
        }
    }
    let left = seen.into_iter().filter(|(key, _)| bad.contains(&signed(key)));
    let left: Vec<Vec<u8>> = left.map(|(key, _)| key.clone()).collect();
    bad.extend(left);
    bad
}

pub(super) fn read_held(bytes: &[u8]) -> Result<UndecryptedParcel, DecodeError> {
    Reader::decode_exact(bytes, |r| {
        let contact = ContactId(r.u32()?);
        let at = Time::from_ms(r.u64()?);
        Ok(UndecryptedParcel { contact, at, bytes: r.var16()?.to_vec() })
    })
}

/// A counter that is above a number that was given out; one that is none of ours is left out.
fn above(counter: u32, id: u32) -> u32 {
    if id <= u32::MAX / 4 { counter.max(id + 1) } else { counter }
}

/// A number of ours: none comes near the end of its range. The profile takes counters up to half of
/// the range, so that a counter that begins above any record has as much room again.
pub(super) fn id32(key: &[u8]) -> Result<u32, DecodeError> {
    let id = Reader::decode_exact(key, Reader::u32)?;
    if (1..=u32::MAX / 4).contains(&id) { Ok(id) } else { Err(DecodeError::Value) }
}

/// The same for numbers of 8 bytes.
pub(super) fn id64(key: &[u8]) -> Result<u64, DecodeError> {
    let id = Reader::decode_exact(key, Reader::u64)?;
    if id <= u64::MAX / 4 { Ok(id) } else { Err(DecodeError::Value) }
}
