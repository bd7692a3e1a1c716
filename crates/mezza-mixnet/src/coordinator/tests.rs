//! A refused input leaves a coordinator unchanged.

use alloc::vec;

use mezza_sim::{SimRng, handle_checked, variants};
use proptest::prelude::*;

use super::*;
use crate::config::SignatureSet;
use crate::config::tests::{EARLY, chain, config, refused_configs, signed, signer};
use crate::wire::frame::VERSION;
use crate::wire::frame::tests::one_of_each;

const TALK: RoundId = RoundId { service: Service::Conversation, round: 100 };
/// The time when the keys of round 100 were requested and the round is not announced yet.
const ASKED: Time = Time::from_ms(994_000);

fn coordinator(chain: Chain) -> Coordinator {
    let genesis = signed(&config(3), SignatureSet::Own, &[0, 2]);
    Coordinator::new(signer(40), chain, Vec::from([genesis]))
}

/// Returns a coordinator that requested the keys of round 100 from the mixes and welcomed client 1.
fn busy() -> Coordinator {
    let mut busy = coordinator(chain());
    let rng = &mut SimRng::new(1, 0);
    busy.wake(ASKED, rng.rng());
    busy.handle(hello(1), ASKED, rng.rng()).expect("for the first time");
    assert!(busy.rounds.contains_key(&TALK));
    busy
}

const fn hello(client: ConnectionId) -> Input {
    Input::FromClient(client, Frame::Hello { version: VERSION, config: [0; 32] })
}

const fn from_mix(round: u64, body: FrameBody) -> Input {
    Input::FromMix(0, Frame::Round(RoundId { round, ..TALK }, body))
}

fn refusals() -> Vec<(CoordinatorError, Coordinator, Input)> {
    use CoordinatorError::{Signature, Stranger, TooOften, Unexpected, UnknownRound};
    let alarm = FrameBody::Alarm { position: 0, signature: [0; 64] };
    let reason = AbortReason::Lost;
    let abort = FrameBody::Abort { position: 0, reason, signature: [0; 64] };
    let get = Frame::Round(TALK, FrameBody::Fetch { bucket: 1 });
    let mut all = vec![
        (UnknownRound, busy(), from_mix(999, FrameBody::RoundKey([1; 32]))),
        (UnknownRound, busy(), from_mix(999, alarm.clone())),
        (Unexpected, busy(), from_mix(100, FrameBody::Signature([1; 64]))),
        (Unexpected, busy(), Input::FromStore(Frame::Round(TALK, FrameBody::Stored))),
        (Unexpected, busy(), Input::FromClient(1, Frame::Round(TALK, FrameBody::NewRound))),
        (Stranger, busy(), Input::Gone(7)),
        (Stranger, busy(), Input::FromClient(7, get)),
        (TooOften, busy(), hello(1)),
        (Signature, busy(), from_mix(100, alarm)),
        (Signature, busy(), from_mix(100, abort)),
    ];
    all.extend(refused_configs().into_iter().map(|(error, chain, config)| {
        (CoordinatorError::Config(error), coordinator(chain), Input::Config(config))
    }));
    all
}

#[test]
fn every_refusal_leaves_the_coordinator_as_it_was() {
    let mut produced = Vec::new();
    for (error, mut entry, input) in refusals() {
        let outcome = handle_checked(&mut entry, input, EARLY, SimRng::new(2, 0).rng());
        assert_eq!(outcome, Err(error));
        produced.push(error);
    }
    let all = variants!(CoordinatorError: [
        CoordinatorError::UnknownRound,
        CoordinatorError::Unexpected,
        CoordinatorError::Stranger,
        CoordinatorError::TooOften,
        CoordinatorError::Signature,
        CoordinatorError::Config(ChainError::Foreign),
        CoordinatorError::Config(ChainError::Rollback),
        CoordinatorError::Config(ChainError::Gap),
        CoordinatorError::Config(ChainError::Unsigned { .. }),
        CoordinatorError::Config(ChainError::TooMany),
        CoordinatorError::Config(ChainError::Full),
        CoordinatorError::Config(ChainError::Rounds),
    ] never [CoordinatorError::Config(ChainError::NotPinned)]);
    all.are_all_in(&produced);
}

/// Returns any input from any party; three clients and three mixes are among them.
fn anything(dice: &mut SimRng) -> Input {
    let service = *dice.pick(&Service::ALL).expect("three");
    let id = RoundId { service, round: dice.between(99, 102) };
    let bytes = alloc::vec![7; dice.between(0, 500) as usize];
    let frames = one_of_each(id, bytes, dice.between(0, 3) as u32);
    let frame = dice.pick(&frames).expect("frames").clone();
    match dice.between(0, 39) {
        0 => Input::MixLost(dice.between(0, 3) as u8),
        1 => Input::StoreLost,
        2 => Input::Stop,
        3..6 => Input::Gone(dice.between(1, 3)),
        6..12 => Input::FromStore(frame),
        12..16 => hello(dice.between(1, 3)),
        16..22 => from_mix(id.round, FrameBody::RoundKey([1; 32])),
        22..30 => Input::FromMix(dice.between(0, 3) as u8, frame),
        _ => Input::FromClient(dice.between(1, 3), frame),
    }
}

proptest! {
    #[test]
    fn whatever_comes_a_refusal_changes_nothing(seed: u64, steps in 1..80_usize) {
        let mut entry = busy();
        let mut now = ASKED;
        let dice = &mut SimRng::new(seed, 1);
        for _ in 0..steps {
            let input = anything(dice);
            let _ = handle_checked(&mut entry, input, now, dice.rng());
            if dice.chance(100) {
                now = now.plus_ms(dice.between(0, 6_000));
                entry.wake(now, dice.rng());
                while entry.poll().is_some() {}
            }
        }
    }
}
