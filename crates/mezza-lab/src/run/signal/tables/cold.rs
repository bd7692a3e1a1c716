//! The first ten calls of fresh processes, as the paper measured. A text to open was sealed in the
//! same process before, so decryption starts half warm.

use anyhow::Result;

use super::block::{Block, FILE_BYTES, group_digits};
use super::programs::{AWS_LC, BC, JDK, Programs, Provider, RUSTCRYPTO, start_fresh};
use crate::bench::{Bench, Series};
use crate::clock::median;
use crate::peer::Cold;
use crate::raw::RawFigure;
use crate::run::experiment::Report;
use crate::shape::Claim;

/// Runs each operation of a cell in fresh processes, natively and in the JVM.
///
/// # Errors
/// If a program does not start.
pub fn print_cold(
    bench: &mut Bench,
    report: &mut Report,
    programs: &Programs,
    block: &Block,
) -> Result<()> {
    let input = block.input;
    let pair = block.pair;
    let providers = match pair.gcm {
        None => [[RUSTCRYPTO; 2], [BC, JDK]],
        Some(_) => [[AWS_LC; 2], [JDK; 2]],
    };
    let processes = bench.profile.pick(1, 5, 30);
    report.add_line(format!(
        "{} {}, cold: {processes} fresh processes each; call 1 / mean of 1-10 / of 2-10",
        pair.words, input.words
    ));
    for providers in providers {
        for (op, provider) in [pair.new, pair.old].into_iter().zip(providers) {
            if programs.find_program(provider).is_none() {
                continue;
            }
            let name = format!("{op} {}", provider.name);
            let cold = match measure_cell(bench, provider, op, input.size, processes)? {
                Ok(cold) => cold,
                Err(reason) => {
                    report.add_line(format!("  {name}: - ({reason})"));
                    continue;
                }
            };
            let [first, ten, rest] = [cold.first, cold.ten, cold.rest].map(group_digits);
            report.add_line(format!("  {name:<36}{first:>15} / {ten} / {rest} ns"));
            // For a file, the work itself dominates the first call.
            let warm = block.find_series(provider, op).map(Series::deciding_cost);
            if let Some(warm) = warm.filter(|_| input.size < FILE_BYTES) {
                let claim = format!("{op} {}, {}: cold / warm (E-G2)", input.words, provider.name);
                report.shapes.push(Claim::above(claim, cold.ten / warm, 1.0));
            }
        }
    }
    Ok(())
}

/// Measures a cell in several processes. Returns the medians.
fn measure_cell(
    bench: &mut Bench,
    provider: Provider,
    op: &str,
    size: usize,
    processes: usize,
) -> Result<Result<Cold, String>> {
    let asked = format!("{}:{op}", provider.prefix);
    let size = bench.fit_bytes(size);
    let mut all = Vec::new();
    for _ in 0..processes {
        let mut peer = match start_fresh(provider)? {
            Ok(peer) => peer,
            Err(reason) => return Ok(Err(reason)),
        };
        match peer.measure_cold(&asked, size) {
            Ok(cold) => all.push(cold),
            Err(error) => return Ok(Err(format!("{error:#}"))),
        }
    }
    let of = |figure: fn(&Cold) -> f64| all.iter().map(figure).collect::<Vec<f64>>();
    let who = format!("variant:{}", provider.name);
    let op = format!("cold_{op}_{size}");
    bench.note_figure(&RawFigure::from_samples(
        &who,
        &op,
        "thread_cpu",
        "ns",
        of(|cold| cold.ten),
    ))?;
    let [first, ten, rest] =
        [of(|cold| cold.first), of(|cold| cold.ten), of(|cold| cold.rest)].map(|all| median(&all));
    Ok(Ok(Cold { first, ten, rest }))
}
