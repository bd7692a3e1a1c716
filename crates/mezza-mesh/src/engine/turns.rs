//! Calls of a node into its engine in addition to frames: clock readings, ended links, new names,
//! reused slots.

use super::column::KNOWN;
use super::{Engine, Link, MeshLinkId, NeighbourId};
use crate::clock::{Grade, MeshClock};
use crate::frame::Name;
use crate::limits::NEVER;
use crate::set::Slot;
use crate::table::CellTable;

impl Engine {
    /// Returns the latest time at which a link must send.
    pub fn link_due(&self, link: MeshLinkId) -> u64 {
        self.links.get(usize::from(link)).filter(|link| link.up).map_or(NEVER, Link::due)
    }

    /// Returns the time of the next tick or check of the clock.
    pub fn tick_due(&self) -> u64 {
        self.expire_at
    }

    /// Ignores the stamps (times in beacons) on this link, which is a stream. The devices at its
    /// ends receive each other on another link as well, and the device that opened the stream could
    /// send under any name (MESH-59).
    pub fn ignore_stamps(&mut self, link: MeshLinkId) {
        // Bits of a u32: an engine has at most 28 links.
        self.silent_links |= 1 << link;
    }

    /// Sets whether beacons announce that streams are accepted.
    pub fn set_takes_streams(&mut self, takes: bool) {
        self.settings.streams = takes;
    }

    /// Updates the state of the clock for the neighbours present now.
    pub fn observe_clock(&mut self, now: u64) {
        let around = self.count_around(now);
        self.clock.update_state(around, now);
    }

    /// Returns the clock for changes by a crowd.
    pub(crate) fn clock_mut(&mut self) -> &mut MeshClock {
        &mut self.clock
    }

    /// Does due work without sending.
    pub fn advance_time(&mut self, now: u64, table: &mut impl CellTable) {
        self.catch_up(table);
        self.expire_cells(now, table);
        self.update_due();
    }

    /// Handles a reading of the device's own clock, which shows `anchor` µs more than the monotonic
    /// clock.
    pub fn read_clock(&mut self, anchor: i64, grade: Grade, now: u64, table: &mut impl CellTable) {
        self.clock.read_own(anchor, grade);
        // The tick may have changed by any amount, so expiry is checked at once (MESH-4).
        self.expire_at = now;
        self.advance_time(now, table);
    }

    /// Handles a reading of the device's own clock with a known maximum error, µs.
    pub fn read_clock_bounded(
        &mut self,
        anchor: i64,
        bound: i64,
        now: u64,
        table: &mut impl CellTable,
    ) {
        self.clock.read_bounded(anchor, bound);
        self.expire_at = now;
        self.advance_time(now, table);
    }

    /// Restores a decision of the user from the same system start: a correction of the device's own
    /// clock, µs.
    pub fn trust_correction(&mut self, correction: i64, now: u64, table: &mut impl CellTable) {
        self.clock.trust_correction(correction);
        self.expire_at = now;
        self.advance_time(now, table);
    }

    /// Adopts the neighbours' clocks because the user decided so. Returns false if they do not
    /// contradict the own clock.
    pub fn trust_neighbours(&mut self, now: u64, table: &mut impl CellTable) -> bool {
        let moved = self.clock.trust_neighbours(now);
        if !moved {
            return false;
        }
        self.expire_at = now;
        self.advance_time(now, table);
        moved
    }

    /// Removes a link and all neighbours on it.
    pub fn link_down(&mut self, id: MeshLinkId, table: &mut impl CellTable) {
        for at in 0..self.neighbours.len() {
            if self.neighbours[at].as_ref().is_some_and(|n| n.link == id) {
                self.remove_neighbour(at as NeighbourId, table);
            }
        }
        if let Some(link) = self.links.get_mut(usize::from(id)) {
            link.up = false;
            // The cells owed on the link have no receiver any more.
            (0..self.words).for_each(|word| link.forget_slots(word, u64::MAX));
            link.given_until.clear();
        }
        self.update_due();
    }

    /// Takes a new name. All knowledge about links and neighbours is dropped, nothing is sent
    /// before `silent_until`, and beacons show no checksum of the cells before `shy_until`.
    pub fn change_name(
        &mut self,
        name: Name,
        veil: i64,
        silent_until: u64,
        shy_until: u64,
        table: &mut impl CellTable,
    ) {
        for at in 0..self.neighbours.len() {
            self.remove_neighbour(at as NeighbourId, table);
        }
        self.clock.set_veil(veil);
        (self.name, self.shy_until) = (name, shy_until);
        for link in &mut self.links {
            // If there are new cells, they are announced after the silence. Otherwise no
            // announcement is due.
            let fresh = if link.fresh.is_empty() { NEVER } else { silent_until };
            (link.beacon_at, link.have_at) = (silent_until, fresh);
            (link.mute, link.beaconed_at) = (self.settings.introduces, None);
            // Requests and comparisons belong to the old names and are dropped (MESH-30).
            (link.want_at, link.give_at, link.sync_at) = (NEVER, NEVER, NEVER);
            link.owed.clear();
            link.busy.clear();
        }
        self.update_due();
    }

    /// Returns true if the cell of this slot would be accepted from `from` now.
    pub fn expects_cell(
        &self,
        from: NeighbourId,
        slot: Slot,
        now: u64,
        table: &impl CellTable,
    ) -> bool {
        let hot = table.rows().hot(self.seat, slot / 64);
        let is = |column: usize| hot[column] >> (slot % 64) & 1 == 1;
        let compared = self.neighbour(from).is_some_and(|n| n.unasked_left(now) > 0);
        // A known cell is not accepted twice, and a cell that is not missing needs a comparison
        // (MESH-10).
        !is(KNOWN) && (self.missing.contains(slot) || compared)
    }

    /// Returns true if this slot was announced and its cell is still missing.
    pub fn is_missing(&self, slot: Slot) -> bool {
        self.missing.contains(slot)
    }

    /// Removes the cell of this slot from the store. It stays known, so that it is not requested
    /// again.
    pub fn evict_slot(&mut self, slot: Slot, table: &mut impl CellTable) {
        if self.holds_slot(slot, table) {
            self.subtract_live(table.facts(slot));
        }
        self.clear_slots(table, slot / 64, 1 << (slot % 64));
    }

    /// Clears all knowledge about a slot before it is reused for another cell.
    pub fn release_slot(&mut self, slot: Slot, table: &mut impl CellTable) {
        let word = slot / 64;
        let bit = 1 << (slot % 64);
        // The cell leaves the live count before its slot is emptied.
        if self.holds_slot(slot, table) {
            self.subtract_live(table.facts(slot));
        }
        self.clear_missing(word, bit, table);
        self.clear_slots(table, word, bit);
        table.rows_mut().clear_slot(self.seat, slot);
        // Open requests must not refer to the next cell in this slot.
        self.requests.iter_mut().filter(|r| r.word == word).for_each(|r| r.mask &= !bit);
        self.holds.iter_mut().filter(|h| h.word == word).for_each(|h| h.mask &= !bit);
    }
}
