//! Early expansion: a node becomes its own user key and its children, ahead of the epoch that needs
//! them, so that a step of time drops keys and derives none.

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

/// The work that is left after a call of `prepare`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Multiplications of the node that is next; 0 if nothing is left.
    pub left: u32,
}

/// A node that is partly expanded. It keeps its delegation key until the last child is there.
pub(super) struct Expansion {
    start: Epoch,
    node: NodeKey,
    /// The sums of the next child, which is `next`.
    sums: Sums,
    next: u8,
    /// Children, the last one first.
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

    /// Derives the next child.
    fn derive_child(&mut self, below: u32, rng: &mut dyn CryptoRng) {
        let start = self.start.plus(1 + (u32::from(self.next) - 1) * below);
        self.children.push(Entry::derive_from(start, &self.node, &self.sums, rng));
        self.sums = self.node.left_sibling(&self.sums);
        self.next -= 1;
    }
}

impl Entry {
    /// Derives all children of a node, which is wiped.
    ///
    /// # Errors
    /// `Damaged` if the entry is no node.
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
    /// Expands nodes of the shortest life. See [`prepare_life`](Self::prepare_life).
    ///
    /// # Errors
    /// `Damaged` for a record that is no key.
    pub fn prepare_until(
        &mut self,
        upto: Epoch,
        budget: u32,
        rng: &mut dyn CryptoRng,
    ) -> Result<Progress, TreeError> {
        self.prepare_life(self.card.shortest_life(), upto, budget, rng)
    }

    /// Expands every inner node of a life that begins at `upto` or before, and then one beyond, but none
    /// that begins more than 64 epochs behind the floor (HIBE-27). One call multiplies at most `budget`
    /// times in G2: 24 are the dearest child, 32 stay below 20 ms.
    ///
    /// # Errors
    /// `NoLife`, and `Damaged` for a record that is no key.
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

    /// The epoch of the node of the shortest life that `prepare_until` would expand next, and what that
    /// costs.
    pub fn next_expansion_cost(&self, upto: Epoch) -> Option<(Epoch, Cost)> {
        let shortest = self.find_branch(self.card.shortest_life()).ok()?;
        let entry = &self.stack[self.next_expansion(&shortest, upto)?];
        let shape = self.shape();
        let depth = entry.depth(self.shape());
        let derivations = u32::from(shape.arities()[depth]);
        let multiplications = derivations * derivation_cost(shape, depth + 1);
        Some((entry.start, Cost { derivations, multiplications }))
    }

    /// The first inner node at `upto` or before; else the first one behind it, unless one there is
    /// expanded already.
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

    /// Puts a node's own user key and its children in its place.
    fn replace_entry(&mut self, index: usize, expansion: Expansion, rng: &mut dyn CryptoRng) {
        let node = &self.stack[index];
        let own = Wiping::new(node.user_points().to_vec());
        let own = Entry::new(node.start, EntryKind::Single, own, rng);
        let children = expansion.children.into_iter().rev();
        let entries: Vec<Entry> = core::iter::once(own).chain(children).collect();
        let erased: Vec<Entry> = self.stack.splice(index..=index, entries).collect();
        self.storage.record_changes(&erased);
    }

    /// Drops partial work on a node that is no longer in the stack.
    pub(super) fn forget_expansion(&mut self) {
        let stack = &self.stack;
        let starts = |start| stack.iter().any(|e| e.kind == EntryKind::Node && e.start == start);
        self.expansions.retain(|expansion| starts(expansion.start));
    }
}
