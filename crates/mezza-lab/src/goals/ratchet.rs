//! The goals of the ratchet: rows T1 to T5 of its design. Every ratio is of thread CPU time from
//! one run, all programs interleaved.

use anyhow::{Context as _, Result};

use super::Measurement;
use crate::bench::{Bench, Contest, Entry, Ratio, Series};
use crate::peer::{self, Peer};
use crate::row::{Figure, Row};

/// Who is measured beside us.
pub const PEERS: &[&str] = &["vodozemac", "wacore", "java"];

/// All of them.
pub const ALL: &[Measurement] = &[
    Measurement {
        rows: &[
            ("T1", "signal-v3 beside vodozemac"),
            ("T2", "signal-v3 beside Java and wacore-libsignal"),
        ],
        needs: "peers: `--fetch` (cargo, Maven, a JDK)",
        seconds: [20, 120, 300],
        run: beside_peers,
    },
    Measurement {
        rows: &[("T3", "b2c20 and paper beside our signal-v3")],
        needs: "nothing",
        seconds: [3, 20, 60],
        run: suites,
    },
    Measurement {
        rows: &[("T4", "messages far ahead"), ("T5", "skipped keys and forgeries")],
        needs: "nothing",
        seconds: [5, 20, 60],
        run: ahead,
    },
];

/// The sizes of texts: a line, a page, a file.
const SIZES: [(usize, &str); 3] = [(32, "32 B"), (1_024, "1 KiB"), (1_400_000, "1.4 MB")];

/// One thing to be measured: `peer` is asked for `who:op`, or for `op` alone.
struct Wanted {
    peer: usize,
    who: &'static str,
    op: &'static str,
    size: usize,
}

impl Wanted {
    fn entry(&self) -> Entry {
        let Self { peer, who, op, size } = *self;
        let asked = if peer == 0 { format!("{who}:{op}") } else { op.to_owned() };
        let who = if peer == 0 { format!("ours:{who}") } else { format!("peer:{who}") };
        Entry { who, peer, op: asked, size, calls: calls(op, size) }
    }
}

/// Calls in a batch, so that the clock's own cost is small beside it.
fn calls(op: &str, size: usize) -> usize {
    match op {
        "init" | "resp" | "bundle" => 8,
        "turn" => 20,
        _ if op.starts_with("jump") => 1,
        _ if size > 100_000 => 2,
        _ => 200,
    }
}

/// What a contest gave, by who and what.
struct Figures {
    wanted: Vec<Wanted>,
    contest: Contest,
}

impl Figures {
    fn measure(bench: &mut Bench, peers: &mut [Peer], wanted: Vec<Wanted>) -> Result<Self> {
        let entries: Vec<Entry> = wanted.iter().map(Wanted::entry).collect();
        let contest = bench.contest(peers, &entries)?;
        Ok(Self { wanted, contest })
    }

    fn of(&self, who: &str, op: &str, size: usize) -> Result<&Series> {
        let at = self.wanted.iter().position(|w| w.who == who && w.op == op && w.size == size);
        let series = &self.contest.series[at.context("nobody measured that")?];
        series.as_ref().map_err(|reason| anyhow::anyhow!("{who} {op}: {reason}"))
    }

    /// `ours` by `theirs`.
    fn ratio(&self, ours: [&str; 2], theirs: [&str; 2], size: usize) -> Result<Ratio> {
        Ok(self.of(ours[0], ours[1], size)?.over(self.of(theirs[0], theirs[1], size)?))
    }

    /// A row on a ratio that has a limit.
    fn row(
        &self,
        id: &'static str,
        goal: &str,
        [ours, theirs]: [[&str; 2]; 2],
        size: usize,
        limit: f64,
    ) -> Result<Row> {
        let ratio = self.ratio(ours, theirs, size)?;
        let (a, b) = (self.of(ours[0], ours[1], size)?, self.of(theirs[0], theirs[1], size)?);
        let beside = format!(
            "{} {} by {} {}: {ratio}; {}",
            ours[0],
            time(a.cost()),
            theirs[0],
            time(b.cost()),
            self.contest.quiet()
        );
        Ok(Row::must(id, goal, Figure::at_most(ratio.value, limit, "x")).with(beside))
    }
}

/// Nanoseconds for people.
fn time(ns: f64) -> String {
    match ns {
        1e6.. => format!("{:.2} ms", ns / 1e6),
        1e3.. => format!("{:.2} us", ns / 1e3),
        _ => format!("{ns:.0} ns"),
    }
}

/// A goal against a peer: row, its text, operation, bytes of a body, limit.
type Goal = (&'static str, &'static str, &'static str, usize, f64);

const FILE: usize = 1_400_000;
/// T1.
const VODOZEMAC: [Goal; 4] = [
    ("T1", "v3 seal 32 B / vodozemac", "seal", 32, 0.20),
    ("T1", "v3 open 32 B / vodozemac", "open", 32, 1.0),
    ("T1", "v3 turn / vodozemac", "turn", 32, 0.80),
    ("T1", "v3 seal 1.4 MB / vodozemac", "seal", FILE, 0.85),
];
/// T2, Java.
const JAVA: [Goal; 4] = [
    ("T2", "v3 turn / Java", "turn", 32, 0.33),
    ("T2", "v3 session, initiator / Java", "init", 32, 0.40),
    ("T2", "v3 session, responder / Java", "resp", 32, 0.40),
    ("T2", "v3 seal 32 B / Java", "seal", 32, 0.25),
];
/// T2, wacore-libsignal.
const WACORE: [Goal; 2] = [
    ("T2", "v3 session, initiator / wacore-libsignal", "init", 32, 0.85),
    ("T2", "v3 session, responder / wacore-libsignal", "resp", 32, 0.85),
];
/// Printed beside, without a limit.
const BESIDE: [Goal; 2] = [
    ("T2", "v3 session, initiator / vodozemac", "init", 32, f64::NAN),
    ("T2", "v3 session, responder / vodozemac", "resp", 32, f64::NAN),
];

/// T1 and T2.
fn beside_peers(bench: &mut Bench) -> Result<Vec<Row>> {
    let mut peers = vec![Peer::ours()?];
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
        wanted.extend(goals.iter().map(|&(_, _, op, size, _)| Wanted {
            peer,
            who: name,
            op,
            size,
        }));
    }
    let mut ours: Vec<(&str, usize)> =
        all.iter().flat_map(|(_, g)| g).map(|g| (g.2, g.3)).collect();
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
                Some((_, reason)) => Row::no_peer(goal.0, goal.1, reason.clone()),
                None => against(&figures, name, *goal)?,
            });
        }
    }
    Ok(rows)
}

/// One row against a peer; below stand our portable backend, and our ratchet without the rows that
/// a conversation makes for the disk, which not every peer has.
fn against(figures: &Figures, name: &str, (id, goal, op, size, limit): Goal) -> Result<Row> {
    let row = figures.row(id, goal, [["v3", op], [name, op]], size, limit)?;
    let portable = figures.ratio(["v3-portable", op], [name, op], size)?;
    let bare = figures.ratio(["bare-v3", op], [name, op], size)?;
    let row = row
        .with(format!("the ratchet alone, without conversation: {bare}"))
        .with(format!("Portable instead of AwsLc: {portable}"));
    if limit.is_nan() {
        let ratio = figures.ratio(["v3", op], [name, op], size)?;
        let shown = Row::context(id, goal, Figure::plain(ratio.value, "x"));
        return Ok(Row { details: row.details, ..shown });
    }
    Ok(row)
}

/// T3: our suites beside each other.
fn suites(bench: &mut Bench) -> Result<Vec<Row>> {
    const SEAL: [f64; 3] = [0.70, 0.88, 0.98];
    const OPEN: [f64; 3] = [0.52, 0.60, 0.92];
    const PAPER: [f64; 3] = [0.80, 0.60, 0.45];
    let mut wanted = Vec::new();
    for (size, _) in SIZES {
        for who in ["v3", "b2c20", "b2c20-portable", "bare-v3", "bare-b2c20", "bare-paper"] {
            wanted.extend(["seal", "open"].map(|op| Wanted { peer: 0, who, op, size }));
        }
    }
    let figures = Figures::measure(bench, &mut [Peer::ours()?], wanted)?;
    let mut rows = Vec::new();
    for (op, limits) in [("seal", SEAL), ("open", OPEN)] {
        for ((size, name), limit) in SIZES.into_iter().zip(limits) {
            let goal = format!("b2c20 {op} {name} / v3");
            let row = figures.row("T3", &goal, [["b2c20", op], ["v3", op]], size, limit)?;
            let bare = figures.ratio(["bare-b2c20", op], ["bare-v3", op], size)?;
            let portable = figures.ratio(["b2c20-portable", op], ["v3", op], size)?;
            let bare = format!("the ratchets alone, without conversation: {bare}");
            rows.push(row.with(bare).with(format!("Portable instead of AwsLc: {portable}")));
        }
    }
    for ((size, name), limit) in SIZES.into_iter().zip(PAPER) {
        let goal = format!("paper seal {name} / v3, ratchets alone");
        let pair = [["bare-paper", "seal"], ["bare-v3", "seal"]];
        let row = figures.row("T3", &goal, pair, size, limit)?;
        let open = figures.ratio(["bare-paper", "open"], ["bare-v3", "open"], size)?;
        rows.push(row.with(format!("open: {open}")));
    }
    Ok(rows)
}

/// T4 and T5: what comes out of order, and what comes from nobody.
fn ahead(bench: &mut Bench) -> Result<Vec<Row>> {
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
    let figures = Figures::measure(bench, &mut [Peer::ours()?], wanted)?;
    let cost = |op| figures.of("b2c20", op, 32).map(Series::cost);
    let ms = |who, op| figures.of(who, op, 32).map(|series| series.cost() / 1e6);
    let quiet = figures.contest.quiet();
    let jump = |who, op, goal: &str| -> Result<Row> {
        Ok(Row::must("T4", goal, Figure::at_most(ms(who, op)?, 2.0, "ms")).with(quiet.clone()))
    };
    let look = cost("duplicate-2000")?;
    let empty = cost("duplicate-0")?;
    let look = Row::must("T5", "look-up among 2,000 skipped keys", {
        Figure::at_most(look / 1e3, 1.0, "us")
    })
    .with(format!(
        "all that refusing a message costs that was opened before: decoding, look-up, answer; the \
         same without skipped keys: {}",
        time(empty)
    ));
    let pairs = |op| [["b2c20", op], ["b2c20", "open"]];
    Ok(vec![
        jump("v3", "jump-1999", "v3: a message 1,999 ahead")?,
        jump("b2c20", "jump-4900", "b2c20: a message 4,900 ahead")?,
        figures.row("T4", "the message after it / a usual one", pairs("after-4900"), 32, 1.2)?,
        look,
        figures.row("T5", "10,000 forgeries / 10,000 opens", pairs("forge"), 32, 2.0)?,
    ])
}
