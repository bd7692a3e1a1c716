//! Joins the texts of DATA frames into frames for an interface.

use alloc::vec::Vec;
use core::ops::Range;

use super::headers::{Layers, TCP_FIN, TCP_FLAGS, TCP_PUSH, VIRTIO_BYTES, VirtioHeader};
use super::{
    FRAGMENT, FRAGMENT_SHIFT, FRAGMENTS_MAX, HEADERS_BYTES_MAX, JOINED_MAX, NEXT, PARTIAL,
    SUPER_BYTES_MAX,
};

/// The text of an opened frame, in its receive buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextPlace {
    /// The packet number of the frame.
    pub packet: u32,
    /// The range of the text: flags, then the Ethernet frame.
    pub range: Range<usize>,
}

/// Frames that the interface gets as one: the headers, then the payloads in order.
#[derive(Debug)]
pub struct JoinedRun<'a> {
    /// The virtio header and, for a super-frame, all other headers.
    pub head: &'a [u8],
    /// The payloads, as ranges of the buffer.
    pub pieces: &'a [Range<usize>],
}

/// Joins the segments of super-frames that one read delivered. No state is kept between reads.
#[derive(Debug)]
pub struct Joiner {
    head: [u8; VIRTIO_BYTES + HEADERS_BYTES_MAX],
    head_bytes: usize,
    pieces: Vec<Range<usize>>,
    run: Option<Run>,
}

/// A run that may be extended.
#[derive(Clone, Copy, Debug)]
struct Run {
    packet: u32,
    /// `None`: a frame without parsed headers, which is not joined.
    layers: Option<Layers>,
    /// Payload bytes of the first segment.
    segment_bytes: usize,
    /// True if a shorter segment ended the run.
    ended: bool,
    frame_bytes: usize,
    partial: bool,
}

impl Default for Joiner {
    fn default() -> Self {
        Self {
            head: [0; VIRTIO_BYTES + HEADERS_BYTES_MAX],
            head_bytes: 0,
            pieces: Vec::with_capacity(JOINED_MAX),
            run: None,
        }
    }
}

impl Joiner {
    /// Adds the next text of a read, and passes completed runs to `emit`.
    ///
    /// Malformed text, or text with invalid flags, is dropped and counted. Returns false then.
    pub fn push_text(
        &mut self,
        buffer: &[u8],
        text: &TextPlace,
        emit: &mut impl FnMut(&JoinedRun<'_>),
    ) -> bool {
        let Some((&flags, frame)) = buffer[text.range.clone()].split_first() else { return false };
        // Fragments are handled elsewhere; SEKA-46 for the other bits. An Ethernet header has 14
        // bytes: the interface would reject a shorter text.
        if flags & !(PARTIAL | NEXT) != 0 || frame.len() < 14 {
            return false;
        }
        let layers = if flags & PARTIAL == 0 { None } else { Layers::parse_frame(frame) };
        // Flag P with unparsed headers gives the receiver no position for the checksum.
        if flags & PARTIAL != 0 && layers.is_none() {
            return false;
        }
        // A segment whose predecessor was lost does not fit the pending run and starts a new one
        // (SEKA-70).
        if flags & NEXT != 0 && self.extend_run(text, frame, layers) {
            return true;
        }
        self.finish_run(emit);
        self.begin_run(text, frame, layers);
        true
    }

    /// Passes on the pending run.
    pub fn finish_run(&mut self, emit: &mut impl FnMut(&JoinedRun<'_>)) {
        let Some(run) = self.run.take() else { return };
        self.complete_headers(&run);
        emit(&JoinedRun { head: &self.head[..self.head_bytes], pieces: &self.pieces });
    }

    /// Starts a run with a frame; its headers are copied only if another frame may follow.
    fn begin_run(&mut self, text: &TextPlace, frame: &[u8], layers: Option<Layers>) {
        // Longer headers do not fit the head buffer, so such a frame is passed on as it is.
        let layers = layers.filter(|layers| layers.payload <= HEADERS_BYTES_MAX);
        let headers = layers.map_or(0, |layers| layers.payload);
        let at = text.range.start + 1;
        self.pieces.clear();
        self.pieces.push(at + headers..text.range.end);
        self.head[VIRTIO_BYTES..VIRTIO_BYTES + headers].copy_from_slice(&frame[..headers]);
        self.head_bytes = VIRTIO_BYTES + headers;
        self.run = Some(Run {
            packet: text.packet,
            layers,
            segment_bytes: frame.len() - headers,
            ended: false,
            frame_bytes: frame.len(),
            partial: layers.is_some(),
        });
    }

    /// Adds the next segment if it continues the run: the next packet number, equal header and
    /// payload lengths, and no shorter segment before.
    fn extend_run(&mut self, text: &TextPlace, frame: &[u8], layers: Option<Layers>) -> bool {
        let Some(run) = &mut self.run else { return false };
        let Some(next) = layers.filter(|next| run.layers == Some(*next)) else { return false };
        let payload = frame.len() - next.payload;
        // A shorter segment ends the run: only the last segment of a super-frame may be shorter
        // (SEKA-70).
        let fits = !run.ended
            && text.packet == run.packet.wrapping_add(1)
            && payload > 0
            && payload <= run.segment_bytes
            && self.pieces.len() < JOINED_MAX
            && run.frame_bytes + payload <= SUPER_BYTES_MAX;
        if !fits {
            return false;
        }
        if next.is_tcp {
            // Only the last segment has FIN and PSH. The first one has CWR, which needs no update.
            let at = next.transport + TCP_FLAGS;
            self.head[VIRTIO_BYTES + at] |= frame[at] & (TCP_FIN | TCP_PUSH);
        }
        self.pieces.push(text.range.start + 1 + next.payload..text.range.end);
        run.ended = payload < run.segment_bytes;
        run.frame_bytes += payload;
        run.packet = text.packet;
        true
    }

    /// Writes the virtio header, and the lengths of a super-frame.
    fn complete_headers(&mut self, run: &Run) {
        let mut virtio = VirtioHeader { needs_checksum: run.partial, ..VirtioHeader::default() };
        if let Some(layers) = run.layers {
            virtio.checksum_start = layers.transport as u16;
            virtio.checksum_offset = layers.checksum_offset() as u16;
            if self.pieces.len() > 1 {
                virtio.segments = layers.segment_kind();
                virtio.segment_bytes = run.segment_bytes as u16;
                virtio.header_bytes = layers.payload as u16;
                let first = layers.payload + run.segment_bytes;
                layers.set_length(&mut self.head[VIRTIO_BYTES..], first, run.frame_bytes);
            }
        }
        self.head[..VIRTIO_BYTES].copy_from_slice(&virtio.encode());
    }
}

/// Reassembles the fragments of a frame. It has no timer: a gap drops the incomplete frame.
#[derive(Debug, Default)]
pub struct Assembler {
    bytes: Vec<u8>,
    count: usize,
    next: u32,
    flags: u8,
    /// Frames given up since the last query.
    lost: u64,
}

impl Assembler {
    /// Returns the number of frames given up since the last call because a fragment was missing.
    pub fn take_lost(&mut self) -> u64 {
        core::mem::take(&mut self.lost)
    }

    /// Gives up the incomplete frame.
    fn give_up(&mut self) {
        self.lost += u64::from(self.count > 0);
        self.count = 0;
    }

    /// Adds a fragment (`flags | bytes`). Returns the whole frame (`flags | frame`) after the last
    /// fragment. A gap, a fifth fragment, or exceeding the size limit drops the frame.
    pub fn push_fragment(&mut self, packet: u32, text: &[u8]) -> Option<Vec<u8>> {
        let (&flags, part) = text.split_first()?;
        let place = (flags & FRAGMENT) >> FRAGMENT_SHIFT;
        let sound = flags & !(FRAGMENT | PARTIAL) == 0;
        // A first fragment replaces an incomplete frame: there is no timer, so loss must not block
        // the next one.
        if place == 1 && sound {
            self.give_up();
            self.flags = flags & PARTIAL;
            self.bytes.clear();
            self.bytes.push(self.flags);
        } else if !sound || self.count == 0 || packet != self.next {
            // Fragments must have consecutive packet numbers. A gap means that the frame cannot be
            // completed.
            self.give_up();
            return None;
        }
        // The bound keeps a peer from growing this buffer without end.
        if self.count >= FRAGMENTS_MAX || self.bytes.len() + part.len() > SUPER_BYTES_MAX {
            self.give_up();
            return None;
        }
        self.bytes.extend_from_slice(part);
        self.count += 1;
        self.next = packet.wrapping_add(1);
        (place == 3).then(|| {
            self.count = 0;
            core::mem::take(&mut self.bytes)
        })
    }

    /// Returns true if a text is a fragment.
    pub fn is_fragment(text: &[u8]) -> bool {
        text.first().is_some_and(|flags| flags & FRAGMENT != 0)
    }
}
