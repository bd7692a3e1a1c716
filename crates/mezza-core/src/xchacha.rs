//! XChaCha20-Poly1305 (draft-irtf-cfrg-xchacha-03): its nonce of 24 bytes may be drawn at random.

use chacha20poly1305::aead::{AeadInOut, KeyInit, inout::InOutBuf};
use chacha20poly1305::{Key, Tag, XChaCha20Poly1305, XNonce};

use crate::Secret;

/// Bytes of a nonce.
pub const NONCE_BYTES: usize = 24;
/// Bytes of a tag.
pub const TAG_BYTES: usize = 16;

/// Encrypts `text` in place. Returns the tag, or `None` for a text above 256 GiB.
pub fn seal(
    key: &Secret<32>,
    nonce: &[u8; NONCE_BYTES],
    aad: &[u8],
    text: &mut [u8],
) -> Option<[u8; TAG_BYTES]> {
    let text = InOutBuf::from(text);
    cipher(key).encrypt_inout_detached(&XNonce::from(*nonce), aad, text).ok().map(Into::into)
}

/// Decrypts `text` in place. Returns true if the tag is right; otherwise the content of `text` must
/// not be used.
pub fn open(
    key: &Secret<32>,
    nonce: &[u8; NONCE_BYTES],
    aad: &[u8],
    text: &mut [u8],
    tag: &[u8; TAG_BYTES],
) -> bool {
    let nonce = XNonce::from(*nonce);
    let tag = Tag::from(*tag);
    cipher(key).decrypt_inout_detached(&nonce, aad, InOutBuf::from(text), &tag).is_ok()
}

fn cipher(key: &Secret<32>) -> XChaCha20Poly1305 {
    XChaCha20Poly1305::new(&Key::from(*key.expose()))
}
