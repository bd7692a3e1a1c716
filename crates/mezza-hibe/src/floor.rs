//! What a clock may do to keys: the floor follows time, but neither a liar who holds it back nor one
//! who drives it on moves it far.
//!
//! Erasure cannot be undone and keys that stay can be read, so both directions are bounded by boot
//! time, which nobody outside can set:
//!
//! - at least what boot time says: one epoch for each that passed since the start, after the slack;
//! - at most 1.5 times that, and then a jump: up to an hour at once, up to a day once the clock has
//!   said so for ten minutes, more after a person confirmed the date. These bounds hold for all jumps
//!   since the start together.

use mezza_core::Time;

use crate::shape::{Epoch, TreeProfile};

/// Unexplained time that is believed at once, in milliseconds.
pub const JUMP_AT_ONCE_MS: u64 = Time::HOUR_MS;
/// Unexplained time that is believed once it stood for [`JUMP_STANDS_MS`].
pub const JUMP_MS_MAX: u64 = Time::DAY_MS;
/// How long a longer jump has to stand, in milliseconds of boot time.
pub const JUMP_STANDS_MS: u64 = 10 * Time::MINUTE_MS;

/// How much a clock is trusted when a device starts: its slack and its uncertainty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockTrust {
    /// Boot time that may pass before keys go on the word of boot time alone, in milliseconds.
    pub slack_ms: u64,
    /// Ticks that the clock may be ahead.
    pub uncertainty_ticks: u32,
}

impl ClockTrust {
    /// A clock that was set by a network or a person not long ago.
    pub const GOOD: Self = Self { slack_ms: 60_000, uncertainty_ticks: 1 };
    /// A clock of fair grade.
    pub const FAIR: Self = Self { slack_ms: 150_000, uncertainty_ticks: 5 };
    /// A clock nobody vouches for.
    pub const POOR: Self = Self { slack_ms: 600_000, uncertainty_ticks: 20 };
}

/// Why the floor stays behind the clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FloorHeld {
    /// The clock jumped by more than an hour; it has to stand until this boot time in milliseconds.
    Stands(u64),
    /// The clock jumped by more than a day; a person has to confirm the date.
    Confirm,
}

/// Computes the floor from clocks: the one place that does.
#[derive(Clone, Debug)]
pub struct FloorRule {
    epoch_ms: u64,
    slack_ms: u64,
    /// The floor and the boot time at the start, or when a person confirmed a date.
    base: (Epoch, u64),
    /// The floor and the boot time at the start; `lower` counts from here and nothing resets it.
    started: (Epoch, u64),
    floor: Epoch,
    /// Since when the clock asks for more than an hour, in boot time.
    jumped_ms: Option<u64>,
}

impl FloorRule {
    /// The rule of a tree whose stored floor is `floor`, at a start with this boot time.
    pub fn new(profile: TreeProfile, floor: Epoch, trust: ClockTrust, boot_ms: u64) -> Self {
        let (epoch_ms, slack_ms) = (profile.epoch_ms(), trust.slack_ms);
        let started = (floor, boot_ms);
        Self { epoch_ms, slack_ms, base: started, started, floor, jumped_ms: None }
    }

    /// The floor at a boot time, given the epoch that the clock shows less its uncertainty; no clock
    /// gives `None`. It never goes back (HIBE-22).
    pub fn floor(&mut self, current: Option<Epoch>, boot_ms: u64) -> (Epoch, Option<FloorHeld>) {
        let mut held = None;
        let mut floor = self.floor.max(self.lower(boot_ms));
        if let Some(current) = current {
            let (believed, why) = self.believed(current.minus(1), boot_ms);
            floor = floor.max(believed);
            held = why;
        }
        self.floor = floor;
        (floor, held)
    }

    /// A person confirmed that this is the epoch.
    pub fn confirm(&mut self, current: Epoch, boot_ms: u64) {
        self.base = (current.minus(1).max(self.floor), boot_ms);
        self.jumped_ms = None;
    }

    /// What boot time alone erases: time cannot be frozen for longer than the slack.
    fn lower(&self, boot_ms: u64) -> Epoch {
        let (floor, since_ms) = self.started;
        let elapsed_ms = boot_ms.saturating_sub(since_ms).saturating_sub(self.slack_ms);
        floor.plus(epochs(elapsed_ms / self.epoch_ms))
    }

    /// How much of the floor that a clock asks for is believed.
    fn believed(&mut self, asked: Epoch, boot_ms: u64) -> (Epoch, Option<FloorHeld>) {
        let explained = self.explained(boot_ms);
        let at_once = explained.plus(epochs(JUMP_AT_ONCE_MS / self.epoch_ms));
        if asked <= at_once {
            self.jumped_ms = None;
            return (asked, None);
        }
        if asked > explained.plus(epochs(JUMP_MS_MAX / self.epoch_ms)) {
            self.jumped_ms = None;
            return (self.floor, Some(FloorHeld::Confirm));
        }
        let until_ms = *self.jumped_ms.get_or_insert(boot_ms) + JUMP_STANDS_MS;
        if boot_ms < until_ms {
            (self.floor, Some(FloorHeld::Stands(until_ms)))
        } else {
            (asked, None)
        }
    }

    /// What boot time explains, at one and a half times its pace: a device that began behind catches
    /// up, and liars burn keys little faster than time passes.
    fn explained(&self, boot_ms: u64) -> Epoch {
        let (floor, since_ms) = self.base;
        let elapsed_ms = boot_ms.saturating_sub(since_ms);
        floor.plus(epochs((elapsed_ms + elapsed_ms / 2).div_ceil(self.epoch_ms))).plus(1)
    }
}

fn epochs(count: u64) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}
