//! Sessions for traffic: the one in use, its renewal and its end.

use alloc::boxed::Box;

use mezza_core::{CryptoRng, Time};

use super::staged::Stage;
use super::{FrameTarget, Peer, PeerEvent, PeerOutput, PeerTimer};
use crate::keys::LinkRole;
use crate::limits::{NUDGE_MS, OVERDUE_MS, PACKETS_MAX};
use crate::session::{LinkSession, SessionUsage};
use crate::suite::LinkSuite;

impl<S: LinkSuite> Peer<S> {
    /// Installs a session of an exchange that was accepted by both sides, or by this side so far.
    pub(super) fn install_session(&mut self, session: LinkSession, now: Time) {
        if let Some(gone) = self.sessions.install_session(session.attempt(), now) {
            self.outputs.push_back(PeerOutput::Retire(gone));
        }
        self.outputs.push_back(PeerOutput::Install(Box::new(session)));
        self.timers.set_deadline(PeerTimer::Session, self.sessions.next_end());
    }

    /// Seals frames under a session from now on.
    pub(super) fn use_session(&mut self, attempt: u32, now: Time) {
        self.sessions.switch_to(attempt, now);
        self.used = (0, 0);
        self.outputs.push_back(PeerOutput::Use(attempt));
        let at = |ms| Some(now.plus_ms(ms));
        self.timers.set_deadline(PeerTimer::Session, self.sessions.next_end());
        self.timers.set_deadline(PeerTimer::Rekey, at(self.settings.rekey_ms));
        self.timers.set_deadline(PeerTimer::Overdue, at(OVERDUE_MS.max(self.settings.rekey_ms)));
        self.timers.set_deadline(PeerTimer::Heal, at(self.settings.heal_ms));
        self.timers.set_deadline(PeerTimer::Nudge, None);
        self.set_keep_alive(now);
        self.nudging = false;
    }

    /// Renews the present session when three quarters of its frames are used up. The peer's frames
    /// count when they open: its packet numbers alone cost the peer nothing (SEKA-91).
    pub(super) fn heard_used(&mut self, usage: SessionUsage, now: Time, rng: &mut dyn CryptoRng) {
        let SessionUsage { sent, received, .. } = usage;
        // More frames than before means that at least one new frame of the peer opened (SEKA-91).
        if received > self.used.1 {
            self.on_verified(now);
        }
        self.used = (sent, received);
        let limit = u64::from(self.settings.subkeys.min(PACKETS_MAX >> 16)) << 16;
        // A responder counts only its own frames: the initiator renews for the other direction.
        let most = u64::from(match self.record.role {
            LinkRole::Initiator => sent.max(received),
            LinkRole::Responder => sent,
        });
        if most * 4 >= limit * 3 && !self.is_renewing() {
            // A second request would end the exchange in progress.
            self.request_exchange(now, rng);
        }
    }

    /// Returns true if an exchange in progress will replace the present session.
    pub(super) fn is_renewing(&self) -> bool {
        let nudges = self.record.role == LinkRole::Responder;
        !matches!(self.stage, Stage::Idle)
            || self.confirming.is_some()
            || self.owed
            || (nudges && self.nudging)
    }

    /// Handles an old session: renews it if frames flowed, else lets it end.
    pub(super) fn rekey_due(&mut self, now: Time, rng: &mut dyn CryptoRng) {
        let (sent, received) = self.used;
        // Keep-alives of a responder are no traffic.
        if sent > 0 || received > 1 {
            self.request_exchange(now, rng);
        } else {
            // Checked again, in case frames begin to flow.
            self.timers.set_deadline(PeerTimer::Rekey, Some(now.plus_ms(NUDGE_MS * 10)));
        }
    }

    pub(super) fn sessions_due(&mut self, now: Time, rng: &mut dyn CryptoRng) {
        let had = self.sessions.sending().is_some();
        for gone in self.sessions.remove_expired(now) {
            self.outputs.push_back(PeerOutput::Retire(gone));
        }
        self.timers.set_deadline(PeerTimer::Session, self.sessions.next_end());
        if had && self.sessions.sending().is_none() {
            self.session_ended();
            // Keep-alives are set so that the device can be reached at any time.
            if self.settings.keepalive_ms > 0 {
                self.request_exchange(now, rng);
            }
        }
    }

    /// Handles the end of the last session.
    fn session_ended(&mut self) {
        for timer in [PeerTimer::Rekey, PeerTimer::Overdue, PeerTimer::KeepAlive] {
            self.timers.set_deadline(timer, None);
        }
        self.report_event(PeerEvent::Ended);
    }

    /// Ends all sessions, and the confirmation of the last one; the next exchange makes a new one.
    pub(super) fn end_sessions(&mut self) {
        let had = self.sessions.sending().is_some();
        for gone in self.sessions.clear() {
            self.outputs.push_back(PeerOutput::Retire(gone));
        }
        // KE3 of an ended session must not be repeated.
        self.confirming = None;
        for timer in [PeerTimer::Ke3, PeerTimer::Session] {
            self.timers.set_deadline(timer, None);
        }
        if had {
            self.session_ended();
        }
    }

    /// Sends an empty frame, which keeps the NAT mappings between the two sides (RFC 4787).
    pub(super) fn keep_alive_due(&mut self, now: Time) {
        let Some((attempt, _)) = self.sessions.sending() else { return };
        self.outputs.push_back(PeerOutput::KeepAlive { attempt, to: FrameTarget::Known });
        self.set_keep_alive(now);
    }

    fn set_keep_alive(&mut self, now: Time) {
        let pause = self.settings.keepalive_ms;
        self.timers.set_deadline(PeerTimer::KeepAlive, (pause > 0).then(|| now.plus_ms(pause)));
    }
}
