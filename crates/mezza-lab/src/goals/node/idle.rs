//! M10: an idle node with a relay, each a process in its own namespace.

use std::time::Duration;

use anyhow::Result;

use super::world::{RelayProcess, start_node};
use crate::bench::Bench;
use crate::goals::idle::{self, CARD, IdleCost, SERVER, SIDES};
use crate::limit::Limit;
use crate::row::Row;

/// The traffic limit is that of Groove. Two connections with a PING every 55 s cause 0.16 wake-ups
/// per second; the limit is three times that for an otherwise idle node.
pub const LIMITS: [Limit; 3] = idle::make_limits(
    "M10",
    [
        "idle node with a relay, traffic",
        "idle node with a relay, wake-ups",
        "idle node with a relay, CPU",
    ],
    [100.0, 0.5, 10.0],
);

/// Starts both processes, waits until the node is idle, and watches it.
pub fn measure_rows(bench: &mut Bench) -> Result<Vec<Row>> {
    if let Some(rows) = idle::not_here(&LIMITS) {
        return Ok(rows);
    }
    let folder = bench.folder.path().join("idle");
    std::fs::create_dir(&folder)?;
    let net = idle::lay_cable(&folder)?;
    idle::switch_off_ip6(&net)?;
    let at = folder.clone();
    let relay = net.run_within(SIDES[1], move || RelayProcess::start_at(&at, SERVER, &[]))??;
    let entry = relay.entry.clone();
    let node = net.run_within(SIDES[0], move || start_node(&folder, "node", &entry))??;
    let (settle, length) = bench.profile.pick((2, 4), (20, 60), (20, 600));
    std::thread::sleep(Duration::from_secs(settle));
    let cost = IdleCost::watch_process(node.pid(), CARD, Duration::from_secs(length))?;
    let words =
        "one contactless node, unlocked; two connections to its relay, a PING of 55 s on each";
    cost.extrapolate().make_rows(bench, &LIMITS, [cost.describe_counts(), words.into()])
}
