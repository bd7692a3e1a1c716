//! Suite 0x0003: Signal's protocol of 2016 to 2023, byte for byte. For interoperation, tests and
//! measurements; no carrier of the product offers it.

use alloc::vec::Vec;

use aes::{Aes256Dec, Aes256Enc};
use cbc::cipher::block_padding::Pkcs7;
use cbc::cipher::{BlockModeDecrypt, BlockModeEncrypt, KeyIvInit};
use cbc::{Decryptor, Encryptor};
use hmac::Mac;
use mezza_core::{Aead, Backend, Secret, Sha512, Suite, SuiteId, Wipe, Wiping};
use subtle::ConstantTimeEq;

use super::RatchetSuite;
use super::signal::{self, Dialect, HmacKdf};
use crate::wire::SignalFormat;

/// Suite 0x0003, Signal's protocol of 2016 to 2023.
#[derive(Debug)]
pub struct V3;

impl Suite for V3 {
    const ID: SuiteId = SuiteId(0x0003);
    const NAME: &'static str = "signal-v3";
    type SignatureHash = Sha512;
    type Aead = CbcHmac;
}

impl RatchetSuite for V3 {
    type Kdf = HmacKdf<Self>;
    type Wire = SignalFormat<Self>;
}

impl Dialect for V3 {
    const SUITE: SuiteId = Self::ID;
    const VERSION: u8 = 3;
    const MAC_BYTES: usize = MAC_BYTES;
    const X3DH_INFO: &'static str = "WhisperText";
    const EXPORTER_AT: usize = 64;
}

/// Bytes of an AES block.
const BLOCK_BYTES: usize = 16;
/// Bytes of the HMAC-SHA256 in a message; the rest is cut off.
pub(super) const MAC_BYTES: usize = 8;

/// AES-256-CBC with PKCS#7, then 8 bytes of HMAC-SHA256 over the additional data and the
/// ciphertext.
///
/// ```text
/// cipher key[32] | mac key[32] | iv[16] = HKDF(0 x32, mk, "WhisperMessageKeys", 80)
/// sealed = ciphertext | HMAC(mac key, aad | ciphertext [| aad behind it])[..8]
/// ```
#[derive(Debug)]
pub struct CbcHmac;

impl Aead for CbcHmac {
    const NONCE_BYTES: usize = 0;

    fn sealed_len(text: usize) -> usize {
        (text / BLOCK_BYTES + 1) * BLOCK_BYTES + MAC_BYTES
    }

    #[expect(clippy::expect_used, reason = "the buffer has room for the padding")]
    fn seal<B: Backend>(mk: &Secret<32>, aad: &[u8], out: &mut Vec<u8>, start: usize) {
        let keys = Keys::derive(mk);
        let text_bytes = out.len() - start;
        out.resize(start + Self::sealed_len(text_bytes) - MAC_BYTES, 0);
        Encryptor::<Aes256Enc>::new(keys.cipher().into(), keys.iv().into())
            .encrypt_padded::<Pkcs7>(&mut out[start..], text_bytes)
            .expect("room for the padding");
        let mac = keys.compute_mac([aad, &out[start..], &[]]);
        out.extend_from_slice(&mac);
    }

    fn open<B: Backend>(mk: &Secret<32>, aad: [&[u8]; 2], sealed: &[u8]) -> Option<Vec<u8>> {
        let (ciphertext, mac) = sealed.split_last_chunk::<MAC_BYTES>()?;
        let keys = Keys::derive(mk);
        let expected = keys.compute_mac([aad[0], ciphertext, aad[1]]);
        if !bool::from(expected.ct_eq(mac)) {
            return None;
        }
        let mut text = ciphertext.to_vec();
        let cipher = Decryptor::<Aes256Dec>::new(keys.cipher().into(), keys.iv().into());
        let Ok(plain) = cipher.decrypt_padded::<Pkcs7>(&mut text) else {
            text.wipe();
            return None;
        };
        let text_bytes = plain.len();
        text.truncate(text_bytes);
        Some(text)
    }
}

/// The secrets of one message: cipher key, mac key, iv.
struct Keys(Wiping<[u8; 80]>);

impl Keys {
    fn derive(mk: &Secret<32>) -> Self {
        Self(signal::derive_bytes(None, mk, "WhisperMessageKeys"))
    }

    fn cipher(&self) -> &[u8; 32] {
        self.key_part(0)
    }

    fn iv(&self) -> &[u8; 16] {
        self.key_part(64)
    }

    #[expect(clippy::expect_used, reason = "80 bytes hold 32, 32 and 16")]
    fn key_part<const N: usize>(&self, at: usize) -> &[u8; N] {
        self.0[at..].first_chunk().expect("inside")
    }

    fn compute_mac(&self, parts: [&[u8]; 3]) -> [u8; MAC_BYTES] {
        let mut mac = signal::hmac(self.key_part(32));
        for part in parts {
            mac.update(part);
        }
        let mut short = [0; MAC_BYTES];
        short.copy_from_slice(&mac.finalize().into_bytes()[..MAC_BYTES]);
        short
    }
}
