//! A date that is corrected, under notes with a timer and everything else that waits (MSG-104).

use mezza_core::{Machine as _, Time};
use mezza_messenger::evidence::NoteState;
use mezza_messenger::policy::Policy;
use mezza_messenger::{CarrierId, Command, ContactId, DateStep, NoteId};

use crate::stage::{START, Stage};

const DAY: u64 = Time::DAY_MS;

/// Sets the timer of a conversation.
fn set_timer(stage: &mut Stage, who: usize, contact: ContactId, timer_s: u32) {
    let policy = stage.parties[who].device.contact(contact).expect("a contact").policy;
    let policy = Policy { timer_s, ..policy };
    stage.command(who, Command::Policy { contact, policy }).expect("a step of MSG-52");
}

/// The date of everybody is corrected.
fn correct(stage: &mut Stage, by_ms: i64, since: Option<Time>) {
    let ms = stage.now.as_ms().cast_signed() + by_ms;
    stage.now = Time::from_ms(ms.cast_unsigned());
    for who in 0..stage.parties.len() {
        let date = DateStep { by_ms, since };
        stage.input(who, Command::CorrectDate(date)).expect("never refused");
    }
    stage.pass(0);
    stage.settle();
}

fn is_here(stage: &Stage, who: usize, note: NoteId) -> bool {
    stage.parties[who].device.note(note, stage.now).is_some()
}

#[test]
fn msg_104_what_is_written_in_a_doubt_outlives_the_correction() {
    let (mut stage, bob, alice) = Stage::friends();
    set_timer(&mut stage, 0, bob, 24 * 3_600);
    stage.offline(0);
    let before = stage.say(0, bob, "before the machine was off");
    stage.pass(Time::HOUR_MS);
    // The machine was off for four days, and goes by its last date.
    let since = stage.now;
    let written: Vec<NoteId> = (0..4).map(|n| stage.say(0, bob, &format!("note {n}"))).collect();
    stage.pass(23 * Time::HOUR_MS - 1);
    assert!(written.iter().all(|note| is_here(&stage, 0, *note)));
    correct(&mut stage, 4 * DAY.cast_signed(), Some(since));
    assert!(!is_here(&stage, 0, before), "its day is over");
    assert!(written.iter().all(|note| matches!(stage.state(0, *note), NoteState::Queued(_))));
    stage.online(0);
    assert!(written.iter().all(|note| stage.state(0, *note) == NoteState::Delivered));
    let texts = stage.texts(1, alice);
    assert!((0..4).all(|n| texts.contains(&format!("note {n}"))), "{texts:?}");
    stage.pass(Time::HOUR_MS + 1);
    assert!(written.iter().all(|note| !is_here(&stage, 0, *note)), "no longer than their day");
}

#[test]
fn msg_104_a_step_of_the_clock_ends_no_timer_and_prolongs_none() {
    for by_ms in [20 * 3_600_000, -20 * 3_600_000, -40 * DAY.cast_signed(), 40 * DAY.cast_signed()]
    {
        let (mut stage, bob, alice) = Stage::friends();
        set_timer(&mut stage, 0, bob, 3_600);
        let own = stage.say(0, bob, "for an hour");
        let theirs = stage.thread(1, alice).last().expect("it arrived").id;
        stage.pass(30 * Time::MINUTE_MS);
        correct(&mut stage, by_ms, None);
        assert!(is_here(&stage, 0, own) && is_here(&stage, 1, theirs), "{by_ms}");
        stage.pass(30 * Time::MINUTE_MS - 1);
        assert!(is_here(&stage, 0, own) && is_here(&stage, 1, theirs), "{by_ms}");
        stage.pass(1);
        assert!(!is_here(&stage, 0, own) && !is_here(&stage, 1, theirs), "{by_ms}");
    }
}

#[test]
fn msg_104_a_date_that_is_set_back_holds_nothing_up() {
    let (mut stage, bob, alice) = Stage::friends();
    correct(&mut stage, -40 * DAY.cast_signed(), None);
    assert!(stage.now < START);
    let note = stage.say(0, bob, "after that");
    assert_eq!(stage.state(0, note), NoteState::Delivered);
    // A new session may begin, a mailbox is replaced in its time, and prekeys are made.
    stage.command(0, Command::Reset { contact: bob }).expect("open");
    let note = stage.say(0, bob, "in a new session");
    assert_eq!(stage.state(0, note), NoteState::Delivered);
    for _ in 0..35 {
        stage.pass(DAY);
        let late = stage.parties[0].device.deadline().expect("something is due");
        assert!(late <= stage.now.plus_ms(8 * DAY), "nothing waits for the date of before");
    }
    let note = stage.say(1, alice, "after a month");
    assert_eq!(stage.state(1, note), NoteState::Delivered);
}

#[test]
fn msg_104_what_a_relay_took_in_a_doubt_waits_for_its_reader_as_long_as_ever() {
    let (mut stage, bob, _) = Stage::friends();
    stage.offline(1);
    let since = stage.now;
    let note = stage.say(0, bob, "taken in the doubt");
    assert_eq!(stage.state(0, note), NoteState::Handed(CarrierId::RELAY));
    correct(&mut stage, 60 * DAY.cast_signed(), Some(since));
    assert_eq!(stage.state(0, note), NoteState::Handed(CarrierId::RELAY), "not given up");
}
