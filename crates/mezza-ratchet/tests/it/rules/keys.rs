//! Keys and signatures, RATCHET-1 to 8.

use mezza_core::{
    Blake2b512, Machine, PortableBackend, PublicKey, Secret, Sha512, StaticKey, Suite,
};
use mezza_ratchet::prekeys::{Input, Output};
use mezza_ratchet::suite::B2c20;
use mezza_ratchet::{
    Bundle, BundleError, IdentityKey, KeyError, OneTimePrekey, OpenError, Padding, Prekeys,
    SealError, SuiteList, Table, xeddsa,
};
use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng;

use crate::fixture;
use crate::people::{self, START, counting_dhs, open_session, two_people};

/// p + 9: the base point, written another way.
fn not_canonical() -> [u8; 32] {
    let mut key = [0xff; 32];
    (key[0], key[31]) = (0xf6, 0x7f);
    key
}

#[test]
fn ratchet_1_a_key_that_is_not_canonical_is_refused_before_any_dh() {
    let mut above = *people::identity(1).public_key().as_bytes();
    above[31] |= 0x80;
    for key in [not_canonical(), above] {
        assert_eq!(IdentityKey::decode(&key), Err(KeyError::NotCanonical));
        assert!(
            OneTimePrekey::decode(&OneTimePrekey { id: 1, key: PublicKey(key) }.encode()).is_err()
        );

        let (mut alice, mut bob) = open_session(1);
        let mut message = alice.send(b"text");
        message[4..36].copy_from_slice(&key);
        let (opened, dhs) = counting_dhs(|| bob.receive(&message));
        assert_eq!((opened, dhs), (Err(OpenError::Malformed), 0));

        let (mut alice, mut bob) = two_people(1);
        alice.begin_with(&mut bob);
        let mut first = alice.send(b"text");
        first[36..68].copy_from_slice(&key);
        let (opened, dhs) = counting_dhs(|| bob.receive(&first));
        assert_eq!((opened, dhs), (Err(OpenError::Malformed), 0));

        let bundle = bob.server.bundle.clone();
        let one_time = Some(OneTimePrekey { id: 1, key: PublicKey(key) });
        let (begun, dhs) = counting_dhs(|| alice.begin(&bundle, one_time).map(|_| ()));
        assert_eq!((begun, dhs), (Err(BundleError::BadKey), 0));
    }
}

#[test]
fn ratchet_2_a_dh_result_of_zero_is_refused() {
    let pair = StaticKey::from_scalar::<PortableBackend>(Secret::init_with(|s| s.fill(3)));
    let low_order = [[0; 32], {
        let mut one = [0; 32];
        one[0] = 1;
        one
    }];
    for key in low_order {
        assert!(pair.diffie_hellman::<PortableBackend>(&PublicKey(key)).is_err());
        assert_eq!(IdentityKey::decode(&key), Err(KeyError::LowOrder));
        let (mut alice, mut bob) = open_session(2);
        let mut message = alice.send(b"text");
        message[4..36].copy_from_slice(&key);
        assert_eq!(bob.receive(&message), Err(OpenError::Forged));
        let bundle = bob.server.bundle.clone();
        let one_time = OneTimePrekey { id: 1, key: PublicKey(key) };
        let begun = alice.begin(&bundle, Some(one_time)).map(|_| ());
        assert_eq!(begun, Err(BundleError::BadKey));
    }
}

#[test]
fn ratchet_3_the_sign_bit_of_a_signature() {
    let q_bytes = {
        let mut q = [0_u8; 32];
        q[..16].copy_from_slice(&[
            0xed, 0xd3, 0xf5, 0x5c, 0x1a, 0x63, 0x12, 0x58, 0xd6, 0x9c, 0xf7, 0xa2, 0xde, 0xf9,
            0xde, 0x14,
        ]);
        q[31] = 0x10;
        q
    };
    let mut rng = ChaCha20Rng::seed_from_u64(3);
    for seed in 0..32 {
        let identity = people::identity(seed);
        let good = identity.sign::<Blake2b512>(&[b"text"], &mut rng);
        assert_eq!(good[63] >> 7, 0);
        assert!(xeddsa::verify::<Blake2b512>(&identity.public_key(), &[b"te", b"xt"], &good));
        assert!(xeddsa::verify_signed::<Blake2b512>(&identity.public_key(), &[b"text"], &good));
        assert!(!xeddsa::verify::<Sha512>(&identity.public_key(), &[b"text"], &good));
        let mut marked = good;
        marked[63] |= 0x80;
        assert!(!xeddsa::verify::<Blake2b512>(&identity.public_key(), &[b"text"], &marked));
        let mut above = good;
        let mut carry = 0;
        for (s, q) in above[32..].iter_mut().zip(q_bytes) {
            let sum = u16::from(*s) + u16::from(q) + carry;
            (*s, carry) = (sum as u8, sum >> 8);
        }
        assert!(!xeddsa::verify::<Blake2b512>(&identity.public_key(), &[b"text"], &above));
    }
}

/// Signal's libraries put the sign of the key into the signature instead of negating: both values
/// of the bit verify in their form, one of them in ours.
#[test]
fn ratchet_3_both_sign_bits_verify_in_the_form_of_signal() {
    let mut bits = [0, 0];
    for seed in 0..64 {
        let identity = people::identity(seed);
        let signature = signal_form(identity.pair().scalar(), b"text");
        let bit = usize::from(signature[63] >> 7);
        bits[bit] += 1;
        let key = identity.public_key();
        assert!(xeddsa::verify_signed::<Blake2b512>(&key, &[b"text"], &signature));
        assert_eq!(xeddsa::verify::<Blake2b512>(&key, &[b"text"], &signature), bit == 0);
    }
    assert!(bits[0] > 10 && bits[1] > 10, "{bits:?}");
}

fn signal_form(k: &Secret<32>, message: &[u8]) -> [u8; 64] {
    use curve25519_dalek::{EdwardsPoint, Scalar};
    use mezza_core::Hash512;

    let a = Scalar::from_bytes_mod_order(*k.expose());
    let key = EdwardsPoint::mul_base(&a).compress().to_bytes();
    let r = Scalar::from_bytes_mod_order_wide(&Blake2b512::hash(&[a.as_bytes(), message]));
    let point = EdwardsPoint::mul_base(&r).compress().to_bytes();
    let h = Scalar::from_bytes_mod_order_wide(&Blake2b512::hash(&[&point, &key, message]));
    let mut signature = [0; 64];
    signature[..32].copy_from_slice(&point);
    signature[32..].copy_from_slice((r + h * a).as_bytes());
    signature[63] |= key[31] & 0x80;
    signature
}

#[test]
fn ratchet_4_equal_randomness_gives_different_commitments() {
    let identity = people::identity(4);
    let z = Secret::init_with(|z| z.fill(9));
    let scalar = identity.pair().scalar();
    let one = xeddsa::sign::<Blake2b512>(scalar, &[b"one"], &z);
    let two = xeddsa::sign::<Blake2b512>(scalar, &[b"two"], &z);
    assert_ne!(one[..32], two[..32]);
    assert_eq!(one, xeddsa::sign::<Blake2b512>(scalar, &[b"one"], &z));
}

#[test]
fn ratchet_5_every_key_comes_from_the_caller() {
    let (mut alice, mut bob) = two_people(5);
    let bundle = bob.server.bundle.clone();
    let now = alice.now;
    let checked = Bundle::decode(&bundle)
        .and_then(|b| {
            b.check_with(
                &SuiteList::without_kem(),
                alice.talk.remote(),
                &SuiteList::without_kem(),
                now,
            )
        })
        .expect("a good bundle");
    assert!(
        bob.prekeys
            .signed_prekeys()
            .any(|(_, id, pair)| { id == checked.spk_id() && pair.public_key() == checked.spk() })
    );

    // The base key and the ratchet key on the wire are the ones handed in.
    let base = alice.fresh();
    let ratchet = alice.fresh();
    let publics = (*base.public_key(), *ratchet.public_key());
    let (session, _) =
        checked.initiate_session(&alice.identity, base, None, &mut alice.rng).expect("a session");
    let _ = alice.talk.add_session(session, now);
    let none = alice.talk.seal(b"x", &[], Padding::Blocks, None, now).map(|_| ());
    assert_eq!(none, Err(SealError::NeedEphemeral));
    let (message, _) =
        alice.talk.seal(b"x", &[], Padding::Blocks, Some(ratchet), now).expect("a message");
    assert_eq!((&message[36..68], &message[79..111]), (&publics.0.0[..], &publics.1.0[..]));

    // The machine publishes what it was given, and takes only what it asked for.
    let mut prekeys = people::offering(Prekeys::new(bob.identity.duplicate()), B2c20::ID);
    let unasked = Input::Fresh { spk: vec![bob.fresh().into_static()], opk: Vec::new() };
    assert!(prekeys.handle(unasked, START, &mut bob.rng).is_err());
    prekeys.wake(START, &mut bob.rng);
    assert!(matches!(prekeys.poll(), Some(Output::Need { spk: 1, opk: 100 })));
    let spk = bob.fresh().into_static();
    let opk = bob.fresh().into_static();
    let publics = (*spk.public_key(), *opk.public_key());
    let fresh = Input::Fresh { spk: vec![spk], opk: vec![opk] };
    prekeys.handle(fresh, START, &mut bob.rng).expect("asked for");
    let outputs: Vec<Output> = std::iter::from_fn(|| prekeys.poll()).collect();
    let [Output::Store(_), Output::Publish { bundle, one_time, replace: true }] = &outputs[..]
    else {
        panic!("{outputs:?}")
    };
    assert_eq!((&bundle[13..45], one_time[0].key), (&publics.0.0[..], publics.1));
}

#[test]
fn ratchet_6_a_new_key_is_taken_only_in_the_first_seal_of_a_turn() {
    let (mut alice, mut bob) = open_session(6);
    assert!(alice.talk.needs_ephemeral(), "a reply was opened, nothing sent since");
    let one = alice.send(b"one");
    assert!(!alice.talk.needs_ephemeral());
    // A pair that is handed in without need is not used.
    let unused = alice.fresh();
    let public = *unused.public_key();
    let (two, changes) =
        alice.talk.seal(b"two", &[], Padding::Blocks, Some(unused), alice.now).expect("two");
    alice.disk.apply(changes);
    assert_eq!(one[4..36], two[4..36]);
    assert_ne!(&two[4..36], &public.0);
    // Opening draws nothing either: Bob's side needs a key only when he seals.
    bob.receive(&two).expect("two");
    assert!(bob.talk.needs_ephemeral());
    bob.receive(&one).expect("one");
    let reply = bob.send(b"reply");
    alice.receive(&reply).expect("a reply");
    let three = alice.send(b"three");
    assert_ne!(one[4..36], three[4..36]);
}

#[test]
fn ratchet_7_the_old_scalar_is_wiped_when_a_new_key_is_accepted() {
    let (mut alice, mut bob) = open_session(7);
    let ratchet = alice.fresh();
    let scalar = ratchet.scalar().duplicate();
    let (message, changes) =
        alice.talk.seal(b"x", &[], Padding::Blocks, Some(ratchet), alice.now).expect("x");
    alice.disk.apply(changes);
    assert!(alice.disk.holds(scalar.expose(), people::is_talk));
    bob.receive(&message).expect("x");
    let reply = bob.send(b"y");
    alice.receive(&reply).expect("y");
    assert!(!alice.disk.holds(scalar.expose(), people::is_talk));
    let needle = scalar.expose();
    assert!(!alice.talk.encode().windows(32).any(|window| window == needle));
}

#[test]
fn ratchet_8_a_message_key_is_used_once_and_stored_only_when_skipped() {
    let case = mezza_testing::Case::named("ratchet", "handshake");
    let key0: [u8; 32] = case.array("message_key0");
    let (mut alices, mut bobs, mut prekeys) = fixture::alice_and_bob();
    let fresh = Some(fixture::ephemeral("rkA1"));
    let _ = alices.seal(b"hello", &[], Padding::Blocks, fresh, fixture::now()).expect("m0");
    let holds = |talk: &fixture::Talk| talk.encode().windows(32).any(|w| w == key0);
    assert!(!holds(&alices), "the sender keeps no message key");

    let bob = fixture::bob();
    let now = fixture::now();
    let mut open = |bobs: &mut fixture::Talk, name: &str| {
        bobs.open(&case.bytes(name), &[], &bob, &mut prekeys, now).map(|opened| opened.body)
    };
    open(&mut bobs, "m1").expect("m1");
    let skipped = bobs.all_rows();
    let rows = crate::people::Disk::of(skipped);
    assert!(rows.holds(&key0, |table| table == Table::Skipped));
    assert!(!rows.holds(&key0, |table| table == Table::Session));
    open(&mut bobs, "m0").expect("m0");
    assert!(!holds(&bobs), "used, so it is gone");
    assert_eq!(open(&mut bobs, "m0").map(|_| ()), Err(OpenError::Duplicate));
}
