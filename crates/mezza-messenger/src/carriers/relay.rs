//! The relay carrier: our mailboxes, the mailboxes of contacts, connections, and requests in
//! flight.
//!
//! ```text
//! route -Connect, Open-> .. Up, Done -> hand: envelope -Put-> .. Done -> news: handed
//! Mail -> envelope opened -> news: arrived -> acknowledge
//! ```

mod carrier;
mod closing;
mod connections;
mod dates;
mod io;
mod leaving;
mod mailbox;
mod moving;
mod own;
mod peer;
mod plan;
mod publication;
mod requests;
mod stored;

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;

use mezza_core::{Backend, PublicKey, StaticKey, Time, Wiping, snapshot};
use mezza_ratchet::OneTimePrekey;

use crate::card::RelayEntry;
use crate::carriers::{Bundles, Routing};
use crate::envelope::{self, SenderContext};
use crate::error::{CallerError, CarrierError, DeviceError};
use crate::evidence::WaitReason;
use crate::io::{
    Arrival, ArrivalOrigin, CarrierCaps, CarrierHides, CarrierId, ContactFacts, ContactId, Ctx,
    Due, Effects, Event, HelloPlace, LostPlace, MailboxId, News, ParcelId, Publication, Receiving,
    RecordKind, RelayConnectionId, RequestId, Route, key32,
};
use crate::note::RemoteMailbox;
use crate::relay_wire::MailboxAddress;
use connections::Connections;
use requests::{Request, Requests};

pub use io::{RelayInput, RelayOutput};
pub(crate) use mailbox::{OwnMailbox, WatchState};
pub(crate) use peer::{IntroKey, RelayPeer};
pub use plan::CardPlan;

/// Abilities of a relay: one envelope for each parcel, stored for 30 days.
pub const CAPS: CarrierCaps = CarrierCaps {
    piece_bytes: 16_333,
    pieces_max: 1,
    around_bytes: 0,
    parcel_bytes_max: envelope::PARCEL_BYTES_MAX,
    level: 1,
    delay_ms: 50,
    delay_p99_ms: 1_000,
    receipts: true,
    store_h: 720,
    needs_internet: true,
    demo: false,
    hides: CarrierHides::NOTHING,
    noise: None,
};

/// Milliseconds for which a relay stores mail.
const KEEPS_MS: u64 = 30 * Time::DAY_MS;
/// Extra lifetime of a first message after the end of its bundle, in milliseconds (messenger 4.2).
const BEYOND_BUNDLE_MS: u64 = 16 * Time::DAY_MS;
/// Milliseconds between two fetches of a bundle that could not be used.
const FETCH_AGAIN_MS: u64 = Time::MINUTE_MS;
/// Seconds until a refused request about our own mailbox is repeated.
const AGAIN_S: u64 = 60;
/// Fewest seconds until a request about our own mailbox is repeated, if the relay names a time.
const SLOW_AGAIN_S: u64 = 2;
/// Seconds until a parcel is sent again that was refused without a time.
const REFUSED_AGAIN_S: u16 = 60;

/// DONE codes of the relay (relay 1.3).
const NO_SUCH_BOX: u8 = 1;
const BOX_FULL: u8 = 2;
const SLOW_DOWN: u8 = 4;

/// Subjects of timers; the number of the mailbox or contact is added to the constant.
const RETRY: u64 = 0;
const IDLE: u64 = 1;
const MAILBOX: u64 = 1 << 32;
const FETCH: u64 = 2 << 32;

/// Version of the stored number of the next mailbox.
const VERSION: u8 = 1;

const fn timer(number: u64) -> Due {
    Due::Carrier(CarrierId::RELAY, number)
}

/// State of the relay carrier.
pub(crate) struct Relay<B: Backend> {
    mailboxes: BTreeMap<MailboxId, OwnMailbox>,
    /// Mailboxes that were given up but not yet closed by their relay (MSG-125).
    closing: BTreeMap<MailboxId, OwnMailbox>,
    next_mailbox: u32,
    peers: BTreeMap<ContactId, RelayPeer>,
    connections: Connections,
    requests: Requests,
    publication: Option<Publication>,
    stock: Option<u16>,
    retry_at: Option<Time>,
    /// HPKE contexts computed ahead of the next note, in memory only.
    contexts: BTreeMap<ContactId, SenderContext>,
    /// Contacts that were sent an envelope since the last call of `compute_ahead`.
    wanted: BTreeSet<ContactId>,
    unopened: u64,
    news: VecDeque<News>,
    outputs: VecDeque<RelayOutput>,
    backend: core::marker::PhantomData<B>,
}

snapshot!(struct Relay<B> {
    mailboxes, closing, next_mailbox, peers, connections, requests, publication, stock, retry_at,
    contexts, wanted, unopened, news, outputs, backend,
});

impl<B: Backend> Default for Relay<B> {
    fn default() -> Self {
        Self {
            mailboxes: BTreeMap::new(),
            closing: BTreeMap::new(),
            next_mailbox: 1,
            peers: BTreeMap::new(),
            connections: Connections::default(),
            requests: Requests::default(),
            publication: None,
            stock: None,
            retry_at: None,
            contexts: BTreeMap::new(),
            wanted: BTreeSet::new(),
            unopened: 0,
            news: VecDeque::new(),
            outputs: VecDeque::new(),
            backend: core::marker::PhantomData,
        }
    }
}

impl<B: Backend> Relay<B> {
    /// Returns our own relay, which has the mailbox for unknown senders.
    fn own_relay(&self) -> Option<&RelayEntry> {
        self.mailboxes.values().find(|mailbox| mailbox.is_intro()).map(|mailbox| &mailbox.relay)
    }

    fn is_own(&self, relay: &RelayEntry) -> bool {
        self.all_mailboxes().any(|mailbox| mailbox.relay.shares_connection(relay))
    }

    /// Returns our mailboxes, including those that were given up.
    fn all_mailboxes(&self) -> impl Iterator<Item = &OwnMailbox> {
        self.mailboxes.values().chain(self.closing.values())
    }

    fn peer(&self, id: ContactId) -> Option<&RelayPeer> {
        self.peers.get(&id)
    }

    fn remote_mailbox(&self, id: ContactId) -> Option<&RemoteMailbox> {
        self.peer(id)?.theirs.as_ref()
    }

    /// Returns the relay of a contact: that of the mailbox that the contact gave us, otherwise the
    /// relay on its card.
    fn relay_of<'a>(&'a self, to: &ContactFacts<'a>) -> Option<&'a RelayEntry> {
        self.remote_mailbox(to.id).map(|theirs| &theirs.relay).or_else(|| to.card.relays().first())
    }

    /// Returns relay and key for a parcel of this route. If the route contains a signed prekey, the
    /// parcel is sealed to it and goes to the contact's intro mailbox. Otherwise it goes to the
    /// mailbox that the contact gave us.
    fn find_destination(
        &self,
        to: &ContactFacts<'_>,
        route: &Route,
    ) -> Option<(RelayEntry, PublicKey)> {
        match route.address.first_chunk() {
            Some(spk) => Some((to.card.relays().first()?.clone(), PublicKey(*spk))),
            None => self.remote_mailbox(to.id).map(|theirs| (theirs.relay.clone(), theirs.seal)),
        }
    }

    /// Returns our address for a contact, as a hello contains it.
    fn own_place(&self, id: ContactId) -> HelloPlace {
        let ours = self.peer(id).and_then(|peer| self.mailboxes.get(&peer.ours?));
        match ours {
            // A mailbox is named to the contact only after the relay confirmed it (4.2).
            Some(mailbox) if mailbox.opened => HelloPlace::Mailbox(RemoteMailbox {
                relay: mailbox.relay.clone(),
                seal: *mailbox.seal.public_key(),
            }),
            None if self.own_relay().is_none() => HelloPlace::Tag,
            Some(_) | None => HelloPlace::NotYet,
        }
    }

    /// Returns true if a mailbox of ours for a contact is open.
    fn has_given(&self, id: ContactId) -> bool {
        self.mailboxes.values().any(|mailbox| mailbox.contact == Some(id) && mailbox.opened)
    }

    fn update_peer(
        &mut self,
        id: ContactId,
        effects: &mut Effects,
        change: impl FnOnce(&mut RelayPeer),
    ) {
        let peer = self.peers.entry(id).or_default();
        change(peer);
        let key = key32(id.0);
        match peer.stored_form() {
            Some(value) => effects.put(RecordKind::RelayPeer, key, value),
            None => effects.drop_row(RecordKind::RelayPeer, key),
        }
    }

    fn fetch_later(&mut self, id: ContactId, wait_ms: u64, ctx: &mut Ctx<'_>) {
        if let Some(peer) = self.peers.get_mut(&id) {
            (peer.fetch, peer.fetch_after) = (None, ctx.now.plus_ms(wait_ms));
            ctx.effects.set_timer(timer(FETCH | u64::from(id.0)), Some(peer.fetch_after));
        }
    }

    /// Connects to `relay` and keeps the connection.
    fn connect_relay(&mut self, relay: &RelayEntry, by: Option<ContactId>, ctx: &mut Ctx<'_>) {
        if self.connections.mark_needed(relay, by, ctx.now) {
            self.outputs.push_back(RelayOutput::Connect { relay: relay.clone() });
            ctx.effects
                .set_timer(timer(IDLE), self.connections.next_idle(|relay| self.is_own(relay)));
        }
    }

    fn on_up(&mut self, connection: RelayConnectionId, caps: CarrierCaps, ctx: &mut Ctx<'_>) {
        let Some(known) = self.connections.connection_mut(connection) else { return };
        known.up = Some(caps);
        let entry = known.entry.clone();
        // Watches end with their connection and are requested again.
        self.mark_unwatched(connection);
        self.connections.mark_needed(&entry, None, ctx.now);
        let ours = self.mailboxes.iter().filter(|(_, own)| own.relay.shares_connection(&entry));
        for id in ours.map(|(id, _)| *id).collect::<Vec<_>>() {
            self.ask_mailbox(id);
        }
        self.ask_closes(Some(connection));
        self.send_publication();
        ctx.effects.show_early(Event::Carrier(CarrierId::RELAY));
        ctx.effects.touch_all();
    }

    /// Handles a lost connection: every request on it is void.
    fn on_down(&mut self, connection: RelayConnectionId, effects: &mut Effects) {
        // A connection that this device closed reports its end as well.
        if !self.connections.mark_down(connection) {
            return;
        }
        self.mark_unwatched(connection);
        let gone = self.requests.take_where(|at, _| at == connection);
        self.return_parcels(gone);
        effects.show_early(Event::Carrier(CarrierId::RELAY));
    }

    /// Returns the parcels of requests that will get no answer.
    fn return_parcels(&mut self, gone: Vec<(RequestId, RelayConnectionId, Request)>) {
        let mut parcels = Vec::new();
        for (ticket, connection, request) in gone {
            match request {
                Request::Put { parcel, .. } => {
                    // No answer will come, so the place in flight is free again (MSG-35).
                    self.connections.count_landed(connection);
                    parcels.push(parcel);
                }
                Request::Fetch(contact, _) => {
                    if let Some(peer) = self.peers.get_mut(&contact)
                        && peer.fetch.take_if(|out| *out == ticket).is_some()
                    {
                        // The request was lost with the connection and not refused, so it may be
                        // repeated at once.
                        peer.fetch_after = Time::default();
                    }
                }
                Request::Open(_) | Request::Close(_) | Request::Watch(_) | Request::Publish => {}
            }
        }
        if !parcels.is_empty() {
            self.news.push_back(News::Returned(parcels));
        }
    }

    /// Disconnects from a relay if no contact uses the connection any more.
    fn leave_relay(&mut self, relay: &RelayEntry) {
        // Own mailboxes are read on this connection, so it stays.
        if !self.is_own(relay) && !self.connections.is_used(relay.connection_id()) {
            self.disconnect(relay.connection_id());
        }
    }

    fn disconnect(&mut self, connection: RelayConnectionId) {
        if self.connections.remove(connection) {
            let gone = self.requests.take_where(|at, _| at == connection);
            self.return_parcels(gone);
            self.outputs.push_back(RelayOutput::Disconnect { connection });
        }
    }

    /// Handles an input of the driver about relays.
    pub fn handle_input(
        &mut self,
        input: RelayInput,
        seals: &[&StaticKey],
        ctx: &mut Ctx<'_>,
    ) -> Result<(), DeviceError> {
        match input {
            RelayInput::Mail { mailbox, mail, envelope } => {
                return self.on_mail(mailbox, mail, &envelope, seals);
            }
            RelayInput::Up { connection, level, demo } => {
                self.on_up(connection, CarrierCaps { level, demo, ..CAPS }, ctx);
            }
            RelayInput::Down { connection } => self.on_down(connection, ctx.effects),
            RelayInput::Done { ticket } => return self.on_done(ticket, ctx),
            RelayInput::Refused { ticket, code, retry_s } => {
                return self.on_refused(ticket, code, retry_s, ctx);
            }
            RelayInput::Bundle { ticket, bytes, one_time } => {
                return self.on_bundle(ticket, bytes, one_time, ctx);
            }
            RelayInput::Displaced { mailbox, over } => {
                if !self.mailboxes.contains_key(&mailbox) {
                    return Err(DeviceError::Caller(CallerError::NoSuchMailbox));
                }
                let watch = if over { WatchState::Nobody } else { WatchState::Elsewhere };
                let is_intro = self.mailboxes.get(&mailbox).is_some_and(OwnMailbox::is_intro);
                self.set_watch(mailbox, watch, ctx.effects);
                if over && is_intro {
                    // Another copy of this vault ran, so the relay may give out prekeys of that
                    // copy.
                    self.news.push_back(News::Foreign);
                }
            }
            RelayInput::Stock { connection, left } => {
                // Another relay may claim any stock. Only the relay with our bundle counts.
                if self.own_relay().is_some_and(|own| own.connection_id() == connection) {
                    self.stock = Some(left);
                    let under_way = self.prekey_stock().map_or(0, |(_, under_way)| under_way);
                    self.news.push_back(News::Stock(u32::from(left) + under_way));
                }
            }
        }
        Ok(())
    }

    /// Handles mail in one of our mailboxes. The relay may delete the mail afterwards, except the
    /// mail of an unknown sender for whom there is no room.
    fn on_mail(
        &mut self,
        id: MailboxId,
        mail: u64,
        envelope: &[u8],
        seals: &[&StaticKey],
    ) -> Result<(), DeviceError> {
        let mailbox =
            self.mailboxes.get(&id).ok_or(DeviceError::Caller(CallerError::NoSuchMailbox))?;
        let address = mailbox.relay.address;
        let level = self.connections.level(mailbox.relay.connection_id());
        let open = |key: &StaticKey| envelope::open::<B>(&address, key, envelope);
        let (from, parcel) = match mailbox.contact {
            Some(contact) => (ArrivalOrigin::Contact(contact), open(&mailbox.seal)),
            // Envelopes in the intro mailbox are sealed to one of the signed prekeys that we still
            // hold.
            None => (ArrivalOrigin::Stranger, seals.iter().find_map(|key| open(key))),
        };
        let carrier = CarrierId::RELAY;
        let ack = Receiving { carrier, place: id.0, number: mail };
        if let Some(parcel) = parcel.map(Wiping::new) {
            let arrival =
                Arrival { carrier, level, from, parcel, outer: Vec::new(), ack: Some(ack) };
            self.news.push_back(News::Arrived(arrival));
        } else {
            self.unopened += 1;
            if matches!(from, ArrivalOrigin::Stranger) {
                // The envelope may be sealed to a prekey of another copy of this vault (MSG-128).
                self.news.push_back(News::Foreign);
            }
            self.acknowledge_arrival(ack);
        }
        Ok(())
    }

    fn on_done(&mut self, ticket: RequestId, ctx: &mut Ctx<'_>) -> Result<(), DeviceError> {
        // Each ticket is answered once. A second answer is refused and changes nothing (MSG-36).
        let (connection, request) =
            self.requests.take(ticket).ok_or(DeviceError::Carrier(CarrierError::NoSuchTicket))?;
        match request {
            Request::Put { parcel, .. } => {
                self.connections.count_landed(connection);
                self.news.push_back(News::Handed { parcel, again: None });
            }
            Request::Open(mailbox) => self.on_opened(mailbox, ctx.effects),
            Request::Publish => self.on_published(ctx.effects),
            Request::Watch(mailbox) => self.set_watch(mailbox, WatchState::Here, ctx.effects),
            Request::Close(mailbox) => self.on_closed(mailbox, ctx.effects),
            Request::Fetch(..) => {}
        }
        Ok(())
    }

    fn on_refused(
        &mut self,
        ticket: RequestId,
        code: u8,
        retry_s: u16,
        ctx: &mut Ctx<'_>,
    ) -> Result<(), DeviceError> {
        let (connection, request) =
            self.requests.take(ticket).ok_or(DeviceError::Carrier(CarrierError::NoSuchTicket))?;
        match request {
            Request::Put { parcel, contact, to, intro } => {
                self.connections.count_landed(connection);
                self.put_refused(parcel, code, retry_s, ctx);
                // The parcel is returned first, so that it can leave by another route.
                if code == NO_SUCH_BOX {
                    self.on_mailbox_lost(contact, to, intro, ctx.effects);
                }
            }
            Request::Open(mailbox) | Request::Watch(mailbox) => {
                self.mailbox_refused(mailbox, code, retry_s, ctx);
            }
            // A mailbox that does not exist is as good as closed (MSG-125).
            Request::Close(mailbox) if code == NO_SUCH_BOX => self.on_closed(mailbox, ctx.effects),
            Request::Publish | Request::Close(_) => self.try_later(retry_s, ctx),
            Request::Fetch(contact, _) if code == SLOW_DOWN => {
                self.fetch_later(contact, u64::from(retry_s.max(1)) * Time::SECOND_MS, ctx);
            }
            Request::Fetch(contact, _) => self.fetch_later(contact, FETCH_AGAIN_MS, ctx),
        }
        Ok(())
    }

    fn put_refused(&mut self, parcel: ParcelId, code: u8, retry_s: u16, ctx: &Ctx<'_>) {
        let (why, wait_s) = match code {
            NO_SUCH_BOX => return self.news.push_back(News::Returned([parcel].into())),
            BOX_FULL => (WaitReason::BoxFull, retry_s.max(1)),
            SLOW_DOWN => (WaitReason::Slow, retry_s.max(1)),
            _ => (WaitReason::Slow, REFUSED_AGAIN_S),
        };
        let after = ctx.now.plus_ms(u64::from(wait_s) * Time::SECOND_MS);
        self.news.push_back(News::Refused { parcel, why, after });
    }

    /// Handles a mailbox of a contact that does not exist or whose key is unusable.
    fn on_mailbox_lost(
        &mut self,
        contact: ContactId,
        at: MailboxAddress,
        intro: bool,
        effects: &mut Effects,
    ) {
        let place = if intro { LostPlace::Intro } else { LostPlace::Current };
        if !intro {
            // The contact named another mailbox meanwhile, so the refusal concerns an old one.
            if self.remote_mailbox(contact).is_none_or(|theirs| theirs.relay.address != at) {
                return;
            }
            self.update_peer(contact, effects, |peer| peer.theirs = None);
        }
        self.news.push_back(News::Lost { contact, place });
    }

    fn on_bundle(
        &mut self,
        ticket: RequestId,
        bytes: Vec<u8>,
        one_time: Option<OneTimePrekey>,
        ctx: &mut Ctx<'_>,
    ) -> Result<(), DeviceError> {
        // A wrong ticket must not consume a request of another kind (MSG-36).
        let Some(Request::Fetch(contact, purpose)) = self.requests.get(ticket) else {
            return Err(DeviceError::Carrier(CarrierError::NoSuchTicket));
        };
        self.requests.take(ticket);
        self.fetch_later(contact, FETCH_AGAIN_MS, ctx);
        self.news.push_back(News::Bundle { contact, purpose, bytes, one_time });
        Ok(())
    }

    /// Returns the next request to the driver.
    pub fn poll(&mut self) -> Option<RelayOutput> {
        self.outputs.pop_front()
    }
}
