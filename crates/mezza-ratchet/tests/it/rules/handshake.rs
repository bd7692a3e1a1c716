//! The handshake, RATCHET-10 to 18.

use curve25519_dalek::MontgomeryPoint;
use curve25519_dalek::constants::EIGHT_TORSION;
use mezza_core::{Machine, Suite, SuiteId, Time};
use mezza_ratchet::suite::{B2c20, B2c20Pq, is_container};
use mezza_ratchet::{Bundle, BundleError, OpenError, Padding, SuiteList, Table};

use crate::people::{
    DAY, START, STOCK, SUITES, counting_dhs, open_session, pass, two_people, two_people_of,
};

fn list(ids: &[u16]) -> SuiteList {
    let ids: Vec<SuiteId> = ids.iter().copied().map(SuiteId).collect();
    SuiteList::new(&ids).expect("a list")
}

#[test]
fn ratchet_10_suites_are_checked_before_the_signature() {
    let (alice, bob) = two_people(10);
    let mut forged = bob.server.bundle.clone();
    *forged.last_mut().expect("a byte") ^= 1;
    let check = |floor: &SuiteList| {
        let bundle = Bundle::decode(&forged).expect("a bundle");
        bundle.check_with(&SuiteList::without_kem(), alice.talk.remote(), floor, START).map(|_| ())
    };
    assert_eq!(check(&SuiteList::without_kem()), Err(BundleError::BadSignature));
    let floor = list(&[0x0102, 0x0101]);
    let downgrade =
        BundleError::SuiteDowngrade { offered: SuiteList::without_kem(), pinned: floor };
    assert_eq!(check(&floor), Err(downgrade));

    // The same on the responder's side: a list that gives another choice is refused before any
    // DH, whatever the rest of the message says.
    let (mut alice, mut bob) = two_people(10);
    alice.begin_with(&mut bob);
    let mut message = alice.send(b"x");
    message[78] = 0x02;
    let (opened, dhs) = counting_dhs(|| bob.receive(&message));
    assert_eq!((opened, dhs), (Err(OpenError::SuiteDowngrade), 0));
}

/// Card, list and signatures are genuine; the server leaves out the entry of the better suite.
#[test]
fn ratchet_10_a_missing_entry_of_the_best_suite_is_a_downgrade() {
    let (mut alice, bob) = two_people_of(B2c20Pq::ID, 10);
    let good = &bob.server.bundle;
    let list_end = 1 + SuiteList::our_suites().encode().len();
    let best_bytes = usize::from(u16::from_be_bytes([good[list_end + 3], good[list_end + 4]]));
    let other = &good[list_end + 5 + best_bytes..];
    assert_eq!(other[..2], B2c20::ID.0.to_be_bytes(), "what is left is the entry of 0x0101");
    let stripped = [&good[..list_end], &[1], other].concat();
    let ours = SuiteList::our_suites();
    let downgrade = BundleError::SuiteDowngrade { offered: ours, pinned: ours };
    assert_eq!(alice.begin(&stripped, None).map(|_| ()), Err(downgrade));
    assert!(alice.begin(good, None).is_ok());
}

#[test]
fn ratchet_11_no_session_from_an_expired_or_forged_bundle() {
    let (alice, bob) = two_people(11);
    let not_after = bob.prekeys.current_not_after().expect("a bundle");
    assert_eq!(not_after, Time::from_ms(START.as_ms() / 60_000 * 60_000 + 14 * DAY));
    let check = |bytes: &[u8], now| {
        let bundle = Bundle::decode(bytes).expect("a bundle");
        bundle
            .check_with(
                &SuiteList::without_kem(),
                alice.talk.remote(),
                &SuiteList::without_kem(),
                now,
            )
            .map(|checked| assert_eq!(checked.not_after(), not_after))
    };
    let good = bob.server.bundle.clone();
    assert_eq!(check(&good, not_after.plus_ms(DAY)), Ok(()));
    assert_eq!(check(&good, not_after.plus_ms(DAY + 1)), Err(BundleError::Expired));
    for at in [9, 12, 13, 44, 45, 48, 49, 112] {
        let mut bytes = good.clone();
        bytes[at] ^= 1;
        let refused = check(&bytes, START);
        assert!(
            matches!(refused, Err(BundleError::BadSignature | BundleError::Expired)),
            "byte {at}: {refused:?}"
        );
    }
    let other = Bundle::decode(&good).expect("a bundle");
    let refused = other
        .check_with(
            &SuiteList::without_kem(),
            &bob.talk.remote().to_owned(),
            &SuiteList::without_kem(),
            START,
        )
        .map(|_| ());
    assert_eq!(refused, Err(BundleError::BadSignature), "signed by another identity");
}

#[test]
fn ratchet_12_the_handshake_changes_everything_together_after_the_message_opened() {
    let (mut alice, mut bob) = two_people(12);
    alice.begin_with(&mut bob);
    let message = alice.send(b"hello");
    let mut forged = message.clone();
    *forged.last_mut().expect("a byte") ^= 1;
    let before = bob.disk.clone();
    // `receive` compares the encoded states; the one-time key is still there afterwards.
    assert_eq!(bob.receive(&forged), Err(OpenError::Forged));
    assert!(before == bob.disk);

    let opened = bob.open(&message, &[]).expect("a first message");
    assert!(opened.first && opened.exporter.is_some());
    assert_eq!(bob.disk.count(Table::Opk), before.count(Table::Opk) - 1);
    assert_eq!((before.count(Table::Seen), bob.disk.count(Table::Seen)), (0, 1));
    assert_eq!(bob.disk.count(Table::Session), 1);

    // A second handshake archives the first session in the same set of changes.
    alice.begin_with(&mut bob);
    let again = alice.send(b"again");
    bob.receive(&again).expect("a second session");
    assert_eq!(bob.disk.count(Table::Session), 2);
    assert_eq!(bob.talk.summary().expect("a session").archived, 1);
}

#[test]
fn ratchet_13_a_repeated_first_message_goes_to_its_session() {
    let (mut alice, mut bob) = two_people(13);
    alice.begin_with(&mut bob);
    let one = alice.send(b"one");
    let two = alice.send(b"two");
    bob.receive(&one).expect("one");
    let id = bob.talk.active_id();
    assert_eq!(bob.receive(&one), Err(OpenError::Duplicate));
    let opened = bob.open(&two, &[]).expect("two");
    assert_eq!((Some(opened.session), opened.first), (id, false));
    assert!(opened.exporter.is_none());
    assert_eq!(bob.disk.count(Table::Session), 1);
    // Also after a restart, and when that session is archived.
    let three = alice.send(b"three");
    bob.reboot();
    bob.begin_with(&mut alice);
    assert_eq!(bob.receive(&three), Ok(b"three".to_vec()));
    assert_eq!(bob.talk.active_id(), id);
}

#[test]
fn ratchet_14_a_base_key_is_used_once_under_its_prekey() {
    for with_one_time in [false, true] {
        let (mut alice, mut bob) = two_people(14);
        let one_time = if with_one_time { bob.server.one_time.pop() } else { None };
        let _ = alice.begin(&bob.server.bundle.clone(), one_time).expect("a session");
        let message = alice.send(b"hello");
        bob.receive(&message).expect("hello");
        // Bob loses his sessions (a vault from a backup has none) and keeps his prekeys.
        bob.disk.0.retain(|(table, _), _| !crate::people::is_talk(*table));
        bob.reboot();
        assert_eq!(bob.receive(&message), Err(OpenError::ReusedBaseKey));
        // As long as the prekey lives; then the prekey is unknown.
        for days in [6, 8, 8, 7] {
            pass(&mut alice, &mut bob, days * DAY);
            bob.wake();
            assert_eq!(bob.receive(&message), Err(OpenError::ReusedBaseKey), "{days}");
        }
        pass(&mut alice, &mut bob, 2 * DAY);
        bob.wake();
        let refused = bob.receive(&message);
        assert!(matches!(refused, Err(OpenError::UnknownPrekey(_))), "{refused:?}");
        assert_eq!(bob.disk.count(Table::Seen), 0, "wiped with the prekey");
    }
}

#[test]
fn ratchet_15_the_responder_recomputes_the_choice() {
    let (mut alice, mut bob) = two_people(15);
    alice.begin_with(&mut bob);
    let message = alice.send(b"x");
    let with_list = |list: SuiteList| [&message[..76], &list.encode(), &message[79..]].concat();
    let cases = [
        (list(&[0x0102]), Err(OpenError::SuiteDowngrade)),
        (list(&[0x01ff, 0x0102]), Err(OpenError::SuiteDowngrade)),
        // The choice is the same, but the list is bound into the keys.
        (list(&[0x0102, 0x0101]), Err(OpenError::Forged)),
        (SuiteList::without_kem(), Ok(b"x".to_vec())),
    ];
    for (list, expected) in cases {
        assert_eq!(bob.receive(&with_list(list)), expected, "{list}");
    }
}

/// Both devices list 0x0102; the first message comes in 0x0101 all the same.
#[test]
fn ratchet_15_a_lower_suite_than_both_list_is_a_downgrade() {
    let (mut alice, mut bob) = two_people_of(B2c20Pq::ID, 15);
    alice.begin_small(&bob).expect("a session in 0x0101");
    let message = alice.send(b"x");
    let both = [&message[..76], &SuiteList::our_suites().encode(), &message[79..]].concat();
    let (opened, dhs) = counting_dhs(|| bob.receive(&both));
    assert_eq!((opened, dhs), (Err(OpenError::SuiteDowngrade), 0));
    assert_eq!(bob.receive(&message), Ok(b"x".to_vec()), "who offers 0x0101 alone is served");
}

#[test]
fn ratchet_16_private_parts_are_gone_after_thirty_days() {
    let (mut alice, mut bob) = two_people(16);
    let made = START.as_ms() / 60_000 * 60_000;
    let scalar = bob.prekeys.signed_prekeys().next().expect("a key").2.scalar().duplicate();
    let is_prekey = |table| matches!(table, Table::Spk | Table::Opk);
    let first_opks = bob.server.one_time.clone();
    alice.begin_with(&mut bob);
    let late = alice.send(b"late");

    // Whoever follows the deadlines never holds a key longer.
    while bob.now < Time::from_ms(made + 30 * DAY - 1) {
        let next = bob.prekeys.deadline().expect("a timer");
        bob.now = next.max(bob.now).min(Time::from_ms(made + 30 * DAY - 1));
        bob.wake();
        assert!(bob.disk.count(Table::Spk) <= 5);
    }
    assert!(bob.disk.holds(scalar.expose(), is_prekey));
    assert_eq!(bob.prekeys.deadline(), Some(Time::from_ms(made + 30 * DAY)));
    bob.now = Time::from_ms(made + 30 * DAY);
    bob.wake();
    assert!(!bob.disk.holds(scalar.expose(), is_prekey));
    let kept = bob.disk.0.keys().filter(|(t, _)| *t == Table::Opk);
    let kept: Vec<u32> = kept.map(|(_, key)| id(key)).collect();
    assert!(first_opks.iter().all(|old| !kept.contains(&old.id)));
    assert!(matches!(bob.receive(&late), Err(OpenError::UnknownPrekey(_))));
}

fn id(key: &[u8]) -> u32 {
    u32::from_be_bytes(key.try_into().expect("4 bytes"))
}

/// A device that was off for months wipes at its first wake, before it opens anything.
#[test]
fn ratchet_16_also_when_the_device_was_off() {
    let (_, mut bob) = two_people(16);
    let old: Vec<u32> = bob.prekeys.signed_prekeys().map(|(_, id, _)| id).collect();
    bob.now = START.plus_ms(90 * DAY);
    bob.reboot();
    assert!(bob.prekeys.signed_prekeys().all(|(_, id, _)| !old.contains(&id)));
    assert_eq!((bob.disk.count(Table::Spk), bob.disk.count(Table::Opk)), (1, STOCK));
}

/// Between the end of a prekey and the wake that wipes it, first messages find it gone.
#[test]
fn ratchet_16_a_late_wake_opens_nothing_with_an_expired_signed_prekey() {
    let (mut alice, mut bob) = two_people(16);
    let (_, _, wiped) = bob.prekeys.signed_prekey_lifetimes().next().expect("a key");
    let spk_id = bob.prekeys.signed_prekeys().next().expect("a key").1;
    alice.begin_without(&bob, None);
    let late = alice.send(b"late");
    bob.now = wiped.minus_ms(1);
    assert_eq!(bob.stolen().receive(&late), Ok(b"late".to_vec()));
    bob.now = wiped;
    assert_eq!(bob.receive(&late), Err(OpenError::UnknownPrekey(spk_id)));
}

#[test]
fn ratchet_16_a_late_wake_opens_nothing_with_an_expired_one_time_key() {
    let (mut alice, mut bob) = two_people(16);
    let old = bob.server.one_time[0];
    let (_, _, wiped) = bob.prekeys.signed_prekey_lifetimes().next().expect("a key");
    pass(&mut alice, &mut bob, 8 * DAY);
    bob.wake();
    // A server that keeps the old stock beside the new bundle.
    alice.begin_without(&bob, Some(old));
    let late = alice.send(b"late");
    bob.now = wiped.minus_ms(1);
    assert_eq!(bob.stolen().receive(&late), Ok(b"late".to_vec()));
    bob.now = wiped;
    assert_eq!(bob.receive(&late), Err(OpenError::UnknownPrekey(old.id)));
}

#[test]
fn ratchet_17_a_bundle_without_one_time_key_works() {
    let (mut alice, mut bob) = two_people(17);
    let ours = alice.begin(&bob.server.bundle.clone(), None).expect("a session");
    let message = alice.send(b"hello");
    assert_eq!(message[72..76], [0; 4]);
    let opened = bob.open(&message, &[]).expect("a first message");
    assert_eq!(opened.body.as_slice(), b"hello");
    let theirs = opened.exporter.expect("the exporter of a first message");
    let label = ["mezza mix root", "another"];
    let ours = ours.export_secrets(label);
    let theirs = theirs.export_secrets(label);
    assert!(ours == theirs && ours[0] != ours[1]);
    let reply = bob.send(b"reply");
    assert_eq!(alice.receive(&reply), Ok(b"reply".to_vec()));
}

#[test]
fn ratchet_18_first_messages_until_one_was_opened() {
    let (mut alice, mut bob) = two_people(18);
    assert!(!alice.talk.has_session());
    alice.begin_with(&mut bob);
    assert!(alice.talk.has_session() && !alice.talk.is_open());
    assert!(
        alice.talk.fits_body(1, Padding::Blocks) && !alice.talk.fits_body(3 << 20, Padding::Blocks)
    );
    let first = |message: &[u8]| message[..4] == [0xf1, 2, 1, 1];
    let messages: Vec<_> = (0..5).map(|_| alice.send(b"x")).collect();
    assert!(messages.iter().all(|m| first(m)) && alice.talk.is_pending());
    bob.receive(&messages[4]).expect("a first message");
    assert!(bob.talk.is_open());
    let reply = bob.send(b"y");
    assert!(!first(&reply) && reply[..4] == [0xf1, 1, 1, 1]);
    let still = alice.send(b"x");
    assert!(first(&still));
    alice.receive(&reply).expect("a reply");
    assert!(alice.talk.is_open() && !alice.talk.is_pending());
    assert!(!first(&alice.send(b"x")));
    assert_eq!(B2c20::ID, SuiteId(0x0101));
    let (mut alice, mut bob) = open_session(18);
    assert!(!first(&alice.send(b"x")) && !first(&bob.send(b"y")));
}

/// X25519 multiplies by a multiple of 8, so a base key and its sums with points of order 2, 4 and 8
/// give equal secrets: each sum is the same first message under bytes that were not seen yet.
#[test]
fn ratchet_71_a_base_key_with_torsion_is_no_second_first_message() {
    for suite in SUITES {
        let (mut alice, mut bob) = two_people_of(suite, 71);
        alice.begin_without(&bob, None);
        let message = alice.send(b"once");
        bob.receive(&message).expect("a first message");
        let at = if is_container(suite) { 36 } else { base_key_at(&message) };
        let base: [u8; 32] = message[at..at + 32].try_into().expect("32 bytes");
        let base = MontgomeryPoint(base).to_edwards(0).expect("a point of the curve");
        // T of 0x0101 binds the bytes of the base key: nothing opens, and no check is paid for.
        let expected = if suite == B2c20::ID { OpenError::Forged } else { OpenError::Malformed };
        for torsion in &EIGHT_TORSION[1..] {
            let mut again = message.clone();
            again[at..at + 32].copy_from_slice(&(base + torsion).to_montgomery().to_bytes());
            assert_eq!(bob.receive(&again), Err(expected), "{suite}");
        }
        assert_eq!(bob.receive(&message), Err(OpenError::Duplicate), "{suite}");
    }
}

/// Where the base key stands in a first message of Signal: `12 21 05` is in front of it.
fn base_key_at(message: &[u8]) -> usize {
    let tag = [0x12, 33, 5];
    message.windows(3).position(|bytes| bytes == tag).expect("a base key") + tag.len()
}
