//! One carrier, as the device sees it.

use alloc::vec::Vec;

use mezza_core::{CryptoRng, DecodeError, PublicKey, Time};
use mezza_ratchet::{Exporter, IdentityKey, Padding};

use super::relay::CardPlan;
use crate::card::RelayEntry;
use crate::error::DeviceError;
use crate::evidence::WaitReason;
use crate::io::{
    At, CarrierConnection, CarrierState, ContactFacts, ContactId, DateStep, DeliveryProblem,
    Dropped, FetchPurpose, Forget, Handover, HelloPlace, InviterFacts, Leaving, Missing, News,
    PersonRows, Publication, Receiving, RecordKind, Route, Step, StoredRows, Unloaded, fits_vault,
};
use crate::note::Item;

/// Where the chains of whoever invites are, and what a carrier was told by them.
pub struct Welcome<'a> {
    /// The number that they get.
    pub id: ContactId,
    /// Their key.
    pub ik: IdentityKey,
    /// Where they wait for an answer.
    pub place: u32,
    /// The items of the invitation.
    pub items: &'a [Item],
    /// The exporter of its session.
    pub exporter: Exporter,
}

/// A carrier. It answers "nothing" to whatever it does not know (house 4a).
#[expect(unused_variables, reason = "who answers nothing looks at nothing")]
pub trait Carrier {
    /// How it is now; with a contact: on the way to that one.
    fn state(&self, to: Option<&ContactFacts<'_>>, now: Time) -> Option<CarrierState> {
        None
    }
    /// The connections that are kept.
    fn connections(&self, now: Time) -> Vec<CarrierConnection> {
        Vec::new()
    }
    /// Returns the problem that the carrier has with a contact.
    fn trouble(&self, contact: ContactId) -> Option<DeliveryProblem> {
        None
    }

    /// Something is to leave for a contact at this pin at least: what that takes is begun.
    fn prepare_route(&mut self, to: &ContactFacts<'_>, pin: u8, at: &mut At<'_>) {}
    /// The way to a contact that may be taken now, at this pin at least, and whether a person wrote
    /// what is to leave.
    fn select_route(
        &self,
        to: &ContactFacts<'_>,
        pin_own: (u8, bool),
        now: Time,
    ) -> Result<Route, Missing> {
        Err(Missing::Wait(WaitReason::NoCarrier))
    }
    /// Returns the outer binding of a message over this carrier, at most 64 bytes.
    fn outer_binding(&self, to: &ContactFacts<'_>) -> Vec<u8> {
        Vec::new()
    }
    /// How a message may be filled up, the first that fits. What a mailbox holds has one of six sizes
    /// anyway: whole blocks.
    fn paddings(&self) -> &'static [Padding] {
        &[Padding::Blocks]
    }
    /// Where a contact reaches us, as a hello says it.
    fn hello_place(&self, id: ContactId) -> Option<HelloPlace> {
        None
    }
    /// Returns true if a hello on this way waits until its mailbox is open.
    fn waits_for_place(&self) -> bool {
        true
    }
    /// Takes a parcel.
    fn hand_over(&mut self, parcel: &Leaving<'_>, at: &mut At<'_>) -> Handover {
        Handover::Waits
    }
    /// These need not leave any more.
    fn retract_parcels(&mut self, parcels: &[Dropped], at: &mut At<'_>) {}
    /// A contact is served at this level at least; `None`: not at all, in neither direction.
    fn set_level_min(&mut self, contact: ContactId, level_min: Option<u8>, at: &mut At<'_>) {}
    /// Notifies the carrier that an arrival was handled.
    fn acknowledge_arrival(&mut self, ack: Receiving) {}
    /// Notifies the carrier that an arrival was malformed.
    fn count_rejected(&mut self) {}
    /// Returns the number of arrivals that were rejected.
    fn rejected_count(&self) -> u64 {
        0
    }

    /// Returns true if it has something to say to a contact.
    fn has_to_say(&self, to: &ContactFacts<'_>, now: Time) -> bool {
        false
    }
    /// Returns the item that the carrier owes the contact, if any.
    fn take_owed_item(&mut self, to: &ContactFacts<'_>, at: &mut At<'_>) -> Option<Item> {
        None
    }
    /// It was said, or began a session with this exporter, which serves one carrier.
    fn on_items_sent(
        &mut self,
        to: &ContactFacts<'_>,
        items: &[Item],
        exporter: &mut Option<Exporter>,
        at: &mut At<'_>,
    ) {
    }
    /// Returns true if such a note invites.
    fn is_invitation(&self, items: &[Item]) -> bool {
        false
    }
    /// A contact said this to our carriers.
    fn on_items_received(
        &mut self,
        from: &ContactFacts<'_>,
        items: &[Item],
        exporter: &mut Option<Exporter>,
        at: &mut At<'_>,
    ) {
    }
    /// Returns true if the contact may have lost what it shares with this carrier. Others come first.
    fn is_doubtful(&self, contact: ContactId) -> bool {
        false
    }
    /// A message of a contact came by another carrier; `is_anew`: in a session that began there, or that is not
    /// known here, or as the answer to an invitation.
    fn came_elsewhere(&mut self, contact: ContactId, is_anew: bool, at: &mut At<'_>) {}
    /// The person wrote to a contact.
    fn on_user_note(&mut self, contact: ContactId, now: Time) {}
    /// The card of a contact is another one; `by_hand`: the person gave it. Whether there are chains with
    /// the contact and it cannot be reached here any more.
    fn on_card_changed(&mut self, to: &ContactFacts<'_>, by_hand: bool, at: &mut At<'_>) -> bool {
        false
    }
    /// Returns true if the contact has a place of its own here.
    fn has_place_for(&self, contact: ContactId) -> bool {
        false
    }

    /// Returns true if the bundle of a contact is to be fetched now, for later.
    fn wants_bundle(&self, to: &ContactFacts<'_>, now: Time) -> bool {
        false
    }
    /// Returns true if the bundle of a contact can be asked for at this pin, be the carrier up or not.
    fn can_fetch_bundle(&self, of: &ContactFacts<'_>, pin: u8) -> bool {
        false
    }
    /// Asks for the bundle of a contact; when it can be asked for again.
    fn fetch_bundle(
        &mut self,
        of: &ContactFacts<'_>,
        purpose: FetchPurpose,
        pin: u8,
        at: &mut At<'_>,
    ) -> Option<Time> {
        None
    }
    /// A session with a contact began under this prekey, which ends then.
    fn on_session_begun(
        &mut self,
        with: ContactId,
        prekey: PublicKey,
        not_after: Time,
        at: &mut At<'_>,
    ) {
    }
    /// Others shall be able to fetch this.
    fn publish_prekeys(&mut self, publication: &Publication, at: &mut At<'_>) {}
    /// The same, unless something newer is on its way to there.
    fn publish_again(&mut self, publication: &Publication, at: &mut At<'_>) {}
    /// One-time keys that others can get, and how many of them are still under way to there.
    fn prekey_stock(&self) -> Option<(Option<u16>, u32)> {
        None
    }

    /// Those who invite and have shown no card.
    fn inviters(&self) -> Vec<InviterFacts> {
        Vec::new()
    }
    /// Somebody invites; whether that is an invitation.
    fn accept_invitation(&mut self, welcome: Welcome<'_>, at: &mut At<'_>) -> bool {
        false
    }
    /// Checks that an inviter can become a contact now.
    fn may_unmask(&self, id: ContactId, now: Time) -> Result<(), DeviceError> {
        Ok(())
    }
    /// Accepts the card of an inviter. Returns the level of answers. `session`: the session that
    /// they and we share, unless they began another one.
    fn unmask_inviter(
        &mut self,
        id: ContactId,
        session: Option<[u8; 16]>,
        at: &mut At<'_>,
    ) -> Option<u8> {
        None
    }
    /// Forgets what it has of a contact, or of one who invites.
    fn forget_contact(&mut self, contact: ContactId, what: Forget, at: &mut At<'_>) {}

    /// How the own card would change with these relays.
    fn plan_own_card(
        &self,
        relays: &[RelayEntry],
        now: Time,
        rng: &mut dyn CryptoRng,
    ) -> Result<Option<CardPlan>, DeviceError> {
        Ok(None)
    }
    /// A part of the own card: its kind and its bytes.
    fn card_part(&self, now: Time) -> Option<(u8, Vec<u8>)> {
        None
    }
    /// The card of the plan is the own one now.
    fn adopt_plan(&mut self, plan: &mut CardPlan, at: &mut At<'_>) {}

    /// The date was corrected: moves what the date before has stamped (MSG-104).
    fn apply_date_step(&mut self, date: &DateStep, at: &mut At<'_>) {}
    /// The clock shows less than at the last wake: looks again at whatever waits for a time.
    fn put_back(&mut self, at: &mut At<'_>) {}
    /// The device starts.
    fn start(&mut self, at: &mut At<'_>) {}
    /// Handles an expired timer of the carrier. `busy`: returns true if notes wait for the contact.
    fn handle_timer(&mut self, number: u64, busy: &dyn Fn(ContactId) -> bool, at: &mut At<'_>) {}
    /// The next thing that it has to say.
    fn next_news(&mut self) -> Option<News> {
        None
    }
    /// The number by which it wants to hear that everything of this step is durable.
    fn take_durable_number(&mut self) -> Option<u64> {
        None
    }
    /// Notifies the carrier that everything before that number is durable.
    fn on_durable(&mut self, number: u64, at: &mut At<'_>) {}
    /// Gets ready for the next note to whoever was just written to.
    fn prepare_next_note(&mut self, rng: &mut dyn CryptoRng) {}

    /// Checks that the rows of one contact, or of one inviter, can be read.
    fn check_rows(&self, person: &PersonRows) -> Result<(), DecodeError> {
        Ok(())
    }
    /// The key of one who invites, as far as its row still says so.
    fn inviter_key(&self, row: &[u8]) -> Option<IdentityKey> {
        None
    }
    /// Takes what can be read; whether a new session must say what is lost.
    fn load_person(
        &mut self,
        person: &PersonRows,
        stored: &StoredRows<'_>,
        at: &mut At<'_>,
    ) -> bool {
        false
    }
    /// Takes what belongs to nobody alone, once everybody is there; the rows that do not load.
    fn load_own_rows(
        &mut self,
        stored: &mut StoredRows<'_>,
        known: &dyn Fn(ContactId) -> bool,
        at: &mut At<'_>,
    ) -> Vec<Unloaded> {
        Vec::new()
    }
    /// Returns true if everything of it is there that a card with these relays names.
    fn supports_card(&self, relays: &[RelayEntry]) -> bool {
        true
    }
    /// Returns true if this row of its own loads, and is the same when it is written again (MSG-43).
    fn loads_again(&self, kind: RecordKind, key: &[u8], value: &[u8]) -> bool {
        fits_vault(value)
    }
    /// Its rows, without those of a machine inside it.
    fn put_records(&self, step: &mut Step) {}
}
