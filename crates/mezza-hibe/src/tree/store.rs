//! Storing a tree, and loading it again.
//!
//! The host carries a [`Delta`] out in this order: new records, durable; the keyring replaced as a
//! whole, durable; then old records deleted. After the second step the erased epochs are gone, as far
//! as the medium forgets one small file. A crash between two steps leaves the old or the new state.

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

/// Generations that failed writes can have left between two loads; a name further ahead is none of
/// ours.
const CRASHED_GENERATIONS_MAX: u64 = 1 << 32;

/// All that changed since the last generation that was confirmed.
pub struct Delta {
    /// Names this state; confirm it when all three steps are done.
    pub generation: u64,
    /// Records to store, sealed. Writing one again writes the same bytes.
    pub put: Vec<(RecordName, Vec<u8>)>,
    /// The keyring, [`Shape::ring_bytes`]: secret, sealed by the host before it touches a file.
    pub keyring: Wiping<Vec<u8>>,
    /// Records to delete when the keyring is durable.
    pub drop: Vec<RecordName>,
}

crate::curve::silent!(Delta Storage);

/// Which records and keyrings a disk may hold.
pub(super) struct Storage {
    /// The last generation that was handed out; 0 for none.
    generation: u64,
    /// The last one that is known to be stored.
    confirmed: u64,
    /// True if something changed since the last one was handed out.
    changed: bool,
    /// Records of erased entries that may lie on a disk.
    dropped: Vec<RecordName>,
}

impl Storage {
    /// Of a tree that was never stored.
    pub const fn new() -> Self {
        Self { generation: 0, confirmed: 0, changed: true, dropped: Vec::new() }
    }

    /// Remembers that entries left the stack, or others came.
    pub fn record_changes(&mut self, erased: &[Entry]) {
        self.changed = true;
        self.dropped.extend(erased.iter().filter_map(Entry::record_name));
    }
}

impl KeyTree {
    /// Returns the changes to store now, if there are any. They grow until they are confirmed.
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

    /// The same with every record: a copy of the whole tree.
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

    /// The host has stored the delta of this generation, deletions included.
    pub fn confirm_stored(&mut self, generation: u64) {
        if generation == self.storage.generation {
            self.storage.confirmed = generation;
            if !self.storage.changed {
                self.storage.dropped.clear();
            }
        }
    }

    /// Names of records that were there when this tree was loaded and that no entry opens: what failed steps
    /// left. The host deletes them at once, without a step that could fail again; they are not named a
    /// second time.
    pub fn take_orphans(&mut self) -> Vec<RecordName> {
        if self.storage.confirmed != self.storage.generation {
            // Something was handed out since, and its delta names them.
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

    /// Loads a tree. `last_generation` is the newest that the host knows to have been stored; records
    /// that no entry of the keyring opens are what a crash left, and the next delta drops them. No
    /// point is decoded: at most 10 ms for a full stack.
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
            // A node that reaches into the branch of another life covers no branch exactly.
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
            // No record that a crash left is ever replaced.
            generation: generation.max(highest),
            confirmed: generation.max(highest),
            // What a crash left goes with the next delta, which is due if there is any.
            changed: !orphans.is_empty(),
            dropped: orphans,
        };
        Ok(Self { card: card.duplicate(), floors, stack, expansions: Vec::new(), storage })
    }
}

impl Entry {
    /// Finds and opens the record of an entry of a keyring: of those with its epoch and kind, the one
    /// that opens under its key.
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
