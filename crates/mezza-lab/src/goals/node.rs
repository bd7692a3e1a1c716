//! The goals of one device, its node and the relay: rows M1 to M9 of the messenger's design.

mod bare;
mod build;
mod device;
mod disk;
mod greedy;
mod page;
mod pair;
mod puts;
mod talk;
mod unlock;
mod watchers;
mod world;

use super::measurement::Measurement;

/// All of them, the quiet ones first.
pub const ALL: &[Measurement] = &[
    Measurement {
        limits: &[&[page::LIMIT]],
        needs: "the page: `cargo xtask up`",
        seconds: [1, 1, 1],
        run: page::run,
    },
    Measurement {
        limits: &[&build::LIMITS],
        needs: "figures that `cargo xtask weigh` left",
        seconds: [1, 1, 1],
        run: build::run,
    },
    Measurement {
        limits: &[&[device::LIMIT]],
        needs: "nothing",
        seconds: [1, 5, 20],
        run: device::run,
    },
    Measurement {
        limits: &[&[unlock::LIMIT]],
        needs: "100 MB of disk",
        seconds: [1, 5, 40],
        run: unlock::run,
    },
    Measurement {
        limits: &[&puts::LIMITS],
        needs: "1 GB of disk",
        seconds: [3, 15, 90],
        run: puts::run,
    },
    Measurement {
        limits: &[&[watchers::LIMIT]],
        needs: "20,000 open files",
        seconds: [3, 10, 40],
        run: watchers::run,
    },
    Measurement {
        limits: &[&[greedy::LIMIT]],
        needs: "loopback sockets",
        seconds: [40, 120, 320],
        run: greedy::run,
    },
    Measurement {
        limits: &[&talk::M1, &[talk::M8]],
        needs: "loopback sockets",
        seconds: [12, 50, 90],
        run: talk::run,
    },
];
