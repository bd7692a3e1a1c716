//! `RustCrypto`: SHA-512 and ChaCha20-Poly1305, which `mezza_core` takes from there; BLAKE2b of the
//! crate `blake2`, which is not ours; AES-256-CBC with HMAC-SHA256 as `signal-v3` uses them.

use aes::{Aes256Dec, Aes256Enc};
use blake2::{Blake2b512, Digest as _};
use cbc::cipher::block_padding::Pkcs7;
use cbc::cipher::{BlockModeDecrypt as _, BlockModeEncrypt as _, KeyIvInit as _};
use cbc::{Decryptor, Encryptor};
use hmac::{Hmac, KeyInit as _, Mac as _};
use mezza_core::{AeadKey as _, Backend, Hash512 as _, PortableBackend, Sha512};
use sha2::Sha256;

use crate::primitive::{CipherKeys, Implementation};

/// Bytes of a block of AES.
const BLOCK_BYTES: usize = 16;
/// Bytes of HMAC-SHA256 that Signal sends.
pub const MAC_BYTES: usize = 8;

/// Returns the implementation of an operation, or `None` if `RustCrypto` has none.
pub fn code(op: &str) -> Option<Implementation> {
    Some(match op {
        "sha512" => Implementation::Hash(|text| Sha512::hash(&[text])),
        "blake2b" => Implementation::Hash(|text| Blake2b512::digest(text).into()),
        "chacha" => chacha::<PortableBackend>(),
        "cbc-hmac" => Implementation::Aead { seal: cbc_seal, open: cbc_open },
        _ => return None,
    })
}

/// Returns the operations of ChaCha20-Poly1305 in a backend.
pub fn chacha<B: Backend>() -> Implementation {
    Implementation::Aead {
        seal: |keys, text| {
            let tag = B::Chacha::new(&keys.cipher).seal(&keys.nonce(), &keys.aad, text);
            text.extend_from_slice(&tag);
        },
        open: |keys, text| {
            let Some((text, tag)) = text.split_last_chunk_mut::<16>() else { return false };
            B::Chacha::new(&keys.cipher).open(&keys.nonce(), &keys.aad, text, tag)
        },
    }
}

fn cbc_seal(keys: &CipherKeys, text: &mut Vec<u8>) {
    let bytes = text.len();
    text.resize((bytes / BLOCK_BYTES + 1) * BLOCK_BYTES, 0);
    let cipher = Encryptor::<Aes256Enc>::new(&keys.cipher.into(), &keys.iv.into());
    let sealed = cipher.encrypt_padded::<Pkcs7>(text, bytes);
    assert!(sealed.is_ok(), "there is room for the padding");
    let mac = mac(keys, text);
    text.extend_from_slice(&mac[..MAC_BYTES]);
}

fn cbc_open(keys: &CipherKeys, text: &mut [u8]) -> bool {
    let Some((sealed, tag)) = text.split_last_chunk_mut::<MAC_BYTES>() else { return false };
    // The tags of a measurement are public, so comparing them may take any time.
    if mac(keys, sealed)[..MAC_BYTES] != *tag {
        return false;
    }
    let cipher = Decryptor::<Aes256Dec>::new(&keys.cipher.into(), &keys.iv.into());
    cipher.decrypt_padded::<Pkcs7>(sealed).is_ok()
}

fn mac(keys: &CipherKeys, sealed: &[u8]) -> [u8; 32] {
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(&keys.mac) else { return [0; 32] };
    mac.update(&keys.aad);
    mac.update(sealed);
    mac.finalize().into_bytes().into()
}
