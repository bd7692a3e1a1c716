//! The goals of the mixnet: rows T1 to T8 of its design.

mod crowd;
mod fits;
mod flow;
mod kills;
mod parts;

pub use parts::shares;

use super::measurement::Measurement;

/// Who is measured beside us.
pub const PEERS: &[&str] = &["gofloor"];

/// All of them.
pub const ALL: &[Measurement] = &[
    Measurement {
        limits: &[&flow::ALONE, &flow::BESIDE_GO, &flow::WITHOUT],
        needs: "peer: `--fetch` (Go)",
        seconds: [5, 60, 300],
        run: flow::run,
    },
    Measurement {
        limits: &[&fits::LIMITS],
        needs: "nothing",
        seconds: [5, 90, 900],
        run: fits::run,
    },
    Measurement {
        limits: &[&[parts::LIMIT]],
        needs: "nothing",
        seconds: [2, 10, 60],
        run: parts::run,
    },
    Measurement {
        limits: &[&crowd::LIMITS],
        needs: "20,000 open files",
        seconds: [10, 60, 120],
        run: crowd::run,
    },
    Measurement {
        limits: &[&[kills::LIMIT]],
        needs: "loopback sockets",
        seconds: [5, 60, 60],
        run: kills::run,
    },
];
