//! Limits of one client, of one mailbox and of the whole relay. Load tests raise them.

use mezza_messenger::relay_wire::ENVELOPE_BYTES_MAX;

use mezza_host::process::limiter::Bounds;
use mezza_host::process::rate::RateLimit;

/// Every limit of a relay, with the values of the protocol as default.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Mails in one conversation box.
    pub box_mails_max: u32,
    /// Mails in one intro box, so that unknown senders cannot fill the disk.
    pub intro_mails_max: u32,
    /// Bytes of mail in one box.
    pub box_bytes_max: u64,
    /// Boxes watched on one connection.
    pub boxes_per_connection_max: usize,
    /// Longest that mail is kept, hours.
    pub ttl_h_max: u16,
    /// Days without WATCH after which an empty box is removed.
    pub idle_box_days: u32,
    /// PUT per connection.
    pub puts: RateLimit,
    /// PUT into one intro mailbox, from all senders together.
    pub intro_puts: RateLimit,
    /// `BUNDLE_GET` per connection.
    pub bundle_gets: RateLimit,
    /// One-time keys issued from one intro box; above this rate a caller gets the bundle without a
    /// key.
    pub one_time_keys: RateLimit,
    /// Rows of one-time keys per box, issued ones included.
    pub one_time_rows_max: u32,
    /// Bytes of one bundle.
    pub bundle_bytes_max: usize,
    /// Mails sent and not yet TAKEN, per box.
    pub in_flight_max: usize,
    /// Requests of one connection without a response; at this number the relay stops reading from
    /// it.
    pub pending_max: usize,
    /// Work of one connection, in units of about one PUT; the relay stops reading when it is used
    /// up.
    pub work: RateLimit,
    /// Units of work of one connection in the writer's queue, and so in one commit.
    pub queued_work_max: u32,
    /// One-time keys in one `BUNDLE_SET`.
    pub set_keys_max: usize,
    /// Bytes of mail and bundles in the whole store.
    pub store_bytes_max: u64,
    /// Boxes in the whole store.
    pub boxes_max: u64,
    /// A site (IPv4 /24 or IPv6 /48) may use as much as this number of addresses.
    pub addresses_per_site: u32,
    /// A site may use at most 1/`site_share` of the whole relay.
    pub site_share: u64,
    /// Connections per IPv4 address or IPv6 /64.
    pub address_connections_max: u32,
    /// OPEN per address and day.
    pub address_opens_per_day: u32,
    /// Bytes of PUT per address and day.
    pub address_put_bytes_per_day: u64,
    /// Connections in all, limited further by the file descriptors of the system.
    pub connections_max: usize,
    /// Connections with an unfinished handshake.
    pub handshakes_max: usize,
    /// Time limit for the TLS handshake, ms.
    pub handshake_ms: u64,
    /// Silence after which a connection ends, ms. Clients ping every 55 s.
    pub idle_ms: u64,
    /// Time limit for a client to accept written bytes, ms.
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
            puts: RateLimit { burst: 100, period_ms: 50 },
            intro_puts: RateLimit { burst: 10, period_ms: 1_000 },
            bundle_gets: RateLimit { burst: 5, period_ms: 200 },
            one_time_keys: RateLimit { burst: 20, period_ms: 60_000 },
            one_time_rows_max: 4_096,
            bundle_bytes_max: ENVELOPE_BYTES_MAX,
            in_flight_max: 64,
            pending_max: 256,
            work: RateLimit { burst: 4_000, period_ms: 2 },
            queued_work_max: 32,
            set_keys_max: 128,
            store_bytes_max: 10 << 30,
            boxes_max: 1_000_000,
            addresses_per_site: 4,
            site_share: 16,
            address_connections_max: 256,
            address_opens_per_day: 4_000,
            address_put_bytes_per_day: 1 << 30,
            connections_max: 20_000,
            handshakes_max: 256,
            handshake_ms: 10_000,
            idle_ms: 180_000,
            write_ms: 30_000,
            maintenance_ms: 60_000,
            batch_max: 100,
        }
    }
}

impl Limits {
    /// Limits for benchmarks and load tests: only the disk limits the uploads.
    pub fn raised() -> Self {
        let free = RateLimit { burst: u32::MAX, period_ms: 0 };
        Self {
            box_mails_max: u32::MAX,
            box_bytes_max: u64::MAX,
            puts: free,
            bundle_gets: free,
            work: free,
            store_bytes_max: u64::MAX,
            address_connections_max: u32::MAX,
            address_opens_per_day: u32::MAX,
            address_put_bytes_per_day: u64::MAX,
            connections_max: 1 << 20,
            ..Self::default()
        }
    }

    /// Returns the limits for connections.
    pub(crate) fn connection_bounds(&self) -> Bounds {
        Bounds {
            connections: self.connections_max,
            handshakes: self.handshakes_max,
            per_address: self.address_connections_max,
            per_site: self.address_connections_max.saturating_mul(self.addresses_per_site),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn msg_70_a_site_has_four_times_the_connections_of_an_address() {
        let limiter = Limits::default().connection_bounds();
        assert_eq!((limiter.per_address, limiter.per_site), (256, 1_024));
        assert_eq!((limiter.connections, limiter.handshakes), (20_000, 256));
    }

    #[test]
    fn raised_limits_leave_a_load_test_alone() {
        let raised = Limits::raised();
        let usual = Limits::default();
        for rate in [raised.puts, raised.bundle_gets, raised.work] {
            assert_eq!(rate, RateLimit { burst: u32::MAX, period_ms: 0 });
        }
        assert!(raised.box_mails_max > usual.box_mails_max);
        assert!(raised.box_bytes_max > usual.box_bytes_max);
        assert!(raised.store_bytes_max > usual.store_bytes_max);
        assert!(raised.connections_max > usual.connections_max);
        assert!(raised.address_connections_max > usual.address_connections_max);
        assert!(raised.address_opens_per_day > usual.address_opens_per_day);
        assert!(raised.address_put_bytes_per_day > usual.address_put_bytes_per_day);
        assert_eq!(raised.handshakes_max, usual.handshakes_max);
    }
}
