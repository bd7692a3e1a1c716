//! The goals of the ratchet: rows T1 to T5 of its design. Every ratio is of thread CPU time from
//! one run, with all programs interleaved.

use anyhow::Result;

use super::measurement::Measurement;
use crate::bench::{Bench, BenchCase, Comparison, Ratio, Series};
use crate::limit::Limit;
use crate::peer::{self, PeerProcess};
use crate::row::Row;

/// The peer programs of these rows.
pub const PEERS: &[&str] = &["vodozemac", "wacore", "java"];

/// All measurements of this part.
pub const ALL: &[Measurement] = &[
    Measurement::new(
        &[&make_limits(VODOZEMAC), &make_limits(JAVA), &make_limits(WACORE), &make_limits(BESIDE)],
        "peers: `--fetch` (cargo, Maven, a JDK)",
        [20, 120, 300],
        beside_peers,
    ),
    Measurement::new(
        &[&make_limits(SUITES), &make_limits(PAPER)],
        "nothing",
        [3, 20, 60],
        measure_suites,
    ),
    Measurement::new(&[&AHEAD, &SKIPPED], "nothing", [5, 20, 60], measure_ahead),
];

/// The sizes of texts: a line, a page, a file.
const SIZES: [usize; 3] = [32, 1_024, FILE];

/// One case: the operation `who:op` of the peer, or `op` alone.
#[derive(Clone, Copy)]
struct Wanted {
    peer: usize,
    who: &'static str,
    op: &'static str,
    size: usize,
}

impl Wanted {
    fn make_case(self) -> (Key, BenchCase) {
        let Self { peer, who, op, size } = self;
        let asked = if peer == 0 { format!("{who}:{op}") } else { op.to_owned() };
        let shown = if peer == 0 { format!("ours:{who}") } else { format!("peer:{who}") };
        let case = BenchCase { who: shown, peer, op: asked, size, calls: count_calls(op, size) };
        ((who, op, size), case)
    }
}

/// Returns the calls in a batch: enough that the cost of the clock is small in comparison.
fn count_calls(op: &str, size: usize) -> usize {
    match op {
        "init" | "resp" | "bundle" => 8,
        "turn" => 20,
        _ if op.starts_with("jump") => 1,
        _ if size > 100_000 => 2,
        _ => 200,
    }
}

/// Implementation, operation, bytes of a body.
type Key = (&'static str, &'static str, usize);
/// Implementation and operation.
type Side = [&'static str; 2];

/// The results of the comparison.
struct Figures(Comparison<Key>);

impl Figures {
    fn measure(bench: &mut Bench, peers: &mut [PeerProcess], wanted: Vec<Wanted>) -> Result<Self> {
        let cases = wanted.into_iter().map(Wanted::make_case).collect();
        Ok(Self(bench.run_interleaved(peers, cases)?))
    }

    fn find_series(&self, [who, op]: Side, size: usize) -> Result<&Series> {
        self.0.find_series(&(who, op, size))
    }

    /// Returns the ratio of `ours` to `theirs`.
    fn find_ratio(&self, ours: Side, theirs: Side, size: usize) -> Result<Ratio> {
        Ok(self.find_series(ours, size)?.ratio_to(self.find_series(theirs, size)?))
    }

    /// Makes a row of a ratio with a limit.
    fn make_row(&self, limit: Limit, [ours, theirs]: [Side; 2], size: usize) -> Result<Row> {
        let ratio = self.find_ratio(ours, theirs, size)?;
        let a = self.find_series(ours, size)?;
        let b = self.find_series(theirs, size)?;
        let beside = format!(
            "{} {} by {} {}: {ratio}; {}",
            ours[0],
            format_time(a.deciding_cost()),
            theirs[0],
            format_time(b.deciding_cost()),
            self.0.describe_disturbed()
        );
        Ok(limit.make_row(ratio.value).with_detail(beside))
    }
}

/// Formats nanoseconds for the user.
fn format_time(ns: f64) -> String {
    match ns {
        1e6.. => format!("{:.2} ms", ns / 1e6),
        1e3.. => format!("{:.2} us", ns / 1e3),
        _ => format!("{ns:.0} ns"),
    }
}

/// A goal of an operation.
#[derive(Clone, Copy)]
struct Goal {
    limit: Limit,
    op: &'static str,
    /// Bytes of a body.
    size: usize,
}

const FILE: usize = 1_400_000;
/// T1, against vodozemac.
const VODOZEMAC: [Goal; 4] = [
    Goal { limit: ratio_limit("T1", "v3 seal 32 B / vodozemac", 0.20), op: "seal", size: 32 },
    Goal { limit: ratio_limit("T1", "v3 open 32 B / vodozemac", 1.0), op: "open", size: 32 },
    Goal { limit: ratio_limit("T1", "v3 turn / vodozemac", 0.80), op: "turn", size: 32 },
    Goal { limit: ratio_limit("T1", "v3 seal 1.4 MB / vodozemac", 0.85), op: "seal", size: FILE },
];
/// T2, against Java.
const JAVA: [Goal; 4] = [
    Goal { limit: ratio_limit("T2", "v3 turn / Java", 0.33), op: "turn", size: 32 },
    Goal { limit: ratio_limit("T2", "v3 session, initiator / Java", 0.40), op: "init", size: 32 },
    Goal { limit: ratio_limit("T2", "v3 session, responder / Java", 0.40), op: "resp", size: 32 },
    Goal { limit: ratio_limit("T2", "v3 seal 32 B / Java", 0.25), op: "seal", size: 32 },
];
/// T2, against wacore-libsignal.
const WACORE: [Goal; 2] = [
    Goal {
        limit: ratio_limit("T2", "v3 session, initiator / wacore-libsignal", 0.85),
        op: "init",
        size: 32,
    },
    Goal {
        limit: ratio_limit("T2", "v3 session, responder / wacore-libsignal", 0.85),
        op: "resp",
        size: 32,
    },
];
/// Goals that are shown without a limit.
const BESIDE: [Goal; 2] = [
    Goal {
        limit: Limit::none("T2", "v3 session, initiator / vodozemac", "x"),
        op: "init",
        size: 32,
    },
    Goal {
        limit: Limit::none("T2", "v3 session, responder / vodozemac", "x"),
        op: "resp",
        size: 32,
    },
];
/// T3: our suites compared with each other. CPUs differ in AES, so the limits leave room for short
/// texts.
const SUITES: [Goal; 6] = [
    Goal { limit: ratio_limit("T3", "b2c20 seal 32 B / v3", 0.75), op: "seal", size: 32 },
    Goal { limit: ratio_limit("T3", "b2c20 seal 1 KiB / v3", 0.88), op: "seal", size: 1_024 },
    Goal { limit: ratio_limit("T3", "b2c20 seal 1.4 MB / v3", 0.98), op: "seal", size: FILE },
    Goal { limit: ratio_limit("T3", "b2c20 open 32 B / v3", 0.55), op: "open", size: 32 },
    Goal { limit: ratio_limit("T3", "b2c20 open 1 KiB / v3", 0.60), op: "open", size: 1_024 },
    Goal { limit: ratio_limit("T3", "b2c20 open 1.4 MB / v3", 0.92), op: "open", size: FILE },
];
/// T3: the paper's suite, ratchets alone.
const PAPER: [Goal; 3] = [
    Goal {
        limit: ratio_limit("T3", "paper seal 32 B / v3, ratchets alone", 0.80),
        op: "seal",
        size: 32,
    },
    Goal {
        limit: ratio_limit("T3", "paper seal 1 KiB / v3, ratchets alone", 0.60),
        op: "seal",
        size: 1_024,
    },
    Goal {
        limit: ratio_limit("T3", "paper seal 1.4 MB / v3, ratchets alone", 0.45),
        op: "seal",
        size: FILE,
    },
];
/// T4: messages out of order.
const AHEAD: [Limit; 3] = [
    Limit::at_most("T4", "v3: a message 1,999 ahead", 2.0, "ms"),
    Limit::at_most("T4", "b2c20: a message 4,900 ahead", 2.0, "ms"),
    ratio_limit("T4", "the message after it / a usual one", 1.2),
];
/// T5: duplicates and forgeries.
const SKIPPED: [Limit; 2] = [
    Limit::at_most("T5", "look-up among 2,000 skipped keys", 1.0, "us"),
    ratio_limit("T5", "10,000 forgeries / 10,000 opens", 2.0),
];

/// Makes a limit on a ratio.
const fn ratio_limit(id: &'static str, goal: &'static str, most: f64) -> Limit {
    Limit::at_most(id, goal, most, "x")
}

/// Returns the limits of goals.
const fn make_limits<const N: usize>(goals: [Goal; N]) -> [Limit; N] {
    let mut limits = [AHEAD[0]; N];
    let mut at = 0;
    while at < N {
        limits[at] = goals[at].limit;
        at += 1;
    }
    limits
}

/// Measures T1 and T2.
fn beside_peers(bench: &mut Bench) -> Result<Vec<Row>> {
    let mut peers = vec![PeerProcess::start_ours()?];
    let mut absent = Vec::new();
    let mut wanted = Vec::new();
    let all: [(&str, Vec<Goal>); 3] = [
        ("vodozemac", VODOZEMAC.into_iter().chain(BESIDE).collect()),
        ("java", JAVA.to_vec()),
        ("wacore", WACORE.to_vec()),
    ];
    for (name, goals) in &all {
        let found =
            peer::find_for(bench.profile, name)?.map_err(|reason| absent.push((*name, reason)));
        let Ok(found) = found else { continue };
        let peer = peers.len();
        peers.push(found);
        wanted.extend(goals.iter().map(|&Goal { op, size, .. }| Wanted {
            peer,
            who: name,
            op,
            size,
        }));
    }
    let mut ours: Vec<(&str, usize)> =
        all.iter().flat_map(|(_, goals)| goals).map(|goal| (goal.op, goal.size)).collect();
    ours.sort_unstable();
    ours.dedup();
    for who in ["v3", "v3-portable", "bare-v3"] {
        wanted.extend(ours.iter().map(|&(op, size)| Wanted { peer: 0, who, op, size }));
    }
    let figures = Figures::measure(bench, &mut peers, wanted)?;
    let mut rows = Vec::new();
    for (name, goals) in &all {
        let missing = absent.iter().find(|(absent, _)| absent == name);
        for goal in goals {
            rows.push(match missing {
                Some((_, reason)) => goal.limit.no_peer(reason.clone()),
                None => make_peer_row(&figures, name, *goal)?,
            });
        }
    }
    Ok(rows)
}

/// Makes one row against a peer. The lines below show our portable backend, and our ratchet without
/// the database rows, which some peers do not make.
fn make_peer_row(figures: &Figures, name: &'static str, goal: Goal) -> Result<Row> {
    let Goal { limit, op, size } = goal;
    let row = figures.make_row(limit, [["v3", op], [name, op]], size)?;
    let portable = figures.find_ratio(["v3-portable", op], [name, op], size)?;
    let bare = figures.find_ratio(["bare-v3", op], [name, op], size)?;
    Ok(row
        .with_detail(format!("the ratchet alone, without conversation: {bare}"))
        .with_detail(format!("Portable instead of AwsLc: {portable}")))
}

/// Measures T3: our suites compared with each other.
fn measure_suites(bench: &mut Bench) -> Result<Vec<Row>> {
    let mut wanted = Vec::new();
    for size in SIZES {
        for who in ["v3", "b2c20", "b2c20-portable", "bare-v3", "bare-b2c20", "bare-paper"] {
            wanted.extend(["seal", "open"].map(|op| Wanted { peer: 0, who, op, size }));
        }
    }
    let figures = Figures::measure(bench, &mut [PeerProcess::start_ours()?], wanted)?;
    let mut rows = Vec::new();
    for Goal { limit, op, size } in SUITES {
        let row = figures.make_row(limit, [["b2c20", op], ["v3", op]], size)?;
        let bare = figures.find_ratio(["bare-b2c20", op], ["bare-v3", op], size)?;
        let portable = figures.find_ratio(["b2c20-portable", op], ["v3", op], size)?;
        let bare = format!("the ratchets alone, without conversation: {bare}");
        rows.push(
            row.with_detail(bare).with_detail(format!("Portable instead of AwsLc: {portable}")),
        );
    }
    for Goal { limit, op, size } in PAPER {
        let row = figures.make_row(limit, [["bare-paper", op], ["bare-v3", op]], size)?;
        let open = figures.find_ratio(["bare-paper", "open"], ["bare-v3", "open"], size)?;
        rows.push(row.with_detail(format!("open: {open}")));
    }
    Ok(rows)
}

/// Measures T4 and T5: messages out of order, duplicates and forgeries.
fn measure_ahead(bench: &mut Bench) -> Result<Vec<Row>> {
    let ours = |(who, op)| Wanted { peer: 0, who, op, size: 32 };
    let wanted = [
        ("v3", "jump-1999"),
        ("b2c20", "jump-4900"),
        ("b2c20", "after-4900"),
        ("b2c20", "open"),
        ("b2c20", "duplicate-2000"),
        ("b2c20", "duplicate-0"),
        ("b2c20", "forge"),
    ];
    let wanted = wanted.into_iter().map(ours).collect();
    let figures = Figures::measure(bench, &mut [PeerProcess::start_ours()?], wanted)?;
    let cost = |op| figures.find_series(["b2c20", op], 32).map(Series::deciding_cost);
    let ms =
        |who, op| figures.find_series([who, op], 32).map(|series| series.deciding_cost() / 1e6);
    let quiet = figures.0.describe_disturbed();
    let [v3, b2c20, after] = AHEAD;
    let [look_up, forge] = SKIPPED;
    let jump = |limit: Limit, who, op| -> Result<Row> {
        Ok(limit.make_row(ms(who, op)?).with_detail(quiet.clone()))
    };
    let empty = format_time(cost("duplicate-0")?);
    let look = look_up.make_row(cost("duplicate-2000")? / 1e3).with_detail(format!(
        "all that refusing a message costs that was opened before: decoding, look-up, answer; the \
         same without skipped keys: {empty}"
    ));
    let pairs = |op| [["b2c20", op], ["b2c20", "open"]];
    Ok(vec![
        jump(v3, "v3", "jump-1999")?,
        jump(b2c20, "b2c20", "jump-4900")?,
        figures.make_row(after, pairs("after-4900"), 32)?,
        look,
        figures.make_row(forge, pairs("forge"), 32)?,
    ])
}
