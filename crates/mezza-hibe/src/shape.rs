//! The shape of the tree: which path an epoch has, and which epoch a tick of time falls into.
//!
//! Nodes are numbered in pre-order and every node is an epoch (CHK03): the root is 0, its first child
//! 1, and so on, down before right. A path has components from 1 to the arity of its level.

use mezza_core::Time;

use crate::lives::Life;

/// Levels of the tree below its root, and of identities.
pub const DEPTH: usize = 5;
/// Milliseconds of a tick.
pub const TICK_MS: u64 = 30_000;
/// Ticks of a day; the origin of a new tree is a multiple of it.
pub const DAY_TICKS: u32 = (Time::DAY_MS / TICK_MS) as u32;

/// 30 s of network time, counted from 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Tick(pub u32);

impl Tick {
    /// The tick of a time.
    pub const fn from_time(time: Time) -> Self {
        Self((time.as_ms() / TICK_MS) as u32)
    }

    /// The time at which it begins.
    pub const fn start_time(self) -> Time {
        Time::from_ms(self.0 as u64 * TICK_MS)
    }

    /// The tick at 00:00 UTC of its day.
    #[must_use]
    pub const fn day_start(self) -> Self {
        Self(self.0 / DAY_TICKS * DAY_TICKS)
    }
}

/// One node of one receiver's tree, by its number: what the paper calls half an epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Epoch(pub u32);

impl Epoch {
    /// The epoch `n` later.
    #[must_use]
    pub const fn plus(self, n: u32) -> Self {
        Self(self.0.saturating_add(n))
    }

    /// The epoch `n` earlier; the first one instead of an underflow.
    #[must_use]
    pub const fn minus(self, n: u32) -> Self {
        Self(self.0.saturating_sub(n))
    }
}

/// Length of an epoch of tree 1 in ticks, k. Three values keep the sets large in which a card is one of many.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TreeProfile {
    /// 1 tick: what is older than a minute is erased.
    Minute,
    /// 5 ticks: five minutes.
    FiveMinutes,
    /// 60 ticks: an hour, for slow paths.
    Hour,
}

impl TreeProfile {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Minute, Self::FiveMinutes, Self::Hour];

    /// The one life that a tree of this profile serves.
    pub const fn life(self) -> Life {
        match self {
            Self::Minute => Life::Minute,
            Self::FiveMinutes => Life::FiveMinutes,
            Self::Hour => Life::HalfHour,
        }
    }

    /// Ticks of an epoch, k.
    pub const fn epoch_ticks(self) -> u32 {
        match self {
            Self::Minute => 1,
            Self::FiveMinutes => 5,
            Self::Hour => 60,
        }
    }

    /// Milliseconds of an epoch.
    pub const fn epoch_ms(self) -> u64 {
        self.epoch_ticks() as u64 * TICK_MS
    }

    /// The profile of a byte on the wire.
    pub fn from_byte(k: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|profile| profile.epoch_ticks() == u32::from(k))
    }

    /// Its byte on the wire: k.
    pub const fn byte(self) -> u8 {
        self.epoch_ticks() as u8
    }
}

/// A shape that a tree can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Arities 16, 16, 32, 32, 64: 17,047,825 epochs, 16.2 years of half minutes.
    Wide,
    /// The same arities, in three branches: 14 of the root's children serve minutes, one half hours,
    /// one half days (`docs/protocols/hibe.md`, "Tree").
    Lives,
    /// Arities 4, 2, 4 in three branches: 45 epochs, for exhaustive tests.
    TestLives,
    /// Arities 3, 2, 4: 34 epochs, for exhaustive tests.
    Test,
}

impl Shape {
    /// Nodes below the root, by level.
    pub const fn arities(self) -> &'static [u8] {
        match self {
            Self::Wide | Self::Lives => &[16, 16, 32, 32, 64],
            Self::TestLives => &[4, 2, 4],
            Self::Test => &[3, 2, 4],
        }
    }

    /// Number of levels below the root.
    pub const fn depth(self) -> usize {
        self.arities().len()
    }

    /// The low nibble on the wire.
    pub const fn nibble(self) -> u8 {
        match self {
            Self::Wide => 1,
            Self::Lives => 2,
            Self::TestLives => 0xe,
            Self::Test => 0xf,
        }
    }

    /// The shape of a low nibble.
    pub const fn from_nibble(nibble: u8) -> Option<Self> {
        match nibble {
            1 => Some(Self::Wide),
            2 => Some(Self::Lives),
            0xe => Some(Self::TestLives),
            0xf => Some(Self::Test),
            _ => None,
        }
    }

    /// Returns true if its branches serve several lives. Its root then serves none.
    pub const fn has_lives(self) -> bool {
        matches!(self, Self::Lives | Self::TestLives)
    }

    /// Number of its lives.
    pub const fn life_count(self) -> usize {
        if self.has_lives() { 3 } else { 1 }
    }

    /// Entries of a stack at most.
    pub const fn entries_max(self) -> usize {
        if self.has_lives() { 768 } else { 320 }
    }

    /// Bytes of all points of a stack at most.
    pub const fn stack_bytes_max(self) -> usize {
        1_024 * if self.has_lives() { 576 } else { 224 }
    }

    /// Bytes of a keyring, which has room for [`Self::entries_max`] entries.
    pub const fn ring_bytes(self) -> usize {
        if self.has_lives() { 28_672 } else { 12_288 }
    }

    /// Epochs of a subtree whose root is at `depth`: `S_depth`.
    pub fn subtree_epochs(self, depth: usize) -> u32 {
        self.arities()[depth..].iter().rev().fold(1, |below, arity| 1 + u32::from(*arity) * below)
    }

    /// Number of epochs, N.
    pub fn epoch_count(self) -> u32 {
        self.subtree_epochs(0)
    }

    /// The path of an epoch below [`Self::epoch_count`].
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

    /// The epoch of a path whose components are in their ranges (HIBE-11).
    pub fn path_epoch(self, path: &Path) -> Epoch {
        let levels = (1..).zip(path.components());
        Epoch(levels.map(|(level, m)| 1 + (u32::from(*m) - 1) * self.subtree_epochs(level)).sum())
    }
}

/// A path from the root: at most [`DEPTH`] components from 1 on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Path {
    components: [u8; DEPTH],
    depth: usize,
}

impl Path {
    /// The path of the root.
    pub const fn root() -> Self {
        Self { components: [0; DEPTH], depth: 0 }
    }

    /// A path of given components, if there are not too many and none is zero.
    pub fn new(components: &[u8]) -> Option<Self> {
        let mut path = Self::root();
        path.components.get_mut(..components.len())?.copy_from_slice(components);
        path.depth = components.len();
        (!components.contains(&0)).then_some(path)
    }

    /// Its components, from the root down.
    pub fn components(&self) -> &[u8] {
        &self.components[..self.depth]
    }

    /// Number of its components.
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
