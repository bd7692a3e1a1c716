//! Frames, records and logs of a guard by itself: nothing on the wire, and no secret anywhere.

use mezza_core::Machine as _;
use mezza_guard::client;
use mezza_guard::coin::{CoinEra, SlotIndex};
use mezza_guard::guard::{GuardSide, HANDSHAKE_MS_MAX, Input, Opening, Output};
use mezza_guard::ledger::DAY_MS;
use mezza_guard::wire::control::GuardMode;

use crate::bench::{Bench, ME, coin_key, slot_name};
use crate::link::{ke1, pairing};

/// [`Bench`] looks for the origin of each frame that leaves; here is everything else that may happen to a
/// guard, and none of it makes one.
#[test]
fn guard_33_nothing_leaves_but_what_the_client_has_said() {
    let mut bench = Bench::new(33);
    bench.handshake(41);
    let conn = bench.fresh();
    bench.dial(conn, GuardMode::Blind);
    bench.gkx(conn);
    // A client that is silent, a stranger who dials in, an owner at work, and a clock that goes on.
    let silent = bench.fresh();
    let inbound = bench.fresh();
    let me = pairing(ME).client_id();
    let peer = [9; 32];
    let inputs = [
        Input::Opened(silent, Opening::Inside),
        Input::Opened(inbound, Opening::Wire(me, 3)),
        Input::Frame(inbound, GuardSide::Wire, ke1(&peer, 42)),
        Input::Dialled(inbound),
        Input::Unblock(me, 1),
        Input::ResetSlot(slot_name()),
        Input::Closed(inbound, GuardSide::Wire),
    ];
    let mut said = 0;
    for input in inputs {
        bench.guard.handle(input, bench.now, bench.dice.rng()).expect("taken");
        said += outputs(&mut bench);
    }
    for ms in [HANDSHAKE_MS_MAX, DAY_MS] {
        bench.now = bench.now.plus_ms(ms);
        bench.guard.wake(bench.now, bench.dice.rng());
        said += outputs(&mut bench);
    }
    // DialClient and HELLO; unblocked, reset; two that end.
    assert_eq!((said, bench.guard.session_count()), (6, 1));
}

/// How many outputs there are; none of them is for the wire, and one input makes at most five
/// (GUARD-36).
fn outputs(bench: &mut Bench) -> usize {
    let all: Vec<Output> = std::iter::from_fn(|| bench.guard.poll()).collect();
    assert!(!all.iter().any(|out| matches!(out, Output::Send(_, GuardSide::Wire, _))), "{all:?}");
    assert!(all.len() <= 5, "{all:?}");
    all.len()
}

/// A secret in every form that a file or a log might have it in.
fn shows(place: &[u8], secret: &[u8]) -> bool {
    let list = format!("{:?}", &secret[..8]);
    let forms = [
        secret[..8].to_vec(),
        data_encoding::HEXLOWER.encode(&secret[..8]).into_bytes(),
        data_encoding::BASE64.encode(&secret[..6]).into_bytes(),
        list.trim_matches(['[', ']']).as_bytes().to_vec(),
    ];
    forms.iter().any(|form| place.windows(form.len()).any(|part| part == form))
}

#[test]
fn guard_34_no_secret_is_stored_or_shown() {
    let mut bench = Bench::new(34);
    let shared = bench.handshake(41);
    // The coin of that handshake, and one that is out and not used yet.
    let era = CoinEra(bench.ledger[2..34].try_into().expect("the first record is the era"));
    let coin = |index| {
        *coin_key().in_era(&era).derive_rho(&SlotIndex { name: slot_name(), index }).encode()
    };
    let conn = bench.fresh();
    bench.dial(conn, GuardMode::Coins);
    let public = bench.public();
    let z = &bench.rows[0].1[43..];
    let secrets = [
        ("key of all coins", vec![9; 32]),
        ("key of the pairing", vec![ME; 32]),
        ("secret of a handshake", shared),
        ("coin", coin(0).to_vec()),
        ("coin that waits", coin(1).to_vec()),
        ("secret of the client", z.to_vec()),
    ];
    // A refused handshake, and one in blind mode.
    let first = ke1(&public, 42);
    bench.inside(conn, first.clone());
    bench.guard_in(Input::Closed(conn, GuardSide::Wire)).expect("known");
    bench.client_in(client::Input::Closed(conn));
    let conn = bench.fresh();
    bench.dial(conn, GuardMode::Blind);
    bench.gkx(conn);
    let all = format!("{:?} {:?} {:?}", bench.guard, bench.guard.ledger(), bench.events);
    bench.shown.push_str(&all);
    for (name, secret) in secrets {
        assert!(!shows(&bench.ledger, &secret), "the ledger holds the {name}");
        assert!(!shows(bench.shown.as_bytes(), &secret), "a log would show the {name}");
    }
    // The search finds what is there: a key on the wire, and a point in the ledger.
    assert!(shows(bench.shown.as_bytes(), &public) && shows(&bench.ledger, &era.0));
    // Bodies of records pass, and are not kept.
    assert!(!shows(&bench.ledger, &[7; 32]));
}
