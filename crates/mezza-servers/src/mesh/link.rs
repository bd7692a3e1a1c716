//! The carrier of the frames of one link: a group on a LAN, a stream over TCP, a channel over BLE.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use mezza_mesh::node::{LinkKind, LinkNumber};
use tokio::sync::mpsc;

use super::shell::MeshEvent;

/// Frames that a stream takes at once.
const STREAM_ROOM: usize = 32;

/// A link that is up. What it does not take is lost, as on the air, and asked for again.
pub(super) trait FrameLink: Send {
    /// How it carries frames.
    fn kind(&self) -> LinkKind;
    /// How old a frame usually is when it arrives, µs.
    fn delay_us(&self) -> u64;
    /// Frames that it takes at once.
    fn room(&self) -> usize;
    /// Sends a frame.
    fn send_frame(&mut self, frame: Vec<u8>);
    /// Frames that have left since this was asked last.
    fn take_sent_count(&mut self) -> usize;
    /// Returns true if its other end is gone.
    fn is_over(&self) -> bool;
    /// The link, for people.
    fn describe_state(&self) -> String;
}

/// Where a frame came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum FramePeer {
    /// By UDP or TCP.
    Ip(SocketAddr),
    /// By BLE: a random address.
    Ble([u8; 6]),
}

/// Events on links.
pub(super) enum MeshLinkEvent {
    /// A stream is up: which, to whom, and what takes its frames.
    Up { link: LinkNumber, peer: FramePeer, frames: Box<dyn FrameLink> },
    /// A frame came.
    Frame { link: LinkNumber, from: FramePeer, bytes: Vec<u8> },
    /// A stream ended.
    Down { link: LinkNumber },
}

impl MeshLinkEvent {
    /// The address that a frame came from, if it came by IP.
    pub(super) fn source_ip(&self) -> Option<SocketAddr> {
        match self {
            Self::Frame { from: FramePeer::Ip(address), .. } => Some(*address),
            _ => None,
        }
    }
}

/// Gives links their numbers, and tells what happens on them.
#[derive(Clone)]
pub(super) struct LinkSender {
    events: mpsc::Sender<MeshEvent>,
    numbers: Arc<AtomicU32>,
}

impl LinkSender {
    pub(super) fn new(events: mpsc::Sender<MeshEvent>) -> Self {
        Self { events, numbers: Arc::new(AtomicU32::new(0)) }
    }

    /// A number that no other link has.
    pub(super) fn next_number(&self) -> LinkNumber {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }

    /// Tells what happened; whether anybody still hears it.
    pub(super) async fn send_event(&self, event: MeshLinkEvent) -> bool {
        self.events.send(MeshEvent::Link(event)).await.is_ok()
    }
}

/// A stream to one peer: frames wait here for whoever writes them.
pub(super) struct StreamLink {
    kind: LinkKind,
    delay_us: u64,
    words: String,
    frames: mpsc::Sender<Vec<u8>>,
    left: Arc<AtomicUsize>,
}

/// The other end of a [`StreamLink`].
pub(super) struct StreamFrames {
    frames: mpsc::Receiver<Vec<u8>>,
    left: Arc<AtomicUsize>,
}

impl StreamLink {
    pub(super) fn new(kind: LinkKind, delay_us: u64, words: String) -> (Self, StreamFrames) {
        let (frames, waiting) = mpsc::channel(STREAM_ROOM);
        let left = Arc::new(AtomicUsize::new(0));
        let other = StreamFrames { frames: waiting, left: Arc::clone(&left) };
        (Self { kind, delay_us, words, frames, left }, other)
    }
}

impl StreamFrames {
    /// The next frame to write; `None` when the link is closed here.
    pub(super) async fn next_frame(&mut self) -> Option<Vec<u8>> {
        self.frames.recv().await
    }

    /// A frame was written.
    pub(super) fn mark_written(&self) {
        self.left.fetch_add(1, Ordering::Relaxed);
    }
}

impl FrameLink for StreamLink {
    fn kind(&self) -> LinkKind {
        self.kind
    }

    fn delay_us(&self) -> u64 {
        self.delay_us
    }

    fn room(&self) -> usize {
        STREAM_ROOM
    }

    fn send_frame(&mut self, frame: Vec<u8>) {
        // The node knows the room; a farewell alone may come on top.
        let _ = self.frames.try_send(frame);
    }

    fn take_sent_count(&mut self) -> usize {
        self.left.swap(0, Ordering::Relaxed)
    }

    fn is_over(&self) -> bool {
        self.frames.is_closed()
    }

    fn describe_state(&self) -> String {
        self.words.clone()
    }
}
