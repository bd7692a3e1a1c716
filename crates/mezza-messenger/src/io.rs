//! Inputs and outputs of a [`Device`](crate::Device).
//!
//! The contract with floor 3: every [`Output::Store`] before an output is durable before that
//! output is carried out. The driver may drain `poll` to the end, commit all batches as one
//! transaction, and then carry out the other outputs in order. An [`Output::Notify`] before the
//! first `Store` is carried out before the commit. A failed commit counts as a crash: the device is
//! dropped and loaded again.

use alloc::string::String;
use alloc::vec::Vec;

use mezza_core::{DecodeError, Reader, Snapshot, snapshot};

use crate::card::{Card, RelayEntry};
use crate::policy::{NoteLife, Policy};

mod carrier;
mod date;
mod debug;
mod effects;
mod keyring;
mod news;
mod pace;
mod record;
mod stored;

pub use carrier::{
    CardParts, CarrierCaps, CarrierConnection, CarrierHides, CarrierId, CarrierState, ContactFacts,
    Dropped, FirstTerms, Forget, Handover, HelloPlace, InviterFacts, Leaving, LeftRelay, Missing,
    NetworkAddress, NoiseGrade, ParcelId, Places, Publication, Reach, Route, RouteTerms,
    SessionFacts,
};
pub use date::DateStep;
pub(crate) use effects::RowFate;
pub use effects::{Ctx, Due, Effects, key32, key64};
pub use keyring::KeyringStep;
pub use news::{Arrival, ArrivalOrigin, By, FetchPurpose, Incoming, LostPlace, News, Receiving};
pub(crate) use pace::Pace;
pub use record::{RecordChange, RecordKind, RecordOwner, Retention, Unread, WriteBatch};
pub use stored::{
    PersonRows, RowsByKey, StoredRecord, StoredRows, Unloaded, fits_vault, loads_again,
};
pub(crate) use stored::{id32, id64};

/// The number of a contact on this device. It is never used again for another contact.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ContactId(pub u32);

snapshot!(struct ContactId(id));

/// The number of a note on this device, sent or received.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NoteId(pub u64);

snapshot!(struct NoteId(id));

/// The number of one of our mailboxes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MailboxId(pub u32);

snapshot!(struct MailboxId(id));

/// Identifies the connection to a relay by key, host and port ([`RelayEntry::connection_id`]). Two
/// cards with different hosts for one relay give two identifiers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RelayConnectionId(pub [u8; 16]);

snapshot!(struct RelayConnectionId(id));

/// Identifies a request to a carrier until it is answered or the carrier goes down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u64);

snapshot!(struct RequestId(id));

/// One input; `C` is the input type of the carriers.
#[expect(clippy::large_enum_variant, reason = "an input is dealt with at once, and never kept")]
pub enum Input<C> {
    /// A command of the user.
    Command(Command),
    /// An input for a carrier.
    Carrier(C),
    /// All rows before [`Output::Durable`] with this carrier and number are durable.
    Stored(CarrierId, u64),
}

/// A command of the user.
pub enum Command {
    /// Add a contact from a card.
    Add {
        /// The checked card.
        card: Card,
        /// The user's name for the contact; `None` uses the name on the card.
        petname: Option<String>,
        /// True if the card was scanned from the contact's own screen.
        in_person: bool,
    },
    /// Write a note. A repeated command with the same `client` writes no second note.
    Send {
        /// The recipient.
        contact: ContactId,
        /// A number of 16 bytes that the caller draws at random.
        client: [u8; 16],
        /// The text: UTF-8, 1 to 8,192 bytes.
        text: String,
        /// The life of this note where other devices carry it. `None`: that of the conversation.
        life: Option<NoteLife>,
    },
    /// Give up a note that is not delivered yet.
    Cancel {
        /// The note to give up.
        note: NoteId,
    },
    /// Delete a note on this device only.
    Forget {
        /// The note to delete.
        note: NoteId,
    },
    /// Send a note again whose fate is unknown after a restore: the lost device may have sent it,
    /// or the contact has lost it. A lost note is sent as a new note with the same text and time.
    SendAgain {
        /// The note to send again.
        note: NoteId,
        /// A number of 16 bytes for the new note that the caller draws at random.
        client: [u8; 16],
    },
    /// Let a waiting note leave at the lowest level that the conversation allows now. A policy
    /// change alone does not reach back to notes already written (MSG-22).
    LowerLevel {
        /// The waiting note.
        note: NoteId,
    },
    /// Report that the user has seen a thread up to this note.
    Seen {
        /// The contact of the thread.
        contact: ContactId,
        /// The newest note that was seen.
        note: NoteId,
    },
    /// Accept the request of an unknown sender.
    Accept {
        /// The contact of the request.
        contact: ContactId,
    },
    /// Refuse a request; it is deleted with its notes.
    Refuse {
        /// The contact of the request.
        contact: ContactId,
    },
    /// Set the user's name for a contact.
    Rename {
        /// The contact to rename.
        contact: ContactId,
        /// The new name, 1 to 64 bytes.
        name: String,
    },
    /// Store the result of comparing the safety numbers; `false` clears an earlier verification.
    Verify {
        /// The compared contact.
        contact: ContactId,
        /// True if the numbers were equal.
        equal: bool,
    },
    /// Set the policy of a conversation.
    Policy {
        /// The contact of the conversation.
        contact: ContactId,
        /// The complete new policy.
        policy: Policy,
    },
    /// Block or unblock a contact. Parcels of a blocked contact are dropped.
    Block {
        /// The contact to block or unblock.
        contact: ContactId,
        /// True to block, false to unblock.
        blocked: bool,
    },
    /// Delete a contact with its thread and mailboxes.
    Delete {
        /// The contact to delete.
        contact: ContactId,
    },
    /// Issue a new card of our own, with another name or other relays (a new serial).
    Publish {
        /// The name on the card.
        name: String,
        /// At most one relay in this version; the list may be empty.
        relays: Vec<RelayEntry>,
    },
    /// Archive the session of a contact. The next note begins a new session and announces this.
    Reset {
        /// The contact of the session.
        contact: ContactId,
    },
    /// Correct the date. The time of this input is the first one after the correction.
    CorrectDate(DateStep),
    /// Report that the vault was, or may have been, restored from a copy: numbers, sessions and
    /// prekeys are renewed.
    Restored,
    /// Replace the signed prekeys and the stock of one-time keys now, before their time.
    Rotate,
    /// Fill up the stock of one-time keys at the relay.
    Refill,
}

/// One output, in order; `C` is the request type of the carriers.
pub enum Output<C> {
    /// Store these changes durably.
    Store(WriteBatch),
    /// Carry out a request of a carrier.
    Carrier(C),
    /// Report to this carrier, by [`Input::Stored`], once all rows before this output are durable.
    Durable(CarrierId, u64),
    /// Show an event to the user.
    Notify(Event),
}

snapshot!(enum Output<C: Snapshot> [Store(a), Carrier(a), Durable(a, b), Notify(a)]);

impl<C> From<Command> for Input<C> {
    fn from(command: Command) -> Self {
        Self::Command(command)
    }
}

/// First byte of a parcel that holds a ratchet message (messenger 3.5).
pub(crate) const RATCHET_MESSAGE: u8 = 0x01;
/// First byte of a parcel that holds a knock (messenger 4.5).
pub(crate) const KNOCK: u8 = 0x02;

/// Decodes UTF-8 text of a stored form.
pub(crate) fn read_text(bytes: &[u8]) -> Result<String, DecodeError> {
    core::str::from_utf8(bytes).map(String::from).map_err(|_| DecodeError::Value)
}

/// Reads a flag of a stored form, 1 byte with value 0 or 1.
pub(crate) fn read_flag(r: &mut Reader<'_>) -> Result<bool, DecodeError> {
    match r.read_u8()? {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(DecodeError::Value),
    }
}

/// An event for the user. It contains ids only; the text is read from the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A note was added to a thread.
    Note(ContactId, NoteId),
    /// The state of a note changed.
    State(ContactId, NoteId),
    /// A note was deleted from this device.
    Gone(ContactId, NoteId),
    /// A contact is new or was changed.
    Contact(ContactId),
    /// A contact was deleted.
    ContactGone(ContactId),
    /// An unknown sender wrote or invites, or a request was accepted, refused or got another note.
    Request(ContactId),
    /// The session with a contact was replaced, for this reason.
    Anew(ContactId, ResetCause),
    /// A delivery problem of this contact needs the user.
    Trouble(ContactId, DeliveryProblem),
    /// A carrier went up or down, or its level changed.
    Carrier(CarrierId),
    /// Our card changed.
    Card,
    /// More sessions begin without a one-time key than with one; an attacker may be draining the
    /// stock.
    Low,
}

snapshot!(enum Event [
    Note(a, b), State(a, b), Gone(a, b), Contact(a), ContactGone(a), Request(a), Anew(a, b),
    Trouble(a, b), Carrier(a), Card, Low,
]);

/// The reason why a session was replaced, as the other side states it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ResetCause {
    /// A backup was restored.
    Restored = 1,
    /// The state was lost.
    Lost = 2,
    /// The user requested it.
    Person = 3,
}

snapshot!(enum ResetCause [Restored, Lost, Person]);

/// A problem that keeps notes from leaving.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeliveryProblem {
    /// The bundle of the contact was refused; nothing was sent.
    Bundle(mezza_ratchet::BundleError),
    /// A message of the contact was refused because of its suite.
    Suite(mezza_ratchet::OpenError),
    /// A card with the same serial but different content arrived.
    CardClash,
    /// Neither the contact's mailbox for us nor its intro mailbox exists any more.
    BoxGone,
    /// The contact sent more than its share; this number of notes was dropped.
    Share(u32),
    /// Two copies of one vault, ours or the contact's, wrote under the same numbers.
    Twice,
    /// Messages arrive that no session opens; another copy of the contact's vault may send them.
    Unopened,
    /// The contact kept the mixnet busy for its whole share of the year's rounds.
    Talk,
    /// The contact is not met in the mixnet while a parcel waits there: it is away, or its chains
    /// differ from ours.
    Absent,
}

snapshot!(enum DeliveryProblem [
    Bundle(a), Suite(a), CardClash, BoxGone, Share(a), Twice, Unopened, Talk, Absent,
]);
