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
use crate::papers;
use crate::run::experiment::Report;
use crate::shape::Claim;

/// Time limit for agreement, s.
const LONGEST_S: u64 = 1_200;
/// The text above each table.
const SAID: &str = "no messages are sent; seconds until 90 % of honest clocks are within 1 s";
const ENDS: &str = "read every 2 s; -: not within 1200 s";
/// The greatest time of our vote with good clocks in a claim, s.
const QUICK_S: f64 = 60.0;
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

/// Returns the seconds until nine of ten honest clocks lie within one second; infinity if they do
/// not within the time limit.
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
    by_points(bench, Figure { exp, axis, said: SAID, ends: ENDS }, TIME, &COLUMNS, points, scene)
}

/// Claims that each time of a column is at most a minute.
fn claim_quick(text: &str, column: &[f64]) -> Claim {
    let [slowest, _] = find_extremes(column);
    let text = format!("{text} within a minute at each point, the slowest, s (inf: not in 1200)");
    Claim::at_most(text, slowest, QUICK_S)
}

/// Claims that the second time is longer. A time beyond the limit is longer than each within it; of
/// two beyond it none is known to be longer.
fn claim_longer(text: &str, times: [f64; 2]) -> Claim {
    let [short, long] = times.map(|time| {
        if time.is_finite() { format!("{time:.0} s") } else { "not within 1200 s".to_owned() }
    });
    Claim::is(text, format!("{long} against {short}"), times[1] > times[0])
}

/// Lists each column of ours that takes longer than the slowest network of the paper.
fn add_printed_losses(report: &mut Report, columns: &[Vec<f64>]) -> Result<()> {
    let printed = papers::load_fosam()?.find_first("fosam-f3-users", "slowest");
    for (kind, column) in KINDS.iter().zip(columns).skip(1) {
        let slow = column.iter().filter(|time| **time > printed).count();
        if slow > 0 {
            report.add_loss(format!(
                "{}: more than {printed:.0} s at {slow} of {} points; the paper prints at most {printed:.0} s",
                kind.name,
                column.len()
            ));
        }
    }
    Ok(())
}

/// Measures figure 3, left.
pub fn by_users(bench: &mut Bench) -> Result<Report> {
    let full = &[100, 200, 400, 600, 800, 1_000][..];
    let points = list_users(bench, [&[64, 100], &[100, 300, 600], full]);
    let (mut report, columns) =
        make_table(bench, "fosam-f3-users", "users", &points, Scene::paper)?;
    add_printed_losses(&mut report, &columns)?;
    report.shapes.push(claim_quick("with 30 % good clocks ours agrees", &columns[1]));
    let text = "the paper's vote takes longer for the most users than for the fewest";
    let most = columns[0].last().copied().unwrap_or(f64::NAN);
    report.shapes.push(claim_longer(text, [columns[0][0], most]));
    Ok(report)
}

/// Measures figure 3, middle.
pub fn report_density(bench: &mut Bench) -> Result<Report> {
    let count = Size::for_profile(bench).users;
    let (mut report, columns) =
        make_table(bench, "fosam-f3-density", "neighbours", &list_densities(), |density, seed| {
            Scene { moves: Moves::Sit(density), ..Scene::paper(count, seed) }
        })?;
    add_printed_losses(&mut report, &columns)?;
    let text = "the paper's vote takes longer with 8 neighbours than with 36";
    report.shapes.push(claim_longer(text, [columns[0][2], columns[0][0]]));
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
    report.shapes.push(claim_quick("with 30 % good clocks ours agrees beside liars", &columns[1]));
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
    report.add_line(
        "no messages are sent; share a time: the largest group of honest clocks within 1 s",
    );
    for (kind, curve) in KINDS.iter().zip(&curves) {
        let first = curve.iter().find(|[_, share]| *share >= 0.9);
        let words = first.map_or_else(
            || format!("not in {} min", course.minutes),
            |[minute, _]| format!("after {minute:.0} min"),
        );
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
    report.shapes.push(claim_meeting(&curves[1]));
    Ok(report)
}

/// Measures figure 5 with a synthetic festival, since the paper's traces may not be redistributed.
pub fn report_festival(bench: &mut Bench) -> Result<Report> {
    let (minutes, step) = bench.profile.pick((10, 5), (90, 5), (300, 5));
    let course = Course { moves: Moves::Celebrate, minutes, step };
    let (mut report, curves) = over_time(bench, "fosam-f5", course)?;
    report.add_line("the paper's figure counts people \"which share the same epoch\", which is a minute: a wider measure");
    report.shapes.push(claim_growth(&curves[1]));
    Ok(report)
}

/// Claims that groups do not agree at the first point, and agree later.
fn claim_meeting(curve: &[[f64; 2]]) -> Claim {
    let first = curve.first().map_or(f64::NAN, |[_, share]| *share);
    let most = curve.iter().map(|[_, share]| *share).fold(f64::NAN, f64::max);
    Claim::is(
        "groups that meet come to one time (ours, 30 % good): 90 % not at the first point, but later",
        format!("{first:.2} at first, {most:.2} at most"),
        first < 0.9 && most >= 0.9,
    )
}

/// Claims that the share at the last point is greater than that at the first.
fn claim_growth(curve: &[[f64; 2]]) -> Claim {
    let share = |at: Option<&[f64; 2]>| at.map_or(f64::NAN, |[_, share]| *share);
    let [first, last] = [share(curve.first()), share(curve.last())];
    Claim::is(
        "the share that agrees is greater at the last point than at the first (ours, 30 % good)",
        format!("{first:.2} to {last:.2}"),
        last > first,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_on_times_fails_where_no_time_is_known_to_be_longer() {
        let holds = |times| claim_longer("a", times).holds;
        assert!(holds([40.0, 424.0]) && holds([40.0, f64::INFINITY]));
        assert!(!holds([40.0, 40.0]) && !holds([424.0, 40.0]));
        assert!(!holds([f64::INFINITY; 2]) && !holds([f64::NAN, 40.0]));
        assert_eq!(
            claim_longer("a", [40.0, f64::INFINITY]).found,
            "not within 1200 s against 40 s"
        );
        let quick = |column: &[f64]| claim_quick("ours", column).holds;
        assert!(quick(&[10.0, 60.0]) && !quick(&[10.0, 62.0]) && !quick(&[f64::INFINITY]));
    }

    #[test]
    fn a_claim_on_growth_fails_without_growth() {
        let curve = |shares: &[f64]| shares.iter().map(|share| [0.0, *share]).collect::<Vec<_>>();
        let grows = |shares: &[f64]| claim_growth(&curve(shares)).holds;
        assert!(grows(&[0.6, 1.0]) && !grows(&[1.0, 1.0]) && !grows(&[0.95, 0.93]) && !grows(&[]));
        let meets = |shares: &[f64]| claim_meeting(&curve(shares)).holds;
        assert!(meets(&[0.3, 0.9, 0.5]) && !meets(&[0.95, 1.0]) && !meets(&[0.3, 0.8]));
        assert!(!meets(&[]));
    }

    #[test]
    fn a_column_slower_than_the_paper_prints_is_listed() {
        let mut report = Report::default();
        let columns = [vec![900.0], vec![10.0, 600.0], vec![10.0, f64::INFINITY]];
        add_printed_losses(&mut report, &columns).unwrap();
        let loss =
            "ours, none good: more than 600 s at 1 of 2 points; the paper prints at most 600 s";
        assert_eq!(report.losing, [loss]);
    }
}
