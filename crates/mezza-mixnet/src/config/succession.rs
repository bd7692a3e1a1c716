//! Round numbers of a successor, which continue above those of its predecessor (MIX-76, MIX-86).

use alloc::vec::Vec;

use mezza_core::Time;

use super::Config;
use crate::service::Service;

/// Milliseconds that the servers of a network may take to get a successor that begins in the past.
const HANDING_OUT_MS: u64 = Time::DAY_MS;
/// Milliseconds for which a computed base round stays above the predecessor's rounds, because
/// guardians need days to sign.
const SIGNING_MS: u64 = 7 * Time::DAY_MS;

impl Config {
    /// Returns the services that `next` lacks or whose round numbers it would use again, as a tool
    /// can compute it at `now`.
    ///
    /// Rounds of this config run until `next` begins. If that time has passed, they run until all
    /// servers have `next`, which may take a day.
    pub fn counted_anew(&self, next: &Self, now: Time) -> Vec<Service> {
        let begins_later = next.valid_from > now;
        let at = if begins_later { next.valid_from } else { now.plus_ms(HANDING_OUT_MS) };
        self.counted_anew_at(next, at)
    }

    /// Returns the services that `next` lacks, or whose number at `at` is not above ours.
    pub(super) fn counted_anew_at(&self, next: &Self, at: Time) -> Vec<Service> {
        let goes_on = |service: Service, last: Option<u64>| {
            let Some((_, policy)) = next.find_policy(service) else { return false };
            // A number beyond 64 bits is above all others.
            let first = policy.round_at(at.max(policy.base_time)).unwrap_or(u64::MAX);
            last.is_none_or(|last| first > last)
        };
        let services = self.services.iter().filter(|old| !goes_on(old.service, old.round_at(at)));
        services.map(|old| old.service).collect()
    }

    /// Returns a base round for a successor that begins at `valid_from` and is made at `now`. It is
    /// above all rounds of this config in the seven days after the later of these times. Any number
    /// may be chosen, and skipped rounds count nowhere. Returns `None` if this config lacks the
    /// service, or if the number exceeds 64 bits.
    pub fn base_round_after(&self, service: Service, valid_from: Time, now: Time) -> Option<u64> {
        let (_, policy) = self.find_policy(service)?;
        let at = valid_from.max(now).plus_ms(SIGNING_MS).max(policy.base_time);
        policy.round_at(at)?.checked_add(1)
    }
}
