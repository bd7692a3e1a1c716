//! Prints the speed of the kernels that run here, next to code that computes one operation after
//! another: `cargo run --release -p mezza-lanes --example rates`. The best of several passes
//! counts; the ratios are of one run.
#![expect(clippy::disallowed_methods, reason = "it measures time")]
#![expect(clippy::print_stdout, reason = "it prints")]

use std::hint::black_box;
use std::time::Instant;

use chacha20poly1305::aead::{AeadInOut, KeyInit, inout::InOutBuf};
use chacha20poly1305::{ChaCha20Poly1305, Nonce};
use curve25519_dalek::montgomery::MontgomeryPoint;
use mezza_lanes::{BASE, Kernel, Scalar, Strided, ifma, portable};

/// Inputs of one call.
const BATCH: usize = 256;
const BODY: usize = 368;
const STRIDE: usize = BODY + 16;
const PASSES: usize = 25;

/// Returns the nanoseconds of one of `count` operations in the best pass.
fn best_ns(count: u32, mut f: impl FnMut()) -> f64 {
    let pass = |_| {
        let begun = Instant::now();
        f();
        begun.elapsed().as_secs_f64() * 1e9 / f64::from(count)
    };
    (0..PASSES).map(pass).fold(f64::INFINITY, f64::min)
}

fn print_row(name: &str, what: &str, ns: f64, peer: f64) {
    println!("{name:<10} {what:<14} {ns:10.0} ns {:8.1} k/s {:6.2}x", 1e6 / ns, peer / ns);
}

fn main() {
    let words: [[u8; 32]; BATCH] =
        std::array::from_fn(|i| std::array::from_fn(|j| (i * 31 + j * 7 + i * j) as u8));
    let ladder = best_ns(BATCH as u32, || {
        for k in &words {
            black_box(MontgomeryPoint(BASE).mul_clamped(*k));
        }
    });
    let table = best_ns(BATCH as u32, || {
        for k in &words {
            black_box(MontgomeryPoint::mul_base_clamped(*k));
        }
    });
    let mut bytes = vec![0; BATCH * STRIDE];
    let aead = best_ns(BATCH as u32, || {
        for (key, chunk) in words.iter().zip(bytes.chunks_exact_mut(STRIDE)) {
            let text = InOutBuf::from(&mut chunk[..BODY]);
            let key = ChaCha20Poly1305::new(key.into());
            black_box(key.encrypt_inout_detached(&Nonce::default(), &[], text).is_ok());
        }
    });
    print_row("dalek", "ladder", ladder, ladder);
    print_row("dalek", "base point", table, table);
    print_row("rustcrypto", "aead 368", aead, aead);
    for kernel in [Some(portable()), ifma()].into_iter().flatten() {
        print_rates(kernel, &words, &mut bytes, [ladder, table, aead]);
    }
}

fn print_rates(kernel: &dyn Kernel, words: &[[u8; 32]; BATCH], bytes: &mut [u8], peers: [f64; 3]) {
    let name = kernel.name();
    let scalar = Scalar::copy_from(&words[1]);
    let mut out = [[0; 32]; BATCH];
    let ns = best_ns(BATCH as u32, || kernel.x25519_shared(&scalar, words, black_box(&mut out)));
    print_row(name, "shared", ns, peers[0]);
    let ns = best_ns(BATCH as u32, || kernel.x25519_pairwise(words, words, black_box(&mut out)));
    print_row(name, "each", ns, peers[0]);
    let ns = best_ns(1, || drop(black_box(kernel.fixed_point(&BASE))));
    print_row(name, "fixed_point", ns, peers[0]);
    if let Some(base) = kernel.fixed_point(&BASE) {
        let ns = best_ns(BATCH as u32, || kernel.x25519_fixed(&base, words, black_box(&mut out)));
        print_row(name, "fixed", ns, peers[1]);
    }
    let ns =
        best_ns(BATCH as u32, || kernel.seal_each(words, Strided::new(bytes, STRIDE, 0, BODY)));
    print_row(name, "aead 368", ns, peers[2]);
}
