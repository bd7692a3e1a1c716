//! How good the clock of this system is, as far as it can be known without asking anybody.
//!
//! | clock | W, by which it may be off |
//! |---|---|
//! | synchronised by systemd-timesyncd since the system was started | 2.5 s, and what MESH-71 adds |
//! | a person named its grade | that of the grade |
//! | any other time from 2026 on | 600 s |
//!
//! A time before 2026 is no time. Tests set the clock's error and its grade by `MEZZA_TEST_RTC_OFFSET_MS`
//! and `MEZZA_TEST_CLOCK_GRADE`.

use std::path::Path;
use std::time::UNIX_EPOCH;

use mezza_core::Time;
use mezza_mesh::Grade;
use mezza_mesh::node::Input;

/// Touched at each synchronisation since the system was started.
const SYNCHRONISED: &str = "/run/systemd/timesync/synchronized";
/// What a synchronisation vouches for, and the most that a clock may be off, ms.
const VOUCHED_MS: u64 = 2_500;
const WITHIN_MS_MAX: u64 = 600_000;
/// A clock without a source loses or gains one part in so many: 100 ppm.
const DRIFT_PARTS: u64 = 10_000;
/// 2026-01-01 00:00 UTC: no clock that shows less can be right.
const EARLIEST: Time = Time::from_ms(1_767_225_600_000);

/// The clock as tests bend it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct BentClock {
    /// What the time of day is off by, ms.
    pub offset_ms: i64,
    /// Its grade.
    pub grade: Option<Grade>,
}

impl BentClock {
    /// What the environment of a test says.
    pub(crate) fn of_environment() -> Self {
        let text = |name| std::env::var(name).ok();
        Self {
            offset_ms: text("MEZZA_TEST_RTC_OFFSET_MS").and_then(|t| t.parse().ok()).unwrap_or(0),
            grade: text("MEZZA_TEST_CLOCK_GRADE").and_then(|word| of_word(&word)),
        }
    }

    /// Warns a person whose environment holds settings of tests: his clock is not what it shows.
    pub(crate) fn warn(self) {
        if self.offset_ms != 0 || self.grade.is_some() {
            tracing::warn!(
                target: "mezza",
                offset_ms = self.offset_ms,
                grade = self.grade.map(Grade::word),
                "the environment bends the clock, which is meant for tests: unset MEZZA_TEST_RTC_OFFSET_MS \
                 and MEZZA_TEST_CLOCK_GRADE"
            );
        }
    }

    /// The time of day that a node is told.
    pub(crate) fn bend(self, wall: Time) -> Time {
        Time::from_ms(wall.ms().saturating_add_signed(self.offset_ms))
    }
}

/// The grade of a word.
pub(crate) fn of_word(word: &str) -> Option<Grade> {
    [Grade::Good, Grade::Fair, Grade::Poor].into_iter().find(|grade| grade.word() == word)
}

/// The system's clock since a network set it last (MESH-71).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SystemClock {
    synchronised_at: Option<Time>,
    /// The sum of all moves since then.
    moved_ms: i64,
}

impl SystemClock {
    /// The clock was moved against boot time.
    pub(crate) fn on_move(&mut self, moved_ms: i64) {
        self.moved_ms = self.moved_ms.saturating_add(moved_ms);
    }

    /// The system was asked when its clock was synchronised. What moved the clock before that counts no more.
    pub(crate) fn on_source(&mut self, synchronised_at: Option<Time>) {
        if self.synchronised_at != synchronised_at {
            *self = Self { synchronised_at, moved_ms: 0 };
        }
    }

    /// By how much the clock may be off when it shows `wall`, ms.
    pub(crate) fn within_ms(self, wall: Time) -> u32 {
        let grown = self.synchronised_at.map(|at| {
            let drift_ms = wall.since_ms(at) / DRIFT_PARTS;
            // A clock that shows a time before its source spoke was put back at least so far.
            let back_ms = at.since_ms(wall);
            VOUCHED_MS.saturating_add(drift_ms.max(back_ms).max(self.moved_ms.unsigned_abs()))
        });
        let within_ms = grown.unwrap_or(WITHIN_MS_MAX).min(WITHIN_MS_MAX);
        u32::try_from(within_ms).unwrap_or(u32::MAX)
    }

    /// What a node is told when its clock shows `time` and the system's clock `wall`.
    pub(crate) fn reading(self, named: Option<Grade>, time: Time, wall: Time) -> Input {
        match named {
            _ if time < EARLIEST => Input::Rtc { time, grade: Grade::None },
            Some(grade) => Input::Rtc { time, grade },
            None => Input::RtcWithin { time, within_ms: self.within_ms(wall) },
        }
    }
}

/// When systemd-timesyncd synchronised the clock last, since the system was started.
pub(crate) fn synchronised_at() -> Option<Time> {
    let touched = Path::new(SYNCHRONISED).metadata().and_then(|stamp| stamp.modified()).ok()?;
    let ms = touched.duration_since(UNIX_EPOCH).ok()?.as_millis();
    u64::try_from(ms).ok().map(Time::from_ms)
}

/// The grade of this system's clock, unless a person or a test named one.
pub fn grade(named: Option<Grade>, wall: Time) -> Grade {
    if wall < EARLIEST {
        return Grade::None;
    }
    let mut system = SystemClock::default();
    system.on_source(synchronised_at());
    named.unwrap_or_else(|| Grade::of_bound(i64::from(system.within_ms(wall)) * 1_000))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_that_cannot_be_is_none_whatever_is_said() {
        assert_eq!(grade(Some(Grade::Good), Time::from_ms(0)), Grade::None);
        assert_eq!(grade(Some(Grade::Fair), EARLIEST), Grade::Fair);
        assert_eq!([of_word("good"), of_word("none")], [Some(Grade::Good), None]);
        let bent = BentClock { offset_ms: -240_000, grade: None };
        assert_eq!(bent.bend(Time::from_ms(300_000)), Time::from_ms(60_000));
    }

    /// A day without a network costs nine seconds, and 69 days cost all that is vouched for.
    #[test]
    fn mesh_71_the_bound_of_a_clock_grows_since_its_source_spoke() {
        let at = EARLIEST.plus_ms(Time::DAY_MS);
        let mut clock = SystemClock::default();
        assert_eq!(clock.within_ms(at), 600_000, "nobody vouches for it");
        clock.on_source(Some(at));
        for (days, within_ms) in
            [(0, 2_500), (1, 11_140), (7, 62_980), (30, 261_700), (70, 600_000)]
        {
            assert_eq!(clock.within_ms(at.plus_ms(days * Time::DAY_MS)), within_ms, "{days} days");
        }
    }

    #[test]
    fn mesh_71_a_move_of_the_clock_counts_until_a_source_speaks_again() {
        let at = EARLIEST.plus_ms(Time::DAY_MS);
        let mut clock = SystemClock::default();
        clock.on_source(Some(at));
        clock.on_move(90_000);
        clock.on_source(Some(at));
        assert_eq!(clock.within_ms(at.plus_ms(90_000)), 92_500);
        clock.on_move(-90_000);
        assert_eq!(clock.within_ms(at), 2_500, "it was put right again");
        clock.on_move(-40_000);
        let later = at.plus_ms(Time::MINUTE_MS);
        clock.on_source(Some(later));
        assert_eq!(clock.within_ms(later), 2_500);
        let back = Time::from_ms(later.ms() - 40_000);
        assert_eq!(clock.within_ms(back), 42_500, "it was put back while nobody looked");
    }

    #[test]
    fn mesh_71_a_named_grade_comes_before_the_system_and_an_impossible_time_before_both() {
        let (clock, at) = (SystemClock::default(), EARLIEST);
        let reading = clock.reading(None, at, at);
        assert!(matches!(reading, Input::RtcWithin { within_ms: 600_000, .. }));
        let reading = clock.reading(Some(Grade::Fair), at, at);
        assert!(matches!(reading, Input::Rtc { grade: Grade::Fair, .. }));
        let reading = clock.reading(Some(Grade::Fair), Time::from_ms(0), at);
        assert!(matches!(reading, Input::Rtc { grade: Grade::None, .. }));
    }
}
