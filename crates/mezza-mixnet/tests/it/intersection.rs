//! The attack that must succeed, at the strength that theory predicts: an active adversary knocks
//! Alice out for k rounds and asks whether she talks with Bob or idles. It runs everything but one
//! mix, so that it sees the counts of dead drops but for the noise of that mix.

use mezza_mixnet::config::Mode;
use mezza_mixnet::noise::Law;
use mezza_mixnet::privacy::normal_tail;
use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng as _;

/// A change of the numbers of dead drops with one access, and with two.
#[derive(Clone, Copy)]
struct CountShift {
    singles: f64,
    pairs: f64,
}

/// The effect of Alice's absence: talking leaves Bob alone at their drop, idling
/// takes a single away.
const TALKS: CountShift = CountShift { singles: 1.0, pairs: -1.0 };
const IDLES: CountShift = CountShift { singles: -1.0, pairs: 0.0 };

/// The log-likelihood ratio of talking against idling, summed over k rounds of noise.
fn ratio(law: Law, k: u32, truth: CountShift, rng: &mut ChaCha20Rng) -> f64 {
    let b = f64::from(law.scale);
    let mean = f64::from(law.mu);
    let score = |x: f64, scale: f64| match law.mode {
        Mode::Gauss => -x * x / (2.0 * scale * scale),
        Mode::Paper => -x.abs() / scale,
    };
    (0..k)
        .map(|_| {
            let counts = law.draw_conversation(rng);
            let singles = f64::from(counts.singles) - mean + truth.singles;
            let pairs = f64::from(counts.pairs) - mean / 2.0 + truth.pairs;
            let under = |guess: CountShift| {
                score(singles - guess.singles, b) + score(pairs - guess.pairs, b / 2.0)
            };
            under(TALKS) - under(IDLES)
        })
        .sum()
}

/// How much better than a coin the best guess is: 0 to 1.
fn advantage(law: Law, k: u32, trials: u32, seed: u64) -> f64 {
    let mut rng = ChaCha20Rng::seed_from_u64(seed);
    let hits = (0..trials)
        .filter(|trial| {
            let talks = trial % 2 == 0;
            let truth = if talks { TALKS } else { IDLES };
            (ratio(law, k, truth, &mut rng) > 0.0) == talks
        })
        .count();
    2.0 * f64::from(u32::try_from(hits).expect("a small count")) / f64::from(trials) - 1.0
}

#[test]
fn without_noise_one_round_tells_all() {
    let law = Law { mode: Mode::Gauss, mu: 1_000, scale: 0 };
    // The scale of the score alone; the draws are constants.
    let mut rng = ChaCha20Rng::seed_from_u64(0);
    let counts = law.draw_conversation(&mut rng);
    assert_eq!((counts.singles, counts.pairs), (1_000, 500), "any change of a count shows");
}

#[test]
fn slow_the_intersection_attack_is_as_strong_as_predicted() {
    for (k, trials) in [(10, 20_000_u32), (100, 6_000), (1_000, 1_600)] {
        let theory = 1.0 - 2.0 * normal_tail((8.0 * f64::from(k)).sqrt() / 100.0 / 2.0);
        // Three standard deviations of the experiment.
        let error = 3.0 / f64::from(trials).sqrt();
        for mode in [Mode::Gauss, Mode::Paper] {
            let law = Law { mode, mu: 1_000, scale: 100 };
            let found = advantage(law, k, trials, u64::from(k));
            // Both laws tell equally much about a small shift: 1 / b^2.
            assert!(
                (found - theory).abs() < error + 0.02,
                "{mode:?}, {k} rounds: {found}, theory {theory}"
            );
        }
    }
}
