//! Whether time depends on secrets: Welch's t-test on fixed against random inputs (Reparaz, Balasch,
//! Verbauwhede, "Dude, is my code constant time?", 2017), for each operation of each kernel that runs
//! here, and for a leaky twin that the test must catch.
//!
//! `cargo run --release -p mezza-lanes --example timing -- 100000` takes so many measurements each,
//! and exits with 1 if |t| reaches 4.5 somewhere, or stays below for the twin. A single value a little
//! above 4.5 is chance as often as not: a leak grows with the number of measurements.
#![expect(clippy::disallowed_methods, reason = "it measures time")]
#![expect(clippy::print_stdout, reason = "it prints")]

use std::hint::black_box;
use std::process::ExitCode;
use std::time::Instant;

use mezza_lanes::{BASE, FixedPoint, Kernel, Scalar, Strided, ifma, portable};

/// Beyond this the classes differ.
const LIMIT: f64 = 4.5;
/// Inputs of one call.
const BATCH: usize = 8;
/// Bytes of a body.
const BODY: usize = 256;

/// Chance, the same at every run: no secret of anybody's.
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 ^ self.0 >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9)
    }

    fn words(&mut self) -> [[u8; 32]; BATCH] {
        let mut words = [[0; 32]; BATCH];
        for byte in words.as_flattened_mut() {
            *byte = (self.next() >> 56) as u8;
        }
        words
    }
}

/// Mean and variance, one value after another (Welford 1962).
#[derive(Default)]
struct Class {
    n: f64,
    mean: f64,
    squares: f64,
}

impl Class {
    fn add(&mut self, x: f64) {
        self.n += 1.0;
        let before = x - self.mean;
        self.mean += before / self.n;
        self.squares += before * (x - self.mean);
    }

    fn error(&self) -> f64 {
        self.squares / (self.n - 1.0) / self.n
    }
}

/// Welch's t of times in two classes, without the slowest tenth: that is the machine's.
fn welch(times: &[(bool, f64)]) -> f64 {
    let mut sorted = times.iter().map(|(_, time)| *time).collect::<Vec<_>>();
    sorted.sort_by(f64::total_cmp);
    let limit = sorted[sorted.len() * 9 / 10];
    let mut classes = [Class::default(), Class::default()];
    for (class, time) in times.iter().filter(|(_, time)| *time <= limit) {
        classes[usize::from(*class)].add(*time);
    }
    let [a, b] = classes;
    (a.mean - b.mean) / (a.error() + b.error()).sqrt()
}

/// Fixed words and random ones in random order; t of the time that `f` takes.
fn measure(count: usize, mut f: impl FnMut(bool, &[[u8; 32]; BATCH])) -> f64 {
    let mut chance = Chance(7);
    let fixed = [[0; 32]; BATCH];
    let mut times = Vec::with_capacity(count);
    for _ in 0..count {
        // Both classes cost the same to prepare.
        let random = chance.words();
        let class = chance.next() >> 63 == 1;
        let words = black_box(if class { random } else { fixed });
        let begun = Instant::now();
        f(class, &words);
        times.push((class, begun.elapsed().as_secs_f64() * 1e9));
    }
    welch(&times)
}

/// A look-up whose address is the secret digit: sixteen entries that share a set of the cache.
struct Leaky(Vec<u8>);

impl Leaky {
    const STRIDE: usize = 16_384;

    fn run(&self, words: &[[u8; 32]; BATCH]) -> u8 {
        // Each address waits for the load before it.
        words
            .as_flattened()
            .iter()
            .fold(0, |last, digit| self.0[usize::from((digit ^ last) & 15) * Self::STRIDE])
    }
}

fn operations(kernel: &dyn Kernel, base: &FixedPoint, count: usize) -> [(&'static str, f64); 4] {
    let mut out = [[0; 32]; BATCH];
    let shared = measure(count, |_, words| {
        let scalar = Scalar::copy_from(&words[0]);
        kernel.x25519_shared(&scalar, &[BASE; BATCH], black_box(&mut out));
    });
    let each = measure(count, |_, words| {
        kernel.x25519_each(words, &[BASE; BATCH], black_box(&mut out));
    });
    let fixed = measure(count, |_, words| kernel.x25519_fixed(base, words, black_box(&mut out)));
    [("x25519_shared", shared), ("x25519_each", each), ("x25519_fixed", fixed), open(kernel, count)]
}

/// Right tags against wrong ones.
fn open(kernel: &dyn Kernel, count: usize) -> (&'static str, f64) {
    let keys = [[3; 32]; BATCH];
    let mut sealed = [[7; BODY + 16]; BATCH];
    kernel.seal_each(&keys, Strided::new(sealed.as_flattened_mut(), BODY + 16, 0, BODY));
    let mut forged = sealed;
    for message in &mut forged {
        message[BODY] ^= 1;
    }
    let t = measure(count, |class, _| {
        let mut messages = if class { sealed } else { forged };
        let m = Strided::new(messages.as_flattened_mut(), BODY + 16, 0, BODY);
        kernel.open_each(&keys, m, black_box(&mut [0; BATCH]));
    });
    ("open_each", t)
}

fn main() -> ExitCode {
    let count = std::env::args().nth(1).and_then(|arg| arg.parse().ok()).unwrap_or(20_000);
    // Not zeros: the system keeps one page for all of those.
    let leaky = Leaky(vec![0x10; 16 * Leaky::STRIDE]);
    let twin = measure(count, |_, words| {
        black_box(leaky.run(words));
    });
    println!("{:<10} {:<14} t = {twin:9.1}   must be beyond {LIMIT}", "leaky", "table");
    let mut right = twin.abs() > LIMIT;
    for kernel in [Some(portable()), ifma()].into_iter().flatten() {
        let Some(base) = kernel.fixed_point(&BASE) else { return ExitCode::FAILURE };
        for (name, t) in operations(kernel, &base, count) {
            println!("{:<10} {name:<14} t = {t:9.1}   must be below {LIMIT}", kernel.name());
            right &= t.abs() < LIMIT;
        }
    }
    if ifma().is_none() {
        println!("ifma       is not possible here, avx512ifma is missing");
    }
    if right { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
