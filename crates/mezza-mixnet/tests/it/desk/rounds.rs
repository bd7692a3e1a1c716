//! Levels, tries, buckets, backups: what a client makes of rounds.

use mezza_core::{EphemeralKey, Machine as _, PortableBackend, PublicKey, Secret, Time, Wiping};
use mezza_mixnet::client::{
    Client, ClientError, Input, Invite, NewRoot, Output, SendTime, StartRounds,
};
use mezza_mixnet::config::{Config, NetworkId};
use mezza_mixnet::contact::{Role, assign_bucket};
use mezza_mixnet::mix::NoiseFloor;
use mezza_mixnet::privacy::ledger::PrivacyCost;
use mezza_mixnet::privacy::{Ledger, NoisePreset};
use mezza_mixnet::sign::{Purpose, Signature};
use mezza_mixnet::wire::bucket::ObjectDigest;
use mezza_mixnet::wire::frame::alarm_bytes;
use mezza_mixnet::wire::invitation::BODY_BYTES;
use mezza_mixnet::wire::{Frame, FrameBody, Manifest, MissedReason, SignedSettings, filter};
use mezza_mixnet::{RoundId, Service};

use super::{Desk, setup, successor};
use crate::fixture::{OPEN, config, signer};

/// The noise of the preset `standard`.
fn standard() -> Config {
    let mut config = config(3);
    config.services.iter_mut().for_each(|policy| NoisePreset::Standard.fill_policy(policy));
    config
}

#[test]
fn mix_31_the_level_is_4_only_while_everything_holds() {
    let mut desk = Desk::joined(standard(), NoiseFloor::STANDARD);
    let mut round = 100;
    desk.talk(round, 127);
    assert_eq!(desk.levels(), [], "too few users: it stays at 1, where it began");
    let needed = rise(&mut desk, &mut round);
    assert!((3..=8).contains(&needed), "{needed} rounds in a row");
    round += 1;
    desk.talk(round, 127);
    assert_eq!(desk.levels(), [1], "it falls at once");
    assert_eq!(rise(&mut desk, &mut round), needed, "the number is drawn once");
    let id = RoundId { service: Service::Call, round: round + 1 };
    desk.announce(id, |announced| announced.signatures[0][0] ^= 1);
    assert_eq!(desk.levels(), [1], "settings that do not verify");
    assert_eq!(rise(&mut desk, &mut round), needed);
    desk.input(Input::Down).expect("it was up");
    assert_eq!(desk.levels(), [1]);
}

/// Rounds with enough users, up to the one with which the level rises; how many there were.
fn rise(desk: &mut Desk, round: &mut u64) -> u64 {
    for count in 1..=8 {
        *round += 1;
        desk.talk(*round, 10_000);
        if desk.levels() == [4] {
            return count;
        }
    }
    panic!("the level never rises");
}

/// An entry that names few users now and then has the level fall, and rise after a while alone.
#[test]
fn mix_31_a_level_that_fell_rises_after_rounds_in_a_row_alone() {
    let mut desk = Desk::joined(standard(), NoiseFloor::STANDARD);
    for round in 100..160 {
        desk.talk(round, if round % 3 == 0 { 127 } else { 10_000 });
    }
    assert_eq!(desk.levels(), [], "never three in a row");
}

#[test]
fn mix_75_the_level_and_the_state_follow_from_the_last_round_that_returned() {
    let mut desk = Desk::joined(standard(), NoiseFloor::STANDARD);
    let mut round = 100;
    rise(&mut desk, &mut round);
    assert!(desk.client.is_returning());
    let last = desk.now;
    // Settings come on, and no round comes back.
    for ahead in 1..=4 {
        let id = RoundId { service: Service::Conversation, round: round + ahead };
        desk.until(last.plus_ms(5_000 * ahead).minus_ms(100));
        let before = desk.client.is_returning();
        desk.announce(id, |_| {});
        desk.round(id, FrameBody::Missed(MissedReason::Aborted)).expect("it takes part");
        assert_eq!(before, ahead <= 3, "{ahead} intervals");
    }
    let overdue = desk.news.iter().filter(|news| matches!(news, Output::Returning(false)));
    assert_eq!(overdue.count(), 1);
    assert_eq!(desk.levels(), [1]);
    assert_eq!((desk.client.is_returning(), desk.client.users()), (false, 0));
    // One that comes back is news; the level has to be earned again.
    desk.talk(round + 6, 10_000);
    assert!(desk.news.iter().any(|news| matches!(news, Output::Returning(true))));
    assert_eq!(desk.levels(), []);
}

#[test]
fn mix_75_no_level_outlives_its_config() {
    let mut config = standard();
    config.valid_until = OPEN.plus_ms(60_000);
    let mut desk = Desk::joined(config, NoiseFloor::STANDARD);
    rise(&mut desk, &mut 100);
    desk.until(OPEN.plus_ms(600_000));
    assert_eq!(desk.levels(), [1]);
    assert!(!desk.client.is_returning());
}

#[test]
fn mix_75_a_silent_line_is_given_up_and_dialled_again() {
    let mut desk = Desk::joined(config(3), NoiseFloor::None);
    desk.talk(100, 9);
    let id = RoundId { service: Service::Conversation, round: 101 };
    desk.announce(id, |_| {});
    desk.news.clear();
    let last = desk.now;
    let closes = |desk: &Desk| desk.news.iter().filter(|n| matches!(n, Output::Close)).count();
    desk.until(last.plus_ms(44_999));
    assert_eq!(closes(&desk), 0, "three intervals and half a minute");
    desk.until(last.plus_ms(45_001));
    assert_eq!(closes(&desk), 1);
    desk.until(last.plus_ms(10 * Time::MINUTE_MS));
    assert_eq!(closes(&desk), 1, "it is hung up on once");
    desk.input(Input::Down).expect("it hung up");
    desk.news.clear();
    assert!((3_200..=4_800).contains(&desk.dialled()), "as after a try that failed");
    // Nothing comes on the next one either: tries get rare.
    desk.input(Input::Up { trusted: true }).expect("it dialled");
    desk.welcome(desk.config.hash());
    desk.until(desk.now.plus_ms(46_000));
    desk.input(Input::Down).expect("it hung up");
    desk.news.clear();
    assert!((6_400..=9_600).contains(&desk.dialled()));
}

/// Settings of a successor's first rounds come before it has begun.
#[test]
fn mix_5_rounds_are_judged_by_the_config_in_force_when_they_open() {
    let first = config(3);
    let mut desk = Desk::joined(first.clone(), NoiseFloor::None);
    let next = successor(&first, |_| {});
    let begins = next.config().valid_from;
    desk.until(begins.minus_ms(60_000));
    desk.input(Input::Down).expect("it was up");
    desk.connect(true);
    desk.welcome(next.config().hash());
    desk.config(0, &next).expect("its guardian signed");
    // The last round of the first config, and the first of the next.
    let last = 100 + begins.since_ms(OPEN) / 5_000 - 1;
    desk.until(begins.minus_ms(6_000));
    desk.announce(RoundId { service: Service::Conversation, round: last }, |_| {});
    desk.config = next.config().clone();
    desk.until(begins.minus_ms(1_000));
    for service in Service::ALL {
        let base = next.config().find_policy(service).expect("a service").1.base_round;
        desk.announce(RoundId { service, round: base }, |_| {});
    }
    let unfit: Vec<&Output> =
        desk.news.iter().filter(|news| matches!(news, Output::Unfit(..))).collect();
    assert!(unfit.is_empty(), "{unfit:?}");
    desk.until(begins.plus_ms(2_000));
    // An alarm of the last round comes after the change.
    let id = RoundId { service: Service::Conversation, round: last };
    let signature = signer(51).sign(Purpose::Alarm, &[&alarm_bytes(&first.hash(), id, 1)]);
    assert_eq!(desk.round(id, FrameBody::Alarm { position: 1, signature }), Ok(()));
}

#[test]
fn mix_65_a_client_takes_no_bucket_that_users_and_noise_cannot_make() {
    let mut desk = Desk::joined(config(3), NoiseFloor::None);
    let own = *EphemeralKey::from_scalar::<PortableBackend>(Secret::init_with(|s| s.fill(9)))
        .public_key();
    let own = assign_bucket(&own, &NetworkId([0xaa; 16]), 2) as usize;
    let id = called(&mut desk, 100);
    for (len, taken) in [(1_560_000_004, false), (200_000, false), (900, true)] {
        let mut entries = vec![ObjectDigest { len: 4, hash: [0; 32] }; 2];
        entries[own - 1].len = len;
        let manifest = Manifest { id, entries };
        let signature = manifest.sign(&signer(52), &desk.config.hash());
        let outcome = desk.round(id, FrameBody::Object(Some((manifest, signature))));
        assert_eq!(
            outcome,
            if taken { Ok(()) } else { Err(ClientError::Malformed) },
            "{len} bytes"
        );
    }
}

#[test]
fn mix_31_noise_below_the_floor_never_counts() {
    let mut weak = standard();
    weak.services[1].mu = 40;
    weak.services[1].scale = 6;
    for floor in [NoiseFloor::STANDARD, NoiseFloor::None] {
        let mut desk = Desk::joined(weak.clone(), floor);
        (100..110).for_each(|round| desk.talk(round, 10_000));
        assert_eq!(desk.levels(), [], "a floor below `relaxed` is none");
    }
    let mut relaxed = standard();
    relaxed.services.iter_mut().for_each(|policy| NoisePreset::Relaxed.fill_policy(policy));
    for (floor, levels) in [
        (NoiseFloor::STANDARD, vec![]),
        (NoiseFloor::RELAXED, vec![4]),
        (NoiseFloor::None, vec![4]),
    ] {
        let mut desk = Desk::joined(relaxed.clone(), floor);
        (100..110).for_each(|round| desk.talk(round, 10_000));
        assert_eq!(desk.levels(), levels, "{floor:?}");
    }
    // A promise without end is none, whatever the noise.
    let mut endless = standard();
    endless.services[0].rounds = u64::from(u32::MAX);
    let mut desk = Desk::joined(endless, NoiseFloor::None);
    (100..110).for_each(|round| desk.talk(round, 10_000));
    assert_eq!(desk.levels(), []);
}

#[test]
fn mix_26_tries_are_spread_and_become_rare() {
    let mut desk = Desk::joined(config(3), NoiseFloor::None);
    let mut first = Vec::new();
    for _ in 0..200 {
        desk.input(Input::Down).expect("it was up");
        first.push(desk.dialled());
        desk.input(Input::Up { trusted: true }).expect("it dialled");
        desk.welcome(desk.config.hash());
    }
    assert!(first.iter().all(|ms| *ms <= 5_000), "within the interval");
    let halves = first.iter().filter(|ms| **ms < 2_500).count();
    assert!((60..=140).contains(&halves), "{halves} of 200 in the first half");
    desk.input(Input::Down).expect("it was up");
    desk.dialled();
    for wait in [2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000] {
        desk.input(Input::Down).expect("nobody answered");
        let waited = desk.dialled();
        assert!((wait * 4 / 5..=wait * 6 / 5).contains(&waited), "{waited} for {wait}");
    }
    let mut waits = [(); 100].map(|()| {
        desk.input(Input::Down).expect("nobody answered");
        desk.dialled()
    });
    waits.sort_unstable();
    assert!(waits[9] < 54_000 && waits[90] > 66_000, "give or take a fifth: {waits:?}");
}

#[test]
fn settings_of_a_config_that_is_not_known_make_a_client_ask_for_it() {
    let mut desk = Desk::joined(config(3), NoiseFloor::None);
    let id = RoundId { service: Service::Conversation, round: 100 };
    let next = successor(&config(3), |_| {}).config().hash();
    let asked = |desk: &mut Desk| {
        desk.news.clear();
        desk.announce(id, |announced| announced.settings.config = next);
        let ask = Frame::FetchConfig { from: desk.config.hash() };
        desk.frames().into_iter().filter(|scheduled| scheduled.frame == ask).count()
    };
    assert_eq!([asked(&mut desk), asked(&mut desk)], [1, 0], "once a minute");
    desk.until(desk.now.plus_ms(60_000));
    assert_eq!(asked(&mut desk), 1);
}

#[test]
fn mix_24_a_backup_adds_to_what_was_spent_and_survives_a_start() {
    let mut desk = Desk::joined(config(3), NoiseFloor::None);
    let kind = PrivacyCost::from_policy(&desk.config.services[0]);
    let mut backup = Ledger::new(NetworkId([0xaa; 16]), 77);
    (0..5).for_each(|_| backup.charge_round(kind));
    for _ in 0..2 {
        desk.client.restore_ledger(&backup, desk.now, &mut desk.rng);
        desk.drain();
    }
    let used =
        |desk: &Desk| desk.client.ledger().map(|ledger| ledger.used_rounds(Service::Conversation));
    assert_eq!(used(&desk), Some(5), "the same backup counts once");
    let rows = desk.rows.clone();
    assert_eq!(rows.len(), 1, "rows before a snapshot go");
    let rows = rows.iter().map(|(seq, row)| (*seq, row.as_slice()));
    let setup = setup(desk.config.hash(), desk.floor);
    desk.client = Client::restore(setup, rows, desk.now, &mut desk.rng).expect("our own rows");
    assert_eq!(used(&desk), Some(5));
}

/// A backup and its original may both go on: what each spends afterwards adds.
#[test]
fn mix_24_a_restored_ledger_has_a_branch_of_its_own() {
    let mut desk = Desk::joined(config(3), NoiseFloor::None);
    let kind = PrivacyCost::from_policy(&desk.config.services[0]);
    let mut original = desk.client.ledger().expect("it joined").clone();
    (0..3).for_each(|_| original.charge_round(kind));
    desk.client.restore_ledger(&original, desk.now, &mut desk.rng);
    let mut restored = desk.client.ledger().expect("it joined").clone();
    restored.charge_round(kind);
    (0..2).for_each(|_| original.charge_round(kind));
    restored.merge(&original);
    assert_eq!(restored.used_rounds(Service::Conversation), 3 + 1 + 2);
}

#[test]
fn sixteen_are_served_and_the_next_one_waits_its_turn() {
    let mut desk = Desk::joined(config(3), NoiseFloor::None);
    for contact in 0..18 {
        let root = Secret::init_with(|s| s.fill(contact as u8));
        let role = Role::Initiator;
        let start = StartRounds { conversation: 100, call: 100 };
        let new = NewRoot { contact, root, role, start, bucket: 1 };
        desk.input(Input::Add(new)).expect("a contact");
    }
    let active = |desk: &Desk| (0..18).filter(|c| desk.client.is_active(*c)).collect::<Vec<_>>();
    for contact in 0..17 {
        desk.input(Input::Activate(contact)).expect("a contact");
        desk.until(desk.now.plus_ms(1));
    }
    assert_eq!(active(&desk), (1..17).collect::<Vec<_>>(), "the one that is quiet longest leaves");
    for contact in 1..18 {
        let send = Input::Send { ticket: 1, contact, bytes: Wiping::new(vec![1]) };
        desk.input(send).expect("a contact");
    }
    assert_eq!(
        active(&desk),
        (1..17).collect::<Vec<_>>(),
        "nobody leaves who has something to say"
    );
    desk.until(desk.now.plus_ms(11 * Time::MINUTE_MS));
    assert_eq!(active(&desk), [], "nobody met");
    desk.until(desk.now.plus_ms(50 * Time::MINUTE_MS));
    assert!(active(&desk).contains(&17), "after an hour it is looked for");
}

/// Runs a call round up to its RETURN; the frame by which the bucket is asked for.
fn called(desk: &mut Desk, round: u64) -> RoundId {
    let id = RoundId { service: Service::Call, round };
    desk.until(OPEN.plus_ms(5_000 * (round - 100)).minus_ms(1_000));
    desk.news.clear();
    desk.announce(id, |_| {});
    desk.until(OPEN.plus_ms(5_000 * (round - 100) + 4_000));
    desk.round(id, FrameBody::Return { users: 9, replies: Vec::new() }).expect("it submitted");
    id
}

/// Objects of two buckets, and their manifest as the last mix signs it.
fn objects(desk: &Desk, id: RoundId) -> ([Vec<u8>; 2], Manifest, Signature) {
    let objects = [filter::encode(&[[1; 16]; 3]), filter::encode(&[[2; 16]; 5])];
    let manifest =
        Manifest { id, entries: objects.iter().map(|o| ObjectDigest::from_object(o)).collect() };
    let signature = manifest.sign(&signer(52), &desk.config.hash());
    (objects, manifest, signature)
}

#[test]
fn buckets_are_believed_by_the_word_of_the_last_mix() {
    let mut desk = Desk::joined(config(3), NoiseFloor::None);
    let own = *EphemeralKey::from_scalar::<PortableBackend>(Secret::init_with(|s| s.fill(9)))
        .public_key();
    let own = assign_bucket(&own, &NetworkId([0xaa; 16]), 2);
    let id = called(&mut desk, 100);
    let get = Frame::Round(id, FrameBody::Fetch { bucket: own });
    let gets = desk.frames().into_iter().filter(|scheduled| scheduled.frame == get);
    let when: Vec<SendTime> = gets.map(|scheduled| scheduled.when).collect();
    assert!(matches!(when[..], [SendTime::AfterReturn(0..=2_000)]), "{when:?}");
    let (objects, manifest, signature) = objects(&desk, id);
    let object = &objects[own as usize - 1];
    let chunk =
        |bucket, offset, bytes: &[u8]| FrameBody::Chunk { bucket, offset, bytes: bytes.to_vec() };
    assert_eq!(desk.round(id, chunk(own, 0, object)), Err(ClientError::Unexpected));
    let by_another = manifest.sign(&signer(51), &desk.config.hash());
    let wrong = FrameBody::Object(Some((manifest.clone(), by_another)));
    assert_eq!(desk.round(id, wrong), Err(ClientError::Signature));
    let fewer = Manifest { id, entries: manifest.entries[..1].to_vec() };
    let signed = fewer.sign(&signer(52), &desk.config.hash());
    assert_eq!(
        desk.round(id, FrameBody::Object(Some((fewer, signed)))),
        Err(ClientError::Malformed)
    );
    // Yesterday's bucket, with the signature of its day.
    let earlier = RoundId { round: id.round - 1, ..id };
    let older = Manifest { id: earlier, entries: manifest.entries.clone() };
    let signed = older.sign(&signer(52), &desk.config.hash());
    assert_eq!(
        desk.round(id, FrameBody::Object(Some((older, signed)))),
        Err(ClientError::Malformed)
    );
    let found = || FrameBody::Object(Some((manifest.clone(), signature)));
    assert_eq!(desk.round(id, found()), Ok(()));
    assert_eq!(desk.round(id, found()), Err(ClientError::Unexpected));
    for wrong in [chunk(3 - own, 0, object), chunk(own, 1, object), chunk(own, 0, &[])] {
        assert_eq!(desk.round(id, wrong), Err(ClientError::Malformed));
    }
    let long = [object.as_slice(), &[0]].concat();
    assert_eq!(desk.round(id, chunk(own, 0, &long)), Err(ClientError::Malformed));
    assert_eq!(desk.round(id, chunk(own, 0, &object[..5])), Ok(()));
    assert_eq!(desk.round(id, chunk(own, 5, &object[5..])), Ok(()));
    assert_eq!(desk.client.rounds().count(), 0);
    assert_eq!(desk.round(id, chunk(own, 0, object)), Err(ClientError::UnknownRound));
    let id = called(&mut desk, 101);
    assert_eq!(desk.round(id, FrameBody::Object(None)), Ok(()));
    assert_eq!(desk.client.rounds().count(), 0, "a store that is away costs its buckets");
}

#[test]
fn who_says_nothing_is_hung_up_on() {
    let mut desk = Desk::joined(config(3), NoiseFloor::None);
    let closed = |desk: &Desk| matches!(desk.news[..], [.., Output::Close]);
    desk.input(Input::Down).expect("it was up");
    desk.connect(true);
    desk.until(desk.now.plus_ms(29_000));
    assert!(!closed(&desk));
    desk.until(desk.now.plus_ms(2_000));
    assert!(closed(&desk), "no WELCOME");
    desk.input(Input::Down).expect("it hung up");
    desk.connect(false);
    desk.welcome([9; 32]);
    desk.until(desk.now.plus_ms(29_000));
    assert!(!closed(&desk));
    desk.until(desk.now.plus_ms(2_000));
    assert!(closed(&desk), "no configs either");
}

#[test]
fn mix_32_debug_output_names_nobody() {
    let body = Wiping::new([0x5a; BODY_BYTES]);
    let invite = Input::Invite(Invite { ticket: 7, to: PublicKey([0xd7; 32]), body });
    let root = Secret::init_with(|s| s.fill(0xd7));
    let start = StartRounds { conversation: 100, call: 100 };
    let new = NewRoot { contact: 3, root, role: Role::Initiator, start, bucket: 1 };
    let send = Input::Send { ticket: 1, contact: 3, bytes: Wiping::new(vec![0xd7; 40]) };
    let mut desk = Desk::joined(config(3), NoiseFloor::None);
    let commands = format!("{invite:?} {send:?} {new:?}");
    for input in [invite, Input::Add(new), send] {
        desk.input(input).expect("good commands");
    }
    desk.announce(RoundId { service: Service::Conversation, round: 100 }, |_| {});
    desk.until(OPEN.plus_ms(1_000));
    let said = format!("{commands} {:?}", desk.client);
    let secrets = ["215", "d7", "0x5a", "90, 90"];
    assert!(secrets.iter().all(|secret| !said.contains(secret)), "{said}");
}

#[test]
fn mix_27_an_alarm_counts_with_the_signature_of_its_mix() {
    let mut desk = Desk::joined(config(3), NoiseFloor::None);
    let id = RoundId { service: Service::Conversation, round: 100 };
    let config = desk.config.hash();
    let alarm = |id: RoundId, n: u8| {
        let signature = signer(n).sign(Purpose::Alarm, &[&alarm_bytes(&config, id, 1)]);
        FrameBody::Alarm { position: 1, signature }
    };
    assert_eq!(desk.round(id, alarm(id, 50)), Err(ClientError::Signature));
    assert_eq!(desk.round(id, alarm(id, 51)), Ok(()));
    assert!(matches!(desk.news[..], [Output::Alarm { position: 1, .. }]));
    // MIX-46: the entry may say it again, and it counts once.
    assert_eq!(desk.round(id, alarm(id, 51)), Err(ClientError::Unexpected));
    let next = RoundId { round: 101, ..id };
    assert_eq!(desk.round(next, alarm(next, 51)), Ok(()));
    assert_eq!(desk.news.len(), 2);
}

#[test]
fn mix_1_a_connection_that_nobody_checked_carries_configs_alone() {
    let mut desk = Desk::joined(config(3), NoiseFloor::None);
    desk.input(Input::Down).expect("it was up");
    desk.connect(false);
    desk.welcome(desk.config.hash());
    assert!(matches!(desk.news[..], [.., Output::Close]));
    let id = RoundId { service: Service::Conversation, round: 100 };
    let settings = desk.settings(id);
    let signatures = (50..53).map(|n| settings.sign(&signer(n))).collect();
    let announced = SignedSettings { settings, signatures, closes_in_ms: 5_000 };
    let refused = desk.round(id, FrameBody::Settings(announced));
    assert_eq!(refused, Err(ClientError::Unexpected));
}

/// By a clock that was put back an earlier config is in force, whose noise no round has.
#[test]
fn mix_83_the_level_counts_the_noise_of_the_rounds_that_came_back() {
    let first = standard();
    let mut desk = Desk::joined(first.clone(), NoiseFloor::STANDARD);
    let weak = successor(&first, |next| {
        for policy in &mut next.services {
            (policy.mu, policy.scale) = (policy.mu / 20 * 2, policy.scale / 20 * 2);
            policy.base_round = 101 + Time::HOUR_MS / 5_000;
        }
    });
    let begins = weak.config().valid_from;
    desk.until(begins.minus_ms(60_000));
    desk.input(Input::Down).expect("it was up");
    desk.connect(true);
    desk.welcome(weak.config().hash());
    desk.config(0, &weak).expect("its guardian signed");
    desk.config = weak.config().clone();
    let base = weak.config().services[0].base_round;
    (base..base + 10).for_each(|round| desk.talk(round, 500));
    assert_eq!(desk.levels(), [], "too little noise");
    desk.now = begins.minus_ms(2 * Time::HOUR_MS);
    desk.client.wake(desk.now, &mut desk.rng);
    desk.drain();
    assert!(desk.client.is_returning());
    assert_eq!(desk.levels(), [], "the rounds had too little");
}
