//! Calls: whether somebody calls or idles, from the sizes of buckets.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use mezza_core::{PublicKey, Time};
use mezza_mixnet::job::{Job, JobOutput, NoiseKind};
use mezza_mixnet::mix::Neighbour;
use mezza_mixnet::onion::{Layer, Multiply, wrap_onions};
use mezza_mixnet::wire::FrameBody;
use mezza_mixnet::{RoundId, Service};
use rand_chacha::ChaCha20Rng;
use rand_core::{Rng as _, SeedableRng as _};

use super::{NOISE, ROUNDS, advantage, error, theory, without};
use crate::fixture::{Breakage, Net, OPEN, config};
use crate::toy::{TOY, Toy};

/// Bytes of a bucket number in front of a token.
const NUMBER_BYTES: usize = 4;
/// The bucket of the person in question, and the one of those who call nobody.
const CALLED: u32 = 1;
const NOBODY: u32 = 0;
/// The buckets of the people whom the adversary knows: two call, three do not.
const OTHERS: [u32; 5] = [CALLED, 2, NOBODY, NOBODY, NOBODY];

/// Messages by bucket: in the batch of the last mix, or in what it published; and the noise of the
/// adversary's own mixes among them.
#[derive(Default)]
struct View {
    seen: BTreeMap<u32, i32>,
    own: BTreeMap<u32, i32>,
}

impl View {
    fn see(&mut self, honest: usize, at: usize, job: &Job, done: &JobOutput) {
        match (job, done) {
            // What the last mix adds itself comes behind what it sees.
            (Job::Noise(noise), _) if at != honest && at < 2 => {
                if let NoiseKind::Bucket(bucket, n) = noise.kind {
                    *self.own.entry(bucket).or_default() += n.cast_signed();
                }
            }
            (Job::Unwrap(_), JobOutput::Unwrap(opened)) if at == 2 && honest != 2 => {
                for call in opened.inner_onions() {
                    let number = call[..NUMBER_BYTES].try_into().expect("4 bytes");
                    *self.seen.entry(u32::from_be_bytes(number)).or_default() += 1;
                }
            }
            _ => {}
        }
    }

    /// Messages in a bucket that are not the adversary's own noise.
    fn others(&self, bucket: u32) -> i32 {
        let of = |counts: &BTreeMap<u32, i32>| counts.get(&bucket).copied().unwrap_or(0);
        of(&self.seen) - of(&self.own)
    }
}

/// One network, round after round; the first client calls in every second one.
fn calls(honest: usize, rounds: u32, breakage: Option<Breakage>, guess: fn(&View) -> f64) -> f64 {
    let mut config = config(3);
    config.services.retain(|policy| policy.service == Service::Call);
    config.services[0].mu = NOISE.mu;
    config.services[0].scale = NOISE.scale;
    config.valid_until = OPEN.plus_ms(1_000 * Time::DAY_MS);
    let mut net = Net::<Toy>::with_kernel(config, 9, &TOY);
    let view = Rc::new(RefCell::new(View::default()));
    let eyes = Rc::clone(&view);
    net.watch = Some(Box::new(move |at, job, done| eyes.borrow_mut().see(honest, at, job, done)));
    net.breakage = breakage;
    let mut rng = ChaCha20Rng::seed_from_u64(10);
    let hits = (0..rounds).filter(|round| {
        let calls = round % 2 == 0;
        let own = if calls { CALLED } else { NOBODY };
        let published = one_round(&mut net, u64::from(*round), own, &mut rng);
        let mut view = view.take();
        if honest == 2 {
            view.seen = published;
        }
        // What is as likely under both is decided by a coin.
        let seen = guess(&view);
        let says = if seen == 0.0 { rng.next_u32() & 1 == 0 } else { seen > 0.0 };
        says == calls
    });
    advantage(hits.count(), rounds)
}

/// Lets everybody call once; the sizes of the buckets that were published.
fn one_round(
    net: &mut Net<Toy>,
    round: u64,
    own: u32,
    rng: &mut ChaCha20Rng,
) -> BTreeMap<u32, i32> {
    let id = RoundId { service: Service::Call, round: 100 + round };
    net.now = OPEN.plus_ms(5_000 * round).minus_ms(6_000);
    let size = id.service.innermost_bytes();
    let buckets = [own].into_iter().chain(OTHERS);
    let mut inner = vec![0; size * (1 + OTHERS.len())];
    rng.fill_bytes(&mut inner);
    for (call, bucket) in inner.chunks_exact_mut(size).zip(buckets) {
        call[..NUMBER_BYTES].copy_from_slice(&bucket.to_be_bytes());
    }
    let settings = net.announce_round(id);
    let keys = settings.keys.iter().zip(0..);
    let layers: Vec<_> =
        keys.map(|(key, position)| Layer { id, position, key: PublicKey(*key) }).collect();
    let wrapped = wrap_onions(&TOY, Multiply::Ladders, &layers, &inner, size, rng);
    net.now = net.now.plus_ms(8_000);
    net.send_batch(id, &wrapped.onions);
    let objects = net.take_frames(|body| match body {
        FrameBody::Chunk { bucket, offset: 0, bytes } => Some((bucket, bytes)),
        _ => None,
    });
    net.send_frame(2, Neighbour::Store, id, FrameBody::Stored);
    net.out.clear();
    let count = |bytes: &[u8]| i32::from_be_bytes(bytes[..4].try_into().expect("a count"));
    objects.iter().map(|(bucket, bytes)| (*bucket, count(bytes))).collect()
}

/// Messages beyond those of the people who are known and the mean of the noise.
fn beyond(view: &View, bucket: u32) -> f64 {
    let known = OTHERS.iter().map(|other| i32::from(*other == bucket)).sum::<i32>();
    f64::from(view.others(bucket) - known) - f64::from(NOISE.mu)
}

/// One message more in the bucket that is called, one less in the other.
fn by_both(view: &View) -> f64 {
    beyond(view, CALLED) - beyond(view, NOBODY)
}

/// The last mix publishes no bucket of those who call nobody.
fn by_published(view: &View) -> f64 {
    2.0 * beyond(view, CALLED) - 1.0
}

#[test]
fn slow_buckets_tell_as_much_as_the_noise_of_one_honest_mix_lets_them() {
    let sigma = f64::from(NOISE.scale);
    for (honest, guess, shift) in [
        (0, by_both as fn(&View) -> f64, 2_f64.sqrt() / sigma),
        (1, by_both, 2_f64.sqrt() / sigma),
        (2, by_published, 1.0 / sigma),
    ] {
        let found = calls(honest, ROUNDS, None, guess);
        let bound = theory(shift);
        assert!((found - bound).abs() < error(ROUNDS), "mix {honest}: {found} of {bound}");
    }
}

#[test]
fn mix_18_a_bucket_without_noise_is_found_out() {
    // The bucket of those who call nobody has nobody but them, or the one in question as well.
    for honest in [0, 1] {
        let breakage = without(honest, |kind| matches!(kind, NoiseKind::Bucket(NOBODY, _)));
        let found = calls(honest, 60, Some(breakage), |view| {
            0.5 - (beyond(view, NOBODY) + f64::from(NOISE.mu))
        });
        assert!(found > 0.99, "mix {honest}: {found}");
    }
    let last = without(2, |kind| matches!(kind, NoiseKind::Bucket(CALLED, _)));
    let found = calls(2, 60, Some(last), |view| beyond(view, CALLED) + f64::from(NOISE.mu) - 0.5);
    assert!(found > 0.99, "the last mix: {found}");
}
