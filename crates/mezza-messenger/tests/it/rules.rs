//! One test for each rule of the specification that the device keeps.

mod answers;
mod apart;
mod arrivals;
mod cells;
mod connections;
mod dates;
mod given_up;
mod gone;
mod in_time;
mod judged;
mod leaving;
mod limits;
mod lives;
mod network;
mod peers;
mod places;
mod policy;
mod recalled;
mod refused;
mod restored;
mod roots;
mod said;
mod share;
mod states;
mod timers;
mod told;
mod told_root;
mod trouble;
mod twice;
mod watched;

use mezza_core::Machine;
use mezza_messenger::evidence::{NoteState, WaitReason};
use mezza_messenger::io::DeliveryProblem;
use mezza_messenger::relay_wire::MailboxAddress;
use mezza_messenger::view::ContactState;
use mezza_messenger::{
    CarrierOutput, CarrierSet, Command, DeviceError, Event, Input, Output, PersonError, RelayOutput,
};

use crate::model::Tell;
use crate::peer::identity;
use crate::stage::{START, Stage, connection, relay};
use mezza_messenger::card::{Card, CardDraft, RelayEntry};
use mezza_ratchet::{BundleError, SuiteList};

/// A card of a fresh identity with the given scalar.
fn foreign_card(stage: &mut Stage, scalar: u8, serial: u32, name: &str) -> Card {
    let entry = RelayEntry { address: MailboxAddress([scalar; 16]), ..relay() };
    let draft = CardDraft {
        serial,
        issued_days: START.as_days(),
        suites: SuiteList::our_suites(),
        name,
        relays: vec![entry],
    };
    Card::issue(&identity(scalar), draft, &mut stage.rng).expect("a sound card")
}

fn add(stage: &mut Stage, card: Card) -> Result<(), DeviceError> {
    stage.command(0, Command::Add { card, petname: None, in_person: false })
}

#[test]
fn two_people_talk() {
    let (mut stage, bob, alice) = Stage::friends();
    stage.say(0, bob, "how are you?");
    assert_eq!(stage.texts(1, alice), ["hello bob", "> hello alice", "how are you?"]);
    assert_eq!(stage.texts(0, bob), ["> hello bob", "hello alice", "> how are you?"]);
}

#[test]
fn msg_6_serial_never_goes_back() {
    let mut stage = Stage::new(&["alice"]);
    let old = foreign_card(&mut stage, 9, 70_000, "carol");
    let new = foreign_card(&mut stage, 9, 70_001, "carol");
    add(&mut stage, new.clone()).expect("the first card is taken");
    assert_eq!(add(&mut stage, old), Err(DeviceError::Person(PersonError::CardOlder)));
    let other = foreign_card(&mut stage, 9, 70_001, "carla");
    assert_eq!(add(&mut stage, other), Err(DeviceError::Person(PersonError::CardClash)));
    add(&mut stage, new).expect("the same card again changes nothing");
    assert_eq!(stage.parties[0].device.contacts().len(), 1);
}

#[test]
fn msg_7_an_unknown_key_with_a_known_name_is_another_person() {
    let mut stage = Stage::new(&["alice"]);
    let first = foreign_card(&mut stage, 9, 70_000, "carol");
    let second = foreign_card(&mut stage, 10, 70_000, "carol");
    add(&mut stage, first).expect("taken");
    assert!(!stage.parties[0].device.contacts()[0].namesake);
    add(&mut stage, second).expect("taken");
    let contacts = stage.parties[0].device.contacts();
    assert_eq!(contacts.len(), 2);
    assert!(contacts.iter().all(|contact| contact.namesake));
    assert_ne!(contacts[0].ik, contacts[1].ik);
}

#[test]
fn msg_7_a_name_that_the_owner_gave_is_known_too() {
    let mut stage = Stage::new(&["alice"]);
    let cards = [(9, "carol"), (10, "dave"), (11, ""), (12, "")];
    for (scalar, name) in cards {
        let card = foreign_card(&mut stage, scalar, 70_000, name);
        add(&mut stage, card).expect("taken");
    }
    let contacts = stage.parties[0].device.contacts();
    let twins = |stage: &Stage| {
        let views = stage.parties[0].device.contacts().into_iter();
        views.map(|view| view.namesake).collect::<Vec<_>>()
    };
    assert_eq!(twins(&stage), [false; 4], "who has no name is nobody's namesake");
    // A name that the owner gave, against one that is claimed, and against one that was given.
    for (whom, name) in [(0, "Dave "), (2, "dave"), (3, "DAVE")] {
        let rename = Command::Rename { contact: contacts[whom].id, name: name.into() };
        stage.command(0, rename).expect("a clean name");
    }
    assert_eq!(twins(&stage), [true; 4]);
    // The claim stays a claim, whatever its owner is called here.
    for (whom, name) in [(0, "one"), (1, "two"), (2, "three"), (3, "carol")] {
        let rename = Command::Rename { contact: contacts[whom].id, name: name.into() };
        stage.command(0, rename).expect("a clean name");
    }
    assert_eq!(twins(&stage), [true, false, false, true]);
}

#[test]
fn msg_8_a_bundle_of_somebody_else_is_refused() {
    let mut stage = Stage::new(&["alice", "bob", "mallory"]);
    // The relay serves Mallory's bundle under Bob's address.
    let address = |stage: &Stage, who: usize| stage.card(who).relays()[0].address;
    let bob = address(&stage, 1);
    let mallory = address(&stage, 2);
    let stolen = stage.relay.store.bundles[&mallory].clone();
    stage.relay.store.bundles.insert(bob, stolen);
    let contact = stage.add(0, 1);
    stage.say(0, contact, "hello");
    let trouble = DeliveryProblem::Bundle(BundleError::BadSignature);
    let told = |event: &&Event| **event == Event::Trouble(contact, trouble);
    assert_eq!(stage.parties[0].shown.iter().filter(told).count(), 1);
    let view = stage.parties[0].device.contact(contact).expect("there");
    assert_eq!(view.trouble, Some(trouble));
    let note = stage.parties[0].device.note(view.last.expect("a note"), stage.now).expect("there");
    assert_eq!(note.state, NoteState::Queued(WaitReason::Bundle));
    assert!(stage.parties[1].device.contacts().is_empty());
    assert!(stage.parties[2].device.contacts().is_empty());
}

#[test]
fn msg_9_verification_decides_nothing() {
    let (mut stage, bob, alice) = Stage::friends();
    for equal in [true, false] {
        stage.command(0, Command::Verify { contact: bob, equal }).expect("recorded");
        let verified = stage.parties[0].device.contact(bob).expect("there").verified;
        assert_eq!(verified.is_some(), equal);
        let note = stage.say(0, bob, "still works");
        assert_eq!(stage.state(0, note), mezza_messenger::evidence::NoteState::Delivered);
        stage.say(1, alice, "both ways");
    }
    assert_eq!(stage.texts(0, bob).len(), 6);
}

#[test]
fn msg_26_requests_and_blocked_contacts_get_nothing() {
    let mut stage = Stage::new(&["alice", "bob"]);
    let bob = stage.add(0, 1);
    let before = stage.parties[1].left.len();
    for i in 0..10 {
        stage.say(0, bob, &format!("note {i}"));
    }
    let alice = stage.only_contact(1);
    assert_eq!(stage.standing(1, alice), ContactState::Request);
    let answers = stage.parties[1].left[before..].iter();
    let quiet = answers.filter(|ask| !matches!(ask, crate::model::Ask::Taken(..)));
    // A refill of prekeys is the only thing that a request may cause.
    assert!(quiet.clone().all(|ask| matches!(ask, crate::model::Ask::Set(..))), "{quiet:?}");
    // Eight notes at most go to somebody who has not answered, and as many are kept.
    assert_eq!(stage.texts(1, alice).len(), 8);
    let again = stage.command(
        1,
        Command::Send { contact: alice, client: [1; 16], text: "x".into(), life: None },
    );
    assert_eq!(again, Err(DeviceError::Person(PersonError::NotNow)));

    let (mut stage, bob, alice) = Stage::friends();
    stage.command(1, Command::Block { contact: alice, blocked: true }).expect("blocked");
    let before = stage.parties[1].left.len();
    let note = stage.say(0, bob, "are you there?");
    assert!(
        stage.parties[1].left[before..].iter().all(|a| matches!(a, crate::model::Ask::Taken(..)))
    );
    assert_ne!(stage.state(0, note), mezza_messenger::evidence::NoteState::Delivered);
    assert_eq!(stage.texts(1, alice).len(), 2);
}

#[test]
fn msg_35_every_queue_is_bounded() {
    let (mut stage, bob, _) = Stage::friends();
    stage.offline(0);
    for i in 0..1_000_u32 {
        let mut client = [0xc1; 16];
        client[..4].copy_from_slice(&i.to_be_bytes());
        let send = Command::Send { contact: bob, client, text: "waits".into(), life: None };
        let now = stage.now;
        let input = Input::Command(send);
        stage.parties[0].device.handle(input, now, &mut stage.rng).expect("there is room");
    }
    let one_more =
        Command::Send { contact: bob, client: [0xee; 16], text: "no".into(), life: None };
    let now = stage.now;
    let device = &mut stage.parties[0].device;
    let refused = device.handle(Input::Command(one_more), now, &mut stage.rng);
    assert_eq!(refused, Err(DeviceError::Person(PersonError::OutboxFull)));
    // Eight leave at once, the others wait for answers.
    device.handle(Tell::Up.into_input(connection()), now, &mut stage.rng).expect("up");
    let outputs = std::iter::from_fn(|| device.poll());
    assert_eq!(
        outputs
            .filter(|output| matches!(
                output,
                Output::Carrier(CarrierOutput::Relay(RelayOutput::Put { .. }))
            ))
            .count(),
        8
    );
}

#[test]
fn msg_35_the_65th_request_stays_at_the_relay() {
    let mut stage = Stage::new(&["bob"]);
    for i in 0..65 {
        let name = format!("stranger {i}");
        let device = mezza_messenger::Device::create(
            CarrierSet::default(),
            &name,
            &[relay()],
            stage.now,
            &mut stage.rng,
        );
        stage.parties.push(crate::stage::Party {
            device: device.expect("clean"),
            disk: crate::stage::Disk::new(),
            shown: Vec::new(),
            online: true,
            left: Vec::new(),
        });
        stage.settle();
        let bob = stage.add(i + 1, 0);
        stage.say(i + 1, bob, "let me in");
    }
    assert_eq!(stage.parties[0].device.contacts().len(), 64);
    let intro = stage.card(0).relays()[0].address;
    assert_eq!(stage.relay.store.boxes[&intro].len(), 1, "the 65th waits at the relay");
    let first = stage.parties[0].device.contacts()[0].id;
    stage.command(0, Command::Refuse { contact: first }).expect("refused");
    stage.offline(0);
    stage.online(0);
    assert_eq!(stage.parties[0].device.contacts().len(), 64);
    assert!(stage.relay.store.boxes[&intro].is_empty());
}

#[test]
fn msg_37_debug_names_nobody() {
    let (mut stage, bob, _) = Stage::friends();
    stage.say(0, bob, "planted-text");
    let device = &stage.parties[0].device;
    let send =
        Command::Send { contact: bob, client: [8; 16], text: "planted-text".into(), life: None };
    let text = format!(
        "{device:?} {send:?} {:?} {:?} {:?} {:?} {:?}",
        device.own_identity(),
        device.contacts(),
        stage.card(0),
        stage.thread(0, bob)[0].body,
        stage.parties[0].shown
    );
    for planted in ["planted-text", "alice", "bob", "relay.example"] {
        assert!(!text.contains(planted), "{planted} in {text}");
    }
}
