//! Rounds of one client, step by step.

use super::*;
use crate::client::machine::rounds::{RoundState, SlotContents};
use crate::client::record::{RoundRecord, received_max};
use crate::client::{DropResult, SettingsError, Submission};
use crate::config::NetworkId;
use crate::config::tests::signer;
use crate::contact::assign_bucket;
use crate::stream::ReceivedMessage;
use crate::wire::{Cell, Settings, SignedSettings};

const ROUND: RoundId = RoundId { service: Service::Conversation, round: 101 };
/// How far off the close is, milliseconds, where it does not matter.
const CLOSES_MS: u32 = 8_000;

fn rng() -> ChaCha20Rng {
    ChaCha20Rng::seed_from_u64(1)
}

/// Hears good settings of this round.
pub(super) fn arm(client: &mut Client, config: &Config, id: RoundId, closes_in_ms: u32) {
    let (policy, of) = config.find_policy(id.service).expect("a service");
    let key = |n: u8| {
        StaticKey::from_scalar::<PortableBackend>(Secret::init_with(|s| s.fill(n))).public_key().0
    };
    let settings = Settings {
        config: config.hash(),
        id,
        collect_ms: of.collect_ms,
        slots: of.slots,
        buckets: of.buckets,
        policy,
        keys: [1, 2, 3].map(key).to_vec(),
    };
    let signatures = (50..53).map(|n| settings.sign(&signer(n))).collect();
    let announced = SignedSettings { settings, signatures, closes_in_ms };
    client.arm_round(&announced, NOW, NOW, &mut rng());
}

/// A client that heard good settings of this round, and the round.
fn armed(config: &Config, id: RoundId) -> (Client, Round) {
    let mut client = joined(config);
    arm(&mut client, config, id, CLOSES_MS);
    let round = client.rounds.remove(&id).expect("it takes part");
    (client, round)
}

/// Gives a client so many pairs.
fn give(client: &mut Client, pairs: usize) {
    let mut rng = rng();
    client.pairs.extend((0..pairs).map(|_| EphemeralKey::random::<PortableBackend>(&mut rng)));
    client.wanted = client.wanted.saturating_sub(pairs);
}

const fn nothing() -> SlotContents {
    SlotContents::Invite(None)
}

#[test]
fn a_hint_of_the_close_is_believed_within_bounds() {
    let config = config(3);
    // 4 s to collect; before that 5 s to lead and 2 s to ask, and 60 s around them.
    for (closes_in_ms, refusal) in [
        (3_999, Some(SettingsError::Late)),
        (4_000, None),
        (71_000, None),
        (71_001, Some(SettingsError::Clock)),
    ] {
        let mut client = joined(&config);
        arm(&mut client, &config, ROUND, closes_in_ms);
        let told = core::iter::from_fn(|| client.poll()).find_map(|output| match output {
            Output::Unfit(ROUND, error) => Some(error),
            _ => None,
        });
        assert_eq!(told, refusal, "{closes_in_ms}");
        assert_eq!(client.rounds.contains_key(&ROUND), refusal.is_none());
    }
}

#[test]
fn a_round_is_waited_for_until_ten_seconds_after_its_end() {
    let (_, mut round) = armed(&config(3), ROUND);
    round.stage = RoundState::Sent { back: Vec::new(), content: nothing() };
    assert_eq!(round.deadline(), NOW.plus_ms(8_000 + 20_000 + 10_000));
}

#[test]
fn mix_40_a_round_waits_as_long_as_before_when_the_clock_is_put_back() {
    let (_, mut round) = armed(&config(3), ROUND);
    for stage in [
        RoundState::Armed,
        RoundState::Sealed { durable: false, work: None, content: nothing() },
        RoundState::Sent { back: Vec::new(), content: nothing() },
    ] {
        round.stage = stage;
        let before = round.deadline();
        round.put_back(700);
        assert_eq!(round.deadline(), before.minus_ms(700), "{round:?}");
    }
}

#[test]
fn debug_output_of_a_round_says_what_it_waits_for() {
    let (_, mut round) = armed(&config(3), ROUND);
    assert_eq!(alloc::format!("{round:?}"), "armed");
    for (durable, wrapped, text) in [
        (false, false, "sealed"),
        (true, false, "sealed, durable"),
        (false, true, "sealed, wrapped"),
        (true, true, "sealed, ready"),
    ] {
        let work = wrapped.then(|| Submission { onions: Vec::new(), reply_keys: Vec::new() });
        round.stage = RoundState::Sealed { durable, work, content: nothing() };
        assert_eq!(alloc::format!("{round:?}"), text);
    }
    round.stage = RoundState::Sent { back: Vec::new(), content: nothing() };
    assert_eq!(alloc::format!("{round:?}"), "sent");
}

#[test]
fn pairs_are_asked_for_that_are_neither_there_nor_asked_for() {
    let config = config(3);
    let mut client = joined(&config);
    let wants = |client: &mut Client, round: u64| {
        arm(client, &config, RoundId { round, ..ROUND }, CLOSES_MS);
        let asked = core::iter::from_fn(|| client.poll()).filter_map(|output| match output {
            Output::Want(pairs) => Some(pairs),
            _ => None,
        });
        asked.collect::<Vec<_>>()
    };
    assert_eq!(wants(&mut client, 101), [1]);
    assert_eq!(wants(&mut client, 102), [1], "one is asked for already");
    give(&mut client, 2);
    assert_eq!(wants(&mut client, 103), [1], "two are there");
    give(&mut client, 2);
    assert_eq!(wants(&mut client, 104), [0; 0], "four are there for four rounds");
    assert_eq!(client.rounds.len(), 4);
}

#[test]
fn a_round_is_sealed_with_its_pairs_and_while_little_waits_for_the_disk() {
    let config = config(3);
    for (pairs, awaited, is_sealed) in
        [(1, 0, true), (1, 1_023, true), (1, 1_024, false), (0, 0, false)]
    {
        let mut client = joined(&config);
        arm(&mut client, &config, ROUND, CLOSES_MS);
        give(&mut client, pairs);
        client.awaited.clear();
        client.awaited.extend((0..awaited).map(|seq| (1_000 + seq, PendingWrite::Message(9, 9))));
        let due = client.rounds[&ROUND].deadline();
        client.move_on(ROUND, due, &mut rng());
        let sealed = client.last_sealed(ROUND.service) == Some(ROUND.round);
        assert_eq!(sealed, is_sealed, "{pairs} pairs, {awaited} rows");
        assert_eq!(client.rounds.contains_key(&ROUND), is_sealed);
    }
}

#[test]
fn a_record_takes_as_many_pieces_as_fit_and_leaves_the_rest_for_the_next() {
    let config = config(3);
    let mut client = joined(&config);
    client.contacts.line_number();
    client.contacts.all.insert(0, Partner::new(1, full(0)));
    client.unrecorded = (0..received_max(1) as u32 + 2).map(|seq| (0, seq)).collect();
    arm(&mut client, &config, ROUND, CLOSES_MS);
    give(&mut client, 1);
    let due = client.rounds[&ROUND].deadline();
    client.move_on(ROUND, due, &mut rng());
    let (_, _, row) = stores(&mut client).pop().expect("a record");
    let record = RoundRecord::decode(&row).expect("its own record");
    let seqs = record.received.iter().map(|fragment| fragment.seq).collect::<Vec<_>>();
    assert_eq!(seqs, [0, 1, 2, 3, 4]);
    assert_eq!(client.unrecorded, [(0, 5), (0, 6)]);
}

#[test]
fn the_network_is_that_of_the_chain() {
    let config = config(3);
    assert_eq!(joined(&config).network(), config.network);
    assert_eq!(Client::<PortableBackend>::new(setup(&config), NOW).network(), NetworkId([0; 16]));
}

#[test]
fn a_call_goes_to_the_bucket_of_the_contact_among_those_that_there_are() {
    let mut config = config(3);
    config.services[1].buckets = 2;
    let id = RoundId { service: Service::Call, round: 101 };
    let mut calls = line(0).calls;
    assert_eq!(calls.advance_to(id.round, 1), Ok(true));
    let token = calls.token(Role::Initiator, Intent::Talk);
    for (known, bucket) in [(1, 1_u32), (2, 2), (3, 1), (6, 2)] {
        let (mut client, round) = armed(&config, id);
        client.contacts.all.insert(0, Partner::new(known, line(0)));
        client.calls.push_back((0, Intent::Talk));
        let filled = client.fill_call(&round, NOW, &mut rng());
        assert!(matches!(filled.content, SlotContents::Call(true, _)));
        assert_eq!(filled.inner[..4], bucket.to_be_bytes(), "it knew of {known}");
        assert_eq!(filled.inner[4..], token);
    }
}

#[test]
fn mix_25_what_would_be_beyond_the_budget_waits() {
    let mut config = config(3);
    for policy in &mut config.services {
        policy.rounds = 1;
    }
    for (service, allows_more) in [Service::Call, Service::Invitation]
        .into_iter()
        .flat_map(|service| [(service, false), (service, true)])
    {
        let id = RoundId { service, round: 101 };
        let (mut client, round) = armed(&config, id);
        client.contacts.all.insert(0, Partner::new(1, line(0)));
        client.calls.push_back((0, Intent::Talk));
        let pair = EphemeralKey::random::<PortableBackend>(&mut rng());
        let invite = Invite { ticket: 1, to: *pair.public_key(), body: Wiping::new([0; 208]) };
        assert!(client.invites.push(invite));
        client.allow_more = allows_more;
        let ledger = client.ledger.as_mut().expect("it has joined");
        ledger.charge_round(PrivacyCost::from_policy(&round.policy));
        let filled = match service {
            Service::Call => client.fill_call(&round, NOW, &mut rng()),
            _ => client.fill_invitation(&round, NOW, &mut rng()),
        };
        assert_eq!(filled.content.is_real(), allows_more, "{service:?}");
        assert_eq!(client.calls.len(), usize::from(service != Service::Call || !allows_more));
    }
}

#[test]
fn an_invitation_goes_to_the_bucket_of_its_key_and_none_to_bucket_0() {
    let mut config = config(3);
    config.services[2].buckets = 4;
    let id = RoundId { service: Service::Invitation, round: 101 };
    let (mut client, round) = armed(&config, id);
    let idle = client.fill_invitation(&round, NOW, &mut rng());
    assert!(matches!(idle.content, SlotContents::Invite(None)));
    assert_eq!(idle.inner[..4], [0; 4]);
    let to = *EphemeralKey::from_scalar::<PortableBackend>(Secret::init_with(|s| s.fill(5)))
        .public_key();
    assert!(client.invites.push(Invite { ticket: 1, to, body: Wiping::new([0; 208]) }));
    let busy = client.fill_invitation(&round, NOW, &mut rng());
    assert!(matches!(busy.content, SlotContents::Invite(Some(_))));
    assert_eq!(busy.inner[..4], assign_bucket(&to, &config.network, 4).to_be_bytes());
    assert_eq!(busy.inner.len(), idle.inner.len());
}

#[test]
fn messages_are_numbered_by_root_and_last_piece() {
    let mut client = joined(&config(3));
    let whole = ReceivedMessage { last: 7, bytes: Wiping::new(vec![1]) };
    client.hand_out(3, 5, vec![whole]);
    let Some(Output::Received { contact, number, .. }) = client.poll() else { panic!("a message") };
    assert_eq!((contact, number), (3, 0x5_0000_0007));
}

/// When a contact is served to after a meeting a second later; `None` if it is not.
fn served_to(muted: bool, ours: Option<u32>, theirs: bool, active: bool) -> Option<u64> {
    let mut client = joined(&config(3));
    let mut contact = Partner::new(1, line(0));
    contact.muted = muted;
    client.contacts.line_number();
    client.contacts.all.insert(0, contact);
    if active {
        client.contacts.activate_contact(0, NOW);
    }
    let piece = theirs.then(|| Piece::new(&[0, 1, 7]).expect("short"));
    let cell = Cell { leaving: false, seq: 0, ack: 0, sack: 0, piece };
    client.on_reply(0, ours, DropResult::Met(Ok(cell)), NOW.plus_ms(1_000));
    let contact = &client.contacts.all[&0];
    assert_eq!(contact.is_active(), active);
    contact.deadline().map(|end| end.since_ms(NOW))
}

#[test]
fn data_keeps_a_contact_served_and_that_of_a_muted_one_does_not() {
    let as_before = Some(600_000);
    let longer = Some(601_000);
    assert_eq!(served_to(false, None, false, true), as_before);
    assert_eq!(served_to(false, None, true, true), longer);
    assert_eq!(served_to(false, Some(0), false, true), longer);
    assert_eq!(served_to(true, None, true, true), as_before);
    assert_eq!(served_to(true, Some(0), true, true), longer);
    assert_eq!(served_to(false, Some(0), true, false), None, "who left is not served again");
}

#[test]
fn mix_40_rounds_and_levels_wait_as_long_as_before_also_at_a_refused_input() {
    let config = config(3);
    let mut client = joined(&config);
    arm(&mut client, &config, ROUND, CLOSES_MS);
    client.on_round_returned(9, 5_000, config.hash(), NOW);
    client.left = Some(NOW);
    let waits = |client: &Client| {
        let round = client.rounds[&ROUND].deadline();
        [Some(round), client.standing.due, client.left]
    };
    let before = waits(&client);
    client.handle(Input::Up { trusted: true }, NOW.minus_ms(700), &mut rng()).expect_err("no dial");
    assert_eq!(waits(&client), before.map(|at| at.map(|at| at.minus_ms(700))));
}

#[test]
fn mix_30_a_client_has_four_rounds_of_a_service_under_way() {
    let config = config(3);
    let mut client = joined(&config);
    let id = |round| RoundId { round, ..ROUND };
    (101..106).for_each(|round| arm(&mut client, &config, id(round), CLOSES_MS));
    assert_eq!(client.rounds().collect::<Vec<_>>(), [101, 102, 103, 104].map(id));
    let unfit = core::iter::from_fn(|| client.poll())
        .any(|output| matches!(output, Output::Unfit(of, SettingsError::TooMany) if of == id(105)));
    assert!(unfit);
    let call = RoundId { service: Service::Call, round: 105 };
    arm(&mut client, &config, call, CLOSES_MS);
    assert!(client.rounds.contains_key(&call), "another service has rounds of its own");
}

#[test]
fn mix_22_an_idle_invitation_shows_a_fresh_public_key() {
    let config = config(3);
    let id = RoundId { service: Service::Invitation, round: 101 };
    let (mut client, round) = armed(&config, id);
    let mut rng = rng();
    let keys = [(); 20].map(|()| {
        let idle = client.fill_invitation(&round, NOW, &mut rng);
        *idle.inner[4..].first_chunk::<32>().expect("longer")
    });
    assert!(keys.iter().all(|key| portable().is_fixed_point(key)), "each is one of a key pair");
    assert_eq!(keys.iter().collect::<alloc::collections::BTreeSet<_>>().len(), 20);
}

#[test]
fn mix_50_chains_go_up_to_eight_rounds_before_clock_and_settings() {
    let config = config(3);
    for (shown, clock, end) in [(150, 300, 142), (5_000, 300, 292), (0, 300, 100)] {
        let mut client = joined(&config);
        client.contacts.line_number();
        client.contacts.all.insert(0, Partner::new(1, line(0)));
        for service in [Service::Conversation, Service::Call] {
            client.shown.insert(service, shown);
        }
        let now = Time::from_ms(1_000_000 + 5_000 * (clock - 100));
        client.walk_at = Some(now);
        client.walk_chains(now);
        let root = &client.contacts.all[&0].line;
        assert_eq!((root.chain.round(), root.calls.round()), (end, end), "{shown}, {clock}");
    }
}

/// Seals a round at this time, and reports its record as durable at the other one. Returns true if the
/// SUBMIT is handed to the line, or `None` if the round is not sealed.
fn hands_over(seals: Time, stores: Time) -> Option<bool> {
    let config = config(3);
    let mut client = joined(&config);
    arm(&mut client, &config, ROUND, CLOSES_MS);
    give(&mut client, 1);
    client.outputs.clear();
    client.move_on(ROUND, seals, &mut rng());
    let sealed: Vec<Output> = core::iter::from_fn(|| client.poll()).collect();
    client.last_sealed(ROUND.service)?;
    for output in sealed {
        let input = match output {
            Output::Store { seq, .. } => Input::Stored(seq),
            Output::Job(mut job) => {
                let done = job.run::<PortableBackend>(portable());
                Input::Done(job, done)
            }
            _ => continue,
        };
        client.handle(input, stores, &mut rng()).expect("the round waits for it");
    }
    Some(core::iter::from_fn(|| client.poll()).any(|output| matches!(output, Output::Frame(_))))
}

/// A client that is late must not seal, or hand over what the line would send late.
#[test]
fn mix_23_nothing_is_sealed_or_handed_over_after_its_time() {
    let (_, mut round) = armed(&config(3), ROUND);
    let seal = round.deadline();
    round.stage = RoundState::Sealed { durable: false, work: None, content: nothing() };
    let send = round.deadline();
    assert_eq!(hands_over(seal, send.minus_ms(1)), Some(true));
    assert_eq!(hands_over(seal, send), Some(false), "what is durable at its time is late");
    assert_eq!(hands_over(send, send), None, "it would cost a round of the budget");
}
