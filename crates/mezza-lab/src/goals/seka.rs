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

/// The name of a figure, and its source: this program, or the peer.
type Cost = (&'static str, bool);
/// A goal, its figure, and the figure that it is divided by.
type Goal = (Limit, Cost, Cost);

const EXCHANGE: Cost = ("exchange-default", true);
const PAPER: Cost = ("exchange-paper", true);
const FOUR: Cost = ("limit", true);

const GOALS: [Goal; 7] = [
    (at_most("S1", "exchange, suite paper / four X25519", 1.10), PAPER, FOUR),
    (at_most("S1", "exchange, suite default / four X25519", 1.30), EXCHANGE, FOUR),
    (
        at_most("S2", "exchange / WireGuard's handshake (boringtun)", 0.2),
        EXCHANGE,
        ("wireguard", false),
    ),
    (
        at_most("S2", "exchange / TLS 1.3, Ed25519 mutual (rustls)", 0.333),
        EXCHANGE,
        ("tls-ed25519", false),
    ),
    (shown_limit("S2", "exchange / TLS 1.3, P-256 mutual (rustls)"), EXCHANGE, ("tls-p256", false)),
    (
        at_most("S5", "junk KE1, suite default / two HMAC of 80 B", 1.4),
        ("junk-default", true),
        ("hmac-two", true),
    ),
    (
        at_most("S5", "junk KE1, suite paper / two GMAC of 80 B", 1.4),
        ("junk-paper", true),
        ("gmac-two", true),
    ),
];

/// The limits of [`GOALS`].
const LIMITS: [Limit; 7] = {
    let mut limits = [GOALS[0].0; 7];
    let mut at = 0;
    while at < limits.len() {
        limits[at] = GOALS[at].0;
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
    let mut cases: Vec<Cost> = GOALS.iter().flat_map(|(_, one, two)| [*one, *two]).collect();
    cases.sort_unstable();
    cases.dedup();
    cases
}

fn measure_exchanges(bench: &mut Bench) -> Result<Vec<Row>> {
    let mut peers = vec![PeerProcess::start_ours()?];
    let found = peer::find_for(bench.profile, "handshakes")?;
    let absent = found.map(|theirs| peers.push(theirs)).err();
    let mut asked = Vec::new();
    for (op, is_ours) in
        list_cases().into_iter().filter(|(_, is_ours)| *is_ours || absent.is_none())
    {
        let who = if is_ours { "ours" } else { "peer:handshakes" };
        let name = if is_ours { format!("seka:{op}") } else { op.to_owned() };
        let calls = if op.starts_with("junk") || op.ends_with("two") { 2_000 } else { 100 };
        let peer = usize::from(!is_ours);
        asked.push(((op, is_ours), BenchCase { who: who.into(), peer, op: name, size: 0, calls }));
    }
    let contest = bench.run_interleaved(&mut peers, asked)?;
    GOALS.iter().map(|goal| make_row(goal, &contest, absent.as_deref())).collect()
}

fn make_row(
    (limit, one, two): &Goal,
    contest: &Comparison<Cost>,
    absent: Option<&str>,
) -> Result<Row> {
    if let (false, Some(reason)) = (two.1, absent) {
        return Ok(limit.no_peer(reason));
    }
    let ours = contest.find_series(one)?;
    let theirs = contest.find_series(two)?;
    let ratio = ours.ratio_to(theirs);
    Ok(limit.make_row(ratio.value).with_detail(format!(
        "{} {:.2} us, {} {:.2} us: {ratio}; {}",
        one.0,
        ours.deciding_cost() / 1e3,
        two.0,
        theirs.deciding_cost() / 1e3,
        contest.describe_disturbed()
    )))
}
