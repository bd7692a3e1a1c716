//! Rows as they are loaded at a start, for the device and its carriers.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

use mezza_core::{DecodeError, Reader, Wiping};

use super::{CarrierId, ContactId, RecordKind, Unread};
use crate::view::Part;

/// A stored row: kind, key, value.
pub type StoredRecord = (RecordKind, Vec<u8>, Wiping<Vec<u8>>);

/// Stored rows of one kind by key.
pub type RowsByKey = BTreeMap<Vec<u8>, Wiping<Vec<u8>>>;

/// Most bytes of a row's value, which leaves room for its key and lengths in the vault.
const RECORD_BYTES_MAX: usize = (1 << 20) - 256;

/// Bytes of a contact's number, which begins the keys of all its rows.
const PERSON_BYTES: usize = 4;

/// All stored rows that no component has taken yet.
pub struct StoredRows<'a> {
    rows: BTreeMap<RecordKind, RowsByKey>,
    unread: &'a [Unread],
}

impl<'a> StoredRows<'a> {
    /// Collects the rows by kind; `unread` are those that the store could not open.
    pub(crate) fn new(
        records: impl IntoIterator<Item = StoredRecord>,
        unread: &'a [Unread],
    ) -> Self {
        let mut rows = BTreeMap::<RecordKind, RowsByKey>::new();
        for (kind, key, value) in records {
            rows.entry(kind).or_default().insert(key, value);
        }
        Self { rows, unread }
    }

    /// Removes and returns all rows of a kind.
    pub fn take_kind(&mut self, kind: RecordKind) -> RowsByKey {
        self.rows.remove(&kind).unwrap_or_default()
    }

    /// Removes and returns the rows that belong to contacts and are read by the device or a present
    /// carrier, grouped by contact.
    pub(crate) fn take_people(&mut self, is_here: impl Fn(CarrierId) -> bool) -> Vec<PersonRows> {
        let mut people = BTreeMap::<[u8; PERSON_BYTES], Vec<StoredRecord>>::new();
        for kind in RecordKind::of_people(is_here) {
            let (own, others) =
                self.take_kind(kind).into_iter().partition(|(key, _)| key.len() >= PERSON_BYTES);
            // Rows shorter than a contact's number belong to the owner of the kind.
            self.rows.insert(kind, others);
            let own: RowsByKey = own;
            for (key, value) in own {
                let id = key.first_chunk().copied().unwrap_or_default();
                people.entry(id).or_default().push((kind, key, value));
            }
        }
        let whose = |(id, rows)| PersonRows { id: ContactId(u32::from_be_bytes(id)), rows };
        people.into_iter().map(whose).collect()
    }

    /// Removes and returns one row.
    pub fn take_one(&mut self, kind: RecordKind, key: &[u8]) -> Option<Wiping<Vec<u8>>> {
        self.rows.get_mut(&kind)?.remove(key)
    }

    /// Adds a row that was converted from the form of an earlier version.
    pub(crate) fn put(&mut self, kind: RecordKind, key: Vec<u8>, value: Wiping<Vec<u8>>) {
        self.rows.entry(kind).or_default().insert(key, value);
    }

    /// Returns the rows that no component took. Except for its settings, the program reads its own
    /// rows before the device loads, so a draft that is still here does not load (MSG-42).
    pub(crate) fn into_rest(self) -> impl Iterator<Item = Unloaded> {
        // The program reads its settings after the device, so they are not left over.
        let left = self.rows.into_iter().filter(|(kind, _)| *kind != RecordKind::Setting);
        left.flat_map(|(kind, rows)| {
            let other =
                move |(key, row): (_, Wiping<Vec<u8>>)| Unloaded::new(Part::Other, kind, key, &row);
            rows.into_iter().map(other)
        })
    }

    /// Returns true if the store could not open a row of this kind.
    pub fn has_lost(&self, kind: RecordKind) -> bool {
        self.unread.iter().any(|row| row.kind == Some(kind))
    }
}

/// The rows of one contact or inviter.
pub struct PersonRows {
    /// Number of the contact, with which the keys of its rows begin.
    pub id: ContactId,
    pub(crate) rows: Vec<StoredRecord>,
}

impl PersonRows {
    /// Returns the contact's rows of a kind: the rest of the key after the number, and the value.
    pub fn rows_of(&self, kind: RecordKind) -> impl Iterator<Item = (&[u8], &[u8])> {
        let own = self.rows.iter().filter(move |(other, _, _)| *other == kind);
        own.map(|(_, key, value)| (&key[PERSON_BYTES..], value.as_slice()))
    }

    /// Returns the contact's only row of this kind, or `None`.
    pub fn single_row(&self, kind: RecordKind) -> Option<&[u8]> {
        self.rows_of(kind).find(|(key, _)| key.is_empty()).map(|(_, value)| value)
    }

    /// Reads an optional row, or returns the default if the row does not exist.
    ///
    /// # Errors
    /// The row exists and `read` refuses it.
    pub fn read_optional<T: Default>(
        &self,
        kind: RecordKind,
        read: fn(&[u8]) -> Result<T, DecodeError>,
    ) -> Result<T, DecodeError> {
        self.single_row(kind).map_or_else(|| Ok(T::default()), read)
    }
}

/// A row that does not load. It is quarantined.
pub struct Unloaded {
    /// The part of the device to which the row belongs.
    pub part: Part,
    /// The name of that part (such as a contact's name), if the row contains it.
    pub name: Option<String>,
    /// Kind of the row.
    pub kind: RecordKind,
    /// Key of the row.
    pub key: Vec<u8>,
    /// Bytes of the row's value.
    pub bytes: usize,
}

impl Unloaded {
    /// Describes a row that does not load, without a name.
    pub fn new(part: Part, kind: RecordKind, key: Vec<u8>, value: &[u8]) -> Self {
        Self { part, name: None, kind, key, bytes: value.len() }
    }
}

/// Returns true if a row that was read encodes to the same bytes and is small enough for the vault
/// (MSG-43).
pub fn loads_again(value: &[u8], again: Result<Option<Wiping<Vec<u8>>>, DecodeError>) -> bool {
    let same = again.is_ok_and(|again| again.is_some_and(|again| again[..] == *value));
    same && fits_vault(value)
}

/// Returns true if a row is small enough for the vault.
pub fn fits_vault(value: &[u8]) -> bool {
    value.len() <= RECORD_BYTES_MAX
}

/// Decodes a row number, which is at most a quarter of its range. Counters may be stored up to half
/// of the range, so a counter that starts above any row number has as much room again.
pub(crate) fn id32(key: &[u8]) -> Result<u32, DecodeError> {
    let id = Reader::decode_exact(key, Reader::read_u32)?;
    // A number near the end of its range comes from a damaged row.
    if (1..=u32::MAX / 4).contains(&id) { Ok(id) } else { Err(DecodeError::Value) }
}

/// Decodes a row number of 8 bytes; it is at most a quarter of its range.
pub(crate) fn id64(key: &[u8]) -> Result<u64, DecodeError> {
    let id = Reader::decode_exact(key, Reader::read_u64)?;
    if id <= u64::MAX / 4 { Ok(id) } else { Err(DecodeError::Value) }
}
