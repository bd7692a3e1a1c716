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
use crate::policy::Policy;
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
    /// Its number on the device.
    pub id: ContactId,
    /// Its card.
    pub card: Card,
    /// The owner's name for it.
    pub petname: Option<String>,
    /// How and when it was verified.
    pub verified: Option<(VerificationMethod, Time)>,
    /// The rules of the conversation.
    pub policy: Policy,
    /// How far things are: never [`ContactState::Blocked`].
    pub state: ContactState,
    /// True if the contact is blocked.
    pub blocked: bool,
    /// The era of our notes to it.
    pub own_era: Era,
    /// The number that the next note to it would have had.
    pub next_seq: u32,
}

/// A note without a timer.
pub struct BackupNote {
    /// Its number on the device.
    pub id: NoteId,
    /// The contact whose thread has the note.
    pub contact: ContactId,
    /// True if it came from the contact.
    pub incoming: bool,
    /// Own notes: the number that a client drew for it.
    pub client: [u8; 16],
    /// Its content.
    pub body: NoteContent,
    /// The era of its number.
    pub era: Era,
    /// Its number; 0 if it was never sealed.
    pub seq: u32,
    /// When it was written.
    pub sent: Time,
    /// When it was stored.
    pub at: Time,
    /// When a carrier stops trying.
    pub due: Option<Time>,
    /// The lowest level under which it was written.
    pub level_min: u8,
    /// The carrier it left or came by.
    pub carrier: Option<CarrierId>,
    /// Incoming: the level of that carrier, 0 if it is unknown.
    pub level: u8,
    /// Incoming: true if the user has seen it.
    pub seen: bool,
    /// True if its number was declared void.
    pub voided: bool,
    /// The facts behind its state.
    pub facts: Vec<Fact>,
}

/// The numbers of one era of a contact that have arrived, and those that were read.
pub struct BackupWindow {
    /// The contact who sent the notes.
    pub contact: ContactId,
    /// Numbers that have arrived.
    pub arrived: Window,
    /// Numbers that were read.
    pub read: Window,
}

/// The charges of a mixnet that was joined. It holds no key (MIX-69).
pub struct BackupNetwork {
    /// The hash of its first config, 32 bytes.
    pub pin: [u8; 32],
    /// Where its entry was.
    pub address: String,
    /// Configs, ledger and last rounds.
    pub remembered: Wiping<Vec<u8>>,
    /// True if the device was in this mixnet.
    pub joined: bool,
}

/// Why a backup is refused although its form is right.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BackupError {
    /// The identity makes no card.
    #[error("the identity in it makes no card")]
    Identity,
    /// A contact that is there twice, has our own key, or rules that are none.
    #[error("contact {0} in it is none")]
    Contact(u32),
    /// A note of no contact, with a number of another note, or with a timer.
    #[error("note {0} in it is none")]
    Note(u64),
    /// A window of no contact, or two of one era.
    #[error("a window of contact {0} in it is none")]
    Window(u32),
    /// A mixnet that is there twice.
    #[error("a mixnet in it is there twice")]
    Network,
}
