//! The effects of each job on the store, inside the writer's transaction.

use mezza_messenger::relay_wire::{DoneCode, MailboxAddress, MailboxKind, RelayFrame};

use super::job::{MailId, Put, ReplyTo, WatchId, WriterJob};
use super::owners::{RefillRequest, Watcher, stock_frame};
use super::{TakenMails, Writer};
use crate::relay::store::{MailStore, MailboxRow, NewMail, StoreError};

/// The wait in the refusal for a full mailbox, s: its owner is away.
const RETRY_BOX_FULL_S: u16 = 300;
/// The wait in the refusal of a full relay, s.
pub(super) const RETRY_RELAY_FULL_S: u16 = 3_600;
/// Mails read from the store at once for one watcher: at most 256 KiB.
const REFILL_MAILS: u32 = 16;

/// A refusal: code and seconds to wait.
pub(super) type Refusal = (DoneCode, u16);

impl<S: MailStore> Writer<S> {
    pub(super) async fn apply(&mut self, job: WriterJob) -> Result<(), StoreError> {
        match job {
            WriterJob::Put(put) => self.put_run(vec![put]).await,
            WriterJob::Open { address, kind, site, answer } => {
                let result = self.open_box(&address, kind, site).await?;
                self.queue_answer(answer, result);
                Ok(())
            }
            WriterJob::Close { address, answer } => {
                let result = self.close_box(&address).await?;
                self.queue_answer(answer, result);
                Ok(())
            }
            WriterJob::Watch { address, watch, number, answer } => {
                self.watch_box(address, watch, number, answer).await
            }
            WriterJob::Take { address, watch, mails } => {
                self.take_mails(&address, watch, &mails).await
            }
            WriterJob::BundleSet(set) => self.bundle_set(set).await,
            WriterJob::BundleGet { address, answer } => self.bundle_get(&address, answer).await,
            WriterJob::Resume(watches) => {
                let behind = self.boxes_behind(watches);
                self.batch.refill.extend(behind);
                Ok(())
            }
            WriterJob::Gone(watches) => {
                self.end_watches(watches);
                Ok(())
            }
        }
    }

    /// Returns the mailboxes of these watches that wait for mail from the store.
    pub(super) fn boxes_behind(
        &self,
        watches: Vec<(MailboxAddress, WatchId)>,
    ) -> Vec<MailboxAddress> {
        let is_behind = |(address, watch): &(_, _)| self.owners.is_behind(address, *watch);
        watches.into_iter().filter(is_behind).map(|(address, _)| address).collect()
    }

    /// Ends these watches.
    pub(super) fn end_watches(&self, watches: Vec<(MailboxAddress, WatchId)>) {
        for (address, watch) in watches {
            self.owners.leave_watch(&address, watch);
        }
    }

    /// Queues the response to a request, to be sent after the commit.
    pub(super) fn queue_answer(&mut self, answer: ReplyTo, result: Result<(), Refusal>) {
        let (code, retry_s) = result.err().unwrap_or((DoneCode::Done, 0));
        let frame = RelayFrame::Done { req: answer.req, code, retry_s };
        self.batch.answers.push((answer.outlet, frame));
    }

    async fn open_box(
        &mut self,
        address: &MailboxAddress,
        kind: MailboxKind,
        site: [u8; 8],
    ) -> Result<Result<(), Refusal>, StoreError> {
        if let Some(row) = self.ledger.find_box(&mut self.store, address).await? {
            return Ok(if row.kind == kind { Ok(()) } else { Err((DoneCode::Refused, 0)) });
        }
        let totals = self.ledger.totals(&mut self.store).await?;
        if totals.boxes >= self.limits.boxes_max || totals.bytes >= self.limits.store_bytes_max {
            return Ok(Err((DoneCode::Full, RETRY_RELAY_FULL_S)));
        }
        let at = self.clock.read();
        if let Err(retry_s) = self.shares.count_mailbox(site, &self.limits, at.boot) {
            return Ok(Err((DoneCode::SlowDown, retry_s)));
        }
        let id = self.store.open_box(address, kind, self.date.latest_date(at).as_days()).await?;
        self.ledger.count_opened(address, id, kind);
        Ok(Ok(()))
    }

    async fn close_box(
        &mut self,
        address: &MailboxAddress,
    ) -> Result<Result<(), Refusal>, StoreError> {
        let Some(row) = self.ledger.find_box(&mut self.store, address).await? else {
            return Ok(Err((DoneCode::NoBox, 0)));
        };
        let stock = self.ledger.find_stock(&mut self.store, address, row.id).await?;
        self.store.close_box(row.id).await?;
        self.ledger.count_closed(address, row, stock);
        if let Some(outlet) = self.owners.remove_watch(address) {
            self.batch.touched.push((*address, outlet));
        }
        Ok(Ok(()))
    }

    /// Stores mail; watchers that did not get it yet get it before the commit.
    pub(super) async fn put_run(&mut self, puts: Vec<Put>) -> Result<(), StoreError> {
        let now_h = self.date.latest_date(self.clock.read()).as_hours();
        let mut admitted = Vec::with_capacity(puts.len());
        for put in puts {
            match self.admit_mail(&put).await? {
                Ok(row) => admitted.push((put, row.id)),
                Err(refusal) => self.queue_answer(put.answer, Err(refusal)),
            }
        }
        if admitted.is_empty() {
            return Ok(());
        }
        let ttl_h_max = self.limits.ttl_h_max;
        let mails: Vec<_> = admitted
            .iter()
            .map(|(put, box_id)| NewMail {
                box_id: *box_id,
                due_h: now_h.saturating_add(u32::from(put.ttl_h.min(ttl_h_max))),
                body: &put.envelope,
            })
            .collect();
        let seqs = self.store.put_batch(&mails).await?;
        for ((mut put, _), seq) in admitted.into_iter().zip(seqs) {
            if let Some(outlet) = self.owners.show_stored(&mut put, seq) {
                self.batch.touched.push((put.address, outlet));
            }
            self.queue_answer(put.answer, Ok(()));
        }
        Ok(())
    }

    /// Counts a mail if there is room for it; else returns the refusal.
    async fn admit_mail(&mut self, put: &Put) -> Result<Result<MailboxRow, Refusal>, StoreError> {
        let Some(row) = self.ledger.find_box(&mut self.store, &put.address).await? else {
            return Ok(Err((DoneCode::NoBox, 0)));
        };
        let bytes = put.envelope.len() as u64;
        let mails_max = match row.kind {
            MailboxKind::Conversation => self.limits.box_mails_max,
            MailboxKind::Intro => self.limits.intro_mails_max,
        };
        if row.mails >= mails_max || row.bytes.saturating_add(bytes) > self.limits.box_bytes_max {
            return Ok(Err((DoneCode::Full, RETRY_BOX_FULL_S)));
        }
        let totals = self.ledger.totals(&mut self.store).await?;
        if totals.bytes.saturating_add(bytes) > self.limits.store_bytes_max {
            return Ok(Err((DoneCode::Full, RETRY_RELAY_FULL_S)));
        }
        let now = self.clock.boot();
        if row.kind == MailboxKind::Intro {
            let bucket = self.intro_rates.entry(put.address).or_default();
            if let Err(retry_s) = bucket.take(self.limits.intro_puts, now) {
                return Ok(Err((DoneCode::SlowDown, retry_s)));
            }
        }
        let tight = totals.bytes >= self.limits.store_bytes_max / 2;
        if let Err(retry_s) = self.shares.count_mail(put.site, bytes, tight, &self.limits, now) {
            return Ok(Err((DoneCode::SlowDown, retry_s)));
        }
        self.ledger.count_put(&put.address, put.envelope.len());
        Ok(Ok(row))
    }

    async fn watch_box(
        &mut self,
        address: MailboxAddress,
        watch: WatchId,
        number: u16,
        answer: ReplyTo,
    ) -> Result<(), StoreError> {
        let Some(row) = self.ledger.find_box(&mut self.store, &address).await? else {
            self.queue_answer(answer, Err((DoneCode::NoBox, 0)));
            return Ok(());
        };
        self.store.set_seen_day(row.id, self.date.latest_date(self.clock.read()).as_days()).await?;
        let outlet = answer.outlet.clone();
        self.batch.touched.push((address, outlet.clone()));
        self.owners.insert(address, Watcher::new(watch, number, &row, outlet.clone()));
        self.batch.refill.insert(address);
        self.queue_answer(answer, Ok(()));
        if row.kind == MailboxKind::Intro {
            let stock = self.ledger.find_stock(&mut self.store, &address, row.id).await?;
            self.batch.answers.push((outlet, stock_frame(number, stock.left)));
        }
        Ok(())
    }

    /// Removes mail that its watcher has stored, if it is in flight at this watch. The mail stays
    /// in flight until the removal is durable, because a TAKEN of a failed transaction is repeated.
    async fn take_mails(
        &mut self,
        address: &MailboxAddress,
        watch: WatchId,
        mails: &[MailId],
    ) -> Result<(), StoreError> {
        let Some((box_id, seqs)) = self.owners.stored_rows(address, watch, mails) else {
            return Ok(());
        };
        let taken = TakenMails { address: *address, watch, mails: mails.to_vec() };
        self.batch.taken.push(taken);
        let removed = self.store.take_mails(box_id, &seqs).await?;
        self.ledger.count_taken(address, removed);
        Ok(())
    }

    /// Sends a watcher its mail from the store, up to its room.
    pub(super) async fn refill_watcher(
        &mut self,
        address: &MailboxAddress,
    ) -> Result<(), StoreError> {
        let now_h = self.date.believed_date(self.clock.read()).as_hours();
        while let Some(RefillRequest { box_id, last, room }) = self.owners.next_refill(address) {
            let wanted = REFILL_MAILS.min(room as u32);
            let mails = self.store.fetch_mails(box_id, last, now_h, wanted).await?;
            let more = mails.len() as u32 == wanted;
            self.owners.send_refill(address, mails, more);
        }
        Ok(())
    }
}
