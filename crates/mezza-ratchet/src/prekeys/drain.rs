//! Detects that an attacker drains the one-time keys, by counting the sessions of a day with and
//! without one.

use mezza_core::{Time, snapshot};

/// Below this number of sessions in a day, no alarm is raised.
const SESSIONS_MIN: u32 = 4;

/// The counts of one day, which are not stored.
#[derive(Default)]
pub(super) struct DrainDetector {
    day: u32,
    sessions: u32,
    without: u32,
    raised: bool,
}

snapshot!(struct DrainDetector { day, sessions, without, raised });

impl DrainDetector {
    /// Counts one session. Returns true if the alarm is raised now, which happens once a day.
    pub(super) fn count_session(&mut self, with_one_time: bool, now: Time) -> bool {
        if self.day != now.as_days() {
            *self = Self { day: now.as_days(), ..Self::default() };
        }
        self.sessions = self.sessions.saturating_add(1);
        self.without = self.without.saturating_add(u32::from(!with_one_time));
        let low = self.sessions >= SESSIONS_MIN && self.without > self.sessions / 2;
        let raise = low && !self.raised;
        self.raised |= low;
        raise
    }

    /// Returns the number of sessions on the day of `now`, and the number of those without a
    /// one-time key.
    pub(super) fn day_counts(&self, now: Time) -> (u32, u32) {
        if self.day == now.as_days() { (self.sessions, self.without) } else { (0, 0) }
    }
}
