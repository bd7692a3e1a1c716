//! Parts `ablation` and `rates`: the effect of each replaced part, and whole sessions by suite and
//! by library.

use anyhow::Result;

use super::tables::group_digits;
use crate::bench::{Bench, BenchCase, Comparison, Series};
use crate::peer::{self, PeerProcess};
use crate::run::experiment::Report;
use crate::shape::Claim;

/// The peer programs of these parts.
pub const PEERS: &[&str] = &["vodozemac", "java", "wacore"];

/// Bytes of a line, a page and a file.
const SIZES: [usize; 3] = [32, 1_024, 1_400_000];

/// An operation in a batch.
#[derive(Clone, Copy)]
struct Op {
    name: &'static str,
    /// Bytes of a message.
    size: usize,
    /// Calls per batch.
    calls: usize,
}

const fn op(name: &'static str, size: usize, calls: usize) -> Op {
    Op { name, size, calls }
}

/// The operations of the tables.
const OPS: [Op; 9] = [
    op("seal", SIZES[0], 200),
    op("open", SIZES[0], 200),
    op("seal", SIZES[1], 100),
    op("open", SIZES[1], 100),
    op("seal", SIZES[2], 1),
    op("open", SIZES[2], 1),
    op("turn", SIZES[0], 20),
    op("init", SIZES[0], 8),
    op("resp", SIZES[0], 8),
];

/// Our suites without [`mezza_ratchet::Conversation`].
const BARE: [(&str, &str); 6] = [
    ("bare-v3", "signal-v3"),
    ("bare-sig", ".. only the hash exchanged"),
    ("bare-kdf", ".. only the key schedule exchanged"),
    ("bare-aead", ".. only the AEAD exchanged"),
    ("bare-paper", "paper: hash and AEAD"),
    ("bare-b2c20", "b2c20: all, synthetic nonce, padding"),
];

/// Our suites in a conversation, as callers use them.
const TALKS: [(&str, &str); 5] = [
    ("v3", "signal-v3, AwsLc"),
    ("v3-portable", "signal-v3, Portable"),
    ("b2c20", "b2c20, AwsLc"),
    ("b2c20-portable", "b2c20, Portable"),
    ("b2c20-pq", "b2c20-pq, AwsLc"),
];

/// Maximum effect of a replaced hash on a handshake or a turn, as a share.
const INVISIBLE: f64 = 0.03;

/// Implementation, operation, and bytes.
type Key = (&'static str, &'static str, usize);
/// A row of the table.
#[derive(Clone, Copy)]
struct Row {
    /// The index of its program; 0 is this one.
    peer: usize,
    /// Its name in the program.
    who: &'static str,
    /// Its name in the table.
    name: &'static str,
}

/// Adds both parts.
///
/// # Errors
/// If a program does not start, or a raw line cannot be written.
pub fn add_results(bench: &mut Bench, report: &mut Report) -> Result<()> {
    let mut peers = vec![PeerProcess::start_ours()?];
    let ours = BARE.into_iter().chain(TALKS);
    let mut rows: Vec<Row> = ours.map(|(who, name)| Row { peer: 0, who, name }).collect();
    for name in PEERS {
        match peer::find_for(bench.profile, name)? {
            Ok(found) => {
                rows.push(Row { peer: peers.len(), who: name, name });
                peers.push(found);
            }
            Err(reason) => report.absent.push(reason),
        }
    }
    let cases = rows.iter().flat_map(|row| OPS.map(|op| make_case(*row, op))).collect();
    let contest = bench.run_interleaved(&mut peers, cases)?;
    print_rates(report, &rows, &contest);
    add_losses(report, &rows, &contest);
    add_claims(report, &contest);
    Ok(())
}

fn make_case(row: Row, op: Op) -> (Key, BenchCase) {
    let Row { peer, who, name } = row;
    let Op { name: op, size, calls } = op;
    let (shown, asked) = if peer == 0 {
        (format!("ours:{name}"), format!("{who}:{op}"))
    } else {
        (format!("peer:{name}"), op.to_owned())
    };
    ((who, op, size), BenchCase { who: shown, peer, op: asked, size, calls })
}

fn print_rates(report: &mut Report, rows: &[Row], contest: &Comparison<Key>) {
    let quiet = contest.describe_disturbed();
    report.add_line(format!(
        "ablation and rates, thread CPU, ns for each call, least of all batches, {quiet}"
    ));
    let head = OPS.map(|op| format!("{:>14}", format!("{} {}", op.name, op.size)));
    report.add_line("turn: one seal and one open, each with a Diffie-Hellman step; init: a bundle checked, X3DH and the first seal;");
    report.add_line("resp: X3DH and the first open. After each word the bytes of the text. Rows without a library: ours, the ratchet");
    report.add_line("alone; AwsLc and Portable: ours as the product uses it; java: signal-protocol-java 2.8.1; wacore: wacore-libsignal");
    report.add_line(format!("  {:<40}{}", "", head.concat()));
    for Row { who, name, .. } in rows {
        let cells = OPS.map(|op| {
            let cost = contest
                .find_series(&(who, op.name, op.size))
                .map(|series| group_digits(series.least_cost()));
            format!("{:>14}", cost.unwrap_or_else(|_| "-".into()))
        });
        report.add_line(format!("  {name:<40}{}", cells.concat()));
    }
}

/// Notes each operation in which one of our suites is slower than the fastest peer.
fn add_losses(report: &mut Report, rows: &[Row], contest: &Comparison<Key>) {
    for (who, name) in TALKS {
        for Op { name: op, size, .. } in OPS {
            let cost = |who| contest.find_series(&(who, op, size)).ok().map(Series::least_cost);
            let peers = rows.iter().filter(|row| row.peer > 0);
            let costs = peers.filter_map(|row| Some((cost(row.who)?, row.name)));
            let fastest = costs.min_by(|a, b| a.0.total_cmp(&b.0));
            let Some((ours, (theirs, peer))) = cost(who).zip(fastest) else { continue };
            if ours > theirs {
                let [ours, theirs] = [ours, theirs].map(group_digits);
                report
                    .add_loss(format!("{name}, {op} {size}: {ours} ns against {theirs} ({peer})"));
            }
        }
    }
}

fn add_claims(report: &mut Report, contest: &Comparison<Key>) {
    let ratio = |new, old, op| {
        let of = |who| contest.find_series(&(who, op, SIZES[0])).ok().map(Series::least_cost);
        Some(of(new)? / of(old)?)
    };
    for op in ["turn", "init", "resp"] {
        let Some(ratio) = ratio("bare-sig", "bare-v3", op) else { continue };
        let claim = format!("{op}: the hash alone changes less than {INVISIBLE:.2}");
        report.shapes.push(Claim::below(claim, (ratio - 1.0).abs(), INVISIBLE));
    }
    if let Some(ratio) = ratio("bare-kdf", "bare-v3", "seal") {
        let claim = "seal 32 B: keyed BLAKE2b / HMAC and HKDF, nothing else exchanged (E-G6)";
        report.shapes.push(Claim::below(claim, ratio, 1.0));
    }
}
