//! XChaCha20-Poly1305 (draft-irtf-cfrg-xchacha-03), the one cipher of the vault.
//!
//! Its nonce of 24 bytes is random for every sealing, so that no counter must survive a crash or a
//! restored copy of the folder.

use mezza_core::xchacha;
pub(crate) use mezza_core::xchacha::{NONCE_BYTES, TAG_BYTES};
use mezza_core::{Secret, Wiping};

use crate::api::Fault;

/// Bytes that sealing adds.
pub(crate) const SEAL_BYTES: usize = NONCE_BYTES + TAG_BYTES;

/// Seals a text into `nonce[24] | ciphertext | tag[16]`.
pub(crate) fn seal(
    key: &Secret<32>,
    nonce: &[u8; NONCE_BYTES],
    aad: &[u8],
    text: &[u8],
) -> Result<Vec<u8>, Fault> {
    let mut sealed = Vec::with_capacity(SEAL_BYTES + text.len());
    sealed.extend_from_slice(nonce);
    sealed.extend_from_slice(text);
    let tag = xchacha::seal(key, nonce, aad, &mut sealed[NONCE_BYTES..])
        .ok_or_else(|| Fault::bug("a text is too long to be sealed"))?;
    sealed.extend_from_slice(&tag);
    Ok(sealed)
}

/// Returns the plaintext if key, additional data and all bytes are those of [`seal`].
pub(crate) fn open(key: &Secret<32>, aad: &[u8], sealed: &[u8]) -> Option<Wiping<Vec<u8>>> {
    let (nonce, rest) = sealed.split_first_chunk::<NONCE_BYTES>()?;
    let (text, tag) = rest.split_last_chunk::<TAG_BYTES>()?;
    let mut text = Wiping::new(text.to_vec());
    xchacha::open(key, nonce, aad, &mut text, tag).then_some(text)
}
