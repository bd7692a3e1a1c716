//! Votes of other mesh projects, written from their public descriptions, only for comparison in a
//! crowd.
//!
//! All three come from discussions of `MeshCore`, whose repeaters without a clock start in May 2024.
//! There a sample is an advert that was flooded over many hops; here it is the beacon of a
//! neighbour.

use alloc::vec::Vec;

use super::{AGREED_AFTER, ClockMode, ClockState, MeshClock, median};
use crate::limits::{MS, SECOND as SECOND_US};

const SECOND: i64 = 1_000 * MS.cast_signed();
/// Samples that the median needs (pull request 1443).
const WANTED: usize = 21;
/// Number of samples that must remain once outliers are removed.
const LEFT: usize = 15;
/// A sample is an outlier beyond this number of median deviations.
const DEVIATIONS: i64 = 3;
/// A clock whose error is less than this is not changed.
const RIGHT_ENOUGH: i64 = 120 * SECOND;
/// Once the clock was set, a sample farther away is refused.
const STRICT: i64 = 86_400 * SECOND;
/// How long a clock that was accurate enough ignores all beacons, µs.
const PAUSE: u64 = 86_400 * SECOND_US;
/// The plausible times, in µs since 1970: from 2025-01-01 to 2036-01-01, UTC (pull request 2423).
const PLAUSIBLE: core::ops::Range<u64> = 1_735_689_600_000_000..2_082_758_400_000_000;
/// Samples of different peers within this distance agree (pull request 23 of a fork).
const CLUSTER: i64 = 60 * SECOND;
/// Number of peers that must agree.
const QUORUM: usize = 3;

/// The state of a vote of another mesh project.
#[derive(Clone, Debug, Default)]
pub(super) struct RivalState {
    /// The newest beacons, possibly several of one neighbour.
    recent: Vec<i64>,
    /// True if a vote has set the clock.
    is_set: bool,
    /// Time before which no vote takes place, µs.
    paused_until: u64,
}

impl MeshClock {
    /// Stores a beacon, for the mode that counts beacons and not neighbours.
    pub(super) fn hear_beacon(&mut self, offset: i64) {
        // Other modes count names and not beacons, so nothing is stored for them.
        if self.mode != ClockMode::OutlierMedian {
            return;
        }
        let is_far = (offset - self.offset).abs() > STRICT;
        // Once the clock was set, a sample that differs by more than a day is taken for an error of
        // the sender.
        if self.rival.recent.len() < WANTED && !(self.rival.is_set && is_far) {
            self.rival.recent.push(offset);
        }
    }

    /// Runs one vote of a mode of this file.
    pub(super) fn vote_rival(&mut self, now: u64) {
        let found = match self.mode {
            ClockMode::OutlierMedian => self.median_without_outliers(now),
            ClockMode::FirstPlausible => self.first_plausible(now),
            ClockMode::PeerQuorum => self.find_quorum(),
            ClockMode::Level | ClockMode::Paper => None,
        };
        if let Some(offset) = found {
            self.offset = offset;
            self.rival.is_set = true;
        }
        let is_settled = self.rival.is_set || self.rival.paused_until > now;
        self.holds = if is_settled { AGREED_AFTER } else { 0 };
        self.state = if is_settled { ClockState::Agreed } else { ClockState::Seeking };
    }

    /// Returns the median of 21 beacons without those beyond three median deviations, if the clock
    /// differs by two minutes.
    fn median_without_outliers(&mut self, now: u64) -> Option<i64> {
        if self.rival.recent.len() < WANTED || now < self.rival.paused_until {
            return None;
        }
        let mut samples = core::mem::take(&mut self.rival.recent);
        samples.sort_unstable();
        let middle = median(&samples);
        let mut deviations: Vec<i64> = samples.iter().map(|at| (at - middle).abs()).collect();
        deviations.sort_unstable();
        let most = DEVIATIONS * median(&deviations);
        samples.retain(|at| (at - middle).abs() <= most);
        // Too many samples were outliers, so the remaining ones do not set the clock.
        if samples.len() < LEFT {
            return None;
        }
        let middle = median(&samples);
        if (middle - self.offset).abs() > RIGHT_ENOUGH {
            return Some(middle);
        }
        self.rival.paused_until = now + PAUSE;
        None
    }

    /// Returns the first plausible received time while the device's own clock is not plausible.
    fn first_plausible(&mut self, now: u64) -> Option<i64> {
        let is_plausible = |offset: i64| PLAUSIBLE.contains(&now.saturating_add_signed(offset));
        if is_plausible(self.offset) {
            self.rival.is_set = true;
            return None;
        }
        let candidates = self.samples.iter().filter(|sample| is_plausible(sample.offset));
        candidates.min_by_key(|sample| sample.at).map(|sample| sample.offset)
    }

    /// Returns the middle of the largest group of peers that agree within a minute, once.
    fn find_quorum(&self) -> Option<i64> {
        // The vote of these meshes sets a clock once and never again.
        if self.rival.is_set {
            return None;
        }
        let mut offsets: Vec<i64> = self.samples.iter().map(|sample| sample.offset).collect();
        offsets.sort_unstable();
        let group = |first: usize| {
            let end = offsets.partition_point(|offset| offset - offsets[first] <= CLUSTER);
            &offsets[first..end]
        };
        let largest = (0..offsets.len()).map(group).max_by_key(|group| group.len())?;
        (largest.len() >= QUORUM).then(|| median(largest))
    }
}
