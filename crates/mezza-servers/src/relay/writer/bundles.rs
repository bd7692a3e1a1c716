//! Bundles and one-time keys.

use mezza_messenger::relay_wire::{DoneCode, MailboxAddress, MailboxKind, RelayFrame};

use super::Writer;
use super::apply::{RETRY_RELAY_FULL_S, Refusal};
use super::job::{BundleSet, ReplyTo};
use super::ledger::{KEY_BYTES, Stock};
use crate::relay::store::{MailStore, MailboxRow, StoreError};

/// Below this number of keys the owner is notified.
const STOCK_LOW: u32 = 20;

impl<S: MailStore> Writer<S> {
    pub(super) async fn bundle_set(&mut self, set: BundleSet) -> Result<(), StoreError> {
        let result = match self.ledger.find_box(&mut self.store, &set.address).await? {
            None => Err((DoneCode::NoBox, 0)),
            Some(row) => self.bundle_replace(row, &set).await?,
        };
        self.queue_answer(set.answer, result);
        Ok(())
    }

    async fn bundle_replace(
        &mut self,
        row: MailboxRow,
        set: &BundleSet,
    ) -> Result<Result<(), Refusal>, StoreError> {
        let fits = (1..=self.limits.bundle_bytes_max).contains(&set.bundle.len());
        if row.kind != MailboxKind::Intro || !fits {
            return Ok(Err((DoneCode::Refused, 0)));
        }
        let before = self.ledger.find_stock(&mut self.store, &set.address, row.id).await?;
        let kept = if set.fresh { Stock::default() } else { before };
        if kept.rows as usize + set.keys.len() > self.limits.one_time_rows_max as usize {
            return Ok(Err((DoneCode::Full, RETRY_RELAY_FULL_S)));
        }
        let totals = self.ledger.totals(&mut self.store).await?;
        let more = set.bundle.len() as u64 + KEY_BYTES * set.keys.len() as u64;
        if totals.bytes.saturating_add(more) > self.limits.store_bytes_max {
            return Ok(Err((DoneCode::Full, RETRY_RELAY_FULL_S)));
        }
        self.store.bundle_set(row.id, set.fresh, &set.bundle).await?;
        let added = self.store.keys_add(row.id, &set.keys).await?;
        let rows = kept.rows + added;
        let left = kept.left + added;
        let after = Stock { rows, left, bundle_bytes: set.bundle.len() as u64 };
        self.ledger.count_restocked(&set.address, before, after);
        Ok(Ok(()))
    }

    /// Responds with the bundle, and with a one-time prekey if one is left and the rate limit
    /// allows it.
    pub(super) async fn bundle_get(
        &mut self,
        address: &MailboxAddress,
        answer: ReplyTo,
    ) -> Result<(), StoreError> {
        let row = self.ledger.find_box(&mut self.store, address).await?;
        let bundle = match row {
            Some(row) => self.store.read_bundle(row.id).await?.map(|bundle| (row.id, bundle)),
            None => None,
        };
        let Some((id, bundle)) = bundle else {
            self.queue_answer(answer, Err((DoneCode::NoBox, 0)));
            return Ok(());
        };
        let before = self.ledger.find_stock(&mut self.store, address, id).await?;
        let rate = self.key_rates.entry(*address).or_default();
        let key = match rate.take(self.limits.one_time_keys, self.clock.boot()) {
            Ok(()) => self.store.key_take(id).await?,
            Err(_) => None,
        };
        if key.is_some() {
            let after = Stock { left: before.left.saturating_sub(1), ..before };
            self.ledger.count_restocked(address, before, after);
            if after.left < STOCK_LOW {
                self.batch.low.push((*address, after.left));
            }
        }
        let frame = RelayFrame::Bundle { req: answer.req, bundle, key };
        self.batch.answers.push((answer.outlet, frame));
        Ok(())
    }
}
