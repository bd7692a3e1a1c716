//! The life of boxes, mail and connections, beyond the numbered rules.

use std::time::Duration;

use mezza::testing::api::Exit;
use mezza::testing::connection::relay::{ConnectError, connect_relay};
use mezza_core::Time;
use mezza_messenger::relay_wire::{
    ClientFrame, DoneCode,
    MailboxKind::{Conversation, Intro},
    RelayFrame,
};

use super::fixture::*;

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
        assert_eq!(alice.watch(7, 3).await, NO_BOX);
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

async fn await_totals(
    place: &Place,
    holds: impl Fn(mezza::testing::servers::relay::Totals) -> bool,
) {
    for _ in 0..500 {
        let status = mezza::testing::servers::relay::read_status(&place.config().dir, &place.store)
            .await
            .unwrap();
        if holds(status.totals) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("the totals never came");
}

#[tokio::test]
async fn clocks_more_than_a_day_apart_are_told() {
    let place = Place::sqlite();
    let ahead = Place::sqlite();
    let relay = place.start().await;
    let key = *relay.handle.key();
    let port = relay.handle.address().port();
    ahead.clock.pass(Time::DAY_MS);
    assert!(connect_relay(&key, "127.0.0.1", port, &ahead.clock.clock(), None).await.is_ok());
    ahead.clock.pass(1);
    let error =
        connect_relay(&key, "127.0.0.1", port, &ahead.clock.clock(), None).await.unwrap_err();
    assert!(matches!(error, ConnectError::Clock { .. }));
    assert_eq!(error.exit_code(), Exit::Config);
    relay.stop().await;
    let error =
        connect_relay(&key, "127.0.0.1", port, &ahead.clock.clock(), None).await.unwrap_err();
    assert!(matches!(error, ConnectError::Unreachable { .. }));
    assert_eq!(error.exit_code(), Exit::Unreachable);
}

/// The relay holds back what a connection does not read, and brings it when it reads again.
#[tokio::test]
async fn a_watcher_that_reads_late_misses_nothing() {
    for place in Place::both().await {
        let relay = place.start().await;
        let mut alice = relay.connect().await;
        let mut bob = relay.connect().await;
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
                    RelayFrame::Done { code: DoneCode::Done, .. }
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
                RelayFrame::Done { code: DoneCode::Done, .. } => (),
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
    let mut alice = relay.connect().await;
    let mut bob = relay.connect().await;
    for _ in 0..8 {
        tokio::time::sleep(Duration::from_millis(100)).await;
        alice.send(&ClientFrame::Ping).await;
        assert_eq!(alice.recv().await.unwrap(), RelayFrame::Ping);
    }
    assert!(bob.ended().await);
    relay.stop().await;
}

#[tokio::test]
async fn a_box_watched_anew_forgets_the_numbers_of_its_own_mail_alone() {
    let place = Place::sqlite();
    let relay = place.start().await;
    let mut alice = relay.connect().await;
    for token in [1, 2] {
        assert_eq!(alice.open(token, Conversation).await, DONE);
        assert_eq!(alice.watch(token.into(), token).await, DONE);
        assert_eq!(alice.put(token, letter(token.into())).await, DONE);
    }
    let [first, second] = [alice.mail().await, alice.mail().await];
    assert_eq!((first.0, second.0), (1, 2));
    assert_eq!(alice.watch(1, 1).await, DONE);
    let again = alice.mail().await;
    assert_eq!((again.0, again.2), (1, letter(1)));
    alice.taken(1, &[first.1]).await;
    alice.taken(2, &[second.1]).await;
    // The frame behind them is answered, so both are done.
    assert_eq!(alice.put(1, letter(3)).await, DONE);
    let mut bob = relay.connect().await;
    assert_eq!(bob.watch(1, 1).await, DONE);
    assert_eq!(bob.mail().await.2, letter(1));
    assert_eq!(bob.mail().await.2, letter(3));
    assert_eq!(bob.watch(2, 2).await, DONE);
    assert!(bob.is_silent().await);
    relay.stop().await;
}
