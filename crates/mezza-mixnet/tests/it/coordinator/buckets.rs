//! Buckets behind the coordinator.

use mezza_mixnet::coordinator::Input;
use mezza_mixnet::mix::Neighbour;
use mezza_mixnet::wire::bucket::ObjectDigest;
use mezza_mixnet::wire::{Frame, FrameBody, Manifest};
use mezza_mixnet::{RoundId, Service};

use crate::city::City;
use crate::fixture::{OPEN, config, signer};

#[test]
fn buckets_are_there_when_the_round_is_returned() {
    let id = RoundId { service: Service::Call, round: 100 };
    let fetch = |bucket| Frame::Round(id, FrameBody::Fetch { bucket });
    let mut city = City::new();
    (1..=2).for_each(|client| city.send_hello(client));
    city.run_until(OPEN.plus_ms(100));
    city.send_onions(1, id, &[7; 164]);
    city.run_until(OPEN.plus_ms(4_000));
    assert_eq!(city.returned_replies(1, id), Some((1, Vec::new())));
    city.input(Input::FromClient(1, fetch(2)));
    let told = &city.told[&1];
    let [
        ..,
        Frame::Round(_, FrameBody::Object(Some((manifest, signature)))),
        Frame::Round(_, FrameBody::Chunk { bucket: 2, offset: 0, bytes }),
    ] = &told[..]
    else {
        panic!("{told:?}");
    };
    assert!(manifest.signed_by(&signer(52).public_key(), &city.net.config.hash(), signature));
    assert!(manifest.holds_object(2, bytes));
    city.input(Input::FromClient(1, fetch(3)));
    city.input(Input::FromClient(
        1,
        Frame::Round(RoundId { round: 99, ..id }, FrameBody::Fetch { bucket: 1 }),
    ));
    let absent =
        city.told[&1].iter().filter(|f| matches!(f, Frame::Round(_, FrameBody::Object(None))));
    assert_eq!(absent.count(), 2);
    // Two rounds are kept, not three.
    city.run_until(OPEN.plus_ms(14_000));
    city.input(Input::FromClient(2, fetch(1)));
    assert_eq!(city.told[&2].last(), Some(&Frame::Round(id, FrameBody::Object(None))));
}

#[test]
fn a_store_that_is_away_costs_buckets_and_no_round() {
    let id = RoundId { service: Service::Call, round: 100 };
    let mut city = City::new();
    city.send_hello(1);
    city.run_until(OPEN.plus_ms(100));
    city.send_onions(1, id, &[7; 164]);
    city.run_until(OPEN.plus_ms(3_999));
    let broken = |frame: Frame| match frame {
        Frame::Round(id, FrameBody::Chunk { bucket, offset, mut bytes }) => {
            bytes[0] ^= 1;
            Frame::Round(id, FrameBody::Chunk { bucket, offset, bytes })
        }
        other => other,
    };
    city.net.meddler = Some(Box::new(move |_, to, frame| {
        Some(if to == Neighbour::Store { broken(frame) } else { frame })
    }));
    city.run_until(OPEN.plus_ms(4_000));
    assert_eq!(
        city.returned_replies(1, id),
        Some((1, Vec::new())),
        "what is wrong holds nobody up"
    );
    let fetch = Frame::Round(id, FrameBody::Fetch { bucket: 1 });
    city.input(Input::FromClient(1, fetch));
    assert_eq!(city.told[&1].last(), Some(&Frame::Round(id, FrameBody::Object(None))));
}

#[test]
fn a_manifest_beyond_what_the_config_allows_is_not_taken() {
    let genesis = config(3);
    let entry = |len| ObjectDigest { len, hash: [0; 32] };
    let manifest = |service, lens: [u32; 2]| Manifest {
        id: RoundId { service, round: 100 },
        entries: lens.map(entry).into(),
    };
    // 1,000 users and 3 mixes with 3 (20 + 48) messages at most.
    let most = 260 * (1_000 + 3 * 3 * (20 + 48)) + 10;
    for (lens, expected) in
        [([4, 4], true), ([most - 4, 4], true), ([most - 3, 4], false), ([3, 4], false)]
    {
        let about = manifest(Service::Invitation, lens);
        assert_eq!(genesis.allows_manifest(&about, 1_000), expected, "{lens:?}");
        assert_eq!(genesis.allows_manifest(&about, u32::MAX), expected, "{lens:?}");
    }
    assert!(!genesis.allows_manifest(&manifest(Service::Call, [u32::MAX, u32::MAX]), 1_000));
    let one = Manifest { entries: vec![entry(4)], ..manifest(Service::Call, [4, 4]) };
    assert!(!genesis.allows_manifest(&one, 1_000), "as many buckets as the config has");
    // Of a round with 7 users there is as much as 7 can send.
    let few = 260 * (7 + 3 * 3 * (20 + 48)) + 10;
    for (lens, expected) in [([few - 4, 4], true), ([few - 3, 4], false)] {
        assert_eq!(
            genesis.allows_manifest(&manifest(Service::Invitation, lens), 7),
            expected,
            "{lens:?}"
        );
    }
}

/// The last mix signs a manifest that the config allows and that nobody's onions can fill: the round
/// ends without buckets, and nothing of them is kept.
#[test]
fn mix_65_buckets_are_no_longer_than_who_took_part_can_make_them() {
    let id = RoundId { service: Service::Invitation, round: 100 };
    let mut city = City::new();
    city.send_hello(1);
    city.run_until(OPEN.plus_ms(100));
    let last = signer(52);
    let hash = city.net.config.hash();
    let big = vec![7; 260 * 900];
    city.net.meddler = Some(Box::new(move |_, to, frame| {
        Some(match frame {
            Frame::Round(at, FrameBody::Put { mut manifest, .. })
                if to == Neighbour::Store && at == id =>
            {
                manifest.entries[0] = ObjectDigest::from_object(&big);
                let signature = manifest.sign(&last, &hash);
                Frame::Round(at, FrameBody::Put { manifest, signature })
            }
            Frame::Round(at, FrameBody::Chunk { bucket: 1, offset: 0, .. }) if at == id => {
                Frame::Round(at, FrameBody::Chunk { bucket: 1, offset: 0, bytes: big.clone() })
            }
            frame => frame,
        })
    }));
    city.run_until(OPEN.plus_ms(4_000));
    let fetch = Frame::Round(id, FrameBody::Fetch { bucket: 1 });
    city.input(Input::FromClient(1, fetch));
    assert_eq!(city.told[&1].last(), Some(&Frame::Round(id, FrameBody::Object(None))));
}
