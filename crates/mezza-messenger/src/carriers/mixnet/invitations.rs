//! Inviters: stored until the user asks for their identity, then called.

use alloc::vec::Vec;

use mezza_core::{Backend, Time};
use mezza_mixnet::client::{self, NewRoot, StartRounds};
use mezza_mixnet::contact::{Intent, Role};

use super::inviter::PendingStart;
use super::{INVITER, Inviter, Mixnet, derive_root, timer};
use crate::carriers::{Exchange, Welcome};
use crate::error::{CallerError, CarrierError, DeviceError, PersonError};
use crate::io::{ContactId, Ctx, DateStep, Effects, Event, Forget, News, RecordKind, key32};
use crate::note::Item;

impl<B: Backend> Mixnet<B> {
    /// Stores an inviter until the user asks for the identity. Returns true if the note was a valid
    /// invitation.
    pub(super) fn invited_by(&mut self, welcome: Welcome<'_>, ctx: &mut Ctx<'_>) -> bool {
        let network = self.network.as_ref().and_then(|net| Some(net.config(ctx.now)?.network));
        let bare = welcome.items.iter().find_map(|item| match item {
            Item::Meet(meet) if meet.root.is_none() => Some(meet),
            _ => None,
        });
        // An invitation that names another network or contains a root is invalid (4.4).
        let Some(meet) = bare.filter(|meet| Some(meet.network) == network) else { return false };
        let rounds = StartRounds { conversation: meet.conversation, call: meet.call };
        let start = Some(PendingStart { root: derive_root(welcome.exporter), rounds });
        let inviter = Inviter {
            ik: welcome.ik,
            bucket: welcome.place,
            start,
            at: ctx.now,
            asked: None,
            // The card is answered at the level of the invitation, even if the level has changed
            // since.
            level: self.network.as_ref().map_or(0, |net| net.level),
            times: 0,
        };
        self.inviters.insert(welcome.id, inviter);
        self.store_inviter(welcome.id, ctx.effects);
        true
    }

    /// Handles the user's request for an inviter's identity: starts the chains and calls the
    /// inviter.
    pub(super) fn ask_who(&mut self, id: ContactId, ctx: &mut Ctx<'_>) -> Result<(), DeviceError> {
        if !self.inviters.contains_key(&id) {
            let known = self.peers.contains_key(&id);
            return Err(if known {
                DeviceError::Person(PersonError::NotNow)
            } else {
                DeviceError::Caller(CallerError::NoSuchContact)
            });
        }
        self.start_chains(id, ctx).map_err(CarrierError::Network)?;
        if let Some(inviter) = self.inviters.get_mut(&id) {
            (inviter.start, inviter.asked, inviter.times) = (None, Some(ctx.now), 0);
        }
        self.call_inviter(id, ctx);
        self.store_inviter(id, ctx.effects);
        ctx.effects.show(Event::Request(id));
        Ok(())
    }

    /// Gives the chains of an inviter to the client, once.
    pub(super) fn start_chains(
        &mut self,
        id: ContactId,
        ctx: &mut Ctx<'_>,
    ) -> Result<(), client::ClientError> {
        let Some(inviter) = self.inviters.get(&id) else { return Ok(()) };
        // The chains start once. A second start would reuse rounds of the first.
        let Some(PendingStart { root, rounds }) = &inviter.start else { return Ok(()) };
        let root = NewRoot {
            contact: id.0,
            root: root.duplicate(),
            role: Role::Responder,
            start: *rounds,
            bucket: inviter.bucket,
        };
        self.feed_client(client::Input::Add(root), ctx)
    }

    /// Checks that the chains of an inviter could start now.
    pub(super) fn may_start(&self, id: ContactId, now: Time) -> Result<(), DeviceError> {
        let Some(inviter) = self.inviters.get(&id) else { return Ok(()) };
        let Some(PendingStart { rounds, .. }) = &inviter.start else { return Ok(()) };
        let Some(net) = &self.network else {
            return Err(DeviceError::Carrier(CarrierError::Network(
                client::ClientError::Unexpected,
            )));
        };
        net.client.check_start(*rounds, now).map_err(|error| CarrierError::Network(error).into())
    }

    pub(super) fn call_inviter(&mut self, id: ContactId, ctx: &mut Ctx<'_>) {
        // An error means that the client does not know the inviter, so it cannot be called.
        let _ = self.feed_client(client::Input::Call(id.0, Intent::Talk), ctx);
    }

    /// Handles the timer of an inviter: calls it again, or forgets it after 30 days.
    pub(super) fn turn_inviter(&mut self, id: ContactId, ctx: &mut Ctx<'_>) {
        let Some(inviter) = self.inviters.get_mut(&id) else { return };
        // The prekey of an invitation ends after 30 days at the latest, so nothing can answer it
        // (4.4).
        if inviter.is_over(ctx.now) {
            self.forget_contact(id, Forget::All, ctx);
            self.news.push_back(News::InviterGone(id));
            return ctx.effects.show(Event::Request(id));
        }
        if inviter.deadline() <= ctx.now {
            (inviter.asked, inviter.times) = (Some(ctx.now), inviter.times.saturating_add(1));
            self.call_inviter(id, ctx);
        }
        self.store_inviter(id, ctx.effects);
    }

    /// Accepts the card of an inviter, who becomes a contact. Returns the level of the answers.
    /// `session` is `None` if the inviter began another session; that withdraws the invitation and
    /// its chains.
    pub(super) fn shows_card(
        &mut self,
        id: ContactId,
        session: Option<[u8; 16]>,
        ctx: &mut Ctx<'_>,
    ) -> Option<u8> {
        // A session that the inviter began itself withdrew the invitation and its chains (4.4).
        if session.is_some() {
            // An error means that the rounds are out of reach; the contact then has no chains.
            let _ = self.start_chains(id, ctx);
        } else {
            self.forget_contact(id, Forget::Chains, ctx);
        }
        let came_at = self.inviters.remove(&id)?.level;
        ctx.effects.drop_row(RecordKind::Inviter, key32(id.0));
        ctx.effects.set_timer(timer(INVITER | u64::from(id.0)), None);
        self.update_peer(id, ctx.effects, |peer| peer.root_for = session);
        let now = self.network.as_ref().map_or(1, |net| net.level);
        // Rows of earlier versions have no level, so the present one counts (MSG-112).
        Some(if came_at == 0 { now } else { came_at })
    }

    /// Moves stored times after a correction of the date, so that invitations keep their age.
    pub(super) fn correct_dates(&mut self, date: &DateStep, ctx: &mut Ctx<'_>) {
        self.peers.values_mut().for_each(|peer| peer.apply_date_step(date));
        for id in self.inviters.keys().copied().collect::<Vec<ContactId>>() {
            if self
                .inviters
                .get_mut(&id)
                .is_some_and(|inviter| inviter.apply_date_step(date, ctx.now))
            {
                self.store_inviter(id, ctx.effects);
            }
        }
    }

    pub(super) fn store_inviter(&self, id: ContactId, effects: &mut Effects) {
        if let Some(inviter) = self.inviters.get(&id) {
            effects.put(RecordKind::Inviter, key32(id.0), inviter.write());
            effects.set_timer(timer(INVITER | u64::from(id.0)), Some(inviter.deadline()));
        }
    }
}
