//! `vectors/messenger/vault/*.txt`, made by `reference.py` beside them.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fs;
use std::path::{Path, PathBuf};

use data_encoding::HEXLOWER;
use mezza::testing::store::aead::NONCE_BYTES;
use mezza::testing::store::bucket::RetentionCode;
use mezza::testing::store::head::VaultHeader;
use mezza::testing::store::keyring::Keyring;
use mezza::testing::store::record::{self, RecordHeader};
use mezza::testing::store::{Argon2Params, MasterKey};
use mezza_core::Secret;
use rand_core::{TryCryptoRng, TryRng};

struct Case(PathBuf, BTreeMap<String, String>);

impl Case {
    fn text(&self, field: &str) -> &str {
        &self.1[field]
    }

    fn bytes(&self, field: &str) -> Vec<u8> {
        HEXLOWER.decode(self.text(field).as_bytes()).unwrap()
    }

    fn array<const N: usize>(&self, field: &str) -> [u8; N] {
        self.bytes(field).try_into().unwrap()
    }

    fn number<N: std::str::FromStr>(&self, field: &str) -> N {
        self.text(field).parse().ok().unwrap()
    }

    fn refuses(&self) -> bool {
        self.1.contains_key("refuse")
    }

    fn master(&self) -> MasterKey {
        let master = MasterKey::draw(&mut Replay(self.bytes("master")));
        assert_eq!(master.derive("mezza/vault/ring").expose(), &self.array("ring_key"));
        master
    }
}

/// Gives the bytes of a case where the vault draws.
struct Replay(Vec<u8>);

impl TryRng for Replay {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        unreachable!("the vault draws bytes alone")
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        unreachable!("the vault draws bytes alone")
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Infallible> {
        bytes.copy_from_slice(&self.0.drain(..bytes.len()).collect::<Vec<_>>());
        Ok(())
    }
}

impl TryCryptoRng for Replay {}

fn record(case: &Case) {
    let key = Secret::copy_from(&case.array("bucket_key"));
    let kind = case.number("record_kind");
    let place =
        RecordHeader { kind, id: case.number("id"), bucket: RetentionCode(case.number("bucket")) };
    let opened = record::open(&key, place, &case.bytes("body"));
    let content = opened.map(|content| (content.key, content.value.to_vec()));
    let expected = (case.bytes("key"), case.bytes("value"));
    let body = record::seal(&key, &case.array("nonce"), place, &expected.0, &expected.1).unwrap();
    if case.refuses() {
        assert_eq!(content, None, "{}", case.0.display());
        assert_ne!(body, case.bytes("body"));
    } else {
        assert_eq!(content, Some(expected), "{}", case.0.display());
        assert_eq!(body, case.bytes("body"));
    }
}

fn keyring(case: &Case) {
    let mut ring = Keyring::new(PathBuf::new(), &case.master());
    let decoded = ring.decode(&case.bytes("file"));
    if case.refuses() {
        assert!(decoded.is_err(), "{}", case.0.display());
        assert_eq!((ring.generation(), ring.buckets().count()), (0, 0));
        return;
    }
    decoded.unwrap();
    assert_eq!(ring.generation(), case.number::<u64>("generation"));
    let key = |bucket| HEXLOWER.encode(ring.key(bucket).unwrap().expose());
    let keys: Vec<_> = ring.buckets().map(|b| format!("{}:{}", b.0, key(b))).collect();
    assert_eq!(keys.join(" "), case.text("keys"));
    assert_eq!(ring.encode(&case.array::<NONCE_BYTES>("nonce")).unwrap(), case.bytes("file"));
}

fn head(case: &Case) {
    let ring_key = |master: MasterKey| *master.derive("mezza/vault/ring").expose();
    let decoded = VaultHeader::decode(&case.bytes("file")).ok();
    let master = decoded.and_then(|head| head.open(&case.bytes("passphrase")).unwrap());
    let expected = (!case.refuses()).then(|| case.array("ring_key"));
    assert_eq!(master.map(ring_key), expected, "{}", case.0.display());
    if case.refuses() || case.1.contains_key("order") {
        return;
    }
    let cost =
        Argon2Params { m_kib: case.number("m_kib"), t: case.number("t"), p: case.number("p") };
    let drawn = ["salt", "nonce", "unused"].map(|field| case.bytes(field)).concat();
    let pass = case.bytes("passphrase");
    let head = VaultHeader::seal(&case.master(), &pass, cost, &mut Replay(drawn)).unwrap();
    assert_eq!(head.encode(), case.bytes("file"));
}

fn case(path: PathBuf) -> Case {
    let text = fs::read_to_string(&path).unwrap();
    let field = |line: &str| {
        let (name, value) = line.split_once(':').unwrap();
        (name.to_owned(), value.trim().to_owned())
    };
    Case(path, text.lines().map(field).collect())
}

#[test]
fn every_vector_holds() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../vectors/messenger/vault");
    let mut seen = BTreeMap::new();
    for file in fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()) {
        if file.extension().is_some_and(|extension| extension == "txt") {
            let case = case(file);
            let kind = case.text("kind").to_owned();
            match kind.as_str() {
                "record" => record(&case),
                "keyring" => keyring(&case),
                "head" => head(&case),
                other => panic!("{} is of kind {other}", case.0.display()),
            }
            *seen.entry(kind).or_insert(0) += 1;
        }
    }
    let seen: Vec<_> = seen.into_iter().collect();
    assert_eq!(seen, [("head".into(), 6), ("keyring".into(), 7), ("record".into(), 11)]);
}
