//! Contents of a backup, as values: what a device gives out, and what a new vault is made of (BACKUP-1).
//!
//! No value here holds a key of a session, a prekey, a mailbox or a mixnet. The identity is the one
//! secret.

use alloc::string::String;
use alloc::vec::Vec;

use mezza_core::{Secret, Time, Wiping};

use crate::card::{Card, RelayEntry};
use crate::evidence::Fact;
use crate::io::{CarrierId, ContactId, NoteId};
use crate::note::Era;
use crate::policy::{NoteLife, Policy};
use crate::receipt::Window;
use crate::view::{ContactState, NoteContent, VerificationMethod};

/// The identity of a device, with what its card said.
pub struct BackupIdentity {
    /// The private identity key, X25519, 32 bytes.
    pub scalar: Secret<32>,
    /// The name on the card, at most 24 bytes.
    pub name: String,
    /// The serial of the card.
    pub serial: u32,
    /// Relays of the card. Their mailboxes are not part of a backup.
    pub relays: Vec<RelayEntry>,
}

/// A contact with the rules of its conversation.
pub struct BackupContact {
    /// Number of the contact on the device.
    pub id: ContactId,
    /// Card of the contact.
    pub card: Card,
    /// The user's name for the contact.
    pub petname: Option<String>,
    /// Method and time of the verification.
    pub verified: Option<(VerificationMethod, Time)>,
    /// The rules of the conversation.
    pub policy: Policy,
    /// State of the contact; never [`ContactState::Blocked`], which `blocked` stores.
    pub state: ContactState,
    /// True if the contact is blocked.
    pub blocked: bool,
    /// The era of our notes to the contact.
    pub own_era: Era,
    /// The number that the next note to the contact would have had.
    pub next_seq: u32,
}

/// A note without a timer.
pub struct BackupNote {
    /// Number of the note on the device.
    pub id: NoteId,
    /// The contact whose thread has the note.
    pub contact: ContactId,
    /// True if the note came from the contact.
    pub incoming: bool,
    /// Own notes: the number that a client drew for the note.
    pub client: [u8; 16],
    /// Content of the note.
    pub body: NoteContent,
    /// The era of the number `seq`.
    pub era: Era,
    /// Number of the note in its era; 0 if the note was never sealed.
    pub seq: u32,
    /// Time at which the note was written.
    pub sent: Time,
    /// Time at which the note was stored.
    pub at: Time,
    /// Time at which the carrier stops its attempts.
    pub due: Option<Time>,
    /// The lowest level of the conversation when the note was written.
    pub level_min: u8,
    /// The carrier over which the note left or arrived.
    pub carrier: Option<CarrierId>,
    /// Incoming: the level of that carrier, 0 if it is unknown.
    pub level: u8,
    /// Incoming: true if the user has seen it.
    pub seen: bool,
    /// True if the number of the note was declared void.
    pub voided: bool,
    /// The facts from which the state of the note follows.
    pub facts: Vec<Fact>,
    /// Own notes: the life that the user chose for this note alone.
    pub life: Option<NoteLife>,
}

/// The note numbers of one era of a contact: which have arrived, and which were read.
pub struct BackupWindow {
    /// The contact who sent the notes.
    pub contact: ContactId,
    /// Numbers that have arrived.
    pub arrived: Window,
    /// Numbers that were read.
    pub read: Window,
}

/// The privacy budget that was spent in a mixnet. It holds no key (MIX-69).
pub struct BackupNetwork {
    /// Hash of the network's first config, 32 bytes.
    pub pin: [u8; 32],
    /// Last known address of the entry server.
    pub address: String,
    /// The configs, the ledger of spent budget and the last rounds, as the client encodes them.
    pub remembered: Wiping<Vec<u8>>,
    /// True if the device was in this mixnet.
    pub joined: bool,
}

/// Why a backup is refused although its form is right.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BackupError {
    /// No card can be issued for the identity.
    #[error("the identity in it makes no card")]
    Identity,
    /// A contact is listed twice, has our own key, or has invalid rules.
    #[error("contact {0} in it is none")]
    Contact(u32),
    /// A note belongs to no contact, has the number of another note, or has a timer.
    #[error("note {0} in it is none")]
    Note(u64),
    /// A window of arrived numbers belongs to no contact, or is the second one of its era.
    #[error("a window of contact {0} in it is none")]
    Window(u32),
    /// A mixnet is listed twice.
    #[error("a mixnet in it is there twice")]
    Network,
}
