//! The cost of a node on a laptop: CPU time and memory for a thousand live cells.

use anyhow::{Context as _, Result};
use mezza_core::{Machine as _, Time};
use mezza_mesh::cell::{CELL_BYTES, HEAD_BYTES};
use mezza_mesh::engine::EngineSettings;
use mezza_mesh::node::{Input, LinkKind, NodeSettings, Output};
use mezza_mesh::{CellLife, Grade, MeshNetwork, Node};
use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng as _;

use crate::bench::Bench;
use crate::clock::cost_ns;
use crate::limit::Limit;
use crate::row::Row;

/// T11, as measured without sockets.
pub const LIMITS: [Limit; 2] = [
    Limit::at_least("T11", "cells from one node to the next by bytes", 5_000.0, "/s"),
    Limit::at_most("T11", "store of a node for 1,000 live cells", 10.0, "MB"),
];

/// Number of cells in the measurement.
const CELLS: u32 = 1_000;
/// The start time of the clocks, ms: 2027-01-15 08:00 UTC.
const START_MS: u64 = 1_800_000_000_000;

/// Measures two nodes that hear each other.
pub fn measure_rows(bench: &mut Bench) -> Result<Vec<Row>> {
    let rounds = bench.profile.pick(1, 3, 10);
    let mut costs = Vec::new();
    for round in 0..rounds {
        let mut pair = Pair::new(bench.seed + round)?;
        let (arrived, ns) = cost_ns(|| pair.carry_cells())?;
        let arrived = arrived?;
        anyhow::ensure!(arrived == CELLS, "{arrived} of {CELLS} cells arrived");
        costs.push(ns);
    }
    let best = costs.iter().copied().fold(f64::INFINITY, f64::min);
    let per_second = f64::from(CELLS) / (best / 1e9);
    bench.note_count("ours", "cells_per_cpu_s", "per_s", per_second)?;
    let bytes = Pair::new(bench.seed)?.bytes_of_a_thousand()?;
    bench.note_count("ours", "store_bytes", "MB", bytes)?;
    let words = format!(
        "{:.1} us of CPU a cell, of both nodes together, announcing and asking included",
        best / 1e3 / f64::from(CELLS)
    );
    Ok(vec![
        LIMITS[0].make_row(per_second).with_detail(words),
        LIMITS[1]
            .make_row(bytes)
            .with_detail("columns, ids and cells of one node with one neighbour"),
    ])
}

/// Two nodes on one link without loss or delay.
struct Pair {
    nodes: [Node; 2],
    rng: ChaCha20Rng,
    now_ms: u64,
    arrived: u32,
}

impl Pair {
    fn new(seed: u64) -> Result<Self> {
        let engine = EngineSettings::without_waits();
        let settings = NodeSettings { engine, own_rate: None, ..NodeSettings::default() };
        let node = || Node::new(settings.clone(), MeshNetwork::new("open", None), Time::from_ms(1));
        let mut pair = Self {
            nodes: [node(), node()],
            rng: ChaCha20Rng::seed_from_u64(seed),
            now_ms: 1,
            arrived: 0,
        };
        for at in 0..2 {
            let kind = LinkKind::Cast;
            pair.give_input(
                at,
                Input::LinkUp { link: 0, kind, frame_bytes_max: 1_200, delay_us: 0, room: 1 << 40 },
            )?;
            let time = Time::from_ms(START_MS);
            pair.give_input(at, Input::Rtc { time, grade: Grade::Good })?;
        }
        pair.pass_time(3_000)?;
        Ok(pair)
    }

    fn give_input(&mut self, at: usize, input: Input) -> Result<()> {
        self.nodes[at].handle(input, Time::from_ms(self.now_ms), &mut self.rng)?;
        self.drain_outputs()
    }

    /// Delivers frames between the nodes without delay, until no output is left.
    fn drain_outputs(&mut self) -> Result<()> {
        loop {
            let mut quiet = true;
            for at in 0..2 {
                while let Some(output) = self.nodes[at].poll() {
                    quiet = false;
                    match output {
                        Output::Send { frame, .. } => {
                            let input = Input::Frame { link: 0, source: at as u64, bytes: frame };
                            let now = Time::from_ms(self.now_ms);
                            // A node refuses frames that it does not want.
                            let _ = self.nodes[1 - at].handle(input, now, &mut self.rng);
                        }
                        // The writer's own node also outputs its cells (MESH-63).
                        Output::Cell { .. } if at == 1 => self.arrived += 1,
                        _ => (),
                    }
                }
            }
            if quiet {
                return Ok(());
            }
        }
    }

    /// Advances the time, deadline by deadline.
    fn pass_time(&mut self, ms: u64) -> Result<()> {
        let end = self.now_ms + ms;
        while self.now_ms < end {
            let next = self.nodes.iter().filter_map(Node::deadline).min().context("no deadline")?;
            self.now_ms = next.as_ms().clamp(self.now_ms + 1, end);
            for at in 0..2 {
                self.nodes[at].wake(Time::from_ms(self.now_ms), &mut self.rng);
            }
            self.drain_outputs()?;
        }
        Ok(())
    }

    /// Makes a thousand cells in one node. Returns how many the other node received.
    fn carry_cells(&mut self) -> Result<u32> {
        let tick = self.nodes[0].status(Time::from_ms(self.now_ms)).cur;
        for number in 0..CELLS {
            let mut payload = vec![0; CELL_BYTES[0] - HEAD_BYTES];
            (payload[0], payload[1]) = (0x10, tick as u8);
            payload[2..6].copy_from_slice(&number.to_be_bytes());
            let life = CellLife::Minute;
            self.give_input(0, Input::Originate { ticket: number.into(), life, tick, payload })?;
            if number % 50 == 0 {
                self.pass_time(1)?;
            }
        }
        self.pass_time(500)?;
        Ok(self.arrived)
    }

    /// Returns the MB of the store and its tables, computed from their sizes: resident memory
    /// cannot be measured for a part of a process.
    fn bytes_of_a_thousand(&mut self) -> Result<f64> {
        self.carry_cells()?;
        let store = self.nodes[1].status(Time::from_ms(self.now_ms)).store_bytes;
        let tables = self.nodes[1].table_bytes();
        Ok(f64::from(u32::try_from(store + tables).unwrap_or(u32::MAX)) / 1e6)
    }
}
