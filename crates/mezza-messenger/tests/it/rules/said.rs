//! Items of notes beside the user's text, and the cases in which nothing is sent.

use mezza_core::Machine as _;
use mezza_messenger::evidence::{NoteState, WaitReason};
use mezza_messenger::io::ResetCause;
use mezza_messenger::note::{Item, Note, Receipt};
use mezza_messenger::policy::Policy;
use mezza_messenger::{Command, Event, Input, RecordKind, RelayInput};

use crate::model::{Ask, Tell};
use crate::peer::{Peer, kept, note, receipt, text};
use crate::stage::{Stage, carries, connection, load, relay, send};

fn up() -> Input {
    Tell::Up.into_input(connection())
}

fn items(notes: &[Note], is: impl Fn(&Item) -> bool) -> usize {
    notes.iter().flat_map(|note| &note.items).filter(|item| is(item)).count()
}

/// Changes the number that the next note to the only contact gets: it follows the version.
fn patch_next_seq(stage: &mut Stage, before: u32, after: u32) {
    let mut rows =
        stage.parties[0].disk.iter_mut().filter(|((kind, _), _)| *kind == RecordKind::Owed);
    let (_, row) = rows.next().expect("a contact");
    assert_eq!(row[1..5], before.to_be_bytes());
    row[1..5].copy_from_slice(&after.to_be_bytes());
}

#[test]
fn a_note_to_somebody_known_says_what_the_person_wrote() {
    let mut stage = Stage::new(&["alice"]);
    let (mut peer, contact) = Peer::open(&mut stage, 11);
    stage.say(0, contact, "nothing else");
    let said = peer.read(&mut stage);
    assert!(said.len() == 1 && said[0].items == [text("nothing else")]);
}

#[test]
fn a_newer_card_is_said_once() {
    let mut stage = Stage::new(&["alice"]);
    let (mut peer, contact) = Peer::open(&mut stage, 11);
    let publish = Command::Publish { name: "alicia".into(), relays: vec![relay()] };
    stage.command(0, publish).expect("a clean name");
    let said = peer.read(&mut stage);
    assert!(said.len() == 1 && said[0].items == [Item::Card(stage.card(0).encode())]);
    stage.say(0, contact, "as I said");
    let said = peer.read(&mut stage);
    assert!(said.len() == 1 && said[0].items == [text("as I said")]);
}

#[test]
fn what_was_given_up_is_said_until_a_receipt_passes_it() {
    let mut stage = Stage::new(&["alice"]);
    let (mut peer, contact) = Peer::open(&mut stage, 11);
    let first = stage.say(0, contact, "one");
    let second = stage.say(0, contact, "two");
    let era = peer.read(&mut stage).last().expect("it came").era;
    stage.command(0, Command::Cancel { note: second }).expect("not delivered");
    let is_void = |item: &Item| *item == Item::Void { era, from: 2, to: 2 };
    assert_eq!(items(&peer.read(&mut stage), is_void), 1);
    for (floor, voids) in [(1, 1), (2, 0)] {
        let proof = peer.receipt(Receipt::DELIVERED, floor);
        peer.put(&mut stage, &note(0, 0, proof));
        stage.say(0, contact, "more");
        assert_eq!(items(&peer.read(&mut stage), is_void), voids, "up to {floor}");
    }
    assert_eq!(stage.state(0, first), NoteState::Delivered);
}

#[test]
fn a_receipt_ends_the_parcels_of_its_notes_alone() {
    let mut stage = Stage::new(&["alice"]);
    let (mut peer, contact) = Peer::open(&mut stage, 11);
    stage.say(0, contact, "the first one");
    let era = peer.read(&mut stage).last().expect("it came").era;
    for client in 0x91..=0x93 {
        assert_eq!(carries(&stage.alone(send(contact, client))).len(), 1);
    }
    let first = peer.receipt(Receipt::DELIVERED, 1).split_off(1);
    let second = vec![receipt(era, Receipt::DELIVERED, 2), kept(era, 2..=2, stage.now, "x")];
    let mail = peer.mail(&mut stage, &note(0, 0, [first, second].concat()));
    stage.alone(mail);
    let parcels = stage.parties[0].disk.keys().filter(|(kind, _)| *kind == RecordKind::Parcel);
    assert_eq!(parcels.count(), 2);
    stage.alone(RelayInput::Down { connection: connection() });
    assert_eq!(carries(&stage.alone(up())).len(), 2, "the others go again");
    let states = [0x91, 0x92, 0x93].map(|client| {
        let note = stage.parties[0].device.find_sent(&[client; 16]).expect("accepted");
        stage.state(0, note)
    });
    let waits = NoteState::Queued(WaitReason::Sending);
    assert_eq!(states, [NoteState::Delivered, waits, waits]);
}

#[test]
fn the_person_is_told_why_a_session_began_anew() {
    let mut stage = Stage::new(&["alice"]);
    let (mut peer, contact) = Peer::open(&mut stage, 11);
    for (number, cause) in
        [(1, ResetCause::Restored), (2, ResetCause::Lost), (3, ResetCause::Person)]
    {
        stage.parties[0].shown.clear();
        peer.put(&mut stage, &note(0, 0, vec![Item::Reset(number)]));
        let told = stage.parties[0].shown.iter();
        let told = told.filter(|event| matches!(event, Event::Anew(..))).collect::<Vec<_>>();
        assert_eq!(told, [&Event::Anew(contact, cause)]);
    }
}

#[test]
fn whoever_wants_everything_again_gets_the_receipts_again() {
    for delivered in [true, false] {
        let mut stage = Stage::new(&["alice"]);
        let (mut peer, contact) = Peer::open(&mut stage, 11);
        let policy = Policy { delivered, ..Policy::default() };
        stage.command(0, Command::Policy { contact, policy }).expect("sound");
        assert!(peer.read(&mut stage).is_empty());
        peer.put(&mut stage, &note(0, 0, vec![Item::Retry]));
        let said = peer.read(&mut stage);
        assert_eq!(items(&said, |item| matches!(item, Item::Hello { .. })), 1);
        let receipts = items(&said, |item| matches!(item, Item::Receipt(r) if r.floor == 1));
        assert_eq!(receipts, usize::from(delivered));
    }
}

#[test]
fn a_session_is_renewed_though_nothing_else_is_to_be_said() {
    let (mut stage, bob, _) = Stage::friends();
    let gets = |stage: &Stage| {
        stage.parties[0].left.iter().filter(|ask| matches!(ask, Ask::Get(..))).count()
    };
    let before = gets(&stage);
    stage.restart(0);
    assert_eq!(gets(&stage), before);
    let row = [&[1, 1][..], &[0; 8]].concat();
    let key = (RecordKind::Renewal, bob.0.to_be_bytes().to_vec());
    assert_eq!(stage.parties[0].disk.insert(key, row), None);
    stage.restart(0);
    assert_eq!(gets(&stage), before + 1);
    let note = stage.say(0, bob, "in the new one");
    assert_eq!(stage.state(0, note), NoteState::Delivered);
}

#[test]
fn what_holds_up_newer_notes_is_not_sealed_again_while_it_is_on_its_way() {
    let mut stage = Stage::new(&["alice"]);
    let (_, contact) = Peer::open(&mut stage, 11);
    assert_eq!(carries(&stage.alone(send(contact, 0x91))).len(), 1);
    patch_next_seq(&mut stage, 2, 1_025);
    stage.parties[0].device = load(&stage.parties[0].disk, stage.now, &mut stage.rng);
    stage.outputs();
    let tickets = carries(&stage.alone(up()));
    let [ticket] = tickets[..] else { panic!("{tickets:?}") };
    let woken = |stage: &mut Stage, input: Input| {
        let mut outputs = stage.alone(input);
        let Stage { parties, now, rng, .. } = stage;
        parties[0].device.wake(*now, rng);
        outputs.extend(stage.outputs());
        carries(&outputs).len()
    };
    assert_eq!(woken(&mut stage, send(contact, 0x92)), 0);
    let waits = stage.parties[0].device.find_sent(&[0x92; 16]).expect("accepted");
    assert_eq!(stage.state(0, waits), NoteState::Queued(WaitReason::Answer));
    assert_eq!(woken(&mut stage, RelayInput::Done { ticket }.into()), 1, "the first one once more");
}

#[test]
fn that_a_note_was_read_is_said_though_nothing_else_is() {
    let mut stage = Stage::new(&["alice"]);
    let (mut peer, contact) = Peer::open(&mut stage, 11);
    let policy = Policy { read: true, ..Policy::default() };
    stage.command(0, Command::Policy { contact, policy }).expect("sound");
    let last = stage.thread(0, contact)[0].id;
    stage.command(0, Command::Seen { contact, note: last }).expect("seen");
    let said = peer.read(&mut stage);
    let read =
        |item: &Item| matches!(item, Item::Receipt(r) if (r.what, r.floor) == (Receipt::READ, 1));
    let [Note { items, .. }] = &said[..] else { panic!("{said:?}") };
    assert!(matches!(&items[..], [item, Item::Kept(_)] if read(item)), "{items:?}");
    stage.pass(60_000);
    assert!(peer.read(&mut stage).is_empty());
}

#[test]
fn another_timer_is_said_though_nothing_else_is() {
    let mut stage = Stage::new(&["alice"]);
    let (mut peer, contact) = Peer::open(&mut stage, 11);
    let policy = Policy { timer_s: 300, ..Policy::default() };
    stage.command(0, Command::Policy { contact, policy }).expect("sound");
    let said = peer.read(&mut stage);
    assert!(said.len() == 1 && said[0].items == [Item::Timer(300)]);
}
