//! Rules of sessions, alarms and super-frames.

use mezza_core::Time;
use mezza_seka::limits::FRAMES_PER_SUBKEY;
use mezza_seka::session::index_of;
use mezza_seka::wire::{Ke1, Ke3, Nudge, kind_of};
use mezza_seka::{LinkError, LinkRole, Opener, PeerEvent, PeerInput};

use crate::stage::{
    Default, Device, Frames, Side, across, exchange, paired, paired_with, run, run_pairing, seal,
};

#[test]
fn seka_40_a_frame_does_not_open_at_its_sender() {
    let (mut sides, now) = paired::<Default>();
    assert!(exchange(&mut sides, now));
    let frame = sides[0].seal(b"\0text").expect("a session");
    let (session, opener) = sides[0].sessions.last_mut().expect("a session");
    let mut turned = frame.clone();
    turned[1..4].copy_from_slice(&session.own_index().to_be_bytes()[1..]);
    assert!(opener.open(session, &mut turned).is_err());
}

#[test]
fn seka_41_packet_numbers_grow_and_stop_at_the_limit() {
    let (mut sides, now) = paired_with::<Default>(|settings| settings.subkeys = 1);
    assert!(exchange(&mut sides, now));
    let (session, _) = sides[0].sessions.last().expect("a session");
    let before = session.sent();
    assert_eq!(session.limit(), FRAMES_PER_SUBKEY);
    assert_eq!(session.reserve_packets(10), Some(before));
    assert_eq!(session.reserve_packets(FRAMES_PER_SUBKEY), None);
    assert_eq!(session.reserve_packets(1), Some(before + 10));
    assert!(session.reserve_packets(FRAMES_PER_SUBKEY - before - 11).is_some());
    assert_eq!((session.reserve_packets(1), session.sent()), (None, FRAMES_PER_SUBKEY));
}

#[test]
fn seka_41_nothing_is_sent_after_300_seconds() {
    let (mut sides, now) = paired::<Default>();
    assert!(exchange(&mut sides, now));
    run(&mut sides, now, 300_000, |_, _| false);
    assert!(sides.iter().all(|side| side.using.is_none()));
    assert!(sides[0].events.contains(&PeerEvent::Ended));
}

#[test]
fn seka_42_and_43_a_frame_counts_once_and_only_when_it_opened() {
    let (mut sides, now) = paired::<Default>();
    assert!(exchange(&mut sides, now));
    let good = sides[0].seal(b"\0text").expect("a session");
    let mut forged = good.clone();
    forged[12] ^= 1;
    assert_eq!(sides[1].hear(&forged, now), Err(LinkError::Refused));
    // The window has not moved: the frame itself still opens, once.
    assert_eq!(sides[1].hear(&good, now), Ok(()));
    assert_eq!(sides[1].hear(&good, now), Err(LinkError::Refused));
}

#[test]
fn seka_83_a_report_says_what_share_of_the_frames_arrived() {
    use mezza_seka::DeliveryReport;
    let (mut sides, now) = paired::<Default>();
    assert!(exchange(&mut sides, now));
    let (session, _) = sides[1].sessions.last().expect("a session");
    let before = session.delivery_report();
    for number in 0..100 {
        let mut frame = sides[0].seal(b"\0text").expect("a session");
        // Every fourth one is lost, and one of ten is damaged.
        if number % 10 == 1 {
            frame[12] ^= 1;
        }
        if number % 4 != 0 {
            let _ = sides[1].hear(&frame, now);
        }
    }
    let (session, _) = sides[1].sessions.last().expect("a session");
    let report = session.delivery_report().since(&before);
    assert_eq!((report.opened, report.next, report.forged), (65, 100, 10));
    assert_eq!(report.arrived_percent(), Some(65));
    let text = report.encode();
    assert_eq!(DeliveryReport::decode(&text), Some(report));
    // A text of another kind or length is none.
    let mut other = text;
    other[0] = 0;
    assert!(
        [&other[..], &text[..12], &[]].iter().all(|text| DeliveryReport::decode(text).is_none())
    );
    assert_eq!(DeliveryReport::default().arrived_percent(), None);
}

#[test]
fn seka_43_a_subkey_enters_after_a_frame_opened_under_it() {
    let (mut sides, now) = paired::<Default>();
    assert!(exchange(&mut sides, now));
    let (out, _) = sides[0].sessions.last().expect("a session");
    let mut opener = Opener::<Frames>::default();
    let (back, _) = sides[1].sessions.last().expect("a session");
    // Numbers far ahead that do not open leave nothing behind.
    for subkey in 1..4_000_u32 {
        let mut forged = seal::<Frames>(out, b"\0x").expect("a frame");
        forged[4..8].copy_from_slice(&(subkey * FRAMES_PER_SUBKEY).to_be_bytes());
        assert!(opener.open(back, &mut forged).is_err());
        if subkey % 1_000 == 0 {
            let mut good = seal::<Frames>(out, b"\0x").expect("a frame");
            assert!(opener.open(back, &mut good).is_ok());
        }
    }
}

#[test]
fn seka_44_the_initiator_switches_when_it_hears_the_new_session() {
    let (mut sides, now) = paired::<Default>();
    assert!(exchange(&mut sides, now));
    let old = sides[0].using;
    let _ = sides[0].give(PeerInput::Rekey, now.plus_ms(5_000));
    // The keep-alive of the responder is lost: the initiator stays with the old session.
    let now = run(&mut sides, now.plus_ms(5_000), 50, |_, frame| index_of(frame).is_none());
    assert_eq!(sides[0].using, old);
    assert_ne!(sides[1].using, old);
    // What it sends under the old one still opens.
    let frame = sides[0].seal(b"\0text").expect("a session");
    assert_eq!(sides[1].hear(&frame, now), Ok(()));
    let now = run(&mut sides, now, 2_000, |_, _| true);
    assert_ne!(sides[0].using, old);
    // Three seconds later the old one is gone on both sides.
    run(&mut sides, now, 3_500, |_, _| true);
    for side in &sides {
        assert!(side.sessions.iter().all(|(session, _)| Some(session.attempt()) != old));
    }
}

#[test]
fn seka_45_a_thousand_exchanges_lose_no_frame() {
    let (mut sides, mut now) = paired_with::<Default>(|settings| settings.exchange_ms = 0);
    assert!(exchange(&mut sides, now));
    let mut sent = 0_u32;
    let mut received = 0_u32;
    for _ in 0..1_000 {
        let _ = sides[0].give(PeerInput::Rekey, now);
        // Traffic in both directions between any two frames of the exchange.
        for _ in 0..12 {
            for from in 0..2 {
                if let Some(frame) = sides[from].seal(b"\0text") {
                    sent += 1;
                    received += u32::from(sides[1 - from].hear(&frame, now).is_ok());
                }
                for frame in std::mem::take(&mut sides[from].sent) {
                    let _ = sides[1 - from].hear(&frame, now);
                }
            }
            now = now.plus_ms(20);
            for side in &mut sides {
                side.wake(now);
            }
        }
    }
    assert_eq!(sent, received);
    assert!(sides[0].peer.record().rekeys >= 1_000);
}

#[test]
fn seka_60_five_misfits_raise_the_alarm_and_an_exchange_ends_it() {
    // One side is put back to an older copy of its disk.
    let (mut sides, now) = paired::<Default>();
    assert!(exchange(&mut sides, now));
    let old = sides[0].writes.len();
    assert!(exchange(&mut sides, now.plus_ms(10_000)));
    let (_, sealed) = &sides[0].writes[old - 1];
    let stored =
        mezza_seka::PeerRecord::open(&crate::stage::store_key(), sealed).expect("a record");
    let settings = mezza_seka::PeerSettings::default();
    let later = now.plus_ms(400_000);
    let peer =
        mezza_seka::Peer::restore(stored.0, stored.1, crate::stage::store_key(), settings, later);
    sides[0] = crate::stage::Side::new(peer.expect("restored"), 8);
    let _ = sides[0].give(PeerInput::Rekey, later);
    let now = run(&mut sides, later, 60_000, |_, _| true);
    assert!(sides[1].events.contains(&PeerEvent::NotRecognised));
    assert!(sides[1].peer.status().alarm);
    let _ = now;
}

/// Somebody in the middle of a pairing gave both sides the same role. He is gone: each of them hears the
/// other do what it does itself.
#[test]
fn seka_60_two_sides_in_one_role_do_not_recognise_each_other() {
    for role in [LinkRole::Initiator, LinkRole::Responder] {
        let mut sides = [(1, 2), (2, 1)].map(|(own, peer)| {
            let side =
                |byte, role| Device::<Default>::new(byte, |settings| settings.role = Some(role));
            let mut devices = [side(own, role), side(peer, role.other())];
            run_pairing(&mut devices, 4_000, across, |_, _| {});
            let [mine, _] = devices;
            Side::new(mine.pairing.into_peer().expect("paired").0, own.into())
        });
        let now = Time::from_ms(400_000);
        for side in &mut sides {
            let _ = side.give(PeerInput::Carrier(true), now);
        }
        run(&mut sides, now, 60_000, |_, _| true);
        assert!(sides.iter().all(|side| side.peer.status().alarm), "{role:?}");
    }
}

/// A side that runs an older copy of its disk tries once a minute after a while. The peer was recognised just
/// before, so the first attempts raise nothing.
#[test]
fn seka_60_an_older_copy_raises_the_alarm_from_the_back_off() {
    let (mut sides, now) = paired::<Default>();
    assert!(exchange(&mut sides, now));
    let old = sides[0].writes.len();
    assert!(exchange(&mut sides, now.plus_ms(10_000)));
    let (_, sealed) = &sides[0].writes[old - 1];
    let stored =
        mezza_seka::PeerRecord::open(&crate::stage::store_key(), sealed).expect("a record");
    let settings = mezza_seka::PeerSettings::default();
    let later = now.plus_ms(400_000);
    let peer =
        mezza_seka::Peer::restore(stored.0, stored.1, crate::stage::store_key(), settings, later);
    sides[0] = crate::stage::Side::new(peer.expect("restored"), 8);
    let _ = sides[0].give(PeerInput::Rekey, later);
    // Its first attempts are lost, as they are while the responder is away.
    let now = run(&mut sides, later, 600_000, |_, _| false);
    let now = run(&mut sides, now, 200_000, |_, _| true);
    assert!(sides[1].events.contains(&PeerEvent::NotRecognised), "{:?}", sides[1].events);
    assert!(now > later);
}

#[test]
fn seka_60_forged_frames_do_not_alarm_a_live_link() {
    let (mut sides, mut now) = paired::<Default>();
    for _ in 0..120 {
        now = now.plus_ms(1_000);
        let mut forged = vec![0x33; 88];
        forged[..8].copy_from_slice(&[1, Ke1::KIND, 2, 0, 0, 0, 1, 1]);
        forged[8..14].copy_from_slice(sides[0].peer.record().own.as_bytes());
        forged[14..20].copy_from_slice(sides[1].peer.record().own.as_bytes());
        forged[36] = 0x7f;
        let _ = sides[1].hear(&forged, now);
        if now.as_ms() % 20_000 == 0 {
            assert!(exchange(&mut sides, now));
        }
        run(&mut sides, now, 10, |_, _| true);
    }
    assert!(!sides[1].events.contains(&PeerEvent::NotRecognised));
    assert!(sides[1].peer.status().refused > 100);
}

/// A responder that has the right keys jumps to the end of its packet numbers in each session.
#[test]
fn seka_91_a_jump_of_packet_numbers_begins_no_exchange() {
    let (mut sides, now) = paired_with::<Default>(|settings| settings.subkeys = 1);
    assert!(exchange(&mut sides, now));
    let now = now.plus_ms(5_000);
    let (session, _) = sides[1].sessions.last().expect("a session");
    let left = session.limit() - session.sent() - 1;
    session.reserve_packets(left).expect("numbers");
    let last = sides[1].seal(b"\0x").expect("the last number");
    assert_eq!(sides[0].hear(&last, now), Ok(()));
    assert_eq!(begun_by_usage(&mut sides[0], now), 0);
    // Frames that came count, and so do our own.
    let (mut sides, now) = paired_with::<Default>(|settings| settings.subkeys = 1);
    assert!(exchange(&mut sides, now));
    let now = now.plus_ms(5_000);
    for _ in 0..FRAMES_PER_SUBKEY / 4 * 3 {
        let frame = sides[1].seal(b"\0x").expect("a number");
        assert_eq!(sides[0].hear(&frame, now), Ok(()));
    }
    assert_eq!(begun_by_usage(&mut sides[0], now), 1);
    let (mut sides, now) = paired_with::<Default>(|settings| settings.subkeys = 1);
    assert!(exchange(&mut sides, now));
    sides[0].sessions.last().expect("a session").0.reserve_packets(FRAMES_PER_SUBKEY / 4 * 3);
    assert_eq!(begun_by_usage(&mut sides[0], now.plus_ms(5_000)), 1);
}

/// Gives a side the usage of its session; the attempts that it begins.
fn begun_by_usage(side: &mut Side<Default>, now: Time) -> usize {
    side.sent.clear();
    let usage = side.sessions.last().expect("a session").0.usage();
    let _ = side.give(PeerInput::Used(usage), now);
    side.sent.drain(..).filter(|frame| kind_of(frame) == Some(Ke1::KIND)).count()
}

#[test]
fn seka_61_a_nudge_begins_one_attempt_in_five_seconds() {
    let (mut sides, mut now) = paired::<Default>();
    let _ = sides[1].give(PeerInput::Rekey, now);
    let nudge = sides[1].sent.remove(0);
    assert_eq!(kind_of(&nudge), Some(Nudge::KIND));
    let mut begun = 0;
    for _ in 0..300 {
        now = now.plus_ms(100);
        let _ = sides[0].hear(&nudge, now);
        sides[0].wake(now);
        begun += sides[0].sent.drain(..).filter(|f| kind_of(f) == Some(Ke1::KIND)).count();
    }
    // Thirty seconds: six attempts of four frames at most, and the back-off besides.
    assert!(begun <= 4 * 6 + 16, "{begun}");
}

#[test]
fn seka_62_no_event_and_no_debug_holds_a_secret() {
    let (mut sides, now) = paired::<Default>();
    assert!(exchange(&mut sides, now));
    let shown = format!(
        "{:?} {:?} {:?} {:?}",
        sides[0].events,
        sides[0].peer.record(),
        sides[0].sessions.first().map(|(session, _)| session),
        crate::stage::store_key()
    );
    assert!(!shown.contains("[1") && !shown.contains("0x"), "{shown}");
    for byte in sides[0].peer.stolen_states().0.windows(4) {
        assert!(!shown.contains(&format!("{byte:?}")));
    }
}

#[test]
fn a_lost_ke3_costs_no_frame() {
    let (mut sides, now) = paired::<Default>();
    assert!(exchange(&mut sides, now));
    let now = now.plus_ms(10_000);
    let _ = sides[0].give(PeerInput::Rekey, now);
    let mut lost = 0;
    run(&mut sides, now, 2_000, |_, frame| {
        let is_first = kind_of(frame) == Some(Ke3::KIND) && lost == 0;
        lost += u32::from(is_first);
        !is_first
    });
    assert_eq!((lost, sides[0].using), (1, sides[1].using));
    let _ = Time::from_ms(0);
}
