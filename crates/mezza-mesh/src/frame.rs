//! Frames between devices, as values. Their bytes are defined in `wire` alone.

use alloc::boxed::Box;

use crate::set::Set;

/// The short-lived name of a device: 48 bits on the wire, the device's number in a crowd.
pub type Name = u64;

/// One frame, without its sender's name. Cells are slots of the receiver's table.
#[derive(Clone, Debug)]
pub enum MeshFrame {
    /// Presence, time, and how much is held.
    Beacon(Beacon),
    /// The sender holds these since its last frame of this kind.
    Have(Set),
    /// The sender asks `to` for these.
    Want {
        /// The receiver of the request.
        to: Name,
        /// An earlier asking failed: answer even if it was sent just now.
        again: bool,
        /// The requested cells.
        set: Set,
    },
    /// The cells themselves.
    Data(Set),
    /// The set of the sender: rare and large, and so apart.
    Sync(Box<SyncFrame>),
    /// The sender's queue for `to` is long.
    Busy {
        /// The neighbour that must wait.
        to: Name,
        /// For how long, ms.
        wait_ms: u16,
    },
    /// The sender's name is about to change, or it leaves.
    Bye,
}

/// The set of a device, for one other to compare.
#[derive(Clone, Debug)]
pub struct SyncFrame {
    /// The neighbour that compares.
    pub to: Name,
    /// The set of the sender. A receiver uses the cells that it holds too.
    pub held: Set,
    /// The cells of the receiver that were compared; `None`: all.
    pub within: Option<Set>,
    /// True if the sender holds more than the receiver knows of. In a crowd `held` says so.
    pub more: bool,
}

/// Presence, time, and how much is held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Beacon {
    /// Network time in eighths of a second.
    pub stamp: u64,
    /// True if the sender's clock is agreed.
    pub agreed: bool,
    /// True if the sender takes streams, on which the two larger classes of cells travel.
    pub streams: bool,
    /// True if the sender holds any of these.
    pub large: bool,
    /// Number of live cells.
    pub live: u16,
    /// XOR over four bytes of each live cell's id.
    pub sum: u32,
}

impl Beacon {
    /// Returns the day of its stamp, counted from 1970; `None` for one that no clock shows.
    pub fn day(&self) -> Option<u32> {
        u32::try_from(self.stamp / STAMPS_PER_DAY).ok()
    }
}

/// Eighths of a second in a day.
const STAMPS_PER_DAY: u64 = 8 * 86_400;
