//! T12: two idle nodes of the mesh, each a process in its own namespace, on one cable.

use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use mezza::testing::process::home::Home;
use serde_json::Value;

use crate::bench::Bench;
use crate::goals::idle::{self, CARD, IdleCost, SIDES};
use crate::limit::Limit;
use crate::process::Program;
use crate::row::Row;

/// The traffic limit is that of Groove. A clock with one neighbour finds no majority, so both nodes
/// send a beacon of 24 bytes every second: with 62 bytes of headers over IPv6 446 MB a month; 89 MB
/// if the clocks agree and beacons come every 5 s. Each second has a beacon in each direction and a
/// timer.
pub const LIMITS: [Limit; 3] = idle::make_limits(
    "T12",
    [
        "idle node, one neighbour, traffic",
        "idle node, one neighbour, wake-ups",
        "idle node, one neighbour, CPU",
    ],
    [100.0, 3.0, 30.0],
);

/// Starts both nodes, waits until they are neighbours, and watches one node.
pub fn measure_rows(bench: &mut Bench) -> Result<Vec<Row>> {
    if let Some(rows) = idle::not_here(&LIMITS) {
        return Ok(rows);
    }
    let folder = bench.folder.path().join("mesh");
    std::fs::create_dir(&folder)?;
    let net = idle::lay_cable(&folder)?;
    let mut nodes = Vec::new();
    for (side, card) in SIDES.into_iter().zip([CARD, "vb"]) {
        let home = folder.join(card);
        Home::find(Some(&home))?.make_folders()?;
        let args = ["mesh", "run", "--if", card, "--grade", "good"];
        let start = move || Program::start(&home, &home.with_extension("node"), &args, &[]);
        nodes.push(net.run_within(side, start)??);
    }
    // A node sends a beacon every second in the first 30 s, and compares more in the first minute.
    let (settle, length) = bench.profile.pick((4, 4), (70, 60), (70, 600));
    std::thread::sleep(Duration::from_secs(settle));
    wait_for_neighbour(&folder, &mut nodes[0])?;
    let cost = IdleCost::watch_process(nodes[0].pid(), CARD, Duration::from_secs(length))?;
    let words = "a node that carries nothing, with one neighbour on a cable; frames of the neighbour and of the \
                 kernel's IPv6 count too. One neighbour is too few for clocks to agree: a beacon each second";
    cost.extrapolate().make_rows(bench, &LIMITS, [cost.describe_counts(), words.into()])
}

/// Waits until a node reports its neighbour.
fn wait_for_neighbour(folder: &Path, node: &mut Program) -> Result<()> {
    let home = folder.join(CARD);
    let files = folder.join("status");
    let args = ["mesh", "status", "--json"];
    let ask = |_: &Program| -> Option<Value> {
        let mut asked = Program::start(&home, &files, &args, &[]).ok()?;
        asked.wait_until("a status", |asked| serde_json::from_str(&asked.read_output()).ok()).ok()
    };
    node.wait_until("the neighbour", |node| {
        ask(node).filter(|status| status["around"] == 1).map(drop)
    })
}
