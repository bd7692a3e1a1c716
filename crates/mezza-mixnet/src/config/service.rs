//! The part of a config for one service.

use mezza_core::{DecodeError, Reader, Time, Writer, snapshot};

use crate::limits::{BUCKETS_MAX, DURATION_MS_MAX, MU_MAX, SCALE_MAX, SLOTS_MAX, TRAPS_MAX};
use crate::noise::Law;
use crate::service::Service;

/// The distribution of the noise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mode {
    /// Laplace, as in Vuvuzela; for reproducing the paper.
    Paper,
    /// Discrete Gaussian.
    Gauss,
}

snapshot!(enum Mode [Paper, Gauss]);

/// Noise messages whose return a mix checks. Their numbers are constants in addition to the drawn
/// noise, so an ALARM reveals nothing about the draw (MIX-45).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traps {
    /// Number of dead drops with one access.
    pub singles: u16,
    /// Number of dead drops with two accesses, both checked.
    pub pairs: u16,
}

snapshot!(struct Traps { singles, pairs });

impl Traps {
    /// No traps.
    pub const NONE: Self = Self { singles: 0, pairs: 0 };

    /// Returns the number of trap messages.
    pub const fn message_count(self) -> u32 {
        self.singles as u32 + 2 * self.pairs as u32
    }
}

/// One service of a config, 71 bytes in version 1, 75 in version 2. Durations are milliseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServicePolicy {
    /// The service.
    pub service: Service,
    /// The round that opens at `base_time`.
    pub base_round: u64,
    /// Opening time of that round.
    pub base_time: Time,
    /// Milliseconds from one round to the next.
    pub interval_ms: u32,
    /// Milliseconds from the request for the mixes' keys to SETTINGS, the frame that announces the
    /// round's keys to clients.
    pub ask_ms: u32,
    /// Milliseconds from SETTINGS to the opening of the round.
    pub lead_ms: u32,
    /// Milliseconds from the opening to the close.
    pub collect_ms: u32,
    /// Milliseconds from the close to the end.
    pub mix_limit_ms: u32,
    /// Onions of one client; always 1 except for conversations.
    pub slots: u8,
    /// Buckets, a power of two; 1 for conversations.
    pub buckets: u32,
    /// The distribution of the noise.
    pub mode: Mode,
    /// Mean of the noise.
    pub mu: u32,
    /// Scale of the noise: b or sigma.
    pub scale: u32,
    /// The epsilon that the network promises, in millionths.
    pub epsilon_micro: u32,
    /// The delta that the network promises, in units of 10^-12.
    pub delta_pico: u64,
    /// Number of rounds to which the promise applies.
    pub rounds: u64,
    /// Traps that a mix checks in each round; only conversations have any.
    pub traps: Traps,
}

snapshot!(struct ServicePolicy {
    service, base_round, base_time, interval_ms, ask_ms, lead_ms, collect_ms, mix_limit_ms, slots,
    buckets, mode, mu, scale, epsilon_micro, delta_pico, rounds, traps,
});

impl ServicePolicy {
    pub(super) fn read_from(r: &mut Reader<'_>, version: u16) -> Result<Self, DecodeError> {
        Ok(Self {
            service: Service::from_number(r.read_u8()?)?,
            base_round: r.read_u64()?,
            base_time: Time::from_ms(r.read_u64()?),
            interval_ms: r.read_u32()?,
            ask_ms: r.read_u32()?,
            lead_ms: r.read_u32()?,
            collect_ms: r.read_u32()?,
            mix_limit_ms: r.read_u32()?,
            slots: r.read_u8()?,
            buckets: r.read_u32()?,
            mode: match r.read_u8()? {
                0 => Mode::Paper,
                1 => Mode::Gauss,
                _ => return Err(DecodeError::Value),
            },
            mu: r.read_u32()?,
            scale: r.read_u32()?,
            epsilon_micro: r.read_u32()?,
            delta_pico: r.read_u64()?,
            rounds: r.read_u64()?,
            traps: match version {
                // Version 1 ends with `rounds` and has no traps (MIX-45).
                super::VERSION_WITHOUT_TRAPS => Traps::NONE,
                _ => Traps { singles: r.read_u16()?, pairs: r.read_u16()? },
            },
        })
    }

    pub(super) fn write_to(&self, w: &mut Writer, version: u16) {
        w.put_u8(self.service.number()).put_u64(self.base_round).put_u64(self.base_time.as_ms());
        w.put_u32(self.interval_ms).put_u32(self.ask_ms).put_u32(self.lead_ms);
        w.put_u32(self.collect_ms).put_u32(self.mix_limit_ms);
        w.put_u8(self.slots).put_u32(self.buckets).put_u8(u8::from(self.mode == Mode::Gauss));
        w.put_u32(self.mu).put_u32(self.scale);
        w.put_u32(self.epsilon_micro).put_u64(self.delta_pico).put_u64(self.rounds);
        if version != super::VERSION_WITHOUT_TRAPS {
            w.put_u16(self.traps.singles).put_u16(self.traps.pairs);
        }
    }

    /// Returns true if every value is inside its limits.
    pub(super) fn is_sound(&self) -> bool {
        let talks = self.service == Service::Conversation;
        let even = |n: u32| n.is_multiple_of(2);
        let waits = [self.ask_ms, self.lead_ms, self.collect_ms, self.mix_limit_ms];
        (1..=DURATION_MS_MAX).contains(&self.interval_ms)
            && waits.iter().all(|ms| *ms <= DURATION_MS_MAX)
            // With less than 4 ms the margins of `send` would leave no window to draw from.
            && self.collect_ms >= 4
            && self.mix_limit_ms >= 1
            && (1..=if talks { SLOTS_MAX } else { 1 }).contains(&self.slots)
            && self.buckets.is_power_of_two()
            && self.buckets <= if talks { 1 } else { BUCKETS_MAX }
            && self.mu <= MU_MAX
            && self.scale <= SCALE_MAX
            && self.traps.message_count() <= if talks { TRAPS_MAX } else { 0 }
            // Pairs have half the mean and half the scale, and Gaussian sampling uses integers only
            // (MIX-19).
            && (!talks || self.mode == Mode::Paper || (even(self.mu) && even(self.scale)))
    }

    /// Returns the most noise messages, traps included, that one honest mix adds to a round
    /// (MIX-11).
    pub fn noise_max(&self) -> u64 {
        // Traps come on top of every draw, so the bound has to include them (MIX-45).
        let drawn = Law::from_policy(self).messages_max(self.service, self.buckets);
        drawn + u64::from(self.traps.message_count())
    }

    /// Returns the round that opens at `t` or last before it. Returns `None` before the base time,
    /// or if the number exceeds 64 bits.
    pub fn round_at(&self, t: Time) -> Option<u64> {
        // Before its base time a config has no rounds: the predecessor numbers them.
        let since = t.as_ms().checked_sub(self.base_time.as_ms())?;
        self.base_round.checked_add(since / u64::from(self.interval_ms))
    }

    /// Returns the opening time of a round. Returns `None` before the base round, or if the time
    /// exceeds 64 bits.
    pub fn open_time(&self, round: u64) -> Option<Time> {
        let rounds = round.checked_sub(self.base_round)?;
        let since = rounds.checked_mul(u64::from(self.interval_ms))?;
        self.base_time.as_ms().checked_add(since).map(Time::from_ms)
    }

    /// Returns the opening time of a round if `now` is at most `slack_ms` outside [open - lead -
    /// ask, close]. A round far away would advance state that cannot go back (MIX-34).
    pub fn opens_around(&self, round: u64, now: Time, slack_ms: u64) -> Option<Time> {
        let open = self.open_time(round)?;
        let before = self.ahead_ms() + slack_ms;
        let after = u64::from(self.collect_ms) + slack_ms;
        (open.minus_ms(before)..=open.plus_ms(after)).contains(&now).then_some(open)
    }

    /// Returns the milliseconds from the request for keys to the opening.
    pub fn ahead_ms(&self) -> u64 {
        u64::from(self.ask_ms) + u64::from(self.lead_ms)
    }

    /// Returns the longest time in milliseconds for which a mix keeps the secret of a round: from
    /// the request for its key to the end, plus a second.
    pub fn secret_ms(&self) -> u64 {
        [self.ask_ms, self.lead_ms, self.collect_ms, self.mix_limit_ms]
            .into_iter()
            .map(u64::from)
            .sum::<u64>()
            + Time::SECOND_MS
    }
}
