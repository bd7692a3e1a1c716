//! The number of noise messages that a mix adds to a round.
//!
//! | mode | singles | pairs |
//! |---|---|---|
//! | `gauss` | `max(0, mu + N_Z(0, sigma^2))` | `max(0, mu/2 + N_Z(0, (sigma/2)^2))` |
//! | `paper` | `ceil(max(0, Lap(mu, b)))` | `ceil(max(0, Lap(mu/2, b/2)))` |
//!
//! In call and invitation rounds every bucket, including the idle bucket 0, gets a count of the
//! first column. `gauss` is sampled exactly, with integers only ([`gauss`]).

pub mod gauss;
mod laplace;
mod uniform;

pub use uniform::draw_below;

use mezza_core::{CryptoRng, snapshot};

use crate::Service;
use crate::config::{Mode, ServicePolicy};

/// The distribution of the noise of one service: mode, mean and scale.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Law {
    /// Discrete Gaussian or Laplace.
    pub mode: Mode,
    /// Mean number of singles, or of messages for one bucket.
    pub mu: u32,
    /// The scale sigma or b; 0 always gives the mean.
    pub scale: u32,
}

snapshot!(struct Law { mode, mu, scale });

/// Noise messages of one mix in one conversation round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counts {
    /// Number of dead drops with one access.
    pub singles: u32,
    /// Number of dead drops with two accesses.
    pub pairs: u32,
}

impl Counts {
    /// Returns the number of messages.
    pub const fn message_count(self) -> u32 {
        self.singles + 2 * self.pairs
    }
}

impl Law {
    /// Returns the distribution in a config's policy of a service.
    pub const fn from_policy(policy: &ServicePolicy) -> Self {
        Self { mode: policy.mode, mu: policy.mu, scale: policy.scale }
    }

    /// Draws the noise of a conversation round: two independent counts.
    pub fn draw_conversation(self, rng: &mut dyn CryptoRng) -> Counts {
        // Drawn separately from the pairs, because two counts from one draw would reveal each other
        // (MIX-16).
        let singles = self.draw_bucket(rng);
        let pairs = match self.mode {
            Mode::Gauss => shift_mean(self.mu / 2, gauss::draw(self.scale / 2, rng)),
            Mode::Paper => {
                laplace::draw(f64::from(self.mu) / 2.0, f64::from(self.scale) / 2.0, rng)
            }
        };
        Counts { singles, pairs }
    }

    /// Draws the noise of one bucket of a call or invitation round.
    pub fn draw_bucket(self, rng: &mut dyn CryptoRng) -> u32 {
        match self.mode {
            Mode::Gauss => shift_mean(self.mu, gauss::draw(self.scale, rng)),
            Mode::Paper => laplace::draw(f64::from(self.mu), f64::from(self.scale), rng),
        }
    }

    /// Returns a bound on the noise messages of one honest mix in a round, which it exceeds with a
    /// probability below e^-40. Announcements beyond the sum of these bounds are refused (MIX-11).
    pub fn messages_max(self, service: Service, buckets: u32) -> u64 {
        let mu = u64::from(self.mu);
        let scale = u64::from(self.scale);
        let buckets = u64::from(buckets) + 1;
        match (service, self.mode) {
            // Twelve sigma for singles, and twelve halves for pairs of two messages each (MIX-11).
            (Service::Conversation, Mode::Gauss) => 2 * mu + 24 * scale,
            (Service::Conversation, Mode::Paper) => 2 * mu + 80 * scale + 3,
            (_, Mode::Gauss) => buckets * (mu + 12 * scale),
            (_, Mode::Paper) => buckets * (mu + 40 * scale + 1),
        }
    }
}

/// Returns `max(0, mean + deviation)`.
fn shift_mean(mean: u32, deviation: i64) -> u32 {
    u32::try_from(i64::from(mean).saturating_add(deviation).max(0)).unwrap_or(u32::MAX)
}

#[cfg(test)]
#[expect(clippy::cast_precision_loss, reason = "counts of a test are small")]
mod tests;
