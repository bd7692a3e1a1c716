//! The system's OpenSSL through its EVP calls; it has all of them.

use std::hint::black_box;

use openssl::cipher::{Cipher, CipherRef};
use openssl::cipher_ctx::CipherCtx;
use openssl::error::ErrorStack;
use openssl::hash::MessageDigest;
use openssl::pkey::PKey;
use openssl::sign::Signer;

use mezza_lab_measuring::primitive::{CipherKeys, Implementation};

const BLOCK_BYTES: usize = 16;
const MAC_BYTES: usize = 8;
const TAG_BYTES: usize = 16;

/// Returns the implementation of an operation, if OpenSSL has it.
pub fn find_implementation(op: &str) -> Option<Implementation> {
    Some(match op {
        "sha512" => Implementation::Hash(openssl::sha::sha512),
        "blake2b" => Implementation::Hash(hash_blake2b),
        "cbc-hmac" => Implementation::Aead {
            seal: |keys, text| cbc_seal(keys, text).expect("sealed"),
            open: |keys, text| cbc_open(keys, text).unwrap_or(false),
        },
        "chacha" => Implementation::Aead {
            seal: |keys, text| seal(Cipher::chacha20_poly1305(), keys, text).expect("sealed"),
            open: |keys, text| open(Cipher::chacha20_poly1305(), keys, text).is_ok(),
        },
        "gcm" => Implementation::Aead {
            seal: |keys, text| seal(Cipher::aes_256_gcm(), keys, text).expect("sealed"),
            open: |keys, text| open(Cipher::aes_256_gcm(), keys, text).is_ok(),
        },
        _ => return None,
    })
}

fn hash_blake2b(text: &[u8]) -> [u8; 64] {
    let digest = MessageDigest::from_name("blake2b512").expect("OpenSSL has BLAKE2b");
    let hash = openssl::hash::hash(digest, text).expect("a hash");
    std::array::from_fn(|at| hash[at])
}

fn cbc_seal(keys: &CipherKeys, text: &mut Vec<u8>) -> Result<(), ErrorStack> {
    let mut cipher = CipherCtx::new()?;
    cipher.encrypt_init(Some(Cipher::aes_256_cbc()), Some(&keys.cipher), Some(&keys.iv))?;
    let bytes = text.len();
    text.resize((bytes / BLOCK_BYTES + 1) * BLOCK_BYTES, 0);
    let whole = bytes / BLOCK_BYTES * BLOCK_BYTES;
    let rest = text[whole..bytes].to_vec();
    let done = cipher.cipher_update_inplace(text, whole)?;
    let mut last = [0; 2 * BLOCK_BYTES];
    let at = cipher.cipher_update(&rest, Some(&mut last))?;
    let end = at + cipher.cipher_final(&mut last[at..])?;
    text[done..].copy_from_slice(&last[..end]);
    let mac = compute_mac(keys, text)?;
    text.extend_from_slice(&mac[..MAC_BYTES]);
    Ok(())
}

fn cbc_open(keys: &CipherKeys, text: &[u8]) -> Result<bool, ErrorStack> {
    let sealed = text.len() - MAC_BYTES;
    if compute_mac(keys, &text[..sealed])?[..MAC_BYTES] != text[sealed..] {
        return Ok(false);
    }
    let mut cipher = CipherCtx::new()?;
    cipher.decrypt_init(Some(Cipher::aes_256_cbc()), Some(&keys.cipher), Some(&keys.iv))?;
    let mut out = vec![0; sealed + BLOCK_BYTES];
    let at = cipher.cipher_update(&text[..sealed], Some(&mut out))?;
    let end = at + cipher.cipher_final(&mut out[at..])?;
    out.truncate(end);
    black_box(out);
    Ok(true)
}

fn compute_mac(keys: &CipherKeys, sealed: &[u8]) -> Result<Vec<u8>, ErrorStack> {
    let key = PKey::hmac(&keys.mac)?;
    let mut signer = Signer::new(MessageDigest::sha256(), &key)?;
    signer.update(&keys.aad)?;
    signer.update(sealed)?;
    signer.sign_to_vec()
}

fn seal(kind: &CipherRef, keys: &CipherKeys, text: &mut Vec<u8>) -> Result<(), ErrorStack> {
    let mut cipher = CipherCtx::new()?;
    cipher.encrypt_init(Some(kind), Some(&keys.cipher), Some(&keys.nonce()))?;
    cipher.cipher_update(&keys.aad, None)?;
    let bytes = text.len();
    cipher.cipher_update_inplace(text, bytes)?;
    cipher.cipher_final(&mut [0; BLOCK_BYTES])?;
    let mut tag = [0; TAG_BYTES];
    cipher.tag(&mut tag)?;
    text.extend_from_slice(&tag);
    Ok(())
}

fn open(kind: &CipherRef, keys: &CipherKeys, text: &mut [u8]) -> Result<(), ErrorStack> {
    let (sealed, tag) = text.split_last_chunk_mut::<TAG_BYTES>().expect("a tag");
    let mut cipher = CipherCtx::new()?;
    cipher.decrypt_init(Some(kind), Some(&keys.cipher), Some(&keys.nonce()))?;
    cipher.set_tag(tag)?;
    cipher.cipher_update(&keys.aad, None)?;
    let bytes = sealed.len();
    cipher.cipher_update_inplace(sealed, bytes)?;
    cipher.cipher_final(&mut [0; BLOCK_BYTES])?;
    Ok(())
}
