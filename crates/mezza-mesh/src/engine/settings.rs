//! Settings and counters of an engine.

use crate::limits::{ASK, BEACON, GATHER, HAVE, HOLD, REPEAT, SYNC_DIFFERS};

/// Settings of an engine; the defaults are those of the specification.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of its own")]
pub struct EngineSettings {
    /// Time between beacons, µs.
    pub beacon: u64,
    /// Minimum time between announcements, µs.
    pub have: u64,
    /// Maximum wait before a request, µs.
    pub ask: u64,
    /// How long requests are gathered, µs.
    pub gather: u64,
    /// How long another device's request delays our own, µs.
    pub hold: u64,
    /// Minimum time between two transmissions of a cell on a link, µs.
    pub repeat: u64,
    /// Minimum time between comparisons with a neighbour whose sum differs, µs.
    pub sync: u64,
    /// True if each neighbour has a budget of new cells, and one of cells sent for its SYNCs.
    pub budgets: bool,
    /// Maximum number of cells sent in one burst, which a receiver can process as a whole.
    pub burst: u32,
    /// True if the device votes on the time.
    pub votes: bool,
    /// True if its beacons announce that streams are accepted.
    pub streams: bool,
    /// True if a neighbour must receive a beacon before other frames, as required if names are
    /// bound to addresses.
    pub introduces: bool,
}

impl EngineSettings {
    /// Returns settings without waits and budgets, to find the best possible reach and delay of
    /// cells.
    pub fn without_waits() -> Self {
        Self {
            have: 0,
            ask: 0,
            gather: 0,
            hold: 0,
            repeat: 0,
            sync: 0,
            budgets: false,
            ..Self::default()
        }
    }
}

impl Default for EngineSettings {
    fn default() -> Self {
        Self {
            beacon: BEACON,
            have: HAVE,
            ask: ASK,
            gather: GATHER,
            hold: HOLD,
            repeat: REPEAT,
            sync: SYNC_DIFFERS,
            budgets: true,
            burst: 1,
            votes: true,
            streams: false,
            introduces: false,
        }
    }
}

/// Counters of an engine. No decision depends on them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EngineCounts {
    /// New cells taken from neighbours.
    pub taken: u64,
    /// Cells that arrived without a request.
    pub unsolicited: u64,
    /// Cells refused because their tick was stale or ahead of the clock.
    pub refused: u64,
    /// Cells sent.
    pub given: u64,
    /// Requests that got no response in time.
    pub failed: u64,
}
