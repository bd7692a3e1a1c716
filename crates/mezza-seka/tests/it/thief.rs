//! Computations of a thief of states and of chance, and the end of his access: the attacks of the
//! document, carried out. The thief computes with code of his own (`attacker.rs`).

use mezza_core::Time;
use mezza_seka::wire::{Ke1, Ke2, kind_of};
use mezza_seka::{PeerEvent, PeerInput};

use crate::attacker::{ke2, secrets};
use crate::stage::{Default, Side, exchange, paired, run};

/// An exchange that the thief only watches: KE1 and KE2.
fn watched(sides: &mut [Side<Default>; 2], now: Time) -> (Vec<u8>, Vec<u8>) {
    let mut frames = Vec::new();
    let _ = sides[0].give(PeerInput::Rekey, now);
    run(sides, now, 3_000, |_, frame| {
        frames.push(frame.to_vec());
        true
    });
    let of =
        |kind| frames.iter().find(|frame| kind_of(frame) == Some(kind)).expect("a frame").clone();
    (of(Ke1::KIND), of(Ke2::KIND))
}

fn state(side: &Side<Default>) -> [u8; 32] {
    *side.peer.stolen_states().0
}

/// State and dice of one side: everything of the next exchange follows. One more exchange that he only
/// watches, with good dice, and nothing does.
#[test]
fn one_watched_exchange_with_good_dice_locks_the_thief_out() {
    let (mut sides, now) = paired::<Default>();
    // The key that lay ready since the pairing is used up.
    assert!(exchange(&mut sides, now));
    let now = now.plus_ms(10_000);
    let stolen = state(&sides[0]);
    let (ke1, answer) = watched(&mut sides, now);
    let tapes = sides[0].tapes.clone();
    let known = tapes.iter().map(|scalar| secrets(&stolen, scalar, &ke1, &answer));
    let known: Vec<_> = known.map(|(next, _)| next).collect();
    assert!(known.contains(&state(&sides[0])), "the attack succeeds");

    let (ke1, answer) = watched(&mut sides, now.plus_ms(10_000));
    let new = state(&sides[0]);
    assert_eq!(new, state(&sides[1]));
    // He knows the state before and every key but those of this exchange: the last one that he saw lay
    // ready for it.
    let old = &tapes[..tapes.len() - 1];
    for before in known {
        for scalar in old {
            assert_ne!(secrets(&before, scalar, &ke1, &answer).0, new);
        }
    }
}

/// He has the state of one side and answers in the place of the other: he is believed (KCI), and when he
/// goes, the states are split. That is an alarm, never a healing.
#[test]
fn a_thief_who_answers_is_believed_and_splits_the_states() {
    let (mut sides, now) = paired::<Default>();
    let stolen = state(&sides[0]);
    let _ = sides[0].give(PeerInput::Rekey, now);
    let ke1 = sides[0].sent.remove(0);
    let answer = ke2(&stolen, &ke1, &[0x44; 32]);
    assert_eq!(sides[0].hear(&answer, now), Ok(()));
    let (next, _) = secrets(&stolen, &[0x44; 32], &ke1, &answer);
    assert_eq!(state(&sides[0]), next, "the attack succeeds");
    // Without him the first exchange fails on both sides.
    sides[0].sent.clear();
    let now = now.plus_ms(100_000);
    assert!(!exchange(&mut sides, now));
    run(&mut sides, now, 300_000, |_, _| true);
    assert!(sides[1].events.contains(&PeerEvent::NotRecognised));
    assert_ne!(state(&sides[0]), state(&sides[1]));
}

/// A state that is stolen now opens nothing of before: what was derived is gone from both sides.
#[test]
fn a_state_that_is_stolen_now_opens_nothing_of_before() {
    let (mut sides, now) = paired::<Default>();
    let before = state(&sides[0]);
    let (ke1, answer) = watched(&mut sides, now);
    let stolen = state(&sides[0]);
    assert_ne!(stolen, before);
    // Even with the private keys of that exchange the later state does not give its secrets.
    for scalar in sides[0].tapes.iter().chain(&sides[1].tapes) {
        assert_ne!(secrets(&stolen, scalar, &ke1, &answer).0, stolen);
    }
}
