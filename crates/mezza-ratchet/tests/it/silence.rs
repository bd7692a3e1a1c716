//! RATCHET-70: `Debug` shows type names and indices, never a key, a body, an id or a name.

use insta::assert_snapshot;
use mezza_core::{Machine, Suite};
use mezza_ratchet::prekeys::{Input, Output};
use mezza_ratchet::suite::B2c20;
use mezza_ratchet::{Bundle, OpenError, Prekeys, SuiteList};

use crate::people::{self, START, open_session, two_people};

#[test]
fn ratchet_70_debug_is_silent() {
    let (mut alice, mut bob) = two_people(70);
    let bundle = Bundle::decode(&bob.server.bundle).expect("a bundle");
    let mut shown = vec![format!("{bundle:?}")];
    let checked = bundle
        .check_with(
            &SuiteList::without_kem(),
            alice.talk.remote(),
            &SuiteList::without_kem(),
            START,
        )
        .expect("a good one");
    shown.push(format!("{checked:?}"));
    let base = alice.fresh();
    let one_time = bob.server.one_time[0];
    let (session, exporter) = checked
        .initiate_session(&alice.identity, base, Some(one_time), &mut alice.rng)
        .expect("a session");
    shown.push(format!("{session:?} {exporter:?} {one_time:?}"));
    let changes = alice.talk.add_session(session, START);
    shown.push(format!("{changes:?}"));
    alice.disk.apply(changes);
    let _ = alice.send(b"skipped");
    let message = alice.send(b"a planted secret");
    let opened = {
        let own = &bob.identity;
        bob.talk.open(&message, &[], own, &mut bob.prekeys, START).expect("a message")
    };
    shown.push(format!("{opened:?} {:?}", opened.changes));
    let talk = &bob.talk;
    let prekeys = &bob.prekeys;
    let identity = &bob.identity;
    shown.push(format!("{talk:?} {prekeys:?} {identity:?} {:?}", identity.public_key()));
    shown.push(format!("{:?}", bob.disk.records(|_| true).first()));
    assert_snapshot!(shown.join("\n"), @r"
    Bundle
    CheckedBundle
    Session(B2c20) Exporter OneTimePrekey
    Changes([Put(Session)])
    Opened { first: true } Changes([Put(Skipped), Drop(Opk), Put(Seen), Put(Session)])
    Conversation Prekeys IdentityKeyPair IdentityKey
    Some(StoredRow(Spk))
    ");
}

#[test]
fn ratchet_70_outputs_and_errors_are_silent() {
    let (mut alice, mut bob) = open_session(71);
    let mut prekeys = people::offering(Prekeys::new(bob.identity.duplicate()), B2c20::ID);
    prekeys.wake(START, &mut bob.rng);
    let mut shown = vec![format!("{:?}", prekeys.poll())];
    let fresh =
        Input::Fresh { spk: vec![bob.fresh().into_static()], opk: vec![bob.fresh().into_static()] };
    shown.push(format!("{fresh:?}"));
    prekeys.handle(fresh, START, &mut bob.rng).expect("asked for");
    while let Some(output) = prekeys.poll() {
        // The bundle and the one-time keys are public, and yet not for a log.
        shown.push(format!("{output:?}"));
        assert!(!matches!(output, Output::Low));
    }
    let mut forged = alice.send(b"x");
    forged[60] ^= 1;
    let error = bob.receive(&forged).expect_err("forged");
    shown.push(format!("{error:?}: {error}"));
    shown.push(format!("{:?}: {}", OpenError::TooFar(7), OpenError::TooFar(7)));
    assert_snapshot!(shown.join("\n"), @r"
    Some(Need { spk: 1, opk: 100 })
    Fresh { spk: [StaticKey], opk: [StaticKey] }
    Store(Changes([Put(Spk), Put(Opk)]))
    Publish { one_time: 1, replace: true }
    Forged: the message does not open
    TooFar(7): the message lies 7 messages ahead
    ");
}
