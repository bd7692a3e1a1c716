//! A refused input leaves a mix unchanged.

use alloc::vec;

use mezza_lanes::portable;
use mezza_sim::{SimRng, handle_checked, variants};
use proptest::prelude::*;

use super::*;
use crate::config::tests::{EARLY, chain, config, refused_configs, signer};
use crate::wire::Settings;
use crate::wire::frame::COORDINATOR;
use crate::wire::frame::tests::one_of_each;

const TALK: RoundId = RoundId { service: Service::Conversation, round: 100 };

/// Returns the first of three mixes.
fn mix(chain: Chain, floor: NoiseFloor) -> Mix {
    let signed = BTreeMap::new();
    Mix::new(MixOptions { signer: signer(50), chain, signed, floor, job_items: 7 })
}

fn from_coordinator(round: u64, body: FrameBody) -> Input {
    Input::Frame(Neighbour::Coordinator, Frame::Round(RoundId { round, ..TALK }, body))
}

/// Returns a mix that created its key for round 100, and the settings that it would sign.
fn keyed(floor: NoiseFloor) -> (Mix, Settings) {
    let mut mix = mix(chain(), floor);
    let input = from_coordinator(100, FrameBody::NewRound);
    mix.handle(input, EARLY, SimRng::new(1, 0).rng()).expect("a new round");
    let key = match mix.poll() {
        Some(Output::Frame(_, Frame::Round(_, FrameBody::RoundKey(key)))) => key,
        other => panic!("{other:?}"),
    };
    let config = config(3);
    let (policy, of) = config.find_policy(TALK.service).expect("a service");
    let settings = Settings {
        config: config.hash(),
        id: TALK,
        collect_ms: of.collect_ms,
        slots: of.slots,
        buckets: of.buckets,
        policy,
        keys: Vec::from([key, [1; 32], [2; 32]]),
    };
    (mix, settings)
}

/// Returns for each refusal a mix and the input that it refuses.
fn refusals() -> Vec<(MixError, Mix, Input)> {
    let idle = || mix(chain(), NoiseFloor::None);
    let begun = || keyed(NoiseFloor::None);
    let full = {
        let mut full = idle();
        for round in 100..104 {
            let input = from_coordinator(round, FrameBody::NewRound);
            full.handle(input, EARLY, SimRng::new(2, 0).rng()).expect("four may be under way");
        }
        full
    };
    let other = Settings { slots: 2, ..begun().1 };
    let strict = NoiseFloor::Promise { epsilon: 0.0, delta: 0.0, rounds: [1; 3] };
    let (quiet, weak) = keyed(strict);
    let signature = [0; 64];
    let abort = FrameBody::Abort { position: COORDINATOR, reason: AbortReason::Lost, signature };
    let sign = |settings| from_coordinator(100, FrameBody::Sign(settings));
    let new = |round| from_coordinator(round, FrameBody::NewRound);
    let hello = Frame::Hello { version: 1, config: [0; 32] };
    let mut all = vec![
        (MixError::UnknownRound, idle(), Input::Lost(TALK)),
        (MixError::Unasked, begun().0, Input::Stored(TALK)),
        (MixError::Unexpected, idle(), Input::Frame(Neighbour::Previous, hello)),
        (MixError::Unexpected, begun().0, Input::Frame(Neighbour::Store, stored())),
        (MixError::NoConfig, idle(), new(7)),
        (MixError::Round, begun().0, new(100)),
        (MixError::TooMany, full, new(104)),
        (MixError::Clock, idle(), new(1_000)),
        (MixError::Settings, begun().0, sign(other)),
        (MixError::Noise, quiet, sign(weak)),
        (MixError::Signature, begun().0, from_coordinator(100, abort)),
    ];
    all.extend(refused_configs().into_iter().map(|(error, chain, config)| {
        (MixError::Config(error), mix(chain, NoiseFloor::None), Input::Config(config))
    }));
    all
}

const fn stored() -> Frame {
    Frame::Round(TALK, FrameBody::Stored)
}

#[test]
fn every_refusal_leaves_the_mix_as_it_was() {
    let mut produced = Vec::new();
    for (error, mut mix, input) in refusals() {
        let outcome = handle_checked(&mut mix, input, EARLY, SimRng::new(3, 0).rng());
        assert_eq!(outcome, Err(error));
        produced.push(error);
    }
    let all = variants!(MixError: [
        MixError::UnknownRound,
        MixError::Unasked,
        MixError::Unexpected,
        MixError::NoConfig,
        MixError::Round,
        MixError::TooMany,
        MixError::Clock,
        MixError::Settings,
        MixError::Noise,
        MixError::Signature,
        MixError::Config(ChainError::Foreign),
        MixError::Config(ChainError::Rollback),
        MixError::Config(ChainError::Gap),
        MixError::Config(ChainError::Unsigned { .. }),
        MixError::Config(ChainError::TooMany),
        MixError::Config(ChainError::Full),
        MixError::Config(ChainError::Rounds),
    ] never [MixError::Config(ChainError::NotPinned)]);
    all.are_all_in(&produced);
}

/// A mix in a hostile environment: its outputs are carried out late, wrongly or not at all.
struct Chaos {
    mix: Mix,
    settings: Settings,
    jobs: Vec<Job>,
    now: Time,
    dice: SimRng,
}

impl Chaos {
    fn new(seed: u64) -> Self {
        let (mix, settings) = keyed(NoiseFloor::None);
        Self { mix, settings, jobs: Vec::new(), now: EARLY, dice: SimRng::new(seed, 0) }
    }

    fn id(&mut self) -> RoundId {
        let service = *self.dice.pick(&Service::ALL).expect("three");
        let id = RoundId { service, round: self.dice.between(98, 104) };
        if self.dice.chance(800) { TALK } else { id }
    }

    /// Returns a random input, most often one that advances the round.
    fn input(&mut self) -> Input {
        use Neighbour::{Coordinator, Next, Previous, Store};
        let id = self.id();
        match self.dice.between(0, 19) {
            0 => Input::LinkLost(*self.dice.pick(&[Store, Next]).expect("two")),
            1 => Input::Lost(RoundId { round: 99, ..id }),
            2..5 => Input::Stored(id),
            5 => Input::Frame(Coordinator, Frame::Round(id, FrameBody::NewRound)),
            6..8 => {
                Input::Frame(Coordinator, Frame::Round(id, FrameBody::Sign(self.settings.clone())))
            }
            8..14 if !self.jobs.is_empty() => self.job(),
            _ => {
                let bytes = alloc::vec![7; self.dice.between(0, 40) as usize];
                let frames = one_of_each(id, bytes, self.dice.between(0, 3) as u32);
                let from = *self.dice.pick(&[Previous, Next, Coordinator, Store]).expect("four");
                Input::Frame(from, self.dice.pick(&frames).expect("frames").clone())
            }
        }
    }

    /// Returns the end of a job, sometimes with the result of another job.
    fn job(&mut self) -> Input {
        let at = self.dice.between(0, self.jobs.len() as u64 - 1) as usize;
        let job = self.jobs.swap_remove(at);
        let other = self.jobs.first().filter(|_| self.dice.chance(100));
        let done = other.unwrap_or(&job).run(portable());
        Input::Done(job, done)
    }

    fn step(&mut self) {
        let input = self.input();
        let _ = handle_checked(&mut self.mix, input, self.now, self.dice.rng());
        while let Some(output) = self.mix.poll() {
            if let Output::Job(job) = output {
                self.jobs.push(job);
            }
        }
        if self.dice.chance(20) {
            self.now = self.now.plus_ms(self.dice.between(0, 20_000));
            self.mix.wake(self.now, self.dice.rng());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn whatever_comes_a_refusal_changes_nothing(seed: u64, steps in 1..60_usize) {
        let mut chaos = Chaos::new(seed);
        (0..steps).for_each(|_| chaos.step());
    }
}

#[test]
fn a_snapshot_holds_what_waits_to_be_sent_and_the_secret_of_a_round() {
    let begun = |seed| {
        let mut mix = mix(chain(), NoiseFloor::None);
        let input = from_coordinator(100, FrameBody::NewRound);
        mix.handle(input, EARLY, SimRng::new(seed, 0).rng()).expect("a new round");
        mix
    };
    let mut mix = begun(1);
    assert!(mix.snapshot() == begun(1).snapshot());
    assert!(mix.snapshot() != begun(2).snapshot(), "another secret");
    let before = mix.snapshot();
    drop(mix.poll());
    assert!(mix.snapshot() != before, "a frame was taken out of the queue");
}
