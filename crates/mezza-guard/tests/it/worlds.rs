//! Worlds: two clients, each behind its guard, over streams that break and with hosts that crash.
//!
//! ```text
//! alice --inside-- guard a ======= wire ======= guard b --inside-- bob
//! ```
//! What must hold, whatever happens: the keys on the wire are exactly those that the ledger has, each
//! once; a client that is honest ends with a key that its peer has, or with nothing.

use std::collections::{BTreeMap, VecDeque};

use mezza_core::{CryptoRng, Machine as _, Secret, Time};
use mezza_guard::client::{self, GuardClient};
use mezza_guard::coin::{CoinEncoding, CoinKey, CoinKeyPair};
use mezza_guard::guard::{Guard, GuardConnection, GuardSide, Input, Opening, Output};
use mezza_guard::ledger::SlotLedger;
use mezza_guard::wire::control::{Control, GuardMode};
use mezza_sim::{CrashRate, Effect, Host, HostId, LinkModel, World, WorldStep, for_each_seed};

use crate::link::{KE1, KE2, KE3, confirms, ke1, ke2, ke3, key, pairing, record, secret, settings};

const ALICE: HostId = HostId(0);
const GUARD_A: HostId = HostId(1);
const GUARD_B: HostId = HostId(2);
const BOB: HostId = HostId(3);

/// The role of a host, and its state that survives a crash.
#[derive(Clone, Debug)]
enum Disk {
    Client { guard: HostId, byte: u8, rows: BTreeMap<[u8; 32], Vec<u8>>, counter: u32 },
    Guard { inside: HostId, wire: HostId, byte: u8, ledger: Vec<u8> },
}

enum Change {
    Store([u8; 32], Vec<u8>),
    Erase([u8; 32]),
    Counter(u32),
    Ledger(Vec<u8>),
}

/// Packets of streams: the number of a connection, and the event on it.
#[derive(Clone, Debug)]
enum Packet {
    Open(u64),
    Frame(u64, Vec<u8>),
    Close(u64),
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum News {
    /// A key frame left a guard towards the wire.
    Key([u8; 32]),
    /// An end has a confirmed secret.
    Agreed(Vec<u8>),
}

enum Party {
    Client(Box<Person>),
    Guard(Box<Keeper>),
}

/// A client with the link protocol of its handshakes.
struct Person {
    guard: HostId,
    machine: GuardClient,
    counter: u32,
    talks: BTreeMap<u64, Talk>,
    effects: VecDeque<Effect<Party>>,
    next: u64,
}

#[derive(Default)]
struct Talk {
    is_dialling: bool,
    pair: Option<CoinKeyPair>,
    first: Vec<u8>,
    shared: Vec<u8>,
    is_ready: bool,
}

/// A guard with its driver.
struct Keeper {
    inside: HostId,
    wire: HostId,
    machine: Guard,
    /// Numbers on both streams are those of the machine: even ones were dialled outwards.
    numbers: BTreeMap<(bool, u64), u64>,
    effects: VecDeque<Effect<Party>>,
    next: u64,
    byte: u8,
}

impl Person {
    fn send(&mut self, packet: Packet) {
        self.effects.push_back(Effect::Send { to: self.guard, packet });
    }

    fn drain(&mut self) {
        while let Some(output) = self.machine.poll() {
            match output {
                client::Output::Send(conn, frame) => self.send(Packet::Frame(conn.0, frame)),
                client::Output::Store(coin) => {
                    let change = Change::Store(*coin.commitment(), coin.encode().to_vec());
                    self.effects.push_back(Effect::Write(change));
                }
                client::Output::Erase(h) => self.effects.push_back(Effect::Write(Change::Erase(h))),
                client::Output::Key(conn, pair) => {
                    self.talks.entry(conn.0).or_default().pair = Some(pair);
                    self.speak(conn.0);
                }
                client::Output::Ready(conn) => {
                    self.talks.entry(conn.0).or_default().is_ready = true;
                    self.speak(conn.0);
                }
                client::Output::Close(conn) => self.hang_up(conn.0),
                client::Output::Gift(_) | client::Output::Refused(..) => {}
            }
        }
    }

    fn hang_up(&mut self, conn: u64) {
        if self.talks.remove(&conn).is_some() {
            self.send(Packet::Close(conn));
        }
    }

    /// Sends KE1 once the key is made and the destination answers.
    fn speak(&mut self, conn: u64) {
        let Some(talk) = self.talks.get_mut(&conn) else { return };
        let (true, true, true) = (talk.is_dialling, talk.is_ready, talk.first.is_empty()) else {
            return;
        };
        let Some(pair) = &talk.pair else { return };
        self.counter += 1;
        talk.first = ke1(&pair.public_key(CoinEncoding::X25519), self.counter);
        let frame = talk.first.clone();
        self.effects.push_back(Effect::Write(Change::Counter(self.counter)));
        self.send(Packet::Frame(conn, frame));
    }

    fn link_frame(&mut self, conn: u64, frame: &[u8], now: Time, rng: &mut dyn CryptoRng) {
        let Some(talk) = self.talks.get_mut(&conn) else { return };
        let mut answers = Vec::new();
        match frame[1] {
            KE1 if !talk.is_dialling => {
                let Some(pair) = talk.pair.take() else { return };
                talk.first = frame.to_vec();
                answers.push(ke2(frame, &pair.public_key(CoinEncoding::X25519)));
                talk.shared = secret(pair, &key(frame));
            }
            KE2 if talk.is_dialling => {
                let Some(pair) = talk.pair.take() else { return };
                talk.shared = secret(pair, &key(frame));
                answers.extend([ke3(&talk.first, &talk.shared), record()]);
                let shared = talk.shared.clone();
                self.effects.push_back(Effect::Tell(News::Agreed(shared)));
                let _ =
                    self.machine.handle(client::Input::Answered(GuardConnection(conn)), now, rng);
            }
            KE3 if !talk.is_dialling && confirms(frame, &talk.shared) => {
                answers.push(record());
                let shared = talk.shared.clone();
                self.effects.push_back(Effect::Tell(News::Agreed(shared)));
                let _ =
                    self.machine.handle(client::Input::Answered(GuardConnection(conn)), now, rng);
            }
            _ => {}
        }
        for frame in answers {
            self.send(Packet::Frame(conn, frame));
        }
    }
}

impl Keeper {
    /// The machine's number of a stream's connection.
    fn known(&self, is_inside: bool, number: u64) -> Option<u64> {
        self.numbers.get(&(is_inside, number)).copied()
    }

    fn number(&self, is_inside: bool, conn: u64) -> Option<u64> {
        self.numbers
            .iter()
            .find(|((side, _), own)| *side == is_inside && **own == conn)
            .map(|((_, n), _)| *n)
    }

    fn give(&mut self, input: Input, now: Time, rng: &mut dyn CryptoRng) {
        let _ = self.machine.handle(input, now, rng);
        self.drain(now, rng);
    }

    fn drain(&mut self, now: Time, rng: &mut dyn CryptoRng) {
        while let Some(output) = self.machine.poll() {
            match output {
                Output::Send(conn, side, frame) => {
                    let is_inside = side == GuardSide::Inside;
                    if !is_inside && [KE1, KE2].contains(&frame[1]) {
                        self.effects.push_back(Effect::Tell(News::Key(key(&frame).0)));
                    }
                    let to = if is_inside { self.inside } else { self.wire };
                    if let Some(number) = self.number(is_inside, conn.0) {
                        let packet = Packet::Frame(number, frame);
                        self.effects.push_back(Effect::Send { to, packet });
                    }
                }
                Output::Dial(conn, _) => self.dial(false, conn.0, now, rng),
                Output::DialClient(conn, _) => self.dial(true, conn.0, now, rng),
                Output::Persist(_, record) => {
                    self.effects.push_back(Effect::Write(Change::Ledger(record.encode())));
                }
                Output::Close(conn, _) => {
                    for is_inside in [true, false] {
                        if let Some(number) = self.number(is_inside, conn.0) {
                            self.numbers.remove(&(is_inside, number));
                            let to = if is_inside { self.inside } else { self.wire };
                            let packet = Packet::Close(number);
                            self.effects.push_back(Effect::Send { to, packet });
                        }
                    }
                }
                Output::Pump(_) | Output::Event(_) => {}
            }
        }
    }

    fn dial(&mut self, is_inside: bool, conn: u64, now: Time, rng: &mut dyn CryptoRng) {
        self.next += 1;
        // Both ends of a stream dial: the dialler's numbers are its own.
        let number = self.next * 8 + u64::from(self.byte);
        self.numbers.insert((is_inside, number), conn);
        let to = if is_inside { self.inside } else { self.wire };
        self.effects.push_back(Effect::Send { to, packet: Packet::Open(number) });
        let _ = self.machine.handle(Input::Dialled(GuardConnection(conn)), now, rng);
    }

    fn packet(&mut self, is_inside: bool, packet: Packet, now: Time, rng: &mut dyn CryptoRng) {
        let side = if is_inside { GuardSide::Inside } else { GuardSide::Wire };
        match packet {
            Packet::Open(number) => {
                self.next += 1;
                let conn = self.next * 8 + 7;
                self.numbers.insert((is_inside, number), conn);
                let opening = if is_inside {
                    Opening::Inside
                } else {
                    Opening::Wire(pairing(self.byte).client_id(), conn)
                };
                self.give(Input::Opened(GuardConnection(conn), opening), now, rng);
            }
            Packet::Frame(number, frame) => {
                if let Some(conn) = self.known(is_inside, number) {
                    self.give(Input::Frame(GuardConnection(conn), side, frame), now, rng);
                }
            }
            Packet::Close(number) => {
                if let Some(conn) = self.numbers.remove(&(is_inside, number)) {
                    self.give(Input::Closed(GuardConnection(conn), side), now, rng);
                }
            }
        }
    }
}

impl Host for Party {
    type Disk = Disk;
    type Write = Change;
    type Packet = Packet;
    type Order = ();
    type News = News;

    fn boot(disk: &Disk, _: Time, rng: &mut dyn CryptoRng) -> Self {
        let mut fresh = [0; 8];
        rng.fill_bytes(&mut fresh);
        // Numbers of a life before are gone with its streams.
        let next = u64::from_be_bytes(fresh) >> 8;
        match disk {
            Disk::Client { guard, byte, rows, counter } => {
                let mut machine = GuardClient::new(pairing(*byte), CoinEncoding::X25519);
                for row in rows.values() {
                    machine.load_coin(row).expect("what was stored loads again");
                }
                let (talks, effects) = Default::default();
                Self::Client(Box::new(Person {
                    guard: *guard,
                    machine,
                    counter: *counter,
                    talks,
                    effects,
                    next,
                }))
            }
            Disk::Guard { inside, wire, byte, ledger } => {
                let (loaded, whole) =
                    SlotLedger::load(ledger).expect("what was appended loads again");
                assert_eq!(whole, ledger.len());
                let coin_key = CoinKey::from_secret(Secret::init_with(|key| key.fill(*byte)));
                let (machine, era) =
                    Guard::start(settings(*byte, GuardMode::Coins), coin_key, loaded, rng);
                let effects = VecDeque::from([Effect::Write(Change::Ledger(era.encode()))]);
                let numbers = BTreeMap::new();
                let inside = *inside;
                let wire = *wire;
                let byte = *byte;
                Self::Guard(Box::new(Keeper {
                    inside,
                    wire,
                    machine,
                    numbers,
                    effects,
                    next,
                    byte,
                }))
            }
        }
    }

    fn apply_order(&mut self, (): (), now: Time, rng: &mut dyn CryptoRng) {
        let Self::Client(person) = self else { return };
        person.next += 1;
        let conn = person.next;
        person.talks.insert(conn, Talk { is_dialling: true, ..Talk::default() });
        person.send(Packet::Open(conn));
        let dial = client::Input::Dial(GuardConnection(conn), GuardMode::Coins, 1);
        if person.machine.handle(dial, now, rng).is_err() {
            person.hang_up(conn);
        }
        person.drain();
    }

    fn deliver_packet(&mut self, from: HostId, packet: Packet, now: Time, rng: &mut dyn CryptoRng) {
        match self {
            Self::Guard(keeper) => keeper.packet(from == keeper.inside, packet, now, rng),
            Self::Client(person) => {
                match packet {
                    Packet::Open(number) => {
                        person.talks.insert(number, Talk::default());
                        let input = client::Input::Accepted(GuardConnection(number));
                        if person.machine.handle(input, now, rng).is_err() {
                            person.hang_up(number);
                        }
                    }
                    Packet::Frame(number, frame) if Control::is_kind(frame[1]) => {
                        let input = client::Input::Frame(GuardConnection(number), frame);
                        let _ = person.machine.handle(input, now, rng);
                    }
                    Packet::Frame(number, frame) => person.link_frame(number, &frame, now, rng),
                    Packet::Close(number) => {
                        person.talks.remove(&number);
                        let input = client::Input::Closed(GuardConnection(number));
                        let _ = person.machine.handle(input, now, rng);
                    }
                }
                person.drain();
            }
        }
    }

    fn stream_lost(&mut self, peer: HostId, now: Time, rng: &mut dyn CryptoRng) {
        match self {
            Self::Guard(keeper) => {
                let is_inside = peer == keeper.inside;
                let gone: Vec<(bool, u64)> =
                    keeper.numbers.keys().filter(|(side, _)| *side == is_inside).copied().collect();
                for (_, number) in gone {
                    keeper.packet(is_inside, Packet::Close(number), now, rng);
                }
            }
            Self::Client(person) => {
                let gone: Vec<u64> = person.talks.keys().copied().collect();
                for number in gone {
                    person.talks.remove(&number);
                    let input = client::Input::Closed(GuardConnection(number));
                    let _ = person.machine.handle(input, now, rng);
                }
                person.drain();
            }
        }
    }

    fn wake(&mut self, now: Time, rng: &mut dyn CryptoRng) {
        match self {
            Self::Guard(keeper) => {
                keeper.machine.wake(now, rng);
                keeper.drain(now, rng);
            }
            Self::Client(person) => {
                person.machine.wake(now, rng);
                person.drain();
            }
        }
    }

    fn deadline(&self) -> Option<Time> {
        match self {
            Self::Guard(keeper) => keeper.machine.deadline(),
            Self::Client(person) => person.machine.deadline(),
        }
    }

    fn next_effect(&mut self) -> Option<Effect<Self>> {
        match self {
            Self::Guard(keeper) => keeper.effects.pop_front(),
            Self::Client(person) => person.effects.pop_front(),
        }
    }

    fn apply_write(disk: &mut Disk, write: Change) {
        match (disk, write) {
            (Disk::Client { rows, .. }, Change::Store(h, row)) => {
                rows.insert(h, row);
            }
            (Disk::Client { rows, .. }, Change::Erase(h)) => {
                rows.remove(&h);
            }
            (Disk::Client { counter, .. }, Change::Counter(value)) => *counter = value,
            (Disk::Guard { ledger, .. }, Change::Ledger(record)) => ledger.extend(record),
            _ => panic!("a change of another disk"),
        }
    }
}

/// Both clients behind their guards; gives the confirmed secrets of alice and of bob.
fn world(seed: u64, crashes: CrashRate, calls: u64) -> [Vec<Vec<u8>>; 2] {
    let mut world = World::<Party>::new(seed);
    let client = |guard, byte| Disk::Client { guard, byte, rows: BTreeMap::new(), counter: 40 };
    let guard = |inside, wire, byte| Disk::Guard { inside, wire, byte, ledger: Vec::new() };
    world.add_host(client(GUARD_A, 1));
    world.add_host(guard(ALICE, GUARD_B, 1));
    world.add_host(guard(BOB, GUARD_A, 2));
    world.add_host(client(GUARD_B, 2));
    for (a, b) in [(ALICE, GUARD_A), (GUARD_A, GUARD_B), (GUARD_B, BOB)] {
        world.set_link(a, b, LinkModel::stream());
    }
    for place in [ALICE, GUARD_A, GUARD_B, BOB] {
        world.set_crash_rate(place, crashes);
    }
    for call in 0..calls {
        let at = 3_000 * call + world.dice().between(0, 1_000);
        world.schedule_order(ALICE, at, ());
    }
    let mut agreed = [Vec::new(), Vec::new()];
    let mut keys: BTreeMap<[u8; 32], u32> = BTreeMap::new();
    let mut watch = |_: &World<Party>, step: &WorldStep<News>| match step {
        WorldStep::Told { at: _, news: News::Key(key) } => *keys.entry(*key).or_default() += 1,
        WorldStep::Told { at, news: News::Agreed(shared) } => {
            agreed[usize::from(*at == BOB)].push(shared.clone());
        }
        _ => {}
    };
    world.run_for(3_000 * calls / 2, &mut watch);
    world.shift_clock(GUARD_A, 3_600_000);
    world.run_for(3_000 * calls, &mut watch);
    // Then calm: what the crashes left behind must not stand in the way.
    world.stop_faults();
    world.run_for(30_000, &mut watch);
    world.schedule_order(ALICE, 0, ());
    let mut after = 0;
    world.run_for(30_000, |world, step| {
        after += usize::from(matches!(step, WorldStep::Told { news: News::Agreed(_), .. }));
        watch(world, step);
    });
    assert_eq!(after, 2, "an honest handshake finishes at both ends");
    assert!(keys.values().all(|count| *count == 1), "a key went out twice");
    agreed
}

#[test]
fn two_guards_and_nothing_goes_wrong() {
    let [alice, bob] = world(1, CrashRate::default(), 6);
    assert_eq!((alice.len(), &alice), (7, &bob));
}

/// An honest client and an untouched peer finish every handshake that no crash has met; whatever dies and
/// comes back, no key goes out twice, and what one end has confirmed the other has too.
#[test]
fn two_guards_loss_and_restarts() {
    let mut finished = 0;
    for_each_seed(100, |seed| {
        let crashes = CrashRate { permille: 15, down_ms: (10, 3_000) };
        let [alice, bob] = world(seed, crashes, 8);
        for shared in &bob {
            assert!(alice.contains(shared), "bob confirmed what alice does not have");
        }
        finished += bob.len();
    });
    assert!(finished > 300, "{finished} of 900 handshakes finished");
}
