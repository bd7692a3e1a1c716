//! What one network address used today, in memory only.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mezza_core::Time;

use super::limits::Limits;

/// Addresses remembered at once; beyond, all newcomers share one account.
const ACCOUNTS_MAX: usize = 1 << 20;

/// What counts as one client: an IPv4 address, or the /64 of an IPv6 address.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Prefix([u8; 8]);

impl Prefix {
    fn of(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(v4) => {
                let [a, b, c, d] = v4.octets();
                // Inside 0::/8, where no IPv6 client lives.
                Self([0, 0, 0, 1, a, b, c, d])
            }
            IpAddr::V6(v6) => Self::of_v6(v6),
        }
    }

    fn of_v6(v6: Ipv6Addr) -> Self {
        let [a, b, c, d, e, f, g, h, ..] = v6.octets();
        Self([a, b, c, d, e, f, g, h])
    }
}

#[derive(Default)]
struct Account {
    connections: u32,
    day: u32,
    opens: u32,
    put_bytes: u64,
}

impl Account {
    /// Starts anew at midnight UTC.
    fn turn(&mut self, day: u32) {
        if self.day != day {
            *self = Self { connections: self.connections, day, ..Self::default() };
        }
    }
}

#[derive(Default)]
struct Accounts {
    by_prefix: HashMap<Prefix, Account>,
    tidied_day: u32,
    connections: usize,
}

/// The accounts of all addresses.
#[derive(Clone, Default)]
pub(crate) struct Usage(Arc<Mutex<Accounts>>);

impl Usage {
    /// Counts one more connection from `address`. The ticket says whether it is within the limits,
    /// and takes the count back when it is dropped.
    pub(crate) fn connect(&self, address: IpAddr, limits: &Limits, now: Time) -> Ticket {
        let mut accounts = self.lock();
        accounts.tidy(now.days());
        let mut prefix = Prefix::of(address);
        if accounts.by_prefix.len() >= ACCOUNTS_MAX && !accounts.by_prefix.contains_key(&prefix) {
            prefix = Prefix([0xff; 8]);
        }
        accounts.connections += 1;
        let all = accounts.connections;
        let account = accounts.by_prefix.entry(prefix).or_default();
        account.connections += 1;
        let allowed =
            account.connections <= limits.address_connections_max && all <= limits.connections_max;
        Ticket { usage: self.clone(), prefix, allowed }
    }

    /// Connections counted now.
    pub(crate) fn connections(&self) -> usize {
        self.lock().connections
    }

    fn lock(&self) -> MutexGuard<'_, Accounts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Accounts {
    /// Forgets at midnight who is not connected.
    fn tidy(&mut self, day: u32) {
        if self.tidied_day != day {
            self.tidied_day = day;
            self.by_prefix.retain(|_, account| account.connections > 0 || account.day == day);
        }
    }
}

/// One connection's part of its address's account.
pub(crate) struct Ticket {
    usage: Usage,
    prefix: Prefix,
    /// Whether the connection is within the limits.
    pub(crate) allowed: bool,
}

impl Ticket {
    /// Counts an OPEN, or says how many seconds are left of the day.
    pub(crate) fn open(&self, limits: &Limits, now: Time) -> Result<(), u16> {
        self.charge(now, |account| {
            let fits = account.opens < limits.address_opens_per_day;
            account.opens += u32::from(fits);
            fits
        })
    }

    /// Counts the bytes of a PUT, or says how many seconds are left of the day.
    pub(crate) fn put(&self, bytes: usize, limits: &Limits, now: Time) -> Result<(), u16> {
        self.charge(now, |account| {
            let after = account.put_bytes.saturating_add(bytes as u64);
            let fits = after <= limits.address_put_bytes_per_day;
            account.put_bytes = if fits { after } else { account.put_bytes };
            fits
        })
    }

    fn charge(&self, now: Time, count: impl FnOnce(&mut Account) -> bool) -> Result<(), u16> {
        let mut accounts = self.usage.lock();
        let account = accounts.by_prefix.entry(self.prefix).or_default();
        account.turn(now.days());
        if count(account) {
            return Ok(());
        }
        let left_ms = Time::DAY_MS - now.ms() % Time::DAY_MS;
        Err(u16::try_from(left_ms.div_ceil(1_000)).unwrap_or(u16::MAX))
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let mut accounts = self.usage.lock();
        accounts.connections = accounts.connections.saturating_sub(1);
        if let Some(account) = accounts.by_prefix.get_mut(&self.prefix) {
            account.connections = account.connections.saturating_sub(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mapped_address_is_its_ipv4_address_and_a_v6_client_its_64() {
        let prefix = |text: &str| Prefix::of(text.parse().unwrap()).0;
        assert_eq!(prefix("::ffff:192.0.2.7"), prefix("192.0.2.7"));
        assert_ne!(prefix("192.0.2.8"), prefix("192.0.2.7"));
        assert_eq!(prefix("2001:db8::1"), prefix("2001:db8::ffff:ffff"));
        assert_ne!(prefix("2001:db8::1"), prefix("2001:db8:0:1::1"));
    }

    #[test]
    fn a_day_ends_at_midnight_and_connections_are_given_back() {
        let limits = Limits {
            address_connections_max: 1,
            address_opens_per_day: 1,
            address_put_bytes_per_day: 1_024,
            ..Limits::default()
        };
        let (usage, address) = (Usage::default(), "192.0.2.7".parse().unwrap());
        let evening = Time::from_ms(Time::DAY_MS - 5_000);
        let first = usage.connect(address, &limits, evening);
        assert!(first.allowed);
        assert!(!usage.connect(address, &limits, evening).allowed);
        assert_eq!(first.open(&limits, evening), Ok(()));
        assert_eq!(first.open(&limits, evening), Err(5));
        assert_eq!(first.put(1_024, &limits, evening), Ok(()));
        assert_eq!(first.put(512, &limits, evening), Err(5));
        assert_eq!(first.open(&limits, Time::from_ms(Time::DAY_MS)), Ok(()));
        drop(first);
        assert!(usage.connect(address, &limits, evening).allowed);
        assert_eq!(usage.connections(), 0);
    }
}
