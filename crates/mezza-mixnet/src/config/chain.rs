//! The configs of one network, each signed by the guardians of its predecessor.
//!
//! ```text
//! genesis (pinned by its hash) <- 1 <- 2 <- .. <- head        current: the highest that has begun
//! ```

use alloc::vec::Vec;

use mezza_core::{DecodeError, Reader, Time, Writer, snapshot};

use super::{Config, SignatureSet, SignedConfig};
use crate::RoundId;
use crate::limits::CONFIGS_MAX;

/// The reason why a config is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChainError {
    /// The hash of genesis differs from the pinned one.
    #[error("the config's hash differs from the pinned one")]
    NotPinned,
    /// The config is of another network, or names another predecessor.
    #[error("the config does not continue this network's chain")]
    Foreign,
    /// Another config with this number or a later one is already known.
    #[error("another config with this number was seen before")]
    Rollback,
    /// The chain lacks a config between its newest one and the received one.
    #[error("a config in between is missing")]
    Gap,
    /// Too few guardians signed.
    #[error("{valid} of {needed} needed guardian signatures are valid")]
    Unsigned {
        /// Number of valid signatures of distinct guardians.
        valid: usize,
        /// Number of required signatures.
        needed: usize,
    },
    /// Too many configs that begin later are already known.
    #[error("too many configs that begin later")]
    TooMany,
    /// The network has the largest possible number of configs.
    #[error("a network has at most 1,024 configs")]
    Full,
    /// Round numbers of a service would be used again, or the service is missing.
    #[error("a service's rounds do not go on where the config before left them")]
    Rounds,
}

/// Most configs that are stored.
const KEPT_MAX: usize = 64;
/// Number of configs before the current one that are stored, because the clock may be ahead
/// (MIX-50).
const BEHIND_MAX: usize = 4;

/// The configs from the pinned genesis to the newest known one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chain {
    genesis: [u8; 32],
    /// Ascending and without gaps. Configs long before the current one are forgotten.
    kept: Vec<(Config, [u8; 32])>,
}

snapshot!(struct Chain { genesis, kept });

impl Chain {
    /// Begins a chain with the config whose hash the user pinned.
    ///
    /// # Errors
    /// [`ChainError`] if the hash differs, or signatures are missing.
    pub fn begin(pinned: &[u8; 32], genesis: &SignedConfig) -> Result<Self, ChainError> {
        let config = genesis.config();
        let hash = config.hash();
        // The pin is the root of all trust in a network. Signatures alone prove nothing about
        // genesis (MIX-2).
        if hash != *pinned || config.seq != 0 {
            return Err(ChainError::NotPinned);
        }
        check_signatures(genesis, SignatureSet::Own, config)?;
        Ok(Self { genesis: hash, kept: Vec::from([(config.clone(), hash)]) })
    }

    /// Adds a successor. A config that is already known has no effect.
    ///
    /// # Errors
    /// [`ChainError`]; the chain is unchanged.
    pub fn accept_config(&mut self, next: &SignedConfig, now: Time) -> Result<(), ChainError> {
        let config = next.config();
        let (head, head_hash) = self.last();
        let hash = config.hash();
        // A known config has no effect. A different one with its number is a fork (MIX-3).
        if config.seq <= head.seq {
            let known = self.kept.iter().any(|(_, known)| *known == hash) || hash == self.genesis;
            return if known { Ok(()) } else { Err(ChainError::Rollback) };
        }
        // Two networks may have the same guardians, so a valid signature is not enough.
        if config.network != head.network {
            return Err(ChainError::Foreign);
        }
        // The entry server must be able to send all configs to a new client (MIX-43).
        if config.seq >= CONFIGS_MAX as u64 {
            return Err(ChainError::Full);
        }
        if config.seq != head.seq + 1 {
            return Err(ChainError::Gap);
        }
        // The number fits, but the config continues another branch.
        if config.prev != *head_hash {
            return Err(ChainError::Foreign);
        }
        check_signatures(next, SignatureSet::Predecessor, head)?;
        if (config.threshold, &config.guardians) != (head.threshold, &head.guardians) {
            // New guardians sign as well, which proves that they hold their keys (MIX-2).
            check_signatures(next, SignatureSet::Own, config)?;
        }
        // Numbers that restart would be refused by mixes and clients for years (MIX-76).
        if config.valid_from <= head.valid_from || !counts_on(head, config) {
            return Err(ChainError::Rounds);
        }
        // Guardians could otherwise fill the memory of clients with configs that begin later.
        if self.kept.len() >= KEPT_MAX {
            return Err(ChainError::TooMany);
        }
        self.kept.push((config.clone(), hash));
        // Old configs are forgotten only after the new one is accepted, because a refused config
        // must change nothing.
        self.forget_old(now);
        Ok(())
    }

    /// Returns the config in force: the newest that has begun, unless it has ended.
    pub fn current_config(&self, now: Time) -> Option<&Config> {
        self.begun(now).map(|(config, _)| config).filter(|config| now < config.valid_until)
    }

    /// Returns the hash of the config in force.
    pub fn current_hash(&self, now: Time) -> Option<[u8; 32]> {
        self.begun(now).filter(|(config, _)| now < config.valid_until).map(|(_, hash)| *hash)
    }

    /// Returns the config of a round: the one in force when the round opens, if its numbers include
    /// the round. Rounds are prepared before they open, so the config may begin later.
    pub fn of_round(&self, id: RoundId) -> Option<&Config> {
        self.entry_of_round(id).map(|(config, _)| config)
    }

    /// Returns the hash of [`of_round`](Self::of_round).
    pub fn hash_of_round(&self, id: RoundId) -> Option<[u8; 32]> {
        self.entry_of_round(id).map(|(_, hash)| *hash)
    }

    fn entry_of_round(&self, id: RoundId) -> Option<&(Config, [u8; 32])> {
        let opens = |config: &Config| config.find_policy(id.service)?.1.open_time(id.round);
        let numbered = self.kept.iter().rev().find(|(config, _)| {
            config.find_policy(id.service).is_some_and(|(_, policy)| policy.base_round <= id.round)
        });
        let (config, hash) = numbered?;
        // The numbers of a config may include the round while another config is in force at that
        // time; the latter decides.
        let in_force = self.current_hash(opens(config)?) == Some(*hash);
        numbered.filter(|_| in_force)
    }

    /// Returns the config in force and those that begin later, in order.
    pub fn from_now(&self, now: Time) -> impl Iterator<Item = &Config> {
        let begun = self.kept.iter().rposition(|(config, _)| config.valid_from <= now);
        self.kept[begun.unwrap_or(0)..].iter().map(|(config, _)| config)
    }

    /// Returns all stored configs, newest first.
    pub fn newest_first(&self) -> impl Iterator<Item = &Config> {
        self.kept.iter().rev().map(|(config, _)| config)
    }

    /// Returns the newest config, which may begin later.
    pub fn head_config(&self) -> &Config {
        &self.last().0
    }

    /// Returns the hash of the newest config.
    pub fn head_hash(&self) -> [u8; 32] {
        self.last().1
    }

    /// Returns the hash of the first config, which is the pin of the network.
    pub fn genesis_hash(&self) -> [u8; 32] {
        self.genesis
    }

    /// Writes `genesis 32 | count u8 | count x var16 config`, the stored form without signatures.
    pub fn write_to(&self, w: &mut Writer) {
        w.put_bytes(&self.genesis).put_u8(self.kept.len() as u8);
        for (config, _) in &self.kept {
            w.put_var16(&config.encode());
        }
    }

    /// Reads the form of [`write_to`](Self::write_to), which has no signatures.
    ///
    /// # Errors
    /// [`DecodeError`] unless each config follows its predecessor.
    pub fn read_from(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let genesis = r.read_array()?;
        let mut kept: Vec<(Config, [u8; 32])> = Vec::new();
        for _ in 0..r.read_u8()? {
            let config = Config::decode(r.read_var16()?)?;
            let hash = config.hash();
            // Signatures were checked before storing, so only the chain of hashes is checked here.
            let follows = kept.last().is_none_or(|(last, its)| {
                (config.seq, config.prev, config.network) == (last.seq + 1, *its, last.network)
            });
            if !follows || (config.seq == 0) != (hash == genesis) {
                return Err(DecodeError::Value);
            }
            kept.push((config, hash));
        }
        if kept.is_empty() { Err(DecodeError::Value) } else { Ok(Self { genesis, kept }) }
    }

    fn begun(&self, now: Time) -> Option<&(Config, [u8; 32])> {
        self.kept.iter().rev().find(|(config, _)| config.valid_from <= now)
    }

    #[expect(
        clippy::expect_used,
        reason = "a chain begins with one config and never loses its last"
    )]
    fn last(&self) -> &(Config, [u8; 32]) {
        self.kept.last().expect("a chain is never empty")
    }

    /// Drops configs long before the current one.
    fn forget_old(&mut self, now: Time) {
        let begun = self.kept.iter().rposition(|(config, _)| config.valid_from <= now);
        // Four earlier configs stay, because the clock may be ahead of the config in force
        // (MIX-50).
        self.kept.drain(..begun.unwrap_or(0).saturating_sub(BEHIND_MAX));
    }
}

/// Checks that enough guardians of `by` signed.
fn check_signatures(
    config: &SignedConfig,
    set: SignatureSet,
    by: &Config,
) -> Result<(), ChainError> {
    let valid = config.count_signatures(set, &by.guardians);
    let needed = usize::from(by.threshold);
    if valid < needed { Err(ChainError::Unsigned { valid, needed }) } else { Ok(()) }
}

/// Returns true if `next` has each service of its predecessor, with round numbers above the last
/// one. A service that could be left out would come back with numbers that mixes and clients refuse
/// (MIX-76).
fn counts_on(before: &Config, next: &Config) -> bool {
    before.counted_anew_at(next, next.valid_from).is_empty()
}
