//! Suites 0x0101 and 0x0102: BLAKE2b and ChaCha20-Poly1305.

use alloc::vec::Vec;

use mezza_core::{
    Aead, AeadKey, Backend, Blake2b512, Secret, Suite, SuiteId, Wipe, Wiping, blake2b,
};

use super::{Agreement, Kdf, Kem, RatchetSuite, halves, key_and_iv};
use crate::wire::{ContainerFormat, container};
use crate::x3dh::Transcript;

/// Suite 0x0101, which every device of the product speaks.
#[derive(Debug)]
pub struct B2c20;

impl Suite for B2c20 {
    const ID: SuiteId = SuiteId(0x0101);
    const NAME: &'static str = "b2c20";
    type SignatureHash = Blake2b512;
    type Aead = SyntheticChacha;
}

impl RatchetSuite for B2c20 {
    type Kdf = KeyedBlake2b;
    type Wire = ContainerFormat;
}

/// Suite 0x0102: the product suite with ML-KEM-1024 in the handshake.
#[derive(Debug)]
pub struct B2c20Pq;

impl Suite for B2c20Pq {
    const ID: SuiteId = SuiteId(0x0102);
    const NAME: &'static str = "b2c20-pq";
    type SignatureHash = Blake2b512;
    type Aead = SyntheticChacha;
}

impl RatchetSuite for B2c20Pq {
    type Kdf = KeyedBlake2b;
    type Wire = ContainerFormat;
    const KEM: Option<Kem> = Some(Kem::MlKem1024);
}

/// The key schedule of both suites. Every step is one call of keyed BLAKE2b with a personalisation.
#[derive(Debug)]
pub struct KeyedBlake2b;

impl Kdf for KeyedBlake2b {
    fn derive_agreement(shared: &[Secret<32>], transcript: &Transcript<'_>) -> Agreement {
        let transcript = transcript.hash();
        let mut parts: Vec<&[u8]> = Vec::with_capacity(shared.len() + 2);
        parts.push(&[0xff; 32]);
        parts.extend(shared.iter().map(|secret| secret.expose().as_slice()));
        parts.push(&transcript);
        let (root, exporter) = hash_pair(&[], "b2c20 x3dh", &parts);
        let mut id = [0; 16];
        blake2b(&mut id, &[], "b2c20 session", &[&transcript]);
        Agreement { id, root, exporter }
    }

    fn step_root(root: &Secret<32>, shared: &Secret<32>) -> (Secret<32>, Secret<32>) {
        hash_pair(root.expose(), "b2c20 root", &[shared.expose()])
    }

    fn step_chain(chain: &mut Secret<32>) -> Secret<32> {
        let mut wide = Wiping::new([0; 64]);
        blake2b(wide.as_mut_slice(), chain.expose(), "b2c20 chain", &[]);
        chain.overwrite_with(|out| out.copy_from_slice(&wide[..32]));
        Secret::init_with(|out| out.copy_from_slice(&wide[32..]))
    }
}

/// Returns the two halves of a 64-byte digest.
fn hash_pair(key: &[u8], person: &str, parts: &[&[u8]]) -> (Secret<32>, Secret<32>) {
    let mut wide = Wiping::new([0; 64]);
    blake2b(wide.as_mut_slice(), key, person, parts);
    halves(&wide)
}

/// Bytes of the synthetic nonce N in front of the ciphertext.
const NONCE_BYTES: usize = 16;
/// Bytes of the tag after the ciphertext.
const TAG_BYTES: usize = 16;
/// The additional data begins with both identity keys, 32 bytes each.
const IDENTITIES_BYTES: usize = 64;

/// ChaCha20-Poly1305 with a key and nonce that depend on the text. A restored old state seals a
/// second text under a different key and nonce.
///
/// ```text
/// X = u32 len(P) | u8 len(outer) | outer | body      N = B_16(mk, "b2c20 nonce", X)
/// key[32] | nonce[12] = B_44(mk, "b2c20 seal", N)    sealed = N | ciphertext of P | tag
/// ```
#[derive(Debug)]
pub struct SyntheticChacha;

impl Aead for SyntheticChacha {
    const NONCE_BYTES: usize = NONCE_BYTES;

    fn sealed_len(text: usize) -> usize {
        NONCE_BYTES + text + TAG_BYTES
    }

    fn seal<B: Backend>(mk: &Secret<32>, aad: &[u8], out: &mut Vec<u8>, start: usize) {
        let (front, text) = out[start..].split_at_mut(NONCE_BYTES);
        let nonce = derive_nonce(mk, aad, text);
        front.copy_from_slice(&nonce);
        let (key, iv) = text_cipher::<B>(mk, &nonce);
        let tag = key.seal(&iv, aad, text);
        out.extend_from_slice(&tag);
    }

    fn open<B: Backend>(mk: &Secret<32>, aad: [&[u8]; 2], sealed: &[u8]) -> Option<Vec<u8>> {
        let (nonce, rest) = sealed.split_first_chunk::<NONCE_BYTES>()?;
        let (ciphertext, tag) = rest.split_last_chunk::<TAG_BYTES>()?;
        if !aad[1].is_empty() {
            return None;
        }
        let (key, iv) = text_cipher::<B>(mk, nonce);
        let mut text = ciphertext.to_vec();
        if key.open(&iv, aad[0], &mut text, tag) {
            return Some(text);
        }
        text.wipe();
        None
    }
}

/// Derives the nonce N. `aad` contains the outer part with its length after the identity keys. The
/// body is `text` without its padding.
fn derive_nonce(mk: &Secret<32>, aad: &[u8], text: &[u8]) -> [u8; NONCE_BYTES] {
    let outer_len = aad.get(IDENTITIES_BYTES).copied().unwrap_or(0);
    let outer_end = IDENTITIES_BYTES + usize::from(outer_len);
    let outer = aad.get(IDENTITIES_BYTES + 1..=outer_end).unwrap_or(&[]);
    let body = container::unpadded_bytes(text).map_or(text, |len| &text[..len]);
    let [a, b, c, d] = (text.len() as u32).to_be_bytes();
    let mut nonce = [0; NONCE_BYTES];
    blake2b(&mut nonce, mk.expose(), "b2c20 nonce", &[&[a, b, c, d, outer_len], outer, body]);
    nonce
}

/// Derives the AEAD key and nonce of one text from the nonce N.
fn text_cipher<B: Backend>(mk: &Secret<32>, nonce: &[u8; NONCE_BYTES]) -> (B::Chacha, [u8; 12]) {
    let mut wide = Wiping::new([0; 44]);
    blake2b(wide.as_mut_slice(), mk.expose(), "b2c20 seal", &[nonce]);
    key_and_iv::<B>(&wide)
}
