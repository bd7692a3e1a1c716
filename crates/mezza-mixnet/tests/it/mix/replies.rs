//! Replies on their way back through the mixes.

use std::sync::{Arc, Mutex};

use mezza_mixnet::job::Job;
use mezza_mixnet::mix::{Input, Peer};
use mezza_mixnet::service::reply_bytes;
use mezza_mixnet::sign::{self, Purpose};
use mezza_mixnet::wire::{AbortReason, Body, Frame, Items};
use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng as _;

use super::{TALK, aborts, talk};
use crate::fixture::{Net, accesses, config, onions, signer};

#[test]
fn mix_10_no_reply_is_returned_before_all_are_in() {
    // Enough noise that replies come in two frames.
    let mut config = config(3);
    config.services[0].mu = 250;
    let mut net = Net::new(config, 13);
    let held = Arc::new(Mutex::new(Vec::new()));
    let (keeps, returned) = (Arc::clone(&held), Arc::new(Mutex::new(0)));
    let count = Arc::clone(&returned);
    net.meddler = Some(Box::new(move |at, to, frame| {
        *count.lock().expect("unpoisoned") += u32::from(at == 1 && to == Peer::Previous);
        let late = match &frame {
            Frame::Round(_, Body::Replies(items)) => items.offset > 0,
            Frame::Round(_, Body::RepliesEnd { .. }) => true,
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
        net.input(1, Input::Frame(Peer::Next, frame));
    }
    assert!(*returned.lock().expect("unpoisoned") >= 2 && !net.replies().is_empty());
}

#[test]
fn mix_11_replies_must_be_as_many_as_onions_went() {
    for extra in [-1_i32, 1] {
        let mut net = Net::new(config(3), 11);
        net.meddler = Some(Box::new(move |at, to, frame| match frame {
            Frame::Round(id, Body::RepliesEnd { count }) if at == 2 && to == Peer::Previous => {
                Some(Frame::Round(id, Body::RepliesEnd { count: count.wrapping_add_signed(extra) }))
            }
            other => Some(other),
        }));
        assert!(talk(&mut net, TALK, &[1, 1]).1.is_empty());
        assert_eq!(aborts(&mut net)[0], (1, AbortReason::Count));
    }
}

#[test]
fn mix_27_replies_that_somebody_exchanged_raise_an_alarm() {
    let alarms = |meddler: Option<crate::fixture::Meddler>| {
        let mut net = Net::new(config(3), 18);
        net.meddler = meddler;
        talk(&mut net, TALK, &[1, 1]);
        assert_eq!(aborts(&mut net), []);
        let hash = net.config.hash();
        net.taken(|body| match body {
            Body::Alarm { position, traps, failed, signature } => {
                let bytes = [
                    &hash[..],
                    &[1],
                    &100_u64.to_be_bytes(),
                    &[position],
                    &traps.to_be_bytes(),
                    &failed.to_be_bytes(),
                ]
                .concat();
                let key = signer(50 + position).public();
                assert!(sign::verify(&key, Purpose::Alarm, &[&bytes], &signature));
                Some((position, failed))
            }
            _ => None,
        })
    };
    assert_eq!(alarms(None), [], "honest mixes lose nothing");
    // The last mix answers one message with another one's reply.
    let found = alarms(Some(Box::new(|at, to, frame| match frame {
        Frame::Round(id, Body::Replies(mut items)) if at == 2 && to == Peer::Previous => {
            let half = items.size() * usize::from(items.count / 2);
            items.bytes.rotate_right(half);
            Some(Frame::Round(id, Body::Replies(items)))
        }
        other => Some(other),
    })));
    assert_eq!(found.iter().map(|(position, _)| *position).collect::<Vec<_>>(), [1, 0]);
    assert!(found.iter().all(|(_, failed)| *failed >= 20), "{found:?}");
}

#[test]
fn mix_11_no_reply_is_taken_before_the_batch_has_left() {
    // The mix behind answers what it was told of, and has not got.
    let early = |hung| {
        let mut net = Net::new(config(3), 20);
        let settings = net.announce(TALK);
        let mut rng = ChaCha20Rng::seed_from_u64(1);
        let (onions, _) = onions(&settings, &accesses(&[1, 1], &mut rng), &mut rng);
        let left = Arc::new(Mutex::new((0, false)));
        let seen = Arc::clone(&left);
        net.meddler = Some(Box::new(move |at, _, frame| {
            let mut seen = seen.lock().expect("unpoisoned");
            match frame {
                Frame::Round(_, Body::BatchStart { count, .. }) if at == 0 => seen.0 = count,
                Frame::Round(_, Body::BatchEnd { .. }) if at == 0 => seen.1 = true,
                _ => {}
            }
            (at > 0).then_some(frame)
        }));
        net.hung = hung;
        net.batch(TALK, &onions);
        let (count, ended) = *left.lock().expect("unpoisoned");
        let bytes = vec![1; count as usize * reply_bytes(2)];
        let items = Items { offset: 0, count: count.try_into().unwrap(), bytes };
        net.meddler = None;
        net.frame(0, Peer::Next, TALK, Body::Replies(items));
        (ended, aborts(&mut net))
    };
    assert_eq!(early(|_| false), (true, Vec::new()));
    let (ended, aborts) = early(|job| matches!(job, Job::Gather(_)));
    assert!(!ended);
    assert_eq!(aborts[0], (0, AbortReason::Malformed));
}
