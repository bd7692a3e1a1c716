//! How many messages of its own a mix adds to a round.
//!
//! | mode | singles | pairs |
//! |---|---|---|
//! | `gauss` | `max(0, mu + N_Z(0, sigma^2))` | `max(0, mu/2 + N_Z(0, (sigma/2)^2))` |
//! | `paper` | `ceil(max(0, Lap(mu, b)))` | `ceil(max(0, Lap(mu/2, b/2)))` |
//!
//! In call and invitation rounds every bucket, the no-op 0 too, gets a count of the first column.
//! `gauss` is sampled exactly, with integers alone ([`gauss`]).

pub mod gauss;
mod laplace;
mod uniform;

pub use uniform::draw_below;

use mezza_core::{CryptoRng, snapshot};

use crate::Service;
use crate::config::{Mode, ServicePolicy};

/// The law of the noise of one service: a mode, a mean and a scale.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Law {
    /// Discrete Gaussian or Laplace.
    pub mode: Mode,
    /// Mean number of singles, or of messages for one bucket.
    pub mu: u32,
    /// sigma or b; 0 gives exactly the mean.
    pub scale: u32,
}

snapshot!(struct Law { mode, mu, scale });

/// Noise of one mix for one conversation round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counts {
    /// Dead drops with one access.
    pub singles: u32,
    /// Dead drops with two accesses.
    pub pairs: u32,
}

impl Counts {
    /// Messages that these are.
    pub const fn message_count(self) -> u32 {
        self.singles + 2 * self.pairs
    }
}

impl Law {
    /// The law that a config names for a service.
    pub const fn from_policy(policy: &ServicePolicy) -> Self {
        Self { mode: policy.mode, mu: policy.mu, scale: policy.scale }
    }

    /// Draws the noise of a conversation round: two independent counts.
    pub fn draw_conversation(self, rng: &mut dyn CryptoRng) -> Counts {
        // Drawn separately from the pairs: two counts from one draw would reveal each other
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

    /// Most noise messages that one honest mix adds to a round: it adds more with a probability
    /// below e^-40. What a peer announces beyond the sum of these is refused (MIX-11).
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

/// `max(0, mean + deviation)`.
fn shift_mean(mean: u32, deviation: i64) -> u32 {
    u32::try_from(i64::from(mean).saturating_add(deviation).max(0)).unwrap_or(u32::MAX)
}

#[cfg(test)]
#[expect(clippy::cast_precision_loss, reason = "counts of a test are small")]
mod tests;
