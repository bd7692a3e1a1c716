//! Bundles that contacts tell each other, for the day when a session is lost (MSG-100).

use mezza_core::suite::SuiteId;
use mezza_core::{Machine as _, Time};
use mezza_messenger::evidence::NoteState;
use mezza_messenger::note::Item;
use mezza_messenger::policy::Policy;
use mezza_messenger::{CarrierId, Command, ContactId, NoteId, RecordKind};
use mezza_ratchet::{Prekeys, prekeys};

use super::recalled::met_in;
use crate::model::Ask;
use crate::peer::{Peer, identity, note, published};
use crate::stage::{Stage, load};
use crate::town::{ROUND_MS, Town, cells, config};

const ANN: usize = 0;
const BEN: usize = 1;

/// Ann and Ben, who talk in cells alone and have had time for what is said beside receipts.
fn met() -> (Town, ContactId, ContactId) {
    let (mut town, ben, ann) = met_in(config());
    for who in [ANN, BEN] {
        let to = [ben, ann][who];
        let note = town.say(who, to, "how are you?");
        arrives(&mut town, who, note);
    }
    town.pass(20 * ROUND_MS);
    (town, ben, ann)
}

fn arrives(town: &mut Town, who: usize, note: NoteId) {
    for _ in 0..120 {
        if town.state(who, note) == NoteState::Delivered {
            return;
        }
        town.pass(ROUND_MS);
    }
    panic!("it does not come: {:?}", town.state(who, note));
}

fn rows(town: &Town, who: usize, wanted: RecordKind) -> usize {
    town.members[who].disk.keys().filter(|(kind, _)| *kind == wanted).count()
}

/// The vault of a member lost its sessions.
fn lose_sessions(town: &mut Town, who: usize) {
    let lost = |kind: &RecordKind| matches!(kind, RecordKind::Session | RecordKind::Skipped);
    town.members[who].disk.retain(|(kind, _), _| !lost(kind));
    let now = town.clock(who);
    let device = load(&town.members[who].disk, now, &mut town.rng);
    town.start(who, device);
}

#[test]
fn msg_100_who_talk_in_cells_hold_bundles_of_each_other() {
    let (town, ..) = met();
    assert_eq!(
        (rows(&town, ANN, RecordKind::Bundle), rows(&town, BEN, RecordKind::Bundle)),
        (1, 1)
    );
}

#[test]
fn msg_100_slow_a_new_session_begins_in_cells_alone() {
    for bytes in [10, 6_000, 7_000, 7_900] {
        let (mut town, ben, ann) = met();
        town.members[ANN].net = false;
        town.hang_up(ANN);
        town.pass(2 * ROUND_MS);
        let note = town.say(ANN, ben, &"x".repeat(bytes));
        town.command(ANN, Command::Reset { contact: ben }).expect("a new session");
        town.members[ANN].net = true;
        let asked = town.members[ANN].asked.len();
        arrives(&mut town, ANN, note);
        assert_eq!(town.members[ANN].asked.len(), asked, "no relay is asked for anything");
        let back = town.say(BEN, ann, "in the new one");
        arrives(&mut town, BEN, back);
    }
}

#[test]
fn msg_100_slow_whose_vault_lost_its_sessions_goes_on_in_cells() {
    let (mut town, ben, ann) = met();
    lose_sessions(&mut town, BEN);
    let there = town.say(ANN, ben, "are you there?");
    let back = town.say(BEN, ann, "here I am");
    arrives(&mut town, ANN, there);
    arrives(&mut town, BEN, back);
    // And once more, by what was told in the new session.
    lose_sessions(&mut town, ANN);
    let there = town.say(ANN, ben, "and now?");
    let back = town.say(BEN, ann, "still here");
    arrives(&mut town, ANN, there);
    arrives(&mut town, BEN, back);
}

/// The vaults of these members were put back: sessions and chains begin anew. All notes arrive, and no
/// bundle is fetched.
fn restore(who: &[usize]) {
    let (mut town, ben, ann) = met();
    let contacts = [ben, ann];
    let fetched = |town: &Town| {
        let asked = town.members.iter().flat_map(|member| &member.asked);
        asked.filter(|ask| matches!(ask, Ask::Get(..))).count()
    };
    let before = fetched(&town);
    for who in who.iter().copied() {
        town.command(who, Command::Restored).expect("always");
        town.crash(who);
    }
    for text in ["after the restore", "and once more"] {
        let notes = [ANN, BEN].map(|who| town.say(who, contacts[who], text));
        arrives(&mut town, ANN, notes[ANN]);
        arrives(&mut town, BEN, notes[BEN]);
    }
    assert_eq!(fetched(&town), before, "no bundle is fetched from a relay");
    for who in [ANN, BEN] {
        let suite = town.members[who].device.session(contacts[who]).map(|session| session.suite);
        assert_eq!(suite, Some(SuiteId(0x0102)), "the invitation's suite gives way");
    }
}

#[test]
fn msg_121_slow_whose_vault_was_put_back_is_invited_again_in_cells() {
    restore(&[ANN]);
    restore(&[BEN]);
}

#[test]
fn msg_121_slow_two_vaults_that_were_put_back_meet_again_in_cells() {
    restore(&[ANN, BEN]);
}

#[test]
fn msg_100_slow_a_conversation_that_a_relay_serves_asks_the_relay() {
    let (mut town, ben, ann) = met();
    let both = vec![CarrierId::MIXNET, CarrierId::RELAY];
    for (who, contact) in [(ANN, ben), (BEN, ann)] {
        let policy = Policy {
            carriers: both.clone(),
            fallback: mezza_messenger::policy::Fallback::Listed,
            ..cells(1)
        };
        town.command(who, Command::Policy { contact, policy }).expect("sound");
    }
    let asked = town.members[ANN].asked.len();
    town.command(ANN, Command::Reset { contact: ben }).expect("a new session");
    let note = town.say(ANN, ben, "anew");
    arrives(&mut town, ANN, note);
    assert!(town.members[ANN].asked.len() > asked, "the bundle is fetched, with a one-time key");
}

/// Fresh prekeys of this identity, and the bundle of each rotation.
fn bundles(stage: &mut Stage, scalar: u8, days: u64) -> [Vec<u8>; 2] {
    let mut keys = Prekeys::new(identity(scalar));
    let first = published(&mut keys, stage).0;
    stage.pass(days * Time::DAY_MS);
    keys.handle(prekeys::Input::Rotate, stage.now, &mut stage.rng).expect("a wish");
    [first, published(&mut keys, stage).0]
}

#[test]
fn msg_100_what_is_told_is_checked_and_the_newest_is_held() {
    let mut stage = Stage::new(&["alice"]);
    let (mut peer, _) = Peer::open(&mut stage, 11);
    let held = |stage: &Stage| {
        let rows = stage.parties[0].disk.iter();
        let mut rows = rows.filter(|((kind, _), _)| *kind == RecordKind::Bundle);
        rows.next().map(|(_, row)| row.clone())
    };
    let [old, new] = bundles(&mut stage, 11, 1);
    let [foreign, _] = bundles(&mut stage, 12, 1);
    let mut tell = |stage: &mut Stage, told: &[&[u8]]| {
        let items = told.iter().map(|bytes| Item::Bundle(bytes.to_vec())).collect();
        peer.put(stage, &note(0, 0, items));
        held(stage)
    };
    assert_eq!(tell(&mut stage, &[&foreign]), None, "of another identity");
    assert_eq!(tell(&mut stage, &[&new[..new.len() - 1]]), None, "cut short");
    let row = |bundle: &[u8]| [&[1, 1][..], &(bundle.len() as u16).to_be_bytes(), bundle].concat();
    assert_eq!(
        tell(&mut stage, &[&foreign, &old]),
        Some(row(&old)),
        "the last one of a note counts"
    );
    assert_eq!(tell(&mut stage, &[&new]), Some(row(&new)));
    assert_eq!(tell(&mut stage, &[&old]), Some(row(&new)), "notes may come out of order");
    stage.restart(0);
    assert_eq!(held(&stage), Some(row(&new)));
}

#[test]
fn msg_110_a_bundle_of_a_clock_that_is_ahead_takes_nobodys_place() {
    let mut stage = Stage::new(&["alice"]);
    let (mut peer, _) = Peer::open(&mut stage, 11);
    let held = |stage: &Stage| {
        let mut rows = stage.parties[0].disk.keys();
        rows.any(|(kind, _)| *kind == RecordKind::Bundle)
    };
    let row = |disk: &crate::stage::Disk| {
        let mut rows = disk.iter().filter(|((kind, _), _)| *kind == RecordKind::Bundle);
        rows.next().map(|(_, row)| row.clone())
    };
    let mut keys = Prekeys::new(identity(11));
    let now = stage.now;
    stage.now = now.plus_ms(365 * Time::DAY_MS);
    let ahead = published(&mut keys, &mut stage).0;
    stage.now = now;
    let mut keys = Prekeys::new(identity(11));
    let right = published(&mut keys, &mut stage).0;
    peer.put(&mut stage, &note(0, 0, vec![Item::Bundle(ahead.clone())]));
    assert!(held(&stage), "the clock that is behind may be ours");
    let before = stage.parties[0].disk.clone();
    peer.put(&mut stage, &note(0, 0, vec![Item::Bundle(right)]));
    assert_ne!(row(&stage.parties[0].disk), row(&before), "it would stay for a year");
    let before = stage.parties[0].disk.clone();
    peer.put(&mut stage, &note(0, 0, vec![Item::Bundle(ahead)]));
    assert_eq!(row(&stage.parties[0].disk), row(&before));
}
