//! Runs the device until it is idle: handles carrier events and flushes outgoing traffic until neither
//! produces more work.

use super::{Parts, carried, leave};
use crate::carriers::Port;
use crate::io::At;

/// Outgoing traffic may cause carrier events at once: the most rounds of both in one step.
const ROUNDS_MAX: usize = 8;

/// Does whatever follows from what the step holds until all is quiet.
pub(super) fn settle<P: Port>(parts: &mut Parts<P>, at: &mut At<'_>) {
    carried::drain(parts, at);
    for _ in 0..ROUNDS_MAX {
        leave::pump(parts, at);
        if !carried::drain(parts, at) {
            break;
        }
    }
}
