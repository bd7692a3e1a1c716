//! State that waits for the disk, and its commit.

use alloc::boxed::Box;
use alloc::vec::Vec;

use mezza_core::{CryptoRng, EphemeralKey, Snapshot, Time, Writer};

use super::responder::AnsweredKe1;
use super::{Answered, Confirming, FrameTarget, Peer, PeerEvent, PeerOutput, PeerTimer};
use crate::exchange::TagKey;
use crate::limits::{BACKOFF_MS, KE3_REPEAT_MS};
use crate::record::PeerRecord;
use crate::session::LinkSession;
use crate::suite::LinkSuite;

/// The stage of the present attempt.
pub(super) enum Stage<S: LinkSuite> {
    /// No attempt is in progress.
    Idle,
    /// The number of an attempt is being written.
    Reserving { attempt: u32, seq: u64 },
    /// KE1 was sent.
    Sent(Sent),
    /// The next state is being written.
    Staged(Box<Staged<S>>),
}

/// A sent KE1 that waits for KE2.
pub(super) struct Sent {
    pub attempt: u32,
    pub ephemeral: EphemeralKey,
    pub ke1: Vec<u8>,
    pub repeats: u32,
}

/// State that takes effect when its write is durable.
pub(super) struct Staged<S: LinkSuite> {
    pub seq: u64,
    pub record: PeerRecord,
    pub current: TagKey<S>,
    pub pending: Option<TagKey<S>>,
    pub session: LinkSession,
    /// The frame to send then: KE3 of an initiator, KE2 of a responder.
    pub frame: Vec<u8>,
    /// At a responder: the answered KE1.
    pub answers: Option<AnsweredKe1>,
    /// At an initiator: the attempt reserved by the same write.
    pub reserved: Option<u32>,
}

impl<S: LinkSuite> Stage<S> {
    /// Returns the number of the write in progress.
    pub(super) fn pending_write(&self) -> Option<u64> {
        match self {
            Self::Reserving { seq, .. } => Some(*seq),
            Self::Staged(staged) => Some(staged.seq),
            Self::Idle | Self::Sent(_) => None,
        }
    }

    /// Returns true if a write is in progress.
    pub(super) fn is_writing(&self) -> bool {
        self.pending_write().is_some()
    }
}

impl<S: LinkSuite> Peer<S> {
    /// Requests the write of a record under the next number.
    pub(super) fn write_record(&mut self, record: &PeerRecord, rng: &mut dyn CryptoRng) -> u64 {
        self.seq += 1;
        let sealed = Box::new(record.seal(&self.store_key, self.seq, rng));
        self.outputs.push_back(PeerOutput::Store { seq: self.seq, sealed });
        self.seq
    }

    /// Handles the completion of the awaited write.
    pub(super) fn commit_write(&mut self, now: Time) {
        match core::mem::replace(&mut self.stage, Stage::Idle) {
            Stage::Reserving { attempt, .. } => {
                self.record.attempt_next = i64::from(attempt) + 1;
                self.send_ke1(attempt, now);
            }
            Stage::Staged(staged) => self.commit_staged(*staged, now),
            other => self.stage = other,
        }
    }

    /// Commits the staged state. The old state leaves memory here (SEKA-23).
    fn commit_staged(&mut self, staged: Staged<S>, now: Time) {
        let Staged { mut record, current, pending, session, frame, answers, reserved, .. } = staged;
        // DATA may have moved the address while the write was in progress, and the newer one
        // counts.
        record.address = self.record.address;
        (self.record, self.current, self.pending) = (record, current, pending);
        self.reserved = reserved;
        match answers {
            Some(ke1) => {
                // KE2 is sent only to the source of its KE1. KE1 can be replayed, so it must not
                // change the stored address of the peer (SEKA-76).
                self.send_frame(FrameTarget::Source(ke1.from), frame.clone());
                self.answered = Some(Answered::new(ke1.frame, frame, session, now));
            }
            None => self.accept_as_initiator(session, frame, now),
        }
    }

    /// Accepts an exchange as initiator. Frames are sealed under the old session, if there is one,
    /// until a frame of the peer arrives under the new one (SEKA-44).
    fn accept_as_initiator(&mut self, session: LinkSession, ke3: Vec<u8>, now: Time) {
        let attempt = session.attempt();
        let waits = self.sessions.sending().is_some();
        // The peer may send under the session as soon as it has KE3 (SEKA-45).
        self.install_session(session, now);
        self.send_frame(FrameTarget::Known, ke3.clone());
        self.confirming =
            Some(Confirming { attempt, ke3, repeats: 0, pause_ms: KE3_REPEAT_MS, since: now });
        self.timers.set_deadline(PeerTimer::Ke3, Some(now.plus_ms(KE3_REPEAT_MS)));
        // Without a live session there is no reason to wait, and traffic continues at once.
        if !waits {
            self.use_session(attempt, now);
        }
        (self.backoff_ms, self.unanswered, self.owed) = (BACKOFF_MS, 0, false);
        self.report_event(PeerEvent::Accepted(now.since_ms(self.begun)));
    }
}

impl Snapshot for Sent {
    fn snapshot_into(&self, w: &mut Writer) {
        self.attempt.snapshot_into(w);
        self.ephemeral.snapshot_into(w);
        self.ke1.snapshot_into(w);
        self.repeats.snapshot_into(w);
    }
}

/// The snapshot omits session, frames and tag keys, because they are derived from the record.
impl<S: LinkSuite> Snapshot for Stage<S> {
    fn snapshot_into(&self, w: &mut Writer) {
        self.pending_write().snapshot_into(w);
        match self {
            Self::Idle => {}
            Self::Reserving { attempt, .. } => attempt.snapshot_into(w),
            Self::Sent(sent) => sent.snapshot_into(w),
            Self::Staged(staged) => {
                staged.record.snapshot_into(w);
                staged.frame.snapshot_into(w);
                staged.reserved.snapshot_into(w);
            }
        }
    }
}
