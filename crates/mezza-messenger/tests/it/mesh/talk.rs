//! Notes over the mesh alone.

use mezza_core::Time;
use mezza_messenger::evidence::{NoteState, WaitReason};
use mezza_messenger::policy::Policy;
use mezza_messenger::view::ContactState;
use mezza_messenger::{CarrierId, Command, Input, MeshInput};

use super::meadow::Meadow;

#[test]
fn msg_134_a_card_alone_begins_a_conversation_without_a_server() {
    let mut meadow = Meadow::carded();
    assert_eq!(meadow.sides[0].device.contacts()[0].policy.carriers, [CarrierId::MESH]);
    let first = meadow.say(0, "hello over the meadow");
    assert_eq!(meadow.state(0, first), NoteState::Carried(1));
    let contact = meadow.contact(1);
    let request = meadow.sides[1].device.contact(contact).expect("a request");
    assert_eq!((request.standing, request.claimed.as_str()), (ContactState::Request, "ann"));
    assert_eq!(request.policy.carriers, [CarrierId::MESH]);
    assert_eq!(meadow.texts(1), ["hello over the meadow"]);
    // A request gets neither an answer nor a receipt (MSG-26).
    let before = meadow.sent.len();
    meadow.settle();
    assert_eq!(meadow.sent.len(), before);
    meadow.command(1, Command::Accept { contact });
    assert_eq!(meadow.state(0, first), NoteState::Delivered);
    let answer = meadow.say(1, "and back");
    assert_eq!(meadow.state(1, answer), NoteState::Delivered);
    assert_eq!(meadow.texts(0), ["> hello over the meadow", "and back"]);
    assert!((0..2).all(|who| meadow.sides[who].device.outbox(meadow.now).is_empty()));
}

#[test]
fn msg_137_answered_sessions_fit_the_smallest_cell() {
    let mut meadow = Meadow::friends();
    // The first receipt of a session has the bundle beside it (MSG-100).
    meadow.say(0, "a first one");
    let before = meadow.sent.len();
    meadow.say(0, "a short one");
    let sizes: Vec<usize> = meadow.sent[before..].iter().map(|cell| cell.envelope.len()).collect();
    assert_eq!(sizes, [506, 506], "the note and its receipt");
}

#[test]
fn a_conversation_goes_on_after_a_start() {
    let mut meadow = Meadow::carded();
    let first = meadow.say(0, "one");
    for who in 0..2 {
        meadow.restart(who);
    }
    let contact = meadow.contact(1);
    meadow.command(1, Command::Accept { contact });
    for who in 0..2 {
        meadow.restart(who);
    }
    let second = meadow.say(1, "two");
    meadow.pass(5 * Time::MINUTE_MS);
    assert_eq!(
        (meadow.state(0, first), meadow.state(1, second)),
        (NoteState::Delivered, NoteState::Delivered)
    );
    assert_eq!(meadow.texts(1), ["one", "> two"]);
}

#[test]
fn msg_138_what_nobody_carried_leaves_again_in_a_fresh_cell() {
    let mut meadow = Meadow::friends();
    meadow.apart = true;
    meadow.tell_clock();
    let note = meadow.say(0, "into the fog");
    assert_eq!(meadow.state(0, note), NoteState::Queued(WaitReason::NoNeighbours));
    meadow.pass(10 * Time::MINUTE_MS);
    meadow.apart = false;
    meadow.tell_clock();
    meadow.pass(Time::MINUTE_MS);
    assert_eq!(meadow.state(0, note), NoteState::Delivered);
}

/// Cells whose receiver is away: each attempt is another cell, and attempts become rare.
#[test]
fn msg_138_a_contact_that_is_away_does_not_cause_a_flood_each_minute() {
    let mut meadow = Meadow::friends();
    let contact = meadow.contact(1);
    // Ben takes nothing: he has blocked Ann.
    meadow.command(1, Command::Block { contact, blocked: true });
    let before = meadow.sent.len();
    let note = meadow.say(0, "are you there");
    let mut attempts = meadow.sent.len() - before;
    let mut envelopes = std::collections::BTreeSet::new();
    for _ in 0..240 {
        meadow.pass(30 * Time::SECOND_MS);
        let own = meadow.sent.iter().filter(|cell| cell.from == 0);
        envelopes.extend(own.map(|cell| cell.envelope.clone()));
    }
    attempts += envelopes.len();
    assert!((5..=20).contains(&attempts), "{attempts} in two hours");
    assert!(matches!(meadow.state(0, note), NoteState::Carried(_)), "{:?}", meadow.state(0, note));
    meadow.command(1, Command::Block { contact, blocked: false });
    meadow.pass(20 * Time::MINUTE_MS);
    assert_eq!(meadow.state(0, note), NoteState::Delivered);
}

#[test]
fn msg_136_a_long_first_text_follows_in_the_session() {
    let mut meadow = Meadow::carded();
    let long = "long ".repeat(600);
    let note = meadow.say(0, &long);
    assert_eq!(meadow.state(0, note), NoteState::Queued(WaitReason::Answer));
    assert_eq!(meadow.sent.len(), 1, "one greeting for one cell (MSG-138)");
    let mut greetings = 1;
    for _ in 0..60 {
        let before: Vec<_> = meadow.sent.iter().map(|cell| cell.envelope.clone()).collect();
        meadow.pass(30 * Time::SECOND_MS);
        greetings += meadow.sent.iter().filter(|cell| !before.contains(&cell.envelope)).count();
    }
    assert!((3..=12).contains(&greetings), "{greetings} in half an hour");
    let contact = meadow.contact(1);
    assert_eq!(meadow.texts(1), [""; 0]);
    meadow.command(1, Command::Accept { contact });
    meadow.pass(5 * Time::MINUTE_MS);
    assert_eq!(meadow.state(0, note), NoteState::Delivered);
    assert!(meadow.sides[0].device.outbox(meadow.now).is_empty());
    assert_eq!(meadow.texts(1), [long]);
    let text = "x".repeat(4_000);
    let contact = meadow.contact(0);
    let send = Command::Send { contact, client: [200; 16], text, life: None };
    assert!(meadow.try_input(0, Input::Command(send)).is_err(), "too big (MSG-25)");
}

#[test]
fn msg_134_both_may_knock_at_once() {
    let mut meadow = Meadow::carded();
    let card = crate::stage::card(&meadow.sides[0].device);
    meadow.command(1, Command::Add { card, petname: None, in_person: false });
    meadow.apart = true;
    meadow.tell_clock();
    let notes = [meadow.say(0, "from ann"), meadow.say(1, "from ben")];
    meadow.apart = false;
    meadow.tell_clock();
    meadow.pass(10 * Time::MINUTE_MS);
    for (who, note) in notes.into_iter().enumerate() {
        assert_eq!(meadow.state(who, note), NoteState::Delivered);
    }
    let last = meadow.say(0, "one session for both");
    assert_eq!(meadow.state(0, last), NoteState::Delivered);
}

#[test]
fn msg_134_a_contact_that_was_deleted_and_added_again_is_answered() {
    let mut meadow = Meadow::friends();
    let contact = meadow.contact(0);
    meadow.command(0, Command::Delete { contact });
    let card = crate::stage::card(&meadow.sides[1].device);
    meadow.command(0, Command::Add { card, petname: None, in_person: false });
    let note = meadow.say(0, "me again");
    meadow.pass(30 * Time::MINUTE_MS);
    assert_eq!(meadow.state(0, note), NoteState::Delivered);
    let answer = meadow.say(1, "welcome back");
    meadow.pass(5 * Time::MINUTE_MS);
    assert_eq!(meadow.state(1, answer), NoteState::Delivered);
}

#[test]
fn msg_20_nothing_leaves_over_the_mesh_above_its_level() {
    let mut meadow = Meadow::friends();
    let contact = meadow.contact(0);
    let policy = Policy { carriers: vec![CarrierId::MESH], level_min: 3, ..Policy::default() };
    meadow.command(0, Command::Policy { contact, policy });
    let before = meadow.sent.len();
    let note = meadow.say(0, "only at level 3");
    assert_eq!(meadow.state(0, note), NoteState::Queued(WaitReason::BelowPin));
    assert_eq!(meadow.sent.len(), before);
}

#[test]
fn an_envelope_is_handled_once_and_an_unknown_ticket_is_refused() {
    let mut meadow = Meadow::friends();
    meadow.say(0, "once");
    let cell = meadow.sent.iter().rev().find(|cell| cell.from == 0).expect("sent").clone();
    let before = meadow.texts(1);
    for _ in 0..3 {
        if let Some(opened) = meadow.open(1, &cell) {
            meadow.mesh(1, opened);
        }
    }
    assert_eq!(meadow.texts(1), before);
    let unknown = MeshInput::Expired { ticket: 9_999 };
    assert!(meadow.try_input(0, Input::Carrier(unknown.into())).is_err());
}
