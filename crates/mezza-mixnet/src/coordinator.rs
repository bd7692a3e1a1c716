//! The coordinator, which is also the entry server: it is the clock of the network and collects the
//! onions. No party must trust it.
//!
//! ```text
//! open - lead - ask     open - lead        open             close              end
//! Asking -> Signing -> Agreed -> Announced ---- collects ----> Mixing -> Fetching -> done
//!    |         |         |                                       |    (calls, invitations)
//!    +---------+---------+------- deadline, mix lost, ABORT -----+-> aborted
//! ```
//!
//! It stores no counter, because the number of a round follows from the time. Its answer to a
//! client depends on the time and content of the request, never on the client's identity.

mod archive;
mod cause;
mod clients;
mod collect;
mod past;
mod round;
mod shelf;
#[cfg(test)]
mod tests;

use alloc::collections::{BTreeMap, VecDeque};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use mezza_core::snapshot::snapshot_of;
use mezza_core::{CryptoRng, Machine, Time, Wiping, snapshot};

use crate::config::{Chain, ChainError, Config, SignedConfig};
use crate::limits::ROUNDS_IN_FLIGHT;
use crate::sign::Signer;
use crate::wire::{AbortReason, Frame, FrameBody};
use crate::{RoundId, Service};
use archive::Archive;
pub use cause::{AbortCause, MixPositions};
use clients::ClientState;
use past::PastRounds;
use round::Round;
use shelf::BucketCache;

/// Milliseconds by which the clock may go back before rounds are requested again.
const BACK_MS: u64 = 30_000;

/// A connection of a client, by a number that the caller chooses.
pub type ConnectionId = u64;

/// Events that a coordinator handles.
#[derive(Debug)]
pub enum Input {
    /// A frame arrived from the mix at this position.
    FromMix(u8, Frame),
    /// A frame arrived from a client.
    FromClient(ConnectionId, Frame),
    /// A frame arrived from the bucket store.
    FromStore(Frame),
    /// The connection of a client ended.
    Gone(ConnectionId),
    /// The link to the mix at this position broke.
    MixLost(u8),
    /// The link to the bucket store broke.
    StoreLost,
    /// A newer config arrived.
    Config(SignedConfig),
    /// The program is about to end.
    Stop,
}

/// Effects that a coordinator requests.
#[derive(Debug)]
pub enum Output {
    /// Send to the mix at this position; batches go over the data link.
    ToMix(u8, Frame),
    /// Send to the bucket store.
    ToStore(Frame),
    /// Send to one client.
    ToClient(ConnectionId, Frame),
    /// Send these whole frames, which many clients get, to one client.
    Bytes(ConnectionId, Arc<[u8]>),
    /// Send the same frame to every welcomed client.
    ToAll(Frame),
    /// Close the connection of a client.
    Close(ConnectionId),
    /// A round is over, for statistics.
    Over(RoundId, Ending),
}

snapshot!(enum Output [
    ToMix(a, b), ToStore(a), ToClient(a, b), Bytes(a, b), ToAll(a), Close(a), Over(a, b),
]);

/// The end of a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The number of clients that got RETURN.
    Returned(u32),
    /// The round was aborted: reason and causing party.
    Aborted(AbortReason, AbortCause),
}

snapshot!(enum Ending [Returned(a), Aborted(a, b)]);

/// The reason why an input is refused. The coordinator is unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CoordinatorError {
    /// No such round is in progress.
    #[error("no such round is under way")]
    UnknownRound,
    /// The peer may not send such a frame, or not now.
    #[error("the frame does not belong here")]
    Unexpected,
    /// The client has not sent HELLO.
    #[error("the client did not say hello")]
    Stranger,
    /// The client repeats a request more often than necessary.
    #[error("the client asks too often")]
    TooOften,
    /// A signature is wrong.
    #[error("a signature is wrong")]
    Signature,
    /// The config is refused.
    #[error(transparent)]
    Config(#[from] ChainError),
}

/// The coordinator, which is also the entry server. `Debug` shows rounds and counts only.
pub struct Coordinator {
    signer: Signer,
    chain: Chain,
    /// All configs from genesis on, as clients get them.
    archive: Archive,
    clients: BTreeMap<ConnectionId, ClientState>,
    /// Time since which the newest client is welcomed.
    newest_since: Time,
    rounds: BTreeMap<RoundId, Round>,
    /// The last round of each service for which keys were requested.
    asked: BTreeMap<Service, u64>,
    /// Time of the next request for keys.
    ask_at: Option<Time>,
    /// Rounds that are over.
    past: PastRounds,
    shelves: BucketCache,
    outputs: VecDeque<Output>,
}

snapshot!(struct Coordinator {
    signer, chain, archive, clients, newest_since, rounds, asked, ask_at, past, shelves, outputs,
});

impl Coordinator {
    /// Creates a coordinator without rounds. `archive` contains the signed configs from genesis to
    /// the head of `chain`.
    pub fn new(signer: Signer, chain: Chain, archive: Vec<SignedConfig>) -> Self {
        Self {
            signer,
            chain,
            archive: Archive::new(archive),
            clients: BTreeMap::new(),
            newest_since: Time::default(),
            rounds: BTreeMap::new(),
            asked: BTreeMap::new(),
            ask_at: Some(Time::from_ms(0)),
            past: PastRounds::new(),
            shelves: BucketCache::new(),
            outputs: VecDeque::new(),
        }
    }

    /// Returns the rounds in progress.
    pub fn rounds(&self) -> impl Iterator<Item = RoundId> {
        self.rounds.keys().copied()
    }

    /// Returns the number of welcomed clients.
    pub fn clients(&self) -> usize {
        self.welcomed_clients().count()
    }

    /// Returns the known configs.
    pub const fn chain(&self) -> &Chain {
        &self.chain
    }

    /// Returns the welcomed clients, which are the recipients of [`Output::ToAll`].
    pub fn welcomed_clients(&self) -> impl Iterator<Item = ConnectionId> {
        self.clients.iter().filter(|(_, client)| client.since.is_some()).map(|(at, _)| *at)
    }

    /// Returns true if a client was welcomed.
    pub fn is_welcomed(&self, client: ConnectionId) -> bool {
        self.clients.get(&client).is_some_and(|client| client.since.is_some())
    }

    fn tell_mixes(&mut self, mixes: usize, frame: &Frame) {
        let frames = (0..mixes as u8).map(|at| Output::ToMix(at, frame.clone()));
        self.outputs.extend(frames);
    }

    /// Begins one round of each service whose request for keys is due. A round is skipped if its
    /// settings should already be out, or while four rounds are unfinished.
    fn begin_due_rounds(&mut self, now: Time) {
        for service in Service::ALL {
            let Some((id, _)) = self.next_round(service, now).filter(|(_, at)| *at <= now) else {
                continue;
            };
            // Marked before the checks, so that a round skipped below is not requested again.
            self.asked.insert(service, id.round);
            let under_way = self.rounds.keys().filter(|round| round.service == service).count();
            let config = self.chain.of_round(id);
            let Some(round) = config.and_then(|config| Round::begin(id, config)) else { continue };
            let again = self.rounds.contains_key(&id);
            // Late settings would leave clients no time, and the mixes would refuse a fifth round.
            if again || under_way >= ROUNDS_IN_FLIGHT || now >= round.announce {
                continue;
            }
            let mixes = round.mixes.len();
            self.rounds.insert(id, round);
            self.tell_mixes(mixes, &Frame::Round(id, FrameBody::NewRound));
        }
        let next = Service::ALL.into_iter().filter_map(|service| self.next_round(service, now));
        self.ask_at = next.map(|(_, at)| at).min();
    }

    /// Handles a clock that went back since a service's last round was requested. Rounds requested
    /// ahead of the present time are ended, and new ones are requested by the present time
    /// (MIX-49).
    fn go_back(&mut self, now: Time) {
        if self.newest_since > now {
            // Clients that joined while the clock was ahead take part from now on, not from that
            // later time.
            for client in self.clients.values_mut() {
                // A future `since` would answer all their SUBMITs with MISSED until the clock
                // reaches it.
                client.since = client.since.map(|since| since.min(now));
            }
            self.newest_since = now;
        }
        for service in Service::ALL {
            let Some(round) = self.asked.get(&service) else { continue };
            let asked = self.ask_time(RoundId { service, round: *round });
            // Small steps of the clock are usual, and mixes accept 30 s (MIX-34, MIX-49).
            if asked.is_none_or(|asked| asked <= now.plus_ms(BACK_MS)) {
                continue;
            }
            self.asked.remove(&service);
            let early = self.rounds.keys().filter(|id| id.service == service);
            let early = early.filter(|id| self.ask_time(**id).is_some_and(|asked| asked > now));
            for id in early.copied().collect::<Vec<_>>() {
                // Signed rounds end too, because their numbers are ahead of the present time
                // (MIX-49).
                self.abort_round(id, AbortReason::Deadline, AbortCause::Entry);
            }
        }
    }

    /// Returns the time of the request for a round's keys.
    fn ask_time(&self, id: RoundId) -> Option<Time> {
        let (_, policy) = self.chain.of_round(id)?.find_policy(id.service)?;
        Some(policy.open_time(id.round)?.minus_ms(policy.ahead_ms()))
    }

    /// Returns the next round of a service to request, and the time of the request. It may belong
    /// to a config that is not in force yet, because its first rounds are prepared before.
    fn next_round(&self, service: Service, now: Time) -> Option<(RoundId, Time)> {
        let of = |config: &Config| {
            let (_, policy) = config.find_policy(service)?;
            let ahead = policy.ahead_ms();
            let current = policy.round_at(now.plus_ms(ahead)).unwrap_or(policy.base_round);
            let round = match self.asked.get(&service) {
                Some(last) if *last >= current => last.checked_add(1)?,
                _ => current,
            };
            let id = RoundId { service, round };
            let open = policy.open_time(round)?;
            // A config numbers its rounds only while it is in force, so another config may own this
            // number.
            let own = self.chain.of_round(id).is_some_and(|its| its.seq == config.seq);
            own.then_some((id, open.minus_ms(ahead)))
        };
        self.chain.from_now(now).find_map(of)
    }

    /// Aborts a round: sends ABORT to the mixes and MISSED to its clients.
    fn abort_round(&mut self, id: RoundId, reason: AbortReason, cause: AbortCause) {
        let Some(round) = self.rounds.remove(&id) else { return };
        let abort = round.sign_abort(&self.signer, reason);
        // Mixes are notified first, because they wipe their keys then (MIX-14).
        self.tell_mixes(round.mixes.len(), &abort);
        self.outputs.extend(round.missed_frames());
        self.outputs.push_back(Output::Over(id, Ending::Aborted(reason, cause)));
        // Alarms may arrive after the round, so its mixes are remembered for 16 rounds (MIX-27).
        self.past.put_round(round.id, round.config, round.mixes, round.alarmed);
    }

    fn abort_all(
        &mut self,
        reason: AbortReason,
        cause: AbortCause,
        which: impl Fn(&Round) -> bool,
    ) {
        let ended = self.rounds.values().filter(|round| which(round)).map(|round| round.id);
        for id in ended.collect::<Vec<_>>() {
            self.abort_round(id, reason, cause);
        }
    }
}

impl Machine for Coordinator {
    type Input = Input;
    type Output = Output;
    type Error = CoordinatorError;

    fn handle(
        &mut self,
        input: Input,
        now: Time,
        _: &mut dyn CryptoRng,
    ) -> Result<(), CoordinatorError> {
        match input {
            Input::FromMix(at, Frame::Round(id, body)) => self.mix_says(id, at, body),
            Input::FromClient(from, frame) => self.client_says(from, frame, now),
            Input::FromStore(Frame::Round(id, body)) => self.store_says(id, body),
            Input::FromMix(..) | Input::FromStore(_) => Err(CoordinatorError::Unexpected),
            Input::Gone(client) => {
                self.clients.remove(&client).ok_or(CoordinatorError::Stranger)?;
                Ok(())
            }
            Input::MixLost(at) => {
                let has_mix = |round: &Round| usize::from(at) < round.mixes.len();
                self.abort_all(AbortReason::Lost, AbortCause::LinkLost(at), has_mix);
                Ok(())
            }
            Input::StoreLost => {
                self.give_up_on_store();
                Ok(())
            }
            Input::Stop => {
                self.abort_all(AbortReason::Shutdown, AbortCause::Entry, |_| true);
                Ok(())
            }
            Input::Config(config) => {
                let known = self.chain.head_config().seq;
                self.chain.accept_config(&config, now)?;
                // A config that was known already must not rebuild the archive.
                if self.chain.head_config().seq > known {
                    self.archive.push_config(config);
                    self.ask_at = Some(now);
                }
                Ok(())
            }
        }
    }

    fn wake(&mut self, now: Time, _: &mut dyn CryptoRng) {
        // The clock comes first, because rounds ahead of a clock that went back must not advance.
        self.go_back(now);
        self.begin_due_rounds(now);
        let due = self.rounds.values().filter(|round| round.deadline() <= now).map(|r| r.id);
        for id in due.collect::<Vec<_>>() {
            self.move_on(id, now);
        }
    }

    fn poll(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    fn deadline(&self) -> Option<Time> {
        let rounds = self.rounds.values().map(Round::deadline);
        rounds.chain(self.ask_at).min()
    }

    fn snapshot(&self) -> Wiping<Vec<u8>> {
        snapshot_of(self)
    }
}

impl fmt::Debug for Coordinator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Coordinator")
            .field("head", &self.chain.head_config().seq)
            .field("clients", &self.clients)
            .field("rounds", &self.rounds)
            .field("shelves", &self.shelves.len())
            .field("outputs", &self.outputs.len())
            .finish_non_exhaustive()
    }
}
