//! Early expansion: a node is replaced by its own user key and the keys of its children before
//! their epochs begin. When time advances, keys are then only dropped and none is derived.

use alloc::vec::Vec;

use mezza_core::{CryptoRng, Wiping};

use super::derive::derivation_cost;
use super::{Cost, Entry, FlooredBranch, KeyTree, PREPARED_EPOCHS_MAX};
use crate::bkp::{NodeKey, Sums};
use crate::curve::silent;
use crate::error::TreeError;
use crate::lives::Life;
use crate::shape::{Epoch, Shape};
use crate::wire::ring::EntryKind;

/// The work that is left after a call of [`KeyTree::prepare_life`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The number of multiplications for the next node; 0 if nothing is left.
    pub left: u32,
}

/// A node that is partly expanded. The delegation key is kept until the last child is derived.
pub(super) struct Expansion {
    start: Epoch,
    node: NodeKey,
    /// The sums of the child number `next`.
    sums: Sums,
    next: u8,
    /// The derived children, the last child first.
    children: Vec<Entry>,
}

silent!(Expansion);

impl Expansion {
    fn new(shape: Shape, entry: &Entry) -> Result<Self, TreeError> {
        let node = entry.node_key(shape)?;
        let next = shape.arities()[entry.depth(shape)];
        let sums = node.descend_to(&node.empty_sums(), next);
        Ok(Self { start: entry.start, node, sums, next, children: Vec::new() })
    }

    /// Derives one child, the number `next`.
    fn derive_child(&mut self, below: u32, rng: &mut dyn CryptoRng) {
        let start = self.start.plus(1 + (u32::from(self.next) - 1) * below);
        self.children.push(Entry::derive_from(start, &self.node, &self.sums, rng));
        self.sums = self.node.left_sibling(&self.sums);
        self.next -= 1;
    }
}

impl Entry {
    /// Derives the keys of all children of a node, and wipes the node.
    ///
    /// # Errors
    /// `Damaged` if the points of the entry are invalid.
    pub(super) fn derive_children(
        self,
        shape: Shape,
        rng: &mut dyn CryptoRng,
    ) -> Result<Vec<Self>, TreeError> {
        let below = shape.subtree_epochs(self.depth(shape) + 1);
        let mut expansion = Expansion::new(shape, &self)?;
        while expansion.next > 0 {
            expansion.derive_child(below, rng);
        }
        expansion.children.reverse();
        Ok(core::mem::take(&mut expansion.children))
    }
}

impl KeyTree {
    /// Expands nodes of the shortest life, like [`prepare_life`](Self::prepare_life).
    ///
    /// # Errors
    /// `Damaged` if the points of a record are invalid.
    pub fn prepare_until(
        &mut self,
        upto: Epoch,
        budget: u32,
        rng: &mut dyn CryptoRng,
    ) -> Result<Progress, TreeError> {
        self.prepare_life(self.card.shortest_life(), upto, budget, rng)
    }

    /// Expands every inner node of a life that begins at `upto` or before, and then one further
    /// node, but none that begins more than 64 epochs after the floor (HIBE-27). One call does at
    /// most `budget` multiplications in G2: the most expensive child needs 24, and 32 take less
    /// than 20 ms.
    ///
    /// # Errors
    /// `NoLife` if the tree does not serve the life, `Damaged` if the points of a record are
    /// invalid.
    pub fn prepare_life(
        &mut self,
        life: Life,
        upto: Epoch,
        budget: u32,
        rng: &mut dyn CryptoRng,
    ) -> Result<Progress, TreeError> {
        let mut spent = 0;
        while let Some(index) = self.next_expansion(&self.find_branch(life)?, upto) {
            let shape = self.shape();
            let start = self.stack[index].start;
            let depth = self.stack[index].depth(shape);
            let cost = derivation_cost(shape, depth + 1);
            let below = shape.subtree_epochs(depth + 1);
            let begun = self.expansions.iter().position(|expansion| expansion.start == start);
            let mut expansion = match begun {
                Some(at) => self.expansions.swap_remove(at),
                None => Expansion::new(shape, &self.stack[index])?,
            };
            while expansion.next > 0 && spent + cost <= budget {
                expansion.derive_child(below, rng);
                spent += cost;
            }
            if expansion.next > 0 {
                let left = u32::from(expansion.next) * cost;
                self.expansions.push(expansion);
                return Ok(Progress { left });
            }
            self.replace_entry(index, expansion, rng);
        }
        Ok(Progress { left: 0 })
    }

    /// Returns the epoch of the node of the shortest life that `prepare_until` would expand next,
    /// and the cost.
    pub fn next_expansion_cost(&self, upto: Epoch) -> Option<(Epoch, Cost)> {
        let shortest = self.find_branch(self.card.shortest_life()).ok()?;
        let entry = &self.stack[self.next_expansion(&shortest, upto)?];
        let shape = self.shape();
        let depth = entry.depth(self.shape());
        let derivations = u32::from(shape.arities()[depth]);
        let multiplications = derivations * derivation_cost(shape, depth + 1);
        Some((entry.start, Cost { derivations, multiplications }))
    }

    /// Returns the index of the first inner node at `upto` or before. If there is none, returns the
    /// first inner node after `upto`, unless a node there is already expanded.
    fn next_expansion(&self, of: &FlooredBranch, upto: Epoch) -> Option<usize> {
        let shape = self.shape();
        let reach = of.floor.plus(PREPARED_EPOCHS_MAX);
        let inner = |entry: &Entry| entry.depth(shape) < shape.depth();
        let range = self.entries_of(&of.branch);
        let entries = range.clone().zip(&self.stack[range]);
        let near = entries.take_while(|(_, entry)| entry.start <= reach);
        for (index, entry) in near.filter(|(_, entry)| inner(entry)) {
            match entry.kind {
                EntryKind::Node => return Some(index),
                EntryKind::Single if entry.start > upto => return None,
                EntryKind::Single => {}
            }
        }
        None
    }

    /// Replaces a node by its own user key and its children.
    fn replace_entry(&mut self, index: usize, expansion: Expansion, rng: &mut dyn CryptoRng) {
        let node = &self.stack[index];
        let own = Wiping::new(node.user_points().to_vec());
        let own = Entry::new(node.start, EntryKind::Single, own, rng);
        let children = expansion.children.into_iter().rev();
        let entries: Vec<Entry> = core::iter::once(own).chain(children).collect();
        let erased: Vec<Entry> = self.stack.splice(index..=index, entries).collect();
        self.storage.record_changes(&erased);
    }

    /// Drops the partial expansion of a node that is no longer in the stack.
    pub(super) fn forget_expansion(&mut self) {
        let stack = &self.stack;
        let starts = |start| stack.iter().any(|e| e.kind == EntryKind::Node && e.start == start);
        self.expansions.retain(|expansion| starts(expansion.start));
    }
}
