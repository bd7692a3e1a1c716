//! Network time: the time of a device's own clock, and how far its neighbours may move it.
//!
//! ```text
//! alone ──3 neighbours──> seeking ──10 holds in a row──> agreed
//!                            │                              │
//!                            └── most neighbours outside W ─┴──> doubtful (a person decides)
//! ```

mod level;
mod paper;
mod rivals;

use alloc::vec::Vec;
use rand_core::Rng;

use crate::frame::Name;
use crate::limits::{MS, SECOND, SILENT, TICK_MS};

/// The accuracy of the device's own clock. It never leaves the device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Grade {
    /// No plausible time: the device neither votes nor receives.
    None,
    /// Some plausible time.
    #[default]
    Poor,
    /// Accurate to 150 s: confirmed by the user, or set by a network some weeks ago.
    Fair,
    /// Accurate to 15 s: set by a network within a day.
    Good,
}

impl Grade {
    /// Returns how far neighbours may move the clock from the device's own, µs.
    pub fn bound_us(self) -> i64 {
        let ms = match self {
            Self::Good => 2_500,
            Self::Fair => 150_000,
            Self::Poor | Self::None => 600_000,
        };
        ms * MS.cast_signed()
    }

    /// Returns the grade of a clock with this maximum error in µs: up to half a tick is good.
    pub fn of_bound(bound: i64) -> Self {
        match bound {
            ..=15_000_000 => Self::Good,
            15_000_001..=150_000_000 => Self::Fair,
            _ => Self::Poor,
        }
    }

    /// Returns how many ticks the clock may be ahead when a device starts.
    pub fn uncertainty_ticks(self) -> u32 {
        match self {
            Self::Good => 1,
            Self::Fair => 5,
            Self::Poor | Self::None => 20,
        }
    }

    /// Returns the word of the grade.
    pub fn word(self) -> &'static str {
        ["none", "poor", "fair", "good"][self as usize]
    }
}

/// The rule by which a clock votes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClockMode {
    /// Moves toward the middle of the received times, within the bound of the device's own clock.
    #[default]
    Level,
    /// Adopts the majority of three samples without a bound, as FoSAM does; for reproduction only.
    Paper,
    /// The median of many beacons without outliers; for comparison with other projects only, like
    /// the next two modes.
    OutlierMedian,
    /// The first plausible time that is received, if the own clock is not plausible.
    FirstPlausible,
    /// Adopts the time on which a quorum of different peers agrees, once.
    PeerQuorum,
}

/// The state of a device's clock relative to its neighbours'.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClockState {
    /// Fewer than three neighbours.
    Alone,
    /// Neighbours are received and do not agree yet.
    Seeking,
    /// Ten votes in a row found the clock where most neighbours have theirs.
    Agreed,
    /// Most neighbours agree with each other on a time that is farther from the own clock than its
    /// bound.
    Doubtful,
}

impl ClockState {
    /// Returns the word of the state.
    pub fn word(self) -> &'static str {
        ["alone", "seeking", "agreed", "doubtful"][self as usize]
    }
}

/// Number of votes in a row that must find the clock in place, near its neighbours' clocks, before
/// it counts as agreed.
const AGREED_AFTER: u32 = 10;
/// The unit of a stamp, which is the time in a beacon: 1/8 s.
const STAMP: i64 = 125 * MS.cast_signed();
/// The highest accepted stamp (time in a beacon): the year 6500.
const STAMP_MAX: u64 = 1 << 40;
/// Largest random offset that is added to all stamps under one name, µs. It hides the error of a
/// clock, which would link two names.
const VEIL_MAX: i64 = 250 * MS.cast_signed();
/// How long the neighbours' time is remembered, for the first beacons of a new name, µs.
const HEARD: u64 = 120 * SECOND;
/// Maximum number of samples in one vote.
const SAMPLES_MAX: usize = 512;

/// One neighbour's clock: its stamp, as an offset from the monotonic clock of this device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ClockSample {
    name: Name,
    offset: i64,
    /// Monotonic time of arrival, µs.
    at: u64,
}

/// A time that most neighbours show although it is outside of the bound of the device's own clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Doubt {
    /// The distance of that time from the device's own clock, µs.
    differs: i64,
    /// Time of the newest sample that supports it.
    at: u64,
}

/// The median of the neighbours' clocks, as an offset from the monotonic clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct HeardTime {
    offset: i64,
    at: u64,
}

/// The clock of one device. Times are microseconds; offsets are added to the device's monotonic time.
#[derive(Clone, Debug)]
pub struct MeshClock {
    mode: ClockMode,
    grade: Grade,
    /// How far neighbours may move the clock from the device's own, µs.
    within: i64,
    /// The device's own real-time clock minus its monotonic clock, at the last reading, µs.
    rtc: i64,
    /// The correction of our clock by a user who decided that the neighbours are right.
    trusted: Option<i64>,
    /// Network time minus the monotonic clock, µs.
    offset: i64,
    /// The random offset of the stamps under this name, µs. Without it the clock's error would link
    /// two names.
    veil: i64,
    /// Number of holds in a row. A hold is a vote that found the clock in place, near its
    /// neighbours' clocks.
    holds: u32,
    /// Number of votes since the clock began to seek.
    sought: u32,
    /// True if the clock was agreed once: an earlier run of at least ten holds has ended.
    was_agreed: bool,
    state: ClockState,
    /// The time since which fewer than three neighbours are around, and the time since which a vote
    /// waits for samples.
    few_since: Option<u64>,
    waits_since: Option<u64>,
    /// Samples (times from beacons) since the last vote, one for each name.
    samples: Vec<ClockSample>,
    elsewhere: Option<Doubt>,
    /// The median of the neighbours' clocks at the last vote.
    heard: Option<HeardTime>,
    rival: rivals::RivalState,
}

impl MeshClock {
    /// Makes a clock that shows the device's own time: `rtc` µs more than the monotonic clock.
    pub fn new(mode: ClockMode, grade: Grade, rtc: i64) -> Self {
        Self {
            mode,
            grade,
            within: grade.bound_us(),
            rtc,
            trusted: None,
            offset: rtc,
            veil: 0,
            holds: 0,
            sought: 0,
            was_agreed: false,
            state: ClockState::Alone,
            few_since: None,
            waits_since: None,
            samples: Vec::new(),
            elsewhere: None,
            heard: None,
            rival: rivals::RivalState::default(),
        }
    }

    /// Returns the device's own clock minus the monotonic clock, µs, including a correction that
    /// the user confirmed.
    fn anchor(&self) -> i64 {
        // A decision of the user shifts the anchor, so the bound is measured from there (MESH-56).
        self.rtc + self.trusted.unwrap_or(0)
    }

    /// Returns how far neighbours may move the clock from the device's own, µs.
    pub fn bound_us(&self) -> i64 {
        // The user chose the neighbours' time, which no trusted source confirms, so the widest
        // bound applies.
        if self.trusted.is_some() { Grade::Poor.bound_us() } else { self.within }
    }

    /// Returns the correction of our clock by a user who decided that the neighbours are right, µs.
    pub fn trusted_correction(&self) -> Option<i64> {
        self.trusted
    }

    /// Returns network time, µs since 1970.
    pub fn mesh_time(&self, now: u64) -> u64 {
        // Saturating: a neighbour's time before 1970 must not wrap to a far future.
        now.saturating_add_signed(self.offset)
    }

    /// Returns the tick of network time.
    #[inline]
    pub fn tick_at(&self, now: u64) -> u32 {
        u32::try_from(self.mesh_time(now) / (TICK_MS * MS)).unwrap_or(u32::MAX)
    }

    /// Returns the monotonic time at which the next tick begins.
    pub fn next_tick(&self, now: u64) -> u64 {
        let length = TICK_MS * MS;
        now + (length - self.mesh_time(now) % length)
    }

    /// Returns the tick of the device's own clock.
    pub fn anchor_tick(&self, now: u64) -> u32 {
        let own = now.saturating_add_signed(self.anchor());
        u32::try_from(own / (TICK_MS * MS)).unwrap_or(u32::MAX)
    }

    /// Returns network time minus the device's own, µs.
    pub fn moved_by(&self) -> i64 {
        self.offset - self.anchor()
    }

    /// Returns network time minus the monotonic clock, µs.
    pub fn offset(&self) -> i64 {
        self.offset
    }

    /// Returns the grade of the device's own clock.
    pub fn grade(&self) -> Grade {
        // The user chose the neighbours' time, so the clock is no more accurate than a poor one.
        if self.trusted.is_some() { Grade::Poor } else { self.grade }
    }

    /// Returns how the clock votes.
    pub fn mode(&self) -> ClockMode {
        self.mode
    }

    /// Returns the state of the clock.
    pub fn state(&self) -> ClockState {
        self.state
    }

    /// Returns the distance of the neighbours' clocks from the device's own, µs, while they agree
    /// with each other and contradict the device's.
    pub fn neighbour_difference(&self) -> Option<i64> {
        self.elsewhere.map(|doubt| doubt.differs)
    }

    /// Handles a reading of the device's own clock: `rtc` µs more than the monotonic one.
    pub fn read_own(&mut self, rtc: i64, grade: Grade) {
        self.read_within(rtc, grade, grade.bound_us());
    }

    /// Handles a reading of the device's own clock with a known maximum error, µs.
    pub fn read_bounded(&mut self, rtc: i64, bound: i64) {
        // A time source may claim less error than the smallest bound. No clock is treated as better
        // than 2.5 s.
        let bound = bound.clamp(Grade::Good.bound_us(), Grade::Poor.bound_us());
        self.read_within(rtc, Grade::of_bound(bound), bound);
    }

    fn read_within(&mut self, rtc: i64, grade: Grade, within: i64) {
        if self.grade == Grade::None {
            // This is the first plausible reading, so network time starts from it.
            self.offset = rtc;
        } else if (rtc - self.rtc).unsigned_abs() > SECOND {
            // The system's clock was stepped. The user's decision was about the old clock, and an
            // agreement no longer holds: network time moves only with the bound (MESH-24).
            (self.trusted, self.holds) = (None, 0);
            if self.state == ClockState::Agreed {
                self.state = ClockState::Seeking;
            }
        }
        (self.rtc, self.grade, self.within) = (rtc, grade, within);
        // Clamp at each reading, because a step of the own clock moves the allowed range (MESH-20).
        self.clamp_offset();
    }

    /// Adopts the neighbours' time because the user decided so; the decision lasts until the
    /// device's own clock is stepped. Returns false if no neighbour showed a different time in the
    /// last ten seconds.
    pub fn trust_neighbours(&mut self, now: u64) -> bool {
        // A reported difference can be confirmed for 10 s only, so that the user confirms the time
        // that was shown (MESH-57).
        let Some(doubt) = self.elsewhere.filter(|doubt| doubt.at + SILENT >= now) else {
            return false;
        };
        self.elsewhere = None;
        self.trust_correction(self.trusted.unwrap_or(0) + doubt.differs);
        true
    }

    /// Restores a decision of the user from the same system start: the device's own clock gets this
    /// correction, µs.
    pub fn trust_correction(&mut self, correction: i64) {
        self.trusted = Some(correction);
        self.offset = self.anchor();
        // The clock jumped, so the counted times at which it agreed say nothing about the new time.
        (self.holds, self.state) = (0, ClockState::Seeking);
    }

    /// Sets the offset to that of a clock which agreed with another crowd, µs; it is kept within
    /// the bound. Used for simulated devices that move from one crowd to another.
    pub(crate) fn set_offset(&mut self, offset: i64) {
        self.offset = offset;
        self.clamp_offset();
    }

    /// Returns the stamp of a beacon sent now, in eighths of a second.
    pub fn make_stamp(&self, now: u64) -> u64 {
        (self.mesh_time(now).saturating_add_signed(self.veil) / STAMP.unsigned_abs())
            & 0xffff_ffff_ffff
    }

    /// Returns the stamp of a beacon under a new name: the median time of the neighbours, because
    /// the own clock's error of some seconds would link the new name to the old one. If no
    /// neighbour was received, an ordinary stamp is returned.
    pub fn stamp_among(&self, now: u64) -> u64 {
        let heard = self.heard.filter(|heard| heard.at + HEARD >= now);
        let offset = heard.map_or(self.offset, |heard| heard.offset);
        // Under a new name the device's own offset would link it to the old name (MESH-30).
        let shown = now.saturating_add_signed(offset).saturating_add_signed(self.veil);
        (shown / STAMP.unsigned_abs()) & 0xffff_ffff_ffff
    }

    /// Sets the random offset of stamps for a new name, at most a quarter of a second in either
    /// direction.
    pub fn set_veil(&mut self, veil: i64) {
        self.veil = veil.clamp(-VEIL_MAX, VEIL_MAX);
    }

    /// Adds a beacon's stamp from `name`, received now over a link with a usual delay of `delay`
    /// µs.
    #[inline]
    pub fn add_sample(&mut self, name: Name, stamp: u64, delay: u64, now: u64) {
        // A higher stamp is no valid time, and differences of two samples must not overflow.
        let stamp = stamp.min(STAMP_MAX);
        // A driver may report a long delay. More than a second would be an error, not an age.
        let age = delay.min(SECOND).cast_signed();
        let offset = stamp.cast_signed() * STAMP + STAMP / 2 + age - now.cast_signed();
        let sample = ClockSample { name, offset, at: now };
        self.hear_beacon(offset);
        match self.samples.iter().position(|known| known.name == name) {
            // One sample per name: a liar that sends more often must not weigh more (MESH-23).
            Some(at) => self.samples[at] = sample,
            None if self.samples.len() < SAMPLES_MAX => self.samples.push(sample),
            // There are more neighbours than slots of a node. The vote is no worse without their
            // samples.
            None => (),
        }
    }

    /// Forgets the samples of `name`.
    pub fn forget_name(&mut self, name: Name) {
        self.samples.retain(|known| known.name != name);
    }

    /// Updates the state for `around` present neighbours, without a vote.
    pub fn update_state(&mut self, around: usize, now: u64) {
        if self.mode == ClockMode::Level {
            self.observe_level(around, now);
        }
    }

    /// Votes on the samples since the last vote, with `around` neighbours. Returns true if the
    /// offset changed.
    pub fn vote(&mut self, around: usize, now: u64, rng: &mut (impl Rng + ?Sized)) -> bool {
        let before = self.offset;
        self.update_state(around, now);
        match self.mode {
            // A device without a plausible time does not vote, because it could confirm any liar
            // (Clock, grades).
            _ if self.grade == Grade::None => (),
            ClockMode::Level => self.vote_level(around, now),
            ClockMode::Paper => self.vote_paper(rng),
            _ => self.vote_rival(now),
        }
        before != self.offset
    }

    /// Keeps the offset within the bound of the device's own clock.
    fn clamp_offset(&mut self) {
        if self.mode == ClockMode::Level {
            let anchor = self.anchor();
            let bound = self.bound_us();
            // The bound (W in the specification) covers the own clock's error. Neighbours beyond it
            // must be wrong (MESH-20).
            self.offset = self.offset.clamp(anchor - bound, anchor + bound);
        }
    }
}

/// Returns the median of sorted offsets; for an even number the mean of the middle two. There must
/// be at least one.
fn median(sorted: &[i64]) -> i64 {
    let half = sorted.len() / 2;
    if sorted.len() % 2 == 1 { sorted[half] } else { sorted[half - 1].midpoint(sorted[half]) }
}

#[cfg(test)]
mod tests;
