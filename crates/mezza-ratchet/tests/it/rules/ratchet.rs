//! The ratchet, RATCHET-20 to 26.

use mezza_ratchet::{OpenError, Padding, SealError, Table};

use crate::people::{DAY, Person, counting_dhs, open_session, pass, two_people};

/// Every error of `seal` and `open`, each from a state with sessions, skipped keys and prekeys.
#[test]
fn ratchet_20_an_error_changes_nothing() {
    let (mut alice, mut bob) = open_session(20);
    let messages: Vec<_> = (0..4).map(|_| alice.send(b"x")).collect();
    bob.receive(&messages[2]).expect("the third");
    let far = {
        let mut ahead = alice.stolen();
        ahead.send_many(5_004).pop().expect("the last")
    };
    let mut refused: Vec<(Vec<u8>, OpenError)> = vec![
        (b"".to_vec(), OpenError::Malformed),
        (messages[2].clone(), OpenError::Duplicate),
        (far, OpenError::TooFar(5_004)),
    ];
    for at in 0..messages[0].len() {
        let mut forged = messages[0].clone();
        forged[at] ^= 0x40;
        refused.push((forged, OpenError::Forged));
    }
    let mut kinds = std::collections::BTreeSet::new();
    for (message, expected) in refused {
        // `receive` compares the encoded state and tables before and after each error.
        let disk = bob.disk.clone();
        let error = bob.receive(&message).expect_err("must be refused");
        kinds.insert(crate::vectors::outcome(&Err(error)));
        if expected != OpenError::Forged {
            assert_eq!(error, expected);
        }
        assert!(disk == bob.disk);
    }
    assert!(kinds.len() >= 5, "{kinds:?}");
    // What was refused in between still opens.
    assert_eq!(bob.receive(&messages[0]), Ok(b"x".to_vec()));

    let long = vec![0; mezza_ratchet::wire::BODY_BYTES_MAX + 1];
    assert_eq!(bob.seal(&long, &[], Padding::Blocks), Err(SealError::TooLong));
    assert_eq!(bob.seal(b"x", &[0; 65], Padding::Blocks), Err(SealError::TooLong));
    assert_eq!(bob.seal(b"x", &[], Padding::To(75)), Err(SealError::TooLong));
    let (mut carol, _) = two_people(21);
    assert_eq!(carol.seal(b"x", &[], Padding::Blocks), Err(SealError::NoSession));
}

#[test]
fn ratchet_21_errors_tell_nothing_that_depends_on_a_secret() {
    let (mut alice, mut bob) = open_session(21);
    let messages: Vec<_> = (0..3).map(|_| alice.send(b"x")).collect();
    bob.receive(&messages[1]).expect("the second");
    let with_n = |n: u32| {
        let mut message = messages[2].clone();
        message[36..39].copy_from_slice(&n.to_be_bytes()[1..]);
        message
    };
    // The index alone decides, for forged bytes too, and no key is touched for it.
    assert_eq!(bob.receive(&with_n(1)), Err(OpenError::Duplicate));
    assert_eq!(bob.receive(&with_n(2 + 5_001)), Err(OpenError::TooFar(5_001)));
    // All else is one error: a wrong tag, a wrong key, a message to somebody else.
    let mut tag = messages[2].clone();
    *tag.last_mut().expect("a byte") ^= 1;
    let (mut carol, _) = open_session(1_021);
    let stranger = carol.send(b"x");
    let mut key = messages[2].clone();
    key[4] ^= 1;
    for forged in [with_n(0), with_n(2 + 5_000), tag, stranger, key] {
        assert_eq!(bob.receive(&forged), Err(OpenError::Forged));
    }
    assert_eq!(bob.receive(&messages[2]), Ok(b"x".to_vec()));
}

#[test]
fn ratchet_22_a_new_key_without_an_own_one_costs_no_dh() {
    let (mut alice, mut bob) = open_session(22);
    // Alice opened Bob's reply and sent nothing since: she has no own key out.
    let reply = bob.send(b"more");
    let mut forged = reply.clone();
    forged[4] ^= 1;
    let (opened, dhs) = counting_dhs(|| alice.receive(&forged));
    assert_eq!((opened, dhs), (Err(OpenError::Forged), 0));
    // With one out, the same message costs one.
    alice.send(b"x");
    let (opened, dhs) = counting_dhs(|| alice.receive(&forged));
    assert_eq!((opened, dhs), (Err(OpenError::Forged), 1));
    assert_eq!(alice.receive(&reply), Ok(b"more".to_vec()));
}

#[test]
fn ratchet_23_an_old_chain_is_closed_at_the_announced_count() {
    let (mut alice, mut bob) = open_session(23);
    let old: Vec<_> = (0..6).map(|i| alice.send(&[i])).collect();
    bob.receive(&old[1]).expect("the second of the old chain");
    let chain_key = session_key(&bob, 252);
    let reply = bob.send(b"y");
    alice.receive(&reply).expect("a reply");
    let new = alice.send(b"new");
    assert_eq!(new[39..42], [0, 0, 6], "the header announces six messages");
    bob.receive(&new).expect("the first of the new chain");
    assert_eq!(bob.disk.count(Table::Skipped), 5);
    assert!(!bob.disk.holds(&chain_key, |_| true), "the chain key is gone");
    // A thief of Bob's state reads what was announced, and nothing that the old chain would have
    // given beyond.
    for i in [0, 2, 3, 4, 5] {
        assert_eq!(bob.receive(&old[usize::from(i)]), Ok(vec![i]));
    }
    assert_eq!(bob.disk.count(Table::Skipped), 0);
}

fn session_key(person: &Person, offset: usize) -> Vec<u8> {
    let rows = person.disk.0.iter().filter(|((table, _), _)| *table == Table::Session);
    rows.map(|(_, value)| value[offset..offset + 32].to_vec()).next().expect("a session")
}

#[test]
fn ratchet_24_a_skipped_key_opens_one_message_and_ends_after_thirty_days() {
    let (mut alice, mut bob) = open_session(24);
    let late = alice.send(b"late");
    let very_late = alice.send(b"very late");
    for turn in 0..50_u8 {
        let there = alice.send(&[turn]);
        assert_eq!(bob.receive(&there), Ok(vec![turn]));
        let back = bob.send(&[turn]);
        assert_eq!(alice.receive(&back), Ok(vec![turn]));
    }
    pass(&mut alice, &mut bob, 30 * DAY - 3_600_001);
    bob.reboot();
    assert_eq!(bob.receive(&late), Ok(b"late".to_vec()), "fifty turns and 29 days later");
    assert!(bob.receive(&late).is_err(), "once");
    assert_eq!(bob.disk.count(Table::Skipped), 1);
    let due = bob.talk.deadline().expect("a timer");
    assert!(due.as_ms() > bob.now.as_ms() && due.as_ms() <= bob.now.as_ms() + 3_600_001);
    // Too old: not used even before the sweep, and wiped by it.
    bob.now = due;
    assert_eq!(bob.receive(&very_late), Err(OpenError::Forged));
    assert_eq!(bob.disk.count(Table::Skipped), 1);
    bob.wake();
    assert_eq!((bob.disk.count(Table::Skipped), bob.talk.deadline()), (0, None));
}

#[test]
fn ratchet_25_at_most_two_thousand_skipped_keys_the_newest() {
    let (mut alice, mut bob) = open_session(25);
    let messages = alice.send_many(5_001);
    let newest = messages.last().expect("the last");
    assert_eq!(bob.receive(newest), Ok(5_000_u32.to_be_bytes().to_vec()));
    assert_eq!(bob.disk.count(Table::Skipped), 2_000);
    assert_eq!(bob.receive(&messages[2_999]), Err(OpenError::Duplicate), "too old to be kept");
    assert_eq!(bob.receive(&messages[3_000]), Ok(3_000_u32.to_be_bytes().to_vec()));
    assert_eq!(bob.receive(&messages[4_999]), Ok(4_999_u32.to_be_bytes().to_vec()));

    // The limit holds over several chains; the oldest go first.
    let reply = bob.send(b"y");
    alice.receive(&reply).expect("a reply");
    let more = alice.send_many(103);
    bob.receive(&more[102]).expect("the last");
    assert_eq!(bob.disk.count(Table::Skipped), 2_000);
    assert!(bob.receive(&messages[3_001 + 99]).is_err(), "100 of the old ones are gone");
    assert!(bob.receive(&messages[3_001 + 100]).is_ok());
    assert!(more[..102].iter().step_by(20).all(|message| bob.receive(message).is_ok()));
}

#[test]
fn ratchet_26_a_chain_ends_before_its_counter_wraps() {
    let last = (1_u32 << 24) - 1;
    let (mut alice, mut bob) = open_session(26);
    let one = alice.send(b"one");
    bob.receive(&one).expect("one");
    // Alice stands shortly before the end: the counter of the stored form is moved, as 16.7
    // million messages would.
    for value in alice.disk.0.iter_mut().filter(|((t, _), _)| *t == Table::Session).map(|r| r.1) {
        value[244..248].copy_from_slice(&(last - 1).to_be_bytes());
    }
    alice.reboot();
    let end = alice.send(b"the last one");
    assert_eq!(end[36..39], [0xff, 0xff, 0xfe]);
    assert_eq!(bob.receive(&end), Err(OpenError::TooFar(last - 2)));
    for _ in 0..2 {
        assert_eq!(alice.seal(b"x", &[], Padding::Blocks), Err(SealError::ChainEnd));
    }
    // A message of the other side begins a new chain; the count of the old one fits its field.
    let reply = bob.send(b"y");
    alice.receive(&reply).expect("a new turn");
    let next = alice.send(b"a new chain");
    assert_eq!(next[36..42], [0, 0, 0, 0xff, 0xff, 0xff]);
    // Bob closes the old chain as far as he may.
    assert_eq!(bob.receive(&next), Ok(b"a new chain".to_vec()));
    assert_eq!(bob.disk.count(Table::Skipped), 2_000);
}
