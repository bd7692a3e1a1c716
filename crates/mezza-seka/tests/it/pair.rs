//! Two devices and a virtual clock: pairing, exchange, traffic.

use mezza_core::Time;
use mezza_seka::{LinkRole, PairingFailure, PairingInput, PeerInput};

use crate::stage::{Default, Device, across, exchange, paired, run, run_pairing, states_agree};

#[test]
fn two_devices_pair_whoever_speaks_first() {
    for own in [1, 3, 9] {
        let mut devices = [Device::<Default>::new(own, |_| {}), Device::new(5, |_| {})];
        run_pairing(&mut devices, 5_000, across, |_, _| {});
        assert!(devices.iter().all(|device| device.done), "{own}");
    }
}

#[test]
fn two_devices_that_speak_at_the_same_time_agree_on_their_roles() {
    let mut devices = [Device::<Default>::new(1, |_| {}), Device::new(2, |_| {})];
    // Nobody hears anything until both have spoken.
    let mut held = Vec::new();
    let mut spoken = [false; 2];
    run_pairing(
        &mut devices,
        6_000,
        |from, frame| {
            spoken[from] = true;
            held.push((1 - from, frame));
            if spoken == [true; 2] { std::mem::take(&mut held) } else { Vec::new() }
        },
        |_, _| {},
    );
    assert!(devices.iter().all(|device| device.done));
    assert!(devices[0].pairing.is_initiator() && !devices[1].pairing.is_initiator());
}

#[test]
fn digits_are_equal_and_both_users_say_yes() {
    let device = |own| Device::<Default>::new(own, |settings| settings.sas = true);
    let mut devices = [device(1), device(2)];
    let mut confirmed = false;
    run_pairing(&mut devices, 5_000, across, |devices, now| {
        if !confirmed && devices.iter().all(|device| device.digits.is_some()) {
            confirmed = true;
            assert_eq!(devices[0].digits, devices[1].digits);
            for device in devices {
                device.give(PairingInput::Confirm(true), now);
            }
        }
    });
    assert!(devices.iter().all(|device| device.done));
}

/// The other side is up at once and exchanges keys again, before this one has ended its pairing.
#[test]
fn a_second_exchange_leaves_the_peer_of_a_pairing_that_is_over() {
    let device = |own, role| Device::<Default>::new(own, |settings| settings.role = Some(role));
    let mut devices = [device(1, LinkRole::Initiator), device(2, LinkRole::Responder)];
    let mut asked = false;
    run_pairing(&mut devices, 6_000, across, |devices, now| {
        if !asked && devices.iter().all(|device| device.done) {
            asked = true;
            devices[0].give(PairingInput::Peer(PeerInput::Rekey), now);
        }
    });
    for device in devices {
        let (peer, _) = device.pairing.into_peer().expect("the peer is still there");
        assert_eq!(peer.record().rekeys, 2);
    }
}

#[test]
fn a_window_without_an_answer_closes() {
    let mut devices =
        [Device::<Default>::new(1, |_| {}), Device::new(2, |s| s.role = Some(LinkRole::Responder))];
    run_pairing(&mut devices, 62_000, |_, _| Vec::new(), |_, _| {});
    for device in &devices {
        assert_eq!(device.failed, Some(PairingFailure::Timeout));
    }
}

#[test]
fn exchanges_and_traffic_follow_a_pairing() {
    let (mut sides, now) = paired::<Default>();
    assert!(exchange(&mut sides, now));
    let now = now.plus_ms(5_000);
    for _ in 0..5 {
        assert!(exchange(&mut sides, now));
        for (at, to) in [(0, 1), (1, 0)] {
            let frame = sides[at].seal(b"\0hello").expect("a session");
            assert_eq!(sides[to].hear(&frame, now), Ok(()));
            assert!(sides[to].hear(&frame, now).is_err());
        }
    }
}

#[test]
fn keys_are_renewed_after_two_minutes_of_traffic() {
    let (mut sides, mut now) = paired::<Default>();
    assert!(exchange(&mut sides, now));
    let before = sides[0].peer.record().rekeys;
    for _ in 0..130 {
        now = run(&mut sides, now, 1_000, |_, _| true);
        let attempt = sides[0].using.expect("a session");
        let frame = sides[0].seal(b"\0hello").expect("a session");
        assert_eq!(sides[1].hear(&frame, now), Ok(()));
        let (session, _) =
            sides[0].sessions.iter().find(|(s, _)| s.attempt() == attempt).expect("open");
        let _ = sides[0].give(PeerInput::Used(session.usage()), now);
    }
    assert_eq!(sides[0].peer.record().rekeys, before + 1);
    assert!(states_agree(&sides));
}

#[test]
fn a_responder_that_needs_a_session_gets_one() {
    let (mut sides, now) = paired::<Default>();
    let before = sides[0].peer.record().rekeys;
    assert_eq!(sides[1].give(PeerInput::Rekey, now), Ok(()));
    run(&mut sides, now, 3_000, |_, _| true);
    assert_eq!(sides[0].peer.record().rekeys, before + 1);
    assert_eq!(sides[0].using, sides[1].using);
}

#[test]
fn an_idle_link_ends_its_session_and_heals_after_a_day() {
    let (mut sides, now) = paired::<Default>();
    assert!(exchange(&mut sides, now));
    let now = run(&mut sides, now, 301_000, |_, _| true);
    assert!(sides.iter().all(|side| side.using.is_none() && side.sessions.is_empty()));
    let before = sides[0].peer.record().rekeys;
    run(&mut sides, now, 24 * Time::HOUR_MS, |_, _| true);
    assert_eq!(sides[0].peer.record().rekeys, before + 1);
}
