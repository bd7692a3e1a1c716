//! Buffers of the Bluetooth host. A buffer holds the largest frame; at most [`BUFFERS`] exist.

use std::sync::atomic::{AtomicUsize, Ordering};

use mezza_mesh::limits::STREAM_BYTES_MAX;
use trouble_host::{Packet, PacketPool};

/// Bytes of a buffer: a frame, its length, and the header of L2CAP.
const BUFFER_BYTES: usize = STREAM_BYTES_MAX + 6;
/// Maximum number of buffers that exist at a time.
const BUFFERS: usize = 320;

static USED: AtomicUsize = AtomicUsize::new(0);

/// Buffers on the heap.
pub(super) struct FramePool;

/// One buffer of a [`FramePool`].
pub(super) struct FrameBuffer(Box<[u8]>);

impl PacketPool for FramePool {
    type Packet = FrameBuffer;
    const MTU: usize = BUFFER_BYTES;

    fn allocate() -> Option<FrameBuffer> {
        let free = |used| (used < BUFFERS).then_some(used + 1);
        USED.fetch_update(Ordering::Relaxed, Ordering::Relaxed, free).ok()?;
        Some(FrameBuffer(vec![0; BUFFER_BYTES].into_boxed_slice()))
    }

    fn capacity() -> usize {
        BUFFERS
    }
}

impl Packet for FrameBuffer {}

impl AsRef<[u8]> for FrameBuffer {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl AsMut<[u8]> for FrameBuffer {
    fn as_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }
}

impl Drop for FrameBuffer {
    fn drop(&mut self) {
        USED.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_end_and_come_back() {
        let all: Vec<_> = std::iter::from_fn(FramePool::allocate).collect();
        assert_eq!(all.len(), BUFFERS);
        drop(all);
        assert!(FramePool::allocate().is_some());
    }
}
