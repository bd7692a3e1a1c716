//! Erasing past epochs in one step of any length.

use alloc::vec::Vec;

use mezza_core::CryptoRng;

use super::{Cost, Entry, KeyTree};
use crate::bkp::{DerivedKeys, NodeKey, Sums};
use crate::error::TreeError;
use crate::lives::Life;
use crate::shape::{Epoch, Path, Shape};
use crate::wire::ring::EntryKind;

impl Entry {
    /// Derives the key of a path and returns a stack entry with it.
    pub(super) fn derive_from(
        start: Epoch,
        node: &NodeKey,
        sums: &Sums,
        rng: &mut dyn CryptoRng,
    ) -> Self {
        let (kind, points) = match node.derive_keys(sums, rng) {
            DerivedKeys::Node(key) => (EntryKind::Node, key.encode()),
            DerivedKeys::User(key) => (EntryKind::Single, key.encode()),
        };
        Self::new(start, kind, points, rng)
    }
}

/// Returns the multiplications of one derivation at a depth.
pub(super) fn derivation_cost(shape: Shape, depth: usize) -> u32 {
    let below = (shape.depth() - depth) as u32;
    if below == 0 { 4 } else { 8 + 4 * below }
}

/// Returns the number of siblings to the right of a path, for each level below `depth`.
fn right_of_path(shape: Shape, path: &Path, depth: usize) -> impl Iterator<Item = u32> {
    let levels = shape.arities().iter().zip(path.components()).skip(depth);
    levels.map(|(arity, m)| u32::from(arity - m))
}

impl KeyTree {
    /// Erases every key of the shortest life below `floor`, like
    /// [`erase_life_below`](Self::erase_life_below).
    ///
    /// # Errors
    /// `Over` if `floor` is after the end of the life, `Damaged` if the points of a record are
    /// invalid.
    pub fn erase_below(&mut self, floor: Epoch, rng: &mut dyn CryptoRng) -> Result<(), TreeError> {
        self.erase_life_below(self.card.shortest_life(), floor, rng)
    }

    /// Erases every key of a life below `floor`, and nothing of another life (HIBE-82). The floor never
    /// goes back (HIBE-22). At most
    /// 156 derivations, whatever the distance (HIBE-25); none if the way was prepared (HIBE-26).
    ///
    /// The keys are wiped from memory when the function returns, and from the disk when the next
    /// [`Delta`](super::Delta) is stored.
    ///
    /// # Errors
    /// `NoLife` if the tree does not serve the life, and `Over` for a floor after the last epoch of
    /// the life.
    pub fn erase_life_below(
        &mut self,
        life: Life,
        floor: Epoch,
        rng: &mut dyn CryptoRng,
    ) -> Result<(), TreeError> {
        let found = self.find_branch(life)?;
        if floor <= found.floor {
            return Ok(());
        }
        if floor > found.branch.end {
            return Err(TreeError::Over);
        }
        let shape = self.shape();
        let range = self.entries_of(&found.branch);
        let entries = &self.stack[range.clone()];
        let gone = entries.partition_point(|entry| entry.end_epoch(shape) <= floor);
        let cut = entries.get(gone).filter(|entry| entry.start < floor);
        let derived = cut.map(|entry| self.right_of(entry, floor, rng)).transpose()?;
        let end = range.start + gone + usize::from(derived.is_some());
        let derived = derived.unwrap_or_default();
        let erased: Vec<Entry> = self.stack.splice(range.start..end, derived).collect();
        self.storage.record_changes(&erased);
        self.floors[found.at] = floor;
        self.forget_expansion();
        Ok(())
    }

    /// Returns the cost of [`erase_below`](Self::erase_below) with this floor.
    pub fn erasure_cost(&self, floor: Epoch) -> Cost {
        let mut cost = Cost::default();
        let Ok(index) = self.find_entry(floor) else { return cost };
        let shape = self.shape();
        let entry = &self.stack[index];
        if entry.start == floor {
            return cost;
        }
        let mut count = |derivations: u32, depth: usize| {
            cost.derivations += derivations;
            cost.multiplications += derivations * derivation_cost(shape, depth);
        };
        let path = shape.path_to(floor);
        let depth = entry.depth(shape);
        for (level, siblings) in (depth..).zip(right_of_path(shape, &path, depth)) {
            count(siblings, level + 1);
        }
        count(1, path.depth());
        cost
    }

    /// Returns the entries of a node from `floor` on: `floor` itself, and on each level of its path
    /// the siblings to the right. All entries are derived directly from this node, the rightmost
    /// first.
    fn right_of(
        &self,
        entry: &Entry,
        floor: Epoch,
        rng: &mut dyn CryptoRng,
    ) -> Result<Vec<Entry>, TreeError> {
        let shape = self.shape();
        let mut node = entry.node_key(shape)?;
        let path = shape.path_to(floor);
        let right = right_of_path(shape, &path, entry.depth(shape));
        node.prepare_tables(&right.collect::<Vec<_>>());
        let mut entries = Vec::new();
        let mut sums = node.empty_sums();
        // `start` is the epoch of the path so far.
        let mut start = entry.start;
        for level in entry.depth(shape)..path.depth() {
            let m = path.components()[level];
            let arity = shape.arities()[level];
            let below = shape.subtree_epochs(level + 1);
            sums = node.descend_to(&sums, arity);
            for j in (m + 1..=arity).rev() {
                let sibling = start.plus(1 + (u32::from(j) - 1) * below);
                entries.push(Entry::derive_from(sibling, &node, &sums, rng));
                sums = node.left_sibling(&sums);
            }
            start = start.plus(1 + (u32::from(m) - 1) * below);
        }
        entries.push(Entry::derive_from(start, &node, &sums, rng));
        entries.reverse();
        Ok(entries)
    }
}
