//! Inputs and outputs of a [`Device`](crate::Device).
//!
//! The contract of floor 3: everything that stands in a [`Output::Store`] before an output is
//! durable before that output is carried out. The driver may drain `poll` to the end, commit all
//! batches as one transaction and then carry out the rest in order; a [`Output::Notify`] that stands
//! before the first `Store` is carried out before the commit. A commit that fails counts as a
//! crash: the device is dropped and loaded again.

use alloc::string::String;
use alloc::vec::Vec;

use mezza_core::{DecodeError, Reader, Snapshot, snapshot};

use crate::card::{Card, RelayEntry};

mod carrier;
mod date;
mod debug;
mod news;
mod pace;
mod record;
mod step;
mod stored;

pub use carrier::{
    CardParts, CarrierCaps, CarrierConnection, CarrierHides, CarrierId, CarrierState, ContactFacts,
    Dropped, FirstTerms, Forget, Handover, HelloPlace, InviterFacts, Leaving, LeftRelay, Missing,
    NetworkAddress, NoiseGrade, ParcelId, Places, Publication, Reach, Route, SessionFacts,
};
pub use date::DateStep;
pub use news::{Arrival, ArrivalOrigin, By, FetchPurpose, Incoming, LostPlace, News, Receiving};
pub(crate) use pace::Pace;
pub use record::{RecordChange, RecordKind, RecordOwner, Retention, Unread, WriteBatch};
pub(crate) use step::RowFate;
pub use step::{At, Due, Step, key32, key64};
pub use stored::{
    PersonRows, RowsByKey, StoredRecord, StoredRows, Unloaded, fits_vault, loads_again,
};
pub(crate) use stored::{id32, id64};

/// The number of a contact on this device; it never names another contact later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ContactId(pub u32);

snapshot!(struct ContactId(id));

/// The number of a note on this device, either direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NoteId(pub u64);

snapshot!(struct NoteId(id));

/// The number of one of our own mailboxes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MailboxId(pub u32);

snapshot!(struct MailboxId(id));

/// Names the connection to a relay by key, host and port
/// ([`RelayEntry::connection_id`]): two cards that give one relay different hosts name two of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RelayConnectionId(pub [u8; 16]);

snapshot!(struct RelayConnectionId(id));

/// Names one request to a carrier until it is answered or the carrier goes down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u64);

snapshot!(struct RequestId(id));

/// One input; `C` is what carriers are told.
#[expect(clippy::large_enum_variant, reason = "an input is dealt with at once, and never kept")]
pub enum Input<C> {
    /// The person wants something.
    Command(Command),
    /// Something for a carrier.
    Carrier(C),
    /// Everything before [`Output::Durable`] of this carrier and number is durable.
    Stored(CarrierId, u64),
}

/// A command of the user.
pub enum Command {
    /// Take a contact from a card.
    Add {
        /// The card, checked.
        card: Card,
        /// The owner's name for the contact; else the claimed name.
        petname: Option<String>,
        /// True if the card was scanned from the person's own screen.
        in_person: bool,
    },
    /// Write a note. `client` makes a repeated command the same note.
    Send {
        /// To whom.
        contact: ContactId,
        /// Drawn by the caller, 16 bytes.
        client: [u8; 16],
        /// UTF-8, 1 to 8,192 bytes.
        text: String,
    },
    /// Give a note up that was not delivered yet.
    Cancel {
        /// Which.
        note: NoteId,
    },
    /// Delete a note on this device alone.
    Forget {
        /// Which.
        note: NoteId,
    },
    /// Send a note that a restore has left open: one that may have been sent by the lost device, or one
    /// that the contact lost. The second one goes as a new note with the same text and time.
    SendAgain {
        /// Which.
        note: NoteId,
        /// Drawn by the caller, 16 bytes: the number of a new note.
        client: [u8; 16],
    },
    /// The person has seen the thread up to and with this note.
    Seen {
        /// Whose thread.
        contact: ContactId,
        /// The newest note seen.
        note: NoteId,
    },
    /// Let a stranger in.
    Accept {
        /// The contact of the request.
        contact: ContactId,
    },
    /// Turn a stranger away; the request and its notes are deleted.
    Refuse {
        /// The contact of the request.
        contact: ContactId,
    },
    /// Another name for a contact.
    Rename {
        /// Whom.
        contact: ContactId,
        /// 1 to 64 bytes.
        name: String,
    },
    /// The numbers were compared: equal, or (`false`) the mark is taken back.
    Verify {
        /// Whom.
        contact: ContactId,
        /// True if they were equal.
        equal: bool,
    },
    /// How to talk to a contact from now on.
    Policy {
        /// Whom.
        contact: ContactId,
        /// The new policy, whole.
        policy: crate::policy::Policy,
    },
    /// Take parcels of this contact and drop them.
    Block {
        /// Whom.
        contact: ContactId,
        /// Or let them in again.
        blocked: bool,
    },
    /// Delete a contact with its thread and mailboxes.
    Delete {
        /// Whom.
        contact: ContactId,
    },
    /// Another name or other relays on the own card (a new serial).
    Publish {
        /// The name that others read.
        name: String,
        /// At most one in the first version; empty: none.
        relays: Vec<RelayEntry>,
    },
    /// Archive the session of a contact; the next note starts anew and says so.
    Reset {
        /// Whom.
        contact: ContactId,
    },
    /// The date was corrected, and the time of this input is the first one behind that.
    CorrectDate(DateStep),
    /// The vault was put back from a copy, or may have been: new numbers, sessions and prekeys.
    Restored,
    /// Fresh signed prekeys now instead of when it is time, and a fresh stock with them.
    Rotate,
    /// Fill up the one-time keys at the relay.
    Refill,
}

/// One output, in order; `C` is what carriers ask for.
pub enum Output<C> {
    /// Make durable.
    Store(WriteBatch),
    /// A carrier wants something done.
    Carrier(C),
    /// A carrier wants to be told once everything before this is durable: [`Input::Stored`].
    Durable(CarrierId, u64),
    /// Tell the person.
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

/// UTF-8 out of a stored form.
pub(crate) fn read_text(bytes: &[u8]) -> Result<String, DecodeError> {
    core::str::from_utf8(bytes).map(String::from).map_err(|_| DecodeError::Value)
}

/// A flag of a stored form, 1 byte.
pub(crate) fn read_flag(r: &mut Reader<'_>) -> Result<bool, DecodeError> {
    match r.read_u8()? {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(DecodeError::Value),
    }
}

/// An event for the user. Ids only: the text is requested from the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A note stands in a thread.
    Note(ContactId, NoteId),
    /// A note has another state.
    State(ContactId, NoteId),
    /// A note is gone from this device.
    Gone(ContactId, NoteId),
    /// A contact is new or has changed.
    Contact(ContactId),
    /// A contact is gone.
    ContactGone(ContactId),
    /// A stranger wrote or invites, or a request was accepted, refused or grew.
    Request(ContactId),
    /// The session was started anew; why.
    Anew(ContactId, ResetCause),
    /// Something on the way to this contact needs the person.
    Trouble(ContactId, DeliveryProblem),
    /// A carrier went up or down, or its level changed.
    Carrier(CarrierId),
    /// The own card has changed.
    Card,
    /// More sessions begin without a one-time key than with one: somebody may drain the stock.
    Low,
}

snapshot!(enum Event [
    Note(a, b), State(a, b), Gone(a, b), Contact(a), ContactGone(a), Request(a), Anew(a, b),
    Trouble(a, b), Carrier(a), Card, Low,
]);

/// Why a session was started anew, as the other side says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ResetCause {
    /// A backup was restored.
    Restored = 1,
    /// The state was lost.
    Lost = 2,
    /// The person wanted it.
    Person = 3,
}

snapshot!(enum ResetCause [Restored, Lost, Person]);

/// A problem that keeps notes from leaving.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeliveryProblem {
    /// The bundle of the contact was refused; nothing was sent.
    Bundle(mezza_ratchet::BundleError),
    /// A message of the contact was refused for its suite.
    Suite(mezza_ratchet::OpenError),
    /// A card with the same serial but other content came in.
    CardClash,
    /// Neither the slot nor the intro box exists any more.
    BoxGone,
    /// The contact sent more than its share: so many notes were not kept.
    Share(u32),
    /// Two lives of one vault wrote under the same numbers, this device's or the contact's.
    Twice,
    /// Messages come that no session opens: another copy of the contact's vault may write them.
    Unopened,
    /// The contact kept the mixnet busy for its part of the year's rounds.
    Talk,
    /// The contact is not met in the mixnet while something waits there: it is away, or has other chains.
    Absent,
}

snapshot!(enum DeliveryProblem [
    Bundle(a), Suite(a), CardClash, BoxGone, Share(a), Twice, Unopened, Talk, Absent,
]);
