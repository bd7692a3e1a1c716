//! Time as a value: the owner of a clock passes it in.

/// Milliseconds since 1970-01-01 00:00 UTC, by the caller's clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(u64);

impl Time {
    /// One second in milliseconds.
    pub const SECOND_MS: u64 = 1_000;
    /// One minute in milliseconds.
    pub const MINUTE_MS: u64 = 60 * Self::SECOND_MS;
    /// One hour in milliseconds.
    pub const HOUR_MS: u64 = 60 * Self::MINUTE_MS;
    /// One day in milliseconds.
    pub const DAY_MS: u64 = 24 * Self::HOUR_MS;

    /// The instant `ms` milliseconds after 1970.
    pub const fn from_ms(ms: u64) -> Self {
        Self(ms)
    }

    /// Milliseconds since 1970.
    pub const fn as_ms(self) -> u64 {
        self.0
    }

    /// Returns whole minutes since 1970, truncated to 32 bits (good until the year 10135).
    pub const fn as_minutes(self) -> u32 {
        (self.0 / Self::MINUTE_MS) as u32
    }

    /// Returns whole hours since 1970, truncated to 32 bits.
    pub const fn as_hours(self) -> u32 {
        (self.0 / Self::HOUR_MS) as u32
    }

    /// Returns whole days since 1970, truncated to 32 bits.
    pub const fn as_days(self) -> u32 {
        (self.0 / Self::DAY_MS) as u32
    }

    /// Adds `ms` milliseconds; an overflow gives the largest `Time`.
    #[must_use]
    pub const fn plus_ms(self, ms: u64) -> Self {
        Self(self.0.saturating_add(ms))
    }

    /// Subtracts `ms` milliseconds; an underflow gives 1970.
    #[must_use]
    pub const fn minus_ms(self, ms: u64) -> Self {
        Self(self.0.saturating_sub(ms))
    }

    /// Returns the milliseconds from `earlier` to this instant, or 0 if `earlier` is later.
    pub const fn since_ms(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_and_edges() {
        let t = Time::from_ms(3 * Time::DAY_MS + 5 * Time::HOUR_MS + 7 * Time::MINUTE_MS);
        assert_eq!((t.as_days(), t.as_hours(), t.as_minutes()), (3, 77, 77 * 60 + 7));
        assert_eq!(Time::from_ms(5).minus_ms(9), Time::from_ms(0));
        assert_eq!(Time::from_ms(u64::MAX).plus_ms(1), Time::from_ms(u64::MAX));
        assert_eq!(Time::from_ms(5).since_ms(Time::from_ms(9)), 0);
    }
}
