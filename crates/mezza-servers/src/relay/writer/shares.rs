//! The share of each site in the whole relay: a limit for the site, regardless of its number of
//! addresses.
//!
//! The store does not record the site of a mailbox or mail (RELAY-7), so the use of a site is
//! remembered in memory, as long as its mail may be stored.

use std::collections::HashMap;

use mezza_core::Time;

use crate::relay::limits::Limits;
use mezza_host::process::rate::{RateLimit, TokenBucket};

/// Maximum number of sites with their own account; above it, all new sites share one.
const SITES_MAX: usize = 1 << 20;
/// The account shared by new sites above the limit. No client has this address.
const SHARED: [u8; 8] = [0xff; 8];
/// Minimum number of mailboxes that a site may open at once: a family shares one address.
const MAILBOXES_MIN: u64 = 1_024;
/// Minimum number of bytes that a site may put at once, even into a small store.
const MAIL_BYTES_MIN: u64 = 16 << 20;
/// The unit in which bytes of mail are counted: the smallest envelope.
const MAIL_UNIT: u64 = 512;

/// The shares of all sites.
#[derive(Default)]
pub(super) struct Shares {
    mailboxes: HashMap<[u8; 8], TokenBucket>,
    mail: HashMap<[u8; 8], TokenBucket>,
}

/// Returns the rate that allows `half` at once and as much again within `days`, the lifetime of the
/// counted objects.
fn share_rate(half: u64, days: u64) -> RateLimit {
    let burst = u32::try_from(half).unwrap_or(u32::MAX).max(1);
    RateLimit { burst, period_ms: (days * Time::DAY_MS / u64::from(burst)).max(1) }
}

/// Returns the account of a site; at most `most` sites have their own.
fn find_bucket(
    sites: &mut HashMap<[u8; 8], TokenBucket>,
    mut site: [u8; 8],
    most: usize,
) -> &mut TokenBucket {
    if sites.len() >= most && !sites.contains_key(&site) {
        site = SHARED;
    }
    sites.entry(site).or_default()
}

impl Shares {
    /// Counts a new mailbox. Returns the seconds to wait if the share is used up.
    pub(super) fn count_mailbox(
        &mut self,
        site: [u8; 8],
        limits: &Limits,
        now: Time,
    ) -> Result<(), u16> {
        let half = (limits.boxes_max / limits.site_share / 2).max(MAILBOXES_MIN);
        let rate = share_rate(half, limits.idle_box_days.into());
        find_bucket(&mut self.mailboxes, site, SITES_MAX).take(rate, now)
    }

    /// Counts a mail. While the store is `tight`, a site beyond its share is refused with the
    /// seconds to wait; else free room is open to every site.
    pub(super) fn count_mail(
        &mut self,
        site: [u8; 8],
        bytes: u64,
        tight: bool,
        limits: &Limits,
        now: Time,
    ) -> Result<(), u16> {
        let half = (limits.store_bytes_max / limits.site_share / 2).max(MAIL_BYTES_MIN);
        let rate = share_rate(half / MAIL_UNIT, u64::from(limits.ttl_h_max).div_ceil(24));
        let bucket = find_bucket(&mut self.mail, site, SITES_MAX);
        let units = bytes.div_ceil(MAIL_UNIT);
        match bucket.wait_ms(rate, units, now) {
            wait_ms @ 1.. if tight => Err(to_seconds(wait_ms)),
            _ => {
                bucket.spend(rate, units, now);
                Ok(())
            }
        }
    }

    /// Drops accounts that are back at zero.
    pub(super) fn drop_idle(&mut self, now: Time) {
        self.mailboxes.retain(|_, bucket| !bucket.is_idle(now));
        self.mail.retain(|_, bucket| !bucket.is_idle(now));
    }
}

fn to_seconds(ms: u64) -> u16 {
    u16::try_from(ms.div_ceil(1_000)).unwrap_or(u16::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SITE: [u8; 8] = [7; 8];
    const OTHER: [u8; 8] = [8; 8];

    fn at(days: u64) -> Time {
        Time::from_ms((1_000 + days) * Time::DAY_MS)
    }

    #[test]
    fn msg_75_no_site_has_more_than_a_sixteenth_of_all_mailboxes() {
        let limits = Limits::default();
        let mut shares = Shares::default();
        let sixteenth = limits.boxes_max / 16;
        // A site that opens as many mailboxes as allowed on each day: those of 90 days ago may be
        // gone.
        let mut made = 0;
        for day in 0..u64::from(limits.idle_box_days) {
            while made < 2 * limits.boxes_max
                && shares.count_mailbox(SITE, &limits, at(day)).is_ok()
            {
                made += 1;
            }
            assert!(made >= sixteenth / 2 && made <= sixteenth, "day {day}: {made}");
        }
        assert!(shares.count_mailbox(SITE, &limits, at(89)).is_err());
        assert!(shares.count_mailbox(OTHER, &limits, at(89)).is_ok());
        shares.drop_idle(at(89));
        assert_eq!(shares.mailboxes.len(), 2);
        shares.drop_idle(at(200));
        assert!(shares.mailboxes.is_empty());
    }

    #[test]
    fn msg_75_once_half_of_the_store_is_taken_a_site_puts_its_part_of_bytes() {
        let limits = Limits { store_bytes_max: 1 << 30, ..Limits::default() };
        let mut shares = Shares::default();
        let now = at(0);
        let half = 32 << 20;
        // A sixteenth is 64 MiB. Free space is open to all sites, and is counted.
        for _ in 0..3 {
            assert_eq!(shares.count_mail(SITE, half, false, &limits, now), Ok(()));
        }
        assert!(shares.count_mail(SITE, 512, true, &limits, now).is_err());
        assert_eq!(shares.count_mail(OTHER, half - 512, true, &limits, now), Ok(()));
        assert_eq!(shares.count_mail(OTHER, 512, true, &limits, now), Ok(()));
        assert!(shares.count_mail(OTHER, 512, true, &limits, now).is_err());
        assert_eq!(shares.count_mail(SITE, 512, true, &limits, at(60)), Ok(()));
    }

    #[test]
    fn half_of_a_part_is_had_at_once_and_the_other_within_the_days() {
        assert_eq!(share_rate(1_000, 2), RateLimit { burst: 1_000, period_ms: 2 * 86_400 });
        assert_eq!(share_rate(0, 1), RateLimit { burst: 1, period_ms: Time::DAY_MS });
        assert_eq!(share_rate(1 << 40, 0), RateLimit { burst: u32::MAX, period_ms: 1 });
        assert_eq!([1, 1_000, 1_001, u64::MAX].map(to_seconds), [1, 1, 2, u16::MAX]);
    }

    #[test]
    fn a_site_opens_its_half_and_waits_for_the_next_mailbox() {
        // A share of 4,096 mailboxes, the second half of them within four days.
        let half = 2_048;
        let limits = Limits {
            boxes_max: 2 * half * 5,
            site_share: 5,
            idle_box_days: 4,
            ..Limits::default()
        };
        let mut shares = Shares::default();
        let now = at(0);
        assert!((0..half).all(|_| shares.count_mailbox(SITE, &limits, now).is_ok()));
        assert_eq!(shares.count_mailbox(SITE, &limits, now), Err(169), "four days by 2,048");
        // Even on a very small relay a family can open enough mailboxes.
        let limits = Limits { boxes_max: 1, ..limits };
        let opened =
            (0..2 * half).take_while(|_| shares.count_mailbox(OTHER, &limits, now).is_ok());
        assert_eq!(opened.count() as u64, MAILBOXES_MIN);
    }

    #[test]
    fn a_site_waits_for_each_unit_of_mail_beyond_its_part() {
        // Half a share is 32 MiB or 65,536 units; the other half comes within two days.
        let store_bytes_max = 5 << 26;
        let ttl_h_max = 25;
        let limits = Limits { store_bytes_max, ttl_h_max, site_share: 5, ..Limits::default() };
        let mut shares = Shares::default();
        let now = at(0);
        assert_eq!(shares.count_mail(SITE, (32 << 20) - 1, true, &limits, now), Ok(()));
        assert_eq!(shares.count_mail(SITE, 1, true, &limits, now), Err(3), "2,636 ms by unit");
        assert_eq!(shares.count_mail(SITE, 513, true, &limits, now), Err(6), "two units");
        let soon = now.plus_ms(2 * Time::DAY_MS / 65_536);
        assert_eq!(shares.count_mail(SITE, 512, true, &limits, soon), Ok(()));
        assert!(shares.count_mail(SITE, 512, true, &limits, soon).is_err());
        // Even in a very small store a site can put some mail.
        let limits = Limits { store_bytes_max: 1, ..limits };
        assert_eq!(shares.count_mail(OTHER, MAIL_BYTES_MIN, true, &limits, now), Ok(()));
        assert!(shares.count_mail(OTHER, 1, true, &limits, now).is_err());
        shares.drop_idle(now);
        assert_eq!(shares.mail.len(), 2);
        shares.drop_idle(at(9));
        assert!(shares.mail.is_empty());
    }

    #[test]
    fn beyond_so_many_sites_newcomers_share_one_account() {
        let mut sites = HashMap::new();
        for site in [[1; 8], [2; 8], [3; 8], [4; 8], [2; 8]] {
            find_bucket(&mut sites, site, 2);
        }
        let mut known: Vec<_> = sites.into_keys().collect();
        known.sort_unstable();
        assert_eq!(known, [[1; 8], [2; 8], SHARED]);
    }
}
