//! Neighbours: their beacons, their silence, and the frame BYE with which they leave.

use alloc::vec::Vec;

use super::column::ASKED;
use super::{Engine, MeshLinkId};
use crate::frame::{Beacon, Name};
use crate::limits::{
    BEACON, BUSY_MS, BUSY_ROW, BUSY_SOON, GONE, IGNORED, MS, NEVER, NEW_AT_ONCE, NEW_PER_SECOND,
    SECOND, SILENT, SYNC_ALWAYS, SYNC_NEWS,
};
use crate::table::CellTable;

/// The number of a neighbour of an engine: the index of its column.
pub type NeighbourId = u16;

/// Two clocks under one name that differ by more than this belong to two devices, µs.
const APART: u64 = 2 * SECOND;

/// A device received on a link.
#[derive(Clone, Debug)]
pub struct MeshNeighbour {
    /// The short-lived name of the neighbour.
    pub name: Name,
    /// The link on which the neighbour is received.
    pub link: MeshLinkId,
    /// Time of its last frame.
    pub heard_at: u64,
    /// Time of its last beacon, or of the first contact; 0 after its BYE.
    pub beacon_at: u64,
    /// Position of this neighbour in the order of first contacts.
    met: u64,
    /// Time of the first contact.
    pub(super) met_at: u64,
    /// The last beacon of the neighbour.
    pub beacon: Beacon,
    /// The neighbour's clock minus ours at its last beacon, µs.
    pub differs: i64,
    /// The neighbour's clock minus our time since boot, which no vote moves, at its last beacon,
    /// µs.
    shows: i64,
    /// Number of new cells that the neighbour delivered.
    pub gave: u32,
    /// Cells that were sent to the neighbour.
    pub got: u32,
    /// The results of the last eight requests, the newest in the lowest bit: 1 = failed.
    pub(super) failures: u8,
    pub(super) ignored_until: u64,
    pub(super) busy_until: u64,
    /// Consecutive BUSY frames without a cell between.
    pub(super) busies: u32,
    /// Time when our set was last sent to the neighbour.
    pub(crate) synced_at: u64,
    /// Time until which cells are accepted from the neighbour without a request.
    pub(super) sync_until: u64,
    /// Number of unasked cells that are still accepted.
    pub(super) unasked: u32,
    pub(super) sync_due: bool,
    /// Time of the last response to the neighbour's comparisons.
    pub(super) answered_at: u64,
    /// The slices that were answered since `answered_at`, one bit each.
    pub(super) answered: u128,
    /// The number of slices of comparisons: more than 1 after one that was too large.
    pub(super) slices: u8,
    /// Number of new cells that may be requested from the neighbour at `tokens_at`.
    pub(super) tokens: u64,
    /// The time for which `tokens` was counted.
    pub(super) tokens_at: u64,
    /// Number of cells requested by the neighbour, or owed to it, in the minute from `drawn_at`.
    pub(super) drawn: u32,
    /// Start of the minute of `drawn`.
    pub(super) drawn_at: u64,
    /// Number of cells requested by the neighbour in the second from `asked_at`.
    pub(super) asked: u32,
    /// Start of the second of `asked`.
    pub(super) asked_at: u64,
    /// Time when its old announcements last made room for new ones.
    pub(super) outdated_at: u64,
    /// Number of cells that comparisons may still send to the neighbour in the minute from
    /// `answers_at`.
    pub(super) answers: u32,
    /// Start of the minute of `answers`.
    pub(super) answers_at: u64,
}

impl MeshNeighbour {
    fn new(name: Name, link: MeshLinkId, met: u64, now: u64) -> Self {
        Self {
            name,
            link,
            heard_at: now,
            beacon_at: now.max(1),
            met,
            met_at: now,
            beacon: Beacon::default(),
            differs: 0,
            shows: 0,
            gave: 0,
            got: 0,
            failures: 0,
            ignored_until: 0,
            busy_until: 0,
            busies: 0,
            synced_at: 0,
            sync_until: 0,
            unasked: 0,
            sync_due: true,
            answered_at: 0,
            answered: 0,
            slices: 1,
            drawn: 0,
            drawn_at: now,
            asked: 0,
            asked_at: now,
            tokens: NEW_AT_ONCE,
            tokens_at: now,
            outdated_at: 0,
            answers: 0,
            answers_at: 0,
        }
    }

    /// Returns how many new cells may be requested from it now.
    pub(super) fn refill_tokens(&mut self, now: u64) -> u64 {
        // The mark moves by whole tokens only, so that no part of one is lost.
        let new = now.saturating_sub(self.tokens_at) * NEW_PER_SECOND / SECOND;
        if new > 0 {
            self.tokens = (self.tokens + new).min(NEW_AT_ONCE);
            self.tokens_at += new * SECOND / NEW_PER_SECOND;
        }
        self.tokens
    }

    /// Returns how many cells it may still send without a request after a comparison.
    pub(super) fn unasked_left(&self, now: u64) -> u32 {
        // After 10 s unasked cells are dropped again (MESH-10).
        if self.sync_until > now { self.unasked } else { 0 }
    }

    /// Returns true if a recent beacon of the neighbour arrived, and no BYE since.
    fn is_around(&self, now: u64) -> bool {
        self.beacon_at > 0 && self.beacon_at + SILENT >= now
    }

    /// Records the result of a request.
    pub(super) fn count_answer(&mut self, failed: bool, now: u64) {
        self.failures = self.failures << 1 | u8::from(failed);
        // Eight of the last eight requests failed. The history is cleared, so that the neighbour
        // gets a new chance after 60 s.
        if self.failures == u8::MAX {
            self.ignored_until = now + IGNORED;
            self.failures = 0;
        }
    }

    /// Returns true if the neighbour is asked last: three of its last eight requests failed.
    pub(super) fn is_unreliable(&self) -> bool {
        self.failures.count_ones() >= 3
    }
}

impl Engine {
    /// Adds a device with a new name on `link`.
    pub fn add_neighbour(
        &mut self,
        link: MeshLinkId,
        name: Name,
        now: u64,
        table: &mut impl CellTable,
    ) -> NeighbourId {
        // Columns are reused, so that the table grows with the present neighbours and not with all
        // ever met.
        let free = self.neighbours.iter().position(Option::is_none);
        let id = free.unwrap_or(self.neighbours.len());
        self.met += 1;
        let neighbour = Some(MeshNeighbour::new(name, link, self.met, now));
        match self.neighbours.get_mut(id) {
            Some(place) => *place = neighbour,
            None => self.neighbours.push(neighbour),
        }
        // A contact begins with a comparison. If beacons bind names, a beacon must precede it.
        let link = &mut self.links[usize::from(link)];
        if self.settings.introduces {
            let soon = link.beaconed_at.map_or(now, |at| now.max(at + BEACON));
            link.beacon_at = link.beacon_at.min(soon);
            link.sync_at = link.sync_at.min(link.beacon_at);
        } else {
            link.sync_at = link.sync_at.min(now);
        }
        self.due = self.due.min(link.due());
        self.names.resize(self.neighbours.len(), NEVER);
        self.names[id] = name;
        if id >= table.rows().neighbours() {
            table.rows_mut().widen();
        }
        id as NeighbourId
    }

    /// Removes a neighbour, with all knowledge of what it holds.
    pub fn remove_neighbour(&mut self, id: NeighbourId, table: &mut impl CellTable) {
        let Some(place) = self.neighbours.get_mut(usize::from(id)) else { return };
        let Some(gone) = place.take() else { return };
        self.names[usize::from(id)] = NEVER;
        // A name that is still heard on another link keeps its sample (MESH-23).
        if !self.names.contains(&gone.name) {
            self.clock.forget_name(gone.name);
        }
        table.rows_mut().clear_neighbour(self.seat, id);
        // End its requests at once, so that the next announcer is asked.
        for request in &mut self.requests {
            if request.of == id {
                request.at = 0;
            }
        }
    }

    /// Returns a neighbour by its number.
    pub fn neighbour(&self, id: NeighbourId) -> Option<&MeshNeighbour> {
        self.neighbours.get(usize::from(id))?.as_ref()
    }

    /// Returns all neighbours.
    pub fn neighbours(&self) -> impl Iterator<Item = (NeighbourId, &MeshNeighbour)> {
        self.neighbours.iter().zip(0..).filter_map(|(place, id)| Some((id, place.as_ref()?)))
    }

    /// Returns the number of names with a beacon in the last 10 s, each counted once over all
    /// links. Other frames do not count: a quorum needs devices that send their time (MESH-58).
    pub fn count_around(&self, now: u64) -> usize {
        let heard = self.neighbours().filter(|(_, n)| n.is_around(now));
        // With one link each name occurs once, which is the case of a crowd.
        if self.links.len() < 2 {
            return heard.count();
        }
        let mut names: Vec<Name> = heard.map(|(_, n)| n.name).collect();
        names.sort_unstable();
        names.dedup();
        names.len()
    }

    /// Returns names received on several links with clocks that differ more than those of one
    /// device can. This changes no state: otherwise a device on two links could put every clock in
    /// doubt (MESH-76).
    pub fn with_two_clocks(&self, now: u64) -> Vec<Name> {
        let around = self.neighbours().filter(|(_, n)| n.is_around(now));
        let mut heard: Vec<(Name, i64)> = around.map(|(_, n)| (n.name, n.shows)).collect();
        heard.sort_unstable();
        let pairs = heard.windows(2).filter(|pair| pair[0].0 == pair[1].0);
        let apart = pairs.filter(|pair| pair[1].1.abs_diff(pair[0].1) > APART);
        let mut names: Vec<Name> = apart.map(|pair| pair[0].0).collect();
        names.dedup();
        names
    }

    /// Returns true if stamps of this neighbour count. For a name on several links, only those of
    /// the link where it was met first and is still received count: a device that copies a name
    /// elsewhere gets no vote (MESH-59).
    fn is_voter(&self, id: NeighbourId, now: u64) -> bool {
        let Some(this) = self.neighbour(id) else { return false };
        let votes = |link: MeshLinkId| self.silent_links >> link & 1 == 0;
        let is_before = |(_, n): (_, &MeshNeighbour)| {
            n.name == this.name && n.met < this.met && votes(n.link) && n.is_around(now)
        };
        // A device that is received on a second link under the same name must not vote again
        // (MESH-59).
        votes(this.link) && (self.links.len() < 2 || !self.neighbours().any(is_before))
    }

    pub(super) fn hear_beacon(&mut self, from: NeighbourId, beacon: &Beacon, now: u64) {
        let Some(id) = self.neighbour(from).map(|n| usize::from(n.link)) else { return };
        let (live, sum) = self.live_on(&self.links[id]);
        let votes = self.is_voter(from, now);
        let Some(Some(neighbour)) = self.neighbours.get_mut(usize::from(from)) else { return };
        let link = &mut self.links[usize::from(neighbour.link)];
        (neighbour.heard_at, neighbour.beacon_at) = (now, now.max(1));
        neighbour.beacon = *beacon;
        // A stamp beyond 2^40 is no valid time, and the product must not overflow.
        let sample = (beacon.stamp.min(1 << 40) * 125_000 + 62_500 + link.delay).cast_signed();
        neighbour.shows = sample - now.cast_signed();
        neighbour.differs = sample - self.clock.mesh_time(now).cast_signed();
        if votes {
            self.clock.add_sample(neighbour.name, beacon.stamp, link.delay, now);
        }
        let differs = (beacon.sum, u32::from(beacon.live)) != (sum, live);
        let since = now - neighbour.synced_at.min(now);
        // Equal sums still compare every 120 s: two sets can have equal sums by chance.
        if (differs && since >= self.settings.sync) || since >= SYNC_ALWAYS {
            neighbour.sync_due = true;
        }
        if neighbour.sync_due {
            // No comparison is due before the neighbour has received our beacon.
            let first = self.settings.introduces && neighbour.synced_at == 0;
            link.sync_at = link.sync_at.min(if first { link.beacon_at } else { now });
            self.due = self.due.min(link.sync_at);
        }
    }

    /// Handles a BUSY: the last request goes to other neighbours, or to this one later. This is no
    /// failure if the BUSY comes soon, and not repeatedly without a cell between (MESH-43).
    pub(super) fn hear_busy(
        &mut self,
        from: NeighbourId,
        wait_ms: u16,
        now: u64,
        table: &mut impl CellTable,
    ) {
        let Some(Some(neighbour)) = self.neighbours.get_mut(usize::from(from)) else { return };
        neighbour.heard_at = now;
        let asked = self.requests.iter().filter(|r| r.of == from).map(|r| r.at).max();
        // This BUSY came too late to be an answer: the request stays, and fails when its time is
        // over.
        let Some(last) = asked.filter(|at| at + BUSY_SOON >= now) else { return };
        neighbour.busies = neighbour.busies.saturating_add(1);
        // BUSY cannot replace failures for ever: the fourth in a row counts as one (MESH-43).
        if neighbour.busies > BUSY_ROW {
            neighbour.count_answer(true, now);
        }
        // The time is a claim of the neighbour, so clamp it.
        neighbour.busy_until = now + u64::from(wait_ms.clamp(BUSY_MS.0, BUSY_MS.1)) * MS;
        let seat = self.seat;
        // BUSY refuses the last request only. Earlier ones may still be answered.
        self.requests.retain(|request| {
            let refused = request.of == from && request.at == last;
            if refused {
                table.rows_mut().hot_mut(seat, request.word)[ASKED] &= !request.mask;
            }
            !refused
        });
        let link = &mut self.links[usize::from(neighbour.link)];
        link.want_at = link.want_at.min(now);
        self.due = self.due.min(now);
    }

    /// Handles a BYE: nothing is requested from the neighbour any more, and its columns stay for
    /// ten seconds.
    pub(super) fn hear_bye(&mut self, from: NeighbourId, now: u64) {
        let votes = self.is_voter(from, now);
        if let Some(Some(neighbour)) = self.neighbours.get_mut(usize::from(from)) {
            // Its columns stay for 10 s: frames that it sent before may still arrive.
            neighbour.heard_at = now.saturating_sub(GONE - SILENT);
            neighbour.beacon_at = 0;
            if votes {
                self.clock.forget_name(neighbour.name);
            }
        }
    }

    /// Schedules a comparison soon, because a neighbour holds a cell that is unknown here and was
    /// not requested. After the usual half minute a cell would have lost half of its life.
    pub fn compare_soon(&mut self, from: NeighbourId, now: u64) {
        let Some(Some(neighbour)) = self.neighbours.get_mut(usize::from(from)) else { return };
        // If nothing was compared yet, a first comparison is due anyway.
        if neighbour.synced_at > 0 {
            neighbour.sync_due = true;
            // At most every 5 s, so that news of many cells causes one comparison.
            let at = now.max(neighbour.synced_at + SYNC_NEWS);
            let link = &mut self.links[usize::from(neighbour.link)];
            link.sync_at = link.sync_at.min(at);
            self.due = self.due.min(link.due());
        }
    }

    /// Removes neighbours that sent no frame for a minute. In a simulated crowd the simulator ends
    /// contacts itself.
    pub(super) fn forget_silent(&mut self, now: u64, table: &mut impl CellTable) {
        for at in 0..self.neighbours.len() {
            let gone = |n: &MeshNeighbour| n.heard_at + GONE < now && n.name != NEVER;
            if self.neighbours[at].as_ref().is_some_and(gone) {
                self.remove_neighbour(at as NeighbourId, table);
            }
        }
    }
}
