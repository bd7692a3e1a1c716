//! How many rounds a user has spent, per period and noise. It never decreases.
//!
//! A period is 365 days of conversation rounds, counted from the first one joined and never by a
//! clock: rounds that a config skips do not count, so that no config begins a new period. Losses of
//! periods add: [`Ledger::all_spent`] is the whole of it, for the calculator.
//!
//! A restored backup goes on under a branch of its own. The charges of two branches add up; of one
//! branch the larger number counts, because a branch only grows. So nothing is counted twice, and
//! nothing is forgotten, whichever copy was merged into which.

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
/// A period, in milliseconds of conversation rounds.
const PERIOD_MS: u64 = 365 * Time::DAY_MS;

/// The privacy cost of one round: the divergence follows from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PrivacyCost {
    /// Which service.
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

    /// Reads what [`write_to`](Self::write_to) wrote.
    ///
    /// # Errors
    /// Whatever the bytes lack, or a value outside its limits.
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

/// Which part of its budget a service has used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum BudgetState {
    /// Below 80 %.
    Plenty,
    /// 80 % or more.
    Low,
    /// All of it: contacts are served no longer unless the user allows more.
    Used,
}

snapshot!(enum BudgetState [Plenty, Low, Used]);

/// Where in its period a ledger is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Clock {
    period: u32,
    /// Of conversation rounds, since the period began.
    elapsed_ms: u64,
    /// The base round of the config and the round that was joined last.
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
    /// Nothing spent; `branch` is a number of chance.
    pub const fn new(network: NetworkId, branch: u64) -> Self {
        let clock = Clock { period: 0, elapsed_ms: 0, last: None };
        Self { network, branch, clock, rounds: BTreeMap::new() }
    }

    /// Which network this is about, 16 bytes.
    pub const fn network(&self) -> &NetworkId {
        &self.network
    }

    /// The number of the period, from 0.
    pub const fn period(&self) -> u32 {
        self.clock.period
    }

    /// A conversation round that all mixes signed was joined: the one thing that moves time on.
    /// `base` is the base round of its config: between two configs only the rounds of the later one
    /// count.
    pub fn record_join(&mut self, round: u64, base: u64, interval_ms: u32) {
        let from = match self.clock.last {
            Some((its, last)) => match its.cmp(&base) {
                // A new config numbers anew: rounds between the two are skipped and do not count
                // (MIX-25).
                Ordering::Less => base,
                Ordering::Equal => last,
                // A round of an earlier config must not set time back.
                Ordering::Greater => return,
            },
            None => round,
        };
        // An older round changes nothing: time in the ledger only moves on.
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

    /// Charges one round in which something real was sent, whatever became of it (MIX-24).
    pub fn charge_round(&mut self, kind: PrivacyCost) {
        let rounds = self.rounds.entry((self.branch, kind, self.clock.period)).or_default();
        // Saturating, because a counter that wraps would hand out a new budget (MIX-24).
        *rounds = rounds.saturating_add(1);
    }

    /// Returns the plain number of rounds of a service charged in this period.
    pub fn used_rounds(&self, service: Service) -> u64 {
        let now =
            |kind: &PrivacyCost, period: u32| kind.service == service && period == self.period();
        let rounds = self.rounds.iter().filter(|((_, kind, period), _)| now(kind, *period));
        rounds.map(|(_, rounds)| *rounds).fold(0, u64::saturating_add)
    }

    /// Returns the rounds of a service spent in this period, in rounds of the noise of `policy`: a
    /// round under less noise counts as many times as it loses more (MIX-72).
    pub fn count_used(&self, policy: &ServicePolicy) -> u64 {
        let unit = RoundsSpent::from_policy(policy, 1);
        let spent = self.rounds.iter().filter(|((_, kind, period), _)| {
            // Earlier periods have budgets of their own. Their losses still add in the calculator
            // (MIX-25).
            kind.service == policy.service && *period == self.period()
        });
        let used = spent.map(|((_, kind, _), rounds)| kind.spent_rounds(*rounds).count_as(&unit));
        used.fold(0, u64::saturating_add)
    }

    /// How much of a config's budget is used.
    pub fn budget_state(&self, policy: &ServicePolicy) -> BudgetState {
        let used = u128::from(self.count_used(policy));
        match u128::from(policy.rounds) {
            // First, so that a budget of 0 rounds is used up and not low.
            all if used >= all => BudgetState::Used,
            all if used * 10 >= all * 8 => BudgetState::Low,
            _ => BudgetState::Plenty,
        }
    }

    /// All that was spent, over all periods, for [`delta`](super::delta).
    pub fn all_spent(&self) -> Vec<RoundsSpent> {
        self.rounds.iter().map(|((_, kind, _), rounds)| kind.spent_rounds(*rounds)).collect()
    }

    /// Goes on under another branch, a number of chance: after a restore from a backup, whose
    /// original may go on, too.
    pub const fn branch_off(&mut self, branch: u64) {
        self.branch = branch;
    }

    /// Takes the larger of each number of each branch, so that none is counted twice. Of another
    /// network nothing is taken.
    pub fn merge(&mut self, other: &Self) {
        // Rounds of another network say nothing about the noise of this one.
        if other.network != self.network {
            return;
        }
        // The later time wins: an older copy must not begin its period again.
        self.clock = self.clock.max(other.clock);
        for (key, rounds) in &other.rounds {
            let own = self.rounds.entry(*key).or_default();
            // Of one branch both numbers count the same rounds, so the larger one includes the
            // other (MIX-24).
            *own = (*own).max(*rounds);
        }
    }

    /// The stored form: `version u8 | network 16 | branch u64 | period u32 | elapsed u64 ms | joined
    /// u8 | base u64 | round u64 | count u32 | count x (branch u64 | kind 11 | period u32 | rounds
    /// u64)`, ascending.
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
    /// [`DecodeError`] unless [`encode`](Self::encode) makes these bytes.
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
                // Ascending without repetition, so that one ledger has one form.
                if ledger.rounds.last_key_value().is_some_and(|(last, _)| *last >= key) {
                    return Err(DecodeError::Value);
                }
                ledger.rounds.insert(key, rounds);
            }
            Ok(ledger)
        })
    }
}
