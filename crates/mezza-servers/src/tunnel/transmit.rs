//! The sending thread of a link: from its interface to its carrier.

use std::sync::Arc;
use std::time::{Duration, Instant};

use mezza_seka::limits::TAG_BYTES;
use mezza_seka::offload::{
    Cut, PARTIAL, SegmentShape, VIRTIO_BYTES, VirtioHeader, fragment_flags, fragments_of,
};
use mezza_seka::suite::FrameKey;
use mezza_seka::wire::{DATA_HEADER_BYTES, DATA_OVERHEAD_BYTES};
use mezza_seka::{LinkSession, Sealer};
use tokio::sync::mpsc;

use super::TunnelEvent;
use super::address::Endpoint;
use super::shared::{Drop, LinkShared, Road};
use super::tap::{TAP_READ_BYTES, may_pass};

/// How often an idle thread checks whether the session of its key has ended, ms.
const KEY_LOOK_MS: u16 = 1_000;
/// How long a frame waits for the first session.
const SESSION_WAIT: Duration = Duration::from_secs(1);
/// Offset of the text in a datagram: the header, then flags.
const FRAME_AT: usize = DATA_HEADER_BYTES + 1;

/// How often one super-frame is split again for a path that turns out narrower each time.
const NARROWED_MAX: usize = 3;

/// The session that seals frames, and their destination.
struct Way<'a> {
    session: &'a LinkSession,
    /// The packet number of the next frame.
    packet: u32,
    road: &'a Road,
    to: &'a Endpoint,
}

/// The state of the thread.
struct Transmitter<F> {
    link: Arc<LinkShared>,
    events: mpsc::Sender<TunnelEvent>,
    sealer: Sealer<F>,
    /// The datagrams of a super-frame, one after another.
    row: Vec<u8>,
    /// True if a frame was dropped for lack of a session; the next frames do not wait.
    gave_up: bool,
    asked: Option<Instant>,
}

/// Sends the frames of the interface until the interface is gone.
pub(super) fn transmit_frames<F: FrameKey>(
    link: Arc<LinkShared>,
    events: mpsc::Sender<TunnelEvent>,
) {
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
    loop {
        // Without a key there is nothing to wipe, so the thread sleeps until a frame comes.
        let wait = transmitter.sealer.holds_key().then_some(KEY_LOOK_MS);
        match transmitter.link.tap.read(&mut buffer[..TAP_READ_BYTES], wait) {
            Ok(Some(bytes)) => transmitter.transmit_frame(&mut buffer, bytes),
            Ok(None) => transmitter.wipe_old_key(),
            Err(_) => break,
        }
    }
    // The interface was removed, by the daemon or by another program.
    let _ = transmitter.events.blocking_send(TunnelEvent::Unplugged(transmitter.link.number));
}

impl<F: FrameKey> Transmitter<F> {
    /// Wipes the key of a session that ended or was replaced, since no frame on an idle link
    /// triggers this (SEKA-44).
    fn wipe_old_key(&mut self) {
        let session = self.link.sending.load_full();
        self.sealer.keep_only(session.as_deref());
    }

    /// Sends one frame or super-frame: `virtio header | frame` of `bytes` bytes, with room for a
    /// tag after it.
    fn transmit_frame(&mut self, buffer: &mut [u8], bytes: usize) {
        let Some(virtio) = buffer[..bytes].first_chunk::<VIRTIO_BYTES>() else { return };
        let virtio = VirtioHeader::decode(virtio);
        let frame = &mut buffer[VIRTIO_BYTES..bytes];
        if !may_pass(frame) {
            return self.link.counters.count_dropped(Drop::Reserved);
        }
        let mut shape = SegmentShape::for_frame(&virtio, frame, self.link.room());
        for _ in 0..NARROWED_MAX {
            let Err(why) = self.send_shape(buffer, bytes, shape) else { return };
            let is_cut = matches!(
                shape,
                SegmentShape::Segments(_) | SegmentShape::FragmentedSegments { .. }
            );
            // A super-frame is still unencrypted in the read buffer, and can be split again.
            if why != Drop::TooLong || !is_cut || !self.narrow_path() {
                return self.link.counters.count_dropped(why);
            }
            shape = SegmentShape::for_frame(
                &virtio,
                &mut buffer[VIRTIO_BYTES..bytes],
                self.link.room(),
            );
        }
        self.link.counters.count_dropped(Drop::TooLong);
    }

    /// Seals and sends a frame in its shape.
    fn send_shape(
        &mut self,
        buffer: &mut [u8],
        bytes: usize,
        shape: SegmentShape,
    ) -> Result<(), Drop> {
        if shape == SegmentShape::Dropped {
            return Err(Drop::Fragment);
        }
        let count = shape.frame_count();
        // SEKA-44: all packet numbers of a super-frame are reserved in one step.
        let (session, packet) = self.reserve_numbers(count).ok_or(Drop::Late)?;
        let road = self.link.road.load_full().ok_or(Drop::Unreachable)?;
        let to = self.link.endpoint.load_full().ok_or(Drop::Unreachable)?;
        let mut way = Way { session: &session, packet, road: &road, to: &to };
        let frame = &buffer[VIRTIO_BYTES..bytes];
        let sent = match shape {
            SegmentShape::Whole(flags) => {
                self.send_whole(&mut buffer[..bytes + TAG_BYTES], flags, &way)
            }
            SegmentShape::Fragments { bytes: each, flags, .. } => {
                self.send_fragments(frame, each, flags, &mut way)
            }
            SegmentShape::Segments(cut) => self.send_segments(frame, &cut, &way),
            SegmentShape::FragmentedSegments { cut, bytes: each } => {
                self.send_fragmented(frame, &cut, each, &mut way)
            }
            SegmentShape::Dropped => Ok(()),
        };
        sent.map_err(|error| Drop::of_error(&error))?;
        self.link.counters.count_sent(count, bytes - VIRTIO_BYTES);
        Ok(())
    }

    /// Reads the route's MTU after the path refused a frame. Returns true if frames will be smaller
    /// from now on.
    fn narrow_path(&self) -> bool {
        let road = self.link.road.load_full();
        let to = self.link.endpoint.load_full();
        let Some(road) = road else { return false };
        let room = road.carrier.frame_bytes(to.as_deref()) - DATA_OVERHEAD_BYTES;
        if room >= self.link.room() {
            return false;
        }
        self.link.set_room(room);
        let _ = self.events.try_send(TunnelEvent::Narrowed(self.link.number));
        true
    }

    /// Reserves packet numbers of the session. Without a session, or at its limit, requests one and
    /// waits.
    fn reserve_numbers(&mut self, count: usize) -> Option<(Arc<LinkSession>, u32)> {
        let begun = Instant::now();
        loop {
            let session = self.link.sending.load_full();
            let reserved =
                session.as_ref().and_then(|session| session.reserve_packets(count as u32));
            if let (Some(session), Some(packet)) = (session, reserved) {
                self.gave_up = false;
                return Some((session, packet));
            }
            self.wipe_old_key();
            self.request_session();
            let left = SESSION_WAIT.saturating_sub(begun.elapsed());
            if self.gave_up || left.is_zero() {
                self.gave_up = true;
                return None;
            }
            std::thread::park_timeout(left);
        }
    }

    /// Notifies the machine that frames wait, at most once a second.
    fn request_session(&mut self) {
        if self.asked.is_none_or(|at| at.elapsed() >= SESSION_WAIT) {
            self.asked = Some(Instant::now());
            let _ = self.events.try_send(TunnelEvent::Wanted(self.link.number));
        }
    }

    /// Sends one frame from the buffer where it was read: header and flags overwrite the last nine
    /// bytes of the virtio header, so nothing is copied.
    fn send_whole(&mut self, buffer: &mut [u8], flags: u8, way: &Way<'_>) -> std::io::Result<()> {
        let datagram = &mut buffer[VIRTIO_BYTES - FRAME_AT..];
        datagram[DATA_HEADER_BYTES] = flags;
        self.sealer.seal(way.session, way.packet, datagram);
        way.road.carrier.send(way.to, datagram)
    }

    fn send_fragments(
        &mut self,
        frame: &[u8],
        each: usize,
        flags: u8,
        way: &mut Way<'_>,
    ) -> std::io::Result<()> {
        let count = fragments_of(frame.len(), each);
        let bytes = frame.len() + count * DATA_OVERHEAD_BYTES;
        if self.row.len() < bytes {
            self.row.resize(bytes, 0);
        }
        let row = &mut self.row[..bytes];
        let places = row.chunks_mut(each + DATA_OVERHEAD_BYTES);
        for (index, (part, place)) in frame.chunks(each).zip(places).enumerate() {
            // A segment that fits is not a fragment.
            let fragment = if count == 1 { 0 } else { fragment_flags(index, count) };
            place[DATA_HEADER_BYTES] = flags | fragment;
            place[FRAME_AT..FRAME_AT + part.len()].copy_from_slice(part);
            self.sealer.seal(way.session, way.packet, place);
            way.packet += 1;
        }
        let stride = each + DATA_OVERHEAD_BYTES;
        match way.road.carrier.send_row(way.to, row, stride) {
            // The path is narrower than assumed. The system fragments single datagrams itself, and
            // the next frames are made smaller.
            Err(error) if Drop::of_error(&error) == Drop::TooLong => {
                self.narrow_path();
                let mut parts = self.row[..bytes].chunks(stride);
                parts.try_for_each(|part| way.road.carrier.send(way.to, part))
            }
            sent => sent,
        }
    }

    /// Sends the segments of a super-frame, each in fragments.
    fn send_fragmented(
        &mut self,
        frame: &[u8],
        cut: &Cut,
        each: usize,
        way: &mut Way<'_>,
    ) -> std::io::Result<()> {
        let mut segment = vec![0; cut.segment_frame_bytes()];
        for index in 0..cut.segment_count() {
            let (flags, bytes) = cut.write_segment(frame, index, &mut segment);
            // The receiver does not merge segments that arrive in fragments, so only the PARTIAL
            // flag is kept.
            self.send_fragments(&segment[..bytes], each, flags & PARTIAL, way)?;
        }
        Ok(())
    }

    fn send_segments(&mut self, frame: &[u8], cut: &Cut, way: &Way<'_>) -> std::io::Result<()> {
        let each = cut.segment_frame_bytes() + DATA_OVERHEAD_BYTES;
        if self.row.len() < each * cut.segment_count() {
            self.row.resize(each * cut.segment_count(), 0);
        }
        let mut end = 0;
        for index in 0..cut.segment_count() {
            let place = &mut self.row[index * each..(index + 1) * each];
            let (flags, bytes) = cut.write_segment(frame, index, &mut place[FRAME_AT..]);
            place[DATA_HEADER_BYTES] = flags;
            let datagram = &mut place[..bytes + DATA_OVERHEAD_BYTES];
            self.sealer.seal(way.session, way.packet + index as u32, datagram);
            end = index * each + bytes + DATA_OVERHEAD_BYTES;
        }
        way.road.carrier.send_row(way.to, &self.row[..end], each)
    }
}
