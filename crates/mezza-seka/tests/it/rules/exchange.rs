//! Rules of the exchange.

use mezza_core::{EphemeralKey, Machine, PortableBackend, Secret, Time};
use mezza_seka::limits::{ANSWER_MS, PAPER_ATTEMPTS_MAX};
use mezza_seka::suite::paper::PaperSuite;
use mezza_seka::wire::{HandshakeFrame, Ke1, Ke2, Ke3, Nudge, kind_of};
use mezza_seka::{LinkError, PeerEvent, PeerInput, PeerRecord};

use crate::stage::{Default, Side, exchange, paired, run, states_agree, store_key};

type Paper = PaperSuite<PortableBackend>;

/// Lets an exchange run and collects the frames of both sides.
fn frames(sides: &mut [Side<Default>; 2], now: Time) -> Vec<(usize, Vec<u8>)> {
    let mut seen = Vec::new();
    let _ = sides[0].give(PeerInput::Rekey, now);
    run(sides, now, 100, |from, frame| {
        seen.push((from, frame.to_vec()));
        true
    });
    seen
}

fn of_kind(frames: &[(usize, Vec<u8>)], kind: u8) -> Vec<u8> {
    let found = frames.iter().find(|(_, frame)| kind_of(frame) == Some(kind));
    found.map(|(_, frame)| frame.clone()).expect("a frame of this kind")
}

/// Begins an exchange of which KE1 alone is delivered, or not even that.
fn begin(sides: &mut [Side<Default>; 2], now: Time) -> Vec<u8> {
    let _ = sides[0].give(PeerInput::Rekey, now);
    sides[0].sent.drain(..).next().expect("KE1")
}

#[test]
fn seka_1_each_bit_of_each_frame_that_turns_is_refused_and_changes_no_record() {
    let (mut sides, now) = paired::<Default>();
    let ke1 = begin(&mut sides, now);
    let before = sides[1].peer.record().rekeys;
    let writes = sides[1].writes.len();
    for bit in 0..ke1.len() * 8 {
        let mut turned = ke1.clone();
        turned[bit / 8] ^= 1 << (bit % 8);
        let _ = sides[1].hear(&turned, now);
        assert!(sides[1].sent.is_empty(), "bit {bit} was answered");
    }
    assert_eq!((sides[1].writes.len(), sides[1].peer.record().rekeys), (writes, before));
    assert_eq!(sides[1].hear(&ke1, now), Ok(()));
    let ke2 = sides[1].sent.remove(0);
    for bit in 0..ke2.len() * 8 {
        let mut turned = ke2.clone();
        turned[bit / 8] ^= 1 << (bit % 8);
        // The link number of the answer is covered by its tag as well.
        assert!(sides[0].hear(&turned, now).is_err(), "bit {bit}");
    }
    assert_eq!(sides[0].hear(&ke2, now), Ok(()));
    let ke3 = sides[0].sent.remove(0);
    for bit in 0..ke3.len() * 8 {
        let mut turned = ke3.clone();
        turned[bit / 8] ^= 1 << (bit % 8);
        assert!(sides[1].hear(&turned, now).is_err(), "bit {bit}");
    }
    assert_eq!(sides[1].hear(&ke3, now), Ok(()));
    assert!(states_agree(&sides));
}

#[test]
fn seka_2_frames_of_an_exchange_decode_to_what_they_were() {
    let (mut sides, now) = paired::<Default>();
    let seen = frames(&mut sides, now);
    let ke1 = of_kind(&seen, Ke1::KIND);
    assert_eq!(Ke1::decode(2, &ke1).expect("KE1").encode(), ke1);
    let ke2 = of_kind(&seen, Ke2::KIND);
    assert_eq!(Ke2::decode(2, &ke2).expect("KE2").encode(), ke2);
    let ke3 = of_kind(&seen, Ke3::KIND);
    assert_eq!(Ke3::decode(2, &ke3).expect("KE3").encode(), ke3);
}

#[test]
fn seka_4_a_peer_that_holds_the_state_and_sends_a_point_of_low_order_is_not_followed() {
    // A secret of zero is what both backends refuse; that the machine then answers nothing is shown
    // with every point of low order as m1 under a right tag.
    for point in crate::attacker::LOW_ORDER {
        let (mut sides, now) = paired::<Default>();
        let before = sides[1].peer.stolen_states();
        let before = (*before.0, before.1.copied());
        let ke1 = crate::attacker::ke1(&sides[0], &point, 9);
        let _ = sides[1].hear(&ke1, now);
        assert!(sides[1].sent.is_empty());
        let after = sides[1].peer.stolen_states();
        assert_eq!((*after.0, after.1.copied()), before);
        assert!(exchange(&mut sides, now.plus_ms(2_000)));
    }
}

#[test]
fn seka_3_a_session_id_that_does_not_follow_from_the_key_is_refused() {
    let (mut sides, now) = paired::<Default>();
    let ke1 = crate::attacker::ke1_with_id(&sides[0], &[0x55; 16], 9);
    assert_eq!(sides[1].hear(&ke1, now), Err(LinkError::Refused));
    assert!(exchange(&mut sides, now));
}

#[test]
fn seka_5_tags_take_the_same_time_wherever_they_differ() {
    // The comparison is `subtle`'s; what is held here is that every cause looks alike outside.
    let (mut sides, now) = paired::<Default>();
    let ke1 = begin(&mut sides, now);
    sides[1].hear(&ke1, now).expect("taken");
    let ke2 = sides[1].sent.remove(0);
    for at in [9, 15, 21, 37, 41, 73, 87] {
        let mut wrong = ke2.clone();
        wrong[at] ^= 2;
        let error = sides[0].hear(&wrong, now).expect_err("refused");
        assert!(matches!(error, LinkError::Refused | LinkError::Malformed(_)), "{at}: {error:?}");
        assert!(sides[0].sent.is_empty());
    }
}

#[test]
fn seka_10_frames_of_the_wrong_role_are_dropped() {
    let (mut sides, now) = paired::<Default>();
    let seen = frames(&mut sides, now);
    for (kind, to) in [(Ke1::KIND, 0), (Ke3::KIND, 0), (Ke2::KIND, 1)] {
        let frame = of_kind(&seen, kind);
        assert_eq!(sides[to].hear(&frame, now), Err(LinkError::Refused), "{kind:x}");
    }
    let _ = sides[1].give(PeerInput::Rekey, now);
    let nudge = sides[1].sent.remove(0);
    assert_eq!(kind_of(&nudge), Some(Nudge::KIND));
    assert_eq!(sides[1].hear(&nudge, now), Err(LinkError::Refused));
}

#[test]
fn seka_11_an_attempt_is_durable_before_its_frame_leaves() {
    let (mut sides, now) = paired::<Default>();
    // Reserve what the last write did not.
    let record = reloaded(&sides[0]);
    let mut side = Side::<Default>::new(record, 5);
    side.slow_disk = true;
    let writes = side.writes.len();
    let _ = side.give(PeerInput::Rekey, now);
    assert!(side.sent.is_empty() && side.writes.len() == writes + 1);
    let (seq, _) = side.writes[writes];
    assert_eq!(side.give(PeerInput::Stored(seq), now), Ok(()));
    let ke1 = Ke1::decode(2, &side.sent[0]).expect("KE1");
    // A start after the write takes the next number.
    let mut again = Side::<Default>::new(reloaded(&side), 6);
    let _ = again.give(PeerInput::Rekey, now);
    let next = Ke1::decode(2, &again.sent[0]).expect("KE1");
    assert!(next.attempt > ke1.attempt);
    sides[0] = again;
}

/// The peer as a start finds it on the disk.
fn reloaded(side: &Side<Default>) -> mezza_seka::Peer<Default> {
    let (_, last) = side.writes.last().expect("a write");
    let stored = PeerRecord::open(&store_key(), last).expect("a record");
    let settings = mezza_seka::PeerSettings::default();
    mezza_seka::Peer::restore(stored.0, stored.1, store_key(), settings, Time::from_ms(1))
        .expect("restored")
}

#[test]
fn seka_12_no_attempt_is_used_twice_over_restarts() {
    let (mut sides, mut now) = paired::<Default>();
    let mut seen = std::collections::BTreeMap::new();
    for round in 0..40 {
        now = now.plus_ms(5_000);
        let _ = sides[0].give(PeerInput::Rekey, now);
        for frame in sides[0].sent.clone() {
            if let Ok(ke1) = Ke1::decode(2, &frame) {
                let before = seen.insert(ke1.attempt, frame.clone());
                assert!(before.is_none_or(|before| before == frame), "{}", ke1.attempt);
            }
        }
        if round % 3 == 0 {
            run(&mut sides, now, 1_000, |_, _| true);
        }
        if round % 2 == 0 {
            let mut again = Side::new(reloaded(&sides[0]), round);
            again.writes.clone_from(&sides[0].writes);
            sides[0] = again;
        }
    }
    assert!(seen.len() > 15, "{}", seen.len());
}

#[test]
fn seka_13_an_old_attempt_is_ignored_but_for_the_repeat_of_the_last_one() {
    let (mut sides, now) = paired::<Default>();
    let ke1 = begin(&mut sides, now);
    sides[1].hear(&ke1, now).expect("taken");
    let ke2 = sides[1].sent.remove(0);
    assert_eq!(sides[1].hear(&ke1, now), Err(LinkError::Busy));
    let later = now.plus_ms(ANSWER_MS);
    sides[1].hear(&ke1, later).expect("answered");
    assert_eq!(sides[1].sent.remove(0), ke2);
    let mut other = ke1.clone();
    other[80] ^= 1;
    let _ = sides[1].hear(&other, later.plus_ms(ANSWER_MS));
    assert!(sides[1].sent.is_empty());
}

#[test]
fn seka_14_an_answer_to_an_attempt_that_is_over_is_refused() {
    let (mut sides, now) = paired::<Default>();
    let ke1 = begin(&mut sides, now);
    sides[1].hear(&ke1, now).expect("taken");
    let late = sides[1].sent.remove(0);
    // The attempt ends without its answer, and another one begins.
    run(&mut sides, now, 20_000, |_, frame| kind_of(frame) != Some(Ke2::KIND));
    assert_eq!(sides[0].hear(&late, now.plus_ms(20_000)), Err(LinkError::Refused));
}

#[test]
fn seka_15_the_responder_writes_before_it_answers() {
    let (mut sides, now) = paired::<Default>();
    let ke1 = begin(&mut sides, now);
    sides[1].slow_disk = true;
    sides[1].hear(&ke1, now).expect("taken");
    assert!(sides[1].sent.is_empty());
    let (seq, sealed) = sides[1].writes.last().expect("a write").clone();
    let (_, record) = PeerRecord::open(&store_key(), &sealed).expect("a record");
    drop(record);
    sides[1].give(PeerInput::Stored(seq), now).expect("stored");
    assert_eq!(kind_of(&sides[1].sent[0]), Some(Ke2::KIND));
}

#[test]
fn seka_16_the_initiator_writes_before_it_confirms() {
    let (mut sides, now) = paired::<Default>();
    let ke1 = begin(&mut sides, now);
    sides[1].hear(&ke1, now).expect("taken");
    let ke2 = sides[1].sent.remove(0);
    sides[0].slow_disk = true;
    let using = sides[0].using;
    sides[0].hear(&ke2, now).expect("taken");
    assert!(sides[0].sent.is_empty() && sides[0].using == using);
    let (seq, _) = *sides[0].writes.last().expect("a write");
    sides[0].give(PeerInput::Stored(seq), now).expect("stored");
    assert_eq!(kind_of(&sides[0].sent[0]), Some(Ke3::KIND));
}

#[test]
fn seka_17_and_18_one_pending_state_which_a_tag_under_it_makes_current() {
    let (mut sides, mut now) = paired::<Default>();
    for _ in 0..5 {
        now = now.plus_ms(70_000);
        // KE2 is lost again and again: the pending state is replaced, never added to.
        let _ = sides[0].give(PeerInput::Rekey, now);
        run(&mut sides, now, 100, |_, frame| kind_of(frame) != Some(Ke2::KIND));
        assert!(sides[1].peer.stolen_states().1.is_some());
    }
    assert!(exchange(&mut sides, now.plus_ms(70_000)));
}

#[test]
fn seka_18_an_exchange_under_the_pending_state_recovers() {
    let (mut sides, now) = paired::<Default>();
    let _ = sides[0].give(PeerInput::Rekey, now);
    // KE3 is lost for good: the initiator goes on under the new state.
    run(&mut sides, now, 100, |_, frame| kind_of(frame) != Some(Ke3::KIND));
    let [(new, _), (_, pending)] = sides.each_ref().map(|side| side.peer.stolen_states());
    assert_eq!(Some(new), pending);
    assert!(exchange(&mut sides, now.plus_ms(60_000)));
}

#[test]
fn seka_19_repeats_are_byte_identical() {
    let (mut sides, now) = paired::<Default>();
    let _ = sides[0].give(PeerInput::Rekey, now);
    let mut ke1 = Vec::new();
    run(&mut sides, now, 2_900, |_, frame| {
        if kind_of(frame) == Some(Ke1::KIND) {
            ke1.push(frame.to_vec());
        }
        false
    });
    assert_eq!(ke1.len(), 4);
    assert!(ke1.iter().all(|frame| *frame == ke1[0]));
}

#[test]
fn seka_20_no_session_stands_at_the_responder_before_ke3() {
    let (mut sides, now) = paired::<Default>();
    let open = sides[1].sessions.len();
    let _ = sides[0].give(PeerInput::Rekey, now);
    run(&mut sides, now, 100, |_, frame| kind_of(frame) != Some(Ke3::KIND));
    assert_eq!(sides[1].sessions.len(), open);
    run(&mut sides, now.plus_ms(100), 3_000, |_, _| true);
    assert!(sides[1].using == sides[0].using && states_agree(&sides));
}

#[test]
fn seka_21_a_refusal_writes_nothing() {
    let (mut sides, now) = paired::<Default>();
    let seen = frames(&mut sides, now);
    let now = run(&mut sides, now, 3_000, |_, _| true);
    let writes = sides.each_ref().map(|side| side.writes.len());
    for (from, frame) in &seen {
        for side in &mut sides {
            let _ = side.hear(frame, now);
        }
        let _ = from;
    }
    assert_eq!(sides.each_ref().map(|side| side.writes.len()), writes);
}

#[test]
fn seka_22_both_sides_hold_the_new_state_in_both_slots() {
    let (mut sides, now) = paired::<Default>();
    assert!(exchange(&mut sides, now));
    for side in &sides {
        let [.., (_, first), (_, second)] = side.writes.as_slice() else { panic!("two writes") };
        let open = |sealed: &[u8]| PeerRecord::open(&store_key(), sealed).expect("a record").1;
        let settings = mezza_seka::PeerSettings::default();
        for record in [open(first), open(second)] {
            let stored = (1, record);
            let now = Time::from_ms(0);
            let peer = mezza_seka::Peer::<Default>::restore(
                stored.0,
                stored.1,
                store_key(),
                settings,
                now,
            );
            let peer = peer.expect("restored");
            assert_eq!(peer.stolen_states().0, side.peer.stolen_states().0);
            assert!(peer.stolen_states().1.is_none());
        }
    }
}

#[test]
fn seka_23_the_replaced_state_is_nowhere_after_a_second() {
    let (mut sides, now) = paired::<Default>();
    let old = *sides[0].peer.stolen_states().0;
    assert!(exchange(&mut sides, now));
    for side in &sides {
        let snapshot = side.peer.snapshot();
        assert!(!snapshot.windows(32).any(|part| part == old));
        let slots = side.writes.iter().rev().take(2);
        for (_, sealed) in slots {
            let (_, record) = PeerRecord::open(&store_key(), sealed).expect("a record");
            let settings = mezza_seka::PeerSettings::default();
            let stored = (1, record);
            let peer = mezza_seka::Peer::<Default>::restore(
                stored.0,
                stored.1,
                store_key(),
                settings,
                now,
            );
            assert!(!peer.expect("restored").snapshot().windows(32).any(|part| part == old));
        }
    }
}

#[test]
fn seka_25_suite_paper_never_tags_two_messages_under_one_nonce() {
    let (mut sides, mut now) = paired::<Paper>();
    let mut tagged = std::collections::BTreeMap::new();
    for round in 0..60_u64 {
        now = now.plus_ms(70_000);
        let state = sides.each_ref().map(|side| *side.peer.stolen_states().0);
        let _ = sides[0].give(PeerInput::Rekey, now);
        let lost = [Ke1::KIND, Ke2::KIND, Ke3::KIND, 0][(round % 4) as usize];
        run(&mut sides, now, 5_000, |from, frame| {
            let kind = kind_of(frame).unwrap_or(0);
            if kind != 0 {
                let attempt = [frame[36], frame[37], frame[38], frame[39]];
                let place = (state[0], from, kind, attempt);
                let before = tagged.insert(place, frame.to_vec());
                assert!(before.is_none_or(|before| before == frame));
            }
            kind != lost
        });
    }
    assert!(tagged.len() > 60);
}

#[test]
fn seka_26_suite_paper_ends_with_the_32769th_attempt_under_a_state() {
    use mezza_seka::limits::TAG_BYTES;
    // What the machine asks before each attempt, without waiting for 32,768 of them.
    let (mut sides, mut now) = paired::<Paper>();
    crate::attacker::skip_attempts(&mut sides[0], PAPER_ATTEMPTS_MAX);
    now = now.plus_ms(60_000);
    let _ = sides[0].give(PeerInput::Rekey, now);
    assert!(sides[0].sent.is_empty());
    assert!(sides[0].events.contains(&PeerEvent::Exhausted));
    assert_eq!(TAG_BYTES, 16);
}

#[test]
fn seka_27_a_record_of_another_suite_is_refused() {
    let (sides, _) = paired::<Paper>();
    let (_, sealed) = sides[0].writes.last().expect("a write");
    let stored = PeerRecord::open(&store_key(), sealed).expect("a record");
    let settings = mezza_seka::PeerSettings::default();
    let now = Time::from_ms(0);
    let peer = mezza_seka::Peer::<Default>::restore(stored.0, stored.1, store_key(), settings, now);
    assert!(matches!(peer, Err(LinkError::Refused)));
}

#[test]
fn seka_28_frames_of_another_suite_are_dropped() {
    let (mut sides, now) = paired::<Default>();
    let (mut other, _) = paired::<Paper>();
    let _ = other[0].give(PeerInput::Rekey, now);
    let ke1 = other[0].sent.remove(0);
    assert!(matches!(sides[1].hear(&ke1, now), Err(LinkError::Malformed(_))));
}

#[test]
fn ephemerals_are_drawn_by_the_driver_alone() {
    let (mut sides, now) = paired::<Default>();
    let key = EphemeralKey::from_scalar::<PortableBackend>(Secret::init_with(|s| s.fill(3)));
    // One lies ready already.
    assert_eq!(sides[0].give(PeerInput::Give(key), now), Err(LinkError::Unknown));
}
