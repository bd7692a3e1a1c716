//! Own mailboxes: open, watch, publish, close.

use alloc::vec::Vec;

use super::{
    Backend, CryptoRng, Device, Mailbox, PendingRequest, RecordKind, Retention, Time, key32, key64,
};
use crate::carriers::relay::RelayOutput;
use crate::io::{ContactId, MailboxId};
use crate::outbox::Parcel;
use crate::relay_wire::MailboxKind;
use mezza_ratchet::prekeys::OPK_STOCK;

/// Key of the announcement among the prekey records; no table of the ratchet has number 0.
pub(super) const ANNOUNCEMENT_KEY: [u8; 1] = [0];
/// Seconds until a refused request about an own mailbox is tried again.
const AGAIN_S: u64 = 60;

impl<B: Backend> Device<B> {
    /// Adds a mailbox; it is opened as soon as its relay is up.
    pub(super) fn add_mailbox(&mut self, slot: Mailbox) -> MailboxId {
        let id = MailboxId(self.profile.next_slot);
        self.profile.next_slot += 1;
        self.slots.insert(id, slot);
        self.store_slot(id);
        self.store_profile();
        self.ask_mailbox(id);
        id
    }

    /// A mailbox for `contact` at our own relay, if we have one.
    pub(super) fn mailbox_for(
        &mut self,
        contact: ContactId,
        now: Time,
        rng: &mut dyn CryptoRng,
    ) -> Option<MailboxId> {
        let relay = self.profile.relays.first()?.clone();
        self.dial(&relay, now);
        Some(self.add_mailbox(Mailbox::draw::<B>(Some(contact), &relay, now, rng)))
    }

    /// Opens or watches a mailbox if its relay is up.
    pub(super) fn ask_mailbox(&mut self, id: MailboxId) {
        let Some(slot) = self.slots.get(&id) else { return };
        let (line, token, opened) = (slot.relay.line(), slot.token.duplicate(), slot.opened);
        let kind =
            if slot.contact.is_some() { MailboxKind::Conversation } else { MailboxKind::Intro };
        if !self.is_up(line) {
            return;
        }
        let asked = if opened { PendingRequest::Watch(id) } else { PendingRequest::Open(id) };
        if self.tickets.values().any(|(_, other)| *other == asked) {
            return;
        }
        let ticket = self.ticket(Some(line), asked);
        self.act(if opened {
            RelayOutput::Watch { ticket, mailbox: id, line, token }
        } else {
            RelayOutput::Open { ticket, line, token, kind }
        });
    }

    /// Puts the bundle up if there is something new and the intro mailbox exists.
    pub(super) fn publish(&mut self) {
        let Some(announcement) = &mut self.announcement else { return };
        let intro = self.slots.values().find(|slot| {
            let current = slot.contact.is_none() && slot.retired.is_none() && slot.opened;
            current && self.links.get(&slot.relay.line()).is_some_and(|link| link.up.is_some())
        });
        let Some(intro) = intro else { return };
        if self.tickets.values().any(|(_, asked)| *asked == PendingRequest::Publish) {
            return;
        }
        let (line, token) = (intro.relay.line(), intro.token.duplicate());
        let (bundle, one_time) = (announcement.bundle.clone(), announcement.one_time.clone());
        let replace = core::mem::take(&mut announcement.replace);
        let ticket = self.ticket(Some(line), PendingRequest::Publish);
        self.act(RelayOutput::Publish { ticket, line, token, bundle, one_time, replace });
    }

    /// OPEN was done: watch, and say hello if the contact does not know the mailbox yet.
    pub(super) fn mailbox_opened(&mut self, id: MailboxId) {
        let Some(slot) = self.slots.get_mut(&id) else { return };
        slot.opened = true;
        let contact = slot.contact;
        self.store_slot(id);
        self.ask_mailbox(id);
        match contact {
            None => self.publish(),
            Some(contact) => self.greet(contact, id),
        }
    }

    /// The mailbox `id` is the one that `contact` shall use from now on.
    pub(super) fn greet(&mut self, contact: ContactId, id: MailboxId) {
        let Some(contact) = self.contacts.get_mut(&contact) else { return };
        if contact.our_mailbox == Some(id) && !contact.owed.hello {
            contact.owed.hello = true;
            let contact = contact.id;
            self.store_contact(contact);
        }
    }

    /// A request about an own mailbox was refused: 1 means that the relay has forgotten it.
    pub(super) fn mailbox_refused(&mut self, id: MailboxId, code: u8, retry_s: u16, now: Time) {
        if code == 1
            && let Some(slot) = self.slots.get_mut(&id)
            && slot.opened
        {
            slot.opened = false;
            let intro = slot.contact.is_none() && slot.retired.is_none();
            self.store_slot(id);
            self.ask_mailbox(id);
            if intro {
                self.offer_again();
            }
            return;
        }
        self.again(retry_s, now);
    }

    /// The relay has lost our bundle: what still holds is announced once more.
    pub(super) fn offer_again(&mut self) {
        if self.announcement.is_none()
            && let Some((bundle, one_time)) = self.prekeys.current_bundle()
        {
            let announcement = super::PrekeyUpload { bundle, one_time, replace: false };
            self.announce(announcement);
        }
    }

    /// Adds to what the relay shall hold; stored until it does.
    pub(super) fn announce(&mut self, newer: super::PrekeyUpload) {
        match &mut self.announcement {
            Some(announcement) => announcement.join(newer),
            None => self.announcement = Some(newer),
        }
        // A publish that is out speaks of the older content; its answer must not end this one.
        self.tickets.retain(|_, (_, asked)| *asked != PendingRequest::Publish);
        if let Some(announcement) = &self.announcement {
            let value = announcement.write();
            self.put(RecordKind::Prekey, ANNOUNCEMENT_KEY.into(), Retention::Rolling, value);
        }
        self.publish();
    }

    /// The relay holds the announcement.
    pub(super) fn announced(&mut self) {
        if let Some(announcement) = self.announcement.take() {
            let left = usize::from(self.stock.unwrap_or(0)) + announcement.one_time.len();
            self.stock = Some(left.min(OPK_STOCK) as u16);
        }
        self.drop_record(RecordKind::Prekey, ANNOUNCEMENT_KEY.into());
    }

    /// Something about our own mailboxes is tried again later.
    pub(super) fn again(&mut self, retry_s: u16, now: Time) {
        let wait_ms = AGAIN_S.max(u64::from(retry_s)) * Time::SECOND_MS;
        self.retry_at = now.plus_ms(wait_ms);
    }

    /// What was refused a while ago.
    pub(super) fn retry(&mut self, now: Time) {
        if self.retry_at == Time::default() || now < self.retry_at {
            return;
        }
        self.retry_at = Time::default();
        let unopened = self.slots.iter().filter(|(_, slot)| !slot.opened);
        let unopened: Vec<MailboxId> = unopened.map(|(id, _)| *id).collect();
        for id in unopened {
            self.ask_mailbox(id);
        }
        self.publish();
    }

    /// Closes and forgets a mailbox.
    pub(super) fn close(&mut self, id: MailboxId) {
        let Some(slot) = self.slots.remove(&id) else { return };
        self.drop_record(RecordKind::Slot, key32(id.0));
        // Who had it and got no other one, since there was no relay then, gets one once there is.
        let owner = slot.contact.and_then(|owner| self.contacts.get_mut(&owner));
        if let Some(owner) = owner.filter(|owner| owner.our_mailbox == Some(id)) {
            owner.our_mailbox = None;
            let owner = owner.id;
            self.store_contact(owner);
        }
        let line = slot.relay.line();
        if self.is_up(line) {
            let ticket = self.ticket(Some(line), PendingRequest::Close(id));
            self.act(RelayOutput::Close { ticket, line, token: slot.token });
        }
    }

    /// Forgets a parcel that was taken, or has no one to go to.
    pub(super) fn drop_parcel(&mut self, id: u64) -> Option<Parcel> {
        let parcel = self.parcels.remove(&id)?;
        self.drop_record(RecordKind::Parcel, key64(id));
        if let Some(ticket) = parcel.ticket {
            self.tickets.remove(&ticket);
            self.landed(&parcel.way);
        }
        Some(parcel)
    }
}
