//! Runs the device until it is idle: handles carrier events and flushes outgoing traffic until
//! neither produces more work.

use super::Turn;
use crate::carriers::Port;

/// Most rounds of carrier events and outgoing traffic in one turn, because each may cause the
/// other.
const ROUNDS_MAX: usize = 8;

impl<P: Port> Turn<'_, P> {
    /// Handles carrier events and flushes outgoing traffic until there is no more work.
    pub(super) fn run_until_idle(&mut self) {
        self.drain_carriers();
        for _ in 0..ROUNDS_MAX {
            self.flush_contacts();
            if !self.drain_carriers() {
                break;
            }
        }
    }
}
