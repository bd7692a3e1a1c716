//! Attacks of a tampered client, and of a confederate on the wire.

use mezza_core::{Machine as _, Time};
use mezza_guard::client::{self, GuardClient};
use mezza_guard::coin::CoinEncoding;
use mezza_guard::guard::{
    CloseReason, Destination, Guard, GuardConnection, GuardError, GuardEvent, GuardSide, Input,
    Opening,
};
use mezza_guard::ledger::{DAY_MS, LedgerRecord, REFUSALS_BLOCK, REFUSALS_EVER, SlotLedger};
use mezza_guard::rule::FrameRuleError;
use mezza_guard::wire::control::{GuardMode, RefusalCode};

use crate::bench::{Bench, ME, coin_key, slot_name};
use crate::link::{ke1, ke2, pairing, settings};

/// A guard whose owner has said nothing of names.
fn without_pins(seed: u64) -> Bench {
    let mut bench = Bench::new(seed);
    let mut open = settings(ME, GuardMode::Coins);
    open.destinations.insert(1, Destination { pins: None, counter: Some(40), is_blocked: false });
    let (guard, era) = Guard::start(open, coin_key(), SlotLedger::default(), bench.dice.rng());
    bench.guard = guard;
    bench.ledger = era.encode();
    bench
}

/// A handshake whose KE1 has this link number; how it ended for the wire.
fn with_link(bench: &mut Bench, a: u32, link: u16) -> bool {
    let conn = bench.fresh();
    bench.dial(conn, GuardMode::Coins);
    let mut first = ke1(&bench.public(), a);
    first[5..7].copy_from_slice(&link.to_be_bytes());
    bench.inside(conn, first.clone());
    let passed = bench.wire == [first.clone()];
    if passed {
        let second = ke2(&first, &[9; 32]);
        bench.outside(conn, second);
        bench.client_in(client::Input::Answered(conn));
        bench.guard_in(Input::Closed(conn, GuardSide::Wire)).expect("known");
    }
    bench.client_in(client::Input::Closed(conn));
    passed
}

#[test]
fn guard_44_names_are_free_once_and_learned_for_good() {
    let mut bench = without_pins(1);
    assert!(with_link(&mut bench, 41, 7));
    // Sixteen bits of a secret in the number of the link, which no peer checks.
    assert_eq!((42..50).filter(|a| with_link(&mut bench, *a, 0x5a00 + *a as u16)).count(), 0);
    assert!(with_link(&mut bench, 50, 7));
    // A restart knows them, and so does a ledger that was made shorter.
    let (ledger, _) = SlotLedger::load(&bench.ledger).expect("sound");
    let shorter: Vec<u8> = ledger.compact_records().iter().flat_map(LedgerRecord::encode).collect();
    let (ledger, _) = SlotLedger::load(&shorter).expect("sound");
    let mut open = settings(ME, GuardMode::Coins);
    open.destinations.insert(1, Destination { pins: None, counter: Some(40), is_blocked: false });
    let (guard, _) = Guard::start(open, coin_key(), ledger, bench.dice.rng());
    bench.guard = guard;
    assert!(!with_link(&mut bench, 51, 8) && with_link(&mut bench, 52, 7));
    // After a reset the client pairs again, under other names.
    bench.guard_in(Input::ResetSlot(slot_name())).expect("known");
    bench.client = GuardClient::new(pairing(ME), CoinEncoding::X25519);
    assert!(with_link(&mut bench, 53, 9) && !with_link(&mut bench, 54, 7));
}

/// A confederate on the wire brings a fresh name with each call: each would free 16 bits of an answer.
#[test]
fn guard_44_callers_whose_numbers_are_learned_are_few() {
    let mut bench = without_pins(2);
    let me = pairing(ME).client_id();
    let mut passed = 0;
    for a in 0..40_u8 {
        let conn = bench.fresh();
        bench.guard_in(Input::Opened(conn, Opening::Wire(me, u64::from(a)))).expect("a lane");
        let mut first = ke1(&[a + 1; 32], u32::from(a) + 1);
        first[8..14].copy_from_slice(&[2, 0, 0, 0, 0, a]);
        bench.outside(conn, first.clone());
        let mut second = ke2(&first, &bench.public());
        second[8..14].copy_from_slice(&first[14..20]);
        second[14..20].copy_from_slice(&first[8..14]);
        second[5..7].copy_from_slice(&[a, a]);
        bench.inside(conn, second.clone());
        passed += usize::from(bench.wire.contains(&second));
        let _ = bench.guard_in(Input::Closed(conn, GuardSide::Wire));
        bench.client_in(client::Input::Closed(conn));
        bench.now = bench.now.plus_ms(60_000);
    }
    assert_eq!(passed, 16);
}

/// An attacker on the wire drops the third message of each handshake.
#[test]
fn guard_23_lost_third_messages_fill_no_store() {
    let mut bench = Bench::new(3);
    let me = pairing(ME).client_id();
    for a in 0..80_u32 {
        let conn = bench.fresh();
        bench.guard_in(Input::Opened(conn, Opening::Wire(me, u64::from(a)))).expect("a lane");
        let first = ke1(&[a as u8 + 1; 32], a + 1);
        bench.outside(conn, first.clone());
        assert!(bench.pair.is_some(), "no key in handshake {a}: {:?}", bench.closed);
        let second = ke2(&first, &bench.public());
        bench.inside(conn, second.clone());
        assert!(bench.wire.contains(&second));
        bench.guard_in(Input::Closed(conn, GuardSide::Wire)).expect("known");
        bench.client_in(client::Input::Closed(conn));
        bench.now = bench.now.plus_ms(60_000);
        // A start in between: what is stored is enough to know the lane.
        if a % 7 == 0 {
            let mut client = GuardClient::new(pairing(ME), CoinEncoding::X25519);
            for (_, row) in &bench.rows {
                client.load_coin(row).expect("a row");
            }
            bench.client = client;
        }
    }
    assert!(bench.rows.len() <= 8, "{}", bench.rows.len());
}

#[test]
fn guard_35_an_answer_that_repeats_something_else_is_none() {
    let mut bench = Bench::new(6);
    let conn = bench.fresh();
    bench.dial(conn, GuardMode::Coins);
    let first = ke1(&bench.public(), 41);
    bench.inside(conn, first.clone());
    let mut second = vec![0; 88];
    second[..2].copy_from_slice(&[1, 0x16]);
    bench.outside(conn, second);
    assert_eq!(bench.closed, Some(CloseReason::Frame(FrameRuleError::Form)));
    // The MAC went out, and nobody accepted it.
    assert_eq!(bench.events.len(), 1);
}

#[test]
fn guard_35_a_block_ends_a_day_after_a_start_however_long_the_machine_ran_before() {
    let me = pairing(ME).client_id();
    let mut ledger = SlotLedger::default();
    for n in 0..REFUSALS_BLOCK as u64 {
        ledger.apply_record(&LedgerRecord::Refused(me, 1, Time::from_ms(300 * DAY_MS + n)));
    }
    assert_eq!(ledger.totals().refused, REFUSALS_BLOCK as u32);
    let mut bench = Bench::new(5);
    let settings = settings(ME, GuardMode::Coins);
    let (guard, _) = Guard::start(settings, coin_key(), ledger, bench.dice.rng());
    bench.guard = guard;
    bench.now = Time::from_ms(60_000);
    let dial = |bench: &mut Bench| {
        let conn = bench.fresh();
        bench.dial(conn, GuardMode::Coins);
        let refused = bench.refused;
        let _ = bench.guard_in(Input::Closed(conn, GuardSide::Inside));
        let _ = bench.client.handle(client::Input::Closed(conn), bench.now, bench.dice.rng());
        refused
    };
    assert_eq!(dial(&mut bench), Some(RefusalCode::Blocked));
    bench.now = Time::from_ms(60_000 + DAY_MS - 1);
    assert_eq!(dial(&mut bench), Some(RefusalCode::Blocked));
    bench.now = Time::from_ms(60_000 + DAY_MS);
    assert_eq!(dial(&mut bench), None);
    let _ = GuardConnection(0);
}

/// A session with a pinned listener has no OPEN: its opening is where the block is enforced.
#[test]
fn guard_35_a_block_holds_for_the_listener_of_a_destination_too() {
    let me = pairing(ME).client_id();
    let mut bench = Bench::new(47);
    for _ in 0..REFUSALS_BLOCK {
        let conn = bench.fresh();
        bench.guard_in(Input::Opened(conn, Opening::Pinned(me, 1))).expect("not blocked yet");
        refuse_pinned(&mut bench, conn);
    }
    assert_eq!(bench.guard.ledger().count_refusals(me, 1, bench.now), REFUSALS_BLOCK);
    let pinned = |bench: &mut Bench| {
        let conn = bench.fresh();
        bench.guard_in(Input::Opened(conn, Opening::Pinned(me, 1)))
    };
    assert_eq!(pinned(&mut bench), Err(GuardError::Blocked));
    // It ends by itself.
    bench.now = bench.now.plus_ms(DAY_MS);
    assert_eq!(pinned(&mut bench), Ok(()));
}

/// A handshake in which the tag of the client went out, and the destination closed.
fn refuse_pinned(bench: &mut Bench, conn: GuardConnection) {
    bench.send_tag(conn);
    bench.guard_in(Input::Closed(conn, GuardSide::Wire)).expect("known");
}

/// A refusal counts when its session ends. A client that opens many sessions before the first one ends
/// would send a MAC in each of them.
#[test]
fn guard_47_sessions_at_once_send_no_more_macs_than_sessions_in_turn() {
    let me = pairing(ME).client_id();
    for knows in [true, false] {
        let mut bench = Bench::new(48);
        let mut open = Vec::new();
        for _ in 0..2 * REFUSALS_BLOCK {
            let conn = bench.fresh();
            if knows {
                bench.dial(conn, GuardMode::Blind);
                if bench.refused.is_some() {
                    assert_eq!(bench.refused, Some(RefusalCode::Busy));
                    bench.client_in(client::Input::Closed(conn));
                    continue;
                }
            } else {
                let opened = bench.guard_in(Input::Opened(conn, Opening::Pinned(me, 1)));
                if opened.is_err() {
                    assert_eq!(opened, Err(GuardError::TooMany));
                    continue;
                }
            }
            bench.send_tag(conn);
            open.push(conn);
        }
        assert_eq!(open.len(), REFUSALS_BLOCK, "{knows}");
        for conn in open {
            bench.guard_in(Input::Closed(conn, GuardSide::Wire)).expect("known");
        }
        assert_eq!(bench.guard.ledger().totals().refused as usize, REFUSALS_BLOCK);
    }
}

/// A handshake that was accepted makes room for the next one.
#[test]
fn guard_47_links_that_are_up_are_not_counted() {
    let mut bench = Bench::new(49);
    for _ in 0..2 * REFUSALS_BLOCK {
        let conn = bench.fresh();
        bench.dial(conn, GuardMode::Blind);
        assert_eq!(bench.refused, None);
        bench.gkx(conn);
    }
    assert_eq!(bench.guard.session_count(), 2 * REFUSALS_BLOCK);
}

/// A lane is no destination of the client: callers choose when a handshake begins there.
#[test]
fn guard_48_refused_callers_alarm_and_lock_out_nobody() {
    let mut bench = Bench::new(50);
    let me = pairing(ME).client_id();
    for number in 0..=REFUSALS_BLOCK as u32 {
        let conn = bench.fresh();
        bench.guard_in(Input::Opened(conn, Opening::Wire(me, 5))).expect("a lane");
        let first = ke1(&[number as u8 + 1; 32], number + 1);
        bench.outside(conn, first.clone());
        let second = ke2(&first, &bench.public());
        bench.inside(conn, second.clone());
        assert!(bench.wire.contains(&second), "{number}: {:?}", bench.closed);
        bench.guard_in(Input::Closed(conn, GuardSide::Wire)).expect("known");
        bench.client_in(client::Input::Closed(conn));
    }
    bench.events.retain(|event| !matches!(event, GuardEvent::Worn(..)));
    let [GuardEvent::Notice(client, lane), alarms @ ..] = &bench.events[..] else {
        panic!("{:?}", bench.events)
    };
    assert_eq!((*client, alarms.len()), (me, REFUSALS_BLOCK - 1));
    for (at, alarm) in alarms.iter().enumerate() {
        let refusals = (at + 3).min(REFUSALS_BLOCK);
        let expected = GuardEvent::Alarm { client: me, dest: *lane, refusals, is_blocked: false };
        assert_eq!(*alarm, expected);
    }
}

/// One refusal a day never raises the alarm of a day, and carries a key of 256 bits in two days.
#[test]
fn guard_45_refusals_add_up_over_days_restarts_and_shorter_ledgers() {
    let me = pairing(ME).client_id();
    let mut bench = Bench::new(45);
    let refuse = |bench: &mut Bench, number: u32| {
        let conn = bench.fresh();
        bench.dial(conn, GuardMode::Coins);
        let first = ke1(&bench.public(), 40 + number);
        bench.inside(conn, first);
        bench.guard_in(Input::Closed(conn, GuardSide::Wire)).expect("known");
        bench.client_in(client::Input::Closed(conn));
        bench.now = bench.now.plus_ms(DAY_MS);
    };
    (1..REFUSALS_EVER).for_each(|number| refuse(&mut bench, number));
    assert!(bench.events.iter().all(|event| matches!(event, GuardEvent::Notice(..))));
    // The owner looked at it, the ledger was made shorter, and the guard began again.
    bench.guard_in(Input::Unblock(me, 1)).expect("a known client");
    let (ledger, _) = SlotLedger::load(&bench.ledger).expect("a ledger");
    let short: Vec<u8> = ledger.compact_records().iter().flat_map(LedgerRecord::encode).collect();
    let (ledger, whole) = SlotLedger::load(&short).expect("a ledger");
    assert_eq!((ledger.refused_ever(me), whole), (REFUSALS_EVER - 1, short.len()));
    let settings = settings(ME, GuardMode::Coins);
    bench.guard = Guard::start(settings, coin_key(), ledger, bench.dice.rng()).0;
    bench.events.clear();
    refuse(&mut bench, REFUSALS_EVER);
    assert_eq!(bench.events, [GuardEvent::Notice(me, 1), GuardEvent::Worn(me, REFUSALS_EVER)]);
    refuse(&mut bench, REFUSALS_EVER + 1);
    assert!(!bench.events[2..].iter().any(|event| matches!(event, GuardEvent::Worn(..))));
}

/// Power goes while a record is appended: the file has grown, and the bytes are zeros.
#[test]
fn guard_37_a_tail_of_zeros_is_cut_off_and_a_damaged_length_is_damage() {
    let mut bench = Bench::new(4);
    (41..45).for_each(|a| {
        bench.handshake(a);
    });
    let whole = bench.ledger.clone();
    for zeros in [1, 4, 5, 64] {
        let mut torn = whole.clone();
        torn.extend(vec![0; zeros]);
        assert_eq!(SlotLedger::load(&torn).map(|(_, at)| at), Ok(whole.len()), "{zeros}");
    }
    let mut at = 0;
    let mut starts = Vec::new();
    while at < whole.len() {
        starts.push(at);
        at += 1 + usize::from(whole[at]) + 4;
    }
    for start in starts {
        for length in [0, 1, 34, 0xff] {
            let mut bad = whole.clone();
            bad[start] = length;
            assert!(SlotLedger::load(&bad).is_err(), "record at {start}, length {length}");
        }
        // Cut off anywhere, the records before it stay.
        for cut in start..(start + 8).min(whole.len()) {
            assert_eq!(SlotLedger::load(&whole[..cut]).map(|(_, at)| at), Ok(start));
        }
    }
}
