//! The alarm for a peer that may not be the paired device (SEKA-60), and the limit of its
//! exchanges.

use mezza_core::{Time, snapshot};

use super::{Peer, PeerEvent};
use crate::error::LinkError;
use crate::limits::{EXCHANGES_BURST, MISFIT_APART_MS, MISFIT_WINDOW_MS, MISFITS_MAX, VERIFIED_MS};
use crate::suite::LinkSuite;
use crate::wire::names_of;

impl<S: LinkSuite> Peer<S> {
    /// Handles a frame that only a side in our own role sends. It is dropped (SEKA-10), and counts
    /// as a misfit, a frame under the peer's name that does not fit the pairing: an attacker who
    /// paired with each side may have given both the same role.
    pub(super) fn heard_own_role(&mut self, frame: &[u8], now: Time) -> Result<(), LinkError> {
        // The names are public. A frame for another pair is dropped without a count.
        if names_of(frame) != Some((self.record.peer, Some(self.record.own))) {
            return Err(LinkError::Refused);
        }
        self.on_misfit(now);
        Ok(())
    }

    /// Records that a frame of the peer was verified.
    pub(super) fn on_verified(&mut self, now: Time) {
        if self.recognition.mark_verified(now) {
            self.report_event(PeerEvent::Recognised);
        }
    }

    /// Records that a frame under the peer's name matches no state.
    pub(super) fn on_misfit(&mut self, now: Time) {
        if self.recognition.count_misfit(now) {
            self.report_event(PeerEvent::NotRecognised);
        }
    }
}

/// Counts misfits: frames under the peer's name that match no state of the pairing.
#[derive(Debug, Default)]
pub(super) struct Recognition {
    /// Number of misfits since `first`.
    misfits: u32,
    first: Time,
    last: Time,
    /// Time when a frame of the peer was last verified.
    verified: Option<Time>,
    pub raised: bool,
    /// Number of all refused frames.
    pub refused: u64,
}

impl Recognition {
    /// Counts a misfit, a frame under the peer's name that matches no state. Returns true if this
    /// raises the alarm.
    pub(super) fn count_misfit(&mut self, now: Time) -> bool {
        self.refused += 1;
        // After the window the count restarts, so that rare noise never adds up to an alarm
        // (SEKA-60).
        if self.misfits == 0 || now.since_ms(self.first) > MISFIT_WINDOW_MS {
            (self.misfits, self.first, self.last) = (1, now, now);
            return false;
        }
        // One burst of replays counts once, or five frames in a row would raise the alarm.
        if now.since_ms(self.last) < MISFIT_APART_MS {
            return false;
        }
        (self.misfits, self.last) = (self.misfits.saturating_add(1), now);
        // A peer verified within a minute is present, and the misfits are spoofed frames.
        let alive = self.verified.is_some_and(|at| now.since_ms(at) < VERIFIED_MS);
        let raises = self.misfits >= MISFITS_MAX && !alive && !self.raised;
        self.raised |= raises;
        raises
    }

    /// Records a verification. Returns true if this ends the alarm.
    pub(super) fn mark_verified(&mut self, now: Time) -> bool {
        self.verified = Some(now);
        self.misfits = 0;
        core::mem::take(&mut self.raised)
    }
}

/// Exchanges that the peer may begin.
#[derive(Debug)]
pub(super) struct ExchangeBudget {
    left: u32,
    since: Time,
}

impl ExchangeBudget {
    pub(super) fn new(now: Time) -> Self {
        Self { left: EXCHANGES_BURST, since: now }
    }

    /// Returns true if one more exchange may begin. One is added each `pause_ms`; 0: no limit.
    pub(super) fn may_begin(&self, now: Time, pause_ms: u64) -> bool {
        pause_ms == 0 || self.left > 0 || now.since_ms(self.since) >= pause_ms
    }

    /// Counts the beginning of an exchange.
    pub(super) fn take_one(&mut self, now: Time, pause_ms: u64) {
        // A pause of 0 lifts the limit for the lab, so nothing is counted.
        let Some(more) = now.since_ms(self.since).checked_div(pause_ms) else { return };
        self.left = self.left.saturating_add(more.min(u64::from(EXCHANGES_BURST)) as u32);
        if self.left >= EXCHANGES_BURST {
            (self.left, self.since) = (EXCHANGES_BURST, now);
        } else {
            // The mark moves by whole steps only, so that no part of a token is lost.
            self.since = self.since.plus_ms(more * pause_ms);
        }
        self.left = self.left.saturating_sub(1);
    }
}

snapshot!(struct Recognition { misfits, first, last, verified, raised, refused });
snapshot!(struct ExchangeBudget { left, since });

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn five_misfits_a_second_apart_raise_the_alarm_once() {
        let mut recognition = Recognition::default();
        let at = |s: u64| Time::from_ms(s * 1_000);
        // Many misfits at once count as one.
        assert!((0..100).all(|_| !recognition.count_misfit(at(1))));
        assert!((2..5).all(|s| !recognition.count_misfit(at(s))));
        assert!(recognition.count_misfit(at(5)) && !recognition.count_misfit(at(6)));
        assert!(recognition.mark_verified(at(7)) && !recognition.mark_verified(at(8)));
    }

    #[test]
    fn a_live_link_is_not_alarmed_by_forged_frames() {
        let mut recognition = Recognition::default();
        let at = |s: u64| Time::from_ms(s * 1_000);
        for s in 1..60 {
            assert!(!recognition.count_misfit(at(s)));
            if s % 4 == 0 {
                assert!(!recognition.mark_verified(at(s)));
            }
        }
    }

    #[test]
    fn eight_exchanges_then_one_a_second() {
        let at = Time::from_ms;
        let mut budget = ExchangeBudget::new(at(0));
        let mut begun = |ms: u64| {
            let allowed = budget.may_begin(at(ms), 1_000);
            if allowed {
                budget.take_one(at(ms), 1_000);
            }
            allowed
        };
        assert_eq!((0..20).filter(|_| begun(10)).count(), 8);
        assert_eq!((0..20).filter(|_| begun(1_500)).count(), 1);
        assert_eq!((0..100).filter(|i| begun(2_000 + i * 100)).count(), 10);
    }
}
