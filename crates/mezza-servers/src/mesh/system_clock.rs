//! Bounds the error of this system's clock: the error that a source stated, plus drift and moves
//! since (MESH-71).

use std::path::PathBuf;

use mezza_core::Time;
use mezza_host::clock::{Moment, SystemStart};
use mezza_host::process::home::{Home, private};
use mezza_mesh::Grade;
use serde::{Deserialize, Serialize};

/// Upper limit of the stated error of a clock, ms.
const WITHIN_MS_MAX: u64 = 600_000;
/// A clock without a source loses or gains at most one part in 10,000 (100 ppm).
const DRIFT_PARTS: u64 = 10_000;
/// Uncertainty that a start of the system adds: a hardware clock counts whole seconds.
const RESTART_MS: u64 = 2_000;
/// A record that differs by less from the file is not written. Also the interval after which a
/// record is written anyway, ms.
const WRITE_MOVE_MS: u64 = Time::SECOND_MS;
const WRITE_EVERY_MS: u64 = Time::HOUR_MS;
/// Maximum size of a record in bytes.
const RECORD_BYTES_MAX: usize = 4_096;

/// A statement of a source that the clock was right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Statement {
    /// The time that the clock showed at the statement.
    pub at: Time,
    /// Maximum error of the clock at the statement, ms.
    pub within_ms: u64,
}

/// A statement that the clock was right, and how far the clock was moved since.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::struct_field_names, reason = "units")]
struct Vouched {
    /// Wall time of the statement, ms.
    at_ms: u64,
    /// Maximum error of the clock at the statement, ms.
    within_ms: u64,
    /// The sum of all moves since, with their signs.
    moved_ms: i64,
    /// The largest absolute value of that sum so far: a clock that was moved forth and back is not
    /// exact again.
    farthest_ms: u64,
}

impl Vouched {
    const fn new(at: Time, within_ms: u64) -> Self {
        Self { at_ms: at.as_ms(), within_ms, moved_ms: 0, farthest_ms: 0 }
    }

    const fn add_move(&mut self, moved_ms: i64) {
        self.moved_ms = self.moved_ms.saturating_add(moved_ms);
        let size_ms = self.moved_ms.unsigned_abs();
        if size_ms > self.farthest_ms {
            self.farthest_ms = size_ms;
        }
    }

    /// Returns the maximum error of the clock when it shows `wall`, ms.
    fn within_ms(self, wall: Time) -> u64 {
        let at = Time::from_ms(self.at_ms);
        let drift_ms = wall.since_ms(at) / DRIFT_PARTS;
        // A clock that shows a time before the statement was set back by at least the difference.
        let back_ms = at.since_ms(wall);
        self.within_ms.saturating_add(drift_ms.max(back_ms).max(self.farthest_ms))
    }
}

/// Two successive readings of the clocks.
#[derive(Clone, Copy, Debug)]
struct Readings {
    before: Moment,
    now: Moment,
}

impl Readings {
    fn passed_ms(self) -> u64 {
        self.now.boot.since_ms(self.before.boot)
    }

    /// Returns by how much the clock was moved relative to boot time, ms.
    fn moved_ms(self) -> i64 {
        let unmoved = self.before.wall.plus_ms(self.passed_ms());
        self.now.wall.as_ms().cast_signed().saturating_sub(unmoved.as_ms().cast_signed())
    }

    /// Returns true if a source that stamped `at` certainly made its statement after the clock was
    /// moved: only the moved clock can have shown that time.
    fn is_after_move(self, at: Time) -> bool {
        let passed_ms = self.passed_ms();
        let unmoved = self.before.wall..=self.before.wall.plus_ms(passed_ms);
        let moved = Time::from_ms(self.now.wall.as_ms().saturating_sub(passed_ms))..=self.now.wall;
        moved.contains(&at) && !unmoved.contains(&at)
    }
}

/// The record of a clock as it is stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Record {
    /// The last time that a network set the clock.
    source: Option<Vouched>,
    /// The last statement of the user about the accuracy of the clock.
    person: Option<Vouched>,
    /// The last readings of the wall clock in ms, and the system start in which they were made.
    wall_ms: u64,
    boot_ms: u64,
    start: String,
}

impl Record {
    fn new(now: Moment, start: SystemStart) -> Self {
        Self {
            source: None,
            person: None,
            wall_ms: now.wall.as_ms(),
            boot_ms: now.boot.as_ms(),
            start: format!("{start:?}"),
        }
    }

    const fn last_reading(&self) -> Moment {
        Moment { wall: Time::from_ms(self.wall_ms), boot: Time::from_ms(self.boot_ms) }
    }

    fn statements(&mut self) -> impl Iterator<Item = &mut Vouched> {
        self.source.iter_mut().chain(&mut self.person)
    }

    /// Carries the statements into another start of the system, in which boot time counts from zero.
    fn carry_over_restart(&mut self, now: Moment, start: SystemStart, has_hardware_clock: bool) {
        // Without a hardware clock the system shows the time of its last shutdown, and with an
        // empty battery an earlier time. Neither is covered by a statement.
        if !has_hardware_clock || now.wall < self.last_reading().wall {
            *self = Self::new(now, start);
            return;
        }
        for vouched in self.statements() {
            vouched.within_ms = vouched.within_ms.saturating_add(RESTART_MS);
        }
        let Self { source, person, .. } = *self;
        *self = Self { source, person, ..Self::new(now, start) };
    }

    /// Returns true if the file that holds `stored` must be written again.
    fn differs_from(&self, stored: &Self) -> bool {
        let differs = |own: Option<Vouched>, other: Option<Vouched>| match (own, other) {
            (Some(own), Some(other)) => {
                (own.at_ms, own.within_ms) != (other.at_ms, other.within_ms)
                    || own.farthest_ms.abs_diff(other.farthest_ms) >= WRITE_MOVE_MS
                    || own.moved_ms.abs_diff(other.moved_ms) >= WRITE_MOVE_MS
            }
            (own, other) => own != other,
        };
        self.start != stored.start
            || differs(self.source, stored.source)
            || differs(self.person, stored.person)
            || self.boot_ms.abs_diff(stored.boot_ms) >= WRITE_EVERY_MS
    }
}

/// The system's clock, and the file in which its record outlives the process (MESH-72).
#[derive(Debug)]
pub(super) struct SystemClock {
    record: Record,
    stored: Option<Record>,
    file: Option<PathBuf>,
}

impl SystemClock {
    /// A clock without statements and without a file.
    #[cfg(test)]
    pub(super) fn unknown(now: Moment, start: SystemStart) -> Self {
        Self { record: Record::new(now, start), stored: None, file: None }
    }

    /// Reads the clock's record as the last process of this home left it.
    pub(super) fn of_home(
        home: &Home,
        now: Moment,
        start: SystemStart,
        has_hardware_clock: bool,
    ) -> Self {
        let file = home.run().join("mesh.clock");
        let bytes = private::read(&file, RECORD_BYTES_MAX).ok();
        // A file that cannot be read counts as no record.
        let stored = bytes.and_then(|bytes| serde_json::from_slice::<Record>(&bytes).ok());
        let mut record = stored.clone().unwrap_or_else(|| Record::new(now, start));
        if record.start != format!("{start:?}") {
            record.carry_over_restart(now, start, has_hardware_clock);
        }
        Self { record, stored, file: Some(file) }
    }

    /// Returns by how much the clock was moved since the last reading, ms.
    pub(super) fn moved_ms(&self, now: Moment) -> u64 {
        Readings { before: self.record.last_reading(), now }.moved_ms().unsigned_abs()
    }

    /// Records a reading of the clock. `source` is the system's statement about it.
    pub(super) fn on_reading(&mut self, now: Moment, source: Option<Statement>) {
        let readings = Readings { before: self.record.last_reading(), now };
        let moved_ms = readings.moved_ms();
        if let Some(person) = &mut self.record.person {
            person.add_move(moved_ms);
        }
        if let Some(vouched) = &mut self.record.source {
            vouched.add_move(moved_ms);
        }
        let known = self.record.source;
        if let Some(Statement { at, within_ms }) = source
            && known.is_none_or(|vouched| vouched.at_ms != at.as_ms())
        {
            let mut new = Vouched::new(at, within_ms);
            // A statement covers moves before it, and none after it.
            if !readings.is_after_move(at) {
                new.add_move(moved_ms);
            }
            let is_better = |old: Vouched| new.within_ms(now.wall) <= old.within_ms(now.wall);
            if known.is_none_or(is_better) {
                self.record.source = Some(new);
            }
        }
        (self.record.wall_ms, self.record.boot_ms) = (now.wall.as_ms(), now.boot.as_ms());
    }

    /// Records that the user set the grade of the clock as it is now.
    pub(super) fn on_person(&mut self, grade: Grade, now: Moment) {
        let within_ms = u64::try_from(grade.bound_us() / 1_000).unwrap_or(WITHIN_MS_MAX);
        self.record.person = Some(Vouched::new(now.wall, within_ms));
    }

    /// Returns true if the user set the grade of this clock.
    pub(super) const fn has_person(&self) -> bool {
        self.record.person.is_some()
    }

    /// Returns the maximum error, ms, of a clock that shows `wall` and differs from the system's
    /// clock by `bent_ms`. The user's grade is about this clock, a source's statement about the
    /// system's.
    pub(super) fn within_ms(&self, wall: Time, bent_ms: u64) -> u32 {
        let Record { source, person, .. } = self.record;
        let of = |vouched: Option<Vouched>| vouched.map_or(WITHIN_MS_MAX, |v| v.within_ms(wall));
        let within_ms = match person {
            // A user who sets the grade poor also rejects the time of the network.
            Some(person) if person.within_ms >= WITHIN_MS_MAX => WITHIN_MS_MAX,
            _ => of(person).min(of(source).saturating_add(bent_ms)),
        };
        u32::try_from(within_ms.min(WITHIN_MS_MAX)).unwrap_or(u32::MAX)
    }

    /// Writes the record if it changed. A failed write is repeated at the next reading.
    pub(super) fn store_record(&mut self) {
        let Some(file) = &self.file else { return };
        if self.stored.as_ref().is_some_and(|stored| !self.record.differs_from(stored)) {
            return;
        }
        let Ok(bytes) = serde_json::to_vec(&self.record) else { return };
        match private::replace(file, &bytes) {
            Ok(()) => self.stored = Some(self.record.clone()),
            Err(fault) => tracing::debug!(target: "mezza", "the clock is not stored: {fault}"),
        }
    }
}

#[cfg(test)]
mod tests;
