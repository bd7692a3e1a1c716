//! Exact statistics of a cell: binomial tails, Clopper-Pearson intervals, Holm's correction, chi-square.
#![expect(
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "counts stay far below 2^53, and a mode is not negative"
)]

use statrs::distribution::{
    Beta, Binomial, ChiSquared, ContinuousCDF as _, Discrete as _, DiscreteCDF as _,
};

/// The two-sided exact binomial p of `hits` among `runs` at probability `chance`: the probability of all
/// outcomes that are no more likely than this one.
pub fn binomial_p(hits: u64, runs: u64, chance: f64) -> f64 {
    let Ok(law) = Binomial::new(chance, runs) else { return f64::NAN };
    let mode = ((runs as f64 + 1.0) * chance).floor() as u64;
    let seen = law.pmf(hits) * (1.0 + 1e-9);
    let upper = |from: u64| if from == 0 { 1.0 } else { law.sf(from - 1) };
    // On each side of the mode the probabilities fall, so the tail begins at the first one that is
    // small enough.
    let p = if hits >= mode {
        let below = find_first(0, mode, |k| law.pmf(k) > seen);
        upper(hits) + if below == 0 { 0.0 } else { law.cdf(below - 1) }
    } else {
        let above = find_first(mode, runs + 1, |k| law.pmf(k) <= seen);
        law.cdf(hits) + if above > runs { 0.0 } else { upper(above) }
    };
    p.min(1.0)
}

/// Returns the first number from `low` to `high` for which `is` returns true, by bisection; `high`
/// if there is none.
fn find_first(mut low: u64, mut high: u64, is: impl Fn(u64) -> bool) -> u64 {
    while low < high {
        let middle = u64::midpoint(low, high);
        if is(middle) { high = middle } else { low = middle + 1 }
    }
    low
}

/// The Clopper-Pearson interval of 95 %.
pub fn clopper_pearson(hits: u64, runs: u64) -> [f64; 2] {
    let quantile =
        |a: f64, b: f64, p: f64| Beta::new(a, b).map_or(f64::NAN, |law| law.inverse_cdf(p));
    let k = hits as f64;
    let n = runs as f64;
    let low = if hits == 0 { 0.0 } else { quantile(k, n - k + 1.0, 0.025) };
    let high = if hits == runs { 1.0 } else { quantile(k + 1.0, n - k, 0.975) };
    [low, high]
}

/// Returns Holm's adjusted p-values, in the order of `p`.
pub fn adjust_holm(p: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_by(|a, b| p[*a].total_cmp(&p[*b]));
    let mut adjusted = vec![1.0; p.len()];
    let mut least = 0.0_f64;
    for (rank, at) in order.into_iter().enumerate() {
        least = least.max(p[at] * (p.len() - rank) as f64);
        adjusted[at] = least.min(1.0);
    }
    adjusted
}

/// Returns the chi-square p-value for counts with equal expectation.
pub fn uniform_p(counts: &[u64]) -> f64 {
    let total: u64 = counts.iter().sum();
    let each = total as f64 / counts.len() as f64;
    let statistic: f64 = counts.iter().map(|count| (*count as f64 - each).powi(2) / each).sum();
    ChiSquared::new(counts.len() as f64 - 1.0).map_or(f64::NAN, |law| law.sf(statistic))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-3 * b.abs().max(1e-6)
    }

    /// Expected values from `scipy`: `binomtest(k, n, p).pvalue`.
    #[test]
    fn exact_binomial_tests_are_those_of_a_table() {
        for (hits, runs, chance, p) in [
            (0, 10, 0.5, 0.001_953_1),
            (5, 10, 0.5, 1.0),
            (8, 10, 0.5, 0.109_375),
            (3, 15, 0.1, 0.184_061),
        ] {
            assert!(
                near(binomial_p(hits, runs, chance), p),
                "{hits} of {runs}: {}",
                binomial_p(hits, runs, chance)
            );
        }
        assert!(binomial_p(8_295, 16_590, 0.5) > 0.99);
        assert!(binomial_p(8_600, 16_590, 0.5) < 1e-5);
        assert!(binomial_p(16_590, 16_590, 0.5) < 1e-300);
    }

    #[test]
    fn intervals_are_those_of_clopper_and_pearson() {
        let [low, high] = clopper_pearson(8, 10);
        assert!(near(low, 0.443_904) && near(high, 0.974_789), "{low} {high}");
        assert_eq!(clopper_pearson(0, 10)[0].to_bits(), 0);
        assert_eq!(clopper_pearson(10, 10)[1].to_bits(), 1.0_f64.to_bits());
    }

    #[test]
    fn holm_raises_the_least_most() {
        let adjusted = adjust_holm(&[0.01, 0.04, 0.03]);
        assert!(near(adjusted[0], 0.03) && near(adjusted[1], 0.06) && near(adjusted[2], 0.06));
    }

    #[test]
    fn equal_counts_are_uniform_and_others_are_not() {
        assert!(uniform_p(&[100; 16]) > 0.999);
        assert!(uniform_p(&[200, 100, 100, 100]) < 1e-6);
    }
}
