//! The mesh of the town: what a member floods, the others within earshot try with their keys.

use std::collections::VecDeque;

use mezza_hibe::{CarriedEnvelope, EnvelopeTime, Life, Tick, Trial, trial_open_carried};
use mezza_messenger::carriers::mesh::TrialKeys;
use mezza_messenger::{CarrierInput, Input, MeshInput, MeshOutput, MeshReport, RecordKind};

use super::{ROUND_MS, Town};
use crate::stage::{START, write};

/// One tick of the mesh's clock.
pub const TICK_MS: u64 = 30_000;

/// A cell that a member sent.
#[derive(Clone)]
struct Cell {
    from: usize,
    ticket: u64,
    time: EnvelopeTime,
    envelope: Vec<u8>,
}

/// The cells between the members.
#[derive(Default)]
pub struct Air {
    /// Cells that nobody has tried yet.
    new: VecDeque<Cell>,
    /// Cells whose end the sender has not been told.
    sent: Vec<Cell>,
}

/// The part of a member in the mesh.
#[derive(Default)]
pub struct Ear {
    /// True if the member hears the others, and they hear it.
    pub near: bool,
    keys: Option<TrialKeys>,
}

impl Town {
    /// Gives a member keys for the mesh, within earshot of the others.
    pub fn give_tree(&mut self, who: usize) {
        self.members[who].ear.near = true;
        self.tell_mesh_clock(who);
        self.settle();
        self.command(who, MeshInput::MakeTree { confirmed: false }).expect("the clock is settled");
    }

    /// Time passes, tick by tick of the mesh.
    pub fn pass_ticks(&mut self, ms: u64) {
        let end = self.now().plus_ms(ms);
        while self.now() < end {
            let step = end.since_ms(self.now()).min(ROUND_MS);
            let before = self.tick();
            self.pass(step);
            if self.tick() != before {
                (0..self.members.len()).for_each(|who| self.tell_mesh_clock(who));
                self.end_cells();
            }
            self.settle();
        }
    }

    fn tick(&self) -> u32 {
        (self.now().as_ms() / TICK_MS) as u32
    }

    /// A member hears the others from now on, or hears nobody.
    pub fn set_near(&mut self, who: usize, near: bool) {
        self.members[who].ear.near = near;
        self.tell_mesh_clock(who);
        self.settle();
    }

    pub(super) fn tell_mesh_clock(&mut self, who: usize) {
        let near = |who: usize| self.members[who].ear.near;
        let others = (0..self.members.len()).filter(|other| *other != who && near(*other)).count();
        let report = MeshReport {
            cur: self.tick(),
            own: self.tick(),
            within_ms: 2_500,
            settled: true,
            around: if near(who) { others as u32 } else { 0 },
            boot_ms: self.now().as_ms() - START.as_ms(),
            level: 2,
        };
        self.queue.push_back((who, MeshInput::Clock(report).into()));
    }

    /// Tells the senders of the cells that ended.
    fn end_cells(&mut self) {
        let tick = self.tick();
        let (over, rest) = std::mem::take(&mut self.air.sent)
            .into_iter()
            .partition(|cell: &Cell| cell.time.tick.0 + 1 < tick);
        self.air.sent = rest;
        let over: Vec<Cell> = over;
        let inputs =
            over.into_iter().map(|cell| (cell.from, MeshInput::Expired { ticket: cell.ticket }));
        self.queue.extend(inputs.map(|(who, input)| (who, input.into())));
    }

    pub(super) fn carry_out_mesh(&mut self, who: usize, output: MeshOutput) {
        let member = &mut self.members[who];
        match output {
            MeshOutput::Keys(keys) => member.ear.keys = Some(keys),
            MeshOutput::Keyring(step) => {
                write(&mut member.disk, step.before.0);
                member.disk.insert((RecordKind::TreeRing, Vec::new()), step.keyring.to_vec());
                write(&mut member.disk, step.after.0);
                let stored = CarrierInput::keyring_stored(step.generation);
                self.queue.push_back((who, Input::Carrier(stored)));
            }
            MeshOutput::Send { ticket, life, tick, envelope } => {
                let life = Life::from_number(life).expect("a life");
                let time = EnvelopeTime { life, tick: Tick(tick) };
                let cell = Cell { from: who, ticket, time, envelope };
                self.air.sent.push(cell.clone());
                self.air.new.push_back(cell);
            }
        }
    }

    /// The others try what was sent.
    pub(super) fn fly(&mut self) {
        while let Some(cell) = self.air.new.pop_front() {
            let hears = |who: &usize| *who != cell.from && self.members[*who].ear.near;
            if !self.members[cell.from].ear.near {
                continue;
            }
            let others: Vec<usize> = (0..self.members.len()).filter(hears).collect();
            if let Some(names) = u16::try_from(others.len()).ok().filter(|names| *names > 0) {
                let announced = MeshInput::Announced { ticket: cell.ticket, names };
                self.queue.push_back((cell.from, announced.into()));
            }
            let opened = others.into_iter().filter_map(|who| Some((who, self.open(who, &cell)?)));
            let opened: Vec<(usize, MeshInput)> = opened.collect();
            self.queue.extend(opened.into_iter().map(|(who, input)| (who, input.into())));
        }
    }

    fn open(&self, who: usize, cell: &Cell) -> Option<MeshInput> {
        let keys = self.members[who].ear.keys.as_ref()?;
        let carried = CarriedEnvelope { envelope: &cell.envelope, time: Some(cell.time) };
        match trial_open_carried(&keys.system, &keys.held, &[carried]).pop()? {
            Trial::Opened(opened) => Some(MeshInput::Opened(opened)),
            Trial::NotForMe | Trial::NoKey | Trial::Malformed => None,
        }
    }

    /// The process of a member ended: its cells are nobody's, and its keys are gone from memory.
    pub(super) fn forget_mesh(&mut self, who: usize) {
        self.air.sent.retain(|cell| cell.from != who);
        self.air.new.retain(|cell| cell.from != who);
        if self.members[who].ear.keys.take().is_some() {
            self.tell_mesh_clock(who);
        }
    }
}
