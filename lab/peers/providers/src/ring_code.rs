//! ring: no BLAKE2b, no CBC.

use ring::aead::{AES_256_GCM, Aad, Algorithm, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use ring::digest;

use mezza_lab_measuring::primitive::{CipherKeys, Implementation};

/// Returns the implementation of an operation, if ring has it.
pub fn find_implementation(op: &str) -> Option<Implementation> {
    Some(match op {
        "sha512" => Implementation::Hash(|text| {
            let hash = digest::digest(&digest::SHA512, text);
            std::array::from_fn(|at| hash.as_ref()[at])
        }),
        "chacha" => Implementation::Aead {
            seal: |keys, text| seal(&CHACHA20_POLY1305, keys, text),
            open: |keys, text| open(&CHACHA20_POLY1305, keys, text),
        },
        "gcm" => Implementation::Aead {
            seal: |keys, text| seal(&AES_256_GCM, keys, text),
            open: |keys, text| open(&AES_256_GCM, keys, text),
        },
        _ => return None,
    })
}

fn make_key(algorithm: &'static Algorithm, keys: &CipherKeys) -> LessSafeKey {
    LessSafeKey::new(UnboundKey::new(algorithm, &keys.cipher).expect("32 bytes"))
}

fn seal(algorithm: &'static Algorithm, keys: &CipherKeys, text: &mut Vec<u8>) {
    let nonce = Nonce::assume_unique_for_key(keys.nonce());
    make_key(algorithm, keys)
        .seal_in_place_append_tag(nonce, Aad::from(&keys.aad), text)
        .expect("short");
}

fn open(algorithm: &'static Algorithm, keys: &CipherKeys, text: &mut [u8]) -> bool {
    let nonce = Nonce::assume_unique_for_key(keys.nonce());
    make_key(algorithm, keys).open_in_place(nonce, Aad::from(&keys.aad), text).is_ok()
}

/// Seals a message under a key that no other one has; its tag.
pub fn seal_message(key: &[u8; 32], text: &mut [u8]) -> Option<[u8; 16]> {
    let key = LessSafeKey::new(UnboundKey::new(&CHACHA20_POLY1305, key).ok()?);
    let nonce = Nonce::assume_unique_for_key([0; 12]);
    let tag = key.seal_in_place_separate_tag(nonce, Aad::empty(), text).ok()?;
    tag.as_ref().try_into().ok()
}
