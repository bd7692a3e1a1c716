//! Checked settings of a round, which a client may use.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use mezza_core::{PublicKey, Time, snapshot};
use mezza_lanes::Kernel;

use crate::RoundId;
use crate::config::Chain;
use crate::onion::Layer;
use crate::wire::{Settings, SignedSettings};

/// Largest difference between the network's clock and ours, in milliseconds.
pub(super) const CLOCK_MS: u64 = 60_000;

/// The reason why a client does not take part in a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    /// No config is in force when the round opens, or the config lacks the service.
    #[error("no config with this service is in force when the round opens")]
    NoConfig,
    /// The settings differ from the config of the round.
    #[error("the settings differ from the config")]
    Differ,
    /// A mix did not sign exactly these settings.
    #[error("a mix did not sign these settings")]
    Unsigned,
    /// A key has small order, is on the twist, or is repeated.
    #[error("a round key is not allowed")]
    BadKey,
    /// The round is not above the last one that the client took part in.
    #[error("the round is over")]
    Old,
    /// The round was already open when its settings arrived.
    #[error("the round is open already")]
    Late,
    /// Four rounds of the service are under way.
    #[error("too many rounds are under way")]
    TooMany,
    /// Our clock and the network's differ by more than 60 s.
    #[error("this clock and the network's differ; set the clock")]
    Clock,
}

snapshot!(enum SettingsError [NoConfig, Differ, Unsigned, BadKey, Old, Late, TooMany, Clock]);

/// Checked settings. Only [`check`](Self::check) creates them.
#[derive(Clone, Debug)]
pub struct CheckedSettings {
    settings: Settings,
    open: Time,
}

snapshot!(struct CheckedSettings { settings, open });

impl CheckedSettings {
    /// Checks the settings that the entry server announced. All mixes must have signed them
    /// (MIX-5), and every key must be usable (MIX-6). They must match the config in force when the
    /// round opens, and the round must be near the present time (MIX-34). The round must be above
    /// `last`, the last round of the service that this client took part in.
    ///
    /// # Errors
    /// The first [`SettingsError`] that applies.
    pub fn check(
        announced: &SignedSettings,
        chain: &Chain,
        last: Option<u64>,
        now: Time,
        kernel: &dyn Kernel,
    ) -> Result<Self, SettingsError> {
        let settings = &announced.settings;
        let id = settings.id;
        // The config in force when the round opens is used, as mixes and entry server do. Settings
        // of a successor's first round arrive before the successor is in force (MIX-5).
        let config = chain.of_round(id).ok_or_else(|| no_config(chain, id, now))?;
        let (index, policy) = config.find_policy(id.service).ok_or(SettingsError::NoConfig)?;
        // A mix that signs values other than those of the config could change sizes or times for
        // this client alone (MIX-5).
        let values = (settings.policy, settings.collect_ms, settings.slots, settings.buckets);
        let due = (index, policy.collect_ms, policy.slots, policy.buckets);
        if Some(settings.config) != chain.hash_of_round(id) || values != due {
            return Err(SettingsError::Differ);
        }
        // A repeated round would use a key chain twice, so rounds only increase (MIX-5, MIX-23).
        if last.is_some_and(|last| id.round <= last) {
            return Err(SettingsError::Old);
        }
        // The clock is checked before the signatures, so a far round costs a few comparisons
        // instead of n verifications.
        let open = policy.opens_around(id.round, now, CLOCK_MS).ok_or(SettingsError::Clock)?;
        if !announced.signed_by_all(config.mix_keys()) {
            return Err(SettingsError::Unsigned);
        }
        // Equal keys or points of small order would let one mix open the layers of another (MIX-6).
        let distinct: BTreeSet<&[u8; 32]> = settings.keys.iter().collect();
        let usable = |key: &[u8; 32]| kernel.is_fixed_point(key);
        if distinct.len() != settings.keys.len() || !settings.keys.iter().all(usable) {
            return Err(SettingsError::BadKey);
        }
        Ok(Self { settings: settings.clone(), open })
    }

    /// Changes the round number, for tests.
    #[cfg(test)]
    pub(super) const fn renumber(&mut self, round: u64) {
        self.settings.id.round = round;
    }

    /// Returns the checked settings.
    pub const fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Returns the opening time of the round by the config.
    pub const fn open_time(&self) -> Time {
        self.open
    }

    /// Returns one layer per mix, outermost first.
    pub fn layers(&self) -> Vec<Layer> {
        let keys = self.settings.keys.iter().zip(0_u8..);
        keys.map(|(key, position)| Layer { id: self.settings.id, position, key: PublicKey(*key) })
            .collect()
    }
}

/// Returns the reason why a round has no config: the round is far from now, or no config is in
/// force when it opens.
fn no_config(chain: &Chain, id: RoundId, now: Time) -> SettingsError {
    let policy = chain.current_config(now).and_then(|config| config.find_policy(id.service));
    let is_far = policy.is_some_and(|(_, of)| of.opens_around(id.round, now, CLOCK_MS).is_none());
    if is_far { SettingsError::Clock } else { SettingsError::NoConfig }
}
