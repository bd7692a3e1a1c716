//! A peer that holds the session keys, a relay that lies, a clock that jumps and a process that
//! stalls do anything: what was stored loads after every step, and is the running device. So does the
//! entry of a mixnet.

mod peer;
mod stalls;
mod world;

use proptest::prelude::*;

pub use peer::{Peer, forms, identity, relay_part, seal, wrap};

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, max_shrink_iters: 40, ..ProptestConfig::default() })]

    #[test]
    fn msg_46_slow_what_was_stored_is_the_running_device(bytes in proptest::collection::vec(any::<u8>(), 100..400)) {
        world::operations(&bytes);
    }
}

/// Every operation once, a few times over, in their order.
#[test]
fn msg_46_every_operation_is_reached() {
    let seed = crate::operations::random_lists().concat();
    let met = seed.chunks(400).take(12).map(world::operations).sum::<world::Met>();
    assert!(met.opened > 5 && met.shown > 20 && met.restarts > 5, "{met:?}");
}
