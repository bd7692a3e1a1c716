//! The table of a node: cells with their bytes, and ids that were announced and are missing.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use super::rows::Rows;
use super::{Announced, CellFacts, CellTable};
use crate::cell::{CellId, MeshCell, short_id, sum_part};
use crate::engine::COLD_COLUMNS;
use crate::epoch::CellLife;
use crate::limits::{CARRIED_BYTES, CARRIED_CELLS_MAX, MISSING_MAX, STORE_BYTES_MAX};
use crate::node::Source;
use crate::set::Slot;

/// The bringer of a cell, against whose share of the store the cell counts: a neighbour, a file, or
/// this device itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    /// A neighbour at this address, under any name: names cost nothing (MESH-40).
    Neighbour(Source),
    /// A file that the user imported.
    Bundle,
    /// An address of an earlier run of this node, by the number that was stored for it.
    Kept(u32),
    /// This device.
    Own,
}

/// A part of the store with its own limits (MESH-81), so that cells of one life or size do not
/// displace others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    /// Cells that live for minutes. If the node has no store for long-lived cells: all cells.
    Short,
    /// Cells of up to 1,024 bytes that are carried for hours.
    Small(CellLife),
    /// Cells of 2,048 and 4,096 bytes that are carried for hours.
    Large(CellLife),
}

/// Number of parts for cells that are carried for hours: two lives in two sizes.
const CARRIED_PARTS: usize = 4;

/// Cells and bytes of a part.
#[derive(Clone, Copy, Debug, Default)]
struct Used {
    cells: usize,
    bytes: usize,
}

/// A cell that needs room in the store.
#[derive(Clone, Copy, Debug)]
pub struct StoreClaim {
    /// The bringer of the cell.
    pub from: Origin,
    /// The facts of the cell.
    pub facts: CellFacts,
    /// The size of the cell, bytes.
    pub bytes: usize,
    /// The current tick. A cell with a later tick is not kept longer because of it.
    pub cur: u32,
}

/// Bit that marks the stored numbers of addresses of an earlier run, so that they differ from
/// present addresses.
const KEPT_BRINGER: u64 = 1 << 62;

/// The use of a slot.
#[derive(Clone, Debug)]
enum Entry {
    Free,
    /// A missing cell, of which a neighbour announced the first eight bytes of the id.
    Expected {
        short: u64,
        announced: Announced,
    },
    /// A cell in the store.
    Held {
        id: CellId,
        cell: MeshCell,
        from: Origin,
        rank: u64,
        /// See [`CellTable::announced_place`].
        place: u8,
    },
    /// A cell that was removed or refused; remembered for a while so that it is not requested
    /// again.
    Past {
        short: u64,
        /// The order in which cells were removed.
        order: u64,
    },
}

/// The cells of one node.
#[derive(Clone, Debug)]
pub struct Ids {
    entries: Vec<Entry>,
    free: Vec<Slot>,
    /// Slots, by the first eight bytes of the id.
    shorts: BTreeSet<(u64, Slot)>,
    expected: BTreeSet<Slot>,
    /// Slots of past cells, in the order of removal.
    past: BTreeMap<u64, Slot>,
    went: u64,
    /// Bytes in each part of the store, by the bringer of the cells.
    shares: BTreeMap<(Part, Origin), usize>,
    used: BTreeMap<Part, Used>,
    /// Bytes of cells in the short part that live for more than a minute.
    long_bytes: usize,
    bytes_max: usize,
    carried_bytes_max: usize,
    /// Long-lived cells that left the store, and whose copies on disk must be deleted.
    left: Vec<CellId>,
    arrivals: u64,
    rows: Rows,
}

impl Ids {
    /// Makes an empty store of at most `bytes_max` bytes, and never more than 8 MiB. Cells that are
    /// carried for hours have up to `carried_bytes_max` more bytes; with 0 they are stored like all
    /// others.
    pub fn new(bytes_max: usize, carried_bytes_max: usize) -> Self {
        let bytes_max = bytes_max.min(STORE_BYTES_MAX);
        let carried_bytes_max = carried_bytes_max.min(CARRIED_BYTES);
        let part_bytes = carried_bytes_max / CARRIED_PARTS;
        let carried = 2 * ((part_bytes / 512).min(CARRIED_CELLS_MAX) + part_bytes / 2_048);
        // There are a quarter more slots than held and expected cells need, for the ids of past
        // cells.
        let slots = (bytes_max / 512 + carried + MISSING_MAX) * 5 / 4;
        let words = slots.div_ceil(64);
        let slots = 64 * words as Slot;
        Self {
            entries: alloc::vec![Entry::Free; slots as usize],
            free: (0..slots).rev().collect(),
            shorts: BTreeSet::new(),
            expected: BTreeSet::new(),
            past: BTreeMap::new(),
            went: 0,
            shares: BTreeMap::new(),
            used: BTreeMap::new(),
            long_bytes: 0,
            bytes_max,
            carried_bytes_max,
            left: Vec::new(),
            arrivals: 0,
            rows: Rows::new(words, COLD_COLUMNS),
        }
    }

    /// Returns the bytes in the store.
    pub fn bytes(&self) -> usize {
        self.used.values().map(|used| used.bytes).sum()
    }

    /// Returns the number of cells that are carried for hours.
    pub fn carried_cells(&self) -> usize {
        self.used_by_carried().map(|used| used.cells).sum()
    }

    /// Returns the bytes of cells that are carried for hours.
    pub fn carried_bytes(&self) -> usize {
        self.used_by_carried().map(|used| used.bytes).sum()
    }

    fn used_by_carried(&self) -> impl Iterator<Item = &Used> {
        self.used.iter().filter(|(part, _)| **part != Part::Short).map(|(_, used)| used)
    }

    /// Returns the long-lived cells that left the store since the last call.
    pub fn take_left(&mut self) -> Vec<CellId> {
        core::mem::take(&mut self.left)
    }

    /// Returns true if cells of these facts have a copy on the disk.
    pub fn is_carried(&self, facts: CellFacts) -> bool {
        self.part_of(facts) != Part::Short
    }

    fn part_of(&self, facts: CellFacts) -> Part {
        match facts.life {
            life if !life.is_carried() || self.carried_bytes_max == 0 => Part::Short,
            life if facts.class < 2 => Part::Small(life),
            life => Part::Large(life),
        }
    }

    fn used(&self, part: Part) -> Used {
        self.used.get(&part).copied().unwrap_or_default()
    }

    fn share(&self, part: Part, from: Origin) -> usize {
        self.shares.get(&(part, from)).copied().unwrap_or(0)
    }

    /// Returns the maximum number of bytes of a part.
    fn part_bytes_max(&self, part: Part) -> usize {
        match part {
            Part::Short => self.bytes_max,
            Part::Small(_) | Part::Large(_) => self.carried_bytes_max / CARRIED_PARTS,
        }
    }

    /// Returns the bytes of columns and entries.
    pub fn table_bytes(&self) -> usize {
        self.rows.bytes()
            + self.entries.len() * size_of::<Entry>()
            + self.free.len() * size_of::<Slot>()
    }

    /// Returns the cell in a slot.
    pub fn cell(&self, slot: Slot) -> Option<&MeshCell> {
        match self.entries.get(slot as usize)? {
            Entry::Held { cell, .. } => Some(cell),
            _ => None,
        }
    }

    /// Returns the id of the cell in a slot.
    pub fn id(&self, slot: Slot) -> Option<&CellId> {
        match self.entries.get(slot as usize)? {
            Entry::Held { id, .. } => Some(id),
            _ => None,
        }
    }

    /// Returns the first eight bytes of the id in a slot.
    pub fn short(&self, slot: Slot) -> Option<u64> {
        match self.entries.get(slot as usize)? {
            Entry::Held { id, .. } => Some(short_id(id)),
            Entry::Expected { short, .. } | Entry::Past { short, .. } => Some(*short),
            Entry::Free => None,
        }
    }

    /// Returns the slots with these eight bytes.
    pub fn slots_named(&self, short: u64) -> impl Iterator<Item = Slot> + '_ {
        self.shorts.range((short, 0)..=(short, Slot::MAX)).map(|(_, slot)| *slot)
    }

    /// Returns the slot of an announced id: an existing one, or a new one if there is room.
    pub fn expect_id(&mut self, short: u64, announced: Announced) -> Option<Slot> {
        if let Some(slot) = self.slots_named(short).next() {
            return Some(slot);
        }
        // Announced ids are bounded for the whole node, not only for each neighbour (MESH-40).
        if self.expected.len() >= MISSING_MAX {
            return None;
        }
        let slot = self.free.pop()?;
        self.entries[slot as usize] = Entry::Expected { short, announced };
        self.shorts.insert((short, slot));
        self.expected.insert(slot);
        Some(slot)
    }

    /// Returns the slot for this cell: its own, the one where it is expected, or a new one. Two
    /// cells with the same first eight bytes get separate slots.
    pub fn find_slot(&self, id: &CellId) -> Option<Slot> {
        let mut expected = None;
        for slot in self.slots_named(short_id(id)) {
            match &self.entries[slot as usize] {
                // The same id is here already, so return its slot.
                Entry::Held { id: held, .. } if held == id => return Some(slot),
                Entry::Expected { .. } | Entry::Past { .. } => expected = Some(slot),
                _ => (),
            }
        }
        expected.or_else(|| self.free.last().copied())
    }

    /// Puts a cell into the slot from [`find_slot`](Self::find_slot).
    pub fn put_cell(&mut self, slot: Slot, id: CellId, cell: MeshCell, from: Origin) {
        let place =
            CellTable::announced_at(self, slot).map_or(u8::MAX, |announced| announced.place);
        self.occupy_slot(slot);
        let facts = cell.facts();
        let bytes = cell.bytes().len();
        self.arrivals += 1;
        // Cells are ranked by tick, newest first, and then by arrival, latest first.
        let rank = u64::from(facts.tick) << 32 | (self.arrivals & 0xffff_ffff);
        let part = self.part_of(facts);
        let used = self.used.entry(part).or_default();
        *used = Used { cells: used.cells + 1, bytes: used.bytes + bytes };
        // Cells that live for more than a minute share one quarter of the part, because they occupy
        // it longer (section Limits).
        self.long_bytes += if is_long(part, facts) { bytes } else { 0 };
        *self.shares.entry((part, from)).or_default() += bytes;
        self.shorts.insert((short_id(&id), slot));
        self.entries[slot as usize] = Entry::Held { id, cell, from, rank, place };
    }

    /// Drops the bytes of a cell. Its id stays known, so that it is not requested again.
    pub fn bury_cell(&mut self, slot: Slot) {
        // A free slot has no id to remember.
        if let Some(short) = self.short(slot) {
            self.occupy_slot(slot);
            self.went += 1;
            self.entries[slot as usize] = Entry::Past { short, order: self.went };
            self.shorts.insert((short, slot));
            self.past.insert(self.went, slot);
        }
    }

    /// Prepares a slot for another use. If the slot is free, it must be the last one in the list of
    /// free slots.
    fn occupy_slot(&mut self, slot: Slot) {
        self.free_slot(slot);
        if self.free.last() == Some(&slot) {
            self.free.pop();
        }
    }

    /// Frees a slot. The caller clears its bits.
    pub fn free_slot(&mut self, slot: Slot) {
        if let Some(short) = self.short(slot) {
            self.shorts.remove(&(short, slot));
        }
        let old = core::mem::replace(&mut self.entries[slot as usize], Entry::Free);
        if let Entry::Held { id, cell, from, .. } = &old {
            let bytes = cell.bytes().len();
            let part = self.part_of(cell.facts());
            if let Some(used) = self.used.get_mut(&part) {
                *used = Used { cells: used.cells - 1, bytes: used.bytes - bytes };
            }
            self.long_bytes -= if is_long(part, cell.facts()) { bytes } else { 0 };
            if let Some(share) = self.shares.get_mut(&(part, *from)) {
                *share -= bytes;
                // Empty shares are removed, so that the map has no more entries than live cells
                // have bringers.
                if *share == 0 {
                    self.shares.remove(&(part, *from));
                }
            }
            if part != Part::Short {
                self.left.push(*id);
            }
        }
        self.expected.remove(&slot);
        if let Entry::Past { order, .. } = &old {
            self.past.remove(order);
        }
        if !matches!(old, Entry::Free) {
            self.free.push(slot);
        }
    }

    /// Returns the slots of announced cells that are missing.
    pub fn expected_slots(&self) -> impl Iterator<Item = Slot> + '_ {
        self.expected.iter().copied()
    }

    /// Returns the slots of past cells, earliest removal first.
    pub fn past_slots(&self) -> impl DoubleEndedIterator<Item = Slot> + '_ {
        self.past.values().copied()
    }

    /// Returns the cells in the store, with their slots.
    pub fn held_cells(&self) -> impl Iterator<Item = (Slot, &MeshCell)> {
        (0..).zip(&self.entries).filter_map(|(slot, entry)| match entry {
            Entry::Held { cell, .. } => Some((slot, cell)),
            _ => None,
        })
    }

    /// Returns true if one more cell would exceed its share and must be refused.
    ///
    /// In the part for short lives, each bringer has a quarter of the store, and all lives above a
    /// minute share a quarter. In each part for long lives, a bringer has a quarter. There its
    /// newest cells stay, so that only a cell older than all of them is refused.
    pub fn is_over(&self, claim: &StoreClaim) -> bool {
        let StoreClaim { from, facts, bytes, cur } = *claim;
        let part = self.part_of(facts);
        let quarter = self.part_bytes_max(part) / 4;
        // Cells of this device have no share: their rate limit bounds them.
        if from == Origin::Own {
            return false;
        }
        let over = self.share(part, from) + bytes > quarter;
        if part != Part::Short {
            // The search for the oldest cell reads the whole store.
            let is_older = |(tick, ..): (u32, u64, Slot)| facts.tick.min(cur) < tick;
            return over && self.oldest_of(part, from, cur).is_none_or(is_older);
        }
        over || (is_long(part, facts) && self.long_bytes + bytes > quarter)
    }

    /// Returns true if a slot is free.
    pub fn has_room(&self) -> bool {
        !self.free.is_empty()
    }

    /// Returns the cell that is removed to make room for a new one: the oldest cell of the new
    /// cell's bringer if that exceeds its share of long-lived cells, else the oldest cell of the
    /// bringer with the most bytes. Cells of this device go last.
    pub fn select_victim(&self, claim: &StoreClaim) -> Option<Slot> {
        let StoreClaim { from, facts, bytes, cur } = *claim;
        let part = self.part_of(facts);
        let used = self.used(part);
        let bytes_max = self.part_bytes_max(part);
        let over = part != Part::Short
            && from != Origin::Own
            && self.share(part, from) + bytes > bytes_max / 4;
        if over {
            return self.oldest_of(part, from, cur).map(|(.., slot)| slot);
        }
        let cells_max = if matches!(part, Part::Small(_)) { CARRIED_CELLS_MAX } else { usize::MAX };
        let fits = used.bytes + bytes <= bytes_max && used.cells < cells_max;
        if fits && !self.free.is_empty() {
            return None;
        }
        // Own cells go last, only when no other cells are left (MESH-40).
        let shares = self.shares.iter().filter(|((of, _), _)| *of == part);
        let others = shares.filter(|((_, from), _)| *from != Origin::Own);
        let most = others.max_by_key(|(_, bytes)| **bytes);
        let most = most.map_or(Origin::Own, |((_, from), _)| *from);
        self.oldest_of(part, most, cur).map(|(.., slot)| slot)
    }

    /// Returns tick, rank and slot of the cell of a bringer that is removed first in this part.
    fn oldest_of(&self, part: Part, of: Origin, cur: u32) -> Option<(u32, u64, Slot)> {
        let cells = (0..).zip(&self.entries).filter_map(|(slot, entry)| match entry {
            Entry::Held { cell, from, rank, .. }
                if *from == of && self.part_of(cell.facts()) == part =>
            {
                // A tick ahead of the clock must not keep a cell from being removed, so it counts
                // as the current one.
                Some((cell.facts().tick.min(cur), *rank, slot))
            }
            _ => None,
        });
        cells.min()
    }
}

/// Returns true for a cell in the short part that lives for more than a minute.
fn is_long(part: Part, facts: CellFacts) -> bool {
    part == Part::Short && facts.life != CellLife::Minute
}

impl CellTable for Ids {
    const KNOWS_BRINGERS: bool = true;

    fn rows(&self) -> &Rows {
        &self.rows
    }

    fn rows_mut(&mut self) -> &mut Rows {
        &mut self.rows
    }

    fn facts(&self, slot: Slot) -> CellFacts {
        match &self.entries[slot as usize] {
            Entry::Held { id, cell, .. } => CellFacts { sum: sum_part(id), ..cell.facts() },
            _ => CellFacts::default(),
        }
    }

    fn rank(&self, slot: Slot) -> Option<u64> {
        match &self.entries[slot as usize] {
            Entry::Held { rank, .. } => Some(*rank),
            _ => Some(0),
        }
    }

    fn bringer(&self, slot: Slot) -> u64 {
        match &self.entries[slot as usize] {
            Entry::Held { from: Origin::Neighbour(source), .. } => *source,
            Entry::Held { from: Origin::Bundle, .. } => u64::MAX - 1,
            Entry::Held { from: Origin::Kept(number), .. } => KEPT_BRINGER | u64::from(*number),
            Entry::Held { from: Origin::Own, .. } => u64::MAX,
            _ => 0,
        }
    }

    fn announced_place(&self, slot: Slot) -> u8 {
        match &self.entries[slot as usize] {
            Entry::Held { place, .. } => *place,
            _ => u8::MAX,
        }
    }

    fn announced_at(&self, slot: Slot) -> Option<Announced> {
        match &self.entries[slot as usize] {
            Entry::Expected { announced, .. } => Some(*announced),
            _ => None,
        }
    }
}
