//! The tight accountant: a lower and an upper bound of the least delta of equal rounds.
//!
//! The privacy loss of one outcome is `ln(P(outcome) / Q(outcome))` for two stories P and Q, and
//! `delta(eps) = E_P max(0, 1 - e^(eps - loss))`. Losses of rounds add up. For both distributions
//! the loss of a round is on a lattice `drift + step x S` with an integer S, so nothing must be
//! rounded:
//!
//! ```text
//! gauss    S = X1 + w X2 for the two counts that move, X discrete Gaussians; w = 2 (conversation), 1
//! laplace  rounded up, a count is geometric on both sides of its mean: S = -2s, .. 2s for each count
//! ```
//!
//! [`smooth`] computes the sum of many rounds of `gauss` in closed form, and [`lattice`] any other
//! sum by one Fourier transform. Both return a bound of their error. Counts clamped at 0 are not
//! included; [`add_clamping`] charges them.

mod fft;
mod lattice;
mod smooth;

use core::f64::consts::PI;

use super::{Mode, RoundsSpent, Service, normal_tail, to_real};
use lattice::Lattice;

/// A lower and an upper bound of the least delta.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bracket {
    /// No delta below this one holds.
    pub low: f64,
    /// This delta holds.
    pub high: f64,
}

impl Bracket {
    /// Returns the bounds of a delta that was computed with an absolute error of at most `error`.
    /// It ignores values beyond 40 standard deviations of a discrete Gaussian, which have a
    /// probability below e^-800.
    fn with_error(delta: f64, error: f64) -> Self {
        let error = error + f64::MIN_POSITIVE;
        Self { low: (delta - error).clamp(0.0, 1.0), high: (delta + error).clamp(0.0, 1.0) }
    }
}

/// One of the two counts that a user moves. Its noise is `mean + deviation`, and it moves by
/// `shift`.
#[derive(Clone, Copy)]
struct Count {
    mean: f64,
    scale: f64,
    shift: u32,
    /// Number of lattice steps per unit of this count.
    weight: u32,
}

impl Count {
    /// Returns a lower and an upper bound of the probability that the noise is `n` or less.
    fn at_most(&self, mode: Mode, n: u32) -> Bracket {
        let below = self.mean - f64::from(n);
        // The bounds of the tail hold from one step below the mean. Above it the trivial bounds are
        // returned.
        if below < 1.0 {
            return Bracket { low: 0.0, high: 1.0 };
        }
        match mode {
            // The sum over a tail is between two integrals: the one over all integers is between
            // sigma sqrt(2 pi) and 1 + 3 e^(-2 pi^2 sigma^2) times as much.
            Mode::Gauss => Bracket {
                low: normal_tail(below / self.scale)
                    / (1.0 + 3.0 * smooth::ripple(2.0 * self.scale * self.scale)),
                high: normal_tail((below - 1.0) / self.scale),
            },
            Mode::Paper => {
                let tail = libm::exp(-below / self.scale) / 2.0;
                Bracket { low: tail, high: tail }
            }
        }
    }

    /// Returns an upper bound of the probability that the noise is `n`.
    fn point_mass(&self, mode: Mode, n: u32) -> f64 {
        let below = (self.mean - f64::from(n)) / self.scale;
        match mode {
            Mode::Gauss => libm::exp(-below * below / 2.0) / (self.scale * libm::sqrt(2.0 * PI)),
            Mode::Paper => libm::exp(-below.abs()) / (2.0 * self.scale),
        }
    }
}

/// Returns a lower and an upper bound of the least delta for `epsilon` over rounds of one kind;
/// Rényi's [`delta`](super::delta) is above both. Returns `None` if there is no result: the mean or
/// scale of a conversation is odd, which no config allows, or the sum of the losses has more than
/// 2^19 steps.
pub fn tight_delta(spent: &RoundsSpent, epsilon: f64) -> Option<Bracket> {
    if spent.rounds == 0 {
        return Some(Bracket { low: 0.0, high: 0.0 });
    }
    // Without noise some outcome is possible in one story only, so delta is 1.
    if spent.law.scale == 0 {
        return Some(Bracket { low: 1.0, high: 1.0 });
    }
    let counts = moved_counts(spent)?;
    let free = unclamped_delta(spent, &counts, epsilon)?;
    Some(add_clamping(spent, &counts, free, epsilon))
}

/// Returns the counts that a user moves in a round.
fn moved_counts(spent: &RoundsSpent) -> Option<[Count; 2]> {
    let mu = spent.law.mu;
    let scale = spent.law.scale;
    let slots = u32::from(spent.slots);
    let mean = f64::from(mu);
    let wide = f64::from(scale);
    if spent.service != Service::Conversation {
        return Some([Count { mean, scale: wide, shift: 1, weight: 1 }; 2]);
    }
    // Odd values would shift the second count off the lattice. No config has odd values.
    let even = mu.is_multiple_of(2) && (spent.law.mode == Mode::Paper || scale.is_multiple_of(2));
    even.then_some([
        Count { mean, scale: wide, shift: 2 * slots, weight: 1 },
        Count { mean: mean / 2.0, scale: wide / 2.0, shift: slots, weight: 2 },
    ])
}

/// Returns the delta of noise that may be negative.
fn unclamped_delta(spent: &RoundsSpent, counts: &[Count; 2], epsilon: f64) -> Option<Bracket> {
    let smooth = match spent.law.mode {
        Mode::Gauss => smooth::delta(counts, spent.rounds, epsilon),
        Mode::Paper => None,
    };
    // The order with the least Rényi bound tilts the distribution to the region where the loss is
    // near epsilon.
    let tilt = || super::divergence_delta(&[*spent], epsilon).1 - 1.0;
    smooth.or_else(|| {
        Lattice::from_counts(spent.law.mode, counts).delta(spent.rounds, epsilon, tilt())
    })
}

/// Adds the loss by clamping at 0, if one count moves up and the other one down.
///
/// Upper bound: an outcome that is possible in one story only counts as lost, and so does each
/// clamped count. Lower bound: the outcomes in favour of P are those lost by the first count, those
/// with a clamped second count, and of the others those without clamping.
fn add_clamping(spent: &RoundsSpent, counts: &[Count; 2], free: Bracket, epsilon: f64) -> Bracket {
    let mode = spent.law.mode;
    let k = to_real(spent.rounds);
    let [first, second] = counts;
    let lost: f64 = counts.iter().map(|c| c.at_most(mode, c.shift - 1).high).sum();
    let changed: f64 = counts.iter().map(|c| c.at_most(mode, c.shift).high).sum();
    let any = |chance: f64| k * libm::log1p(-chance);
    let one = any(first.at_most(mode, first.shift - 1).low);
    let both = one + any(second.at_most(mode, 0).low);
    let beside = libm::exp(epsilon).min(f64::MAX) * (k * second.point_mass(mode, second.shift));
    let surely = (-libm::expm1(one)).max(-libm::expm1(both) - beside);
    Bracket {
        low: (surely + (free.low - k * changed).max(0.0)).min(1.0),
        // Upper bound: outcomes of one story only count as lost.
        high: (free.high + k * lost).min(1.0),
    }
}

#[cfg(test)]
mod tests;
