//! What goes into a [`Device`](crate::Device) and what comes out of it.
//!
//! The contract of floor 3: everything that stands in a [`Output::Store`] before an output is
//! durable before that output is carried out. The driver may drain `poll` to the end, commit all
//! batches as one transaction and then carry out the rest in order; a [`Output::Notify`] that stands
//! before the first `Store` is carried out before the commit. A commit that fails counts as a
//! crash: the device is dropped and loaded again.

use alloc::string::String;
use alloc::vec::Vec;

use mezza_core::Secret;
use mezza_ratchet::OneTimePrekey;

use crate::card::{Card, RelayEntry};
use crate::carrier::mixnet::{MixnetInput, MixnetOutput, NetworkAddress};
use crate::carrier::{Carrier, CarrierCaps};
use crate::relay_wire::{MailboxAddress, MailboxKind};

mod debug;
mod record;

pub use record::{RecordChange, RecordKind, Retention, Unread, WriteBatch};

/// The number of a contact on this device; it never names another contact later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ContactId(pub u32);

/// The number of a note on this device, either direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NoteId(pub u64);

/// The number of one of our own mailboxes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MailboxId(pub u32);

/// Names the connection to a relay by key, host and port
/// ([`RelayEntry::line`]): two cards that give one relay different hosts name two of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LineId(pub [u8; 16]);

/// Names one request to a carrier until it is answered or the carrier goes down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u64);

/// One input.
pub enum Input {
    /// The person wants something.
    Command(Command),
    /// Mail lies in one of our mailboxes. `mail` is the driver's own number, given back in
    /// [`Output::Acknowledge`].
    Arrived {
        /// The mailbox.
        slot: MailboxId,
        /// The driver's number of this mail.
        mail: u64,
        /// The envelope.
        bytes: Vec<u8>,
    },
    /// A relay connection stands.
    Up {
        /// Which connection.
        line: LineId,
        /// What it can do.
        caps: CarrierCaps,
    },
    /// A relay connection is gone; tickets in flight on it are void.
    Down {
        /// Which connection.
        line: LineId,
    },
    /// The carrier took it: relay DONE 0.
    Handed {
        /// Of which request.
        ticket: RequestId,
    },
    /// The carrier did not take it: relay DONE with another code.
    Refused {
        /// Of which request.
        ticket: RequestId,
        /// The relay's code, 1 to 5.
        code: u8,
        /// When to try again, seconds (codes 2 and 4).
        retry_s: u16,
    },
    /// The answer to [`Output::Fetch`].
    Bundle {
        /// Of which request.
        ticket: RequestId,
        /// The bundle as the relay gave it.
        bytes: Vec<u8>,
        /// A one-time key, if one was left.
        one_time: Option<OneTimePrekey>,
    },
    /// One-time keys left at the relay.
    Stock {
        /// Which connection.
        line: LineId,
        /// How many.
        n: u16,
    },
    /// News of the connection to the mixnet.
    Net(MixnetInput),
    /// What stood before [`Output::Durable`] of this number is durable.
    Durable(u64),
}

/// What a person asks of the device.
pub enum Command {
    /// Take a contact from a card.
    Add {
        /// The card, checked.
        card: Card,
        /// The owner's name for the contact; else the claimed name.
        petname: Option<String>,
        /// Whether the card was scanned from the person's own screen.
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
    /// Ask who it is that invites over the mixnet: their hello and card come in cells
    /// (messenger 4.4).
    See {
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
        /// Whether they were equal.
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
    /// Fresh signed prekeys now instead of when it is time, and a fresh stock with them.
    Rotate,
    /// Fill up the one-time keys at the relay.
    Refill,
    /// Join a mixnet.
    Join(NetworkAddress),
}

/// One output, in order.
pub enum Output {
    /// Make durable.
    Store(WriteBatch),
    /// Keep a connection to this relay from now on, at this host and port alone.
    Dial {
        /// Which (its `address` is not used here).
        relay: RelayEntry,
    },
    /// This relay is not needed any more.
    Disconnect {
        /// Which connection.
        line: LineId,
    },
    /// Put an envelope into somebody's mailbox; answered by `Handed` or `Refused`.
    Put {
        /// Names the request.
        ticket: RequestId,
        /// Which connection.
        line: LineId,
        /// The mailbox.
        address: MailboxAddress,
        /// How long the relay shall keep it.
        ttl_h: u16,
        /// The envelope, one of the six sizes.
        bytes: Vec<u8>,
    },
    /// Open an own mailbox; answered by `Handed` or `Refused`.
    Open {
        /// Names the request.
        ticket: RequestId,
        /// Which connection.
        line: LineId,
        /// The mailbox's secret.
        token: Secret<32>,
        /// What it is for.
        kind: MailboxKind,
    },
    /// Close an own mailbox; answered by `Handed` or `Refused`.
    Close {
        /// Names the request.
        ticket: RequestId,
        /// Which connection.
        line: LineId,
        /// The mailbox's secret.
        token: Secret<32>,
    },
    /// Have mail of an own mailbox delivered as `Arrived`; not answered unless refused.
    Watch {
        /// Names the request.
        ticket: RequestId,
        /// The mailbox's number here.
        slot: MailboxId,
        /// Which connection.
        line: LineId,
        /// The mailbox's secret.
        token: Secret<32>,
    },
    /// Put the own prekey bundle up; answered by `Handed` or `Refused`.
    Publish {
        /// Names the request.
        ticket: RequestId,
        /// Which connection.
        line: LineId,
        /// The intro mailbox's secret.
        token: Secret<32>,
        /// The bundle.
        bundle: Vec<u8>,
        /// One-time keys beside it.
        one_time: Vec<OneTimePrekey>,
        /// Whether the old stock goes first.
        replace: bool,
    },
    /// Get a contact's bundle; answered by `Bundle` or `Refused`.
    Fetch {
        /// Names the request.
        ticket: RequestId,
        /// Which connection.
        line: LineId,
        /// The contact's intro mailbox.
        address: MailboxAddress,
    },
    /// The mail is dealt with: the relay may forget it.
    Acknowledge {
        /// The mailbox it came from.
        slot: MailboxId,
        /// The driver's number of the mail.
        mail: u64,
    },
    /// Something about the connection to the mixnet.
    Net(MixnetOutput),
    /// Once everything before this is durable, say so: [`Input::Durable`].
    Durable(u64),
    /// Tell the person.
    Notify(Event),
}

/// What the person is told. Ids only: the text of it is asked of the device.
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
    Carrier(Carrier),
    /// The own card has changed.
    Card,
    /// More sessions begin without a one-time key than with one: somebody may drain the stock.
    Low,
}

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

/// What stands between a note and its way.
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
    /// The contact kept the mixnet busy for its part of the year's rounds.
    Talk,
}
