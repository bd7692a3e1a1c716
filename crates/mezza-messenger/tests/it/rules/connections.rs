//! Connections to relays: MSG-50.

use mezza_core::Machine as _;
use mezza_core::Time;
use mezza_messenger::card::{Card, CardDraft, RelayEntry, RelayKey};
use mezza_messenger::evidence::{NoteState, WaitReason};
use mezza_messenger::note::Item;
use mezza_messenger::relay_wire::MailboxAddress;
use mezza_messenger::view::ContactState;
use mezza_messenger::{
    CarrierOutput, Command, ContactId, Input, Output, RecordKind, RelayConnectionId, RelayInput,
    RelayOutput, RequestId,
};
use mezza_ratchet::SuiteList;

use crate::model::Ask;
use crate::peer::{Peer, identity, note, text};
use crate::stage::{self, START, Stage, connection, relay};

/// Bob's relay, at a host that somebody says it has.
fn at(host: &str) -> RelayEntry {
    RelayEntry {
        key: RelayKey([0xb0; 32]),
        address: MailboxAddress([3; 16]),
        port: 7101,
        host: host.into(),
    }
}

fn card_at(stage: &mut Stage, scalar: u8, relay: RelayEntry) -> Card {
    let suites = SuiteList::our_suites();
    let serial = 70_000;
    let issued_days = START.as_days();
    let draft = CardDraft { serial, issued_days, suites, name: "x", relays: vec![relay] };
    Card::issue(&identity(scalar), draft, &mut stage.rng).expect("a sound card")
}

/// The hosts that these outputs dial.
fn dialled(outputs: &[Output]) -> Vec<&str> {
    let dials = outputs.iter().filter_map(|output| match output {
        Output::Carrier(CarrierOutput::Relay(RelayOutput::Connect { relay })) => {
            Some(relay.host.as_str())
        }
        _ => None,
    });
    dials.collect()
}

fn up(connection: RelayConnectionId) -> Input {
    RelayInput::Up { connection, level: 1, demo: false }.into()
}

fn add(stage: &mut Stage, card: Card) -> ContactId {
    let ik = *card.ik().as_bytes();
    stage.alone(Input::Command(Command::Add { card, petname: None, in_person: false }));
    stage.parties[0].device.contact_by_ik(&ik).expect("added")
}

fn send(contact: ContactId) -> Input {
    let client = [contact.0 as u8; 16];
    Input::Command(Command::Send { contact, client, text: "hi".into(), life: None })
}

fn fetches(outputs: &[Output], connection: RelayConnectionId) -> bool {
    outputs.iter().any(|o| matches!(o, Output::Carrier(CarrierOutput::Relay(RelayOutput::Fetch { connection: by, .. })) if *by == connection))
}

#[test]
fn msg_50_a_card_with_anothers_relay_and_a_host_of_its_own_takes_nobodys_line() {
    let mut stage = Stage::new(&["alice"]);
    let evil = at("evil.example");
    let bob = at("bob.example");
    for (scalar, relay) in [(21, &evil), (22, &bob)] {
        let card = card_at(&mut stage, scalar, relay.clone());
        let contact = add(&mut stage, card);
        let outputs = stage.alone(send(contact));
        assert_eq!(dialled(&outputs), [relay.host.as_str()]);
    }
    // The other port is another place, too.
    let card = card_at(&mut stage, 23, RelayEntry { port: 9, ..bob.clone() });
    let contact = add(&mut stage, card);
    assert_eq!(dialled(&stage.alone(send(contact))), ["bob.example"]);
    // The evil connection never stands, and Bob is reached.
    assert!(fetches(&stage.alone(up(bob.connection_id())), bob.connection_id()));
    // One that goes down voids nothing of Bob's.
    stage.alone(up(evil.connection_id()));
    stage.alone(RelayInput::Down { connection: evil.connection_id() });
    let ticket = stage.alone(up(bob.connection_id()));
    assert!(!fetches(&ticket, bob.connection_id()), "the first request for Bob's bundle is out");
}

#[test]
fn msg_50_a_hello_with_anothers_relay_takes_nobodys_line() {
    let mut stage = Stage::new(&["alice"]);
    let card = card_at(&mut stage, 22, at("bob.example"));
    let bob = add(&mut stage, card);
    let mut mallory = Peer::new(&mut stage, 11);
    let hello = mallory.hello(&mut stage, at("evil.example"));
    mallory.put(&mut stage, &note(1, 0, vec![hello, text("hi")]));
    let contact = mallory.contact(&stage);
    let outputs = stage.alone(Input::Command(Command::Accept { contact }));
    assert_eq!(dialled(&outputs), ["evil.example"]);
    assert_eq!(dialled(&stage.alone(send(bob))), ["bob.example"]);
}

#[test]
fn msg_50_own_mailboxes_are_reached_where_the_owner_says() {
    let mut stage = Stage::new(&["alice"]);
    let lie = RelayEntry { host: "evil.example".into(), ..relay() };
    let card =
        card_at(&mut stage, 21, RelayEntry { address: MailboxAddress([7; 16]), ..lie.clone() });
    let contact = add(&mut stage, card);
    assert_eq!(dialled(&stage.alone(send(contact))), ["evil.example"]);
    let outputs = stage.alone(up(lie.connection_id()));
    let own = |o: &Output| {
        matches!(
            o,
            Output::Carrier(CarrierOutput::Relay(
                RelayOutput::Watch { .. } | RelayOutput::Open { .. }
            ))
        )
    };
    assert!(!outputs.iter().any(own), "no mailbox of ours is shown to that host");
    stage.alone(RelayInput::Stock { connection: lie.connection_id(), left: 1 });
    assert_eq!(
        stage.parties[0].device.own_identity().one_time_stock,
        Some(100),
        "nor is it believed"
    );
    let roads = stage.parties[0].device.connections(stage.now);
    let own = roads.iter().filter(|road| road.own).filter_map(|road| road.relay.as_ref());
    assert_eq!(own.map(|relay| relay.host.as_str()).collect::<Vec<_>>(), ["relay.example"]);
    // It is left once nothing is wanted of it; the own one never.
    stage.alone(Input::Command(Command::Delete { contact }));
    stage.now = stage.now.plus_ms(Time::HOUR_MS);
    let Stage { parties, now, rng, .. } = &mut stage;
    parties[0].device.wake(*now, rng);
    let hung = stage.outputs().into_iter().filter_map(|output| match output {
        Output::Carrier(CarrierOutput::Relay(RelayOutput::Disconnect { connection })) => {
            Some(connection)
        }
        _ => None,
    });
    assert_eq!(hung.collect::<Vec<_>>(), [lie.connection_id()]);
}

#[test]
fn msg_50_whoever_moves_with_every_note_keeps_one_line() {
    let mut stage = Stage::new(&["alice"]);
    let (mut mallory, _) = Peer::open(&mut stage, 11);
    let mut dials = 0;
    let mut hangs = 0;
    for n in 0..50_u8 {
        let place = RelayEntry { key: RelayKey([n; 32]), ..at(&format!("h{n}.example")) };
        let hello = mallory.hello(&mut stage, place.clone());
        mallory.serial += 1;
        let card = mallory.card(&mut stage, "mallory", vec![at(&format!("c{n}.example"))]);
        let seq = 2 + u32::from(n);
        let note = note(seq, 0, vec![hello, Item::Card(card.encode()), text("moved")]);
        let mail = mallory.mail(&mut stage, &note);
        let mut outputs = stage.alone(mail);
        // What is sealed for a place that stands goes along to the next one.
        outputs.extend(stage.alone(up(place.connection_id())));
        dials += dialled(&outputs).len();
        hangs += outputs
            .iter()
            .filter(|o| {
                matches!(o, Output::Carrier(CarrierOutput::Relay(RelayOutput::Disconnect { .. })))
            })
            .count();
    }
    assert!(dials >= 50 && dials - hangs <= 2, "{dials} dialled, {hangs} hung up on");
}

#[test]
fn msg_50_what_waits_for_a_mailbox_goes_to_the_one_that_takes_its_place() {
    let mut stage = Stage::new(&["alice"]);
    let (mut peer, contact) = Peer::open(&mut stage, 11);
    let dead = RelayEntry { key: RelayKey([0xd0; 32]), ..at("dead.example") };
    let hello = peer.hello(&mut stage, dead.clone());
    let mail = peer.mail(&mut stage, &note(0, 0, vec![hello]));
    stage.alone(mail);
    stage.alone(send(contact));
    let by = |outputs: &[Output]| {
        let carries = outputs.iter().filter_map(|output| match output {
            Output::Carrier(CarrierOutput::Relay(RelayOutput::Put { connection, .. })) => {
                Some(*connection)
            }
            _ => None,
        });
        carries.collect::<Vec<_>>()
    };
    assert_eq!(
        by(&stage.alone(up(dead.connection_id()))),
        [dead.connection_id()],
        "handed over, never taken"
    );
    let hello = peer.hello(&mut stage, relay());
    let mail = peer.mail(&mut stage, &note(0, 0, vec![hello]));
    let outputs = stage.alone(mail);
    assert_eq!(by(&outputs), [connection()]);
    let device = &stage.parties[0].device;
    let sent = device.find_sent(&[contact.0 as u8; 16]).expect("a note");
    assert_eq!(stage.state(0, sent), NoteState::Queued(WaitReason::Sending));
    let loaded = crate::stage::records(&stage.parties[0].device);
    assert!(loaded == stage.parties[0].disk, "the new place is on disk");
}

#[test]
fn msg_50_own_mailboxes_move_with_their_relay() {
    let (mut stage, ..) = Stage::friends();
    let moved = RelayEntry { host: "new.example".into(), ..relay() };
    let publish = Command::Publish { name: "alice".into(), relays: vec![moved.clone()] };
    let outputs = stage.alone(Input::Command(publish));
    assert_eq!(dialled(&outputs), ["new.example"]);
    let hung = |o: &Output| {
        matches!(o, Output::Carrier(CarrierOutput::Relay(RelayOutput::Disconnect { .. })))
    };
    assert!(!outputs.iter().any(hung), "Bob is reached by the other line still");
    let outputs = stage.alone(up(moved.connection_id()));
    let watched = |o: &&Output| matches!(o, Output::Carrier(CarrierOutput::Relay(RelayOutput::Watch { connection, .. })) if *connection == moved.connection_id());
    assert_eq!(outputs.iter().filter(watched).count(), 2, "the intro mailbox and Bob's");
    assert_eq!(stage.card(0).relays()[0].host, "new.example");
}

/// The relay moved to another port: a new card by hand is enough, and the mailboxes are the same.
#[test]
fn msg_50_a_relay_that_moved_is_found_by_a_card_that_the_person_adds() {
    let (mut stage, bob, _) = Stage::friends();
    let address = |stage: &mut Stage, client: u8| {
        let outputs = stage.alone(stage::send(bob, client));
        let put = outputs.iter().find_map(|output| match output {
            Output::Carrier(CarrierOutput::Relay(RelayOutput::Put { address, .. })) => {
                Some(*address)
            }
            _ => None,
        });
        put.expect("it leaves")
    };
    let before = address(&mut stage, 0x51);
    let moved = RelayEntry { port: relay().port + 1, ..relay() };
    let publish = Command::Publish { name: "bob".into(), relays: vec![moved.clone()] };
    stage.parties[1].device.handle(publish.into(), stage.now, &mut stage.rng).expect("a card");
    let add = Command::Add { card: stage.card(1), petname: None, in_person: true };
    stage.alone(add);
    stage.alone(stage::send(bob, 0x52));
    let up = RelayInput::Up { connection: moved.connection_id(), level: 1, demo: false };
    let outputs = stage.alone(up);
    let puts = outputs.iter().filter_map(|output| match output {
        Output::Carrier(CarrierOutput::Relay(RelayOutput::Put { address, connection, .. })) => {
            Some((*address, *connection))
        }
        _ => None,
    });
    assert!(puts.into_iter().any(|put| put == (before, moved.connection_id())));
}

/// Both people leave a relay while it still runs: what they gave each other moves with their cards.
#[test]
fn msg_124_a_relay_that_is_replaced_takes_no_conversation_with_it() {
    let (mut stage, bob, alice) = Stage::friends();
    let other = RelayEntry { key: RelayKey([0xaa; 32]), host: "new.example".into(), ..relay() };
    let publish = Command::Publish { name: "alice".into(), relays: vec![other.clone()] };
    assert_eq!(dialled(&stage.alone(Input::Command(publish))), ["new.example"]);
    let opened: Vec<_> = stage.alone(up(other.connection_id())).iter().filter_map(opens).collect();
    assert_eq!(opened.len(), 2, "one for strangers and one for Bob");
    for ticket in opened {
        let outputs = stage.alone(RelayInput::Done { ticket });
        // Bob is told over the relay that both still have.
        for ask in outputs.into_iter().filter_map(Ask::from_output) {
            if matches!(ask, Ask::Put(..)) {
                stage.hears(ask);
            }
        }
    }
    let before = stage.parties[1].left.len();
    stage.say(1, alice, "over the new one");
    let puts = |ask: &&Ask| matches!(ask, Ask::Put(..));
    assert_eq!(stage.parties[1].left[before..].iter().filter(puts).count(), 0, "not the old one");
    let up = stage.input(1, up(other.connection_id()));
    assert!(up.is_ok() && stage.parties[1].left[before..].iter().any(|ask| puts(&ask)));
    // What was sent to the old mailbox is read for as long as in any that was replaced.
    let rows = stage.parties[0].disk.keys().filter(|(kind, _)| *kind == RecordKind::Mailbox);
    assert_eq!((rows.count(), stage.standing(0, bob)), (4, ContactState::Open));
}

/// The ticket of a request that opens a mailbox.
fn opens(output: &Output) -> Option<RequestId> {
    match output {
        Output::Carrier(CarrierOutput::Relay(RelayOutput::Open { ticket, .. })) => Some(*ticket),
        _ => None,
    }
}
