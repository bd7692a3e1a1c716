//! The shaper: at most one frame per tick leaves towards the wire, so that timing transports one
//! bit per tick.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::fmt;

use mezza_core::snapshot::snapshot_of;
use mezza_core::{CryptoRng, Machine, Snapshot, Time, Wiping, Writer};

/// Interval at which a strict guard sends frames, in ms. With an interval of 0, frames are sent at
/// once.
pub const TICK_MS: u64 = 50;
/// Most waiting frames; above this number the client must wait.
pub const SHAPER_QUEUE_MAX: usize = 64;

/// Error: the queue is full. The driver reads no more from the client until a frame has left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the queue towards the wire is full")]
pub struct ShaperFull;

/// The outgoing direction of one connection. Incoming frames are not delayed.
pub struct Shaper {
    tick_ms: u64,
    waiting: VecDeque<Vec<u8>>,
    /// Time of the next frame.
    next: Option<Time>,
    ready: VecDeque<Vec<u8>>,
}

impl Shaper {
    /// Creates a shaper with this tick in ms.
    pub const fn new(tick_ms: u64) -> Self {
        Self { tick_ms, waiting: VecDeque::new(), next: None, ready: VecDeque::new() }
    }

    /// Returns the first tick after `now`. Ticks are multiples of the period, so they do not show
    /// when a frame arrived.
    fn tick_after(&self, now: Time) -> Time {
        Time::from_ms((now.as_ms() / self.tick_ms + 1) * self.tick_ms)
    }
}

impl Machine for Shaper {
    type Input = Vec<u8>;
    type Output = Vec<u8>;
    type Error = ShaperFull;

    fn handle(
        &mut self,
        frame: Vec<u8>,
        now: Time,
        _: &mut dyn CryptoRng,
    ) -> Result<(), ShaperFull> {
        // Without a tick frames leave at once, and the audit reports timing as an open channel.
        if self.tick_ms == 0 {
            self.ready.push_back(frame);
            return Ok(());
        }
        // Refused instead of dropped, so that the driver stops reading from the client (GUARD-36).
        if self.waiting.len() >= SHAPER_QUEUE_MAX {
            return Err(ShaperFull);
        }
        self.waiting.push_back(frame);
        self.next = self.next.or_else(|| Some(self.tick_after(now)));
        Ok(())
    }

    fn wake(&mut self, now: Time, _: &mut dyn CryptoRng) {
        // A clock that jumped ahead also releases only one frame.
        if self.next.is_some_and(|next| next <= now) {
            self.ready.extend(self.waiting.pop_front());
            self.next = (!self.waiting.is_empty()).then(|| self.tick_after(now));
        }
    }

    fn poll(&mut self) -> Option<Vec<u8>> {
        self.ready.pop_front()
    }

    fn deadline(&self) -> Option<Time> {
        self.next
    }

    fn snapshot(&self) -> Wiping<Vec<u8>> {
        snapshot_of(self)
    }
}

impl Snapshot for Shaper {
    fn snapshot_into(&self, w: &mut Writer) {
        w.put_u64(self.tick_ms).put_u64(self.next.map_or(0, Time::as_ms));
        for frame in self.waiting.iter().chain(&self.ready) {
            w.put_var16(frame);
        }
    }
}

impl fmt::Debug for Shaper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Shaper with {} frames", self.waiting.len())
    }
}
