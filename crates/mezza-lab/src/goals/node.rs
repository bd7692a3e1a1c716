//! The goals of one device, its node and the relay: rows M1 to M11 of the messenger's design.

pub mod backup;
mod bare;
mod build;
mod device;
mod disk;
mod greedy;
mod idle;
mod page;
mod pair;
mod puts;
mod talk;
mod unlock;
mod watchers;
pub mod world;

use super::idle::NEEDS;
use super::measurement::Measurement;

/// All measurements; those that load the machine least come first.
pub const ALL: &[Measurement] = &[
    Measurement::new(&[&page::LIMITS], "the page: `cargo xtask up`", [1, 1, 1], page::measure_rows),
    Measurement::new(
        &[&build::LIMITS],
        "figures that `cargo xtask weigh` left",
        [1, 1, 1],
        build::measure_rows,
    ),
    Measurement::new(&[&[device::LIMIT]], "nothing", [1, 5, 20], device::measure_rows),
    Measurement::new(&[&[unlock::LIMIT]], "100 MB of disk", [1, 5, 40], unlock::measure_rows),
    Measurement::new(&[&backup::LIMITS], "200 MB of disk", [2, 10, 60], backup::measure_rows),
    Measurement::new(&[&puts::LIMITS], "1 GB of disk", [3, 15, 90], puts::measure_rows),
    Measurement::new(
        &[&[watchers::LIMIT]],
        "20,000 open files",
        [3, 10, 40],
        watchers::measure_rows,
    ),
    Measurement::new(&[&[greedy::LIMIT]], "loopback sockets", [40, 120, 320], greedy::measure_rows),
    Measurement::new(&[&idle::LIMITS], NEEDS, [10, 90, 630], idle::measure_rows),
    Measurement::new(
        &[&talk::M1, &[talk::M8]],
        "loopback sockets",
        [12, 50, 90],
        talk::measure_rows,
    ),
];
