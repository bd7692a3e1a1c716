//! Votes of other meshes in the same crowd: their behaviour with clocks minutes off, with lost
//! clocks, and with liars.

use anyhow::Result;
use mezza_mesh::ClockMode;

use super::{MESSAGES, Size, begin_report, map_seeds};
use crate::bench::Bench;
use crate::clock::median;
use crate::ours::crowd::liars::Liar;
use crate::ours::crowd::{Scene, Stage};
use crate::run::experiment::Report;
use crate::shape::Claim;

/// A vote and the name of its column.
struct Vote {
    name: &'static str,
    mode: ClockMode,
}

/// All votes; our vote is the last.
const VOTES: [Vote; 5] = [
    Vote { name: "paper's vote", mode: ClockMode::Paper },
    Vote { name: "outliers", mode: ClockMode::OutlierMedian },
    Vote { name: "first time", mode: ClockMode::FirstPlausible },
    Vote { name: "quorum", mode: ClockMode::PeerQuorum },
    Vote { name: "ours (level)", mode: ClockMode::Level },
];
/// The index of our vote in [`VOTES`].
const OURS: usize = VOTES.len() - 1;
/// Time in which clocks settle before values are read, s.
const SETTLE_S: u64 = 300;
/// Maximum error of clocks that were set by a user or a network, while others are lost, s.
const SET_S: u64 = 2;
/// The liars' errors, s: with clocks minutes off, and with lost clocks.
const LIES: [i64; 2] = [60, 3_600];

/// A row of the table.
struct Row {
    text: &'static str,
    op: &'static str,
    scene: fn(Scene) -> Scene,
    measure: fn(&mut Stage, u64) -> f64,
    /// True if greater values are better.
    is_gain: bool,
}

const ROWS: [Row; 8] = [
    Row {
        text: "clocks off by up to 300 s: largest group within 1 s",
        op: "in_step",
        scene: Scene::without_messages,
        measure: |stage, _| stage.share_in_step(),
        is_gain: true,
    },
    Row {
        text: "  messages that arrive",
        op: "arrived",
        scene: |scene| scene,
        measure: measure_arrived,
        is_gain: true,
    },
    Row {
        text: "  3 in 10 are good: honest clocks within 1 s of the truth",
        op: "right",
        scene: |scene| Scene { good_percent: 30, ..scene.without_messages() },
        measure: |stage, _| stage.share_near(0),
        is_gain: true,
    },
    Row {
        text: "  and 1 in 10 shows +60 s: honest clocks within 1 s of the lie",
        op: "captured",
        scene: |scene| {
            let liars = Some(Liar::Collude(LIES[0]).with_share(100));
            Scene { good_percent: 30, liars, ..scene.without_messages() }
        },
        measure: |stage, _| stage.share_near(LIES[0]),
        is_gain: false,
    },
    Row {
        text: "  and 1 in 10 shows +60 s: messages that arrive",
        op: "arrived_lied_to",
        scene: |scene| {
            let liars = Some(Liar::Collude(LIES[0]).with_share(100));
            Scene { good_percent: 30, liars, ..scene }
        },
        measure: measure_arrived,
        is_gain: true,
    },
    Row {
        text: "half of all lost, the others within 2 s: clocks within 2 s of the truth",
        op: "found",
        scene: lose_dates,
        measure: |stage, _| stage.share_within(0, SET_S),
        is_gain: true,
    },
    Row {
        text: "  and 1 in 10 shows +1 h: honest clocks within 2 s of the lie",
        op: "captured_lost",
        scene: |scene| Scene {
            liars: Some(Liar::Collude(LIES[1]).with_share(100)),
            ..lose_dates(scene)
        },
        measure: |stage, _| stage.share_within(LIES[1], SET_S),
        is_gain: false,
    },
    Row {
        text: "  and 1 in 10 shows +1 h: honest clocks within 2 s of the truth",
        op: "found_lied_to",
        scene: |scene| Scene {
            liars: Some(Liar::Collude(LIES[1]).with_share(100)),
            ..lose_dates(scene)
        },
        measure: |stage, _| stage.share_within(0, SET_S),
        is_gain: true,
    },
];

/// Makes half of the devices begin at the default date of repeaters without a clock. The clocks of
/// the others were set.
fn lose_dates(scene: Scene) -> Scene {
    Scene { lost_percent: 50, spread_s: SET_S, ..scene.without_messages() }
}

/// Returns the share of messages that arrive while the receiver has the key.
fn measure_arrived(stage: &mut Stage, seconds: u64) -> f64 {
    stage.start_counting();
    stage.run_for(seconds);
    stage.share_delivered()
}

/// Runs the experiment.
///
/// # Errors
/// A raw line that cannot be written.
pub fn make_report(bench: &mut Bench) -> Result<Report> {
    let size = Size::for_profile(bench);
    let mut report = begin_report("fosam-x6", size)?;
    for line in [
        "outliers    median of 21 beacons without those beyond 3 median deviations, 15 must be left; moves a clock",
        "            that is 2 min off, then rests for a day (MeshCore, pull request 1443)",
        "first time  the first plausible date that is received, if the own one is before 2025 (pull request 2423)",
        "quorum      the middle of 3 different peers within a minute, once (pull request 23 of rogovogor/MeshCore)",
        "Written from these descriptions; their adverts are flooded over many hops, here a sample is the beacon of a",
        "neighbour. They set the clock of repeaters to some minutes, and were not made for epochs of a minute.",
    ] {
        report.add_line(line);
    }
    report.add_line(format!(
        "%, {}, after {SETTLE_S} s; in the rows on messages {MESSAGES},",
        size.name_middle()
    ));
    report
        .add_line(format!("and those of {} s are counted; the other rows have none", size.seconds));
    let head = VOTES.iter().fold(String::new(), |head, vote| format!("{head} {:>12}", vote.name));
    report.add_line(format!("  {:<72}{head}", ""));
    let mut ours = Vec::new();
    for row in &ROWS {
        let seeds = map_seeds(&[0, 1, 2, 3, 4], size.seeds, |at: usize, seed| {
            let scene = Scene { mode: VOTES[at].mode, ..Scene::paper(size.users, seed) };
            let mut stage = (row.scene)(scene).begin_stage();
            stage.run_for(SETTLE_S);
            100.0 * (row.measure)(&mut stage, size.seconds)
        });
        let values: Vec<f64> = seeds.iter().map(|seeds| median(seeds)).collect();
        for (Vote { name, .. }, value) in VOTES.iter().zip(&values) {
            bench.note_count(&format!("ours:{name}"), row.op, "percent", *value)?;
        }
        let cells =
            values.iter().fold(String::new(), |cells, value| format!("{cells} {value:>12.1}"));
        report.add_line(format!("  {:<72}{cells}", row.text));
        add_losses(&mut report, row, &values);
        ours.push(values[OURS]);
    }
    report.shapes.push(Claim::above("ours: messages where no clock is good, %", ours[1], 99.0));
    report.shapes.push(Claim::at_most("ours: captured at +60 s, 3 in 10 good, %", ours[3], 4.0));
    report.shapes.push(Claim::at_most("ours: captured at +1 h, half lost, %", ours[6], 0.0));
    report.add_line("A node of ours that begins at a placeholder date waits for its user or a time source: its vote never");
    report.add_line("sets such a clock, so that half of them stay lost.");
    Ok(report)
}

/// Notes each vote that is better than ours in a row.
fn add_losses(report: &mut Report, row: &Row, values: &[f64]) {
    let ours = (10.0 * values[OURS]).round();
    for (Vote { name, .. }, value) in VOTES.iter().zip(values).take(OURS) {
        let theirs = (10.0 * value).round();
        if if row.is_gain { ours < theirs } else { ours > theirs } {
            let text = row.text.trim();
            report.add_loss(format!("{text}: {:.1} % against {value:.1} ({name})", values[OURS]));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_vote_that_is_better_than_ours_is_listed() {
        let losses = |is_gain: bool, values: &[f64]| {
            let mut report = Report::default();
            let row = ROWS.iter().find(|row| row.is_gain == is_gain).unwrap();
            add_losses(&mut report, row, values);
            report
                .losing
                .iter()
                .filter_map(|l| l.rsplit_once('(').map(|(_, n)| n.to_owned()))
                .collect::<Vec<_>>()
        };
        assert_eq!(losses(true, &[99.6, 95.64, 1.0, 95.5, 95.6]), ["paper's vote)"]);
        assert_eq!(losses(false, &[100.0, 0.2, 0.5, 0.3, 0.3]), ["outliers)"]);
    }
}
