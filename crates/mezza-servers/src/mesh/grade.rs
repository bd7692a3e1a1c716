//! How good the clock of this system is, judged without a network.
//!
//! | clock | W, by which it may be off |
//! |---|---|
//! | synchronised by systemd-timesyncd | 2.5 s, and what MESH-71 adds |
//! | else synchronised, as the kernel counts it | 18.5 s, and what MESH-71 adds |
//! | a person named its grade | that of the grade, and what MESH-71 adds |
//! | any other time from 2026 on | 600 s |
//!
//! A time before 2026 is treated as unset. Tests set the clock's error and its grade by
//! `MEZZA_TEST_RTC_OFFSET_MS` and `MEZZA_TEST_CLOCK_GRADE`.

use std::path::PathBuf;
use std::time::UNIX_EPOCH;

use mezza_core::Time;
use mezza_host::clock::{Moment, SystemStart};
use mezza_host::process::home::Home;
use mezza_mesh::Grade;

use super::system_clock::{Statement, SystemClock};

/// A file that the system touches at each synchronisation since its start.
const SYNCHRONISED: &str = "/run/systemd/timesync/synchronized";
/// Maximum error of the clock at the moment when systemd-timesyncd touched that file, ms.
const STAMP_MS: u64 = 2_500;
/// A folder that has an entry for each hardware clock.
const HARDWARE_CLOCKS: &str = "/sys/class/rtc";
/// 2026-01-01 00:00 UTC. A clock that shows an earlier time is wrong.
pub(super) const EARLIEST: Time = Time::from_ms(1_767_225_600_000);

/// The error and grade of the clock that a test sets.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct BentClock {
    /// The offset of the time of day, ms.
    pub offset_ms: i64,
    pub grade: Option<Grade>,
}

impl BentClock {
    /// Reads the settings that a test puts into the environment.
    pub(crate) fn of_environment() -> Self {
        let text = |name| std::env::var(name).ok();
        Self {
            offset_ms: text("MEZZA_TEST_RTC_OFFSET_MS").and_then(|t| t.parse().ok()).unwrap_or(0),
            grade: text("MEZZA_TEST_CLOCK_GRADE").and_then(|word| of_word(&word)),
        }
    }

    /// Logs a warning if the environment holds settings of tests: the node then uses another time
    /// than the system.
    pub(crate) fn warn_if_bent(self) {
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

    /// Returns the time of day that the node is given: `wall` plus the offset of the test.
    pub(crate) fn shift_time(self, wall: Time) -> Time {
        Time::from_ms(wall.as_ms().saturating_add_signed(self.offset_ms))
    }
}

/// Returns the grade of a word, or `None` if no grade has that name.
pub(crate) fn of_word(word: &str) -> Option<Grade> {
    [Grade::Good, Grade::Fair, Grade::Poor].into_iter().find(|grade| grade.word() == word)
}

/// Files in which this system reports on its clock.
#[derive(Clone, Debug)]
pub(super) struct ClockFiles {
    /// File that the system touches at each synchronisation since its start.
    pub stamp: PathBuf,
    /// Folder with an entry for each hardware clock.
    pub hardware: PathBuf,
}

impl Default for ClockFiles {
    fn default() -> Self {
        Self { stamp: SYNCHRONISED.into(), hardware: HARDWARE_CLOCKS.into() }
    }
}

impl ClockFiles {
    /// Returns the time to which systemd-timesyncd set the clock last, since the system was started.
    pub(super) fn last_synchronised(&self) -> Option<Statement> {
        let touched = self.stamp.metadata().and_then(|stamp| stamp.modified()).ok()?;
        let ms = touched.duration_since(UNIX_EPOCH).ok()?.as_millis();
        let at = u64::try_from(ms).ok().map(Time::from_ms)?;
        Some(Statement { at, within_ms: STAMP_MS })
    }

    /// Returns true if a clock runs while the system is off.
    pub(super) fn has_hardware_clock(&self) -> bool {
        self.hardware.read_dir().is_ok_and(|mut clocks| clocks.next().is_some())
    }
}

/// Returns the maximum error of this system's clock, ms, computed from the record of this home and
/// the stamp of systemd-timesyncd. Returns `None` before 2026.
pub fn within_ms(home: &Home) -> Option<u32> {
    let now = Moment::now();
    let files = ClockFiles::default();
    let start = SystemStart::of_this_system();
    let mut system = SystemClock::of_home(home, now, start, files.has_hardware_clock());
    system.on_reading(now, files.last_synchronised());
    (now.wall >= EARLIEST).then(|| system.within_ms(now.wall, 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_is_bent_by_an_offset_and_a_grade_is_a_word() {
        assert_eq!([of_word("good"), of_word("none")], [Some(Grade::Good), None]);
        let bent = BentClock { offset_ms: -240_000, grade: None };
        assert_eq!(bent.shift_time(Time::from_ms(300_000)), Time::from_ms(60_000));
    }

    /// Without a hardware clock or a stamp, nothing bounds the error of the clock.
    #[test]
    fn files_that_are_not_there_say_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let [stamp, hardware] = ["stamp", "rtc"].map(|name| folder.path().join(name));
        let files = ClockFiles { stamp, hardware };
        assert_eq!(files.last_synchronised(), None);
        assert!(!files.has_hardware_clock());
        std::fs::create_dir_all(files.hardware.join("rtc0")).unwrap();
        std::fs::write(&files.stamp, b"").unwrap();
        assert!(files.last_synchronised().is_some() && files.has_hardware_clock());
    }
}
