//! Settings that a client may use.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use mezza_core::{PublicKey, Time, snapshot};
use mezza_lanes::Kernel;

use crate::RoundId;
use crate::config::Chain;
use crate::onion::Layer;
use crate::wire::{Settings, SignedSettings};

/// How far the network's clock may be from ours, milliseconds.
pub(super) const CLOCK_MS: u64 = 60_000;

/// Why a client does not take part in a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    /// No config is in force when the round opens, or it has no such service.
    #[error("no config with this service is in force when the round opens")]
    NoConfig,
    /// The settings are not those of the config of the round.
    #[error("the settings differ from the config")]
    Differ,
    /// A mix did not sign exactly these settings.
    #[error("a mix did not sign these settings")]
    Unsigned,
    /// A key is of small order, on the twist, or stands there twice.
    #[error("a round key is not allowed")]
    BadKey,
    /// The round is not above the last one taken part in.
    #[error("the round is over")]
    Old,
    /// The round was open already when its settings came.
    #[error("the round is open already")]
    Late,
    /// Four rounds of the service are under way.
    #[error("too many rounds are under way")]
    TooMany,
    /// The clock here and the network's differ by more than 60 s.
    #[error("this clock and the network's differ; set the clock")]
    Clock,
}

snapshot!(enum SettingsError [NoConfig, Differ, Unsigned, BadKey, Old, Late, TooMany, Clock]);

/// Settings that were checked. Only [`check`](Self::check) makes one.
#[derive(Clone, Debug)]
pub struct CheckedSettings {
    settings: Settings,
    open: Time,
}

snapshot!(struct CheckedSettings { settings, open });

impl CheckedSettings {
    /// Checks what the entry announced: all mixes signed it (MIX-5), every key can be used (MIX-6),
    /// it is of the config in force when it opens, of now (MIX-34), and above `last`, the last round of the
    /// service that this client took part in.
    ///
    /// # Errors
    /// [`SettingsError`]: the first that applies.
    pub fn check(
        announced: &SignedSettings,
        chain: &Chain,
        last: Option<u64>,
        now: Time,
        kernel: &dyn Kernel,
    ) -> Result<Self, SettingsError> {
        let settings = &announced.settings;
        let id = settings.id;
        // The config in force when the round opens, as mixes and entry judge it: settings of the first
        // round of a successor come before it has begun (MIX-5).
        let config = chain.of_round(id).ok_or_else(|| no_config(chain, id, now))?;
        let (index, policy) = config.find_policy(id.service).ok_or(SettingsError::NoConfig)?;
        // A mix that signs other values than those of the config would change sizes or times for
        // this client only (MIX-5).
        let values = (settings.policy, settings.collect_ms, settings.slots, settings.buckets);
        let due = (index, policy.collect_ms, policy.slots, policy.buckets);
        if Some(settings.config) != chain.hash_of_round(id) || values != due {
            return Err(SettingsError::Differ);
        }
        // A repeated round would use a key chain twice, so rounds only increase (MIX-5, MIX-23).
        if last.is_some_and(|last| id.round <= last) {
            return Err(SettingsError::Old);
        }
        // Clock before signatures: a far round is refused for a few comparisons instead of n
        // verifications.
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

    /// The same settings for another round, of a test.
    #[cfg(test)]
    pub(super) const fn renumber(&mut self, round: u64) {
        self.settings.id.round = round;
    }

    /// Returns the checked settings.
    pub const fn settings(&self) -> &Settings {
        &self.settings
    }

    /// When the round opens, by the config.
    pub const fn open_time(&self) -> Time {
        self.open
    }

    /// One layer for each mix, outermost first.
    pub fn layers(&self) -> Vec<Layer> {
        let keys = self.settings.keys.iter().zip(0_u8..);
        keys.map(|(key, position)| Layer { id: self.settings.id, position, key: PublicKey(*key) })
            .collect()
    }
}

/// Why a round has no config: it is far from now, or none is in force when it opens.
fn no_config(chain: &Chain, id: RoundId, now: Time) -> SettingsError {
    let policy = chain.current_config(now).and_then(|config| config.find_policy(id.service));
    let is_far = policy.is_some_and(|(_, of)| of.opens_around(id.round, now, CLOCK_MS).is_none());
    if is_far { SettingsError::Clock } else { SettingsError::NoConfig }
}
