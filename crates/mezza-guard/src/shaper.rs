//! The shaper: at most one frame a tick leaves towards the wire, so that timing carries one bit a tick.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::fmt;

use mezza_core::snapshot::snapshot_of;
use mezza_core::{CryptoRng, Machine, Snapshot, Time, Wiping, Writer};

/// The tick of a strict guard, ms; 0 lets everything through at once.
pub const TICK_MS: u64 = 50;
/// Frames that wait; more is pushed back to the client.
pub const SHAPER_QUEUE_MAX: usize = 64;

/// The queue is full: the driver reads no more from the client until a frame has left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the queue towards the wire is full")]
pub struct ShaperFull;

/// One connection's way out. Inwards nothing is delayed.
pub struct Shaper {
    tick_ms: u64,
    waiting: VecDeque<Vec<u8>>,
    /// When the next frame may leave.
    next: Option<Time>,
    ready: VecDeque<Vec<u8>>,
}

impl Shaper {
    /// A shaper with this tick, ms.
    pub const fn new(tick_ms: u64) -> Self {
        Self { tick_ms, waiting: VecDeque::new(), next: None, ready: VecDeque::new() }
    }

    /// The first tick after `now`: ticks lie on multiples, so that they say nothing of when a frame came.
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
        // No tick was set: frames leave at once, and the audit reports timing as open.
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
        // A clock that jumped ahead releases one frame all the same.
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
