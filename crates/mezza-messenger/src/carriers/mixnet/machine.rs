//! Connects the carrier to its client machine: passes inputs and handles outputs.

use alloc::vec::Vec;

use mezza_core::{Backend, Machine as _, Time, Wiping};
use mezza_mixnet::Service;
use mezza_mixnet::client::{self, RefusedReason};

use super::{
    CLIENT, FULL_AGAIN_MS, INVITED_AGAIN_MS, Mixnet, MixnetInput, MixnetOutput, ParcelOut, timer,
};
use crate::error::{CarrierError, DeviceError};
use crate::evidence::WaitReason;
use crate::io::{
    Arrival, ArrivalOrigin, CarrierId, ContactId, Ctx, Effects, Event, News, RATCHET_MESSAGE,
};

impl<B: Backend> Mixnet<B> {
    /// Handles an input of the driver or of the user.
    pub fn handle_input(
        &mut self,
        input: MixnetInput,
        ctx: &mut Ctx<'_>,
    ) -> Result<(), DeviceError> {
        let gone = matches!(input, MixnetInput::Down);
        let input = match input {
            MixnetInput::Join(link) => return self.join_network(link, ctx),
            MixnetInput::Leave => return self.leave_network(ctx),
            MixnetInput::AskWho(contact) => return self.ask_who(contact, ctx),
            MixnetInput::Up { trusted } => client::Input::Up { trusted },
            MixnetInput::Down => client::Input::Down,
            MixnetInput::Frame { frame, age_ms } => client::Input::Frame { frame, age_ms },
            MixnetInput::Done(job, done) => client::Input::Done(job, done),
            MixnetInput::Lost(round) => client::Input::Lost(round),
        };
        // A refused input changes nothing in the carrier either (MSG-36).
        self.feed_client(input, ctx).map_err(CarrierError::Network)?;
        // The client has accepted the input, so carrier and client agree that the connection is
        // down.
        if gone {
            self.on_down(ctx.effects);
        }
        Ok(())
    }

    pub(super) fn wake_client(&mut self, ctx: &mut Ctx<'_>) {
        if let Some(net) = &mut self.network {
            net.client.wake(ctx.now, ctx.rng);
            self.drain_client(ctx);
        }
    }

    pub(super) fn feed_client(
        &mut self,
        input: client::Input,
        ctx: &mut Ctx<'_>,
    ) -> Result<(), client::ClientError> {
        let net = self.network.as_mut().ok_or(client::ClientError::Unexpected)?;
        net.client.handle(input, ctx.now, ctx.rng)?;
        self.drain_client(ctx);
        Ok(())
    }

    pub(super) fn drain_client(&mut self, ctx: &mut Ctx<'_>) {
        while let Some(output) = self.network.as_mut().and_then(|net| net.client.poll()) {
            self.handle_output(output, ctx);
        }
        let due = self.network.as_ref().and_then(|net| net.client.deadline());
        ctx.effects.set_timer(timer(CLIENT), due);
    }

    pub(super) fn handle_output(&mut self, output: client::Output, ctx: &mut Ctx<'_>) {
        let Some(net) = &mut self.network else { return };
        match output {
            client::Output::Dial { at: due, hello, search } => {
                let (address, key) = match search {
                    Some(number) => (net.search_address(number), None),
                    None => net.entry_address(due.max(ctx.now)),
                };
                self.outputs.push_back(MixnetOutput::Connect { at: due, hello, address, key });
            }
            client::Output::Close => self.outputs.push_back(MixnetOutput::Disconnect),
            client::Output::Frame(frame) => self.outputs.push_back(MixnetOutput::Frame(frame)),
            client::Output::Job(job) => self.outputs.push_back(MixnetOutput::Job(job)),
            client::Output::Want(pairs) => self.give_pairs(pairs, ctx),
            client::Output::Store { seq, first, record } => {
                net.store_row(seq, first, record, ctx.effects);
            }
            client::Output::Received { seq, contact, bytes, .. } => {
                // The client acknowledges these cells only after this commit (MSG-12).
                net.durable = Some(seq);
                self.on_parcel_received(ContactId(contact), bytes, ctx);
            }
            client::Output::Invited(invitation) => {
                let parcel = [&[RATCHET_MESSAGE], invitation.body.as_slice()].concat();
                self.report_arrival(
                    ArrivalOrigin::Invitation(invitation.bucket),
                    Wiping::new(parcel),
                );
            }
            client::Output::Joined => self.on_joined(ctx),
            client::Output::Config => {
                net.grade_noise(ctx.now);
                self.news.push_back(News::CardPart);
                ctx.effects.touch_all();
                ctx.effects.show(Event::Carrier(CarrierId::MIXNET));
            }
            client::Output::Handed(ticket) => self.on_handed(ticket, ctx.now),
            client::Output::Refused(ticket, why) => self.on_refused(ticket, why, ctx.now),
            client::Output::Broken(contact) => self.on_stream_broken(ContactId(contact), ctx),
            client::Output::Called(contact, _) => self.on_call(ContactId(contact), ctx),
            client::Output::Level(_) => {
                net.apply_output(&output);
                // The level is applied before anything else may leave (MSG-20).
                self.level_changed(ctx);
                ctx.effects.touch_all();
                ctx.effects.show(Event::Carrier(CarrierId::MIXNET));
            }
            client::Output::Alarm { .. }
            | client::Output::Unfit(..)
            | client::Output::Budget(..) => {
                net.apply_output(&output);
                ctx.effects.touch_all();
                ctx.effects.show(Event::Carrier(CarrierId::MIXNET));
            }
            // A carrier that reconnects offers its earlier parcels again (MIX-75).
            client::Output::Returning(true) if !net.up => self.on_joined(ctx),
            client::Output::Returning(true) => {
                // A round that was sealed and came back proves the clock.
                net.forget_unfit();
                ctx.effects.touch_all();
                ctx.effects.show(Event::Carrier(CarrierId::MIXNET));
            }
            client::Output::Returning(false) => {
                // Without returning rounds the carrier counts as down, so other carriers are
                // selected.
                self.on_down(ctx.effects);
                ctx.effects.touch_all();
            }
            client::Output::Met(contact) => self.on_meeting(ContactId(contact), ctx),
            client::Output::Torn(of) => self.news.push_back(News::Twice(ContactId(of))),
            // Deliveries are shown by receipts of the contact, so these outputs need no action.
            client::Output::Acked(_) | client::Output::Absent(..) => {}
        }
    }

    fn on_stream_broken(&mut self, contact: ContactId, ctx: &mut Ctx<'_>) {
        let now = ctx.now;
        self.update_peer(contact, ctx.effects, |peer| peer.on_stream_broken(now));
        ctx.effects.touch(contact);
    }

    /// Draws the key pairs that the client asked for.
    fn give_pairs(&mut self, pairs: usize, ctx: &mut Ctx<'_>) {
        let Some(net) = &mut self.network else { return };
        for _ in 0..pairs {
            let pair = client::Input::Give(ctx.draw_ephemeral::<B>());
            // Exactly what was asked for is never refused.
            let _ = net.client.handle(pair, ctx.now, ctx.rng);
        }
    }

    pub(super) fn report_arrival(&mut self, from: ArrivalOrigin, parcel: Wiping<Vec<u8>>) {
        let level = self.network.as_ref().map_or(1, |net| net.level);
        let arrival = Arrival {
            carrier: CarrierId::MIXNET,
            level,
            from,
            parcel,
            outer: Vec::new(),
            ack: None,
        };
        self.news.push_back(News::Arrived(arrival));
    }

    /// Handles a parcel from cells, in the form that a mailbox of this contact would hold.
    pub(super) fn on_parcel_received(
        &mut self,
        id: ContactId,
        parcel: Wiping<Vec<u8>>,
        ctx: &mut Ctx<'_>,
    ) {
        self.record_activity(id, ctx);
        self.report_arrival(ArrivalOrigin::Contact(id), parcel);
    }

    /// Handles a call of a contact, which answers an invitation and requests our identity.
    pub(super) fn on_call(&mut self, id: ContactId, ctx: &mut Ctx<'_>) {
        self.record_activity(id, ctx);
        self.trust_chains(id);
        if self.inviters.contains_key(&id) {
            return;
        }
        // One event for the first call. Later calls are traffic of a known contact.
        if !self.peers.get(&id).is_some_and(|peer| peer.has_called) {
            self.update_peer(id, ctx.effects, |peer| peer.has_called = true);
            self.news.push_back(News::Called(id));
        }
    }

    pub(super) fn on_joined(&mut self, ctx: &mut Ctx<'_>) {
        let Some(net) = &mut self.network else { return };
        net.up = true;
        net.forget_unfit();
        net.grade_noise(ctx.now);
        // A new client starts without parcels, so all of them are offered again.
        self.return_all();
        self.level_changed(ctx);
        // After its start the client does not remember muted contacts.
        for id in self.peers.keys().copied().collect::<Vec<_>>() {
            self.update_mute(id, ctx);
        }
        // Calls every inviter that was asked for its identity and has not answered.
        let asked = self.inviters.iter().filter(|(_, inviter)| inviter.asked.is_some());
        for id in asked.map(|(id, _)| *id).collect::<Vec<_>>() {
            self.call_inviter(id, ctx);
        }
        ctx.effects.touch_all();
        ctx.effects.show(Event::Carrier(CarrierId::MIXNET));
    }

    /// Handles a lost connection: parcels that were not delivered are offered again on the next
    /// connection.
    pub(super) fn on_down(&mut self, effects: &mut Effects) {
        if let Some(net) = &mut self.network {
            net.up = false;
        }
        self.return_all();
        effects.show(Event::Carrier(CarrierId::MIXNET));
    }

    pub(super) fn return_all(&mut self) {
        // The wait of a parcel starts again once the parcel is handed over again.
        self.peers.values_mut().for_each(|peer| peer.meetings.waits_since = None);
        self.return_parcels(|_| true);
    }

    /// Returns parcels that the client does not send any more.
    pub(super) fn return_parcels(&mut self, which: impl Fn(&ParcelOut) -> bool) {
        let parcels: Vec<_> =
            self.out.extract_if(.., |_, out| which(out)).map(|(_, out)| out.parcel).collect();
        if !parcels.is_empty() {
            self.news.push_back(News::Returned(parcels));
        }
    }

    pub(super) fn on_handed(&mut self, ticket: u64, now: Time) {
        // The ticket is unknown if the parcel was dropped on its way.
        let Some(ParcelOut { parcel, times, .. }) = self.out.remove(&ticket) else { return };
        let again = times.map(|times| self.invited_again(times, now));
        self.news.push_back(News::Handed { parcel, again });
    }

    /// Returns the time of the next repetition of an invitation after `times` earlier ones. The
    /// first repetition uses the next round, because an invitation only reaches contacts that take
    /// part in its round. Later ones skip 1, 3, 7 ... rounds.
    pub(super) fn invited_again(&self, times: u8, now: Time) -> Time {
        let config = self.network.as_ref().and_then(|net| net.config(now));
        let policy = config.and_then(|config| config.find_policy(Service::Invitation));
        let interval_ms = policy.map_or(0, |(_, policy)| u64::from(policy.interval_ms));
        // The shift is bounded. The pause itself never exceeds 12 h (4.4).
        let rounds = (1 << times.min(24)) - 1;
        now.plus_ms(INVITED_AGAIN_MS.min(rounds * interval_ms))
    }

    pub(super) fn on_refused(&mut self, ticket: u64, why: RefusedReason, now: Time) {
        let Some(ParcelOut { parcel, .. }) = self.out.remove(&ticket) else { return };
        let why = match why {
            RefusedReason::Full => WaitReason::BoxFull,
            // A ciphertext is never all zeros, so `Blank` needs no reason of its own.
            RefusedReason::TooBig | RefusedReason::Blank => WaitReason::TooBig,
            RefusedReason::NoRoot => WaitReason::Keys,
            RefusedReason::Budget => WaitReason::Budget,
            RefusedReason::CallBudget => WaitReason::CallBudget,
            RefusedReason::Down => WaitReason::NoCarrier,
        };
        self.news.push_back(News::Refused { parcel, why, after: now.plus_ms(FULL_AGAIN_MS) });
    }
}
