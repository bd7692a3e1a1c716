//! Walks `vectors/ratchet/*.txt`, right and wrong cases.

use std::collections::BTreeMap;

use mezza_core::{Blake2b512, EphemeralKey, PortableBackend, Secret, Suite, Time};
use mezza_ratchet::suite::b2c20::{B2c20, KeyedBlake2b};
use mezza_ratchet::suite::{Agreement, Kdf};
use mezza_ratchet::{
    Bundle, BundleError, IdentityKey, IdentityKeyPair, KeyError, OneTimePrekey, OpenError, Padding,
    Prekeys, StoredRow, SuiteList, Table, safety, x3dh::Transcript, xeddsa,
};

use mezza_testing::{Case, hex, read_cases};

use crate::fixture::{self, Talk};

mod pq;
mod signal;

/// The folder of the cases.
pub const FOLDER: &str = "ratchet";

/// Returns the identity key of a field.
pub fn identity(case: &Case, key: &str) -> IdentityKey {
    IdentityKey::decode(&case.array(key)).expect("an identity key")
}

#[test]
fn every_vector_comes_out() {
    let mut seen: BTreeMap<String, u32> = BTreeMap::new();
    for case in read_cases(FOLDER, 100) {
        let kind = case.text("kind").to_owned();
        match kind.as_str() {
            "key" => key(&case),
            "public-key" => public_key(&case),
            "signature" => signature(&case),
            "verify" => verify(&case),
            "list" => list(&case),
            "one-time" => one_time(&case),
            "bundle" => bundle(&case),
            "handshake" => handshake(&case),
            "sealed" => sealed(&case),
            "message" => message(&case),
            "reply" => reply(&case),
            "stored" => stored(&case),
            "number" => number(&case),
            "signal" => signal::conversation(&case),
            "blake2b" => blake2b(&case),
            "signal-message" => signal::message(&case),
            "signal-bundle" => signal::bundle(&case),
            "bundle-pq" => pq::bundle_offers_both(&case),
            "handshake-pq" => pq::handshake(&case),
            "signal-number" => signal::number(&case),
            other => panic!("{}: unknown kind {other}", case.name()),
        }
        *seen.entry(kind).or_default() += 1;
    }
    assert_eq!(seen.len(), 20, "kinds of cases: {seen:?}");
}

fn blake2b(case: &Case) {
    let expected = case.bytes("digest");
    let key = case.bytes("key");
    let data = case.bytes("data");
    let mut digest = vec![0; expected.len()];
    let (front, back) = data.split_at(data.len() / 3);
    mezza_core::blake2b(&mut digest, &key, case.text("person"), &[front, back]);
    assert_eq!(digest, expected, "{}", case.name());
}

fn key(case: &Case) {
    let pair =
        EphemeralKey::from_scalar::<PortableBackend>(Secret::copy_from(&case.array("scalar")));
    assert_eq!(hex(pair.public_key().as_bytes()), case.text("public"), "{}", case.name());
}

fn public_key(case: &Case) {
    case.assert_outcome(match IdentityKey::decode(&case.array("key")) {
        Ok(_) => "ok",
        Err(KeyError::NotCanonical) => "not-canonical",
        Err(KeyError::LowOrder) => "low-order",
    });
}

fn signature(case: &Case) {
    let scalar = Secret::copy_from(&case.array("scalar"));
    let message = case.bytes("message");
    let z = Secret::copy_from(&case.array("z"));
    let made = xeddsa::sign::<Blake2b512>(&scalar, &[&message[..3], &message[3..]], &z);
    assert_eq!(hex(&made), case.text("signature"), "{}", case.name());
    assert!(xeddsa::verify::<Blake2b512>(&identity(case, "public"), &[&message], &made));
}

fn verify(case: &Case) {
    let key = identity(case, "public");
    let message = case.bytes("message");
    let good = xeddsa::verify::<Blake2b512>(&key, &[&message], &case.array("signature"));
    case.assert_outcome(if good { "ok" } else { "refused" });
}

fn list(case: &Case) {
    let bytes = case.bytes("list");
    let decoded = SuiteList::decode(&bytes);
    if let Ok(list) = &decoded {
        assert_eq!(list.encode(), bytes, "{}", case.name());
    }
    case.assert_outcome(if decoded.is_ok() { "ok" } else { "malformed" });
}

fn one_time(case: &Case) {
    let bytes = case.bytes("one_time");
    let decoded = OneTimePrekey::decode(&bytes);
    if let Ok(key) = &decoded {
        assert_eq!(key.encode().as_slice(), bytes, "{}", case.name());
    }
    case.assert_outcome(if decoded.is_ok() { "ok" } else { "malformed" });
}

fn bundle(case: &Case) {
    let now = Time::from_ms(case.number("now_minutes") * Time::MINUTE_MS);
    let floor = SuiteList::decode(&case.bytes("floor")).expect("a list");
    let checked = Bundle::decode(&case.bytes("bundle")).and_then(|bundle| {
        bundle.check_with(&SuiteList::without_kem(), &identity(case, "identity"), &floor, now)
    });
    case.assert_outcome(match checked {
        Ok(_) => "ok",
        Err(BundleError::Malformed) => "malformed",
        Err(BundleError::SuiteDowngrade { .. }) => "suite-downgrade",
        Err(BundleError::NoCommonSuite { .. }) => "no-common-suite",
        Err(BundleError::Expired) => "expired",
        Err(BundleError::BadSignature) => "bad-signature",
        Err(BundleError::BadKey) => "bad-key",
        Err(_) => "other",
    });
}

/// The whole conversation of the appendix, and every secret on the way.
fn handshake(case: &Case) {
    let one_time = case.bytes("one_time");
    let one_time =
        (!one_time.is_empty()).then(|| OneTimePrekey::decode(&one_time).expect("a one-time key"));
    let (session, exporter) = fixture::initiate(one_time);
    let alice = fixture::alice();
    let bob = fixture::bob();
    let ek = fixture::pair("ekA");
    let spk = fixture::pair("spkB");
    let mut shared =
        vec![fixture::dh(alice.pair(), &spk), fixture::dh(&ek, bob.pair()), fixture::dh(&ek, &spk)];
    if one_time.is_some() {
        shared.push(fixture::dh(&ek, &fixture::pair("opkB")));
    }
    for (i, dh) in shared.iter().enumerate() {
        assert_eq!(hex(dh.expose()), case.text(&format!("dh{}", i + 1)), "{}", case.name());
    }
    let first = fixture::first(one_time);
    let list = SuiteList::without_kem();
    let opk = one_time.map(|opk| opk.key);
    let transcript = Transcript {
        first: &first,
        responder: &bob.public_key(),
        list: Some(&list),
        spk: spk.public_key(),
        opk: opk.as_ref(),
        kem_key: None,
    };
    assert_eq!(hex(&transcript.hash()), case.text("transcript"));
    let Agreement { root, exporter: ex, .. } = KeyedBlake2b::derive_agreement(&shared, &transcript);
    assert_eq!(hex(root.expose()), case.text("root"));
    assert_eq!(hex(ex.expose()), case.text("exporter"));
    let [mix] = exporter.export_secrets(["mezza mix root"]);
    assert_eq!(hex(mix.expose()), case.text("export_mix_root"));
    let rk_a1 = fixture::pair("rkA1");
    let (root1, chain1) = KeyedBlake2b::step_root(&root, &fixture::dh(&rk_a1, &spk));
    assert_eq!(hex(chain1.expose()), case.text("chain1"));
    assert_eq!(
        hex(KeyedBlake2b::step_chain(&mut chain1.duplicate()).expose()),
        case.text("message_key0")
    );

    let mut alices = Talk::new(alice.public_key(), bob.public_key());
    let _ = alices.add_session(session, fixture::now());
    assert_eq!(hex(&alices.active_id().expect("a session")), case.text("session"));
    assert_eq!(hex(&fixture::session_field(&alices, 84, 32)), case.text("root"));
    let m0 = seal(&mut alices, b"hello", Some(fixture::ephemeral("rkA1")));
    assert_eq!(hex(&fixture::session_field(&alices, 84, 32)), case.text("root1"));
    assert_eq!(hex(root1.expose()), case.text("root1"));
    let m1 = seal(&mut alices, b"again", None);
    assert_eq!((hex(&m0).as_str(), hex(&m1).as_str()), (case.text("m0"), case.text("m1")));

    let mut bobs = Talk::new(bob.public_key(), alice.public_key());
    let mut prekeys = fixture::bobs_prekeys();
    assert_eq!(open(&mut bobs, &m1, &bob, &mut prekeys), b"again");
    assert_eq!(bobs.active_id(), alices.active_id());
    assert_eq!(open(&mut bobs, &m0, &bob, &mut prekeys), b"hello");
    let r0 = seal(&mut bobs, b"yes", Some(fixture::ephemeral("rkB1")));
    assert_eq!(hex(&r0), case.text("r0"));
    assert_eq!(open(&mut alices, &r0, &alice, &mut Prekeys::new(fixture::alice())), b"yes");
    let m2 = seal(&mut alices, b"good", Some(fixture::ephemeral("rkA2")));
    assert_eq!(hex(&m2), case.text("m2"));
    assert_eq!(open(&mut bobs, &m2, &bob, &mut prekeys), b"good");
}

fn seal(talk: &mut Talk, body: &[u8], fresh: Option<EphemeralKey>) -> Vec<u8> {
    talk.seal(body, &[], Padding::Blocks, fresh, fixture::now()).expect("a message").0
}

fn open(talk: &mut Talk, message: &[u8], own: &IdentityKeyPair, prekeys: &mut Prekeys) -> Vec<u8> {
    talk.open(message, &[], own, prekeys, fixture::now()).expect("a body").body.to_vec()
}

fn sealed(case: &Case) {
    use mezza_core::Aead;
    type Chacha = <B2c20 as Suite>::Aead;

    let outer = case.bytes("outer");
    let mut aad = [case.bytes("sender"), case.bytes("receiver")].concat();
    aad.push(outer.len() as u8);
    aad.extend([outer, case.bytes("head")].concat());
    let mut text = case.bytes("body");
    text.push(0x80);
    text.resize(case.number("padded") as usize, 0);
    let key = Secret::copy_from(&case.array("message_key"));
    let mut out = vec![0; Chacha::NONCE_BYTES];
    out.extend(&text);
    Chacha::seal::<PortableBackend>(&key, &aad, &mut out, 0);
    assert_eq!(hex(&out), case.text("sealed"), "{}", case.name());
    assert_eq!(out.len(), Chacha::sealed_len(text.len()));
    assert_eq!(Chacha::open::<PortableBackend>(&key, [&aad, &[]], &out), Some(text));
}

/// A message to Bob of the vectors, who has no session (or one, if `after` names a message).
fn message(case: &Case) {
    let mut bobs = Talk::new(fixture::bob().public_key(), fixture::alice().public_key());
    let mut prekeys = fixture::bobs_prekeys();
    if case.has_key("after") {
        open(&mut bobs, &case.bytes("after"), &fixture::bob(), &mut prekeys);
    }
    let before = (bobs.encode(), prekeys.encode());
    let opened = bobs.open(
        &case.bytes("message"),
        &case.bytes("outer"),
        &fixture::bob(),
        &mut prekeys,
        fixture::now(),
    );
    case.assert_outcome(outcome(&opened.map(|opened| opened.body.to_vec())));
    if case.text("expect") != "ok" {
        assert!(before == (bobs.encode(), prekeys.encode()), "{} changed the state", case.name());
    }
}

/// A reply to Alice of the vectors, who sent one first message.
fn reply(case: &Case) {
    let (mut alices, ..) = fixture::alice_and_bob();
    seal(&mut alices, b"hello", Some(fixture::ephemeral("rkA1")));
    let mut none = Prekeys::new(fixture::alice());
    let before = alices.encode();
    let opened = alices.open(
        &case.bytes("message"),
        &case.bytes("outer"),
        &fixture::alice(),
        &mut none,
        fixture::now(),
    );
    case.assert_outcome(outcome(&opened.map(|opened| opened.body.to_vec())));
    if case.text("expect") != "ok" {
        assert!(before == alices.encode(), "{} changed the state", case.name());
    }
}

pub fn outcome(opened: &Result<Vec<u8>, OpenError>) -> &'static str {
    match opened {
        Ok(_) => "ok",
        Err(OpenError::Malformed) => "malformed",
        Err(OpenError::SuiteUnsupported(_)) => "suite-unsupported",
        Err(OpenError::SuiteMismatch { .. }) => "suite-mismatch",
        Err(OpenError::SuiteDowngrade) => "suite-downgrade",
        Err(OpenError::UnknownPrekey(_)) => "unknown-prekey",
        Err(OpenError::ReusedBaseKey) => "reused-base-key",
        Err(OpenError::NoSession) => "no-session",
        Err(OpenError::Duplicate) => "duplicate",
        Err(OpenError::TooFar(_)) => "too-far",
        Err(OpenError::Forged) => "forged",
    }
}

/// A row of one table, beside the rows it belongs to.
fn stored(case: &Case) {
    let number = u8::try_from(case.number("table")).expect("a table number");
    let table = Table::from_number(number).expect("a table");
    let key = case.bytes("key");
    let value = case.bytes("value");
    let beside = if case.has_key("beside_key") {
        vec![(case.bytes("beside_key"), case.bytes("beside_value"))]
    } else {
        Vec::new()
    };
    let beside_table = if table == Table::Skipped { Table::Session } else { Table::Spk };
    let rows = beside
        .iter()
        .map(|(key, value)| StoredRow { table: beside_table, key, value })
        .chain([StoredRow { table, key: &key, value: &value }]);
    let encoded = match table {
        Table::Session | Table::Skipped => {
            Talk::load(fixture::alice().public_key(), fixture::bob().public_key(), rows)
                .map(|talk| talk.all_rows())
        }
        _ => Prekeys::load(fixture::bob(), rows).map(|prekeys| prekeys.all_rows()),
    };
    case.assert_outcome(if encoded.is_ok() { "ok" } else { "refused" });
    let Ok(records) = encoded else { return };
    let same = records.iter().any(|change| match change {
        mezza_ratchet::Change::Put { table: t, key: k, value: v } => {
            (*t, k, &**v) == (table, &key, &value)
        }
        mezza_ratchet::Change::Drop { .. } => false,
    });
    assert!(same, "{} is written back in another form", case.name());
}

fn number(case: &Case) {
    let local = identity(case, "local");
    let remote = identity(case, "remote");
    assert_eq!(safety::number(&local, &remote), case.text("number"));
    assert_eq!(safety::number(&remote, &local), case.text("number"));
    let code = safety::scannable_code(&local, &remote);
    assert_eq!(hex(&code), case.text("scannable"));
    assert!(safety::matches_code(&remote, &local, &code));
    assert!(!safety::matches_code(&local, &remote, &code));
}
