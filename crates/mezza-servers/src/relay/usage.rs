//! The use of an address and of the site around it within a day of boot time, in memory only.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mezza_core::Time;

use super::limits::Limits;
use mezza_host::process::limiter::ClientSource;

/// Maximum number of addresses, and of sites, with their own account. Above it, new addresses are
/// counted with their sites only, and new sites share one account.
const ACCOUNTS_MAX: usize = 1 << 20;
/// The account shared by sites above the limit. No client has this address.
const SHARED: [u8; 8] = [0xff; 8];

/// The use since the start of the day.
#[derive(Clone, Copy, Default)]
struct Used {
    opens: u32,
    put_bytes: u64,
}

/// The use of all addresses, or of all sites.
type Places = HashMap<[u8; 8], Used>;

struct Accounts {
    day: u32,
    by_address: Places,
    by_site: Places,
    /// Maximum number of addresses, and of sites.
    most: usize,
}

/// The accounts of all addresses.
#[derive(Clone)]
pub(crate) struct Usage(Arc<Mutex<Accounts>>);

/// The account of one connection's address and site.
pub(crate) struct Account {
    usage: Usage,
    source: ClientSource,
}

impl Default for Usage {
    fn default() -> Self {
        Self::with_most(ACCOUNTS_MAX)
    }
}

impl Usage {
    fn with_most(most: usize) -> Self {
        let (by_address, by_site) = Default::default();
        Self(Arc::new(Mutex::new(Accounts { day: 0, by_address, by_site, most })))
    }

    /// Returns the account of a client's address and site.
    pub(crate) fn account(&self, source: ClientSource) -> Account {
        Account { usage: self.clone(), source }
    }

    fn lock_accounts(&self) -> MutexGuard<'_, Accounts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Accounts {
    /// Resets all accounts with each day since the start of the system.
    fn turn_day(&mut self, day: u32) {
        if self.day != day {
            self.day = day;
            (self.by_address, self.by_site) = Default::default();
        }
    }

    /// Counts with an address and its site, or with neither. The site is checked first, so that a
    /// refused client creates no account for its address.
    fn charge(
        &mut self,
        source: &ClientSource,
        count: impl Fn(&Used, u32) -> Option<Used>,
        addresses_per_site: u32,
    ) -> Option<()> {
        let knows = |places: &Places, place| places.len() < self.most || places.contains_key(place);
        let address = source.address();
        let site = source.site();
        let site = if knows(&self.by_site, &site) { site } else { SHARED };
        let of_site = count(&find_used(&self.by_site, site), addresses_per_site)?;
        if knows(&self.by_address, &address) {
            let of_address = count(&find_used(&self.by_address, address), 1)?;
            self.by_address.insert(address, of_address);
        }
        self.by_site.insert(site, of_site);
        Some(())
    }
}

/// Returns the use of one address or site.
fn find_used(places: &Places, place: [u8; 8]) -> Used {
    places.get(&place).copied().unwrap_or_default()
}

impl Account {
    /// Returns the site as a key.
    pub(crate) fn site(&self) -> [u8; 8] {
        self.source.site()
    }

    /// Counts an OPEN. Returns the seconds left of the day if the limit is reached.
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

    /// Counts the bytes of a PUT. Returns the seconds left of the day if the limit is reached.
    pub(crate) fn count_put(&self, bytes: usize, limits: &Limits, now: Time) -> Result<(), u16> {
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

    /// Counts by `count`, which also gets the number of addresses that an account covers. Returns
    /// the seconds left of the day if the limit is reached.
    fn charge(
        &self,
        now: Time,
        count: impl Fn(&Used, u32) -> Option<Used>,
        limits: &Limits,
    ) -> Result<(), u16> {
        let mut accounts = self.usage.lock_accounts();
        accounts.turn_day(now.as_days());
        accounts.charge(&self.source, count, limits.addresses_per_site).ok_or_else(|| {
            let left_ms = Time::DAY_MS - now.as_ms() % Time::DAY_MS;
            u16::try_from(left_ms.div_ceil(1_000)).unwrap_or(u16::MAX)
        })
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
        usage.account(ClientSource::from_address(address.parse().unwrap()))
    }

    #[test]
    fn an_account_names_the_site_of_its_address() {
        let usage = Usage::default();
        for address in ["192.0.2.7", "2001:db8:7::1"] {
            let site = ClientSource::from_address(address.parse().unwrap()).site();
            assert_eq!(account(&usage, address).site(), site);
        }
    }

    #[test]
    fn a_day_ends_for_all_connections_of_an_address_at_once() {
        let usage = Usage::default();
        let limits = limits();
        let one = account(&usage, "192.0.2.7");
        let two = account(&usage, "::ffff:192.0.2.7");
        let evening = Time::from_ms(Time::DAY_MS - 5_000);
        assert_eq!(one.open(&limits, evening), Ok(()));
        assert_eq!(two.open(&limits, evening), Ok(()));
        assert_eq!(one.open(&limits, evening), Err(5));
        assert_eq!(two.count_put(1_024, &limits, evening), Ok(()));
        assert_eq!(one.count_put(512, &limits, evening), Err(5));
        assert_eq!(one.open(&limits, Time::from_ms(Time::DAY_MS)), Ok(()));
        assert_eq!(one.count_put(512, &limits, Time::from_ms(Time::DAY_MS)), Ok(()));
    }

    #[test]
    fn msg_74_a_site_uses_as_much_as_so_many_addresses() {
        let usage = Usage::default();
        let limits = limits();
        let now = Time::from_ms(0);
        for address in ["2001:db8:7::1", "2001:db8:7:1::1"] {
            let account = account(&usage, address);
            assert_eq!([(); 2].map(|()| account.open(&limits, now)), [Ok(()), Ok(())]);
            assert_eq!(account.count_put(1_024, &limits, now), Ok(()));
        }
        let third = account(&usage, "2001:db8:7:2::1");
        assert!(third.open(&limits, now).is_err() && third.count_put(512, &limits, now).is_err());
        let other = account(&usage, "2001:db8:8::1");
        assert!(other.open(&limits, now).is_ok() && other.count_put(512, &limits, now).is_ok());
        // A request refused at the site is not counted at the address and creates no account for
        // it.
        let known = |nr: u16| {
            let address =
                ClientSource::from_address([0x2001, 0xdb8, 7, nr, 0, 0, 0, 1].into()).address();
            usage.lock_accounts().by_address.contains_key(&address)
        };
        assert!(known(0) && known(1) && !known(2));
    }

    #[test]
    fn msg_74_addresses_for_which_there_is_no_account_count_with_their_site() {
        let usage = Usage::with_most(2);
        let limits = limits();
        let now = Time::from_ms(0);
        for address in ["2001:db8:7::1", "192.0.2.1"] {
            assert_eq!(account(&usage, address).open(&limits, now), Ok(()));
        }
        // The site may use as much as four addresses; one of them is used up.
        let opens = (1..=9).filter(|nr| {
            account(&usage, &format!("2001:db8:7:{nr}::1")).open(&limits, now).is_ok()
        });
        assert_eq!(opens.count(), 3);
        // Sites without their own account share one; other sites are not affected.
        let opens = (1..=9)
            .filter(|nr| account(&usage, &format!("198.51.{nr}.1")).open(&limits, now).is_ok());
        assert_eq!(opens.count(), 4);
        assert_eq!(account(&usage, "192.0.2.1").open(&limits, now), Ok(()));
        let accounts = usage.lock_accounts();
        assert_eq!((accounts.by_address.len(), accounts.by_site.len()), (2, 3));
    }
}
