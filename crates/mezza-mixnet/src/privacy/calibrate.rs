//! Calibration: the least noise for a promise.

use super::{RoundsSpent, advanced_delta, delta};
use crate::Service;
use crate::config::Mode;
use crate::limits::{MU_MAX, SCALE_MAX};
use crate::noise::Law;

/// A promise to calibrate for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PrivacyTarget {
    /// The service of the rounds.
    pub service: Service,
    /// Number of rounds.
    pub rounds: u64,
    /// Onions of a user in one round.
    pub slots: u8,
    /// The epsilon: odds may change by a factor of at most `e^epsilon`.
    pub epsilon: f64,
    /// The delta: the probability with which odds may change by more than that factor.
    pub delta: f64,
}

/// The distribution of the noise and its accounting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accounting {
    /// Discrete Gaussian with Rényi accounting, as the product uses it.
    Gauss,
    /// Laplace with Rényi accounting.
    Laplace,
    /// Laplace with the paper's advanced composition.
    Paper,
}

impl Accounting {
    const fn mode(self) -> Mode {
        match self {
            Self::Gauss => Mode::Gauss,
            Self::Laplace | Self::Paper => Mode::Paper,
        }
    }

    fn delta(self, spent: RoundsSpent, epsilon: f64) -> f64 {
        match self {
            Self::Paper => advanced_delta(&[spent], epsilon),
            _ => delta(&[spent], epsilon),
        }
    }
}

/// Returns the distribution with the least mean that keeps a promise, and among those the least
/// scale that the search tried. Both are even for conversations. Returns `None` if none inside the
/// limits keeps the promise.
pub fn noise_for(target: &PrivacyTarget, accounting: Accounting) -> Option<Law> {
    let step = if target.service == Service::Conversation { 2 } else { 1 };
    let fits = |mu: u32, scale: u32| {
        let law = Law { mode: accounting.mode(), mu, scale };
        let spent = RoundsSpent {
            service: target.service,
            law,
            slots: target.slots,
            rounds: target.rounds,
        };
        accounting.delta(spent, target.epsilon) <= target.delta
    };
    // The least mean for a scale, or `None` if no mean is sufficient.
    let least_mu =
        |scale: u32| find_least(MU_MAX / step, |n| fits(n * step, scale)).map(|n| n * step);
    // With an unlimited mean nothing is clamped, and the loss decreases with the scale.
    let first = find_least(SCALE_MAX / step, |n| fits(u32::MAX, n * step))?;
    // After the first sufficient scale the mean decreases steeply, then increases in proportion.
    // This single valley is narrowed to a few scales by thirds.
    let mut low = first;
    let mut high = (4 * first).min(SCALE_MAX / step);
    let cost = |n: u32| least_mu(n * step).unwrap_or(u32::MAX);
    while high - low > 8 {
        let third = (high - low) / 3;
        if cost(low + third) <= cost(high - third) { high -= third } else { low += third }
    }
    let best = (low..=high).min_by_key(|n| (cost(*n), *n))?;
    Some(Law { mode: accounting.mode(), mu: least_mu(best * step)?, scale: best * step })
}

/// Returns the least number from 1 to `max` for which `fits` holds; it must then hold for all
/// larger ones.
fn find_least(max: u32, fits: impl Fn(u32) -> bool) -> Option<u32> {
    // The largest value is not sufficient, so no smaller one is.
    if !fits(max) {
        return None;
    }
    let mut low = 0;
    let mut high = max;
    while high - low > 1 {
        let middle = u32::midpoint(low, high);
        if fits(middle) { high = middle } else { low = middle }
    }
    Some(high)
}
