//! Cards: the files, the rules MSG-1 to MSG-4, sizes, merging, any bytes.

use mezza_core::{CryptoRng, PortableBackend, Secret, StaticKey, SuiteId};
use mezza_messenger::card::{
    CARD_BYTES_MAX, Card, CardDraft, CardError, CardForm, OFFLINE_PART, RelayEntry, RelayKey,
};
use mezza_messenger::relay_wire::MailboxAddress;
use mezza_ratchet::{IdentityKeyPair, SuiteList};
use proptest::prelude::*;
use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng;

use mezza_testing::{Case, Given, unhex};

use crate::case::{reason, walk};

fn identity(scalar: [u8; 32]) -> IdentityKeyPair {
    IdentityKeyPair::new(StaticKey::from_scalar::<PortableBackend>(Secret::copy_from(&scalar)))
}

pub fn relay(n: u8, host: &str) -> RelayEntry {
    RelayEntry {
        key: RelayKey([n; 32]),
        address: MailboxAddress([0xa0 + n; 16]),
        port: 7101,
        host: host.into(),
    }
}

fn draft(name: &str, relays: Vec<RelayEntry>) -> CardDraft<'_> {
    CardDraft {
        serial: 5_318_400,
        issued_days: 20_775,
        suites: SuiteList::our_suites(),
        name,
        relays,
    }
}

fn rng() -> ChaCha20Rng {
    ChaCha20Rng::from_seed([7; 32])
}

fn issue(further: Vec<(u8, Vec<u8>)>, relays: Vec<RelayEntry>) -> Result<Card, CardError> {
    Card::issue_with(&identity([1; 32]), draft("Alice", relays), further, &mut rng())
}

pub fn foundation(rng: &mut dyn CryptoRng) -> Card {
    let relays = vec![relay(1, "relay-one.example.or")];
    Card::issue(&identity([1; 32]), draft("Alice", relays), rng).unwrap()
}

/// A card with every part that the format knows, of the sizes they will have.
fn full(relays: Vec<RelayEntry>, mixnet_bytes: usize) -> Result<Card, CardError> {
    issue(vec![(2, vec![2; mixnet_bytes]), (OFFLINE_PART, vec![3; 630])], relays)
}

/// The parts of a right case: kind, whether it is here, bytes.
fn parts(case: &Case) -> Vec<(u8, bool, Vec<u8>)> {
    let part = |text: &str| {
        let fields: Vec<_> = text.split(' ').collect();
        (fields[0].parse().unwrap(), fields[1] == "here", unhex(fields[2]))
    };
    case.texts("part").map(part).collect()
}

/// The right cases again, signed here with the same generator.
fn derive(case: &Case) -> Vec<u8> {
    let parts = parts(case);
    let relays = parts.iter().filter(|part| part.0 == 1).flat_map(|part| {
        let mut reader = mezza_core::Reader::new(&part.2[1..]);
        let read = || RelayEntry::read(&mut reader).unwrap();
        std::iter::repeat_with(read).take(part.2[0].into()).collect::<Vec<_>>()
    });
    let name = String::from_utf8(case.bytes("name")).unwrap();
    let suites = case.bytes("suites");
    let suites: Vec<_> =
        suites.chunks(2).map(|id| SuiteId(u16::from_be_bytes([id[0], id[1]]))).collect();
    let draft = CardDraft {
        serial: case.parse_value("serial"),
        issued_days: case.parse_value("issued"),
        suites: SuiteList::new(&suites).unwrap(),
        name: &name,
        relays: relays.collect(),
    };
    let further = parts.iter().filter(|part| part.0 > 1).map(|part| (part.0, part.2.clone()));
    let identity = identity(case.array("identity"));
    let mut z = Given(case.bytes("z"));
    let card = Card::issue_with(&identity, draft, further.collect(), &mut z).unwrap();
    let whole = card.encode();
    let parts_bytes: usize = parts.iter().map(|part| part.2.len()).sum();
    let mut bytes = whole[..whole.len() - parts_bytes].to_vec();
    parts.iter().filter(|part| part.1).for_each(|part| bytes.extend_from_slice(&part.2));
    bytes
}

#[test]
fn right_cards_are_the_ones_of_the_files() {
    let cases = walk("cards", 60);
    let right: Vec<_> = cases.iter().filter(|case| case.text("expect") == "ok").collect();
    assert!(right.len() >= 11);
    for case in right {
        let bytes = case.bytes("card");
        assert_eq!(derive(case), bytes, "{}", case.name());
        assert_eq!(bytes.len(), case.parse_value::<usize>("bytes"), "{}", case.name());
        let card = Card::decode(&bytes).unwrap();
        assert_eq!(card.id(), case.array("id"), "{}", case.name());
        assert_eq!(card.serial(), case.parse_value::<u32>("serial"));
        assert_eq!(card.issued_days(), case.parse_value::<u32>("issued"));
        assert_eq!(card.name().as_bytes(), case.bytes("name"));
        let absent: Vec<_> = parts(case).iter().filter(|p| !p.1).map(|p| p.0).collect();
        assert_eq!(card.absent_parts(), absent, "{}", case.name());
        for (kind, here, part) in parts(case) {
            assert_eq!(card.part(kind), here.then_some(&part[..]), "{}", case.name());
        }
    }
}

#[test]
fn msg_1_wrong_cards_are_refused_for_their_reason() {
    for case in walk("cards", 60).iter().filter(|case| case.text("expect") != "ok") {
        let error = Card::decode(&case.bytes("card")).expect_err(case.name());
        assert_eq!(reason(error), case.text("expect"), "{}", case.name());
    }
}

#[test]
fn msg_1_no_bit_of_a_card_can_be_changed() {
    let bytes = foundation(&mut rng()).encode();
    for bit in 0..bytes.len() * 8 {
        let mut other = bytes.clone();
        other[bit / 8] ^= 1 << (bit % 8);
        assert!(Card::decode(&other).is_err(), "bit {bit}");
    }
    for cut in 0..bytes.len() {
        // Without its only part a card is whole again.
        assert_eq!(Card::decode(&bytes[..cut]).is_ok(), cut == bytes.len() - 72, "{cut}");
    }
}

#[test]
fn msg_1_a_card_that_no_reader_takes_is_not_issued() {
    let refused = |name, relays| {
        Card::issue(&identity([1; 32]), draft(name, relays), &mut rng()).expect_err("refused")
    };
    assert_eq!(refused("a\u{202e}b", vec![]), CardError::Name);
    assert_eq!(refused("Alice", vec![relay(1, "Relay")]), CardError::Relays);
    assert_eq!(refused("Alice", vec![relay(1, "a.b"); 4]), CardError::Relays);
    let long =
        relay(1, &["a".repeat(62), "b".repeat(62), "c".repeat(62), "d".repeat(62)].join("."));
    let bytes = 137 + 1 + 3 * (51 + 251);
    assert_eq!(refused("Alice", vec![long.clone(); 3]).to_string(), too_big(bytes).to_string());
    assert_eq!(issue(vec![(1, vec![0])], vec![long]), Err(CardError::Parts));
    assert_eq!(issue(vec![(4, vec![])], vec![]), Err(CardError::Parts));
    assert_eq!(issue((2..9).map(|kind| (kind, vec![0])).collect(), vec![]), Err(CardError::Parts));
}

fn too_big(bytes: usize) -> CardError {
    CardError::TooBig { bytes }
}

#[test]
fn msg_2_encoding_a_decoded_card_gives_the_same_bytes() {
    for case in walk("cards", 60).iter().filter(|case| case.text("expect") == "ok") {
        let bytes = case.bytes("card");
        assert_eq!(Card::decode(&bytes).unwrap().encode(), bytes, "{}", case.name());
    }
}

#[test]
fn msg_3_every_choice_of_parts_verifies() {
    let parts: Vec<(u8, Vec<u8>)> = (2..6).map(|kind| (kind, vec![kind; 40])).collect();
    let whole = issue(parts.clone(), vec![relay(1, "a.b")]).unwrap();
    let bytes = whole.encode();
    let (head, mut all) = bytes.split_at(bytes.len() - 55 - 160);
    let mut pieces = vec![all.split_off(..55).unwrap()];
    pieces.extend(all.chunks(40));
    for choice in 0u32..1 << pieces.len() {
        let here = |i: usize| choice >> i & 1 == 1;
        let mut some = head.to_vec();
        (0..5).filter(|i| here(*i)).for_each(|i| some.extend_from_slice(pieces[i]));
        let card = Card::decode(&some).unwrap();
        let absent: Vec<u8> = (0..5).filter(|i| !here(*i)).map(|i| i as u8 + 1).collect();
        assert_eq!(card.absent_parts(), absent);
        assert_eq!(card.relays().is_empty(), !here(0));
        assert_eq!((card.id(), card.encode()), (whole.id(), some));
        assert_eq!(card.with_parts_of(&whole), whole);
    }
}

#[test]
fn msg_4_a_poster_has_512_bytes_at_most_or_names_what_to_leave_out() {
    // Head and signature with three parts: 42 + 5 + 6 + 1 + 57 + 64 = 175 bytes, relay part 72.
    let relay_one = || vec![relay(1, "relay-one.example.or")];
    let fits = full(relay_one(), 512 - 175 - 72).unwrap_err();
    assert_eq!(fits, CardError::TooBig { bytes: 512 + 630 }, "the whole is too big, then");
    let card = |mixnet| issue(vec![(2, vec![2; mixnet]), (3, vec![3; 300])], relay_one()).unwrap();
    let poster = card(265).to_form(CardForm::Poster).unwrap();
    assert_eq!((poster.encode().len(), poster.absent_parts()), (512, vec![OFFLINE_PART]));
    let refused = card(266).to_form(CardForm::Poster);
    assert_eq!(refused, Err(CardError::LeaveOut { part: 2, bytes: 513 }));
}

#[test]
fn forms_have_the_sizes_of_the_specification() {
    let relays = || vec![relay(1, "relay-one.example.or")];
    let of = |card: &Card, form| card.to_form(form).unwrap().encode().len();
    let card = full(relays(), 48).unwrap();
    assert_eq!(of(&card, CardForm::Poster), 295);
    assert_eq!(of(&card, CardForm::Offline), 805);
    assert_eq!(of(&card, CardForm::Full), 925);
    let foundation = foundation(&mut rng());
    assert_eq!(of(&foundation, CardForm::Full), 209);
    assert_eq!(of(&foundation, CardForm::Poster), 209);
    assert_eq!(foundation.to_form(CardForm::Offline), Err(CardError::NoOfflinePart));
    let poster = card.to_form(CardForm::Poster).unwrap();
    assert_eq!(
        poster.to_form(CardForm::Offline),
        Err(CardError::NoOfflinePart),
        "listed, not here"
    );
    for form in [CardForm::Full, CardForm::Poster, CardForm::Offline] {
        let shown = card.to_form(form).unwrap();
        assert_eq!(Card::decode(&shown.encode()), Ok(shown));
    }
}

#[test]
fn msg_153_a_part_that_is_listed_and_left_out_is_not_lacking() {
    let card = full(vec![relay(1, "relay-one.example.or")], 48).unwrap();
    let poster = card.to_form(CardForm::Poster).unwrap();
    assert!(poster.part(OFFLINE_PART).is_none() && !poster.lacks_part(OFFLINE_PART));
    let offline = card.to_form(CardForm::Offline).unwrap();
    assert!(offline.relays().is_empty() && !offline.lacks_part(1));
    assert!(card.has_address() && card.lacks_part(4));
    assert!(!issue(vec![], vec![]).unwrap().has_address());
}

#[test]
fn the_full_form_holds_one_relay_entry() {
    let two = vec![relay(1, "a.b"), relay(2, "c.d")];
    let card = issue(vec![], two.clone()).unwrap();
    let bytes = card.encode().len();
    assert_eq!(card.to_form(CardForm::Full), Err(CardError::LeaveOut { part: 1, bytes }));
    assert_eq!(card.to_form(CardForm::Poster).unwrap().relays(), &two[..]);
}

#[test]
fn parts_of_another_card_are_not_taken() {
    let relays = vec![relay(1, "relay-one.example.or")];
    let poster = full(relays.clone(), 48).unwrap().to_form(CardForm::Poster).unwrap();
    let other = full(relays, 47).unwrap();
    assert!(!poster.same_head(&other));
    assert_eq!(poster.with_parts_of(&other), poster);
}

#[test]
fn two_signatures_over_one_head_are_the_same_head() {
    let one = foundation(&mut rng());
    let two = foundation(&mut ChaCha20Rng::from_seed([8; 32]));
    assert!(one.same_head(&two));
    assert_ne!(one.id(), two.id());
    assert!(one.encode().len() <= CARD_BYTES_MAX);
}

proptest! {
    #[test]
    fn what_is_issued_is_decoded(
        scalar: [u8; 32],
        seed: [u8; 32],
        serial: u32,
        issued_days: u32,
        name in "[a-zA-Zäöü李雷 ]{0,6}",
        hosts in proptest::collection::vec("[a-z]{1,9}(\\.[a-z]{2,5}){0,2}", 0..=3),
        further in proptest::collection::btree_map(2u8.., proptest::collection::vec(any::<u8>(), 1..60), 0..5),
    ) {
        let relays: Vec<_> = hosts.iter().map(|host| relay(3, host)).collect();
        let draft = CardDraft {
            serial, issued_days, suites: SuiteList::our_suites(), name: &name, relays: relays.clone(),
        };
        let mut rng = ChaCha20Rng::from_seed(seed);
        let identity = identity(scalar);
        let card = Card::issue_with(&identity, draft, further.into_iter().collect(), &mut rng);
        let card = card.unwrap();
        prop_assert_eq!(Card::decode(&card.encode()), Ok(card.clone()));
        prop_assert_eq!(card.relays(), &relays[..]);
        prop_assert_eq!(card.ik(), &identity.public_key());
        prop_assert!(card.absent_parts().is_empty());
    }

    #[test]
    fn any_bytes_are_no_card(bytes in proptest::collection::vec(any::<u8>(), 0..1100)) {
        prop_assert!(Card::decode(&bytes).is_err());
    }

    #[test]
    fn damage_anywhere_is_no_card(at in 0usize..209, value: u8, cut in 0usize..=209) {
        let bytes = foundation(&mut rng()).encode();
        let mut other = bytes[..cut].to_vec();
        if at < cut {
            other[at] = value;
        }
        let unharmed = bytes.starts_with(&other) && (cut == 137 || cut == 209);
        prop_assert_eq!(Card::decode(&other).is_ok(), unharmed);
    }
}
