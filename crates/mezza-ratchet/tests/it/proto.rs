//! Our protobuf codec against prost, which accepts more: what ours takes, both read alike.

use mezza_ratchet::wire::proto;
use proptest::collection::vec;
use proptest::prelude::*;
use prost::Message;

#[derive(Clone, PartialEq, Message)]
struct SignalMessage {
    #[prost(bytes = "vec", optional, tag = "1")]
    ratchet_key: Option<Vec<u8>>,
    #[prost(uint32, optional, tag = "2")]
    counter: Option<u32>,
    #[prost(uint32, optional, tag = "3")]
    previous_counter: Option<u32>,
    #[prost(bytes = "vec", optional, tag = "4")]
    ciphertext: Option<Vec<u8>>,
}

#[derive(Clone, PartialEq, Message)]
struct PreKeySignalMessage {
    #[prost(uint32, optional, tag = "1")]
    pre_key_id: Option<u32>,
    #[prost(bytes = "vec", optional, tag = "2")]
    base_key: Option<Vec<u8>>,
    #[prost(bytes = "vec", optional, tag = "3")]
    identity_key: Option<Vec<u8>>,
    #[prost(bytes = "vec", optional, tag = "4")]
    message: Option<Vec<u8>>,
    #[prost(uint32, optional, tag = "5")]
    registration_id: Option<u32>,
    #[prost(uint32, optional, tag = "6")]
    signed_pre_key_id: Option<u32>,
    #[prost(uint32, optional, tag = "7")]
    kyber_pre_key_id: Option<u32>,
    #[prost(bytes = "vec", optional, tag = "8")]
    kyber_ciphertext: Option<Vec<u8>>,
}

/// Bytes that look like fields, with anything in them.
fn fields() -> impl Strategy<Value = Vec<u8>> {
    let varint = vec(any::<u8>(), 1..11).prop_map(|mut bytes| {
        let last = bytes.len() - 1;
        bytes[..last].iter_mut().for_each(|byte| *byte |= 0x80);
        bytes[last] &= 0x7f;
        bytes
    });
    let short = (0..20_u8).prop_map(|byte| vec![byte]);
    let field = (1..12_u8, 0..6_u8, prop_oneof![4 => short, 1 => varint], vec(any::<u8>(), 0..20));
    let field = field.prop_map(|(number, kind, integer, bytes)| match kind {
        0 => [&[number << 3], &integer[..]].concat(),
        1 => [&[number << 3 | 1], &[7; 8][..]].concat(),
        2 | 3 => [&[number << 3 | 2, bytes.len() as u8], &bytes[..]].concat(),
        4 => [&[number << 3 | kind], &bytes[..]].concat(),
        _ => [&[number << 3 | 5], &[7; 4][..]].concat(),
    });
    vec(field, 0..8).prop_map(|fields| fields.concat())
}

fn agrees_on_message(bytes: &[u8]) -> bool {
    let Ok(ours) = proto::SignalMessage::decode(bytes) else { return false };
    let theirs = SignalMessage::decode(bytes).expect("what we take, prost takes");
    assert_eq!(ours.ratchet_key, theirs.ratchet_key());
    assert_eq!(
        (ours.counter, ours.previous_counter),
        (theirs.counter(), theirs.previous_counter())
    );
    assert_eq!(ours.ciphertext, theirs.ciphertext());
    let end = ours.ciphertext_at + ours.ciphertext.len();
    assert_eq!(&bytes[ours.ciphertext_at..end], theirs.ciphertext());
    true
}

fn agrees_on_first(bytes: &[u8]) -> bool {
    let Ok(ours) = proto::PreKeySignalMessage::decode(bytes) else { return false };
    let theirs = PreKeySignalMessage::decode(bytes).expect("what we take, prost takes");
    let integers = (ours.pre_key_id, ours.registration_id, Some(ours.signed_pre_key_id));
    assert_eq!(integers, (theirs.pre_key_id, theirs.registration_id, theirs.signed_pre_key_id));
    assert_eq!((ours.base_key, ours.identity_key), (theirs.base_key(), theirs.identity_key()));
    assert_eq!(ours.message, theirs.message());
    assert_eq!(ours.kyber_pre_key_id, theirs.kyber_pre_key_id);
    assert_eq!(ours.kyber_ciphertext, theirs.kyber_ciphertext.as_deref());
    true
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]

    #[test]
    fn what_we_take_prost_reads_alike(bytes in prop_oneof![fields(), vec(any::<u8>(), 0..60)]) {
        let message = agrees_on_message(&bytes);
        let first = agrees_on_first(&bytes);
        prop_assert!(!(message && first), "no bytes are both");
    }

    #[test]
    fn what_prost_writes_we_take(
        key in vec(any::<u8>(), 0..40),
        integers: [Option<u32>; 4],
        counter: u32,
        text in vec(any::<u8>(), 0..300),
        unknown in vec(9..2_000_u32, 0..3),
    ) {
        let mut bytes: Vec<u8> = unknown.iter().flat_map(|n| tag(*n)).collect();
        bytes.extend(SignalMessage {
            ratchet_key: Some(key.clone()),
            counter: Some(counter),
            previous_counter: integers[0],
            ciphertext: Some(text.clone()),
        }.encode_to_vec());
        bytes.extend(unknown.iter().flat_map(|n| tag(*n)));
        prop_assert!(agrees_on_message(&bytes) && !proto::PreKeySignalMessage::is_prekey_message(&bytes));
        let first = PreKeySignalMessage {
            pre_key_id: integers[1],
            base_key: Some(key.clone()),
            identity_key: Some(key),
            message: Some(text.clone()),
            registration_id: integers[2],
            signed_pre_key_id: Some(counter),
            kyber_pre_key_id: integers[3],
            kyber_ciphertext: integers[3].map(|_| text),
        }.encode_to_vec();
        prop_assert!(agrees_on_first(&first) && proto::SignalMessage::decode(&first).is_err());
        // Twice the same field: prost takes the last, we take none.
        prop_assert!(!agrees_on_first(&[&first[..], &[0x30, 1]].concat()));
    }
}

/// An unknown field of the largest integer.
fn tag(number: u32) -> Vec<u8> {
    let key = u64::from(number) << 3;
    let mut bytes = vec![key as u8 | 0x80, (key >> 7) as u8 & 0x7f | 0x80, (key >> 14) as u8];
    bytes.extend([0xff; 9]);
    bytes.push(1);
    bytes
}
