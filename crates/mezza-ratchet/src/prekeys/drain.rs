//! Notices that someone drains the one-time keys: sessions of a day with and without one.

use mezza_core::{Time, snapshot};

/// Fewer sessions in a day than this say nothing.
const SESSIONS_MIN: u32 = 4;

/// The counts of one day; they are not stored.
#[derive(Default)]
pub(super) struct DrainDetector {
    day: u32,
    sessions: u32,
    without: u32,
    raised: bool,
}

snapshot!(struct DrainDetector { day, sessions, without, raised });

impl DrainDetector {
    /// Counts one session; whether the alarm is raised now, once a day.
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

    /// Sessions of the day of `now`, and those of them without a one-time key.
    pub(super) fn day_counts(&self, now: Time) -> (u32, u32) {
        if self.day == now.as_days() { (self.sessions, self.without) } else { (0, 0) }
    }
}
