//! Checks of a single config, apart from its signatures.

use alloc::collections::BTreeSet;

use super::{Config, Server};
use crate::limits::{MIXES_MAX, OPERATOR_BYTES_MAX, USERS_MAX};

/// Fewest bytes of an address `host:port`.
const ADDRESS_BYTES_MIN: usize = 3;

impl Config {
    /// Returns true if all values are inside their limits, all lists in order, and all keys
    /// distinct.
    pub(super) fn is_sound(&self) -> bool {
        self.times_are_sound()
            && self.keys_are_distinct()
            && (1..=MIXES_MAX).contains(&self.mixes.len())
            && (1..=USERS_MAX).contains(&self.users_max)
            && self.servers().all(|server| is_address(&server.address))
            && self.mixes.iter().all(|mix| mix.operator.len() <= OPERATOR_BYTES_MAX)
            && !self.services.is_empty()
            && self.services.is_sorted_by(|a, b| a.service < b.service)
            && self.services.iter().all(super::ServicePolicy::is_sound)
    }

    fn times_are_sound(&self) -> bool {
        let genesis = self.seq == 0;
        self.valid_from < self.valid_until
            && (self.prev == [0; 32]) == genesis
            // Genesis may begin at any time. Later configs count rounds from their own start.
            && (genesis || self.services.iter().all(|s| s.base_time == self.valid_from))
    }

    fn keys_are_distinct(&self) -> bool {
        let threshold = usize::from(self.threshold);
        let keys = self.guardians.iter().chain(self.servers().map(|server| &server.key));
        let all = self.guardians.len() + self.servers().count();
        // A threshold of 0 would accept any successor, and one above the number of guardians none.
        (1..=self.guardians.len()).contains(&threshold)
            && self.guardians.is_sorted()
            && keys.collect::<BTreeSet<_>>().len() == all
    }

    fn servers(&self) -> impl Iterator<Item = &Server> {
        [&self.coordinator, &self.bucket]
            .into_iter()
            .chain(self.mixes.iter().map(|mix| &mix.server))
    }
}

/// Returns true if `address` is `host:port` in printable ASCII without blanks.
fn is_address(address: &str) -> bool {
    let port = address.rsplit_once(':').filter(|(host, _)| !host.is_empty());
    address.len() >= ADDRESS_BYTES_MIN
        && address.bytes().all(|b| b.is_ascii_graphic())
        && port.is_some_and(|(_, port)| {
            let digits = port.bytes().all(|b| b.is_ascii_digit()) && !port.starts_with('0');
            digits && port.parse::<u16>().is_ok()
        })
}
