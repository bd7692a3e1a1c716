//! The content of the slots of a round. An idle slot takes the steps of a busy one (MIX-22).

use alloc::boxed::Box;
use alloc::vec::Vec;

use mezza_core::{Backend, CryptoRng, EphemeralKey, Time, Wiping};

use super::Client;
use super::rounds::{Round, Slot, SlotContents};
use crate::Service;
use crate::client::contacts::PartnerId;
use crate::client::record::SealedSlot;
use crate::client::{Access, NO_BUCKET, no_call, no_invitation, select_served, to_bucket};
use crate::contact::{self, DeadDrop, Intent};
use crate::wire::Cell;
use crate::wire::invitation::{BODY_BYTES, Invitation};

/// Most steps of one chain when a round is sealed.
const SEAL_STEPS: u64 = 1_024;

/// The plaintexts of all slots, and their entries in the record.
pub(super) struct Filled {
    pub content: SlotContents,
    pub inner: Wiping<Vec<u8>>,
    pub sealed: Vec<SealedSlot>,
}

impl<B: Backend> Client<B> {
    pub(super) fn fill_drops(
        &mut self,
        round: u64,
        slots: usize,
        now: Time,
        rng: &mut dyn CryptoRng,
    ) -> Filled {
        // Chains advance also without budget, because a chain left behind must catch up later.
        let mut turns = self.contacts.compute_turns(round, SEAL_STEPS);
        if !self.may_spend(Service::Conversation, now) {
            // The budget is exhausted: contacts are no longer served, but idle onions continue
            // (MIX-25).
            turns.clear();
        }
        let meetings: Vec<DeadDrop> = turns.iter().map(|(_, meeting)| *meeting).collect();
        let lines: Vec<u32> =
            select_served(&meetings, slots).into_iter().map(|at| turns[at].0).collect();
        let mut inner =
            Wiping::new(Vec::with_capacity(slots * Service::Conversation.innermost_bytes()));
        let mut all = Vec::new();
        let mut sealed = Vec::new();
        for at in 0..slots {
            let served = lines.get(at).and_then(|line| self.next_cell(*line, now));
            let slot = match served {
                Some((slot, stored)) => {
                    sealed.push(stored);
                    slot
                }
                None => Slot { access: Access::for_idle_slot::<B>(round, rng), served: None },
            };
            inner.extend_from_slice(slot.access.bytes());
            all.push(slot);
        }
        Filled { content: SlotContents::Drops(all), inner, sealed }
    }

    /// Returns the next cell of one line, or `None` if the line is gone.
    fn next_cell(&mut self, line: u32, now: Time) -> Option<(Slot, SealedSlot)> {
        let (_, contact) = self.contacts.by_line(line)?;
        // The flag comes first, because it may end the service, and this cell is one of the three
        // that report it.
        let leaving = contact.says_leaving(now);
        let own = contact.line_mut(line)?;
        let taken = own.sender.take_piece();
        let (ack, sack) = own.receiver.ack_fields();
        let seq = taken.as_ref().map(|(seq, _)| *seq);
        let first = seq.and_then(|seq| own.sender.first_of(seq)).unwrap_or(0);
        let stored = SealedSlot {
            line,
            start: own.receiver.start(),
            ack,
            acked_by_partner: own.sender.first_unacked(),
            piece: taken.as_ref().map(|(seq, piece)| (*seq, first, piece.clone())),
        };
        let piece = taken.map(|(_, piece)| piece);
        let cell = Cell { leaving, seq: seq.unwrap_or(own.sender.next_piece()), ack, sack, piece };
        // This call removes the keys from the chain, so that no second cell is sealed under them
        // (MIX-23).
        let access = Access::seal_cell::<B>(own.chain.take_round_keys(), &cell);
        Some((Slot { access, served: Some((line, seq)) }, stored))
    }

    pub(super) fn fill_call(
        &mut self,
        round: &Round,
        now: Time,
        rng: &mut dyn CryptoRng,
    ) -> Filled {
        let id = round.id();
        let expected = self.contacts.expected_tokens(id.round, SEAL_STEPS);
        let may = self.may_spend(Service::Call, now);
        // Repeated calls are queued after those of the user, and only while half of the budget is
        // left.
        self.repeat_calls(id.round, now);
        let contacts = &mut self.contacts.all;
        // The idle token is drawn in every round, so that a real call takes the same steps
        // (MIX-22).
        let mut inner = no_call(rng);
        let mut is_there = |(contact, _): &(PartnerId, Intent)| {
            let contact = contacts.get_mut(contact).filter(|contact| !contact.suspended);
            // A chain beyond this round has already supplied its token, and one before it cannot
            // catch up in time.
            contact.is_some_and(|contact| contact.call_root().calls.round() == id.round)
        };
        let at = self.calls.iter().position(&mut is_there).filter(|_| may);
        let called = at.and_then(|at| self.calls.remove(at));
        let called = called.and_then(|(id, intent)| Some((id, contacts.get_mut(&id)?, intent)));
        let real = called.is_some();
        if let Some((partner, contact, intent)) = called {
            // If there are fewer buckets now than the contact knew, the lower bits of the bucket
            // are used.
            let bucket = 1 + contact.bucket.wrapping_sub(1) % round.policy.buckets;
            let root = contact.call_root();
            let role = root.chain.role();
            inner = to_bucket(bucket, &root.calls.take_token(role, intent));
            contact.record_call(id.round, intent);
            contact.called = true;
            // The call may have waited for this round longer than its partner is served (MIX-81).
            self.contacts.activate_contact(partner, now);
        }
        let content = SlotContents::Call(real, expected);
        Filled { content, inner: Wiping::new(inner), sealed: Vec::new() }
    }

    pub(super) fn fill_invitation(
        &mut self,
        round: &Round,
        now: Time,
        rng: &mut dyn CryptoRng,
    ) -> Filled {
        let may = self.may_spend(Service::Invitation, now);
        let repeat = self.may_repeat(Service::Invitation, now);
        let waiting = may.then(|| self.invites.take_next(round.id().round, repeat)).flatten();
        let invite = waiting.as_ref().and_then(|waiting| waiting.invite.as_ref());
        let network = self.network();
        let buckets = round.policy.buckets;
        // Both key pairs are drawn in every round, with or without an invitation (MIX-22).
        let own = EphemeralKey::random::<B>(rng);
        let nobody = EphemeralKey::random::<B>(rng);
        let bucket = contact::assign_bucket(self.setup.dialling.public_key(), &network, buckets);
        // Without an invitation the same steps end in bucket 0.
        let (to, body) = match invite {
            Some(invite) => (&invite.to, invite.body.clone()),
            None => (nobody.public_key(), Wiping::new([0; BODY_BYTES])),
        };
        let sealed = Invitation { bucket, body }.seal::<B>(own, to, round.id().round);
        let inner = match sealed {
            Some(sealed) if invite.is_some() => {
                to_bucket(contact::assign_bucket(to, &network, buckets), &sealed)
            }
            Some(sealed) => to_bucket(NO_BUCKET, &sealed),
            // The dialling key has small order, which only its owner can have caused.
            None => no_invitation::<B>(rng),
        };
        Filled {
            content: SlotContents::Invite(waiting.map(Box::new)),
            inner: Wiping::new(inner),
            sealed: Vec::new(),
        }
    }
}
