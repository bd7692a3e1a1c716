//! One link: frames over TLS. A task of its own reads and writes; queues on both sides are bounded.
//!
//! ```text
//! socket -> splitter -> frame -> events of the machine's task      (waits while these are many)
//! socket <------------- outbox <- frames of the machine            (full: the link is lost)
//! ```
//!
//! A machine never waits for a link, because two machines waiting for each other would deadlock.
//! The frames of a round are bounded, so a full outbox means that the peer does not read.

mod dial;
mod table;

pub use dial::dial;
pub use dial::{DialError, DialTarget, dial_with, keep_link_up};
pub use table::{LinkChange, LinkTable};

use std::future::poll_fn;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Poll, ready};
use std::time::Duration;

use crate::process::busy::Phase;
use crate::process::metrics::{Metric, Metrics};
use mezza_core::{DecodeError, Deframer};
use mezza_mixnet::limits::FRAME_BYTES_MAX;
use mezza_mixnet::wire::Frame;
use mezza_mixnet::wire::frame::{FRAME_HEAD_BYTES, LENGTH_BYTES, SHORT_FRAME_BYTES_MAX};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _, ReadBuf, split};
use tokio::sync::mpsc;
use tokio::time::timeout;

/// The ALPN protocol from coordinator to mix.
pub const CONTROL: &[u8] = b"mezza-mix-control/1";
/// The ALPN protocol from entry to first mix, and from mix to mix.
pub const DATA: &[u8] = b"mezza-mix-data/1";
/// The ALPN protocol from client to entry.
pub const CLIENT: &[u8] = b"mezza-mix-client/1";
/// The ALPN protocol from last mix and entry to the bucket store.
pub const STORE: &[u8] = b"mezza-mix-store/1";

/// Maximum frames queued to a server: four rounds of the largest batch, in frames of 512 onions.
pub const SERVER_FRAMES_MAX: usize = 32_768;
/// Maximum frames queued to one client.
pub const CLIENT_FRAMES_MAX: usize = 64;
/// Bytes per read on many links or with short frames.
const FEW: usize = 1_024;
/// Bytes per read on few links with long frames.
const MANY: usize = 65_536;
/// Time limit for a peer to read written bytes.
const WRITE: Duration = Duration::from_secs(30);

/// The bytes of one frame, shared if many links send the same.
#[derive(Clone, Debug)]
pub enum FrameBytes {
    /// For one link, in two pieces; the second is empty for short frames.
    Own([Vec<u8>; 2]),
    /// For many links.
    Shared(Arc<[u8]>),
}

impl FrameBytes {
    fn pieces(&self) -> [&[u8]; 2] {
        match self {
            Self::Own([head, long]) => [head, long],
            Self::Shared(bytes) => [bytes, &[]],
        }
    }
}

/// The outbox of a link. After it is dropped, the link closes once all frames are written.
pub type FrameSender = mpsc::Sender<FrameBytes>;

/// An event of a link.
#[derive(Debug)]
pub enum LinkEvent {
    /// The link is up, with its outbox.
    Up(FrameSender),
    /// A frame arrived.
    Frame(Frame),
    /// The link is down.
    Down,
}

/// Why a link ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum End {
    /// The peer closed the link.
    #[error("the other side went")]
    Gone,
    /// This side closed the link.
    #[error("hung up")]
    Left,
    /// The peer does not read.
    #[error("the other side does not read")]
    Stuck,
    /// A length that no frame of this link can have.
    #[error("a length that no frame here has")]
    Length,
    /// A malformed frame of this type.
    #[error("a malformed frame of type {0:#04x}")]
    Malformed(u8),
}

impl End {
    /// Logs why a link with a server ended, and counts protocol violations.
    fn log_end(self, peer: &str, metrics: &Metrics) {
        match self {
            Self::Left => tracing::info!(peer, "a link was left"),
            // The dialling side logs a warning if the peer stays unreachable.
            Self::Gone => tracing::info!(peer, "a link is down"),
            end => tracing::warn!(peer, %end, "a link is down"),
        }
        if self.is_mischief() {
            metrics.count(Metric::Malformed);
        }
    }

    /// Returns true if the peer violated the protocol.
    pub const fn is_mischief(self) -> bool {
        matches!(self, Self::Length | Self::Malformed(_))
    }
}

/// The maximum length of frames on a link, and its read size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameSizeClass {
    /// Frames up to 4,096 bytes: on control links, and from the many clients.
    Short,
    /// Frames up to 262,144 bytes, on few links.
    Long,
    /// Frames up to 262,144 bytes, with small buffers for many links.
    LongAndMany,
}

/// Returns a link number that is unique in the process.
pub fn next_link_number() -> u64 {
    static LINKS: AtomicU64 = AtomicU64::new(1);
    LINKS.fetch_add(1, Ordering::Relaxed)
}

/// Carries frames until the link ends. Each received frame becomes an event.
pub async fn carry_frames<E: Send>(
    stream: impl AsyncRead + AsyncWrite + Send,
    size: FrameSizeClass,
    parcels: mpsc::Receiver<FrameBytes>,
    events: &mpsc::Sender<E>,
    event: impl Fn(Frame) -> E + Send,
) -> End {
    let (mut reader, mut writer) = split(stream);
    let reading = async {
        match size {
            FrameSizeClass::Short => {
                read_frames::<E, SHORT_FRAME_BYTES_MAX, FEW>(&mut reader, events, event).await
            }
            FrameSizeClass::Long => {
                read_frames::<E, FRAME_BYTES_MAX, MANY>(&mut reader, events, event).await
            }
            FrameSizeClass::LongAndMany => {
                read_frames::<E, FRAME_BYTES_MAX, FEW>(&mut reader, events, event).await
            }
        }
    };
    tokio::select! {
        end = reading => end,
        end = write_parcels(&mut writer, parcels) => end,
    }
}

/// Carries a link between two servers, and reports its start and end under its own number. Returns
/// `None` if the receiver of `events` is closed.
pub async fn run_server_link<E: Send>(
    stream: impl AsyncRead + AsyncWrite + Send,
    protocol: &[u8],
    peer: &str,
    events: &mpsc::Sender<E>,
    metrics: &Metrics,
    event: impl Fn(u64, LinkEvent) -> E + Send + Sync,
) -> Option<()> {
    let (link, (outbox, parcels)) = (next_link_number(), mpsc::channel(SERVER_FRAMES_MAX));
    events.send(event(link, LinkEvent::Up(outbox))).await.ok()?;
    tracing::info!(peer, "a link is up");
    let size = if protocol == CONTROL { FrameSizeClass::Short } else { FrameSizeClass::Long };
    let frame = |frame| event(link, LinkEvent::Frame(frame));
    let carried = carry_frames(stream, size, parcels, events, frame);
    metrics.busy.time_task(Phase::Link, carried).await.log_end(peer, metrics);
    events.send(event(link, LinkEvent::Down)).await.ok()
}

async fn read_frames<E, const MAX: usize, const READ: usize>(
    reader: &mut (impl AsyncRead + Unpin),
    events: &mpsc::Sender<E>,
    event: impl Fn(Frame) -> E,
) -> End {
    let mut splitter = Deframer::<LENGTH_BYTES, FRAME_HEAD_BYTES, MAX>::default();
    loop {
        // The buffer is on the thread's stack, so an idle link keeps no buffer.
        let (frames, end) = poll_fn(|cx| {
            let mut bytes = [MaybeUninit::uninit(); READ];
            let mut buffer = ReadBuf::uninit(&mut bytes);
            let read = ready!(Pin::new(&mut *reader).poll_read(cx, &mut buffer));
            let bytes = if read.is_ok() { buffer.filled() } else { &[] };
            Poll::Ready(split_frames(&mut splitter, bytes))
        })
        .await;
        for frame in frames {
            if events.send(event(frame)).await.is_err() {
                return End::Left;
            }
        }
        if let Some(end) = end {
            return end;
        }
    }
}

/// Returns the frames that end in `input`, and the end of the link if one follows.
fn split_frames<const MAX: usize>(
    splitter: &mut Deframer<LENGTH_BYTES, FRAME_HEAD_BYTES, MAX>,
    mut input: &[u8],
) -> (Vec<Frame>, Option<End>) {
    let mut frames = Vec::new();
    if input.is_empty() {
        return (frames, Some(End::Gone));
    }
    loop {
        match next_frame(splitter, &mut input) {
            Ok(Some(frame)) => frames.push(frame),
            Ok(None) => return (frames, None),
            Err(end) => return (frames, Some(end)),
        }
    }
}

fn next_frame<const MAX: usize>(
    splitter: &mut Deframer<LENGTH_BYTES, FRAME_HEAD_BYTES, MAX>,
    input: &mut &[u8],
) -> Result<Option<Frame>, End> {
    let Some(bytes) = splitter.next_frame(input).map_err(|_: DecodeError| End::Length)? else {
        return Ok(None);
    };
    let kind = bytes.first().copied().unwrap_or_default();
    Frame::decode(&bytes).map(Some).map_err(|_| End::Malformed(kind))
}

async fn write_parcels(
    writer: &mut (impl AsyncWrite + Unpin),
    mut parcels: mpsc::Receiver<FrameBytes>,
) -> End {
    while let Some(parcel) = parcels.recv().await {
        let writing = async {
            for piece in parcel.pieces() {
                writer.write_all(piece).await?;
            }
            if parcels.is_empty() { writer.flush().await } else { Ok(()) }
        };
        match timeout(WRITE, writing).await {
            Ok(Ok(())) => {}
            Ok(Err(_)) => return End::Gone,
            Err(_) => return End::Stuck,
        }
    }
    let _ = timeout(WRITE, writer.shutdown()).await;
    End::Left
}

/// Encodes a frame for one link. Returns `None` if it exceeds the maximum length, which our frames
/// never do.
pub fn make_parcel(frame: Frame) -> Option<FrameBytes> {
    let kind = frame.kind();
    let pieces = frame.into_pieces();
    if pieces.is_err() {
        tracing::error!(kind, "a frame of ours is too long; please report it");
    }
    pieces.ok().map(FrameBytes::Own)
}

#[cfg(test)]
mod tests;
