//! The shape of the tree: the path of an epoch, and the epoch of a tick.
//!
//! Every node is an epoch (CHK03), numbered in pre-order: the root is 0, its first child 1, and so
//! on, children before siblings. The components of a path are numbers from 1 to the arity of the
//! level.

use mezza_core::Time;

use crate::lives::Life;

/// Most levels of a tree below its root, and most components of a path.
pub const DEPTH: usize = 5;
/// Milliseconds of a tick.
pub const TICK_MS: u64 = 30_000;
/// Ticks of a day. The origin of a new tree is a multiple of this.
pub const DAY_TICKS: u32 = (Time::DAY_MS / TICK_MS) as u32;

/// A tick: 30 s of network time, counted from 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Tick(pub u32);

impl Tick {
    /// Returns the tick of a time.
    pub const fn from_time(time: Time) -> Self {
        Self((time.as_ms() / TICK_MS) as u32)
    }

    /// Returns the time at which the tick begins.
    pub const fn start_time(self) -> Time {
        Time::from_ms(self.0 as u64 * TICK_MS)
    }

    /// Returns the tick at 00:00 UTC of the same day.
    #[must_use]
    pub const fn day_start(self) -> Self {
        Self(self.0 / DAY_TICKS * DAY_TICKS)
    }
}

/// The number of one node in one receiver's tree. The paper calls this half an epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Epoch(pub u32);

impl Epoch {
    /// Returns the epoch that is `n` later, at most `u32::MAX`.
    #[must_use]
    pub const fn plus(self, n: u32) -> Self {
        Self(self.0.saturating_add(n))
    }

    /// Returns the epoch that is `n` earlier, at least 0.
    #[must_use]
    pub const fn minus(self, n: u32) -> Self {
        Self(self.0.saturating_sub(n))
    }
}

/// The length k of an epoch of tree 1, in ticks. Only three values are allowed, so that each one is
/// shared by many cards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TreeProfile {
    /// 1 tick: keys older than a minute are erased.
    Minute,
    /// 5 ticks: keys older than five minutes are erased.
    FiveMinutes,
    /// 60 ticks, for slow carriers: keys older than an hour are erased.
    Hour,
}

impl TreeProfile {
    /// All three lengths.
    pub const ALL: [Self; 3] = [Self::Minute, Self::FiveMinutes, Self::Hour];

    /// Returns the life of tree 1 with this profile.
    pub const fn life(self) -> Life {
        match self {
            Self::Minute => Life::Minute,
            Self::FiveMinutes => Life::FiveMinutes,
            Self::Hour => Life::HalfHour,
        }
    }

    /// Returns the ticks of an epoch, k.
    pub const fn epoch_ticks(self) -> u32 {
        match self {
            Self::Minute => 1,
            Self::FiveMinutes => 5,
            Self::Hour => 60,
        }
    }

    /// Returns the milliseconds of an epoch.
    pub const fn epoch_ms(self) -> u64 {
        self.epoch_ticks() as u64 * TICK_MS
    }

    /// Returns the profile of a byte on the wire.
    pub fn from_byte(k: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|profile| profile.epoch_ticks() == u32::from(k))
    }

    /// Returns the byte of the profile on the wire: k.
    pub const fn byte(self) -> u8 {
        self.epoch_ticks() as u8
    }
}

/// A shape that a tree can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Arities 16, 16, 32, 32, 64: 17,047,825 epochs, 16.2 years of half minutes.
    Wide,
    /// The arities of `Wide` in three branches: 14 children of the root serve minutes, one serves
    /// half hours, one serves half days (`docs/protocols/hibe.md`, "Tree").
    Lives,
    /// Arities 4, 2, 4 in three branches: 45 epochs, for exhaustive tests.
    TestLives,
    /// Arities 3, 2, 4: 34 epochs, for exhaustive tests.
    Test,
}

impl Shape {
    /// Returns the number of children of a node, for each level from the root.
    pub const fn arities(self) -> &'static [u8] {
        match self {
            Self::Wide | Self::Lives => &[16, 16, 32, 32, 64],
            Self::TestLives => &[4, 2, 4],
            Self::Test => &[3, 2, 4],
        }
    }

    /// Returns the number of levels below the root.
    pub const fn depth(self) -> usize {
        self.arities().len()
    }

    /// Returns the number of the shape, the low nibble of a byte on the wire.
    pub const fn nibble(self) -> u8 {
        match self {
            Self::Wide => 1,
            Self::Lives => 2,
            Self::TestLives => 0xe,
            Self::Test => 0xf,
        }
    }

    /// Returns the shape with the number `nibble`.
    pub const fn from_nibble(nibble: u8) -> Option<Self> {
        match nibble {
            1 => Some(Self::Wide),
            2 => Some(Self::Lives),
            0xe => Some(Self::TestLives),
            0xf => Some(Self::Test),
            _ => None,
        }
    }

    /// Returns true if the branches of the tree serve several lives. The root then serves no life.
    pub const fn has_lives(self) -> bool {
        matches!(self, Self::Lives | Self::TestLives)
    }

    /// Returns the number of lives.
    pub const fn life_count(self) -> usize {
        if self.has_lives() { 3 } else { 1 }
    }

    /// Returns the largest number of entries in a stack.
    pub const fn entries_max(self) -> usize {
        if self.has_lives() { 768 } else { 320 }
    }

    /// Returns the largest number of bytes for all points of a stack.
    pub const fn stack_bytes_max(self) -> usize {
        1_024 * if self.has_lives() { 576 } else { 224 }
    }

    /// Returns the bytes of a keyring, which has room for [`Self::entries_max`] entries.
    pub const fn ring_bytes(self) -> usize {
        if self.has_lives() { 28_672 } else { 12_288 }
    }

    /// Returns the number of epochs in a subtree whose root is at `depth`: `S_depth`.
    pub fn subtree_epochs(self, depth: usize) -> u32 {
        self.arities()[depth..].iter().rev().fold(1, |below, arity| 1 + u32::from(*arity) * below)
    }

    /// Returns the number of epochs in the tree, N.
    pub fn epoch_count(self) -> u32 {
        self.subtree_epochs(0)
    }

    /// Returns the path of an epoch, which must be below [`Self::epoch_count`].
    pub fn path_to(self, epoch: Epoch) -> Path {
        debug_assert!(epoch.0 < self.epoch_count());
        let mut path = Path::root();
        let mut left = epoch.0;
        while left > 0 {
            left -= 1;
            let below = self.subtree_epochs(path.depth() + 1);
            path.push_component((left / below + 1) as u8);
            left %= below;
        }
        path
    }

    /// Returns the epoch of a path whose components are in range (HIBE-11).
    pub fn path_epoch(self, path: &Path) -> Epoch {
        let levels = (1..).zip(path.components());
        Epoch(levels.map(|(level, m)| 1 + (u32::from(*m) - 1) * self.subtree_epochs(level)).sum())
    }
}

/// A path from the root: at most [`DEPTH`] components, each at least 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Path {
    components: [u8; DEPTH],
    depth: usize,
}

impl Path {
    /// Returns the path of the root, which has no components.
    pub const fn root() -> Self {
        Self { components: [0; DEPTH], depth: 0 }
    }

    /// Creates a path from its components. `None` if there are more than [`DEPTH`], or if one is
    /// zero.
    pub fn new(components: &[u8]) -> Option<Self> {
        let mut path = Self::root();
        path.components.get_mut(..components.len())?.copy_from_slice(components);
        path.depth = components.len();
        (!components.contains(&0)).then_some(path)
    }

    /// Returns the components of the path, from the root down.
    pub fn components(&self) -> &[u8] {
        &self.components[..self.depth]
    }

    /// Returns the number of components.
    pub const fn depth(&self) -> usize {
        self.depth
    }

    fn push_component(&mut self, m: u8) {
        self.components[self.depth] = m;
        self.depth += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(components: &[u8]) -> Path {
        Path::new(components).expect("a path")
    }

    #[test]
    fn sizes_and_examples_are_those_of_the_document() {
        let sizes = [17_047_825, 1_065_489, 66_593, 2_081, 65, 1];
        for (depth, size) in sizes.into_iter().enumerate() {
            assert_eq!(Shape::Wide.subtree_epochs(depth), size);
        }
        assert_eq!(Shape::Test.epoch_count(), 34);
        for (epoch, components) in [
            (0, &[][..]),
            (5, &[1, 1, 1, 1, 1]),
            (68, &[1, 1, 1, 1, 64]),
            (69, &[1, 1, 1, 2]),
            (1_000_007, &[1, 16, 1, 18, 3]),
            (1_065_490, &[2]),
            (17_047_824, &[16, 16, 32, 32, 64]),
        ] {
            assert_eq!(Shape::Wide.path_to(Epoch(epoch)), path(components), "{epoch}");
            assert_eq!(Shape::Wide.path_epoch(&path(components)), Epoch(epoch));
        }
    }

    #[test]
    fn a_path_holds_no_zero_and_no_sixth_component() {
        assert_eq!(Path::new(&[1, 0]), None);
        assert_eq!(Path::new(&[1; 6]), None);
    }

    #[test]
    fn ticks_are_half_minutes_of_network_time() {
        let noon = Time::from_ms(1_785_000_000_000);
        assert_eq!(Tick::from_time(noon).start_time(), noon);
        assert_eq!(Tick(2 * DAY_TICKS + 7).day_start(), Tick(2 * DAY_TICKS));
        assert_eq!(TreeProfile::from_byte(2), None);
        assert_eq!(TreeProfile::from_byte(60), Some(TreeProfile::Hour));
    }
}
