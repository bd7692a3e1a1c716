//! python-axolotl 0.2.3.

use mezza_core::Suite;
use mezza_ratchet::suite::V3;

use super::device::{Device, without_one_time};
use super::java::{self, JUMP_MAX};
use super::matrix::{self, Ends, Jump};
use super::ours::Ours;
use super::peer::{Program, Runs};
use super::{CELLS, Case, Role, jumps, meet};

const PROGRAM: Program = Program { name: "axolotl", source: "peer_axolotl.py", runs: Runs::Python };

/// All but the one that it cannot do, see [`it_cannot_open_without_a_one_time_key`].
const CASES: [Case; 3] = [(Role::We, true), (Role::They, true), (Role::They, false)];

/// The two libraries pass the matrix against each other.
#[test]
fn against_the_library_in_java() {
    let (Some(one), Some(two)) = (PROGRAM.start(), java::PROGRAM.start()) else { return };
    let mut ends: Ends = [Box::new(one), Box::new(two)];
    for _ in 0..2 {
        for cell in CELLS {
            cell(&mut ends, true);
        }
        matrix::jump(&mut ends, Jump { max: JUMP_MAX, held: true });
        ends.swap(0, 1);
    }
}

#[test]
fn first_messages_change_places() {
    meet(&PROGRAM, V3::ID, matrix::first_messages, &CASES);
}

#[test]
fn turns_of_three_and_replays() {
    meet(&PROGRAM, V3::ID, matrix::turns, &CASES);
}

#[test]
fn random_loss_and_delay() {
    meet(&PROGRAM, V3::ID, matrix::random, &CASES);
}

#[test]
fn flipped_bits() {
    meet(&PROGRAM, V3::ID, matrix::flips, &CASES);
}

#[test]
fn both_begin_at_once() {
    meet(&PROGRAM, V3::ID, matrix::simultaneous, &CASES[..2]);
}

#[test]
fn jumps_within_and_beyond_their_limit() {
    jumps(&PROGRAM, JUMP_MAX);
}

#[test]
fn their_signatures_have_both_forms_and_are_right() {
    let Some(mut peer) = PROGRAM.start() else { return };
    super::both_sign_bits(&mut peer);
}

/// A fault of theirs: the id that is absent is read as 0. Should they repair it, this test says so.
#[test]
fn it_cannot_open_without_a_one_time_key() {
    let Some(mut peer) = PROGRAM.start() else { return };
    let mut ours = Ours::new(V3::ID);
    ours.process(&without_one_time(peer.bundle())).expect("a good bundle");
    let refused = peer.dec(&ours.send(b"hello")).expect_err("their fault");
    assert_eq!(refused, "InvalidKeyIdException: No such prekeyRecord!");
}
