//! What came in: the one parser of parcels, and what the notes in them bring about (messenger 5.5).

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use mezza_core::Time;
use mezza_ratchet::{Exporter, IdentityKey, OpenError, Opened, SuiteList, wire};

use super::{Parts, admit, first, leave, person};
use crate::card::Card;
use crate::carriers::{Port, Welcome};
use crate::contacts::ContactPhase;
use crate::evidence::{Fact, FactKind};
use crate::io::{
    Arrival, ArrivalOrigin, At, By, ContactId, DeliveryProblem, Event, Forget, RATCHET_MESSAGE,
    ResetCause,
};
use crate::note::{Item, Note};
use crate::outbox::Owe;
use crate::policy::Policy;
use crate::receipt::Receipt;
use crate::sessions::Unopened;
use crate::threads::{Keeping, Received};
use crate::view::NoteContent;

/// Requests that wait for the person (MSG-35); mail of further strangers stays at the relay.
const REQUESTS_MAX: usize = 64;

/// A parcel. Whatever it is, the carrier may forget it afterwards, except that of a stranger for
/// whom there is no room.
pub(super) fn parcel<P: Port>(parts: &mut Parts<P>, arrival: &Arrival, at: &mut At<'_>) {
    let by = By { carrier: arrival.carrier, level: arrival.level };
    let taken = if let Some((&RATCHET_MESSAGE, message)) = arrival.parcel.split_first() {
        match arrival.from {
            ArrivalOrigin::Contact(id) => from_contact(parts, id, message, by, at),
            ArrivalOrigin::Stranger => stranger(parts, message, by, at),
            ArrivalOrigin::Invitation(place) => invitation(parts, place, message, by, at),
        }
    } else {
        parts.carriers.reject(arrival.carrier);
        true
    };
    if let Some(ack) = arrival.ack.filter(|_| taken) {
        parts.carriers.acknowledge(ack);
    }
}

fn from_contact<P: Port>(
    parts: &mut Parts<P>,
    id: ContactId,
    message: &[u8],
    by: By,
    at: &mut At<'_>,
) -> bool {
    if is_taken_back(message) {
        parts.carriers.reject(by.carrier);
    } else if admit::is_inviter(parts, id) {
        inviter(parts, id, message, by, at);
    } else if let Err(Unopened::Failed(error)) = open(parts, id, message, by, at) {
        unopened(parts, id, message, (error, by), at);
    }
    true
}

/// Whether the writer took this back after a part of it had left: zeros stand in place of the rest
/// (MIX-66). The last bytes of a message are a tag, which is zero for nobody.
fn is_taken_back(message: &[u8]) -> bool {
    const TAG_BYTES: usize = 16;
    message.ends_with(&[0; TAG_BYTES])
}

/// The key under which a first message was written, if it is not our own.
fn writer<P: Port>(parts: &mut Parts<P>, message: &[u8]) -> Option<IdentityKey> {
    let own = parts.profile.identity().public();
    let ik = wire::first_identity(message).filter(|ik| *ik != own);
    if ik.is_none() {
        parts.sessions.reject();
    }
    ik
}

/// Whoever invites under this key.
fn inviter_by<P: Port>(parts: &Parts<P>, ik: &IdentityKey) -> Option<ContactId> {
    let inviters = parts.carriers.inviters();
    inviters.iter().find(|inviter| inviter.ik == *ik.as_bytes()).map(|inviter| inviter.id)
}

/// Whether another stranger may wait for the person. Whose contact was set aside is no stranger:
/// the mail waits for a version that reads it.
fn has_room<P: Port>(parts: &Parts<P>, ik: &IdentityKey, now: Time) -> bool {
    let waiting = parts.contacts.requests() + parts.carriers.inviters().len();
    !parts.aside.knows(ik) && waiting < REQUESTS_MAX && parts.sessions.hears_strangers(now)
}

/// A message of a stranger opened that says nothing of what it should. The prekeys are used up all
/// the same; the session is nobody's.
fn nameless<P: Port>(parts: &mut Parts<P>, now: Time) {
    parts.sessions.nameless(now);
    parts.threads.malformed();
}

/// A message from where strangers write; `false`: there is no room for another stranger.
fn stranger<P: Port>(parts: &mut Parts<P>, message: &[u8], by: By, at: &mut At<'_>) -> bool {
    let Some(ik) = writer(parts, message) else { return true };
    if let Some(contact) = parts.contacts.by_identity(ik.as_bytes()) {
        // Anybody can send a message under this identity key. If it does not open, no bundle is
        // fetched: the fetch would show that we know this contact.
        let _ = open(parts, contact, message, by, at);
        return true;
    }
    if let Some(id) = inviter_by(parts, &ik) {
        inviter(parts, id, message, by, at);
        return true;
    }
    if !has_room(parts, &ik, at.now) {
        return false;
    }
    let Some(stranger) = parts.sessions.open_stranger(ik, message, at) else { return true };
    let Some((note, card)) = greeting(&stranger.body, &ik) else {
        nameless(parts, at.now);
        return true;
    };
    let id = parts.profile.contact_number(at.step);
    parts.sessions.adopt(id, stranger, at.step);
    parts.sessions.opened(id, message, at.step);
    request(parts, id, (card, Policy::default()), &note, by, at);
    true
}

/// An invitation. From somebody we know it is a message like any other.
fn invitation<P: Port>(
    parts: &mut Parts<P>,
    place: u32,
    message: &[u8],
    by: By,
    at: &mut At<'_>,
) -> bool {
    let Some(ik) = writer(parts, message) else { return true };
    if let Some(contact) = parts.contacts.by_identity(ik.as_bytes()) {
        // Anybody can invite under this identity key. If the message does not open, nothing begins.
        let _ = open(parts, contact, message, by, at);
        return true;
    }
    let known = inviter_by(parts, &ik);
    if known.is_none() && !has_room(parts, &ik, at.now) {
        return true;
    }
    // The same invitation comes again, until it is answered: the first one has used its keys.
    let Some(mut stranger) = parts.sessions.open_stranger(ik, message, at) else { return true };
    if let Some(known) = known {
        parts.carriers.forget(known, Forget::All, at);
        parts.sessions.forget(known, at.step);
    }
    let items = Note::decode(&stranger.body).map_or_else(|_| Vec::new(), |note| note.items);
    let id = parts.profile.next_contact();
    let welcomed = stranger.exporter.take().is_some_and(|exporter| {
        let welcome = Welcome { id, ik, place, items: &items, exporter };
        parts.carriers.welcome(by.carrier, welcome, at)
    });
    if welcomed {
        parts.profile.contact_number(at.step);
        parts.sessions.adopt(id, stranger, at.step);
        at.step.show(Event::Request(id));
    } else {
        nameless(parts, at.now);
    }
    true
}

/// A message of whoever invites: with the card of this key inside it makes a request like that of
/// any stranger, to be answered the way it came.
fn inviter<P: Port>(parts: &mut Parts<P>, id: ContactId, message: &[u8], by: By, at: &mut At<'_>) {
    let inviters = parts.carriers.inviters();
    let Some(facts) = inviters.iter().find(|inviter| inviter.id == id) else { return };
    let Ok(opened) = parts.sessions.open(id, message, at) else { return };
    let card = Note::decode(&opened.body).ok().and_then(|note| {
        let card = card_in(&note).filter(|card| *card.ik().as_bytes() == facts.ik)?;
        Some((note, card))
    });
    let Some((note, card)) = card else { return parts.threads.malformed() };
    let session = parts.sessions.facts(id).id.filter(|_| !opened.first);
    let way = parts.carriers.unmask(id, session, at);
    let policy = person::answered_by(way.filter(|(carrier, _)| *carrier == by.carrier));
    request(parts, id, (card, policy), &note, by, at);
}

/// Somebody waits for the person to let them in.
fn request<P: Port>(
    parts: &mut Parts<P>,
    id: ContactId,
    (card, policy): (Card, Policy),
    note: &Note,
    by: By,
    at: &mut At<'_>,
) {
    enter(parts, id, card, (ContactPhase::Request, policy), at);
    apply(parts, id, note, None, by, at);
    at.step.show(Event::Request(id));
}

/// A contact is there from now on.
pub(super) fn enter<P: Port>(
    parts: &mut Parts<P>,
    id: ContactId,
    card: Card,
    how: (ContactPhase, Policy),
    at: &mut At<'_>,
) {
    parts.contacts.add(id, card, how, at.step);
    parts.threads.open(id);
    parts.outbox.open(id, at.step);
    leave::allow(parts, id, at);
}

/// Opens a message of a contact and does what it says. With a new session, what could not be opened
/// before may open now.
fn open<P: Port>(
    parts: &mut Parts<P>,
    id: ContactId,
    message: &[u8],
    by: By,
    at: &mut At<'_>,
) -> Result<(), Unopened> {
    if parts.contacts.get(id).is_none_or(|contact| contact.blocked) {
        return Ok(());
    }
    let message = parts.sessions.open(id, message, at)?;
    let first = message.first;
    opened(parts, id, message, by, at);
    if first {
        for (message, by) in parts.sessions.retry(id, by, at) {
            opened(parts, id, message, by, at);
        }
    }
    Ok(())
}

fn opened<P: Port>(parts: &mut Parts<P>, id: ContactId, message: Opened, by: By, at: &mut At<'_>) {
    // A session that the other side began needs our hello.
    if message.first {
        parts.outbox.owe(id, Owe::Hello, at.step);
    }
    let suite = |trouble: &DeliveryProblem| matches!(trouble, DeliveryProblem::Suite(_));
    parts.contacts.clear_trouble(id, suite, at.step);
    if message.first {
        let unopened = |trouble: &DeliveryProblem| *trouble == DeliveryProblem::Unopened;
        parts.contacts.clear_trouble(id, unopened, at.step);
    }
    at.step.touch(id);
    let Ok(note) = Note::decode(&message.body) else { return parts.threads.malformed() };
    let invites = message.exporter.is_some() && parts.carriers.invites(&note.items);
    let open = parts.contacts.get(id).is_some_and(crate::contacts::Contact::is_open);
    if invites && open && parts.outbox.wants_again(id, at.now, at.step) {
        // Whoever invites again has lost the old chains, and what was under way in them.
        leave::requeue(parts, id, at);
        parts.carriers.forget(id, Forget::Chains, at);
    }
    apply(parts, id, &note, message.exporter, by, at);
}

/// A message that no session opened. What may be a session in trouble is kept for a day and
/// answered with a new session; what is certainly useless is not (MSG-30).
fn unopened<P: Port>(
    parts: &mut Parts<P>,
    id: ContactId,
    message: &[u8],
    (error, by): (OpenError, By),
    at: &mut At<'_>,
) {
    let lost = match error {
        OpenError::NoSession
        | OpenError::UnknownPrekey(_)
        | OpenError::Forged
        | OpenError::TooFar(_) => true,
        // The contact goes on in a session of another suite of ours.
        OpenError::SuiteMismatch { message, .. } => SuiteList::ours().holds(message),
        _ => false,
    };
    let foreign = matches!(
        error,
        OpenError::SuiteUnsupported(_)
            | OpenError::SuiteMismatch { .. }
            | OpenError::SuiteDowngrade
    );
    if foreign && !lost {
        parts.contacts.trouble(id, DeliveryProblem::Suite(error), at.step);
    }
    let request = |contact: &crate::contacts::Contact| contact.phase == ContactPhase::Request;
    if lost && !foreign && parts.contacts.get(id).is_some_and(crate::contacts::Contact::is_open) {
        parts.contacts.trouble(id, DeliveryProblem::Unopened, at.step);
    }
    if lost
        && !parts.contacts.get(id).is_none_or(request)
        && parts.sessions.keep(id, message, by, at)
    {
        parts.outbox.owe(id, Owe::Reset(ResetCause::Lost), at.step);
    }
    at.step.touch(id);
}

/// A note with the card of its writer inside.
fn greeting(body: &[u8], ik: &IdentityKey) -> Option<(Note, Card)> {
    let note = Note::decode(body).ok()?;
    let card = card_in(&note).filter(|card| card.ik() == ik)?;
    Some((note, card))
}

fn card_in(note: &Note) -> Option<Card> {
    note.items.iter().find_map(|item| match item {
        Item::Hello { card, .. } => Card::decode(card).ok(),
        _ => None,
    })
}

/// Applies a note that opened in a session of `id`. Nothing in it can make this fail: what is
/// no note of this format is counted and left out.
fn apply<P: Port>(
    parts: &mut Parts<P>,
    id: ContactId,
    note: &Note,
    exporter: Option<Exporter>,
    by: By,
    at: &mut At<'_>,
) {
    parts.contacts.answered(id, at.step);
    let (mut body, mut again, mut learnt) = (None, false, false);
    let kept = compare(parts, id, &note.items);
    for item in &note.items {
        match item {
            Item::Text(text) => body = body.or(Some(NoteContent::Text(text.clone()))),
            Item::Unknown(_) => body = body.or(Some(NoteContent::Newer)),
            Item::Hello { slot, card, .. } => {
                if slot.is_some() {
                    parts.contacts.clear_trouble(id, |_| true, at.step);
                }
                learnt |= learn(parts, id, card, at);
            }
            Item::Card(card) => learnt |= learn(parts, id, card, at),
            Item::Receipt(receipt) => prove(parts, id, (receipt, &kept), by, at),
            Item::Timer(s) => parts.contacts.agree_timer(id, *s, at.step),
            Item::Reset(cause) => {
                at.step.show(Event::Anew(id, cause_of(*cause)));
                again = true;
            }
            Item::Retry => again = true,
            Item::Void { era, from, to } => {
                if parts.threads.void(id, *era, (*from, *to), at.step) && owes(parts, id) {
                    parts.outbox.owe(id, Owe::Receipt, at.step);
                    parts.outbox.owe(id, Owe::Answer(*era, *from, *to), at.step);
                }
            }
            // For the carriers, beside receipts, and behind the others.
            Item::Meet(_) | Item::Kept(_) | Item::Bundle(_) => {}
        }
    }
    if learnt {
        leave::moved(parts, id, false, at);
    }
    let told = note.items.iter().rev().find_map(|item| match item {
        Item::Bundle(bundle) => Some(bundle),
        _ => None,
    });
    if let Some(bundle) = told {
        first::told(parts, id, bundle, at);
    }
    if let Some(from) = leave::facts(&parts.contacts, &parts.sessions, &parts.outbox, id) {
        parts.carriers.told(&from, &note.items, exporter, at);
    }
    if again && parts.outbox.wants_again(id, at.now, at.step) {
        leave::requeue(parts, id, at);
    }
    if note.seq > 0 {
        keep(parts, id, note, body.unwrap_or(NoteContent::Newer), by, at);
    }
    parts.outbox.caused(id, by.level, at.step);
    at.step.touch(id);
}

/// A card that came under the ratchet; whether it may be another one than before.
fn learn<P: Port>(parts: &mut Parts<P>, id: ContactId, card: &[u8], at: &mut At<'_>) -> bool {
    let learnt = parts.contacts.learn_card(id, card, at.step);
    if !learnt {
        parts.threads.malformed();
    }
    learnt
}

fn cause_of(number: u8) -> ResetCause {
    match number {
        1 => ResetCause::Restored,
        2 => ResetCause::Lost,
        _ => ResetCause::Person,
    }
}

/// Whether a contact is told what has arrived.
fn owes<P: Port>(parts: &Parts<P>, id: ContactId) -> bool {
    parts.contacts.get(id).is_some_and(|contact| contact.policy.delivered && contact.is_ours())
}

/// What a reader keeps under our numbers: those whose bytes are ours, or that some are not.
enum Compared {
    Ours(BTreeSet<u32>),
    Others,
}

/// Compares what a reader says that it keeps with our own notes (MSG-95).
fn compare<P: Port>(parts: &Parts<P>, id: ContactId, items: &[Item]) -> Compared {
    let era = leave::own_era(parts, id);
    let ours = items.iter().filter_map(|item| match item {
        Item::Kept(kept) if kept.era == era => Some(&kept.notes),
        _ => None,
    });
    let mut same = BTreeSet::new();
    for (seq, digest) in ours.flatten() {
        let number = parts.outbox.numbered(id, *seq);
        match number.and_then(|note| parts.threads.get(note)) {
            Some(note) if note.digest() == *digest => drop(same.insert(*seq)),
            Some(_) => return Compared::Others,
            // It was read, or is gone from here.
            None => {}
        }
    }
    Compared::Ours(same)
}

/// Own notes that the other device has, or that the other person has read.
fn prove<P: Port>(
    parts: &mut Parts<P>,
    id: ContactId,
    (receipt, kept): (&Receipt, &Compared),
    by: By,
    at: &mut At<'_>,
) {
    let read = receipt.what == Receipt::READ;
    if receipt.era != leave::own_era(parts, id) || !(read || receipt.what == Receipt::DELIVERED) {
        return;
    }
    let ahead = receipt.is_ahead(parts.outbox.next_seq(id));
    let Compared::Ours(kept) = (if ahead { &Compared::Others } else { kept }) else {
        // It is about notes that this device never wrote, so that it proves nothing of ours.
        if parts.outbox.wants_again(id, at.now, at.step) {
            leave::begin_era(parts, id, at);
        }
        return;
    };
    let what = if read { FactKind::Read } else { FactKind::Delivered };
    for (seq, note) in parts.outbox.proven(id, receipt, kept, at.step) {
        let fact = Fact { what, carrier: by.carrier, level: by.level, at: at.now };
        parts.threads.fact(note, fact, None, at.step);
        let dropped = parts.outbox.confirmed(id, (seq, note), read, at.step);
        parts.carriers.retract(&dropped, at);
    }
    if !read {
        repeat_left_out(parts, id, receipt, at);
    }
}

/// The reader lacks notes that a carrier took, and has later ones: they leave once more (MSG-93).
fn repeat_left_out<P: Port>(
    parts: &mut Parts<P>,
    id: ContactId,
    receipt: &Receipt,
    at: &mut At<'_>,
) {
    for note in parts.outbox.left_out(id, receipt) {
        let facts = parts.threads.get(note).map_or(&[][..], |note| &note.facts);
        let handed = facts.iter().filter(|fact| fact.what == FactKind::Handed).map(|fact| fact.at);
        if let Some(left) = handed.max()
            && parts.outbox.repeat(id, note, left, at.now)
        {
            parts.threads.again(note, at.step);
        }
    }
}

/// A note with a number: shown once, and receipted as often as it comes.
fn keep<P: Port>(
    parts: &mut Parts<P>,
    id: ContactId,
    note: &Note,
    body: NoteContent,
    by: By,
    at: &mut At<'_>,
) {
    let Some(contact) = parts.contacts.get(id) else { return };
    let received = Received {
        contact: id,
        era: note.era,
        seq: note.seq,
        sent: note.sent,
        timer_s: note.timer_s,
        pin: contact.policy.level_min,
        body,
        by,
        at: at.now,
    };
    let request = contact.phase == ContactPhase::Request;
    let kept = (note.era, note.seq, received.digest());
    let looked = parts.threads.look(&received, request, at.step);
    match looked {
        Keeping::Keep => {
            let number = parts.profile.note_number(at.step);
            parts.threads.receive(number, received, at.step);
        }
        Keeping::Known | Keeping::Gone => {}
        Keeping::Twice => {
            parts.outbox.owe(id, Owe::Answer(note.era, u32::MAX, u32::MAX), at.step);
            return parts.contacts.trouble(id, DeliveryProblem::Twice, at.step);
        }
        Keeping::Leave => return,
        Keeping::Refuse => return parts.threads.malformed(),
    }
    if !owes(parts, id) {
        return;
    }
    parts.outbox.owe(id, Owe::Receipt, at.step);
    if looked != Keeping::Gone {
        parts.outbox.keep(id, kept, at.step);
    }
}
