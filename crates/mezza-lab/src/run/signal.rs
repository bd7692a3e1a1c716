//! "Signal with Blake2, Chacha20 and Poly1305": its three tables, its two figures, and what it
//! did not look at.

mod figures;
mod poly;
mod rates;
mod rollback;
mod tables;
mod thief;

use anyhow::Result;

use super::experiment::{Experiment, Report};
use crate::bench::Bench;

/// All of them.
pub const ALL: &[Experiment] = &[
    Experiment {
        id: "signal-t1",
        paper: "signal",
        about: "Table 1: BLAKE2b against SHA-512",
        rev: 1,
        peers: tables::PEERS,
        seconds: [15, 120, 400],
        exclusive: true,
        run: tables::hashes,
    },
    Experiment {
        id: "signal-t2",
        paper: "signal",
        about: "Table 2: ChaCha20-Poly1305 on a short text",
        rev: 1,
        peers: tables::PEERS,
        seconds: [15, 120, 400],
        exclusive: true,
        run: tables::short_text,
    },
    Experiment {
        id: "signal-t3",
        paper: "signal",
        about: "Table 3: ChaCha20-Poly1305 on a 1.4 MB file",
        rev: 1,
        peers: tables::PEERS,
        seconds: [20, 150, 500],
        exclusive: true,
        run: tables::file,
    },
    Experiment {
        id: "signal-f5",
        paper: "signal",
        about: "Figure 5: a new client writes to an old one",
        rev: 1,
        peers: figures::PEERS,
        seconds: [3, 3, 3],
        exclusive: false,
        run: figures::figure_5,
    },
    Experiment {
        id: "signal-f6",
        paper: "signal",
        about: "Figure 6: the security code of two new clients",
        rev: 1,
        peers: &[],
        seconds: [1, 1, 1],
        exclusive: false,
        run: figures::figure_6,
    },
    Experiment {
        id: "signal-x",
        paper: "signal",
        about: "rollback, thief, ablation, rates",
        rev: 1,
        peers: rates::PEERS,
        seconds: [15, 200, 500],
        exclusive: true,
        run: beside,
    },
];

/// What the paper did not look at. The attacks decide in every profile, the speeds in none but
/// quick and full.
fn beside(bench: &mut Bench) -> Result<Report> {
    let mut report = Report::default();
    rollback::add(&mut report)?;
    thief::add(&mut report)?;
    report.attacks = report.shapes.len();
    rates::add(bench, &mut report)?;
    report.about_speed = true;
    Ok(report)
}
