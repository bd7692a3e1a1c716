//! The configs of one network, each signed by the guardians of the one before.
//!
//! ```text
//! genesis (pinned by its hash) <- 1 <- 2 <- .. <- head        current: the highest that has begun
//! ```

use alloc::vec::Vec;

use mezza_core::{DecodeError, Reader, Time, Writer, snapshot};

use super::{Config, SignatureSet, SignedConfig};
use crate::RoundId;
use crate::limits::CONFIGS_MAX;

/// Why a config is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChainError {
    /// Genesis is not the config that was pinned.
    #[error("the config's hash differs from the pinned one")]
    NotPinned,
    /// It is of another network, or names another predecessor.
    #[error("the config does not continue this network's chain")]
    Foreign,
    /// Another config with this number, or a later one, was seen before.
    #[error("another config with this number was seen before")]
    Rollback,
    /// A config between the head and this one is missing.
    #[error("a config in between is missing")]
    Gap,
    /// Too few guardians signed.
    #[error("{valid} of {needed} needed guardian signatures are valid")]
    Unsigned {
        /// Valid signatures of distinct guardians.
        valid: usize,
        /// How many it takes.
        needed: usize,
    },
    /// Too many configs that begin later are known already.
    #[error("too many configs that begin later")]
    TooMany,
    /// The network has all the configs that it may have.
    #[error("a network has at most 1,024 configs")]
    Full,
    /// The rounds would be counted anew.
    #[error("a service's rounds do not go on where the config before left them")]
    Rounds,
}

/// Most configs that are kept.
const KEPT_MAX: usize = 64;
/// Configs before the one in force by the clock that are kept: the clock may be ahead (MIX-50).
const BEHIND_MAX: usize = 4;

/// The configs from the pinned genesis to the newest one known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chain {
    genesis: [u8; 32],
    /// Ascending, without gaps; those long before the current one are forgotten.
    kept: Vec<(Config, [u8; 32])>,
}

snapshot!(struct Chain { genesis, kept });

impl Chain {
    /// Begins with the config whose hash a person pinned.
    ///
    /// # Errors
    /// [`ChainError`]; nothing is kept.
    pub fn begin(pinned: &[u8; 32], genesis: &SignedConfig) -> Result<Self, ChainError> {
        let config = genesis.config();
        let hash = config.hash();
        // The pin stands for all trust in a network. Signatures alone prove nothing about genesis
        // (MIX-2).
        if hash != *pinned || config.seq != 0 {
            return Err(ChainError::NotPinned);
        }
        check_signatures(genesis, SignatureSet::Own, config)?;
        Ok(Self { genesis: hash, kept: Vec::from([(config.clone(), hash)]) })
    }

    /// Takes a successor. A config that is known already is taken again without effect.
    ///
    /// # Errors
    /// [`ChainError`]; the chain is as before.
    pub fn accept_config(&mut self, next: &SignedConfig, now: Time) -> Result<(), ChainError> {
        let config = next.config();
        let (head, head_hash) = self.last();
        let hash = config.hash();
        // A known config is accepted again without effect. A different one with its number is a
        // fork (MIX-3).
        if config.seq <= head.seq {
            let known = self.kept.iter().any(|(_, known)| *known == hash) || hash == self.genesis;
            return if known { Ok(()) } else { Err(ChainError::Rollback) };
        }
        // Guardians of two networks may be the same, so a valid signature is not enough.
        if config.network != head.network {
            return Err(ChainError::Foreign);
        }
        // The entry must be able to hand out all configs to a new client (MIX-43).
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
        // Forgotten only after the new one is accepted: a refused config must change nothing.
        self.forget_old(now);
        Ok(())
    }

    /// The config in force: the newest that has begun, unless it has ended.
    pub fn current_config(&self, now: Time) -> Option<&Config> {
        self.begun(now).map(|(config, _)| config).filter(|config| now < config.valid_until)
    }

    /// The hash of the config in force.
    pub fn current_hash(&self, now: Time) -> Option<[u8; 32]> {
        self.begun(now).filter(|(config, _)| now < config.valid_until).map(|(_, hash)| *hash)
    }

    /// The config that a round runs under: the one in force when the round opens, whose numbers it
    /// has. Rounds are prepared before they open, so this may be one that has not begun.
    pub fn of_round(&self, id: RoundId) -> Option<&Config> {
        self.entry_of_round(id).map(|(config, _)| config)
    }

    /// The hash of [`of_round`](Self::of_round).
    pub fn hash_of_round(&self, id: RoundId) -> Option<[u8; 32]> {
        self.entry_of_round(id).map(|(_, hash)| *hash)
    }

    fn entry_of_round(&self, id: RoundId) -> Option<&(Config, [u8; 32])> {
        let opens = |config: &Config| config.find_policy(id.service)?.1.open_time(id.round);
        let numbered = self.kept.iter().rev().find(|(config, _)| {
            config.find_policy(id.service).is_some_and(|(_, policy)| policy.base_round <= id.round)
        });
        let (config, hash) = numbered?;
        // Its numbers may fit while another config is in force at that time, which then decides.
        let in_force = self.current_hash(opens(config)?) == Some(*hash);
        numbered.filter(|_| in_force)
    }

    /// The config in force and those that begin later, in order.
    pub fn from_now(&self, now: Time) -> impl Iterator<Item = &Config> {
        let begun = self.kept.iter().rposition(|(config, _)| config.valid_from <= now);
        self.kept[begun.unwrap_or(0)..].iter().map(|(config, _)| config)
    }

    /// All configs that are kept, the newest first.
    pub fn newest_first(&self) -> impl Iterator<Item = &Config> {
        self.kept.iter().rev().map(|(config, _)| config)
    }

    /// The newest config, which may begin later.
    pub fn head_config(&self) -> &Config {
        &self.last().0
    }

    /// The hash of the newest config.
    pub fn head_hash(&self) -> [u8; 32] {
        self.last().1
    }

    /// The hash of the first config: the network's pin.
    pub fn genesis_hash(&self) -> [u8; 32] {
        self.genesis
    }

    /// Writes `genesis 32 | count u8 | count x var16 config`: the stored form of who checked them.
    pub fn write_to(&self, w: &mut Writer) {
        w.put_bytes(&self.genesis).put_u8(self.kept.len() as u8);
        for (config, _) in &self.kept {
            w.put_var16(&config.encode());
        }
    }

    /// Reads what [`write_to`](Self::write_to) wrote. Signatures are not part of it.
    ///
    /// # Errors
    /// [`DecodeError`] unless the configs follow one another.
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

    /// Drops what came long before the current config.
    fn forget_old(&mut self, now: Time) {
        let begun = self.kept.iter().rposition(|(config, _)| config.valid_from <= now);
        // Four earlier ones stay: the clock may be ahead of the config in force (MIX-50).
        self.kept.drain(..begun.unwrap_or(0).saturating_sub(BEHIND_MAX));
    }
}

/// Checks that enough of the guardians that `by` names signed.
fn check_signatures(
    config: &SignedConfig,
    set: SignatureSet,
    by: &Config,
) -> Result<(), ChainError> {
    let valid = config.count_signatures(set, &by.guardians);
    let needed = usize::from(by.threshold);
    if valid < needed { Err(ChainError::Unsigned { valid, needed }) } else { Ok(()) }
}

/// Returns true if each service of the config before goes on, with a first round above its last one. A
/// service that could be left out would come back with numbers that mixes and clients refuse (MIX-76).
fn counts_on(before: &Config, next: &Config) -> bool {
    before.counted_anew_at(next, next.valid_from).is_empty()
}
