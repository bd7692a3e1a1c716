//! What the writer remembers of boxes, so that a quota costs no query per mail.

use std::collections::HashMap;

use mezza_messenger::relay_wire::{Address, BoxKind};

use crate::relay::store::{BoxId, BoxRow, MailStore as _, Removed, Store, StoreError, Totals};

/// Boxes remembered at once, some 10 MB.
const ROWS_MAX: usize = 100_000;

/// Bytes that a one-time key is counted as.
pub(super) const KEY_BYTES: u64 = 64;

/// A copy of the store's counts, right as long as this writer is the only one.
#[derive(Default)]
pub(super) struct Ledger {
    rows: HashMap<Address, BoxRow>,
    totals: Option<Totals>,
}

impl Ledger {
    /// The box of an address.
    pub(super) async fn find(
        &mut self,
        store: &mut Store,
        address: &Address,
    ) -> Result<Option<BoxRow>, StoreError> {
        if let Some(row) = self.rows.get(address) {
            return Ok(Some(*row));
        }
        let found = store.find_box(address).await?;
        if let Some(row) = found {
            self.remember(address, row);
        }
        Ok(found)
    }

    /// Counts over the whole store.
    pub(super) async fn totals(&mut self, store: &mut Store) -> Result<Totals, StoreError> {
        match self.totals {
            Some(totals) => Ok(totals),
            None => Ok(*self.totals.insert(store.totals().await?)),
        }
    }

    pub(super) fn opened(&mut self, address: &Address, id: BoxId, kind: BoxKind) {
        self.remember(address, BoxRow { id, kind, mails: 0, bytes: 0 });
        self.change(|totals| totals.boxes += 1);
    }

    pub(super) fn closed(&mut self, address: &Address, row: BoxRow) {
        self.rows.remove(address);
        self.change(|totals| {
            totals.boxes = totals.boxes.saturating_sub(1);
            totals.mails = totals.mails.saturating_sub(u64::from(row.mails));
            totals.bytes = totals.bytes.saturating_sub(row.bytes);
        });
    }

    pub(super) fn put(&mut self, address: &Address, bytes: usize) {
        if let Some(row) = self.rows.get_mut(address) {
            row.mails += 1;
            row.bytes += bytes as u64;
        }
        self.change(|totals| {
            totals.mails += 1;
            totals.bytes += bytes as u64;
        });
    }

    pub(super) fn took(&mut self, address: &Address, removed: Removed) {
        if let Some(row) = self.rows.get_mut(address) {
            row.mails = row.mails.saturating_sub(removed.mails);
            row.bytes = row.bytes.saturating_sub(removed.bytes);
        }
        self.change(|totals| {
            totals.mails = totals.mails.saturating_sub(u64::from(removed.mails));
            totals.bytes = totals.bytes.saturating_sub(removed.bytes);
        });
    }

    /// Bytes of bundles and keys were `before` and are `after`.
    pub(super) fn resized(&mut self, before: u64, after: u64) {
        self.change(|totals| totals.bytes = (totals.bytes + after).saturating_sub(before));
    }

    /// Forgets everything: the store knows better.
    pub(super) fn forget(&mut self) {
        *self = Self::default();
    }

    fn remember(&mut self, address: &Address, row: BoxRow) {
        if self.rows.len() >= ROWS_MAX {
            self.rows.clear();
        }
        self.rows.insert(*address, row);
    }

    fn change(&mut self, change: impl FnOnce(&mut Totals)) {
        if let Some(totals) = &mut self.totals {
            change(totals);
        }
    }
}
