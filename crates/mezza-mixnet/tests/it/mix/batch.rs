//! A batch on its way through the mixes, and what ends it.

use std::sync::{Arc, Mutex};

use mezza_core::Machine as _;
use mezza_mixnet::job::{Job, NoiseKind};
use mezza_mixnet::mix::{Input, MixError, Neighbour};
use mezza_mixnet::sign::Purpose;
use mezza_mixnet::wire::{AbortReason, Frame, FrameBody, Items, filter::Filter};
use mezza_mixnet::{RoundId, Service};
use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng as _;

use super::{TALK, aborts};
use crate::fixture::{Net, OPEN, config, make_accesses, make_onions, open_replies, signer};

#[test]
fn mix_11_counts_that_do_not_agree_end_the_round() {
    let bad = Items { offset: 0, count: 2, bytes: vec![1; 2 * 416] };
    let start = |count| FrameBody::BatchStart { count, size: 416 };
    let cases: [(&[FrameBody], AbortReason); 9] = [
        (&[start(1_001)], AbortReason::TooMany),
        (&[FrameBody::BatchStart { count: 3, size: 368 }], AbortReason::Malformed),
        (&[start(3), start(3)], AbortReason::Malformed),
        (&[FrameBody::BatchEnd { count: 0 }], AbortReason::Malformed),
        (&[start(3), FrameBody::Onions(bad.clone())], AbortReason::Malformed),
        (
            &[start(2), FrameBody::Onions(Items { offset: 1, ..bad.clone() })],
            AbortReason::Malformed,
        ),
        (
            &[start(2), FrameBody::Onions(Items { bytes: vec![1; 2 * 368], ..bad.clone() })],
            AbortReason::Malformed,
        ),
        (
            &[start(2), FrameBody::Onions(bad.clone()), FrameBody::Onions(bad.clone())],
            AbortReason::Malformed,
        ),
        (&[start(2), FrameBody::BatchEnd { count: 2 }], AbortReason::Count),
    ];
    for (bodies, reason) in cases {
        let mut net = Net::new(config(3), 10);
        net.announce_round(TALK);
        for body in bodies {
            net.send_frame(0, Neighbour::Previous, TALK, body.clone());
        }
        assert_eq!(aborts(&mut net)[0], (0, reason), "{bodies:?}");
        assert!(net.mixes[0].rounds().next().is_none(), "the round is wiped");
        assert!(net.mixes[1].rounds().next().is_none(), "and at its neighbour");
    }
}

#[test]
fn mix_12_the_bound_of_a_batch_grows_with_the_noise_of_the_mixes_before() {
    for slots in [1, 2] {
        let refused = |count| {
            let mut config = config(3);
            config.services[0].slots = slots;
            let mut net = Net::new(config, 12);
            net.announce_round(TALK);
            net.send_frame(
                2,
                Neighbour::Previous,
                TALK,
                FrameBody::BatchStart { count, size: 320 },
            );
            aborts(&mut net).first().copied()
        };
        // The slots of 1,000 users, and two times 2 x 20 + 24 x 4, and 8 + 2 x 4 traps.
        let most = 1_000 * u32::from(slots) + 2 * 152;
        assert_eq!(refused(most), None);
        assert_eq!(refused(most + 1), Some((2, AbortReason::TooMany)));
    }
}

#[test]
fn mix_11_a_batch_ends_once_and_with_the_count_that_was_announced() {
    let start = |count| FrameBody::BatchStart { count, size: 416 };
    let onions = |count: u16| {
        let bytes = vec![1; usize::from(count) * 416];
        FrameBody::Onions(Items { offset: 0, count, bytes })
    };
    let end = |count| FrameBody::BatchEnd { count };
    let too_few = vec![start(600), onions(512), end(512)];
    let twice = vec![start(2), onions(2), end(2), end(2)];
    for mut bodies in [too_few, twice] {
        let mut net = Net::new(config(3), 10);
        net.announce_round(TALK);
        net.hung = |job| matches!(job, Job::Unwrap(_));
        let last = bodies.pop().expect("an end");
        for body in bodies {
            net.send_frame(0, Neighbour::Previous, TALK, body);
        }
        assert_eq!(aborts(&mut net), []);
        net.send_frame(0, Neighbour::Previous, TALK, last);
        assert_eq!(aborts(&mut net)[0], (0, AbortReason::Count));
    }
}

#[test]
fn mix_10_nothing_is_forwarded_before_the_batch_is_whole() {
    let mut net = Net::new(config(3), 13);
    let settings = net.announce_round(TALK);
    let mut rng = ChaCha20Rng::seed_from_u64(1);
    let (onions, _) = make_onions(&settings, &make_accesses(&[1, 2, 3], &mut rng), &mut rng);
    net.meddler = Some(Box::new(|at, to, frame| {
        assert!(at != 0 || to != Neighbour::Next, "a frame left too early: {frame:?}");
        Some(frame)
    }));
    net.send_frame(0, Neighbour::Previous, TALK, FrameBody::BatchStart { count: 3, size: 416 });
    for items in Items::of_batch(&onions, 416) {
        net.send_frame(0, Neighbour::Previous, TALK, FrameBody::Onions(items));
    }
    let forwarded = Arc::new(Mutex::new(0));
    let count = Arc::clone(&forwarded);
    net.meddler = Some(Box::new(move |at, to, frame| {
        *count.lock().expect("unpoisoned") += u32::from(at == 0 && to == Neighbour::Next);
        Some(frame)
    }));
    net.send_frame(0, Neighbour::Previous, TALK, FrameBody::BatchEnd { count: 3 });
    assert_eq!(*forwarded.lock().expect("unpoisoned"), 3, "start, onions, end");
}

#[test]
fn mix_10_nothing_is_forwarded_or_published_without_own_noise() {
    let call = RoundId { service: Service::Call, round: 100 };
    // The only mix is the last one, too: what it makes of calls goes to the store.
    for (mixes, id) in [(3, TALK), (3, call), (1, call)] {
        for hung in [
            (|job| matches!(job, Job::Noise(job) if job.ticket.index == 0)) as fn(&Job) -> bool,
            |job| matches!(job, Job::Noise(_)),
            |job| matches!(job, Job::Table(_)),
        ] {
            let mut net = Net::new(config(mixes), 14);
            net.hung = hung;
            let settings = net.announce_round(id);
            let mut rng = ChaCha20Rng::seed_from_u64(1);
            let inner = vec![0; 3 * id.service.innermost_bytes()];
            let (onions, _) = make_onions(&settings, &inner, &mut rng);
            net.meddler = Some(Box::new(|_, to, frame| {
                assert!(
                    !matches!(to, Neighbour::Next | Neighbour::Store),
                    "it left too early: {frame:?}"
                );
                Some(frame)
            }));
            net.send_batch(id, &onions);
            assert_eq!(net.mixes[0].rounds().collect::<Vec<_>>(), [id], "it waits");
        }
    }
}

#[test]
fn mix_13_keys_are_fresh_for_each_round() {
    let mut net = Net::new(config(3), 14);
    let mut keys = net.announce_round(TALK).keys;
    keys.extend(net.announce_round(RoundId { round: 101, ..TALK }).keys);
    keys.extend(net.announce_round(RoundId { service: Service::Call, round: 100 }).keys);
    keys.sort_unstable();
    keys.dedup();
    assert_eq!(keys.len(), 9);
}

#[test]
fn mix_14_the_secret_is_gone_after_the_last_onion_and_after_every_fault() {
    type Fault = fn(&mut Net);
    let faults: [Fault; 6] = [
        |net| net.send_frame(0, Neighbour::Previous, TALK, FrameBody::BatchEnd { count: 1 }),
        |net| net.input(0, Input::LinkLost(Neighbour::Previous)),
        |net| net.input(0, Input::LinkLost(Neighbour::Next)),
        |net| net.input(0, Input::Lost(TALK)),
        |net| net.send_frame(0, Neighbour::Previous, TALK, FrameBody::BatchEnd { count: 9 }),
        |net| {
            net.now = net.now.plus_ms(60_000);
            let now = net.now;
            let mut rng = ChaCha20Rng::seed_from_u64(0);
            net.mixes[0].wake(now, &mut rng);
            net.settle();
        },
    ];
    for (number, fault) in faults.iter().enumerate() {
        let mut net = Net::new(config(3), 15);
        let settings = net.announce_round(TALK);
        let mut rng = ChaCha20Rng::seed_from_u64(1);
        let (onions, _) = make_onions(&settings, &make_accesses(&[1], &mut rng), &mut rng);
        let secrets = Arc::new(Mutex::new(Vec::new()));
        let found = Arc::clone(&secrets);
        net.watch = Some(Box::new(move |at, job, _| {
            if let (0, Job::Unwrap(job)) = (at, job) {
                found.lock().expect("unpoisoned").push(Arc::downgrade(&job.secret));
            }
        }));
        net.send_frame(0, Neighbour::Previous, TALK, FrameBody::BatchStart { count: 1, size: 416 });
        net.send_frame(
            0,
            Neighbour::Previous,
            TALK,
            FrameBody::Onions(Items::of_batch(&onions, 416).next().expect("one")),
        );
        let secret = secrets.lock().expect("unpoisoned").remove(0);
        assert!(secret.upgrade().is_some(), "more onions could come");
        fault(&mut net);
        assert!(secret.upgrade().is_none(), "fault {number}: the secret lives on");
        assert!(net.mixes[0].rounds().next().is_none(), "fault {number}");
    }
}

#[test]
fn mix_14_the_secret_goes_with_the_last_onion_though_the_round_goes_on() {
    for hung in [
        (|job| matches!(job, Job::Shuffle(_))) as fn(&Job) -> bool,
        |job| matches!(job, Job::Noise(_)),
        |job| matches!(job, Job::Gather(_)),
    ] {
        let mut net = Net::new(config(3), 15);
        net.hung = hung;
        let settings = net.announce_round(TALK);
        let mut rng = ChaCha20Rng::seed_from_u64(1);
        let (onions, _) = make_onions(&settings, &make_accesses(&[1], &mut rng), &mut rng);
        let secrets = Arc::new(Mutex::new(Vec::new()));
        let found = Arc::clone(&secrets);
        net.watch = Some(Box::new(move |at, job, _| {
            if let (0, Job::Unwrap(job)) = (at, job) {
                found.lock().expect("unpoisoned").push(Arc::downgrade(&job.secret));
            }
        }));
        net.send_batch(TALK, &onions);
        assert_eq!(net.mixes[0].rounds().collect::<Vec<_>>(), [TALK], "it goes on");
        assert!(secrets.lock().expect("unpoisoned").remove(0).upgrade().is_none());
    }
}

#[test]
fn mix_18_every_bucket_has_noise_at_every_mix() {
    for service in [Service::Call, Service::Invitation] {
        let id = RoundId { service, round: 100 };
        let mut net = Net::new(config(3), 16);
        let buckets = Arc::new(Mutex::new(Vec::new()));
        let found = Arc::clone(&buckets);
        net.watch = Some(Box::new(move |at, job, _| {
            if let Job::Noise(job) = job {
                let NoiseKind::Bucket(bucket, count) = job.kind else {
                    panic!("noise without bucket")
                };
                assert!(count > 0);
                found.lock().expect("unpoisoned").push((at, bucket));
            }
        }));
        net.announce_round(id);
        let mut found = buckets.lock().expect("unpoisoned").clone();
        found.sort_unstable();
        let all = (0..3).flat_map(|at| (0..=2).map(move |bucket| (at, bucket)));
        assert_eq!(found, all.collect::<Vec<_>>());
    }
}

#[test]
fn calls_come_out_in_their_buckets_among_noise() {
    let id = RoundId { service: Service::Call, round: 100 };
    let mut net = Net::new(config(3), 17);
    let settings = net.announce_round(id);
    let tokens = [(1_u32, [0x11; 16]), (2, [0x22; 16]), (0, [0x33; 16]), (7, [0x44; 16])];
    let mut inner = Vec::new();
    for (bucket, token) in tokens {
        inner.extend_from_slice(&bucket.to_be_bytes());
        inner.extend_from_slice(&token);
    }
    let mut rng = ChaCha20Rng::seed_from_u64(1);
    let (onions, _) = make_onions(&settings, &inner, &mut rng);
    net.send_batch(id, &onions);
    let manifests = net.take_frames(|body| match body {
        FrameBody::Put { manifest, signature } => Some((manifest, signature)),
        _ => None,
    });
    let (manifest, signature) = &manifests[0];
    assert!(manifest.signed_by(&signer(52).public_key(), &net.config.hash(), signature));
    let objects = net.take_frames(|body| match body {
        FrameBody::Chunk { bucket, offset: 0, bytes } => Some((bucket, bytes)),
        _ => None,
    });
    assert_eq!(objects.len(), 2);
    for (bucket, object) in &objects {
        assert!(manifest.holds_object(*bucket, object));
        let filter = Filter::decode(object).expect("a set");
        let mine = tokens.map(|(its, token)| (its == *bucket, filter.may_hold(&token)));
        assert!(mine.iter().all(|(own, held)| own == held), "bucket {bucket}: {mine:?}");
        assert!((30..90).contains(&filter.count()), "noise of three mixes around mu = 20");
    }
    assert!(net.mixes[2].rounds().next().is_some(), "the last mix waits for the disk");
    net.send_frame(2, Neighbour::Store, id, FrameBody::Stored);
    let ends =
        net.take_frames(|body| matches!(body, FrameBody::RepliesEnd { count: 0 }).then_some(()));
    assert_eq!((ends.len(), &net.refused[..]), (1, &[][..]));
    assert!(net.mixes.iter().all(|mix| mix.rounds().next().is_none()));
}

#[test]
fn mix_29_a_deadline_ends_one_round_with_a_signed_abort() {
    let mut net = Net::new(config(3), 19);
    net.announce_round(TALK);
    let next = RoundId { round: 101, ..TALK };
    net.now = net.now.plus_ms(5_000);
    let settings = net.announce_round(next);
    let deadline = net.mixes[0].deadline().expect("a deadline");
    let mut rng = ChaCha20Rng::seed_from_u64(0);
    net.mixes[0].wake(deadline.minus_ms(1), &mut rng);
    assert_eq!(net.mixes[0].rounds().count(), 2);
    net.mixes[0].wake(deadline, &mut rng);
    net.settle();
    let both = [(0, AbortReason::Deadline); 2];
    assert_eq!(aborts(&mut net), both, "entry and coordinator are told");
    assert_eq!(net.mixes[1].rounds().collect::<Vec<_>>(), [next], "the neighbour knows");
    let inner = make_accesses(&[5, 5], &mut rng);
    let (onions, back) = make_onions(&settings, &inner, &mut rng);
    net.send_batch(next, &onions);
    let replies = net.take_replies();
    assert_eq!(open_replies(&replies, &back)[0].as_deref(), Some(&inner[272 + 16..]));
}

#[test]
fn mix_29_an_abort_needs_the_signature_of_its_sender() {
    let mut net = Net::new(config(3), 20);
    net.announce_round(TALK);
    let abort =
        |position, signature| FrameBody::Abort { position, reason: AbortReason::Count, signature };
    let bytes = |position: u8| {
        [&net.config.hash()[..], &[1], &100_u64.to_be_bytes(), &[position, 1]].concat()
    };
    let by = |signer_: u8, position: u8| signer(signer_).sign(Purpose::Abort, &[&bytes(position)]);
    let forged = abort(2, by(51, 2));
    let good = abort(255, by(40, 255));
    let foreign = abort(9, by(51, 9));
    for wrong in [forged, foreign] {
        net.send_frame(0, Neighbour::Coordinator, TALK, wrong);
        assert_eq!(net.refused.pop(), Some((0, MixError::Signature)));
        assert_eq!(net.mixes[0].rounds().count(), 1);
    }
    net.send_frame(0, Neighbour::Coordinator, TALK, good);
    assert_eq!(net.mixes[0].rounds().count(), 0);
}

#[test]
fn mix_30_a_refused_input_changes_nothing() {
    let mut net = Net::new(config(3), 21);
    net.announce_round(TALK);
    let other = RoundId { round: 103, ..TALK };
    let cases: [(Neighbour, RoundId, FrameBody, MixError); 8] = [
        (Neighbour::Previous, other, FrameBody::BatchEnd { count: 0 }, MixError::UnknownRound),
        (Neighbour::Next, other, FrameBody::RepliesEnd { count: 0 }, MixError::UnknownRound),
        (Neighbour::Previous, TALK, FrameBody::NewRound, MixError::Unexpected),
        (Neighbour::Next, TALK, FrameBody::BatchEnd { count: 0 }, MixError::Unexpected),
        (Neighbour::Coordinator, TALK, FrameBody::Stored, MixError::Unexpected),
        (Neighbour::Store, TALK, FrameBody::Stored, MixError::Unexpected),
        (Neighbour::Coordinator, TALK, FrameBody::NewRound, MixError::Round),
        (
            Neighbour::Coordinator,
            TALK,
            FrameBody::Missed(mezza_mixnet::wire::MissedReason::Late),
            MixError::Unexpected,
        ),
    ];
    for (from, id, body, error) in cases {
        net.send_frame(0, from, id, body);
        assert_eq!(net.refused.pop(), Some((0, error)));
    }
    for round in [101, 102, 103] {
        net.send_frame(0, Neighbour::Coordinator, RoundId { round, ..TALK }, FrameBody::NewRound);
    }
    net.send_frame(0, Neighbour::Coordinator, RoundId { round: 104, ..TALK }, FrameBody::NewRound);
    assert_eq!(net.refused, [(0, MixError::TooMany)], "four rounds are under way");
}

#[test]
fn mix_34_far_rounds_are_refused() {
    let mut net = Net::new(config(3), 22);
    // Beyond the time of every config there is none that could run them.
    for (round, refusal) in [
        (u64::MAX, MixError::NoConfig),
        (99, MixError::NoConfig),
        (1 << 40, MixError::NoConfig),
        (109, MixError::Clock),
    ] {
        net.send_frame(0, Neighbour::Coordinator, RoundId { round, ..TALK }, FrameBody::NewRound);
        assert_eq!(net.refused.pop(), Some((0, refusal)), "round {round}");
    }
    net.send_frame(0, Neighbour::Coordinator, RoundId { round: 105, ..TALK }, FrameBody::NewRound);
    assert_eq!(net.refused, []);
}

#[test]
fn mix_34_a_mix_signs_from_the_request_for_keys_to_the_close_of_a_round() {
    // 2 s to ask and 5 s to lead before it opens, 4 s to collect behind; 30 s around them.
    let edges = [
        (OPEN.minus_ms(37_001), Err(MixError::Clock)),
        (OPEN.minus_ms(37_000), Ok(())),
        (OPEN.plus_ms(34_000), Ok(())),
        (OPEN.plus_ms(34_001), Err(MixError::Clock)),
    ];
    for (now, outcome) in edges {
        let asked = |net: &mut Net, body| {
            let frame = Frame::Round(TALK, body);
            let mut rng = ChaCha20Rng::seed_from_u64(0);
            net.mixes[0].handle(Input::Frame(Neighbour::Coordinator, frame), now, &mut rng)
        };
        let mut net = Net::new(config(1), 22);
        assert_eq!(asked(&mut net, FrameBody::NewRound), outcome, "a key at {now:?}");
        let mut net = Net::new(config(1), 22);
        net.send_frame(0, Neighbour::Coordinator, TALK, FrameBody::NewRound);
        let keys = net.take_frames(|body| match body {
            FrameBody::RoundKey(key) => Some(key),
            _ => None,
        });
        let settings = net.settings(TALK, keys);
        assert_eq!(asked(&mut net, FrameBody::Sign(settings)), outcome, "a signature at {now:?}");
    }
}

#[test]
fn mix_32_debug_output_names_no_key() {
    let mut net = Net::new(config(3), 23);
    let settings = net.announce_round(TALK);
    let shown = format!("{:?}", net.mixes[0]);
    let parts = settings.keys[0].iter().map(u8::to_string).collect::<Vec<_>>();
    assert!(!shown.contains(&parts.join(", ")), "{shown}");
    assert!(shown.len() < 600, "{shown}");
    net.watch = Some(Box::new(|_, job, done| {
        // A cell, and nothing but public keys and counts.
        let cell = format!("{:?}", [5_u8; 8]);
        let job = format!("{job:?}");
        let done = format!("{done:?}");
        assert!(!job.contains(&cell[1..23]) && !done.contains(&cell[1..23]), "{job} {done}");
        let longest = |shown: &str| shown.split(['[', ']']).map(str::len).max().unwrap_or(0);
        assert!(longest(&done) < 400, "a list of places: {done}");
    }));
    let mut rng = ChaCha20Rng::seed_from_u64(1);
    let (onions, _) = make_onions(&settings, &make_accesses(&[5, 5], &mut rng), &mut rng);
    net.send_batch(TALK, &onions);
    assert_eq!(net.take_replies().len(), 2 * 304);
}
