//! `vectors/messenger/vault/*.txt`, made by `reference.py` beside them.

use std::collections::BTreeMap;
use std::path::PathBuf;

use data_encoding::HEXLOWER;
use mezza::testing::store::aead::NONCE_BYTES;
use mezza::testing::store::bucket::RetentionCode;
use mezza::testing::store::head::VaultHeader;
use mezza::testing::store::keyring::Keyring;
use mezza::testing::store::record::{self, RecordHeader};
use mezza::testing::store::{Argon2Params, MasterKey};
use mezza_core::Secret;
use mezza_testing::{Case, Given, read_cases};

/// Draws the master key of a case as the vault would.
fn master(case: &Case) -> MasterKey {
    let master = MasterKey::draw(&mut Given(case.bytes("master")));
    assert_eq!(master.derive("mezza/vault/ring").expose(), &case.array("ring_key"));
    master
}

fn record(case: &Case) {
    let key = Secret::copy_from(&case.array("bucket_key"));
    let kind = case.parse_value("record_kind");
    let place = RecordHeader {
        kind,
        id: case.parse_value("id"),
        bucket: RetentionCode(case.parse_value("bucket")),
    };
    let opened = record::open(&key, place, &case.bytes("body"));
    let content = opened.map(|content| (content.key, content.value.to_vec()));
    let expected = (case.bytes("key"), case.bytes("value"));
    let body = record::seal(&key, &case.array("nonce"), place, &expected.0, &expected.1).unwrap();
    if case.has_key("refuse") {
        assert_eq!(content, None, "{}", case.name());
        assert_ne!(body, case.bytes("body"));
    } else {
        assert_eq!(content, Some(expected), "{}", case.name());
        assert_eq!(body, case.bytes("body"));
    }
}

fn keyring(case: &Case) {
    let mut ring = Keyring::new(PathBuf::new(), &master(case));
    let decoded = ring.decode(&case.bytes("file"));
    if case.has_key("refuse") {
        assert!(decoded.is_err(), "{}", case.name());
        assert_eq!((ring.generation(), ring.buckets().count()), (0, 0));
        return;
    }
    decoded.unwrap();
    assert_eq!(ring.generation(), case.number("generation"));
    let key = |bucket| HEXLOWER.encode(ring.key(bucket).unwrap().expose());
    let keys: Vec<_> = ring.buckets().map(|b| format!("{}:{}", b.0, key(b))).collect();
    assert_eq!(keys.join(" "), case.text("keys"));
    assert_eq!(ring.encode(&case.array::<NONCE_BYTES>("nonce")).unwrap(), case.bytes("file"));
}

fn head(case: &Case) {
    let ring_key = |master: MasterKey| *master.derive("mezza/vault/ring").expose();
    let decoded = VaultHeader::decode(&case.bytes("file")).ok();
    let opened = decoded.and_then(|head| head.open(&case.bytes("passphrase")).unwrap());
    let expected = (!case.has_key("refuse")).then(|| case.array("ring_key"));
    assert_eq!(opened.map(ring_key), expected, "{}", case.name());
    if case.has_key("refuse") || case.has_key("order") {
        return;
    }
    let cost = Argon2Params {
        m_kib: case.parse_value("m_kib"),
        t: case.parse_value("t"),
        p: case.parse_value("p"),
    };
    let drawn = ["salt", "nonce", "unused"].map(|field| case.bytes(field)).concat();
    let pass = case.bytes("passphrase");
    let head = VaultHeader::seal(&master(case), &pass, cost, &mut Given(drawn)).unwrap();
    assert_eq!(head.encode(), case.bytes("file"));
}

#[test]
fn every_vector_holds() {
    let mut seen = BTreeMap::new();
    for case in read_cases("messenger/vault", 24) {
        let kind = case.text("kind").to_owned();
        match kind.as_str() {
            "record" => record(&case),
            "keyring" => keyring(&case),
            "head" => head(&case),
            other => panic!("{} is of kind {other}", case.name()),
        }
        *seen.entry(kind).or_insert(0) += 1;
    }
    let seen: Vec<_> = seen.into_iter().collect();
    assert_eq!(seen, [("head".into(), 6), ("keyring".into(), 7), ("record".into(), 11)]);
}
