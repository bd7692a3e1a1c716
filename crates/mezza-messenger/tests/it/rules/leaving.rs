//! A mixnet that is left, and joined again or not (MSG-97).

use mezza_core::{Machine as _, PortableBackend};
use mezza_messenger::carriers::mixnet::{MixnetInput, NetworkAddress};
use mezza_messenger::evidence::{NoteState, WaitReason};
use mezza_messenger::policy::{Fallback, Policy};
use mezza_messenger::view::Part;
use mezza_messenger::{
    CarrierId, ContactId, Device, DeviceError, NoteId, PersonError, RecordKind, Unread,
};
use mezza_mixnet::Service;
use mezza_mixnet::client::record::RoundRecord;
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::SeedableRng as _;

use crate::stage::{load_any, load_beside};
use crate::town::{Doom, ROUND_MS, Town, cells};

/// Cells first, and the relay where there are none.
pub fn cells_first(level_min: u8) -> Policy {
    let carriers = vec![CarrierId::MIXNET, CarrierId::RELAY];
    Policy { carriers, level_min, fallback: Fallback::Listed, ..Policy::default() }
}

/// Ann and Ben met over the relay and go on like this: the town, Ben's number at Ann's and hers at his.
/// `first`: who began the session.
pub fn met(first: usize, policy: &Policy) -> (Town, ContactId, ContactId) {
    let mut town = Town::new(&["ann", "ben"]);
    let ben = town.add(0, 1, Policy::default());
    let ann = town.add(1, 0, Policy::default());
    for who in [first, 1 - first] {
        let note = town.say(who, if who == 0 { ben } else { ann }, "hello");
        delivered(&mut town, who, note);
    }
    for (who, contact) in [(0, ben), (1, ann)] {
        let policy = policy.clone();
        town.command(who, mezza_messenger::Command::Policy { contact, policy }).expect("sound");
    }
    town.pass(4 * ROUND_MS);
    for (who, contact) in [(0, ben), (1, ann)] {
        let note = town.say(who, contact, "in cells");
        assert_eq!(delivered(&mut town, who, note), Some(CarrierId::MIXNET));
    }
    (town, ben, ann)
}

/// By which carrier a note came to its reader.
pub fn delivered(town: &mut Town, who: usize, note: NoteId) -> Option<CarrierId> {
    for _ in 0..120 {
        if town.state(who, note) == NoteState::Delivered {
            return town.members[who].device.note(note, town.now()).expect("there").carrier;
        }
        town.pass(ROUND_MS);
    }
    panic!("it does not come: {:?}", town.state(who, note));
}

fn leave(town: &mut Town, who: usize) {
    town.command(who, MixnetInput::Leave).expect("it is in a network");
}

fn away(town: &mut Town, who: usize) {
    town.members[who].net = false;
    town.hang_up(who);
    town.pass(2 * ROUND_MS);
}

/// Returns the spent budget, and the last sealed round of each service.
pub fn spent(town: &Town, who: usize) -> (Vec<u64>, Vec<Option<u64>>) {
    let client = town.client(who);
    let ledger = client.ledger().expect("it has a config");
    let used = Service::ALL.iter().map(|service| ledger.used_rounds(*service)).collect();
    (used, Service::ALL.iter().map(|service| client.last_sealed(*service)).collect())
}

fn incoming(town: &Town, who: usize, contact: ContactId, text: &str) -> usize {
    town.texts(who, contact).iter().filter(|its| *its == text).count()
}

#[test]
fn msg_97_what_waits_goes_by_the_next_carrier_that_the_level_allows() {
    let (mut town, ben, ann) = met(0, &cells_first(1));
    away(&mut town, 1);
    let note = town.say(0, ben, "while you are away");
    town.pass(2 * ROUND_MS);
    assert!(!matches!(town.state(0, note), NoteState::Delivered));
    let said = town.members[0].device.preview_leaving(CarrierId::MIXNET, town.now());
    assert_eq!((said.elsewhere, said.waiting, said.unreachable), (1, 0, vec![]));
    leave(&mut town, 0);
    assert_eq!(delivered(&mut town, 0, note), Some(CarrierId::RELAY));
    town.members[1].net = true;
    town.pass(40 * ROUND_MS);
    assert_eq!(incoming(&town, 1, ann, "while you are away"), 1, "and once");
}

#[test]
fn msg_97_what_no_other_carrier_may_take_waits_and_says_why() {
    // The relay is on the list, and below the level; or it is not on the list.
    let raised = |town: &mut Town, ben, policy| {
        town.command(0, mezza_messenger::Command::Policy { contact: ben, policy }).expect("sound");
    };
    for (policy, why) in [(cells_first(2), WaitReason::BelowPin), (cells(1), WaitReason::NoCarrier)]
    {
        let (mut town, ben, ann) = met(0, &cells_first(1));
        away(&mut town, 1);
        raised(&mut town, ben, policy);
        let note = town.say(0, ben, "for cells alone");
        town.pass(2 * ROUND_MS);
        let said = town.members[0].device.preview_leaving(CarrierId::MIXNET, town.now());
        assert_eq!((said.elsewhere, said.waiting, said.unreachable), (0, 1, vec![ben]), "{why:?}");
        leave(&mut town, 0);
        town.members[1].net = true;
        town.pass(40 * ROUND_MS);
        assert!(matches!(town.state(0, note), NoteState::Queued(_)), "{:?}", town.state(0, note));
        assert_eq!(incoming(&town, 1, ann, "for cells alone"), 0);
        // Its level and list are as they were, and it goes once they allow it.
        raised(&mut town, ben, Policy { level_min: 1, ..Policy::default() });
        town.pass(ROUND_MS);
        let level_min = town.members[0].device.note(note, town.now()).expect("there").level_min;
        assert_eq!(town.state(0, note) == NoteState::Delivered, level_min == 1, "{why:?}");
    }
}

#[test]
fn msg_97_joining_again_goes_on_with_what_was_spent_and_sealed() {
    let (mut town, ben, _) = met(0, &cells_first(1));
    let before = spent(&town, 0);
    assert!(before.0[0] > 0 && before.1.iter().all(Option::is_some), "{before:?}");
    leave(&mut town, 0);
    assert!(town.members[0].device.carriers().network_view(town.now()).is_none());
    let rows = |kind| town.members[0].disk.keys().filter(|(its, _)| *its == kind).count();
    let rows = [RecordKind::Network, RecordKind::NetworkRow, RecordKind::LeftNetwork].map(rows);
    assert_eq!(rows, [0, 0, 1]);
    let refused = town.command(0, MixnetInput::Leave);
    assert_eq!(refused, Err(DeviceError::Person(PersonError::NoNetwork)));
    town.crash(0);
    town.join(0).expect("it was left");
    assert_eq!(spent(&town, 0), before);
    let view = town.members[0].device.carriers().network_view(town.now()).expect("joined");
    assert_eq!(view.rounds_used, before.0[0]);
    // A member asserts of each record that its round was not sealed before; and life goes on.
    town.crash(0);
    assert_eq!(spent(&town, 0), before);
    town.pass(10 * ROUND_MS);
    let note = town.say(0, ben, "back again");
    delivered(&mut town, 0, note);
    let after = spent(&town, 0);
    assert!(after.0[0] >= before.0[0] && after.1[0] > before.1[0], "{before:?} {after:?}");
}

#[test]
fn msg_97_an_entry_that_shows_old_rounds_after_a_return_gets_none_of_them() {
    let (mut town, _, _) = met(0, &cells_first(1));
    let last = spent(&town, 0).1[0].expect("rounds were sealed");
    leave(&mut town, 0);
    // The network's clock, and with it its rounds, are those of a minute ago.
    town.city.net.now = town.now().minus_ms(6 * ROUND_MS);
    town.join(0).expect("it was left");
    town.pass(5 * ROUND_MS);
    let rows = town.members[0].disk.iter().filter(|((kind, _), _)| *kind == RecordKind::NetworkRow);
    let rounds = rows.filter_map(|(_, row)| RoundRecord::decode(row).ok()).map(|row| row.id);
    let old: Vec<_> =
        rounds.filter(|id| id.service == Service::Conversation && id.round <= last).collect();
    assert_eq!(old, []);
}

#[test]
fn msg_97_a_crash_between_any_two_commits_forgets_nothing_that_was_spent() {
    for late in [false, true] {
        for at in 1..=2 {
            let (mut town, _, _) = met(0, &cells_first(1));
            let before = spent(&town, 0);
            let dies = |town: &mut Town| {
                let batches = town.members[0].batches.len() as u32;
                town.members[0].doom = Some(Doom(batches + at, late));
            };
            dies(&mut town);
            let _ = town.command(0, MixnetInput::Leave);
            town.members[0].doom = None;
            if town.members[0].device.carriers().network_view(town.now()).is_some() {
                assert!(spent(&town, 0) >= before);
                leave(&mut town, 0);
            }
            dies(&mut town);
            let _ = town.join(0);
            town.members[0].doom = None;
            if town.members[0].device.carriers().network_view(town.now()).is_none() {
                town.join(0).expect("it was left");
            }
            assert_eq!(spent(&town, 0), before, "{late} {at}");
        }
    }
}

#[test]
fn msg_97_another_network_can_be_joined_after_leaving() {
    let (mut town, _, _) = met(0, &cells_first(1));
    let before = spent(&town, 0);
    leave(&mut town, 0);
    let other = NetworkAddress { pin: [9; 32], address: "elsewhere:7000".into() };
    town.members[0].net = false;
    town.command(0, MixnetInput::Join(other)).expect("a network can be joined");
    let view = town.members[0].device.carriers().network_view(town.now()).expect("joined");
    assert_eq!((view.link.address.as_str(), view.rounds_used), ("elsewhere:7000", 0));
    assert_eq!(town.join(0), Err(DeviceError::Person(PersonError::Joined)));
    town.crash(0);
    leave(&mut town, 0);
    town.members[0].net = true;
    town.join(0).expect("it was left");
    assert_eq!(spent(&town, 0), before);
}

#[test]
fn msg_97_whoever_was_left_behind_is_reached_again_after_a_return() {
    for first in [0, 1] {
        let (mut town, ben, ann) = met(first, &cells_first(1));
        let card = town.card(0);
        let dialling = card.mixnet().expect("joined").dialling;
        leave(&mut town, 0);
        town.pass(ROUND_MS);
        assert!(town.card(0).mixnet().is_none() && town.card(0).serial() > card.serial());
        assert!(!town.is_known(1, ann), "Ben knows from her card");
        for (who, contact) in [(1, ann), (0, ben)] {
            let note = town.say(who, contact, "by the relay");
            assert_eq!(delivered(&mut town, who, note), Some(CarrierId::RELAY), "{first} {who}");
        }
        town.join(0).expect("it was left");
        town.pass(6 * ROUND_MS);
        assert_ne!(town.card(0).mixnet().expect("joined").dialling, dialling);
        for (who, contact) in [(1, ann), (0, ben)] {
            let note = town.say(who, contact, "in cells again");
            assert_eq!(delivered(&mut town, who, note), Some(CarrierId::MIXNET), "{first} {who}");
        }
    }
}

#[test]
fn msg_97_what_was_on_its_way_to_whoever_left_goes_another_way() {
    let (mut town, ben, ann) = met(0, &cells_first(1));
    away(&mut town, 0);
    let note = town.say(1, ann, "are you there?");
    town.pass(3 * ROUND_MS);
    assert!(!matches!(town.state(1, note), NoteState::Delivered));
    leave(&mut town, 0);
    assert_eq!(delivered(&mut town, 1, note), Some(CarrierId::RELAY));
    assert_eq!(incoming(&town, 0, ben, "are you there?"), 1);
}

#[test]
fn msg_97_invitations_go_with_the_network() {
    let mut town = Town::new(&["ann", "ben"]);
    let ann = town.add(1, 0, cells(1));
    let note = town.say(1, ann, "guess who");
    town.pass(8 * ROUND_MS);
    assert_eq!(town.members[0].device.inviters().len(), 1);
    assert_eq!(town.members[0].device.preview_leaving(CarrierId::MIXNET, town.now()).guests, 1);
    leave(&mut town, 0);
    assert!(town.members[0].device.inviters().is_empty());
    town.crash(0);
    // Ben's invitation goes again, to a dialling key that is gone; with the new card he gets through.
    town.join(0).expect("it was left");
    town.pass(4 * ROUND_MS);
    assert!(matches!(town.state(1, note), NoteState::Queued(_)));
}

#[test]
fn msg_97_rows_that_were_not_read_go_with_the_network_and_stay_charged() {
    let (mut town, _, _) = met(0, &cells_first(1));
    let before = spent(&town, 0);
    let row = town.members[0].disk.keys().rfind(|(kind, _)| *kind == RecordKind::NetworkRow);
    let row = row.expect("a round is a row").clone();
    let damaged = vec![0xee; town.members[0].disk[&row].len()];
    town.members[0].disk.insert(row, damaged);
    let device = load_any(&town.members[0].disk, town.now(), &mut town.rng);
    town.start(0, device.expect("the identity is there"));
    assert_eq!(town.members[0].device.set_aside()[0].part, Part::NetworkRows);
    leave(&mut town, 0);
    assert!(town.members[0].device.set_aside().is_empty());
    town.crash(0);
    town.join(0).expect("it was left");
    let charged = spent(&town, 0).0;
    assert!(charged[0] >= before.0[0], "{charged:?} {before:?}");
    town.pass(6 * ROUND_MS);
    town.crash(0);
}

#[test]
fn msg_97_what_is_remembered_and_does_not_load_keeps_that_network_from_being_joined() {
    let (mut town, _, _) = met(0, &cells_first(1));
    leave(&mut town, 0);
    let row = town.members[0].disk.keys().find(|(kind, _)| *kind == RecordKind::LeftNetwork);
    let row = row.expect("it was left").clone();
    let mut disk = town.members[0].disk.clone();
    disk.insert(row.clone(), vec![0xee; 90]);
    let now = town.now();
    let rng = &mut town.rng;
    let mut dice = ChaCha20Rng::seed_from_u64(1);
    let mut join = |device: &mut Device<PortableBackend>, link: NetworkAddress| {
        device.handle(MixnetInput::Join(link).into(), now, &mut dice)
    };
    let mut device = load_any(&disk, now, rng).expect("the identity is there");
    assert_eq!(device.set_aside()[0].part, Part::LeftNetworks);
    let same = NetworkAddress { pin: row.1[..].try_into().expect("a hash"), address: "x:1".into() };
    assert_eq!(join(&mut device, same), Err(DeviceError::Person(PersonError::SetAside)));
    let other = NetworkAddress { pin: [9; 32], address: "elsewhere:7000".into() };
    assert_eq!(join(&mut device, other.clone()), Ok(()), "of that one nothing was lost");
    // A row that the vault cannot open may be of any network.
    disk.remove(&row);
    let unread = [Unread { kind: Some(RecordKind::LeftNetwork), bytes: 400 }];
    let mut device = load_beside(&disk, &unread, now, rng).expect("the rest");
    assert_eq!(join(&mut device, other), Err(DeviceError::Person(PersonError::SetAside)));
}

#[test]
fn msg_97_a_network_that_does_not_load_is_not_left() {
    let (mut town, _, _) = met(0, &cells_first(1));
    let mut disk = town.members[0].disk.clone();
    disk.insert((RecordKind::Network, Vec::new()), vec![0xee; 30]);
    let mut device = load_any(&disk, town.now(), &mut town.rng).expect("the rest");
    let leave = MixnetInput::Leave.into();
    let refused = device.handle(leave, town.now(), &mut town.rng);
    assert_eq!(
        refused,
        Err(DeviceError::Person(PersonError::SetAside)),
        "what was spent in it would be forgotten"
    );
}
