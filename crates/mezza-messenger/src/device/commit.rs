//! Puts the effects of a step in order (the contract of [`crate::io`]).

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use super::{Parts, rows};
use crate::carriers::Port;
use crate::io::{Output, RecordChange, RowFate, Step, WriteBatch};

/// Appends the outputs of a step. Facts may be shown before they are durable. No other output may
/// leave or be shown before the one [`Output::Store`] is durable.
pub(super) fn commit_step<P: Port>(
    parts: &mut Parts<P>,
    step: Step,
    outputs: &mut VecDeque<Output<P::Output>>,
) {
    // Facts need no row to be true, so they are shown before the commit.
    outputs.extend(step.early.into_iter().map(Output::Notify));
    let mut changes = Vec::new();
    for ((kind, key), fate) in step.rows {
        match fate {
            RowFate::Put(bucket, value) => {
                parts.aside.mark_replaced(kind, &key);
                changes.push(RecordChange::Put { kind, key, bucket, value });
            }
            // A quarantined row stays in the store as it is (MSG-42).
            RowFate::Drop if parts.aside.holds(kind, &key) => {}
            RowFate::Drop => changes.push(RecordChange::Drop { kind, key }),
        }
    }
    debug_assert!(
        changes.iter().all(|change| rows::loads_again(&parts.carriers, change)),
        "stored, and not read"
    );
    // One `Store` for each input: it is applied as a whole or not at all (5.1).
    if !changes.is_empty() {
        outputs.push_back(Output::Store(WriteBatch(changes)));
    }
    // Outputs of carriers come after the `Store` that they depend on (MSG-16).
    outputs.extend(core::iter::from_fn(|| parts.carriers.poll()).map(Output::Carrier));
    let durable = parts.carriers.all_carriers_mut();
    outputs.extend(
        durable.filter_map(|one| Some(Output::Durable(one.id(), one.take_durable_number()?))),
    );
    outputs.extend(step.late.into_iter().map(Output::Notify));
}
