//! Addresses: the files, rule MSG-5, any text.

use mezza_messenger::card::RelayKey;
use mezza_messenger::uri::{self, Uri, UriError};
use proptest::prelude::*;
use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng;

use crate::card::foundation;
use crate::case::{reason, walk};

fn text(case: &mezza_testing::Case) -> String {
    String::from_utf8(case.bytes("uri")).unwrap()
}

fn encode(uri: &Uri, upper: bool) -> String {
    match uri {
        Uri::Card(card) => uri::encode_card(card, upper),
        Uri::Relay { key, port, host } => uri::encode_relay(key, *port, host, upper).unwrap(),
        Uri::Block(bytes) => uri::encode_block(bytes, upper),
    }
}

#[test]
fn right_addresses_are_the_ones_of_the_files() {
    for case in walk("uris", 20).iter().filter(|case| case.text("expect") == "ok") {
        let uri = uri::decode(&text(case)).unwrap_or_else(|e| panic!("{}: {e:?}", case.name()));
        let payload = case.bytes("payload");
        match &uri {
            Uri::Card(card) => assert_eq!((card.encode(), case.text("kind")), (payload, "c1")),
            Uri::Relay { key, port, .. } => {
                assert_eq!((&key.0[..], case.text("kind")), (&payload[..32], "r1"));
                assert_eq!(port.to_be_bytes(), payload[32..34]);
            }
            Uri::Block(bytes) => assert_eq!((bytes, case.text("kind")), (&payload, "h1")),
        }
        match case.text("writes") {
            "nothing" => assert_eq!(uri::decode(&encode(&uri, true)), Ok(uri)),
            case_ => assert_eq!(encode(&uri, case_ == "upper"), text(case), "{}", case.name()),
        }
    }
}

#[test]
fn wrong_addresses_are_refused_for_their_reason() {
    for case in walk("uris", 20).iter().filter(|case| case.text("expect") != "ok") {
        let error = uri::decode(&text(case)).expect_err(case.name());
        let reason = match error {
            UriError::Card(error) => reason(error),
            error => reason(error),
        };
        assert_eq!(reason, case.text("expect"), "{}", case.name());
    }
}

/// Every single letter of a card's address mistyped as every other letter: always a typing error.
#[test]
fn msg_5_a_mistyped_letter_is_a_typing_error_and_not_a_forgery() {
    let right = uri::encode_card(&foundation(&mut ChaCha20Rng::from_seed([7; 32])), false);
    let payload_at = "mezzavoce:c1/".len();
    for at in payload_at..right.len() {
        for letter in ["a", "q", "z", "2", "7", "0"] {
            let mut wrong = right.clone();
            wrong.replace_range(at..=at, letter);
            if wrong != right {
                let error = uri::decode(&wrong).expect_err("mistyped");
                assert!(error.is_typing_error(), "{at} {letter}: {error:?}");
            }
        }
    }
}

#[test]
fn msg_5_a_wrong_signature_is_a_forgery_and_not_a_typing_error() {
    let cases = walk("uris", 20);
    let case = cases.iter().find(|case| case.name() == "wrong_forged").unwrap();
    let error = uri::decode(&text(case)).expect_err("forged");
    assert!(!error.is_typing_error());
    assert_eq!(error.to_string(), "the card is signed by nobody");
}

#[test]
fn a_relay_that_no_reader_takes_has_no_address() {
    for (port, host) in [(0, "a.b"), (1, "A.b"), (1, ""), (1, "[::1]")] {
        assert_eq!(uri::encode_relay(&RelayKey([1; 32]), port, host, false), Err(UriError::Relay));
    }
}

proptest! {
    #[test]
    fn what_is_written_is_read(
        key: [u8; 32], port in 1u16.., host in "[a-z]{1,9}(\\.[a-z]{2,5}){0,3}", upper: bool,
        gap in 0usize..40,
    ) {
        let key = RelayKey(key);
        let mut text = uri::encode_relay(&key, port, &host, upper).unwrap();
        text.insert_str(gap, " \n ");
        prop_assert_eq!(uri::decode(&text), Ok(Uri::Relay { key, port, host }));
    }

    #[test]
    fn any_text_is_refused(text in "\\PC{0,80}", letters in "[a-zA-Z2-7/ é]{0,200}") {
        prop_assert!(uri::decode(&text).is_err());
        for kind in ["c1", "r1"] {
            let text = format!("mezzavoce:{kind}/{letters}");
            prop_assert!(uri::decode(&text).is_err());
        }
    }
}

/// A card block has a kind of its own, and nobody takes it for a card or a relay.
#[test]
fn a_card_block_goes_there_and_back() {
    let bytes: Vec<u8> = (0..630_u32).map(|i| i as u8).collect();
    for upper in [true, false] {
        let text = uri::encode_block(&bytes, upper);
        assert!(text.to_ascii_lowercase().starts_with("mezzavoce:h1/"));
        assert_eq!(uri::decode(&text), Ok(Uri::Block(bytes.clone())));
    }
    let as_card = uri::encode_block(&bytes, false).replacen("h1", "c1", 1);
    assert_eq!(uri::decode(&as_card), Err(UriError::Check));
}
