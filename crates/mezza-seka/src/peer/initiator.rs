//! The side that begins every exchange.

use alloc::boxed::Box;
use alloc::vec::Vec;

use mezza_core::{CryptoRng, Time, snapshot};

use super::staged::{Sent, Stage, Staged};
use super::{Arrival, FrameTarget, Peer, PeerEvent, PeerTimer};
use crate::error::LinkError;
use crate::exchange::{KE_BYTES, KE3_BYTES, NUDGE_BYTES, TagKey, TagOf};
use crate::keys::{CanonicalPoint, LinkRole};
use crate::limits::{
    BACKOFF_MAX_MS, KE1_END_MS, KE1_REPEAT_MS, KE1_REPEATS, KE3_REPEAT_MAX_MS, KE3_REPEATS,
    MISFITS_MAX, NUDGED_MS, SEARCH_ATTEMPTS, TAG_BYTES,
};
use crate::session::{LinkSession, SessionPlace};
use crate::suite::{ExchangeView, LinkSuite};
use crate::wire::{HandshakeFrame, Ke1, Ke2, Ke3, Nudge};

/// KE3 was sent, and no frame of the peer under its session arrived yet.
#[derive(Debug)]
pub(super) struct Confirming {
    pub attempt: u32,
    pub ke3: Vec<u8>,
    pub repeats: u32,
    pub pause_ms: u64,
    pub since: Time,
}

impl<S: LinkSuite> Peer<S> {
    /// Begins an attempt if none is in progress and an ephemeral key is available.
    pub(super) fn begin_attempt(&mut self, now: Time, rng: &mut dyn CryptoRng) {
        // A write or an attempt in progress ends first, or a stored number could be sent under
        // another state.
        if self.record.role != LinkRole::Initiator
            || !matches!(self.stage, Stage::Idle)
            || self.ephemeral.is_none()
        {
            return;
        }
        let attempt = self.reserved.or_else(|| u32::try_from(self.record.attempt_next).ok());
        let Some(attempt) = attempt.filter(|attempt| self.current.allows_attempt(*attempt)) else {
            // Suite 01 has no counter left under this state, and a nonce must not repeat (SEKA-26).
            self.owed = false;
            self.report_event(PeerEvent::Exhausted);
            return;
        };
        self.begun = now;
        self.timers.set_deadline(PeerTimer::Retry, None);
        // The last exchange already reserved this number on the disk (SEKA-11), so no write is
        // needed.
        if self.reserved.take().is_some() {
            self.stage = Stage::Idle;
            self.send_ke1_with(attempt, now, rng);
            return;
        }
        // SEKA-11: the number must be durable before its frame is sent.
        let mut record = self.record.duplicate();
        record.attempt_next = i64::from(attempt) + 1;
        let seq = self.write_record(&record, rng);
        self.draw_session_id(rng);
        self.stage = Stage::Reserving { attempt, seq };
    }

    /// Draws the session id, which is random in suite `paper`, while a generator is available.
    fn draw_session_id(&mut self, rng: &mut dyn CryptoRng) {
        if let Some(ephemeral) = &self.ephemeral {
            let m1 = CanonicalPoint::from_own_key(ephemeral.public_key());
            self.session_id = S::session_id(&self.record.own, &m1, rng);
        }
    }

    fn send_ke1_with(&mut self, attempt: u32, now: Time, rng: &mut dyn CryptoRng) {
        self.draw_session_id(rng);
        self.send_ke1(attempt, now);
    }

    /// Sends KE1 of a durable attempt.
    pub(super) fn send_ke1(&mut self, attempt: u32, now: Time) {
        let Some(ephemeral) = self.take_ephemeral() else { return };
        let mut frame = Ke1 {
            suite: S::NUMBER,
            index: self.data_index(attempt),
            from: self.record.own,
            to: self.record.peer,
            session_id: self.session_id,
            attempt,
            m1: CanonicalPoint::from_own_key(ephemeral.public_key()),
            tag: [0; TAG_BYTES],
        };
        let untagged = frame.encode();
        let parts: [&[u8]; 1] = [&untagged[..KE_BYTES]];
        frame.tag = self.current.compute_tag(TagOf::Ke1, attempt, &parts);
        let ke1 = frame.encode();
        self.send_to_peer(ke1.clone());
        // A new attempt ends the last one, confirmed or not: the initiator accepts a KE2 for the
        // present attempt only (SEKA-14).
        self.confirming = None;
        self.timers.set_deadline(PeerTimer::Ke3, None);
        self.stage = Stage::Sent(Sent { attempt, ephemeral, ke1, repeats: 0 });
        self.timers.set_deadline(PeerTimer::Ke1, Some(now.plus_ms(KE1_REPEAT_MS)));
    }

    /// Sends KE1 to the known address. After a nudge it also goes to the source of the nudge: the
    /// peer may have moved. If the nudge was a replay, the copy to the known address counts.
    fn send_to_peer(&mut self, ke1: Vec<u8>) {
        // The nudge was verified but may be a replay, so its source is used for this frame only
        // (SEKA-76).
        if let Some(from) = self.nudged_from.filter(|from| *from != self.record.address) {
            self.send_frame(FrameTarget::Source(from), ke1.clone());
        }
        // After several silent attempts the peer may have moved: send to all its possible addresses
        // (SEKA-79).
        let search = self.unanswered >= SEARCH_ATTEMPTS;
        self.send_frame(if search { FrameTarget::Search } else { FrameTarget::Known }, ke1);
    }

    /// Repeats KE1 byte for byte (SEKA-19), or ends the attempt.
    pub(super) fn ke1_due(&mut self, now: Time) {
        let Stage::Sent(sent) = &mut self.stage else { return };
        if sent.repeats < KE1_REPEATS {
            sent.repeats += 1;
            let pause = match sent.repeats {
                KE1_REPEATS => KE1_END_MS,
                repeats => KE1_REPEAT_MS << repeats,
            };
            let ke1 = sent.ke1.clone();
            self.send_to_peer(ke1);
            self.timers.set_deadline(PeerTimer::Ke1, Some(now.plus_ms(pause)));
            return;
        }
        self.stage = Stage::Idle;
        self.nudged_from = None;
        // Saturating: a link may fail for years, and a wrap would end the search.
        self.unanswered = self.unanswered.saturating_add(1);
        if self.unanswered == MISFITS_MAX {
            self.report_event(PeerEvent::NoAnswer);
        }
        self.schedule_retry(now);
    }

    /// Schedules the next attempt with a growing pause. The reduction of the pause is derived from
    /// the device's name and the attempt, so that two devices that fail together diverge.
    pub(super) fn schedule_retry(&mut self, now: Time) {
        let spread = self.backoff_ms * 2 / 5;
        let seed = u64::from(self.record.own.as_bytes()[5]) + 37 * self.seq;
        let pause = self.backoff_ms - spread / 2 + seed % (spread + 1);
        self.timers.set_deadline(PeerTimer::Retry, Some(now.plus_ms(pause)));
        self.backoff_ms = (self.backoff_ms * 2).min(BACKOFF_MAX_MS);
    }

    /// Handles KE2: tag, key, next state; then the write (SEKA-14, SEKA-16).
    pub(super) fn heard_ke2(
        &mut self,
        arrival: Arrival<'_>,
        rng: &mut dyn CryptoRng,
    ) -> Result<(), LinkError> {
        let Arrival { frame, from, now } = arrival;
        let ke2 = Ke2::decode(S::NUMBER, frame)?;
        let Stage::Sent(sent) = &self.stage else { return Err(LinkError::Refused) };
        let own = (ke2.from, ke2.to) == (self.record.peer, self.record.own);
        // An old, foreign or replayed KE2. All cases give the same error (SEKA-5, SEKA-14).
        if !own || ke2.attempt != sent.attempt || ke2.session_id != self.session_id {
            return Err(LinkError::Refused);
        }
        let parts: [&[u8]; 2] = [&frame[..KE_BYTES], &sent.ke1[..KE_BYTES]];
        // Tag before DH: a forged KE2 costs one tag and no multiplication.
        if !self.current.verify_tag(TagOf::Ke2, ke2.attempt, &parts, &ke2.tag) {
            return Err(LinkError::Refused);
        }
        self.on_verified(now);
        // KE2 responds to the present attempt, so its source is proven to be current (SEKA-77).
        self.move_to(from);
        self.nudged_from = None;
        let Stage::Sent(sent) = core::mem::replace(&mut self.stage, Stage::Idle) else {
            return Ok(());
        };
        self.timers.set_deadline(PeerTimer::Ke1, None);
        self.stage_initiator(sent, &ke2, frame, now, rng);
        Ok(())
    }

    fn stage_initiator(
        &mut self,
        sent: Sent,
        ke2: &Ke2,
        frame: &[u8],
        now: Time,
        rng: &mut dyn CryptoRng,
    ) {
        let attempt = sent.attempt;
        let pair = self.pair();
        let m1 = CanonicalPoint::from_own_key(sent.ephemeral.public_key());
        let view = ExchangeView { pair: &pair, session_id: &self.session_id, m1: &m1, m2: &ke2.m2 };
        // SEKA-4: a peer that holds the state and sends a point of low order ends the attempt.
        let Ok(shared) = sent.ephemeral.diffie_hellman::<S::Backend>(ke2.m2.public()) else {
            return self.schedule_retry(now);
        };
        let derived = S::derive_exchange_keys(&shared, &self.record.current, &view);
        let ke3 = self.build_ke3(&sent.ke1, frame, attempt);
        let place = SessionPlace {
            role: LinkRole::Initiator,
            prefixes: self.prefixes,
            attempt,
            own_index: self.data_index(attempt),
            peer_index: ke2.index,
            subkeys: self.settings.subkeys,
        };
        let mut record = self.record.duplicate();
        // One write stages the state and reserves the next attempt (SEKA-11).
        let reserved = u32::try_from(record.attempt_next).ok();
        let reserved = reserved.filter(|_| self.settings.reserves_ahead);
        record.attempt_next += i64::from(reserved.is_some());
        // The record replaces the state as a whole: a crash leaves the old state or the new one.
        record.current = derived.state;
        record.current_born = i64::from(attempt);
        record.accepted = true;
        record.rekeys += 1;
        record.accepted_ms = now.as_ms().saturating_add(self.wall_ms);
        let current = TagKey::from_current(&record, &self.prefixes);
        let seq = self.write_record(&record, rng);
        self.stage = Stage::Staged(Box::new(Staged {
            seq,
            record,
            current,
            pending: None,
            session: LinkSession::new(derived.session, &place),
            frame: ke3,
            answers: None,
            reserved,
        }));
    }

    fn build_ke3(&self, ke1: &[u8], ke2: &[u8], attempt: u32) -> Vec<u8> {
        let mut frame = Ke3 {
            suite: S::NUMBER,
            index: self.data_index(attempt),
            from: self.record.own,
            to: self.record.peer,
            session_id: self.session_id,
            attempt,
            tag: [0; TAG_BYTES],
        };
        let untagged = frame.encode();
        let parts: [&[u8]; 3] = [&untagged[..KE3_BYTES], &ke1[..KE_BYTES], &ke2[..KE_BYTES]];
        frame.tag = self.current.compute_tag(TagOf::Ke3, attempt, &parts);
        frame.encode()
    }

    /// Repeats KE3, or begins a new exchange under the new state.
    pub(super) fn ke3_due(&mut self, now: Time, rng: &mut dyn CryptoRng) {
        let Some(confirming) = &mut self.confirming else { return };
        // After the last repeat the responder's frames may be lost, so a new exchange is begun
        // under st_new.
        if confirming.repeats >= KE3_REPEATS {
            self.confirming = None;
            return self.request_exchange(now, rng);
        }
        confirming.repeats += 1;
        confirming.pause_ms = (confirming.pause_ms * 2).min(KE3_REPEAT_MAX_MS);
        let ke3 = confirming.ke3.clone();
        let pause = confirming.pause_ms;
        self.send_frame(FrameTarget::Known, ke3);
        self.timers.set_deadline(PeerTimer::Ke3, Some(now.plus_ms(pause)));
    }

    /// Handles a frame of the peer under a session, which proves that the peer has it.
    pub(super) fn heard_fresh(&mut self, attempt: u32, now: Time) -> Result<(), LinkError> {
        // A late frame of a session that was retired proves nothing new.
        if !self.sessions.is_open(attempt) {
            return Err(LinkError::Unknown);
        }
        self.on_verified(now);
        if self.confirming.take_if(|confirming| confirming.attempt == attempt).is_some() {
            self.timers.set_deadline(PeerTimer::Ke3, None);
            if self.sessions.sending().is_none_or(|(sending, _)| sending != attempt) {
                self.use_session(attempt, now);
            }
        }
        Ok(())
    }

    /// Handles a nudge: the responder needs a session. A nudge can be replayed, so it begins at
    /// most one attempt in 5 s and does not reset the back-off (SEKA-61).
    pub(super) fn heard_nudge(
        &mut self,
        arrival: Arrival<'_>,
        rng: &mut dyn CryptoRng,
    ) -> Result<(), LinkError> {
        let Arrival { frame, from, now } = arrival;
        let nudge = Nudge::decode(S::NUMBER, frame)?;
        if (nudge.from, nudge.to) != (self.record.peer, self.record.own) {
            return Err(LinkError::Refused);
        }
        let parts: [&[u8]; 1] = [&frame[..NUDGE_BYTES]];
        // The tag counts no attempts, so only the state identifies the sender.
        let attempt = u32::try_from(self.record.current_born + 1).unwrap_or(u32::MAX);
        if !self.current.verify_tag(TagOf::Nudge, attempt, &parts, &nudge.tag) {
            self.on_misfit(now);
            return Ok(());
        }
        self.on_verified(now);
        // A replayed nudge must not start endless attempts, each of which costs a synchronised
        // write (SEKA-61).
        let soon = self.nudged.is_some_and(|at| now.since_ms(at) < NUDGED_MS);
        // A failed attempt leaves `owed` set until the back-off ends. The peer is present now, so
        // the next attempt begins at once.
        if !soon && matches!(self.stage, Stage::Idle) {
            self.nudged = Some(now);
            self.nudged_from = Some(from);
            self.owed = true;
            self.begin_attempt(now, rng);
        }
        Ok(())
    }
}

snapshot!(struct Confirming { attempt, ke3, repeats, pause_ms, since });
