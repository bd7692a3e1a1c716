//! Frames between clients and relays, and between two paired devices.

use mezza_core::Secret;
use mezza_messenger::carriers::link::StreamDeframer;
use mezza_messenger::relay_wire::{
    ClientFrame, DoneCode, MailboxAddress, MailboxKind, RawOneTimePrekey, RelayDeframer, RelayFrame,
};

/// Bytes of the length field, which a deframed frame no longer has.
const LENGTH_BYTES: usize = 3;

/// Feeds a stream, cut into pieces as the first byte specifies. Frames must come out whole, no more
/// is buffered than was fed, and a decoded frame encodes to the same bytes.
pub fn check_frames(data: &[u8]) {
    let Some((piece, stream)) = data.split_first() else { return };
    let mut splitter = RelayDeframer::default();
    let mut fed = 0;
    for mut input in stream.chunks(usize::from(*piece) + 1) {
        fed += input.len();
        loop {
            match splitter.next_frame(&mut input) {
                Ok(Some(frame)) => check_frame(&frame),
                Ok(None) => break,
                Err(_) => return,
            }
        }
        assert!(input.is_empty() && splitter.buffered_bytes() <= fed);
    }
}

fn check_frame(frame: &[u8]) {
    if let Ok(client) = ClientFrame::decode(frame) {
        let again = client.encode().expect("what came in a frame fits into one");
        assert_eq!(&again[LENGTH_BYTES..], frame);
    }
    if let Ok(relay) = RelayFrame::decode(frame) {
        let again = relay.encode().expect("what came in a frame fits into one");
        assert_eq!(&again[LENGTH_BYTES..], frame);
    }
}

/// Returns every kind of frame, in both directions, at two piece sizes.
pub fn frame_seeds() -> Vec<Vec<u8>> {
    let token = || Secret::init_with(|token| token.fill(3));
    let address = MailboxAddress([4; 16]);
    let key = RawOneTimePrekey { id: 5, key: [6; 32] };
    let client = [
        ClientFrame::Open { req: 1, token: token(), kind: MailboxKind::Intro },
        ClientFrame::Put { req: 2, address, ttl_h: 720, envelope: vec![7; 512] },
        ClientFrame::Watch { req: 3, number: 1, token: token() },
        ClientFrame::Taken { number: 1, mails: vec![1, 2, 3] },
        ClientFrame::BundleSet {
            req: 4,
            token: token(),
            fresh: true,
            bundle: vec![8; 100],
            keys: vec![key.clone()],
        },
        ClientFrame::BundleGet { req: 5, address },
        ClientFrame::Ping,
        ClientFrame::Close { req: 6, token: token() },
    ];
    let relay = [
        RelayFrame::Hello { version: 1, now_ms: 1, envelope_bytes_max: 16_384, ttl_h_max: 720 },
        RelayFrame::Mail { number: 1, nr: 1, envelope: vec![7; 512] },
        RelayFrame::Bundle { req: 5, bundle: vec![8; 100], key: Some(key) },
        RelayFrame::Stock { number: 1, left: 19 },
        RelayFrame::Done { req: 2, code: DoneCode::SlowDown, retry_s: 2 },
        RelayFrame::Ping,
    ];
    let client = client.iter().flat_map(|frame| frame.encode().unwrap_or_default());
    let relay = relay.iter().flat_map(|frame| frame.encode().unwrap_or_default());
    let streams = [client.collect::<Vec<_>>(), relay.collect::<Vec<_>>()];
    let cut = |piece: u8| streams.iter().map(move |stream| [&[piece], stream.as_slice()].concat());
    cut(0).chain(cut(255)).collect()
}

/// Bytes of the longest frame between paired devices.
const LINK_FRAME_BYTES_MAX: usize = 16_388;

/// Feeds a stream between two paired devices, cut into pieces as the first byte specifies. The
/// frames must be the stream from its beginning, and the buffer is bounded.
pub fn check_link_frames(data: &[u8]) {
    let Some((piece, stream)) = data.split_first() else { return };
    let mut deframer = StreamDeframer::default();
    let mut whole = Vec::new();
    for mut input in stream.chunks(usize::from(*piece) + 1) {
        loop {
            match deframer.next_frame(&mut input) {
                Ok(Some(frame)) => {
                    assert!((2..=LINK_FRAME_BYTES_MAX).contains(&frame.len()));
                    whole.extend_from_slice(&frame);
                }
                Ok(None) => break,
                Err(_) => return,
            }
        }
        assert!(input.is_empty() && deframer.buffered_bytes() < LINK_FRAME_BYTES_MAX);
        assert!(stream.starts_with(&whole));
    }
    assert_eq!(whole.len() + deframer.buffered_bytes(), stream.len());
}

/// Returns the frames of a pairing with its first session, at two piece sizes.
pub fn link_frame_seeds() -> Vec<Vec<u8>> {
    let fixed = [(0x12, 68), (0x13, 84), (0x14, 84), (0x15, 88), (0x16, 88), (0x17, 56)];
    let mut stream = Vec::new();
    for (kind, bytes) in fixed {
        stream.extend([&[1, kind], vec![2; bytes - 2].as_slice()].concat());
    }
    for bytes in [256_u16, 16_384, 512] {
        stream.extend([1, 0x20]);
        stream.extend(bytes.to_be_bytes());
        stream.extend(vec![3; bytes.into()]);
    }
    stream.extend([1, 0x21]);
    [0, 255].map(|piece| [&[piece], stream.as_slice()].concat()).into()
}
