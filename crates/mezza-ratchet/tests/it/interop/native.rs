//! libsignal-client 0.86.5, Signal's library of 2025: PQXDH, and no older handshake.

use mezza_core::{Sha512, Suite};
use mezza_ratchet::safety::{self, NamedIdentity};
use mezza_ratchet::suite::V4;

use super::device::{Device, Message, PLAIN};
use super::matrix::{self, Ends, Jump};
use super::ours::{Ours, parse, ser};
use super::peer::{Program, Runs};
use super::{ALL, CELLS, meet};
use mezza_testing::{hex, unhex};

const PROGRAM: Program = Program {
    name: "native",
    source: "PeerNative.java",
    runs: Runs::Java(&["libsignal-client-0.86.5.jar", "kotlin-stdlib-2.1.0.jar"]),
};

/// It lets 25,000 messages of a chain be missing, as we do in its suite.
const JUMP_MAX: usize = 25_000;

/// The matrix is right for this one, too: the library passes it against itself.
#[test]
fn the_library_against_itself() {
    let (Some(one), Some(two)) = (PROGRAM.start(), PROGRAM.start()) else { return };
    let mut ends: Ends = [Box::new(one), Box::new(two)];
    for one_time in [true, false] {
        for cell in CELLS {
            cell(&mut ends, one_time);
        }
    }
    matrix::jump(&mut ends, Jump { max: 2_000, held: false });
}

#[test]
fn first_messages_change_places() {
    meet(&PROGRAM, V4::ID, matrix::first_messages, &ALL);
}

#[test]
fn turns_of_three_and_replays() {
    meet(&PROGRAM, V4::ID, matrix::turns, &ALL);
}

#[test]
fn random_loss_and_delay() {
    meet(&PROGRAM, V4::ID, matrix::random, &ALL);
}

#[test]
fn flipped_bits() {
    meet(&PROGRAM, V4::ID, matrix::flips, &ALL);
}

#[test]
fn both_begin_at_once() {
    meet(&PROGRAM, V4::ID, matrix::simultaneous, &ALL);
}

/// Both sides have the same limit, 25,000.
#[test]
fn jumps_within_and_beyond_their_limit() {
    let Some(peer) = PROGRAM.start() else { return };
    let mut ends: Ends = [Box::new(Ours::new(V4::ID)), Box::new(peer)];
    for _ in 0..2 {
        matrix::jump(&mut ends, Jump { max: JUMP_MAX, held: true });
        ends.swap(0, 1);
    }
}

#[test]
fn numbers_and_codes_are_equal() {
    let Some(mut peer) = PROGRAM.start() else { return };
    let ours = Ours::new(V4::ID).identity().public_key();
    let (_, theirs) = parse(&peer.bundle());
    let here = b"alice".as_slice();
    let there = b"bob".as_slice();
    let answer = peer.ask(&["number", &hex(there), &hex(here), &ser(ours.as_bytes())]);
    let answer = answer.expect("a number");
    let local = NamedIdentity { key: &ours, id: here };
    let remote = NamedIdentity { key: &theirs, id: there };
    assert_eq!(answer[0], safety::signal_number::<Sha512>(local, remote));
    assert_eq!(unhex(&answer[1]), safety::signal_scannable::<Sha512>(2, remote, local));
}

#[test]
fn their_signatures_are_right() {
    let Some(mut peer) = PROGRAM.start() else { return };
    for _ in 0..64 {
        let (bundle, identity) = parse(&peer.bundle());
        bundle.check(V4::ID, &identity, 1).expect("a good bundle");
    }
}

#[test]
fn what_they_say_when_they_refuse() {
    let Some(mut peer) = PROGRAM.start() else { return };
    let mut ours = Ours::new(V4::ID);
    ours.process(&peer.bundle()).expect("a good bundle");
    let hello = ours.send(b"hello");
    peer.dec(&hello).expect("hello");
    let replayed = peer.dec(&hello).expect_err("a replay");
    assert!(replayed.starts_with("DuplicateMessageException"), "{replayed}");
    let container = Message { kind: PLAIN, bytes: [vec![0xf1], vec![0; 73]].concat() };
    let refused = peer.dec(&container).expect_err("a container");
    assert_eq!(refused, "InvalidVersionException: ciphertext version was unrecognized <15>");
}
