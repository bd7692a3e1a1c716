//! The goals of batch cryptography: rows L1, L2, L3 and L6 of their design. L4 and L5 belong to
//! parts that do not exist yet. Every ratio is of thread CPU time from one run, all programs
//! interleaved.

use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike as _;

use super::measurement::Measurement;
use crate::bench::{Bench, BenchCase, Comparison};
use crate::limit::Limit;
use crate::peer::{self, PeerProcess};
use crate::place;
use crate::profile::Profile;
use crate::row::Row;

/// The peer programs of these rows.
pub const PEERS: &[&str] = &["crypto_mb", "providers"];

/// All measurements of this part.
pub const ALL: &[Measurement] = &[
    Measurement::new(
        &[&make_limits(VECTORS), &make_limits(PORTABLE), &make_limits([AWS_LC])],
        "avx512ifma; peers: `--fetch` (pip, cargo)",
        [1, 40, 90],
        measure_rates,
    ),
    Measurement::new(&[&[BUILD]], "cargo", [1, 60, 60], measure_build),
];

/// The reason of rows on a processor without the vector kernel.
const LACKING: &str = "avx512ifma missing";

/// Implementation and operation of each case.
const OURS: [(&str, &str); 14] = [
    ("dalek", "shared"),
    ("portable", "shared"),
    ("aws-lc", "shared"),
    ("ifma", "shared"),
    ("portable", "each"),
    ("ifma", "each"),
    ("dalek", "fixed"),
    ("portable", "fixed"),
    ("ifma", "fixed"),
    ("rustcrypto", "seal"),
    ("library", "seal"),
    ("portable", "seal"),
    ("ifma", "seal"),
    ("aws-lc", "each"),
];
/// Implementation, operation, and the operation's name in the peer.
type Theirs = &'static [(&'static str, &'static str, &'static str)];
/// The peers and their implementations.
const THEIRS: [(&str, Theirs); 2] = [
    ("crypto_mb", &[("crypto_mb", "shared", "shared"), ("crypto_mb", "fixed", "fixed")]),
    ("providers", &[("ring", "seal", "ring:messages")]),
];

/// A goal of one implementation against another.
#[derive(Clone, Copy)]
struct Goal {
    /// The limit on the speedup.
    limit: Limit,
    op: &'static str,
    who: &'static str,
    peer: &'static str,
}

/// The goals of the vector kernel.
const VECTORS: [Goal; 6] = [
    Goal {
        limit: faster_limit("L1", "X25519, one scalar: ifma / dalek, speed", 8.0),
        op: "shared",
        who: "ifma",
        peer: "dalek",
    },
    Goal {
        limit: faster_limit("L1", "X25519, one scalar: ifma / crypto_mb, speed", 1.1),
        op: "shared",
        who: "ifma",
        peer: "crypto_mb",
    },
    Goal {
        limit: faster_limit("L2", "fixed point: ifma / dalek, speed", 10.0),
        op: "fixed",
        who: "ifma",
        peer: "dalek",
    },
    Goal {
        limit: shown_limit("L2", "fixed point: ifma / crypto_mb, speed"),
        op: "fixed",
        who: "ifma",
        peer: "crypto_mb",
    },
    Goal {
        limit: faster_limit("L3", "seal 368 B, fresh key: ifma / ring, speed", 2.5),
        op: "seal",
        who: "ifma",
        peer: "ring",
    },
    Goal {
        limit: shown_limit("L3", "seal 368 B, fresh key: ifma / aws-lc, speed"),
        op: "seal",
        who: "ifma",
        peer: "library",
    },
];
/// The goals of the portable kernel: at most 5 % slower than dalek, which is the measurement error;
/// sealing in 0.40 of the time of `RustCrypto`.
const PORTABLE: [Goal; 3] = [
    Goal {
        limit: faster_limit("L1", "X25519, one scalar: portable / dalek, speed", 0.95),
        op: "shared",
        who: "portable",
        peer: "dalek",
    },
    Goal {
        limit: faster_limit("L2", "fixed point: portable / dalek, speed", 0.95),
        op: "fixed",
        who: "portable",
        peer: "dalek",
    },
    Goal {
        limit: faster_limit("L3", "seal 368 B, fresh key: portable / rustcrypto, speed", 2.5),
        op: "seal",
        who: "portable",
        peer: "rustcrypto",
    },
];
/// The goal against the ladder of aws-lc, which a mix uses on a processor without vectors.
const AWS_LC: Goal = Goal {
    limit: shown_limit("L1", "X25519, one scalar: aws-lc / dalek, speed"),
    op: "shared",
    who: "aws-lc",
    peer: "dalek",
};
/// L6: the build time.
const BUILD: Limit = Limit::at_most("L6", "release build of the crate, CPU", 30.0, "s");

const fn faster_limit(id: &'static str, goal: &'static str, times: f64) -> Limit {
    Limit::at_least(id, goal, times, "x")
}

const fn shown_limit(id: &'static str, goal: &'static str) -> Limit {
    Limit::none(id, goal, "x")
}

/// Returns the limits of goals.
const fn make_limits<const N: usize>(goals: [Goal; N]) -> [Limit; N] {
    let mut limits = [BUILD; N];
    let mut at = 0;
    while at < N {
        limits[at] = goals[at].limit;
        at += 1;
    }
    limits
}

/// The results of the comparison.
struct Figures {
    /// The figures by implementation and operation.
    contest: Comparison<(&'static str, &'static str)>,
    /// The number of inputs per call.
    count: f64,
}

impl Figures {
    /// Describes the rate (thousands per second) and the cost (ns each) for the line below a ratio.
    fn describe_rate(&self, who: &'static str, op: &'static str) -> Result<String> {
        let ns = self.contest.find_series(&(who, op))?.deciding_cost() / self.count;
        Ok(format!("{who} {:.1} k/s ({ns:.0} ns)", 1e6 / ns))
    }

    fn make_row(&self, goal: Goal) -> Result<Row> {
        let Goal { limit, op, who, peer } = goal;
        let ratio =
            self.contest.find_series(&(peer, op))?.ratio_to(self.contest.find_series(&(who, op))?);
        let beside = format!(
            "{} by {}: {ratio}; {}",
            self.describe_rate(who, op)?,
            self.describe_rate(peer, op)?,
            self.contest.describe_disturbed()
        );
        Ok(limit.make_row(ratio.value).with_detail(beside))
    }
}

/// Measures L1, L2 and L3.
fn measure_rates(bench: &mut Bench) -> Result<Vec<Row>> {
    let has_ifma = mezza_lanes::ifma().is_some();
    let mut peers = vec![PeerProcess::start_ours()?];
    let count: u16 = bench.profile.pick(16, 256, 256);
    let calls = |op: &str| if op == "seal" { 40 } else { 1 };
    let mut cases = Vec::new();
    let mut absent = Vec::new();
    for (who, op) in OURS.into_iter().filter(|(who, _)| has_ifma || *who != "ifma") {
        let asked = format!("lanes:{who}-{op}");
        let shown = format!("ours:{who}");
        let peer = 0;
        let size = count.into();
        let calls = calls(op);
        cases.push(((who, op), BenchCase { who: shown, peer, op: asked, size, calls }));
    }
    // Peers are compared only with the vector kernel.
    for (name, theirs) in THEIRS.into_iter().filter(|_| has_ifma) {
        match peer::find_for(bench.profile, name)? {
            Ok(found) => peers.push(found),
            Err(reason) => {
                absent.extend(theirs.iter().map(|(who, ..)| (*who, reason.clone())));
                continue;
            }
        }
        for (who, op, asked) in theirs {
            let peer = peers.len() - 1;
            let size = count.into();
            let calls = calls(op);
            let shown = format!("peer:{who}");
            let asked = (*asked).into();
            cases.push(((*who, *op), BenchCase { who: shown, peer, op: asked, size, calls }));
        }
    }
    let contest = bench.run_interleaved(&mut peers, cases)?;
    let figures = Figures { contest, count: count.into() };
    let missing = |who| absent.iter().find(|(missing, _)| *missing == who);
    let on_vectors = VECTORS.into_iter().map(|goal| match missing(goal.peer) {
        _ if !has_ifma => Ok(goal.limit.not_here(LACKING)),
        Some((_, reason)) => Ok(goal.limit.no_peer(reason.as_str())),
        None => figures.make_row(goal),
    });
    let portable = PORTABLE.into_iter().map(|goal| figures.make_row(goal));
    let mut rows = on_vectors.chain(portable).collect::<Result<Vec<Row>>>()?;
    rows.push(ladders_beside(&figures, has_ifma)?);
    Ok(rows)
}

/// Makes the row of the aws-lc ladders, which has no limit.
fn ladders_beside(figures: &Figures, has_ifma: bool) -> Result<Row> {
    let row = figures.make_row(AWS_LC)?;
    let mut each =
        vec![figures.describe_rate("portable", "each")?, figures.describe_rate("aws-lc", "each")?];
    if has_ifma {
        each.push(figures.describe_rate("ifma", "each")?);
    }
    Ok(row.with_detail(format!("a scalar for each point: {}", each.join(", "))))
}

/// Measures L6: the compiler's CPU time for the crate alone, after its dependencies are built.
fn measure_build(bench: &mut Bench) -> Result<Vec<Row>> {
    if bench.profile == Profile::Smoke {
        return Ok(vec![BUILD.not_here("too slow for a smoke run; `--profile quick`")]);
    }
    let target = place::target_folder().join("lab-lanes");
    let cargo = |args: &[&str]| -> Result<()> {
        let root = place::find_repository().context("start the lab inside the repository")?;
        let mut command = Command::new("cargo");
        command.args(args).args(["--release", "-p", "mezza-lanes"]).current_dir(root);
        command.env("CARGO_TARGET_DIR", &target).stdout(Stdio::null()).stderr(Stdio::null());
        if command.status()?.success() { Ok(()) } else { bail!("cargo {} failed", args.join(" ")) }
    };
    cargo(&["build"])?;
    cargo(&["clean"])?;
    let before = children_s()?;
    cargo(&["build"])?;
    let cost = children_s()? - before;
    Ok(vec![BUILD.make_row(cost).with_detail(
        "beside it the ladder written by hand is not in this tree: its loop has no call, no branch \
         and the 392 multiplications that it needs (test LANES-5)",
    )])
}

/// Returns the CPU seconds of all ended child processes.
fn children_s() -> Result<f64> {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN)?;
    let ms = (usage.user_time() + usage.system_time()).num_milliseconds();
    Ok(std::time::Duration::from_millis(ms.unsigned_abs()).as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::{Verdict, Weight, exit_code};
    use mezza::testing::api::Exit;

    #[test]
    fn what_this_cpu_cannot_run_is_counted_and_decides_nothing() {
        let rows: Vec<Row> = VECTORS.into_iter().map(|goal| goal.limit.not_here(LACKING)).collect();
        assert!(rows.iter().all(|row| row.verdict() == Verdict::NotHere));
        assert!(rows[0].to_lines()[0].ends_with("NOT MEASURABLE HERE avx512ifma missing"));
        assert_eq!(exit_code(&rows, true), Exit::Done);
    }

    #[test]
    fn an_absent_peer_decides_where_its_row_must_hold() {
        let [must, context] =
            [1, 3].map(|at: usize| VECTORS[at].limit.no_peer("crypto_mb is not here"));
        assert_eq!((must.weight, context.weight), (Weight::Must, Weight::Context));
        assert_eq!(
            (exit_code(&[must], true), exit_code(&[context], true)),
            (Exit::Unreachable, Exit::Done)
        );
    }
}
