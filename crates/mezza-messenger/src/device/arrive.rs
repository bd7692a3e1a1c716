//! Incoming traffic: the one parser of parcels, and the sessions that open them (messenger 5.5).

mod knock;

use alloc::vec::Vec;

use mezza_core::Time;
use mezza_ratchet::{IdentityKey, OpenError, Opened, SuiteList, wire};

use super::knock::card_in;
use super::{Parts, apply, contact};
use crate::card::Card;
use crate::carriers::{Port, Welcome};
use crate::contacts::{Contact, ContactPhase};
use crate::io::{
    Arrival, ArrivalOrigin, At, By, ContactId, DeliveryProblem, Event, Forget, Incoming, KNOCK,
    RATCHET_MESSAGE, ResetCause,
};
use crate::note::Note;
use crate::outbox::Owe;
use crate::policy::Policy;
use crate::sessions::Unopened;

/// Most requests that wait for the user (MSG-35). Mail of further unknown senders stays at the
/// relay.
const REQUESTS_MAX: usize = 64;

/// Handles a parcel. The carrier may delete it afterwards, except the parcel of an unknown sender
/// for whom there is no room.
pub(super) fn receive_parcel<P: Port>(parts: &mut Parts<P>, arrival: &Arrival, at: &mut At<'_>) {
    let by = By { carrier: arrival.carrier, level: arrival.level };
    let taken = if let Some((&RATCHET_MESSAGE, message)) = arrival.parcel.split_first() {
        let message = Incoming { bytes: message, outer: &arrival.outer };
        match arrival.from {
            ArrivalOrigin::Contact(id) => from_contact(parts, id, message, by, at),
            ArrivalOrigin::Stranger => receive_stranger(parts, message, by, at),
            ArrivalOrigin::Invitation(place) => receive_invitation(parts, place, message, by, at),
        }
    } else if let Some((&KNOCK, bytes)) = arrival.parcel.split_first() {
        knock::receive_knock(parts, Incoming { bytes, outer: &arrival.outer }, by, at);
        true
    } else {
        if let Some(one) = parts.carriers.carrier_mut(arrival.carrier) {
            one.count_rejected();
        }
        true
    };
    if let Some(ack) = arrival.ack.filter(|_| taken)
        && let Some(one) = parts.carriers.carrier_mut(ack.carrier)
    {
        one.acknowledge_arrival(ack);
    }
}

fn from_contact<P: Port>(
    parts: &mut Parts<P>,
    id: ContactId,
    message: Incoming<'_>,
    by: By,
    at: &mut At<'_>,
) -> bool {
    if is_taken_back(message.bytes) {
        if let Some(one) = parts.carriers.carrier_mut(by.carrier) {
            one.count_rejected();
        }
    } else if contact::is_inviter(parts, id) {
        receive_from_inviter(parts, id, message, by, at);
    } else if let Err(Unopened::Failed(error)) = open_message(parts, id, message, by, at) {
        handle_unopened(parts, id, message, error, by, at);
    }
    true
}

/// Returns true if the writer withdrew this message after a part of it had left: zeros replace the
/// rest (MIX-66). A message ends with an AEAD tag of 16 bytes, which is all zeros with probability
/// 2^-128.
fn is_taken_back(message: &[u8]) -> bool {
    const TAG_BYTES: usize = 16;
    message.ends_with(&[0; TAG_BYTES])
}

/// Returns the identity key under which a first message was written, or `None` if it is our own or
/// malformed.
fn read_writer<P: Port>(parts: &mut Parts<P>, message: &[u8]) -> Option<IdentityKey> {
    let own = parts.profile.identity().public_key();
    let ik = wire::first_identity(message).filter(|ik| *ik != own);
    if ik.is_none() {
        parts.sessions.count_rejected();
    }
    ik
}

/// Returns the inviter with this identity key.
fn inviter_by<P: Port>(parts: &Parts<P>, ik: &IdentityKey) -> Option<ContactId> {
    let inviters = parts.carriers.collect_all(|one| one.inviters());
    inviters.iter().find(|inviter| inviter.ik == *ik.as_bytes()).map(|inviter| inviter.id)
}

/// Returns true if another unknown sender may wait for the user. The owner of a quarantined contact
/// is not an unknown sender: its mail waits for a version that reads the contact.
fn has_room<P: Port>(parts: &Parts<P>, ik: &IdentityKey, now: Time) -> bool {
    let waiting =
        parts.contacts.count_requests() + parts.carriers.collect_all(|one| one.inviters()).len();
    !parts.aside.knows(ik) && waiting < REQUESTS_MAX && parts.sessions.hears_strangers(now)
}

/// Counts a message of an unknown sender that opened but does not contain the sender's card. Its
/// prekeys are used up, and its session belongs to no contact.
fn count_nameless<P: Port>(parts: &mut Parts<P>, now: Time) {
    parts.sessions.count_nameless(now);
    parts.threads.count_malformed();
}

/// Handles a message in the intro mailbox. Returns false if there is no room for another unknown
/// sender.
fn receive_stranger<P: Port>(
    parts: &mut Parts<P>,
    message: Incoming<'_>,
    by: By,
    at: &mut At<'_>,
) -> bool {
    let Some(ik) = read_writer(parts, message.bytes) else { return true };
    if let Some(contact) = parts.contacts.by_identity(ik.as_bytes()) {
        // Any device can send a message under this identity key. If the message does not open, no
        // bundle is fetched, because the fetch would reveal that we know this contact.
        let _ = open_message(parts, contact, message, by, at);
        return true;
    }
    if let Some(id) = inviter_by(parts, &ik) {
        receive_from_inviter(parts, id, message, by, at);
        return true;
    }
    if !has_room(parts, &ik, at.now) {
        return false;
    }
    let Some(stranger) = parts.sessions.open_stranger(ik, message, at) else { return true };
    let Some((note, card)) = read_greeting(&stranger.body, &ik) else {
        count_nameless(parts, at.now);
        return true;
    };
    let id = parts.profile.contact_number(at.step);
    parts.sessions.adopt_stranger(id, stranger, at.step);
    parts.sessions.remember_first(id, message.bytes, at.step);
    let contact = Contact::new(card, ContactPhase::Request, Policy::default());
    enter_request(parts, id, contact, &note, by, at);
    true
}

/// Handles an invitation. From a known contact it is an ordinary message.
fn receive_invitation<P: Port>(
    parts: &mut Parts<P>,
    place: u32,
    message: Incoming<'_>,
    by: By,
    at: &mut At<'_>,
) -> bool {
    let Some(ik) = read_writer(parts, message.bytes) else { return true };
    if let Some(contact) = parts.contacts.by_identity(ik.as_bytes()) {
        // Any device can invite under this identity key. If the message does not open, no session
        // begins.
        let _ = open_message(parts, contact, message, by, at);
        return true;
    }
    let known = inviter_by(parts, &ik);
    if known.is_none() && !has_room(parts, &ik, at.now) {
        return true;
    }
    // The same invitation is repeated until it is answered. Its first copy has used up its keys.
    let Some(mut stranger) = parts.sessions.open_stranger(ik, message, at) else { return true };
    if let Some(known) = known {
        parts.carriers.notify_all(|one| one.forget_contact(known, Forget::All, at));
        parts.sessions.forget(known, at.step);
    }
    let items = Note::decode(&stranger.body).map_or_else(|_| Vec::new(), |note| note.items);
    let id = parts.profile.next_contact();
    let welcomed = stranger.exporter.take().is_some_and(|exporter| {
        let welcome = Welcome { id, ik, place, items: &items, exporter };
        let carrier = parts.carriers.carrier_mut(by.carrier);
        carrier.is_some_and(|one| one.accept_invitation(welcome, at))
    });
    if welcomed {
        parts.profile.contact_number(at.step);
        parts.sessions.adopt_stranger(id, stranger, at.step);
        at.step.show(Event::Request(id));
    } else {
        count_nameless(parts, at.now);
    }
    true
}

/// Handles a message of an inviter. With the card of the inviter's key in it, the message becomes a
/// request, which is answered over the same carrier.
fn receive_from_inviter<P: Port>(
    parts: &mut Parts<P>,
    id: ContactId,
    message: Incoming<'_>,
    by: By,
    at: &mut At<'_>,
) {
    let inviters = parts.carriers.collect_all(|one| one.inviters());
    let Some(facts) = inviters.iter().find(|inviter| inviter.id == id) else { return };
    let Ok(opened) = parts.sessions.open_message(id, message, at) else { return };
    let card = Note::decode(&opened.body).ok().and_then(|note| {
        let card = card_in(&note).filter(|card| *card.ik().as_bytes() == facts.ik)?;
        Some((note, card))
    });
    let Some((note, card)) = card else { return parts.threads.count_malformed() };
    let session = parts.sessions.session_facts(id).id.filter(|_| !opened.first);
    let way = contact::unmask_inviter(parts, id, session, at);
    let policy = contact::answered_by(way.filter(|(carrier, _)| *carrier == by.carrier));
    let contact = Contact::new(card, ContactPhase::Request, policy);
    enter_request(parts, id, contact, &note, by, at);
}

/// Adds a request, which waits for the user's decision.
fn enter_request<P: Port>(
    parts: &mut Parts<P>,
    id: ContactId,
    contact: Contact,
    note: &Note,
    by: By,
    at: &mut At<'_>,
) {
    contact::add_contact(parts, id, contact, at);
    apply::apply_note(parts, id, note, None, by, at);
    at.step.show(Event::Request(id));
}

/// Opens a message of a contact and applies its content. If the message began a session, earlier
/// messages that did not open are tried again.
fn open_message<P: Port>(
    parts: &mut Parts<P>,
    id: ContactId,
    message: Incoming<'_>,
    by: By,
    at: &mut At<'_>,
) -> Result<(), Unopened> {
    if parts.contacts.get(id).is_none_or(|contact| contact.blocked) {
        return Ok(());
    }
    let message = parts.sessions.open_message(id, message, at)?;
    let first = message.first;
    let is_anew = first || parts.outbox.has_invitation_to(id);
    contact::on_message_arrived(parts, id, by.carrier, is_anew, at);
    apply_opened(parts, id, message, by, at);
    if first {
        for (message, by) in parts.sessions.retry_undecrypted(id, by, at) {
            apply_opened(parts, id, message, by, at);
        }
    }
    Ok(())
}

fn apply_opened<P: Port>(
    parts: &mut Parts<P>,
    id: ContactId,
    message: Opened,
    by: By,
    at: &mut At<'_>,
) {
    // The initiator of a session needs our hello.
    if message.first {
        parts.outbox.owe(id, Owe::Hello, at.step);
        // The contact may have used up the bundle that we sent it (MSG-100).
        parts.sessions.tell_again(id, at.step);
    }
    let suite = |trouble: &DeliveryProblem| matches!(trouble, DeliveryProblem::Suite(_));
    parts.contacts.clear_trouble(id, suite, at.step);
    if message.first {
        let unopened = |trouble: &DeliveryProblem| *trouble == DeliveryProblem::Unopened;
        parts.contacts.clear_trouble(id, unopened, at.step);
    }
    at.step.touch(id);
    let Ok(note) = Note::decode(&message.body) else { return parts.threads.count_malformed() };
    let invites = message.exporter.is_some()
        && parts.carriers.all_carriers().any(|one| one.is_invitation(&note.items));
    let open = parts.contacts.get(id).is_some_and(crate::contacts::Contact::is_open);
    // If two invitations cross, each side keeps the chains of both (MSG-121).
    let again = invites && open && !parts.outbox.has_invitation_to(id);
    if again && parts.outbox.wants_again(id, at.now, at.step) {
        // A contact that invites again has lost the old chains and the parcels on their way in
        // them.
        contact::requeue_notes(parts, id, at);
        parts.carriers.notify_all(|one| one.forget_contact(id, Forget::Chains, at));
    }
    apply::apply_note(parts, id, &note, message.exporter, by, at);
}

/// Handles a message that no session opened. If the session may be broken, the message is stored
/// for a day and answered with a new session. A useless message is dropped (MSG-30).
fn handle_unopened<P: Port>(
    parts: &mut Parts<P>,
    id: ContactId,
    message: Incoming<'_>,
    error: OpenError,
    by: By,
    at: &mut At<'_>,
) {
    let lost = match error {
        OpenError::NoSession
        | OpenError::UnknownPrekey(_)
        | OpenError::Forged
        | OpenError::TooFar(_) => true,
        // The contact continues in a session of another suite that we support.
        OpenError::SuiteMismatch { message, .. } => SuiteList::our_suites().has_suite(message),
        OpenError::Malformed
        | OpenError::SuiteUnsupported(_)
        | OpenError::SuiteDowngrade
        | OpenError::ReusedBaseKey
        | OpenError::Duplicate => false,
    };
    if matches!(error, OpenError::UnknownPrekey(_)) {
        // The relay gives out the bundle of another copy of this vault (MSG-128).
        parts.sessions.offer_anew(at.now);
    }
    let foreign = matches!(
        error,
        OpenError::SuiteUnsupported(_)
            | OpenError::SuiteMismatch { .. }
            | OpenError::SuiteDowngrade
    );
    if foreign && !lost {
        parts.contacts.report_trouble(id, DeliveryProblem::Suite(error), at.step);
    }
    let request = |contact: &crate::contacts::Contact| contact.phase == ContactPhase::Request;
    if lost && !foreign && parts.contacts.get(id).is_some_and(crate::contacts::Contact::is_open) {
        parts.contacts.report_trouble(id, DeliveryProblem::Unopened, at.step);
    }
    if lost {
        contact::on_message_arrived(parts, id, by.carrier, true, at);
    }
    if lost
        && !parts.contacts.get(id).is_none_or(request)
        && parts.sessions.keep(id, message, by, at)
    {
        parts.outbox.owe(id, Owe::Reset(ResetCause::Lost), at.step);
    }
    at.step.touch(id);
}

/// Returns a note with the card of its writer in it, or `None` if the card is missing or has
/// another key.
fn read_greeting(body: &[u8], ik: &IdentityKey) -> Option<(Note, Card)> {
    let note = Note::decode(body).ok()?;
    let card = card_in(&note).filter(|card| card.ik() == ik)?;
    Some((note, card))
}
