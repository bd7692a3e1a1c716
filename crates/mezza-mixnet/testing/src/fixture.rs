//! A network of three mixes in one test: configs, links, jobs run inline.

use std::collections::{BTreeMap, VecDeque};

use mezza_core::{Backend, CryptoRng, Machine as _, PortableBackend, PublicKey, Secret, Time};
use mezza_lanes::{Kernel, portable};
use mezza_mixnet::config::{
    Chain, Config, MixServer, Mode, NetworkId, Server, ServicePolicy, SignatureSet, SignedConfig,
    Traps,
};
use mezza_mixnet::job::{Job, JobOutput};
use mezza_mixnet::keys::SecretVec;
use mezza_mixnet::mix::{Input, Mix, MixError, MixOptions, Neighbour, NoiseFloor, Output};
use mezza_mixnet::onion::{Layer, Multiply, wrap_onions};
use mezza_mixnet::service::reply_bytes;
use mezza_mixnet::sign::Signer;
use mezza_mixnet::wire::frame::LENGTH_BYTES;
use mezza_mixnet::wire::{Frame, FrameBody, Items, Settings};
use mezza_mixnet::{RoundId, Service, onion};
use mezza_sim::{SimRng, WriteCache, handle_checked};
use rand_chacha::ChaCha20Rng;
use rand_core::{Rng as _, SeedableRng as _};

/// The traps of each mix in a conversation round.
pub const TRAPS: Traps = Traps { singles: 8, pairs: 4 };
/// The time when conversation round 100 opens.
pub const OPEN: Time = Time::from_ms(1_000_000_000);

pub fn signer(n: u8) -> Signer {
    Signer::from_seed(&Secret::init_with(|s| s.fill(n)))
}

pub fn policy(service: Service) -> ServicePolicy {
    ServicePolicy {
        service,
        base_round: 100,
        base_time: OPEN,
        interval_ms: 5_000,
        ask_ms: 2_000,
        lead_ms: 5_000,
        collect_ms: 4_000,
        mix_limit_ms: 20_000,
        slots: 1,
        buckets: if service.has_replies() { 1 } else { 2 },
        mode: Mode::Gauss,
        mu: 20,
        scale: 4,
        epsilon_micro: 693_147,
        delta_pico: 100_000_000,
        rounds: 1_000,
        traps: if service.has_replies() { TRAPS } else { Traps::NONE },
    }
}

pub fn config(mixes: u8) -> Config {
    let server =
        |key: u8| Server { key: signer(key).public_key(), address: format!("m{key}:7000") };
    Config {
        network: NetworkId([0xaa; 16]),
        seq: 0,
        prev: [0; 32],
        valid_from: OPEN.minus_ms(Time::DAY_MS),
        valid_until: OPEN.plus_ms(Time::DAY_MS),
        threshold: 1,
        guardians: vec![signer(1).public_key()],
        coordinator: server(40),
        bucket: server(41),
        mixes: (0..mixes)
            .map(|i| MixServer { server: server(50 + i), operator: "Ada".into() })
            .collect(),
        users_max: 1_000,
        services: Service::ALL.map(policy).to_vec(),
    }
}

pub fn chain(config: &Config) -> Chain {
    let mut signed = SignedConfig::new(config.clone());
    signed.add_signature(SignatureSet::Own, 0, &signer(1));
    Chain::begin(&config.hash(), &signed).expect("a genesis")
}

/// The highest signed round of each service, as stored on disk.
type Signed = BTreeMap<Service, u64>;

fn setup(config: &Config, position: u8, floor: NoiseFloor, signed: Signed) -> MixOptions {
    MixOptions { signer: signer(50 + position), chain: chain(config), signed, floor, job_items: 7 }
}

pub fn mix_with(config: &Config, position: u8, floor: NoiseFloor) -> Mix {
    Mix::new(setup(config, position, floor, Signed::new()))
}

/// The disk of a mix, including writes that are not synced.
#[derive(Default)]
struct MixDisk {
    signed: Signed,
    cache: WriteCache<RoundId>,
}

impl MixDisk {
    fn sync(&mut self) {
        while let Some(id) = self.cache.sync_next() {
            self.signed.insert(id.service, id.round);
        }
    }

    fn lose_power(&mut self, dice: &mut SimRng) {
        for id in self.cache.lose_power(dice) {
            self.signed.insert(id.service, id.round);
        }
    }
}

/// An attacker on the path: changes a frame between two parties, or drops it (`None`).
pub type Meddler = Box<dyn FnMut(usize, Neighbour, Frame) -> Option<Frame>>;

/// A callback that gets each job that ran, and the position of its mix.
pub type Watch = Box<dyn FnMut(usize, &Job, &JobOutput)>;

/// A callback that may change a job before it runs, or return another result: it imitates a faulty
/// mix.
pub type Breakage = Box<dyn FnMut(usize, &mut Job) -> Option<JobOutput>>;

/// A chain of mixes, and all frames that they sent to other parties.
pub struct Net<B: Backend = PortableBackend> {
    pub config: Config,
    pub mixes: Vec<Mix<B>>,
    pub kernel: &'static dyn Kernel,
    pub now: Time,
    pub rng: ChaCha20Rng,
    /// Frames for coordinator, store and entry server: sender, receiver and frame.
    pub out: Vec<(usize, Neighbour, Frame)>,
    pub refused: Vec<(usize, MixError)>,
    pub meddler: Option<Meddler>,
    /// True if each refused input is checked for changes, which takes most of the time.
    pub checks: bool,
    /// True if jobs are returned in another order than they were started.
    pub shuffled: bool,
    pub watch: Option<Watch>,
    pub breakage: Option<Breakage>,
    /// Selects jobs that never end.
    pub hung: fn(&Job) -> bool,
    /// On average one in this number of outputs is the last one before the mix dies; 0: no mix
    /// dies.
    pub luck: u32,
    disks: Vec<MixDisk>,
    power: SimRng,
    /// Mixes that died and were restarted, so that their peers can be notified.
    pub died: Vec<usize>,
}

impl Net {
    pub fn new(config: Config, seed: u64) -> Self {
        Self::with_kernel(config, seed, portable())
    }
}

impl<B: Backend> Net<B> {
    /// Creates a network whose mixes compute with this kernel.
    pub fn with_kernel(config: Config, seed: u64, kernel: &'static dyn Kernel) -> Self {
        let count = config.mixes.len() as u8;
        let disks = (0..count).map(|_| MixDisk::default()).collect();
        let new = |i: u8| Mix::new(setup(&config, i, NoiseFloor::None, Signed::new()));
        let mixes = (0..count).map(new).collect();
        Self {
            config,
            mixes,
            luck: 0,
            disks,
            power: SimRng::new(seed, 1),
            died: Vec::new(),
            kernel,
            now: OPEN.minus_ms(6_000),
            rng: ChaCha20Rng::seed_from_u64(seed),
            out: Vec::new(),
            refused: Vec::new(),
            meddler: None,
            checks: true,
            shuffled: false,
            watch: None,
            breakage: None,
            hung: |_| false,
        }
    }

    /// Handles one input of one mix, and all effects that follow.
    pub fn input(&mut self, at: usize, input: Input) {
        self.feed_mix(at, input);
        self.settle();
    }

    fn feed_mix(&mut self, at: usize, input: Input) {
        let mix = &mut self.mixes[at];
        let now = self.now;
        let outcome = if self.checks {
            handle_checked(mix, input, now, &mut self.rng)
        } else {
            mix.handle(input, now, &mut self.rng)
        };
        if let Err(error) = outcome {
            self.refused.push((at, error));
        }
    }

    pub fn send_frame(&mut self, at: usize, from: Neighbour, id: RoundId, body: FrameBody) {
        self.input(at, Input::Frame(from, Frame::Round(id, body)));
    }

    pub fn settle(&mut self) {
        let mut queue: VecDeque<(usize, Input)> = VecDeque::new();
        let mut jobs: Vec<(usize, Job)> = Vec::new();
        loop {
            for at in 0..self.mixes.len() {
                while let Some(output) = self.mixes[at].poll() {
                    if self.luck > 0 && self.rng.next_u32().is_multiple_of(self.luck) {
                        jobs.retain(|(of, _)| *of != at);
                        queue.retain(|(to, _)| *to != at);
                        queue.extend(self.restart_mix(at));
                        continue;
                    }
                    match output {
                        Output::Frame(to, frame) => queue.extend(self.carry_frame(at, to, frame)),
                        Output::Store(id) => {
                            self.disks[at].cache.push_write(id);
                            queue.push_back((at, Input::Stored(id)));
                        }
                        Output::Job(job) if (self.hung)(&job) => {}
                        Output::Job(job) => jobs.push((at, job)),
                    }
                }
            }
            let next = queue.pop_front().or_else(|| {
                let last = jobs.len().checked_sub(1)?;
                let (at, mut job) = jobs.remove(if self.shuffled { last } else { 0 });
                let own = self.breakage.as_mut().and_then(|breakage| breakage(at, &mut job));
                let done = own.unwrap_or_else(|| job.run(self.kernel));
                if let Some(watch) = &mut self.watch {
                    watch(at, &job, &done);
                }
                Some((at, Input::Done(job, done)))
            });
            let Some((at, input)) = next else { return };
            if let Input::Stored(_) = input {
                self.disks[at].sync();
            }
            self.feed_mix(at, input);
        }
    }

    /// Kills the process of a mix and restarts it from its disk. The neighbours are notified.
    fn restart_mix(&mut self, at: usize) -> Vec<(usize, Input)> {
        self.died.push(at);
        self.disks[at].lose_power(&mut self.power);
        let signed = self.disks[at].signed.clone();
        self.mixes[at] = Mix::new(setup(&self.config, at as u8, NoiseFloor::None, signed));
        let before = at.checked_sub(1).map(|before| (before, Input::LinkLost(Neighbour::Next)));
        let behind = (at + 1 < self.mixes.len()).then_some(at + 1);
        let behind = behind.map(|behind| (behind, Input::LinkLost(Neighbour::Previous)));
        before.into_iter().chain(behind).collect()
    }

    fn carry_frame(&mut self, at: usize, to: Neighbour, frame: Frame) -> Option<(usize, Input)> {
        let frame = match &mut self.meddler {
            Some(meddler) => meddler(at, to, frame)?,
            None => frame,
        };
        let bytes = frame.encode().expect("short enough");
        let frame = Frame::decode(&bytes[LENGTH_BYTES..]).expect("our own frame");
        match to {
            Neighbour::Next => Some((at + 1, Input::Frame(Neighbour::Previous, frame))),
            Neighbour::Previous if at > 0 => Some((at - 1, Input::Frame(Neighbour::Next, frame))),
            _ => {
                self.out.push((at, to, frame));
                None
            }
        }
    }

    /// Requests keys and signatures for a round. Returns the settings once all mixes signed.
    pub fn announce_round(&mut self, id: RoundId) -> Settings {
        (0..self.mixes.len())
            .for_each(|at| self.send_frame(at, Neighbour::Coordinator, id, FrameBody::NewRound));
        let keys = self.take_frames(|body| match body {
            FrameBody::RoundKey(key) => Some(key),
            _ => None,
        });
        let settings = self.settings(id, keys);
        for at in 0..self.mixes.len() {
            self.send_frame(at, Neighbour::Coordinator, id, FrameBody::Sign(settings.clone()));
        }
        let signatures = self.take_frames(|body| match body {
            FrameBody::Signature(signature) => Some(signature),
            _ => None,
        });
        assert_eq!(signatures.len(), self.mixes.len(), "{:?}", self.refused);
        settings
    }

    pub fn settings(&self, id: RoundId, keys: Vec<[u8; 32]>) -> Settings {
        let (index, policy) = self.config.find_policy(id.service).expect("a service");
        Settings {
            config: self.config.hash(),
            id,
            collect_ms: policy.collect_ms,
            slots: policy.slots,
            buckets: policy.buckets,
            policy: index,
            keys,
        }
    }

    /// Removes and returns the outgoing frames of one kind, in order.
    pub fn take_frames<T>(&mut self, mut of: impl FnMut(FrameBody) -> Option<T>) -> Vec<T> {
        let mut found = Vec::new();
        self.out.retain(|(_, _, frame)| {
            let Frame::Round(_, body) = frame else { return true };
            let hit = of(body.clone());
            let keep = hit.is_none();
            found.extend(hit);
            keep
        });
        found
    }

    /// Sends a batch of onions to the first mix.
    pub fn send_batch(&mut self, id: RoundId, onions: &[u8]) {
        let size = id.service.onion_bytes(self.mixes.len());
        let count = (onions.len() / size) as u32;
        let previous = Neighbour::Previous;
        self.send_frame(0, previous, id, FrameBody::BatchStart { count, size: size as u16 });
        for items in Items::of_batch(onions, size) {
            self.send_frame(0, previous, id, FrameBody::Onions(items));
        }
        self.send_frame(0, previous, id, FrameBody::BatchEnd { count });
    }

    /// Removes and returns the replies that the first mix delivered.
    pub fn take_replies(&mut self) -> Vec<u8> {
        let items = self.take_frames(|body| match body {
            FrameBody::Replies(items) => Some(items.bytes),
            _ => None,
        });
        items.concat()
    }
}

/// Returns the onions of all clients around these plaintexts, and the reply keys of each client.
pub fn make_onions(
    settings: &Settings,
    inner: &[u8],
    rng: &mut dyn CryptoRng,
) -> (Vec<u8>, Vec<SecretVec>) {
    let id = settings.id;
    let size = settings.id.service.innermost_bytes();
    let keys = settings.keys.iter().zip(0..);
    let layers: Vec<Layer> =
        keys.map(|(key, position)| Layer { id, position, key: PublicKey(*key) }).collect();
    let wrapped = wrap_onions(portable(), Multiply::Ladders, &layers, inner, size, rng);
    let of = |client: usize| {
        let mut own = SecretVec::zeros(layers.len());
        own.iter_mut().zip(&wrapped.reply_keys).for_each(|(key, layer)| *key = layer[client]);
        own
    };
    let back = (0..inner.len() / size).map(of).collect();
    (wrapped.onions, back)
}

/// Returns the content of each client's reply.
pub fn open_replies(replies: &[u8], back: &[SecretVec]) -> Vec<Option<Vec<u8>>> {
    let size = reply_bytes(back.first().map_or(1, |keys| keys.len()));
    assert_eq!(replies.len(), size * back.len(), "a reply for each onion");
    let replies = replies.chunks_exact(size).zip(back);
    replies.map(|(reply, keys)| onion::open_reply(portable(), keys, reply.to_vec())).collect()
}

/// Returns accesses to dead drops: each drop id repeated to 16 bytes, and a random cell.
pub fn make_accesses(drops: &[u8], rng: &mut ChaCha20Rng) -> Vec<u8> {
    let mut inner = vec![0; drops.len() * 272];
    for (access, drop) in inner.chunks_exact_mut(272).zip(drops) {
        rng.fill_bytes(access);
        access[..16].fill(*drop);
    }
    inner
}
