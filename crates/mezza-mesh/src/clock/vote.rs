//! One vote (docs/protocols/mesh.md, section 4.4).

use core::cmp::Reverse;

use rand_core::Rng;

use super::{AGREED_AFTER, ClockState, MeshClock};
use crate::chance::below;
use crate::limits::MS;

/// Clocks within this distance agree.
pub(super) const MARGIN: i64 = 500 * MS.cast_signed();
/// A difference that one or two neighbours are shown at.
const ALONE_BOUND: i64 = 15_000 * MS.cast_signed();
/// How far a clock that is in place drifts toward the median at most.
const DRIFT: i64 = 100;
/// Samples that a vote without a group looks at.
const DRAWN: usize = 5;
/// Votes that look for groups more often, after a run of holds ended.
const EAGER_VOTES: u32 = 30;

impl MeshClock {
    /// Hold, group or vote, among the samples within the bound of the grade.
    pub(super) fn vote_anchored(&mut self, around: usize, rng: &mut (impl Rng + ?Sized)) {
        let mut all = core::mem::take(&mut self.samples);
        self.look_elsewhere(&mut all, around);
        let bound = self.grade.bound();
        let (mut kept, anchor) = (0, self.anchor);
        for at in 0..all.len() {
            if (all[at].1 - anchor).abs() <= bound {
                all.swap(kept, at);
                kept += 1;
            }
        }
        let heard = all.len();
        let near = &mut all[..kept];
        if near.len() < 3 || heard < around - around / 8 {
            if around < 3 && self.state == ClockState::Seeking && self.holds == 0 {
                self.state = ClockState::Alone;
            }
            // Devices that agree send few beacons. One that seeks among them waits until it heard nearly
            // all of them, or a liar who sends many would weigh more.
            self.clamp();
            self.samples = all;
            return;
        }
        if !self.hold(near) {
            let often = if self.eager > 0 { 50 } else { 10 };
            self.eager = self.eager.saturating_sub(1);
            if self.state != ClockState::Doubtful {
                self.state = ClockState::Seeking;
            }
            let grouped = (below(rng, 100) < often).then(|| self.group(near)).flatten();
            self.offset = grouped.unwrap_or_else(|| self.draw_some(near, rng));
        }
        self.clamp();
        all.clear();
        self.samples = all;
    }

    /// Most neighbours agree with each other on a time that is out of reach.
    fn look_elsewhere(&mut self, all: &mut [(u32, i64)], around: usize) {
        if all.is_empty() || all.len() < around.min(3) {
            return;
        }
        all.sort_unstable_by_key(|(_, sample)| *sample);
        let median = median(all);
        let agree = all.iter().filter(|(_, sample)| (sample - median).abs() <= MARGIN).count();
        // Two laptops never vote: a difference of 15 s is shown to them too.
        let bound = if around < 3 { ALONE_BOUND } else { self.grade.bound() };
        self.elsewhere = None;
        if 2 * agree > all.len() && (median - self.anchor).abs() > bound {
            self.elsewhere = Some(median - self.anchor);
            self.state = ClockState::Doubtful;
        } else if self.state == ClockState::Doubtful {
            let agreed = self.holds >= AGREED_AFTER;
            self.state = if agreed { ClockState::Agreed } else { ClockState::Seeking };
        }
    }

    /// Step 2: seventy percent are where this clock is; it moves toward their median, slowly.
    fn hold(&mut self, near: &mut [(u32, i64)]) -> bool {
        let offset = self.offset;
        let here = |sample: i64| (sample - offset).abs() <= MARGIN;
        let count = near.iter().filter(|(_, sample)| here(*sample)).count();
        if 10 * count < 7 * near.len() {
            if self.holds >= AGREED_AFTER {
                self.eager = EAGER_VOTES;
            }
            self.holds = 0;
            return false;
        }
        near.sort_unstable_by_key(|(_, sample)| *sample);
        let first = near.iter().position(|(_, sample)| here(*sample)).unwrap_or(0);
        let middle = median(&near[first..first + count]);
        self.offset += (middle - offset).clamp(-DRIFT, DRIFT);
        self.holds = self.holds.saturating_add(1);
        if self.holds >= AGREED_AFTER && self.state != ClockState::Doubtful {
            self.state = ClockState::Agreed;
        } else if self.state == ClockState::Alone {
            self.state = ClockState::Seeking;
        }
        true
    }

    /// Step 3: of the groups of at least three, the one whose median is nearest to the own clock.
    pub(super) fn group(&self, near: &mut [(u32, i64)]) -> Option<i64> {
        near.sort_unstable_by_key(|(_, sample)| *sample);
        let (mut rest, mut best) = (&*near, None);
        while let Some((_, first)) = rest.first().copied() {
            let size = rest.iter().take_while(|(_, sample)| sample - first <= MARGIN).count();
            let (group, behind) = rest.split_at(size);
            if size >= 3 {
                let middle = median(group);
                let nearer = |held: &i64| (middle - self.anchor).abs() < (held - self.anchor).abs();
                if best.as_ref().is_none_or(nearer) {
                    best = Some(middle);
                }
            }
            rest = behind;
        }
        best
    }

    /// Step 4: a few at random; of those that agree, most count, and between as many the nearest to the own
    /// clock.
    pub(super) fn draw_some(&self, near: &mut [(u32, i64)], rng: &mut (impl Rng + ?Sized)) -> i64 {
        let some = draw(near, DRAWN, rng);
        let mut best = None;
        for at in 0..some.len() {
            let (_, first) = some[at];
            let size = some[at..].iter().take_while(|(_, s)| s - first <= MARGIN).count();
            let middle = median(&some[at..at + size]);
            let rank = (Reverse(size), (middle - self.anchor).abs());
            if best.is_none_or(|(held, _)| rank < held) {
                best = Some((rank, middle));
            }
        }
        best.map_or(self.offset, |(_, middle)| middle)
    }

    /// The vote of the paper: a random one of two that agree, else a random one of the three.
    pub(super) fn vote_paper(&mut self, rng: &mut (impl Rng + ?Sized)) {
        let mut all = core::mem::take(&mut self.samples);
        if all.len() < 3 {
            self.state = ClockState::Alone;
        } else {
            let drawn = draw(&mut all, 3, rng);
            let [a, b, c] = [drawn[0].1, drawn[1].1, drawn[2].1];
            let before = self.offset;
            self.offset = match (b - a <= MARGIN, c - b <= MARGIN) {
                (true, false) => [a, b][below(rng, 2)],
                (false, true) => [b, c][below(rng, 2)],
                _ => [a, b, c][below(rng, 3)],
            };
            let held = (self.offset - before).abs() <= MARGIN;
            self.holds = if held { self.holds.saturating_add(1) } else { 0 };
            let agreed = self.holds >= AGREED_AFTER;
            self.state = if agreed { ClockState::Agreed } else { ClockState::Seeking };
            all.clear();
        }
        self.samples = all;
    }
}

/// So many different samples at random, or all if there are fewer, in their order.
fn draw<'a>(
    samples: &'a mut [(u32, i64)],
    count: usize,
    rng: &mut (impl Rng + ?Sized),
) -> &'a [(u32, i64)] {
    let count = count.min(samples.len());
    for at in 0..count {
        samples.swap(at, at + below(rng, samples.len() - at));
    }
    let some = &mut samples[..count];
    some.sort_unstable_by_key(|(_, sample)| *sample);
    some
}

/// The median of sorted samples; of an even number the mean of the two in the middle.
fn median(sorted: &[(u32, i64)]) -> i64 {
    let half = sorted.len() / 2;
    if sorted.len() % 2 == 1 { sorted[half].1 } else { sorted[half - 1].1.midpoint(sorted[half].1) }
}
