//! Network time: what a device's own clock says, and how far its neighbours may move it.
//!
//! ```text
//! alone ──3 neighbours──> seeking ──10 holds in a row──> agreed
//!                            │                              │
//!                            └── most neighbours outside W ─┴──> doubtful (a person decides)
//! ```

mod vote;

use alloc::vec::Vec;
use rand_core::Rng;

use crate::limits::{MS, SECOND, TICK_MS};

/// How good the clock of the device itself is. It never leaves the device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Grade {
    /// No plausible time: the device neither votes nor receives.
    None,
    /// Some plausible time.
    #[default]
    Poor,
    /// Good within the last 30 days, and the hardware clock ran since; or confirmed by a person.
    Fair,
    /// Set from a network within 24 hours.
    Good,
}

impl Grade {
    /// How far neighbours may move the clock from the device's own, µs.
    pub fn bound(self) -> i64 {
        let ms = match self {
            Self::Good => 2_500,
            Self::Fair => 150_000,
            Self::Poor | Self::None => 600_000,
        };
        ms * MS.cast_signed()
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
    /// Near the device's own clock.
    #[default]
    Anchored,
    /// Three-majority without an anchor, as FoSAM has it: for reproduction only.
    Paper,
}

/// What a device can say of its clock.
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
/// Most samples that one vote looks at.
const SAMPLES_MAX: usize = 512;

/// The clock of one device. Times are microseconds; offsets are added to the device's monotonic time.
#[derive(Clone, Debug)]
pub struct MeshClock {
    mode: ClockMode,
    grade: Grade,
    /// The device's own real-time clock minus its monotonic one.
    anchor: i64,
    /// Network time minus the monotonic clock.
    offset: i64,
    /// What is added to the stamps under this name, so that stamps do not link two names.
    veil: i64,
    holds: u32,
    /// Votes left that look for groups with the higher probability.
    eager: u32,
    state: ClockState,
    /// Names and offsets that were heard since the last vote.
    samples: Vec<(u32, i64)>,
    /// Median of the last vote's samples minus the anchor, if they agreed and lay outside the bound.
    elsewhere: Option<i64>,
}

impl MeshClock {
    /// A clock that shows what the device's own clock says: `anchor` µs more than the monotonic one.
    pub fn new(mode: ClockMode, grade: Grade, anchor: i64) -> Self {
        Self {
            mode,
            grade,
            anchor,
            offset: anchor,
            veil: 0,
            holds: 0,
            eager: 0,
            state: ClockState::Alone,
            samples: Vec::new(),
            elsewhere: None,
        }
    }

    /// Network time, µs since 1970.
    pub fn mesh(&self, now: u64) -> u64 {
        now.saturating_add_signed(self.offset)
    }

    /// The tick of network time.
    #[inline]
    pub fn tick(&self, now: u64) -> u32 {
        u32::try_from(self.mesh(now) / (TICK_MS * MS)).unwrap_or(u32::MAX)
    }

    /// When the next tick begins, by the monotonic clock.
    pub fn next_tick(&self, now: u64) -> u64 {
        let length = TICK_MS * MS;
        now + (length - self.mesh(now) % length)
    }

    /// The tick of the device's own clock.
    pub fn anchor_tick(&self, now: u64) -> u32 {
        let own = now.saturating_add_signed(self.anchor);
        u32::try_from(own / (TICK_MS * MS)).unwrap_or(u32::MAX)
    }

    /// Network time minus the device's own, µs.
    pub fn moved(&self) -> i64 {
        self.offset - self.anchor
    }

    /// Network time minus the monotonic clock, µs.
    pub fn offset(&self) -> i64 {
        self.offset
    }

    /// How good the device's own clock is.
    pub fn grade(&self) -> Grade {
        self.grade
    }

    /// How it votes.
    pub fn mode(&self) -> ClockMode {
        self.mode
    }

    /// What the device can say of it.
    pub fn state(&self) -> ClockState {
        self.state
    }

    /// How far the neighbours' clocks are from the device's own, µs, while they agree with each other
    /// and not with it.
    pub fn elsewhere(&self) -> Option<i64> {
        self.elsewhere
    }

    /// The device's own clock was read: it says `anchor` µs more than the monotonic one.
    pub fn read(&mut self, anchor: i64, grade: Grade) {
        if (anchor - self.anchor).unsigned_abs() > SECOND {
            // A step of the system's clock moves the anchor; what was agreed moves with the bound alone.
            self.holds = 0;
        }
        if self.grade == Grade::None {
            // The first reading that can be true.
            self.offset = anchor;
        }
        (self.anchor, self.grade) = (anchor, grade);
        self.clamp();
    }

    /// A person decided that the neighbours are right. Good until the next step of the own clock.
    pub fn trust_neighbours(&mut self) -> bool {
        let Some(elsewhere) = self.elsewhere.take() else { return false };
        self.anchor += elsewhere;
        self.grade = Grade::Poor;
        self.offset = self.anchor;
        true
    }

    /// The stamp of a beacon sent now, in eighths of a second.
    pub fn stamp(&self, now: u64) -> u64 {
        (self.mesh(now).saturating_add_signed(self.veil) / STAMP.unsigned_abs()) & 0xffff_ffff_ffff
    }

    /// A new name was drawn; `veil` is its offset of stamps, at most a quarter of a second either way.
    pub fn veil(&mut self, veil: i64) {
        self.veil = veil.clamp(-VEIL_MAX, VEIL_MAX);
    }

    /// A beacon of `name` with this stamp came now over a link that usually takes `delay` µs.
    #[inline]
    pub fn hear(&mut self, name: u32, stamp: u64, delay: u64, now: u64) {
        // A stamp beyond this is no time, and differences of two samples must not overflow.
        let (stamp, age) = (stamp.min(STAMP_MAX), delay.min(SECOND).cast_signed());
        let sample = stamp.cast_signed() * STAMP + STAMP / 2 + age - now.cast_signed();
        match self.samples.iter().position(|(known, _)| *known == name) {
            Some(at) => self.samples[at].1 = sample,
            None if self.samples.len() < SAMPLES_MAX => self.samples.push((name, sample)),
            None => (),
        }
    }

    /// What was heard of `name` is forgotten.
    pub fn forget(&mut self, name: u32) {
        self.samples.retain(|(known, _)| *known != name);
    }

    /// Votes on what was heard since the last vote, with `around` neighbours. Whether the offset changed.
    pub fn vote(&mut self, around: usize, rng: &mut (impl Rng + ?Sized)) -> bool {
        let before = self.offset;
        match self.mode {
            _ if self.grade == Grade::None => (),
            ClockMode::Anchored => self.vote_anchored(around, rng),
            ClockMode::Paper => self.vote_paper(rng),
        }
        before != self.offset
    }

    /// Never farther from the own clock than the grade allows.
    fn clamp(&mut self) {
        if self.mode == ClockMode::Anchored {
            let bound = self.grade.bound();
            self.offset = self.offset.clamp(self.anchor - bound, self.anchor + bound);
        }
    }
}

#[cfg(test)]
mod tests;
