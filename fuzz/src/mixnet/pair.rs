//! Two clients with one mix.

use mezza_core::{EphemeralKey, Machine, PortableBackend, Secret, StaticKey, Time, Wiping};
use mezza_lanes::{Scalar, portable};
use mezza_mixnet::client::record::RECORD_BYTES;
use mezza_mixnet::client::{
    Client, ClientJob, ClientOptions, Input, NewRoot, Output, ScheduledFrame, StartRounds,
    StreamMark,
};
use mezza_mixnet::config::{
    Config, MixServer, Mode, NetworkId, Server, ServicePolicy, SignatureSet, SignedConfig, Traps,
};
use mezza_mixnet::contact::Role;
use mezza_mixnet::mix::NoiseFloor;
use mezza_mixnet::onion::{Layer, seal_replies, unwrap_layer};
use mezza_mixnet::service::{CELL_BYTES, DROP_BYTES, Service};
use mezza_mixnet::sign::Signer;
use mezza_mixnet::wire::{Frame, FrameBody, MissedReason, Settings, SignedSettings};
use mezza_mixnet::{RoundId, batch};
use mezza_sim::handle_checked;
use rand_chacha::ChaCha8Rng;
use rand_core::SeedableRng;
use std::collections::BTreeMap;

/// Time at which conversation round 100 opens.
pub const OPEN: Time = Time::from_ms(1_000_000_000);
/// Bytes of the smallest snapshot.
pub const SNAPSHOT_BYTES: usize = 16_384;
/// The secret of the mix in every round.
const SECRET: u8 = 7;

fn make_signer(n: u8) -> Signer {
    Signer::from_seed(&Secret::init_with(|s| s.fill(n)))
}

fn make_pair(n: u8) -> StaticKey {
    StaticKey::from_scalar::<PortableBackend>(Secret::init_with(|s| s.fill(n)))
}

fn make_config() -> Config {
    let server =
        |key: u8| Server { key: make_signer(key).public_key(), address: format!("m{key}:7000") };
    let policy = ServicePolicy {
        service: Service::Conversation,
        base_round: 100,
        base_time: OPEN,
        interval_ms: 2_000,
        ask_ms: 500,
        lead_ms: 500,
        collect_ms: 1_000,
        mix_limit_ms: 1_000,
        slots: 1,
        buckets: 1,
        mode: Mode::Gauss,
        mu: 2,
        scale: 0,
        epsilon_micro: 693_147,
        delta_pico: 100_000_000,
        rounds: 1 << 30,
        traps: Traps { singles: 2, pairs: 1 },
    };
    Config {
        network: NetworkId([0xaa; 16]),
        seq: 0,
        prev: [0; 32],
        valid_from: OPEN.minus_ms(Time::DAY_MS),
        valid_until: OPEN.plus_ms(100 * Time::DAY_MS),
        threshold: 1,
        guardians: vec![make_signer(1).public_key()],
        coordinator: server(40),
        bucket: server(41),
        mixes: vec![MixServer { server: server(50), operator: "Ada".into() }],
        users_max: 10,
        services: vec![policy],
    }
}

pub fn make_setup(n: u8) -> ClientOptions {
    let pin = make_config().hash();
    ClientOptions { pin, dialling: make_pair(n), floor: NoiseFloor::None, kernel: portable() }
}

/// One side: its client, its disk, its messenger.
pub struct Person {
    client: Client,
    pub rows: BTreeMap<u64, Vec<u8>>,
    /// Messages for the other side with their tickets; `None`: handed over.
    pub sent: Vec<(Vec<u8>, Option<u64>)>,
    tickets: u64,
    inbox: Vec<Vec<u8>>,
    newest: Option<u64>,
    /// Durable rows that were not reported yet.
    unsaid: Vec<u64>,
    /// True if rounds return: only then messages are passed in, as the messenger does (MIX-75).
    up: bool,
    pub slow: bool,
    /// Every sent cell, by its drop.
    cells: BTreeMap<Vec<u8>, Vec<u8>>,
    wrapped: BTreeMap<RoundId, Vec<u8>>,
    submitted: Option<(RoundId, Vec<u8>)>,
    pub lose_jobs: bool,
}

pub struct Pair {
    pub people: [Person; 2],
    pub now: Time,
    rng: ChaCha8Rng,
    round: u64,
}

impl Pair {
    pub fn new() -> Self {
        let now = OPEN.minus_ms(10_000);
        let person = |n: u8| Person {
            client: Client::new(make_setup(n), now),
            rows: BTreeMap::new(),
            sent: Vec::new(),
            tickets: 0,
            inbox: Vec::new(),
            newest: None,
            unsaid: Vec::new(),
            up: false,
            slow: false,
            cells: BTreeMap::new(),
            wrapped: BTreeMap::new(),
            submitted: None,
            lose_jobs: false,
        };
        let rng = ChaCha8Rng::seed_from_u64(6);
        let mut pair = Self { people: [person(8), person(9)], now, rng, round: 99 };
        let mut genesis = SignedConfig::new(make_config());
        genesis.add_signature(SignatureSet::Own, 0, &make_signer(1));
        for who in 0..2 {
            pair.run_until(now);
            let welcome = Frame::Welcome { head: make_config().hash(), now };
            pair.give_input(who, Input::Frame { frame: welcome, age_ms: 0 });
            let config = Frame::Config { left: 0, config: genesis.encode() };
            pair.give_input(who, Input::Frame { frame: config, age_ms: 0 });
            pair.give_input(who, Input::Down);
            let role = if who == 0 { Role::Initiator } else { Role::Responder };
            pair.add_root(who, 3, role);
        }
        pair.run_until(OPEN);
        for who in 0..2 {
            pair.join_entry(who);
        }
        pair
    }

    fn add_root(&mut self, who: usize, root: u8, role: Role) {
        let root = Secret::init_with(|s| s.fill(root));
        let start = StartRounds { conversation: 100, call: 0 };
        let new = NewRoot { contact: 0, root, role, start, bucket: 1 };
        self.give_input(who, Input::Add(new));
        self.give_input(who, Input::Activate(0));
    }

    pub fn join_entry(&mut self, who: usize) {
        let welcome = Frame::Welcome { head: make_config().hash(), now: self.now };
        self.give_input(who, Input::Frame { frame: welcome, age_ms: 0 });
    }

    /// Passes one input; a refusal must change nothing.
    pub fn give_input(&mut self, who: usize, input: Input) {
        let person = &mut self.people[who];
        person.up &= !matches!(input, Input::Down);
        let client = &mut person.client;
        // Rounds end and connections break, so some responses come too late.
        let _ = handle_checked(client, input, self.now, &mut self.rng);
        self.drain_outputs(who);
    }

    fn drain_outputs(&mut self, who: usize) {
        while let Some(output) = self.people[who].client.poll() {
            self.carry_out(who, output);
        }
    }

    fn carry_out(&mut self, who: usize, output: Output) {
        let person = &mut self.people[who];
        match output {
            Output::Dial { search, .. } => {
                self.give_input(who, Input::Up { trusted: search.is_none() });
            }
            Output::Want(pairs) => {
                for _ in 0..pairs {
                    let pair = EphemeralKey::random::<PortableBackend>(&mut self.rng);
                    self.give_input(who, Input::Give(pair));
                }
            }
            Output::Job(job) if person.lose_jobs => self.give_input(who, Input::Lost(job.id())),
            Output::Job(mut job) => {
                if let ClientJob::Wrap(wrap) = &job {
                    person.wrapped.insert(wrap.id, wrap.inner.to_vec());
                }
                let done = job.run::<PortableBackend>(portable());
                self.give_input(who, Input::Done(job, done));
            }
            Output::Store { seq, first, record } => {
                let padded = record.len().is_power_of_two() && record.len() >= SNAPSHOT_BYTES;
                assert!(record.len() == RECORD_BYTES || padded, "{} bytes", record.len());
                person.rows.retain(|row, _| *row >= first);
                person.rows.insert(seq, record.to_vec());
                person.unsaid.push(seq);
            }
            Output::Received { seq, number, bytes, .. } => {
                if person.newest.is_none_or(|newest| number > newest) {
                    person.newest = Some(number);
                    person.inbox.push(bytes.to_vec());
                }
                person.unsaid.push(seq);
            }
            Output::Handed(ticket) => {
                let done = person.sent.iter_mut().filter(|(_, its)| *its == Some(ticket));
                done.for_each(|(_, its)| *its = None);
            }
            Output::Close | Output::Returning(false) => person.up = false,
            Output::Joined | Output::Returning(true) if !person.up => {
                person.up = true;
                for at in 0..self.people[who].sent.len() {
                    if self.people[who].sent[at].1.is_some() {
                        self.send_message(who, at);
                    }
                }
            }
            // The line is never busy here: a frame is sent when it is passed on.
            Output::Frame(ScheduledFrame {
                frame: Frame::Round(id, FrameBody::Submit(onions)),
                ..
            }) => {
                let plain = person.wrapped.remove(&id).expect("it was wrapped");
                let (drop, cell) = plain.split_at(DROP_BYTES);
                let twice = person.cells.insert(drop.to_vec(), cell.to_vec());
                assert!(twice.is_none(), "two cells under one contact and round");
                person.submitted = Some((id, onions));
            }
            _ => {}
        }
        self.report_stored(who);
    }

    /// Reports the newest durable row, if the disk is not slow.
    pub fn report_stored(&mut self, who: usize) {
        let person = &mut self.people[who];
        if let Some(seq) = person.unsaid.last().copied().filter(|_| !person.slow) {
            person.unsaid.clear();
            self.give_input(who, Input::Stored(seq));
        }
    }

    /// Passes a message to the client if that is up, else once it is up.
    pub fn send_message(&mut self, who: usize, at: usize) {
        let person = &mut self.people[who];
        if !person.up {
            return;
        }
        person.tickets += 1;
        let ticket = person.tickets;
        person.sent[at].1 = Some(ticket);
        let bytes = Wiping::new(person.sent[at].0.clone());
        self.give_input(who, Input::Send { ticket, contact: 0, bytes });
    }

    pub fn run_until(&mut self, end: Time) {
        for _ in 0..1_000 {
            let due = self.people.iter().filter_map(|person| person.client.deadline()).min();
            let Some(due) = due.filter(|due| *due <= end) else { break };
            self.now = due.max(self.now);
            for who in 0..2 {
                self.people[who].client.wake(self.now, &mut self.rng);
                self.drain_outputs(who);
            }
        }
        self.now = end.max(self.now);
    }

    /// Announces the next round, and runs it to its close.
    pub fn run_round(&mut self) {
        let since = self.now.since_ms(OPEN).div_ceil(2_000);
        self.round = (self.round + 1).max(100 + since);
        let opens = OPEN.plus_ms(2_000 * (self.round - 100));
        self.run_until(opens.minus_ms(200).max(self.now));
        self.announce_round(self.round, 1_000);
        self.run_until(opens.plus_ms(1_000));
    }

    /// Runs two rounds; by the entry's announcement the later one closes first.
    pub fn run_rounds_crosswise(&mut self) {
        self.run_round();
        let opens = OPEN.plus_ms(2_000 * (self.round + 1 - 100));
        self.run_until(opens.minus_ms(200).max(self.now));
        self.announce_round(self.round + 1, 3_500);
        self.announce_round(self.round + 2, 0);
        self.round += 2;
        self.run_until(opens.plus_ms(4_000));
    }

    /// Sets both clocks back.
    pub fn put_back(&mut self, ms: u64) {
        self.now = self.now.minus_ms(ms);
        for who in 0..2 {
            self.people[who].client.wake(self.now, &mut self.rng);
            self.drain_outputs(who);
        }
    }

    /// Announces a round that closes `closes_ms` after it opens.
    fn announce_round(&mut self, round: u64, closes_ms: u32) {
        let id = RoundId { service: Service::Conversation, round };
        let opens = OPEN.plus_ms(2_000 * (round - 100));
        let settings = Settings {
            config: make_config().hash(),
            id,
            collect_ms: 1_000,
            slots: 1,
            buckets: 1,
            policy: 0,
            keys: vec![make_pair(SECRET).public_key().0],
        };
        let signatures = vec![settings.sign(&make_signer(50))];
        let closes_in_ms = closes_ms + opens.since_ms(self.now) as u32;
        let announced = SignedSettings { settings, signatures, closes_in_ms };
        for who in 0..2 {
            let body = FrameBody::Settings(announced.clone());
            self.give_input(who, Input::Frame { frame: Frame::Round(id, body), age_ms: 0 });
        }
    }

    /// Runs the mix; `fate` selects which clients get a result, and which result.
    pub fn end_round(&mut self, fate: u8) {
        let id = RoundId { service: Service::Conversation, round: self.round };
        let layer = Layer { id, position: 0, key: *make_pair(SECRET).public_key() };
        let secret = Scalar::copy_from(make_pair(SECRET).scalar().expose());
        let of = |person: &mut Person| person.submitted.take().filter(|(its, _)| *its == id);
        let sent = [0, 1].map(|who| of(&mut self.people[who]).map(|(_, onions)| onions));
        let owners: Vec<usize> = (0..2).filter(|who| sent[*who].is_some()).collect();
        let onions = sent.into_iter().flatten().collect::<Vec<_>>().concat();
        let opened = unwrap_layer(portable(), &secret, &layer, &onions, id.service.onion_bytes(1));
        let accesses = opened.inner_onions().collect::<Vec<_>>();
        let drops = accesses.iter().map(|a| a[..DROP_BYTES].try_into().expect("a drop"));
        let replies = batch::match_drops(&drops.collect::<Vec<_>>());
        let cells = replies.iter().enumerate().map(|(own, reply)| match reply {
            batch::Reply::Swap(other) => &accesses[*other as usize][DROP_BYTES..],
            _ => &accesses[own][DROP_BYTES..],
        });
        let cells = cells.collect::<Vec<_>>().concat();
        let replies = seal_replies(portable(), &opened.reply_keys, &cells, CELL_BYTES);
        for (owner, reply) in owners.iter().zip(replies.chunks_exact(CELL_BYTES + 16)) {
            let mut replies = reply.to_vec();
            replies[usize::from(fate)] ^= u8::from(fate >> owner & 0b1100 == 0b1100);
            let body = match fate >> (2 * owner) & 3 {
                0 => FrameBody::Missed(MissedReason::Aborted),
                _ => FrameBody::Return { users: 2, replies },
            };
            self.give_input(*owner, Input::Frame { frame: Frame::Round(id, body), age_ms: 0 });
        }
    }

    /// Returns the client that a restart makes from the rows of one side.
    fn restore_client(&self, who: usize) -> Client {
        let rows = self.people[who].rows.iter().map(|(seq, row)| (*seq, row.as_slice()));
        let mut rng = self.rng.clone();
        let client = Client::restore(make_setup(8 + who as u8), rows, self.now, &mut rng);
        let client = client.expect("what a client wrote");
        assert!(client.rows_aside().is_empty(), "a row was not read");
        client
    }

    /// Restarts a client from its rows.
    pub fn restart_client(&mut self, who: usize) {
        let client = self.restore_client(who);
        let person = &mut self.people[who];
        person.client = client;
        person.wrapped.clear();
        person.unsaid.clear();
        person.up = false;
        person.submitted = None;
        self.drain_outputs(who);
    }

    /// Checks that messages arrived as sent and in order. A client loaded from the rows must have
    /// the same ledger, seal no round again, and number pieces like the client that wrote them.
    pub fn check_messages(&self) {
        for (who, person) in self.people.iter().enumerate() {
            let again = self.restore_client(who);
            let client = &person.client;
            assert_eq!(again.ledger(), client.ledger());
            let last = |client: &Client| Service::ALL.map(|service| client.last_sealed(service));
            assert_eq!(last(&again), last(client));
            let next = |mark: StreamMark| (mark.contact, mark.line, mark.next);
            assert!(again.stream_marks().map(next).eq(client.stream_marks().map(next)));
        }
        for (from, to) in [(0, 1), (1, 0)] {
            let sent = self.people[from].sent.iter().map(|(bytes, _)| bytes);
            let got = &self.people[to].inbox;
            assert!(sent.take(got.len()).eq(got.iter()), "out of order, or twice");
        }
    }
}
