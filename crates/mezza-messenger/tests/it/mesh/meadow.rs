//! Two devices within earshot of each other: what one floods, the other tries with its keys.

use std::collections::VecDeque;

use mezza_core::{Machine, PortableBackend, Time, Wiping};
use mezza_hibe::{CarriedEnvelope, EnvelopeTime, Life, Tick, Trial, trial_open_carried};
use mezza_messenger::carriers::mesh::TrialKeys;
use mezza_messenger::evidence::NoteState;
use mezza_messenger::policy::NoteLife;
use mezza_messenger::{
    CarrierInput, CarrierOutput, CarrierSet, Command, ContactId, Device, DeviceError, Event, Input,
    MeshInput, MeshOutput, MeshReport, NoteId, Output, RecordKind,
};
use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::SeedableRng;

use crate::stage::{Disk, START, card, texts, write};

const TICK_MS: u64 = 30_000;

/// A cell in the air.
#[derive(Clone)]
pub struct Cell {
    pub from: usize,
    ticket: u64,
    pub time: EnvelopeTime,
    pub envelope: Vec<u8>,
}

pub struct Side {
    pub device: Device<PortableBackend>,
    pub disk: Disk,
    pub ring: Option<Vec<u8>>,
    keys: Option<TrialKeys>,
    pub shown: Vec<Event>,
}

/// When a device is killed.
#[derive(Clone, Copy)]
pub struct Kill {
    pub who: usize,
    /// The number of its outputs that are carried out before.
    pub after: usize,
}

/// The two devices and the air between them.
pub struct Meadow {
    pub sides: [Side; 2],
    pub now: Time,
    /// Cells that were sent and not handled.
    air: VecDeque<Cell>,
    /// Every cell that was ever sent.
    pub sent: Vec<Cell>,
    /// True while the two do not hear each other.
    pub apart: bool,
    /// True while 64 liars are around: they announce every cell and pass none on.
    pub liars: bool,
    /// How many of the three parts of a keyring step the disk takes; 3: all.
    pub step_parts: usize,
    /// Outputs of each device so far.
    pub outputs: [usize; 2],
    /// The device that is killed instead of its next output, after so many.
    pub kill: Option<Kill>,
    /// The device that was killed and has not started again.
    pub killed: Option<usize>,
    client: u8,
    pub rng: ChaCha20Rng,
}

impl Meadow {
    /// Ann and Ben, without keys for the mesh.
    pub fn new() -> Self {
        Self::seeded(11)
    }

    /// Two other devices of these names.
    pub fn seeded(seed: u64) -> Self {
        let mut rng = ChaCha20Rng::seed_from_u64(seed);
        let sides = ["ann", "ben"].map(|name| {
            let carriers = CarrierSet::default();
            let device = Device::create(carriers, name, &[], START, &mut rng).expect("clean");
            Side { device, disk: Disk::new(), ring: None, keys: None, shown: Vec::new() }
        });
        let air = VecDeque::new();
        let sent = Vec::new();
        let mut meadow = Self {
            sides,
            now: START,
            air,
            sent,
            apart: false,
            liars: false,
            step_parts: 3,
            outputs: [0; 2],
            kill: None,
            killed: None,
            client: 0,
            rng,
        };
        meadow.tell_clock();
        meadow
    }

    /// Ann and Ben with keys, who do not know each other.
    pub fn with_trees() -> Self {
        let mut meadow = Self::new();
        (0..2).for_each(|who| meadow.mesh(who, MeshInput::MakeTree { confirmed: false }));
        meadow
    }

    /// Ann has Ben's card, and Ben knows nobody.
    pub fn carded() -> Self {
        let mut meadow = Self::with_trees();
        let card = card(&meadow.sides[1].device);
        meadow.command(0, Command::Add { card, petname: None, in_person: false });
        meadow
    }

    /// Both have written.
    pub fn friends() -> Self {
        let mut meadow = Self::carded();
        meadow.say(0, "hello over the meadow");
        let contact = meadow.contact(1);
        meadow.command(1, Command::Accept { contact });
        meadow.say(1, "and back");
        meadow
    }

    /// Returns the report of a node whose clock is right.
    pub fn clock(&self) -> MeshReport {
        let tick = (self.now.as_ms() / TICK_MS) as u32;
        MeshReport {
            cur: tick,
            own: tick,
            within_ms: 2_500,
            settled: true,
            around: u32::from(!self.apart) + 64 * u32::from(self.liars),
            boot_ms: self.now.as_ms() - START.as_ms(),
            level: 2,
        }
    }

    pub fn tell_clock(&mut self) {
        for who in 0..2 {
            let clock = self.clock();
            self.mesh(who, MeshInput::Clock(clock));
        }
    }

    /// Time passes, tick by tick; cells end with the epoch after theirs.
    pub fn pass(&mut self, ms: u64) {
        let end = self.now.plus_ms(ms);
        while self.now < end {
            self.now = self.now.plus_ms(TICK_MS).min(end);
            self.tell_clock();
            let tick = self.now.as_ms() / TICK_MS;
            let over = |cell: &Cell| {
                let epoch_ticks = u64::from(cell.time.life.epoch_ticks());
                u64::from(cell.time.tick.0) / epoch_ticks + 1 < tick / epoch_ticks
            };
            let ended: Vec<Cell> = self.sent.iter().filter(|cell| over(cell)).cloned().collect();
            self.sent.retain(|cell| !over(cell));
            for cell in ended {
                // A parcel that was given up meanwhile has no ticket any more.
                let input = MeshInput::Expired { ticket: cell.ticket };
                let _ = self.try_input(cell.from, Input::Carrier(input.into()));
            }
            for who in 0..2 {
                if self.killed != Some(who) {
                    self.sides[who].device.wake(self.now, &mut self.rng);
                    self.drain(who);
                }
            }
            self.settle();
        }
    }

    pub fn command(&mut self, who: usize, command: Command) {
        self.try_input(who, Input::Command(command)).expect("possible");
        self.settle();
    }

    pub fn mesh(&mut self, who: usize, input: MeshInput) {
        self.try_input(who, Input::Carrier(input.into())).expect("taken");
        self.settle();
    }

    pub fn try_input(&mut self, who: usize, input: Input) -> Result<(), DeviceError> {
        if self.killed == Some(who) {
            return Ok(());
        }
        self.sides[who].device.handle(input, self.now, &mut self.rng)?;
        self.drain(who);
        Ok(())
    }

    fn drain(&mut self, who: usize) {
        while self.killed != Some(who)
            && let Some(output) = self.sides[who].device.poll()
        {
            if self.kill.is_some_and(|kill| kill.who == who && self.outputs[who] >= kill.after) {
                // Neither this output nor a later one is carried out.
                self.kill = None;
                self.killed = Some(who);
                return;
            }
            self.outputs[who] += 1;
            match output {
                Output::Store(batch) => write(&mut self.sides[who].disk, batch.0),
                Output::Notify(event) => self.sides[who].shown.push(event),
                Output::Durable(carrier, number) => {
                    self.try_input(who, Input::Stored(carrier, number)).expect("asked for");
                }
                Output::Carrier(CarrierOutput::Mesh(output)) => self.carry_out(who, output),
                Output::Carrier(_) => {}
            }
        }
    }

    fn carry_out(&mut self, who: usize, output: MeshOutput) {
        match output {
            MeshOutput::Keys(keys) => self.sides[who].keys = Some(keys),
            MeshOutput::Keyring(step) => {
                let parts = self.step_parts;
                let side = &mut self.sides[who];
                if parts > 0 {
                    write(&mut side.disk, step.before.0);
                }
                if parts > 1 {
                    side.ring = Some(step.keyring.to_vec());
                }
                if parts < 3 {
                    return;
                }
                write(&mut side.disk, step.after.0);
                let stored = CarrierInput::keyring_stored(step.generation);
                self.try_input(who, Input::Carrier(stored)).expect("stored");
            }
            MeshOutput::Send { ticket, life, tick, envelope } => {
                let life = Life::from_number(life).expect("a life");
                let time = EnvelopeTime { life, tick: Tick(tick) };
                let cell = Cell { from: who, ticket, time, envelope };
                self.sent.push(cell.clone());
                self.air.push_back(cell);
            }
        }
    }

    /// Everything in the air is announced and tried.
    pub fn settle(&mut self) {
        while let Some(cell) = self.air.pop_front() {
            if self.liars {
                let announced = MeshInput::Announced { ticket: cell.ticket, names: 64 };
                let _ = self.try_input(cell.from, Input::Carrier(announced.into()));
            }
            if self.apart {
                continue;
            }
            let announced = MeshInput::Announced { ticket: cell.ticket, names: 1 };
            let _ = self.try_input(cell.from, Input::Carrier(announced.into()));
            if let Some(opened) = self.open(1 - cell.from, &cell) {
                self.try_input(1 - cell.from, Input::Carrier(opened.into())).expect("taken");
            }
        }
    }

    /// Tries a cell with the keys of one side.
    pub fn open(&self, who: usize, cell: &Cell) -> Option<MeshInput> {
        let keys = self.sides[who].keys.as_ref()?;
        let carried = CarriedEnvelope { envelope: &cell.envelope, time: Some(cell.time) };
        match trial_open_carried(&keys.system, &keys.held, &[carried]).pop()? {
            Trial::Opened(opened) => Some(MeshInput::Opened(opened)),
            Trial::NotForMe | Trial::NoKey | Trial::Malformed => None,
        }
    }

    /// Starts the killed device again, if there is one.
    pub fn revive(&mut self) -> bool {
        let Some(who) = self.killed.take() else { return false };
        self.restart(who);
        true
    }

    /// Starts a device again from its disk, which must load as a whole.
    pub fn restart(&mut self, who: usize) {
        self.reload(who);
        assert!(self.sides[who].device.set_aside().is_empty());
    }

    /// Starts a device again from whatever its disk holds.
    pub fn reload(&mut self, who: usize) {
        let side = &self.sides[who];
        let rows = side.disk.iter();
        let rows =
            rows.map(|((kind, key), value)| (*kind, key.clone(), Wiping::new(value.clone())));
        let ring =
            side.ring.clone().map(|ring| (RecordKind::TreeRing, Vec::new(), Wiping::new(ring)));
        let rows: Vec<_> = rows.chain(ring).collect();
        let carriers = CarrierSet::default();
        // The cells of the former run are nobody's any more.
        self.sent.retain(|cell| cell.from != who);
        for cell in self.air.iter_mut().filter(|cell| cell.from == who) {
            cell.ticket = u64::MAX;
        }
        let device = Device::load(carriers, rows, &[], self.now, &mut self.rng);
        self.sides[who].device = device.expect("the profile is there");
        self.sides[who].keys = None;
        self.drain(who);
        let clock = self.clock();
        self.mesh(who, MeshInput::Clock(clock));
    }

    pub fn contact(&self, who: usize) -> ContactId {
        self.sides[who].device.contacts()[0].id
    }

    pub fn say(&mut self, who: usize, text: &str) -> NoteId {
        self.say_for(who, text, None)
    }

    /// Writes a note with a life of its own.
    pub fn say_for(&mut self, who: usize, text: &str, life: Option<NoteLife>) -> NoteId {
        self.client += 1;
        let client = [self.client; 16];
        let contact = self.contact(who);
        self.command(who, Command::Send { contact, client, text: text.into(), life });
        self.sides[who].device.find_sent(&client).expect("accepted")
    }

    pub fn state(&self, who: usize, note: NoteId) -> NoteState {
        self.sides[who].device.note(note, self.now).expect("there").state
    }

    /// The texts of a thread, own ones behind `>`.
    pub fn texts(&self, who: usize) -> Vec<String> {
        texts(&self.sides[who].device, self.contact(who), self.now)
    }
}
