//! Property tests, and comparison with independent implementations.

use super::{Frame, kernels};
use crate::{BASE, FixedPoint, Kernel, Scalar};
use chacha20::ChaCha20;
use chacha20::cipher::{KeyIvInit, StreamCipher};
use chacha20poly1305::aead::{AeadInOut, KeyInit, inout::InOutBuf};
use chacha20poly1305::{ChaCha20Poly1305, Nonce};
use curve25519_dalek::montgomery::MontgomeryPoint;
use proptest::collection::vec;
use proptest::prelude::*;
use std::vec::Vec;

/// Generates scalars or u-coordinates: random, or with equal bits in each byte of a run.
fn words(
    count: impl Into<proptest::collection::SizeRange>,
) -> impl Strategy<Value = Vec<[u8; 32]>> {
    let run = any::<(u8, u8, u8)>().prop_map(|(a, b, at)| {
        core::array::from_fn(|i| if i < usize::from(at % 33) { a } else { b })
    });
    vec(prop_oneof![3 => any::<[u8; 32]>(), 1 => run], count)
}

fn dalek(k: &[u8; 32], u: &[u8; 32]) -> [u8; 32] {
    MontgomeryPoint(*u).mul_clamped(*k).to_bytes()
}

fn each(kernel: &dyn Kernel, k: &[[u8; 32]], u: &[[u8; 32]]) -> Vec<[u8; 32]> {
    let mut out = std::vec![[0xee; 32]; k.len()];
    kernel.x25519_pairwise(k, u, &mut out);
    out
}

fn shared(kernel: &dyn Kernel, k: &[u8; 32], u: &[[u8; 32]]) -> Vec<[u8; 32]> {
    let mut out = std::vec![[0xee; 32]; u.len()];
    kernel.x25519_shared(&Scalar::copy_from(k), u, &mut out);
    out
}

fn fixed(kernel: &dyn Kernel, u: &[u8; 32], k: &[[u8; 32]]) -> Vec<[u8; 32]> {
    let mut out = std::vec![[0xee; 32]; k.len()];
    let point = kernel.fixed_point(u).expect("a point of large order");
    kernel.x25519_fixed(&point, k, &mut out);
    out
}

proptest! {
    // An emulated group of eight takes milliseconds.
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn products_are_daleks((k, u) in (1..20_usize).prop_flat_map(|n| (words(n), words(n)))) {
        let right = k.iter().zip(&u).map(|(k, u)| dalek(k, u)).collect::<Vec<_>>();
        let one = u.iter().map(|u| dalek(&k[0], u)).collect::<Vec<_>>();
        for kernel in kernels() {
            prop_assert_eq!(&each(kernel, &k, &u), &right);
            prop_assert_eq!(&shared(kernel, &k[0], &u), &one);
        }
    }

    #[test]
    fn diffie_hellman_commutes(secrets in words(4..12)) {
        for kernel in kernels() {
            let public = fixed(kernel, &BASE, &secrets);
            let mut turned = (secrets.clone(), public.clone());
            turned.0.rotate_left(1);
            turned.1.rotate_left(1);
            prop_assert_eq!(
                each(kernel, &secrets, &turned.1),
                each(kernel, &turned.0, &public)
            );
        }
    }

    #[test]
    fn the_table_of_a_point_gives_what_the_ladder_gives(j: [u8; 32], k in words(1..12)) {
        let point = dalek(&j, &BASE);
        let right = k.iter().map(|k| dalek(k, &point)).collect::<Vec<_>>();
        for kernel in kernels() {
            prop_assert_eq!(&fixed(kernel, &point, &k), &right);
        }
    }

    #[test]
    fn other_order_of_inputs_other_order_of_outputs(k in words(18), u in words(18), by in 1..17_usize) {
        let turn = |mut all: Vec<[u8; 32]>| { all.rotate_left(by); all };
        for kernel in kernels() {
            let out = each(kernel, &k, &u);
            prop_assert_eq!(turn(out), each(kernel, &turn(k.clone()), &turn(u.clone())));
            let out = fixed(kernel, &BASE, &k);
            prop_assert_eq!(turn(out), fixed(kernel, &BASE, &turn(k.clone())));
        }
    }
}

proptest! {
    #[test]
    fn messages_are_sealed_as_rustcrypto_seals(
        keys in words(1..40), text in vec(any::<u8>(), 0..400), forged: u64,
    ) {
        let body = |i: usize| text.iter().map(|byte| byte.wrapping_add(i as u8)).collect::<Vec<_>>();
        let bodies = (0..keys.len()).map(body).collect::<Vec<_>>();
        let right = keys.iter().zip(bodies.clone()).map(|(key, body)| rustcrypto(key, body));
        let right = right.collect::<Vec<_>>();
        for kernel in kernels() {
            let mut frame = Frame::new(&bodies);
            kernel.seal_each(&keys, frame.strided());
            prop_assert_eq!(frame.messages(), right.clone());
            let is_forged = |i: usize| forged >> (i % 64) & 1 == 1;
            for (i, (_, tag)) in frame.strided().messages().enumerate() {
                tag[i % 16] ^= u8::from(is_forged(i)) << (i % 8);
            }
            let mut ok = std::vec![7; keys.len()];
            kernel.open_each(&keys, frame.strided(), &mut ok);
            for (i, message) in frame.messages().into_iter().enumerate() {
                let right = if is_forged(i) { std::vec![0; text.len()] } else { body(i) };
                prop_assert_eq!(&message[..text.len()], right);
                prop_assert_eq!(ok[i], u8::from(!is_forged(i)));
            }
        }
    }
}

fn rustcrypto(key: &[u8; 32], mut body: Vec<u8>) -> Vec<u8> {
    let aead = ChaCha20Poly1305::new(key.into());
    let text = InOutBuf::from(body.as_mut_slice());
    let tag = aead.encrypt_inout_detached(&Nonce::default(), &[], text).expect("a short text");
    body.extend_from_slice(&tag);
    body
}

#[test]
fn groups_of_every_size() {
    let word = |i: usize| core::array::from_fn(|j| (i * 37 + j * 11 + i * j) as u8);
    let all = (0..257).map(word).collect::<Vec<[u8; 32]>>();
    let products = all.iter().map(|u| dalek(&all[1], u)).collect::<Vec<_>>();
    let public = all.iter().map(|k| dalek(k, &BASE)).collect::<Vec<_>>();
    for kernel in kernels() {
        for n in [0, 1, 7, 8, 9, 255, 256, 257] {
            assert_eq!(shared(kernel, &all[1], &all[..n]), products[..n], "{n}");
            assert_eq!(fixed(kernel, &BASE, &all[..n]), public[..n], "{n}");
            let mut out = std::vec![[0; 32]; n];
            kernel.x25519_fixed(&FixedPoint::without_table(&BASE), &all[..n], &mut out);
            assert_eq!(out, public[..n], "{n}, without a table");
            assert_eq!(each(kernel, &all[..n], &std::vec![BASE; n]), public[..n], "{n}");
        }
    }
}

/// Compares random scalars and points, 256 at a time in every kernel, with dalek.
/// `MEZZA_TEST_LANES=1000000 cargo test -p mezza-lanes a_million` runs that many.
#[test]
fn a_million_products_if_asked_for() {
    let count = option_env!("MEZZA_TEST_LANES").and_then(|n| n.parse().ok()).unwrap_or(512);
    let mut chance = ChaCha20::new(&[7; 32].into(), &chacha20::Nonce::default());
    let mut random = |words: &mut [[u8; 32]]| {
        words.as_flattened_mut().fill(0);
        chance.apply_keystream(words.as_flattened_mut());
    };
    let mut k = [[0; 32]; 256];
    let mut u = [[0; 32]; 256];
    for _ in 0..usize::div_ceil(count, k.len()) {
        random(&mut k);
        random(&mut u);
        // One u in eight is a multiple of the base point: half of the random ones belong to the
        // twist.
        u.iter_mut().step_by(8).zip(&k).for_each(|(u, k)| *u = dalek(k, &BASE));
        let right = k.iter().zip(&u).map(|(k, u)| dalek(k, u)).collect::<Vec<_>>();
        let one = u.iter().map(|u| dalek(&k[0], u)).collect::<Vec<_>>();
        let base = k.iter().map(|k| dalek(k, &u[0])).collect::<Vec<_>>();
        for kernel in kernels() {
            assert_eq!(each(kernel, &k, &u), right, "{}", kernel.name());
            assert_eq!(shared(kernel, &k[0], &u), one, "{}", kernel.name());
            assert_eq!(fixed(kernel, &u[0], &k), base, "{}", kernel.name());
        }
    }
}
