//! The traits through which the device uses one carrier.

use alloc::vec::Vec;

use mezza_core::{CryptoRng, DecodeError, PublicKey, Time};
use mezza_ratchet::{Exporter, IdentityKey, Padding};

use super::relay::CardPlan;
use crate::card::RelayEntry;
use crate::error::DeviceError;
use crate::evidence::WaitReason;
use crate::io::{
    CarrierConnection, CarrierId, CarrierState, ContactFacts, ContactId, Ctx, DateStep,
    DeliveryProblem, Dropped, Effects, FetchPurpose, Forget, Handover, HelloPlace, InviterFacts,
    Leaving, Missing, News, PersonRows, Publication, Receiving, RecordKind, Route, RouteTerms,
    StoredRows, Unloaded, fits_vault,
};
use crate::note::Item;

/// An invitation that a carrier receives: the inviter, and the material for the chains, which are
/// the keys that both sides advance in each mixnet round.
pub struct Welcome<'a> {
    /// The number that the inviter gets.
    pub id: ContactId,
    /// The identity key of the inviter.
    pub ik: IdentityKey,
    /// The bucket in which the inviter waits for a call.
    pub place: u32,
    /// The items of the invitation.
    pub items: &'a [Item],
    /// The exporter of the session that the invitation began.
    pub exporter: Exporter,
}

/// A carrier: its ID, its timers and its events. The other five traits say what it transports and
/// stores. Each default method does nothing and returns the empty value, so that a carrier implements
/// only what it has.
#[expect(unused_variables, reason = "default methods ignore their arguments")]
pub trait Carrier: Routing + Exchange + Bundles + Invitations + Storage {
    /// Returns the ID of the carrier.
    fn id(&self) -> CarrierId;
    /// Moves stored times after a correction of the date (MSG-104).
    fn apply_date_step(&mut self, date: &DateStep, ctx: &mut Ctx<'_>) {}
    /// Checks all timers again, because the clock shows an earlier time than at the last wake.
    fn recheck_timers(&mut self, ctx: &mut Ctx<'_>) {}
    /// Starts the carrier with the device.
    fn start(&mut self, ctx: &mut Ctx<'_>) {}
    /// Handles an expired timer of the carrier. `busy` returns true if notes wait for the contact.
    fn handle_timer(&mut self, number: u64, busy: &dyn Fn(ContactId) -> bool, ctx: &mut Ctx<'_>) {}
    /// Returns the carrier's next event.
    fn next_news(&mut self) -> Option<News> {
        None
    }
}

/// Routes and parcels: where a parcel can leave now, and at which level.
#[expect(unused_variables, reason = "default methods ignore their arguments")]
pub trait Routing {
    /// Returns the state of the carrier; with `to`, the state of the route to that contact.
    fn state(&self, to: Option<&ContactFacts<'_>>, now: Time) -> Option<CarrierState> {
        None
    }
    /// Returns the connections that the carrier keeps.
    fn connections(&self, now: Time) -> Vec<CarrierConnection> {
        Vec::new()
    }
    /// Returns the problem that the carrier has with a contact.
    fn trouble(&self, contact: ContactId) -> Option<DeliveryProblem> {
        None
    }
    /// Prepares a route to a contact on these terms.
    fn prepare_route(&mut self, to: &ContactFacts<'_>, terms: RouteTerms, ctx: &mut Ctx<'_>) {}
    /// Returns the route to a contact that is usable now on these terms.
    fn select_route(
        &self,
        to: &ContactFacts<'_>,
        terms: RouteTerms,
        now: Time,
    ) -> Result<Route, Missing> {
        Err(Missing::Wait(WaitReason::NoCarrier))
    }
    /// Returns the time at which other devices drop a parcel on this route, if they carry it.
    fn carried_until(&self, route: &Route) -> Option<Time> {
        None
    }
    /// Returns the outer binding for this carrier: at most 64 bytes of the wrapping that the
    /// message inside authenticates, so that the message is valid in that wrapping only.
    fn outer_binding(&self, to: &ContactFacts<'_>) -> Vec<u8> {
        Vec::new()
    }
    /// Returns the paddings of a message; the first that fits is used. The default is that of
    /// mailboxes, which store whole blocks in six sizes.
    fn paddings(&self) -> &'static [Padding] {
        &[Padding::Blocks]
    }
    /// Returns our own address for this contact, as a hello contains it.
    fn hello_place(&self, id: ContactId) -> Option<HelloPlace> {
        None
    }
    /// Opens our own address for this contact, which the hello contains over whatever carrier it
    /// leaves (MSG-154).
    fn open_place(&mut self, to: &ContactFacts<'_>, pin: u8, ctx: &mut Ctx<'_>) {}
    /// Returns true if a hello over this carrier waits until our mailbox for the contact is open.
    fn waits_for_place(&self) -> bool {
        true
    }
    /// Returns true if a note to this contact leaves as a knock: a note with our bundle that needs
    /// no session.
    fn needs_knock(&self, to: &ContactFacts<'_>) -> bool {
        false
    }
    /// Hands a parcel to the carrier.
    fn hand_over(&mut self, parcel: &Leaving<'_>, ctx: &mut Ctx<'_>) -> Handover {
        Handover::Waits
    }
    /// Withdraws parcels that must not be sent any more.
    fn retract_parcels(&mut self, parcels: &[Dropped], ctx: &mut Ctx<'_>) {}
    /// Sets the lowest level at which a contact is served. With `None` the contact is not served in
    /// either direction.
    fn set_level_min(&mut self, contact: ContactId, level_min: Option<u8>, ctx: &mut Ctx<'_>) {}
    /// Notifies the carrier that an arrival was handled.
    fn acknowledge_arrival(&mut self, ack: Receiving) {}
    /// Notifies the carrier that an arrival was malformed.
    fn count_rejected(&mut self) {}
    /// Returns the number of arrivals that were rejected.
    fn rejected_count(&self) -> u64 {
        0
    }
}

/// Items that a carrier exchanges with the device of a contact, and its state for each contact.
#[expect(unused_variables, reason = "default methods ignore their arguments")]
pub trait Exchange {
    /// Returns true if the carrier owes the contact an item.
    fn has_to_say(&self, to: &ContactFacts<'_>, now: Time) -> bool {
        false
    }
    /// Returns the item that the carrier owes the contact, if any.
    fn take_owed_item(&mut self, to: &ContactFacts<'_>, ctx: &mut Ctx<'_>) -> Option<Item> {
        None
    }
    /// Notifies the carrier that items were sent. If the note began a session, `exporter` is that
    /// of the session; only one carrier may take it.
    fn on_items_sent(
        &mut self,
        to: &ContactFacts<'_>,
        items: &[Item],
        exporter: &mut Option<Exporter>,
        ctx: &mut Ctx<'_>,
    ) {
    }
    /// Notifies the carrier of items from a contact.
    fn on_items_received(
        &mut self,
        from: &ContactFacts<'_>,
        items: &[Item],
        exporter: &mut Option<Exporter>,
        ctx: &mut Ctx<'_>,
    ) {
    }
    /// Returns true if the contact may have lost the state that it shares with this carrier. Other
    /// carriers are then preferred.
    fn is_doubtful(&self, contact: ContactId) -> bool {
        false
    }
    /// Notifies the carrier that a message of a contact came by another carrier. `is_anew` is true
    /// if the message began a session, is in an unknown session, or answers an invitation.
    fn came_elsewhere(&mut self, contact: ContactId, is_anew: bool, ctx: &mut Ctx<'_>) {}
    /// Notifies the carrier that the user wrote to a contact.
    fn on_user_note(&mut self, contact: ContactId, now: Time) {}
    /// Notifies the carrier of a new card of a contact; `by_hand` is true if the user entered it.
    /// Returns true if there are chains (shared round keys) with the contact, but the card shows
    /// that the contact has left our network.
    fn on_card_changed(&mut self, to: &ContactFacts<'_>, by_hand: bool, ctx: &mut Ctx<'_>) -> bool {
        false
    }
    /// Returns true if the carrier has an address for this contact alone.
    fn has_place_for(&self, contact: ContactId) -> bool {
        false
    }
    /// Forgets the state of a contact or of an inviter.
    fn forget_contact(&mut self, contact: ContactId, what: Forget, ctx: &mut Ctx<'_>) {}
    /// Draws keys in advance for the next note to the contact that was just written to.
    fn prepare_next_note(&mut self, rng: &mut dyn CryptoRng) {}
}

/// Prekey bundles and cards: what other devices need before their first message.
#[expect(unused_variables, reason = "default methods ignore their arguments")]
pub trait Bundles {
    /// Returns true if the bundle of a contact should be fetched now, before it is needed.
    fn wants_bundle(&self, to: &ContactFacts<'_>, now: Time) -> bool {
        false
    }
    /// Returns true if the bundle of a contact can be requested at level `pin`, even while the
    /// carrier is down.
    fn can_fetch_bundle(&self, of: &ContactFacts<'_>, pin: u8) -> bool {
        false
    }
    /// Requests the bundle of a contact. Returns the time from which the next request is allowed.
    fn fetch_bundle(
        &mut self,
        of: &ContactFacts<'_>,
        purpose: FetchPurpose,
        pin: u8,
        ctx: &mut Ctx<'_>,
    ) -> Option<Time> {
        None
    }
    /// Notifies the carrier that a session with a contact began under `prekey`, which is valid
    /// until `not_after`.
    fn on_session_begun(
        &mut self,
        with: ContactId,
        prekey: PublicKey,
        not_after: Time,
        ctx: &mut Ctx<'_>,
    ) {
    }
    /// Publishes prekeys for other devices to fetch.
    fn publish_prekeys(&mut self, publication: &Publication, ctx: &mut Ctx<'_>) {}
    /// Publishes prekeys again, unless a newer publication is on its way.
    fn publish_again(&mut self, publication: &Publication, ctx: &mut Ctx<'_>) {}
    /// Returns the number of one-time keys that other devices can fetch, and the number of those
    /// still being published.
    fn prekey_stock(&self) -> Option<(Option<u16>, u32)> {
        None
    }
    /// Returns the change to our card that the use of these relays requires.
    fn plan_own_card(
        &self,
        relays: &[RelayEntry],
        now: Time,
        rng: &mut dyn CryptoRng,
    ) -> Result<Option<CardPlan>, DeviceError> {
        Ok(None)
    }
    /// Returns the carrier's part of our card: its kind and its bytes.
    fn card_part(&self, now: Time) -> Option<(u8, Vec<u8>)> {
        None
    }
    /// Notifies the carrier that the card of the plan is now our card.
    fn adopt_plan(&mut self, plan: &mut CardPlan, ctx: &mut Ctx<'_>) {}
}

/// Invitations: first messages over a carrier that both sides reach without a bundle.
#[expect(unused_variables, reason = "default methods ignore their arguments")]
pub trait Invitations {
    /// Returns true if a note with these items is an invitation.
    fn is_invitation(&self, items: &[Item]) -> bool {
        false
    }
    /// Returns the inviters that have not sent a card.
    fn inviters(&self) -> Vec<InviterFacts> {
        Vec::new()
    }
    /// Stores an invitation. Returns true if the note was a valid invitation.
    fn accept_invitation(&mut self, welcome: Welcome<'_>, ctx: &mut Ctx<'_>) -> bool {
        false
    }
    /// Checks that the identity of an inviter can be requested now, which makes the inviter a
    /// contact.
    fn may_unmask(&self, id: ContactId, now: Time) -> Result<(), DeviceError> {
        Ok(())
    }
    /// Accepts the card of an inviter. Returns the level of answers. `session` is the session that
    /// both sides share, or `None` if the inviter began another one.
    fn unmask_inviter(
        &mut self,
        id: ContactId,
        session: Option<[u8; 16]>,
        ctx: &mut Ctx<'_>,
    ) -> Option<u8> {
        None
    }
    /// Returns the key of an inviter, or `None` if the row does not contain a readable key.
    fn inviter_key(&self, row: &[u8]) -> Option<IdentityKey> {
        None
    }
}

/// Rows of the carrier in the vault, and their confirmation once they are durable.
#[expect(unused_variables, reason = "default methods ignore their arguments")]
pub trait Storage {
    /// Returns the number that the carrier wants confirmed by [`on_durable`](Self::on_durable) once
    /// all rows of this input are durable.
    fn take_durable_number(&mut self) -> Option<u64> {
        None
    }
    /// Notifies the carrier that all rows up to `number` are durable.
    fn on_durable(&mut self, number: u64, ctx: &mut Ctx<'_>) {}
    /// Checks that the rows of one contact, or of one inviter, can be read.
    fn check_rows(&self, person: &PersonRows) -> Result<(), DecodeError> {
        Ok(())
    }
    /// Loads the readable rows of one contact or inviter. Returns true if a new session must
    /// replace the lost state.
    fn load_person(
        &mut self,
        person: &PersonRows,
        stored: &StoredRows<'_>,
        ctx: &mut Ctx<'_>,
    ) -> bool {
        false
    }
    /// Loads the rows that belong to no single contact, after all contacts are loaded. Returns the
    /// rows that do not load.
    fn load_own_rows(
        &mut self,
        stored: &mut StoredRows<'_>,
        known: &dyn Fn(ContactId) -> bool,
        ctx: &mut Ctx<'_>,
    ) -> Vec<Unloaded> {
        Vec::new()
    }
    /// Returns true if all stored state is present that a card with these relays needs.
    fn supports_card(&self, relays: &[RelayEntry]) -> bool {
        true
    }
    /// Returns true if this row of the carrier loads and encodes to the same bytes again (MSG-43).
    fn loads_again(&self, kind: RecordKind, key: &[u8], value: &[u8]) -> bool {
        fits_vault(value)
    }
    /// Writes the carrier's rows, except those of a machine inside it.
    fn put_records(&self, effects: &mut Effects) {}
}
