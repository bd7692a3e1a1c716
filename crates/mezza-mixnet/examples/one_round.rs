//! One conversation round through three mixes in one thread, with the work of each kind of job.
//!
//! `cargo run --release -p mezza-mixnet --example one_round -- 10000 1000` is a round of 10,000
//! users at mu = 1,000. Links are not included: frames are handed over in memory.
#![allow(
    clippy::expect_used,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a program that measures"
)]

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use mezza_core::{Machine as _, PublicKey, Secret, Time};
use mezza_lanes::{BASE, Kernel, fastest_kernel};
use mezza_mixnet::config::{
    Chain, Config, MixServer, Mode, NetworkId, Server, ServicePolicy, SignatureSet, SignedConfig,
    Traps,
};
use mezza_mixnet::job::Job;
use mezza_mixnet::mix::{Input, Mix, MixOptions, Neighbour, NoiseFloor, Output};
use mezza_mixnet::onion::{Layer, Multiply, Tables, wrap_onions};
use mezza_mixnet::sign::Signer;
use mezza_mixnet::wire::{Frame, FrameBody, Items, Settings};
use mezza_mixnet::{RoundId, Service};
use rand_chacha::ChaCha20Rng;
use rand_core::{Rng as _, SeedableRng as _};

const OPEN: Time = Time::from_ms(1_000_000_000);
const ID: RoundId = RoundId { service: Service::Conversation, round: 0 };
const MIXES: usize = 3;

/// Three mixes, the time that their jobs took, and the replies that returned to the entry server.
struct Network {
    mixes: Vec<Mix>,
    rng: ChaCha20Rng,
    took: BTreeMap<&'static str, Duration>,
    out: Vec<FrameBody>,
}

fn signer(n: u8) -> Signer {
    Signer::from_seed(&Secret::init_with(|seed| seed.fill(n)))
}

fn config(users: u32, mu: u32) -> Config {
    let server = |n: u8| Server { key: signer(n).public_key(), address: format!("m{n}:7000") };
    let mix = |i: u8| MixServer { server: server(10 + i), operator: String::new() };
    let policy = ServicePolicy {
        service: Service::Conversation,
        base_round: 0,
        base_time: OPEN,
        interval_ms: 5_000,
        ask_ms: 2_000,
        lead_ms: 5_000,
        collect_ms: 4_000,
        mix_limit_ms: 20_000,
        slots: 1,
        buckets: 1,
        mode: Mode::Gauss,
        mu,
        scale: 0,
        epsilon_micro: 0,
        delta_pico: 0,
        rounds: 0,
        traps: Traps::NONE,
    };
    Config {
        network: NetworkId([1; 16]),
        seq: 0,
        prev: [0; 32],
        valid_from: OPEN.minus_ms(Time::DAY_MS),
        valid_until: OPEN.plus_ms(Time::DAY_MS),
        threshold: 1,
        guardians: vec![signer(1).public_key()],
        coordinator: server(2),
        bucket: server(3),
        mixes: (0..MIXES as u8).map(mix).collect(),
        users_max: users,
        services: vec![policy],
    }
}

fn build_mix(config: &Config, i: u8) -> Mix {
    let mut signed = SignedConfig::new(config.clone());
    signed.add_signature(SignatureSet::Own, 0, &signer(1));
    let chain = Chain::begin(&config.hash(), &signed).expect("a genesis");
    let floor = NoiseFloor::None;
    Mix::new(MixOptions {
        signer: signer(10 + i),
        chain,
        signed: BTreeMap::new(),
        floor,
        job_items: 0,
    })
}

impl Network {
    fn feed_input(&mut self, at: usize, input: Input) {
        let mut queue = VecDeque::from([(at, input)]);
        while let Some((at, input)) = queue.pop_front() {
            let now = OPEN.minus_ms(6_000);
            self.mixes[at].handle(input, now, &mut self.rng).expect("an honest network");
            while let Some(output) = self.mixes[at].poll() {
                match output {
                    Output::Store(id) => queue.push_back((at, Input::Stored(id))),
                    Output::Job(job) => queue.push_back((at, self.run_job(job))),
                    Output::Frame(Neighbour::Next, frame) => {
                        queue.push_back((at + 1, Input::Frame(Neighbour::Previous, frame)));
                    }
                    Output::Frame(Neighbour::Previous, frame) if at > 0 => {
                        queue.push_back((at - 1, Input::Frame(Neighbour::Next, frame)));
                    }
                    Output::Frame(_, Frame::Round(_, body)) => self.out.push(body),
                    Output::Frame(..) => {}
                }
            }
        }
    }

    fn run_job(&mut self, job: Job) -> Input {
        let name = match &job {
            Job::Table(_) => "table",
            Job::Noise(_) => "noise",
            Job::Unwrap(_) => "unwrap",
            Job::Shuffle(_) | Job::Gather(_) => "shuffle",
            Job::Match(_) => "match",
            Job::Publish(_) => "publish",
            Job::Seal(_) => "seal",
            Job::Trap(_) => "trap",
        };
        let begun = Instant::now();
        let done = job.run(fastest_kernel());
        *self.took.entry(name).or_default() += begun.elapsed();
        Input::Done(job, done)
    }

    fn send_frame(&mut self, at: usize, from: Neighbour, body: FrameBody) {
        self.feed_input(at, Input::Frame(from, Frame::Round(ID, body)));
    }

    /// Announces a round: creates keys and signatures, and the noise that is made ahead of time.
    fn announce_round(&mut self, config: &Config) -> Settings {
        (0..MIXES).for_each(|at| self.send_frame(at, Neighbour::Coordinator, FrameBody::NewRound));
        let keys = self.out.drain(..).filter_map(|body| match body {
            FrameBody::RoundKey(key) => Some(key),
            _ => None,
        });
        let settings = Settings {
            config: config.hash(),
            id: ID,
            collect_ms: 4_000,
            slots: 1,
            buckets: 1,
            policy: 0,
            keys: keys.collect(),
        };
        (0..MIXES).for_each(|at| {
            self.send_frame(at, Neighbour::Coordinator, FrameBody::Sign(settings.clone()));
        });
        settings
    }
}

/// Returns the onions of users who meet in pairs.
fn make_onions(
    kernel: &dyn Kernel,
    settings: &Settings,
    users: usize,
    rng: &mut ChaCha20Rng,
) -> Vec<u8> {
    let keys = settings.keys.iter().zip(0..);
    let layers = keys.map(|(key, position)| Layer { id: ID, position, key: PublicKey(*key) });
    let layers = layers.collect::<Vec<_>>();
    let tables = Tables::new(kernel, &layers).expect("good keys");
    let mut inner = vec![0; users * 272];
    rng.fill_bytes(&mut inner);
    for pair in inner.chunks_exact_mut(2 * 272) {
        let (first, second) = pair.split_at_mut(272);
        second[..16].copy_from_slice(&first[..16]);
    }
    let chunks = inner.chunks(512 * 272);
    let wrapped = chunks
        .map(|part| wrap_onions(kernel, Multiply::Tables(&tables), &layers, part, 272, rng).onions);
    wrapped.collect::<Vec<_>>().concat()
}

/// Returns the number of X25519 multiplications (ladders) per second of this kernel, which limits
/// the speed of a mix.
fn ladders_per_second() -> f64 {
    let points = vec![BASE; 4_096];
    let mut out = vec![[0; 32]; 4_096];
    let secret = mezza_lanes::Scalar::copy_from(&[7; 32]);
    let begun = Instant::now();
    fastest_kernel().x25519_shared(&secret, &points, &mut out);
    4_096.0 / begun.elapsed().as_secs_f64()
}

fn main() {
    let numbers = std::env::args().skip(1).map(|n| n.parse::<u32>().expect("a number"));
    let numbers = numbers.collect::<Vec<_>>();
    let users = *numbers.first().unwrap_or(&10_000);
    let mu = *numbers.get(1).unwrap_or(&1_000);
    let config = config(users, mu);
    let mixes = (0..MIXES as u8).map(|i| build_mix(&config, i)).collect();
    let rng = ChaCha20Rng::seed_from_u64(1);
    let mut net = Network { mixes, rng, took: BTreeMap::new(), out: Vec::new() };
    let settings = net.announce_round(&config);
    let batch = make_onions(fastest_kernel(), &settings, users as usize, &mut net.rng.clone());
    let begun = Instant::now();
    net.send_frame(0, Neighbour::Previous, FrameBody::BatchStart { count: users, size: 416 });
    for items in Items::of_batch(&batch, 416) {
        net.send_frame(0, Neighbour::Previous, FrameBody::Onions(items));
    }
    net.send_frame(0, Neighbour::Previous, FrameBody::BatchEnd { count: users });
    let took = begun.elapsed();
    let replies = net.out.iter().map(|body| match body {
        FrameBody::Replies(items) => u32::from(items.count),
        _ => 0,
    });
    assert_eq!(replies.sum::<u32>(), users, "everybody gets a reply");
    let noise = net.took.get("noise").copied().unwrap_or_default();
    let rate = f64::from(users) / (took + noise).as_secs_f64();
    // A round takes 3 N multiplications for its N users, and 6 mu for the noise of two mixes.
    let ladders = ladders_per_second();
    let limit = f64::from(users) * ladders / (3.0 * f64::from(users) + 6.0 * f64::from(mu));
    println!("kernel {}, {users} users, mu {mu}, one thread", fastest_kernel().name());
    println!("round {took:.2?}, noise ahead of it {noise:.2?}: {rate:.0} messages/s with both");
    println!(
        "limit {limit:.0} messages/s at {ladders:.0} ladders/s: {:.0} %",
        100.0 * rate / limit
    );
    for (name, took) in &net.took {
        println!("  {name:8} {took:.2?}");
    }
}
