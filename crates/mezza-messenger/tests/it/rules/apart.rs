//! Two whose chains in the mixnet are not the same, since one vault is an older copy (MSG-129, MSG-130).

use mezza_messenger::evidence::NoteState;
use mezza_messenger::io::DeliveryProblem;
use mezza_messenger::policy::{Fallback, Policy};
use mezza_messenger::{CarrierId, Command, ContactId, NoteId};

use crate::town::{ROUND_MS, Town, cells};

const ANN: usize = 0;
const BEN: usize = 1;
/// Rounds of ten minutes, and of so long that a round of calls is in it.
const IN_VAIN: u32 = 60;
const SHORT: u32 = 18;

/// The mixnet first, else the relay.
pub fn both() -> Policy {
    let carriers = vec![CarrierId::MIXNET, CarrierId::RELAY];
    Policy { carriers, fallback: Fallback::Listed, ..Policy::default() }
}

/// Ann and Ben under this policy, who have written to each other.
fn met(policy: &Policy) -> (Town, [ContactId; 2]) {
    let mut town = Town::new(&["ann", "ben"]);
    let contacts = [town.add(ANN, BEN, policy.clone()), town.add(BEN, ANN, policy.clone())];
    for who in [ANN, BEN] {
        let note = town.say(who, contacts[who], "hello");
        arrives(&mut town, who, note, IN_VAIN);
        town.pass(20 * ROUND_MS);
    }
    (town, contacts)
}

/// Returns the rounds until the receipt of a note is here.
fn arrives(town: &mut Town, who: usize, note: NoteId, rounds: u32) -> u32 {
    for round in 0..rounds {
        if town.state(who, note) == NoteState::Delivered {
            return round;
        }
        town.pass(ROUND_MS);
    }
    panic!("it does not come: {:?}", town.state(who, note));
}

fn both_write(town: &mut Town, contacts: [ContactId; 2], rounds: u32) {
    let notes = [ANN, BEN].map(|who| town.say(who, contacts[who], "and now?"));
    for who in [ANN, BEN] {
        arrives(town, who, notes[who], rounds);
    }
}

/// By which carrier a note left last.
fn carrier(town: &Town, who: usize, note: NoteId) -> Option<CarrierId> {
    town.members[who].device.note(note, town.now()).expect("there").carrier
}

/// Ann begins a session, and with it other chains, of which a copy of Ben's vault knows nothing that is put
/// back then.
fn part(town: &mut Town, contacts: [ContactId; 2]) {
    let copy = town.members[BEN].disk.clone();
    town.command(ANN, Command::Reset { contact: contacts[ANN] }).expect("open");
    for _ in 0..3 {
        both_write(town, contacts, 2 * IN_VAIN);
    }
    town.pass(70 * ROUND_MS);
    town.put_back(BEN, copy);
    town.pass(2 * ROUND_MS);
}

#[test]
fn msg_129_two_cards_of_both_carriers_meet() {
    let (mut town, contacts) = met(&both());
    let note = town.say(ANN, contacts[ANN], "in cells?");
    arrives(&mut town, ANN, note, SHORT);
    assert_eq!(carrier(&town, ANN, note), Some(CarrierId::MIXNET));
}

#[test]
fn msg_129_who_begins_anew_by_the_relay_is_answered_there() {
    let (mut town, contacts) = met(&both());
    town.command(BEN, Command::Restored).expect("always");
    both_write(&mut town, contacts, SHORT);
    town.pass(u64::from(SHORT) * ROUND_MS);
    // A fresh root was said meanwhile.
    let note = town.say(ANN, contacts[ANN], "in cells again?");
    arrives(&mut town, ANN, note, SHORT);
    assert_eq!(carrier(&town, ANN, note), Some(CarrierId::MIXNET));
}

#[test]
fn msg_129_slow_what_waits_in_vain_goes_by_the_next_carrier() {
    let (mut town, contacts) = met(&both());
    part(&mut town, contacts);
    let note = town.say(ANN, contacts[ANN], "where are you?");
    let rounds = arrives(&mut town, ANN, note, 2 * IN_VAIN);
    assert!(rounds >= IN_VAIN - 1, "the contact may be away: {rounds}");
    assert_eq!(carrier(&town, ANN, note), Some(CarrierId::RELAY));
    both_write(&mut town, contacts, SHORT);
    town.pass(u64::from(SHORT) * ROUND_MS);
    let note = town.say(BEN, contacts[BEN], "in cells again?");
    arrives(&mut town, BEN, note, IN_VAIN);
    assert_eq!(carrier(&town, BEN, note), Some(CarrierId::MIXNET));
}

/// A contact that is away is no reason to lower anything: no other carrier fits.
#[test]
fn msg_129_slow_what_waits_in_vain_goes_by_no_carrier_that_may_not() {
    let (mut town, contacts) = met(&both());
    let policy = Policy { fallback: Fallback::None, ..both() };
    town.command(ANN, Command::Policy { contact: contacts[ANN], policy }).expect("sound");
    town.set_online(BEN, false);
    let note = town.say(ANN, contacts[ANN], "only in cells");
    let asked = town.members[ANN].asked.len();
    town.pass(2 * u64::from(IN_VAIN) * ROUND_MS);
    assert_eq!(town.members[ANN].asked.len(), asked, "nothing goes by the relay");
    town.set_online(BEN, true);
    arrives(&mut town, ANN, note, IN_VAIN);
}

#[test]
fn msg_130_slow_in_cells_alone_a_contact_says_what_to_do() {
    let (mut town, contacts) = met(&cells(1));
    part(&mut town, contacts);
    let note = town.say(ANN, contacts[ANN], "where are you?");
    let trouble =
        |town: &Town| town.members[ANN].device.contact(contacts[ANN]).expect("there").trouble;
    town.pass((u64::from(IN_VAIN) + 2) * ROUND_MS);
    assert_eq!(trouble(&town), Some(DeliveryProblem::Absent));
    town.command(ANN, Command::Reset { contact: contacts[ANN] }).expect("as is said");
    arrives(&mut town, ANN, note, IN_VAIN);
    assert_eq!(trouble(&town), None);
    // Numbers of the later life are used again, which is found out and mended once in ten minutes (MSG-91).
    both_write(&mut town, contacts, 4 * IN_VAIN);
}

/// The chains are the same, and the numbers of pieces in them are those of a later life.
#[test]
fn msg_131_slow_a_stream_that_another_life_went_on_in_begins_anew() {
    let (mut town, contacts) = met(&cells(1));
    let copy = town.members[BEN].disk.clone();
    for _ in 0..3 {
        both_write(&mut town, contacts, IN_VAIN);
    }
    town.pass(4 * ROUND_MS);
    town.put_back(BEN, copy);
    both_write(&mut town, contacts, 2 * IN_VAIN);
}
