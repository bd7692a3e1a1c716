//! Records that do not load: they are quarantined, and everything else is there.

mod sealed;
mod strangers;

use mezza_core::Time;
use mezza_messenger::evidence::NoteState;
use mezza_messenger::view::Part;
use mezza_messenger::{Command, DeviceError, LoadError, MixnetInput, PersonError, RecordKind};

use crate::model::Ask;
use crate::stage::{Disk, Stage, load_any};
use crate::town::{ROUND_MS, Town, cells};

/// Everything that a device stores once it has talked for a while: two friends, a note that waits,
/// a request, mail that does not open.
fn talked() -> Stage {
    let (mut stage, bob, alice) = Stage::friends();
    stage.say(0, bob, "how are you?");
    stage.say(1, alice, "fine");
    stage.offline(0);
    stage.say(0, bob, "waits");
    stage.online(0);
    // The relay never hears of this one, which was sealed.
    stage.parties[0].online = false;
    stage.say(0, bob, "under way");
    stage.offline(0);
    stage.say(0, bob, "waits");
    stage
}

/// The device of a party is loaded from its disk, whatever lies there.
fn reload(stage: &mut Stage, who: usize) {
    let device = load_any(&stage.parties[who].disk, stage.now, &mut stage.rng);
    stage.parties[who].device = device.expect("the identity is there");
    stage.drain(who);
}

/// Returns the part that a record of this kind belongs to in [`talked`].
fn part_of(kind: RecordKind, key: &[u8]) -> Part {
    let bob = mezza_messenger::ContactId(1);
    match kind {
        RecordKind::Contact
        | RecordKind::Session
        | RecordKind::Skipped
        | RecordKind::Seen
        | RecordKind::Owed
        | RecordKind::Renewal
        | RecordKind::RelayPeer
        | RecordKind::MixnetPeer
        | RecordKind::Quota => Part::Contact(bob),
        RecordKind::Note => Part::Notes,
        RecordKind::Parcel | RecordKind::Held => Part::Parcels,
        RecordKind::Mailbox => {
            let id = key.try_into().map_or(0, u32::from_be_bytes);
            Part::Mailbox(mezza_messenger::MailboxId(id))
        }
        _ => Part::Prekeys,
    }
}

#[test]
fn msg_42_rows_of_parts_that_this_version_has_not_stay_as_they_are() {
    let mut stage = talked();
    let own = |kind: RecordKind| ((kind, vec![0, 0, 0, 1]), vec![0xee; 40]);
    let later = [RecordKind::MeshFragment, RecordKind::MeshParcel, RecordKind::Guard];
    stage.parties[0].disk.extend(later.map(own));
    reload(&mut stage, 0);
    let aside = stage.parties[0].device.set_aside();
    assert!(
        matches!(&aside[..], [one] if one.part == Part::Other && one.records == 3),
        "{aside:?}"
    );
    // They are no part of the contact, whose number is in their keys, for a version without them.
    let bob = stage.parties[0].device.contacts()[0].id;
    stage.command(0, Command::Delete { contact: bob }).expect("possible");
    reload(&mut stage, 0);
    for (row, value) in later.map(own) {
        assert_eq!(stage.parties[0].disk.get(&row), Some(&value), "{:?}", row.0);
    }
}

#[test]
fn msg_42_slow_one_record_that_does_not_load_takes_nothing_else_with_it() {
    let stage = talked();
    let disk = stage.parties[0].disk.clone();
    let mut kinds = std::collections::BTreeSet::new();
    for ((kind, key), value) in disk.iter().filter(|((kind, _), _)| *kind != RecordKind::Profile) {
        // Every row of a kind with few rows, some of those with a hundred.
        if *kind == RecordKind::Prekey && key.first() == Some(&4) && key[1] % 16 > 0 {
            continue;
        }
        kinds.insert(*kind);
        let mut stage = talked();
        let damaged = vec![0xee; value.len()];
        stage.parties[0].disk.insert((*kind, key.clone()), damaged.clone());
        reload(&mut stage, 0);
        let aside = stage.parties[0].device.set_aside();
        let at = format!("{kind:?} {key:02x?}: {aside:?}");
        // What is published is published again, and mailboxes are counted anew, from far above.
        if [(RecordKind::Prekey, &[0][..]), (RecordKind::RelayPeer, &[])].contains(&(*kind, key)) {
            assert!(aside.is_empty(), "{at}: had again");
            continue;
        }
        assert!(aside.iter().any(|aside| aside.part == part_of(*kind, key)), "{at}");
        // Life goes on, with the contact or without it, and the record stays as it is.
        stage.online(0);
        stage.online(1);
        stage.pass(Time::HOUR_MS);
        for contact in stage.parties[0].device.contacts() {
            stage.say(0, contact.id, "still here");
        }
        stage.command(0, Command::Rotate).expect("possible");
        reload(&mut stage, 0);
        let party = &mut stage.parties[0];
        assert_eq!(party.disk.get(&(*kind, key.clone())), Some(&damaged), "{at}");
        let lost = part_of(*kind, key) == Part::Contact(mezza_messenger::ContactId(1));
        assert_eq!(party.device.contacts().len(), usize::from(!lost), "{at}");
        // A version that reads it again has everything.
        party.disk.insert((*kind, key.clone()), value.clone());
        reload(&mut stage, 0);
        let device = &stage.parties[0].device;
        assert!(device.set_aside().is_empty(), "{at}: {:?}", device.set_aside());
        assert_eq!(device.contacts().len(), 1, "{at}");
    }
    let all = [
        RecordKind::Contact,
        RecordKind::Note,
        RecordKind::Parcel,
        RecordKind::Mailbox,
        RecordKind::Session,
        RecordKind::Prekey,
    ];
    assert!(all.iter().all(|kind| kinds.contains(kind)), "{kinds:?}");
}

#[test]
fn msg_42_a_contact_is_set_aside_with_all_that_hangs_on_it() {
    let mut stage = talked();
    let disk = stage.parties[0].disk.clone();
    let bob = stage.only_contact(0);
    let key = (RecordKind::Contact, bob.0.to_be_bytes().to_vec());
    let good = stage.parties[0].disk.insert(key.clone(), disk[&key][1..].to_vec());
    reload(&mut stage, 0);
    let aside = stage.parties[0].device.set_aside();
    let [all] = aside.as_slice() else { panic!("{aside:?}") };
    let of_profile = |kind: &RecordKind| matches!(kind, RecordKind::Profile | RecordKind::Prekey);
    // The intro mailbox, and the number of the next one.
    let of_relay = 2;
    let hangs = disk.keys().filter(|(kind, _)| !of_profile(kind)).count() - of_relay;
    let notes = disk.keys().filter(|(kind, _)| *kind == RecordKind::Note).count();
    assert_eq!((all.part, all.records, all.notes), (Part::Contact(bob), hangs, notes));
    let device = &stage.parties[0].device;
    assert!(
        device.outbox(stage.now).is_empty() && device.thread(bob, None, 9, stage.now).is_empty()
    );
    // Its number is nobody else's, and nobody else gets its notes.
    let carol = stage.new_party("carol");
    let third = stage.add(0, carol);
    assert!(third > bob);
    stage.online(0);
    let note = stage.say(0, third, "hello carol");
    let last = disk.keys().rfind(|(kind, _)| *kind == RecordKind::Note).expect("a note");
    assert!(note.0.to_be_bytes().as_slice() > last.1.as_slice());
    // Once it can be read again it is there as it was.
    stage.parties[0].disk.insert(key, good.expect("it was there"));
    reload(&mut stage, 0);
    assert!(stage.parties[0].device.set_aside().is_empty());
    let texts = stage.texts(0, bob);
    assert_eq!(texts.last().map(String::as_str), Some("> waits"));
    assert_eq!(stage.texts(0, third), ["> hello carol"]);
    stage.online(1);
    stage.settle();
    let alice = stage.only_contact(1);
    assert_eq!(stage.texts(1, alice).len(), texts.len());
}

#[test]
fn msg_42_the_identity_alone_is_needed() {
    let stage = talked();
    let mut disk = stage.parties[0].disk.clone();
    let now = stage.now;
    let mut rng = stage.rng;
    let profile = (RecordKind::Profile, Vec::new());
    for value in [vec![], vec![0xee; 40]] {
        disk.insert(profile.clone(), value);
        let refused = load_any(&disk, now, &mut rng).expect_err("nobody");
        assert!(matches!(refused, LoadError::Profile(_)));
        assert!(refused.to_string().contains("identity"));
    }
    disk.remove(&profile);
    assert_eq!(load_any(&disk, now, &mut rng).err(), Some(LoadError::Empty));
    let alone = stage.parties[0].disk.iter().filter(|(row, _)| **row == profile);
    let alone: Disk = alone.map(|(row, value)| (row.clone(), value.clone())).collect();
    let device = load_any(&alone, now, &mut rng).expect("somebody");
    assert_eq!(device.own_identity().name, "alice");
}

/// The notes that party 0 puts into mailboxes by itself behind another start.
fn puts(stage: &mut Stage) -> usize {
    let before = stage.parties[0].left.len();
    stage.relay.leave(0);
    stage.parties[0].online = false;
    reload(stage, 0);
    stage.online(0);
    stage.online(1);
    stage.pass(Time::HOUR_MS);
    let left = &stage.parties[0].left[before..];
    left.iter().filter(|ask| matches!(ask, Ask::Put(..))).count()
}

#[test]
fn msg_42_what_was_in_a_parcel_that_does_not_load_is_owed_once() {
    let mut stage = talked();
    let parcel = stage.parties[0].disk.keys().find(|(kind, _)| *kind == RecordKind::Parcel);
    let parcel = parcel.expect("a parcel").clone();
    stage.parties[0].disk.insert(parcel, vec![0xee; 9]);
    assert!(puts(&mut stage) > 0);
    for _ in 0..3 {
        assert_eq!(puts(&mut stage), 0, "nothing new at a start");
    }
    // Another one is another matter.
    let other = (RecordKind::Parcel, 99_u64.to_be_bytes().to_vec());
    stage.parties[0].disk.insert(other, vec![0xee; 9]);
    assert!(puts(&mut stage) > 0);
    assert_eq!(puts(&mut stage), 0);
}

#[test]
fn msg_42_parcels_to_who_is_set_aside_concern_nobody_else() {
    let mut stage = talked();
    stage.online(1);
    let bob = stage.only_contact(0);
    let key = (RecordKind::Contact, bob.0.to_be_bytes().to_vec());
    stage.parties[0].disk.insert(key, vec![0xee; 9]);
    reload(&mut stage, 0);
    let carol = stage.new_party("carol");
    let carol = stage.add(0, carol);
    stage.online(0);
    stage.say(0, carol, "hello carol");
    assert_eq!(puts(&mut stage), 0);
}

#[test]
fn msg_42_a_number_at_the_end_of_its_range_ends_no_device() {
    let half = u32::MAX / 2;
    let rows = [RecordKind::Contact, RecordKind::Mailbox]
        .map(|kind| [half - 1, half, half + 1].map(|n| (kind, n)));
    let rows = rows.concat().into_iter().map(|(kind, n)| (kind, n.to_be_bytes().to_vec()));
    let notes =
        [0, 1, 255, 256].map(|n| (RecordKind::Note, (u64::MAX / 2 - n).to_be_bytes().to_vec()));
    for row in rows.chain(notes) {
        let mut stage = talked();
        stage.parties[0].disk.insert(row.clone(), vec![0xee; 9]);
        reload(&mut stage, 0);
        stage.online(0);
        let carol = stage.new_party("carol");
        let carol = stage.add(0, carol);
        stage.say(0, carol, "hello carol");
        let loaded = load_any(&stage.parties[0].disk, stage.now, &mut stage.rng);
        let device = loaded.unwrap_or_else(|error| panic!("{row:02x?}: {error}"));
        assert_eq!(device.contacts().len(), 2, "{row:02x?}");
    }
}

#[test]
fn msg_42_a_network_that_does_not_restore_is_set_aside() {
    let mut town = Town::new(&["ann", "ben"]);
    let ben = town.add(0, 1, cells(1));
    town.pass(ROUND_MS);
    for row in [RecordKind::Network, RecordKind::NetworkRow] {
        let mut disk = town.members[0].disk.clone();
        let row = disk.keys().find(|(kind, _)| *kind == row).expect("a network").clone();
        disk.insert(row, vec![0xee; 30]);
        let mut device = load_any(&disk, town.now(), &mut town.rng).expect("the rest");
        let aside = device.set_aside();
        let rows =
            disk.keys().filter(|(k, _)| matches!(k, RecordKind::Network | RecordKind::NetworkRow));
        assert_eq!((aside[0].part, aside[0].records), (Part::Network, rows.count()));
        assert!(
            device.carriers().network_view(town.now()).is_none() && device.contact(ben).is_some()
        );
        let link =
            mezza_messenger::carriers::mixnet::NetworkAddress { pin: [1; 32], address: "x".into() };
        let join = MixnetInput::Join(link);
        let refused =
            mezza_core::Machine::handle(&mut device, join.into(), town.now(), &mut town.rng);
        assert_eq!(refused, Err(DeviceError::Person(PersonError::SetAside)));
    }
}

/// The keys of the rows of a mixnet's client, ascending.
fn net_rows(disk: &Disk) -> Vec<(RecordKind, Vec<u8>)> {
    disk.keys().filter(|(kind, _)| *kind == RecordKind::NetworkRow).cloned().collect()
}

#[test]
fn msg_47_a_row_of_the_network_that_does_not_load_is_shown_and_the_network_goes_on() {
    let mut town = Town::new(&["ann", "ben"]);
    let ben = town.add(0, 1, cells(1));
    let ann = town.add(1, 0, cells(1));
    town.say(0, ben, "first");
    town.say(1, ann, "and back");
    town.pass(20 * ROUND_MS);
    let rows = net_rows(&town.members[0].disk);
    let row = rows.last().expect("a round is a row").clone();
    let damaged = vec![0xee; town.members[0].disk[&row].len()];
    town.members[0].disk.insert(row.clone(), damaged.clone());
    let device = load_any(&town.members[0].disk, town.now(), &mut town.rng);
    town.start(0, device.expect("the identity is there"));
    let [aside] = town.members[0].device.set_aside().try_into().expect("one line");
    assert_eq!((aside.part, aside.records, aside.bytes), (Part::NetworkRows, 1, damaged.len()));
    assert_eq!(aside.name.as_deref(), Some("m40:7000"));
    assert!(town.members[0].device.carriers().network_view(town.now()).is_some());
    // Life goes on in cells, and a snapshot takes the place of all rows but this one.
    let note = town.say(0, ben, "after it");
    town.pass(60 * ROUND_MS);
    assert_eq!(town.state(0, note), NoteState::Delivered);
    let disk = &town.members[0].disk;
    assert_eq!(disk.get(&row), Some(&damaged));
    assert_eq!(net_rows(disk).iter().filter(|other| **other <= row).count(), 1);
    assert_eq!(town.members[0].device.set_aside().len(), 1, "shown as long as it runs");
    // The next start reads what is behind the snapshot, and lets the row go.
    town.crash(0);
    town.pass(10 * ROUND_MS);
    assert_eq!(town.members[0].disk.get(&row), None);
}

#[test]
fn msg_45_mail_of_who_is_set_aside_stays_at_the_relay() {
    let mut stage = talked();
    let bob = stage.only_contact(0);
    let good = stage.parties[0].disk.clone();
    let session =
        good.keys().find(|(kind, _)| *kind == RecordKind::Session).expect("a session").clone();
    stage.parties[0].disk.insert(session.clone(), vec![0xee; 9]);
    reload(&mut stage, 0);
    assert_eq!(stage.parties[0].device.set_aside()[0].name.as_deref(), Some("bob"));
    stage.online(0);
    stage.online(1);
    let alice = stage.only_contact(1);
    stage.say(1, alice, "are you there?");
    // Bob even begins anew, by the mailbox for strangers.
    stage.command(1, Command::Reset { contact: alice }).expect("open");
    let note = stage.say(1, alice, "and now?");
    let state = stage.state(1, note);
    assert!(!matches!(state, mezza_messenger::evidence::NoteState::Delivered), "{state:?}");
    assert!(stage.parties[0].device.contacts().is_empty(), "nobody came in his place");
    stage.offline(0);
    stage.parties[0].disk.insert(session.clone(), good[&session].clone());
    reload(&mut stage, 0);
    stage.online(0);
    let texts = stage.texts(0, bob);
    assert!(
        ["are you there?", "and now?"].iter().all(|text| texts.iter().any(|t| t == text)),
        "{texts:?}"
    );
}
