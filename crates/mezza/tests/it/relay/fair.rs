//! The share that a greedy client leaves for others: a bounded part of each commit, and work that is counted
//! together whatever it is.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use mezza::testing::connection::tap::{Direction, Side, Tap, TapEvent};
use mezza::testing::process::rate::RateLimit;
use mezza::testing::servers::relay::{Limits, RelayConfig};
use mezza_messenger::relay_wire::MailboxKind::{Conversation, Intro};
use mezza_messenger::relay_wire::{ClientFrame, DoneCode, RelayFrame};
use tokio::time::{sleep, timeout};

use super::fixture::*;

const FREE: RateLimit = RateLimit { burst: u32::MAX, period_ms: 0 };
/// Greedy clients, and what each puts without waiting for answers.
const GREEDY: u32 = 8;
const PUTS: u32 = 200;
/// The number of the mail that somebody else puts.
const OTHER: u32 = 1_000_000;

/// Counts the frames that the relay has begun to handle.
#[derive(Default)]
struct Asked(AtomicUsize);

impl Tap for Asked {
    fn record(&self, event: TapEvent<'_>) {
        if (event.side, event.direction) == (Side::Frame, Direction::ToRelay) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
}

impl Asked {
    fn count(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }

    async fn wait_for(&self, count: usize) {
        let waiting = async {
            while self.count() < count {
                sleep(Duration::from_millis(1)).await;
            }
        };
        timeout(PATIENCE, waiting).await.expect("as many frames in time");
    }
}

/// While the writer stands still, eight clients put as much as the relay takes from them; then somebody
/// else puts one mail. The order in which mail is stored says what was served before it.
#[tokio::test]
async fn msg_73_a_connection_has_a_bounded_part_of_what_is_served_before_others() {
    let part = Limits::default().queued_work_max;
    let place = Place::sqlite().with_limits(|limits| {
        (limits.puts, limits.work) = (FREE, FREE);
        limits.box_mails_max = u32::MAX;
    });
    let (gate, clock) = Gate::before(place.clock.clock());
    let asked = Arc::new(Asked::default());
    let tap = Some(Arc::clone(&asked) as Arc<dyn Tap>);
    let relay = place.start_with(RelayConfig { clock, tap, ..place.config() }).await;
    let mut alice = relay.connect().await;
    assert_eq!(alice.open(1, Conversation).await, DONE);
    let before = asked.count();
    gate.set(true);
    let mut greedy = Vec::new();
    for from in 0..GREEDY {
        let mut peer = relay.connect().await;
        greedy.push(tokio::spawn(async move {
            for nr in 0..PUTS {
                peer.put_unanswered(1, 9, letter(from * PUTS + nr)).await;
            }
            for _ in 0..PUTS {
                let done = peer.recv().await.unwrap();
                assert!(matches!(done, RelayFrame::Done { code: DoneCode::Done, .. }), "{done:?}");
            }
        }));
    }
    // The jobs that each may have in the queue, and one that each waits with.
    let most = before + (GREEDY * (part + 1)) as usize;
    asked.wait_for(most).await;
    let req = alice.put_unanswered(1, 9, letter(OTHER)).await;
    asked.wait_for(most + 1).await;
    gate.set(false);
    assert!(matches!(alice.answer(req).await, RelayFrame::Done { code: DoneCode::Done, .. }));
    for task in greedy {
        task.await.unwrap();
    }
    let mut bob = relay.connect().await;
    assert_eq!(bob.watch(1, 1).await, DONE);
    let mut before = 0;
    let mut last = vec![None; GREEDY as usize];
    loop {
        let (_, mail, envelope) = bob.mail().await;
        bob.taken(1, &[mail]).await;
        let nr = u32::from_be_bytes(envelope[..4].try_into().unwrap());
        if nr == OTHER {
            break;
        }
        before += 1;
        let last = &mut last[(nr / PUTS) as usize];
        assert!(*last < Some(nr), "RELAY-4: each connection's mail in its order");
        *last = Some(nr);
    }
    println!("{before} of {} mails were stored before that of somebody else", GREEDY * PUTS);
    // The jobs that each had in the queue, and one that each waited with.
    assert!(before <= GREEDY * (part + 1), "{before}");
    assert!(before >= GREEDY, "the writer stood still for too short a time: {before}");
    relay.stop().await;
}

/// A connection that waits for work takes its mail from the queue meanwhile. Mail that found no room
/// there comes afterwards, although the client asks for nothing more.
#[tokio::test]
async fn msg_72_mail_goes_on_after_a_wait_for_work() {
    const MAILS: u32 = 24;
    const PINGS: usize = 130;
    let place = Place::sqlite().with_limits(|limits| {
        limits.work = RateLimit { burst: 20, period_ms: 5 };
    });
    let (gate, clock) = Gate::before(place.clock.clock());
    let asked = Arc::new(Asked::default());
    let tap = Some(Arc::clone(&asked) as Arc<dyn Tap>);
    let relay = place.start_with(RelayConfig { clock, tap, ..place.config() }).await;
    let mut alice = relay.connect().await;
    let mut bob = relay.connect().await;
    assert_eq!(alice.open(1, Conversation).await, DONE);
    for nr in 0..MAILS {
        assert_eq!(alice.put(1, sized(nr, 16_384)).await, DONE);
    }
    gate.set(true);
    // The writer looks at the clock at least each 20 ms.
    sleep(Duration::from_millis(100)).await;
    let before = asked.count();
    bob.send(&ClientFrame::Watch { req: 9, number: 1, token: secret(1) }).await;
    for _ in 0..PINGS {
        bob.send(&ClientFrame::Ping).await;
    }
    // All that may be done at once is done: the connection waits.
    asked.wait_for(before + 25).await;
    gate.set(false);
    // The thread of the connection stands still while the writer fills the queue.
    std::thread::sleep(Duration::from_millis(300));
    let mut mails = 0;
    let mut pings = 0;
    while (mails, pings) != (MAILS, PINGS) {
        match bob.recv().await.unwrap() {
            RelayFrame::Mail { .. } => mails += 1,
            RelayFrame::Ping => pings += 1,
            other => assert!(matches!(other, RelayFrame::Done { code: DoneCode::Done, .. })),
        }
    }
    relay.stop().await;
}

/// With work for 20 units and none to come, every kind of request uses it up.
#[tokio::test]
async fn msg_72_all_requests_of_a_connection_share_one_bucket() {
    let place = Place::sqlite().with_limits(|limits| {
        limits.work = RateLimit { burst: 20, period_ms: 600_000 };
        limits.bundle_gets = FREE;
    });
    let relay = place.start().await;
    let mut owner = relay.connect().await;
    assert_eq!(owner.open(1, Intro).await, DONE);
    let frame = |kind: u8, req: u16| match kind {
        0 => ClientFrame::Ping,
        1 => ClientFrame::Put { req, address: place_of(9), ttl_h: 9, envelope: letter(1) },
        2 => ClientFrame::Open { req, token: secret(1), kind: Intro },
        3 => ClientFrame::Close { req, token: secret(9) },
        4 => ClientFrame::Watch { req, number: req, token: secret(9) },
        5 => {
            let bundle = vec![7];
            let keys = Vec::new();
            ClientFrame::BundleSet { req, token: secret(1), fresh: false, bundle, keys }
        }
        6 => ClientFrame::BundleGet { req, address: place_of(1) },
        _ => ClientFrame::Put { req, address: place_of(9), ttl_h: 9, envelope: sized(1, 16_384) },
    };
    // A frame is one unit and one more for each 4 KiB; then 0, 1, 2, 4, 2, 4, 2 and 5.
    for (kind, answers) in (0..).zip([20, 10, 6, 4, 6, 4, 6, 2]) {
        let mut peer = relay.connect().await;
        for req in 1..=25 {
            peer.send(&frame(kind, req)).await;
        }
        for at in 0..answers {
            let heard = peer.recv().await;
            assert!(heard.is_ok(), "kind {kind}, answer {at}: {heard:?}");
        }
        let more = timeout(Duration::from_millis(100), peer.connection.recv()).await;
        assert!(more.is_err(), "kind {kind}: {more:?}");
    }
    // Jobs without an answer count as well, and only their sender pays for them.
    let mut peer = relay.connect().await;
    let mut other = relay.connect().await;
    for _ in 0..20 {
        peer.taken(1, &[1]).await;
    }
    peer.send(&ClientFrame::Ping).await;
    let more = timeout(Duration::from_millis(100), peer.connection.recv()).await;
    assert!(more.is_err(), "{more:?}");
    other.send(&ClientFrame::Ping).await;
    assert_eq!(other.recv().await.unwrap(), RelayFrame::Ping);
    relay.stop().await;
}

fn place_of(token: u8) -> mezza_messenger::relay_wire::MailboxAddress {
    place(token)
}

/// A request pays for what it brings. What lies at the mailbox is not counted again: the rows are
/// taken away behind the relay's back, and it goes by what it knows.
#[tokio::test]
async fn msg_76_a_bundle_costs_what_it_brings_and_not_what_is_there() {
    let place = Place::sqlite().with_limits(|limits| limits.one_time_rows_max = 200);
    let relay = place.start().await;
    let mut alice = relay.connect().await;
    assert_eq!(alice.open(1, Intro).await, DONE);
    assert_eq!(alice.bundle_set(1, true, b"bundle", 0..129).await, REFUSED, "128 at a time");
    assert_eq!(alice.bundle_set(1, true, b"bundle", 0..128).await, DONE);
    // Ids that are there already take no room.
    assert_eq!(alice.bundle_set(1, false, b"bundle", 100..172).await, DONE);
    let disk = rusqlite::Connection::open(place.config().dir.join("mail.db")).unwrap();
    disk.execute_batch("DELETE FROM one_time").unwrap();
    assert_eq!(alice.bundle_set(1, false, b"bundle", 172..201).await.0, DoneCode::Full);
    assert_eq!(alice.bundle_set(1, false, b"bundle", 172..200).await, DONE);
    assert_eq!(alice.bundle_set(1, false, b"bundle", []).await, DONE);
    assert_eq!(alice.watch(4, 1).await, DONE);
    assert_eq!(alice.stock().await, (4, 200));
    relay.stop().await;
    // Counted anew after a restart; a closed mailbox gives its room back.
    let place = place.with_limits(|limits| limits.store_bytes_max = 128 * 64 + 6);
    let relay = place.start().await;
    let mut alice = relay.connect().await;
    assert_eq!(alice.watch(4, 1).await, DONE);
    assert_eq!(alice.stock().await, (4, 28));
    assert_eq!(alice.bundle_set(1, true, b"bundle", 0..90).await, DONE);
    assert_eq!(alice.bundle_set(1, false, b"bundle", 90..128).await.0, DoneCode::Full);
    assert_eq!(alice.close_box(1).await, DONE);
    assert_eq!(alice.open(2, Intro).await, DONE);
    assert_eq!(alice.bundle_set(2, true, b"bundle", 0..128).await, DONE);
    relay.stop().await;
}
