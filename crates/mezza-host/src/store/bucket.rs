//! Buckets: each names the key that seals a record, and the end of that key.
//!
//! On disk a bucket is `class << 30 | number`: class 0 permanent (number 0), 1 rolling day, 2
//! expiry hour, 3 expiry day; hours and days since 1970, UTC.

use mezza_core::Time;
use mezza_messenger::Retention;

/// The position of the class bits.
const CLASS_SHIFT: u32 = 30;
/// The mask of the number bits.
const NUMBER_MASK: u32 = (1 << CLASS_SHIFT) - 1;
/// Class of records whose key rolls with the day.
const ROLLING: u32 = 1;
/// Class of records whose key ends with an expiry hour.
const HOUR: u32 = 2;
/// Class of records whose key ends with an expiry day.
const DAY: u32 = 3;

/// A bucket as stored in files, ordered by its code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RetentionCode(pub u32);

impl RetentionCode {
    /// The bucket that never ends.
    pub const PERMANENT: Self = Self(0);

    /// Returns the bucket of live state on a day since 1970.
    pub fn rolling(day: u32) -> Self {
        Self::of(ROLLING, day)
    }

    /// Returns the code of `bucket` while live state is sealed under `today`.
    pub fn new(bucket: Retention, today: u32) -> Self {
        match bucket {
            Retention::Permanent => Self::PERMANENT,
            Retention::Rolling => Self::rolling(today),
            Retention::Hour(hour) => Self::of(HOUR, hour),
            Retention::Day(day) => Self::of(DAY, day),
        }
    }

    /// Returns the day of a rolling bucket.
    pub fn rolling_day(self) -> Option<u32> {
        (self.class() == ROLLING).then_some(self.number())
    }

    /// Returns true if the last moment of an expiry bucket has passed.
    pub fn is_over(self, now: Time) -> bool {
        match self.class() {
            HOUR => now.as_hours() > self.number(),
            DAY => now.as_days() > self.number(),
            _ => false,
        }
    }

    /// Returns true if [`RetentionCode::new`] can make this code.
    pub fn is_valid(self) -> bool {
        self.class() != 0 || self == Self::PERMANENT
    }

    fn of(class: u32, number: u32) -> Self {
        // Thirty bits of hours last until the year 124,000.
        Self(class << CLASS_SHIFT | number.min(NUMBER_MASK))
    }

    fn class(self) -> u32 {
        self.0 >> CLASS_SHIFT
    }

    fn number(self) -> u32 {
        self.0 & NUMBER_MASK
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_and_ends() {
        assert_eq!(RetentionCode::new(Retention::Permanent, 9).0, 0);
        assert_eq!(RetentionCode::new(Retention::Rolling, 9).0, 0x4000_0009);
        assert_eq!(RetentionCode::new(Retention::Hour(5), 9).0, 0x8000_0005);
        assert_eq!(RetentionCode::new(Retention::Day(5), 9).0, 0xc000_0005);
        assert!(!RetentionCode(7).is_valid());
        let hour = RetentionCode::new(Retention::Hour(5), 9);
        let end = Time::from_ms(6 * Time::HOUR_MS);
        assert!(!hour.is_over(end.minus_ms(1)) && hour.is_over(end));
        let day = RetentionCode::new(Retention::Day(5), 9);
        let end = Time::from_ms(6 * Time::DAY_MS);
        assert!(!day.is_over(end.minus_ms(1)) && day.is_over(end));
        assert_eq!(RetentionCode::new(Retention::Hour(u32::MAX), 0).0, 0xbfff_ffff);
    }
}
