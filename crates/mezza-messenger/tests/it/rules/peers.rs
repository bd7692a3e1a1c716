//! Effects that no peer can cause, not even with the keys of a session: the clauses of the rules, one
//! by one.

use mezza_core::suite::SuiteId;
use mezza_core::{Machine as _, Time};
use mezza_messenger::card::{Card, CardDraft, RelayEntry};
use mezza_messenger::evidence::{self, Fact, FactKind, NoteState, WaitReason};
use mezza_messenger::io::DeliveryProblem;
use mezza_messenger::note::{Era, Item, Note, Receipt};
use mezza_messenger::policy::Policy;
use mezza_messenger::relay_wire::MailboxAddress;
use mezza_messenger::view::ContactState;
use mezza_messenger::{
    CarrierId, CarrierOutput, Command, Event, Input, Output, RecordKind, RelayInput, RelayOutput,
};
use mezza_ratchet::{BundleError, Prekeys, SuiteList, Table};

use crate::model::Ask;
use crate::peer::{ERA, Peer, identity, kept, note, published, receipt, receipts, text};
use crate::stage::{START, Stage, carries, connection, relay, send};

fn puts(stage: &Stage, who: usize) -> usize {
    stage.parties[who].left.iter().filter(|ask| matches!(ask, Ask::Put(..))).count()
}

fn up(level: u8) -> Input {
    RelayInput::Up { connection: connection(), level, demo: false }.into()
}

#[test]
fn msg_6_and_7_a_card_under_the_ratchet_is_the_writers_own_and_never_older() {
    let mut stage = Stage::new(&["alice"]);
    let (mut peer, contact) = Peer::open(&mut stage, 11);
    let mut other = Peer::new(&mut stage, 12);
    other.serial = 80_000;
    let card = |peer: &mut Peer, stage: &mut Stage, serial: u32, name: &str| {
        peer.serial = serial;
        Item::Card(peer.card(stage, name, vec![]).encode())
    };
    let claims = |stage: &Stage| {
        let view = stage.parties[0].device.contact(contact).expect("there");
        (view.claimed, view.ik, view.trouble)
    };
    let ik = *peer.identity.public_key().as_bytes();
    let foreign = card(&mut other, &mut stage, 80_000, "other");
    let older = card(&mut peer, &mut stage, 69_999, "older");
    for item in [foreign, older] {
        peer.put(&mut stage, &note(0, 0, vec![item]));
        assert_eq!(claims(&stage), ("mallory".into(), ik, None));
    }
    // Another one with the same number is shown, once, and not taken.
    let clash = card(&mut peer, &mut stage, 70_000, "clash");
    peer.put(&mut stage, &note(0, 0, vec![clash]));
    assert_eq!(claims(&stage), ("mallory".into(), ik, Some(DeliveryProblem::CardClash)));
    let told = Event::Trouble(contact, DeliveryProblem::CardClash);
    assert_eq!(stage.parties[0].shown.iter().filter(|event| **event == told).count(), 1);
    let newer = card(&mut peer, &mut stage, 70_001, "newer");
    peer.put(&mut stage, &note(0, 0, vec![newer]));
    assert_eq!(claims(&stage), ("newer".into(), ik, None));
}

#[test]
fn msg_98_a_contact_that_renames_itself_keeps_the_name_that_was_accepted() {
    let mut stage = Stage::new(&["alice"]);
    let (mut peer, contact) = Peer::open(&mut stage, 11);
    let mut calls_itself = |stage: &mut Stage, serial: u32, name: &str| {
        peer.serial = serial;
        let card = peer.card(stage, name, vec![]);
        peer.put(stage, &note(0, 0, vec![Item::Card(card.encode())]));
        let view = stage.parties[0].device.contact(contact).expect("there");
        (view.name, view.claimed)
    };
    assert_eq!(calls_itself(&mut stage, 70_001, "bob"), ("mallory".into(), "bob".into()));
    let rename = Command::Rename { contact, name: "the tall one".into() };
    stage.command(0, rename).expect("a name");
    assert_eq!(calls_itself(&mut stage, 70_002, "carol"), ("the tall one".into(), "carol".into()));
}

#[test]
fn msg_8_a_relay_cannot_strip_a_suite_of_the_card() {
    let mut stage = Stage::new(&["alice"]);
    let bob = identity(31);
    let address = MailboxAddress([31; 16]);
    let draft = CardDraft {
        serial: 70_000,
        issued_days: START.as_days(),
        suites: SuiteList::our_suites(),
        name: "bob",
        relays: vec![RelayEntry { address, ..relay() }],
    };
    let card = Card::issue(&bob, draft, &mut stage.rng).expect("a sound card");
    // Bob's own signature, on the weaker suite alone.
    let weak = SuiteId(0x0101);
    let mut keys = Prekeys::new(bob.duplicate()).offer_suites(&[weak]);
    let bundle = published(&mut keys, &mut stage);
    stage.relay.store.bundles.insert(address, bundle);
    let ik = *card.ik().as_bytes();
    stage.command(0, Command::Add { card, petname: None, in_person: false }).expect("a good card");
    let contact = stage.parties[0].device.contact_by_ik(&ik).expect("added");
    let note = stage.say(0, contact, "hello");
    let view = stage.parties[0].device.contact(contact).expect("there");
    let Some(DeliveryProblem::Bundle(BundleError::SuiteDowngrade { offered, pinned })) =
        view.trouble
    else {
        panic!("{:?}", view.trouble)
    };
    assert_eq!((offered.ids(), pinned), ([weak].as_slice(), SuiteList::our_suites()));
    assert_eq!(stage.state(0, note), NoteState::Queued(WaitReason::Bundle));
    assert_eq!(puts(&stage, 0), 0);
}

#[test]
fn msg_20_the_pin_of_a_note_is_looked_at_again_when_it_is_handed_over() {
    let mut stage = Stage::new(&["alice"]);
    let (mut peer, contact) = Peer::open(&mut stage, 11);
    stage.alone(up(2));
    let pinned = |pin| {
        let policy = Policy { level_min: pin, ..Policy::default() };
        Input::Command(Command::Policy { contact, policy })
    };
    stage.alone(pinned(2));
    // A note of the person, and a receipt that nobody wrote: both sealed, neither taken.
    assert_eq!(carries(&stage.alone(send(contact, 1))).len(), 1);
    let mail = peer.mail(&mut stage, &note(2, 0, vec![text("to be confirmed")]));
    assert_eq!(carries(&stage.alone(mail)).len(), 1);
    stage.alone(RelayInput::Down { connection: connection() });
    assert_eq!(carries(&stage.alone(up(1))).len(), 0, "the level has fallen below the pin");
    // The note keeps its pin; what no person wrote goes under the level of its cause.
    stage.alone(pinned(1));
    stage.alone(RelayInput::Down { connection: connection() });
    assert_eq!(carries(&stage.alone(up(1))).len(), 0);
    stage.alone(RelayInput::Down { connection: connection() });
    assert_eq!(carries(&stage.alone(up(2))).len(), 2);
}

#[test]
fn msg_14_receipts_of_another_era_prove_nothing() {
    let mut stage = Stage::new(&["alice"]);
    let (mut peer, contact) = Peer::open(&mut stage, 11);
    let own = stage.say(0, contact, "mine");
    let era = peer.read(&mut stage).last().expect("it came").era;
    let Era([first, rest @ ..]) = era;
    let other = Era([first ^ 1, rest[0], rest[1], rest[2]]);
    for what in [Receipt::DELIVERED, Receipt::READ] {
        peer.put(&mut stage, &note(0, 0, vec![receipt(other, what, 1)]));
        assert_eq!(stage.state(0, own), NoteState::Handed(CarrierId::RELAY));
    }
    let proof = peer.receipt(Receipt::DELIVERED, 1);
    peer.put(&mut stage, &note(0, 0, proof));
    assert_eq!(stage.state(0, own), NoteState::Delivered);
}

#[test]
fn msg_14_who_has_read_a_note_has_it() {
    let mut stage = Stage::new(&["alice"]);
    let (mut peer, contact) = Peer::open(&mut stage, 11);
    let first = stage.say(0, contact, "one");
    let second = stage.say(0, contact, "two");
    peer.read(&mut stage);
    // Read without delivered before it, and delivered before read.
    for (what, floor) in [(Receipt::READ, 1), (Receipt::DELIVERED, 2)] {
        let proof = peer.receipt(what, floor);
        peer.put(&mut stage, &note(0, 0, proof));
    }
    assert_eq!(
        (stage.state(0, first), stage.state(0, second)),
        (NoteState::Read, NoteState::Delivered)
    );
    let proof = peer.receipt(Receipt::READ, 2);
    peer.put(&mut stage, &note(0, 0, proof));
    assert_eq!(stage.state(0, second), NoteState::Read);
}

#[test]
fn msg_13_each_carrier_has_its_own_fact() {
    let fact = |what, carrier| Fact { what, carrier, level: 1, at: Time::from_ms(5) };
    let mut facts = Vec::new();
    for what in [FactKind::Handed, FactKind::Delivered] {
        assert!(evidence::add_fact(&mut facts, fact(what, CarrierId::RELAY)));
        assert!(evidence::add_fact(&mut facts, fact(what, CarrierId::MIXNET)));
        assert!(!evidence::add_fact(&mut facts, fact(what, CarrierId::MIXNET)));
    }
    assert_eq!(facts.len(), 4);
}

#[test]
fn msg_26_a_void_is_answered_only_where_receipts_are_sent() {
    let void = || note(0, 0, vec![Item::Void { era: ERA, from: 1, to: 1 }]);
    // Nobody was let in: what is answered later are receipts, and no answer to the void.
    let mut stage = Stage::new(&["alice"]);
    let mut peer = Peer::new(&mut stage, 11);
    let hello = peer.hello(&mut stage, relay());
    peer.put(&mut stage, &note(1, 0, vec![hello, text("let me in")]));
    peer.put(&mut stage, &void());
    assert_eq!(puts(&stage, 0), 0);
    let contact = peer.contact(&stage);
    assert_eq!(stage.standing(0, contact), ContactState::Request);
    stage.command(0, Command::Accept { contact }).expect("a request");
    let said = peer.read(&mut stage);
    assert_eq!(receipts(&said).iter().map(|r| (r.floor, r.bits)).collect::<Vec<_>>(), [(1, 0)]);
    // Somebody who gets receipts gets the answer, and nobody else.
    peer.put(&mut stage, &void());
    let said = peer.read(&mut stage);
    assert!(receipts(&said).iter().any(|r| r.proves_seq(1, true)), "a bit for what is here");
    let policy = Policy { delivered: false, ..Policy::default() };
    stage.command(0, Command::Policy { contact, policy }).expect("sound");
    let before = puts(&stage, 0);
    peer.put(&mut stage, &void());
    stage.pass(Time::MINUTE_MS);
    assert_eq!(puts(&stage, 0), before);
}

#[test]
fn msg_26_what_waits_does_not_leave_for_somebody_who_was_blocked_since() {
    let (mut stage, bob, _) = Stage::friends();
    stage.offline(0);
    let waits = stage.say(0, bob, "written before");
    stage.command(0, Command::Block { contact: bob, blocked: true }).expect("blocked");
    let before = puts(&stage, 0);
    stage.online(0);
    stage.pass(Time::HOUR_MS);
    assert_eq!(puts(&stage, 0), before);
    stage.command(0, Command::Block { contact: bob, blocked: false }).expect("let in again");
    assert_eq!(stage.state(0, waits), NoteState::Delivered);
}

#[test]
fn msg_30_a_message_that_comes_again_is_known_before_it_is_opened() {
    let (mut stage, bob, alice) = Stage::friends();
    stage.say(0, bob, "once");
    let Some(Ask::Put(_, address, bytes)) =
        stage.parties[0].left.iter().rev().find(|ask| matches!(ask, Ask::Put(..))).cloned()
    else {
        panic!("nothing was put")
    };
    let (_, slot) = stage.relay.watchers[&address];
    for n in 0..3 {
        stage.say(1, alice, &format!("{n}"));
        stage.say(0, bob, &format!("{n}"));
    }
    let before = stage.parties[1].device.reject_counts();
    for restarts in [false, true] {
        if restarts {
            stage.restart(1);
            stage.online(1);
        }
        let again = RelayInput::Mail { mailbox: slot, mail: 77, envelope: bytes.clone() };
        stage.input(1, again).expect("taken");
        stage.settle();
        let after = stage.parties[1].device.reject_counts();
        assert_eq!(after.messages, if restarts { 0 } else { before.messages });
    }
    let texts = stage.texts(1, alice);
    assert_eq!(texts.iter().filter(|text| *text == "once").count(), 1);
}

#[test]
fn msg_35_eight_notes_of_a_request_are_kept() {
    let mut stage = Stage::new(&["alice"]);
    let mut peer = Peer::new(&mut stage, 11);
    for seq in 1..=12 {
        let hello = peer.hello(&mut stage, relay());
        peer.put(&mut stage, &note(seq, 0, vec![hello, text("let me in")]));
    }
    let contact = peer.contact(&stage);
    assert_eq!(stage.standing(0, contact), ContactState::Request);
    assert_eq!(stage.texts(0, contact).len(), 8);
}

#[test]
fn msg_35_a_contact_has_so_many_eras() {
    let mut stage = Stage::new(&["alice"]);
    let (mut peer, contact) = Peer::open(&mut stage, 11);
    for n in 0..80 {
        let texts = vec![text(&format!("of era {n}"))];
        let wire = Note { era: Era([n, 1, 1, 1]), ..note(1, 0, texts) };
        peer.put(&mut stage, &wire);
        let void = Item::Void { era: Era([n, 2, 2, 2]), from: 1, to: 1 };
        peer.put(&mut stage, &note(0, 0, vec![void]));
    }
    let disk = stage.parties[0].disk.keys();
    let eras = disk.filter(|(kind, key)| *kind == RecordKind::Seen && key.len() == 8).count();
    assert_eq!(eras, 64);
    // The era that was silent longest makes room: nothing is refused (MSG-109).
    assert_eq!(stage.texts(0, contact).len(), 1 + 80);
    assert_eq!(stage.parties[0].device.reject_counts().notes, 0);
    stage.restart(0);
}

#[test]
fn msg_35_eight_notes_leave_before_the_first_answer() {
    let mut stage = Stage::new(&["alice", "bob"]);
    let bob = stage.add(0, 1);
    let notes: Vec<_> = (0..10).map(|n| stage.say(0, bob, &format!("note {n}"))).collect();
    assert_eq!(puts(&stage, 0), 8);
    assert_eq!(stage.state(0, notes[7]), NoteState::Handed(CarrierId::RELAY));
    assert!(
        notes[8..]
            .iter()
            .all(|note| stage.state(0, *note) == NoteState::Queued(WaitReason::Answer))
    );
}

#[test]
fn what_nobody_wrote_waits_for_the_persons_first_note() {
    let mut stage = Stage::new(&["alice", "bob"]);
    let bob = stage.add(0, 1);
    let outputs = stage.alone(send(bob, 1));
    let find = |outputs: &[Output], fetch: bool| {
        let tickets = outputs.iter().filter_map(|output| match output {
            Output::Carrier(CarrierOutput::Relay(RelayOutput::Fetch { ticket, .. })) if fetch => {
                Some(*ticket)
            }
            Output::Carrier(CarrierOutput::Relay(RelayOutput::Open { ticket, .. })) if !fetch => {
                Some(*ticket)
            }
            _ => None,
        });
        { tickets }.next_back().expect("asked for")
    };
    let fetch = find(&outputs, true);
    let open = find(&outputs, false);
    let note = stage.parties[0].device.find_sent(&[1; 16]).expect("accepted");
    stage.alone(Input::Command(Command::Cancel { note }));
    let (bytes, keys) = stage.relay.store.bundles[&stage.card(1).relays()[0].address].clone();
    let bundle = RelayInput::Bundle { ticket: fetch, bytes, one_time: keys.last().copied() };
    assert_eq!(carries(&stage.alone(bundle)).len(), 0);
    assert_eq!(
        carries(&stage.alone(RelayInput::Done { ticket: open })).len(),
        0,
        "no hello of its own"
    );
    assert_eq!(stage.standing(0, bob), ContactState::Held);
    assert_eq!(carries(&stage.alone(send(bob, 2))).len(), 1);
}

#[test]
fn a_numbered_note_without_a_body_is_shown_as_something_newer() {
    let mut stage = Stage::new(&["alice"]);
    let (mut peer, contact) = Peer::open(&mut stage, 11);
    peer.put(&mut stage, &note(2, 0, vec![]));
    peer.put(&mut stage, &note(3, 0, vec![Item::Timer(3_600)]));
    peer.put(&mut stage, &note(0, 0, vec![Item::Timer(0)]));
    assert_eq!(stage.texts(0, contact), ["let me in", "newer", "newer"]);
}

/// Hands party 0 an input, lets it do what is due, and has the relay take all that leaves; how much
/// that was.
fn runs(stage: &mut Stage, input: Input) -> usize {
    let Stage { parties, now, rng, .. } = stage;
    let device = &mut parties[0].device;
    let mut inputs = vec![input];
    let mut count = 0;
    while let Some(input) = inputs.pop() {
        device.handle(input, *now, rng).expect("taken");
        if device.deadline().is_some_and(|deadline| deadline <= *now) {
            device.wake(*now, rng);
        }
        while let Some(output) = device.poll() {
            if let Output::Carrier(CarrierOutput::Relay(RelayOutput::Put { ticket, .. })) = output {
                inputs.push(RelayInput::Done { ticket }.into());
                count += 1;
            }
        }
    }
    count
}

#[test]
fn nothing_runs_further_ahead_than_the_readers_window() {
    let mut stage = Stage::new(&["alice"]);
    stage.ahead = false;
    let (mut peer, contact) = Peer::open(&mut stage, 11);
    let numbered = |n: u32| {
        let mut client = [0xaa; 16];
        client[..4].copy_from_slice(&n.to_be_bytes());
        let text = "x".into();
        (client, Input::Command(Command::Send { contact, client, text, life: None }))
    };
    let era = {
        stage.say(0, contact, "the first one");
        peer.read(&mut stage).last().expect("it came").era
    };
    // The first one is not confirmed, all others are.
    for seq in 2..=1_024 {
        assert_eq!(runs(&mut stage, numbered(seq).1), 1, "{seq}");
        if seq % 64 == 0 || seq == 1_024 {
            let base = seq - 63;
            let bits = Receipt { what: Receipt::DELIVERED, era, floor: 0, base, bits: u64::MAX };
            let bits = if base == 1 { Receipt { bits: u64::MAX - 1, ..bits } } else { bits };
            let kept = kept(era, base.max(2)..base + 64, stage.now, "x");
            let mail = peer.mail(&mut stage, &note(0, 0, vec![Item::Receipt(bits), kept]));
            runs(&mut stage, mail);
        }
    }
    let (client, next) = numbered(1_025);
    assert_eq!(runs(&mut stage, next), 1, "the first one once more");
    let waits = stage.parties[0].device.find_sent(&client).expect("accepted");
    assert_eq!(stage.state(0, waits), NoteState::Queued(WaitReason::Answer));
    let mail = peer.mail(&mut stage, &note(0, 0, vec![]));
    assert_eq!(runs(&mut stage, mail), 0, "and not with everything that happens");
    stage.now = stage.now.plus_ms(Time::HOUR_MS);
    let mail = peer.mail(&mut stage, &note(0, 0, vec![]));
    assert_eq!(runs(&mut stage, mail), 1, "but once an hour");
    let proof = peer.receipt(Receipt::DELIVERED, 1);
    let mail = peer.mail(&mut stage, &note(0, 0, proof));
    assert_eq!(runs(&mut stage, mail), 1);
    assert_eq!(stage.state(0, waits), NoteState::Handed(CarrierId::RELAY));
}

/// Base keys of first messages that alice remembers.
fn remembered(stage: &Stage) -> usize {
    let keys = stage.parties[0].disk.keys();
    let seen = [Table::Seen.number()];
    keys.filter(|(kind, key)| *kind == RecordKind::Prekey && key.starts_with(&seen)).count()
}

/// Somebody with a session that no one-time key began.
fn beginner(stage: &mut Stage, scalar: u8) -> Peer {
    let intro = stage.card(0).relays()[0].address;
    stage.relay.store.bundles.get_mut(&intro).expect("published").1.clear();
    Peer::new(stage, scalar)
}

#[test]
fn msg_92_a_contact_begins_eight_sessions_at_once_and_then_one_in_ten_minutes() {
    let mut stage = Stage::new(&["alice"]);
    let (peer, _) = Peer::open(&mut stage, 11);
    let before = remembered(&stage);
    let begins = |stage: &mut Stage, times: u32| {
        for _ in 0..times {
            let mut again = beginner(stage, 11);
            again.writes_where(&peer);
            again.put(stage, &note(0, 0, vec![]));
        }
        remembered(stage) - before
    };
    assert_eq!(begins(&mut stage, 20), 8);
    stage.pass(10 * Time::MINUTE_MS);
    assert_eq!(begins(&mut stage, 3), 9);
    // Another contact has a pace of its own.
    let mut bob = beginner(&mut stage, 12);
    let hello = bob.hello(&mut stage, relay());
    bob.put(&mut stage, &note(1, 0, vec![hello, text("I am new here")]));
    assert_eq!(remembered(&stage) - before, 10);
    assert_eq!(stage.standing(0, bob.contact(&stage)), ContactState::Request);
}

#[test]
fn msg_92_strangers_who_show_no_card_cost_places_of_strangers() {
    let mut stage = Stage::new(&["alice"]);
    for scalar in 20..90 {
        let mut stranger = beginner(&mut stage, scalar);
        stranger.put(&mut stage, &note(1, 0, vec![text("nobody")]));
    }
    assert_eq!(remembered(&stage), 64);
    assert_eq!(stage.parties[0].device.contacts().len(), 0);
    stage.pass(Time::HOUR_MS);
    let mut bob = beginner(&mut stage, 12);
    let hello = bob.hello(&mut stage, relay());
    bob.put(&mut stage, &note(1, 0, vec![hello, text("I am new here")]));
    assert_eq!(stage.standing(0, bob.contact(&stage)), ContactState::Request);
}

/// The relay lost the second of three notes: the reader's receipt says so.
#[test]
fn msg_93_a_note_that_a_receipt_leaves_out_goes_again() {
    let mut stage = Stage::new(&["alice"]);
    let (mut peer, contact) = Peer::open(&mut stage, 11);
    for text in ["one", "two", "three"] {
        stage.say(0, contact, text);
    }
    let notes = peer.read(&mut stage);
    let seqs = |notes: &[Note]| -> Vec<u32> {
        notes.iter().map(|note| note.seq).filter(|seq| *seq > 0).collect()
    };
    assert_eq!(seqs(&notes), [1, 2, 3]);
    let gap = Receipt { what: Receipt::DELIVERED, era: notes[0].era, floor: 1, base: 3, bits: 1 };
    // What it has of the first and the third one.
    let mut proof = peer.receipt(Receipt::DELIVERED, 3).split_off(1);
    if let [Item::Kept(kept)] = &mut proof[..] {
        kept.notes.remove(1);
    }
    let mut tell = |stage: &mut Stage| {
        let proof = [vec![Item::Receipt(gap)], proof.clone()].concat();
        peer.put(stage, &note(0, 0, proof));
        stage.pass(2_000);
        seqs(&peer.read(stage))
    };
    assert_eq!(tell(&mut stage), [0; 0], "it may still be under way");
    for (again, minutes) in [(true, 10), (false, 5), (true, 5), (true, 10), (false, 60)] {
        stage.pass(minutes * Time::MINUTE_MS);
        let expected: &[u32] = if again { &[2] } else { &[] };
        assert_eq!(tell(&mut stage), expected, "{minutes} minutes later");
    }
}

/// A receipt that comes while a note may still be on its way is the last that the reader sends.
#[test]
fn msg_93_a_note_that_an_early_receipt_leaves_out_goes_again_in_time() {
    for restarts in [false, true] {
        let mut stage = Stage::new(&["alice"]);
        let (mut peer, contact) = Peer::open(&mut stage, 11);
        for text in ["one", "two"] {
            stage.say(0, contact, text);
        }
        let notes = peer.read(&mut stage);
        let era = notes.iter().find(|note| note.seq > 0).expect("a note of the user").era;
        let gap = Receipt { what: Receipt::DELIVERED, era, floor: 0, base: 2, bits: 1 };
        let mut proof = peer.receipt(Receipt::DELIVERED, 2).split_off(1);
        if let [Item::Kept(kept)] = &mut proof[..] {
            kept.notes.remove(0);
        }
        peer.put(&mut stage, &note(0, 0, [vec![Item::Receipt(gap)], proof].concat()));
        let repeated = |stage: &mut Stage, peer: &mut Peer, minutes: u64| -> Vec<u32> {
            stage.pass(minutes * Time::MINUTE_MS);
            peer.read(stage).iter().map(|note| note.seq).filter(|seq| *seq > 0).collect()
        };
        assert_eq!(repeated(&mut stage, &mut peer, 9), [0; 0], "it may still be under way");
        if restarts {
            stage.restart(0);
        }
        assert_eq!(repeated(&mut stage, &mut peer, 2), [1], "restarted: {restarts}");
    }
}
