//! BLAKE2b as RFC 7693 and Python's hashlib compute it, SHA-512 as FIPS 180-4.

use mezza_core::{Blake2b512, Hash512, Sha512, blake2b};

fn hex(bytes: &[u8]) -> String {
    bytes.iter().flat_map(|b| format!("{b:02x}").chars().collect::<Vec<_>>()).collect()
}

#[test]
fn rfc_7693_appendix_a() {
    assert_eq!(
        hex(&Blake2b512::hash(&[b"a", b"bc"])),
        "ba80a53f981c4d0d6a2797b69f12f6e94c212f14685ac4b74b12bb6fdbffa2d1\
         7d87c5392aab792dc252d5de4533cc9518d38aa8dbf1925ab92386edd4009923"
    );
}

#[test]
fn sha_512_of_abc() {
    assert!(hex(&Sha512::hash(&[b"abc"])).starts_with("ddaf35a193617abacc417349ae204131"));
}

/// `hashlib.blake2b(data, digest_size=n, key=key, person=person).hexdigest()`.
#[test]
fn key_person_and_length_as_hashlib() {
    let data: Vec<u8> = (0..300_u16).map(|i| (i % 251) as u8).collect();
    for (n, key, person, expected) in HASHLIB {
        let mut out = vec![0; *n];
        blake2b(&mut out, key.as_bytes(), person, &[&data[..7], &data[7..129], &data[129..]]);
        assert_eq!(hex(&out), *expected, "{n} {key} {person}");
    }
}

const HASHLIB: &[(usize, &str, &str, &str)] = &[
    (1, "", "", "56"),
    (16, "", "mezza", "3240478f64b51e679c4a81cc2ed9e266"),
    (
        32,
        "kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk",
        "",
        "18961c5c793756e55351a736c25ed7036a0cb6de83fd13026ea3eb5e10b25277",
    ),
    (
        44,
        "key",
        "b2c20 seal",
        "4677ab8deca446fd71525b450dac26889b701e46ceac54810e441e9fa9b01fd6866f0827c3cc05af59d8e0e0",
    ),
    (
        64,
        "KKKKKKKKKKKKKKKKKKKKKKKKKKKKKKKKKKKKKKKKKKKKKKKKKKKKKKKKKKKKKKKK",
        "sixteen bytes 16",
        "fc55d119c35ffe545322e1c9e2bb1fb9b84d6c3ff713b7c604567699ab83d0cb22e97d8575541d737bdfeaaaac4594149cffe95303275b96823138c1e45b38e5",
    ),
];
