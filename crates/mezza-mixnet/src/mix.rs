//! A mix as one machine, with several rounds at a time.
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
//! The secret of a round is wiped when its last onion is unwrapped, and the rest when its last
//! reply is handed over. At the deadline all of it is wiped in any case (MIX-14). A frame that
//! breaks the rules of a round ends that round only, with a signed ABORT. A frame of an unknown
//! round is refused and changes nothing.

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

/// The peers to which a mix has links.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Neighbour {
    /// The previous mix, or the entry server.
    Previous,
    /// The next mix; the last mix has none.
    Next,
    /// The coordinator.
    Coordinator,
    /// The bucket store, at the last mix only.
    Store,
}

snapshot!(enum Neighbour [Previous, Next, Coordinator, Store]);

/// Events that a mix handles.
#[derive(Debug)]
pub enum Input {
    /// A frame arrived over the link with this peer.
    Frame(Neighbour, Frame),
    /// The link with this peer broke.
    LinkLost(Neighbour),
    /// A job ended.
    Done(Job, JobOutput),
    /// A job of this round was lost and will not end.
    Lost(RoundId),
    /// The number of this round is durable.
    Stored(RoundId),
    /// A newer config arrived.
    Config(SignedConfig),
    /// The program is about to end.
    Stop,
}

/// Effects that a mix requests.
#[derive(Debug)]
pub enum Output {
    /// Send a frame over the link with this peer.
    Frame(Neighbour, Frame),
    /// Run a job and return it with its result.
    Job(Job),
    /// Record durably that this round was signed, then report `Stored`.
    Store(RoundId),
}

snapshot!(enum Output [Frame(a, b), Job(a), Store(a)]);

/// The reason why an input is refused. The mix is unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MixError {
    /// No such round is in progress here.
    #[error("no such round is under way")]
    UnknownRound,
    /// The caller answered a request that was not made.
    #[error("no round waits for this answer of the program")]
    Unasked,
    /// The peer may not send such a frame, or not now.
    #[error("the frame does not belong here")]
    Unexpected,
    /// No config is in force, or this mix is not in it.
    #[error("no config with this mix is in force")]
    NoConfig,
    /// The round is not above all signed ones, or is already in progress.
    #[error("the round is not a new one")]
    Round,
    /// Four rounds of the service are already in progress.
    #[error("too many rounds are under way")]
    TooMany,
    /// Our clock and the network's differ by more than 30 s.
    #[error("this clock and the network's differ; set the clock")]
    Clock,
    /// The settings differ from the config, or do not contain our key.
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

/// The settings of a mix.
#[derive(Debug)]
pub struct MixOptions {
    /// The identity key of this mix in the config.
    pub signer: Signer,
    /// The known configs.
    pub chain: Chain,
    /// The highest signed round of each service. It is durable, and nothing else survives a
    /// restart.
    pub signed: BTreeMap<Service, u64>,
    /// The least noise that the operator of this mix signs.
    pub floor: NoiseFloor,
    /// Most onions of one job; 0 for a whole frame.
    pub job_items: usize,
}

snapshot!(struct MixOptions { signer, chain, signed, floor, job_items });

/// The machine of one mix. `Debug` shows rounds and counts only.
pub struct Mix<B: Backend = PortableBackend> {
    setup: MixOptions,
    rounds: BTreeMap<RoundId, Round>,
    outputs: VecDeque<Output>,
    backend: PhantomData<B>,
}

snapshot!(struct Mix<B> { setup, rounds, outputs, backend });

impl<B: Backend> Mix<B> {
    /// Creates a mix without rounds.
    pub const fn new(setup: MixOptions) -> Self {
        Self { setup, rounds: BTreeMap::new(), outputs: VecDeque::new(), backend: PhantomData }
    }

    /// Returns the known configs.
    pub const fn chain(&self) -> &Chain {
        &self.setup.chain
    }

    /// Returns the rounds in progress.
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

    /// Returns a round in progress.
    ///
    /// # Errors
    /// [`MixError::UnknownRound`] if there is none.
    fn find_round(&mut self, id: RoundId) -> Result<&mut Round, MixError> {
        self.rounds.get_mut(&id).ok_or(MixError::UnknownRound)
    }

    /// Ends a round before its time and notifies all neighbours.
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
                // Rounds that do not need this peer continue.
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
