//! Whatever the device refuses leaves it as it was, and a test has seen each refusal (MSG-36).

use mezza_core::{Machine as _, Secret};
use mezza_messenger::carriers::link::{LinkReport, PairRequest};
use mezza_messenger::carriers::mixnet::{MixnetInput, NetworkAddress};
use mezza_messenger::policy::Policy;
use mezza_messenger::{
    CallerError, CarrierError, Command, ContactId, DeviceError, Input, MailboxId, MeshInput,
    MeshReport, NoteId, PersonError, RecordKind, RelayInput, RequestId,
};
use mezza_mixnet::client::ClientError;
use mezza_mixnet::{RoundId, Service};
use mezza_sim::variants;

use super::foreign_card;
use crate::link::cable::Cable;
use crate::stage::{Stage, card, hand, load_any, relay, send};
use crate::town::{ROUND_MS, Town, cells};

/// Refused inputs and their errors.
type Refusals = Vec<(DeviceError, Input)>;

const NOBODY: ContactId = ContactId(77);
const NEVER_ASKED: RequestId = RequestId(1 << 40);

fn says(contact: ContactId, bytes: usize) -> Input {
    Command::Send { contact, client: [91; 16], text: "x".repeat(bytes), life: None }.into()
}

fn join(pin: u8, address: String) -> Input {
    MixnetInput::Join(NetworkAddress { pin: [pin; 32], address }).into()
}

/// Commands of a user about a friend that must be refused.
fn of_persons(stage: &mut Stage, bob: ContactId) -> Refusals {
    let name = |name: &str| Command::Rename { contact: bob, name: name.into() };
    let publish = |name: &str, relays| Command::Publish { name: name.into(), relays };
    let add = |card| Command::Add { card, petname: None, in_person: false };
    let mut card = |serial, name| foreign_card(stage, 9, serial, name);
    let [held, older, other] = [(70_001, "carol"), (70_000, "carol"), (70_001, "carla")]
        .map(|(serial, name)| card(serial, name));
    stage.command(0, add(held)).expect("the first card is taken");
    let own = stage.card(0);
    let policy = Policy { carriers: vec![], ..Policy::default() };
    let refused = [
        (PersonError::NotNow, Command::Accept { contact: bob }),
        (PersonError::NotNow, Command::Refuse { contact: bob }),
        (PersonError::BadName, name("")),
        (PersonError::BadName, name("a\u{202e}b")),
        (PersonError::BadName, name(" ")),
        (PersonError::BadName, name("#2")),
        (PersonError::BadName, publish(" #2", vec![])),
        (PersonError::BadName, publish("a\nb", vec![])),
        (PersonError::TooManyRelays, publish("alice", vec![relay(); 4])),
        (PersonError::OwnCard, add(own)),
        (PersonError::CardOlder, add(older)),
        (PersonError::CardClash, add(other)),
        (PersonError::BadPolicy, Command::Policy { contact: bob, policy }),
    ];
    let mut all: Refusals =
        refused.into_iter().map(|(error, command)| (error.into(), command.into())).collect();
    let long = PersonError::TextTooLong { bytes: 8_193, max: 8_192 };
    all.extend([
        (PersonError::EmptyText.into(), says(bob, 0)),
        (long.into(), says(bob, 8_193)),
        (PersonError::NoNetwork.into(), MixnetInput::Leave.into()),
        (PersonError::BadAddress.into(), join(1, "m".repeat(256))),
    ]);
    all
}

/// Commands about things that do not exist.
fn of_callers() -> Refusals {
    let note = NoteId(1 << 40);
    let mail = RelayInput::Mail { mailbox: MailboxId(99), mail: 1, envelope: vec![0; 512] };
    vec![
        (CallerError::NoSuchContact.into(), says(NOBODY, 1)),
        (CallerError::NoSuchContact.into(), Command::Accept { contact: NOBODY }.into()),
        (CallerError::NoSuchContact.into(), Command::Delete { contact: NOBODY }.into()),
        (CallerError::NoSuchContact.into(), MixnetInput::AskWho(NOBODY).into()),
        (CallerError::NoSuchNote.into(), Command::Cancel { note }.into()),
        (CallerError::NoSuchNote.into(), Command::Forget { note }.into()),
        (CallerError::NoSuchMailbox.into(), mail.into()),
        (
            CallerError::NoSuchMailbox.into(),
            RelayInput::Displaced { mailbox: MailboxId(99), over: false }.into(),
        ),
    ]
}

/// Inputs of carriers that nobody requested.
fn of_carriers() -> Refusals {
    let ticket = NEVER_ASKED;
    let bytes = vec![];
    let asked = [
        RelayInput::Done { ticket },
        RelayInput::Refused { ticket, code: 1, retry_s: 0 },
        RelayInput::Bundle { ticket, bytes, one_time: None },
    ];
    let mut all: Refusals =
        asked.map(|input| (CarrierError::NoSuchTicket.into(), input.into())).into();
    let unexpected = CarrierError::Network(ClientError::Unexpected);
    all.push((unexpected.into(), MixnetInput::Up { trusted: true }.into()));
    all.push((unexpected.into(), MixnetInput::Down.into()));
    all
}

/// Inputs that a device in a network refuses. Bob has its first note and has not answered.
fn of_members(bob: ContactId, guest: ContactId) -> Refusals {
    let round = RoundId { service: Service::Conversation, round: 1 << 40 };
    let unknown = CarrierError::Network(ClientError::UnknownRound);
    vec![
        (PersonError::Joined.into(), join(1, "m41:7000".into())),
        (PersonError::NoCard.into(), Command::Accept { contact: guest }.into()),
        (PersonError::NotNow.into(), MixnetInput::AskWho(bob).into()),
        (unknown.into(), MixnetInput::Lost(round).into()),
    ]
}

/// Hands party 0 what it refuses: [`hand`] compares the whole device before and after.
fn refuse(stage: &mut Stage, refusals: Refusals, seen: &mut Vec<DeviceError>) {
    for (error, input) in refusals {
        let name = format!("{input:?}");
        assert_eq!(stage.input(0, input), Err(error), "{name}");
        seen.push(error);
    }
}

/// A device in a network, whom somebody invites there.
fn refuse_in_town(seen: &mut Vec<DeviceError>) {
    let mut town = Town::new(&["ann", "ben", "carol"]);
    let ben = town.add(0, 1, Policy::default());
    town.say(0, ben, "hello ben");
    let ann = town.add(2, 0, cells(1));
    town.say(2, ann, "guess who");
    town.pass(20 * ROUND_MS);
    let guest = town.members[0].device.inviters().first().expect("carol invites").id;
    for (error, input) in of_members(ben, guest) {
        let name = format!("{input:?}");
        assert_eq!(town.command(0, input), Err(error), "{name}");
        seen.push(error);
    }
    // The first messages of a session name its keys: more than cells take beside the longest text.
    town.command(0, Command::Policy { contact: ben, policy: cells(1) }).expect("sound");
    let refused = town.command(0, says(ben, 8_192)).expect_err("too long for cells");
    assert!(matches!(refused, DeviceError::Person(PersonError::TooBig { .. })), "{refused:?}");
    seen.push(refused);
}

/// A device of whose networks 32 rows do not load.
fn refuse_networks(stage: &mut Stage, seen: &mut Vec<DeviceError>) {
    let mut disk = stage.parties[0].disk.clone();
    for pin in 0..32_u8 {
        disk.insert((RecordKind::LeftNetwork, vec![pin; 32]), vec![0xee; 90]);
    }
    let mut device = load_any(&disk, stage.now, &mut stage.rng).expect("the rest loads");
    while device.poll().is_some() {}
    for (pin, error) in [(7, PersonError::SetAside), (99, PersonError::TooManyNetworks)] {
        let refused = hand(&mut device, join(pin, "m40:7000".into()), stage.now, &mut stage.rng);
        assert_eq!(refused, Err(error.into()));
        seen.push(error.into());
    }
}

/// A device whose mesh node has a clock that nobody vouches for.
fn refuse_clock(stage: &mut Stage, seen: &mut Vec<DeviceError>) {
    let tick = (stage.now.as_ms() / 30_000) as u32;
    let clock = MeshReport {
        cur: tick,
        own: tick,
        within_ms: 600_000,
        settled: false,
        around: 0,
        boot_ms: 0,
        level: 2,
    };
    let make = || MeshInput::MakeTree { confirmed: false }.into();
    refuse(stage, vec![(PersonError::NotNow.into(), make())], seen);
    stage.input(0, MeshInput::Clock(clock)).expect("heard");
    refuse(stage, vec![(PersonError::NoClock.into(), make())], seen);
    stage.input(0, MeshInput::Away { boot_ms: 1 }).expect("heard");
}

/// A device that has no room for one more note.
fn refuse_full(stage: &mut Stage, bob: ContactId, seen: &mut Vec<DeviceError>) {
    stage.offline(0);
    for n in 0..1_000_u16 {
        let mut client = [0xc1; 16];
        client[..2].copy_from_slice(&n.to_be_bytes());
        let note = Command::Send { contact: bob, client, text: "waits".into(), life: None };
        let Stage { parties, now, rng, .. } = stage;
        parties[0].device.handle(note.into(), *now, rng).expect("there is room");
    }
    refuse(stage, vec![(PersonError::OutboxFull.into(), send(bob, 92))], seen);
}

/// Two devices on a cable, before and after their pairing.
fn refuse_on_a_cable(seen: &mut Vec<DeviceError>) {
    let mut cable = Cable::new();
    let mut refuse = |cable: &mut Cable, error: PersonError, report| {
        assert_eq!(cable.try_link(1, report), Err(error.into()));
        seen.push(error.into());
    };
    let contact = cable.contact(1);
    let moved = |address: &str| LinkReport::SetAddress { contact, address: address.to_owned() };
    let pair = |cable: &Cable| {
        let [ik, own_ik] = [0, 1].map(|who| *card(&cable.sides[who].device).ik());
        LinkReport::Pair(PairRequest { contact, own_ik, ik, address: Some(String::new()) })
    };
    refuse(&mut cable, PersonError::NotPaired, moved("a:1"));
    refuse(&mut cable, PersonError::NoDigits, LinkReport::Confirm { equal: true });
    let report = pair(&cable);
    refuse(&mut cable, PersonError::BadDeviceAddress, report);
    cable.request_pairing();
    let mut report = pair(&cable);
    if let LinkReport::Pair(request) = &mut report {
        request.address = None;
    }
    refuse(&mut cable, PersonError::PairingBusy, report);
    cable.compare(true);
    refuse(&mut cable, PersonError::NeverDialled, moved("a:1"));
    let join = |address: &str| LinkReport::JoinGuard {
        address: address.to_owned(),
        key: Secret::init_with(|key| key.fill(3)),
    };
    refuse(&mut cable, PersonError::BadGuardAddress, join(""));
    // Ann dials.
    let contact = cable.contact(0);
    let mut refuse_dialling = |cable: &mut Cable, error: PersonError, report| {
        assert_eq!(cable.try_link(0, report), Err(error.into()));
        seen.push(error.into());
    };
    let through = |dest| LinkReport::SetGuardDest { contact, dest };
    refuse_dialling(&mut cable, PersonError::NoGuard, through(Some(1)));
    cable.link(0, join("guard.example:4797"));
    for dest in [0, 0xfff0] {
        refuse_dialling(&mut cable, PersonError::BadGuardDest, through(Some(dest)));
    }
    cable.link(0, through(Some(1)));
    let [ik, own_ik] = [1, 0].map(|who| *card(&cable.sides[who].device).ik());
    let around = PairRequest { contact, own_ik, ik, address: Some("ben.example:4796".into()) };
    refuse_dialling(&mut cable, PersonError::Guarded, LinkReport::Pair(around));
}

#[test]
fn msg_36_a_refused_input_changes_nothing() {
    let mut seen = Vec::new();
    let (mut stage, bob, _) = Stage::friends();
    stage.say(0, bob, "x");
    for refusals in [of_persons(&mut stage, bob), of_callers(), of_carriers()] {
        refuse(&mut stage, refusals, &mut seen);
    }
    stage.command(0, Command::Block { contact: bob, blocked: true }).expect("known");
    refuse(&mut stage, vec![(PersonError::Blocked.into(), says(bob, 1))], &mut seen);
    stage.command(0, Command::Block { contact: bob, blocked: false }).expect("known");
    refuse_networks(&mut stage, &mut seen);
    refuse_clock(&mut stage, &mut seen);
    refuse_full(&mut stage, bob, &mut seen);
    refuse_in_town(&mut seen);
    refuse_on_a_cable(&mut seen);
    let all = variants!(DeviceError: [
        DeviceError::Person(PersonError::EmptyText),
        DeviceError::Person(PersonError::TextTooLong { .. }),
        DeviceError::Person(PersonError::TooBig { .. }),
        DeviceError::Person(PersonError::OutboxFull),
        DeviceError::Person(PersonError::NotNow),
        DeviceError::Person(PersonError::Blocked),
        DeviceError::Person(PersonError::NoCard),
        DeviceError::Person(PersonError::CardOlder),
        DeviceError::Person(PersonError::CardClash),
        DeviceError::Person(PersonError::OwnCard),
        DeviceError::Person(PersonError::BadPolicy),
        DeviceError::Person(PersonError::BadName),
        DeviceError::Person(PersonError::SetAside),
        DeviceError::Person(PersonError::BadAddress),
        DeviceError::Person(PersonError::Joined),
        DeviceError::Person(PersonError::NoNetwork),
        DeviceError::Person(PersonError::NoClock),
        DeviceError::Person(PersonError::TooManyNetworks),
        DeviceError::Person(PersonError::TooManyRelays),
        DeviceError::Person(PersonError::NotPaired),
        DeviceError::Person(PersonError::NeverDialled),
        DeviceError::Person(PersonError::BadDeviceAddress),
        DeviceError::Person(PersonError::PairingBusy),
        DeviceError::Person(PersonError::NoDigits),
        DeviceError::Person(PersonError::NoGuard),
        DeviceError::Person(PersonError::Guarded),
        DeviceError::Person(PersonError::BadGuardAddress),
        DeviceError::Person(PersonError::BadGuardDest),
        DeviceError::Carrier(CarrierError::NoSuchTicket),
        // What the client refuses is the list of its own test.
        DeviceError::Carrier(CarrierError::Network(_)),
        DeviceError::Caller(CallerError::NoSuchContact),
        DeviceError::Caller(CallerError::NoSuchNote),
        DeviceError::Caller(CallerError::NoSuchMailbox),
    ]);
    all.are_all_in(&seen);
}
