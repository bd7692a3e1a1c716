//! Walks `vectors/guard/*.txt`, right and wrong cases; those of safe primes and of MODP belong to the lab.

use std::collections::BTreeMap;

use curve25519_dalek::scalar::Scalar;
use mezza_core::{CryptoRng, PortableBackend, PublicKey, Secret, StaticKey};
use mezza_guard::coin::{
    CoinEncoding, CoinEra, CoinKey, CoinPurpose, CoinSecret, Rho, SlotIndex, SlotName,
};
use mezza_guard::coins::{Coins, GivenCoins, Uniform};
use mezza_guard::dh::DhParty;
use mezza_guard::dh_comm::{Answerer, Committer};
use mezza_guard::elgamal::{Encryptor, KeyOwner};
use mezza_guard::firewall::{
    AnsweringFirewall, AnyFirewall, CommittingFirewall, DhFirewall, KeyMaulFirewall,
    ReMaulFirewall, RerandFirewall, Stack,
};
use mezza_guard::gkx::{GkxCandidate, GkxGuard, GkxInitiator, GkxResponder};
use mezza_guard::keys::{GuardClientId, PairingKey};
use mezza_guard::wire::control::{Control, ControlChannel};
use mezza_guard::{Group as _, Message, Ristretto};
use mezza_sim::SimRng;
use mezza_testing::{Case, read_cases};

use crate::gkx::identity;
use crate::session::{carry, ciphertext_of, commitment_of, key_of, opening_of};

type B = PortableBackend;

/// Returns the scalars of a field, 32 bytes each.
fn scalars(case: &Case, key: &str) -> Vec<Scalar> {
    let scalar = |bytes: &[u8]| Scalar::from_canonical_bytes(bytes.try_into().expect("32 bytes"));
    case.bytes(key).chunks_exact(32).map(|bytes| scalar(bytes).expect("a scalar")).collect()
}

/// Returns the coins of some fields, one after another.
fn coins_of(case: &Case, keys: &[&str]) -> GivenCoins<Scalar> {
    GivenCoins::new(keys.iter().flat_map(|key| scalars(case, key)).collect::<Vec<_>>())
}

/// Checks that a value is accepted exactly where the case says `ok`.
fn expect(case: &Case, is_ok: bool) {
    assert_eq!(is_ok, case.text("expect") == "ok", "{}", case.name());
}

#[test]
fn every_vector_comes_out() {
    let group = Ristretto::new();
    let mut seen = BTreeMap::<String, u32>::new();
    for case in read_cases("guard", 78) {
        let mut dice = SimRng::new(0, 0);
        match case.text("kind") {
            "group" => {
                case.assert_bytes("g", &group.encode(&group.g()));
                case.assert_bytes("h", &group.encode(&group.h()));
            }
            "element" => expect(&case, group.decode(&case.bytes("bytes")).is_ok()),
            "scalar" => expect(&case, group.decode_scalar(&case.bytes("bytes")).is_ok()),
            "dh" => dh(&case, &group, dice.rng()),
            "comm" => comm(&case, &group, dice.rng()),
            "eg" => eg(&case, &group, dice.rng()),
            "gkx" => gkx(&case, &group, dice.rng()),
            "gkx-wrong" => gkx_wrong(&case, &group, dice.rng()),
            "coin" => coin(&case),
            "coin-wrong" => coin_wrong(&case),
            "control" => control(&case),
            "pairing" => pairing(&case),
            kind if kind == "safe-prime" || kind.starts_with("modp-") => continue,
            kind => panic!("{}: unknown kind {kind}", case.name()),
        }
        *seen.entry(case.text("kind").to_owned()).or_default() += 1;
    }
    let counts: Vec<(&str, u32)> =
        seen.iter().map(|(kind, count)| (kind.as_str(), *count)).collect();
    let expected = [
        ("coin", 4),
        ("coin-wrong", 3),
        ("comm", 4),
        ("control", 21),
        ("dh", 3),
        ("eg", 4),
        ("element", 10),
        ("gkx", 5),
        ("gkx-wrong", 9),
        ("group", 1),
        ("pairing", 3),
        ("scalar", 4),
    ];
    assert_eq!(counts, expected);
}

fn dh(case: &Case, group: &Ristretto, rng: &mut dyn CryptoRng) {
    let wall = |coin: Scalar| -> AnyFirewall<Ristretto> {
        Box::new(DhFirewall::with_coins(group.clone(), GivenCoins::new([coin])))
    };
    let mut walls = [Stack::new(scalars(case, "coins").into_iter().map(wall)), Stack::new([])];
    let [own, their] = &mut walls;
    let (alice, a) = DhParty::begin(group, &mut coins_of(case, &["a"]), rng);
    let (bob, b) = DhParty::begin(group, &mut coins_of(case, &["b"]), rng);
    case.assert_bytes("A", &a.encode_fields(group)[0]);
    let a = carry(group, a, [own, their], rng);
    case.assert_bytes("A_wire", &a.encode_fields(group)[0]);
    let b = carry(group, b, [their, own], rng);
    case.assert_bytes("B_seen", &b.encode_fields(group)[0]);
    case.assert_bytes("key", alice.finish(group, key_of(&b)).expect("a key").expose());
    case.assert_bytes("key", bob.finish(group, key_of(&a)).expect("a key").expose());
}

fn comm(case: &Case, group: &Ristretto, rng: &mut dyn CryptoRng) {
    let (mut own, mut their): (Vec<AnyFirewall<Ristretto>>, Vec<AnyFirewall<Ristretto>>) =
        Default::default();
    if ["committing", "both"].contains(&case.text("wall")) {
        own.push(Box::new(CommittingFirewall::with_coins(
            group.clone(),
            coins_of(case, &["coins"]),
        )));
    }
    if ["answering", "both"].contains(&case.text("wall")) {
        their.push(Box::new(AnsweringFirewall::with_coins(
            group.clone(),
            coins_of(case, &["beta"]),
        )));
    }
    let mut own = Stack::new(own);
    let mut their = Stack::new(their);
    let (committer, commitment) =
        Committer::begin(group, &mut coins_of(case, &["x", "r", "s"]), rng);
    for (key, field) in ["C1", "C2"].iter().zip(commitment.encode_fields(group)) {
        case.assert_bytes(key, &field);
    }
    let commitment = carry(group, commitment, [&mut own, &mut their], rng);
    for (key, field) in ["C1_seen", "C2_seen"].iter().zip(commitment.encode_fields(group)) {
        case.assert_bytes(key, &field);
    }
    let (answerer, a) =
        Answerer::answer(group, commitment_of(&commitment), &mut coins_of(case, &["a"]), rng);
    let a = carry(group, a, [&mut their, &mut own], rng);
    case.assert_bytes("A_seen", &a.encode_fields(group)[0]);
    let (opening, key) = committer.finish(group, key_of(&a)).expect("a key");
    let opening = carry(group, opening, [&mut own, &mut their], rng);
    for (key, field) in ["r_seen", "s_seen"].iter().zip(opening.encode_fields(group)) {
        case.assert_bytes(key, &field);
    }
    case.assert_bytes("key", key.expose());
    case.assert_bytes("key", answerer.finish(group, opening_of(&opening)).expect("a key").expose());
}

fn eg(case: &Case, group: &Ristretto, rng: &mut dyn CryptoRng) {
    let coins = coins_of(case, &["coins"]);
    let own = group.clone();
    let (mut encryptors, mut owners): (Vec<AnyFirewall<Ristretto>>, Vec<AnyFirewall<Ristretto>>) =
        Default::default();
    match case.text("wall") {
        "none" => {}
        "rerand" => encryptors.push(Box::new(RerandFirewall::with_coins(own, coins))),
        "remaul" => encryptors.push(Box::new(ReMaulFirewall::with_coins(own, coins))),
        "key-maul" => owners.push(Box::new(KeyMaulFirewall::with_coins(own, coins))),
        wall => panic!("no wall {wall}"),
    }
    let mut encryptors = Stack::new(encryptors);
    let mut owners = Stack::new(owners);
    let (owner, key) = KeyOwner::generate(group, &mut coins_of(case, &["a"]), rng);
    case.assert_bytes("h", &key.encode_fields(group)[0]);
    let key = carry(group, key, [&mut owners, &mut encryptors], rng);
    let text = group.decode(&case.bytes("m")).expect("an element");
    let encryptor = Encryptor::new(group, &key).expect("a proper key");
    let ciphertext = encryptor.encrypt(group, &text, &mut coins_of(case, &["b"]), rng);
    let ciphertext = carry(group, ciphertext, [&mut encryptors, &mut owners], rng);
    for (key, field) in ["c0", "c1"].iter().zip(ciphertext.encode_fields(group)) {
        case.assert_bytes(key, &field);
    }
    assert!(owner.decrypt(group, ciphertext_of(&ciphertext)) == text, "{}", case.name());
}

fn gkx(case: &Case, group: &Ristretto, rng: &mut dyn CryptoRng) {
    let alice = identity(1);
    let bob = identity(2);
    let mut coins = coins_of(case, &["coins"]);
    let mut own: Vec<GkxGuard> =
        (0..case.number("dialling")).map(|_| GkxGuard::for_dialling()).collect();
    let mut their: Vec<GkxGuard> =
        (0..case.number("answering")).map(|_| GkxGuard::for_answering()).collect();
    let drawn: &mut dyn Coins<Ristretto> = &mut coins;
    let peer = bob.public_key();
    let (initiator, frame) =
        GkxInitiator::begin::<B>(group, &alice, peer, &mut coins_of(case, &["x", "r", "s"]), rng)
            .expect("G1");
    let out = |guards: &mut [GkxGuard],
               frame,
               drawn: &mut dyn Coins<Ristretto>,
               rng: &mut dyn CryptoRng| {
        guards
            .iter_mut()
            .fold(frame, |f: Vec<u8>, w| w.change_outgoing(group, &f, drawn, rng).expect("out"))
    };
    // The answering guard next to the wire is the first of its vector's coins.
    let inwards = |guards: &mut [GkxGuard],
                   frame,
                   drawn: &mut dyn Coins<Ristretto>,
                   rng: &mut dyn CryptoRng| {
        guards
            .iter_mut()
            .rev()
            .fold(frame, |f: Vec<u8>, w| w.change_incoming(group, &f, drawn, rng).expect("in"))
    };
    let frame = out(&mut own, frame, drawn, rng);
    case.assert_bytes("g1_wire", &frame);
    let frame = inwards(&mut their, frame, drawn, rng);
    case.assert_bytes("g1_seen", &frame);
    let (responder, frame) =
        GkxResponder::answer(group, &frame, &mut coins_of(case, &["y"]), rng).expect("G2");
    let frame = out(&mut their, frame, drawn, rng);
    let frame = inwards(&mut own, frame, drawn, rng);
    case.assert_bytes("g2_seen", &frame);
    let (opened, frame) = initiator.open(group, &frame).expect("G3");
    let frame = out(&mut own, frame, drawn, rng);
    case.assert_bytes("g3_wire", &frame);
    let frame = inwards(&mut their, frame, drawn, rng);
    let candidates = [GkxCandidate::new::<B>(&bob, *alice.public_key()).expect("a key")];
    let accepted =
        responder.finish(group, &frame, bob.public_key(), &candidates).expect("accepted");
    case.assert_bytes("g4", &accepted.frame);
    let keys = opened.finish(&accepted.frame).expect("keys");
    for keys in [keys, accepted.keys] {
        case.assert_bytes("initiator_key", keys.initiator.expose());
        case.assert_bytes("responder_key", keys.responder.expose());
    }
}

/// Frames of the wire that end an exchange without guards, whichever of them is wrong.
fn gkx_wrong(case: &Case, group: &Ristretto, rng: &mut dyn CryptoRng) {
    let alice = identity(1);
    let bob = identity(2);
    let run = |rng: &mut dyn CryptoRng| -> Option<()> {
        let peer = bob.public_key();
        let (initiator, _) = GkxInitiator::begin::<B>(
            group,
            &alice,
            peer,
            &mut coins_of(case, &["x", "r", "s"]),
            rng,
        )
        .ok()?;
        let g1 = case.bytes("g1_wire");
        let (responder, g2) =
            GkxResponder::answer(group, &g1, &mut coins_of(case, &["y"]), rng).ok()?;
        let (opened, _) = initiator.open(group, &g2).ok()?;
        let candidates = [GkxCandidate::new::<B>(&bob, *alice.public_key()).ok()?];
        responder.finish(group, &case.bytes("g3_wire"), bob.public_key(), &candidates).ok()?;
        opened.finish(&case.bytes("g4")).ok().map(|_| ())
    };
    expect(case, run(rng).is_some());
    // A guard refuses all of it but the tags, which it cannot check.
    let frame = case.bytes("g1_wire");
    let is_element =
        GkxGuard::for_dialling().change_outgoing(group, &frame, &mut Uniform, rng).is_ok();
    assert_eq!(is_element, !case.name().contains("-g1-"), "{}", case.name());
}

fn slot(case: &Case) -> SlotIndex {
    let purpose = CoinPurpose::from_byte(case.number("purpose") as u8).expect("a purpose");
    let dest = u16::try_from(case.number("dest")).expect("a number");
    let name = SlotName { client: GuardClientId(case.array("client")), purpose, dest };
    SlotIndex { name, index: case.number("index") }
}

fn coin(case: &Case) {
    let key = CoinKey::from_secret(Secret::copy_from(&case.array("coin_key")));
    let key = match case.bytes("era").try_into() {
        Ok(era) => key.in_era(&CoinEra(era)),
        Err(_) => key,
    };
    let slot = slot(case);
    let secret = CoinSecret::decode(&case.array("x_c")).expect("a scalar");
    let encoding = if case.text("encoding") == "x25519" {
        CoinEncoding::X25519
    } else {
        CoinEncoding::Ristretto
    };
    let rho = key.derive_rho(&slot);
    case.assert_bytes("rho", &*rho.encode());
    let h = rho.commitment(&slot);
    case.assert_bytes("h", &h);
    let z = secret.point(encoding);
    case.assert_bytes("Z", &z);
    case.assert_bytes("X", &rho.public_key(encoding, &z).expect("a point"));
    let pair = secret.with_coin(&slot, &h, &rho).expect("a key");
    case.assert_bytes("X", &pair.public_key(encoding));
    if encoding == CoinEncoding::X25519 {
        let peer = StaticKey::from_scalar::<B>(Secret::copy_from(&case.array("peer")));
        let own = PublicKey(pair.public_key(encoding));
        case.assert_bytes("shared", peer.diffie_hellman::<B>(&own).expect("a secret").expose());
        case.assert_bytes(
            "shared",
            pair.agree_x25519(peer.public_key()).expect("a secret").expose(),
        );
    }
}

fn coin_wrong(case: &Case) {
    let secret = CoinSecret::decode(&case.array("x_c")).expect("a scalar");
    let rho = Rho::decode(&case.array("rho")).expect("a scalar");
    expect(case, secret.with_coin(&slot(case), &case.array("h"), &rho).is_ok());
}

fn control(case: &Case) {
    let key = PairingKey::from_secret(Secret::init_with(|key| key.fill(7)));
    let kind = u8::try_from(case.number("frame_kind")).expect("a byte");
    let plain = case.bytes("plain");
    let frame = case.bytes("frame");
    let is_clear = [0x70, 0x71].contains(&kind);
    let read = if is_clear {
        Control::read_clear(&frame)
    } else {
        ControlChannel::of_client(&key, &[1; 32], &[2; 32]).open(&frame)
    };
    expect(case, read.is_ok());
    if let Ok(read) = read {
        assert_eq!(Control::decode(kind, &plain), Ok(read.clone()));
        let made = if is_clear {
            read.encode_clear()
        } else {
            ControlChannel::of_guard(&key, &[1; 32], &[2; 32]).seal(&read)
        };
        case.assert_bytes("frame", &made);
    }
}

fn pairing(case: &Case) {
    let read = PairingKey::from_code(case.text("code"));
    expect(case, read.is_ok());
    if let Ok(key) = read {
        case.assert_bytes("client", &key.client_id().0);
        assert_eq!(key.pairing_code().expose(), case.text("code").as_bytes());
    }
}

/// Messages of each kind are read again from any bytes that are one, and nothing else is.
#[test]
fn messages_are_canonical() {
    let group = Ristretto::new();
    let mut dice = SimRng::new(7, 0);
    for _ in 0..2_000 {
        let mut bytes = vec![0; if dice.chance(500) { 33 } else { 65 }];
        dice.rng().fill_bytes(&mut bytes);
        bytes[0] %= 8;
        if let Ok(message) = Message::decode(&group, &bytes) {
            assert_eq!(message.encode(&group), bytes);
        }
    }
}
