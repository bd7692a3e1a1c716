//! Files that the vault reads from the disk.

use mezza_core::Secret;
use mezza_host::store::bucket::RetentionCode;
use mezza_host::store::head::{MasterKey, VaultHeader};
use mezza_host::store::keyring::Keyring;
use mezza_host::store::record::{self, RecordHeader};
use rand_chacha::ChaCha8Rng;
use rand_core::{Rng, SeedableRng};
use std::path::PathBuf;

const TEXT: &[u8] = b"value";

/// Checks that a decoded head encodes to the same bytes. (Its passphrase is not tried, because that
/// is slow by design.)
pub fn check_head(data: &[u8]) {
    if let Ok(head) = VaultHeader::decode(data) {
        assert_eq!(head.encode(), data);
    }
}

/// Returns a head of the minimum cost, with random slots.
pub fn head_seeds() -> Vec<Vec<u8>> {
    let cost = mezza_host::store::Argon2Params::DEMO;
    let mut bytes = b"MZVAULT1".to_vec();
    for word in [cost.m_kib, cost.t, cost.p] {
        bytes.extend(word.to_be_bytes());
    }
    let mut random = [0; 162];
    ChaCha8Rng::seed_from_u64(6).fill_bytes(&mut random);
    bytes.extend(random);
    vec![bytes]
}

fn make_keyring() -> Keyring {
    let master = MasterKey::draw(&mut ChaCha8Rng::seed_from_u64(7));
    Keyring::new(PathBuf::new(), &master)
}

/// Checks that a decoded keyring encodes to the same bytes under the same nonce; a refused one
/// leaves the keys unchanged.
pub fn check_ring(data: &[u8]) {
    let mut ring = make_keyring();
    if ring.decode(data).is_err() {
        assert_eq!((ring.generation(), ring.buckets().count()), (0, 0));
        return;
    }
    let nonce = data[8..32].try_into().expect("what opened has a nonce");
    assert_eq!(ring.encode(&nonce).ok().as_deref(), Some(data));
}

/// Returns an empty keyring.
pub fn ring_seeds() -> Vec<Vec<u8>> {
    make_keyring().encode(&[1; 24]).into_iter().collect()
}

fn make_place() -> (Secret<32>, RecordHeader) {
    let key = Secret::init_with(|key| key.fill(9));
    (key, RecordHeader { kind: 3, id: 77, bucket: RetentionCode::rolling(20_000) })
}

/// Checks that only the body sealed for this row opens.
pub fn check_body(data: &[u8]) {
    let (key, place) = make_place();
    if let Some(content) = record::open(&key, place, data) {
        assert_eq!((content.key.as_slice(), content.value.as_slice()), (&b"key"[..], TEXT));
    }
}

/// Returns the valid body, and one of another row.
pub fn body_seeds() -> Vec<Vec<u8>> {
    let (key, here) = make_place();
    let there = RecordHeader { id: 78, ..here };
    let seal = |place, value: &[u8]| record::seal(&key, &[2; 24], place, b"key", value);
    [seal(here, TEXT), seal(there, b"other")].into_iter().flatten().collect()
}
