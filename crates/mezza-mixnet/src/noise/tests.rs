use super::*;
use crate::limits::SCALE_MAX;
use alloc::vec::Vec;
use rand_chacha::ChaCha20Rng;
use rand_core::{SeedableRng, TryRng};

const DRAWS: u32 = 1_000_000;

fn dice(n: u8) -> ChaCha20Rng {
    ChaCha20Rng::from_seed([n; 32])
}

/// A generator that always returns the same number.
struct Stuck(u64);

impl TryRng for Stuck {
    type Error = core::convert::Infallible;
    fn try_next_u32(&mut self) -> Result<u32, Self::Error> {
        Ok(self.0 as u32)
    }
    fn try_next_u64(&mut self) -> Result<u64, Self::Error> {
        Ok(self.0)
    }
    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Self::Error> {
        bytes.fill(self.0 as u8);
        Ok(())
    }
}

impl rand_core::TryCryptoRng for Stuck {}

/// Returns the chi-square statistic of observed counts against probabilities, as standard
/// deviations above its mean. Cells with an expected count below 20 are merged.
fn chi_square(observed: &[u32], probability: &[f64]) -> f64 {
    let total = f64::from(observed.iter().sum::<u32>());
    let mut sum = 0.0;
    let mut cells = 0.0;
    let mut rest = (0.0, 0.0);
    let mut add = |seen: f64, expected: f64| {
        sum += (seen - expected).powi(2) / expected;
        cells += 1.0;
    };
    for (seen, p) in observed.iter().zip(probability) {
        let seen = f64::from(*seen);
        let expected = p * total;
        if expected < 20.0 {
            rest = (rest.0 + seen, rest.1 + expected);
        } else {
            add(seen, expected);
        }
    }
    if rest.1 > 1.0 {
        add(rest.0, rest.1);
    }
    let free: f64 = cells - 1.0;
    (sum - free) / libm::sqrt(2.0 * free)
}

#[test]
fn mix_19_slow_the_gaussian_has_its_exact_law() {
    for (seed, sigma) in [(1, 1_u32), (2, 3), (3, 20)] {
        let mut rng = dice(seed);
        let reach = i64::from(sigma) * 8;
        let weight = |x: i64| libm::exp(-((x * x) as f64) / (2.0 * f64::from(sigma).powi(2)));
        let all: f64 = (-reach..=reach).map(weight).sum();
        let probability = (-reach..=reach).map(|x| weight(x) / all).collect::<Vec<_>>();
        let mut seen = alloc::vec![0_u32; probability.len()];
        for _ in 0..DRAWS {
            let x = gauss::draw(sigma, &mut rng);
            seen[usize::try_from(x + reach).expect("within eight sigma")] += 1;
        }
        let deviation = chi_square(&seen, &probability);
        assert!(deviation < 5.0, "sigma {sigma}: {deviation} standard deviations");
    }
}

#[test]
fn mix_19_no_draw_leaves_128_bits_at_the_largest_scale() {
    let mut rng = dice(4);
    let sigma = f64::from(SCALE_MAX);
    let draws = 20_000;
    let squares: f64 =
        (0..draws).map(|_| (gauss::draw(SCALE_MAX, &mut rng) as f64 / sigma).powi(2)).sum();
    assert!((squares / f64::from(draws) - 1.0).abs() < 0.05, "variance {squares}");
    assert_eq!(gauss::draw(0, &mut rng), 0);
}

#[test]
fn mix_19_paper_never_takes_the_logarithm_of_zero() {
    let law = Law { mode: Mode::Paper, mu: 1_000, scale: 10 };
    // -10 ln(2^-54) = 374.3: the farthest that 53 bits reach.
    assert_eq!(law.draw_bucket(&mut Stuck(0)), 1_375);
    assert_eq!(law.draw_bucket(&mut Stuck(u64::MAX)), 1_000);
}

#[test]
fn the_laplace_counts_have_their_law() {
    let mu = 20.0;
    let b = 5.0;
    // The cumulative law of Lap(mu, b); counts are rounded up.
    let below = |x: f64| {
        if x < mu { libm::exp((x - mu) / b) / 2.0 } else { 1.0 - libm::exp((mu - x) / b) / 2.0 }
    };
    let cells = 160_u32;
    let probability = (0..cells)
        .map(|n| if n == 0 { below(0.0) } else { below(f64::from(n)) - below(f64::from(n) - 1.0) })
        .collect::<Vec<_>>();
    let law = Law { mode: Mode::Paper, mu: 20, scale: 5 };
    let mut rng = dice(5);
    let mut seen = alloc::vec![0_u32; cells as usize];
    for _ in 0..DRAWS {
        seen[law.draw_bucket(&mut rng).min(cells - 1) as usize] += 1;
    }
    let deviation = chi_square(&seen, &probability);
    assert!(deviation < 5.0, "{deviation} standard deviations");
}

#[test]
fn mix_16_slow_counts_are_fresh_independent_and_of_half_size_for_pairs() {
    let mut rng = dice(6);
    let law = Law { mode: Mode::Gauss, mu: 100, scale: 20 };
    let draws = 100_000;
    let mut sums = [0.0; 2];
    let mut squares = [0.0; 2];
    let mut product = 0.0;
    for _ in 0..draws {
        let counts = law.draw_conversation(&mut rng);
        let both = [f64::from(counts.singles) - 100.0, f64::from(counts.pairs) - 50.0];
        for i in 0..2 {
            sums[i] += both[i];
            squares[i] += both[i] * both[i];
        }
        product += both[0] * both[1];
    }
    let n = f64::from(draws);
    assert!((sums[0] / n).abs() < 0.4 && (sums[1] / n).abs() < 0.2, "means {sums:?}");
    assert!((squares[0] / n / 400.0 - 1.0).abs() < 0.03, "variance of singles");
    assert!((squares[1] / n / 100.0 - 1.0).abs() < 0.03, "variance of pairs");
    assert!((product / n / 200.0).abs() < 0.02, "correlation {product}");
}

#[test]
fn mix_16_slow_negative_counts_become_zero_as_often_as_the_calculator_charges() {
    let mut rng = dice(7);
    let law = Law { mode: Mode::Gauss, mu: 20, scale: 20 };
    let draws = 200_000;
    let zeros = (0..draws).filter(|_| law.draw_bucket(&mut rng) == 0).count() as f64;
    // P[N_Z(0, 400) <= -20] by the exact law; the calculator charges Phi(-1) for the clamped part.
    let weight = |x: i32| libm::exp(-f64::from(x * x) / 800.0);
    let all: f64 = (-200..=200).map(weight).sum();
    let exact: f64 = (-200..=-20).map(weight).sum::<f64>() / all;
    let clamped: f64 = (-200..=-21).map(weight).sum::<f64>() / all;
    assert!((zeros / f64::from(draws) - exact).abs() < 0.005);
    assert!(clamped <= crate::privacy::normal_tail(1.0));
}

#[test]
fn a_scale_of_zero_gives_exactly_the_mean() {
    let mut rng = dice(8);
    for mode in [Mode::Paper, Mode::Gauss] {
        let law = Law { mode, mu: 100, scale: 0 };
        assert_eq!(law.draw_conversation(&mut rng), Counts { singles: 100, pairs: 50 });
        assert_eq!(law.draw_conversation(&mut rng).message_count(), 200);
        assert_eq!(law.draw_bucket(&mut rng), 100);
    }
}

#[test]
fn no_draw_is_above_the_bound_that_a_peer_checks() {
    let mut rng = dice(9);
    for mode in [Mode::Paper, Mode::Gauss] {
        let law = Law { mode, mu: 10, scale: 30 };
        for _ in 0..20_000 {
            let messages = u64::from(law.draw_conversation(&mut rng).message_count());
            assert!(messages <= law.messages_max(Service::Conversation, 1));
            let bucket = u64::from(law.draw_bucket(&mut rng));
            assert!(2 * bucket <= law.messages_max(Service::Call, 1));
        }
    }
    let law = Law { mode: Mode::Gauss, mu: 45_710, scale: 6_892 };
    assert_eq!(law.messages_max(Service::Conversation, 1), 256_828);
    assert_eq!(law.messages_max(Service::Invitation, 4), 5 * (45_710 + 82_704));
}
