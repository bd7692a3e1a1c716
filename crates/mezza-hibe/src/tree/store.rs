//! Storing a tree and loading it.
//!
//! The host carries out a [`Delta`] in three durable steps: it writes the new records, replaces the
//! keyring as a whole, and deletes the old records. After the second step the erased epochs cannot
//! be read, provided that the medium really deletes one small file. A crash between two steps
//! leaves the old state or the new one.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use mezza_core::Wiping;

use super::{Entry, KeyTree};
use crate::bkp::{USER_POINTS, node_points};
use crate::curve::G2_BYTES;
use crate::error::ImportError;
use crate::shape::Shape;
use crate::wire::card::CardBlock;
use crate::wire::ring::{
    EntryKind, Record, RecordName, Ring, RingEntry, RingHead, encode_ring, open_record,
};

/// Most generations that failed writes can have used between two loads. A record name further ahead
/// is not from this tree.
const CRASHED_GENERATIONS_MAX: u64 = 1 << 32;

/// All changes since the last generation that the host confirmed.
pub struct Delta {
    /// The number of this state. The host confirms this number after all three steps.
    pub generation: u64,
    /// Encrypted records to store. A second write of a record has the same bytes.
    pub put: Vec<(RecordName, Vec<u8>)>,
    /// The keyring, [`Shape::ring_bytes`] long. The bytes are secret, and the host must encrypt
    /// them before they are written.
    pub keyring: Wiping<Vec<u8>>,
    /// Names of records to delete after the keyring is durable.
    pub drop: Vec<RecordName>,
}

crate::curve::silent!(Delta Storage);

/// The records and keyrings that the disk may contain.
pub(super) struct Storage {
    /// The last generation that was handed out; 0 if there was none.
    generation: u64,
    /// The last generation that is known to be stored.
    confirmed: u64,
    /// True if the tree changed since the last generation was handed out.
    changed: bool,
    /// Names of records of erased entries that the disk may still contain.
    dropped: Vec<RecordName>,
}

impl Storage {
    /// Creates the state of a tree that was never stored.
    pub const fn new() -> Self {
        Self { generation: 0, confirmed: 0, changed: true, dropped: Vec::new() }
    }

    /// Notes that the stack changed, and that the records of `erased` must be deleted.
    pub fn record_changes(&mut self, erased: &[Entry]) {
        self.changed = true;
        self.dropped.extend(erased.iter().filter_map(Entry::record_name));
    }
}

impl KeyTree {
    /// Returns the changes to store now; `None` if there are none. The changes accumulate until the
    /// host confirms them.
    pub fn pending_delta(&mut self) -> Option<Delta> {
        let storage = &mut self.storage;
        if !storage.changed && storage.confirmed == storage.generation {
            return None;
        }
        if storage.changed {
            storage.generation += 1;
            storage.changed = false;
        }
        let generation = storage.generation;
        let confirmed = storage.confirmed;
        for entry in &mut self.stack {
            entry.generation.get_or_insert(generation);
        }
        let new = self.stack.iter().filter(|e| e.generation.is_some_and(|g| g > confirmed));
        let put =
            new.filter_map(|entry| Some((entry.record_name()?, self.seal_entry(entry)?))).collect();
        let keyring = self.encode_keyring(generation);
        let drop = self.storage.dropped.clone();
        Some(Delta { generation, put, keyring, drop })
    }

    /// Returns a delta with every record: a copy of the whole tree.
    pub fn export_delta(&mut self) -> Delta {
        self.storage.confirmed = 0;
        self.storage.changed = true;
        let generation = self.storage.generation;
        self.pending_delta().unwrap_or_else(|| Delta {
            generation,
            put: Vec::new(),
            keyring: self.encode_keyring(generation),
            drop: Vec::new(),
        })
    }

    /// Notes that the host has carried out all three steps for the delta of this generation.
    pub fn confirm_stored(&mut self, generation: u64) {
        if generation == self.storage.generation {
            self.storage.confirmed = generation;
            if !self.storage.changed {
                self.storage.dropped.clear();
            }
        }
    }

    /// Returns true if the host has carried out a delta of this tree, so that a later load finds it.
    pub fn is_stored(&self) -> bool {
        self.storage.confirmed > 0
    }

    /// Returns the names of stored records that no entry uses, which failed writes left. The host
    /// deletes these records at once. Each name is returned only once.
    pub fn take_orphans(&mut self) -> Vec<RecordName> {
        if self.storage.confirmed != self.storage.generation {
            // A delta was handed out since, and that delta names the orphans.
            return Vec::new();
        }
        self.storage.changed = false;
        core::mem::take(&mut self.storage.dropped)
    }

    fn seal_entry(&self, entry: &Entry) -> Option<Vec<u8>> {
        let shape = self.shape();
        let name = entry.record_name()?;
        let depth = entry.depth(shape) as u8;
        let points = entry.points.as_slice();
        let record = Record { shape, kind: entry.kind, depth, start: entry.start, points };
        Some(record.seal(self.card.hash(), &name, &entry.wrap))
    }

    fn encode_keyring(&self, generation: u64) -> Wiping<Vec<u8>> {
        let calendar = self.card.calendar();
        let head = RingHead { calendar, floors: &self.floors, generation };
        let entries = self.stack.iter().map(|entry| (entry.start, entry.kind, &entry.wrap));
        encode_ring(&head, entries)
    }

    /// Loads a tree. `last_generation` is the newest generation that the host knows to be stored.
    /// Records that no keyring entry opens remained after a crash, and the next delta deletes them.
    /// No point is decoded: at most 10 ms for a full stack.
    pub fn import(
        card: &CardBlock,
        keyring: &[u8],
        records: &BTreeMap<RecordName, Vec<u8>>,
        last_generation: u64,
    ) -> Result<Self, ImportError> {
        let ring = Ring::decode(keyring)?;
        if (ring.shape, ring.profile, ring.origin) != (card.shape(), card.profile(), card.origin())
        {
            return Err(ImportError::Card);
        }
        if ring.generation < last_generation {
            return Err(ImportError::Older);
        }
        let Ring { floors, generation, entries, .. } = ring;
        let shape = card.shape();
        let mut stack: Vec<Entry> = Vec::with_capacity(entries.len());
        let mut entries = entries.into_iter();
        for (branch, floor) in card.calendar().branches().zip(&floors) {
            let mut next = *floor;
            while next < branch.end {
                let entry = entries.next().filter(|entry| entry.start == next);
                let entry = Entry::load_entry(card, entry.ok_or(ImportError::Gap)?, records)?;
                next = entry.end_epoch(shape);
                stack.push(entry);
            }
            // The last node of a branch must not extend into the branch of another life.
            if next != branch.end {
                return Err(ImportError::Gap);
            }
        }
        let bytes: usize = stack.iter().map(|entry| entry.points.len()).sum();
        if entries.next().is_some() || bytes > shape.stack_bytes_max() {
            return Err(ImportError::Gap);
        }
        let named: Vec<RecordName> = stack.iter().filter_map(Entry::record_name).collect();
        let orphans = records.keys().filter(|name| !named.contains(name));
        let orphans: Vec<RecordName> = orphans.copied().collect();
        let crashed = records.keys().map(|name| name.generation);
        let near = crashed.filter(|g| g.saturating_sub(generation) <= CRASHED_GENERATIONS_MAX);
        let highest = near.max().unwrap_or(0);
        let storage = Storage {
            // The generation continues after the highest record name, so no record from before a
            // crash is overwritten.
            generation: generation.max(highest),
            confirmed: generation.max(highest),
            // Records that remained after a crash are deleted with the next delta.
            changed: !orphans.is_empty(),
            dropped: orphans,
        };
        Ok(Self { card: card.duplicate(), floors, stack, expansions: Vec::new(), storage })
    }
}

impl Entry {
    /// Finds the record of a keyring entry: the record with the same epoch and kind that the key
    /// decrypts.
    fn load_entry(
        card: &CardBlock,
        RingEntry { start, kind, key }: RingEntry,
        records: &BTreeMap<RecordName, Vec<u8>>,
    ) -> Result<Self, ImportError> {
        let shape = card.shape();
        if start.0 >= shape.epoch_count() {
            return Err(ImportError::Gap);
        }
        let depth = shape.path_to(start).depth();
        if kind == EntryKind::Node && depth == shape.depth() {
            return Err(ImportError::Gap);
        }
        let mut error = ImportError::Missing(start);
        for (name, sealed) in records.iter().filter(|(n, _)| n.start == start && n.kind == kind) {
            let opened = open_record(sealed, card.hash(), shape, name, depth as u8, &key);
            match opened.ok().filter(|points| points.len() == points_bytes(shape, kind, depth)) {
                Some(points) => {
                    let generation = Some(name.generation);
                    return Ok(Self { start, kind, points, wrap: key, generation });
                }
                None => error = ImportError::Unsealed(start),
            }
        }
        Err(error)
    }
}

fn points_bytes(shape: Shape, kind: EntryKind, depth: usize) -> usize {
    G2_BYTES
        * match kind {
            EntryKind::Single => USER_POINTS,
            EntryKind::Node => node_points(depth, shape.depth()),
        }
}
