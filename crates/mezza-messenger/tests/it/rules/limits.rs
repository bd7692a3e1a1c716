//! Events that count for a limit, and events that do not.

use mezza_core::{Machine as _, Time};
use mezza_messenger::card::{Card, CardDraft, RelayEntry, RelayKey};
use mezza_messenger::evidence::NoteState;
use mezza_messenger::note::{Era, Item, Note, Receipt};
use mezza_messenger::policy::Policy;
use mezza_messenger::relay_wire::MailboxAddress;
use mezza_messenger::view::ContactState;
use mezza_messenger::{
    CarrierOutput, Command, ContactId, DeviceError, Input, Output, PersonError, RelayInput,
    RelayOutput,
};
use mezza_ratchet::{Prekeys, SuiteList};

use crate::model::Tell;
use crate::peer::{Peer, identity, note, published, receipts, text};
use crate::stage::{START, Stage, connection, relay, send};

/// Hands party 0 a note to send, quicker than the stage does.
fn writes(stage: &mut Stage, contact: ContactId, n: u32) -> Result<(), DeviceError> {
    let mut client = [0xc1; 16];
    client[..4].copy_from_slice(&n.to_be_bytes());
    let send = Command::Send { contact, client, text: "waits".into(), life: None };
    let Stage { parties, now, rng, .. } = stage;
    parties[0].device.handle(Input::Command(send), *now, rng)
}

#[test]
fn msg_35_sealed_and_unsealed_notes_fill_one_outbox() {
    let (mut stage, bob, _) = Stage::friends();
    stage.relay.liar = true;
    for n in 0..10 {
        stage.say(0, bob, &format!("swallowed {n}"));
    }
    stage.offline(0);
    for n in 10..1_000 {
        writes(&mut stage, bob, n).expect("there is room");
    }
    assert_eq!(writes(&mut stage, bob, 1_000), Err(DeviceError::Person(PersonError::OutboxFull)));
}

#[test]
fn msg_35_whoever_is_blocked_takes_no_place_of_a_request() {
    let mut stage = Stage::new(&["alice"]);
    stage.ahead = false;
    for scalar in 20..=84 {
        let mut stranger = Peer::new(&mut stage, scalar);
        let hello = stranger.hello(&mut stage, relay());
        stranger.put(&mut stage, &note(1, 0, vec![hello, text("let me in")]));
        let contact = stranger.contact(&stage);
        assert_eq!(stage.standing(0, contact), ContactState::Request);
        stage.command(0, Command::Block { contact, blocked: true }).expect("there");
    }
    assert_eq!(stage.parties[0].device.contacts().len(), 65);
}

#[test]
fn one_note_says_all_that_arrived_however_far_apart() {
    let mut stage = Stage::new(&["alice"]);
    let (mut peer, _) = Peer::open(&mut stage, 11);
    for seq in [100, 200] {
        peer.put(&mut stage, &note(seq, 0, vec![text("far apart")]));
    }
    let said = peer.read(&mut stage);
    let [.., last] = &said[..] else { panic!("a receipt") };
    let last = [last.clone()];
    let proves = |seq| receipts(&last).iter().any(|receipt| receipt.proves_seq(seq, false));
    let proven: Vec<u32> = (1..=300).filter(|seq| proves(*seq)).collect();
    assert_eq!(proven, [1, 100, 200]);
}

/// Receipts for a vault that was put back many times: one note says sixteen, and the writer reads those
/// of its last life alone.
#[test]
fn msg_94_a_life_of_many_gets_its_receipts() {
    let mut stage = Stage::new(&["alice"]);
    let (mut peer, contact) = Peer::open(&mut stage, 11);
    let policy = Policy { read: true, ..Policy::default() };
    stage.command(0, Command::Policy { contact, policy }).expect("sound");
    let lives = 0..40;
    for life in lives.clone() {
        let era = Era([life, 1, 1, 1]);
        // Another text each time: what is here already is not shown again (MSG-108).
        peer.put(&mut stage, &Note { era, ..note(1, 0, vec![text(&format!("life {life}"))]) });
        stage.pass(Time::MINUTE_MS);
        let last = stage.thread(0, contact).last().expect("notes").id;
        stage.command(0, Command::Seen { contact, note: last }).expect("seen");
        stage.pass(Time::MINUTE_MS);
        let said = peer.read(&mut stage);
        for what in [Receipt::DELIVERED, Receipt::READ] {
            let all = receipts(&said);
            let mut own = all.iter().filter(|r| r.era == era && r.what == what);
            assert!(own.any(|receipt| receipt.proves_seq(1, false)), "life {life} has no {what}");
        }
    }
    assert_eq!(stage.texts(0, contact).len(), 1 + lives.len());
}

/// Gaps make sixteen receipts of one kind: those of the other one go with the next note.
#[test]
fn msg_94_what_has_no_room_in_a_note_goes_with_the_next() {
    let mut stage = Stage::new(&["alice"]);
    let (mut peer, contact) = Peer::open(&mut stage, 11);
    let policy = Policy { read: true, ..Policy::default() };
    stage.command(0, Command::Policy { contact, policy }).expect("sound");
    let seqs: Vec<u32> = (0..15).map(|n| 60 + 66 * n).collect();
    let notes = seqs.iter().map(|seq| note(*seq, 0, vec![text("far apart")]));
    let mails: Vec<Input> = notes.map(|note| peer.mail(&mut stage, &note)).collect();
    stage.alone(RelayInput::Down { connection: connection() });
    for mail in mails {
        stage.alone(mail);
    }
    let last = stage.thread(0, contact).last().expect("notes").id;
    stage.alone(Command::Seen { contact, note: last });
    stage.online(0);
    stage.pass(Time::MINUTE_MS);
    let said = peer.read(&mut stage);
    for what in [Receipt::DELIVERED, Receipt::READ] {
        let all = receipts(&said);
        let proven = |seq: &&u32| all.iter().any(|r| r.what == what && r.proves_seq(**seq, false));
        assert_eq!(seqs.iter().filter(proven).count(), seqs.len(), "{what} in {}", said.len());
    }
    stage.pass(Time::HOUR_MS);
    assert!(peer.read(&mut stage).is_empty(), "and once only");
}

/// A wish to get everything again, its answer before the note was sealed once more, and a restart.
#[test]
fn msg_15_a_note_that_arrived_is_not_sealed_again_at_a_start() {
    let mut stage = Stage::new(&["alice"]);
    let (mut peer, contact) = Peer::open(&mut stage, 11);
    let own = stage.say(0, contact, "once");
    peer.read(&mut stage);
    let retry = peer.mail(&mut stage, &note(0, 0, vec![Item::Retry]));
    let proof = peer.receipt(Receipt::DELIVERED, 1);
    let proof = peer.mail(&mut stage, &note(0, 0, proof));
    for input in [RelayInput::Down { connection: connection() }.into(), retry, proof] {
        stage.alone(input);
    }
    assert_eq!(stage.state(0, own), NoteState::Delivered);
    stage.restart(0);
    stage.pass(Time::HOUR_MS);
    let said = peer.read(&mut stage);
    let texts = said.iter().flat_map(|note| &note.items).filter(|item| **item == text("once"));
    assert_eq!(texts.count(), 0);
}

/// A card of somebody at another relay, and what that relay has of them.
fn elsewhere(stage: &mut Stage) -> (ContactId, RelayEntry, RelayInput) {
    let place = RelayEntry {
        key: RelayKey([0xb0; 32]),
        address: MailboxAddress([3; 16]),
        port: 7101,
        host: "bob.example".into(),
    };
    let who = identity(31);
    let draft = CardDraft {
        serial: 70_000,
        issued_days: START.as_days(),
        suites: SuiteList::our_suites(),
        name: "bob",
        relays: vec![place.clone()],
    };
    let card = Card::issue(&who, draft, &mut stage.rng).expect("a sound card");
    let ik = *card.ik().as_bytes();
    stage.alone(Command::Add { card, petname: None, in_person: false });
    let contact = stage.parties[0].device.contact_by_ik(&ik).expect("added");
    stage.alone(send(contact, 0x91));
    let up = RelayInput::Up { connection: place.connection_id(), level: 1, demo: false };
    let fetch = stage.alone(up).into_iter().find_map(|output| match output {
        Output::Carrier(CarrierOutput::Relay(RelayOutput::Fetch { ticket, .. })) => Some(ticket),
        _ => None,
    });
    let (bytes, one_time) = published(&mut Prekeys::new(who), stage);
    let ticket = fetch.expect("a bundle is wanted");
    (contact, place, RelayInput::Bundle { ticket, bytes, one_time: one_time.last().copied() })
}

#[test]
fn msg_50_a_line_for_a_hello_that_nobody_asked_for_does_not_stand() {
    for cancels in [true, false] {
        let mut stage = Stage::new(&["alice"]);
        let (contact, place, bundle) = elsewhere(&mut stage);
        let note = stage.parties[0].device.find_sent(&[0x91; 16]).expect("accepted");
        if cancels {
            stage.alone(Command::Cancel { note });
        }
        stage.alone(bundle);
        stage.alone(Tell::Up.into_input(connection()));
        assert!(stage.parties[0].device.session(contact).is_some(), "a session began");
        let mut leaves = 0;
        for _ in 0..30 {
            stage.now = stage.now.plus_ms(Time::MINUTE_MS);
            let Stage { parties, now, rng, .. } = &mut stage;
            parties[0].device.wake(*now, rng);
            leaves += stage
                .outputs()
                .iter()
                .filter(|output| {
                    matches!(output,
                Output::Carrier(CarrierOutput::Relay(RelayOutput::Disconnect { connection }))
                    if *connection == place.connection_id())
                })
                .count();
        }
        assert_eq!(leaves, usize::from(cancels), "what the person wrote keeps it: {cancels}");
    }
}
