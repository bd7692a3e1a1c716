//! Inputs and outputs of a node.

use alloc::vec::Vec;
use mezza_core::{DecodeError, Time};

use super::evidence::{Refusal, Ticket};
use crate::cell::{CellError, CellId};
use crate::clock::{ClockMode, ClockState, Grade};
use crate::engine::EngineSettings;
use crate::epoch::CellLife;
use crate::frame::Name;
use crate::limits::{CASTS_MAX, RADIOS_MAX, STORE_BYTES_MAX, STREAMS_MAX};

/// The number that the driver gives a link.
pub type LinkNumber = u32;
/// A frame's source: a number that the driver gives to each address.
pub type Source = u64;

/// The kind of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkKind {
    /// A broadcast or multicast link: one frame reaches all devices in range. It carries the two
    /// smaller classes of cells.
    Cast,
    /// A stream to one peer, in order. It carries the two larger classes.
    Stream,
    /// A stream to one peer without a cast link. It carries all classes.
    StreamAlone,
}

impl LinkKind {
    /// Returns the maximum number of links of this kind.
    pub(super) fn places_max(self) -> usize {
        match self {
            Self::Cast => CASTS_MAX,
            Self::Stream => STREAMS_MAX,
            Self::StreamAlone => RADIOS_MAX,
        }
    }

    /// Returns one bit for each class that travels on this kind.
    pub(super) fn classes(self) -> u8 {
        match self {
            Self::Cast => 0b0011,
            Self::Stream => 0b1100,
            Self::StreamAlone => 0b1111,
        }
    }
}

/// Settings of a node.
#[derive(Clone, Debug)]
pub struct NodeSettings {
    /// The rule by which the clock votes.
    pub mode: ClockMode,
    /// The only life (lifetime class) of cells that this network carries; `None`: all lives.
    pub life: Option<CellLife>,
    /// Size of the store, bytes.
    pub store_bytes: usize,
    /// Size of the store of cells that are carried for hours, bytes. With 0 these are stored as all others,
    /// and the disk has no copy of them.
    pub carried_bytes: usize,
    /// Settings of the engine.
    pub engine: EngineSettings,
    /// Rate limit for cells that local programs send: per second, and at once. With `None` only the
    /// size of the store limits them.
    pub own_rate: Option<(u32, u32)>,
    /// Minimum and maximum life of a name, s.
    pub name_life_s: (u64, u64),
}

impl Default for NodeSettings {
    fn default() -> Self {
        Self {
            mode: ClockMode::default(),
            life: None,
            store_bytes: STORE_BYTES_MAX,
            carried_bytes: 0,
            engine: EngineSettings::default(),
            own_rate: Some((2, 8)),
            name_life_s: (600, 900),
        }
    }
}

/// Events that a node handles.
#[derive(Clone, Debug)]
pub enum Input {
    /// A link is up.
    LinkUp {
        /// The driver's number of the link.
        link: LinkNumber,
        /// The kind of the link.
        kind: LinkKind,
        /// Maximum size of a frame on the link, bytes.
        frame_bytes_max: usize,
        /// How old a frame usually is when it arrives, µs.
        delay_us: u64,
        /// Frames that the link accepts at once.
        room: usize,
    },
    /// A link is gone.
    LinkDown {
        /// The link.
        link: LinkNumber,
    },
    /// A frame arrived.
    Frame {
        /// The link.
        link: LinkNumber,
        /// The source address.
        source: Source,
        /// The whole frame.
        bytes: Vec<u8>,
    },
    /// A link accepts more frames.
    Room {
        /// The link.
        link: LinkNumber,
        /// The number of further frames.
        frames: usize,
    },
    /// A reading of the device's own clock: at the start, after sleep, every minute, and when it
    /// was set.
    Rtc {
        /// The time of day.
        time: Time,
        /// The grade of the clock.
        grade: Grade,
    },
    /// A reading of the device's own clock with a known maximum error.
    RtcWithin {
        /// The time of day.
        time: Time,
        /// Maximum error of the clock, ms.
        within_ms: u32,
    },
    /// The user decided that the neighbours' clocks are right.
    TrustNeighbours,
    /// The user's decision to trust the neighbours, made earlier in the same system start.
    Trusted {
        /// The correction of our clock by that decision, ms.
        correction_ms: i64,
    },
    /// A local program sends a cell.
    Originate {
        /// The caller's number for the cell.
        ticket: Ticket,
        /// The life (lifetime class of keys) from the receiver's card.
        life: CellLife,
        /// The tick for which the payload is sealed.
        tick: u32,
        /// The envelope.
        payload: Vec<u8>,
    },
    /// A cell from a file.
    Import {
        /// The whole cell.
        cell: Vec<u8>,
    },
    /// A cell that an earlier run of this node stored on disk.
    Restore {
        /// The whole cell.
        cell: Vec<u8>,
        /// The stored number of the address that brought the cell.
        bringer: u32,
    },
    /// The node is about to stop.
    Leave,
}

/// The address that brought a cell, or the origin that counts as one, as it is stored on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Bringer {
    /// A neighbour at this address. The driver's number for the address is not valid after a
    /// restart.
    Neighbour(Source),
    /// An address of an earlier run, by its stored number.
    Kept(u32),
    /// A file, or this device: copies on disk do not distinguish them.
    Unnamed,
}

/// Effects that a node requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Send a frame.
    Send {
        /// The link.
        link: LinkNumber,
        /// The whole frame.
        frame: Vec<u8>,
    },
    /// A new cell, for programs that try to open it.
    Cell {
        /// The envelope.
        payload: Vec<u8>,
        /// The tick of sealing.
        tick: u32,
        /// The lifetime of the cell's keys.
        life: CellLife,
    },
    /// Store a cell on disk, because it lives for hours. This output comes before every frame that
    /// names the cell.
    Keep {
        /// The id of the cell.
        id: CellId,
        /// The address that brought the cell, against whose share of the store it counts.
        bringer: Bringer,
        /// The whole cell.
        bytes: Vec<u8>,
    },
    /// Delete the copy of a cell on disk: the cell has expired, or others took its room.
    Forget {
        /// The id of the cell.
        id: CellId,
    },
    /// A neighbour announced one of our own cells, after it had received it.
    Handed {
        /// The number by which the sender knows the cell.
        ticket: Ticket,
    },
    /// Further neighbours announced one of our own cells, after they had received it.
    Carried {
        /// The ticket of the cell.
        ticket: Ticket,
        /// The number of names; one device may have several.
        names: u32,
    },
    /// The last tick at which a cell of this device was useful is over.
    Expired {
        /// The ticket of the cell.
        ticket: Ticket,
    },
    /// The clock advanced to a new tick, or its state changed.
    Clock {
        /// The tick of network time.
        cur: u32,
        /// The tick of the device's own clock.
        anchor_tick: u32,
        /// The state of the clock.
        state: ClockState,
        /// The grade of the device's own clock.
        grade: Grade,
        /// Maximum error of the device's own clock, ms.
        within_ms: u64,
    },
    /// The name changed: close all streams and change all lower-layer addresses now. Nothing may be
    /// sent before the silence is over.
    NewName {
        /// The new name.
        name: Name,
        /// The length of the silence, ms.
        silence_ms: u64,
    },
    /// Open a stream to the source of a beacon.
    Dial {
        /// The address of the beacon.
        source: Source,
    },
    /// Close this stream: no cell needs it.
    Close {
        /// The link.
        link: LinkNumber,
    },
    /// The number of neighbours received in the last ten seconds.
    Neighbours(usize),
}

/// Why an input was refused. The node is unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The bytes are a malformed frame.
    #[error("the bytes are no frame: {0}")]
    Malformed(#[from] DecodeError),
    /// The bytes are a malformed cell.
    #[error("the bytes are no cell: {0}")]
    Cell(#[from] CellError),
    /// The frame is of another network, or its MAC is wrong.
    #[error("a frame of another network")]
    OtherNetwork,
    /// The frame is under a name without a beacon, or from another address than the beacon of that
    /// name.
    #[error("a frame of somebody who was not heard before")]
    Stranger,
    /// The frame is under this node's own name.
    #[error("a frame of this node itself")]
    Own,
    /// All slots for neighbours are in use.
    #[error("all places for neighbours are taken")]
    Full,
    /// The cell was not requested.
    #[error("a cell that nobody asked for")]
    Unasked,
    /// The cell is stale, is ahead of the clock, or has a life (lifetime class) that this network
    /// does not carry.
    #[error("a cell whose time is not now, or whose life this network does not carry")]
    Time,
    /// The neighbour that sent the cell has used its share of the store.
    #[error("its share of the store is full")]
    Share,
    /// The neighbour sent too many comparisons.
    #[error("compared just now")]
    Compared,
    /// The caller names an unknown link, or has too many links.
    #[error("no such link")]
    NoLink,
    /// The clock was not read yet, or showed no plausible time.
    #[error("this device does not know the time")]
    NoTime,
    /// The neighbours' clocks do not contradict the device's own.
    #[error("the clocks around agree with this one")]
    NothingToDecide,
    /// A cell of this device was refused.
    #[error("the cell cannot be taken: {0}")]
    Refused(#[from] Refusal),
}
