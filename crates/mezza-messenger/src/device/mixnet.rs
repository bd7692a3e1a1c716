//! The mixnet in the device: one client machine inside, its rows among ours, its messages parcels.
//!
//! ```text
//! both cards name the network, the session is open, we began it
//!     -> a note with `meet` (root, rounds) -> both clients hold the root -> parcels may take cells
//! ```

use alloc::vec::Vec;

use super::{
    Backend, CryptoRng, Device, DeviceError, Event, Machine, PendingRequest, RecordKind, Retention,
    Time, key64,
};
use crate::card::MixnetPart;
use crate::carriers::CarrierId;
use crate::carriers::mixnet::{
    JoinedNetwork, Membership, MixnetInput, MixnetOutput, NetworkAddress,
};
use crate::contact::{Contact, ContactPhase};
use crate::evidence::WaitReason;
use crate::io::{ContactId, RequestId};
use crate::note::MixnetStart;
use crate::outbox::{RATCHET_MESSAGE, Route};
use crate::view::Part;
use mezza_core::{Secret, StaticKey, Wiping};
use mezza_mixnet::Service;
use mezza_mixnet::client::{self, NewRoot, RefusedReason, SettingsError};
use mezza_mixnet::contact::{Role, bucket};

/// Milliseconds until a parcel that the client had no room for is offered again.
const FULL_AGAIN_MS: u64 = Time::MINUTE_MS;

impl<B: Backend> Device<B> {
    /// Joins a network, under a fresh dialling key.
    pub(super) fn join(
        &mut self,
        link: NetworkAddress,
        now: Time,
        rng: &mut dyn CryptoRng,
    ) -> Result<(), DeviceError> {
        if self.aside.has(Part::Network) {
            return Err(DeviceError::SetAside);
        }
        if u8::try_from(link.address.len()).is_err() {
            return Err(DeviceError::BadAddress);
        }
        if self.net.is_some() {
            return Err(DeviceError::Joined);
        }
        let member = Membership { link, dialling: StaticKey::random::<B>(rng) };
        self.put(RecordKind::Network, Vec::new(), Retention::Permanent, member.write());
        self.net = Some(JoinedNetwork::new(member, self.kernel, now));
        self.wake_net(now, rng);
        Ok(())
    }

    /// What the driver has to say of the network.
    pub(super) fn net_input(
        &mut self,
        input: MixnetInput,
        now: Time,
        rng: &mut dyn CryptoRng,
    ) -> Result<(), DeviceError> {
        let gone = matches!(input, MixnetInput::Down);
        let input = match input {
            MixnetInput::Join(link) => return self.join(link, now, rng),
            MixnetInput::AskWho(contact) => return self.see(contact, now, rng),
            MixnetInput::Stored(seq) => {
                self.durable(seq, now, rng);
                return Ok(());
            }
            MixnetInput::Up { trusted } => client::Input::Up { trusted },
            MixnetInput::Down => client::Input::Down,
            MixnetInput::Frame(frame) => client::Input::Frame(frame),
            MixnetInput::Done(job, done) => client::Input::Done(job, done),
            MixnetInput::Lost(round) => client::Input::Lost(round),
        };
        // What is refused changes nothing here either (MSG-36).
        self.tell_client(input, now, rng).map_err(DeviceError::Network)?;
        if gone {
            self.net_down();
        }
        Ok(())
    }

    /// A contact is deleted: its chains go, too.
    pub(super) fn net_forget(&mut self, id: ContactId, now: Time, rng: &mut dyn CryptoRng) {
        // Whom the client does not know it need not forget.
        let _ = self.tell_client(client::Input::Remove(id.0), now, rng);
    }

    /// Everything of the client up to `seq` is durable.
    pub(super) fn durable(&mut self, seq: u64, now: Time, rng: &mut dyn CryptoRng) {
        // The client answers `Unexpected` if nothing waits for this number any more; that is
        // ignored here.
        let _ = self.tell_client(client::Input::Stored(seq), now, rng);
    }

    pub(super) fn wake_net(&mut self, now: Time, rng: &mut dyn CryptoRng) {
        if let Some(net) = &mut self.net {
            net.client.wake(now, rng);
            self.drain_net(now, rng);
        }
    }

    pub(super) fn tell_client(
        &mut self,
        input: client::Input,
        now: Time,
        rng: &mut dyn CryptoRng,
    ) -> Result<(), client::ClientError> {
        let net = self.net.as_mut().ok_or(client::ClientError::Unexpected)?;
        net.client.handle(input, now, rng)?;
        self.drain_net(now, rng);
        Ok(())
    }

    fn drain_net(&mut self, now: Time, rng: &mut dyn CryptoRng) {
        while let Some(output) = self.net.as_mut().and_then(|net| net.client.poll()) {
            self.net_output(output, now, rng);
        }
    }

    fn net_output(&mut self, output: client::Output, now: Time, rng: &mut dyn CryptoRng) {
        let Some(net) = &mut self.net else { return };
        match output {
            client::Output::Dial => {
                let (address, key) = net.place(now);
                self.act(MixnetOutput::Connect { address, key });
            }
            client::Output::Close => self.act(MixnetOutput::Disconnect),
            client::Output::Frame(frame) => self.act(MixnetOutput::Frame(frame)),
            client::Output::Job(job) => self.act(MixnetOutput::Job(job)),
            client::Output::Want(pairs) => {
                for _ in 0..pairs {
                    // Exactly what was asked for is never refused.
                    let _ = net.client.handle(client::Input::Give(Self::fresh(rng)), now, rng);
                }
            }
            client::Output::Store { seq, first, record } => self.net_row(seq, first, record),
            client::Output::Received { seq, contact, bytes, .. } => {
                net.durable = Some(seq);
                self.take_cells(ContactId(contact), &bytes, now, rng);
            }
            client::Output::Joined => self.net_joined(now, rng),
            client::Output::Config => self.net_config(now, rng),
            // Not known any more: it was dropped here while it was on its way.
            client::Output::Handed(ticket) => drop(self.handed(RequestId(ticket), now)),
            client::Output::Refused(ticket, why) => self.net_refused(RequestId(ticket), why, now),
            client::Output::Broken(contact) => self.net_broken(ContactId(contact)),
            client::Output::Level(level) => {
                net.level = level;
                self.show(Event::Carrier(CarrierId::MIXNET));
            }
            client::Output::Alarm { .. } => {
                net.alarms = net.alarms.saturating_add(1);
                self.show(Event::Carrier(CarrierId::MIXNET));
            }
            client::Output::Unfit(_, error) => {
                net.clock_off = error == SettingsError::Clock;
                self.show(Event::Carrier(CarrierId::MIXNET));
            }
            client::Output::Budget(..) => self.show(Event::Carrier(CarrierId::MIXNET)),
            client::Output::Called(contact, _) => {
                self.heard(ContactId(contact), now, rng);
                self.called(ContactId(contact));
            }
            client::Output::Invited(invitation) => self.invited(&invitation, now, rng),
            // The receipt tells the person.
            client::Output::Acked(_) | client::Output::Absent(..) => {}
        }
    }

    /// A row of the client, in one transaction with whatever else this step stores.
    fn net_row(&mut self, seq: u64, first: u64, record: Wiping<Vec<u8>>) {
        let Some(net) = &mut self.net else { return };
        net.durable = Some(seq);
        let kept = net.rows.split_off(&first);
        let old = core::mem::replace(&mut net.rows, kept);
        net.rows.insert(seq);
        self.put(RecordKind::NetworkRow, key64(seq), Retention::Rolling, record);
        for row in old {
            self.drop_record(RecordKind::NetworkRow, key64(row));
        }
    }

    /// A parcel out of cells: what a mailbox of this contact would have held.
    fn take_cells(&mut self, id: ContactId, bytes: &[u8], now: Time, rng: &mut dyn CryptoRng) {
        self.heard(id, now, rng);
        match bytes {
            [RATCHET_MESSAGE, message @ ..] => {
                self.arriving = CarrierId::MIXNET;
                if self.guests.contains_key(&id) {
                    self.guest_message(id, message, now, rng);
                } else {
                    self.message(id, message, now, rng);
                }
                self.arriving = CarrierId::RELAY;
            }
            _ => self.refusals.envelopes += 1,
        }
    }

    fn net_joined(&mut self, now: Time, rng: &mut dyn CryptoRng) {
        let Some(net) = &mut self.net else { return };
        net.joined = true;
        net.clock_off = false;
        net.weigh(now);
        self.net_again();
        self.heed_all(now, rng);
        self.call_guests(now, rng);
        self.show(Event::Carrier(CarrierId::MIXNET));
    }

    /// The connection is gone: what was not handed is offered again once it is back.
    fn net_down(&mut self) {
        if let Some(net) = &mut self.net {
            net.joined = false;
        }
        self.net_again();
        self.show(Event::Carrier(CarrierId::MIXNET));
    }

    fn net_again(&mut self) {
        self.tickets.retain(|_, (line, _)| line.is_some());
        for parcel in
            self.parcels.values_mut().filter(|parcel| parcel.way.carrier() == CarrierId::MIXNET)
        {
            parcel.ticket = None;
        }
    }

    /// The network's name goes onto the card as soon as it is known.
    fn net_config(&mut self, now: Time, rng: &mut dyn CryptoRng) {
        let Some(net) = &mut self.net else { return };
        net.weigh(now);
        let Some(config) = net.config(now) else { return };
        let dialling = *net.member.dialling.public();
        let entry = MixnetPart { network: config.network, dialling };
        if self.profile.card.mixnet() != Some(entry) {
            self.profile.network = Some(entry);
            let (name, relays) = (self.profile.name.clone(), self.profile.relays.clone());
            // The same name and relays as on the card before.
            let _ = self.reissue(name, &relays, now, rng);
        }
        self.show(Event::Carrier(CarrierId::MIXNET));
    }

    fn net_refused(&mut self, ticket: RequestId, why: RefusedReason, now: Time) {
        let Some((_, PendingRequest::Parcel(id))) = self.tickets.remove(&ticket) else { return };
        let Some(parcel) = self.parcels.get_mut(&id) else { return };
        parcel.ticket = None;
        parcel.after = now.plus_ms(FULL_AGAIN_MS);
        let why = match why {
            RefusedReason::Full => WaitReason::BoxFull,
            RefusedReason::TooBig => WaitReason::TooBig,
            RefusedReason::NoRoot => WaitReason::Keys,
            RefusedReason::Budget => WaitReason::Budget,
            RefusedReason::Down => WaitReason::NoCarrier,
        };
        let (contact, note) = (parcel.contact, parcel.note);
        if let Some(entry) = note.and_then(|note| self.notes.get_mut(&note)) {
            entry.why = why;
        }
        if let Some(note) = note {
            self.show(Event::State(contact, note));
        }
    }

    /// The chains of a contact are of no use any more: the pair needs another root.
    fn net_broken(&mut self, id: ContactId) {
        if let Some(contact) = self.contacts.get_mut(&id) {
            contact.met = None;
            self.store_contact(id);
        }
    }

    /// The way of cells to a contact, if it can be taken at this pin.
    pub(super) fn net_way(
        &mut self,
        id: ContactId,
        pin: u8,
        now: Time,
        rng: &mut dyn CryptoRng,
    ) -> Result<Route, WaitReason> {
        let net = self.net.as_ref().filter(|net| net.joined).ok_or(WaitReason::NoCarrier)?;
        if net.level < pin {
            return Err(WaitReason::BelowPin);
        }
        let knows = net.client.knows(id.0);
        let contact = self.contacts.get(&id).ok_or(WaitReason::Keys)?;
        if contact.stage != ContactPhase::Open {
            self.first_contact_route(id, pin, now, rng)?;
        } else if knows {
            self.session_ready(id, CarrierId::MIXNET, pin, now)?;
        }
        if knows { Ok(Route::Mixnet) } else { Err(WaitReason::Keys) }
    }

    /// Whether a contact is to be told where our chains begin: once a session, by who began it.
    pub(super) fn meets(&self, id: ContactId, now: Time) -> bool {
        let Some(net) = &self.net else { return false };
        let Some(contact) = self.contacts.get(&id) else { return false };
        let network = contact.card.mixnet().map(|entry| entry.network);
        let session = contact.conversation.active_id();
        let ours = contact.conversation.summary().is_some_and(|s| s.initiator && !s.pending);
        network.is_some()
            && network == net.config(now).map(|config| config.network)
            && contact.stage == ContactPhase::Open
            && ours
            && contact.met != session
    }

    /// The item for it, with a fresh root.
    pub(super) fn meet(
        &self,
        id: ContactId,
        now: Time,
        rng: &mut dyn CryptoRng,
    ) -> Option<MixnetStart> {
        if !self.meets(id, now) {
            return None;
        }
        let mut root = Wiping::new([0; 32]);
        rng.fill_bytes(&mut root[..]);
        Some(MixnetStart { root: Some(root), ..self.meeting(now)? })
    }

    /// The root was said, or came: the client holds it from now on, and nobody else.
    pub(super) fn met(
        &mut self,
        id: ContactId,
        meet: &MixnetStart,
        role: Role,
        now: Time,
        rng: &mut dyn CryptoRng,
    ) {
        let (Some(net), Some(root)) = (&self.net, &meet.root) else { return };
        let Some(contact) = self.contacts.get(&id) else { return };
        let Some(config) = net.config(now).filter(|config| config.network == meet.network) else {
            return;
        };
        let Some(entry) = contact.card.mixnet() else { return };
        let buckets = config.policy(Service::Call).map_or(1, |(_, policy)| policy.buckets);
        let introduction = NewRoot {
            contact: id.0,
            root: Secret::copy_from(root),
            role,
            start: (meet.conversation, meet.call),
            bucket: bucket(&entry.dialling, &meet.network, buckets),
        };
        let session = contact.conversation.active_id();
        // Rounds out of reach: the item is ignored.
        if self.tell_client(client::Input::Add(introduction), now, rng).is_ok()
            && let Some(contact) = self.contacts.get_mut(&id)
        {
            contact.met = session;
            self.store_contact(id);
        }
    }

    /// A contact says where our chains begin. Only who began the session may, and not too often:
    /// each root costs a snapshot of the client (MSG-53). Without it the chains there are go on.
    pub(super) fn met_by(
        &mut self,
        id: ContactId,
        meet: &MixnetStart,
        now: Time,
        rng: &mut dyn CryptoRng,
    ) {
        let contact = self.contacts.get(&id).filter(|contact| contact.is_ours());
        let summary = contact.and_then(|contact| contact.conversation.summary());
        let theirs = summary.is_some_and(|summary| !summary.initiator);
        let paces = |contact: &mut Contact<B>| contact.roots.take(now).is_ok();
        if theirs && self.contacts.get_mut(&id).is_some_and(paces) {
            self.met(id, meet, Role::Responder, now, rng);
        }
    }

    /// Hands a parcel to the client.
    pub(super) fn carry_cells(&mut self, id: u64, now: Time, rng: &mut dyn CryptoRng) {
        let Some(parcel) = self.parcels.get(&id) else { return };
        let pin = self.level_min(parcel);
        let Some(net) = self.net.as_ref().filter(|net| net.joined && net.level >= pin) else {
            return;
        };
        let (id_of, own) = (parcel.contact, parcel.note.is_some());
        if !net.client.knows(id_of.0) {
            return;
        }
        self.heed(id_of, now, rng);
        let muted = self.contacts.get(&id_of).is_some_and(|contact| contact.muted);
        let Some(parcel) = self.parcels.get(&id).filter(|_| own || !muted) else { return };
        let (contact, bytes) = (parcel.contact.0, Wiping::new(parcel.bytes.clone()));
        let ticket = self.ticket(None, PendingRequest::Parcel(id));
        if let Some(parcel) = self.parcels.get_mut(&id) {
            parcel.ticket = Some(ticket);
            parcel.why = WaitReason::Sending;
        }
        let send = client::Input::Send { ticket: ticket.0, contact, bytes };
        // The answer comes as an output.
        let _ = self.tell_client(send, now, rng);
    }
}
