//! FoSAM, table 1: the paper's two columns, its mathematics in our implementation at its easy epoch
//! and at a real one, another HIBE, and ours, in one run.

use anyhow::Result;

use crate::bench::{Bench, BenchCase, Comparison, Series};
use crate::ours::{fosam, hibe};
use crate::papers::{self, MicroRow};
use crate::peer::{self, PeerProcess};
use crate::plot::Plot;
use crate::run::experiment::Report;
use crate::shape::Claim;

/// Bytes of a message.
const TEXT: usize = 1_024;

/// An implementation, and its name for the operation.
type Side = (&'static str, &'static str);

/// A row of the paper, and the operations for comparison: the profile at epoch 0 and at a real
/// epoch, hohibe, ours at epoch 0 and at a real epoch.
struct Line {
    paper: &'static str,
    sides: [Option<Side>; 5],
}

const COLUMNS: [&str; 7] = [
    "ThinkPad",
    "Pixel 6",
    "profile, epoch 0",
    "profile, real",
    "hohibe, L = 5",
    "ours, epoch 0",
    "ours, real",
];

const LINES: [Line; 4] = [
    Line {
        paper: "Key generation",
        sides: [
            Some(("fosam", "keygen")),
            None,
            Some(("hohibe", "keygen")),
            Some(("hibe", "keygen")),
            None,
        ],
    },
    Line {
        paper: "Private key ratcheting",
        sides: [None, Some(("fosam", "ratchet")), None, None, Some(("hibe", "ratchet"))],
    },
    Line {
        paper: "Encryption",
        sides: [
            Some(("fosam", "encrypt-0")),
            Some(("fosam", "encrypt")),
            Some(("hohibe", "seal")),
            Some(("hibe", "seal-0")),
            Some(("hibe", "seal")),
        ],
    },
    Line {
        paper: "Decryption",
        sides: [
            Some(("fosam", "decrypt")),
            Some(("fosam", "decrypt")),
            Some(("hohibe", "open")),
            Some(("hibe", "open")),
            Some(("hibe", "open")),
        ],
    },
];

/// Footnotes on the paper's values, and on additional parts of ours.
const FOOTNOTES: [&str; 6] = [
    "ms of CPU time of one thread, 1 KiB; the paper's columns are wall time of its machines",
    "its 2.73 for public key ratcheting is nanoseconds: its benchmark prints that row in ns, the others in ms",
    "its 11.52 and 1.76 use a pool of threads; its encryption is that of epoch 0, where the path is empty",
    "profile: zkcrypto's curve, binary tree of depth 32, own writing from the paper and BKP14, no tag",
    "hohibe 0.1.0: the HIBE of Boneh, Boyen and Goh with our five levels; its envelopes name their receiver",
    "ours: with tag, commitment and encapsulation again; ratcheting is the mean of 65 epochs, of the profile of 8, derivations included",
];

pub fn make_report(bench: &mut Bench) -> Result<Report> {
    let mut report = Report { about_speed: true, ..Report::default() };
    let mut peers = vec![PeerProcess::start_ours()?];
    match peer::find_for(bench.profile, "hohibe")? {
        Ok(found) => peers.push(found),
        Err(reason) => report.absent.push(reason),
    }
    let mut sides: Vec<Side> = LINES.iter().flat_map(|line| line.sides).flatten().collect();
    sides.sort_unstable();
    sides.dedup();
    sides.retain(|(who, _)| *who != "hohibe" || peers.len() > 1);
    let cases = sides.iter().map(|side| (*side, make_case(*side))).collect();
    let figures = bench.run_interleaved(&mut peers, cases)?;
    let ms = |side: Side| {
        figures.find_series(&side).map_or(f64::NAN, |series| cost_ns(side, series) / 1e6)
    };
    let rows = papers::fosam_microbenchmark()?;
    let mut plot = Plot::new("FoSAM, table 1", ["row of the table", "CPU time of one thread, ms"]);
    report.add_line(format_header());
    for line in &LINES {
        report.add_line(format_line(line, &rows, &ms));
    }
    for row in rows.iter().filter(|row| LINES.iter().all(|line| line.paper != row.name)) {
        report.add_line(format!(
            "{:<24} {:>10.2} {:>10.2}   a counter goes on by one",
            row.name, row.thinkpad, row.pixel6
        ));
    }
    for (at, name) in COLUMNS[2..].iter().enumerate() {
        let points = LINES
            .iter()
            .zip(1_u8..)
            .map(|(line, x)| [f64::from(x), line.sides[at].map_or(f64::NAN, ms)]);
        plot.add_curve(*name, points.collect::<Vec<_>>().into_iter());
    }
    report.plot = Some(plot);
    for note in FOOTNOTES {
        report.add_line(format!("  {note}"));
    }
    report.add_line(format!("  {}", figures.describe_disturbed()));
    add_claims(&mut report, &figures)?;
    Ok(report)
}

fn make_case((who, op): Side) -> BenchCase {
    let (peer, asked, shown) = match who {
        "hohibe" => (1, op.to_owned(), format!("peer:{who}")),
        _ => (0, format!("{who}:{op}"), format!("ours:{who}")),
    };
    let calls = match (who, op) {
        ("hibe", op) if op != "ratchet" => 4,
        _ => 1,
    };
    BenchCase { who: shown, peer, op: asked, size: TEXT, calls }
}

/// Returns the cost of one operation in ns: a call of `ratchet` is several epochs.
fn cost_ns((who, op): Side, series: &Series) -> f64 {
    let operations = match (who, op) {
        ("hibe", "ratchet") => hibe::RATCHET_CALL,
        ("fosam", "ratchet") => fosam::RATCHET_CALL,
        _ => 1,
    };
    series.deciding_cost() / f64::from(operations)
}

fn format_header() -> String {
    COLUMNS.iter().fold(format!("{:<24}", ""), |line, column| format!("{line} {column:>16}"))
}

fn format_line(line: &Line, rows: &[MicroRow], ms: &impl Fn(Side) -> f64) -> String {
    let paper = rows.iter().find(|row| row.name == line.paper);
    let theirs = paper.map_or([f64::NAN; 2], |row| [row.thinkpad, row.pixel6]);
    let ours = line.sides.map(|side| side.map_or(f64::NAN, ms));
    theirs.into_iter().chain(ours).fold(format!("{:<24}", line.paper), |text, value| {
        let value = if value.is_nan() { "-".into() } else { format!("{value:.3}") };
        format!("{text} {value:>16}")
    })
}

/// Adds the paper's claims about its own values, with their results.
fn add_claims(report: &mut Report, figures: &Comparison<Side>) -> Result<()> {
    let ns = |side: Side| figures.find_series(&side).map(|series| cost_ns(side, series));
    let profile = |op| ns(("fosam", op));
    let keygen = profile("keygen")?;
    let ratchet = profile("ratchet")?;
    let encrypt = profile("encrypt-0")?;
    let decrypt = profile("decrypt")?;
    report.shapes.push(Claim::above("profile: keygen / mean ratchet", keygen / ratchet, 1.0));
    report.shapes.push(Claim::above(
        "profile: mean ratchet / encryption at epoch 0",
        ratchet / encrypt,
        1.0,
    ));
    report.shapes.push(Claim::above("profile: mean ratchet / decryption", ratchet / decrypt, 1.0));
    let hidden = profile("encrypt")? / encrypt;
    report.shapes.push(Claim::is(
        "profile: encryption at a real epoch costs 5 to 8 times that of epoch 0",
        format!("{hidden:.2}"),
        (5.0..=8.0).contains(&hidden),
    ));
    for (text, theirs, ours) in [
        ("keygen", profile("keygen")?, ns(("hibe", "keygen"))?),
        ("mean ratchet", ratchet, ns(("hibe", "ratchet"))?),
        ("encryption at a real epoch", profile("encrypt")?, ns(("hibe", "seal"))?),
        ("decryption", decrypt, ns(("hibe", "open"))?),
    ] {
        report.shapes.push(Claim::above(format!("{text}: profile / ours"), theirs / ours, 1.0));
    }
    Ok(())
}
