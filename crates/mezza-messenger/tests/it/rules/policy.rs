//! Policy: MSG-20 to MSG-25.

use mezza_core::Machine as _;
use mezza_messenger::CarrierId;
use mezza_messenger::evidence::{NoteState, WaitReason};
use mezza_messenger::policy::{Fallback, Policy};
use mezza_messenger::{
    CarrierOutput, Command, ContactId, DeviceError, Input, Output, PersonError, RelayInput,
    RelayOutput,
};

use crate::model::Ask;
use crate::stage::{Stage, connection};

fn pin(stage: &mut Stage, who: usize, contact: ContactId, policy: Policy) {
    stage.command(who, Command::Policy { contact, policy }).expect("a sound policy");
}

#[test]
fn msg_20_nothing_leaves_below_the_pin() {
    let (mut stage, bob, alice) = Stage::friends();
    pin(&mut stage, 0, bob, Policy { level_min: 3, ..Policy::default() });
    let before = stage.parties[0].left.len();
    let note = stage.say(0, bob, "not over a relay");
    // Not even what nobody wrote: Bob's note is stored, its receipt waits.
    stage.say(1, alice, "a note that would be receipted");
    stage.pass(60_000);
    let left = &stage.parties[0].left[before..];
    assert!(left.iter().all(|ask| !matches!(ask, Ask::Put(..) | Ask::Get(..))), "{left:?}");
    assert_eq!(stage.state(0, note), NoteState::Queued(WaitReason::BelowPin));
    // And no bundle is fetched for a contact above the relay's level.
    let mut stage = Stage::new(&["alice", "bob"]);
    let bob = stage.add(0, 1);
    pin(&mut stage, 0, bob, Policy { level_min: 2, ..Policy::default() });
    stage.say(0, bob, "x");
    assert!(stage.parties[0].left.iter().all(|ask| !matches!(ask, Ask::Get(..))));
}

#[test]
fn msg_20_what_no_person_wrote_waits_for_the_level_of_its_cause() {
    let (mut stage, bob, alice) = Stage::friends();
    let higher = || RelayInput::Up { connection: connection(), level: 3, demo: false };
    stage.input(0, higher()).expect("up");
    // More receipts than may go at once: the last ones wait.
    let notes: Vec<_> = (0..14).map(|n| stage.say(1, alice, &format!("note {n}"))).collect();
    let last = notes[13];
    assert!(matches!(stage.state(1, last), NoteState::Handed(_)), "{:?}", stage.state(1, last));
    stage.input(0, RelayInput::Up { connection: connection(), level: 1, demo: false }).expect("up");
    stage.pass(60_000);
    // Nor does it ride on what a person writes below that level.
    let own = stage.say(0, bob, "mine, at level 1");
    assert_eq!(stage.state(0, own), NoteState::Delivered);
    stage.restart(0);
    stage.online(0);
    stage.pass(60_000);
    assert!(matches!(stage.state(1, last), NoteState::Handed(_)), "{:?}", stage.state(1, last));
    stage.input(0, higher()).expect("up");
    stage.settle();
    stage.pass(60_000);
    assert_eq!(stage.state(1, last), NoteState::Delivered);
    // What comes at level 1 is answered at level 1.
    stage.input(0, RelayInput::Up { connection: connection(), level: 1, demo: false }).expect("up");
    let low = stage.say(1, alice, "at level 1");
    stage.pass(60_000);
    assert_eq!(stage.state(1, low), NoteState::Delivered);
}

#[test]
fn msg_21_without_fallback_only_the_first_carrier() {
    let (mut stage, bob, _) = Stage::friends();
    let carriers = vec![CarrierId::MESH, CarrierId::RELAY];
    let strict = Policy { carriers: carriers.clone(), ..Policy::default() };
    pin(&mut stage, 0, bob, strict);
    let note = stage.say(0, bob, "by the mesh alone");
    assert_eq!(stage.state(0, note), NoteState::Queued(WaitReason::NoCarrier));
    pin(&mut stage, 0, bob, Policy { carriers, fallback: Fallback::Listed, ..Policy::default() });
    assert_eq!(stage.state(0, note), NoteState::Delivered);
}

/// Outputs of one input that nobody carries out.
fn unanswered(stage: &mut Stage, input: Input) -> Vec<Output> {
    let Stage { parties, now, rng, .. } = stage;
    let device = &mut parties[0].device;
    device.handle(input, *now, rng).expect("taken");
    core::iter::from_fn(|| device.poll()).collect()
}

#[test]
fn msg_21_what_is_sealed_for_a_carrier_that_is_allowed_no_more_is_taken_back() {
    let (mut stage, bob, _) = Stage::friends();
    let carries = |outputs: &[Output]| {
        outputs
            .iter()
            .filter(|output| {
                matches!(output, Output::Carrier(CarrierOutput::Relay(RelayOutput::Put { .. })))
            })
            .count()
    };
    let send = Command::Send { contact: bob, client: [9; 16], text: "x".into(), life: None };
    let outputs = unanswered(&mut stage, Input::Command(send));
    assert_eq!(carries(&outputs), 1, "sealed, and on its way to the relay");
    let by = |carrier| Policy { carriers: vec![carrier], ..Policy::default() };
    let change = |carrier| Input::Command(Command::Policy { contact: bob, policy: by(carrier) });
    let outputs = unanswered(&mut stage, change(CarrierId::MIXNET));
    assert_eq!(carries(&outputs), 0);
    let again = [
        RelayInput::Down { connection: connection() },
        RelayInput::Up { connection: connection(), level: 1, demo: false },
    ];
    for input in again {
        assert_eq!(carries(&unanswered(&mut stage, input.into())), 0, "not by the relay any more");
    }
    let note = stage.parties[0].device.find_sent(&[9; 16]).expect("there");
    assert_eq!(stage.state(0, note), NoteState::Queued(WaitReason::NoCarrier));
    let outputs = unanswered(&mut stage, change(CarrierId::RELAY));
    assert_eq!(carries(&outputs), 1, "once it is allowed again");
}

#[test]
fn msg_22_a_restart_lowers_no_pin() {
    let (mut stage, bob, _) = Stage::friends();
    let strict = Policy { level_min: 4, timer_s: 3_600, ..Policy::default() };
    pin(&mut stage, 0, bob, strict.clone());
    let note = stage.say(0, bob, "x");
    stage.restart(0);
    stage.online(0);
    assert_eq!(stage.parties[0].device.contact(bob).expect("there").policy, strict);
    assert_eq!(stage.parties[0].device.note(note, stage.now).expect("there").level_min, 4);
    // Lowering it is a command of its own and does not reach back to notes already written.
    pin(&mut stage, 0, bob, Policy::default());
    assert_eq!(stage.state(0, note), NoteState::Queued(WaitReason::BelowPin));
}

#[test]
fn web_21_a_waiting_note_leaves_at_the_level_of_now_if_the_user_wants_it() {
    let (mut stage, bob, alice) = Stage::friends();
    pin(&mut stage, 0, bob, Policy { level_min: 3, ..Policy::default() });
    let [note, other] = ["for level 3", "for level 3, too"].map(|text| stage.say(0, bob, text));
    let lower = |note| Command::LowerLevel { note };
    let refused = Err(DeviceError::Person(PersonError::NotNow));
    assert_eq!(stage.command(0, lower(note)), refused, "the conversation is at level 3 itself");
    pin(&mut stage, 0, bob, Policy::default());
    stage.settle();
    assert_eq!(stage.state(0, note), NoteState::Queued(WaitReason::BelowPin));
    stage.command(0, lower(note)).expect("it waits above the level of now");
    stage.settle();
    assert_eq!(stage.state(0, note), NoteState::Delivered);
    assert_eq!(stage.state(0, other), NoteState::Queued(WaitReason::BelowPin), "only the one");
    assert_eq!(stage.command(0, lower(note)), refused, "it has left");
    // Neither a restart nor a block changes what was decided.
    stage.command(0, lower(other)).expect("it waits");
    stage.restart(0);
    assert_eq!(stage.parties[0].device.note(other, stage.now).expect("there").level_min, 1);
    let theirs = stage.say(1, alice, "hello");
    assert_eq!(stage.command(1, lower(theirs)), refused, "it waits for no level");
}

#[test]
fn msg_24_a_falling_level_leaves_notes_queued_with_the_reason() {
    let (mut stage, bob, _) = Stage::friends();
    let higher = || RelayInput::Up { connection: connection(), level: 2, demo: false };
    stage.input(0, higher()).expect("up");
    pin(&mut stage, 0, bob, Policy { level_min: 2, ..Policy::default() });
    let first = stage.say(0, bob, "at level 2");
    assert_eq!(stage.state(0, first), NoteState::Delivered);
    stage.input(0, RelayInput::Up { connection: connection(), level: 1, demo: false }).expect("up");
    let second = stage.say(0, bob, "at level 1");
    assert_eq!(stage.state(0, second), NoteState::Queued(WaitReason::BelowPin));
}

#[test]
fn msg_25_too_big_is_refused_before_acceptance() {
    let (mut stage, bob, _) = Stage::friends();
    let send = |text: String| Command::Send { contact: bob, client: [3; 16], text, life: None };
    let refused = stage.command(0, send("x".repeat(8_193)));
    assert_eq!(
        refused,
        Err(DeviceError::Person(PersonError::TextTooLong { bytes: 8_193, max: 8_192 }))
    );
    assert_eq!(
        stage.command(0, send(String::new())),
        Err(DeviceError::Person(PersonError::EmptyText))
    );
    stage.command(0, send("x".repeat(8_192))).expect("this one fits");
    let note = stage.parties[0].device.find_sent(&[3; 16]).expect("there");
    assert_eq!(stage.state(0, note), NoteState::Delivered);
}
