//! What a device wants stored: records by kind and key, each under a bucket of the vault.

use alloc::vec::Vec;
use core::fmt;

use mezza_core::{Snapshot, Wiping, Writer, snapshot};

/// What one input changes in the store; applied as a whole or not at all.
#[derive(Debug, Default)]
pub struct WriteBatch(pub Vec<RecordChange>);

snapshot!(struct WriteBatch(changes));

/// One change of the store.
pub enum RecordChange {
    /// Write a record, in place of an older one with the same kind and key.
    Put {
        /// Its kind.
        kind: RecordKind,
        /// Its key, unique within the kind, at most 96 bytes.
        key: Vec<u8>,
        /// Under which key the vault seals it.
        bucket: Retention,
        /// The stored form.
        value: Wiping<Vec<u8>>,
    },
    /// Delete a record; nothing happens if there is none.
    Drop {
        /// Its kind.
        kind: RecordKind,
        /// Its key.
        key: Vec<u8>,
    },
}

snapshot!(enum RecordChange [Put { kind, key, bucket, value }, Drop { kind, key }]);

impl fmt::Debug for RecordChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Put { kind, bucket, .. } => write!(f, "Put({kind:?}, {bucket:?})"),
            Self::Drop { kind, .. } => write!(f, "Drop({kind:?})"),
        }
    }
}

/// A stored row that the store cannot give out as a record. Its key is sealed with the value, so
/// that nobody knows which record of its kind it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unread {
    /// The kind that stands beside the sealed part; `None`: one that this version does not know.
    pub kind: Option<RecordKind>,
    /// Bytes of the sealed part.
    pub bytes: usize,
}

snapshot!(struct Unread { kind, bytes });

/// The kind of a record; the numbers are the ones of stored forms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum RecordKind {
    /// Identity, name, era, serial, counters: one record.
    Profile = 1,
    /// A contact with its policy.
    Contact = 2,
    /// A note with its facts.
    Note = 3,
    /// A parcel on its way.
    Parcel = 4,
    /// An own mailbox.
    Mailbox = 5,
    /// A session of the ratchet.
    Session = 6,
    /// A skipped message key.
    Skipped = 7,
    /// A prekey: signed, one-time, or the memory of one used.
    Prekey = 8,
    /// Which notes of a contact have arrived.
    Seen = 9,
    /// A parcel that could not be opened yet.
    Held = 10,
    /// A setting of the program at floor 3, which the device does not read.
    Setting = 11,
    /// The mixnet that was joined: one record.
    Network = 12,
    /// A row of the mixnet's client.
    NetworkRow = 13,
    /// Somebody who invites over the mixnet and has shown no card.
    Inviter = 14,
    /// The bundle of a contact, for an invitation.
    Bundle = 15,
    /// What must be said to a contact.
    Owed = 23,
    /// Whether the session with a contact gives way to a new one.
    Renewal = 24,
    /// Where a contact is reached by relays, and where it reaches us.
    RelayPeer = 25,
    /// A contact as the mixnet sees it.
    MixnetPeer = 26,
    /// How much of a contact's notes was kept.
    Quota = 27,
    /// A mixnet that was left: what was spent there.
    LeftNetwork = 28,
    /// What a person has begun to write to a contact: the program's at floor 3, as a setting.
    Draft = 30,
    /// A change that stands as a line in a thread: the program's at floor 3, as a setting.
    Change = 31,
}

impl Snapshot for RecordKind {
    fn snapshot_into(&self, w: &mut Writer) {
        w.u8(*self as u8);
    }
}

impl RecordKind {
    /// All kinds, in the order of their numbers.
    pub const ALL: [Self; 23] = [
        Self::Profile,
        Self::Contact,
        Self::Note,
        Self::Parcel,
        Self::Mailbox,
        Self::Session,
        Self::Skipped,
        Self::Prekey,
        Self::Seen,
        Self::Held,
        Self::Setting,
        Self::Network,
        Self::NetworkRow,
        Self::Inviter,
        Self::Bundle,
        Self::Owed,
        Self::Renewal,
        Self::RelayPeer,
        Self::MixnetPeer,
        Self::Quota,
        Self::LeftNetwork,
        Self::Draft,
        Self::Change,
    ];

    /// The kind of a stored number.
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| *kind as u8 == number)
    }
}

/// How long the key lives that seals a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Retention {
    /// As long as the vault.
    Permanent,
    /// Until the next day: live state, sealed anew each day.
    Rolling,
    /// Until the end of this hour since 1970.
    Hour(u32),
    /// Until the end of this day since 1970.
    Day(u32),
}

snapshot!(enum Retention [Permanent, Rolling, Hour(a), Day(a)]);
