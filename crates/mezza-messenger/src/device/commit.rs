//! Puts the effects of a turn in order (the contract of [`crate::io`]).

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use super::{Components, rows};
use crate::carriers::Port;
use crate::io::{Effects, Output, RecordChange, RowFate, WriteBatch};

/// Appends the outputs of a turn. Facts may be shown before they are durable. No other output may
/// leave or be shown before the one [`Output::Store`] is durable.
pub(super) fn append_outputs<P: Port>(
    device: &mut Components<P>,
    effects: Effects,
    outputs: &mut VecDeque<Output<P::Output>>,
) {
    // Facts need no row to be true, so they are shown before the commit.
    outputs.extend(effects.early.into_iter().map(Output::Notify));
    let mut changes = Vec::new();
    for ((kind, key), fate) in effects.rows {
        match fate {
            RowFate::Put(bucket, value) => {
                device.aside.mark_replaced(kind, &key);
                changes.push(RecordChange::Put { kind, key, bucket, value });
            }
            // A quarantined row stays in the store as it is (MSG-42).
            RowFate::Drop if device.aside.holds(kind, &key) => {}
            RowFate::Drop => changes.push(RecordChange::Drop { kind, key }),
        }
    }
    debug_assert!(
        changes.iter().all(|change| rows::loads_again(&device.carriers, change)),
        "stored, and not read"
    );
    // One `Store` for each input: it is applied as a whole or not at all (5.1).
    if !changes.is_empty() {
        outputs.push_back(Output::Store(WriteBatch(changes)));
    }
    // Outputs of carriers come after the `Store` that they depend on (MSG-16).
    outputs.extend(core::iter::from_fn(|| device.carriers.poll()).map(Output::Carrier));
    let durable = device.carriers.all_carriers_mut();
    outputs.extend(
        durable.filter_map(|one| Some(Output::Durable(one.id(), one.take_durable_number()?))),
    );
    outputs.extend(effects.late.into_iter().map(Output::Notify));
}
