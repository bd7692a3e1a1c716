//! Runs the device until it is idle: handles carrier events and flushes outgoing traffic until neither
//! produces more work.

use super::{Parts, carried, leave};
use crate::carriers::Port;
use crate::io::At;

/// Outgoing traffic may cause carrier events at once: the most rounds of both in one step.
const ROUNDS_MAX: usize = 8;

/// Does whatever follows from what the step holds until all is quiet.
pub(super) fn run_until_idle<P: Port>(parts: &mut Parts<P>, at: &mut At<'_>) {
    carried::drain_carriers(parts, at);
    for _ in 0..ROUNDS_MAX {
        leave::flush_contacts(parts, at);
        if !carried::drain_carriers(parts, at) {
            break;
        }
    }
}
