//! Super-frames: what a network interface with offloads hands over as one piece of up to 64 KiB is cut
//! into frames that each carry their own headers, and joined again behind the link.
//!
//! A cut frame has no finished TCP or UDP checksum, only the sum of its pseudo-header (flag P): the
//! receiving interface gets it with the same mark, so nobody computes the sum over the payload. The
//! frames of one super-frame have packet numbers in a row and flag R on all but the first. A frame that
//! lost its neighbours is delivered alone.

mod headers;
mod join;
mod split;

pub use headers::{SegmentKind, VIRTIO_BYTES, VirtioHeader};
pub use join::{Assembler, JoinedRun, Joiner, TextPlace};
pub use split::{Cut, SegmentShape, fragment_flags, fragments_of};

/// Flag P: the TCP or UDP checksum is the sum of the pseudo-header alone.
pub const PARTIAL: u8 = 0x01;
/// Flag R: the next segment of the same super-frame as the packet number before.
pub const NEXT: u8 = 0x02;
/// The bits of F: 0 whole, 1 first, 2 middle, 3 last fragment.
pub const FRAGMENT: u8 = 0x0c;
/// How far F is shifted.
pub const FRAGMENT_SHIFT: u8 = 2;
/// Fragments of one frame, at most.
pub const FRAGMENTS_MAX: usize = 4;
/// Segments that one super-frame may be cut into; more is dropped.
pub const SEGMENTS_MAX: usize = 1_024;
/// Frames that are joined into one, at most.
pub const JOINED_MAX: usize = 64;
/// Bytes of a frame that is handed to an interface, at most.
pub const SUPER_BYTES_MAX: usize = 65_535;
/// Bytes of the headers of a frame that is cut or joined, at most.
pub const HEADERS_BYTES_MAX: usize = 256;
