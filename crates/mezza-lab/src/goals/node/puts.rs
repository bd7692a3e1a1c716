//! M2: mails of 1 KiB that a relay stores durably per second.

use std::path::{Path, PathBuf};

use anyhow::Result;
use mezza::testing::puts::{durable_puts, single_puts};

use crate::bench::Bench;
use crate::clock::{BenchRound, busy_words, median, quiet_values};
use crate::limit::Limit;
use crate::raw::RawFigure;
use crate::row::Row;

/// M2: puts per second, their ratio to puts without sync, and the gain of group commit, which is
/// context.
pub const LIMITS: [Limit; 3] = [
    Limit::at_least("M2", "durable puts of 1 KiB", 15_000.0, "/s"),
    Limit::at_least("M2", "durable puts / the same with synchronous=OFF", 0.3, "x"),
    Limit::none("M2", "durable puts / one commit each", "x"),
];

/// Puts per second of one round.
#[derive(Clone, Copy)]
struct Rates {
    full: f64,
    off: f64,
    single: f64,
}

/// Measures group commit, group commit without sync, and one commit per put, in turn.
pub fn measure_rows(bench: &mut Bench) -> Result<Vec<Row>> {
    let (puts, singles) = bench.profile.pick((1_000, 20), (20_000, 500), (100_000, 2_000));
    let rounds = bench.profile.pick(1, 3, 5);
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let folder = bench.folder.path().to_owned();
    let mut all: Vec<BenchRound<Rates>> = Vec::new();
    let mut made = 0;
    for round in 1..=rounds {
        let work = || {
            made += 1;
            let folder = folder.join(format!("puts-{made}"));
            runtime.block_on(one_round(&folder, puts, singles))
        };
        let told = bench.watch.run_rounds(work)?;
        for BenchRound { value, busy } in &told {
            let lines = [
                ("ours", "put", value.full),
                ("limit:sqlite", "put_unsynced", value.off),
                ("limit:sqlite", "put_single", value.single),
            ];
            for (who, op, rate) in lines {
                let figure = RawFigure::single(who, op, "wall", "per_s", rate);
                bench.raw.push_figure(&RawFigure { round, busy: *busy, ..figure })?;
            }
        }
        all.extend(told);
    }
    Ok(make_rows(&all))
}

async fn one_round(folder: &Path, puts: u64, singles: u64) -> Result<Rates> {
    std::fs::create_dir_all(folder)?;
    let folder = PathBuf::from(folder);
    let off = durable_puts(&folder, puts, true).await?.per_second();
    let full = durable_puts(&folder, puts, false).await?.per_second();
    let single = single_puts(&folder, singles).await?.per_second();
    std::fs::remove_dir_all(folder)?;
    Ok(Rates { full, off, single })
}

fn make_rows(all: &[BenchRound<Rates>]) -> Vec<Row> {
    let counted = quiet_values(all);
    let of = |figure: fn(&Rates) -> f64| median(&counted.iter().map(figure).collect::<Vec<_>>());
    let beside = format!(
        "group commit behind its thread, SQLite synchronous=FULL, median of {} rounds; OFF {:.0} /s, \
         one commit each {:.0} /s",
        counted.len(),
        of(|r| r.off),
        of(|r| r.single)
    );
    let [full, share, single] = LIMITS;
    let mut first = full.make_row(of(|r| r.full)).with_detail(beside);
    if let Some(words) = busy_words(all) {
        first = first.with_detail(words);
    }
    vec![first, share.make_row(of(|r| r.full / r.off)), single.make_row(of(|r| r.full / r.single))]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::Verdict;

    fn verdicts(full: f64, off: f64) -> Vec<Verdict> {
        let round = BenchRound { value: Rates { full, off, single: 300.0 }, busy: false };
        make_rows(&[round]).iter().map(Row::verdict).collect()
    }

    #[test]
    fn each_goal_fails_alone() {
        use Verdict::{FallsShort, Holds, Shown};
        assert_eq!(verdicts(20_000.0, 50_000.0), [Holds, Holds, Shown]);
        assert_eq!(verdicts(14_000.0, 40_000.0), [FallsShort, Holds, Shown]);
        assert_eq!(verdicts(20_000.0, 80_000.0), [Holds, FallsShort, Shown]);
    }
}
