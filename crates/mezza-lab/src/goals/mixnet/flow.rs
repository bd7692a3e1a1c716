//! T1, T2, T3 and T7: messages per second of three mixes over TLS on loopback, with onions made
//! before the clock starts. They are compared with the Go floor and with the ladders that the cores
//! can compute.

use anyhow::Result;
use mezza::testing::backend::kernel::aws_lc;
use mezza_lanes::{Kernel, Scalar, ifma, portable};
use mezza_mixnet::config::Mode;
use mezza_mixnet::noise::Law;

use crate::bench::Bench;
use crate::clock::{BenchRound, busy_words, cost_ns, deciding_value, figure_of, to_ns};
use crate::limit::Limit;
use crate::machine;
use crate::ours::mixes::{LabCoordinator, MixSetup};
use crate::peer::{self, PeerProcess};
use crate::raw::RawFigure;
use crate::row::Row;

/// The reason of rows on a CPU without vectors.
const NO_IFMA: &str = "avx512ifma missing";
/// T1, T2 and T3 with vectors, in one process with its own network.
pub const ALONE: [Limit; 4] = [
    Limit::at_least("T1", "mu 0, onions made before", 100_000.0, "/s"),
    Limit::at_least("T1", "mu 0 / ladders that the cores could do", 0.6, "x"),
    Limit::at_least("T2", "1 M users of preset standard, scaled", 80_000.0, "/s"),
    Limit::at_most("T3", "noise of preset standard alone", 2.0, "s"),
];
/// T1 and T3 with vectors, compared with the Go floor.
pub const BESIDE_GO: [Limit; 2] = [
    Limit::at_least("T1", "mu 0 / Go floor", 5.5, "x"),
    Limit::at_least("T3", "preset standard alone / Go at the paper's mean", 40.0, "x")
        .stretching(60.0),
];
/// T7: the share of the Go floor's rate that our mix must reach without vectors.
pub const WITHOUT: [Limit; 2] = [
    Limit::at_least("T7", "aws-lc kernel / Go floor, messages/s", 1.25, "x"),
    Limit::at_least("T7", "portable kernel / Go floor, messages/s", 0.65, "x"),
];
/// The factor by which a batch of the Go floor is smaller than a round; the floor runs thirty
/// batches.
const FLOOR_PART: usize = 10;
/// Bytes of a cell, which the Go floor seals.
const CELL: usize = 256;
/// The parameters of the preset `standard`, and the number of users of the comparison.
const STANDARD: (u32, u32, u32) = (51_962, 7_784, 1_000_000);
/// Mean of the noise that the paper's theorem needs for conversations alone: eps = ln 2, delta =
/// 1e-4 over 240,000 rounds (E-V3). The preset has the same privacy budget for calls and
/// invitations of the year as well, so the two promises differ.
const PAPER_MU: f64 = 289_964.0;
/// Number of points in a measurement of ladders.
const LADDERS: usize = 256;

/// A network under measurement.
struct Contestant {
    who: &'static str,
    coordinator: LabCoordinator,
    users: u32,
    /// Per round: wall ns, CPU ns, CPU ns of our own ends of the links, and the wall ns in which
    /// its onions were made.
    rounds: Vec<BenchRound<[f64; 4]>>,
}

impl Contestant {
    fn start(bench: &Bench, who: &'static str, kernel: Fast, law: Law, users: u32) -> Result<Self> {
        let setup = MixSetup { mixes: 3, users_max: users, law, kernel, seed: bench.seed };
        let mut coordinator = LabCoordinator::start(bench.folder.path(), setup)?;
        coordinator.run_round(users)?;
        Ok(Self { who, coordinator, users, rounds: Vec::new() })
    }

    fn cost(&self, at: usize) -> f64 {
        deciding_value(&figure_of(&self.rounds, at))
    }

    /// Returns the users per second.
    fn per_s(&self) -> f64 {
        f64::from(self.users) * 1e9 / self.cost(0)
    }

    /// Returns the CPU nanoseconds per user.
    fn cpu(&self) -> f64 {
        self.cost(1) / f64::from(self.users)
    }

    fn describe_rounds(&self) -> String {
        format!(
            "{}: {:.0} messages/s of {} in a round, {:.1} us of CPU each, {:.1} % of it the entry's \
             links; onions made before in {:.1} us each",
            self.who,
            self.per_s(),
            self.users,
            self.cpu() / 1e3,
            100.0 * self.cost(2) / self.cost(1),
            self.cost(3) / 1e3 / f64::from(self.users)
        )
    }
}

type Fast = &'static dyn Kernel;

/// The Go floor: wall and CPU nanoseconds per message in each round.
struct Floor {
    peer: PeerProcess,
    rounds: Vec<BenchRound<[f64; 2]>>,
}

impl Floor {
    fn cost(&self, at: usize) -> f64 {
        deciding_value(&figure_of(&self.rounds, at))
    }

    fn per_s(&self) -> f64 {
        1e9 / self.cost(0)
    }
}

/// Measures all networks and the Go floor in turn.
pub fn measure_rows(bench: &mut Bench) -> Result<Vec<Row>> {
    let fast = ifma();
    let kernel = fast.unwrap_or_else(aws_lc);
    let none = Law { mode: Mode::Paper, mu: 0, scale: 0 };
    let users = bench.profile.pick(64, 4_096, 20_000);
    let (crowd, part) = match fast {
        Some(_) => bench.profile.pick((1_000, 100), (20_000, 10), (200_000, 1)),
        None => bench.profile.pick((100, 1_000), (4_000, 100), (20_000, 20)),
    };
    let noise = |part: u32| {
        let even = |n: u32| (n / part).div_ceil(2) * 2;
        Law { mode: Mode::Gauss, mu: even(STANDARD.0), scale: even(STANDARD.1) }
    };
    let mut all = vec![
        Contestant::start(bench, kernel.name(), kernel, none, users)?,
        Contestant::start(bench, "portable", portable(), none, users)?,
        Contestant::start(bench, "1 M users, scaled", kernel, noise(STANDARD.2 / crowd), crowd)?,
        Contestant::start(bench, "noise alone, scaled", kernel, noise(part), 0)?,
    ];
    if fast.is_some() {
        all.push(Contestant::start(bench, "aws-lc", aws_lc(), none, users)?);
    }
    let found = peer::find_peer("gofloor", &[])?;
    let (mut floor, absent) = match found {
        Ok(peer) => (Some(Floor { peer, rounds: Vec::new() }), String::new()),
        Err(reason) => (None, reason),
    };
    for _ in 0..bench.profile.pick(1, 5, 11) {
        one_round(bench, &mut all, floor.as_mut(), users)?;
    }
    note_rounds(bench, &all, floor.as_ref())?;
    let floor: Result<&Floor, &String> = floor.as_ref().ok_or(&absent);
    let mut rows = with_vectors(fast.is_some(), &all, floor, part);
    rows.extend(make_fallback_rows(
        all.last().filter(|_| fast.is_some()).unwrap_or(&all[0]),
        &all[1],
        floor,
    ));
    all.into_iter().try_for_each(|contestant| contestant.coordinator.stop_mixes())?;
    Ok(rows)
}

fn one_round(
    bench: &mut Bench,
    all: &mut [Contestant],
    mut floor: Option<&mut Floor>,
    users: u32,
) -> Result<()> {
    let work = || {
        let mut ours = Vec::new();
        for Contestant { coordinator, users, .. } in all.iter_mut() {
            let outcome = coordinator.run_round(*users)?;
            ours.push([outcome.wall, outcome.cpu, outcome.own, outcome.making].map(to_ns));
        }
        let mut theirs = None;
        if let Some(Floor { peer, .. }) = floor.as_deref_mut() {
            let calls = users as usize / FLOOR_PART;
            let mut rate = |op| peer.measure_cost(op, CELL, calls).map(|rate| rate.median);
            theirs = Some([rate("floor")?, rate("floor-cpu")?]);
        }
        Ok((ours, theirs))
    };
    for BenchRound { value: (ours, theirs), busy } in bench.watch.rounds_or_give_up(work)? {
        for (contestant, value) in all.iter_mut().zip(ours) {
            contestant.rounds.push(BenchRound { value, busy });
        }
        if let Some((floor, value)) = floor.as_deref_mut().zip(theirs) {
            floor.rounds.push(BenchRound { value, busy });
        }
    }
    Ok(())
}

/// Makes the rows T1, T2, T3; on a CPU without vectors they have the fallback's figures.
fn with_vectors(
    is_fast: bool,
    all: &[Contestant],
    floor: Result<&Floor, &String>,
    part: u32,
) -> Vec<Row> {
    let none = &all[0];
    let crowd = &all[2];
    let noise = &all[3];
    let limit = ladders_per_s(ifma().unwrap_or_else(aws_lc)) / 3.0;
    let share = none.per_s() / limit;
    let whole_s = noise.cost(0) * f64::from(part) / 1e9;
    // Each of two mixes adds 2 mu messages, and the later mixes remove 2 mu layers: 2 mu messages.
    let go_s = floor.map(|floor| 2.0 * PAPER_MU * floor.cost(0) / 1e9);
    let measured = [none.per_s(), share, crowd.per_s(), whole_s];
    let words = [
        format!("{}; {}", none.describe_rounds(), describe_disturbed(none)),
        format!("{:.0} messages/s would be {:.0} ladders/s on all cores", limit, 3.0 * limit),
        crowd.describe_rounds(),
        format!("measured at 1/{part} of that noise: {:.3} s", noise.cost(0) / 1e9),
    ];
    let compared = format!(
        "Go floor with a mean of {PAPER_MU}, which the paper's theorem needs for eps = ln 2, \
         delta = 1e-4 over 240,000 conversation rounds alone; the preset's mean of {} keeps as much \
         over all services of a year",
        STANDARD.0
    );
    let row = |((limit, value), words): ((Limit, f64), String)| {
        vector_row(is_fast, limit, value).with_detail(words)
    };
    let mut rows: Vec<Row> = ALONE.into_iter().zip(measured).zip(words).map(row).collect();
    let ratios = [floor.map(|floor| none.per_s() / floor.per_s()), go_s.map(|go_s| go_s / whole_s)];
    rows.extend(BESIDE_GO.into_iter().zip(ratios).map(|(limit, ratio)| match ratio {
        Err(reason) if is_fast => limit.no_peer(reason.clone()),
        ratio => vector_row(is_fast, limit, ratio.unwrap_or(f64::NAN)),
    }));
    if let Some(last) = rows.pop() {
        rows.push(last.with_detail(compared));
    }
    rows
}

/// Makes a row that needs vectors: measured if the CPU has them, else excused with the fallback's
/// figure.
fn vector_row(is_fast: bool, limit: Limit, measured: f64) -> Row {
    if is_fast {
        return limit.make_row(measured);
    }
    let fallback = format!("fallback aws-lc: {measured:.2} {}; with IFMA: {limit}", limit.unit);
    limit.not_here(NO_IFMA).with_detail(fallback)
}

/// Makes the rows T7: the kernels for every CPU, compared with the Go floor.
fn make_fallback_rows(
    aws: &Contestant,
    portable: &Contestant,
    floor: Result<&Floor, &String>,
) -> Vec<Row> {
    let row = |(limit, ours): (Limit, &Contestant)| match floor {
        Err(reason) => limit.no_peer(reason.clone()).with_detail(ours.describe_rounds()),
        Ok(floor) => {
            let beside = format!(
                "Go floor {:.0} messages/s, {:.1} us of CPU each; ratio of CPU times {:.2}",
                floor.per_s(),
                floor.cost(1) / 1e3,
                floor.cost(1) / ours.cpu()
            );
            let row = limit.make_row(ours.per_s() / floor.per_s());
            row.with_detail(format!("{}; {}", ours.describe_rounds(), describe_disturbed(ours)))
                .with_detail(beside)
        }
    };
    WITHOUT.into_iter().zip([aws, portable]).map(row).collect()
}

fn describe_disturbed(contestant: &Contestant) -> String {
    let words = busy_words(&contestant.rounds).unwrap_or_else(|| "not busy".into());
    format!("{} rounds, {words}", contestant.rounds.len())
}

/// Returns the ladders with one scalar that all cores together compute in a second.
fn ladders_per_s(kernel: Fast) -> f64 {
    let scalar = Scalar::copy_from(&[7; 32]);
    let points = vec![[9; 32]; LADDERS];
    let mut out = points.clone();
    let mut batch = || {
        cost_ns(|| kernel.x25519_shared(&scalar, &points, &mut out)).map_or(f64::NAN, |((), ns)| ns)
    };
    let least = (0..5).map(|_| batch()).fold(f64::INFINITY, f64::min);
    let cores = f64::from(u32::try_from(machine::count_cores()).unwrap_or(1));
    cores * points.iter().map(|_| 1e9).sum::<f64>() / least
}

fn note_rounds(bench: &mut Bench, all: &[Contestant], floor: Option<&Floor>) -> Result<()> {
    let mut lines: Vec<(String, String, usize, [f64; 2], bool)> = Vec::new();
    for Contestant { who, users, rounds, .. } in all {
        for (number, BenchRound { value: [wall, cpu, ..], busy }) in rounds.iter().enumerate() {
            let who = format!("ours:{who}");
            let op = format!("round_{users}");
            lines.push((who, op, number + 1, [*wall, *cpu], *busy));
        }
    }
    for (number, BenchRound { value, busy }) in
        floor.iter().flat_map(|f| f.rounds.iter().enumerate())
    {
        lines.push(("peer:gofloor".into(), "message".into(), number + 1, *value, *busy));
    }
    for (who, op, round, values, busy) in lines {
        for (clock, value) in ["wall", "process_cpu"].into_iter().zip(values) {
            let figure = RawFigure::single(&who, &op, clock, "ns", value);
            bench.note_figure(&RawFigure { round, busy, ..figure })?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::{Verdict, exit_code};
    use mezza::testing::api::Exit;

    #[test]
    fn without_vectors_a_row_is_excused_and_shows_the_fallback() {
        let limit = Limit::at_least("T1", "goal", 10.0, "/s");
        let row = |is_fast| vector_row(is_fast, limit, 9.0);
        assert_eq!(
            (row(true).verdict(), exit_code(&[row(true)], true)),
            (Verdict::FallsShort, Exit::No)
        );
        assert_eq!(
            (row(false).verdict(), exit_code(&[row(false)], true)),
            (Verdict::NotHere, Exit::Done)
        );
        let lines = row(false).to_lines();
        assert!(lines[0].ends_with("NOT MEASURABLE HERE avx512ifma missing"), "{lines:?}");
        assert!(lines[1].contains("9.00 /s"), "{lines:?}");
    }
}
