//! Commands of the user and of the messenger.

use alloc::vec::Vec;

use mezza_core::{Backend, Time};

use super::{Client, ClientError, Invite, NewRoot, Output, RefusedReason, StartRounds};
use crate::client::contacts::{Partner, PartnerId, PartnerRoot};
use crate::config::ServicePolicy;
use crate::contact::Intent;
use crate::limits::CHAIN_SKIP_MAX;
use crate::privacy::ledger::BudgetState;
use crate::stream::StreamError;
use crate::{RoundId, Service};

/// Most rounds by which a contact's chains may begin ahead of our own round.
const AHEAD_MAX: u64 = 720;
/// Most contacts of one client.
pub(super) const CONTACTS_MAX: usize = 4_096;
/// Most chain steps of one wake: about 10 ms.
const WALK_STEPS: u64 = 65_536;
/// Most rounds in progress; chains stay this many rounds behind until the rounds are sealed.
const UNDER_WAY: u64 = 8;

impl<B: Backend> Client<B> {
    pub(super) fn current_policy(&self, service: Service, now: Time) -> Option<&ServicePolicy> {
        let config = self.chain.as_ref()?.current_config(now)?;
        config.find_policy(service).map(|(_, policy)| policy)
    }

    /// Returns the current round of a service, or its base round before its base time.
    fn round_now(&self, service: Service, now: Time) -> Option<u64> {
        let policy = self.current_policy(service, now)?;
        Some(policy.round_at(now).unwrap_or(policy.base_round))
    }

    /// Returns true if real content may be sent: budget is left, or the user allowed more.
    pub(super) fn may_spend(&self, service: Service, now: Time) -> bool {
        let (Some(ledger), Some(policy)) = (&self.ledger, self.current_policy(service, now)) else {
            return false;
        };
        self.allow_more || ledger.budget_state(policy) != BudgetState::Used
    }

    /// Checks that chains could begin now in these rounds.
    ///
    /// # Errors
    /// [`ClientError::OutOfReach`] if a round is too far away; [`ClientError::Full`] without room
    /// for another contact.
    pub fn check_start(&self, start: StartRounds, now: Time) -> Result<(), ClientError> {
        let near = |service, start: u64| {
            let own = self.round_now(service, now)?;
            // A chain cannot go back, and each missing step costs a hash, so roots outside this
            // range are refused.
            let reach = own.saturating_sub(CHAIN_SKIP_MAX)..=own.saturating_add(AHEAD_MAX);
            reach.contains(&start).then_some(())
        };
        let calls = near(Service::Call, start.call);
        // A network without call rounds needs no check of call chains.
        let calls = calls.is_some() || self.current_policy(Service::Call, now).is_none();
        if near(Service::Conversation, start.conversation).is_none() || !calls {
            return Err(ClientError::OutOfReach);
        }
        if self.contacts.all.len() >= CONTACTS_MAX {
            return Err(ClientError::Full);
        }
        Ok(())
    }

    pub(super) fn add_contact(&mut self, new: &NewRoot, now: Time) -> Result<(), ClientError> {
        self.check_start(new.start, now)?;
        // Line numbers are never reused, because a record of an old root must not match a new one.
        let number = self.contacts.line_number().ok_or(ClientError::Full)?;
        let StartRounds { conversation, call } = new.start;
        let root = PartnerRoot::begin(number, &new.root, new.role, conversation, call);
        match self.contacts.all.get_mut(&new.contact) {
            Some(contact) => {
                contact.bucket = new.bucket;
                // The old roots stay: the partner may not have the new one yet (MIX-67).
                contact.add_root(root);
            }
            None => {
                self.contacts.all.insert(new.contact, Partner::new(new.bucket, root));
            }
        }
        self.take_snapshot(now);
        Ok(())
    }

    pub(super) fn remove_contact(
        &mut self,
        contact: PartnerId,
        now: Time,
    ) -> Result<(), ClientError> {
        self.contacts.all.remove(&contact).ok_or(ClientError::NoContact)?;
        // A queued call would cost budget for a partner without a root.
        self.calls.retain(|(called, _)| *called != contact);
        self.take_snapshot(now);
        Ok(())
    }

    pub(super) fn send_message(
        &mut self,
        ticket: u64,
        contact: PartnerId,
        bytes: &[u8],
        now: Time,
    ) {
        if let Err(refusal) = self.queue_message(ticket, contact, bytes, now) {
            self.outputs.push_back(Output::Refused(ticket, refusal));
        }
    }

    fn queue_message(
        &mut self,
        ticket: u64,
        contact: PartnerId,
        bytes: &[u8],
        now: Time,
    ) -> Result<(), RefusedReason> {
        // Without a connection the messenger keeps the note and may choose another carrier.
        if !self.link.is_up() {
            return Err(RefusedReason::Down);
        }
        let spend = self.may_spend(Service::Conversation, now);
        let may_call =
            self.current_policy(Service::Call, now).is_none() || self.may_spend(Service::Call, now);
        let of = self.contacts.all.get_mut(&contact).ok_or(RefusedReason::NoRoot)?;
        // Refused by name and not queued: the note would wait until the user allows more (MIX-25).
        if !spend {
            return Err(RefusedReason::Budget);
        }
        // A partner that rests comes only after a call, so the note would wait without notice
        // (MIX-73).
        if !may_call && !of.called {
            return Err(RefusedReason::CallBudget);
        }
        // All checks come first: a refused message leaves nothing queued and activates no contact.
        of.line.sender.push_message(ticket, bytes).map_err(|error| match error {
            StreamError::Full => RefusedReason::Full,
            StreamError::TooBig => RefusedReason::TooBig,
            StreamError::Blank => RefusedReason::Blank,
        })?;
        // After a start, a message that is queued again may already have been sent completely,
        // which is reported now.
        let handed = of.line.sender.take_handed();
        self.outputs.extend(handed.into_iter().map(Output::Handed));
        self.contacts.activate_contact(contact, now);
        let of = self.contacts.all.get(&contact);
        if of.is_some_and(|contact| contact.is_active() && !contact.called) {
            self.queue_call(contact, Intent::Talk);
        }
        Ok(())
    }

    pub(super) fn call_contact(
        &mut self,
        contact: PartnerId,
        intent: Intent,
        now: Time,
    ) -> Result<(), ClientError> {
        let suspended = self.contacts.all.get(&contact).ok_or(ClientError::NoContact)?.suspended;
        // A suspended partner is given no call, not even one that the user requested (MIX-66).
        if !suspended {
            self.contacts.activate_contact(contact, now);
            self.queue_call(contact, intent);
        }
        Ok(())
    }

    /// Suspends a contact without notifying it, or resumes it; waiting messages then cause a call.
    pub(super) fn suspend_contact(
        &mut self,
        id: PartnerId,
        suspended: bool,
        now: Time,
    ) -> Result<(), ClientError> {
        let contact = self.contacts.all.get_mut(&id).ok_or(ClientError::NoContact)?;
        if contact.suspended == suspended {
            return Ok(());
        }
        if suspended {
            contact.pause(now);
            // A call that was not made yet is queued again afterwards.
            contact.called &= self.calls.iter().all(|(called, _)| *called != id);
            self.calls.retain(|(called, _)| *called != id);
            return Ok(());
        }
        let waits = contact.lines().any(|line| !line.sender.is_idle());
        // The service continues with the remaining time, so that a pause neither adds nor costs
        // service (MIX-42).
        let goes_on = contact.resume(now);
        let calls = contact.is_active() && !contact.called;
        if waits && calls {
            self.queue_call(id, Intent::Talk);
        } else if waits && !goes_on {
            self.look_again(id, now);
        }
        Ok(())
    }

    /// Withdraws a message or an invitation (MIX-66).
    pub(super) fn retract_message(&mut self, contact: PartnerId, message: &[u8], now: Time) {
        self.invites.retract(message);
        let Some(contact) = self.contacts.all.get_mut(&contact) else { return };
        // Every root is searched: after a change of roots the message may be begun under an old
        // one.
        let begun = contact.lines_mut().map(|line| line.sender.retract_message(message));
        if begun.fold(false, |any, begun| any | begun) {
            // A sealed piece is in a record and would be sent again after a start.
            self.take_snapshot(now);
        }
    }

    /// Queues a call; at most one call per contact waits.
    pub(super) fn queue_call(&mut self, contact: PartnerId, intent: Intent) {
        if let Some(contact) = self.contacts.all.get_mut(&contact) {
            contact.called = true;
        }
        // A second queued call would spend budget without reaching anybody earlier.
        if self.calls.iter().all(|(waits, _)| *waits != contact) {
            self.calls.push_back((contact, intent));
        }
    }

    /// Tries again to reach a contact for whom messages wait: serves it and calls it.
    pub(super) fn look_again(&mut self, contact: PartnerId, now: Time) {
        if self.contacts.activate_contact(contact, now) && self.may_repeat(Service::Call, now) {
            self.queue_call(contact, Intent::Talk);
        }
    }

    /// Handles the return to rounds after an absence. A call only reaches partners that take part
    /// in its round, so resting partners of the last days are called: one of them may have messages
    /// (MIX-68).
    pub(super) fn come_back(&mut self, now: Time) {
        // A locked device calls no contact. The missed calls count when it is unlocked (MIX-78).
        if self.idles {
            return;
        }
        let Some(left) = self.left.take() else { return };
        let interval_ms =
            self.current_policy(Service::Call, now).map_or(0, |policy| policy.interval_ms);
        let missed = left.as_ms() == 0 || now.since_ms(left) >= u64::from(interval_ms);
        if missed {
            self.heard = None;
            self.call_recent(now);
        }
    }

    /// Handles a call round that was read. If an earlier round was missed, resting partners of the
    /// last days are called, even if the line was up all the time (MIX-80).
    pub(super) fn on_calls_heard(&mut self, id: RoundId, now: Time) {
        if self.idles {
            return;
        }
        let config = self.chain.as_ref().and_then(|chain| chain.of_round(id));
        // Numbers skipped by a config are no rounds.
        let first =
            config.and_then(|config| config.find_policy(id.service)).map(|(_, of)| of.base_round);
        let due = self.heard.map(|last| last.saturating_add(1).max(first.unwrap_or(0)));
        self.heard = self.heard.max(Some(id.round));
        if due.is_some_and(|due| id.round > due) {
            self.call_recent(now);
        }
    }

    /// Handles a sleep of the process for `ms` milliseconds. Without this the next call round would
    /// show the missed one (MIX-80), one interval later.
    pub(super) fn on_pause(&mut self, ms: u64, now: Time) {
        let interval_ms =
            self.current_policy(Service::Call, now).map(|policy| u64::from(policy.interval_ms));
        // A locked device calls no contact (MIX-78).
        if !self.idles && interval_ms.is_some_and(|interval| ms >= interval) {
            self.call_recent(now);
        }
    }

    /// Calls resting partners of the last days, while half of the budgets is left.
    fn call_recent(&mut self, now: Time) {
        // Greeting is not requested by the user, so it uses half of the budget only (MIX-68).
        if !self.may_repeat(Service::Conversation, now) {
            return;
        }
        for id in self.contacts.to_greet(now) {
            self.contacts.activate_contact(id, now);
            let is_served = self.contacts.all.get(&id).is_some_and(Partner::is_active);
            if is_served && self.may_repeat(Service::Call, now) {
                self.queue_call(id, Intent::Talk);
            }
        }
    }

    /// Queues the calls that must be repeated in this call round.
    pub(super) fn repeat_calls(&mut self, round: u64, now: Time) {
        if !self.may_repeat(Service::Call, now) {
            return;
        }
        let rings = self.contacts.all.iter();
        let rings = rings.filter_map(|(id, contact)| Some((*id, contact.call_is_due(round)?)));
        for (contact, intent) in rings.collect::<Vec<_>>() {
            self.queue_call(contact, intent);
        }
    }

    /// Returns true if repeated calls and invitations may still be charged. They may use at most
    /// half of the budget.
    pub(super) fn may_repeat(&self, service: Service, now: Time) -> bool {
        let ledger = self.ledger.as_ref().zip(self.current_policy(service, now));
        ledger.is_some_and(|(ledger, policy)| ledger.count_used(policy) < policy.rounds / 2)
    }

    pub(super) fn queue_invite(&mut self, invite: Invite, now: Time) {
        let ticket = invite.ticket;
        let refusal = if !self.link.is_up() {
            RefusedReason::Down
        } else if !self.may_spend(Service::Invitation, now) {
            RefusedReason::Budget
        } else if !self.invites.push(invite) {
            RefusedReason::Full
        } else {
            return;
        };
        self.outputs.push_back(Output::Refused(ticket, refusal));
    }

    /// Advances chains that are far behind by some steps, up to rounds that the mixes signed. A
    /// chain that followed a wrong clock ahead could not go back (MIX-50).
    pub(super) fn walk_chains(&mut self, now: Time) {
        if self.walk_at.is_none_or(|at| at > now) {
            return;
        }
        let round = |service| {
            let shown = self.shown.get(&service).copied().unwrap_or(0);
            let round = self.round_now(service, now).unwrap_or(0).min(shown);
            round.saturating_sub(UNDER_WAY)
        };
        // The smaller one of clock and signed settings is used: neither alone may advance chains,
        // which cannot go back (MIX-50).
        let talks = round(Service::Conversation);
        let calls = round(Service::Call);
        let there = self.contacts.walk_chains(talks, calls, WALK_STEPS);
        self.walk_at = (!there).then_some(now.plus_ms(1));
    }
}
