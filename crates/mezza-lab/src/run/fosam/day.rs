//! A day of walking devices, of which a tenth lies: each hour a liar changes its attack. In attacks
//! that are not on clocks, all liars' clocks show the same wrong time. The crowd is a process of its
//! own, so that its memory is that of no other experiment.

use anyhow::{Context as _, Result};
use clap::Args;
use serde::{Deserialize, Serialize};

use super::{MESSAGES, Size, begin_report};
use crate::bench::Bench;
use crate::machine::resident_bytes;
use crate::ours::crowd::liars::Liar;
use crate::ours::crowd::{Moves, Scene, quotient_of_counts};
use crate::run::experiment::Report;
use crate::shape::Claim;
use crate::terminal::print_line;
use crate::wires::child::WireProcess;

/// The error of all liars' clocks, s.
const LIE_S: i64 = 60;
/// Seconds of an hour.
const HOUR_S: u64 = 3_600;
/// An offset above this loses messages at the edges of ticks, s.
const OFF_S: u64 = 10;
/// Minimum percentage of messages that arrive in each hour.
const ARRIVE: f64 = 95.0;
/// Maximum percentage of captured honest clocks at the end of an hour.
const CAPTURED: f64 = 4.0;
/// Maximum growth of resident memory from the end of the first hour to the last, MiB.
const MORE_MIB: f64 = 16.0;
/// Bytes of a MiB.
const MIB: f64 = 1_048_576.0;

/// A day in a process of its own.
#[derive(Clone, Copy, Debug, Args)]
pub struct DayOrder {
    /// The number of walkers
    users: usize,
    /// The number of hours
    hours: u64,
}

/// The results of an hour; shares in percent.
#[derive(Clone, Copy, Serialize, Deserialize)]
struct Hour {
    /// Honest clocks within a second of the truth, at the end of the hour.
    right: f64,
    /// Honest clocks within a second of the liars' time.
    captured: f64,
    /// Honest clocks off by more than [`OFF_S`].
    off: f64,
    /// Messages that arrived.
    arrived: f64,
    /// Resident memory of the process, MiB.
    mib: f64,
}

/// Runs a day and prints each hour as JSON.
///
/// # Errors
/// If the system does not report memory, or the output is closed.
pub fn serve_day(order: DayOrder) -> Result<()> {
    let scene = Scene {
        moves: Moves::Walk,
        liars: Some(Liar::Every(LIE_S).with_share(100)),
        ..Scene::ours(order.users, 1)
    };
    let mut stage = scene.begin_stage();
    for _ in 0..order.hours {
        stage.start_counting();
        let flooded = stage.run_day(HOUR_S);
        let (made, arrived) = stage.deliveries();
        let memory = resident_bytes(std::process::id()).context("the system reports no memory")?;
        let hour = Hour {
            right: 100.0 * stage.share_near(0),
            captured: 100.0 * stage.share_near(LIE_S),
            off: 100.0 * (1.0 - stage.share_within(0, OFF_S)),
            arrived: 100.0 * quotient_of_counts(arrived, made - flooded),
            mib: memory / MIB,
        };
        print_line(&serde_json::to_string(&hour)?)?;
    }
    Ok(())
}

/// Runs the experiment.
///
/// # Errors
/// A raw line that cannot be written, or a crowd that ends too early.
pub fn make_report(bench: &mut Bench) -> Result<Report> {
    let (users, hours) = bench.profile.pick((40, 1), (200, 24), (200, 24));
    let mut report = begin_report("fosam-x7", Size { users, seeds: 1, seconds: hours * HOUR_S })?;
    report.add_line(format!(
        "{users} walkers, 30 % good clocks; a tenth lies, with clocks at {LIE_S:+} s, and each liar each hour in another way:"
    ));
    report.add_line("random, frozen and dragging clocks, empty promises, black holes, BUSY, BYE, empty comparisons, floods");
    report.add_line(format!(
        "{MESSAGES}; floods are not counted. Ours alone, of honest clocks at the end of each hour:"
    ));
    report.add_line("within 1 s of the truth; captured: within 1 s of the liars' +60 s; off: more than 10 s from the truth.");
    report.add_line("MiB: resident memory, at the end of the hour, of a process that runs this crowd and nothing else");
    report.add_line(format!(
        "  {:>4} {:>12} {:>12} {:>14} {:>12} {:>10}",
        "hour", "within 1 s, %", "captured, %", "off > 10 s, %", "arrived, %", "MiB"
    ));
    let order = ["crowd-day", &users.to_string(), &hours.to_string()];
    let mut crowd = WireProcess::start_program("crowd", &order)?;
    let mut all: Vec<Hour> = Vec::new();
    while let Some(value) = crowd.next_value()? {
        let hour: Hour = serde_json::from_value(value)?;
        all.push(hour);
        let number = all.len();
        let Hour { right, captured, off, arrived, mib } = hour;
        report.add_line(format!(
            "  {number:>4} {right:>12.1} {captured:>12.1} {off:>14.1} {arrived:>12.1} {mib:>10.1}"
        ));
        for (op, value) in [("right", right), ("captured", captured), ("arrived", arrived)] {
            bench.note_count("ours:level", &format!("{op}_{number}"), "percent", value)?;
        }
    }
    add_claims(&mut report, &all);
    Ok(report)
}

/// Adds the claims on the worst hours, and on memory, which counts from the end of the first hour
/// to the hour with the most.
fn add_claims(report: &mut Report, all: &[Hour]) {
    let least = all.iter().map(|hour| hour.arrived).fold(f64::NAN, f64::min);
    report.shapes.push(Claim::above("messages of the worst hour, %", least, ARRIVE));
    let captured = all.iter().map(|hour| hour.captured).fold(f64::NAN, f64::max);
    report.shapes.push(Claim::at_most("captured clocks in the worst hour, %", captured, CAPTURED));
    let first = all.first().map_or(f64::NAN, |hour| hour.mib);
    let most = all.iter().map(|hour| hour.mib).fold(f64::NAN, f64::max);
    let text = "memory of the crowd's process after the first hour, at most, MiB more";
    report.shapes.push(Claim::below(text, most - first, MORE_MIB));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_hour_decides_each_claim() {
        let hour = |captured, arrived, mib| Hour { right: 0.0, captured, off: 0.0, arrived, mib };
        let holds = |all: &[Hour]| {
            let mut report = Report::default();
            add_claims(&mut report, all);
            report.shapes.iter().map(|claim| claim.holds).collect::<Vec<_>>()
        };
        assert_eq!(holds(&[hour(4.0, 96.0, 100.0), hour(0.0, 97.0, 110.0)]), [true; 3]);
        // Memory that is given back again was held.
        let bad = [hour(0.0, 96.0, 100.0), hour(4.1, 94.0, 140.0), hour(0.0, 97.0, 100.0)];
        assert_eq!(holds(&bad), [false; 3]);
        assert_eq!(holds(&[]), [false; 3]);
    }
}
