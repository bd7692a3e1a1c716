//! First contact over the mixnet, from the side that is invited: a session with a key, and nothing
//! said until the person wants to know who it is.
//!
//! ```text
//! invitation -> guest -See-> chains, a call -> their hello and card in cells -> request
//! ```

use alloc::vec::Vec;

use super::arrive::{REQUESTS_MAX, greeting};
use super::invite::root;
use super::{Backend, CryptoRng, Device, DeviceError, Event, RecordKind, Retention, Time, key32};
use crate::card::Card;
use crate::carriers::CarrierId;
use crate::contact::{Contact, ContactPhase};
use crate::guest::{IncomingInvitation, PendingStart};
use crate::io::ContactId;
use crate::note::{Item, MixnetStart, Note};
use crate::policy::Policy;
use mezza_core::Secret;
use mezza_mixnet::client::{self, NewRoot};
use mezza_mixnet::contact::{Intent, Role};
use mezza_mixnet::wire::invitation::Invitation;
use mezza_ratchet::{Conversation, IdentityKey, Opened, wire};

impl<B: Backend> Device<B> {
    /// An invitation was in our bucket. From somebody we know it is a message like any other.
    pub(super) fn invited(&mut self, invitation: &Invitation, now: Time, rng: &mut dyn CryptoRng) {
        let message = invitation.body.as_slice();
        let ik = wire::first_identity(message).filter(|ik| *ik != self.identity.public());
        let Some(ik) = ik else {
            self.refusals.messages += 1;
            return;
        };
        if let Some(contact) = self.contact_by_ik(ik.as_bytes()) {
            self.arriving = CarrierId::MIXNET;
            // Anybody can invite under this identity key. If the message does not open, nothing
            // begins.
            let _ = self.open_message(contact, message, now, rng);
            self.arriving = CarrierId::RELAY;
            return;
        }
        let known = self.guest_by_ik(&ik);
        if self.aside.knows(&ik) {
            return;
        }
        if known.is_none() && self.strangers() >= REQUESTS_MAX {
            return;
        }
        // The same invitation comes again, until it is answered: the first one has used its keys.
        let mut conversation = Conversation::new(self.identity.public(), ik);
        match conversation.open(message, &[], &self.identity, &mut self.prekeys, now) {
            Ok(opened) => {
                if let Some(known) = known {
                    self.net_forget(known, now, rng);
                    self.forget_guest(known);
                }
                self.welcome(ik, conversation, opened, invitation.bucket, now);
            }
            Err(_) => self.refusals.messages += 1,
        }
    }

    fn welcome(
        &mut self,
        ik: IdentityKey,
        conversation: Conversation<B>,
        opened: Opened,
        bucket: u32,
        now: Time,
    ) {
        let id = ContactId(self.profile.next_contact);
        let network = self.net.as_ref().and_then(|net| Some(net.config(now)?.network));
        let meet = meet_of(&opened.body).filter(|meet| Some(meet.network) == network);
        let (Some(meet), Some(exporter)) = (meet, opened.exporter) else {
            // The prekeys are used up all the same; the session is nobody's.
            self.refusals.notes += 1;
            return self.store_prekeys_of(id, opened.changes);
        };
        self.profile.next_contact += 1;
        self.store_profile();
        self.store_ratchet(id, opened.changes);
        let rounds = (meet.conversation, meet.call);
        let start = Some(PendingStart { root: root(exporter), rounds });
        let guest = IncomingInvitation {
            id,
            ik,
            conversation,
            bucket,
            start,
            at: now,
            asked: None,
            times: 0,
        };
        self.guests.insert(id, guest);
        self.store_guest(id);
        self.show(Event::Request(id));
    }

    /// The person wants to know who it is: the chains start, and the guest is called.
    pub(super) fn see(
        &mut self,
        id: ContactId,
        now: Time,
        rng: &mut dyn CryptoRng,
    ) -> Result<(), DeviceError> {
        if !self.guests.contains_key(&id) {
            let known = self.contacts.contains_key(&id);
            return Err(if known { DeviceError::NotNow } else { DeviceError::NoSuchContact });
        }
        self.start_chains(id, now, rng)?;
        if let Some(guest) = self.guests.get_mut(&id) {
            (guest.start, guest.asked, guest.times) = (None, Some(now), 0);
        }
        self.call_guest(id, now, rng);
        self.store_guest(id);
        self.show(Event::Request(id));
        Ok(())
    }

    /// The client gets the chains of a guest, once.
    fn start_chains(
        &mut self,
        id: ContactId,
        now: Time,
        rng: &mut dyn CryptoRng,
    ) -> Result<(), DeviceError> {
        let Some(guest) = self.guests.get(&id) else { return Ok(()) };
        let Some(PendingStart { root, rounds }) = &guest.start else { return Ok(()) };
        let introduction = NewRoot {
            contact: id.0,
            root: Secret::copy_from(root.expose()),
            role: Role::Responder,
            start: *rounds,
            bucket: guest.bucket,
        };
        self.tell_client(client::Input::Add(introduction), now, rng).map_err(DeviceError::Network)
    }

    fn call_guest(&mut self, id: ContactId, now: Time, rng: &mut dyn CryptoRng) {
        // Whom the client does not know, it cannot call.
        let _ = self.tell_client(client::Input::Call(id.0, Intent::Talk), now, rng);
    }

    /// The network is there again: whoever was asked and has not come is called.
    pub(super) fn call_guests(&mut self, now: Time, rng: &mut dyn CryptoRng) {
        let asked = self.guests.values().filter(|guest| guest.asked.is_some());
        for id in asked.map(|guest| guest.id).collect::<Vec<_>>() {
            self.call_guest(id, now, rng);
        }
    }

    /// Guests who are to be called again, or forgotten.
    pub(super) fn turn_guests(&mut self, now: Time, rng: &mut dyn CryptoRng) {
        let due = self.guests.values().filter(|guest| guest.deadline() <= now);
        for id in due.map(|guest| guest.id).collect::<Vec<_>>() {
            let Some(guest) = self.guests.get_mut(&id) else { continue };
            if guest.is_over(now) {
                self.net_forget(id, now, rng);
                self.forget_guest(id);
                self.show(Event::Request(id));
                continue;
            }
            (guest.asked, guest.times) = (Some(now), guest.times.saturating_add(1));
            self.call_guest(id, now, rng);
            self.store_guest(id);
        }
    }

    /// A message of a guest, in cells or in the intro mailbox: with the card of this key inside it
    /// makes a request like that of any stranger, to be answered the way it came.
    pub(super) fn guest_message(
        &mut self,
        id: ContactId,
        message: &[u8],
        now: Time,
        rng: &mut dyn CryptoRng,
    ) {
        let Some(guest) = self.guests.get_mut(&id) else { return };
        let opened = guest.conversation.open(message, &[], &self.identity, &mut self.prekeys, now);
        let Ok(opened) = opened else {
            self.refusals.messages += 1;
            return;
        };
        let Some((note, card)) = greeting(&opened.body, &guest.ik) else {
            self.refusals.notes += 1;
            return self.store_ratchet(id, opened.changes);
        };
        if opened.first {
            // They took the invitation back, and its chains with it.
            self.net_forget(id, now, rng);
        } else {
            // Rounds out of reach: then there are none.
            let _ = self.start_chains(id, now, rng);
        }
        if let Some(contact) = self.inviter_identified(id, card, !opened.first) {
            self.request(contact, message, opened.changes, note, now);
        }
    }

    /// A guest whose card is here is a contact who waits for the person. It is answered the way
    /// the card came: in cells at their level, or into a mailbox.
    fn inviter_identified(&mut self, id: ContactId, card: Card, met: bool) -> Option<Contact<B>> {
        let guest = self.guests.remove(&id)?;
        self.drop_record(RecordKind::Guest, key32(id.0));
        let mut contact = Contact::new(id, card, guest.conversation, ContactPhase::Request);
        if self.arriving == CarrierId::MIXNET {
            let pin = self.net.as_ref().map_or(1, |net| net.level);
            contact.policy = Policy {
                carriers: [CarrierId::MIXNET].into(),
                level_min: pin,
                ..Policy::default()
            };
        }
        contact.met = contact.conversation.active_id().filter(|_| met);
        Some(contact)
    }

    /// The person has the card of a guest from elsewhere: that tells who it is.
    pub(super) fn recognized(
        &mut self,
        id: ContactId,
        card: Card,
        now: Time,
        rng: &mut dyn CryptoRng,
    ) -> Result<(), DeviceError> {
        self.start_chains(id, now, rng)?;
        self.arriving = CarrierId::MIXNET;
        let contact = self.inviter_identified(id, card, true);
        self.arriving = CarrierId::RELAY;
        self.contacts.extend(contact.map(|contact| (id, contact)));
        self.threads.entry(id).or_default();
        Ok(())
    }

    /// Forgets a guest with everything that hangs on it, except what the client has.
    pub(super) fn forget_guest(&mut self, id: ContactId) {
        let Some(guest) = self.guests.remove(&id) else { return };
        self.drop_conversation(id, &guest.conversation);
        self.drop_record(RecordKind::Guest, key32(id.0));
    }

    pub(super) fn guest_by_ik(&self, ik: &IdentityKey) -> Option<ContactId> {
        self.guests.values().find(|guest| guest.ik == *ik).map(|guest| guest.id)
    }

    /// Those who wait for the person: requests and guests.
    pub(super) fn strangers(&self) -> usize {
        let requests =
            self.contacts.values().filter(|c| c.stage == ContactPhase::Request && !c.blocked);
        requests.count() + self.guests.len()
    }

    fn store_guest(&mut self, id: ContactId) {
        if let Some(guest) = self.guests.get(&id) {
            let value = guest.write();
            self.put(RecordKind::Guest, key32(id.0), Retention::Rolling, value);
        }
    }
}

/// What an invitation says, if it is one: where the chains start, and no root.
fn meet_of(body: &[u8]) -> Option<MixnetStart> {
    let note = Note::decode(body).ok()?;
    note.items.into_iter().find_map(|item| match item {
        Item::Meet(meet) if meet.root.is_none() => Some(meet),
        _ => None,
    })
}
