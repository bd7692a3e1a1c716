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
        rows: &[("M6", "JavaScript of the page, gzip")],
        limits: &[&[page::LIMIT]],
        needs: "the page: `cargo xtask up`",
        seconds: [1, 1, 1],
        run: page::run,
    },
    Measurement {
        rows: &[("M7", "build of the program, CPU")],
        limits: &[&build::LIMITS],
        needs: "figures that `cargo xtask weigh` left",
        seconds: [1, 1, 1],
        run: build::run,
    },
    Measurement {
        rows: &[("M4", "device CPU per sent note, without disk")],
        limits: &[&[device::LIMIT]],
        needs: "nothing",
        seconds: [1, 5, 20],
        run: device::run,
    },
    Measurement {
        rows: &[("M5", "unlock 50,000 notes beside Argon2")],
        limits: &[&[unlock::LIMIT]],
        needs: "100 MB of disk",
        seconds: [1, 5, 40],
        run: unlock::run,
    },
    Measurement {
        rows: &[("M2", "durable puts of 1 KiB")],
        limits: &[&puts::LIMITS],
        needs: "1 GB of disk",
        seconds: [3, 15, 90],
        run: puts::run,
    },
    Measurement {
        rows: &[("M3", "idle watchers of a relay")],
        limits: &[&[watchers::LIMIT]],
        needs: "20,000 open files",
        seconds: [3, 10, 40],
        run: watchers::run,
    },
    Measurement {
        rows: &[("M9", "a put beside eight greedy connections")],
        limits: &[&[greedy::LIMIT]],
        needs: "loopback sockets",
        seconds: [40, 120, 320],
        run: greedy::run,
    },
    Measurement {
        rows: &[("M1", "send -> delivered, loopback"), ("M8", "idle node, resident memory")],
        limits: &[&talk::M1, &[talk::M8]],
        needs: "loopback sockets",
        seconds: [12, 50, 90],
        run: talk::run,
    },
];
