//! The frames of a client, checked against the limits of this connection and translated into jobs
//! of the writer.

use std::sync::atomic::{AtomicU64, Ordering};

use mezza_core::Secret;
use mezza_messenger::relay_wire::{
    ClientFrame, DoneCode, MailboxAddress, RelayFrame, is_envelope_size,
};

use super::{Connection, End, Watched, done_frame, work_of};
use crate::relay::writer::{BundleSet, MailId, Put, ReplyTo, WatchId, WriterJob};
use mezza_host::connection::tap::Direction;

/// The wait in the refusal of a client with too many mailboxes, s; the client must disconnect
/// anyway.
const RETRY_BOXES_S: u16 = 3_600;

impl Connection {
    /// Handles one frame.
    pub(super) async fn handle(&mut self, frame: &[u8]) -> Result<(), End> {
        self.point.record_body(Direction::ToRelay, frame);
        self.pace_work(work_of(frame.len())).await?;
        let frame = ClientFrame::decode(frame).map_err(|_| End::Malformed)?;
        match frame {
            ClientFrame::Ping => self.queue_frame(&RelayFrame::Ping),
            ClientFrame::Taken { number, mails } => self.handle_taken(number, &mails).await,
            ClientFrame::Put { req, address, ttl_h, envelope } => {
                let refusal = self.refuse_put(envelope.len());
                let site = self.account.site();
                self.ask_writer(req, refusal, |answer| {
                    WriterJob::Put(Put::new(address, ttl_h, envelope, answer).of_site(site))
                })
                .await
            }
            ClientFrame::Open { req, token, kind } => {
                let slow = self.account.open(&self.shared.limits, self.shared.clock.boot());
                let refusal = slow.err().map(|retry_s| (DoneCode::SlowDown, retry_s));
                let address = MailboxAddress::from_token(&token);
                let site = self.account.site();
                self.ask_writer(req, refusal, |answer| WriterJob::Open {
                    address,
                    kind,
                    site,
                    answer,
                })
                .await
            }
            ClientFrame::Close { req, token } => {
                let address = MailboxAddress::from_token(&token);
                self.ask_writer(req, None, |answer| WriterJob::Close { address, answer }).await
            }
            ClientFrame::Watch { req, number, token } => self.watch(req, number, &token).await,
            ClientFrame::BundleSet { req, token, fresh, bundle, keys } => {
                let address = MailboxAddress::from_token(&token);
                let many = keys.len() > self.shared.limits.set_keys_max;
                self.ask_writer(req, many.then_some((DoneCode::Refused, 0)), |answer| {
                    WriterJob::BundleSet(BundleSet { address, fresh, bundle, keys, answer })
                })
                .await
            }
            ClientFrame::BundleGet { req, address } => {
                let rate = self.shared.limits.bundle_gets;
                let slow = self.bundle_gets.take(rate, self.shared.clock.boot());
                let refusal = slow.err().map(|retry_s| (DoneCode::SlowDown, retry_s));
                self.ask_writer(req, refusal, |answer| WriterJob::BundleGet { address, answer })
                    .await
            }
        }
    }

    /// Refuses a request at once, or passes it to the writer.
    async fn ask_writer(
        &mut self,
        req: u16,
        refusal: Option<(DoneCode, u16)>,
        job: impl FnOnce(ReplyTo) -> WriterJob,
    ) -> Result<(), End> {
        if let Some((code, retry_s)) = refusal {
            return self.queue_frame(&done_frame(req, code, retry_s));
        }
        // One read may hold more requests than may be pending: wait for responses first.
        while self.pending >= self.shared.limits.pending_max {
            let event = self.events.recv().await.ok_or(End::Stopped)?;
            self.handle_event(event)?;
            self.write_out().await?;
        }
        self.pending += 1;
        let answer = ReplyTo { outlet: self.outlet.clone(), req };
        self.submit_job(job(answer)).await
    }

    /// Checks a PUT: its size, the rate of this connection, the bytes per address and day. Returns
    /// the refusal, if any.
    fn refuse_put(&mut self, bytes: usize) -> Option<(DoneCode, u16)> {
        if !is_envelope_size(bytes) {
            return Some((DoneCode::Size, 0));
        }
        let limits = &self.shared.limits;
        let now = self.shared.clock.boot();
        let slow = self
            .puts
            .take(limits.puts, now)
            .and_then(|()| self.account.count_put(bytes, limits, now));
        slow.err().map(|retry_s| (DoneCode::SlowDown, retry_s))
    }

    async fn watch(&mut self, req: u16, number: u16, token: &Secret<32>) -> Result<(), End> {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let full = !self.watches.contains_key(&number)
            && self.watches.len() >= self.shared.limits.boxes_per_connection_max;
        if full {
            return self.queue_frame(&done_frame(req, DoneCode::SlowDown, RETRY_BOXES_S));
        }
        let address = MailboxAddress::from_token(token);
        let watch = NEXT.fetch_add(1, Ordering::Relaxed);
        if let Some(old) = self.watches.insert(number, Watched { address, watch }) {
            self.in_flight.retain(|_, (of, _)| *of != old.watch);
            self.submit_job(WriterJob::Gone(vec![(old.address, old.watch)])).await?;
        }
        self.ask_writer(req, None, |answer| WriterJob::Watch { address, watch, number, answer })
            .await
    }

    /// Handles TAKEN. Only numbers count that this connection was given for this box.
    async fn handle_taken(&mut self, number: u16, mails: &[u32]) -> Result<(), End> {
        let Some(watched) = self.watches.get(&number) else { return Ok(()) };
        let address = watched.address;
        let watch = watched.watch;
        let mails: Vec<_> = mails.iter().filter_map(|nr| self.forget_mail(*nr, watch)).collect();
        if mails.is_empty() {
            return Ok(());
        }
        self.submit_job(WriterJob::Take { address, watch, mails }).await
    }

    /// Removes a mail in flight. Returns its id, or `None` if the number belongs to another watch.
    fn forget_mail(&mut self, nr: u32, watch: WatchId) -> Option<MailId> {
        match self.in_flight.get(&nr) {
            Some((of, id)) if *of == watch => {
                let id = *id;
                self.in_flight.remove(&nr);
                Some(id)
            }
            _ => None,
        }
    }
}
