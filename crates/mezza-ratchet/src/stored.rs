//! Changes of an operation on disk: rows of five tables. The vault at floor 3 encrypts these rows.

use alloc::vec::Vec;
use core::fmt;

use mezza_core::{Wiping, snapshot};

/// The table of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Table {
    /// Sessions of one contact; key = session id\[16\].
    Session = 1,
    /// Skipped message keys of one contact; key = session id\[16\] | ratchet key\[32\] | n u32.
    Skipped = 2,
    /// Signed prekeys of the device; key = id u32.
    Spk = 3,
    /// One-time prekeys of the device; key = id u32.
    Opk = 4,
    /// Base keys seen under a signed prekey of the device; key = SPK id u32 | hash\[16\].
    Seen = 5,
}

snapshot!(enum Table [Session, Skipped, Spk, Opk, Seen]);

impl Table {
    /// Returns the number of the table, which never changes.
    pub const fn number(self) -> u8 {
        self as u8
    }

    /// Returns the table with this number.
    pub const fn from_number(number: u8) -> Option<Self> {
        match number {
            1 => Some(Self::Session),
            2 => Some(Self::Skipped),
            3 => Some(Self::Spk),
            4 => Some(Self::Opk),
            5 => Some(Self::Seen),
            _ => None,
        }
    }
}

/// One row to write or to remove.
pub enum Change {
    /// Write `value` under `key` and replace the old value.
    Put {
        /// The table of the row.
        table: Table,
        /// The key of the row, without a prefix for the contact.
        key: Vec<u8>,
        /// The value in a stored form that begins with a version; secret.
        value: Wiping<Vec<u8>>,
    },
    /// Remove the row under `key`.
    Drop {
        /// The table of the row.
        table: Table,
        /// The key of the row, without a prefix for the contact.
        key: Vec<u8>,
    },
}

snapshot!(enum Change [Put { table, key, value }, Drop { table, key }]);

impl Change {
    /// Returns the table of the row.
    pub fn table(&self) -> Table {
        match self {
            Self::Put { table, .. } | Self::Drop { table, .. } => *table,
        }
    }

    /// Returns the key of the row, without a prefix for the contact.
    pub fn key(&self) -> &[u8] {
        match self {
            Self::Put { key, .. } | Self::Drop { key, .. } => key,
        }
    }
}

impl fmt::Debug for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Put { table, .. } => write!(f, "Put({table:?})"),
            Self::Drop { table, .. } => write!(f, "Drop({table:?})"),
        }
    }
}

/// The rows that one operation changes, in order. Store all rows in one transaction: after `seal`
/// before the message is sent, after `open` together with the body.
#[derive(Debug, Default)]
#[must_use = "the changes must become durable"]
pub struct Changes(Vec<Change>);

snapshot!(struct Changes(rows));

impl Changes {
    /// Creates an empty list of changes.
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// Returns the number of rows.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns true if no row changes.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns an iterator over the rows in order.
    pub fn iter(&self) -> core::slice::Iter<'_, Change> {
        self.0.iter()
    }

    /// Appends the rows of another operation.
    pub fn append(&mut self, mut other: Self) {
        self.0.append(&mut other.0);
    }

    /// Encodes all rows, sorted by table and key.
    pub(crate) fn encode(&self) -> Wiping<Vec<u8>> {
        let mut rows: Vec<&Change> = self.iter().collect();
        rows.sort_by_key(|row| (row.table(), row.key()));
        let mut bytes = Wiping::new(Vec::new());
        for row in rows {
            let value = match row {
                Change::Put { value, .. } => value.as_slice(),
                Change::Drop { .. } => &[],
            };
            bytes.push(row.table().number());
            for field in [row.key(), value] {
                bytes.extend_from_slice(&(field.len() as u64).to_be_bytes());
                bytes.extend_from_slice(field);
            }
        }
        bytes
    }

    pub(crate) fn put_row(&mut self, table: Table, key: Vec<u8>, value: Vec<u8>) {
        self.0.push(Change::Put { table, key, value: Wiping::new(value) });
    }

    pub(crate) fn drop_row(&mut self, table: Table, key: Vec<u8>) {
        self.0.push(Change::Drop { table, key });
    }
}

impl IntoIterator for Changes {
    type Item = Change;
    type IntoIter = alloc::vec::IntoIter<Change>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<'a> IntoIterator for &'a Changes {
    type Item = &'a Change;
    type IntoIter = core::slice::Iter<'a, Change>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

/// A row as it is read from disk, without a prefix for the contact.
#[derive(Clone, Copy)]
pub struct StoredRow<'a> {
    /// The table of the row.
    pub table: Table,
    /// The key of the row.
    pub key: &'a [u8],
    /// The value of the row; secret.
    pub value: &'a [u8],
}

impl fmt::Debug for StoredRow<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StoredRow({:?})", self.table)
    }
}
