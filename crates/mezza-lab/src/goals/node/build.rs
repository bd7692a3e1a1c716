//! M7: the CPU time of a cold build, from the ledger of `cargo xtask weigh`.

use std::collections::BTreeMap;

use anyhow::Result;

use crate::bench::Bench;
use crate::limit::Limit;
use crate::place;
use crate::raw::RawFigure;
use crate::row::Row;

/// M7: CPU seconds of all crates, and their ratio to a widely used crate. `cargo xtask weigh` has
/// the same two limits.
pub const LIMITS: [Limit; 2] = [
    Limit::at_most("M7", "build of the program, CPU", 600.0, "s"),
    Limit::at_most("M7", "all crates / libsqlite3-sys", 10.0, "x"),
];
const MEASURE: &str = "libsqlite3-sys";
/// Ticks per second in the ledger.
const TICKS_PER_S: f64 = 100.0;

/// Reads the ledger, and builds nothing.
pub fn measure_rows(bench: &mut Bench) -> Result<Vec<Row>> {
    let [seconds, times] = LIMITS;
    let path = place::target_folder().join("weigh").join("ledger");
    let Ok(ledger) = std::fs::read_to_string(path) else {
        let reason = "no figures of a cold build; make them with `cargo xtask weigh`";
        return Ok(vec![seconds.not_here(reason)]);
    };
    let Some((sum, measure)) = sum_seconds(&ledger) else {
        let reason = "the figures are of an unfinished build; make them with `cargo xtask weigh`";
        return Ok(vec![seconds.not_here(reason)]);
    };
    for (op, value) in [("build_all", sum), ("build_measure", measure)] {
        bench.note_figure(&RawFigure::single("ours", op, "process_cpu", "s", value))?;
    }
    let wall = "wall times of `cargo xtask up` and `test` are read off those commands";
    Ok(vec![seconds.make_row(sum).with_detail(wall), times.make_row(sum / measure)])
}

/// Returns the seconds of all crates and of the reference crate; `None` if the build did not
/// finish.
fn sum_seconds(ledger: &str) -> Option<(f64, f64)> {
    let mut ticks = BTreeMap::<&str, u32>::new();
    for line in ledger.lines() {
        let (name, cost) = line.rsplit_once(' ')?;
        *ticks.entry(name).or_default() += cost.parse::<u32>().ok()?;
    }
    let seconds = |ticks: u32| f64::from(ticks) / TICKS_PER_S;
    let measure = ticks.get(MEASURE).copied().filter(|ticks| *ticks > 0)?;
    // The program itself is built last: without its line the build did not finish.
    ticks.contains_key("mezza").then(|| (seconds(ticks.values().sum()), seconds(measure)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_by_hand() {
        let ledger = "libsqlite3-sys 100\nx 250\nlibsqlite3-sys 50\nmezza 600\n";
        assert_eq!(sum_seconds(ledger), Some((10.0, 1.5)));
        assert_eq!(sum_seconds("x 250\nmezza 1\n"), None);
        assert_eq!(sum_seconds("libsqlite3-sys 100\nx 250\n"), None);
        assert_eq!(sum_seconds("libsqlite3-sys none\nmezza 1\n"), None);
    }
}
