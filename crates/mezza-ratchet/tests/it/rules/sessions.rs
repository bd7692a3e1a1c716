//! Sessions, storage and numbers, RATCHET-50 to 61.

use mezza_core::{Suite, Time};
use mezza_ratchet::suite::{B2c20, B2c20Pq};
use mezza_ratchet::{OpenError, StoredRow, Table, safety};

use crate::people::{
    self, DAY, Person, Talk, counting_dhs, identity, open_session, pass, two_people, two_people_of,
};

#[test]
fn ratchet_50_the_session_that_opened_last_or_was_begun_since_is_active() {
    let (mut alice, mut bob) = open_session(50);
    let first = alice.talk.active_id();
    let late = bob.send(b"late, in the first session");
    alice.begin_with(&mut bob);
    let second = alice.talk.active_id();
    assert_ne!(first, second);
    assert!(alice.talk.is_pending(), "begun later than the last message was opened");
    alice.receive(&late).expect("a message of the archived session");
    assert_eq!(alice.talk.active_id(), first, "it opened last");
    alice.reboot();
    assert_eq!(alice.talk.active_id(), first, "the disk says the same");
    let flags: Vec<u8> = sessions(&alice).map(|value| value[3] & 0x40).collect();
    assert_eq!(flags.iter().filter(|flag| **flag != 0).count(), 1, "exactly one is active");
}

#[test]
fn ratchet_50_a_late_message_of_a_lower_suite_leaves_the_higher_one_active() {
    let (mut alice, mut bob) = two_people_of(B2c20Pq::ID, 150);
    alice.suite = B2c20::ID;
    alice.begin_with(&mut bob);
    let first = alice.send(b"as if 0x0101 were all");
    bob.receive(&first).expect("a first message");
    alice.receive(&bob.send(b"yes")).expect("the answer");
    let late = [alice.send(b"late"), alice.send(b"later")];

    alice.suite = B2c20Pq::ID;
    alice.begin_with(&mut bob);
    let better = alice.talk.active_id();
    alice.receive(&bob.send(b"crossed")).expect("in the old session");
    assert_ne!(alice.talk.active_id(), better, "nobody has answered in it yet");
    alice.begin_with(&mut bob);
    let better = alice.talk.active_id();
    bob.receive(&alice.send(b"in 0x0102")).expect("a first message");
    for message in &late {
        bob.receive(message).expect("in the old session");
    }
    alice.receive(&bob.send(b"answer in 0x0102")).expect("an answer");
    bob.reboot();
    for person in [&alice, &bob] {
        let active = person.talk.summary().expect("a session");
        assert_eq!((person.talk.active_id(), active.suite), (better, B2c20Pq::ID));
    }
}

fn sessions(person: &Person) -> impl Iterator<Item = &Vec<u8>> {
    person.disk.0.iter().filter(|((table, _), _)| *table == Table::Session).map(|(_, v)| v)
}

#[test]
fn ratchet_51_at_most_forty_archived_sessions_for_thirty_days() {
    let (mut alice, mut bob) = open_session(51);
    for _ in 0..45 {
        pass(&mut alice, &mut bob, 60_000);
        alice.begin_with(&mut bob);
    }
    let summary = alice.talk.summary().expect("a session");
    assert_eq!((summary.archived, alice.disk.count(Table::Session)), (40, 41));
    alice.reboot();

    // Thirty days after its last use an archived session goes, with its skipped keys.
    let (mut alice, mut bob) = open_session(151);
    let messages: Vec<_> = (0..3).map(|_| bob.send(b"x")).collect();
    alice.receive(&messages[2]).expect("the third");
    pass(&mut alice, &mut bob, DAY);
    alice.begin_with(&mut bob);
    assert_eq!((alice.disk.count(Table::Session), alice.disk.count(Table::Skipped)), (2, 2));
    let due = people::START.plus_ms(30 * DAY);
    let hour = Time::from_ms(due.as_ms() / Time::HOUR_MS * Time::HOUR_MS);
    assert_eq!(alice.talk.deadline(), Some(hour.min(due)));
    alice.now = due;
    alice.wake();
    assert_eq!((alice.disk.count(Table::Session), alice.disk.count(Table::Skipped)), (1, 0));
    assert_eq!(alice.talk.deadline(), None, "the active one stays");
}

/// Eight more sessions of Alice that Bob has opened, and in which he has an own key out; Alice's
/// answer in the oldest of them brings a new ratchet key.
fn many_sessions(seed: u64) -> (Person, Person, Vec<u8>) {
    let (mut alice, mut bob) = open_session(seed);
    let mut oldest = None;
    for i in 0..8_u8 {
        pass(&mut alice, &mut bob, 60_000);
        alice.begin_with(&mut bob);
        let first = alice.send(&[i]);
        bob.receive(&first).expect("a first message");
        let reply = bob.send(&[i]);
        let mut mirror = alice.stolen();
        mirror.receive(&reply).expect("a reply");
        let answer = mirror.send(b"answer");
        oldest.get_or_insert(answer);
    }
    (alice, bob, oldest.expect("an answer"))
}

#[test]
fn ratchet_52_a_message_costs_at_most_a_dh_for_each_session_and_25_000_steps() {
    let (mut alice, mut bob, oldest) = many_sessions(52);
    let mut forged = alice.send(b"x")[79..].to_vec();
    forged.splice(0..0, [0xf1, 1, 1, 1]);
    forged[4] ^= 1;
    // 5 x 5,000 and 8 x 3,000 steps are within the limit; 9 sessions wait for a new key.
    for (n, tries) in [(0_u32, 9), (2_777, 9), (3_000, 8), (5_000, 5), (5_001, 0), (1 << 23, 0)] {
        forged[36..39].copy_from_slice(&n.to_be_bytes()[1..]);
        let (opened, dhs) = counting_dhs(|| bob.receive(&forged));
        assert_eq!(dhs, tries, "index {n}");
        let error = if n > 5_000 { OpenError::TooFar(n) } else { OpenError::Forged };
        assert_eq!(opened, Err(error));
    }
    // A forged first message costs five, a true one in a known key none.
    alice.begin_with(&mut bob);
    let mut first = alice.send(b"x");
    *first.last_mut().expect("a byte") ^= 1;
    let (opened, dhs) = counting_dhs(|| bob.receive(&first));
    assert_eq!((opened, dhs), (Err(OpenError::Forged), 5));
    let (opened, dhs) = counting_dhs(|| bob.receive(&oldest));
    assert_eq!((opened, dhs), (Ok(b"answer".to_vec()), 8), "however deep its session lies");
    let (opened, dhs) = counting_dhs(|| bob.receive(&oldest));
    assert_eq!((opened, dhs), (Err(OpenError::Duplicate), 0));
}

#[test]
fn ratchet_53_simultaneous_initiation_comes_to_one_session() {
    let (mut alice, mut bob) = two_people(53);
    alice.begin_with(&mut bob);
    bob.begin_with(&mut alice);
    let a = alice.send(b"from alice");
    let b = bob.send(b"from bob");
    let a2 = alice.send(b"again alice");
    let b2 = bob.send(b"again bob");
    assert_eq!(alice.receive(&b), Ok(b"from bob".to_vec()));
    assert_eq!(bob.receive(&a), Ok(b"from alice".to_vec()));
    assert_eq!(bob.receive(&a2), Ok(b"again alice".to_vec()));
    assert_eq!(alice.receive(&b2), Ok(b"again bob".to_vec()));
    assert_ne!(alice.talk.active_id(), bob.talk.active_id(), "everything crossed");
    // One exchange that crosses nothing.
    let message = alice.send(b"now");
    assert_eq!(bob.receive(&message), Ok(b"now".to_vec()));
    assert_eq!(alice.talk.active_id(), bob.talk.active_id());
    let reply = bob.send(b"yes");
    assert_eq!(alice.receive(&reply), Ok(b"yes".to_vec()));
    assert_eq!(alice.talk.active_id(), bob.talk.active_id());
    assert!(alice.talk.is_open() && bob.talk.is_open());
}

#[test]
fn ratchet_56_rows_of_unknown_version_or_flags_are_refused() {
    let (mut alice, mut bob) = open_session(56);
    let _ = alice.send(b"one");
    let second = alice.send(b"two");
    bob.receive(&second).expect("two");
    let local = *bob.talk.local();
    let remote = *bob.talk.remote();
    for ((table, key), value) in &bob.disk.0 {
        let refused = |value: &[u8]| {
            let mut rows = bob.disk.records(|t| people::is_talk(t) == people::is_talk(*table));
            for row in rows.iter_mut().filter(|r| r.table == *table && r.key == key) {
                row.value = value;
            }
            if people::is_talk(*table) {
                Talk::load(local, remote, rows).is_err()
            } else {
                mezza_ratchet::Prekeys::load(bob.identity.duplicate(), rows).is_err()
            }
        };
        assert!(!refused(value));
        if *table != Table::Skipped {
            let mut version = value.clone();
            version[0] ^= 0x10;
            assert!(refused(&version), "{table:?}");
        }
        assert!(refused(&value[1..]) && refused(&[&value[..], &[0]].concat()), "{table:?}");
        if *table == Table::Session {
            for flag in [0x20, 0x80] {
                let mut flags = value.clone();
                flags[3] |= flag;
                assert!(refused(&flags), "flag {flag:02x}");
            }
        }
    }
    // A row of the wrong table is refused, not ignored.
    let spk = bob.disk.records(|table| table == Table::Spk);
    assert!(Talk::load(local, remote, spk).is_err());
    let row = StoredRow { table: Table::Skipped, key: &[0; 52], value: &[0; 36] };
    assert!(mezza_ratchet::Prekeys::load(bob.identity.duplicate(), [row]).is_err());
}

#[test]
fn ratchet_61_numbers_depend_on_the_identities_alone() {
    let a = identity(1).public_key();
    let b = identity(2).public_key();
    let c = identity(3).public_key();
    let number = safety::number(&a, &b);
    assert_eq!(number, safety::number(&b, &a));
    assert!(number.len() == 60 && number.bytes().all(|digit| digit.is_ascii_digit()));
    assert_ne!(number, safety::number(&a, &c));
    assert_ne!(number[..30], number[30..]);
    let code = safety::scannable_code(&a, &b);
    assert_eq!(code.len(), 76);
    assert!(safety::matches_code(&b, &a, &code));
    assert!(!safety::matches_code(&b, &c, &code) && !safety::matches_code(&a, &b, &code));
    assert!(!safety::matches_code(&b, &a, &code[..75]));
}
