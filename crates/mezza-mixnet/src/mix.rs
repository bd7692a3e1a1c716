//! A mix: one machine, several rounds at a time.
//!
//! ```text
//! NEW_ROUND         SIGN ok, stored     BATCH_START     BATCH_END, jobs done      forwarded
//! ---------> Keyed ---------------> Open ---------> Filling ------------> Mixing ---------> Waiting
//!              |                     |                 |                     |                 | REPLIES_END
//!              +---------------------+-- deadline, ABORT, link or job lost --+-----------------+ or STORED
//!                                                      v                                       v
//!                                                    wiped <-------- replies out --------- Returning
//! ```
//!
//! The secret of a round goes when its last onion is unwrapped, everything else when its last reply
//! is handed over, and all of it at the deadline, whatever happens (MIX-14). A frame that breaks the
//! rules of a round ends that round alone, with a signed ABORT; one that belongs to no round is
//! refused and changes nothing.

mod accept;
mod backward;
mod forward;
mod noise;
mod round;
mod send;
#[cfg(test)]
mod tests;

pub use accept::NoiseFloor;

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use core::fmt;
use core::marker::PhantomData;

use mezza_core::snapshot::snapshot_of;
use mezza_core::{Backend, CryptoRng, Machine, PortableBackend, Time, Wiping, snapshot};

use crate::config::{Chain, ChainError, SignedConfig};
use crate::job::{Job, JobOutput};
use crate::sign::{Purpose, Signer};
use crate::wire::frame::abort_bytes;
use crate::wire::{AbortReason, Frame, FrameBody};
use crate::{RoundId, Service};
use round::Round;

/// Whom a mix has links with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Neighbour {
    /// The mix before, or the entry.
    Previous,
    /// The mix behind; the last one has none.
    Next,
    /// The coordinator.
    Coordinator,
    /// The bucket store, of the last mix alone.
    Store,
}

snapshot!(enum Neighbour [Previous, Next, Coordinator, Store]);

/// Events that a mix handles.
#[derive(Debug)]
pub enum Input {
    /// A frame came over the link with this peer.
    Frame(Neighbour, Frame),
    /// The link with this peer broke.
    LinkLost(Neighbour),
    /// A job ended.
    Done(Job, JobOutput),
    /// A job of this round will never end.
    Lost(RoundId),
    /// The number of this round is durable.
    Stored(RoundId),
    /// A newer config.
    Config(SignedConfig),
    /// The program is about to end.
    Stop,
}

/// Effects that a mix requests.
#[derive(Debug)]
pub enum Output {
    /// Send a frame over the link with this peer.
    Frame(Neighbour, Frame),
    /// Run a job and hand it back with its result.
    Job(Job),
    /// Make durable that this round was signed, then say `Stored`.
    Store(RoundId),
}

snapshot!(enum Output [Frame(a, b), Job(a), Store(a)]);

/// Why an input was refused. The mix is as before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MixError {
    /// Not for us: no such round is under way here, or it is over.
    #[error("no such round is under way")]
    UnknownRound,
    /// The caller: no round waits for this job or this number.
    #[error("no round waits for this answer of the program")]
    Unasked,
    /// The peer does not send such frames, or not now.
    #[error("the frame does not belong here")]
    Unexpected,
    /// No config is in force, or this mix is not in it.
    #[error("no config with this mix is in force")]
    NoConfig,
    /// The round is not above all that were signed, or under way already.
    #[error("the round is not a new one")]
    Round,
    /// Four rounds of the service are under way.
    #[error("too many rounds are under way")]
    TooMany,
    /// The clock here and the network's differ by more than 30 s.
    #[error("this clock and the network's differ; set the clock")]
    Clock,
    /// The settings are not those of the config, or do not hold our key.
    #[error("the settings differ from the config")]
    Settings,
    /// The config's noise is below the floor of this mix.
    #[error("the config's noise is below the floor; lower --min-noise or ask for a new config")]
    Noise,
    /// A signature is wrong.
    #[error("a signature is wrong")]
    Signature,
    /// The config is refused.
    #[error(transparent)]
    Config(#[from] ChainError),
}

/// How a mix is set up.
#[derive(Debug)]
pub struct MixOptions {
    /// The identity that the config names.
    pub signer: Signer,
    /// The configs known.
    pub chain: Chain,
    /// The highest round signed of each service: durable, and all that survives a restart.
    pub signed: BTreeMap<Service, u64>,
    /// The least noise that this operator signs.
    pub floor: NoiseFloor,
    /// Most onions of one job; 0 for a whole frame.
    pub job_items: usize,
}

snapshot!(struct MixOptions { signer, chain, signed, floor, job_items });

/// One mix. `Debug` shows rounds and counts.
pub struct Mix<B: Backend = PortableBackend> {
    setup: MixOptions,
    rounds: BTreeMap<RoundId, Round>,
    outputs: VecDeque<Output>,
    backend: PhantomData<B>,
}

snapshot!(struct Mix<B> { setup, rounds, outputs, backend });

impl<B: Backend> Mix<B> {
    /// A mix without rounds.
    pub const fn new(setup: MixOptions) -> Self {
        Self { setup, rounds: BTreeMap::new(), outputs: VecDeque::new(), backend: PhantomData }
    }

    /// The configs known.
    pub const fn chain(&self) -> &Chain {
        &self.setup.chain
    }

    /// Rounds under way.
    pub fn rounds(&self) -> impl Iterator<Item = RoundId> {
        self.rounds.keys().copied()
    }

    fn on_frame(
        &mut self,
        from: Neighbour,
        frame: Frame,
        now: Time,
        rng: &mut dyn CryptoRng,
    ) -> Result<(), MixError> {
        // Frames without a round belong to clients and the entry.
        let Frame::Round(id, body) = frame else { return Err(MixError::Unexpected) };
        match (from, body) {
            // Each kind is accepted from one neighbour only: the links prove which one it is
            // (MIX-1).
            (Neighbour::Coordinator, FrameBody::NewRound) => self.begin_round(id, now, rng),
            (Neighbour::Coordinator, FrameBody::Sign(settings)) => {
                self.on_settings(id, settings, now)
            }
            (_, FrameBody::Abort { position, reason, signature }) => {
                self.on_abort(id, position, reason, &signature)
            }
            (Neighbour::Previous, body) => self.on_batch_frame(id, body, rng),
            (Neighbour::Next, body) => self.on_reply_frame(id, body, rng),
            (Neighbour::Store, FrameBody::Stored) => self.on_published(id),
            _ => Err(MixError::Unexpected),
        }
    }

    /// A round under way, or the refusal of what came for it.
    fn find_round(&mut self, id: RoundId) -> Result<&mut Round, MixError> {
        self.rounds.get_mut(&id).ok_or(MixError::UnknownRound)
    }

    /// Ends a round before its time and says so to everybody around.
    fn abort_round(&mut self, id: RoundId, reason: AbortReason) {
        let Some(round) = self.rounds.remove(&id) else { return };
        let position = round.position;
        let signature = self
            .setup
            .signer
            .sign(Purpose::Abort, &[&abort_bytes(&round.config, id, position, reason)]);
        let abort = Frame::Round(id, FrameBody::Abort { position, reason, signature });
        for peer in round.neighbours() {
            // All neighbours are notified at once, so that none waits until its deadline (MIX-29).
            self.outputs.push_back(Output::Frame(peer, abort.clone()));
        }
    }

    fn abort_all(&mut self, reason: AbortReason, which: impl Fn(&Round) -> bool) {
        let ended = self.rounds.iter().filter(|(_, round)| which(round)).map(|(id, _)| *id);
        for id in ended.collect::<Vec<_>>() {
            self.abort_round(id, reason);
        }
    }
}

impl<B: Backend> Machine for Mix<B> {
    type Input = Input;
    type Output = Output;
    type Error = MixError;

    fn handle(&mut self, input: Input, now: Time, rng: &mut dyn CryptoRng) -> Result<(), MixError> {
        match input {
            Input::Frame(from, frame) => self.on_frame(from, frame, now, rng),
            Input::LinkLost(peer) => {
                // Rounds that can end well without this peer go on.
                self.abort_all(AbortReason::Lost, |round| round.needs_peer(peer));
                Ok(())
            }
            Input::Done(job, done) => self.on_done(job, done, rng),
            Input::Lost(id) => {
                self.find_round(id)?;
                self.abort_round(id, AbortReason::Lost);
                Ok(())
            }
            Input::Stored(id) => self.on_stored(id),
            Input::Config(config) => Ok(self.setup.chain.accept_config(&config, now)?),
            Input::Stop => {
                self.abort_all(AbortReason::Shutdown, |_| true);
                Ok(())
            }
        }
    }

    fn wake(&mut self, now: Time, _: &mut dyn CryptoRng) {
        self.abort_all(AbortReason::Deadline, |round| round.deadline <= now);
    }

    fn poll(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    fn deadline(&self) -> Option<Time> {
        self.rounds.values().map(|round| round.deadline).min()
    }

    fn snapshot(&self) -> Wiping<Vec<u8>> {
        snapshot_of(self)
    }
}

impl<B: Backend> fmt::Debug for Mix<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mix")
            .field("signed", &self.setup.signed)
            .field("head", &self.setup.chain.head_config().seq)
            .field("rounds", &self.rounds)
            .field("outputs", &self.outputs.len())
            .finish_non_exhaustive()
    }
}
