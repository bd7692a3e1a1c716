//! The rules of a client, in a town of whole ones.

use std::collections::BTreeMap;

use mezza_core::{Machine as _, Secret, Wiping};
use mezza_mixnet::client::record::RECORD_BYTES;
use mezza_mixnet::client::{
    Client, ClientOptions, Input, Invite, NewRoot, Output, RefusedReason, RestoreError, StartRounds,
};
use mezza_mixnet::config::{Config, NetworkId, ServicePolicy};
use mezza_mixnet::contact::{Role, assign_bucket};
use mezza_mixnet::coordinator;
use mezza_mixnet::mix::NoiseFloor;
use mezza_mixnet::privacy::ledger::BudgetState;
use mezza_mixnet::wire::invitation::BODY_BYTES;
use mezza_mixnet::{RoundId, Service};

use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng as _;

use crate::fixture::{OPEN, config};
use crate::town::{Person, Town, dialling_key};

/// All services, short rounds, as little noise as there is.
fn quick() -> Config {
    let mut config = config(3);
    for policy in &mut config.services {
        let ServicePolicy { mu, scale, buckets, .. } = policy;
        (*mu, *scale, *buckets) = (2, 0, 1);
        (policy.ask_ms, policy.lead_ms, policy.mix_limit_ms) = (500, 500, 1_000);
        (policy.interval_ms, policy.collect_ms) = (2_000, 1_000);
    }
    config
}

fn talks() -> Config {
    let mut config = quick();
    config.services.truncate(1);
    config
}

/// Rounds of 2 s since the first one.
fn rounds(town: &mut Town, count: u64) {
    let end = town.now().plus_ms(2_000 * count);
    town.until(end);
}

/// A town in which everybody has joined.
fn joined(config: Config, people: u64, seed: u64) -> Town {
    let mut town = Town::new(config, people, seed);
    town.until(OPEN.plus_ms(1_500));
    town
}

/// Two contacts who serve each other: without a call service nobody is called.
fn meet(town: &mut Town) {
    town.introduce(0, 1, 1);
    for at in [0, 1] {
        town.give(at, Input::Activate(1 - at as u32));
    }
}

/// How many frames of each kind and size left a person since a moment.
fn shape(person: &Person, since: usize) -> BTreeMap<(u8, usize), usize> {
    let mut shape = BTreeMap::new();
    for (_, kind, bytes) in &person.frames[since..] {
        *shape.entry((*kind, *bytes)).or_default() += 1;
    }
    shape
}

#[test]
fn mix_21_and_22_idle_busy_and_long_queues_look_alike() {
    let mut town = joined(quick(), 6, 1);
    for (a, b, root) in [(1, 2, 1), (3, 4, 2)] {
        town.introduce(a, b, root);
    }
    // Let the snapshots of the introductions be over.
    rounds(&mut town, 1);
    let since: Vec<_> = town.people.iter().map(|p| (p.frames.len(), p.records.len())).collect();
    for n in 1..21_u8 {
        town.write(3, 4, vec![n; 5_000]);
    }
    for n in 1..11_u8 {
        town.write(1, 2, vec![n; 30]);
        town.call(2, 1);
        let to = dialling_key(0);
        let invite =
            Invite { ticket: 1_000 + u64::from(n), to, body: Wiping::new([n; BODY_BYTES]) };
        town.give(5, Input::Invite(invite));
        rounds(&mut town, 1);
    }
    let shapes = town.people.iter().zip(&since).map(|(p, (frames, _))| shape(p, *frames));
    let shapes = shapes.collect::<Vec<_>>();
    assert!(shapes.iter().all(|other| *other == shapes[0]), "{shapes:#?}");
    let onions = |service: Service| (0x06, 14 + service.onion_bytes(3));
    for service in Service::ALL {
        assert!((9..=10).contains(&shapes[0][&onions(service)]), "one SUBMIT each round");
    }
    assert!((18..=20).contains(&shapes[0][&(0x41, 18)]), "one GET for each bucket round");
    assert_eq!(shapes[0].len(), 4, "and nothing else");
    let records = town.people.iter().zip(&since).map(|(p, (_, records))| p.records.len() - records);
    let records = records.collect::<Vec<_>>();
    assert!(records.iter().all(|count| *count == records[0]), "{records:?}");
    assert!(town.people.iter().flat_map(|p| &p.records).all(|bytes| *bytes == RECORD_BYTES));
    // They did what they were to do.
    assert!(town.people[1].mails.iter().all(|mail| mail.handed));
    assert!(!town.told(1, |news| matches!(news, Output::Called(2, _)).then_some(())).is_empty());
    assert!(!town.told(0, |news| matches!(news, Output::Invited(_)).then_some(())).is_empty());
}

#[test]
fn mix_26_slow_who_comes_back_takes_part_from_the_next_round_on() {
    let back = [false, true].map(|busy| {
        let mut town = joined(talks(), 2, 2);
        meet(&mut town);
        if busy {
            (1..7_u8).for_each(|n| town.write(0, 1, vec![n; 100]));
        }
        rounds(&mut town, 2);
        town.people[0].luck.dead = 1_000;
        town.cut(0);
        rounds(&mut town, 6);
        let away = town.people[0].frames.len();
        town.people[0].luck.dead = 0;
        rounds(&mut town, 60);
        assert_eq!(town.people[1].inbox.get(&0).map_or(0, Vec::len), if busy { 6 } else { 0 });
        let back = &town.people[0].frames[away..];
        let submits = back.iter().filter(|(_, kind, _)| *kind == 0x06);
        let mut windows = submits.map(|(at, ..)| at.since_ms(OPEN) / 2_000).collect::<Vec<_>>();
        let all = windows.len();
        windows.dedup();
        assert_eq!(windows.len(), all, "never two in one round");
        assert_eq!(windows[all - 1] - windows[0] + 1, all as u64, "and none is left out");
        assert!(all > 20);
        (shape(&town.people[0], away), windows[0])
    });
    assert_eq!(back[0], back[1], "idle or busy");
}

#[test]
fn mix_23_what_is_not_durable_in_time_is_not_sent() {
    for busy in [false, true] {
        let mut town = joined(talks(), 2, 3);
        meet(&mut town);
        if busy {
            town.write(0, 1, vec![1; 100]);
        }
        let submits =
            |town: &Town| town.people[0].frames.iter().filter(|(_, kind, _)| *kind == 0x06).count();
        town.people[0].slow_disk = true;
        rounds(&mut town, 1);
        let before = submits(&town);
        rounds(&mut town, 4);
        assert_eq!(submits(&town), before, "nothing leaves, idle or busy");
        town.catch_up(0);
        rounds(&mut town, 8);
        assert!(submits(&town) >= before + 7, "nothing is made up for");
        assert_eq!(town.people[1].inbox.len(), usize::from(busy));
    }
}

#[test]
fn mix_24_real_rounds_are_charged_whatever_becomes_of_them() {
    let mut town = joined(talks(), 2, 4);
    town.introduce(0, 1, 1);
    rounds(&mut town, 3);
    assert_eq!(town.people[0].spent(), 0, "idle rounds cost nothing");
    town.write(0, 1, vec![1; 3_000]);
    for _ in 0..5 {
        rounds(&mut town, 1);
        town.city.input(coordinator::Input::MixLost(1));
    }
    let spent = town.people[0].spent();
    let paid = town.people[0].paid.len() as u64;
    assert!(paid >= 4 && (paid..=paid + 1).contains(&spent), "{paid} left, {spent} charged");
    town.crash(0);
    rounds(&mut town, 6);
    assert!(town.people[0].spent() >= spent, "a start takes nothing back");
}

#[test]
fn mix_24_a_cell_without_data_costs_what_one_with_data_does() {
    let mut town = joined(talks(), 2, 4);
    meet(&mut town);
    rounds(&mut town, 6);
    let spent = [0, 1].map(|at| town.people[at].spent());
    assert!(spent.iter().all(|spent| (5..=6).contains(spent)), "{spent:?}");
}

#[test]
fn mix_25_slow_at_the_end_of_the_budget_nobody_is_served_unless_more_is_allowed() {
    let mut config = talks();
    config.services[0].rounds = 10;
    let mut town = joined(config, 2, 5);
    meet(&mut town);
    town.write(0, 1, vec![1; 8_000]);
    rounds(&mut town, 16);
    let budget = town.told(0, |news| match news {
        Output::Budget(service, level) => Some((*service, *level)),
        _ => None,
    });
    let talk = Service::Conversation;
    assert_eq!(budget, [(talk, BudgetState::Low), (talk, BudgetState::Used)]);
    assert_eq!(town.people[0].spent(), 10);
    let idle = town.people[0].frames.len();
    town.write(0, 1, b"more".to_vec());
    let refused = |news: &Output| match news {
        Output::Refused(_, refusal) => Some(*refusal),
        _ => None,
    };
    assert_eq!(town.told(0, refused), [RefusedReason::Budget]);
    rounds(&mut town, 4);
    assert_eq!(town.people[0].frames.len(), idle + 4, "idle cells go on");
    town.crash(0);
    rounds(&mut town, 8);
    assert_eq!(town.people[0].spent(), 10);
    for at in [0, 1] {
        town.give(at, Input::AllowMore(true));
    }
    town.cut(0);
    rounds(&mut town, 90);
    assert_eq!(town.people[1].inbox[&0], [vec![1; 8_000], b"more".to_vec()]);
}

#[test]
fn mix_33_a_message_is_acknowledged_once_the_messenger_has_it() {
    let mut town = joined(talks(), 2, 6);
    meet(&mut town);
    town.people[1].slow_messenger = true;
    town.write(0, 1, vec![1; 20]);
    rounds(&mut town, 8);
    assert_eq!(town.people[1].inbox[&0], [vec![1; 20]]);
    assert!(town.people[0].mails[0].handed && !town.people[0].mails[0].acked);
    town.catch_up(1);
    town.write(1, 0, vec![2; 20]);
    rounds(&mut town, 8);
    assert!(town.people[0].mails[0].acked);
}

#[test]
fn mix_33_what_was_not_kept_comes_out_again_after_a_start() {
    let mut town = joined(talks(), 2, 7);
    meet(&mut town);
    town.people[1].slow_messenger = true;
    town.write(0, 1, vec![1; 20]);
    rounds(&mut town, 2);
    // Its piece is in a record, which is all that the partner may forget it for.
    town.crash(1);
    rounds(&mut town, 4);
    let client = town.people[1].client.as_ref().expect("it was started again");
    assert!(client.rounds().count() > 0);
    town.catch_up(1);
    rounds(&mut town, 10);
    assert_eq!(town.people[1].inbox[&0], [vec![1; 20]]);
    assert!(town.people[0].mails[0].acked);
}

#[test]
fn a_call_activates_and_an_invitation_arrives() {
    let mut town = joined(quick(), 3, 8);
    town.introduce(0, 1, 1);
    let body = Wiping::new([7; BODY_BYTES]);
    town.give(0, Input::Invite(Invite { ticket: 9, to: dialling_key(2), body: body.clone() }));
    assert!(!town.people[1].client.as_ref().expect("it runs").is_active(0));
    town.write(0, 1, b"hello".to_vec());
    rounds(&mut town, 12);
    let called = |news: &Output| matches!(news, Output::Called(..)).then_some(());
    assert_eq!((town.told(1, called).len(), town.told(2, called).len()), (1, 0));
    assert!(town.people[1].client.as_ref().expect("it runs").is_active(0));
    assert_eq!(town.people[1].inbox[&0], [b"hello".to_vec()]);
    let invited = |news: &Output| match news {
        Output::Invited(invitation) => Some((invitation.bucket, invitation.body.clone())),
        _ => None,
    };
    let home = assign_bucket(&dialling_key(0), &NetworkId([0xaa; 16]), 1);
    assert_eq!(town.told(2, invited), [(home, body)]);
    assert_eq!(town.told(1, invited), []);
    assert!(!town.told(0, |news| matches!(news, Output::Handed(9)).then_some(())).is_empty());
}

#[test]
fn slow_who_missed_a_call_is_called_again_within_some_rounds() {
    let mut town = joined(quick(), 3, 8);
    town.introduce(0, 1, 1);
    town.write(0, 1, b"hello".to_vec());
    let called = |news: &Output| matches!(news, Output::Called(..)).then_some(());
    // The first call goes out while the one who is called takes part in no round.
    for _ in 0..30 {
        town.cut(1);
        let end = town.now().plus_ms(400);
        town.until(end);
    }
    assert!(town.told(1, called).is_empty() && town.people[1].inbox.is_empty());
    rounds(&mut town, 40);
    assert_eq!(town.people[1].inbox[&0], [b"hello".to_vec()]);
    assert_eq!(town.told(1, called).len(), 1, "who is there is not called again");
}

#[test]
fn a_new_root_takes_over_at_its_first_meeting() {
    let mut town = joined(talks(), 2, 9);
    town.introduce(0, 1, 1);
    for n in 1..5_u8 {
        town.write(0, 1, vec![n; 600]);
    }
    rounds(&mut town, 4);
    let round = |town: &Town| 100 + town.now().since_ms(OPEN) / 2_000;
    for (at, role) in [(0, Role::Initiator), (1, Role::Responder)] {
        let root = Secret::init_with(|s| s.fill(9));
        let start = StartRounds { conversation: round(&town), call: 100 };
        let contact = 1 - at as u32;
        town.give(at, Input::Add(NewRoot { contact, root, role, start, bucket: 1 }));
    }
    rounds(&mut town, 40);
    town.crash(0);
    town.write(1, 0, b"over the new root".to_vec());
    rounds(&mut town, 20);
    let inbox = &town.people[1].inbox[&0];
    // What the old root got across and the new one again has the number of another root.
    let mut distinct = inbox.clone();
    distinct.dedup();
    distinct.sort();
    distinct.dedup();
    assert_eq!(distinct, (1..5_u8).map(|n| vec![n; 600]).collect::<Vec<_>>());
    assert_eq!(town.people[0].inbox[&1], [b"over the new root".to_vec()]);
}

#[test]
fn who_leaves_tells_the_partner_and_is_served_no_longer() {
    let mut town = joined(talks(), 2, 10);
    town.introduce(0, 1, 1);
    town.write(0, 1, b"bye".to_vec());
    town.give(1, Input::Activate(0));
    rounds(&mut town, 4);
    let active = |town: &Town| {
        [0, 1].map(|at| town.people[at].client.as_ref().expect("it runs").is_active(1 - at as u32))
    };
    assert_eq!(active(&town), [true, true]);
    town.give(0, Input::Leave(1));
    rounds(&mut town, 5);
    assert_eq!(active(&town), [false, false]);
    let spent = town.people[0].spent();
    rounds(&mut town, 3);
    assert_eq!(town.people[0].spent(), spent);
}

#[test]
fn slow_a_quiet_contact_is_served_for_ten_minutes() {
    let mut town = joined(talks(), 2, 11);
    town.introduce(0, 1, 1);
    town.write(0, 1, b"one word".to_vec());
    town.give(1, Input::Activate(0));
    rounds(&mut town, 290);
    assert!(town.people[0].client.as_ref().expect("it runs").is_active(1));
    rounds(&mut town, 20);
    assert!(!town.people[0].client.as_ref().expect("it runs").is_active(1));
}

#[test]
fn rows_that_no_client_wrote_are_refused() {
    let mut town = joined(talks(), 2, 12);
    town.introduce(0, 1, 1);
    town.write(0, 1, vec![1; 500]);
    rounds(&mut town, 4);
    let now = town.now();
    let person = &town.people[0];
    let pin = town.city.net.config.hash();
    let restore = |rows: &[(u64, Vec<u8>)], pin| {
        let rng = &mut ChaCha20Rng::seed_from_u64(1);
        let dialling = mezza_core::StaticKey::random::<mezza_core::PortableBackend>(rng);
        let setup = ClientOptions {
            pin,
            dialling,
            floor: NoiseFloor::None,
            kernel: mezza_lanes::portable(),
        };
        let rows = rows.iter().map(|(seq, row)| (*seq, row.as_slice()));
        Client::<mezza_core::PortableBackend>::restore(setup, rows, now, rng)
            .map(|mut client| client.poll().is_some())
    };
    let rows = person.rows.clone().into_iter().collect::<Vec<_>>();
    assert!(rows.len() > 3 && restore(&rows, pin).is_ok());
    assert_eq!(restore(&[], pin), Err(RestoreError::Missing));
    assert_eq!(restore(&rows[1..], pin), Err(RestoreError::Missing), "no snapshot in front");
    assert_eq!(restore(&rows, [1; 32]), Err(RestoreError::Foreign));
    let mut twice = rows.clone();
    twice.push(rows[1].clone());
    assert_eq!(restore(&twice, pin), Err(RestoreError::Missing));
    twice.last_mut().expect("a row").0 = u64::MAX;
    assert_eq!(restore(&twice, pin), Err(RestoreError::Missing), "no row has this number");
    let mut cut = rows;
    cut[0].1.truncate(100);
    assert!(matches!(restore(&cut, pin), Err(RestoreError::Damaged(_))));
}

#[test]
fn who_has_no_contact_of_that_name_hears_so() {
    let mut town = joined(talks(), 2, 13);
    town.write(0, 1, b"nobody".to_vec());
    let refused = town.told(0, |news| match news {
        Output::Refused(_, refusal) => Some(refusal.number()),
        _ => None,
    });
    assert_eq!(refused, [3]);
    let id = RoundId { service: Service::Conversation, round: 1 };
    let before = format!("{:?}", town.people[0].client);
    for input in [Input::Lost(id), Input::Stored(1), Input::Remove(7), Input::Leave(7)] {
        town.give(0, input);
        assert_eq!(format!("{:?}", town.people[0].client), before);
    }
}
