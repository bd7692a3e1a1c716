//! One to six mixes: the work of a round grows with the square of their number, because the noise
//! of a mix is unwrapped by all later mixes.

use std::time::Duration;

use anyhow::Result;
use mezza::testing::backend::kernel::choose_kernel;
use mezza_mixnet::config::Mode;
use mezza_mixnet::noise::Law;

use crate::bench::Bench;
use crate::clock::{median, to_ns};
use crate::fit::fit_line;
use crate::ours::mixes::{LabCoordinator, MixSetup, RoundTiming};
use crate::papers;
use crate::run::experiment::Report;
use crate::shape::Claim;

/// Maximum number of mixes.
const MIXES: u32 = 6;
/// Minimum R^2 of the line over ladders.
const R2: f64 = 0.98;
/// Link delays in a round of three mixes of ours; the entry is a separate hop.
const LINKS_OF_THREE: u32 = 8;

/// Returns the layers that are unwrapped in a round: n for each user, and for the `noise` of each
/// mix one by every later mix.
fn count_layers(mixes: u32, users: u32, noise: u32) -> f64 {
    f64::from(mixes * users + noise * mixes * (mixes - 1) / 2)
}

/// Adds the results.
///
/// # Errors
/// A failed round, or a raw line that cannot be written.
pub fn add_results(bench: &mut Bench, report: &mut Report) -> Result<()> {
    let (users, mu, rounds) = bench.profile.pick((20, 4, 1), (300, 200, 7), (1_000, 1_000, 11));
    report.add_line("");
    report.add_line(format!(
        "mixes, {users} users, mu {mu}: CPU and wall time of a round, median of {rounds}"
    ));
    let mut points = Vec::new();
    for mixes in 1..=MIXES {
        let law = Law { mode: Mode::Paper, mu, scale: 0 };
        let kernel = choose_kernel();
        let seed = bench.seed;
        let setup = MixSetup { mixes: mixes as usize, users_max: users, law, kernel, seed };
        let timings = LabCoordinator::measure_rounds(bench.folder.path(), setup, users, rounds)?;
        let middle = |of: fn(&RoundTiming) -> Duration| {
            median(&timings.iter().map(|timing| to_ns(of(timing))).collect::<Vec<_>>())
        };
        let cpu = middle(|timing| timing.cpu);
        let wall = middle(|timing| timing.wall);
        bench.note_count("ours", &format!("cpu_mixes_{mixes}"), "ns", cpu)?;
        let ladders = count_layers(mixes, users, 2 * mu);
        report.add_line(format!(
            "  {mixes} mixes {ladders:>8.0} ladders {:>9.1} ms CPU {:>9.1} ms",
            cpu / 1e6,
            wall / 1e6
        ));
        points.push((vec![ladders], cpu));
    }
    let fit = fit_line(&points);
    let claim = "CPU time is linear in n N + M n (n - 1) / 2, R^2";
    report.shapes.push(Claim::above(claim, fit.r2, R2));
    let printed = papers::load_vuvuzela()?.find_first("vuvuzela-x", "link delays in a round");
    report.add_line(format!(
        "link delay t, three servers: the reproduction {printed:.0} t; ours {LINKS_OF_THREE} t, four links each way: \
         the entry is a hop of its own; counted, not measured"
    ));
    if f64::from(LINKS_OF_THREE) > printed {
        report.add_loss(format!(
            "link delays of a round: {LINKS_OF_THREE} t against {printed:.0} (reproduction)"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ladders_by_hand() {
        // 3 N + 6 mu: each of two mixes adds 2 mu messages.
        assert!((count_layers(3, 100, 2 * 10) - 360.0).abs() < 1e-9);
        assert!((count_layers(1, 100, 20) - 100.0).abs() < 1e-9);
    }
}
