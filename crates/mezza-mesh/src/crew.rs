//! The devices of a simulated crowd: one engine each over one table, and users who write to each
//! other. What carries their frames, and when, a simulator knows.

use alloc::vec::Vec;
use rand_core::Rng;

use crate::chance::draw_below;
use crate::clock::{ClockMode, Grade, MeshClock};
use crate::engine::{Engine, EngineSettings, MeshLinkId, NeighbourId};
use crate::epoch::Life;
use crate::frame::MeshFrame;
use crate::limits::{MS, NEVER, SECOND};
use crate::set::Slot;
use crate::table::bits::Bits;
use crate::table::{CellFacts, CellTable};

/// A device of the crowd, by its place in it.
pub type MemberId = u32;

/// The behaviour of every user of a crowd.
#[derive(Clone, Debug)]
pub struct CrewSettings {
    /// The rules of each engine.
    pub engine: EngineSettings,
    /// How clocks vote.
    pub mode: ClockMode,
    /// Time between two messages of a user, µs; the first one comes at a random point of it.
    pub every: u64,
    /// Size of a cell, bytes. The format ends at 4,096; a crowd may ask what happened beyond.
    pub cell_bytes: usize,
    /// The life of every cell.
    pub life: Life,
    /// Usual delay of a frame, µs.
    pub delay: u64,
    /// Cells that the crowd keeps in mind: more than it makes while any of them lives.
    pub ring: usize,
}

impl Default for CrewSettings {
    /// The load of FoSAM: a message of 512 bytes every 30 s, epochs of a minute.
    fn default() -> Self {
        Self {
            engine: EngineSettings { burst: 4, ..EngineSettings::default() },
            mode: ClockMode::Level,
            every: 30 * SECOND,
            cell_bytes: 512,
            life: Life::Minute,
            delay: MS,
            ring: 4_096,
        }
    }
}

/// A message on its way: a tag in the place of its encryption.
#[derive(Clone, Copy, Debug, Default)]
pub struct Parcel {
    /// For whom.
    pub to: MemberId,
    /// When it was made.
    pub made: u64,
    /// True if its receiver has it.
    pub arrived: bool,
}

/// Deliveries of messages.
#[derive(Clone, Debug, Default)]
pub struct Deliveries {
    /// Messages made while they were counted.
    pub made: u64,
    /// Of these, those that arrived in the epoch of their receiver's clock.
    pub reached: u64,
    /// Of these, those whose receiver had the key: it was not erased while the clock was later once.
    pub arrived: u64,
    /// How long each of these took, ms.
    pub took_ms: Vec<u32>,
}

/// One device with its user.
#[derive(Clone, Debug)]
struct Member<R> {
    engine: Engine,
    rng: R,
    link: MeshLinkId,
    writes_at: u64,
    /// The greatest tick whose keys are gone because the clock was later once.
    floor: u32,
}

impl<R> Member<R> {
    fn due(&self) -> u64 {
        self.engine.due().min(self.writes_at)
    }
}

/// All devices of a crowd.
#[derive(Clone, Debug)]
pub struct Crew<R> {
    settings: CrewSettings,
    table: Bits,
    parcels: Vec<Parcel>,
    members: Vec<Member<R>>,
    /// When each device has something to do.
    due: Vec<u64>,
    /// New cells of one frame.
    arrivals: Vec<Slot>,
    deliveries: Deliveries,
    counted_from: u64,
    bytes: u64,
    last_bytes: [u64; 5],
    /// Device, number of the cell and time of everything taken since somebody watches.
    taken: Option<Vec<(MemberId, u64, u64)>>,
}

impl<R: Rng> Crew<R> {
    /// A crowd without devices, and with room for so many.
    pub fn new(settings: CrewSettings, devices: usize) -> Self {
        let mut table = Bits::new(settings.ring);
        table.reserve(devices);
        let slots = table.slots();
        Self {
            settings,
            table,
            parcels: alloc::vec![Parcel::default(); slots],
            members: Vec::new(),
            due: Vec::new(),
            arrivals: Vec::new(),
            deliveries: Deliveries::default(),
            counted_from: 0,
            bytes: 0,
            last_bytes: [0; 5],
            taken: None,
        }
    }

    /// Adds a device whose own clock is `anchor` µs ahead of the crowd's time.
    pub fn add(&mut self, grade: Grade, anchor: i64, mut rng: R, now: u64) -> MemberId {
        let device = self.members.len() as MemberId;
        let clock = MeshClock::new(self.settings.mode, grade, anchor);
        let engine = self.settings.engine.clone();
        let mut engine = Engine::new(u64::from(device), engine, clock, (&mut self.table, 1), now);
        // Beacons start at random times, or a crowd would send all of them in one instant.
        let first = now + draw_below(&mut rng, self.settings.engine.beacon as usize + 1) as u64;
        let link = engine.link_up(0xff, self.settings.delay, first);
        let writes_at = match self.settings.every {
            NEVER => NEVER,
            every => now + draw_below(&mut rng, every as usize) as u64,
        };
        // The key of the epoch before is still held (hibe), so one tick earlier is readable.
        let floor = engine.current_tick().saturating_sub(1);
        let member = Member { engine, rng, link, writes_at, floor };
        self.due.push(member.due());
        self.members.push(member);
        device
    }

    /// The stamps of a device are off by this from now on, as those of a node are under each name.
    pub fn set_veil(&mut self, device: MemberId, veil: i64) {
        self.members[device as usize].engine.clock_mut().set_veil(veil);
    }

    /// A device comes from elsewhere, where its clock was moved to `offset`.
    pub fn set_offset(&mut self, device: MemberId, offset: i64) {
        self.members[device as usize].engine.clock_mut().set_offset(offset);
    }

    /// Number of devices.
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Returns true if there is no device.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// The engine of a device.
    pub fn engine(&self, device: MemberId) -> &Engine {
        &self.members[device as usize].engine
    }

    /// All engines, in the order of their devices.
    pub fn engines(&self) -> impl Iterator<Item = &Engine> {
        self.members.iter().map(|member| &member.engine)
    }

    /// The table of all cells.
    pub fn table(&self) -> &Bits {
        &self.table
    }

    /// The chance of a device.
    pub fn rng(&mut self, device: MemberId) -> &mut R {
        &mut self.members[device as usize].rng
    }

    /// Counts only messages made from now on.
    pub fn count_from(&mut self, now: u64) {
        self.counted_from = now;
        self.deliveries = Deliveries::default();
        (self.bytes, self.last_bytes) = (0, [0; 5]);
    }

    /// Returns the deliveries of the counted messages.
    pub fn deliveries(&self) -> &Deliveries {
        &self.deliveries
    }

    /// Bytes that were sent since the counting began: all, and those of beacons, announcements,
    /// requests, cells and comparisons.
    pub fn sent_bytes(&self) -> (u64, [u64; 5]) {
        (self.bytes, self.last_bytes)
    }

    /// Remembers from now on who takes which cell when.
    pub fn record_taken(&mut self) {
        self.taken = Some(Vec::new());
    }

    /// Device, number of the cell and time, of each cell that a device took from another one.
    pub fn taken_cells(&self) -> &[(MemberId, u64, u64)] {
        self.taken.as_deref().unwrap_or_default()
    }

    /// The device stops writing.
    pub fn stop_writing(&mut self, device: MemberId) {
        self.members[device as usize].writes_at = NEVER;
    }

    /// When the device has something to do at the latest.
    #[inline]
    pub fn due(&self, device: MemberId) -> u64 {
        self.due[device as usize]
    }

    /// Two devices come into range of each other: the number of each at the other one, of `b` at `a`
    /// first.
    pub fn add_contact(&mut self, a: MemberId, b: MemberId, now: u64) -> [NeighbourId; 2] {
        [(a, b), (b, a)].map(|(here, there)| {
            let Self { members, table, due, .. } = self;
            let member = &mut members[here as usize];
            let id = member.engine.add_neighbour(member.link, u64::from(there), now, table);
            due[here as usize] = member.due();
            id
        })
    }

    /// A neighbour of `device` is out of range.
    pub fn remove_neighbour(&mut self, device: MemberId, neighbour: NeighbourId) {
        self.members[device as usize].engine.remove_neighbour(neighbour, &mut self.table);
    }

    /// A frame arrives at `device` from one of its neighbours. Whether it has something to do earlier
    /// than before.
    #[inline]
    pub fn handle_frame(
        &mut self,
        device: MemberId,
        from: NeighbourId,
        frame: &MeshFrame,
        now: u64,
    ) -> bool {
        let Self { members, table, parcels, deliveries, counted_from, due, .. } = self;
        let Some(Member { engine, rng, floor, .. }) = members.get_mut(device as usize) else {
            // A frame may arrive after its device left the simulation.
            return false;
        };
        let cells = &mut self.arrivals;
        let sooner = engine.handle_frame(from, frame, now, (table, rng), |slot| cells.push(slot));
        if sooner {
            due[device as usize] = due[device as usize].min(engine.due());
        }
        for slot in cells.drain(..) {
            // Watching costs memory for each cell, so it is off unless a test asks for it.
            if let Some(taken) = &mut self.taken {
                taken.push((device, table.number(slot), now));
            }
            let parcel = &mut parcels[slot as usize];
            if parcel.to == device && !parcel.arrived {
                parcel.arrived = true;
                // The key of an epoch that the clock passed is erased, so the cell cannot be
                // opened.
                let has_key = table.facts(slot).tick >= *floor;
                let counts = parcel.made >= *counted_from;
                deliveries.reached += u64::from(counts);
                if counts && has_key {
                    deliveries.arrived += 1;
                    deliveries.took_ms.push(((now - parcel.made) / MS) as u32);
                }
            }
        }
        sooner
    }

    /// The next frame that `device` sends, with its size in bytes; what it writes is written first.
    #[inline]
    pub fn next_frame(&mut self, device: MemberId, now: u64) -> Option<(MeshFrame, usize)> {
        if self.members[device as usize].writes_at <= now {
            self.write_message(device, now);
        }
        let member = self.members.get_mut(device as usize)?;
        let frame = member.engine.next_frame(member.link, now, &mut self.table, &mut member.rng);
        self.due[device as usize] = member.due();
        let frame = frame?;
        // Keys are erased as the clock goes on; they do not come back when it is set back.
        member.floor = member.floor.max(member.engine.current_tick().saturating_sub(1));
        let (kind, bytes) = self.frame_size(&frame);
        self.bytes += bytes as u64;
        self.last_bytes[kind] += bytes as u64;
        Some((frame, bytes))
    }

    /// The user writes to somebody else.
    fn write_message(&mut self, device: MemberId, now: u64) {
        let count = self.members.len();
        let member = &mut self.members[device as usize];
        member.writes_at += self.settings.every;
        let other = draw_below(&mut member.rng, count.saturating_sub(1).max(1)) as MemberId;
        // The own number is skipped, so nobody writes to itself.
        let to = if other >= device { other + 1 } else { other };
        self.send_message(device, to, now);
    }

    /// `device` sends a message to `to` now. Its slot.
    pub fn send_message(&mut self, device: MemberId, to: MemberId, now: u64) -> Slot {
        let member = &mut self.members[device as usize];
        let facts = CellFacts {
            tick: member.engine.clock().tick_at(now),
            life: self.settings.life,
            class: 0,
            sum: member.rng.next_u32(),
        };
        let (slot, _) = self.table.add(facts);
        self.parcels[slot as usize] = Parcel { to, made: now, arrived: false };
        member.engine.originate(slot, now, &mut self.table);
        self.due[device as usize] = member.due();
        // Messages of the warm-up time are not part of the result.
        if now >= self.counted_from {
            self.deliveries.made += 1;
        }
        slot
    }

    /// The kind of a frame and its size on the wire, bytes.
    fn frame_size(&self, frame: &MeshFrame) -> (usize, usize) {
        match frame {
            MeshFrame::Beacon(_) => (0, 24),
            MeshFrame::Have(set) => (1, 8 + 8 * set.count() as usize),
            MeshFrame::Want { set, .. } => (2, 15 + 8 * set.count() as usize),
            MeshFrame::Data(set) => (3, (7 + self.settings.cell_bytes) * set.count() as usize),
            // Nine bits a cell, in frames of 1,200 bytes.
            MeshFrame::Sync(sync) => {
                let bits = 9 * sync.held.count() as usize;
                (4, 26 * bits.div_ceil(8 * 1_174).max(1) + bits.div_ceil(8))
            }
            MeshFrame::Busy { .. } => (1, 15),
            MeshFrame::Bye => (0, 7),
        }
    }
}
