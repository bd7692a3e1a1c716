//! Mail: opening it, and what to do with what does not open (messenger 5.5).

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use super::{Backend, CryptoRng, Device, DeviceError, Event, NoteId, Time, UndecryptedParcel};
use super::{key_recent, key32, key64};
use crate::card::Card;
use crate::carriers::relay::RelayOutput;
use crate::contact::{Contact, ContactPhase};
use crate::envelope;
use crate::evidence::WaitReason;
use crate::io::{ContactId, DeliveryProblem, MailboxId, RecordKind, ResetCause, Retention};
use crate::note::{Era, Item, Note};
use crate::outbox::RATCHET_MESSAGE;
use crate::policy::timer_step;
use crate::receipt::{SeqStatus, Window};
use crate::relay_wire::MailboxAddress;
use crate::thread::StoredNote;
use crate::view::NoteContent;
use mezza_core::{Wiping, Writer};
use mezza_ratchet::{Conversation, IdentityKey, OpenError, Opened, SuiteList, wire};

/// Requests that wait for the person (MSG-35); mail of further strangers stays at the relay.
pub(super) const REQUESTS_MAX: usize = 64;
/// Notes kept of one request.
const REQUEST_NOTES_MAX: usize = 8;
/// Eras of one contact: each restore of a backup makes one.
const ERAS_MAX: usize = 64;
/// Parcels kept for a day because nothing opens them yet.
const HELD_MAX: usize = 32;
/// Between two sessions started on our own for one contact (MSG-31).
const RESET_EVERY_MS: u64 = 10 * Time::MINUTE_MS;

/// A note for the thread, out of the wire.
pub(super) struct Received {
    pub era: Era,
    pub seq: u32,
    pub sent: Time,
    pub timer_s: u32,
    pub body: NoteContent,
}

impl<B: Backend> Device<B> {
    /// Mail in one of our mailboxes. Whatever it is, the relay may forget it afterwards, except
    /// the mail of a stranger for whom there is no room.
    pub(super) fn arrived(
        &mut self,
        slot: MailboxId,
        mail: u64,
        bytes: &[u8],
        now: Time,
        rng: &mut dyn CryptoRng,
    ) -> Result<(), DeviceError> {
        let mailbox = self.slots.get(&slot).ok_or(DeviceError::NoSuchSlot)?;
        self.relay_level = self.level_at(mailbox.relay.line());
        let address = mailbox.relay.address;
        let (contact, parcel) = match mailbox.contact {
            Some(contact) => (Some(contact), envelope::open::<B>(&address, &mailbox.seal, bytes)),
            None => (None, self.open_intro(&address, bytes)),
        };
        let mut take = true;
        match parcel.as_deref() {
            Some([RATCHET_MESSAGE, message @ ..]) => match contact {
                Some(contact) => self.message(contact, message, now, rng),
                None => take = self.stranger(message, now, rng),
            },
            _ => self.refusals.envelopes += 1,
        }
        if take {
            self.act(RelayOutput::Acknowledge { mailbox: slot, mail });
        }
        Ok(())
    }

    /// The intro mailbox is sealed to one of the signed prekeys still held.
    fn open_intro(&self, address: &MailboxAddress, bytes: &[u8]) -> Option<Vec<u8>> {
        self.prekeys.spks().find_map(|(_, _, spk)| envelope::open::<B>(address, spk, bytes))
    }

    /// A message from the intro mailbox; `false`: there is no room for another stranger.
    fn stranger(&mut self, message: &[u8], now: Time, rng: &mut dyn CryptoRng) -> bool {
        let ik = wire::first_identity(message).filter(|ik| *ik != self.identity.public());
        let Some(ik) = ik else {
            self.refusals.messages += 1;
            return true;
        };
        if let Some(contact) = self.contact_by_ik(ik.as_bytes()) {
            // Anybody can send a message under this identity key. If it does not open, no bundle is
            // fetched: the fetch would show that we know this contact.
            let _ = self.open_message(contact, message, now, rng);
            return true;
        }
        if let Some(guest) = self.guest_by_ik(&ik) {
            self.guest_message(guest, message, now, rng);
            return true;
        }
        // Whose contact was set aside is no stranger: the mail waits for a version that reads it.
        if self.aside.knows(&ik) || self.strangers() >= REQUESTS_MAX {
            return false;
        }
        let mut conversation = Conversation::new(self.identity.public(), ik);
        match conversation.open(message, &[], &self.identity, &mut self.prekeys, now) {
            Ok(opened) => self.first_note(message, conversation, opened, now),
            Err(_) => self.refusals.messages += 1,
        }
        true
    }

    /// A stranger's first note makes a request, if the card inside is the stranger's own.
    fn first_note(
        &mut self,
        message: &[u8],
        conversation: Conversation<B>,
        opened: Opened,
        now: Time,
    ) {
        let id = ContactId(self.profile.next_contact);
        let Some((note, card)) = greeting(&opened.body, conversation.remote()) else {
            // The prekeys are used up all the same; the session is nobody's.
            self.refusals.notes += 1;
            self.store_prekeys_of(id, opened.changes);
            return;
        };
        self.profile.next_contact += 1;
        self.store_profile();
        let contact = Contact::new(id, card, conversation, ContactPhase::Request);
        self.request(contact, message, opened.changes, note, now);
    }

    /// Somebody waits for the person to let them in.
    pub(super) fn request(
        &mut self,
        contact: Contact<B>,
        message: &[u8],
        changes: mezza_ratchet::Changes,
        note: Note,
        now: Time,
    ) {
        let id = contact.id;
        self.contacts.insert(id, contact);
        self.remember(id, message);
        self.threads.entry(id).or_default();
        self.store_ratchet(id, changes);
        self.apply(id, note, now);
        self.show(Event::Request(id));
    }

    /// Of the rows of an opened message those of the prekeys alone.
    pub(super) fn store_prekeys_of(&mut self, nobody: ContactId, changes: mezza_ratchet::Changes) {
        let before = self.step.changes.len();
        self.store_ratchet(nobody, changes);
        let rows = self.step.changes.split_off(before);
        self.step.changes.extend(rows.into_iter().filter(|change| {
            let (crate::io::RecordChange::Put { kind, .. }
            | crate::io::RecordChange::Drop { kind, .. }) = change;
            *kind == RecordKind::Prekey
        }));
    }

    /// A ratchet message of a known contact.
    pub(super) fn message(
        &mut self,
        id: ContactId,
        message: &[u8],
        now: Time,
        rng: &mut dyn CryptoRng,
    ) {
        if let Err(error) = self.open_message(id, message, now, rng) {
            self.unopened(id, message, error, now);
        }
    }

    /// Opens it and does what it says; what does not open is counted.
    pub(super) fn open_message(
        &mut self,
        id: ContactId,
        message: &[u8],
        now: Time,
        rng: &mut dyn CryptoRng,
    ) -> Result<(), OpenError> {
        let Some(contact) = self.contacts.get_mut(&id) else { return Ok(()) };
        if contact.blocked || contact.recent.holds(message) {
            return Ok(());
        }
        let conversation = &mut contact.conversation;
        let opened = conversation.open(message, &[], &self.identity, &mut self.prekeys, now);
        let opened = opened.inspect_err(|_| self.refusals.messages += 1)?;
        let first = opened.first;
        self.remember(id, message);
        self.opened(id, opened, now, rng);
        if first {
            self.try_held(id, now, rng);
        }
        Ok(())
    }

    /// A message that comes again is no trouble.
    fn remember(&mut self, id: ContactId, message: &[u8]) {
        let Some(contact) = self.contacts.get_mut(&id) else { return };
        let place = contact.recent.push(message);
        let value = contact.recent.write(place);
        self.put(RecordKind::Seen, key_recent(id, place), Retention::Permanent, value);
    }

    fn opened(&mut self, id: ContactId, opened: Opened, now: Time, rng: &mut dyn CryptoRng) {
        self.store_ratchet(id, opened.changes);
        if let Some(contact) = self.contacts.get_mut(&id) {
            // A session that the other side began needs our hello, and ends our own plans for one.
            contact.owed.hello |= opened.first;
            contact.renew &= !opened.first;
            if matches!(contact.trouble, Some(DeliveryProblem::Suite(_))) {
                contact.trouble = None;
            }
        }
        if let Ok(mut note) = Note::decode(&opened.body) {
            if let Some(exporter) = opened.exporter
                && super::invite::give_root(&mut note, exporter)
                && self.contacts.get(&id).is_some_and(|contact| contact.stage == ContactPhase::Open)
                && self.wants_again(id, now)
            {
                // Whoever invites again has lost the old chains, and what was under way in them.
                self.net_forget(id, now, rng);
            }
            self.apply(id, note, now);
        } else {
            self.refusals.notes += 1;
            self.store_contact(id);
        }
    }

    /// A message that no session opened. What may be a session in trouble is kept for a day and
    /// answered with a new session; what is certainly useless is not (MSG-30).
    fn unopened(&mut self, id: ContactId, message: &[u8], error: OpenError, now: Time) {
        let lost = match error {
            OpenError::NoSession
            | OpenError::UnknownPrekey(_)
            | OpenError::Forged
            | OpenError::TooFar(_) => true,
            // The contact goes on in a session of another suite of ours.
            OpenError::SuiteMismatch { message, .. } => SuiteList::ours().holds(message),
            _ => false,
        };
        let foreign = matches!(
            error,
            OpenError::SuiteUnsupported(_)
                | OpenError::SuiteMismatch { .. }
                | OpenError::SuiteDowngrade
        );
        if foreign && !lost {
            self.trouble(id, DeliveryProblem::Suite(error));
        }
        let Some(contact) = self.contacts.get_mut(&id) else { return };
        if !lost || contact.stage == ContactPhase::Request {
            return;
        }
        if now.since_ms(contact.last_reset) >= RESET_EVERY_MS {
            contact.last_reset = now;
            contact.renew = true;
            contact.owed.anew = Some(ResetCause::Lost as u8);
            self.store_contact(id);
        }
        if self.held.len() < HELD_MAX {
            let key = self.held.last_key_value().map_or(0, |(key, _)| key + 1);
            let key = key.max(self.aside.next(RecordKind::Held));
            let held = UndecryptedParcel { contact: id, at: now, bytes: message.to_vec() };
            self.put(RecordKind::Held, key64(key), Retention::Rolling, write_held(&held));
            self.held.insert(key, held);
        }
    }

    /// With a new session, what could not be opened before may open now.
    fn try_held(&mut self, id: ContactId, now: Time, rng: &mut dyn CryptoRng) {
        let keys = self.held.iter().filter(|(_, held)| held.contact == id);
        let keys: Vec<u64> = keys.map(|(key, _)| *key).collect();
        for key in keys {
            let (Some(held), Some(contact)) = (self.held.get(&key), self.contacts.get_mut(&id))
            else {
                continue;
            };
            let (identity, prekeys) = (&self.identity, &mut self.prekeys);
            if let Ok(opened) = contact.conversation.open(&held.bytes, &[], identity, prekeys, now)
            {
                self.drop_held(key);
                self.opened(id, opened, now, rng);
            }
        }
    }

    /// Forgets a parcel that nothing opened.
    pub(super) fn drop_held(&mut self, key: u64) {
        if self.held.remove(&key).is_some() {
            self.drop_record(RecordKind::Held, key64(key));
        }
    }

    /// Whether this era is known of the contact or may be added.
    pub(super) fn era_fits(&self, id: ContactId, era: Era) -> bool {
        let contact = self.contacts.get(&id);
        contact.is_some_and(|c| c.arrived.contains_key(&era) || c.arrived.len() < ERAS_MAX)
    }

    /// A note with a number: shown once, and receipted as often as it comes.
    pub(super) fn received(&mut self, id: ContactId, note: Received, now: Time) {
        if !self.era_fits(id, note.era) {
            self.refusals.notes += 1;
            return;
        }
        let thread = self.threads.get(&id).map_or(0, BTreeSet::len);
        let Some(contact) = self.contacts.get_mut(&id) else { return };
        if contact.stage == ContactPhase::Request && thread >= REQUEST_NOTES_MAX {
            return;
        }
        let owes = contact.policy.delivered && contact.is_ours();
        // A window begins with a note that is stored, so that none is in memory alone.
        let known = contact.arrived.get(&note.era).map(|(arrived, _)| arrived.look(note.seq));
        match known.unwrap_or_else(|| Window::new(note.era).look(note.seq)) {
            SeqStatus::Fresh => {}
            SeqStatus::Known => {
                contact.owed.receipt |= owes;
                return;
            }
            SeqStatus::Voided | SeqStatus::TooFar => return,
        }
        let pin = contact.policy.level_min;
        let entry = StoredNote {
            contact: id,
            incoming: true,
            client: [0; 16],
            body: note.body,
            era: note.era,
            seq: note.seq,
            sent: note.sent,
            at: now,
            timer_s: timer_step(note.timer_s),
            due: None,
            level_min: pin,
            carrier: Some(self.arriving),
            seen: false,
            again: false,
            voided: false,
            facts: Vec::new(),
            why: WaitReason::Sending,
        };
        if !contact.share.take(entry.body_bytes(), contact.unseen, now) {
            // It counts as not arrived, so that the writer is not told that it is here (MSG-51).
            return self.show(Event::Contact(id));
        }
        let (arrived, _) = contact.window(entry.era);
        arrived.insert(entry.seq);
        contact.owed.receipt |= owes;
        self.store_arrived(id, entry.era);
        let note = self.add_note(entry);
        self.show(Event::Note(id, note));
        self.show(Event::Contact(id));
    }

    /// Stores a new note and puts it into its thread.
    pub(super) fn add_note(&mut self, entry: StoredNote) -> NoteId {
        let (number, block) = self.profile.note_number();
        if block {
            self.store_profile();
        }
        let id = NoteId(number);
        self.index(id, &entry);
        self.notes.insert(id, entry);
        self.store_note(id);
        id
    }
}

/// A note with the card of its writer inside.
pub(super) fn greeting(body: &[u8], ik: &IdentityKey) -> Option<(Note, Card)> {
    let note = Note::decode(body).ok()?;
    let card = note.items.iter().find_map(|item| match item {
        Item::Hello { card, .. } => Card::decode(card).ok(),
        _ => None,
    });
    Some((note, card.filter(|card| card.ik() == ik)?))
}

pub(super) fn write_held(held: &UndecryptedParcel) -> Wiping<Vec<u8>> {
    let mut w = Writer::with_capacity(16 + held.bytes.len());
    w.bytes(&key32(held.contact.0)).u64(held.at.ms()).var16(&held.bytes);
    Wiping::new(w.finish())
}
