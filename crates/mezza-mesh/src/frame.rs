//! Frames between devices, as values. Only `wire` defines their bytes.

use alloc::boxed::Box;

use crate::set::Set;

/// The short-lived name of a device: 48 bits on the wire, the device's number in a crowd.
pub type Name = u64;

/// One frame without its sender's name. Cells are slots of the receiver's table.
#[derive(Clone, Debug)]
pub enum MeshFrame {
    /// Presence, time, and number of held cells.
    Beacon(Beacon),
    /// Announces new cells that the sender holds since its last announcement.
    Have(Set),
    /// Requests cells from `to`.
    Want {
        /// The neighbour from which the cells are requested.
        to: Name,
        /// True if an earlier request failed. The neighbour then sends the cell even if it has sent
        /// that cell less than 200 ms ago.
        again: bool,
        /// The requested cells.
        set: Set,
    },
    /// The cells that were requested, or that a comparison showed to be lacking.
    Data(Set),
    /// The set of cells of the sender, for comparison. Rare and large, hence boxed.
    Sync(Box<SyncFrame>),
    /// The sender's queue for `to` is long.
    Busy {
        /// The neighbour that must wait.
        to: Name,
        /// The waiting time, ms.
        wait_ms: u16,
    },
    /// The sender is about to change its name or to leave.
    Bye,
}

/// The set of cells of a device, which one neighbour compares with its own.
#[derive(Clone, Debug)]
pub struct SyncFrame {
    /// The neighbour that compares.
    pub to: Name,
    /// The set of the sender. A receiver uses the cells that it holds too.
    pub held: Set,
    /// The cells of the receiver to which the comparison is limited; `None`: all.
    pub within: Option<Set>,
    /// True if the sender holds cells that the receiver does not know. In a simulated crowd `held`
    /// shows this.
    pub more: bool,
}

/// Presence, time, and number of held cells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Beacon {
    /// Network time in eighths of a second.
    pub stamp: u64,
    /// True if the sender's clock agrees with those of its neighbours.
    pub agreed: bool,
    /// True if the sender accepts streams, on which the two larger classes of cells travel.
    pub streams: bool,
    /// True if the sender holds cells of the two larger classes.
    pub large: bool,
    /// Number of live cells.
    pub live: u16,
    /// Checksum of the live cells: XOR over four bytes of each cell's id.
    pub sum: u32,
}

impl Beacon {
    /// Returns the day of the stamp, counted from 1970, or `None` if the stamp is out of range.
    pub fn day(&self) -> Option<u32> {
        u32::try_from(self.stamp / STAMPS_PER_DAY).ok()
    }
}

/// Eighths of a second in a day.
const STAMPS_PER_DAY: u64 = 8 * 86_400;
