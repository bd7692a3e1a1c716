//! The effect of a clock on keys: the floor follows time, but neither a liar who holds it back nor one
//! who drives it on moves it far.
//!
//! Erasure cannot be undone and keys that stay can be read, so both directions are bounded by boot
//! time, which nobody outside can set:
//!
//! - at least what boot time says: one epoch for each that passed since the start, after the slack;
//! - at most 1.5 times that, and then a jump: up to an hour at once, up to a day once the clock has
//!   asked for no less for ten minutes, more after a person confirmed the date. These bounds hold for
//!   all jumps since the start together.

use alloc::vec::Vec;

use mezza_core::{CryptoRng, Time};

use crate::error::TreeError;
use crate::lives::Life;
use crate::shape::{Epoch, Tick};
use crate::tree::KeyTree;

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

    /// A clock that may be off by so much, in milliseconds: keys outlive their epoch by no less, and a clock
    /// that is not settled counts as late by it.
    #[must_use]
    pub fn within(within_ms: u64) -> Self {
        let slack_ms = within_ms.clamp(Self::GOOD.slack_ms, Self::POOR.slack_ms);
        let ticks = u32::try_from(within_ms.div_ceil(30_000)).unwrap_or(u32::MAX);
        let least = Self::GOOD.uncertainty_ticks;
        let most = Self::POOR.uncertainty_ticks;
        Self { slack_ms, uncertainty_ticks: ticks.clamp(least, most) }
    }

    /// The earliest tick that it may be if the clock shows `now`: until it is settled it may be ahead.
    #[must_use]
    pub const fn earliest_tick(self, now: Tick, settled: bool) -> Tick {
        if settled { now } else { Tick(now.0.saturating_sub(self.uncertainty_ticks)) }
    }
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
    /// The floor at the start, or when a person confirmed a date.
    base: Since,
    /// The floor at the start; `lower` counts from here and nothing resets it.
    started: Since,
    floor: Epoch,
    /// The least epoch that a clock has asked for since it jumped by more than an hour.
    standing: Option<Since>,
}

/// An epoch, and the boot time in milliseconds at which it was the floor or was asked for.
type Since = (Epoch, u64);

impl FloorRule {
    /// The rule of a life with epochs of `epoch_ms` milliseconds whose stored floor is `floor`, at a start
    /// with this boot time.
    pub fn new(epoch_ms: u64, floor: Epoch, trust: ClockTrust, boot_ms: u64) -> Self {
        let slack_ms = trust.slack_ms;
        let started = (floor, boot_ms);
        Self { epoch_ms, slack_ms, base: started, started, floor, standing: None }
    }

    /// The clock is trusted this much from now on: another slack. What was erased stays so.
    pub fn set_trust(&mut self, trust: ClockTrust) {
        self.slack_ms = trust.slack_ms;
    }

    /// The floor at a boot time, given the epoch of [`ClockTrust::earliest_tick`]; no clock gives `None`. It
    /// never goes back (HIBE-22).
    pub fn update_floor(
        &mut self,
        current: Option<Epoch>,
        boot_ms: u64,
    ) -> (Epoch, Option<FloorHeld>) {
        let mut held = None;
        self.floor = self.floor.max(self.boot_floor(boot_ms));
        if let Some(current) = current {
            let asked = current.minus(1);
            held = self.check_jump(asked, boot_ms);
            if held.is_none() {
                self.floor = self.floor.max(asked);
            }
        }
        (self.floor, held)
    }

    /// A person confirmed that this is the epoch.
    pub fn confirm_epoch(&mut self, current: Epoch, boot_ms: u64) {
        self.base = (current.minus(1).max(self.floor), boot_ms);
        self.standing = None;
    }

    /// Returns the floor by boot time alone: time cannot be frozen for longer than the slack.
    fn boot_floor(&self, boot_ms: u64) -> Epoch {
        let (floor, since_ms) = self.started;
        let elapsed_ms = boot_ms.saturating_sub(since_ms).saturating_sub(self.slack_ms);
        floor.plus(saturate_epochs(elapsed_ms / self.epoch_ms))
    }

    /// Why the floor that a clock asks for is not believed yet.
    fn check_jump(&mut self, asked: Epoch, boot_ms: u64) -> Option<FloorHeld> {
        let explained = self.explained_epoch(self.base, boot_ms);
        let within = |ms: u64| asked <= explained.plus(saturate_epochs(ms / self.epoch_ms));
        if within(JUMP_AT_ONCE_MS) || !within(JUMP_MS_MAX) {
            self.standing = None;
            return (!within(JUMP_MS_MAX)).then_some(FloorHeld::Confirm);
        }
        // A clock that jumps on while it stands begins anew.
        let standing = self.standing.filter(|since| asked <= self.explained_epoch(*since, boot_ms));
        let (least, since_ms) = standing.unwrap_or((asked, boot_ms));
        self.standing = Some((least.min(asked), since_ms));
        let until_ms = since_ms.saturating_add(JUMP_STANDS_MS);
        (boot_ms < until_ms).then_some(FloorHeld::Stands(until_ms))
    }

    /// Returns the epoch that boot time explains, at one and a half times its pace: a device that began behind catches
    /// up, and liars burn keys little faster than time passes.
    fn explained_epoch(&self, (epoch, since_ms): Since, boot_ms: u64) -> Epoch {
        let elapsed_ms = boot_ms.saturating_sub(since_ms);
        epoch.plus(saturate_epochs((elapsed_ms + elapsed_ms / 2).div_ceil(self.epoch_ms))).plus(1)
    }
}

/// The rules of all lives of a tree. Each life has a floor of its own (HIBE-82).
#[derive(Clone, Debug)]
pub struct FloorRules(Vec<LifeRule>);

/// The rule of one life.
#[derive(Clone, Debug)]
struct LifeRule {
    life: Life,
    rule: FloorRule,
}

/// The floor of a life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LifeFloor {
    /// Which life.
    pub life: Life,
    /// The first epoch whose keys stay.
    pub floor: Epoch,
    /// Why it stays behind the clock, if it does.
    pub held: Option<FloorHeld>,
}

impl FloorRules {
    /// The rules of a tree with its stored floors, at a start with this boot time.
    pub fn new(tree: &KeyTree, trust: ClockTrust, boot_ms: u64) -> Self {
        let branches = tree.card().calendar().branches();
        let rules = branches.map(|branch| {
            let floor = tree.find_floor(branch.life).unwrap_or(branch.first);
            let rule = FloorRule::new(branch.epoch_ms(), floor, trust, boot_ms);
            LifeRule { life: branch.life, rule }
        });
        Self(rules.collect())
    }

    /// The clock is trusted this much from now on.
    pub fn set_trust(&mut self, trust: ClockTrust) {
        self.0.iter_mut().for_each(|of| of.rule.set_trust(trust));
    }

    /// The floor of each life at a boot time, given the tick of [`ClockTrust::earliest_tick`]. No clock
    /// gives `None`.
    pub fn update_floors(
        &mut self,
        tree: &KeyTree,
        current: Option<Tick>,
        boot_ms: u64,
    ) -> Vec<LifeFloor> {
        let floors = self.0.iter_mut().map(|LifeRule { life, rule }| {
            let asked = current.and_then(|tick| tree.card().find_floor_epoch(*life, tick));
            let (floor, held) = rule.update_floor(asked, boot_ms);
            LifeFloor { life: *life, floor, held }
        });
        floors.collect()
    }
}

impl KeyTree {
    /// Erases what is below the floor of each life. A floor behind the last epoch erases all of the life.
    ///
    /// # Errors
    /// `Damaged` for a record that is no key. What was erased before stays so.
    pub fn erase_below_floors(
        &mut self,
        floors: &[LifeFloor],
        rng: &mut dyn CryptoRng,
    ) -> Result<(), TreeError> {
        for LifeFloor { life, floor, .. } in floors {
            let end = self.card().calendar().find_branch(*life).map(|branch| branch.end);
            self.erase_life_below(*life, (*floor).min(end.unwrap_or(*floor)), rng)?;
        }
        Ok(())
    }
}

fn saturate_epochs(count: u64) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests;
