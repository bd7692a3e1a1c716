//! The goals of the mixnet: rows T1 to T9 of its design.

mod crowd;
mod fits;
mod flow;
mod idle;
mod kills;
mod parts;

pub use parts::shares;

use super::idle::NEEDS;
use super::measurement::Measurement;

/// The peers.
pub const PEERS: &[&str] = &["gofloor"];

/// All of them.
pub const ALL: &[Measurement] = &[
    Measurement::new(
        &[&flow::ALONE, &flow::BESIDE_GO, &flow::WITHOUT],
        "peer: `--fetch` (Go)",
        [5, 60, 300],
        flow::run,
    ),
    Measurement::new(&[&fits::LIMITS], "nothing", [5, 90, 900], fits::run),
    Measurement::new(&[&[parts::LIMIT]], "nothing", [2, 10, 60], parts::run),
    Measurement::new(&[&crowd::LIMITS], "20,000 open files", [10, 60, 120], crowd::run),
    Measurement::new(&[&[kills::LIMIT]], "loopback sockets", [5, 60, 60], kills::run),
    Measurement::new(&[&idle::LIMITS], NEEDS, [20, 300, 840], idle::run),
];
