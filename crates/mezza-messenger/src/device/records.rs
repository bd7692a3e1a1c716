//! What of a device is stored: all of it as rows, and whether a row is one that loads again.

use alloc::format;
use alloc::vec::Vec;

use super::arrive::write_held;
use super::invite::HeldBundle;
use super::load::{id32, read_held};
use super::mailbox::ANNOUNCEMENT_KEY;
use super::{
    Backend, Changes, Device, Mailbox, OwnIdentity, Parcel, PendingRequest, PrekeyUpload,
    RecordKind, Retention, StoredNote, key_recent, key_seen, key32, key64,
};
use crate::carriers::mixnet::Membership;
use crate::contact::{self, Contact};
use crate::guest::IncomingInvitation;
use crate::io::{self, ContactId, RecordChange};
use crate::recent::ReplayCache;
use mezza_core::{DecodeError, Wiping, Writer};
use mezza_ratchet::{Conversation, Table};

/// Most bytes of a record: what a row of the vault holds, with room for its key and lengths.
const RECORD_BYTES_MAX: usize = (1 << 20) - 256;

impl<B: Backend> Device<B> {
    /// Every record as it lies in the store after the last commit, in the order of kind and key,
    /// without what was set aside and the rows of the mixnet's client.
    pub fn records(&self) -> Vec<io::RecordChange> {
        let mut all = Vec::new();
        let mut put = |kind, key, bucket, value| {
            all.push(io::RecordChange::Put { kind, key, bucket, value });
        };
        put(RecordKind::Profile, Vec::new(), Retention::Permanent, self.profile.write());
        if let Some(net) = &self.net {
            put(RecordKind::Network, Vec::new(), Retention::Permanent, net.member.write());
        }
        for (id, contact) in &self.contacts {
            put(RecordKind::Contact, key32(id.0), Retention::Permanent, contact.write());
        }
        for (id, entry) in &self.notes {
            put(RecordKind::Note, key64(id.0), entry.bucket(), entry.write());
        }
        for (id, parcel) in &self.parcels {
            put(RecordKind::Parcel, key64(*id), Retention::Rolling, parcel.write());
        }
        for (id, slot) in &self.slots {
            put(RecordKind::Slot, key32(id.0), Retention::Rolling, slot.write());
        }
        for (id, guest) in &self.guests {
            put(RecordKind::Guest, key32(id.0), Retention::Rolling, guest.write());
        }
        for (id, held) in &self.bundles {
            put(RecordKind::Bundle, key32(id.0), Retention::Rolling, held.write());
        }
        self.put_conversations(&mut put);
        put_prekeys(&mut put, self.prekeys.records());
        if let Some(announcement) = &self.announcement {
            let key = ANNOUNCEMENT_KEY.into();
            put(RecordKind::Prekey, key, Retention::Rolling, announcement.write());
        }
        for (id, contact) in &self.contacts {
            for place in contact.recent.places() {
                let value = contact.recent.write(place);
                put(RecordKind::Seen, key_recent(*id, place), Retention::Permanent, value);
            }
            for (era, windows) in &contact.arrived {
                let value = contact::write_windows(windows);
                put(RecordKind::Seen, key_seen(*id, *era), Retention::Permanent, value);
            }
        }
        for (key, held) in &self.held {
            put(RecordKind::Held, key64(*key), Retention::Rolling, write_held(held));
        }
        all
    }

    fn put_conversations(
        &self,
        put: &mut impl FnMut(RecordKind, Vec<u8>, Retention, Wiping<Vec<u8>>),
    ) {
        let contacts = self.contacts.iter().map(|(id, contact)| (id, &contact.conversation));
        let guests = self.guests.iter().map(|(id, guest)| (id, &guest.conversation));
        for (id, conversation) in contacts.chain(guests) {
            for change in conversation.records() {
                let kind = match change.table() {
                    Table::Session => RecordKind::Session,
                    _ => RecordKind::Skipped,
                };
                if let mezza_ratchet::Change::Put { key, value, .. } = change {
                    put(kind, [key32(id.0), key].concat(), Retention::Rolling, value);
                }
            }
        }
    }

    /// Everything that an input could change, as bytes: records, requests in flight, outputs.
    /// A refused input leaves it as it was (MSG-36).
    pub fn encode(&self) -> Wiping<Vec<u8>> {
        let mut w = Writer::new();
        for change in self.records() {
            if let io::RecordChange::Put { kind, key, value, .. } = change {
                w.u8(kind as u8).var16(&key).u32(value.len() as u32).bytes(&value);
            }
        }
        w.bytes(&self.prekeys.encode()).u64(self.next_ticket).u64(self.next_parcel);
        w.u64(self.retry_at.ms()).u16(self.stock.unwrap_or(u16::MAX)).u64(self.out.len() as u64);
        for (ticket, (line, asked)) in &self.tickets {
            let (kind, of) = match asked {
                PendingRequest::Parcel(id) => (1, *id),
                PendingRequest::Open(id) => (2, u64::from(id.0)),
                PendingRequest::Close(id) => (3, u64::from(id.0)),
                PendingRequest::Watch(id) => (4, u64::from(id.0)),
                PendingRequest::Publish => (5, 0),
                PendingRequest::Fetch(id) => (6, u64::from(id.0)),
                PendingRequest::Hold(id) => (7, u64::from(id.0)),
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
            contact.roots.write(&mut w);
            w.u64(contact.fetch_after.ms()).u8(u8::from(contact.trouble.is_some()));
        }
        Wiping::new(w.finish())
    }

    /// Whether a change is one that a start can undo: a record that its reader takes, and that is
    /// the same when it is written again (MSG-43). Rows of the ratchet and of the mixnet's client
    /// have their readers there.
    pub(super) fn loads_again(&self, change: &RecordChange) -> bool {
        let RecordChange::Put { kind, key, value, .. } = change else { return true };
        let again = match kind {
            RecordKind::Profile => OwnIdentity::read(value).map(|profile| profile.write()),
            RecordKind::Contact => self.contact_again(key, value),
            RecordKind::Note => StoredNote::read(value).map(|entry| entry.write()),
            RecordKind::Parcel => Parcel::read(value).map(|parcel| parcel.write()),
            RecordKind::Slot => Mailbox::read(value).map(|slot| slot.write()),
            RecordKind::Seen => seen_again(key, value),
            RecordKind::Held => read_held(value).map(|held| write_held(&held)),
            RecordKind::Network => Membership::read(value).map(|member| member.write()),
            RecordKind::Guest => self.guest_again(key, value),
            RecordKind::Bundle => HeldBundle::read(value).map(|held| held.write()),
            RecordKind::Prekey if *key == ANNOUNCEMENT_KEY => {
                PrekeyUpload::read(value).map(|announcement| announcement.write())
            }
            RecordKind::Session
            | RecordKind::Skipped
            | RecordKind::Prekey
            | RecordKind::Setting
            | RecordKind::NetworkRow => {
                return value.len() <= RECORD_BYTES_MAX;
            }
        };
        value.len() <= RECORD_BYTES_MAX && again.is_ok_and(|again| again[..] == value[..])
    }

    fn contact_again(&self, key: &[u8], value: &[u8]) -> Result<Wiping<Vec<u8>>, DecodeError> {
        let local = self.identity.public();
        let talk = |card: &crate::card::Card| Ok(Conversation::new(local, *card.ik()));
        Ok(Contact::<B>::read(ContactId(id32(key)?), value, talk)?.write())
    }

    fn guest_again(&self, key: &[u8], value: &[u8]) -> Result<Wiping<Vec<u8>>, DecodeError> {
        let local = self.identity.public();
        let talk = |ik| Ok(Conversation::new(local, ik));
        Ok(IncomingInvitation::<B>::read(ContactId(id32(key)?), value, talk)?.write())
    }
}

fn seen_again(key: &[u8], value: &[u8]) -> Result<Wiping<Vec<u8>>, DecodeError> {
    match key.get(4..).unwrap_or_default() {
        [place] => {
            let mut recent = ReplayCache::default();
            recent.read(*place, value)?;
            Ok(recent.write(*place))
        }
        era => Ok(contact::write_windows(&contact::read_windows(era, value)?.1)),
    }
}

fn put_prekeys(
    put: &mut impl FnMut(RecordKind, Vec<u8>, Retention, Wiping<Vec<u8>>),
    changes: Changes,
) {
    for change in changes {
        let number = change.table().number();
        if let mezza_ratchet::Change::Put { key, value, .. } = change {
            put(
                RecordKind::Prekey,
                [&[number], key.as_slice()].concat(),
                Retention::Rolling,
                value,
            );
        }
    }
}
