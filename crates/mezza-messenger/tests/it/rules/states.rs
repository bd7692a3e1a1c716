//! States and evidence: MSG-10 to MSG-17, MSG-27, MSG-34.

use std::collections::BTreeSet;

use mezza_core::Machine;
use mezza_core::Time;
use mezza_messenger::CarrierId;
use mezza_messenger::evidence::{self, Fact, FactKind, NoteState, WaitReason};
use mezza_messenger::note::{Item, Receipt};
use mezza_messenger::{CarrierOutput, Command, Event, Input, Output, RelayInput, RelayOutput};

use crate::model::{Ask, Tell};
use crate::peer::{Peer, kept, note};
use crate::stage::{Stage, carries, connection, load, send, write};

fn fact(what: FactKind) -> Fact {
    Fact { what, carrier: CarrierId::RELAY, level: 1, at: Time::from_ms(5) }
}

#[test]
fn msg_10_the_state_is_a_function_of_the_facts() {
    let due = Some(Time::from_ms(100));
    let now = Time::from_ms(50);
    let all = [FactKind::Handed, FactKind::Carried(3), FactKind::Delivered, FactKind::Read];
    let states = [
        NoteState::Handed(CarrierId::RELAY),
        NoteState::Carried(3),
        NoteState::Delivered,
        NoteState::Read,
    ];
    for n in 0..16_u8 {
        let facts: Vec<Fact> = all
            .iter()
            .enumerate()
            .filter(|(i, _)| n >> i & 1 == 1)
            .map(|(_, w)| fact(*w))
            .collect();
        let strongest = (0..4).rev().find(|i| n >> i & 1 == 1);
        let expected = strongest.map_or(NoteState::Queued(WaitReason::Keys), |i| states[i]);
        assert_eq!(evidence::compute_state(&facts, due, WaitReason::Keys, now), expected);
        let late = evidence::compute_state(&facts, due, WaitReason::Keys, Time::from_ms(100));
        let expected = if n >> 2 == 0 { NoteState::Expired } else { expected };
        assert_eq!(late, expected, "truth wins over the clock, the clock over the rest");
    }
    // And each fact of a real note names its carrier and its time.
    let (mut stage, bob, _) = Stage::friends();
    let note = stage.say(0, bob, "x");
    let facts = stage.parties[0].device.note(note, stage.now).expect("there").facts;
    assert_eq!(
        facts.iter().map(|f| f.what).collect::<Vec<_>>(),
        [FactKind::Handed, FactKind::Delivered]
    );
    assert!(facts.iter().all(|f| f.carrier == CarrierId::RELAY && f.at == stage.now));
}

#[test]
fn msg_11_handed_only_after_done() {
    let (mut stage, bob, _) = Stage::friends();
    let send = Command::Send { contact: bob, client: [9; 16], text: "x".into(), life: None };
    let now = stage.now;
    let device = &mut stage.parties[0].device;
    device.handle(Input::Command(send), now, &mut stage.rng).expect("accepted");
    let note = device.find_sent(&[9; 16]).expect("there");
    let mut put = None;
    while let Some(output) = device.poll() {
        if let Output::Carrier(CarrierOutput::Relay(RelayOutput::Put { ticket, .. })) = output {
            put = Some(ticket);
        }
    }
    assert_eq!(
        device.note(note, now).expect("there").state,
        NoteState::Queued(WaitReason::Sending)
    );
    let ticket = put.expect("the note left");
    device.handle(RelayInput::Done { ticket }.into(), now, &mut stage.rng).expect("an answer");
    assert_eq!(device.note(note, now).expect("there").state, NoteState::Handed(CarrierId::RELAY));
}

#[test]
fn msg_11_a_relay_that_lies_gets_no_further_than_handed() {
    let (mut stage, bob, alice) = Stage::friends();
    stage.relay.liar = true;
    let note = stage.say(0, bob, "swallowed");
    assert_eq!(stage.state(0, note), NoteState::Handed(CarrierId::RELAY));
    stage.pass(31 * Time::DAY_MS);
    assert_eq!(stage.state(0, note), NoteState::Expired);
    assert_eq!(stage.texts(1, alice).len(), 2);
}

/// Outputs of one input, in order, by name.
fn order_of(stage: &mut Stage, who: usize, tell: Tell) -> Vec<&'static str> {
    let now = stage.now;
    let device = &mut stage.parties[who].device;
    device
        .handle(tell.into_input(connection()), now, &mut stage.rng)
        .expect("mail is never refused");
    let mut names = Vec::new();
    while let Some(output) = device.poll() {
        names.push(match output {
            Output::Store(_) => "store",
            Output::Carrier(CarrierOutput::Relay(RelayOutput::Acknowledge { .. })) => "take",
            Output::Carrier(CarrierOutput::Relay(RelayOutput::Put { .. })) => "carry",
            Output::Notify(Event::Note(..)) => "show note",
            Output::Notify(Event::State(..)) => "show state",
            _ => "other",
        });
    }
    names
}

/// The mail that a note of party 0 becomes for party 1.
fn mail_of(stage: &mut Stage, contact: mezza_messenger::ContactId, text: &str) -> Tell {
    stage.parties[1].online = false;
    stage.relay.leave(1);
    stage.say(0, contact, text);
    let watched = stage.parties[1].left.iter().rev().find_map(|ask| match ask {
        Ask::Watch(_, slot, token) => Some((*slot, *token)),
        _ => None,
    });
    let (slot, _) = watched.expect("the second party watches a box");
    let boxes = stage.relay.store.boxes.values();
    let (nr, bytes) = boxes.flat_map(|mails| mails.iter()).next_back().expect("mail waits");
    Tell::Mail(slot, *nr, bytes.clone())
}

#[test]
fn msg_12_the_receipt_leaves_after_the_note_is_stored() {
    let (mut stage, bob, _) = Stage::friends();
    let mail = mail_of(&mut stage, bob, "store me first");
    let order = order_of(&mut stage, 1, mail);
    let at = |name| order.iter().position(|n| *n == name).unwrap_or_else(|| panic!("{order:?}"));
    assert!(at("store") < at("take") && at("store") < at("carry"));
    assert!(at("store") < at("show note"), "{order:?}");
}

#[test]
fn msg_13_facts_are_never_taken_back() {
    let mut facts = Vec::new();
    assert!(evidence::add_fact(&mut facts, fact(FactKind::Delivered)));
    assert!(evidence::add_fact(&mut facts, fact(FactKind::Handed)));
    assert!(!evidence::add_fact(&mut facts, fact(FactKind::Delivered)), "known already");
    assert_eq!(facts.len(), 2);
    // A refusal after the receipt changes nothing.
    let (mut stage, bob, _) = Stage::friends();
    let note = stage.say(0, bob, "x");
    let before = stage.parties[0].device.note(note, stage.now).expect("there").facts;
    stage.offline(0);
    stage.online(0);
    stage.pass(31 * Time::DAY_MS);
    let after = stage.parties[0].device.note(note, stage.now).expect("there").facts;
    assert_eq!(before, after);
}

#[test]
fn msg_14_without_the_receipt_nothing_is_delivered() {
    let (mut stage, bob, _) = Stage::friends();
    let note = stage.say(0, bob, "x");
    let view = stage.parties[0].device.note(note, stage.now).expect("there");
    let without: Vec<Fact> = view
        .facts
        .iter()
        .filter(|fact| !matches!(fact.what, FactKind::Delivered | FactKind::Read))
        .copied()
        .collect();
    assert_eq!(view.state, NoteState::Delivered);
    let state = evidence::compute_state(&without, view.due, WaitReason::Sending, stage.now);
    assert_eq!(state, NoteState::Handed(CarrierId::RELAY));
}

#[test]
fn msg_15_an_accepted_note_survives_a_crash_and_arrives_once() {
    let (mut stage, bob, alice) = Stage::friends();
    stage.offline(0);
    let note = stage.say(0, bob, "after the crash");
    stage.restart(0);
    assert_eq!(stage.state(0, note), NoteState::Queued(WaitReason::NoCarrier));
    stage.online(0);
    assert_eq!(stage.state(0, note), NoteState::Delivered);
    // Repeating the command, as a client does that saw no answer, is the same note.
    let texts = stage.texts(1, alice);
    assert_eq!(texts.iter().filter(|text| *text == "after the crash").count(), 1);
}

#[test]
fn msg_15_a_repeated_command_is_the_same_note() {
    let (mut stage, bob, alice) = Stage::friends();
    for _ in 0..3 {
        let send = Command::Send { contact: bob, client: [7; 16], text: "once".into(), life: None };
        stage.command(0, send).expect("accepted");
        stage.restart(0);
        stage.online(0);
    }
    assert_eq!(stage.texts(1, alice).iter().filter(|text| *text == "once").count(), 1);
    assert_eq!(stage.texts(0, bob).iter().filter(|text| *text == "> once").count(), 1);
}

#[test]
fn msg_15_whoever_is_deleted_and_added_again_gets_what_is_written() {
    let (mut stage, bob, alice) = Stage::friends();
    stage.command(0, Command::Delete { contact: bob }).expect("deleted");
    let again = stage.add(0, 1);
    let note = stage.say(0, again, "it is me again");
    assert_eq!(stage.state(0, note), NoteState::Delivered);
    stage.restart(0);
    stage.online(0);
    let second = stage.say(0, again, "and once more");
    assert_eq!(stage.state(0, second), NoteState::Delivered);
    let texts = stage.texts(1, alice);
    assert_eq!(texts[texts.len() - 2..], ["it is me again", "and once more"], "{texts:?}");
}

#[test]
fn msg_16_nothing_is_carried_before_it_is_stored() {
    let (mut stage, bob, _) = Stage::friends();
    let now = stage.now;
    let device = &mut stage.parties[0].device;
    let send = Command::Send { contact: bob, client: [9; 16], text: "x".into(), life: None };
    device.handle(Input::Command(send), now, &mut stage.rng).expect("accepted");
    let mut stored = false;
    let mut carried = 0;
    while let Some(output) = device.poll() {
        match output {
            Output::Store(_) => stored = true,
            Output::Carrier(CarrierOutput::Relay(RelayOutput::Put { .. })) => {
                assert!(stored);
                carried += 1;
            }
            _ => {}
        }
    }
    assert_eq!(carried, 1);
}

#[test]
fn msg_17_the_same_parcel_leaves_again_in_another_envelope() {
    let (mut stage, bob, _) = Stage::friends();
    let send = Command::Send { contact: bob, client: [9; 16], text: "x".into(), life: None };
    let now = stage.now;
    let party = &mut stage.parties[0];
    party.device.handle(Input::Command(send), now, &mut stage.rng).expect("accepted");
    let mut envelopes = BTreeSet::new();
    let mut parcels = BTreeSet::new();
    for _ in 0..4 {
        while let Some(output) = party.device.poll() {
            match output {
                Output::Store(batch) => write(&mut party.disk, batch.0),
                Output::Carrier(CarrierOutput::Relay(RelayOutput::Put {
                    envelope: bytes, ..
                })) => {
                    envelopes.insert(bytes);
                }
                _ => {}
            }
        }
        let rows =
            party.disk.iter().filter(|((kind, _), _)| *kind == mezza_messenger::RecordKind::Parcel);
        parcels.extend(rows.map(|(_, value)| value.clone()));
        // The answer never comes; the device dies and is loaded from what was stored.
        party.device = load(&party.disk, now, &mut stage.rng);
        party.device.handle(Tell::Up.into_input(connection()), now, &mut stage.rng).expect("up");
    }
    assert_eq!(parcels.len(), 1, "one chain key, one ciphertext");
    assert_eq!(envelopes.len(), 4, "the outer box is made anew");
}

#[test]
fn an_envelope_made_ahead_is_used_once() {
    let (mut stage, bob, _) = Stage::friends();
    stage.ahead = false;
    // 32-bit words that a note draws when it is written.
    let words = |stage: &mut Stage, text: &str| {
        let before = stage.rng.get_word_pos();
        let client = [0x80 | text.len() as u8; 16];
        let command = Command::Send { contact: bob, client, text: text.into(), life: None };
        stage.input(0, Input::Command(command)).expect("the note is accepted");
        let drawn = stage.rng.get_word_pos() - before;
        stage.settle();
        drawn
    };
    words(&mut stage, "1");
    // The ratchet turns for each: the answer to the one before it has come.
    assert_eq!(words(&mut stage, "22"), 16);
    for _ in 0..2 {
        let Stage { parties, rng, .. } = &mut stage;
        parties[0].device.precompute(rng);
    }
    assert_eq!(words(&mut stage, "333"), 8);
    assert_eq!(words(&mut stage, "4444"), 16);
    let puts = stage.parties[0].left.iter().filter_map(|ask| match ask {
        Ask::Put(_, _, bytes) => Some(bytes[1..33].to_vec()),
        _ => None,
    });
    let keys: Vec<_> = puts.collect();
    assert_eq!(keys.iter().collect::<BTreeSet<_>>().len(), keys.len());
    assert_eq!(stage.texts(0, bob).len(), 6);
}

#[test]
fn msg_27_receipts_come_in_a_burst_of_ten_then_slowly() {
    let (mut stage, bob, _) = Stage::friends();
    let before = stage.parties[1].left.len();
    for i in 0..30 {
        stage.say(0, bob, &format!("note {i}"));
    }
    let puts = |stage: &Stage| {
        let left = stage.parties[1].left[before..].iter();
        left.filter(|ask| matches!(ask, Ask::Put(..))).count()
    };
    assert!(puts(&stage) <= 10, "{}", puts(&stage));
    stage.pass(4_000);
    assert!(puts(&stage) <= 12, "merged, at most one in two seconds: {}", puts(&stage));
    let mut states = stage.thread(0, bob).into_iter().filter(|note| !note.incoming);
    assert!(
        states.clone().all(|note| note.state == NoteState::Delivered),
        "{:?}",
        states.next_back()
    );
    // A receipt causes no receipt: all is quiet now.
    let quiet = puts(&stage);
    stage.pass(60_000);
    assert_eq!(puts(&stage), quiet);
}

#[test]
fn msg_34_the_thread_is_ordered_by_arrival() {
    let (mut stage, bob, alice) = Stage::friends();
    // Bob's clock is a year behind; his claim does not move his note up.
    stage.now = stage.now.minus_ms(365 * Time::DAY_MS);
    stage.say(1, alice, "from the past");
    stage.now = stage.now.plus_ms(365 * Time::DAY_MS);
    stage.say(0, bob, "now");
    let thread = stage.thread(0, bob);
    assert_eq!(stage.texts(0, bob)[2..], ["from the past", "> now"]);
    assert!(thread[2].sent < thread[1].sent);
}

#[test]
fn a_cancelled_note_leaves_no_gap() {
    let (mut stage, bob, alice) = Stage::friends();
    stage.relay.capacity = 0;
    let note = stage.say(0, bob, "never mind");
    stage.command(0, Command::Cancel { note }).expect("it was not delivered");
    stage.relay.capacity = 1_000;
    stage.pass(10_000);
    stage.say(0, bob, "next");
    stage.pass(10_000);
    assert_eq!(stage.texts(1, alice)[2..], ["next"]);
    assert_eq!(stage.parties[1].device.contact(alice).expect("there").missing, 0);
}

#[test]
fn a_receipt_that_overtakes_the_relay_leaves_both_facts() {
    let mut stage = Stage::new(&["alice"]);
    let (mut peer, contact) = Peer::open(&mut stage, 11);
    stage.say(0, contact, "the era is read from this one");
    let era = peer.read(&mut stage).last().expect("a note").era;
    let [ticket] = carries(&stage.alone(send(contact, 0x91)))[..] else { panic!("one parcel") };
    let id = stage.parties[0].device.find_sent(&[0x91; 16]).expect("accepted");
    let receipt = Receipt { what: Receipt::DELIVERED, era, floor: 2, base: 1, bits: 3 };
    let kept = kept(era, 2..=2, stage.now, "x");
    peer.put(&mut stage, &note(0, 0, vec![Item::Receipt(receipt), kept]));
    assert_eq!(stage.state(0, id), NoteState::Delivered);
    stage.input(0, RelayInput::Done { ticket }).expect("an answer");
    let facts = stage.parties[0].device.note(id, stage.now).expect("there").facts;
    let whats: Vec<FactKind> = facts.iter().map(|fact| fact.what).collect();
    assert_eq!(whats, [FactKind::Delivered, FactKind::Handed]);
    stage.restart(0);
    stage.online(0);
    assert_eq!(stage.state(0, id), NoteState::Delivered);
}
