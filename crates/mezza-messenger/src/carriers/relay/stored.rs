//! The stored state of the relay carrier.

use alloc::vec::Vec;

use mezza_core::{Backend, DecodeError, Reader, Wiping, Writer};

use super::{MAILBOX, OwnMailbox, Relay, RelayPeer, VERSION, timer};
use crate::io::{
    ContactId, Effects, MailboxId, Publication, RecordKind, StoredRows, Unloaded, id32, key32,
};
use crate::view::Part;

impl<B: Backend> Relay<B> {
    /// Stores the number of the next mailbox.
    pub(super) fn store_next(&self, effects: &mut Effects) {
        let key = Vec::new();
        let value = Self::write_next(self.next_mailbox);
        effects.put(RecordKind::RelayPeer, key, value);
    }

    /// Encodes the stored form of that counter.
    pub fn write_next(next: u32) -> Wiping<Vec<u8>> {
        let mut w = Writer::with_capacity(5);
        w.put_u8(VERSION).put_u32(next);
        Wiping::new(w.finish())
    }

    /// Reads the stored number of the next mailbox.
    pub fn read_next(bytes: &[u8]) -> Result<u32, DecodeError> {
        Reader::decode_exact(bytes, |r| match (r.read_u8()?, r.read_u32()?) {
            // Stored counters are at most half of their range, so that a damaged row cannot exhaust
            // them.
            (VERSION, next) if (1..=u32::MAX / 2).contains(&next) => Ok(next),
            _ => Err(DecodeError::Value),
        })
    }

    /// Loads our mailboxes and an unconfirmed publication. Returns the rows that do not load.
    pub(super) fn load_rows(
        &mut self,
        stored: &mut StoredRows<'_>,
        known: &dyn Fn(ContactId) -> bool,
        effects: &mut Effects,
    ) -> Vec<Unloaded> {
        let mut left = Vec::new();
        for (key, row) in stored.take_kind(RecordKind::Mailbox) {
            if let Err(part) = self.load_mailbox(&key, &row, known, effects) {
                left.push(Unloaded::new(part, RecordKind::Mailbox, key, &row));
            }
        }
        self.load_next(stored, effects);
        if let Some(row) = stored.take_one(RecordKind::Prekey, &Publication::KEY) {
            // The row is quarantined, and the present prekeys are published instead (MSG-42).
            self.publication = Publication::read(&row).ok();
            if self.publication.is_none() {
                let key = Publication::KEY.into();
                left.push(Unloaded::new(Part::Prekeys, RecordKind::Prekey, key, &row));
            }
        }
        self.forget_lost_mailboxes(effects);
        left
    }

    /// Loads a stored mailbox. Returns the part to which the row belongs if it does not load.
    fn load_mailbox(
        &mut self,
        key: &[u8],
        row: &[u8],
        known: &dyn Fn(ContactId) -> bool,
        effects: &mut Effects,
    ) -> Result<(), Part> {
        let number = key.first_chunk().map_or(0, |id| u32::from_be_bytes(*id));
        // A number from a damaged key must not move the counter to its end.
        if number <= u32::MAX / 4 {
            self.next_mailbox = self.next_mailbox.max(number + 1);
        }
        let read = id32(key).and_then(|id| Ok((MailboxId(id), OwnMailbox::read(row)?)));
        let (id, own) = read.map_err(|_| Part::Mailbox(MailboxId(number)))?;
        // The mailbox of a contact that did not load is quarantined with it.
        if let Some(contact) = own.contact.filter(|id| !known(*id)) {
            return Err(Part::Contact(contact));
        }
        effects.set_timer(timer(MAILBOX | u64::from(id.0)), own.due());
        let kept = if own.closing { &mut self.closing } else { &mut self.mailboxes };
        kept.insert(id, own);
        Ok(())
    }

    /// Loads the counter of mailboxes, which is above every number given out. If the counter is
    /// lost, it continues far above all known numbers.
    fn load_next(&mut self, stored: &mut StoredRows<'_>, effects: &mut Effects) {
        const FAR: u32 = 1 << 20;
        let row = stored.take_one(RecordKind::RelayPeer, &[]);
        match row.map(|row| Self::read_next(&row)) {
            Some(Ok(next)) => self.next_mailbox = self.next_mailbox.max(next),
            None if !stored.has_lost(RecordKind::RelayPeer) => {}
            Some(Err(_)) | None => {
                self.next_mailbox = self.next_mailbox.saturating_add(FAR);
                self.store_next(effects);
            }
        }
    }

    /// Removes references to mailboxes that did not load, so that their contacts get new ones.
    fn forget_lost_mailboxes(&mut self, effects: &mut Effects) {
        let lost = |peer: &RelayPeer| peer.ours.is_some_and(|id| !self.mailboxes.contains_key(&id));
        let homeless = self.peers.iter().filter(|(_, peer)| lost(peer)).map(|(id, _)| *id);
        for id in homeless.collect::<Vec<_>>() {
            self.update_peer(id, effects, |peer| peer.ours = None);
        }
    }

    /// Writes the rows of the carrier.
    pub(super) fn put_rows(&self, effects: &mut Effects) {
        self.mailboxes.keys().for_each(|id| self.store_mailbox(*id, effects));
        for (id, own) in &self.closing {
            effects.put(RecordKind::Mailbox, key32(id.0), own.write());
        }
        if self.next_mailbox > 1 {
            self.store_next(effects);
        }
        for (id, peer) in &self.peers {
            if let Some(value) = peer.stored_form() {
                effects.put(RecordKind::RelayPeer, key32(id.0), value);
            }
        }
        if let Some(publication) = &self.publication {
            let key = Publication::KEY.into();
            effects.put(RecordKind::Prekey, key, publication.write());
        }
    }
}
