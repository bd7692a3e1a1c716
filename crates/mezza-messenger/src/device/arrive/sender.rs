//! Stage 1: the sender of a message, before the message is opened.

use mezza_core::Time;
use mezza_ratchet::IdentityKey;

use super::message::Message;
use crate::carriers::Port;
use crate::contacts::ContactPhase;
use crate::device::Components;
use crate::io::{ArrivalOrigin, CarrierId, ContactId, InviterFacts};

/// Most requests that wait for the user (MSG-35). Mail of further unknown senders stays at the
/// relay.
const REQUESTS_MAX: usize = 64;
/// Most requests of unknown senders that knocked, so that a flood without a server leaves room for
/// others (MSG-136).
const KNOCKERS_MAX: usize = 16;

/// The sender of a message.
#[derive(Clone, Copy)]
pub(super) enum Sender {
    /// A contact, at an address that only this contact has.
    Contact(ContactId),
    /// A contact by the identity key in the message, at an address that any device can write to.
    /// The key proves nothing before the message is opened.
    ContactElsewhere(ContactId),
    /// An inviter that has not sent a card.
    Inviter(InviterFacts),
    /// An unknown sender with this identity key, for whom there is room.
    Unknown(IdentityKey),
    /// An unknown sender for whom there is no room.
    UnknownWithoutRoom,
    /// The owner of a quarantined contact. Its mail waits for a version that reads the contact.
    Quarantined,
    /// The message names no sender.
    Unnamed,
}

impl<P: Port> Components<P> {
    /// Returns the sender of a message that came over `carrier`.
    pub(super) fn classify_sender(
        &self,
        message: &Message<'_>,
        carrier: CarrierId,
        now: Time,
    ) -> Sender {
        let (ik, is_knock) = match message {
            Message::Ratchet { origin: ArrivalOrigin::Contact(id), .. } => {
                let inviter = self.find_inviter(|inviter| inviter.id == *id);
                return inviter.map_or(Sender::Contact(*id), Sender::Inviter);
            }
            Message::Ratchet { writer: None, .. } => return Sender::Unnamed,
            Message::Ratchet { writer: Some(ik), .. } => (*ik, false),
            Message::Knock(knock) => (knock.ik, true),
        };
        if let Some(id) = self.contacts.by_identity(ik.as_bytes()) {
            return Sender::ContactElsewhere(id);
        }
        // A knock contains the card of its writer and begins no session. It is a request of its
        // own, even if the writer has invited us as well.
        let inviter = self.find_inviter(|inviter| !is_knock && inviter.ik == *ik.as_bytes());
        if let Some(inviter) = inviter {
            return Sender::Inviter(inviter);
        }
        if self.aside.has_identity(&ik) {
            return Sender::Quarantined;
        }
        let is_flood = is_knock && self.count_knockers(carrier) >= KNOCKERS_MAX;
        if is_flood || !self.has_room(now) {
            return Sender::UnknownWithoutRoom;
        }
        Sender::Unknown(ik)
    }

    /// Returns the first inviter for which `is_wanted` returns true.
    fn find_inviter(&self, is_wanted: impl Fn(&InviterFacts) -> bool) -> Option<InviterFacts> {
        self.carriers.collect_all(|one| one.inviters()).into_iter().find(is_wanted)
    }

    /// Returns true if another unknown sender may wait for the user.
    fn has_room(&self, now: Time) -> bool {
        let inviters = self.carriers.collect_all(|one| one.inviters()).len();
        let waiting = self.contacts.count_requests() + inviters;
        waiting < REQUESTS_MAX && self.sessions.hears_strangers(now)
    }

    /// Returns the number of requests that are answered over this carrier alone.
    fn count_knockers(&self, carrier: CarrierId) -> usize {
        let knockers = self.contacts.iter().filter(|(_, of)| {
            of.phase == ContactPhase::Request && of.policy.carriers.first() == Some(&carrier)
        });
        knockers.count()
    }
}
