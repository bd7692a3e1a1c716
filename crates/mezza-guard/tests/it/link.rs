//! Frames of a link as SEKA has them, and the rules of a guard for them (the document, "Rules as data").

use std::collections::BTreeMap;

use mezza_core::{PublicKey, Secret};
use mezza_guard::coin::{CoinEncoding, CoinKeyPair, CoinPurpose};
use mezza_guard::guard::{Destination, GuardClientSettings, GuardSettings, StrictPolicy};
use mezza_guard::keys::PairingKey;
use mezza_guard::rule::{Check, Field, FieldPin, FrameRule, Pins, RuleTable};
use mezza_guard::wire::control::GuardMode;
use sha2::{Digest as _, Sha256};

pub const KE1: u8 = 0x15;
pub const KE2: u8 = 0x16;
pub const KE3: u8 = 0x17;
/// A record of the least length.
pub const RECORD_BYTES: u16 = 256;

const fn head(kind: &'static [u8]) -> [Field; 4] {
    [
        Field::new(0, 2, Check::Constant(kind)),
        Field::new(2, 3, Check::Constant(&[2, 0, 0])),
        Field::new(5, 2, Check::Pinned(FieldPin::Link)),
        Field::new(7, 1, Check::LowByte(36)),
    ]
}

const H1: [Field; 4] = head(&[1, KE1]);
const H2: [Field; 4] = head(&[1, KE2]);
const H3: [Field; 4] = head(&[1, KE3]);
const X: CoinEncoding = CoinEncoding::X25519;

/// The fields of KE1.
pub const KE1_FIELDS: &[Field] = &[
    H1[0],
    H1[1],
    H1[2],
    H1[3],
    Field::new(8, 6, Check::Pinned(FieldPin::Own)),
    Field::new(14, 6, Check::Pinned(FieldPin::Peer)),
    Field::new(20, 16, Check::Derived(b"seka1 s", &[(8, 14), (40, 72)])),
    Field::new(36, 4, Check::Counter),
    Field::new(40, 32, Check::Element(X, CoinPurpose::LinkDialling)),
    Field::new(72, 16, Check::Mac),
];
const KE2_FIELDS: &[Field] = &[
    H2[0],
    H2[1],
    H2[2],
    H2[3],
    Field::new(8, 6, Check::Echo(14)),
    Field::new(14, 6, Check::Echo(8)),
    Field::new(20, 16, Check::Echo(20)),
    Field::new(36, 4, Check::Echo(36)),
    Field::new(40, 32, Check::Element(X, CoinPurpose::LinkAnswering)),
    Field::new(72, 16, Check::Mac),
];
const KE3_FIELDS: &[Field] = &[
    H3[0],
    H3[1],
    H3[2],
    H3[3],
    Field::new(8, 6, Check::Pinned(FieldPin::Own)),
    Field::new(14, 6, Check::Pinned(FieldPin::Peer)),
    Field::new(20, 16, Check::Echo(20)),
    Field::new(36, 4, Check::Echo(36)),
    Field::new(40, 16, Check::Mac),
];

pub fn rules() -> [FrameRule; 3] {
    [
        FrameRule { kind: KE1, bytes: 88, fields: KE1_FIELDS },
        FrameRule { kind: KE2, bytes: 88, fields: KE2_FIELDS },
        FrameRule { kind: KE3, bytes: 56, fields: KE3_FIELDS },
    ]
}

pub const ALICE: [u8; 6] = *b"alice.";
pub const BOB: [u8; 6] = *b"bob...";
pub const LINK: u16 = 7;

pub const PINS: Pins = Pins { own: ALICE, peer: BOB, link: LINK };

pub fn pairing(byte: u8) -> PairingKey {
    PairingKey::from_secret(Secret::init_with(|key| key.fill(byte)))
}

/// A guard with one client and one destination, number 1.
pub fn settings(client: u8, inbound: GuardMode) -> GuardSettings {
    let key = pairing(client);
    let clients = BTreeMap::from([(key.client_id(), GuardClientSettings { key, inbound })]);
    GuardSettings {
        policy: StrictPolicy::Strict,
        table: RuleTable::new(rules()).expect("fields that tile"),
        encoding: X,
        record_lengths: &[RECORD_BYTES, 512],
        clients,
        destinations: BTreeMap::from([(
            1,
            Destination { pins: Some(PINS), counter: Some(40), is_blocked: false },
        )]),
    }
}

fn tag(shared: &[u8], label: &[u8]) -> [u8; 16] {
    let hash: [u8; 32] = Sha256::new().chain_update(shared).chain_update(label).finalize().into();
    std::array::from_fn(|at| hash[at])
}

fn frame(kind: u8, a: u32, fields: &[&[u8]]) -> Vec<u8> {
    let [.., low] = a.to_be_bytes();
    let head = [&[1, kind, 2, 0, 0], &LINK.to_be_bytes()[..], &[low]].concat();
    [&head[..], &fields.concat()].concat()
}

/// KE1 with a key, as an honest initiator sends it.
pub fn ke1(m1: &[u8; 32], a: u32) -> Vec<u8> {
    let s: [u8; 32] = Sha256::new()
        .chain_update(b"seka1 s")
        .chain_update(ALICE)
        .chain_update(m1)
        .finalize()
        .into();
    frame(KE1, a, &[&ALICE, &BOB, &s[..16], &a.to_be_bytes(), m1, &tag(m1, b"t1")])
}

/// KE2 in answer to KE1.
pub fn ke2(first: &[u8], m2: &[u8; 32]) -> Vec<u8> {
    let a = counter(first);
    frame(KE2, a, &[&BOB, &ALICE, &first[20..36], &a.to_be_bytes(), m2, &tag(m2, b"t2")])
}

/// KE3, confirmed with the shared secret.
pub fn ke3(first: &[u8], shared: &[u8]) -> Vec<u8> {
    let a = counter(first);
    frame(KE3, a, &[&ALICE, &BOB, &first[20..36], &a.to_be_bytes(), &tag(shared, b"t3")])
}

/// Returns true if KE3 confirms the shared secret.
pub fn confirms(third: &[u8], shared: &[u8]) -> bool {
    third[40..] == tag(shared, b"t3")
}

pub fn counter(first: &[u8]) -> u32 {
    u32::from_be_bytes(first[36..40].try_into().expect("four bytes"))
}

/// The key of KE1 or KE2.
pub fn key(frame: &[u8]) -> PublicKey {
    PublicKey(frame[40..72].try_into().expect("a key"))
}

pub fn record() -> Vec<u8> {
    [&[1, 0x20], &RECORD_BYTES.to_be_bytes()[..], &[7; RECORD_BYTES as usize]].concat()
}

/// X25519 of a coin key.
pub fn secret(pair: CoinKeyPair, their: &PublicKey) -> Vec<u8> {
    pair.agree_x25519(their).expect("a proper key").expose().to_vec()
}
