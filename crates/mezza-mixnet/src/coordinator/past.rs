//! Rounds that are over. An alarm of a mix arrives later, when the traps are checked.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use mezza_core::snapshot;

use crate::sign::VerifyKey;
use crate::{RoundId, Service};

/// Number of past rounds of one service that are remembered.
const ROUNDS: usize = 16;

/// The record of a round that is over.
pub(super) struct PastRound {
    pub config: [u8; 32],
    pub mixes: Vec<VerifyKey>,
    /// Mixes that raised an alarm.
    pub alarmed: BTreeSet<u8>,
}

snapshot!(struct PastRound { config, mixes, alarmed });

/// The last rounds of each service.
pub(super) struct PastRounds(BTreeMap<RoundId, PastRound>);

snapshot!(struct PastRounds(inner));

impl PastRounds {
    pub const fn new() -> Self {
        Self(BTreeMap::new())
    }

    pub fn put_round(
        &mut self,
        id: RoundId,
        config: [u8; 32],
        mixes: Vec<VerifyKey>,
        alarmed: BTreeSet<u8>,
    ) {
        self.0.insert(id, PastRound { config, mixes, alarmed });
        forget_old(&mut self.0, id.service, ROUNDS);
    }

    pub fn find_round(&mut self, id: RoundId) -> Option<&mut PastRound> {
        self.0.get_mut(&id)
    }
}

/// Drops all but the last `kept` rounds of a service.
pub(super) fn forget_old<T>(rounds: &mut BTreeMap<RoundId, T>, service: Service, kept: usize) {
    let of_service = rounds.keys().filter(|id| id.service == service);
    let old: Vec<RoundId> = of_service.copied().rev().skip(kept).collect();
    for id in old {
        rounds.remove(&id);
    }
}
