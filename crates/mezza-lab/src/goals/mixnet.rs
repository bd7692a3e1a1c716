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
        rows: &[
            ("T1", "messages/s, three mixes, with IFMA"),
            ("T2", "messages/s at the ratio of 1 M users, with IFMA"),
            ("T3", "a round of noise alone, with IFMA"),
            ("T7", "messages/s beside the Go floor, without IFMA"),
        ],
        limits: &[&flow::ALONE, &flow::BESIDE_GO, &flow::WITHOUT],
        needs: "peer: `--fetch` (Go)",
        seconds: [5, 60, 300],
        run: flow::run,
    },
    Measurement {
        rows: &[("T4", "latency is linear in users and noise")],
        limits: &[&fits::LIMITS],
        needs: "nothing",
        seconds: [5, 90, 900],
        run: fits::run,
    },
    Measurement {
        rows: &[("T5", "where the time of a round goes")],
        limits: &[&[parts::LIMIT]],
        needs: "nothing",
        seconds: [2, 10, 60],
        run: parts::run,
    },
    Measurement {
        rows: &[("T6", "real clients: memory, onions")],
        limits: &[&crowd::LIMITS],
        needs: "20,000 open files",
        seconds: [10, 60, 120],
        run: crowd::run,
    },
    Measurement {
        rows: &[("T8", "traffic after kill -9")],
        limits: &[&[kills::LIMIT]],
        needs: "loopback sockets",
        seconds: [5, 60, 60],
        run: kills::run,
    },
];
