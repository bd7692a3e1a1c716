//! The times of frames tell nothing about their sender (MIX-74).

use std::cell::RefCell;
use std::rc::Rc;

use mezza_mixnet::config::{Config, ServicePolicy};
use mezza_mixnet::wire::{Frame, FrameBody};
use mezza_mixnet::{RoundId, Service};

use crate::fixture::{Net, OPEN, config};
use crate::town::Town;
use crate::toy::{TOY, Toy};

/// Rounds of 5 s for conversations and calls.
fn rounds_of_five_seconds() -> Config {
    let mut config = config(3);
    for policy in &mut config.services {
        let ServicePolicy { mu, scale, buckets, .. } = policy;
        (*mu, *scale, *buckets) = (2, 0, 1);
        (policy.ask_ms, policy.lead_ms, policy.mix_limit_ms) = (500, 4_000, 1_000);
    }
    config
}

/// The probability of a distance at least this large between two samples of one law (Kolmogorov and
/// Smirnov, two samples).
#[expect(clippy::cast_precision_loss, reason = "a few thousand values")]
fn same_law(mut a: Vec<f64>, mut b: Vec<f64>) -> f64 {
    a.sort_by(f64::total_cmp);
    b.sort_by(f64::total_cmp);
    let share = |all: &[f64], x: f64| all.partition_point(|y| *y <= x) as f64 / all.len() as f64;
    let gap = |x: &f64| (share(&a, *x) - share(&b, *x)).abs();
    let most = a.iter().chain(&b).map(gap).fold(0.0, f64::max);
    let n = ((a.len() * b.len()) as f64 / (a.len() + b.len()) as f64).sqrt();
    let lambda = (n + 0.12 + 0.11 / n) * most;
    let term = |k: i32| {
        let sign = if k % 2 == 1 { 2.0 } else { -2.0 };
        sign * (-2.0 * f64::from(k * k) * lambda * lambda).exp()
    };
    if lambda < 0.2 { 1.0 } else { (1..=100).map(term).sum::<f64>().clamp(0.0, 1.0) }
}

#[test]
#[expect(clippy::cast_precision_loss, reason = "milliseconds")]
fn the_test_of_two_samples_finds_a_tenth_of_a_shift() {
    let even = |n: usize, shift: f64| (0..n).map(|i| i as f64 / n as f64 + shift).collect();
    assert!(same_law(even(1_000, 0.0), even(900, 0.0)) > 0.9);
    assert!(same_law(even(1_000, 0.0), even(1_000, 0.1)) < 1e-3);
}

/// Milliseconds from the opening of each round to its SUBMIT.
#[expect(clippy::cast_precision_loss, reason = "milliseconds")]
fn submits(town: &Town<Toy>, at: usize, service: Service) -> Vec<f64> {
    let opens = |round: u64| OPEN.plus_ms(5_000 * (round - 100));
    let all = town.people[at].times.submits.iter().filter(|(id, _)| id.service == service);
    all.map(|(id, sent)| sent.since_ms(opens(id.round)) as f64).collect()
}

/// A town in which 0 and 1 talk all the time, and 2 and 3 do not.
fn watched(sync_ms: u64, rounds: u64) -> Town<Toy> {
    let config = rounds_of_five_seconds();
    let net = Net::<Toy>::with_kernel(config, 11, &TOY);
    let mut town = Town::around(net, 4, 11);
    // Settings of a config that nobody knows come now and then, to all at once.
    let unknown = Rc::new(RefCell::new(Vec::<RoundId>::new()));
    let seen = Rc::clone(&unknown);
    town.liar = Some(Box::new(move |_, frame| match &frame {
        Frame::Round(id, FrameBody::Settings(announced))
            if id.service == Service::Conversation && id.round % 25 == 0 =>
        {
            seen.borrow_mut().push(*id);
            let mut other = announced.clone();
            other.settings.config[0] ^= 1;
            vec![frame.clone(), Frame::Round(*id, FrameBody::Settings(other))]
        }
        _ => vec![frame],
    }));
    town.until(OPEN.plus_ms(4_500));
    town.introduce(0, 1, 1);
    town.until(OPEN.plus_ms(9_500));
    town.slow_down(sync_ms);
    for round in 0..rounds {
        for (from, to) in [(0, 1), (1, 0)] {
            town.write(from, to, vec![round as u8; 300]);
            town.commit(from);
            if round % 3 == 0 {
                town.call(from, to);
            }
        }
        let end = OPEN.plus_ms(9_500 + 5_000 * round);
        town.until(end.plus_ms(4_000));
        if round % 20 == 19 {
            (0..4).for_each(|at| town.cut(at));
        }
        town.until(end.plus_ms(5_000));
        for id in unknown.borrow_mut().drain(..) {
            let read = OPEN.plus_ms(5_000 * (id.round - 100)).minus_ms(4_000);
            (0..4).for_each(|at| town.people[at].sees_unknown_config(read));
        }
    }
    town
}

/// The times of one kind of frame, by the place of a person.
type TimesOf<'a> = &'a dyn Fn(usize) -> Vec<f64>;

fn talking_and_idling_look_alike(sync_ms: u64) {
    let town = watched(sync_ms, 1_000);
    let pooled = |of: &dyn Fn(usize) -> Vec<f64>, who: [usize; 2]| {
        who.iter().flat_map(|at| of(*at)).collect::<Vec<_>>()
    };
    let kinds: [(&str, TimesOf<'_>); 5] = [
        ("SUBMIT of conversations", &|at| submits(&town, at, Service::Conversation)),
        ("SUBMIT of calls", &|at| submits(&town, at, Service::Call)),
        ("GET", &|at| town.people[at].times.gets.clone()),
        ("HELLO", &|at| town.people[at].times.hellos.clone()),
        ("GET_CONFIG", &|at| town.people[at].times.asks.clone()),
    ];
    for (what, of) in kinds {
        let busy = pooled(of, [0, 1]);
        let idle = pooled(of, [2, 3]);
        assert!(busy.len() >= 60 && idle.len() >= 60, "{what}: {} and {}", busy.len(), idle.len());
        let p = same_law(busy, idle);
        assert!(p > 0.01, "{what} with {sync_ms} ms a sync: p = {p:e}");
    }
    // A round that is missed tells as much as one that is late. Connections end every 20 rounds, and each
    // client is back at a time of its own, at most two rounds later.
    for round in (110..1_090).filter(|round| (4..=18).contains(&((round - 102) % 20))) {
        let id = RoundId { service: Service::Conversation, round };
        let sent = town.people.iter().map(|person| person.times.submits.contains_key(&id));
        assert!(
            sent.clone().all(|sent| sent),
            "{id:?} with {sync_ms} ms: {:?}",
            sent.collect::<Vec<_>>()
        );
    }
    assert!(town.people[0].inbox[&1].len() > 300, "they talked");
}

#[test]
fn mix_74_slow_times_on_a_disk_without_delay() {
    talking_and_idling_look_alike(0);
}

#[test]
fn mix_74_slow_times_on_a_disk_of_50_ms() {
    talking_and_idling_look_alike(50);
}

#[test]
fn mix_74_slow_times_on_a_disk_of_250_ms() {
    talking_and_idling_look_alike(250);
}
