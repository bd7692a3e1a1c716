//! The crowd drives the engine that the program runs: the same scenes by bytes and by slots.

use std::collections::BTreeMap;

use crate::crowd::{Hosted, START};
use crate::town::Town;
use mezza_mesh::Grade;
use mezza_mesh::crew::{Crew, CrewSettings};
use mezza_mesh::engine::EngineSettings;
use mezza_mesh::limits::{NEVER, SECOND};
use mezza_mesh::node::NodeSettings;
use mezza_sim::crowd::{Crowd, RadioModel};
use mezza_sim::{SimRng, for_each_seed};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;

/// Which device has which message, and when, ms after it was made.
type Arrivals = BTreeMap<(u8, usize), u64>;

/// Devices that stay where they are, and messages with their second and maker.
struct Scene {
    devices: usize,
    pairs: Vec<(u32, u32)>,
    messages: Vec<(u64, usize)>,
}

impl Scene {
    /// A sparse graph: often in parts, so that what arrives is not everything.
    fn random(seed: u64, devices: usize, contacts: u64) -> Self {
        let mut dice = SimRng::new(seed, 0);
        let mut draw = || dice.between(0, devices as u64 - 1) as u32;
        let mut pairs = Vec::new();
        while pairs.len() < contacts as usize {
            let a = draw();
            let b = draw();
            let pair = (a.min(b), a.max(b));
            if a != b && !pairs.contains(&pair) {
                pairs.push(pair);
            }
        }
        let messages = (0..12).map(|n| (10 + n, draw() as usize)).collect();
        Self { devices, pairs, messages }
    }

    /// By bytes: nodes.
    fn by_bytes(&self, engine: &EngineSettings, seed: u64) -> Arrivals {
        let settings = NodeSettings { engine: engine.clone(), ..NodeSettings::default() };
        let mut town = Town::new(self.devices, seed, &settings);
        for (a, b) in &self.pairs {
            town.join(*a as usize, *b as usize);
        }
        let mut town = town.start();
        let mut made = Vec::new();
        for (number, (second, maker)) in (0_u8..).zip(&self.messages) {
            town.run(second * 1_000 - town.now_ms);
            made.push((number, town.now_ms, town.send(*maker, number)));
        }
        town.run(20_000);
        let mut arrivals = Arrivals::new();
        for (number, at, payload) in &made {
            // The maker's own listeners are given its cell too; a crew counts what is taken from others.
            let (_, maker) = self.messages[usize::from(*number)];
            for (n, resident) in town.residents.iter().enumerate().filter(|(n, _)| *n != maker) {
                if let Some(arrived) = resident.cells.get(payload) {
                    arrivals.insert((*number, n), arrived - at);
                }
            }
        }
        arrivals
    }

    /// By slots: a crew. A frame takes a millisecond, as in a town.
    fn by_slots(&self, engine: &EngineSettings, seed: u64) -> Arrivals {
        let engine = EngineSettings { introduces: true, ..engine.clone() };
        let settings = CrewSettings { engine, every: NEVER, ring: 512, ..CrewSettings::default() };
        let mut crew = Crew::new(settings, self.devices);
        for device in 0..self.devices as u64 {
            let rng = Xoshiro256PlusPlus::seed_from_u64(seed << 32 | device);
            crew.add(Grade::Good, 0, rng, START);
        }
        crew.record_taken();
        let radio = RadioModel { rate: u64::MAX / 8, ..RadioModel::default() };
        let mut crowd = Crowd::new(Hosted::new(crew), self.devices, radio, seed, START);
        for (a, b) in &self.pairs {
            crowd.begin_contact(*a, *b);
        }
        let mut made = BTreeMap::new();
        for (number, (second, maker)) in (0_u8..).zip(&self.messages) {
            let at = START + second * SECOND;
            crowd.run_until(at);
            let slot = crowd.swarm_mut().crew.send_message(*maker as u32, 0, at);
            made.insert(crowd.swarm().crew.table().number(slot), (number, at));
            crowd.check_device(*maker as u32);
        }
        crowd.run_until(crowd.now() + 20 * SECOND);
        let taken = crowd.swarm().crew.taken_cells().iter();
        taken
            .map(|(device, number, at)| {
                let (message, from) = made[number];
                ((message, *device as usize), (at - from) / 1_000)
            })
            .collect()
    }
}

fn mean(arrivals: &Arrivals) -> u64 {
    arrivals.values().sum::<u64>() / (arrivals.len().max(1) as u64)
}

/// Without waits what arrives is the same, and when is the same but for what frames take.
#[test]
fn mesh_50_without_waits_bytes_and_slots_deliver_the_same_at_the_same_time() {
    for_each_seed(20, |seed| {
        let scene = Scene::random(seed, 30, 34);
        let engine = EngineSettings::without_waits();
        let bytes = scene.by_bytes(&engine, seed);
        let slots = scene.by_slots(&engine, seed);
        assert!(bytes.keys().eq(slots.keys()), "seed {seed}");
        assert!((40..12 * 29).contains(&bytes.len()), "neither nothing nor everything");
        // A hop is an announcement, a request and a cell, a millisecond each in a town.
        let late = bytes.iter().filter(|(key, ms)| ms.abs_diff(slots[*key]) > 3 * 29);
        assert_eq!(late.count(), 0);
    });
}

/// With all waits what arrives is the same, and the time that it takes is as long.
#[test]
fn mesh_50_with_waits_bytes_and_slots_deliver_the_same_as_fast() {
    let mut means = [0_u64; 2];
    for_each_seed(8, |seed| {
        let scene = Scene::random(seed, 30, 40);
        let engine = EngineSettings::default();
        let bytes = scene.by_bytes(&engine, seed);
        let slots = scene.by_slots(&engine, seed);
        assert!(bytes.keys().eq(slots.keys()), "seed {seed}");
        means[0] += mean(&bytes);
        means[1] += mean(&slots);
    });
    let [bytes, slots] = means;
    assert!(bytes.abs_diff(slots) * 8 < bytes + slots, "{bytes} and {slots} ms of 8 scenes");
}
