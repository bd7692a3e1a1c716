//! A device beside peers that hold its session keys, a relay that lies and a clock that jumps. What
//! drives them is that of the device's own tests.

#[path = "../../crates/mezza-messenger/tests/it/keyed_peer/peer.rs"]
mod peer;
#[path = "../../crates/mezza-messenger/tests/it/keyed_peer/world.rs"]
mod world;

/// After every operation what was stored loads, with nothing quarantined, and is the running device.
pub fn run_operations(data: &[u8]) {
    let _ = world::operations(data);
}
