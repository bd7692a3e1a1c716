//! The machine of a guard beside the machine of its client.

use mezza_core::Machine as _;
use mezza_guard::client::{self, GuardClient};
use mezza_guard::coin::{CoinEncoding, CoinSecret};
use mezza_guard::guard::{
    CloseReason, Destination, Guard, GuardConnection, GuardError, GuardEvent, GuardSide,
    HANDSHAKE_MS_MAX, Input, Opening, StrictPolicy,
};
use mezza_guard::keys::GuardClientId;
use mezza_guard::ledger::{DAY_MS, LedgerRecord, REFUSALS_BLOCK, SlotLedger};
use mezza_guard::rule::FrameRuleError;
use mezza_guard::wire::control::{Control, GuardMode, RefusalCode};

use crate::bench::{Bench, ME, coin_key, slot_name};
use crate::link::{ke1, ke2, ke3, pairing, record, settings};

const CONN: GuardConnection = GuardConnection(1);

#[test]
fn guard_22_a_slot_advances_when_its_key_went_out_and_not_before() {
    let mut bench = Bench::new(22);
    for a in 41..46 {
        bench.handshake(a);
        assert!(bench.rows.is_empty(), "wiped after the answer");
    }
    assert!(bench.events.is_empty());
    let (ledger, whole) = SlotLedger::load(&bench.ledger).expect("a ledger");
    let totals = ledger.totals();
    assert_eq!((whole, totals.resets, totals.handshakes), (bench.ledger.len(), 0, 5));
    // A coin that is abandoned comes back: the same key, however often one tries (A9).
    let mut keys = Vec::new();
    for _ in 0..20 {
        let conn = bench.fresh();
        bench.dial(conn, GuardMode::Coins);
        keys.push(bench.public());
        bench.guard_in(Input::Closed(conn, GuardSide::Inside)).expect("known");
        bench.client_in(client::Input::Closed(conn));
    }
    keys.dedup();
    assert_eq!(keys.len(), 1);
}

#[test]
fn guard_21_another_point_for_a_slot_is_refused() {
    let mut bench = Bench::new(21);
    let conn = bench.fresh();
    bench.dial(conn, GuardMode::Coins);
    assert!(bench.pair.is_some() && bench.rows.len() == 1);
    bench.guard_in(Input::Closed(conn, GuardSide::Inside)).expect("known");
    // A client that has lost its rows, or that would like another key.
    bench.client = GuardClient::new(pairing(ME), CoinEncoding::X25519);
    let conn = bench.fresh();
    bench.dial(conn, GuardMode::Coins);
    assert_eq!(bench.refused, Some(RefusalCode::SlotTaken));
    assert_eq!(bench.closed, Some(CloseReason::Refused(RefusalCode::SlotTaken)));
    assert!(bench.pair.is_none());
    // The owner resets the slot: its number is never offered again.
    bench.guard_in(Input::ResetSlot(slot_name())).expect("a known client");
    bench.client = GuardClient::new(pairing(ME), CoinEncoding::X25519);
    let conn = bench.fresh();
    bench.dial(conn, GuardMode::Coins);
    assert!(bench.pair.is_some());
    let (ledger, _) = SlotLedger::load(&bench.ledger).expect("a ledger");
    assert_eq!((ledger.totals().resets, ledger.totals().handshakes), (1, 0));
}

#[test]
fn guard_23_the_secret_is_stored_before_its_point_leaves() {
    let mut bench = Bench::new(23);
    let conn = bench.fresh();
    bench.dial(conn, GuardMode::Coins);
    let (h, row) = bench.rows[0].clone();
    let before = bench.public();
    // A crash: the row alone is left, and leads to the same key.
    bench.guard_in(Input::Closed(conn, GuardSide::Inside)).expect("known");
    bench.client = GuardClient::new(pairing(ME), CoinEncoding::X25519);
    bench.client.load_coin(&row).expect("a row");
    let conn = bench.fresh();
    bench.dial(conn, GuardMode::Coins);
    assert_eq!(bench.public(), before);
    bench.client_in(client::Input::Answered(conn));
    assert!(!bench.rows.iter().any(|(stored, _)| *stored == h));
    for cut in 0..row.len() {
        assert!(
            GuardClient::new(pairing(ME), CoinEncoding::X25519).load_coin(&row[..cut]).is_err()
        );
    }
}

#[test]
fn guard_24_a_secret_is_used_with_one_commitment_alone() {
    let mut bench = Bench::new(24);
    let conn = bench.fresh();
    bench.dial(conn, GuardMode::Coins);
    let first = bench.rows[0].clone();
    // The guard starts again from nothing: another era, so another h for the same number.
    let (guard, _) = Guard::start(
        settings(ME, GuardMode::Coins),
        coin_key(),
        SlotLedger::default(),
        bench.dice.rng(),
    );
    bench.guard = guard;
    let before = bench.public();
    bench.client_in(client::Input::Closed(conn));
    let conn = bench.fresh();
    bench.dial(conn, GuardMode::Coins);
    assert_eq!(bench.rows.len(), 1);
    let second = &bench.rows[0];
    assert!(first.0 != second.0 && first.1[43..] != second.1[43..], "another h, another secret");
    assert_ne!(bench.public(), before);
}

#[test]
fn guard_28_control_frames_never_cross() {
    let mut bench = Bench::new(28);
    let conn = bench.fresh();
    bench.dial(conn, GuardMode::Coins);
    let first = ke1(&bench.public(), 41);
    bench.inside(conn, first);
    assert_eq!(bench.wire.len(), 1);
    bench.outside(conn, Control::Hello { nonce: [1; 32] }.encode_clear());
    assert_eq!(bench.closed, Some(CloseReason::Control));
    assert!(bench.wire.iter().all(|frame| !Control::is_kind(frame[1])));
}

/// Every field that is closed, with one bit changed.
#[test]
fn a_frame_that_breaks_a_rule_never_leaves() {
    // Version and kind, suite, link, ID_I, ID_R, s, counter, key.
    for at in [0, 1, 2, 5, 7, 8, 14, 20, 36, 40, 71] {
        let mut bench = Bench::new(26);
        let conn = bench.fresh();
        bench.dial(conn, GuardMode::Coins);
        let mut first = ke1(&bench.public(), 41);
        first[at] ^= 1;
        bench.inside(conn, first);
        assert!(bench.wire.is_empty(), "{at}");
        assert!(matches!(bench.closed, Some(CloseReason::Frame(_))), "{at}: {:?}", bench.closed);
        // It closes that connection only.
        let _ = bench.fresh();
        let notices = bench.events.len();
        assert_eq!(notices, 1, "a connection without a handshake frame counts");
        bench.client_in(client::Input::Closed(conn));
        bench.handshake(41);
    }
    let mut bench = Bench::new(27);
    for a in [40, 57, 0] {
        let conn = bench.fresh();
        bench.dial(conn, GuardMode::Coins);
        let first = ke1(&bench.public(), a);
        bench.inside(conn, first);
        assert_eq!(bench.closed, Some(CloseReason::Frame(FrameRuleError::Field(36))), "{a}");
        bench.client_in(client::Input::Closed(conn));
    }
    for frame in [vec![], vec![1], vec![1, 0x15], vec![9; 88], record()] {
        let conn = bench.fresh();
        bench.dial(conn, GuardMode::Coins);
        bench.inside(conn, frame);
        assert!(bench.wire.is_empty() && bench.closed.is_some());
        bench.client_in(client::Input::Closed(conn));
    }
}

/// A11: garbage in a MAC field. One handshake may carry 128 bits; it is refused, told, and counted.
#[test]
fn guard_35_a_handshake_that_nobody_accepted_counts() {
    let mut bench = Bench::new(35);
    for number in 1..=REFUSALS_BLOCK as u32 {
        let conn = bench.fresh();
        bench.dial(conn, GuardMode::Coins);
        let mut first = ke1(&bench.public(), 40 + number);
        first[72..].fill(number as u8);
        bench.inside(conn, first.clone());
        assert_eq!(bench.wire, [first.clone()], "the guard cannot check a MAC");
        // A byte-identical repeat counts once.
        bench.inside(conn, first);
        bench.guard_in(Input::Closed(conn, GuardSide::Wire)).expect("known");
        bench.client_in(client::Input::Closed(conn));
    }
    let me = pairing(ME).client_id();
    // The count over the life of the ledger is another rule (GUARD-45).
    bench.events.retain(|event| !matches!(event, GuardEvent::Worn(..)));
    assert_eq!(bench.events.len(), REFUSALS_BLOCK - 1, "the second one is silent");
    assert_eq!(bench.events[0], GuardEvent::Notice(me, 1));
    // The third and each further one alarm, also the one that blocks.
    for (at, event) in bench.events[1..].iter().enumerate() {
        let refusals = at + 3;
        let is_blocked = refusals == REFUSALS_BLOCK;
        let alarm = GuardEvent::Alarm { client: me, dest: 1, refusals, is_blocked };
        assert_eq!(*event, alarm);
    }
    let conn = bench.fresh();
    bench.dial(conn, GuardMode::Coins);
    assert_eq!(bench.refused, Some(RefusalCode::Blocked));
    // It ends by itself after a day, and at once if the owner says so.
    bench.now = bench.now.plus_ms(DAY_MS);
    bench.client_in(client::Input::Closed(conn));
    bench.handshake(61);
}

#[test]
fn a_gap_in_the_counter_and_a_bare_connection_count_too() {
    let mut bench = Bench::new(36);
    bench.handshake(41);
    bench.handshake(44);
    assert_eq!(bench.events.len(), 1, "a gap of two carries bits");
    let conn = bench.fresh();
    bench.dial(conn, GuardMode::Coins);
    bench.guard_in(Input::Closed(conn, GuardSide::Inside)).expect("known");
    bench.guard_in(Input::Unblock(pairing(ME).client_id(), 1)).expect("a known client");
    let (ledger, _) = SlotLedger::load(&bench.ledger).expect("a ledger");
    assert_eq!(ledger.count_refusals(pairing(ME).client_id(), 1, bench.now), 0);
}

#[test]
fn guard_31_strict_closes_and_report_tells() {
    for policy in [StrictPolicy::Strict, StrictPolicy::Report] {
        let mut bench = Bench::new(31);
        let mut own = settings(ME, GuardMode::Coins);
        own.policy = policy;
        (bench.guard, _) = Guard::start(own, coin_key(), SlotLedger::default(), bench.dice.rng());
        bench.handshake(41);
        let conn = bench.fresh();
        bench.dial(conn, GuardMode::Coins);
        let first = ke1(&bench.public(), 42);
        bench.inside(conn, first.clone());
        let peer = CoinSecret::random(bench.dice.rng()).point(CoinEncoding::X25519);
        bench.outside(conn, ke2(&first, &peer));
        bench.inside(conn, ke3(&first, &[1]));
        bench.outside(conn, record());
        // A record of a length that is not on the list.
        let odd = [&[1, 0x20, 0, 3][..], &[7; 3]].concat();
        bench.inside(conn, odd.clone());
        let is_strict = policy == StrictPolicy::Strict;
        assert_eq!(bench.closed == Some(CloseReason::Frame(FrameRuleError::Form)), is_strict);
        assert_eq!(bench.wire.contains(&odd), !is_strict);
        assert_eq!(bench.events.contains(&GuardEvent::Uncovered(conn)), !is_strict);
    }
}

#[test]
fn guard_32_destinations_are_numbers_of_the_guards_list() {
    let mut bench = Bench::new(32);
    let conn = bench.fresh();
    bench.guard_in(Input::Opened(conn, Opening::Inside)).expect("a new connection");
    bench.client_in(client::Input::Dial(conn, GuardMode::Coins, 9));
    assert_eq!(bench.refused, Some(RefusalCode::UnknownDestination));
    let unknown = GuardClientId([0; 16]);
    for opening in [
        Opening::Pinned(unknown, 1),
        Opening::Pinned(pairing(ME).client_id(), 9),
        Opening::Wire(unknown, 0),
    ] {
        let conn = bench.fresh();
        assert_eq!(bench.guard_in(Input::Opened(conn, opening)), Err(GuardError::Unknown));
    }
}

/// After the handshake a HAIL would make a second channel in a session that has room for none.
#[test]
fn guard_36_a_session_takes_a_hail_only_before_its_handshake() {
    let me = pairing(ME).client_id();
    let hail = Control::Hail { client: me, nonce: [7; 32] }.encode_clear();
    let is_refused = |bench: &mut Bench, conn| {
        bench.shown.clear();
        bench.inside(conn, hail.clone());
        assert!(!bench.shown.contains("Inside"), "the guard greets: {}", bench.shown);
        bench.closed == Some(CloseReason::Control)
    };
    // A link that is up, in both modes and with and without a client that knows of the guard.
    for opening in [Opening::Inside, Opening::Pinned(me, 1)] {
        let mut bench = Bench::new(36);
        let conn = bench.fresh();
        match opening {
            Opening::Inside => bench.dial(conn, GuardMode::Blind),
            pinned => bench.guard_in(Input::Opened(conn, pinned)).expect("a new connection"),
        }
        bench.gkx(conn);
        assert!(is_refused(&mut bench, conn), "{opening:?}");
    }
    let mut bench = Bench::new(37);
    let conn = bench.fresh();
    bench.dial(conn, GuardMode::Coins);
    let first = ke1(&bench.public(), 41);
    bench.inside(conn, first.clone());
    let peer = CoinSecret::random(bench.dice.rng()).point(CoinEncoding::X25519);
    bench.outside(conn, ke2(&first, &peer));
    bench.inside(conn, ke3(&first, &[1]));
    assert!(is_refused(&mut bench, conn), "t3 awaits an answer");
    // A pinned client has no channel at all (GUARD-32).
    let conn = bench.fresh();
    bench.guard_in(Input::Opened(conn, Opening::Pinned(me, 1))).expect("a new connection");
    assert!(is_refused(&mut bench, conn), "before the handshake");
}

/// An answering client behind its guard: the guard dials it after KE1 has passed, and checks KE2.
#[test]
fn an_inbound_handshake_is_made_with_coins_too() {
    let mut bench = Bench::new(40);
    let me = pairing(ME).client_id();
    for index in 0..3 {
        let conn = bench.fresh();
        bench.guard_in(Input::Opened(conn, Opening::Wire(me, 5))).expect("a lane");
        let dialler = CoinSecret::random(bench.dice.rng()).point(CoinEncoding::X25519);
        let first = ke1(&dialler, 41 + index);
        bench.outside(conn, first.clone());
        assert_eq!(
            bench.wire,
            std::slice::from_ref(&first),
            "the client has its coin and the frame"
        );
        let mut second = ke2(&first, &bench.public());
        if index == 2 {
            second[40] ^= 1;
            bench.inside(conn, second);
            assert_eq!(bench.closed, Some(CloseReason::Frame(FrameRuleError::Field(40))));
            return;
        }
        bench.inside(conn, second.clone());
        assert_eq!(bench.wire, [first.clone(), second]);
        bench.outside(conn, ke3(&first, &[1]));
        assert!(bench.is_pumped, "KE3 answers t2");
        bench.client_in(client::Input::Answered(conn));
        bench.guard_in(Input::Closed(conn, GuardSide::Wire)).expect("known");
        bench.client_in(client::Input::Closed(conn));
    }
}

#[test]
fn lanes_are_bounded_by_client_and_by_address() {
    let mut bench = Bench::new(41);
    let me = pairing(ME).client_id();
    let open = |bench: &mut Bench, origin| {
        let conn = bench.fresh();
        bench.guard_in(Input::Opened(conn, Opening::Wire(me, origin)))
    };
    for _ in 0..2 {
        assert_eq!(open(&mut bench, 1), Ok(()));
    }
    assert_eq!(open(&mut bench, 1), Err(GuardError::TooMany));
    for origin in 2..8 {
        assert_eq!(open(&mut bench, origin), Ok(()));
    }
    assert_eq!(open(&mut bench, 9), Err(GuardError::TooMany));
    // Nobody says anything for ten seconds: all lanes are free again.
    assert_eq!(bench.guard.deadline(), Some(bench.now.plus_ms(HANDSHAKE_MS_MAX)));
    bench.now = bench.now.plus_ms(HANDSHAKE_MS_MAX);
    bench.guard.wake(bench.now, bench.dice.rng());
    bench.drain();
    assert_eq!((bench.guard.session_count(), bench.closed), (0, Some(CloseReason::Timeout)));
    assert_eq!(open(&mut bench, 1), Ok(()));
}

/// Blind mode: GKX through the machine, dialled after G1 has passed, by a client that knows of the guard
/// and by one that does not.
#[test]
fn gkx_passes_the_machine_in_blind_mode() {
    for knows in [true, false] {
        let mut bench = Bench::new(42);
        let conn = bench.fresh();
        if knows {
            bench.dial(conn, GuardMode::Blind);
        } else {
            let opening = Opening::Pinned(pairing(ME).client_id(), 1);
            bench.guard_in(Input::Opened(conn, opening)).expect("a new connection");
        }
        bench.gkx(conn);
    }
}

#[test]
fn guard_37_a_restart_keeps_slots_points_and_counters() {
    let mut bench = Bench::new(37);
    bench.handshake(41);
    let conn = bench.fresh();
    bench.dial(conn, GuardMode::Coins);
    let before = bench.public();
    // The power goes: what was appended is all there is, the last record perhaps cut.
    for cut in [0, 1, 5] {
        let mut bytes = bench.ledger.clone();
        bytes.extend(&LedgerRecord::Unblocked(pairing(ME).client_id(), 1).encode()[..cut]);
        let (ledger, whole) = SlotLedger::load(&bytes).expect("a ledger");
        assert_eq!(whole, bench.ledger.len());
        let (guard, _) =
            Guard::start(settings(ME, GuardMode::Coins), coin_key(), ledger, bench.dice.rng());
        let mut again = Bench::new(38 + cut as u64);
        again.guard = guard;
        again.client.load_coin(&bench.rows[0].1).expect("a row");
        again.dial(CONN, GuardMode::Coins);
        assert_eq!(again.public(), before, "the slot keeps its era and its coin");
        let old = ke1(&before, 41);
        again.inside(CONN, old);
        assert_eq!(
            again.closed,
            Some(CloseReason::Frame(FrameRuleError::Field(36))),
            "and its counter"
        );
    }
    // Damage is no end of a ledger: the guard does not start, and resets nothing.
    let mut bytes = bench.ledger.clone();
    bytes[10] ^= 1;
    assert!(SlotLedger::load(&bytes).is_err());
    // A shorter form of the same.
    let (ledger, _) = SlotLedger::load(&bench.ledger).expect("a ledger");
    let short: Vec<u8> = ledger.compact_records().iter().flat_map(LedgerRecord::encode).collect();
    let (again, _) = SlotLedger::load(&short).expect("a ledger");
    assert_eq!(again.totals(), ledger.totals());
    assert_eq!(again.compact_records(), ledger.compact_records());
}

/// Two connections of one slot: the key goes out once.
#[test]
fn a_key_goes_out_once_even_if_two_connections_have_it() {
    let mut bench = Bench::new(43);
    let one = bench.fresh();
    let two = GuardConnection(99);
    bench.dial(one, GuardMode::Coins);
    let public = bench.public();
    // A tampered client opens a second connection and says the same point there.
    let mut tampered = GuardClient::new(pairing(ME), CoinEncoding::X25519);
    tampered.load_coin(&bench.rows[0].1).expect("a row");
    let honest = std::mem::replace(&mut bench.client, tampered);
    bench.dial(two, GuardMode::Coins);
    bench.client = honest;
    bench.inside(one, ke1(&public, 41));
    assert_eq!(bench.wire.len(), 1);
    bench.inside(two, ke1(&public, 42));
    assert_eq!(bench.wire.len(), 1, "{:?}", bench.closed);
    assert_eq!(bench.closed, Some(CloseReason::Refused(RefusalCode::OutOfOrder)));
}

#[test]
fn guard_49_a_destination_that_the_owner_blocks_is_refused_and_its_sessions_end() {
    let mut bench = Bench::new(49);
    let lists = |is_blocked| {
        let own = settings(ME, GuardMode::Coins);
        let destinations = own.destinations.into_iter();
        let change = |(number, dest)| (number, Destination { is_blocked, ..dest });
        Input::Lists { clients: own.clients, destinations: destinations.map(change).collect() }
    };
    let conn = bench.fresh();
    bench.dial(conn, GuardMode::Coins);
    assert!(bench.pair.is_some());
    bench.guard_in(lists(true)).expect("lists");
    assert_eq!(bench.closed, Some(CloseReason::Refused(RefusalCode::Blocked)));
    bench.client_in(client::Input::Closed(conn));
    let conn = bench.fresh();
    bench.dial(conn, GuardMode::Coins);
    assert_eq!((bench.refused, bench.pair.is_some()), (Some(RefusalCode::Blocked), false));
    bench.client_in(client::Input::Closed(conn));
    bench.guard_in(lists(false)).expect("lists");
    bench.handshake(41);
}
