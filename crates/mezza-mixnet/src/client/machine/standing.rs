//! The protection that rounds have proved: whether rounds return, the resulting level, and the
//! budgets.
//!
//! ```text
//! WELCOME --> awaited -- RETURN of a conversation --> returning -- none for three intervals --> overdue
//!                |                                       ^  |                                     |
//!                +--- none in time ----------------------|--|-------------------------------------+
//!                                                        +--+ RETURN
//! ```

use alloc::collections::BTreeMap;

use mezza_core::{Backend, CryptoRng, Time, snapshot};

use super::{Client, ClientOptions, Output};
use crate::Service;
use crate::config::{Chain, Config};
use crate::mix::NoiseFloor;
use crate::noise::draw_below;
use crate::privacy::ledger::BudgetState;

/// Fewest users of a round that give protection.
const USERS_MIN: u32 = 128;
/// Levels in the messenger's numbers: 4 hides whether a user converses, 1 hides nothing.
const LEVELS: (u8, u8) = (4, 1);
/// Fewest and most consecutive conversation rounds that must return before the level rises. The
/// number is drawn once, so an entry server cannot predict when the level rises.
const RISE_ROUNDS: (u32, u32) = (3, 8);
/// Number of intervals without a returned conversation round after which rounds count as overdue.
const OVERDUE_INTERVALS: u64 = 3;

/// A config, and whether its noise counts as protection; `None` before that was computed, and after the line
/// went to another client, which may have another floor.
#[derive(Clone, Copy)]
struct JudgedConfig {
    hash: [u8; 32],
    is_noisy: Option<bool>,
}

snapshot!(struct JudgedConfig { hash, is_noisy });

/// The facts that determine the level, and the reported level.
#[derive(Default)]
pub(super) struct ProtectionState {
    /// True if the last settings were valid.
    pub verified: bool,
    /// The config in force when its noise was judged last.
    in_force: Option<JudgedConfig>,
    /// The config of the last conversation round that came back.
    proven: Option<JudgedConfig>,
    /// Clients in the last conversation round that returned, as the entry server reports it.
    pub users: u32,
    /// Number of consecutive conversation rounds that returned with enough users and valid
    /// settings.
    streak: u32,
    /// Value of `streak` that the level needs; 0 if it was not drawn yet.
    needed: u32,
    /// Time by which the next conversation round must return; `None` if none is awaited.
    pub due: Option<Time>,
    /// True while conversation rounds return.
    pub returning: bool,
    level: Option<u8>,
    budgets: BTreeMap<Service, BudgetState>,
    /// The last round in which each mix raised an alarm, per service.
    pub alarmed: BTreeMap<(Service, u8), u64>,
}

snapshot!(struct ProtectionState {
    verified, in_force, proven, users, streak, needed, due, returning, level, budgets, alarmed,
});

impl ProtectionState {
    /// Resets the state, because no round returns any more.
    pub fn stop(&mut self) {
        // The level falls at once, and rises after several rounds again (MIX-31).
        (self.users, self.streak) = (0, 0);
        (self.due, self.returning) = (None, false);
    }

    /// Resets the streak after invalid settings: earlier rounds prove nothing now.
    pub const fn doubt(&mut self) {
        (self.verified, self.streak) = (false, 0);
    }

    /// Draws the number of consecutive rounds that the level needs, once.
    pub fn draw_needed(&mut self, rng: &mut dyn CryptoRng) {
        if self.needed == 0 {
            let (least, most) = RISE_ROUNDS;
            self.needed = least + draw_below(u128::from(most - least) + 1, rng) as u32;
        }
    }

    /// Forgets the reported values, so that the next owner of the line gets all of them.
    pub fn forget_told(&mut self) {
        self.level = None;
        self.in_force = None;
        // The rounds that came back are as before: only the verdict on their config is computed
        // again (MIX-83).
        if let Some(proven) = &mut self.proven {
            proven.is_noisy = None;
        }
        self.budgets.clear();
    }

    pub fn put_back(&mut self, ms: u64) {
        self.due = self.due.map(|due| due.minus_ms(ms));
    }
}

impl ClientOptions {
    /// Returns true if the noise of a config counts as protection. It must be at least `relaxed`,
    /// whatever the user set.
    fn is_noisy(&self, config: &Config) -> bool {
        // The fixed floor comes first, because the user's floor may only raise it (MIX-31).
        NoiseFloor::RELAXED.allows_config(config) && self.floor.allows_config(config)
    }
}

impl<B: Backend> Client<B> {
    /// Returns true if a conversation round returned less than three intervals ago.
    pub const fn is_returning(&self) -> bool {
        self.standing.returning
    }

    /// Sets the time limit for the first conversation round after WELCOME.
    pub(super) fn await_rounds(&mut self, now: Time) {
        let wait_ms = self.current_policy(Service::Conversation, now).map(|policy| {
            let interval_ms = u64::from(policy.interval_ms);
            policy.secret_ms() + OVERDUE_INTERVALS * interval_ms
        });
        self.standing.due = wait_ms.map(|ms| now.plus_ms(ms));
    }

    /// Handles RETURN of a conversation round that ran under the config with this hash.
    pub(super) fn on_round_returned(
        &mut self,
        users: u32,
        interval_ms: u32,
        hash: [u8; 32],
        now: Time,
    ) {
        if self.standing.proven.is_none_or(|proven| proven.hash != hash) {
            self.standing.proven = Some(JudgedConfig { hash, is_noisy: None });
        }
        let standing = &mut self.standing;
        standing.users = users;
        // The entry server reports the number of users without a signature, so it is a hint and not
        // part of the promise.
        standing.streak = if users >= USERS_MIN && standing.verified {
            standing.streak.saturating_add(1)
        } else {
            0
        };
        // Three intervals without a return end the level, whatever the connection reports (MIX-75).
        standing.due = Some(now.plus_ms(OVERDUE_INTERVALS * u64::from(interval_ms)));
        if !core::mem::replace(&mut standing.returning, true) {
            self.outputs.push_back(Output::Returning(true));
        }
    }

    /// Handles overdue conversation rounds: nothing is on its way any more, even if the connection
    /// is up.
    pub(super) fn check_overdue(&mut self, now: Time) {
        if self.standing.due.is_some_and(|due| due <= now) {
            self.standing.stop();
            // Tickets end here, so that the messenger may send the notes over another carrier.
            self.detach_tickets();
            self.outputs.push_back(Output::Returning(false));
        }
    }

    /// Reports changes of the level and the budgets (MIX-25, MIX-31).
    pub(super) fn notify_changes(&mut self, now: Time) {
        let protects = self.link.is_up() && self.is_protected(now);
        let level = if protects { LEVELS.0 } else { LEVELS.1 };
        // Only changes are reported, because the number of outputs must not grow with the wakes.
        if self.standing.level.replace(level) != Some(level) {
            self.outputs.push_back(Output::Level(level));
        }
    }

    /// Returns true if the last rounds prove protection. Without a config in force there is none.
    fn is_protected(&mut self, now: Time) -> bool {
        let config = self
            .chain
            .as_ref()
            .and_then(|chain| chain.current_config(now).zip(chain.current_hash(now)));
        let (Some((config, hash)), Some(ledger)) = (config, &self.ledger) else { return false };
        let standing = &mut self.standing;
        let mut left = true;
        for policy in &config.services {
            let level = ledger.budget_state(policy);
            // One exhausted service is enough, because the losses of services add up (MIX-70).
            left &= level != BudgetState::Used;
            let before = standing.budgets.insert(policy.service, level);
            if before.unwrap_or(BudgetState::Plenty) != level {
                self.outputs.push_back(Output::Budget(policy.service, level));
            }
        }
        // The noise of a config is computed once, because the computation is expensive.
        if standing.in_force.is_none_or(|judged| judged.hash != hash) {
            let is_noisy = Some(self.setup.is_noisy(config));
            standing.in_force = Some(JudgedConfig { hash, is_noisy });
        }
        if let Some(proven) = standing.proven.as_mut().filter(|proven| proven.is_noisy.is_none()) {
            let mut all = self.chain.iter().flat_map(Chain::newest_first);
            let its = all.find(|config| config.hash() == proven.hash);
            // A config that is no longer kept counts as without noise.
            proven.is_noisy = Some(its.is_some_and(|its| self.setup.is_noisy(its)));
        }
        // A clock that went back puts an earlier config in force, so the config of returned rounds
        // counts as well.
        let judged = [standing.in_force, standing.proven];
        let noisy = judged.iter().flatten().all(|judged| judged.is_noisy == Some(true));
        let proven = standing.needed > 0 && standing.streak >= standing.needed;
        standing.returning && standing.verified && proven && noisy && left
    }
}
