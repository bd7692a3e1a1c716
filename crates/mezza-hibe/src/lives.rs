//! Lives: how long the keys of an envelope stay, and which branch of a tree serves which life.
//!
//! ```text
//! tree 1    root ── every epoch, of k ticks                          one life
//! tree 2    root ┬─ children 1 to 14    minutes      1 tick
//!                ├─ child 15            half hours   60 ticks
//!                └─ child 16            half days    1,440 ticks
//! ```
//!
//! The branches of tree 2 are disjoint subtrees, so a key of one life opens nothing of another one.

use crate::error::TreeError;
use crate::shape::{Epoch, Shape, TICK_MS, Tick, TreeProfile};

/// The life of an envelope: the time for which its keys are kept, which is the current epoch and
/// the one before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Life {
    /// Epochs of 1 tick: erased after 30 s to 1 min.
    #[default]
    Minute,
    /// Epochs of 5 ticks: erased after 2.5 to 5 min. Only tree 1 has this life.
    FiveMinutes,
    /// Epochs of 60 ticks: erased after 30 min to 1 h.
    HalfHour,
    /// Epochs of 1,440 ticks: erased after 12 to 24 h.
    HalfDay,
}

impl Life {
    /// All lives, in the order of their numbers on the wire.
    pub const ALL: [Self; 4] = [Self::Minute, Self::FiveMinutes, Self::HalfHour, Self::HalfDay];

    /// Returns the number of the life in the header of a cell (`docs/protocols/mesh.md`): 0 to 3.
    pub const fn number(self) -> u8 {
        self as u8
    }

    /// Returns the life with a number on the wire.
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }

    /// Returns the ticks of an epoch of this life, before the factor k.
    pub const fn epoch_ticks(self) -> u32 {
        match self {
            Self::Minute => 1,
            Self::FiveMinutes => 5,
            Self::HalfHour => 60,
            Self::HalfDay => 1_440,
        }
    }

    /// Returns the milliseconds of an epoch of this life, before the factor k.
    pub const fn epoch_ms(self) -> u64 {
        self.epoch_ticks() as u64 * TICK_MS
    }
}

/// The part of a tree that serves one life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Branch {
    /// The life that the branch serves.
    pub life: Life,
    /// The first epoch of the branch.
    pub first: Epoch,
    /// The first epoch after the branch.
    pub end: Epoch,
    /// Ticks of each epoch of the branch.
    pub epoch_ticks: u32,
}

impl Branch {
    /// Returns true if the epoch belongs to this branch.
    pub fn has_epoch(&self, epoch: Epoch) -> bool {
        self.first <= epoch && epoch < self.end
    }

    /// Returns the number of epochs in the branch.
    pub const fn epoch_count(&self) -> u32 {
        self.end.0 - self.first.0
    }

    /// Returns the milliseconds of an epoch of the branch.
    pub const fn epoch_ms(&self) -> u64 {
        self.epoch_ticks as u64 * TICK_MS
    }
}

/// A range of the root's children that serves one life.
struct BranchPlan {
    life: Life,
    first_child: u32,
    last_child: u32,
    /// Ticks of an epoch, to be multiplied by k.
    epoch_ticks: u32,
}

const fn plan(life: Life, first_child: u32, last_child: u32, epoch_ticks: u32) -> BranchPlan {
    BranchPlan { life, first_child, last_child, epoch_ticks }
}

/// The three branches of tree 2.
const LIVES: [BranchPlan; 3] = [
    plan(Life::Minute, 1, 14, Life::Minute.epoch_ticks()),
    plan(Life::HalfHour, 15, 15, Life::HalfHour.epoch_ticks()),
    plan(Life::HalfDay, 16, 16, Life::HalfDay.epoch_ticks()),
];
/// The three branches of the small test tree. Epochs are of 1, 2 and 4 ticks times k, so that all
/// branches last for hours.
const TEST_LIVES: [BranchPlan; 3] =
    [plan(Life::Minute, 1, 2, 1), plan(Life::HalfHour, 3, 3, 2), plan(Life::HalfDay, 4, 4, 4)];

const fn plans_of(shape: Shape) -> &'static [BranchPlan] {
    match shape {
        Shape::Wide | Shape::Test => &[],
        Shape::Lives => &LIVES,
        Shape::TestLives => &TEST_LIVES,
    }
}

/// Converts between ticks and epochs of a card's tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TreeCalendar {
    /// The shape of the tree.
    pub shape: Shape,
    /// The profile, which gives the factor k of the length of epochs.
    pub profile: TreeProfile,
    /// The tick at which the life of the card begins.
    pub origin: Tick,
}

impl TreeCalendar {
    /// Returns the branches of the tree, the shortest life first.
    pub fn branches(&self) -> impl Iterator<Item = Branch> + Clone + use<> {
        let calendar = *self;
        let longer = plans_of(self.shape).iter().skip(1);
        let longer = longer.map(move |plan| calendar.planned_branch(plan));
        core::iter::once(self.shortest_branch()).chain(longer)
    }

    /// Returns the branch of the shortest life. The card ends with this branch.
    pub fn shortest_branch(&self) -> Branch {
        match plans_of(self.shape).first() {
            Some(plan) => self.planned_branch(plan),
            // A tree of one life is a single branch, which includes the root.
            None => Branch {
                life: self.profile.life(),
                first: Epoch(0),
                end: Epoch(self.shape.epoch_count()),
                epoch_ticks: self.profile.epoch_ticks(),
            },
        }
    }

    fn planned_branch(self, plan: &BranchPlan) -> Branch {
        let below = self.shape.subtree_epochs(1);
        Branch {
            life: plan.life,
            first: Epoch(1 + (plan.first_child - 1) * below),
            end: Epoch(1 + plan.last_child * below),
            epoch_ticks: plan.epoch_ticks * self.profile.epoch_ticks(),
        }
    }

    /// Returns the branch of a life, or `None` if the tree does not serve it.
    pub fn find_branch(&self, life: Life) -> Option<Branch> {
        self.branches().find(|branch| branch.life == life)
    }

    /// Returns the branch that an epoch belongs to, or `None` for the root of tree 2 and for epochs
    /// that the tree does not have.
    pub fn find_branch_with(&self, epoch: Epoch) -> Option<Branch> {
        self.branches().find(|branch| branch.has_epoch(epoch))
    }

    /// Returns the epoch of a life that contains a tick.
    ///
    /// # Errors
    /// `NoLife` if the tree does not serve the life, `NotYet` before the origin, `Over` after the
    /// last epoch of the branch.
    pub fn find_epoch(&self, life: Life, tick: Tick) -> Result<Epoch, TreeError> {
        let branch = self.find_branch(life).ok_or(TreeError::NoLife)?;
        let since = tick.0.checked_sub(self.origin.0).ok_or(TreeError::NotYet)?;
        let epoch = branch.first.plus(since / branch.epoch_ticks);
        if epoch < branch.end { Ok(epoch) } else { Err(TreeError::Over) }
    }

    /// Returns the first tick of an epoch in `branch`.
    pub fn first_tick(&self, branch: &Branch, epoch: Epoch) -> Tick {
        let since = epoch.0.saturating_sub(branch.first.0);
        Tick(self.origin.0.saturating_add(since.saturating_mul(branch.epoch_ticks)))
    }

    /// Returns the first tick after the life of the card.
    pub fn end_tick(&self) -> Tick {
        let shortest = self.shortest_branch();
        self.first_tick(&shortest, shortest.end)
    }

    /// Returns true if the origin is a multiple of every epoch length, and all ticks of the life
    /// fit in 32 bits. Epochs of one life therefore begin at the same ticks for all cards.
    pub fn can_begin(&self) -> bool {
        self.branches().all(|branch| {
            let ticks = branch.epoch_count().checked_mul(branch.epoch_ticks);
            let ends = ticks.and_then(|ticks| self.origin.0.checked_add(ticks)).is_some();
            ends && self.origin.0.is_multiple_of(branch.epoch_ticks)
        })
    }
}
