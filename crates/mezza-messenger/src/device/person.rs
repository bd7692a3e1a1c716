//! Commands of the user, after they were admitted.

use alloc::string::String;
use alloc::vec::Vec;

use super::admit::{Admitted, Whom};
use super::{Parts, contact, first, own_card};
use crate::card::{Card, RelayEntry};
use crate::carriers::Port;
use crate::contacts::ContactPhase;
use crate::error::DeviceError;
use crate::evidence::WaitReason;
use crate::io::{At, Command, ContactId, DateStep, Event, Forget, NoteId, ResetCause};
use crate::outbox::Owe;
use crate::policy::Policy;
use crate::profile::Profile;
use crate::threads::Draft;
use crate::view::VerificationMethod;

/// A new identity over these carriers.
pub(super) fn create<P: Port>(
    mut carriers: P,
    name: &str,
    relays: &[RelayEntry],
    at: &mut At<'_>,
) -> Result<Parts<P>, DeviceError> {
    own_card::name(name)?;
    let plan = carriers.plan(relays, at.now, at.rng)?;
    let card_parts = carriers.card_parts(&plan, at.now);
    let profile = Profile::create::<P::Backend>(name, card_parts, at.now, at.rng);
    let profile = profile.map_err(own_card::refused)?;
    profile.store(at.step);
    carriers.adopt(plan, at);
    Ok(Parts::new(profile, carriers))
}

/// Does what was admitted.
pub(super) fn perform<P: Port>(parts: &mut Parts<P>, admitted: Admitted, at: &mut At<'_>) {
    match admitted {
        Admitted::Nothing => {}
        Admitted::Command(command) => obey(parts, command, at),
        Admitted::Add { to, card, petname, in_person } => {
            let id = add(parts, to, card, at);
            parts.contacts.rename(id, petname, at.step);
            if in_person {
                let how = Some((VerificationMethod::InPerson, at.now));
                parts.contacts.verify(id, how, at.step);
            }
            // To add somebody who has asked is to accept.
            if parts.contacts.get(id).is_some_and(|c| c.phase == ContactPhase::Request) {
                let_in(parts, id, at);
            }
            at.step.touch(id);
        }
        Admitted::Publish { card, plan } => own_card::adopt(parts, card, plan, at),
    }
}

fn obey<P: Port>(parts: &mut Parts<P>, command: Command, at: &mut At<'_>) {
    match command {
        Command::Send { contact, client, text } => send(parts, contact, client, text, at),
        Command::Cancel { note } => {
            contact::give_up(parts, note, at);
            contact::remove_note(parts, note, at);
        }
        Command::Forget { note } => {
            let note_of = parts.threads.get(note);
            if note_of.is_some_and(|note| !note.incoming && !note.is_delivered()) {
                contact::give_up(parts, note, at);
            }
            contact::remove_note(parts, note, at);
        }
        Command::SendAgain { note, client } => send_again(parts, note, client, at),
        Command::Seen { contact, note } => seen(parts, contact, note, at),
        Command::Accept { contact } => let_in(parts, contact, at),
        Command::Refuse { contact } => refuse(parts, contact, at),
        Command::Rename { contact, name } => parts.contacts.rename(contact, Some(name), at.step),
        Command::Verify { contact, equal } => {
            let how = equal.then_some((VerificationMethod::Number, at.now));
            parts.contacts.verify(contact, how, at.step);
        }
        Command::Policy { contact, policy } => set_policy(parts, contact, policy, at),
        Command::Block { contact, blocked } => block(parts, contact, blocked, at),
        Command::Delete { contact } => delete(parts, contact, at),
        Command::Reset { contact } => {
            first::leave_lost_chains(parts, contact, at);
            parts.sessions.renew(contact, at.step);
            parts.outbox.owe(contact, Owe::Reset(ResetCause::Person), at.step);
        }
        Command::CorrectDate(date) => correct_date(parts, &date, at),
        Command::Restored => restored(parts, at),
        Command::Rotate => parts.sessions.rotate(at),
        Command::Refill => {
            let (stock, under_way) = parts.carriers.stock();
            parts.sessions.refill(u32::from(stock.unwrap_or(0)) + under_way, at);
        }
        // Both were computed before.
        Command::Add { .. } | Command::Publish { .. } => {}
    }
}

/// A card that the person has scanned or pasted.
fn add<P: Port>(parts: &mut Parts<P>, to: Whom, card: Card, at: &mut At<'_>) -> ContactId {
    match to {
        Whom::Contact(id) => {
            parts.contacts.replace_card(id, card, at.step);
            contact::moved(parts, id, true, at);
            id
        }
        Whom::Inviter(id) => {
            // The card tells who it is.
            let session = parts.sessions.facts(id).id;
            let way = parts.carriers.unmask(id, session, at);
            contact::enter(parts, id, card, (ContactPhase::Request, contact::answered_by(way)), at);
            id
        }
        Whom::New => {
            let id = parts.profile.contact_number(at.step);
            parts.sessions.know(id, *card.ik());
            contact::enter(parts, id, card, (ContactPhase::Held, Policy::default()), at);
            id
        }
    }
}

/// The date was corrected: what was stamped by the date before moves with it, so that nothing ends by the
/// correction (MSG-104).
fn correct_date<P: Port>(parts: &mut Parts<P>, date: &DateStep, at: &mut At<'_>) {
    parts.threads.correct(date, at.now, at.step);
    parts.outbox.correct(date, at.now, at.step);
    parts.sessions.correct(date, at.now, at.step);
    parts.carriers.correct(date, at);
    at.step.touch_all();
}

/// This vault was put back from a copy, or may have been: no number, no session and no prekey of it is used
/// as if nobody else had (MSG-91).
fn restored<P: Port>(parts: &mut Parts<P>, at: &mut At<'_>) {
    let all: Vec<ContactId> = parts.contacts.iter().map(|(id, _)| id).collect();
    for id in all {
        let is_held = parts.contacts.get(id).is_some_and(|c| c.phase == ContactPhase::Held);
        if is_held && parts.outbox.next_seq(id) == 1 {
            // Nothing was sealed for it, so that there is nothing to say: it does not know us (MSG-107).
            contact::draw_era(parts, id, at);
        } else {
            contact::begin_era(parts, id, at);
        }
    }
    parts.sessions.rotate(at);
}

/// A request becomes a contact: hello and receipt go at once.
fn let_in<P: Port>(parts: &mut Parts<P>, id: ContactId, at: &mut At<'_>) {
    parts.contacts.let_in(id, at.step);
    parts.outbox.owe(id, Owe::Hello, at.step);
    contact::owe_receipt(parts, id, at);
    at.step.touch(id);
}

fn send<P: Port>(
    parts: &mut Parts<P>,
    id: ContactId,
    client: [u8; 16],
    text: String,
    at: &mut At<'_>,
) {
    let Some(contact) = parts.contacts.get(id) else { return };
    let note = parts.profile.note_number(at.step);
    let draft = Draft {
        contact: id,
        client,
        text,
        era: contact::own_era(parts, id),
        timer_s: contact.policy.timer_s,
        pin: contact.policy.level_min,
        at: at.now,
    };
    parts.threads.write(note, draft, at.step);
    parts.outbox.queue(id, note);
    parts.carriers.wrote(id, at.now);
    at.step.touch(id);
}

/// Sends a note that a restore has left open.
fn send_again<P: Port>(parts: &mut Parts<P>, id: NoteId, client: [u8; 16], at: &mut At<'_>) {
    let Some(note) = parts.threads.get(id) else { return };
    let contact = note.contact;
    if parts.outbox.is_unsure(contact, id) {
        parts.threads.wait(id, WaitReason::Sending, at.step);
        parts.outbox.queue(contact, id);
    } else if let (Some(text), Some(to)) = (note.text().cloned(), parts.contacts.get(contact)) {
        let sent = note.sent;
        let draft = Draft {
            contact,
            client,
            text,
            era: contact::own_era(parts, contact),
            timer_s: to.policy.timer_s,
            pin: to.policy.level_min.max(note.level_min),
            at: at.now,
        };
        let copy = parts.profile.note_number(at.step);
        parts.threads.write_copy(copy, draft, sent, at.step);
        parts.outbox.queue(contact, copy);
    }
    parts.outbox.change_aftermath(contact, at.step, |left| left.settle(id));
    parts.carriers.wrote(contact, at.now);
    at.step.show(Event::State(contact, id));
    at.step.show(Event::Contact(contact));
    at.step.touch(contact);
}

fn seen<P: Port>(parts: &mut Parts<P>, id: ContactId, last: NoteId, at: &mut At<'_>) {
    let contact = parts.contacts.get(id);
    let says = contact.is_some_and(|contact| contact.policy.read && contact.is_ours());
    if parts.threads.see(id, last, says, at.step) {
        parts.outbox.owe(id, Owe::Read, at.step);
    }
}

fn refuse<P: Port>(parts: &mut Parts<P>, id: ContactId, at: &mut At<'_>) {
    at.step.show(Event::Request(id));
    if contact::is_inviter(parts, id) {
        parts.carriers.forget(id, Forget::All, at);
        parts.sessions.forget(id, at.step);
    } else {
        delete(parts, id, at);
    }
}

/// Blocks a contact: nothing is sent from now on, not even parcels sealed before. Their items are owed again
/// at the end of it (MSG-26).
fn block<P: Port>(parts: &mut Parts<P>, id: ContactId, blocked: bool, at: &mut At<'_>) {
    parts.contacts.block(id, blocked, at.step);
    if blocked {
        contact::requeue(parts, id, at);
    }
    contact::allow(parts, id, at);
    at.step.touch(id);
}

/// Another policy. A raised lowest level holds for notes that wait, a lower one does not.
fn set_policy<P: Port>(parts: &mut Parts<P>, id: ContactId, policy: Policy, at: &mut At<'_>) {
    let Some(contact) = parts.contacts.get(id) else { return };
    if contact.policy.timer_s != policy.timer_s {
        if contact.is_open() {
            parts.outbox.owe(id, Owe::Timer, at.step);
        } else {
            parts.outbox.open_timer(id, at.step);
        }
    }
    let allowed = policy.candidates().to_vec();
    let level_min = policy.level_min;
    parts.contacts.set_policy(id, policy, at.step);
    parts.threads.raise(id, level_min, at.step);
    contact::allow(parts, id, at);
    at.step.touch(id);
    // What is on its way to a carrier that the conversation does not allow any more goes another
    // way: under the same numbers, so that nothing is shown twice.
    let strays = |invitation: bool| {
        let own = parts.outbox.parcels_of(id).map(|(_, parcel)| &parcel.route);
        let mut strays = own.filter(|route| !allowed.contains(&route.carrier));
        strays.any(|route| route.invitation || !invitation)
    };
    let any = strays(false);
    let invitation = strays(true);
    // The session of an invitation goes with it, and so do the chains that come from it.
    if invitation {
        parts.carriers.forget(id, Forget::Chains, at);
    }
    if any {
        contact::requeue(parts, id, at);
    }
}

/// Deletes a contact with everything that hangs on it.
fn delete<P: Port>(parts: &mut Parts<P>, id: ContactId, at: &mut At<'_>) {
    parts.threads.forget(id, at.step);
    let dropped = parts.outbox.forget(id, at.step);
    parts.carriers.retract(&dropped, at);
    parts.carriers.forget(id, Forget::All, at);
    parts.sessions.forget(id, at.step);
    parts.contacts.remove(id, at.step);
}
