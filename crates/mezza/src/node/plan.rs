//! All that comes of one input, in the order in which it is carried out.
//!
//! ```text
//! input -> handle -> poll .. poll -> None
//!                    |
//!                    +-- shown before the first batch: at once
//!                    +-- batches: one commit for all of them
//!                    +-- the rest, in order: only after the commit
//! ```

use mezza_core::{Backend, Machine as _};
use mezza_messenger::{Device, Event, Output, WriteBatch};

/// All outputs of one input, ready to be carried out from top to bottom.
#[derive(Default)]
pub struct CommitPlan {
    /// To tell before the commit, and once more after it.
    pub early: Vec<Event>,
    /// To commit as one transaction.
    pub batches: Vec<WriteBatch>,
    /// To do after the commit, in order.
    pub late: Vec<Output>,
    /// True if its batches may wait for the next commit, where nothing is to do after them.
    pub may_wait: bool,
    /// True if the person caused it.
    pub own: bool,
}

impl CommitPlan {
    /// Returns true if the input had no outputs.
    pub(crate) fn is_empty(&self) -> bool {
        self.early.is_empty() && self.batches.is_empty() && self.late.is_empty()
    }
}

/// Drains a device after `handle` or `wake`.
pub fn drain_device<B: Backend>(device: &mut Device<B>) -> CommitPlan {
    let mut plan = CommitPlan::default();
    while let Some(output) = device.poll() {
        match output {
            Output::Store(batch) => plan.batches.push(batch),
            Output::Notify(event) if plan.batches.is_empty() => plan.early.push(event),
            output => plan.late.push(output),
        }
    }
    plan
}
