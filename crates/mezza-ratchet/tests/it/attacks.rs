//! Attacks that must fail: a server, a network, a stranger.

use mezza_core::SuiteId;
use mezza_ratchet::{Bundle, BundleError, OpenError, SuiteList, Table};

use crate::people::{DAY, START, counting_dhs, identity, open_session, pass, two_people};

#[test]
fn the_server_swaps_the_prekey() {
    let (mut alice, mut bob) = two_people(1);
    let (_, carol) = two_people(99);
    // Another person's bundle; Bob's with another key; with another id; with a later end.
    let good = bob.server.bundle.clone();
    let swapped = [&good[..13], &carol.server.bundle[13..45], &good[45..]].concat();
    let renumbered = [&good[..9], &carol.server.bundle[9..13], &good[13..]].concat();
    let prolonged = [&good[..45], &u32::MAX.to_be_bytes(), &good[49..]].concat();
    for bundle in [carol.server.bundle.clone(), swapped, renumbered, prolonged] {
        assert_eq!(alice.begin(&bundle, None).map(|_| ()), Err(BundleError::BadSignature));
    }
    // A one-time key of its own gives a session that Bob does not know.
    let mut one_time = bob.server.one_time[0];
    one_time.key = *carol.identity.public_key().public_key();
    alice.begin(&good, Some(one_time)).expect("unsigned");
    let message = alice.send(b"x");
    assert_eq!(bob.receive(&message), Err(OpenError::Forged));
}

#[test]
fn the_server_replays_an_old_bundle() {
    let (mut alice, mut bob) = two_people(2);
    let old = bob.server.bundle.clone();
    pass(&mut alice, &mut bob, 15 * DAY + 60_000);
    bob.wake();
    assert_eq!(alice.begin(&old, None).map(|_| ()), Err(BundleError::Expired));
    let new = bob.server.bundle.clone();
    assert!(alice.begin(&new, None).is_ok());
}

#[test]
fn the_server_gives_one_key_twice() {
    let (mut alice, mut bob) = two_people(3);
    let bundle = bob.server.bundle.clone();
    let one_time = bob.server.one_time[0];
    alice.begin(&bundle, Some(one_time)).expect("a session");
    let one = alice.send(b"one");
    alice.begin(&bundle, Some(one_time)).expect("a session");
    let two = alice.send(b"two");
    assert_eq!(bob.receive(&one), Ok(b"one".to_vec()));
    assert_eq!(bob.receive(&two), Err(OpenError::UnknownPrekey(one_time.id)));
}

#[test]
fn the_server_strips_or_adds_a_suite() {
    let (alice, bob) = two_people(4);
    let good = bob.server.bundle.clone();
    let check = |list: &[u8], floor: &SuiteList| {
        let bundle = [&[1], list, &good[4..]].concat();
        let decoded = Bundle::decode(&bundle)?;
        decoded.check_with(&SuiteList::without_kem(), alice.talk.remote(), floor, START).map(|_| ())
    };
    let ours = SuiteList::without_kem();
    let both = SuiteList::new(&[SuiteId(0x0102), SuiteId(0x0101)]).expect("a list");
    assert_eq!(check(&[1, 1, 1], &ours), Ok(()));
    assert_eq!(check(&[2, 1, 2, 1, 1], &ours), Err(BundleError::BadSignature), "added");
    let downgrade = BundleError::SuiteDowngrade { offered: ours, pinned: both };
    assert_eq!(check(&[1, 1, 1], &both), Err(downgrade), "stripped");
    assert_eq!(check(&[2, 1, 1, 0, 3], &ours), Err(BundleError::Malformed), "signal-v3");
}

#[test]
fn a_first_message_is_replayed() {
    for with_one_time in [true, false] {
        let (mut alice, mut bob) = two_people(5);
        let one_time = if with_one_time { bob.server.one_time.pop() } else { None };
        alice.begin(&bob.server.bundle.clone(), one_time).expect("a session");
        let message = alice.send(b"x");
        bob.receive(&message).expect("x");
        assert_eq!(bob.receive(&message), Err(OpenError::Duplicate));
        // After a rotation, after a restart, and after its session is forgotten.
        for _ in 0..4 {
            pass(&mut alice, &mut bob, 7 * DAY);
            bob.reboot();
            assert_eq!(bob.receive(&message), Err(OpenError::Duplicate));
        }
        bob.disk.0.retain(|(table, _), _| !crate::people::is_talk(*table));
        bob.reboot();
        let refused = bob.receive(&message);
        assert_eq!(refused, Err(OpenError::ReusedBaseKey));
    }
}

#[test]
fn a_message_is_reflected_or_given_to_somebody_else() {
    let (mut alice, mut bob) = two_people(6);
    alice.begin_with(&mut bob);
    let first = alice.send(b"x");
    assert_eq!(alice.receive(&first), Err(OpenError::Forged));
    bob.receive(&first).expect("x");
    let reply = bob.send(b"y");
    assert_eq!(bob.receive(&reply), Err(OpenError::Forged));
    let (mut carol, mut dave) = open_session(7);
    carol.send(b"x");
    for person in [&mut carol, &mut dave] {
        assert_eq!(person.receive(&reply), Err(OpenError::Forged));
        assert_eq!(person.receive(&first), Err(OpenError::Forged));
    }
    assert_eq!(alice.receive(&reply), Ok(b"y".to_vec()));
}

#[test]
fn the_identity_in_the_prefix_is_swapped() {
    let (mut alice, mut bob) = two_people(8);
    alice.begin_with(&mut bob);
    let message = alice.send(b"x");
    // Bob takes it for a message of Mallory, who has put her own identity in.
    let mallory = identity(666);
    let swapped = [&message[..4], mallory.public_key().as_bytes(), &message[36..]].concat();
    let mut bobs = bob.stolen();
    bobs.talk = crate::people::Talk::new(bob.identity.public_key(), mallory.public_key());
    assert_eq!(bobs.receive(&swapped), Err(OpenError::Forged));
    assert_eq!(bob.receive(&swapped), Err(OpenError::Forged));
    assert_eq!(bob.receive(&message), Ok(b"x".to_vec()));
}

/// Forgeries under a known ratchet key and under new ones: nothing changes, and each costs at most
/// five DHs.
#[test]
fn a_flood_of_forgeries() {
    let (mut alice, mut bob) = open_session(9);
    let _ = alice.send(b"one");
    let second = alice.send(b"two");
    bob.receive(&second).expect("two");
    let good = alice.send(b"three");
    let rows = bob.disk.clone();
    let before = bob.talk.encode();
    for i in 0..500_u32 {
        let mut forged = good.clone();
        if i % 2 == 0 {
            forged[36..39].copy_from_slice(&(2 * i).to_be_bytes()[1..]);
            forged[60] ^= 1;
        } else {
            forged[4..8].copy_from_slice(&i.to_be_bytes());
        }
        let own = &bob.identity;
        let now = bob.now;
        let (opened, dhs) =
            counting_dhs(|| bob.talk.open(&forged, &[], own, &mut bob.prekeys, now).map(|_| ()));
        assert!(opened.is_err() && dhs <= 5);
    }
    assert!(before == bob.talk.encode() && rows == bob.disk);
    assert_eq!(bob.disk.count(Table::Skipped), 1);
    assert_eq!(bob.receive(&good), Ok(b"three".to_vec()));
}
