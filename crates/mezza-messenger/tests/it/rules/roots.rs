//! The side that sets the start of the chains of two people, and its time; the people who are invited.

use mezza_core::{Time, Wiping};
use mezza_messenger::card::RelayEntry;
use mezza_messenger::evidence::{NoteState, WaitReason};
use mezza_messenger::note::{Era, Item, MixnetStart, Note};
use mezza_messenger::policy::{Fallback, Policy};
use mezza_messenger::view::ContactState;
use mezza_messenger::{CarrierId, Command, ContactId, RecordKind};
use mezza_mixnet::config::NetworkId;

use crate::keyed_peer::{Peer, forms, relay_part};
use crate::model::Ask;
use crate::stage::{connection, relay};
use crate::town::{ROUND_MS, Town, cells};

const ANN: usize = 0;

/// Somebody with all keys whose card names a relay and a network.
struct Guest {
    peer: Peer,
    card: Vec<u8>,
    contact: ContactId,
    now: Time,
}

impl Guest {
    /// Ann has their card.
    fn held(town: &mut Town, network: NetworkId) -> Self {
        let victim = town.card(ANN);
        let now = town.now();
        let mut peer = Peer::new(11, &victim, &mut town.relay);
        peer.publish(None, now, &mut town.relay);
        let place = RelayEntry { address: peer.intro, ..relay() };
        let mixnet = [&network.0[..], &[3; 32]].concat();
        let parts = [(1, relay_part(&place)), (2, mixnet)];
        let forms = forms(&peer.identity, 80_000, &parts);
        let card = forms[0].encode();
        for card in forms {
            let add = Command::Add { card, petname: None, in_person: false };
            town.command(ANN, add).expect("a good card");
        }
        let contact = town.members[ANN].device.contacts()[0].id;
        Self { peer, card, contact, now }
    }

    /// They read what Ann has sent; how much that was.
    fn reads(&mut self, town: &mut Town) -> usize {
        self.peer.read(&mut town.relay, self.now)
    }

    fn says(&mut self, town: &mut Town, items: Vec<Item>) {
        let note = Note { era: Era([3; 4]), seq: 0, sent: self.now, timer_s: 0, items };
        let told = self.peer.send(&note.encode(), &mut town.relay, self.now).into_iter();
        for (who, tell) in told.filter(|(who, _)| *who == ANN) {
            town.input(who, tell.into_input(connection())).expect("mail is never refused");
        }
        town.settle();
    }
}

fn network(town: &Town) -> NetworkId {
    town.card(ANN).mixnet().expect("ann's network").network
}

/// The number of the last row of Ann's client: each root makes one.
fn last_row(town: &Town) -> u64 {
    let rows = town.members[ANN].disk.keys().filter(|(kind, _)| *kind == RecordKind::NetworkRow);
    let numbers = rows.map(|(_, key)| u64::from_be_bytes(key[..].try_into().expect("8 bytes")));
    numbers.max().unwrap_or(0)
}

/// Ann wrote first, and was answered.
fn answered(town: &mut Town) -> Guest {
    let network = network(town);
    let mut guest = Guest::held(town, network);
    town.say(ANN, guest.contact, "hello");
    assert!(guest.reads(town) > 0);
    assert!(!town.is_known(ANN, guest.contact), "nobody has answered yet");
    let slot = Some(guest.peer.slot.clone());
    let hello = Item::Hello { slot, tag: None, card: guest.card.clone() };
    guest.says(town, vec![hello]);
    assert_eq!(
        town.members[ANN].device.contact(guest.contact).expect("there").standing,
        ContactState::Open
    );
    guest
}

#[test]
fn who_did_not_begin_the_session_brings_no_root() {
    let mut town = Town::new(&["ann"]);
    let mut guest = answered(&mut town);
    assert!(guest.reads(&mut town) > 0);
    assert!(town.is_known(ANN, guest.contact), "ann began it, and says where the chains begin");
    let before = last_row(&town);
    let root = Some(Wiping::new([7; 32]));
    let meet = MixnetStart { network: network(&town), conversation: 9, call: 9, root };
    guest.says(&mut town, vec![Item::Meet(meet)]);
    assert_eq!(last_row(&town), before, "two who are both responders never meet");
}

#[test]
fn where_chains_begin_is_not_said_in_a_session_that_nobody_has_answered() {
    let mut town = Town::new(&["ann"]);
    let mut guest = answered(&mut town);
    guest.reads(&mut town);
    let before = last_row(&town);
    town.command(ANN, Command::Reset { contact: guest.contact }).expect("open");
    assert!(guest.reads(&mut town) > 0, "a new session began");
    assert_eq!(last_row(&town), before, "it may never be one");
    guest.says(&mut town, vec![]);
    assert_eq!(last_row(&town), before + 1);
}

#[test]
fn msg_153_nobody_is_invited_who_is_in_another_network_and_a_newer_card_is_needed() {
    let mut town = Town::new(&["ann"]);
    let guest = Guest::held(&mut town, NetworkId([0xbb; 16]));
    let contact = guest.contact;
    town.command(ANN, Command::Policy { contact, policy: cells(1) }).expect("sound");
    let note = town.say(ANN, contact, "where are you?");
    town.pass(6 * ROUND_MS);
    assert_eq!(town.state(ANN, note), NoteState::Queued(WaitReason::NewCard));
    let ann = &town.members[ANN];
    assert!(ann.asked.iter().all(|ask| !matches!(ask, Ask::Get(..))), "no bundle is wanted");
    assert!(ann.invitations.iter().all(|bucket| *bucket == 0));
    // By the relay nothing keeps it.
    let carriers = vec![CarrierId::MIXNET, CarrierId::RELAY];
    let policy = Policy { carriers, fallback: Fallback::Listed, ..Policy::default() };
    town.command(ANN, Command::Policy { contact, policy }).expect("sound");
    town.pass(ROUND_MS);
    assert_eq!(town.state(ANN, note), NoteState::Handed(CarrierId::RELAY));
}
