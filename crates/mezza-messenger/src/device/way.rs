//! Which way a note may take: into a mailbox, into cells, or none yet, and why.

use super::{Backend, CryptoRng, Device, PendingRequest, Time};
use crate::carriers::CarrierId;
use crate::carriers::relay::RelayOutput;
use crate::contact::ContactPhase;
use crate::evidence::WaitReason;
use crate::io::{ContactId, DeliveryProblem};
use crate::outbox::{Destination, RELAY_KEEPS_MS, Route, UNANSWERED_MAX};

/// A first message travels this much longer than the bundle it was made for (messenger 4.2).
pub(super) const BEYOND_BUNDLE_MS: u64 = 16 * Time::DAY_MS;
/// Between two fetches of a bundle that could not be used.
pub(super) const FETCH_AGAIN_MS: u64 = Time::MINUTE_MS;

impl<B: Backend> Device<B> {
    /// The way to a contact that a note with this pin may take now: the first carrier of the list
    /// that can; if none can, why the first of them cannot.
    pub(super) fn way(
        &mut self,
        id: ContactId,
        pin: u8,
        now: Time,
        rng: &mut dyn CryptoRng,
    ) -> Result<Route, WaitReason> {
        let contact = self.contacts.get(&id).ok_or(WaitReason::Keys)?;
        let mut first = None;
        for carrier in contact.policy.candidates().to_vec() {
            let way = match carrier {
                CarrierId::RELAY => self.relay_way(id, pin, now, rng),
                CarrierId::MIXNET => self.net_way(id, pin, now, rng),
                _ => Err(WaitReason::NoCarrier),
            };
            match way {
                Ok(way) => return Ok(way),
                Err(why) => first = first.or(Some(why)),
            }
        }
        Err(first.unwrap_or(WaitReason::NoCarrier))
    }

    /// The level by which what is being opened came.
    pub(super) fn arriving_level(&self) -> u8 {
        match self.arriving {
            CarrierId::MIXNET => self.net.as_ref().map_or(1, |net| net.level),
            _ => self.relay_level,
        }
    }

    /// The way into the contact's mailbox.
    fn relay_way(
        &mut self,
        id: ContactId,
        pin: u8,
        now: Time,
        rng: &mut dyn CryptoRng,
    ) -> Result<Route, WaitReason> {
        let contact = self.contacts.get(&id).ok_or(WaitReason::Keys)?;
        let relay = contact.relay().ok_or(WaitReason::Keys)?.clone();
        let line = relay.line();
        if self.level_at(line) < pin {
            return Err(WaitReason::BelowPin);
        }
        if contact.trouble == Some(DeliveryProblem::BoxGone) {
            return Err(WaitReason::BoxGone);
        }
        self.dial(&relay, now);
        if self.contacts.get(&id).is_some_and(|contact| contact.our_mailbox.is_none())
            && let Some(slot) = self.mailbox_for(id, now, rng)
            && let Some(contact) = self.contacts.get_mut(&id)
        {
            contact.our_mailbox = Some(slot);
            self.store_contact(id);
        }
        if !self.is_up(line) {
            return Err(WaitReason::NoCarrier);
        }
        self.session_ready(id, CarrierId::RELAY, pin, now)?;
        self.destination(id, now)
    }

    /// Whether there is a session to seal in; else asks for a bundle.
    pub(super) fn session_ready(
        &mut self,
        id: ContactId,
        carrier: CarrierId,
        pin: u8,
        now: Time,
    ) -> Result<(), WaitReason> {
        let ready = self.hello_ready(id, carrier);
        let contact = self.contacts.get_mut(&id).ok_or(WaitReason::Keys)?;
        let conversation = &contact.conversation;
        // The intro mailbox takes first messages alone, so without a slot a session must be new.
        let by_intro = carrier == CarrierId::RELAY && contact.their_mailbox.is_none();
        let lost = by_intro && !conversation.is_pending();
        if contact.renew || !conversation.has_session() || lost {
            let refused = matches!(contact.trouble, Some(DeliveryProblem::Bundle(_)));
            self.fetch(PendingRequest::Fetch(id), id, pin, now);
            return Err(if refused { WaitReason::Bundle } else { WaitReason::Keys });
        }
        // The first note of a session holds our mailbox, which must exist by then (messenger 4.2).
        if conversation.is_pending() && !ready {
            return Err(WaitReason::Keys);
        }
        if contact.stage != ContactPhase::Open && self.unanswered(id) >= UNANSWERED_MAX {
            return Err(WaitReason::Answer);
        }
        Ok(())
    }

    /// Notes that went out to somebody who has not answered yet.
    fn unanswered(&self, id: ContactId) -> usize {
        let range = (id, 0)..=(id, u32::MAX);
        self.unreceipted[0].range(range).count()
    }

    /// Whether a hello that leaves by `carrier` can say all that it must: our mailbox for this
    /// contact exists, or can never exist, or nobody waits for it, for cells need none.
    pub(super) fn hello_ready(&self, id: ContactId, carrier: CarrierId) -> bool {
        let ours = self.contacts.get(&id).and_then(|contact| contact.our_mailbox);
        let ours = ours.and_then(|slot| self.slots.get(&slot));
        carrier == CarrierId::MIXNET || ours.map_or(self.profile.relays.is_empty(), |s| s.opened)
    }

    /// Where a message of the active session goes, and until when it can be opened there.
    fn destination(&self, id: ContactId, now: Time) -> Result<Route, WaitReason> {
        let contact = self.contacts.get(&id).ok_or(WaitReason::Keys)?;
        let mut until = now.plus_ms(RELAY_KEEPS_MS);
        if contact.conversation.is_pending()
            && let Some(intro) = &contact.intro
        {
            until = until.min(intro.not_after.plus_ms(BEYOND_BUNDLE_MS));
        }
        match (&contact.their_mailbox, &contact.intro) {
            (Some(slot), _) => {
                let relay = slot.relay.clone();
                Ok(Route::Relay(Destination { relay, seal: slot.seal, until, intro: false }))
            }
            (None, Some(intro)) => {
                let relay = contact.intro_relay().ok_or(WaitReason::Keys)?.clone();
                Ok(Route::Relay(Destination { relay, seal: intro.spk, until, intro: true }))
            }
            (None, None) => Err(WaitReason::Keys),
        }
    }

    /// Asks the contact's relay for its bundle, one request at a time, and only where the relay may
    /// know that we do (MSG-20).
    pub(super) fn fetch(&mut self, asked: PendingRequest, id: ContactId, pin: u8, now: Time) {
        let Some(contact) = self.contacts.get(&id) else { return };
        let Some(relay) = contact.intro_relay().cloned() else { return };
        let line = relay.line();
        if self.level_at(line) < pin {
            return;
        }
        let (out, after) = (contact.fetch.is_some(), contact.fetch_after);
        self.dial(&relay, now);
        if out || !self.is_up(line) {
            return;
        }
        if now < after {
            return self.pump_later(after);
        }
        let ticket = self.ticket(Some(line), asked);
        if let Some(contact) = self.contacts.get_mut(&id) {
            contact.fetch = Some(ticket);
        }
        self.act(RelayOutput::Fetch { ticket, line, address: relay.address });
    }
}
