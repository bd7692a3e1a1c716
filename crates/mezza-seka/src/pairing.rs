//! The machine of a pairing: from a button to a [`Peer`] whose first exchange was accepted.
//!
//! ```text
//!            Listening -> Asking -> Settling ------------------> Exchanging -> Done   initiator
//!            Listening -> Answering ---------------------------> Exchanging -> Done   responder
//! with SAS   Listening -> Asking -> Comparing --own user: yes--> Exchanging -> Done   initiator
//!            Listening -> Answering -> Comparing --own user: yes--> ..                responder
//! ```
//!
//! Every failure ends it for good: one run for each press of the button (SEKA-34).

mod digits;
mod io;
mod plain;

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

use mezza_core::{
    CryptoRng, EphemeralKey, Machine, Snapshot, Time, Timers, Wiping, Writer, snapshot::snapshot_of,
};

pub use io::{PairingFailure, PairingInput, PairingOutput, PairingSettings};

use crate::error::LinkError;
use crate::keys::{CanonicalPoint, LinkId, LinkPair, LinkRole, LinkState};
use crate::limits::{ASK_MS, LISTEN_MS, PAIRING_FRAMES_PER_SECOND, SETTLE_MS, TAG_BYTES};
use crate::peer::{Peer, PeerEvent, PeerInput, PeerOutput};
use crate::record::{PeerAddress, PeerRecord, StoreKey};
use crate::sas::SasDigits;
use crate::suite::{ExchangeView, LinkSuite};
use crate::wire::{B1, B2, Ke1, S1, S2, S3, is_pairing, kind_of, names_of};

/// What a timer is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum PairingTimer {
    /// The first B1 or S1.
    Speak,
    /// B1, S1 or S3 once more.
    Ask,
    /// Nobody else has answered.
    Settled,
    /// The window closes.
    Window,
}

/// How far the pairing is.
enum Step<S: LinkSuite> {
    /// Hears what is there.
    Listening,
    /// Initiator: B1 or S1 is out.
    Asking(EphemeralKey),
    /// Initiator: B2 came; no other may come for a second.
    Settling { ephemeral: EphemeralKey, m2: CanonicalPoint },
    /// Responder: has heard B1 or S1 and waits for a key of its own to answer with.
    Choosing(Vec<u8>),
    /// Responder with digits: S2 is out.
    Answering(EphemeralKey),
    /// Both with digits: the users compare. A KE1 that comes early is kept, the latest one.
    Comparing { state: LinkState, early: Option<Vec<u8>> },
    /// The first exchange.
    Exchanging(Box<Peer<S>>),
    /// Over: done or failed.
    Over(Option<Box<Peer<S>>>),
}

/// A pairing under way. `S` is its suite.
pub struct Pairing<S: LinkSuite> {
    settings: PairingSettings,
    store_key: StoreKey,
    role: LinkRole,
    step: Step<S>,
    session_id: [u8; TAG_BYTES],
    /// The initiator's chance, with digits.
    coins: [u8; 16],
    /// The frames of the run: what began it, and its answer.
    first: Vec<u8>,
    second: Vec<u8>,
    /// What the initiator repeats.
    asks: Vec<u8>,
    asks_left: Option<u32>,
    /// The other device, once it was heard, and where.
    peer: Option<(LinkId, PeerAddress)>,
    /// Frames that were looked at in this second.
    looked: (Time, u32),
    wall_ms: u64,
    timers: Timers<PairingTimer>,
    outputs: VecDeque<PairingOutput>,
}

impl<S: LinkSuite> Pairing<S> {
    /// A window that opens at `now`; `wall_ms` is the time of day, ms since 1970.
    pub fn begin(
        settings: PairingSettings,
        store_key: StoreKey,
        (now, wall_ms): (Time, u64),
        rng: &mut dyn CryptoRng,
    ) -> Self {
        let (least, most) = LISTEN_MS;
        let mut draw = [0; 2];
        rng.fill_bytes(&mut draw);
        let listens = least + u64::from(u16::from_be_bytes(draw)) % (most - least + 1);
        let mut coins = [0; 16];
        rng.fill_bytes(&mut coins);
        let mut timers = Timers::default();
        timers.set(PairingTimer::Window, Some(now.plus_ms(settings.window_ms)));
        if settings.role != Some(LinkRole::Responder) {
            timers.set(PairingTimer::Speak, Some(now.plus_ms(listens)));
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

    /// The peer, once the pairing is done.
    pub fn into_peer(self) -> Option<(Peer<S>, PeerAddress)> {
        let (_, address) = self.peer?;
        match self.step {
            Step::Over(peer) => peer.map(|peer| (*peer, address)),
            _ => None,
        }
    }

    /// Where the other device was heard, once it was.
    pub fn peer_address(&self) -> Option<PeerAddress> {
        self.peer.map(|(_, address)| address)
    }

    /// Whether this side began.
    pub fn is_initiator(&self) -> bool {
        self.role == LinkRole::Initiator
    }

    /// Frames of pairing and of the first exchange, in this order of questions: how many, whose, which.
    fn heard(
        &mut self,
        frame: &[u8],
        (from, on_link): (PeerAddress, bool),
        now: Time,
        rng: &mut dyn CryptoRng,
    ) -> Result<(), LinkError> {
        let kind = kind_of(frame).ok_or(LinkError::Refused)?;
        if !is_pairing(kind) {
            return self.heard_exchange(kind, frame, from, (now, rng));
        }
        if !self.may_look(now) {
            return Err(LinkError::Busy);
        }
        let of_sas = (S1::KIND..=S3::KIND).contains(&kind);
        // SEKA-34, SEKA-36.
        if of_sas != self.settings.sas || (!of_sas && !on_link) || (of_sas && !S::COMPLETE) {
            return Err(LinkError::Refused);
        }
        let (sender, meant) = names_of(frame).ok_or(LinkError::Refused)?;
        if meant.is_some_and(|meant| meant != self.settings.own) {
            return Err(LinkError::Refused);
        }
        if self.settings.peer.is_some_and(|peer| peer != sender) {
            return Err(LinkError::Refused);
        }
        // From here on the frame counts, whatever becomes of it.
        self.look(now);
        if sender == self.settings.own {
            self.fail(PairingFailure::OwnName);
            return Ok(());
        }
        let _ = match kind {
            B1::KIND => self.heard_b1(frame, (sender, from)),
            B2::KIND => self.heard_b2(frame, (sender, from), now),
            S1::KIND => self.heard_s1(frame, (sender, from)),
            S2::KIND => self.heard_s2(frame, (sender, from), now),
            _ => self.heard_s3(frame, (sender, from)),
        };
        Ok(())
    }

    /// Frames of the first exchange go to the peer, with where they came from.
    fn heard_exchange(
        &mut self,
        kind: u8,
        frame: &[u8],
        from: PeerAddress,
        (now, rng): (Time, &mut dyn CryptoRng),
    ) -> Result<(), LinkError> {
        let sender = names_of(frame).map(|(sender, _)| sender);
        if self.peer.map(|(peer, _)| peer) != sender {
            return Err(LinkError::Refused);
        }
        match &mut self.step {
            Step::Comparing { early, .. } if kind == Ke1::KIND && frame.len() == Ke1::BYTES => {
                *early = Some(frame.to_vec());
                Ok(())
            }
            Step::Exchanging(peer) | Step::Over(Some(peer)) => {
                peer.handle(PeerInput::Datagram(frame.to_vec()), now, rng)?;
                if let Some((_, address)) = &mut self.peer {
                    *address = from;
                }
                self.drain_peer();
                Ok(())
            }
            _ => Err(LinkError::Refused),
        }
    }

    /// SEKA-37: whether one more frame is looked at in this second.
    fn may_look(&self, now: Time) -> bool {
        let (since, count) = self.looked;
        now.since_ms(since) >= Time::SECOND_MS || count < PAIRING_FRAMES_PER_SECOND
    }

    fn look(&mut self, now: Time) {
        if now.since_ms(self.looked.0) >= Time::SECOND_MS {
            self.looked = (now, 0);
        }
        self.looked.1 += 1;
    }

    /// The device that a frame comes from: the first one, or a conflict (SEKA-33).
    fn meet(&mut self, sender: LinkId, from: PeerAddress) -> bool {
        if self.settings.known.contains(&sender) {
            self.fail(PairingFailure::Known(sender));
            return false;
        }
        match self.peer {
            None => {
                self.peer = Some((sender, from));
                self.outputs.push_back(PairingOutput::Found(sender));
                true
            }
            Some((peer, _)) if peer == sender => true,
            Some(_) => {
                self.fail(PairingFailure::Conflict);
                false
            }
        }
    }

    /// Whether a B1 or S1 of `sender` makes us the responder: while we listen, or when both speak at
    /// once and our name is the greater one.
    fn yields_to(&self, sender: LinkId) -> bool {
        if self.settings.role == Some(LinkRole::Initiator) {
            return false;
        }
        match self.step {
            Step::Listening => true,
            Step::Asking(_) => {
                self.settings.role == Some(LinkRole::Responder) || self.settings.own > sender
            }
            _ => false,
        }
    }

    fn become_responder(&mut self, frame: &[u8]) {
        self.role = LinkRole::Responder;
        for timer in [PairingTimer::Speak, PairingTimer::Ask] {
            self.timers.set(timer, None);
        }
        self.first = frame.to_vec();
        self.step = Step::Choosing(frame.to_vec());
        self.outputs.push_back(PairingOutput::Want);
    }

    fn pair(&self, peer: LinkId) -> LinkPair {
        LinkPair::of(self.role, self.settings.own, peer)
    }

    /// The first state; a secret of zero ends the window (SEKA-4).
    fn first_state(
        &mut self,
        ephemeral: EphemeralKey,
        (m1, m2): (&CanonicalPoint, &CanonicalPoint),
    ) -> Option<LinkState> {
        let (peer, _) = self.peer?;
        let pair = self.pair(peer);
        let their = if self.role == LinkRole::Initiator { m2 } else { m1 };
        let Ok(shared) = ephemeral.dh::<S::Backend>(their.public()) else {
            self.fail(PairingFailure::LowOrder);
            return None;
        };
        let view = ExchangeView { pair: &pair, session_id: &self.session_id, m1, m2 };
        Some(S::bootstrap(&shared, &view))
    }

    /// The first exchange, under the first state.
    fn exchange(&mut self, state: LinkState, now: Time, rng: &mut dyn CryptoRng) {
        let Some((id, _)) = self.peer else { return };
        let record = PeerRecord {
            role: self.role,
            suite: S::NUMBER,
            accepted: false,
            compared: self.settings.sas,
            own: self.settings.own,
            peer: id,
            current: state,
            pending: None,
            current_born: -1,
            pending_born: -1,
            attempt_next: 0,
            attempt_seen: -1,
            rekeys: 0,
            created_ms: self.wall_ms,
            accepted_ms: 0,
            address: PeerAddress::default(),
            name: self.settings.name.clone(),
            link: self.settings.link,
        };
        let key = self.store_key.duplicate();
        let mut peer = Box::new(Peer::new(record, key, self.settings.peer_settings, now));
        let _ = peer.handle(PeerInput::Wall(self.wall_ms), now, rng);
        if self.role == LinkRole::Initiator {
            let _ = peer.handle(PeerInput::Rekey, now, rng);
        }
        self.step = Step::Exchanging(peer);
        self.drain_peer();
    }

    /// Passes on what the peer wants, and notices the end of the first exchange.
    fn drain_peer(&mut self) {
        let (Step::Exchanging(peer) | Step::Over(Some(peer))) = &mut self.step else { return };
        let address = self.peer.map(|(_, address)| address);
        let mut ended = None;
        while let Some(output) = peer.poll() {
            match output {
                PeerOutput::Send(frame) => {
                    self.outputs.push_back(PairingOutput::Send { to: address, frame });
                }
                PeerOutput::Tell(PeerEvent::Accepted(_)) => ended = Some(PairingOutput::Done),
                PeerOutput::Tell(PeerEvent::StoreFailed) => {
                    ended = Some(PairingOutput::Failed(PairingFailure::Store));
                }
                other => self.outputs.push_back(PairingOutput::Peer(other)),
            }
        }
        match ended {
            Some(PairingOutput::Failed(failure)) => self.fail(failure),
            Some(done) => self.finish(done),
            None => {}
        }
    }

    fn finish(&mut self, done: PairingOutput) {
        if let Step::Exchanging(peer) = core::mem::replace(&mut self.step, Step::Over(None)) {
            self.timers = Timers::default();
            self.step = Step::Over(Some(peer));
            self.outputs.push_back(done);
        }
    }

    /// Ends the window. What was not sent yet is not sent.
    fn fail(&mut self, failure: PairingFailure) {
        if matches!(self.step, Step::Over(_)) {
            return;
        }
        self.step = Step::Over(None);
        self.timers = Timers::default();
        self.outputs.clear();
        self.outputs.push_back(PairingOutput::Failed(failure));
    }

    fn ask(&mut self, now: Time) {
        match &mut self.asks_left {
            Some(0) => return,
            Some(left) => *left -= 1,
            None => {}
        }
        // Before anybody answered, everybody is asked.
        let to = self.peer.map(|(_, address)| address).filter(|_| self.asks_left.is_none());
        let to = to.filter(|_| !matches!(self.step, Step::Asking(_)));
        self.outputs.push_back(PairingOutput::Send { to, frame: self.asks.clone() });
        self.timers.set(PairingTimer::Ask, Some(now.plus_ms(ASK_MS)));
    }

    fn due(&mut self, timer: PairingTimer, now: Time, rng: &mut dyn CryptoRng) {
        match timer {
            PairingTimer::Speak => self.outputs.push_back(PairingOutput::Want),
            PairingTimer::Ask => self.ask(now),
            PairingTimer::Settled => self.settled(now, rng),
            PairingTimer::Window => self.fail(PairingFailure::Timeout),
        }
    }

    /// A key of our own: to ask with, to answer with, or for the first exchange.
    fn give(
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
        let m1 = CanonicalPoint::own(ephemeral.public());
        self.session_id = S::session_id(&self.settings.own, &m1, rng);
        self.first = if self.settings.sas { self.s1(&m1) } else { self.b1(&m1) };
        self.asks = self.first.clone();
        self.step = Step::Asking(ephemeral);
        self.ask(now);
    }

    fn confirm(
        &mut self,
        equal: bool,
        now: Time,
        rng: &mut dyn CryptoRng,
    ) -> Result<(), LinkError> {
        if !matches!(self.step, Step::Comparing { .. }) {
            return Err(LinkError::Unknown);
        }
        if !equal {
            self.fail(PairingFailure::Digits);
            return Ok(());
        }
        let Step::Comparing { state, early } = core::mem::replace(&mut self.step, Step::Over(None))
        else {
            return Ok(());
        };
        self.timers.set(PairingTimer::Ask, None);
        self.exchange(state, now, rng);
        // Without an ephemeral key yet the peer is busy; the initiator repeats KE1.
        if let (Some(ke1), Step::Exchanging(peer)) = (early, &mut self.step) {
            let _ = peer.handle(PeerInput::Datagram(ke1), now, rng);
            self.drain_peer();
        }
        Ok(())
    }

    fn show(&mut self, s3: &[u8], state: LinkState) {
        let digits = SasDigits::of(&self.first, &self.second, s3);
        self.step = Step::Comparing { state, early: None };
        self.outputs.push_back(PairingOutput::Digits(digits));
    }

    /// From the first B2 on, for a second.
    fn settle(&mut self, ephemeral: EphemeralKey, m2: CanonicalPoint, now: Time) {
        self.step = Step::Settling { ephemeral, m2 };
        self.asks_left = Some(crate::limits::SETTLE_ASKS);
        self.timers.set(PairingTimer::Settled, Some(now.plus_ms(SETTLE_MS)));
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
                self.heard(&frame, (from, on_link), now, rng)
            }
            PairingInput::Give(ephemeral) => match &mut self.step {
                Step::Exchanging(peer) | Step::Over(Some(peer)) => {
                    peer.handle(PeerInput::Give(ephemeral), now, rng)?;
                    self.drain_peer();
                    Ok(())
                }
                _ => self.give(ephemeral, now, rng),
            },
            PairingInput::Peer(input) => match &mut self.step {
                Step::Exchanging(peer) | Step::Over(Some(peer)) => {
                    peer.handle(input, now, rng)?;
                    self.drain_peer();
                    Ok(())
                }
                _ => Err(LinkError::Unknown),
            },
            PairingInput::Confirm(equal) => self.confirm(equal, now, rng),
            PairingInput::Cancel => {
                self.fail(PairingFailure::Cancelled);
                Ok(())
            }
        }
    }

    fn wake(&mut self, now: Time, rng: &mut dyn CryptoRng) {
        while let Some(timer) = self.timers.take_first(now) {
            self.due(timer, now, rng);
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
        [self.timers.next(), peer].into_iter().flatten().min()
    }

    fn snapshot(&self) -> Wiping<Vec<u8>> {
        snapshot_of(self)
    }
}

impl<S: LinkSuite> Snapshot for Step<S> {
    fn snapshot_into(&self, w: &mut Writer) {
        match self {
            Self::Listening => w.u8(0),
            Self::Asking(ephemeral) => w.u8(1).bytes(ephemeral.scalar().expose()),
            Self::Settling { ephemeral, m2 } => {
                w.u8(2).bytes(ephemeral.scalar().expose()).bytes(m2.as_bytes())
            }
            Self::Choosing(frame) => w.u8(3).bytes(frame),
            Self::Answering(ephemeral) => w.u8(4).bytes(ephemeral.scalar().expose()),
            Self::Comparing { state, early } => {
                early.snapshot_into(w.u8(5).bytes(state.expose()));
                w
            }
            Self::Exchanging(peer) => w.u8(6).bytes(&peer.snapshot()),
            Self::Over(peer) => {
                w.u8(7);
                if let Some(peer) = peer {
                    w.bytes(&peer.snapshot());
                }
                w
            }
        };
    }
}

impl<S: LinkSuite> Snapshot for Pairing<S> {
    fn snapshot_into(&self, w: &mut Writer) {
        let Self { settings, store_key, role, step, session_id, coins, first, second, .. } = self;
        let Self { asks, asks_left, peer, looked, wall_ms, timers, outputs, .. } = self;
        settings.name.snapshot_into(w);
        store_key.snapshot_into(w);
        role.snapshot_into(w);
        step.snapshot_into(w);
        w.bytes(session_id).bytes(coins);
        first.snapshot_into(w);
        second.snapshot_into(w);
        asks.snapshot_into(w);
        asks_left.snapshot_into(w);
        peer.snapshot_into(w);
        looked.snapshot_into(w);
        wall_ms.snapshot_into(w);
        timers.next().snapshot_into(w);
        outputs.len().snapshot_into(w);
    }
}
