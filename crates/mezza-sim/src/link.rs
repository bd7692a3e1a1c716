//! The links between hosts: delay, loss, repeats and order.

use crate::{HostId, SimRng, Time};
use std::collections::{BTreeMap, BTreeSet};

/// The behaviour of one direction between two hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkModel {
    /// Minimum and maximum delay, ms.
    pub delay_ms: (u64, u64),
    /// Packets lost, per thousand. Datagrams only.
    pub loss_permille: u32,
    /// Packets that arrive twice, per thousand. Datagrams only.
    pub duplicate_permille: u32,
    /// Packets delayed by up to `late_ms`, per thousand, so that others overtake them.
    pub late_permille: u32,
    /// Maximum additional delay of a packet, ms.
    pub late_ms: u64,
    /// True: like TCP, packets arrive once and in order until the stream breaks, and a break is
    /// reported ([`Host::stream_lost`](crate::Host::stream_lost)).
    pub stream: bool,
}

impl LinkModel {
    /// Makes a datagram link: 5 to 50 ms, no loss, random order.
    pub const fn datagram() -> Self {
        Self {
            delay_ms: (5, 50),
            loss_permille: 0,
            duplicate_permille: 0,
            late_permille: 0,
            late_ms: 0,
            stream: false,
        }
    }

    /// Makes a faulty datagram link: 5 to 50 ms; 10 % lost, 5 % twice, 10 % up to ten seconds late.
    pub const fn lossy() -> Self {
        Self {
            loss_permille: 100,
            duplicate_permille: 50,
            late_permille: 100,
            late_ms: 10_000,
            ..Self::datagram()
        }
    }

    /// Makes a stream link like TCP: 5 to 50 ms, once and in order until the stream breaks.
    pub const fn stream() -> Self {
        Self { stream: true, ..Self::datagram() }
    }

    fn draw_delay(&self, dice: &mut SimRng) -> u64 {
        let held = if dice.chance(self.late_permille) { dice.between(0, self.late_ms) } else { 0 };
        dice.between(self.delay_ms.0, self.delay_ms.1) + held
    }
}

/// All links of a world and the streams over them.
#[derive(Debug)]
pub(crate) struct Links {
    default: LinkModel,
    own: BTreeMap<(HostId, HostId), LinkModel>,
    cut: BTreeSet<(HostId, HostId)>,
    /// The earliest next arrival of a stream, so that packets arrive in order.
    floor: BTreeMap<(HostId, HostId), Time>,
    /// Streams in use.
    open: BTreeSet<(HostId, HostId)>,
    /// How often the streams of a pair broke: packets of an earlier count are lost.
    breaks: BTreeMap<(HostId, HostId), u64>,
}

/// Orders a pair, so that both directions share one entry.
fn order_pair(a: HostId, b: HostId) -> (HostId, HostId) {
    (a.min(b), a.max(b))
}

impl Links {
    pub(crate) fn new(default: LinkModel) -> Self {
        Self {
            default,
            own: BTreeMap::new(),
            cut: BTreeSet::new(),
            floor: BTreeMap::new(),
            open: BTreeSet::new(),
            breaks: BTreeMap::new(),
        }
    }

    pub(crate) fn get(&self, from: HostId, to: HostId) -> LinkModel {
        self.own.get(&(from, to)).copied().unwrap_or(self.default)
    }

    pub(crate) fn set_link(&mut self, from: HostId, to: HostId, link: LinkModel) {
        self.own.insert((from, to), link);
    }

    /// Resets every link to the fault-free form of its kind, and restores cut links.
    pub(crate) fn stop_faults(&mut self) {
        let calm = |link: &LinkModel| {
            if link.stream { LinkModel::stream() } else { LinkModel::datagram() }
        };
        self.default = calm(&self.default);
        self.own.values_mut().for_each(|link| *link = calm(link));
        self.cut.clear();
    }

    pub(crate) fn is_cut(&self, a: HostId, b: HostId) -> bool {
        self.cut.contains(&order_pair(a, b))
    }

    pub(crate) fn cut_link(&mut self, a: HostId, b: HostId) {
        self.cut.insert(order_pair(a, b));
    }

    pub(crate) fn heal_link(&mut self, a: HostId, b: HostId) {
        self.cut.remove(&order_pair(a, b));
    }

    /// Draws the arrivals of a packet sent at `now`: none, one or two.
    pub(crate) fn draw_arrivals(
        &mut self,
        from: HostId,
        to: HostId,
        now: Time,
        dice: &mut SimRng,
    ) -> Vec<Time> {
        let link = self.get(from, to);
        if link.stream {
            self.open.insert(order_pair(from, to));
            return vec![self.in_order(from, to, now, dice)];
        }
        if dice.chance(link.loss_permille) {
            return Vec::new();
        }
        let copies = if dice.chance(link.duplicate_permille) { 2 } else { 1 };
        (0..copies).map(|_| now.plus_ms(link.draw_delay(dice))).collect()
    }

    /// Draws the arrival of a packet on a stream: after all packets sent before.
    pub(crate) fn in_order(
        &mut self,
        from: HostId,
        to: HostId,
        now: Time,
        dice: &mut SimRng,
    ) -> Time {
        let arrival = now.plus_ms(self.get(from, to).draw_delay(dice));
        let floor = self.floor.entry((from, to)).or_default();
        *floor = arrival.max(*floor);
        *floor
    }

    /// Returns how often the stream between two hosts broke so far.
    pub(crate) fn break_count(&self, a: HostId, b: HostId) -> u64 {
        self.breaks.get(&order_pair(a, b)).copied().unwrap_or(0)
    }

    /// Breaks the stream between two hosts. Returns false if none was in use.
    pub(crate) fn break_stream(&mut self, a: HostId, b: HostId) -> bool {
        *self.breaks.entry(order_pair(a, b)).or_default() += 1;
        self.open.remove(&order_pair(a, b))
    }

    /// Returns the peers to which `place` has a stream in use.
    pub(crate) fn stream_peers(&self, place: HostId) -> Vec<HostId> {
        let other = |&(a, b): &(HostId, HostId)| match place {
            p if p == a => Some(b),
            p if p == b => Some(a),
            _ => None,
        };
        self.open.iter().filter_map(other).collect()
    }
}
