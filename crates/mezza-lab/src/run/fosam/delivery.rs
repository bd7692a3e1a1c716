//! Figures 6, 7 and 8: the share of messages that arrive while their receiver has the key.

use anyhow::Result;
use mezza_mesh::ClockMode;
use mezza_sim::crowd::movement::Density;

use super::{Size, each, report};
use crate::bench::Bench;
use crate::clock::median;
use crate::ours::crowd::liars::Liar;
use crate::ours::crowd::{Moves, Scene};
use crate::plot::Plot;
use crate::run::experiment::Report;
use crate::shape::Claim;

/// How long the paper lets a network settle, s.
const SETTLE_S: u64 = 300;

/// The paper's vote and ours.
const KINDS: [(&str, ClockMode, u64); 2] =
    [("paper's vote", ClockMode::Paper, 0), ("ours, 30 % good", ClockMode::Anchored, 30)];

/// The share of messages of `scene` that arrive, after the network has settled.
fn arrives(scene: &Scene, seconds: u64) -> f64 {
    let mut stage = scene.begin();
    stage.run(SETTLE_S);
    stage.count();
    stage.run(seconds);
    stage.delivered()
}

fn table<P: Copy + Send + Sync>(
    bench: &mut Bench,
    (exp, axis): (&'static str, &'static str),
    points: &[(f64, P)],
    scene: impl Fn(P, ClockMode, u64, u64) -> Scene + Sync,
) -> Result<(Report, Vec<Vec<f64>>)> {
    let size = Size::of(bench);
    let mut report = report(exp, size)?;
    report.say("messages that arrive, %, median of seeds; those still on their way in the end count as lost");
    report.say(format!("  {axis:>14} {:>16} {:>16}", KINDS[0].0, KINDS[1].0));
    let mut plot = Plot::new("messages that arrive", [axis, "%"]);
    let mut columns = Vec::new();
    for (name, mode, good) in KINDS {
        let shares = each(points, size.seeds, |(_, point), seed| {
            100.0 * arrives(&scene(point, mode, good, seed), size.seconds)
        });
        let column: Vec<f64> = shares.iter().map(|shares| median(shares)).collect();
        for ((x, _), share) in points.iter().zip(&column) {
            bench.note_count(
                &format!("ours:{name}"),
                &format!("arrived_{x}"),
                "percent",
                *share,
            )?;
        }
        plot.curve(name, points.iter().zip(&column).map(|((x, _), y)| [*x, *y]));
        columns.push(column);
    }
    for (at, (x, _)) in points.iter().enumerate() {
        report.say(format!("  {x:>14} {:>16.1} {:>16.1}", columns[0][at], columns[1][at]));
    }
    report.plot = Some(plot);
    Ok((report, columns))
}

/// Figure 6, left.
pub fn users(bench: &mut Bench) -> Result<Report> {
    let points: Vec<(f64, usize)> = bench
        .profile
        .pick(&[36, 64][..], &[100, 300, 600][..], &[100, 200, 400, 600, 800, 1_000][..])
        .iter()
        .map(|users: &usize| (f64::from(u32::try_from(*users).unwrap_or(0)), *users))
        .collect();
    let (mut report, columns) =
        table(bench, ("fosam-f6-users", "users"), &points, |users, mode, good, seed| Scene {
            mode,
            good_percent: good,
            ..Scene::paper(users, seed)
        })?;
    let least = columns[1].iter().copied().fold(100.0, f64::min);
    report.shapes.push(Claim::above("ours delivers in every size, %", least, 90.0));
    report.say("the knee near 600 users that the paper sees needs cells of some kilobytes: at 512 bytes a device");
    report.say("sends about 5 kB/s of the 175 kB/s that it may");
    Ok(report)
}

/// Figure 6, middle.
pub fn density(bench: &mut Bench) -> Result<Report> {
    let users = Size::of(bench).users;
    let points = Density::ALL.map(|d| (f64::from(u32::try_from(d.neighbours()).unwrap_or(0)), d));
    let (mut report, columns) =
        table(bench, ("fosam-f6-density", "neighbours"), &points, |density, mode, good, seed| {
            Scene {
                mode,
                good_percent: good,
                moves: Moves::Sit(density),
                ..Scene::paper(users, seed)
            }
        })?;
    let gain = columns[1][2] - columns[1][0];
    report.shapes.push(Claim::above(
        "denser crowds do not do worse, percentage points",
        gain,
        -1.0,
    ));
    Ok(report)
}

/// Figure 6, right.
pub fn attackers(bench: &mut Bench) -> Result<Report> {
    let users = Size::of(bench).users;
    let liars = [
        (0.0, (Liar::RandomClock(300), 0)),
        (5.0, (Liar::RandomClock(300), 50)),
        (10.0, (Liar::RandomClock(300), 100)),
    ];
    let (mut report, columns) =
        table(bench, ("fosam-f6-attackers", "liars, %"), &liars, |liars, mode, good, seed| {
            Scene { mode, good_percent: good, liars: Some(liars), ..Scene::paper(users, seed) }
        })?;
    report.shapes.push(Claim::above("ours with 10 % liars, %", columns[1][2], 90.0));
    report.say("messages to liars count too: they take what is theirs");
    let others = [Liar::EmptyPromise, Liar::BlackHole];
    let size = Size::of(bench);
    for liar in others {
        let shares = each(&[liar], size.seeds, |liar, seed| {
            let scene = Scene { liars: Some((liar, 100)), ..Scene::ours(size.users, seed) };
            100.0 * arrives(&scene, size.seconds)
        });
        let share = median(&shares[0]);
        bench.note_count("ours", &format!("{liar:?}"), "percent", share)?;
        report.say(format!("  10 % {:<16} ours: {share:.1} % arrive", liar.name()));
        // What black holes write themselves nobody hears of: a tenth of all messages.
        let least = if liar == Liar::BlackHole { 80.0 } else { 88.0 };
        report.shapes.push(Claim::above(format!("10 % {}, %", liar.name()), share, least));
    }
    Ok(report)
}

/// The share of messages that arrive, by the minute in which they were written.
fn over_time(
    bench: &mut Bench,
    exp: &'static str,
    (moves, minutes, step): (Moves, u64, u64),
) -> Result<(Report, Vec<Vec<f64>>)> {
    let size = Size::of(bench);
    let mut report = report(exp, size)?;
    let mut plot = Plot::new("messages that arrive", ["minutes", "%"]);
    let mut curves = Vec::new();
    for (name, mode, good) in KINDS {
        let shares = crate::parallel::map((0..size.seeds).collect(), |seed| {
            let scene = Scene { mode, good_percent: good, moves, ..Scene::paper(size.users, seed) };
            let mut stage = scene.begin();
            let look = |_| {
                stage.count();
                stage.run(60 * step);
                100.0 * stage.delivered()
            };
            (0..minutes / step).map(look).collect::<Vec<f64>>()
        });
        let count = shares.first().map_or(0, Vec::len);
        let curve: Vec<f64> = (0..count)
            .map(|at| median(&shares.iter().map(|s| s[at]).collect::<Vec<_>>()))
            .collect();
        let minute = |at: usize| f64::from(u32::try_from((at as u64 + 1) * step).unwrap_or(0));
        for (at, share) in curve.iter().enumerate() {
            bench.note_count(
                &format!("ours:{name}"),
                &format!("minute_{}", minute(at)),
                "percent",
                *share,
            )?;
        }
        let end = |at: Option<&f64>| at.copied().unwrap_or(f64::NAN);
        let most = curve.iter().copied().fold(0.0, f64::max);
        report.say(format!(
            "  {name:<18} first {:.1} %, most {most:.1} %, last {:.1} %",
            end(curve.first()),
            end(curve.last())
        ));
        plot.curve(name, curve.iter().enumerate().map(|(at, share)| [minute(at), *share]));
        curves.push(curve);
    }
    report.plot = Some(plot);
    Ok((report, curves))
}

/// Figure 7.
pub fn converging(bench: &mut Bench) -> Result<Report> {
    let (minutes, step) = bench.profile.pick((6, 2), (24, 2), (60, 2));
    let moves = Moves::Meet(minutes * 45);
    let (mut report, curves) = over_time(bench, "fosam-f7", (moves, minutes, step))?;
    let (first, most) = (curves[1][0], curves[1].iter().copied().fold(0.0, f64::max));
    report.shapes.push(Claim::is(
        "fewer arrive while people are apart",
        format!("{first:.1} % at first, {most:.1} % at most"),
        most > first,
    ));
    Ok(report)
}

/// Figure 8.
pub fn festival(bench: &mut Bench) -> Result<Report> {
    let (minutes, step) = bench.profile.pick((6, 2), (40, 5), (300, 10));
    let (mut report, curves) = over_time(bench, "fosam-f8", (Moves::Celebrate, minutes, step))?;
    let (first, last) = (curves[1][0], curves[1].last().copied().unwrap_or(0.0));
    report.shapes.push(Claim::is(
        "low at first, more once people and clocks have come together",
        format!("{first:.1} % at first, {last:.1} % in the end"),
        last >= first,
    ));
    Ok(report)
}
