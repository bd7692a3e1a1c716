//! A guard beside its client and a peer that nobody has touched: one session at a time, by hand.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use mezza_core::{Machine as _, PortableBackend, StaticKey, Time};
use mezza_guard::client::{self, GuardClient};
use mezza_guard::coin::{CoinEncoding, CoinKey, CoinKeyPair, CoinPurpose, CoinSecret, SlotName};
use mezza_guard::coins::Uniform;
use mezza_guard::gkx::{GkxCandidate, GkxInitiator, GkxOpened, GkxResponder};
use mezza_guard::guard::{
    CloseReason, Guard, GuardConnection, GuardError, GuardEvent, GuardSide, Input, Opening, Output,
};
use mezza_guard::ledger::SlotLedger;
use mezza_guard::wire::control::{Control, GuardMode, RefusalCode};
use mezza_sim::{SimRng, handle_checked};

use crate::gkx::identity;
use crate::link::{ke1, ke2, ke3, key, pairing, record, secret, settings};

/// The byte that the client's pairing key is made of.
pub const ME: u8 = 1;

/// A guard, its client, and what came out.
pub struct Bench {
    pub guard: Guard,
    pub client: GuardClient,
    pub ledger: Vec<u8>,
    pub rows: Vec<([u8; 32], Vec<u8>)>,
    pub dice: SimRng,
    pub now: Time,
    pub wire: Vec<Vec<u8>>,
    pub events: Vec<GuardEvent>,
    pub closed: Option<CloseReason>,
    pub pair: Option<CoinKeyPair>,
    pub refused: Option<RefusalCode>,
    pub is_ready: bool,
    pub is_pumped: bool,
    /// Everything that came out of the guard, as a log would show it.
    pub shown: String,
    /// Frames of the client that have not left yet.
    said: BTreeMap<GuardConnection, Vec<Vec<u8>>>,
    next: u64,
}

/// A run of GKX after G3.
pub struct TagSent {
    opened: GkxOpened,
    responder: GkxResponder,
    alice: StaticKey,
    bob: StaticKey,
}

pub fn coin_key() -> CoinKey {
    CoinKey::from_secret(mezza_core::Secret::init_with(|key| key.fill(9)))
}

impl Bench {
    pub fn new(seed: u64) -> Self {
        let mut dice = SimRng::new(seed, 0);
        let (guard, era) = Guard::start(
            settings(ME, GuardMode::Coins),
            coin_key(),
            SlotLedger::default(),
            dice.rng(),
        );
        let client = GuardClient::new(pairing(ME), CoinEncoding::X25519);
        Self {
            guard,
            client,
            ledger: era.encode(),
            rows: Vec::new(),
            dice,
            now: Time::from_ms(1_000_000),
            wire: Vec::new(),
            events: Vec::new(),
            closed: None,
            pair: None,
            refused: None,
            is_ready: false,
            is_pumped: false,
            shown: String::new(),
            said: BTreeMap::new(),
            next: 1,
        }
    }

    /// Another connection from here on.
    pub fn fresh(&mut self) -> GuardConnection {
        self.next += 1;
        (self.closed, self.pair, self.refused) = (None, None, None);
        (self.is_ready, self.is_pumped) = (false, false);
        self.wire.clear();
        GuardConnection(self.next)
    }

    pub fn guard_in(&mut self, input: Input) -> Result<(), GuardError> {
        handle_checked(&mut self.guard, input, self.now, self.dice.rng())?;
        self.drain();
        Ok(())
    }

    pub fn client_in(&mut self, input: client::Input) {
        handle_checked(&mut self.client, input, self.now, self.dice.rng())
            .expect("the client takes it");
        self.drain();
    }

    /// Carries outputs between both until nothing is left.
    pub fn drain(&mut self) {
        loop {
            if let Some(output) = self.guard.poll() {
                self.of_guard(output);
            } else if let Some(output) = self.client.poll() {
                self.of_client(output);
            } else {
                return;
            }
        }
    }

    fn of_guard(&mut self, output: Output) {
        writeln!(self.shown, "{output:?}").expect("a string takes it");
        if let Output::Send(conn, GuardSide::Wire, frame) = &output {
            self.leaves(*conn, frame);
        }
        match output {
            Output::Send(conn, GuardSide::Inside, frame) if Control::is_kind(frame[1]) => {
                let input = client::Input::Frame(conn, frame);
                let _ = self.client.handle(input, self.now, self.dice.rng());
            }
            Output::Send(_, _, frame) => self.wire.push(frame),
            Output::Dial(conn, _) => {
                self.guard.handle(Input::Dialled(conn), self.now, self.dice.rng()).expect("asked");
            }
            Output::DialClient(conn, _) => {
                let input = client::Input::Accepted(conn);
                self.client.handle(input, self.now, self.dice.rng()).expect("a new one");
                self.guard.handle(Input::Dialled(conn), self.now, self.dice.rng()).expect("asked");
            }
            Output::Persist(_, record) => self.ledger.extend(record.encode()),
            Output::Pump(_) => self.is_pumped = true,
            Output::Close(_, reason) => self.closed = Some(reason),
            Output::Event(event) => self.events.push(event),
        }
    }

    fn of_client(&mut self, output: client::Output) {
        match output {
            client::Output::Send(conn, frame) => {
                let input = Input::Frame(conn, GuardSide::Inside, frame);
                let _ = self.guard.handle(input, self.now, self.dice.rng());
            }
            client::Output::Store(coin) => {
                self.rows.retain(|(stored, _)| stored != coin.commitment());
                self.rows.push((*coin.commitment(), coin.encode().to_vec()));
            }
            client::Output::Erase(h) => self.rows.retain(|(stored, _)| *stored != h),
            client::Output::Key(_, pair) => self.pair = Some(pair),
            client::Output::Ready(_) => self.is_ready = true,
            client::Output::Refused(_, code) => self.refused = Some(code),
            client::Output::Gift(_) | client::Output::Close(_) => {}
        }
    }

    /// Checks that an outgoing frame is one of the client: the same one, or one of GKX with its elements changed
    /// (GUARD-33).
    fn leaves(&mut self, conn: GuardConnection, frame: &[u8]) {
        let said = self.said.get_mut(&conn).expect("the client has said nothing");
        let is_blind = frame[1] <= 4;
        let is_origin = |said: &Vec<u8>| {
            said == frame || is_blind && (said.len(), &said[..2]) == (frame.len(), &frame[..2])
        };
        let at = said.iter().position(is_origin).expect("no frame of the client is its origin");
        said.remove(at);
    }

    pub fn dial(&mut self, conn: GuardConnection, mode: GuardMode) {
        self.guard_in(Input::Opened(conn, Opening::Inside)).expect("a new connection");
        self.client_in(client::Input::Dial(conn, mode, 1));
    }

    pub fn inside(&mut self, conn: GuardConnection, frame: Vec<u8>) {
        self.said.entry(conn).or_default().push(frame.clone());
        self.guard_in(Input::Frame(conn, GuardSide::Inside, frame)).expect("a known connection");
    }

    pub fn outside(&mut self, conn: GuardConnection, frame: Vec<u8>) {
        self.guard_in(Input::Frame(conn, GuardSide::Wire, frame)).expect("a known connection");
    }

    /// The key that client and guard made.
    pub fn public(&self) -> [u8; 32] {
        self.pair.as_ref().expect("a key").public_key(CoinEncoding::X25519)
    }

    /// A whole handshake of the client with an untouched peer.
    pub fn handshake(&mut self, a: u32) -> Vec<u8> {
        let conn = self.fresh();
        self.dial(conn, GuardMode::Coins);
        let first = ke1(&self.public(), a);
        self.inside(conn, first.clone());
        assert_eq!(self.wire, std::slice::from_ref(&first), "{:?}", self.closed);
        let peer = CoinSecret::random(self.dice.rng());
        let slot = mezza_guard::coin::SlotIndex { name: slot_name(), index: 0 };
        let rho = coin_key().derive_rho(&slot);
        let peer = peer.with_coin(&slot, &rho.commitment(&slot), &rho).expect("a key");
        let second = ke2(&first, &peer.public_key(CoinEncoding::X25519));
        self.outside(conn, second.clone());
        self.client_in(client::Input::Answered(conn));
        let shared = secret(self.pair.take().expect("a key"), &key(&second));
        assert_eq!(shared, secret(peer, &key(&first)));
        self.inside(conn, ke3(&first, &shared));
        assert!(!self.is_pumped, "t3 awaits an answer");
        self.outside(conn, record());
        assert!(self.is_pumped);
        self.guard_in(Input::Closed(conn, GuardSide::Wire)).expect("known");
        self.client_in(client::Input::Closed(conn));
        assert_eq!(self.closed, Some(CloseReason::Ended));
        shared
    }

    /// GKX of the client with an untouched peer, on a connection that is open in blind mode.
    pub fn gkx(&mut self, conn: GuardConnection) {
        let TagSent { opened, responder, alice, bob } = self.send_tag(conn);
        let candidates =
            [GkxCandidate::new::<PortableBackend>(&bob, *alice.public_key()).expect("a key")];
        let g3 = self.wire.remove(0);
        let group = mezza_guard::Ristretto::new();
        let accepted =
            responder.finish(&group, &g3, bob.public_key(), &candidates).expect("accepted");
        self.outside(conn, accepted.frame);
        assert!(self.is_pumped, "G4 answers the tag");
        let keys = opened.finish(&self.wire.remove(0)).expect("keys");
        assert_eq!(keys.initiator, accepted.keys.initiator);
    }

    /// GKX up to G3, which holds the tag of the client.
    pub fn send_tag(&mut self, conn: GuardConnection) -> TagSent {
        let group = mezza_guard::Ristretto::new();
        let coins = &mut Uniform;
        let alice = identity(1);
        let bob = identity(2);
        let peer = bob.public_key();
        let begun =
            GkxInitiator::begin::<PortableBackend>(&group, &alice, peer, coins, self.dice.rng());
        let (initiator, g1) = begun.expect("G1");
        self.inside(conn, g1.clone());
        let seen = self.wire.remove(0);
        assert!(seen != g1 && seen.len() == 66);
        let (responder, g2) =
            GkxResponder::answer(&group, &seen, coins, self.dice.rng()).expect("G2");
        self.outside(conn, g2);
        let (opened, g3) = initiator.open(&group, &self.wire.remove(0)).expect("G3");
        self.inside(conn, g3);
        TagSent { opened, responder, alice, bob }
    }
}

pub fn slot_name() -> SlotName {
    SlotName { client: pairing(ME).client_id(), purpose: CoinPurpose::LinkDialling, dest: 1 }
}
