//! The side that responds.

use alloc::boxed::Box;
use alloc::vec::Vec;

use mezza_core::{CryptoRng, EphemeralKey, Snapshot, Time, Writer};
use subtle::ConstantTimeEq;

use super::staged::{Stage, Staged};
use super::{Arrival, FrameTarget, Peer, PeerEvent, PeerOutput, PeerTimer};
use crate::error::LinkError;
use crate::exchange::{KE_BYTES, KE3_BYTES, NUDGE_BYTES, TagKey, TagOf};
use crate::keys::{CanonicalPoint, LinkRole};
use crate::limits::{ANSWER_MS, NUDGE_MS, SEARCH_NUDGES, TAG_BYTES};
use crate::record::{PeerAddress, PeerRecord};
use crate::session::{LinkSession, SessionPlace};
use crate::suite::{ExchangeView, LinkSuite};
use crate::wire::{HandshakeFrame, Ke1, Ke2, Ke3, Nudge};

/// The KE1 to which a staged write belongs.
pub(super) struct AnsweredKe1 {
    pub frame: Vec<u8>,
    /// The source of the KE1, which gets KE2.
    pub from: PeerAddress,
}

/// The last answered KE1, and its state.
pub(super) struct Answered {
    ke1: Vec<u8>,
    ke2: Vec<u8>,
    /// The session; taken when KE3 arrives.
    session: Option<LinkSession>,
    /// The accepted KE3, and the attempt of its session.
    accepted: Option<(Vec<u8>, u32)>,
    since: Time,
    /// Time of the last response.
    last: Time,
}

impl Answered {
    pub(super) fn new(ke1: Vec<u8>, ke2: Vec<u8>, session: LinkSession, now: Time) -> Self {
        Self { ke1, ke2, session: Some(session), accepted: None, since: now, last: now }
    }

    /// Returns true if a response may be sent now (SEKA-13).
    fn may_answer(&self, now: Time) -> bool {
        now.since_ms(self.last) >= ANSWER_MS
    }
}

impl<S: LinkSuite> Peer<S> {
    /// Handles KE1; checks in this order: pair, attempt, tag, session id, point; then derives the
    /// key and writes.
    pub(super) fn heard_ke1(
        &mut self,
        arrival: Arrival<'_>,
        rng: &mut dyn CryptoRng,
    ) -> Result<(), LinkError> {
        let Arrival { frame, now, .. } = arrival;
        let ke1 = Ke1::decode(S::NUMBER, frame)?;
        // Frames of other pairs on the same network are refused before any tag is computed.
        if (ke1.from, ke1.to) != (self.record.peer, self.record.own) {
            return Err(LinkError::Refused);
        }
        // While a write is in progress the state in force is unknown. The initiator repeats KE1.
        if self.stage.is_writing() {
            return Err(LinkError::Busy);
        }
        // Replays are refused by number before a tag is computed (SEKA-13).
        if i64::from(ke1.attempt) <= self.record.attempt_seen {
            return self.heard_old_ke1(arrival);
        }
        let parts: [&[u8]; 1] = [&frame[..KE_BYTES]];
        // At most two tags for each frame: a flood costs no more than that (section Promise).
        let fits = |key: &TagKey<S>| key.verify_tag(TagOf::Ke1, ke1.attempt, &parts, &ke1.tag);
        // A tag under the pending state proves that the initiator accepted the last exchange
        // (SEKA-18).
        let recovers = if fits(&self.current) {
            false
        } else if self.pending.as_ref().is_some_and(fits) {
            true
        } else {
            self.on_misfit(now);
            return Ok(());
        };
        // s is checked after the tag, so that an unknown sender learns nothing from this refusal
        // (SEKA-5).
        if !S::is_session_id(&ke1.session_id, &ke1.from, &ke1.m1) {
            return Err(LinkError::Refused);
        }
        // DH and a write come last and have a budget, so that even a thief of the state cannot
        // flood the disk (SEKA-72).
        if !self.budget.may_begin(now, self.settings.exchange_ms) {
            return Err(LinkError::Busy);
        }
        let Some(ephemeral) = self.take_ephemeral() else { return Err(LinkError::Busy) };
        // Only an exchange that really begins uses up the budget.
        self.budget.take_one(now, self.settings.exchange_ms);
        self.on_verified(now);
        self.begun = now;
        self.stage_responder(arrival, &ke1, ephemeral, recovers, rng);
        Ok(())
    }

    /// Handles a KE1 of an old attempt: a repeat of the answered KE1 gets the same response; any
    /// other frame is a replay.
    fn heard_old_ke1(&mut self, arrival: Arrival<'_>) -> Result<(), LinkError> {
        let Arrival { frame, from, now } = arrival;
        let Some(answered) = self.answered.as_mut().filter(|answered| answered.ke1 == frame) else {
            self.on_misfit(now);
            return Ok(());
        };
        // Repeats are answered every 100 ms at most, or a replay would be a reflector (SEKA-13).
        if !answered.may_answer(now) {
            return Err(LinkError::Busy);
        }
        answered.last = now;
        let ke2 = answered.ke2.clone();
        // A replay from elsewhere gets bytes that its sender has seen already, and changes nothing.
        self.send_frame(FrameTarget::Source(from), ke2);
        Ok(())
    }

    /// Makes response, next state and session, and writes them in one record (SEKA-15, SEKA-18).
    fn stage_responder(
        &mut self,
        arrival: Arrival<'_>,
        ke1: &Ke1,
        ephemeral: EphemeralKey,
        recovers: bool,
        rng: &mut dyn CryptoRng,
    ) {
        let frame = arrival.frame;
        let mut record = self.record.duplicate();
        if recovers {
            // The initiator has accepted the exchange whose third message was lost.
            promote_pending(&mut record);
            record.accepted = true;
        }
        let current = TagKey::from_current(&record, &self.prefixes);
        let pair = self.pair();
        let m2 = CanonicalPoint::from_own_key(ephemeral.public_key());
        let view = ExchangeView { pair: &pair, session_id: &ke1.session_id, m1: &ke1.m1, m2: &m2 };
        // SEKA-4: a point of low order gets no response.
        let Ok(shared) = ephemeral.diffie_hellman::<S::Backend>(ke1.m1.public()) else { return };
        let derived = S::derive_exchange_keys(&shared, &record.current, &view);
        let attempt = ke1.attempt;
        let ke2 = self.build_ke2(&current, &m2, ke1, frame);
        record.pending = Some(derived.state);
        record.pending_born = i64::from(attempt);
        record.attempt_seen = i64::from(attempt);
        // The tag of the new pending state is prepared now, so that the commit only moves values.
        let pending = TagKey::from_pending(&record, &self.prefixes);
        let place = SessionPlace {
            role: LinkRole::Responder,
            prefixes: self.prefixes,
            attempt,
            own_index: self.data_index(attempt),
            peer_index: ke1.index,
            subkeys: self.settings.subkeys,
        };
        // KE2 waits for this write: after a crash it must never belong to a lost state (SEKA-15).
        let seq = self.write_record(&record, rng);
        self.stage = Stage::Staged(Box::new(Staged {
            seq,
            record,
            current,
            pending,
            session: LinkSession::new(derived.session, &place),
            frame: ke2,
            answers: Some(AnsweredKe1 { frame: frame.to_vec(), from: arrival.from }),
            reserved: None,
        }));
    }

    fn build_ke2(&self, key: &TagKey<S>, m2: &CanonicalPoint, ke1: &Ke1, heard: &[u8]) -> Vec<u8> {
        let mut frame = Ke2 {
            suite: S::NUMBER,
            index: self.data_index(ke1.attempt),
            from: self.record.own,
            to: self.record.peer,
            session_id: ke1.session_id,
            attempt: ke1.attempt,
            m2: *m2,
            tag: [0; TAG_BYTES],
        };
        let untagged = frame.encode();
        let parts: [&[u8]; 2] = [&untagged[..KE_BYTES], &heard[..KE_BYTES]];
        frame.tag = key.compute_tag(TagOf::Ke2, ke1.attempt, &parts);
        frame.encode()
    }

    /// Handles KE3: the initiator has KE2, so the session is accepted (SEKA-20).
    pub(super) fn heard_ke3(&mut self, arrival: Arrival<'_>) -> Result<(), LinkError> {
        let Arrival { frame, from, now } = arrival;
        let ke3 = Ke3::decode(S::NUMBER, frame)?;
        if (ke3.from, ke3.to) != (self.record.peer, self.record.own) {
            return Err(LinkError::Refused);
        }
        // KE3 must be checked against the state in force, which a write may be changing.
        if self.stage.is_writing() {
            return Err(LinkError::Busy);
        }
        let Some(answered) = &self.answered else { return Err(LinkError::Refused) };
        if let Some((accepted, attempt)) = &answered.accepted {
            // A repeated KE3 must be byte-identical: only then it proves nothing and changes
            // nothing (SEKA-19).
            let is_repeat: bool = accepted.as_slice().ct_eq(frame).into();
            let attempt = *attempt;
            if !is_repeat {
                return Err(LinkError::Refused);
            }
            return self.heard_old_ke3(attempt, arrival);
        }
        let parts: [&[u8]; 3] =
            [&frame[..KE3_BYTES], &answered.ke1[..KE_BYTES], &answered.ke2[..KE_BYTES]];
        let seen = u32::try_from(self.record.attempt_seen).unwrap_or(u32::MAX);
        // KE3 must be for the last answered attempt. An older one was made under a replaced state.
        let right =
            ke3.attempt == seen && self.current.verify_tag(TagOf::Ke3, seen, &parts, &ke3.tag);
        if !right {
            return Err(LinkError::Refused);
        }
        // The first valid KE3 responds to our KE2, so its source is current (SEKA-77).
        self.move_to(from);
        self.accept_as_responder(frame, now);
        Ok(())
    }

    fn accept_as_responder(&mut self, ke3: &[u8], now: Time) {
        let Some(answered) = &mut self.answered else { return };
        let Some(session) = answered.session.take() else { return };
        let attempt = session.attempt();
        let since = answered.since;
        answered.accepted = Some((ke3.to_vec(), attempt));
        answered.last = now;
        promote_pending(&mut self.record);
        if let Some(key) = self.pending.take() {
            // The old state leaves memory here. The disk follows with the flush (SEKA-23).
            self.current = key;
        }
        self.record.accepted = true;
        self.record.rekeys += 1;
        self.record.accepted_ms = now.as_ms().saturating_add(self.wall_ms);
        // Both slots still hold the old state in addition to the new one.
        self.flush_soon(2, now);
        self.on_verified(now);
        self.install_session(session, now);
        self.use_session(attempt, now);
        self.outputs.push_back(PeerOutput::KeepAlive { attempt, to: FrameTarget::Known });
        self.owed = false;
        self.report_event(PeerEvent::Accepted(now.since_ms(since)));
    }

    /// Responds to a repeated KE3 with another frame of its session.
    fn heard_old_ke3(&mut self, attempt: u32, arrival: Arrival<'_>) -> Result<(), LinkError> {
        let Arrival { from, now, .. } = arrival;
        // The session ended meanwhile. Nothing can be sent under it, so the frame is refused.
        if !self.sessions.is_open(attempt) {
            return Err(LinkError::Refused);
        }
        match &mut self.answered {
            Some(answered) if answered.may_answer(now) => answered.last = now,
            _ => return Err(LinkError::Busy),
        }
        let to = FrameTarget::Source(from);
        self.outputs.push_back(PeerOutput::KeepAlive { attempt, to });
        Ok(())
    }

    /// Sends nudges under every state that the initiator may hold, until an exchange is accepted.
    pub(super) fn send_nudge(&mut self, now: Time) {
        self.nudging = true;
        self.timers.set_deadline(PeerTimer::Nudge, Some(now.plus_ms(NUDGE_MS)));
        // Under both states, since the initiator may hold either one until KE3 arrives.
        let frames: Vec<Vec<u8>> = core::iter::once((&self.current, self.record.current_born))
            .chain(self.pending.as_ref().map(|key| (key, self.record.pending_born)))
            .map(|(key, born)| self.nudge_under(key, born))
            .collect();
        self.nudges = self.nudges.saturating_add(1);
        // Every fifth nudge goes to all possible addresses, in case the initiator has moved
        // (SEKA-79).
        let search = self.nudges.is_multiple_of(SEARCH_NUDGES);
        let to = if search { FrameTarget::Search } else { FrameTarget::Known };
        for frame in frames {
            self.send_frame(to, frame);
        }
    }

    fn nudge_under(&self, key: &TagKey<S>, born: i64) -> Vec<u8> {
        let mut frame = Nudge {
            suite: S::NUMBER,
            index: self.data_index(0),
            from: self.record.own,
            to: self.record.peer,
            attempt: u32::try_from(self.record.attempt_seen).unwrap_or(0),
            tag: [0; TAG_BYTES],
        };
        let untagged = frame.encode();
        // The tag of a nudge counts no attempts: `born + 1` is the first attempt under this state.
        let attempt = u32::try_from(born + 1).unwrap_or(u32::MAX);
        let parts: [&[u8]; 1] = [&untagged[..NUDGE_BYTES]];
        frame.tag = key.compute_tag(TagOf::Nudge, attempt, &parts);
        frame.encode()
    }
}

/// Makes the pending state the current one.
fn promote_pending(record: &mut PeerRecord) {
    if let Some(state) = record.pending.take() {
        record.current = state;
        record.current_born = record.pending_born;
    }
}

/// The session is derived from the record and the frames.
impl Snapshot for Answered {
    fn snapshot_into(&self, w: &mut Writer) {
        self.ke1.snapshot_into(w);
        self.ke2.snapshot_into(w);
        self.session.is_some().snapshot_into(w);
        self.accepted.snapshot_into(w);
        self.since.snapshot_into(w);
        self.last.snapshot_into(w);
    }
}
