//! Records that a device stores: records by kind and key, each under a bucket of the vault.

use alloc::vec::Vec;
use core::fmt;

use mezza_core::{Snapshot, Wiping, Writer, snapshot};

use super::CarrierId;

/// The changes of one input in the store; applied as a whole or not at all.
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

/// The only component that reads and writes the rows of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordOwner {
    /// The device, or one of its components.
    Device,
    /// This carrier.
    Carrier(CarrierId),
    /// The program at floor 3: the device does not read them.
    Program,
    /// A part that this version has not: they stay as they are.
    Later,
}

/// The form of the keys of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum KeyForm {
    /// Empty: there is one row.
    One,
    /// A contact's number, 4 bytes, and what the owner puts behind it: the rows of one person load
    /// together or not at all. Empty: something of the owner itself.
    Person,
    /// A number of 4 bytes.
    Number32,
    /// A number of 8 bytes.
    Number64,
    /// Whatever its owner likes, at most [`KEY_BYTES_MAX`] bytes.
    Free,
}

/// Longest key of a record, bytes.
const KEY_BYTES_MAX: usize = 96;

/// The one table of record kinds: number, owner, under which key of the vault a row is sealed (`None`:
/// each row says it), form of the key.
macro_rules! kinds {
    ($(
        $(#[$doc:meta])* $kind:ident = $number:literal: $owner:expr, $keep:expr, $key:ident;
    )+) => {
        /// The kind of a record; the numbers are the ones of stored forms.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum RecordKind {
            $( $(#[$doc])* $kind = $number, )+
        }

        impl RecordKind {
            /// All kinds, in the order of their numbers.
            pub const ALL: &[Self] = &[$(Self::$kind),+];

            /// Whose the rows are.
            pub const fn owner(self) -> RecordOwner {
                match self { $(Self::$kind => $owner,)+ }
            }

            /// Under which key of the vault all rows are sealed; `None`: each row says it.
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
const LATER: RecordOwner = RecordOwner::Later;
const PERMANENT: Option<Retention> = Some(Retention::Permanent);
const ROLLING: Option<Retention> = Some(Retention::Rolling);

kinds! {
    /// The profile: who we are, our card, counters.
    Profile = 1: DEVICE, PERMANENT, One;
    /// A contact with its conversation.
    Contact = 2: DEVICE, PERMANENT, Person;
    /// A note with its facts.
    Note = 3: DEVICE, None, Number64;
    /// A parcel on its way.
    Parcel = 4: DEVICE, ROLLING, Number64;
    /// An own mailbox.
    Mailbox = 5: RELAY, ROLLING, Number32;
    /// A session of the ratchet.
    Session = 6: DEVICE, ROLLING, Person;
    /// A skipped message key.
    Skipped = 7: DEVICE, ROLLING, Person;
    /// A prekey: signed, one-time, or the memory of one used.
    Prekey = 8: DEVICE, ROLLING, Free;
    /// Which notes of a contact have arrived.
    Seen = 9: DEVICE, PERMANENT, Person;
    /// A parcel that could not be opened yet.
    Held = 10: DEVICE, ROLLING, Number64;
    /// A setting of the program.
    Setting = 11: PROGRAM, PERMANENT, Free;
    /// The mixnet that was joined: one record.
    Network = 12: MIXNET, PERMANENT, One;
    /// A row of the mixnet's client.
    NetworkRow = 13: MIXNET, ROLLING, Number64;
    /// Somebody who invites over the mixnet and has shown no card.
    Inviter = 14: MIXNET, ROLLING, Person;
    /// The bundle of a contact, for an invitation.
    Bundle = 15: DEVICE, ROLLING, Number32;
    /// A key of the tree: generation, start, kind.
    Tree = 16: LATER, PERMANENT, Free;
    /// The keyring of the tree: the content of a file, without a key.
    TreeRing = 17: LATER, None, One;
    /// The tags of a contact in the mesh.
    MeshPeer = 18: MESH, PERMANENT, Person;
    /// A fragment of a parcel that came by the mesh.
    MeshFragment = 19: MESH, ROLLING, Free;
    /// The state shared with a contact over a link.
    LinkPeer = 20: LINK, PERMANENT, Person;
    /// The own name on links: one record.
    LinkOwn = 21: LINK, PERMANENT, One;
    /// A coin that a guard gave.
    GuardCoin = 22: LATER, ROLLING, Free;
    /// Items that are owed to a contact.
    Owed = 23: DEVICE, ROLLING, Person;
    /// True if the session with a contact gives way to a new one.
    Renewal = 24: DEVICE, PERMANENT, Person;
    /// Where a contact is reached by relays, and where it reaches us.
    RelayPeer = 25: RELAY, PERMANENT, Person;
    /// A contact as the mixnet sees it.
    MixnetPeer = 26: MIXNET, PERMANENT, Person;
    /// How much of a contact's notes was kept.
    Quota = 27: DEVICE, PERMANENT, Person;
    /// A mixnet that was left: what was spent there.
    LeftNetwork = 28: MIXNET, PERMANENT, Free;
    /// The id of a knock that was heard.
    KnockSeen = 29: MESH, None, Free;
    /// An unfinished note to a contact.
    Draft = 30: PROGRAM, ROLLING, Free;
    /// A change that stands as a line in a thread.
    Change = 31: PROGRAM, PERMANENT, Free;
    /// An envelope of a parcel that leaves by the mesh.
    MeshParcel = 32: MESH, ROLLING, Free;
    /// Notes of a contact that a restore has left open.
    Aftermath = 33: DEVICE, PERMANENT, Person;
}

impl Snapshot for RecordKind {
    fn snapshot_into(&self, w: &mut Writer) {
        w.put_u8(*self as u8);
    }
}

impl RecordKind {
    /// The kind of a stored number.
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.iter().copied().find(|kind| *kind as u8 == number)
    }

    /// The kinds of rows that belong to one person and that an owner who is here reads.
    pub(crate) fn of_people(is_here: impl Fn(CarrierId) -> bool) -> impl Iterator<Item = Self> {
        let is_read = move |kind: &Self| match kind.owner() {
            RecordOwner::Device => true,
            RecordOwner::Carrier(id) => is_here(id),
            RecordOwner::Program | RecordOwner::Later => false,
        };
        let people = Self::ALL.iter().copied().filter(|kind| kind.key() == KeyForm::Person);
        people.filter(is_read)
    }

    /// Returns true if a row of this kind may have this key, and stand under this key of the vault.
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
