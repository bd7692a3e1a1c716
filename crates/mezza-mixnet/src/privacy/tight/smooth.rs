//! Many rounds of discrete Gaussian noise, in closed form.
//!
//! S, the sum over all rounds of both counts, has variance V. Three steps lead from its
//! distribution to the normal one, each with its error:
//!
//! 1. The probability of each value of S is that of the normal density, but for a `ripple` that
//!    Poisson summation gives: up to frequency pi/4 the characteristic functions differ by a factor of
//!    at most `1 + 12 k e^(-pi^2 sigma^2)`, beyond it both are below `e^(-k sigma^2 pi^2 / 32)`.
//! 2. Beyond 40 standard deviations lies less than e^-800 (discrete Gaussians are subgaussian).
//! 3. `density x (1 - e^(eps - loss))` is log-concave, hence has one peak; the sum of such a function
//!    over the integers and its integral differ by at most the peak.
//!
//! The integral is the delta of the continuous Gaussian, `Phi(m/2 - eps/m) - e^eps Phi(-m/2 - eps/m)`,
//! m^2 the variance of the loss (Balle, Wang 2018).

use core::f64::consts::PI;

use super::super::{normal_tail, to_real};
use super::{Bracket, Count};

/// Largest error by step 1 for which this method is used.
const RIPPLE_MAX: f64 = 1e-30;
/// Fewest steps per standard deviation for this method. With fewer the lattice is used, which is
/// more precise there.
const STEPS_MIN: f64 = 1_000.0;
/// Standard deviations beyond which values of S are ignored.
const DEVIATIONS: f64 = 40.0;
/// Relative error of floating point in either term of the integral. The arguments of the error
/// function are below 40, so their last bit changes it by less than 40^2 bits.
const FLOAT: f64 = 1e-12;

/// Returns the delta without clamping, or `None` if there is too little noise for this method.
pub fn delta(counts: &[Count; 2], rounds: u64, epsilon: f64) -> Option<Bracket> {
    let k = to_real(rounds);
    // The step is the same for both counts, because the sum must be on one lattice.
    let step = f64::from(counts[0].shift) / (counts[0].scale * counts[0].scale);
    let variance = k * counts.iter().map(|c| square(f64::from(c.weight) * c.scale)).sum::<f64>();
    let deviation = step * libm::sqrt(variance);
    let least = counts.iter().map(|c| c.scale).fold(f64::INFINITY, f64::min);
    let each = 12.0 * k * ripple(least * least)
        + 2.0
            * libm::exp(-k * square(PI * counts[0].scale) / 32.0 + 3.0 * k * ripple(least * least));
    let rippled = each * (2.0 * DEVIATIONS * libm::sqrt(variance) + 1.0);
    // Outside of these limits the normal distribution is not a proven bound, and the lattice is
    // used.
    if rippled > RIPPLE_MAX || libm::sqrt(variance) < STEPS_MIN {
        return None;
    }
    let mean = deviation * deviation / 2.0;
    let above = normal_tail((epsilon - mean) / deviation);
    let beside = libm::exp(epsilon).min(f64::MAX) * normal_tail((epsilon + mean) / deviation);
    let error = peak_bound(step, deviation, epsilon) + FLOAT * (above + beside) + rippled;
    Some(Bracket::with_error(above - beside, error))
}

/// Returns an upper bound of the largest value of `density x (1 - e^(eps - loss))` on the lattice.
/// With z = loss - eps >= 0, the density decreases at least as fast as `e^(-r z)`, where r = (eps -
/// mean) / variance, and `1 - e^-z <= min(1, z)`.
fn peak_bound(step: f64, deviation: f64, epsilon: f64) -> f64 {
    let ahead = (epsilon - deviation * deviation / 2.0) / deviation;
    let highest = step / (deviation * libm::sqrt(2.0 * PI));
    if ahead <= 0.0 {
        return highest;
    }
    let falls = deviation / (core::f64::consts::E * ahead);
    highest * libm::exp(-ahead * ahead / 2.0) * falls.min(1.0)
}

/// Returns `e^(-pi^2 x)`.
pub fn ripple(x: f64) -> f64 {
    libm::exp(-PI * PI * x)
}

fn square(x: f64) -> f64 {
    x * x
}
