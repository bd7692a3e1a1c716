//! Stage 3: the content of a message is applied.

use alloc::vec::Vec;

use mezza_ratchet::{IdentityKey, Opened, SuiteList};

use super::Outcome;
use super::open::{Content, Invitation};
use crate::card::Card;
use crate::carriers::{Port, Welcome};
use crate::contacts::{Contact, ContactPhase};
use crate::device::Turn;
use crate::device::contact::policy_of_answers;
use crate::device::knock::{Knock, card_in};
use crate::io::{By, ContactId, DeliveryProblem, Event, Forget, InviterFacts};
use crate::note::{Item, Note};
use crate::outbox::Owe;
use crate::policy::Policy;
use crate::sessions::{HeldBundle, Sessions, Stranger};

impl<P: Port> Turn<'_, P> {
    /// Applies the content of a message.
    pub(super) fn apply_content(&mut self, content: Content<'_, P::Backend>, by: By) -> Outcome {
        match content {
            Content::Message { from, opened } => self.apply_message(from, opened, by),
            Content::InviterMessage { from, opened } => {
                self.apply_inviter_message(from, &opened, by)
            }
            Content::FirstMessage { ik, stranger, bytes } => {
                self.apply_first_message(ik, stranger, bytes, by)
            }
            Content::Invitation(invitation) => self.apply_invitation(invitation, by),
            Content::ContactKnock { from, knock } => self.apply_contact_knock(from, &knock, by),
            Content::FirstKnock(knock) => self.apply_first_knock(knock, by),
        }
    }

    /// Applies a message of a contact. If the message began a session, earlier messages that did
    /// not open are tried again.
    fn apply_message(&mut self, id: ContactId, message: Opened, by: By) -> Outcome {
        let first = message.first;
        let is_anew = first || self.device.outbox.has_invitation_to(id);
        self.on_message_arrived(id, by.carrier, is_anew);
        let outcome = self.apply_opened(id, message, by);
        if first {
            for (message, by) in self.device.sessions.retry_undecrypted(id, by, &mut self.ctx) {
                let outcome = self.apply_opened(id, message, by);
                self.count_outcome(outcome, by.carrier);
            }
        }
        outcome
    }

    fn apply_opened(&mut self, id: ContactId, message: Opened, by: By) -> Outcome {
        // The initiator of a session needs our hello.
        if message.first {
            self.device.outbox.owe(id, Owe::Hello, self.ctx.effects);
            // The contact may have used up the bundle that we sent it (MSG-100).
            self.device.sessions.tell_again(id, self.ctx.effects);
        }
        let suite = |trouble: &DeliveryProblem| matches!(trouble, DeliveryProblem::Suite(_));
        self.device.contacts.clear_trouble(id, suite, self.ctx.effects);
        if message.first {
            let unopened = |trouble: &DeliveryProblem| *trouble == DeliveryProblem::Unopened;
            self.device.contacts.clear_trouble(id, unopened, self.ctx.effects);
        }
        self.ctx.effects.touch(id);
        let Ok(note) = Note::decode(&message.body) else {
            return Outcome::Malformed;
        };
        let invites = message.exporter.is_some()
            && self.device.carriers.all_carriers().any(|one| one.is_invitation(&note.items));
        let open = self.device.contacts.get(id).is_some_and(Contact::is_open);
        // If two invitations cross, each side keeps the chains of both (MSG-121).
        let again = invites && open && !self.device.outbox.has_invitation_to(id);
        if again && self.device.outbox.wants_again(id, self.ctx.now, self.ctx.effects) {
            // A contact that invites again has lost the old chains and the parcels on their way in
            // them.
            self.requeue_notes(id);
            self.notify_carriers(|one, ctx| one.forget_contact(id, Forget::Chains, ctx));
        }
        self.apply_note(id, &note, message.exporter, by);
        Outcome::Applied
    }

    /// Applies a message of an inviter. With the card of the inviter's key in it, the message
    /// becomes a request, which is answered over the same carrier.
    fn apply_inviter_message(
        &mut self,
        inviter: InviterFacts,
        message: &Opened,
        by: By,
    ) -> Outcome {
        let Some((note, card)) = read_greeting(&message.body, &inviter.ik) else {
            return Outcome::Malformed;
        };
        let id = inviter.id;
        let session = self.device.sessions.session_facts(id).id.filter(|_| !message.first);
        let answers = self.unmask_inviter(id, session);
        let policy = policy_of_answers(answers.filter(|answers| answers.carrier == by.carrier));
        self.add_request(id, Contact::new(card, ContactPhase::Request, policy), &note, by);
        Outcome::Applied
    }

    /// Applies the first message of an unknown sender, which becomes a request.
    fn apply_first_message(
        &mut self,
        ik: IdentityKey,
        stranger: Stranger<P::Backend>,
        bytes: &[u8],
        by: By,
    ) -> Outcome {
        let Some((note, card)) = read_greeting(&stranger.body, ik.as_bytes()) else {
            return Outcome::Nameless;
        };
        let id = self.device.profile.contact_number(self.ctx.effects);
        self.device.sessions.adopt_stranger(id, stranger, self.ctx.effects);
        self.device.sessions.remember_first(id, bytes, self.ctx.effects);
        let contact = Contact::new(card, ContactPhase::Request, Policy::default());
        self.add_request(id, contact, &note, by);
        Outcome::Applied
    }

    /// Applies an invitation of an unknown sender, or the next one of an inviter, who may have lost
    /// the chains of the first one.
    fn apply_invitation(&mut self, invitation: Invitation<P::Backend>, by: By) -> Outcome {
        let Invitation { ik, place, replaced, mut stranger } = invitation;
        if let Some(replaced) = replaced {
            self.notify_carriers(|one, ctx| one.forget_contact(replaced, Forget::All, ctx));
            self.device.sessions.forget(replaced, self.ctx.effects);
        }
        let items = Note::decode(&stranger.body).map_or_else(|_| Vec::new(), |note| note.items);
        let id = self.device.profile.next_contact();
        let is_accepted = stranger.exporter.take().is_some_and(|exporter| {
            let welcome = Welcome { id, ik, place, items: &items, exporter };
            let carrier = self.device.carriers.carrier_mut(by.carrier);
            carrier.is_some_and(|one| one.accept_invitation(welcome, &mut self.ctx))
        });
        if !is_accepted {
            return Outcome::Nameless;
        }
        self.device.profile.contact_number(self.ctx.effects);
        self.device.sessions.adopt_stranger(id, stranger, self.ctx.effects);
        self.ctx.effects.show(Event::Request(id));
        Outcome::Applied
    }

    /// Applies the knock of a contact.
    fn apply_contact_knock(&mut self, id: ContactId, knock: &Knock<'_>, by: By) -> Outcome {
        self.on_message_arrived(id, by.carrier, true);
        let session = self.device.sessions.session_facts(id);
        // The contact knocks because it has no session. A confirmed one here is of no use then, but
        // a replayed or late knock must not end sessions without limit (MSG-31).
        let is_lost = session.is_usable() && !session.pending;
        if is_lost && self.device.outbox.wants_again(id, self.ctx.now, self.ctx.effects) {
            self.device.sessions.renew_session(id, self.ctx.effects);
        }
        self.apply_note(id, &knock.note, None, by);
        self.hold_knock_bundle(id, &knock.note);
        Outcome::Applied
    }

    /// Applies the knock of an unknown sender, which becomes a request. It is answered over the
    /// same carrier.
    fn apply_first_knock(&mut self, knock: Knock<'_>, by: By) -> Outcome {
        let id = self.device.profile.contact_number(self.ctx.effects);
        self.device.sessions.add_contact(id, knock.ik);
        let policy = policy_of_answers(Some(by));
        let contact = Contact::new(knock.card, ContactPhase::Request, policy);
        self.add_request(id, contact, &knock.note, by);
        self.hold_knock_bundle(id, &knock.note);
        Outcome::Applied
    }

    /// Stores the bundle of a knock, from which the answer begins a session. The upgrade to a
    /// better suite does not use the bundle up.
    fn hold_knock_bundle(&mut self, id: ContactId, note: &Note) {
        let bundle = note.items.iter().rev().find_map(|item| match item {
            Item::Bundle(bundle) => Some(bundle),
            _ => None,
        });
        let (Some(bundle), Some(contact)) = (bundle, self.device.contacts.get(id)) else {
            return;
        };
        let suites = SuiteList::our_suites();
        let now = self.ctx.now;
        // An unusable bundle is dropped. The request remains, and its answer waits for keys.
        if Sessions::<P::Backend>::check_bundle(&contact.card, bundle, &suites, now).is_ok() {
            let held = HeldBundle::from_contact(bundle);
            self.device.sessions.hold_bundle(id, held, self.ctx.effects);
        }
        self.ctx.effects.touch(id);
    }

    /// Adds a request, which waits for the user's decision.
    fn add_request(&mut self, id: ContactId, contact: Contact, note: &Note, by: By) {
        self.add_contact(id, contact);
        self.apply_note(id, note, None, by);
        self.ctx.effects.show(Event::Request(id));
    }
}

/// Returns a note with the card of its writer in it, or `None` if the card is missing or has
/// another key.
fn read_greeting(body: &[u8], ik: &[u8; 32]) -> Option<(Note, Card)> {
    let note = Note::decode(body).ok()?;
    let card = card_in(&note).filter(|card| card.ik().as_bytes() == ik)?;
    Some((note, card))
}
