//! The prekey machine: rotation, refill, limits, the alarm.

use std::collections::BTreeSet;

use mezza_core::{Machine, Suite, Time};
use mezza_ratchet::prekeys::{Input, Output};
use mezza_ratchet::suite::B2c20;
use mezza_ratchet::{Bundle, Change, Prekeys, PrekeysError, StoredRow, SuiteList, Table};
use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng;

use crate::people::{DAY, START, STOCK, identity, offering, pass, two_people};

/// A machine that was given all it asked for at the start.
fn stocked(rng: &mut ChaCha20Rng) -> Prekeys {
    let mut prekeys = offering(Prekeys::new(identity(1)), B2c20::ID);
    prekeys.wake(START, rng);
    answer(&mut prekeys, START, rng);
    prekeys
}

/// Carries out `Need`, returns all other outputs.
fn answer(prekeys: &mut Prekeys, now: Time, rng: &mut ChaCha20Rng) -> Vec<Output> {
    let mut others = Vec::new();
    while let Some(output) = prekeys.poll() {
        let Output::Need { spk, opk } = output else {
            others.push(output);
            continue;
        };
        let mut draw =
            |n| (0..n).map(|_| crate::fixture::draw(rng).into_static()).collect::<Vec<_>>();
        let fresh = Input::Fresh { spk: draw(spk), opk: draw(opk) };
        prekeys.handle(fresh, now, rng).expect("asked for");
    }
    others
}

#[test]
fn the_first_wake_publishes_a_bundle_and_a_hundred_keys() {
    let mut rng = ChaCha20Rng::seed_from_u64(1);
    let mut prekeys = offering(Prekeys::new(identity(1)), B2c20::ID);
    assert_eq!(prekeys.deadline(), Some(Time::from_ms(0)), "due at once");
    assert!(prekeys.current_bundle().is_none() && prekeys.current_not_after().is_none());
    prekeys.wake(START, &mut rng);
    prekeys.wake(START, &mut rng);
    let outputs = answer(&mut prekeys, START, &mut rng);
    let [Output::Store(changes), Output::Publish { bundle, one_time, replace: true }] =
        &outputs[..]
    else {
        panic!("{outputs:?}")
    };
    assert_eq!((changes.len(), one_time.len(), prekeys.one_time_count()), (101, 100, 100));
    let ids: BTreeSet<u32> = one_time.iter().map(|key| key.id).collect();
    assert_eq!(ids.len(), 100);
    assert!(ids.iter().all(|id| (1..=16_777_214).contains(id)));
    assert!(ids.last() > ids.first().map(|first| first + 1_000).as_ref(), "ids are not counted");
    let decoded = Bundle::decode(bundle).expect("a bundle");
    assert!(
        decoded
            .check_with(
                &SuiteList::without_kem(),
                &identity(1).public_key(),
                &SuiteList::without_kem(),
                START
            )
            .is_ok()
    );
    let (again, keys) = prekeys.current_bundle().expect("a bundle");
    assert_eq!(&again, bundle);
    assert_eq!(keys.iter().map(|key| key.id).collect::<BTreeSet<_>>(), ids);
}

#[test]
fn a_rotation_every_seven_days_replaces_the_stock() {
    let mut rng = ChaCha20Rng::seed_from_u64(2);
    let mut prekeys = stocked(&mut rng);
    let first = prekeys.current_bundle().expect("a bundle");
    let due = prekeys.deadline().expect("a timer");
    assert_eq!(due, Time::from_ms(START.as_ms() / 60_000 * 60_000 + 7 * DAY));
    prekeys.wake(due.minus_ms(1), &mut rng);
    assert!(prekeys.poll().is_none());
    prekeys.wake(due, &mut rng);
    let outputs = answer(&mut prekeys, due, &mut rng);
    assert!(matches!(outputs[..], [Output::Store(_), Output::Publish { replace: true, .. }]));
    let second = prekeys.current_bundle().expect("a bundle");
    assert_ne!(first.0, second.0);
    let old: BTreeSet<u32> = first.1.iter().map(|key| key.id).collect();
    assert!(second.1.iter().all(|key| !old.contains(&key.id)), "only those of this rotation");
    assert_eq!((prekeys.signed_prekeys().count(), prekeys.one_time_count()), (2, 200));
    assert_eq!(prekeys.current_not_after(), Some(due.plus_ms(14 * DAY)));
}

#[test]
fn the_stock_is_filled_up_below_twenty() {
    let mut rng = ChaCha20Rng::seed_from_u64(3);
    let mut prekeys = stocked(&mut rng);
    let bundle = prekeys.current_bundle().expect("a bundle").0;
    prekeys.handle(Input::Stock(20), START, &mut rng).expect("a stock");
    assert!(prekeys.poll().is_none());
    prekeys.handle(Input::Stock(19), START, &mut rng).expect("a stock");
    // While the answer is out, the same news asks for nothing more.
    prekeys.handle(Input::Stock(19), START, &mut rng).expect("a stock");
    let outputs = answer(&mut prekeys, START, &mut rng);
    let [Output::Store(_), Output::Publish { bundle: same, one_time, replace: false }] =
        &outputs[..]
    else {
        panic!("{outputs:?}")
    };
    assert_eq!((same, one_time.len()), (&bundle, 81));
    let unasked = Input::Fresh { spk: Vec::new(), opk: Vec::new() };
    let before = prekeys.encode();
    assert_eq!(prekeys.handle(unasked, START, &mut rng), Err(PrekeysError::Unasked));
    assert!(before == prekeys.encode());
}

#[test]
fn keys_come_in_the_numbers_that_were_asked_for() {
    let mut rng = ChaCha20Rng::seed_from_u64(9);
    let mut prekeys = stocked(&mut rng);
    prekeys.handle(Input::Stock(19), START, &mut rng).expect("a stock");
    for (spk, opk, taken) in [(1, 81, false), (0, 82, false), (1, 82, false), (0, 80, true)] {
        let mut draw =
            |n| (0..n).map(|_| crate::fixture::draw(&mut rng).into_static()).collect::<Vec<_>>();
        let fresh = Input::Fresh { spk: draw(spk), opk: draw(opk) };
        assert_eq!(prekeys.handle(fresh, START, &mut rng).is_ok(), taken, "{spk} and {opk}");
    }
}

/// A request for one-time keys must not count as a request for new signed ones.
#[test]
fn a_rotation_does_not_wait_for_a_refill() {
    let mut rng = ChaCha20Rng::seed_from_u64(10);
    let mut prekeys = stocked(&mut rng);
    let due = prekeys.deadline().expect("a timer");
    prekeys.handle(Input::Stock(0), due, &mut rng).expect("a stock");
    assert_eq!(prekeys.deadline(), Some(due));
    prekeys.wake(due, &mut rng);
    let needs: Vec<usize> = std::iter::from_fn(|| prekeys.poll())
        .filter_map(|output| if let Output::Need { spk, .. } = output { Some(spk) } else { None })
        .collect();
    assert_eq!(needs, [0, 1]);
    assert_ne!(prekeys.deadline(), Some(due), "asked for once");
}

#[test]
fn a_key_from_more_than_a_day_ahead_was_made_by_a_wrong_clock() {
    let mut rng = ChaCha20Rng::seed_from_u64(11);
    let mut prekeys = stocked(&mut rng);
    let made = prekeys.signed_prekey_lifetimes().next().expect("a key").1;
    prekeys.wake(made.minus_ms(DAY), &mut rng);
    assert!(prekeys.poll().is_none(), "a day may be the other clock's");
    prekeys.wake(made.minus_ms(DAY + 1), &mut rng);
    assert!(matches!(prekeys.poll(), Some(Output::Need { spk: 1, .. })));
}

#[test]
fn a_person_may_rotate_and_refill_before_it_is_time() {
    let mut rng = ChaCha20Rng::seed_from_u64(8);
    let mut prekeys = Prekeys::new(identity(1));
    prekeys.handle(Input::Refill(0), START, &mut rng).expect("a wish");
    assert!(prekeys.poll().is_none(), "no bundle, nothing to add to");
    let mut prekeys = stocked(&mut rng);
    prekeys.handle(Input::Refill(100), START, &mut rng).expect("a wish");
    assert!(prekeys.poll().is_none(), "the stock is full");
    prekeys.handle(Input::Refill(60), START, &mut rng).expect("a wish");
    let outputs = answer(&mut prekeys, START, &mut rng);
    let [Output::Store(_), Output::Publish { one_time, replace: false, .. }] = &outputs[..] else {
        panic!("{outputs:?}")
    };
    assert_eq!(one_time.len(), 40);
    let later = START.plus_ms(DAY);
    prekeys.handle(Input::Rotate, later, &mut rng).expect("a wish");
    prekeys.handle(Input::Rotate, later, &mut rng).expect("said twice is done once");
    let outputs = answer(&mut prekeys, later, &mut rng);
    assert!(matches!(outputs[..], [Output::Store(_), Output::Publish { replace: true, .. }]));
    let lives: Vec<_> =
        prekeys.signed_prekey_lifetimes().map(|(_, made, wiped)| (made, wiped)).collect();
    assert_eq!(lives.len(), 2);
    assert!(lives[0].0 > lives[1].0, "newest first");
    assert!(lives.iter().all(|(made, wiped)| *wiped == made.plus_ms(30 * DAY)));
    assert_eq!(prekeys.current_not_after(), Some(lives[0].0.plus_ms(14 * DAY)));
}

#[test]
fn at_most_a_thousand_one_time_keys_and_five_signed_ones() {
    let mut rng = ChaCha20Rng::seed_from_u64(4);
    let mut prekeys = stocked(&mut rng);
    let mut dropped = 0;
    for round in 1..=12_u64 {
        let now = START.plus_ms(round * 60_000);
        prekeys.handle(Input::Stock(0), now, &mut rng).expect("a stock");
        for output in answer(&mut prekeys, now, &mut rng) {
            if let Output::Store(changes) = output {
                let drops = |c: &&mezza_ratchet::Change| {
                    matches!(c, mezza_ratchet::Change::Drop { table: Table::Opk, .. })
                };
                dropped += changes.iter().filter(drops).count();
            }
        }
    }
    assert_eq!((prekeys.one_time_count(), dropped), (1_000, 300));
    // A clock that runs back and forth makes rotations, and never more than five keys.
    for round in 1..20_u64 {
        let now = START.plus_ms(if round % 2 == 0 { 0 } else { 8 * DAY });
        prekeys.wake(now, &mut rng);
        answer(&mut prekeys, now, &mut rng);
        assert!(prekeys.signed_prekeys().count() <= 5);
        let end = prekeys.current_not_after().expect("a bundle");
        assert!(end <= now.plus_ms(14 * DAY), "the current bundle is of this clock");
    }
}

#[test]
fn sessions_without_one_time_key_raise_the_alarm_once_a_day() {
    let (mut alice, mut bob) = two_people(5);
    let mut alarms = Vec::new();
    for day in 0..2 {
        for i in 0..6 {
            // The first one each day has a one-time key, the others do not.
            let one_time = if i == 0 { bob.server.one_time.pop() } else { None };
            alice.begin(&bob.server.bundle.clone(), one_time).expect("a session");
            let message = alice.send(b"x");
            let own = &bob.identity;
            let now = bob.now;
            let opened = bob.talk.open(&message, &[], own, &mut bob.prekeys, now);
            bob.disk.apply(opened.expect("a first message").changes);
            while let Some(output) = bob.prekeys.poll() {
                assert!(matches!(output, Output::Low));
                alarms.push((day, i));
            }
        }
        pass(&mut alice, &mut bob, DAY);
    }
    assert_eq!(alarms, [(0, 3), (1, 3)]);
    let day = bob.now.minus_ms(DAY);
    assert_eq!(bob.prekeys.sessions_of_day(day), (6, 5));
    assert_eq!(bob.prekeys.sessions_of_day(bob.now), (0, 0));
}

/// When the memory of base keys under a signed prekey is full, first messages without one-time key are
/// refused under it; others go on, and a fresh one is there already (RATCHET-74).
#[test]
fn the_memory_of_base_keys_is_bounded() {
    let (mut alice, mut bob) = two_people(6);
    let spk_id = bob.prekeys.signed_prekeys().next().expect("a key").1;
    for i in 0..10_000_u64 {
        let mark = [&spk_id.to_be_bytes()[..], &[7; 8], &i.to_be_bytes()].concat();
        let row = [&[3][..], &mark].concat();
        bob.disk.0.insert((Table::Seen, mark), row);
    }
    let bundle = bob.server.bundle.clone();
    bob.reboot();
    alice.begin(&bundle, None).expect("a session");
    let message = alice.send(b"x");
    assert_eq!(bob.receive(&message), Err(mezza_ratchet::OpenError::UnknownPrekey(spk_id)));
    let one_time = bob.server.one_time.pop();
    alice.begin(&bundle, one_time).expect("a session");
    let message = alice.send(b"y");
    assert_eq!(bob.receive(&message), Ok(b"y".to_vec()));
    assert_eq!(bob.disk.count(Table::Seen), 10_000);
    assert_ne!(bob.server.bundle, bundle);
    alice.begin(&bob.server.bundle.clone(), None).expect("a session");
    let message = alice.send(b"z");
    assert_eq!(bob.receive(&message), Ok(b"z".to_vec()));
}

#[test]
fn a_server_that_runs_dry_is_filled_again() {
    let (mut alice, mut bob) = two_people(7);
    assert_eq!(bob.server.one_time.len(), STOCK);
    while bob.server.one_time.len() > 10 {
        alice.begin_with(&mut bob);
        let message = alice.send(b"x");
        bob.receive(&message).expect("x");
    }
    bob.stock();
    assert_eq!(bob.server.one_time.len(), 10 + STOCK);
    alice.begin_with(&mut bob);
    let message = alice.send(b"y");
    assert_eq!(bob.receive(&message), Ok(b"y".to_vec()));
}

/// Both suites of the product get a key in one rotation, with ids that fall either way.
#[test]
fn a_restart_finds_prekeys_in_the_order_in_which_they_lay() {
    for seed in 0..8 {
        let mut rng = ChaCha20Rng::seed_from_u64(seed);
        let mut prekeys = Prekeys::new(identity(1));
        for now in [START, START.plus_ms(8 * DAY)] {
            prekeys.wake(now, &mut rng);
            answer(&mut prekeys, now, &mut rng);
        }
        let rows = prekeys.all_rows();
        let records = rows.iter().filter_map(|row| match row {
            Change::Put { table, key, value } => Some(StoredRow { table: *table, key, value }),
            Change::Drop { .. } => None,
        });
        // A disk has them by key, not by age.
        let records = records.collect::<Vec<_>>().into_iter().rev();
        let loaded = Prekeys::load(identity(1), records).expect("our rows");
        let ids =
            |prekeys: &Prekeys| prekeys.signed_prekeys().map(|(_, id, _)| id).collect::<Vec<_>>();
        assert_eq!(ids(&prekeys).len(), 4);
        assert_eq!(ids(&prekeys), ids(&loaded));
    }
}
