//! The goals of the mixnet: rows T1 to T9 of its design.

mod crowd;
mod fits;
mod flow;
mod idle;
mod kills;
mod parts;

pub use parts::measure_shares;

use super::idle::NEEDS;
use super::measurement::Measurement;

/// The peer programs of these rows.
pub const PEERS: &[&str] = &["gofloor"];

/// All measurements of this part.
pub const ALL: &[Measurement] = &[
    Measurement::new(
        &[&flow::ALONE, &flow::BESIDE_GO, &flow::WITHOUT],
        "peer: `--fetch` (Go)",
        [5, 60, 300],
        flow::measure_rows,
    ),
    Measurement::new(&[&fits::LIMITS], "nothing", [5, 90, 900], fits::measure_rows),
    Measurement::new(&[&[parts::LIMIT]], "nothing", [2, 10, 60], parts::measure_rows),
    Measurement::new(&[&crowd::LIMITS], "20,000 open files", [10, 60, 120], crowd::measure_rows),
    Measurement::new(&[&[kills::LIMIT]], "loopback sockets", [5, 60, 60], kills::measure_rows),
    Measurement::new(&[&idle::LIMITS], NEEDS, [20, 300, 840], idle::measure_rows),
];
