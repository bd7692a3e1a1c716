//! The date that a program trusts before it erases data.
//!
//! ```text
//!  believed --the wall clock leaves boot time by more than a day--> doubted
//!  doubted  --back within a day, or agreed to, or so for a day of boot time--> believed
//! ```
//!
//! A wall clock can be wrong by months for a minute: a flat battery, a restored virtual machine, a
//! mistyped date. Data erased in that minute would be lost.

use mezza_core::Time;

use super::Moment;

/// A step of the wall clock against boot time that is accepted at once, ms. A larger step must last
/// this long in boot time.
pub(super) const STEP_MS: u64 = Time::DAY_MS;

/// The trusted date, and the time since when the wall clock is doubted.
#[derive(Clone, Debug)]
pub struct Calendar {
    /// A moment whose date is trusted.
    anchor: Moment,
    doubt: Option<Step>,
    /// True if the last stored date is known; the date advances with boot time from there.
    met: bool,
    /// True if the user or another machine has confirmed the date, and no doubt has lasted a day
    /// since.
    confirmed: bool,
}

/// A step of the wall clock that is not accepted yet.
#[derive(Clone, Copy, Debug)]
struct Step {
    /// The first moment after the step.
    from: Moment,
}

/// A doubt about the wall clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Doubt {
    /// The date expected from the last trusted one.
    pub expected: Time,
    /// The reading of the wall clock.
    pub wall: Time,
    /// Milliseconds of boot time until an unchanged wall clock is accepted.
    pub left_ms: u64,
}

impl Calendar {
    /// Makes a calendar that trusts the newest stored date; without one, the date of `at`. Boot
    /// time does not continue across starts of the system, so only the date counts.
    pub fn from_written(written: Option<Time>, at: Moment) -> Self {
        let wall = written.unwrap_or(at.wall);
        let anchor = Moment { wall, boot: at.boot };
        Self { anchor, doubt: None, met: written.is_some(), confirmed: false }
    }

    /// Compares the calendar, once, with the newest day of a store. If they differ by more than a
    /// day, the calendar continues from the first moment of that day. The time since the first
    /// reading is known by boot time, so that a week with a locked vault is no step. For stores of
    /// older versions without a date.
    pub(crate) fn meet_day(&mut self, day: u32) {
        let begin = Time::from_ms(u64::from(day) * Time::DAY_MS);
        let within = self.anchor.wall.clamp(begin, begin.plus_ms(Time::DAY_MS - 1));
        if apart_ms(within, self.anchor.wall) > STEP_MS {
            self.meet_date(begin, false);
        } else {
            self.met = true;
        }
    }

    /// Compares the calendar, once, with the last date of a store from an earlier system start. If
    /// they differ by more than a day, the calendar continues from the store's date (MSG-99).
    pub(crate) fn meet_date(&mut self, date: Time, confirmed: bool) {
        if std::mem::replace(&mut self.met, true) {
            return;
        }
        self.confirmed |= confirmed;
        if apart_ms(date, self.anchor.wall) > STEP_MS {
            (self.anchor.wall, self.doubt) = (date, None);
        }
    }

    /// Continues from the last moment of a store in this system start: boot time gives the time
    /// since.
    pub(crate) fn meet_moment(&mut self, moment: Moment, confirmed: bool) {
        if !std::mem::replace(&mut self.met, true) {
            (self.anchor, self.doubt) = (moment, None);
            self.confirmed |= confirmed;
        }
    }

    /// Checks the clocks. Returns the doubt if the date is doubted.
    pub fn check_wall(&mut self, at: Moment) -> Result<(), Doubt> {
        let expected = self.expected_wall(at);
        if apart_ms(expected, at.wall) <= STEP_MS {
            self.accept_step(at);
            return Ok(());
        }
        let step = *self.doubt.get_or_insert(Step { from: at });
        let from = if step.is_unbroken(at) { step.from } else { at };
        self.doubt = Some(Step { from });
        let stood_ms = at.boot.since_ms(from.boot);
        if stood_ms >= STEP_MS {
            self.trust_wall(at);
            // A wrong clock that lasts becomes trusted, but not confirmed.
            self.confirmed = false;
            return Ok(());
        }
        Err(Doubt { expected, wall: at.wall, left_ms: STEP_MS - stood_ms })
    }

    /// Trusts the wall clock from now on.
    pub fn trust_wall(&mut self, at: Moment) {
        self.anchor = at;
        self.doubt = None;
        (self.met, self.confirmed) = (true, true);
    }

    /// Returns true if the user or another machine has confirmed the date.
    pub(crate) fn is_confirmed(&self) -> bool {
        self.confirmed
    }

    /// Returns the date for erasing or holding data. A step is not accepted here, even before
    /// [`Calendar::check_wall`] has seen it.
    pub fn believed_date(&self, at: Moment) -> Time {
        let expected = self.expected_wall(at);
        if apart_ms(expected, at.wall) > STEP_MS { expected } else { at.wall }
    }

    /// Returns the date from which a lifetime counts: the later one of both possible dates.
    pub fn latest_date(&self, at: Moment) -> Time {
        self.expected_wall(at).max(at.wall)
    }

    /// Returns the reading of the wall clock as if it had never been set.
    fn expected_wall(&self, at: Moment) -> Time {
        self.anchor.wall.plus_ms(at.boot.since_ms(self.anchor.boot))
    }

    /// Accepts a small step. The anchor moves once a day at most, because many small steps in a row
    /// make a large one.
    fn accept_step(&mut self, at: Moment) {
        self.doubt = None;
        if at.boot.since_ms(self.anchor.boot) >= STEP_MS {
            self.anchor = at;
        }
    }
}

impl Step {
    /// Returns true if the wall clock had no further step since this one.
    fn is_unbroken(&self, at: Moment) -> bool {
        let expected = self.from.wall.plus_ms(at.boot.since_ms(self.from.boot));
        apart_ms(expected, at.wall) <= STEP_MS
    }
}

pub(super) fn apart_ms(one: Time, other: Time) -> u64 {
    one.since_ms(other).max(other.since_ms(one))
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: u64 = Time::DAY_MS;
    const HOUR: u64 = Time::HOUR_MS;

    /// Returns a moment: the date in ms after day 1,000, and boot time in ms.
    fn at(wall_ms: u64, boot_ms: u64) -> Moment {
        Moment { wall: Time::from_ms(1_000 * DAY + wall_ms), boot: Time::from_ms(boot_ms) }
    }

    #[test]
    fn a_step_of_months_is_doubted_and_passes() {
        let mut calendar = Calendar::from_written(None, at(0, 0));
        assert_eq!(calendar.check_wall(at(0, 0)), Ok(()));
        let odd = at(60 * DAY, HOUR);
        assert_eq!(calendar.believed_date(odd), at(HOUR, 0).wall, "before anybody looked");
        let doubt = calendar.check_wall(odd).unwrap_err();
        assert_eq!((doubt.expected, doubt.wall), (at(HOUR, 0).wall, odd.wall));
        assert_eq!(doubt.left_ms, DAY);
        assert_eq!(calendar.believed_date(odd), at(HOUR, 0).wall, "nothing is erased by it");
        assert_eq!(calendar.latest_date(odd), odd.wall, "what comes now lives long enough");
        let right = at(2 * HOUR, 2 * HOUR);
        assert_eq!(calendar.check_wall(right), Ok(()));
        assert_eq!(
            (calendar.believed_date(right), calendar.latest_date(right)),
            (right.wall, right.wall)
        );
    }

    #[test]
    fn a_step_before_the_first_look_is_doubted_too() {
        let mut calendar = Calendar::from_written(None, at(0, 0));
        assert!(calendar.check_wall(at(60 * DAY, 1)).is_err());
    }

    #[test]
    fn a_step_that_stands_for_a_day_is_the_date() {
        let mut calendar = Calendar::from_written(None, at(0, 0));
        calendar.check_wall(at(0, 0)).unwrap();
        assert!(calendar.check_wall(at(60 * DAY, 0)).is_err());
        assert_eq!(calendar.check_wall(at(61 * DAY - 1, DAY - 1)).unwrap_err().left_ms, 1);
        assert_eq!(calendar.check_wall(at(61 * DAY, DAY)), Ok(()));
        assert_eq!(calendar.believed_date(at(61 * DAY, DAY)), at(61 * DAY, 0).wall);
    }

    #[test]
    fn msg_99_a_store_of_long_ago_makes_the_date_doubtful() {
        let opened = |day, start: Moment, now: Moment| {
            let mut calendar = Calendar::from_written(None, start);
            calendar.meet_day(day);
            (calendar.check_wall(now).is_ok(), calendar.believed_date(now))
        };
        let noon = at(DAY / 2, 5);
        for day in [1_000, 999] {
            assert_eq!(opened(day, noon, noon), (true, noon.wall), "yesterday's");
        }
        let begin = Time::from_ms(998 * DAY);
        assert_eq!(opened(998, noon, noon), (false, begin), "off for a day and more");
        assert_eq!(
            opened(1_003, noon, noon),
            (false, Time::from_ms(1_003 * DAY)),
            "a flat battery"
        );
        let later = at(9 * DAY, 5 + 17 * DAY / 2);
        assert_eq!(
            opened(1_000, noon, later),
            (true, later.wall),
            "locked, while boot time went on"
        );
        let mut again = Calendar::from_written(None, noon);
        again.trust_wall(noon);
        again.meet_day(900);
        assert_eq!(again.check_wall(noon), Ok(()), "the person knew already");
    }

    #[test]
    fn another_step_begins_a_day_of_its_own() {
        let mut calendar = Calendar::from_written(None, at(0, 0));
        calendar.check_wall(at(0, 0)).unwrap();
        assert!(calendar.check_wall(at(60 * DAY, 0)).is_err());
        assert_eq!(calendar.check_wall(at(90 * DAY, 20 * HOUR)).unwrap_err().left_ms, DAY);
        assert!(calendar.check_wall(at(90 * DAY, DAY)).is_err());
    }

    #[test]
    fn an_operator_agrees() {
        let mut calendar = Calendar::from_written(Some(at(0, 0).wall), at(9 * DAY, 5));
        let late = at(9 * DAY, 5);
        assert!(
            calendar.check_wall(late).is_err(),
            "the program was off for nine days, or it was not"
        );
        calendar.trust_wall(late);
        assert_eq!(calendar.check_wall(late), Ok(()));
        assert_eq!(calendar.believed_date(late), late.wall);
    }

    #[test]
    fn many_small_steps_are_a_large_one() {
        let mut calendar = Calendar::from_written(None, at(0, 0));
        let mut refused = 0;
        for hour in 0..24 {
            refused += u32::from(calendar.check_wall(at(hour * 20 * HOUR, hour * HOUR)).is_err());
        }
        assert!(refused >= 20, "{refused}");
    }

    #[test]
    fn a_clock_that_was_set_back_is_doubted_too() {
        let mut calendar = Calendar::from_written(None, at(50 * DAY, 0));
        calendar.check_wall(at(50 * DAY, 0)).unwrap();
        let odd = at(0, HOUR);
        assert!(calendar.check_wall(odd).is_err());
        assert_eq!(calendar.latest_date(odd), at(50 * DAY + HOUR, 0).wall, "mail lives its time");
        assert_eq!(calendar.check_wall(at(50 * DAY + HOUR, HOUR)), Ok(()));
    }
}
