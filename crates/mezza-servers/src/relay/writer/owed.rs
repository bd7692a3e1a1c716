//! TAKENs of transactions that failed (RELAY-13): no client waits for a response and repeats them,
//! so the writer does. Otherwise their mails would stay in flight, and with 64 of them a mailbox
//! gets no more mail.

use std::collections::{BTreeMap, BTreeSet};

use mezza_messenger::relay_wire::MailboxAddress;

use super::job::{MailId, WatchId, WriterJob};
use super::owners::Watchers;

/// Maximum number of watches whose TAKENs share one transaction.
const WIDTH_MAX: usize = 1_024;

/// Mails still to be removed, by watch. Only mails in flight are stored, which bounds the size.
pub(super) struct OwedTakes {
    mails: BTreeMap<WatchKey, BTreeSet<MailId>>,
    /// The last watch that was drawn; the next draw begins after it.
    last: Option<WatchKey>,
    /// Number of watches drawn at once: halved after a failure, so that one watch whose mail cannot
    /// be removed does not block the others.
    width: usize,
}

type WatchKey = (MailboxAddress, WatchId);

impl Default for OwedTakes {
    fn default() -> Self {
        Self { mails: BTreeMap::new(), last: None, width: WIDTH_MAX }
    }
}

impl OwedTakes {
    /// Returns true if no TAKEN is owed.
    pub(super) fn is_empty(&self) -> bool {
        self.mails.is_empty()
    }

    /// Stores a TAKEN that was not carried out, without mails that are no longer in flight at this
    /// watch.
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

    /// Removes the next watches, and returns their TAKENs as jobs of one transaction.
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

    /// Adapts the number of watches per draw to the result of the last transaction.
    pub(super) fn adapt_width(&mut self, is_done: bool) {
        self.width =
            if is_done { (2 * self.width).min(WIDTH_MAX) } else { (self.width / 2).max(1) };
    }
}
