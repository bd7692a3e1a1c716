//! What the person does with notes.

use alloc::string::String;
use alloc::vec::Vec;

use super::{Backend, ContactId, Device, DeviceError, Event, NoteId, RecordKind, Time, key64};
use crate::envelope::PARCEL_BYTES_MAX;
use crate::evidence::WaitReason;
use crate::note::Era;
use crate::outbox::OUTBOX_MAX;
use crate::thread::StoredNote;
use crate::view::NoteContent;

/// Bytes of text that a note holds; longer is an attachment.
const TEXT_BYTES_MAX: usize = 8_192;

impl<B: Backend> Device<B> {
    /// Accepts a note: from here on it is in the outbox after any crash (MSG-15).
    pub(super) fn send(
        &mut self,
        id: ContactId,
        client: [u8; 16],
        text: String,
        now: Time,
    ) -> Result<(), DeviceError> {
        if self.clients.contains_key(&client) {
            return Ok(());
        }
        if text.is_empty() {
            return Err(DeviceError::EmptyText);
        }
        let bytes = text.len();
        if bytes > TEXT_BYTES_MAX {
            return Err(DeviceError::TextTooLong { bytes, max: TEXT_BYTES_MAX });
        }
        let contact = self.contacts.get(&id).ok_or(DeviceError::NoSuchContact)?;
        if !contact.is_ours() {
            return Err(DeviceError::NotNow);
        }
        if let Some(parcel) = contact.conversation.message_bytes(bytes)
            && parcel >= PARCEL_BYTES_MAX
        {
            return Err(DeviceError::TooBig { bytes: parcel, max: PARCEL_BYTES_MAX });
        }
        if self.own_waiting(id, now) >= OUTBOX_MAX {
            return Err(DeviceError::OutboxFull);
        }
        let entry = StoredNote {
            contact: id,
            incoming: false,
            client,
            body: NoteContent::Text(text),
            era: self.era(id),
            seq: 0,
            sent: now,
            at: now,
            timer_s: contact.policy.timer_s,
            due: None,
            level_min: contact.policy.level_min,
            carrier: None,
            seen: true,
            again: false,
            voided: false,
            facts: Vec::new(),
            why: WaitReason::Sending,
        };
        let note = self.add_note(entry);
        self.waiting.insert((id, note));
        if let Some(contact) = self.contacts.get_mut(&id) {
            contact.wrote_at = now;
        }
        self.show(Event::Note(id, note));
        Ok(())
    }

    /// Own notes for a contact that are neither delivered nor given up.
    fn own_waiting(&self, id: ContactId, now: Time) -> usize {
        let range = (id, NoteId(0))..=(id, NoteId(u64::MAX));
        let unsealed = self
            .waiting
            .range(range)
            .filter(|(_, note)| self.notes.get(note).is_some_and(|entry| entry.seq == 0));
        let sealed = self.unreceipted[0].range((id, 0)..=(id, u32::MAX));
        let sealed = sealed
            .filter(|(_, note)| self.notes.get(note).is_some_and(|entry| entry.is_waiting(now)));
        unsealed.count() + sealed.count()
    }

    /// Gives an own note up; the other side learns that none is missing.
    pub(super) fn cancel(&mut self, note: NoteId, now: Time) -> Result<(), DeviceError> {
        let entry = self.notes.get(&note).ok_or(DeviceError::NoSuchNote)?;
        if entry.incoming || !entry.is_waiting(now) {
            return Err(DeviceError::NotNow);
        }
        self.give_up(note);
        self.remove_note(note);
        Ok(())
    }

    /// Nothing of this note leaves any more, and its number is declared void.
    pub(in crate::device) fn give_up(&mut self, note: NoteId) {
        let Some(entry) = self.notes.get(&note).filter(|entry| !entry.voided) else { return };
        let (id, seq) = (entry.contact, entry.seq);
        self.waiting.remove(&(id, note));
        let parcels = self.parcels.iter().filter(|(_, parcel)| parcel.note == Some(note));
        let parcels: Vec<u64> = parcels.map(|(id, _)| *id).collect();
        for parcel in parcels {
            self.drop_parcel(parcel);
        }
        if seq > 0
            && let Some(contact) = self.contacts.get_mut(&id)
        {
            contact.owed.give_up(seq);
            self.store_contact(id);
            if let Some(entry) = self.notes.get_mut(&note) {
                entry.voided = true;
                self.store_note(note);
            }
        }
    }

    pub(super) fn forget(&mut self, note: NoteId) -> Result<(), DeviceError> {
        let entry = self.notes.get(&note).ok_or(DeviceError::NoSuchNote)?;
        if !entry.incoming && !entry.is_delivered() {
            self.give_up(note);
        }
        self.remove_note(note);
        Ok(())
    }

    /// Deletes a note here, whatever its state.
    pub(in crate::device) fn remove_note(&mut self, id: NoteId) {
        let Some(entry) = self.notes.remove(&id) else { return };
        self.unindex(id, &entry);
        self.drop_record(RecordKind::Note, key64(id.0));
        self.show(Event::Gone(entry.contact, id));
    }

    pub(super) fn seen(&mut self, id: ContactId, last: NoteId) -> Result<(), DeviceError> {
        let contact = self.contacts.get_mut(&id).ok_or(DeviceError::NoSuchContact)?;
        let says = contact.policy.read && contact.is_ours();
        let thread = self.threads.get(&id).into_iter().flatten();
        let seen: Vec<NoteId> = thread.copied().take_while(|note| *note <= last).collect();
        let (mut eras, mut stored) = (Vec::new(), Vec::new());
        for note in seen {
            let Some(entry) = self.notes.get_mut(&note).filter(|e| e.incoming && !e.seen) else {
                continue;
            };
            contact.unseen.subtract(entry.body_bytes());
            entry.seen = true;
            if let Some((_, read)) = contact.arrived.get_mut(&entry.era)
                && says
            {
                let _ = read.insert(entry.seq);
                eras.push(entry.era);
            }
            stored.push(note);
        }
        for note in stored {
            self.store_note(note);
        }
        if says && !eras.is_empty() {
            self.owe_read(id, &eras);
        }
        self.show(Event::Contact(id));
        Ok(())
    }

    fn owe_read(&mut self, id: ContactId, eras: &[Era]) {
        if let Some(contact) = self.contacts.get_mut(&id) {
            contact.owed.read = true;
        }
        for era in eras {
            self.store_arrived(id, *era);
        }
        self.store_contact(id);
    }
}
