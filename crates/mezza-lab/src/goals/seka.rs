//! The goals of links: exchanges compared with limits and other handshakes (S1, S2, S5), and
//! tunnels compared with others in network namespaces (S6 to S10).

pub mod net;
mod rekeys;
pub mod tunnel;

use anyhow::Result;

use super::measurement::Measurement;
use crate::bench::{Bench, BenchCase, Comparison};
use crate::limit::Limit;
use crate::peer::{self, PeerProcess};
use crate::row::Row;

/// The peer programs of these rows.
pub const PEERS: &[&str] = &["handshakes", "tunnels"];

/// All measurements of this part.
pub const ALL: &[Measurement] = &[
    Measurement::new(&[&LIMITS], "peers: `--fetch` (cargo)", [2, 40, 90], measure_exchanges),
    Measurement::new(
        &[&tunnel::LIMITS],
        "root, network namespaces, iperf3, sockperf; peers: `--fetch` (Go, cargo, apt)",
        [5, 150, 400],
        tunnel::measure_rows,
    ),
];

/// A measured operation.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Cost {
    op: &'static str,
    /// True if this program runs the operation, and false if the peer does.
    is_ours: bool,
}

/// A goal: the limit on the cost of one operation, divided by that of another.
struct Goal {
    limit: Limit,
    cost: Cost,
    base: Cost,
}

const EXCHANGE: Cost = of_ours("exchange-default");
const PAPER: Cost = of_ours("exchange-paper");
const FOUR: Cost = of_ours("limit");

const fn of_ours(op: &'static str) -> Cost {
    Cost { op, is_ours: true }
}

const fn of_peer(op: &'static str) -> Cost {
    Cost { op, is_ours: false }
}

const GOALS: [Goal; 7] = [
    Goal {
        limit: at_most("S1", "exchange, suite paper / four X25519", 1.10),
        cost: PAPER,
        base: FOUR,
    },
    Goal {
        limit: at_most("S1", "exchange, suite default / four X25519", 1.30),
        cost: EXCHANGE,
        base: FOUR,
    },
    Goal {
        limit: at_most("S2", "exchange / WireGuard's handshake (boringtun)", 0.2),
        cost: EXCHANGE,
        base: of_peer("wireguard"),
    },
    Goal {
        limit: at_most("S2", "exchange / TLS 1.3, Ed25519 mutual (rustls)", 0.333),
        cost: EXCHANGE,
        base: of_peer("tls-ed25519"),
    },
    Goal {
        limit: shown_limit("S2", "exchange / TLS 1.3, P-256 mutual (rustls)"),
        cost: EXCHANGE,
        base: of_peer("tls-p256"),
    },
    Goal {
        limit: at_most("S5", "junk KE1, suite default / two HMAC of 80 B", 1.4),
        cost: of_ours("junk-default"),
        base: of_ours("hmac-two"),
    },
    Goal {
        limit: at_most("S5", "junk KE1, suite paper / two GMAC of 80 B", 1.4),
        cost: of_ours("junk-paper"),
        base: of_ours("gmac-two"),
    },
];

/// The limits of [`GOALS`].
const LIMITS: [Limit; 7] = {
    let mut limits = [GOALS[0].limit; 7];
    let mut at = 0;
    while at < limits.len() {
        limits[at] = GOALS[at].limit;
        at += 1;
    }
    limits
};

const fn at_most(id: &'static str, goal: &'static str, most: f64) -> Limit {
    Limit::at_most(id, goal, most, "x")
}

const fn shown_limit(id: &'static str, goal: &'static str) -> Limit {
    Limit::none(id, goal, "x")
}

/// Returns the cases without duplicates.
fn list_cases() -> Vec<Cost> {
    let mut cases: Vec<Cost> = GOALS.iter().flat_map(|goal| [goal.cost, goal.base]).collect();
    cases.sort_unstable();
    cases.dedup();
    cases
}

fn measure_exchanges(bench: &mut Bench) -> Result<Vec<Row>> {
    let mut peers = vec![PeerProcess::start_ours()?];
    let found = peer::find_for(bench.profile, "handshakes")?;
    let absent = found.map(|theirs| peers.push(theirs)).err();
    let mut asked = Vec::new();
    for cost in list_cases().into_iter().filter(|cost| cost.is_ours || absent.is_none()) {
        let Cost { op, is_ours } = cost;
        let who = if is_ours { "ours" } else { "peer:handshakes" };
        let name = if is_ours { format!("seka:{op}") } else { op.to_owned() };
        let calls = if op.starts_with("junk") || op.ends_with("two") { 2_000 } else { 100 };
        let peer = usize::from(!is_ours);
        asked.push((cost, BenchCase { who: who.into(), peer, op: name, size: 0, calls }));
    }
    let contest = bench.run_interleaved(&mut peers, asked)?;
    GOALS.iter().map(|goal| make_row(goal, &contest, absent.as_deref())).collect()
}

fn make_row(goal: &Goal, contest: &Comparison<Cost>, absent: Option<&str>) -> Result<Row> {
    let Goal { limit, cost, base } = goal;
    if let (false, Some(reason)) = (base.is_ours, absent) {
        return Ok(limit.no_peer(reason));
    }
    let ours = contest.find_series(cost)?;
    let theirs = contest.find_series(base)?;
    let ratio = ours.ratio_to(theirs);
    Ok(limit.make_row(ratio.value).with_detail(format!(
        "{} {:.2} us, {} {:.2} us: {ratio}; {}",
        cost.op,
        ours.deciding_cost() / 1e3,
        base.op,
        theirs.deciding_cost() / 1e3,
        contest.describe_disturbed()
    )))
}
