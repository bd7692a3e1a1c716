//! Changes of one contact, caused by the user, a message or a deadline.

use super::Parts;
use crate::carriers::{Invitations, Port};
use crate::contacts::Contact;
use crate::io::{At, CarrierId, ContactId, DeliveryProblem, Forget, NoteId};
use crate::note::Era;
use crate::outbox::Owe;
use crate::policy::Policy;

/// Returns true if this is the number of an inviter.
pub(super) fn is_inviter<P: Port>(parts: &Parts<P>, id: ContactId) -> bool {
    parts.carriers.all_carriers().flat_map(Invitations::inviters).any(|inviter| inviter.id == id)
}

/// Notifies the other carriers that a message of a contact came over carrier `by`. `is_anew` is true
/// if the message began a session, is in an unknown session, or answers an invitation.
pub(super) fn on_message_arrived<P: Port>(
    parts: &mut Parts<P>,
    id: ContactId,
    by: CarrierId,
    is_anew: bool,
    at: &mut At<'_>,
) {
    let others = parts.carriers.all_carriers_mut().filter(|one| one.id() != by);
    others.for_each(|one| one.came_elsewhere(id, is_anew, at));
}

/// Accepts the card of an inviter. Returns the carrier and the level of answers. `session` is the
/// session that both sides share, or `None` if the inviter began another one.
pub(super) fn unmask_inviter<P: Port>(
    parts: &mut Parts<P>,
    id: ContactId,
    session: Option<[u8; 16]>,
    at: &mut At<'_>,
) -> Option<(CarrierId, u8)> {
    let mut carriers = parts.carriers.all_carriers_mut();
    carriers.find_map(|one| Some((one.id(), one.unmask_inviter(id, session, at)?)))
}

/// Adds a contact.
pub(super) fn add_contact<P: Port>(
    parts: &mut Parts<P>,
    id: ContactId,
    contact: Contact,
    at: &mut At<'_>,
) {
    parts.contacts.add(id, contact, at.step);
    parts.threads.open_thread(id);
    parts.outbox.open_lane(id, at.step);
    update_levels(parts, id, at);
}

/// Returns the policy of a new contact: answers go over the carrier of the first message, at its level.
pub(super) fn answered_by(way: Option<(CarrierId, u8)>) -> Policy {
    way.map_or_else(Policy::default, |(carrier, level_min)| Policy {
        carriers: [carrier].into(),
        level_min,
        ..Policy::default()
    })
}

/// Chooses the carrier of a new contact whose card names no relay: the first one that reaches it
/// without internet.
pub(super) fn choose_first_carrier<P: Port>(parts: &mut Parts<P>, id: ContactId, at: &mut At<'_>) {
    let Some(to) = parts.contact_facts(id).filter(|to| to.card.relays().is_empty()) else { return };
    let reached = parts.carriers.collect_all(|one| {
        let state = one.state(Some(&to), at.now);
        state.filter(|state| state.reached && !state.caps.needs_internet).map(|_| one.id())
    });
    let Some(carrier) = reached.first().copied() else { return };
    let policy = Policy { carriers: [carrier].into(), ..Policy::default() };
    parts.contacts.set_policy(id, policy, at.step);
    update_levels(parts, id, at);
}

/// Sets the level at which each carrier may serve a contact. A blocked contact is not served
/// (MSG-26). A listed carrier serves at the conversation's lowest level. Another carrier sends
/// nothing, but still receives.
pub(super) fn update_levels<P: Port>(parts: &mut Parts<P>, id: ContactId, at: &mut At<'_>) {
    let Some(contact) = parts.contacts.get(id) else { return };
    parts.carriers.notify_all(|one| {
        let listed = contact.policy.candidates().contains(&one.id());
        let level_min = if listed { contact.policy.level_min } else { 1 };
        one.set_level_min(id, (!contact.blocked).then_some(level_min), at);
    });
}

/// Returns the era of our notes to a contact.
pub(super) fn own_era<P: Port>(parts: &Parts<P>, id: ContactId) -> Era {
    parts.outbox.era(id).unwrap_or_else(|| parts.profile.era(id))
}

/// Starts a fresh era for our note numbers to a contact, before any note of that era was sent.
pub(super) fn draw_era<P: Port>(parts: &mut Parts<P>, id: ContactId, at: &mut At<'_>) {
    let mut era = Era([0; 4]);
    at.rng.fill_bytes(&mut era.0);
    parts.outbox.draw_era(id, era, at.step);
}

/// Starts a new era for a contact, because another copy of this vault may have written to it under
/// our numbers. A new session begins, and notes without a receipt are sealed again (MSG-91).
pub(super) fn begin_era<P: Port>(parts: &mut Parts<P>, id: ContactId, at: &mut At<'_>) {
    let mut era = Era([0; 4]);
    at.rng.fill_bytes(&mut era.0);
    let (notes, dropped) = parts.outbox.begin_era(id, era, at.step);
    // A note that was renumbered must not be taken for the one under its old number (MSG-91).
    for note in notes {
        parts.threads.renumber_note(note, at.step);
    }
    parts.carriers.notify_all(|one| one.retract_parcels(&dropped, at));
    // Another copy of the vault may have used the same rounds, so the chains end as well.
    parts.carriers.notify_all(|one| one.forget_contact(id, Forget::Chains, at));
    // Another copy may have sealed under the same keys of the old session (P5).
    parts.sessions.renew_session(id, at.step);
    owe_again(parts, id, at);
    parts.contacts.report_trouble(id, DeliveryProblem::Twice, at.step);
}

/// Queues all our notes without a receipt for sealing again, in the active session and with the
/// same era and number. Items of dropped parcels are owed again.
pub(super) fn requeue_notes<P: Port>(parts: &mut Parts<P>, id: ContactId, at: &mut At<'_>) {
    let requeued = parts.outbox.requeue_notes(id, at.step);
    for note in requeued.notes {
        parts.threads.mark_for_resealing(note, at.step);
    }
    parts.carriers.notify_all(|one| one.retract_parcels(&requeued.dropped, at));
    if requeued.invitation && parts.sessions.session_facts(id).pending {
        // An invitation that was never read began a session that the contact does not know.
        parts.sessions.renew_session(id, at.step);
    }
    owe_again(parts, id, at);
}

/// Marks the items of lost parcels as owed once more.
pub(super) fn owe_again<P: Port>(parts: &mut Parts<P>, id: ContactId, at: &mut At<'_>) {
    // The contact may have lost our mailbox with the parcel.
    if parts.carriers.all_carriers().any(|one| one.has_place_for(id)) {
        parts.outbox.owe(id, Owe::Hello, at.step);
    }
    parts.sessions.tell_again(id, at.step);
    owe_receipt(parts, id, at);
}

/// Owes a receipt again for everything that has arrived from a contact.
pub(super) fn owe_receipt<P: Port>(parts: &mut Parts<P>, id: ContactId, at: &mut At<'_>) {
    let delivered = parts.contacts.get(id).is_some_and(|contact| contact.policy.delivered);
    // Without an arrived note there is nothing to confirm.
    if delivered && parts.threads.has_heard(id) {
        parts.outbox.owe(id, Owe::Receipt, at.step);
    }
    at.step.touch(id);
}

/// Handles a changed card of a contact.
pub(super) fn on_card_changed<P: Port>(
    parts: &mut Parts<P>,
    id: ContactId,
    by_hand: bool,
    at: &mut At<'_>,
) {
    let mut gone = false;
    if let Some((to, carriers)) = parts.facts_for_carriers(id) {
        carriers.notify_all(|one| gone |= one.on_card_changed(&to, by_hand, at));
    }
    // The rate limit bounds the traffic that a contact can cause by changing its card (MSG-53).
    if gone && parts.outbox.wants_again(id, at.now, at.step) {
        // The contact has left, so parcels on their way over that carrier do not arrive (MSG-97).
        parts.carriers.notify_all(|one| one.forget_contact(id, Forget::Chains, at));
        requeue_notes(parts, id, at);
    }
}

/// Gives a note up: its parcels are withdrawn, and its number is declared void.
pub(super) fn give_up<P: Port>(parts: &mut Parts<P>, id: NoteId, at: &mut At<'_>) {
    // A void is declared once. Its repetition is stored in `owed`.
    let Some(note) = parts.threads.get(id).filter(|note| !note.voided) else { return };
    let contact = note.contact;
    // A number of an era before a restore is not ours to declare void: the lost device used it.
    let is_former = parts.outbox.numbered_former(contact, note.era, note.seq) == Some(id);
    let seq = if is_former { 0 } else { note.seq };
    let mut dropped = parts.outbox.void_note(contact, id, seq, at.step);
    if is_former {
        dropped.extend(parts.outbox.end_former(contact, id, at.step));
    }
    parts.carriers.notify_all(|one| one.retract_parcels(&dropped, at));
    if seq > 0 {
        parts.threads.mark_voided(id, at.step);
    }
    at.step.touch(contact);
}

/// Deletes a note on this device, in any state.
pub(super) fn remove_note<P: Port>(parts: &mut Parts<P>, id: NoteId, at: &mut At<'_>) {
    let Some(note) = parts.threads.get(id) else { return };
    if !note.incoming {
        parts.outbox.forget_note(note.contact, id, note.seq, at.step);
    }
    parts.threads.remove_note(id, at.step);
}
