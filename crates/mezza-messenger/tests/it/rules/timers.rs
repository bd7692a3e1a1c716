//! Timers that both sides go by, whatever becomes of the parcels in which they were said (MSG-105,
//! MSG-106).

use mezza_core::Time;
use mezza_messenger::evidence::NoteState;
use mezza_messenger::policy::Policy;
use mezza_messenger::view::ContactState;
use mezza_messenger::{Command, ContactId};

use crate::model::Ask;
use crate::stage::Stage;

const HOUR_S: u32 = 3_600;

fn set_timer(stage: &mut Stage, who: usize, contact: ContactId, timer_s: u32) {
    let policy = stage.parties[who].device.contact(contact).expect("a contact").policy;
    let policy = Policy { timer_s, ..policy };
    stage.command(who, Command::Policy { contact, policy }).expect("a step of MSG-52");
}

fn timer(stage: &Stage, who: usize, contact: ContactId) -> u32 {
    stage.parties[who].device.contact(contact).expect("a contact").policy.timer_s
}

/// The relay loses all mail that waits in it.
fn lose_mail(stage: &mut Stage) {
    stage.relay.store.boxes.values_mut().for_each(std::collections::BTreeMap::clear);
}

#[test]
fn msg_105_a_timer_whose_parcel_is_taken_back_is_owed_again() {
    let (mut stage, bob, alice) = Stage::friends();
    // The relay does not answer: the parcel is under way.
    stage.parties[0].online = false;
    set_timer(&mut stage, 0, bob, HOUR_S);
    for blocked in [true, false] {
        stage.command(0, Command::Block { contact: bob, blocked }).expect("always");
    }
    stage.offline(0);
    stage.restart(0);
    stage.parties[0].online = true;
    stage.online(0);
    stage.pass(Time::MINUTE_MS);
    assert_eq!((timer(&stage, 0, bob), timer(&stage, 1, alice)), (HOUR_S, HOUR_S));
}

/// The read state is sent once, like a timer, and no later note repeats it.
#[test]
fn msg_105_what_was_read_is_said_again_when_its_parcel_is_taken_back() {
    let (mut stage, bob, alice) = Stage::friends();
    let policy = Policy { read: true, ..Policy::default() };
    stage.command(0, Command::Policy { contact: bob, policy }).expect("sound");
    let note = stage.say(1, alice, "did you read it");
    let last = stage.thread(0, bob).last().expect("it came").id;
    // The relay does not answer: the parcel is under way.
    stage.parties[0].online = false;
    stage.command(0, Command::Seen { contact: bob, note: last }).expect("it is here");
    for blocked in [true, false] {
        stage.command(0, Command::Block { contact: bob, blocked }).expect("always");
    }
    stage.offline(0);
    stage.restart(0);
    stage.parties[0].online = true;
    stage.online(0);
    stage.pass(Time::MINUTE_MS);
    assert_eq!(stage.state(1, note), NoteState::Read);
}

#[test]
fn msg_105_a_timer_that_a_relay_took_and_lost_is_said_with_the_next_note() {
    let (mut stage, bob, alice) = Stage::friends();
    stage.offline(1);
    set_timer(&mut stage, 0, bob, HOUR_S);
    lose_mail(&mut stage);
    stage.online(1);
    assert_eq!(timer(&stage, 1, alice), 0, "it is lost");
    stage.restart(0);
    stage.online(0);
    let note = stage.say(0, bob, "with the timer");
    assert_eq!((timer(&stage, 1, alice), stage.state(0, note)), (HOUR_S, NoteState::Delivered));
    // Now it is known to have arrived, and the other side may set another one.
    set_timer(&mut stage, 1, alice, 8 * HOUR_S);
    assert_eq!(timer(&stage, 0, bob), 8 * HOUR_S);
    stage.say(0, bob, "by the new one");
    assert_eq!((timer(&stage, 0, bob), timer(&stage, 1, alice)), (8 * HOUR_S, 8 * HOUR_S));
}

#[test]
fn msg_105_a_note_that_shows_another_timer_has_ours_said_again() {
    let (mut stage, bob, alice) = Stage::friends();
    stage.offline(1);
    set_timer(&mut stage, 0, bob, HOUR_S);
    lose_mail(&mut stage);
    stage.online(1);
    stage.say(1, alice, "without a timer");
    assert_eq!((timer(&stage, 0, bob), timer(&stage, 1, alice)), (HOUR_S, HOUR_S));
    let puts = |stage: &Stage| {
        stage.parties[0].left.iter().filter(|ask| matches!(ask, Ask::Put(..))).count()
    };
    let before = puts(&stage);
    stage.say(1, alice, "with it");
    assert_eq!(puts(&stage), before + 1, "a receipt, and nothing said twice");
}

#[test]
fn msg_105_a_timer_set_before_the_answer_is_said_with_a_note() {
    let mut stage = Stage::new(&["alice", "bob"]);
    let bob = stage.add(0, 1);
    set_timer(&mut stage, 0, bob, HOUR_S);
    stage.say(0, bob, "hello bob");
    let alice = stage.only_contact(1);
    stage.command(1, Command::Accept { contact: alice }).expect("a request");
    assert_eq!(stage.standing(0, bob), ContactState::Open);
    assert_eq!((timer(&stage, 0, bob), timer(&stage, 1, alice)), (HOUR_S, HOUR_S));
}

#[test]
fn msg_106_of_two_timers_that_cross_the_shorter_one_counts_on_both_sides() {
    for (ours, theirs, both) in
        [(300, 28 * 24 * HOUR_S, 300), (0, HOUR_S, HOUR_S), (HOUR_S, 30, 30)]
    {
        let (mut stage, bob, alice) = Stage::friends();
        // None is set on purpose, too.
        set_timer(&mut stage, 0, bob, 8 * HOUR_S);
        stage.say(0, bob, "known");
        stage.say(1, alice, "known");
        for who in [0, 1] {
            stage.offline(who);
        }
        set_timer(&mut stage, 0, bob, ours);
        set_timer(&mut stage, 1, alice, theirs);
        for who in [0, 1] {
            stage.online(who);
        }
        stage.pass(20 * Time::MINUTE_MS);
        assert_eq!((timer(&stage, 0, bob), timer(&stage, 1, alice)), (both, both));
        // What is set after that counts, be it longer.
        stage.say(0, bob, "known");
        stage.say(1, alice, "known");
        set_timer(&mut stage, 1, alice, 7 * 24 * HOUR_S);
        stage.pass(20 * Time::MINUTE_MS);
        assert_eq!(timer(&stage, 0, bob), 7 * 24 * HOUR_S);
        assert_eq!(timer(&stage, 1, alice), 7 * 24 * HOUR_S);
    }
}
