//! Rules of the store.

use mezza_seka::record::SEALED_BYTES;
use mezza_seka::{LinkError, Peer, PeerEvent, PeerInput, PeerRecord, RecordError};

use crate::stage::{
    Default, Device, Side, across, exchange, paired, run_pairing, states_agree, store_key,
};

#[test]
fn seka_24_a_write_that_failed_leaves_the_machine_as_it_was() {
    let (mut sides, now) = paired::<Default>();
    let before = *sides[1].peer.stolen_states().0;
    sides[0].slow_disk = true;
    sides[1].slow_disk = true;
    let _ = sides[0].give(PeerInput::Rekey, now);
    // The number that the last exchange reserved is used without a write.
    let ke1 = sides[0].sent.remove(0);
    sides[1].hear(&ke1, now).expect("taken");
    let (seq, _) = *sides[1].writes.last().expect("a write");
    sides[1].give(PeerInput::StoreFailed(seq), now).expect("heard");
    assert!(sides[1].sent.is_empty() && sides[1].events.contains(&PeerEvent::StoreFailed));
    let (current, pending) = sides[1].peer.stolen_states();
    assert_eq!((*current, pending), (before, None));
    // The answer to a write that is not out is refused.
    assert_eq!(sides[1].give(PeerInput::Stored(seq), now), Err(LinkError::Unknown));
    sides[0].slow_disk = false;
    sides[1].slow_disk = false;
    assert!(exchange(&mut sides, now.plus_ms(60_000)));
    // Later writes have larger numbers.
    assert!(sides[1].writes.windows(2).all(|pair| pair[0].0 < pair[1].0));
    assert!(states_agree(&sides));
}

/// KE3 arrives while the second slot is written with what was true before it.
#[test]
fn seka_23_a_write_that_is_out_is_no_copy_of_the_new_record() {
    let (mut sides, now) = paired::<Default>();
    let old = *sides[1].peer.stolen_states().0;
    let _ = sides[0].give(PeerInput::Rekey, now);
    let ke1 = sides[0].sent.remove(0);
    sides[1].hear(&ke1, now).expect("taken");
    let ke2 = sides[1].sent.remove(0);
    sides[0].hear(&ke2, now).expect("taken");
    let ke3 = sides[0].sent.remove(0);
    sides[1].slow_disk = true;
    let later = now.plus_ms(mezza_seka::limits::FLUSH_MS);
    sides[1].wake(later);
    sides[1].hear(&ke3, later).expect("accepted");
    // The disk answers everything that it is asked for within a second.
    for ms in 0..1_000 {
        let writes: Vec<u64> = sides[1].writes.iter().map(|(seq, _)| *seq).collect();
        for seq in writes {
            let _ = sides[1].give(PeerInput::Stored(seq), later.plus_ms(ms));
        }
        sides[1].wake(later.plus_ms(ms));
    }
    for (_, sealed) in sides[1].writes.iter().rev().take(2) {
        let stored = PeerRecord::open(&store_key(), sealed).expect("a record");
        let settings = mezza_seka::PeerSettings::default();
        let peer =
            mezza_seka::Peer::<Default>::restore(stored.0, stored.1, store_key(), settings, later);
        assert_ne!(*peer.expect("restored").stolen_states().0, old);
    }
}

/// The responder loses power after the initiator has said `paired`, and before the third message came.
#[test]
fn seka_87_a_pairing_without_its_third_message_is_run_and_the_next_exchange_proves_it() {
    use mezza_core::Time;
    use mezza_seka::wire::{Ke3, kind_of};
    use mezza_seka::{LinkRole, PeerSettings};
    let device = |own: u8, role: LinkRole| {
        Device::<Default>::new(own, |settings| settings.role = Some(role))
    };
    let mut devices = [device(1, LinkRole::Initiator), device(2, LinkRole::Responder)];
    let wire = |from: usize, frame: Vec<u8>| {
        if kind_of(&frame) == Some(Ke3::KIND) { Vec::new() } else { across(from, frame) }
    };
    run_pairing(&mut devices, 4_000, wire, |_, _| {});
    assert_eq!(devices.each_ref().map(|device| device.done), [true, false]);
    let now = Time::from_ms(10_000);
    let mut seed = 20;
    let mut sides = devices.map(|device| {
        let (_, sealed) = device.writes.last().expect("a write");
        let stored = PeerRecord::open(&store_key(), sealed).expect("a record");
        assert!(stored.1.may_stand());
        // What was written first holds no state that the other side can have accepted.
        let (_, first) = device.writes.first().expect("a write");
        let (_, first) = PeerRecord::open(&store_key(), first).expect("a record");
        assert_eq!(first.may_stand(), first.role == LinkRole::Responder);
        let settings = PeerSettings::default();
        let peer = Peer::<Default>::restore(stored.0, stored.1, store_key(), settings, now);
        seed += 1;
        Side::new(peer.expect("restored"), seed)
    });
    assert!(exchange(&mut sides, now));
    assert!(sides.iter().all(|side| side.peer.record().accepted));
}

#[test]
fn seka_50_a_torn_slot_is_skipped_and_two_are_refused() {
    let (mut sides, now) = paired::<Default>();
    assert!(exchange(&mut sides, now));
    let [.., (_, older), (newest, newer)] = sides[0].writes.as_slice() else { panic!("writes") };
    let newest_of = |slots: [&[u8]; 2]| PeerRecord::open_newest(&store_key(), slots);
    let (seq, place, _) = newest_of([older, newer]).expect("sound");
    assert_eq!((seq, place), (*newest, 1));
    for cut in 0..SEALED_BYTES {
        let mut torn = newer.clone();
        torn[cut..].copy_from_slice(&older[cut..]);
        let (seq, place, _) = newest_of([older, &torn]).expect("one slot is sound");
        assert!((seq, place) == (*newest - 1, 0), "{cut}");
    }
    let zeros = vec![0; SEALED_BYTES];
    assert!(matches!(newest_of([&zeros, &zeros]), Err(RecordError::Sealed)));
    assert!(matches!(newest_of([&[], &[]]), Err(RecordError::Malformed(_))));
}

#[test]
fn seka_52_a_record_leaves_sealed_and_under_its_number() {
    let (mut sides, now) = paired::<Default>();
    assert!(exchange(&mut sides, now));
    let state = *sides[0].peer.stolen_states().0;
    for (_, sealed) in &sides[0].writes {
        assert_eq!(sealed.len(), SEALED_BYTES);
        assert!(!sealed.windows(8).any(|part| state.windows(8).any(|secret| part == secret)));
    }
    let (_, sealed) = sides[0].writes.last().expect("a write");
    for at in 0..SEALED_BYTES {
        let mut changed = sealed.clone();
        changed[at] ^= 1;
        assert!(matches!(PeerRecord::open(&store_key(), &changed), Err(RecordError::Sealed)));
    }
}
