//! Key roles, expansion, and the key schedules of lab variants and pairing.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use data_encoding::BASE32_NOPAD;
use hkdf::Hkdf;
use hmac::{Hmac, KeyInit as _, Mac as _};
use mezza_core::{CryptoRng, Hash512 as _, Secret, Sha512};
use sha2::{Digest as _, Sha256};
use zeroize::Zeroize as _;

use crate::group::{Group, SharedElement};

/// SHA-256 over parts, one behind the other.
pub(crate) fn sha256(parts: &[&[u8]]) -> [u8; 32] {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update(part);
    }
    hash.finalize().into()
}

/// HMAC-SHA512 (RFC 2104), 64 bytes.
pub(crate) fn hmac_sha512(key: &[u8; 32], parts: &[&[u8]]) -> [u8; 64] {
    // A key of 32 bytes always fits.
    let Ok(mut mac) = Hmac::<sha2::Sha512>::new_from_slice(key) else { return [0; 64] };
    for part in parts {
        mac.update(part);
    }
    mac.finalize().into_bytes().into()
}

/// The first `bytes` bytes of SHA-512(label | 00 | u32 i) for i = 0, 1, ..
pub fn expand_label(label: &[u8], bytes: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.next_multiple_of(64));
    let mut counter = 0_u32;
    while out.len() < bytes {
        out.extend_from_slice(&Sha512::hash(&[label, &[0], &counter.to_be_bytes()]));
        // Blocks differ by the counter, so that outputs longer than 64 bytes do not repeat.
        counter += 1;
    }
    out.truncate(bytes);
    out
}

/// The key of a variant of the lab: SHA-256("guard1 lab key" | enc(k)), 32 bytes.
pub fn lab_key<G: Group>(group: &G, shared: &SharedElement<G>) -> Secret<32> {
    let mut encoded = shared.encode(group);
    let key = Secret::init_with(|key| *key = sha256(&[b"guard1 lab key", &encoded]));
    encoded.zeroize();
    key
}

/// The name of a client at its guard, 16 bytes, derived from the pairing key.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct GuardClientId(pub [u8; 16]);

impl fmt::Debug for GuardClientId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("GuardClientId")
    }
}

/// Protects control frames between a client and its guard; 32 bytes, made by the guard, entered at
/// the client once.
pub struct PairingKey(Secret<32>);

/// A pairing code that is mistyped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the pairing code is mistyped: it has 56 letters and digits; enter it again")]
pub struct PairingCodeError;

/// Characters of a pairing code: 35 bytes in base32.
pub const PAIRING_CODE_CHARS: usize = 56;

impl PairingKey {
    /// A fresh key.
    pub fn random(rng: &mut dyn CryptoRng) -> Self {
        Self(Secret::random(rng))
    }

    /// The key of stored bytes.
    pub const fn from_secret(secret: Secret<32>) -> Self {
        Self(secret)
    }

    /// The name of the client that has this key.
    pub fn client_id(&self) -> GuardClientId {
        let hash = sha256(&[b"guard1 client", self.0.expose()]);
        GuardClientId(core::array::from_fn(|at| hash[at]))
    }

    /// The code that a person enters: base32 of the key and 3 bytes of its hash, 56 characters.
    pub fn pairing_code(&self) -> Secret<PAIRING_CODE_CHARS> {
        let mut bytes = [0; 35];
        bytes[..32].copy_from_slice(self.0.expose());
        bytes[32..].copy_from_slice(&self.code_check());
        let code = Secret::init_with(|code| BASE32_NOPAD.encode_mut(&bytes, code.as_mut_slice()));
        bytes.zeroize();
        code
    }

    /// Reads a code; small letters and spaces do no harm.
    ///
    /// # Errors
    /// It is mistyped.
    pub fn from_code(code: &str) -> Result<Self, PairingCodeError> {
        let mut typed: String =
            code.chars().filter(|c| !c.is_whitespace()).map(|c| c.to_ascii_uppercase()).collect();
        let mut bytes = BASE32_NOPAD.decode(typed.as_bytes()).unwrap_or_default();
        // The code is the key, so no copy of it stays behind.
        typed.zeroize();
        let key = bytes.first_chunk::<32>().map(|key| Self(Secret::copy_from(key)));
        // 24 bits find nearly all typing errors. The key itself is proved by the channel.
        let key = key.filter(|key| bytes[32..] == key.code_check());
        bytes.zeroize();
        key.ok_or(PairingCodeError)
    }

    fn code_check(&self) -> [u8; 3] {
        let hash = sha256(&[b"guard1 pairing", self.0.expose()]);
        core::array::from_fn(|at| hash[at])
    }

    /// A second copy, named so that each one is seen in a review.
    #[must_use]
    pub fn duplicate(&self) -> Self {
        Self(self.0.duplicate())
    }

    /// The key of one direction of a control connection, 32 bytes.
    pub(crate) fn control_key(&self, nonces: [&[u8; 32]; 2], info: &[u8]) -> Secret<32> {
        // Both nonces, so that neither end alone can bring back the keys of an earlier connection.
        let salt = nonces.map(|nonce| *nonce).concat();
        hkdf_sha256(&salt, self.0.expose(), info)
    }
}

impl fmt::Debug for PairingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PairingKey")
    }
}

/// HKDF-SHA256 (RFC 5869) with `N` bytes of output.
pub(crate) fn hkdf_sha256<const N: usize>(salt: &[u8], ikm: &[u8], info: &[u8]) -> Secret<N> {
    Secret::init_with(|out| {
        // At most 255 times 32 bytes, so this never fails.
        let _ = Hkdf::<Sha256>::new(Some(salt), ikm).expand(info, out);
    })
}

/// HMAC-SHA256 (RFC 2104), the first 16 bytes.
pub(crate) fn hmac_tag(key: &[u8], text: &[u8]) -> [u8; 16] {
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(key) else { return [0; 16] };
    mac.update(text);
    let bytes: [u8; 32] = mac.finalize().into_bytes().into();
    core::array::from_fn(|at| bytes[at])
}
