//! Changes of one contact, caused by the user, a message or a deadline.

use super::{Components, Turn};
use crate::carriers::{Invitations, Port};
use crate::contacts::Contact;
use crate::io::{By, CarrierId, ContactId, DeliveryProblem, Forget, NoteId};
use crate::note::Era;
use crate::outbox::{Owe, Parcel};
use crate::policy::Policy;

impl<P: Port> Components<P> {
    /// Returns true if this is the number of an inviter.
    pub(super) fn is_inviter(&self, id: ContactId) -> bool {
        self.carriers.all_carriers().flat_map(Invitations::inviters).any(|inviter| inviter.id == id)
    }

    /// Returns the era of our notes to a contact.
    pub(super) fn own_era(&self, id: ContactId) -> Era {
        self.outbox.era(id).unwrap_or_else(|| self.profile.era(id))
    }
}

impl<P: Port> Turn<'_, P> {
    /// Notifies the other carriers that a message of a contact came over carrier `by`. `is_anew` is
    /// true if the message began a session, is in an unknown session, or answers an invitation.
    pub(super) fn on_message_arrived(&mut self, id: ContactId, by: CarrierId, is_anew: bool) {
        let others = self.device.carriers.all_carriers_mut().filter(|one| one.id() != by);
        others.for_each(|one| one.came_elsewhere(id, is_anew, &mut self.ctx));
    }

    /// Accepts the card of an inviter. Returns the carrier and the level of answers, or `None` if
    /// no carrier knows the inviter. `session` is the session that both sides share, or `None` if
    /// the inviter began another one.
    pub(super) fn unmask_inviter(
        &mut self,
        id: ContactId,
        session: Option<[u8; 16]>,
    ) -> Option<By> {
        let mut carriers = self.device.carriers.all_carriers_mut();
        carriers.find_map(|one| {
            let level = one.unmask_inviter(id, session, &mut self.ctx)?;
            Some(By { carrier: one.id(), level })
        })
    }

    /// Adds a contact.
    pub(super) fn add_contact(&mut self, id: ContactId, contact: Contact) {
        self.device.contacts.add(id, contact, self.ctx.effects);
        self.device.threads.open_thread(id);
        self.device.outbox.open_lane(id, self.ctx.effects);
        self.update_levels(id);
    }

    /// Chooses the carrier of a new contact whose card names no relay: the first one that reaches
    /// it without internet.
    pub(super) fn choose_first_carrier(&mut self, id: ContactId) {
        let to = self.device.contact_facts(id).filter(|to| to.card.relays().is_empty());
        let Some(to) = to else { return };
        let reached = self.device.carriers.collect_all(|one| {
            let state = one.state(Some(&to), self.ctx.now);
            state.filter(|state| state.reached && !state.caps.needs_internet).map(|_| one.id())
        });
        let Some(carrier) = reached.first().copied() else { return };
        let policy = Policy { carriers: [carrier].into(), ..Policy::default() };
        self.device.contacts.set_policy(id, policy, self.ctx.effects);
        self.update_levels(id);
    }

    /// Sets the level at which each carrier may serve a contact. A blocked contact is not served
    /// (MSG-26). A listed carrier serves at the conversation's lowest level. Another carrier sends
    /// nothing, but still receives.
    pub(super) fn update_levels(&mut self, id: ContactId) {
        let Some(contact) = self.device.contacts.get(id) else { return };
        self.device.carriers.notify_all(|one| {
            let listed = contact.policy.candidates().contains(&one.id());
            let level_min = if listed { contact.policy.level_min } else { 1 };
            one.set_level_min(id, (!contact.blocked).then_some(level_min), &mut self.ctx);
        });
    }

    fn draw_random_era(&mut self) -> Era {
        let mut era = Era([0; 4]);
        self.ctx.rng.fill_bytes(&mut era.0);
        era
    }

    /// Starts a fresh era for our note numbers to a contact, before any note of that era was sent.
    pub(super) fn draw_era(&mut self, id: ContactId) {
        let era = self.draw_random_era();
        self.device.outbox.draw_era(id, era, self.ctx.effects);
    }

    /// Starts a new era for a contact, because another copy of this vault may have written to it
    /// under our numbers. A new session begins, and notes without a receipt are sealed again
    /// (MSG-91).
    pub(super) fn begin_era(&mut self, id: ContactId) {
        let era = self.draw_random_era();
        let (notes, dropped) = self.device.outbox.begin_era(id, era, self.ctx.effects);
        // A renumbered note must not be confused with the note of its old number (MSG-91).
        for note in notes {
            self.device.threads.renumber_note(note, self.ctx.effects);
        }
        self.retract_parcels(&dropped);
        // Another copy of the vault may have used the same rounds, so the chains end as well.
        self.notify_carriers(|one, ctx| one.forget_contact(id, Forget::Chains, ctx));
        // Another copy may have sealed under the same keys of the old session (P5).
        self.device.sessions.renew_session(id, self.ctx.effects);
        self.owe_again(id);
        self.device.contacts.report_trouble(id, DeliveryProblem::Twice, self.ctx.effects);
    }

    /// Queues all our notes without a receipt for sealing again, in the active session and with the
    /// same era and number. Items of dropped parcels are owed again.
    pub(super) fn requeue_notes(&mut self, id: ContactId) {
        self.requeue_notes_except(id, |_| false);
    }

    /// The same; parcels for which `stays` is true remain with their carriers.
    pub(super) fn requeue_notes_except(&mut self, id: ContactId, stays: impl Fn(&Parcel) -> bool) {
        let requeued = self.device.outbox.requeue_notes(id, stays, self.ctx.effects);
        for note in requeued.notes {
            self.device.threads.mark_for_resealing(note, self.ctx.effects);
        }
        self.retract_parcels(&requeued.dropped);
        if requeued.invitation && self.device.sessions.session_facts(id).pending {
            // An invitation that was never read began a session that the contact does not know.
            self.device.sessions.renew_session(id, self.ctx.effects);
        }
        self.owe_again(id);
    }

    /// Marks the items of lost parcels as owed once more.
    pub(super) fn owe_again(&mut self, id: ContactId) {
        // The contact may have lost our mailbox with the parcel.
        if self.device.carriers.all_carriers().any(|one| one.has_place_for(id)) {
            self.device.outbox.owe(id, Owe::Hello, self.ctx.effects);
        }
        self.device.sessions.tell_again(id, self.ctx.effects);
        self.owe_receipt(id);
    }

    /// Owes a receipt again for everything that has arrived from a contact.
    pub(super) fn owe_receipt(&mut self, id: ContactId) {
        let delivered =
            self.device.contacts.get(id).is_some_and(|contact| contact.policy.delivered);
        // Without an arrived note there is nothing to confirm.
        if delivered && self.device.threads.has_heard(id) {
            self.device.outbox.owe(id, Owe::Receipt, self.ctx.effects);
        }
        self.ctx.effects.touch(id);
    }

    /// Handles a changed card of a contact. `by_hand` is true if the user entered the card.
    pub(super) fn on_card_changed(&mut self, id: ContactId, by_hand: bool) {
        let mut gone = false;
        if let Some((to, carriers)) = self.device.facts_for_carriers(id) {
            carriers.notify_all(|one| gone |= one.on_card_changed(&to, by_hand, &mut self.ctx));
        }
        // The rate limit bounds the traffic that a contact can cause by changing its card (MSG-53).
        if gone && self.device.outbox.wants_again(id, self.ctx.now, self.ctx.effects) {
            // The contact has left, so parcels on their way over that carrier do not arrive
            // (MSG-97).
            self.notify_carriers(|one, ctx| one.forget_contact(id, Forget::Chains, ctx));
            self.requeue_notes(id);
        }
    }

    /// Gives a note up: its parcels are withdrawn, and its number is declared void.
    pub(super) fn give_up(&mut self, id: NoteId) {
        // A void is declared once. Its repetition is stored in `owed`.
        let Some(note) = self.device.threads.get(id).filter(|note| !note.voided) else { return };
        let contact = note.contact;
        // A number of an era before a restore may not be declared void: the lost device used it.
        let is_former = self.device.outbox.numbered_former(contact, note.era, note.seq) == Some(id);
        let seq = if is_former { 0 } else { note.seq };
        let mut dropped = self.device.outbox.void_note(contact, id, seq, self.ctx.effects);
        if is_former {
            dropped.extend(self.device.outbox.end_former(contact, id, self.ctx.effects));
        }
        self.retract_parcels(&dropped);
        if seq > 0 {
            self.device.threads.mark_voided(id, self.ctx.effects);
        }
        self.ctx.effects.touch(contact);
    }

    /// Deletes a note on this device, in any state.
    pub(super) fn remove_note(&mut self, id: NoteId) {
        let Some(note) = self.device.threads.get(id) else { return };
        if !note.incoming {
            self.device.outbox.forget_note(note.contact, id, note.seq, self.ctx.effects);
        }
        self.device.threads.remove_note(id, self.ctx.effects);
    }
}

/// Returns the policy of a new contact: answers go over the carrier of the first message, at its
/// level. Without a carrier, returns the default policy.
pub(super) fn policy_of_answers(first: Option<By>) -> Policy {
    first.map_or_else(Policy::default, |by| Policy {
        carriers: [by.carrier].into(),
        level_min: by.level,
        ..Policy::default()
    })
}
