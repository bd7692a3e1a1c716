//! Network time: what a device's own clock says, and how far its neighbours may move it.
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

/// How good the clock of the device itself is. It never leaves the device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Grade {
    /// No plausible time: the device neither votes nor receives.
    None,
    /// Some plausible time.
    #[default]
    Poor,
    /// Right to 150 s: confirmed by a person, or set by a network some weeks ago.
    Fair,
    /// Right to 15 s: set by a network within a day.
    Good,
}

impl Grade {
    /// How far neighbours may move the clock from the device's own, µs.
    pub fn bound_us(self) -> i64 {
        let ms = match self {
            Self::Good => 2_500,
            Self::Fair => 150_000,
            Self::Poor | Self::None => 600_000,
        };
        ms * MS.cast_signed()
    }

    /// The word for a clock that may be off by so much, µs: half a tick is good.
    pub fn of_bound(bound: i64) -> Self {
        match bound {
            ..=15_000_000 => Self::Good,
            15_000_001..=150_000_000 => Self::Fair,
            _ => Self::Poor,
        }
    }

    /// How long keys may outlive their epoch, seconds.
    pub fn slack_s(self) -> u32 {
        match self {
            Self::Good => 60,
            Self::Fair => 150,
            Self::Poor | Self::None => 600,
        }
    }

    /// How many ticks the clock may be ahead when a device starts.
    pub fn uncertainty_ticks(self) -> u32 {
        match self {
            Self::Good => 1,
            Self::Fair => 5,
            Self::Poor | Self::None => 20,
        }
    }

    /// Its word.
    pub fn word(self) -> &'static str {
        ["none", "poor", "fair", "good"][self as usize]
    }
}

/// How a device votes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClockMode {
    /// Toward the middle of what is received, and never far from the device's own clock.
    #[default]
    Level,
    /// Three-majority without a bound, as FoSAM has it: for reproduction only.
    Paper,
    /// The median of many beacons without outliers: for comparison only, as the next two.
    OutlierMedian,
    /// The first plausible time that is received, if the own clock is not plausible.
    FirstPlausible,
    /// The time of a quorum of different peers, once.
    PeerQuorum,
}

/// The knowledge of a device about its clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClockState {
    /// Fewer than three neighbours.
    Alone,
    /// Neighbours are heard and do not agree yet.
    Seeking,
    /// Ten votes in a row found the clock where most neighbours have theirs.
    Agreed,
    /// Most neighbours agree with each other on a time outside of the bound.
    Doubtful,
}

impl ClockState {
    /// Its word.
    pub fn word(self) -> &'static str {
        ["alone", "seeking", "agreed", "doubtful"][self as usize]
    }
}

/// Votes in a row that found the clock in place before it counts as agreed.
const AGREED_AFTER: u32 = 10;
/// The quantum of a stamp: 1/8 s.
const STAMP: i64 = 125 * MS.cast_signed();
/// The greatest stamp that is looked at: the year 6500.
const STAMP_MAX: u64 = 1 << 40;
/// How far stamps are off at most, µs.
const VEIL_MAX: i64 = 250 * MS.cast_signed();
/// How long the neighbours' time is remembered, for the first beacons of a new name.
const HEARD: u64 = 120 * SECOND;
/// Most samples that one vote looks at.
const SAMPLES_MAX: usize = 512;

/// One neighbour's clock: its stamp, as an offset from the monotonic clock of this device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ClockSample {
    name: Name,
    offset: i64,
    /// When it was received.
    at: u64,
}

/// A time on which most neighbours agree, and which is out of reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Doubt {
    /// How far it is from the device's own clock, µs.
    differs: i64,
    /// When a neighbour said so last.
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
    /// The device's own real-time clock minus its monotonic one, as it was read last.
    rtc: i64,
    /// The correction of our clock by a user who decided that the neighbours are right.
    trusted: Option<i64>,
    /// Network time minus the monotonic clock.
    offset: i64,
    /// The offset of the stamps under this name, so that stamps do not link two names.
    veil: i64,
    /// Votes in a row that found the clock in place, and votes since it began to seek.
    holds: u32,
    sought: u32,
    /// True if ten holds in a row ended once.
    was_agreed: bool,
    state: ClockState,
    /// Since when fewer than three neighbours are around, and since when a vote waits for samples.
    few_since: Option<u64>,
    waits_since: Option<u64>,
    /// Samples since the last vote, one for each name.
    samples: Vec<ClockSample>,
    elsewhere: Option<Doubt>,
    /// The median of the neighbours' clocks at the last vote.
    heard: Option<HeardTime>,
    rival: rivals::RivalState,
}

impl MeshClock {
    /// A clock that shows what the device's own clock says: `rtc` µs more than the monotonic one.
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

    /// The device's own clock minus the monotonic one, µs, with what a person decided.
    fn anchor(&self) -> i64 {
        // A decision of the user shifts the anchor, so the bound is measured from there (MESH-56).
        self.rtc + self.trusted.unwrap_or(0)
    }

    /// How far neighbours may move the clock from the device's own, µs.
    pub fn bound_us(&self) -> i64 {
        // The neighbours' time is not vouched for by any source, so it gets the widest bound.
        if self.trusted.is_some() { Grade::Poor.bound_us() } else { self.within }
    }

    /// Returns the correction of our clock by a user who decided that the neighbours are right, µs.
    pub fn trusted_correction(&self) -> Option<i64> {
        self.trusted
    }

    /// Network time, µs since 1970.
    pub fn mesh_time(&self, now: u64) -> u64 {
        // Saturating: a neighbour's time before 1970 must not wrap to a far future.
        now.saturating_add_signed(self.offset)
    }

    /// The tick of network time.
    #[inline]
    pub fn tick_at(&self, now: u64) -> u32 {
        u32::try_from(self.mesh_time(now) / (TICK_MS * MS)).unwrap_or(u32::MAX)
    }

    /// When the next tick begins, by the monotonic clock.
    pub fn next_tick(&self, now: u64) -> u64 {
        let length = TICK_MS * MS;
        now + (length - self.mesh_time(now) % length)
    }

    /// The tick of the device's own clock.
    pub fn anchor_tick(&self, now: u64) -> u32 {
        let own = now.saturating_add_signed(self.anchor());
        u32::try_from(own / (TICK_MS * MS)).unwrap_or(u32::MAX)
    }

    /// Network time minus the device's own, µs.
    pub fn moved_by(&self) -> i64 {
        self.offset - self.anchor()
    }

    /// Network time minus the monotonic clock, µs.
    pub fn offset(&self) -> i64 {
        self.offset
    }

    /// How good the device's own clock is.
    pub fn grade(&self) -> Grade {
        // A clock that follows its neighbours is no better than a poor one.
        if self.trusted.is_some() { Grade::Poor } else { self.grade }
    }

    /// How it votes.
    pub fn mode(&self) -> ClockMode {
        self.mode
    }

    /// Returns the knowledge about the clock.
    pub fn state(&self) -> ClockState {
        self.state
    }

    /// How far the neighbours' clocks are from the device's own, µs, while they agree with each other
    /// and not with it.
    pub fn neighbour_difference(&self) -> Option<i64> {
        self.elsewhere.map(|doubt| doubt.differs)
    }

    /// The device's own clock was read: it says `rtc` µs more than the monotonic one.
    pub fn read_own(&mut self, rtc: i64, grade: Grade) {
        self.read_within(rtc, grade, grade.bound_us());
    }

    /// The same, where it is known how far the own clock may be off, µs.
    pub fn read_bounded(&mut self, rtc: i64, bound: i64) {
        // The record of a source may claim less than the least bound. No clock is better than 2.5
        // s.
        let bound = bound.clamp(Grade::Good.bound_us(), Grade::Poor.bound_us());
        self.read_within(rtc, Grade::of_bound(bound), bound);
    }

    fn read_within(&mut self, rtc: i64, grade: Grade, within: i64) {
        if self.grade == Grade::None {
            // The first reading that can be true.
            self.offset = rtc;
        } else if (rtc - self.rtc).unsigned_abs() > SECOND {
            // The system's clock was stepped. What a person decided was about the clock before, and what
            // was agreed holds no longer: network time moves with the bound alone (MESH-24).
            (self.trusted, self.holds) = (None, 0);
            if self.state == ClockState::Agreed {
                self.state = ClockState::Seeking;
            }
        }
        (self.rtc, self.grade, self.within) = (rtc, grade, within);
        // Also at each reading: a step of the own clock moves the allowed range (MESH-20).
        self.clamp_offset();
    }

    /// A person decided that the neighbours are right. Good until the next step of the own clock, however
    /// often that is read. False if no neighbour said so in the last ten seconds.
    pub fn trust_neighbours(&mut self, now: u64) -> bool {
        // A doubt is acted on for 10 s only, so the user confirms what was shown (MESH-57).
        let Some(doubt) = self.elsewhere.filter(|doubt| doubt.at + SILENT >= now) else {
            return false;
        };
        self.elsewhere = None;
        self.trust_correction(self.trusted.unwrap_or(0) + doubt.differs);
        true
    }

    /// A person decided so before, while this system ran: the own clock counts with this correction, µs.
    pub fn trust_correction(&mut self, correction: i64) {
        self.trusted = Some(correction);
        self.offset = self.anchor();
        // The clock jumped, so earlier holds prove nothing about it.
        (self.holds, self.state) = (0, ClockState::Seeking);
    }

    /// The clock was agreed somewhere else before: it shows `offset` µs more than the monotonic one,
    /// within the bound. For devices of a crowd that come from elsewhere.
    pub(crate) fn set_offset(&mut self, offset: i64) {
        self.offset = offset;
        self.clamp_offset();
    }

    /// The stamp of a beacon sent now, in eighths of a second.
    pub fn make_stamp(&self, now: u64) -> u64 {
        (self.mesh_time(now).saturating_add_signed(self.veil) / STAMP.unsigned_abs())
            & 0xffff_ffff_ffff
    }

    /// The stamp of a beacon under a new name: the time of the neighbours around, since a clock that is
    /// off by some seconds would say which name was the one before. It is an ordinary stamp where nobody was
    /// heard.
    pub fn stamp_among(&self, now: u64) -> u64 {
        let heard = self.heard.filter(|heard| heard.at + HEARD >= now);
        let offset = heard.map_or(self.offset, |heard| heard.offset);
        // Under a new name the own offset would link it to the name before (MESH-30).
        let shown = now.saturating_add_signed(offset).saturating_add_signed(self.veil);
        (shown / STAMP.unsigned_abs()) & 0xffff_ffff_ffff
    }

    /// A new name was drawn; `veil` is its offset of stamps, at most a quarter of a second either way.
    pub fn set_veil(&mut self, veil: i64) {
        self.veil = veil.clamp(-VEIL_MAX, VEIL_MAX);
    }

    /// A beacon of `name` with this stamp came now over a link that usually takes `delay` µs.
    #[inline]
    pub fn add_sample(&mut self, name: Name, stamp: u64, delay: u64, now: u64) {
        // A stamp beyond this is no time, and differences of two samples must not overflow.
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
            // More neighbours than a node has places for: the vote is no worse without them.
            None => (),
        }
    }

    /// Forgets the samples of `name`.
    pub fn forget_name(&mut self, name: Name) {
        self.samples.retain(|known| known.name != name);
    }

    /// Brings the state in line with who is around, `around` of them, without a vote.
    pub fn update_state(&mut self, around: usize, now: u64) {
        if self.mode == ClockMode::Level {
            self.observe_level(around, now);
        }
    }

    /// Votes on what was heard since the last vote, with `around` neighbours. Whether the offset changed.
    pub fn vote(&mut self, around: usize, now: u64, rng: &mut (impl Rng + ?Sized)) -> bool {
        let before = self.offset;
        self.update_state(around, now);
        match self.mode {
            // A device without a plausible time does not vote, since it could confirm any liar
            // (Clock, grades).
            _ if self.grade == Grade::None => (),
            ClockMode::Level => self.vote_level(around, now),
            ClockMode::Paper => self.vote_paper(rng),
            _ => self.vote_rival(now),
        }
        before != self.offset
    }

    /// Never farther from the own clock than its bound.
    fn clamp_offset(&mut self) {
        if self.mode == ClockMode::Level {
            let anchor = self.anchor();
            let bound = self.bound_us();
            // W is the bound of the own error. Beyond it neighbours must be wrong (MESH-20).
            self.offset = self.offset.clamp(anchor - bound, anchor + bound);
        }
    }
}

/// The median of sorted offsets; of an even number the mean of the two in the middle. There is at least one.
fn median(sorted: &[i64]) -> i64 {
    let half = sorted.len() / 2;
    if sorted.len() % 2 == 1 { sorted[half] } else { sorted[half - 1].midpoint(sorted[half]) }
}

#[cfg(test)]
mod tests;
