//! Sessions and mailboxes in trouble: MSG-30, MSG-31, and what heals.

use mezza_core::{EphemeralKey, PortableBackend, PublicKey, Time};
use mezza_messenger::envelope;
use mezza_messenger::evidence::NoteState;
use mezza_messenger::{Event, MailboxId, NoteId, RecordKind};

use crate::model::{Ask, Tell};
use crate::stage::{Stage, connection};

/// Garbage, but sealed as only a contact can: it reaches the ratchet.
fn forged(stage: &mut Stage) -> Tell {
    let peers = stage.parties[0].disk.iter();
    let peers = peers.filter(|((kind, key), _)| *kind == RecordKind::RelayPeer && !key.is_empty());
    let contact = peers.map(|(_, value)| value.clone()).next().expect("a contact is stored");
    let slot = stage.parties[1].left.iter().rev().find_map(|ask| match ask {
        Ask::Watch(_, slot, _) => Some(*slot),
        _ => None,
    });
    // The mailbox and its key stand in Alice's record of Bob, one behind the other.
    let address = stage.relay.watchers.iter().find(|(_, w)| **w == (1, slot.expect("watched")));
    let address = *address.expect("the box exists").0;
    let at = contact.windows(16).position(|window| window == address.0).expect("Alice knows it");
    let host = at + 16 + 2;
    let seal = host + 1 + usize::from(contact[host]);
    let key = PublicKey(contact[seal..seal + 32].try_into().expect("32 bytes"));
    let mut message = vec![0x01, 0xf1, 0x01, 0x01, 0x02];
    message.extend([0x42; 230]);
    let fresh = EphemeralKey::random::<PortableBackend>(&mut stage.rng);
    let bytes =
        envelope::seal::<PortableBackend>(&address, &key, &message, fresh).expect("it fits");
    Tell::Mail(slot.expect("watched"), 999, bytes)
}

#[test]
fn msg_30_what_does_not_open_changes_no_session() {
    let (mut stage, bob, alice) = Stage::friends();
    let sessions = |stage: &Stage| {
        let disk = &stage.parties[1].disk;
        let rows = disk
            .iter()
            .filter(|((kind, _), _)| matches!(kind, RecordKind::Session | RecordKind::Seen));
        rows.map(|(key, value)| (key.clone(), value.clone())).collect::<Vec<_>>()
    };
    let before = sessions(&stage);
    // Noise that opens no envelope is nobody's fault and starts nothing.
    let slot = MailboxId(2);
    stage.input(1, Tell::Mail(slot, 1, vec![1; 512]).into_input(connection())).expect("taken");
    stage.settle();
    assert!(sessions(&stage) == before);
    assert_eq!(stage.parties[1].device.reject_counts().envelopes, 1);
    // A duplicate of a good message neither.
    let puts: Vec<Ask> =
        stage.parties[0].left.iter().filter(|a| matches!(a, Ask::Put(..))).cloned().collect();
    let fetches = |stage: &Stage| {
        stage.parties[1].left.iter().filter(|ask| matches!(ask, Ask::Get(..))).count()
    };
    let before = sessions(&stage);
    let fetched = fetches(&stage);
    for put in puts {
        let Ask::Put(_, address, bytes) = put else { continue };
        let (_, slot) = stage.relay.watchers[&address];
        stage.input(1, Tell::Mail(slot, 7, bytes).into_input(connection())).expect("taken");
        stage.settle();
    }
    assert!(sessions(&stage) == before);
    assert_eq!(fetches(&stage), fetched, "a duplicate starts no session");
    assert_eq!(stage.texts(1, alice).len(), 2);
    stage.say(0, bob, "still fine");
    assert_eq!(stage.texts(1, alice).len(), 3);
}

#[test]
fn msg_31_one_reset_in_ten_minutes() {
    let (mut stage, bob, alice) = Stage::friends();
    let gets = |stage: &Stage| {
        stage.parties[1].left.iter().filter(|ask| matches!(ask, Ask::Get(..))).count()
    };
    stage.pass(Time::HOUR_MS);
    let before = gets(&stage);
    for _ in 0..5 {
        let mail = forged(&mut stage);
        stage.input(1, mail.into_input(connection())).expect("taken");
        stage.settle();
    }
    assert_eq!(gets(&stage), before + 1, "one new session, however much is forged");
    assert!(stage.parties[0].shown.iter().any(|e| matches!(e, Event::Anew(..))), "Alice is told");
    // And people go on talking in it.
    stage.say(0, bob, "in the new session");
    stage.say(1, alice, "yes");
    assert_eq!(stage.texts(1, alice).last().map(String::as_str), Some("> yes"));
    assert_eq!(stage.texts(0, bob).last().map(String::as_str), Some("yes"));
    stage.pass(11 * Time::MINUTE_MS);
    let mail = forged(&mut stage);
    stage.input(1, mail.into_input(connection())).expect("taken");
    stage.settle();
    assert_eq!(gets(&stage), before + 2, "after ten minutes another one may start");
}

/// Alice answers in the new session while forged messages are still kept: a start does not bring back the wait
/// for another one.
#[test]
fn msg_127_an_answer_ends_the_wait_for_a_session_also_behind_a_start() {
    let (mut stage, bob, alice) = Stage::friends();
    let gets = |stage: &Stage| {
        stage.parties[1].left.iter().filter(|ask| matches!(ask, Ask::Get(..))).count()
    };
    stage.pass(Time::HOUR_MS);
    stage.offline(0);
    let before = gets(&stage);
    for _ in 0..2 {
        let mail = forged(&mut stage);
        stage.input(1, mail.into_input(connection())).expect("taken");
        stage.settle();
        stage.pass(1_000);
    }
    assert_eq!(gets(&stage), before + 1, "the second comes too early for another session");
    stage.online(0);
    stage.say(0, bob, "in the new session");
    assert_eq!(stage.texts(1, alice).last().map(String::as_str), Some("in the new session"));
    stage.restart(1);
    stage.pass(11 * Time::MINUTE_MS);
    assert_eq!(gets(&stage), before + 1, "nobody needs another session");
}

#[test]
fn a_relay_that_forgot_everything_is_furnished_again() {
    let (mut stage, bob, alice) = Stage::friends();
    stage.relay.store = crate::model::Store::default();
    for who in 0..2 {
        stage.offline(who);
    }
    stage.relay.watchers.clear();
    for who in 0..2 {
        stage.online(who);
    }
    let note = stage.say(0, bob, "after the fire");
    stage.pass(120_000);
    assert_eq!(stage.state(0, note), NoteState::Delivered);
    assert_eq!(stage.texts(1, alice).last().map(String::as_str), Some("after the fire"));
}

#[test]
fn a_contact_whose_mailbox_is_gone_is_reached_by_the_intro_mailbox() {
    let (mut stage, bob, alice) = Stage::friends();
    let intro = stage.card(1).relays()[0].address;
    let gone: Vec<_> = stage
        .relay
        .watchers
        .iter()
        .filter(|(address, (who, _))| *who == 1 && **address != intro)
        .map(|(a, _)| *a)
        .collect();
    for address in gone {
        stage.relay.store.boxes.remove(&address);
    }
    let note = stage.say(0, bob, "by the front door");
    stage.pass(120_000);
    assert_eq!(stage.state(0, note), NoteState::Delivered);
    assert_eq!(stage.texts(1, alice).last().map(String::as_str), Some("by the front door"));
}

#[test]
fn both_write_first_and_agree() {
    let mut stage = Stage::new(&["alice", "bob"]);
    let bob = stage.add(0, 1);
    let alice = stage.add(1, 0);
    stage.offline(0);
    stage.offline(1);
    stage.say(0, bob, "from alice");
    stage.say(1, alice, "from bob");
    stage.online(0);
    stage.online(1);
    stage.pass(10_000);
    stage.say(0, bob, "second");
    stage.say(1, alice, "third");
    stage.pass(10_000);
    let mut seen: Vec<String> = stage.texts(0, bob);
    seen.sort();
    assert_eq!(seen, ["> from alice", "> second", "from bob", "third"]);
    for (who, contact) in [(0, bob), (1, alice)] {
        let mut own = stage.thread(who, contact).into_iter().filter(|note| !note.incoming);
        assert!(
            own.clone().all(|note| note.state == NoteState::Delivered),
            "{:?}",
            own.next_back()
        );
    }
}

#[test]
fn notes_wait_for_somebody_who_is_away_for_weeks() {
    let (mut stage, bob, alice) = Stage::friends();
    stage.offline(1);
    let notes: Vec<NoteId> = (0..20).map(|i| stage.say(0, bob, &format!("day {i}"))).collect();
    stage.pass(20 * Time::DAY_MS);
    stage.online(1);
    stage.pass(60_000);
    assert_eq!(stage.texts(1, alice).len(), 22);
    assert!(notes.iter().all(|note| stage.state(0, *note) == NoteState::Delivered));
}

#[test]
fn mailboxes_turn_after_thirty_days() {
    let (mut stage, bob, alice) = Stage::friends();
    for day in 0..70 {
        stage.pass(Time::DAY_MS);
        stage.say(0, bob, &format!("day {day}"));
        stage.say(1, alice, &format!("re day {day}"));
    }
    assert_eq!(stage.texts(1, alice).len(), 142);
    assert_eq!(stage.texts(0, bob).len(), 142);
    // Two intro boxes; of the others the one in use and at most one that is being left.
    assert!(stage.relay.store.boxes.len() <= 6, "{}", stage.relay.store.boxes.len());
}

#[test]
fn msg_35_what_does_not_open_is_kept_eight_times_a_contact_and_for_a_day() {
    let (mut stage, _, _) = Stage::friends();
    let held = |stage: &Stage| {
        let rows = stage.parties[1].disk.keys();
        rows.filter(|(kind, _)| *kind == RecordKind::Held).count()
    };
    // Nobody answers the new session that it asks for.
    stage.parties[0].online = false;
    for n in 1..=40 {
        let mail = forged(&mut stage);
        stage.input(1, mail.into_input(connection())).expect("taken");
        assert_eq!(held(&stage), n.min(8));
    }
    stage.pass(Time::DAY_MS + 1);
    assert_eq!(held(&stage), 0);
}
