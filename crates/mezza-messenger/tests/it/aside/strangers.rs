//! Messages of unknown senders, contacts and relays must meet the rules by which they are read again.

use mezza_core::PublicKey;
use mezza_messenger::card::{CARD_BYTES_MAX, Card};
use mezza_messenger::io::DeliveryProblem;
use mezza_messenger::{Command, RecordKind};
use mezza_ratchet::{BundleError, OneTimePrekey};

use crate::keyed_peer;
use crate::stage::{Stage, load};
use crate::town::{ROUND_MS, Town, cells};

/// One card in forms with one of its parts each, of these kinds and sizes.
fn forms(parts: &[(u8, usize)]) -> Vec<Card> {
    let parts: Vec<_> = parts.iter().map(|(kind, len)| (*kind, vec![*kind; *len])).collect();
    keyed_peer::forms(&keyed_peer::identity(11), 70_000, &parts)
}

#[test]
fn msg_44_forms_unite_to_a_card() {
    let united = |forms: &[Card]| {
        let mut stage = Stage::new(&["victim"]);
        for card in forms {
            let add = Command::Add { card: card.clone(), petname: None, in_person: false };
            stage.command(0, add).expect("a good card");
            stage.restart(0);
        }
        stage.parties[0].device.contacts()[0].absent_parts.clone()
    };
    let fat = forms(&[(4, 700), (5, 700)]);
    assert_eq!(united(&fat), [5], "the lower kind stays");
    let [four, five] = fat.as_slice() else { unreachable!() };
    assert_eq!(united(&[five.clone(), four.clone()]), [5]);
    let slim = forms(&[(3, 200), (4, 200), (5, 200)]);
    assert!(united(&slim).is_empty(), "what fits is united");
    let bytes = slim[0].with_parts_of(&slim[1]).with_parts_of(&slim[2]).encode().len();
    assert!(bytes > 600 && bytes <= CARD_BYTES_MAX);
    assert!(four.with_parts_of(five).encode().len() <= CARD_BYTES_MAX);
}

#[test]
fn msg_44_a_card_that_was_united_without_a_bound_loads() {
    let mut stage = Stage::new(&["victim"]);
    let fat = forms(&[(4, 700), (5, 700)]);
    let add = Command::Add { card: fat[0].clone(), petname: None, in_person: false };
    stage.command(0, add).expect("a good card");
    // The record as it was written before: version, stage, blocked, then the card behind its length.
    let row = (RecordKind::Contact, 1_u32.to_be_bytes().to_vec());
    let good = stage.parties[0].disk[&row].clone();
    let card = fat[0].encode();
    let both = [card.as_slice(), &[5; 700]].concat();
    assert_eq!(good[5..5 + card.len()], card);
    let rest = &good[5 + card.len()..];
    let long = [&good[..3], &(both.len() as u16).to_be_bytes(), &both, rest].concat();
    stage.parties[0].disk.insert(row.clone(), long);
    stage.restart(0);
    assert_eq!(stage.parties[0].device.contacts()[0].absent_parts, [5]);
    assert_eq!(stage.parties[0].disk[&row], good, "and is stored anew");
}

#[test]
fn msg_43_a_relays_one_time_key_is_held_to_its_readers_rules() {
    let zero = OneTimePrekey { id: 0, key: PublicKey([9; 32]) };
    let weak = OneTimePrekey { id: 7, key: PublicKey([0; 32]) };
    let beyond = OneTimePrekey { id: 16_777_215, key: PublicKey([9; 32]) };
    for bad in [zero, weak, beyond] {
        let mut town = Town::new(&["ann", "ben"]);
        let address = town.card(1).relays()[0].address;
        let (_, keys) = town.relay.store.bundles.get_mut(&address).expect("published");
        *keys = vec![bad];
        let ben = town.add(0, 1, cells(1));
        town.pass(ROUND_MS);
        let ann = &town.members[0];
        let trouble = ann.device.contact(ben).expect("there").trouble;
        assert_eq!(trouble, Some(DeliveryProblem::Bundle(BundleError::BadKey)));
        assert!(ann.disk.keys().all(|(kind, _)| *kind != RecordKind::Bundle), "nothing is held");
        load(&ann.disk, town.now(), &mut town.rng);
    }
}
