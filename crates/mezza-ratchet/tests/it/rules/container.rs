//! The container, RATCHET-30 to 33.

use std::collections::BTreeSet;

use mezza_ratchet::wire::{self, ContainerFormat, Wire};
use mezza_ratchet::{Bundle, OneTimePrekey, OpenError, Padding, SealError, SuiteList};

use crate::fixture;
use crate::people::{Person, open_session, two_people};

/// From one state, twice: what would come out after a backup was put back.
#[test]
fn ratchet_30_a_repeated_state_reveals_only_that_bodies_were_equal() {
    let (alice, _) = {
        let (mut alice, bob) = open_session(30);
        alice.send(b"the chain has begun");
        (alice, bob)
    };
    let seal = |body: &[u8], outer: &[u8], padding| {
        let mut again = alice.stolen();
        again.seal(body, outer, padding).expect("a message")
    };
    let nonce = |message: &[u8]| message[42..58].to_vec();
    let cases: [(&[u8], &[u8], Padding); 7] = [
        (b"", b"", Padding::Blocks),
        (b"a", b"", Padding::Blocks),
        (b"b", b"", Padding::Blocks),
        (b"a", b"outer", Padding::Blocks),
        (b"ra", b"oute", Padding::Blocks),
        (b"a", b"", Padding::To(233)),
        (b"a\x80", b"", Padding::Blocks),
    ];
    let messages: Vec<_> = cases.iter().map(|(b, o, p)| seal(b, o, *p)).collect();
    let nonces: BTreeSet<_> = messages.iter().map(|m| nonce(m)).collect();
    assert_eq!(nonces.len(), cases.len());
    for ((body, outer, padding), message) in cases.iter().zip(&messages) {
        assert_eq!(&seal(body, outer, *padding), message, "equal inputs give equal bytes");
    }
    // The keystream differs with the nonce: no XOR of two texts is seen.
    let text = |m: &[u8]| m[58..74].to_vec();
    assert_ne!(text(&messages[1]), text(&messages[2]));
}

#[test]
fn ratchet_31_padding_hides_the_length_exactly_as_asked() {
    let (mut alice, mut bob) = open_session(31);
    for len in [0, 1, 158, 159, 160, 161, 319, 320, 2_000] {
        let body = vec![7; len];
        let message = alice.send(&body);
        assert_eq!(message.len(), 74 + (len + 1).div_ceil(160) * 160);
        assert_eq!(Some(message.len()), alice.talk.message_bytes(len));
        assert_eq!(bob.receive(&message), Ok(body));
    }
    for (len, total) in [(0, 75), (125, 200), (54, 222), (54, 1_000)] {
        let body = vec![8; len];
        let message = alice.seal(&body, &[], Padding::To(total)).expect("it fits");
        assert_eq!(message.len(), total);
        assert_eq!(bob.receive(&message), Ok(body));
    }
    for (len, total) in [(0, 74), (0, 0), (126, 200), (1, 75)] {
        let refused = alice.seal(&vec![8; len], &[], Padding::To(total));
        assert_eq!(refused, Err(SealError::TooLong));
    }
    // A first message with a `meet` of 54 bytes fits a mixnet invitation of 208.
    let (mut alice, mut bob) = two_people(31);
    alice.begin_with(&mut bob);
    let message = alice.seal(&[1; 54], &[], Padding::To(208)).expect("it fits");
    assert_eq!((message.len(), bob.receive(&message)), (208, Ok(vec![1; 54])));
    let first = alice.send(b"hello");
    assert_eq!((first.len(), alice.talk.message_bytes(5)), (149 + 160, Some(309)));
    // Padding that no sender makes is refused inside an authentic message: vectors
    // message-no-padding, -padding-only-zeros, -padding-mark-81, -text-empty.
}

#[test]
fn ratchet_32_every_byte_is_authenticated() {
    let (mut alice, mut bob) = two_people(32);
    alice.begin_with(&mut bob);
    let outer = [5; 32];
    let first = alice.seal(b"hello", &outer, Padding::Blocks).expect("a first message");
    every_flip_is_refused(&mut bob, &first, &outer);
    for other in [&outer[..31], &[], &[4; 32], &[5; 33]] {
        assert_eq!(bob.open(&first, other).map(|_| ()), Err(OpenError::Forged));
    }
    bob.open(&first, &outer).expect("hello");
    let reply = bob.seal(b"yes", &outer, Padding::Blocks).expect("a reply");
    every_flip_is_refused(&mut alice, &reply, &outer);
    alice.open(&reply, &outer).expect("yes");

    // The identities are authenticated: the same message under another identity does not open.
    let (mut carol, mut dave) = two_people(32);
    carol.begin_with(&mut dave);
    let message = carol.send(b"x");
    let stranger = crate::people::identity(999);
    let mut wrong = dave.stolen();
    wrong.talk = crate::people::Talk::new(dave.identity.public_key(), stranger.public_key());
    wrong.check_disk();
    assert_eq!(wrong.receive(&message), Err(OpenError::Forged));
    assert_eq!(dave.receive(&message), Ok(b"x".to_vec()));
}

fn every_flip_is_refused(person: &mut Person, message: &[u8], outer: &[u8]) {
    for at in 0..message.len() {
        let mut changed = message.to_vec();
        changed[at] ^= 1 << (at % 8);
        assert!(person.open(&changed, outer).is_err(), "byte {at}");
    }
}

#[test]
fn ratchet_33_formats_are_exact() {
    let list = SuiteList::our_suites();
    assert_eq!(SuiteList::decode(&list.encode()), Ok(list));
    let key = fixture::one_time();
    assert_eq!(OneTimePrekey::decode(&key.encode()), Ok(key));
    let bundle = fixture::bundle_bytes();
    let (mut alice, mut bob) = two_people(33);
    alice.begin_with(&mut bob);
    let first = alice.send(b"hello");
    assert_eq!(wire::first_identity(&first), Some(alice.identity.public_key()));
    assert_eq!(wire::first_identity(&first[..116]), None, "the whole head must be there");
    assert_eq!(bundle.len(), 113);

    let mut long = [bundle.clone(), key.encode().to_vec(), list.encode()];
    for (i, bytes) in long.iter_mut().enumerate() {
        bytes.push(0);
        let refused = [
            Bundle::decode(bytes).is_err(),
            OneTimePrekey::decode(bytes).is_err(),
            SuiteList::decode(bytes).is_err(),
        ];
        assert!(refused[i], "a trailing byte");
    }
    for cut in 0..bundle.len() {
        assert!(Bundle::decode(&bundle[..cut]).is_err());
    }
    // A head says the same after it was decoded and written again.
    let envelope = ContainerFormat::decode(&first).expect("a message");
    let prefix = ContainerFormat::encode_prefix(&envelope.first.expect("a first message"));
    let again = [&prefix, &envelope.inner.head[4..], &envelope.inner.sealed].concat();
    assert_eq!(again, first);
}
