//! Cells that this device made, and the evidence that neighbours carry them on.

use alloc::collections::{BTreeMap, BTreeSet};

use super::hear::cell_out;
use super::{Error, Node, Output};
use crate::cell::MeshCell;
use crate::epoch::{Age, CellLife};
use crate::frame::Name;
use crate::limits::SECOND;
use crate::set::{Set, Slot};
use crate::table::ids::Origin;

/// The number by which the caller identifies a cell that it made.
pub type Ticket = u64;

/// The reason why a cell of this device is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The rate limit is reached: two per second, and eight at once.
    #[error("too many at once; wait a second")]
    Slow,
    /// The tick is not live by this node's clock.
    #[error("its tick is not now")]
    Time,
    /// The network carries only cells of another life (lifetime class).
    #[error("this network carries another life")]
    Life,
    /// The store has the cell already.
    #[error("it is here already")]
    Repeated,
}

/// A cell that this device made.
#[derive(Debug)]
struct OwnCell {
    ticket: Ticket,
    /// Neighbours that requested the cell.
    asked: BTreeSet<Name>,
    /// True if the cell was sent after a request.
    given: bool,
    /// Neighbours that announced the cell after it was sent to them.
    carried: BTreeSet<Name>,
}

impl OwnCell {
    /// Returns how many neighbours announced the cell, or `None` if none did.
    fn progress(&self) -> Option<Output> {
        let ticket = self.ticket;
        match self.carried.len() as u32 {
            0 => None,
            1 => Some(Output::Handed { ticket }),
            names => Some(Output::Carried { ticket, names }),
        }
    }
}

/// All live cells that this device made.
#[derive(Debug, Default)]
pub(super) struct OwnCells {
    cells: BTreeMap<Slot, OwnCell>,
    tokens: u64,
    tokens_at: u64,
}

/// Maximum number of names remembered for one cell.
const NAMES_MAX: usize = 64;

impl OwnCells {
    fn add(&mut self, slot: Slot, ticket: Ticket) {
        let asked = BTreeSet::new();
        let carried = BTreeSet::new();
        self.cells.insert(slot, OwnCell { ticket, asked, given: false, carried });
    }

    /// Gives a held cell another ticket. Returns the progress so far, if there is any.
    fn follow(&mut self, slot: Slot, ticket: Ticket) -> Option<Output> {
        let Some(cell) = self.cells.get_mut(&slot) else {
            self.add(slot, ticket);
            return None;
        };
        cell.ticket = ticket;
        cell.progress()
    }

    /// Removes an expired cell. Returns its ticket if it is our own.
    pub fn expire(&mut self, slot: Slot) -> Option<Ticket> {
        self.cells.remove(&slot).map(|cell| cell.ticket)
    }

    /// Records a request for cells.
    pub fn record_asked(&mut self, name: Name, set: &Set) {
        if self.cells.is_empty() {
            return;
        }
        // Names per cell are bounded, since a name costs nothing (MESH-40).
        for slot in set.slots() {
            if let Some(cell) = self.cells.get_mut(&slot)
                && cell.asked.len() < NAMES_MAX
            {
                cell.asked.insert(name);
            }
        }
    }

    /// Records that a cell was sent.
    pub fn record_given(&mut self, slot: Slot) {
        if let Some(cell) = self.cells.get_mut(&slot) {
            cell.given = true;
        }
    }

    /// Records that a neighbour has these cells. Returns evidence for each cell of ours that it
    /// requested and was sent before.
    pub fn record_holder(&mut self, name: Name, set: &Set) -> alloc::vec::Vec<Output> {
        let mut news = alloc::vec::Vec::new();
        if self.cells.is_empty() {
            return news;
        }
        for slot in set.slots() {
            let Some(cell) = self.cells.get_mut(&slot) else { continue };
            // Evidence needs all three: requested, sent by us, then announced by that name
            // (MESH-44).
            if cell.given && cell.asked.contains(&name) && cell.carried.insert(name) {
                news.extend(cell.progress());
            }
        }
        news
    }

    /// Takes a token from the bucket that limits own cells: `rate` per second, and `burst` at once.
    fn take_token(&mut self, rate: u32, burst: u32, now: u64) -> bool {
        let rate = u64::from(rate);
        let burst = u64::from(burst) * SECOND;
        let gained = now.saturating_sub(self.tokens_at).saturating_mul(rate);
        // The first own cell finds a full bucket.
        let tokens = if self.tokens_at == 0 { burst } else { (self.tokens + gained).min(burst) };
        // Two own cells a second, and eight at once (section Limits).
        if tokens < SECOND {
            return false;
        }
        (self.tokens, self.tokens_at) = (tokens - SECOND, now.max(1));
        true
    }
}

impl Node {
    /// Takes a cell of this device. It is announced with the next regular announcement, like any
    /// other cell.
    pub(super) fn originate(
        &mut self,
        ticket: Ticket,
        life: CellLife,
        tick: u32,
        payload: &[u8],
        now: u64,
    ) -> Result<(), Error> {
        let cell = MeshCell::new(life, tick, payload)?;
        if let Some(slot) = self.held_slot(&cell) {
            // A program that started again sends what it sent before: it follows the same cell,
            // and no second one burdens the mesh.
            let progress = self.own.follow(slot, ticket);
            self.outputs.extend(progress);
            return Ok(());
        }
        // The cell is checked before a token is spent, so a refused cell costs nothing.
        self.check_admissible(&cell)?;
        if let Some((rate, burst)) = self.settings.own_rate
            && !self.own.take_token(rate, burst, now)
        {
            return Err(Refusal::Slow.into());
        }
        let out = cell_out(&cell);
        let stored = self.kept_out(&cell.id(), &cell, Origin::Own);
        // Own cells get no privilege (MESH-5). The sender learns of it and tries again, because no
        // other event would end this ticket.
        let slot = self.store_cell(cell, Origin::Own, now).ok_or(Error::Full)?;
        self.own.add(slot, ticket);
        self.outputs.extend(stored);
        // Listeners of this node get every cell once, including own ones (MESH-63).
        self.outputs.push_back(out);
        Ok(())
    }

    /// Takes a cell from a file.
    pub(super) fn import_cell(&mut self, cell: &[u8], now: u64) -> Result<(), Error> {
        let cell = MeshCell::decode(cell)?;
        self.check_admissible(&cell)?;
        // Cells from a file have a share of the store like those of any address, or one import
        // could fill it (MESH-40).
        if self.ids.is_over(&self.claim_room(Origin::Bundle, &cell)) {
            return Err(Error::Share);
        }
        let out = cell_out(&cell);
        let stored = self.kept_out(&cell.id(), &cell, Origin::Bundle);
        if self.store_cell(cell, Origin::Bundle, now).is_some() {
            self.outputs.extend(stored);
            self.outputs.push_back(out);
        }
        Ok(())
    }

    /// Takes back a cell from its copy on disk, which an earlier run of this node made.
    pub(super) fn restore_cell(
        &mut self,
        cell: &[u8],
        bringer: u32,
        now: u64,
    ) -> Result<(), Error> {
        let cell = MeshCell::decode(cell)?;
        self.check_admissible(&cell)?;
        let from = Origin::Kept(bringer);
        // A copy on disk is trusted no more than a neighbour: the address that brought the cell
        // keeps its share (MESH-81).
        if self.ids.is_over(&self.claim_room(from, &cell)) {
            return Err(Error::Share);
        }
        let out = cell_out(&cell);
        if self.store_cell(cell, from, now).is_some() {
            self.outputs.push_back(out);
        }
        Ok(())
    }

    /// Checks that a cell from outside of the links may be stored. Changes nothing.
    fn check_admissible(&self, cell: &MeshCell) -> Result<(), Error> {
        // Without a time no cell can be judged.
        if !self.running {
            return Err(Error::NoTime);
        }
        let facts = cell.facts();
        // All devices of this network refuse cells of another life, so none is made here.
        if self.settings.life.is_some_and(|life| life != facts.life) {
            return Err(Refusal::Life.into());
        }
        if facts.life.judge_tick(facts.tick, self.engine.current_tick()) != Age::Live {
            return Err(Refusal::Time.into());
        }
        let id = cell.id();
        let held = |slot: &Slot| self.ids.id(*slot) == Some(&id);
        // Storing the same cell again would reset its age and the address that brought it.
        if self.ids.slots_named(crate::cell::short_id(&id)).any(|slot| held(&slot)) {
            return Err(Refusal::Repeated.into());
        }
        Ok(())
    }

    /// Returns the slot of a cell that this node holds.
    fn held_slot(&self, cell: &MeshCell) -> Option<Slot> {
        let id = cell.id();
        let slots = self.ids.slots_named(crate::cell::short_id(&id));
        slots
            .filter(|slot| self.ids.id(*slot) == Some(&id))
            .find(|slot| self.ids.cell(*slot).is_some())
    }

    /// Stores a cell after making room for it. Returns its slot, if one is left.
    fn store_cell(&mut self, cell: MeshCell, from: Origin, now: u64) -> Option<Slot> {
        self.make_room(&self.claim_room(from, &cell));
        let id = cell.id();
        let slot = self.ids.find_slot(&id)?;
        self.engine.release_slot(slot, &mut self.ids);
        self.ids.put_cell(slot, id, cell, from);
        self.engine.originate(slot, now, &mut self.ids);
        Some(slot)
    }

    /// Reports each own cell that a neighbour announced, or showed in a comparison, after it was
    /// sent to that neighbour.
    pub(super) fn note_holder(&mut self, name: Name, set: &Set) {
        let news = self.own.record_holder(name, set);
        self.outputs.extend(news);
    }
}
