//! Streams beside cast links, devices that are heard on both, and neighbours that are busy.

use crate::town::{Town, payload};
use mezza_core::Machine as _;
use mezza_mesh::engine::EngineSettings;
use mezza_mesh::limits::OWED_BUSY;
use mezza_mesh::node::{Input, NodeSettings, Output};
use mezza_mesh::{CellLife, ClockState, Grade, MeshCell};
use mezza_sim::Time;

fn with_streams() -> NodeSettings {
    let engine = EngineSettings { streams: true, ..EngineSettings::default() };
    NodeSettings { engine, ..NodeSettings::default() }
}

fn originate(town: &mut Town, n: usize, class: u8, content: u8) -> Vec<u8> {
    let tick = town.tick(n);
    let payload = payload(class, tick, content);
    let ticket = u64::from(content);
    let life = CellLife::Minute;
    town.give(n, Input::Originate { ticket, life, tick, payload: payload.clone() });
    payload
}

/// The numbers of links on which DATA of more than a cast frame went out.
fn large_links(town: &Town, n: usize) -> usize {
    town.residents[n].sent.iter().filter(|(_, f)| f[0] == 4 && f.len() > 1_200).count()
}

#[test]
fn large_cells_go_over_three_hops_by_streams_that_end_when_they_are_idle() {
    let mut town = Town::new(4, 21, &with_streams()).chain().start();
    town.run(5_000);
    let payloads = [2, 3].map(|class| originate(&mut town, 0, class, class));
    town.run(10_000);
    for n in 1..4 {
        for payload in &payloads {
            assert!(town.residents[n].cells.contains_key(payload), "node {n}");
        }
        assert_eq!(town.residents[n].node.count_streams(), if n == 3 { 1 } else { 2 });
    }
    assert!(large_links(&town, 0) >= 2);
    // The neighbour's evidence counts on streams too.
    assert!(town.residents[0].said.contains(&Output::Handed { ticket: 2 }));
    town.run(150_000);
    assert!((0..4).all(|n| town.residents[n].node.count_streams() == 0), "idle ones are closed");
}

#[test]
fn without_streams_large_cells_stay_where_they_are() {
    let mut town = Town::new(2, 22, &NodeSettings::default()).chain().start();
    town.run(5_000);
    let large = originate(&mut town, 0, 2, 2);
    let small = originate(&mut town, 0, 1, 1);
    town.run(10_000);
    assert!(town.residents[1].cells.contains_key(&small));
    assert!(!town.residents[1].cells.contains_key(&large));
}

/// Two neighbours that are heard on a cast link and on a stream each are two votes, not four: three are
/// needed to move a clock.
#[test]
fn mesh_23_a_name_on_two_links_has_one_vote() {
    let mut town = Town::new(3, 23, &with_streams()).room();
    (town.residents[0].off_ms, town.residents[0].grade) = (-100_000, Grade::Poor);
    let mut town = town.start();
    town.run(3_000);
    for n in 1..3 {
        originate(&mut town, n, 2, n as u8);
    }
    town.run(30_000);
    let status = town.residents[0].node.status(Time::from_ms(town.now_ms));
    assert!(town.residents[0].node.count_streams() == 2, "it is heard on both links");
    assert_eq!(
        (status.moved_ms, town.residents[0].node.count_around(Time::from_ms(town.now_ms))),
        (0, 2)
    );
    assert_ne!(status.state, ClockState::Agreed);
}

/// One neighbour that asks for all there is does not keep another one from its first cell, and is told to
/// wait; what it was refused counts as no failure, and it gets it later.
#[test]
fn who_asks_for_much_waits_for_who_asks_for_little() {
    let engine = EngineSettings { gather: 2_000_000, ..EngineSettings::default() };
    let settings = NodeSettings { own_rate: None, engine, ..NodeSettings::default() };
    let mut town = Town::new(1, 24, &settings).start();
    town.run(3_000);
    let tick = town.tick(0);
    let cell = |n: u32| {
        let mut payload = payload(0, tick, 9);
        payload[20..24].copy_from_slice(&n.to_be_bytes());
        payload
    };
    for n in 0..800 {
        let ticket = n.into();
        let life = CellLife::Minute;
        town.give(0, Input::Originate { ticket, life, tick, payload: cell(n) });
    }
    let beacon = town.residents[0].sent.iter().rev().find(|(_, f)| f[0] == 1).unwrap().1.clone();
    let names = [[4_u8; 6], [5; 6]];
    for (name, source) in names.iter().zip(7..) {
        let mut bytes = beacon.clone();
        bytes[5..11].copy_from_slice(name);
        town.give(0, Input::Frame { link: 0, source, bytes });
    }
    let want = |town: &mut Town, who: usize, cells: std::ops::Range<u32>| {
        let ids = cells.map(|n| MeshCell::new(CellLife::Minute, tick, &cell(n)).unwrap().id());
        let shorts: Vec<u8> = ids.flat_map(|id| id[..8].to_vec()).collect();
        let head = [&[3][..], &names[who], &beacon[5..11], &[(shorts.len() / 8) as u8, 0]].concat();
        town.give(
            0,
            Input::Frame { link: 0, source: 7 + who as u64, bytes: [head, shorts].concat() },
        );
    };
    for at in 0..5 {
        want(&mut town, 0, 140 * at..140 * (at + 1));
    }
    want(&mut town, 1, 790..791);
    town.run(10);
    let busy: Vec<_> = town.residents[0].sent.iter().filter(|(_, f)| f[0] == 6).collect();
    assert!(!busy.is_empty() && busy.iter().all(|(_, f)| f[7..13] == names[0]), "{busy:?}");
    town.run(2_500);
    let given = |n: u32| {
        let bytes = MeshCell::new(CellLife::Minute, tick, &cell(n)).unwrap().bytes().to_vec();
        town.residents[0].sent.iter().any(|(_, f)| f[0] == 4 && f[7..] == bytes[..])
    };
    assert!(given(790), "who asked for one has it");
    let all = (0..700).filter(|n| given(*n)).count();
    assert!((OWED_BUSY as usize..600).contains(&all), "{all} of 700 were taken on");
}

/// A node that is told to wait asks again when the time is over, and blames nobody.
#[test]
fn a_busy_neighbour_is_asked_again_and_not_blamed() {
    let mut town = Town::new(2, 25, &NodeSettings::default()).room().start();
    town.run(15_000);
    // Node 0 hears nothing for a while; its answer is made up here.
    town.hears[1].clear();
    let payload = town.send(0, 3);
    town.run(400);
    let name = |town: &Town, n: usize| {
        town.residents[n].sent.iter().rev().find(|(_, f)| f[0] == 1).unwrap().1[5..11].to_vec()
    };
    let asked = |town: &Town| town.residents[1].sent.iter().filter(|(_, f)| f[0] == 3).count();
    assert_eq!(asked(&town), 1);
    let busy = [&[6][..], &name(&town, 0), &name(&town, 1), &900_u16.to_be_bytes()].concat();
    town.give(1, Input::Frame { link: 0, source: 0, bytes: busy });
    town.run(800);
    assert_eq!(asked(&town), 1, "it waits");
    town.hears[1].push(0);
    town.run(400);
    assert!(town.residents[1].cells.contains_key(&payload));
    let counts = town.residents[1].node.status(Time::from_ms(town.now_ms)).counts;
    assert_eq!(counts.failed, 0);
    assert!(!town.residents[1].node.snapshot().is_empty());
}
