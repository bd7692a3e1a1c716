//! The link in real network conditions.

mod cable;
mod idle;
mod page;
mod road;
mod roads;
mod soak;
mod streams;
mod world;

use super::experiment::Experiment;

/// All experiments on the link.
pub const ALL: &[Experiment] = &[
    Experiment::timed(
        "link-roads",
        "The link on the networks that people have",
        [30, 600, 1_500],
        roads::make_report,
    ),
    Experiment::timed(
        "link-soak",
        "The link under kills, roaming, changes of the MTU and exchanges",
        [30, 600, 3_600],
        soak::make_report,
    ),
];
