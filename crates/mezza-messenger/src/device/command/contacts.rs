//! What the person does with contacts.

use alloc::string::String;
use alloc::vec::Vec;

use mezza_ratchet::{Conversation, IdentityKey};

use super::{Backend, ContactId, CryptoRng, Device, DeviceError, Event, NoteId, RecordKind, Time};
use super::{key_recent, key_seen, key32};
use crate::card::Card;
use crate::contact::{Contact, ContactPhase};
use crate::io::ResetCause;
use crate::outbox::Parcel;
use crate::policy::{Policy, is_timer_step};
use crate::view::VerificationMethod;

/// Bytes of a name that the owner gives to a contact.
const PETNAME_BYTES_MAX: usize = 64;

impl<B: Backend> Device<B> {
    fn contact_mut(&mut self, id: ContactId) -> Result<&mut Contact<B>, DeviceError> {
        self.contacts.get_mut(&id).ok_or(DeviceError::NoSuchContact)
    }

    /// A card that the person has scanned or pasted.
    pub(super) fn add(
        &mut self,
        card: Card,
        petname: Option<String>,
        in_person: bool,
        now: Time,
        rng: &mut dyn CryptoRng,
    ) -> Result<(), DeviceError> {
        check_petname(petname.as_deref())?;
        if *card.ik() == self.identity.public() {
            return Err(DeviceError::OwnCard);
        }
        let id = match self.contact_by_ik(card.ik().as_bytes()) {
            Some(id) => self.update_card(id, card)?,
            None => self.new_contact(card, now, rng)?,
        };
        let contact = self.contact_mut(id)?;
        contact.petname = petname.or(contact.petname.take());
        if in_person {
            contact.verified = Some((VerificationMethod::InPerson, now));
        }
        // To add somebody who has asked is to accept.
        if contact.stage == ContactPhase::Request {
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
        let card = if same { card.with_parts_of(&contact.card) } else { card };
        let before = core::mem::replace(&mut contact.card, card);
        contact.trouble = None;
        self.moved(id, before.relays().first());
        Ok(id)
    }

    fn new_contact(
        &mut self,
        card: Card,
        now: Time,
        rng: &mut dyn CryptoRng,
    ) -> Result<ContactId, DeviceError> {
        if let Some(guest) = self.guest_by_ik(card.ik()) {
            self.recognized(guest, card, now, rng)?;
            return Ok(guest);
        }
        let id = ContactId(self.profile.next_contact);
        self.profile.next_contact += 1;
        self.store_profile();
        let ik: IdentityKey = *card.ik();
        let conversation = Conversation::new(self.identity.public(), ik);
        self.contacts.insert(id, Contact::new(id, card, conversation, ContactPhase::Held));
        self.threads.entry(id).or_default();
        Ok(id)
    }

    pub(super) fn accept(&mut self, id: ContactId) -> Result<(), DeviceError> {
        if self.guests.contains_key(&id) {
            return Err(DeviceError::NoCard);
        }
        if self.contact_mut(id)?.stage != ContactPhase::Request {
            return Err(DeviceError::NotNow);
        }
        self.let_in(id);
        self.store_contact(id);
        Ok(())
    }

    /// A request becomes a contact: hello and receipt go at once.
    fn let_in(&mut self, id: ContactId) {
        if let Some(contact) = self.contacts.get_mut(&id) {
            contact.stage = ContactPhase::Open;
            contact.owed.hello = true;
            contact.owed.receipt = contact.policy.delivered && !contact.arrived.is_empty();
            self.show(Event::Request(id));
            self.show(Event::Contact(id));
        }
    }

    pub(super) fn refuse(
        &mut self,
        id: ContactId,
        now: Time,
        rng: &mut dyn CryptoRng,
    ) -> Result<(), DeviceError> {
        if self.guests.contains_key(&id) {
            self.net_forget(id, now, rng);
            self.forget_guest(id);
            self.show(Event::Request(id));
            return Ok(());
        }
        if self.contact_mut(id)?.stage != ContactPhase::Request {
            return Err(DeviceError::NotNow);
        }
        self.show(Event::Request(id));
        self.delete(id, now, rng)
    }

    pub(super) fn rename(&mut self, id: ContactId, name: String) -> Result<(), DeviceError> {
        check_petname(Some(&name))?;
        self.contact_mut(id)?.petname = Some(name);
        self.store_contact(id);
        self.show(Event::Contact(id));
        Ok(())
    }

    pub(super) fn verify(
        &mut self,
        id: ContactId,
        equal: bool,
        now: Time,
    ) -> Result<(), DeviceError> {
        self.contact_mut(id)?.verified = equal.then_some((VerificationMethod::Number, now));
        self.store_contact(id);
        self.show(Event::Contact(id));
        Ok(())
    }

    /// Another policy; notes written before keep their pin.
    pub(super) fn policy(
        &mut self,
        id: ContactId,
        policy: Policy,
        now: Time,
        rng: &mut dyn CryptoRng,
    ) -> Result<(), DeviceError> {
        if !policy.is_sound() {
            return Err(DeviceError::BadPolicy);
        }
        let contact = self.contact_mut(id)?;
        let timer = contact.policy.timer_s != policy.timer_s;
        if timer && !is_timer_step(policy.timer_s) {
            return Err(DeviceError::BadPolicy);
        }
        contact.owed.timer |= timer && contact.stage == ContactPhase::Open;
        contact.policy = policy;
        self.store_contact(id);
        self.take_back(id, now, rng);
        self.show(Event::Contact(id));
        Ok(())
    }

    /// What is on its way to a carrier that the conversation does not allow any more goes another
    /// way: under the same numbers, so that nothing is shown twice.
    fn take_back(&mut self, id: ContactId, now: Time, rng: &mut dyn CryptoRng) {
        let Some(contact) = self.contacts.get(&id) else { return };
        let allowed = contact.policy.candidates();
        let strays =
            |parcel: &Parcel| parcel.contact == id && !allowed.contains(&parcel.way.carrier());
        let mut strays = self.parcels.values().filter(|parcel| strays(parcel)).peekable();
        if strays.peek().is_none() {
            return;
        }
        // The session of an invitation goes with it, and so do the chains that come from it.
        if strays.any(|parcel| parcel.way.is_invitation()) {
            self.net_forget(id, now, rng);
        }
        self.send_again(id);
    }

    pub(super) fn block(&mut self, id: ContactId, blocked: bool) -> Result<(), DeviceError> {
        let contact = self.contact_mut(id)?;
        contact.blocked = blocked;
        self.store_contact(id);
        self.show(Event::Contact(id));
        Ok(())
    }

    /// Deletes a contact with everything that hangs on it.
    pub(super) fn delete(
        &mut self,
        id: ContactId,
        now: Time,
        rng: &mut dyn CryptoRng,
    ) -> Result<(), DeviceError> {
        let contact = self.contacts.remove(&id).ok_or(DeviceError::NoSuchContact)?;
        self.sender_contexts.remove(&id);
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
        self.drop_bundle(id);
        self.net_forget(id, now, rng);
        self.drop_conversation(id, &contact.conversation);
        for place in contact.recent.places() {
            self.drop_record(RecordKind::Seen, key_recent(id, place));
        }
        for era in contact.arrived.keys() {
            self.drop_record(RecordKind::Seen, key_seen(id, *era));
        }
        self.drop_record(RecordKind::Contact, key32(id.0));
        self.show(Event::ContactGone(id));
        Ok(())
    }

    pub(super) fn reset(&mut self, id: ContactId) -> Result<(), DeviceError> {
        let contact = self.contact_mut(id)?;
        if !contact.is_ours() || contact.stage != ContactPhase::Open {
            return Err(DeviceError::NotNow);
        }
        contact.renew = true;
        contact.owed.anew = Some(ResetCause::Person as u8);
        self.store_contact(id);
        Ok(())
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
