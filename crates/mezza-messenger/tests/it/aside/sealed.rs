//! Rows that the store cannot open: nobody knows their keys, and everything else is there.

use mezza_core::Time;
use mezza_messenger::evidence::NoteState;
use mezza_messenger::view::Part;
use mezza_messenger::{CarrierId, Command, ContactId, LoadError, RecordKind, Unread};

use super::talked;
use crate::model::Ask;
use crate::stage::{Stage, load_beside};
use crate::town::{ROUND_MS, Town, cells};

/// A row is lost on the disk of a party, which starts again.
fn lose(stage: &mut Stage, who: usize, kind: RecordKind, key: &[u8]) -> Unread {
    let party = &mut stage.parties[who];
    let value = party.disk.remove(&(kind, key.to_vec())).expect("a row");
    let unread = Unread { kind: Some(kind), bytes: value.len() };
    let device = load_beside(&party.disk, &[unread], stage.now, &mut stage.rng);
    party.device = device.expect("the identity is there");
    stage.drain(who);
    unread
}

fn first(stage: &Stage, who: usize, kind: RecordKind) -> (RecordKind, Vec<u8>) {
    stage.parties[who].disk.keys().find(|(other, _)| *other == kind).expect("a row").clone()
}

#[test]
fn msg_66_slow_a_row_that_the_store_cannot_open_takes_nothing_else_with_it() {
    let stage = talked();
    let lost = stage.parties[0].disk.keys().filter(|(kind, key)| {
        // Every row of a kind with few rows, some of those with a hundred.
        let is_one_of_many =
            *kind == RecordKind::Prekey && key.first() == Some(&4) && key[1] % 16 > 0;
        *kind != RecordKind::Profile && !is_one_of_many
    });
    for row in lost {
        let mut stage = talked();
        let unread = lose(&mut stage, 0, row.0, &row.1);
        let aside = stage.parties[0].device.set_aside();
        let at = format!("{row:02x?}: {aside:?}");
        let sealed = aside.iter().find(|aside| aside.part == Part::Sealed).expect(&at);
        assert_eq!((sealed.records, sealed.bytes), (1, unread.bytes), "{at}");
        assert_eq!(sealed.notes, usize::from(row.0 == RecordKind::Note), "{at}");
        // A contact goes with its record, and where it would show notes a second time, or use a
        // number twice.
        let contacts = stage.parties[0].device.contacts();
        let arrived = row.0 == RecordKind::Seen && row.1.len() > 5;
        let alone = matches!(row.0, RecordKind::Contact | RecordKind::Owed);
        assert_eq!(contacts.is_empty(), alone || arrived, "{at}");
        stage.online(0);
        stage.online(1);
        stage.pass(Time::HOUR_MS);
        for contact in contacts {
            let note = stage.say(0, contact.id, "still here");
            stage.pass(Time::HOUR_MS);
            assert_eq!(stage.state(0, note), NoteState::Delivered, "{at}");
        }
        stage.command(0, Command::Rotate).expect("possible");
    }
}

#[test]
fn msg_66_what_was_in_a_lost_parcel_is_sealed_again() {
    let mut stage = talked();
    let bob = stage.only_contact(0);
    let row = first(&stage, 0, RecordKind::Parcel);
    lose(&mut stage, 0, row.0, &row.1);
    stage.online(0);
    stage.online(1);
    stage.pass(Time::HOUR_MS);
    let alice = stage.only_contact(1);
    let texts = stage.texts(1, alice);
    assert_eq!(texts.len(), stage.texts(0, bob).len());
    for text in ["under way", "waits"] {
        assert!(texts.iter().any(|other| other == text), "{texts:?}");
    }
}

/// Where Bob reads is lost: what is sealed for there goes another way, though nobody says a word.
#[test]
fn msg_66_a_note_for_a_lost_mailbox_arrives() {
    let (mut stage, bob, alice) = Stage::friends();
    stage.parties[0].online = false;
    let note = stage.say(0, bob, "under way");
    stage.offline(0);
    lose(&mut stage, 0, RecordKind::RelayPeer, &bob.0.to_be_bytes());
    stage.offline(1);
    stage.online(0);
    stage.pass(Time::MINUTE_MS);
    assert_eq!(stage.state(0, note), NoteState::Handed(CarrierId::RELAY));
    stage.online(1);
    assert_eq!(stage.state(0, note), NoteState::Delivered);
    assert_eq!(stage.texts(1, alice).last().map(String::as_str), Some("under way"));
}

/// Nobody knows whether the relay had the bundle that the lost row announced.
#[test]
fn msg_66_an_announcement_that_is_lost_is_made_again() {
    let mut stage = Stage::new(&["alice"]);
    let news = (RecordKind::Prekey, vec![0]);
    let sets = |stage: &Stage| {
        stage.parties[0].left.iter().filter(|ask| matches!(ask, Ask::Set(..))).count()
    };
    stage.parties[0].online = false;
    stage.command(0, Command::Rotate).expect("possible");
    let before = sets(&stage);
    lose(&mut stage, 0, news.0, &news.1);
    stage.parties[0].online = true;
    stage.settle();
    stage.online(0);
    assert!(sets(&stage) > before, "the new bundle is published");
    assert!(!stage.parties[0].disk.contains_key(&news));
}

#[test]
fn msg_66_numbers_of_lost_rows_are_not_given_out_again() {
    for kind in [RecordKind::Contact, RecordKind::Note, RecordKind::Mailbox] {
        let mut stage = talked();
        let row = stage.parties[0].disk.keys().rfind(|(other, _)| *other == kind);
        let row = row.expect("a row").clone();
        lose(&mut stage, 0, row.0, &row.1);
        let carol = stage.new_party("carol");
        let third = stage.add(0, carol);
        stage.online(0);
        let note = stage.say(0, third, "hello carol");
        stage.settle();
        assert!(third > ContactId(1) && !stage.parties[0].disk.contains_key(&row), "{kind:?}");
        let last = row.1.as_slice();
        assert!(kind != RecordKind::Note || note.0.to_be_bytes().as_slice() > last);
    }
}

#[test]
fn msg_66_a_network_with_a_lost_row_is_set_aside() {
    let mut town = Town::new(&["ann", "ben"]);
    let ben = town.add(0, 1, cells(1));
    town.pass(ROUND_MS);
    let rows = town.members[0].disk.keys().filter(|(kind, _)| *kind == RecordKind::NetworkRow);
    for row in rows.cloned().collect::<Vec<_>>() {
        let mut disk = town.members[0].disk.clone();
        let bytes = disk.remove(&row).expect("a row").len();
        let unread = [Unread { kind: Some(row.0), bytes }];
        let device = load_beside(&disk, &unread, town.now(), &mut town.rng).expect("the rest");
        let parts: Vec<_> = device.set_aside().iter().map(|aside| aside.part).collect();
        assert_eq!(parts, [Part::Network, Part::Sealed]);
        assert!(
            device.carriers().network_view(town.now()).is_none() && device.contact(ben).is_some()
        );
    }
}

#[test]
fn msg_66_what_a_newer_program_wrote_is_none_of_this_version() {
    let stage = talked();
    let disk = &stage.parties[0].disk;
    let mut rng = stage.rng;
    let unread = [Unread { kind: None, bytes: 300 }; 2];
    let device = load_beside(disk, &unread, stage.now, &mut rng).expect("the rest");
    let [aside] = device.set_aside().try_into().expect("one part");
    assert_eq!((aside.part, aside.records, aside.bytes), (Part::Other, 2, 600));
    // An identity that does not open is missing.
    let unread = [Unread { kind: Some(RecordKind::Profile), bytes: 300 }];
    let mut disk = disk.clone();
    disk.remove(&(RecordKind::Profile, Vec::new()));
    let refused = load_beside(&disk, &unread, stage.now, &mut rng).err();
    assert_eq!(refused, Some(LoadError::Empty));
}
