//! Pairing in person: digits, both identity keys, and what ends it.

use mezza_core::Time;
use mezza_messenger::carriers::link::{LinkReport, PairRequest, PairingStep, PairingTrouble};
use mezza_messenger::{CallerError, Command, ContactId, DeviceError, PersonError, RecordKind};

use super::cable::{Cable, by_link};
use crate::stage::card;

#[test]
fn msg_141_six_digits_are_equal_and_end_in_a_pairing_of_both() {
    let mut cable = Cable::new();
    cable.request_pairing();
    let [ann, ben] = cable.digits();
    assert_eq!(ann, ben);
    assert_eq!(ann.len(), 7, "six digits and a gap: {ann}");
    // No row before both have said yes.
    assert_eq!([0, 1].map(|who| cable.rows(who, RecordKind::LinkPeer)), [0, 0]);
    cable.link(0, LinkReport::Confirm { equal: true });
    cable.pass(2 * Time::SECOND_MS);
    assert_eq!([0, 1].map(|who| cable.rows(who, RecordKind::LinkPeer)), [0, 0]);
    cable.link(1, LinkReport::Confirm { equal: true });
    cable.pass(20 * Time::SECOND_MS);
    assert_eq!(cable.steps(), [&PairingStep::Paired; 2]);
    assert_eq!([0, 1].map(|who| cable.rows(who, RecordKind::LinkPeer)), [1, 1]);
    assert!(cable.is_up(0) && cable.is_up(1));
}

#[test]
fn msg_141_other_digits_leave_nothing() {
    for who in 0..2 {
        let mut cable = Cable::new();
        cable.request_pairing();
        cable.link(who, LinkReport::Confirm { equal: false });
        cable.pass(5 * Time::MINUTE_MS);
        assert!(matches!(cable.steps(), [PairingStep::Failed(_), PairingStep::Failed(_)]));
        assert_eq!([0, 1].map(|who| cable.rows(who, RecordKind::LinkPeer)), [0, 0]);
        // And the next attempt is a new one.
        cable.pair();
        assert_eq!(cable.steps(), [&PairingStep::Paired; 2]);
    }
}

#[test]
fn msg_142_a_device_of_another_identity_is_refused_after_equal_digits() {
    let mut cable = Cable::new();
    // Ben's side was told to pair with somebody else.
    let other = Cable::strangers(99);
    let stranger = card(&other.sides[0].device);
    let contact = cable.contact(1);
    let own_ik = *card(&cable.sides[1].device).ik();
    let request = PairRequest { contact, own_ik, ik: *stranger.ik(), address: None };
    cable.link(1, LinkReport::Pair(request));
    cable.ask_to_pair(0, Some("ben.example:4796"));
    cable.pass(2 * Time::SECOND_MS);
    let [ann, ben] = cable.digits();
    assert_eq!(ann, ben);
    cable.compare(true);
    let failed = PairingStep::Failed(PairingTrouble::WrongIdentity);
    assert!(cable.steps().contains(&&failed), "{:?}", cable.steps());
    cable.pass(Time::MINUTE_MS);
    assert!(!cable.is_up(0) && !cable.is_up(1));
    assert_eq!(cable.rows(0, RecordKind::LinkPeer), 0, "a pairing that was never proven is gone");
}

#[test]
fn msg_141_a_pairing_that_nobody_answers_ends() {
    let mut cable = Cable::new();
    cable.is_pulled = true;
    cable.ask_to_pair(0, Some("ben.example:4796"));
    assert_eq!(cable.sides[0].steps.last(), Some(&PairingStep::Failed(PairingTrouble::NotReached)));
    cable.ask_to_pair(1, None);
    let again = cable.try_link(1, LinkReport::CancelPairing);
    assert_eq!(again, Ok(()));
    assert!(matches!(cable.sides[1].steps.last(), Some(PairingStep::Failed(_))));
    cable.ask_to_pair(1, None);
    cable.pass(10 * Time::MINUTE_MS);
    assert_eq!(cable.sides[1].steps.len(), 2, "{:?}", cable.sides[1].steps);
}

#[test]
fn msg_140_what_cannot_be_is_refused_and_changes_nothing() {
    let mut cable = Cable::new();
    let key = *card(&cable.sides[0].device).ik();
    let request = |contact, address: Option<String>| {
        LinkReport::Pair(PairRequest { contact, own_ik: key, ik: key, address })
    };
    let contact = cable.contact(0);
    let unknown = cable.try_link(0, request(ContactId(77), None));
    assert_eq!(unknown, Err(DeviceError::Caller(CallerError::NoSuchContact)));
    let long = cable.try_link(0, request(contact, Some("a".repeat(256))));
    assert_eq!(long, Err(DeviceError::Person(PersonError::BadDeviceAddress)));
    let early = cable.try_link(0, LinkReport::Confirm { equal: true });
    assert_eq!(early, Err(DeviceError::Person(PersonError::NoDigits)));
    let address = LinkReport::SetAddress { contact, address: "host:1".into() };
    assert_eq!(cable.try_link(0, address), Err(DeviceError::Person(PersonError::NotPaired)));
    cable.link(0, request(contact, None));
    let second = cable.try_link(0, request(contact, None));
    assert_eq!(second, Err(DeviceError::Person(PersonError::PairingBusy)));
    cable.command(0, Command::Block { contact, blocked: true });
    let blocked = cable.try_link(0, request(contact, None));
    assert_eq!(blocked, Err(DeviceError::Person(PersonError::Blocked)));
}

#[test]
fn msg_141_pairing_again_replaces_the_pairing() {
    let mut cable = Cable::paired();
    let row = |cable: &Cable| {
        let rows = cable.sides[0].disk.iter();
        rows.filter(|((kind, _), _)| *kind == RecordKind::LinkPeer)
            .map(|(_, row)| row[2..34].to_vec())
            .collect::<Vec<_>>()
    };
    let before = row(&cable);
    cable.pair();
    assert_eq!(cable.steps(), [&PairingStep::Paired; 2]);
    let after = row(&cable);
    assert!(before.len() == 1 && after.len() == 1 && before != after, "another store key");
    let note = cable.say(0, "over the new one");
    assert_eq!(cable.state(0, note), mezza_messenger::evidence::NoteState::Delivered);
}

#[test]
fn msg_26_a_blocked_or_deleted_contact_has_no_connection() {
    let mut cable = Cable::paired();
    let contact = cable.contact(0);
    cable.command(0, Command::Block { contact, blocked: true });
    cable.pass(5 * Time::MINUTE_MS);
    assert!(!cable.is_up(1));
    cable.command(0, Command::Block { contact, blocked: false });
    cable.pass(5 * Time::MINUTE_MS);
    assert!(cable.is_up(0) && cable.is_up(1));
    cable.command(0, Command::Delete { contact });
    cable.pass(5 * Time::MINUTE_MS);
    assert_eq!(cable.rows(0, RecordKind::LinkPeer), 0);
    assert!(!cable.is_up(1));
    // The same two can begin again.
    let card = card(&cable.sides[1].device);
    cable.command(0, Command::Add { card, petname: None, in_person: true });
    let contact = cable.contact(0);
    cable.command(0, Command::Policy { contact, policy: by_link() });
    cable.pair();
    assert_eq!(cable.steps(), [&PairingStep::Paired; 2]);
}
