//! The thread of a link that sends: from its interface to its carrier.

use std::sync::Arc;
use std::time::{Duration, Instant};

use mezza_seka::limits::TAG_BYTES;
use mezza_seka::offload::{Cut, SegmentShape, VIRTIO_BYTES, VirtioHeader, fragment_flags};
use mezza_seka::suite::FrameKey;
use mezza_seka::wire::{DATA_HEADER_BYTES, DATA_OVERHEAD_BYTES};
use mezza_seka::{LinkSession, Sealer};
use tokio::sync::mpsc;

use super::TunnelEvent;
use super::address::Endpoint;
use super::shared::{Drop, LinkShared};
use super::tap::{TAP_READ_BYTES, may_pass};

/// How long a frame waits for the first session.
const SESSION_WAIT: Duration = Duration::from_secs(1);
/// Where the text of a frame begins behind the start of its datagram: the header, then flags.
const FRAME_AT: usize = DATA_HEADER_BYTES + 1;

/// The state of the thread.
struct Transmitter<F> {
    link: Arc<LinkShared>,
    events: mpsc::Sender<TunnelEvent>,
    sealer: Sealer<F>,
    /// Datagrams of a super-frame, one behind the other.
    row: Vec<u8>,
    /// Whether a frame has waited in vain since there was a session.
    gave_up: bool,
    asked: Option<Instant>,
}

/// Sends what the interface hands over, until the interface is gone.
pub(super) fn run<F: FrameKey>(link: Arc<LinkShared>, events: mpsc::Sender<TunnelEvent>) {
    link.i_am_sender();
    let mut buffer = vec![0; TAP_READ_BYTES + TAG_BYTES];
    let mut transmitter = Transmitter::<F> {
        link,
        events,
        sealer: Sealer::default(),
        row: Vec::new(),
        gave_up: false,
        asked: None,
    };
    while let Ok(bytes) = transmitter.link.tap.read(&mut buffer[..TAP_READ_BYTES]) {
        transmitter.take(&mut buffer, bytes);
    }
}

impl<F: FrameKey> Transmitter<F> {
    /// One frame or super-frame: `virtio header | frame`, `bytes` long, with room for a tag behind.
    fn take(&mut self, buffer: &mut [u8], bytes: usize) {
        let Some(virtio) = buffer[..bytes].first_chunk::<VIRTIO_BYTES>() else { return };
        let virtio = VirtioHeader::decode(virtio);
        let frame = &mut buffer[VIRTIO_BYTES..bytes];
        if !may_pass(frame) {
            return;
        }
        let shape = SegmentShape::of(&virtio, frame, self.link.room);
        let count = match &shape {
            SegmentShape::Dropped => return self.link.counters.dropped(Drop::Fragment),
            SegmentShape::Whole(_) => 1,
            SegmentShape::Fragments { count, .. } => *count,
            SegmentShape::Segments(cut) => cut.count(),
        };
        // SEKA-44: all packet numbers of a super-frame are reserved in one step.
        let Some((session, packet)) = self.reserve(count) else {
            return self.link.counters.dropped(Drop::Late);
        };
        let Some(to) = self.link.endpoint.load_full() else {
            return self.link.counters.dropped(Drop::Queue);
        };
        let sent = match shape {
            SegmentShape::Whole(flags) => {
                self.send_whole(&mut buffer[..bytes + TAG_BYTES], flags, (&session, packet), &to)
            }
            SegmentShape::Fragments { count, bytes: each, flags } => {
                let frame = &buffer[VIRTIO_BYTES..bytes];
                self.send_fragments((frame, count, each, flags), (&session, packet), &to)
            }
            SegmentShape::Segments(cut) => {
                let frame = &buffer[VIRTIO_BYTES..bytes];
                self.send_segments(frame, &cut, (&session, packet), &to)
            }
            SegmentShape::Dropped => Ok(()),
        };
        match sent {
            Ok(()) => self.link.counters.sent(count, bytes - VIRTIO_BYTES),
            Err(_) => self.link.counters.dropped(Drop::Queue),
        }
    }

    /// Packet numbers of the session to send under; without one, or at its limit, it is asked for and
    /// waited for.
    fn reserve(&mut self, count: usize) -> Option<(Arc<LinkSession>, u32)> {
        let begun = Instant::now();
        loop {
            let session = self.link.sending.load_full();
            let reserved = session.as_ref().and_then(|session| session.reserve(count as u32));
            if let (Some(session), Some(packet)) = (session, reserved) {
                self.gave_up = false;
                return Some((session, packet));
            }
            self.ask();
            let left = SESSION_WAIT.saturating_sub(begun.elapsed());
            if self.gave_up || left.is_zero() {
                self.gave_up = true;
                return None;
            }
            std::thread::park_timeout(left);
        }
    }

    /// Tells the machine that frames wait, once a second.
    fn ask(&mut self) {
        if self.asked.is_none_or(|at| at.elapsed() >= SESSION_WAIT) {
            self.asked = Some(Instant::now());
            let _ = self.events.try_send(TunnelEvent::Wanted(self.link.number));
        }
    }

    /// One frame, in the place where it was read: header and flags take the place of the last nine
    /// bytes of the virtio header, so that nothing is copied.
    fn send_whole(
        &mut self,
        buffer: &mut [u8],
        flags: u8,
        (session, packet): (&LinkSession, u32),
        to: &Endpoint,
    ) -> std::io::Result<()> {
        let datagram = &mut buffer[VIRTIO_BYTES - FRAME_AT..];
        datagram[DATA_HEADER_BYTES] = flags;
        self.sealer.seal(session, packet, datagram);
        self.link.carrier.send(to, datagram)
    }

    fn send_fragments(
        &mut self,
        (frame, count, each, flags): (&[u8], usize, usize, u8),
        (session, packet): (&LinkSession, u32),
        to: &Endpoint,
    ) -> std::io::Result<()> {
        for (index, part) in frame.chunks(each).enumerate() {
            self.row.clear();
            self.row.resize(part.len() + DATA_OVERHEAD_BYTES, 0);
            self.row[DATA_HEADER_BYTES] = flags | fragment_flags(index, count);
            self.row[FRAME_AT..FRAME_AT + part.len()].copy_from_slice(part);
            self.sealer.seal(session, packet + index as u32, &mut self.row);
            self.link.carrier.send(to, &self.row)?;
        }
        Ok(())
    }

    fn send_segments(
        &mut self,
        frame: &[u8],
        cut: &Cut,
        (session, packet): (&LinkSession, u32),
        to: &Endpoint,
    ) -> std::io::Result<()> {
        let each = cut.segment_frame_bytes() + DATA_OVERHEAD_BYTES;
        if self.row.len() < each * cut.count() {
            self.row.resize(each * cut.count(), 0);
        }
        let mut end = 0;
        for index in 0..cut.count() {
            let place = &mut self.row[index * each..(index + 1) * each];
            let (flags, bytes) = cut.write(frame, index, &mut place[FRAME_AT..]);
            place[DATA_HEADER_BYTES] = flags;
            let datagram = &mut place[..bytes + DATA_OVERHEAD_BYTES];
            self.sealer.seal(session, packet + index as u32, datagram);
            end = index * each + bytes + DATA_OVERHEAD_BYTES;
        }
        self.link.carrier.send_row(to, &self.row[..end], each)
    }
}
