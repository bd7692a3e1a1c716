//! The rules that say how much: one-time keys, quotas, what one address and the whole relay may use.

use mezza::testing::process::rate::RateLimit;
use mezza_core::Time;
use mezza_messenger::relay_wire::{
    ClientFrame, DoneCode,
    MailboxKind::{Conversation, Intro},
    RelayFrame,
};

use super::fixture::*;

#[tokio::test]
async fn relay_6_a_one_time_key_is_given_out_once() {
    for place in Place::both().await {
        let place = place
            .with_limits(|limits| limits.bundle_gets = RateLimit { burst: 100, period_ms: 200 });
        let relay = place.start().await;
        let mut alice = relay.connect().await;
        let mut bob = relay.connect().await;
        assert_eq!(bob.open(1, Intro).await, DONE);
        assert_eq!(bob.watch(5, 1).await, DONE);
        assert_eq!(bob.stock().await, (5, 0));
        assert_eq!(alice.bundle_get(1).await.done(), Some(NO_BOX));
        assert_eq!(bob.bundle_set(1, true, b"bundle", 0..22).await, DONE);
        // An id that is there is ignored, also one that was given out.
        let mut given = vec![alice.bundle_get(1).await.key(b"bundle").unwrap()];
        assert_eq!(bob.bundle_set(1, false, b"bundle", 0..22).await, DONE);
        for _ in 1..20 {
            given.push(alice.bundle_get(1).await.key(b"bundle").unwrap());
        }
        given.sort_unstable();
        given.dedup();
        assert_eq!(given.len(), 20);
        for left in (2..20).rev() {
            assert_eq!(bob.stock().await, (5, left));
        }
        // Faster than one a minute: the bundle goes without, and the stock stays.
        assert_eq!(alice.bundle_get(1).await.key(b"bundle"), None);
        place.clock.pass(Time::MINUTE_MS);
        given.push(alice.bundle_get(1).await.key(b"bundle").unwrap());
        assert_eq!(alice.bundle_get(1).await.key(b"bundle"), None);
        assert_eq!(bob.stock().await, (5, 1));
        place.clock.pass(Time::MINUTE_MS);
        given.push(alice.bundle_get(1).await.key(b"bundle").unwrap());
        // None is left, also after a restart; a fresh stock may use the ids again.
        relay.stop().await;
        let relay = place.start().await;
        let mut alice = relay.connect().await;
        let mut bob = relay.connect().await;
        assert_eq!(bob.bundle_set(1, false, b"newer", given.clone()).await, DONE);
        assert_eq!(alice.bundle_get(1).await.key(b"newer"), None);
        assert_eq!(bob.bundle_set(1, true, b"newest", [given[0]]).await, DONE);
        assert_eq!(alice.bundle_get(1).await.key(b"newest"), Some(given[0]));
        relay.stop().await;
    }
}

trait Answered {
    fn done(&self) -> Option<(DoneCode, u16)>;
    fn key(&self, bundle: &[u8]) -> Option<u32>;
}

impl Answered for RelayFrame {
    fn done(&self) -> Option<(DoneCode, u16)> {
        match self {
            RelayFrame::Done { code, retry_s, .. } => Some((*code, *retry_s)),
            _ => None,
        }
    }

    /// The id of the key beside this bundle.
    fn key(&self, wanted: &[u8]) -> Option<u32> {
        match self {
            RelayFrame::Bundle { bundle, key, .. } => {
                assert_eq!(bundle, wanted);
                key.as_ref().map(|key| {
                    assert_eq!(*key, one_time(key.id));
                    key.id
                })
            }
            other => panic!("{other:?} in place of BUNDLE"),
        }
    }
}

#[tokio::test]
async fn relay_8_limits_are_answered_never_silent() {
    let place = Place::sqlite().with_limits(|limits| {
        limits.box_mails_max = 6;
        limits.intro_mails_max = 2;
        limits.box_bytes_max = 4_096;
        limits.boxes_per_connection_max = 2;
        limits.puts = RateLimit { burst: 12, period_ms: 50 };
        limits.intro_puts = RateLimit { burst: 1, period_ms: 1_000 };
        limits.bundle_gets = RateLimit { burst: 1, period_ms: 200 };
        limits.one_time_rows_max = 3;
    });
    let relay = place.start().await;
    let mut alice = relay.connect().await;
    for token in 1..4 {
        assert_eq!(alice.open(token, Conversation).await, DONE);
    }
    assert_eq!(alice.open(9, Intro).await, DONE);
    let full = |code: (DoneCode, u16)| code.0 == DoneCode::Full && code.1 > 0;
    let slow = |code: (DoneCode, u16)| code.0 == DoneCode::SlowDown && code.1 > 0;
    // Mails, bytes.
    for nr in 0..6 {
        assert_eq!(alice.put(1, letter(nr)).await, DONE);
    }
    assert!(full(alice.put(1, letter(6)).await));
    assert_eq!(alice.put(2, sized(0, 4_096)).await, DONE);
    assert!(full(alice.put(2, letter(1)).await));
    // An intro box takes one a second, and two in all.
    assert_eq!(alice.put(9, letter(0)).await, DONE);
    assert!(slow(alice.put(9, letter(1)).await));
    place.clock.pass(1_000);
    assert_eq!(alice.put(9, letter(1)).await, DONE);
    place.clock.pass(1_000);
    assert!(full(alice.put(9, letter(2)).await));
    // Puts of one connection, bundles asked for, keys kept, boxes watched.
    for nr in 0..11 {
        assert!(full(alice.put(1, letter(nr)).await));
    }
    assert!(slow(alice.put(3, letter(0)).await));
    assert_eq!(alice.bundle_get(9).await.done(), Some(NO_BOX));
    assert!(slow(alice.bundle_get(9).await.done().unwrap()));
    assert!(full(alice.bundle_set(9, true, b"b", 0..4).await));
    assert_eq!(alice.bundle_set(9, true, b"b", 0..3).await, DONE);
    assert!(full(alice.bundle_set(9, false, b"b", 3..4).await));
    assert_eq!(alice.watch(1, 3).await, DONE);
    assert_eq!(alice.watch(2, 3).await, DONE);
    assert!(slow(alice.watch(3, 3).await));
    assert_eq!(alice.watch(2, 3).await, DONE);
    relay.stop().await;
}

#[tokio::test]
async fn relay_12_the_whole_relay_is_bounded() {
    let place = Place::sqlite().with_limits(|limits| {
        limits.store_bytes_max = 4_096;
        limits.boxes_max = 3;
    });
    let relay = place.start().await;
    let mut alice = relay.connect().await;
    for token in 1..4 {
        assert_eq!(alice.open(token, Conversation).await, DONE);
    }
    assert_eq!(alice.open(4, Conversation).await.0, DoneCode::Full);
    assert_eq!(alice.open(3, Conversation).await, DONE);
    assert_eq!(alice.close_box(3).await, DONE);
    assert_eq!(alice.open(4, Intro).await, DONE);
    assert_eq!(alice.put(1, sized(1, 2_048)).await, DONE);
    assert_eq!(alice.put(2, sized(2, 1_024)).await, DONE);
    assert_eq!(alice.put(4, sized(3, 2_048)).await.0, DoneCode::Full);
    assert_eq!(alice.bundle_set(4, true, &[7; 1_000], 0..1).await.0, DoneCode::Full);
    assert_eq!(alice.bundle_set(4, true, &[7; 500], 0..5).await, DONE);
    assert_eq!(alice.put(2, letter(4)).await.0, DoneCode::Full);
    // The bound is known again after a restart, and room comes back when mail is taken.
    relay.stop().await;
    let relay = place.start().await;
    let mut alice = relay.connect().await;
    assert_eq!(alice.put(2, letter(4)).await.0, DoneCode::Full);
    assert_eq!(alice.watch(1, 1).await, DONE);
    let (_, nr, _) = alice.mail().await;
    alice.taken(1, &[nr]).await;
    assert_eq!(alice.put(2, letter(4)).await, DONE);
    relay.stop().await;
}

#[tokio::test]
async fn relay_12_one_address_is_bounded() {
    let place = Place::sqlite().with_limits(|limits| {
        limits.address_connections_max = 2;
        limits.address_opens_per_day = 3;
        limits.address_put_bytes_per_day = 2_048;
    });
    let relay = place.start().await;
    let mut alice = relay.connect().await;
    let bob = relay.connect().await;
    let mut third = relay.connect().await;
    match third.recv().await.unwrap() {
        RelayFrame::Done { req: 0, code: DoneCode::SlowDown, retry_s } => assert!(retry_s > 0),
        other => panic!("{other:?}"),
    }
    assert!(third.ended().await);
    for _ in 0..3 {
        assert_eq!(alice.open(1, Conversation).await, DONE);
    }
    let until_midnight = (DoneCode::SlowDown, 12 * 3_600);
    assert_eq!(alice.open(1, Conversation).await, until_midnight);
    assert_eq!(alice.put(1, sized(1, 1_024)).await, DONE);
    assert_eq!(alice.put(1, sized(2, 1_024)).await, DONE);
    assert_eq!(alice.put(1, letter(3)).await, until_midnight);
    // A place is free again when a connection ends, and the counts at midnight.
    bob.connection.close().await.unwrap();
    let again = loop {
        let mut again = relay.connect().await;
        again.send(&ClientFrame::Ping).await;
        if again.recv().await.unwrap() == RelayFrame::Ping {
            break again;
        }
    };
    place.clock.pass(12 * Time::HOUR_MS);
    // Another connection would need a place that a third one may still hold.
    let mut alice = again;
    assert_eq!(alice.open(2, Conversation).await, DONE);
    assert_eq!(alice.put(2, letter(3)).await, DONE);
    relay.stop().await;
}

#[tokio::test]
async fn relay_12_at_most_64_mails_in_flight_and_the_newest_watch_owns() {
    for place in Place::both().await {
        let relay = place.start().await;
        let mut alice = relay.connect().await;
        let mut bob = relay.connect().await;
        assert_eq!(alice.open(1, Conversation).await, DONE);
        assert_eq!(bob.watch(1, 1).await, DONE);
        for nr in 0..70 {
            assert_eq!(alice.put(1, letter(nr)).await, DONE);
        }
        let mut numbers = Vec::new();
        for nr in 0..64 {
            let (_, mail, envelope) = bob.mail().await;
            assert_eq!(envelope, letter(nr));
            numbers.push(mail);
        }
        assert!(bob.is_silent().await);
        bob.taken(1, &numbers[..4]).await;
        for nr in 64..68 {
            assert_eq!(bob.mail().await.2, letter(nr));
        }
        assert!(bob.is_silent().await);
        // A newer WATCH gets all that is left and all that comes; the older one is told so (MSG-90).
        let mut newer = relay.connect().await;
        assert_eq!(newer.watch(3, 1).await, DONE);
        for nr in 4..68 {
            assert_eq!(newer.mail().await.2, letter(nr));
        }
        assert_eq!(alice.put(1, letter(70)).await, DONE);
        let displaced = RelayFrame::Displaced { number: 1, over: false };
        assert_eq!(bob.recv().await.unwrap(), displaced);
        assert!(bob.is_silent().await);
        relay.stop().await;
    }
}
