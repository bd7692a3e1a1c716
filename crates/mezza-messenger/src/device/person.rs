//! Commands of the user, after they were admitted.

use alloc::string::String;
use alloc::vec::Vec;

use super::admit::{Admitted, Whom};
use super::{Parts, contact, first, own_card};
use crate::card::{Card, RelayEntry};
use crate::carriers::{Bundles, Port};
use crate::contacts::{Contact, ContactPhase};
use crate::error::DeviceError;
use crate::evidence::WaitReason;
use crate::io::{At, Command, ContactId, DateStep, Event, Forget, NoteId, ResetCause};
use crate::outbox::Owe;
use crate::policy::Policy;
use crate::profile::Profile;
use crate::threads::Draft;
use crate::view::VerificationMethod;

/// Creates the components of a device with a new identity.
pub(super) fn create<P: Port>(
    mut carriers: P,
    name: &str,
    relays: &[RelayEntry],
    at: &mut At<'_>,
) -> Result<Parts<P>, DeviceError> {
    own_card::check_name(name)?;
    let mut plan = own_card::plan_card(&carriers, relays, at.now, at.rng)?;
    let card_parts = own_card::card_parts(&carriers, &plan, at.now);
    let profile = Profile::create::<P::Backend>(name, card_parts, at.now, at.rng);
    let profile = profile.map_err(own_card::map_card_error)?;
    // The identity is stored before anything that depends on it leaves (MSG-16).
    profile.store(at.step);
    carriers.notify_all(|one| one.adopt_plan(&mut plan, at));
    Ok(Parts::new(profile, carriers))
}

/// Carries out a checked command.
pub(super) fn perform<P: Port>(parts: &mut Parts<P>, admitted: Admitted, at: &mut At<'_>) {
    match admitted {
        Admitted::Nothing => {}
        Admitted::Command(command) => run_command(parts, command, at),
        Admitted::Add { to, card, petname, in_person } => {
            let id = add_card(parts, to, card, at);
            parts.contacts.rename(id, petname, at.step);
            if in_person {
                let how = Some((VerificationMethod::InPerson, at.now));
                parts.contacts.set_verified(id, how, at.step);
            }
            // Adding the card of a contact with an open request accepts the request.
            if parts.contacts.get(id).is_some_and(|c| c.phase == ContactPhase::Request) {
                let_in(parts, id, at);
            }
            at.step.touch(id);
        }
        Admitted::Publish { card, plan } => own_card::adopt_card(parts, card, plan, at),
    }
}

fn run_command<P: Port>(parts: &mut Parts<P>, command: Command, at: &mut At<'_>) {
    match command {
        Command::Send { contact, client, text } => queue_text(parts, contact, client, text, at),
        Command::Cancel { note } => {
            contact::give_up(parts, note, at);
            contact::remove_note(parts, note, at);
        }
        Command::Forget { note } => {
            let note_of = parts.threads.get(note);
            // The reader must not wait for a note that was deleted here.
            if note_of.is_some_and(|note| !note.incoming && !note.is_delivered()) {
                contact::give_up(parts, note, at);
            }
            contact::remove_note(parts, note, at);
        }
        Command::SendAgain { note, client } => send_again(parts, note, client, at),
        Command::Seen { contact, note } => seen(parts, contact, note, at),
        Command::Accept { contact } => let_in(parts, contact, at),
        Command::Refuse { contact } => refuse_request(parts, contact, at),
        Command::Rename { contact, name } => parts.contacts.rename(contact, Some(name), at.step),
        Command::Verify { contact, equal } => {
            let how = equal.then_some((VerificationMethod::Number, at.now));
            parts.contacts.set_verified(contact, how, at.step);
        }
        Command::Policy { contact, policy } => set_policy(parts, contact, policy, at),
        Command::Block { contact, blocked } => set_blocked(parts, contact, blocked, at),
        Command::Delete { contact } => delete_contact(parts, contact, at),
        Command::Reset { contact } => {
            first::leave_lost_chains(parts, contact, at);
            parts.sessions.renew_session(contact, at.step);
            // The contact may have lost state too, so it is asked to send again.
            parts.outbox.owe(contact, Owe::Reset(ResetCause::Person), at.step);
        }
        Command::CorrectDate(date) => correct_date(parts, &date, at),
        Command::Restored => handle_restore(parts, at),
        Command::Rotate => parts.sessions.rotate_prekeys(at),
        Command::Refill => {
            let stock = parts.carriers.all_carriers().find_map(Bundles::prekey_stock);
            let (stock, under_way) = stock.unwrap_or_default();
            parts.sessions.refill_stock(u32::from(stock.unwrap_or(0)) + under_way, at);
        }
        // These two were converted to other variants by the check.
        Command::Add { .. } | Command::Publish { .. } => {}
    }
}

/// Adds a card that the user scanned or pasted. Returns its contact.
fn add_card<P: Port>(parts: &mut Parts<P>, to: Whom, card: Card, at: &mut At<'_>) -> ContactId {
    match to {
        Whom::Contact(id) => {
            parts.contacts.replace_card(id, card, at.step);
            contact::on_card_changed(parts, id, true, at);
            id
        }
        Whom::Inviter(id) => {
            // The card reveals the identity of an inviter.
            let session = parts.sessions.session_facts(id).id;
            let way = contact::unmask_inviter(parts, id, session, at);
            let policy = contact::answered_by(way);
            let contact = Contact::new(card, ContactPhase::Request, policy);
            contact::add_contact(parts, id, contact, at);
            id
        }
        Whom::New => {
            let id = parts.profile.contact_number(at.step);
            parts.sessions.add_contact(id, *card.ik());
            let contact = Contact::new(card, ContactPhase::Held, Policy::default());
            contact::add_contact(parts, id, contact, at);
            contact::choose_first_carrier(parts, id, at);
            id
        }
    }
}

/// Moves all stored times after a correction of the date, so that nothing expires by the correction
/// (MSG-104).
fn correct_date<P: Port>(parts: &mut Parts<P>, date: &DateStep, at: &mut At<'_>) {
    // Notes, outbox, sessions and carriers move in one commit (MSG-104).
    parts.threads.apply_date_step(date, at.now, at.step);
    parts.outbox.apply_date_step(date, at.now, at.step);
    parts.sessions.apply_date_step(date, at.now, at.step);
    parts.carriers.notify_all(|one| one.apply_date_step(date, at));
    at.step.touch_all();
}

/// Handles a vault that was, or may have been, restored from a copy. Its numbers, sessions and
/// prekeys may be in use elsewhere, so none of them is used again (MSG-91).
fn handle_restore<P: Port>(parts: &mut Parts<P>, at: &mut At<'_>) {
    let all: Vec<ContactId> = parts.contacts.iter().map(|(id, _)| id).collect();
    for id in all {
        let is_held = parts.contacts.get(id).is_some_and(|c| c.phase == ContactPhase::Held);
        if is_held && parts.outbox.next_seq(id) == 1 {
            // Nothing was sealed for the contact, which does not know us, so no item is owed
            // (MSG-107).
            contact::draw_era(parts, id, at);
        } else {
            contact::begin_era(parts, id, at);
        }
    }
    // Another copy may have used the prekeys, so all are replaced (MSG-91).
    parts.sessions.rotate_prekeys(at);
}

/// Accepts a request: hello and receipt are sent at once.
fn let_in<P: Port>(parts: &mut Parts<P>, id: ContactId, at: &mut At<'_>) {
    parts.contacts.let_in(id, at.step);
    parts.outbox.owe(id, Owe::Hello, at.step);
    contact::owe_receipt(parts, id, at);
    at.step.touch(id);
}

fn queue_text<P: Port>(
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
    parts.threads.add_draft(note, draft, at.step);
    parts.outbox.queue_note(id, note);
    // Mixnet time for this contact is charged to the user from now on (MSG-54).
    parts.carriers.notify_all(|one| one.on_user_note(id, at.now));
    at.step.touch(id);
}

/// Sends a note that a restore has left open.
fn send_again<P: Port>(parts: &mut Parts<P>, id: NoteId, client: [u8; 16], at: &mut At<'_>) {
    let Some(note) = parts.threads.get(id) else { return };
    let contact = note.contact;
    if parts.outbox.is_unsure(contact, id) {
        parts.threads.set_wait_reason(id, WaitReason::Sending, at.step);
        parts.outbox.queue_note(contact, id);
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
        parts.outbox.queue_note(contact, copy);
    }
    parts.outbox.change_aftermath(contact, at.step, |left| left.settle(id));
    parts.carriers.notify_all(|one| one.on_user_note(contact, at.now));
    at.step.show(Event::State(contact, id));
    at.step.show(Event::Contact(contact));
    at.step.touch(contact);
}

fn seen<P: Port>(parts: &mut Parts<P>, id: ContactId, last: NoteId, at: &mut At<'_>) {
    let contact = parts.contacts.get(id);
    // Read receipts are sent only if the conversation allows them.
    let says = contact.is_some_and(|contact| contact.policy.read && contact.is_ours());
    if parts.threads.mark_seen(id, last, says, at.step) {
        parts.outbox.owe(id, Owe::Read, at.step);
    }
}

fn refuse_request<P: Port>(parts: &mut Parts<P>, id: ContactId, at: &mut At<'_>) {
    at.step.show(Event::Request(id));
    if contact::is_inviter(parts, id) {
        parts.carriers.notify_all(|one| one.forget_contact(id, Forget::All, at));
        parts.sessions.forget(id, at.step);
    } else {
        delete_contact(parts, id, at);
    }
}

/// Blocks or unblocks a contact. While it is blocked nothing is sent, including parcels sealed
/// before. Their items are owed again after unblocking (MSG-26).
fn set_blocked<P: Port>(parts: &mut Parts<P>, id: ContactId, blocked: bool, at: &mut At<'_>) {
    parts.contacts.set_blocked(id, blocked, at.step);
    if blocked {
        // Items in flight are owed again when the contact is unblocked (MSG-26).
        contact::requeue_notes(parts, id, at);
    }
    contact::update_levels(parts, id, at);
    at.step.touch(id);
}

/// Changes the policy of a conversation. A raised lowest level also applies to waiting notes, a
/// lowered one does not.
fn set_policy<P: Port>(parts: &mut Parts<P>, id: ContactId, policy: Policy, at: &mut At<'_>) {
    let Some(contact) = parts.contacts.get(id) else { return };
    if contact.policy.timer_s != policy.timer_s {
        // Before both sides have answered, items are sent with notes only, so the timer goes with
        // the first note.
        if contact.is_open() {
            parts.outbox.owe(id, Owe::Timer, at.step);
        } else {
            parts.outbox.open_timer(id, at.step);
        }
    }
    let allowed = policy.candidates().to_vec();
    let level_min = policy.level_min;
    parts.contacts.set_policy(id, policy, at.step);
    // A higher lowest level also applies to notes that wait (MSG-89).
    parts.threads.raise_level_min(id, level_min, at.step);
    contact::update_levels(parts, id, at);
    at.step.touch(id);
    // Parcels of a carrier that the conversation no longer allows are sealed again for another
    // carrier, under the same numbers, so that no note is shown twice.
    let strays = |invitation: bool| {
        let own = parts.outbox.parcels_of(id).map(|(_, parcel)| &parcel.route);
        let mut strays = own.filter(|route| !allowed.contains(&route.carrier));
        strays.any(|route| route.invitation || !invitation)
    };
    let any = strays(false);
    let invitation = strays(true);
    // An invitation over a carrier that is no longer allowed is withdrawn (4.4). Its session and
    // the chains from it end as well.
    if invitation {
        parts.carriers.notify_all(|one| one.forget_contact(id, Forget::Chains, at));
    }
    if any {
        contact::requeue_notes(parts, id, at);
    }
}

/// Deletes a contact and all its state.
fn delete_contact<P: Port>(parts: &mut Parts<P>, id: ContactId, at: &mut At<'_>) {
    // The outbox is emptied before carriers forget the contact, so that they can retract its
    // parcels.
    parts.threads.forget_contact(id, at.step);
    let dropped = parts.outbox.forget_contact(id, at.step);
    parts.carriers.notify_all(|one| one.retract_parcels(&dropped, at));
    parts.carriers.notify_all(|one| one.forget_contact(id, Forget::All, at));
    parts.sessions.forget(id, at.step);
    parts.contacts.remove(id, at.step);
}
