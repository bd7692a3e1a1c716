//! Super-frames: frames of up to 64 KiB from a network interface with offloads. They are cut into
//! frames that each carry their own headers, and joined again at the other end of the link.
//!
//! A cut frame has no finished TCP or UDP checksum, only the sum of its pseudo-header (flag P): the
//! receiving interface gets the frame with the same mark, so neither side computes the sum over the
//! payload. The frames of one super-frame have consecutive packet numbers, and flag R on all but
//! the first. A frame that lost its neighbours is delivered alone.

mod headers;
mod join;
mod split;

pub use headers::{SegmentKind, VIRTIO_BYTES, VirtioHeader};
pub use join::{Assembler, JoinedRun, Joiner, TextPlace};
pub use split::{Cut, SegmentShape, fragment_flags, fragments_of};

/// Flag P: the TCP or UDP checksum is only the sum of the pseudo-header.
pub const PARTIAL: u8 = 0x01;
/// Flag R: the next segment of the same super-frame as the packet number before.
pub const NEXT: u8 = 0x02;
/// The bits of F: 0 whole, 1 first, 2 middle, 3 last fragment.
pub const FRAGMENT: u8 = 0x0c;
/// The position of the bits of F in the byte of flags.
pub const FRAGMENT_SHIFT: u8 = 2;
/// Maximum number of fragments of one frame.
pub const FRAGMENTS_MAX: usize = 4;
/// Maximum number of segments of one super-frame; a larger one is dropped.
pub const SEGMENTS_MAX: usize = 1_024;
/// Maximum number of frames that are joined.
pub const JOINED_MAX: usize = 64;
/// Maximum bytes of a frame for an interface.
pub const SUPER_BYTES_MAX: usize = 65_535;
/// Maximum bytes of the headers of a frame that is cut or joined.
pub const HEADERS_BYTES_MAX: usize = 256;
