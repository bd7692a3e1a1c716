//! Tables 1 to 3: the paper's primitives and Signal's, by provider, warm and cold, with and
//! without the processor's instructions for AES and SHA.

mod block;
mod cold;
mod programs;

use anyhow::Result;

use super::super::Report;
use crate::bench::Bench;
use crate::papers::{self, Column, sign_test};
use crate::shape::Claim;
use block::Block;
pub use block::grouped;
use programs::Programs;

/// Who may stand beside us.
pub const PEERS: &[&str] = &["providers", "soft", "jvm"];

/// Bytes of a public key as Signal writes it.
const KEY: Input = Input { name: "key", size: 33, words: "a public key, 33 B" };
/// The paper does not say how short its text is.
const TEXT: Input = Input { name: "text", size: 32, words: "a short text, 32 B" };
const FILE: Input = Input { name: "file", size: 1_400_000, words: "a file, 1.4 MB" };

/// What an operation is given.
#[derive(Clone, Copy)]
struct Input {
    name: &'static str,
    size: usize,
    words: &'static str,
}

/// The paper's choice and what it replaces.
#[derive(Clone, Copy)]
struct Pair {
    words: &'static str,
    new: &'static str,
    old: &'static str,
    /// AES-256-GCM, where that is an alternative.
    gcm: Option<&'static str>,
}

impl Pair {
    /// All that is measured.
    fn ops(self) -> impl Iterator<Item = &'static str> {
        [self.new, self.old].into_iter().chain(self.gcm)
    }
}

const HASH: Pair = Pair { words: "hash", new: "blake2b", old: "sha512", gcm: None };
const SEAL: Pair =
    Pair { words: "encrypt", new: "chacha-seal", old: "cbc-hmac-seal", gcm: Some("gcm-seal") };
const OPEN: Pair =
    Pair { words: "decrypt", new: "chacha-open", old: "cbc-hmac-open", gcm: Some("gcm-open") };

/// Table 1.
pub fn hashes(bench: &mut Bench) -> Result<Report> {
    table(bench, "signal-t1", &[(KEY, HASH), (TEXT, HASH), (FILE, HASH)])
}

/// Table 2.
pub fn short_text(bench: &mut Bench) -> Result<Report> {
    table(bench, "signal-t2", &[(TEXT, SEAL), (TEXT, OPEN)])
}

/// Table 3.
pub fn file(bench: &mut Bench) -> Result<Report> {
    table(bench, "signal-t3", &[(FILE, SEAL), (FILE, OPEN)])
}

fn table(bench: &mut Bench, id: &str, rows: &[(Input, Pair)]) -> Result<Report> {
    let columns: Vec<Column> = papers::signal()?.into_iter().filter(|c| c.table == id).collect();
    let mut programs = Programs::start(bench.profile)?;
    let blocks = Block::measure_all(bench, &mut programs, rows)?;
    let mut report = Report { about_speed: true, ..Report::default() };
    for block in &blocks {
        let paper = |op| columns.iter().find(|c| c.op == op && c.input == block.input.name);
        block.print(&mut report, paper(block.pair.new), paper(block.pair.old));
        block.shapes(&mut report);
    }
    for block in &blocks {
        cold::print(bench, &mut report, &programs, block)?;
    }
    for (input, pair) in rows {
        let runs = |op| columns.iter().find(|c| c.op == op && c.input == input.name);
        let Some((new, old)) = runs(pair.new).zip(runs(pair.old)) else { continue };
        let (wins, p) = sign_test(&new.tests, &old.tests);
        report.say(format!(
            "the paper's own ten runs, {} {}: new is faster in {wins}, sign test p = {p:.3}{}",
            pair.words,
            input.words,
            if p > 0.05 { ": not significant (E-G3)" } else { "" }
        ));
    }
    for error in columns.iter().flat_map(Column::errors) {
        report.say(format!("E-G1: {error}"));
    }
    report.absent = programs.absent;
    Ok(report)
}

/// Whether this processor has instructions for SHA-512, which should reverse Table 1.
fn has_sha512() -> bool {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    info.split_whitespace().any(|flag| flag == "sha512")
}

/// A claim on a ratio that must be below one.
fn faster(claim: String, ratio: Option<f64>) -> Option<Claim> {
    ratio.map(|ratio| Claim::below(claim, ratio, 1.0))
}
