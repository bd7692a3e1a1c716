//! The devices of a simulated crowd: one engine each over one table, and users who write to each
//! other. A simulator carries their frames.

use alloc::vec::Vec;
use rand_core::Rng;

use crate::chance::draw_below;
use crate::clock::{ClockMode, Grade, MeshClock};
use crate::engine::{Engine, EngineCtx, EngineSettings, MeshLinkId, NeighbourId};
use crate::epoch::CellLife;
use crate::frame::MeshFrame;
use crate::limits::{MS, NEVER, SECOND};
use crate::set::Slot;
use crate::table::bits::Bits;
use crate::table::{CellFacts, CellTable};

/// A device of the crowd, by its index.
pub type MemberId = u32;

/// The behaviour of every user of a crowd.
#[derive(Clone, Debug)]
pub struct CrewSettings {
    /// The settings of each engine.
    pub engine: EngineSettings,
    /// The rule by which clocks vote.
    pub mode: ClockMode,
    /// Time between two messages of a user, µs. The first message comes at a random time within it.
    pub every: u64,
    /// Size of a cell, bytes. Cells on the wire have at most 4,096 bytes; a crowd may simulate
    /// larger ones.
    pub cell_bytes: usize,
    /// The life (lifetime class) of every cell.
    pub life: CellLife,
    /// Usual delay of a frame, µs.
    pub delay: u64,
    /// Number of cells that the crowd stores. It must exceed the number made during the life of one
    /// cell.
    pub ring: usize,
}

impl Default for CrewSettings {
    /// Returns the load of the FoSAM paper: a message of 512 bytes every 30 s, epochs of a minute.
    fn default() -> Self {
        Self {
            engine: EngineSettings { burst: 4, ..EngineSettings::default() },
            mode: ClockMode::Level,
            every: 30 * SECOND,
            cell_bytes: 512,
            life: CellLife::Minute,
            delay: MS,
            ring: 4_096,
        }
    }
}

/// A message that is not delivered yet. A tag stands for its encryption.
#[derive(Clone, Copy, Debug, Default)]
pub struct Parcel {
    /// The receiver.
    pub to: MemberId,
    /// Time when the message was made, µs.
    pub made: u64,
    /// True if the receiver has the message.
    pub arrived: bool,
}

/// Deliveries of messages.
#[derive(Clone, Debug, Default)]
pub struct Deliveries {
    /// Number of messages made since the counting began.
    pub made: u64,
    /// Number of counted messages that arrived in time by the receiver's clock: before the end of
    /// their epoch.
    pub reached: u64,
    /// Number of counted messages that arrived while the receiver had the key. A clock that was
    /// ahead may have erased the key.
    pub arrived: u64,
    /// The delivery times of the arrived messages, ms.
    pub took_ms: Vec<u32>,
}

/// One device with its user.
#[derive(Clone, Debug)]
struct Member<R> {
    engine: Engine,
    rng: R,
    link: MeshLinkId,
    writes_at: u64,
    /// The highest tick whose keys this device has erased. A clock that was ahead once erases keys
    /// too early.
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
    /// Time at which each device must act.
    due: Vec<u64>,
    /// A reused buffer for the new cells of one frame.
    arrivals: Vec<Slot>,
    deliveries: Deliveries,
    counted_from: u64,
    bytes: u64,
    last_bytes: [u64; 5],
    /// Device, cell number and time of each cell that a device took since recording began.
    taken: Option<Vec<(MemberId, u64, u64)>>,
}

impl<R: Rng> Crew<R> {
    /// Makes a crowd without devices, with room for `devices`.
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
        let mut engine = Engine::new(u64::from(device), engine, clock, &mut self.table, 1, now);
        // Beacons start at random times, or a crowd would send all of them in one instant.
        let first = now + draw_below(&mut rng, self.settings.engine.beacon as usize + 1) as u64;
        let link = engine.link_up(0xff, self.settings.delay, first);
        let writes_at = match self.settings.every {
            NEVER => NEVER,
            every => now + draw_below(&mut rng, every as usize) as u64,
        };
        // The keys of the previous epoch are still stored (see crate hibe), so cells from one tick
        // earlier can be opened.
        let floor = engine.current_tick().saturating_sub(1);
        let member = Member { engine, rng, link, writes_at, floor };
        self.due.push(member.due());
        self.members.push(member);
        device
    }

    /// Sets the random offset of a device's stamps, which a node draws for each name.
    pub fn set_veil(&mut self, device: MemberId, veil: i64) {
        self.members[device as usize].engine.clock_mut().set_veil(veil);
    }

    /// Sets the clock of a device that moves in from another crowd to `offset`.
    pub fn set_offset(&mut self, device: MemberId, offset: i64) {
        self.members[device as usize].engine.clock_mut().set_offset(offset);
    }

    /// Returns the number of devices.
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Returns true if there is no device.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// Returns the engine of a device.
    pub fn engine(&self, device: MemberId) -> &Engine {
        &self.members[device as usize].engine
    }

    /// Returns all engines, in the order of their devices.
    pub fn engines(&self) -> impl Iterator<Item = &Engine> {
        self.members.iter().map(|member| &member.engine)
    }

    /// Returns the table of all cells.
    pub fn table(&self) -> &Bits {
        &self.table
    }

    /// Returns the generator of a device.
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

    /// Returns the bytes sent since the counting began: all, and those of beacons, announcements,
    /// requests, cells and comparisons.
    pub fn sent_bytes(&self) -> (u64, [u64; 5]) {
        (self.bytes, self.last_bytes)
    }

    /// Records from now on which device takes which cell at which time.
    pub fn record_taken(&mut self) {
        self.taken = Some(Vec::new());
    }

    /// Returns device, cell number and time of each cell that a device took from another device.
    pub fn taken_cells(&self) -> &[(MemberId, u64, u64)] {
        self.taken.as_deref().unwrap_or_default()
    }

    /// Stops the messages of a device.
    pub fn stop_writing(&mut self, device: MemberId) {
        self.members[device as usize].writes_at = NEVER;
    }

    /// Returns the latest time at which the device must act.
    #[inline]
    pub fn due(&self, device: MemberId) -> u64 {
        self.due[device as usize]
    }

    /// Brings two devices into range. Returns each one's neighbour number at the other: first the
    /// number of `b` at `a`.
    pub fn add_contact(&mut self, a: MemberId, b: MemberId, now: u64) -> [NeighbourId; 2] {
        [(a, b), (b, a)].map(|(here, there)| {
            let Self { members, table, due, .. } = self;
            let member = &mut members[here as usize];
            let id = member.engine.add_neighbour(member.link, u64::from(there), now, table);
            due[here as usize] = member.due();
            id
        })
    }

    /// Takes a neighbour of `device` out of range.
    pub fn remove_neighbour(&mut self, device: MemberId, neighbour: NeighbourId) {
        self.members[device as usize].engine.remove_neighbour(neighbour, &mut self.table);
    }

    /// Delivers a frame to `device` from one of its neighbours. Returns true if the device must act
    /// earlier than before.
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
        let sooner = engine
            .handle_frame(from, frame, EngineCtx { now, table, rng }, |slot| cells.push(slot));
        if sooner {
            due[device as usize] = due[device as usize].min(engine.due());
        }
        for slot in cells.drain(..) {
            // Recording costs memory for each cell, so it is off unless a test asks for it.
            if let Some(taken) = &mut self.taken {
                taken.push((device, table.number(slot), now));
            }
            let parcel = &mut parcels[slot as usize];
            if parcel.to == device && !parcel.arrived {
                parcel.arrived = true;
                // The keys of a life end with the epoch after the cell's own, so a clock that passed
                // both has erased the key.
                let has_key = table.facts(slot).has_key_after(*floor);
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

    /// Returns the next frame of `device` with its size in bytes. A message that is due is written
    /// first.
    #[inline]
    pub fn next_frame(&mut self, device: MemberId, now: u64) -> Option<(MeshFrame, usize)> {
        if self.members[device as usize].writes_at <= now {
            self.write_message(device, now);
        }
        let member = self.members.get_mut(device as usize)?;
        let frame = member.engine.next_frame(member.link, now, &mut self.table, &mut member.rng);
        self.due[device as usize] = member.due();
        let frame = frame?;
        // Keys are erased as the clock advances, and do not return when it is set back.
        member.floor = member.floor.max(member.engine.current_tick().saturating_sub(1));
        let (kind, bytes) = self.frame_size(&frame);
        self.bytes += bytes as u64;
        self.last_bytes[kind] += bytes as u64;
        Some((frame, bytes))
    }

    /// Writes a message to a random other device.
    fn write_message(&mut self, device: MemberId, now: u64) {
        let count = self.members.len();
        let member = &mut self.members[device as usize];
        member.writes_at += self.settings.every;
        let other = draw_below(&mut member.rng, count.saturating_sub(1).max(1)) as MemberId;
        // Skip the device's own number, so that no device writes to itself.
        let to = if other >= device { other + 1 } else { other };
        self.send_message(device, to, now);
    }

    /// Sends a message from `device` to `to` now. Returns its slot.
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

    /// Returns the kind of a frame and its size on the wire, bytes.
    fn frame_size(&self, frame: &MeshFrame) -> (usize, usize) {
        match frame {
            MeshFrame::Beacon(_) => (0, 24),
            MeshFrame::Have(set) => (1, 8 + 8 * set.count() as usize),
            MeshFrame::Want { set, .. } => (2, 15 + 8 * set.count() as usize),
            MeshFrame::Data(set) => (3, (7 + self.settings.cell_bytes) * set.count() as usize),
            // A SYNC filter has nine bits for each cell and is sent in frames of 1,200 bytes.
            MeshFrame::Sync(sync) => {
                let bits = 9 * sync.held.count() as usize;
                (4, 26 * bits.div_ceil(8 * 1_174).max(1) + bits.div_ceil(8))
            }
            MeshFrame::Busy { .. } => (1, 15),
            MeshFrame::Bye => (0, 7),
        }
    }
}
