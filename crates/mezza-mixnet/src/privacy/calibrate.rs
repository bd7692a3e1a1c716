//! The least noise for a promise.

use super::{RoundsSpent, advanced_delta, delta};
use crate::Service;
use crate::config::Mode;
use crate::limits::{MU_MAX, SCALE_MAX};
use crate::noise::Law;

/// A promise to calibrate for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PrivacyTarget {
    /// Rounds of which service.
    pub service: Service,
    /// How many.
    pub rounds: u64,
    /// Onions of a user in one round.
    pub slots: u8,
    /// The factor `e^epsilon` by which odds may move.
    pub epsilon: f64,
    /// With which probability they may move more.
    pub delta: f64,
}

/// How the noise is accounted for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accounting {
    /// Discrete Gaussian, Rényi accounting: the product.
    Gauss,
    /// Laplace, Rényi accounting.
    Laplace,
    /// Laplace, the paper's advanced composition.
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

/// The law with the least mean, and of those the one with the least scale that was looked at, that
/// keeps a promise; both are even for conversations. `None` if none inside the limits does.
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
    // The least mean for a scale; above every mean if no mean helps.
    let least_mu =
        |scale: u32| find_least(MU_MAX / step, |n| fits(n * step, scale)).map(|n| n * step);
    // With a mean without end nothing is clamped: what is left falls with the scale.
    let first = find_least(SCALE_MAX / step, |n| fits(u32::MAX, n * step))?;
    // The mean falls steeply behind the first scale that works, then rises in proportion: one
    // valley, narrowed to a few scales by thirds.
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

/// The least number from 1 to `max` for which `fits` holds, if it then holds for all above.
fn find_least(max: u32, fits: impl Fn(u32) -> bool) -> Option<u32> {
    // The largest value does not suffice, so no smaller one does.
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
