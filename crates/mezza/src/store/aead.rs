//! XChaCha20-Poly1305 (draft-irtf-cfrg-xchacha-03), the one cipher of the vault.
//!
//! Its nonce of 24 bytes is drawn by chance for every sealing, so that no counter has to survive a
//! crash or a restored copy of the folder.

use chacha20poly1305::aead::{AeadInOut, KeyInit, inout::InOutBuf};
use chacha20poly1305::{Key, Tag, XChaCha20Poly1305, XNonce};
use mezza_core::{Secret, Wiping};

use crate::exit::Fault;

/// Bytes of a nonce.
pub const NONCE_BYTES: usize = 24;
/// Bytes of a tag.
pub const TAG_BYTES: usize = 16;
/// Bytes that sealing adds.
pub const SEAL_BYTES: usize = NONCE_BYTES + TAG_BYTES;

/// `nonce[24] | ciphertext | tag[16]`.
pub fn seal(
    key: &Secret<32>,
    nonce: &[u8; NONCE_BYTES],
    aad: &[u8],
    text: &[u8],
) -> Result<Vec<u8>, Fault> {
    let mut sealed = Vec::with_capacity(SEAL_BYTES + text.len());
    sealed.extend_from_slice(nonce);
    sealed.extend_from_slice(text);
    let tag = cipher(key)
        .encrypt_inout_detached(
            &XNonce::from(*nonce),
            aad,
            InOutBuf::from(&mut sealed[NONCE_BYTES..]),
        )
        .map_err(|_| Fault::bug("a text is too long to be sealed"))?;
    sealed.extend_from_slice(&tag);
    Ok(sealed)
}

/// What was sealed, if key, additional data and every byte are the ones of [`seal`].
pub fn open(key: &Secret<32>, aad: &[u8], sealed: &[u8]) -> Option<Wiping<Vec<u8>>> {
    let (nonce, rest) = sealed.split_first_chunk::<NONCE_BYTES>()?;
    let (text, tag) = rest.split_last_chunk::<TAG_BYTES>()?;
    let mut text = Wiping::new(text.to_vec());
    let buffer = InOutBuf::from(text.as_mut_slice());
    let (nonce, tag) = (XNonce::from(*nonce), Tag::from(*tag));
    cipher(key).decrypt_inout_detached(&nonce, aad, buffer, &tag).ok()?;
    Some(text)
}

fn cipher(key: &Secret<32>) -> XChaCha20Poly1305 {
    XChaCha20Poly1305::new(&Key::from(*key.expose()))
}
