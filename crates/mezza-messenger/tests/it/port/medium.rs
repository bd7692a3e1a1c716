//! State that a carrier may have: rows, a part of the card, a reason, a medium that keeps and loses
//! what it took.

use mezza_messenger::card::CardForm;
use mezza_messenger::evidence::NoteState;
use mezza_messenger::policy::Fallback;
use mezza_messenger::{RecordKind, io::ParcelId};

use super::toy::KEEPS_MS;
use super::*;

fn by_toy(carriers: &[CarrierId]) -> Policy {
    Policy { carriers: carriers.into(), fallback: Fallback::Listed, ..Policy::default() }
}

/// Friends who talk by the toy.
fn by_the_toy() -> Pair {
    let mut pair = Pair::friends();
    (0..2).for_each(|who| pair.goes_by(who, by_toy(&[TOY])));
    pair
}

fn taken(pair: &Pair, who: usize) -> Option<u32> {
    pair.devices[who].carriers().toy.taken.values().next().copied()
}

#[test]
fn a_row_of_a_carrier_is_there_after_a_start_and_goes_with_its_contact() {
    let mut pair = by_the_toy();
    pair.say(0, 3, "one");
    assert_eq!(taken(&pair, 0), Some(1));
    pair.restart(0);
    assert_eq!(taken(&pair, 0), Some(1), "and nothing is quarantined");
    assert!(pair.devices[0].set_aside().is_empty());
    pair.say(0, 4, "two");
    assert_eq!(taken(&pair, 0), Some(2));
    let contact = pair.contact(0);
    pair.command(0, Command::Delete { contact });
    assert_eq!((taken(&pair, 0), pair.rows(0, RecordKind::LinkPeer)), (None, 0));
}

#[test]
fn a_carrier_hears_that_its_rows_are_durable() {
    let mut pair = by_the_toy();
    pair.say(0, 3, "one");
    pair.say(0, 4, "two");
    assert_eq!((pair.knobs[0].durable.get(), pair.knobs[1].durable.get()), (2, 2));
}

#[test]
fn a_part_of_a_carrier_goes_onto_the_card_and_off_it() {
    let mut pair = Pair::friends();
    let part = |pair: &Pair| {
        let card = pair.devices[0].card(CardForm::Full).expect("a card");
        card.part(4).map(<[u8]>::to_vec)
    };
    assert_eq!(part(&pair), None);
    pair.knobs[0].on_card.set(true);
    pair.says(0, News::CardPart);
    assert_eq!(part(&pair), Some(b"where the toy is".to_vec()));
    pair.knobs[0].on_card.set(false);
    pair.says(0, News::CardPart);
    assert_eq!(part(&pair), None);
}

#[test]
fn a_carrier_says_why_it_is_not_up() {
    let pair = by_the_toy();
    pair.knobs[0].waits.set(Some(WaitReason::Slow));
    let mut of_toy = pair.devices[0].estimate_carriers(pair.contact(0), 100, START).into_iter();
    let toy = of_toy.rfind(|estimate| estimate.carrier == TOY).expect("asked");
    assert_eq!(toy.up, Err(WaitReason::Slow));
}

#[test]
fn msg_102_what_is_bound_to_another_medium_does_not_open() {
    let mut pair = by_the_toy();
    pair.knobs[0].waits.set(Some(WaitReason::Slow));
    pair.say(0, 3, "bound to the medium");
    pair.knobs[0].waits.set(None);
    pair.devices[0].wake(START, &mut pair.rng);
    while let Some(output) = pair.devices[0].poll() {
        if let Output::Carrier(FiveOutput::Toy(parcel)) = output {
            pair.toys.push_back((1, parcel));
        }
    }
    let (_, parcel) = pair.toys.pop_front().expect("it left");
    let from = pair.contact(1);
    let before = pair.devices[1].reject_counts().messages;
    let other = b"of somebody else".to_vec();
    pair.input(1, Input::Carrier(FiveInput::Toy(from, parcel.clone(), other)));
    assert_eq!(pair.devices[1].reject_counts().messages, before + 1);
    assert_eq!(pair.rows(1, RecordKind::Held), 1, "it may be a session in trouble");
    // What is longer than any message is bound to is not kept, as it would not load again.
    pair.input(1, Input::Carrier(FiveInput::Toy(from, parcel.clone(), vec![7; 65])));
    assert_eq!(pair.devices[1].reject_counts().messages, before + 2);
    assert_eq!(pair.rows(1, RecordKind::Held), 1);
    pair.input(1, Input::Carrier(FiveInput::Toy(from, parcel, OUTER.into())));
    assert_eq!(pair.devices[1].reject_counts().messages, before + 2);
    let thread = pair.devices[1].thread(from, None, 9, START);
    let last = thread.last().expect("it opened");
    assert!(last.body == NoteContent::Text("bound to the medium".into()));
}

#[test]
fn msg_101_a_note_that_a_medium_lost_goes_by_the_next_carrier_under_its_number() {
    let mut pair = by_the_toy();
    pair.goes_by(0, by_toy(&[TOY, CarrierId::RELAY]));
    pair.goes_by(1, by_toy(&[TOY, CarrierId::RELAY]));
    pair.knobs[0].keeps.set(true);
    pair.say(0, 3, "carried about");
    let parcel: ParcelId = pair.devices[0].carriers().toy.kept[0];
    let note = pair.devices[0].find_sent(&[3; 16]).expect("accepted");
    let state = |pair: &Pair| pair.devices[0].note(note, START).expect("there").state;
    for (others, shown) in [(2, 2), (5, 5), (4, 5)] {
        pair.says(0, News::Carried { parcel, others });
        assert_eq!(state(&pair), NoteState::Carried(shown));
    }
    let facts = pair.devices[0].note(note, START).expect("there").facts;
    assert_eq!(facts.len(), 1, "of how many announce it there is one fact");
    // The hour of the medium is over.
    let before = pair.puts.len();
    let notes = pair.devices[1].thread(pair.contact(1), None, 9, START);
    pair.devices[0].wake(START.plus_ms(KEEPS_MS), &mut pair.rng);
    pair.settle();
    assert!(pair.puts.len() > before, "it leaves by the relay");
    assert_eq!(state(&pair), NoteState::Delivered);
    let after = pair.devices[1].thread(pair.contact(1), None, 9, START);
    assert_eq!(after.len(), notes.len() + 1);
    assert_eq!(after.last().expect("it came").carrier, Some(CarrierId::RELAY));
}
