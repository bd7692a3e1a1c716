//! Handles the events of the carriers.

use alloc::vec::Vec;

use super::{Parts, arrive, contact, first, hand, own_card};
use crate::carriers::{Carrier, Port};
use crate::error::DeviceError;
use crate::evidence::{Fact, FactKind, WaitReason};
use crate::io::{
    At, CarrierId, ContactId, DeliveryProblem, FetchPurpose, LostPlace, News, NoteId, ParcelId,
};
use crate::outbox::Owe;
use crate::view::Part;

/// Handles an input of the driver for one of the carriers. A refused input changes nothing.
pub(super) fn handle_input<P: Port>(
    parts: &mut Parts<P>,
    input: P::Input,
    at: &mut At<'_>,
) -> Result<(), DeviceError> {
    parts.carriers.handle_input(input, &parts.sessions.signed_prekeys(), at)
}

/// Handles events of the carriers until there are none left. Returns true if there was one.
pub(super) fn drain_carriers<P: Port>(parts: &mut Parts<P>, at: &mut At<'_>) -> bool {
    let mut heard = false;
    loop {
        if let Some(publication) = parts.sessions.take_publication() {
            parts.carriers.notify_all(|one| one.publish_prekeys(&publication, at));
        }
        let Some(news) = parts.carriers.all_carriers_mut().find_map(Carrier::next_news) else {
            return heard;
        };
        heard = true;
        handle_news(parts, news, at);
    }
}

fn handle_news<P: Port>(parts: &mut Parts<P>, news: News, at: &mut At<'_>) {
    match news {
        News::Arrived(arrival) => arrive::receive_parcel(parts, &arrival, at),
        News::Handed { parcel, again: None } => on_handed(parts, parcel, at),
        News::Handed { parcel, again: Some(after) } => {
            // No receipt confirms that an invitation was read, so it is repeated.
            parts.outbox.retry_after(parcel, after, at.now, at.step);
            if let Some(parcel) = parts.outbox.parcel(parcel) {
                parts.contacts.mark_asked(parcel.contact, at.step);
            }
        }
        News::Carried { parcel, others } => on_carried(parts, parcel, others, at),
        News::Expired(parcel) => on_expired(parts, parcel, at),
        // Sealed again, the note fits, or it waits unsealed (MSG-25).
        News::Refused { parcel, why: WaitReason::TooBig, .. } => {
            if let Some(contact) = parts.outbox.parcel(parcel).map(|parcel| parcel.contact) {
                contact::requeue_notes(parts, contact, at);
            }
        }
        News::Refused { parcel, why, after } => {
            parts.outbox.mark_refused(parcel, after, at.now, at.step);
            if let Some(note) = parts.outbox.parcel(parcel).and_then(|parcel| parcel.note) {
                parts.threads.set_wait_reason(note, why, at.step);
            }
        }
        News::Level(carrier, level) => hand::recall_parcels(parts, carrier, level, at),
        News::Apart(carrier, contact) => on_apart(parts, carrier, contact, at),
        News::Twice(contact) => on_second_life(parts, contact, at),
        News::Left(carrier, met) => on_carrier_left(parts, carrier, &met, at),
        News::Returned(parcels) => parts.outbox.mark_returned(&parcels, at.now, at.step),
        News::Lost { contact, place } => on_place_lost(parts, contact, place, at),
        News::Bundle { contact, purpose: FetchPurpose::Begin, bytes, one_time } => {
            first::begin_session(parts, contact, &bytes, one_time, at);
        }
        News::Bundle { contact, purpose: FetchPurpose::Hold, bytes, one_time } => {
            first::hold_bundle(parts, contact, &bytes, one_time, at);
        }
        News::Stock(left) => parts.sessions.report_stock(left, at),
        News::Unpublished => {
            if let Some(publication) = parts.sessions.current_publication() {
                parts.carriers.notify_all(|one| one.publish_again(&publication, at));
            }
        }
        News::Foreign => parts.sessions.offer_anew(at.now),
        News::Greet(contact) => parts.outbox.owe(contact, Owe::Hello, at.step),
        News::Called(contact) => on_called(parts, contact, at),
        News::CardPart => own_card::follow_carriers(parts, at),
        News::InviterGone(id) => parts.sessions.forget(id, at.step),
        News::KeysReplaced => parts.aside.let_go(Part::KeyTree),
    }
}

/// Records that the carrier took a parcel (MSG-11).
fn on_handed<P: Port>(parts: &mut Parts<P>, id: ParcelId, at: &mut At<'_>) {
    // The parcel was withdrawn while the carrier held it.
    let Some(parcel) = parts.outbox.drop_parcel(id, at.step) else { return };
    parts.contacts.mark_asked(parcel.contact, at.step);
    at.step.touch(parcel.contact);
    if let Some(note) = parcel.note {
        let what = FactKind::Handed;
        let carrier = parcel.route.carrier;
        // The recorded level is the lower one of handover and confirmation.
        let level = hand::level_of(parts, &parcel, at.now).min(parcel.left_at);
        let fact = Fact { what, carrier, level, at: at.now };
        parts.threads.add_fact(note, fact, parcel.route.until, at.step);
    }
}

/// Records the number of other devices that announce a parcel.
fn on_carried<P: Port>(parts: &mut Parts<P>, id: ParcelId, others: u16, at: &mut At<'_>) {
    let Some(parcel) = parts.outbox.parcel(id) else { return };
    // Other devices have the parcel, so the contact may answer from now on.
    parts.contacts.mark_asked(parcel.contact, at.step);
    let Some(note) = parcel.note else { return };
    let what = FactKind::Carried(others);
    let carrier = parcel.route.carrier;
    let level = hand::level_of(parts, parcel, at.now).min(parcel.left_at);
    parts.threads.add_fact(note, Fact { what, carrier, level, at: at.now }, None, at.step);
}

/// Handles a parcel that no carrier transports any more. Its note goes to the next carrier of the
/// list, under the same number, and the other items of the parcel are owed again.
fn on_expired<P: Port>(parts: &mut Parts<P>, id: ParcelId, at: &mut At<'_>) {
    let dropped = parts.outbox.lose_parcel(id, at.step);
    // A note with a receipt has arrived, even if its parcel was lost.
    let Some(parcel) = dropped.filter(|parcel| !parcel.confirmed) else { return };
    if let Some(note) = parcel.note {
        parts.outbox.mark_tried(parcel.contact, note, parcel.route.carrier);
        parts.threads.mark_for_resealing(note, at.step);
    }
    contact::owe_again(parts, parcel.contact, at);
}

/// Handles a carrier that was removed. Its parcels, and notes that it took but nobody confirmed, go
/// by another carrier that the conversation allows, or wait (MSG-97). A session that was begun over
/// it and not answered is replaced.
fn on_carrier_left<P: Port>(
    parts: &mut Parts<P>,
    carrier: CarrierId,
    met: &[ContactId],
    at: &mut At<'_>,
) {
    parts.aside.let_go(Part::NetworkRows);
    let stranded: Vec<ContactId> = parts
        .contacts
        .iter()
        .map(|(id, _)| id)
        .filter(|id| has_unconfirmed(parts, carrier, *id))
        .collect();
    for id in stranded {
        contact::requeue_notes(parts, id, at);
    }
    for id in met {
        // The session was begun over the removed carrier and cannot be confirmed any more.
        let unanswered = parts.contacts.get(*id).is_some_and(|contact| !contact.is_open());
        if unanswered && parts.sessions.session_facts(*id).pending {
            parts.sessions.renew_session(*id, at.step);
        }
    }
}

/// Handles a contact that may have lost the state that it shares with a carrier. Its parcels there
/// go by another listed carrier that is up at their level, under the same numbers (MSG-129).
/// Without such a carrier they wait.
fn on_apart<P: Port>(parts: &mut Parts<P>, carrier: CarrierId, id: ContactId, at: &mut At<'_>) {
    let Some(contact) = parts.contacts.get(id).filter(|contact| contact.is_open()) else { return };
    let to = parts.contact_facts(id);
    let others = contact.policy.candidates().iter().filter(|by| **by != carrier);
    let states = others.filter_map(|by| {
        parts.carriers.carrier(*by).and_then(|one| one.state(to.as_ref(), at.now))
    });
    let levels = states.filter(|state| state.up.is_ok()).map(|state| state.caps.level);
    // Without another carrier that is up the parcel waits as before (MSG-129).
    let Some(level) = levels.max() else { return };
    let waits = parts.outbox.parcels_of(id).filter(|(_, parcel)| {
        parcel.route.carrier == carrier
            && !parcel.confirmed
            && hand::level_min(parts, parcel) <= level
    });
    let waits: Vec<(ParcelId, Option<NoteId>)> =
        waits.map(|(parcel, of)| (parcel, of.note)).collect();
    let dropped =
        parts.outbox.take_back(waits.iter().map(|(parcel, _)| *parcel).collect(), at.step);
    parts.carriers.notify_all(|one| one.retract_parcels(&dropped, at));
    for note in waits.into_iter().filter_map(|(_, note)| note) {
        parts.threads.mark_for_resealing(note, at.step);
        parts.outbox.queue_note(id, note);
    }
    if !dropped.is_empty() {
        contact::owe_again(parts, id, at);
    }
}

/// Handles the report that another copy of this vault sent to a contact. Numbers, sessions and
/// chains start again, as after a receipt that shows this (MSG-91).
fn on_second_life<P: Port>(parts: &mut Parts<P>, id: ContactId, at: &mut At<'_>) {
    let is_open = |contact: &crate::contacts::Contact| contact.is_open() && contact.is_ours();
    // At most one new era in 10 minutes. A later one waits for its turn (MSG-91, MSG-132).
    if parts.contacts.get(id).is_some_and(is_open) && parts.outbox.wants_era(id, at.now, at.step) {
        contact::begin_era(parts, id, at);
    }
}

/// Returns true if a carrier took a parcel or note for a contact that has no receipt yet.
fn has_unconfirmed<P: Port>(parts: &Parts<P>, carrier: CarrierId, id: ContactId) -> bool {
    let note = |note| parts.threads.get(note).is_some_and(|note| note.carrier == Some(carrier));
    parts.outbox.parcels_of(id).any(|(_, parcel)| parcel.route.carrier == carrier)
        || parts.outbox.unanswered_notes(id).any(note)
}

/// Handles a lost mailbox of a contact: first the intro mailbox is tried, then the user is asked
/// for a newer card.
fn on_place_lost<P: Port>(parts: &mut Parts<P>, id: ContactId, place: LostPlace, at: &mut At<'_>) {
    match place {
        LostPlace::Intro => parts.contacts.report_trouble(id, DeliveryProblem::BoxGone, at.step),
        LostPlace::Current => parts.sessions.renew_session(id, at.step),
    }
    // Notes in parcels for the lost mailbox are sealed again for another place (4.2).
    contact::requeue_notes(parts, id, at);
}

/// Sends our hello to a contact that called.
fn on_called<P: Port>(parts: &mut Parts<P>, id: ContactId, at: &mut At<'_>) {
    let Some(contact) = parts.contacts.get(id) else { return };
    if !contact.is_open() {
        parts.outbox.owe(id, Owe::Hello, at.step);
    }
    // The call answers the invitation, so its repetition ends (4.4).
    let invitations: Vec<ParcelId> = parts.outbox.invitations_to(id).collect();
    let dropped = parts.outbox.take_back(invitations, at.step);
    parts.carriers.notify_all(|one| one.retract_parcels(&dropped, at));
    at.step.touch(id);
}
