//! Figures 6, 7 and 8: the share of messages that arrive while the receiver has the key.

use anyhow::Result;

use super::sweep::{
    Columns, Course, Figure, Kind, OURS, PAPER, Quantity, Sample, UNAIDED, by_minutes, by_points,
    find_extremes, list_densities, list_users,
};
use super::{MESSAGES, Size, map_seeds};
use crate::bench::Bench;
use crate::clock::median;
use crate::ours::crowd::liars::Liar;
use crate::ours::crowd::{Moves, Scene, Stage};
use crate::run::experiment::Report;
use crate::shape::Claim;

/// Time in which the paper's network settles, s.
const SETTLE_S: u64 = 300;
const SHARE: Quantity = Quantity {
    title: "messages that arrive",
    unit: "percent",
    op: "arrived",
    decimals: 1,
    is_gain: true,
};
const SAID: &str = "messages that arrive, %";
const ENDS: &str = "those still on their way in the end count as lost";
const KINDS: [Kind; 3] = [PAPER, OURS, UNAIDED];
/// The paper's vote with two columns (with the keys of a ratchet, and as if keys returned when a
/// clock is set back), then our vote with and without good clocks.
const COLUMNS: [Columns; 3] = [
    Columns { names: &[PAPER.name, "its keys back"], kind: PAPER, measure: arrive_and_reach },
    Columns { names: &[OURS.name], kind: OURS, measure: arrive_and_reach },
    Columns { names: &[UNAIDED.name], kind: UNAIDED, measure: arrive_and_reach },
];

/// The indices of columns of the table.
const OF_PAPER: usize = 0;
const OF_UNAIDED: usize = 3;

/// Returns two figures of a settled network in percent: messages that arrive while the receiver has
/// the key, and messages that arrive in the epoch of the receiver's clock even if the key is
/// erased.
fn arrive_and_reach(scene: &Scene, seconds: u64) -> Vec<f64> {
    let mut stage = scene.begin_stage();
    stage.run_for(SETTLE_S);
    stage.start_counting();
    stage.run_for(seconds);
    vec![100.0 * stage.share_delivered(), 100.0 * stage.share_reached()]
}

fn make_table<P: Copy + Send + Sync>(
    bench: &mut Bench,
    exp: &'static str,
    axis: &'static str,
    points: &[(f64, P)],
    scene: impl Fn(P, u64) -> Scene + Sync,
) -> Result<(Report, Vec<Vec<f64>>)> {
    let (mut report, columns) = by_points(
        bench,
        Figure { exp, axis, said: SAID, ends: ENDS },
        SHARE,
        &COLUMNS,
        points,
        scene,
    )?;
    let seconds = Size::for_profile(bench).seconds;
    report.add_line(format!("{MESSAGES}; after {SETTLE_S} s those of {seconds} s are counted"));
    for line in [
        "its keys back: the same vote, counted as if a clock that is set back brought erased keys back.",
        "A device of which a vote made the clock fast has erased the keys up to there, and a vote that sets",
        "it back does not bring them back: the two columns differ by what that costs the paper's vote.",
        "The paper counts what arrives \"during the correct epoch (before the key is deleted)\" and prints 92",
        "to 99 %; it does not say by how much its first clocks differ. Ours differ by up to 300 s.",
    ] {
        report.add_line(line);
    }
    Ok((report, columns))
}

/// Measures figure 6, left.
pub fn by_users(bench: &mut Bench) -> Result<Report> {
    let full = &[100, 200, 400, 600, 800, 1_000][..];
    let points = list_users(bench, [&[36, 64], &[100, 300, 600], full]);
    let (mut report, columns) =
        make_table(bench, "fosam-f6-users", "users", &points, Scene::paper)?;
    let [_, least] = find_extremes(&columns[OF_UNAIDED]);
    report.shapes.push(Claim::above(
        "ours, none good, delivers in every size, the least, %",
        least,
        90.0,
    ));
    report.add_line("the paper's share falls beyond about 600 users, which it explains with bandwidth and slower clocks: here");
    report.add_line("600 users make 10 kB of cells a second in all, and a device may send 175 kB; larger cells were not run");
    Ok(report)
}

/// Measures figure 6, middle.
pub fn report_density(bench: &mut Bench) -> Result<Report> {
    let count = Size::for_profile(bench).users;
    let (mut report, columns) =
        make_table(bench, "fosam-f6-density", "neighbours", &list_densities(), |density, seed| {
            Scene { moves: Moves::Sit(density), ..Scene::paper(count, seed) }
        })?;
    let gains = [OF_PAPER, OF_UNAIDED].map(|at| columns[at][2] - columns[at][0]);
    report.shapes.push(claim_denser(gains));
    Ok(report)
}

/// Measures figure 6, right.
pub fn report_attackers(bench: &mut Bench) -> Result<Report> {
    let size = Size::for_profile(bench);
    let points = [(0.0, 0), (5.0, 50), (10.0, 100)];
    let (mut report, columns) =
        make_table(bench, "fosam-f6-attackers", "liars, %", &points, |permille, seed| Scene {
            liars: Some(Liar::RandomClock(300).with_share(permille)),
            ..Scene::paper(size.users, seed)
        })?;
    report.shapes.push(Claim::above(
        "ours, none good, with 10 % liars, %",
        columns[OF_UNAIDED][2],
        90.0,
    ));
    report.add_line("messages to liars count, too: a liar opens what is sent to it. Liars of the next two rows deliver nothing,");
    report
        .add_line("not even their own messages, a tenth of all: 90 % is the most that can arrive");
    for liar in [Liar::EmptyPromise, Liar::BlackHole] {
        let shares = map_seeds(&[PAPER, OURS], size.seeds, |kind, seed| {
            let scene =
                Scene { liars: Some(liar.with_share(100)), ..Scene::paper(size.users, seed) };
            arrive_and_reach(&kind.apply_to(scene), size.seconds)[0]
        });
        let [theirs, share] = [median(&shares[0]), median(&shares[1])];
        for (kind, share) in [(PAPER, theirs), (OURS, share)] {
            let who = format!("ours:{}", kind.name);
            bench.note_count(&who, &format!("{liar:?}"), "percent", share)?;
            report.add_line(format!(
                "  10 % {:<16} {}: {share:.1} % arrive",
                liar.name(),
                kind.name
            ));
        }
        if SHARE.is_worse(share, theirs) {
            report.add_loss(format!(
                "{}, 10 % {}: {share:.1} % against {theirs:.1} ({})",
                OURS.name,
                liar.name(),
                PAPER.name
            ));
        }
        // Messages from black holes, a tenth of all, reach nobody.
        let least = if liar == Liar::BlackHole { 80.0 } else { 88.0 };
        report.shapes.push(Claim::above(format!("10 % {}, %", liar.name()), share, least));
    }
    add_spreads(bench, &mut report, size)?;
    Ok(report)
}

/// The errors of first clocks and of liars' times, s. The paper gives neither.
#[derive(Clone, Copy)]
struct Spread {
    clocks_s: u64,
    liars_s: u64,
}

const SPREADS: [Spread; 3] = [
    Spread { clocks_s: 300, liars_s: 300 },
    Spread { clocks_s: 60, liars_s: 60 },
    Spread { clocks_s: 10, liars_s: 300 },
];
/// Shares of liars, in thousandths.
const PERMILLE: [u64; 4] = [0, 20, 50, 100];
/// The paper's printed share for its vote with a tenth of liars, %.
const PRINTED: f64 = 92.0;

/// Measures the paper's vote with several spreads, which the paper does not give.
fn add_spreads(bench: &mut Bench, report: &mut Report, size: Size) -> Result<()> {
    report.add_line("the paper prints 92 % beside a tenth of liars and gives neither the spread of first clocks nor that of the");
    report.add_line(
        "liars' times. The paper's vote at 0, 2, 5 and 10 % liars, with its keys back in brackets:",
    );
    let mut greatest = f64::NEG_INFINITY;
    for Spread { clocks_s, liars_s } in SPREADS {
        let seeds = map_seeds(&PERMILLE, size.seeds, |permille, seed| {
            let liars = Some(Liar::RandomClock(liars_s).with_share(permille));
            let scene = Scene { liars, spread_s: clocks_s, ..Scene::paper(size.users, seed) };
            arrive_and_reach(&scene, size.seconds)
        });
        let of = |column: usize| {
            seeds
                .iter()
                .map(move |seeds| median(&seeds.iter().map(|row| row[column]).collect::<Vec<_>>()))
        };
        let cells: Vec<String> =
            of(0).zip(of(1)).map(|(kept, back)| format!("{kept:5.1} ({back:5.1})")).collect();
        let last = of(0).next_back().unwrap_or(f64::NAN);
        bench.note_count(
            "ours:paper's vote",
            &format!("spread_{clocks_s}_{liars_s}"),
            "percent",
            last,
        )?;
        greatest = greatest.max(last);
        report.add_line(format!(
            "  clocks within {clocks_s:>3} s, liars within {liars_s:>3} s   {}",
            cells.join("   ")
        ));
    }
    report.shapes.push(Claim::below(
        "no spread that was tried gives the paper's 92 %: the greatest at 10 % liars",
        greatest,
        PRINTED,
    ));
    Ok(())
}

/// Measures the share of messages that arrive, by the minute of sending.
fn over_time(bench: &mut Bench, exp: &'static str, course: Course) -> Result<(Report, [f64; 3])> {
    let measure: fn(&mut Stage, u64) -> f64 = |stage, seconds| {
        stage.start_counting();
        stage.run_for(seconds);
        100.0 * stage.share_delivered()
    };
    let (mut report, curves) =
        by_minutes(bench, exp, SHARE, &KINDS, course, Sample { silent: false, measure })?;
    let mut of_ours = [f64::NAN; 3];
    report.add_line(format!("  {MESSAGES}; each point counts those of {} min", course.step));
    // The claims are about the kind with good clocks.
    for (kind, curve) in KINDS.iter().zip(&curves) {
        let shares: Vec<f64> = curve.iter().map(|[_, share]| *share).collect();
        let end = |at: Option<&f64>| at.copied().unwrap_or(f64::NAN);
        let [first, last, most] =
            [end(shares.first()), end(shares.last()), find_extremes(&shares)[0]];
        let name = kind.name;
        report.add_line(format!(
            "  {name:<18} first {first:.1} %, most {most:.1} %, last {last:.1} %"
        ));
        if name == OURS.name {
            of_ours = [first, most, last];
        }
    }
    Ok((report, of_ours))
}

/// Measures figure 7.
pub fn report_converging(bench: &mut Bench) -> Result<Report> {
    let (minutes, step) = bench.profile.pick((6, 2), (24, 2), (60, 2));
    let moves = Moves::Meet(minutes * 45);
    let (mut report, [first, most, last]) =
        over_time(bench, "fosam-f7", Course { moves, minutes, step })?;
    report.shapes.push(claim_apart([first, most, last]));
    Ok(report)
}

/// Measures figure 8.
pub fn report_festival(bench: &mut Bench) -> Result<Report> {
    let (minutes, step) = bench.profile.pick((6, 2), (40, 5), (300, 10));
    let course = Course { moves: Moves::Celebrate, minutes, step };
    let (mut report, [first, _, last]) = over_time(bench, "fosam-f8", course)?;
    let text =
        "ours, 30 % good: more arrive at the last point than at the first, percentage points";
    report.shapes.push(Claim::above(text, last - first, 0.0));
    Ok(report)
}

/// Claims that more arrives in the densest crowd than in the sparsest, with the paper's vote and with
/// ours without good clocks, from what each gains in percentage points.
fn claim_denser([paper, ours]: [f64; 2]) -> Claim {
    Claim::is(
        "more arrive with 36 neighbours than with 8, percentage points",
        format!("{paper:+.2} ({}), {ours:+.2} ({})", PAPER.name, UNAIDED.name),
        paper > 0.0 && ours > 0.0,
    )
}

/// Claims that at both ends of the run, where people are apart, less than half arrives of what
/// arrives at most. The paper gives no number.
fn claim_apart([first, most, last]: [f64; 3]) -> Claim {
    Claim::is(
        "ours, 30 % good: at first and in the end, while people are apart, less than half of the most arrives (the \
         half is ours)",
        format!("{first:.1} % at first, {most:.1} % at most, {last:.1} % in the end"),
        2.0 * first < most && 2.0 * last < most,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claims_name_the_column_that_they_are_about() {
        let names: Vec<&str> = COLUMNS.iter().flat_map(|columns| columns.names).copied().collect();
        assert_eq!([names[OF_PAPER], names[OF_UNAIDED]], [PAPER.name, UNAIDED.name]);
    }

    #[test]
    fn the_claim_on_density_fails_without_a_gain_of_either_vote() {
        let holds = |gains| claim_denser(gains).holds;
        assert!(holds([30.0, 0.2]) && !holds([0.0, 0.2]) && !holds([30.0, -0.1]));
        assert!(!holds([f64::NAN, 0.2]));
        assert_eq!(
            claim_denser([30.4, 0.17]).found,
            "+30.40 (paper's vote), +0.17 (ours, none good)"
        );
    }

    #[test]
    fn the_claim_on_people_apart_fails_without_a_difference() {
        let holds = |shares| claim_apart(shares).holds;
        assert!(holds([1.0, 99.9, 1.1]) && !holds([99.0, 99.9, 1.1]) && !holds([1.0, 99.9, 60.0]));
        assert!(!holds([0.0; 3]) && !holds([f64::NAN; 3]));
    }
}
