//! Outgoing traffic: selects a route for each queued note, seals it, and sends owed items when no
//! note is queued.

use alloc::collections::BTreeSet;

use mezza_core::Time;

use super::Turn;
use crate::carriers::Port;
use crate::contacts::ContactPhase;
use crate::evidence::{FactKind, WaitReason};
use crate::io::{
    CarrierId, ContactId, DeliveryProblem, Due, FetchPurpose, HelloPlace, Missing, NoteId, Reach,
    RouteTerms,
};
use crate::outbox::{Reached, RepeatTime, UNANSWERED_MAX};

/// The result of a search for a route that found none.
struct NoRoute {
    /// The reason that the note shows.
    why: WaitReason,
    /// The time of the next attempt; `None` waits for an event.
    later: Option<Time>,
}

impl<P: Port> Turn<'_, P> {
    /// Seals all notes and items that may leave, and hands their parcels over.
    pub(super) fn flush_contacts(&mut self) {
        let mut ids: BTreeSet<ContactId> = core::mem::take(&mut self.ctx.effects.touched);
        if core::mem::take(&mut self.ctx.effects.touches_all) {
            ids.extend(self.device.contacts.iter().map(|(id, _)| id));
        }
        ids.extend(self.device.outbox.agenda());
        ids.extend(self.device.sessions.agenda());
        for id in ids {
            let later = self.flush_contact(id);
            self.ctx.effects.set_timer(Due::Look(id), later);
        }
        self.hand_over_parcels();
    }

    /// Seals all notes and items that may leave for one contact. Returns the time of the next
    /// attempt.
    fn flush_contact(&mut self, id: ContactId) -> Option<Time> {
        // Requests and blocked contacts get nothing (MSG-26).
        let contact = self.device.contacts.get(id).filter(|contact| contact.is_ours())?;
        let pin = contact.policy.level_min;
        let best = contact.policy.carriers.first().copied();
        let mut later = None;
        if let (Some(best), Some(to)) = (best, self.device.contact_facts(id))
            && self
                .device
                .carriers
                .carrier(best)
                .is_some_and(|one| one.wants_bundle(&to, self.ctx.now))
        {
            later = self.fetch_bundle(id, FetchPurpose::Hold, pin);
        }
        self.upgrade_suite(id);
        self.begin_from_sent_bundle(id, pin);
        self.open_places(id, pin);
        later = earlier_of(later, self.requeue_missing(id));
        for note in self.device.outbox.waiting_notes(id) {
            later = earlier_of(later, self.flush_note(id, note));
        }
        earlier_of(later, self.send_owed(id))
    }

    /// Opens our addresses for a contact that waits for our hello, at each carrier of the
    /// conversation. A hello over one carrier names the address at another, or the contact would begin
    /// another session to write over that one (MSG-154).
    fn open_places(&mut self, id: ContactId, pin: u8) {
        let Some(contact) = self.device.contacts.get(id) else { return };
        let used = contact.policy.candidates().to_vec();
        let is_owed = self.device.outbox.owed(id).is_some_and(|owed| owed.hello);
        if !is_owed || contact.phase == ContactPhase::Held {
            return;
        }
        let Some((to, carriers)) = self.device.facts_for_carriers(id) else { return };
        for by in used {
            if let Some(carrier) = carriers.carrier_mut(by) {
                carrier.open_place(&to, pin, &mut self.ctx);
            }
        }
    }

    /// Queues notes again that a carrier took, if the reader lacks them but has later ones (MSG-93).
    /// Returns the time at which the next of them may be repeated.
    fn requeue_missing(&mut self, id: ContactId) -> Option<Time> {
        let mut later = None;
        for note in self.device.outbox.left_out(id) {
            let facts = self.device.threads.get(note).map_or(&[][..], |note| &note.facts);
            let handed =
                facts.iter().filter(|fact| fact.what == FactKind::Handed).map(|fact| fact.at);
            let Some(left) = handed.max() else { continue };
            match self.device.outbox.repeat_missing(id, note, left, self.ctx.now) {
                RepeatTime::Now => self.device.threads.mark_for_resealing(note, self.ctx.effects),
                RepeatTime::Later(at) => later = earlier_of(later, Some(at)),
                RepeatTime::Never => {}
            }
        }
        later
    }

    /// Seals a note of the user if it may leave now. Returns the time of the next attempt.
    fn flush_note(&mut self, id: ContactId, note: NoteId) -> Option<Time> {
        let pin = self.device.threads.get(note).map_or(1, |note| note.level_min);
        let reach = match self.find_route(id, pin, Some(note)) {
            Ok(reach) => reach,
            Err(NoRoute { why, later }) => {
                self.device.threads.set_wait_reason(note, why, self.ctx.effects);
                return later;
            }
        };
        // The reader drops a note beyond its window, so the oldest one is sent first (section 8).
        match self.device.outbox.check_reach(id, note, self.ctx.now) {
            Reached::Yes => return self.seal_in_turn(id, note, reach),
            Reached::After(oldest) => {
                self.device.threads.mark_for_resealing(oldest, self.ctx.effects);
                self.device.threads.set_wait_reason(note, WaitReason::Answer, self.ctx.effects);
                return self.seal_in_turn(id, oldest, reach);
            }
            Reached::No => {}
            Reached::Later(later) => {
                self.device.threads.set_wait_reason(note, WaitReason::Answer, self.ctx.effects);
                return Some(later);
            }
        }
        self.device.threads.set_wait_reason(note, WaitReason::Answer, self.ctx.effects);
        None
    }

    /// Seals a note. A note that was sealed before waits for its turn.
    fn seal_in_turn(&mut self, id: ContactId, note: NoteId, reach: Reach) -> Option<Time> {
        // A request for everything must not cause a burst of traffic (MSG-53).
        if self.device.threads.get(note).is_some_and(|note| note.again)
            && let Err(later) = self.device.outbox.may_repeat(id, self.ctx.now)
        {
            return Some(later);
        }
        self.seal_note(id, Some(note), reach);
        None
    }

    /// Returns the route of the first listed carrier that has one. `note` is `None` for owed items.
    ///
    /// # Errors
    /// [`NoRoute`] with the reason of the first listed carrier, if none has a route.
    fn find_route(
        &mut self,
        id: ContactId,
        pin: u8,
        note: Option<NoteId>,
    ) -> Result<Reach, NoRoute> {
        let contact = self.device.contacts.get(id);
        let contact = contact.ok_or(NoRoute { why: WaitReason::Keys, later: None })?;
        let written = note.and_then(|note| self.device.threads.get(note));
        let life = written.map_or(contact.policy.life, |note| self.device.note_life(note));
        let mut first = None;
        let mut later = None;
        let mut candidates = self.device.outbox.untried_carriers(note, contact.policy.candidates());
        // A carrier whose chains the contact may have lost is tried last (MSG-129).
        candidates.sort_by_key(|by| {
            let carrier = self.device.carriers.carrier(*by);
            carrier.is_some_and(|one| one.is_doubtful(id))
        });
        for carrier in candidates {
            let Some(to) = self.device.contact_facts(id) else { break };
            let is_open = to.is_open;
            let trouble = to.trouble;
            let terms = RouteTerms { pin, is_user_note: note.is_some(), life };
            let why = match self.find_reach(id, carrier, terms) {
                // At most 8 notes leave before the contact has answered (section 2).
                Ok(_) if !is_open && self.has_unanswered_max(id) => WaitReason::Answer,
                Ok(reach) => return Ok(reach),
                // The privacy budget is exhausted: do not fall back to another carrier.
                Err(Missing::Wait(why @ WaitReason::Budget)) => return Err(NoRoute { why, later }),
                Err(Missing::Wait(why)) => why,
                Err(Missing::Session) => match self.device.sessions.may_begin(id, self.ctx.now) {
                    Ok(()) => {
                        let next = self.fetch_bundle(id, FetchPurpose::Begin, pin);
                        later = earlier_of(later, next);
                        reason_without_session(trouble)
                    }
                    // The answer to the session that began last may name the mailbox.
                    Err(next) => {
                        later = earlier_of(later, Some(next));
                        WaitReason::Answer
                    }
                },
                Err(Missing::First(terms)) => self.begin_invitation(id, carrier, &terms),
            };
            first = first.or(Some(why));
        }
        Err(NoRoute { why: first.unwrap_or(WaitReason::NoCarrier), later })
    }

    /// Returns true if no further note may leave before the contact has answered.
    fn has_unanswered_max(&self, id: ContactId) -> bool {
        self.device.outbox.unanswered_notes(id).count() >= UNANSWERED_MAX
    }

    /// Returns the route to a contact that is usable now over one carrier, with the properties of a
    /// message on it.
    ///
    /// # Errors
    /// The [`Missing`] precondition of such a route.
    fn find_reach(
        &mut self,
        id: ContactId,
        carrier: CarrierId,
        terms: RouteTerms,
    ) -> Result<Reach, Missing> {
        let absent = || Missing::Wait(WaitReason::NoCarrier);
        let (to, carriers) = self.device.facts_for_carriers(id).ok_or_else(absent)?;
        let one = carriers.carrier_mut(carrier).ok_or_else(absent)?;
        one.prepare_route(&to, terms, &mut self.ctx);
        let route = one.select_route(&to, terms, self.ctx.now)?;
        let paddings = one.paddings();
        let outer = one.outer_binding(&to);
        let waits = one.waits_for_place();
        // A carrier that does not wait for a mailbox identifies the contact by its tag.
        let place = match carriers.all_carriers().find_map(|one| one.hello_place(id)) {
            Some(HelloPlace::NotYet) if !waits => HelloPlace::Tag,
            place => place.unwrap_or(HelloPlace::Tag),
        };
        Ok(Reach { route, place, paddings, outer })
    }

    /// Requests the bundle of a contact. Returns the time of the next attempt. Once both sides have
    /// answered, only carriers that the conversation allows are used (MSG-21), because a fetch
    /// shows a relay who writes to whom.
    fn fetch_bundle(&mut self, id: ContactId, purpose: FetchPurpose, pin: u8) -> Option<Time> {
        let allowed = self.device.contacts.get(id)?.policy.candidates().to_vec();
        let (to, carriers) = self.device.facts_for_carriers(id)?;
        let used = if to.is_open { allowed } else { carriers.collect_all(|one| [one.id()]) };
        used.iter().fold(None, |later, by| {
            let carrier = carriers.carrier_mut(*by);
            let next = carrier.and_then(|one| one.fetch_bundle(&to, purpose, pin, &mut self.ctx));
            earlier_of(later, next)
        })
    }

    /// Sends owed items without a note of the user, if they may leave now. Returns the time of the
    /// next attempt.
    fn send_owed(&mut self, id: ContactId) -> Option<Time> {
        let to = self.device.contact_facts(id)?;
        let owed = self.device.outbox.owed(id)?;
        let renew = to.session.renew;
        let has_item =
            self.device.carriers.all_carriers().any(|one| one.has_to_say(&to, self.ctx.now));
        // If nothing is owed, a parcel would only show activity.
        if !owed.has_any() && !renew && !has_item {
            return None;
        }
        let contact = self.device.contacts.get(id)?;
        // Send nothing to a contact in phase `Held` (card only) until the user writes first. Owed
        // items go with that note (MSG-107).
        if contact.phase == ContactPhase::Held {
            return None;
        }
        // Owed items wait for a carrier at the level of their cause (MSG-20).
        let pin = contact.policy.level_min.max(owed.level);
        let reach = match self.find_route(id, pin, None) {
            Ok(reach) => reach,
            Err(NoRoute { later, .. }) => return later,
        };
        let owed = self.device.outbox.owed(id)?;
        // At most 8 parcels without a note of the user (MSG-35).
        if !self.device.outbox.has_room(id) {
            return None;
        }
        if !has_item && !owed.is_urgent() {
            let hello = owed.hello && reach.place != HelloPlace::NotYet;
            // A hello whose mailbox is not open yet is useless, so it waits.
            if !hello && !owed.receipt && !owed.inventory && !owed.read && owed.answers.is_empty() {
                return None;
            }
            // Receipts have a rate limit, because a contact can cause any number of them (MSG-27).
            if let Err(later) = self.device.outbox.may_receipt(id, self.ctx.now) {
                return Some(later);
            }
        }
        self.seal_note(id, None, reach);
        None
    }
}

/// Returns the earlier one of two times.
fn earlier_of(a: Option<Time>, b: Option<Time>) -> Option<Time> {
    a.into_iter().chain(b).min()
}

/// Returns the reason why a note to a contact without a session waits.
fn reason_without_session(trouble: Option<DeliveryProblem>) -> WaitReason {
    match trouble {
        Some(DeliveryProblem::Bundle(_)) => WaitReason::Bundle,
        _ => WaitReason::Keys,
    }
}
