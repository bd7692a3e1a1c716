//! Notes that the user gives up, and notes that ended by themselves: they do not leave any more, and a bit alone
//! proves that it arrived.

use mezza_core::Time;
use mezza_messenger::evidence::{NoteState, WaitReason};
use mezza_messenger::note::{Item, Note, Receipt};
use mezza_messenger::policy::Policy;
use mezza_messenger::{Command, ContactId, DeviceError, NoteId, PersonError, RelayInput};

use crate::model::PUT;
use crate::peer::{Peer, kept, note, receipt, text};
use crate::stage::{Stage, connection};

fn items(notes: &[Note], is: impl Fn(&Item) -> bool) -> usize {
    notes.iter().flat_map(|note| &note.items).filter(|item| is(item)).count()
}

fn says(notes: &[Note], what: &str) -> usize {
    items(notes, |item| *item == text(what))
}

/// A note that the relay took, and that nobody read for 30 days: it has the number 2.
fn expired() -> (Stage, Peer, ContactId, NoteId) {
    let mut stage = Stage::new(&["alice"]);
    let (mut peer, contact) = Peer::open(&mut stage, 11);
    stage.say(0, contact, "in time");
    peer.read(&mut stage);
    let proof = peer.receipt(Receipt::DELIVERED, 1);
    peer.put(&mut stage, &note(0, 0, proof));
    let late = stage.say(0, contact, "too late");
    stage.pass(31 * Time::DAY_MS);
    assert_eq!(stage.state(0, late), NoteState::Expired);
    (stage, peer, contact, late)
}

#[test]
fn msg_89_a_note_that_is_deleted_before_a_relay_took_it_does_not_leave() {
    let mut stage = Stage::new(&["alice"]);
    let (mut peer, contact) = Peer::open(&mut stage, 11);
    stage.relay.refuses.insert(PUT);
    let note = stage.say(0, contact, "never mind");
    assert_eq!(stage.state(0, note), NoteState::Queued(WaitReason::Slow));
    stage.command(0, Command::Forget { note }).expect("there");
    stage.pass(Time::HOUR_MS);
    let said = peer.read(&mut stage);
    assert_eq!(says(&said, "never mind"), 0);
    let is_void = |item: &Item| matches!(item, Item::Void { from: 1, to: 1, .. });
    assert_eq!(items(&said, is_void), 1, "its number is no gap");
}

#[test]
fn a_note_that_arrived_is_deleted_here_alone() {
    let (mut stage, bob, alice) = Stage::friends();
    let note = stage.say(0, bob, "yours now");
    stage.command(0, Command::Forget { note }).expect("there");
    stage.pass(Time::HOUR_MS);
    stage.say(0, bob, "next");
    assert_eq!(stage.texts(1, alice)[2..], ["yours now", "next"]);
    assert!(!stage.texts(0, bob).contains(&"> yours now".into()));
}

#[test]
fn msg_14_a_floor_that_passes_a_void_does_not_say_that_it_was_read() {
    let (mut stage, mut peer, _, late) = expired();
    let era = peer.read(&mut stage).last().expect("it came").era;
    let bit = Receipt { what: Receipt::DELIVERED, era, floor: 1, base: 2, bits: 1 };
    let proof = peer.receipt(Receipt::DELIVERED, 2).split_off(1);
    peer.put(&mut stage, &note(0, 0, [vec![Item::Receipt(bit)], proof].concat()));
    assert_eq!(stage.state(0, late), NoteState::Delivered);
    for restarts in [false, true] {
        if restarts {
            stage.restart(0);
            stage.online(0);
        }
        let proof = peer.receipt(Receipt::READ, 2);
        peer.put(&mut stage, &note(0, 0, proof));
        assert_eq!(stage.state(0, late), NoteState::Delivered);
    }
    let bit = Receipt { what: Receipt::READ, ..bit };
    peer.put(&mut stage, &note(0, 0, vec![Item::Receipt(bit)]));
    assert_eq!(stage.state(0, late), NoteState::Read);
}

#[test]
fn msg_89_a_note_that_has_expired_does_not_leave_in_a_new_session() {
    let (mut stage, mut peer, contact, late) = expired();
    assert_eq!(says(&peer.read(&mut stage), "too late"), 1, "the relay had it");
    peer.put(&mut stage, &note(0, 0, vec![Item::Retry]));
    stage.command(0, Command::Reset { contact }).expect("open");
    let mut anew = Peer::new(&mut stage, 11);
    let hello = anew.hello(&mut stage, crate::stage::relay());
    anew.put(&mut stage, &note(0, 0, vec![hello]));
    stage.pass(Time::HOUR_MS);
    let said = anew.read(&mut stage);
    assert!(!said.is_empty() && says(&said, "too late") == 0);
    assert_eq!(stage.state(0, late), NoteState::Expired);
}

#[test]
fn msg_13_what_arrived_or_has_expired_is_not_taken_back() {
    let (mut stage, mut peer, contact, late) = expired();
    let thread = stage.thread(0, contact);
    let arrived = thread.iter().find(|note| note.state == NoteState::Delivered);
    let arrived = arrived.expect("the first one").id;
    for note in [arrived, late] {
        assert_eq!(
            stage.command(0, Command::Cancel { note }),
            Err(DeviceError::Person(PersonError::NotNow))
        );
    }
    peer.read(&mut stage);
    let proof = peer.receipt(Receipt::READ, 1);
    peer.put(&mut stage, &note(0, 0, proof));
    assert_eq!(stage.state(0, arrived), NoteState::Read);
    assert_eq!(
        stage.command(0, Command::Cancel { note: arrived }),
        Err(DeviceError::Person(PersonError::NotNow))
    );
    let theirs = thread.iter().find(|note| note.incoming).expect("one").id;
    assert_eq!(
        stage.command(0, Command::Cancel { note: theirs }),
        Err(DeviceError::Person(PersonError::NotNow))
    );
}

/// The relay never answers; the note has arrived all the same.
#[test]
fn a_delivered_note_does_not_leave_again_when_its_parcel_ends() {
    let mut stage = Stage::new(&["alice"]);
    let (mut peer, contact) = Peer::open(&mut stage, 11);
    stage.say(0, contact, "the era is read from this one");
    let era = peer.read(&mut stage).last().expect("a note").era;
    stage.parties[0].online = false;
    let note_id = stage.say(0, contact, "swallowed");
    let sent = stage.now;
    stage.parties[0].online = true;
    let proof = vec![receipt(era, Receipt::DELIVERED, 2), kept(era, 2..=2, sent, "swallowed")];
    let first = peer.receipt(Receipt::DELIVERED, 1).split_off(1);
    peer.put(&mut stage, &note(0, 0, [proof, first].concat()));
    assert_eq!(stage.state(0, note_id), NoteState::Delivered);
    stage.pass(31 * Time::DAY_MS);
    assert_eq!(says(&peer.read(&mut stage), "swallowed"), 0);
}

/// The reader was away for longer than the timer runs.
#[test]
fn a_timer_runs_from_the_arrival_of_a_note() {
    let mut stage = Stage::new(&["alice"]);
    let (mut peer, contact) = Peer::open(&mut stage, 11);
    let there = |stage: &Stage| stage.texts(0, contact).contains(&"for an hour".into());
    stage.pass(2 * Time::HOUR_MS);
    peer.put(&mut stage, &note(2, 3_600, vec![text("for an hour")]));
    assert!(there(&stage));
    stage.pass(50 * Time::MINUTE_MS);
    stage.restart(0);
    assert!(there(&stage), "a restart does not end it");
    stage.pass(9 * Time::MINUTE_MS);
    assert!(there(&stage));
    stage.pass(Time::MINUTE_MS);
    assert!(!there(&stage));
}

#[test]
fn msg_20_what_waits_for_the_level_of_its_cause_is_not_sealed() {
    let (mut stage, bob, alice) = Stage::friends();
    let up = |level| RelayInput::Up { connection: connection(), level, demo: false };
    let parcels = |stage: &Stage| {
        let rows = stage.parties[0].disk.keys();
        rows.filter(|(kind, _)| *kind == mezza_messenger::RecordKind::Parcel).count()
    };
    // No receipt may go alone while the burst is used up.
    stage.input(0, up(3)).expect("up");
    for n in 0..14 {
        stage.say(1, alice, &format!("note {n}"));
    }
    stage.input(0, up(1)).expect("up");
    stage.pass(Time::MINUTE_MS);
    assert_eq!(parcels(&stage), 0, "no way is found below the level of the cause");
    assert!(stage.standing(0, bob) == mezza_messenger::view::ContactState::Open);
}

#[test]
fn msg_26_a_blocked_contact_gets_no_new_session() {
    let (mut stage, bob, _) = Stage::friends();
    stage.command(0, Command::Block { contact: bob, blocked: true }).expect("known");
    let refused = stage.command(0, Command::Reset { contact: bob });
    assert_eq!(refused, Err(DeviceError::Person(PersonError::Blocked)));
    stage.command(0, Command::Block { contact: bob, blocked: false }).expect("known");
    stage.command(0, Command::Reset { contact: bob }).expect("let in again");
    let policy = Policy::default();
    stage.command(0, Command::Policy { contact: bob, policy }).expect("sound");
}
