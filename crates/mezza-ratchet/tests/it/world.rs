//! Worlds of two to five people: loss, repeats, messages up to 20 days late, crashes between any
//! two effects, wrong clocks, lost states, sessions begun by both. One seed decides everything;
//! `MEZZA_SEED=n` replays it.
//!
//! The judge asks after each opened message: what could a thief of this disk read now?

use std::collections::{BTreeMap, BTreeSet};

use mezza_core::{PublicKey, Time};
use mezza_ratchet::Table;
use mezza_ratchet::wire::{self, container};
use mezza_sim::{CrashRate, HostId, LinkModel, World, WorldStep, for_each_seed};

mod device;
mod thief;

use crate::people;
use device::{Device, Disk, News, Order, Rows};

const MINUTE: u64 = Time::MINUTE_MS;
const HOUR: u64 = Time::HOUR_MS;
const DAY: u64 = Time::DAY_MS;

/// The name of a keystream of a container: receiver, ratchet key, index and nonce N.
type Keystream = (HostId, PublicKey, u32, Vec<u8>);

/// The memory of the judge.
#[derive(Default)]
struct Judge {
    /// Notes that a person opened: place and number.
    opened: BTreeSet<(HostId, u64)>,
    /// The bytes that were opened, by place.
    read: BTreeMap<HostId, Vec<thief::Read>>,
    thefts: u64,
    refused: u64,
    sealed: BTreeMap<Keystream, Vec<u8>>,
    /// Places where an old state was put back.
    put_back: BTreeSet<HostId>,
}

impl Judge {
    fn step(&mut self, world: &World<Device>, step: &WorldStep<News>) {
        match step {
            WorldStep::Told { at, news: News::Opened(read) } => {
                assert!(self.opened.insert((*at, read.note)), "a note was opened twice");
                let all = self.read.entry(*at).or_default();
                all.push(read.clone());
                // Nothing opened before is readable by a thief of the current state: the newest,
                // and an older one in turn.
                for i in [all.len() - 1, all.len() * 7 / 3 % all.len()] {
                    thief::cannot_read(world.disk(*at), &all[i], world.now());
                    self.thefts += 1;
                }
            }
            WorldStep::Told { news: News::Sealed(to, bytes), .. } => self.keystream(*to, bytes),
            WorldStep::Told { news: News::Refused, .. } => self.refused += 1,
            _ => {}
        }
    }
}

impl Judge {
    /// R5: whatever was put back, a container seals two bodies under two nonces.
    fn keystream(&mut self, to: HostId, bytes: &[u8]) {
        let envelope = wire::decode_message(bytes).expect("a message");
        if bytes[0] == container::FAMILY {
            let inner = envelope.inner;
            let at = (to, inner.key, inner.n, inner.sealed[..16].to_vec());
            let old = self.sealed.insert(at, inner.sealed.to_vec());
            assert!(old.is_none_or(|old| old == *inner.sealed), "a keystream served twice");
        }
    }

    /// A place that was put back has lost what it did since: it may open messages again, and a
    /// thief may read them.
    fn forgive(&mut self, place: HostId) {
        self.opened.retain(|(at, _)| *at != place);
        self.read.remove(&place);
        self.put_back.insert(place);
    }
}

/// Somebody keeps a copy of a disk, and puts an older one back now and then.
fn roll_back(
    world: &mut World<Device>,
    places: &[HostId],
    kept: &mut BTreeMap<HostId, Rows>,
    judge: &mut Judge,
) {
    let at = *world.dice().pick(places).expect("people");
    match kept.remove(&at) {
        Some(rows) => {
            world.crash_host(at, MINUTE);
            world.disk_mut(at).put_back(rows);
            judge.forgive(at);
        }
        None => {
            kept.insert(at, world.disk(at).snapshot());
        }
    }
}

fn settle(world: &mut World<Device>, judge: &mut Judge, ms: u64) {
    world.run_for(ms, |world, step| judge.step(world, step));
}

/// Every pair of people, both ways.
fn pairs(places: &[HostId]) -> Vec<(HostId, HostId)> {
    let all = places.iter().flat_map(|a| places.iter().map(|b| (*a, *b)));
    all.filter(|(a, b)| a != b).collect()
}

fn world_of(seed: u64) -> (World<Device>, Vec<HostId>) {
    let mut world = World::new(seed);
    let people = world.dice().between(2, 5) as u32;
    let server = device::server(people);
    let suite = people::SUITES[(seed % 4) as usize];
    let places: Vec<HostId> =
        (0..people).map(|i| world.add_host(Disk::new(i, people, server.clone(), suite))).collect();
    let rough = LinkModel {
        loss_permille: 100,
        duplicate_permille: 100,
        late_permille: 200,
        late_ms: 20 * DAY,
        ..LinkModel::datagram()
    };
    for (a, b) in pairs(&places) {
        world.set_link(a, b, rough);
    }
    for place in &places {
        world.set_crash_rate(*place, CrashRate { permille: 15, down_ms: (MINUTE, 2 * DAY) });
        world.cache_writes(*place);
    }
    (world, places)
}

#[test]
fn slow_a_hundred_worlds() {
    let mut opened = 0;
    let mut thefts = 0;
    let mut refused = 0;
    let mut rolled_back = 0;
    for_each_seed(100, |seed| {
        let (mut world, places) = world_of(seed);
        let mut judge = Judge::default();
        let mut note = 0;
        let mut kept = BTreeMap::new();
        for _ in 0..9 {
            if world.dice().chance(300) {
                roll_back(&mut world, &places, &mut kept, &mut judge);
            }
            for _ in 0..6 {
                let from = *world.dice().pick(&places).expect("people");
                let others: Vec<_> = places.iter().copied().filter(|p| *p != from).collect();
                let to = *world.dice().pick(&others).expect("people");
                let order = match world.dice().between(0, 29) {
                    0 => Order::Forget,
                    1..=3 => Order::Begin(to),
                    _ => Order::Say(to, note),
                };
                note += 1;
                let delay = world.dice().between(0, 4 * DAY);
                world.schedule_order(from, delay, order);
            }
            if world.dice().chance(200) {
                let at = *world.dice().pick(&places).expect("people");
                let ms = i64::try_from(world.dice().between(0, DAY)).expect("a day");
                world.shift_clock(at, ms - 12 * 3_600_000);
            }
            settle(&mut world, &mut judge, 4 * DAY);
        }
        // All misfortune ends; old messages arrive or are too late.
        world.stop_faults();
        settle(&mut world, &mut judge, 31 * DAY);
        // Who knows that an old state was put back begins anew with everybody.
        for (from, to) in
            pairs(&places).into_iter().filter(|(from, _)| judge.put_back.contains(from))
        {
            world.schedule_order(from, 0, Order::Begin(to));
        }
        settle(&mut world, &mut judge, HOUR);
        rolled_back += judge.put_back.len();
        for round in 0..4 {
            for (i, (from, to)) in pairs(&places).into_iter().enumerate() {
                world.schedule_order(from, i as u64 * MINUTE, Order::Say(to, last_note(round, i)));
            }
            settle(&mut world, &mut judge, HOUR);
        }
        // What was promised comes true: everybody reads everybody.
        for (i, (_, to)) in pairs(&places).into_iter().enumerate() {
            assert!(judge.opened.contains(&(to, last_note(3, i))), "{to} did not read the last");
        }
        heals(&mut world, &places, &mut judge);
        opened += judge.opened.len();
        thefts += judge.thefts;
        refused += judge.refused;
    });
    // The worlds are no empty ones (with one seed alone these numbers are smaller).
    assert!(opened > 10 && thefts >= opened as u64 / 2, "{opened} {thefts} {refused}");
    assert!(rolled_back > 0 || opened < 1_000, "{rolled_back}");
}

fn last_note(round: u64, pair: usize) -> u64 {
    1_000_000 + round * 1_000 + pair as u64
}

/// A thief copies a disk and then only listens: after one round trip he reads nothing new.
fn heals(world: &mut World<Device>, places: &[HostId], judge: &mut Judge) {
    let alice = places[0];
    let bob = places[1];
    let mut thief = thief::Listener::of(world.disk(alice), bob, world.now());
    let mut note = 2_000_000;
    let mut readable = Vec::new();
    for _ in 0..4 {
        for (from, to) in [(bob, alice), (alice, bob)] {
            world.schedule_order(from, 0, Order::Say(to, note));
            settle(world, judge, MINUTE);
            if to == alice {
                let read = judge.read[&alice].last().expect("a note").clone();
                assert_eq!(read.note, note);
                readable.push(thief.reads(&read));
            } else {
                thief.guesses();
            }
            note += 1;
        }
    }
    // The first notes may still be read with what was stolen; after Alice's next new key and
    // Bob's answer nothing is.
    assert!(!readable[2] && !readable[3], "{readable:?}");
    assert!(world.disk(alice).count(Table::Session) > 0);
}
