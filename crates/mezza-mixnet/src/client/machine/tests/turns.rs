//! The turns of other conversations, as a partner sees them that computes each round's (MIX-85).

use super::partners::rng;
use super::*;
use crate::client::machine::rounds::SlotContents;

const ROUNDS: core::ops::Range<u64> = 101..1_101;

/// The root of a pair, by its number.
fn root(id: u32, pair: u64) -> PartnerRoot {
    let secret = Secret::init_with(|s| s[..8].copy_from_slice(&pair.to_be_bytes()));
    PartnerRoot::begin(id, &secret, Role::Initiator, 100, 100)
}

/// A client that talks in these pairs; its partners are numbered in their order.
fn talks(pairs: &[u64]) -> Client {
    let mut client = joined(&config(3));
    for (id, pair) in (0..).zip(pairs) {
        let number = client.contacts.line_number().expect("a few lines");
        client.contacts.all.insert(id, Partner::new(1, root(number, *pair)));
        client.contacts.activate_contact(id, NOW);
    }
    client
}

/// The partners that a client serves in a round.
fn serves(client: &mut Client, round: u64, slots: usize) -> Vec<u32> {
    let filled = client.fill_drops(round, slots, NOW, &mut rng());
    let SlotContents::Drops(slots) = filled.content else { panic!("a conversation round") };
    slots.iter().filter_map(|slot| slot.served.map(|(line, _)| line)).collect()
}

/// The rounds of 1,000 in which a client with so many other conversations was not there for partner 0.
fn missed(slots: usize, others: u64) -> usize {
    let mut client = talks(&(0..=others).collect::<Vec<_>>());
    ROUNDS.filter(|round| !serves(&mut client, *round, slots).contains(&0)).count()
}

#[test]
fn mix_85_a_partner_misses_no_round_while_there_is_a_slot_for_each() {
    for (slots, others) in [(1, 0), (5, 0), (5, 1), (5, 4)] {
        assert_eq!(missed(slots, others), 0, "{slots} slots, {others} others");
    }
    // With m active partners each is served in s of m rounds. Four standard deviations.
    for (slots, others, expected) in [(1, 1, 500), (1, 2, 667), (5, 5, 167), (5, 9, 500)] {
        let missed = missed(slots, others);
        assert!(missed.abs_diff(expected) < 64, "{slots} slots, {others} others: {missed}");
    }
}

/// Rounds of 1,000 that two clients cannot have if they talk with each other: the one with the larger turn
/// for the common partner is away, and the other one is there.
fn contradictions(slots: usize, anns: &[u64], bens: &[u64]) -> usize {
    let mut ann = talks(anns);
    let mut ben = talks(bens);
    let turn = |client: &Client| client.contacts.all[&0].line.chain.meeting().priority;
    let seen = ROUNDS.map(|round| {
        for client in [&mut ann, &mut ben] {
            assert!(client.contacts.walk_chains(round, 100, 4_096), "a few steps");
        }
        let turns = [turn(&ann), turn(&ben)];
        let there = [&mut ann, &mut ben].map(|of| serves(of, round, slots).contains(&0));
        let [larger, smaller] = if turns[0] > turns[1] { [0, 1] } else { [1, 0] };
        !there[larger] && there[smaller]
    });
    seen.filter(|contradicts| *contradicts).count()
}

/// Cas is partner 0 of both; they have one more conversation each, with each other or with two others.
#[test]
fn mix_85_a_common_partner_sees_who_talks_with_whom_if_slots_are_fewer() {
    let apart = contradictions(1, &[1, 3], &[2, 4]);

    assert_eq!(contradictions(1, &[1, 3], &[2, 3]), 0, "with each other");
    assert!(apart.abs_diff(83) < 35, "one round in twelve: {apart}");
    for bens in [[2, 3], [2, 4]] {
        assert_eq!(contradictions(5, &[1, 3], &bens), 0, "a slot for each");
    }
}
