//! Records on a stream.

use mezza_seka::FrameError;
use mezza_seka::stream::{BODY_BYTES, PAYLOAD_BYTES_MAX, RecordType, Records};
use proptest::prelude::*;

use crate::stage::{Default, Frames, exchange, paired};

/// Both ends of a stream.
fn ends() -> [Records<Frames>; 2] {
    let (mut sides, now) = paired::<Default>();
    assert!(exchange(&mut sides, now));
    sides.map(|mut side| Records::new(side.sessions.pop().expect("a session").0))
}

#[test]
fn seka_47_a_stream_without_its_end_was_cut() {
    let [mut one, mut two] = ends();
    let hello = one.seal(RecordType::Data, b"hello").expect("sealed");
    assert_eq!(
        two.open(&hello).map(|(kind, text)| (kind, text.to_vec())),
        Ok((RecordType::Data, b"hello".to_vec()))
    );
    assert!(two.was_cut());
    let end = one.seal(RecordType::End, b"").expect("sealed");
    assert!(two.open(&end).is_ok() && !two.was_cut());
    let late = one.seal(RecordType::Data, b"late").expect("sealed");
    assert!(two.open(&late).is_err());
    assert_eq!(Records::<Frames>::close(), [1, 0x21]);
}

#[test]
fn a_record_that_is_changed_repeated_or_out_of_order_ends_the_stream() {
    let [mut one, mut two] = ends();
    let first = one.seal(RecordType::Data, b"1").expect("sealed");
    let second = one.seal(RecordType::Acknowledgement, b"2").expect("sealed");
    assert!(two.open(&second).is_err());
    for at in [0, 1, 2, 3, 4, 100, 259] {
        let mut changed = first.clone();
        changed[at] ^= 1;
        assert_eq!(two.open(&changed).err(), Some(FrameError::Forged), "{at}");
    }
    assert!(two.open(&first).is_ok());
    assert!(two.open(&first).is_err());
    assert!(two.open(&second).is_ok());
    assert!(one.open(&first).is_err(), "directions have different keys");
}

proptest! {
    #[test]
    fn seka_48_bodies_have_six_sizes_and_give_back_every_payload(
        payload in proptest::collection::vec(any::<u8>(), 0..PAYLOAD_BYTES_MAX), kind: u8,
    ) {
        let [mut one, mut two] = ends();
        let kind = match kind { 0 => RecordType::Data, 1 => RecordType::End, 2 => RecordType::Acknowledgement, n => RecordType::Other(n) };
        let record = one.seal(kind, &payload).expect("sealed");
        prop_assert!(BODY_BYTES.contains(&(record.len() - 4)));
        let (found, text) = two.open(&record).expect("opened");
        prop_assert_eq!((found, text.to_vec()), (kind, payload));
        prop_assert!(one.seal(kind, &vec![0; PAYLOAD_BYTES_MAX + 1]).is_err());
    }
}
