//! The discrete Gaussian, sampled exactly: Canonne, Kamath and Steinke, "The Discrete Gaussian for
//! Differential Privacy" (2020), algorithms 1 to 3. It uses rationals of u128 and no floating
//! point, so proofs about the distribution hold for the samples.

use mezza_core::CryptoRng;

use super::draw_below;
use crate::limits::SCALE_MAX;

/// Draws from `N_Z(0, sigma^2)`, in which x has the weight `exp(-x^2 / (2 sigma^2))`. Returns 0 for
/// sigma 0.
///
/// # Panics
/// If `sigma` is above [`SCALE_MAX`], which configs refuse.
pub fn draw(sigma: u32, rng: &mut dyn CryptoRng) -> i64 {
    assert!(sigma <= SCALE_MAX, "the scale is above its limit");
    if sigma == 0 {
        return 0;
    }
    // Algorithm 3 with t = sigma + 1. The numerator stays below 2^128 for |y| < 2^43; larger |y|
    // are proposed with a probability below e^-(2^22).
    let square = u128::from(sigma).pow(2);
    let t = u128::from(sigma) + 1;
    loop {
        let proposed = draw_laplace(t, rng);
        let far = u128::from(proposed.unsigned_abs()) * t;
        if exp_minus(far.abs_diff(square).pow(2), 2 * square * t.pow(2), rng) {
            return proposed;
        }
    }
}

/// Draws from the discrete Laplace distribution of an integer scale (algorithm 2), in which y has
/// the weight `exp(-|y| / t)`.
fn draw_laplace(t: u128, rng: &mut dyn CryptoRng) -> i64 {
    loop {
        // Remainder and quotient are drawn separately, which makes the distribution exact for an
        // integer scale.
        let u = draw_below(t, rng);
        if !exp_minus(u, t, rng) {
            continue;
        }
        let mut v = 0;
        while exp_minus(1, 1, rng) {
            v += 1;
        }
        let magnitude = (u + t * v) as i64;
        let negative = rng.next_u32() & 1 == 1;
        if negative && magnitude == 0 {
            continue; // or 0 would come twice as often
        }
        return if negative { -magnitude } else { magnitude };
    }
}

/// Returns true with probability `exp(-n/d)` (algorithm 1).
fn exp_minus(n: u128, d: u128, rng: &mut dyn CryptoRng) -> bool {
    (0..n / d).all(|_| exp_minus_fraction(1, 1, rng)) && exp_minus_fraction(n % d, d, rng)
}

/// Returns true with probability `exp(-n/d)` for `n <= d`, by the terms of the exponential series.
fn exp_minus_fraction(n: u128, d: u128, rng: &mut dyn CryptoRng) -> bool {
    let mut k = 1;
    while draw_below(d * k, rng) < n {
        k += 1;
    }
    // The alternating series of the exponential stops at an odd term with exactly this probability.
    k % 2 == 1
}
