//! The ledger: the number of rounds that a user has spent, per period and noise. It never
//! decreases.
//!
//! A period is 365 days of conversation rounds, counted from the first joined one and never by a
//! clock. Rounds that a config skips do not count, so no config begins a new period. The losses of
//! periods add up: [`Ledger::all_spent`] returns all of them, for the calculator.
//!
//! A restored backup continues in a branch of its own. The charges of two branches add up. Within
//! one branch the larger number counts, because a branch only grows. No charge is therefore counted
//! twice or forgotten, whichever copy is merged into which.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::cmp::Ordering;

use mezza_core::{DecodeError, Reader, Time, Writer, snapshot};

use super::RoundsSpent;
use crate::Service;
use crate::config::{Mode, NetworkId, ServicePolicy};
use crate::limits::{MU_MAX, SCALE_MAX, SLOTS_MAX};
use crate::noise::Law;

/// The version of the stored form.
const VERSION: u8 = 2;
/// Bytes of one entry of the stored form.
const ENTRY_BYTES: usize = 8 + KIND_BYTES + 4 + 8;
/// Bytes of a [`PrivacyCost`].
const KIND_BYTES: usize = 11;
/// Length of a period in milliseconds of conversation rounds.
const PERIOD_MS: u64 = 365 * Time::DAY_MS;

/// The privacy cost of one round, from which the divergence is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PrivacyCost {
    /// The service of the round.
    pub service: Service,
    /// The noise of each honest mix.
    pub law: Law,
    /// Onions of a user in one round.
    pub slots: u8,
}

snapshot!(struct PrivacyCost { service, law, slots });

impl PrivacyCost {
    /// Returns the cost of a round under a policy.
    pub const fn from_policy(policy: &ServicePolicy) -> Self {
        Self { service: policy.service, law: Law::from_policy(policy), slots: policy.slots }
    }

    /// Returns `rounds` rounds of this cost.
    const fn spent_rounds(self, rounds: u64) -> RoundsSpent {
        RoundsSpent { service: self.service, law: self.law, slots: self.slots, rounds }
    }

    /// Writes `service u8 | mode u8 | mu u32 | scale u32 | slots u8`, 11 bytes.
    pub fn write_to(self, w: &mut Writer) {
        w.put_u8(self.service.number()).put_u8(u8::from(self.law.mode == Mode::Gauss));
        w.put_u32(self.law.mu).put_u32(self.law.scale).put_u8(self.slots);
    }

    /// Reads the form of [`write_to`](Self::write_to).
    ///
    /// # Errors
    /// [`DecodeError`] if bytes are missing or a value is outside its limits.
    pub fn read_from(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let service = Service::from_number(r.read_u8()?)?;
        let mode = match r.read_u8()? {
            0 => Mode::Paper,
            1 => Mode::Gauss,
            _ => return Err(DecodeError::Value),
        };
        let law = Law { mode, mu: r.read_u32()?, scale: r.read_u32()? };
        let slots = r.read_u8()?;
        // No config has such values, so the entry is damaged.
        if law.mu > MU_MAX || law.scale > SCALE_MAX || !(1..=SLOTS_MAX).contains(&slots) {
            return Err(DecodeError::Value);
        }
        Ok(Self { service, law, slots })
    }
}

/// The used part of a service's budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum BudgetState {
    /// Below 80 %.
    Plenty,
    /// 80 % or more.
    Low,
    /// All of it; contacts are no longer served unless the user allows more.
    Used,
}

snapshot!(enum BudgetState [Plenty, Low, Used]);

/// Position of a ledger in its period.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Clock {
    period: u32,
    /// Milliseconds of conversation rounds since the period began.
    elapsed_ms: u64,
    /// The base round of the config and the last joined round.
    last: Option<(u64, u64)>,
}

snapshot!(struct Clock { period, elapsed_ms, last });

/// The rounds spent in one network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ledger {
    network: NetworkId,
    branch: u64,
    clock: Clock,
    rounds: BTreeMap<(u64, PrivacyCost, u32), u64>,
}

snapshot!(struct Ledger { network, branch, clock, rounds });

impl Ledger {
    /// Creates an empty ledger; `branch` is a random number.
    pub const fn new(network: NetworkId, branch: u64) -> Self {
        let clock = Clock { period: 0, elapsed_ms: 0, last: None };
        Self { network, branch, clock, rounds: BTreeMap::new() }
    }

    /// Returns the network of the ledger, 16 bytes.
    pub const fn network(&self) -> &NetworkId {
        &self.network
    }

    /// Returns the number of the period, from 0.
    pub const fn period(&self) -> u32 {
        self.clock.period
    }

    /// Records a joined conversation round that all mixes signed; only this advances the period.
    /// `base` is the base round of its config. Between two configs only the rounds of the later one
    /// count.
    pub fn record_join(&mut self, round: u64, base: u64, interval_ms: u32) {
        let from = match self.clock.last {
            Some((its, last)) => match its.cmp(&base) {
                // A new config has its own numbers. Rounds between the two are skipped and do not
                // count (MIX-25).
                Ordering::Less => base,
                Ordering::Equal => last,
                // A round of an earlier config must not move the period back.
                Ordering::Greater => return,
            },
            None => round,
        };
        // An older round changes nothing, because the period only advances.
        let Some(rounds) = round.checked_sub(from) else { return };
        let elapsed =
            rounds.saturating_mul(interval_ms.into()).saturating_add(self.clock.elapsed_ms);
        let periods = u32::try_from(elapsed / PERIOD_MS).unwrap_or(u32::MAX);
        self.clock = Clock {
            period: self.clock.period.saturating_add(periods),
            elapsed_ms: elapsed % PERIOD_MS,
            last: Some((base, round)),
        };
    }

    /// Charges one round with real content, whatever happens to the round (MIX-24).
    pub fn charge_round(&mut self, kind: PrivacyCost) {
        let rounds = self.rounds.entry((self.branch, kind, self.clock.period)).or_default();
        // Saturating, because an overflow would give a new budget (MIX-24).
        *rounds = rounds.saturating_add(1);
    }

    /// Returns the number of rounds of a service charged in this period, without conversion.
    pub fn used_rounds(&self, service: Service) -> u64 {
        let now =
            |kind: &PrivacyCost, period: u32| kind.service == service && period == self.period();
        let rounds = self.rounds.iter().filter(|((_, kind, period), _)| now(kind, *period));
        rounds.map(|(_, rounds)| *rounds).fold(0, u64::saturating_add)
    }

    /// Returns the rounds of a service spent in this period, converted to rounds with the noise of
    /// `policy`. A round with less noise counts as many times as its loss is larger (MIX-72).
    pub fn count_used(&self, policy: &ServicePolicy) -> u64 {
        let unit = RoundsSpent::from_policy(policy, 1);
        let spent = self.rounds.iter().filter(|((_, kind, period), _)| {
            // Earlier periods have their own budgets. Their losses still count in the calculator
            // (MIX-25).
            kind.service == policy.service && *period == self.period()
        });
        let used = spent.map(|((_, kind, _), rounds)| kind.spent_rounds(*rounds).count_as(&unit));
        used.fold(0, u64::saturating_add)
    }

    /// Returns the used part of a config's budget.
    pub fn budget_state(&self, policy: &ServicePolicy) -> BudgetState {
        let used = u128::from(self.count_used(policy));
        match u128::from(policy.rounds) {
            // This case comes first, so that a budget of 0 rounds is used up and not low.
            all if used >= all => BudgetState::Used,
            all if used * 10 >= all * 8 => BudgetState::Low,
            _ => BudgetState::Plenty,
        }
    }

    /// Returns all spent rounds of all periods, for [`delta`](super::delta).
    pub fn all_spent(&self) -> Vec<RoundsSpent> {
        self.rounds.iter().map(|((_, kind, _), rounds)| kind.spent_rounds(*rounds)).collect()
    }

    /// Continues in another branch, a random number, after a restore from a backup whose original
    /// may also continue.
    pub const fn branch_off(&mut self, branch: u64) {
        self.branch = branch;
    }

    /// Merges another ledger by taking the larger number of each entry of each branch, so that no
    /// round is counted twice. A ledger of another network is ignored.
    pub fn merge(&mut self, other: &Self) {
        // Rounds of another network do not concern the noise of this one.
        if other.network != self.network {
            return;
        }
        // The later position is used, because an older copy must not begin its period again.
        self.clock = self.clock.max(other.clock);
        for (key, rounds) in &other.rounds {
            let own = self.rounds.entry(*key).or_default();
            // Within one branch both numbers count the same rounds, so the larger one includes the
            // other (MIX-24).
            *own = (*own).max(*rounds);
        }
    }

    /// Encodes the stored form: `version u8 | network 16 | branch u64 | period u32 | elapsed u64 ms
    /// | joined u8 | base u64 | round u64 | count u32 | count x (branch u64 | kind 11 | period u32
    /// | rounds u64)`, ascending.
    pub fn encode(&self) -> Vec<u8> {
        let mut w = Writer::with_capacity(58 + ENTRY_BYTES * self.rounds.len());
        let (base, round) = self.clock.last.unwrap_or_default();
        w.put_u8(VERSION).put_bytes(&self.network.0).put_u64(self.branch);
        w.put_u32(self.clock.period).put_u64(self.clock.elapsed_ms);
        w.put_u8(u8::from(self.clock.last.is_some())).put_u64(base).put_u64(round);
        w.put_u32(self.rounds.len() as u32);
        for ((branch, kind, period), rounds) in &self.rounds {
            w.put_u64(*branch);
            kind.write_to(&mut w);
            w.put_u32(*period).put_u64(*rounds);
        }
        w.finish()
    }

    /// Reads the stored form.
    ///
    /// # Errors
    /// [`DecodeError`] unless the bytes are the result of [`encode`](Self::encode).
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        Reader::decode_exact(bytes, |r| {
            if r.read_u8()? != VERSION {
                return Err(DecodeError::Value);
            }
            let network = NetworkId(r.read_array()?);
            let branch = r.read_u64()?;
            let period = r.read_u32()?;
            let elapsed_ms = r.read_u64()?;
            let last = match (r.read_u8()?, r.read_u64()?, r.read_u64()?) {
                (0, 0, 0) => None,
                (1, base, round) => Some((base, round)),
                _ => return Err(DecodeError::Value),
            };
            if elapsed_ms >= PERIOD_MS {
                return Err(DecodeError::Value);
            }
            let clock = Clock { period, elapsed_ms, last };
            let mut ledger = Self { network, branch, clock, rounds: BTreeMap::new() };
            for _ in 0..r.read_u32()? {
                let key = (r.read_u64()?, PrivacyCost::read_from(r)?, r.read_u32()?);
                let rounds = r.read_u64()?;
                // The order is ascending without repetition, so that one ledger has one form.
                if ledger.rounds.last_key_value().is_some_and(|(last, _)| *last >= key) {
                    return Err(DecodeError::Value);
                }
                ledger.rounds.insert(key, rounds);
            }
            Ok(ledger)
        })
    }
}
