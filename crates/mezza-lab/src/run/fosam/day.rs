//! A day of walking devices, of which a tenth lies: each hour a liar changes its attack. In attacks
//! that are not on clocks, all liars' clocks show the same wrong time.

use anyhow::{Context as _, Result};

use super::{Size, begin_report};
use crate::bench::Bench;
use crate::ours::crowd::liars::Liar;
use crate::ours::crowd::{Moves, Scene};
use crate::run::experiment::Report;
use crate::shape::Claim;

/// The error of all liars' clocks, s.
const LIE_S: i64 = 60;
/// Seconds of an hour.
const HOUR_S: u64 = 3_600;
/// An offset above this loses messages at the edges of ticks, s.
const OFF_S: u64 = 10;
/// Minimum percentage of messages that arrive in each hour.
const ARRIVE: f64 = 95.0;
/// Maximum percentage of captured honest clocks at the end of an hour.
const CAPTURED: f64 = 4.01;
/// Maximum growth of resident memory from the end of the first hour to the last, MiB.
const MORE_MIB: f64 = 16.0;

/// Returns the resident memory of this process, MiB.
fn resident_mib() -> Result<f64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib: f64 = line.context("VmRSS")?.trim().trim_end_matches(" kB").parse()?;
    Ok(kib / 1_024.0)
}

/// Runs the experiment.
///
/// # Errors
/// A raw line that cannot be written.
pub fn make_report(bench: &mut Bench) -> Result<Report> {
    let (users, hours) = bench.profile.pick((40, 1), (200, 24), (200, 24));
    let mut report = begin_report("fosam-x7", Size { users, seeds: 1, seconds: hours * HOUR_S })?;
    report.add_line(format!(
        "{users} walkers, 30 % good clocks; a tenth lies, with clocks at {LIE_S:+} s, and each hour another attack:"
    ));
    report.add_line("random, frozen and dragging clocks, empty promises, black holes, BUSY, BYE, empty comparisons, floods");
    report.add_line(format!(
        "  {:>4} {:>12} {:>12} {:>14} {:>12} {:>10}",
        "hour", "within 1 s, %", "captured, %", "off > 10 s, %", "arrived, %", "MiB"
    ));
    let scene = Scene {
        moves: Moves::Walk,
        liars: Some(Liar::Every(LIE_S).with_share(100)),
        ..Scene::ours(users, 1)
    };
    let mut stage = scene.begin_stage();
    let mut least = 100.0_f64;
    let mut most_captured = 0.0_f64;
    let mut first_mib = None;
    let mut mib = 0.0;
    for hour in 1..=hours {
        stage.start_counting();
        let flooded = stage.run_day(HOUR_S);
        let (made, arrived) = stage.deliveries();
        let arrived = 100.0 * quotient_of_counts(arrived, made - flooded);
        let right = 100.0 * stage.share_near(0);
        let captured = 100.0 * stage.share_near(LIE_S);
        let off = 100.0 * (1.0 - stage.share_within(0, OFF_S));
        mib = resident_mib()?;
        first_mib.get_or_insert(mib);
        report.add_line(format!(
            "  {hour:>4} {right:>12.1} {captured:>12.1} {off:>14.1} {arrived:>12.1} {mib:>10.1}"
        ));
        for (op, value) in [("right", right), ("captured", captured), ("arrived", arrived)] {
            bench.note_count("ours:level", &format!("{op}_{hour}"), "percent", value)?;
        }
        (least, most_captured) = (least.min(arrived), most_captured.max(captured));
    }
    report.shapes.push(Claim::above("messages of the worst hour, %", least, ARRIVE));
    report.shapes.push(Claim::below(
        "captured clocks in the worst hour, %",
        most_captured,
        CAPTURED,
    ));
    let grown = mib - first_mib.unwrap_or(mib);
    report.shapes.push(Claim::below("memory after the first hour, MiB more", grown, MORE_MIB));
    Ok(report)
}

/// Returns a quotient of counts; the divisor is at least 1.
#[expect(clippy::cast_precision_loss, reason = "counts of messages")]
fn quotient_of_counts(some: u64, all: u64) -> f64 {
    some as f64 / all.max(1) as f64
}
