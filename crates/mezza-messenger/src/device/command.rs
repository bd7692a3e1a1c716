//! What the person asks for. Everything is checked before anything changes (MSG-36).

use alloc::string::String;
use alloc::vec::Vec;

use super::{
    Backend, CryptoRng, Device, DeviceError, Event, Kind, Mailbox, NoteId, Time, card_refused,
    key_recent, key_seen, key32, key64,
};
use crate::card::{Card, RelayEntry};
use crate::contact::{Contact, Stage};
use crate::envelope::PARCEL_BYTES_MAX;
use crate::evidence::Why;
use crate::identity::RELAYS_MAX;
use crate::io::{Cause, Command, ContactId};
use crate::outbox::OUTBOX_MAX;
use crate::policy::Policy;
use crate::thread::Entry;
use crate::view::{Body, Proof};
use mezza_ratchet::{Conversation, IdentityKey};

/// Bytes of text that a note holds; longer is an attachment.
pub const TEXT_BYTES_MAX: usize = 8_192;
/// Bytes of a name that the owner gives to a contact.
pub const PETNAME_BYTES_MAX: usize = 64;

impl<B: Backend> Device<B> {
    pub(super) fn command(
        &mut self,
        command: Command,
        now: Time,
        rng: &mut dyn CryptoRng,
    ) -> Result<(), DeviceError> {
        match command {
            Command::Add { card, petname, in_person } => self.add(card, petname, in_person, now),
            Command::Send { contact, client, text } => self.send(contact, client, text, now),
            Command::Cancel { note } => self.cancel(note, now),
            Command::Forget { note } => self.forget(note),
            Command::Seen { contact, note } => self.seen(contact, note),
            Command::Accept { contact } => self.accept(contact),
            Command::Refuse { contact } => self.refuse(contact),
            Command::Rename { contact, name } => self.rename(contact, name),
            Command::Verify { contact, equal } => self.verify(contact, equal, now),
            Command::Policy { contact, policy } => self.policy(contact, policy),
            Command::Block { contact, blocked } => self.block(contact, blocked),
            Command::Delete { contact } => self.delete(contact),
            Command::Publish { name, relays } => self.reissue(name, &relays, now, rng),
            Command::Reset { contact } => self.reset(contact),
        }
    }

    fn contact_mut(&mut self, id: ContactId) -> Result<&mut Contact<B>, DeviceError> {
        self.contacts.get_mut(&id).ok_or(DeviceError::NoSuchContact)
    }

    /// A card that the person has scanned or pasted.
    fn add(
        &mut self,
        card: Card,
        petname: Option<String>,
        in_person: bool,
        now: Time,
    ) -> Result<(), DeviceError> {
        check_petname(petname.as_deref())?;
        if *card.ik() == self.identity.public() {
            return Err(DeviceError::OwnCard);
        }
        let id = match self.contact_by_ik(card.ik().as_bytes()) {
            Some(id) => self.update_card(id, card)?,
            None => self.new_contact(card),
        };
        let contact = self.contact_mut(id)?;
        contact.petname = petname.or(contact.petname.take());
        if in_person {
            contact.verified = Some((Proof::InPerson, now));
        }
        // To add somebody who has asked is to accept.
        if contact.stage == Stage::Request {
            self.let_in(id);
        }
        self.store_contact(id);
        self.show(Event::Contact(id));
        Ok(())
    }

    fn update_card(&mut self, id: ContactId, card: Card) -> Result<ContactId, DeviceError> {
        let contact = self.contact_mut(id)?;
        if card.serial() < contact.card.serial() {
            return Err(DeviceError::CardOlder);
        }
        if card.serial() == contact.card.serial() && !card.same_head(&contact.card) {
            return Err(DeviceError::CardClash);
        }
        let same = card.serial() == contact.card.serial();
        contact.card = if same { card.with_parts_of(&contact.card) } else { card };
        contact.trouble = None;
        Ok(id)
    }

    fn new_contact(&mut self, card: Card) -> ContactId {
        let id = ContactId(self.profile.next_contact);
        self.profile.next_contact += 1;
        self.store_profile();
        let ik: IdentityKey = *card.ik();
        let conversation = Conversation::new(self.identity.public(), ik);
        self.contacts.insert(id, Contact::new(id, card, conversation, Stage::Held));
        self.threads.entry(id).or_default();
        id
    }

    /// Accepts a note: from here on it is in the outbox after any crash (MSG-15).
    fn send(
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
        let entry = Entry {
            contact: id,
            incoming: false,
            client,
            body: Body::Text(text),
            era: self.profile.era,
            seq: 0,
            sent: now,
            at: now,
            timer_s: contact.policy.timer_s,
            due: None,
            pin: contact.policy.pin,
            carrier: None,
            seen: true,
            again: false,
            voided: false,
            facts: Vec::new(),
            why: Why::Sending,
        };
        let note = self.add_note(entry);
        self.waiting.insert((id, note));
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
    fn cancel(&mut self, note: NoteId, now: Time) -> Result<(), DeviceError> {
        let entry = self.notes.get(&note).ok_or(DeviceError::NoSuchNote)?;
        if entry.incoming || !entry.is_waiting(now) {
            return Err(DeviceError::NotNow);
        }
        self.give_up(note);
        self.remove_note(note);
        Ok(())
    }

    /// Nothing of this note leaves any more, and its number is declared void.
    pub(super) fn give_up(&mut self, note: NoteId) {
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

    fn forget(&mut self, note: NoteId) -> Result<(), DeviceError> {
        let entry = self.notes.get(&note).ok_or(DeviceError::NoSuchNote)?;
        if !entry.incoming && !entry.is_delivered() {
            self.give_up(note);
        }
        self.remove_note(note);
        Ok(())
    }

    /// Deletes a note here, whatever its state.
    pub(super) fn remove_note(&mut self, id: NoteId) {
        let Some(entry) = self.notes.remove(&id) else { return };
        self.unindex(id, &entry);
        self.drop_record(Kind::Note, key64(id.0));
        self.show(Event::Gone(entry.contact, id));
    }

    fn seen(&mut self, id: ContactId, last: NoteId) -> Result<(), DeviceError> {
        let contact = self.contacts.get_mut(&id).ok_or(DeviceError::NoSuchContact)?;
        let says = contact.policy.read && contact.is_ours();
        let thread = self.threads.get(&id).into_iter().flatten();
        let seen: Vec<NoteId> = thread.copied().take_while(|note| *note <= last).collect();
        let (mut eras, mut stored) = (Vec::new(), Vec::new());
        for note in seen {
            let Some(entry) = self.notes.get_mut(&note).filter(|e| e.incoming && !e.seen) else {
                continue;
            };
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

    fn accept(&mut self, id: ContactId) -> Result<(), DeviceError> {
        if self.contact_mut(id)?.stage != Stage::Request {
            return Err(DeviceError::NotNow);
        }
        self.let_in(id);
        self.store_contact(id);
        Ok(())
    }

    /// A request becomes a contact: hello and receipt go at once.
    fn let_in(&mut self, id: ContactId) {
        if let Some(contact) = self.contacts.get_mut(&id) {
            contact.stage = Stage::Open;
            contact.owed.hello = true;
            contact.owed.receipt = contact.policy.delivered && !contact.arrived.is_empty();
            self.show(Event::Request(id));
            self.show(Event::Contact(id));
        }
    }

    fn refuse(&mut self, id: ContactId) -> Result<(), DeviceError> {
        if self.contact_mut(id)?.stage != Stage::Request {
            return Err(DeviceError::NotNow);
        }
        self.show(Event::Request(id));
        self.delete(id)
    }

    fn rename(&mut self, id: ContactId, name: String) -> Result<(), DeviceError> {
        check_petname(Some(&name))?;
        self.contact_mut(id)?.petname = Some(name);
        self.store_contact(id);
        self.show(Event::Contact(id));
        Ok(())
    }

    fn verify(&mut self, id: ContactId, equal: bool, now: Time) -> Result<(), DeviceError> {
        self.contact_mut(id)?.verified = equal.then_some((Proof::Number, now));
        self.store_contact(id);
        self.show(Event::Contact(id));
        Ok(())
    }

    /// Another policy; notes written before keep their pin.
    fn policy(&mut self, id: ContactId, policy: Policy) -> Result<(), DeviceError> {
        if !policy.is_sound() {
            return Err(DeviceError::BadPolicy);
        }
        let contact = self.contact_mut(id)?;
        let timer = contact.policy.timer_s != policy.timer_s;
        contact.owed.timer |= timer && contact.stage == Stage::Open;
        contact.policy = policy;
        self.store_contact(id);
        self.show(Event::Contact(id));
        Ok(())
    }

    fn block(&mut self, id: ContactId, blocked: bool) -> Result<(), DeviceError> {
        let contact = self.contact_mut(id)?;
        contact.blocked = blocked;
        self.store_contact(id);
        self.show(Event::Contact(id));
        Ok(())
    }

    /// Deletes a contact with everything that hangs on it.
    fn delete(&mut self, id: ContactId) -> Result<(), DeviceError> {
        let contact = self.contacts.remove(&id).ok_or(DeviceError::NoSuchContact)?;
        let notes: Vec<NoteId> = self.threads.remove(&id).into_iter().flatten().collect();
        for note in notes {
            self.remove_note(note);
        }
        let parcels = self.parcels.iter().filter(|(_, parcel)| parcel.contact == id);
        let parcels: Vec<u64> = parcels.map(|(id, _)| *id).collect();
        for parcel in parcels {
            self.drop_parcel(parcel);
        }
        let slots = self.slots.iter().filter(|(_, slot)| slot.contact == Some(id));
        let slots: Vec<_> = slots.map(|(id, _)| *id).collect();
        for slot in slots {
            self.close(slot);
        }
        let held = self.held.iter().filter(|(_, held)| held.contact == id);
        let held: Vec<u64> = held.map(|(key, _)| *key).collect();
        for key in held {
            self.drop_held(key);
        }
        for change in contact.conversation.records() {
            let kind = match change.table() {
                mezza_ratchet::Table::Session => Kind::Session,
                _ => Kind::Skipped,
            };
            self.drop_record(kind, [key32(id.0).as_slice(), change.key()].concat());
        }
        for place in contact.recent.places() {
            self.drop_record(Kind::Seen, key_recent(id, place));
        }
        for era in contact.arrived.keys() {
            self.drop_record(Kind::Seen, key_seen(id, *era));
        }
        self.drop_record(Kind::Contact, key32(id.0));
        self.show(Event::ContactGone(id));
        Ok(())
    }

    /// Another name or other relays: a new card with a higher serial, told to every contact.
    fn reissue(
        &mut self,
        name: String,
        relays: &[RelayEntry],
        now: Time,
        rng: &mut dyn CryptoRng,
    ) -> Result<(), DeviceError> {
        if relays.len() > RELAYS_MAX {
            return Err(DeviceError::TooManyRelays);
        }
        let mut fresh = Vec::new();
        let mut entries = Vec::new();
        for relay in relays {
            let kept = self.profile.relays.iter().find(|own| own.key == relay.key);
            let mailbox = Mailbox::draw::<B>(None, relay, now, rng);
            let address = kept.map_or(mailbox.relay.address, |own| own.address);
            entries.push(RelayEntry { address, ..relay.clone() });
            if kept.is_none() {
                fresh.push(mailbox);
            }
        }
        let card = self.profile.reissue(&self.identity, &name, &entries, now, rng);
        let card = card.map_err(card_refused)?;
        for slot in self.slots.values_mut().filter(|slot| slot.contact.is_none()) {
            if !entries.iter().any(|entry| entry.address == slot.relay.address) {
                slot.retired.get_or_insert(now);
            }
        }
        (self.profile.card, self.profile.name, self.profile.relays) = (card, name, entries);
        for slot in fresh {
            self.dial(&slot.relay.clone(), now);
            self.add_mailbox(slot);
            self.offer_again();
        }
        self.store_profile();
        self.tell_all();
        self.show(Event::Card);
        Ok(())
    }

    /// The new card goes to everybody with whom we talk.
    fn tell_all(&mut self) {
        let open: Vec<ContactId> = self
            .contacts
            .values_mut()
            .filter_map(|contact| {
                let tells = contact.is_ours() && contact.stage == Stage::Open;
                contact.owed.card |= tells;
                tells.then_some(contact.id)
            })
            .collect();
        for id in open {
            self.store_contact(id);
        }
        let slots: Vec<_> = self.slots.keys().copied().collect();
        for slot in slots {
            self.store_slot(slot);
        }
    }

    fn reset(&mut self, id: ContactId) -> Result<(), DeviceError> {
        let contact = self.contact_mut(id)?;
        if !contact.is_ours() || contact.stage != Stage::Open {
            return Err(DeviceError::NotNow);
        }
        contact.renew = true;
        contact.owed.anew = Some(Cause::Person as u8);
        self.store_contact(id);
        Ok(())
    }

    fn owe_read(&mut self, id: ContactId, eras: &[[u8; 4]]) {
        if let Some(contact) = self.contacts.get_mut(&id) {
            contact.owed.read = true;
        }
        for era in eras {
            self.store_arrived(id, *era);
        }
        self.store_contact(id);
    }
}

fn check_petname(name: Option<&str>) -> Result<(), DeviceError> {
    match name {
        Some(name) if name.is_empty() || name.len() > PETNAME_BYTES_MAX => {
            Err(DeviceError::BadName)
        }
        Some(name) if !crate::name::is_clean(name) => Err(DeviceError::BadName),
        _ => Ok(()),
    }
}
