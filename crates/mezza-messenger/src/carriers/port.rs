//! The port between the device and its carriers.

use alloc::vec::Vec;

use mezza_core::{Backend, CryptoRng, DecodeError, PublicKey, StaticKey, Time, Writer};
use mezza_ratchet::{Exporter, IdentityKey};

use crate::card::RelayEntry;
use crate::error::DeviceError;
use crate::io::{
    At, CardParts, CarrierConnection, CarrierId, CarrierState, ContactFacts, ContactId,
    DeliveryProblem, Dropped, FetchPurpose, Forget, Handover, InviterFacts, Leaving, Missing, News,
    PersonRows, Publication, Reach, Receiving, RecordChange, RecordKind, StoredRows, Unloaded,
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
    /// What the invitation says.
    pub items: &'a [Item],
    /// The exporter of its session.
    pub exporter: Exporter,
}

/// What the device asks of its carriers (house 4a). A question about one carrier names it.
pub trait Port {
    /// Whose code the primitives are.
    type Backend: Backend;
    /// What the driver tells the carriers.
    type Input;
    /// What the carriers ask of the driver.
    type Output;
    /// How the own card would change.
    type Plan;
    /// What is stored of one contact, or of one who invites.
    type Person;

    /// The carriers that are here.
    fn ids(&self) -> Vec<CarrierId>;
    /// How one is now; with a contact: on the way to that one.
    fn state(
        &self,
        id: CarrierId,
        to: Option<&ContactFacts<'_>>,
        now: Time,
    ) -> Option<CarrierState>;
    /// The connections that are kept.
    fn connections(&self, now: Time) -> Vec<(CarrierId, CarrierConnection)>;
    /// What a carrier has against a contact.
    fn trouble(&self, contact: ContactId) -> Option<DeliveryProblem>;

    /// The way to a contact that may be taken now, at this pin at least, and whether a person wrote
    /// what is to leave.
    fn route(
        &mut self,
        id: CarrierId,
        to: &ContactFacts<'_>,
        pin_own: (u8, bool),
        at: &mut At<'_>,
    ) -> Result<Reach, Missing>;
    /// Hands a parcel over.
    fn hand(&mut self, parcel: &Leaving<'_>, at: &mut At<'_>) -> Handover;
    /// These need not leave any more.
    fn retract(&mut self, parcels: &[Dropped], at: &mut At<'_>);
    /// A carrier serves a contact at this level at least; `None`: not at all, in neither direction.
    fn allow(&mut self, id: CarrierId, contact: ContactId, level_min: Option<u8>, at: &mut At<'_>);
    /// What came in is dealt with.
    fn acknowledge(&mut self, ack: Receiving);
    /// What came in is no parcel.
    fn reject(&mut self, id: CarrierId);
    /// What came in and was of no use to any carrier.
    fn rejected(&self) -> u64;

    /// Whether carriers have something to say to a contact.
    fn has_to_say(&self, to: &ContactFacts<'_>, now: Time) -> bool;
    /// What they have to say.
    fn say(&mut self, to: &ContactFacts<'_>, at: &mut At<'_>) -> Vec<Item>;
    /// It was said, or began a session with this exporter.
    fn said(
        &mut self,
        to: &ContactFacts<'_>,
        items: &[Item],
        exporter: Option<Exporter>,
        at: &mut At<'_>,
    );
    /// Whether such a note invites.
    fn invites(&self, items: &[Item]) -> bool;
    /// A contact said this to our carriers.
    fn told(
        &mut self,
        from: &ContactFacts<'_>,
        items: &[Item],
        exporter: Option<Exporter>,
        at: &mut At<'_>,
    );
    /// The person wrote to a contact.
    fn wrote(&mut self, contact: ContactId, now: Time);
    /// The card of a contact is another one; `by_hand`: the person gave it. Whether a carrier has chains
    /// with the contact and cannot reach it any more.
    fn moved(&mut self, to: &ContactFacts<'_>, by_hand: bool, at: &mut At<'_>) -> bool;
    /// Whether the contact has a place of its own here.
    fn greets(&self, contact: ContactId) -> bool;

    /// Whether the bundle of a contact is to be fetched now, for later.
    fn wants_bundle(&self, id: CarrierId, to: &ContactFacts<'_>, now: Time) -> bool;
    /// Whether the bundle of a contact can be asked for by a carrier at this pin, be it up or not.
    fn fetches(&self, id: CarrierId, of: &ContactFacts<'_>, pin: u8) -> bool;
    /// Asks for the bundle of a contact by a carrier; when it can be asked for again.
    fn fetch(
        &mut self,
        id: CarrierId,
        of: &ContactFacts<'_>,
        purpose: FetchPurpose,
        pin: u8,
        at: &mut At<'_>,
    ) -> Option<Time>;
    /// A session with a contact began under this prekey, which ends then.
    fn began(&mut self, with: ContactId, prekey: PublicKey, not_after: Time, at: &mut At<'_>);
    /// Others shall be able to fetch this.
    fn publish(&mut self, publication: Publication, at: &mut At<'_>);
    /// The same, unless something newer is on its way to there.
    fn publish_again(&mut self, publication: Publication, at: &mut At<'_>);
    /// One-time keys that others can get, and how many of them are still under way to there.
    fn stock(&self) -> (Option<u16>, u32);

    /// Those who invite and have shown no card.
    fn inviters(&self) -> Vec<InviterFacts>;
    /// Somebody invites; whether that is an invitation.
    fn welcome(&mut self, welcome: Welcome<'_>, at: &mut At<'_>) -> bool;
    /// Whether one who invites can become a contact now.
    fn may_unmask(&self, id: ContactId, now: Time) -> Result<(), DeviceError>;
    /// Whoever invites has shown a card; by which carrier they are answered, at which level.
    /// `session`: the session that they and we share, unless they began another one.
    fn unmask(
        &mut self,
        id: ContactId,
        session: Option<[u8; 16]>,
        at: &mut At<'_>,
    ) -> Option<(CarrierId, u8)>;
    /// Forgets what it has of a contact, or of one who invites.
    fn forget(&mut self, contact: ContactId, what: Forget, at: &mut At<'_>);

    /// How the own card would change with these relays.
    fn plan(
        &self,
        relays: &[RelayEntry],
        now: Time,
        rng: &mut dyn CryptoRng,
    ) -> Result<Self::Plan, DeviceError>;
    /// What the own card says of the carriers, after this plan.
    fn card_parts(&self, plan: &Self::Plan, now: Time) -> CardParts;
    /// The card of the plan is the own one now.
    fn adopt(&mut self, plan: Self::Plan, at: &mut At<'_>);

    /// What the driver has to say. Of two errors the one of the carrier comes first; what is refused
    /// changes nothing. `seals`: the private keys to one of which strangers seal.
    fn input(
        &mut self,
        input: Self::Input,
        seals: &[&StaticKey],
        at: &mut At<'_>,
    ) -> Result<(), DeviceError>;
    /// The device starts.
    fn start(&mut self, at: &mut At<'_>);
    /// What a carrier asked for by a timer is due. `busy`: for whom something waits.
    fn wake(
        &mut self,
        id: CarrierId,
        number: u64,
        busy: &dyn Fn(ContactId) -> bool,
        at: &mut At<'_>,
    );
    /// The next thing that a carrier has to say.
    fn news(&mut self) -> Option<News>;
    /// The next thing that the driver has to do, in order.
    fn poll(&mut self) -> Option<Self::Output>;
    /// Gets ready for the next note to whoever was just written to.
    fn ready(&mut self, rng: &mut dyn CryptoRng);

    /// Reads what is stored of one contact, or of one who invites.
    fn read_person(rows: &PersonRows) -> Result<Self::Person, DecodeError>;
    /// The key of one who invites, as far as its row still says so.
    fn inviter_key(row: &[u8]) -> Option<IdentityKey>;
    /// Takes what was read; whether a new session must say what is lost.
    fn load_person(
        &mut self,
        id: ContactId,
        person: Self::Person,
        stored: &StoredRows<'_>,
        at: &mut At<'_>,
    ) -> bool;
    /// Takes what belongs to nobody alone, once everybody is there; the rows that do not load.
    fn load(
        &mut self,
        stored: &mut StoredRows<'_>,
        known: &dyn Fn(ContactId) -> bool,
        at: &mut At<'_>,
    ) -> Vec<Unloaded>;
    /// Whether everything is there that a card with these relays names.
    fn serves(&self, relays: &[RelayEntry]) -> bool;
    /// Whether this row of a carrier loads, and is the same when it is written again (MSG-43).
    fn loads_again(kind: RecordKind, key: &[u8], value: &[u8]) -> bool;
    /// The rows of all carriers, without those of the mixnet's client.
    fn records(&self, out: &mut Vec<RecordChange>);
    /// What is not in the rows.
    fn snapshot(&self, w: &mut Writer);
}
