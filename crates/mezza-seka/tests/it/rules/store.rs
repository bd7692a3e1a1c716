//! Rules of the store.

use mezza_seka::record::SEALED_BYTES;
use mezza_seka::{LinkError, PeerEvent, PeerInput, PeerRecord, RecordError};

use crate::stage::{Default, exchange, paired, states_agree, store_key};

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

#[test]
fn seka_50_a_torn_slot_is_skipped_and_two_are_refused() {
    let (mut sides, now) = paired::<Default>();
    assert!(exchange(&mut sides, now));
    let [.., (_, older), (newest, newer)] = sides[0].writes.as_slice() else { panic!("writes") };
    let newest_of = |slots: [&[u8]; 2]| PeerRecord::newest(&store_key(), slots);
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
