//! Outgoing traffic over relays: the route into a contact's mailbox, and the envelope around a parcel.

use alloc::vec::Vec;

use mezza_core::{Backend, CryptoRng, EphemeralKey, Time};

use super::requests::Request;
use super::{BEYOND_BUNDLE_MS, KEEPS_MS, Relay, RelayOutput, connections};
use crate::card::{RELAY_PART, RelayEntry};
use crate::carriers::Exchange;
use crate::envelope::SenderContext;
use crate::evidence::WaitReason;
use crate::io::{
    CarrierId, ContactFacts, Ctx, DeliveryProblem, Dropped, Handover, HelloPlace, Leaving, Missing,
    ParcelId, Route,
};

impl<B: Backend> Relay<B> {
    /// Returns the relay of a contact if a note of this lowest level may be sent there.
    fn usable_relay<'a>(
        &'a self,
        to: &'a ContactFacts<'_>,
        pin: u8,
    ) -> Result<&'a RelayEntry, Missing> {
        let wait = Missing::Wait;
        let relay = self.relay_of(to).ok_or_else(|| {
            // A card whose relays are left out is completed by another form of it (MSG-153).
            let lacking = to.card.lacks_part(RELAY_PART);
            wait(if lacking { WaitReason::NewCard } else { WaitReason::Keys })
        })?;
        // The relay learns the recipient, so the lowest level applies to the connection to it as
        // well (MSG-20).
        if self.connections.level(relay.connection_id()) < pin {
            return Err(wait(WaitReason::BelowPin));
        }
        // Neither mailbox exists, so the user is asked for a newer card (4.2).
        if to.trouble == Some(DeliveryProblem::BoxGone) {
            return Err(wait(WaitReason::BoxGone));
        }
        Ok(relay)
    }

    /// Connects to the relay of a contact, and opens a mailbox for it.
    pub(super) fn prepare_contact(&mut self, to: &ContactFacts<'_>, pin: u8, ctx: &mut Ctx<'_>) {
        let Ok(relay) = self.usable_relay(to, pin).cloned() else { return };
        self.connect_relay(&relay, Some(to.id), ctx);
        self.open_own_mailbox(to, pin, ctx);
    }

    /// Opens our mailbox for a contact that can use it, since the first note names it (4.2).
    pub(super) fn open_own_mailbox(&mut self, to: &ContactFacts<'_>, pin: u8, ctx: &mut Ctx<'_>) {
        if self.usable_relay(to, pin).is_ok()
            && !self.has_place_for(to.id)
            && let Some(mailbox) = self.mailbox_for(to.id, ctx)
        {
            self.update_peer(to.id, ctx.effects, |peer| peer.ours = Some(mailbox));
        }
    }

    /// Returns the route into the contact's mailbox.
    pub(super) fn find_route(
        &self,
        to: &ContactFacts<'_>,
        pin: u8,
        now: Time,
    ) -> Result<Route, Missing> {
        let relay = self.usable_relay(to, pin)?;
        let wait = Missing::Wait;
        if !self.connections.is_up(relay.connection_id()) {
            return Err(wait(WaitReason::NoCarrier));
        }
        // The intro mailbox accepts first messages only, so without another mailbox a new session
        // is needed.
        let lost = self.remote_mailbox(to.id).is_none() && !to.session.pending;
        if !to.session.is_usable() || lost {
            return Err(Missing::Session);
        }
        // The first note of a session contains our mailbox, which must exist by then. The same
        // holds for our first answer: without a mailbox in it the contact would begin another
        // session (messenger 4.2).
        let first = to.session.pending || !to.session.initiator && !self.has_given(to.id);
        if first && self.own_place(to.id) == HelloPlace::NotYet {
            return Err(wait(WaitReason::Keys));
        }
        self.where_to(to, now).ok_or(wait(WaitReason::Keys))
    }

    /// Returns the route for a message of the active session, with the time until which the
    /// recipient can open it.
    fn where_to(&self, to: &ContactFacts<'_>, now: Time) -> Option<Route> {
        let peer = self.peer(to.id)?;
        let mut until = now.plus_ms(KEEPS_MS);
        // The responder deletes its signed prekey after this time, so later mail would not open
        // (4.2).
        if let Some(intro) = peer.intro.as_ref().filter(|_| to.session.pending) {
            until = until.min(intro.not_after.plus_ms(BEYOND_BUNDLE_MS));
        }
        let address = match (&peer.theirs, &peer.intro) {
            (Some(_), _) => Vec::new(),
            (None, Some(intro)) if !to.card.relays().is_empty() => intro.spk.0.to_vec(),
            (None, _) => return None,
        };
        let carrier = CarrierId::RELAY;
        Some(Route { carrier, until: Some(until), invitation: false, address })
    }

    /// Seals a parcel into an envelope and puts it into the contact's mailbox.
    pub(super) fn put_parcel(&mut self, parcel: &Leaving<'_>, ctx: &mut Ctx<'_>) -> Handover {
        let id = parcel.to.id;
        // The mailbox was lost since the route was selected.
        let Some((relay, seal)) = self.find_destination(&parcel.to, parcel.route) else {
            return Handover::Waits;
        };
        self.connect_relay(&relay, Some(id), ctx);
        let connection = relay.connection_id();
        let address = relay.address;
        let stands = |connection: &connections::Connection| {
            // At most 8 parcels in flight, and never below the lowest level (MSG-35, MSG-20).
            connection.has_room() && connection.caps().level >= parcel.pin
        };
        if !self.connections.get(connection).is_some_and(stands) {
            return Handover::Waits;
        }
        self.wanted.insert(id);
        // A context fits one mailbox and one envelope, and is dropped if the contact has moved.
        let ahead = self.contexts.remove(&id).filter(|ahead| ahead.is_for(&address, &seal));
        let context = match ahead {
            Some(ahead) => Ok(ahead),
            None => SenderContext::new::<B>(&address, &seal, ctx.draw_ephemeral::<B>()),
        };
        let intro = !parcel.route.address.is_empty();
        let Ok(envelope) = context.and_then(|context| context.seal::<B>(parcel.bytes)) else {
            // The key has low order, so HPKE refuses it. Honest devices have no such key.
            self.on_mailbox_lost(id, address, intro, ctx.effects);
            return Handover::Waits;
        };
        if let Some(connection) = self.connections.connection_mut(connection) {
            connection.in_flight += 1;
        }
        let until = parcel.route.until.unwrap_or_default();
        // Relays accept a lifetime in whole hours, 1 to 720.
        let ttl_h = (until.since_ms(ctx.now) / Time::HOUR_MS).clamp(1, 720) as u16;
        let request = Request::Put { parcel: parcel.id, contact: id, to: address, intro };
        let ticket = self.requests.issue_ticket(connection, request);
        self.outputs.push_back(RelayOutput::Put { ticket, connection, address, ttl_h, envelope });
        Handover::Out
    }

    /// Withdraws parcels that must not be sent any more.
    pub(super) fn take_back(&mut self, parcels: &[Dropped]) {
        let dropped = |id: &ParcelId| parcels.iter().any(|dropped| dropped.id == *id);
        let ours = |_, request: &Request| matches!(request, Request::Put { parcel, .. } if dropped(parcel));
        for (_, connection, _) in self.requests.take_where(ours) {
            self.connections.count_landed(connection);
        }
    }

    /// Computes the two scalar multiplications of the next envelope in advance, for each contact
    /// that was just written to.
    pub(super) fn compute_ahead(&mut self, rng: &mut dyn CryptoRng) {
        for id in core::mem::take(&mut self.wanted) {
            let Some(theirs) = self.remote_mailbox(id) else { continue };
            let address = theirs.relay.address;
            let seal = theirs.seal;
            let fresh = EphemeralKey::random::<B>(rng);
            if let Ok(context) = SenderContext::new::<B>(&address, &seal, fresh) {
                self.contexts.insert(id, context);
            }
        }
    }
}
