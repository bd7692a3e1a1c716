//! Suites, RATCHET-40 to 45.

use mezza_core::{DecodeError, Suite as _, SuiteId};
use mezza_ratchet::suite::B2c20Pq;
use mezza_ratchet::{Bundle, BundleError, OpenError, SuiteList};

use crate::people::{START, open_session, two_people, two_people_of};

fn ids(ids: &[u16]) -> Vec<SuiteId> {
    ids.iter().copied().map(SuiteId).collect()
}

#[test]
fn ratchet_40_lists_that_are_malformed() {
    let cases: [(&[u16], bool); 9] = [
        (&[], false),
        (&[0x0101], true),
        (&[0x0104, 0x0103, 0x0102, 0x0101], true),
        (&[0x0105, 0x0104, 0x0103, 0x0102, 0x0101], false),
        (&[0x0101, 0x0102], false),
        (&[0x0101, 0x0101], false),
        (&[0x0101, 0x0003], false),
        (&[0x7f04, 0x0101], false),
        (&[0x0201], false),
    ];
    for (suites, good) in cases {
        assert_eq!(SuiteList::new(&ids(suites)).is_ok(), good, "{suites:04x?}");
        let mut bytes = vec![suites.len() as u8];
        bytes.extend(suites.iter().flat_map(|id| id.to_be_bytes()));
        assert_eq!(SuiteList::decode(&bytes).is_ok(), good, "{suites:04x?}");
    }
    assert_eq!(SuiteList::decode(&[]), Err(DecodeError::Truncated));
    // Unknown ids of the range are kept, and ignored by the choice.
    let strange = SuiteList::new(&ids(&[0x01fe, 0x0101])).expect("a list");
    assert_eq!(strange.ids().len(), 2);
    assert_eq!(strange.best_common(&SuiteList::without_kem()), Some(SuiteId(0x0101)));
}

#[test]
fn ratchet_41_the_choice_is_the_highest_common_id() {
    let sets: [&[u16]; 5] =
        [&[0x0101], &[0x0102], &[0x0102, 0x0101], &[0x0104, 0x0102], &[0x0104, 0x0103, 0x0101]];
    for a in sets {
        for b in sets {
            let list_a = SuiteList::new(&ids(a)).expect("a list");
            let list_b = SuiteList::new(&ids(b)).expect("a list");
            let highest = a.iter().filter(|id| b.contains(id)).max().copied().map(SuiteId);
            assert_eq!(list_a.best_common(&list_b), highest);
            assert_eq!(list_b.best_common(&list_a), highest, "both sides compute the same");
        }
    }
}

#[test]
fn ratchet_42_a_bundle_below_the_card_is_a_downgrade() {
    let (alice, bob) = two_people(42);
    let floor = SuiteList::new(&ids(&[0x0102, 0x0101])).expect("a list");
    let bundle = Bundle::decode(&bob.server.bundle).expect("a bundle");
    let refused = bundle
        .check_with(&SuiteList::without_kem(), alice.talk.remote(), &floor, START)
        .map(|_| ());
    let offered = SuiteList::without_kem();
    assert_eq!(refused, Err(BundleError::SuiteDowngrade { offered, pinned: floor }));
    let text = BundleError::SuiteDowngrade { offered, pinned: floor }.to_string();
    assert_eq!(text, "the bundle offers 0x0101, the card lists 0x0102 0x0101");
}

/// In the paper, an app with exchanged primitives and one without fail in the key exchange with
/// "invalid signature", the words of an attack. Here the suites differ first.
#[test]
fn ratchet_44_different_suites_never_look_like_a_forged_signature() {
    let (mut alice, mut bob) = two_people(44);
    // A responder with another suite only: the initiator has none in common.
    let other = SuiteList::new(&ids(&[0x0104])).expect("a list");
    let bundle = [&[1][..], &other.encode(), &[1, 1, 4, 0, 3], b"???"].concat();
    let decoded = Bundle::decode(&bundle).expect("a bundle of the future");
    let refused = decoded
        .check_with(&SuiteList::without_kem(), alice.talk.remote(), &other, START)
        .map(|_| ());
    let ours = SuiteList::without_kem();
    assert_eq!(refused, Err(BundleError::NoCommonSuite { offered: other, ours }));
    // The same with our list on the card.
    let decoded = Bundle::decode(&bundle).expect("a bundle of the future");
    let refused = decoded
        .check_with(&SuiteList::without_kem(), alice.talk.remote(), &ours, START)
        .map(|_| ());
    assert_eq!(refused, Err(BundleError::SuiteDowngrade { offered: other, pinned: ours }));
    // A bundle of the paper's suite or of Signal cannot even be written.
    for id in [0x7f04_u16, 0x0003] {
        let list = [&[1][..], &id.to_be_bytes()].concat();
        let bundle = [&[1][..], &list, &[1], &id.to_be_bytes(), &[0, 0]].concat();
        assert_eq!(Bundle::decode(&bundle).map(|_| ()), Err(BundleError::Malformed));
    }
    // First messages of other suites.
    alice.begin_with(&mut bob);
    let message = alice.send(b"x");
    for suite in [0x0104_u16, 0x7f04] {
        let strange = [&message[..2], &suite.to_be_bytes(), &message[4..]].concat();
        assert_eq!(bob.receive(&strange), Err(OpenError::SuiteUnsupported(SuiteId(suite))));
    }
    // What the patched app sent begins as a message of Signal does.
    assert_eq!(bob.receive(&[0x33, 8, 1]), Err(OpenError::SuiteUnsupported(SuiteId(3))));
    assert_eq!(bob.receive(&[0x44, 8, 1]), Err(OpenError::SuiteUnsupported(SuiteId(4))));
}

#[test]
fn ratchet_45_a_message_of_another_suite_than_its_session() {
    let (mut alice, mut bob) = open_session(45);
    let message = alice.send(b"x");
    let session = SuiteId(0x0101);
    for suite in [0x0102_u16, 0x7f04] {
        let strange = [&message[..2], &suite.to_be_bytes(), &message[4..]].concat();
        let mismatch = OpenError::SuiteMismatch { session, message: SuiteId(suite) };
        assert_eq!(bob.receive(&strange), Err(mismatch));
    }
    let signal = [&[0x33], &message[1..]].concat();
    let mismatch = OpenError::SuiteMismatch { session, message: SuiteId(3) };
    assert_eq!(bob.receive(&signal), Err(mismatch));
    // A first message begins a session of its own, whatever is open.
    let first = [&[message[0], 2], &[0x01, 0x04][..], &message[4..]].concat();
    assert_eq!(bob.receive(&first), Err(OpenError::SuiteUnsupported(SuiteId(0x0104))));
    assert_eq!(bob.receive(&message), Ok(b"x".to_vec()));
}

/// The KEM key is named beside the signed prekey: a message for another one is not tried.
#[test]
fn a_first_message_for_another_kem_key_is_refused_by_its_id() {
    let (mut alice, mut bob) = two_people_of(B2c20Pq::ID, 46);
    alice.begin_without(&bob, None);
    let message = alice.send(b"x");
    // Claim, two keys, two ids, the list of two suites.
    let at = 4 + 2 * 32 + 2 * 4 + 1 + 2 * 2;
    let id = u32::from_be_bytes(message[at..at + 4].try_into().expect("4 bytes"));
    let strange = [&message[..at], &(id ^ 1).to_be_bytes(), &message[at + 4..]].concat();
    assert_eq!(bob.receive(&strange), Err(OpenError::UnknownPrekey(id ^ 1)));
    assert_eq!(bob.receive(&message), Ok(b"x".to_vec()));
}
