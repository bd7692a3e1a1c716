//! The only code that reads the clocks of the system.

mod calendar;
mod written;

pub use calendar::{Calendar, Doubt};
pub use written::{SystemStart, WrittenDate};

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use mezza_core::Time;
use nix::time::{ClockId, clock_gettime};

/// The boot clock: it counts during suspend and is never set.
#[cfg(target_os = "linux")]
const BOOT: ClockId = ClockId::CLOCK_BOOTTIME;
/// The boot clock of systems without `CLOCK_BOOTTIME`.
#[cfg(not(target_os = "linux"))]
const BOOT: ClockId = ClockId::CLOCK_MONOTONIC;

/// One reading of wall clock and boot clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// The time of day. Users and time servers set it, also backwards. For dates, and for times
    /// that other machines must understand.
    pub wall: Time,
    /// Milliseconds since the start of the system, suspend included. It never goes back. For
    /// durations, limits and waits.
    pub boot: Time,
}

impl Moment {
    /// Reads both clocks of this machine.
    pub fn now() -> Self {
        Self { wall: now(), boot: boot_time() }
    }

    /// Returns a moment at which both clocks show the same time, for tests.
    pub const fn even(time: Time) -> Self {
        Self { wall: time, boot: time }
    }
}

/// Returns the time of day.
#[expect(clippy::disallowed_methods, reason = "the one place")]
pub fn now() -> Time {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Time::from_ms(whole_ms(since))
}

/// Returns the milliseconds since the start of the system.
fn boot_time() -> Time {
    Time::from_ms(whole_ms(clock_gettime(BOOT).map_or(Duration::ZERO, Duration::from)))
}

fn whole_ms(since: Duration) -> u64 {
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// The present moment, with its date corrected for a doubted wall clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Today {
    /// The date to use for erasing.
    pub date: Time,
    /// Milliseconds since the start of the system.
    pub boot: Time,
    /// True while the wall clock is doubted.
    pub doubted: bool,
    /// True if the user or another machine has confirmed the date.
    pub confirmed: bool,
}

/// A clock that also judges its wall time; tests give a node or server their own. Clones share the
/// state.
#[derive(Clone)]
pub struct Clock {
    read: Arc<dyn Fn() -> Moment + Send + Sync>,
    calendar: Arc<Mutex<Calendar>>,
    start: SystemStart,
}

impl Clock {
    /// Returns the clock of this machine.
    pub fn system() -> Self {
        Self { start: SystemStart::of_this_system(), ..Self::from_fn(Moment::now) }
    }

    /// Makes a clock that reads with `read`, in its own system start.
    pub fn from_fn(read: impl Fn() -> Moment + Send + Sync + 'static) -> Self {
        let calendar = Calendar::from_written(None, read());
        let calendar = Arc::new(Mutex::new(calendar));
        Self { read: Arc::new(read), calendar, start: SystemStart::draw() }
    }

    /// Returns this clock in another system start.
    #[must_use]
    pub fn in_start(self, start: SystemStart) -> Self {
        Self { start, ..self }
    }

    /// Returns the present moment.
    pub fn read(&self) -> Moment {
        (self.read)()
    }

    /// Returns the time of day.
    pub fn wall(&self) -> Time {
        self.read().wall
    }

    /// Returns the time since the start of the system.
    pub fn boot(&self) -> Time {
        self.read().boot
    }

    /// Returns the trusted date: the wall clock's, unless it has moved against boot time by more
    /// than a day (MSG-99).
    pub fn date(&self) -> Time {
        self.lock_calendar().believed_date(self.read())
    }

    /// Returns true if another machine's date is within `apart_ms` of the wall clock or of [`Clock::date`].
    pub(crate) fn is_near(&self, other: Time, apart_ms: u64) -> bool {
        [self.wall(), self.date()].into_iter().any(|own| calendar::apart_ms(own, other) <= apart_ms)
    }

    /// Checks if the wall clock is trusted.
    pub fn check_wall(&self) -> Result<(), Doubt> {
        self.lock_calendar().check_wall(self.read())
    }

    /// Records that the user has confirmed the wall clock.
    pub fn trust_wall(&self) {
        self.lock_calendar().trust_wall(self.read());
    }

    /// Returns the present moment with the trusted date, and if the wall clock is doubted.
    pub fn today(&self) -> Today {
        let at = self.read();
        let mut calendar = self.lock_calendar();
        let doubted = calendar.check_wall(at).is_err();
        let confirmed = calendar.is_confirmed();
        Today { date: calendar.believed_date(at), boot: at.boot, doubted, confirmed }
    }

    /// Returns the system start in which boot time counts.
    pub fn start(&self) -> SystemStart {
        self.start
    }

    /// Compares the clock, once, with the last date that a store used.
    pub fn compare_written(&self, written: &WrittenDate) {
        let mut calendar = self.lock_calendar();
        if written.start == self.start && written.at.boot <= self.boot() {
            calendar.meet_moment(written.at, written.confirmed);
        } else {
            calendar.meet_date(written.end(), written.confirmed);
        }
    }

    /// Compares the clock, once, with the newest day of a store that has no date; see
    /// [`Calendar::meet_day`].
    pub fn meet_day(&self, day: u32) {
        self.lock_calendar().meet_day(day);
    }

    /// Records the time of another machine. If it agrees with the wall clock, the wall clock is
    /// right.
    pub fn note_peer_time(&self, other: Time) {
        let at = self.read();
        if calendar::apart_ms(at.wall, other) <= calendar::STEP_MS {
            self.lock_calendar().trust_wall(at);
        }
    }

    fn lock_calendar(&self) -> MutexGuard<'_, Calendar> {
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
        let early = clock.read();
        let late = clock.read();
        assert!(early.boot <= late.boot && late.boot > Time::default());
        assert!(clock.wall() >= early.wall && clock.boot() >= late.boot);
        assert_eq!(format!("{clock:?}"), "Clock");
    }
}
