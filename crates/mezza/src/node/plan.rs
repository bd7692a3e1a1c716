//! All effects of one input, in order of execution.
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

/// All outputs of one input, to be carried out from top to bottom.
#[derive(Default)]
pub struct CommitPlan {
    /// Events to publish before the commit, and again after it.
    pub early: Vec<Event>,
    /// Batches to commit as one transaction.
    pub batches: Vec<WriteBatch>,
    /// Outputs to carry out after the commit, in order.
    pub late: Vec<Output>,
    /// True if the batches may wait for the next commit, provided that `late` is empty.
    pub may_wait: bool,
    /// True if the user caused the input.
    pub own: bool,
}

impl CommitPlan {
    /// Returns true if the input had no outputs.
    pub(crate) fn is_empty(&self) -> bool {
        self.early.is_empty() && self.batches.is_empty() && self.late.is_empty()
    }
}

/// Collects the outputs of a device after `handle` or `wake`.
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
