//! Own mailboxes and connections: dial, open, watch, publish.

use alloc::vec::Vec;

use super::{Asked, Backend, Bucket, CryptoRng, Device, Event, Kind, Link, Mailbox, Output, Time};
use super::{key32, key64};
use crate::card::RelayEntry;
use crate::carrier::{Carrier, CarrierCaps};
use crate::io::{ContactId, SlotId};
use crate::outbox::{Parcel, Way};
use crate::relay_wire::BoxKind;
use mezza_ratchet::prekeys::OPK_STOCK;

/// Key of the announcement among the prekey records; no table of the ratchet has number 0.
pub(super) const ANNOUNCEMENT_KEY: [u8; 1] = [0];
/// Seconds until a refused request about an own mailbox is tried again.
const AGAIN_S: u64 = 60;

impl<B: Backend> Device<B> {
    /// Keeps a connection to `relay` from now on.
    pub(super) fn dial(&mut self, relay: &RelayEntry, now: Time) {
        if let Some(link) = self.links.get_mut(&relay.key) {
            link.used = now;
            return;
        }
        let link = Link { entry: relay.clone(), up: None, in_flight: 0, used: now };
        self.links.insert(relay.key, link);
        self.act(Output::Dial { relay: relay.clone() });
    }

    /// Adds a mailbox; it is opened as soon as its relay is up.
    pub(super) fn add_mailbox(&mut self, slot: Mailbox) -> SlotId {
        let id = SlotId(self.profile.next_slot);
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
    ) -> Option<SlotId> {
        let relay = self.profile.relays.first()?.clone();
        self.dial(&relay, now);
        Some(self.add_mailbox(Mailbox::draw::<B>(Some(contact), &relay, now, rng)))
    }

    /// Opens or watches a mailbox if its relay is up.
    fn ask_mailbox(&mut self, id: SlotId) {
        let Some(slot) = self.slots.get(&id) else { return };
        let (relay, token, opened) = (slot.relay.key, slot.token.duplicate(), slot.opened);
        let kind = if slot.contact.is_some() { BoxKind::Conversation } else { BoxKind::Intro };
        if self.links.get(&relay).is_none_or(|link| link.up.is_none()) {
            return;
        }
        let asked = if opened { Asked::Watch(id) } else { Asked::Open(id) };
        if self.tickets.values().any(|(_, other)| *other == asked) {
            return;
        }
        let ticket = self.ticket(Some(relay), asked);
        self.act(if opened {
            Output::Watch { ticket, slot: id, relay, token }
        } else {
            Output::Open { ticket, relay, token, kind }
        });
    }

    /// Puts the bundle up if there is something new and the intro mailbox exists.
    pub(super) fn publish(&mut self) {
        let Some(announcement) = &mut self.announcement else { return };
        let intro = self.slots.values().find(|slot| {
            let up = self.links.get(&slot.relay.key).is_some_and(|link| link.up.is_some());
            slot.contact.is_none() && slot.retired.is_none() && slot.opened && up
        });
        let Some(intro) = intro else { return };
        if self.tickets.values().any(|(_, asked)| *asked == Asked::Publish) {
            return;
        }
        let (relay, token) = (intro.relay.key, intro.token.duplicate());
        let (bundle, one_time) = (announcement.bundle.clone(), announcement.one_time.clone());
        let replace = core::mem::take(&mut announcement.replace);
        let ticket = self.ticket(Some(relay), Asked::Publish);
        self.act(Output::Publish { ticket, relay, token, bundle, one_time, replace });
    }

    /// A connection stands: open, watch, publish; the pump does the rest.
    pub(super) fn up(&mut self, relay: [u8; 32], caps: CarrierCaps, now: Time) {
        let Some(link) = self.links.get_mut(&relay) else { return };
        link.up = Some(caps);
        link.used = now;
        let ours = self.slots.iter().filter(|(_, slot)| slot.relay.key == relay);
        let ours: Vec<SlotId> = ours.map(|(id, _)| *id).collect();
        for id in ours {
            self.ask_mailbox(id);
        }
        self.publish();
        self.step.facts.push(Event::Carrier(Carrier::Relay));
    }

    /// The connection is gone, and with it every request on it.
    pub(super) fn down(&mut self, relay: [u8; 32]) {
        let Some(link) = self.links.get_mut(&relay) else { return };
        link.up = None;
        link.in_flight = 0;
        self.tickets.retain(|_, (at, _)| *at != Some(relay));
        for parcel in self.parcels.values_mut().filter(|parcel| parcel.way.is_at(&relay)) {
            parcel.ticket = None;
        }
        for contact in self.contacts.values_mut() {
            if contact.fetch.is_some_and(|ticket| !self.tickets.contains_key(&ticket)) {
                contact.fetch = None;
            }
        }
        self.step.facts.push(Event::Carrier(Carrier::Relay));
    }

    /// OPEN was done: watch, and say hello if the contact does not know the mailbox yet.
    pub(super) fn mailbox_opened(&mut self, id: SlotId) {
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
    fn greet(&mut self, contact: ContactId, id: SlotId) {
        let Some(contact) = self.contacts.get_mut(&contact) else { return };
        if contact.ours == Some(id) && !contact.owed.hello {
            contact.owed.hello = true;
            let contact = contact.id;
            self.store_contact(contact);
        }
    }

    /// A request about an own mailbox was refused: 1 means that the relay has forgotten it.
    pub(super) fn mailbox_refused(&mut self, id: SlotId, code: u8, retry_s: u16, now: Time) {
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
            && let Some((bundle, one_time)) = self.prekeys.offer()
        {
            let announcement = super::Announcement { bundle, one_time, replace: false };
            self.announce(announcement);
        }
    }

    /// Adds to what the relay shall hold; stored until it does.
    pub(super) fn announce(&mut self, newer: super::Announcement) {
        match &mut self.announcement {
            Some(announcement) => announcement.join(newer),
            None => self.announcement = Some(newer),
        }
        // A publish that is out speaks of the older content; its answer must not end this one.
        self.tickets.retain(|_, (_, asked)| *asked != Asked::Publish);
        if let Some(announcement) = &self.announcement {
            let value = announcement.write();
            self.put(Kind::Prekey, ANNOUNCEMENT_KEY.into(), Bucket::Rolling, value);
        }
        self.publish();
    }

    /// The relay holds the announcement.
    pub(super) fn announced(&mut self) {
        if let Some(announcement) = self.announcement.take() {
            let left = usize::from(self.stock.unwrap_or(0)) + announcement.one_time.len();
            self.stock = Some(left.min(OPK_STOCK) as u16);
        }
        self.drop_record(Kind::Prekey, ANNOUNCEMENT_KEY.into());
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
        let unopened: Vec<SlotId> = unopened.map(|(id, _)| *id).collect();
        for id in unopened {
            self.ask_mailbox(id);
        }
        self.publish();
    }

    /// Closes and forgets a mailbox.
    pub(super) fn close(&mut self, id: SlotId) {
        let Some(slot) = self.slots.remove(&id) else { return };
        self.drop_record(Kind::Slot, key32(id.0));
        if self.links.get(&slot.relay.key).is_some_and(|link| link.up.is_some()) {
            let relay = slot.relay.key;
            let ticket = self.ticket(Some(relay), Asked::Close(id));
            self.act(Output::Close { ticket, relay, token: slot.token });
        }
    }

    /// One parcel less is out on a connection.
    pub(super) fn landed(&mut self, way: &Way) {
        if let Some(link) = way.place().and_then(|place| self.links.get_mut(&place.relay.key)) {
            link.in_flight = link.in_flight.saturating_sub(1);
        }
    }

    /// Forgets a parcel that was taken, or has no one to go to.
    pub(super) fn drop_parcel(&mut self, id: u64) -> Option<Parcel> {
        let parcel = self.parcels.remove(&id)?;
        self.drop_record(Kind::Parcel, key64(id));
        if let Some(ticket) = parcel.ticket {
            self.tickets.remove(&ticket);
            self.landed(&parcel.way);
        }
        Some(parcel)
    }
}
