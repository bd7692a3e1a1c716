//! The tables and figures of the paper on links: costs of the protocol (5, 6), the tunnel over a
//! virtual cable (7, 11, table 3), and a simulated `LiFi` link (8, 9, 10, table 4).

mod costs;
mod lifi;
mod wire;

use super::experiment::Experiment;

/// All experiments of this paper.
pub const ALL: &[Experiment] = &[
    Experiment::timed(
        "seka-f5",
        "Figure 5: Bootstrap and Key-Exchange",
        [2, 30, 60],
        costs::figure_5,
    ),
    Experiment::timed("seka-f6", "Figure 6: key exchanges of others", [2, 30, 60], costs::figure_6)
        .with_peers(&["handshakes"]),
    Experiment::timed(
        "seka-f7",
        "Figure 7: latency over a virtual cable, second by second",
        [1, 75, 330],
        wire::figure_7,
    )
    .with_peers(&["tunnels"]),
    Experiment::timed(
        "seka-f11",
        "Figure 11: TCP throughput by cores of the tunnels",
        [1, 60, 150],
        wire::figure_11,
    )
    .with_peers(&["tunnels"]),
    Experiment::timed(
        "seka-t3",
        "Table 3: latency over a virtual cable",
        [1, 75, 330],
        wire::table_3,
    )
    .with_peers(&["tunnels"]),
    Experiment::calculated(
        "seka-f8",
        "Figure 8: latency of the downlink, simulated TDMA link",
        [1, 5, 20],
        lifi::figure_8,
    ),
    Experiment::calculated(
        "seka-f9",
        "Figure 9: latency of the uplink, simulated TDMA link",
        [1, 5, 20],
        lifi::figure_9,
    ),
    Experiment::calculated(
        "seka-f10",
        "Figure 10: round trips, simulated TDMA link",
        [1, 5, 10],
        lifi::figure_10,
    ),
    Experiment::calculated(
        "seka-t4",
        "Table 4: round trips, simulated TDMA link",
        [1, 5, 10],
        lifi::table_4,
    ),
];
