//! Inputs and outputs of a node.

use alloc::vec::Vec;
use mezza_core::{DecodeError, Time};

use super::evidence::{Refusal, Ticket};
use crate::cell::CellError;
use crate::clock::{ClockMode, ClockState, Grade};
use crate::engine::EngineSettings;
use crate::epoch::Life;
use crate::frame::Name;
use crate::limits::{CASTS_MAX, RADIOS_MAX, STORE_BYTES_MAX, STREAMS_MAX};

/// The driver's number of a link.
pub type LinkNumber = u32;
/// Where a frame came from, as the driver tells addresses apart: a number for each.
pub type Source = u64;

/// How a link carries frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkKind {
    /// One frame reaches everybody in range: the two smaller classes of cells travel here.
    Cast,
    /// One peer, in order: the two larger classes travel here.
    Stream,
    /// One peer, and no cast link beside it: all classes travel here.
    StreamAlone,
}

impl LinkKind {
    /// How many links of this kind a node has at most.
    pub(super) fn places_max(self) -> usize {
        match self {
            Self::Cast => CASTS_MAX,
            Self::Stream => STREAMS_MAX,
            Self::StreamAlone => RADIOS_MAX,
        }
    }

    /// One bit for each class that travels there.
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
    /// How the clock votes.
    pub mode: ClockMode,
    /// The one life of cells that this network carries; `None`: all of them.
    pub life: Option<Life>,
    /// Size of the store, bytes.
    pub store_bytes: usize,
    /// The rules' numbers.
    pub engine: EngineSettings,
    /// Own cells a second, and at once; `None`: as many as the store takes.
    pub own_rate: Option<(u32, u32)>,
    /// The shortest and the longest life of a name, s.
    pub name_life_s: (u64, u64),
}

impl Default for NodeSettings {
    fn default() -> Self {
        Self {
            mode: ClockMode::default(),
            life: Some(Life::Minute),
            store_bytes: STORE_BYTES_MAX,
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
        /// The driver's number for it.
        link: LinkNumber,
        /// How it carries frames.
        kind: LinkKind,
        /// The largest frame that it carries, bytes.
        frame_bytes_max: usize,
        /// How old a frame usually is when it arrives, µs.
        delay_us: u64,
        /// Frames that it takes at once.
        room: usize,
    },
    /// A link is gone.
    LinkDown {
        /// Which.
        link: LinkNumber,
    },
    /// A frame arrived.
    Frame {
        /// On which link.
        link: LinkNumber,
        /// From where.
        source: Source,
        /// All of it.
        bytes: Vec<u8>,
    },
    /// A link takes more frames.
    Room {
        /// Which.
        link: LinkNumber,
        /// How many more.
        frames: usize,
    },
    /// The device's own clock was read: at the start, after sleep, every minute, and when it was set.
    Rtc {
        /// The time of day.
        time: Time,
        /// How good it is.
        grade: Grade,
    },
    /// The same, where it is known how far the clock may be off.
    RtcWithin {
        /// The time of day.
        time: Time,
        /// How far it may be off, ms.
        within_ms: u32,
    },
    /// A person decided that the clocks around are right.
    TrustNeighbours,
    /// A person decided so before, while this system ran.
    Trusted {
        /// The correction of our clock by that decision, ms.
        correction_ms: i64,
    },
    /// Somebody here has something to say.
    Originate {
        /// Their number for it.
        ticket: Ticket,
        /// The life of the receiver's card.
        life: Life,
        /// The tick for which the payload is sealed.
        tick: u32,
        /// An envelope.
        payload: Vec<u8>,
    },
    /// A cell out of a file.
    Import {
        /// The whole cell.
        cell: Vec<u8>,
    },
    /// The node is about to stop.
    Leave,
}

/// Effects that a node requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Send this.
    Send {
        /// On which link.
        link: LinkNumber,
        /// The whole frame.
        frame: Vec<u8>,
    },
    /// A cell that was not here before, for whoever tries to open it.
    Cell {
        /// The envelope.
        payload: Vec<u8>,
        /// When it was sealed.
        tick: u32,
        /// How long its keys live.
        life: Life,
    },
    /// A neighbour announced an own cell after it was given to it.
    Handed {
        /// Which.
        ticket: Ticket,
    },
    /// So many neighbours did.
    Carried {
        /// Which.
        ticket: Ticket,
        /// Names, not people.
        names: u32,
    },
    /// An own cell is past its last useful tick.
    Expired {
        /// Which.
        ticket: Ticket,
    },
    /// The clock moved on, or what can be said of it changed.
    Clock {
        /// The tick of network time.
        cur: u32,
        /// The tick of the device's own clock.
        anchor_tick: u32,
        /// The knowledge about the clock.
        state: ClockState,
        /// How good the own clock is.
        grade: Grade,
        /// By how much the own clock may be off, ms.
        within_ms: u64,
    },
    /// The name changed: close all streams and change every address below it now. Nothing is to be
    /// sent before the silence is over.
    NewName {
        /// The new one.
        name: Name,
        /// How long nothing is sent, ms.
        silence_ms: u64,
    },
    /// Open a stream to where this frame came from.
    Dial {
        /// The address of a beacon.
        source: Source,
    },
    /// Close this stream: nothing is left to travel there.
    Close {
        /// Which.
        link: LinkNumber,
    },
    /// So many neighbours were heard in the last ten seconds.
    Neighbours(usize),
}

/// Why an input was refused. Nothing changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The bytes are no frame.
    #[error("the bytes are no frame: {0}")]
    Malformed(#[from] DecodeError),
    /// The bytes are no cell.
    #[error("the bytes are no cell: {0}")]
    Cell(#[from] CellError),
    /// A frame of another network, or one whose check is wrong.
    #[error("a frame of another network")]
    OtherNetwork,
    /// A frame of a name that no beacon was heard of, or from another address than its beacon.
    #[error("a frame of somebody who was not heard before")]
    Stranger,
    /// A frame of this node itself.
    #[error("a frame of this node itself")]
    Own,
    /// All places for neighbours are taken.
    #[error("all places for neighbours are taken")]
    Full,
    /// A cell that nobody asked for.
    #[error("a cell that nobody asked for")]
    Unasked,
    /// A cell past its time, ahead of it, or of a life that this network does not carry.
    #[error("a cell whose time is not now, or whose life this network does not carry")]
    Time,
    /// The neighbour that brought it has used its share of the store.
    #[error("its share of the store is full")]
    Share,
    /// Too many comparisons.
    #[error("compared just now")]
    Compared,
    /// The caller names a link that is not there, or has too many.
    #[error("no such link")]
    NoLink,
    /// No time was read yet, or none that can be true.
    #[error("this device does not know the time")]
    NoTime,
    /// The neighbours' clocks do not contradict the own one.
    #[error("the clocks around agree with this one")]
    NothingToDecide,
    /// An own cell cannot be taken.
    #[error("the cell cannot be taken: {0}")]
    Refused(#[from] Refusal),
}
