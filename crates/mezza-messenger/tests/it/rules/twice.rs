//! One vault, two lives: a copy that was put back, or that runs beside the original.

use mezza_core::Time;
use mezza_messenger::evidence::NoteState;
use mezza_messenger::{Command, ContactId, Event, NoteId, RecordKind};

use crate::model::Ask;
use crate::stage::{Disk, Stage, load};

/// The disk of a party is put back, and its device starts from there.
fn put_back(stage: &mut Stage, who: usize, disk: Disk) {
    stage.offline(who);
    let device = load(&disk, stage.now, &mut stage.rng);
    (stage.parties[who].device, stage.parties[who].disk) = (device, disk);
}

/// Ann writes three notes behind a copy that is put back then, and three new ones. `knows`: her program
/// noticed that the vault is older than it was.
fn after_a_copy(knows: bool, answers: bool) {
    let (mut stage, bob, alice) = Stage::friends();
    let copy = stage.parties[0].disk.clone();
    for n in 1..=3 {
        stage.say(0, bob, &format!("old {n}"));
    }
    if answers {
        stage.say(1, alice, "seen");
    }
    put_back(&mut stage, 0, copy);
    if knows {
        stage.command(0, Command::Restored).expect("always");
    }
    stage.online(0);
    let new: Vec<NoteId> = (1..=3).map(|n| stage.say(0, bob, &format!("NEW {n}"))).collect();
    assert_no_false_receipt(&stage, bob, alice, &new);
    for _ in 0..40 {
        stage.pass(Time::MINUTE_MS);
        assert_no_false_receipt(&stage, bob, alice, &new);
    }
    let texts = stage.texts(1, alice);
    for n in 1..=3 {
        assert_eq!(
            texts.iter().filter(|text| **text == format!("NEW {n}")).count(),
            1,
            "{texts:?}"
        );
        assert_eq!(
            texts.iter().filter(|text| **text == format!("old {n}")).count(),
            1,
            "{texts:?}"
        );
    }
    assert!(new.iter().all(|note| stage.state(0, *note) == NoteState::Delivered));
}

/// Checks that notes shown as delivered are on the other device.
fn assert_no_false_receipt(stage: &Stage, bob: ContactId, alice: ContactId, notes: &[NoteId]) {
    let there = stage.texts(1, alice);
    let own = stage.thread(0, bob).into_iter().filter(|note| notes.contains(&note.id));
    for note in own.filter(|note| note.state == NoteState::Delivered) {
        let mezza_messenger::view::NoteContent::Text(text) = &note.body else { continue };
        assert!(there.contains(text), "{text} has a receipt and is not there");
    }
}

#[test]
fn msg_91_a_vault_that_was_put_back_begins_a_new_era() {
    after_a_copy(true, false);
    after_a_copy(true, true);
}

/// Without any witness of the copy its numbers give it away: to the reader, who has other notes under
/// them, and to the writer, whom a receipt tells of notes that it never wrote.
#[test]
fn msg_91_a_number_with_another_body_gets_no_receipt() {
    after_a_copy(false, false);
    after_a_copy(false, true);
}

/// A receipt that was meant for the original reaches the copy first.
#[test]
fn msg_91_a_receipt_for_what_was_never_written_proves_nothing() {
    let (mut stage, bob, alice) = Stage::friends();
    let copy = stage.parties[0].disk.clone();
    stage.say(0, bob, "old 1");
    stage.say(0, bob, "old 2");
    put_back(&mut stage, 0, copy);
    // Bob's receipts wait in the mailbox while the copy writes.
    let note = write(&mut stage, bob, 1);
    stage.say(1, alice, "are you there?");
    stage.online(0);
    assert_no_false_receipt(&stage, bob, alice, &[note]);
    for _ in 0..40 {
        stage.pass(Time::MINUTE_MS);
        assert_no_false_receipt(&stage, bob, alice, &[note]);
    }
    assert_eq!(stage.state(0, note), NoteState::Delivered);
    assert!(stage.texts(1, alice).contains(&"NEW 1".to_owned()));
}

/// A copy gives the numbers of notes that have arrived to notes of its own, and hears the receipts: they
/// prove the bytes that the reader keeps, not the numbers.
#[test]
fn msg_95_a_receipt_proves_bytes_not_numbers() {
    let (mut stage, bob, alice) = Stage::friends();
    let copy = stage.parties[0].disk.clone();
    for n in 1..=3 {
        stage.say(0, bob, &format!("old {n}"));
    }
    put_back(&mut stage, 0, copy);
    let new: Vec<NoteId> = (1..=3u8).map(|n| write(&mut stage, bob, n)).collect();
    stage.online(0);
    assert_no_false_receipt(&stage, bob, alice, &new);
    for _ in 0..40 {
        stage.pass(Time::MINUTE_MS);
        assert_no_false_receipt(&stage, bob, alice, &new);
    }
    assert!(new.iter().all(|note| stage.state(0, *note) == NoteState::Delivered));
    let texts = stage.texts(1, alice);
    assert!((1..=3).all(|n| texts.contains(&format!("NEW {n}"))), "{texts:?}");
}

/// Ann writes a note while nothing can leave.
fn write(stage: &mut Stage, bob: ContactId, n: u8) -> NoteId {
    let client = [0x60 + n; 16];
    let send = Command::Send { contact: bob, client, text: format!("NEW {n}"), life: None };
    stage.command(0, send).expect("accepted");
    stage.parties[0].device.find_sent(&client).expect("accepted")
}

/// Nobody hears of a restore who was never written to.
#[test]
fn msg_107_a_vault_that_was_put_back_writes_to_nobody_new() {
    let mut stage = Stage::new(&["alice", "bob"]);
    let bob = stage.add(0, 1);
    let before = stage.parties[0].left.len();
    stage.command(0, Command::Restored).expect("always");
    stage.pass(Time::HOUR_MS);
    let puts = |ask: &&Ask| matches!(ask, Ask::Put(..));
    assert_eq!(stage.parties[0].left[before..].iter().filter(puts).count(), 0);
    assert!(stage.parties[1].device.contacts().is_empty());
    // The first note is one like any other, in an era that no other life has.
    let note = stage.say(0, bob, "hello");
    assert_eq!(stage.state(0, note), NoteState::Handed(mezza_messenger::CarrierId::RELAY));
    let alice = stage.only_contact(1);
    assert_eq!(stage.texts(1, alice), ["hello"]);
    let is_anew = |event: &Event| matches!(event, Event::Anew(..));
    assert!(!stage.parties[1].shown.iter().any(is_anew), "nothing is said of the era");
}

/// Notes without a receipt in the copy are sent again under another era, to a reader who has them.
#[test]
fn msg_108_a_note_that_is_here_is_not_shown_again_under_another_era() {
    let (mut stage, bob, alice) = Stage::friends();
    stage.offline(1);
    let notes: Vec<NoteId> = (1..=3).map(|n| stage.say(0, bob, &format!("old {n}"))).collect();
    let copy = stage.parties[0].disk.clone();
    stage.online(1);
    assert_eq!(stage.texts(1, alice).len(), 5);
    put_back(&mut stage, 0, copy);
    stage.command(0, Command::Restored).expect("always");
    stage.online(0);
    for _ in 0..40 {
        stage.pass(Time::MINUTE_MS);
    }
    assert!(notes.iter().all(|note| stage.state(0, *note) == NoteState::Delivered));
    let texts = stage.texts(1, alice);
    assert_eq!(texts.len(), 5, "{texts:?}");
    // Also where the receipt is lost and it comes once more.
    stage.restart(1);
    stage.online(1);
    assert_eq!(stage.texts(1, alice).len(), 5);
}

#[test]
fn msg_109_a_contact_whose_vault_was_put_back_ever_so_often_is_heard() {
    let (mut stage, bob, alice) = Stage::friends();
    for n in 0..70 {
        stage.command(0, Command::Restored).expect("always");
        stage.pass(11 * Time::MINUTE_MS);
        let note = stage.say(0, bob, &format!("after restore {n}"));
        assert_eq!(stage.state(0, note), NoteState::Delivered, "{n}");
    }
    assert_eq!(stage.texts(1, alice).len(), 72);
    // What is stored of it is bounded, and loads.
    let windows = stage.parties[1].disk.keys();
    let windows = windows.filter(|(kind, key)| *kind == RecordKind::Seen && key.len() == 8);
    assert_eq!(windows.count(), 64);
    stage.restart(1);
}

/// Bob's vault is put back to before a session that Alice goes on in, twice within ten minutes: the second
/// time it is too early for a new session. He asks for one when it is not, and nobody writes meanwhile.
#[test]
fn msg_127_what_came_too_early_for_a_new_session_begins_one_later() {
    let (mut stage, bob, alice) = Stage::friends();
    let mut copy = stage.parties[1].disk.clone();
    for (text, early) in [("one", false), ("two", true)] {
        stage.command(0, Command::Reset { contact: bob }).expect("a new session");
        stage.say(0, bob, &format!("{text} to the later life"));
        let later = std::mem::replace(&mut copy, stage.parties[1].disk.clone());
        put_back(&mut stage, 1, later);
        stage.online(1);
        stage.pass(Time::MINUTE_MS);
        let note = stage.say(0, bob, text);
        let is_there = stage.state(0, note) == NoteState::Delivered;
        assert_ne!(is_there, early, "the first time a new session begins at once");
        copy = stage.parties[1].disk.clone();
        if early {
            // Also behind a start.
            stage.restart(1);
            stage.pass(10 * Time::MINUTE_MS);
            assert_eq!(stage.state(0, note), NoteState::Delivered);
        }
    }
    assert!(stage.texts(1, alice).ends_with(&["two".to_owned()]));
}

/// The bundles at the relay are those of other lives, on both sides: neither opens what the other begins.
#[test]
fn msg_128_whose_bundle_is_of_another_life_puts_up_its_own() {
    let (mut stage, bob, alice) = Stage::friends();
    let copies = [0, 1].map(|who| stage.parties[who].disk.clone());
    let own = stage.relay.store.bundles.clone();
    for (who, copy) in copies.into_iter().enumerate() {
        stage.command(who, Command::Restored).expect("always");
        put_back(&mut stage, who, copy);
    }
    assert!(
        stage
            .relay
            .store
            .bundles
            .values()
            .all(|(bundle, _)| { own.values().all(|(before, _)| before != bundle) })
    );
    (0..2).for_each(|who| stage.online(who));
    let note = stage.say(0, bob, "in which session?");
    let back = stage.say(1, alice, "in none");
    stage.pass(30 * Time::MINUTE_MS);
    assert_eq!(stage.state(0, note), NoteState::Delivered);
    assert_eq!(stage.state(1, back), NoteState::Delivered);
    let put_up = |who: usize| {
        let is_set = |ask: &&Ask| matches!(ask, Ask::Set(.., true));
        stage.parties[who].left.iter().filter(is_set).count()
    };
    assert!(put_up(0) <= 6 && put_up(1) <= 6, "once in ten minutes");
}

/// Strangers get the bundle from the relay: mail that no prekey opens shows that it is not ours.
#[test]
fn msg_128_mail_of_strangers_that_no_prekey_opens_puts_our_bundle_up() {
    let mut stage = Stage::new(&["alice", "bob"]);
    let copy = stage.parties[1].disk.clone();
    let own = stage.relay.store.bundles.clone();
    stage.command(1, Command::Restored).expect("always");
    put_back(&mut stage, 1, copy);
    stage.online(1);
    assert!(stage.relay.store.bundles != own);
    let bob = stage.add(0, 1);
    stage.say(0, bob, "nobody opens this");
    let keyless = |bundles: &std::collections::BTreeMap<_, (Vec<u8>, Vec<_>)>| {
        bundles.iter().map(|(at, (bundle, _))| (*at, bundle.clone())).collect::<Vec<_>>()
    };
    let is_ours = keyless(&stage.relay.store.bundles) == keyless(&own);
    assert!(is_ours, "strangers are given it again");
}

/// Bob has asked for everything again a moment ago when Alice's vault is put back: she learns too early for a
/// new era that a number has other content. It waits for its turn, and is not forgotten.
#[test]
fn msg_132_an_era_that_comes_too_early_begins_in_its_turn() {
    let (mut stage, bob, alice) = Stage::friends();
    stage.command(1, Command::Reset { contact: alice }).expect("a new session");
    let copy = stage.parties[0].disk.clone();
    stage.say(0, bob, "to be forgotten");
    put_back(&mut stage, 0, copy);
    stage.online(0);
    let note = stage.say(0, bob, "under the same number");
    stage.say(0, bob, "and one more");
    stage.pass(Time::MINUTE_MS);
    assert_ne!(stage.state(0, note), NoteState::Delivered, "it comes too early");
    stage.pass(10 * Time::MINUTE_MS);
    assert_eq!(stage.state(0, note), NoteState::Delivered);
}
