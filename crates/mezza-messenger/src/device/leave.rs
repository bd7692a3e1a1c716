//! Outgoing traffic: selects a route for each queued note, seals it, and sends owed items when no note is
//! queued.

use alloc::collections::BTreeSet;

use mezza_core::Time;

use super::{Parts, first, hand, seal};
use crate::carriers::Port;
use crate::contacts::ContactPhase;
use crate::evidence::WaitReason;
use crate::io::{
    At, ContactId, DeliveryProblem, Due, FetchPurpose, HelloPlace, Missing, NoteId, Reach,
};
use crate::outbox::{Reached, UNANSWERED_MAX};

/// Seals what may leave and hands it over.
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

/// Seals what may leave for one contact; when there is more to be done for it.
fn look_at<P: Port>(parts: &mut Parts<P>, id: ContactId, at: &mut At<'_>) -> Option<Time> {
    // Requests and blocked contacts get nothing (MSG-26).
    let contact = parts.contacts.get(id).filter(|contact| contact.is_ours())?;
    let pin = contact.policy.level_min;
    let best = contact.policy.carriers.first().copied();
    let mut later = None;
    if let (Some(best), Some(to)) = (best, parts.contact_facts(id))
        && parts.carriers.wants_bundle(best, &to, at.now)
    {
        later = fetch_bundle(parts, id, (FetchPurpose::Hold, pin), at);
    }
    first::upgrade_suite(parts, id, at);
    first::begin_from_told(parts, id, pin, at);
    for note in parts.outbox.waiting_notes(id) {
        later = earlier(later, flush_note(parts, id, note, at));
    }
    earlier(later, send_owed(parts, id, at))
}

/// Seals a note of the person, if it may leave now; when it can be tried again.
fn flush_note<P: Port>(
    parts: &mut Parts<P>,
    id: ContactId,
    note: NoteId,
    at: &mut At<'_>,
) -> Option<Time> {
    let pin = parts.threads.get(note).map_or(1, |note| note.level_min);
    let reach = match find_route(parts, id, (pin, Some(note)), at) {
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

/// Seals a note; one that was sealed before waits for its turn.
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

/// The way to a contact that may be taken now: the first carrier of the list that can; if none can,
/// why the first of them cannot, and when that may be over.
fn find_route<P: Port>(
    parts: &mut Parts<P>,
    id: ContactId,
    (pin, note): (u8, Option<NoteId>),
    at: &mut At<'_>,
) -> Result<Reach, (WaitReason, Option<Time>)> {
    let contact = parts.contacts.get(id).ok_or((WaitReason::Keys, None))?;
    let mut first = None;
    let mut later = None;
    let mut candidates = parts.outbox.untried_carriers(note, contact.policy.candidates());
    // A contact that lost its chains receives nothing by that carrier: it comes last (MSG-129).
    candidates.sort_by_key(|by| parts.carriers.is_doubtful(*by, id));
    for carrier in candidates {
        let Some((to, carriers)) = parts.facts_for_carriers(id) else { break };
        let is_open = to.is_open;
        let trouble = to.trouble;
        let why = match carriers.select_route(carrier, &to, (pin, note.is_some()), at) {
            // At most 8 notes leave before the contact has answered (section 2).
            Ok(_) if !is_open && parts.outbox.unanswered_notes(id).count() >= UNANSWERED_MAX => {
                WaitReason::Answer
            }
            Ok(reach) => return Ok(reach),
            // What is spent is not gone around.
            Err(Missing::Wait(WaitReason::Budget)) => return Err((WaitReason::Budget, later)),
            Err(Missing::Wait(why)) => why,
            Err(Missing::Session) => {
                let why = without_session(trouble);
                later = earlier(later, fetch_bundle(parts, id, (FetchPurpose::Begin, pin), at));
                why
            }
            Err(Missing::First(terms)) => first::begin_invitation(parts, id, carrier, &terms, at),
        };
        first = first.or(Some(why));
    }
    Err((first.unwrap_or(WaitReason::NoCarrier), later))
}

/// Asks for the bundle of a contact; when it can be asked for again. Once both sides have answered, only
/// a carrier that the conversation may take is asked (MSG-21): whose bundle is fetched, and when, tells a
/// relay who talks to whom.
fn fetch_bundle<P: Port>(
    parts: &mut Parts<P>,
    id: ContactId,
    (purpose, pin): (FetchPurpose, u8),
    at: &mut At<'_>,
) -> Option<Time> {
    let allowed = parts.contacts.get(id)?.policy.candidates().to_vec();
    let (to, carriers) = parts.facts_for_carriers(id)?;
    let by = if to.is_open { allowed } else { carriers.carrier_ids() };
    by.iter()
        .fold(None, |later, by| earlier(later, carriers.fetch_bundle(*by, &to, purpose, pin, at)))
}

/// Says without a note of the person what is owed, if it may go now; when it can be tried again.
fn send_owed<P: Port>(parts: &mut Parts<P>, id: ContactId, at: &mut At<'_>) -> Option<Time> {
    let to = parts.contact_facts(id)?;
    let owed = parts.outbox.owed(id)?;
    let renew = to.session.renew;
    let says = parts.carriers.has_to_say(&to, at.now);
    // Nothing is owed, so no parcel leaves that would only show activity.
    if !owed.has_any() && !renew && !says {
        return None;
    }
    let contact = parts.contacts.get(id)?;
    // Send nothing to a contact in phase `Held` (card only) until the user writes first: what is owed
    // goes with that note (MSG-107).
    if contact.phase == ContactPhase::Held {
        return None;
    }
    // Owed items wait for a carrier at the level of their cause (MSG-20).
    let pin = contact.policy.level_min.max(owed.level);
    let reach = match find_route(parts, id, (pin, None), at) {
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
        // Receipts have a pace: a contact can cause them without limit (MSG-27).
        if let Err(later) = parts.outbox.may_receipt(id, at.now) {
            return Some(later);
        }
    }
    seal::seal_note(parts, id, None, reach, at);
    None
}

/// Why a note waits whose contact has no session.
fn without_session(trouble: Option<DeliveryProblem>) -> WaitReason {
    match trouble {
        Some(DeliveryProblem::Bundle(_)) => WaitReason::Bundle,
        _ => WaitReason::Keys,
    }
}
