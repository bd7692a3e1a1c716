//! One side of a connection pair: the task that reads its frames, and the task that writes.
//!
//! A reader hands over one frame and waits until the driver has carried out its consequences, so
//! frames of a side stay in order and none is queued. After the handshake the reader passes frames
//! of the link to the other side's writer itself.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use mezza_core::{Machine as _, Time};
use mezza_guard::guard::{GuardConnection, GuardSide};
use mezza_guard::shaper::Shaper;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{mpsc, oneshot};
use tokio::task::AbortHandle;
use tokio::time::{sleep, timeout};

use mezza_host::clock::Clock;
use mezza_host::process::limiter::ConnectionPermit;
use mezza_host::process::rng::OsRng;

use super::driver::ShellEvent;
use super::frames::{FrameCutter, is_of_link};

/// Frames that wait for a writer.
const FRAMES_MAX: usize = 8;
/// Bytes of a reader's buffer.
const BUFFER_BYTES: usize = 2_048;
/// Time without bytes in either direction after which a pair ends.
const IDLE: Duration = Duration::from_secs(3_600);
/// Time limit for the system to accept a frame.
const WRITE_WAIT: Duration = Duration::from_secs(30);
/// How long bytes are discarded after the end, so that the last frame still arrives.
const LINGER: Duration = Duration::from_secs(1);

/// Events of the tasks, for the driver.
#[derive(Debug)]
pub(crate) enum SideEvent {
    /// A whole frame; dropping the sender lets the reader continue.
    Frame { conn: GuardConnection, side: GuardSide, frame: Vec<u8>, read_on: oneshot::Sender<()> },
    /// The side is gone, or sent bytes that are no frame.
    Ended { conn: GuardConnection, side: GuardSide },
}

/// Facts that both readers of a pair share.
#[derive(Debug, Default)]
pub(crate) struct PairState {
    /// The writers of the inside and of the wire, once frames of the link pass without the driver.
    pump: OnceLock<[mpsc::Sender<Vec<u8>>; 2]>,
    is_over: AtomicBool,
    /// Reads of both sides so far.
    reads: AtomicU64,
}

impl PairState {
    /// Lets frames of the link pass without the driver from now on.
    pub(crate) fn begin_pump(&self, writers: [mpsc::Sender<Vec<u8>>; 2]) {
        // A pair is pumped once, so a second call changes nothing.
        let _ = self.pump.set(writers);
    }

    fn writer_beyond(&self, side: GuardSide) -> Option<&mpsc::Sender<Vec<u8>>> {
        let [inside, wire] = self.pump.get()?;
        Some(if side == GuardSide::Inside { wire } else { inside })
    }
}

/// The environment of the tasks.
#[derive(Clone)]
pub(crate) struct SideContext {
    pub(crate) events: mpsc::Sender<ShellEvent>,
    pub(crate) clock: Clock,
    pub(crate) tick_ms: u64,
}

/// The place of a side: its pair, and the permit of an accepted connection.
pub(crate) struct SidePlace {
    pub(crate) conn: GuardConnection,
    pub(crate) side: GuardSide,
    pub(crate) state: Arc<PairState>,
    pub(crate) permit: Option<Arc<ConnectionPermit>>,
}

/// A side in service.
#[derive(Debug)]
pub(crate) struct Side {
    frames: mpsc::Sender<Vec<u8>>,
    reader: AbortHandle,
}

impl Side {
    /// Starts the tasks of a connected socket.
    pub(crate) fn start(context: &SideContext, place: SidePlace, socket: TcpStream) -> Self {
        let (read, write) = socket.into_split();
        let (frames, queued) = mpsc::channel(FRAMES_MAX);
        // Only frames towards the wire are delayed: their time is a channel of the client.
        let tick_ms = if place.side == GuardSide::Wire { context.tick_ms } else { 0 };
        let ended = SideEvent::Ended { conn: place.conn, side: place.side };
        let pace = Pace::new(tick_ms, context.clock.clone());
        tokio::spawn(write_side(write, queued, pace, context.events.clone(), ended));
        let events = context.events.clone();
        let reader = tokio::spawn(async move {
            let Some(permit) = place.permit.clone() else {
                return read_side(read, place, events).await;
            };
            let ended = SideEvent::Ended { conn: place.conn, side: place.side };
            // A connection that makes room for another one ends like one that its peer has closed.
            if permit.run_while_held(read_side(read, place, events.clone())).await.is_none() {
                let _ = events.send(ShellEvent::Side(ended)).await;
            }
        });
        Self { frames, reader: reader.abort_handle() }
    }

    /// Queues a frame. Returns false if the side does not take frames.
    pub(crate) fn send_frame(&self, frame: Vec<u8>) -> bool {
        self.frames.try_send(frame).is_ok()
    }

    /// Returns the queue of the writer.
    pub(crate) fn writer(&self) -> mpsc::Sender<Vec<u8>> {
        self.frames.clone()
    }
}

/// Ends a pair: queued frames are still written, then the sockets close.
pub(crate) fn end_pair(state: &Arc<PairState>, sides: impl IntoIterator<Item = Side>) {
    state.is_over.store(true, Ordering::Relaxed);
    let readers: Vec<AbortHandle> = sides.into_iter().map(|side| side.reader).collect();
    // A socket that closes with unread bytes resets the connection, which would lose the last
    // frame. Readers therefore discard bytes for a moment.
    tokio::spawn(async move {
        sleep(LINGER).await;
        readers.iter().for_each(AbortHandle::abort);
    });
}

async fn read_side(mut socket: OwnedReadHalf, place: SidePlace, events: mpsc::Sender<ShellEvent>) {
    let SidePlace { conn, side, state, permit: _permit } = place;
    let mut cutter = FrameCutter::default();
    let mut buffer = vec![0; BUFFER_BYTES];
    loop {
        let before = state.reads.load(Ordering::Relaxed);
        let count = match timeout(IDLE, socket.read(&mut buffer)).await {
            Ok(Ok(count @ 1..)) => count,
            // The other side has sent something meanwhile, so the pair is in use.
            Err(_) if state.reads.load(Ordering::Relaxed) != before => continue,
            _ => break,
        };
        state.reads.fetch_add(1, Ordering::Relaxed);
        let mut input = buffer.get(..count).unwrap_or_default();
        loop {
            // After the end nothing is accepted any more.
            if state.is_over.load(Ordering::Relaxed) {
                break;
            }
            let Ok(next) = cutter.next_frame(&mut input) else {
                let _ = events.send(ShellEvent::Side(SideEvent::Ended { conn, side })).await;
                return discard_rest(socket).await;
            };
            let Some(frame) = next else { break };
            if pass_frame(&state, side, frame, conn, &events).await.is_none() {
                return discard_rest(socket).await;
            }
        }
    }
    let _ = events.send(ShellEvent::Side(SideEvent::Ended { conn, side })).await;
}

/// Passes a frame on. Returns `None` if there is no one left to take it.
async fn pass_frame(
    state: &PairState,
    side: GuardSide,
    frame: Vec<u8>,
    conn: GuardConnection,
    events: &mpsc::Sender<ShellEvent>,
) -> Option<()> {
    if is_of_link(&frame)
        && let Some(writer) = state.writer_beyond(side)
    {
        return writer.send(frame).await.ok();
    }
    let (read_on, carried_out) = oneshot::channel();
    let event = SideEvent::Frame { conn, side, frame, read_on };
    events.send(ShellEvent::Side(event)).await.ok()?;
    // The driver drops its end when all consequences are carried out.
    let _ = carried_out.await;
    Some(())
}

/// Reads and discards until the other end closes; the driver ends this task after a moment.
async fn discard_rest(mut socket: OwnedReadHalf) {
    let mut buffer = [0; 256];
    while let Ok(1..) = socket.read(&mut buffer).await {}
}

async fn write_side(
    mut socket: OwnedWriteHalf,
    mut queued: mpsc::Receiver<Vec<u8>>,
    mut pace: Pace,
    events: mpsc::Sender<ShellEvent>,
    ended: SideEvent,
) {
    while let Some(frame) = queued.recv().await {
        let frame = pace.delay_frame(frame).await;
        let written = timeout(WRITE_WAIT, socket.write_all(&frame)).await;
        if !matches!(written, Ok(Ok(()))) {
            // A side that takes no bytes would hold the frames of the other one.
            drop(queued);
            let _ = events.send(ShellEvent::Side(ended)).await;
            return;
        }
    }
    // The end of a connection is visible too, so it waits for a tick.
    pace.delay_frame(Vec::new()).await;
    let _ = socket.shutdown().await;
}

/// The times at which frames leave.
struct Pace {
    shaper: Shaper,
    clock: Clock,
    tick_ms: u64,
}

impl Pace {
    fn new(tick_ms: u64, clock: Clock) -> Self {
        Self { shaper: Shaper::new(tick_ms), clock, tick_ms }
    }

    fn now(&self) -> Time {
        self.clock.boot()
    }

    /// Waits for the tick of a frame, and returns it.
    async fn delay_frame(&mut self, frame: Vec<u8>) -> Vec<u8> {
        if self.tick_ms == 0 {
            return frame;
        }
        let now = self.now();
        // The queue holds this frame alone, so it is never full.
        let _ = self.shaper.handle(frame, now, &mut OsRng);
        loop {
            if let Some(frame) = self.shaper.poll() {
                return frame;
            }
            let due = self.shaper.deadline().map_or(0, |due| due.since_ms(self.now()));
            sleep(Duration::from_millis(due)).await;
            let now = self.now();
            self.shaper.wake(now, &mut OsRng);
        }
    }
}
