//! The carrier of the frames of one link: a group on a LAN, a stream over TCP, a channel over BLE.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use mezza_mesh::node::{LinkKind, LinkNumber};
use tokio::sync::mpsc;

use super::shell::MeshEvent;

/// Maximum number of frames that wait for a stream.
const STREAM_ROOM: usize = 32;

/// A link that is up. A frame beyond its room is lost, as on the air; the receiver requests the
/// cell again.
pub(super) trait FrameLink: Send {
    /// The medium of the link.
    fn kind(&self) -> LinkKind;
    /// How old a frame usually is when it arrives, µs.
    fn delay_us(&self) -> u64;
    /// Maximum number of frames that the link accepts at once.
    fn room(&self) -> usize;
    /// Sends a frame.
    fn send_frame(&mut self, frame: Vec<u8>);
    /// Returns the number of frames sent since the last call.
    fn take_sent_count(&mut self) -> usize;
    /// Returns true if the other end of the link is gone.
    fn is_over(&self) -> bool;
    /// Describes the link for the user.
    fn describe_state(&self) -> String;
}

/// The address of a frame's sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum FramePeer {
    /// An IP address and port, for UDP and TCP.
    Ip(SocketAddr),
    /// A random Bluetooth address.
    Ble([u8; 6]),
}

/// Events on links.
pub(super) enum MeshLinkEvent {
    /// A stream is up: its number, its peer, and the sender of its frames.
    Up { link: LinkNumber, peer: FramePeer, frames: Box<dyn FrameLink> },
    /// A frame arrived.
    Frame { link: LinkNumber, from: FramePeer, bytes: Vec<u8> },
    /// A stream ended.
    Down { link: LinkNumber },
}

impl MeshLinkEvent {
    /// Returns the IP address of a frame's sender, or `None` if the frame came by BLE.
    pub(super) fn source_ip(&self) -> Option<SocketAddr> {
        match self {
            Self::Frame { from: FramePeer::Ip(address), .. } => Some(*address),
            _ => None,
        }
    }
}

/// Numbers links, and sends their events to the node.
#[derive(Clone)]
pub(super) struct LinkSender {
    events: mpsc::Sender<MeshEvent>,
    numbers: Arc<AtomicU32>,
}

impl LinkSender {
    pub(super) fn new(events: mpsc::Sender<MeshEvent>) -> Self {
        Self { events, numbers: Arc::new(AtomicU32::new(0)) }
    }

    /// Returns a number that no other link has.
    pub(super) fn next_number(&self) -> LinkNumber {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }

    /// Sends an event to the node. Returns false if the node has ended.
    pub(super) async fn send_event(&self, event: MeshLinkEvent) -> bool {
        self.events.send(MeshEvent::Link(event)).await.is_ok()
    }
}

/// A stream to one peer. Its frames wait here until the task that writes them sends them.
pub(super) struct StreamLink {
    kind: LinkKind,
    delay_us: u64,
    words: String,
    frames: mpsc::Sender<Vec<u8>>,
    left: Arc<AtomicUsize>,
}

/// The writer's end of a [`StreamLink`].
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
    /// Waits for the next frame to write. Returns `None` once the link is closed on this side.
    pub(super) async fn next_frame(&mut self) -> Option<Vec<u8>> {
        self.frames.recv().await
    }

    /// Counts a frame as sent.
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
        // The node sends no more frames than the stream has room for. Only a BYE may exceed it, and
        // is dropped then.
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
