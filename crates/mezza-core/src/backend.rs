//! Backends: the libraries that compute the primitives. All backends compute equal bytes.

use chacha20poly1305::aead::{AeadInOut, KeyInit, inout::InOutBuf};
use chacha20poly1305::{ChaCha20Poly1305, Key, Nonce, Tag};
use curve25519_dalek::montgomery::MontgomeryPoint;

use crate::{PublicKey, Secret, ZeroSecret};
use zeroize::Zeroize;

/// The primitives that more than one protocol needs.
pub trait Backend: 'static {
    /// ChaCha20-Poly1305 under a prepared key (RFC 8439).
    type Chacha: AeadKey<32>;

    /// An X25519 private key as this backend computes with it.
    type Pair: Send + 'static;

    /// Prepares an X25519 private scalar of 32 bytes (clamped by X25519) once for all its later
    /// uses.
    fn prepare_scalar(scalar: &Secret<32>) -> Self::Pair;

    /// The public key of a prepared scalar.
    fn public_key(pair: &Self::Pair) -> PublicKey;

    /// Returns the X25519 shared secret of 32 bytes (RFC 7748).
    ///
    /// # Errors
    /// [`ZeroSecret`] if `their` has low order.
    fn diffie_hellman(pair: &Self::Pair, their: &PublicKey) -> Result<Secret<32>, ZeroSecret>;
}

/// A key of `K` bytes for an AEAD with 12-byte nonces and 16-byte tags. It is set up once and then
/// used for many frames in place.
pub trait AeadKey<const K: usize>: Sized {
    /// Sets up an AEAD key from its bytes.
    fn new(key: &[u8; K]) -> Self;

    /// Encrypts `text` in place and returns the 16-byte tag.
    fn seal(&self, iv: &[u8; 12], aad: &[u8], text: &mut [u8]) -> [u8; 16];

    /// Decrypts `text` in place. Returns true if the tag is right; otherwise the content of `text`
    /// must not be used.
    fn open(&self, iv: &[u8; 12], aad: &[u8], text: &mut [u8], tag: &[u8; 16]) -> bool;
}

/// A backend of curve25519-dalek and RustCrypto: no C code, builds for every target.
#[derive(Debug)]
pub struct PortableBackend;

impl Backend for PortableBackend {
    type Chacha = PortableChacha;
    type Pair = Secret<32>;

    fn prepare_scalar(scalar: &Secret<32>) -> Secret<32> {
        scalar.duplicate()
    }

    fn public_key(scalar: &Secret<32>) -> PublicKey {
        PublicKey(MontgomeryPoint::mul_base_clamped(*scalar.expose()).to_bytes())
    }

    fn diffie_hellman(scalar: &Secret<32>, their: &PublicKey) -> Result<Secret<32>, ZeroSecret> {
        let mut shared = MontgomeryPoint(their.0).mul_clamped(*scalar.expose());
        let secret = Secret::copy_from(shared.as_bytes());
        shared.zeroize();
        if secret == Secret::init_with(|_| {}) { Err(ZeroSecret) } else { Ok(secret) }
    }
}

/// The frame key of [`PortableBackend`].
pub struct PortableChacha(ChaCha20Poly1305);

impl AeadKey<32> for PortableChacha {
    fn new(key: &[u8; 32]) -> Self {
        Self(ChaCha20Poly1305::new(&Key::from(*key)))
    }

    #[expect(clippy::expect_used, reason = "the only error is a text above 256 GiB")]
    fn seal(&self, iv: &[u8; 12], aad: &[u8], text: &mut [u8]) -> [u8; 16] {
        let text = InOutBuf::from(text);
        self.0.encrypt_inout_detached(&Nonce::from(*iv), aad, text).expect("short text").into()
    }

    fn open(&self, iv: &[u8; 12], aad: &[u8], text: &mut [u8], tag: &[u8; 16]) -> bool {
        let text = InOutBuf::from(text);
        self.0.decrypt_inout_detached(&Nonce::from(*iv), aad, text, &Tag::from(*tag)).is_ok()
    }
}
