//! Calls and invitations that nobody asked for: when they go, and on which part of the budget.

use super::partners::{fill_call, met, rng, send, with_partner, with_partner_in};
use super::*;
use crate::client::DropResult;
use crate::client::machine::rounds::SlotContents;

/// A budget of ten rounds in this service.
fn ten_rounds(service: usize) -> Config {
    let mut config = config(3);
    config.services[service].rounds = 10;
    config
}

/// A config, and a client in it that has a message for its partner.
fn with_message() -> (Config, Client) {
    let config = config(3);
    let mut client = with_partner_in(&config);
    send(&mut client, NOW);
    (config, client)
}

fn spend(client: &mut Client, config: &Config, service: usize, rounds: usize) {
    let kind = PrivacyCost::from_policy(&config.services[service]);
    let ledger = client.ledger.as_mut().expect("it joined");
    (0..rounds).for_each(|_| ledger.charge_round(kind));
}

#[test]
fn mix_42_a_call_goes_again_on_half_of_the_budget() {
    for (used, repeats) in [(4, true), (5, false)] {
        let config = ten_rounds(1);
        let mut client = with_partner_in(&config);
        send(&mut client, NOW);
        assert!(fill_call(&mut client, &config, 101, NOW).content.is_real(), "it was asked for");
        spend(&mut client, &config, 1, used);
        let again = fill_call(&mut client, &config, 110, NOW);
        assert_eq!(again.content.is_real(), repeats, "{used} of 10 rounds used");
    }
}

#[test]
fn mix_42_an_invitation_goes_again_on_half_of_the_budget() {
    let id = RoundId { service: Service::Invitation, round: 101 };
    for (used, repeats) in [(4, true), (5, false)] {
        let config = ten_rounds(2);
        let mut client = joined(&config);
        super::rounds::arm(&mut client, &config, id, 8_000);
        let mut armed = client.rounds.remove(&id).expect("it takes part");
        let to = *EphemeralKey::random::<PortableBackend>(&mut rng()).public_key();
        let invite = Invite { ticket: 1, to, body: Wiping::new([0; 208]) };
        assert!(client.invites.push(invite));
        spend(&mut client, &config, 2, used);
        let SlotContents::Invite(Some(waiting)) =
            client.fill_invitation(&armed, NOW, &mut rng()).content
        else {
            panic!("it was asked for")
        };
        client.invites.put_off(*waiting, 101);
        armed.checked.renumber(200);
        let again = client.fill_invitation(&armed, NOW, &mut rng());
        assert_eq!(again.content.is_real(), repeats, "{used} of 10 rounds used");
    }
}

/// Two onions with one token would tell that somebody is called.
#[test]
fn mix_42_a_step_of_a_chain_calls_once() {
    let (config, mut client) = with_message();
    assert!(fill_call(&mut client, &config, 101, NOW).content.is_real());
    client.queue_call(0, Intent::Talk);
    let again = fill_call(&mut client, &config, 101, NOW);
    assert!(!again.content.is_real());
    assert_eq!(client.calls.len(), 1, "it goes in a later round");
}

#[test]
fn mix_42_the_wait_for_a_repeated_call_doubles() {
    let (config, mut client) = with_message();
    let real = |round: &u64| {
        client.contacts.activate_contact(0, NOW);
        fill_call(&mut client, &config, *round, NOW).content.is_real()
    };
    assert_eq!((101..170).filter(real).collect::<Vec<_>>(), [101, 103, 107, 115, 131, 163]);
}

/// A level that falls and rises must not make calls: nothing of a partner begins again.
#[test]
fn mix_42_a_pause_keeps_the_wait_for_the_next_call() {
    let (config, mut client) = with_message();
    for round in [101, 103] {
        assert!(fill_call(&mut client, &config, round, NOW).content.is_real());
    }
    for suspended in [true, false] {
        client.handle(Input::Suspend(0, suspended), NOW, &mut rng()).expect("a contact");
    }
    let real = |round: &u64| fill_call(&mut client, &config, *round, NOW).content.is_real();
    assert_eq!((104..110).filter(real).collect::<Vec<_>>(), [107]);
}

#[test]
fn mix_66_a_suspended_partner_is_not_heard() {
    use crate::wire::filter;
    let mut client = with_partner();
    let token = [7; 16];
    let expected = [(0, Intent::Talk, token)];
    let object = filter::encode(&[token]);
    client.handle(Input::Suspend(0, true), NOW, &mut rng()).expect("a contact");
    client.outputs.clear();
    client.activate_callers(&expected, &object, NOW);
    assert!(client.poll().is_none(), "a word about it would come from somebody suspended");
    client.handle(Input::Suspend(0, false), NOW, &mut rng()).expect("a contact");
    client.activate_callers(&expected, &object, NOW);
    assert!(matches!(client.poll(), Some(Output::Called(0, Intent::Talk))));
}

/// The records of a message that was begun hold its pieces.
#[test]
fn mix_66_a_snapshot_takes_the_place_of_the_records_of_what_is_taken_back() {
    let mut client = with_partner();
    send(&mut client, NOW);
    let begun = client.contacts.all.get_mut(&0).and_then(|of| of.line.sender.take_piece());
    assert!(begun.is_some());
    client.outputs.clear();
    let bytes = Wiping::new(vec![7; 300]);
    client.handle(Input::Retract { contact: 0, bytes }, NOW, &mut rng()).expect("a contact");
    let stored = rows(&mut client);
    assert_eq!(stored.len(), 1);
    let mut again = restore(&config(3), &stored).expect("its own row");
    let mut sender = again.contacts.all.remove(&0).expect("it is known").line.sender;
    let pieces =
        core::iter::from_fn(|| sender.take_piece()).flat_map(|(_, piece)| piece.bytes().to_vec());
    let text: Vec<u8> = pieces.skip(2).collect();
    assert!(text.iter().all(|byte| *byte == 0), "the text is gone from the disk");
}

#[test]
fn mix_68_greetings_take_half_of_the_budget_of_conversations() {
    for (used, calls) in [(4, 1), (5, 0)] {
        let config = ten_rounds(0);
        let mut client = with_partner_in(&config);
        client.on_reply(0, None, met(), NOW);
        spend(&mut client, &config, 0, used);
        client.left = Some(NOW);
        client.come_back(NOW.plus_ms(Time::HOUR_MS));
        assert_eq!(client.calls.len(), calls, "{used} of 10 rounds used");
    }
}

#[test]
fn mix_68_the_last_four_partners_are_called() {
    let mut client = with_partner();
    for id in 1..7 {
        let number = client.contacts.line_number().expect("a few lines");
        client.contacts.all.insert(id, Partner::new(1, line(number)));
    }
    for (id, minutes) in [(0, 5), (1, 2), (2, 9), (3, 1), (4, 7), (5, 8)] {
        let contact = client.contacts.all.get_mut(&id).expect("it was added");
        contact.record_meeting(NOW.plus_ms(minutes * Time::MINUTE_MS));
    }
    let later = NOW.plus_ms(Time::HOUR_MS);
    assert_eq!(client.contacts.to_greet(later), [2, 5, 4, 0], "the last one first");
}

/// The numbers of rounds jump at a new config: nobody was away.
#[test]
fn mix_80_rounds_that_a_config_skips_are_not_missed() {
    let mut client = with_partner();
    client.left = None;
    client.on_reply(0, None, met(), NOW);
    let calls = [90, 100, 102].map(|round| {
        client.heard = client.heard.or(Some(90));
        client.on_calls_heard(RoundId { service: Service::Call, round }, NOW);
        client.calls.len()
    });
    // The first round of the config is 100.
    assert_eq!(calls, [0, 0, 1]);
}

#[test]
fn mix_82_the_call_of_a_partner_that_left_takes_half_of_the_budget() {
    for (used, calls) in [(4, 1), (5, 0)] {
        let config = ten_rounds(1);
        let mut client = with_partner_in(&config);
        client.contacts.activate_contact(0, NOW);
        client.on_reply(0, None, met(), NOW);
        send(&mut client, NOW);
        spend(&mut client, &config, 1, used);
        (0..4).for_each(|_| client.on_reply(0, None, DropResult::Absent, NOW));
        assert_eq!(client.calls.len(), calls, "{used} of 10 rounds used");
    }
}

#[test]
fn mix_82_a_call_under_way_is_not_made_twice() {
    let (config, mut client) = with_message();
    assert!(fill_call(&mut client, &config, 101, NOW).content.is_real());
    (0..9).for_each(|_| client.on_reply(0, None, DropResult::Absent, NOW));
    assert!(client.calls.is_empty(), "its repetition has a time of its own");
}

/// A root that the partner never had would keep the pair apart in all other rounds.
#[test]
fn mix_67_elder_roots_are_served_in_each_eighth_round() {
    let mut client = with_partner();
    for _ in 1..=2 {
        let number = client.contacts.line_number().expect("a few lines");
        client.contacts.all.get_mut(&0).expect("it was added").add_root(line(number));
    }
    client.contacts.activate_contact(0, NOW);
    for round in 101..133 {
        let turns = client.contacts.compute_turns(round, 1_024);
        let roots: Vec<u32> = turns.iter().map(|(root, _)| *root).collect();
        let all = round % 8 == 0;
        assert_eq!(roots, if all { vec![0, 1, 2] } else { vec![0, 2] }, "round {round}");
    }
}
