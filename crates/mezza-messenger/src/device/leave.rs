//! What leaves: which way a note may take, sealing it, handing it to the carrier.
//!
//! Notes are sealed as late as possible, so that what waits burns no chain keys (messenger 5.3).

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use mezza_core::{Backend, Time};

use super::{Parts, carried, first, receipts};
use crate::carriers::Port;
use crate::contacts::{ContactPhase, Contacts};
use crate::evidence::WaitReason;
use crate::io::{
    At, CarrierId, ContactFacts, ContactId, DeliveryProblem, Dropped, Due, FetchPurpose, Forget,
    Handover, HelloPlace, Leaving, Missing, NoteId, ParcelId, RATCHET_MESSAGE, Reach,
};
use crate::note::{Era, Item, Note};
use crate::outbox::{Outbox, Owe, Owed, Parcel, Reached, Sealed, Spoken, UNANSWERED_MAX};
use crate::sessions::Sessions;

/// Voids in one note, oldest first; they are said until a receipt passes them.
const VOIDS_IN_NOTE: usize = 24;
/// What leaves may make a carrier say something at once, so many times in one step.
const ROUNDS_MAX: usize = 8;

/// What carriers may know of a contact.
pub(super) fn facts<'a, B: Backend>(
    contacts: &'a Contacts,
    sessions: &Sessions<B>,
    outbox: &Outbox,
    id: ContactId,
) -> Option<ContactFacts<'a>> {
    let contact = contacts.get(id)?;
    Some(ContactFacts {
        id,
        card: &contact.card,
        is_ours: contact.is_ours(),
        is_open: contact.is_open(),
        invited: outbox.invites(id),
        trouble: contact.trouble,
        session: sessions.facts(id),
    })
}

/// Does whatever follows from what the step holds until all is quiet.
pub(super) fn settle<P: Port>(parts: &mut Parts<P>, at: &mut At<'_>) {
    carried::drain(parts, at);
    for _ in 0..ROUNDS_MAX {
        pump(parts, at);
        if !carried::drain(parts, at) {
            break;
        }
    }
}

/// Seals what may leave and hands it over.
fn pump<P: Port>(parts: &mut Parts<P>, at: &mut At<'_>) {
    let mut ids: BTreeSet<ContactId> = core::mem::take(&mut at.step.touched);
    if core::mem::take(&mut at.step.touches_all) {
        ids.extend(parts.contacts.iter().map(|(id, _)| id));
    }
    ids.extend(parts.outbox.agenda());
    ids.extend(parts.sessions.agenda());
    for id in ids {
        let later = look_at(parts, id, at);
        at.step.timer(Due::Look(id), later);
    }
    hand_over(parts, at);
}

fn earlier(a: Option<Time>, b: Option<Time>) -> Option<Time> {
    a.into_iter().chain(b).min()
}

/// Seals what may leave for one contact; when there is more to be done for it.
fn look_at<P: Port>(parts: &mut Parts<P>, id: ContactId, at: &mut At<'_>) -> Option<Time> {
    let contact = parts.contacts.get(id).filter(|contact| contact.is_ours())?;
    let (pin, best) = (contact.policy.level_min, contact.policy.carriers.first().copied());
    let mut later = None;
    if let Some(to) = facts(&parts.contacts, &parts.sessions, &parts.outbox, id)
        && best.is_some_and(|best| parts.carriers.wants_bundle(best, &to, at.now))
    {
        later = fetch(parts, id, (FetchPurpose::Hold, pin), at);
    }
    first::upgrade_suite(parts, id, at);
    first::begin_from_told(parts, id, pin, at);
    for note in parts.outbox.waiting(id) {
        later = earlier(later, write(parts, id, note, at));
    }
    earlier(later, speak(parts, id, at))
}

/// Seals a note of the person, if it may leave now; when it can be tried again.
fn write<P: Port>(
    parts: &mut Parts<P>,
    id: ContactId,
    note: NoteId,
    at: &mut At<'_>,
) -> Option<Time> {
    let pin = parts.threads.get(note).map_or(1, |note| note.level_min);
    let reach = match way(parts, id, (pin, true), at) {
        Ok(reach) => reach,
        Err((why, later)) => {
            parts.threads.wait(note, why, at.step);
            return later;
        }
    };
    match parts.outbox.reach(id, note, at.now) {
        Reached::Yes => return seal_in_turn(parts, id, note, reach, at),
        Reached::After(oldest) => {
            parts.threads.again(oldest, at.step);
            parts.threads.wait(note, WaitReason::Answer, at.step);
            return seal_in_turn(parts, id, oldest, reach, at);
        }
        Reached::No => {}
        Reached::Later(later) => {
            parts.threads.wait(note, WaitReason::Answer, at.step);
            return Some(later);
        }
    }
    parts.threads.wait(note, WaitReason::Answer, at.step);
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
    if parts.threads.get(note).is_some_and(|note| note.again)
        && let Err(later) = parts.outbox.may_repeat(id, at.now)
    {
        return Some(later);
    }
    seal(parts, id, Some(note), reach, at);
    None
}

/// The way to a contact that may be taken now: the first carrier of the list that can; if none can,
/// why the first of them cannot, and when that may be over.
fn way<P: Port>(
    parts: &mut Parts<P>,
    id: ContactId,
    (pin, own): (u8, bool),
    at: &mut At<'_>,
) -> Result<Reach, (WaitReason, Option<Time>)> {
    let contact = parts.contacts.get(id).ok_or((WaitReason::Keys, None))?;
    let (mut first, mut later) = (None, None);
    for carrier in contact.policy.candidates().to_vec() {
        let Some(to) = facts(&parts.contacts, &parts.sessions, &parts.outbox, id) else { break };
        let why = match parts.carriers.route(carrier, &to, (pin, own), at) {
            Ok(_) if !to.is_open && parts.outbox.unanswered(id).count() >= UNANSWERED_MAX => {
                WaitReason::Answer
            }
            Ok(reach) => return Ok(reach),
            // What is spent is not gone around.
            Err(Missing::Wait(WaitReason::Budget)) => return Err((WaitReason::Budget, later)),
            Err(Missing::Wait(why)) => why,
            Err(Missing::Session) => {
                let why = carried::without_session(to.trouble);
                later = earlier(later, fetch(parts, id, (FetchPurpose::Begin, pin), at));
                why
            }
            Err(Missing::First(terms)) => first::invite(parts, id, carrier, &terms, at),
        };
        first = first.or(Some(why));
    }
    Err((first.unwrap_or(WaitReason::NoCarrier), later))
}

/// Asks for the bundle of a contact; when it can be asked for again. Once both sides have answered, only
/// a carrier that the conversation may take is asked (MSG-21): whose bundle is fetched, and when, tells a
/// relay who talks to whom.
fn fetch<P: Port>(
    parts: &mut Parts<P>,
    id: ContactId,
    (purpose, pin): (FetchPurpose, u8),
    at: &mut At<'_>,
) -> Option<Time> {
    let to = facts(&parts.contacts, &parts.sessions, &parts.outbox, id)?;
    let policy = &parts.contacts.get(id)?.policy;
    let carriers = &mut parts.carriers;
    let by = if to.is_open { policy.candidates().to_vec() } else { carriers.ids() };
    by.iter().fold(None, |later, by| earlier(later, carriers.fetch(*by, &to, purpose, pin, at)))
}

/// How each carrier may serve a contact: not at all where it is blocked (MSG-26), and by a carrier of the
/// list at the lowest level of the conversation. By another one nothing leaves, but who writes is heard.
pub(super) fn allow<P: Port>(parts: &mut Parts<P>, id: ContactId, at: &mut At<'_>) {
    let Some(contact) = parts.contacts.get(id) else { return };
    for carrier in parts.carriers.ids() {
        let listed = contact.policy.candidates().contains(&carrier);
        let level_min = if listed { contact.policy.level_min } else { 1 };
        parts.carriers.allow(carrier, id, (!contact.blocked).then_some(level_min), at);
    }
}

/// A carrier hides less than what it has in hand asks for: that comes back (MSG-20). What nobody is
/// served for at this level need not.
pub(super) fn recall<P: Port>(
    parts: &mut Parts<P>,
    (carrier, level): (CarrierId, u8),
    at: &mut At<'_>,
) {
    let above = |parcel: &Parcel| {
        let served = parts.contacts.get(parcel.contact).map_or(1, |of| of.policy.level_min);
        let ours = parcel.route.carrier == carrier && !parcel.confirmed;
        ours && served <= level && level_min(parts, parcel) > level
    };
    let above = parts.outbox.parcels().filter(|(_, parcel)| above(parcel));
    let above = above.map(|(id, parcel)| Dropped {
        id,
        contact: parcel.contact,
        bytes: parcel.bytes.clone(),
    });
    let above: Vec<Dropped> = above.collect();
    let ids: Vec<ParcelId> = above.iter().map(|parcel| parcel.id).collect();
    parts.carriers.retract(&above, at);
    parts.outbox.returned(&ids, at.now, at.step);
}

/// Says without a note of the person what is owed, if it may go now; when it can be tried again.
fn speak<P: Port>(parts: &mut Parts<P>, id: ContactId, at: &mut At<'_>) -> Option<Time> {
    let to = facts(&parts.contacts, &parts.sessions, &parts.outbox, id)?;
    let owed = parts.outbox.owed(id)?;
    let renew = to.session.renew;
    let says = parts.carriers.has_to_say(&to, at.now);
    if !owed.any() && !renew && !says {
        return None;
    }
    let contact = parts.contacts.get(id)?;
    // A contact of whom we hold the card alone hears nothing before the person writes.
    if contact.phase == ContactPhase::Held && !renew && owed.anew.is_none() {
        return None;
    }
    let pin = contact.policy.level_min.max(owed.level);
    let reach = match way(parts, id, (pin, false), at) {
        Ok(reach) => reach,
        Err((_, later)) => return later,
    };
    let owed = parts.outbox.owed(id)?;
    if !parts.outbox.has_room(id) {
        return None;
    }
    if !says && !owed.is_urgent() {
        let hello = owed.hello && reach.place != HelloPlace::NotYet;
        if !hello && !owed.receipt && !owed.read && owed.answers.is_empty() {
            return None;
        }
        if let Err(later) = parts.outbox.may_receipt(id, at.now) {
            return Some(later);
        }
    }
    seal(parts, id, None, reach, at);
    None
}

/// Seals a note of the person (or none, for what is owed alone) into a parcel.
fn seal<P: Port>(
    parts: &mut Parts<P>,
    id: ContactId,
    note: Option<NoteId>,
    reach: Reach,
    at: &mut At<'_>,
) {
    let Some(to) = facts(&parts.contacts, &parts.sessions, &parts.outbox, id) else { return };
    let mut items = parts.carriers.say(&to, at);
    let Some(contact) = parts.contacts.get(id) else { return };
    let owed = parts.outbox.owed(id).map_or(0, |owed| owed.level);
    let level = if note.is_none() { owed } else { 0 };
    let written = note.and_then(|note| parts.threads.get(note));
    let pin = written.map_or(contact.policy.level_min.max(level), |note| note.level_min);
    // A bundle is longer than most texts: it goes beside receipts where there are any.
    if note.is_none() || !contact.policy.delivered {
        let bundle = first::to_tell(parts, id, (reach.route.carrier, pin));
        items.extend(bundle.map(Item::Bundle));
    }
    let Some((wire, spoken)) = fitting(parts, id, note, (&reach, pin), &items, at) else { return };
    let Ok(message) = parts.sessions.seal(id, &wire.encode(), reach.paddings, at) else { return };
    let bytes = [&[RATCHET_MESSAGE], message.as_slice()].concat();
    if let Some(note) = note {
        let (number, carrier) = ((wire.era, wire.seq), reach.route.carrier);
        parts.threads.sealed(note, number, carrier, at.step);
    }
    let route = reach.route;
    let sealed = Sealed { contact: id, note, wire: &wire, spoken, route, pin, level, bytes };
    parts.outbox.sealed(sealed, at.now, at.step);
    if wire.items.iter().any(|item| matches!(item, Item::Bundle(_))) {
        parts.sessions.told(id, at.step);
    }
    let said: Vec<Item> = items.into_iter().filter(|item| wire.items.contains(item)).collect();
    if let Some(to) = facts(&parts.contacts, &parts.sessions, &parts.outbox, id) {
        parts.carriers.said(&to, &said, None, at);
    }
}

/// The fullest note that the carrier takes: with what is owed and what it says of that, else with the
/// text alone (MSG-25).
/// `None`: in a session that nobody has answered not even that fits beside what begins it, so that the
/// greeting goes ahead alone.
fn fitting<P: Port>(
    parts: &mut Parts<P>,
    id: ContactId,
    note: Option<NoteId>,
    (reach, pin): (&Reach, u8),
    items: &[Item],
    at: &mut At<'_>,
) -> Option<(Note, Option<Spoken>)> {
    let carrier = parts.carriers.state(reach.route.carrier, None, at.now);
    let bytes_max = carrier.map_or(usize::MAX, |state| state.caps.parcel_bytes_max);
    let fits = |wire: &Note| {
        let message = parts.sessions.message_bytes(id, wire.encode().len());
        message.is_some_and(|bytes| bytes + size_of_val(&RATCHET_MESSAGE) <= bytes_max)
    };
    let (full, spoken) = compose(parts, id, note, (&reach.place, pin), items.to_vec(), at.now)?;
    let Some(note) = note.filter(|_| !fits(&full)) else { return Some((full, Some(spoken))) };
    let answered = parts.contacts.get(id).is_some_and(crate::contacts::Contact::is_open);
    let bare = full.with_only(|item| match item {
        Item::Text(_) => true,
        // Without it nobody knows who writes.
        Item::Hello { .. } => !answered,
        _ => false,
    });
    if fits(&bare) {
        return Some((bare, None));
    }
    let pending = parts.sessions.facts(id).pending;
    let why = if pending { WaitReason::Answer } else { WaitReason::TooBig };
    parts.threads.wait(note, why, at.step);
    None
}

/// The note on the wire: the person's text, if any, and whatever is owed to the contact; what it says
/// of that.
fn compose<P: Port>(
    parts: &Parts<P>,
    id: ContactId,
    note: Option<NoteId>,
    (place, pin): (&HelloPlace, u8),
    further: Vec<Item>,
    now: Time,
) -> Option<(Note, Spoken)> {
    let all = parts.outbox.owed(id)?;
    // What is owed does not ride on a note that may go below the level of its cause (MSG-20).
    let nothing = Owed::default();
    let owed = if all.level <= pin { all } else { &nothing };
    let mut items = Vec::new();
    if parts.sessions.facts(id).pending || owed.hello {
        items.extend(hello(parts, place));
    }
    if let Some(cause) = owed.anew {
        items.extend([Item::Reset(cause), Item::Retry]);
    }
    let (receipts, spoken) = receipts::of(&parts.threads, id, owed);
    items.extend(receipts);
    let era = own_era(parts, id);
    let voids = all.voids.iter().take(VOIDS_IN_NOTE);
    items.extend(voids.map(|&(from, to)| Item::Void { era, from, to }));
    if owed.timer {
        items.push(Item::Timer(parts.contacts.get(id)?.policy.timer_s));
    }
    if owed.card {
        items.push(Item::Card(parts.profile.card().encode()));
    }
    let (mut seq, mut sent, mut timer_s) = (0, now, 0);
    if let Some(note) = note {
        let note = parts.threads.get(note)?;
        items.push(Item::Text(note.text()?.clone()));
        seq = if note.seq == 0 { parts.outbox.next_seq(id) } else { note.seq };
        (sent, timer_s) = (note.sent, note.timer_s);
    }
    items.extend(further);
    Some((Note { era, seq, sent, timer_s, items }, spoken))
}

/// Where the contact reaches us, and our card. A mailbox that is not open yet is said once it is;
/// without a relay of our own the tag alone says whose cells these are.
fn hello<P: Port>(parts: &Parts<P>, place: &HelloPlace) -> Option<Item> {
    let own = parts.profile.card();
    let (slot, tag) = match place {
        HelloPlace::Mailbox(mailbox) => (Some(mailbox.clone()), None),
        HelloPlace::Tag => (None, Some(own.id()[..8].try_into().unwrap_or([0; 8]))),
        HelloPlace::NotYet => return None,
    };
    Some(Item::Hello { slot, tag, card: own.encode() })
}

/// Hands over what is ready, oldest first.
fn hand_over<P: Port>(parts: &mut Parts<P>, at: &mut At<'_>) {
    for id in parts.outbox.idle(at.now) {
        if offer(parts, id, at) == Some(Handover::Out) {
            let level = parts.outbox.parcel(id).map_or(0, |out| level_of(parts, out, at.now));
            parts.outbox.out(id, level, at.now, at.step);
            if let Some(note) = parts.outbox.parcel(id).and_then(|parcel| parcel.note) {
                parts.threads.wait(note, WaitReason::Sending, at.step);
            }
        }
    }
}

fn offer<P: Port>(parts: &mut Parts<P>, id: ParcelId, at: &mut At<'_>) -> Option<Handover> {
    let parcel = parts.outbox.parcel(id)?;
    let to = facts(&parts.contacts, &parts.sessions, &parts.outbox, parcel.contact)?;
    let leaving = Leaving {
        id,
        to,
        route: &parcel.route,
        pin: level_min(parts, parcel),
        own: parcel.note.is_some(),
        times: parcel.times,
        bytes: &parcel.bytes,
    };
    Some(parts.carriers.hand(&leaving, at))
}

/// The level at which the carrier of a parcel hides it now; 1 where the carrier does not say.
pub(super) fn level_of<P: Port>(parts: &Parts<P>, parcel: &Parcel, now: Time) -> u8 {
    let to = facts(&parts.contacts, &parts.sessions, &parts.outbox, parcel.contact);
    let state = parts.carriers.state(parcel.route.carrier, to.as_ref(), now);
    state.map_or(1, |state| state.caps.level)
}

/// The pin under which a parcel may leave: its note's, else the conversation's.
fn level_min<P: Port>(parts: &Parts<P>, parcel: &Parcel) -> u8 {
    let note = parcel.note.and_then(|note| parts.threads.get(note)).map(|note| note.level_min);
    let policy = parts.contacts.get(parcel.contact).map(|contact| contact.policy.level_min);
    note.or(policy).unwrap_or(1).max(parcel.level)
}

/// Every own note without receipt is sealed anew, under the session that is active now, with its
/// era and number, and what was in parcels that are gone is owed once more.
pub(super) fn requeue<P: Port>(parts: &mut Parts<P>, id: ContactId, at: &mut At<'_>) {
    let requeued = parts.outbox.requeue(id, at.step);
    for note in requeued.notes {
        parts.threads.again(note, at.step);
    }
    parts.carriers.retract(&requeued.dropped, at);
    if requeued.invitation {
        // An invitation that nobody has read began a session that nobody knows of.
        parts.sessions.renew(id, at.step);
    }
    owe_again(parts, id, at);
}

/// The era of our notes to a contact.
pub(super) fn own_era<P: Port>(parts: &Parts<P>, id: ContactId) -> Era {
    parts.outbox.era(id).unwrap_or_else(|| parts.profile.era(id))
}

/// Another life of this vault may have written to a contact under our numbers: they begin anew in an era
/// of their own, in a new session, and what has no receipt is sealed once more (MSG-91).
pub(super) fn begin_era<P: Port>(parts: &mut Parts<P>, id: ContactId, at: &mut At<'_>) {
    let mut era = Era([0; 4]);
    at.rng.fill_bytes(&mut era.0);
    let (notes, dropped) = parts.outbox.begin_era(id, era, at.step);
    for note in notes {
        parts.threads.renumber(note, at.step);
    }
    parts.carriers.retract(&dropped, at);
    parts.carriers.forget(id, Forget::Chains, at);
    parts.sessions.renew(id, at.step);
    owe_again(parts, id, at);
    parts.contacts.trouble(id, DeliveryProblem::Twice, at.step);
}

/// What was in parcels that are gone is owed once more.
pub(super) fn owe_again<P: Port>(parts: &mut Parts<P>, id: ContactId, at: &mut At<'_>) {
    if parts.carriers.greets(id) {
        parts.outbox.owe(id, Owe::Hello, at.step);
    }
    parts.sessions.tell_again(id, at.step);
    owe_receipt(parts, id, at);
}

/// What has arrived of a contact is said again, if anything has.
pub(super) fn owe_receipt<P: Port>(parts: &mut Parts<P>, id: ContactId, at: &mut At<'_>) {
    let delivered = parts.contacts.get(id).is_some_and(|contact| contact.policy.delivered);
    if delivered && parts.threads.has_heard(id) {
        parts.outbox.owe(id, Owe::Receipt, at.step);
    }
    at.step.touch(id);
}

/// The card of a contact is another one.
pub(super) fn moved<P: Port>(parts: &mut Parts<P>, id: ContactId, by_hand: bool, at: &mut At<'_>) {
    let to = facts(&parts.contacts, &parts.sessions, &parts.outbox, id);
    let gone = to.is_some_and(|to| parts.carriers.moved(&to, by_hand, at));
    if gone && parts.outbox.wants_again(id, at.now, at.step) {
        // The contact has left: what was under way by that carrier does not arrive (MSG-97).
        parts.carriers.forget(id, Forget::Chains, at);
        requeue(parts, id, at);
    }
}
