//! The one place where the program reads its clocks.

mod calendar;

pub use calendar::{Calendar, Doubt};

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use mezza_core::Time;
use nix::time::{ClockId, clock_gettime};

/// Counts in suspend too, and nobody sets it.
#[cfg(target_os = "linux")]
const BOOT: ClockId = ClockId::CLOCK_BOOTTIME;
/// Counts in suspend too, on the systems that lack the one above.
#[cfg(not(target_os = "linux"))]
const BOOT: ClockId = ClockId::CLOCK_MONOTONIC;

/// One reading of both clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// The time of day. People and time servers set it, also back: for dates, and for what other
    /// machines have to understand.
    pub wall: Time,
    /// Milliseconds since the system was started, those in suspend included. It never goes back: for
    /// durations, limits and waits.
    pub boot: Time,
}

impl Moment {
    /// The present moment of this machine.
    pub fn now() -> Self {
        Self { wall: now(), boot: boot() }
    }

    /// A moment at which both clocks show the same, as they do in a test that moves neither.
    pub const fn even(time: Time) -> Self {
        Self { wall: time, boot: time }
    }
}

/// The time of day.
#[expect(clippy::disallowed_methods, reason = "the one place")]
pub fn now() -> Time {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Time::from_ms(whole_ms(since))
}

/// Milliseconds since the system was started.
fn boot() -> Time {
    Time::from_ms(whole_ms(clock_gettime(BOOT).map_or(Duration::ZERO, Duration::from)))
}

fn whole_ms(since: Duration) -> u64 {
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// Tells the time, and how much of it may be believed; tests give a node or a server one of their own.
/// Clones are the same clock.
#[derive(Clone)]
pub struct Clock {
    read: Arc<dyn Fn() -> Moment + Send + Sync>,
    calendar: Arc<Mutex<Calendar>>,
}

impl Clock {
    /// The clocks of this machine.
    pub fn system() -> Self {
        Self::from_fn(Moment::now)
    }

    /// A clock that asks `read`.
    pub fn from_fn(read: impl Fn() -> Moment + Send + Sync + 'static) -> Self {
        let calendar = Calendar::since(None, read());
        Self { read: Arc::new(read), calendar: Arc::new(Mutex::new(calendar)) }
    }

    /// The present moment.
    pub fn read(&self) -> Moment {
        (self.read)()
    }

    /// The time of day.
    pub fn wall(&self) -> Time {
        self.read().wall
    }

    /// The time since the system was started.
    pub fn boot(&self) -> Time {
        self.read().boot
    }

    /// The date, as far as it may be believed: the wall clock's, unless that has left boot time by
    /// more than a day (MSG-99).
    pub fn date(&self) -> Time {
        self.calendar().believed(self.read())
    }

    /// Whether another machine's date is within `apart_ms` of the wall clock or of [`Clock::date`].
    pub(crate) fn is_near(&self, other: Time, apart_ms: u64) -> bool {
        [self.wall(), self.date()].into_iter().any(|own| calendar::apart_ms(own, other) <= apart_ms)
    }

    /// Looks whether the wall clock may be believed.
    pub fn look(&self) -> Result<(), Doubt> {
        self.calendar().look(self.read())
    }

    /// The person says that the wall clock is right.
    pub fn agree(&self) {
        self.calendar().agree(self.read());
    }

    /// Goes on from the newest day in a store; see [`Calendar::meet`].
    pub fn meet(&self, day: u32) {
        self.calendar().meet(day);
    }

    /// Another machine says what time it is. Two clocks that agree are right.
    pub fn hear(&self, other: Time) {
        let at = self.read();
        if calendar::apart_ms(at.wall, other) <= calendar::STEP_MS {
            self.calendar().agree(at);
        }
    }

    fn calendar(&self) -> MutexGuard<'_, Calendar> {
        self.calendar.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for Clock {
    fn default() -> Self {
        Self::system()
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Clock")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_clocks_go_on() {
        let clock = Clock::system();
        let (early, late) = (clock.read(), clock.read());
        assert!(early.boot <= late.boot && late.boot > Time::default());
        assert!(clock.wall() >= early.wall && clock.boot() >= late.boot);
        assert_eq!(format!("{clock:?}"), "Clock");
    }
}
