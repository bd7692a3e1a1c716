//! Who is around: beacons, silence, farewells.

use alloc::vec::Vec;

use super::column::ASKED;
use super::{Engine, MeshLinkId};
use crate::frame::{Beacon, Name};
use crate::limits::{
    BEACON, GONE, IGNORED, NEVER, NEW_AT_ONCE, NEW_PER_SECOND, SECOND, SILENT, SYNC_ALWAYS,
};
use crate::table::CellTable;

/// The number of a neighbour of an engine: its place among the columns.
pub type NeighbourId = u16;

/// One device that was heard on a link.
#[derive(Clone, Debug)]
pub struct MeshNeighbour {
    /// Its short-lived name.
    pub name: Name,
    /// The link on which it was heard.
    pub link: MeshLinkId,
    /// When it was heard last.
    pub heard_at: u64,
    /// Its last beacon.
    pub beacon: Beacon,
    /// Its clock minus ours at its last beacon, µs.
    pub differs: i64,
    /// Cells that it gave and that were new here.
    pub gave: u32,
    /// Cells that it was given.
    pub got: u32,
    /// The last eight askings, the newest lowest: 1 = failed.
    pub(super) failures: u8,
    pub(super) ignored_until: u64,
    pub(super) busy_until: u64,
    /// When it was last sent what is held here.
    pub(super) synced_at: u64,
    /// Its cells are taken unasked until then.
    pub(super) sync_until: u64,
    pub(super) sync_due: bool,
    /// When its comparisons were last answered, and of which slices since.
    pub(super) answered_at: u64,
    pub(super) answered: u64,
    /// New cells that may be asked of it now, and since when that number counts.
    pub(super) tokens: u64,
    pub(super) tokens_at: u64,
    /// Cells that it asked for and was owed in this minute, and since when.
    pub(super) drawn: u32,
    pub(super) drawn_at: u64,
    /// Cells that it asked for in this second, and since when.
    pub(super) asked: u32,
    pub(super) asked_at: u64,
    /// Cells that comparisons may still draw this minute, and since when.
    pub(super) answers: u32,
    pub(super) answers_at: u64,
}

impl MeshNeighbour {
    fn new(name: Name, link: MeshLinkId, now: u64) -> Self {
        Self {
            name,
            link,
            heard_at: now,
            beacon: Beacon::default(),
            differs: 0,
            gave: 0,
            got: 0,
            failures: 0,
            ignored_until: 0,
            busy_until: 0,
            synced_at: 0,
            sync_until: 0,
            sync_due: true,
            answered_at: 0,
            answered: 0,
            drawn: 0,
            drawn_at: now,
            asked: 0,
            asked_at: now,
            tokens: NEW_AT_ONCE,
            tokens_at: now,
            answers: 0,
            answers_at: 0,
        }
    }

    /// New cells that it may be asked for now.
    pub(super) fn refill(&mut self, now: u64) -> u64 {
        // Whole tokens alone move the mark, so that no part of one is lost.
        let new = now.saturating_sub(self.tokens_at) * NEW_PER_SECOND / SECOND;
        if new > 0 {
            self.tokens = (self.tokens + new).min(NEW_AT_ONCE);
            self.tokens_at += new * SECOND / NEW_PER_SECOND;
        }
        self.tokens
    }

    /// An asking ended.
    pub(super) fn answered(&mut self, failed: bool, now: u64) {
        self.failures = self.failures << 1 | u8::from(failed);
        if self.failures == u8::MAX {
            self.ignored_until = now + IGNORED;
            self.failures = 0;
        }
    }

    /// Whether it is asked last: three of its last eight askings failed.
    pub(super) fn is_unreliable(&self) -> bool {
        self.failures.count_ones() >= 3
    }
}

impl Engine {
    /// A device under a new name is heard on `link`.
    pub fn meet(
        &mut self,
        link: MeshLinkId,
        name: Name,
        now: u64,
        table: &mut impl CellTable,
    ) -> NeighbourId {
        let free = self.neighbours.iter().position(Option::is_none);
        let id = free.unwrap_or(self.neighbours.len());
        let neighbour = Some(MeshNeighbour::new(name, link, now));
        match self.neighbours.get_mut(id) {
            Some(place) => *place = neighbour,
            None => self.neighbours.push(neighbour),
        }
        // A contact begins with a comparison; where names are bound by beacons, with a beacon before it.
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

    /// The neighbour is forgotten, with all that is known of what it holds.
    pub fn part(&mut self, id: NeighbourId, table: &mut impl CellTable) {
        let Some(place) = self.neighbours.get_mut(usize::from(id)) else { return };
        if place.take().is_none() {
            return;
        }
        let voter = self.voter(id);
        self.clock.forget(voter);
        self.names[usize::from(id)] = NEVER;
        table.rows_mut().clear_neighbour(self.seat, id);
        for request in &mut self.requests {
            if request.of == id {
                request.at = 0;
            }
        }
    }

    /// A neighbour by its number.
    pub fn neighbour(&self, id: NeighbourId) -> Option<&MeshNeighbour> {
        self.neighbours.get(usize::from(id))?.as_ref()
    }

    /// All neighbours.
    pub fn neighbours(&self) -> impl Iterator<Item = (NeighbourId, &MeshNeighbour)> {
        self.neighbours.iter().zip(0..).filter_map(|(place, id)| Some((id, place.as_ref()?)))
    }

    /// Names heard in the last 10 s, each once however many links it is heard on.
    pub fn around(&self, now: u64) -> usize {
        let heard = self.neighbours().filter(|(_, n)| n.heard_at + SILENT >= now);
        if self.links.len() < 2 {
            return heard.count();
        }
        let mut names: Vec<Name> = heard.map(|(_, n)| n.name).collect();
        names.sort_unstable();
        names.dedup();
        names.len()
    }

    /// Under which number the clock knows this neighbour: the same on all links where it is heard.
    fn voter(&self, id: NeighbourId) -> u32 {
        if self.links.len() < 2 {
            return u32::from(id);
        }
        let name = self.names[usize::from(id)];
        self.names.iter().zip(0..).find(|(known, _)| **known == name).map_or(0, |(_, at)| at)
    }

    pub(super) fn hear_beacon(&mut self, from: NeighbourId, beacon: &Beacon, now: u64) {
        let Some(id) = self.neighbour(from).map(|n| usize::from(n.link)) else { return };
        let (live, sum) = self.live_on(&self.links[id]);
        let voter = self.voter(from);
        let Some(Some(neighbour)) = self.neighbours.get_mut(usize::from(from)) else { return };
        let link = &mut self.links[usize::from(neighbour.link)];
        neighbour.heard_at = now;
        neighbour.beacon = *beacon;
        let sample = (beacon.stamp.min(1 << 40) * 125_000 + 62_500 + link.delay).cast_signed();
        neighbour.differs = sample - self.clock.mesh(now).cast_signed();
        self.clock.hear(voter, beacon.stamp, link.delay, now);
        let differs = (beacon.sum, u32::from(beacon.live)) != (sum, live);
        let since = now - neighbour.synced_at.min(now);
        if (differs && since >= self.settings.sync) || since >= SYNC_ALWAYS {
            neighbour.sync_due = true;
        }
        if neighbour.sync_due {
            // Not before the neighbour has heard this device, too.
            let first = self.settings.introduces && neighbour.synced_at == 0;
            link.sync_at = link.sync_at.min(if first { link.beacon_at } else { now });
            self.due = self.due.min(link.sync_at);
        }
    }

    /// A neighbour is busy: what it was asked for last is asked of others, or of it again later, and
    /// counts as no failure.
    pub(super) fn hear_busy(
        &mut self,
        from: NeighbourId,
        until: u64,
        now: u64,
        table: &mut impl CellTable,
    ) {
        let Some(Some(neighbour)) = self.neighbours.get_mut(usize::from(from)) else { return };
        (neighbour.heard_at, neighbour.busy_until) = (now, until);
        let Some(last) = self.requests.iter().filter(|r| r.of == from).map(|r| r.at).max() else {
            return;
        };
        let seat = self.seat;
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

    /// A farewell: nothing is asked of it any more, and its columns stay for ten seconds.
    pub(super) fn hear_bye(&mut self, from: NeighbourId, now: u64) {
        if let Some(Some(neighbour)) = self.neighbours.get_mut(usize::from(from)) {
            neighbour.heard_at = now.saturating_sub(GONE - SILENT);
            let voter = self.voter(from);
            self.clock.forget(voter);
        }
    }

    /// Forgets who was not heard for a minute. In a crowd contacts end by themselves.
    pub(super) fn forget_silent(&mut self, now: u64, table: &mut impl CellTable) {
        for at in 0..self.neighbours.len() {
            let gone = |n: &MeshNeighbour| n.heard_at + GONE < now && n.name != NEVER;
            if self.neighbours[at].as_ref().is_some_and(gone) {
                self.part(at as NeighbourId, table);
            }
        }
    }
}
