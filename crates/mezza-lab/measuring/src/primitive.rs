//! The operations of the paper's tables, for all implementations.
//!
//! ```text
//! sha512  blake2b    cbc-hmac-seal  cbc-hmac-open    chacha-seal  chacha-open    gcm-seal  gcm-open
//! ```
//! Each call sets up its key, because a message key is used once. Texts are sealed and opened in place.

use std::hint::black_box;

use crate::rate::Call;

/// Bytes of additional data: two identity keys as Signal writes them.
pub const AAD_BYTES: usize = 66;

/// The keys of one text.
pub struct CipherKeys {
    /// The key of the cipher.
    pub cipher: [u8; 32],
    /// The key of the MAC, for ciphers that have one.
    pub mac: [u8; 32],
    /// The iv of CBC; its first 12 bytes are the nonce of the other ciphers.
    pub iv: [u8; 16],
    /// The additional data.
    pub aad: [u8; AAD_BYTES],
}

impl CipherKeys {
    /// Fixed keys: their values do not change the time.
    pub const FIXED: Self =
        Self { cipher: [1; 32], mac: [2; 32], iv: [3; 16], aad: [4; AAD_BYTES] };

    /// The first 12 bytes of the iv.
    pub fn nonce(&self) -> [u8; 12] {
        std::array::from_fn(|at| self.iv[at])
    }
}

/// An operation of one provider.
#[derive(Clone, Copy)]
pub enum Implementation {
    /// A hash with 64 bytes of output.
    Hash(fn(&[u8]) -> [u8; 64]),
    /// Authenticated encryption.
    Aead {
        /// Seals in place; padding and tag are appended.
        seal: fn(&CipherKeys, &mut Vec<u8>),
        /// Opens in place. Returns true if the text was authentic.
        open: fn(&CipherKeys, &mut [u8]) -> bool,
    },
}

/// Prepares a batch of `calls` calls of an operation on `size` bytes. Returns `None` if `code` has
/// no such operation.
pub fn prepare(
    code: impl Fn(&str) -> Option<Implementation>,
    op: &str,
    size: usize,
    calls: usize,
) -> Option<Call> {
    let keys = CipherKeys::FIXED;
    // The capacity includes padding and tag, so that sealing moves nothing in memory.
    let fresh = || {
        let mut text = Vec::with_capacity(size + 64);
        text.resize(size, 7);
        text
    };
    if let Some(Implementation::Hash(hash)) = code(op) {
        let text = fresh();
        return Some(Box::new(move |_| {
            black_box(hash(black_box(&text)));
        }));
    }
    let (name, way) = op.rsplit_once('-')?;
    let Some(Implementation::Aead { seal, open }) = code(name) else { return None };
    let mut texts: Vec<Vec<u8>> = (0..calls).map(|_| fresh()).collect();
    match way {
        "seal" => Some(Box::new(move |n| seal(&keys, &mut texts[n]))),
        "open" => {
            for text in &mut texts {
                seal(&keys, text);
            }
            Some(Box::new(move |n| assert!(open(&keys, &mut texts[n]), "not authentic")))
        }
        _ => None,
    }
}
