//! Figures 3, 4 and 5: the time until nine of ten clocks agree.

use anyhow::Result;

use super::Size;
use super::sweep::{
    Columns, Course, Figure, Kind, OURS, PAPER, Quantity, Sample, UNAIDED, by_minutes, by_points,
    find_extremes, list_densities, list_users,
};
use crate::bench::Bench;
use crate::ours::crowd::liars::Liar;
use crate::ours::crowd::{Moves, Scene, Stage};
use crate::run::experiment::Report;
use crate::shape::Claim;

/// Time limit for agreement, s.
const LONGEST_S: u64 = 1_200;
/// The text above each table.
const SAID: &str =
    "seconds until 90 % of honest clocks are within 1 s, median of seeds; - after 1200 s";
const TIME: Quantity = Quantity {
    title: "90 % of clocks agree",
    unit: "seconds",
    op: "agree",
    decimals: 0,
    is_gain: false,
};
const SHARE: Quantity = Quantity {
    title: "clocks within 1 s of each other",
    unit: "share",
    op: "share",
    decimals: 2,
    is_gain: true,
};
const KINDS: [Kind; 3] = [PAPER, OURS, UNAIDED];
const COLUMNS: [Columns; 3] = [
    Columns { names: &[PAPER.name], kind: PAPER, measure: time_agreement },
    Columns { names: &[OURS.name], kind: OURS, measure: time_agreement },
    Columns { names: &[UNAIDED.name], kind: UNAIDED, measure: time_agreement },
];

/// Returns the seconds until nine of ten honest clocks lie within one second; the time limit if
/// they never do.
fn time_agreement(scene: &Scene, _: u64) -> Vec<f64> {
    let until =
        scene.without_messages().begin_stage().run_until(LONGEST_S, 2, Stage::share_in_step);
    vec![until.unwrap_or(f64::INFINITY)]
}

/// Makes a table of points by kinds of vote, with its plot.
fn make_table<P: Copy + Send + Sync>(
    bench: &mut Bench,
    exp: &'static str,
    axis: &'static str,
    points: &[(f64, P)],
    scene: impl Fn(P, u64) -> Scene + Sync,
) -> Result<(Report, Vec<Vec<f64>>)> {
    by_points(bench, Figure { exp, axis, said: SAID }, TIME, &COLUMNS, points, scene)
}

/// Measures figure 3, left.
pub fn by_users(bench: &mut Bench) -> Result<Report> {
    let full = &[100, 200, 400, 600, 800, 1_000][..];
    let points = list_users(bench, [&[64, 100], &[100, 300, 600], full]);
    let (mut report, columns) =
        make_table(bench, "fosam-f3-users", "users", &points, Scene::paper)?;
    let [ours, _] = find_extremes(&columns[1]);
    let text = "with 30 % good clocks ours agrees within seconds, s";
    report.shapes.push(Claim::below(text, ours, 61.0));
    let growth = columns[0].last().copied().unwrap_or(0.0) - columns[0][0];
    report.shapes.push(Claim::is(
        "the paper's vote takes longer for more users",
        format!("{growth:+.0} s from the fewest to the most"),
        growth > 0.0 || growth.is_nan(),
    ));
    Ok(report)
}

/// Measures figure 3, middle.
pub fn report_density(bench: &mut Bench) -> Result<Report> {
    let count = Size::for_profile(bench).users;
    let (mut report, columns) =
        make_table(bench, "fosam-f3-density", "neighbours", &list_densities(), |density, seed| {
            Scene { moves: Moves::Sit(density), ..Scene::paper(count, seed) }
        })?;
    let sparse = columns[0][0];
    let dense = columns[0][2];
    report.shapes.push(Claim::is(
        "the paper's vote is faster where more hear each other",
        format!("{sparse:.0} s with 8, {dense:.0} s with 36 neighbours"),
        dense <= sparse,
    ));
    Ok(report)
}

/// Measures figure 3, right: the paper's liars show random times.
pub fn report_attackers(bench: &mut Bench) -> Result<Report> {
    let count = Size::for_profile(bench).users;
    let points = list_users(bench, [&[0, 10], &[0, 5, 10], &[0, 2, 4, 6, 8, 10]]);
    let (mut report, columns) =
        make_table(bench, "fosam-f3-attackers", "liars, %", &points, |percent, seed| {
            let liars = Some(Liar::RandomClock(300).with_share(10 * percent as u64));
            Scene { liars, ..Scene::paper(count, seed) }
        })?;
    let [ours, _] = find_extremes(&columns[1]);
    let text = "ours with 30 % good clocks does not mind them, s";
    report.shapes.push(Claim::below(text, ours, 61.0));
    Ok(report)
}

/// Measures the share of agreeing clocks over time, in scenes with one kind of movement.
fn over_time(
    bench: &mut Bench,
    exp: &'static str,
    course: Course,
) -> Result<(Report, Vec<Vec<[f64; 2]>>)> {
    let measure: fn(&mut Stage, u64) -> f64 = |stage, seconds| {
        stage.run_for(seconds);
        stage.share_in_step()
    };
    let (mut report, curves) =
        by_minutes(bench, exp, SHARE, &KINDS, course, Sample { silent: true, measure })?;
    for (kind, curve) in KINDS.iter().zip(&curves) {
        let first = curve.iter().find(|[_, share]| *share >= 0.9);
        let words =
            first.map_or("never".to_owned(), |[minute, _]| format!("after {minute:.0} min"));
        let last = 100.0 * curve.last().map_or(0.0, |[_, share]| *share);
        let name = kind.name;
        report.add_line(format!("  {name:<18} 90 % share a time {words}; {last:.0} % in the end"));
    }
    Ok((report, curves))
}

/// Measures figure 4.
pub fn report_converging(bench: &mut Bench) -> Result<Report> {
    let (minutes, step) = bench.profile.pick((10, 2), (30, 2), (60, 1));
    let moves = Moves::Meet(minutes * 45);
    let (mut report, curves) = over_time(bench, "fosam-f4", Course { moves, minutes, step })?;
    let most = curves[1].iter().map(|[_, share]| *share).fold(0.0, f64::max);
    report.shapes.push(Claim::above(
        "groups that meet come to one time, the greatest share (ours, 30 % good)",
        most,
        0.9,
    ));
    Ok(report)
}

/// Measures figure 5 with a synthetic festival, since the paper's traces may not be redistributed.
pub fn report_festival(bench: &mut Bench) -> Result<Report> {
    let (minutes, step) = bench.profile.pick((10, 5), (90, 5), (300, 5));
    let course = Course { moves: Moves::Celebrate, minutes, step };
    let (mut report, curves) = over_time(bench, "fosam-f5", course)?;
    let first = curves[1][0][1];
    let last = curves[1].last().map_or(0.0, |[_, share]| *share);
    report.shapes.push(Claim::is(
        "the share that agrees grows (ours, 30 % good)",
        format!("{first:.2} to {last:.2}"),
        last > first || last > 0.9,
    ));
    Ok(report)
}
