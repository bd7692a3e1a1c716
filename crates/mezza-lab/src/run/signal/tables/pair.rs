//! The inputs of the tables, and the pairs of primitives: the paper's choice and the primitive that
//! it replaces.

/// A public key in Signal's encoding.
pub const KEY: Input = Input { name: "key", size: 33, words: "a public key, 33 B" };
/// A short text; the paper does not give its length.
pub const TEXT: Input = Input { name: "text", size: 32, words: "a short text, 32 B" };
pub const FILE: Input = Input { name: "file", size: 1_400_000, words: "a file, 1.4 MB" };

/// The input of an operation.
#[derive(Clone, Copy)]
pub struct Input {
    pub name: &'static str,
    pub size: usize,
    pub words: &'static str,
}

/// The paper's choice and the primitive that it replaces.
#[derive(Clone, Copy)]
pub struct Pair {
    pub words: &'static str,
    pub new: &'static str,
    pub old: &'static str,
    /// The operation of AES-256-GCM, if it is an alternative.
    pub gcm: Option<&'static str>,
}

impl Pair {
    /// Returns all measured operations.
    pub fn ops(self) -> impl Iterator<Item = &'static str> {
        [self.new, self.old].into_iter().chain(self.gcm)
    }
}

pub const HASH: Pair = Pair { words: "hash", new: "blake2b", old: "sha512", gcm: None };
pub const SEAL: Pair =
    Pair { words: "encrypt", new: "chacha-seal", old: "cbc-hmac-seal", gcm: Some("gcm-seal") };
pub const OPEN: Pair =
    Pair { words: "decrypt", new: "chacha-open", old: "cbc-hmac-open", gcm: Some("gcm-open") };
