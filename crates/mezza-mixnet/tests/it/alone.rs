//! One client in front of one mix, and a partner that holds the session keys and says what it likes.

use std::collections::BTreeMap;

use mezza_core::{EphemeralKey, Machine as _, Secret, StaticKey, Time, Wiping};
use mezza_lanes::Scalar;
use mezza_mixnet::RoundId;
use mezza_mixnet::client::{
    Access, Client, ClientJob, ClientOptions, DropResult, Input, NewRoot, Output, StartRounds,
};
use mezza_mixnet::config::{Config, SignatureSet, SignedConfig};
use mezza_mixnet::contact::{ConversationKeywheel, Role};
use mezza_mixnet::mix::NoiseFloor;
use mezza_mixnet::onion::{Layer, seal_replies, unwrap_layer};
use mezza_mixnet::service::{CELL_BYTES, DROP_BYTES, Service, reply_bytes};
use mezza_mixnet::wire::{Cell, Frame, FrameBody, Settings, SignedSettings};
use mezza_sim::handle_checked;
use rand_chacha::ChaCha20Rng;
use rand_core::{Rng as _, SeedableRng as _};

use crate::fixture::{OPEN, config, signer};
use crate::town::goes_on;
use crate::toy::{TOY, Toy};

/// The secret of the mix, in every round.
const SECRET: u8 = 7;
/// From one round to the next, milliseconds.
const INTERVAL_MS: u64 = 2_000;

fn pair(n: u8) -> StaticKey {
    StaticKey::from_scalar::<Toy>(Secret::init_with(|s| s.fill(n)))
}

fn talks(slots: u8) -> Config {
    let mut config = config(1);
    config.services.truncate(1);
    let policy = &mut config.services[0];
    (policy.mu, policy.scale, policy.rounds, policy.slots) = (2, 0, 1 << 40, slots);
    (policy.ask_ms, policy.lead_ms, policy.mix_limit_ms) = (500, 500, 1_000);
    (policy.interval_ms, policy.collect_ms) = (INTERVAL_MS as u32, 1_000);
    config
}

/// The client, its disk, its messenger, and everybody else in one.
pub struct Alone {
    config: Config,
    pub client: Client<Toy>,
    pub rows: BTreeMap<u64, Vec<u8>>,
    pub now: Time,
    pub dice: ChaCha20Rng,
    rng: ChaCha20Rng,
    /// The partner's chain: contact 0 of the client.
    partner: ConversationKeywheel,
    round: u64,
    /// Durable rows that were not reported.
    unsaid: Vec<u64>,
    pub slow: bool,
    pub submits: Vec<(RoundId, Vec<u8>)>,
    pub received: Vec<Vec<u8>>,
    /// The last cell of the client to the partner.
    pub heard: Option<Cell>,
}

impl Alone {
    pub fn new(seed: u64, slots: u8) -> Self {
        let config = talks(slots);
        let now = OPEN.minus_ms(10_000);
        let root = || Secret::init_with(|s| s.fill(3));
        let mut alone = Self {
            client: Client::new(Self::setup(&config), now),
            config,
            rows: BTreeMap::new(),
            now,
            dice: ChaCha20Rng::seed_from_u64(seed),
            rng: ChaCha20Rng::seed_from_u64(seed + 1_000),
            partner: ConversationKeywheel::begin(&root(), Role::Responder, 100),
            round: 99,
            unsaid: Vec::new(),
            slow: false,
            submits: Vec::new(),
            received: Vec::new(),
            heard: None,
        };
        alone.until(now);
        alone.join();
        let mut genesis = SignedConfig::new(alone.config.clone());
        genesis.add_signature(SignatureSet::Own, 0, &signer(1));
        alone.frame(Frame::Config { left: 0, config: genesis.encode() });
        alone.give(Input::Down);
        let contact = 0;
        let role = Role::Initiator;
        let start = StartRounds { conversation: 100, call: 0 };
        alone.give(Input::Add(NewRoot { contact, root: root(), role, start, bucket: 1 }));
        alone.give(Input::Activate(0));
        alone.until(OPEN);
        alone.join();
        alone
    }

    fn setup(config: &Config) -> ClientOptions {
        ClientOptions {
            pin: config.hash(),
            dialling: pair(8),
            floor: NoiseFloor::None,
            kernel: &TOY,
        }
    }

    pub fn join(&mut self) {
        let head = self.config.hash();
        self.frame(Frame::Welcome { head, now: self.now });
    }

    pub fn frame(&mut self, frame: Frame) {
        self.give(Input::Frame { frame, age_ms: 0 });
    }

    pub fn give(&mut self, input: Input) {
        let _ = handle_checked(&mut self.client, input, self.now, &mut self.rng);
        self.drain();
    }

    fn drain(&mut self) {
        while let Some(output) = self.client.poll() {
            self.carry_out(output);
        }
    }

    fn carry_out(&mut self, output: Output) {
        match output {
            Output::Dial { search, .. } => {
                self.give(Input::Up { trusted: search.is_none() });
            }
            Output::Want(pairs) => {
                for _ in 0..pairs {
                    let pair = EphemeralKey::random::<Toy>(&mut self.rng);
                    self.give(Input::Give(pair));
                }
            }
            Output::Job(mut job) => {
                let done = ClientJob::run::<Toy>(&mut job, &TOY);
                self.give(Input::Done(job, done));
            }
            Output::Store { seq, first, record } => {
                self.rows.retain(|row, _| *row >= first);
                self.rows.insert(seq, record.to_vec());
                self.unsaid.push(seq);
            }
            Output::Received { seq, bytes, .. } => {
                self.received.push(bytes.to_vec());
                self.unsaid.push(seq);
            }
            Output::Frame(scheduled) => {
                if let Frame::Round(id, FrameBody::Submit(onions)) = scheduled.frame {
                    self.submits.push((id, onions));
                }
            }
            _ => {}
        }
        self.say();
    }

    /// Reports durable rows, if disk and messenger are not slow.
    pub fn say(&mut self) {
        if let Some(seq) = self.unsaid.last().copied().filter(|_| !self.slow) {
            self.unsaid.clear();
            self.give(Input::Stored(seq));
        }
    }

    pub fn write(&mut self, ticket: u64, bytes: Vec<u8>) {
        self.give(Input::Send { ticket, contact: 0, bytes: Wiping::new(bytes) });
    }

    /// The process sleeps, and wakes up at this time.
    pub fn sleep(&mut self, end: Time) {
        self.now = end;
        self.client.wake(end, &mut self.rng);
        self.drain();
    }

    /// Goes on to what is due next.
    pub fn next(&mut self) {
        let due = self.client.deadline().expect("it waits for something");
        self.sleep(due.max(self.now));
    }

    pub fn until(&mut self, end: Time) {
        while let Some(due) = self.client.deadline().filter(|due| *due <= end) {
            self.sleep(due.max(self.now));
        }
        self.now = end;
    }

    /// Announces a round, which closes `late_ms` later than it should.
    pub fn announce(&mut self, round: u64, late_ms: i64) {
        let policy = &self.config.services[0];
        let settings = Settings {
            config: self.config.hash(),
            id: RoundId { service: Service::Conversation, round },
            collect_ms: policy.collect_ms,
            slots: policy.slots,
            buckets: 1,
            policy: 0,
            keys: vec![pair(SECRET).public_key().0],
        };
        let signatures = vec![settings.sign(&signer(50))];
        let open = OPEN.plus_ms(INTERVAL_MS * (round - 100));
        let closes_in = 1_000 + open.since_ms(self.now).cast_signed() + late_ms;
        let closes_in_ms = u32::try_from(closes_in).unwrap_or(0);
        let announced = SignedSettings { settings, signatures, closes_in_ms };
        let id = announced.settings.id;
        self.frame(Frame::Round(id, FrameBody::Settings(announced)));
    }

    /// The next round that is not open yet, and when it opens.
    pub fn next_round(&mut self) -> (u64, Time) {
        let since = self.now.plus_ms(200).since_ms(OPEN).div_ceil(INTERVAL_MS);
        self.round = (self.round + 1).max(100 + since);
        (self.round, OPEN.plus_ms(INTERVAL_MS * (self.round - 100)))
    }

    /// A round from its announcement to its replies; the partner's cell is `cell`.
    pub fn run_round(&mut self, cell: &Cell) {
        let (round, open) = self.next_round();
        self.until(open.minus_ms(200));
        self.announce(round, 0);
        self.until(open.plus_ms(1_000));
        self.end_round(cell);
    }

    /// RETURN of the last round that was submitted.
    pub fn end_round(&mut self, cell: &Cell) {
        let Some((id, onions)) = self.submits.pop() else { return };
        let layer = Layer { id, position: 0, key: *pair(SECRET).public_key() };
        let secret = Scalar::copy_from(pair(SECRET).scalar().expose());
        let opened = unwrap_layer(&TOY, &secret, &layer, &onions, id.service.onion_bytes(1));
        let mut cells = Vec::new();
        for access in opened.inner_onions() {
            let (drop, own) = access.split_at(DROP_BYTES);
            let there = self.partner.advance_to(id.round, 1 << 20) == Ok(true);
            if there && self.partner.meeting().drop == *drop {
                let theirs = Access::seal_cell::<Toy>(self.partner.take_round_keys(), cell);
                cells.extend_from_slice(&theirs.bytes()[DROP_BYTES..]);
                if let DropResult::Met(Ok(cell)) = theirs.read_reply::<Toy>(own) {
                    self.heard = Some(cell);
                }
            } else {
                cells.extend_from_slice(own);
            }
        }
        let replies = seal_replies(&TOY, &opened.reply_keys, &cells, CELL_BYTES);
        assert_eq!(replies.len(), opened.reply_keys.len() * reply_bytes(1));
        self.frame(Frame::Round(id, FrameBody::Return { users: 200, replies }));
    }

    /// The client that a start would make of the rows.
    pub fn restored(&self) -> Client<Toy> {
        let rows = self.rows.iter().map(|(seq, row)| (*seq, row.as_slice()));
        let mut rng = self.rng.clone();
        let restored = Client::restore(Self::setup(&self.config), rows, self.now, &mut rng);
        restored.expect("what a client wrote")
    }

    /// The rows are those of this client.
    pub fn look(&self) {
        let restored = self.restored();
        assert_eq!(restored.rows_aside(), [], "every row is read");
        goes_on(&restored, &self.client);
        // What the partner was told is there is there (MIX-33).
        let Some(told) = &self.heard else { return };
        let named = (0..32).filter(|j| told.sack >> j & 1 == 1).map(|j| told.ack + 1 + j);
        let names = |client: &Client<Toy>, piece: u32| {
            let mark = client.stream_marks().next().expect("there is one contact, with one root");
            let bit = piece.checked_sub(mark.ack + 1).filter(|j| *j < 32);
            piece < mark.ack || bit.is_some_and(|j| mark.sack >> j & 1 == 1)
        };
        for piece in named.chain(told.ack.checked_sub(1)) {
            // A stream that broke since has forgotten what lay ahead.
            let there = names(&restored, piece) || !names(&self.client, piece);
            assert!(there, "{piece} of {told:?}");
        }
    }

    pub fn restart(&mut self) {
        self.client = self.restored();
        self.unsaid.clear();
        self.submits.clear();
        self.drain();
    }

    /// Up to `n`, by chance.
    pub fn below(&mut self, n: u32) -> u32 {
        self.dice.next_u32() % n
    }
}
