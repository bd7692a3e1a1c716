//! Notes over the link alone.

use mezza_core::Time;
use mezza_messenger::carriers::link::LinkReport;
use mezza_messenger::evidence::{FactKind, NoteState, WaitReason};
use mezza_messenger::policy::Policy;
use mezza_messenger::{CarrierId, Command, DeviceError, Event, PersonError};

use super::cable::Cable;

#[test]
fn msg_140_two_devices_talk_without_a_server() {
    let mut cable = Cable::paired();
    let first = cable.say(0, "hello over the cable");
    assert_eq!(cable.state(0, first), NoteState::Delivered);
    let facts = cable.sides[0].device.note(first, cable.now).expect("there").facts;
    assert!(facts.iter().all(|fact| fact.carrier == CarrierId::LINK && fact.level == 1));
    assert!(facts.iter().any(|fact| fact.what == FactKind::Handed));
    let answer = cable.say(1, "and back");
    assert_eq!(cable.state(1, answer), NoteState::Delivered);
    assert_eq!(cable.texts(0), ["> hello over the cable", "and back"]);
    assert_eq!(cable.texts(1), ["hello over the cable", "> and back"]);
    assert!((0..2).all(|who| cable.sides[who].device.outbox(cable.now).is_empty()));
    assert!(cable.sides[0].shown.contains(&Event::Carrier(CarrierId::LINK)));
}

#[test]
fn msg_143_a_note_is_handed_when_the_other_device_has_stored_it() {
    let mut cable = Cable::paired();
    cable.say(0, "first");
    cable.say(1, "second");
    // Ben's device is killed before it stores the next note.
    let after = cable.outputs[1];
    cable.kill = Some(super::cable::Kill { who: 1, after });
    let note = cable.say(0, "third");
    assert_eq!(cable.killed, Some(1));
    assert!(matches!(cable.state(0, note), NoteState::Queued(_)), "{:?}", cable.state(0, note));
    assert!(cable.revive());
    cable.pass(5 * Time::MINUTE_MS);
    assert_eq!(cable.state(0, note), NoteState::Delivered);
    assert_eq!(cable.texts(1), ["first", "> second", "third"]);
}

#[test]
fn msg_144_a_session_is_renewed_and_no_note_is_lost_or_doubled() {
    let mut cable = Cable::paired();
    let mut said = Vec::new();
    for n in 0..40 {
        said.push(format!("note {n}"));
        cable.say(0, &said[n]);
        // 0 to 120 s: before, at and after a renewal.
        cable.pass(31 * Time::SECOND_MS);
        assert!(cable.is_up(0) && cable.is_up(1));
    }
    assert_eq!(cable.texts(1), said);
    let exchanges = cable.sent.iter().filter(|(_, frame)| frame[1] == 0x15).count();
    assert!((10..=14).contains(&exchanges), "{exchanges} in 20 minutes");
}

#[test]
fn msg_144_a_pulled_cable_waits_and_goes_on() {
    let mut cable = Cable::paired();
    cable.say(0, "before");
    cable.say(1, "between");
    cable.pull();
    let notes = [cable.say(0, "from ann"), cable.say(1, "from ben")];
    for (who, note) in notes.iter().enumerate() {
        assert_eq!(cable.state(who, *note), NoteState::Queued(WaitReason::NoCarrier));
    }
    let before = cable.sent.len();
    cable.pass(Time::HOUR_MS);
    assert_eq!(cable.sent.len(), before);
    cable.plug();
    // The longest pause between two dials is a minute, and a fifth of it.
    cable.pass(75 * Time::SECOND_MS);
    for (who, note) in notes.into_iter().enumerate() {
        assert_eq!(cable.state(who, note), NoteState::Delivered);
    }
}

#[test]
fn msg_144_another_address_is_tried_at_once() {
    let mut cable = Cable::paired();
    cable.say(0, "before");
    // The device has moved: the connection looks open, and nothing arrives.
    cable.lose();
    let note = cable.say(0, "to the new address");
    assert!(matches!(cable.state(0, note), NoteState::Queued(_)), "{:?}", cable.state(0, note));
    let contacts = [0, 1].map(|who| cable.contact(who));
    let address = |who: usize, address: &str| LinkReport::SetAddress {
        contact: contacts[who],
        address: address.into(),
    };
    for bad in [String::new(), "a".repeat(256)] {
        let refused = cable.try_link(0, address(0, &bad));
        assert_eq!(refused, Err(DeviceError::Person(PersonError::BadDeviceAddress)));
    }
    // The device that is dialled needs no address.
    let refused = cable.try_link(1, address(1, "ann.example:4796"));
    assert_eq!(refused, Err(DeviceError::Person(PersonError::NeverDialled)));
    cable.link(0, address(0, "10.9.0.7:4796"));
    assert_eq!(cable.sides[0].dialled.last().map(String::as_str), Some("10.9.0.7:4796"));
    assert_eq!(cable.state(0, note), NoteState::Delivered);
    assert_eq!(cable.texts(1), ["before", "to the new address"]);
    // It is dialled after a start, too.
    cable.cut();
    cable.restart(0);
    cable.pass(5 * Time::SECOND_MS);
    assert_eq!(cable.sides[0].dialled.last().map(String::as_str), Some("10.9.0.7:4796"));
    assert!(cable.is_up(0) && cable.is_up(1));
}

#[test]
fn msg_144_after_a_suspend_of_a_day_the_link_comes_back() {
    let mut cable = Cable::paired();
    cable.say(0, "good night");
    // Boot time continues, and nothing ran: the connections are dead.
    cable.boot_ms += Time::DAY_MS;
    cable.now = cable.now.plus_ms(Time::DAY_MS);
    cable.cut();
    cable.pass(75 * Time::SECOND_MS);
    let note = cable.say(1, "good morning");
    cable.pass(Time::SECOND_MS);
    assert_eq!(cable.state(1, note), NoteState::Delivered);
}

#[test]
fn a_conversation_over_the_link_goes_on_after_starts() {
    let mut cable = Cable::paired();
    let mut notes = vec![(0, cable.say(0, "one"))];
    for (who, text) in [(1, "two"), (0, "three"), (1, "four")] {
        (0..2).for_each(|who| cable.restart(who));
        cable.pass(75 * Time::SECOND_MS);
        notes.push((who, cable.say(who, text)));
        cable.pass(75 * Time::SECOND_MS);
    }
    for (who, note) in notes {
        assert_eq!(cable.state(who, note), NoteState::Delivered);
    }
    assert_eq!(cable.texts(0), ["> one", "two", "> three", "four"]);
}

#[test]
fn msg_20_nothing_leaves_over_the_link_above_its_level() {
    let mut cable = Cable::paired();
    let contact = cable.contact(0);
    let policy = Policy { carriers: vec![CarrierId::LINK], level_min: 2, ..Policy::default() };
    cable.command(0, Command::Policy { contact, policy });
    let before = cable.sent.len();
    let note = cable.say(0, "only at level 2");
    assert_eq!(cable.state(0, note), NoteState::Queued(WaitReason::BelowPin));
    assert_eq!(cable.sent.len(), before);
}

#[test]
fn msg_140_long_notes_and_many_of_them_arrive() {
    let mut cable = Cable::paired();
    let long = "x".repeat(8_192);
    cable.say(0, &long);
    let mut said = vec![long];
    // More than may be on their way at a time.
    cable.pull();
    for n in 0..7 {
        said.push(format!("waiting {n}"));
        cable.say(0, &said[n + 1]);
    }
    cable.plug();
    cable.pass(2 * Time::MINUTE_MS);
    cable.say(1, "I read all of it");
    cable.pass(2 * Time::MINUTE_MS);
    let mut texts = cable.texts(1);
    texts.pop();
    assert_eq!(texts, said);
}
