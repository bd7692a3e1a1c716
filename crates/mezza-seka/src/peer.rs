//! The machine of a pairing: exchanges, its record, sessions and alarm.
//!
//! ```text
//! initiator   Idle -> Reserving (write a) -> Sent -> Staged (write st_new) -> Idle, KE3 repeated until Fresh
//! responder   Idle -> Staged (write st_p) -> Idle, KE1 answered; KE3 in: session accepted, lazy write
//! ```
//!
//! State that waits for the disk is *staged*: neither memory nor the network changes before
//! `Stored`, and `StoreFailed` drops it (SEKA-24). During a write no attempt begins or ends.

mod alarm;
mod flush;
mod initiator;
mod io;
mod responder;
mod sessions;
mod snapshot;
mod staged;
mod traffic;

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use mezza_core::{CryptoRng, EphemeralKey, Machine, Time, Timers, Wiping, snapshot::snapshot_of};

pub use io::{FrameTarget, PeerEvent, PeerInput, PeerOutput, PeerSettings, PeerStatus};

use crate::error::LinkError;
use crate::exchange::TagKey;
use crate::keys::{LinkPair, LinkRole, LinkState};
use crate::limits::{BACKOFF_MS, TAG_BYTES};
use crate::record::{PeerAddress, PeerRecord, StoreKey};
use crate::session::NoncePrefixes;
use crate::suite::LinkSuite;
use crate::wire::{Ke1, Ke2, Ke3, Nudge, kind_of};
use alarm::{ExchangeBudget, Recognition};
use initiator::Confirming;
use responder::Answered;
use sessions::Sessions;
use staged::Stage;

/// The purpose of a timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum PeerTimer {
    /// Repeat KE1, or end the attempt.
    Ke1,
    /// Repeat KE3.
    Ke3,
    /// Begin the next attempt after a failed one.
    Retry,
    /// The session must be renewed.
    Rekey,
    /// The renewal is overdue.
    Overdue,
    /// Renew the keys of an idle link.
    Heal,
    /// The responder requests an exchange.
    Nudge,
    /// Write the record to the other slot.
    Flush,
    /// A session ends.
    Session,
    /// Send an empty frame.
    KeepAlive,
}

/// A frame of the exchange, with its source and time.
#[derive(Clone, Copy)]
struct Arrival<'a> {
    frame: &'a [u8],
    /// The source, which proves nothing (SEKA-76).
    from: PeerAddress,
    now: Time,
}

/// A completed pairing. `S` is its suite.
pub struct Peer<S: LinkSuite> {
    settings: PeerSettings,
    store_key: StoreKey,
    /// The record: durable, or durable within a second and harmless if lost.
    record: PeerRecord,
    prefixes: NoncePrefixes,
    /// The number of the last write.
    seq: u64,
    /// Writes left until both slots hold the record.
    flushes: u8,
    /// The number of the flush in progress.
    flush_out: Option<u64>,
    current: TagKey<S>,
    pending: Option<TagKey<S>>,
    ephemeral: Option<EphemeralKey>,
    stage: Stage<S>,
    /// An attempt that is reserved on the disk and has not begun.
    reserved: Option<u32>,
    /// True if an exchange must begin as soon as possible.
    owed: bool,
    /// The session id of the present attempt.
    session_id: [u8; TAG_BYTES],
    /// Time when the present attempt began.
    begun: Time,
    backoff_ms: u64,
    unanswered: u32,
    /// At an initiator: time of the last attempt caused by a nudge.
    nudged: Option<Time>,
    /// At an initiator: the source of the nudge that caused the present attempt.
    nudged_from: Option<PeerAddress>,
    /// At a responder: true if nudges are sent until an exchange is accepted.
    nudging: bool,
    /// At a responder: nudges since the peer was last verified.
    nudges: u32,
    confirming: Option<Confirming>,
    answered: Option<Answered>,
    sessions: Sessions,
    recognition: Recognition,
    budget: ExchangeBudget,
    /// Frames of the present session, ours and the peer's.
    used: (u32, u32),
    /// The time of day minus the machine's time, ms.
    wall_ms: u64,
    timers: Timers<PeerTimer>,
    outputs: VecDeque<PeerOutput>,
}

impl<S: LinkSuite> Peer<S> {
    /// Restores a peer from a stored record with the number of its last write. A record of another
    /// suite is refused (SEKA-27).
    ///
    /// # Errors
    /// [`LinkError::Refused`] for a record of another suite.
    pub fn restore(
        seq: u64,
        record: PeerRecord,
        store_key: StoreKey,
        settings: PeerSettings,
        now: Time,
    ) -> Result<Self, LinkError> {
        // A record of another suite would derive other keys from the same state (SEKA-27).
        if record.suite != S::NUMBER {
            return Err(LinkError::Refused);
        }
        let mut peer = Self::new(record, store_key, settings, now);
        peer.seq = seq;
        // A crash between the two writes may have left an older state in the other slot.
        peer.flush_soon(1, now);
        Ok(peer)
    }

    /// Makes a peer for a new pairing; its first write is that of its first exchange.
    pub(crate) fn new(
        record: PeerRecord,
        store_key: StoreKey,
        settings: PeerSettings,
        now: Time,
    ) -> Self {
        let prefixes = NoncePrefixes::from_pair(&record.pair());
        let current = TagKey::from_current(&record, &prefixes);
        let pending = TagKey::from_pending(&record, &prefixes);
        let mut peer = Self {
            settings,
            store_key,
            record,
            prefixes,
            seq: 0,
            flushes: 0,
            flush_out: None,
            current,
            pending,
            ephemeral: None,
            stage: Stage::Idle,
            reserved: None,
            owed: false,
            session_id: [0; TAG_BYTES],
            begun: now,
            backoff_ms: BACKOFF_MS,
            unanswered: 0,
            nudged: None,
            nudged_from: None,
            nudging: false,
            nudges: 0,
            confirming: None,
            answered: None,
            sessions: Sessions::default(),
            recognition: Recognition::default(),
            budget: ExchangeBudget::new(now),
            used: (0, 0),
            wall_ms: 0,
            timers: Timers::default(),
            outputs: VecDeque::new(),
        };
        // An ephemeral key is requested ahead, so that a KE1 is not refused as busy.
        peer.outputs.push_back(PeerOutput::Want);
        peer.timers.set_deadline(PeerTimer::Heal, Some(now.plus_ms(peer.settings.heal_ms)));
        peer
    }

    /// Returns the stored record. The states in it stay inside this crate.
    pub fn record(&self) -> &PeerRecord {
        &self.record
    }

    /// Returns true if both slots hold the present record, so that no older state is on the disk.
    pub fn is_flushed(&self) -> bool {
        self.flushes == 0 && self.flush_out.is_none() && !self.stage.is_writing()
    }

    /// Returns the status at `now`.
    pub fn status(&self) -> PeerStatus {
        let session = self.sessions.sending();
        PeerStatus {
            session,
            rekey: session.map(|(_, since)| since.plus_ms(self.settings.rekey_ms)),
            alarm: self.recognition.raised,
            refused: self.recognition.refused,
            unanswered: self.unanswered,
        }
    }

    /// Returns the states that a thief of the disk would find now, for tests of a theft.
    #[doc(hidden)]
    pub fn stolen_states(&self) -> (&[u8; 32], Option<&[u8; 32]>) {
        (self.record.current.expose(), self.record.pending.as_ref().map(LinkState::expose))
    }

    fn pair(&self) -> LinkPair {
        self.record.pair()
    }

    /// Returns the index that the other side puts into DATA of this attempt.
    fn data_index(&self, attempt: u32) -> u32 {
        (u32::from(self.record.link) << 8) | (attempt & 0xff)
    }

    fn on_frame(&mut self, arrival: Arrival<'_>, rng: &mut dyn CryptoRng) -> Result<(), LinkError> {
        match (self.record.role, kind_of(arrival.frame)) {
            (LinkRole::Responder, Some(Ke1::KIND)) => self.heard_ke1(arrival, rng),
            (LinkRole::Responder, Some(Ke3::KIND)) => self.heard_ke3(arrival),
            (LinkRole::Initiator, Some(Ke2::KIND)) => self.heard_ke2(arrival, rng),
            (LinkRole::Initiator, Some(Nudge::KIND)) if S::COMPLETE => {
                self.heard_nudge(arrival, rng)
            }
            // The frame is from our own role: a replay of ours, or an intercepted pairing.
            (LinkRole::Initiator, Some(Ke1::KIND)) | (LinkRole::Responder, Some(Nudge::KIND)) => {
                self.heard_own_role(arrival.frame, arrival.now)
            }
            // A frame that the peer's role never sends is dropped (SEKA-10).
            _ => Err(LinkError::Refused),
        }
    }

    fn report_event(&mut self, event: PeerEvent) {
        self.outputs.push_back(PeerOutput::Tell(event));
    }

    fn send_frame(&mut self, to: FrameTarget, frame: Vec<u8>) {
        self.outputs.push_back(PeerOutput::Send { to, frame });
    }

    /// Handles the address of a frame that only the peer can have made just now: KE2 responds to
    /// the present attempt, and KE3 to our KE2. All other frames can be replayed from elsewhere and
    /// never move the address (SEKA-77).
    fn move_to(&mut self, address: PeerAddress) {
        self.nudges = 0;
        // Report a move only if the address changed: data threads react to it.
        if self.record.address != address {
            self.record.address = address;
            self.outputs.push_back(PeerOutput::Moved(address));
        }
    }

    /// Takes the prepared ephemeral key and requests the next one.
    fn take_ephemeral(&mut self) -> Option<EphemeralKey> {
        let ephemeral = self.ephemeral.take()?;
        self.outputs.push_back(PeerOutput::Want);
        Some(ephemeral)
    }

    /// Requests an exchange: the initiator begins one, the responder sends nudges.
    fn request_exchange(&mut self, now: Time, rng: &mut dyn CryptoRng) {
        match self.record.role {
            LinkRole::Initiator => {
                self.owed = true;
                self.begin_attempt(now, rng);
            }
            LinkRole::Responder if S::COMPLETE => self.send_nudge(now),
            LinkRole::Responder => {}
        }
    }

    fn handle_timer(&mut self, timer: PeerTimer, now: Time, rng: &mut dyn CryptoRng) {
        match timer {
            PeerTimer::Ke1 => self.ke1_due(now),
            PeerTimer::Ke3 => self.ke3_due(now, rng),
            PeerTimer::Retry => self.request_exchange(now, rng),
            PeerTimer::Rekey => self.rekey_due(now, rng),
            PeerTimer::Overdue => self.report_event(PeerEvent::Overdue),
            // Only the initiator begins exchanges (SEKA-10). The responder's keys are renewed with
            // it.
            PeerTimer::Heal => {
                self.timers.set_deadline(PeerTimer::Heal, Some(now.plus_ms(self.settings.heal_ms)));
                if self.record.role == LinkRole::Initiator {
                    self.request_exchange(now, rng);
                }
            }
            PeerTimer::Nudge => self.send_nudge(now),
            PeerTimer::Flush => self.flush_record(rng),
            PeerTimer::Session => self.sessions_due(now, rng),
            PeerTimer::KeepAlive => self.keep_alive_due(now),
        }
    }
}

impl<S: LinkSuite> Machine for Peer<S> {
    type Input = PeerInput;
    type Output = PeerOutput;
    type Error = LinkError;

    fn handle(
        &mut self,
        input: PeerInput,
        now: Time,
        rng: &mut dyn CryptoRng,
    ) -> Result<(), LinkError> {
        match input {
            PeerInput::Datagram { frame, from } => {
                return self.on_frame(Arrival { frame: &frame, from, now }, rng);
            }
            // A second key would replace the first one unused and hide a driver error.
            PeerInput::Give(_) if self.ephemeral.is_some() => return Err(LinkError::Unknown),
            PeerInput::Give(ephemeral) => {
                self.ephemeral = Some(ephemeral);
                if self.owed {
                    self.begin_attempt(now, rng);
                }
            }
            PeerInput::Stored(seq) => return self.on_stored(seq, now, rng),
            PeerInput::StoreFailed(seq) => return self.store_failed(seq, now),
            PeerInput::Fresh(attempt) => return self.heard_fresh(attempt, now),
            PeerInput::Used(usage) => {
                // Counts of a session that is no longer used must not renew the present one.
                if self.sessions.sending().is_none_or(|(sending, _)| sending != usage.attempt) {
                    return Err(LinkError::Unknown);
                }
                self.heard_used(usage, now, rng);
            }
            PeerInput::Rekey => {
                // The user's request overrides the back-off.
                self.timers.set_deadline(PeerTimer::Retry, None);
                self.request_exchange(now, rng);
            }
            PeerInput::Wanted => {
                // A request during an exchange would end an attempt whose response is under way.
                if self.sessions.sending().is_none() && !self.is_renewing() {
                    self.request_exchange(now, rng);
                }
            }
            PeerInput::Carrier(true) => {
                // A new carrier may reach the peer at once, so the back-off starts again.
                self.backoff_ms = BACKOFF_MS;
                self.timers.set_deadline(PeerTimer::Retry, None);
                self.request_exchange(now, rng);
            }
            PeerInput::Carrier(false) => self.end_sessions(),
            PeerInput::Wall(ms) => self.wall_ms = ms.saturating_sub(now.as_ms()),
            PeerInput::Heard(address) => self.record.address = address,
        }
        Ok(())
    }

    fn wake(&mut self, now: Time, rng: &mut dyn CryptoRng) {
        while let Some(timer) = self.timers.take_first(now) {
            self.handle_timer(timer, now, rng);
        }
    }

    fn poll(&mut self) -> Option<PeerOutput> {
        self.outputs.pop_front()
    }

    fn deadline(&self) -> Option<Time> {
        self.timers.next_deadline()
    }

    fn snapshot(&self) -> Wiping<Vec<u8>> {
        snapshot_of(self)
    }
}
