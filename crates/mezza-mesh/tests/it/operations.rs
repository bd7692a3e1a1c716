//! A node beside peers that say anything: no panic, and what is refused changes nothing.

use std::collections::{BTreeMap, BTreeSet};

use mezza_core::Machine;
use mezza_mesh::cell::CellId;
use mezza_mesh::node::{Input, LinkKind, NodeSettings, Output};
use mezza_mesh::{CellLife, Grade, MeshCell, MeshNetwork, Node};
use mezza_sim::{Operations, SimRng, Time, handle_checked, operations};
use proptest::prelude::*;

use crate::town::{START_MS, payload};

/// Drives a node with what the bytes spell; how many frames were taken.
fn drive(data: &[u8]) -> u32 {
    let settings = NodeSettings {
        store_bytes: 16 * 512,
        // Four cells for each life and size.
        carried_bytes: 4 * 4 * 512,
        ..NodeSettings::default()
    };
    let mut disk: BTreeMap<CellId, Vec<u8>> = BTreeMap::new();
    let mut node = Node::new(settings, MeshNetwork::new("open", None), Time::from_ms(1));
    let mut rng = SimRng::new(1, 0);
    let mut now = 1_000_u64;
    let mut taken = 0;
    let mut operations = Operations::new(data);
    let mut seen: Vec<Vec<u8>> = Vec::new();
    for input in [up(0, LinkKind::Cast), rtc(0, Grade::Good)] {
        node.handle(input, Time::from_ms(now), rng.rng()).unwrap();
    }
    while let Some(kind) = operations.next_kind(13) {
        let tick = node.status(Time::from_ms(now)).cur;
        let is_frame = (7..12).contains(&kind);
        let input = input(kind, tick, now, &mut operations, &seen);
        let copy = match &input {
            Input::Restore { cell, .. } => MeshCell::decode(cell).ok(),
            _ => None,
        };
        let done = handle_checked(&mut node, input, Time::from_ms(now), rng.rng());
        // What is restored lies on the disk already.
        if let Some(copy) = copy.filter(|copy| done.is_ok() && copy.facts().life.is_carried()) {
            disk.insert(copy.id(), copy.bytes().to_vec());
        }
        taken += u32::from(is_frame && done.is_ok());
        now += [0, 1, 60, 1_500, 31_000][operations.draw_below(5)];
        node.wake(Time::from_ms(now), rng.rng());
        // MESH-54: whatever came, what is due is done.
        assert!(node.deadline().is_none_or(|at| at.as_ms() > now), "it is due for ever");
        while let Some(output) = node.poll() {
            match output {
                Output::Send { frame, .. } if seen.len() < 64 => seen.push(frame),
                Output::Keep { id, bytes, .. } => drop(disk.insert(id, bytes)),
                Output::Forget { id } => drop(disk.remove(&id)),
                _ => (),
            }
        }
        // MESH-83: the disk has what is carried, after every operation.
        let carried = node.live_cells().into_iter().filter(|cell| cell.facts().life.is_carried());
        let carried: BTreeSet<CellId> = carried.map(MeshCell::id).collect();
        let copies: BTreeSet<CellId> = disk.keys().copied().collect();
        assert!(carried.is_subset(&copies), "a cell is carried without a copy");
        // A cell that is not live any more leaves within a second.
        let status = node.status(Time::from_ms(now));
        assert!(copies.len() <= status.carried_cells.max(carried.len()), "a copy is left behind");
    }
    taken
}

fn up(link: u32, kind: LinkKind) -> Input {
    Input::LinkUp { link, kind, frame_bytes_max: 1_200, delay_us: 0, room: 100 }
}

fn rtc(off_ms: u64, grade: Grade) -> Input {
    Input::Rtc { time: Time::from_ms(START_MS + off_ms), grade }
}

fn input(
    kind: usize,
    tick: u32,
    now: u64,
    operations: &mut Operations<'_>,
    seen: &[Vec<u8>],
) -> Input {
    let link = operations.draw_below(3) as u32;
    match kind {
        0 => up(
            link,
            [LinkKind::Cast, LinkKind::StreamAlone, LinkKind::Stream][operations.draw_below(3)],
        ),
        1 if operations.draw_below(4) == 0 => Input::LinkDown { link },
        2 => {
            let off_ms = now + 1_000 * operations.draw_below(200) as u64;
            rtc(
                off_ms,
                [Grade::None, Grade::Poor, Grade::Fair, Grade::Good][operations.draw_below(4)],
            )
        }
        3 => {
            let life = CellLife::ALL[operations.draw_below(4)];
            let tick = tick.saturating_add(operations.draw_below(3) as u32);
            let payload = payload(operations.draw_below(2) as u8, tick, operations.next_byte());
            Input::Originate { ticket: 1, life, tick, payload }
        }
        4 => {
            let payload = payload(0, tick, operations.next_byte());
            let cell = MeshCell::new(CellLife::Minute, tick, &payload).unwrap();
            Input::Import { cell: cell.bytes().to_vec() }
        }
        5 => Input::Room { link, frames: operations.draw_below(50) },
        12 => {
            let life = CellLife::ALL[operations.draw_below(4)];
            let tick = tick.saturating_sub(operations.draw_below(70) as u32);
            let payload = payload(0, tick, operations.next_byte());
            let mut cell = MeshCell::new(life, tick, &payload).unwrap().bytes().to_vec();
            // A copy that a crash or a person damaged.
            if operations.draw_below(4) == 0 {
                let at = operations.draw_below(cell.len());
                cell[at] ^= operations.next_byte();
            }
            Input::Restore { cell, bringer: operations.draw_below(3) as u32 }
        }
        6 => [Input::TrustNeighbours, Input::Leave][operations.draw_below(40) / 39].clone(),
        _ => {
            let source = operations.draw_below(3) as u64;
            Input::Frame { link: 0, source, bytes: frame(operations, seen) }
        }
    }
}

/// A frame that the node sent, under another name or damaged, or bytes.
fn frame(operations: &mut Operations<'_>, seen: &[Vec<u8>]) -> Vec<u8> {
    let known =
        seen.get(operations.draw_below(seen.len())).filter(|_| operations.draw_below(4) > 0);
    let Some(known) = known else { return operations.next_bytes(40) };
    let mut frame = known.clone();
    let at = if frame[0] == 1 { 5 } else { 1 };
    frame[at..at + 6].fill(operations.draw_below(3) as u8);
    if operations.draw_below(4) == 0 {
        let last = operations.draw_below(frame.len());
        frame[last] ^= operations.next_byte();
    }
    frame
}

#[test]
fn long_lists_of_operations() {
    let taken: u32 = operations::random_lists().iter().map(|bytes| drive(bytes)).sum();
    assert!(taken > 16, "{taken} frames were taken: the peers get somewhere");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_list_of_operations(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        drive(&bytes);
    }
}
