//! The relays as a [`Carrier`].

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use mezza_core::{Backend, CryptoRng, DecodeError, PublicKey, Time};
use mezza_ratchet::Exporter;

use super::requests::Request;
use super::{
    CAPS, CardPlan, FETCH, FETCH_AGAIN_MS, IDLE, IntroKey, OwnMailbox, RETRY, Relay, RelayOutput,
    RelayPeer, connections, timer,
};
use crate::card::RelayEntry;
use crate::carriers::{Bundles, Carrier, Exchange, Invitations, Routing, Storage};
use crate::error::DeviceError;
use crate::evidence::WaitReason;
use crate::io::{
    CarrierConnection, CarrierId, CarrierState, ContactFacts, ContactId, Ctx, DateStep, Dropped,
    Effects, FetchPurpose, Forget, Handover, HelloPlace, Leaving, MailboxId, Missing, News,
    PersonRows, Publication, Receiving, RecordKind, RelayConnectionId, Route, RouteTerms,
    StoredRows, Unloaded, fits_vault, key32, loads_again,
};
use crate::note::Item;

impl<B: Backend> Carrier for Relay<B> {
    fn id(&self) -> CarrierId {
        CarrierId::RELAY
    }

    /// Moves stored times after a correction of the date.
    fn apply_date_step(&mut self, date: &DateStep, ctx: &mut Ctx<'_>) {
        self.correct_dates(date, ctx);
    }

    fn start(&mut self, ctx: &mut Ctx<'_>) {
        let relays: Vec<_> = self.all_mailboxes().map(|own| own.relay.clone()).collect();
        for relay in relays {
            self.connect_relay(&relay, None, ctx);
        }
    }

    /// Handles an expired timer.
    fn handle_timer(&mut self, number: u64, busy: &dyn Fn(ContactId) -> bool, ctx: &mut Ctx<'_>) {
        match number {
            RETRY => self.retry_requests(),
            IDLE => {
                let own: BTreeSet<RelayConnectionId> =
                    self.all_mailboxes().map(|own| own.relay.connection_id()).collect();
                let is_own = |relay: &RelayEntry| own.contains(&relay.connection_id());
                for connection in self.connections.find_idle(is_own, busy, ctx.now) {
                    self.disconnect(connection);
                }
                ctx.effects.set_timer(timer(IDLE), self.connections.next_idle(is_own));
            }
            number if number & FETCH != 0 => ctx.effects.touch(ContactId(number as u32)),
            number => self.turn_mailbox(MailboxId(number as u32), ctx),
        }
    }

    /// Returns the next event for the device.
    fn next_news(&mut self) -> Option<News> {
        self.news.pop_front()
    }
}

impl<B: Backend> Routing for Relay<B> {
    /// Returns the state of the contact's relay, or of our own relay if no contact is given.
    fn state(&self, to: Option<&ContactFacts<'_>>, _: Time) -> Option<CarrierState> {
        let relay = to.map_or_else(|| self.own_relay(), |to| self.relay_of(to));
        let connection = relay.and_then(|relay| self.connections.get(relay.connection_id()));
        Some(CarrierState {
            reached: relay.is_some(),
            up: connection
                .and_then(|connection| connection.up)
                .map(drop)
                .ok_or(WaitReason::NoCarrier),
            caps: connection.map_or(CAPS, connections::Connection::caps),
        })
    }

    fn connections(&self, _: Time) -> Vec<CarrierConnection> {
        let own = self.own_relay();
        let view = |connection: &connections::Connection| CarrierConnection {
            relay: Some(connection.entry.clone()),
            own: own.is_some_and(|own| own.shares_connection(&connection.entry)),
            up: connection.up.is_some(),
            places: self.count_places(connection.entry.connection_id()),
            left: self.left_at(connection.entry.connection_id()),
            caps: connection.caps(),
        };
        self.connections.iter().map(view).collect()
    }

    /// Returns the number of envelopes that no key opened.
    fn rejected_count(&self) -> u64 {
        self.unopened
    }

    /// Counts a malformed parcel of an envelope.
    fn count_rejected(&mut self) {
        self.unopened += 1;
    }

    fn hello_place(&self, id: ContactId) -> Option<HelloPlace> {
        Some(self.own_place(id))
    }

    fn open_place(&mut self, to: &ContactFacts<'_>, pin: u8, ctx: &mut Ctx<'_>) {
        self.open_own_mailbox(to, pin, ctx);
    }

    fn prepare_route(&mut self, to: &ContactFacts<'_>, terms: RouteTerms, ctx: &mut Ctx<'_>) {
        self.prepare_contact(to, terms.pin, ctx);
    }

    fn select_route(
        &self,
        to: &ContactFacts<'_>,
        terms: RouteTerms,
        now: Time,
    ) -> Result<Route, Missing> {
        self.find_route(to, terms.pin, now)
    }

    fn hand_over(&mut self, parcel: &Leaving<'_>, ctx: &mut Ctx<'_>) -> Handover {
        self.put_parcel(parcel, ctx)
    }

    fn retract_parcels(&mut self, parcels: &[Dropped], _: &mut Ctx<'_>) {
        self.take_back(parcels);
    }

    /// Closes the connection of a contact that is not served any more.
    fn set_level_min(&mut self, id: ContactId, level_min: Option<u8>, _: &mut Ctx<'_>) {
        // No connection to the relay of a blocked contact remains (MSG-26).
        if level_min.is_none() {
            for relay in self.connections.keep_only(id, &[]) {
                self.leave_relay(&relay);
            }
        }
    }

    fn acknowledge_arrival(&mut self, ack: Receiving) {
        let mailbox = MailboxId(ack.place);
        self.outputs.push_back(RelayOutput::Acknowledge { mailbox, mail: ack.number });
    }
}

impl<B: Backend> Exchange for Relay<B> {
    /// Returns true if we have a mailbox for this contact alone.
    fn has_place_for(&self, id: ContactId) -> bool {
        self.peer(id).is_some_and(|peer| peer.ours.is_some())
    }

    /// Forgets a contact and closes its mailboxes here.
    fn forget_contact(&mut self, id: ContactId, what: Forget, ctx: &mut Ctx<'_>) {
        if what != Forget::All {
            // Chains belong to the mixnet. Mailboxes stay until the contact is deleted.
            return;
        }
        self.contexts.remove(&id);
        self.wanted.remove(&id);
        let own = self.mailboxes.iter().filter(|(_, mailbox)| mailbox.contact == Some(id));
        for mailbox in own.map(|(mailbox, _)| *mailbox).collect::<Vec<_>>() {
            self.close_mailbox(mailbox, ctx);
        }
        if self.peers.remove(&id).is_some_and(|peer| peer.stored_form().is_some()) {
            ctx.effects.drop_row(RecordKind::RelayPeer, key32(id.0));
        }
        ctx.effects.set_timer(timer(FETCH | u64::from(id.0)), None);
        self.connections.keep_only(id, &[]);
    }

    fn on_items_received(
        &mut self,
        from: &ContactFacts<'_>,
        items: &[Item],
        _: &mut Option<Exporter>,
        ctx: &mut Ctx<'_>,
    ) {
        self.on_mailbox_named(from, items, ctx);
    }

    fn on_card_changed(&mut self, to: &ContactFacts<'_>, by_hand: bool, ctx: &mut Ctx<'_>) -> bool {
        self.follow_card(to, by_hand, ctx.effects);
        self.reached_elsewhere(to);
        false
    }

    fn prepare_next_note(&mut self, rng: &mut dyn CryptoRng) {
        self.compute_ahead(rng);
    }
}

impl<B: Backend> Bundles for Relay<B> {
    /// Returns the number of one-time keys at the relay, and the number of those not yet stored
    /// there.
    fn prekey_stock(&self) -> Option<(Option<u16>, u32)> {
        let under_way = self.publication.as_ref().map_or(0, |news| news.one_time.len());
        Some((self.stock, under_way as u32))
    }

    /// Stores the prekey under which the session with a contact began.
    fn on_session_begun(
        &mut self,
        with: ContactId,
        spk: PublicKey,
        not_after: Time,
        ctx: &mut Ctx<'_>,
    ) {
        self.update_peer(with, ctx.effects, |peer| {
            peer.intro = Some(IntroKey { spk, not_after });
            peer.fetch_after = Time::default();
        });
    }

    /// Returns true if the contact's relay may learn at this pin that we fetch a bundle (MSG-20).
    fn can_fetch_bundle(&self, of: &ContactFacts<'_>, pin: u8) -> bool {
        let relay = of.card.relays().first();
        relay.is_some_and(|relay| self.connections.level(relay.connection_id()) >= pin)
    }

    /// Requests the contact's bundle from its relay, one request at a time. The connection must
    /// reach the level `pin`, because the relay learns of the request (MSG-20).
    fn fetch_bundle(
        &mut self,
        of: &ContactFacts<'_>,
        purpose: FetchPurpose,
        pin: u8,
        ctx: &mut Ctx<'_>,
    ) -> Option<Time> {
        if !self.can_fetch_bundle(of, pin) {
            return None;
        }
        let relay = of.card.relays().first()?.clone();
        let connection = relay.connection_id();
        self.connect_relay(&relay, Some(of.id), ctx);
        let peer = self.peers.entry(of.id).or_default();
        // Without a connection nothing is asked. Its `Up` event repeats the attempt.
        if !self.connections.is_up(connection) {
            return None;
        }
        // A time far in the future comes from a clock that was ahead, and delays nothing.
        let waits = ctx.now < peer.fetch_after
            && peer.fetch_after.since_ms(ctx.now) <= u64::from(u16::MAX) * Time::SECOND_MS;
        if waits {
            return Some(peer.fetch_after);
        }
        // An unanswered request is repeated after a while.
        if let Some(swallowed) = peer.fetch.take() {
            self.requests.take(swallowed);
        }
        let ticket = self.requests.issue_ticket(connection, Request::Fetch(of.id, purpose));
        (peer.fetch, peer.fetch_after) = (Some(ticket), ctx.now.plus_ms(FETCH_AGAIN_MS));
        ctx.effects.set_timer(timer(FETCH | u64::from(of.id.0)), Some(peer.fetch_after));
        self.outputs.push_back(RelayOutput::Fetch { ticket, connection, address: relay.address });
        None
    }

    fn publish_prekeys(&mut self, publication: &Publication, ctx: &mut Ctx<'_>) {
        self.queue_publication(publication.clone(), ctx.effects);
    }

    fn publish_again(&mut self, publication: &Publication, ctx: &mut Ctx<'_>) {
        // A newer publication on its way already contains this one.
        if self.publication.is_none() {
            self.queue_publication(publication.clone(), ctx.effects);
        }
    }

    fn plan_own_card(
        &self,
        relays: &[RelayEntry],
        now: Time,
        rng: &mut dyn CryptoRng,
    ) -> Result<Option<CardPlan>, DeviceError> {
        self.plan_card(relays, now, rng).map(Some)
    }

    fn adopt_plan(&mut self, plan: &mut CardPlan, ctx: &mut Ctx<'_>) {
        self.adopt_card(plan, ctx);
    }
}

impl<B: Backend> Invitations for Relay<B> {}

impl<B: Backend> Storage for Relay<B> {
    fn check_rows(&self, person: &PersonRows) -> Result<(), DecodeError> {
        person.read_optional(RecordKind::RelayPeer, RelayPeer::read).map(drop)
    }

    /// Loads the rows of a contact. Returns true if our mailbox for the contact is lost, so that a
    /// new session must announce another one.
    fn load_person(
        &mut self,
        person: &PersonRows,
        stored: &StoredRows<'_>,
        _: &mut Ctx<'_>,
    ) -> bool {
        // Inviters use the mixnet only and have no relay.
        if person.single_row(RecordKind::Inviter).is_some() {
            return false;
        }
        let peer = person.read_optional(RecordKind::RelayPeer, RelayPeer::read).unwrap_or_default();
        let lost = stored.has_lost(RecordKind::RelayPeer) && peer == RelayPeer::default();
        self.peers.insert(person.id, peer);
        lost
    }

    fn load_own_rows(
        &mut self,
        stored: &mut StoredRows<'_>,
        known: &dyn Fn(ContactId) -> bool,
        ctx: &mut Ctx<'_>,
    ) -> Vec<Unloaded> {
        self.load_rows(stored, known, ctx.effects)
    }

    /// Returns true if the mailboxes that a card names are ours.
    fn supports_card(&self, relays: &[RelayEntry]) -> bool {
        let is_ours = |relay: &RelayEntry| {
            self.mailboxes.values().any(|own| own.relay.address == relay.address)
        };
        relays.iter().all(is_ours)
    }

    fn loads_again(&self, kind: RecordKind, key: &[u8], value: &[u8]) -> bool {
        let again = match kind {
            RecordKind::Mailbox => OwnMailbox::read(value).map(|own| Some(own.write())),
            RecordKind::RelayPeer if key.is_empty() => return Self::read_next(value).is_ok(),
            RecordKind::RelayPeer => RelayPeer::read(value).map(|peer| peer.stored_form()),
            _ => return fits_vault(value),
        };
        loads_again(value, again)
    }

    fn put_records(&self, effects: &mut Effects) {
        self.put_rows(effects);
    }
}
