//! The one writer: group commit, quotas and watchers.
//!
//! ```text
//!  puts --> shown to watchers
//!   |
//!  jobs (at most 100) --begin--> apply --commit--> answers --> refill watchers
//!                           any error --rollback--> "slow down" to all, watchers end,
//!                                                   TAKENs go again (RELAY-13)
//! ```
//!
//! The queue is short, and each connection has a bounded part of it. A connection waits for a slot
//! with one job at a time, in order of arrival. So connections take turns, and one commit holds few
//! jobs of each (MSG-73).
//!
//! All queued jobs are taken as soon as the last commit has ended. A TAKEN, for which no client
//! waits, may wait 20 ms for other jobs. A put is sent to its watcher when it is queued, if the
//! watcher has all earlier mail; else the writer sends it. A client may send TAKEN before the mail
//! is committed. The writer handles it after that put, so nothing is lost.

mod apply;
mod bundles;
mod job;
mod ledger;
mod owed;
mod owners;
mod shares;
#[cfg(test)]
mod tests;

pub(crate) use job::{
    BundleSet, ConnectionQueue, MailId, Put, ReplyTo, WatchId, WriterEvent, WriterJob,
};

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::sync::Arc;
use std::time::Duration;

use mezza_core::Time;
use mezza_messenger::relay_wire::{DoneCode, MailboxAddress, RelayFrame};
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until, timeout_at};

use super::date::RelayDate;
use super::limits::Limits;
use super::store::{MailStore, RelayStore, StoreError};
use ledger::QuotaCache;
use mezza_host::clock::Clock;
use mezza_host::process::rate::TokenBucket;
use owed::OwedTakes;
use owners::Watchers;
use shares::Shares;

/// Jobs that wait for the writer, enough for two commits; further connections wait in turn.
const QUEUE_JOBS: usize = 256;
/// Rows removed in one transaction of the tidying.
const TIDY_ROWS: u32 = 1_000;
/// How long jobs without a waiting client may be delayed to join the transaction of others.
const PATIENCE: Duration = Duration::from_millis(20);
/// The wait in refusals after a failed transaction, s: most causes are over soon.
const RETRY_S_MIN: u16 = 2;
/// The wait in refusals once the store has failed for longer than [`PATIENT_MS`], s.
const RETRY_S_MAX: u16 = 30;
/// How long clients of a failing store are told to come back after [`RETRY_S_MIN`].
const PATIENT_MS: u64 = 5 * Time::MINUTE_MS;
/// The pause between two transactions of owed TAKENs.
const OWED_WAIT: Duration = Duration::from_secs(1);

/// Resolves with the result of the writer once it has ended.
pub(crate) type Ended = oneshot::Receiver<Result<(), StoreError>>;

/// Starts the writer on a thread of its own. The writer ends when all senders are dropped.
pub(crate) fn spawn_writer(
    store: RelayStore,
    limits: Limits,
    clock: Clock,
    date: RelayDate,
) -> io::Result<(Jobs, Ended)> {
    let (jobs, queue) = mpsc::channel(QUEUE_JOBS);
    let (end, ended) = oneshot::channel();
    let runtime = Handle::current();
    let owners = Arc::new(Watchers::new(limits.in_flight_max));
    let jobs = Jobs { queue: jobs, owners: Arc::clone(&owners) };
    std::thread::Builder::new().name("relay-writer".to_owned()).spawn(move || {
        let result = match store {
            RelayStore::Sqlite(store) => {
                runtime.block_on(Writer::new(store, limits, clock, date, owners).run(queue))
            }
            RelayStore::Postgres(store) => {
                runtime.block_on(Writer::new(store, limits, clock, date, owners).run(queue))
            }
        };
        // The receiver is gone if the runtime is being shut down.
        drop(end.send(result));
    })?;
    Ok((jobs, ended))
}

/// The sender of jobs to the writer.
#[derive(Clone)]
pub(crate) struct Jobs {
    queue: mpsc::Sender<Queued>,
    owners: Arc<Watchers>,
}

/// A job in the writer's queue, with the permit for its connection's part of the queue.
struct Queued {
    job: WriterJob,
    part: Option<OwnedSemaphorePermit>,
}

/// One connection's sender of jobs to the writer.
pub(crate) struct Lane {
    jobs: Jobs,
    /// Units of work that this connection may still queue.
    room: Arc<Semaphore>,
    most: u32,
}

impl Jobs {
    /// Opens a lane with room for `most` units of work at a time.
    pub(crate) fn open_lane(&self, most: u32) -> Lane {
        Lane { jobs: self.clone(), room: Arc::new(Semaphore::new(most as usize)), most }
    }

    /// Passes a job to the writer; waits for a slot in its queue. Returns false if the writer has
    /// ended.
    pub(crate) async fn send(&self, job: WriterJob) -> bool {
        self.queue_up(job, None).await
    }

    async fn queue_up(&self, job: WriterJob, part: Option<OwnedSemaphorePermit>) -> bool {
        let Ok(place) = self.queue.reserve().await else { return false };
        match job {
            WriterJob::Put(put) => self.owners.hand_over(put, |put| {
                place.send(Queued { job: WriterJob::Put(put), part });
            }),
            job => place.send(Queued { job, part }),
        }
        true
    }
}

impl Lane {
    /// Passes a job to the writer once the connection's queued work leaves room for it. Returns
    /// false if the writer has ended.
    pub(crate) async fn send(&self, job: WriterJob) -> bool {
        let work = job.work_units().min(self.most);
        match Arc::clone(&self.room).acquire_many_owned(work).await {
            Ok(part) => self.jobs.queue_up(job, Some(part)).await,
            Err(_) => false,
        }
    }
}

struct Writer<S> {
    store: S,
    limits: Limits,
    clock: Clock,
    date: RelayDate,
    ledger: QuotaCache,
    owners: Arc<Watchers>,
    intro_rates: HashMap<MailboxAddress, TokenBucket>,
    key_rates: HashMap<MailboxAddress, TokenBucket>,
    shares: Shares,
    /// Hour and day of the last tidying.
    tidied: (u32, u32),
    batch: Batch,
    /// TAKENs of transactions that failed.
    owed: OwedTakes,
    /// Boot time at which the store began to fail; `None` while it works.
    failing_since: Option<Time>,
}

/// The effects of a transaction: carried out once it is durable, undone if it fails.
#[derive(Default)]
struct Batch {
    /// Responses sent after the commit, in this order. A STOCK follows its WATCH and precedes a
    /// later PUBLISH, which it does not count.
    answers: Vec<(ConnectionQueue, RelayFrame)>,
    /// Boxes whose one-time keys run low, with the number left.
    low: Vec<(MailboxAddress, u32)>,
    /// The requests of this transaction that wait for a response.
    asked: Vec<ReplyTo>,
    /// Connections that received mail of this transaction before its commit.
    touched: Vec<(MailboxAddress, ConnectionQueue)>,
    /// Mailboxes whose watchers may get more mail.
    refill: BTreeSet<MailboxAddress>,
    /// Mails that leave the in-flight lists once this transaction is durable.
    taken: Vec<TakenMails>,
}

/// Mails of one TAKEN.
struct TakenMails {
    address: MailboxAddress,
    watch: WatchId,
    mails: Vec<MailId>,
}

impl<S: MailStore> Writer<S> {
    fn new(store: S, limits: Limits, clock: Clock, date: RelayDate, owners: Arc<Watchers>) -> Self {
        Self {
            store,
            limits,
            clock,
            date,
            ledger: QuotaCache::default(),
            owners,
            intro_rates: HashMap::new(),
            key_rates: HashMap::new(),
            shares: Shares::default(),
            tidied: (0, 0),
            batch: Batch::default(),
            owed: OwedTakes::default(),
            failing_since: None,
        }
    }

    async fn run(mut self, mut queue: mpsc::Receiver<Queued>) -> Result<(), StoreError> {
        let mut tick = interval(Duration::from_millis(self.limits.maintenance_ms.max(1)));
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut queued = Vec::with_capacity(self.limits.batch_max);
        let mut owed_at = Instant::now();
        loop {
            tokio::select! {
                count = queue.recv_many(&mut queued, self.limits.batch_max) => {
                    if count == 0 {
                        break;
                    }
                    self.gather_jobs(&mut queue, &mut queued).await;
                    let both = queued.drain(..).map(|queued| (queued.job, queued.part));
                    let (mut jobs, parts): (Vec<WriterJob>, Vec<_>) = both.unzip();
                    if !self.commit_all(&mut jobs).await {
                        owed_at = owed_at.max(Instant::now() + OWED_WAIT);
                    }
                    // Dropping the permits gives the connections their parts of the queue back.
                    drop(parts);
                    self.store.prefetch();
                }
                () = sleep_until(owed_at), if !self.owed.is_empty() => {
                    self.repeat_owed().await;
                    owed_at = Instant::now() + OWED_WAIT;
                }
                _ = tick.tick() => match self.remove_due().await {
                    Ok(true) => tick.reset_immediately(),
                    Ok(false) => (),
                    Err(error) => self.undo_batch(&error, Vec::new()).await,
                },
            }
        }
        self.store.close().await
    }

    /// Waits a moment for more jobs while all present ones can wait: a TAKEN need not delay the
    /// next mail by a commit.
    async fn gather_jobs(&self, queue: &mut mpsc::Receiver<Queued>, jobs: &mut Vec<Queued>) {
        let end = Instant::now() + PATIENCE;
        while jobs.len() < self.limits.batch_max
            && jobs.iter().all(|queued| queued.job.is_patient())
        {
            let room = self.limits.batch_max - jobs.len();
            match timeout_at(end, queue.recv_many(jobs, room)).await {
                Ok(1..) => {}
                Ok(0) | Err(_) => return,
            }
        }
    }

    /// Runs a transaction of owed TAKENs only: one that the store always refuses must not fail
    /// requests of other connections.
    async fn repeat_owed(&mut self) {
        let mut jobs = self.owed.draw_jobs();
        let is_done = self.commit_all(&mut jobs).await;
        self.owed.adapt_width(is_done);
    }

    /// Runs one transaction for all `jobs`. Returns true if it is durable.
    async fn commit_all(&mut self, jobs: &mut Vec<WriterJob>) -> bool {
        let mut last = 0;
        let unanswered = jobs.iter().filter_map(WriterJob::without_answer).collect();
        for job in &*jobs {
            self.batch.asked.extend(job.reply_to().cloned());
            if let WriterJob::Put(Put { address, id, shown, .. }) = job {
                last = *id;
                let shown = shown.iter().map(|(_, outlet)| (*address, outlet.clone()));
                self.batch.touched.extend(shown);
            }
        }
        let result = self.apply_jobs(jobs).await;
        self.owners.mark_done(last);
        let is_done = result.is_ok();
        match result {
            Ok(()) => self.settle_batch().await,
            Err(error) => self.undo_batch(&error, unanswered).await,
        }
        jobs.clear();
        is_done
    }

    async fn apply_jobs(&mut self, jobs: &mut Vec<WriterJob>) -> Result<(), StoreError> {
        self.store.begin().await?;
        let mut jobs = jobs.drain(..).peekable();
        while let Some(job) = jobs.next() {
            match job {
                WriterJob::Put(first) => {
                    let mut puts = vec![first];
                    while let Some(WriterJob::Put(put)) =
                        jobs.next_if(|job| matches!(job, WriterJob::Put(_)))
                    {
                        puts.push(put);
                    }
                    self.put_run(puts).await?;
                }
                other => self.apply(other).await?,
            }
        }
        self.store.commit().await
    }

    /// Sends the responses after the commit: only now are they true.
    async fn settle_batch(&mut self) {
        self.failing_since = None;
        let mut batch = std::mem::take(&mut self.batch);
        for TakenMails { address, watch, mails } in &batch.taken {
            self.owners.mark_taken(address, *watch, mails);
            if self.owners.is_behind(address, *watch) {
                batch.refill.insert(*address);
            }
        }
        for (outlet, frame) in batch.answers {
            match frame {
                RelayFrame::Stock { .. } => outlet.send_stock(frame),
                _ => outlet.send_answer(frame),
            }
        }
        for (address, left) in batch.low {
            self.owners.send_stock(&address, left);
        }
        self.refill_all(batch.refill).await;
    }

    async fn refill_all(&mut self, addresses: BTreeSet<MailboxAddress>) {
        for address in addresses {
            if let Err(error) = self.refill_watcher(&address).await {
                tracing::warn!(%error, "the relay could not read mail");
                if let Some(outlet) = self.owners.remove_watch(&address) {
                    outlet.end_connection();
                }
            }
        }
    }

    /// Undoes the effects of a failed transaction. Its counts are forgotten, and its clients try
    /// again later. A connection that received a mail of the transaction is closed, because the
    /// mail's number is void; a watcher that received none stays. Watchers that lack mail of
    /// earlier transactions get it (MSG-64). Requests that no client waits for are not lost
    /// (RELAY-13).
    async fn undo_batch(&mut self, error: &StoreError, unanswered: Vec<WriterJob>) {
        tracing::warn!(%error, "the relay's store refused a transaction");
        self.store.rollback().await;
        self.ledger.forget_all();
        let mut batch = std::mem::take(&mut self.batch);
        for (address, outlet) in batch.touched {
            self.owners.leave_with(&address, &outlet);
            outlet.end_connection();
        }
        let retry_s = self.retry_s();
        for answer in batch.asked {
            answer.outlet.send_answer(RelayFrame::Done {
                req: answer.req,
                code: DoneCode::SlowDown,
                retry_s,
            });
        }
        for job in unanswered {
            match job {
                WriterJob::Take { address, watch, mails } => {
                    self.owed.keep_mails(address, watch, &mails, &self.owners);
                }
                // Gone and Resume need no transaction.
                WriterJob::Gone(watches) => self.end_watches(watches),
                WriterJob::Resume(watches) => batch.refill.extend(self.boxes_behind(watches)),
                _ => {}
            }
        }
        self.refill_all(batch.refill).await;
    }

    /// Returns how long clients must wait after a failed transaction, s.
    fn retry_s(&mut self) -> u16 {
        let now = self.clock.boot();
        let since = *self.failing_since.get_or_insert(now);
        if now.since_ms(since) < PATIENT_MS { RETRY_S_MIN } else { RETRY_S_MAX }
    }

    /// Removes expired rows, up to [`TIDY_ROWS`]. Returns true if more are due.
    async fn remove_due(&mut self) -> Result<bool, StoreError> {
        let at = self.clock.read();
        self.intro_rates.retain(|_, bucket| !bucket.is_idle(at.boot));
        self.key_rates.retain(|_, bucket| !bucket.is_idle(at.boot));
        self.shares.drop_idle(at.boot);
        if !self.date.check_clocks(at) {
            return Ok(false);
        }
        let now = at.wall;
        if self.tidied.0 != now.as_hours() {
            self.store.begin().await?;
            let removed = self.store.expire_mails(now.as_hours(), TIDY_ROWS).await?;
            self.store.commit().await?;
            self.ledger.forget_all();
            if removed.mails == TIDY_ROWS {
                return Ok(true);
            }
            self.tidied.0 = now.as_hours();
        }
        if self.tidied.1 == now.as_days() { Ok(false) } else { self.tidy_boxes(now).await }
    }

    async fn tidy_boxes(&mut self, now: Time) -> Result<bool, StoreError> {
        self.store.begin().await?;
        for id in self.owners.watched_boxes() {
            self.store.set_seen_day(id, now.as_days()).await?;
        }
        let day = now.as_days().saturating_sub(self.limits.idle_box_days);
        let dropped = self.store.drop_idle(day, TIDY_ROWS).await?;
        self.store.commit().await?;
        self.ledger.forget_all();
        if dropped == TIDY_ROWS {
            return Ok(true);
        }
        self.tidied.1 = now.as_days();
        Ok(false)
    }
}
