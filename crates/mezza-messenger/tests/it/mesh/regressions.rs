//! Failures of other people's meshes, one test each, at the device. The story stands above its test.

use mezza_core::Time;
use mezza_messenger::evidence::{NoteState, WaitReason};
use mezza_messenger::policy::Policy;
use mezza_messenger::view::ContactState;
use mezza_messenger::{CarrierId, Command, MeshInput};

use super::meadow::{Cell, Meadow};
use crate::stage::card;

/// Bridgefy and `BitChat` took the name in a message for its sender. Another device that calls itself Ann, and
/// has Ben's card, gets a request of its own: nothing of it appears in the thread with Ann.
#[test]
fn bridgefy_a_name_is_no_sender() {
    let mut meadow = Meadow::friends();
    let real = meadow.contact(1);
    let thread = meadow.texts(1);
    let mut elsewhere = Meadow::seeded(12);
    elsewhere.now = meadow.now;
    elsewhere.tell_clock();
    elsewhere.mesh(0, MeshInput::MakeTree { confirmed: false });
    let card = card(&meadow.sides[1].device);
    elsewhere.command(0, Command::Add { card, petname: None, in_person: false });
    elsewhere.say(0, "it is me, Ann");
    let cell = elsewhere.sent.last().expect("sent").clone();
    let opened = meadow.open(1, &cell).expect("sealed for Ben");
    meadow.mesh(1, opened);
    assert_eq!(meadow.texts(1), thread);
    let contacts = meadow.sides[1].device.contacts();
    assert_eq!(contacts.len(), 2);
    let other = contacts.iter().find(|contact| contact.id != real).expect("a request");
    assert_eq!(
        (other.standing, other.claimed.as_str()),
        (ContactState::Request, "ann"),
        "the name that it claims, and no contact"
    );
}

/// Bridgefy's messages could be sent again by anybody who heard them. Every cell of a conversation comes again,
/// at once and later, in both orders: no thread changes, and nothing is sent.
#[test]
fn bridgefy_a_repeated_cell_changes_nothing() {
    let mut meadow = Meadow::friends();
    meadow.say(0, "third");
    let heard: Vec<Cell> = meadow.sent.clone();
    assert!(heard.len() >= 4);
    let threads = [0, 1].map(|who| meadow.texts(who));
    let before = meadow.sent.len();
    for cell in heard.iter().chain(heard.iter().rev()) {
        if let Some(opened) = meadow.open(1 - cell.from, cell) {
            meadow.mesh(1 - cell.from, opened);
        }
    }
    assert_eq!([0, 1].map(|who| meadow.texts(who)), threads);
    assert_eq!(meadow.sent.len(), before, "nobody answers a repetition");
    meadow.pass(3 * Time::MINUTE_MS);
    assert!(heard.iter().all(|cell| meadow.open(1 - cell.from, cell).is_none()));
}

/// Bridgefy's messages named sender and receiver. Two cells of one conversation share no eight bytes, and none
/// of the receiver's card.
#[test]
fn bridgefy_a_cell_names_nobody() {
    let mut meadow = Meadow::friends();
    meadow.say(0, "the first of two");
    meadow.say(0, "the other of two");
    let own: Vec<Cell> =
        meadow.sent.iter().rev().filter(|cell| cell.from == 0).take(2).cloned().collect();
    let has = |bytes: &[u8], part: &[u8]| bytes.windows(8).any(|window| window == part);
    let [one, other] = [&own[0].envelope, &own[1].envelope];
    assert_eq!(one.len(), other.len());
    assert!(!one.windows(8).any(|part| has(other, part)));
    let cards = [0, 1].map(|who| card(&meadow.sides[who].device).encode());
    for card in &cards {
        assert!(!one.windows(8).any(|part| has(card, part)));
    }
}

/// Meshtastic fell back from a person's key to the channel's without a word. A note for the mesh to a contact
/// without keys for it waits and says why.
#[test]
fn meshtastic_a_note_falls_back_to_nothing() {
    let mut meadow = Meadow::new();
    meadow.mesh(0, MeshInput::MakeTree { confirmed: false });
    let card = card(&meadow.sides[1].device);
    meadow.command(0, Command::Add { card, petname: None, in_person: false });
    let contact = meadow.contact(0);
    let policy = Policy { carriers: vec![CarrierId::MESH], ..Policy::default() };
    meadow.command(0, Command::Policy { contact, policy });
    let note = meadow.say(0, "for your eyes");
    meadow.pass(5 * Time::MINUTE_MS);
    assert_eq!(meadow.state(0, note), NoteState::Queued(WaitReason::NewCard));
    assert!(meadow.sent.is_empty());
}

/// Colluding neighbours announce whatever they are given and pass nothing on. Their number is shown as what it
/// is, and the note leaves again until its reader has confirmed it.
#[test]
fn colluders_that_announce_a_cell_deliver_nothing() {
    let mut meadow = Meadow::friends();
    let before = meadow.sent.len();
    meadow.apart = true;
    meadow.liars = true;
    meadow.tell_clock();
    let note = meadow.say(0, "through liars");
    assert_eq!(meadow.state(0, note), NoteState::Carried(64));
    let first = meadow.sent[before].envelope.clone();
    meadow.pass(10 * Time::MINUTE_MS);
    assert_eq!(meadow.state(0, note), NoteState::Carried(64), "nothing but a receipt is a receipt");
    meadow.liars = false;
    meadow.apart = false;
    meadow.tell_clock();
    meadow.pass(30 * Time::MINUTE_MS);
    assert_eq!(meadow.state(0, note), NoteState::Delivered);
    assert!(meadow.sent.iter().all(|cell| cell.envelope != first), "each attempt is another cell");
}
