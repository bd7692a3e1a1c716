//! The port between the device and its carriers. Each call goes to one carrier or to all.

use alloc::vec::Vec;

use mezza_core::{Backend, CryptoRng, DecodeError, PublicKey, Snapshot, StaticKey, Time};
use mezza_ratchet::{Exporter, IdentityKey};

use super::carrier::{Carrier, Welcome};
use super::relay::CardPlan;
use crate::card::RelayEntry;
use crate::error::DeviceError;
use crate::evidence::WaitReason;
use crate::io::{
    At, CardParts, CarrierConnection, CarrierId, CarrierState, ContactFacts, ContactId, DateStep,
    DeliveryProblem, Dropped, FetchPurpose, Forget, Handover, HelloPlace, InviterFacts, Leaving,
    Missing, News, PersonRows, Publication, Reach, Receiving, RecordKind, RecordOwner, RouteTerms,
    Step, StoredRows, Unloaded,
};
use crate::note::Item;

/// A set of carriers. A new set implements the first six methods and inherits the others.
pub trait Port: Snapshot {
    /// The backend of the primitives.
    type Backend: Backend;
    /// Inputs of the driver to the carriers.
    type Input;
    /// Requests of the carriers to the driver.
    type Output: Snapshot;

    /// Returns one carrier, or `None` if the set does not contain it.
    fn carrier(&self, id: CarrierId) -> Option<&dyn Carrier>;
    /// Returns one carrier for changes, or `None` if the set does not contain it.
    fn carrier_mut(&mut self, id: CarrierId) -> Option<&mut dyn Carrier>;
    /// Returns all carriers.
    fn all_carriers(&self) -> impl Iterator<Item = (CarrierId, &dyn Carrier)>;
    /// Returns all carriers for changes.
    fn all_carriers_mut(&mut self) -> impl Iterator<Item = (CarrierId, &mut dyn Carrier)>;
    /// Handles an input of the driver. `seals` are the private keys under which unknown senders
    /// seal.
    ///
    /// # Errors
    /// The error of the carrier if there are two. A refused input changes nothing.
    fn handle_input(
        &mut self,
        input: Self::Input,
        seals: &[&StaticKey],
        at: &mut At<'_>,
    ) -> Result<(), DeviceError>;
    /// Returns the next request to the driver, in order.
    fn poll(&mut self) -> Option<Self::Output>;

    /// Returns the ids of all carriers in the set.
    fn carrier_ids(&self) -> Vec<CarrierId> {
        self.all_carriers().map(|(id, _)| id).collect()
    }

    /// Returns the state of one carrier; with `to`, the state of the route to that contact.
    fn state(
        &self,
        id: CarrierId,
        to: Option<&ContactFacts<'_>>,
        now: Time,
    ) -> Option<CarrierState> {
        self.carrier(id)?.state(to, now)
    }

    /// Returns the connections that the carriers keep.
    fn connections(&self, now: Time) -> Vec<(CarrierId, CarrierConnection)> {
        let of = |(id, one): (CarrierId, &dyn Carrier)| {
            one.connections(now).into_iter().map(move |connection| (id, connection))
        };
        self.all_carriers().flat_map(of).collect()
    }

    /// Returns the problem that a carrier has with a contact.
    fn trouble(&self, contact: ContactId) -> Option<DeliveryProblem> {
        self.all_carriers().find_map(|(_, one)| one.trouble(contact))
    }

    /// Returns the route to a contact by one carrier, see [`Carrier::select_route`].
    fn select_route(
        &mut self,
        id: CarrierId,
        to: &ContactFacts<'_>,
        terms: RouteTerms,
        at: &mut At<'_>,
    ) -> Result<Reach, Missing> {
        let absent = Missing::Wait(WaitReason::NoCarrier);
        let one = self.carrier_mut(id).ok_or(absent)?;
        one.prepare_route(to, terms.pin, at);
        let route = one.select_route(to, terms, at.now)?;
        let paddings = one.paddings();
        let outer = one.outer_binding(to);
        let waits = one.waits_for_place();
        // A carrier that does not wait for a mailbox identifies the contact by its tag.
        let place = match self.all_carriers().find_map(|(_, one)| one.hello_place(to.id)) {
            Some(HelloPlace::NotYet) if !waits => HelloPlace::Tag,
            place => place.unwrap_or(HelloPlace::Tag),
        };
        Ok(Reach { route, place, paddings, outer })
    }

    /// Hands a parcel over to the carrier of its route.
    fn hand_over(&mut self, parcel: &Leaving<'_>, at: &mut At<'_>) -> Handover {
        let one = self.carrier_mut(parcel.route.carrier);
        one.map_or(Handover::Waits, |one| one.hand_over(parcel, at))
    }

    /// Withdraws parcels that must not be sent any more.
    fn retract_parcels(&mut self, parcels: &[Dropped], at: &mut At<'_>) {
        self.all_carriers_mut().for_each(|(_, one)| one.retract_parcels(parcels, at));
    }

    /// Sets the lowest level at which a carrier serves a contact. With `None` the contact is not
    /// served in either direction.
    fn set_level_min(
        &mut self,
        id: CarrierId,
        contact: ContactId,
        level_min: Option<u8>,
        at: &mut At<'_>,
    ) {
        if let Some(one) = self.carrier_mut(id) {
            one.set_level_min(contact, level_min, at);
        }
    }

    /// Notifies the carrier that an arrival was handled.
    fn acknowledge_arrival(&mut self, ack: Receiving) {
        if let Some(one) = self.carrier_mut(ack.carrier) {
            one.acknowledge_arrival(ack);
        }
    }

    /// Notifies a carrier that an arrival was malformed.
    fn count_rejected(&mut self, id: CarrierId) {
        if let Some(one) = self.carrier_mut(id) {
            one.count_rejected();
        }
    }

    /// Returns the number of arrivals that were rejected, over all carriers.
    fn rejected_count(&self) -> u64 {
        self.all_carriers().map(|(_, one)| one.rejected_count()).sum()
    }

    /// Returns true if a carrier owes the contact an item.
    fn has_to_say(&self, to: &ContactFacts<'_>, now: Time) -> bool {
        self.all_carriers().any(|(_, one)| one.has_to_say(to, now))
    }

    /// Returns the items that the carriers owe the contact.
    fn take_owed_items(&mut self, to: &ContactFacts<'_>, at: &mut At<'_>) -> Vec<Item> {
        self.all_carriers_mut().filter_map(|(_, one)| one.take_owed_item(to, at)).collect()
    }

    /// Notifies the carriers that items were sent. If the note began a session, `exporter` is that
    /// of the session.
    fn on_items_sent(
        &mut self,
        to: &ContactFacts<'_>,
        items: &[Item],
        mut exporter: Option<Exporter>,
        at: &mut At<'_>,
    ) {
        self.all_carriers_mut()
            .for_each(|(_, one)| one.on_items_sent(to, items, &mut exporter, at));
    }

    /// Returns true if a note with these items is an invitation.
    fn is_invitation(&self, items: &[Item]) -> bool {
        self.all_carriers().any(|(_, one)| one.is_invitation(items))
    }

    /// Notifies the carriers of items from a contact.
    fn on_items_received(
        &mut self,
        from: &ContactFacts<'_>,
        items: &[Item],
        mut exporter: Option<Exporter>,
        at: &mut At<'_>,
    ) {
        self.all_carriers_mut()
            .for_each(|(_, one)| one.on_items_received(from, items, &mut exporter, at));
    }

    /// Returns true if a contact may have lost the state that it shares with a carrier, see
    /// [`Carrier::is_doubtful`].
    fn is_doubtful(&self, id: CarrierId, contact: ContactId) -> bool {
        self.carrier(id).is_some_and(|one| one.is_doubtful(contact))
    }

    /// Notifies the other carriers that a message of a contact came by carrier `id`.
    fn came_by(&mut self, id: CarrierId, contact: ContactId, is_anew: bool, at: &mut At<'_>) {
        let others = self.all_carriers_mut().filter(|(other, _)| *other != id);
        others.for_each(|(_, one)| one.came_elsewhere(contact, is_anew, at));
    }

    /// Notifies the carriers that the user wrote to a contact.
    fn on_user_note(&mut self, contact: ContactId, now: Time) {
        self.all_carriers_mut().for_each(|(_, one)| one.on_user_note(contact, now));
    }

    /// Notifies the carriers of a new card of a contact, see [`Carrier::on_card_changed`].
    fn on_card_changed(&mut self, to: &ContactFacts<'_>, by_hand: bool, at: &mut At<'_>) -> bool {
        self.all_carriers_mut()
            .fold(false, |gone, (_, one)| one.on_card_changed(to, by_hand, at) || gone)
    }

    /// Returns true if a carrier has an address for this contact alone.
    fn has_place_for(&self, contact: ContactId) -> bool {
        self.all_carriers().any(|(_, one)| one.has_place_for(contact))
    }

    /// Returns true if the bundle of a contact should be fetched now, before it is needed.
    fn wants_bundle(&self, id: CarrierId, to: &ContactFacts<'_>, now: Time) -> bool {
        self.carrier(id).is_some_and(|one| one.wants_bundle(to, now))
    }

    /// Returns true if a carrier can request the bundle of a contact at this pin, even while the
    /// carrier is down.
    fn can_fetch_bundle(&self, id: CarrierId, of: &ContactFacts<'_>, pin: u8) -> bool {
        self.carrier(id).is_some_and(|one| one.can_fetch_bundle(of, pin))
    }

    /// Requests the bundle of a contact by one carrier. Returns the time from which the next
    /// request is allowed.
    fn fetch_bundle(
        &mut self,
        id: CarrierId,
        of: &ContactFacts<'_>,
        purpose: FetchPurpose,
        pin: u8,
        at: &mut At<'_>,
    ) -> Option<Time> {
        self.carrier_mut(id)?.fetch_bundle(of, purpose, pin, at)
    }

    /// Notifies the carriers that a session with a contact began under `prekey`, which is valid
    /// until `not_after`.
    fn on_session_begun(
        &mut self,
        with: ContactId,
        prekey: PublicKey,
        not_after: Time,
        at: &mut At<'_>,
    ) {
        self.all_carriers_mut()
            .for_each(|(_, one)| one.on_session_begun(with, prekey, not_after, at));
    }

    /// Publishes prekeys for other devices to fetch.
    fn publish_prekeys(&mut self, publication: &Publication, at: &mut At<'_>) {
        self.all_carriers_mut().for_each(|(_, one)| one.publish_prekeys(publication, at));
    }

    /// Publishes prekeys again, unless a newer publication is on its way.
    fn publish_again(&mut self, publication: &Publication, at: &mut At<'_>) {
        self.all_carriers_mut().for_each(|(_, one)| one.publish_again(publication, at));
    }

    /// Returns the number of one-time keys that other devices can fetch, and the number of those
    /// still being published.
    fn prekey_stock(&self) -> (Option<u16>, u32) {
        self.all_carriers().find_map(|(_, one)| one.prekey_stock()).unwrap_or_default()
    }

    /// Returns the inviters that have not sent a card.
    fn inviters(&self) -> Vec<InviterFacts> {
        self.all_carriers().flat_map(|(_, one)| one.inviters()).collect()
    }

    /// Stores an invitation that came by a carrier. Returns true if the note was a valid
    /// invitation.
    fn accept_invitation(&mut self, id: CarrierId, welcome: Welcome<'_>, at: &mut At<'_>) -> bool {
        self.carrier_mut(id).is_some_and(|one| one.accept_invitation(welcome, at))
    }

    /// Checks that an inviter can become a contact now.
    fn may_unmask(&self, id: ContactId, now: Time) -> Result<(), DeviceError> {
        self.all_carriers().try_for_each(|(_, one)| one.may_unmask(id, now))
    }

    /// Accepts the card of an inviter. Returns the carrier and the level of answers.
    fn unmask_inviter(
        &mut self,
        id: ContactId,
        session: Option<[u8; 16]>,
        at: &mut At<'_>,
    ) -> Option<(CarrierId, u8)> {
        self.all_carriers_mut()
            .find_map(|(carrier, one)| Some((carrier, one.unmask_inviter(id, session, at)?)))
    }

    /// Forgets the carriers' state of a contact or of an inviter.
    fn forget_contact(&mut self, contact: ContactId, what: Forget, at: &mut At<'_>) {
        self.all_carriers_mut().for_each(|(_, one)| one.forget_contact(contact, what, at));
    }

    /// Returns the change of our card that these relays would cause.
    fn plan_own_card(
        &self,
        relays: &[RelayEntry],
        now: Time,
        rng: &mut dyn CryptoRng,
    ) -> Result<CardPlan, DeviceError> {
        for (_, one) in self.all_carriers() {
            if let Some(plan) = one.plan_own_card(relays, now, rng)? {
                return Ok(plan);
            }
        }
        Ok(CardPlan::default())
    }

    /// Returns the parts of our card that the carriers provide after this plan.
    fn card_parts(&self, plan: &CardPlan, now: Time) -> CardParts {
        let further = self.all_carriers().filter_map(|(_, one)| one.card_part(now)).collect();
        CardParts { relays: plan.relays().to_vec(), further }
    }

    /// Notifies the carriers that the card of the plan is now our card.
    fn adopt_plan(&mut self, mut plan: CardPlan, at: &mut At<'_>) {
        self.all_carriers_mut().for_each(|(_, one)| one.adopt_plan(&mut plan, at));
    }

    /// Moves stored times after a correction of the date, see [`Carrier::apply_date_step`].
    fn apply_date_step(&mut self, date: &DateStep, at: &mut At<'_>) {
        self.all_carriers_mut().for_each(|(_, one)| one.apply_date_step(date, at));
    }

    /// Checks all timers again after the clock went back, see [`Carrier::put_back`].
    fn put_back(&mut self, at: &mut At<'_>) {
        self.all_carriers_mut().for_each(|(_, one)| one.put_back(at));
    }

    /// Starts the carriers with the device.
    fn start(&mut self, at: &mut At<'_>) {
        self.all_carriers_mut().for_each(|(_, one)| one.start(at));
    }

    /// Handles an expired timer of a carrier. `busy`: returns true if notes wait for the contact.
    fn handle_timer(
        &mut self,
        id: CarrierId,
        number: u64,
        busy: &dyn Fn(ContactId) -> bool,
        at: &mut At<'_>,
    ) {
        if let Some(one) = self.carrier_mut(id) {
            one.handle_timer(number, busy, at);
        }
    }

    /// Returns the next event of a carrier.
    fn next_news(&mut self) -> Option<News> {
        self.all_carriers_mut().find_map(|(_, one)| one.next_news())
    }

    /// Returns the carriers that wait for a commit of this step, each with its number for
    /// [`on_durable`](Self::on_durable).
    fn take_durable_numbers(&mut self) -> Vec<(CarrierId, u64)> {
        self.all_carriers_mut()
            .filter_map(|(id, one)| Some((id, one.take_durable_number()?)))
            .collect()
    }

    /// Notifies a carrier that all rows up to its number are durable.
    fn on_durable(&mut self, id: CarrierId, number: u64, at: &mut At<'_>) {
        if let Some(one) = self.carrier_mut(id) {
            one.on_durable(number, at);
        }
    }

    /// Draws keys in advance for the next note to the contact that was just written to.
    fn prepare_next_note(&mut self, rng: &mut dyn CryptoRng) {
        self.all_carriers_mut().for_each(|(_, one)| one.prepare_next_note(rng));
    }

    /// Checks that the rows of one contact, or of one inviter, can be read.
    fn check_rows(&self, person: &PersonRows) -> Result<(), DecodeError> {
        self.all_carriers().try_for_each(|(_, one)| one.check_rows(person))
    }

    /// Returns the key of an inviter, or `None` if the row does not contain a readable key.
    fn inviter_key(&self, row: &[u8]) -> Option<IdentityKey> {
        self.all_carriers().find_map(|(_, one)| one.inviter_key(row))
    }

    /// Loads the readable rows of one contact or inviter. Returns true if a new session must
    /// replace the lost state.
    fn load_person(
        &mut self,
        person: &PersonRows,
        stored: &StoredRows<'_>,
        at: &mut At<'_>,
    ) -> bool {
        let load =
            |lost, (_, one): (_, &mut dyn Carrier)| one.load_person(person, stored, at) || lost;
        self.all_carriers_mut().fold(false, load)
    }

    /// Loads the rows that belong to no single contact, after all contacts are loaded. Returns the
    /// rows that do not load.
    fn load_own_rows(
        &mut self,
        stored: &mut StoredRows<'_>,
        known: &dyn Fn(ContactId) -> bool,
        at: &mut At<'_>,
    ) -> Vec<Unloaded> {
        self.all_carriers_mut().flat_map(|(_, one)| one.load_own_rows(stored, known, at)).collect()
    }

    /// Returns true if all stored state is present that a card with these relays needs.
    fn supports_card(&self, relays: &[RelayEntry]) -> bool {
        self.all_carriers().all(|(_, one)| one.supports_card(relays))
    }

    /// Returns true if this row of a carrier loads and encodes to the same bytes again (MSG-43).
    fn loads_again(&self, kind: RecordKind, key: &[u8], value: &[u8]) -> bool {
        let RecordOwner::Carrier(id) = kind.owner() else { return false };
        self.carrier(id).is_some_and(|one| one.loads_again(kind, key, value))
    }

    /// Writes the rows of all carriers, except those of the machines inside them.
    fn put_records(&self, step: &mut Step) {
        self.all_carriers().for_each(|(_, one)| one.put_records(step));
    }
}
