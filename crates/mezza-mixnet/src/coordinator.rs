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

mod clients;
mod collect;
mod round;

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use core::fmt;

use mezza_core::{CryptoRng, Machine, Time};

use crate::config::{Chain, ChainError, SignedConfig};
use crate::limits::ROUNDS_IN_FLIGHT;
use crate::sign::Signer;
use crate::wire::{AbortReason, Body, Frame};
use crate::{RoundId, Service};
use collect::Shelf;
use round::Round;

/// A connection of a client, as the caller numbers them.
pub type Connection = u64;

/// What may happen to a coordinator.
#[derive(Debug)]
pub enum Input {
    /// A frame came from the mix at this position.
    FromMix(u8, Frame),
    /// A frame came from a client.
    FromClient(Connection, Frame),
    /// A frame came from the bucket store.
    FromStore(Frame),
    /// A client went.
    Gone(Connection),
    /// A link with the mix at this position broke.
    MixLost(u8),
    /// The link with the bucket store broke.
    StoreLost,
    /// A newer config.
    Config(SignedConfig),
}

/// What a coordinator wants done.
#[derive(Debug)]
pub enum Output {
    /// Send to the mix at this position; batches go over the data link.
    ToMix(u8, Frame),
    /// Send to the bucket store.
    ToStore(Frame),
    /// Send to one client.
    ToClient(Connection, Frame),
    /// Send the same bytes to every client that was welcomed.
    ToAll(Frame),
    /// Hang up on a client.
    Close(Connection),
}

/// Why an input was refused. The coordinator is as before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CoordinatorError {
    /// No such round is under way, or it does not wait for this.
    #[error("no round waits for this")]
    Unexpected,
    /// The client did not say HELLO.
    #[error("the client did not say hello")]
    Stranger,
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
    archive: Vec<SignedConfig>,
    /// When each client was welcomed.
    clients: BTreeMap<Connection, Time>,
    rounds: BTreeMap<RoundId, Round>,
    /// The last round of each service that keys were asked for.
    asked: BTreeMap<Service, u64>,
    /// When to ask for keys next.
    ask_at: Option<Time>,
    /// The buckets of the last two rounds of each service.
    shelves: BTreeMap<RoundId, Shelf>,
    outputs: VecDeque<Output>,
}

impl Coordinator {
    /// A coordinator without rounds. `archive` holds the signed configs from genesis to the head of
    /// the chain.
    pub const fn new(signer: Signer, chain: Chain, archive: Vec<SignedConfig>) -> Self {
        Self {
            signer,
            chain,
            archive,
            clients: BTreeMap::new(),
            rounds: BTreeMap::new(),
            asked: BTreeMap::new(),
            ask_at: Some(Time::from_ms(0)),
            shelves: BTreeMap::new(),
            outputs: VecDeque::new(),
        }
    }

    /// Rounds under way.
    pub fn rounds(&self) -> impl Iterator<Item = RoundId> {
        self.rounds.keys().copied()
    }

    /// Clients that were welcomed.
    pub fn clients(&self) -> usize {
        self.clients.len()
    }

    fn tell_mixes(&mut self, mixes: usize, frame: &Frame) {
        let frames = (0..mixes as u8).map(|at| Output::ToMix(at, frame.clone()));
        self.outputs.extend(frames);
    }

    /// Begins what is due: one round of each service whose request for keys has come. A round
    /// whose settings should be out already is skipped, and so is one while four are unfinished.
    fn ask(&mut self, now: Time) {
        for service in Service::ALL {
            let Some((id, _)) = self.next(service, now).filter(|(_, at)| *at <= now) else {
                continue;
            };
            self.asked.insert(service, id.round);
            let under_way = self.rounds.keys().filter(|round| round.service == service).count();
            let Some(config) = self.chain.current(now) else { continue };
            let Some(round) = Round::begin(id, config) else { continue };
            if under_way >= ROUNDS_IN_FLIGHT || now >= round.announce {
                continue;
            }
            let mixes = round.mixes.len();
            self.rounds.insert(id, round);
            self.tell_mixes(mixes, &Frame::Round(id, Body::NewRound));
        }
        let next = Service::ALL.into_iter().filter_map(|service| self.next(service, now));
        let begins = Some(self.chain.head().valid_from).filter(|begin| *begin > now);
        self.ask_at = next.map(|(_, at)| at).chain(begins).min();
    }

    /// The next round of a service to ask for, and when.
    fn next(&self, service: Service, now: Time) -> Option<(RoundId, Time)> {
        let (_, policy) = self.chain.current(now)?.policy(service)?;
        let ahead = u64::from(policy.ask_ms) + u64::from(policy.lead_ms);
        let current = policy.round_at(now.plus_ms(ahead)).unwrap_or(policy.base_round);
        let round = match self.asked.get(&service) {
            Some(last) if *last >= current => last.checked_add(1)?,
            _ => current,
        };
        Some((RoundId { service, round }, policy.open(round)?.minus_ms(ahead)))
    }

    /// Ends a round before its time: mixes hear why, clients that are in it that they missed it.
    fn abort(&mut self, id: RoundId, reason: AbortReason) {
        let Some(round) = self.rounds.remove(&id) else { return };
        let abort = round.abort(&self.signer, reason);
        self.tell_mixes(round.mixes.len(), &abort);
        self.outputs.extend(round.missed());
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
            Input::FromMix(at, Frame::Round(id, body)) => self.mix_says(id, at, body, now),
            Input::FromClient(from, frame) => self.client_says(from, frame, now),
            Input::FromStore(Frame::Round(id, body)) => self.store_says(id, body),
            Input::FromMix(..) | Input::FromStore(_) => Err(CoordinatorError::Unexpected),
            Input::Gone(client) => {
                self.clients.remove(&client).ok_or(CoordinatorError::Stranger)?;
                Ok(())
            }
            Input::MixLost(at) => {
                let needs = |round: &Round| usize::from(at) < round.mixes.len();
                let lost: Vec<RoundId> =
                    self.rounds.values().filter(|r| needs(r)).map(|r| r.id).collect();
                for id in lost {
                    self.abort(id, AbortReason::Lost);
                }
                Ok(())
            }
            Input::StoreLost => {
                self.give_up_on_store();
                Ok(())
            }
            Input::Config(config) => {
                let known = self.chain.head().seq;
                self.chain.accept(&config, now)?;
                if self.chain.head().seq > known {
                    self.archive.push(config);
                    self.ask_at = Some(now);
                }
                Ok(())
            }
        }
    }

    fn wake(&mut self, now: Time, _: &mut dyn CryptoRng) {
        self.ask(now);
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
}

impl fmt::Debug for Coordinator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Coordinator")
            .field("head", &self.chain.head().seq)
            .field("clients", &self.clients.len())
            .field("rounds", &self.rounds)
            .field("shelves", &self.shelves.len())
            .field("outputs", &self.outputs.len())
            .finish_non_exhaustive()
    }
}
