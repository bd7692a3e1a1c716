//! The goals of the mesh: the speed of crowds compared with the bit tests that they need, the cost
//! of a cell on the air, and the cost of a node.

mod idle;
mod node;

use anyhow::Result;

use super::idle::NEEDS;
use super::measurement::Measurement;
use crate::bench::Bench;
use crate::clock::cost_ns;
use crate::limit::Limit;
use crate::ours::crowd::{Moves, Scene};
use crate::row::Row;

/// T1: simulated seconds per CPU second, as a share of the bit tests that one core computes in that
/// time.
pub const SPEEDS: [Limit; 3] = [
    Limit::at_least("T1", "600 users who sit / counted bit tests", 0.08, "x"),
    Limit::at_least("T1", "600 users who walk / counted bit tests", 0.045, "x"),
    Limit::at_least("T1", "1,000 users who sit / counted bit tests", 0.12, "x"),
];
/// T4 and T5, from the same runs.
pub const AIR: [Limit; 4] = [
    Limit::at_least("T4", "arrived, 600 users who sit", 99.9, "%"),
    Limit::at_most("T4", "mean latency, 600 users who sit", 1.2, "s"),
    Limit::at_least("T4", "arrived, 600 users who walk", 99.0, "%"),
    Limit::at_most("T5", "bytes sent for each cell and device", 290.0, "bytes"),
];
/// All measurements.
pub const ALL: &[Measurement] = &[
    Measurement::new(&[&SPEEDS, &AIR], "nothing", [2, 20, 120], measure_crowds),
    Measurement::new(&[&node::LIMITS], "nothing", [1, 5, 20], node::measure_rows),
    Measurement::new(&[&idle::LIMITS], NEEDS, [10, 140, 680], idle::measure_rows),
];

/// Seconds of simulation before messages are counted.
const SETTLE_S: u64 = 30;
/// Neighbours of a grid position away from the edge.
const NEIGHBOURS: f64 = 8.0;

/// Measures the crowds.
fn measure_crowds(bench: &mut Bench) -> Result<Vec<Row>> {
    let seconds = bench.profile.pick(20, 120, 600);
    let scenes = [
        ("600 sit", Scene::ours(600, bench.seed)),
        ("600 walk", Scene { moves: Moves::Walk, ..Scene::ours(600, bench.seed) }),
        ("1,000 sit", Scene::ours(1_000, bench.seed)),
    ];
    let mut rows = Vec::new();
    for ((limit, (name, scene)), at) in SPEEDS.into_iter().zip(scenes).zip(0..) {
        // All clocks are right, since the load is measured here.
        let scene = Scene { good_percent: 100, ..scene };
        let users = u32::try_from(scene.users).map_or(0.0, f64::from);
        let mut stage = scene.begin_stage();
        stage.run_for(SETTLE_S);
        stage.start_counting();
        let rate = bit_tests()?;
        let ((), ns) = cost_ns(|| stage.run_for(seconds))?;
        let simulated = f64::from(u32::try_from(seconds).unwrap_or(0)) / (ns / 1e9);
        // Each user receives each cell once, and each neighbour announces it.
        let tests = users * users / 30.0 * (1.0 + NEIGHBOURS);
        let share = simulated * tests / rate;
        for (op, unit, value) in
            [("speed", "s_per_s", simulated), ("bit_tests", "per_s", rate), ("share", "x", share)]
        {
            bench.note_count(&format!("ours:{name}"), op, unit, value)?;
        }
        let words =
            format!("{simulated:.0} simulated s per CPU s; {:.0} million bit tests/s", rate / 1e6);
        rows.push(limit.make_row(share).with_detail(words).with_detail(CONTEXT));
        rows.extend(make_air_rows(bench, at, &stage)?);
    }
    Ok(rows)
}

/// Published figures of other simulators, not measured here.
const CONTEXT: &str = "context: 25.8 (OMNeT++ 7, an idealised model) and 4.2 (ns-3, another model), both at 600 users \
                       on another machine, are not in this run";

/// Makes the rows about the air, from the same run.
fn make_air_rows(
    bench: &mut Bench,
    at: usize,
    stage: &crate::ours::crowd::Stage,
) -> Result<Vec<Row>> {
    let (mean, high) = stage.latency();
    // Messages that are under way at the end are not lost.
    let on_the_way =
        100.0 * mean / f64::from(u32::try_from(bench.profile.pick(20, 120, 600)).unwrap_or(1));
    let arrived = (100.0 * stage.share_delivered() + on_the_way).min(100.0);
    let words = format!("95 % within {high:.2} s");
    bench.note_count(&format!("ours:{at}"), "arrived", "percent", arrived)?;
    bench.note_count(&format!("ours:{at}"), "latency", "s", mean)?;
    Ok(match at {
        0 => vec![
            AIR[0]
                .make_row(arrived)
                .with_detail("those on their way in the end are counted as arrived"),
            AIR[1].make_row(mean).with_detail(words),
            AIR[3].make_row(stage.bytes_per_cell()),
        ],
        1 => vec![AIR[2].make_row(arrived).with_detail(words)],
        _ => Vec::new(),
    })
}

/// Returns the bit tests per second of one thread. Each tests a bit of a column as large as in a
/// crowd; the previous result selects the bit.
fn bit_tests() -> Result<f64> {
    const TESTS: u32 = 20_000_000;
    let columns: Vec<u64> = (0..4_096_u64).map(|n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect();
    let mut best = f64::INFINITY;
    for _ in 0..3 {
        let (found, ns) = cost_ns(|| {
            let mut at = 1_u32;
            let mut found = 0_u32;
            for _ in 0..TESTS {
                at = at.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                let word = columns[(at >> 20) as usize];
                found += (word >> (at >> 8 & 63)) as u32 & 1;
            }
            found
        })?;
        std::hint::black_box(found);
        best = best.min(ns);
    }
    Ok(f64::from(TESTS) / (best / 1e9))
}
