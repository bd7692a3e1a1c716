//! "Vuvuzela Reproduction": its figures on our mixes, and what noise does against the attack that
//! it is there for.

mod breakdown;
mod intersection;
mod law;
mod noise;
mod privacy;
mod scaling;
mod servers;
mod sosp;

use anyhow::Result;

use super::experiment::{Experiment, Report};
use crate::bench::Bench;

/// All of them.
pub const ALL: &[Experiment] = &[
    Experiment {
        id: "vuvuzela-scaling",
        paper: "vuvuzela",
        about: "latency against users and noise",
        rev: 1,
        peers: &[],
        seconds: [8, 120, 1_200],
        exclusive: true,
        run: scaling::run,
    },
    Experiment {
        id: "vuvuzela-breakdown",
        paper: "vuvuzela",
        about: "where the time of a round goes",
        rev: 1,
        peers: &[],
        seconds: [2, 10, 60],
        exclusive: true,
        run: breakdown::run,
    },
    Experiment {
        id: "vuvuzela-noise",
        paper: "vuvuzela",
        about: "counts of conversations, true and with noise",
        rev: 1,
        peers: &[],
        seconds: [3, 5, 20],
        exclusive: false,
        run: noise::run,
    },
    Experiment {
        id: "sosp15-f9",
        paper: "sosp15",
        about: "users, with noise in proportion",
        rev: 1,
        peers: &[],
        seconds: [5, 60, 300],
        exclusive: true,
        run: sosp::run,
    },
    Experiment {
        id: "vuvuzela-x",
        paper: "vuvuzela",
        about: "privacy over rounds, intersection, servers",
        rev: 1,
        peers: &[],
        seconds: [3, 30, 120],
        exclusive: true,
        run: beside,
    },
];

/// What the reproduction did not look at. Privacy and attack decide in every profile, the speeds in
/// none but quick and full.
fn beside(bench: &mut Bench) -> Result<Report> {
    let mut report = Report::default();
    privacy::add(bench, &mut report)?;
    intersection::add(bench, &mut report)?;
    report.attacks = report.shapes.len();
    servers::add(bench, &mut report)?;
    report.about_speed = true;
    Ok(report)
}
