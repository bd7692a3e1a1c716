//! One test for each rule of the relay, by its number.

use mezza::testing::connection::relay::{ConnectError, connect_relay};
use mezza::testing::process::rate::RateLimit;
use mezza::testing::servers::relay::Limits;
use mezza::testing::tls::fingerprint;
use mezza_core::Time;
use mezza_messenger::relay_wire::{
    DoneCode, ENVELOPE_BYTES,
    MailboxKind::{Conversation, Intro},
    RelayFrame,
};

use super::fixture::*;

/// Mail that was answered with DONE 0 is there when the relay starts again from its files alone.
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
        if let mezza::testing::servers::relay::StoreSpec::Sqlite(_) = place.store {
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
            assert_eq!(alice.put(1, sized(1, wrong)).await, (DoneCode::Size, 0), "{wrong}");
        }
    }
    assert_eq!(alice.put(1, sized(1, 32_768)).await, (DoneCode::Size, 0));
    assert_eq!(alice.put(1, Vec::new()).await, (DoneCode::Size, 0));
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
        let place =
            place.with_limits(|limits| limits.puts = RateLimit { burst: 1_000, period_ms: 0 });
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
        let mut bob = relay.connect().await;
        let mut mallory = relay.connect().await;
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
        let displaced = RelayFrame::Displaced { number: 2, over: false };
        assert_eq!(mallory.recv().await.unwrap(), displaced);
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
async fn relay_5_another_watch_of_the_connection_neither_takes_nor_forgets() {
    let place = Place::sqlite();
    let relay = place.start().await;
    let mut alice = relay.connect().await;
    let mut bob = relay.connect().await;
    for token in [1, 2] {
        assert_eq!(alice.open(token, Conversation).await, DONE);
        assert_eq!(bob.watch(token.into(), token).await, DONE);
    }
    let mut numbers = Vec::new();
    for nr in 0..3 {
        assert_eq!(alice.put(1, letter(nr)).await, DONE);
        numbers.push(bob.mail().await.1);
    }
    bob.taken(2, &numbers[..2]).await;
    bob.taken(1, &numbers[1..2]).await;
    assert!(bob.is_silent().await);
    let mut fresh = relay.connect().await;
    assert_eq!(fresh.watch(1, 1).await, DONE);
    for nr in [0, 2] {
        assert_eq!(fresh.mail().await.2, letter(nr));
    }
    assert!(fresh.is_silent().await);
    relay.stop().await;
}

#[tokio::test]
async fn relay_10_a_wrong_key_gets_no_further_than_tls() {
    let place = Place::sqlite();
    let other = Place::sqlite();
    let relay = place.start().await;
    let imposter = other.start().await;
    let ours = *relay.handle.key();
    let theirs = *imposter.handle.key();
    let port = imposter.handle.address().port();
    let error =
        connect_relay(&ours, "127.0.0.1", port, &place.clock.clock(), None).await.unwrap_err();
    let text = error.to_string();
    match error {
        ConnectError::WrongKey { shown, expected, .. } => {
            assert_eq!((shown, expected), (fingerprint(&theirs.0), fingerprint(&ours.0)));
        }
        other => panic!("{other:?}"),
    }
    for key in [ours.0, theirs.0] {
        let digits = format!("{:02X}{:02X}-{:02X}{:02X}", key[0], key[1], key[2], key[3]);
        assert!(text.contains(&digits), "{text}");
    }
    relay.stop().await;
    imposter.stop().await;
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
    RelayFrame::Done { req: 0, code: DoneCode::Refused, retry_s: 0 }
}

/// The relay's clock is 60 days ahead for a while: mail, and the mailbox of somebody who is away, stay.
#[tokio::test]
async fn msg_88_a_clock_that_jumps_erases_nothing() {
    for place in Place::both().await {
        let relay = place.start().await;
        let mut alice = relay.connect().await;
        assert_eq!(alice.open(1, Conversation).await, DONE);
        assert_eq!(alice.open(2, Conversation).await, DONE);
        assert_eq!(alice.put(1, letter(1)).await, DONE);
        place.clock.set(100 * Time::DAY_MS);
        tidied().await;
        assert_eq!(alice.put(1, letter(2)).await, DONE);
        // Mail is brought meanwhile as well.
        assert_eq!(alice.watch(7, 1).await, DONE);
        assert_eq!([alice.mail().await.2, alice.mail().await.2], [letter(1), letter(2)]);
        relay.stop().await;
        let relay = place.start().await;
        tidied().await;
        place.clock.set(0);
        tidied().await;
        let mut bob = relay.connect().await;
        assert_eq!((bob.watch(7, 1).await, bob.watch(8, 2).await), (DONE, DONE));
        assert_eq!([bob.mail().await.2, bob.mail().await.2], [letter(1), letter(2)]);
        relay.stop().await;
    }
}

/// A clock that stays where it was set is believed after a day; so is one that the operator trusts.
#[tokio::test]
async fn msg_88_a_clock_that_stays_is_believed_after_a_day() {
    let place = Place::sqlite();
    let relay = place.start().await;
    let mut alice = relay.connect().await;
    assert_eq!(alice.open(1, Conversation).await, DONE);
    assert_eq!(alice.put(1, letter(1)).await, DONE);
    place.clock.set(60 * Time::DAY_MS);
    tidied().await;
    place.clock.pass(Time::DAY_MS);
    tidied().await;
    assert_eq!(alice.watch(7, 1).await, DONE);
    assert!(alice.is_silent().await, "its time was over");
    relay.stop().await;
}

/// Limits by time use boot time: a clock that is set back delays no client.
#[tokio::test]
async fn msg_88_a_clock_that_is_set_back_refuses_nobody() {
    let limits = |limits: &mut Limits| {
        limits.puts = RateLimit { burst: 1, period_ms: 1_000 };
        limits.bundle_gets = RateLimit { burst: 1, period_ms: 1_000 };
        limits.intro_puts = RateLimit { burst: 1, period_ms: 1_000 };
    };
    let place = Place::sqlite().with_limits(limits);
    place.clock.set(Time::HOUR_MS);
    let relay = place.start().await;
    let mut alice = relay.connect().await;
    assert_eq!(alice.open(1, Intro).await, DONE);
    assert_eq!(alice.put(1, letter(1)).await, DONE);
    place.clock.set(0);
    assert_eq!(alice.put(1, letter(2)).await, (DoneCode::SlowDown, 1));
    place.clock.pass(1_000);
    assert_eq!(alice.put(1, letter(2)).await, DONE);
    relay.stop().await;
}

/// Long enough for the relay to have tidied, which it does every 20 ms here.
async fn tidied() {
    tokio::time::sleep(std::time::Duration::from_millis(200)).await;
}
