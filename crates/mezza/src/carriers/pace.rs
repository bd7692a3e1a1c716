//! The pace at which a device accepts frames of a connection; a faster sender must wait (MSG-77).
//!
//! Each frame may cost the device a decryption and a commit. A relay or an entry server that sends
//! without end would use all of its time. With a pace it uses a small part, and TCP flow control
//! holds back the rest.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use mezza_core::Time;
use tokio::time::sleep;

use mezza_host::process::rate::{RateLimit, TokenBucket};

/// Frames: up to 2,000 that waited while the device was offline at once, then 250 per second.
const FRAMES: RateLimit = RateLimit { burst: 2_000, period_ms: 4 };
/// Reports of the stock of one-time keys; each may make the device create a hundred keys.
const STOCKS: RateLimit = RateLimit { burst: 8, period_ms: 10 * Time::MINUTE_MS };

/// The pace of one line, shared by all its connections.
pub(super) struct Pace {
    began: Instant,
    used: Mutex<Used>,
}

#[derive(Default)]
struct Used {
    frames: TokenBucket,
    stocks: TokenBucket,
}

impl Pace {
    /// Makes a pace that has counted nothing.
    pub(super) fn new() -> Self {
        Self { began: Instant::now(), used: Mutex::default() }
    }

    /// Waits until one more frame may be accepted.
    pub(super) async fn wait_for_frame(&self) {
        loop {
            let wait_ms = self.frame_wait_ms(self.age());
            if wait_ms == 0 {
                return;
            }
            sleep(Duration::from_millis(wait_ms)).await;
        }
    }

    /// Returns true if one more stock report is accepted; others are ignored.
    pub(super) fn admit_stock(&self) -> bool {
        self.stock_at(self.age())
    }

    /// Returns how long the next frame must wait, ms. Counts the frame if that is 0.
    fn frame_wait_ms(&self, now: Time) -> u64 {
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        let wait_ms = used.frames.wait_ms(FRAMES, 1, now);
        if wait_ms == 0 {
            used.frames.spend(FRAMES, 1, now);
        }
        wait_ms
    }

    fn stock_at(&self, now: Time) -> bool {
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        used.stocks.take(STOCKS, now).is_ok()
    }

    /// The time since the line began, which steps of the wall clock do not change.
    fn age(&self) -> Time {
        Time::from_ms(self.began.elapsed().as_millis() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn msg_77_frames_come_at_once_and_then_at_a_pace() {
        let pace = Pace::new();
        let now = Time::from_ms(0);
        assert!((0..FRAMES.burst).all(|_| pace.frame_wait_ms(now) == 0));
        assert_eq!(pace.frame_wait_ms(now), 4);
        assert_eq!(pace.frame_wait_ms(Time::from_ms(4)), 0);
        assert_eq!(pace.frame_wait_ms(Time::from_ms(4)), 4);
    }

    #[test]
    fn msg_77_a_relay_has_keys_made_eight_times_and_then_every_ten_minutes() {
        let pace = Pace::new();
        let now = Time::from_ms(0);
        assert!((0..8).all(|_| pace.stock_at(now)));
        assert!(!pace.stock_at(now) && !pace.stock_at(Time::from_ms(10 * Time::MINUTE_MS - 1)));
        assert!(pace.stock_at(Time::from_ms(10 * Time::MINUTE_MS)));
    }

    #[tokio::test]
    async fn msg_77_a_line_that_is_too_fast_waits_on_the_clock() {
        let pace = Pace::new();
        let began = Instant::now();
        for _ in 0..FRAMES.burst + 25 {
            pace.wait_for_frame().await;
        }
        // 25 frames above the burst, 4 ms each; the first of them may be due at once.
        assert!(began.elapsed() >= Duration::from_millis(24 * 4));
        assert_eq!((0..9).filter(|_| pace.admit_stock()).count(), 8);
    }
}
