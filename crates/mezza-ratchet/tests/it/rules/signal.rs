//! The rules where the suites of Signal differ from the container, and those that hold for all.

use mezza_core::{Suite, SuiteId};
use mezza_ratchet::suite::{B2c20, B2c20Pq, V3, V4, is_container};
use mezza_ratchet::{
    BundleError, OneTimePrekey, OpenError, Padding, SealError, SignalBundle, Table,
};

use crate::people::{
    DAY, SUITES, Server, counting_dhs, open_session_of, pass, two_people, two_people_of,
};

/// Every error that a network can cause, in every suite. `Person` compares the encoded state and
/// the disk before and after each.
#[test]
fn ratchet_20_an_error_changes_nothing_in_any_suite() {
    for suite in SUITES {
        let (mut alice, mut bob) = open_session_of(suite, 20);
        let messages: Vec<_> = (0..4).map(|_| alice.send(b"x")).collect();
        bob.receive(&messages[2]).expect("the third");
        let jump = if suite == V4::ID { 25_000 } else { 5_000 };
        let far = alice.stolen().send_many(jump + 4).pop().expect("the last");
        let (first, twice) = {
            let (mut carol, mut dave) = two_people_of(suite, 21);
            carol.begin_with(&mut dave);
            let first = carol.send(b"1");
            let twice = carol.send(b"2");
            dave.receive(&first).expect("a first message");
            assert_eq!(dave.receive(&first), Err(OpenError::Duplicate));
            dave.disk.0.retain(|(table, _), _| !crate::people::is_talk(*table));
            dave.reboot();
            assert!(matches!(dave.receive(&twice), Err(OpenError::ReusedBaseKey)), "{suite}");
            (first, twice)
        };
        let mut kinds = std::collections::BTreeSet::new();
        let mut refused = |message: &[u8]| {
            let error = bob.receive(message).expect_err("must be refused");
            kinds.insert(crate::vectors::outcome(&Err(error)));
            error
        };
        assert_eq!(refused(b""), OpenError::Malformed);
        assert_eq!(refused(&messages[2]), OpenError::Duplicate);
        assert_eq!(refused(&far), OpenError::TooFar(jump + 4 - 3 + 3));
        assert_eq!((refused(&first), refused(&twice)), (OpenError::Forged, OpenError::Forged));
        for at in 0..messages[0].len() {
            let mut forged = messages[0].clone();
            forged[at] ^= 0x40;
            refused(&forged);
        }
        assert!(kinds.len() >= 4, "{suite}: {kinds:?}");
        assert_eq!(bob.receive(&messages[0]), Ok(b"x".to_vec()), "what was refused still opens");
    }
}

#[test]
fn ratchet_18_first_messages_until_one_was_opened_in_any_suite() {
    for suite in SUITES {
        let (mut alice, mut bob) = two_people_of(suite, 18);
        alice.begin_with(&mut bob);
        let is_first = |message: &[u8]| mezza_ratchet::wire::first_identity(message).is_some();
        let messages: Vec<_> = (0..5).map(|_| alice.send(b"x")).collect();
        assert!(messages.iter().all(|message| is_first(message)) && alice.talk.is_pending());
        // RATCHET-13: a repeated first message goes to the session that it began.
        for message in [&messages[4], &messages[0]] {
            assert_eq!(bob.receive(message), Ok(b"x".to_vec()));
        }
        assert_eq!(bob.receive(&messages[0]), Err(OpenError::Duplicate));
        assert_eq!(bob.disk.count(Table::Session), 1);
        let reply = bob.send(b"y");
        assert!(!is_first(&reply));
        alice.receive(&reply).expect("a reply");
        assert!(!is_first(&alice.send(b"x")), "{suite}");
    }
}

/// Signal counts the last index of the previous chain, not its messages.
#[test]
fn ratchet_23_an_old_chain_of_signal_is_closed_behind_its_last_index() {
    for suite in [V3::ID, V4::ID] {
        let (mut alice, mut bob) = open_session_of(suite, 23);
        let old: Vec<_> = (0..6).map(|i| alice.send(&[i])).collect();
        bob.receive(&old[1]).expect("the second of the old chain");
        let reply = bob.send(b"y");
        alice.receive(&reply).expect("a reply");
        let new = alice.send(b"new");
        assert_eq!(new[36..40], [0x10, 0, 0x18, 5], "six messages, the last has index 5");
        bob.receive(&new).expect("the first of the new chain");
        assert_eq!(bob.disk.count(Table::Skipped), 5);
        for i in [0, 2, 3, 4, 5] {
            assert_eq!(bob.receive(&old[usize::from(i)]), Ok(vec![i]));
        }
    }
}

#[test]
fn ratchet_26_a_chain_of_signal_ends_at_32_bits() {
    let (mut alice, mut bob) = open_session_of(V3::ID, 26);
    let one = alice.send(b"one");
    bob.receive(&one).expect("one");
    let rows = alice.disk.0.iter_mut().filter(|((table, _), _)| *table == Table::Session);
    for (_, value) in rows {
        value[244..248].copy_from_slice(&(u32::MAX - 1).to_be_bytes());
    }
    alice.reboot();
    let last = alice.send(b"the last one");
    assert_eq!(bob.receive(&last), Err(OpenError::TooFar(u32::MAX - 2)));
    assert_eq!(alice.seal(b"x", &[], Padding::Blocks), Err(SealError::ChainEnd));
    let reply = bob.send(b"y");
    alice.receive(&reply).expect("a new turn");
    let next = alice.send(b"a new chain");
    assert_eq!(bob.receive(&next), Ok(b"a new chain".to_vec()));
    assert_eq!(bob.disk.count(Table::Skipped), 2_000);
}

#[test]
fn a_suite_of_signal_binds_no_outer_part_and_fills_no_cell() {
    for suite in [V3::ID, V4::ID] {
        let (mut alice, mut bob) = open_session_of(suite, 31);
        assert_eq!(alice.seal(b"x", b"o", Padding::Blocks), Err(SealError::OuterUnsupported));
        assert_eq!(alice.seal(b"x", &[], Padding::To(500)), Err(SealError::TooLong));
        let bytes = alice.talk.message_bytes(11);
        let message = alice.send(b"eleven byte");
        assert_eq!((Some(message.len()), message.len()), (bytes, 66));
        assert_eq!(bob.open(&message, b"o").err(), Some(OpenError::Forged));
        assert_eq!(bob.receive(&message), Ok(b"eleven byte".to_vec()));
    }
}

/// Devices of two suites: in whichever direction, the suite is named and no signature is blamed.
#[test]
fn ratchet_44_no_two_suites_blame_a_signature() {
    for ours in SUITES {
        for theirs in SUITES.into_iter().filter(|theirs| *theirs != ours) {
            let (mut alice, _) = two_people_of(ours, 44);
            let (mut carol, mut bob) = two_people_of(theirs, 44);
            carol.begin_with(&mut bob);
            let message = carol.send(b"x");
            let refused = alice.receive(&message);
            // A device of both container suites knows the older one, too.
            let expected = match (ours, theirs) {
                (B2c20Pq::ID, B2c20::ID) => OpenError::Forged,
                _ => OpenError::SuiteUnsupported(theirs),
            };
            assert_eq!(refused, Err(expected), "{ours} {theirs}");
            let plain = {
                bob.receive(&message).expect("x");
                bob.send(b"y")
            };
            let expected = match (ours, theirs) {
                (B2c20Pq::ID, B2c20::ID) => OpenError::NoSession,
                _ => OpenError::SuiteUnsupported(theirs),
            };
            assert_eq!(alice.receive(&plain), Err(expected), "{ours} {theirs}");
        }
    }
    // A bundle of the newer list for a device of the older one, and the other way round.
    let (alice, new) = two_people_of(B2c20Pq::ID, 45);
    let (_, old) = two_people_of(B2c20::ID, 45);
    let remote = alice.talk.remote();
    let server = |of: &crate::people::Person| Server { signal: None, ..of.server.clone() };
    assert!(server(&new).check(B2c20::ID, remote, alice.now).is_ok(), "the newer offers more");
    let refused = server(&old).check(B2c20Pq::ID, remote, alice.now).err();
    assert!(matches!(refused, Some(BundleError::SuiteDowngrade { .. })), "{refused:?}");
}

/// A conversation may hold sessions of several suites; a message goes to those of its own.
#[test]
fn ratchet_45_a_message_opens_in_sessions_of_its_suite_alone() {
    let (mut alice, mut bob) = two_people(45);
    let mut suites = vec![B2c20::ID];
    alice.begin_with(&mut bob);
    let mut late = vec![alice.send(b"b2c20")];
    for suite in [B2c20Pq::ID, V3::ID, V4::ID] {
        // Both devices begin to offer another suite, as after an update.
        for person in [&mut alice, &mut bob] {
            person.suite = suite;
            person.reboot();
        }
        alice.begin_with(&mut bob);
        late.push(alice.send(b"x"));
        suites.push(suite);
    }
    for message in &late {
        bob.receive(message).expect("a first message of its suite");
    }
    assert_eq!(bob.talk.summary().map(|s| (s.suite, s.archived)), Some((V4::ID, 3)));
    bob.reboot();
    let session = V4::ID;
    let mut other = late[0][..2].to_vec();
    other.extend([1, 9]);
    other.extend(&late[0][4..]);
    other[1] = 1;
    let refused = bob.receive(&other);
    let mismatch = OpenError::SuiteMismatch { session, message: SuiteId(0x0109) };
    assert_eq!(refused, Err(mismatch));
    assert_eq!(suites.iter().filter(|suite| is_container(**suite)).count(), 2);
}

/// Attacks on the path, in every suite: replays, reflection, forged keys.
#[test]
fn attacks_fail_in_every_suite() {
    for suite in SUITES {
        for with_one_time in [true, false] {
            let (mut alice, mut bob) = two_people_of(suite, 5);
            let one_time = if with_one_time { bob.server.one_time.pop() } else { None };
            alice.begin_without(&bob, one_time);
            let message = alice.send(b"x");
            assert_eq!(alice.receive(&message), Err(OpenError::Forged), "reflected");
            bob.receive(&message).expect("x");
            for _ in 0..4 {
                pass(&mut alice, &mut bob, 7 * DAY);
                bob.reboot();
                assert_eq!(bob.receive(&message), Err(OpenError::Duplicate));
            }
            // The same one-time key again.
            alice.begin_without(&bob, one_time);
            let again = alice.send(b"y");
            let refused = bob.receive(&again);
            match one_time {
                Some(key) => assert_eq!(refused, Err(OpenError::UnknownPrekey(key.id))),
                None => assert_eq!(refused, Ok(b"y".to_vec())),
            }
        }
        // The server swaps the prekey for another person's.
        let (alice, bob) = two_people_of(suite, 6);
        let (_, carol) = two_people_of(suite, 7);
        let remote = alice.talk.remote();
        let swapped = carol.server.check(suite, remote, alice.now).err();
        assert_eq!(swapped, Some(BundleError::BadSignature), "{suite}");
        if let Some(signal) = &bob.server.signal {
            let mut signal = signal.clone();
            signal.spk = *carol.identity.public_key().public_key();
            assert!(matches!(signal.check(suite, remote, 1), Err(BundleError::BadSignature)));
        }
        flood(suite);
    }
}

/// A server that leaves out the KEM key gets no session without it, and the fault has its own name.
#[test]
fn ratchet_72_the_kem_key_cannot_be_left_out_of_a_bundle() {
    let (alice, bob) = two_people_of(V4::ID, 72);
    let remote = alice.talk.remote();
    let whole = bob.server.signal.clone().expect("a bundle of Signal");
    let mut stripped = SignalBundle { kem: None, ..whole.clone() };
    let suite = |bundle: &SignalBundle, ours| bundle.check(ours, remote, 1).map(|c| c.suite());
    assert_eq!(suite(&whole, V4::ID), Ok(V4::ID));
    assert_eq!(suite(&stripped, V4::ID), Err(BundleError::NoKem));
    // The suite is that of the device, whatever more there is in the bundle.
    assert_eq!((suite(&whole, V3::ID), suite(&stripped, V3::ID)), (Ok(V3::ID), Ok(V3::ID)));
    assert_eq!(suite(&whole, B2c20Pq::ID), Err(BundleError::Malformed));
    // What is missing is said before a signature is blamed.
    stripped.signature[0] ^= 1;
    assert_eq!(suite(&stripped, V4::ID), Err(BundleError::NoKem));
    assert_eq!(suite(&stripped, V3::ID), Err(BundleError::BadSignature));
}

/// The types of other libraries allow every id of 32 bits, ours only those of 24.
#[test]
fn ratchet_73_one_time_ids_are_taken_or_refused_by_name() {
    for suite in SUITES {
        let (mut alice, mut bob) = two_people_of(suite, 73);
        let key = bob.server.one_time[0].key;
        for id in [0, 1, 16_777_214, 16_777_215, 1 << 31, u32::MAX] {
            let checked = bob.server.check(suite, alice.talk.remote(), alice.now);
            let begun =
                alice.initiate(checked.expect("a good bundle"), Some(OneTimePrekey { id, key }));
            if id == 0 || (is_container(suite) && id > 16_777_214) {
                assert_eq!(begun.map(|_| ()), Err(BundleError::BadId(id)), "{suite}");
                continue;
            }
            begun.expect("an id that the suite allows");
            let message = alice.send(b"x");
            assert_eq!(bob.receive(&message), Err(OpenError::UnknownPrekey(id)), "{suite}");
        }
    }
}

/// 10,000 forgeries, half of them under a known ratchet key: each costs at most two DHs here, and
/// the true message still opens.
fn flood(suite: SuiteId) {
    let (mut alice, mut bob) = open_session_of(suite, 9);
    let _ = alice.send(b"one");
    let second = alice.send(b"two");
    bob.receive(&second).expect("two");
    bob.send(b"an own key is out");
    let good = alice.send(b"three");
    let before = bob.talk.encode();
    let key_at = if is_container(suite) { 4 } else { 4 + 10 };
    let (opened, dhs) = counting_dhs(|| {
        (0..10_000_u32)
            .filter(|i| {
                let mut forged = good.clone();
                if i % 2 == 0 {
                    *forged.last_mut().expect("a byte") ^= 1 + (i % 200) as u8;
                } else {
                    forged[key_at..key_at + 4].copy_from_slice(&i.to_be_bytes());
                }
                let own = &bob.identity;
                let now = bob.now;
                bob.talk.open(&forged, &[], own, &mut bob.prekeys, now).is_ok()
            })
            .count()
    });
    assert_eq!(opened, 0);
    assert!(dhs <= 5_000, "{dhs}");
    assert!(before == bob.talk.encode());
    assert_eq!(bob.receive(&good), Ok(b"three".to_vec()));
}
