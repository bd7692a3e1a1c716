//! The port between the device and its carriers: each question goes to one of them, or to all.

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
    Missing, News, PersonRows, Publication, Reach, Receiving, RecordKind, RecordOwner, Step,
    StoredRows, Unloaded,
};
use crate::note::Item;

/// A set of carriers. Who adds one answers the first six questions anew, and no other.
pub trait Port: Snapshot {
    /// Whose code the primitives are.
    type Backend: Backend;
    /// Inputs of the driver to the carriers.
    type Input;
    /// Requests of the carriers to the driver.
    type Output: Snapshot;

    /// One of them.
    fn carrier(&self, id: CarrierId) -> Option<&dyn Carrier>;
    /// The same, to change it.
    fn carrier_mut(&mut self, id: CarrierId) -> Option<&mut dyn Carrier>;
    /// All of them.
    fn all_carriers(&self) -> impl Iterator<Item = (CarrierId, &dyn Carrier)>;
    /// The same, to change them.
    fn all_carriers_mut(&mut self) -> impl Iterator<Item = (CarrierId, &mut dyn Carrier)>;
    /// Handles an input of the driver. Of two errors the one of the carrier comes first; a refused input
    /// changes nothing. `seals`: the private keys to one of which strangers seal.
    fn handle_input(
        &mut self,
        input: Self::Input,
        seals: &[&StaticKey],
        at: &mut At<'_>,
    ) -> Result<(), DeviceError>;
    /// The next thing that the driver has to do, in order.
    fn poll(&mut self) -> Option<Self::Output>;

    /// The carriers that are here.
    fn carrier_ids(&self) -> Vec<CarrierId> {
        self.all_carriers().map(|(id, _)| id).collect()
    }

    /// How one is now; with a contact: on the way to that one.
    fn state(
        &self,
        id: CarrierId,
        to: Option<&ContactFacts<'_>>,
        now: Time,
    ) -> Option<CarrierState> {
        self.carrier(id)?.state(to, now)
    }

    /// The connections that are kept.
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

    /// The way to a contact by one of them, see [`Carrier::select_route`].
    fn select_route(
        &mut self,
        id: CarrierId,
        to: &ContactFacts<'_>,
        pin_own: (u8, bool),
        at: &mut At<'_>,
    ) -> Result<Reach, Missing> {
        let absent = Missing::Wait(WaitReason::NoCarrier);
        let one = self.carrier_mut(id).ok_or(absent)?;
        one.prepare_route(to, pin_own.0, at);
        let route = one.select_route(to, pin_own, at.now)?;
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

    /// These need not leave any more.
    fn retract_parcels(&mut self, parcels: &[Dropped], at: &mut At<'_>) {
        self.all_carriers_mut().for_each(|(_, one)| one.retract_parcels(parcels, at));
    }

    /// A carrier serves a contact at this level at least; `None`: not at all, in neither direction.
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

    /// Returns true if carriers have something to say to a contact.
    fn has_to_say(&self, to: &ContactFacts<'_>, now: Time) -> bool {
        self.all_carriers().any(|(_, one)| one.has_to_say(to, now))
    }

    /// Returns the items that the carriers owe the contact.
    fn take_owed_items(&mut self, to: &ContactFacts<'_>, at: &mut At<'_>) -> Vec<Item> {
        self.all_carriers_mut().filter_map(|(_, one)| one.take_owed_item(to, at)).collect()
    }

    /// It was said, or began a session with this exporter.
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

    /// Returns true if such a note invites.
    fn is_invitation(&self, items: &[Item]) -> bool {
        self.all_carriers().any(|(_, one)| one.is_invitation(items))
    }

    /// A contact said this to our carriers.
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

    /// Returns true if a contact may have lost what it shares with a carrier, see [`Carrier::is_doubtful`].
    fn is_doubtful(&self, id: CarrierId, contact: ContactId) -> bool {
        self.carrier(id).is_some_and(|one| one.is_doubtful(contact))
    }

    /// A message of a contact came by a carrier, of which the others learn.
    fn came_by(&mut self, id: CarrierId, contact: ContactId, is_anew: bool, at: &mut At<'_>) {
        let others = self.all_carriers_mut().filter(|(other, _)| *other != id);
        others.for_each(|(_, one)| one.came_elsewhere(contact, is_anew, at));
    }

    /// The person wrote to a contact.
    fn on_user_note(&mut self, contact: ContactId, now: Time) {
        self.all_carriers_mut().for_each(|(_, one)| one.on_user_note(contact, now));
    }

    /// The card of a contact is another one, see [`Carrier::on_card_changed`].
    fn on_card_changed(&mut self, to: &ContactFacts<'_>, by_hand: bool, at: &mut At<'_>) -> bool {
        self.all_carriers_mut()
            .fold(false, |gone, (_, one)| one.on_card_changed(to, by_hand, at) || gone)
    }

    /// Returns true if the contact has a place of its own here.
    fn has_place_for(&self, contact: ContactId) -> bool {
        self.all_carriers().any(|(_, one)| one.has_place_for(contact))
    }

    /// Returns true if the bundle of a contact is to be fetched now, for later.
    fn wants_bundle(&self, id: CarrierId, to: &ContactFacts<'_>, now: Time) -> bool {
        self.carrier(id).is_some_and(|one| one.wants_bundle(to, now))
    }

    /// Returns true if the bundle of a contact can be asked for by a carrier at this pin, be it up or not.
    fn can_fetch_bundle(&self, id: CarrierId, of: &ContactFacts<'_>, pin: u8) -> bool {
        self.carrier(id).is_some_and(|one| one.can_fetch_bundle(of, pin))
    }

    /// Asks for the bundle of a contact by a carrier; when it can be asked for again.
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

    /// A session with a contact began under this prekey, which ends then.
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

    /// Others shall be able to fetch this.
    fn publish_prekeys(&mut self, publication: &Publication, at: &mut At<'_>) {
        self.all_carriers_mut().for_each(|(_, one)| one.publish_prekeys(publication, at));
    }

    /// The same, unless something newer is on its way to there.
    fn publish_again(&mut self, publication: &Publication, at: &mut At<'_>) {
        self.all_carriers_mut().for_each(|(_, one)| one.publish_again(publication, at));
    }

    /// One-time keys that others can get, and how many of them are still under way to there.
    fn prekey_stock(&self) -> (Option<u16>, u32) {
        self.all_carriers().find_map(|(_, one)| one.prekey_stock()).unwrap_or_default()
    }

    /// Those who invite and have shown no card.
    fn inviters(&self) -> Vec<InviterFacts> {
        self.all_carriers().flat_map(|(_, one)| one.inviters()).collect()
    }

    /// Somebody invites by a carrier; whether that is an invitation.
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

    /// Forgets what the carriers have of a contact, or of one who invites.
    fn forget_contact(&mut self, contact: ContactId, what: Forget, at: &mut At<'_>) {
        self.all_carriers_mut().for_each(|(_, one)| one.forget_contact(contact, what, at));
    }

    /// How the own card would change with these relays.
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

    /// Returns the parts of our card about the carriers, after this plan.
    fn card_parts(&self, plan: &CardPlan, now: Time) -> CardParts {
        let further = self.all_carriers().filter_map(|(_, one)| one.card_part(now)).collect();
        CardParts { relays: plan.relays().to_vec(), further }
    }

    /// The card of the plan is the own one now.
    fn adopt_plan(&mut self, mut plan: CardPlan, at: &mut At<'_>) {
        self.all_carriers_mut().for_each(|(_, one)| one.adopt_plan(&mut plan, at));
    }

    /// The date was corrected, see [`Carrier::apply_date_step`].
    fn apply_date_step(&mut self, date: &DateStep, at: &mut At<'_>) {
        self.all_carriers_mut().for_each(|(_, one)| one.apply_date_step(date, at));
    }

    /// The clock was put back, see [`Carrier::put_back`].
    fn put_back(&mut self, at: &mut At<'_>) {
        self.all_carriers_mut().for_each(|(_, one)| one.put_back(at));
    }

    /// The device starts.
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

    /// The next thing that a carrier has to say.
    fn next_news(&mut self) -> Option<News> {
        self.all_carriers_mut().find_map(|(_, one)| one.next_news())
    }

    /// Returns the carriers that must be notified, by which number, once this step is durable.
    fn take_durable_numbers(&mut self) -> Vec<(CarrierId, u64)> {
        self.all_carriers_mut()
            .filter_map(|(id, one)| Some((id, one.take_durable_number()?)))
            .collect()
    }

    /// Notifies a carrier that everything before its number is durable.
    fn on_durable(&mut self, id: CarrierId, number: u64, at: &mut At<'_>) {
        if let Some(one) = self.carrier_mut(id) {
            one.on_durable(number, at);
        }
    }

    /// Gets ready for the next note to whoever was just written to.
    fn prepare_next_note(&mut self, rng: &mut dyn CryptoRng) {
        self.all_carriers_mut().for_each(|(_, one)| one.prepare_next_note(rng));
    }

    /// Checks that the rows of one contact, or of one inviter, can be read.
    fn check_rows(&self, person: &PersonRows) -> Result<(), DecodeError> {
        self.all_carriers().try_for_each(|(_, one)| one.check_rows(person))
    }

    /// The key of one who invites, as far as its row still says so.
    fn inviter_key(&self, row: &[u8]) -> Option<IdentityKey> {
        self.all_carriers().find_map(|(_, one)| one.inviter_key(row))
    }

    /// Takes what can be read; whether a new session must say what is lost.
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

    /// Takes what belongs to nobody alone, once everybody is there; the rows that do not load.
    fn load_own_rows(
        &mut self,
        stored: &mut StoredRows<'_>,
        known: &dyn Fn(ContactId) -> bool,
        at: &mut At<'_>,
    ) -> Vec<Unloaded> {
        self.all_carriers_mut().flat_map(|(_, one)| one.load_own_rows(stored, known, at)).collect()
    }

    /// Returns true if everything is there that a card with these relays names.
    fn supports_card(&self, relays: &[RelayEntry]) -> bool {
        self.all_carriers().all(|(_, one)| one.supports_card(relays))
    }

    /// Returns true if this row of a carrier loads, and is the same when it is written again (MSG-43).
    fn loads_again(&self, kind: RecordKind, key: &[u8], value: &[u8]) -> bool {
        let RecordOwner::Carrier(id) = kind.owner() else { return false };
        self.carrier(id).is_some_and(|one| one.loads_again(kind, key, value))
    }

    /// The rows of all carriers, without those of the machines inside them.
    fn put_records(&self, step: &mut Step) {
        self.all_carriers().for_each(|(_, one)| one.put_records(step));
    }
}
