//! T6: memory of the entry server for each of thousands of TLS clients, and of the load that simulates
//! them.

use anyhow::{Context as _, Result, ensure};
use mezza_lanes::ifma;
use mezza_mixnet::config::Mode;
use mezza_mixnet::noise::Law;

use crate::bench::Bench;
use crate::limit::Limit;
use crate::ours::mixes::{ProcessMixnet, events_of};
use crate::row::Row;

/// T6: memory of a client on each side, and the onions that one core makes with vectors.
pub const LIMITS: [Limit; 3] = [
    Limit::at_most("T6", "entry, memory of a client", 16.0, "KiB"),
    Limit::at_most("T6", "load, memory of a client", 16.0, "KiB"),
    Limit::at_least("T6", "onions of the load by core", 100_000.0, "/s"),
];
/// The number of users in the goal.
const USERS: u32 = 10_000;
/// The number of users of the small load, which approximates a load without users.
const FEW: u32 = 10;

/// Measures a small load, then a large load, each for several rounds.
pub fn measure_rows(bench: &mut Bench) -> Result<Vec<Row>> {
    let users = bench.profile.pick(100, 2_000, USERS);
    let times = bench.profile.pick(
        [1_000, 200, 400, 400, 5_000],
        [5_000, 1_000, 3_000, 2_000, 20_000],
        [10_000, 2_000, 6_000, 4_000, 30_000],
    );
    let law = Law { mode: Mode::Gauss, mu: 40, scale: 6 };
    let mixnet = ProcessMixnet::start(bench.folder.path(), users + FEW, law, times)?;
    let (few, _) = run_load(&mixnet, FEW, 1)?;
    let before = mixnet.entry_program().resident_bytes()?;
    let (many, sum) = run_load(&mixnet, users, bench.profile.pick(1, 3, 5))?;
    let entry = |now: f64| (now - before) / f64::from(users) / 1_024.0;
    let clients = |now: f64| (now - few.most[0]) / f64::from(users - FEW) / 1_024.0;
    let most = [clients(many.most[0]), entry(many.most[1])];
    let held = [clients(many.held[0]), entry(many.held[1])];
    let onions = sum["onions_per_cpu_s"].as_f64().context("no rate")?;
    for (op, unit, value) in [
        ("entry_per_client", "KiB", most[1]),
        ("load_per_client", "KiB", most[0]),
        ("onions_per_core", "per_s", onions),
    ] {
        bench.note_count("ours", op, unit, value)?;
    }
    let count = |name: &str| sum[name].as_u64().unwrap_or_default();
    let words = format!(
        "{users} clients{}, {} rounds: {} replies right, {} wrong, {} missed",
        if users == USERS { "" } else { " instead of 10,000; use `--profile full`" },
        count("rounds"),
        count("right"),
        count("wrong"),
        count("missed")
    );
    let row = |limit: Limit, side: usize| {
        let held = format!("at its most; between rounds {:.1} KiB", held[side].min(most[side]));
        limit.make_row(most[side]).with_detail(words.clone()).with_detail(held)
    };
    let [entry, load, made] = LIMITS;
    let made = if ifma().is_some() {
        made.make_row(onions)
    } else {
        let fallback = format!("fallback {}: {onions:.0} onions/s by core", sum["kernel"]);
        made.not_here("avx512ifma missing").with_detail(fallback)
    };
    Ok(vec![row(entry, 1), row(load, 0), made])
}

/// Memory of a load and of the entry during a run, bytes.
#[derive(Clone, Copy)]
struct Memory {
    /// The maximum: load, entry.
    most: [f64; 2],
    /// The minimum since the first round returned, which is the memory held between rounds: load,
    /// entry.
    held: [f64; 2],
}

/// Runs a load. Returns the memory and the summary of the load.
fn run_load(
    mixnet: &ProcessMixnet,
    users: u32,
    rounds: u32,
) -> Result<(Memory, serde_json::Value)> {
    let mut load = mixnet.start_load(users, rounds)?;
    let mut memory = Memory { most: [0.0; 2], held: [f64::INFINITY; 2] };
    let sum = load.wait_until("the end of a load", |load| {
        // The load may have ended; then its memory is unknown, and this sample is skipped.
        if let (Ok(own), Ok(entry)) =
            (load.resident_bytes(), mixnet.entry_program().resident_bytes())
        {
            let has_begun = !events_of(load, "round").is_empty();
            for (side, now) in [own, entry].into_iter().enumerate() {
                memory.most[side] = memory.most[side].max(now);
                if has_begun {
                    memory.held[side] = memory.held[side].min(now);
                }
            }
        }
        events_of(load, "load").pop()
    })?;
    ensure!(sum["wrong"] == 0, "{} replies were wrong", sum["wrong"]);
    Ok((memory, sum))
}
