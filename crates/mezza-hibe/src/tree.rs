//! The key tree of one card: keys for every epoch from the floor on, and none for earlier epochs.
//!
//! ```text
//! epoch    Implied (in a node) --expand--> Ready (a user key) --open_key--> Held --erase--> Erased
//! tree     Running (floor < end of the shortest life) -> Over (the card is dead)
//! ```
//!
//! The stack is a list of entries sorted by epoch that cover [floor, end) of each branch exactly
//! (module [`lives`](crate::lives)). A *node* covers all epochs of its subtree, a *single* covers
//! one. Every key in it is an independent user key of the HIBE: derivations draw fresh factors, so
//! the keys of siblings together reveal nothing about the key of their parent.
//!
//! Changes are returned as a [`Delta`], which contains all changes not yet confirmed as stored. A
//! failed write followed by a successful one therefore loses no change.

mod derive;
mod expand;
mod store;

use alloc::vec::Vec;
use core::ops::Range;

use mezza_core::{CryptoRng, Secret, Wiping};

use crate::bkp::{self, NodeKey, UserKey};
use crate::curve::{G2_BYTES, silent};
use crate::detect::DetectKey;
use crate::envelope::{EpochKey, HeldKeys};
use crate::error::TreeError;
use crate::lives::{Branch, Life};
use crate::shape::{Epoch, Shape, Tick, TreeProfile};
use crate::system::System;
use crate::wire::card::CardBlock;
use crate::wire::ring::{EntryKind, RecordName};

use expand::Expansion;
pub use expand::Progress;
pub use store::Delta;

/// Most epochs after the floor that `prepare` reaches (HIBE-27).
pub const PREPARED_EPOCHS_MAX: u32 = 64;

/// The cost of an operation on the tree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// The number of keys that are derived.
    pub derivations: u32,
    /// The number of multiplications in G2.
    pub multiplications: u32,
}

/// One entry of the stack. The points are in stored order, and compressed until they are used.
struct Entry {
    start: Epoch,
    kind: EntryKind,
    points: Wiping<Vec<u8>>,
    /// The key that encrypts only the record of this entry.
    wrap: Secret<32>,
    /// The generation in which the entry was first handed out for storage; `None` for a new entry.
    generation: Option<u64>,
}

silent!(Entry);

impl Entry {
    fn new(
        start: Epoch,
        kind: EntryKind,
        points: Wiping<Vec<u8>>,
        rng: &mut dyn CryptoRng,
    ) -> Self {
        Self { start, kind, points, wrap: Secret::random(rng), generation: None }
    }

    /// Returns the level of the entry, counted from the root.
    fn depth(&self, shape: Shape) -> usize {
        shape.path_to(self.start).depth()
    }

    /// Returns the first epoch after those that the entry covers.
    fn end_epoch(&self, shape: Shape) -> Epoch {
        match self.kind {
            EntryKind::Single => self.start.plus(1),
            EntryKind::Node => self.start.plus(shape.subtree_epochs(self.depth(shape))),
        }
    }

    fn node_key(&self, shape: Shape) -> Result<NodeKey, TreeError> {
        let below = shape.depth() - self.depth(shape);
        NodeKey::decode(&self.points, below).map_err(|_| TreeError::Damaged)
    }

    /// Decodes the user key of the entry's first epoch.
    fn user_key(&self) -> Result<UserKey, TreeError> {
        UserKey::decode(self.user_points()).map_err(|_| TreeError::Damaged)
    }

    fn user_points(&self) -> &[u8] {
        &self.points[..bkp::USER_POINTS * G2_BYTES]
    }

    fn record_name(&self) -> Option<RecordName> {
        let Self { start, kind, generation, .. } = *self;
        Some(RecordName { generation: generation?, start, kind })
    }
}

/// The secret key of one card, in which past epochs are erased.
pub struct KeyTree {
    card: CardBlock,
    /// For each branch, the first epoch that is not erased.
    floors: Vec<Epoch>,
    stack: Vec<Entry>,
    /// The nodes that are being expanded. Only in memory: the work starts again after a restart.
    expansions: Vec<Expansion>,
    storage: store::Storage,
}

silent!(KeyTree);

/// A branch with its index among the branches and its floor.
struct FlooredBranch {
    at: usize,
    branch: Branch,
    floor: Epoch,
}

impl KeyTree {
    /// Creates a key pair: a new public key and its tree. `earliest` is the earliest tick that the
    /// current time can be. The life of the card begins at 00:00 UTC of that day, and epochs before
    /// the one that precedes `earliest` are erased at once (HIBE-32). The master key is wiped
    /// before the function returns (HIBE-10).
    pub fn create(
        system: &System,
        shape: Shape,
        profile: TreeProfile,
        earliest: Tick,
        rng: &mut dyn CryptoRng,
    ) -> Result<Self, TreeError> {
        // The lengths of epochs in tree 2 are fixed.
        let profile = if shape == Shape::Lives { TreeProfile::Minute } else { profile };
        let (parameters, root) = bkp::generate(system, shape.depth(), rng);
        let card = CardBlock::new(shape, profile, earliest.day_start(), parameters);
        let root = Entry::new(Epoch(0), EntryKind::Node, root.encode(), rng);
        // The root of a tree of several lives serves no life. Its children are derived at once, and
        // the root is wiped (HIBE-81).
        let stack =
            if shape.has_lives() { root.derive_children(shape, rng)? } else { alloc::vec![root] };
        let floors = card.calendar().branches().map(|branch| branch.first).collect();
        let storage = store::Storage::new();
        let mut tree = Self { card, floors, stack, expansions: Vec::new(), storage };
        for life in tree.card.lives() {
            let floor = tree.card.find_epoch(life, earliest)?.minus(1);
            tree.erase_life_below(life, floor, rng)?;
        }
        Ok(tree)
    }

    /// Returns the card block of this tree.
    pub fn card(&self) -> &CardBlock {
        &self.card
    }

    /// Returns the first epoch of the shortest life that is not erased.
    pub fn floor(&self) -> Epoch {
        self.floors.first().copied().unwrap_or(Epoch(0))
    }

    /// Returns the first epoch of `life` that is not erased.
    ///
    /// # Errors
    /// `NoLife` if the tree does not serve this life.
    pub fn find_floor(&self, life: Life) -> Result<Epoch, TreeError> {
        Ok(self.find_branch(life)?.floor)
    }

    /// Returns the last epoch of the shortest life.
    pub fn last_epoch(&self) -> Epoch {
        self.card.calendar().shortest_branch().end.minus(1)
    }

    /// Returns true if all epochs of the shortest life are erased, so that the card has ended.
    pub fn is_over(&self) -> bool {
        self.floor() > self.last_epoch()
    }

    /// Returns the branch of a life, with its index and floor.
    fn find_branch(&self, life: Life) -> Result<FlooredBranch, TreeError> {
        let branches = self.card.calendar().branches().zip(&self.floors).enumerate();
        let mut branches =
            branches.map(|(at, (branch, floor))| FlooredBranch { at, branch, floor: *floor });
        branches.find(|found| found.branch.life == life).ok_or(TreeError::NoLife)
    }

    /// Returns the indices of a branch's entries in the stack.
    fn entries_of(&self, branch: &Branch) -> Range<usize> {
        let place = |epoch| self.stack.partition_point(|entry| entry.start < epoch);
        place(branch.first)..place(branch.end)
    }

    fn shape(&self) -> Shape {
        self.card.shape()
    }

    /// Returns the number of entries in the stack, and the bytes of their points.
    pub fn stack_size(&self) -> (usize, usize) {
        (self.stack.len(), self.stack.iter().map(|entry| entry.points.len()).sum())
    }

    /// Returns the index of the entry that covers an epoch. Error: the epoch is erased, or after
    /// the last one.
    fn find_entry(&self, epoch: Epoch) -> Result<usize, TreeError> {
        let calendar = self.card.calendar();
        let Some(branch) = calendar.find_branch_with(epoch) else {
            // The root of a tree of several lives was wiped when the tree was created.
            let is_root = epoch < calendar.shortest_branch().first;
            return Err(if is_root { TreeError::Erased } else { TreeError::Over });
        };
        if epoch < self.find_floor(branch.life)? {
            return Err(TreeError::Erased);
        }
        // The stack covers [floor, end) of the branch, so an entry starts at `epoch` or before.
        Ok(self.stack.partition_point(|entry| entry.start <= epoch).saturating_sub(1))
    }

    /// Returns the key that opens the envelopes of one epoch. A stored user key is used as it is;
    /// any other key is derived with a fresh factor (HIBE-28) in 1.1 ms. The stack does not change.
    pub fn open_key(
        &self,
        system: &System,
        epoch: Epoch,
        rng: &mut dyn CryptoRng,
    ) -> Result<EpochKey, TreeError> {
        let entry = &self.stack[self.find_entry(epoch)?];
        let user = if entry.start == epoch {
            entry.user_key()?
        } else {
            let node = entry.node_key(self.shape())?;
            let sums = self.sums_to(entry, &node, epoch);
            node.derive_user(&sums, rng)
        };
        Ok(EpochKey::new(system, &self.card, epoch, &user))
    }

    /// Adds to `held` the keys of a life for the epoch before `tick`, the current epoch and the
    /// next one, except erased epochs (smooth rollover, section 6.4 of the paper). Keys of earlier
    /// epochs of this life are dropped. If `tick` is outside the branch, nothing changes.
    ///
    /// # Errors
    /// `NoLife` if the tree does not serve the life, `Damaged` if the points of a record are
    /// invalid.
    pub fn hold_keys(
        &self,
        system: &System,
        life: Life,
        tick: Tick,
        held: &mut HeldKeys,
        rng: &mut dyn CryptoRng,
    ) -> Result<(), TreeError> {
        let branch = self.find_branch(life)?.branch;
        let Ok(current) = self.card.find_epoch(life, tick) else { return Ok(()) };
        held.drop_below(life, current.minus(1));
        for epoch in [current.minus(1), current, current.plus(1)] {
            // The neighbour of a first or last epoch belongs to another life.
            if !branch.has_epoch(epoch) || held.has_epoch(epoch) {
                continue;
            }
            match self.open_key(system, epoch, rng) {
                Ok(key) => held.insert(key),
                Err(TreeError::Erased | TreeError::Over) => (),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Returns the sums of the path from a node down to an epoch below it.
    fn sums_to(&self, entry: &Entry, node: &NodeKey, epoch: Epoch) -> bkp::Sums {
        let path = self.shape().path_to(epoch);
        let relative = &path.components()[entry.depth(self.shape())..];
        relative.iter().fold(node.empty_sums(), |sums, m| node.descend_to(&sums, *m))
    }

    /// Returns a key that recognises, and cannot open, the envelopes of the subtree at `depth` that
    /// contains `epoch`. The key is derived from a node above that is not expanded. See
    /// [`DetectKey`].
    pub fn detect_key(
        &self,
        epoch: Epoch,
        depth: usize,
        rng: &mut dyn CryptoRng,
    ) -> Result<DetectKey, TreeError> {
        let shape = self.shape();
        let entry = &self.stack[self.find_entry(epoch)?];
        let path = shape.path_to(epoch);
        let root = path.components().get(..depth).and_then(crate::shape::Path::new);
        let root = shape.path_epoch(&root.ok_or(TreeError::Leaf)?);
        if entry.kind == EntryKind::Single || root < entry.start {
            return Err(TreeError::Leaf);
        }
        let node = entry.node_key(shape)?;
        let sums = self.sums_to(entry, &node, root);
        Ok(DetectKey::new(&self.card, root, node.detect_points(&sums, rng)))
    }
}
