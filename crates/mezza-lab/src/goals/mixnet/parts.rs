//! T5: the time of a round, by mix and phase.

use anyhow::Result;
use mezza::testing::backend::kernel::choose_kernel;
use mezza_mixnet::config::Mode;
use mezza_mixnet::noise::Law;

use crate::bench::Bench;
use crate::limit::Limit;
use crate::ours::mixes::{LabCoordinator, MixSetup, Shares};
use crate::raw::RawFigure;
use crate::row::Row;

/// T5: the share of jobs, links and waiting. The time of state machines and of the threads around
/// jobs and links is printed below the row and is not part of the share.
pub const LIMIT: Limit =
    Limit::at_least("T5", "jobs, links and waiting of a round", 90.0, "%").stretching(95.0);

/// Measures the shares of some rounds of one network.
///
/// # Errors
/// A failed round, or a raw line that cannot be written.
pub fn measure_shares(bench: &mut Bench, users: u32, mu: u32, rounds: usize) -> Result<Shares> {
    let law = Law { mode: Mode::Paper, mu, scale: 0 };
    let setup =
        MixSetup { mixes: 3, users_max: users, law, kernel: choose_kernel(), seed: bench.seed };
    let timings = LabCoordinator::measure_rounds(bench.folder.path(), setup, users, rounds)?;
    let shares = Shares::from_rounds(&timings);
    let parts = [("work", shares.work()), ("wait", shares.wait), ("links", shares.links_share())];
    for (op, value) in parts {
        bench.note_figure(&RawFigure::single("ours", op, "process_cpu", "share", value))?;
    }
    Ok(shares)
}

/// Makes the row, with the table of shares below.
pub fn measure_rows(bench: &mut Bench) -> Result<Vec<Row>> {
    let (users, mu, rounds) =
        bench.profile.pick((60, 10, 2), (2_000, 200, 10), (20_000, 1_000, 10));
    let shares = measure_shares(bench, users, mu, rounds)?;
    let goal = format!("{}, {users} users, mu {mu}", LIMIT.goal);
    let row = LIMIT.make_row(100.0 * shares.work()).with_goal(&goal);
    let row = shares.lines().into_iter().fold(row, Row::with_detail);
    Ok(vec![row.with_detail(format!(
        "of all CPU time, noise ahead included: cryptography {:.1} %, links {:.1} %",
        100.0 * shares.cryptography_share(),
        100.0 * shares.links_share()
    ))])
}
