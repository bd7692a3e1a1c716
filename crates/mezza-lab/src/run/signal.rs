//! "Signal with Blake2, Chacha20 and Poly1305": its three tables, its two figures, and questions that it
//! leaves open.

mod figures;
mod poly;
mod rates;
mod rollback;
mod tables;
mod thief;

use anyhow::Result;

use super::experiment::{Experiment, Report};
use crate::bench::Bench;
use figures::{figure_5, figure_6};
pub use poly::common_block;
use tables::{report_file, report_hashes, short_text};

/// All experiments of this paper.
pub const ALL: &[Experiment] = &[
    Experiment::timed(
        "signal-t1",
        "Table 1: BLAKE2b against SHA-512",
        [15, 120, 400],
        report_hashes,
    )
    .with_peers(tables::PEERS),
    Experiment::timed("signal-t2", "Table 2: ChaCha20 on a short text", [15, 120, 400], short_text)
        .with_peers(tables::PEERS),
    Experiment::timed(
        "signal-t3",
        "Table 3: ChaCha20 on a 1.4 MB file",
        [20, 150, 500],
        report_file,
    )
    .with_peers(tables::PEERS),
    Experiment::calculated("signal-f5", "Figure 5: new client, old client", [3; 3], figure_5)
        .with_peers(figures::PEERS),
    Experiment::calculated("signal-f6", "Figure 6: security codes", [1; 3], figure_6),
    Experiment::timed(
        "signal-x",
        "rollback, thief, ablation, rates",
        [15, 200, 500],
        report_open_questions,
    )
    .with_peers(rates::PEERS),
];

/// Reports on questions that the paper leaves open. Attacks decide in every profile, speeds only in
/// quick and full.
fn report_open_questions(bench: &mut Bench) -> Result<Report> {
    let mut report = Report::default();
    rollback::add_results(&mut report)?;
    thief::add_results(&mut report)?;
    report.attacks = report.shapes.len();
    rates::add_results(bench, &mut report)?;
    report.about_speed = true;
    Ok(report)
}
