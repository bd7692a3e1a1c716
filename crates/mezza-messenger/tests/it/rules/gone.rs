//! Places that are gone and keys that are refused: what is told, and what ends it.

use std::collections::BTreeMap;

use mezza_core::Time;
use mezza_messenger::card::RelayEntry;
use mezza_messenger::evidence::{NoteState, WaitReason};
use mezza_messenger::io::DeliveryProblem;
use mezza_messenger::note::Item;
use mezza_messenger::relay_wire::MailboxAddress;
use mezza_messenger::{CarrierId, Command, ContactId, NoteId, RecordKind};
use mezza_ratchet::BundleError;

use crate::model::{Ask, CLOSE, SET};
use crate::peer::{Peer, note, text};
use crate::stage::{Stage, relay};

const GONE: Option<DeliveryProblem> = Some(DeliveryProblem::BoxGone);

fn trouble(stage: &Stage, contact: ContactId) -> Option<DeliveryProblem> {
    stage.parties[0].device.contact(contact).expect("there").trouble
}

fn asked(stage: &Stage, is: impl Fn(&Ask) -> bool) -> usize {
    stage.parties[0].left.iter().filter(|ask| is(ask)).count()
}

fn puts(stage: &Stage) -> usize {
    asked(stage, |ask| matches!(ask, Ask::Put(..)))
}

/// Alice has the card of Bob, whose mailbox for strangers the relay has lost; what she wrote to him.
fn nobody_home() -> (Stage, ContactId, NoteId) {
    let mut stage = Stage::new(&["alice", "bob"]);
    let bob = stage.add(0, 1);
    stage.relay.store.boxes.remove(&stage.card(1).relays()[0].address);
    let note = stage.say(0, bob, "anybody home?");
    (stage, bob, note)
}

#[test]
fn a_mailbox_for_strangers_that_is_gone_is_tried_once_and_told() {
    let (mut stage, bob, note) = nobody_home();
    assert_eq!((trouble(&stage, bob), puts(&stage)), (GONE, 1));
    stage.pass(2 * Time::MINUTE_MS);
    assert_eq!(stage.state(0, note), NoteState::Queued(WaitReason::BoxGone));
    let second = stage.say(0, bob, "still nobody?");
    stage.pass(2 * Time::MINUTE_MS);
    assert_eq!(stage.state(0, second), NoteState::Queued(WaitReason::BoxGone));
    assert_eq!(puts(&stage), 1, "nothing leaves for a place that is gone");
}

#[test]
fn a_card_that_the_person_adds_ends_what_the_one_before_brought_about() {
    let (mut stage, bob, note) = nobody_home();
    let intro = stage.card(1).relays()[0].address;
    stage.relay.store.boxes.insert(intro, BTreeMap::new());
    stage.pass(2 * Time::MINUTE_MS);
    assert_eq!((trouble(&stage, bob), puts(&stage)), (GONE, 1), "nobody says so");
    let publish = Command::Publish { name: "bob".into(), relays: vec![relay()] };
    stage.command(1, publish).expect("a clean name");
    assert_eq!(stage.add(0, 1), bob);
    assert_eq!((trouble(&stage, bob), puts(&stage)), (None, 2));
    assert_eq!(stage.state(0, note), NoteState::Handed(CarrierId::RELAY));
    let alice = stage.only_contact(1);
    assert_eq!(stage.texts(1, alice), ["anybody home?"]);
}

/// Somebody whose mailbox for strangers is gone wrote first, and named no other one: the hello then
/// says a tag.
fn without_a_place() -> (Stage, Peer, ContactId, Item) {
    let mut stage = Stage::new(&["alice"]);
    let mut peer = Peer::new(&mut stage, 11);
    let place = RelayEntry { address: MailboxAddress([0x77; 16]), ..relay() };
    peer.publish(&mut stage, place.address);
    let card = peer.card(&mut stage, "mallory", vec![place]).encode();
    let hello = Item::Hello { slot: None, tag: Some([0; 8]), card };
    peer.put(&mut stage, &note(1, 0, vec![hello.clone(), text("let me in")]));
    let contact = peer.contact(&stage);
    stage.command(0, Command::Accept { contact }).expect("a request");
    stage.say(0, contact, "where are you?");
    (stage, peer, contact, hello)
}

#[test]
fn a_hello_without_a_mailbox_brings_no_mailbox_back() {
    let (mut stage, mut peer, contact, hello) = without_a_place();
    assert_eq!(trouble(&stage, contact), GONE);
    let before = puts(&stage);
    peer.put(&mut stage, &note(2, 0, vec![hello, text("here")]));
    stage.pass(2 * Time::MINUTE_MS);
    assert_eq!((trouble(&stage, contact), puts(&stage)), (GONE, before));
    // A mailbox does.
    let place = RelayEntry { address: MailboxAddress([0x77; 16]), ..relay() };
    let mut anew = Peer::new(&mut stage, 11);
    let slot = peer.hello(&mut stage, relay());
    let card = peer.card(&mut stage, "mallory", vec![place]).encode();
    let Item::Hello { slot, .. } = slot else { unreachable!("a hello") };
    anew.put(&mut stage, &note(0, 0, vec![Item::Hello { slot, tag: None, card }]));
    stage.pass(2 * Time::MINUTE_MS);
    assert_eq!(trouble(&stage, contact), None);
    assert!(puts(&stage) > before);
}

#[test]
fn a_good_bundle_ends_the_trouble_with_the_one_before() {
    let mut stage = Stage::new(&["alice", "bob", "mallory"]);
    let place = |stage: &Stage, who: usize| stage.card(who).relays()[0].address;
    let bob = place(&stage, 1);
    let mallory = place(&stage, 2);
    let stolen = stage.relay.store.bundles[&mallory].clone();
    let good = stage.relay.store.bundles.insert(bob, stolen).expect("published");
    let contact = stage.add(0, 1);
    let note = stage.say(0, contact, "hello");
    let refused = Some(DeliveryProblem::Bundle(BundleError::BadSignature));
    assert_eq!(trouble(&stage, contact), refused);
    stage.relay.store.bundles.insert(bob, good);
    stage.pass(2 * Time::MINUTE_MS);
    // Bob has not said a word.
    assert_eq!(trouble(&stage, contact), None);
    assert_eq!(stage.state(0, note), NoteState::Handed(CarrierId::RELAY));
}

#[test]
fn a_refused_publication_is_tried_again_after_a_minute() {
    let mut stage = Stage::new(&["alice"]);
    let sets = |stage: &Stage| asked(stage, |ask| matches!(ask, Ask::Set(..)));
    let before = sets(&stage);
    stage.relay.refuses.insert(SET);
    stage.command(0, Command::Rotate).expect("possible");
    assert_eq!(sets(&stage), before + 1);
    let news = (RecordKind::Prekey, vec![0]);
    assert!(stage.parties[0].disk.contains_key(&news), "the relay does not have it");
    stage.pass(Time::MINUTE_MS);
    assert_eq!(sets(&stage), before + 2);
    assert!(!stage.parties[0].disk.contains_key(&news));
    stage.pass(Time::HOUR_MS);
    assert_eq!(sets(&stage), before + 2);
}

#[test]
fn what_did_not_open_goes_with_its_contact() {
    let mut stage = Stage::new(&["alice"]);
    let (peer, contact) = Peer::open(&mut stage, 11);
    let held = |stage: &Stage| {
        stage.parties[0].disk.keys().filter(|(kind, _)| *kind == RecordKind::Held).count()
    };
    // Of a session that this device never had.
    let foreign = [&[0xf1, 0x01, 0x01, 0x02][..], &[0x42; 230]].concat();
    peer.bring(&mut stage, &foreign);
    assert_eq!(held(&stage), 1);
    stage.command(0, Command::Delete { contact }).expect("there");
    assert_eq!(held(&stage), 0);
    stage.restart(0);
}

/// The numbers of mailboxes that the relay holds and that Alice's disk names.
fn mailboxes(stage: &Stage) -> (usize, usize) {
    let rows = stage.parties[0].disk.keys().filter(|(kind, _)| *kind == RecordKind::Mailbox);
    (stage.relay.store.boxes.len(), rows.count())
}

#[test]
fn msg_125_the_mailbox_of_a_removed_contact_is_closed_once_the_relay_is_back() {
    let (mut stage, bob, _) = Stage::friends();
    let (held, stored) = mailboxes(&stage);
    stage.offline(0);
    stage.command(0, Command::Delete { contact: bob }).expect("a contact");
    assert_eq!(mailboxes(&stage), (held, stored), "the token is kept");
    stage.restart(0);
    stage.online(0);
    assert_eq!(mailboxes(&stage), (held - 1, stored - 1));
}

#[test]
fn msg_125_a_refused_close_is_repeated_and_a_lost_mailbox_needs_none() {
    for lost in [false, true] {
        let (mut stage, bob, _) = Stage::friends();
        let (held, stored) = mailboxes(&stage);
        if lost {
            stage.relay.store.boxes.clear();
        } else {
            stage.relay.refuses.insert(CLOSE);
        }
        stage.command(0, Command::Delete { contact: bob }).expect("a contact");
        stage.pass(2 * Time::MINUTE_MS);
        assert_eq!(mailboxes(&stage).1, stored - 1);
        assert!(lost || mailboxes(&stage).0 == held - 1);
    }
}

#[test]
fn msg_125_a_relay_that_stays_away_is_waited_for_90_days() {
    let (mut stage, bob, _) = Stage::friends();
    let (_, stored) = mailboxes(&stage);
    stage.offline(0);
    stage.command(0, Command::Delete { contact: bob }).expect("a contact");
    stage.pass(89 * Time::DAY_MS);
    assert_eq!(mailboxes(&stage).1, stored);
    stage.pass(2 * Time::DAY_MS);
    assert_eq!(mailboxes(&stage).1, stored - 1);
}
