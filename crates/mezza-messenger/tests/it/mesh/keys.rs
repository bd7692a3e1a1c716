//! The key tree in the device: made on request, forgotten in time, quarantined when it is damaged.

use mezza_core::Time;
use mezza_messenger::card::{CardForm, OFFLINE_PART};
use mezza_messenger::view::Part;
use mezza_messenger::{
    Command, DateStep, DeviceError, Input, MeshInput, MeshReport, PersonError, RecordKind,
};

use super::meadow::Meadow;

fn has_part(meadow: &Meadow, who: usize) -> bool {
    let card = meadow.sides[who].device.card(CardForm::Full).expect("a card");
    card.part(OFFLINE_PART).is_some()
}

#[test]
fn hibe_92_a_tree_is_made_on_request_and_by_a_clock_that_somebody_vouches_for() {
    let mut meadow = Meadow::new();
    assert!(!has_part(&meadow, 0));
    let vague = MeshReport {
        cur: 59_733_333,
        own: 59_733_333,
        within_ms: 600_000,
        settled: false,
        around: 0,
        boot_ms: 0,
        level: 2,
    };
    meadow.mesh(0, MeshInput::Clock(vague));
    let make = |confirmed| Input::Carrier(MeshInput::MakeTree { confirmed }.into());
    let refused = meadow.try_input(0, make(false));
    assert_eq!(refused, Err(DeviceError::Person(PersonError::NoClock)));
    assert!(!has_part(&meadow, 0) && meadow.sides[0].ring.is_none());
    meadow.try_input(0, make(true)).expect("the user vouches for it");
    assert!(has_part(&meadow, 0) && meadow.sides[0].ring.is_some());
    // The card has everything in one code.
    let card = meadow.sides[0].device.card(CardForm::Full).expect("a card");
    assert!(card.encode().len() <= 1_024 && card.part(OFFLINE_PART).unwrap().len() == 630);
    let offline = meadow.sides[0].device.card(CardForm::Offline).expect("an offline form");
    assert_eq!(offline.id(), card.id());
    // Once more is no other tree.
    let ring = meadow.sides[0].ring.clone();
    meadow.try_input(0, make(false)).expect("it is there");
    assert_eq!(meadow.sides[0].ring, ring);
    let missing = Meadow::new().try_input(1, make(true));
    assert!(missing.is_ok(), "a clock is known");
}

#[test]
fn hibe_91_what_was_sent_three_minutes_ago_opens_with_nothing_on_the_disk() {
    let mut meadow = Meadow::friends();
    let note = meadow.say(0, "burn after reading");
    let cell = meadow.sent.iter().rev().find(|cell| cell.from == 0).expect("sent").clone();
    assert!(meadow.open(1, &cell).is_some());
    meadow.pass(3 * Time::MINUTE_MS);
    assert!(meadow.open(1, &cell).is_none());
    // A thief takes the disk now, and turns the clock back.
    let rows = meadow.sides[1].disk.iter().filter(|((kind, _), _)| *kind == RecordKind::Tree);
    assert!(rows.count() > 1);
    meadow.now = meadow.now.minus_ms(3 * Time::MINUTE_MS);
    meadow.restart(1);
    assert!(meadow.open(1, &cell).is_none());
    let _ = note;
}

#[test]
fn hibe_91_no_key_is_handed_out_before_a_clock_was_heard() {
    let mut meadow = Meadow::friends();
    meadow.say(0, "one");
    let cell = meadow.sent.last().expect("sent").clone();
    // Nobody tells the time: boot time alone erases.
    let boot_ms = 20 * Time::MINUTE_MS;
    for who in 0..2 {
        meadow.mesh(who, MeshInput::Away { boot_ms });
    }
    assert!(meadow.open(1 - cell.from, &cell).is_none());
}

/// A forged source of time moves the date step by step, and each step is announced to the device.
#[test]
fn hibe_91_corrections_of_the_date_erase_no_keys_of_days_to_come() {
    let mut meadow = Meadow::friends();
    let begin = meadow.now;
    for hours in (1..=48).step_by(1) {
        let by_ms = Time::HOUR_MS.cast_signed();
        meadow.now = begin.plus_ms(hours * Time::HOUR_MS);
        let date = DateStep { by_ms, since: None };
        meadow.command(1, Command::CorrectDate(date));
        let clock = MeshReport { boot_ms: hours * 1_000, ..meadow.clock() };
        meadow.mesh(1, MeshInput::Clock(clock));
    }
    // The right time again: what is sent in the second of those hours opens.
    meadow.now = begin.plus_ms(2 * Time::HOUR_MS);
    meadow.tell_clock();
    meadow.say(0, "two hours later");
    let cell = meadow.sent.iter().rev().find(|cell| cell.from == 0).expect("sent").clone();
    assert!(meadow.open(1, &cell).is_some());
}

#[test]
fn hibe_93_a_tree_that_does_not_load_is_quarantined_and_replaced_on_request() {
    let whole = Meadow::friends();
    let names: Vec<_> = whole.sides[1].disk.keys().cloned().collect();
    let rows = names.iter().filter(|(kind, _)| *kind == RecordKind::Tree);
    for lost in rows.cloned().map(Some).take(3).chain([None]) {
        let mut meadow = Meadow::friends();
        match &lost {
            Some(name) => drop(meadow.sides[1].disk.insert(name.clone(), vec![0xee; 40])),
            None => meadow.sides[1].ring = None,
        }
        meadow.reload(1);
        let aside = meadow.sides[1].device.set_aside();
        assert!(matches!(&aside[..], [one] if one.part == Part::KeyTree), "{lost:?}: {aside:?}");
        assert!(!has_part(&meadow, 1), "no card names keys that are not there");
        assert_eq!(meadow.texts(1), ["hello over the meadow", "> and back"], "all else is there");
        meadow.mesh(1, MeshInput::MakeTree { confirmed: false });
        assert!(has_part(&meadow, 1) && meadow.sides[1].device.set_aside().is_empty());
        meadow.restart(1);
        assert!(has_part(&meadow, 1));
        // Ann learns the new card with the next note of Ben.
        meadow.say(1, "new keys");
        meadow.pass(Time::MINUTE_MS);
        let note = meadow.say(0, "for the new keys");
        meadow.pass(5 * Time::MINUTE_MS);
        assert_eq!(meadow.state(0, note), mezza_messenger::evidence::NoteState::Delivered);
    }
}

/// A vault that was moved to another device has no tree, and its card says so.
#[test]
fn hibe_93_a_card_without_its_tree_loses_the_part() {
    let mut meadow = Meadow::friends();
    let side = &mut meadow.sides[0];
    side.disk.retain(|(kind, _), _| *kind != RecordKind::Tree);
    side.ring = None;
    meadow.restart(0);
    assert!(!has_part(&meadow, 0));
    meadow.mesh(0, MeshInput::MakeTree { confirmed: false });
    assert!(has_part(&meadow, 0));
}

#[test]
fn a_deleted_contact_leaves_no_row_of_the_mesh() {
    let mut meadow = Meadow::friends();
    let peers = |meadow: &Meadow| {
        meadow.sides[0].disk.keys().filter(|(kind, _)| *kind == RecordKind::MeshPeer).count()
    };
    assert_eq!(peers(&meadow), 1);
    let contact = meadow.contact(0);
    meadow.command(0, Command::Delete { contact });
    assert_eq!(peers(&meadow), 0);
}

/// The disk refuses steps of the keyring from somewhere on, and takes them again later.
#[test]
fn msg_135_a_step_that_failed_is_in_the_next_one() {
    for parts in 0..3 {
        let mut meadow = Meadow::friends();
        meadow.say(0, "before the disk is full");
        let cell = meadow.sent.iter().rev().find(|cell| cell.from == 0).expect("sent").clone();
        meadow.step_parts = parts;
        meadow.pass(3 * Time::MINUTE_MS);
        assert!(meadow.open(1, &cell).is_none(), "erased in memory all the same (HIBE-75)");
        // A start finds the old state or the new one, and no damage.
        meadow.restart(1);
        meadow.step_parts = 3;
        meadow.pass(Time::MINUTE_MS);
        meadow.now = meadow.now.minus_ms(4 * Time::MINUTE_MS);
        meadow.restart(1);
        assert!(meadow.open(1, &cell).is_none(), "and then on the disk, {parts}");
    }
}

/// After a crash a tree that the disk refused is gone. No card names it before it is stored.
#[test]
fn msg_135_a_card_has_no_keys_that_are_not_stored() {
    for parts in 0..3 {
        for crashes in [false, true] {
            let mut meadow = Meadow::new();
            let clock = meadow.clock();
            meadow.mesh(0, MeshInput::Clock(clock));
            meadow.step_parts = parts;
            meadow.mesh(0, MeshInput::MakeTree { confirmed: false });
            assert!(!has_part(&meadow, 0), "{parts} of three parts are stored");
            // The user renews the card for another reason, before the disk takes the tree.
            let publish = Command::Publish { name: "ann 2".into(), relays: Vec::new() };
            meadow.command(0, publish);
            assert!(!has_part(&meadow, 0), "{parts} of three parts are stored");
            if crashes {
                meadow.reload(0);
                assert!(!has_part(&meadow, 0));
            }
            // The disk takes it again, and the user asks again.
            meadow.step_parts = 3;
            meadow.mesh(0, MeshInput::MakeTree { confirmed: false });
            let card = meadow.sides[0].device.card(CardForm::Full).expect("a card");
            let block = card.part(OFFLINE_PART).expect("stored").to_vec();
            meadow.restart(0);
            let card = meadow.sides[0].device.card(CardForm::Full).expect("a card");
            assert_eq!(
                card.part(OFFLINE_PART),
                Some(&block[..]),
                "the tree is the one of the card"
            );
        }
    }
}

#[test]
fn msg_137_a_tag_of_nobody_is_dropped_and_counted() {
    let mut meadow = Meadow::friends();
    let contact = meadow.contact(1);
    meadow.command(1, Command::Delete { contact });
    let before = meadow.sides[1].device.reject_counts();
    meadow.say(0, "to a tag that is gone");
    assert!(meadow.sides[1].device.contacts().is_empty());
    assert_ne!(meadow.sides[1].device.reject_counts(), before);
}
