//! The distributions of the noise as probabilities, implemented independently of the samplers.
//! Samplers are tested against them, and an experiment's attacker uses them.

use mezza_mixnet::config::Mode;
use mezza_mixnet::noise::Law;

/// Number of scales above the mean beyond which probabilities count as 0: e^-40 for Laplace.
const REACH: f64 = 40.0;

/// The distribution of one count: discrete Gaussian or Laplace rounded up, clamped at 0.
#[derive(Clone, Copy, Debug)]
pub struct CountLaw {
    mode: Mode,
    mean: f64,
    scale: f64,
}

impl CountLaw {
    /// Returns the distribution of the singles of a conversation round.
    pub fn singles(law: Law) -> Self {
        Self { mode: law.mode, mean: f64::from(law.mu), scale: f64::from(law.scale) }
    }

    /// Returns the distribution of pairs: half the mean and half the scale. The Gaussian is over
    /// integers, so its halves are, too.
    pub fn pairs(law: Law) -> Self {
        let mu = f64::from(law.mu) / 2.0;
        let scale = f64::from(law.scale) / 2.0;
        match law.mode {
            Mode::Paper => Self { mode: law.mode, mean: mu, scale },
            Mode::Gauss => Self { mode: law.mode, mean: mu.floor(), scale: scale.floor() },
        }
    }

    /// Returns the probabilities of 0, 1, 2 and so on up to [`REACH`]. The probability of 0
    /// includes all clamped counts.
    pub fn list_probabilities(&self) -> Vec<f64> {
        let most = (self.mean + REACH * self.scale).ceil();
        let counts = std::iter::successors(Some(1.0), |n| Some(n + 1.0)).take_while(|n| *n < most);
        let above: Vec<f64> = counts.map(|n| self.ln_probability(n).exp()).collect();
        let clamped = (1.0 - above.iter().sum::<f64>()).max(0.0);
        std::iter::once(clamped).chain(above).collect()
    }

    /// Returns the natural logarithm of the probability of a count above 0.
    ///
    /// The weights of a discrete Gaussian have the sum of the continuous one, except for a share of
    /// `2 exp(-2 pi^2 sigma^2)`: 5e-9 for sigma 1.
    pub fn ln_probability(&self, count: f64) -> f64 {
        let Self { mode, mean, scale } = *self;
        let off = count - mean;
        if scale == 0.0 {
            return if count.to_bits() == mean.ceil().to_bits() { 0.0 } else { f64::NEG_INFINITY };
        }
        match mode {
            Mode::Gauss => {
                -off * off / (2.0 * scale * scale)
                    - (scale * (2.0 * std::f64::consts::PI).sqrt()).ln()
            }
            // The Laplace variable lies in (count - 1, count].
            Mode::Paper => {
                let low = (off - 1.0) / scale;
                let high = off / scale;
                if high <= 0.0 {
                    low.ln_1p_of_step(high)
                } else if low >= 0.0 {
                    (-high).ln_1p_of_step(-low)
                } else {
                    (1.0 - f64::midpoint(low.exp(), (-high).exp())).ln()
                }
            }
        }
    }
}

/// Computes `ln((e^high - e^low) / 2)` without losing the digits of a small step.
trait Step {
    fn ln_1p_of_step(self, high: f64) -> f64;
}

impl Step for f64 {
    fn ln_1p_of_step(self, high: f64) -> f64 {
        high + (-(self - high).exp_m1() / 2.0).ln()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn law(mode: Mode, mu: u32, scale: u32) -> Law {
        Law { mode, mu, scale }
    }

    #[test]
    fn probabilities_sum_up_to_one_and_to_their_halves() {
        for mode in [Mode::Gauss, Mode::Paper] {
            for count in
                [CountLaw::singles(law(mode, 400, 10)), CountLaw::pairs(law(mode, 800, 20))]
            {
                let sum = |from: u32, to: u32| {
                    (from..to).map(|n| count.ln_probability(f64::from(n)).exp()).sum::<f64>()
                };
                assert!((sum(1, 900) - 1.0).abs() < 1e-9, "{count:?}: {}", sum(1, 900));
                // Half of a Laplace distribution lies at or below its mean; for the Gaussian, half
                // of the mean's weight is added.
                let below = sum(1, 400);
                let at = sum(400, 401);
                let half = if mode == Mode::Gauss { below + at / 2.0 } else { below + at };
                assert!((half - 0.5).abs() < 1e-9, "{count:?}: {half}");
            }
        }
    }

    #[test]
    fn without_scale_one_count_is_certain() {
        let count = CountLaw::singles(law(Mode::Paper, 7, 0));
        assert_eq!([6.0, 7.0, 8.0].map(|n| count.ln_probability(n) > -1.0), [false, true, false]);
    }
}
