//! Arrivals: useless, too early, repeated, in the name of an unknown contact.

use mezza_core::suite::SuiteId;
use mezza_messenger::io::DeliveryProblem;
use mezza_messenger::note::{Item, Note, Receipt};
use mezza_messenger::policy::Policy;
use mezza_messenger::{Command, ContactId, Event, RecordKind};
use mezza_ratchet::OpenError;

use crate::model::Ask;
use crate::peer::{Peer, note, text};
use crate::stage::{Stage, load_any, relay};

fn puts(stage: &Stage) -> usize {
    stage.parties[0].left.iter().filter(|ask| matches!(ask, Ask::Put(..))).count()
}

fn held(stage: &Stage) -> usize {
    stage.parties[0].disk.keys().filter(|(kind, _)| *kind == RecordKind::Held).count()
}

fn trouble(stage: &Stage, contact: ContactId) -> Option<DeliveryProblem> {
    stage.parties[0].device.contact(contact).expect("there").trouble
}

/// Up to which note each receipt says that all have arrived.
fn floors(notes: &[Note]) -> Vec<u32> {
    let items = notes.iter().flat_map(|note| &note.items);
    let floors = items.filter_map(|item| match item {
        Item::Receipt(receipt) if receipt.what == Receipt::DELIVERED => Some(receipt.floor),
        _ => None,
    });
    floors.collect()
}

/// Looks like a message of this suite in a session that is answered.
fn of_suite(suite: u16) -> Vec<u8> {
    [&[0xf1, 0x01], suite.to_be_bytes().as_slice(), &[0x42; 230]].concat()
}

/// The device of party 0 starts from its disk, whatever lies there.
fn reload(stage: &mut Stage) {
    let device = load_any(&stage.parties[0].disk, stage.now, &mut stage.rng);
    stage.parties[0].device = device.expect("the identity is there");
    stage.relay.leave(0);
    stage.settle();
}

#[test]
fn what_strangers_send_that_is_of_no_use_is_counted() {
    let mut stage = Stage::new(&["alice"]);
    let mut peer = Peer::new(&mut stage, 11);
    let counts = |stage: &Stage| {
        let refusals = stage.parties[0].device.reject_counts();
        (refusals.envelopes, refusals.messages, refusals.notes)
    };
    for n in 1..=2 {
        peer.bring(&mut stage, &[0xee; 200]);
        assert_eq!(counts(&stage), (0, n, 0));
    }
    let hello = peer.hello(&mut stage, relay());
    let mut forged = peer.message(&mut stage, &note(1, 0, vec![hello, text("hi")]).encode());
    *forged.last_mut().expect("not empty") ^= 1;
    peer.bring(&mut stage, &forged);
    assert_eq!(counts(&stage), (0, 3, 0));
    peer.put(&mut stage, &note(1, 0, vec![text("who am I?")]));
    assert_eq!(counts(&stage), (0, 3, 1));
    assert!(stage.parties[0].device.contacts().is_empty());
}

#[test]
fn what_a_contact_says_that_is_of_no_use_is_counted() {
    let mut stage = Stage::new(&["alice"]);
    let (mut peer, contact) = Peer::open(&mut stage, 11);
    let notes = |stage: &Stage| stage.parties[0].device.reject_counts().notes;
    for n in 1..=2 {
        let message = peer.message(&mut stage, &[0xee; 9]);
        peer.bring(&mut stage, &message);
        assert_eq!(notes(&stage), n);
    }
    peer.put(&mut stage, &note(0, 0, vec![Item::Card(vec![0xee; 40])]));
    assert_eq!(notes(&stage), 3);
    assert_eq!(stage.texts(0, contact), ["let me in"]);
}

#[test]
fn msg_30_a_message_of_our_other_suite_is_a_session_in_trouble() {
    let mut stage = Stage::new(&["alice"]);
    let (peer, contact) = Peer::open(&mut stage, 11);
    let session = stage.parties[0].device.session(contact).expect("a session");
    assert_eq!(session.suite, SuiteId(0x0102));
    peer.bring(&mut stage, &of_suite(0x0101));
    assert_eq!((held(&stage), trouble(&stage, contact)), (1, None));
}

#[test]
fn a_message_of_a_suite_that_is_none_of_ours_needs_the_person() {
    let mut stage = Stage::new(&["alice"]);
    let (mut peer, contact) = Peer::open(&mut stage, 11);
    let session = SuiteId(0x0102);
    let message = SuiteId(0x0103);
    let expected = DeliveryProblem::Suite(OpenError::SuiteMismatch { session, message });
    for _ in 0..2 {
        peer.bring(&mut stage, &of_suite(0x0103));
        assert_eq!((held(&stage), trouble(&stage, contact)), (0, Some(expected)));
    }
    let told = Event::Trouble(contact, expected);
    assert_eq!(stage.parties[0].shown.iter().filter(|event| **event == told).count(), 1);
    peer.put(&mut stage, &note(2, 0, vec![text("and in the session")]));
    assert_eq!(trouble(&stage, contact), None);
}

#[test]
fn msg_30_what_is_no_message_starts_nothing() {
    let mut stage = Stage::new(&["alice"]);
    let (peer, contact) = Peer::open(&mut stage, 11);
    let before = stage.parties[0].disk.clone();
    let left = puts(&stage);
    peer.bring(&mut stage, &[0xee; 200]);
    assert_eq!(stage.parties[0].device.reject_counts().messages, 1);
    assert_eq!((trouble(&stage, contact), puts(&stage)), (None, left));
    assert!(stage.parties[0].disk == before, "nothing is kept");
}

#[test]
fn what_did_not_open_is_tried_again_with_a_new_session() {
    let mut stage = Stage::new(&["alice"]);
    let (known, contact) = Peer::open(&mut stage, 11);
    let shelf = &stage.relay.store.bundles[&stage.card(0).relays()[0].address];
    let id = shelf.1.last().expect("a stock").id;
    let row = (RecordKind::Prekey, [&[4], id.to_be_bytes().as_slice()].concat());
    let mut peer = Peer::new(&mut stage, 11);
    peer.writes_where(&known);
    let hello = peer.hello(&mut stage, relay());
    let first = peer.message(&mut stage, &note(0, 0, vec![hello]).encode());
    let late = note(2, 0, vec![text("behind it")]);
    let late = peer.message(&mut stage, &late.encode());
    // The one-time key does not load, until a version comes that reads it.
    let good = stage.parties[0].disk.insert(row.clone(), vec![0xee; 9]);
    reload(&mut stage);
    peer.bring(&mut stage, &late);
    assert_eq!((held(&stage), stage.texts(0, contact)), (1, vec!["let me in".to_owned()]));
    stage.parties[0].disk.insert(row, good.expect("a one-time key"));
    stage.restart(0);
    peer.bring(&mut stage, &first);
    assert_eq!(held(&stage), 0);
    assert_eq!(stage.texts(0, contact), ["let me in", "behind it"]);
}

#[test]
fn a_session_that_the_other_side_began_is_greeted() {
    let mut stage = Stage::new(&["alice"]);
    Peer::open(&mut stage, 11);
    let mut peer = Peer::new(&mut stage, 11);
    let hello = peer.hello(&mut stage, relay());
    peer.put(&mut stage, &note(0, 0, vec![hello]));
    let said = peer.read(&mut stage);
    let items = said.iter().flat_map(|note| &note.items);
    assert_eq!(items.filter(|item| matches!(item, Item::Hello { .. })).count(), 1);
}

#[test]
fn a_session_that_the_other_side_began_is_the_one_that_was_wanted() {
    let mut stage = Stage::new(&["alice"]);
    let (mut peer, contact) = Peer::open(&mut stage, 11);
    // The card names no relay: there is no bundle for a session of our own.
    stage.command(0, Command::Reset { contact }).expect("open");
    let before = puts(&stage);
    peer.put(&mut stage, &note(2, 0, vec![text("in the old one")]));
    assert_eq!(puts(&stage), before, "nothing leaves in a session that is to end");
    let mut anew = Peer::new(&mut stage, 11);
    let hello = anew.hello(&mut stage, relay());
    anew.put(&mut stage, &note(0, 0, vec![hello]));
    let said = anew.read(&mut stage);
    assert!(said.iter().any(|note| note.items.contains(&Item::Reset(3))));
    assert_eq!(floors(&said), [2]);
}

#[test]
fn a_note_that_comes_again_is_receipted_again() {
    let mut stage = Stage::new(&["alice"]);
    let (mut peer, contact) = Peer::open(&mut stage, 11);
    for _ in 0..2 {
        peer.put(&mut stage, &note(2, 0, vec![text("the same")]));
        assert_eq!(floors(&peer.read(&mut stage)), [2]);
    }
    assert_eq!(stage.texts(0, contact), ["let me in", "the same"]);
}

#[test]
fn whoever_gets_no_receipts_gets_none_for_a_note() {
    let mut stage = Stage::new(&["alice"]);
    let (mut peer, contact) = Peer::open(&mut stage, 11);
    let policy = Policy { delivered: false, ..Policy::default() };
    stage.command(0, Command::Policy { contact, policy }).expect("sound");
    let before = puts(&stage);
    for _ in 0..2 {
        peer.put(&mut stage, &note(2, 0, vec![text("are you there?")]));
        stage.pass(60_000);
        assert_eq!(puts(&stage), before);
    }
    assert_eq!(stage.texts(0, contact), ["let me in", "are you there?"]);
}

#[test]
fn msg_45_mail_in_the_name_of_who_is_set_aside_waits() {
    let mut stage = Stage::new(&["alice"]);
    Peer::open(&mut stage, 11);
    let session = stage.parties[0].disk.keys().find(|(kind, _)| *kind == RecordKind::Session);
    let session = session.expect("a session").clone();
    stage.parties[0].disk.insert(session, vec![0xee; 9]);
    reload(&mut stage);
    let intro = stage.card(0).relays()[0].address;
    // The second one is a stranger like any other.
    for (scalar, contacts) in [(11, 0), (12, 1)] {
        let mut peer = Peer::new(&mut stage, scalar);
        let hello = peer.hello(&mut stage, relay());
        peer.put(&mut stage, &note(1, 0, vec![hello, text("let me in")]));
        let device = &stage.parties[0].device;
        assert_eq!((device.contacts().len(), device.reject_counts().messages), (contacts, 0));
        assert_eq!(stage.relay.store.boxes[&intro].len(), 1);
    }
}
