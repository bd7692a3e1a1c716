//! A network of toys: the cryptography of a child, so that worlds of many rounds take seconds. It
//! keeps what protocols rest on (both sides compute one secret, another key opens nothing), and
//! hides nothing from anybody.
//!
//! Diffie-Hellman is multiplication modulo 2^61 - 1: public = 9 k, secret = k 9 k'.

use mezza_core::{AeadKey, Backend, PublicKey, Secret, StaticKey, ZeroSecret};
use mezza_lanes::{FixedPoint, Kernel, Scalar, Strided};

const P: u64 = (1 << 61) - 1;

/// The toy kernel.
pub static TOY: Toy = Toy;

/// Toy operations for many inputs, and for one.
pub struct Toy;

fn word(bytes: &[u8]) -> u64 {
    bytes.iter().take(8).rev().fold(0, |word, byte| word << 8 | u64::from(*byte))
}

fn times(a: u64, b: u64) -> u64 {
    (u128::from(a) * u128::from(b) % u128::from(P)) as u64
}

/// A scalar from the bytes that clamping leaves alone; never 0.
fn scalar(k: &[u8; 32]) -> u64 {
    1 + word(&k[8..16]) % (P - 1)
}

fn point(u: &[u8; 32]) -> u64 {
    word(u) % P
}

fn product(k: &[u8; 32], u: &[u8; 32]) -> [u8; 32] {
    let mut out = [0; 32];
    out[..8].copy_from_slice(&times(scalar(k), point(u)).to_le_bytes());
    out
}

/// One step of a generator (splitmix64).
fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}

/// All of a key in one number.
fn seed(key: &[u8; 32]) -> u64 {
    key.chunks(8).fold(0, |sum, part| next(&mut (sum ^ word(part))))
}

fn stream(key: &[u8; 32], text: &mut [u8]) {
    let mut state = seed(key);
    for part in text.chunks_mut(8) {
        let pad = next(&mut state).to_le_bytes();
        part.iter_mut().zip(pad).for_each(|(byte, pad)| *byte ^= pad);
    }
}

fn tag(key: &[u8; 32], text: &[u8]) -> [u8; 16] {
    let mut sum = seed(key) ^ text.len() as u64;
    for part in text.chunks(8) {
        sum = next(&mut (sum ^ word(part)));
    }
    let mut tag = [0; 16];
    tag[..8].copy_from_slice(&sum.to_le_bytes());
    tag[8..].copy_from_slice(&next(&mut sum).to_le_bytes());
    tag
}

impl Kernel for Toy {
    fn name(&self) -> &'static str {
        "toy"
    }

    fn x25519_shared(&self, k: &Scalar, u: &[[u8; 32]], out: &mut [[u8; 32]]) {
        out.iter_mut().zip(u).for_each(|(out, u)| *out = product(k.expose(), u));
    }

    fn x25519_pairwise(&self, k: &[[u8; 32]], u: &[[u8; 32]], out: &mut [[u8; 32]]) {
        out.iter_mut().zip(k.iter().zip(u)).for_each(|(out, (k, u))| *out = product(k, u));
    }

    fn fixed_point(&self, u: &[u8; 32]) -> Option<FixedPoint> {
        self.is_fixed_point(u).then(|| FixedPoint::without_table(u))
    }

    fn is_fixed_point(&self, u: &[u8; 32]) -> bool {
        point(u) > 1
    }

    fn x25519_fixed(&self, p: &FixedPoint, k: &[[u8; 32]], out: &mut [[u8; 32]]) {
        out.iter_mut().zip(k).for_each(|(out, k)| *out = product(k, p.u()));
    }

    fn seal_each(&self, keys: &[[u8; 32]], mut m: Strided<'_>) {
        for (key, (body, its)) in keys.iter().zip(m.messages()) {
            stream(key, body);
            *its = tag(key, body);
        }
    }

    fn open_each(&self, keys: &[[u8; 32]], mut m: Strided<'_>, ok: &mut [u8]) {
        for ((key, (body, its)), ok) in keys.iter().zip(m.messages()).zip(ok) {
            *ok = u8::from(*its == tag(key, body));
            if *ok == 1 {
                stream(key, body);
            } else {
                body.fill(0);
            }
        }
    }
}

/// The same for one message.
pub struct ToyKey([u8; 32]);

impl Backend for Toy {
    type Chacha = ToyKey;
    type Pair = Secret<32>;

    fn prepare_scalar(scalar: &Secret<32>) -> Secret<32> {
        scalar.duplicate()
    }

    fn public_key(scalar: &Secret<32>) -> PublicKey {
        PublicKey(product(scalar.expose(), &mezza_lanes::BASE))
    }

    fn diffie_hellman(scalar: &Secret<32>, their: &PublicKey) -> Result<Secret<32>, ZeroSecret> {
        let secret = product(scalar.expose(), &their.0);
        if secret == [0; 32] { Err(ZeroSecret) } else { Ok(Secret::copy_from(&secret)) }
    }
}

impl AeadKey<32> for ToyKey {
    fn new(key: &[u8; 32]) -> Self {
        Self(*key)
    }

    fn seal(&self, _: &[u8; 12], _: &[u8], text: &mut [u8]) -> [u8; 16] {
        stream(&self.0, text);
        tag(&self.0, text)
    }

    fn open(&self, _: &[u8; 12], _: &[u8], text: &mut [u8], its: &[u8; 16]) -> bool {
        let right = *its == tag(&self.0, text);
        if right {
            stream(&self.0, text);
        }
        right
    }
}

#[test]
fn a_toy_keeps_what_protocols_rest_on() {
    let pair = |n: u8| StaticKey::from_scalar::<Toy>(Secret::init_with(|s| s.fill(n)));
    let alice = pair(1);
    let bob = pair(2);
    assert_eq!(
        alice.diffie_hellman::<Toy>(bob.public_key()),
        bob.diffie_hellman::<Toy>(alice.public_key())
    );
    assert_ne!(
        alice.diffie_hellman::<Toy>(bob.public_key()),
        alice.diffie_hellman::<Toy>(pair(3).public_key())
    );
    let mut frame = *b"one................";
    TOY.seal_each(&[[1; 32]], Strided::new(&mut frame, 19, 0, 3));
    let mut ok = [1];
    TOY.open_each(&[[2; 32]], Strided::new(&mut frame.clone(), 19, 0, 3), &mut ok);
    assert_eq!(ok, [0]);
    TOY.open_each(&[[1; 32]], Strided::new(&mut frame, 19, 0, 3), &mut ok);
    assert_eq!((ok, &frame[..3]), ([1], &b"one"[..]));
}
