//! Suite 0x7F04, which follows the paper literally. Only hash and AEAD are exchanged. The key
//! schedule, the messages and the first byte are those of Signal, and a restored old state uses one
//! keystream twice. The suite exists to be measured and attacked: only the lab imports it
//! (RATCHET-46), and no message, list or stored row can name it.

use alloc::vec::Vec;

use mezza_core::{Aead, AeadKey, Backend, Blake2b512, Secret, Suite, SuiteId, Wipe};

use super::signal::{self, Dialect, HmacKdf};
use super::{RatchetSuite, key_and_iv};
use crate::wire::SignalFormat;

/// Suite 0x7F04, which follows the paper literally.
#[derive(Debug)]
pub struct Paper;

impl Suite for Paper {
    const ID: SuiteId = SuiteId(0x7f04);
    const NAME: &'static str = "paper";
    type SignatureHash = Blake2b512;
    type Aead = DerivedChacha;
}

impl RatchetSuite for Paper {
    type Kdf = HmacKdf<Self>;
    type Wire = SignalFormat<Self>;
}

impl Dialect for Paper {
    const SUITE: SuiteId = Self::ID;
    const VERSION: u8 = 3;
    const MAC_BYTES: usize = 0;
    const X3DH_INFO: &'static str = "WhisperText";
    const EXPORTER_AT: usize = 64;
}

/// Bytes of the tag after the ciphertext.
const TAG_BYTES: usize = 16;

/// ChaCha20-Poly1305 under `key[32] | nonce[12] = HKDF(0 x32, mk, "WhisperMessageKeys", 44)`.
#[derive(Debug)]
pub struct DerivedChacha;

impl Aead for DerivedChacha {
    const NONCE_BYTES: usize = 0;

    fn sealed_len(text: usize) -> usize {
        text + TAG_BYTES
    }

    fn seal<B: Backend>(mk: &Secret<32>, aad: &[u8], out: &mut Vec<u8>, start: usize) {
        let (key, iv) = text_cipher::<B>(mk);
        let tag = key.seal(&iv, aad, &mut out[start..]);
        out.extend_from_slice(&tag);
    }

    fn open<B: Backend>(mk: &Secret<32>, aad: [&[u8]; 2], sealed: &[u8]) -> Option<Vec<u8>> {
        let (ciphertext, tag) = sealed.split_last_chunk::<TAG_BYTES>()?;
        if !aad[1].is_empty() {
            return None;
        }
        let (key, iv) = text_cipher::<B>(mk);
        let mut text = ciphertext.to_vec();
        if key.open(&iv, aad[0], &mut text, tag) {
            return Some(text);
        }
        text.wipe();
        None
    }
}

/// Derives the AEAD key and nonce of one text from the message key.
fn text_cipher<B: Backend>(mk: &Secret<32>) -> (B::Chacha, [u8; 12]) {
    key_and_iv::<B>(&signal::derive_bytes(None, mk, "WhisperMessageKeys"))
}
