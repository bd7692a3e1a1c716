//! Commands of the user, after they were admitted.

use alloc::string::String;
use alloc::vec::Vec;

use super::admit::{Admitted, CardOwner};
use super::contact::policy_of_answers;
use super::{Components, Turn, own_card};
use crate::card::{Card, RelayEntry};
use crate::carriers::{Bundles, Port};
use crate::contacts::{Contact, ContactPhase};
use crate::error::DeviceError;
use crate::evidence::WaitReason;
use crate::io::{Command, ContactId, Ctx, DateStep, Event, Forget, NoteId, ResetCause};
use crate::outbox::{Owe, Parcel};
use crate::policy::{NoteLife, Policy};
use crate::profile::Profile;
use crate::threads::Draft;
use crate::view::VerificationMethod;

/// A text that the user wrote.
struct NewText {
    client: [u8; 16],
    text: String,
    life: Option<NoteLife>,
}

/// Creates the components of a device with a new identity.
///
/// # Errors
/// The name or the relays do not fit on a card.
pub(super) fn create_components<P: Port>(
    mut carriers: P,
    name: &str,
    relays: &[RelayEntry],
    ctx: &mut Ctx<'_>,
) -> Result<Components<P>, DeviceError> {
    own_card::check_name(name)?;
    let mut plan = own_card::plan_card(&carriers, relays, ctx.now, ctx.rng)?;
    let card_parts = own_card::collect_card_parts(&carriers, &plan, ctx.now);
    let profile = Profile::create::<P::Backend>(name, card_parts, ctx.now, ctx.rng);
    let profile = profile.map_err(own_card::map_card_error)?;
    // The identity is stored before anything that depends on it leaves (MSG-16).
    profile.store(ctx.effects);
    carriers.notify_all(|one| one.adopt_plan(&mut plan, ctx));
    Ok(Components::new(profile, carriers))
}

impl<P: Port> Turn<'_, P> {
    /// Carries out a checked command.
    pub(super) fn perform(&mut self, admitted: Admitted) {
        match admitted {
            Admitted::Nothing => {}
            Admitted::Command(command) => self.run_command(command),
            Admitted::Add { to, card, petname, in_person } => {
                let id = self.add_card(to, card);
                self.device.contacts.rename(id, petname, self.ctx.effects);
                if in_person {
                    let how = Some((VerificationMethod::InPerson, self.ctx.now));
                    self.device.contacts.set_verified(id, how, self.ctx.effects);
                }
                // Adding the card of a contact with an open request accepts the request.
                if self.device.contacts.get(id).is_some_and(|c| c.phase == ContactPhase::Request) {
                    self.accept_request(id);
                }
                self.ctx.effects.touch(id);
            }
            Admitted::Publish { card, plan } => self.adopt_card(card, plan),
        }
    }

    fn run_command(&mut self, command: Command) {
        match command {
            Command::Send { contact, client, text, life } => {
                self.queue_text(contact, NewText { client, text, life });
            }
            Command::Cancel { note } => {
                self.give_up(note);
                self.remove_note(note);
            }
            Command::Forget { note } => {
                let note_of = self.device.threads.get(note);
                // The reader must not wait for a note that was deleted here.
                if note_of.is_some_and(|note| !note.incoming && !note.is_delivered()) {
                    self.give_up(note);
                }
                self.remove_note(note);
            }
            Command::SendAgain { note, client } => self.send_note_again(note, client),
            Command::LowerLevel { note } => self.lower_level(note),
            Command::Seen { contact, note } => self.mark_seen(contact, note),
            Command::Accept { contact } => self.accept_request(contact),
            Command::Refuse { contact } => self.refuse_request(contact),
            Command::Rename { contact, name } => {
                self.device.contacts.rename(contact, Some(name), self.ctx.effects);
            }
            Command::Verify { contact, equal } => {
                let how = equal.then_some((VerificationMethod::Number, self.ctx.now));
                self.device.contacts.set_verified(contact, how, self.ctx.effects);
            }
            Command::Policy { contact, policy } => self.set_policy(contact, policy),
            Command::Block { contact, blocked } => self.set_blocked(contact, blocked),
            Command::Delete { contact } => self.delete_contact(contact),
            Command::Reset { contact } => {
                self.leave_lost_chains(contact);
                self.device.sessions.renew_session(contact, self.ctx.effects);
                // The contact may have lost state too, so lost notes are requested again.
                self.device.outbox.owe(contact, Owe::Reset(ResetCause::Person), self.ctx.effects);
            }
            Command::CorrectDate(date) => self.correct_date(&date),
            Command::Restored => self.handle_restore(),
            Command::Rotate => self.device.sessions.rotate_prekeys(&mut self.ctx),
            Command::Refill => {
                let stock = self.device.carriers.all_carriers().find_map(Bundles::prekey_stock);
                let (stock, under_way) = stock.unwrap_or_default();
                self.device
                    .sessions
                    .refill_stock(u32::from(stock.unwrap_or(0)) + under_way, &mut self.ctx);
            }
            // The check has converted these two to other variants.
            Command::Add { .. } | Command::Publish { .. } => {}
        }
    }

    /// Adds a card that the user scanned or pasted. Returns its contact.
    fn add_card(&mut self, to: CardOwner, card: Card) -> ContactId {
        match to {
            CardOwner::Contact(id) => {
                self.device.contacts.replace_card(id, card, self.ctx.effects);
                self.on_card_changed(id, true);
                id
            }
            CardOwner::Inviter(id) => {
                // The card reveals the identity of an inviter.
                let session = self.device.sessions.session_facts(id).id;
                let answers = self.unmask_inviter(id, session);
                let policy = policy_of_answers(answers);
                let contact = Contact::new(card, ContactPhase::Request, policy);
                self.add_contact(id, contact);
                id
            }
            CardOwner::New => {
                let id = self.device.profile.contact_number(self.ctx.effects);
                self.device.sessions.add_contact(id, *card.ik());
                let contact = Contact::new(card, ContactPhase::Held, Policy::default());
                self.add_contact(id, contact);
                self.choose_first_carrier(id);
                id
            }
        }
    }

    /// Moves all stored times after a correction of the date, so that nothing expires by the
    /// correction (MSG-104).
    fn correct_date(&mut self, date: &DateStep) {
        // Notes, outbox, sessions and carriers move in one commit (MSG-104).
        self.device.threads.apply_date_step(date, self.ctx.now, self.ctx.effects);
        self.device.outbox.apply_date_step(date, self.ctx.now, self.ctx.effects);
        self.device.sessions.apply_date_step(date, self.ctx.now, self.ctx.effects);
        self.notify_carriers(|one, ctx| one.apply_date_step(date, ctx));
        self.ctx.effects.touch_all();
    }

    /// Handles a vault that was, or may have been, restored from a copy. Its numbers, sessions and
    /// prekeys may be in use elsewhere, so none of them is used again (MSG-91).
    fn handle_restore(&mut self) {
        let all: Vec<ContactId> = self.device.contacts.iter().map(|(id, _)| id).collect();
        for id in all {
            let is_held =
                self.device.contacts.get(id).is_some_and(|c| c.phase == ContactPhase::Held);
            if is_held && self.device.outbox.next_seq(id) == 1 {
                // Nothing was sealed for the contact, which does not know us, so no item is owed
                // (MSG-107).
                self.draw_era(id);
            } else {
                self.begin_era(id);
            }
        }
        // Another copy may have used the prekeys, so all are replaced (MSG-91).
        self.device.sessions.rotate_prekeys(&mut self.ctx);
    }

    /// Accepts a request: hello and receipt are sent at once.
    fn accept_request(&mut self, id: ContactId) {
        self.device.contacts.let_in(id, self.ctx.effects);
        self.device.outbox.owe(id, Owe::Hello, self.ctx.effects);
        self.owe_receipt(id);
        self.ctx.effects.touch(id);
    }

    fn queue_text(&mut self, id: ContactId, written: NewText) {
        let NewText { client, text, life } = written;
        let Some(contact) = self.device.contacts.get(id) else { return };
        let note = self.device.profile.note_number(self.ctx.effects);
        let draft = Draft {
            contact: id,
            client,
            text,
            era: self.device.own_era(id),
            timer_s: contact.policy.timer_s,
            pin: contact.policy.level_min,
            life,
            at: self.ctx.now,
        };
        self.device.threads.add_draft(note, draft, self.ctx.effects);
        self.device.outbox.queue_note(id, note);
        // Mixnet time for this contact is charged to the user from now on (MSG-54).
        self.device.carriers.notify_all(|one| one.on_user_note(id, self.ctx.now));
        self.ctx.effects.touch(id);
    }

    /// Gives a waiting note the present lowest level of its conversation.
    fn lower_level(&mut self, id: NoteId) {
        let device = &mut *self.device;
        let Some(contact) = device.threads.get(id).map(|note| note.contact) else { return };
        let Some(to) = device.contacts.get(contact) else { return };
        device.threads.set_level_min(id, to.policy.level_min, self.ctx.effects);
        self.ctx.effects.show(Event::State(contact, id));
        // The flush after this input tries the note at its new level.
        self.ctx.effects.touch(contact);
    }

    /// Sends a note that a restore has left open.
    fn send_note_again(&mut self, id: NoteId, client: [u8; 16]) {
        let Some(note) = self.device.threads.get(id) else { return };
        let contact = note.contact;
        if self.device.outbox.is_unsure(contact, id) {
            self.device.threads.set_wait_reason(id, WaitReason::Sending, self.ctx.effects);
            self.device.outbox.queue_note(contact, id);
        } else if let (Some(text), Some(to)) =
            (note.text().cloned(), self.device.contacts.get(contact))
        {
            let sent = note.sent;
            let life = note.life;
            let draft = Draft {
                contact,
                client,
                text,
                era: self.device.own_era(contact),
                timer_s: to.policy.timer_s,
                pin: to.policy.level_min.max(note.level_min),
                life,
                at: self.ctx.now,
            };
            let copy = self.device.profile.note_number(self.ctx.effects);
            self.device.threads.write_copy(copy, draft, sent, self.ctx.effects);
            self.device.outbox.queue_note(contact, copy);
        }
        self.device.outbox.change_aftermath(contact, self.ctx.effects, |left| left.settle(id));
        self.device.carriers.notify_all(|one| one.on_user_note(contact, self.ctx.now));
        self.ctx.effects.show(Event::State(contact, id));
        self.ctx.effects.show(Event::Contact(contact));
        self.ctx.effects.touch(contact);
    }

    fn mark_seen(&mut self, id: ContactId, last: NoteId) {
        let contact = self.device.contacts.get(id);
        // Read receipts are sent only if the conversation allows them.
        let sends_receipt = contact.is_some_and(|contact| contact.policy.read && contact.is_ours());
        if self.device.threads.mark_seen(id, last, sends_receipt, self.ctx.effects) {
            self.device.outbox.owe(id, Owe::Read, self.ctx.effects);
        }
    }

    fn refuse_request(&mut self, id: ContactId) {
        self.ctx.effects.show(Event::Request(id));
        if self.device.is_inviter(id) {
            self.notify_carriers(|one, ctx| one.forget_contact(id, Forget::All, ctx));
            self.device.sessions.forget(id, self.ctx.effects);
        } else {
            self.delete_contact(id);
        }
    }

    /// Blocks or unblocks a contact. While it is blocked nothing is sent, including parcels sealed
    /// before. Their items are owed again after unblocking (MSG-26).
    fn set_blocked(&mut self, id: ContactId, blocked: bool) {
        self.device.contacts.set_blocked(id, blocked, self.ctx.effects);
        if blocked {
            // Items in flight are owed again when the contact is unblocked (MSG-26).
            self.requeue_notes(id);
        }
        self.update_levels(id);
        self.ctx.effects.touch(id);
    }

    /// Changes the policy of a conversation. A raised lowest level also applies to waiting notes, a
    /// lowered one does not.
    fn set_policy(&mut self, id: ContactId, policy: Policy) {
        let Some(contact) = self.device.contacts.get(id) else { return };
        if contact.policy.timer_s != policy.timer_s {
            // Before both sides have answered, items are sent with notes only, so the timer goes
            // with the first note.
            if contact.is_open() {
                self.device.outbox.owe(id, Owe::Timer, self.ctx.effects);
            } else {
                self.device.outbox.open_timer(id, self.ctx.effects);
            }
        }
        let allowed = policy.candidates().to_vec();
        let level_min = policy.level_min;
        let is_raised = level_min > contact.policy.level_min;
        self.device.contacts.set_policy(id, policy, self.ctx.effects);
        // A higher lowest level also applies to notes that wait (MSG-89).
        self.device.threads.raise_level_min(id, level_min, self.ctx.effects);
        self.update_levels(id);
        self.ctx.effects.touch(id);
        // Parcels of a carrier that the conversation no longer allows are sealed again for another
        // carrier, under the same numbers, so that no note is shown twice.
        // A root that its carrier has already cannot be called back for certain, and without it the
        // contact would be called in vain over the mixnet (MSG-155).
        let stays =
            |parcel: &Parcel| parcel.says.root && parcel.note.is_none() && parcel.out && !is_raised;
        let strays = |invitation: bool| {
            let own = self.device.outbox.parcels_of(id).map(|(_, parcel)| parcel);
            let mut strays =
                own.filter(|parcel| !allowed.contains(&parcel.route.carrier) && !stays(parcel));
            strays.any(|parcel| parcel.route.invitation || !invitation)
        };
        let any = strays(false);
        let invitation = strays(true);
        // An invitation over a carrier that is no longer allowed is withdrawn (4.4). Its session
        // and the chains from it end as well.
        if invitation {
            self.notify_carriers(|one, ctx| one.forget_contact(id, Forget::Chains, ctx));
        }
        if any {
            self.requeue_notes_except(id, stays);
        }
    }

    /// Deletes a contact and all its state.
    fn delete_contact(&mut self, id: ContactId) {
        // The outbox is emptied before carriers forget the contact, so that they can retract its
        // parcels.
        self.device.threads.forget_contact(id, self.ctx.effects);
        let dropped = self.device.outbox.forget_contact(id, self.ctx.effects);
        self.retract_parcels(&dropped);
        self.notify_carriers(|one, ctx| one.forget_contact(id, Forget::All, ctx));
        self.device.sessions.forget(id, self.ctx.effects);
        self.device.contacts.remove(id, self.ctx.effects);
    }
}
