//! Rules of addresses: which source is answered, and which frame moves the peer.

use mezza_core::Time;
use mezza_seka::limits::{ANSWER_MS, NUDGED_MS, SEARCH_ATTEMPTS, SEARCH_NUDGES};
use mezza_seka::session::index_of;
use mezza_seka::wire::{Ke1, Ke2, Ke3, Nudge, kind_of};
use mezza_seka::{FrameTarget, LinkRole, PairingInput, PairingOutput, PeerAddress, PeerInput};

use crate::stage::{Default, Device, HOME, Side, across, exchange, paired, run, run_pairing};

/// An address from which an attacker sends.
const ELSEWHERE: PeerAddress = PeerAddress([9; 20]);

/// A nudge or KE1 made of the two public names only.
fn junk(kind: u8, sender: &Side<Default>, bytes: usize) -> Vec<u8> {
    let mut frame = vec![0x11; bytes];
    frame[..8].copy_from_slice(&[1, kind, 2, 0, 0, 0, 0, 0]);
    frame[8..14].copy_from_slice(sender.peer.record().own.as_bytes());
    frame[14..20].copy_from_slice(sender.peer.record().peer.as_bytes());
    frame
}

/// The targets of all frames of a kind that a side has sent, which are forgotten by it.
fn targets(side: &mut Side<Default>, kind: u8) -> Vec<FrameTarget> {
    let sent = std::mem::take(&mut side.targets);
    sent.into_iter().filter(|(frame, _)| kind_of(frame) == Some(kind)).map(|(_, to)| to).collect()
}

/// Two names are public: anybody can make these frames, and none of them may be answered or followed.
#[test]
fn seka_76_the_source_of_a_frame_that_did_not_verify_gets_nothing() {
    let (mut sides, now) = paired::<Default>();
    let nudge = junk(Nudge::KIND, &sides[1], Nudge::BYTES);
    let mut ke1 = junk(Ke1::KIND, &sides[0], Ke1::BYTES);
    ke1[36..40].copy_from_slice(&0xffff_fff0_u32.to_be_bytes());
    let own_role = junk(Ke1::KIND, &sides[1], Ke1::BYTES);
    let flood = |sides: &mut [Side<Default>; 2], now: Time| {
        let _ = sides[0].hear_from(&nudge, ELSEWHERE, now);
        let _ = sides[0].hear_from(&own_role, ELSEWHERE, now);
        let _ = sides[1].hear_from(&ke1, ELSEWHERE, now);
    };
    // Before an exchange, between each two frames of it, and while the writes are out.
    for side in &mut sides {
        side.slow_disk = true;
    }
    flood(&mut sides, now);
    let _ = sides[0].give(PeerInput::Rekey, now);
    for step in 0..8 {
        for at in 0..2 {
            flood(&mut sides, now.plus_ms(step));
            for seq in sides[at].writes.clone().into_iter().map(|(seq, _)| seq) {
                let _ = sides[at].give(PeerInput::Stored(seq), now.plus_ms(step));
            }
            for frame in std::mem::take(&mut sides[at].sent) {
                let _ = sides[1 - at].hear(&frame, now.plus_ms(step));
            }
        }
    }
    assert!(sides.iter().all(|side| side.using == sides[0].using && side.using.is_some()));
    for side in &sides {
        assert!(side.moved.iter().all(|to| *to == HOME), "{:?}", side.moved);
        for (_, to) in &side.targets {
            assert_ne!(*to, FrameTarget::Source(ELSEWHERE));
        }
    }
}

#[test]
fn seka_76_a_replayed_frame_is_answered_where_it_came_from_and_moves_nobody() {
    let (mut sides, now) = paired::<Default>();
    let _ = sides[0].give(PeerInput::Rekey, now);
    let ke1 = sides[0].sent.remove(0);
    assert_eq!(sides[1].hear(&ke1, now), Ok(()));
    assert_eq!(targets(&mut sides[1], Ke2::KIND), [FrameTarget::Source(HOME)]);
    let later = now.plus_ms(ANSWER_MS);
    assert_eq!(sides[1].hear_from(&ke1, ELSEWHERE, later), Ok(()));
    assert_eq!(targets(&mut sides[1], Ke2::KIND), [FrameTarget::Source(ELSEWHERE)]);
    assert!(sides[1].moved.is_empty());
    // A nudge that is replayed brings KE1 to the known address as well.
    let now = run(&mut sides, later, 10_000, |_, _| true);
    let _ = sides[1].give(PeerInput::Rekey, now);
    let nudge = sides[1].sent.remove(0);
    let _ = targets(&mut sides[0], Ke1::KIND);
    let _ = sides[0].hear_from(&nudge, ELSEWHERE, now);
    let sent = targets(&mut sides[0], Ke1::KIND);
    assert_eq!(sent, [FrameTarget::Source(ELSEWHERE), FrameTarget::Known]);
    assert!(sides[0].moved.iter().all(|to| *to == HOME));
}

#[test]
fn seka_77_an_answer_that_verified_moves_the_peer_on_both_sides() {
    let (mut sides, now) = paired::<Default>();
    let _ = sides[0].give(PeerInput::Rekey, now);
    let ke1 = sides[0].sent.remove(0);
    let new_a = PeerAddress([5; 20]);
    let new_b = PeerAddress([6; 20]);
    let _ = sides[1].hear_from(&ke1, new_a, now);
    assert_eq!(targets(&mut sides[1], Ke2::KIND), [FrameTarget::Source(new_a)]);
    let ke2 = sides[1].sent.remove(0);
    let _ = sides[0].hear_from(&ke2, new_b, now);
    assert_eq!(sides[0].moved, [new_b]);
    assert_eq!(targets(&mut sides[0], Ke3::KIND), [FrameTarget::Known]);
    let ke3 = sides[0].sent.remove(0);
    assert!(sides[1].moved.is_empty());
    let _ = sides[1].hear_from(&ke3, new_a, now);
    assert_eq!(sides[1].moved, [new_a]);
    assert_eq!(sides.each_ref().map(|side| side.peer.record().address), [new_b, new_a]);
    // A repeated KE3 is answered, and moves nobody.
    let _ = sides[1].hear_from(&ke3, ELSEWHERE, now.plus_ms(ANSWER_MS));
    assert_eq!(sides[1].moved, [new_a]);
}

/// The same for the first exchange: the peer of a pairing stays where it proved to be.
#[test]
fn seka_76_and_77_hold_in_a_pairing() {
    let device = |own: u8, role: LinkRole| {
        Device::<Default>::new(own, |settings| settings.role = Some(role))
    };
    let mut devices = [device(1, LinkRole::Initiator), device(2, LinkRole::Responder)];
    let mut junk_sent = 0;
    run_pairing(&mut devices, 4_000, across, |devices, now| {
        for (at, kind) in [(0_usize, Nudge::KIND), (1, Ke1::KIND)] {
            let bytes = if kind == Nudge::KIND { Nudge::BYTES } else { Ke1::BYTES };
            let mut frame = vec![0x11; bytes];
            frame[..8].copy_from_slice(&[1, kind, 2, 0, 0, 0, 0, 0]);
            frame[8..14].copy_from_slice(&[2, 0, 0, 0, 0, 2 - at as u8]);
            frame[14..20].copy_from_slice(&[2, 0, 0, 0, 0, 1 + at as u8]);
            if kind == Ke1::KIND {
                frame[36..40].copy_from_slice(&0xffff_fff0_u32.to_be_bytes());
            }
            let input = PairingInput::Datagram { frame, from: ELSEWHERE, on_link: true };
            junk_sent += 1;
            devices[at].give(input, now);
        }
    });
    assert!(junk_sent > 100);
    for device in devices {
        assert!(device.done, "{:?}", device.failed);
        assert_eq!(device.pairing.peer_address(), Some(HOME));
        assert!(!device.targets.contains(&Some(ELSEWHERE)));
    }
}

/// The record that a start finds must know where the peer is: across a router nobody else can say it.
#[test]
fn seka_78_the_record_of_a_pairing_holds_the_address_of_the_peer() {
    let device = |own: u8, role: LinkRole| {
        Device::<Default>::new(own, |settings| {
            settings.role = Some(role);
            settings.sas = true;
        })
    };
    let mut devices = [device(1, LinkRole::Initiator), device(2, LinkRole::Responder)];
    run_pairing(&mut devices, 4_000, across, |devices, now| {
        for device in devices.iter_mut() {
            if device.digits.take().is_some() {
                device.give(PairingInput::Confirm(true), now);
            }
        }
    });
    for device in &devices {
        assert!(device.done, "{:?}", device.failed);
        for (_, sealed) in &device.writes {
            let stored = mezza_seka::PeerRecord::open(&crate::stage::store_key(), sealed);
            assert_eq!(stored.expect("a record").1.address, HOME);
        }
    }
    let _ = PairingOutput::Want;
}

/// Both ends have moved, and neither knows where the other one is.
#[test]
fn seka_79_a_peer_that_does_not_answer_is_searched_everywhere() {
    let (mut sides, now) = paired::<Default>();
    let _ = sides[0].give(PeerInput::Rekey, now);
    let _ = sides[1].give(PeerInput::Rekey, now);
    for side in &mut sides {
        side.targets.clear();
    }
    let now = run(&mut sides, now, 60_000, |_, _| false);
    let [ke1, nudges] =
        [(0, Ke1::KIND), (1, Nudge::KIND)].map(|(at, kind)| targets(&mut sides[at], kind));
    let known = |targets: &[FrameTarget]| {
        targets.iter().take_while(|to| **to == FrameTarget::Known).count()
    };
    // KE1 of the first attempts, then of all later ones.
    assert!(known(&ke1) >= SEARCH_ATTEMPTS as usize, "{ke1:?}");
    assert!(ke1[known(&ke1)..].iter().all(|to| *to == FrameTarget::Search));
    assert!(ke1.contains(&FrameTarget::Search));
    let searches = nudges.iter().filter(|to| **to == FrameTarget::Search).count();
    assert!(known(&nudges) >= SEARCH_NUDGES as usize - 2, "{nudges:?}");
    assert!(searches > 0 && searches * 3 < nudges.len(), "{nudges:?}");
    // The first answer ends the search.
    let now = run(&mut sides, now, 120_000, |_, _| true);
    assert!(exchange(&mut sides, now));
    for side in &mut sides {
        side.targets.clear();
    }
    assert!(exchange(&mut sides, now.plus_ms(10_000)));
    assert_eq!(targets(&mut sides[0], Ke1::KIND), [FrameTarget::Known]);
}

#[test]
fn seka_61_a_nudge_is_heard_in_the_back_off() {
    let (mut sides, now) = paired::<Default>();
    // The responder is away for 200 s: the pauses of the initiator have grown to a minute.
    let _ = sides[0].give(PeerInput::Rekey, now);
    let mut now = run(&mut sides, now, 200_000, |_, _| false);
    let _ = sides[1].give(PeerInput::Rekey, now);
    let mut sent = 0;
    let nudge = sides[1].sent.iter().find(|frame| kind_of(frame) == Some(Nudge::KIND)).cloned();
    let nudge = nudge.expect("a nudge");
    for side in &mut sides {
        side.sent.clear();
    }
    let begun = now;
    while now.since_ms(begun) <= NUDGED_MS && sent == 0 {
        let _ = sides[0].hear(&nudge, now);
        sides[0].wake(now);
        let frames = std::mem::take(&mut sides[0].sent);
        sent += frames.iter().filter(|frame| kind_of(frame) == Some(Ke1::KIND)).count();
        now = now.plus_ms(1_000);
    }
    assert!(sent > 0, "no attempt within {NUDGED_MS} ms of nudges");
    assert!(index_of(&nudge).is_none());
}

/// An address translator forgets a mapping within 30 s, and nobody outside can reach the link then.
#[test]
fn seka_81_keep_alives_go_out_at_their_pause_and_outlive_the_session() {
    let (mut sides, now) = crate::stage::paired_with::<Default>(|settings| {
        settings.keepalive_ms = 25_000;
    });
    assert!(exchange(&mut sides, now));
    let mut last = [now; 2];
    let mut longest = [0; 2];
    let mut at = now.plus_ms(3_000);
    let end = at.plus_ms(1_200_000);
    while at < end {
        at = run(&mut sides, at, 1_000, |from, frame| {
            if index_of(frame).is_some() || kind_of(frame).is_some() {
                longest[from] = longest[from].max(at.since_ms(last[from]));
                last[from] = at;
            }
            true
        });
    }
    assert!(longest.iter().all(|ms| *ms <= 27_000), "{longest:?}");
    assert!(sides.iter().all(|side| side.using.is_some()));
    // Without the setting an idle link is silent.
    let (mut sides, now) = paired::<Default>();
    assert!(exchange(&mut sides, now));
    let mut frames = 0;
    run(&mut sides, now.plus_ms(5_000), 600_000, |_, _| {
        frames += 1;
        true
    });
    assert_eq!(frames, 0);
}

/// Receivers of a carrier that was made again do not know which packet numbers were seen.
#[test]
fn seka_82_sessions_end_with_their_carrier() {
    let (mut sides, now) = paired::<Default>();
    assert!(exchange(&mut sides, now));
    let old = sides[0].using;
    let _ = sides[0].give(PeerInput::Carrier(false), now);
    assert!(sides[0].sessions.is_empty() && sides[0].using.is_none());
    let _ = sides[0].give(PeerInput::Carrier(true), now);
    run(&mut sides, now, 3_000, |_, _| true);
    assert!(sides[0].using.is_some() && sides[0].using != old);
    assert_eq!(sides[0].using, sides[1].using);
}
