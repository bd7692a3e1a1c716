//! signal-protocol-java 2.8.1, Signal's own library of 2019.

use mezza_core::{Blake2b512, Sha512, Suite};
use mezza_ratchet::safety::{self, NamedIdentity};
use mezza_ratchet::suite::V3;

use super::device::{Device, Message, PLAIN};
use super::matrix::{self, Ends, Jump};
use super::ours::{Ours, key, parse, ser};
use super::peer::{Program, Runs};
use super::{ALL, CELLS, jumps, meet};
use mezza_testing::{hex, unhex};

pub const PROGRAM: Program = Program {
    name: "java",
    source: "PeerJava.java",
    runs: Runs::Java(&[
        "signal-protocol-java-2.8.1.jar",
        "curve25519-java-0.5.0.jar",
        "protobuf-javalite-3.10.0.jar",
    ]),
};

/// It lets 2,000 messages of a chain be missing.
pub const JUMP_MAX: usize = 2_000;

/// The matrix is right: the library passes it against itself.
#[test]
fn the_library_against_itself() {
    let (Some(one), Some(two)) = (PROGRAM.start(), PROGRAM.start()) else { return };
    let mut ends: Ends = [Box::new(one), Box::new(two)];
    for cell in CELLS {
        cell(&mut ends, true);
        cell(&mut ends, false);
    }
    matrix::jump(&mut ends, Jump { max: JUMP_MAX, held: true });
}

#[test]
fn first_messages_change_places() {
    meet(&PROGRAM, V3::ID, matrix::first_messages, &ALL);
}

#[test]
fn turns_of_three_and_replays() {
    meet(&PROGRAM, V3::ID, matrix::turns, &ALL);
}

#[test]
fn random_loss_and_delay() {
    meet(&PROGRAM, V3::ID, matrix::random, &ALL);
}

#[test]
fn flipped_bits() {
    meet(&PROGRAM, V3::ID, matrix::flips, &ALL);
}

#[test]
fn both_begin_at_once() {
    meet(&PROGRAM, V3::ID, matrix::simultaneous, &ALL);
}

#[test]
fn jumps_within_and_beyond_their_limit() {
    jumps(&PROGRAM, JUMP_MAX);
}

#[test]
fn ratchet_60_numbers_and_codes_are_equal() {
    let Some(mut peer) = PROGRAM.start() else { return };
    let mut ours = Ours::new(V3::ID);
    for (here, there) in [("alice", "bob"), ("+15550100", "+15550199"), ("", "")] {
        let theirs = peer.bundle();
        let our_key = ser(ours.identity().public_key().as_bytes());
        let asked = peer.ask(&["number", &hex(there.as_bytes()), &hex(here.as_bytes()), &our_key]);
        let answer = asked.expect("a number");
        let (_, their_key) = parse(&theirs);
        let our_key = ours.identity().public_key();
        let local = NamedIdentity { key: &our_key, id: here.as_bytes() };
        let remote = NamedIdentity { key: &their_key, id: there.as_bytes() };
        assert_eq!(answer[0], safety::signal_number::<Sha512>(local, remote));
        assert_eq!(unhex(&answer[1]), safety::signal_scannable::<Sha512>(2, remote, local));
        ours.bundle();
    }
}

#[test]
fn their_signatures_have_both_forms_and_are_right() {
    let Some(mut peer) = PROGRAM.start() else { return };
    super::both_sign_bits(&mut peer);
}

#[test]
fn what_they_say_when_they_refuse() {
    let Some(mut peer) = PROGRAM.start() else { return };
    let mut ours = Ours::new(V3::ID);
    ours.bundle();
    ours.process(&peer.bundle()).expect("a good bundle");
    let hello = ours.send(b"hello");
    peer.dec(&hello).expect("hello");
    let replayed = peer.dec(&hello).expect_err("a replay");
    assert!(replayed.starts_with("DuplicateMessageException"), "{replayed}");

    let answer = peer.send(b"yes");
    ours.dec(&answer).expect("yes");
    let mut forged = ours.send(b"forged");
    let last = forged.bytes.len() - 1;
    forged.bytes[last] ^= 1;
    let refused = peer.dec(&forged).expect_err("a wrong MAC");
    assert_eq!(refused, "InvalidMessageException: No valid sessions.");

    let container = Message { kind: PLAIN, bytes: [vec![0xf1], vec![0; 73]].concat() };
    let refused = peer.dec(&container).expect_err("a container");
    assert_eq!(refused, "InvalidMessageException: Unknown version: 15");
}

/// The paper's own change, and what it looks like to an app that was not changed: an attack.
#[test]
fn a_bundle_signed_over_blake2_looks_like_an_attack() {
    let Some(mut peer) = PROGRAM.start() else { return };
    let mut ours = Ours::new(V3::ID);
    let mut bundle = ours.bundle();
    assert_eq!(peer.process(&bundle), Ok(()));
    let mut rng = super::rng();
    let signature = ours.identity().sign::<Blake2b512>(&[&[5], &key(&bundle[4])], &mut rng);
    bundle[5] = hex(&signature);
    let refused = peer.process(&bundle).expect_err("another hash");
    assert_eq!(refused, "InvalidKeyException: Invalid signature on device key!");
}
