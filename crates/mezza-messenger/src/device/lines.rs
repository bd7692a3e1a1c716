//! Connections to relays: each goes by relay key, host and port.
//!
//! ```text
//! a note, a bundle, an own mailbox wants it -dial-> link -Up-> up -Down-> link
//!        idle for 10 minutes, or nobody is reached by it any more -Disconnect-> nothing
//! ```
//!
//! A contact says what it likes about where a relay is. That makes a connection of its own, so that
//! it changes nothing about how anybody else is reached (MSG-50).

use alloc::vec::Vec;

use super::{Backend, Device, Event, MailboxId, NoteId, RecordKind, RelayState, Time, key64};
use crate::card::RelayEntry;
use crate::carriers::relay::RelayOutput;
use crate::carriers::{CarrierCaps, CarrierId};
use crate::contact::ContactPhase;
use crate::io::{ContactId, LineId, Retention};
use crate::outbox::{Destination, Route};

/// A relay that is not ours is left this long after it was needed last.
const IDLE_MS: u64 = 10 * Time::MINUTE_MS;

impl<B: Backend> Device<B> {
    /// Keeps a connection to `relay` from now on.
    pub(super) fn dial(&mut self, relay: &RelayEntry, now: Time) {
        let line = relay.line();
        if let Some(link) = self.links.get_mut(&line) {
            link.used = now;
            return;
        }
        let link = RelayState { entry: relay.clone(), up: None, in_flight: 0, used: now };
        self.links.insert(line, link);
        self.act(RelayOutput::Connect { relay: relay.clone() });
    }

    /// Whether a connection stands.
    pub(super) fn is_up(&self, line: LineId) -> bool {
        self.links.get(&line).is_some_and(|link| link.up.is_some())
    }

    /// The level of a connection now.
    pub(super) fn level_at(&self, line: LineId) -> u8 {
        let caps = self.links.get(&line).and_then(|link| link.up);
        caps.unwrap_or(CarrierCaps::RELAY).level
    }

    /// A connection stands: open, watch, publish; the pump does the rest.
    pub(super) fn up(&mut self, line: LineId, caps: CarrierCaps, now: Time) {
        let Some(link) = self.links.get_mut(&line) else { return };
        link.up = Some(caps);
        link.used = now;
        let ours = self.slots.iter().filter(|(_, slot)| slot.relay.shares_line(&link.entry));
        let ours: Vec<MailboxId> = ours.map(|(id, _)| *id).collect();
        for id in ours {
            self.ask_mailbox(id);
        }
        self.publish();
        self.step.facts.push(Event::Carrier(CarrierId::RELAY));
    }

    /// The connection is gone, and with it every request on it.
    pub(super) fn down(&mut self, line: LineId) {
        let Some(link) = self.links.get_mut(&line) else { return };
        link.up = None;
        link.in_flight = 0;
        self.tickets.retain(|_, (at, _)| *at != Some(line));
        for parcel in self.parcels.values_mut().filter(|parcel| parcel.way.is_at(&link.entry)) {
            parcel.ticket = None;
        }
        for contact in self.contacts.values_mut() {
            if contact.fetch.is_some_and(|ticket| !self.tickets.contains_key(&ticket)) {
                contact.fetch = None;
            }
        }
        self.step.facts.push(Event::Carrier(CarrierId::RELAY));
    }

    /// One parcel less is out on a connection.
    pub(super) fn landed(&mut self, way: &Route) {
        let line = way.place().map(|place| place.relay.line());
        if let Some(link) = line.and_then(|line| self.links.get_mut(&line)) {
            link.in_flight = link.in_flight.saturating_sub(1);
        }
    }

    /// A contact is reached elsewhere now: what waits for the old mailbox goes to the new one, as
    /// the same bytes in another envelope.
    pub(super) fn moved(&mut self, id: ContactId, before: Option<&RelayEntry>) {
        let own = self.parcels.iter().filter(|(_, parcel)| parcel.contact == id);
        for parcel in own.map(|(parcel, _)| *parcel).collect::<Vec<_>>() {
            self.readdress(parcel);
        }
        if let Some(relay) = before {
            self.leave(relay);
        }
    }

    fn readdress(&mut self, id: u64) {
        let Some(parcel) = self.parcels.get(&id) else { return };
        let Some(contact) = self.contacts.get(&parcel.contact) else { return };
        let Some(place) = parcel.way.place() else { return };
        let slot = contact.their_mailbox.as_ref().map(|slot| (&slot.relay, slot.seal));
        let intro = contact.intro_relay().map(|relay| (relay, place.seal));
        let to = if place.intro { intro } else { slot };
        let Some((relay, seal)) = to else { return };
        if place.relay == *relay {
            return;
        }
        let way = Route::Relay(Destination { relay: relay.clone(), seal, ..place.clone() });
        let before = parcel.way.clone();
        let Some(parcel) = self.parcels.get_mut(&id) else { return };
        (parcel.way, parcel.after) = (way, Time::default());
        let (ticket, value) = (parcel.ticket.take(), parcel.write());
        self.put(RecordKind::Parcel, key64(id), Retention::Rolling, value);
        if let Some(ticket) = ticket {
            self.tickets.remove(&ticket);
            self.landed(&before);
        }
    }

    /// Leaves a relay at once if nobody is reached by this connection any more: whoever names
    /// another one with every note makes us keep one connection, not one a note.
    pub(super) fn leave(&mut self, relay: &RelayEntry) {
        let used = self.contacts.values().any(|contact| contact.is_at(relay))
            || self.parcels.values().any(|parcel| parcel.way.is_at(relay));
        if !used && !self.is_own(relay) {
            self.hang(relay.line());
        }
    }

    fn hang(&mut self, line: LineId) {
        if self.links.contains_key(&line) {
            self.down(line);
            self.links.remove(&line);
            self.act(RelayOutput::Disconnect { line });
        }
    }

    fn is_own(&self, relay: &RelayEntry) -> bool {
        let ours = self.slots.values().any(|slot| slot.relay.shares_line(relay));
        ours || self.profile.relays.iter().any(|own| own.shares_line(relay))
    }

    /// When the first connection to a relay of others was idle for long enough.
    pub(super) fn next_idle_line(&self) -> Option<Time> {
        let links = self.links.values().filter(|link| !self.is_own(&link.entry));
        links.map(|link| link.used.plus_ms(IDLE_MS)).min()
    }

    /// Leaves relays of others that nothing was sent to for a while.
    pub(super) fn hang_up(&mut self, now: Time) {
        let idle = self
            .links
            .iter()
            .filter(|(_, link)| !self.is_own(&link.entry) && now.since_ms(link.used) >= IDLE_MS);
        let idle: Vec<LineId> = idle.map(|(line, _)| *line).collect();
        for line in idle {
            if self.links.get(&line).is_some_and(|link| self.wants(&link.entry)) {
                self.links.entry(line).and_modify(|link| link.used = now);
            } else {
                self.hang(line);
            }
        }
    }

    /// Whether a contact at this relay still has something to get from us.
    fn wants(&self, relay: &RelayEntry) -> bool {
        let busy = self.parcels.values().any(|parcel| parcel.way.is_at(relay));
        busy || self.contacts.values().any(|contact| {
            let notes = (contact.id, NoteId(0))..=(contact.id, NoteId(u64::MAX));
            let waits = self.waiting.range(notes).next().is_some();
            let owes = contact.stage == ContactPhase::Open && contact.owed.any();
            contact.is_at(relay) && (waits || owes || contact.renew)
        })
    }
}
