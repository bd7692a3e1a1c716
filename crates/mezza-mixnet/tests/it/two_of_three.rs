//! Any two of three: an adversary that runs all mixes but one, entry and coordinator, and asks what
//! people do. Its view is every job of its mixes; the honest one shows what goes in and what comes
//! out. What it finds must stay below the bound, and mixes that were built wrongly must be found out.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use mezza_core::{PublicKey, Secret, Time};
use mezza_lanes::portable;
use mezza_mixnet::batch::Permutation;
use mezza_mixnet::config::Config;
use mezza_mixnet::job::{Job, JobOutput, Noise, NoiseKind, Shuffled};
use mezza_mixnet::keys::SecretVec;
use mezza_mixnet::onion::{Layer, Multiply, wrap_onions};
use mezza_mixnet::privacy::normal_tail;
use mezza_mixnet::service::{DROP_BYTES, Service};
use mezza_mixnet::wire::FrameBody;
use mezza_mixnet::{RoundId, onion};
use rand_chacha::ChaCha20Rng;
use rand_core::{Rng as _, SeedableRng as _};

use crate::fixture::{Breakage, Net, OPEN, TRAPS, config, make_accesses, make_onions};
use crate::toy::{TOY, Toy};

mod alarms;
mod calls;
mod replies;

/// Mean and scale of the noise of one mix.
#[derive(Clone, Copy)]
struct NoiseLaw {
    mu: u32,
    scale: u32,
}

/// Numbers of dead drops with one access, and with two.
#[derive(Clone, Copy, Default)]
struct DropCounts {
    singles: i32,
    pairs: i32,
}

/// The noise of each mix.
const NOISE: NoiseLaw = NoiseLaw { mu: 20, scale: 4 };
/// Clients of each round: four people, the others are the adversary's.
const CLIENTS: usize = 8;
/// Rounds from which an advantage is estimated.
const ROUNDS: u32 = 4_000;

/// The view of the adversary in one round.
#[derive(Default)]
struct View {
    /// Noise of its own mixes.
    own: DropCounts,
    /// The kept part of each mix's batch, and the order in which it went on.
    shuffles: BTreeMap<usize, (Vec<u32>, Vec<u32>)>,
    /// The drops, in the order of the last mix.
    drops: BTreeMap<u32, Vec<[u8; DROP_BYTES]>>,
    /// True if the honest mix raised an alarm.
    alarm: bool,
}

impl View {
    /// Looks at a job. Of the honest mix only what comes out of it is seen, at the next one.
    fn see(&mut self, honest: usize, at: usize, job: &Job, done: &JobOutput) {
        if at == honest {
            return;
        }
        match (job, done) {
            (Job::Noise(noise), JobOutput::Noise(made)) if !made.onions.is_empty() => {
                match noise.kind {
                    NoiseKind::Singles(n) => self.own.singles += n.cast_signed(),
                    NoiseKind::Pairs(n) => self.own.pairs += n.cast_signed(),
                    NoiseKind::Bucket(..) => {}
                }
            }
            (_, JobOutput::Shuffle(Shuffled { kept, order, .. })) => {
                self.shuffles.insert(at, (kept.to_vec(), order.sources().to_vec()));
            }
            (Job::Unwrap(unwrap), JobOutput::Unwrap(opened)) if at == 2 => {
                let drops =
                    opened.inner_onions().map(|a| a[..DROP_BYTES].try_into().expect("a drop"));
                self.drops.insert(unwrap.ticket.index, drops.collect());
            }
            _ => {}
        }
    }

    /// Singles and pairs without the noise that is the adversary's own.
    fn counts(&self) -> DropCounts {
        let mut drops = BTreeMap::<_, u32>::new();
        for drop in self.drops.values().flatten() {
            *drops.entry(drop).or_default() += 1;
        }
        let of = |accesses: u32| drops.values().map(|n| i32::from(*n == accesses)).sum::<i32>();
        DropCounts { singles: of(1) - self.own.singles, pairs: of(2) - self.own.pairs }
    }

    /// Where each message of a mix's batch came to be in the next one.
    fn forward(&self, at: usize) -> BTreeMap<usize, usize> {
        let (kept, sources) = &self.shuffles[&at];
        let places = sources.iter().enumerate();
        let places = places.filter(|(_, source)| (**source as usize) < kept.len());
        places.map(|(to, source)| (kept[*source as usize] as usize, to)).collect()
    }

    /// The drop of each place in which a message leaves the honest mix, and the places in which the
    /// clients' onions came in.
    fn around(&self, honest: usize) -> (Vec<[u8; DROP_BYTES]>, Vec<usize>) {
        let last: Vec<_> = self.drops.values().flatten().copied().collect();
        if honest == 1 {
            let came = self.forward(0);
            return (last, (0..CLIENTS).map(|client| came[&client]).collect());
        }
        let went = self.forward(1);
        let out = (0..went.len()).map(|place| last[went[&place]]).collect();
        (out, (0..CLIENTS).collect())
    }
}

fn quiet() -> Config {
    with(NOISE, 1)
}

/// Conversations alone, with this noise and so many slots.
fn with(noise: NoiseLaw, slots: u8) -> Config {
    let mut config = config(3);
    config.services.truncate(1);
    config.services[0].mu = noise.mu;
    config.services[0].scale = noise.scale;
    config.services[0].slots = slots;
    config.valid_until = OPEN.plus_ms(1_000 * Time::DAY_MS);
    config
}

/// One network, round after round, with one honest mix.
struct Harness {
    net: Net<Toy>,
    view: Rc<RefCell<View>>,
    honest: usize,
    round: u64,
    rng: ChaCha20Rng,
    holder: Option<replies::Holder>,
    /// True if the adversary garbles replies.
    garbles: bool,
}

impl Harness {
    fn new(honest: usize, seed: u64, breakage: Option<Breakage>) -> Self {
        Self::on(quiet(), honest, seed, breakage)
    }

    fn on(config: Config, honest: usize, seed: u64, breakage: Option<Breakage>) -> Self {
        let mut net = Net::<Toy>::with_kernel(config, seed, &TOY);
        let view = Rc::new(RefCell::new(View::default()));
        let eyes = Rc::clone(&view);
        net.watch = Some(Box::new(move |at, job, done| {
            eyes.borrow_mut().see(honest, at, job, done);
        }));
        net.breakage = breakage;
        let rng = ChaCha20Rng::seed_from_u64(seed);
        Self { net, view, honest, round: 100, rng, holder: None, garbles: false }
    }

    /// A round in which the drops with these numbers are visited; drops below 100 are each visited
    /// by two.
    fn run(&mut self, visits: &[u8]) -> View {
        let id = RoundId { service: Service::Conversation, round: self.round };
        self.net.now = OPEN.plus_ms(5_000 * (self.round - 100)).minus_ms(6_000);
        self.round += 1;
        let size = id.service.innermost_bytes();
        let mut inner = vec![0; visits.len() * size];
        self.rng.fill_bytes(&mut inner);
        let mut salt = [0; DROP_BYTES];
        self.rng.fill_bytes(&mut salt);
        for (access, visit) in inner.chunks_exact_mut(size).zip(visits) {
            access[..DROP_BYTES].copy_from_slice(&salt);
            access[0] = *visit;
        }
        let settings = self.net.announce_round(id);
        let keys = settings.keys.iter().zip(0..);
        let layers: Vec<_> =
            keys.map(|(key, position)| Layer { id, position, key: PublicKey(*key) }).collect();
        let wrapped = wrap_onions(&TOY, Multiply::Ladders, &layers, &inner, size, &mut self.rng);
        self.net.now = self.net.now.plus_ms(8_000);
        self.net.send_batch(id, &wrapped.onions);
        if let Some(holder) = self.holder.take() {
            holder.hand_over(self);
            self.holder = Some(holder);
        }
        let replies = self.net.take_replies();
        let back = |layer: &SecretVec| layer[0];
        let mut own = SecretVec::zeros(layers.len());
        own.iter_mut().zip(wrapped.reply_keys.iter().map(back)).for_each(|(to, key)| *to = key);
        let reply = replies[..replies.len() / visits.len()].to_vec();
        let opens = onion::open_reply(&TOY, &own, reply).is_some();
        assert!(opens || self.garbles, "the round was whole");
        let alarms = self.net.take_frames(|body| match body {
            FrameBody::Alarm { position, .. } => Some(usize::from(position)),
            _ => None,
        });
        self.net.out.clear();
        let alarm = alarms.contains(&self.honest);
        View { alarm, ..self.view.take() }
    }
}

/// How much better than a coin the adversary guesses whether the first two clients talk with each
/// other in all their slots or idle, from the counts of one round, of which it expects the mean of
/// `noise` to be noise of the honest mix. `law` is what that mix draws by.
struct Guess {
    honest: usize,
    rounds: u32,
    law: NoiseLaw,
    slots: u8,
    expected: f64,
}

impl Guess {
    fn advantage(&self, breakage: Option<Breakage>) -> f64 {
        let slots = self.slots;
        let mut harness = Harness::on(with(self.law, slots), self.honest, 3, breakage);
        let hits = (0..self.rounds).filter(|round| {
            let talks = round % 2 == 0;
            self.says_talks(harness.run(&visits(slots, talks)).counts()) == talks
        });
        advantage(hits.count(), self.rounds)
    }

    /// Which of the two is likelier, by these numbers of singles and pairs.
    fn says_talks(&self, counts: DropCounts) -> bool {
        let slots = f64::from(self.slots);
        let sigma = f64::from(self.law.scale);
        let singles = f64::from(counts.singles) - self.expected;
        let pairs = f64::from(counts.pairs) - self.expected / 2.0;
        // Of the other six two idle, and two pairs talk, in each slot.
        let under = |own: (f64, f64)| {
            let own = (own.0 + 2.0, own.1 + 2.0);
            let x = (singles - slots * own.0) / sigma;
            let y = (pairs - slots * own.1) / (sigma / 2.0);
            -(x * x + y * y) / 2.0
        };
        under((0.0, 1.0)) > under((2.0, 0.0))
    }
}

/// The drops of a round: those of the two in question, and of six others in each slot.
fn visits(slots: u8, talks: bool) -> Vec<u8> {
    let of_slot = |slot: u8| {
        let idle = [101 + 2 * slot, 102 + 2 * slot];
        let own = if talks { [slot, slot] } else { idle };
        let others = [20 + slot, 20 + slot, 40 + slot, 40 + slot, 150 + 2 * slot, 151 + 2 * slot];
        own.into_iter().chain(others)
    };
    (0..slots).flat_map(of_slot).collect()
}

/// How many singles, and twice how many pairs, a mix adds on average: noise and traps.
fn mean(mu: u32) -> f64 {
    assert_eq!(TRAPS.singles, 2 * TRAPS.pairs);
    f64::from(mu + u32::from(TRAPS.singles))
}

/// How much better than a coin so many hits are.
fn advantage(hits: usize, rounds: u32) -> f64 {
    2.0 * f64::from(u32::try_from(hits).expect("a small count")) / f64::from(rounds) - 1.0
}

/// The advantage that theory gives where an observed value moves by `shift` standard deviations.
fn theory(shift: f64) -> f64 {
    1.0 - 2.0 * normal_tail(shift / 2.0)
}

/// The bound for one conversation: singles move by 2 at sigma, pairs by 1 at sigma / 2.
fn bound() -> f64 {
    theory(8_f64.sqrt() / f64::from(NOISE.scale))
}

/// Three standard deviations of an estimate, and what rounding to whole messages adds.
fn error(rounds: u32) -> f64 {
    3.0 / f64::from(rounds).sqrt() + 0.02
}

/// A mix that leaves out the noise that `of` picks.
fn without(at: usize, of: fn(NoiseKind) -> bool) -> Breakage {
    Box::new(move |mix, job| match job {
        Job::Noise(noise) if mix == at && of(noise.kind) => {
            Some(JobOutput::Noise(Noise::default()))
        }
        _ => None,
    })
}

#[test]
fn slow_counts_tell_as_much_as_the_noise_of_one_honest_mix_lets_them() {
    for honest in [0, 1] {
        let expected = mean(NOISE.mu);
        let whole = Guess { honest, rounds: ROUNDS, law: NOISE, slots: 1, expected };
        let found = whole.advantage(None);
        assert!((found - bound()).abs() < error(ROUNDS), "mix {honest}: {found} of {}", bound());
        let silent = Guess { rounds: 60, expected: 0.0, ..whole };
        let found = silent.advantage(Some(without(honest, |_| true)));
        assert!(found > 0.99, "mix {honest} drops its noise: {found}");
    }
}

#[test]
fn slow_five_slots_want_five_times_the_noise() {
    const FEW: u32 = 2_000;
    let honest = 0;
    let slots = 5;
    let enough = Guess {
        honest,
        rounds: FEW,
        law: NoiseLaw { mu: 100, scale: 20 },
        slots,
        expected: mean(100),
    };
    let found = enough.advantage(None);
    assert!((found - bound()).abs() < error(FEW), "{found} of {}", bound());
    let of_one = Guess { rounds: 400, law: NOISE, expected: mean(NOISE.mu), ..enough };
    let found = of_one.advantage(None);
    assert!(found > 2.0 * bound(), "noise for one slot is found out: {found} of {}", bound());
}

/// How many of the public keys that the second mix sees belong to no client and to no noise of a mix
/// that follows the rules: those that are not on the curve.
fn strange_keys(breakage: Option<Breakage>) -> (usize, usize) {
    let mut net = Net::new(quiet(), 6);
    let keys = Rc::new(RefCell::new(Vec::new()));
    let eyes = Rc::clone(&keys);
    net.watch = Some(Box::new(move |at, job, _| {
        if let (1, Job::Unwrap(unwrap)) = (at, job) {
            let onions = unwrap.onions().chunks_exact(unwrap.size);
            eyes.borrow_mut().extend(onions.map(|onion| onion[..32].to_vec()));
        }
    }));
    net.breakage = breakage;
    let id = RoundId { service: Service::Conversation, round: 100 };
    let settings = net.announce_round(id);
    let mut rng = ChaCha20Rng::seed_from_u64(7);
    let inner = make_accesses(&[1, 1, 2, 3], &mut rng);
    net.now = net.now.plus_ms(8_000);
    net.send_batch(id, &make_onions(&settings, &inner, &mut rng).0);
    let keys = keys.borrow();
    let real = |key: &&Vec<u8>| portable().is_fixed_point(key[..].try_into().expect("a key"));
    (keys.len() - keys.iter().filter(real).count(), keys.len())
}

#[test]
fn mix_17_noise_shows_public_keys_as_clients_do() {
    let (strange, all) = strange_keys(None);
    assert!(strange == 0 && all > 20, "{strange} of {all}");
    let chance: Breakage = Box::new(|at, job| {
        let (0, Job::Noise(noise)) = (at, &*job) else { return None };
        let size = noise.layers[0].id.service.onion_bytes(noise.layers.len());
        let JobOutput::Noise(mut made) = job.run(portable()) else { return None };
        let mut rng = ChaCha20Rng::seed_from_u64(8);
        made.onions.chunks_exact_mut(size).for_each(|onion| rng.fill_bytes(&mut onion[..32]));
        Some(JobOutput::Noise(made))
    });
    let (strange, all) = strange_keys(Some(chance));
    assert!(4 * strange > all, "random bytes are found out: {strange} of {all}");
}

/// In how many of the rounds the messages that leave the honest mix where the first two came in
/// share a drop, if these two talk with each other and if they talk with two others.
fn partners_in_place(honest: usize, rounds: u32, breakage: Option<Breakage>) -> [u32; 2] {
    let mut harness = Harness::new(honest, 4, breakage);
    let mut found = [0; 2];
    for round in 0..rounds {
        let swapped = round as usize % 2;
        let visits = [[1, 1, 2, 2, 101, 102, 103, 104], [1, 2, 1, 2, 101, 102, 103, 104]][swapped];
        let (out, came) = harness.run(&visits).around(honest);
        found[swapped] += u32::from(out.get(came[0]) == out.get(came[1]));
    }
    found
}

/// A mix that leaves its batch in order.
fn in_order(honest: usize) -> Breakage {
    Box::new(move |at, job| {
        let Job::Shuffle(_) = &*job else { return None };
        if at != honest {
            return None;
        }
        let JobOutput::Shuffle(Shuffled { kept, order }) = job.run(&TOY) else { return None };
        let order = Permutation::identity(order.len());
        Some(JobOutput::Shuffle(Shuffled { kept, order }))
    })
}

#[test]
fn mix_17_slow_places_behind_one_honest_mix_say_nothing_about_partners() {
    const ROUNDS: u32 = 2_000;
    for honest in [0, 1] {
        let [talk, swapped] = partners_in_place(honest, ROUNDS, None);
        // Chance puts the pair there, or a pair of the noise, about once in a hundred rounds.
        assert!(talk.abs_diff(swapped) < 42 && talk + swapped < 100, "{talk} and {swapped}");
        let [talk, swapped] = partners_in_place(honest, 20, Some(in_order(honest)));
        assert_eq!((talk, swapped), (10, 0), "a mix that does not permute is found out");
    }
}

#[test]
fn a_seed_of_20_bits_is_found_by_search() {
    let weak: Breakage = Box::new(|at, job| {
        if let (0, Job::Shuffle(shuffle)) = (at, job) {
            let few = Secret::init_with(|s| {
                s[..3].copy_from_slice(&shuffle.seed.expose()[..3]);
                s[2] &= 0x0f;
            });
            shuffle.seed = few;
        }
        None
    });
    for (breakage, weak) in [(None, false), (Some(weak), true)] {
        let mut harness = Harness::new(0, 5, breakage);
        let view = harness.run(&[1, 1, 2, 2, 101, 102, 103, 104]);
        let (out, _) = view.around(harness.honest);
        // The adversary's own four clients are known by their drops.
        let place = |drop: u8| {
            let theirs = |id: &[u8; DROP_BYTES]| id[0] == drop && id[1..] == out_salt(&out)[1..];
            out.iter().position(theirs).expect("it came through") as u32
        };
        let known = [(4, place(101)), (5, place(102)), (6, place(103)), (7, place(104))];
        let fits = |seed: u32| {
            let seed = Secret::init_with(|s| s[..4].copy_from_slice(&seed.to_le_bytes()));
            let drawn = Permutation::draw(&seed, out.len());
            known.iter().all(|(from, to)| drawn.sources()[*to as usize] == *from)
        };
        assert_eq!((0..1 << 20).any(fits), weak);
    }
}

/// The random part that all drops of clients share: that of the drop with two visitors.
fn out_salt(out: &[[u8; DROP_BYTES]]) -> [u8; DROP_BYTES] {
    let mut seen = BTreeMap::<[u8; DROP_BYTES - 1], u32>::new();
    for drop in out {
        *seen.entry(drop[1..].try_into().expect("15 bytes")).or_default() += 1;
    }
    let (rest, _) = seen.into_iter().max_by_key(|(_, n)| *n).expect("drops");
    let mut salt = [0; DROP_BYTES];
    salt[1..].copy_from_slice(&rest);
    salt
}
