//! "Vuvuzela Reproduction": its figures on our mixes, and the effect of noise on the attack that it
//! counters.

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

/// The experiments of the reproduction.
pub const ALL: &[Experiment] = &[
    Experiment::timed(
        "vuvuzela-scaling",
        "latency against users and noise",
        [8, 120, 1_200],
        scaling::run,
    ),
    Experiment::timed("vuvuzela-breakdown", "parts of a round", [2, 10, 60], breakdown::run),
    Experiment::calculated("vuvuzela-noise", "counts with noise", [3, 5, 20], noise::run),
    Experiment::timed("vuvuzela-x", "privacy, intersection, servers", [3, 30, 120], beside),
];

/// The experiment of SOSP 2015, which is context.
pub const SOSP15: &[Experiment] =
    &[Experiment::timed("sosp15-f9", "users, noise in proportion", [5, 60, 300], sosp::run)];

/// Questions that the reproduction leaves open. Privacy and attack decide in every profile, the speeds in
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
