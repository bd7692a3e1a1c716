//! The effect of a clock on keys. The floor follows the time, but an attacker who holds the clock
//! back or sets it ahead can move the floor only a little.
//!
//! Erasure cannot be undone, and keys that are kept can be stolen. Both directions are therefore
//! bounded by boot time, which no attacker outside the device can set:
//!
//! - The floor advances at least at the pace of boot time since the start, after the slack.
//! - The floor advances at most at 1.5 times this pace, plus a jump: up to an hour at once, up to a
//!   day after the clock has asked for no less for ten minutes, more after the user confirmed the
//!   date. These bounds apply to the sum of all jumps since the start.

use alloc::vec::Vec;

use mezza_core::{CryptoRng, Time};

use crate::error::TreeError;
use crate::lives::Life;
use crate::shape::{Epoch, Tick};
use crate::tree::KeyTree;

/// The unexplained time, in milliseconds, that the rule accepts at once.
pub const JUMP_AT_ONCE_MS: u64 = Time::HOUR_MS;
/// The unexplained time, in milliseconds, that the rule accepts after [`JUMP_STANDS_MS`].
pub const JUMP_MS_MAX: u64 = Time::DAY_MS;
/// The boot time, in milliseconds, after which a longer jump is accepted.
pub const JUMP_STANDS_MS: u64 = 10 * Time::MINUTE_MS;

/// The trust in a clock when a device starts: slack and uncertainty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockTrust {
    /// The boot time, in milliseconds, that may pass before keys are erased by boot time alone.
    pub slack_ms: u64,
    /// The number of ticks by which the clock may be ahead.
    pub uncertainty_ticks: u32,
}

impl ClockTrust {
    /// The trust in a clock that was set recently, by a network or by the user.
    pub const GOOD: Self = Self { slack_ms: 60_000, uncertainty_ticks: 1 };
    /// The trust in a clock of medium quality.
    pub const FAIR: Self = Self { slack_ms: 150_000, uncertainty_ticks: 5 };
    /// The trust in a clock whose setting is unknown.
    pub const POOR: Self = Self { slack_ms: 600_000, uncertainty_ticks: 20 };

    /// Returns the trust in a clock that may be wrong by `within_ms`: slack and uncertainty are
    /// this time, but not less than in [`Self::GOOD`] and not more than in [`Self::POOR`].
    #[must_use]
    pub fn within(within_ms: u64) -> Self {
        let slack_ms = within_ms.clamp(Self::GOOD.slack_ms, Self::POOR.slack_ms);
        let ticks = u32::try_from(within_ms.div_ceil(30_000)).unwrap_or(u32::MAX);
        let least = Self::GOOD.uncertainty_ticks;
        let most = Self::POOR.uncertainty_ticks;
        Self { slack_ms, uncertainty_ticks: ticks.clamp(least, most) }
    }

    /// Returns the earliest tick that is possible if the clock shows `now`. A clock that is not
    /// settled may be ahead.
    #[must_use]
    pub const fn earliest_tick(self, now: Tick, settled: bool) -> Tick {
        if settled { now } else { Tick(now.0.saturating_sub(self.uncertainty_ticks)) }
    }
}

/// The reason why the floor does not follow the clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FloorHeld {
    /// The clock jumped by more than an hour. The jump is accepted at this boot time, in
    /// milliseconds.
    Stands(u64),
    /// The clock jumped by more than a day. The user must confirm the date.
    Confirm,
}

/// Computes the floor from clocks. No other code does.
#[derive(Clone, Debug)]
pub struct FloorRule {
    epoch_ms: u64,
    slack_ms: u64,
    /// The floor at the start, or at the last date that the user confirmed.
    base: Since,
    /// The floor at the start, from which the lower bound counts; never reset.
    started: Since,
    floor: Epoch,
    /// The least epoch that the clock has asked for since it jumped by more than an hour.
    standing: Option<Since>,
}

/// An epoch, and the boot time in milliseconds at which the epoch became the floor or was asked
/// for.
type Since = (Epoch, u64);

impl FloorRule {
    /// Creates the rule for a life with epochs of `epoch_ms` milliseconds and the stored floor
    /// `floor`, at boot time `boot_ms`.
    pub fn new(epoch_ms: u64, floor: Epoch, trust: ClockTrust, boot_ms: u64) -> Self {
        let slack_ms = trust.slack_ms;
        let started = (floor, boot_ms);
        Self { epoch_ms, slack_ms, base: started, started, floor, standing: None }
    }

    /// Changes the trust in the clock, which sets the slack. Erased keys stay erased.
    pub fn set_trust(&mut self, trust: ClockTrust) {
        self.slack_ms = trust.slack_ms;
    }

    /// Returns the floor at boot time `boot_ms`. `current` is the epoch of
    /// [`ClockTrust::earliest_tick`], or `None` without a clock. The floor never goes back
    /// (HIBE-22).
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

    /// Notes that the user confirmed `current` as the epoch.
    pub fn confirm_epoch(&mut self, current: Epoch, boot_ms: u64) {
        self.base = (current.minus(1).max(self.floor), boot_ms);
        self.standing = None;
    }

    /// Returns the floor by boot time alone, so that a stopped clock delays erasure by the slack at
    /// most.
    fn boot_floor(&self, boot_ms: u64) -> Epoch {
        let (floor, since_ms) = self.started;
        let elapsed_ms = boot_ms.saturating_sub(since_ms).saturating_sub(self.slack_ms);
        floor.plus(saturate_epochs(elapsed_ms / self.epoch_ms))
    }

    /// Returns the reason why the floor `asked` is not accepted yet; `None` if it is.
    fn check_jump(&mut self, asked: Epoch, boot_ms: u64) -> Option<FloorHeld> {
        let explained = self.explained_epoch(self.base, boot_ms);
        let within = |ms: u64| asked <= explained.plus(saturate_epochs(ms / self.epoch_ms));
        if within(JUMP_AT_ONCE_MS) || !within(JUMP_MS_MAX) {
            self.standing = None;
            return (!within(JUMP_MS_MAX)).then_some(FloorHeld::Confirm);
        }
        // If the clock jumps again during the wait, the wait starts again.
        let standing = self.standing.filter(|since| asked <= self.explained_epoch(*since, boot_ms));
        let (least, since_ms) = standing.unwrap_or((asked, boot_ms));
        self.standing = Some((least.min(asked), since_ms));
        let until_ms = since_ms.saturating_add(JUMP_STANDS_MS);
        (boot_ms < until_ms).then_some(FloorHeld::Stands(until_ms))
    }

    /// Returns the epoch that boot time explains, at 1.5 times its pace. A device that started late
    /// catches up, and an attacker erases keys only a little faster than time passes.
    fn explained_epoch(&self, (epoch, since_ms): Since, boot_ms: u64) -> Epoch {
        let elapsed_ms = boot_ms.saturating_sub(since_ms);
        epoch.plus(saturate_epochs((elapsed_ms + elapsed_ms / 2).div_ceil(self.epoch_ms))).plus(1)
    }
}

/// The floor rules of all lives of a tree. Each life has its own floor (HIBE-82).
#[derive(Clone, Debug)]
pub struct FloorRules(Vec<LifeRule>);

/// The floor rule of one life.
#[derive(Clone, Debug)]
struct LifeRule {
    life: Life,
    rule: FloorRule,
}

/// The floor of a life, as computed by [`FloorRules::update_floors`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LifeFloor {
    /// The life that the floor belongs to.
    pub life: Life,
    /// The first epoch of the life whose keys are kept.
    pub floor: Epoch,
    /// The reason why the floor does not follow the clock; `None` if it does.
    pub held: Option<FloorHeld>,
}

impl FloorRules {
    /// Creates the rules for a tree from its stored floors, at boot time `boot_ms`.
    pub fn new(tree: &KeyTree, trust: ClockTrust, boot_ms: u64) -> Self {
        let branches = tree.card().calendar().branches();
        let rules = branches.map(|branch| {
            let floor = tree.find_floor(branch.life).unwrap_or(branch.first);
            let rule = FloorRule::new(branch.epoch_ms(), floor, trust, boot_ms);
            LifeRule { life: branch.life, rule }
        });
        Self(rules.collect())
    }

    /// Changes the trust in the clock for all lives.
    pub fn set_trust(&mut self, trust: ClockTrust) {
        self.0.iter_mut().for_each(|of| of.rule.set_trust(trust));
    }

    /// Notes that the user confirmed `current` as the tick, for all lives.
    pub fn confirm_tick(&mut self, tree: &KeyTree, current: Tick, boot_ms: u64) {
        for LifeRule { life, rule } in &mut self.0 {
            if let Some(epoch) = tree.card().find_floor_epoch(*life, current) {
                rule.confirm_epoch(epoch, boot_ms);
            }
        }
    }

    /// Returns the floor of each life at boot time `boot_ms`. `current` is the tick of
    /// [`ClockTrust::earliest_tick`], or `None` without a clock.
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
    /// Erases the keys below the floor of each life. A floor after the last epoch erases all keys
    /// of its life.
    ///
    /// # Errors
    /// `Damaged` if the points of a record are invalid. Keys that were erased before the error stay
    /// erased.
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
