//! T8: each server is killed and restarted; rounds must return within a few openings.

use anyhow::Result;
use mezza_mixnet::config::Mode;
use mezza_mixnet::noise::Law;

use crate::bench::Bench;
use crate::clock::median;
use crate::limit::Limit;
use crate::ours::mixes::{ProcessMixnet, ServerRole, events_of};
use crate::raw::RawFigure;
use crate::row::Row;

/// The times of the demonstration's conversation rounds: interval, ask, lead, collect, `mix_limit`,
/// ms.
const TIMES: [u32; 5] = [500, 100, 200, 250, 2_000];
/// T8: the number of rounds that may open before a round returns.
pub const LIMIT: Limit =
    Limit::at_most("T8", "rounds that open before one comes back", 2.0, "rounds");
/// Users of the load.
const USERS: u32 = 20;

/// Kills the servers one after another, several times.
pub fn measure_rows(bench: &mut Bench) -> Result<Vec<Row>> {
    let all = &ServerRole::ALL[..];
    let (victims, times) = bench.profile.pick((&[ServerRole::Mix(1)][..], 1), (all, 3), (all, 5));
    let law = Law { mode: Mode::Gauss, mu: 40, scale: 6 };
    let mut mixnet = ProcessMixnet::start(bench.folder.path(), USERS, law, TIMES)?;
    let mut load = mixnet.start_load(USERS, 100_000)?;
    let mut first = |since_ms: u64| {
        load.wait_until("a round that returns", |load| {
            let came_back = |round: &&serde_json::Value| {
                round["returned"].as_u64() > Some(0) && round["open_ms"].as_u64() >= Some(since_ms)
            };
            let rounds = events_of(load, "round");
            let opened = rounds.iter().filter(came_back).filter_map(|r| r["open_ms"].as_u64());
            opened.min()
        })
    };
    first(0)?;
    let mut worst = 0.0_f64;
    let mut words = Vec::new();
    let mut most = 0.0_f64;
    for victim in victims {
        let mut rounds = Vec::new();
        for round in 1..=times {
            let listens_ms = mixnet.restart_server(*victim)?;
            let waited_ms = first(listens_ms)?.saturating_sub(listens_ms);
            // The rounds that opened meanwhile and did not return.
            let opened = f64::from(u32::try_from(waited_ms)? / TIMES[0]);
            let op = format!("killed_{victim}");
            let figure = RawFigure::single("ours", &op, "count", "rounds", opened);
            bench.note_figure(&RawFigure { round, ..figure })?;
            rounds.push(opened);
        }
        most = rounds.iter().copied().fold(most, f64::max);
        let middle = median(&rounds);
        worst = worst.max(middle);
        words.push(format!("{victim} {middle:.0}"));
    }
    let text = "median of each, counted from when the process listens again";
    Ok(vec![
        LIMIT
            .make_row(worst)
            .with_detail(format!("{}; {text}; at most {most:.0}", words.join(", "))),
    ])
}
