//! Replies on their way back through the mixes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use mezza_core::Wiping;
use mezza_lanes::portable;
use mezza_mixnet::job::{Job, JobOutput, NoiseKind, Replies};
use mezza_mixnet::mix::{Input, Neighbour};
use mezza_mixnet::onion::Unwrapped;
use mezza_mixnet::service::{DROP_BYTES, reply_bytes};
use mezza_mixnet::sign::{self, Purpose};
use mezza_mixnet::wire::{AbortReason, Frame, FrameBody, Items};
use mezza_mixnet::{RoundId, Service};
use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng as _;

use super::{TALK, aborts, talk};
use crate::fixture::{
    Breakage, Meddler, Net, OPEN, TRAPS, config, make_accesses, make_onions, signer,
};

#[test]
fn mix_10_no_reply_is_returned_before_all_are_in() {
    // Enough noise that replies come in two frames.
    let mut config = config(3);
    config.services[0].mu = 250;
    let mut net = Net::new(config, 13);
    let held = Arc::new(Mutex::new(Vec::new()));
    let keeps = Arc::clone(&held);
    let returned = Arc::new(Mutex::new(0));
    let count = Arc::clone(&returned);
    net.meddler = Some(Box::new(move |at, to, frame| {
        *count.lock().expect("unpoisoned") += u32::from(at == 1 && to == Neighbour::Previous);
        let late = match &frame {
            Frame::Round(_, FrameBody::Replies(items)) => items.offset > 0,
            Frame::Round(_, FrameBody::RepliesEnd { .. }) => true,
            _ => false,
        };
        if at == 2 && late {
            keeps.lock().expect("unpoisoned").push(frame);
            return None;
        }
        Some(frame)
    }));
    assert!(talk(&mut net, TALK, &[1, 1]).1.is_empty());
    let held = core::mem::take(&mut *held.lock().expect("unpoisoned"));
    assert!(held.len() >= 2, "a frame of replies and the end");
    for frame in held {
        assert_eq!(*returned.lock().expect("unpoisoned"), 0, "a reply left too early");
        net.input(1, Input::Frame(Neighbour::Next, frame));
    }
    assert!(*returned.lock().expect("unpoisoned") >= 2 && !net.take_replies().is_empty());
}

#[test]
fn mix_11_replies_must_be_as_many_as_onions_went() {
    for extra in [-1_i32, 1] {
        let mut net = Net::new(config(3), 11);
        net.meddler = Some(Box::new(move |at, to, frame| match frame {
            Frame::Round(id, FrameBody::RepliesEnd { count })
                if at == 2 && to == Neighbour::Previous =>
            {
                Some(Frame::Round(
                    id,
                    FrameBody::RepliesEnd { count: count.wrapping_add_signed(extra) },
                ))
            }
            other => Some(other),
        }));
        assert!(talk(&mut net, TALK, &[1, 1]).1.is_empty());
        assert_eq!(aborts(&mut net)[0], (1, AbortReason::Count));
    }
}

#[test]
fn mix_11_a_frame_of_replies_that_did_not_come_ends_the_round() {
    // Enough noise that replies come in two frames.
    let mut config = config(3);
    config.services[0].mu = 250;
    let mut net = Net::new(config, 11);
    net.meddler = Some(Box::new(|at, to, frame| match &frame {
        Frame::Round(_, FrameBody::Replies(items)) if at == 2 && to == Neighbour::Previous => {
            (items.offset == 0).then_some(frame)
        }
        _ => Some(frame),
    }));
    assert!(talk(&mut net, TALK, &[1, 1]).1.is_empty());
    assert_eq!(aborts(&mut net)[0], (1, AbortReason::Count));
}

#[test]
fn mix_11_replies_of_another_offset_end_the_round() {
    let mut net = Net::new(config(3), 11);
    net.meddler = Some(Box::new(|at, to, mut frame| {
        if let (2, Neighbour::Previous, Frame::Round(_, FrameBody::Replies(items))) =
            (at, to, &mut frame)
        {
            items.offset += 1;
        }
        Some(frame)
    }));
    assert!(talk(&mut net, TALK, &[1, 1]).1.is_empty());
    assert_eq!(aborts(&mut net)[0], (1, AbortReason::Malformed));
}

#[test]
fn mix_11_a_call_has_no_reply() {
    let id = RoundId { service: Service::Call, round: 100 };
    let mut net = Net::new(config(3), 11);
    let settings = net.announce_round(id);
    let mut rng = ChaCha20Rng::seed_from_u64(1);
    let inner = vec![0; 3 * id.service.innermost_bytes()];
    let (onions, _) = make_onions(&settings, &inner, &mut rng);
    let left = Arc::new(Mutex::new(0));
    let seen = Arc::clone(&left);
    net.meddler = Some(Box::new(move |at, _, frame| {
        if let (0, Frame::Round(_, FrameBody::BatchStart { count, .. })) = (at, &frame) {
            *seen.lock().expect("unpoisoned") = *count;
        }
        Some(frame)
    }));
    net.send_batch(id, &onions);
    assert_eq!(net.mixes[0].rounds().collect::<Vec<_>>(), [id], "it waits for the store");
    // As many as went, and each as long as a reply would be.
    let count = *left.lock().expect("unpoisoned");
    let bytes = vec![1; count as usize * reply_bytes(2)];
    let items = Items { offset: 0, count: count.try_into().unwrap(), bytes };
    net.send_frame(0, Neighbour::Next, id, FrameBody::Replies(items));
    assert_eq!(aborts(&mut net)[0], (0, AbortReason::Malformed));
}

#[test]
fn the_last_mix_seals_a_whole_frame_of_replies_at_once() {
    let mut net = Net::new(config(1), 11);
    let sealed = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&sealed);
    net.watch = Some(Box::new(move |_, job, _| {
        if let Job::Seal(job) = job {
            seen.lock().expect("unpoisoned").push(job.targets.len());
        }
    }));
    assert_eq!(talk(&mut net, TALK, &[1; 9]).1.len(), 9);
    assert_eq!(*sealed.lock().expect("unpoisoned"), [9]);
}

#[test]
fn mix_27_replies_that_somebody_exchanged_raise_an_alarm() {
    let alarms = |meddler: Option<Meddler>, breakage: Option<Breakage>| {
        let mut net = Net::new(config(3), 18);
        (net.meddler, net.breakage) = (meddler, breakage);
        talk(&mut net, TALK, &[1, 1]);
        assert_eq!(aborts(&mut net), []);
        let hash = net.config.hash();
        net.take_frames(|body| match body {
            FrameBody::Alarm { position, signature } => {
                let bytes = [&hash[..], &[1], &100_u64.to_be_bytes(), &[position]].concat();
                let key = signer(50 + position).public_key();
                assert!(sign::verify(&key, Purpose::Alarm, &[&bytes], &signature));
                Some(position)
            }
            _ => None,
        })
    };
    assert_eq!(alarms(None, None), [], "honest mixes lose nothing");
    // The last mix answers one message with another one's reply.
    let exchange: Meddler = Box::new(|at, to, frame| match frame {
        Frame::Round(id, FrameBody::Replies(mut items)) if at == 2 && to == Neighbour::Previous => {
            let half = items.item_bytes() * usize::from(items.count / 2);
            items.bytes.rotate_right(half);
            Some(Frame::Round(id, FrameBody::Replies(items)))
        }
        other => Some(other),
    });
    assert_eq!(alarms(Some(exchange), None), [1, 0]);
    // Somebody drops one message of each pair: the other one's reply opens, and is its own cell.
    let alone: Breakage = Box::new(|_, job| {
        let Job::Match(matching) = &*job else { return None };
        let inner: Vec<&[u8]> = matching.parts.iter().flat_map(Unwrapped::inner_onions).collect();
        let JobOutput::Match(Replies { kept, .. }) = job.run(portable()) else { return None };
        let cells = kept.iter().flat_map(|place| inner[*place as usize][DROP_BYTES..].to_vec());
        let cells = Wiping::new(cells.collect());
        Some(JobOutput::Match(Replies { kept, cells }))
    });
    assert_eq!(alarms(None, Some(alone)), [1, 0]);
}

#[test]
fn mix_45_a_mix_checks_the_same_number_of_each_sort_in_every_round() {
    // Half of the counts drawn are below zero, and are taken for none: the traps are there.
    for law in [(20, 4), (0, 40)] {
        let mut config = config(3);
        (config.services[0].mu, config.services[0].scale) = law;
        let mut net = Net::new(config, 24);
        let made = Arc::new(Mutex::new(BTreeMap::new()));
        let sums = Arc::clone(&made);
        net.watch = Some(Box::new(move |at, job, _| {
            let Job::Noise(job) = job else { return };
            let pairs = matches!(job.kind, NoiseKind::Pairs(_));
            let mut sums = sums.lock().expect("unpoisoned");
            let sum: &mut (u32, u32) = sums.entry((job.ticket.id.round, at, pairs)).or_default();
            *sum = (sum.0 + job.traps, sum.1 + job.kind.message_count());
        }));
        for round in 100..110 {
            net.now = OPEN.plus_ms(5_000 * (round - 100)).minus_ms(6_000);
            talk(&mut net, RoundId { round, ..TALK }, &[1, 1]);
        }
        let made = made.lock().expect("unpoisoned");
        assert_eq!(made.len(), 10 * 2 * 2, "rounds, mixes that add noise, sorts");
        for ((_, _, pairs), (traps, messages)) in made.iter() {
            assert_eq!(*traps, if *pairs { 2 * TRAPS.pairs } else { TRAPS.singles }.into());
            assert!(messages >= traps);
        }
        let counts: BTreeSet<u32> = made.values().map(|(_, messages)| *messages).collect();
        assert!(counts.len() > 5, "the noise around them changes: {counts:?}");
    }
}

#[test]
fn mix_45_traps_come_on_top_of_the_noise() {
    let mut config = config(3);
    config.services[0].scale = 0;
    let mut net = Net::new(config, 25);
    let left = Arc::new(Mutex::new(Vec::new()));
    let counts = Arc::clone(&left);
    net.meddler = Some(Box::new(move |at, _, frame| {
        if let Frame::Round(_, FrameBody::BatchStart { count, .. }) = frame {
            counts.lock().expect("unpoisoned").push((at, count));
        }
        Some(frame)
    }));
    talk(&mut net, TALK, &[1, 1]);
    let own = 2 * 20 + TRAPS.message_count();
    assert_eq!(*left.lock().expect("unpoisoned"), [(0, 2 + own), (1, 2 + 2 * own)]);
}

#[test]
fn mix_11_no_reply_is_taken_before_the_batch_has_left() {
    // The mix behind answers what it was told of, and has not got.
    let early = |hung| {
        let mut net = Net::new(config(3), 20);
        let settings = net.announce_round(TALK);
        let mut rng = ChaCha20Rng::seed_from_u64(1);
        let (onions, _) = make_onions(&settings, &make_accesses(&[1, 1], &mut rng), &mut rng);
        let left = Arc::new(Mutex::new((0, false)));
        let seen = Arc::clone(&left);
        net.meddler = Some(Box::new(move |at, _, frame| {
            let mut seen = seen.lock().expect("unpoisoned");
            match frame {
                Frame::Round(_, FrameBody::BatchStart { count, .. }) if at == 0 => seen.0 = count,
                Frame::Round(_, FrameBody::BatchEnd { .. }) if at == 0 => seen.1 = true,
                _ => {}
            }
            (at > 0).then_some(frame)
        }));
        net.hung = hung;
        net.send_batch(TALK, &onions);
        let (count, ended) = *left.lock().expect("unpoisoned");
        let bytes = vec![1; count as usize * reply_bytes(2)];
        let items = Items { offset: 0, count: count.try_into().unwrap(), bytes };
        net.meddler = None;
        net.send_frame(0, Neighbour::Next, TALK, FrameBody::Replies(items));
        (ended, aborts(&mut net))
    };
    assert_eq!(early(|_| false), (true, Vec::new()));
    let (ended, aborts) = early(|job| matches!(job, Job::Gather(_)));
    assert!(!ended);
    assert_eq!(aborts[0], (0, AbortReason::Malformed));
}
