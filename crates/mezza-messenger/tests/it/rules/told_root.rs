//! Two people who agree by another carrier where their chains in the mixnet begin, and change their
//! carriers or networks meanwhile (MSG-155).

use mezza_messenger::evidence::{NoteState, WaitReason};
use mezza_messenger::policy::Policy;
use mezza_messenger::{CarrierId, Command, ContactId, MixnetInput, NoteId};

use super::apart::both;
use crate::town::{ROUND_MS, Town, cells};

const ANN: usize = 0;
const BEN: usize = 1;
/// Rounds in which a contact is met.
const SHORT: u64 = 18;

fn by_relay() -> Policy {
    Policy { carriers: vec![CarrierId::RELAY], ..Policy::default() }
}

fn set_policy(town: &mut Town, contact: ContactId, policy: Policy) {
    town.command(ANN, Command::Policy { contact, policy }).expect("sound");
}

/// A note of Ann's arrives in cells.
fn meets(town: &mut Town, contact: ContactId) {
    let note = town.say(ANN, contact, "in cells?");
    town.pass(SHORT * ROUND_MS);
    assert_eq!(state(town, note), (NoteState::Delivered, Some(CarrierId::MIXNET)));
}

fn state(town: &Town, note: NoteId) -> (NoteState, Option<CarrierId>) {
    let view = town.members[ANN].device.note(note, town.now()).expect("there");
    (view.state, view.carrier)
}

/// Ann has written to Ben over the relay, and has his answer. What she owes him since then, the root of
/// their chains included, is with the relay carrier, which reaches nothing.
fn untold() -> (Town, ContactId) {
    let mut town = Town::new(&["ann", "ben"]);
    let ben = town.add(ANN, BEN, by_relay());
    town.add(BEN, ANN, both());
    town.set_online(BEN, false);
    town.say(ANN, ben, "hello");
    town.members[ANN].relay = false;
    town.set_online(BEN, true);
    town.pass(SHORT * ROUND_MS);
    assert!(town.is_known(ANN, ben), "Ann has answered where the chains begin");
    (town, ben)
}

#[test]
fn msg_155_who_has_not_answered_yet_learns_a_network_that_is_joined() {
    let mut town = Town::new(&["ann", "ben"]);
    town.command(ANN, MixnetInput::Leave).expect("joined");
    let ben = town.add(ANN, BEN, both());
    town.add(BEN, ANN, both());
    town.set_online(BEN, false);
    let first = town.say(ANN, ben, "hello");
    assert_eq!(state(&town, first), (NoteState::Handed(CarrierId::RELAY), Some(CarrierId::RELAY)));
    town.join(ANN).expect("a network can be joined");
    town.pass(3 * ROUND_MS);
    town.set_online(BEN, true);
    town.pass(SHORT * ROUND_MS);
    meets(&mut town, ben);
}

#[test]
fn msg_155_a_root_that_its_carrier_has_stays_there_if_the_carriers_change() {
    let (mut town, ben) = untold();
    set_policy(&mut town, ben, cells(1));
    town.members[ANN].relay = true;
    town.crash(ANN);
    town.pass(SHORT * ROUND_MS);
    meets(&mut town, ben);
}

#[test]
fn msg_155_a_root_that_is_called_back_is_told_again() {
    let (mut town, ben) = untold();
    town.crash(ANN);
    set_policy(&mut town, ben, cells(1));
    assert!(!town.is_known(ANN, ben), "nobody is called in chains that only one side has");
    let note = town.say(ANN, ben, "in cells alone");
    town.pass(SHORT * ROUND_MS);
    assert_eq!(state(&town, note), (NoteState::Queued(WaitReason::Keys), None));
    set_policy(&mut town, ben, both());
    town.set_relay(ANN, true);
    town.pass(SHORT * ROUND_MS);
    assert_eq!(state(&town, note).0, NoteState::Delivered);
    meets(&mut town, ben);
}
