//! Answers of a relay: their effects, and the time of the next request.

use mezza_core::{Machine as _, Time};
use mezza_messenger::evidence::{NoteState, WaitReason};
use mezza_messenger::view::ContactState;
use mezza_messenger::{
    CarrierId, CarrierOutput, Event, Output, RecordKind, RelayInput, RelayOutput, RequestId,
};

use crate::model::{Ask, OPEN, Tell};
use crate::stage::{Stage, carries, connection, load_any, send};

/// Codes of the relay.
const NO_SUCH_BOX: u8 = 1;
const BOX_FULL: u8 = 2;
const SLOW_DOWN: u8 = 4;
const ELSE: u8 = 5;

fn fetches(outputs: &[Output]) -> Vec<RequestId> {
    let tickets = outputs.iter().filter_map(|output| match output {
        Output::Carrier(CarrierOutput::Relay(RelayOutput::Fetch { ticket, .. })) => Some(*ticket),
        _ => None,
    });
    tickets.collect()
}

/// Returns the outputs of party 0 after `ms` milliseconds.
fn wakes(stage: &mut Stage, ms: u64) -> Vec<Output> {
    stage.now = stage.now.plus_ms(ms);
    let Stage { parties, now, rng, .. } = stage;
    parties[0].device.wake(*now, rng);
    stage.outputs()
}

#[test]
fn a_parcel_that_was_refused_goes_again_when_the_relay_said() {
    let (mut stage, bob, _) = Stage::friends();
    let cases = [
        (BOX_FULL, 5, WaitReason::BoxFull, 5),
        (BOX_FULL, 0, WaitReason::BoxFull, 1),
        (SLOW_DOWN, 5, WaitReason::Slow, 5),
        (SLOW_DOWN, 0, WaitReason::Slow, 1),
        (ELSE, 5, WaitReason::Slow, 60),
    ];
    for (n, (code, retry_s, why, waits_s)) in (0x91..).zip(cases) {
        let tickets = carries(&stage.alone(send(bob, n)));
        let [ticket] = tickets[..] else { panic!("{tickets:?}") };
        let outputs = stage.alone(RelayInput::Refused { ticket, code, retry_s });
        assert!(carries(&outputs).is_empty());
        let note = stage.parties[0].device.find_sent(&[n; 16]).expect("accepted");
        assert_eq!(stage.state(0, note), NoteState::Queued(why));
        assert!(carries(&wakes(&mut stage, waits_s * 1_000 - 1)).is_empty(), "{code} {retry_s}");
        let again = carries(&wakes(&mut stage, 1));
        assert_eq!(again.len(), 1, "{code} {retry_s}");
        stage.alone(RelayInput::Done { ticket: again[0] });
    }
}

#[test]
fn a_bundle_that_was_refused_is_fetched_again_when_the_relay_said() {
    let mut stage = Stage::new(&["alice", "bob"]);
    let bob = stage.add(0, 1);
    let mut tickets = fetches(&stage.alone(send(bob, 0x91)));
    let cases = [(SLOW_DOWN, 7, 7), (SLOW_DOWN, 0, 1), (NO_SUCH_BOX, 7, 60), (BOX_FULL, 7, 60)];
    for (code, retry_s, waits_s) in cases {
        let [ticket] = tickets[..] else { panic!("{tickets:?}") };
        let outputs = stage.alone(RelayInput::Refused { ticket, code, retry_s });
        assert!(fetches(&outputs).is_empty());
        assert!(fetches(&wakes(&mut stage, waits_s * 1_000 - 1)).is_empty(), "{code} {retry_s}");
        tickets = fetches(&wakes(&mut stage, 1));
    }
    assert_eq!(tickets.len(), 1);
}

#[test]
fn whoever_was_written_to_is_asked_once_the_relay_has_it() {
    let mut stage = Stage::new(&["alice", "bob"]);
    let bob = stage.add(0, 1);
    assert_eq!(stage.standing(0, bob), ContactState::Held);
    stage.parties[0].shown.clear();
    stage.say(0, bob, "hello");
    assert_eq!(stage.standing(0, bob), ContactState::Asked);
    assert!(stage.parties[0].shown.contains(&Event::Contact(bob)));
    stage.restart(0);
    assert_eq!(stage.standing(0, bob), ContactState::Asked);
}

#[test]
fn one_time_keys_under_way_count_as_stock() {
    let mut stage = Stage::new(&["alice"]);
    let published = |stage: &mut Stage, n: u16| {
        let outputs = stage.alone(RelayInput::Stock { connection: connection(), left: n });
        assert_eq!(stage.parties[0].device.own_identity().one_time_stock, Some(n));
        let keys = outputs.iter().filter_map(|output| match output {
            Output::Carrier(CarrierOutput::Relay(RelayOutput::Publish { one_time, .. })) => {
                Some(one_time.len())
            }
            _ => None,
        });
        let keys = keys.collect::<Vec<_>>();
        (keys, stage.parties[0].device.prekeys(stage.now).one_time_held)
    };
    assert_eq!(published(&mut stage, 20), (vec![], 100));
    assert_eq!(published(&mut stage, 19), (vec![81], 181));
    assert_eq!(published(&mut stage, 0), (vec![], 181), "81 are on their way");
}

#[test]
fn an_announcement_that_does_not_load_is_made_again() {
    let mut stage = Stage::new(&["alice"]);
    let row = (RecordKind::Prekey, vec![0]);
    stage.parties[0].disk.insert(row.clone(), vec![0xee; 9]);
    let device = load_any(&stage.parties[0].disk, stage.now, &mut stage.rng);
    stage.parties[0].device = device.expect("the identity is there");
    let left = stage.parties[0].left.len();
    stage.relay.leave(0);
    stage.drain(0);
    assert!(stage.parties[0].device.set_aside().is_empty());
    let bytes = stage.parties[0].disk.get(&row).map(Vec::len);
    assert!(bytes.is_some_and(|bytes| bytes > 9), "it is written anew");
    stage.settle();
    let sets = |ask: &Ask| matches!(ask, Ask::Set(..));
    assert!(stage.parties[0].left[left..].iter().any(sets));
    assert_eq!(stage.parties[0].disk.get(&row), None, "the relay has it");
}

#[test]
fn a_first_note_waits_for_the_mailbox_that_it_names() {
    let mut stage = Stage::new(&["alice", "bob"]);
    let bob = stage.add(0, 1);
    let outputs = stage.alone(send(bob, 0x91));
    let open = outputs.iter().find_map(|output| match output {
        Output::Carrier(CarrierOutput::Relay(RelayOutput::Open { ticket, .. })) => Some(*ticket),
        _ => None,
    });
    let (bytes, keys) = stage.relay.store.bundles[&stage.card(1).relays()[0].address].clone();
    let ticket = fetches(&outputs)[0];
    let bundle = RelayInput::Bundle { ticket, bytes, one_time: keys.last().copied() };
    assert!(carries(&stage.alone(bundle)).is_empty());
    let ticket = open.expect("a mailbox for Bob");
    assert_eq!(carries(&stage.alone(RelayInput::Done { ticket })).len(), 1);
}

#[test]
fn a_relay_keeps_what_goes_again_no_longer_than_the_first_time() {
    let (mut stage, bob, _) = Stage::friends();
    let ttl_h = |outputs: &[Output]| {
        let hours = outputs.iter().filter_map(|output| match output {
            Output::Carrier(CarrierOutput::Relay(RelayOutput::Put { ttl_h, .. })) => Some(*ttl_h),
            _ => None,
        });
        hours.collect::<Vec<_>>()
    };
    assert_eq!(ttl_h(&stage.alone(send(bob, 0x91))), [720]);
    for (days, hours) in [(1, 29 * 24), (28, 24)] {
        stage.alone(RelayInput::Down { connection: connection() });
        stage.now = stage.now.plus_ms(days * Time::DAY_MS);
        assert_eq!(ttl_h(&stage.alone(Tell::Up.into_input(connection()))), [hours]);
    }
}

#[test]
fn a_session_that_nobody_answered_for_a_month_gives_way_to_another() {
    let mut stage = Stage::new(&["alice", "bob"]);
    let bob = stage.add(0, 1);
    stage.say(0, bob, "hello");
    stage.pass(29 * Time::DAY_MS);
    stage.now = stage.now.plus_ms(2 * Time::DAY_MS);
    let gets = |stage: &Stage| {
        stage.parties[0].left.iter().filter(|ask| matches!(ask, Ask::Get(..))).count()
    };
    assert_eq!(gets(&stage), 1);
    let note = stage.say(0, bob, "hello once more");
    assert_eq!(gets(&stage), 2);
    assert_eq!(stage.state(0, note), NoteState::Handed(CarrierId::RELAY));
    let alice = stage.only_contact(1);
    assert_eq!(stage.texts(1, alice), ["hello", "hello once more"]);
}

/// The first answer says where the writer may answer to: whoever heard one without it would begin a
/// second session.
#[test]
fn a_first_answer_waits_for_the_mailbox_that_it_names() {
    let mut stage = Stage::new(&["alice", "bob"]);
    let bob = stage.add(0, 1);
    let alice = stage.add(1, 0);
    stage.offline(1);
    let note = stage.say(0, bob, "hello bob");
    stage.relay.refuses.insert(OPEN);
    stage.online(1);
    assert_eq!(stage.texts(1, alice), ["hello bob"]);
    assert!(!stage.relay.refuses.contains(&OPEN), "a mailbox for alice was asked for");
    stage.say(0, bob, "are you there?");
    stage.pass(2 * Time::MINUTE_MS);
    assert_eq!(stage.state(0, note), NoteState::Delivered);
    for party in &stage.parties {
        let sessions = party.disk.keys().filter(|(kind, _)| *kind == RecordKind::Session).count();
        assert_eq!(sessions, 1);
    }
}
