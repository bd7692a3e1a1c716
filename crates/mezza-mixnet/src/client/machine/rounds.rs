//! The rounds of a client: settings, sealing, sending.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;

use mezza_core::{Backend, CryptoRng, EphemeralKey, Secret, Time, snapshot};

use super::buckets::Fetch;
use super::fill::Filled;
use super::invites::Waiting;
use super::{Client, ClientError, Output, PendingWrite};
use crate::client::checked::CLOCK_MS;
use crate::client::contacts::PartnerId;
use crate::client::job::{ClientJob, ClientJobOutput, WrapJob};
use crate::client::record::{ReceivedPiece, RoundRecord, received_max};
use crate::client::{
    Access, CheckedSettings, ScheduledFrame, SendTime, SettingsError, Submission, Timing,
};
use crate::config::{NetworkId, ServicePolicy};
use crate::contact::Intent;
use crate::keys::SecretVec;
use crate::limits::ROUNDS_IN_FLIGHT;
use crate::privacy::ledger::PrivacyCost;
use crate::sign::VerifyKey;
use crate::wire::{Frame, FrameBody, SignedSettings};
use crate::{RoundId, Service};

/// Milliseconds after its end for which a round is still waited for.
const GRACE_MS: u64 = 10_000;
/// Most milliseconds by which a round may be announced ahead of its close, beyond the config's own
/// times.
const AHEAD_MS: u64 = 60_000;
/// Most rows and messages that may wait to be durable. Above this number no round is sealed.
const AWAITED_MAX: usize = 1_024;

/// One round in progress.
pub(super) struct Round {
    pub checked: CheckedSettings,
    pub policy: ServicePolicy,
    /// Identity keys of the mixes.
    pub mixes: Vec<VerifyKey>,
    timing: Timing,
    end: Time,
    pub stage: RoundState,
}

snapshot!(struct Round { checked, policy, mixes, timing, end, stage });

/// The state of a round, by the event that it waits for.
pub(super) enum RoundState {
    /// Waits for the time to seal.
    Armed,
    /// Waits for its durable record, its job and the time to send.
    Sealed { durable: bool, work: Option<Submission>, content: SlotContents },
    /// Waits for RETURN.
    Sent { back: Vec<SecretVec>, content: SlotContents },
    /// Waits for its bucket.
    Fetching(Fetch),
}

snapshot!(enum RoundState [
    Armed, Sealed { durable, work, content }, Sent { back, content }, Fetching(a),
]);

/// The content of all slots.
pub(super) enum SlotContents {
    /// Accesses to dead drops.
    Drops(Vec<Slot>),
    /// True if a contact is called, and the tokens by which contacts would call us.
    Call(bool, Vec<(PartnerId, Intent, [u8; 16])>),
    /// An invitation, or `None` in an idle slot.
    Invite(Option<Box<Waiting>>),
}

snapshot!(enum SlotContents [Drops(a), Call(a, b), Invite(a)]);

/// One slot of a conversation round.
pub(super) struct Slot {
    pub access: Access,
    /// The line that the slot serves, and the number of the piece in its cell.
    pub served: Option<(u32, Option<u32>)>,
}

snapshot!(struct Slot { access, served });

impl SlotContents {
    /// Returns true if a slot is busy, so that the round costs privacy budget (MIX-24).
    pub(super) fn is_real(&self) -> bool {
        match self {
            Self::Drops(slots) => slots.iter().any(|slot| slot.served.is_some()),
            Self::Call(called, _) => *called,
            Self::Invite(invite) => invite.is_some(),
        }
    }
}

impl Round {
    pub const fn deadline(&self) -> Time {
        match self.stage {
            RoundState::Armed => self.timing.seal,
            RoundState::Sealed { .. } => self.timing.send,
            RoundState::Sent { .. } | RoundState::Fetching(_) => self.end,
        }
    }

    pub const fn fetch_ms(&self) -> u64 {
        self.timing.fetch_ms
    }

    /// Extends the round after RETURN, so that the bucket can be fetched.
    pub fn wait_for_bucket(&mut self, now: Time) {
        self.end = self.end.max(now.plus_ms(self.timing.fetch_ms + GRACE_MS));
    }

    /// Moves all times of the round after the clock went back by `ms`.
    pub fn put_back(&mut self, ms: u64) {
        let Self { timing: Timing { seal, send, .. }, end, .. } = self;
        for at in [seal, send, end] {
            *at = at.minus_ms(ms);
        }
    }

    /// Records that the round's record is durable.
    pub const fn is_durable(&mut self) {
        if let RoundState::Sealed { durable, .. } = &mut self.stage {
            *durable = true;
        }
    }

    pub const fn id(&self) -> RoundId {
        self.checked.settings().id
    }
}

impl fmt::Debug for Round {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match &self.stage {
            RoundState::Armed => "armed",
            RoundState::Sealed { durable, work, .. } => match (durable, work.is_some()) {
                (false, false) => "sealed",
                (true, false) => "sealed, durable",
                (false, true) => "sealed, wrapped",
                (true, true) => "sealed, ready",
            },
            RoundState::Sent { .. } => "sent",
            RoundState::Fetching(_) => "fetching",
        })
    }
}

impl<B: Backend> Client<B> {
    /// Handles SETTINGS read at `read_at`. The times are drawn before it is known whether any slot
    /// will be busy.
    pub(super) fn arm_round(
        &mut self,
        announced: &SignedSettings,
        read_at: Time,
        now: Time,
        rng: &mut dyn CryptoRng,
    ) {
        let id = announced.settings.id;
        match self
            .plan_round(announced, read_at, rng)
            .and_then(|round| self.learn_settings(round, now))
        {
            Ok(round) => {
                // Set only here, because a level above 1 needs verified settings (MIX-31).
                self.standing.verified = true;
                self.standing.draw_needed(rng);
                self.rounds.insert(id, round);
                // Scheduled now, before it is known whether a call is expected (MIX-74).
                self.schedule_fetch(id);
                self.request_pairs();
            }
            Err(error) => {
                use SettingsError::{Late, Old, TooMany};
                if !matches!(error, Late | Old | TooMany) {
                    // Late, old or surplus settings are not the mixes' fault. All others end the
                    // protection (MIX-31).
                    self.standing.doubt();
                }
                // Settings of an unknown config show that a config is missing here.
                let known = self.chain.as_ref().and_then(|chain| chain.hash_of_round(id));
                if known != Some(announced.settings.config) {
                    self.request_configs(read_at, now, rng);
                }
                self.outputs.push_back(Output::Unfit(id, error));
            }
        }
    }

    fn plan_round(
        &self,
        announced: &SignedSettings,
        now: Time,
        rng: &mut dyn CryptoRng,
    ) -> Result<Round, SettingsError> {
        let id = announced.settings.id;
        let chain = self.chain.as_ref().ok_or(SettingsError::NoConfig)?;
        let last = self.last.get(&id.service).copied();
        let checked = CheckedSettings::check(announced, chain, last, now, self.setup.kernel)?;
        let config = chain.of_round(id).ok_or(SettingsError::NoConfig)?;
        let (_, policy) = config.find_policy(id.service).ok_or(SettingsError::NoConfig)?;
        let under_way = self.rounds.keys().filter(|other| other.service == id.service);
        // The entry server may repeat settings. If times were drawn again, it could choose among
        // them.
        if self.rounds.contains_key(&id) {
            return Err(SettingsError::Old);
        }
        // Each round in progress holds keys and slots, so this bound keeps the memory independent
        // of the entry server.
        if under_way.count() >= ROUNDS_IN_FLIGHT {
            return Err(SettingsError::TooMany);
        }
        // The hint is not signed. It corrects for our clock and is refused if it is far off.
        let closes = u64::from(announced.closes_in_ms);
        let collect = u64::from(policy.collect_ms);
        // The round is already open. A client that joined late would be recognisable by its shorter
        // window.
        if closes < collect {
            return Err(SettingsError::Late);
        }
        // A far close would keep a round, its key pairs and one of the four places in progress for
        // long.
        if closes > collect + u64::from(policy.lead_ms) + u64::from(policy.ask_ms) + AHEAD_MS {
            return Err(SettingsError::Clock);
        }
        let close = now.plus_ms(closes);
        Ok(Round {
            timing: Timing::draw(policy, close.minus_ms(collect), now, rng),
            end: close.plus_ms(u64::from(policy.mix_limit_ms) + GRACE_MS),
            policy: policy.clone(),
            mixes: config.mix_keys().copied().collect(),
            checked,
            stage: RoundState::Armed,
        })
    }

    /// Learns from verified settings how far chains may advance (MIX-50), and which rounds an
    /// unreadable row may belong to, which are not sealed (MIX-51).
    fn learn_settings(&mut self, round: Round, now: Time) -> Result<Round, SettingsError> {
        let id = round.id();
        let shown = self.shown.entry(id.service).or_default();
        // All mixes signed the settings, so neither entry server nor clock can move chains beyond
        // them (MIX-50).
        *shown = id.round.max(*shown);
        self.walk_at.get_or_insert(now);
        if !self.unread.remove(&id.service) {
            return Ok(round);
        }
        // Our clock may be off by 60 s, and settings arrive up to ask + lead ahead (MIX-51).
        let latest = round.checked.open_time().plus_ms(round.policy.ahead_ms() + CLOCK_MS);
        let last = round.policy.round_at(latest).unwrap_or(id.round);
        self.goes_to(RoundId { round: last, ..id });
        // This round is skipped: the unreadable row may be its record.
        Err(SettingsError::Old)
    }

    /// Requests key pairs for all rounds that will be sealed.
    fn request_pairs(&mut self) {
        let armed = self.rounds.values().filter(|round| matches!(round.stage, RoundState::Armed));
        let due: usize = armed.map(|round| usize::from(round.policy.slots)).sum();
        // Requested pairs count, so that a late pair is not requested twice.
        let missing = due.saturating_sub(self.pairs.len() + self.wanted);
        if missing > 0 {
            self.wanted += missing;
            self.outputs.push_back(Output::Want(missing));
        }
    }

    /// Returns a round whose next step is due.
    pub(super) fn due_round(&self, now: Time) -> Option<RoundId> {
        self.rounds.values().find(|round| round.deadline() <= now).map(Round::id)
    }

    pub(super) fn move_on(&mut self, id: RoundId, now: Time, rng: &mut dyn CryptoRng) {
        match self.rounds.get(&id).map(|round| &round.stage) {
            // The seal time comes first. A round that cannot be sealed at that time is given up.
            Some(RoundState::Armed) => self.seal_round(id, now, rng),
            // The record or the onions of the round are missing at their time, so nothing is sent.
            Some(RoundState::Sealed { .. } | RoundState::Sent { .. } | RoundState::Fetching(_))
            | None => self.miss_round(id),
        }
    }

    /// Seals a round: fills the slots, stores the changes, and starts the job that wraps the
    /// onions.
    fn seal_round(&mut self, id: RoundId, now: Time, rng: &mut dyn CryptoRng) {
        let Some(mut round) = self.rounds.remove(&id) else { return };
        let slots = usize::from(round.policy.slots);
        // Without key pairs, or with a slow disk, the round is missed: nothing is sent late
        // (MIX-23).
        let ready = self.pairs.len() >= slots && self.awaited.len() < AWAITED_MAX;
        // `closes_in_ms` is unsigned, so a later round may already be sealed. Such a round is
        // skipped (MIX-40).
        let passed = self.last_sealed(id.service).is_some_and(|last| id.round <= last);
        // Dropping `round` here counts as missed. Missed rounds are not made up for (MIX-21).
        if !ready || passed || now >= round.timing.send {
            return;
        }
        let filled = match id.service {
            Service::Conversation => self.fill_drops(id.round, slots, now, rng),
            Service::Call => self.fill_call(&round, now, rng),
            Service::Invitation => self.fill_invitation(&round, now, rng),
        };
        // The pairs are removed, so that no other onion gets the same public key.
        let pairs: Vec<EphemeralKey> = self.pairs.drain(..slots).collect();
        // The record is output before the job, because the SUBMIT waits for both (MIX-23).
        self.record_round(&round, &filled, now);
        let layers = round.checked.layers();
        let inner = filled.inner;
        // The job draws no random bytes itself, so that a second run gives the same onions.
        let seed = Secret::random(rng);
        let job = ClientJob::Wrap(WrapJob { id, layers, pairs, inner, seed });
        self.outputs.push_back(Output::Job(job));
        round.stage = RoundState::Sealed { durable: false, work: None, content: filled.content };
        self.rounds.insert(id, round);
    }

    /// Stores the record of a round (MIX-23) and charges the round (MIX-24).
    fn record_round(&mut self, round: &Round, filled: &Filled, now: Time) {
        let id = round.id();
        let policy = &round.policy;
        let kind = PrivacyCost::from_policy(policy);
        // The charge is made at sealing, whatever happens to the round (MIX-24).
        let charged = filled.content.is_real();
        self.goes_to(id);
        if let Some(ledger) = &mut self.ledger {
            if id.service == Service::Conversation {
                // The period counts every joined conversation round, including idle ones (MIX-25).
                ledger.record_join(id.round, policy.base_round, policy.interval_ms);
            }
            if charged {
                ledger.charge_round(kind);
            }
        }
        let mut received = Vec::new();
        while received.len() < received_max(policy.slots) {
            // Further pieces wait for the next record, because all records have one size.
            let Some((line, seq)) = self.unrecorded.pop_front() else { break };
            let held = self
                .contacts
                .find_line(line)
                .and_then(|line| line.receiver.held_piece(seq).cloned());
            received.extend(held.map(|piece| ReceivedPiece { line, seq, piece }));
        }
        let pieces = received.iter().map(|fragment| (fragment.line, fragment.seq)).collect();
        let record = RoundRecord {
            id,
            at: now,
            kind,
            interval_ms: policy.interval_ms,
            base: policy.base_round,
            charged,
            sealed: filled.sealed.clone(),
            received,
        };
        let seq = self.await_write(PendingWrite::Record(Some(id), pieces));
        let first = self.snapshot;
        let record = record.encode();
        self.outputs.push_back(Output::Store { seq, first, record });
    }

    pub(super) fn network(&self) -> NetworkId {
        self.chain.as_ref().map_or(NetworkId([0; 16]), |chain| chain.head_config().network)
    }

    /// Passes the onions to the line as soon as they are wrapped and their record is durable. The
    /// line sends them at their time. Late onions are not sent.
    pub(super) fn submit_onions(&mut self, id: RoundId, now: Time) {
        // A SUBMIT after its time would show that this client was busy (MIX-74).
        let Some(round) = self.rounds.get_mut(&id).filter(|round| now < round.timing.send) else {
            return;
        };
        match core::mem::replace(&mut round.stage, RoundState::Armed) {
            RoundState::Sealed { durable: true, work: Some(work), content } => {
                round.stage = RoundState::Sent { back: work.reply_keys, content };
                let frame = Frame::Round(id, FrameBody::Submit(work.onions));
                let when = SendTime::At(round.timing.send);
                self.outputs.push_back(Output::Frame(ScheduledFrame { when, frame }));
            }
            stage => round.stage = stage,
        }
    }

    /// Handles the result of a job.
    pub(super) fn on_done(
        &mut self,
        job: &ClientJob,
        done: ClientJobOutput,
        now: Time,
    ) -> Result<(), ClientError> {
        let id = job.id();
        match done {
            ClientJobOutput::Wrap(work) => {
                let round = self.rounds.get_mut(&id).ok_or(ClientError::UnknownRound)?;
                let RoundState::Sealed { work: place @ None, .. } = &mut round.stage else {
                    // A second result of the job, or one of a round that was given up, must not
                    // replace the onions.
                    return Err(ClientError::Unasked);
                };
                *place = work;
                self.submit_onions(id, now);
            }
            ClientJobOutput::Open(invitations) => {
                self.outputs.extend(invitations.into_iter().map(Output::Invited));
            }
        }
        Ok(())
    }
}
