//! Rate limits as token buckets. They use boot time, which is never set.

use mezza_core::Time;

/// A burst at once, then one in each period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateLimit {
    /// The size of the burst.
    pub burst: u32,
    /// Milliseconds until one more is allowed; 0: no limit.
    pub period_ms: u64,
}

impl RateLimit {
    /// Returns the milliseconds in which an empty bucket becomes full.
    fn room_ms(self) -> u64 {
        self.period_ms.saturating_mul(u64::from(self.burst))
    }
}

/// The used part of a [`RateLimit`], stored as the time at which the bucket is full again.
#[derive(Clone, Copy, Debug, Default)]
pub struct TokenBucket {
    free_at_ms: u64,
}

impl TokenBucket {
    /// Takes one token, or returns the seconds (rounded up) until one is available.
    pub fn take(&mut self, rate: RateLimit, now: Time) -> Result<(), u16> {
        let wait_ms = self.wait_ms(rate, 1, now);
        if wait_ms > 0 {
            return Err(u16::try_from(wait_ms.div_ceil(1_000)).unwrap_or(u16::MAX));
        }
        self.spend(rate, 1, now);
        Ok(())
    }

    /// Returns the milliseconds until `units` are available, at most a full bucket.
    pub fn wait_ms(&mut self, rate: RateLimit, units: u64, now: Time) -> u64 {
        let units = units.min(rate.burst.into());
        // Stored even if nothing is taken: this corrects a clock that was set back, once.
        self.free_at_ms = self.busy_until_ms(rate, now);
        let until_ms = self.free_at_ms.saturating_add(rate.period_ms.saturating_mul(units));
        until_ms.saturating_sub(now.as_ms()).saturating_sub(rate.room_ms())
    }

    /// Takes `units`, or as many as are available.
    pub fn spend(&mut self, rate: RateLimit, units: u64, now: Time) {
        let more_ms = rate.period_ms.saturating_mul(units);
        self.free_at_ms = self.busy_until_ms(rate, now).saturating_add(more_ms);
    }

    /// Returns the time until which the bucket is used up. A clock that was set back must not keep
    /// the bucket empty for longer than its period.
    fn busy_until_ms(self, rate: RateLimit, now: Time) -> u64 {
        self.free_at_ms.clamp(now.as_ms(), now.as_ms().saturating_add(rate.room_ms()))
    }

    /// Returns true if dropping this bucket changes nothing.
    pub fn is_idle(self, now: Time) -> bool {
        self.free_at_ms <= now.as_ms()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_then_one_each_period() {
        let rate = RateLimit { burst: 3, period_ms: 60_000 };
        let mut bucket = TokenBucket::default();
        let at = |s: u64| Time::from_ms(1_000_000 + s * 1_000);
        for _ in 0..3 {
            assert_eq!(bucket.take(rate, at(0)), Ok(()));
        }
        assert_eq!(bucket.take(rate, at(0)), Err(60));
        assert_eq!(bucket.take(rate, at(59)), Err(1));
        assert_eq!(bucket.take(rate, at(60)), Ok(()));
        assert_eq!(bucket.take(rate, at(61)), Err(59));
        assert!(!bucket.is_idle(at(100)));
        assert!(bucket.is_idle(at(300)));
    }

    #[test]
    fn a_clock_set_back_waits_no_longer_than_a_full_bucket() {
        let rate = RateLimit { burst: 2, period_ms: 1_000 };
        let mut bucket = TokenBucket::default();
        assert_eq!(bucket.take(rate, Time::from_ms(9_000_000)), Ok(()));
        assert_eq!(bucket.take(rate, Time::from_ms(5_000)), Err(1));
        assert_eq!(bucket.take(rate, Time::from_ms(6_000)), Ok(()));
    }

    #[test]
    fn many_units_wait_for_each_other_and_an_empty_bucket_owes_nothing() {
        let rate = RateLimit { burst: 10, period_ms: 100 };
        let mut bucket = TokenBucket::default();
        let now = Time::from_ms(1_000_000);
        assert_eq!(bucket.wait_ms(rate, 10, now), 0);
        bucket.spend(rate, 8, now);
        assert_eq!((bucket.wait_ms(rate, 2, now), bucket.wait_ms(rate, 5, now)), (0, 300));
        assert_eq!(bucket.wait_ms(rate, 1_000, now), 800, "no more than a full bucket");
        bucket.spend(rate, 7, now);
        assert_eq!(bucket.wait_ms(rate, 1, now), 100, "never longer than for one more");
    }

    #[test]
    fn without_period_there_is_no_limit() {
        let rate = RateLimit { burst: 1, period_ms: 0 };
        let mut bucket = TokenBucket::default();
        assert!((0..1_000).all(|_| bucket.take(rate, Time::from_ms(7)).is_ok()));
    }
}
