//! One client's connection: frames in become jobs, events out become frames.
//!
//! ```text
//!  TLS accepted --HELLO--> reading and writing --malformed, silence, stop, client gone--> ended
//! ```
//!
//! One task reads and writes, so the relay stops reading from a client that does not read its
//! responses.

mod requests;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mezza_core::{FrameTooLong, Time};
use mezza_messenger::relay_wire::{
    ALPN, ENVELOPE_BYTES_MAX, RelayDeframer, RelayFrame, VERSION, encode_mail,
};
use mezza_messenger::relay_wire::{DoneCode, MailboxAddress};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, watch};
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::limits::Limits;
use super::server::wait_stopped;
use super::usage::{Account, Usage};
use super::writer::{ConnectionQueue, Jobs, Lane, MailId, WatchId, WriterEvent, WriterJob};
use mezza_host::clock::Clock;
use mezza_host::connection::tap::{Direction, Side, Tap, TapPoint, Tapped};
use mezza_host::process::limiter::{ConnectionPermit, secure_socket};
use mezza_host::process::rate::TokenBucket;

/// Bytes read at once; also what an idle connection keeps for reading.
const READ_BYTES: usize = 4_096;
/// Bytes gathered before they are written.
const WRITE_BYTES: usize = 32 << 10;
/// How long a closing connection waits for its responses, and then for the client to disconnect.
const LEAVE: Duration = Duration::from_millis(700);
/// The wait in the refusal of a client over the limit of connections, s.
const RETRY_CONNECT_S: u16 = 60;
/// A frame counts as one more unit of work for each of these bytes.
const WORK_BYTES: usize = 4_096;

/// The parts that all connections of one relay share.
pub(super) struct Shared {
    pub(super) limits: Limits,
    pub(super) clock: Clock,
    pub(super) usage: Usage,
    pub(super) jobs: Jobs,
    pub(super) tls: TlsAcceptor,
    pub(super) tap: Option<Arc<dyn Tap>>,
}

/// Why a connection ends. No value names a person or an address.
#[derive(Debug, thiserror::Error)]
enum End {
    #[error("the client is gone")]
    Gone,
    #[error("the client sent what is no frame")]
    Malformed,
    #[error("a transaction failed of which the client saw mail")]
    Failed,
    #[error("the client did not read in time")]
    Stuck,
    #[error("the writer is gone")]
    Stopped,
}

impl From<io::Error> for End {
    fn from(_: io::Error) -> Self {
        Self::Gone
    }
}

impl From<FrameTooLong> for End {
    fn from(_: FrameTooLong) -> Self {
        Self::Failed
    }
}

/// A box that this connection watches.
struct Watched {
    address: MailboxAddress,
    watch: WatchId,
}

struct Connection {
    shared: Arc<Shared>,
    account: Account,
    stream: Box<TlsStream<Tapped<TcpStream>>>,
    point: TapPoint,
    splitter: RelayDeframer,
    lane: Lane,
    outlet: ConnectionQueue,
    events: mpsc::Receiver<WriterEvent>,
    watches: BTreeMap<u16, Watched>,
    /// Mail sent on this connection and not yet TAKEN, by its number.
    in_flight: BTreeMap<u32, (WatchId, MailId)>,
    last_nr: u32,
    puts: TokenBucket,
    bundle_gets: TokenBucket,
    /// The work budget of this connection; its clock starts with the connection.
    work: TokenBucket,
    began: Instant,
    /// Requests at the writer without a response yet.
    pending: usize,
    out: Vec<u8>,
}

/// Serves one client until it leaves or `stop` turns true.
pub(super) async fn serve_client(
    shared: Arc<Shared>,
    socket: TcpStream,
    account: Account,
    permit: &ConnectionPermit,
    mut stop: watch::Receiver<bool>,
) {
    let accepting = Connection::accept(shared, socket, account, &mut stop);
    let Some(Some(mut connection)) = permit.run_while_held(accepting).await else { return };
    permit.end_handshake();
    let served = async {
        let end = connection.run(stop).await;
        connection.wind_down(end).await;
    };
    if permit.run_while_held(served).await.is_none() {
        connection.end_watches().await;
    }
}

/// Tells a client over the limit of connections when to come back.
pub(super) async fn refuse_client(
    shared: Arc<Shared>,
    socket: TcpStream,
    account: Account,
    mut stop: watch::Receiver<bool>,
) {
    let connection = Connection::accept(shared, socket, account, &mut stop).await;
    let Some(mut connection) = connection else { return };
    let end = connection.send_slow_down().await;
    connection.wind_down(end).await;
}

impl Connection {
    /// Accepts TLS with our protocol within the time limit.
    async fn accept(
        shared: Arc<Shared>,
        socket: TcpStream,
        account: Account,
        stop: &mut watch::Receiver<bool>,
    ) -> Option<Self> {
        let point = TapPoint::new(shared.tap.clone());
        let tapped = Tapped::new(socket, point.clone(), Direction::ToRelay);
        let patience = Duration::from_millis(shared.limits.handshake_ms);
        let accepted = tokio::select! {
            accepted = secure_socket(&shared.tls, tapped, patience) => accepted,
            () = wait_stopped(stop) => return None,
        };
        let Some(stream) = accepted else {
            tracing::debug!("a client got no further than TLS");
            return None;
        };
        if stream.get_ref().1.alpn_protocol() != Some(ALPN) {
            tracing::debug!("a client spoke another protocol");
            return None;
        }
        Some(Self::new(shared, account, stream, point))
    }

    fn new(
        shared: Arc<Shared>,
        account: Account,
        stream: Box<TlsStream<Tapped<TcpStream>>>,
        point: TapPoint,
    ) -> Self {
        let (outlet, events) = ConnectionQueue::new(shared.limits.pending_max);
        let lane = shared.jobs.open_lane(shared.limits.queued_work_max);
        Self {
            shared,
            account,
            stream,
            point,
            splitter: RelayDeframer::default(),
            lane,
            outlet,
            events,
            watches: BTreeMap::new(),
            in_flight: BTreeMap::new(),
            last_nr: 0,
            puts: TokenBucket::default(),
            bundle_gets: TokenBucket::default(),
            work: TokenBucket::default(),
            began: Instant::now(),
            pending: 0,
            out: Vec::new(),
        }
    }

    async fn send_slow_down(&mut self) -> Result<(), End> {
        self.send_hello().await?;
        self.queue_frame(&done_frame(0, DoneCode::SlowDown, RETRY_CONNECT_S))?;
        self.write_out().await
    }

    async fn wind_down(&mut self, end: Result<(), End>) {
        self.finish_requests().await;
        if !matches!(end, Err(End::Gone | End::Stuck)) {
            self.discard_unread().await;
        }
        tracing::debug!(end = end.err().map(tracing::field::display), "a connection ended");
    }

    async fn run(&mut self, mut stop: watch::Receiver<bool>) -> Result<(), End> {
        self.send_hello().await?;
        let idle = Duration::from_millis(self.shared.limits.idle_ms);
        let mut buffer = vec![0; READ_BYTES];
        loop {
            let reading = self.pending < self.shared.limits.pending_max;
            tokio::select! {
                () = wait_stopped(&mut stop) => return Ok(()),
                event = self.events.recv() => self.deliver_events(event.ok_or(End::Stopped)?).await?,
                read = self.stream.read(&mut buffer), if reading => match read? {
                    0 => return Err(End::Gone),
                    count => self.feed_bytes(&buffer[..count]).await?,
                },
                () = sleep(idle), if reading => return Err(End::Gone),
            }
        }
    }

    async fn send_hello(&mut self) -> Result<(), End> {
        self.queue_frame(&RelayFrame::Hello {
            version: VERSION,
            now_ms: self.shared.clock.wall().as_ms(),
            envelope_bytes_max: ENVELOPE_BYTES_MAX as u32,
            ttl_h_max: self.shared.limits.ttl_h_max,
        })?;
        self.write_out().await
    }

    /// Handles bytes from the client.
    async fn feed_bytes(&mut self, mut bytes: &[u8]) -> Result<(), End> {
        while !bytes.is_empty() {
            let handled = match self.splitter.next_frame(&mut bytes) {
                Ok(None) => break,
                Ok(Some(frame)) => self.handle(&frame).await,
                Err(_) => Err(End::Malformed),
            };
            if matches!(handled, Err(End::Malformed)) {
                self.queue_frame(&done_frame(0, DoneCode::Refused, 0))?;
                self.write_out().await?;
            }
            handled?;
        }
        self.write_out().await?;
        // Events may have been delivered while a frame waited for work.
        self.look_up().await
    }

    /// Handles an event from the writer and the events queued after it.
    async fn deliver_events(&mut self, first: WriterEvent) -> Result<(), End> {
        let mut next = Some(first);
        while let Some(event) = next {
            self.handle_event(event)?;
            next = if self.out.len() < WRITE_BYTES { self.events.try_recv().ok() } else { None };
        }
        self.write_out().await?;
        self.look_up().await
    }

    /// Checks the signals that a full queue could not carry: that this connection must end, or that
    /// waiting mail now has room.
    async fn look_up(&mut self) -> Result<(), End> {
        if self.outlet.is_ended() {
            return Err(End::Failed);
        }
        if self.events.is_empty() && self.outlet.was_stalled() {
            let watches = self.watches.values().map(|w| (w.address, w.watch)).collect();
            self.submit_job(WriterJob::Resume(watches)).await?;
        }
        Ok(())
    }

    fn handle_event(&mut self, event: WriterEvent) -> Result<(), End> {
        match event {
            WriterEvent::Answer(frame) => {
                self.pending = self.pending.saturating_sub(1);
                self.queue_frame(&frame)
            }
            WriterEvent::Unasked(frame) => self.queue_frame(&frame),
            WriterEvent::Mail { number, watch, id, envelope } => {
                self.outlet.mail_sent(envelope.len());
                let work = work_of(envelope.len());
                let now = self.age();
                self.work.spend(self.shared.limits.work, work, now);
                // A watch that was replaced meanwhile gets no more mail.
                if self.watches.get(&number).is_none_or(|watched| watched.watch != watch) {
                    return Ok(());
                }
                self.last_nr = self.last_nr.wrapping_add(1);
                self.in_flight.insert(self.last_nr, (watch, id));
                debug_assert!(self.numbers_are_of_watches(), "numbers outlive their watch");
                self.push_out(encode_mail(number, self.last_nr, &envelope)?);
                Ok(())
            }
            WriterEvent::End => Err(End::Failed),
        }
    }

    /// Returns true if each mail in flight belongs to an active watch: repeated WATCH must not cost
    /// memory.
    fn numbers_are_of_watches(&self) -> bool {
        let watches: BTreeSet<_> = self.watches.values().map(|watched| watched.watch).collect();
        self.in_flight.values().all(|(of, _)| watches.contains(of))
    }

    /// Appends a frame to the output.
    fn queue_frame(&mut self, frame: &RelayFrame) -> Result<(), End> {
        self.push_out(frame.encode()?);
        Ok(())
    }

    fn push_out(&mut self, frame: Vec<u8>) {
        self.point.record(Side::Frame, Direction::ToClient, &frame);
        if self.out.is_empty() {
            self.out = frame;
        } else {
            self.out.extend_from_slice(&frame);
        }
    }

    /// Writes the collected output, and frees its buffer.
    async fn write_out(&mut self) -> Result<(), End> {
        if self.out.is_empty() {
            return Ok(());
        }
        let out = std::mem::take(&mut self.out);
        let patience = Duration::from_millis(self.shared.limits.write_ms);
        let writing = async {
            self.stream.write_all(&out).await?;
            self.stream.flush().await
        };
        timeout(patience, writing).await.map_err(|_| End::Stuck)?.map_err(End::from)
    }

    /// Passes a job to the writer; waits for a free slot in the writer's queue.
    async fn submit_job(&mut self, job: WriterJob) -> Result<(), End> {
        self.pace_work(job.work_units().into()).await?;
        if self.lane.send(job).await { Ok(()) } else { Err(End::Stopped) }
    }

    /// Waits until the work budget of this connection allows `work`; delivers events meanwhile.
    async fn pace_work(&mut self, work: u64) -> Result<(), End> {
        let rate = self.shared.limits.work;
        loop {
            let now = self.age();
            let wait_ms = self.work.wait_ms(rate, work, now);
            if wait_ms == 0 {
                self.work.spend(rate, work, now);
                return Ok(());
            }
            self.write_out().await?;
            tokio::select! {
                () = sleep(Duration::from_millis(wait_ms)) => {}
                event = self.events.recv() => self.handle_event(event.ok_or(End::Stopped)?)?,
            }
        }
    }

    /// Returns the time since the connection began, which steps of the wall clock do not change.
    fn age(&self) -> Time {
        Time::from_ms(self.began.elapsed().as_millis() as u64)
    }

    /// Sends the responses that are still pending, then ends the watches.
    async fn finish_requests(&mut self) {
        let answers = async {
            while self.pending > 0 {
                let Some(event) = self.events.recv().await else { break };
                if self.handle_event(event).is_err() || self.write_out().await.is_err() {
                    break;
                }
            }
            drop(self.stream.shutdown().await);
        };
        drop(timeout(LEAVE, answers).await);
        self.end_watches().await;
    }

    /// Ends all watches of this connection.
    async fn end_watches(&mut self) {
        let watches: Vec<_> = self.watches.values().map(|w| (w.address, w.watch)).collect();
        if !watches.is_empty() {
            self.lane.send(WriterJob::Gone(watches)).await;
        }
    }

    /// Reads and discards the client's remaining bytes. Closing a socket with unread bytes makes
    /// TCP reset the connection, and the client loses the response that states the reason.
    async fn discard_unread(&mut self) {
        let socket = self.stream.get_mut().0;
        let mut buffer = vec![0; READ_BYTES];
        let unread = async { while matches!(socket.read(&mut buffer).await, Ok(1..)) {} };
        drop(timeout(LEAVE, unread).await);
    }
}

/// Makes a DONE frame.
fn done_frame(req: u16, code: DoneCode, retry_s: u16) -> RelayFrame {
    RelayFrame::Done { req, code, retry_s }
}

/// Returns the units of work of a frame with `bytes` bytes.
fn work_of(bytes: usize) -> u64 {
    1 + (bytes / WORK_BYTES) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn msg_72_the_smallest_frame_makes_work_and_a_long_one_more() {
        assert_eq!([0, 1, 4_095, 4_096, 8_191, 8_192].map(work_of), [1, 1, 1, 2, 2, 3]);
    }
}
