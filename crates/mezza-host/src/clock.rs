//! The one place where the program reads its clocks.

mod calendar;
mod written;

pub use calendar::{Calendar, Doubt};
pub use written::{SystemStart, WrittenDate};

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
        Self { wall: now(), boot: boot_time() }
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
fn boot_time() -> Time {
    Time::from_ms(whole_ms(clock_gettime(BOOT).map_or(Duration::ZERO, Duration::from)))
}

fn whole_ms(since: Duration) -> u64 {
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// The present moment, as far as its date may be believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Today {
    /// The date by which something may be erased.
    pub date: Time,
    /// Milliseconds since the system was started.
    pub boot: Time,
    /// True while the wall clock is doubted.
    pub doubted: bool,
    /// True if the person or another machine said that the date is right.
    pub confirmed: bool,
}

/// Tells the time, and how much of it may be believed; tests give a node or a server one of their own.
/// Clones are the same clock.
#[derive(Clone)]
pub struct Clock {
    read: Arc<dyn Fn() -> Moment + Send + Sync>,
    calendar: Arc<Mutex<Calendar>>,
    start: SystemStart,
}

impl Clock {
    /// The clocks of this machine.
    pub fn system() -> Self {
        Self { start: SystemStart::of_this_system(), ..Self::from_fn(Moment::now) }
    }

    /// A clock that asks `read`, in a system start of its own.
    pub fn from_fn(read: impl Fn() -> Moment + Send + Sync + 'static) -> Self {
        let calendar = Calendar::from_written(None, read());
        let calendar = Arc::new(Mutex::new(calendar));
        Self { read: Arc::new(read), calendar, start: SystemStart::draw() }
    }

    /// The same clock in this system start.
    #[must_use]
    pub fn in_start(self, start: SystemStart) -> Self {
        Self { start, ..self }
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
        self.lock_calendar().believed_date(self.read())
    }

    /// Returns true if another machine's date is within `apart_ms` of the wall clock or of [`Clock::date`].
    pub(crate) fn is_near(&self, other: Time, apart_ms: u64) -> bool {
        [self.wall(), self.date()].into_iter().any(|own| calendar::apart_ms(own, other) <= apart_ms)
    }

    /// Looks whether the wall clock may be believed.
    pub fn check_wall(&self) -> Result<(), Doubt> {
        self.lock_calendar().check_wall(self.read())
    }

    /// The person says that the wall clock is right.
    pub fn trust_wall(&self) {
        self.lock_calendar().trust_wall(self.read());
    }

    /// The present moment with the date that may be believed, and whether the wall clock is doubted.
    pub fn today(&self) -> Today {
        let at = self.read();
        let mut calendar = self.lock_calendar();
        let doubted = calendar.check_wall(at).is_err();
        let confirmed = calendar.is_confirmed();
        Today { date: calendar.believed_date(at), boot: at.boot, doubted, confirmed }
    }

    /// The system start in which boot time counts.
    pub fn start(&self) -> SystemStart {
        self.start
    }

    /// Compares itself, once, with the date that a store went by last.
    pub fn compare_written(&self, written: &WrittenDate) {
        let mut calendar = self.lock_calendar();
        if written.start == self.start && written.at.boot <= self.boot() {
            calendar.meet_moment(written.at, written.confirmed);
        } else {
            calendar.meet_date(written.end(), written.confirmed);
        }
    }

    /// The same with the newest day in a store that has no date; see [`Calendar::meet_day`].
    pub fn meet_day(&self, day: u32) {
        self.lock_calendar().meet_day(day);
    }

    /// Another machine says what time it is. Two clocks that agree are right.
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
