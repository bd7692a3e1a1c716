//! Properties of frames: what is encoded is decoded, any cut of the stream gives the same frames,
//! random bytes never panic and what decodes encodes to the same bytes.

use alloc::vec;
use alloc::vec::Vec;

use proptest::collection::vec as vec_of;
use proptest::prelude::*;

use super::*;

fn token() -> impl Strategy<Value = Secret<32>> {
    any::<[u8; 32]>().prop_map(|bytes| Secret::copy_from(&bytes))
}

fn key() -> impl Strategy<Value = RawOneTimePrekey> {
    any::<(u32, [u8; 32])>().prop_map(|(id, key)| RawOneTimePrekey { id, key })
}

fn client_frame() -> impl Strategy<Value = ClientFrame> {
    prop_oneof![
        (any::<u16>(), token(), any::<bool>()).prop_map(|(req, token, intro)| {
            let kind = if intro { MailboxKind::Intro } else { MailboxKind::Conversation };
            ClientFrame::Open { req, token, kind }
        }),
        (any::<u16>(), token()).prop_map(|(req, token)| ClientFrame::Close { req, token }),
        (any::<u16>(), any::<[u8; 16]>(), any::<u16>(), vec_of(any::<u8>(), 0..2_000)).prop_map(
            |(req, address, ttl_h, envelope)| {
                let address = MailboxAddress(address);
                ClientFrame::Put { req, address, ttl_h, envelope }
            }
        ),
        (any::<u16>(), any::<u16>(), token()).prop_map(|(req, number, token)| ClientFrame::Watch {
            req,
            number,
            token
        }),
        (any::<u16>(), vec_of(any::<u32>(), 0..=TAKEN_MAX))
            .prop_map(|(number, mails)| ClientFrame::Taken { number, mails }),
        (any::<u16>(), token(), any::<bool>(), vec_of(any::<u8>(), 0..300), vec_of(key(), 0..20))
            .prop_map(|(req, token, fresh, bundle, keys)| ClientFrame::BundleSet {
                req,
                token,
                fresh,
                bundle,
                keys
            }),
        (any::<u16>(), any::<[u8; 16]>()).prop_map(|(req, address)| ClientFrame::BundleGet {
            req,
            address: MailboxAddress(address)
        }),
        Just(()).prop_map(|()| ClientFrame::Ping),
    ]
}

fn relay_frame() -> impl Strategy<Value = RelayFrame> {
    prop_oneof![
        (any::<u8>(), 0u64..1 << 48, any::<u32>(), any::<u16>()).prop_map(
            |(version, now_ms, envelope_bytes_max, ttl_h_max)| RelayFrame::Hello {
                version,
                now_ms,
                envelope_bytes_max,
                ttl_h_max
            }
        ),
        (any::<u16>(), any::<u32>(), vec_of(any::<u8>(), 0..2_000))
            .prop_map(|(number, nr, envelope)| RelayFrame::Mail { number, nr, envelope }),
        (any::<u16>(), vec_of(any::<u8>(), 0..300), proptest::option::of(key()))
            .prop_map(|(req, bundle, key)| RelayFrame::Bundle { req, bundle, key }),
        any::<(u16, u16)>().prop_map(|(number, left)| RelayFrame::Stock { number, left }),
        any::<(u16, bool)>().prop_map(|(number, over)| RelayFrame::Displaced { number, over }),
        (any::<u16>(), 0u8..6, any::<u16>()).prop_map(|(req, code, retry_s)| RelayFrame::Done {
            req,
            code: DoneCode::from_byte(code).unwrap(),
            retry_s
        }),
        Just(RelayFrame::Ping),
    ]
}

proptest! {
    #[test]
    fn client_frames_come_back(frame in client_frame()) {
        let bytes = frame.encode().unwrap();
        prop_assert_eq!(ClientFrame::decode(&bytes[LENGTH_BYTES..]), Ok(frame));
    }

    #[test]
    fn relay_frames_come_back(frame in relay_frame()) {
        let bytes = frame.encode().unwrap();
        prop_assert_eq!(RelayFrame::decode(&bytes[LENGTH_BYTES..]), Ok(frame));
    }

    #[test]
    fn any_cut_of_the_stream_gives_the_same_frames(
        frames in vec_of(relay_frame(), 1..6),
        pieces in vec_of(1usize..700, 1..40),
    ) {
        let stream: Vec<u8> = frames.iter().flat_map(|f| f.encode().unwrap()).collect();
        let mut splitter = RelayDeframer::default();
        let mut found = Vec::new();
        let mut rest = &stream[..];
        let mut sizes = pieces.iter().cycle();
        while !rest.is_empty() {
            let (mut piece, tail) = rest.split_at((*sizes.next().unwrap()).min(rest.len()));
            rest = tail;
            while let Some(frame) = splitter.next_frame(&mut piece).unwrap() {
                found.push(RelayFrame::decode(&frame).unwrap());
            }
        }
        prop_assert_eq!(found, frames);
        prop_assert_eq!(splitter.buffered_bytes(), 0);
    }

    #[test]
    fn random_bytes_are_refused_or_mean_themselves(mut bytes in vec_of(any::<u8>(), 0..200),
                                                   kind in 0x10u8..0x20) {
        if let Some(first) = bytes.first_mut() {
            *first = kind;
        }
        if let Ok(frame) = ClientFrame::decode(&bytes) {
            prop_assert_eq!(&frame.encode().unwrap()[LENGTH_BYTES..], &bytes[..]);
        }
        if let Ok(frame) = RelayFrame::decode(&bytes) {
            prop_assert_eq!(&frame.encode().unwrap()[LENGTH_BYTES..], &bytes[..]);
        }
    }
}

#[test]
fn a_length_outside_the_limit_ends_the_stream() {
    for length in [[0, 0, 0], [1, 0, 1], [0xff, 0xff, 0xff]] {
        assert_eq!(RelayDeframer::default().next_frame(&mut &length[..]), Err(DecodeError::Value));
    }
    assert_eq!(RelayDeframer::default().next_frame(&mut &[1, 0, 0][..]), Ok(None));
}

#[test]
fn what_does_not_fit_is_not_made() {
    let put = |bytes| ClientFrame::Put {
        req: 1,
        address: MailboxAddress([0; 16]),
        ttl_h: 1,
        envelope: vec![0; bytes],
    };
    assert!(put(FRAME_BYTES_MAX - 21).encode().is_ok());
    assert_eq!(put(FRAME_BYTES_MAX - 20).encode(), Err(FrameTooLong));
    let taken = |mails| ClientFrame::Taken { number: 1, mails: vec![0; mails] };
    assert_eq!(taken(65).encode(), Err(FrameTooLong));
}
