//! Parts `ablation` and `rates`: what each exchanged part contributes, and whole sessions by suite
//! and by library.

use anyhow::Result;

use super::tables::grouped;
use crate::bench::{Bench, BenchCase, Comparison, Series};
use crate::peer::{self, PeerProcess};
use crate::run::experiment::Report;
use crate::shape::Claim;

/// Who may stand beside us.
pub const PEERS: &[&str] = &["vodozemac", "java", "wacore"];

/// Bytes of a line, a page, a file.
const SIZES: [usize; 3] = [32, 1_024, 1_400_000];

/// What is measured: operation, bytes, calls in a batch.
const OPS: [(&str, usize, usize); 9] = [
    ("seal", SIZES[0], 200),
    ("open", SIZES[0], 200),
    ("seal", SIZES[1], 100),
    ("open", SIZES[1], 100),
    ("seal", SIZES[2], 1),
    ("open", SIZES[2], 1),
    ("turn", SIZES[0], 20),
    ("init", SIZES[0], 8),
    ("resp", SIZES[0], 8),
];

/// Our suites without the conversation around them.
const BARE: [(&str, &str); 6] = [
    ("bare-v3", "signal-v3"),
    ("bare-sig", ".. only the hash exchanged"),
    ("bare-kdf", ".. only the key schedule exchanged"),
    ("bare-aead", ".. only the AEAD exchanged"),
    ("bare-paper", "paper: hash and AEAD"),
    ("bare-b2c20", "b2c20: all, synthetic nonce, padding"),
];

/// What callers of the library use.
const TALKS: [(&str, &str); 5] = [
    ("v3", "signal-v3, AwsLc"),
    ("v3-portable", "signal-v3, Portable"),
    ("b2c20", "b2c20, AwsLc"),
    ("b2c20-portable", "b2c20, Portable"),
    ("b2c20-pq", "b2c20-pq, AwsLc"),
];

/// Most that the exchange of a hash may change a handshake or a turn by.
const INVISIBLE: f64 = 0.03;

/// One line of a table: who it is for people, and its figures.
struct Row {
    name: String,
    who: String,
    series: Vec<Result<Series, String>>,
}

/// Both parts.
///
/// # Errors
/// If we do not start, or a raw line cannot be written.
pub fn add(bench: &mut Bench, report: &mut Report) -> Result<()> {
    let mut peers = vec![PeerProcess::ours()?];
    let ours = BARE.into_iter().chain(TALKS);
    let mut rows: Vec<(usize, String, String)> =
        ours.map(|(who, name)| (0, format!("{who}:"), name.to_owned())).collect();
    for name in PEERS {
        match peer::find_for(bench.profile, name)? {
            Ok(found) => {
                rows.push((peers.len(), String::new(), (*name).to_owned()));
                peers.push(found);
            }
            Err(reason) => report.absent.push(reason),
        }
    }
    let entry = |(peer, prefix, name): &(usize, String, String)| {
        let (peer, prefix, name) = (*peer, prefix.clone(), name.clone());
        OPS.map(move |(op, size, calls)| {
            let who = if peer == 0 { format!("ours:{name}") } else { format!("peer:{name}") };
            BenchCase { who, peer, op: format!("{prefix}{op}"), size, calls }
        })
    };
    let entries: Vec<BenchCase> = rows.iter().flat_map(entry).collect();
    let contest = bench.run_interleaved(&mut peers, &entries)?;
    let quiet = contest.quiet();
    let Comparison { series, .. } = contest;
    let mut series = series.into_iter();
    let rows: Vec<Row> = rows
        .into_iter()
        .map(|(_, who, name)| Row { name, who, series: series.by_ref().take(OPS.len()).collect() })
        .collect();
    print(report, &rows, &quiet);
    shapes(report, &rows);
    Ok(())
}

fn print(report: &mut Report, rows: &[Row], quiet: &str) {
    report.say(format!("ablation and rates, thread CPU, ns, least of all batches, {quiet}"));
    let wide = |words: Vec<String>| {
        words.into_iter().fold(String::new(), |line, word| line + &format!("{word:>14}"))
    };
    let head = OPS.iter().map(|(op, size, _)| format!("{op} {size}")).collect();
    report.say(format!("  {:<40}{}", "", wide(head)));
    for row in rows {
        let cell = |series: &Result<Series, String>| {
            series.as_ref().map_or("-".into(), |series| grouped(series.min()))
        };
        let cells = row.series.iter().map(cell).collect();
        report.say(format!("  {:<40}{}", row.name, wide(cells)));
    }
}

fn shapes(report: &mut Report, rows: &[Row]) {
    let at = |op: &str| OPS.iter().position(|(name, ..)| *name == op);
    let of = |who: &str, op: &str| {
        let row = rows.iter().find(|row| row.who == format!("{who}:"))?;
        row.series.get(at(op)?)?.as_ref().ok().map(Series::min)
    };
    for op in ["turn", "init", "resp"] {
        let ratio = of("bare-sig", op).zip(of("bare-v3", op)).map(|(new, old)| new / old);
        let Some(ratio) = ratio else { continue };
        let claim = format!("{op}: the hash alone changes less than {INVISIBLE:.2}");
        report.shapes.push(Claim::below(claim, (ratio - 1.0).abs(), INVISIBLE));
    }
    let ratio = of("bare-kdf", "seal").zip(of("bare-v3", "seal")).map(|(new, old)| new / old);
    if let Some(ratio) = ratio {
        let claim = "seal 32 B: keyed BLAKE2b by HMAC and HKDF, nothing else exchanged (E-G6)";
        report.shapes.push(Claim::below(claim, ratio, 1.0));
    }
}
