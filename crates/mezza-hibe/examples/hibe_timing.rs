//! Tests whether time depends on a secret: Welch's t-test on the operations that touch one.
//!
//! `cargo run --release -p mezza-hibe --example hibe_timing -- 100000` takes this number of
//! measurements for each operation. It exits with 1 if |t| reaches 4.5 for an operation, or stays
//! below for a leaky variant. Scalars of class 0 have a few bits, those of class 1 are random.
#![allow(
    clippy::expect_used,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a program that measures"
)]

use std::hint::black_box;
use std::process::ExitCode;
use std::time::Instant;

use mezza_hibe::curve::{Fr, G1, G1Affine, G2Affine, gt::Gt};
use mezza_hibe::{
    Bucket, EnvelopeKey, HeldKeys, KeyTree, Shape, System, Tick, TreeProfile, trial_open,
};
use mezza_sim::timing::{LIMIT, welch_t};
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{Rng as _, SeedableRng as _};

/// Scalars of each class. They are drawn before the measurement, so that drawing is not measured.
struct Scalars {
    few: Vec<Fr>,
    any: Vec<Fr>,
}

impl Scalars {
    fn new(rng: &mut ChaCha20Rng) -> Self {
        let few = (0..=255_u8).map(|i| Fr::from_small(i % 7 + 1)).collect();
        let mut any = |_| {
            let mut wide = [0; 64];
            rng.fill_bytes(&mut wide);
            Fr::from_wide(&wide)
        };
        Self { few, any: (0..256).map(&mut any).collect() }
    }

    /// Returns the t statistic of an operation on scalars.
    fn time_operation(&self, count: usize, mut operation: impl FnMut(&Fr)) -> f64 {
        welch_t(count, |class, dice| {
            let at = dice.between(0, 255) as usize;
            let scalar = if class { &self.any[at] } else { &self.few[at] };
            let start = Instant::now();
            operation(black_box(scalar));
            start.elapsed().as_secs_f64() * 1e9
        })
    }
}

/// Multiplies by doubling, and adds only for bits that are set: a leak that the test must detect.
fn multiply_leaky(point: &G1, scalar: &Fr) -> G1 {
    scalar.as_bytes().iter().rev().fold(G1::infinity(), |sum, byte| {
        (0..8).rev().fold(sum, |sum, bit| {
            let double = sum.add(&sum);
            if byte >> bit & 1 == 1 { double.add(point) } else { double }
        })
    })
}

fn main() -> ExitCode {
    let count = std::env::args().nth(1).map_or(20_000, |n| n.parse().expect("a number"));
    let rng = &mut ChaCha20Rng::from_seed([3; 32]);
    let system = System::with_keygen_comb();
    let scalars = Scalars::new(rng);
    let p1 = G1Affine::generator().to_point();
    let p2 = G2Affine::generator().to_point();
    let gt = Gt::pairing(&G1Affine::generator(), &G2Affine::generator());
    let twin = scalars.time_operation(count / 10, |s| drop(black_box(multiply_leaky(&p1, s))));
    println!("{:<28} t = {twin:9.1}   must be beyond {LIMIT}", "leaky twin");
    let rows = [
        ("comb of P1", scalars.time_operation(count, |s| drop(black_box(system.multiply_p1(s))))),
        ("comb of P2", scalars.time_operation(count, |s| drop(black_box(system.multiply_p2(s))))),
        (
            "G1 multiplication of blst",
            scalars.time_operation(count, |s| drop(black_box(p1.mul(s)))),
        ),
        (
            "G2 multiplication of blst",
            scalars.time_operation(count, |s| drop(black_box(p2.mul(s)))),
        ),
        (
            "power in Gt, with its digits",
            scalars.time_operation(count, |s| drop(black_box(gt.pow(s)))),
        ),
        ("tag of an envelope", time_tag_check(count / 4, rng)),
    ];
    for (name, t) in rows {
        println!("{name:<28} t = {t:9.1}   must be below {LIMIT}");
    }
    let holds = twin.abs() > LIMIT && rows.iter().all(|(_, t)| t.abs() < LIMIT);
    if holds { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Returns the t statistic of the comparison of a tag: wrong in the first byte against wrong in the
/// last byte.
fn time_tag_check(count: usize, rng: &mut ChaCha20Rng) -> f64 {
    let system = System::new();
    let now = Tick(59_500_000);
    let tree =
        KeyTree::create(&system, Shape::Wide, TreeProfile::Minute, now, rng).expect("a tree");
    let key = EnvelopeKey::new(&system, &tree.card().seal_key(now).expect("a key"), now, rng);
    let envelope = key.expect("a key").seal(b"x", Bucket::SMALLEST, now).expect("an envelope");
    let mut held = HeldKeys::new();
    let epoch = tree.card().epoch_of(now).expect("an epoch");
    held.insert(tree.open_key(&system, epoch, rng).expect("a key"));
    let wrong = [474, 505].map(|at| {
        let mut bytes = envelope.as_bytes().to_vec();
        bytes[at] ^= 1;
        bytes
    });
    welch_t(count, |class, _| {
        let start = Instant::now();
        black_box(trial_open(&system, &held, &wrong[usize::from(class)]));
        start.elapsed().as_secs_f64() * 1e9
    })
}
