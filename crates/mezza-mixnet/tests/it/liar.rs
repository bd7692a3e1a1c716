//! Clients in front of an entry that lies, on clocks that are put back, in processes that stall.

use std::cell::RefCell;
use std::rc::Rc;

use mezza_core::Time;
use mezza_mixnet::client::{Input, Output};
use mezza_mixnet::config::{Config, ServicePolicy};
use mezza_mixnet::wire::{Frame, FrameBody, MissedReason, SignedSettings};
use mezza_mixnet::{RoundId, Service};
use rand_chacha::ChaCha20Rng;
use rand_core::{Rng as _, SeedableRng as _};

use crate::fixture::{Net, OPEN, config};
use crate::town::{Luck, Town};
use crate::toy::{TOY, Toy};

/// All services, short rounds, as little noise as there is.
fn quick(services: usize) -> Config {
    let mut config = config(3);
    config.services.truncate(services);
    for policy in &mut config.services {
        let ServicePolicy { mu, scale, buckets, .. } = policy;
        (*mu, *scale, *buckets) = (2, 0, 1);
        (policy.ask_ms, policy.lead_ms, policy.mix_limit_ms) = (500, 500, 1_000);
        (policy.interval_ms, policy.collect_ms) = (2_000, 1_000);
    }
    config
}

/// A town of toys in which everybody has joined, and the first two serve each other.
fn joined(config: Config, people: u64, seed: u64) -> Town<Toy> {
    let mut town = Town::around(Net::<Toy>::with_kernel(config, seed, &TOY), people, seed);
    town.looks = true;
    town.until(OPEN.plus_ms(1_500));
    town.introduce(0, 1, 1);
    for at in [0, 1] {
        town.give(at, Input::Activate(1 - at as u32));
    }
    town
}

fn after(town: &mut Town<Toy>, ms: u64) {
    let end = town.now().plus_ms(ms);
    town.until(end);
}

/// Rounds of a service that a person sealed.
fn sealed(town: &Town<Toy>, at: usize, service: Service) -> Vec<u64> {
    let of = |id: &&RoundId| id.service == service;
    town.people[at].sealed.iter().filter(of).map(|id| id.round).collect()
}

#[test]
fn mix_40_a_round_whose_time_comes_behind_a_later_one_is_not_sealed() {
    let mut town = joined(quick(1), 2, 21);
    town.liar = Some(Box::new(|at, mut frame| {
        if let Frame::Round(id, FrameBody::Settings(told)) = &mut frame
            && (at, id.round) == (0, 103)
        {
            told.closes_in_ms += 3_000;
        }
        vec![frame]
    }));
    after(&mut town, 16_000);
    let talks = |at| sealed(&town, at, Service::Conversation);
    assert!(talks(1).contains(&103), "{:?}", talks(1));
    let mut others = talks(1);
    others.retain(|round| *round != 103);
    assert_eq!(talks(0), others);
}

#[test]
fn mix_40_slow_settings_that_arrive_together_after_a_stall_do_no_harm() {
    mezza_sim::for_each_seed(100, |seed| {
        // As in the example: rounds of 5 s, settings 5 s ahead, 4 s to collect.
        let mut config = config(3);
        config.services.truncate(1);
        (config.services[0].mu, config.services[0].scale) = (2, 0);
        let mut town = joined(config, 2, 100 + seed);
        let mut held = Vec::new();
        town.liar = Some(Box::new(move |at, frame| match &frame {
            Frame::Round(id, FrameBody::Settings(_)) if at == 0 && id.round == 103 => {
                held.push(frame);
                vec![]
            }
            Frame::Round(id, FrameBody::Settings(_)) if at == 0 && id.round == 104 => {
                held.drain(..).chain([frame]).collect()
            }
            _ => vec![frame],
        }));
        after(&mut town, 60_000);
        assert!(sealed(&town, 0, Service::Conversation).len() >= 9);
        town.write(0, 1, b"still there".to_vec());
        after(&mut town, 30_000);
        assert_eq!(town.people[1].inbox[&0], [b"still there".to_vec()]);
    });
}

#[test]
fn mix_40_a_clock_that_is_put_back_does_no_harm() {
    for back_ms in [300, 1_000, 3_000, 5_000, 50_000] {
        let mut town = joined(quick(1), 2, 23);
        after(&mut town, 4_100);
        town.put_back(0, back_ms);
        let before = sealed(&town, 0, Service::Conversation).len();
        town.write(0, 1, b"still there".to_vec());
        after(&mut town, 20_000);
        let since = sealed(&town, 0, Service::Conversation).len() - before;
        assert!(since >= 8, "{since} rounds after {back_ms} ms");
        assert_eq!(town.people[1].inbox[&0], [b"still there".to_vec()], "{back_ms} ms");
    }
}

#[test]
fn mix_50_a_clock_that_was_ahead_takes_no_chain_along() {
    for starts in [false, true] {
        let mut town = joined(quick(1), 2, 24);
        after(&mut town, 4_100);
        town.put_ahead(0, 6 * Time::HOUR_MS);
        town.cut(0);
        if starts {
            town.crash(0);
        }
        // A snapshot is made a minute after a start.
        after(&mut town, 75_000);
        town.put_back(0, 6 * Time::HOUR_MS);
        if starts {
            town.crash(0);
        }
        after(&mut town, 15_000);
        town.write(0, 1, b"still there".to_vec());
        after(&mut town, 30_000);
        let inbox = town.people[1].inbox.get(&0).cloned().unwrap_or_default();
        assert_eq!(inbox, [b"still there".to_vec()], "with starts: {starts}");
    }
}

/// An entry that lies about all that nobody signed, by chance.
struct Lies {
    rng: ChaCha20Rng,
    heard: Vec<(RoundId, SignedSettings)>,
    held: Vec<Frame>,
}

impl Lies {
    fn one_in(&mut self, n: u32) -> bool {
        self.rng.next_u32().is_multiple_of(n)
    }

    /// When the round would close, give or take some seconds.
    fn about(&mut self, ms: u32) -> u32 {
        (ms + self.rng.next_u32() % 6_000).saturating_sub(3_000)
    }

    /// A round announced before, again; or one that was missed, whether it was or not.
    fn again(&mut self) -> Option<Frame> {
        let last = self.heard.len().checked_sub(1)?;
        let at = last.saturating_sub(self.rng.next_u32() as usize % 6);
        let (id, told) = self.heard[at].clone();
        if self.one_in(2) {
            return Some(Frame::Round(id, FrameBody::Missed(MissedReason::Late)));
        }
        let closes_in_ms = self.about(3_000);
        Some(Frame::Round(id, FrameBody::Settings(SignedSettings { closes_in_ms, ..told })))
    }

    fn of(&mut self, mut frame: Frame) -> Vec<Frame> {
        match &mut frame {
            Frame::Round(id, FrameBody::Settings(told)) => {
                self.heard.push((*id, told.clone()));
                if self.one_in(2) {
                    told.closes_in_ms = self.about(told.closes_in_ms);
                }
            }
            Frame::Round(id, FrameBody::Return { users, .. }) => {
                *users = self.rng.next_u32();
                if self.one_in(4) {
                    frame = Frame::Round(*id, FrameBody::Missed(MissedReason::Full));
                }
            }
            _ => {}
        }
        if self.one_in(8) {
            self.held.push(frame);
            return Vec::new();
        }
        let mut frames = vec![frame];
        if self.one_in(4) {
            let held = core::mem::take(&mut self.held);
            frames.splice(if self.one_in(2) { 0..0 } else { 1..1 }, held);
        }
        frames
    }
}

#[test]
fn slow_an_entry_that_lies_never_gets_two_onions_of_one_call() {
    let mut calls = 0;
    mezza_sim::for_each_seed(100, |seed| {
        let mut town = joined(quick(3), 3, seed);
        town.introduce(0, 2, 2);
        for person in &mut town.people {
            person.luck = Luck { crash: 2, cut: 4, dead: 200, lost: 10 };
        }
        let lies =
            Lies { rng: ChaCha20Rng::seed_from_u64(seed), heard: Vec::new(), held: Vec::new() };
        let lies = Rc::new(RefCell::new(lies));
        let liar = Rc::clone(&lies);
        town.liar = Some(Box::new(move |_, frame| liar.borrow_mut().of(frame)));
        for step in 0..200_u32 {
            if step % 8 == 0 {
                let from = step as usize / 8 % 3;
                let to = if from == 0 { 1 + step as usize / 24 % 2 } else { 0 };
                town.call(from, to);
                town.write(from, to, vec![step as u8; 40]);
            }
            for at in 0..3 {
                let again = lies.borrow_mut().again();
                if let Some(frame) = again.filter(|_| town.people[at].client.is_some()) {
                    town.give(at, Input::Frame { frame, age_ms: 0 });
                }
            }
            after(&mut town, 290);
        }
        let real = |call: &&Vec<u8>| call[..4] != [0; 4];
        calls += town.people.iter().flat_map(|p| &p.calls).filter(real).count();
        assert!(town.people.iter().all(|person| !person.sealed.is_empty()));
    });
    // What a person sends twice is found by the person (`Person::submits`).
    assert!(calls > 0, "nobody was called");
}

#[test]
fn mix_42_slow_a_round_that_was_missed_is_not_made_up_for_at_any_price() {
    use mezza_core::Wiping;
    use mezza_mixnet::client::Invite;
    use mezza_mixnet::wire::invitation::BODY_BYTES;
    let mut config = quick(3);
    config.services[1].rounds = 40;
    config.services[2].rounds = 20;
    let mut town = joined(config, 3, 31);
    town.liar = Some(Box::new(|_, frame| match frame {
        Frame::Round(id, FrameBody::Return { .. }) if !id.service.has_replies() => {
            vec![Frame::Round(id, FrameBody::Missed(MissedReason::Late))]
        }
        frame => vec![frame],
    }));
    town.give(0, Input::Leave(1));
    town.introduce(0, 2, 2);
    town.call(0, 2);
    let to = crate::town::dialling_key(2);
    let body = Wiping::new([7; BODY_BYTES]);
    town.give(0, Input::Invite(Invite { ticket: 9, to, body: body.clone() }));
    let used = |town: &Town<Toy>| {
        let ledger = town.people[0].client.as_ref().and_then(|client| client.ledger());
        [Service::Call, Service::Invitation].map(|of| ledger.expect("it joined").used_rounds(of))
    };
    after(&mut town, 132_000);
    // In rounds 0, 2, 6, 14, 30 and 62 of 65.
    assert_eq!(used(&town), [6, 6], "every round was missed");
    for _ in 0..40 {
        town.cut(0);
        after(&mut town, 4_000);
        town.give(0, Input::Invite(Invite { ticket: 9, to, body: body.clone() }));
        after(&mut town, 4_000);
    }
    let [calls, invitations] = used(&town);
    assert!(calls <= 20 && invitations <= 10, "half of a budget: {calls} and {invitations}");
    let budget = |news: &Output| matches!(news, Output::Budget(..)).then_some(());
    assert!(town.told(0, budget).is_empty(), "nothing is low");
}
