//! The life of cells, chosen for a conversation and for one note.

use mezza_core::Time;
use mezza_hibe::Life;
use mezza_messenger::evidence::{NoteState, WaitReason};
use mezza_messenger::policy::{NoteLife, Policy};
use mezza_messenger::{CarrierId, Command, MeshInput};

use super::meadow::{Cell, Meadow};
use crate::saved::Saved;

/// Sets the life of the conversation of one side.
fn set_life(meadow: &mut Meadow, who: usize, life: Option<NoteLife>) {
    let contact = meadow.contact(who);
    let policy = Policy { carriers: vec![CarrierId::MESH], life, ..Policy::default() };
    meadow.command(who, Command::Policy { contact, policy });
}

/// Returns the last cell that one side sent.
fn last_cell(meadow: &Meadow, who: usize) -> Cell {
    meadow.sent.iter().rev().find(|cell| cell.from == who).expect("sent").clone()
}

fn last_life(meadow: &Meadow, who: usize) -> Life {
    last_cell(meadow, who).time.life
}

/// Separates the two, or brings them together.
fn set_apart(meadow: &mut Meadow, apart: bool) {
    meadow.apart = apart;
    meadow.tell_clock();
}

#[test]
fn msg_150_a_note_has_its_own_life_or_that_of_its_conversation_or_of_the_node() {
    let mut meadow = Meadow::friends();
    meadow.say(0, "as the node is set");
    assert_eq!(last_life(&meadow, 0), Life::Minute);
    meadow.mesh(0, MeshInput::Life(Life::HalfHour));
    meadow.say(0, "as the node is set now");
    assert_eq!(last_life(&meadow, 0), Life::HalfHour);
    set_life(&mut meadow, 0, Some(NoteLife::HalfDay));
    meadow.say(0, "as the conversation has it");
    assert_eq!(last_life(&meadow, 0), Life::HalfDay);
    let own = meadow.say_for(0, "as this note has it", Some(NoteLife::Minute));
    assert_eq!(last_life(&meadow, 0), Life::Minute);
    meadow.say(0, "as the conversation has it");
    assert_eq!(last_life(&meadow, 0), Life::HalfDay);
    let view = meadow.sides[0].device.note(own, meadow.now).expect("there");
    assert_eq!(view.life, Some(NoteLife::Minute));
    let contact = meadow.contact(0);
    let policy = meadow.sides[0].device.contact(contact).expect("there").policy;
    assert_eq!(policy.life, Some(NoteLife::HalfDay));
    set_life(&mut meadow, 0, None);
    meadow.say(0, "as the node is set again");
    assert_eq!(last_life(&meadow, 0), Life::HalfHour);
}

#[test]
fn msg_150_a_start_and_a_second_attempt_keep_the_life_of_a_note() {
    let mut meadow = Meadow::friends();
    set_life(&mut meadow, 0, Some(NoteLife::HalfHour));
    set_apart(&mut meadow, true);
    let note = meadow.say_for(0, "waits for a neighbour", Some(NoteLife::HalfDay));
    assert_eq!(meadow.state(0, note), NoteState::Queued(WaitReason::NoNeighbours));
    meadow.restart(0);
    let contact = meadow.contact(1);
    // Ben takes nothing, so that the cell ends without a receipt and another one follows.
    meadow.command(1, Command::Block { contact, blocked: true });
    set_apart(&mut meadow, false);
    let first = last_cell(&meadow, 0);
    assert_eq!(first.time.life, Life::HalfDay);
    meadow.restart(0);
    meadow.now = meadow.now.plus_ms(25 * Time::HOUR_MS);
    meadow.pass(Time::MINUTE_MS);
    let second = last_cell(&meadow, 0);
    assert_ne!(first.envelope, second.envelope);
    assert_eq!(second.time.life, Life::HalfDay);
    // The conversation has kept its own life.
    let contact = meadow.contact(0);
    let policy = meadow.sides[0].device.contact(contact).expect("there").policy;
    assert_eq!(policy.life, Some(NoteLife::HalfHour));
}

/// A courier: a cell that is heard 25 minutes later, and much later by a thief.
#[test]
fn msg_150_a_cell_of_half_an_hour_opens_25_minutes_later_and_not_the_next_day() {
    for (life, opens) in [(NoteLife::Minute, false), (NoteLife::HalfHour, true)] {
        let mut meadow = Meadow::friends();
        meadow.say_for(0, "by courier", Some(life));
        let cell = last_cell(&meadow, 0);
        meadow.pass(25 * Time::MINUTE_MS);
        assert_eq!(meadow.open(1, &cell).is_some(), opens, "{life:?}");
        meadow.pass(Time::HOUR_MS);
        meadow.restart(1);
        assert!(meadow.open(1, &cell).is_none(), "{life:?}");
    }
}

#[test]
fn msg_150_the_time_at_which_a_carried_note_ends_is_that_of_its_life() {
    let mut meadow = Meadow::friends();
    let contact = meadow.contact(1);
    meadow.command(1, Command::Block { contact, blocked: true });
    for (life, epoch_ms) in [
        (NoteLife::Minute, 30 * Time::SECOND_MS),
        (NoteLife::HalfHour, 30 * Time::MINUTE_MS),
        (NoteLife::HalfDay, 12 * Time::HOUR_MS),
    ] {
        let note = meadow.say_for(0, "carried", Some(life));
        let view = meadow.sides[0].device.note(note, meadow.now).expect("there");
        assert_eq!(view.state, NoteState::Carried(1));
        let until = view.carried_until.expect("it is carried");
        let epoch = meadow.now.as_ms() / epoch_ms;
        assert_eq!(until.as_ms(), (epoch + 2) * epoch_ms, "{life:?}");
    }
}

#[test]
fn msg_152_a_receipt_lives_as_long_as_the_note_unless_the_conversation_says_otherwise() {
    let mut meadow = Meadow::friends();
    // The first receipt of a session has the bundle beside it (MSG-100).
    meadow.say(0, "a first one");
    meadow.say_for(0, "by courier", Some(NoteLife::HalfDay));
    assert_eq!(last_life(&meadow, 1), Life::HalfDay);
    // What Ben writes himself has the life of his node.
    meadow.say(1, "an answer");
    assert_eq!(last_life(&meadow, 1), Life::Minute);
    set_life(&mut meadow, 1, Some(NoteLife::HalfHour));
    meadow.say_for(0, "by courier again", Some(NoteLife::HalfDay));
    assert_eq!(last_life(&meadow, 1), Life::HalfHour);
}

#[test]
fn msg_150_a_backup_keeps_both_choices() {
    let mut meadow = Meadow::friends();
    set_life(&mut meadow, 0, Some(NoteLife::HalfHour));
    let note = meadow.say_for(0, "for half a day", Some(NoteLife::HalfDay));
    let saved = Saved::of_device(&meadow.sides[0].device, meadow.now);
    let disk = saved.into_disk(meadow.now, &mut meadow.rng).expect("sound");
    meadow.sides[0].disk = disk;
    meadow.sides[0].ring = None;
    meadow.restart(0);
    let device = &meadow.sides[0].device;
    let contact = meadow.contact(0);
    assert_eq!(device.contact(contact).expect("there").policy.life, Some(NoteLife::HalfHour));
    assert_eq!(device.note(note, meadow.now).expect("there").life, Some(NoteLife::HalfDay));
}
