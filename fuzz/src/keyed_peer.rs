//! A device with peers that hold its session keys, a lying relay and a jumping clock. The driver is
//! shared with the device's own tests.

#[path = "../../crates/mezza-messenger/tests/it/keyed_peer/peer.rs"]
mod peer;
#[path = "../../crates/mezza-messenger/tests/it/keyed_peer/world.rs"]
mod world;

/// Runs operations. After each one the stored rows must load with nothing quarantined, and equal the
/// running device.
pub fn run_operations(data: &[u8]) {
    let _ = world::operations(data);
}
