//! The promise of a network: one epsilon and one delta over the rounds of all services of a year.
//!
//! Losses of services add up, and every user uses all of them: a conversation begins with a call,
//! and a new contact with an invitation. Separate promises per service would therefore not hold for
//! any user (MIX-70).

use alloc::vec::Vec;

use super::{RoundsSpent, advanced_delta, delta};
use crate::config::{Config, Mode, ServicePolicy};

/// Epsilon, delta and the rounds of one year to which they apply.
#[derive(Clone, Debug, PartialEq)]
pub struct NetworkPromise {
    /// The largest epsilon that the config names for a service.
    pub epsilon: f64,
    /// The largest delta that the config names for a service.
    pub delta: f64,
    /// The rounds of each service that the config allows in one year.
    pub spent: Vec<RoundsSpent>,
}

/// A config with this number of rounds of a service, or more, promises nothing.
const ROUNDS_WITHOUT_PROMISE: u64 = u32::MAX as u64;

impl NetworkPromise {
    /// Computes the promise of a config.
    pub fn from_config(config: &Config) -> Self {
        let services = &config.services;
        let largest = |of: fn(&ServicePolicy) -> f64| services.iter().map(of).fold(0.0, f64::max);
        Self {
            epsilon: largest(|policy| f64::from(policy.epsilon_micro) / 1e6),
            delta: largest(|policy| super::to_real(policy.delta_pico) / 1e12),
            spent: services
                .iter()
                .map(|policy| RoundsSpent::from_policy(policy, policy.rounds))
                .collect(),
        }
    }

    /// Returns true if the network promises nothing, because its config allows unlimited rounds.
    pub fn is_none(&self) -> bool {
        // One service without a limit is enough, because its losses are part of every sum (MIX-70).
        self.spent.iter().any(|spent| spent.rounds >= ROUNDS_WITHOUT_PROMISE)
    }

    /// Returns the delta that the noise reaches after `years` years whose rounds are all used.
    pub fn reached_after(&self, years: u64) -> f64 {
        let all = self.spent.iter().map(|spent| spent.times(years));
        reached_delta(&all.collect::<Vec<_>>(), self.epsilon)
    }

    /// Returns the delta against a story in which the user conversed as often, at other times
    /// (MIX-55).
    pub fn reached_by_other_story(&self) -> f64 {
        self.reached_after(2)
    }

    /// Returns true if the noise keeps the promise over the rounds of one year.
    pub fn is_kept(&self) -> bool {
        self.reached_after(1) <= self.delta
    }
}

/// Returns a delta that holds for `epsilon` over all of `spent`: by Rényi accounting, or by the
/// composition of the paper if all noise is the paper's.
pub fn reached_delta(spent: &[RoundsSpent], epsilon: f64) -> f64 {
    if !spent.is_empty() && spent.iter().all(|part| part.law.mode == Mode::Paper) {
        advanced_delta(spent, epsilon)
    } else {
        delta(spent, epsilon)
    }
}

#[cfg(test)]
mod tests;
