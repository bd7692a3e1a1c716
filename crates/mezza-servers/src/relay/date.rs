//! The date that a relay uses, and the file that stores it for the next start and for the operator.
//!
//! ```text
//! believed HOUR          the newest hour since 1970 that the relay went by
//! doubted HOUR           what its clock says instead, if it does
//! ```

use std::path::{Path, PathBuf};

use mezza_core::Time;

use mezza_host::api::Fault;
use mezza_host::clock::{Calendar, Doubt, Moment};
use mezza_host::process::home::private;

/// The file in a relay's folder.
const FILE: &str = "clock";
/// Maximum number of bytes read from the file.
const BYTES_MAX: usize = 128;

/// The content of the clock file, in hours since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockRecord {
    /// The newest hour that the relay accepted.
    pub believed_h: u32,
    /// The hour of the system clock, if the relay rejects it.
    pub doubted_h: Option<u32>,
}

impl ClockRecord {
    /// Reads the date that the relay in `dir` stored. Returns `None` if no readable one is there.
    pub(crate) fn read(dir: &Path) -> Option<Self> {
        let bytes = private::read(&dir.join(FILE), BYTES_MAX).ok()?;
        let text = std::str::from_utf8(&bytes).ok()?;
        let hour = |word: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(word));
            line.and_then(|hour| hour.trim().parse().ok())
        };
        Some(Self { believed_h: hour("believed ")?, doubted_h: hour("doubted ") })
    }

    /// Stores the record durably.
    ///
    /// # Errors
    /// The folder cannot be written to.
    pub(crate) fn write(self, dir: &Path) -> Result<(), Fault> {
        let doubted = self.doubted_h.map(|hour| format!("doubted {hour}\n"));
        let text = format!("believed {}\n{}", self.believed_h, doubted.unwrap_or_default());
        private::replace(&dir.join(FILE), text.as_bytes())
    }

    /// Returns the record by which the operator confirms this hour.
    pub(crate) fn agreed(now: Time) -> Self {
        Self { believed_h: now.as_hours(), doubted_h: None }
    }
}

/// The date that a running relay uses.
pub(crate) struct RelayDate {
    calendar: Calendar,
    dir: PathBuf,
    written: Option<ClockRecord>,
}

impl RelayDate {
    /// Opens the date as the last run of the relay in `dir` left it.
    pub(crate) fn open(dir: &Path, at: Moment) -> Self {
        let written = ClockRecord::read(dir);
        let newest = written.map(|written| hours_to_time(written.believed_h));
        Self { calendar: Calendar::from_written(newest, at), dir: dir.to_owned(), written }
    }

    /// Returns the date by which mail is hidden and erased.
    pub(crate) fn believed_date(&self, at: Moment) -> Time {
        self.calendar.believed_date(at)
    }

    /// Returns the date from which the lifetime of mail and mailboxes is counted.
    pub(crate) fn latest_date(&self, at: Moment) -> Time {
        self.calendar.latest_date(at)
    }

    /// Checks the clocks and stores the result. Returns true if the date is trusted enough to erase
    /// mail.
    pub(crate) fn check_clocks(&mut self, at: Moment) -> bool {
        let mut seen = self.calendar.check_wall(at);
        if seen.is_err() && self.is_agreed(at) {
            self.calendar.trust_wall(at);
            seen = Ok(());
        }
        match seen {
            Ok(()) => self.store_record(ClockRecord::agreed(at.wall)),
            Err(doubt) => self.record_doubt(doubt),
        }
        seen.is_ok()
    }

    /// Returns true if the operator has confirmed the present hour in the file.
    fn is_agreed(&self, at: Moment) -> bool {
        let found = ClockRecord::read(&self.dir);
        found.is_some_and(|found| {
            found.doubted_h.is_none() && found.believed_h.abs_diff(at.wall.as_hours()) <= 1
        })
    }

    fn record_doubt(&mut self, doubt: Doubt) {
        if self.written.is_none_or(|written| written.doubted_h.is_none()) {
            tracing::warn!(
                clock_h = doubt.wall.as_hours(),
                expected_h = doubt.expected.as_hours(),
                left_h = doubt.left_ms.div_ceil(Time::HOUR_MS),
                "the clock of this machine has jumped by more than a day: no mail expires until it has \
                 stood for a day; if it is right, say `mezza relay trust-clock`"
            );
        }
        self.store_record(ClockRecord {
            believed_h: doubt.expected.as_hours(),
            doubted_h: Some(doubt.wall.as_hours()),
        });
    }

    fn store_record(&mut self, record: ClockRecord) {
        if self.written == Some(record) {
            return;
        }
        match record.write(&self.dir) {
            Ok(()) => self.written = Some(record),
            Err(fault) => tracing::warn!(%fault, "the relay's date is not kept for the next start"),
        }
    }
}

fn hours_to_time(hours: u32) -> Time {
    Time::from_ms(u64::from(hours) * Time::HOUR_MS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tempfile::TempDir;

    fn at(day: u64, boot_h: u64) -> Moment {
        let boot = Time::from_ms(boot_h * Time::HOUR_MS);
        Moment { wall: Time::from_ms(day * Time::DAY_MS).plus_ms(boot.as_ms()), boot }
    }

    fn folder() -> TempDir {
        let folder = TempDir::new().unwrap();
        private::make_folder(&folder.path().join("relay")).unwrap();
        folder
    }

    #[test]
    fn msg_88_a_date_is_kept_for_the_next_start() {
        let folder = folder();
        let dir = folder.path().join("relay");
        let mut date = RelayDate::open(&dir, at(1_000, 0));
        assert!(date.check_clocks(at(1_000, 0)));
        assert_eq!(
            ClockRecord::read(&dir),
            Some(ClockRecord { believed_h: 24_000, doubted_h: None })
        );
        // Boot time starts at zero with the system, while the wall clock shows 60 days more.
        let mut again = RelayDate::open(&dir, at(1_060, 1));
        assert!(!again.check_clocks(at(1_060, 1)));
        let doubted = ClockRecord { believed_h: 24_000, doubted_h: Some(24 * 1_060 + 1) };
        assert_eq!(ClockRecord::read(&dir), Some(doubted));
        assert_eq!(again.believed_date(at(1_060, 1)), hours_to_time(24_000));
        assert!(again.check_clocks(at(1_060, 25)), "it has stood for a day");
        assert_eq!(ClockRecord::read(&dir).unwrap().doubted_h, None);
    }

    #[test]
    fn msg_88_an_operator_agrees_while_the_relay_runs() {
        let folder = folder();
        let dir = folder.path().join("relay");
        assert!(RelayDate::open(&dir, at(1_000, 0)).check_clocks(at(1_000, 0)));
        let mut date = RelayDate::open(&dir, at(1_060, 0));
        assert!(!date.check_clocks(at(1_060, 0)) && !date.check_clocks(at(1_060, 2)));
        ClockRecord::agreed(at(1_060, 2).wall).write(&dir).unwrap();
        assert!(date.check_clocks(at(1_060, 2)));
    }

    #[test]
    fn what_is_no_record_is_no_date() {
        let folder = folder();
        let dir = folder.path().join("relay");
        assert_eq!(ClockRecord::read(&dir), None);
        for text in ["", "believed", "believed x\n", "doubted 9\n"] {
            private::replace(&dir.join(FILE), text.as_bytes()).unwrap();
            assert_eq!(ClockRecord::read(&dir), None, "{text}");
        }
    }
}
