//! Expired deadlines: each one goes to the component that registered it.

use mezza_core::Timers;

use super::{Parts, contact};
use crate::carriers::Port;
use crate::io::{At, ContactId, Dropped, Due, Event, Forget, NoteId, ParcelId, ResetCause};
use crate::outbox::Owe;

/// Runs everything that is due.
pub(super) fn fire_all<P: Port>(parts: &mut Parts<P>, timers: &mut Timers<Due>, at: &mut At<'_>) {
    // Timers were set by the earlier clock. After the clock went back, a carrier would wait too
    // long for them.
    if at.now < parts.seen {
        parts.carriers.notify_all(|one| one.recheck_timers(at));
    }
    parts.seen = at.now;
    for due in timers.take_due(at.now) {
        fire_due(parts, due, at);
    }
}

/// Runs one expired deadline.
fn fire_due<P: Port>(parts: &mut Parts<P>, due: Due, at: &mut At<'_>) {
    match due {
        // Prekeys are checked at every wake.
        Due::Prekeys => {}
        Due::Session(id) => parts.sessions.wake(id, at),
        Due::Note(id) => end_note(parts, id, at),
        Due::Undecrypted(key) => parts.sessions.drop_undecrypted(key, at.step),
        Due::Parcel(id) => wake_parcel(parts, id, at),
        Due::Reset(id) => reset_session(parts, id, at),
        Due::Again(id) => {
            let begins_era = parts.outbox.era_waits(id);
            if parts.outbox.wants_again(id, at.now, at.step) {
                if begins_era {
                    // Notes under the same numbers would be refused again.
                    contact::begin_era(parts, id, at);
                } else {
                    contact::requeue_notes(parts, id, at);
                }
            }
        }
        Due::Look(id) => at.step.touch(id),
        Due::Carrier(id, number) => {
            let Parts { contacts, sessions, outbox, carriers, .. } = parts;
            // Nothing waits for a blocked contact, so its connections may end (MSG-26).
            let busy = |id: ContactId| {
                if contacts.get(id).is_none_or(|contact| contact.blocked) {
                    return false;
                }
                let owes = outbox.owed(id).is_some_and(crate::outbox::Owed::has_any);
                let open = contacts.get(id).is_some_and(crate::contacts::Contact::is_open);
                !outbox.waiting_notes(id).is_empty()
                    || open && owes
                    || sessions.session_facts(id).renew
                    || outbox.parcels_of(id).next().is_some()
            };
            if let Some(one) = carriers.carrier_mut(id) {
                one.handle_timer(number, &busy, at);
            }
        }
    }
}

/// Begins a new session for messages that no session opened and that came too soon after the last
/// new one (MSG-127).
fn reset_session<P: Port>(parts: &mut Parts<P>, id: ContactId, at: &mut At<'_>) {
    let is_ours = parts.contacts.get(id).is_some_and(crate::contacts::Contact::is_ours);
    // A contact that was blocked or deleted meanwhile gets no session (MSG-26).
    if parts.sessions.reset_in_turn(id, at) && is_ours {
        parts.outbox.owe(id, Owe::Reset(ResetCause::Lost), at.step);
        at.step.touch(id);
    }
}

/// Ends a note: a note whose timer expired is deleted, and a note of ours that no carrier can
/// deliver any more is declared void.
fn end_note<P: Port>(parts: &mut Parts<P>, id: NoteId, at: &mut At<'_>) {
    let Some(note) = parts.threads.get(id) else { return };
    let contact = note.contact;
    let gone = note.ends_at().is_some_and(|end| end <= at.now);
    if !note.incoming && !note.is_delivered() {
        contact::give_up(parts, id, at);
        at.step.show(Event::State(contact, id));
    }
    if gone {
        contact::remove_note(parts, id, at);
    }
}

/// Drops a parcel that the recipient could not open any more.
fn wake_parcel<P: Port>(parts: &mut Parts<P>, id: ParcelId, at: &mut At<'_>) {
    let late = |until| until <= at.now;
    // The timer was set for an earlier end of this parcel.
    if !parts.outbox.parcel(id).and_then(|parcel| parcel.route.until).is_some_and(late) {
        return parts.outbox.look_again(id, at.now, at.step);
    }
    let Some(parcel) = parts.outbox.lose_parcel(id, at.step) else { return };
    let dropped = [Dropped { id, contact: parcel.contact, bytes: parcel.bytes }];
    parts.carriers.notify_all(|one| one.retract_parcels(&dropped, at));
    if parcel.route.invitation {
        // The prekey of an invitation has expired. The next invitation needs another bundle and
        // starts other chains.
        parts.sessions.drop_held(parcel.contact, at.step);
        parts.carriers.notify_all(|one| one.forget_contact(parcel.contact, Forget::Chains, at));
        parts.sessions.renew_session(parcel.contact, at.step);
    }
    // The user's note waits for a new session instead. A note with a receipt needs no other parcel.
    if let Some(note) = parcel.note.filter(|_| !parcel.confirmed) {
        parts.threads.mark_for_resealing(note, at.step);
        parts.outbox.queue_note(parcel.contact, note);
    }
}
