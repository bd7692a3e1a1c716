//! Parcels that were given to a carrier and are withdrawn, and arrivals at once after a rest.

use mezza_core::Time;
use mezza_messenger::evidence::NoteState;
use mezza_messenger::policy::{Fallback, Policy};
use mezza_messenger::{CarrierId, Command, ContactId, NoteId, RecordKind, RelayInput};
use mezza_mixnet::config::Config;

use crate::peer::{Peer, note, text};
use crate::stage::{Stage, carries, connection};
use crate::town::{ROUND_MS, Town, cells, config};

/// Rounds until a note of this member is on the other device.
fn rounds_until_delivered(town: &mut Town, who: usize, note: NoteId) -> u32 {
    for round in 0..600 {
        if town.state(who, note) == NoteState::Delivered {
            return round;
        }
        town.pass(ROUND_MS);
    }
    panic!("it does not come: {:?}", town.state(who, note));
}

/// Ann and Ben, who talk in cells alone: the town, Ben's number at Ann's and hers at his.
fn met() -> (Town, ContactId, ContactId) {
    met_in(config())
}

/// The same in a network of this config.
pub fn met_in(config: Config) -> (Town, ContactId, ContactId) {
    let mut town = Town::with(config, &["ann", "ben"]);
    let ben = town.add(0, 1, cells(1));
    let ann = town.add(1, 0, cells(1));
    for (who, contact) in [(0, ben), (1, ann)] {
        let note = town.say(who, contact, "hello");
        rounds_until_delivered(&mut town, who, note);
    }
    (town, ben, ann)
}

/// Ann writes while Ben is away; `act`; Ben comes back. What Ben reads then.
fn read_after(act: impl Fn(&mut Town, ContactId, NoteId)) -> Vec<String> {
    let (mut town, ben, ann) = met();
    town.members[1].net = false;
    town.hang_up(1);
    town.pass(2 * ROUND_MS);
    let note = town.say(0, ben, "not after all");
    town.pass(2 * ROUND_MS);
    act(&mut town, ben, note);
    town.members[1].net = true;
    town.pass(40 * ROUND_MS);
    town.texts(1, ann).into_iter().filter(|text| !text.starts_with('>')).collect()
}

#[test]
fn msg_89_slow_a_note_in_the_mixnet_that_is_taken_back_is_not_read() {
    let cancelled = |town: &mut Town, _, note| {
        town.command(0, Command::Cancel { note }).expect("it waits");
    };
    assert_eq!(read_after(cancelled), ["hello"]);
    let blocked = |town: &mut Town, contact, _| {
        town.command(0, Command::Block { contact, blocked: true }).expect("known");
    };
    assert_eq!(read_after(blocked), ["hello"]);
    let elsewhere = |town: &mut Town, contact, _| {
        let policy = Policy { carriers: vec![CarrierId::MESH], ..Policy::default() };
        town.command(0, Command::Policy { contact, policy }).expect("sound");
    };
    assert_eq!(read_after(elsewhere), ["hello"]);
    assert_eq!(read_after(|_, _, _| {}), ["hello", "not after all"]);
}

#[test]
fn msg_89_slow_a_note_whose_timer_ran_out_on_the_way_is_not_read() {
    let (mut town, ben, ann) = met();
    let policy = Policy { timer_s: 30, ..cells(1) };
    town.command(0, Command::Policy { contact: ben, policy }).expect("sound");
    town.pass(20 * ROUND_MS);
    town.members[1].net = false;
    town.hang_up(1);
    town.pass(2 * ROUND_MS);
    town.say(0, ben, "thirty seconds");
    town.pass(Time::HOUR_MS);
    town.members[1].net = true;
    town.pass(600 * ROUND_MS);
    assert!(town.texts(1, ann).iter().all(|text| text != "thirty seconds"));
}

/// A parcel that is withdrawn while half of it has arrived does not cost the session.
#[test]
fn msg_89_zeros_begin_no_new_session() {
    let (mut town, ben, ann) = met();
    let note = town.say(0, ben, &"long ".repeat(400));
    town.pass(4 * ROUND_MS);
    let session = town.members[1].device.session(ann);
    town.command(0, Command::Cancel { note }).expect("it is on its way");
    town.pass(40 * ROUND_MS);
    let next = town.say(0, ben, "short");
    rounds_until_delivered(&mut town, 0, next);
    assert_eq!(town.members[1].device.session(ann).map(|s| s.suite), session.map(|s| s.suite));
    let texts = town.texts(1, ann);
    assert!(texts.iter().all(|text| !text.starts_with("long")) && texts.contains(&"short".into()));
}

/// A blocked contact gets no round, and none of the rounds of the year is charged for them.
#[test]
fn msg_26_slow_who_is_blocked_is_not_served_in_the_mixnet() {
    let (mut town, ben, ann) = met();
    town.pass(70 * ROUND_MS);
    town.command(0, Command::Block { contact: ben, blocked: true }).expect("known");
    let spent = |town: &Town| {
        town.members[0].device.carriers().network_view(town.now()).expect("joined").rounds_used
    };
    let before = spent(&town);
    let served = town.members[0].lines.len();
    let note = town.say(1, ann, "are you there?");
    town.pass(70 * ROUND_MS);
    assert_eq!((spent(&town), town.members[0].lines.len()), (before, served));
    assert!(town.state(1, note) != NoteState::Delivered);
    // Until they are let in again.
    town.command(0, Command::Block { contact: ben, blocked: false }).expect("known");
    let note = town.say(0, ben, "I am");
    rounds_until_delivered(&mut town, 0, note);
}

/// A receipt that was sealed before its contact was blocked does not leave.
#[test]
fn msg_26_what_was_sealed_before_a_block_stays_here() {
    let mut stage = Stage::new(&["alice"]);
    let (mut peer, contact) = Peer::open(&mut stage, 11);
    let mail = peer.mail(&mut stage, &note(2, 0, vec![text("are you there?")]));
    assert_eq!(carries(&stage.alone(mail)).len(), 1, "its receipt");
    stage.alone(Command::Block { contact, blocked: true });
    stage.alone(RelayInput::Down { connection: connection() });
    let up = || RelayInput::Up { connection: connection(), level: 1, demo: false };
    assert_eq!(carries(&stage.alone(up())).len(), 0);
    stage.alone(Command::Block { contact, blocked: false });
    stage.now = stage.now.plus_ms(Time::MINUTE_MS);
    stage.alone(RelayInput::Down { connection: connection() });
    assert!(!carries(&stage.alone(up())).is_empty(), "it is owed again");
}

/// After a rest of any length the next note calls, and is there within three call rounds.
#[test]
fn mix_67_slow_a_note_after_a_rest_comes_within_three_call_rounds() {
    for rest in [61, 65, 75, 150] {
        let (mut town, _, ann) = met();
        town.pass(rest * ROUND_MS);
        let note = town.say(1, ann, "are you there?");
        let rounds = rounds_until_delivered(&mut town, 1, note);
        assert!(rounds <= 12, "a rest of {rest} rounds, then {rounds}");
    }
}

/// Whom one talks to in cells alone has no part in which relays are dialled.
#[test]
fn msg_21_slow_a_conversation_in_cells_alone_dials_no_relay_of_the_contact() {
    let (mut town, ben, ann) = met();
    let evil = mezza_messenger::card::RelayEntry {
        host: "mallory.example".into(),
        key: mezza_messenger::card::RelayKey([0xd0; 32]),
        ..crate::stage::relay()
    };
    let before = town.members[1].disk.clone();
    let publish = Command::Publish { name: "ben".into(), relays: vec![evil] };
    town.command(1, publish).expect("a card");
    town.pass(30 * ROUND_MS);
    for (who, contact) in [(0, ben), (1, ann)] {
        let note = town.say(who, contact, "more");
        rounds_until_delivered(&mut town, who, note);
    }
    // Ben goes back to the session of before: what he writes does not open.
    let ratchet = |kind: &RecordKind| matches!(kind, RecordKind::Session | RecordKind::Skipped);
    let mut disk = town.members[1].disk.clone();
    disk.retain(|(kind, _), _| !ratchet(kind));
    disk.extend(before.into_iter().filter(|((kind, _), _)| ratchet(kind)));
    town.members[1].forget_chains();
    let now = town.now();
    let device = crate::stage::load(&disk, now, &mut town.rng);
    town.members[1].disk = disk;
    town.start(1, device);
    town.pass(2 * ROUND_MS);
    let send = Command::Send { contact: ann, client: [0xaa; 16], text: "x".into(), life: None };
    town.command(1, send).expect("accepted");
    town.pass(60 * ROUND_MS);
    let dialled = town.members[0].device.connections(town.now());
    let hosts =
        dialled.into_iter().filter_map(|connection| connection.relay).map(|relay| relay.host);
    assert!(hosts.into_iter().all(|host| host != "mallory.example"));
}

/// A note of 8,192 bytes was accepted in the session of that moment; then what is owed beside it, or a
/// session that begins anew, takes the room.
#[test]
fn msg_25_slow_an_accepted_note_fits_whatever_comes_before_it() {
    let begin_anew = |town: &mut Town, ben| {
        // Keys for a new session come over the relay alone.
        let carriers = vec![CarrierId::MIXNET, CarrierId::RELAY];
        let policy = Policy { carriers, fallback: Fallback::Listed, ..Policy::default() };
        town.command(0, Command::Policy { contact: ben, policy }).expect("sound");
        town.command(0, Command::Reset { contact: ben }).expect("a new session");
    };
    let another_card = |town: &mut Town, _| {
        let relays = vec![crate::stage::relay()];
        town.command(0, Command::Publish { name: "ann of the long notes".into(), relays })
            .expect("a card");
    };
    for act in [begin_anew as fn(&mut Town, ContactId), another_card] {
        let (mut town, ben, ann) = met();
        town.members[0].net = false;
        town.hang_up(0);
        town.pass(2 * ROUND_MS);
        let note = town.say(0, ben, &"x".repeat(8_192));
        act(&mut town, ben);
        town.members[0].net = true;
        let rounds = rounds_until_delivered(&mut town, 0, note);
        assert!(rounds < 150, "{rounds}");
        assert!(town.texts(1, ann).iter().any(|text| text.len() == 8_192));
    }
}
