//! Contacts: card, name, phase of the first contact, and settings of the conversation.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use mezza_core::{DecodeError, Reader, Time, Wiping, Writer, snapshot};
use mezza_ratchet::IdentityKey;

use crate::card::Card;
use crate::error::{CallerError, DeviceError, PersonError};
use crate::io::{
    ContactId, DeliveryProblem, Effects, Event, RecordKind, key32, read_flag, read_text,
};
use crate::policy::{Policy, timer_step};
use crate::view::{ContactState, VerificationMethod};

/// Version of the stored form.
const VERSION: u8 = 4;
/// Bytes before the card: version, phase, blocked.
const HEAD_BYTES: usize = 3;

/// Progress of the first contact, including requests. `blocked` is a separate flag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum ContactPhase {
    Held = 0,
    Asked = 1,
    Open = 2,
    Request = 3,
}

snapshot!(enum ContactPhase [Held, Asked, Open, Request]);

/// A contact as it is stored.
pub(crate) struct Contact {
    pub card: Card,
    pub petname: Option<String>,
    pub verified: Option<(VerificationMethod, Time)>,
    pub policy: Policy,
    pub phase: ContactPhase,
    pub blocked: bool,
    // Not stored: after a restart the problem is found again.
    pub trouble: Option<DeliveryProblem>,
}

snapshot!(struct Contact { card, petname, verified, policy, phase, blocked, trouble });

impl Contact {
    /// Creates a contact that is not blocked, has no name from the user, and was not verified.
    pub fn new(card: Card, phase: ContactPhase, policy: Policy) -> Self {
        Self { card, petname: None, verified: None, policy, phase, blocked: false, trouble: None }
    }

    /// Returns the user's name for the contact, or without one the name that the contact claims.
    pub fn name(&self) -> &str {
        self.petname.as_deref().unwrap_or_else(|| self.card.name())
    }

    /// Stores a newer card. The name that the user knows stays, so a contact that copies another
    /// contact's name is not shown under it.
    fn take_card(&mut self, card: Card) {
        let known = self.card.name();
        let is_accepted = self.phase != ContactPhase::Request && !known.is_empty();
        // A contact that takes the name of another one must not be shown under it (MSG-98).
        if self.petname.is_none() && is_accepted && known != card.name() {
            self.petname = Some(known.into());
        }
        self.card = card;
        // A newer card may name a reachable relay, so earlier problems are tried again.
        self.trouble = None;
    }

    /// Returns the state of the contact, as shown to the user.
    pub fn state(&self) -> ContactState {
        match self.phase {
            _ if self.blocked => ContactState::Blocked,
            ContactPhase::Held => ContactState::Held,
            ContactPhase::Asked => ContactState::Asked,
            ContactPhase::Open => ContactState::Open,
            ContactPhase::Request => ContactState::Request,
        }
    }

    /// Returns true if we send anything to the contact (MSG-26).
    pub fn is_ours(&self) -> bool {
        !self.blocked && self.phase != ContactPhase::Request
    }

    /// Returns true if both sides have answered.
    pub fn is_open(&self) -> bool {
        self.phase == ContactPhase::Open
    }

    /// Encodes the stored form: `phase | blocked | card | petname | verified | policy`.
    pub fn write(&self) -> Wiping<Vec<u8>> {
        let card = self.card.encode();
        let mut w = Writer::with_capacity(128 + card.len());
        w.put_u8(VERSION).put_u8(self.phase as u8).put_u8(u8::from(self.blocked));
        w.put_var16(&card).put_var8(self.petname.as_deref().unwrap_or("").as_bytes());
        let (how, at) = match self.verified {
            None => (0, Time::default()),
            Some((VerificationMethod::InPerson, at)) => (1, at),
            Some((VerificationMethod::Number, at)) => (2, at),
        };
        w.put_u8(how).put_u64(at.as_ms());
        self.policy.write(&mut w);
        Wiping::new(w.finish())
    }

    /// Reads the stored form.
    pub fn read(bytes: &[u8]) -> Result<Self, DecodeError> {
        Reader::decode_exact(bytes, |r| {
            if r.read_u8()? == VERSION { Self::read_body(r) } else { Err(DecodeError::Value) }
        })
    }

    /// Reads the form after its version byte. Earlier versions began with the same fields.
    pub fn read_body(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let phase = match r.read_u8()? {
            0 => ContactPhase::Held,
            1 => ContactPhase::Asked,
            2 => ContactPhase::Open,
            3 => ContactPhase::Request,
            _ => return Err(DecodeError::Value),
        };
        let blocked = read_flag(r)?;
        let card = Card::decode_stored(r.read_var16()?).map_err(|_| DecodeError::Value)?;
        let petname = Some(read_text(r.read_var8()?)?).filter(|name| !name.is_empty());
        let verified = match (r.read_u8()?, Time::from_ms(r.read_u64()?)) {
            (0, _) => None,
            (1, at) => Some((VerificationMethod::InPerson, at)),
            (2, at) => Some((VerificationMethod::Number, at)),
            _ => return Err(DecodeError::Value),
        };
        let policy = Policy::read(r)?;
        Ok(Self { card, petname, verified, policy, phase, blocked, trouble: None })
    }
}

/// Returns the identity key and the name of a stored contact, even if the rest of the row does not
/// decode.
pub(crate) fn read_owner(bytes: &[u8]) -> Option<(IdentityKey, String)> {
    let mut r = Reader::new(bytes);
    r.read_bytes(HEAD_BYTES).ok()?;
    let (ik, claimed) = Card::read_claims(r.read_var16().ok()?)?;
    let petname = r.read_var8().ok().and_then(|name| read_text(name).ok());
    let petname = petname.filter(|name| !name.is_empty() && crate::name::is_clean(name));
    Some((ik, petname.unwrap_or(claimed)))
}

/// All contacts, by number and by identity key.
#[derive(Default)]
pub(crate) struct Contacts {
    all: BTreeMap<ContactId, Contact>,
    by_identity: BTreeMap<[u8; 32], ContactId>,
}

snapshot!(struct Contacts { all, by_identity });

impl Contacts {
    /// Returns one contact.
    pub fn get(&self, id: ContactId) -> Option<&Contact> {
        self.all.get(&id)
    }

    /// Returns all contacts by ascending number, which is the order of their creation.
    pub fn iter(&self) -> impl Iterator<Item = (ContactId, &Contact)> {
        self.all.iter().map(|(id, contact)| (*id, contact))
    }

    /// Returns true if the contact exists.
    pub fn holds(&self, id: ContactId) -> bool {
        self.all.contains_key(&id)
    }

    /// Returns a contact that the caller named.
    ///
    /// # Errors
    /// [`CallerError::NoSuchContact`] if there is none.
    pub fn named_contact(&self, id: ContactId) -> Result<&Contact, DeviceError> {
        self.get(id).ok_or(DeviceError::Caller(CallerError::NoSuchContact))
    }

    /// Returns the contact with this identity key, or `None`.
    pub fn by_identity(&self, ik: &[u8; 32]) -> Option<ContactId> {
        self.by_identity.get(ik).copied()
    }

    /// Returns the number of requests that wait for the user's decision.
    pub fn count_requests(&self) -> usize {
        let waits = |contact: &&Contact| contact.phase == ContactPhase::Request && !contact.blocked;
        self.all.values().filter(waits).count()
    }

    /// Checks that this card may replace the stored one (MSG-6).
    pub fn check_card(&self, id: ContactId, card: &Card) -> Result<(), DeviceError> {
        let held = &self.named_contact(id)?.card;
        // An older card would bring back keys or relays that were replaced (MSG-6).
        if card.serial() < held.serial() {
            return Err(DeviceError::Person(PersonError::CardOlder));
        }
        // Two cards with one serial: the user must see that one of them is forged or restored
        // (MSG-6).
        if card.serial() == held.serial() && !card.same_head(held) {
            return Err(DeviceError::Person(PersonError::CardClash));
        }
        Ok(())
    }

    /// A new contact.
    pub fn add(&mut self, id: ContactId, contact: Contact, effects: &mut Effects) {
        self.insert(id, contact);
        self.store(id, effects);
    }

    fn insert(&mut self, id: ContactId, contact: Contact) {
        self.by_identity.insert(*contact.card.ik().as_bytes(), id);
        self.all.insert(id, contact);
    }

    /// Loads a stored contact.
    pub fn load(&mut self, id: ContactId, contact: Contact) {
        self.insert(id, contact);
    }

    /// Deletes a contact.
    pub fn remove(&mut self, id: ContactId, effects: &mut Effects) {
        if let Some(contact) = self.all.remove(&id) {
            self.by_identity.remove(contact.card.ik().as_bytes());
            effects.drop_row(RecordKind::Contact, key32(id.0));
            effects.show(Event::ContactGone(id));
        }
    }

    /// Stores an accepted card that the user entered.
    pub fn replace_card(&mut self, id: ContactId, card: Card, effects: &mut Effects) {
        self.update_contact(id, effects, |contact| {
            let same = card.serial() == contact.card.serial();
            contact.take_card(if same { card.with_parts_of(&contact.card) } else { card });
        });
    }

    /// Handles a card of the contact that came in a session. A newer one is stored, an older one
    /// ignored, and a different one with the same serial reported to the user (MSG-6). The card of
    /// another identity is ignored (MSG-7). Returns false if the bytes are not a card.
    pub fn learn_card(&mut self, id: ContactId, bytes: &[u8], effects: &mut Effects) -> bool {
        let Ok(card) = Card::decode(bytes) else { return false };
        let Some(contact) = self.all.get_mut(&id) else { return true };
        // The identity of a contact never changes, and old cards are ignored (MSG-6, MSG-7).
        if card.ik() != contact.card.ik() || card.serial() < contact.card.serial() {
            return true;
        }
        if card.serial() > contact.card.serial() {
            contact.take_card(card);
            effects.show(Event::Contact(id));
        } else if card.same_head(&contact.card) {
            contact.card = card.with_parts_of(&contact.card);
        } else {
            // The stored card stays until the user decides (MSG-6).
            self.report_trouble(id, DeliveryProblem::CardClash, effects);
        }
        self.store(id, effects);
        true
    }

    /// Sets the user's name for a contact; `None` keeps the present name.
    pub fn rename(&mut self, id: ContactId, name: Option<String>, effects: &mut Effects) {
        self.update_contact(id, effects, |contact| {
            contact.petname = name.or(contact.petname.take());
        });
    }

    /// Sets method and time of the verification, or `None` to clear it.
    pub fn set_verified(
        &mut self,
        id: ContactId,
        how: Option<(VerificationMethod, Time)>,
        effects: &mut Effects,
    ) {
        self.update_contact(id, effects, |contact| contact.verified = how);
    }

    /// Sets the policy of the conversation.
    pub fn set_policy(&mut self, id: ContactId, policy: Policy, effects: &mut Effects) {
        self.update_contact(id, effects, |contact| contact.policy = policy);
    }

    /// Sets the timer of disappearing notes that both sides agreed on.
    pub fn agree_timer(&mut self, id: ContactId, timer_s: u32, effects: &mut Effects) {
        self.update_contact(id, effects, |contact| contact.policy.timer_s = timer_step(timer_s));
    }

    /// Blocks or unblocks a contact.
    pub fn set_blocked(&mut self, id: ContactId, blocked: bool, effects: &mut Effects) {
        self.update_contact(id, effects, |contact| contact.blocked = blocked);
    }

    /// Accepts a request, so that it becomes a contact.
    pub fn let_in(&mut self, id: ContactId, effects: &mut Effects) {
        self.update_contact(id, effects, |contact| contact.phase = ContactPhase::Open);
        effects.show(Event::Request(id));
    }

    /// Moves a contact from `Held` to `Asked` when a parcel is on its way to it.
    pub fn mark_asked(&mut self, id: ContactId, effects: &mut Effects) {
        // Later phases must not fall back to `Asked`.
        if self.get(id).is_some_and(|contact| contact.phase == ContactPhase::Held) {
            self.update_contact(id, effects, |contact| contact.phase = ContactPhase::Asked);
        }
    }

    /// Moves a contact that has not answered yet to `Open` when a note of the contact arrives.
    pub fn mark_answered(&mut self, id: ContactId, effects: &mut Effects) {
        let waits =
            |contact: &Contact| matches!(contact.phase, ContactPhase::Held | ContactPhase::Asked);
        // A request stays a request until the user accepts it (MSG-26).
        if self.get(id).is_some_and(waits) {
            self.update_contact(id, effects, |contact| contact.phase = ContactPhase::Open);
        }
    }

    /// Stores a problem of a contact and reports it to the user once. The problem stays until it is
    /// cleared.
    pub fn report_trouble(
        &mut self,
        id: ContactId,
        trouble: DeliveryProblem,
        effects: &mut Effects,
    ) {
        let Some(contact) = self.all.get_mut(&id) else { return };
        // A problem is reported once, not with each message that causes it.
        if contact.trouble.replace(trouble) != Some(trouble) {
            effects.show(Event::Trouble(id, trouble));
            effects.show(Event::Contact(id));
        }
    }

    /// Clears the problem of a contact if `which` returns true for it.
    pub fn clear_trouble(
        &mut self,
        id: ContactId,
        which: fn(&DeliveryProblem) -> bool,
        effects: &mut Effects,
    ) {
        let Some(contact) = self.all.get_mut(&id) else { return };
        if contact.trouble.take_if(|trouble| which(trouble)).is_some() {
            effects.show(Event::Contact(id));
        }
    }

    fn update_contact(
        &mut self,
        id: ContactId,
        effects: &mut Effects,
        change: impl FnOnce(&mut Contact),
    ) {
        let Some(contact) = self.all.get_mut(&id) else { return };
        change(contact);
        self.store(id, effects);
        effects.show(Event::Contact(id));
    }

    fn store(&self, id: ContactId, effects: &mut Effects) {
        if let Some(contact) = self.get(id) {
            effects.put(RecordKind::Contact, key32(id.0), contact.write());
        }
    }

    /// Writes the rows of all contacts.
    pub fn put_records(&self, effects: &mut Effects) {
        self.all.keys().for_each(|id| self.store(*id, effects));
    }
}
