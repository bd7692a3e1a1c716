//! "Vuvuzela Reproduction": its figures measured with our mixes, and the effect of noise on the
//! attack that noise counters.

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
        scaling::make_report,
    ),
    Experiment::timed(
        "vuvuzela-breakdown",
        "parts of a round",
        [2, 10, 60],
        breakdown::make_report,
    ),
    Experiment::calculated("vuvuzela-noise", "counts with noise", [3, 5, 20], noise::make_report),
    Experiment::timed(
        "vuvuzela-x",
        "privacy, intersection, servers",
        [3, 30, 120],
        report_open_questions,
    ),
];

/// The experiment of SOSP 2015, which is context.
pub const SOSP15: &[Experiment] = &[Experiment::timed(
    "sosp15-f9",
    "users, noise in proportion",
    [5, 60, 300],
    sosp::make_report,
)];

/// Reports on questions that the reproduction leaves open. Privacy and attack decide in every
/// profile, speeds only in quick and full.
fn report_open_questions(bench: &mut Bench) -> Result<Report> {
    let mut report = Report::default();
    privacy::add_results(bench, &mut report)?;
    intersection::add_results(bench, &mut report)?;
    report.attacks = report.shapes.len();
    servers::add_results(bench, &mut report)?;
    report.about_speed = true;
    Ok(report)
}
