//! How good the clock of this system is, as far as it can be known without asking anybody.
//!
//! | grade | seen how |
//! |---|---|
//! | good | systemd-timesyncd touched its stamp within 24 hours, or a person said so |
//! | poor | any other time from 2026 on |
//! | none | before 2026 |
//!
//! A system that another program keeps on time has no such stamp; `--grade` names its grade. Tests set
//! the clock's error and its grade by `MEZZA_TEST_RTC_OFFSET_MS` and `MEZZA_TEST_CLOCK_GRADE`.

use std::path::Path;
use std::time::Duration;

use mezza_core::Time;
use mezza_mesh::Grade;

/// Touched at each synchronisation.
const STAMP: &str = "/var/lib/systemd/timesync/clock";
/// Made at the first synchronisation since the system was started.
const SYNCHRONISED: &str = "/run/systemd/timesync/synchronized";
/// How long a synchronisation counts.
const FRESH: Duration = Duration::from_secs(24 * 3_600);
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

/// The grade of this system's clock, unless a person or a test named one.
pub fn grade(named: Option<Grade>, wall: Time) -> Grade {
    if wall < EARLIEST {
        return Grade::None;
    }
    named.unwrap_or(if is_synchronised() { Grade::Good } else { Grade::Poor })
}

fn is_synchronised() -> bool {
    let touched = Path::new(STAMP).metadata().and_then(|stamp| stamp.modified());
    let fresh = touched.ok().and_then(|at| at.elapsed().ok()).is_some_and(|age| age < FRESH);
    fresh && Path::new(SYNCHRONISED).exists()
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
}
