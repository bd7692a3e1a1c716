//! One test for each rule of the relay, by its number.

use std::time::Duration;

use mezza::relay::Rate;
use mezza::relay::client::{ConnectError, connect};
use mezza::tls::fingerprint;
use mezza_core::Time;
use mezza_messenger::relay_wire::{
    BoxKind::{Conversation, Intro},
    ClientFrame, Code, ENVELOPE_BYTES, RelayFrame,
};

use super::fixture::*;

/// What was answered with DONE 0 is there when the relay starts again from its files alone.
#[tokio::test]
async fn relay_1_done_means_durable() {
    for place in Place::both().await {
        let relay = place.start().await;
        let mut alice = relay.connect().await;
        assert_eq!(alice.open(1, Conversation).await, DONE);
        for nr in 0..30 {
            assert_eq!(alice.put(1, letter(nr)).await, DONE);
        }
        // The files as they are at this moment are all that a power cut leaves.
        if let mezza::relay::StoreSpec::Sqlite(_) = place.store {
            let copy = Place::sqlite();
            std::fs::create_dir(copy.config().dir).unwrap();
            for name in ["mail.db", "mail.db-wal"] {
                std::fs::copy(place.config().dir.join(name), copy.config().dir.join(name)).unwrap();
            }
            let mut permissions = std::fs::metadata(copy.config().dir).unwrap().permissions();
            std::os::unix::fs::PermissionsExt::set_mode(&mut permissions, 0o700);
            std::fs::set_permissions(copy.config().dir, permissions).unwrap();
            assert_eq!(all_mail(&copy).await, 30);
        }
        relay.stop().await;
        assert_eq!(all_mail(&place).await, 30);
    }
}

async fn all_mail(place: &Place) -> u32 {
    let relay = place.start().await;
    let mut bob = relay.connect().await;
    assert_eq!(bob.watch(7, 1).await, DONE);
    for nr in 0..30 {
        assert_eq!(bob.mail().await.2, letter(nr));
    }
    relay.stop().await;
    30
}

#[tokio::test]
async fn relay_2_only_the_six_sizes() {
    let place = Place::sqlite();
    let relay = place.start().await;
    let mut alice = relay.connect().await;
    assert_eq!(alice.open(1, Conversation).await, DONE);
    for bytes in ENVELOPE_BYTES {
        assert_eq!(alice.put(1, sized(1, bytes)).await, DONE, "{bytes}");
        for wrong in [bytes - 1, bytes + 1] {
            assert_eq!(alice.put(1, sized(1, wrong)).await, (Code::Size, 0), "{wrong}");
        }
    }
    assert_eq!(alice.put(1, sized(1, 32_768)).await, (Code::Size, 0));
    assert_eq!(alice.put(1, Vec::new()).await, (Code::Size, 0));
    relay.stop().await;
}

#[tokio::test]
async fn relay_3_removed_mail_never_comes_again_and_other_mail_does() {
    for place in Place::both().await {
        let relay = place.start().await;
        let mut alice = relay.connect().await;
        assert_eq!(alice.open(1, Conversation).await, DONE);
        for nr in 0..5 {
            assert_eq!(alice.put(1, letter(nr)).await, DONE);
        }
        let mut bob = relay.connect().await;
        assert_eq!(bob.watch(1, 1).await, DONE);
        let mut numbers = Vec::new();
        for nr in 0..5 {
            let (number, mail, envelope) = bob.mail().await;
            assert_eq!((number, envelope), (1, letter(nr)));
            numbers.push(mail);
        }
        bob.taken(1, &[numbers[1], numbers[3]]).await;
        // Watched again on the same connection, on another, and after a restart.
        assert_eq!(bob.watch(1, 1).await, DONE);
        for nr in [0, 2, 4] {
            assert_eq!(bob.mail().await.2, letter(nr));
        }
        let mut bob = relay.connect().await;
        assert_eq!(bob.watch(9, 1).await, DONE);
        for nr in [0, 2, 4] {
            assert_eq!(bob.mail().await.2, letter(nr));
        }
        assert!(bob.is_silent().await);
        relay.stop().await;
        let relay = place.start().await;
        let mut bob = relay.connect().await;
        assert_eq!(bob.watch(9, 1).await, DONE);
        for nr in [0, 2, 4] {
            assert_eq!(bob.mail().await.2, letter(nr));
        }
        assert!(bob.is_silent().await);
        relay.stop().await;
    }
}

/// Half of it waits in the store, half comes while the box is watched; some overflows the window.
#[tokio::test]
async fn relay_4_order_per_box_as_put_by_one_connection() {
    for place in Place::both().await {
        let place = place.with_limits(|limits| limits.puts = Rate { burst: 1_000, period_ms: 0 });
        let relay = place.start().await;
        let mut alice = relay.connect().await;
        for token in [1, 2] {
            assert_eq!(alice.open(token, Conversation).await, DONE);
        }
        for nr in 0..60 {
            alice.put_unanswered(1 + (nr % 2) as u8, 9, letter(nr)).await;
        }
        let mut bob = relay.connect().await;
        assert_eq!(bob.watch(1, 1).await, DONE);
        assert_eq!(bob.watch(2, 2).await, DONE);
        for nr in 60..400 {
            alice.put_unanswered(1 + (nr % 2) as u8, 9, letter(nr)).await;
        }
        let mut next = [0, 1];
        for _ in 0..400 {
            let (number, mail, envelope) = bob.mail().await;
            let expected = &mut next[usize::from(number - 1)];
            assert_eq!(envelope, letter(*expected));
            *expected += 2;
            bob.taken(number, &[mail]).await;
        }
        assert!(bob.is_silent().await);
        relay.stop().await;
    }
}

#[tokio::test]
async fn relay_5_mail_numbers_hold_on_their_connection_only() {
    for place in Place::both().await {
        let relay = place.start().await;
        let mut alice = relay.connect().await;
        for token in [1, 2] {
            assert_eq!(alice.open(token, Conversation).await, DONE);
            assert_eq!(alice.put(token, letter(u32::from(token))).await, DONE);
        }
        let (mut bob, mut mallory) = (relay.connect().await, relay.connect().await);
        assert_eq!(bob.watch(1, 1).await, DONE);
        assert_eq!(mallory.watch(2, 2).await, DONE);
        let (_, of_bob, _) = bob.mail().await;
        let (_, of_mallory, _) = mallory.mail().await;
        // Numbers of another connection, of another box, never given, without a watch.
        mallory.taken(1, &[of_bob]).await;
        mallory.taken(3, &[of_mallory]).await;
        bob.taken(1, &[of_bob + 1, of_bob.wrapping_sub(1), u32::MAX]).await;
        assert_eq!(bob.watch(4, 2).await, DONE);
        assert_eq!(bob.mail().await.2, letter(2));
        // Bob owns box 2 now: what Mallory was given before is not hers to remove any more.
        mallory.taken(2, &[of_mallory]).await;
        assert!(mallory.is_silent().await);
        let mut fresh = relay.connect().await;
        for token in [1, 2] {
            assert_eq!(fresh.watch(token, token as u8).await, DONE);
            assert_eq!(fresh.mail().await.2, letter(u32::from(token)));
        }
        relay.stop().await;
    }
}

#[tokio::test]
async fn relay_6_a_one_time_key_is_given_out_once() {
    for place in Place::both().await {
        let place =
            place.with_limits(|limits| limits.bundle_gets = Rate { burst: 100, period_ms: 200 });
        let relay = place.start().await;
        let (mut alice, mut bob) = (relay.connect().await, relay.connect().await);
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
        let (mut alice, mut bob) = (relay.connect().await, relay.connect().await);
        assert_eq!(bob.bundle_set(1, false, b"newer", given.clone()).await, DONE);
        assert_eq!(alice.bundle_get(1).await.key(b"newer"), None);
        assert_eq!(bob.bundle_set(1, true, b"newest", [given[0]]).await, DONE);
        assert_eq!(alice.bundle_get(1).await.key(b"newest"), Some(given[0]));
        relay.stop().await;
    }
}

trait Answered {
    fn done(&self) -> Option<(Code, u16)>;
    fn key(&self, bundle: &[u8]) -> Option<u32>;
}

impl Answered for RelayFrame {
    fn done(&self) -> Option<(Code, u16)> {
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
        limits.puts = Rate { burst: 12, period_ms: 50 };
        limits.intro_puts = Rate { burst: 1, period_ms: 1_000 };
        limits.bundle_gets = Rate { burst: 1, period_ms: 200 };
        limits.one_time_rows_max = 3;
    });
    let relay = place.start().await;
    let mut alice = relay.connect().await;
    for token in 1..4 {
        assert_eq!(alice.open(token, Conversation).await, DONE);
    }
    assert_eq!(alice.open(9, Intro).await, DONE);
    let full = |code: (Code, u16)| code.0 == Code::Full && code.1 > 0;
    let slow = |code: (Code, u16)| code.0 == Code::SlowDown && code.1 > 0;
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
async fn relay_10_a_wrong_key_gets_no_further_than_tls() {
    let (place, other) = (Place::sqlite(), Place::sqlite());
    let (relay, imposter) = (place.start().await, other.start().await);
    let (ours, theirs) = (*relay.handle.key(), *imposter.handle.key());
    let port = imposter.handle.address().port();
    let error = connect(&ours, "127.0.0.1", port, &place.clock.clock(), None).await.unwrap_err();
    let text = error.to_string();
    match error {
        ConnectError::WrongKey { shown, expected, .. } => {
            assert_eq!((shown, expected), (fingerprint(&theirs), fingerprint(&ours)));
        }
        other => panic!("{other:?}"),
    }
    for key in [ours, theirs] {
        let digits = format!("{:02X}{:02X}-{:02X}{:02X}", key[0], key[1], key[2], key[3]);
        assert!(text.contains(&digits), "{text}");
    }
    relay.stop().await;
    imposter.stop().await;
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
    assert_eq!(alice.open(4, Conversation).await.0, Code::Full);
    assert_eq!(alice.open(3, Conversation).await, DONE);
    assert_eq!(alice.close_box(3).await, DONE);
    assert_eq!(alice.open(4, Intro).await, DONE);
    assert_eq!(alice.put(1, sized(1, 2_048)).await, DONE);
    assert_eq!(alice.put(2, sized(2, 1_024)).await, DONE);
    assert_eq!(alice.put(4, sized(3, 2_048)).await.0, Code::Full);
    assert_eq!(alice.bundle_set(4, true, &[7; 1_000], 0..1).await.0, Code::Full);
    assert_eq!(alice.bundle_set(4, true, &[7; 500], 0..5).await, DONE);
    assert_eq!(alice.put(2, letter(4)).await.0, Code::Full);
    // The bound is known again after a restart, and room comes back when mail is taken.
    relay.stop().await;
    let relay = place.start().await;
    let mut alice = relay.connect().await;
    assert_eq!(alice.put(2, letter(4)).await.0, Code::Full);
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
    let (mut alice, bob) = (relay.connect().await, relay.connect().await);
    let mut third = relay.connect().await;
    match third.recv().await.unwrap() {
        RelayFrame::Done { req: 0, code: Code::SlowDown, retry_s } => assert!(retry_s > 0),
        other => panic!("{other:?}"),
    }
    assert!(third.ended().await);
    for _ in 0..3 {
        assert_eq!(alice.open(1, Conversation).await, DONE);
    }
    let until_midnight = (Code::SlowDown, 12 * 3_600);
    assert_eq!(alice.open(1, Conversation).await, until_midnight);
    assert_eq!(alice.put(1, sized(1, 1_024)).await, DONE);
    assert_eq!(alice.put(1, sized(2, 1_024)).await, DONE);
    assert_eq!(alice.put(1, letter(3)).await, until_midnight);
    // A place is free again when a connection ends, and the counts at midnight.
    bob.connection.close().await.unwrap();
    loop {
        let mut again = relay.connect().await;
        again.send(&ClientFrame::Ping).await;
        if again.recv().await.unwrap() == RelayFrame::Ping {
            break;
        }
    }
    place.clock.pass(12 * Time::HOUR_MS);
    let mut alice = relay.connect().await;
    assert_eq!(alice.open(2, Conversation).await, DONE);
    assert_eq!(alice.put(2, letter(3)).await, DONE);
    relay.stop().await;
}

#[tokio::test]
async fn relay_12_at_most_64_mails_in_flight_and_the_newest_watch_owns() {
    for place in Place::both().await {
        let relay = place.start().await;
        let (mut alice, mut bob) = (relay.connect().await, relay.connect().await);
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
        // A newer WATCH gets all that is left and all that comes; the older one nothing.
        let mut newer = relay.connect().await;
        assert_eq!(newer.watch(3, 1).await, DONE);
        for nr in 4..68 {
            assert_eq!(newer.mail().await.2, letter(nr));
        }
        assert_eq!(alice.put(1, letter(70)).await, DONE);
        assert!(bob.is_silent().await);
        relay.stop().await;
    }
}

/// A client that promises bytes and does not send them costs the relay what it sent.
#[tokio::test]
async fn relay_11_allocation_follows_bytes_not_lengths() {
    let place = Place::sqlite();
    let relay = place.start().await;
    for promise in [[0, 0, 0], [1, 0, 1], [0xff, 0xff, 0xff]] {
        let mut raw = RawPeer::connect(&relay).await;
        raw.write(&promise).await;
        assert_eq!(raw.frames_to_end().await, vec![malformed()]);
    }
    // The largest length is waited for; what is too long by its kind is refused when it is whole.
    let mut raw = RawPeer::connect(&relay).await;
    raw.write(&[1, 0, 0, 0x1d]).await;
    raw.write(&vec![0; 65_535]).await;
    assert_eq!(raw.frames_to_end().await, vec![malformed()]);
    // Counts inside a frame that nothing backs.
    let mut taken = vec![0, 0, 4, 0x15, 0, 1, 64];
    let mut raw = RawPeer::connect(&relay).await;
    raw.write(&taken).await;
    assert_eq!(raw.frames_to_end().await, vec![malformed()]);
    taken[2] = 68;
    taken[6] = 65;
    let mut raw = RawPeer::connect(&relay).await;
    raw.write(&[taken, vec![0; 64]].concat()).await;
    assert_eq!(raw.frames_to_end().await, vec![malformed()]);
    relay.stop().await;
}

fn malformed() -> RelayFrame {
    RelayFrame::Done { req: 0, code: Code::Refused, retry_s: 0 }
}

#[tokio::test]
async fn open_is_repeatable_and_keeps_its_kind() {
    for place in Place::both().await {
        let relay = place.start().await;
        let mut alice = relay.connect().await;
        assert_eq!(alice.watch(1, 1).await, NO_BOX);
        assert_eq!(alice.put(1, letter(1)).await, NO_BOX);
        assert_eq!(alice.close_box(1).await, NO_BOX);
        assert_eq!(alice.bundle_set(1, true, b"b", []).await, NO_BOX);
        assert_eq!(alice.open(1, Conversation).await, DONE);
        assert_eq!(alice.open(1, Conversation).await, DONE);
        assert_eq!(alice.open(1, Intro).await, REFUSED);
        assert_eq!(alice.bundle_set(1, true, b"b", []).await, REFUSED);
        assert_eq!(alice.put(1, letter(1)).await, DONE);
        assert_eq!(alice.close_box(1).await, DONE);
        assert_eq!(alice.put(1, letter(1)).await, NO_BOX);
        assert_eq!(alice.open(1, Intro).await, DONE);
        assert_eq!(alice.watch(1, 1).await, DONE);
        assert_eq!(alice.stock().await, (1, 0));
        assert!(alice.is_silent().await);
        assert_eq!(alice.bundle_set(1, true, b"", []).await, REFUSED);
        alice.send(&ClientFrame::Ping).await;
        assert_eq!(alice.recv().await.unwrap(), RelayFrame::Ping);
        relay.stop().await;
    }
}

#[tokio::test]
async fn mail_and_idle_boxes_go_when_their_time_is_over() {
    for place in Place::both().await {
        let relay = place.start().await;
        let mut alice = relay.connect().await;
        for token in [1, 2] {
            assert_eq!(alice.open(token, Conversation).await, DONE);
        }
        assert_eq!(alice.put_for(1, 1, letter(1)).await, DONE);
        assert_eq!(alice.put_for(1, 48, letter(2)).await, DONE);
        assert_eq!(alice.put_for(1, u16::MAX, letter(3)).await, DONE);
        place.clock.pass(Time::HOUR_MS);
        let mut bob = relay.connect().await;
        assert_eq!(bob.watch(1, 1).await, DONE);
        for nr in 1..4 {
            assert_eq!(bob.mail().await.2, letter(nr));
        }
        place.clock.pass(Time::HOUR_MS);
        assert_eq!(bob.watch(1, 1).await, DONE);
        for nr in 2..4 {
            assert_eq!(bob.mail().await.2, letter(nr));
        }
        assert_eq!(alice.bundle_get(2).await.done(), Some(NO_BOX));
        // Longer than the limit is cut to the limit: 720 h.
        place.clock.pass(719 * Time::HOUR_MS);
        assert_eq!(bob.watch(1, 1).await, DONE);
        assert!(bob.is_silent().await);
        await_totals(&place, |totals| totals.mails == 0 && totals.bytes == 0).await;
        // Box 1 is watched and stays; box 2 never was.
        place.clock.pass(90 * Time::DAY_MS);
        await_totals(&place, |totals| totals.boxes == 1).await;
        assert_eq!(alice.put(1, letter(4)).await, DONE);
        assert_eq!(bob.mail().await.2, letter(4));
        assert_eq!(alice.put(2, letter(4)).await, NO_BOX);
        relay.stop().await;
    }
}

async fn await_totals(place: &Place, holds: impl Fn(mezza::relay::Totals) -> bool) {
    for _ in 0..500 {
        let status = mezza::relay::status(&place.config().dir, &place.store).await.unwrap();
        if holds(status.totals) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("the totals never came");
}

#[tokio::test]
async fn clocks_more_than_a_day_apart_are_told() {
    let (place, ahead) = (Place::sqlite(), Place::sqlite());
    let relay = place.start().await;
    let (key, port) = (*relay.handle.key(), relay.handle.address().port());
    ahead.clock.pass(Time::DAY_MS);
    assert!(connect(&key, "127.0.0.1", port, &ahead.clock.clock(), None).await.is_ok());
    ahead.clock.pass(1);
    let error = connect(&key, "127.0.0.1", port, &ahead.clock.clock(), None).await.unwrap_err();
    assert!(matches!(error, ConnectError::Clock { .. }));
    assert_eq!(error.exit_code(), 78);
    relay.stop().await;
    let error = connect(&key, "127.0.0.1", port, &ahead.clock.clock(), None).await.unwrap_err();
    assert!(matches!(error, ConnectError::Unreachable { .. }));
    assert_eq!(error.exit_code(), 69);
}

/// The relay holds back what a connection does not read, and brings it when it reads again.
#[tokio::test]
async fn a_watcher_that_reads_late_misses_nothing() {
    for place in Place::both().await {
        let relay = place.start().await;
        let (mut alice, mut bob) = (relay.connect().await, relay.connect().await);
        let mut next = [0; 4];
        for token in 0..4 {
            assert_eq!(alice.open(token, Conversation).await, DONE);
        }
        for token in 0..4 {
            // Two boxes are watched before their mail comes, two behind it.
            if token < 2 {
                assert_eq!(bob.watch(u16::from(token), token).await, DONE);
            }
            for nr in 0..24 {
                let req = alice.put_unanswered(token, 9, sized(nr, 16_384)).await;
                assert!(matches!(
                    alice.answer(req).await,
                    RelayFrame::Done { code: Code::Done, .. }
                ));
            }
        }
        for number in 2..4 {
            let token = secret(number as u8);
            bob.send(&ClientFrame::Watch { req: 9, number, token }).await;
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
        while next != [24; 4] {
            match bob.recv().await.unwrap() {
                RelayFrame::Mail { number, envelope, .. } => {
                    let nr = &mut next[usize::from(number)];
                    assert_eq!(envelope, sized(*nr, 16_384));
                    *nr += 1;
                }
                RelayFrame::Done { code: Code::Done, .. } => (),
                other => panic!("{other:?}"),
            }
        }
        relay.stop().await;
    }
}

#[tokio::test]
async fn a_silent_connection_ends_and_a_ping_keeps_it() {
    let place = Place::sqlite().with_limits(|limits| limits.idle_ms = 400);
    let relay = place.start().await;
    let (mut alice, mut bob) = (relay.connect().await, relay.connect().await);
    for _ in 0..8 {
        tokio::time::sleep(Duration::from_millis(100)).await;
        alice.send(&ClientFrame::Ping).await;
        assert_eq!(alice.recv().await.unwrap(), RelayFrame::Ping);
    }
    assert!(bob.ended().await);
    relay.stop().await;
}
