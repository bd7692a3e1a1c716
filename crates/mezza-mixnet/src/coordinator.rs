//! The coordinator and entry: the clock of the network, and the place where onions gather. Nobody
//! needs to trust it.
//!
//! ```text
//! open - lead - ask     open - lead        open             close              end
//! Asking -> Signing -> Agreed -> Announced ---- collects ----> Mixing -> Fetching -> done
//!    |         |         |                                       |    (calls, invitations)
//!    +---------+---------+------- deadline, mix lost, ABORT -----+-> aborted
//! ```
//!
//! It stores no counter: the number of a round follows from the time. What a client gets depends on
//! when it came and what it sent, never on who it is.

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

/// By how much the clock may go back without any round being asked for again, milliseconds.
const BACK_MS: u64 = 30_000;

/// A connection of a client, as the caller numbers them.
pub type ConnectionId = u64;

/// Events that a coordinator handles.
#[derive(Debug)]
pub enum Input {
    /// A frame came from the mix at this position.
    FromMix(u8, Frame),
    /// A frame came from a client.
    FromClient(ConnectionId, Frame),
    /// A frame came from the bucket store.
    FromStore(Frame),
    /// A client went.
    Gone(ConnectionId),
    /// A link with the mix at this position broke.
    MixLost(u8),
    /// The link with the bucket store broke.
    StoreLost,
    /// A newer config.
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
    /// Send whole frames, which many clients get, to one client.
    Bytes(ConnectionId, Arc<[u8]>),
    /// Send the same bytes to every client that was welcomed.
    ToAll(Frame),
    /// Hang up on a client.
    Close(ConnectionId),
    /// A round is over; to count.
    Over(RoundId, Ending),
}

snapshot!(enum Output [
    ToMix(a, b), ToStore(a), ToClient(a, b), Bytes(a, b), ToAll(a), Close(a), Over(a, b),
]);

/// How a round ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// So many clients got their RETURN.
    Returned(u32),
    /// Before its time, and for whom.
    Aborted(AbortReason, AbortCause),
}

snapshot!(enum Ending [Returned(a), Aborted(a, b)]);

/// Why an input was refused. The coordinator is as before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CoordinatorError {
    /// Not for us: no such round is under way, or it is over.
    #[error("no such round is under way")]
    UnknownRound,
    /// The peer does not send such frames, or not now.
    #[error("the frame does not belong here")]
    Unexpected,
    /// The client did not say HELLO.
    #[error("the client did not say hello")]
    Stranger,
    /// The client asks for this more often than a client does.
    #[error("the client asks too often")]
    TooOften,
    /// A signature is wrong.
    #[error("a signature is wrong")]
    Signature,
    /// The config is refused.
    #[error(transparent)]
    Config(#[from] ChainError),
}

/// Entry and coordinator in one. `Debug` shows rounds and counts.
pub struct Coordinator {
    signer: Signer,
    chain: Chain,
    /// All configs from genesis on, as clients get them.
    archive: Archive,
    clients: BTreeMap<ConnectionId, ClientState>,
    /// When the newest of them was welcomed.
    newest_since: Time,
    rounds: BTreeMap<RoundId, Round>,
    /// The last round of each service that keys were asked for.
    asked: BTreeMap<Service, u64>,
    /// When to ask for keys next.
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
    /// A coordinator without rounds. `archive` holds the signed configs from genesis to the head of
    /// the chain.
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

    /// Rounds under way.
    pub fn rounds(&self) -> impl Iterator<Item = RoundId> {
        self.rounds.keys().copied()
    }

    /// Clients that were welcomed.
    pub fn clients(&self) -> usize {
        self.welcomed_clients().count()
    }

    /// The configs known.
    pub const fn chain(&self) -> &Chain {
        &self.chain
    }

    /// The clients that were welcomed: those that [`Output::ToAll`] is for.
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

    /// Begins what is due: one round of each service whose request for keys has come. A round
    /// whose settings should be out already is skipped, and so is one while four are unfinished.
    fn begin_due_rounds(&mut self, now: Time) {
        for service in Service::ALL {
            let Some((id, _)) = self.next_round(service, now).filter(|(_, at)| *at <= now) else {
                continue;
            };
            // Marked before the checks: a round that is skipped below is not asked for again.
            self.asked.insert(service, id.round);
            let under_way = self.rounds.keys().filter(|round| round.service == service).count();
            let config = self.chain.of_round(id);
            let Some(round) = config.and_then(|config| Round::begin(id, config)) else { continue };
            let again = self.rounds.contains_key(&id);
            // Settings that are late would leave clients no time, and a fifth round would be
            // refused by the mixes.
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

    /// Handles a clock that was put back since a service's last round was requested: rounds requested
    /// ahead of its time ends, and rounds are asked for by the time of now (MIX-49).
    fn go_back(&mut self, now: Time) {
        if self.newest_since > now {
            // Clients that came while the clock was ahead take part from now on, not from then.
            for client in self.clients.values_mut() {
                // A future `since` would answer all their SUBMITs with MISSED until the clock is
                // there again.
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
                // Signed rounds end too: their numbers lie ahead of the present time (MIX-49).
                self.abort_round(id, AbortReason::Deadline, AbortCause::Entry);
            }
        }
    }

    /// When a round is asked for.
    fn ask_time(&self, id: RoundId) -> Option<Time> {
        let (_, policy) = self.chain.of_round(id)?.find_policy(id.service)?;
        Some(policy.open_time(id.round)?.minus_ms(policy.ahead_ms()))
    }

    /// The next round of a service to ask for, and when. It may belong to a config that has not
    /// begun: its first rounds are prepared while the one before is in force.
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
            // A config numbers its rounds only while it is in force, so another one may own this
            // number.
            let own = self.chain.of_round(id).is_some_and(|its| its.seq == config.seq);
            own.then_some((id, open.minus_ms(ahead)))
        };
        self.chain.from_now(now).find_map(of)
    }

    /// Ends a round before its time: mixes hear why, clients that are in it that they missed it.
    fn abort_round(&mut self, id: RoundId, reason: AbortReason, cause: AbortCause) {
        let Some(round) = self.rounds.remove(&id) else { return };
        let abort = round.sign_abort(&self.signer, reason);
        // Mixes first: they wipe their keys as soon as they know (MIX-14).
        self.tell_mixes(round.mixes.len(), &abort);
        self.outputs.extend(round.missed_frames());
        self.outputs.push_back(Output::Over(id, Ending::Aborted(reason, cause)));
        // Alarms arrive after the round, so its mixes are remembered for 16 rounds (MIX-27).
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
        // First the clock: rounds of a time that is no longer ahead must not be moved on.
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
