//! Two devices and a virtual clock.

use mezza_core::SuiteId;
use mezza_ratchet::Table;

use crate::people::{DAY, SUITES, open_session, open_session_of, pass, two_people, two_people_of};

#[test]
fn turns_of_three_messages_with_every_second_batch_reversed() {
    for suite in SUITES {
        let (mut alice, mut bob) = open_session_of(suite, 1);
        for turn in 0..20_u8 {
            let (from, to) =
                if turn % 2 == 0 { (&mut alice, &mut bob) } else { (&mut bob, &mut alice) };
            let mut batch: Vec<_> =
                (0..3).map(|i| (from.send(&[turn, i]), vec![turn, i])).collect();
            if turn % 4 > 1 {
                batch.reverse();
            }
            for (message, body) in batch {
                assert_eq!(to.receive(&message), Ok(body));
                assert!(to.receive(&message).is_err(), "a replay");
            }
        }
        assert_eq!(alice.disk.count(Table::Skipped) + bob.disk.count(Table::Skipped), 0);
    }
}

#[test]
fn first_messages_swapped_with_and_without_one_time_key() {
    for (suite, with_one_time) in SUITES.into_iter().flat_map(|s| [(s, true), (s, false)]) {
        let (mut alice, mut bob) = two_people_of(suite, 2);
        let one_time = if with_one_time { bob.server.one_time.pop() } else { None };
        let ours = alice.begin_without(&bob, one_time);
        let one = alice.send(b"one");
        let two = alice.send(b"two");
        let opened = bob.open(&two, &[]).expect("two");
        assert_eq!((opened.body.as_slice(), opened.first), (&b"two"[..], true));
        let theirs = opened.exporter.expect("of a first message");
        assert!(ours.export_secrets(["x"]) == theirs.export_secrets(["x"]));
        assert_eq!(bob.receive(&one), Ok(b"one".to_vec()));
    }
}

#[test]
fn a_restart_between_any_two_messages_changes_nothing() {
    SUITES.into_iter().for_each(restarts);
}

fn restarts(suite: SuiteId) {
    let (mut alice, mut bob) = two_people_of(suite, 3);
    alice.begin_with(&mut bob);
    for turn in 0..10_u8 {
        for person in [&mut alice, &mut bob] {
            let before = (person.talk.encode(), person.prekeys.all_rows().len());
            person.reboot();
            assert!(before == (person.talk.encode(), person.prekeys.all_rows().len()));
        }
        let _ = alice.send(b"lost");
        let there = alice.send(&[turn]);
        assert_eq!(bob.receive(&there), Ok(vec![turn]));
        bob.reboot();
        let back = bob.send(&[turn]);
        assert_eq!(alice.receive(&back), Ok(vec![turn]));
    }
    assert_eq!(bob.disk.count(Table::Skipped), 10);
}

#[test]
fn a_first_message_travels_for_sixteen_days_over_rotations() {
    let (mut alice, mut bob) = two_people(4);
    // The last day of the bundle: 14 days old, its prekey lives for another 16.
    let bundle = bob.server.bundle.clone();
    pass(&mut alice, &mut bob, 14 * DAY - 120_000);
    alice.begin(&bundle, None).expect("still valid");
    let message = alice.send(b"a long way");
    for _ in 0..15 {
        pass(&mut alice, &mut bob, DAY);
        bob.wake();
    }
    assert_eq!(bob.receive(&message), Ok(b"a long way".to_vec()));
}

#[test]
fn an_unanswered_session_seals_no_more_but_a_late_reply_opens() {
    let (mut alice, mut bob) = two_people(5);
    alice.begin_with(&mut bob);
    let message = alice.send(b"hello?");
    bob.receive(&message).expect("hello");
    let reply = bob.send(b"sorry");
    pass(&mut alice, &mut bob, 30 * DAY - 1);
    alice.wake();
    alice.send(b"still there?");
    pass(&mut alice, &mut bob, 1);
    alice.wake();
    let refused = alice.seal(b"x", &[], mezza_ratchet::Padding::Blocks);
    assert_eq!(refused, Err(mezza_ratchet::SealError::Unanswered));
    assert_eq!(alice.receive(&reply), Ok(b"sorry".to_vec()));
    let answer = alice.send(b"no problem");
    assert_eq!(bob.receive(&answer), Ok(b"no problem".to_vec()));
}

#[test]
fn lost_state_is_told_and_a_new_session_goes_on() {
    let (mut alice, mut bob) = open_session(6);
    bob.disk.0.retain(|(table, _), _| !crate::people::is_talk(*table));
    bob.reboot();
    let message = alice.send(b"can you read this?");
    assert_eq!(bob.receive(&message), Err(mezza_ratchet::OpenError::NoSession));
    bob.begin_with(&mut alice);
    let reset = bob.send(b"i lost everything");
    assert_eq!(alice.receive(&reset), Ok(b"i lost everything".to_vec()));
    let again = alice.send(b"once more then");
    assert_eq!(bob.receive(&again), Ok(b"once more then".to_vec()));
    assert_eq!(alice.talk.active_id(), bob.talk.active_id());
}

#[test]
fn the_summary_counts() {
    let (mut alice, mut bob) = open_session(7);
    let messages = alice.send_many(5);
    bob.receive(&messages[3]).expect("the fourth");
    let ours = alice.talk.summary().expect("a session");
    let theirs = bob.talk.summary().expect("a session");
    assert_eq!((ours.sent, ours.our_turn, ours.initiator, ours.pending), (5, true, true, false));
    assert_eq!((theirs.received, theirs.skipped, theirs.our_turn), (4, 3, false));
    assert_eq!((theirs.initiator, theirs.last_opened), (false, Some(bob.now)));
}
