//! The share of this device that one contact may use: MSG-51 to MSG-53.

use std::collections::BTreeSet;

use mezza_core::{Machine as _, Time};
use mezza_messenger::io::DeliveryProblem;
use mezza_messenger::note::{Item, MixnetStart, Receipt};
use mezza_messenger::policy::{Policy, TIMERS_S, timer_step};
use mezza_messenger::{
    CarrierOutput, Command, ContactId, DeviceError, Input, Output, PersonError, RecordChange,
    RecordKind, RelayInput, RelayOutput, Retention,
};
use mezza_mixnet::config::NetworkId;

use crate::peer::{Peer, note, text};
use crate::stage::{Stage, load, write};

/// Hands a note to party 0, quicker than the stage does; what was stored of it.
fn floods(stage: &mut Stage, mail: Input) -> Vec<(RecordKind, Retention)> {
    let Stage { parties, now, rng, .. } = stage;
    let party = &mut parties[0];
    party.device.handle(mail, *now, rng).expect("mail is never refused");
    let mut stored = Vec::new();
    while let Some(output) = party.device.poll() {
        let Output::Store(batch) = output else { continue };
        stored.extend(batch.0.iter().filter_map(|change| match change {
            RecordChange::Put { kind, bucket, .. } => Some((*kind, *bucket)),
            RecordChange::Drop { .. } => None,
        }));
        write(&mut party.disk, batch.0);
    }
    stored
}

#[test]
fn msg_51_slow_what_is_over_the_share_is_not_kept_and_said() {
    let mut stage = Stage::new(&["alice"]);
    stage.ahead = false;
    let (mut mallory, contact) = Peer::open(&mut stage, 11);
    let fits = 16 * 1_024 / 8 - 1;
    let long = "x".repeat(8_192);
    let count = |stage: &Stage| stage.thread(0, contact).len();
    let trouble = |stage: &Stage| stage.parties[0].device.contact(contact).expect("there").trouble;
    for seq in 2..fits + 2 {
        let mail = mallory.mail(&mut stage, &note(seq, 0, vec![text(&long)]));
        floods(&mut stage, mail);
    }
    assert_eq!((count(&stage), trouble(&stage)), (fits as usize + 1, None));
    for n in 0..3 {
        let mail = mallory.mail(&mut stage, &note(fits + 2 + n, 0, vec![text(&long)]));
        let stored = floods(&mut stage, mail);
        assert!(stored.iter().all(|(kind, _)| *kind != RecordKind::Note), "{stored:?}");
    }
    assert_eq!(
        (count(&stage), trouble(&stage)),
        (fits as usize + 1, Some(DeliveryProblem::Share(3)))
    );
    // A restart forgets nothing of it, and what was not kept is not said to have arrived.
    let device = load(&stage.parties[0].disk, stage.now, &mut stage.rng);
    stage.parties[0].device = device;
    stage.settle();
    assert_eq!(trouble(&stage), Some(DeliveryProblem::Share(3)));
    stage.pass(Time::MINUTE_MS);
    let said = mallory.read(&mut stage);
    let receipts = said.iter().flat_map(|note| &note.items).filter_map(|item| match item {
        Item::Receipt(receipt) => Some(receipt),
        _ => None,
    });
    let proven = |seq| receipts.clone().any(|receipt: &Receipt| receipt.proves_seq(seq, false));
    assert!(proven(fits + 1) && !proven(fits + 2) && !proven(fits + 4));
    // Nobody else has less for it, and the next day there is room again.
    stage.now = stage.now.plus_ms(Time::DAY_MS);
    let mail = mallory.mail(&mut stage, &note(fits + 2, 0, vec![text("again")]));
    floods(&mut stage, mail);
    assert_eq!((count(&stage), trouble(&stage)), (fits as usize + 2, None));
}

#[test]
fn msg_51_what_was_seen_is_not_counted_any_more() {
    let mut stage = Stage::new(&["alice"]);
    let (mut peer, contact) = Peer::open(&mut stage, 11);
    for seq in 2..6 {
        peer.put(&mut stage, &note(seq, 0, vec![text("more")]));
    }
    let unread = |stage: &Stage| stage.parties[0].device.contact(contact).expect("there").unread;
    assert_eq!(unread(&stage), 5);
    stage.restart(0);
    assert_eq!(unread(&stage), 5);
    let thread = stage.thread(0, contact);
    stage.command(0, Command::Seen { contact, note: thread[2].id }).expect("seen");
    assert_eq!(unread(&stage), 2);
    stage.command(0, Command::Forget { note: thread[4].id }).expect("gone");
    stage.command(0, Command::Forget { note: thread[0].id }).expect("gone");
    assert_eq!(unread(&stage), 1);
}

#[test]
fn msg_52_timers_are_of_a_few_steps() {
    let wishes = [0, 1, 29, 30, 299, 300, 86_399, 86_400, 2_419_200, u32::MAX];
    let taken = [0, 1, 29, 30, 30, 300, 28_800, 86_400, 2_419_200, 2_419_200];
    assert_eq!(wishes.map(timer_step), taken);
    let mut stage = Stage::new(&["alice"]);
    stage.ahead = false;
    let (mut mallory, contact) = Peer::open(&mut stage, 11);
    let mut buckets = BTreeSet::new();
    for n in 0..200_u32 {
        let timer_s = 2 * 86_400 + n * 86_400;
        let mail = mallory.mail(&mut stage, &note(2 + n, timer_s, vec![text("soon gone")]));
        let stored = floods(&mut stage, mail).into_iter().map(|(_, bucket)| bucket);
        buckets.extend(stored.filter(|b| matches!(b, Retention::Hour(_) | Retention::Day(_))));
    }
    assert_eq!(buckets.len(), 3, "a day, a week, four weeks: {buckets:?}");
    // Whoever sets the timer of the conversation sets one of the steps.
    let mail = mallory.mail(&mut stage, &note(0, 0, vec![Item::Timer(3 * 86_400)]));
    floods(&mut stage, mail);
    let policy = stage.parties[0].device.contact(contact).expect("there").policy;
    assert_eq!(policy.timer_s, 86_400);
    let set = |stage: &mut Stage, timer_s| {
        let policy = Policy { timer_s, ..policy.clone() };
        stage.input(0, Input::Command(Command::Policy { contact, policy }))
    };
    for timer_s in [1, 29, 7_200, u32::MAX] {
        assert_eq!(
            set(&mut stage, timer_s),
            Err(DeviceError::Person(PersonError::BadPolicy)),
            "{timer_s} s"
        );
    }
    // What a contact asked for stands, whatever else of the policy changes.
    let mail = mallory.mail(&mut stage, &note(0, 0, vec![Item::Timer(29)]));
    floods(&mut stage, mail);
    for (timer_s, taken) in [(1, false), (29, true), (300, true), (29, false), (0, true)] {
        assert_eq!(set(&mut stage, timer_s).is_ok(), taken, "{timer_s} s");
    }
    assert!(TIMERS_S.iter().all(|step| timer_step(*step) == *step));
}

/// Envelopes that leave, all of them taken by the relay.
fn carried(stage: &mut Stage, outputs: Vec<Output>) -> usize {
    let mut outputs = outputs;
    let mut count = 0;
    loop {
        let tickets = outputs.iter().filter_map(|output| match output {
            Output::Carrier(CarrierOutput::Relay(RelayOutput::Put { ticket, .. })) => Some(*ticket),
            _ => None,
        });
        let tickets: Vec<_> = tickets.collect();
        if tickets.is_empty() {
            return count;
        }
        count += tickets.len();
        outputs = tickets
            .into_iter()
            .flat_map(|ticket| stage.alone(RelayInput::Done { ticket }))
            .collect();
    }
}

fn wakes(stage: &mut Stage, ms: u64) -> usize {
    stage.now = stage.now.plus_ms(ms);
    let Stage { parties, now, rng, .. } = stage;
    parties[0].device.wake(*now, rng);
    let outputs = stage.outputs();
    carried(stage, outputs)
}

/// Forty notes of party 0 that its contact has not confirmed.
fn forty(stage: &mut Stage, contact: ContactId) {
    for n in 0..40_u8 {
        let send = Command::Send {
            contact,
            client: [n + 1; 16],
            text: "not confirmed".into(),
            life: None,
        };
        let outputs = stage.alone(Input::Command(send));
        assert_eq!(carried(stage, outputs), 1);
    }
}

#[test]
fn msg_53_a_retry_sends_everything_again_bit_by_bit_and_once_in_ten_minutes() {
    let mut stage = Stage::new(&["alice"]);
    let (mut mallory, contact) = Peer::open(&mut stage, 11);
    forty(&mut stage, contact);
    let ask = |stage: &mut Stage, mallory: &mut Peer, items: Vec<Item>| {
        let mail = mallory.mail(stage, &note(0, 0, items));
        let outputs = stage.alone(mail);
        carried(stage, outputs)
    };
    assert_eq!(ask(&mut stage, &mut mallory, vec![Item::Reset(2), Item::Retry]), 16);
    assert_eq!(wakes(&mut stage, 1_000), 1, "then one in a second");
    let rest: usize = (0..60).map(|_| wakes(&mut stage, 1_000)).sum();
    assert_eq!(rest, 40 - 17);
    // More of it within ten minutes waits until they are over, also behind a restart.
    for items in [vec![Item::Retry], vec![Item::Reset(1)], vec![Item::Reset(2), Item::Retry]] {
        assert_eq!(ask(&mut stage, &mut mallory, items), 0);
    }
    let device = load(&stage.parties[0].disk, stage.now, &mut stage.rng);
    stage.parties[0].device = device;
    stage.outputs();
    let outputs = stage.alone(crate::model::Tell::Up.into_input(crate::stage::connection()));
    assert_eq!(carried(&mut stage, outputs), 0);
    assert_eq!(ask(&mut stage, &mut mallory, vec![Item::Retry]), 0);
    assert_eq!(wakes(&mut stage, 7 * Time::MINUTE_MS), 0);
    let due = stage.parties[0].device.deadline().expect("an answer is owed");
    assert!(due.since_ms(stage.now) < 3 * Time::MINUTE_MS);
    assert_eq!(wakes(&mut stage, 2 * Time::MINUTE_MS), 16, "and is answered once");
    let rest: usize = (0..60).map(|_| wakes(&mut stage, 1_000)).sum();
    assert_eq!(rest, 24);
    assert_eq!(wakes(&mut stage, 30 * Time::MINUTE_MS), 0);
}

#[test]
fn msg_53_whoever_invites_again_and_again_gets_everything_once_in_ten_minutes() {
    let mut stage = Stage::new(&["alice"]);
    stage.ahead = false;
    let (_, contact) = Peer::open(&mut stage, 11);
    forty(&mut stage, contact);
    let rewritten = |stage: &mut Stage| {
        let mut inviter = Peer::new(stage, 11);
        let meet =
            MixnetStart { network: NetworkId([1; 16]), conversation: 1, call: 1, root: None };
        let mail = inviter.mail(stage, &note(0, 0, vec![Item::Meet(meet)]));
        floods(stage, mail).iter().filter(|(kind, _)| *kind == RecordKind::Note).count()
    };
    assert!(rewritten(&mut stage) >= 40);
    for _ in 0..5 {
        assert_eq!(rewritten(&mut stage), 0);
    }
    stage.now = stage.now.plus_ms(10 * Time::MINUTE_MS);
    assert!(rewritten(&mut stage) >= 40);
}
