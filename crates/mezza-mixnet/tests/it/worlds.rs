//! Worlds of whole clients: they talk while connections break, jobs are lost and processes die.

use mezza_core::Backend;
use mezza_mixnet::Service;
use mezza_mixnet::client::Input;
use mezza_mixnet::config::{Config, ServicePolicy, Traps};
use mezza_mixnet::coordinator::Ending;
use rand_chacha::ChaCha20Rng;
use rand_core::{Rng as _, SeedableRng as _};

use crate::fixture::{Net, OPEN, config};
use crate::town::{Luck, Town};
use crate::toy::{TOY, Toy};

/// Conversations alone, with as little noise as there is: many rounds in a short time.
fn talks() -> Config {
    let mut config = config(3);
    config.services.truncate(1);
    let policy = &mut config.services[0];
    (policy.mu, policy.scale, policy.rounds) = (2, 0, 1 << 40);
    (policy.ask_ms, policy.lead_ms, policy.mix_limit_ms) = (500, 500, 1_000);
    (policy.interval_ms, policy.collect_ms) = (2_000, 1_000);
    config
}

/// Runs until everything arrived, without bad luck for the last part.
fn calm_down<B: Backend>(town: &mut Town<B>) {
    for person in &mut town.people {
        person.luck = Luck::default();
    }
    town.city.net.luck = 0;
    // Who was called and died before its first round with the caller is called again after an hour.
    let calls = town.city.net.config.services.len() > 1;
    for step in 0..1_500 {
        if town.is_calm() {
            return;
        }
        // Where nobody can be called, people look at their contacts now and then.
        for (at, other) in (0..3).flat_map(|at| (0..3).map(move |other| (at, other))) {
            if !calls && step % 100 == 0 {
                town.give(at, Input::Activate(other));
            }
        }
        let next = town.now().plus_ms(4_000);
        town.until(next);
    }
    panic!(
        "something never arrives: {:?}",
        town.people.iter().map(|p| &p.client).collect::<Vec<_>>()
    );
}

/// The pairs that talk, both ways.
type Pairs = [(usize, usize)];

/// Messages of chance for a while, then everything must have come, once and in order.
fn talk<B: Backend>(town: &mut Town<B>, rng: &mut ChaCha20Rng, pairs: &Pairs, steps: u8) {
    let mut sent: Vec<(usize, usize, Vec<u8>)> = Vec::new();
    for step in 0..steps {
        for (from, to) in pairs {
            if rng.next_u32().is_multiple_of(2) {
                let bytes = vec![16 * *from as u8 + step + 1; 1 + rng.next_u32() as usize % 700];
                sent.push((*from, *to, bytes.clone()));
                town.write(*from, *to, bytes);
            }
        }
        let next = town.now().plus_ms(2_000 + u64::from(rng.next_u32() % 12_000));
        town.until(next);
    }
    calm_down(town);
    for (from, to) in pairs {
        let due = sent.iter().filter(|(f, t, _)| f == from && t == to);
        let due = due.map(|(_, _, bytes)| bytes.clone()).collect::<Vec<_>>();
        let got = town.people[*to].inbox.get(&(*from as u32)).cloned().unwrap_or_default();
        // Long messages of one byte each: their ends tell them apart.
        let ends = |all: &[Vec<u8>]| {
            let end = |m: &Vec<u8>| (m.len(), m[0], m[m.len() - 1]);
            all.iter().map(end).collect::<Vec<_>>()
        };
        assert_eq!(ends(&got), ends(&due), "from {from} to {to}");
        assert!(got == due);
    }
    assert!(town.crashes + town.cuts > 0, "nothing went wrong");
}

fn three_people<B: Backend>(mut town: Town<B>, seed: u64) -> Town<B> {
    let mut rng = ChaCha20Rng::seed_from_u64(seed);
    town.until(OPEN);
    town.introduce(0, 1, 1);
    town.introduce(0, 2, 2);
    for person in &mut town.people {
        person.luck = Luck { crash: 12, cut: 10, dead: 200, lost: 20 };
    }
    talk(&mut town, &mut rng, &[(0, 1), (1, 0), (2, 0), (0, 2)], 8);
    town
}

#[test]
fn mix_23_slow_bytes_come_once_and_in_order_whatever_dies() {
    mezza_sim::for_each_seed(100, |seed| {
        let net = Net::<Toy>::with_kernel(talks(), seed, &TOY);
        drop(three_people(Town::around(net, 3, seed), seed));
    });
}

#[test]
fn mix_15_slow_mixes_die_at_any_output_and_every_message_still_comes_once() {
    let mut seeds = 0;
    let mut deaths = 0;
    let mut kept = 0;
    mezza_sim::for_each_seed(100, |seed| {
        let mut net = Net::<Toy>::with_kernel(talks(), seed, &TOY);
        net.luck = 40 + (seed % 7) as u32 * 40;
        net.shuffled = seed % 2 == 0;
        let town = three_people(Town::around(net, 3, seed), seed);
        (seeds, deaths) = (seeds + 1, deaths + town.city.deaths);
        let ended =
            town.city.over.iter().filter(|(_, ending)| matches!(ending, Ending::Returned(_)));
        kept += ended.count();
    });
    // One seed alone, replayed, need not see any.
    let some = deaths > 100 && kept > 1_000;
    assert!(some || seeds < 100, "{deaths} deaths, {kept} rounds came back");
}

#[test]
fn mix_23_slow_and_so_they_do_without_toys() {
    mezza_sim::for_each_seed(10, |seed| drop(three_people(Town::new(talks(), 3, seed), seed)));
}

/// Several slots, calls and invitations, everybody with everybody.
#[test]
fn mix_23_several_slots_fill_one_record() {
    mezza_sim::for_each_seed(15, |seed| {
        let mut rng = ChaCha20Rng::seed_from_u64(seed);
        let mut config = talks();
        let [two, three] = [Service::Call, Service::Invitation].map(|service| ServicePolicy {
            service,
            interval_ms: 4_000,
            slots: 1,
            traps: Traps::NONE,
            ..config.services[0].clone()
        });
        config.services[0].slots = 2 + (seed % 4) as u8;
        config.services.extend([two, three]);
        let net = Net::<Toy>::with_kernel(config, seed, &TOY);
        let mut town = Town::around(net, 3, seed);
        town.until(OPEN);
        for (a, b, root) in [(0, 1, 1), (0, 2, 2), (1, 2, 3)] {
            town.introduce(a, b, root);
        }
        for person in &mut town.people {
            person.luck = Luck { crash: 8, cut: 6, dead: 200, lost: 20 };
        }
        talk(&mut town, &mut rng, &[(0, 1), (1, 0), (2, 0), (0, 2), (1, 2), (2, 1)], 6);
    });
}
