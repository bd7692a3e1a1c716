//! Checks of a user's command before it runs. All checks precede all changes (MSG-36), so the
//! methods of this file only read the components.

use alloc::string::String;

use mezza_core::{CryptoRng, Time};

use super::{Components, own_card};
use crate::card::Card;
use crate::carriers::{CardPlan, Port};
use crate::contacts::ContactPhase;
use crate::error::{CallerError, DeviceError, PersonError};
use crate::io::{Command, ContactId, NoteId};
use crate::name;
use crate::outbox::OUTBOX_MAX;
use crate::policy::{Policy, is_timer_step};

/// Most bytes of text in a note; a longer text is an attachment.
const TEXT_BYTES_MAX: usize = 8_192;
/// Most bytes of a name that the user gives a contact.
const PETNAME_BYTES_MAX: usize = 64;

/// A checked command, with values computed during the check.
pub(crate) enum Admitted {
    /// The command was carried out before, so nothing remains to be done.
    Nothing,
    /// The unchanged command.
    Command(Command),
    /// A card of a new contact, of a known one, or of the inviter with this number.
    Add { to: CardOwner, card: Card, petname: Option<String>, in_person: bool },
    /// A new card of our own, with its plan.
    Publish { card: Card, plan: CardPlan },
}

/// The owner of a card that the user adds.
#[derive(Clone, Copy)]
pub(crate) enum CardOwner {
    New,
    Contact(ContactId),
    Inviter(ContactId),
}

impl<P: Port> Components<P> {
    /// Checks a command of the user. `rng` draws addresses of a new card.
    ///
    /// # Errors
    /// The reason why the command cannot be carried out now.
    pub(crate) fn admit_command(
        &self,
        command: Command,
        now: Time,
        rng: &mut dyn CryptoRng,
    ) -> Result<Admitted, DeviceError> {
        match &command {
            // A repeated command concerns the same note, so it must not be sent twice (MSG-15).
            Command::Send { client, .. } if self.threads.find_sent(client).is_some() => {
                return Ok(Admitted::Nothing);
            }
            Command::Send { contact, text, .. } => self.check_send(*contact, text, now)?,
            Command::Cancel { note } => {
                let note = self.find_note(*note)?;
                // A note that was delivered cannot be cancelled.
                if note.incoming || !note.is_waiting(now) {
                    return Err(DeviceError::Person(PersonError::NotNow));
                }
            }
            Command::Forget { note } => drop(self.find_note(*note)?),
            Command::SendAgain { client, .. } if self.threads.find_sent(client).is_some() => {
                return Ok(Admitted::Nothing);
            }
            Command::SendAgain { note, .. } => self.check_send_again(*note, now)?,
            Command::LowerLevel { note } => self.check_lower_level(*note, now)?,
            Command::Accept { contact } if self.is_inviter(*contact) => {
                return Err(DeviceError::Person(PersonError::NoCard));
            }
            Command::Refuse { contact } if self.is_inviter(*contact) => {}
            Command::Accept { contact } | Command::Refuse { contact } => {
                if self.contacts.named_contact(*contact)?.phase != ContactPhase::Request {
                    return Err(DeviceError::Person(PersonError::NotNow));
                }
            }
            Command::Rename { contact, name } => {
                check_petname(Some(name))?;
                self.contacts.named_contact(*contact)?;
            }
            Command::Policy { contact, policy } => self.check_policy(*contact, policy)?,
            Command::Reset { contact } => {
                let contact = self.contacts.named_contact(*contact)?;
                // Nothing is sent to a blocked contact, so a reset would have no effect (MSG-26).
                if contact.blocked {
                    return Err(DeviceError::Person(PersonError::Blocked));
                }
                if !contact.is_ours() || !contact.is_open() {
                    return Err(DeviceError::Person(PersonError::NotNow));
                }
            }
            Command::Seen { contact, .. }
            | Command::Verify { contact, .. }
            | Command::Block { contact, .. }
            | Command::Delete { contact } => drop(self.contacts.named_contact(*contact)?),
            Command::CorrectDate(_)
            | Command::Restored
            | Command::Rotate
            | Command::Refill
            | Command::Add { .. }
            | Command::Publish { .. } => {}
        }
        match command {
            Command::Add { card, petname, in_person } => {
                self::check_petname(petname.as_deref())?;
                let to = self.match_card(&card, now)?;
                Ok(Admitted::Add { to, card, petname, in_person })
            }
            Command::Publish { name, relays } => {
                own_card::check_name(&name)?;
                let (card, plan) = self.draft_card(&name, &relays, now, rng)?;
                Ok(Admitted::Publish { card, plan })
            }
            command => Ok(Admitted::Command(command)),
        }
    }

    fn find_note(&self, note: NoteId) -> Result<&crate::threads::StoredNote, DeviceError> {
        self.threads.get(note).ok_or(DeviceError::Caller(CallerError::NoSuchNote))
    }

    /// Checks that a note can be accepted. An accepted note is in the outbox after any crash
    /// (MSG-15).
    fn check_send(&self, id: ContactId, text: &str, now: Time) -> Result<(), DeviceError> {
        let bytes = text.len();
        // Refused before it is accepted: an accepted note must always be sendable (MSG-25).
        if text.is_empty() {
            return Err(DeviceError::Person(PersonError::EmptyText));
        }
        if bytes > TEXT_BYTES_MAX {
            return Err(DeviceError::Person(PersonError::TextTooLong {
                bytes,
                max: TEXT_BYTES_MAX,
            }));
        }
        let contact = self.contacts.named_contact(id)?;
        // Nothing is sent to a blocked contact (MSG-26).
        if contact.blocked {
            return Err(DeviceError::Person(PersonError::Blocked));
        }
        // A request must be accepted before it is answered (MSG-26).
        if !contact.is_ours() {
            return Err(DeviceError::Person(PersonError::NotNow));
        }
        let listed = contact.policy.carriers.iter();
        let states = listed.filter_map(|carrier| {
            self.carriers.carrier(*carrier).and_then(|one| one.state(None, now))
        });
        let max = states.map(|state| state.caps.parcel_bytes_max).max();
        let parcel = self.sessions.message_bytes(id, bytes).map_or(bytes, |message| message + 1);
        // At least one listed carrier must be able to carry the whole note, or it would wait for
        // ever (MSG-25).
        if let Some(max) = max.filter(|max| parcel > *max) {
            return Err(DeviceError::Person(PersonError::TooBig { bytes: parcel, max }));
        }
        // The outbox of a contact is bounded (MSG-35).
        if self.count_waiting(id, now) >= OUTBOX_MAX {
            return Err(DeviceError::Person(PersonError::OutboxFull));
        }
        Ok(())
    }

    /// Checks that a restore has left this note open, and that it could be sent.
    fn check_send_again(&self, id: NoteId, now: Time) -> Result<(), DeviceError> {
        let note = self.find_note(id)?;
        let left = self.outbox.aftermath(note.contact);
        let is_open = left.is_some_and(|left| left.unsure.contains(&id) || left.lost.contains(&id));
        let text = note.text().filter(|_| is_open);
        let text = text.ok_or(DeviceError::Person(PersonError::NotNow))?;
        self.check_send(note.contact, text, now)
    }

    /// Counts our notes for a contact that are neither delivered nor given up.
    fn count_waiting(&self, id: ContactId, now: Time) -> usize {
        let note = |note: &NoteId| self.threads.get(*note);
        let unsealed = self.outbox.waiting_notes(id);
        // Sealed notes are counted among those without a receipt.
        let unsealed = unsealed.iter().filter_map(note).filter(|note| note.seq == 0).count();
        let sealed = self
            .outbox
            .unanswered_notes(id)
            .filter(|id| note(id).is_some_and(|note| note.is_waiting(now)));
        unsealed + sealed.count()
    }

    /// Checks that a note waits at a level above the present one of its conversation. A note that a
    /// carrier took has already left under its old level.
    fn check_lower_level(&self, id: NoteId, now: Time) -> Result<(), DeviceError> {
        let note = self.find_note(id)?;
        let contact = self.contacts.named_contact(note.contact)?;
        if contact.blocked {
            return Err(DeviceError::Person(PersonError::Blocked));
        }
        let waits = !note.incoming && note.facts.is_empty() && note.is_waiting(now);
        if waits && note.level_min > contact.policy.level_min {
            return Ok(());
        }
        Err(DeviceError::Person(PersonError::NotNow))
    }

    fn check_policy(&self, id: ContactId, policy: &Policy) -> Result<(), DeviceError> {
        if !policy.is_sound() {
            return Err(DeviceError::Person(PersonError::BadPolicy));
        }
        let timer_s = self.contacts.named_contact(id)?.policy.timer_s;
        // A timer from an earlier version may stay, but it cannot be set again (MSG-52).
        if timer_s != policy.timer_s && !is_timer_step(policy.timer_s) {
            return Err(DeviceError::Person(PersonError::BadPolicy));
        }
        Ok(())
    }

    /// Returns the owner of a card that the user scanned or pasted.
    fn match_card(&self, card: &Card, now: Time) -> Result<CardOwner, DeviceError> {
        // A conversation with oneself would use both sides of one session.
        if *card.ik() == self.profile.identity().public_key() {
            return Err(DeviceError::Person(PersonError::OwnCard));
        }
        if let Some(id) = self.contacts.by_identity(card.ik().as_bytes()) {
            self.contacts.check_card(id, card)?;
            return Ok(CardOwner::Contact(id));
        }
        let inviters = self.carriers.collect_all(|one| one.inviters());
        // The card of an inviter belongs to chains that exist already (4.4).
        match inviters.iter().find(|inviter| inviter.ik == *card.ik().as_bytes()) {
            Some(inviter) => {
                self.carriers.all_carriers().try_for_each(|one| one.may_unmask(inviter.id, now))?;
                Ok(CardOwner::Inviter(inviter.id))
            }
            None => Ok(CardOwner::New),
        }
    }
}

fn check_petname(name: Option<&str>) -> Result<(), DeviceError> {
    let fits = |name: &str| {
        (1..=PETNAME_BYTES_MAX).contains(&name.len())
            && !name.trim().is_empty()
            && name::is_clean(name)
            && !name::looks_like_number(name)
    };
    if name.is_none_or(fits) { Ok(()) } else { Err(DeviceError::Person(PersonError::BadName)) }
}
