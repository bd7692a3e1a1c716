//! M4: the CPU time of the device for a note, compared with the four operations that every note
//! needs.
//!
//! Each `delivered` makes the next note a turn of the ratchet, which takes a fresh key pair and a
//! shared secret; the envelope costs the same again.

use std::hint::black_box;

use anyhow::Result;
use mezza::testing::backend::AwsLc;
use mezza::testing::process::rng::OsRng;
use mezza_core::{Backend, PortableBackend, StaticKey};
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{Rng as _, SeedableRng as _};

use super::pair::DevicePair;
use crate::bench::Bench;
use crate::clock::{BenchRound, Spread, busy_words, clock_cost_ns, cost_ns, median, quiet_values};
use crate::limit::Limit;
use crate::raw::RawFigure;
use crate::row::Row;

/// M4: a multiple of the time of the four operations.
pub const LIMIT: Limit =
    Limit::at_most("M4", "device CPU per sent note / its four operations", 1.5, "x");
/// Sets of four operations in one sample.
const BATCH: u32 = 16;

/// The costs of one round.
#[derive(Clone, Copy)]
struct Costs {
    sent: Spread,
    read: Spread,
    receipt: Spread,
    four: Spread,
}

impl Costs {
    fn ratio(&self) -> f64 {
        self.sent.median / self.four.median
    }
}

/// Measures with aws-lc, which decides, and with the portable code for comparison.
pub fn measure_rows(bench: &mut Bench) -> Result<Vec<Row>> {
    let fast = measure_backend::<AwsLc>(bench, "ours", "limit:aws-lc")?;
    let portable = measure_backend::<PortableBackend>(bench, "variant:portable", "limit:portable")?;
    Ok(make_rows(&fast, &portable))
}

fn measure_backend<B: Backend>(
    bench: &mut Bench,
    who: &'static str,
    limit: &'static str,
) -> Result<Vec<BenchRound<Costs>>> {
    let (rounds, notes) = bench.profile.pick((1, 30), (5, 200), (11, 500));
    let mut pair = DevicePair::<B>::new(mezza::testing::clock::now())?;
    let mut rng = ChaCha20Rng::seed_from_u64(bench.seed);
    let mut all = Vec::new();
    for _ in 0..notes / 10 {
        pair.send_note()?;
    }
    for round in 1..=rounds {
        let told = bench.watch.run_rounds(|| one_round(&mut pair, notes, &mut rng))?;
        for BenchRound { value, busy } in &told {
            let lines = [
                (who, "note_sent", value.sent),
                (who, "note_read", value.read),
                (who, "receipt", value.receipt),
                (limit, "four_operations", value.four),
            ];
            for (who, op, spread) in lines {
                let clock = "thread_cpu";
                let unit = "ns";
                let busy = *busy;
                bench.raw.push_figure(&RawFigure { who, op, clock, unit, round, spread, busy })?;
            }
        }
        all.extend(told);
        pair.take_batches();
    }
    Ok(all)
}

/// Measures notes and operations in turns; the order within a turn is random.
fn one_round<B: Backend>(
    pair: &mut DevicePair<B>,
    notes: u32,
    rng: &mut ChaCha20Rng,
) -> Result<Costs> {
    let look_ns = clock_cost_ns()?;
    let mut sent = vec![];
    let mut read = vec![];
    let mut receipt = vec![];
    let mut four = vec![];
    // Notes and operations alternate in short turns, so that load disturbs both equally.
    let turns = notes.div_ceil(10);
    for _ in 0..turns {
        let operations_first = rng.next_u64().is_multiple_of(2);
        if operations_first {
            four.push(four_operations::<B>()?);
        }
        for _ in 0..10 {
            let cost = pair.send_note()?;
            sent.push(cost.sent - cost.sent_looks * look_ns);
            read.push(cost.read);
            receipt.push(cost.receipt);
        }
        if !operations_first {
            four.push(four_operations::<B>()?);
        }
    }
    let [sent, read, receipt, four] = [sent, read, receipt, four].map(Spread::from_samples);
    Ok(Costs { sent, read, receipt, four })
}

/// Returns the ns of two X25519 and two multiplications of the base point.
fn four_operations<B: Backend>() -> Result<f64> {
    let [own, their] = [(), ()].map(|()| StaticKey::random::<B>(&mut OsRng));
    let work = || {
        for _ in 0..2 * BATCH {
            drop(black_box(black_box(&own).diffie_hellman::<B>(their.public_key())));
            black_box(B::public_key(&B::prepare_scalar(black_box(own.scalar()))));
        }
    };
    Ok(cost_ns(work)?.1 / f64::from(BATCH))
}

fn make_rows(fast: &[BenchRound<Costs>], portable: &[BenchRound<Costs>]) -> Vec<Row> {
    let row = |goal: &str, rounds: &[BenchRound<Costs>]| {
        let costs = quiet_values(rounds);
        let ratios: Vec<f64> = costs.iter().map(Costs::ratio).collect();
        let range = crate::clock::sort_samples(ratios.clone());
        let us = |figure: fn(&Costs) -> f64| {
            median(&costs.iter().map(figure).collect::<Vec<_>>()) / 1_000.0
        };
        let words = format!(
            "sent {:.1} us (MAD {:.1}), four operations {:.1} us; rounds [{:.2}, {:.2}] of {}; \
             reader {:.1} us, receipt {:.1} us",
            us(|c| c.sent.median),
            us(|c| c.sent.mad),
            us(|c| c.four.median),
            range.first().copied().unwrap_or(f64::NAN),
            range.last().copied().unwrap_or(f64::NAN),
            range.len(),
            us(|c| c.read.median),
            us(|c| c.receipt.median),
        );
        let row = LIMIT.make_row(median(&ratios)).with_goal(goal).with_detail(words);
        busy_words(rounds).into_iter().fold(row, Row::with_detail)
    };
    let ours = row(LIMIT.goal, fast).with_detail(
        "aws-lc backend, thread CPU of `handle` and `poll` for the command and the relay's answer, \
         reading the clock taken off",
    );
    let beside = row("the same with the portable backend", portable);
    vec![ours, beside.into_context()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::Verdict;
    use mezza::testing::api::Exit;

    fn round(sent: f64, busy: bool) -> BenchRound<Costs> {
        let one = Spread::single;
        let costs = Costs { sent: one(sent), read: one(1.0), receipt: one(1.0), four: one(100.0) };
        BenchRound { value: costs, busy }
    }

    #[test]
    fn the_ratio_decides_and_busy_rounds_do_not() {
        let good = [round(140.0, false), round(150.0, false), round(900.0, true)];
        let bad = [round(151.0, false)];
        let verdicts = |rows: Vec<Row>| rows.iter().map(Row::verdict).collect::<Vec<_>>();
        assert_eq!(verdicts(make_rows(&good, &bad)), [Verdict::Holds, Verdict::FallsShort]);
        assert_eq!(verdicts(make_rows(&bad, &good)), [Verdict::FallsShort, Verdict::Holds]);
        assert_eq!(crate::row::exit_code(&make_rows(&good, &bad), true), Exit::Done);
        assert_eq!(crate::row::exit_code(&make_rows(&bad, &good), true), Exit::No);
    }

    #[test]
    fn lab_14_a_speed_names_its_build_and_the_fallback() {
        let rows = make_rows(&[round(100.0, false)], &[round(300.0, false)]);
        assert!(rows[0].details.iter().any(|detail| detail.contains("aws-lc")));
        assert!(rows[1].goal.contains("portable"));
        assert!(crate::raw::describe_build()["rustc"].as_str().unwrap().starts_with("rustc "));
    }
}
