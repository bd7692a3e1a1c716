//! A device that floods, and what others write one hop further and beyond.
//!
//! ```text
//! flooder ─┐
//!          ├── near ── far ── farther        far hears the flood and the writer through one neighbour alone
//! writer ──┘
//! ```

use mezza_mesh::CellLife;
use mezza_mesh::node::{Input, NodeSettings};

use crate::lone::cell;
use crate::town::Town;

const FLOODER: usize = 0;
const WRITER: usize = 1;
const NEAR: usize = 2;
const FAR: usize = 3;
const FARTHER: usize = 4;

/// A message of the writer may take so long to each of the others, ms.
const SOON_MS: u64 = 5_000;

/// Messages of the writer, and their times.
type Written = Vec<(Vec<u8>, u64)>;

struct Flood {
    town: Town,
    /// Cells that the flooder makes in 100 ms.
    pace: u64,
    made: u64,
    written: Written,
}

impl Flood {
    /// `far` does not hear `near` yet.
    fn new(pace: u64, seed: u64) -> Self {
        // The flooder keeps no limit on its own cells.
        let settings = NodeSettings { own_rate: None, ..NodeSettings::default() };
        let mut town = Town::new(5, seed, &settings);
        for (a, b) in [(FLOODER, NEAR), (WRITER, NEAR), (FAR, FARTHER)] {
            town.join(a, b);
        }
        let mut town = town.start();
        town.run(5_000);
        Self { town, pace, made: 0, written: Vec::new() }
    }

    fn originate(&mut self, n: usize) -> Vec<u8> {
        self.made += 1;
        let tick = self.town.tick(n);
        let payload = cell(tick, CellLife::Minute, self.made).payload().to_vec();
        let ticket = self.made;
        let life = CellLife::Minute;
        self.town.give(n, Input::Originate { ticket, life, tick, payload: payload.clone() });
        payload
    }

    /// Floods for so long, while the writer writes every three seconds.
    fn run(&mut self, seconds: u64) {
        for step in 0..10 * seconds {
            (0..self.pace).for_each(|_| drop(self.originate(FLOODER)));
            if step % 30 == 0 {
                let payload = self.originate(WRITER);
                self.written.push((payload, self.town.now_ms));
            }
            self.town.run(100);
        }
    }

    /// How long each message took to a resident since it was written, or since `met_ms` if that is later.
    fn delays(&self, n: usize, met_ms: u64) -> Vec<Option<u64>> {
        let cells = &self.town.residents[n].cells;
        let delay =
            |(payload, at): &(Vec<u8>, u64)| cells.get(payload).map(|ms| ms - (*at).max(met_ms));
        self.written.iter().map(delay).collect()
    }

    /// Every message came soon.
    #[track_caller]
    fn all_came(&self, n: usize, met_ms: u64) {
        let delays = self.delays(n, met_ms);
        let soon = |delay: &Option<u64>| delay.is_some_and(|ms| ms <= SOON_MS);
        assert!(delays.iter().all(soon), "resident {n}: {delays:?}");
    }
}

/// 2,400 and 4,800 cells a minute, for a minute and a half.
#[test]
fn mesh_77_a_flood_holds_back_no_message_one_hop_further() {
    for pace in [4, 8] {
        let mut flood = Flood::new(pace, 3);
        flood.town.join(NEAR, FAR);
        flood.run(90);
        let end = flood.town.now_ms;
        flood.town.run(SOON_MS);
        for n in [NEAR, FAR, FARTHER] {
            flood.all_came(n, 0);
        }
        // The flood itself comes too, as far as there is room for it.
        let cells = flood.town.residents[FAR].cells.values().filter(|at| **at <= end).count();
        assert!(cells > 2_000, "{cells} cells in 90 s");
    }
}

/// A carrier with 2,400 live cells meets a neighbour that has none: the writer's messages are among the first.
#[test]
fn mesh_77_a_carrier_of_a_flood_gives_the_cells_of_others_first() {
    let mut flood = Flood::new(4, 4);
    flood.run(60);
    // Half a minute and more is left of what was written since.
    flood.written.clear();
    flood.run(20);
    flood.town.join(NEAR, FAR);
    let met_ms = flood.town.now_ms;
    flood.run(10);
    flood.town.run(SOON_MS);
    flood.all_came(FAR, met_ms);
    flood.all_came(FARTHER, met_ms);
}

/// When the flood ends, announcements of cells that died meanwhile make nobody unbelievable.
#[test]
fn mesh_78_what_died_in_a_queue_is_no_broken_promise() {
    let mut flood = Flood::new(8, 5);
    flood.town.join(NEAR, FAR);
    flood.run(90);
    flood.pace = 0;
    flood.written.clear();
    flood.run(90);
    flood.town.run(SOON_MS);
    flood.all_came(FAR, 0);
    flood.all_came(FARTHER, 0);
}
