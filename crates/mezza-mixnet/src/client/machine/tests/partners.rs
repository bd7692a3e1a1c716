//! Partners at rest, suspended, and with roots that cross.

use alloc::collections::VecDeque;

use mezza_core::{Reader, Writer};
use rand_core::Rng as _;

use super::*;
use crate::client::DropResult;
use crate::client::machine::fill::Filled;
use crate::wire::{Cell, Frame};

pub(super) fn rng() -> ChaCha20Rng {
    ChaCha20Rng::seed_from_u64(1)
}

/// The content of a call round.
pub(super) fn fill_call(client: &mut Client, config: &Config, round: u64, now: Time) -> Filled {
    let id = RoundId { service: Service::Call, round: 101 };
    let mut other = joined(config);
    super::rounds::arm(&mut other, config, id, 8_000);
    let mut armed = other.rounds.remove(&id).expect("it takes part");
    armed.checked.renumber(round);
    client.fill_call(&armed, now, &mut rng())
}

pub(super) fn with_partner() -> Client {
    with_partner_in(&config(3))
}

/// A client with one partner, number 0.
pub(super) fn with_partner_in(config: &Config) -> Client {
    let mut client = joined(config);
    client.link =
        Link::Joined { trusted: true, failed: 0, asked: None, fetching: false, until: None };
    client.contacts.line_number();
    client.contacts.all.insert(0, Partner::new(1, line(0)));
    client
}

pub(super) fn send(client: &mut Client, now: Time) {
    let bytes = Wiping::new(vec![7; 300]);
    client.handle(Input::Send { ticket: 1, contact: 0, bytes }, now, &mut rng()).unwrap();
}

/// The last round before a rest comes back when the rest has begun: whoever writes then calls.
#[test]
fn mix_67_after_a_rest_the_next_message_calls() {
    let mut client = with_partner();
    client.contacts.activate_contact(0, NOW);
    let late = NOW.plus_ms(601_000);
    assert!(client.contacts.take_due(late).is_empty() && !client.is_active(0));
    let cell = Cell { leaving: false, seq: 0, ack: 0, sack: 0, piece: None };
    client.on_reply(0, None, DropResult::Met(Ok(cell)), late);
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
    assert!(client.contacts.compute_turns(101, 1_024).is_empty());
    client.handle(Input::Suspend(0, false), NOW, &mut rng()).unwrap();
    assert!(client.is_active(0) && client.calls.len() == 1, "something waits");
}

fn ids(partner: &Partner) -> Vec<u32> {
    partner.lines().map(|root| root.id).collect()
}

/// A root that both sides have from this conversation round on.
fn begun(id: u32, round: u64) -> PartnerRoot {
    let root = Secret::init_with(|s| s.fill(id as u8));
    PartnerRoot::begin(id, &root, Role::Initiator, round, 100)
}

/// Both sides make a root at once: each holds both, so that they meet in one of them.
#[test]
fn mix_67_a_root_that_meets_wipes_those_of_a_lesser_rank() {
    let mut partner = Partner::new(1, begun(0, 50));
    for (id, round) in [(1, 40), (2, 60)] {
        partner.add_root(begun(id, round));
    }
    assert!(!partner.on_meeting(9), "no such root");
    assert_eq!(ids(&partner), [0, 1, 2]);
    // A partner who has not our newest one: it may still hear of it.
    assert!(partner.on_meeting(1));
    assert_eq!(ids(&partner), [1, 0, 2]);
    assert!(partner.on_meeting(0));
    assert_eq!(ids(&partner), [0, 2]);
    assert!(!partner.on_meeting(0));
    assert!(partner.on_meeting(2));
    assert_eq!(ids(&partner), [2]);
    // Whoever makes roots without end pushes out their own.
    for id in 3..=6 {
        partner.add_root(begun(id, 61));
    }
    assert_eq!(ids(&partner), [2, 4, 5, 6]);
}

/// Two who made a root each hear of the other's at some time, replies of rounds are lost, and each may be
/// started anew from what is stored: they come to the same one root.
#[test]
fn mix_67_two_sides_come_to_one_root_whatever_is_lost() {
    for seed in 0..400 {
        let mut rng = ChaCha20Rng::seed_from_u64(seed);
        // Of the same round, or of others.
        let starts = [0, 1].map(|_| 98 + rng.next_u64() % 3);
        let root = |id: u32| begun(id, starts[id as usize]);
        let mut sides = [0, 1].map(|side| {
            let mut all = Partners::default();
            all.line_number();
            all.line_number();
            all.all.insert(0, Partner::new(1, root(side)));
            all.activate_contact(0, NOW);
            all
        });
        let heard = [0, 1].map(|_| 101 + rng.next_u64() % 40);
        let mut under_way = VecDeque::new();
        for round in 101..300 {
            let served = [0, 1].map(|side| {
                if round == heard[side] {
                    sides[side].all.get_mut(&0).unwrap().add_root(root(1 - side as u32));
                }
                if rng.next_u64() % 16 == 0 {
                    let mut w = Writer::new();
                    sides[side].write_to(&mut w);
                    sides[side] = Partners::read_from(&mut Reader::new(&w.finish())).unwrap();
                }
                // One slot.
                let turns = sides[side].compute_turns(round, 2_000);
                turns.into_iter().max_by_key(|(_, meeting)| meeting.priority).map(|(id, _)| id)
            });
            under_way.push_back(served);
            // Two rounds are under way at a time.
            let Some(served) = (under_way.len() > 2).then(|| under_way.pop_front()).flatten()
            else {
                continue;
            };
            let Some(met) = served[0].filter(|_| served[0] == served[1]) else { continue };
            for all in &mut sides {
                if round > 250 || rng.next_u64() % 2 == 0 {
                    all.all.get_mut(&0).unwrap().on_meeting(met);
                }
            }
        }
        let left = sides.map(|side| ids(&side.all[&0]));
        assert!(left[0] == left[1] && left[0].len() == 1, "seed {seed}: {left:?}");
    }
}

/// A hostile partner makes root after root of lesser ranks: what waits does not grow, and it loads again.
#[test]
fn mix_67_roots_without_end_do_not_fill_a_stream() {
    let mut all = Partners::default();
    let mut partner = Partner::new(1, begun(all.line_number().unwrap(), 90));
    for ticket in 0..4 {
        partner.line.sender.push_message(ticket, &[5; 900]).unwrap();
    }
    while partner.line.sender.take_piece().is_some() {}
    all.all.insert(0, partner);
    let mut sizes = Vec::new();
    for round in (0..40).rev() {
        let id = all.line_number().unwrap();
        let partner = all.all.get_mut(&0).unwrap();
        partner.add_root(begun(id, round));
        let highest = partner.line.id;
        partner.on_meeting(id);
        partner.on_meeting(highest);
        let mut w = Writer::new();
        all.write_to(&mut w);
        let stored = w.finish();
        sizes.push(stored.len());
        all = Partners::read_from(&mut Reader::new(&stored)).unwrap();
    }
    assert!(sizes.iter().all(|size| *size <= 4 * sizes[0]), "{sizes:?}");
}

/// Versions before this one stored no ranks: such a root gives way to each newer one that meets.
#[test]
fn mix_67_a_root_that_an_older_version_stored_ranks_lowest() {
    let mut all = Partners::default();
    all.line_number();
    all.all.insert(0, Partner::new(1, begun(0, 60)));
    let mut w = Writer::new();
    all.write_to(&mut w);
    let mut stored = w.finish();
    // next line 4 | count 2 | partner 4 | bucket 4 | flags 1 | active 8 | root 4 | rank 16
    assert_eq!(stored[14], 4);
    stored[14] = 0;
    stored.drain(27..43);
    let mut again = Partners::read_from(&mut Reader::new(&stored)).unwrap();
    let partner = again.all.get_mut(&0).unwrap();
    partner.add_root(begun(1, 1));
    assert!(!partner.on_meeting(0) && ids(partner) == [0, 1]);
    assert!(partner.on_meeting(1) && ids(partner) == [1]);
}

/// A begun message moves to the root that meets, and the stream of the old root has no gap.
#[test]
fn mix_67_a_root_that_went_out_of_use_can_still_be_read() {
    let mut partner = Partner::new(1, begun(0, 60));
    partner.line.sender.push_message(7, &[5; 300]).unwrap();
    partner.line.sender.take_piece().unwrap();
    partner.add_root(begun(1, 50));
    assert!(partner.on_meeting(1));
    for (at, expected) in [(1, vec![vec![5; 300]]), (0, vec![])] {
        let sender = &mut partner.line_mut(at).unwrap().sender;
        let mut receiver = crate::stream::Receiver::default();
        let mut got = Vec::new();
        sender.settle_piece(Some(0), crate::stream::CellOutcome::Missed);
        while let Some((seq, piece)) = sender.take_piece() {
            got.extend(receiver.receive_piece(seq, &piece).unwrap());
        }
        let got: Vec<_> = got.iter().map(|message| message.bytes.to_vec()).collect();
        assert!(got.iter().filter(|bytes| bytes.iter().any(|byte| *byte != 0)).eq(&expected));
        assert_eq!(receiver.ack_fields().0, 0, "nothing is durable yet");
    }
}

/// Calls that came meanwhile reached nobody: whoever is back calls the partners of the last days.
#[test]
fn mix_68_who_comes_back_calls() {
    let mut client = with_partner();
    // It took part in rounds since its start.
    client.left = None;
    let cell = || Cell { leaving: false, seq: 0, ack: 0, sack: 0, piece: None };
    client.on_reply(0, None, DropResult::Met(Ok(cell())), NOW);
    let back = |client: &mut Client, away_ms: u64, now: Time| {
        client.handle(Input::Down, now, &mut rng()).unwrap();
        let now = now.plus_ms(away_ms);
        client.link = Link::Greeted { trusted: true, failed: 0, until: None };
        let head = client.chain.as_ref().unwrap().head_hash();
        let welcome = Input::Frame { frame: Frame::Welcome { head, now }, age_ms: 0 };
        client.handle(welcome, now, &mut rng()).unwrap();
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

/// A level that falls and rises once a minute, while a note waits for a partner who is away.
#[test]
fn mix_42_slow_a_pause_begins_no_wait_again() {
    let calls = |flips: bool| {
        let mut config = config(3);
        config.valid_until = NOW.plus_ms(30 * Time::DAY_MS);
        let mut client = with_partner_in(&config);
        let policy = config.services[1].clone();
        let mut now = NOW;
        let mut real = 0;
        send(&mut client, now);
        for round in 101..101 + 1_440 {
            now = now.plus_ms(60_000);
            client.wake(now, &mut rng());
            let filled = fill_call(&mut client, &config, round, now);
            if filled.content.is_real() {
                real += 1;
                client
                    .ledger
                    .iter_mut()
                    .for_each(|l| l.charge_round(PrivacyCost::from_policy(&policy)));
            }
            if flips {
                client.handle(Input::Suspend(0, true), now, &mut rng()).unwrap();
                client.handle(Input::Suspend(0, false), now, &mut rng()).unwrap();
            }
            client.outputs.clear();
        }
        real
    };
    let steady = calls(false);
    let flipping = calls(true);
    assert!((6..=20).contains(&steady), "{steady} of 1,440 rounds");
    assert!(flipping <= steady, "{flipping} with pauses, {steady} without");
}

/// A contact that is suspended before it was called is called afterwards.
#[test]
fn mix_42_a_call_that_was_not_made_is_made_after_the_pause() {
    let mut client = with_partner();
    send(&mut client, NOW);
    client.handle(Input::Suspend(0, true), NOW, &mut rng()).unwrap();
    let later = NOW.plus_ms(3 * Time::HOUR_MS);
    client.wake(later, &mut rng());
    client.handle(Input::Suspend(0, false), later, &mut rng()).unwrap();
    assert!(client.is_active(0) && client.calls.len() == 1);
    assert_eq!(client.contacts.all[&0].deadline(), Some(later.plus_ms(600_000)));
}

#[test]
fn mix_42_calls_that_nobody_asked_for_leave_half_of_the_budget() {
    let mut config = config(3);
    config.services[1].rounds = 10;
    let mut client = with_partner_in(&config);
    for used in 0..10 {
        assert_eq!(client.may_repeat(Service::Call, NOW), used < 5, "{used} used");
        client.calls.clear();
        client.contacts.all.get_mut(&0).unwrap().deactivate(NOW);
        client.look_again(0, NOW);
        assert_eq!(client.calls.len(), usize::from(used < 5), "{used} used");
        client
            .ledger
            .iter_mut()
            .for_each(|l| l.charge_round(PrivacyCost::from_policy(&config.services[1])));
    }
}

/// MIX-68, its second half: who is started calls whom it met before the last snapshot, too.
#[test]
fn mix_68_a_start_calls_the_partners_of_the_last_days() {
    let mut config = config(3);
    config.valid_until = NOW.plus_ms(30 * Time::DAY_MS);
    let cell = || Cell { leaving: false, seq: 0, ack: 0, sack: 0, piece: None };
    let start_after = |days: u64| {
        let mut client = with_partner_in(&config);
        client.outputs.clear();
        client.on_reply(0, None, DropResult::Met(Ok(cell())), NOW);
        client.take_snapshot(NOW.plus_ms(Time::HOUR_MS));
        let stored = rows(&mut client);
        let now = NOW.plus_ms(10 * Time::HOUR_MS + days * Time::DAY_MS);
        let rows = stored.iter().map(|(seq, row)| (*seq, row.as_slice()));
        let again = Client::<PortableBackend>::restore(setup(&config), rows, now, &mut rng());
        let mut again = again.expect("its own rows");
        again.link = Link::Greeted { trusted: true, failed: 0, until: None };
        let head = again.chain.as_ref().unwrap().head_hash();
        let welcome = Input::Frame { frame: Frame::Welcome { head, now }, age_ms: 0 };
        again.handle(welcome, now, &mut rng()).unwrap();
        again.calls.len()
    };
    assert_eq!((start_after(0), start_after(8)), (1, 0));
}

#[test]
fn mix_67_a_call_reaches_a_partner_that_has_but_one_of_two_roots() {
    let config = config(3);
    let mut client = with_partner_in(&config);
    client.contacts.line_number();
    client.contacts.all.get_mut(&0).unwrap().add_root(line(1));
    send(&mut client, NOW);
    let mut heard = [false; 2];
    let mut now = NOW;
    for round in 101..120 {
        now = now.plus_ms(5_000);
        let filled = fill_call(&mut client, &config, round, now);
        for (heard, root) in heard.iter_mut().zip([line(0), line(1)]) {
            let mut calls = root.calls;
            calls.advance_to(round, 64).unwrap();
            *heard |= filled.inner[4..] == calls.token(Role::Initiator, Intent::Talk);
        }
        client.wake(now, &mut rng());
    }
    assert_eq!(heard, [true; 2]);
}

#[test]
fn mix_73_a_note_that_needs_a_call_without_budget_is_refused_by_name() {
    let mut config = config(3);
    config.services[1].rounds = 1;
    let mut client = with_partner_in(&config);
    client
        .ledger
        .iter_mut()
        .for_each(|l| l.charge_round(PrivacyCost::from_policy(&config.services[1])));
    client.outputs.clear();
    send(&mut client, NOW);
    let refused = core::iter::from_fn(|| client.poll())
        .any(|output| matches!(output, Output::Refused(1, RefusedReason::CallBudget)));
    assert!(refused && !client.is_active(0));
    // A partner that is there needs no call.
    client.contacts.activate_contact(0, NOW);
    let cell = Cell { leaving: false, seq: 0, ack: 0, sack: 0, piece: None };
    client.on_reply(0, None, DropResult::Met(Ok(cell)), NOW);
    send(&mut client, NOW);
    assert!(!client.is_idle(0));
}

pub(super) const fn met() -> DropResult {
    DropResult::Met(Ok(Cell { leaving: false, seq: 0, ack: 0, sack: 0, piece: None }))
}

/// The line was there all the time: a short loss, a clock that was off or a mix that failed cost a round.
#[test]
fn mix_80_who_missed_a_round_of_calls_calls() {
    let mut client = with_partner();
    client.left = None;
    client.on_reply(0, None, met(), NOW);
    let heard = |client: &mut Client, round| {
        client.calls.clear();
        client.contacts.all.get_mut(&0).unwrap().deactivate(NOW);
        client.on_calls_heard(RoundId { service: Service::Call, round }, NOW);
        client.calls.len()
    };
    let calls = [101, 102, 104, 105, 103].map(|round| heard(&mut client, round));
    assert_eq!(calls, [0, 0, 1, 0, 0], "the one after a gap calls");
    client.idles = true;
    assert_eq!(heard(&mut client, 108), 0, "a locked device calls nobody");
    client.idles = false;
    assert_eq!(heard(&mut client, 109), 1, "what it missed counts when it is unlocked");
}

/// A sleep makes no partner rest (MIX-68), but the partner rests by its own count: it has to be called as well.
#[test]
fn mix_80_a_partner_that_was_served_before_a_sleep_is_called() {
    let mut config = config(3);
    config.valid_until = NOW.plus_ms(30 * Time::DAY_MS);
    let mut client = with_partner_in(&config);
    client.left = None;
    client.wake(NOW, &mut rng());
    client.contacts.activate_contact(0, NOW);
    client.on_reply(0, None, met(), NOW);
    let heard = |client: &mut Client, round, now| {
        client.on_calls_heard(RoundId { service: Service::Call, round }, now);
        client.calls.len()
    };
    assert_eq!(heard(&mut client, 101, NOW), 0);
    assert_eq!(heard(&mut client, 103, NOW.plus_ms(Time::MINUTE_MS)), 0, "both are there");
    let late = NOW.plus_ms(8 * Time::HOUR_MS);
    client.wake(late, &mut rng());
    assert!(client.is_active(0));
    assert_eq!(client.calls.len(), 1, "at once");
    assert_eq!(heard(&mut client, 110, late), 1, "once");
}

/// Rounds of calls may be rarer than the ten minutes for which a partner is served.
#[test]
fn mix_81_a_partner_is_served_from_the_round_of_its_call_on() {
    let mut config = config(3);
    config.valid_until = NOW.plus_ms(30 * Time::DAY_MS);
    let mut client = with_partner_in(&config);
    let mut now = NOW;
    client.wake(now, &mut rng());
    send(&mut client, now);
    for _ in 0..15 {
        now = now.plus_ms(Time::MINUTE_MS);
        client.wake(now, &mut rng());
    }
    assert!(!client.is_active(0) && client.calls.len() == 1);
    assert!(fill_call(&mut client, &config, 101, now).content.is_real());
    assert!(client.is_active(0), "it is there when the partner comes");
    assert_eq!(client.contacts.all[&0].deadline(), Some(now.plus_ms(600_000)));
}

/// Both sides count ten minutes for themselves: a note may be written when the partner rests already.
#[test]
fn mix_82_a_partner_that_left_is_called_while_a_message_waits() {
    let mut client = with_partner();
    client.contacts.activate_contact(0, NOW);
    client.on_reply(0, None, met(), NOW);
    for _ in 0..9 {
        client.on_reply(0, None, DropResult::Absent, NOW);
    }
    assert!(client.calls.is_empty(), "nothing waits for it");
    client.on_reply(0, None, met(), NOW);
    send(&mut client, NOW);
    let calls = [(); 5].map(|()| {
        client.on_reply(0, None, DropResult::Absent, NOW);
        client.calls.len()
    });
    assert_eq!(calls, [0, 0, 0, 1, 1]);
}
