//! Cuts frames of an interface into the texts of DATA frames.

use super::headers::{
    Layers, SegmentKind, TCP_CWR, TCP_FIN, TCP_FLAGS, TCP_PUSH, VirtioHeader, fold_sum, put_word,
    read_word, sum_of,
};
use super::{FRAGMENT_SHIFT, FRAGMENTS_MAX, HEADERS_BYTES_MAX, NEXT, PARTIAL, SEGMENTS_MAX};

/// The form in which a frame is sent: whole, or cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SegmentShape {
    /// The frame stays whole, with these flags.
    Whole(u8),
    /// Fragments of a limited size, with these additional flags.
    Fragments {
        /// The number of fragments, 2 to 4.
        count: usize,
        /// Bytes of each fragment but the last.
        bytes: usize,
        /// Flag P or none.
        flags: u8,
    },
    /// Segments with their own headers.
    Segments(Cut),
    /// Segments that do not fit into one frame and are sent in fragments. They are datagrams, whose
    /// size must not change.
    FragmentedSegments {
        /// The segments.
        cut: Cut,
        /// Bytes of each fragment but the last of a segment.
        bytes: usize,
    },
    /// The frame cannot be sent: malformed headers, no segment size, or too long.
    Dropped,
}

/// A super-frame that is cut into segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    layers: Layers,
    segment_bytes: usize,
    frame_bytes: usize,
    count: usize,
}

impl SegmentShape {
    /// Determines how `frame` is cut for a carrier with `room` bytes per frame. A checksum that no
    /// flag can describe is finished here.
    pub fn for_frame(header: &VirtioHeader, frame: &mut [u8], room: usize) -> Self {
        match header.segments {
            SegmentKind::None => shape_whole(header, frame, room),
            SegmentKind::Tcp4 | SegmentKind::Tcp6 | SegmentKind::Udp => {
                // A super-frame with malformed headers cannot be cut, and is too long to be sent
                // whole.
                let Some(cut) = Cut::from_frame(header, frame, room) else { return Self::Dropped };
                match fragments_of(cut.segment_frame_bytes(), room) {
                    1 => Self::Segments(cut),
                    2..=FRAGMENTS_MAX => Self::FragmentedSegments { cut, bytes: room },
                    // More fragments would be refused by the receiver (section Limits).
                    _ => Self::Dropped,
                }
            }
            // The layout of a kind that was not requested from the interface is unknown here.
            SegmentKind::Other(_) => Self::Dropped,
        }
    }

    /// Returns the number of carrier frames for this shape.
    pub fn frame_count(&self) -> usize {
        match self {
            Self::Whole(_) => 1,
            Self::Fragments { count, .. } => *count,
            Self::Segments(cut) => cut.segment_count(),
            Self::FragmentedSegments { cut, bytes } => {
                let each = fragments_of(cut.segment_frame_bytes(), *bytes);
                each * (cut.segment_count() - 1) + fragments_of(cut.last_frame_bytes(), *bytes)
            }
            Self::Dropped => 0,
        }
    }
}

/// Returns the number of fragments of a frame of this size.
pub fn fragments_of(frame_bytes: usize, room: usize) -> usize {
    frame_bytes.div_ceil(room.max(1))
}

/// Shapes a single frame, in fragments if it is longer than the room.
fn shape_whole(header: &VirtioHeader, frame: &mut [u8], room: usize) -> SegmentShape {
    let mut flags = 0;
    if header.needs_checksum {
        // The receiver finds the checksum only by the headers, so flag P is set only if they give
        // the same position.
        let layers = Layers::parse_frame(frame).filter(|layers| is_described(layers, header));
        if layers.is_some() {
            flags = PARTIAL;
        } else if !finish_checksum(header, frame) {
            return SegmentShape::Dropped;
        }
    }
    if frame.len() <= room {
        return SegmentShape::Whole(flags);
    }
    let count = fragments_of(frame.len(), room);
    // The receiver drops a fifth fragment, so a frame that needs one is dropped before it costs
    // bandwidth.
    if count > FRAGMENTS_MAX {
        return SegmentShape::Dropped;
    }
    SegmentShape::Fragments { count, bytes: room, flags }
}

/// Returns true if the receiver can find the position of the checksum by the headers alone.
fn is_described(layers: &Layers, header: &VirtioHeader) -> bool {
    layers.transport == usize::from(header.checksum_start)
        && layers.checksum_offset() == usize::from(header.checksum_offset)
}

/// Computes a checksum that the interface left open. Returns false if its position is outside of
/// the frame.
fn finish_checksum(header: &VirtioHeader, frame: &mut [u8]) -> bool {
    let start = usize::from(header.checksum_start);
    let at = start + usize::from(header.checksum_offset);
    // The offset comes from the interface header. A position outside of the frame cannot be
    // finished.
    if at + 2 > frame.len() {
        return false;
    }
    // The field holds the sum of the pseudo-header and is part of the summed bytes.
    let sum = !fold_sum(sum_of(&frame[start..]));
    // 0 means "no checksum" in UDP, so its other representation is sent (RFC 768).
    put_word(frame, at, if sum == 0 { 0xffff } else { sum });
    true
}

impl Cut {
    fn from_frame(header: &VirtioHeader, frame: &[u8], room: usize) -> Option<Self> {
        let layers = Layers::parse_frame(frame)?;
        let payload = frame.len() - layers.payload;
        let asked = usize::from(header.segment_bytes);
        // TCP is a stream: smaller segments are equivalent, and the other interface joins them
        // again.
        let segment_bytes =
            // A datagram keeps its size, which the application sees. It is sent in fragments
            // instead.
            if layers.is_tcp { asked.min(room.saturating_sub(layers.payload)) } else { asked };
        let sound = header.needs_checksum
            && layers.segment_kind() == header.segments
            && is_described(&layers, header)
            && segment_bytes > 0
            && payload > 0
            && layers.payload <= HEADERS_BYTES_MAX;
        let count = payload.div_ceil(segment_bytes.max(1));
        // The bound limits the frames that one read of the interface can cause.
        (sound && count <= SEGMENTS_MAX).then_some(Self {
            layers,
            segment_bytes,
            frame_bytes: frame.len(),
            count,
        })
    }

    /// Returns the number of segments.
    pub fn segment_count(&self) -> usize {
        self.count
    }

    /// Returns the bytes of each segment with headers; the last one may be shorter.
    pub fn segment_frame_bytes(&self) -> usize {
        self.layers.payload + self.segment_bytes
    }

    /// Returns the bytes of the last segment with headers.
    pub fn last_frame_bytes(&self) -> usize {
        let before = (self.count - 1) * self.segment_bytes;
        self.frame_bytes - before
    }

    /// Writes segment `index` of `frame` with headers into `out`, which has room for
    /// [`Cut::segment_frame_bytes`]. Returns its flags and length.
    pub fn write_segment(&self, frame: &[u8], index: usize, out: &mut [u8]) -> (u8, usize) {
        let Layers { ip, transport, payload, is_tcp, is_ip6 } = self.layers;
        let from = payload + index * self.segment_bytes;
        let to = (from + self.segment_bytes).min(self.frame_bytes);
        let bytes = payload + to - from;
        let (headers, rest) = out[..bytes].split_at_mut(payload);
        headers.copy_from_slice(&frame[..payload]);
        rest.copy_from_slice(&frame[from..to]);
        if !is_ip6 && let Some(id) = read_word(headers, ip + 4) {
            // Segments of one super-frame get consecutive identifications, as in the kernel's
            // segmentation.
            put_word(headers, ip + 4, id.wrapping_add(index as u16));
        }
        if is_tcp {
            self.write_tcp(&mut headers[transport..], index);
        }
        self.layers.set_length(headers, self.frame_bytes, bytes);
        (PARTIAL | if index > 0 { NEXT } else { 0 }, bytes)
    }

    /// Updates the TCP header: the sequence number grows; FIN and PSH are for the last segment, CWR
    /// for the first.
    fn write_tcp(&self, tcp: &mut [u8], index: usize) {
        let Some(sequence) = tcp.get_mut(4..8).and_then(<[u8]>::first_chunk_mut) else { return };
        let moved = u32::from_be_bytes(*sequence);
        *sequence = moved.wrapping_add((index * self.segment_bytes) as u32).to_be_bytes();
        // FIN and PSH belong to the end of the data, so only the last segment has them (RFC 9293).
        if index + 1 < self.count {
            tcp[TCP_FLAGS] &= !(TCP_FIN | TCP_PUSH);
        }
        // CWR answers one ECN mark, so only the first segment carries it (RFC 3168).
        if index > 0 {
            tcp[TCP_FLAGS] &= !TCP_CWR;
        }
    }
}

/// Returns the flags of fragment `index` of `count`.
pub fn fragment_flags(index: usize, count: usize) -> u8 {
    let place = match index {
        0 => 1,
        index if index + 1 == count => 3,
        _ => 2,
    };
    place << FRAGMENT_SHIFT
}
