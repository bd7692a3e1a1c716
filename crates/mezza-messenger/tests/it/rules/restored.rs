//! A device that was restored from a backup, and its contact. The judge of what both show is in `judged`.

use std::collections::BTreeSet;

use mezza_core::Time;
use mezza_messenger::backup::BackupError;
use mezza_messenger::evidence::NoteState;
use mezza_messenger::note::{Inventory, Item};
use mezza_messenger::policy::Policy;
use mezza_messenger::view::{NoteContent, NoteView};
use mezza_messenger::{Command, ContactId, DeviceError, NoteId, PersonError, RecordKind};

use super::leaving::{cells_first, delivered, met, spent};
use crate::model::Ask;
use crate::peer::{Peer, note};
use crate::saved::Saved;
use crate::stage::{Disk, Stage, load};
use crate::town::ROUND_MS;

/// Makes a backup of a party.
fn save(stage: &Stage, who: usize) -> Saved {
    Saved::of_device(&stage.parties[who].device, stage.now)
}

/// The rows of a vault that is made from a backup.
fn rows(stage: &mut Stage, saved: Saved) -> Result<Disk, BackupError> {
    saved.into_disk(stage.now, &mut stage.rng)
}

/// The device of a party is lost, and another one starts from a backup. It is not online yet.
pub fn restore(stage: &mut Stage, who: usize, saved: Saved) {
    if stage.parties[who].online {
        stage.offline(who);
    }
    let disk = rows(stage, saved).expect("a device made it");
    let device = load(&disk, stage.now, &mut stage.rng);
    (stage.parties[who].device, stage.parties[who].disk) = (device, disk);
    stage.drain(who);
}

fn text(note: &NoteView) -> String {
    match &note.body {
        NoteContent::Text(text) => text.clone(),
        NoteContent::Newer => String::new(),
    }
}

/// The texts of a thread, of one direction. None of them is there twice.
fn texts(stage: &Stage, who: usize, contact: ContactId, incoming: bool) -> BTreeSet<String> {
    let notes = stage.thread(who, contact);
    let all: Vec<String> =
        notes.iter().filter(|note| note.incoming == incoming).map(text).collect();
    let set: BTreeSet<String> = all.iter().cloned().collect();
    assert_eq!(all.len(), set.len(), "a note is there twice: {all:?}");
    set
}

#[test]
fn backup_26_only_the_user_sends_a_lost_note_again() {
    let (mut stage, bob, alice) = Stage::friends();
    let saved = save(&stage, 0);
    let lost = stage.say(1, alice, "lost");
    restore(&mut stage, 0, saved);
    stage.online(0);
    stage.pass(Time::DAY_MS);
    assert!(!texts(&stage, 0, bob, true).contains("lost"));
    let again = |stage: &mut Stage, note, client| {
        stage.command(1, Command::SendAgain { note, client: [client; 16] })
    };
    again(&mut stage, lost, 0x77).expect("it was lost");
    assert!(texts(&stage, 0, bob, true).contains("lost"));
    let view = stage.parties[1].device.note(lost, stage.now).expect("it stays");
    assert_eq!((view.mark, view.state), (None, NoteState::Delivered), "the fact stays");
    let copy = stage.parties[1].device.find_sent(&[0x77; 16]).expect("a note of its own");
    assert_eq!(stage.state(1, copy), NoteState::Delivered);
    // The same command again is the same note, and another one is refused.
    again(&mut stage, lost, 0x77).expect("done before");
    let refused = again(&mut stage, lost, 0x78);
    assert_eq!(refused, Err(DeviceError::Person(PersonError::NotNow)));
}

#[test]
fn backup_23_a_note_without_a_number_leaves_when_the_user_says_so() {
    let (mut stage, bob, alice) = Stage::friends();
    stage.offline(0);
    let yes = stage.say(0, bob, "yes");
    let no = stage.say(0, bob, "no");
    let saved = save(&stage, 0);
    restore(&mut stage, 0, saved);
    stage.online(0);
    stage.pass(Time::DAY_MS);
    stage.restart(0);
    stage.online(0);
    stage.pass(Time::DAY_MS);
    let there = texts(&stage, 1, alice, true);
    assert!(!there.contains("yes") && !there.contains("no"));
    let send = Command::SendAgain { note: yes, client: [0x55; 16] };
    stage.command(0, send).expect("it is unsure");
    stage.command(0, Command::Cancel { note: no }).expect("it waits");
    stage.pass(Time::HOUR_MS);
    assert_eq!(stage.state(0, yes), NoteState::Delivered);
    let there = texts(&stage, 1, alice, true);
    assert!(there.contains("yes") && !there.contains("no"));
    let left = stage.parties[0].device.contact(bob).expect("there").restored.expect("restored");
    assert_eq!(left.unsure, 0);
}

#[test]
fn backup_4_what_has_expired_or_was_deleted_does_not_return() {
    let (mut stage, bob, alice) = Stage::friends();
    let policy = Policy { timer_s: 300, ..Policy::default() };
    stage.command(0, Command::Policy { contact: bob, policy }).expect("a timer");
    stage.say(0, bob, "with a timer");
    stage.say(1, alice, "theirs with a timer");
    stage.command(0, Command::Policy { contact: bob, policy: Policy::default() }).expect("none");
    stage.say(1, alice, "to be deleted");
    let deleted = stage.thread(0, bob).last().expect("it came").id;
    stage.command(0, Command::Forget { note: deleted }).expect("deleted");
    stage.offline(1);
    let expires = stage.say(0, bob, "nobody fetches this");
    // The relay keeps it for thirty days.
    stage.pass(31 * Time::DAY_MS);
    assert_eq!(stage.state(0, expires), NoteState::Expired);
    let saved = save(&stage, 0);
    assert!(saved.notes.iter().all(|note| !matches!(&note.body,
        NoteContent::Text(text) if text.contains("timer") || text.contains("deleted"))));
    restore(&mut stage, 0, saved);
    stage.online(0);
    stage.online(1);
    stage.pass(Time::DAY_MS);
    let came = texts(&stage, 0, bob, true);
    assert!(
        came.iter().all(|text| !text.contains("timer") && !text.contains("deleted")),
        "{came:?}"
    );
    assert_eq!(stage.state(0, expires), NoteState::Expired);
    assert!(stage.parties[0].device.outbox(stage.now).is_empty());
    // What was deleted counts as held: nobody learns of it.
    let view = stage.parties[1].device.contact(alice).expect("there").restored;
    assert!(view.is_none_or(|view| view.lost == 0), "{view:?}");
}

#[test]
fn backup_11_the_card_is_newer_than_any_of_the_lost_device() {
    let (mut stage, _, alice) = Stage::friends();
    let saved = save(&stage, 0);
    for day in 0..3 {
        for _ in 0..20 {
            let relays = vec![crate::stage::relay()];
            let name = format!("alice {day}");
            stage.command(0, Command::Publish { name, relays }).expect("a card");
        }
        stage.pass(Time::DAY_MS);
    }
    let last = stage.card(0).serial();
    restore(&mut stage, 0, saved);
    assert!(stage.card(0).serial() > last);
    stage.online(0);
    stage.pass(Time::HOUR_MS);
    // Whoever knows the contact has the newer card, with the name of the backup.
    let claimed = stage.parties[1].device.contact(alice).expect("there").claimed;
    assert_eq!(claimed, "alice");

    // A clock that was far ahead has raised the serial above that of any later day.
    let mut saved = save(&stage, 0);
    saved.identity.serial += 1_000_000;
    let raised = saved.identity.serial;
    stage.pass(3 * Time::DAY_MS);
    restore(&mut stage, 0, saved);
    assert!(stage.card(0).serial() >= raised + 4 * 256, "four days, with that of the restore");
}

#[test]
fn backup_12_a_restore_lowers_no_level_and_lifts_no_block() {
    let (mut stage, bob, alice) = Stage::friends();
    let policy = Policy { level_min: 3, ..Policy::default() };
    stage.command(0, Command::Policy { contact: bob, policy: policy.clone() }).expect("a level");
    stage.command(0, Command::Block { contact: bob, blocked: true }).expect("a block");
    let saved = save(&stage, 0);
    let before = stage.parties[0].left.len();
    restore(&mut stage, 0, saved);
    stage.online(0);
    stage.say(1, alice, "let me in");
    stage.pass(Time::DAY_MS);
    let contact = stage.parties[0].device.contact(bob).expect("restored");
    assert_eq!(contact.policy, policy);
    assert_eq!(contact.standing, mezza_messenger::view::ContactState::Blocked);
    let puts = |ask: &&Ask| matches!(ask, Ask::Put(..));
    assert_eq!(stage.parties[0].left[before..].iter().filter(puts).count(), 0);
}

/// A contact that sends inventories of its own invention takes no fact away, and gets no more than one
/// parcel for each.
#[test]
fn backup_20_an_inventory_is_no_receipt_and_takes_no_fact_away() {
    let mut stage = Stage::new(&["alice"]);
    let (mut mallory, contact) = Peer::open(&mut stage, 11);
    let own = stage.say(0, contact, "delivered to nobody");
    let era = mallory.read(&mut stage).last().expect("a note").era;
    let said = |floor: u32, bits: &[u8]| {
        Item::Inventory(Inventory { era, floor, gaps: Vec::new(), bits: bits.to_vec() })
    };
    let put = |stage: &mut Stage, mallory: &mut Peer, items: Vec<Item>| {
        mallory.put(stage, &note(0, 0, items));
    };
    put(&mut stage, &mut mallory, vec![said(1_000, &[0xff; 128])]);
    assert!(!matches!(stage.state(0, own), NoteState::Delivered | NoteState::Read));
    put(&mut stage, &mut mallory, vec![Item::Reset(1), said(0, &[])]);
    let view = stage.parties[0].device.note(own, stage.now).expect("it is there");
    assert_eq!(view.mark, None, "it was never delivered");
    // Sixty of them are one answer a note at most, at the pace of receipts.
    let before = stage.parties[0].left.len();
    for _ in 0..60 {
        put(&mut stage, &mut mallory, vec![Item::Reset(1), said(0, &[]), said(7, &[])]);
    }
    let puts = |ask: &&Ask| matches!(ask, Ask::Put(..));
    let sent = stage.parties[0].left[before..].iter().filter(puts).count();
    assert!(sent <= 30, "{sent} parcels");
}

#[test]
fn backup_6_values_of_no_device_are_refused() {
    let (mut stage, _, _) = Stage::friends();
    let refused = |stage: &mut Stage, change: fn(&mut Saved)| {
        let mut saved = save(stage, 0);
        change(&mut saved);
        rows(stage, saved).err()
    };
    assert_eq!(refused(&mut stage, |_| {}), None);
    let contact = Some(BackupError::Contact(1));
    assert_eq!(
        refused(&mut stage, |saved| saved.contacts[0].id = ContactId(0)),
        Some(BackupError::Contact(0))
    );
    assert_eq!(refused(&mut stage, |saved| saved.contacts[0].policy.level_min = 9), contact);
    assert_eq!(refused(&mut stage, |saved| saved.contacts[0].next_seq = 0), contact);
    let wrong = refused(&mut stage, |saved| saved.contacts[0].petname = Some("a\u{202e}b".into()));
    assert_eq!(wrong, contact);
    let id = |saved: &Saved| saved.notes[0].id.0;
    let first = id(&save(&stage, 0));
    let note = Some(BackupError::Note(first));
    assert_eq!(refused(&mut stage, |saved| saved.notes[0].contact = ContactId(9)), note);
    assert_eq!(refused(&mut stage, |saved| saved.notes[0].level_min = 0), note);
    let twice = |saved: &mut Saved| saved.notes[1].id = saved.notes[0].id;
    assert_eq!(refused(&mut stage, twice), note);
    let far = refused(&mut stage, |saved| saved.notes[0].id = NoteId(u64::MAX / 2));
    assert_eq!(far, Some(BackupError::Note(u64::MAX / 2)));
    let long = |saved: &mut Saved| saved.notes[0].body = NoteContent::Text("x".repeat(8_193));
    assert_eq!(refused(&mut stage, long), note);
    let window = |saved: &mut Saved| saved.windows[0].contact = ContactId(9);
    assert_eq!(refused(&mut stage, window), Some(BackupError::Window(9)));
    let name = |saved: &mut Saved| saved.identity.name = "x".repeat(99);
    assert_eq!(refused(&mut stage, name), Some(BackupError::Identity));
}

/// Every 32 bytes that a device ever stored of sessions, prekeys, mailboxes and parcels: none of them is in
/// a backup, but for what cards show to everybody.
#[test]
fn backup_2_a_backup_holds_no_secret_but_the_identity() {
    const LIVE: [RecordKind; 7] = [
        RecordKind::Session,
        RecordKind::Skipped,
        RecordKind::Prekey,
        RecordKind::Mailbox,
        RecordKind::Parcel,
        RecordKind::Held,
        RecordKind::Bundle,
    ];
    let (mut stage, bob, alice) = Stage::friends();
    let mut secrets = BTreeSet::new();
    let mut public = Vec::new();
    let mut gather = |stage: &Stage| {
        let disk = &stage.parties[0].disk;
        for ((kind, _), row) in disk.iter().filter(|((kind, _), _)| LIVE.contains(kind)) {
            assert!(!row.is_empty(), "{kind:?}");
            secrets.extend(row.windows(32).map(<[u8]>::to_vec));
        }
        public.push(stage.card(0).encode());
        public.push(stage.card(1).encode());
    };
    gather(&stage);
    for n in 0..50 {
        if n % 10 == 3 {
            stage.offline(1);
        }
        stage.say(0, bob, &format!("note {n}"));
        gather(&stage);
        if n % 10 == 6 {
            stage.online(1);
        }
        stage.say(1, alice, &format!("answer {n}"));
        gather(&stage);
        stage.pass(Time::DAY_MS);
    }
    assert!(secrets.len() > 10_000, "{}", secrets.len());
    let Saved { identity, contacts, notes, windows, .. } = save(&stage, 0);
    let mut given = identity.scalar.expose().to_vec();
    for contact in &contacts {
        given.extend(contact.card.encode());
        given.extend(contact.own_era.0);
    }
    for relay in &identity.relays {
        given.extend(relay.key.0);
        given.extend(relay.address.0);
        given.extend(relay.host.as_bytes());
    }
    for note in &notes {
        given.extend(note.client);
        given.extend(text_of(&note.body).as_bytes());
    }
    given.extend(
        format!("{:?}", windows.iter().map(|w| w.arrived.to_ranges()).collect::<Vec<_>>()).bytes(),
    );
    let shown: BTreeSet<&[u8]> = public.iter().flat_map(|card| card.windows(32)).collect();
    let found =
        given.windows(32).filter(|bytes| secrets.contains(*bytes) && !shown.contains(bytes));
    assert_eq!(found.count(), 0);
    // The search finds what is there: the identity is in the record of the profile.
    let profile = &stage.parties[0].disk[&(RecordKind::Profile, Vec::new())];
    assert!(profile.windows(32).any(|bytes| bytes == identity.scalar.expose()));
}

fn text_of(body: &NoteContent) -> &str {
    match body {
        NoteContent::Text(text) => text,
        NoteContent::Newer => "",
    }
}

#[test]
fn backup_3_a_note_with_a_timer_enters_no_backup() {
    let (mut stage, bob, alice) = Stage::friends();
    let before = save(&stage, 0).notes.len();
    let policy = Policy { timer_s: 2_419_200, ..Policy::default() };
    stage.command(0, Command::Policy { contact: bob, policy: policy.clone() }).expect("a timer");
    stage.say(0, bob, "four weeks");
    stage.say(1, alice, "theirs too");
    assert_eq!(save(&stage, 0).notes.len(), before);
    // What is written without one again does.
    stage.command(0, Command::Policy { contact: bob, policy: Policy::default() }).expect("none");
    stage.say(0, bob, "for long");
    assert_eq!(save(&stage, 0).notes.len(), before + 1);
}

#[test]
fn backup_22_a_numbered_note_goes_again_under_its_number() {
    let (mut stage, bob, alice) = Stage::friends();
    stage.offline(1);
    stage.say(0, bob, "on its way");
    let saved = save(&stage, 0);
    let number = |saved: &Saved| {
        let note = saved.notes.iter().find(|note| text_of(&note.body) == "on its way");
        let note = note.expect("it is in the backup");
        (note.era, note.seq)
    };
    let before = number(&saved);
    assert!(before.1 > 0);
    // The lost device delivers it, and its receipt is lost with it.
    stage.online(1);
    restore(&mut stage, 0, saved);
    stage.online(0);
    stage.pass(30 * Time::MINUTE_MS);
    let there = stage.texts(1, alice);
    assert_eq!(there.iter().filter(|text| *text == "on its way").count(), 1);
    assert_eq!(number(&save(&stage, 0)), before);
    let note = stage.thread(0, bob).into_iter().find(|note| text(note) == "on its way");
    assert_eq!(note.expect("it is here").state, NoteState::Delivered);
    // New notes count in another era, from 1 on.
    stage.say(0, bob, "a new one");
    let newest = save(&stage, 0).notes.pop().expect("a note");
    assert!(newest.era != before.0 && newest.seq == 1);
}

#[test]
fn backup_22_a_note_that_the_relay_forgot_goes_again() {
    let (mut stage, bob, alice) = Stage::friends();
    stage.relay.liar = true;
    let note = stage.say(0, bob, "on its way");
    stage.relay.liar = false;
    let saved = save(&stage, 0);
    assert!(saved.notes.last().expect("a note").seq > 0);
    assert!(!stage.texts(1, alice).iter().any(|text| text == "on its way"));
    restore(&mut stage, 0, saved);
    stage.online(0);
    stage.pass(30 * Time::MINUTE_MS);
    assert_eq!(stage.texts(1, alice).iter().filter(|text| *text == "on its way").count(), 1);
    assert_eq!(stage.state(0, note), NoteState::Delivered);
}

#[test]
fn backup_24_a_restore_lowers_no_spent_budget_and_cells_go_on() {
    let (mut town, ben, ann) = met(0, &cells_first(1));
    let saved = Saved::of_device(&town.members[0].device, town.now());
    assert!(saved.networks.len() == 1 && saved.networks[0].joined);
    let before = spent(&town, 0);
    let disk = saved.into_disk(town.now(), &mut town.rng).expect("a device made it");
    town.hang_up(0);
    town.put_back(0, disk);
    assert!(town.members[0].device.carriers().network_view(town.now()).is_none());
    town.join(0).expect("its charges are known");
    assert_eq!(spent(&town, 0).0, before.0, "nothing is given back");
    town.pass(60 * ROUND_MS);
    let note = town.say(0, ben, "restored");
    delivered(&mut town, 0, note);
    let note = town.say(1, ann, "in cells again");
    town.pass(60 * ROUND_MS);
    delivered(&mut town, 1, note);
    let after = spent(&town, 0);
    assert!(after.0[0] >= before.0[0], "{before:?} {after:?}");
}
