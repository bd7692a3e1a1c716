//! Tests whether time depends on secrets: [`mezza_sim::timing`] on fixed against random inputs, for
//! each operation of each kernel that runs here, and for a leaky variant that the test must detect.
//!
//! `cargo run --release -p mezza-lanes --example lanes_timing -- 100000` takes this number of
//! measurements for each operation. It exits with 1 if |t| reaches 4.5 for an operation, or stays
//! below for the leaky variant.
#![expect(clippy::disallowed_methods, reason = "it measures time")]
#![expect(clippy::print_stdout, reason = "it prints")]

use std::hint::black_box;
use std::process::ExitCode;
use std::time::Instant;

use mezza_lanes::{BASE, FixedPoint, Kernel, Scalar, Strided, ifma, portable};
use mezza_sim::timing::{LIMIT, welch_t};

/// Inputs of one call.
const BATCH: usize = 8;
/// Bytes of a body.
const BODY: usize = 256;

type Words = [[u8; 32]; BATCH];

/// Returns the t statistic of the time that `run` takes on inputs that `prepare` makes for two
/// classes in random order. Zeros and ones are selected by a mask, because a branch would itself
/// affect the measured time.
fn time_classes<T>(
    count: usize,
    mut prepare: impl FnMut(u8, Words) -> T,
    mut run: impl FnMut(&mut T),
) -> f64 {
    welch_t(count, |class, dice| {
        let mut random = [[0; 32]; BATCH];
        dice.rng().fill_bytes(random.as_flattened_mut());
        let mut input = black_box(prepare(black_box(u8::from(class).wrapping_neg()), random));
        let begun = Instant::now();
        run(&mut input);
        begun.elapsed().as_secs_f64() * 1e9
    })
}

/// Random words where the mask is set, else zeros.
fn draw_words(mask: u8, random: Words) -> Words {
    random.map(|word| word.map(|byte| byte & mask))
}

/// A table look-up whose address is the secret digit: its sixteen entries share one set of the
/// cache.
struct Leaky(Vec<u8>);

impl Leaky {
    const STRIDE: usize = 16_384;

    fn run(&self, words: &Words) -> u8 {
        // Each address depends on the load before it.
        words
            .as_flattened()
            .iter()
            .fold(0, |last, digit| self.0[usize::from((digit ^ last) & 15) * Self::STRIDE])
    }
}

fn time_operations(
    kernel: &dyn Kernel,
    base: &FixedPoint,
    count: usize,
) -> [(&'static str, f64); 4] {
    let mut out = [[0; 32]; BATCH];
    let shared = time_classes(count, draw_words, |words| {
        let scalar = Scalar::copy_from(&words[0]);
        kernel.x25519_shared(&scalar, &[BASE; BATCH], black_box(&mut out));
    });
    let each = time_classes(count, draw_words, |words| {
        kernel.x25519_pairwise(words, &[BASE; BATCH], black_box(&mut out));
    });
    let fixed = time_classes(count, draw_words, |words| {
        kernel.x25519_fixed(base, words, black_box(&mut out));
    });
    [
        ("x25519_shared", shared),
        ("x25519_pairwise", each),
        ("x25519_fixed", fixed),
        time_opening(kernel, count),
    ]
}

/// Returns the t statistic of opening messages with right tags against wrong ones.
fn time_opening(kernel: &dyn Kernel, count: usize) -> (&'static str, f64) {
    let keys = [[3; 32]; BATCH];
    let mut sealed = [[7; BODY + 16]; BATCH];
    kernel.seal_each(&keys, Strided::new(sealed.as_flattened_mut(), BODY + 16, 0, BODY));
    let spoilt = |mask: u8, _: Words| {
        sealed.map(|mut message| {
            message[BODY] ^= mask & 1;
            message
        })
    };
    let t = time_classes(count, spoilt, |messages| {
        let m = Strided::new(messages.as_flattened_mut(), BODY + 16, 0, BODY);
        kernel.open_each(&keys, m, black_box(&mut [0; BATCH]));
    });
    ("open_each", t)
}

fn main() -> ExitCode {
    let count = std::env::args().nth(1).and_then(|arg| arg.parse().ok()).unwrap_or(20_000);
    // The table is not all zeros, because the system maps all zero pages to a single one.
    let leaky = Leaky(vec![0x10; 16 * Leaky::STRIDE]);
    let twin = time_classes(count, draw_words, |words| {
        black_box(leaky.run(words));
    });
    println!("{:<10} {:<14} t = {twin:9.1}   must be beyond {LIMIT}", "leaky", "table");
    let mut right = twin.abs() > LIMIT;
    for kernel in [Some(portable()), ifma()].into_iter().flatten() {
        let Some(base) = kernel.fixed_point(&BASE) else { return ExitCode::FAILURE };
        for (name, t) in time_operations(kernel, &base, count) {
            println!("{:<10} {name:<14} t = {t:9.1}   must be below {LIMIT}", kernel.name());
            right &= t.abs() < LIMIT;
        }
    }
    if ifma().is_none() {
        println!("ifma       is not possible here, avx512ifma is missing");
    }
    if right { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
