//! Cells that are carried for hours: by a courier that never meets both sides at once, over crashes, and within
//! bounds whatever is brought.

use mezza_mesh::node::{Bringer, Input, NodeSettings, Output};
use mezza_mesh::table::ids::{Ids, Origin, StoreClaim};
use mezza_mesh::{CellLife, MeshCell};

use crate::town::{Town, payload};

const MINUTE_MS: u64 = 60_000;

/// A store of 256 KiB for what is carried: 64 KiB for each life and size.
fn settings() -> NodeSettings {
    NodeSettings { carried_bytes: 256 << 10, ..NodeSettings::default() }
}

/// ```text
/// sender ── courier            at first
///           courier            alone for most of the life of the cell
///           courier ── receiver
/// ```
fn carry(life: CellLife, alone_ms: u64, crashes: bool) -> bool {
    let mut town = Town::new(3, 21, &settings()).start();
    town.join(0, 1);
    town.run(5_000);
    let payload = town.send_for(0, life, 9);
    town.run(5_000);
    assert!(town.residents[1].cells.contains_key(&payload), "the courier has it");
    assert!(town.residents[0].said.contains(&Output::Handed { ticket: 9 }));
    town.part(0, 1);
    for _ in 0..alone_ms / MINUTE_MS {
        town.run(MINUTE_MS);
        // Each device reads its own clock now and then, as the program does.
        (0..3).for_each(|n| town.read_clock(n));
    }
    if crashes {
        town.crash_and_restore(1);
    }
    town.join(1, 2);
    town.run(20_000);
    town.residents[2].cells.contains_key(&payload)
}

#[test]
fn mesh_80_a_courier_that_never_meets_both_sides_at_once_carries_for_hours() {
    assert!(!carry(CellLife::Minute, 40 * MINUTE_MS, false), "a minute is over");
    assert!(carry(CellLife::HalfHour, 29 * MINUTE_MS, false));
    assert!(carry(CellLife::HalfDay, 9 * 60 * MINUTE_MS, false));
    assert!(!carry(CellLife::HalfHour, 2 * 60 * MINUTE_MS, false), "half an hour is over");
}

#[test]
fn mesh_82_a_courier_that_crashes_restores_what_it_carries() {
    assert!(carry(CellLife::HalfHour, 29 * MINUTE_MS, true));
    assert!(carry(CellLife::HalfDay, 9 * 60 * MINUTE_MS, true));
}

/// A program that started again sends a cell that its node restored: it learns who takes it from then on, and
/// the mesh carries one cell.
#[test]
fn mesh_86_a_cell_that_is_sent_again_after_a_crash_is_followed_and_not_doubled() {
    let mut town = Town::new(2, 27, &settings()).start();
    town.run(5_000);
    let tick = town.tick(0);
    let payload = town.send_for(0, CellLife::HalfDay, 9);
    town.run(2_000);
    town.crash_and_restore(0);
    (0..2).for_each(|n| town.read_clock(n));
    let again =
        Input::Originate { ticket: 31, life: CellLife::HalfDay, tick, payload: payload.clone() };
    assert_eq!(town.offer(0, again), Ok(()));
    town.join(0, 1);
    town.run(20_000);
    assert!(town.residents[1].cells.contains_key(&payload));
    assert!(town.residents[0].said.contains(&Output::Handed { ticket: 31 }));
    let live = town.residents[1].node.status(mezza_core::Time::from_ms(town.now_ms)).live;
    assert_eq!(live, 1);
}

/// The copy is ordered before a frame names the cell, minutes have none, and a cell that is over leaves the disk.
#[test]
fn mesh_83_the_disk_has_a_copy_exactly_while_a_cell_is_carried() {
    let mut town = Town::new(2, 22, &settings()).room().start();
    town.run(5_000);
    town.send_for(0, CellLife::Minute, 1);
    town.send_for(0, CellLife::HalfHour, 2);
    town.send_for(1, CellLife::HalfDay, 3);
    town.run(5_000);
    for n in 0..2 {
        let lives: Vec<_> = town.residents[n].disk.values().map(|kept| kept.bytes[1]).collect();
        assert_eq!(lives.len(), 2, "node {n}");
        assert!(!lives.contains(&0));
    }
    // Nothing on a disk says what was made there.
    let bringers: Vec<_> = town.residents[0].disk.values().map(|kept| kept.bringer).collect();
    assert!(bringers.contains(&Bringer::Unnamed) && bringers.contains(&Bringer::Neighbour(1)));
    let lives = |town: &Town| {
        let kept = town.residents[1].disk.values();
        kept.map(|kept| kept.bytes[1]).collect::<Vec<_>>()
    };
    for (minutes, expected) in [(61, vec![3]), (24 * 60, vec![])] {
        for _ in 0..minutes {
            town.run(MINUTE_MS);
            (0..2).for_each(|n| town.read_clock(n));
        }
        assert_eq!(lives(&town), expected, "after {minutes} more minutes");
    }
}

/// A cell of a life and class.
pub fn cell(life: CellLife, tick: u32, class: u8, n: u32) -> MeshCell {
    let mut payload = payload(class, tick, 0);
    payload[8..12].copy_from_slice(&n.to_be_bytes());
    MeshCell::new(life, tick, &payload).unwrap()
}

/// Stores a cell as a node does. Returns false if it is refused.
fn store(ids: &mut Ids, from: Origin, cell: MeshCell, cur: u32) -> bool {
    let claim = StoreClaim { from, facts: cell.facts(), bytes: cell.bytes().len(), cur };
    if ids.is_over(&claim) {
        return false;
    }
    while let Some(slot) = ids.select_victim(&claim) {
        ids.free_slot(slot);
    }
    let slot = ids.find_slot(&cell.id()).unwrap();
    ids.put_cell(slot, cell.id(), cell, from);
    true
}

/// A flooder has a quarter of its part, keeps its newest cells there, and takes nothing of other lives and sizes.
#[test]
fn mesh_81_what_is_carried_is_fair_by_life_size_and_bringer() {
    let mut ids = Ids::new(1 << 20, 256 << 10);
    let flooder = Origin::Neighbour(1);
    let of = |ids: &Ids, life: CellLife| {
        ids.held_cells().filter(|(_, cell)| cell.facts().life == life).count()
    };
    for n in 0..1_000 {
        assert!(store(&mut ids, flooder, cell(CellLife::HalfDay, 1_000 + n, 0, n), 5_000));
    }
    assert_eq!(of(&ids, CellLife::HalfDay), 32, "a quarter of 128 cells");
    let ticks: Vec<u32> = ids.held_cells().map(|(_, cell)| cell.facts().tick).collect();
    assert!(ticks.iter().all(|tick| *tick >= 1_968), "the newest stay");
    assert!(!store(&mut ids, flooder, cell(CellLife::HalfDay, 500, 0, 1), 5_000), "an older one");
    // A tick ahead of the clock protects no cell.
    assert!(store(&mut ids, flooder, cell(CellLife::HalfDay, 6_000, 0, 2), 1_990));
    assert!(store(&mut ids, flooder, cell(CellLife::HalfDay, 1_990, 0, 3), 1_990));
    // Other bringers fill the rest; then the bringer of most loses first.
    for n in 0..200_u32 {
        let from = Origin::Neighbour(u64::from(n % 40) + 2);
        assert!(store(&mut ids, from, cell(CellLife::HalfDay, 900, 0, n), 5_000));
    }
    let share =
        |ids: &Ids, tick| ids.held_cells().filter(|(_, cell)| cell.facts().tick > tick).count();
    assert_eq!(of(&ids, CellLife::HalfDay), 128);
    assert!(share(&ids, 900) < 8, "{} of the flooder are left", share(&ids, 900));
    // Half hours, large cells and minutes have room of their own.
    assert!(store(&mut ids, Origin::Neighbour(9), cell(CellLife::HalfHour, 5_000, 0, 1), 5_000));
    assert!(store(&mut ids, Origin::Neighbour(9), cell(CellLife::HalfDay, 5_000, 3, 1), 5_000));
    assert!(store(&mut ids, Origin::Neighbour(9), cell(CellLife::Minute, 5_000, 0, 1), 5_000));
    assert_eq!(of(&ids, CellLife::HalfDay), 129);
    // Bringers of an earlier run keep their shares.
    for n in 0..200_u32 {
        store(&mut ids, Origin::Kept(n % 2), cell(CellLife::HalfHour, 4_000 + n, 0, n), 5_000);
    }
    assert_eq!(of(&ids, CellLife::HalfHour), 1 + 2 * 32);
    assert!(!ids.take_left().is_empty() && ids.take_left().is_empty());
}

/// A flood of cells that live for half a day takes no room of what others carry: the courier still has the notes
/// of before, and the flooder its quarter.
#[test]
fn mesh_81_a_flooder_takes_no_room_of_what_others_carry() {
    let settings = NodeSettings { own_rate: None, ..settings() };
    let mut town = Town::new(3, 23, &settings).start();
    town.join(0, 1);
    town.join(0, 2);
    town.run(5_000);
    let notes: Vec<_> = (1..=5).map(|n| town.send_for(2, CellLife::HalfDay, n)).collect();
    town.run(5_000);
    for round in 0..300_u32 {
        for n in 0..4 {
            let tick = town.tick(1);
            let flood = cell(CellLife::HalfDay, tick, 0, 4 * round + n);
            let payload = flood.payload().to_vec();
            let life = CellLife::HalfDay;
            let ticket = u64::from(1_000 + 4 * round + n);
            town.give(1, Input::Originate { ticket, life, tick, payload });
        }
        town.run(1_000);
    }
    let live = town.residents[0].node.live_cells();
    let held = |payload: &Vec<u8>| live.iter().any(|cell| cell.payload() == *payload);
    assert!(notes.iter().all(held), "every note of before is here");
    let flood = live.len() - notes.len();
    assert!(flood <= 32, "{flood} cells of the flooder: a quarter of 128");
    assert_eq!(town.residents[0].disk.len(), live.len(), "the disk has what is carried");
}

/// Bytes of the frames of one kind.
fn sent_bytes(town: &Town, kind: u8) -> usize {
    let frames = town.residents.iter().flat_map(|resident| &resident.sent);
    frames.filter(|(_, frame)| frame[0] == kind).map(|(_, frame)| frame.len()).sum()
}

/// Two sets that differ by ten cells on each side become equal, at a cost that does not depend on
/// what both hold: at most four times the ids of the difference and 1 KiB.
fn compare_sets(count: u32) {
    let settings = NodeSettings { carried_bytes: 64 << 20, ..NodeSettings::default() };
    let mut town = Town::new(2, 24, &settings).start();
    let tick = town.tick(0);
    for n in 0..count + 20 {
        // Both halves of the store are used: a part has at most a quarter of it.
        let life = [CellLife::HalfHour, CellLife::HalfDay][n as usize / 5 % 2];
        let cell = cell(life, tick, 0, n).bytes().to_vec();
        for at in 0..2 {
            // The last twenty are of one side only.
            if n < count || n as usize % 2 == at {
                let cell = cell.clone();
                town.give(at, Input::Restore { cell, bringer: n % 8 });
            }
        }
    }
    // Announcements of a start are over before the two meet.
    town.run(60_000);
    let held: Vec<_> = town.shorts().iter().map(Vec::len).collect();
    assert_eq!(held, [count as usize + 10; 2]);
    town.residents.iter_mut().for_each(|resident| resident.sent.clear());
    let start_ms = town.now_ms;
    town.join(0, 1);
    let equal = |town: &Town| town.shorts()[0] == town.shorts()[1];
    while !equal(&town) && town.now_ms < start_ms + 120_000 {
        town.run(100);
    }
    assert!(equal(&town), "{count} cells");
    let [sync, more] = [5, 8].map(|kind| sent_bytes(&town, kind));
    assert!(sync + more <= 4 * 16 * 20 + 1_024, "{sync} + {more} bytes");
}

#[test]
fn mesh_87_a_comparison_costs_as_much_as_the_difference() {
    [1_000, 6_000].into_iter().for_each(compare_sets);
}

#[test]
fn mesh_87_slow_a_comparison_of_20_000_cells_costs_as_much_as_the_difference() {
    compare_sets(20_000);
}
