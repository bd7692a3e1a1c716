//! What one client, one box and the whole relay may use. Load tests raise them.

use mezza_core::Time;
use mezza_messenger::relay_wire::ENVELOPE_BYTES_MAX;

/// Every limit of a relay, with the values of the protocol as default.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Mails in one conversation box.
    pub box_mails_max: u32,
    /// Mails in one intro box: strangers fill no disk.
    pub intro_mails_max: u32,
    /// Bytes of mail in one box.
    pub box_bytes_max: u64,
    /// Boxes watched on one connection.
    pub boxes_per_connection_max: usize,
    /// Longest that mail is kept, hours.
    pub ttl_h_max: u16,
    /// Days without WATCH after which an empty box goes.
    pub idle_box_days: u32,
    /// PUT per connection.
    pub puts: Rate,
    /// PUT into one intro box, whoever puts.
    pub intro_puts: Rate,
    /// `BUNDLE_GET` per connection.
    pub bundle_gets: Rate,
    /// One-time keys given out of one intro box; faster calls get the bundle alone.
    pub one_time_keys: Rate,
    /// Rows of one-time keys per box, those given out included.
    pub one_time_rows_max: u32,
    /// Bytes of one bundle.
    pub bundle_bytes_max: usize,
    /// MAIL not yet TAKEN per box.
    pub in_flight_max: usize,
    /// Requests of one connection that wait for their answer; then it is not read from.
    pub pending_max: usize,
    /// Bytes of mail and bundles in the whole store.
    pub store_bytes_max: u64,
    /// Boxes in the whole store.
    pub boxes_max: u64,
    /// Connections per IPv4 address or IPv6 /64.
    pub address_connections_max: u32,
    /// OPEN per address and day.
    pub address_opens_per_day: u32,
    /// Bytes of PUT per address and day.
    pub address_put_bytes_per_day: u64,
    /// Connections in all.
    pub connections_max: usize,
    /// Time for TLS to be set up, ms.
    pub handshake_ms: u64,
    /// Silence after which a connection ends, ms. Clients ping every 55 s.
    pub idle_ms: u64,
    /// Time for a client to read what was written, ms.
    pub write_ms: u64,
    /// Period of expiry and tidying, ms.
    pub maintenance_ms: u64,
    /// Jobs in one transaction.
    pub batch_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            box_mails_max: 1_000,
            intro_mails_max: 64,
            box_bytes_max: 16 << 20,
            boxes_per_connection_max: 2_000,
            ttl_h_max: 30 * 24,
            idle_box_days: 90,
            puts: Rate { burst: 100, period_ms: 50 },
            intro_puts: Rate { burst: 10, period_ms: 1_000 },
            bundle_gets: Rate { burst: 5, period_ms: 200 },
            one_time_keys: Rate { burst: 20, period_ms: 60_000 },
            one_time_rows_max: 4_096,
            bundle_bytes_max: ENVELOPE_BYTES_MAX,
            in_flight_max: 64,
            pending_max: 256,
            store_bytes_max: 10 << 30,
            boxes_max: 1_000_000,
            address_connections_max: 256,
            address_opens_per_day: 4_000,
            address_put_bytes_per_day: 1 << 30,
            connections_max: 20_000,
            handshake_ms: 10_000,
            idle_ms: 180_000,
            write_ms: 30_000,
            maintenance_ms: 60_000,
            batch_max: 100,
        }
    }
}

impl Limits {
    /// Nothing but the disk limits what is put: for benchmarks and load tests.
    pub fn raised() -> Self {
        let free = Rate { burst: u32::MAX, period_ms: 0 };
        Self {
            box_mails_max: u32::MAX,
            box_bytes_max: u64::MAX,
            puts: free,
            bundle_gets: free,
            store_bytes_max: u64::MAX,
            address_connections_max: u32::MAX,
            address_opens_per_day: u32::MAX,
            address_put_bytes_per_day: u64::MAX,
            connections_max: 1 << 20,
            ..Self::default()
        }
    }
}

/// So many at once, then one in each period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// How many at once.
    pub burst: u32,
    /// Milliseconds until one more is allowed; 0 = no limit.
    pub period_ms: u64,
}

/// How much of a [`Rate`] is used up, as the time at which all of it is free again.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Bucket {
    free_at_ms: u64,
}

impl Bucket {
    /// Takes one, or says in how many seconds (rounded up) there will be one.
    pub(crate) fn take(&mut self, rate: Rate, now: Time) -> Result<(), u16> {
        let room_ms = rate.period_ms.saturating_mul(u64::from(rate.burst));
        // A clock that was set back must not keep the bucket empty for longer than it ever is.
        let from_ms = self.free_at_ms.clamp(now.ms(), now.ms().saturating_add(room_ms));
        let until_ms = from_ms.saturating_add(rate.period_ms);
        let wait_ms = until_ms.saturating_sub(now.ms()).saturating_sub(room_ms);
        if wait_ms > 0 {
            return Err(u16::try_from(wait_ms.div_ceil(1_000)).unwrap_or(u16::MAX));
        }
        self.free_at_ms = until_ms;
        Ok(())
    }

    /// Whether forgetting this bucket changes nothing.
    pub(crate) fn is_idle(self, now: Time) -> bool {
        self.free_at_ms <= now.ms()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_then_one_each_period() {
        let rate = Rate { burst: 3, period_ms: 60_000 };
        let mut bucket = Bucket::default();
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
        let rate = Rate { burst: 2, period_ms: 1_000 };
        let mut bucket = Bucket::default();
        assert_eq!(bucket.take(rate, Time::from_ms(9_000_000)), Ok(()));
        assert_eq!(bucket.take(rate, Time::from_ms(5_000)), Err(1));
        assert_eq!(bucket.take(rate, Time::from_ms(6_000)), Err(1));
    }

    #[test]
    fn without_period_there_is_no_limit() {
        let (rate, mut bucket) = (Rate { burst: 1, period_ms: 0 }, Bucket::default());
        assert!((0..1_000).all(|_| bucket.take(rate, Time::from_ms(7)).is_ok()));
    }
}
