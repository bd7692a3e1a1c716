//! Tables 1 to 3: the paper's primitives and Signal's, by provider, warm and cold, with and
//! without the processor's instructions for AES and SHA.

mod block;
mod cold;
mod pair;
mod programs;

use anyhow::Result;

use crate::bench::Bench;
use crate::papers::{self, Column, sign_test};
use crate::run::experiment::Report;
use block::Block;
pub use block::group_digits;
use pair::{FILE, HASH, Input, KEY, OPEN, Pair, SEAL, TEXT};
use programs::Programs;

/// The peer programs of these tables.
pub const PEERS: &[&str] = &["providers", "soft", "jvm"];

/// Measures table 1.
pub fn report_hashes(bench: &mut Bench) -> Result<Report> {
    report_table(bench, "signal-t1", &[(KEY, HASH), (TEXT, HASH), (FILE, HASH)])
}

/// Measures table 2.
pub fn short_text(bench: &mut Bench) -> Result<Report> {
    report_table(bench, "signal-t2", &[(TEXT, SEAL), (TEXT, OPEN)])
}

/// Measures table 3.
pub fn report_file(bench: &mut Bench) -> Result<Report> {
    report_table(bench, "signal-t3", &[(FILE, SEAL), (FILE, OPEN)])
}

fn report_table(bench: &mut Bench, id: &str, rows: &[(Input, Pair)]) -> Result<Report> {
    let columns: Vec<Column> =
        papers::load_signal()?.into_iter().filter(|c| c.table == id).collect();
    let mut programs = Programs::start_all(bench.profile)?;
    let blocks = Block::measure_all(bench, &mut programs, rows)?;
    let mut report = Report { about_speed: true, ..Report::default() };
    for block in &blocks {
        let paper = |op| columns.iter().find(|c| c.op == op && c.input == block.input.name);
        block.print_table(&mut report, paper(block.pair.new), paper(block.pair.old));
        block.add_claims(&mut report);
    }
    report.add_line("new: the paper's primitive, old: Signal's; the paper ran Java and gives neither its device nor the length of");
    report.add_line("its short text: 32 B is ours");
    report.add_line("in brackets the least and the greatest ratio of a round; on a busy machine the first number is that of");
    report.add_line("the least times of both, and may lie outside");
    for block in &blocks {
        cold::print_cold(bench, &mut report, &programs, block)?;
    }
    for (input, pair) in rows {
        let runs = |op| columns.iter().find(|c| c.op == op && c.input == input.name);
        let Some((new, old)) = runs(pair.new).zip(runs(pair.old)) else { continue };
        let (wins, p) = sign_test(&new.tests, &old.tests);
        report.add_line(format!(
            "the paper's own ten runs, {} {}: new is faster in {wins}, sign test p = {p:.3}{}",
            pair.words,
            input.words,
            if p > 0.05 { ": not significant (E-G3)" } else { "" }
        ));
    }
    for error in columns.iter().flat_map(Column::list_errors) {
        report.add_line(format!("E-G1: {error}"));
    }
    report.absent = programs.absent;
    Ok(report)
}
