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

/// How long the keys of an envelope stay: the present epoch and the one before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Life {
    /// Epochs of 1 tick: erased after 30 s to 1 min.
    #[default]
    Minute,
    /// Epochs of 5 ticks: erased after 2.5 to 5 min. Of tree 1 only.
    FiveMinutes,
    /// Epochs of 60 ticks: erased after 30 min to 1 h.
    HalfHour,
    /// Epochs of 1,440 ticks: erased after 12 to 24 h.
    HalfDay,
}

impl Life {
    /// All of them, by their number on the wire.
    pub const ALL: [Self; 4] = [Self::Minute, Self::FiveMinutes, Self::HalfHour, Self::HalfDay];

    /// The number in the header of a cell (`docs/protocols/mesh.md`): 0 to 3.
    pub const fn number(self) -> u8 {
        self as u8
    }

    /// The life of a number on the wire.
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }

    /// Ticks of an epoch.
    pub const fn epoch_ticks(self) -> u32 {
        match self {
            Self::Minute => 1,
            Self::FiveMinutes => 5,
            Self::HalfHour => 60,
            Self::HalfDay => 1_440,
        }
    }

    /// Milliseconds of an epoch.
    pub const fn epoch_ms(self) -> u64 {
        self.epoch_ticks() as u64 * TICK_MS
    }
}

/// The part of a tree that serves one life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Branch {
    /// Which life.
    pub life: Life,
    /// Its first epoch.
    pub first: Epoch,
    /// The first epoch behind it.
    pub end: Epoch,
    /// Ticks of each epoch.
    pub epoch_ticks: u32,
}

impl Branch {
    /// Returns true if the epoch belongs to this branch.
    pub fn has_epoch(&self, epoch: Epoch) -> bool {
        self.first <= epoch && epoch < self.end
    }

    /// Number of its epochs.
    pub const fn epoch_count(&self) -> u32 {
        self.end.0 - self.first.0
    }

    /// Milliseconds of an epoch.
    pub const fn epoch_ms(&self) -> u64 {
        self.epoch_ticks as u64 * TICK_MS
    }
}

/// A range of the root's children that serves one life.
struct BranchPlan {
    life: Life,
    first_child: u32,
    last_child: u32,
    /// Ticks of an epoch, times k.
    epoch_ticks: u32,
}

const fn plan(life: Life, first_child: u32, last_child: u32, epoch_ticks: u32) -> BranchPlan {
    BranchPlan { life, first_child, last_child, epoch_ticks }
}

/// Tree 2.
const LIVES: [BranchPlan; 3] = [
    plan(Life::Minute, 1, 14, Life::Minute.epoch_ticks()),
    plan(Life::HalfHour, 15, 15, Life::HalfHour.epoch_ticks()),
    plan(Life::HalfDay, 16, 16, Life::HalfDay.epoch_ticks()),
];
/// Its small twin. The epochs are of 1, 2 and 4 ticks times k, so that all branches last for hours.
const TEST_LIVES: [BranchPlan; 3] =
    [plan(Life::Minute, 1, 2, 1), plan(Life::HalfHour, 3, 3, 2), plan(Life::HalfDay, 4, 4, 4)];

const fn plans_of(shape: Shape) -> &'static [BranchPlan] {
    match shape {
        Shape::Wide | Shape::Test => &[],
        Shape::Lives => &LIVES,
        Shape::TestLives => &TEST_LIVES,
    }
}

/// The epochs of a card's tree by time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TreeCalendar {
    /// The shape of the tree.
    pub shape: Shape,
    /// The length of the shortest epochs.
    pub profile: TreeProfile,
    /// The tick at which the life of the card begins.
    pub origin: Tick,
}

impl TreeCalendar {
    /// The branches, the shortest life first.
    pub fn branches(&self) -> impl Iterator<Item = Branch> + Clone + use<> {
        let calendar = *self;
        let longer = plans_of(self.shape).iter().skip(1);
        let longer = longer.map(move |plan| calendar.planned_branch(plan));
        core::iter::once(self.shortest_branch()).chain(longer)
    }

    /// The branch of the shortest life. The card ends with it.
    pub fn shortest_branch(&self) -> Branch {
        match plans_of(self.shape).first() {
            Some(plan) => self.planned_branch(plan),
            // A tree of one life is one branch, the root included.
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

    /// Returns the epoch of a life that a tick falls into.
    ///
    /// # Errors
    /// `NoLife`, `NotYet` before the origin, `Over` behind the last epoch of the branch.
    pub fn find_epoch(&self, life: Life, tick: Tick) -> Result<Epoch, TreeError> {
        let branch = self.find_branch(life).ok_or(TreeError::NoLife)?;
        let since = tick.0.checked_sub(self.origin.0).ok_or(TreeError::NotYet)?;
        let epoch = branch.first.plus(since / branch.epoch_ticks);
        if epoch < branch.end { Ok(epoch) } else { Err(TreeError::Over) }
    }

    /// The first tick of an epoch of a branch.
    pub fn first_tick(&self, branch: &Branch, epoch: Epoch) -> Tick {
        let since = epoch.0.saturating_sub(branch.first.0);
        Tick(self.origin.0.saturating_add(since.saturating_mul(branch.epoch_ticks)))
    }

    /// The first tick behind the life of the card.
    pub fn end_tick(&self) -> Tick {
        let shortest = self.shortest_branch();
        self.first_tick(&shortest, shortest.end)
    }

    /// Returns true if the origin is a multiple of every epoch, and no tick of the life is above 32 bits.
    /// Borders of epochs are therefore common to all cards of a life.
    pub fn can_begin(&self) -> bool {
        self.branches().all(|branch| {
            let ticks = branch.epoch_count().checked_mul(branch.epoch_ticks);
            let ends = ticks.and_then(|ticks| self.origin.0.checked_add(ticks)).is_some();
            ends && self.origin.0.is_multiple_of(branch.epoch_ticks)
        })
    }
}
