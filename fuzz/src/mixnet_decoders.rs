//! Frames of a mixnet, and its configs.

use mezza_core::{Secret, Time};
use mezza_mixnet::config::{
    Config, MixServer, Mode, NetworkId, Server, ServicePolicy, SignatureSet, SignedConfig, Traps,
};
use mezza_mixnet::sign::Signer;
use mezza_mixnet::wire::bucket::{ObjectDigest, invitation_object, split_invitations};
use mezza_mixnet::wire::filter::{self, Filter};
use mezza_mixnet::wire::frame::LENGTH_BYTES;
use mezza_mixnet::wire::{
    AbortReason, Frame, FrameBody, Items, LinkDeframer, Manifest, MissedReason, Settings,
    SignedSettings,
};
use mezza_mixnet::{RoundId, Service};

/// Feeds a stream, cut into pieces as the first byte specifies: a decoded frame encodes to the same
/// bytes.
pub fn check_frames(data: &[u8]) {
    let Some((piece, stream)) = data.split_first() else { return };
    let mut splitter = LinkDeframer::default();
    let mut fed = 0;
    for mut input in stream.chunks(usize::from(*piece) + 1) {
        fed += input.len();
        loop {
            match splitter.next_frame(&mut input) {
                Ok(Some(bytes)) => {
                    if let Ok(frame) = Frame::decode(&bytes) {
                        let again = frame.encode().expect("what came in a frame fits into one");
                        assert_eq!(&again[LENGTH_BYTES..], bytes);
                    }
                }
                Ok(None) => break,
                Err(_) => return,
            }
        }
        assert!(input.is_empty() && splitter.buffered_bytes() <= fed);
    }
}

/// Checks that a decoded config encodes to the same bytes, with its signatures and without.
pub fn check_config(data: &[u8]) {
    let Ok(signed) = SignedConfig::decode(data) else { return };
    assert_eq!(signed.encode(), data);
    let bytes = signed.config().encode();
    assert_eq!(Config::decode(&bytes).as_ref(), Ok(signed.config()));
    assert!(data.starts_with(&bytes));
}

/// Decodes objects of buckets: a filter can be queried, and the number of invitations is as stated.
pub fn check_objects(data: &[u8]) {
    if let Ok(filter) = Filter::decode(data) {
        assert!(u64::from(filter.count()) * 25 <= data.len() as u64 * 8);
        filter.may_hold(&[7; 16]);
    }
    if let Ok(sealed) = split_invitations(data) {
        assert_eq!(invitation_object(sealed.as_flattened()), data);
    }
}

fn make_signer(n: u8) -> Signer {
    Signer::from_seed(&Secret::init_with(|seed| seed.fill(n)))
}

fn make_policy(service: Service) -> ServicePolicy {
    ServicePolicy {
        service,
        base_round: 1,
        base_time: Time::from_ms(1_000),
        interval_ms: 5_000,
        ask_ms: 2_000,
        lead_ms: 5_000,
        collect_ms: 4_000,
        mix_limit_ms: 20_000,
        slots: 1,
        buckets: 1,
        mode: Mode::Gauss,
        mu: 40,
        scale: 6,
        epsilon_micro: 693_147,
        delta_pico: 100_000_000,
        rounds: 240_000,
        traps: if service.has_replies() { Traps { singles: 8, pairs: 4 } } else { Traps::NONE },
    }
}

fn sign_config() -> SignedConfig {
    let server =
        |n: u8| Server { key: make_signer(n).public_key(), address: format!("m{n}.example:7000") };
    let mix = |n| MixServer { server: server(n), operator: "Ada".into() };
    let mut signed = SignedConfig::new(Config {
        network: NetworkId([1; 16]),
        seq: 0,
        prev: [0; 32],
        valid_from: Time::from_ms(1_000),
        valid_until: Time::from_ms(9_000),
        threshold: 1,
        guardians: vec![make_signer(1).public_key()],
        coordinator: server(2),
        bucket: server(3),
        mixes: (4..7).map(mix).collect(),
        users_max: 100,
        services: Service::ALL.map(make_policy).to_vec(),
    });
    signed.add_signature(SignatureSet::Own, 0, &make_signer(1));
    signed
}

/// Returns a signed config.
pub fn config_seeds() -> Vec<Vec<u8>> {
    vec![sign_config().encode()]
}

/// Returns a filter of three tokens, an empty one, and two invitations.
pub fn object_seeds() -> Vec<Vec<u8>> {
    let tokens = [[1; 16], [0x80; 16], [0xf0; 16]];
    vec![filter::encode(&tokens), filter::encode(&[]), invitation_object(&[7; 520])]
}

/// Returns every kind of frame, at two piece sizes.
pub fn frame_seeds() -> Vec<Vec<u8>> {
    let id = RoundId { service: Service::Call, round: 7 };
    let settings = Settings {
        config: [1; 32],
        id,
        collect_ms: 500,
        slots: 1,
        buckets: 1,
        policy: 1,
        keys: vec![[2; 32], [3; 32], [4; 32]],
    };
    let announcement = SignedSettings {
        settings: settings.clone(),
        signatures: vec![[5; 64]; 3],
        closes_in_ms: 9,
    };
    let items = Items { offset: 0, count: 2, bytes: vec![6; 328] };
    let manifest = Manifest { id, entries: vec![ObjectDigest::from_object(b"object")] };
    let signature = [7; 64];
    let position = 1;
    let bodies = [
        FrameBody::Settings(announcement),
        FrameBody::Submit(vec![8; 164]),
        FrameBody::Return { users: 2, replies: Vec::new() },
        FrameBody::Missed(MissedReason::Late),
        FrameBody::NewRound,
        FrameBody::RoundKey([9; 32]),
        FrameBody::Sign(settings),
        FrameBody::Signature(signature),
        FrameBody::BatchStart { count: 2, size: 164 },
        FrameBody::Onions(items.clone()),
        FrameBody::BatchEnd { count: 2 },
        FrameBody::Replies(items),
        FrameBody::RepliesEnd { count: 2 },
        FrameBody::Abort { position, reason: AbortReason::Lost, signature },
        FrameBody::Alarm { position, signature },
        FrameBody::Put { manifest: manifest.clone(), signature },
        FrameBody::Fetch { bucket: 1 },
        FrameBody::Object(Some((manifest, signature))),
        FrameBody::Object(None),
        FrameBody::Chunk { bucket: 1, offset: 0, bytes: b"object".to_vec() },
        FrameBody::Stored,
    ];
    let links = [
        Frame::Hello { version: 1, config: [0; 32] },
        Frame::Welcome { head: [1; 32], now: Time::from_ms(5) },
        Frame::FetchConfig { from: [0; 32] },
        Frame::Config { left: 0, config: sign_config().encode() },
    ];
    let frames = links.into_iter().chain(bodies.into_iter().map(|body| Frame::Round(id, body)));
    let stream: Vec<u8> = frames.flat_map(|frame| frame.encode().unwrap_or_default()).collect();
    [0, 255].map(|piece| [&[piece], stream.as_slice()].concat()).to_vec()
}
