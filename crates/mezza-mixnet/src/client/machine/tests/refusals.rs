//! A refused input leaves a client unchanged.

use mezza_sim::{SimRng, handle_checked, variants};
use proptest::prelude::*;

use super::*;
use crate::client::machine::commands::CONTACTS_MAX;
use crate::config::ChainError;
use crate::config::tests::refused_configs;
use crate::wire::frame::tests::one_of_each;
use crate::wire::{Frame, FrameBody};

const TALK: RoundId = RoundId { service: Service::Conversation, round: 100 };

/// A client that takes part in rounds and is being sent configs.
fn online() -> Client {
    let mut client = joined(&config(3));
    let asked = Some(NOW);
    client.link = Link::Joined { trusted: true, failed: 0, asked, fetching: true, until: None };
    client
}

/// One that knows no config.
fn newcomer() -> Client {
    Client { chain: None, ledger: None, ..online() }
}

/// One with as many contacts as there may be.
fn crowded() -> Client {
    let mut client = online();
    for id in 0..CONTACTS_MAX as u32 {
        client.contacts.all.insert(id, Partner::new(1, line(id)));
    }
    client
}

fn root(contact: PartnerId, round: u64) -> Input {
    let root = Secret::init_with(|s| s.fill(3));
    let start = StartRounds { conversation: round, call: 100 };
    Input::Add(NewRoot { contact, root, role: Role::Initiator, start, bucket: 1 })
}

fn pair() -> EphemeralKey {
    EphemeralKey::from_scalar::<PortableBackend>(Secret::init_with(|s| s.fill(4)))
}

fn refusals() -> Vec<(ClientError, Client, Input)> {
    use ClientError::{
        Full, Malformed, NoContact, OutOfReach, Signature, Unasked, Unexpected, UnknownRound,
    };
    let frame = |body| Input::Frame { frame: Frame::Round(TALK, body), age_ms: 0 };
    let configured = |config: &crate::config::SignedConfig| Input::Frame {
        frame: Frame::Config { left: 0, config: config.encode() },
        age_ms: 0,
    };
    let alarm = FrameBody::Alarm { position: 0, signature: [0; 64] };
    let far = FrameBody::Alarm { position: 9, signature: [0; 64] };
    let nobody =
        Input::Frame { frame: Frame::Config { left: 0, config: Vec::from([1]) }, age_ms: 0 };
    let other = signed(&Config { users_max: 7, ..config(3) }, SignatureSet::Own, &[0, 1]);
    let mut all = vec![
        (UnknownRound, online(), Input::Lost(TALK)),
        (UnknownRound, online(), frame(FrameBody::Return { users: 1, replies: Vec::new() })),
        (Unasked, online(), Input::Up { trusted: true }),
        (Unasked, online(), Input::Give(pair())),
        (Unasked, online(), Input::Stored(0)),
        (Unasked, joined(&config(3)), Input::Down),
        (Unexpected, online(), frame(FrameBody::NewRound)),
        (Malformed, online(), nobody),
        (Malformed, online(), frame(far)),
        (Signature, online(), frame(alarm)),
        (NoContact, online(), Input::Remove(7)),
        (NoContact, online(), Input::Call(7, Intent::Talk)),
        (OutOfReach, online(), root(7, 1 << 40)),
        (Full, crowded(), root(1 << 20, 100)),
        (ClientError::Config(ChainError::NotPinned), newcomer(), configured(&other)),
    ];
    all.extend(refused_configs().into_iter().map(|(error, chain, config)| {
        let client = Client { chain: Some(chain), ..online() };
        (ClientError::Config(error), client, configured(&config))
    }));
    all
}

#[test]
fn every_refusal_leaves_the_client_as_it_was() {
    let mut produced = Vec::new();
    for (error, mut client, input) in refusals() {
        let outcome = handle_checked(&mut client, input, NOW, SimRng::new(1, 0).rng());
        assert_eq!(outcome, Err(error));
        produced.push(error);
    }
    let all = variants!(ClientError: [
        ClientError::UnknownRound,
        ClientError::Unasked,
        ClientError::Unexpected,
        ClientError::Malformed,
        ClientError::Signature,
        ClientError::NoContact,
        ClientError::OutOfReach,
        ClientError::Full,
        ClientError::Config(ChainError::NotPinned),
        ClientError::Config(ChainError::Foreign),
        ClientError::Config(ChainError::Rollback),
        ClientError::Config(ChainError::Gap),
        ClientError::Config(ChainError::Unsigned { .. }),
        ClientError::Config(ChainError::TooMany),
        ClientError::Config(ChainError::Full),
        ClientError::Config(ChainError::Rounds),
    ]);
    all.are_all_in(&produced);
}

/// Returns an input of an entry, a disk, a pool or a user, at the wrong time.
fn anything(jobs: &mut Vec<crate::client::ClientJob>, dice: &mut SimRng) -> Input {
    let service = *dice.pick(&Service::ALL).expect("three");
    let id = RoundId { service, round: dice.between(99, 103) };
    let contact = dice.between(0, 2) as u32;
    match dice.between(0, 31) {
        0 => Input::Down,
        1..3 => Input::Up { trusted: dice.chance(800) },
        3..5 => Input::Give(pair()),
        5 => Input::Lost(id),
        6..9 => Input::Stored(dice.between(0, 30)),
        9 => Input::Remove(contact),
        10 => Input::Activate(contact),
        11 => Input::Leave(contact),
        12 => Input::Mute(contact, dice.chance(500)),
        13 => Input::Call(contact, Intent::Talk),
        14..16 => root(contact, dice.between(90, 900)),
        16 => Input::AllowMore(dice.chance(500)),
        17 => {
            let bytes = Wiping::new(vec![7; dice.between(0, 300) as usize]);
            Input::Send { ticket: 1, contact, bytes }
        }
        18..21 => match jobs.pop() {
            Some(mut job) => {
                let done = job.run::<PortableBackend>(portable());
                Input::Done(job, done)
            }
            None => Input::Lost(id),
        },
        21 => Input::Suspend(contact, dice.chance(500)),
        22 => {
            let bytes = Wiping::new(vec![7; dice.between(0, 300) as usize]);
            Input::Retract { contact, bytes }
        }
        _ => {
            let frames =
                one_of_each(id, vec![7; dice.between(0, 400) as usize], dice.between(0, 3) as u32);
            let frame = dice.pick(&frames).expect("frames").clone();
            Input::Frame { frame, age_ms: dice.between(0, 2_000) }
        }
    }
}

proptest! {
    #[test]
    fn whatever_comes_a_refusal_changes_nothing(seed: u64, steps in 1..80_usize) {
        let config = config(3);
        let mut client = online();
        let mut now = NOW;
        let mut jobs = Vec::new();
        super::rounds::arm(&mut client, &config, RoundId { round: 101, ..TALK }, 8_000);
        let dice = &mut SimRng::new(seed, 1);
        for _ in 0..steps {
            let input = anything(&mut jobs, dice);
            let _ = handle_checked(&mut client, input, now, dice.rng());
            if dice.chance(200) {
                now = now.plus_ms(dice.between(0, 3_000));
                client.wake(now, dice.rng());
            }
            while let Some(output) = client.poll() {
                if let Output::Job(job) = output {
                    jobs.push(job);
                }
            }
        }
    }
}
