//! A backend for tests that run millions of exchanges: Diffie-Hellman over 61 bits, which anybody breaks.

use mezza_core::{AeadKey, Backend, PortableBackend, PublicKey, Secret, ZeroSecret};
use mezza_seka::backend::LinkBackend;

/// A prime of Mersenne.
const PRIME: u64 = (1 << 61) - 1;
/// The base of all powers.
const BASE: u64 = 3;

/// The toy.
#[derive(Debug)]
pub struct Toy;

fn power(base: u64, mut exponent: u64) -> u64 {
    let times = |a: u64, b: u64| (u128::from(a) * u128::from(b) % u128::from(PRIME)) as u64;
    let mut result = 1;
    let mut square = base % PRIME;
    while exponent > 0 {
        if exponent & 1 == 1 {
            result = times(result, square);
        }
        square = times(square, square);
        exponent >>= 1;
    }
    result
}

fn number(bytes: &[u8; 32]) -> u64 {
    u64::from_le_bytes(*bytes.first_chunk().expect("32 bytes"))
}

fn bytes(number: u64) -> [u8; 32] {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&number.to_le_bytes());
    bytes
}

impl Backend for Toy {
    type Chacha = <PortableBackend as Backend>::Chacha;
    type Pair = u64;

    fn prepare_scalar(scalar: &Secret<32>) -> u64 {
        number(scalar.expose()) % (PRIME - 1)
    }

    fn public_key(pair: &u64) -> PublicKey {
        PublicKey(bytes(power(BASE, *pair)))
    }

    fn diffie_hellman(pair: &u64, their: &PublicKey) -> Result<Secret<32>, ZeroSecret> {
        let shared = power(number(their.as_bytes()), *pair);
        if shared == 0 { Err(ZeroSecret) } else { Ok(Secret::copy_from(&bytes(shared))) }
    }
}

impl LinkBackend for Toy {
    type Gcm128 = Xor<16>;
    type Gcm256 = Xor<32>;
}

/// No encryption at all, and a tag that is a sum of everything: for frames whose secrecy no test asks for.
pub struct Xor<const K: usize>([u8; K]);

impl<const K: usize> Xor<K> {
    fn tag(&self, iv: &[u8; 12], aad: &[u8], text: &[u8]) -> [u8; 16] {
        mezza_core::labelled_hash("toy", &[&self.0, iv, &[aad.len() as u8], aad, text])
    }
}

impl<const K: usize> AeadKey<K> for Xor<K> {
    fn new(key: &[u8; K]) -> Self {
        Self(*key)
    }

    fn seal(&self, iv: &[u8; 12], aad: &[u8], text: &mut [u8]) -> [u8; 16] {
        self.tag(iv, aad, text)
    }

    fn open(&self, iv: &[u8; 12], aad: &[u8], text: &mut [u8], tag: &[u8; 16]) -> bool {
        self.tag(iv, aad, text) == *tag
    }
}
