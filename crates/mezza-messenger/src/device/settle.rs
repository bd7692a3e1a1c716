//! Runs the device until it is idle: handles carrier events and flushes outgoing traffic until neither
//! produces more work.

use super::{Parts, carried, leave};
use crate::carriers::Port;
use crate::io::At;

/// Most rounds of carrier events and outgoing traffic in one step, because each may cause the
/// other.
const ROUNDS_MAX: usize = 8;

/// Handles everything that follows from the step until there is no more work.
pub(super) fn run_until_idle<P: Port>(parts: &mut Parts<P>, at: &mut At<'_>) {
    carried::drain_carriers(parts, at);
    for _ in 0..ROUNDS_MAX {
        leave::flush_contacts(parts, at);
        if !carried::drain_carriers(parts, at) {
            break;
        }
    }
}
