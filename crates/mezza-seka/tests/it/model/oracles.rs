//! The oracles of the paper's Table 2, and what else the attacker may do.

use std::collections::BTreeSet;

use mezza_core::{EphemeralKey, Machine, Secret, Time};
use mezza_seka::keys::{CanonicalPoint, LinkPair, LinkRole, LinkState};
use mezza_seka::session::NoncePrefixes;
use mezza_seka::suite::{ExchangeView, LinkMac, LinkSuite, TagPlace};
use mezza_seka::wire::{HandshakeFrame, Ke1, Ke2, Ke3, kind_of};
use mezza_seka::{Peer, PeerAddress, PeerEvent, PeerInput, PeerOutput, PeerRecord};
use mezza_sim::SimRng;

use super::session::{Phase, Session, Status, Tape};
use super::start::{Start, restore, secret};
use crate::attacker::tag;
use crate::stage::{id, store_key};

/// The initiator, and the responder.
pub const INITIATOR: usize = 0;
pub const RESPONDER: usize = 1;
/// Between two questions, ms: longer than the pause between two answers to one frame.
const PAUSE_MS: u64 = 120;
/// The attacker's own private key.
const HIS_SCALAR: [u8; 32] = [0x44; 32];

/// A question of the attacker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Oracle {
    /// `create` of a session of the initiator.
    Create,
    /// `cr-create`: the next session of a party runs on a tape of the attacker.
    CrCreate(usize),
    /// `send` of a frame that was on the air.
    Send(usize),
    /// The same with a share of the attacker in it, and the old tag.
    Alter(usize),
    /// A frame of this kind under a state: of the receiver, if it is known, or a guess.
    Forge(u8, bool),
    /// `corrupt`
    Corrupt(usize),
    /// `randomness`
    Randomness(usize),
    /// `session-key`
    SessionKey(usize),
    /// The attempt of the initiator ends without an answer.
    Expire,
    /// The power of a party goes.
    Crash(usize),
    /// An exchange that he only watches.
    Watch,
}

/// The program around a machine, correct or faulty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Driver {
    Sound,
    /// Says that a write is durable before it is.
    SaysStoredTooEarly,
    /// Writes into one slot alone: the other keeps the state of before.
    LeavesTheOldSlot,
    /// Gives the same private key twice.
    RepeatsTapes,
    /// Puts the first record back when it starts.
    RestoresOldRecords,
}

/// One party: its machine and its disk.
pub struct Party<S: LinkSuite> {
    pub peer: Peer<S>,
    slots: [Vec<u8>; 2],
    newest: usize,
    /// A write that was called durable and is not.
    cached: Option<Vec<u8>>,
    /// The tape that lies ready.
    loaded: Option<(usize, bool)>,
    active: Option<usize>,
    /// A session that was accepted and whose acceptance is not on the disk yet.
    unwritten: Option<usize>,
}

/// The game.
pub struct Model<S: LinkSuite> {
    pub parties: [Party<S>; 2],
    pub tapes: Vec<Tape>,
    pub sessions: Vec<Session>,
    /// Every frame that was ever sent, with its receiver.
    pub air: Vec<(usize, Vec<u8>)>,
    pub corrupted: Vec<(usize, u32)>,
    pub stolen: BTreeSet<[u8; 32]>,
    pub asked: u32,
    now: Time,
    dice: SimRng,
    driver: Driver,
    first: [Vec<u8>; 2],
    /// The frame that is delivered.
    hearing: Vec<u8>,
}

impl<S: LinkSuite> Model<S> {
    /// The start of a schedule; with `watched` the tape of a party's Bootstrap was read.
    pub fn new(start: &Start, driver: Driver, watched: Option<usize>) -> Self {
        let now = Time::from_ms(10_000);
        let parties = start.sealed.each_ref().map(|sealed| Party {
            peer: restore::<S>(sealed, now),
            slots: [sealed.clone(), sealed.clone()],
            newest: 1,
            cached: None,
            loaded: None,
            active: None,
            unwritten: None,
        });
        let mut model = Self {
            parties,
            tapes: Vec::new(),
            sessions: Vec::new(),
            air: Vec::new(),
            corrupted: Vec::new(),
            stolen: BTreeSet::new(),
            asked: 0,
            now,
            dice: SimRng::new(1, 1),
            driver,
            first: start.sealed.clone(),
            hearing: Vec::new(),
        };
        for step in 0..2 {
            for party in [INITIATOR, RESPONDER] {
                let tape = model.tape(start.scalars[party][step]);
                let phase = if step == 0 { Phase::Bootstrap } else { Phase::Exchange };
                let mut session = Session::new(party, phase, tape, 0);
                session.share = Some(2 * step + 1 - party);
                session.talk.clone_from(&start.bootstrap.to_vec());
                if step == 0 {
                    session.output = Some(start.states[0]);
                } else {
                    session.talk = start.exchange[..=party].to_vec();
                    session.input = Some(start.states[0]);
                    session.output = (party == RESPONDER).then_some(start.states[1]);
                }
                let status = if step == 0 { Status::Accepted } else { Status::Aborted };
                session.end(status, 0);
                model.sessions.push(session);
            }
        }
        let [ke1, ke2] = start.exchange.clone();
        model.air = vec![(RESPONDER, ke1), (INITIATOR, ke2)];
        if let Some(party) = watched {
            model.reveal(party);
        }
        model
    }

    fn tape(&mut self, scalar: [u8; 32]) -> usize {
        let point = point_of::<S>(&scalar);
        self.tapes.push(Tape { scalar, point, revealed: false });
        self.tapes.len() - 1
    }

    fn reveal(&mut self, session: usize) {
        self.sessions[session].tape_asked = true;
        self.tapes[self.sessions[session].tape].revealed = true;
    }

    /// Returns the oracles that have an effect now.
    pub fn questions(&self) -> Vec<Oracle> {
        let mut list = vec![Oracle::Watch, Oracle::Crash(INITIATOR), Oracle::Crash(RESPONDER)];
        let waits = self.parties[INITIATOR].active.is_some();
        list.extend(if waits { vec![Oracle::Expire] } else { vec![Oracle::Create] });
        for party in [INITIATOR, RESPONDER] {
            list.push(Oracle::Corrupt(party));
            if self.parties[party].loaded.is_none() && !(party == INITIATOR && waits) {
                list.push(Oracle::CrCreate(party));
            }
        }
        for at in 0..self.air.len() {
            list.extend([Oracle::Send(at), Oracle::Alter(at)]);
        }
        for kind in [Ke1::KIND, Ke2::KIND, Ke3::KIND] {
            list.extend([Oracle::Forge(kind, true), Oracle::Forge(kind, false)]);
        }
        for (at, session) in self.sessions.iter().enumerate() {
            if !session.tape_asked {
                list.push(Oracle::Randomness(at));
            }
            if session.key.is_some() && !session.key_asked {
                list.push(Oracle::SessionKey(at));
            }
        }
        list
    }

    /// Asks, and lets the machines do what follows.
    pub fn ask(&mut self, oracle: Oracle) {
        self.asked += 1;
        self.now = self.now.plus_ms(PAUSE_MS);
        match oracle {
            Oracle::Create => self.create(None),
            Oracle::CrCreate(INITIATOR) => self.create(Some(self.his_tape())),
            Oracle::CrCreate(party) => self.load(party, Some(self.his_tape())),
            Oracle::Send(at) => {
                if let Some((to, frame)) = self.air.get(at).cloned() {
                    self.deliver(to, frame);
                }
            }
            Oracle::Alter(at) => {
                if let Some((to, frame)) =
                    self.air.get(at).and_then(|(to, f)| Some((*to, altered::<S>(f)?)))
                {
                    self.deliver(to, frame);
                }
            }
            Oracle::Forge(kind, guess) => {
                if let Some((to, frame)) = self.forge(kind, guess) {
                    self.deliver(to, frame);
                }
            }
            Oracle::Corrupt(party) => self.corrupt(party),
            Oracle::Randomness(session) => self.reveal(session),
            Oracle::SessionKey(session) => self.sessions[session].key_asked = true,
            Oracle::Expire => self.expire(),
            Oracle::Crash(party) => self.crash(party),
            Oracle::Watch => self.watch(),
        }
    }

    /// A tape that he has written, different from all others.
    fn his_tape(&self) -> [u8; 32] {
        let mut scalar = [0x55; 32];
        scalar[0] = self.tapes.len() as u8;
        scalar
    }

    /// Gives the machine the tape of its next session.
    fn load(&mut self, party: usize, written: Option<[u8; 32]>) {
        if self.parties[party].loaded.is_some() {
            return;
        }
        let repeats = self.driver == Driver::RepeatsTapes && written.is_none();
        let before = self.sessions.iter().rev().find(|session| session.party == party);
        let repeated = before.map(|session| session.tape).filter(|_| repeats);
        let tape = repeated.unwrap_or_else(|| {
            let drawn = || *Secret::<32>::random(self.dice.rng()).expose();
            let scalar = written.unwrap_or_else(drawn);
            self.tape(scalar)
        });
        if written.is_some() {
            self.tapes[tape].revealed = true;
        }
        self.parties[party].loaded = Some((tape, written.is_some()));
        let key = EphemeralKey::from_scalar::<S::Backend>(secret(&self.tapes[tape].scalar));
        self.give(party, PeerInput::Give(key));
    }

    fn create(&mut self, written: Option<[u8; 32]>) {
        self.load(INITIATOR, written);
        if self.parties[INITIATOR].loaded.is_some() {
            self.give(INITIATOR, PeerInput::Rekey);
        }
    }

    /// Hands a frame to its receiver, which has a tape ready.
    pub fn deliver(&mut self, to: usize, frame: Vec<u8>) {
        if to == RESPONDER && kind_of(&frame) == Some(Ke1::KIND) {
            self.load(RESPONDER, None);
        }
        self.hearing.clone_from(&frame);
        self.give(to, PeerInput::Datagram { frame, from: PeerAddress::default() });
    }

    fn corrupt(&mut self, party: usize) {
        // Within a second the other slot has the same record (SEKA-23).
        self.now = self.now.plus_ms(1_000);
        self.wake(party);
        self.corrupted.push((party, self.asked));
        let found =
            self.parties[party].slots.each_ref().map(|sealed| restore::<S>(sealed, self.now));
        for peer in &found {
            let (current, pending) = peer.stolen_states();
            self.stolen.extend([current].into_iter().chain(pending));
        }
    }

    fn expire(&mut self) {
        for _ in 0..10 {
            self.now = self.now.plus_ms(500);
            self.wake(INITIATOR);
        }
        self.end_active(INITIATOR);
    }

    fn crash(&mut self, party: usize) {
        self.end_active(party);
        // Without its write the third message counts as one that never came.
        if let Some(forgotten) = self.parties[party].unwritten.take() {
            self.sessions[forgotten].status = Status::Aborted;
        }
        let own = &mut self.parties[party];
        own.cached = None;
        own.loaded = None;
        if self.driver == Driver::RestoresOldRecords {
            own.slots = [self.first[party].clone(), self.first[party].clone()];
        }
        let slots = [own.slots[0].as_slice(), own.slots[1].as_slice()];
        let (_, newest, _) = PeerRecord::open_newest(&store_key(), slots).expect("a slot opens");
        own.newest = newest;
        own.peer = restore::<S>(&own.slots[newest], self.now);
    }

    fn watch(&mut self) {
        if self.parties[INITIATOR].active.is_some() {
            self.expire();
        }
        let mut seen = self.air.len();
        self.create(None);
        while let Some((to, frame)) = self.air.get(seen).cloned() {
            seen += 1;
            self.deliver(to, frame);
        }
    }

    fn end_active(&mut self, party: usize) {
        if let Some(active) = self.parties[party].active.take() {
            self.sessions[active].end(Status::Aborted, self.asked);
        }
    }

    fn wake(&mut self, party: usize) {
        self.parties[party].peer.wake(self.now, self.dice.rng());
        self.drain(party, None);
    }

    fn give(&mut self, party: usize, input: PeerInput) {
        let before = *self.parties[party].peer.stolen_states().0;
        let _ = self.parties[party].peer.handle(input, self.now, self.dice.rng());
        self.drain(party, Some(before));
        self.hearing.clear();
    }

    fn drain(&mut self, party: usize, before: Option<[u8; 32]>) {
        let mut key = None;
        while let Some(output) = self.parties[party].peer.poll() {
            match output {
                PeerOutput::Store { seq, sealed } => {
                    self.store(party, sealed.to_vec());
                    let stored = PeerInput::Stored(seq);
                    let _ = self.parties[party].peer.handle(stored, self.now, self.dice.rng());
                }
                PeerOutput::Send { frame, .. } => self.sent(party, &frame, before),
                PeerOutput::Install(session) => key = Some(*session.export_key("model").expose()),
                PeerOutput::Tell(PeerEvent::Accepted(_)) => self.accepted(party, key.take()),
                _ => {}
            }
        }
    }

    fn store(&mut self, party: usize, sealed: Vec<u8>) {
        let driver = self.driver;
        let own = &mut self.parties[party];
        own.unwritten = None;
        let write = |own: &mut Party<S>, sealed| {
            if driver != Driver::LeavesTheOldSlot {
                own.newest = 1 - own.newest;
            }
            own.slots[own.newest] = sealed;
        };
        if driver == Driver::SaysStoredTooEarly {
            if let Some(before) = own.cached.replace(sealed) {
                write(own, before);
            }
        } else {
            write(own, sealed);
        }
    }

    /// A frame leaves: it is on the air, and a session begins or goes on.
    fn sent(&mut self, party: usize, frame: &[u8], before: Option<[u8; 32]>) {
        let on_air = (1 - party, frame.to_vec());
        if self.air.contains(&on_air) {
            return;
        }
        self.air.push(on_air);
        match kind_of(frame) {
            Some(Ke1::KIND) => {
                self.begin(party);
                self.talk(party, &[frame.to_vec()]);
            }
            Some(Ke2::KIND) => {
                self.begin(party);
                let (current, pending) = self.parties[party].peer.stolen_states();
                let input = *current;
                let output = pending.copied();
                let ke1 = self.hearing.clone();
                self.derive(party, Some(input), output, &ke1[40..72]);
                self.talk(party, &[ke1, frame.to_vec()]);
            }
            Some(Ke3::KIND) => {
                let output = *self.parties[party].peer.stolen_states().0;
                let ke2 = self.hearing.clone();
                self.derive(party, before, Some(output), &ke2[40..72]);
                self.talk(party, &[ke2, frame.to_vec()]);
            }
            _ => {}
        }
    }

    fn begin(&mut self, party: usize) {
        self.end_active(party);
        let Some((tape, written)) = self.parties[party].loaded.take() else { return };
        let mut session = Session::new(party, Phase::Exchange, tape, self.asked);
        session.tape_asked = written;
        self.sessions.push(session);
        self.parties[party].active = Some(self.sessions.len() - 1);
    }

    fn talk(&mut self, party: usize, frames: &[Vec<u8>]) {
        if let Some(active) = self.parties[party].active {
            self.sessions[active].talk.extend_from_slice(frames);
        }
    }

    fn derive(
        &mut self,
        party: usize,
        input: Option<[u8; 32]>,
        output: Option<[u8; 32]>,
        point: &[u8],
    ) {
        let Some(active) = self.parties[party].active else { return };
        // The share is honest if somebody else's tape made it.
        let mut tapes = self.tapes.iter();
        let share = tapes.position(|tape| tape.point == *point);
        let session = &mut self.sessions[active];
        (session.input, session.output, session.share) = (input, output, share);
    }

    fn accepted(&mut self, party: usize, key: Option<[u8; 32]>) {
        let Some(active) = self.parties[party].active.take() else { return };
        if party == RESPONDER {
            let ke3 = self.hearing.clone();
            self.sessions[active].talk.push(ke3);
            self.parties[RESPONDER].unwritten = Some(active);
        }
        let known = self.known();
        let asked = self.asked;
        let session = &mut self.sessions[active];
        session.key = key;
        session.blind = session.input.is_some_and(|input| !known.contains(&input));
        session.end(Status::Accepted, asked);
    }

    /// Returns true if an exchange was open to him.
    fn is_open(&self, session: &Session) -> bool {
        let read = |tape: usize| self.tapes[tape].revealed;
        read(session.tape) || session.share.is_none_or(read)
    }

    /// Every state that he knows.
    pub fn known(&self) -> BTreeSet<[u8; 32]> {
        let mut known = self.stolen.clone();
        loop {
            let follows = |session: &&Session| {
                let before = session.input.is_none_or(|input| known.contains(&input));
                self.is_open(session) && before
            };
            let derived = self.sessions.iter().filter(follows).filter_map(|s| s.output);
            let new: Vec<_> = derived.filter(|state| !known.contains(state)).collect();
            if new.is_empty() {
                return known;
            }
            known.extend(new);
        }
    }

    /// Returns true if he knows the key of a session.
    pub fn knows_key(&self, of: &Session, known: &BTreeSet<[u8; 32]>) -> bool {
        let given = self.sessions.iter().any(|session| session.key_asked && session.key == of.key);
        given || (self.is_open(of) && of.input.is_none_or(|input| known.contains(&input)))
    }

    /// A frame of his own: with a right tag if he knows the state of the receiver, else with a guess.
    fn forge(&self, kind: u8, guess: bool) -> Option<(usize, Vec<u8>)> {
        let to = if kind == Ke2::KIND { INITIATOR } else { RESPONDER };
        let state = *self.parties[to].peer.stolen_states().0;
        if !guess && !self.known().contains(&state) {
            return None;
        }
        let heard = |party: usize| Some(&self.sessions[self.parties[party].active?].talk);
        let (mut frame, before) = match kind {
            Ke1::KIND => (self.his_ke1()?, Vec::new()),
            Ke2::KIND => {
                let ke1 = heard(INITIATOR)?.first()?.clone();
                (his_ke2::<S>(&ke1)?, vec![ke1[..72].to_vec()])
            }
            _ => {
                let [ke1, ke2] = heard(RESPONDER)?.as_slice() else { return None };
                (his_ke3::<S>(ke1)?, vec![ke1[..72].to_vec(), ke2[..72].to_vec()])
            }
        };
        let end = frame.len() - 16;
        let parts: Vec<&[u8]> =
            [&frame[..end]].into_iter().chain(before.iter().map(Vec::as_slice)).collect();
        let label = match kind {
            Ke1::KIND => *b"seka1-t1",
            Ke2::KIND => *b"seka1-t2",
            _ => *b"seka1-t3",
        };
        let made = if guess { guessed::<S>(label, &parts) } else { tag(&state, label, &parts) };
        frame[end..].copy_from_slice(&made);
        Some((to, frame))
    }

    fn his_ke1(&self) -> Option<Vec<u8>> {
        let (_, last) =
            self.air.iter().rev().find(|(_, frame)| kind_of(frame) == Some(Ke1::KIND))?;
        let mut ke1 = altered::<S>(last)?;
        let attempt = u32::from_be_bytes(*ke1[36..40].first_chunk()?) + 1;
        ke1[36..40].copy_from_slice(&attempt.to_be_bytes());
        ke1[7] = attempt as u8;
        Some(ke1)
    }
}

fn point_of<S: LinkSuite>(scalar: &[u8; 32]) -> [u8; 32] {
    *EphemeralKey::from_scalar::<S::Backend>(secret(scalar)).public_key().as_bytes()
}

fn his_point<S: LinkSuite>() -> CanonicalPoint {
    CanonicalPoint::from_canonical(point_of::<S>(&HIS_SCALAR)).expect("canonical")
}

/// The frame with his share instead of the one in it.
fn altered<S: LinkSuite>(frame: &[u8]) -> Option<Vec<u8>> {
    let point = his_point::<S>();
    match kind_of(frame)? {
        Ke1::KIND => {
            let mut ke1 = Ke1::decode(S::NUMBER, frame).ok()?;
            ke1.m1 = point;
            ke1.session_id = S::session_id(&ke1.from, &point, SimRng::new(2, 2).rng());
            Some(ke1.encode())
        }
        Ke2::KIND => {
            let ke2 = Ke2::decode(S::NUMBER, frame).ok()?;
            Some(Ke2 { m2: point, ..ke2 }.encode())
        }
        _ => None,
    }
}

fn his_ke2<S: LinkSuite>(ke1: &[u8]) -> Option<Vec<u8>> {
    let Ke1 { suite, from, to, session_id, attempt, .. } = Ke1::decode(S::NUMBER, ke1).ok()?;
    let index = 0x200 | attempt & 0xff;
    let m2 = his_point::<S>();
    Some(Ke2 { suite, index, from: to, to: from, session_id, attempt, m2, tag: [0; 16] }.encode())
}

fn his_ke3<S: LinkSuite>(ke1: &[u8]) -> Option<Vec<u8>> {
    let Ke1 { suite, index, from, to, session_id, attempt, .. } =
        Ke1::decode(S::NUMBER, ke1).ok()?;
    Some(Ke3 { suite, index, from, to, session_id, attempt, tag: [0; 16] }.encode())
}

/// A state that nobody has.
pub fn nobodys_state<S: LinkSuite>() -> LinkState {
    let point = his_point::<S>();
    let pair = LinkPair { initiator: id(1), responder: id(2) };
    let view = ExchangeView { pair: &pair, session_id: &[9; 16], m1: &point, m2: &point };
    S::derive_first_state(&secret(&[9; 32]), &view)
}

/// A tag of the suite under a state that nobody has.
fn guessed<S: LinkSuite>(label: [u8; 8], parts: &[&[u8]]) -> [u8; 16] {
    let place = TagPlace { sender: LinkRole::Initiator, counter: 0 };
    let prefixes = NoncePrefixes::from_pair(&LinkPair { initiator: id(1), responder: id(2) });
    let all: Vec<&[u8]> = [&label[..]].into_iter().chain(parts.iter().copied()).collect();
    S::Mac::new(&nobodys_state::<S>(), &prefixes).compute_tag(&place, &all)
}
