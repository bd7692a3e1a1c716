//! One client alone, with an entry made by hand: what it believes, and what it does not.

mod cover;
mod drawn;
mod moved;
mod rounds;

use std::collections::BTreeMap;

use mezza_core::{EphemeralKey, Machine as _, PortableBackend, Secret, StaticKey, Time};
use mezza_lanes::portable;
use mezza_mixnet::client::{
    Client, ClientError, ClientOptions, Input, Output, ScheduledFrame, SettingsError,
};
use mezza_mixnet::config::{Chain, ChainError, Config, SignatureSet, SignedConfig};
use mezza_mixnet::mix::NoiseFloor;
use mezza_mixnet::service::reply_bytes;
use mezza_mixnet::wire::{Frame, FrameBody, Settings, SignedSettings};
use mezza_mixnet::{RoundId, Service};
use mezza_sim::handle_checked;
use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng as _;

use crate::fixture::{OPEN, config, signer};

/// A change of settings on the path.
type Change = fn(&mut SignedSettings);

struct Desk {
    client: Client,
    config: Config,
    now: Time,
    rng: ChaCha20Rng,
    rows: BTreeMap<u64, Vec<u8>>,
    news: Vec<Output>,
    floor: NoiseFloor,
}

fn setup(pin: [u8; 32], floor: NoiseFloor) -> ClientOptions {
    let dialling = StaticKey::from_scalar::<PortableBackend>(Secret::init_with(|s| s.fill(9)));
    ClientOptions { pin, dialling, floor, kernel: portable() }
}

fn genesis(config: &Config) -> SignedConfig {
    let mut signed = SignedConfig::new(config.clone());
    signed.add_signature(SignatureSet::Own, 0, &signer(1));
    signed
}

/// A successor that begins an hour later.
fn successor(config: &Config, change: impl FnOnce(&mut Config)) -> SignedConfig {
    let mut next = config.clone();
    (next.seq, next.prev) = (config.seq + 1, config.hash());
    next.valid_from = OPEN.plus_ms(Time::HOUR_MS * next.seq);
    for service in &mut next.services {
        service.base_time = next.valid_from;
        service.base_round += 1_000_000;
    }
    change(&mut next);
    let mut signed = SignedConfig::new(next);
    signed.add_signature(SignatureSet::Predecessor, 0, &signer(1));
    signed
}

impl Desk {
    fn new(config: Config, floor: NoiseFloor) -> Self {
        let now = OPEN.minus_ms(6_000);
        let client = Client::new(setup(config.hash(), floor), now);
        let rng = ChaCha20Rng::seed_from_u64(5);
        let rows = BTreeMap::new();
        let news = Vec::new();
        Self { client, config, now, rng, rows, news, floor }
    }

    /// A client that knows the config, connected to an entry that can be trusted.
    fn joined(config: Config, floor: NoiseFloor) -> Self {
        let mut desk = Self::new(config, floor);
        desk.connect(false);
        desk.welcome(desk.config.hash());
        desk.config(0, &genesis(&desk.config.clone())).expect("the pinned config");
        desk.input(Input::Down).expect("after Close");
        desk.connect(true);
        desk.welcome(desk.config.hash());
        desk.news.clear();
        desk
    }

    fn input(&mut self, input: Input) -> Result<(), ClientError> {
        let done = handle_checked(&mut self.client, input, self.now, &mut self.rng);
        self.drain();
        done
    }

    fn drain(&mut self) {
        while let Some(output) = self.client.poll() {
            match output {
                Output::Want(pairs) => {
                    for _ in 0..pairs {
                        let pair = EphemeralKey::random::<PortableBackend>(&mut self.rng);
                        self.input(Input::Give(pair)).expect("it was asked for");
                    }
                }
                Output::Job(mut job) => {
                    let done = job.run::<PortableBackend>(portable());
                    self.input(Input::Done(job, done)).expect("a round waits for it");
                }
                Output::Store { seq, first, record } => {
                    self.rows.retain(|row, _| *row >= first);
                    self.rows.insert(seq, record.to_vec());
                    self.input(Input::Stored(seq)).expect("a row");
                }
                other => self.news.push(other),
            }
        }
    }

    fn until(&mut self, end: Time) {
        while let Some(due) = self.client.deadline().filter(|due| *due <= end) {
            self.now = due.max(self.now);
            self.client.wake(self.now, &mut self.rng);
            self.drain();
        }
        self.now = end;
    }

    /// Waits for the next dial; how long that took, milliseconds.
    fn dialled(&mut self) -> u64 {
        let begin = self.now;
        self.next_dial();
        self.now.since_ms(begin)
    }

    /// Waits for the next dial and returns its search.
    fn next_dial(&mut self) -> Option<u32> {
        for _ in 0..100 {
            let dial = self.news.iter().find_map(|news| match news {
                Output::Dial { at, search, .. } => Some((*at, *search)),
                _ => None,
            });
            if let Some((at, search)) = dial {
                self.news.clear();
                self.until(at.max(self.now));
                return search;
            }
            let next = self.client.deadline().expect("it tries again");
            self.until(next);
        }
        panic!("it never dials");
    }

    fn connect(&mut self, trusted: bool) {
        self.dialled();
        self.input(Input::Up { trusted }).expect("it dialled");
    }

    fn welcome(&mut self, head: [u8; 32]) {
        let welcome = Frame::Welcome { head, now: self.now };
        self.frame(welcome).expect("it said hello");
    }

    fn config(&mut self, left: u16, config: &SignedConfig) -> Result<(), ClientError> {
        self.frame(Frame::Config { left, config: config.encode() })
    }

    fn round(&mut self, id: RoundId, body: FrameBody) -> Result<(), ClientError> {
        self.frame(Frame::Round(id, body))
    }

    fn frame(&mut self, frame: Frame) -> Result<(), ClientError> {
        self.input(Input::Frame { frame, age_ms: 0 })
    }

    fn settings(&self, id: RoundId) -> Settings {
        let (policy, of) = self.config.find_policy(id.service).expect("a service");
        let key = |n: u8| {
            StaticKey::from_scalar::<PortableBackend>(Secret::init_with(|s| s.fill(n)))
                .public_key()
                .0
        };
        Settings {
            config: self.config.hash(),
            id,
            collect_ms: of.collect_ms,
            slots: of.slots,
            buckets: of.buckets,
            policy,
            keys: [1, 2, 3].map(key).to_vec(),
        }
    }

    /// Announces a round that opens in a second, with settings that somebody changed before they were
    /// signed.
    fn announce(&mut self, id: RoundId, change: impl FnOnce(&mut SignedSettings)) {
        let settings = self.settings(id);
        let sign = |settings: &Settings| (50..53).map(|n| settings.sign(&signer(n))).collect();
        let closes_in_ms = settings.collect_ms + 1_000;
        let mut announced = SignedSettings { signatures: sign(&settings), settings, closes_in_ms };
        change(&mut announced);
        self.round(id, FrameBody::Settings(announced)).expect("a refusal is told, not returned");
    }

    /// A whole conversation round whose reply is noise.
    fn talk(&mut self, round: u64, users: u32) {
        let id = RoundId { service: Service::Conversation, round };
        self.until(OPEN.plus_ms(5_000 * (round - 100)).minus_ms(1_000));
        self.announce(id, |_| {});
        self.until(OPEN.plus_ms(5_000 * (round - 100) + 4_000));
        let replies = vec![0; reply_bytes(3)];
        self.round(id, FrameBody::Return { users, replies }).expect("it submitted");
    }

    /// The frames that the line got.
    fn frames(&self) -> Vec<&ScheduledFrame> {
        let frames = self.news.iter().filter_map(|news| match news {
            Output::Frame(frame) => Some(frame),
            _ => None,
        });
        frames.collect()
    }

    fn levels(&mut self) -> Vec<u8> {
        let news = std::mem::take(&mut self.news).into_iter();
        news.filter_map(|news| match news {
            Output::Level(level) => Some(level),
            _ => None,
        })
        .collect()
    }
}

#[test]
fn mix_2_configs_are_taken_one_by_one_from_the_pin_on() {
    let first = config(3);
    let mut desk = Desk::new(config(3), NoiseFloor::None);
    let second = successor(&first, |_| {});
    let third = successor(second.config(), |_| {});
    desk.connect(false);
    assert_eq!(desk.config(0, &genesis(&first)), Err(ClientError::Unexpected), "not asked for");
    desk.welcome(third.config().hash());
    let asked = desk.news.iter().filter_map(|news| match news {
        Output::Frame(ScheduledFrame { frame: Frame::FetchConfig { from }, .. }) => Some(*from),
        _ => None,
    });
    assert_eq!(asked.collect::<Vec<_>>(), [[0; 32]], "from genesis on");
    let refused = |error| Err(ClientError::Config(error));
    let mut other = first.clone();
    other.users_max += 1;
    assert_eq!(desk.config(2, &genesis(&other)), refused(ChainError::NotPinned));
    assert_eq!(desk.config(2, &genesis(&first)), Ok(()));
    assert_eq!(desk.config(1, &third), refused(ChainError::Gap));
    let mut unsigned = SignedConfig::new(second.config().clone());
    assert_eq!(desk.config(1, &unsigned), refused(ChainError::Unsigned { valid: 0, needed: 1 }));
    unsigned.add_signature(SignatureSet::Predecessor, 0, &signer(2));
    assert!(desk.config(1, &unsigned).is_err(), "no guardian of the predecessor");
    assert_eq!((desk.config(1, &second), desk.config(0, &third)), (Ok(()), Ok(())));
    let news = |wanted: fn(&Output) -> bool| desk.news.iter().filter(|news| wanted(news)).count();
    assert_eq!(news(|news| matches!(news, Output::Config)), 3);
    assert_eq!(news(|news| matches!(news, Output::Close)), 1, "nobody checked this connection");
    assert_eq!(desk.client.chain().map(|chain| chain.head_config().seq), Some(2));
}

#[test]
fn mix_76_round_numbers_only_grow() {
    let first = config(3);
    let mut desk = Desk::joined(first.clone(), NoiseFloor::None);
    desk.until(desk.now.plus_ms(61_000));
    desk.input(Input::Down).expect("it was up");
    desk.connect(true);
    let without = successor(&first, |config| {
        config.services.remove(1);
    });
    desk.welcome(without.config().hash());
    let refused = Err(ClientError::Config(ChainError::Rounds));
    assert_eq!(desk.config(1, &without), refused, "calls could come back from round 1 on");
    let lower = successor(&first, |config| config.services[2].base_round = 100);
    assert_eq!(desk.config(1, &lower), refused);
    assert_eq!(desk.config(1, &successor(&first, |_| {})), Ok(()));
}

#[test]
fn mix_3_what_was_seen_is_known_after_a_start() {
    let mut desk = Desk::joined(config(3), NoiseFloor::None);
    let ours = successor(&config(3), |_| {});
    let theirs = successor(&config(3), |c| c.users_max = 7);
    desk.until(desk.now.plus_ms(61_000));
    desk.input(Input::Down).expect("it was up");
    desk.connect(true);
    desk.welcome(ours.config().hash());
    assert_eq!(desk.config(0, &ours), Ok(()));
    let rows = desk.rows.clone();
    let rows = rows.iter().map(|(seq, row)| (*seq, row.as_slice()));
    let setup = setup(desk.config.hash(), desk.floor);
    desk.client = Client::restore(setup, rows, desk.now, &mut desk.rng).expect("our own rows");
    desk.connect(true);
    desk.welcome(theirs.config().hash());
    assert_eq!(desk.config(0, &theirs), Err(ClientError::Config(ChainError::Rollback)));
    assert_eq!(desk.client.chain().map(Chain::head_hash), Some(ours.config().hash()));
}

#[test]
fn mix_23_what_was_sealed_before_a_start_is_not_sealed_again() {
    let mut desk = Desk::joined(config(3), NoiseFloor::None);
    let submits = |desk: &Desk| {
        let is_one =
            |frame: &&ScheduledFrame| matches!(frame.frame, Frame::Round(_, FrameBody::Submit(_)));
        desk.frames().into_iter().filter(is_one).count()
    };
    let id = RoundId { service: Service::Conversation, round: 100 };
    desk.until(OPEN.minus_ms(1_000));
    desk.announce(id, |_| {});
    desk.until(OPEN.plus_ms(4_000));
    assert_eq!(submits(&desk), 1);
    let rows = desk.rows.clone();
    let rows = rows.iter().map(|(seq, row)| (*seq, row.as_slice()));
    let setup = setup(desk.config.hash(), desk.floor);
    desk.client = Client::restore(setup, rows, desk.now, &mut desk.rng).expect("our own rows");
    desk.connect(true);
    desk.welcome(desk.config.hash());
    desk.news.clear();
    // An entry that lies about the time, so that the round is not open yet.
    desk.announce(id, |_| {});
    assert!(matches!(desk.news[..], [Output::Unfit(_, SettingsError::Old)]));
    desk.announce(RoundId { round: 101, ..id }, |_| {});
    desk.until(desk.now.plus_ms(6_000));
    assert_eq!(submits(&desk), 1, "the next one is");
}

#[test]
fn mix_5_6_34_settings_that_do_not_fit_are_told_and_not_used() {
    let mut desk = Desk::joined(config(3), NoiseFloor::None);
    let id = RoundId { service: Service::Conversation, round: 100 };
    let unfit = |desk: &mut Desk, id, change: Change| {
        desk.news.clear();
        desk.announce(id, change);
        desk.news.iter().find_map(|news| match news {
            Output::Unfit(_, error) => Some(*error),
            _ => None,
        })
    };
    let cases: [(Change, SettingsError); 5] = [
        (|a| a.signatures[1][3] ^= 1, SettingsError::Unsigned),
        (|a| a.settings.slots = 2, SettingsError::Differ),
        (|a| a.closes_in_ms = 3_999, SettingsError::Late),
        (|a| a.closes_in_ms = u32::MAX, SettingsError::Clock),
        (
            |a| {
                a.settings.keys[1] = a.settings.keys[0];
                a.signatures = (50..53).map(|n| a.settings.sign(&signer(n))).collect();
            },
            SettingsError::BadKey,
        ),
    ];
    for (change, error) in cases {
        assert_eq!(unfit(&mut desk, id, change), Some(error));
    }
    let far = RoundId { round: 200, ..id };
    assert_eq!(unfit(&mut desk, far, |_| {}), Some(SettingsError::Clock));
    assert_eq!(desk.client.rounds().count(), 0);
    assert_eq!(unfit(&mut desk, id, |_| {}), None);
    assert_eq!(unfit(&mut desk, id, |_| {}), Some(SettingsError::Old), "it takes part already");
    desk.until(OPEN.plus_ms(4_000));
    let replies = vec![0; 303];
    let wrong = desk.round(id, FrameBody::Return { users: 1, replies });
    assert_eq!(wrong, Err(ClientError::Malformed));
    let replies = vec![0; 304];
    assert_eq!(desk.round(id, FrameBody::Return { users: 1, replies }), Ok(()));
    assert_eq!(unfit(&mut desk, id, |_| {}), Some(SettingsError::Old), "it took part");
}
