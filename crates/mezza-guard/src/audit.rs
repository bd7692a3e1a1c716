//! The audit: how many bits a tampered client can still send, computed from the rules in force (GUARD-40).

use alloc::vec::Vec;

use crate::ledger::GuardTotals;
use crate::rule::{Check, Field, Pins, RuleTable};

/// The bits of a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChannelBits {
    /// So many hundredths of a bit.
    Hundredths(u32),
    /// The client chooses.
    Free,
}

impl ChannelBits {
    /// No channel.
    pub const NONE: Self = Self::Hundredths(0);

    const fn bits(bits: u32) -> Self {
        Self::Hundredths(100 * bits)
    }
}

/// One row of the audit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AuditRow {
    /// The kind of the frame; 0 for what belongs to no frame.
    pub kind: u8,
    /// The first byte of the field.
    pub at: u16,
    /// The meaning of the field.
    pub what: &'static str,
    /// Bits in a handshake that is accepted.
    pub accepted: ChannelBits,
    /// Bits in a handshake that is refused: it counts, and the third of a day raises an alarm.
    pub refused: ChannelBits,
    /// The attack that uses the channel, or that fails on it.
    pub attack: &'static str,
    /// The measure that would close it; empty where it is closed.
    pub closed_by: &'static str,
}

/// Bits of IDs and link number that are learned on first use, once.
const LEARNED_BITS: u32 = 144;
/// Bits of a MAC that the guard cannot check.
const MAC_BITS: u32 = 128;

fn of_field(kind: u8, field: &Field, pins: Option<&Pins>) -> AuditRow {
    let wide = 8 * u32::from(field.len);
    let none = ChannelBits::NONE;
    let (what, accepted, refused, attack, closed_by) = match field.check {
        Check::Constant(_) => ("constant", none, none, "A7", ""),
        Check::Element(..) => ("element Z + rho G", none, none, "A3", ""),
        Check::Derived(..) => ("derived", none, none, "A2", ""),
        Check::Echo(_) | Check::LowByte(_) => ("echo", none, none, "A7", ""),
        Check::Pinned(_) if pins.is_some() => ("pinned", none, none, "A7", ""),
        Check::Pinned(_) => {
            ("learned once", ChannelBits::bits(wide), none, "A7", "guard dest add --ids")
        }
        Check::Counter => ("counter", none, ChannelBits::bits(4), "A9", "no gaps"),
        Check::Mac => ("MAC", none, ChannelBits::bits(wide), "A11", "the guard's own tunnel"),
        Check::Body => {
            ("body", ChannelBits::Free, ChannelBits::bits(wide), "A3", "the guard as end point")
        }
    };
    AuditRow { kind, at: field.at, what, accepted, refused, attack, closed_by }
}

/// Channels outside of all fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Surroundings {
    /// Allowed destinations.
    pub destinations: u16,
    /// Lengths of a record.
    pub lengths: u16,
    /// The tick of the shaper, ms; 0 is none.
    pub tick_ms: u32,
    /// Counts of the ledger.
    pub totals: GuardTotals,
    /// Destinations whose first counter the owner has not said.
    pub free_counters: u32,
}

/// The rows of a table, then those of its surroundings.
pub fn audit_table(table: &RuleTable, pins: Option<&Pins>, around: &Surroundings) -> Vec<AuditRow> {
    let fields = table
        .rules()
        .iter()
        .flat_map(|rule| rule.fields.iter().map(move |field| of_field(rule.kind, field, pins)));
    let other = |what, accepted, attack, closed_by| AuditRow {
        kind: 0,
        at: 0,
        what,
        accepted,
        refused: accepted,
        attack,
        closed_by,
    };
    // Without a tick any delay passes, so no figure bounds this channel.
    let timing = if around.tick_ms == 0 { ChannelBits::Free } else { ChannelBits::bits(1) };
    let GuardTotals { resets, handshakes, refused } = around.totals;
    // The first counter is free, and so is each one after a reset.
    let counters =
        32 * u64::from(around.free_counters + u32::from(around.free_counters > 0) * resets);
    // Capped so that the figure in hundredths stays inside 32 bits.
    let counters = ChannelBits::bits(u32::try_from(counters).unwrap_or(u32::MAX / 100));
    // The channel is which handshakes were followed by a reset, not only how many.
    let resets = log2_choose(handshakes.saturating_add(resets), resets);
    let surroundings = [
        other("length of a record", log2(around.lengths.into()), "A10", "records of one length"),
        other("timing, each tick", timing, "A10", "frames at every tick"),
        other(
            "choice of destination",
            log2(around.destinations.into()),
            "A10",
            "fewer destinations",
        ),
        other("went through or not", ChannelBits::bits(1), "A9", "a retry that the guard makes"),
        other("resets of slots", resets, "A9", "no resets"),
        other(
            "first counter",
            counters,
            "A9",
            if around.free_counters > 0 { "guard dest add --counter" } else { "" },
        ),
        AuditRow {
            accepted: ChannelBits::NONE,
            ..other(
                "refused handshakes so far",
                ChannelBits::bits(refused.saturating_mul(MAC_BITS).min(u32::MAX / 100)),
                "A11",
                if refused > 0 { "another device, with other keys" } else { "" },
            )
        },
    ];
    fields.chain(surroundings).collect()
}

/// The choice that a tampered client keeps in a handshake that is accepted, on the scale of 0 to 3 that
/// makers of hardware wallets use for signatures. Level 1 is a value that anybody can calculate again,
/// which no key of a handshake is: no table has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ProtectionLevel {
    /// 0: the client chooses at least one field freely, so one handshake can carry a key.
    Open,
    /// 2: a third party takes part in each random value; a channel of a bounded number of bits is left.
    Bounded,
    /// 3: client and guard make each random value together, and no field has a choice left.
    Closed,
}

impl ProtectionLevel {
    /// Its number on the scale.
    pub const fn number(self) -> u8 {
        match self {
            Self::Open => 0,
            Self::Bounded => 2,
            Self::Closed => 3,
        }
    }
}

/// The level of the handshake that a table covers. Timing, lengths, destinations and refused handshakes
/// are no part of the scale: they have their own rows.
pub fn protection_level(table: &RuleTable, pins: Option<&Pins>) -> ProtectionLevel {
    let fields = table.rules().iter().flat_map(|rule| rule.fields);
    let accepted = |field: &Field| of_field(0, field, pins).accepted;
    let levels = fields.map(|field| match accepted(field) {
        ChannelBits::Free => ProtectionLevel::Open,
        ChannelBits::NONE => ProtectionLevel::Closed,
        ChannelBits::Hundredths(_) => ProtectionLevel::Bounded,
    });
    // A table without a field covers nothing.
    levels.min().unwrap_or(ProtectionLevel::Open)
}

/// Bits that are learned on first use where the owner has said nothing, all fields together.
pub const fn learned_bits() -> u32 {
    LEARNED_BITS
}

/// log2 in hundredths, rounded up: squared seven times, a number shows its logarithm in hundredths well
/// enough, and no floating point is needed.
fn log2(count: u32) -> ChannelBits {
    let mut hundredths = 0;
    // The least h with 2^(h/100) >= count, by integers: 2^h >= count^100 in steps of a hundredth.
    while power_of_two_hundredth(hundredths) < u64::from(count) << FRACTION {
        hundredths += 1;
    }
    ChannelBits::Hundredths(hundredths)
}

/// Factors of a binomial coefficient that are counted one by one.
const FACTORS_MAX: u32 = 10_000;
/// Bits of fraction.
const FRACTION: u32 = 24;
/// 2^(1/100) with 24 bits of fraction, rounded up.
const HUNDREDTH: u64 = 16_893_911;

/// 2^(h/100) with 24 bits of fraction.
fn power_of_two_hundredth(h: u32) -> u64 {
    (0..h % 100).fold(1_u64 << FRACTION, |x, _| (x * HUNDREDTH) >> FRACTION) << (h / 100)
}

/// log2 of n over k in hundredths, each factor rounded up.
fn log2_choose(n: u32, k: u32) -> ChannelBits {
    let hundredths = |count| match log2(count) {
        ChannelBits::Hundredths(h) => h,
        ChannelBits::Free => 0,
    };
    // The coefficient is symmetric, and the smaller side has fewer factors.
    let k = k.min(n - k);
    // Beyond this many the sum is bounded by its terms: an audit must end.
    if k > FACTORS_MAX {
        return ChannelBits::Hundredths(hundredths(n).saturating_mul(k));
    }
    let above: u32 = (0..k).map(|i| hundredths(n - i)).sum();
    // Divisors are rounded down and factors up, so that the figure is never too small (GUARD-40).
    let below: u32 = (0..k).map(|i| hundredths(i + 1).saturating_sub(1)).sum();
    ChannelBits::Hundredths(above.saturating_sub(below))
}
