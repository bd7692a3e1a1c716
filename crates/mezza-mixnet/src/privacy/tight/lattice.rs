//! Any number of rounds whose losses lie on a lattice, by one Fourier transform.
//!
//! The distribution of a round is tilted: the probability of a loss L is multiplied by `e^(t L)`
//! and divided by the sum M(t) of these products. The sum of k tilted losses is near epsilon, where
//! delta is decided, and `delta = M(t)^k e^(-t eps) x E max(0, 1 - e^(eps - loss)) e^(-t (loss -
//! eps))` of the tilted distribution. Errors are therefore small relative to the result, however
//! small it is. There are three:
//!
//! 1. The transform has n values; what lies n/2 or more from the mean of the sum counts somewhere else.
//!    Chernoff's bound says how much that is.
//! 2. Floating point in the transforms and the power, by [`fft::error_bound`]: absolute, for each value.
//! 3. Floating point in the probabilities of a round: relative, k times that of one.

use alloc::vec;
use alloc::vec::Vec;

use super::super::to_real;
use super::fft::{self, Complex};
use super::{Bracket, Count};
use crate::config::Mode;

/// Most values of a transform.
const VALUES_MAX: usize = 1 << 19;
/// Standard deviations of a discrete Gaussian beyond which the probability is below e^-800.
const DEVIATIONS: f64 = 40.0;
/// Largest probability of values outside of the transform.
const OUTSIDE_MAX: f64 = 1e-20;
/// Error of a probability, and of each exponent of 1 in it, in units of 2^-53.
const ROUNDINGS: f64 = 32.0;

/// The distribution of the loss that one count adds in a round: positions on the lattice, and their
/// probabilities.
type Law = Vec<(i64, f64)>;

/// The loss of one round: `drift + step x (place + place)`, with the positions of both counts on
/// the lattice.
pub struct Lattice {
    step: f64,
    drift: f64,
    laws: [Law; 2],
}

impl Lattice {
    /// Computes the distribution of a round in which a user moves these counts.
    pub fn from_counts(mode: Mode, counts: &[Count; 2]) -> Self {
        let scale = counts[0].scale;
        match mode {
            Mode::Gauss => {
                let step = f64::from(counts[0].shift) / (scale * scale);
                let drift = counts.iter().map(gauss_drift).sum();
                Self { step, drift, laws: [gauss_law(&counts[0]), gauss_law(&counts[1])] }
            }
            Mode::Paper => Self {
                step: 1.0 / scale,
                drift: 0.0,
                laws: [laplace_law(&counts[0]), laplace_law(&counts[1])],
            },
        }
    }

    /// Returns the delta of `rounds` rounds, or `None` if the sum does not fit into the largest
    /// transform.
    pub fn delta(&self, rounds: u64, epsilon: f64, tilt: f64) -> Option<Bracket> {
        let k = to_real(rounds);
        let mean = k * (self.drift + self.step * Tilted::from_lattice(self, 0.0).mean);
        // Without a tilt the window is centred at the mean, where delta is decided in this case.
        let tilt = if mean < epsilon { tilt } else { 0.0 };
        let tilted = Tilted::from_lattice(self, tilt);
        let n = tilted.transform_size(rounds)?;
        let sum = tilted.sum_law(rounds, n);
        // The first place of the window of n places around the mean.
        let first = nearest_whole(k * tilted.mean) - span(n / 2);
        let mut delta = 0.0;
        let mut weights = 0.0;
        for place in first..first + span(n) {
            let ahead = k * self.drift + self.step * far(place) - epsilon;
            if ahead > 0.0 {
                let weight = -libm::expm1(-ahead) * libm::exp(-tilt * ahead);
                // The second transform is an inverse in mirrored order, so the place is mirrored
                // too.
                let at = fft::mirror(wrap_index(place, n), n);
                delta += weight * sum.values[at].re / far(span(n));
                weights += weight;
            }
        }
        let factor = libm::exp(k * tilted.log + tilt * (k * self.drift - epsilon)).min(f64::MAX);
        let rounding = f64::EPSILON * ROUNDINGS * k * (1.0 + tilt * self.step * tilted.reach);
        let error =
            weights * sum.error + 2.0 * tilted.outside_mass(rounds, n) + delta.abs() * rounding;
        Some(Bracket::with_error(factor * delta, factor * error))
    }
}

/// The tilted distribution of one round.
struct Tilted {
    laws: [Law; 2],
    /// The logarithm of M(t), for the places only.
    log: f64,
    mean: f64,
    variance: f64,
    /// The largest distance of a place from 0.
    reach: f64,
}

/// The transform of the distribution of a sum, and the error of each value of its inverse.
struct Sum {
    values: Vec<Complex>,
    error: f64,
}

impl Tilted {
    fn from_lattice(lattice: &Lattice, tilt: f64) -> Self {
        let mut tilted =
            Self { laws: lattice.laws.clone(), log: 0.0, mean: 0.0, variance: 0.0, reach: 0.0 };
        for law in &mut tilted.laws {
            let log = log_moment(law, tilt * lattice.step);
            for (place, p) in law.iter_mut() {
                *p *= libm::exp(tilt * lattice.step * far(*place) - log);
            }
            let mean: f64 = law.iter().map(|(place, p)| far(*place) * p).sum();
            let square = |place: i64| (far(place) - mean) * (far(place) - mean);
            tilted.variance += law.iter().map(|(place, p)| square(*place) * p).sum::<f64>();
            tilted.reach += law.iter().map(|(place, _)| far(place.abs())).fold(0.0, f64::max);
            tilted.log += log;
            tilted.mean += mean;
        }
        tilted
    }

    /// Returns the number of values of the transform, or `None` above the limit.
    fn transform_size(&self, rounds: u64) -> Option<usize> {
        let mut n = 64;
        while self.outside_mass(rounds, n) > OUTSIDE_MAX {
            n *= 2;
            // A result with an unbounded error is worse than none (MIX-53).
            if n > VALUES_MAX {
                return None;
            }
        }
        Some(n)
    }

    /// Returns an upper bound of the probability that the sum is n/2 - 1 or more from its mean:
    /// Chernoff's bound, at the exponent that is best for a normal distribution.
    fn outside_mass(&self, rounds: u64, n: usize) -> f64 {
        let k = to_real(rounds);
        let far = far(span(n)) / 2.0 - 1.0;
        // The sum cannot reach the edge of the window.
        if k * 2.0 * self.reach < far {
            return 0.0;
        }
        let least = f64::MIN_POSITIVE;
        let at = (far / (k * self.variance).max(least)).min(64.0 / self.reach.max(least));
        let side = |at: f64| {
            let log: f64 = self.laws.iter().map(|law| log_moment(law, at)).sum();
            libm::exp(k * (log - at * self.mean) - at.abs() * far)
        };
        side(at) + side(-at)
    }

    /// Returns the distribution of the sum of `rounds` rounds, transformed twice.
    fn sum_law(&self, rounds: u64, n: usize) -> Sum {
        let [mut values, other] = [0, 1].map(|i| {
            let mut values = vec![Complex::default(); n];
            for (place, p) in &self.laws[i] {
                values[wrap_index(*place, n)].re += p;
            }
            fft::transform(&mut values);
            values
        });
        let k = to_real(rounds);
        let each = fft::error_bound(n);
        let mut sizes = 0.0;
        let mut error = 0.0;
        for (value, other) in values.iter_mut().zip(other) {
            *value = value.times(other);
            // Rounded up by the error of the transform, so that the bound of the power holds.
            let size = (value.size() + 3.0 * each).min(1.0);
            *value = value.power(rounds);
            let power = libm::exp((k - 1.0) * libm::log(size));
            error += power * k * (3.0 * each + 8.0 * f64::EPSILON);
            sizes += power;
        }
        fft::transform(&mut values);
        Sum { values, error: (error + each * sizes) / far(span(n)) }
    }
}

/// Returns `ln E e^(t place)`.
fn log_moment(law: &Law, t: f64) -> f64 {
    // The largest exponent is factored out, because the sum would overflow.
    let most = law.iter().map(|(place, _)| t * far(*place)).fold(f64::NEG_INFINITY, f64::max);
    let sum: f64 = law.iter().map(|(place, p)| p * libm::exp(t * far(*place) - most)).sum();
    most + libm::log(sum)
}

/// Returns the drift of a Gaussian count, whose loss is `shift / sigma^2 x deviation + shift^2 / (2
/// sigma^2)`.
fn gauss_drift(count: &Count) -> f64 {
    let shift = f64::from(count.shift) / count.scale;
    shift * shift / 2.0
}

fn gauss_law(count: &Count) -> Law {
    let most = nearest_whole(libm::ceil(DEVIATIONS * count.scale));
    let density = |x: i64| libm::exp(-far(x) * far(x) / (2.0 * count.scale * count.scale));
    let all: f64 = (-most..=most).map(density).sum();
    (-most..=most).map(|x| (x * i64::from(count.weight), density(x) / all)).collect()
}

/// Returns the distribution of the loss of a Laplace count, rounded up, in steps of 1/b: `|x -
/// shift| - |x|` at x = 1/2, 3/2, .. below the shift, the whole shift on one side of these, minus
/// the shift on the other.
fn laplace_law(count: &Count) -> Law {
    let shift = i64::from(count.shift);
    let weight = i64::from(count.weight);
    let inside = -libm::expm1(-1.0 / count.scale) / 2.0;
    let falls = |j: i64| libm::exp(-far(j) / count.scale);
    let mut law = vec![(weight * shift, 0.5), (-weight * shift, falls(shift) / 2.0)];
    law.extend((0..shift).map(|j| (weight * (shift - 1 - 2 * j), inside * falls(j))));
    law
}

/// Returns the index of a place among the n values of a transform.
const fn wrap_index(place: i64, n: usize) -> usize {
    place.rem_euclid(span(n)) as usize
}

/// Converts a number of values to a number of places.
#[expect(clippy::cast_possible_wrap, reason = "at most 2^19 values")]
const fn span(n: usize) -> i64 {
    n as i64
}

/// Converts a place to a real number, exactly, because the largest is below 2^53.
#[expect(clippy::cast_precision_loss, reason = "places lie below 2^53")]
const fn far(place: i64) -> f64 {
    place as f64
}

/// Returns the place nearest to a number.
fn nearest_whole(number: f64) -> i64 {
    libm::round(number) as i64
}
