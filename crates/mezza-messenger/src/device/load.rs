//! From stored records to a device and back.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::vec::Vec;

use super::invite::HeldBundle;
use super::mailbox::ANNOUNCEMENT_KEY;
use super::{
    Announcement, Asked, Backend, Bucket, Changes, CryptoRng, Device, Entry, Held, Kind, Mailbox,
    NoteId, Parcel, Prekeys, Profile, SlotId, Time, key_recent, key_seen, key32, key64,
};
use crate::carrier::mixnet::{Membership, Net};
use crate::contact::Contact;
use crate::error::LoadError;
use crate::guest::Guest;
use crate::io::{self, ContactId};
use crate::receipt::Window;
use crate::share::Amount;
use mezza_core::{DecodeError, Reader, Wiping};
use mezza_lanes::{Kernel, portable};
use mezza_ratchet::{Conversation, IdentityKey, Record, Table};

/// Stored records of one kind by key.
type Shelf = BTreeMap<Vec<u8>, Wiping<Vec<u8>>>;
/// Stored records by kind and key.
type Rows = BTreeMap<Kind, Shelf>;

/// The rows of all conversations.
struct Talks {
    sessions: Shelf,
    skipped: Shelf,
}

impl Talks {
    /// The conversation whose rows begin with the key of its contact.
    fn load<B: Backend>(
        &self,
        key: &[u8],
        local: IdentityKey,
        remote: IdentityKey,
    ) -> Result<Conversation<B>, DecodeError> {
        let of = |table, rows: &'_ Shelf| {
            let own = rows.range(key.to_vec()..).take_while(|(k, _)| k.starts_with(key));
            own.map(|(k, v)| (table, k[key.len()..].to_vec(), v.to_vec())).collect::<Vec<_>>()
        };
        let rows = [of(Table::Session, &self.sessions), of(Table::Skipped, &self.skipped)].concat();
        let rows = rows.iter().map(|(table, key, value)| Record { table: *table, key, value });
        Conversation::load(local, remote, rows)
    }
}

impl<B: Backend> Device<B> {
    /// Puts a device together from what was stored, as it was after the last commit.
    pub fn load(
        records: impl IntoIterator<Item = (Kind, Vec<u8>, Wiping<Vec<u8>>)>,
        now: Time,
        rng: &mut dyn CryptoRng,
    ) -> Result<Self, LoadError> {
        Self::load_on(portable(), records, now, rng)
    }

    /// The same, with what a mixnet's client computes on.
    pub fn load_on(
        kernel: &'static dyn Kernel,
        records: impl IntoIterator<Item = (Kind, Vec<u8>, Wiping<Vec<u8>>)>,
        now: Time,
        rng: &mut dyn CryptoRng,
    ) -> Result<Self, LoadError> {
        let mut rows = Rows::new();
        for (kind, key, value) in records {
            rows.entry(kind).or_default().insert(key, value);
        }
        let mut take = |kind| rows.remove(&kind).unwrap_or_default();
        let profile = take(Kind::Profile);
        let (_, profile) = profile.first_key_value().ok_or(LoadError::Empty)?;
        let profile = Profile::read(profile)?;
        let identity = profile.identity::<B>();
        let mut prekeys = take(Kind::Prekey);
        let announcement = prekeys.remove(&ANNOUNCEMENT_KEY[..]);
        let prekeys = load_prekeys(&identity, &prekeys)?;
        let mut device = Self::empty(profile, identity, prekeys);
        device.announcement = announcement.map(|value| Announcement::read(&value)).transpose()?;
        let talks = Talks { sessions: take(Kind::Session), skipped: take(Kind::Skipped) };
        device.load_contacts(&take(Kind::Contact), &talks)?;
        device.load_guests(&take(Kind::Guest), &talks)?;
        for (key, value) in take(Kind::Bundle) {
            device.bundles.insert(ContactId(id32(&key)?), HeldBundle::read(&value)?);
        }
        device.load_arrived(&take(Kind::Seen))?;
        for (key, value) in take(Kind::Slot) {
            device.slots.insert(SlotId(id32(&key)?), Mailbox::read(&value)?);
        }
        for (key, value) in take(Kind::Parcel) {
            device.parcels.insert(id64(&key)?, Parcel::read(&value)?);
        }
        for (key, value) in take(Kind::Held) {
            device.held.insert(id64(&key)?, read_held(&value)?);
        }
        for (key, value) in take(Kind::Note) {
            device.load_note(NoteId(id64(&key)?), &value)?;
        }
        device.kernel = kernel;
        if let Some(value) = take(Kind::Network).values().next() {
            let member = Membership::read(value)?;
            let rows = take(Kind::NetworkRow).into_iter().map(|(key, row)| Ok((id64(&key)?, row)));
            let rows = rows.collect::<Result<Vec<_>, LoadError>>()?;
            let net = Net::restore(member, kernel, &rows, now, rng);
            device.net = Some(net.map_err(|_| LoadError::Damaged(DecodeError::Value))?);
        }
        device.next_parcel = device.parcels.last_key_value().map_or(1, |(id, _)| id + 1);
        device.start(now, rng);
        Ok(device)
    }

    fn load_contacts(&mut self, contacts: &Shelf, talks: &Talks) -> Result<(), LoadError> {
        let local = self.identity.public();
        for (key, value) in contacts {
            let id = ContactId(id32(key)?);
            let contact = Contact::read(id, value, |card| talks.load(key, local, *card.ik()))?;
            self.contacts.insert(id, contact);
            self.threads.entry(id).or_default();
        }
        Ok(())
    }

    fn load_guests(&mut self, guests: &Shelf, talks: &Talks) -> Result<(), LoadError> {
        let local = self.identity.public();
        for (key, value) in guests {
            let id = ContactId(id32(key)?);
            let guest = Guest::read(id, value, |ik| talks.load(key, local, ik))?;
            self.guests.insert(id, guest);
        }
        Ok(())
    }

    fn load_arrived(&mut self, rows: &Shelf) -> Result<(), LoadError> {
        for (key, value) in rows {
            if let Ok((id, _)) = Reader::all(key, |r| Ok::<_, DecodeError>((r.u32()?, r.u8()?))) {
                if let Some(contact) = self.contacts.get_mut(&ContactId(id)) {
                    contact.recent.read(value)?;
                }
                continue;
            }
            let (id, era) =
                Reader::all(key, |r| Ok::<_, DecodeError>((ContactId(r.u32()?), r.array::<4>()?)))?;
            let windows =
                Reader::all(value, |r| Ok::<_, DecodeError>((Window::read(r)?, Window::read(r)?)))?;
            if let Some(contact) = self.contacts.get_mut(&id) {
                contact.arrived.insert(era, windows);
            }
        }
        Ok(())
    }

    fn load_note(&mut self, id: NoteId, value: &[u8]) -> Result<(), LoadError> {
        let entry = Entry::read(value)?;
        self.profile.next_note = self.profile.next_note.max(id.0 + 1);
        self.index(id, &entry);
        if !entry.incoming && !entry.is_delivered() {
            let parcel = self.parcels.values().any(|parcel| parcel.note == Some(id));
            let sealed = entry.seq > 0 && !entry.again;
            if !parcel && !sealed {
                self.waiting.insert((entry.contact, id));
            }
        }
        self.notes.insert(id, entry);
        Ok(())
    }

    /// Puts a note into everything that is derived from the notes.
    pub(super) fn index(&mut self, id: NoteId, entry: &Entry) {
        self.threads.entry(entry.contact).or_default().insert(id);
        self.ends.extend(entry.due().map(|due| (due, id)));
        self.count_unseen(entry, Amount::add);
        if entry.incoming {
            return;
        }
        self.clients.insert(entry.client, id);
        if entry.seq > 0 && entry.era == self.era(entry.contact) {
            let read = entry.facts.iter().any(|f| f.what == crate::evidence::What::Read);
            if !entry.is_delivered() {
                self.unreceipted[0].insert((entry.contact, entry.seq), id);
            } else if !read {
                self.unreceipted[1].insert((entry.contact, entry.seq), id);
            }
        }
    }

    /// Counts a note that the person has not seen.
    pub(super) fn count_unseen(&mut self, entry: &Entry, count: fn(&mut Amount, u32)) {
        if entry.incoming
            && !entry.seen
            && let Some(contact) = self.contacts.get_mut(&entry.contact)
        {
            count(&mut contact.unseen, entry.body_bytes());
        }
    }

    /// Takes a note out of everything that is derived from the notes.
    pub(super) fn unindex(&mut self, id: NoteId, entry: &Entry) {
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

    /// Every record as it lies in the store after the last commit, in the order of kind and key.
    pub fn records(&self) -> Vec<io::Change> {
        let mut all = Vec::new();
        let mut put = |kind, key, bucket, value| {
            all.push(io::Change::Put { kind, key, bucket, value });
        };
        put(Kind::Profile, Vec::new(), Bucket::Permanent, self.profile.write());
        if let Some(net) = &self.net {
            put(Kind::Network, Vec::new(), Bucket::Permanent, net.member.write());
        }
        for (id, contact) in &self.contacts {
            put(Kind::Contact, key32(id.0), Bucket::Permanent, contact.write());
        }
        for (id, entry) in &self.notes {
            put(Kind::Note, key64(id.0), entry.bucket(), entry.write());
        }
        for (id, parcel) in &self.parcels {
            put(Kind::Parcel, key64(*id), Bucket::Rolling, parcel.write());
        }
        for (id, slot) in &self.slots {
            put(Kind::Slot, key32(id.0), Bucket::Rolling, slot.write());
        }
        for (id, guest) in &self.guests {
            put(Kind::Guest, key32(id.0), Bucket::Rolling, guest.write());
        }
        for (id, held) in &self.bundles {
            put(Kind::Bundle, key32(id.0), Bucket::Rolling, held.write());
        }
        let contacts = self.contacts.iter().map(|(id, contact)| (id, &contact.conversation));
        let guests = self.guests.iter().map(|(id, guest)| (id, &guest.conversation));
        for (id, conversation) in contacts.chain(guests) {
            for change in conversation.records() {
                let kind = match change.table() {
                    Table::Session => Kind::Session,
                    _ => Kind::Skipped,
                };
                if let mezza_ratchet::Change::Put { key, value, .. } = change {
                    put(kind, [key32(id.0), key].concat(), Bucket::Rolling, value);
                }
            }
        }
        put_prekeys(&mut put, self.prekeys.records());
        if let Some(announcement) = &self.announcement {
            let key = ANNOUNCEMENT_KEY.into();
            put(Kind::Prekey, key, Bucket::Rolling, announcement.write());
        }
        for (id, contact) in &self.contacts {
            for place in contact.recent.places() {
                let value = contact.recent.write(place);
                put(Kind::Seen, key_recent(*id, place), Bucket::Permanent, value);
            }
            for (era, (arrived, read)) in &contact.arrived {
                let mut w = mezza_core::Writer::new();
                arrived.write(&mut w);
                read.write(&mut w);
                let value = Wiping::new(w.finish());
                put(Kind::Seen, key_seen(*id, *era), Bucket::Permanent, value);
            }
        }
        for (key, held) in &self.held {
            put(Kind::Held, key64(*key), Bucket::Rolling, super::arrive::write_held(held));
        }
        all
    }

    /// Everything that an input could change, as bytes: records, requests in flight, outputs.
    /// A refused input leaves it as it was (MSG-36).
    pub fn encode(&self) -> Wiping<Vec<u8>> {
        let mut w = mezza_core::Writer::new();
        for change in self.records() {
            if let io::Change::Put { kind, key, value, .. } = change {
                w.u8(kind as u8).var16(&key).u32(value.len() as u32).bytes(&value);
            }
        }
        w.bytes(&self.prekeys.encode()).u64(self.next_ticket).u64(self.next_parcel);
        w.u64(self.retry_at.ms()).u16(self.stock.unwrap_or(u16::MAX)).u64(self.out.len() as u64);
        for (ticket, (line, asked)) in &self.tickets {
            let (kind, of) = match asked {
                Asked::Parcel(id) => (1, *id),
                Asked::Open(id) => (2, u64::from(id.0)),
                Asked::Close(id) => (3, u64::from(id.0)),
                Asked::Watch(id) => (4, u64::from(id.0)),
                Asked::Publish => (5, 0),
                Asked::Fetch(id) => (6, u64::from(id.0)),
                Asked::Hold(id) => (7, u64::from(id.0)),
            };
            w.u64(ticket.0).bytes(&line.map_or([0; 16], |line| line.0)).u8(kind).u64(of);
        }
        if let Some(net) = &self.net {
            w.bytes(format!("{:?}", net.client).as_bytes()).u8(u8::from(net.joined)).u8(net.level);
        }
        for (line, link) in &self.links {
            w.bytes(&line.0).u8(u8::from(link.up.is_some())).u8(link.in_flight as u8);
        }
        for contact in self.contacts.values() {
            contact.receipts.write(&mut w);
            contact.repeats.write(&mut w);
            contact.oldest.write(&mut w);
            w.u64(contact.fetch_after.ms()).u8(u8::from(contact.trouble.is_some()));
        }
        Wiping::new(w.finish())
    }
}

fn load_prekeys(identity: &mezza_ratchet::Identity, rows: &Shelf) -> Result<Prekeys, LoadError> {
    let mut records = Vec::new();
    for (key, value) in rows {
        let (number, key) = key.split_first().ok_or(DecodeError::Truncated)?;
        let table = Table::from_number(*number).ok_or(DecodeError::Value)?;
        records.push(Record { table, key, value });
    }
    Ok(Prekeys::load(identity.duplicate(), records)?)
}

fn put_prekeys(put: &mut impl FnMut(Kind, Vec<u8>, Bucket, Wiping<Vec<u8>>), changes: Changes) {
    for change in changes {
        let number = change.table().number();
        if let mezza_ratchet::Change::Put { key, value, .. } = change {
            put(Kind::Prekey, [&[number], key.as_slice()].concat(), Bucket::Rolling, value);
        }
    }
}

fn read_held(bytes: &[u8]) -> Result<Held, DecodeError> {
    Reader::all(bytes, |r| {
        let contact = ContactId(r.u32()?);
        let at = Time::from_ms(r.u64()?);
        Ok(Held { contact, at, bytes: r.var16()?.to_vec() })
    })
}

fn id32(key: &[u8]) -> Result<u32, DecodeError> {
    Reader::all(key, Reader::u32)
}

fn id64(key: &[u8]) -> Result<u64, DecodeError> {
    Reader::all(key, Reader::u64)
}
