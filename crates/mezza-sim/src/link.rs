//! The links between hosts: delay, loss, repeats and order.

use crate::{Dice, Place, Time};
use std::collections::{BTreeMap, BTreeSet};

/// How one direction between two hosts behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// Least and greatest delay, ms.
    pub delay_ms: (u64, u64),
    /// Packets lost, of a thousand. Datagrams only.
    pub loss_permille: u32,
    /// Packets that arrive twice, of a thousand. Datagrams only.
    pub twice_permille: u32,
    /// Packets held back by up to `late_ms`, of a thousand, so that others overtake them.
    pub late_permille: u32,
    /// The longest time a packet is held back, ms.
    pub late_ms: u64,
    /// True: like TCP, packets arrive once and in order until the stream breaks, and a break is
    /// reported ([`Host::lost`](crate::Host::lost)).
    pub stream: bool,
}

impl Link {
    /// 5 to 50 ms, nothing lost, order by chance of the delay.
    pub const fn datagram() -> Self {
        Self {
            delay_ms: (5, 50),
            loss_permille: 0,
            twice_permille: 0,
            late_permille: 0,
            late_ms: 0,
            stream: false,
        }
    }

    /// 5 to 50 ms; 10 % lost, 5 % twice, 10 % up to ten seconds late.
    pub const fn lossy() -> Self {
        Self {
            loss_permille: 100,
            twice_permille: 50,
            late_permille: 100,
            late_ms: 10_000,
            ..Self::datagram()
        }
    }

    /// Like TCP: 5 to 50 ms, once and in order until the stream breaks.
    pub const fn stream() -> Self {
        Self { stream: true, ..Self::datagram() }
    }

    fn delay(&self, dice: &mut Dice) -> u64 {
        let held = if dice.chance(self.late_permille) { dice.between(0, self.late_ms) } else { 0 };
        dice.between(self.delay_ms.0, self.delay_ms.1) + held
    }
}

/// All links of a world and the streams over them.
#[derive(Debug)]
pub(crate) struct Links {
    default: Link,
    own: BTreeMap<(Place, Place), Link>,
    cut: BTreeSet<(Place, Place)>,
    /// Nothing of a stream arrives before what was sent earlier.
    floor: BTreeMap<(Place, Place), Time>,
    /// Streams in use.
    open: BTreeSet<(Place, Place)>,
    /// How often the streams of a pair broke: packets of an earlier count are gone.
    breaks: BTreeMap<(Place, Place), u64>,
}

/// Both directions of a pair share one entry.
fn pair(a: Place, b: Place) -> (Place, Place) {
    (a.min(b), a.max(b))
}

impl Links {
    pub(crate) fn new(default: Link) -> Self {
        Self {
            default,
            own: BTreeMap::new(),
            cut: BTreeSet::new(),
            floor: BTreeMap::new(),
            open: BTreeSet::new(),
            breaks: BTreeMap::new(),
        }
    }

    pub(crate) fn get(&self, from: Place, to: Place) -> Link {
        self.own.get(&(from, to)).copied().unwrap_or(self.default)
    }

    pub(crate) fn set(&mut self, from: Place, to: Place, link: Link) {
        self.own.insert((from, to), link);
    }

    /// Every link becomes its kind's well-behaved form, and no link is cut.
    pub(crate) fn calm(&mut self) {
        let calm = |link: &Link| if link.stream { Link::stream() } else { Link::datagram() };
        self.default = calm(&self.default);
        self.own.values_mut().for_each(|link| *link = calm(link));
        self.cut.clear();
    }

    pub(crate) fn is_cut(&self, a: Place, b: Place) -> bool {
        self.cut.contains(&pair(a, b))
    }

    pub(crate) fn cut(&mut self, a: Place, b: Place) {
        self.cut.insert(pair(a, b));
    }

    pub(crate) fn heal(&mut self, a: Place, b: Place) {
        self.cut.remove(&pair(a, b));
    }

    /// The arrivals of one packet put on a link at `now`: none, one or two.
    pub(crate) fn arrivals(
        &mut self,
        from: Place,
        to: Place,
        now: Time,
        dice: &mut Dice,
    ) -> Vec<Time> {
        let link = self.get(from, to);
        if link.stream {
            self.open.insert(pair(from, to));
            return vec![self.in_order(from, to, now, dice)];
        }
        if dice.chance(link.loss_permille) {
            return Vec::new();
        }
        let copies = if dice.chance(link.twice_permille) { 2 } else { 1 };
        (0..copies).map(|_| now.plus_ms(link.delay(dice))).collect()
    }

    /// When something sent on a stream now arrives: after all that was sent before.
    pub(crate) fn in_order(&mut self, from: Place, to: Place, now: Time, dice: &mut Dice) -> Time {
        let arrival = now.plus_ms(self.get(from, to).delay(dice));
        let floor = self.floor.entry((from, to)).or_default();
        *floor = arrival.max(*floor);
        *floor
    }

    /// How often the stream between the two broke so far.
    pub(crate) fn breaks(&self, a: Place, b: Place) -> u64 {
        self.breaks.get(&pair(a, b)).copied().unwrap_or(0)
    }

    /// Breaks the stream between the two; false if none was in use.
    pub(crate) fn break_stream(&mut self, a: Place, b: Place) -> bool {
        *self.breaks.entry(pair(a, b)).or_default() += 1;
        self.open.remove(&pair(a, b))
    }

    /// The peers `place` has a stream in use with.
    pub(crate) fn peers(&self, place: Place) -> Vec<Place> {
        let other = |&(a, b): &(Place, Place)| match place {
            p if p == a => Some(b),
            p if p == b => Some(a),
            _ => None,
        };
        self.open.iter().filter_map(other).collect()
    }
}
