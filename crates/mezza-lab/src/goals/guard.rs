//! The goals of reverse firewalls: rows T1, T2, T4, T5, T6 and T8 of their design. T3 belongs to kernels
//! that do not exist yet; T7 is the attack matrix, `run asa`. Every ratio is of thread CPU time from one
//! run, but those of T6, which are of elapsed time.
#![expect(clippy::cast_precision_loss, reason = "counts of a window stay far below 2^53")]

mod daemon;

use anyhow::Result;

use super::measurement::Measurement;
use crate::bench::Bench;
use crate::limit::Limit;
use crate::ours::firewalls::{Costs, LISTINGS};
use crate::peer::{self, OpCost, PeerProcess};
use crate::prime::{SIEVE_MAX, SafePrimeSearch, WINDOW, primes_below};
use crate::row::Row;
use crate::thesis::listing::Listing;

/// The peer programs of these rows.
pub const PEERS: &[&str] = &["modp"];

/// All measurements of this part.
pub const ALL: &[Measurement] = &[
    Measurement::new(
        &[&UNITS, &X25519],
        "peer: `--fetch` (cargo, headers of OpenSSL)",
        [2, 10, 30],
        measure_curves,
    ),
    Measurement::new(
        &[&MODP],
        "peer: `--fetch` (cargo, headers of OpenSSL)",
        [10, 30, 90],
        measure_modp,
    ),
    Measurement::new(&[&OVERHEADS], "nothing", [5, 20, 60], measure_overheads),
    Measurement::new(&[&GUARD], "nothing", [1, 5, 10], measure_guard),
    Measurement::new(&[&daemon::LIMITS], "nothing", [5, 20, 60], daemon::measure_daemon),
    Measurement::new(&[&PRIMES], "nothing", [5, 5, 5], measure_primes),
];

/// T1: the largest value over all listings of the thesis that use an elliptic curve.
const UNITS: [Limit; 1] =
    [Limit::at_most("T1", "elliptic variants / their unit operations", 1.10, "x")];
/// T1, compared with OpenSSL.
const X25519: [Limit; 1] =
    [Limit::at_least("T1", "EC_DH / four X25519 of OpenSSL, speed", 1.0, "x")];
/// T2: the crate's variants over group 15 with tables, compared with OpenSSL's powers as the thesis
/// counts them.
const MODP: [Limit; 3] = [
    Limit::at_least("T2", "DH_Comm, portable / OpenSSL, speed", 1.4, "x"),
    Limit::at_least("T2", "DH_Comm_FW full, portable / OpenSSL, speed", 1.1, "x"),
    Limit::at_least("T2", "ElGamal, portable / OpenSSL, speed", 0.65, "x"),
];
/// T4: measured overhead less the counted overhead.
const OVERHEADS: [Limit; 7] = [
    points_limit("DH_FW is 50 %, off by"),
    points_limit("DH_Comm_FW basic is 30 %, off by"),
    points_limit("DH_Comm_FW full is 60 %, off by"),
    points_limit("the same with GUARD-7 is 80 %, off by"),
    points_limit("EG_Rerand is 50 %, off by"),
    points_limit("EG_Maul is 75 %, off by"),
    points_limit("EG_ReMaul is 125 %, off by"),
];
/// T5: the cost of the guard.
const GUARD: [Limit; 2] = [
    Limit::at_most("T5", "GKX guard / its 3 + 4 powers, 7 codings", 1.15, "x"),
    Limit::at_most("T5", "coin check / 1 power, 1 decode, 1 encode", 1.15, "x"),
];
/// T8: the search for safe primes.
const PRIMES: [Limit; 1] =
    [Limit::at_most("T8", "safe prime of 3072 bit, expected tests", 5_400.0, "tests")];

const fn points_limit(goal: &'static str) -> Limit {
    Limit::at_most("T4", goal, 5.0, "points")
}

/// The listings of the thesis that use an elliptic curve, by the names in T1.
const ELLIPTIC: [(&str, &str); 6] = [
    ("EC_DH", "ec-uniform:dh"),
    ("EC_DH_FW", "ec-uniform:dh-fw"),
    ("EC_DH_Comm", "ec-uniform:comm"),
    ("EC_DH_Comm_FW", "ec-uniform:comm-full"),
    ("EC_EG", "ec-uniform:eg"),
    ("EC_EG_Rerand", "ec-uniform:eg-rerand"),
];

/// Returns the listing of the thesis to which an operation belongs, found by the end of its name.
fn find_listing(op: &str) -> Option<Listing> {
    let name = op.rsplit(':').next()?;
    LISTINGS.iter().find(|(known, _)| *known == name).map(|(_, listing)| *listing)
}

/// Returns the powers that the listing of an operation counts.
fn count_powers(op: &str) -> f64 {
    find_listing(op).map_or(f64::NAN, |listing| f64::from(listing.count_powers()))
}

/// Measures an operation of the peer, in ms.
fn peer_ms(peer: &mut PeerProcess, op: &str, bits: usize, calls: usize) -> Result<f64> {
    let OpCost { median, .. } = peer.measure_cost(op, bits, calls)?;
    Ok(median / 1e6)
}

/// Measures T1.
fn measure_curves(bench: &mut Bench) -> Result<Vec<Row>> {
    let mut ops: Vec<&str> = ELLIPTIC.iter().map(|(_, op)| *op).collect();
    ops.extend(["units-variable", "ec-fast:dh"]);
    let costs = Costs::measure(bench, &ops)?;
    let unit = costs.cost_ms("units-variable");
    let mut worst: f64 = 0.0;
    let mut lines = Vec::new();
    for (name, op) in ELLIPTIC {
        let ratio = costs.cost_ms(op) / (count_powers(op) * unit);
        worst = worst.max(ratio);
        lines.push(format!(
            "{name} {:.1} us, {} powers of {:.1} us: {ratio:.3}",
            1e3 * costs.cost_ms(op),
            count_powers(op),
            1e3 * unit
        ));
    }
    let units = lines.into_iter().fold(UNITS[0].make_row(worst), Row::with_detail);
    let x25519 = match peer::find_for(bench.profile, "modp")? {
        Err(reason) => X25519[0].no_peer(reason),
        Ok(mut openssl) => {
            let theirs = peer_ms(&mut openssl, "x25519", 0, 40)?;
            let ours = costs.cost_ms("ec-fast:dh");
            let beside = format!(
                "ours {:.1} us with keys derived, OpenSSL {:.1} us",
                1e3 * ours,
                1e3 * theirs
            );
            X25519[0].make_row(theirs / ours).with_detail(beside)
        }
    };
    Ok(vec![units, x25519])
}

/// T2: our operation, the peer's operation, and the number of powers as the thesis counts them.
const AGAINST: [(&str, &str); 3] = [
    ("modp-fast:comm", "modp-uniform:comm"),
    ("modp-fast:comm-full", "modp-uniform:comm-full"),
    ("modp-fast:eg", "modp-uniform:eg"),
];

fn measure_modp(bench: &mut Bench) -> Result<Vec<Row>> {
    let mut openssl = match peer::find_for(bench.profile, "modp")? {
        Ok(found) => found,
        Err(reason) => return Ok(MODP.iter().map(|limit| limit.no_peer(reason.clone())).collect()),
    };
    let ops = AGAINST.map(|(op, _)| op);
    let costs = Costs::measure(bench, &ops)?;
    let power = peer_ms(&mut openssl, "powers-1", 3_072, 1)?;
    let row = |(limit, (op, listing)): (&Limit, (&str, &str))| {
        let theirs = count_powers(listing) * power;
        let ours = costs.cost_ms(op);
        let beside = format!(
            "ours {ours:.1} ms with every element checked, OpenSSL {theirs:.1} ms: {} powers of {power:.2} ms",
            count_powers(listing)
        );
        limit.make_row(theirs / ours).with_detail(beside)
    };
    Ok(MODP.iter().zip(AGAINST).map(row).collect())
}

/// T4: the operation without a firewall, and the same one with it.
const PAIRS: [(&str, &str); 7] = [
    ("modp-uniform:dh", "modp-uniform:dh-fw"),
    ("modp-uniform:comm", "modp-uniform:comm-basic"),
    ("modp-uniform:comm", "modp-uniform:comm-full"),
    ("modp-uniform:comm", "modp-uniform:comm-checked"),
    ("modp-uniform:eg", "modp-uniform:eg-rerand"),
    ("modp-uniform:eg", "modp-uniform:eg-maul"),
    ("modp-uniform:eg", "modp-uniform:eg-remaul"),
];

fn measure_overheads(bench: &mut Bench) -> Result<Vec<Row>> {
    let mut ops: Vec<&str> = PAIRS.iter().flat_map(|(base, with)| [*base, *with]).collect();
    ops.sort_unstable();
    ops.dedup();
    let costs = Costs::measure(bench, &ops)?;
    let row = |(limit, (base, with)): (&Limit, (&str, &str))| {
        let measured = costs.overhead_percent(base, with);
        let counted = find_listing(with).map_or(f64::NAN, Listing::overhead_percent);
        let beside = format!(
            "measured {measured:.1} %, counted {counted:.0} %; {:.1} and {:.1} ms",
            costs.cost_ms(base),
            costs.cost_ms(with)
        );
        limit.make_row((measured - counted).abs()).with_detail(beside)
    };
    Ok(OVERHEADS.iter().zip(PAIRS).map(row).collect())
}

fn measure_guard(bench: &mut Bench) -> Result<Vec<Row>> {
    let ops = [
        "gkx-guard",
        "units-gkx-ends",
        "coin-check",
        "units-variable",
        "units-fixed",
        "units-decode",
        "units-encode",
    ];
    let costs = Costs::measure(bench, &ops)?;
    let us = |op| 1e3 * costs.cost_ms(op);
    let [variable, fixed, decode, encode] =
        ["units-variable", "units-fixed", "units-decode", "units-encode"].map(us);
    // The exchange with its guard less the exchange without a guard.
    let work = us("gkx-guard") - us("units-gkx-ends");
    let counted = 3.0 * variable + 4.0 * fixed + 3.0 * encode + 4.0 * decode;
    let coin = fixed + decode + encode;
    let beside =
        format!("{work:.1} us by {counted:.1} us, {:.0} handshakes/s on one core", 1e6 / work);
    let coins = format!(
        "{:.1} us by {coin:.1} us, {:.0} coins/s on one core",
        us("coin-check"),
        1e6 / us("coin-check")
    );
    Ok(vec![
        GUARD[0].make_row(work / counted).with_detail(beside),
        GUARD[1].make_row(us("coin-check") / coin).with_detail(coins),
    ])
}

/// Measures T8: the candidates that are left after sieving one window, and the density of safe
/// primes among them.
fn measure_primes(bench: &mut Bench) -> Result<Vec<Row>> {
    let search = SafePrimeSearch::new(3_072, &bench.seed.to_be_bytes())?;
    let sieve = search.sieve(&primes_below(SIEVE_MAX), 0);
    let survivors = sieve.survivors().count() as f64;
    let share = survivors / WINDOW as f64;
    let mut tests = 0.0;
    let mut ms = 0.0;
    for i in sieve.survivors().take(bench.profile.pick(2, 20, 60)) {
        let (_, ns) = crate::clock::cost_ns(|| search.is_safe_prime(i))?;
        (tests, ms) = (tests + 1.0, ms + ns / 1e6);
    }
    let each = ms / tests;
    let expected = share / search.density();
    bench.note_count("ours", "survivors", "count", survivors)?;
    let beside = format!(
        "{survivors:.0} of {WINDOW} candidates survive, one in {:.0} is safe; {each:.1} ms a test, {:.1} tests/s on one core",
        1.0 / search.density(),
        1e3 / each
    );
    Ok(vec![PRIMES[0].make_row(expected).with_detail(beside)])
}
