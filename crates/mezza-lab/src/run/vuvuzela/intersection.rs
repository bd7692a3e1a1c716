//! An attack that must succeed as often as theory predicts: an active adversary disconnects Alice
//! for k rounds and guesses whether she is in a conversation with Bob or idle. It runs all mixes
//! but one, so it sees the counts of dead drops with the noise of that mix.

use anyhow::Result;
use mezza_mixnet::config::Mode;
use mezza_mixnet::noise::Law;
use mezza_mixnet::privacy::normal_tail;
use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng as _;

use super::law::CountLaw;
use crate::bench::Bench;
use crate::parallel;
use crate::run::experiment::Report;
use crate::shape::Claim;

/// The effect of Alice's absence on (singles, pairs). In a conversation Bob is alone at the dead
/// drop; if Alice is idle, there is one single less.
const TALKS: [f64; 2] = [1.0, -1.0];
const IDLES: [f64; 2] = [-1.0, 0.0];
/// Rounds in which Alice is disconnected, with the trials of a quick run.
const ROUNDS: [(u32, u32); 3] = [(10, 40_000), (100, 8_000), (1_000, 2_000)];
/// The distributions of the noise, with names.
const MODES: [(Mode, &str); 2] = [(Mode::Gauss, "Gauss"), (Mode::Paper, "Laplace")];
/// The scale of the noise in the simulation.
const SCALE: u32 = 100;
/// The mean of the noise, so far from 0 that nothing is clamped.
const MU: u32 = 10_000;
/// Maximum deviation of the simulation, in standard errors.
const ERRORS: f64 = 4.0;
/// The preset `standard`: sigma, rounds, and the maximum advantage in the specification.
const STANDARD: (f64, f64, f64) = (7_784.0, 240_000.0, 0.080);

/// Computes `2 Phi(mu_G / 2) - 1` with `mu_G = sqrt(8 k) / sigma`, for k rounds with a shift of 2
/// at sigma and of 1 at sigma / 2 each.
fn theoretical_advantage(rounds: f64, scale: f64) -> f64 {
    1.0 - 2.0 * normal_tail((8.0 * rounds).sqrt() / scale / 2.0)
}

/// Simulates the best guess. Returns its advantage over a coin, 0 to 1, and the standard error.
fn measure_advantage(law: Law, k: u32, trials: u32, seed: u64) -> (f64, f64) {
    let mut rng = ChaCha20Rng::seed_from_u64(seed);
    let counts = [CountLaw::singles(law), CountLaw::pairs(law)];
    let hits = (0..trials).filter(|trial| {
        let talks = trial % 2 == 0;
        let truth = if talks { TALKS } else { IDLES };
        let ratio: f64 = (0..k).map(|_| draw_ratio(law, &counts, truth, &mut rng)).sum();
        (ratio > 0.0) == talks
    });
    let hits = f64::from(u32::try_from(hits.count()).unwrap_or(trials));
    let trials = f64::from(trials);
    let p = hits / trials;
    (2.0 * p - 1.0, 2.0 * (p * (1.0 - p) / trials).sqrt())
}

/// Returns the log-likelihood ratio of conversation to idling after one round.
fn draw_ratio(law: Law, counts: &[CountLaw; 2], truth: [f64; 2], rng: &mut ChaCha20Rng) -> f64 {
    let drawn = law.draw_conversation(rng);
    let drawn = [f64::from(drawn.singles), f64::from(drawn.pairs)];
    let under = |guess: [f64; 2]| {
        let off = |i: usize| counts[i].ln_probability(drawn[i] + truth[i] - guess[i]);
        off(0) + off(1)
    };
    under(TALKS) - under(IDLES)
}

/// Adds the results.
///
/// # Errors
/// A raw line that cannot be written.
pub fn add_results(bench: &mut Bench, report: &mut Report) -> Result<()> {
    report.add_line("");
    report.add_line(
        "intersection, simulated: Alice is cut off for k rounds; does she talk, or idle? Advantage",
    );
    report.add_line(format!(
        "  {:>7} {:>8} {:>10} {:>16} {:>16}",
        "k", "noise", "theory", "Gauss", "Laplace"
    ));
    let none = Law { mode: Mode::Gauss, mu: MU, scale: 0 };
    let (found, _) = measure_advantage(none, 1, 1_000, bench.seed);
    bench.note_count("ours:none", "advantage_1", "share", found)?;
    report.add_line(format!("  {:>7} {:>8} {:>10.3} {found:>16.3}", 1, "none", 1.0));
    let holds = found.to_bits() == 1.0_f64.to_bits();
    report.shapes.push(Claim::is("without noise one round tells all", format!("{found}"), holds));
    let profile = bench.profile;
    let seed = bench.seed;
    let jobs = ROUNDS.iter().flat_map(|round| MODES.iter().map(|(mode, _)| (*round, *mode)));
    let found = parallel::map_parallel(jobs.collect(), |((k, trials), mode)| {
        let trials = profile.pick(20_000 / k + 20, trials, 4 * trials);
        measure_advantage(Law { mode, mu: MU, scale: SCALE }, k, trials, seed ^ u64::from(k))
    });
    for ((k, _), found) in ROUNDS.into_iter().zip(found.chunks(MODES.len())) {
        let theory = theoretical_advantage(f64::from(k), f64::from(SCALE));
        let mut cells = Vec::new();
        for ((_, who), (found, error)) in MODES.into_iter().zip(found.iter().copied()) {
            bench.note_count(&format!("ours:{who}"), &format!("advantage_{k}"), "share", found)?;
            cells.push(format!("{found:.3} +- {error:.3}"));
            let claim = format!("{who}, k = {k}: |measured - theory| in standard errors");
            report.shapes.push(Claim::below(claim, (found - theory).abs() / error, ERRORS));
        }
        report.add_line(format!(
            "  {k:>7} {SCALE:>8} {theory:>10.3} {:>16} {:>16}",
            cells[0], cells[1]
        ));
    }
    let (sigma, k, cap) = STANDARD;
    let standard = theoretical_advantage(k, sigma);
    report.add_line(format!("  {k:>7} {sigma:>8} {standard:>10.3}  the preset `standard`"));
    let claim = "the preset `standard` after all its rounds, theory";
    report.shapes.push(Claim::at_most(claim, standard, cap));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn theory_gives_the_values_of_the_specification() {
        let of = |k| format!("{:.3}", theoretical_advantage(k, 100.0));
        assert_eq!([10.0, 100.0, 1_000.0].map(of), ["0.036", "0.112", "0.345"]);
    }

    #[test]
    fn slow_noise_of_half_the_scale_is_caught() {
        let law = Law { mode: Mode::Gauss, mu: MU, scale: 50 };
        let (found, error) = measure_advantage(law, 50, 1_500, 7);
        let off = |scale| (found - theoretical_advantage(50.0, scale)).abs() / error;
        assert!(off(50.0) < ERRORS && off(100.0) > ERRORS, "{found} +- {error}");
    }

    #[test]
    fn lab_8_equal_seeds_give_equal_bytes() {
        let law = Law { mode: Mode::Paper, mu: MU, scale: SCALE };
        let of = |seed| measure_advantage(law, 10, 200, seed).0.to_bits();
        assert_eq!(of(1), of(1));
        assert_ne!(of(1), of(2));
    }
}
