//! Rules of the mix, three of them in a row: who talks, and what is signed.

use std::cell::RefCell;
use std::rc::Rc;

use mezza_core::Machine as _;
use mezza_mixnet::config::{Config, Mode, SignatureSet, SignedConfig};
use mezza_mixnet::job::JobOutput;
use mezza_mixnet::mix::{Input, MixError, Neighbour, NoiseFloor};
use mezza_mixnet::privacy::NoisePreset;
use mezza_mixnet::wire::{AbortReason, Frame, FrameBody};
use mezza_mixnet::{RoundId, Service};
use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng as _;

use crate::fixture::{
    Net, OPEN, TRAPS, config, make_accesses, make_onions, mix_with, open_replies, signer,
};

mod batch;
mod replies;

const TALK: RoundId = RoundId { service: Service::Conversation, round: 100 };

/// A round of conversations over these drops: what each client sent, and what it got.
fn talk(net: &mut Net, id: RoundId, drops: &[u8]) -> (Vec<Vec<u8>>, Vec<Option<Vec<u8>>>) {
    let settings = net.announce_round(id);
    let mut rng = ChaCha20Rng::seed_from_u64(id.round);
    let inner = make_accesses(drops, &mut rng);
    let (onions, back) = make_onions(&settings, &inner, &mut rng);
    net.send_batch(id, &onions);
    let replies = net.take_replies();
    let sent = inner.chunks_exact(272).map(|access| access[16..].to_vec()).collect();
    (sent, if replies.is_empty() { Vec::new() } else { open_replies(&replies, &back) })
}

/// The aborts that left the network: which position, why.
fn aborts(net: &mut Net) -> Vec<(u8, AbortReason)> {
    net.take_frames(|body| match body {
        FrameBody::Abort { position, reason, .. } => Some((position, reason)),
        _ => None,
    })
}

#[test]
fn mix_9_drops_swap_echo_and_refuse_the_third() {
    for mixes in [1, 3] {
        let mut net = Net::new(config(mixes), 1);
        let (sent, got) = talk(&mut net, TALK, &[1, 2, 1, 3, 3, 3]);
        let from = |i: usize| sent.iter().position(|cell| Some(cell) == got[i].as_ref());
        assert_eq!([0, 1, 2].map(from), [Some(2), Some(1), Some(0)], "{mixes} mixes");
        // Which two of the three came first is up to the permutations.
        let mut third = [3, 4, 5].map(|i| (from(i), i));
        third.sort_unstable();
        let [(None, _), (Some(a), b), (Some(c), d)] = third else { panic!("{third:?}") };
        assert_eq!((a, b), (d, c), "the other two swapped");
        assert!(got.iter().all(Option::is_some), "the third got something, too");
        assert!(net.refused.is_empty(), "{:?}", net.refused);
        assert!(net.mixes.iter().all(|mix| mix.rounds().next().is_none()), "all is wiped");
    }
}

#[test]
fn an_empty_round_runs_on_noise_alone() {
    let mut net = Net::new(config(3), 2);
    assert!(talk(&mut net, TALK, &[]).1.is_empty());
    let ends =
        net.take_frames(|body| matches!(body, FrameBody::RepliesEnd { count: 0 }).then_some(()));
    assert_eq!((ends.len(), net.refused.len()), (1, 0));
}

#[test]
fn the_order_in_which_jobs_end_changes_no_byte() {
    let run = |shuffled| {
        let mut net = Net::new(config(3), 3);
        net.shuffled = shuffled;
        let drops = (0..40).map(|i| i / 2).collect::<Vec<_>>();
        let got = talk(&mut net, TALK, &drops).1;
        assert!(got.iter().all(Option::is_some));
        got
    };
    assert_eq!(run(false), run(true));
}

#[test]
fn mix_10_frames_leave_in_order_whichever_is_ready_first() {
    // Enough noise for two frames.
    let mut config = config(3);
    config.services[0].mu = 300;
    let mut net = Net::new(config, 3);
    net.shuffled = true;
    let got = talk(&mut net, TALK, &[1, 1]).1;
    assert_eq!((got.len(), aborts(&mut net)), (2, vec![]));
    assert!(got.iter().all(Option::is_some));
}

#[test]
fn a_job_that_runs_twice_gives_the_same() {
    let mut net = Net::new(config(3), 4);
    net.watch = Some(Box::new(|_, job, done| {
        let again = job.run(mezza_lanes::portable());
        match (done, &again) {
            (JobOutput::Noise(a), JobOutput::Noise(b)) => assert_eq!(a.onions, b.onions),
            (JobOutput::Unwrap(a), JobOutput::Unwrap(b)) => {
                assert!(a.inner_onions().eq(b.inner_onions()));
            }
            (JobOutput::Shuffle(a), JobOutput::Shuffle(b)) => {
                assert_eq!((&a.kept, &a.order), (&b.kept, &b.order));
            }
            (JobOutput::Gather(a), JobOutput::Gather(b)) => {
                assert_eq!((a.offset, &a.bytes), (b.offset, &b.bytes));
            }
            (JobOutput::Match(a), JobOutput::Match(b)) => assert_eq!(a.cells, b.cells),
            (JobOutput::Seal(a), JobOutput::Seal(b)) => assert_eq!(a, b),
            (JobOutput::Trap(a), JobOutput::Trap(b)) => assert_eq!(a, b),
            (JobOutput::Table(a), JobOutput::Table(b)) => assert_eq!(a.is_some(), b.is_some()),
            _ => panic!("another kind of result"),
        }
    }));
    talk(&mut net, TALK, &[1, 1, 2, 3, 3, 3]);
}

#[test]
fn mix_7_bad_onions_are_answered_like_all_others() {
    let mut config = config(3);
    config.services[0].scale = 0;
    let mut net = Net::new(config, 5);
    let settings = net.announce_round(TALK);
    let left = Rc::new(RefCell::new(Vec::new()));
    let counts = Rc::clone(&left);
    net.meddler = Some(Box::new(move |at, _, frame| {
        if let Frame::Round(_, FrameBody::BatchStart { count, .. }) = frame {
            counts.borrow_mut().push((at, count));
        }
        Some(frame)
    }));
    let mut rng = ChaCha20Rng::seed_from_u64(1);
    let inner = make_accesses(&[1, 1, 2, 2], &mut rng);
    let (mut onions, back) = make_onions(&settings, &inner, &mut rng);
    onions[2 * 416 + 99] ^= 1;
    onions.extend_from_within(..416); // Alice's onion a second time
    net.send_batch(TALK, &onions);
    let replies = net.take_replies();
    assert_eq!(replies.len(), 5 * 304, "a reply for each");
    let got = open_replies(&replies[..4 * 304], &back);
    let cell = |i: usize| Some(inner[i * 272 + 16..(i + 1) * 272].to_vec());
    assert_eq!(got, [cell(1), cell(0), None, cell(3)], "the copy took no place in the drop");
    let random = [&replies[2 * 304..3 * 304], &replies[4 * 304..]];
    assert!(random.iter().all(|reply| reply.iter().any(|byte| *byte != 0)));
    assert_ne!(random[0], random[1]);
    // Three of the five go on, and the noise of each mix.
    let noise = 2 * 20 + TRAPS.message_count();
    assert_eq!(*left.borrow(), [(0, 3 + noise), (1, 3 + 2 * noise)]);
}

#[test]
fn mix_4_settings_that_are_not_the_configs_are_not_signed() {
    let mut net = Net::new(config(3), 6);
    (0..3).for_each(|at| net.send_frame(at, Neighbour::Coordinator, TALK, FrameBody::NewRound));
    let keys = net.take_frames(|body| match body {
        FrameBody::RoundKey(key) => Some(key),
        _ => None,
    });
    let good = net.settings(TALK, keys);
    let change = |change: fn(&mut mezza_mixnet::wire::Settings)| {
        let mut settings = good.clone();
        change(&mut settings);
        settings
    };
    for wrong in [
        change(|s| s.config[0] ^= 1),
        change(|s| s.keys[1][0] ^= 1),
        change(|s| s.keys.swap(0, 1)),
        change(|s| s.keys.truncate(2)),
        change(|s| s.slots = 2),
        change(|s| s.collect_ms += 1),
        change(|s| s.policy = 1),
    ] {
        let before = format!("{:?}", net.mixes[1]);
        net.send_frame(1, Neighbour::Coordinator, TALK, FrameBody::Sign(wrong));
        assert_eq!(net.refused.pop(), Some((1, MixError::Settings)));
        assert_eq!(format!("{:?}", net.mixes[1]), before);
    }
    net.send_frame(1, Neighbour::Coordinator, TALK, FrameBody::Sign(good));
    assert_eq!(net.refused, []);
}

#[test]
fn mix_4_noise_below_the_own_floor_is_not_signed() {
    let allowed = |law: (u32, u32), mode, floor: NoiseFloor| {
        let mut config = config(1);
        config.services.iter_mut().for_each(|policy| NoisePreset::Standard.fill_policy(policy));
        let talk = &mut config.services[0];
        (talk.mu, talk.scale, talk.mode) = (law.0, law.1, mode);
        floor.allows_config(&config)
    };
    let standard = NoiseFloor::STANDARD;
    let relaxed = NoiseFloor::RELAXED;
    assert!(allowed((51_962, 7_784), Mode::Gauss, standard));
    assert!(!allowed((51_952, 7_784), Mode::Gauss, standard));
    assert!(!allowed((51_962, 0), Mode::Gauss, standard));
    assert!(!allowed((16_458, 2_408), Mode::Gauss, standard));
    assert!(allowed((16_458, 2_408), Mode::Gauss, relaxed));
    assert!(!allowed((600_000, 30_000), Mode::Paper, standard));
    // So much of it that it would do, if it counted.
    assert!(allowed((1_000_000, 30_000), Mode::Gauss, standard));
    assert!(!allowed((1_000_000, 30_000), Mode::Paper, standard));
    assert!(allowed((0, 0), Mode::Paper, NoiseFloor::None));
    let mut net = Net::new(config(1), 7);
    net.mixes[0] = mix_with(&net.config, 0, NoiseFloor::STANDARD);
    net.send_frame(0, Neighbour::Coordinator, TALK, FrameBody::NewRound);
    let keys = net.take_frames(|body| match body {
        FrameBody::RoundKey(key) => Some(key),
        _ => None,
    });
    let settings = net.settings(TALK, keys);
    net.send_frame(0, Neighbour::Coordinator, TALK, FrameBody::Sign(settings));
    assert_eq!(net.refused, [(0, MixError::Noise)]);
}

/// Asks for the keys of a round.
fn keys(net: &mut Net, id: RoundId) -> Vec<[u8; 32]> {
    (0..net.mixes.len())
        .for_each(|at| net.send_frame(at, Neighbour::Coordinator, id, FrameBody::NewRound));
    net.take_frames(|body| match body {
        FrameBody::RoundKey(key) => Some(key),
        _ => None,
    })
}

#[test]
fn mix_4_a_round_is_signed_under_the_config_that_it_began_under() {
    let mut net = Net::new(config(1), 6);
    let keys = keys(&mut net, TALK);
    let seq = net.config.seq + 1;
    let prev = net.config.hash();
    let valid_from = OPEN.minus_ms(5_500);
    let mut next = Config { seq, prev, valid_from, ..net.config.clone() };
    for service in &mut next.services {
        service.base_time = next.valid_from;
        service.mu = 40;
    }
    let mut signed = SignedConfig::new(next.clone());
    signed.add_signature(SignatureSet::Predecessor, 0, &signer(1));
    net.input(0, Input::Config(signed));
    assert_eq!(net.refused, []);
    net.now = OPEN.minus_ms(5_400);
    net.config = next;
    let settings = net.settings(TALK, keys);
    net.send_frame(0, Neighbour::Coordinator, TALK, FrameBody::Sign(settings));
    assert_eq!(net.refused, [(0, MixError::Settings)]);
}

#[test]
fn mix_15_a_lower_number_does_not_follow_a_higher_one_to_disk() {
    let mut net = Net::new(config(1), 6);
    let [low, high] = [TALK, RoundId { round: 101, ..TALK }].map(|id| {
        let keys = keys(&mut net, id);
        Input::Frame(
            Neighbour::Coordinator,
            Frame::Round(id, FrameBody::Sign(net.settings(id, keys))),
        )
    });
    let mut rng = ChaCha20Rng::seed_from_u64(0);
    assert_eq!(net.mixes[0].handle(high, net.now, &mut rng), Ok(()));
    // The disk has not answered yet.
    assert_eq!(net.mixes[0].handle(low, net.now, &mut rng), Err(MixError::Round));
}

#[test]
fn mix_5_signs_each_round_once() {
    let mut net = Net::new(config(1), 8);
    let settings = net.announce_round(TALK);
    net.send_frame(0, Neighbour::Coordinator, TALK, FrameBody::Sign(settings));
    net.send_frame(0, Neighbour::Coordinator, TALK, FrameBody::NewRound);
    assert_eq!(net.refused, [(0, MixError::UnknownRound), (0, MixError::Round)]);
}

#[test]
fn mix_15_a_restarted_mix_has_no_round() {
    use mezza_mixnet::mix::{Mix, MixOptions};
    let mut net = Net::new(config(1), 9);
    let setup = MixOptions {
        signer: signer(50),
        chain: crate::fixture::chain(&net.config),
        signed: [(Service::Conversation, 100)].into(),
        floor: NoiseFloor::None,
        job_items: 0,
    };
    net.mixes[0] = Mix::new(setup);
    net.send_frame(0, Neighbour::Coordinator, TALK, FrameBody::NewRound);
    assert_eq!(net.refused.pop(), Some((0, MixError::Round)));
    net.announce_round(RoundId { round: 101, ..TALK });
}
