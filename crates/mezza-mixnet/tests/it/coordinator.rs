//! The coordinator, with three mixes behind it and clients in front.

use mezza_core::{Machine as _, Time};
use mezza_mixnet::config::{Config, SignatureSet, SignedConfig};
use mezza_mixnet::coordinator::{AbortCause, CoordinatorError, Ending, Input, Output};
use mezza_mixnet::mix::{self, Neighbour};
use mezza_mixnet::sign::Purpose;
use mezza_mixnet::wire::frame::alarm_bytes;
use mezza_mixnet::wire::{AbortReason, Frame, FrameBody, MissedReason};
use mezza_mixnet::{RoundId, Service};
use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng as _;

use crate::city::City;
use crate::fixture::{OPEN, config, make_accesses, make_onions, open_replies, signer};

mod bounds;
mod buckets;
mod configs;

const TALK: RoundId = RoundId { service: Service::Conversation, round: 100 };

#[test]
fn a_round_goes_from_its_announcement_to_everybodys_replies() {
    let mut city = City::new();
    (0..5).for_each(|client| city.send_hello(client));
    city.run_until(OPEN.minus_ms(5_001));
    assert!(city.announced_settings(TALK).is_none(), "settings go out at open - lead");
    city.run_until(OPEN.plus_ms(1_000));
    let told = city.announced_settings(TALK).expect("settings");
    assert!(told.signed_by_all(city.net.config.mix_keys()));
    assert_eq!(told.closes_in_ms, 9_000);
    let mut rng = ChaCha20Rng::seed_from_u64(1);
    let inner = make_accesses(&[1, 2, 1, 9, 2], &mut rng);
    let (onions, back) = make_onions(&told.settings, &inner, &mut rng);
    for (client, onion) in onions.chunks_exact(416).enumerate() {
        city.send_onions(client as u64, TALK, onion);
    }
    city.run_until(OPEN.plus_ms(3_999));
    assert!(city.returned_replies(0, TALK).is_none(), "the entry collects until it closes");
    city.run_until(OPEN.plus_ms(4_000));
    let partner = [2, 4, 0, 3, 1];
    for client in 0..5_u64 {
        let (users, reply) = city.returned_replies(client, TALK).expect("a reply");
        let at = client as usize;
        let cell = inner[partner[at] * 272 + 16..(partner[at] + 1) * 272].to_vec();
        assert_eq!((users, open_replies(&reply, &back[at..=at])), (5, vec![Some(cell)]));
    }
    assert_eq!(city.over[0], (TALK, Ending::Returned(5)));
    assert_eq!(city.refused, []);
    assert_eq!(city.net.refused, []);
}

#[test]
fn rounds_follow_one_another_and_none_is_asked_for_twice() {
    let mut city = City::new();
    city.run_until(OPEN.plus_ms(60_000));
    let mut announced = Vec::new();
    for frame in &city.all {
        if let Frame::Round(id, FrameBody::Settings(_)) = frame {
            announced.push(id.round);
            assert!(id.round >= 100);
        }
    }
    announced.sort_unstable();
    let expected = (100..=113).flat_map(|round| [round; 3]).collect::<Vec<_>>();
    assert_eq!(announced, expected, "each service has a round every 5 s");
    assert_eq!((&city.refused[..], &city.net.refused[..]), (&[][..], &[][..]));
}

#[test]
fn a_coordinator_that_starts_late_begins_with_the_next_round() {
    let mut city = City::new();
    city.net.now = OPEN.plus_ms(1_234_567);
    city.run_until(OPEN.plus_ms(1_250_000));
    let rounds = city.all.iter().filter_map(|frame| match frame {
        Frame::Round(id, FrameBody::Settings(_)) => Some(id.round),
        _ => None,
    });
    // At 1,234.567 s keys for the round that opens at 1,240 s were asked for 1.5 s ago: in time.
    assert_eq!(rounds.min(), Some(100 + 248));
    assert_eq!(city.net.refused, []);
}

/// A round whose settings should be out already would end at once, and the mixes would make keys for it.
#[test]
fn a_round_that_is_late_at_the_entry_is_not_asked_for() {
    let mut rng = ChaCha20Rng::seed_from_u64(0);
    let mut asked = 0;
    // An entry that starts at each fiftieth of a round.
    for step in 0..50 {
        let City { mut entry, net, .. } = City::new();
        let now = OPEN.plus_ms(100_000 + 100 * step);
        entry.wake(now, &mut rng);
        let outputs = std::iter::from_fn(|| entry.poll());
        let news = outputs.filter_map(|output| match output {
            Output::ToMix(0, Frame::Round(id, FrameBody::NewRound)) => Some(id),
            _ => None,
        });
        for id in news {
            // Its settings are due a lead ahead of the opening.
            let (_, policy) = net.config.find_policy(id.service).expect("a service");
            let announce =
                policy.open_time(id.round).expect("a round").minus_ms(policy.lead_ms.into());
            assert!(now < announce, "{id:?} at {now:?}");
            asked += 1;
        }
    }
    assert!(asked > 0);
}

#[test]
fn mix_28_a_client_submits_once_whole_and_in_time() {
    let mut city = City::new();
    (1..=3).for_each(|client| city.send_hello(client));
    city.run_until(OPEN.plus_ms(100));
    city.send_hello(4);
    let onion = vec![7; 416];
    city.send_onions(1, TALK, &onion);
    city.send_onions(1, TALK, &onion);
    city.send_onions(2, TALK, &onion[1..]);
    city.send_onions(4, TALK, &onion);
    city.send_onions(9, TALK, &onion);
    city.run_until(OPEN.plus_ms(4_000));
    city.send_onions(3, TALK, &onion);
    assert_eq!(city.missed_reasons(1), [MissedReason::Malformed], "the first one counts");
    assert!(city.returned_replies(1, TALK).is_some());
    assert_eq!(city.missed_reasons(2), [MissedReason::Malformed]);
    assert_eq!(city.missed_reasons(3), [MissedReason::Late]);
    assert_eq!(city.missed_reasons(4), [MissedReason::Joined]);
    assert_eq!(city.refused, [CoordinatorError::Stranger]);
}

#[test]
fn mix_28_a_full_network_says_so() {
    let mut city = City::with_config(Config { users_max: 2, ..config(3) });
    (1..=3).for_each(|client| city.send_hello(client));
    city.run_until(OPEN.plus_ms(100));
    (1..=3).for_each(|client| city.send_onions(client, TALK, &[7; 416]));
    assert_eq!(
        [1, 2, 3].map(|client| city.missed_reasons(client)),
        [vec![], vec![], vec![MissedReason::Full]]
    );
}

#[test]
fn who_comes_between_announcement_and_opening_gets_the_settings() {
    let mut city = City::new();
    city.run_until(OPEN.minus_ms(1_000));
    city.send_hello(1);
    let told = &city.told[&1];
    assert!(matches!(told[0], Frame::Welcome { now, .. } if now == OPEN.minus_ms(1_000)));
    let settings = told.iter().filter_map(|frame| match frame {
        Frame::Round(id, FrameBody::Settings(settings)) => Some((*id, settings.closes_in_ms)),
        _ => None,
    });
    let all = Service::ALL.map(|service| (RoundId { service, round: 100 }, 5_000));
    assert_eq!(settings.collect::<Vec<_>>(), all);
    city.send_onions(1, TALK, &[7; 416]);
    assert_eq!(city.missed_reasons(1), []);
    city.input(Input::FromClient(2, Frame::Hello { version: 2, config: [0; 32] }));
    assert_eq!(city.hung_up, [2]);
}

#[test]
fn configs_are_given_from_the_one_a_client_has() {
    let mut city = City::new();
    let genesis = city.net.config.clone();
    let mut next = Config { seq: 1, prev: genesis.hash(), ..genesis.clone() };
    next.valid_from = OPEN.plus_ms(3_600_000);
    for service in &mut next.services {
        (service.base_round, service.base_time) = (100_000, next.valid_from);
    }
    let mut signed = SignedConfig::new(next);
    signed.add_signature(SignatureSet::Predecessor, 0, &signer(1));
    city.input(Input::Config(signed.clone()));
    for (client, from, expected) in [
        (1, [0; 32], vec![0, 1]),
        (2, genesis.hash(), vec![1]),
        (3, signed.config().hash(), vec![]),
        (4, [9; 32], vec![]),
    ] {
        city.input(Input::FromClient(client, Frame::FetchConfig { from }));
        let told = city.told.get(&client).cloned().unwrap_or_default();
        let seqs = told.iter().map(|frame| match frame {
            Frame::Config { config, left } => {
                let config = SignedConfig::decode(config).expect("a config");
                assert_eq!(u64::from(*left), 1 - config.config().seq, "so many follow");
                config.config().seq
            }
            other => panic!("{other:?}"),
        });
        assert_eq!(seqs.collect::<Vec<_>>(), expected, "client {client}");
    }
}

#[test]
fn mix_29_a_mix_that_says_nothing_costs_its_round_alone() {
    let mut city = City::new();
    city.deaf = vec![1];
    city.run_until(OPEN.minus_ms(5_000));
    assert!(city.announced_settings(TALK).is_none());
    assert!(city.entry.rounds().all(|id| id.round > 100), "aborted");
    assert!(city.net.mixes[0].rounds().all(|id| id.round > 100), "and the mixes were told");
    city.deaf.clear();
    city.run_until(OPEN.plus_ms(1_000));
    assert!(city.announced_settings(RoundId { round: 101, ..TALK }).is_some());
    assert!(
        city.all.iter().all(|frame| !matches!(frame, Frame::Round(_, FrameBody::Abort { .. })))
    );
}

/// The cause of the end of the round `TALK`.
fn cause_of(city: &City) -> Option<AbortCause> {
    city.over.iter().find_map(|(id, ending)| match ending {
        Ending::Aborted(_, cause) if *id == TALK => Some(*cause),
        _ => None,
    })
}

#[test]
fn mix_29_the_entry_knows_which_mix_a_round_ended_for() {
    // Mixes that get nothing of the entry give no key.
    let mut city = City::new();
    city.deaf = vec![0, 2];
    city.run_until(OPEN.minus_ms(5_000));
    let Some(AbortCause::NoKey(mixes)) = cause_of(&city) else { panic!("{:?}", city.over) };
    assert_eq!(mixes.iter().collect::<Vec<_>>(), [0, 2]);

    // A mix whose signature does not arrive.
    let mut city = City::new();
    city.net.meddler = Some(Box::new(|at, _, frame| match frame {
        Frame::Round(TALK, FrameBody::Signature(_)) if at == 1 => None,
        other => Some(other),
    }));
    city.run_until(OPEN.minus_ms(5_000));
    let Some(AbortCause::NoSignature(mixes)) = cause_of(&city) else { panic!("{:?}", city.over) };
    assert_eq!(mixes.iter().collect::<Vec<_>>(), [1]);

    // A link that is lost while onions come in.
    let mut city = City::new();
    city.run_until(OPEN.plus_ms(100));
    city.input(Input::MixLost(2));
    assert_eq!(cause_of(&city), Some(AbortCause::LinkLost(2)));

    // A mix that ends its part, and says so with its signature.
    let mut city = City::new();
    city.run_until(OPEN.plus_ms(100));
    city.net.input(1, mix::Input::Stop);
    city.run_until(OPEN.plus_ms(3_500));
    assert_eq!(cause_of(&city), Some(AbortCause::Reported(1)));

    // Replies that never come back.
    let mut city = City::new();
    city.send_hello(1);
    city.run_until(OPEN.plus_ms(100));
    city.net.meddler =
        Some(Box::new(|at, to, frame| (at != 0 || to != Neighbour::Previous).then_some(frame)));
    city.send_onions(1, TALK, &[7; 416]);
    city.run_until(OPEN.plus_ms(30_000));
    assert_eq!(cause_of(&city), Some(AbortCause::Replies));
}

#[test]
fn mix_29_clients_hear_of_an_abort_that_they_missed_the_round() {
    let mut city = City::new();
    (1..=2).for_each(|client| city.send_hello(client));
    city.run_until(OPEN.plus_ms(100));
    city.send_onions(1, TALK, &[7; 416]);
    city.input(Input::MixLost(2));
    assert_eq!(
        (city.missed_reasons(1), city.missed_reasons(2)),
        (vec![MissedReason::Aborted], vec![])
    );
    assert_eq!(city.entry.rounds().count(), 0);
    assert!(city.net.mixes.iter().all(|mix| mix.rounds().next().is_none()));
    city.run_until(OPEN.plus_ms(6_000));
    assert!(
        city.announced_settings(RoundId { round: 102, ..TALK }).is_some(),
        "the next ones go on"
    );
}

#[test]
fn mix_29_an_abort_of_a_mix_is_believed_with_its_signature_alone() {
    let mut city = City::new();
    city.run_until(OPEN.plus_ms(100));
    let abort = FrameBody::Abort { position: 1, reason: AbortReason::Count, signature: [1; 64] };
    city.input(Input::FromMix(1, Frame::Round(TALK, abort)));
    assert_eq!(city.refused, [CoordinatorError::Signature]);
    assert!(city.entry.rounds().any(|id| id == TALK));
    // A batch that breaks the rules: the mix itself ends the round.
    city.net.send_frame(0, Neighbour::Previous, TALK, FrameBody::BatchEnd { count: 1 });
    city.settle();
    assert!(city.entry.rounds().all(|id| id != TALK));
}

#[test]
fn mix_28_a_client_asks_for_each_thing_as_often_as_a_client_does() {
    let id = RoundId { service: Service::Call, round: 100 };
    let mut city = City::new();
    city.send_hello(1);
    city.send_hello(1);
    for _ in 0..3 {
        city.input(Input::FromClient(2, Frame::FetchConfig { from: [0; 32] }));
    }
    city.run_until(OPEN.plus_ms(4_000));
    for bucket in [1, 1, 2] {
        city.input(Input::FromClient(1, Frame::Round(id, FrameBody::Fetch { bucket })));
    }
    assert_eq!(city.refused, vec![CoordinatorError::TooOften; 4]);
    let answers = |frame: &&Frame| matches!(frame, Frame::Round(_, FrameBody::Object(_)));
    assert_eq!(city.told[&1].iter().filter(answers).count(), 1);
    assert_eq!(city.told[&2].len(), 2);
}

#[test]
fn mix_64_what_is_not_there_is_said_a_bounded_number_of_times() {
    let mut city = City::new();
    (1..=2).for_each(|client| city.send_hello(client));
    city.run_until(OPEN.plus_ms(100));
    let no = |city: &City, client| {
        let no = |frame: &&Frame| {
            matches!(frame, Frame::Round(_, FrameBody::Object(None) | FrameBody::Missed(_)))
        };
        city.told[&client].iter().filter(no).count()
    };
    let absent = RoundId { service: Service::Call, round: 7 };
    for _ in 0..20 {
        city.input(Input::FromClient(1, Frame::Round(absent, FrameBody::Fetch { bucket: 1 })));
        city.send_onions(1, absent, &[7; 164]);
    }
    assert_eq!((no(&city, 1), city.refused.len()), (32, 8));
    assert!(city.refused.iter().all(|error| *error == CoordinatorError::TooOften));
    // Who takes part begins anew; nobody else is concerned.
    for _ in 0..40 {
        city.send_onions(2, TALK, &[7; 416]);
    }
    assert_eq!((no(&city, 2), city.refused.len()), (32, 8 + 7));
    city.send_onions(1, TALK, &[7; 416]);
    city.send_onions(1, TALK, &[7; 416]);
    assert_eq!((no(&city, 1), city.refused.len()), (33, 8 + 7));
}

/// A successor of the network's config, from `begin` on.
fn successor(city: &City, begin: Time) -> SignedConfig {
    let genesis = city.net.config.clone();
    let mut next = Config { seq: 1, prev: genesis.hash(), valid_from: begin, ..genesis };
    for service in &mut next.services {
        (service.base_round, service.base_time) = (100_000, begin);
    }
    let mut signed = SignedConfig::new(next);
    signed.add_signature(SignatureSet::Predecessor, 0, &signer(1));
    signed
}

#[test]
fn rounds_go_on_without_a_gap_when_the_config_changes() {
    let mut city = City::new();
    city.run_until(OPEN);
    // In the middle between two rounds: 102 opens before, 103 would open behind it.
    let begin = OPEN.plus_ms(12_500);
    let next = successor(&city, begin);
    city.input(Input::Config(next.clone()));
    for mix in 0..3 {
        city.net.input(mix, mix::Input::Config(next.clone()));
    }
    city.run_until(begin.plus_ms(4_000));
    let talk = city.all.iter().filter_map(|frame| match frame {
        Frame::Round(id, FrameBody::Settings(told)) if id.service == Service::Conversation => {
            Some((id.round, told.settings.config == next.config().hash()))
        }
        _ => None,
    });
    let talk = talk.collect::<Vec<_>>();
    let old = [100, 101, 102].map(|round| (round, false));
    let new = [100_000, 100_001].map(|round| (round, true));
    assert_eq!(talk, [&old[..], &new].concat());
    assert_eq!((&city.refused[..], &city.net.refused[..]), (&[][..], &[][..]));
}

#[test]
fn mix_27_an_alarm_is_shown_once_also_after_its_round_and_its_config() {
    let mut city = City::new();
    let old = city.net.config.hash();
    city.run_until(OPEN.plus_ms(4_000));
    assert!(city.entry.rounds().all(|id| id != TALK), "it is over");
    let begin = OPEN.plus_ms(12_500);
    let next = successor(&city, begin);
    city.input(Input::Config(next));
    city.run_until(begin.plus_ms(1_000));
    let alarm = |position: u8, by: u8| {
        let bytes = alarm_bytes(&old, TALK, position);
        let signature = signer(by).sign(Purpose::Alarm, &[&bytes]);
        let body = FrameBody::Alarm { position, signature };
        Input::FromMix(position, Frame::Round(TALK, body))
    };
    city.refused.clear();
    for input in [alarm(1, 51), alarm(1, 51), alarm(0, 51), alarm(0, 50)] {
        city.input(input);
    }
    assert_eq!(city.refused, [CoordinatorError::Unexpected, CoordinatorError::Signature]);
    let shown =
        city.all.iter().filter(|f| matches!(f, Frame::Round(TALK, FrameBody::Alarm { .. })));
    assert_eq!(shown.count(), 2);
}

#[test]
fn mix_11_the_entry_ends_a_round_whose_replies_are_not_all_there() {
    let changes: [fn(FrameBody) -> Option<FrameBody>; 3] = [
        |body| (!matches!(body, FrameBody::Replies(_))).then_some(body),
        |body| match body {
            FrameBody::RepliesEnd { count } => Some(FrameBody::RepliesEnd { count: count + 1 }),
            other => Some(other),
        },
        |body| match body {
            FrameBody::RepliesEnd { .. } => Some(FrameBody::RepliesEnd { count: 0 }),
            other => Some(other),
        },
    ];
    for (number, change) in changes.into_iter().enumerate() {
        let mut city = City::new();
        city.send_hello(1);
        city.run_until(OPEN.plus_ms(100));
        city.net.meddler = Some(Box::new(move |at, to, frame| match frame {
            Frame::Round(TALK, body) if at == 0 && to == Neighbour::Previous => {
                change(body).map(|body| Frame::Round(TALK, body))
            }
            other => Some(other),
        }));
        city.send_onions(1, TALK, &[7; 416]);
        city.run_until(OPEN.plus_ms(5_000));
        let ending = city.over.iter().find(|(id, _)| *id == TALK).map(|(_, ending)| *ending);
        assert_eq!(
            ending,
            Some(Ending::Aborted(AbortReason::Count, AbortCause::Replies)),
            "change {number}"
        );
        assert_eq!(city.missed_reasons(1), [MissedReason::Aborted]);
    }
}

#[test]
fn mix_49_an_entry_whose_clock_was_put_back_goes_on_at_once() {
    let mut city = City::new();
    city.run_until(OPEN.plus_ms(100));
    let mut rng = ChaCha20Rng::seed_from_u64(0);
    // An hour ahead, for four rounds, each between the request for keys and its announcement.
    for round in 0..4 {
        city.entry.wake(OPEN.plus_ms(Time::HOUR_MS + 5_000 * round - 1_500), &mut rng);
        while let Some(output) = city.entry.poll() {
            assert!(!matches!(output, Output::ToAll(_)), "no mix takes part in these");
        }
    }
    let is_ahead = |id: &RoundId| id.round > 800;
    assert!(city.entry.rounds().any(|id| is_ahead(&id)));
    city.entry.wake(OPEN.plus_ms(200), &mut rng);
    assert!(!city.entry.rounds().any(|id| is_ahead(&id)), "they end at once");
    city.run_until(OPEN.plus_ms(11_000));
    let announced = |round| city.announced_settings(RoundId { round, ..TALK }).is_some();
    assert!(announced(102), "two rounds later all is well: {:?}", city.entry);
    assert!(city.entry.rounds().all(|id| id.round < 110));
}

#[test]
fn mix_29_a_stop_ends_every_round() {
    let mut city = City::new();
    city.send_hello(1);
    city.run_until(OPEN.plus_ms(100));
    city.send_onions(1, TALK, &[7; 416]);
    city.input(Input::Stop);
    assert_eq!(city.missed_reasons(1), [MissedReason::Aborted]);
    assert_eq!(city.over[0], (TALK, Ending::Aborted(AbortReason::Shutdown, AbortCause::Entry)));
    assert_eq!(city.entry.rounds().count(), 0);
    assert!(city.net.mixes.iter().all(|mix| mix.rounds().next().is_none()));
    city.run_until(OPEN.plus_ms(1_000));
    city.net.input(1, mix::Input::Stop);
    assert_eq!(city.net.mixes[1].rounds().count(), 0);
}

#[test]
fn mix_30_a_refused_input_changes_nothing_at_the_coordinator() {
    let mut city = City::new();
    city.send_hello(1);
    city.run_until(OPEN.plus_ms(100));
    let other = RoundId { round: 7, ..TALK };
    let of = |id, body| Frame::Round(id, body);
    let cases = [
        Input::FromMix(0, of(other, FrameBody::RoundKey([1; 32]))),
        Input::FromMix(0, of(TALK, FrameBody::RoundKey([1; 32]))),
        Input::FromMix(1, of(TALK, FrameBody::Signature([1; 64]))),
        Input::FromMix(1, of(TALK, FrameBody::RepliesEnd { count: 0 })),
        Input::FromMix(0, Frame::FetchConfig { from: [0; 32] }),
        Input::FromStore(of(TALK, FrameBody::Object(None))),
        Input::FromClient(1, of(TALK, FrameBody::NewRound)),
        Input::FromClient(9, of(TALK, FrameBody::Submit(vec![0; 416]))),
        Input::Gone(9),
    ];
    for input in cases {
        let before = format!("{:?}", city.entry);
        let shown = format!("{input:?}");
        city.input(input);
        assert!(city.refused.pop().is_some(), "{shown}");
        assert_eq!(format!("{:?}", city.entry), before, "{shown}");
    }
}

/// The entry's clock was five minutes ahead when a client came, and is put right.
#[test]
fn mix_49_who_came_while_the_clock_was_ahead_takes_part_once_it_is_right() {
    let mut city = City::new();
    let right = OPEN.minus_ms(8_000);
    city.net.now = right.plus_ms(300_000);
    city.send_hello(1);
    city.net.now = right;
    city.send_hello(2);
    for round in 101..104 {
        let id = RoundId { round, ..TALK };
        city.run_until(OPEN.plus_ms(5_000 * (round - 100) + 100));
        (1..=2).for_each(|client| city.send_onions(client, id, &[7; 416]));
        assert_eq!(city.missed_reasons(1), city.missed_reasons(2), "round {round}");
    }
}
