//! Cells: how two come to share chains, at which level they are answered, and whom the mixnet does
//! not serve any more (MSG-54).

use mezza_core::{Machine as _, Time};
use mezza_messenger::evidence::NoteState;
use mezza_messenger::io::DeliveryProblem;
use mezza_messenger::policy::Policy;
use mezza_messenger::{Command, ContactId, Event, MailboxId, Output, RecordKind, RelayInput};

use crate::stage::{START, connection};
use crate::town::{ROUND_MS, Town, cells, config};

const ANN: usize = 0;
const BEN: usize = 1;

/// Ben has written by the relay, and Ann has let him in without a word. Then both go by cells, of
/// which a year has so many rounds.
fn met(rounds: u64) -> (Town, ContactId, ContactId) {
    let mut config = config();
    for policy in &mut config.services {
        // No round begins where a year ends.
        (policy.rounds, policy.base_time) = (rounds, START.plus_ms(10_500));
    }
    let mut town = Town::with(config, &["ann", "ben"]);
    let ann = town.add(BEN, ANN, Policy::default());
    town.say(BEN, ann, "hello");
    let ben = town.members[ANN].device.contacts()[0].id;
    assert!(!town.is_known(ANN, ben) && !town.is_known(BEN, ann));
    town.command(ANN, Command::Accept { contact: ben }).expect("a request");
    for (who, contact) in [(ANN, ben), (BEN, ann)] {
        town.command(who, Command::Policy { contact, policy: cells(1) }).expect("sound");
    }
    (town, ben, ann)
}

fn until(town: &mut Town, there: impl Fn(&Town) -> bool) {
    for _ in 0..30 {
        if there(town) {
            return;
        }
        town.pass(ROUND_MS);
    }
    panic!("it does not come");
}

fn trouble(town: &Town, ben: ContactId) -> Option<DeliveryProblem> {
    town.members[ANN].device.contact(ben).expect("there").trouble
}

/// Ben has said more in cells than a year has rounds for.
fn muted() -> (Town, ContactId) {
    let (mut town, ben, ann) = met(240);
    assert_eq!(trouble(&town, ben), None);
    town.say(BEN, ann, "are you there?");
    until(&mut town, |town| town.thread(ANN, ben).len() == 2);
    (town, ben)
}

#[test]
fn where_the_chains_begin_is_said_though_nothing_else_is() {
    let (town, ben, ann) = met(1_000_000);
    assert!(town.is_known(ANN, ben) && town.is_known(BEN, ann));
}

#[test]
fn msg_20_what_came_in_cells_is_answered_at_their_level() {
    let (mut town, _, ann) = met(1_000_000);
    let level = town.members[ANN].device.carriers().network_view(town.now()).expect("joined").level;
    // The last mail of the relay came at a higher one.
    town.input(ANN, RelayInput::Up { connection: connection(), level: level + 1, demo: false })
        .expect("up");
    let mail = RelayInput::Mail { mailbox: MailboxId(1), mail: 1, envelope: vec![1; 512] };
    town.input(ANN, mail).expect("mail is never refused");
    let note = town.say(BEN, ann, "in cells");
    until(&mut town, |town| town.state(BEN, note) == NoteState::Delivered);
}

#[test]
fn msg_54_whoever_has_used_up_a_year_is_told_of_once_and_not_answered() {
    let (mut town, ben) = muted();
    let told = |town: &Town| {
        let told = Event::Trouble(ben, DeliveryProblem::Talk);
        town.members[ANN].shown.iter().filter(|event| **event == told).count()
    };
    let parcels = |town: &Town| {
        let rows = town.members[ANN].disk.keys();
        rows.filter(|(kind, _)| *kind == RecordKind::Parcel).count()
    };
    assert_eq!(
        (trouble(&town, ben), told(&town), parcels(&town)),
        (Some(DeliveryProblem::Talk), 1, 0)
    );
    // Another start forgets nothing of it.
    town.crash(ANN);
    town.pass(2 * ROUND_MS);
    assert_eq!((trouble(&town, ben), parcels(&town)), (Some(DeliveryProblem::Talk), 0));
}

#[test]
fn msg_54_each_year_has_its_own_rounds() {
    let (mut town, ben) = muted();
    let year_ms = 365 * Time::DAY_MS;
    let end = Time::from_ms((town.now().as_ms() / year_ms + 1) * year_ms);
    let Town { members, rng, .. } = &mut town;
    let device = &mut members[ANN].device;
    let mut wakes = |now: Time| {
        for _ in 0..100 {
            if device.deadline().is_none_or(|at| at > now) {
                break;
            }
            device.wake(now, rng);
        }
        let shown = core::iter::from_fn(|| device.poll());
        let told = |output: &Output| matches!(output, Output::Notify(Event::Trouble(..)));
        let told = shown.filter(told).count();
        (device.contact(ben).expect("there").trouble, told, device.deadline())
    };
    let muted = (Some(DeliveryProblem::Talk), 0, Some(end));
    wakes(end.minus_ms(Time::HOUR_MS));
    assert_eq!(wakes(end.minus_ms(1)), muted);
    let (trouble, told, next) = wakes(end);
    assert_eq!((trouble, told), (None, 0));
    assert!(next.is_some_and(|next| next > end));
}
