//! TAKENs of transactions that failed (RELAY-13): no client waits for an answer to them and asks again,
//! so the writer does. Without that their mails would stay in flight, and 64 of them make a mailbox deaf.

use std::collections::{BTreeMap, BTreeSet};

use mezza_messenger::relay_wire::MailboxAddress;

use super::job::{MailId, WatchId, WriterJob};
use super::owners::Watchers;

/// Watches whose TAKENs go in one transaction, at most.
const WIDTH_MAX: usize = 1_024;

/// Mails that are still to be removed, by watch. Only mails in flight are kept, so that this is bounded by
/// them.
pub(super) struct OwedTakes {
    mails: BTreeMap<WatchKey, BTreeSet<MailId>>,
    /// The last watch that was drawn; those after it are next.
    last: Option<WatchKey>,
    /// How many watches are drawn at once: fewer after a failure, so that one whose mail the store
    /// refuses to remove does not keep others waiting.
    width: usize,
}

type WatchKey = (MailboxAddress, WatchId);

impl Default for OwedTakes {
    fn default() -> Self {
        Self { mails: BTreeMap::new(), last: None, width: WIDTH_MAX }
    }
}

impl OwedTakes {
    /// Returns true if nothing is owed.
    pub(super) fn is_empty(&self) -> bool {
        self.mails.is_empty()
    }

    /// Keeps a TAKEN that was not carried out. Mails that are not in flight at this watch are left out:
    /// the watch is over, or they were taken.
    pub(super) fn keep_mails(
        &mut self,
        address: MailboxAddress,
        watch: WatchId,
        mails: &[MailId],
        owners: &Watchers,
    ) {
        let in_flight = owners.in_flight(&address, watch, mails);
        if !in_flight.is_empty() {
            self.mails.entry((address, watch)).or_default().extend(in_flight);
        }
    }

    /// Takes the next ones out, as jobs of one transaction.
    pub(super) fn draw_jobs(&mut self) -> Vec<WriterJob> {
        let after = |key: &WatchKey| self.last.is_none_or(|last| *key > last);
        let (later, earlier): (Vec<_>, Vec<_>) = self.mails.keys().copied().partition(after);
        let keys: Vec<WatchKey> = later.into_iter().chain(earlier).take(self.width).collect();
        self.last = keys.last().copied();
        keys.into_iter()
            .map(|(address, watch)| {
                let mails = self.mails.remove(&(address, watch)).unwrap_or_default();
                WriterJob::Take { address, watch, mails: mails.into_iter().collect() }
            })
            .collect()
    }

    /// Notes whether the transaction of what was drawn is durable.
    pub(super) fn adapt_width(&mut self, is_done: bool) {
        self.width =
            if is_done { (2 * self.width).min(WIDTH_MAX) } else { (self.width / 2).max(1) };
    }
}
