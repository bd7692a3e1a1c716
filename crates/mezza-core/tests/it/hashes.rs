//! BLAKE2b as RFC 7693 and Python's hashlib compute it, SHA-512 as FIPS 180-4.

use blake2::Blake2bVarCore;
use blake2::digest::block_api::{UpdateCore, VariableOutputCore};
use blake2::digest::block_buffer::LazyBuffer;
use mezza_core::{Blake2b512, Hash512, Sha512, blake2b};
use mezza_testing::hex;
use proptest::prelude::*;

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

/// The same hash, computed by code of others.
fn of_others(out: &mut [u8], key: &[u8], person: &str, parts: &[&[u8]]) {
    let mut core = Blake2bVarCore::new_with_params(&[], person.as_bytes(), key.len(), out.len());
    let mut buffer = LazyBuffer::default();
    let block = [key, &[0; 128]].concat();
    let block = if key.is_empty() { &[][..] } else { &block[..128] };
    for part in [&[block], parts].concat() {
        buffer.digest_blocks(part, |blocks| core.update_blocks(blocks));
    }
    let mut full = [0; 64].into();
    core.finalize_variable_core(&mut buffer, &mut full);
    out.copy_from_slice(&full[..out.len()]);
}

/// Around the ends of blocks and of half blocks, however the text is cut.
#[test]
fn every_length_as_others_compute_it() {
    let text: Vec<u8> = (0..400_u16).map(|i| (i * 7 % 251) as u8).collect();
    for bytes in 0..text.len() {
        let (head, tail) = text[..bytes].split_at(bytes / 3);
        for key in [&[][..], &text[1..2], &text[1..33], &text[1..65]] {
            let [mut ours, mut theirs] = [[0; 64]; 2];
            blake2b(&mut ours, key, "mezza", &[head, &[], tail]);
            of_others(&mut theirs, key, "mezza", &[head, &[], tail]);
            assert_eq!(ours, theirs, "{bytes} {}", key.len());
        }
    }
}

proptest! {
    #[test]
    fn every_parameter_as_others_compute_it(
        out_bytes in 1_usize..=64,
        key in proptest::collection::vec(any::<u8>(), 0..=64),
        person in "[ -~]{0,16}",
        parts in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..300), 0..6),
    ) {
        let parts: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
        let mut ours = vec![0; out_bytes];
        let mut theirs = vec![0; out_bytes];
        blake2b(&mut ours, &key, &person, &parts);
        of_others(&mut theirs, &key, &person, &parts);
        prop_assert_eq!(ours, theirs);
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
