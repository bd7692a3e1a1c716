//! The cost of a contact in the mixnet: rounds for its talk (MSG-54), rows for its roots (MSG-53).

use mezza_core::{Time, Wiping};
use mezza_messenger::evidence::NoteState;
use mezza_messenger::io::DeliveryProblem;
use mezza_messenger::note::{Era, Item, MixnetStart, Note};
use mezza_messenger::{Command, ContactId, RecordKind};

use crate::keyed_peer::{Peer, forms};
use crate::stage::connection;
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
    let ben = town.add(ANN, BEN, cells(1));
    let ann = town.add(BEN, ANN, cells(1));
    for (who, contact) in [(ANN, ben), (BEN, ann)] {
        let note = town.say(who, contact, "hello");
        let state = |town: &Town| town.members[who].device.note(note, town.now());
        while state(&town).expect("there").state != NoteState::Delivered {
            town.pass(ROUND_MS);
        }
    }
    town.pass(TEN_MINUTES * ROUND_MS);
    (town, ben, ann)
}

fn spent(town: &Town) -> u64 {
    town.members[ANN].device.carriers().network_view(town.now()).expect("joined").rounds_used
}

fn trouble(town: &Town, ben: ContactId) -> Option<DeliveryProblem> {
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
fn msg_54_slow_a_contact_that_keeps_talking_has_its_part_of_the_rounds() {
    let (mut town, ben, ann) = friends();
    let before = spent(&town);
    let notes = heard(&town, ben);
    talks(&mut town, ann, 4);
    assert_eq!((heard(&town, ben), trouble(&town, ben)), (notes + 4, None));
    talks(&mut town, ann, 4);
    assert_eq!(trouble(&town, ben), Some(DeliveryProblem::Talk));
    let at_most = 300 + 2 * TEN_MINUTES;
    assert!(spent(&town) - before <= at_most, "{}", spent(&town) - before);
    // A restart forgets none of it: it calls Ben once, as MIX-68 says, and then nobody is served for
    // what he says and for his calls. The last of those rounds comes back a little later.
    town.crash(ANN);
    town.pass((TEN_MINUTES + 3) * ROUND_MS);
    let quiet = spent(&town);
    let kept = heard(&town, ben);
    talks(&mut town, ann, 3);
    assert_eq!((spent(&town), heard(&town, ben)), (quiet, kept));
    assert_eq!(trouble(&town, ben), Some(DeliveryProblem::Talk));
    // Ann writes to him, and hears him.
    let note = town.say(ANN, ben, "I am here");
    town.pass(TEN_MINUTES * ROUND_MS);
    let state = town.members[ANN].device.note(note, town.now()).expect("there").state;
    assert_eq!(state, NoteState::Delivered);
    assert!(heard(&town, ben) > kept + 1, "what waited came");
    // Ten minutes later it is as before, until the year is over.
    talks(&mut town, ann, 2);
    assert_eq!(trouble(&town, ben), Some(DeliveryProblem::Talk));
    let year_ms = 365 * Time::DAY_MS;
    let rest = year_ms - town.now().as_ms() % year_ms;
    town.sleep(rest - Time::DAY_MS);
    assert_eq!(trouble(&town, ben), Some(DeliveryProblem::Talk));
    town.sleep(Time::DAY_MS + 2 * Time::HOUR_MS);
    assert_eq!(trouble(&town, ben), None);
}

/// The number of the last row of the mixnet's client.
fn last_row(town: &Town) -> u64 {
    let rows = town.members[ANN].disk.keys().filter(|(kind, _)| *kind == RecordKind::NetworkRow);
    let numbers = rows.map(|(_, key)| u64::from_be_bytes(key[..].try_into().expect("8 bytes")));
    numbers.max().unwrap_or(0)
}

#[test]
fn msg_53_whoever_brings_root_upon_root_costs_a_few_snapshots() {
    let mut town = Town::new(&["ann"]);
    let victim = town.card(ANN);
    let now = town.now();
    let mut peer = Peer::new(11, &victim, &mut town.relay);
    peer.begin(&victim, &mut town.relay, now);
    let network = victim.mixnet().expect("ann's network").network;
    let card = forms(&peer.identity, 80_000, &[(2, [&network.0[..], &[3; 32]].concat())]).remove(0);
    let says = |town: &mut Town, peer: &mut Peer, items: Vec<Item>| {
        let note = Note { era: Era([3; 4]), seq: 0, sent: now, timer_s: 0, items };
        let told = peer.send(&note.encode(), &mut town.relay, now).into_iter();
        for (who, tell) in told.filter(|(who, _)| *who == ANN) {
            town.input(who, tell.into_input(connection())).expect("mail is never refused");
        }
        town.settle();
    };
    let hello = Item::Hello { slot: None, tag: Some([0; 8]), card: card.encode() };
    says(&mut town, &mut peer, vec![hello]);
    let contact = town.members[ANN].device.contacts()[0].id;
    town.command(ANN, Command::Accept { contact }).expect("a request");
    let roots = |n: u8| -> Vec<Item> {
        let meet =
            |n| MixnetStart { network, conversation: 9, call: 9, root: Some(Wiping::new([n; 32])) };
        (0..n).map(|n| Item::Meet(meet(n))).collect()
    };
    let before = last_row(&town);
    says(&mut town, &mut peer, roots(20));
    assert_eq!(last_row(&town), before + 1, "the last one counts");
    assert!(town.is_known(ANN, contact));
    for _ in 0..9 {
        says(&mut town, &mut peer, roots(1));
    }
    assert_eq!(last_row(&town), before + 4);
}
