//! The status for the user.

use alloc::string::String;
use alloc::vec::Vec;
use mezza_core::Time;

use super::{LinkNumber, Node, OtherDate, to_micros};
use crate::clock::{ClockMode, ClockState, Grade};
use crate::engine::EngineCounts;
use crate::frame::Name;
use crate::limits::{MS, SECOND};

/// A node at one moment.
#[derive(Clone, Debug)]
pub struct NodeStatus {
    /// The network's name.
    pub network: String,
    /// True if its frames are checked with a key.
    pub closed: bool,
    /// True if a time was read.
    pub running: bool,
    /// The tick of network time.
    pub cur: u32,
    /// The tick of the device's own clock.
    pub anchor_tick: u32,
    /// Network time minus the device's own, ms.
    pub moved_ms: i64,
    /// How far the neighbours' clocks are from the own one, ms, while they agree and it does not.
    pub elsewhere_ms: Option<i64>,
    /// Devices of this network that live on another date (MESH-69).
    pub other_date: Option<OtherDate>,
    /// Names that are heard on several links with clocks that contradict each other (MESH-76).
    pub two_clocks: Vec<Name>,
    /// How far the own clock may be off, ms: neighbours move network time by no more.
    pub within_ms: u64,
    /// The correction of our clock by a user who decided that the neighbours are right, ms.
    pub trusted_ms: Option<i64>,
    /// The knowledge about the clock.
    pub state: ClockState,
    /// How good the own clock is.
    pub grade: Grade,
    /// How it votes.
    pub mode: ClockMode,
    /// Live cells, and bytes of the store.
    pub live: u32,
    /// Bytes of the store.
    pub store_bytes: usize,
    /// Bytes that came and went since the start.
    pub bytes: (u64, u64),
    /// Age of the name, s.
    pub name_age_s: u64,
    /// The counters.
    pub counts: EngineCounts,
    /// Names heard in the last ten seconds, each once.
    pub around: usize,
    /// Everybody who was heard in the last minute, on each link.
    pub neighbours: Vec<NeighbourStatus>,
}

/// A neighbour at one moment.
#[derive(Clone, Debug)]
pub struct NeighbourStatus {
    /// Its short-lived name.
    pub name: Name,
    /// The link.
    pub link: LinkNumber,
    /// Since when nothing was heard, ms.
    pub silent_ms: u64,
    /// New cells that it gave.
    pub gave: u32,
    /// Live cells that it says it has.
    pub live: u16,
    /// Its clock minus ours at its last beacon, ms.
    pub differs_ms: i64,
}

impl Node {
    /// The node as it is now.
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
            bytes: self.bytes,
            name_age_s: now.saturating_sub(self.named_at) / SECOND,
            counts: self.engine.counts(),
            around: self.engine.count_around(now),
            neighbours: self.neighbours(now),
        }
    }

    /// The network as beacons of today name it.
    pub fn net(&self) -> [u8; 4] {
        self.network.net()
    }

    /// Names heard in the last ten seconds.
    pub fn count_around(&self, now: Time) -> usize {
        self.engine.count_around(to_micros(now))
    }

    /// Bytes of the tables, whatever is in them: columns of bits, and a place for each slot.
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
