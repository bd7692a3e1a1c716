//! Rounds of a locked device, and their records for the unlocked one (MIX-78).

use super::partners::{met, rng, with_partner, with_partner_in};
use super::rounds::arm;
use super::*;
use crate::client::Access;
use crate::client::machine::rounds::{RoundState, Slot, SlotContents};
use crate::config::tests::signer;
use crate::wire::bucket::ObjectDigest;
use crate::wire::{Frame, Manifest};

const TALK: RoundId = RoundId { service: Service::Conversation, round: 101 };

/// The locked client in place of this one.
fn lock(client: Client, now: Time) -> Client {
    Client::idle(client.into_live_line(now), portable(), now, &mut rng())
}

/// The connection is lost, and there again an hour later.
fn lose_the_line(client: &mut Client, now: Time) {
    client.handle(Input::Down, now, &mut rng()).expect("it was up");
    client.link = Link::Greeted { trusted: true, failed: 0, until: None };
    let head = client.chain.as_ref().map_or([0; 32], Chain::head_hash);
    let now = now.plus_ms(Time::HOUR_MS);
    let welcome = Input::Frame { frame: Frame::Welcome { head, now }, age_ms: 0 };
    client.handle(welcome, now, &mut rng()).expect("it said hello");
}

fn slots(served: bool) -> SlotContents {
    let access = Access::for_idle_slot::<PortableBackend>(101, &mut rng());
    SlotContents::Drops(vec![Slot { access, served: served.then_some((0, None)) }])
}

#[test]
fn mix_78_a_lock_forgets_whom_rounds_under_way_serve() {
    let config = config(3);
    let mut client = with_partner_in(&config);
    let call = RoundId { service: Service::Call, round: 101 };
    let talks = [101, 102, 103].map(|round| RoundId { round, ..TALK });
    for id in talks.into_iter().chain([call]) {
        arm(&mut client, &config, id, 8_000);
    }
    let expected = vec![(0, Intent::Talk, [7; 16])];
    for (id, stage) in [
        (talks[0], RoundState::Sent { back: Vec::new(), content: slots(true) }),
        (talks[1], RoundState::Sealed { durable: true, work: None, content: slots(true) }),
        (talks[2], RoundState::Sealed { durable: false, work: None, content: slots(true) }),
        (call, RoundState::Sent { back: Vec::new(), content: SlotContents::Call(true, expected) }),
    ] {
        client.rounds.get_mut(&id).expect("it takes part").stage = stage;
    }
    let locked = lock(client, NOW);
    let kept: Vec<RoundId> = locked.rounds().collect();
    assert_eq!(kept, [talks[0], talks[1], call], "a record that is not durable sends nothing");
    for round in locked.rounds.values() {
        let (RoundState::Sealed { content, .. } | RoundState::Sent { content, .. }) = &round.stage
        else {
            panic!("it went on")
        };
        assert!(!content.is_real(), "{:?}", round.id());
        if let SlotContents::Call(_, expected) = content {
            assert!(expected.is_empty(), "tokens of contacts");
        }
    }
}

#[test]
fn mix_78_the_unlocked_device_calls_whom_it_missed() {
    let config = Config { valid_until: NOW.plus_ms(30 * Time::DAY_MS), ..config(3) };
    for loses_line in [false, true] {
        let mut client = with_partner_in(&config);
        client.left = None;
        client.on_reply(0, None, met(), NOW);
        client.take_snapshot(NOW);
        let stored = rows(&mut client);
        let mut locked = lock(client, NOW.plus_ms(1_000));
        if loses_line {
            lose_the_line(&mut locked, NOW.plus_ms(Time::HOUR_MS));
        }
        let now = NOW.plus_ms(9 * Time::HOUR_MS);
        let rows = stored.iter().map(|(seq, row)| (*seq, row.as_slice()));
        let again = Client::<PortableBackend>::restore(setup(&config), rows, now, &mut rng());
        let mut again = again.expect("its own rows");
        assert!(again.attach_line(locked.into_live_line(now), now, &mut rng()));
        assert_eq!(again.calls.len(), 1, "calls of nine hours reached nobody");
    }
}

#[test]
fn mix_78_the_line_of_another_person_is_not_gone_on_with() {
    let config = config(3);
    let line = with_partner().into_live_line(NOW);
    let dialling = StaticKey::from_scalar::<PortableBackend>(Secret::init_with(|s| s.fill(9)));
    let mut other: Client = Client::new(ClientOptions { dialling, ..setup(&config) }, NOW);
    assert!(!other.attach_line(line, NOW, &mut rng()), "its bucket is another one");
}

/// Returns true if the bucket of an invitation round has a job made to read it.
fn reads_invitations(mut client: Client, config: &Config) -> bool {
    let id = RoundId { service: Service::Invitation, round: 101 };
    arm(&mut client, config, id, 8_000);
    client.rounds.get_mut(&id).expect("it takes part").stage =
        RoundState::Sent { back: Vec::new(), content: SlotContents::Invite(None) };
    client.on_return(id, 9, &[], NOW).expect("it submitted");
    let object = [0; 4];
    let manifest = Manifest { id, entries: vec![ObjectDigest::from_object(&object)] };
    let signature = manifest.sign(&signer(52), &config.hash());
    client.on_object(id, Some((manifest, signature))).expect("signed by the last mix");
    client.on_chunk(id, 1, 0, &object, NOW).expect("all of it");
    core::iter::from_fn(|| client.poll()).any(|output| matches!(output, Output::Job(_)))
}

#[test]
fn mix_78_a_locked_client_reads_no_invitations() {
    let config = config(3);
    assert!(reads_invitations(with_partner(), &config));
    assert!(!reads_invitations(lock(with_partner(), NOW), &config), "its key is in the vault");
}

/// The messenger that was started again has heard nothing yet.
#[test]
fn mix_78_level_and_budgets_are_reported_to_the_unlocked_device() {
    let mut config = config(3);
    config.services[1].rounds = 10;
    let mut client = with_partner_in(&config);
    let kind = PrivacyCost::from_policy(&config.services[1]);
    client.ledger.iter_mut().for_each(|ledger| (0..8).for_each(|_| ledger.charge_round(kind)));
    client.take_snapshot(NOW);
    let stored = rows(&mut client);
    client.notify_changes(NOW);
    let reports = |client: &mut Client| {
        let all = core::iter::from_fn(|| client.poll());
        let of = |output| match output {
            Output::Level(level) => Some((Some(level), None)),
            Output::Budget(service, state) => Some((None, Some((service, state)))),
            _ => None,
        };
        all.filter_map(of).collect::<Vec<_>>()
    };
    let before = reports(&mut client);
    assert_eq!(before.len(), 2, "level 1 and the budget of calls");
    let mut locked = lock(client, NOW);
    locked.notify_changes(NOW);
    let mut again = restore(&config, &stored).expect("its own rows");
    assert!(again.attach_line(locked.into_live_line(NOW), NOW, &mut rng()));
    again.outputs.clear();
    again.notify_changes(NOW);
    let mut after = reports(&mut again);
    after.sort_by_key(|(level, _)| level.is_some());
    assert_eq!(after, before);
}
