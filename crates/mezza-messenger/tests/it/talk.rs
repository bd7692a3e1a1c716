//! What the mixnet spends on a contact that never stops talking: MSG-54.

use mezza_messenger::ContactId;
use mezza_messenger::evidence::State;
use mezza_messenger::io::Trouble;

use crate::town::{ROUND_MS, Town, cells, config};

const ANN: usize = 0;
const BEN: usize = 1;
/// Rounds of ten minutes, for which a word has somebody served.
const TEN_MINUTES: u64 = 60;

/// Two who have talked in cells, with 2,400 rounds a year: 300 of them for one contact's talk.
fn friends() -> (Town, ContactId, ContactId) {
    let mut config = config();
    for policy in &mut config.services {
        policy.rounds = 2_400;
    }
    let mut town = Town::with(config, &["ann", "ben"]);
    let (ben, ann) = (town.add(ANN, BEN, cells(1)), town.add(BEN, ANN, cells(1)));
    for (who, contact) in [(ANN, ben), (BEN, ann)] {
        let note = town.say(who, contact, "hello");
        let state = |town: &Town| town.members[who].device.note(note, town.now());
        while state(&town).expect("there").state != State::Delivered {
            town.pass(ROUND_MS);
        }
    }
    town.pass(TEN_MINUTES * ROUND_MS);
    (town, ben, ann)
}

fn spent(town: &Town) -> u64 {
    town.members[ANN].device.network(town.now()).expect("joined").rounds_used
}

fn trouble(town: &Town, ben: ContactId) -> Option<Trouble> {
    town.members[ANN].device.contact(ben).expect("there").trouble
}

fn heard(town: &Town, ben: ContactId) -> usize {
    town.members[ANN].device.thread(ben, None, 100, town.now()).len()
}

/// Ben writes and waits, `times` times.
fn talks(town: &mut Town, ann: ContactId, times: u64) {
    for _ in 0..times {
        town.say(BEN, ann, "are you there?");
        town.pass(TEN_MINUTES * ROUND_MS);
    }
}

#[test]
fn msg_54_a_contact_that_keeps_talking_has_its_part_of_the_rounds() {
    let (mut town, ben, ann) = friends();
    let (before, notes) = (spent(&town), heard(&town, ben));
    talks(&mut town, ann, 4);
    assert_eq!((heard(&town, ben), trouble(&town, ben)), (notes + 4, None));
    talks(&mut town, ann, 4);
    assert_eq!(trouble(&town, ben), Some(Trouble::Talk));
    let at_most = 300 + 2 * TEN_MINUTES;
    assert!(spent(&town) - before <= at_most, "{}", spent(&town) - before);
    // A restart forgets none of it; nobody is served for what Ben says and for his calls.
    town.crash(ANN);
    town.pass(TEN_MINUTES * ROUND_MS);
    let (quiet, kept) = (spent(&town), heard(&town, ben));
    talks(&mut town, ann, 3);
    assert_eq!((spent(&town), heard(&town, ben)), (quiet, kept));
    assert_eq!(trouble(&town, ben), Some(Trouble::Talk));
    // Ann writes to him, and hears him.
    let note = town.say(ANN, ben, "I am here");
    town.pass(TEN_MINUTES * ROUND_MS);
    let state = town.members[ANN].device.note(note, town.now()).expect("there").state;
    assert_eq!(state, State::Delivered);
    assert!(heard(&town, ben) > kept + 1, "what waited came");
}
