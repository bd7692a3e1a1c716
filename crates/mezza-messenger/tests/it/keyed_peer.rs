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

/// A message is lost, the card names no relay any more, and nobody has answered the session for 30 days: the device
/// neither keeps this session nor changes its mind at the next start.
#[test]
fn msg_127_a_session_that_seals_nothing_is_not_kept() {
    world::operations(&[
        65, 109, 202, 70, 115, 173, 34, 81, 234, 90, 205, 46, 35, 168, 30, 191, 166, 135, 169, 151,
        152, 161, 31, 20, 62, 76, 145, 31, 18, 171, 181, 144, 174, 255, 11, 195, 238, 60, 255, 49,
        73, 25, 9, 213, 235, 51, 129, 59, 251, 111, 13, 169, 186, 100, 138, 158, 170, 196, 154, 95,
        217, 190, 142, 1, 101, 108, 152, 133, 79, 209, 226, 53, 200, 236, 227, 222, 147, 146, 37,
        255, 196, 91, 61, 40, 175, 189, 129, 128, 131, 18, 5, 27, 211, 67, 46, 90, 66, 75, 119,
        142, 21, 112, 22, 234, 151, 73, 164, 124, 248, 31, 136, 253, 235, 11, 243, 115, 245, 83,
        212, 114, 89, 170, 176, 151, 39, 245, 130, 176, 207, 109, 158, 124, 63, 245, 230, 230, 71,
        197, 185, 21, 28, 70, 177, 145, 228, 31, 156, 212, 86, 59, 233, 244, 65, 160, 134, 178, 4,
        35, 126, 67, 102, 241, 200, 22, 48, 71, 91, 193, 235, 225, 231, 160, 60, 144, 84, 245, 105,
        174, 116, 98, 71, 70, 209, 178, 118, 39, 120, 250, 126, 73, 188, 148, 143, 61, 222, 132,
        229, 81, 235, 38, 57, 175, 92, 67, 226, 128, 70, 177, 151, 192, 165, 147, 223, 77, 54, 78,
        58, 91, 222, 107, 133, 133, 231, 19, 225, 156, 61, 100, 232, 233, 40, 220, 39, 216, 235,
        125, 162, 6, 92, 155, 174, 206, 101, 201, 86, 104, 215, 35, 59, 234, 171, 200, 95, 35, 44,
        113, 74, 207, 70, 98, 72, 54, 110, 240, 90, 105, 125, 169, 167, 96, 167, 207, 188, 33,
    ]);
}
