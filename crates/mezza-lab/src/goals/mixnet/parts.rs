//! T5: the time of a round by mix and phase.

use anyhow::Result;
use mezza::testing::backend::kernel::kernel;
use mezza_mixnet::config::Mode;
use mezza_mixnet::noise::Law;

use crate::bench::Bench;
use crate::limit::Limit;
use crate::ours::mixes::{LabCoordinator, MixSetup, Shares};
use crate::raw::RawFigure;
use crate::row::Row;

/// T5: the share of jobs, links and waiting. The time of machines and of the threads around jobs and
/// links is printed below the row and does not count.
pub const LIMIT: Limit =
    Limit::at_least("T5", "jobs, links and waiting of a round", 90.0, "%").stretching(95.0);

/// Measures the shares of some rounds of one network.
///
/// # Errors
/// A round that breaks, or a raw line that cannot be written.
pub fn shares(bench: &mut Bench, users: u32, mu: u32, rounds: usize) -> Result<Shares> {
    let law = Law { mode: Mode::Paper, mu, scale: 0 };
    let setup = MixSetup { mixes: 3, users_max: users, law, kernel: kernel(), seed: bench.seed };
    let timings = LabCoordinator::measure(bench.folder.path(), setup, users, rounds)?;
    let shares = Shares::of(&timings);
    let parts = [("work", shares.work()), ("wait", shares.wait), ("links", shares.links())];
    for (op, value) in parts {
        bench.note(&RawFigure::single("ours", op, "process_cpu", "share", value))?;
    }
    Ok(shares)
}

/// Gives the row, with the table of shares below it.
pub fn run(bench: &mut Bench) -> Result<Vec<Row>> {
    let (users, mu, rounds) =
        bench.profile.pick((60, 10, 2), (2_000, 200, 10), (20_000, 1_000, 10));
    let shares = shares(bench, users, mu, rounds)?;
    let goal = format!("{}, {users} users, mu {mu}", LIMIT.goal);
    let row = LIMIT.row(100.0 * shares.work()).called(&goal);
    let row = shares.lines().into_iter().fold(row, Row::with);
    Ok(vec![row.with(format!(
        "of all CPU time, noise ahead included: cryptography {:.1} %, links {:.1} %",
        100.0 * shares.cryptography(),
        100.0 * shares.links()
    ))])
}
