//! The cases of the suites that speak Signal's formats.

use mezza_core::{EphemeralKey, PortableBackend, PublicKey, Secret, Sha512, Suite, Time};
use mezza_ratchet::session::Ratchet;
use mezza_ratchet::suite::paper::Paper;
use mezza_ratchet::suite::{Agreement, Kdf, RatchetSuite, V3, V4};
use mezza_ratchet::wire::{FirstMessageHeader, Wire};
use mezza_ratchet::x3dh::{self, ResponderKeys, Transcript};
use mezza_ratchet::{
    BundleError, Changes, OneTimePrekey, Padding, SignalBundle, SignalKem,
    safety::{self, NamedIdentity},
    xeddsa,
};

use super::Case;
use mezza_testing::{Given, hex};

use crate::fixture::{self, Talk};

const REGISTRATION: u32 = 4660;

pub fn conversation(case: &Case) {
    match case.text("suite") {
        "0003" => play::<V3>(case),
        "0004" => play::<V4>(case),
        "7f04" => play::<Paper>(case),
        other => panic!("suite {other}"),
    }
}

pub fn number(case: &Case) {
    let local = super::identity(case, "local");
    let remote = super::identity(case, "remote");
    let local_id = case.bytes("local_id");
    let remote_id = case.bytes("remote_id");
    let local = NamedIdentity { key: &local, id: &local_id };
    let remote = NamedIdentity { key: &remote, id: &remote_id };
    let version = case.number("version") as u32;
    let digits_and_code = |local, remote| match case.text("suite") {
        "0003" => (
            safety::signal_number::<Sha512>(local, remote),
            safety::signal_scannable::<Sha512>(version, local, remote),
        ),
        _ => (
            safety::signal_number::<<Paper as Suite>::SignatureHash>(local, remote),
            safety::signal_scannable::<<Paper as Suite>::SignatureHash>(version, local, remote),
        ),
    };
    let (ours, code) = digits_and_code(local, remote);
    assert_eq!((ours.as_str(), hex(&code).as_str()), (case.text("number"), case.text("scannable")));
    let (theirs, other) = digits_and_code(remote, local);
    assert!(theirs == ours && other != code, "one number, a code for each side");
}

/// A message to Bob of the vectors, who speaks `signal-v3` and has no session.
pub fn message(case: &Case) {
    let mut bobs = Talk::new(fixture::bob().public_key(), fixture::alice().public_key());
    let mut prekeys = fixture::bobs_signal_prekeys();
    let before = (bobs.encode(), prekeys.encode());
    let bob = fixture::bob();
    let now = fixture::now();
    let opened = bobs.open(&case.bytes("message"), &[], &bob, &mut prekeys, now);
    let outcome = super::outcome(&opened.map(|opened| opened.body.to_vec()));
    case.assert_outcome(outcome);
    if outcome != "ok" {
        assert!(before == (bobs.encode(), prekeys.encode()), "{} changed the state", case.name());
    }
}

pub fn bundle(case: &Case) {
    let bundle = SignalBundle {
        registration: 7,
        spk_id: fixture::SPK_ID,
        spk: PublicKey(case.array("spk")),
        signature: case.array("signature"),
        one_time: None,
        kem: None,
    };
    case.assert_outcome(match bundle.check(V3::ID, &fixture::bob().public_key(), REGISTRATION) {
        Ok(_) => "ok",
        Err(BundleError::BadSignature) => "bad-signature",
        Err(BundleError::BadKey) => "bad-key",
        Err(_) => "other",
    });
}

/// The conversation of the appendix in one suite, with every secret on the way.
fn play<S: RatchetSuite>(case: &Case) {
    let alice = fixture::alice();
    let bob = fixture::bob();
    let spk = fixture::pair("spkB");
    let z = Secret::init_with(|z| z.copy_from_slice(&fixture::z()));
    let made =
        xeddsa::sign::<S::SignatureHash>(bob.pair().scalar(), &[&[5], &spk.public_key().0], &z);
    assert_eq!(hex(&made), case.text("signature"), "{}", case.name());
    let one_time = Some(case.bytes("one_time")).filter(|bytes| !bytes.is_empty());
    let one_time = one_time.map(|bytes| OneTimePrekey::decode(&bytes).expect("a one-time key"));
    keys::<S>(case, one_time);

    let kem = kem_key::<S>(case);
    let coins = if kem.is_some() { case.bytes("kem_coins") } else { Vec::new() };
    // Both forms of the signature begin the same session.
    let [(mut alices, exporter), _] = [made, case.array("signed_form")].map(|signature| {
        let spk_id = fixture::SPK_ID;
        let spk = *spk.public_key();
        let bundle =
            SignalBundle { registration: 7, spk_id, spk, signature, one_time, kem: kem.clone() };
        let checked = bundle.check_as::<S>(&bob.public_key(), REGISTRATION).expect("a good bundle");
        let ek = fixture::ephemeral("ekA");
        let mut rng = Given(coins.clone());
        x3dh::initiate_session::<S, PortableBackend>(&checked, &alice, ek, one_time, &mut rng)
            .expect("a session")
    });
    let m0 = seal(&mut alices, b"hello", "rkA1");
    let m1 = seal(&mut alices, b"again", "rkA1");
    assert_eq!((hex(&m0).as_str(), hex(&m1).as_str()), (case.text("m0"), case.text("m1")));

    let first = S::Wire::decode(&m1).expect("a message").first.expect("a first message");
    assert_eq!((first.registration, first.opk_id != 0), (REGISTRATION, one_time.is_some()));
    let opk = one_time.map(|_| fixture::pair("opkB"));
    let seed = kem.map(|_| Secret::copy_from(&case.array("kem_seed")));
    let offered = ResponderKeys { spk: &spk, list: None, opk: opk.as_ref(), kem: seed.as_ref() };
    let (mut bobs, theirs) =
        x3dh::accept_session::<S, PortableBackend>(&first, &bob, &offered).expect("good");
    assert!(exporter.export_secrets(["x"]) == theirs.export_secrets(["x"]));
    assert_eq!(open(&mut bobs, &m1), b"again");
    assert_eq!(open(&mut bobs, &m0), b"hello");
    let r0 = seal(&mut bobs, b"yes", "rkB1");
    assert_eq!(hex(&r0), case.text("r0"));
    assert_eq!(open(&mut alices, &r0), b"yes");
    let m2 = seal(&mut alices, b"good", "rkA2");
    assert_eq!(hex(&m2), case.text("m2"));
    assert_eq!(open(&mut bobs, &m2), b"good");
}

/// The KEM key of the bundle, if the suite has one; its signature is checked with the bundle.
fn kem_key<S: RatchetSuite>(case: &Case) -> Option<SignalKem> {
    let seed = S::KEM.map(|_| Secret::copy_from(&case.array("kem_seed")))?;
    let key = S::KEM?.public_key(&seed);
    assert_eq!(hex(&key), case.text("kem_key"));
    let id = case.number("kem_id") as u32;
    let signature = case.array("kem_signature");
    Some(SignalKem { id, key, signature })
}

/// The key schedule, step by step.
fn keys<S: RatchetSuite>(case: &Case, one_time: Option<OneTimePrekey>) {
    let alice = fixture::alice();
    let bob = fixture::bob();
    let ek = fixture::pair("ekA");
    let spk = fixture::pair("spkB");
    let opk = fixture::pair("opkB");
    let mut shared =
        vec![fixture::dh(alice.pair(), &spk), fixture::dh(&ek, bob.pair()), fixture::dh(&ek, &spk)];
    shared.extend(one_time.map(|_| fixture::dh(&ek, &opk)));
    if S::KEM.is_some() {
        shared.push(Secret::copy_from(&case.array("kem_secret")));
    }
    let first = FirstMessageHeader {
        suite: S::ID,
        list: None,
        registration: REGISTRATION,
        ..fixture::first(one_time)
    };
    let transcript = Transcript {
        first: &first,
        responder: &bob.public_key(),
        list: None,
        spk: spk.public_key(),
        opk: one_time.as_ref().map(|_| opk.public_key()),
        kem_key: None,
    };
    let Agreement { id, root, exporter } = S::Kdf::derive_agreement(&shared, &transcript);
    let (root1, chain1) = S::Kdf::step_root(&root, &fixture::dh(&fixture::pair("rkA1"), &spk));
    let key = S::Kdf::step_chain(&mut chain1.duplicate());
    assert_eq!(hex(&id), case.text("session"));
    let secrets = [root, exporter, root1, chain1, key];
    let names = ["root", "exporter", "root1", "chain1", "message_key0"];
    for (secret, name) in secrets.iter().zip(names) {
        assert_eq!(hex(secret.expose()), case.text(name), "{} {name}", case.name());
    }
}

const NOW: Time = Time::from_ms(1);

fn seal<S: RatchetSuite>(
    ratchet: &mut Ratchet<S, PortableBackend>,
    body: &[u8],
    key: &str,
) -> Vec<u8> {
    let fresh: Option<EphemeralKey> = Some(fixture::ephemeral(key));
    let bytes = ratchet.message_bytes(body.len());
    let message = ratchet.seal(body, &[], Padding::Blocks, fresh, NOW).expect("a message");
    assert_eq!(Some(message.len()), bytes);
    message
}

fn open<S: RatchetSuite>(ratchet: &mut Ratchet<S, PortableBackend>, message: &[u8]) -> Vec<u8> {
    let envelope = S::Wire::decode(message).expect("a message");
    let opened = ratchet.open(&envelope.inner, &[], NOW, &mut Changes::new());
    opened.expect("a body").to_vec()
}
