//! The reachable optimum: the crowd without loss, limits and waits against an exact calculation.

use std::collections::BTreeMap;

use crate::crowd::{Hosted, START};
use mezza_mesh::crew::{Crew, CrewSettings};
use mezza_mesh::engine::EngineSettings;
use mezza_mesh::limits::{NEVER, SECOND};
use mezza_mesh::{CellLife, Grade};
use mezza_sim::crowd::movement::trace::ContactTrace;
use mezza_sim::crowd::{Crowd, RadioModel};
use mezza_sim::{SimRng, for_each_seed};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;

/// A message: its second and its maker.
type Message = (u64, u32);

/// Frames take a microsecond each; this many may be needed for a message to cross everything.
const CROSSING_US: u64 = 100_000;

/// When each device has each message, in seconds, by flooding at each change of the contacts.
fn reachable(
    trace: &ContactTrace,
    messages: &[Message],
    devices: u32,
) -> BTreeMap<(usize, u32), u64> {
    let mut has: BTreeMap<(usize, u32), u64> = BTreeMap::new();
    let mut up = std::collections::BTreeSet::new();
    let times = trace.changes.iter().map(|(t, ..)| *t).chain(messages.iter().map(|(t, _)| *t));
    let times: std::collections::BTreeSet<u64> = times.collect();
    for now in times {
        for (_, pair, comes) in trace.changes.iter().filter(|(t, ..)| *t == now) {
            if *comes {
                up.insert(*pair)
            } else {
                up.remove(pair)
            };
        }
        for (at, (_, maker)) in messages.iter().enumerate().filter(|(_, (t, _))| *t == now) {
            has.insert((at, *maker), now);
        }
        // Through as many contacts as there are devices.
        for _ in 0..devices {
            for (a, b) in &up {
                for at in 0..messages.len() {
                    for (from, to) in [(*a, *b), (*b, *a)] {
                        if has.contains_key(&(at, from)) {
                            has.entry((at, to)).or_insert(now);
                        }
                    }
                }
            }
        }
    }
    has
}

/// The same in the crowd.
fn simulated(
    trace: &ContactTrace,
    messages: &[Message],
    devices: u32,
    seed: u64,
) -> BTreeMap<(usize, u32), u64> {
    let settings = CrewSettings {
        engine: EngineSettings { burst: 64, ..EngineSettings::without_waits() },
        every: NEVER,
        life: CellLife::HalfHour,
        delay: 0,
        ring: 512,
        ..CrewSettings::default()
    };
    let mut crew = Crew::new(settings, devices as usize);
    for device in 0..devices {
        crew.add(
            Grade::Good,
            0,
            Xoshiro256PlusPlus::seed_from_u64(seed << 16 | u64::from(device)),
            START,
        );
    }
    crew.record_taken();
    let radio = RadioModel { rate: u64::MAX / 8, ..RadioModel::default() };
    let mut crowd = Crowd::new(Hosted::new(crew), devices as usize, radio, seed, START);
    let mut made = BTreeMap::new();
    let end = trace.changes.iter().map(|(t, ..)| *t).max().unwrap_or(0);
    for second in 0..=end {
        for (_, (a, b), up) in trace.changes.iter().filter(|(t, ..)| *t == second) {
            if *up { crowd.begin_contact(*a, *b) } else { crowd.end_contact(*a, *b) }
        }
        for (at, (_, maker)) in messages.iter().enumerate().filter(|(_, (t, _))| *t == second) {
            let now = crowd.now();
            let to = (maker + 1) % devices;
            let slot = crowd.swarm_mut().crew.send_message(*maker, to, now);
            made.insert(crowd.swarm().crew.table().number(slot), at);
            crowd.check_device(*maker);
        }
        crowd.run_until(START + (second + 1) * SECOND - 1);
    }
    let taken = crowd.swarm().crew.taken_cells().iter();
    let mut has: BTreeMap<(usize, u32), u64> =
        taken.map(|(device, number, at)| ((made[number], *device), at - START)).collect();
    for (at, (second, maker)) in messages.iter().enumerate() {
        has.insert((at, *maker), second * SECOND);
    }
    has
}

fn compare(trace: &ContactTrace, messages: &[Message], devices: u32, seed: u64) -> usize {
    let exact = reachable(trace, messages, devices);
    let crowd = simulated(trace, messages, devices, seed);
    let missing: Vec<_> = exact.keys().filter(|key| !crowd.contains_key(key)).collect();
    let extra: Vec<_> = crowd.keys().filter(|key| !exact.contains_key(key)).collect();
    assert!(missing.is_empty() && extra.is_empty(), "missing {missing:?}, extra {extra:?}");
    for (key, second) in &exact {
        let late = crowd[key] - second * SECOND;
        assert!(late <= CROSSING_US, "message {} at device {}: {late} us late", key.0, key.1);
    }
    exact.len()
}

/// The trace that is shipped: a morning of twelve people who meet in twos and threes.
#[test]
fn mesh_52_the_shipped_trace_delivers_what_can_be_delivered_and_no_more() {
    let text = include_str!("../../../../vectors/mesh/contacts.one");
    let trace = ContactTrace::parse_one(text).unwrap();
    let messages: Vec<Message> = (0..20).map(|n| (37 * n, n as u32 % 12)).collect();
    let reached = compare(&trace, &messages, 12, 1);
    assert!((100..240).contains(&reached), "{reached} of 240 pairs: neither all nor none");
}

#[test]
fn mesh_52_random_traces_deliver_what_can_be_delivered_and_no_more() {
    for_each_seed(20, |seed| {
        let mut dice = SimRng::new(seed, 0);
        let mut changes = Vec::new();
        for _ in 0..40 {
            let a = dice.between(0, 8) as u32;
            let b = dice.between(9, 14) as u32;
            let from = dice.between(0, 500);
            changes.push((from, (a, b), true));
            changes.push((from + dice.between(1, 60), (a, b), false));
        }
        changes.sort_by_key(|(t, pair, up)| (*t, *up, *pair));
        // A pair that meets twice at once would part at the first parting.
        let mut up = BTreeMap::new();
        changes.retain(|(_, pair, comes)| {
            let count: &mut i32 = up.entry(*pair).or_default();
            *count += if *comes { 1 } else { -1 };
            *count == i32::from(*comes)
        });
        let trace = ContactTrace { changes };
        let messages: Vec<Message> =
            (0..10).map(|_| (dice.between(0, 400), dice.between(0, 14) as u32)).collect();
        compare(&trace, &messages, 15, seed);
    });
}
