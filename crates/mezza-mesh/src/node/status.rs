//! The status of a node for the user.

use alloc::string::String;
use alloc::vec::Vec;
use mezza_core::Time;

use super::{LinkNumber, Node, OtherDate, to_micros};
use crate::clock::{ClockMode, ClockState, Grade};
use crate::engine::EngineCounts;
use crate::frame::Name;
use crate::limits::{MS, SECOND};

/// The state of a node at one moment.
#[derive(Clone, Debug)]
pub struct NodeStatus {
    /// The name of the network.
    pub network: String,
    /// True if the network is closed: frames have a MAC under the key that its members share.
    pub closed: bool,
    /// True if the clock was read and showed a plausible time.
    pub running: bool,
    /// The tick of network time.
    pub cur: u32,
    /// The tick of the device's own clock.
    pub anchor_tick: u32,
    /// Network time minus the device's own clock, ms.
    pub moved_ms: i64,
    /// Distance of the neighbours' clocks from the device's own, ms, while they agree with each
    /// other and contradict the device's clock.
    pub elsewhere_ms: Option<i64>,
    /// Devices of this network with another date (MESH-69).
    pub other_date: Option<OtherDate>,
    /// Names received on several links with contradicting clocks (MESH-76).
    pub two_clocks: Vec<Name>,
    /// Maximum error of the device's own clock, ms: neighbours move network time by no more.
    pub within_ms: u64,
    /// The correction of our clock by a user who decided that the neighbours are right, ms.
    pub trusted_ms: Option<i64>,
    /// The state of the clock.
    pub state: ClockState,
    /// The grade of the device's own clock.
    pub grade: Grade,
    /// The rule by which the clock votes.
    pub mode: ClockMode,
    /// Number of live cells.
    pub live: u32,
    /// Bytes of the store.
    pub store_bytes: usize,
    /// The number of stored cells that are carried for hours.
    pub carried_cells: usize,
    /// Bytes of the stored cells that are carried for hours.
    pub carried_bytes: usize,
    /// Bytes received and sent since the start.
    pub bytes: (u64, u64),
    /// Age of the name, s.
    pub name_age_s: u64,
    /// The counters.
    pub counts: EngineCounts,
    /// Number of names received in the last ten seconds, each counted once.
    pub around: usize,
    /// Neighbours received in the last minute, on each link.
    pub neighbours: Vec<NeighbourStatus>,
}

/// The state of a neighbour at one moment.
#[derive(Clone, Debug)]
pub struct NeighbourStatus {
    /// The short-lived name of the neighbour.
    pub name: Name,
    /// The link.
    pub link: LinkNumber,
    /// Time since its last frame, ms.
    pub silent_ms: u64,
    /// Number of new cells that the neighbour delivered.
    pub gave: u32,
    /// Number of live cells in the neighbour's last beacon.
    pub live: u16,
    /// The neighbour's clock minus ours at its last beacon, ms.
    pub differs_ms: i64,
}

impl Node {
    /// Returns the present state of the node.
    pub fn status(&self, now: Time) -> NodeStatus {
        let now = to_micros(now);
        let clock = self.engine.clock();
        let ms = |us: i64| us / MS.cast_signed();
        NodeStatus {
            network: self.network.name().into(),
            closed: self.network.is_closed(),
            running: self.running,
            cur: self.engine.current_tick(),
            anchor_tick: clock.anchor_tick(now),
            moved_ms: ms(clock.moved_by()),
            elsewhere_ms: clock.neighbour_difference().map(ms),
            other_date: self.dates.most_shown(now),
            two_clocks: self.engine.with_two_clocks(now),
            within_ms: clock.bound_us().unsigned_abs() / MS,
            trusted_ms: clock.trusted_correction().map(ms),
            state: clock.state(),
            grade: clock.grade(),
            mode: clock.mode(),
            live: self.engine.live_count(),
            store_bytes: self.ids.bytes(),
            carried_cells: self.ids.carried_cells(),
            carried_bytes: self.ids.carried_bytes(),
            bytes: self.bytes,
            name_age_s: now.saturating_sub(self.named_at) / SECOND,
            counts: self.engine.counts(),
            around: self.engine.count_around(now),
            neighbours: self.neighbours(now),
        }
    }

    /// Returns the network id of today's beacons.
    pub fn net(&self) -> [u8; 4] {
        self.network.net()
    }

    /// Returns the number of names received in the last ten seconds.
    pub fn count_around(&self, now: Time) -> usize {
        self.engine.count_around(to_micros(now))
    }

    /// Returns the bytes of the tables, independent of their content: bit columns, and an entry for
    /// each slot.
    pub fn table_bytes(&self) -> usize {
        self.ids.table_bytes()
    }

    fn neighbours(&self, now: u64) -> Vec<NeighbourStatus> {
        let number = |engine| self.links.iter().find(|(_, link)| link.engine == engine);
        let shown = self.engine.neighbours().filter_map(|(_, n)| {
            let (link, _) = number(n.link)?;
            Some(NeighbourStatus {
                name: n.name,
                link: *link,
                silent_ms: now.saturating_sub(n.heard_at) / MS,
                gave: n.gave,
                live: n.beacon.live,
                differs_ms: n.differs / MS.cast_signed(),
            })
        });
        shown.collect()
    }
}
