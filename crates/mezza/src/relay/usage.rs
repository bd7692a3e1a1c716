//! What an address and the site around it used today, in memory only.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mezza_core::Time;

use super::limits::Limits;
use crate::doors::Source;

/// Addresses, and sites, remembered at once; beyond, all newcomers share one account.
const ACCOUNTS_MAX: usize = 1 << 20;
/// The account that newcomers share then. No client has this address.
const SHARED: [u8; 8] = [0xff; 8];

/// What was used since midnight UTC.
#[derive(Clone, Copy, Default)]
struct Used {
    opens: u32,
    put_bytes: u64,
}

#[derive(Default)]
struct Accounts {
    day: u32,
    by_address: HashMap<[u8; 8], Used>,
    by_site: HashMap<[u8; 8], Used>,
}

/// The accounts of all addresses.
#[derive(Clone, Default)]
pub(crate) struct Usage(Arc<Mutex<Accounts>>);

/// The account of one connection's address and site.
pub(crate) struct Account {
    usage: Usage,
    source: Source,
}

impl Usage {
    /// The account of a source.
    pub(crate) fn account(&self, source: Source) -> Account {
        Account { usage: self.clone(), source }
    }

    fn lock(&self) -> MutexGuard<'_, Accounts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Accounts {
    /// Begins anew at midnight.
    fn turn(&mut self, day: u32) {
        if self.day != day {
            *self = Self { day, ..Self::default() };
        }
    }
}

/// What was used from one place.
fn of(accounts: &mut HashMap<[u8; 8], Used>, mut place: [u8; 8]) -> &mut Used {
    if accounts.len() >= ACCOUNTS_MAX && !accounts.contains_key(&place) {
        place = SHARED;
    }
    accounts.entry(place).or_default()
}

impl Account {
    /// The site, as a key.
    pub(crate) fn site(&self) -> [u8; 8] {
        self.source.site()
    }

    /// Counts an OPEN, or says how many seconds are left of the day.
    pub(crate) fn open(&self, limits: &Limits, now: Time) -> Result<(), u16> {
        self.charge(
            now,
            |used, addresses| {
                let opens = used.opens.saturating_add(1);
                let fits = opens <= limits.address_opens_per_day.saturating_mul(addresses);
                fits.then_some(Used { opens, ..*used })
            },
            limits,
        )
    }

    /// Counts the bytes of a PUT, or says how many seconds are left of the day.
    pub(crate) fn put(&self, bytes: usize, limits: &Limits, now: Time) -> Result<(), u16> {
        self.charge(
            now,
            |used, addresses| {
                let put_bytes = used.put_bytes.saturating_add(bytes as u64);
                let most = limits.address_put_bytes_per_day.saturating_mul(u64::from(addresses));
                (put_bytes <= most).then_some(Used { put_bytes, ..*used })
            },
            limits,
        )
    }

    /// Counts with the address and its site, or with neither. `count` is told for how many addresses
    /// the account is.
    fn charge(
        &self,
        now: Time,
        count: impl Fn(&Used, u32) -> Option<Used>,
        limits: &Limits,
    ) -> Result<(), u16> {
        let mut accounts = self.usage.lock();
        let accounts = &mut *accounts;
        accounts.turn(now.days());
        let address = of(&mut accounts.by_address, self.source.address());
        let site = of(&mut accounts.by_site, self.source.site());
        if let Some(both) = count(address, 1).zip(count(site, limits.addresses_per_site)) {
            (*address, *site) = both;
            return Ok(());
        }
        let left_ms = Time::DAY_MS - now.ms() % Time::DAY_MS;
        Err(u16::try_from(left_ms.div_ceil(1_000)).unwrap_or(u16::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits() -> Limits {
        Limits {
            address_opens_per_day: 2,
            address_put_bytes_per_day: 1_024,
            addresses_per_site: 2,
            ..Limits::default()
        }
    }

    fn account(usage: &Usage, address: &str) -> Account {
        usage.account(Source::of(address.parse().unwrap()))
    }

    #[test]
    fn a_day_ends_at_midnight_for_all_connections_of_an_address() {
        let (usage, limits) = (Usage::default(), limits());
        let (one, two) = (account(&usage, "192.0.2.7"), account(&usage, "::ffff:192.0.2.7"));
        let evening = Time::from_ms(Time::DAY_MS - 5_000);
        assert_eq!(one.open(&limits, evening), Ok(()));
        assert_eq!(two.open(&limits, evening), Ok(()));
        assert_eq!(one.open(&limits, evening), Err(5));
        assert_eq!(two.put(1_024, &limits, evening), Ok(()));
        assert_eq!(one.put(512, &limits, evening), Err(5));
        assert_eq!(one.open(&limits, Time::from_ms(Time::DAY_MS)), Ok(()));
        assert_eq!(one.put(512, &limits, Time::from_ms(Time::DAY_MS)), Ok(()));
    }

    #[test]
    fn msg_74_a_site_uses_as_much_as_so_many_addresses() {
        let (usage, limits, now) = (Usage::default(), limits(), Time::from_ms(0));
        for address in ["2001:db8:7::1", "2001:db8:7:1::1"] {
            let account = account(&usage, address);
            assert_eq!([(); 2].map(|()| account.open(&limits, now)), [Ok(()), Ok(())]);
            assert_eq!(account.put(1_024, &limits, now), Ok(()));
        }
        let third = account(&usage, "2001:db8:7:2::1");
        assert!(third.open(&limits, now).is_err() && third.put(512, &limits, now).is_err());
        let other = account(&usage, "2001:db8:8::1");
        assert!(other.open(&limits, now).is_ok() && other.put(512, &limits, now).is_ok());
        // What was refused at the site was not counted at the address.
        let mut accounts = usage.lock();
        assert_eq!(of(&mut accounts.by_address, third.source.address()).opens, 0);
    }
}
