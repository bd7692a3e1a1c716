//! The driver's half of the machine contract: drain, sort, commit, carry out.
//!
//! ```text
//! input -> handle -> poll .. poll -> None
//!                    |
//!                    +-- shown before the first batch: at once
//!                    +-- batches: one commit for all of them
//!                    +-- the rest, in order: only after the commit
//! ```

use mezza_core::Machine;
use mezza_messenger::{Output, WriteBatch};

/// What one output is to its driver.
pub enum OutputClass<O, B> {
    /// Something to make durable.
    Store(B),
    /// Something to tell, which may run ahead of the commit if nothing was stored before it.
    Show(O),
    /// Something to do after the commit.
    Do(O),
}

/// An output that knows which of the three it is.
pub trait Classify: Sized {
    /// What is made durable.
    type Batch;
    /// Sorts this output.
    fn sort(self) -> OutputClass<Self, Self::Batch>;
}

/// All outputs of one input, ready to be carried out from top to bottom.
pub struct CommitPlan<O, B> {
    /// To tell before the commit, and once more after it.
    pub early: Vec<O>,
    /// To commit as one transaction.
    pub batches: Vec<B>,
    /// To do after the commit, in order.
    pub late: Vec<O>,
}

impl<O, B> CommitPlan<O, B> {
    /// Whether the input had no outputs.
    pub fn is_empty(&self) -> bool {
        self.early.is_empty() && self.batches.is_empty() && self.late.is_empty()
    }
}

/// Drains a machine after `handle` or `wake`.
pub fn drain<M>(machine: &mut M) -> CommitPlan<M::Output, <M::Output as Classify>::Batch>
where
    M: Machine,
    M::Output: Classify,
{
    let mut turn = CommitPlan { early: Vec::new(), batches: Vec::new(), late: Vec::new() };
    while let Some(output) = machine.poll() {
        match output.sort() {
            OutputClass::Store(batch) => turn.batches.push(batch),
            OutputClass::Show(show) if turn.batches.is_empty() => turn.early.push(show),
            OutputClass::Show(output) | OutputClass::Do(output) => turn.late.push(output),
        }
    }
    turn
}

impl Classify for Output {
    type Batch = WriteBatch;

    fn sort(self) -> OutputClass<Self, WriteBatch> {
        match self {
            Self::Store(batch) => OutputClass::Store(batch),
            Self::Notify(event) => OutputClass::Show(Self::Notify(event)),
            order @ Self::Carrier(_) => OutputClass::Do(order),
        }
    }
}
