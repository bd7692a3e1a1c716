//! The vote of mode `level` (docs/protocols/mesh.md, "Clock").
//!
//! A trimmed mean (resilient consensus, W-MSR): each clock moves toward the middle of what it
//! receives, without the quarter that is farthest above and the quarter that is farthest below.
//! Between two crowds with different times the clocks form a slope, so that the crowds converge.
//! One sample moves a clock by at most a limit, the *reach*. The reach shrinks with each vote, so
//! that a liar far away loses weight while honest clocks converge. A vote that finds the clock near
//! its neighbours' clocks ("in place") is a *hold*.

use super::{AGREED_AFTER, ClockSample, ClockState, MeshClock, median};
use crate::limits::{MS, SECOND as SECOND_US, SILENT};

const SECOND: i64 = 1_000 * MS.cast_signed();
/// A clock within this distance of the middle of its neighbours' clocks is in place, µs.
const MARGIN: i64 = 2 * SECOND;
/// Limit of a move in a hold, times h + 3 for the h-th hold in a row, µs. All holds together move a
/// clock by less than this times a logarithm. A hold is a vote that finds the clock in place.
const HELD: i64 = 3 * SECOND;
/// The smallest limit of a move in a hold, µs.
const DRIFT: i64 = 100;
/// Only samples farther from the clock than this may be trimmed as outliers.
const FAR: i64 = SECOND;
/// A mean within this distance does not move a clock that is in place, µs. Stamps have an offset of
/// up to 1/4 s under each name and are rounded to 1/8 s, so a crowd would drift by the mean of
/// these errors.
const STILL: i64 = 312_500;
/// Largest distance by which one sample moves a clock (the reach) when the clock begins to seek.
const REACH: i64 = 30 * SECOND;
/// The smallest reach, which is the largest distance by which one sample moves a clock.
const REACH_MIN: i64 = SECOND;
/// Number of votes after which the reach is half of [`REACH`]; after twice as many it is a third,
/// and so on.
const PATIENCE: i64 = 10;
/// Number of votes that count as already done when a clock that was agreed begins to seek again. It
/// then moves in smaller steps than a new clock.
const AGAIN: u32 = 30;
/// Number of votes without agreement after which a clock that was agreed once counts as being
/// between two crowds.
const STUCK: u32 = 60;
/// The reach (largest move by one sample) of a clock between two crowds. It must grow again, or a
/// group with good clocks and one without would never converge.
const REACH_BETWEEN: i64 = 20 * SECOND;
/// The bound at which the device's own clock weighs half of all samples, µs.
const OWN: i64 = 2_500 * MS.cast_signed();
/// A step is 7/5 of the mean, which makes clocks converge sooner and does not make them oscillate.
const STEP: [i64; 2] = [7, 5];
/// The smallest difference from the own clock that is reported if only one or two neighbours are
/// around.
const ALONE_BOUND: i64 = 15 * SECOND;
/// How long a vote waits for samples of nearly all neighbours.
const WAIT: u64 = 10 * SECOND_US;
/// How long a clock keeps the state agreed with fewer than three neighbours.
const FEW: u64 = 30 * SECOND_US;
/// How long a time that contradicts the own clock is remembered if no neighbour repeats it.
const DOUBT: u64 = 60 * SECOND_US;

impl MeshClock {
    /// Updates the state for the neighbours present now, independently of the time of the last
    /// vote.
    pub(super) fn observe_level(&mut self, around: usize, now: u64) {
        // A sample is at most 10 s old: older ones come from a neighbour that left or drifted.
        self.samples.retain(|sample| sample.at + SILENT >= now);
        if around >= 3 {
            self.few_since = None;
        } else if *self.few_since.get_or_insert(now) + FEW <= now {
            // A short loss of neighbours does not end an agreement, but 30 s do: without neighbours
            // nothing can contradict the clock (MESH-57).
            self.holds = 0;
            if self.state != ClockState::Doubtful {
                self.state = ClockState::Alone;
            }
        }
        // A contradicting time that no neighbour repeats is forgotten after 60 s (MESH-57).
        if self.elsewhere.is_some_and(|doubt| doubt.at + DOUBT < now) {
            self.elsewhere = None;
        }
        if self.elsewhere.is_none() && self.state == ClockState::Doubtful {
            self.state = self.state_without_doubt(around);
        }
    }

    fn state_without_doubt(&self, around: usize) -> ClockState {
        match around {
            0..3 => ClockState::Alone,
            _ if self.holds >= AGREED_AFTER => ClockState::Agreed,
            _ => ClockState::Seeking,
        }
    }

    /// Votes once, using only samples within the bound of the own clock.
    pub(super) fn vote_level(&mut self, around: usize, now: u64) {
        let mut all = core::mem::take(&mut self.samples);
        all.sort_unstable_by_key(|sample| sample.offset);
        self.look_elsewhere(&all, around, now);
        if self.has_to_wait(&all, around, now) {
            self.clamp_offset();
            self.samples = all;
            return;
        }
        let bound = self.bound_us();
        // Samples outside of the bound W are left out: they are wrong if the error of the device's
        // own clock is within the bound (MESH-20).
        let near: alloc::vec::Vec<i64> = all
            .iter()
            .map(|sample| sample.offset)
            .filter(|offset| (offset - self.anchor()).abs() <= bound)
            .collect();
        self.move_among(&near);
        self.clamp_offset();
        all.clear();
        self.samples = all;
    }

    /// Returns true if the vote must wait. Agreed devices send few beacons, so a seeking device
    /// among them waits until it has a sample of nearly all; else a liar who sends many would weigh
    /// more. The wait is limited, or one neighbour without stamps would stop all votes (MESH-58).
    fn has_to_wait(&mut self, all: &[ClockSample], around: usize, now: u64) -> bool {
        let is_near =
            |sample: &&ClockSample| (sample.offset - self.anchor()).abs() <= self.bound_us();
        // Fewer than three samples move no clock: two liars could move it otherwise (MESH-22).
        if all.iter().filter(is_near).count() < 3 {
            return true;
        }
        // 7/8 of the names: a few silent neighbours must not delay each vote to its limit.
        let few = all.len() < around - around / 8;
        let waits = few && *self.waits_since.get_or_insert(now) + WAIT > now;
        if !waits {
            self.waits_since = None;
        }
        waits
    }

    /// Checks whether most neighbours agree with each other on a time outside of the bound of the
    /// own clock.
    fn look_elsewhere(&mut self, sorted: &[ClockSample], around: usize, now: u64) {
        // A single neighbour proves nothing about the others, unless only one or two are around.
        if sorted.is_empty() || sorted.len() < around.min(3) {
            return;
        }
        let offsets: alloc::vec::Vec<i64> = sorted.iter().map(|sample| sample.offset).collect();
        let middle = median(&offsets);
        self.heard = Some(super::HeardTime { offset: middle, at: now });
        let agree = offsets.iter().filter(|offset| (*offset - middle).abs() <= MARGIN).count();
        // With only one or two neighbours there is no vote, so a difference of 15 s is already
        // reported to the user.
        let bound = if around < 3 { ALONE_BOUND } else { self.bound_us() };
        let differs = middle - self.anchor();
        // A majority agrees on a time outside of the bound: either that majority is wrong or this
        // device is. The user decides (MESH-26).
        if 2 * agree > offsets.len() && differs.abs() > bound {
            // The difference is as old as its newest sample.
            let at = sorted.iter().map(|sample| sample.at).max().unwrap_or(now);
            self.elsewhere = Some(super::Doubt { differs, at });
            self.state = ClockState::Doubtful;
        } else {
            self.elsewhere = None;
            if self.state == ClockState::Doubtful {
                self.state = self.state_without_doubt(around);
            }
        }
    }

    /// Moves the clock. It holds if it is in place, jumps if all neighbours agree, and otherwise
    /// seeks in limited steps. `near` is sorted and has at least three offsets.
    fn move_among(&mut self, near: &[i64]) {
        let here = |at: i64| near.iter().filter(|offset| (*offset - at).abs() <= MARGIN).count();
        let are_most = |count: usize| 10 * count >= 7 * near.len();
        let own = self.offset;
        let middle = median(near);
        if are_most(here(own)) {
            self.count_hold();
            let most = (HELD / i64::from(self.holds.saturating_add(3))).max(DRIFT);
            let first = near.partition_point(|offset| *offset < own - MARGIN);
            let step = self.mean_step(&near[first..first + here(own)], MARGIN, 0);
            let beyond = step - step.clamp(-STILL, STILL);
            // The limit shrinks with the number of holds, so that liars move an agreed clock by a
            // logarithm only (MESH-55).
            self.offset += lengthen_step(beyond).clamp(-most, most);
        } else if are_most(here(middle)) {
            // All neighbours agree with each other already: a clock that joins them adopts their
            // time at once.
            self.count_search();
            // If 70 % agree on the median, liars who are a tenth of all cannot move it.
            self.offset = middle;
        } else {
            self.count_search();
            let stands_between = self.was_agreed && self.sought > STUCK;
            // Between two crowds a small reach (limit for one sample) would keep a clock in the
            // middle permanently.
            let least = if stands_between { REACH_BETWEEN } else { REACH_MIN };
            let reach = REACH * PATIENCE / (PATIENCE + i64::from(self.sought));
            // The weight of the device's own clock depends on its grade, so holds leave it out.
            // Otherwise the stamps of an agreed crowd would show the grades of its clocks
            // (MESH-21).
            let weight = 1_000 * OWN / (OWN + self.bound_us());
            self.offset +=
                lengthen_step(self.mean_step(trim_quarters(near, own), reach.max(least), weight));
        }
    }

    /// Returns how far samples, each limited to `reach`, move the clock. The device's own clock
    /// counts for `weight` thousandths of their number.
    fn mean_step(&self, samples: &[i64], reach: i64, weight: i64) -> i64 {
        let toward = |offset: i64| (offset - self.offset).clamp(-reach, reach);
        let thousandths = 1_000 * i64::try_from(samples.len()).unwrap_or(0);
        let weight = thousandths / 1_000 * weight;
        let sum: i64 = samples.iter().map(|offset| toward(*offset)).sum();
        // The device's own clock counts as n * 2.5 / (2.5 + W) samples (section Clock, Seek).
        (1_000 * sum + weight * toward(self.anchor())) / (thousandths + weight).max(1)
    }

    /// Counts a vote that found the clock near its neighbours' clocks (a hold).
    fn count_hold(&mut self) {
        self.holds = self.holds.saturating_add(1);
        if self.state != ClockState::Doubtful {
            let agreed = self.holds >= AGREED_AFTER;
            self.state = if agreed { ClockState::Agreed } else { ClockState::Seeking };
        }
    }

    /// Counts a vote that found the clock away from its neighbours' clocks.
    fn count_search(&mut self) {
        self.sought = self.sought.saturating_add(1);
        if self.holds >= AGREED_AFTER {
            // A clock that was agreed starts with a smaller reach, or one bad vote would scatter
            // the crowd.
            (self.sought, self.was_agreed) = (AGAIN, true);
        }
        self.holds = 0;
        if self.state != ClockState::Doubtful {
            self.state = ClockState::Seeking;
        }
    }
}

fn lengthen_step(step: i64) -> i64 {
    let [above, below] = STEP;
    step * above / below
}

/// Returns sorted offsets without the quarter that is farthest above `own` and the quarter farthest
/// below.
fn trim_quarters(near: &[i64], own: i64) -> &[i64] {
    // A quarter on each side: up to that share of liars is without effect (resilient consensus).
    let quarter = (near.len() + 2) / 4;
    let low = near.iter().take(quarter).filter(|offset| own - **offset > FAR).count();
    let high = near.iter().rev().take(quarter).filter(|offset| **offset - own > FAR).count();
    &near[low..near.len() - high]
}
