//! Tests whether time depends on secrets: [`mezza_sim::timing`] on signing with a fixed and with random
//! keys, and on messages whose tag is wrong in its first or in its last byte.
//!
//! `cargo run --release -p mezza-ratchet --example ratchet_timing -- 100000` takes this number of
//! measurements for each operation. It exits with 1 if |t| reaches 4.5 for an operation, or stays
//! below for a comparison that leaks.
#![expect(clippy::disallowed_methods, reason = "it measures time")]
#![expect(clippy::print_stdout, reason = "it prints")]

use std::hint::black_box;
use std::process::ExitCode;
use std::time::Instant;

use mezza_core::{Aead, Blake2b512, Hash512, PortableBackend, Secret, Sha512, Suite};
use mezza_ratchet::suite::{B2c20, V3};
use mezza_ratchet::xeddsa;
use mezza_sim::timing::{LIMIT, welch_t};

/// Bytes of a text.
const TEXT: usize = 32;

fn measure_ns(f: impl FnOnce()) -> f64 {
    let begun = Instant::now();
    f();
    begun.elapsed().as_secs_f64() * 1e9
}

/// Returns the t statistic of signing with a fixed key against random keys.
fn time_signing<H: Hash512>(count: usize) -> f64 {
    welch_t(count, |class, dice| {
        let random = Secret::<32>::random(dice.rng());
        let fresh = Secret::random(dice.rng());
        let key = if class { random } else { Secret::copy_from(&[0x55; 32]) };
        measure_ns(|| {
            black_box(xeddsa::sign::<H>(black_box(&key), &[&[7; 64]], &fresh));
        })
    })
}

/// Returns the t statistic of opening a message with a tag that is wrong in its first byte, against
/// one wrong in its last.
fn time_opening<S: Suite>(count: usize, tag_bytes: usize) -> f64 {
    let key = Secret::copy_from(&[3; 32]);
    let mut sealed = vec![0; S::Aead::NONCE_BYTES];
    sealed.extend([9; TEXT]);
    S::Aead::seal::<PortableBackend>(&key, &[], &mut sealed, 0);
    let first = sealed.len() - tag_bytes;
    let last = sealed.len() - 1;
    welch_t(count, |class, _| {
        let mut forged = black_box(sealed.clone());
        forged[if class { first } else { last }] ^= 1;
        measure_ns(|| {
            black_box(S::Aead::open::<PortableBackend>(&key, [&[], &[]], &forged));
        })
    })
}

/// Returns the t statistic of a comparison that stops at the first difference; the test must detect
/// it.
fn time_leaky_comparison(count: usize) -> f64 {
    let right = [0; 256];
    welch_t(count, |class, _| {
        let mut wrong = black_box(right);
        wrong[if class { 0 } else { 255 }] ^= 1;
        measure_ns(|| {
            black_box(right.iter().zip(&wrong).position(|(a, b)| black_box(a) != black_box(b)));
        })
    })
}

fn main() -> ExitCode {
    let count = std::env::args().nth(1).and_then(|arg| arg.parse().ok()).unwrap_or(20_000);
    let twin = time_leaky_comparison(count);
    println!("{:<22} t = {twin:9.1}   must be beyond {LIMIT}", "a leaky comparison");
    let mut right = twin.abs() > LIMIT;
    for (name, t) in [
        ("sign, BLAKE2b", time_signing::<Blake2b512>(count)),
        ("sign, SHA-512", time_signing::<Sha512>(count)),
        ("tag of b2c20", time_opening::<B2c20>(count, 16)),
        ("tag of signal-v3", time_opening::<V3>(count, 8)),
    ] {
        println!("{name:<22} t = {t:9.1}   must be below {LIMIT}");
        right &= t.abs() < LIMIT;
    }
    if right { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
