//! The protection that rounds proved: whether they come back, the level that follows, and the budgets.
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

/// Users of a round from which on it hides somebody.
const USERS_MIN: u32 = 128;
/// Levels as the messenger counts them: whether somebody talks is hidden; nothing is.
const LEVELS: (u8, u8) = (4, 1);
/// Conversation rounds in a row that must come back before the level rises, at least and at most. The
/// number is drawn once, so that an entry cannot tell from the traffic of others when it does.
const RISE_ROUNDS: (u32, u32) = (3, 8);
/// Intervals without a conversation round that comes back, after which none is.
const OVERDUE_INTERVALS: u64 = 3;

/// The facts that the level follows from, and the level that was told.
#[derive(Default)]
pub(super) struct ProtectionState {
    /// True if the last settings were good.
    pub verified: bool,
    /// The config whose noise was looked at, and whether it is above the floor.
    noise: Option<([u8; 32], bool)>,
    /// The config of the last conversation round that came back, and whether its noise is above the floor.
    proven: Option<([u8; 32], bool)>,
    /// Clients in the last conversation round that came back, by the word of the entry.
    pub users: u32,
    /// Conversation rounds in a row that came back with enough users and good settings.
    streak: u32,
    /// How many of them the level needs; 0: not drawn yet.
    needed: u32,
    /// Until when the next conversation round must come back; `None`: none is awaited.
    pub due: Option<Time>,
    /// True while conversation rounds come back.
    pub returning: bool,
    level: Option<u8>,
    budgets: BTreeMap<Service, BudgetState>,
    /// The last round of each service in which each mix raised an alarm.
    pub alarmed: BTreeMap<(Service, u8), u64>,
}

snapshot!(struct ProtectionState {
    verified, noise, proven, users, streak, needed, due, returning, level, budgets, alarmed,
});

impl ProtectionState {
    /// No round comes back any more.
    pub fn stop(&mut self) {
        // The level falls at once, and rises after several rounds again (MIX-31).
        (self.users, self.streak) = (0, 0);
        (self.due, self.returning) = (None, false);
    }

    /// Settings were not good: what came back before them proves nothing now.
    pub const fn doubt(&mut self) {
        (self.verified, self.streak) = (false, 0);
    }

    /// Draws how many rounds in a row the level needs, once.
    pub fn draw_needed(&mut self, rng: &mut dyn CryptoRng) {
        if self.needed == 0 {
            let (least, most) = RISE_ROUNDS;
            self.needed = least + draw_below(u128::from(most - least) + 1, rng) as u32;
        }
    }

    /// Forgets what was told, so that the next owner of the line is told all of it.
    pub fn forget_told(&mut self) {
        self.level = None;
        (self.noise, self.proven) = (None, None);
        self.budgets.clear();
    }

    pub fn put_back(&mut self, ms: u64) {
        self.due = self.due.map(|due| due.minus_ms(ms));
    }
}

impl ClientOptions {
    /// Returns true if the noise of a config counts as protection. Whatever the person says, nothing below
    /// `relaxed` does.
    fn is_noisy(&self, config: &Config) -> bool {
        // The fixed floor comes first: a user's own floor may only raise it (MIX-31).
        NoiseFloor::RELAXED.allows_config(config) && self.floor.allows_config(config)
    }
}

impl<B: Backend> Client<B> {
    /// Returns true while conversation rounds come back: the last one less than three intervals ago.
    pub const fn is_returning(&self) -> bool {
        self.standing.returning
    }

    /// WELCOME: a first conversation round must come back.
    pub(super) fn await_rounds(&mut self, now: Time) {
        let wait_ms = self.current_policy(Service::Conversation, now).map(|policy| {
            let interval_ms = u64::from(policy.interval_ms);
            policy.secret_ms() + OVERDUE_INTERVALS * interval_ms
        });
        self.standing.due = wait_ms.map(|ms| now.plus_ms(ms));
    }

    /// RETURN of a conversation round, which ran under the config with this hash.
    pub(super) fn on_round_returned(
        &mut self,
        users: u32,
        interval_ms: u32,
        hash: [u8; 32],
        now: Time,
    ) {
        if self.standing.proven.is_none_or(|(its, _)| its != hash) {
            let all = self.chain.iter().flat_map(Chain::newest_first);
            let config = all.into_iter().find(|config| config.hash() == hash);
            // A config that is no longer kept counts as without noise.
            let noisy = config.is_some_and(|config| self.setup.is_noisy(config));
            self.standing.proven = Some((hash, noisy));
        }
        let standing = &mut self.standing;
        standing.users = users;
        // The entry reports the number of users without a signature: it is a hint, and no part of
        // the promise.
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

    /// Conversation rounds are overdue: nothing is on its way any more, whatever the connection says.
    pub(super) fn check_overdue(&mut self, now: Time) {
        if self.standing.due.is_some_and(|due| due <= now) {
            self.standing.stop();
            // Tickets end here, so that the messenger may send the notes another way.
            self.detach_tickets();
            self.outputs.push_back(Output::Returning(false));
        }
    }

    /// Tells what changed of level and budgets (MIX-25, MIX-31).
    pub(super) fn notify_changes(&mut self, now: Time) {
        let protects = self.link.is_up() && self.is_protected(now);
        let level = if protects { LEVELS.0 } else { LEVELS.1 };
        // Reported on change only: the outputs of a client must not grow with its wakes.
        if self.standing.level.replace(level) != Some(level) {
            self.outputs.push_back(Output::Level(level));
        }
    }

    /// Returns true if the last rounds prove protection. Without a config in force nothing does.
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
            // One used-up service is enough: losses of services add (MIX-70).
            left &= level != BudgetState::Used;
            let before = standing.budgets.insert(policy.service, level);
            if before.unwrap_or(BudgetState::Plenty) != level {
                self.outputs.push_back(Output::Budget(policy.service, level));
            }
        }
        // The noise of a config is computed once, because the accounting takes many orders.
        if standing.noise.is_none_or(|(its, _)| its != hash) {
            standing.noise = Some((hash, self.setup.is_noisy(config)));
        }
        // By a clock that was put back an earlier config is in force: the rounds tell which one it is.
        let noise = [standing.noise, standing.proven];
        let noisy = noise.iter().flatten().all(|(_, noisy)| *noisy);
        let proven = standing.needed > 0 && standing.streak >= standing.needed;
        standing.returning && standing.verified && proven && noisy && left
    }
}
