//! The writer's cache of mailbox rows, so that a quota costs no query for each mail.

use std::collections::HashMap;

use mezza_messenger::relay_wire::{MailboxAddress, MailboxKind};

use crate::relay::store::{MailStore, MailboxRow, MailboxRowId, Removed, StoreError, Totals};

/// Boxes cached at most, about 10 MB.
const ROWS_MAX: usize = 100_000;

/// Bytes that a one-time key counts for.
pub(super) const KEY_BYTES: u64 = 64;

/// The bundle and one-time keys of a box, counted once and updated from then on, so that a request
/// does not have to count all rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Stock {
    /// Rows of one-time keys, issued ones included.
    pub(super) rows: u32,
    /// Rows not issued yet.
    pub(super) left: u32,
    /// Bytes of the bundle.
    pub(super) bundle_bytes: u64,
}

impl Stock {
    /// Returns the bytes that bundle and keys count for.
    fn bytes(self) -> u64 {
        self.bundle_bytes + KEY_BYTES * u64::from(self.rows)
    }
}

/// A copy of the store's counts, valid while this writer is the only one.
#[derive(Default)]
pub(super) struct QuotaCache {
    rows: HashMap<MailboxAddress, Known>,
    totals: Option<Totals>,
}

/// A cached mailbox.
#[derive(Clone, Copy)]
struct Known {
    row: MailboxRow,
    stock: Option<Stock>,
}

impl QuotaCache {
    /// Returns the box of an address, from the cache or the store.
    pub(super) async fn find_box(
        &mut self,
        store: &mut impl MailStore,
        address: &MailboxAddress,
    ) -> Result<Option<MailboxRow>, StoreError> {
        if let Some(known) = self.rows.get(address) {
            return Ok(Some(known.row));
        }
        let found = store.find_box(address).await?;
        if let Some(row) = found {
            self.remember_row(address, row);
        }
        Ok(found)
    }

    /// Returns bundle and keys of the box `id` at an address.
    pub(super) async fn find_stock(
        &mut self,
        store: &mut impl MailStore,
        address: &MailboxAddress,
        id: MailboxRowId,
    ) -> Result<Stock, StoreError> {
        if let Some(stock) = self.rows.get(address).and_then(|known| known.stock) {
            return Ok(stock);
        }
        let (rows, left) = store.keys_count(id).await?;
        let bundle_bytes = store.read_bundle(id).await?.map_or(0, |bundle| bundle.len() as u64);
        let stock = Stock { rows, left, bundle_bytes };
        if let Some(known) = self.rows.get_mut(address) {
            known.stock = Some(stock);
        }
        Ok(stock)
    }

    /// Returns the counts over the whole store.
    pub(super) async fn totals(
        &mut self,
        store: &mut impl MailStore,
    ) -> Result<Totals, StoreError> {
        match self.totals {
            Some(totals) => Ok(totals),
            None => Ok(*self.totals.insert(store.count_totals().await?)),
        }
    }

    pub(super) fn count_opened(
        &mut self,
        address: &MailboxAddress,
        id: MailboxRowId,
        kind: MailboxKind,
    ) {
        self.remember_row(address, MailboxRow { id, kind, mails: 0, bytes: 0 });
        self.change_totals(|totals| totals.boxes += 1);
    }

    pub(super) fn count_closed(&mut self, address: &MailboxAddress, row: MailboxRow, stock: Stock) {
        self.rows.remove(address);
        self.change_totals(|totals| {
            totals.boxes = totals.boxes.saturating_sub(1);
            totals.mails = totals.mails.saturating_sub(u64::from(row.mails));
            totals.bytes = totals.bytes.saturating_sub(row.bytes + stock.bytes());
        });
    }

    pub(super) fn count_put(&mut self, address: &MailboxAddress, bytes: usize) {
        if let Some(Known { row, .. }) = self.rows.get_mut(address) {
            row.mails += 1;
            row.bytes += bytes as u64;
        }
        self.change_totals(|totals| {
            totals.mails += 1;
            totals.bytes += bytes as u64;
        });
    }

    pub(super) fn count_taken(&mut self, address: &MailboxAddress, removed: Removed) {
        if let Some(Known { row, .. }) = self.rows.get_mut(address) {
            row.mails = row.mails.saturating_sub(removed.mails);
            row.bytes = row.bytes.saturating_sub(removed.bytes);
        }
        self.change_totals(|totals| {
            totals.mails = totals.mails.saturating_sub(u64::from(removed.mails));
            totals.bytes = totals.bytes.saturating_sub(removed.bytes);
        });
    }

    /// Records that bundle and keys of a box changed from `before` to `after`.
    pub(super) fn count_restocked(
        &mut self,
        address: &MailboxAddress,
        before: Stock,
        after: Stock,
    ) {
        if let Some(known) = self.rows.get_mut(address) {
            known.stock = Some(after);
        }
        self.change_totals(|totals| {
            totals.bytes = (totals.bytes + after.bytes()).saturating_sub(before.bytes());
        });
    }

    /// Empties the cache, which may differ from the store.
    pub(super) fn forget_all(&mut self) {
        *self = Self::default();
    }

    fn remember_row(&mut self, address: &MailboxAddress, row: MailboxRow) {
        if self.rows.len() >= ROWS_MAX {
            self.rows.clear();
        }
        self.rows.insert(*address, Known { row, stock: None });
    }

    fn change_totals(&mut self, change: impl FnOnce(&mut Totals)) {
        if let Some(totals) = &mut self.totals {
            change(totals);
        }
    }
}

#[cfg(test)]
mod tests;
