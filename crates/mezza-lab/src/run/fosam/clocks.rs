//! Figures 3, 4 and 5: how long until nine of ten clocks agree.

use anyhow::Result;
use mezza_mesh::ClockMode;
use mezza_sim::crowd::movement::Density;

use super::{Size, each, report};
use crate::bench::Bench;
use crate::clock::median;
use crate::ours::crowd::liars::Liar;
use crate::ours::crowd::{Moves, Scene, Stage};
use crate::plot::Plot;
use crate::run::experiment::Report;
use crate::shape::Claim;

/// How long agreement is waited for, s.
const LONGEST_S: u64 = 1_200;

/// The paper's vote, and ours with 30 % and with no good clocks.
const KINDS: [(&str, ClockMode, u64); 3] = [
    ("paper's vote", ClockMode::Paper, 0),
    ("ours, 30 % good", ClockMode::Anchored, 30),
    ("ours, none good", ClockMode::Anchored, 0),
];

/// Seconds until nine of ten honest clocks lie within one second of each other; the longest if they never do.
fn agree(scene: &Scene) -> f64 {
    scene.silent().begin().until(LONGEST_S, 2, Stage::share_in_step).unwrap_or(f64::INFINITY)
}

/// One table of points by kinds of vote, with its plot.
fn table<P: Copy + Send + Sync>(
    bench: &mut Bench,
    (exp, axis): (&'static str, &'static str),
    points: &[(f64, P)],
    scene: impl Fn(P, ClockMode, u64, u64) -> Scene + Sync,
) -> Result<(Report, Vec<Vec<f64>>)> {
    let size = Size::of(bench);
    let mut report = report(exp, size)?;
    report.say(format!(
        "seconds until 90 % of honest clocks are within 1 s, median of seeds; - after {LONGEST_S} s"
    ));
    report.say(format!("  {axis:>14} {:>16} {:>16} {:>16}", KINDS[0].0, KINDS[1].0, KINDS[2].0));
    let mut plot = Plot::new("90 % of clocks agree", [axis, "seconds"]);
    let mut columns = Vec::new();
    for (name, mode, good) in KINDS {
        let times =
            each(points, size.seeds, |(_, point), seed| agree(&scene(point, mode, good, seed)));
        let column: Vec<f64> = times.iter().map(|times| median(times)).collect();
        for ((x, _), seconds) in points.iter().zip(&column) {
            let seconds = if seconds.is_finite() { *seconds } else { -1.0 };
            bench.note_count(&format!("ours:{name}"), &format!("agree_{x}"), "s", seconds)?;
        }
        plot.curve(name, points.iter().zip(&column).map(|((x, _), y)| [*x, *y]));
        columns.push(column);
    }
    for (at, (x, _)) in points.iter().enumerate() {
        let cells = columns.iter().map(|column| cell(column[at]));
        report.say(format!("  {x:>14} {}", cells.collect::<Vec<_>>().join(" ")));
    }
    report.plot = Some(plot);
    Ok((report, columns))
}

fn cell(seconds: f64) -> String {
    if seconds.is_finite() { format!("{seconds:>16.0}") } else { format!("{:>16}", "-") }
}

/// Figure 3, left.
pub fn users(bench: &mut Bench) -> Result<Report> {
    let points: Vec<(f64, usize)> = bench
        .profile
        .pick(&[64, 100][..], &[100, 300, 600][..], &[100, 200, 400, 600, 800, 1_000][..])
        .iter()
        .map(|users: &usize| (f64::from(u32::try_from(*users).unwrap_or(0)), *users))
        .collect();
    let (mut report, columns) =
        table(bench, ("fosam-f3-users", "users"), &points, |users, mode, good, seed| Scene {
            mode,
            good_percent: good,
            ..Scene::paper(users, seed)
        })?;
    let ours = columns[1].iter().copied().fold(0.0, f64::max);
    report.shapes.push(Claim::below(
        "with 30 % good clocks ours agrees within seconds, s",
        ours,
        61.0,
    ));
    let growth = columns[0].last().copied().unwrap_or(0.0) - columns[0][0];
    report.shapes.push(Claim::is(
        "the paper's vote takes longer for more users",
        format!("{growth:+.0} s from the fewest to the most"),
        growth > 0.0 || growth.is_nan(),
    ));
    Ok(report)
}

/// Figure 3, middle.
pub fn density(bench: &mut Bench) -> Result<Report> {
    let users = Size::of(bench).users;
    let points = Density::ALL.map(|d| (f64::from(u32::try_from(d.neighbours()).unwrap_or(0)), d));
    let (mut report, columns) =
        table(bench, ("fosam-f3-density", "neighbours"), &points, |density, mode, good, seed| {
            Scene {
                mode,
                good_percent: good,
                moves: Moves::Sit(density),
                ..Scene::paper(users, seed)
            }
        })?;
    let (sparse, dense) = (columns[0][0], columns[0][2]);
    report.shapes.push(Claim::is(
        "the paper's vote is faster where more hear each other",
        format!("{sparse:.0} s with 8, {dense:.0} s with 36 neighbours"),
        dense <= sparse,
    ));
    Ok(report)
}

/// Figure 3, right: the paper's liars show random times.
pub fn attackers(bench: &mut Bench) -> Result<Report> {
    let users = Size::of(bench).users;
    let points = bench
        .profile
        .pick(&[0, 10][..], &[0, 5, 10][..], &[0, 2, 4, 6, 8, 10][..])
        .iter()
        .map(|percent: &u64| (f64::from(u32::try_from(*percent).unwrap_or(0)), *percent))
        .collect::<Vec<_>>();
    let (mut report, columns) =
        table(bench, ("fosam-f3-attackers", "liars, %"), &points, |percent, mode, good, seed| {
            let liars = Some((Liar::RandomClock(300), 10 * percent));
            Scene { mode, good_percent: good, liars, ..Scene::paper(users, seed) }
        })?;
    let ours = columns[1].iter().copied().fold(0.0, f64::max);
    report.shapes.push(Claim::below(
        "ours with 30 % good clocks does not mind them, s",
        ours,
        61.0,
    ));
    Ok(report)
}

/// The share of clocks in step over time, in scenes of one kind of movement.
fn over_time(
    bench: &mut Bench,
    exp: &'static str,
    (moves, minutes, step): (Moves, u64, u64),
) -> Result<(Report, Vec<Vec<f64>>)> {
    let size = Size::of(bench);
    let mut report = report(exp, size)?;
    let points: Vec<u64> = (1..=minutes / step).collect();
    let mut plot = Plot::new("clocks within 1 s of each other", ["minutes", "share"]);
    let mut curves = Vec::new();
    for (name, mode, good) in KINDS {
        let shares = crate::parallel::map((0..size.seeds).collect(), |seed| {
            let scene = Scene { mode, good_percent: good, moves, ..Scene::paper(size.users, seed) };
            let mut stage = scene.silent().begin();
            let look = |_: &u64| {
                stage.run(60 * step);
                stage.share_in_step()
            };
            points.iter().map(look).collect::<Vec<f64>>()
        });
        let curve: Vec<f64> = (0..points.len())
            .map(|at| median(&shares.iter().map(|s| s[at]).collect::<Vec<_>>()))
            .collect();
        let minutes = |at: usize| f64::from(u32::try_from((at as u64 + 1) * step).unwrap_or(0));
        for (at, share) in curve.iter().enumerate() {
            bench.note_count(
                &format!("ours:{name}"),
                &format!("minute_{}", minutes(at)),
                "share",
                *share,
            )?;
        }
        let first = curve.iter().position(|share| *share >= 0.9).map(minutes);
        let words = first.map_or("never".to_owned(), |m| format!("after {m:.0} min"));
        report.say(format!(
            "  {name:<18} 90 % share a time {words}; {:.0} % in the end",
            100.0 * curve.last().copied().unwrap_or(0.0)
        ));
        plot.curve(name, curve.iter().enumerate().map(|(at, share)| [minutes(at), *share]));
        curves.push(curve);
    }
    report.plot = Some(plot);
    Ok((report, curves))
}

/// Figure 4.
pub fn converging(bench: &mut Bench) -> Result<Report> {
    let (minutes, step) = bench.profile.pick((10, 2), (30, 2), (60, 1));
    let moves = Moves::Meet(minutes * 45);
    let (mut report, curves) = over_time(bench, "fosam-f4", (moves, minutes, step))?;
    let most = curves[1].iter().copied().fold(0.0, f64::max);
    report.shapes.push(Claim::above("groups that meet come to one time (ours)", most, 0.9));
    Ok(report)
}

/// Figure 5: a synthetic festival, since the traces that the paper used are not free to pass on.
pub fn festival(bench: &mut Bench) -> Result<Report> {
    let (minutes, step) = bench.profile.pick((10, 5), (90, 5), (300, 5));
    let (mut report, curves) = over_time(bench, "fosam-f5", (Moves::Celebrate, minutes, step))?;
    let (first, last) = (curves[1][0], curves[1].last().copied().unwrap_or(0.0));
    report.shapes.push(Claim::is(
        "the share that agrees grows (ours)",
        format!("{first:.2} to {last:.2}"),
        last > first || last > 0.9,
    ));
    Ok(report)
}
