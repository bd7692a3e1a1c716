use super::*;
use crate::limits::FRAME_BYTES_MAX;
use crate::service::Service;
use crate::wire::bucket::ObjectDigest;
use alloc::vec;
use mezza_core::FrameTooLong;
use proptest::prelude::*;

fn settings(id: RoundId, keys: usize) -> Settings {
    let keys = (0..keys).map(|i| [i as u8; 32]).collect();
    Settings { config: [9; 32], id, collect_ms: 4_000, slots: 1, buckets: 1, policy: 0, keys }
}

/// One frame of each type.
pub(crate) fn one_of_each(id: RoundId, bytes: Vec<u8>, n: u32) -> Vec<Frame> {
    let settings = settings(id, 3);
    let signatures = vec![[5; 64]; 3];
    let announced = SignedSettings { settings: settings.clone(), signatures, closes_in_ms: n };
    let bucket_id = RoundId { service: Service::Call, round: id.round };
    let entries = vec![ObjectDigest::from_object(&bytes), ObjectDigest::from_object(b"")];
    let manifest = Manifest { id: bucket_id, entries };
    let items = Items { offset: n, count: 2, bytes: vec![7; 2 * (bytes.len() + 1)] };
    let mut frames = vec![
        Frame::Hello { version: VERSION, config: [1; 32] },
        Frame::Welcome { head: [2; 32], now: Time::from_ms(id.round) },
        Frame::FetchConfig { from: [3; 32] },
        Frame::Config { left: 4, config: bytes.clone() },
    ];
    let bodies = [
        FrameBody::Settings(announced),
        FrameBody::Submit(bytes.clone()),
        FrameBody::Return { users: n, replies: bytes.clone() },
        FrameBody::NewRound,
        FrameBody::RoundKey([6; 32]),
        FrameBody::Sign(settings),
        FrameBody::Signature([7; 64]),
        FrameBody::BatchStart { count: n, size: 416 },
        FrameBody::Onions(items.clone()),
        FrameBody::BatchEnd { count: n },
        FrameBody::Replies(items),
        FrameBody::RepliesEnd { count: n },
        FrameBody::Alarm { position: 1, signature: [8; 64] },
        FrameBody::Fetch { bucket: n },
        FrameBody::Object(None),
        FrameBody::Chunk { bucket: n, offset: 8, bytes },
        FrameBody::Stored,
    ];
    let missed = MissedReason::ALL.map(FrameBody::Missed);
    let aborts = AbortReason::ALL.map(|reason| FrameBody::Abort {
        position: COORDINATOR,
        reason,
        signature: [9; 64],
    });
    frames.extend(bodies.into_iter().chain(missed).chain(aborts).map(|b| Frame::Round(id, b)));
    let put = FrameBody::Put { manifest: manifest.clone(), signature: [4; 64] };
    let object = FrameBody::Object(Some((manifest, [3; 64])));
    frames.extend([put, object].map(|body| Frame::Round(bucket_id, body)));
    frames
}

/// Returns true if any prefix of this frame is a frame, too, because its last field has no length.
fn ends_open(frame: &Frame) -> bool {
    matches!(
        frame,
        Frame::Config { .. }
            | Frame::Round(
                _,
                FrameBody::Submit(_)
                    | FrameBody::Return { .. }
                    | FrameBody::Chunk { .. }
                    | FrameBody::Onions(_)
                    | FrameBody::Replies(_)
                    | FrameBody::Object(_)
            )
    )
}

proptest! {
    #[test]
    fn what_is_encoded_is_decoded(round: u64, n: u32, bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let id = RoundId { service: Service::Conversation, round };
        for frame in one_of_each(id, bytes, n) {
            let encoded = frame.encode().expect("short enough");
            prop_assert_eq!(encoded.len() - LENGTH_BYTES, u32::from_be_bytes([encoded[0], encoded[1], encoded[2], encoded[3]]) as usize);
            prop_assert_eq!(Frame::decode(&encoded[LENGTH_BYTES..]), Ok(frame));
        }
    }

    #[test]
    fn what_is_decoded_is_encoded_alike(kind in 0_u8..0x50, service in 0_u8..4, bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let mut frame = vec![kind, service, 0, 0, 0, 0, 0, 0, 0, 0];
        frame.extend(bytes);
        if let Ok(decoded) = Frame::decode(&frame) {
            prop_assert_eq!(&decoded.encode().expect("short enough")[LENGTH_BYTES..], &frame[..]);
        }
    }

    #[test]
    fn a_stream_is_cut_where_its_frames_end(cuts in proptest::collection::vec(1_usize..200, 1..50)) {
        let id = RoundId { service: Service::Conversation, round: 9 };
        let frames = one_of_each(id, vec![1; 90], 5);
        let stream = frames.iter().flat_map(|f| f.encode().expect("short enough")).collect::<Vec<_>>();
        let mut splitter = LinkDeframer::default();
        let mut found = Vec::new();
        let mut at = 0;
        for cut in cuts.iter().cycle() {
            let end = stream.len().min(at + cut);
            let mut input = &stream[at..end];
            at = end;
            while let Some(frame) = splitter.next_frame(&mut input).expect("a good stream") {
                found.push(Frame::decode(&frame).expect("a good frame"));
            }
            if at == stream.len() { break; }
        }
        prop_assert_eq!(found, frames);
        prop_assert_eq!(splitter.buffered_bytes(), 0);
    }
}

#[test]
fn cut_and_long_frames_are_refused() {
    let id = RoundId { service: Service::Conversation, round: 9 };
    for frame in one_of_each(id, vec![1; 90], 5) {
        let bytes = frame.encode().expect("short enough")[LENGTH_BYTES..].to_vec();
        if ends_open(&frame) {
            continue;
        }
        for cut in 0..bytes.len() {
            assert!(Frame::decode(&bytes[..cut]).is_err(), "{frame:?} cut to {cut}");
        }
        let mut long = bytes;
        long.push(0);
        assert!(Frame::decode(&long).is_err(), "{frame:?} with a byte more");
    }
}

#[test]
fn what_names_its_round_twice_must_name_one() {
    let id = RoundId { service: Service::Conversation, round: 9 };
    let other = RoundId { service: Service::Conversation, round: 10 };
    let bytes =
        Frame::Round(other, FrameBody::Sign(settings(id, 3))).encode().expect("short enough");
    assert_eq!(Frame::decode(&bytes[LENGTH_BYTES..]), Err(DecodeError::Value));
}

#[test]
fn mix_12_a_promise_of_bytes_allocates_nothing() {
    let mut splitter = LinkDeframer::default();
    assert_eq!(splitter.next_frame(&mut &[0, 4, 0, 0, 0x21][..]), Ok(None));
    assert_eq!(splitter.buffered_bytes(), LENGTH_BYTES + 1);
    for length in [[0, 0, 0, 9], [0, 4, 0, 1], [0xff; 4]] {
        assert_eq!(LinkDeframer::default().next_frame(&mut &length[..]), Err(DecodeError::Value));
    }
    let long = FrameBody::Submit(vec![0; FRAME_BYTES_MAX]);
    let id = RoundId { service: Service::Call, round: 1 };
    assert_eq!(Frame::Round(id, long).encode(), Err(FrameTooLong));
}

#[test]
fn items_are_whole_and_of_one_size() {
    let id = RoundId { service: Service::Conversation, round: 9 };
    for (count, bytes) in [(0, 0), (0, 10), (3, 0), (3, 10)] {
        let items = Items { offset: 0, count, bytes: vec![0; bytes] };
        let frame = Frame::Round(id, FrameBody::Onions(items)).encode().expect("short enough");
        assert_eq!(
            Frame::decode(&frame[LENGTH_BYTES..]),
            Err(DecodeError::Value),
            "{count} in {bytes}"
        );
    }
}
