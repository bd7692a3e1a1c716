//! One connection from lists of operations and from random bytes: every request is answered once,
//! the relay goes on for everybody else, and no store row is left behind by nonsense.

use std::collections::BTreeMap;

use mezza::testing::process::rate::RateLimit;
use mezza::testing::servers::relay::Limits;
use mezza_messenger::relay_wire::MailboxKind::{self, Conversation, Intro};
use mezza_messenger::relay_wire::{ClientFrame, RelayFrame};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;

use super::fixture::*;

#[derive(Clone, Debug)]
enum Op {
    Open(u8, bool),
    Close(u8),
    Put(u8, usize),
    Watch(u16, u8),
    Taken(u16, Vec<u32>),
    BundleSet(u8, bool, Vec<u32>),
    BundleGet(u8),
    Ping,
}

fn op() -> impl Strategy<Value = Op> {
    let token = 0u8..4;
    prop_oneof![
        3 => (token.clone(), any::<bool>()).prop_map(|(t, intro)| Op::Open(t, intro)),
        1 => token.clone().prop_map(Op::Close),
        6 => (token.clone(), prop_oneof![Just(512usize), Just(1_024), Just(513)])
            .prop_map(|(t, bytes)| Op::Put(t, bytes)),
        3 => (0u16..4, token.clone()).prop_map(|(n, t)| Op::Watch(n, t)),
        3 => (0u16..4, vec(0u32..80, 0..64)).prop_map(|(n, mails)| Op::Taken(n, mails)),
        1 => (token.clone(), any::<bool>(), vec(0u32..50, 0..20))
            .prop_map(|(t, fresh, ids)| Op::BundleSet(t, fresh, ids)),
        1 => token.prop_map(Op::BundleGet),
        1 => Just(Op::Ping),
    ]
}

fn frame(op: Op, req: u16, nr: u32) -> ClientFrame {
    let kind = |intro| -> MailboxKind { if intro { Intro } else { Conversation } };
    match op {
        Op::Open(t, intro) => ClientFrame::Open { req, token: secret(t), kind: kind(intro) },
        Op::Close(t) => ClientFrame::Close { req, token: secret(t) },
        Op::Put(t, bytes) => {
            ClientFrame::Put { req, address: place(t), ttl_h: 5, envelope: sized(nr, bytes) }
        }
        Op::Watch(number, t) => ClientFrame::Watch { req, number, token: secret(t) },
        Op::Taken(number, mails) => ClientFrame::Taken { number, mails },
        Op::BundleSet(t, fresh, ids) => {
            let keys = ids.into_iter().map(one_time).collect();
            ClientFrame::BundleSet { req, token: secret(t), fresh, bundle: vec![7; 90], keys }
        }
        Op::BundleGet(t) => ClientFrame::BundleGet { req, address: place(t) },
        Op::Ping => ClientFrame::Ping,
    }
}

fn limits(limits: &mut Limits) {
    limits.box_mails_max = 20;
    limits.intro_mails_max = 5;
    limits.in_flight_max = 6;
    limits.pending_max = 7;
    limits.puts = RateLimit { burst: 200, period_ms: 1 };
    limits.address_opens_per_day = u32::MAX;
    limits.address_connections_max = u32::MAX;
}

fn cases(count: u32) -> TestRunner {
    TestRunner::new(ProptestConfig {
        cases: count,
        failure_persistence: None,
        ..Default::default()
    })
}

/// Sends all, then reads: each request has one answer, each mail of a box comes in order.
async fn play(relay: &Relay, ops: Vec<Op>) {
    let (mut sender, mut receiver) = relay.connect().await.connection.split();
    let expected: BTreeMap<u16, u32> = (1..=ops.len() as u16)
        .zip(&ops)
        .filter(|(_, op)| !no_answer(op))
        .map(|(r, _)| (r, 1))
        .collect();
    let pings = ops.iter().filter(|op| matches!(op, Op::Ping)).count() + 1;
    let sending = tokio::spawn(async move {
        for (at, op) in ops.into_iter().enumerate() {
            sender.send(&frame(op, at as u16 + 1, at as u32)).await.unwrap();
        }
        sender
    });
    let (mut answers, mut pongs, mut last_nr) = (BTreeMap::<u16, u32>::new(), 0, 0);
    let mut sender = None;
    let mut sending = Some(sending);
    while pongs < pings || answers.len() < expected.len() {
        if sender.is_none() && sending.as_ref().is_some_and(JoinHandle::is_finished) {
            let mut done = sending.take().unwrap().await.unwrap();
            done.send(&ClientFrame::Ping).await.unwrap();
            sender = Some(done);
        }
        tokio::select! {
            frame = receiver.recv() => match frame.unwrap() {
                RelayFrame::Done { req, .. } | RelayFrame::Bundle { req, .. } => {
                    *answers.entry(req).or_default() += 1;
                }
                RelayFrame::Ping => pongs += 1,
                RelayFrame::Mail { nr, .. } => {
                    assert!(nr > last_nr);
                    last_nr = nr;
                }
                RelayFrame::Stock { .. } | RelayFrame::Displaced { .. } => (),
                RelayFrame::Hello { .. } => panic!("a second HELLO"),
            },
            () = tokio::task::yield_now(), if sender.is_none() => (),
        }
    }
    assert_eq!(answers, expected);
}

fn no_answer(op: &Op) -> bool {
    matches!(op, Op::Taken(..) | Op::Ping)
}

#[test]
fn every_request_is_answered_once() {
    let runtime = Runtime::new().unwrap();
    let place = Place::sqlite().with_limits(limits);
    let relay = runtime.block_on(place.start());
    let ops = vec(op(), 1..120);
    cases(48)
        .run(&ops, |ops| {
            runtime.block_on(play(&relay, ops));
            Ok(())
        })
        .unwrap();
    runtime.block_on(relay.stop());
}

#[test]
fn random_bytes_end_one_connection_and_nothing_else() {
    let runtime = Runtime::new().unwrap();
    let place = Place::sqlite().with_limits(limits);
    let relay = runtime.block_on(place.start());
    let piece = prop_oneof![
        vec(any::<u8>(), 0..60),
        // A right length and kind before random bytes.
        (0x10u8..0x20, vec(any::<u8>(), 0..60))
            .prop_map(|(kind, body)| { [&[0, 0, body.len() as u8 + 1, kind], &body[..]].concat() }),
    ];
    cases(64)
        .run(&vec(piece, 1..8), |pieces| {
            runtime.block_on(async {
                let mut raw = RawPeer::connect(&relay).await;
                raw.write(&pieces.concat()).await;
                // A length beyond the limit, in case all before was a frame or is being waited for.
                raw.write(&vec![0xff; 70_000]).await;
                let frames = raw.frames_to_end().await;
                let end = RelayFrame::Done {
                    req: 0,
                    code: mezza_messenger::relay_wire::DoneCode::Refused,
                    retry_s: 0,
                };
                // Earlier requests are still answered, perhaps behind the refusal.
                assert_eq!(frames.iter().filter(|frame| **frame == end).count(), 1, "{frames:?}");
                let mut alice = relay.connect().await;
                alice.send(&ClientFrame::Ping).await;
                assert_eq!(alice.recv().await.unwrap(), RelayFrame::Ping);
            });
            Ok(())
        })
        .unwrap();
    runtime.block_on(relay.stop());
}
