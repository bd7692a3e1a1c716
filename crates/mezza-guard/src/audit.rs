//! The audit: the number of bits that a tampered client can still send, computed from the rules in
//! force (GUARD-40).

use alloc::vec::Vec;

use crate::ledger::GuardTotals;
use crate::rule::{Check, Field, Pins, RuleTable};

/// The capacity of a channel in bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChannelBits {
    /// Hundredths of a bit.
    Hundredths(u32),
    /// No bound: the client chooses the value freely.
    Free,
}

impl ChannelBits {
    /// A channel without capacity.
    pub const NONE: Self = Self::Hundredths(0);

    const fn bits(bits: u32) -> Self {
        Self::Hundredths(100 * bits)
    }
}

/// One row of the audit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AuditRow {
    /// Kind of the frame; 0 for a channel outside of frames.
    pub kind: u8,
    /// Offset of the field's first byte.
    pub at: u16,
    /// The meaning of the field.
    pub what: &'static str,
    /// Bits in an accepted handshake.
    pub accepted: ChannelBits,
    /// Bits in a refused handshake. Refusals are counted, and the third in a day raises an alarm.
    pub refused: ChannelBits,
    /// The attack that uses the channel or fails because it is closed.
    pub attack: &'static str,
    /// The measure that would close the channel; empty if it is closed.
    pub closed_by: &'static str,
}

/// Bits of IDs and link number that are learned from the first handshake, once.
const LEARNED_BITS: u32 = 144;
/// Bits of a MAC, which the guard cannot verify.
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

/// The facts about channels outside of all fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Surroundings {
    /// Number of allowed destinations.
    pub destinations: u16,
    /// Number of allowed lengths of a record.
    pub lengths: u16,
    /// Tick of the shaper in ms; 0 means no shaper.
    pub tick_ms: u32,
    /// Totals of the ledger.
    pub totals: GuardTotals,
    /// Number of destinations whose first counter the owner has not set.
    pub free_counters: u32,
}

/// Returns the rows of a rule table, followed by the rows for channels outside of fields.
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
    // Without a tick any delay passes, so this channel has no bound.
    let timing = if around.tick_ms == 0 { ChannelBits::Free } else { ChannelBits::bits(1) };
    let GuardTotals { resets, handshakes, refused } = around.totals;
    // The first counter is free, and so is each one after a reset.
    let counters =
        32 * u64::from(around.free_counters + u32::from(around.free_counters > 0) * resets);
    // Capped so that the number in hundredths fits into 32 bits.
    let counters = ChannelBits::bits(u32::try_from(counters).unwrap_or(u32::MAX / 100));
    // The channel is the choice of handshakes that are followed by a reset, not only their number.
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

/// The freedom that a tampered client has in an accepted handshake, on the scale of 0 to 3 that
/// makers of hardware wallets use for signatures. Level 1 is a value that any observer can
/// recompute. No key of a handshake is one, so no table has this level.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ProtectionLevel {
    /// 0: the client chooses at least one field freely, so one handshake can transport a key.
    Open,
    /// 2: a third party contributes to each random value; a channel of a bounded number of bits is
    /// left.
    Bounded,
    /// 3: client and guard generate each random value together, and no field has a choice left.
    Closed,
}

impl ProtectionLevel {
    /// Returns the number on the scale.
    pub const fn number(self) -> u8 {
        match self {
            Self::Open => 0,
            Self::Bounded => 2,
            Self::Closed => 3,
        }
    }
}

/// Returns the level of the handshake that a table covers. Timing, lengths, destinations and
/// refused handshakes have their own rows and do not count.
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

/// Returns the bits learned from a first handshake that the owner has not pinned, over all fields.
pub const fn learned_bits() -> u32 {
    LEARNED_BITS
}

/// Returns log2 of `count` in hundredths, rounded up, without floating point.
fn log2(count: u32) -> ChannelBits {
    let mut hundredths = 0;
    // The least h with 2^(h/100) >= count is searched in steps of a hundredth, with integers only.
    while power_of_two_hundredth(hundredths) < u64::from(count) << FRACTION {
        hundredths += 1;
    }
    ChannelBits::Hundredths(hundredths)
}

/// Most factors of a binomial coefficient that are summed one by one.
const FACTORS_MAX: u32 = 10_000;
/// Number of fraction bits.
const FRACTION: u32 = 24;
/// 2^(1/100) with 24 bits of fraction, rounded up.
const HUNDREDTH: u64 = 16_893_911;

/// Returns 2^(h/100) with 24 bits of fraction.
fn power_of_two_hundredth(h: u32) -> u64 {
    (0..h % 100).fold(1_u64 << FRACTION, |x, _| (x * HUNDREDTH) >> FRACTION) << (h / 100)
}

/// Returns log2 of n over k in hundredths, with each factor rounded up.
fn log2_choose(n: u32, k: u32) -> ChannelBits {
    let hundredths = |count| match log2(count) {
        ChannelBits::Hundredths(h) => h,
        ChannelBits::Free => 0,
    };
    // The coefficient is symmetric, and the smaller side has fewer factors.
    let k = k.min(n - k);
    // With more factors the sum is bounded by its largest term, so that the audit ends in
    // reasonable time.
    if k > FACTORS_MAX {
        return ChannelBits::Hundredths(hundredths(n).saturating_mul(k));
    }
    let above: u32 = (0..k).map(|i| hundredths(n - i)).sum();
    // Divisors are rounded down and factors up, so that the result is never too small (GUARD-40).
    let below: u32 = (0..k).map(|i| hundredths(i + 1).saturating_sub(1)).sum();
    ChannelBits::Hundredths(above.saturating_sub(below))
}
