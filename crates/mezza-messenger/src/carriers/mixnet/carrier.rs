//! The mixnet as a [`Carrier`].

use alloc::vec::Vec;

use mezza_core::{Backend, DecodeError, Time, Wiping};
use mezza_mixnet::client;
use mezza_mixnet::contact::Role;
use mezza_ratchet::{Exporter, IdentityKey, Padding};

use super::{
    APART, CLIENT, INVITER, Inviter, JoinedNetwork, LeftNetwork, Membership, Mixnet, MixnetPeer,
    PADDINGS, ParcelOut, YEAR, is_invitation, last_meet, read_owner, timer,
};
use crate::card::{MIXNET_PART, MixnetPart};
use crate::carriers::{Bundles, Carrier, Exchange, Invitations, Routing, Storage, Welcome};
use crate::error::DeviceError;
use crate::evidence::WaitReason;
use crate::io::{
    CarrierConnection, CarrierId, CarrierState, ContactFacts, ContactId, Ctx, DateStep,
    DeliveryProblem, Dropped, Effects, Forget, Handover, InviterFacts, Leaving, Missing, News,
    PersonRows, Places, RecordKind, Route, RouteTerms, StoredRows, Unloaded, fits_vault, key32,
    loads_again,
};
use crate::note::{Item, MixnetStart};

impl<B: Backend> Carrier for Mixnet<B> {
    fn id(&self) -> CarrierId {
        CarrierId::MIXNET
    }

    fn apply_date_step(&mut self, date: &DateStep, ctx: &mut Ctx<'_>) {
        self.correct_dates(date, ctx);
        self.wake_client(ctx);
    }

    /// Only the client knows its timers and whether the line to the entry server is down, so the
    /// client is woken (MIX-40).
    fn recheck_timers(&mut self, ctx: &mut Ctx<'_>) {
        self.wake_client(ctx);
    }

    /// Continues an open line and wakes the client.
    fn start(&mut self, ctx: &mut Ctx<'_>) {
        self.attach_line(ctx);
        self.wake_client(ctx);
    }

    /// Handles an expired timer.
    fn handle_timer(&mut self, number: u64, _: &dyn Fn(ContactId) -> bool, ctx: &mut Ctx<'_>) {
        let id = ContactId(number as u32);
        match number {
            CLIENT => self.wake_client(ctx),
            number if number & APART != 0 => self.wait_in_vain(id, ctx),
            number if number & YEAR != 0 => self.turn_year(id, ctx),
            _ => self.turn_inviter(id, ctx),
        }
    }

    /// Returns the next event for the device.
    fn next_news(&mut self) -> Option<News> {
        self.news.pop_front()
    }
}

impl<B: Backend> Routing for Mixnet<B> {
    /// Returns the abilities of the carrier, and whether it takes part in rounds.
    fn state(&self, _: Option<&ContactFacts<'_>>, now: Time) -> Option<CarrierState> {
        let net = self.network.as_ref()?;
        let up = if net.is_up(now) { Ok(()) } else { Err(WaitReason::NoCarrier) };
        Some(CarrierState { reached: true, up, caps: net.caps(now) })
    }

    /// Returns the connection to the entry server. It counts as up while rounds return over it.
    fn connections(&self, now: Time) -> Vec<CarrierConnection> {
        let places = Places::default();
        let proven = self.network.as_ref().is_some_and(JoinedNetwork::is_proven);
        let entry = |CarrierState { caps, .. }| CarrierConnection {
            relay: None,
            own: true,
            up: proven,
            places,
            left: None,
            caps,
        };
        self.state(None, now).map(entry).into_iter().collect()
    }

    /// Returns `Talk` for a muted contact and `Absent` for a contact whose parcels waited too long.
    fn trouble(&self, contact: ContactId) -> Option<DeliveryProblem> {
        let talks = self.is_muted(contact).then_some(DeliveryProblem::Talk);
        talks.or_else(|| self.waits_in_vain(contact).then_some(DeliveryProblem::Absent))
    }

    /// Returns the number of malformed parcels received in cells.
    fn rejected_count(&self) -> u64 {
        self.unopened
    }

    /// Counts a malformed parcel received in cells.
    fn count_rejected(&mut self) {
        self.unopened += 1;
    }

    fn paddings(&self) -> &'static [Padding] {
        &PADDINGS
    }

    fn waits_for_place(&self) -> bool {
        // Opening a mailbox for a hello in cells would show the relay a new contact (4.4).
        false
    }

    /// Returns the route to a contact through the cells of rounds, if one is usable at this level.
    fn select_route(
        &self,
        to: &ContactFacts<'_>,
        terms: RouteTerms,
        now: Time,
    ) -> Result<Route, Missing> {
        let wait = |why| Err(Missing::Wait(why));
        let Some(net) = self.network.as_ref().filter(|net| net.is_up(now)) else {
            return wait(WaitReason::NoCarrier);
        };
        // No parcel leaves below the lowest level (MSG-20).
        if net.level < terms.pin {
            return wait(WaitReason::BelowPin);
        }
        let knows = net.client.has_contact(to.id.0);
        // A contact that left this network, or was not in it when it made its card, cannot be
        // reached in it (MSG-97, MSG-153).
        if net.is_elsewhere(to.card, now) {
            return wait(WaitReason::NewCard);
        }
        // Before its first call a contact has no chains, so only an invitation can reach it (4.4).
        if !to.is_open && !self.peers.get(&to.id).is_some_and(|peer| peer.has_called) {
            return self.find_first_route(to, now);
        }
        if to.is_open && self.can_invite(to, now) {
            // The chains with this contact are lost here. An invitation tells it where new chains
            // begin (MSG-121).
            return self.find_first_route(to, now);
        }
        // The chains carry messages of a session, so a session must come first.
        if !to.session.is_usable() && (knows || !to.is_open) {
            return Err(Missing::Session);
        }
        if !knows {
            return wait(WaitReason::Keys);
        }
        // Device-generated items for a contact above its share wait (MSG-54).
        if !terms.is_user_note && self.is_muted(to.id) {
            return wait(WaitReason::Budget);
        }
        let carrier = CarrierId::MIXNET;
        Ok(Route { carrier, until: None, invitation: false, address: Vec::new() })
    }

    /// Hands a parcel to the client.
    fn hand_over(&mut self, parcel: &Leaving<'_>, ctx: &mut Ctx<'_>) -> Handover {
        // Checked again: the level may have fallen since the route was selected (MSG-20).
        let Some(net) = self.network.as_ref().filter(|net| net.up && net.level >= parcel.pin)
        else {
            return Handover::Waits;
        };
        let contact = parcel.to.id;
        if parcel.route.invitation {
            return self.hand_invitation(parcel, ctx);
        }
        if !net.client.has_contact(contact.0) {
            return Handover::Waits;
        }
        self.update_mute(contact, ctx);
        // The share may have ended since the route was selected (MSG-54).
        if !parcel.own && self.is_muted(contact) {
            return Handover::Waits;
        }
        let ticket = self.assign_ticket(ParcelOut { parcel: parcel.id, contact, times: None });
        self.on_handed_over(contact, ctx);
        let bytes = Wiping::new(parcel.bytes.to_vec());
        // The client reports the result of `Send` as an output.
        let _ = self.feed_client(client::Input::Send { ticket, contact: contact.0, bytes }, ctx);
        Handover::Out
    }

    /// Withdraws parcels that must not be sent any more.
    fn retract_parcels(&mut self, parcels: &[Dropped], ctx: &mut Ctx<'_>) {
        for Dropped { id, contact, bytes, loses_root } in parcels {
            // A withdrawn parcel leaves the queues of the client in the same commit (MSG-89,
            // MIX-66).
            self.out.retain(|_, out| out.parcel != *id);
            let bytes = Wiping::new(bytes.clone());
            // Without a network no parcel is under way, so an error is ignored.
            let _ = self.feed_client(client::Input::Retract { contact: contact.0, bytes }, ctx);
            if *loses_root {
                self.on_root_lost(*contact, ctx);
            }
        }
    }

    /// Sets the lowest level at which a contact is served; `None` serves the contact in neither
    /// direction.
    fn set_level_min(&mut self, id: ContactId, level_min: Option<u8>, ctx: &mut Ctx<'_>) {
        self.peers.entry(id).or_default().level_min = level_min;
        self.update_suspension(id, ctx);
    }
}

impl<B: Backend> Exchange for Mixnet<B> {
    /// Returns true if we owe a contact the start of our chains. The initiator sends it once per
    /// session.
    fn has_to_say(&self, to: &ContactFacts<'_>, now: Time) -> bool {
        let Some(net) = &self.network else { return false };
        let network = to.card.mixnet().map(|entry| entry.network);
        network.is_some()
            && network == net.config(now).map(|config| config.network)
            && to.is_open
            // Only the side that began the session sends a root, so two roots cannot cross.
            && to.session.initiator
            && !to.session.pending
            && self.root_for(to.id) != to.session.id
    }

    /// Returns a `meet` item with a fresh root.
    fn take_owed_item(&mut self, to: &ContactFacts<'_>, ctx: &mut Ctx<'_>) -> Option<Item> {
        let rounds = self.rounds_now(ctx.now).filter(|_| self.has_to_say(to, ctx.now))?;
        let mut root = Wiping::new([0; 32]);
        ctx.rng.fill_bytes(&mut root[..]);
        Some(Item::Meet(MixnetStart { root: Some(root), ..rounds }))
    }

    /// Handles a sent `meet` item: the client stores the root, and no other copy is kept.
    fn on_items_sent(
        &mut self,
        to: &ContactFacts<'_>,
        items: &[Item],
        exporter: &mut Option<Exporter>,
        ctx: &mut Ctx<'_>,
    ) {
        if let Some(meet) = last_meet(items, exporter.take()) {
            self.add_root(to, &meet, Role::Initiator, ctx);
        }
    }

    /// Handles a `meet` item of a contact. Only the initiator of the session may send one, at a
    /// limited rate, because each root costs a snapshot of the client (MSG-53). If the item is
    /// ignored, the existing chains continue.
    fn on_items_received(
        &mut self,
        from: &ContactFacts<'_>,
        items: &[Item],
        exporter: &mut Option<Exporter>,
        ctx: &mut Ctx<'_>,
    ) {
        let Some(meet) = last_meet(items, exporter.take()) else { return };
        let theirs = from.session.id.is_some() && !from.session.initiator;
        // A root of the wrong side, or of a contact that the user has not accepted, is ignored.
        if !from.is_ours || !theirs {
            return;
        }
        // Each root costs a snapshot of the client: 4 at once, then one in 10 min (MSG-53).
        if self.peers.entry(from.id).or_default().roots.take_turn(ctx.now).is_ok() {
            self.add_root(from, &meet, Role::Responder, ctx);
            self.trust_chains(from.id);
        }
    }

    fn is_doubtful(&self, id: ContactId) -> bool {
        self.peers.get(&id).is_some_and(|peer| peer.meetings.apart)
    }

    fn came_elsewhere(&mut self, id: ContactId, is_anew: bool, ctx: &mut Ctx<'_>) {
        self.doubt_chains(id, is_anew, ctx);
    }

    /// Counts a note of the user to a contact.
    fn on_user_note(&mut self, contact: ContactId, now: Time) {
        self.peers.entry(contact).or_default().on_user_note(now);
    }

    fn on_card_changed(&mut self, to: &ContactFacts<'_>, _: bool, ctx: &mut Ctx<'_>) -> bool {
        self.has_left(to, ctx)
    }

    /// Forgets the chains of a contact or inviter, or its whole state.
    fn forget_contact(&mut self, id: ContactId, what: Forget, ctx: &mut Ctx<'_>) {
        // The client refuses an unknown contact, which needs no removal.
        let _ = self.feed_client(client::Input::Remove(id.0), ctx);
        // The peer stays known here. Only the state that was shared with its device is dropped.
        if what == Forget::Chains {
            // The next call must answer an invitation again.
            if self.peers.get(&id).is_some_and(|peer| peer.has_called) {
                self.update_peer(id, ctx.effects, |peer| peer.has_called = false);
            }
            return;
        }
        if self.inviters.remove(&id).is_some() {
            ctx.effects.drop_row(RecordKind::Inviter, key32(id.0));
            ctx.effects.set_timer(timer(INVITER | u64::from(id.0)), None);
        }
        if self.peers.remove(&id).is_some_and(|peer| peer.stored_form().is_some()) {
            ctx.effects.drop_row(RecordKind::MixnetPeer, key32(id.0));
        }
        ctx.effects.set_timer(timer(YEAR | u64::from(id.0)), None);
        ctx.effects.set_timer(timer(APART | u64::from(id.0)), None);
    }
}

impl<B: Backend> Bundles for Mixnet<B> {
    /// Returns the part of our card that names our network.
    fn card_part(&self, now: Time) -> Option<(u8, Vec<u8>)> {
        let net = self.network.as_ref()?;
        let network = net.config(now)?.network;
        let dialling = *net.member.dialling.public_key();
        Some((MIXNET_PART, MixnetPart { network, dialling }.encode()))
    }

    /// Returns true if the bundle of a contact should be fetched in advance: the conversation will
    /// use the mixnet, and a later fetch would reveal the contact to the relay.
    fn wants_bundle(&self, to: &ContactFacts<'_>, now: Time) -> bool {
        !to.session.bundle && self.can_invite(to, now)
    }
}

impl<B: Backend> Invitations for Mixnet<B> {
    fn is_invitation(&self, items: &[Item]) -> bool {
        is_invitation(items)
    }

    /// Returns the inviters.
    fn inviters(&self) -> Vec<InviterFacts> {
        let facts = |(id, inviter): (&ContactId, &Inviter)| InviterFacts {
            id: *id,
            ik: *inviter.ik.as_bytes(),
            at: inviter.at,
            asked: inviter.asked.is_some(),
        };
        self.inviters.iter().map(facts).collect()
    }

    fn accept_invitation(&mut self, welcome: Welcome<'_>, ctx: &mut Ctx<'_>) -> bool {
        self.invited_by(welcome, ctx)
    }

    fn may_unmask(&self, id: ContactId, now: Time) -> Result<(), DeviceError> {
        self.may_start(id, now)
    }

    fn unmask_inviter(
        &mut self,
        id: ContactId,
        session: Option<[u8; 16]>,
        ctx: &mut Ctx<'_>,
    ) -> Option<u8> {
        self.shows_card(id, session, ctx)
    }

    fn inviter_key(&self, row: &[u8]) -> Option<IdentityKey> {
        read_owner(row)
    }
}

impl<B: Backend> Storage for Mixnet<B> {
    fn check_rows(&self, person: &PersonRows) -> Result<(), DecodeError> {
        person.read_optional(RecordKind::MixnetPeer, MixnetPeer::read)?;
        person.single_row(RecordKind::Inviter).map(Inviter::read).transpose()?;
        Ok(())
    }

    fn load_person(&mut self, person: &PersonRows, _: &StoredRows<'_>, ctx: &mut Ctx<'_>) -> bool {
        match person.single_row(RecordKind::Inviter).map(Inviter::read) {
            Some(Ok(inviter)) => self.load_inviter(person.id, inviter, ctx.effects),
            Some(Err(_)) => {}
            None => {
                let peer = person.read_optional(RecordKind::MixnetPeer, MixnetPeer::read);
                self.peers.insert(person.id, peer.unwrap_or_default());
            }
        }
        false
    }

    fn load_own_rows(
        &mut self,
        stored: &mut StoredRows<'_>,
        _: &dyn Fn(ContactId) -> bool,
        ctx: &mut Ctx<'_>,
    ) -> Vec<Unloaded> {
        self.load_rows(stored, ctx)
    }

    /// Returns the number of the newest client row that waits for a commit.
    fn take_durable_number(&mut self) -> Option<u64> {
        self.network.as_mut()?.durable.take()
    }

    fn on_durable(&mut self, number: u64, ctx: &mut Ctx<'_>) {
        // The client returns `Unexpected` if no output waits for this number any more.
        let _ = self.feed_client(client::Input::Stored(number), ctx);
    }

    fn loads_again(&self, kind: RecordKind, _: &[u8], value: &[u8]) -> bool {
        let again = match kind {
            RecordKind::Network => Membership::read(value).map(|member| Some(member.write())),
            RecordKind::LeftNetwork => LeftNetwork::read(value).map(|left| Some(left.write())),
            RecordKind::Inviter => Inviter::read(value).map(|inviter| Some(inviter.write())),
            RecordKind::MixnetPeer => MixnetPeer::read(value).map(|peer| peer.stored_form()),
            _ => return fits_vault(value),
        };
        loads_again(value, again)
    }

    fn put_records(&self, effects: &mut Effects) {
        self.put_rows(effects);
    }
}
