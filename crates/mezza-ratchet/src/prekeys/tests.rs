//! A refused input leaves the prekeys unchanged.

use alloc::vec::Vec;

use mezza_core::{PortableBackend, PublicKey};
use mezza_sim::{SimRng, handle_checked, variants};
use proptest::prelude::*;

use super::*;

const NOW: Time = Time::from_ms(1_800_000_000_000);

fn prekeys(rng: &mut SimRng) -> Prekeys {
    Prekeys::new(IdentityKeyPair::new(StaticKey::random::<PortableBackend>(rng.rng())))
}

fn fresh(spk: usize, opk: usize, rng: &mut SimRng) -> Input {
    let mut draw = |n| (0..n).map(|_| StaticKey::random::<PortableBackend>(rng.rng())).collect();
    Input::Fresh { spk: draw(spk), opk: draw(opk) }
}

#[test]
fn every_refusal_leaves_the_prekeys_as_they_were() {
    let rng = &mut SimRng::new(1, 0);
    let mut prekeys = prekeys(rng);
    let mut refused: Vec<PrekeysError> = Vec::new();
    let input = fresh(0, 0, rng);
    refused.extend(handle_checked(&mut prekeys, input, NOW, rng.rng()).err());
    prekeys.wake(NOW, rng.rng());
    let suites = prekeys.suites.len();
    for (spk, opk) in [(suites + 1, 1), (suites - 1, 1), (suites, OPK_STOCK + 1)] {
        let input = fresh(spk, opk, rng);
        refused.extend(handle_checked(&mut prekeys, input, NOW, rng.rng()).err());
    }
    assert_eq!(refused.len(), 4);
    variants!(PrekeysError: [PrekeysError::Unasked]).are_all_in(&refused);
}

#[derive(Clone, Debug)]
enum Op {
    Stock(u32),
    Rotate,
    Refill(u32),
    Fresh(usize, usize),
    Wake(u64),
    Drain,
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        (0..120_u32).prop_map(Op::Stock),
        Just(Op::Rotate),
        (0..120_u32).prop_map(Op::Refill),
        (0..4_usize, 0..4_usize).prop_map(|(spk, opk)| Op::Fresh(spk, opk)),
        (0..40_u64).prop_map(Op::Wake),
        Just(Op::Drain),
    ]
}

proptest! {
    #[test]
    fn whatever_comes_a_refusal_changes_nothing(ops in proptest::collection::vec(op(), 1..40)) {
        let rng = &mut SimRng::new(2, 0);
        let mut prekeys = prekeys(rng);
        let mut now = NOW;
        for op in ops {
            let input = match op {
                Op::Stock(left) => Input::Stock(left),
                Op::Rotate => Input::Rotate,
                Op::Refill(left) => Input::Refill(left),
                Op::Fresh(spk, opk) => fresh(spk, opk, rng),
                Op::Wake(days) => {
                    now = now.plus_ms(days * Time::DAY_MS);
                    prekeys.wake(now, rng.rng());
                    continue;
                }
                Op::Drain => {
                    while prekeys.poll().is_some() {}
                    continue;
                }
            };
            let _ = handle_checked(&mut prekeys, input, now, rng.rng());
        }
    }
}

/// A first message without a one-time key under this signed prekey.
fn first(spk_id: u32, suite: SuiteId) -> FirstMessageHeader {
    let key = || PublicKey([9; 32]);
    let identity = key();
    let base = key();
    FirstMessageHeader {
        suite,
        identity,
        base,
        spk_id,
        opk_id: 0,
        list: None,
        registration: 0,
        kem: None,
    }
}

#[test]
fn ratchet_74_a_half_full_memory_replaces_the_prekeys() {
    let rng = &mut SimRng::new(3, 0);
    let mut prekeys = prekeys(rng);
    prekeys.wake(NOW, rng.rng());
    let suites = prekeys.suites.len();
    prekeys.handle(fresh(suites, OPK_STOCK, rng), NOW, rng.rng()).expect("asked for");
    while prekeys.poll().is_some() {}
    let suite = prekeys.spks[0].suite;
    let id = prekeys.spks[0].id;
    let filled = (2..SEEN_ROTATE as u128).map(u128::to_be_bytes).collect();
    prekeys.seen.insert(id, filled);
    let mut consume = |base: u8| {
        let first = FirstMessageHeader { base: PublicKey([base; 32]), ..first(id, suite) };
        prekeys.consume_prekey(&first, NOW, &mut Changes::new());
        let outputs: Vec<_> = core::iter::from_fn(|| prekeys.poll()).collect();
        outputs.iter().any(|output| matches!(output, Output::Need { spk, .. } if *spk == suites))
    };
    assert!(!consume(1), "one below the half");
    assert!(consume(2), "the half");
    assert!(!consume(3), "asked once");
    prekeys.handle(fresh(suites, OPK_STOCK, rng), NOW, rng.rng()).expect("asked for");
    assert!(prekeys.current_prekeys().all(|spk| spk.id != id));
    assert!(!prekeys.rotation_due(NOW));
}
