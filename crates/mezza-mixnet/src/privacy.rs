//! The calculator of privacy: the delta for an epsilon after a number of rounds.
//!
//! Every round of a service costs a user the Rényi divergence `rho(a)` of its noise. Costs add up
//! over rounds and services, and one conversion gives (eps, delta):
//!
//! ```text
//! delta(eps) = min over a of exp((a-1)(rho(a) - eps)) / (a-1) x (1 - 1/a)^a
//!            + (1 + e^eps) x sum of k x P(a count was clamped at 0)
//! gauss     rho(a) = 4 a s^2 / sigma^2 (conversation), a / sigma^2 (call, invitation)
//! laplace   rho(a) = ln[ a/(2a-1) e^((a-1)l) + (a-1)/(2a-1) e^(-a l) ] / (a-1), twice: l = shift / b
//! ```
//!
//! This is an upper bound, three to four times the least delta that holds. Budget, ledger and least
//! noise use this bound. `tight` computes a lower and an upper bound of the least delta, and
//! [`advanced_delta`] is the composition of the paper. Sources: Canonne, Kamath and Steinke 2020;
//! Mironov 2017; Vuvuzela, section 6.
//!
//! Only rounds with real content are charged, so the comparison is with a story in which the user
//! was idle in these rounds. Compared with a story in which the user conversed with another contact
//! at other times, up to twice as many rounds differ: [`RoundsSpent::other_story`].

mod calibrate;
pub mod ledger;
mod preset;
mod promise;
mod tight;

pub use calibrate::{Accounting, PrivacyTarget, noise_for};
pub use ledger::Ledger;
pub use preset::{NoisePreset, PresetNoise};
pub use promise::{NetworkPromise, reached_delta};
pub use tight::{Bracket, tight_delta};

use crate::Service;
use crate::config::{Mode, ServicePolicy};
use crate::noise::Law;

/// Rounds of one service under one noise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoundsSpent {
    /// The service of the rounds.
    pub service: Service,
    /// The noise of each honest mix.
    pub law: Law,
    /// Onions of a user in one round.
    pub slots: u8,
    /// Number of rounds.
    pub rounds: u64,
}

impl RoundsSpent {
    /// Creates `rounds` rounds with the noise of a config's policy.
    pub const fn from_policy(policy: &ServicePolicy, rounds: u64) -> Self {
        Self { service: policy.service, law: Law::from_policy(policy), slots: policy.slots, rounds }
    }

    /// Returns the rounds that differ from a story in which the user conversed as often, at other
    /// times.
    #[must_use]
    pub const fn other_story(self) -> Self {
        self.times(2)
    }

    /// Returns the same rounds, `factor` times as many.
    #[must_use]
    pub const fn times(self, factor: u64) -> Self {
        Self { rounds: self.rounds.saturating_mul(factor), ..self }
    }

    /// Returns the number of rounds like `unit` with at least the same loss.
    ///
    /// A `unit` without noise loses everything in one round; in this case the number of rounds is
    /// returned unchanged.
    pub fn count_as(&self, unit: &Self) -> u64 {
        let same = (self.service, self.law, self.slots) == (unit.service, unit.law, unit.slots);
        // Rounds with the noise of `unit` are counted as they are: the ratio below would round up.
        if same || unit.law.scale == 0 {
            return self.rounds;
        }
        let clamped = self.clamp_probability() / unit.clamp_probability().max(f64::MIN_POSITIVE);
        // The largest ratio over all orders is used, so at every order these rounds lose at most as
        // much (MIX-72).
        let ratio = search_orders()
            .map(|a| self.renyi_divergence(a) / unit.renyi_divergence(a))
            .fold(clamped, f64::max);
        to_whole(libm::ceil(to_real(self.rounds) * ratio))
    }

    /// Returns the Rényi divergence of one round at order `a`.
    fn renyi_divergence(&self, a: f64) -> f64 {
        let scale = f64::from(self.law.scale);
        if scale == 0.0 {
            // Without noise one round reveals everything, which the infinite divergence reports.
            return f64::INFINITY;
        }
        match self.law.mode {
            Mode::Gauss => {
                let shift = self.relative_shift();
                a * shift * shift / (scale * scale)
            }
            Mode::Paper => 2.0 * laplace_rho(a, self.relative_shift() / scale),
        }
    }

    /// Returns the distance by which one user moves a count, in units of the scale. A conversation
    /// moves singles by 2s at scale b and pairs by s at b/2. A call or invitation moves two buckets
    /// by 1.
    fn relative_shift(&self) -> f64 {
        match self.service {
            Service::Conversation => 2.0 * f64::from(self.slots),
            _ => 1.0,
        }
    }

    /// Returns the probability that one of the two counts that a user moves is clamped at 0 in a
    /// round.
    fn clamp_probability(&self) -> f64 {
        let mu = f64::from(self.law.mu);
        let scale = f64::from(self.law.scale);
        if scale == 0.0 {
            return 0.0;
        }
        match self.law.mode {
            Mode::Gauss => 2.0 * normal_tail(mu / scale),
            Mode::Paper => libm::exp(-mu / scale),
        }
    }

    /// Returns epsilon and delta of one round in the paper's terms.
    fn one_round(&self) -> (f64, f64) {
        let mu = f64::from(self.law.mu);
        let b = f64::from(self.law.scale);
        let shift = self.relative_shift();
        let delta = libm::exp((shift - mu) / b);
        let half = if self.service == Service::Conversation { 1.0 } else { 0.5 };
        (2.0 * shift / b, half * delta)
    }
}

/// Returns a delta that holds for `epsilon` over all of `spent`, at most 1. It is an upper bound by
/// Rényi accounting.
pub fn delta(spent: &[RoundsSpent], epsilon: f64) -> f64 {
    // Clamping at 0 is not part of the divergence, so it is charged separately, for both stories.
    let clamped = spent.iter().map(|s| to_real(s.rounds) * s.clamp_probability()).sum::<f64>();
    (divergence_delta(spent, epsilon).0 + (1.0 + libm::exp(epsilon)) * clamped).min(1.0)
}

/// Returns the part of [`delta`] that comes from the divergence, and the order that gives it.
pub fn divergence_delta(spent: &[RoundsSpent], epsilon: f64) -> (f64, f64) {
    let at = |a: f64| {
        // Unused services are left out: 0 rounds without noise would give 0 times infinity.
        let rho = spent
            .iter()
            .filter(|s| s.rounds > 0)
            .map(|s| to_real(s.rounds) * s.renyi_divergence(a));
        let exponent = (a - 1.0) * (rho.sum::<f64>() - epsilon);
        libm::exp(exponent + a * libm::log1p(-1.0 / a)) / (a - 1.0)
    };
    let least = search_orders().map(|a| (at(a), a)).min_by(|x, y| x.0.total_cmp(&y.0));
    least.map_or((1.0, 0.0), |(delta, a)| (delta.min(1.0), a))
}

/// Returns the orders over which the minimum is taken: 1.01 to 5 in steps of 0.01, then up to
/// 10,000 in steps of 1 %. Any subset gives a valid bound, a finer one a slightly better bound.
fn search_orders() -> impl Iterator<Item = f64> {
    let low = (1..=400).map(|i| 1.0 + f64::from(i) / 100.0);
    low.chain((1..=764).map(|j| 5.0 * libm::pow(1.01, f64::from(j))))
}

/// Returns the delta for `epsilon` by the paper's advanced composition, at most 1; for Laplace
/// noise.
///
/// For each d the paper gives `eps' = sqrt(2 ln(1/d) sum k eps^2) + sum k eps (e^eps - 1)` and
/// `delta' = d + sum k delta`; the d that gives `epsilon` exactly is known in closed form.
pub fn advanced_delta(spent: &[RoundsSpent], epsilon: f64) -> f64 {
    let mut squares = 0.0;
    let mut drift = 0.0;
    let mut lost = 0.0;
    for part in spent {
        let ((eps, delta), k) = (part.one_round(), to_real(part.rounds));
        squares += k * eps * eps;
        drift += k * eps * libm::expm1(eps);
        lost += k * delta;
    }
    // The drift alone exceeds epsilon, so no d of the theorem helps.
    if epsilon <= drift {
        return 1.0;
    }
    let slack = epsilon - drift;
    let d = if squares == 0.0 { 0.0 } else { libm::exp(-slack * slack / (2.0 * squares)) };
    (lost + d).min(1.0)
}

/// Returns the least epsilon for which `delta_max` holds over all of `spent`, to 10^-9, by Rényi
/// accounting. Returns `None` if none up to 700 is sufficient.
pub fn least_epsilon(spent: &[RoundsSpent], delta_max: f64) -> Option<f64> {
    // delta decreases with eps until the clamped part, which increases, dominates. The loop
    // searches for a first sufficient eps.
    let fits = |eps: f64| delta(spent, eps) <= delta_max;
    let mut high = core::iter::successors(Some(1e-6), |eps| Some(eps * 1.25))
        .take_while(|eps| *eps < 700.0)
        .find(|eps| fits(*eps))?;
    let mut low = 0.0;
    while high - low > 1e-9 {
        // Bisection is valid below the first sufficient eps, because delta decreases there.
        let middle = f64::midpoint(low, high);
        if fits(middle) { high = middle } else { low = middle }
    }
    Some(high)
}

/// Returns the number of rounds like `one` that fit into (epsilon, delta) by `account`.
pub fn count_rounds(
    one: RoundsSpent,
    epsilon: f64,
    delta_max: f64,
    account: impl Fn(&[RoundsSpent], f64) -> f64,
) -> u64 {
    let fits = |rounds: u64| account(&[RoundsSpent { rounds, ..one }], epsilon) <= delta_max;
    let mut low = 0;
    let mut high = 1;
    // The bound ends the search, because no network runs so many rounds.
    while fits(high) && high < 1 << 50 {
        (low, high) = (high, high * 2);
    }
    while high - low > 1 {
        let middle = u64::midpoint(low, high);
        if fits(middle) { low = middle } else { high = middle }
    }
    low
}

/// Returns the most that an observer's certainty can grow: a 50 % likelihood becomes at most this.
pub fn fifty_becomes(epsilon: f64) -> f64 {
    1.0 / (1.0 + libm::exp(-epsilon))
}

/// Returns the probability that a normal variable is at least `x` standard deviations above its
/// mean.
pub fn normal_tail(x: f64) -> f64 {
    libm::erfc(x / core::f64::consts::SQRT_2) / 2.0
}

/// Converts a non-negative real number to a whole one; values above 64 bits give `u64::MAX`.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a cast saturates")]
const fn to_whole(number: f64) -> u64 {
    number as u64
}

/// Converts a number of rounds. A network never runs more than 2^53 rounds, so the result is exact.
#[expect(clippy::cast_precision_loss, reason = "the relative error is below 2^-52")]
const fn to_real(rounds: u64) -> f64 {
    rounds as f64
}

/// Returns the Rényi divergence of order `a` of two Laplace distributions of scale 1 at distance
/// `l`.
fn laplace_rho(a: f64, l: f64) -> f64 {
    // expm1 and log1p keep digits that the sum of two weights near 1 would lose.
    let up = a / (2.0 * a - 1.0) * libm::expm1((a - 1.0) * l);
    let down = (a - 1.0) / (2.0 * a - 1.0) * libm::expm1(-a * l);
    libm::log1p(up + down) / (a - 1.0)
}

#[cfg(test)]
mod tests;
