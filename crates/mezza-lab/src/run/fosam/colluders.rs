//! What colluding clocks do to the paper's vote and to ours, and what a wrong clock does to keys.

use anyhow::Result;
use mezza_mesh::ClockMode;

use super::{Size, each, report};
use crate::bench::Bench;
use crate::clock::{median, quantile, sort};
use crate::ours::crowd::Scene;
use crate::ours::crowd::liars::Liar;
use crate::run::experiment::Report;
use crate::shape::Claim;

/// The seeds of the goal: the median and the worst of eight.
const SEEDS: u64 = 8;
/// How long the liars have, s.
const TIME_S: u64 = 600;
/// The lies of the goal, s.
const LIES: [i64; 3] = [60, 140, 300];
/// Captured honest clocks, of a hundred, that may be: median and worst.
const LIMITS: [f64; 2] = [5.0, 8.0];

/// Runs it.
///
/// # Errors
/// A raw line that cannot be written.
pub fn run(bench: &mut Bench) -> Result<Report> {
    let size = Size::of(bench);
    let (users, seeds, time_s) =
        bench.profile.pick((64, 2, 60), (600, SEEDS, 300), (600, SEEDS, TIME_S));
    let mut report = report("fosam-x1", Size { users, seeds, seconds: time_s })?;
    report.say(format!("honest clocks within 1 s of the lie after {time_s} s, % of honest clocks: median / worst of {seeds} seeds"));
    let scene = |mode, good_percent, liars, seed| Scene {
        mode,
        good_percent,
        liars: Some(liars),
        ..Scene::paper(users, seed).silent()
    };
    for lie in LIES {
        for (name, mode, good, permille) in [
            ("anchored, 30 % good", ClockMode::Anchored, 30, 100),
            ("paper's vote", ClockMode::Paper, 30, 100),
        ] {
            let taken = each(&[lie], seeds, |lie, seed| {
                let mut stage = scene(mode, good, (Liar::Collude(lie), permille), seed).begin();
                stage.run(time_s);
                100.0 * stage.share_near(lie)
            });
            let (middle, worst) = (median(&taken[0]), quantile(&sort(taken[0].clone()), 1.0));
            bench.note_count(
                &format!("ours:{name}"),
                &format!("captured_{lie}"),
                "percent",
                middle,
            )?;
            bench.note_count(
                &format!("ours:{name}"),
                &format!("captured_worst_{lie}"),
                "percent",
                worst,
            )?;
            report.say(format!("  10 % at {lie:>+4} s   {name:<20} {middle:>5.1} / {worst:>5.1}"));
            if mode == ClockMode::Anchored {
                report.shapes.push(Claim::below(
                    format!("captured at {lie:+} s, median, %"),
                    middle,
                    LIMITS[0] + 0.01,
                ));
                report.shapes.push(Claim::below(
                    format!("captured at {lie:+} s, worst, %"),
                    worst,
                    LIMITS[1] + 0.01,
                ));
            } else {
                report.shapes.push(Claim::above(
                    format!("the paper's vote is taken at {lie:+} s, median, %"),
                    middle,
                    30.0,
                ));
            }
        }
    }
    report.say("liars that do not agree, beside it: honest clocks within 1 s of the truth, %, median / worst");
    for liar in [Liar::Freeze, Liar::Drag, Liar::RandomClock(300)] {
        for (name, mode, good) in [
            ("anchored, 30 % good", ClockMode::Anchored, 30),
            ("paper's vote", ClockMode::Paper, 30),
        ] {
            let right = each(&[liar], seeds, |liar, seed| {
                let mut stage = scene(mode, good, (liar, 100), seed).begin();
                stage.run(time_s);
                100.0 * stage.share_near(0)
            });
            let (middle, worst) = (median(&right[0]), quantile(&sort(right[0].clone()), 0.0));
            bench.note_count(&format!("ours:{name}"), &format!("{liar:?}"), "percent", middle)?;
            report
                .say(format!("  10 % {:<22} {name:<20} {middle:>5.1} / {worst:>5.1}", liar.name()));
        }
    }
    report.say("what still fails: fewer good clocks, or more liars inside of the bound (anchored)");
    for (good, permille) in [(10, 100), (0, 100), (30, 200), (30, 300)] {
        let taken = each(&[60], seeds, |lie, seed| {
            let mut stage =
                scene(ClockMode::Anchored, good, (Liar::Collude(lie), permille), seed).begin();
            stage.run(time_s);
            100.0 * stage.share_near(lie)
        });
        let (middle, worst) = (median(&taken[0]), quantile(&sort(taken[0].clone()), 1.0));
        bench.note_count(
            "ours:fails",
            &format!("good_{good}_liars_{permille}"),
            "percent",
            middle,
        )?;
        report.say(format!(
            "  {good:>2} % good, {:>2} % at +60 s   {middle:>5.1} / {worst:>5.1} captured",
            permille / 10
        ));
    }
    let _ = size;
    report.say("a captured clock is off by at most its bound: 2.5, 150 or 600 s; keys then live or die by so much");
    Ok(report)
}
