//! Answers of the relay about our mailboxes, and answers that it never gives.

use mezza_core::Time;
use mezza_messenger::io::Places;
use mezza_messenger::{
    CarrierOutput, Command, MailboxId, Output, RecordKind, RelayInput, RelayOutput, RequestId,
};

use crate::peer::{Peer, note, text};
use crate::stage::{Stage, carries, connection};

fn up() -> RelayInput {
    RelayInput::Up { connection: connection(), level: 1, demo: false }
}

fn places(stage: &Stage) -> Places {
    stage.parties[0].device.connections(stage.now)[0].places
}

/// The requests to watch a mailbox, and to open one.
fn asked(outputs: &[Output]) -> (Vec<(RequestId, MailboxId)>, Vec<RequestId>) {
    let mut watches = Vec::new();
    let mut opens = Vec::new();
    for output in outputs {
        match output {
            Output::Carrier(CarrierOutput::Relay(RelayOutput::Watch {
                ticket, mailbox, ..
            })) => {
                watches.push((*ticket, *mailbox));
            }
            Output::Carrier(CarrierOutput::Relay(RelayOutput::Open { ticket, .. })) => {
                opens.push(*ticket);
            }
            _ => {}
        }
    }
    (watches, opens)
}

/// Wakes the device so many milliseconds later; what it wants then.
fn later(stage: &mut Stage, ms: u64) -> Vec<Output> {
    stage.now = stage.now.plus_ms(ms);
    let Stage { parties, now, rng, .. } = stage;
    mezza_core::Machine::wake(&mut parties[0].device, *now, rng);
    stage.outputs()
}

#[test]
fn msg_90_a_refused_watch_is_repeated_and_counts_as_none_until_then() {
    let (mut stage, _, _) = Stage::friends();
    stage.alone(RelayInput::Down { connection: connection() });
    let (watches, _) = asked(&stage.alone(up()));
    assert_eq!(places(&stage), Places { all: watches.len() as u32, here: 0, elsewhere: 0 });
    for (ticket, _) in &watches {
        stage.alone(RelayInput::Refused { ticket: *ticket, code: 4, retry_s: 30 });
    }
    assert_eq!(places(&stage).here, 0);
    let (again, _) = asked(&later(&mut stage, Time::MINUTE_MS));
    assert_eq!(again.len(), watches.len());
    for (ticket, _) in again {
        stage.alone(RelayInput::Done { ticket });
    }
    assert_eq!(places(&stage).here, places(&stage).all);
}

#[test]
fn msg_120_a_watch_that_is_refused_for_a_moment_is_repeated_when_the_relay_says() {
    for retry_s in [3, 1] {
        let (mut stage, _, _) = Stage::friends();
        stage.alone(RelayInput::Down { connection: connection() });
        let (watches, _) = asked(&stage.alone(up()));
        let ticket = watches[0].0;
        stage.alone(RelayInput::Refused { ticket, code: 4, retry_s });
        // Never in less than two seconds, whatever the relay says.
        let wait_ms = u64::from(retry_s.max(2)) * Time::SECOND_MS;
        assert!(asked(&later(&mut stage, wait_ms - 1)).0.is_empty(), "{retry_s}");
        let (again, _) = asked(&later(&mut stage, 1));
        assert_eq!(again.len(), 1, "{retry_s}: what was not answered is not asked for twice");
    }
}

#[test]
fn msg_90_a_device_whose_mailbox_is_read_elsewhere_says_so_and_takes_it_back() {
    let (mut stage, _, _) = Stage::friends();
    stage.alone(RelayInput::Down { connection: connection() });
    let (watches, _) = asked(&stage.alone(up()));
    for (ticket, _) in &watches {
        stage.alone(RelayInput::Done { ticket: *ticket });
    }
    let mailbox = watches[0].1;
    stage.alone(RelayInput::Displaced { mailbox, over: false });
    let all = watches.len() as u32;
    assert_eq!(places(&stage), Places { all, here: all - 1, elsewhere: 1 });
    // It is not taken back while the other one is there.
    assert!(asked(&later(&mut stage, Time::HOUR_MS)).0.is_empty());
    let (again, _) = asked(&stage.alone(RelayInput::Displaced { mailbox, over: true }));
    assert_eq!(again.len(), 1);
    stage.alone(RelayInput::Done { ticket: again[0].0 });
    assert_eq!(places(&stage), Places { all, here: all, elsewhere: 0 });
}

/// A relay that says of a mailbox again and again that it does not know it has it opened once a minute.
#[test]
fn msg_90_a_mailbox_that_is_lost_again_and_again_is_opened_once_a_minute() {
    let (mut stage, _, _) = Stage::friends();
    stage.alone(RelayInput::Down { connection: connection() });
    let mut outputs = stage.alone(up());
    let mut opened = 0;
    for _ in 0..50 {
        let (watches, opens) = asked(&outputs);
        outputs.clear();
        opened += opens.len();
        for (ticket, _) in watches {
            outputs.extend(stage.alone(RelayInput::Refused { ticket, code: 1, retry_s: 0 }));
        }
        for ticket in opens {
            outputs.extend(stage.alone(RelayInput::Done { ticket }));
        }
    }
    let all = places(&stage).all as usize;
    assert_eq!(opened, all, "once each, and time stood still");
    let again = asked(&later(&mut stage, Time::MINUTE_MS));
    assert_eq!(again.1.len(), all);
}

#[test]
fn msg_35_a_contact_that_asks_for_receipts_without_end_has_eight_parcels() {
    let mut stage = Stage::new(&["alice"]);
    let (mut peer, _) = Peer::open(&mut stage, 11);
    stage.alone(RelayInput::Down { connection: connection() });
    stage.alone(up());
    for _ in 0..100 {
        let mail = peer.mail(&mut stage, &note(1, 0, vec![text("let me in")]));
        stage.alone(mail);
        later(&mut stage, 2_000);
    }
    let rows = stage.parties[0].disk.keys().filter(|(kind, _)| *kind == RecordKind::Parcel);
    assert_eq!(rows.count(), 8);
}

/// A relay that swallows the question for a bundle is asked again after a minute.
#[test]
fn msg_90_a_bundle_that_does_not_come_is_asked_for_again() {
    let mut stage = Stage::new(&["alice", "bob"]);
    let bob = stage.add(0, 1);
    let fetches = |outputs: &[Output]| {
        let fetch = |output: &&Output| {
            matches!(output, Output::Carrier(CarrierOutput::Relay(RelayOutput::Fetch { .. })))
        };
        outputs.iter().filter(fetch).count()
    };
    let send = Command::Send { contact: bob, client: [1; 16], text: "hello".into(), life: None };
    assert_eq!(fetches(&stage.alone(send)), 1);
    assert_eq!(fetches(&later(&mut stage, 30_000)), 0);
    assert_eq!(fetches(&later(&mut stage, 31_000)), 1);
}

/// The clock was a year ahead when something did not open: with the right clock the session heals.
#[test]
fn msg_31_a_clock_that_was_ahead_once_keeps_no_session_from_healing() {
    let mut stage = Stage::new(&["alice"]);
    let (peer, _) = Peer::open(&mut stage, 11);
    let garbage = |stage: &mut Stage, nr: u8| {
        let mut message = vec![0xf1, 0x01, 0x01, 0x02];
        message.extend([nr; 230]);
        let mailbox = peer.slot(stage);
        let envelope = peer.wrap(stage, &message);
        stage.alone(RelayInput::Mail { mailbox, mail: 100 + u64::from(nr), envelope })
    };
    let renewals = |stage: &Stage| {
        let rows = stage.parties[0].disk.iter();
        let mut rows = rows.filter(|((kind, _), _)| *kind == RecordKind::Renewal);
        rows.any(|(_, row)| row[1] == 1)
    };
    let right = stage.now;
    stage.now = right.plus_ms(365 * Time::DAY_MS);
    garbage(&mut stage, 1);
    // The other side begins a session, so that none is wanted any more.
    stage.now = right;
    let mut first = Peer::new(&mut stage, 11);
    first.writes_where(&peer);
    let mail = first.mail(&mut stage, &note(0, 0, vec![]));
    stage.alone(mail);
    assert!(!renewals(&stage));
    stage.now = right.plus_ms(Time::HOUR_MS);
    // There is no bundle for another session, so that the wish goes in the one that is there.
    assert_eq!(carries(&garbage(&mut stage, 2)).len(), 1);
}
