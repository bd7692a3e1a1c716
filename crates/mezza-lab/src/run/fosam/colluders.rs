//! The effects of colluding clocks on the paper's vote and on ours, and of a wrong clock on keys.

use anyhow::Result;
use mezza_mesh::ClockMode;

use super::{MESSAGES, Size, begin_report, map_seeds};
use crate::bench::Bench;
use crate::clock::{median, quantile, sort_samples};
use crate::ours::crowd::liars::{Liar, LiarShare};
use crate::ours::crowd::{Scene, Stage};
use crate::run::experiment::Report;
use crate::shape::Claim;

/// Number of seeds, of which the goal needs the median and the worst.
const SEEDS: u64 = 8;
/// The wrong times of the goal, in s from the true time.
const LIES: [i64; 3] = [60, 140, 300];
/// Maximum percentages of captured honest clocks: median and worst.
const LIMITS: [f64; 2] = [1.0, 4.0];
/// Minimum percentage of messages that arrive while a tenth of the devices shows a time of +60 s.
const ARRIVE_LIED_TO: f64 = 98.0;
/// Minimum percentage of messages that arrive if no device lies and no clock is good.
const ARRIVE_UNAIDED: f64 = 99.5;
/// Time in which a network settles before messages are counted, s.
const SETTLE_S: u64 = 300;
/// Our vote and the paper's vote, both with 30 % good clocks.
const KINDS: [(&str, ClockMode); 2] =
    [("ours, 30 % good", ClockMode::Level), ("paper's vote", ClockMode::Paper)];

/// Our vote and the paper's vote where no clock is good.
const UNAIDED: [(&str, ClockMode); 2] =
    [("ours", ClockMode::Level), ("paper's vote", ClockMode::Paper)];

/// The number of users and seeds, and the time that liars have.
#[derive(Clone, Copy)]
struct Trial {
    users: usize,
    seeds: u64,
    time_s: u64,
}

impl Trial {
    /// Measures a share of honest clocks for each seed. Returns median, minimum and maximum in
    /// percent.
    fn measure_percent(
        self,
        mode: ClockMode,
        good_percent: u64,
        liars: LiarShare,
        measure: impl Fn(&Stage) -> f64 + Sync,
    ) -> [f64; 3] {
        let shares = map_seeds(&[()], self.seeds, |(), seed| {
            let paper = Scene::paper(self.users, seed).without_messages();
            let mut stage = Scene { mode, good_percent, liars: Some(liars), ..paper }.begin_stage();
            stage.run_for(self.time_s);
            100.0 * measure(&stage)
        });
        let sorted = sort_samples(shares[0].clone());
        [median(&shares[0]), quantile(&sorted, 0.0), quantile(&sorted, 1.0)]
    }
}

/// Runs the experiment.
///
/// # Errors
/// A raw line that cannot be written.
pub fn make_report(bench: &mut Bench) -> Result<Report> {
    let (users, seeds, time_s) =
        bench.profile.pick((64, 2, 60), (600, SEEDS, 300), (600, SEEDS, 1_800));
    let trial = Trial { users, seeds, time_s };
    let mut report = begin_report("fosam-x1", Size { users, seeds, seconds: time_s })?;
    report.add_line("each row says how many of its first clocks are good, which means within 0.25 s; the paper's vote makes no difference of them");
    report.add_line(format!(
        "{MESSAGES}, in the rows on messages; the others have none. Medians are lower medians"
    ));
    add_colluders(bench, &mut report, trial)?;
    add_others(bench, &mut report, trial)?;
    add_unaided(bench, &mut report, trial)?;
    lied_to(bench, &mut report, trial)?;
    add_limits(bench, &mut report, trial)?;
    report.add_line("by rule our vote moves a clock at most by its bound: 2.5 s (good), 150 s (fair), 600 s (poor); keys are");
    report.add_line("erased too early or too late by as much");
    Ok(report)
}

/// Measures ten percent of devices that show the same wrong time.
fn add_colluders(bench: &mut Bench, report: &mut Report, trial: Trial) -> Result<()> {
    let Trial { seeds, time_s, .. } = trial;
    report.add_line(format!(
        "30 % good, in both votes: honest clocks within 1 s of the lie after {time_s} s, %: median / worst of {seeds} seeds"
    ));
    for lie in LIES {
        let mut shares = [[f64::NAN; 2]; 2];
        for (at, (name, mode)) in KINDS.into_iter().enumerate() {
            let [middle, _, worst] =
                trial.measure_percent(mode, 30, Liar::Collude(lie).with_share(100), |stage| {
                    stage.share_near(lie)
                });
            shares[at] = [middle, worst];
            for (op, value) in [("captured", middle), ("captured_worst", worst)] {
                bench.note_count(
                    &format!("ours:{name}"),
                    &format!("{op}_{lie}"),
                    "percent",
                    value,
                )?;
            }
            report.add_line(format!(
                "  10 % at {lie:>+4} s   {name:<20} {middle:>5.1} / {worst:>5.1}"
            ));
            if mode == ClockMode::Level {
                let [most, most_worst] = LIMITS;
                let text = format!("ours, 30 % good: captured at {lie:+} s, %");
                report.shapes.push(Claim::at_most(format!("{text}, median"), middle, most));
                report.shapes.push(Claim::at_most(format!("{text}, worst"), worst, most_worst));
            } else {
                let text = format!("the paper's vote is taken at {lie:+} s, %");
                report.shapes.push(Claim::above(text, middle, 30.0));
            }
        }
        add_losses(
            report,
            &format!("10 % at {lie:+} s, not captured"),
            shares.map(|s| s.map(|v| 100.0 - v)),
        );
    }
    Ok(())
}

/// Measures liars who do not agree on a time.
fn add_others(bench: &mut Bench, report: &mut Report, trial: Trial) -> Result<()> {
    report.add_line("30 % good, in both votes, other liars: honest clocks within 1 s of the truth, %: median / worst");
    for liar in [Liar::Freeze, Liar::Drag, Liar::RandomClock(300)] {
        let mut shares = [[f64::NAN; 2]; 2];
        for (at, (name, mode)) in KINDS.into_iter().enumerate() {
            let [middle, worst, _] =
                trial.measure_percent(mode, 30, liar.with_share(100), |stage| stage.share_near(0));
            shares[at] = [middle, worst];
            bench.note_count(&format!("ours:{name}"), &format!("{liar:?}"), "percent", middle)?;
            let liar = liar.name();
            report.add_line(format!("  10 % {liar:<22} {name:<20} {middle:>5.1} / {worst:>5.1}"));
        }
        add_losses(report, &format!("10 % {}", liar.name()), shares);
    }
    Ok(())
}

/// Measures the share of messages that arrive in a settled network, for each seed. Returns median
/// and minimum in percent.
fn measure_arrivals(trial: Trial, scene: impl Fn(u64) -> Scene + Sync) -> [f64; 2] {
    let shares = map_seeds(&[()], trial.seeds, |(), seed| {
        let mut stage = scene(seed).begin_stage();
        stage.run_for(SETTLE_S);
        stage.start_counting();
        stage.run_for(trial.time_s);
        100.0 * stage.share_delivered()
    });
    [median(&shares[0]), quantile(&sort_samples(shares[0].clone()), 0.0)]
}

/// Measures messages without liars and without good clocks.
fn add_unaided(bench: &mut Bench, report: &mut Report, trial: Trial) -> Result<()> {
    report.add_line("messages that arrive where nobody lies and no clock is good, clocks off by up to 300 s, %: median / worst");
    for users in bench.profile.pick(&[64][..], &[300, 600, 1_000], &[300, 600, 1_000]) {
        let mut shares = [[f64::NAN; 2]; 2];
        for (at, (name, mode)) in UNAIDED.into_iter().enumerate() {
            let [middle, worst] =
                measure_arrivals(trial, |seed| Scene { mode, ..Scene::paper(*users, seed) });
            let op = format!("unaided_{users}");
            bench.note_count(&format!("ours:{name}"), &op, "percent", middle)?;
            report
                .add_line(format!("  {users:>5} users   {name:<20} {middle:>5.1} / {worst:>5.1}"));
            shares[at] = [middle, worst];
            if mode == ClockMode::Level {
                let text =
                    format!("ours, {users} users, none good, no liar: messages that arrive, %");
                report.shapes.push(Claim::at_least(text, middle, ARRIVE_UNAIDED));
            }
        }
        add_losses(report, &format!("{users} users, none good, no liar, messages"), shares);
    }
    Ok(())
}

/// Measures messages if three of ten clocks are good and a tenth of all devices show the same wrong
/// time.
fn lied_to(bench: &mut Bench, report: &mut Report, trial: Trial) -> Result<()> {
    report.add_line(
        "30 % good, in both votes: messages that arrive while 10 % show +60 s, %: median / worst",
    );
    let mut shares = [[f64::NAN; 2]; 2];
    for (at, (name, mode)) in KINDS.into_iter().enumerate() {
        let [middle, worst] = measure_arrivals(trial, |seed| Scene {
            mode,
            liars: Some(Liar::Collude(LIES[0]).with_share(100)),
            ..Scene::ours(trial.users, seed)
        });
        shares[at] = [middle, worst];
        bench.note_count(&format!("ours:{name}"), "arrived_lied_to", "percent", middle)?;
        report.add_line(format!("  10 % at  +60 s   {name:<20} {middle:>5.1} / {worst:>5.1}"));
    }
    add_losses(report, "messages while 10 % show +60 s", shares);
    report.shapes.push(Claim::above(
        "ours, 30 % good: messages while 10 % show +60 s, %",
        shares[0][0],
        ARRIVE_LIED_TO,
    ));
    Ok(())
}

/// Lists a share of which our vote has less than the paper's. The shares are ours and the paper's,
/// each as median and worst seed; those that print alike are no loss.
fn add_losses(report: &mut Report, what: &str, [ours, theirs]: [[f64; 2]; 2]) {
    for ((value, other), of) in ours.into_iter().zip(theirs).zip(["median", "worst seed"]) {
        if (10.0 * value).round() < (10.0 * other).round() {
            report
                .add_loss(format!("{what}, {of}: {value:.1} % against {other:.1} (paper's vote)"));
        }
    }
}

/// Measures the conditions in which our vote also fails.
fn add_limits(bench: &mut Bench, report: &mut Report, trial: Trial) -> Result<()> {
    report.add_line(
        "fewer good clocks or more liars at +60 s: captured clocks of ours, %: median / worst",
    );
    for (good, permille) in [(10, 100), (0, 100), (30, 200), (30, 300)] {
        let liars = Liar::Collude(60).with_share(permille);
        let [middle, _, worst] =
            trial.measure_percent(ClockMode::Level, good, liars, |stage| stage.share_near(60));
        let op = format!("good_{good}_liars_{permille}");
        bench.note_count("ours:fails", &op, "percent", middle)?;
        let percent = permille / 10;
        report.add_line(format!(
            "  {good:>2} % good, {percent:>2} % lie   {middle:>5.1} / {worst:>5.1}"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_that_our_vote_loses_is_listed_by_median_and_by_worst_seed() {
        let losses = |shares| {
            let mut report = Report::default();
            add_losses(&mut report, "messages", shares);
            report.losing
        };
        let both = losses([[97.3, 94.2], [99.6, 99.4]]);
        assert_eq!(
            both,
            [
                "messages, median: 97.3 % against 99.6 (paper's vote)",
                "messages, worst seed: 94.2 % against 99.4 (paper's vote)",
            ]
        );
        assert!(losses([[99.64, 52.0], [99.56, 44.0]]).is_empty());
    }
}
