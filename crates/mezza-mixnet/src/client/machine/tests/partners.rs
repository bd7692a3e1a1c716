//! Partners at rest, suspended, and with roots that cross.

use super::*;
use crate::client::DropResult;
use crate::wire::{Cell, Frame};

fn rng() -> ChaCha20Rng {
    ChaCha20Rng::seed_from_u64(1)
}

/// A client with one partner, number 0.
fn with_partner() -> Client {
    let mut client = joined(&config(3));
    client.link =
        Link::Joined { trusted: true, failed: 0, asked: None, fetching: false, until: None };
    client.contacts.line_number();
    client.contacts.all.insert(0, Partner::new(1, line(0)));
    client
}

fn send(client: &mut Client, now: Time) {
    let bytes = Wiping::new(vec![7; 300]);
    client.handle(Input::Send { ticket: 1, contact: 0, bytes }, now, &mut rng()).unwrap();
}

/// The last round before a rest comes back when the rest has begun: whoever writes then calls.
#[test]
fn mix_67_after_a_rest_the_next_message_calls() {
    let mut client = with_partner();
    client.contacts.activate(0, NOW);
    let late = NOW.plus_ms(601_000);
    assert!(client.contacts.due(late).is_empty() && !client.is_active(0));
    let cell = Cell { leaving: false, seq: 0, ack: 0, sack: 0, piece: None };
    client.answered(0, None, DropResult::Met(Ok(cell)), late);
    assert!(client.calls.is_empty());
    send(&mut client, late.plus_ms(1_000));
    assert!(client.is_active(0) && client.calls.len() == 1);
}

#[test]
fn mix_66_who_is_suspended_is_neither_served_nor_called() {
    let mut client = with_partner();
    send(&mut client, NOW);
    assert!(client.is_active(0) && client.calls.len() == 1);
    client.handle(Input::Suspend(0, true), NOW, &mut rng()).unwrap();
    assert!(!client.is_active(0) && client.calls.is_empty());
    // Neither what is written, nor the time, nor a wish brings it back.
    send(&mut client, NOW);
    client.handle(Input::Call(0, Intent::Talk), NOW, &mut rng()).unwrap();
    client.handle(Input::Activate(0), NOW, &mut rng()).unwrap();
    client.wake(NOW.plus_ms(20 * Time::HOUR_MS), &mut rng());
    assert!(!client.is_active(0) && client.calls.is_empty());
    assert!(client.contacts.turns(101, 1_024).is_empty());
    client.handle(Input::Suspend(0, false), NOW, &mut rng()).unwrap();
    assert!(client.is_active(0) && client.calls.len() == 1, "something waits");
}

/// Both sides make a root at once: each holds both, so that they meet in one of them.
#[test]
fn mix_67_roots_that_cross_are_both_kept() {
    let mut client = with_partner();
    for id in 1..=2 {
        client.contacts.line_number();
        client.contacts.all.get_mut(&0).unwrap().add_younger(line(id));
    }
    let partner = client.contacts.all.get_mut(&0).unwrap();
    assert_eq!(partner.lines().map(|root| root.id).collect::<Vec<_>>(), [0, 1, 2]);
    assert!(!partner.take_over(0) && !partner.take_over(9));
    assert!(partner.take_over(1));
    assert_eq!(partner.lines().map(|root| root.id).collect::<Vec<_>>(), [1]);
    // Whoever makes roots without end pushes out their own.
    for id in 2..=6 {
        partner.add_younger(line(id));
    }
    assert_eq!(partner.lines().map(|root| root.id).collect::<Vec<_>>(), [1, 4, 5, 6]);
}

/// Calls that came meanwhile reached nobody: whoever is back calls the partners of the last days.
#[test]
fn mix_68_who_comes_back_calls() {
    let mut client = with_partner();
    let cell = || Cell { leaving: false, seq: 0, ack: 0, sack: 0, piece: None };
    client.answered(0, None, DropResult::Met(Ok(cell())), NOW);
    let back = |client: &mut Client, away_ms: u64, now: Time| {
        client.handle(Input::Down, now, &mut rng()).unwrap();
        let now = now.plus_ms(away_ms);
        client.link = Link::Greeted { trusted: true, failed: 0, until: None };
        let head = client.chain.as_ref().unwrap().head_hash();
        let welcome = Frame::Welcome { head, now };
        client.handle(Input::Frame(welcome), now, &mut rng()).unwrap();
        client.calls.len()
    };
    assert_eq!(back(&mut client, 1_000, NOW), 0, "no round of calls was missed");
    assert_eq!(back(&mut client, Time::HOUR_MS, NOW), 1);
    assert!(client.is_active(0));
    client.calls.clear();
    assert_eq!(back(&mut client, Time::HOUR_MS, NOW.plus_ms(8 * Time::DAY_MS)), 0, "long ago");
}

/// The machine slept, or its clock was set: who was served still is.
#[test]
fn mix_68_a_clock_put_forward_makes_nobody_rest() {
    let mut client = with_partner();
    client.wake(NOW, &mut rng());
    send(&mut client, NOW);
    let late = NOW.plus_ms(3 * Time::HOUR_MS);
    client.wake(late, &mut rng());
    assert!(client.is_active(0));
    for minutes in 1..=11 {
        client.wake(late.plus_ms(minutes * Time::MINUTE_MS), &mut rng());
    }
    assert!(!client.is_active(0), "ten minutes of rounds are over");
}

/// Whatever an entry sends that is refused, and however long nothing ran before: nobody is served longer.
#[test]
fn mix_68_a_refused_frame_extends_nothing() {
    let mut client = with_partner();
    client.wake(NOW, &mut rng());
    send(&mut client, NOW);
    let end = client.contacts.all[&0].deadline();
    let late = NOW.plus_ms(15 * Time::MINUTE_MS);
    for _ in 0..3 {
        client.handle(Input::Up { trusted: true }, late, &mut rng()).expect_err("nobody dialled");
    }
    assert_eq!(client.contacts.all[&0].deadline(), end);
    client.wake(late, &mut rng());
    assert_eq!(client.contacts.all[&0].deadline(), Some(late.plus_ms(600_000)));
}
