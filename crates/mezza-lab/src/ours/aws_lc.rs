//! aws-lc through aws-lc-rs, as the program uses it. aws-lc-rs has no BLAKE2b.

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::cipher::{
    AES_256, DecryptionContext, EncryptionContext, PaddedBlockDecryptingKey,
    PaddedBlockEncryptingKey, UnboundCipherKey,
};
use aws_lc_rs::iv::FixedLength;
use aws_lc_rs::{digest, hmac};
use mezza::testing::backend::AwsLc;

use mezza_lab_measuring::primitive::{CipherKeys, Implementation};
use mezza_lab_measuring::rustcrypto::{MAC_BYTES, chacha};

/// Returns the implementation of an operation, if aws-lc-rs has one.
pub fn find_implementation(op: &str) -> Option<Implementation> {
    Some(match op {
        "sha512" => Implementation::Hash(sha512),
        "chacha" => chacha::<AwsLc>(),
        "cbc-hmac" => Implementation::Aead { seal: cbc_seal, open: cbc_open },
        "gcm" => Implementation::Aead { seal: gcm_seal, open: gcm_open },
        _ => return None,
    })
}

fn sha512(text: &[u8]) -> [u8; 64] {
    let hash = digest::digest(&digest::SHA512, text);
    std::array::from_fn(|at| hash.as_ref()[at])
}

fn cbc_seal(keys: &CipherKeys, text: &mut Vec<u8>) {
    let sealed = UnboundCipherKey::new(&AES_256, &keys.cipher)
        .and_then(PaddedBlockEncryptingKey::cbc_pkcs7)
        .and_then(|key| {
            key.less_safe_encrypt(text, EncryptionContext::Iv128(FixedLength::from(keys.iv)))
        });
    assert!(sealed.is_ok(), "a text of any length is sealed");
    let mac = compute_mac(keys, text);
    text.extend_from_slice(&mac.as_ref()[..MAC_BYTES]);
}

fn cbc_open(keys: &CipherKeys, text: &mut [u8]) -> bool {
    let Some((sealed, tag)) = text.split_last_chunk_mut::<MAC_BYTES>() else { return false };
    if compute_mac(keys, sealed).as_ref()[..MAC_BYTES] != *tag {
        return false;
    }
    UnboundCipherKey::new(&AES_256, &keys.cipher)
        .and_then(PaddedBlockDecryptingKey::cbc_pkcs7)
        .and_then(|key| {
            let iv = DecryptionContext::Iv128(FixedLength::from(keys.iv));
            key.decrypt(sealed, iv).map(|_| ())
        })
        .is_ok()
}

fn compute_mac(keys: &CipherKeys, sealed: &[u8]) -> hmac::Tag {
    let mut mac = hmac::Context::with_key(&hmac::Key::new(hmac::HMAC_SHA256, &keys.mac));
    mac.update(&keys.aad);
    mac.update(sealed);
    mac.sign()
}

fn gcm_seal(keys: &CipherKeys, text: &mut Vec<u8>) {
    let sealed = gcm_key(keys).and_then(|key| {
        let nonce = Nonce::assume_unique_for_key(keys.nonce());
        key.seal_in_place_append_tag(nonce, Aad::from(&keys.aad), text).ok()
    });
    assert!(sealed.is_some(), "a short text is sealed");
}

fn gcm_open(keys: &CipherKeys, text: &mut [u8]) -> bool {
    let nonce = Nonce::assume_unique_for_key(keys.nonce());
    gcm_key(keys).is_some_and(|key| key.open_in_place(nonce, Aad::from(&keys.aad), text).is_ok())
}

fn gcm_key(keys: &CipherKeys) -> Option<LessSafeKey> {
    UnboundKey::new(&AES_256_GCM, &keys.cipher).ok().map(LessSafeKey::new)
}
