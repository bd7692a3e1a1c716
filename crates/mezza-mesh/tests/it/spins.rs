//! A node is never due for ever: every deadline names work that is done.

use mezza_mesh::node::{Input, NodeSettings};
use mezza_mesh::wire::WireFrame;
use mezza_mesh::{CellLife, Grade};

use crate::lone::{Lone, cell, short_of};
use crate::town::{START_MS, Town, payload};

/// A request comes two milliseconds before the tick in which its cell dies: the cell would go out in five.
#[test]
fn mesh_54_a_cell_that_dies_while_it_is_owed() {
    let mut lone = Lone::new(Grade::Good);
    let tick = lone.status().cur;
    let cell = cell(tick, CellLife::Minute, 1);
    lone.give(Input::Import { cell: cell.bytes().to_vec() }).unwrap();
    let dies_ms = (u64::from(tick) + 2) * 30_000 - START_MS;
    lone.run(dies_ms - 2_000 - lone.now_ms);
    lone.beacon(1, 77, 0).unwrap();
    lone.run(1_998);
    let to = lone.name();
    let shorts = vec![short_of(&cell)];
    lone.hear(1, &WireFrame::Want { name: 77, to, again: true, shorts }).unwrap();
    assert_eq!(lone.status().live, 1);
    lone.run(70_000);
    assert_eq!(lone.status().live, 0);
}

/// A store of four cells, all of them owed when others take their places.
#[test]
fn mesh_54_a_cell_that_makes_room_while_it_is_owed() {
    let settings = NodeSettings { store_bytes: 4 * 512, own_rate: None, ..NodeSettings::default() };
    let mut lone = Lone::with(&settings, Grade::Good, 0);
    lone.beacon(1, 77, 0).unwrap();
    lone.run(1_000);
    let to = lone.name();
    let tick = lone.status().cur;
    let own = |n: u64| {
        let payload = cell(tick, CellLife::Minute, n).payload().to_vec();
        Input::Originate { ticket: n, life: CellLife::Minute, tick, payload }
    };
    (0..4).for_each(|n| lone.give(own(n)).unwrap());
    let shorts = (0..4).map(|n| short_of(&cell(tick, CellLife::Minute, n))).collect();
    lone.hear(1, &WireFrame::Want { name: 77, to, again: true, shorts }).unwrap();
    (4..8).for_each(|n| lone.give(own(n)).unwrap());
    lone.run(10_000);
}

/// An empty battery: the clock shows 2020 when the time has come to take another name.
#[test]
fn mesh_54_a_clock_of_2020_when_the_name_is_over() {
    let settings = NodeSettings { name_life_s: (20, 20), ..NodeSettings::default() };
    let mut lone = Lone::with(&settings, Grade::Good, 0);
    lone.grade = Grade::None;
    lone.off_ms = -7 * 365 * 86_400_000;
    lone.read_clock();
    lone.run(60_000);
    (lone.grade, lone.off_ms) = (Grade::Good, 0);
    lone.read_clock();
    let since = lone.now_ms;
    lone.run(30_000);
    assert!(lone.sent_since(since, 1).count() > 3, "it is back");
}

/// A node that leaves has nothing to do when its name is over.
#[test]
fn mesh_54_a_node_that_leaves() {
    let settings = NodeSettings { name_life_s: (20, 20), ..NodeSettings::default() };
    let mut lone = Lone::with(&settings, Grade::Good, 0);
    lone.give(Input::Leave).unwrap();
    lone.run(60_000);
}

/// Nobody attacks: eight nodes in one room whose clocks differ by a fifth of a second, and a message every
/// four seconds. Requests come in the last milliseconds of a tick by themselves.
#[test]
fn mesh_54_slow_a_room_of_eight_for_an_hour() {
    for seed in 1..=3 {
        let mut town = Town::new(8, seed, &NodeSettings::default()).room();
        for (resident, n) in town.residents.iter_mut().zip(0..) {
            resident.off_ms = 29 * n - 100;
        }
        let mut town = town.start();
        for n in 0..900_u64 {
            let from = (n * 7 % 8) as usize;
            let tick = town.tick(from);
            let mut payload = payload(0, tick, n as u8);
            payload[10..18].copy_from_slice(&n.to_be_bytes());
            let own = Input::Originate { ticket: n, life: CellLife::Minute, tick, payload };
            // A node that is silent between two names takes it all the same.
            town.offer(from, own).unwrap();
            town.run(4_000);
        }
    }
}
