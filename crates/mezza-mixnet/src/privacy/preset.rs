//! Presets of noise, each with a privacy guarantee (epsilon, delta) over all services together.

use core::f64::consts::{LN_2, LN_10};

use crate::Service;
use crate::config::{Mode, ServicePolicy, Traps};

/// A named choice of noise for all services of a network.
///
/// Calls and invitations have three times the noise that they would need alone. They are rare, but
/// clients download them, while noise of conversations only loads mixes. More noise of calls and
/// invitations would save at most a tenth of that of conversations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoisePreset {
    /// eps = ln 2 over 240,000 conversation, 3,500 call and 1,000 invitation rounds.
    Standard,
    /// The same rounds with eps = ln 10.
    Relaxed,
    /// eps = ln 2 over 1,000 conversation rounds: for tests of a network.
    Small,
}

/// The part of a preset for one service.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PresetNoise {
    /// Mean of the Gaussian noise of one slot.
    pub mu: u32,
    /// Scale of the Gaussian noise of one slot.
    pub scale: u32,
    /// Number of rounds in one year.
    pub rounds: u64,
    /// The epsilon of the network.
    pub epsilon: f64,
    /// The delta of the network.
    pub delta: f64,
    /// Traps: noise messages whose return a mix checks, far fewer than the noise (MIX-45).
    pub traps: Traps,
}

impl NoisePreset {
    /// All presets.
    pub const ALL: [Self; 3] = [Self::Standard, Self::Relaxed, Self::Small];

    /// Returns the noise of a service.
    pub const fn noise(self, service: Service) -> PresetNoise {
        let (mu, scale, rounds) = match (self, service) {
            (Self::Standard, Service::Conversation) => (51_962, 7_784, 240_000),
            (Self::Relaxed, Service::Conversation) => (16_458, 2_408, 240_000),
            (Self::Small, Service::Conversation) => (2_922, 504, 1_000),
            (_, Service::Call) => (8_000, 1_250, 3_500),
            (_, Service::Invitation) => (4_150, 670, 1_000),
        };
        let traps = match (self, service) {
            (Self::Standard | Self::Relaxed, Service::Conversation) => {
                Traps { singles: 256, pairs: 128 }
            }
            (Self::Small, Service::Conversation) => Traps { singles: 32, pairs: 16 },
            (_, Service::Call | Service::Invitation) => Traps::NONE,
        };
        let epsilon = if matches!(self, Self::Relaxed) { LN_10 } else { LN_2 };
        PresetNoise { mu, scale, rounds, epsilon, delta: 1e-4, traps }
    }

    /// Writes noise, promise and traps of this preset into a policy.
    pub fn fill_policy(self, policy: &mut ServicePolicy) {
        let noise = self.noise(policy.service);
        let slots = u32::from(policy.slots);
        policy.mode = Mode::Gauss;
        // The loss grows with the slots, and so must the noise (`shift` in the accounting).
        (policy.mu, policy.scale) = (noise.mu * slots, noise.scale * slots);
        policy.epsilon_micro = super::to_whole(libm::round(noise.epsilon * 1e6)) as u32;
        policy.delta_pico = super::to_whole(libm::round(noise.delta * 1e12));
        (policy.rounds, policy.traps) = (noise.rounds, noise.traps);
    }
}
