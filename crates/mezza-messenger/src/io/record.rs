//! Rows that a device stores, by kind and key, each in a bucket of the vault.

use alloc::vec::Vec;
use core::fmt;

use mezza_core::{Snapshot, Wiping, Writer, snapshot};

use super::CarrierId;

/// The stored changes of one input, which are applied as a whole or not at all.
#[derive(Debug, Default)]
pub struct WriteBatch(pub Vec<RecordChange>);

snapshot!(struct WriteBatch(changes));

/// One change in the store.
pub enum RecordChange {
    /// Write a row. It replaces a row with the same kind and key.
    Put {
        /// Kind of the row.
        kind: RecordKind,
        /// Key of the row, unique within its kind, at most 96 bytes.
        key: Vec<u8>,
        /// The vault key that seals the row.
        bucket: Retention,
        /// Content of the row.
        value: Wiping<Vec<u8>>,
    },
    /// Delete a row. Nothing happens if it does not exist.
    Drop {
        /// Kind of the row.
        kind: RecordKind,
        /// Key of the row.
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

/// A stored row that the store could not open. Its key is sealed with its value, so only its kind
/// is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unread {
    /// The kind, which is stored in clear next to the sealed part; `None` if this version does not
    /// know it.
    pub kind: Option<RecordKind>,
    /// Bytes of the sealed part.
    pub bytes: usize,
}

snapshot!(struct Unread { kind, bytes });

/// The only component that reads and writes the rows of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordOwner {
    /// The device, or one of its components.
    Device,
    /// A carrier.
    Carrier(CarrierId),
    /// The program at floor 3; the device does not read these rows.
    Program,
    /// A component that this version lacks; its rows stay unchanged.
    Later,
}

/// The form of the row keys of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum KeyForm {
    /// An empty key; the kind has only one row.
    One,
    /// The number of a contact, 4 bytes, followed by bytes of the owner. The rows of one contact
    /// load together or not at all. An empty key is a row of the owner itself.
    Person,
    /// A number of 4 bytes.
    Number32,
    /// A number of 8 bytes.
    Number64,
    /// Any key of at most [`KEY_BYTES_MAX`] bytes.
    Free,
}

/// Most bytes of a row's key.
const KEY_BYTES_MAX: usize = 96;

/// The one table of row kinds: number, owner, vault key of its rows (`None`: chosen per row), form
/// of the key.
macro_rules! kinds {
    ($(
        $(#[$doc:meta])* $kind:ident = $number:literal: $owner:expr, $keep:expr, $key:ident;
    )+) => {
        /// The kind of a row, with its number in stored forms.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum RecordKind {
            $( $(#[$doc])* $kind = $number, )+
        }

        impl RecordKind {
            /// All kinds, in the order of their numbers.
            pub const ALL: &[Self] = &[$(Self::$kind),+];

            /// Returns the owner of the rows.
            pub const fn owner(self) -> RecordOwner {
                match self { $(Self::$kind => $owner,)+ }
            }

            /// Returns the vault key of all rows of this kind, or `None` if it is chosen per row.
            pub const fn retention(self) -> Option<Retention> {
                match self { $(Self::$kind => $keep,)+ }
            }

            const fn key(self) -> KeyForm {
                match self { $(Self::$kind => KeyForm::$key,)+ }
            }
        }
    };
}

const DEVICE: RecordOwner = RecordOwner::Device;
const RELAY: RecordOwner = RecordOwner::Carrier(CarrierId::RELAY);
const LINK: RecordOwner = RecordOwner::Carrier(CarrierId::LINK);
const MESH: RecordOwner = RecordOwner::Carrier(CarrierId::MESH);
const MIXNET: RecordOwner = RecordOwner::Carrier(CarrierId::MIXNET);
const PROGRAM: RecordOwner = RecordOwner::Program;
const PERMANENT: Option<Retention> = Some(Retention::Permanent);
const ROLLING: Option<Retention> = Some(Retention::Rolling);

kinds! {
    /// The profile: our identity, our card, counters.
    Profile = 1: DEVICE, PERMANENT, One;
    /// A contact with its conversation.
    Contact = 2: DEVICE, PERMANENT, Person;
    /// A note with its facts.
    Note = 3: DEVICE, None, Number64;
    /// A parcel that has not arrived yet.
    Parcel = 4: DEVICE, ROLLING, Number64;
    /// One of our mailboxes.
    Mailbox = 5: RELAY, ROLLING, Number32;
    /// A session of the ratchet.
    Session = 6: DEVICE, ROLLING, Person;
    /// A skipped message key.
    Skipped = 7: DEVICE, ROLLING, Person;
    /// A prekey (signed or one-time), or the record of a used one.
    Prekey = 8: DEVICE, ROLLING, Free;
    /// The window of note numbers received from a contact in one era.
    Seen = 9: DEVICE, PERMANENT, Person;
    /// A parcel that could not be opened yet.
    Held = 10: DEVICE, ROLLING, Number64;
    /// A setting of the program.
    Setting = 11: PROGRAM, PERMANENT, Free;
    /// The joined mixnet (one row).
    Network = 12: MIXNET, PERMANENT, One;
    /// A row of the mixnet client.
    NetworkRow = 13: MIXNET, ROLLING, Number64;
    /// An inviter over the mixnet that has not sent a card.
    Inviter = 14: MIXNET, ROLLING, Person;
    /// The bundle of a contact, kept for an invitation.
    Bundle = 15: DEVICE, ROLLING, Number32;
    /// A key of the mesh key tree: generation, start, kind.
    Tree = 16: MESH, PERMANENT, Free;
    /// The keyring of the mesh key tree: the content of a file, without the key that seals it.
    TreeRing = 17: MESH, None, One;
    /// The mesh tags of a contact.
    MeshPeer = 18: MESH, PERMANENT, Person;
    /// A fragment of a parcel that arrived over the mesh.
    MeshFragment = 19: MESH, ROLLING, Free;
    /// The state shared with a contact over a link.
    LinkPeer = 20: LINK, ROLLING, Person;
    /// Our name on links (one row).
    LinkOwn = 21: LINK, PERMANENT, One;
    /// The pairing with a guard (empty key), and the device's parts of keys that it makes together
    /// with the guard.
    Guard = 22: LINK, ROLLING, Free;
    /// Items that are owed to a contact.
    Owed = 23: DEVICE, ROLLING, Person;
    /// A flag: the session with a contact must be replaced.
    Renewal = 24: DEVICE, PERMANENT, Person;
    /// The addresses of a contact at relays, and our mailbox for the contact.
    RelayPeer = 25: RELAY, PERMANENT, Person;
    /// State of a contact in the mixnet.
    MixnetPeer = 26: MIXNET, PERMANENT, Person;
    /// The share of a contact: how many of its notes were stored.
    Quota = 27: DEVICE, PERMANENT, Person;
    /// The spent budget in a mixnet that was left.
    LeftNetwork = 28: MIXNET, PERMANENT, Free;
    /// The id of a received knock.
    KnockSeen = 29: MESH, None, Free;
    /// An unfinished note to a contact.
    Draft = 30: PROGRAM, ROLLING, Free;
    /// A change that is shown as a line in a thread.
    Change = 31: PROGRAM, PERMANENT, Free;
    /// An envelope of a parcel that is sent over the mesh.
    MeshParcel = 32: MESH, ROLLING, Free;
    /// The notes of a contact whose fate is unknown after a restore.
    Aftermath = 33: DEVICE, PERMANENT, Person;
}

impl Snapshot for RecordKind {
    fn snapshot_into(&self, w: &mut Writer) {
        w.put_u8(*self as u8);
    }
}

impl RecordKind {
    /// Returns the kind with this stored number, or `None`.
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.iter().copied().find(|kind| *kind as u8 == number)
    }

    /// Returns the kinds of rows that belong to one contact and are read by the device or a present
    /// carrier.
    pub(crate) fn of_people(is_here: impl Fn(CarrierId) -> bool) -> impl Iterator<Item = Self> {
        let is_read = move |kind: &Self| match kind.owner() {
            RecordOwner::Device => true,
            RecordOwner::Carrier(id) => is_here(id),
            RecordOwner::Program | RecordOwner::Later => false,
        };
        let people = Self::ALL.iter().copied().filter(|kind| kind.key() == KeyForm::Person);
        people.filter(is_read)
    }

    /// Returns true if a row of this kind may have this key and this vault key.
    pub fn accepts_key(self, key: &[u8], bucket: Retention) -> bool {
        let fits = match self.key() {
            KeyForm::One => key.is_empty(),
            KeyForm::Person => key.is_empty() || key.len() >= size_of::<u32>(),
            KeyForm::Number32 => key.len() == size_of::<u32>(),
            KeyForm::Number64 => key.len() == size_of::<u64>(),
            KeyForm::Free => true,
        };
        fits && key.len() <= KEY_BYTES_MAX && self.retention().is_none_or(|own| own == bucket)
    }
}

/// Lifetime of the vault key that seals a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Retention {
    /// The lifetime of the vault.
    Permanent,
    /// Until the next day; live state is sealed again each day.
    Rolling,
    /// Until the end of this hour since 1970.
    Hour(u32),
    /// Until the end of this day since 1970.
    Day(u32),
}

snapshot!(enum Retention [Permanent, Rolling, Hour(a), Day(a)]);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_has_a_number_of_its_own() {
        let numbers: Vec<u8> = RecordKind::ALL.iter().map(|kind| *kind as u8).collect();
        assert!(numbers.is_sorted() && numbers.windows(2).all(|two| two[0] < two[1]));
        let again = |kind: &RecordKind| RecordKind::from_number(*kind as u8) == Some(*kind);
        assert!(RecordKind::ALL.iter().all(again));
        assert!([0, 34].iter().all(|number| RecordKind::from_number(*number).is_none()));
    }

    #[test]
    fn msg_126_what_is_owed_is_live_state() {
        let owed = RecordKind::Owed;
        assert!(owed.accepts_key(&[0; 4], Retention::Rolling));
        assert!(!owed.accepts_key(&[0; 4], Retention::Permanent));
    }

    #[test]
    fn a_row_has_the_key_and_the_retention_of_its_kind() {
        use RecordKind::{Contact, Mailbox, Note, Profile, Setting};
        let keep = Retention::Permanent;
        let live = Retention::Rolling;
        assert!(
            Profile.accepts_key(&[], keep)
                && !Profile.accepts_key(&[1], keep)
                && !Profile.accepts_key(&[], live)
        );
        assert!(Contact.accepts_key(&[0; 4], keep) && Contact.accepts_key(&[0; 9], keep));
        assert!(!Contact.accepts_key(&[0; 3], keep) && !Contact.accepts_key(&[0; 4], live));
        assert!(Mailbox.accepts_key(&[0; 4], live) && !Mailbox.accepts_key(&[0; 8], live));
        assert!(Note.accepts_key(&[0; 8], keep) && Note.accepts_key(&[0; 8], Retention::Hour(7)));
        assert!(Setting.accepts_key(&[0; 96], keep) && !Setting.accepts_key(&[0; 97], keep));
    }
}
