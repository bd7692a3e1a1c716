//! How many rounds a user has spent, per period and noise. It never decreases.
//!
//! A period is a fixed number of conversation rounds, counted from the first one joined and never
//! by a clock. Losses of periods add: [`Ledger::spent`] is the whole of it, for the calculator.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use mezza_core::{DecodeError, Reader, Time, Writer};

use super::Spent;
use crate::Service;
use crate::config::{Mode, ServicePolicy};
use crate::limits::{MU_MAX, SCALE_MAX, SLOTS_MAX};
use crate::noise::Law;

/// The version of the stored form.
const VERSION: u8 = 1;
/// Bytes of one entry of the stored form.
const ENTRY_BYTES: usize = 1 + 1 + 4 + 4 + 1 + 4 + 8;

/// What one kind of round costs: the divergence follows from this.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Kind {
    service: Service,
    law: Law,
    slots: u8,
}

/// Which part of its budget a service has used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Below 80 %.
    Plenty,
    /// 80 % or more.
    Low,
    /// All of it: contacts are served no longer unless the user allows more.
    Used,
}

/// The rounds spent in one network. Two ledgers of one network merge to the larger of each number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ledger {
    network: [u8; 16],
    /// The first conversation round of the period, once one was joined.
    begun: Option<u64>,
    period: u32,
    rounds: BTreeMap<(Kind, u32), u64>,
}

impl Ledger {
    /// Nothing spent.
    pub const fn new(network: [u8; 16]) -> Self {
        Self { network, begun: None, period: 0, rounds: BTreeMap::new() }
    }

    /// Which network this is about, 16 bytes.
    pub const fn network(&self) -> &[u8; 16] {
        &self.network
    }

    /// The number of the period, from 0.
    pub const fn period(&self) -> u32 {
        self.period
    }

    /// A conversation round that all mixes signed was joined: the one thing that moves time on.
    pub fn joined(&mut self, round: u64, interval_ms: u32) {
        let len = rounds_of_period(interval_ms);
        let begun = *self.begun.get_or_insert(round);
        let periods = round.saturating_sub(begun) / len;
        self.begun = Some(begun + periods * len);
        self.period = self.period.saturating_add(u32::try_from(periods).unwrap_or(u32::MAX));
    }

    /// Charges one round in which something real was sent, whatever became of it (MIX-24).
    pub fn charge(&mut self, policy: &ServicePolicy) {
        let kind = Kind { service: policy.service, law: Law::of(policy), slots: policy.slots };
        let rounds = self.rounds.entry((kind, self.period)).or_default();
        *rounds = rounds.saturating_add(1);
    }

    /// Rounds of a service spent in this period, under whatever noise.
    pub fn used(&self, service: Service) -> u64 {
        let now = |(kind, period): &(Kind, u32)| kind.service == service && *period == self.period;
        self.rounds.iter().filter(|(key, _)| now(key)).map(|(_, rounds)| *rounds).sum()
    }

    /// How much of a config's budget is used.
    pub fn level(&self, policy: &ServicePolicy) -> Level {
        let used = u128::from(self.used(policy.service));
        match u128::from(policy.rounds) {
            all if used >= all => Level::Used,
            all if used * 10 >= all * 8 => Level::Low,
            _ => Level::Plenty,
        }
    }

    /// All that was spent, over all periods, for [`delta`](super::delta).
    pub fn spent(&self) -> Vec<Spent> {
        let of = |((kind, _), rounds): (&(Kind, u32), &u64)| Spent {
            service: kind.service,
            law: kind.law,
            slots: kind.slots,
            rounds: *rounds,
        };
        self.rounds.iter().map(of).collect()
    }

    /// Takes the larger of each number: after a restore, or when a network is joined again. Of
    /// another network nothing is taken.
    pub fn merge(&mut self, other: &Self) {
        if other.network != self.network {
            return;
        }
        let later = (other.period, other.begun) > (self.period, self.begun);
        if later {
            (self.period, self.begun) = (other.period, other.begun);
        }
        for (key, rounds) in &other.rounds {
            let own = self.rounds.entry(*key).or_default();
            *own = (*own).max(*rounds);
        }
    }

    /// The stored form: `version u8 | network 16 | period u32 | begun flag u8, round u64 | count
    /// u32 | count x (service u8 | mode u8 | mu u32 | scale u32 | slots u8 | period u32 | rounds
    /// u64)`, ascending.
    pub fn encode(&self) -> Vec<u8> {
        let mut w = Writer::with_capacity(34 + ENTRY_BYTES * self.rounds.len());
        w.u8(VERSION).bytes(&self.network).u32(self.period);
        w.u8(u8::from(self.begun.is_some())).u64(self.begun.unwrap_or(0));
        w.u32(self.rounds.len() as u32);
        for ((kind, period), rounds) in &self.rounds {
            w.u8(kind.service.number()).u8(u8::from(kind.law.mode == Mode::Gauss));
            w.u32(kind.law.mu).u32(kind.law.scale).u8(kind.slots).u32(*period).u64(*rounds);
        }
        w.finish()
    }

    /// Reads the stored form.
    ///
    /// # Errors
    /// [`DecodeError`] unless [`encode`](Self::encode) makes these bytes.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        Reader::all(bytes, |r| {
            if r.u8()? != VERSION {
                return Err(DecodeError::Value);
            }
            let (network, period) = (r.array()?, r.u32()?);
            let begun = match (r.u8()?, r.u64()?) {
                (0, 0) => None,
                (1, round) => Some(round),
                _ => return Err(DecodeError::Value),
            };
            let mut ledger = Self { network, begun, period, rounds: BTreeMap::new() };
            for _ in 0..r.u32()? {
                let (key, rounds) = (read_key(r)?, r.u64()?);
                if ledger.rounds.last_key_value().is_some_and(|(last, _)| *last >= key) {
                    return Err(DecodeError::Value);
                }
                ledger.rounds.insert(key, rounds);
            }
            Ok(ledger)
        })
    }
}

fn read_key(r: &mut Reader<'_>) -> Result<(Kind, u32), DecodeError> {
    let service = Service::from_number(r.u8()?)?;
    let mode = match r.u8()? {
        0 => Mode::Paper,
        1 => Mode::Gauss,
        _ => return Err(DecodeError::Value),
    };
    let law = Law { mode, mu: r.u32()?, scale: r.u32()? };
    let slots = r.u8()?;
    if law.mu > MU_MAX || law.scale > SCALE_MAX || !(1..=SLOTS_MAX).contains(&slots) {
        return Err(DecodeError::Value);
    }
    Ok((Kind { service, law, slots }, r.u32()?))
}

/// Conversation rounds of one period: those of 365 days.
pub fn rounds_of_period(interval_ms: u32) -> u64 {
    (365 * Time::DAY_MS).div_ceil(u64::from(interval_ms.max(1)))
}
