//! Stage 2: messages are opened with the keys of their sender.

use mezza_core::Backend;
use mezza_ratchet::{IdentityKey, OpenError, Opened, SuiteList};

use super::Outcome;
use super::message::Message;
use super::sender::Sender;
use crate::carriers::Port;
use crate::contacts::{Contact, ContactPhase};
use crate::device::knock::Knock;
use crate::device::{Components, Turn};
use crate::io::{
    ArrivalOrigin, By, ContactId, DeliveryProblem, Incoming, InviterFacts, ResetCause,
};
use crate::outbox::Owe;
use crate::sessions::{Stranger, Unopened};

/// The content of a message that opened, by its sender.
pub(super) enum Content<'a, B: Backend> {
    /// A message in a session of a contact.
    Message { from: ContactId, opened: Opened },
    /// A message in the session of an inviter.
    InviterMessage { from: InviterFacts, opened: Opened },
    /// The first message of an unknown sender, and its bytes.
    FirstMessage { ik: IdentityKey, stranger: Stranger<B>, bytes: &'a [u8] },
    /// An invitation of an unknown sender.
    Invitation(Invitation<B>),
    /// A knock of a contact.
    ContactKnock { from: ContactId, knock: Knock<'a> },
    /// A knock of an unknown sender.
    FirstKnock(Knock<'a>),
}

/// An invitation that opened.
pub(super) struct Invitation<B: Backend> {
    pub ik: IdentityKey,
    /// The bucket in which the inviter waits for a call.
    pub place: u32,
    /// The present number of an inviter that has invited before.
    pub replaced: Option<ContactId>,
    pub stranger: Stranger<B>,
}

impl<P: Port> Turn<'_, P> {
    /// Opens a message.
    ///
    /// # Errors
    /// The outcome of a message without content.
    pub(super) fn open_message<'a>(
        &mut self,
        message: Message<'a>,
        sender: Sender,
        by: By,
    ) -> Result<Content<'a, P::Backend>, Outcome> {
        let (incoming, origin, writer) = match message {
            Message::Knock(knock) => return self.device.open_knock(knock, sender),
            Message::Ratchet { incoming, origin, writer } => (incoming, origin, writer),
        };
        match (sender, origin) {
            // A blocked contact must cause no effect and no answer (MSG-26).
            (Sender::Contact(id) | Sender::ContactElsewhere(id), _)
                if self.device.is_blocked(id) =>
            {
                Err(Outcome::Ignored)
            }
            (Sender::Contact(from), _) => {
                let opened = self.device.sessions.open_message(from, incoming, &mut self.ctx);
                if let Err(Unopened::Failed(error)) = opened {
                    self.handle_unopened(from, incoming, error, by);
                }
                opened.map(|opened| Content::Message { from, opened }).or(Err(Outcome::Unopened))
            }
            // Any device can send a message under the identity key of a contact. If the message
            // does not open, no bundle is fetched, because the fetch would reveal that we know the
            // contact.
            (Sender::ContactElsewhere(from), _) => {
                let opened = self.device.sessions.open_message(from, incoming, &mut self.ctx);
                opened.map(|opened| Content::Message { from, opened }).or(Err(Outcome::Unopened))
            }
            (Sender::Inviter(inviter), ArrivalOrigin::Invitation(place)) => {
                let ik = writer.ok_or(Outcome::Unnamed)?;
                let stranger = self.open_stranger(ik, incoming)?;
                let replaced = Some(inviter.id);
                Ok(Content::Invitation(Invitation { ik, place, replaced, stranger }))
            }
            (Sender::Inviter(from), _) => {
                let opened = self.device.sessions.open_message(from.id, incoming, &mut self.ctx);
                let content = opened.map(|opened| Content::InviterMessage { from, opened });
                content.or(Err(Outcome::Unopened))
            }
            (Sender::Unknown(ik), ArrivalOrigin::Invitation(place)) => {
                let stranger = self.open_stranger(ik, incoming)?;
                Ok(Content::Invitation(Invitation { ik, place, replaced: None, stranger }))
            }
            (Sender::Unknown(ik), _) => {
                let stranger = self.open_stranger(ik, incoming)?;
                Ok(Content::FirstMessage { ik, stranger, bytes: incoming.bytes })
            }
            // An invitation is repeated until it is answered, so the carrier need not store it.
            (Sender::UnknownWithoutRoom | Sender::Quarantined, ArrivalOrigin::Invitation(_)) => {
                Err(Outcome::Ignored)
            }
            (Sender::UnknownWithoutRoom | Sender::Quarantined, _) => Err(Outcome::NoRoom),
            (Sender::Unnamed, _) => Err(Outcome::Unnamed),
        }
    }

    /// Opens the first message of an unknown sender. The prekeys in it are used up in any case.
    fn open_stranger(
        &mut self,
        ik: IdentityKey,
        message: Incoming<'_>,
    ) -> Result<Stranger<P::Backend>, Outcome> {
        let stranger = self.device.sessions.open_stranger(ik, message, &mut self.ctx);
        stranger.ok_or(Outcome::Unopened)
    }

    /// Handles a message that no session opened. If the session may be broken, the message is
    /// stored for a day and answered with a new session. A useless message is dropped (MSG-30).
    fn handle_unopened(&mut self, id: ContactId, message: Incoming<'_>, error: OpenError, by: By) {
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
            self.device.sessions.offer_anew(self.ctx.now);
        }
        let foreign = matches!(
            error,
            OpenError::SuiteUnsupported(_)
                | OpenError::SuiteMismatch { .. }
                | OpenError::SuiteDowngrade
        );
        if foreign && !lost {
            let trouble = DeliveryProblem::Suite(error);
            self.device.contacts.report_trouble(id, trouble, self.ctx.effects);
        }
        let request = |contact: &Contact| contact.phase == ContactPhase::Request;
        if lost && !foreign && self.device.contacts.get(id).is_some_and(Contact::is_open) {
            let trouble = DeliveryProblem::Unopened;
            self.device.contacts.report_trouble(id, trouble, self.ctx.effects);
        }
        if lost {
            self.on_message_arrived(id, by.carrier, true);
        }
        if lost
            && !self.device.contacts.get(id).is_none_or(request)
            && self.device.sessions.keep(id, message, by, &mut self.ctx)
        {
            self.device.outbox.owe(id, Owe::Reset(ResetCause::Lost), self.ctx.effects);
        }
        self.ctx.effects.touch(id);
    }
}

impl<P: Port> Components<P> {
    /// Checks that the owner of the card in a knock has written it, and that it may have an effect.
    ///
    /// # Errors
    /// The outcome of a knock without effect.
    fn open_knock<'a>(
        &self,
        knock: Knock<'a>,
        sender: Sender,
    ) -> Result<Content<'a, P::Backend>, Outcome> {
        if !self.is_genuine(&knock) {
            return Err(Outcome::Rejected);
        }
        match sender {
            // An answer would show a blocked contact that its knock arrived (MSG-26).
            Sender::ContactElsewhere(id) if self.is_blocked(id) => Err(Outcome::Ignored),
            Sender::ContactElsewhere(from) => Ok(Content::ContactKnock { from, knock }),
            Sender::Unknown(_) => Ok(Content::FirstKnock(knock)),
            // A knock needs no server, so one without room is dropped (MSG-136).
            _ => Err(Outcome::Rejected),
        }
    }

    /// Returns true if a contact is blocked or does not exist.
    fn is_blocked(&self, id: ContactId) -> bool {
        self.contacts.get(id).is_none_or(|contact| contact.blocked)
    }
}
