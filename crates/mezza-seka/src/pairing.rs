//! The machine of a pairing: from a button to a [`Peer`] whose first exchange was accepted.
//!
//! ```text
//!            Listening -> Asking -> Settling ------------------> Exchanging -> Done   initiator
//!            Listening -> Answering ---------------------------> Exchanging -> Done   responder
//! with SAS   Listening -> Asking -> Comparing --own user: yes--> Exchanging -> Done   initiator
//!            Listening -> Answering -> Comparing --own user: yes--> ..                responder
//! ```
//!
//! Every failure ends the pairing: one run for each press of the button (SEKA-34).

mod digits;
mod first;
mod heard;
mod io;
mod plain;
mod snapshot;

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

use mezza_core::{CryptoRng, EphemeralKey, Machine, Time, Timers, Wiping, snapshot::snapshot_of};

pub use io::{PairingFailure, PairingInput, PairingOutput, PairingSettings};

use crate::error::LinkError;
use crate::keys::{CanonicalPoint, LinkId, LinkRole, LinkState};
use crate::limits::{ASK_MS, LISTEN_MS, TAG_BYTES};
use crate::peer::{Peer, PeerInput};
use crate::record::{PeerAddress, StoreKey};
use crate::suite::LinkSuite;

/// The purpose of a timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum PairingTimer {
    /// Send the first B1 or S1.
    Speak,
    /// Repeat B1, S1 or S3.
    Ask,
    /// The time for a second response is over.
    Settled,
    /// The window closes.
    Window,
}

/// The state of the pairing.
enum Step<S: LinkSuite> {
    /// Listening before the first own frame.
    Listening,
    /// Initiator: B1 or S1 was sent.
    Asking(EphemeralKey),
    /// Initiator: B2 arrived; a second response within a second would be a conflict.
    Settling { ephemeral: EphemeralKey, m2: CanonicalPoint },
    /// Responder: B1 or S1 arrived; waits for an ephemeral key to respond with.
    Choosing(Vec<u8>),
    /// Responder with digits: S2 was sent.
    Answering(EphemeralKey),
    /// Both with digits: the users compare. The latest early KE1 is stored.
    Comparing { state: LinkState, early: Option<(Vec<u8>, PeerAddress)> },
    /// The first exchange.
    Exchanging(Box<Peer<S>>),
    /// The pairing has succeeded or failed.
    Over(Option<Box<Peer<S>>>),
}

/// A pairing in progress. `S` is its suite.
pub struct Pairing<S: LinkSuite> {
    settings: PairingSettings,
    store_key: StoreKey,
    role: LinkRole,
    step: Step<S>,
    session_id: [u8; TAG_BYTES],
    /// Random bytes of the initiator; used only in a pairing with digits.
    coins: [u8; 16],
    /// The request (B1 or S1) of this run.
    first: Vec<u8>,
    /// The response (B2 or S2) of this run.
    second: Vec<u8>,
    /// The frame that the initiator repeats.
    asks: Vec<u8>,
    asks_left: Option<u32>,
    /// The other device and its address, once received.
    peer: Option<(LinkId, PeerAddress)>,
    /// Start of the present second, and the number of pairing frames processed in it.
    looked: (Time, u32),
    wall_ms: u64,
    timers: Timers<PairingTimer>,
    outputs: VecDeque<PairingOutput>,
}

impl<S: LinkSuite> Pairing<S> {
    /// Opens a window at `now`; `wall_ms` is the time of day, ms since 1970.
    pub fn open_window(
        settings: PairingSettings,
        store_key: StoreKey,
        now: Time,
        wall_ms: u64,
        rng: &mut dyn CryptoRng,
    ) -> Self {
        let (least, most) = LISTEN_MS;
        let mut draw = [0; 2];
        rng.fill_bytes(&mut draw);
        // A random delay makes it unlikely that both sides send at the same moment.
        let listens = least + u64::from(u16::from_be_bytes(draw)) % (most - least + 1);
        let mut coins = [0; 16];
        rng.fill_bytes(&mut coins);
        let mut timers = Timers::default();
        timers.set_deadline(PairingTimer::Window, Some(now.plus_ms(settings.window_ms)));
        // A side that may only respond never sends first.
        if settings.role != Some(LinkRole::Responder) {
            timers.set_deadline(PairingTimer::Speak, Some(now.plus_ms(listens)));
        }
        Self {
            role: settings.role.unwrap_or(LinkRole::Responder),
            settings,
            store_key,
            step: Step::Listening,
            session_id: [0; TAG_BYTES],
            coins,
            first: Vec::new(),
            second: Vec::new(),
            asks: Vec::new(),
            asks_left: None,
            peer: None,
            looked: (now, 0),
            wall_ms,
            timers,
            outputs: VecDeque::new(),
        }
    }

    /// Returns the peer after a successful pairing.
    pub fn into_peer(self) -> Option<(Peer<S>, PeerAddress)> {
        let (_, address) = self.peer?;
        match self.step {
            Step::Over(peer) => peer.map(|peer| (*peer, address)),
            _ => None,
        }
    }

    /// Returns the address of the other device, once received.
    pub fn peer_address(&self) -> Option<PeerAddress> {
        self.peer.map(|(_, address)| address)
    }

    /// Returns true if the pairing has succeeded and both slots of its record hold the present
    /// state.
    pub fn is_flushed(&self) -> bool {
        matches!(&self.step, Step::Over(Some(peer)) if peer.is_flushed())
    }

    /// Returns true if this side is the initiator.
    pub fn is_initiator(&self) -> bool {
        self.role == LinkRole::Initiator
    }

    fn send_ask(&mut self, now: Time) {
        match &mut self.asks_left {
            // After the first response three repeats suffice: an attacker must suppress each one
            // (Pairing, step 3).
            Some(0) => return,
            Some(left) => *left -= 1,
            None => {}
        }
        // Before the first response, all devices are addressed.
        let to = self.peer.map(|(_, address)| address).filter(|_| self.asks_left.is_none());
        // While asking, other devices may respond too, and a second one must end the window
        // (SEKA-33).
        let to = to.filter(|_| !matches!(self.step, Step::Asking(_)));
        self.outputs.push_back(PairingOutput::Send { to, frame: self.asks.clone() });
        self.timers.set_deadline(PairingTimer::Ask, Some(now.plus_ms(ASK_MS)));
    }

    fn handle_timer(&mut self, timer: PairingTimer, now: Time, rng: &mut dyn CryptoRng) {
        match timer {
            PairingTimer::Speak => self.outputs.push_back(PairingOutput::Want),
            PairingTimer::Ask => self.send_ask(now),
            PairingTimer::Settled => self.on_settled(now, rng),
            PairingTimer::Window => self.fail_with(PairingFailure::Timeout),
        }
    }

    /// Uses an ephemeral key of ours: for a request, a response, or the first exchange.
    fn use_ephemeral(
        &mut self,
        ephemeral: EphemeralKey,
        now: Time,
        rng: &mut dyn CryptoRng,
    ) -> Result<(), LinkError> {
        match core::mem::replace(&mut self.step, Step::Over(None)) {
            Step::Listening => {
                self.role = LinkRole::Initiator;
                self.begin_asking(ephemeral, now, rng);
                Ok(())
            }
            Step::Choosing(frame) if self.settings.sas => {
                self.answer_s1(&frame, ephemeral, rng);
                Ok(())
            }
            Step::Choosing(frame) => {
                self.answer_b1(&frame, ephemeral, now, rng);
                Ok(())
            }
            other => {
                self.step = other;
                Err(LinkError::Unknown)
            }
        }
    }

    fn begin_asking(&mut self, ephemeral: EphemeralKey, now: Time, rng: &mut dyn CryptoRng) {
        let m1 = CanonicalPoint::from_own_key(ephemeral.public_key());
        self.session_id = S::session_id(&self.settings.own, &m1, rng);
        self.first = if self.settings.sas { self.build_s1(&m1) } else { self.build_b1(&m1) };
        self.asks = self.first.clone();
        self.step = Step::Asking(ephemeral);
        self.send_ask(now);
    }
}

impl<S: LinkSuite> Machine for Pairing<S> {
    type Input = PairingInput;
    type Output = PairingOutput;
    type Error = LinkError;

    fn handle(
        &mut self,
        input: PairingInput,
        now: Time,
        rng: &mut dyn CryptoRng,
    ) -> Result<(), LinkError> {
        match input {
            PairingInput::Datagram { frame, from, on_link } => {
                self.on_frame(&frame, from, on_link, now, rng)
            }
            PairingInput::Give(ephemeral) => match &mut self.step {
                Step::Exchanging(peer) | Step::Over(Some(peer)) => {
                    peer.handle(PeerInput::Give(ephemeral), now, rng)?;
                    self.drain_peer();
                    Ok(())
                }
                _ => self.use_ephemeral(ephemeral, now, rng),
            },
            PairingInput::Peer(input) => match &mut self.step {
                Step::Exchanging(peer) | Step::Over(Some(peer)) => {
                    peer.handle(input, now, rng)?;
                    self.drain_peer();
                    Ok(())
                }
                _ => Err(LinkError::Unknown),
            },
            PairingInput::Confirm(equal) => self.confirm_digits(equal, now, rng),
            // A cancel by the user ends the window like a failure, and unsent frames are dropped.
            PairingInput::Cancel => {
                self.fail_with(PairingFailure::Cancelled);
                Ok(())
            }
        }
    }

    fn wake(&mut self, now: Time, rng: &mut dyn CryptoRng) {
        while let Some(timer) = self.timers.take_first(now) {
            self.handle_timer(timer, now, rng);
        }
        if let Step::Exchanging(peer) | Step::Over(Some(peer)) = &mut self.step {
            peer.wake(now, rng);
            self.drain_peer();
        }
    }

    fn poll(&mut self) -> Option<PairingOutput> {
        self.outputs.pop_front()
    }

    fn deadline(&self) -> Option<Time> {
        let peer = match &self.step {
            Step::Exchanging(peer) | Step::Over(Some(peer)) => peer.deadline(),
            _ => None,
        };
        [self.timers.next_deadline(), peer].into_iter().flatten().min()
    }

    fn snapshot(&self) -> Wiping<Vec<u8>> {
        snapshot_of(self)
    }
}
