//! Outgoing traffic: selects a route for each queued note, seals it, and sends owed items when no note is
//! queued.

use alloc::collections::BTreeSet;

use mezza_core::Time;

use super::{Parts, first, hand, seal};
use crate::carriers::Port;
use crate::contacts::ContactPhase;
use crate::evidence::WaitReason;
use crate::io::{
    At, CarrierId, ContactFacts, ContactId, DeliveryProblem, Due, FetchPurpose, HelloPlace,
    Missing, NoteId, Reach, RouteTerms,
};
use crate::outbox::{Reached, UNANSWERED_MAX};

/// Seals all notes and items that may leave, and hands their parcels over.
pub(super) fn flush_contacts<P: Port>(parts: &mut Parts<P>, at: &mut At<'_>) {
    let mut ids: BTreeSet<ContactId> = core::mem::take(&mut at.step.touched);
    if core::mem::take(&mut at.step.touches_all) {
        ids.extend(parts.contacts.iter().map(|(id, _)| id));
    }
    ids.extend(parts.outbox.agenda());
    ids.extend(parts.sessions.agenda());
    for id in ids {
        let later = look_at(parts, id, at);
        at.step.set_timer(Due::Look(id), later);
    }
    hand::hand_over_parcels(parts, at);
}

fn earlier(a: Option<Time>, b: Option<Time>) -> Option<Time> {
    a.into_iter().chain(b).min()
}

/// Seals all notes and items that may leave for one contact. Returns the time of the next attempt.
fn look_at<P: Port>(parts: &mut Parts<P>, id: ContactId, at: &mut At<'_>) -> Option<Time> {
    // Requests and blocked contacts get nothing (MSG-26).
    let contact = parts.contacts.get(id).filter(|contact| contact.is_ours())?;
    let pin = contact.policy.level_min;
    let best = contact.policy.carriers.first().copied();
    let mut later = None;
    if let (Some(best), Some(to)) = (best, parts.contact_facts(id))
        && parts.carriers.carrier(best).is_some_and(|one| one.wants_bundle(&to, at.now))
    {
        later = fetch_bundle(parts, id, FetchPurpose::Hold, pin, at);
    }
    first::upgrade_suite(parts, id, at);
    first::begin_from_told(parts, id, pin, at);
    for note in parts.outbox.waiting_notes(id) {
        later = earlier(later, flush_note(parts, id, note, at));
    }
    earlier(later, send_owed(parts, id, at))
}

/// Seals a note of the user if it may leave now. Returns the time of the next attempt.
fn flush_note<P: Port>(
    parts: &mut Parts<P>,
    id: ContactId,
    note: NoteId,
    at: &mut At<'_>,
) -> Option<Time> {
    let pin = parts.threads.get(note).map_or(1, |note| note.level_min);
    let reach = match find_route(parts, id, pin, Some(note), at) {
        Ok(reach) => reach,
        Err((why, later)) => {
            parts.threads.set_wait_reason(note, why, at.step);
            return later;
        }
    };
    // Beyond the reader's window a note would be dropped, so the oldest one comes first (section
    // 8).
    match parts.outbox.check_reach(id, note, at.now) {
        Reached::Yes => return seal_in_turn(parts, id, note, reach, at),
        Reached::After(oldest) => {
            parts.threads.mark_for_resealing(oldest, at.step);
            parts.threads.set_wait_reason(note, WaitReason::Answer, at.step);
            return seal_in_turn(parts, id, oldest, reach, at);
        }
        Reached::No => {}
        Reached::Later(later) => {
            parts.threads.set_wait_reason(note, WaitReason::Answer, at.step);
            return Some(later);
        }
    }
    parts.threads.set_wait_reason(note, WaitReason::Answer, at.step);
    None
}

/// Seals a note. A note that was sealed before waits for its turn.
fn seal_in_turn<P: Port>(
    parts: &mut Parts<P>,
    id: ContactId,
    note: NoteId,
    reach: Reach,
    at: &mut At<'_>,
) -> Option<Time> {
    // A request for everything must not cause a burst of traffic (MSG-53).
    if parts.threads.get(note).is_some_and(|note| note.again)
        && let Err(later) = parts.outbox.may_repeat(id, at.now)
    {
        return Some(later);
    }
    seal::seal_note(parts, id, Some(note), reach, at);
    None
}

/// Returns the route of the first listed carrier that has one. If none has, returns why the first
/// carrier has none, and the time of the next attempt.
fn find_route<P: Port>(
    parts: &mut Parts<P>,
    id: ContactId,
    pin: u8,
    note: Option<NoteId>,
    at: &mut At<'_>,
) -> Result<Reach, (WaitReason, Option<Time>)> {
    let contact = parts.contacts.get(id).ok_or((WaitReason::Keys, None))?;
    let mut first = None;
    let mut later = None;
    let mut candidates = parts.outbox.untried_carriers(note, contact.policy.candidates());
    // A carrier whose chains the contact may have lost is tried last (MSG-129).
    candidates.sort_by_key(|by| parts.carriers.carrier(*by).is_some_and(|one| one.is_doubtful(id)));
    for carrier in candidates {
        let Some((to, carriers)) = parts.facts_for_carriers(id) else { break };
        let is_open = to.is_open;
        let trouble = to.trouble;
        let terms = RouteTerms { pin, is_user_note: note.is_some() };
        let why = match find_reach(carriers, carrier, &to, terms, at) {
            // At most 8 notes leave before the contact has answered (section 2).
            Ok(_) if !is_open && parts.outbox.unanswered_notes(id).count() >= UNANSWERED_MAX => {
                WaitReason::Answer
            }
            Ok(reach) => return Ok(reach),
            // The privacy budget is exhausted: do not fall back to another carrier.
            Err(Missing::Wait(WaitReason::Budget)) => return Err((WaitReason::Budget, later)),
            Err(Missing::Wait(why)) => why,
            Err(Missing::Session) => {
                let why = without_session(trouble);
                later = earlier(later, fetch_bundle(parts, id, FetchPurpose::Begin, pin, at));
                why
            }
            Err(Missing::First(terms)) => first::begin_invitation(parts, id, carrier, &terms, at),
        };
        first = first.or(Some(why));
    }
    Err((first.unwrap_or(WaitReason::NoCarrier), later))
}

/// Returns the route to a contact over one carrier, with the properties of a message on it.
fn find_reach(
    carriers: &mut impl Port,
    id: CarrierId,
    to: &ContactFacts<'_>,
    terms: RouteTerms,
    at: &mut At<'_>,
) -> Result<Reach, Missing> {
    let absent = Missing::Wait(WaitReason::NoCarrier);
    let one = carriers.carrier_mut(id).ok_or(absent)?;
    one.prepare_route(to, terms.pin, at);
    let route = one.select_route(to, terms, at.now)?;
    let paddings = one.paddings();
    let outer = one.outer_binding(to);
    let waits = one.waits_for_place();
    // A carrier that does not wait for a mailbox identifies the contact by its tag.
    let place = match carriers.all_carriers().find_map(|one| one.hello_place(to.id)) {
        Some(HelloPlace::NotYet) if !waits => HelloPlace::Tag,
        place => place.unwrap_or(HelloPlace::Tag),
    };
    Ok(Reach { route, place, paddings, outer })
}

/// Requests the bundle of a contact. Returns the time of the next attempt. Once both sides have
/// answered, only carriers that the conversation allows are asked (MSG-21), because a fetch tells a
/// relay who writes to whom.
fn fetch_bundle<P: Port>(
    parts: &mut Parts<P>,
    id: ContactId,
    purpose: FetchPurpose,
    pin: u8,
    at: &mut At<'_>,
) -> Option<Time> {
    let allowed = parts.contacts.get(id)?.policy.candidates().to_vec();
    let (to, carriers) = parts.facts_for_carriers(id)?;
    let asked = if to.is_open { allowed } else { carriers.collect_all(|one| [one.id()]) };
    asked.iter().fold(None, |later, by| {
        let carrier = carriers.carrier_mut(*by);
        earlier(later, carrier.and_then(|one| one.fetch_bundle(&to, purpose, pin, at)))
    })
}

/// Sends owed items without a note of the user, if they may leave now. Returns the time of the next
/// attempt.
fn send_owed<P: Port>(parts: &mut Parts<P>, id: ContactId, at: &mut At<'_>) -> Option<Time> {
    let to = parts.contact_facts(id)?;
    let owed = parts.outbox.owed(id)?;
    let renew = to.session.renew;
    let says = parts.carriers.all_carriers().any(|one| one.has_to_say(&to, at.now));
    // Nothing is owed, so no parcel leaves that would only show activity.
    if !owed.has_any() && !renew && !says {
        return None;
    }
    let contact = parts.contacts.get(id)?;
    // Send nothing to a contact in phase `Held` (card only) until the user writes first. Owed items
    // go with that note (MSG-107).
    if contact.phase == ContactPhase::Held {
        return None;
    }
    // Owed items wait for a carrier at the level of their cause (MSG-20).
    let pin = contact.policy.level_min.max(owed.level);
    let reach = match find_route(parts, id, pin, None, at) {
        Ok(reach) => reach,
        Err((_, later)) => return later,
    };
    let owed = parts.outbox.owed(id)?;
    // At most 8 parcels without a note of the user (MSG-35).
    if !parts.outbox.has_room(id) {
        return None;
    }
    if !says && !owed.is_urgent() {
        let hello = owed.hello && reach.place != HelloPlace::NotYet;
        // A hello whose mailbox is not open yet is useless, so it waits.
        if !hello && !owed.receipt && !owed.inventory && !owed.read && owed.answers.is_empty() {
            return None;
        }
        // Receipts have a rate limit, because a contact can cause any number of them (MSG-27).
        if let Err(later) = parts.outbox.may_receipt(id, at.now) {
            return Some(later);
        }
    }
    seal::seal_note(parts, id, None, reach, at);
    None
}

/// Returns the reason why a note to a contact without a session waits.
fn without_session(trouble: Option<DeliveryProblem>) -> WaitReason {
    match trouble {
        Some(DeliveryProblem::Bundle(_)) => WaitReason::Bundle,
        _ => WaitReason::Keys,
    }
}
