//! Streams, on which the two larger classes of cells travel: opened when a neighbour has such
//! cells, closed when neither side has any.

use super::{LinkKind, LinkNumber, Name, Node, Output, Source};
use crate::frame::Beacon;
use crate::limits::{SECOND, STREAMS_MAX};

/// How long an unused stream stays open, and the pause before a stream is opened again.
const IDLE: u64 = 30 * SECOND;
const AGAIN: u64 = 10 * SECOND;
/// Maximum number of neighbours whose last dial is remembered.
const DIALLED_MAX: usize = 64;

impl Node {
    /// Handles a beacon on a cast link (broadcast or multicast). If either side has large cells,
    /// the side with the lower name opens a stream. A side that cannot accept streams always opens
    /// it: of two programs on one machine only one holds the port (MESH-79).
    pub(super) fn dial_neighbour(&mut self, name: Name, source: Source, beacon: Beacon, now: u64) {
        let opens = !self.settings.engine.streams || self.engine.name() < name;
        let has = beacon.large || self.engine.has_large();
        // Each neighbour gets one stream at most, and only if either side has cells that need one.
        if !beacon.streams || !has || !opens || self.is_on_a_stream(name) {
            return;
        }
        // A dial that failed is tried again after 10 s.
        self.dialled.retain(|_, at| *at + AGAIN > now);
        // The number of streams is bounded, since beacons of unknown senders cause them to be
        // opened (MESH-40).
        let full = self.count_streams() >= STREAMS_MAX || self.dialled.len() >= DIALLED_MAX;
        if !full && !self.dialled.contains_key(&name) {
            self.dialled.insert(name, now);
            self.outputs.push_back(Output::Dial { source });
        }
    }

    /// Sets whether beacons announce that streams are accepted.
    pub fn set_takes_streams(&mut self, takes: bool) {
        self.settings.engine.streams = takes;
        self.engine.set_takes_streams(takes);
    }

    /// Returns the number of open streams.
    pub fn count_streams(&self) -> usize {
        self.links.values().filter(|link| link.kind == LinkKind::Stream).count()
    }

    fn is_on_a_stream(&self, name: Name) -> bool {
        let mut streams = self.links.values().filter(|link| link.kind == LinkKind::Stream);
        let known = |id| self.engine.neighbour(id).is_some_and(|n| n.name == name);
        streams.any(|link| link.names.get(&name).is_some_and(|(id, _)| known(*id)))
    }

    /// Closes streams that neither side has used for a while.
    pub(super) fn close_idle_streams(&mut self, now: u64) {
        let Self { links, engine, outputs, .. } = self;
        for (number, link) in links.iter_mut().filter(|(_, link)| link.kind == LinkKind::Stream) {
            let neighbours = link.names.values().filter_map(|(id, _)| engine.neighbour(*id));
            let used = engine.has_large() || neighbours.into_iter().any(|n| n.beacon.large);
            // One side with large cells is enough to keep the stream.
            if used {
                link.idle_since = now;
            } else if link.idle_since + IDLE < now {
                link.idle_since = now;
                let link: LinkNumber = *number;
                outputs.push_back(Output::Close { link });
            }
        }
    }
}
