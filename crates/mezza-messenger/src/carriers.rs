//! The carriers, behind one port: everything that tells one from another is in this file.

pub mod mixnet;
mod port;
pub mod relay;

use alloc::vec::Vec;
use core::fmt;

use mezza_core::{Backend, CryptoRng, DecodeError, PublicKey, StaticKey, Time, Writer};
use mezza_lanes::{Kernel, portable};
use mezza_ratchet::{Exporter, IdentityKey, Padding};

use crate::card::RelayEntry;
use crate::error::DeviceError;
use crate::io::{
    At, CardParts, CarrierConnection, CarrierId, CarrierState, ContactFacts, ContactId,
    DeliveryProblem, Dropped, FetchPurpose, Forget, Handover, HelloPlace, Input, InviterFacts,
    Leaving, Missing, News, PersonRows, Publication, Reach, Receiving, RecordChange, RecordKind,
    Route, StoredRows, Unloaded, fits, loads_again,
};
use crate::note::Item;
use crate::view::NetworkView;
use mixnet::{Inviter, LeftNetwork, Membership, Mixnet, MixnetInput, MixnetOutput, MixnetPeer};
use relay::{OwnMailbox, Relay, RelayInput, RelayOutput, RelayPeer};

pub use port::{Port, Welcome};

/// What the driver tells one of the carriers.
pub enum CarrierInput {
    /// A relay has an answer or mail, or its connection has changed.
    Relay(RelayInput),
    /// The mixnet, or what a person asks of it.
    Mixnet(MixnetInput),
}

/// What a carrier asks of the driver.
pub enum CarrierOutput {
    /// For the connection to a relay.
    Relay(RelayOutput),
    /// For the connection to the mixnet.
    Mixnet(MixnetOutput),
}

impl From<RelayInput> for CarrierInput {
    fn from(input: RelayInput) -> Self {
        Self::Relay(input)
    }
}

impl From<MixnetInput> for CarrierInput {
    fn from(input: MixnetInput) -> Self {
        Self::Mixnet(input)
    }
}

impl<I: Into<CarrierInput>> From<I> for Input<CarrierInput> {
    fn from(input: I) -> Self {
        Self::Carrier(input.into())
    }
}

impl From<RelayOutput> for CarrierOutput {
    fn from(output: RelayOutput) -> Self {
        Self::Relay(output)
    }
}

impl From<MixnetOutput> for CarrierOutput {
    fn from(output: MixnetOutput) -> Self {
        Self::Mixnet(output)
    }
}

impl fmt::Debug for CarrierInput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Relay(input) => write!(f, "{input:?}"),
            Self::Mixnet(input) => write!(f, "{input:?}"),
        }
    }
}

impl fmt::Debug for CarrierOutput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Relay(output) => write!(f, "{output:?}"),
            Self::Mixnet(output) => write!(f, "{output:?}"),
        }
    }
}

/// The carriers of this version.
pub struct CarrierSet<B: Backend> {
    pub(crate) relay: Relay<B>,
    pub(crate) mixnet: Mixnet<B>,
}

impl<B: Backend> Default for CarrierSet<B> {
    fn default() -> Self {
        Self::new(portable())
    }
}

/// What is stored of one contact, or of one who invites.
pub struct StoredPerson {
    relay: RelayPeer,
    mixnet: MixnetPeer,
    inviter: Option<Inviter>,
}

/// Whole blocks: what a mailbox holds has one of six sizes anyway.
const BLOCKS: &[Padding] = &[Padding::Blocks];

impl<B: Backend> CarrierSet<B> {
    /// No relay and no network yet; the mixnet's client computes on this.
    pub fn new(kernel: &'static dyn Kernel) -> Self {
        Self { relay: Relay::default(), mixnet: Mixnet::new(kernel) }
    }

    /// The mixnet, if one was joined.
    pub fn network(&self, now: Time) -> Option<NetworkView> {
        self.mixnet.view(now)
    }

    /// A way with what a hello says on it.
    fn reach(&self, to: &ContactFacts<'_>, route: Route) -> Reach {
        let place = self.relay.hello_place(to.id);
        let paddings = if route.carrier == CarrierId::MIXNET { &mixnet::PADDINGS } else { BLOCKS };
        // Cells need no mailbox, so that nobody waits for one.
        let place = match place {
            HelloPlace::NotYet if route.carrier == CarrierId::MIXNET => HelloPlace::Tag,
            place => place,
        };
        Reach { route, place, paddings }
    }
}

impl<B: Backend> Port for CarrierSet<B> {
    type Backend = B;
    type Input = CarrierInput;
    type Output = CarrierOutput;
    type Plan = relay::CardPlan;
    type Person = StoredPerson;

    fn ids(&self) -> Vec<CarrierId> {
        [CarrierId::RELAY, CarrierId::MIXNET].into()
    }

    fn state(
        &self,
        id: CarrierId,
        to: Option<&ContactFacts<'_>>,
        now: Time,
    ) -> Option<CarrierState> {
        match id {
            CarrierId::RELAY => Some(self.relay.state(to)),
            CarrierId::MIXNET => self.mixnet.state(now),
            _ => None,
        }
    }

    fn connections(&self, now: Time) -> Vec<(CarrierId, CarrierConnection)> {
        let relays = self.relay.connections().map(|at| (CarrierId::RELAY, at));
        let mixnet = self.mixnet.connection(now).map(|at| (CarrierId::MIXNET, at));
        relays.chain(mixnet).collect()
    }

    fn trouble(&self, contact: ContactId) -> Option<DeliveryProblem> {
        self.mixnet.trouble(contact)
    }

    fn route(
        &mut self,
        id: CarrierId,
        to: &ContactFacts<'_>,
        (pin, own): (u8, bool),
        at: &mut At<'_>,
    ) -> Result<Reach, Missing> {
        let route = match id {
            CarrierId::RELAY => self.relay.route(to, pin, at)?,
            CarrierId::MIXNET => self.mixnet.route(to, (pin, own), at)?,
            _ => return Err(Missing::Wait(crate::evidence::WaitReason::NoCarrier)),
        };
        Ok(self.reach(to, route))
    }

    fn hand(&mut self, parcel: &Leaving<'_>, at: &mut At<'_>) -> Handover {
        match parcel.route.carrier {
            CarrierId::RELAY => self.relay.hand(parcel, at),
            CarrierId::MIXNET => self.mixnet.hand(parcel, at),
            _ => Handover::Waits,
        }
    }

    fn retract(&mut self, parcels: &[Dropped], at: &mut At<'_>) {
        self.relay.retract(parcels);
        self.mixnet.retract(parcels, at);
    }

    fn allow(&mut self, id: CarrierId, contact: ContactId, level_min: Option<u8>, at: &mut At<'_>) {
        match id {
            CarrierId::RELAY => self.relay.allow(contact, level_min),
            CarrierId::MIXNET => self.mixnet.allow(contact, level_min, at),
            _ => {}
        }
    }

    fn acknowledge(&mut self, ack: Receiving) {
        if ack.carrier == CarrierId::RELAY {
            self.relay.acknowledge(ack);
        }
    }

    fn reject(&mut self, id: CarrierId) {
        if id == CarrierId::MIXNET { self.mixnet.reject() } else { self.relay.reject() }
    }

    fn rejected(&self) -> u64 {
        self.relay.rejected() + self.mixnet.rejected()
    }

    fn has_to_say(&self, to: &ContactFacts<'_>, now: Time) -> bool {
        self.mixnet.has_to_say(to, now)
    }

    fn say(&mut self, to: &ContactFacts<'_>, at: &mut At<'_>) -> Vec<Item> {
        self.mixnet.say(to, at).into_iter().collect()
    }

    fn said(
        &mut self,
        to: &ContactFacts<'_>,
        items: &[Item],
        exporter: Option<Exporter>,
        at: &mut At<'_>,
    ) {
        self.mixnet.said(to, items, exporter, at);
    }

    fn invites(&self, items: &[Item]) -> bool {
        mixnet::invites(items)
    }

    fn told(
        &mut self,
        from: &ContactFacts<'_>,
        items: &[Item],
        exporter: Option<Exporter>,
        at: &mut At<'_>,
    ) {
        self.relay.told(from, items, at);
        self.mixnet.told(from, items, exporter, at);
    }

    fn wrote(&mut self, contact: ContactId, now: Time) {
        self.mixnet.wrote(contact, now);
    }

    fn moved(&mut self, to: &ContactFacts<'_>, by_hand: bool, at: &mut At<'_>) -> bool {
        self.relay.follow(to, by_hand, at.step);
        self.relay.moved(to);
        self.mixnet.moved(to, at)
    }

    fn greets(&self, contact: ContactId) -> bool {
        self.relay.greets(contact)
    }

    fn wants_bundle(&self, id: CarrierId, to: &ContactFacts<'_>, now: Time) -> bool {
        id == CarrierId::MIXNET && self.mixnet.wants_bundle(to, now)
    }

    fn fetches(&self, id: CarrierId, of: &ContactFacts<'_>, pin: u8) -> bool {
        id == CarrierId::RELAY && self.relay.fetches(of, pin)
    }

    fn fetch(
        &mut self,
        id: CarrierId,
        of: &ContactFacts<'_>,
        purpose: FetchPurpose,
        pin: u8,
        at: &mut At<'_>,
    ) -> Option<Time> {
        (id == CarrierId::RELAY).then(|| self.relay.fetch(of, purpose, pin, at))?
    }

    fn began(&mut self, with: ContactId, prekey: PublicKey, not_after: Time, at: &mut At<'_>) {
        self.relay.began(with, prekey, not_after, at.step);
    }

    fn publish(&mut self, publication: Publication, at: &mut At<'_>) {
        self.relay.announce(publication, at.step);
    }

    fn publish_again(&mut self, publication: Publication, at: &mut At<'_>) {
        if !self.relay.is_publishing() {
            self.relay.announce(publication, at.step);
        }
    }

    fn stock(&self) -> (Option<u16>, u32) {
        self.relay.stock()
    }

    fn inviters(&self) -> Vec<InviterFacts> {
        self.mixnet.inviters()
    }

    fn welcome(&mut self, welcome: Welcome<'_>, at: &mut At<'_>) -> bool {
        self.mixnet.welcome(welcome, at)
    }

    fn may_unmask(&self, id: ContactId, now: Time) -> Result<(), DeviceError> {
        self.mixnet.may_unmask(id, now)
    }

    fn unmask(
        &mut self,
        id: ContactId,
        session: Option<[u8; 16]>,
        at: &mut At<'_>,
    ) -> Option<(CarrierId, u8)> {
        let level = self.mixnet.unmask(id, session, at)?;
        Some((CarrierId::MIXNET, level))
    }

    fn forget(&mut self, contact: ContactId, what: Forget, at: &mut At<'_>) {
        if what == Forget::All {
            self.relay.forget(contact, at.step);
        }
        self.mixnet.forget(contact, what, at);
    }

    fn plan(
        &self,
        relays: &[RelayEntry],
        now: Time,
        rng: &mut dyn CryptoRng,
    ) -> Result<relay::CardPlan, DeviceError> {
        self.relay.plan(relays, now, rng)
    }

    fn card_parts(&self, plan: &relay::CardPlan, now: Time) -> CardParts {
        CardParts {
            relays: plan.relays(),
            further: self.mixnet.card_part(now).into_iter().collect(),
        }
    }

    fn adopt(&mut self, plan: relay::CardPlan, at: &mut At<'_>) {
        self.relay.adopt(plan, at);
    }

    fn input(
        &mut self,
        input: CarrierInput,
        seals: &[&StaticKey],
        at: &mut At<'_>,
    ) -> Result<(), DeviceError> {
        match input {
            CarrierInput::Relay(input) => self.relay.input(input, seals, at),
            CarrierInput::Mixnet(input) => self.mixnet.input(input, at),
        }
    }

    fn start(&mut self, at: &mut At<'_>) {
        self.relay.start(at);
        self.mixnet.start(at);
    }

    fn wake(
        &mut self,
        id: CarrierId,
        number: u64,
        busy: &dyn Fn(ContactId) -> bool,
        at: &mut At<'_>,
    ) {
        match id {
            CarrierId::RELAY => self.relay.wake(number, busy, at),
            CarrierId::MIXNET => self.mixnet.wake(number, at),
            _ => {}
        }
    }

    fn news(&mut self) -> Option<News> {
        self.relay.news().or_else(|| self.mixnet.news())
    }

    fn poll(&mut self) -> Option<CarrierOutput> {
        let relay = self.relay.poll().map(CarrierOutput::Relay);
        relay.or_else(|| self.mixnet.poll().map(CarrierOutput::Mixnet))
    }

    fn ready(&mut self, rng: &mut dyn CryptoRng) {
        self.relay.ready(rng);
    }

    fn read_person(rows: &PersonRows) -> Result<StoredPerson, DecodeError> {
        Ok(StoredPerson {
            relay: rows.optional(RecordKind::RelayPeer, RelayPeer::read)?,
            mixnet: rows.optional(RecordKind::MixnetPeer, MixnetPeer::read)?,
            inviter: rows.value(RecordKind::Inviter).map(Inviter::read).transpose()?,
        })
    }

    fn inviter_key(row: &[u8]) -> Option<IdentityKey> {
        mixnet::owner(row)
    }

    fn load_person(
        &mut self,
        id: ContactId,
        person: StoredPerson,
        stored: &StoredRows<'_>,
        at: &mut At<'_>,
    ) -> bool {
        if let Some(inviter) = person.inviter {
            self.mixnet.load_inviter(id, inviter, at.step);
            return false;
        }
        self.mixnet.load_peer(id, person.mixnet);
        self.relay.load_peer(id, person.relay, stored)
    }

    fn load(
        &mut self,
        stored: &mut StoredRows<'_>,
        known: &dyn Fn(ContactId) -> bool,
        at: &mut At<'_>,
    ) -> Vec<Unloaded> {
        let relay = self.relay.load(stored, known, at.step);
        relay.into_iter().chain(self.mixnet.load(stored, at)).collect()
    }

    fn serves(&self, relays: &[RelayEntry]) -> bool {
        relays.iter().all(|relay| self.relay.has_intro_at(relay))
    }

    fn loads_again(kind: RecordKind, key: &[u8], value: &[u8]) -> bool {
        let again = match kind {
            RecordKind::Mailbox => OwnMailbox::read(value).map(|own| Some(own.write())),
            RecordKind::RelayPeer if key.is_empty() => return Relay::<B>::read_next(value).is_ok(),
            RecordKind::RelayPeer => RelayPeer::read(value).map(|peer| peer.stored()),
            RecordKind::Network => Membership::read(value).map(|member| Some(member.write())),
            RecordKind::LeftNetwork => LeftNetwork::read(value).map(|left| Some(left.write())),
            RecordKind::Inviter => Inviter::read(value).map(|inviter| Some(inviter.write())),
            RecordKind::MixnetPeer => MixnetPeer::read(value).map(|peer| peer.stored()),
            _ => return fits(value),
        };
        loads_again(value, again)
    }

    fn records(&self, out: &mut Vec<RecordChange>) {
        self.relay.records(out);
        self.mixnet.records(out);
    }

    fn snapshot(&self, w: &mut Writer) {
        self.relay.snapshot(w);
        self.mixnet.snapshot(w);
    }
}
