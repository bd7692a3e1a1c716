//! What follows from a step, until nothing follows any more: carriers are heard, and what waits leaves.

use super::{Parts, carried, leave};
use crate::carriers::Port;
use crate::io::At;

/// What leaves may make a carrier say something at once, so many times in one step.
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
