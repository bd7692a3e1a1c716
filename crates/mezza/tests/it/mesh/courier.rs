//! A courier that is never in contact with both sides at once, over a crash and hours of which none pass here:
//! the clocks of all nodes jump alike.

use std::time::Duration;

use super::net::Net;
use super::node::{FirstClock, MeshNode, until};

/// Milliseconds of half a day, the longest epoch.
const HALF_DAY_MS: u64 = 43_200_000;
const MINUTE_MS: u64 = 60_000;

/// Cells that a node carries.
fn carried(node: &MeshNode) -> u64 {
    node.status().and_then(|status| status["carried"].as_u64()).unwrap_or(0)
}

/// ```text
/// sender ── courier                        the sender ends, the courier is killed
///           courier ── receiver            so many minutes later
/// ```
///
/// Returns true if the receiver reads what was sent, with `life`.
fn carry(name: &str, life: &str, minutes: u64) -> Option<bool> {
    let mut net = Net::new(name)?;
    let folder = tempfile::tempdir().unwrap();
    // A minute after half a day begins, so that no epoch ends by chance.
    let now = mezza::testing::clock::now().as_ms();
    let start_ms = (now.next_multiple_of(HALF_DAY_MS) + MINUTE_MS - now).cast_signed();
    let [mut sender, mut courier, mut receiver] = ["sender", "courier", "receiver"]
        .map(|name| MeshNode::new(&mut net, folder.path(), name, FirstClock::good(start_ms)));
    net.cable(sender.space(), courier.space());
    net.cable(courier.space(), receiver.space());
    receiver.start();
    until("the receiver knows the time", || {
        receiver.status().is_some_and(|status| status["cur"].is_u64())
    });
    let (_, card) = receiver.keygen();
    receiver.kill();
    sender.start();
    courier.start();
    until("sender and courier hear each other", || sender.around() == 1 && courier.around() == 1);
    sender.send(&card, "carried for hours", &["--life", life]);
    until("the courier carries it", || carried(&courier) == 1);
    sender.kill();
    courier.kill();
    let later_ms = start_ms + (minutes * MINUTE_MS).cast_signed();
    for node in [&mut courier, &mut receiver] {
        node.set_clock("good", later_ms);
    }
    courier.start();
    until("the courier is back", || courier.status().is_some_and(|s| s["cur"].is_u64()));
    // A cell that is over leaves the store within a second.
    until("what it carried is judged", || carried(&courier) == 1 || minutes > 24 * 60);
    receiver.start();
    until("courier and receiver hear each other", || {
        receiver.around() == 1 && courier.around() == 1
    });
    let listens = receiver.listen();
    let patience = if minutes > 24 * 60 { 10 } else { 60 };
    Some(listens.hears("carried for hours", Duration::from_secs(patience)))
}

#[test]
fn mesh_82_slow_a_courier_carries_a_note_for_forty_minutes_and_one_for_nine_hours() {
    for (name, life, minutes) in [("ca", "half-hour", 40), ("cb", "half-day", 9 * 60)] {
        let Some(arrived) = carry(name, life, minutes) else { return };
        assert!(arrived, "{life} after {minutes} minutes");
    }
    // A day and an hour later it is in no store and opens for nobody.
    assert_eq!(carry("cc", "half-day", 25 * 60), Some(false));
}
