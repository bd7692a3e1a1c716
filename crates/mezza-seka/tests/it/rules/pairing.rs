//! Rules of pairing.

use mezza_core::{Machine, Time};
use mezza_seka::wire::{B1, B2, S2, S3, is_pairing, kind_of};
use mezza_seka::{LinkRole, PairingFailure, PairingInput, PeerAddress, PeerInput};

use crate::stage::{Default, Device, across, exchange, id, paired, run, run_pairing};

fn plain(own: u8) -> Device<Default> {
    Device::new(own, |_| {})
}

fn with_digits(own: u8, role: LinkRole) -> Device<Default> {
    Device::new(own, |settings| {
        settings.sas = true;
        settings.role = Some(role);
    })
}

/// Initiator and responder, without digits.
fn two() -> [Device<Default>; 2] {
    [LinkRole::Initiator, LinkRole::Responder].map(|role| {
        let own = if role == LinkRole::Initiator { 1 } else { 2 };
        Device::new(own, |settings| settings.role = Some(role))
    })
}

#[test]
fn seka_30_a_peer_answers_no_pairing_frame() {
    let (mut sides, now) = paired::<Default>();
    let mut devices = two();
    let mut frames = Vec::new();
    run_pairing(
        &mut devices,
        4_000,
        |from, frame| {
            frames.push(frame.clone());
            across(from, frame)
        },
        |_, _| {},
    );
    for frame in frames.iter().filter(|frame| kind_of(frame).is_some_and(is_pairing)) {
        for side in &mut sides {
            assert!(side.hear(frame, now).is_err() && side.sent.is_empty());
        }
    }
}

#[test]
fn seka_31_a_known_device_is_refused_unless_it_is_to_be_replaced() {
    let known = |replace: bool| {
        let mut devices = two();
        devices[0] = Device::new(1, |settings| {
            settings.role = Some(LinkRole::Initiator);
            settings.known = if replace { Vec::new() } else { vec![id(2)] };
        });
        run_pairing(&mut devices, 4_000, across, |_, _| {});
        (devices[0].done, devices[0].failed)
    };
    assert_eq!(known(false), (false, Some(PairingFailure::Known(id(2)))));
    assert_eq!(known(true), (true, None));
}

#[test]
fn seka_32_nothing_pairs_again_by_itself() {
    // The peer on the other side lost its state and knows nothing: no pairing frame ever leaves.
    let (mut sides, now) = paired::<Default>();
    run(&mut sides, now, 24 * Time::HOUR_MS, |_, frame| {
        assert!(!kind_of(frame).is_some_and(is_pairing));
        false
    });
}

#[test]
fn seka_33_a_second_device_a_second_key_or_our_own_name_ends_the_window() {
    let now = Time::from_ms(2_500);
    let offer = |own: u8, seed: u64| {
        let mut other = plain(own);
        other.dice = mezza_sim::SimRng::new(seed, 3);
        other.wake(Time::from_ms(2_100));
        other.sent.remove(0)
    };
    // A second device, then a second key of the same one, at a responder.
    for (second, expected) in [
        (offer(9, 1), PairingFailure::Conflict),
        (offer(8, 2), PairingFailure::Conflict),
        (offer(5, 1), PairingFailure::OwnName),
    ] {
        let mut device = Device::<Default>::new(5, |s| s.role = Some(LinkRole::Responder));
        device.hear(&offer(8, 1), now);
        assert_eq!(device.sent.len(), 1, "answered");
        device.hear(&second, now);
        assert_eq!(device.failed, Some(expected));
    }
    // A second answer, at an initiator.
    let mut asks = Device::<Default>::new(5, |s| s.role = Some(LinkRole::Initiator));
    asks.wake(Time::from_ms(2_100));
    let b1 = asks.sent.remove(0);
    let answer = |own: u8| {
        let mut other = Device::<Default>::new(own, |s| s.role = Some(LinkRole::Responder));
        other.hear(&b1, now);
        other.sent.remove(0)
    };
    asks.hear(&answer(8), now);
    assert_eq!(asks.failed, None);
    asks.hear(&answer(9), now);
    assert_eq!(asks.failed, Some(PairingFailure::Conflict));
}

#[test]
fn seka_34_digits_and_their_absence_do_not_mix_and_both_users_are_asked() {
    let now = Time::from_ms(2_500);
    let mut digits = with_digits(1, LinkRole::Responder);
    let mut asks = plain(2);
    asks.wake(Time::from_ms(2_100));
    digits.hear(&asks.sent[0], now);
    assert!(digits.sent.is_empty());
    let mut asks = with_digits(2, LinkRole::Initiator);
    asks.wake(Time::from_ms(2_100));
    let mut bare = plain(1);
    bare.hear(&asks.sent[0], now);
    assert!(bare.sent.is_empty());

    // One user says yes, the other one does not: nothing is used.
    let mut devices = [with_digits(1, LinkRole::Initiator), with_digits(2, LinkRole::Responder)];
    run_pairing(&mut devices, 30_000, across, |devices, now| {
        if devices[0].digits.take().is_some() {
            devices[0].give(PairingInput::Confirm(true), now);
        }
    });
    assert!(devices.iter().all(|device| !device.done));
    assert!(devices[1].writes.is_empty());

    // A no ends the run for good.
    let mut devices = [with_digits(1, LinkRole::Initiator), with_digits(2, LinkRole::Responder)];
    run_pairing(&mut devices, 30_000, across, |devices, now| {
        if devices[1].digits.take().is_some() {
            devices[1].give(PairingInput::Confirm(false), now);
        }
    });
    assert_eq!(devices[1].failed, Some(PairingFailure::Digits));
}

#[test]
fn seka_34_a_man_in_the_middle_shows_different_digits() {
    // He runs one pairing with each side; his own two devices say yes.
    let mut left = [with_digits(1, LinkRole::Initiator), with_digits(8, LinkRole::Responder)];
    let mut right = [with_digits(9, LinkRole::Initiator), with_digits(2, LinkRole::Responder)];
    let mut first = None;
    let mut second = None;
    run_pairing(&mut left, 5_000, across, |d, _| first = first.or(d[0].digits));
    run_pairing(&mut right, 5_000, across, |d, _| second = second.or(d[1].digits));
    assert!(first.is_some() && second.is_some() && first != second);
}

#[test]
fn seka_35_an_opening_that_does_not_fit_ends_the_window() {
    for at in [40, 70] {
        let mut devices =
            [with_digits(1, LinkRole::Initiator), with_digits(2, LinkRole::Responder)];
        let wire = |from: usize, mut frame: Vec<u8>| {
            if kind_of(&frame) == Some(S3::KIND) {
                frame[at] ^= 1;
            }
            across(from, frame)
        };
        run_pairing(&mut devices, 5_000, wire, |_, _| {});
        assert_eq!(devices[1].failed, Some(PairingFailure::Commitment), "byte {at}");
    }
}

#[test]
fn seka_36_without_digits_a_peer_that_is_not_on_the_link_is_not_heard() {
    let now = Time::from_ms(2_500);
    let mut asks = plain(2);
    asks.wake(Time::from_ms(2_100));
    let b1 = asks.sent.remove(0);
    assert_eq!(kind_of(&b1), Some(B1::KIND));
    for on_link in [false, true] {
        let mut device = plain(1);
        let from = PeerAddress([1; 20]);
        device.give(PairingInput::Datagram { frame: b1.clone(), from, on_link }, now);
        assert_eq!(device.sent.len(), usize::from(on_link));
    }
}

#[test]
fn seka_37_ten_frames_a_second_are_looked_at() {
    let mut device = Device::<Default>::new(5, |s| s.role = Some(LinkRole::Responder));
    let now = Time::from_ms(2_500);
    // Malformed frames with a kind of pairing: each of them counts.
    let mut junk = vec![0; 68];
    junk[..3].copy_from_slice(&[1, 0x10, 2]);
    junk[8] = 2;
    for _ in 0..10 {
        device.hear(&junk, now);
    }
    let mut asks = plain(2);
    asks.wake(Time::from_ms(2_100));
    let b1 = asks.sent.remove(0);
    device.hear(&b1, now.plus_ms(500));
    assert!(device.sent.is_empty());
    device.hear(&b1, now.plus_ms(1_500));
    assert_eq!(kind_of(&device.sent[0]), Some(B2::KIND));
}

#[test]
fn a_pairing_survives_each_lost_frame() {
    for lost in 0..8 {
        let mut devices = two();
        let mut count = 0;
        run_pairing(
            &mut devices,
            10_000,
            |from, frame| {
                count += 1;
                if count == lost { Vec::new() } else { across(from, frame) }
            },
            |_, _| {},
        );
        assert!(devices.iter().all(|device| device.done), "frame {lost}");
    }
    let (mut sides, now) = paired::<Default>();
    assert!(exchange(&mut sides, now));
    let _ = sides[0].give(PeerInput::Carrier(true), now);
}

#[test]
fn digits_are_answered_before_the_commitment_is_opened() {
    let mut devices = [with_digits(1, LinkRole::Initiator), with_digits(2, LinkRole::Responder)];
    let mut order = Vec::new();
    run_pairing(
        &mut devices,
        3_000,
        |from, frame| {
            order.extend(kind_of(&frame));
            across(from, frame)
        },
        |_, _| {},
    );
    order.dedup();
    assert_eq!(order.iter().take(3).copied().collect::<Vec<_>>(), [0x12, S2::KIND, S3::KIND]);
    assert!(devices.iter().all(|device| device.pairing.deadline().is_some()));
}
