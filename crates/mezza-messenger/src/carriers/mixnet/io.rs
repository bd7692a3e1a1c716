//! Inputs and outputs of the mixnet carrier.

use alloc::string::String;
use core::fmt;

use mezza_core::{Time, snapshot};
use mezza_mixnet::RoundId;
use mezza_mixnet::client::{ClientJob, ClientJobOutput, ScheduledFrame};
use mezza_mixnet::wire::Frame;

use crate::io::{ContactId, NetworkAddress};

/// Inputs of the driver about the connection to the network.
pub enum MixnetInput {
    /// Join this network.
    Join(NetworkAddress),
    /// Leave the network.
    Leave,
    /// Ask who it is that invites: their hello and card come in cells (messenger 4.4).
    AskWho(ContactId),
    /// The entry answers, and the hello was sent; `trusted`: its key is the one of the config.
    Up {
        /// True if the key was checked.
        trusted: bool,
    },
    /// The connection is gone, or could not be made.
    Down,
    /// A frame of the entry.
    Frame {
        /// The frame.
        frame: Frame,
        /// How long ago it was read from the line, milliseconds.
        age_ms: u64,
    },
    /// A job ended.
    Done(ClientJob, ClientJobOutput),
    /// A job of this round will never end.
    Lost(RoundId),
}

/// Requests of the device to the network.
#[derive(Debug)]
pub enum MixnetOutput {
    /// Connect at this time, send the hello at once, then say `Up` or `Down`.
    Connect {
        /// When to connect.
        at: Time,
        /// The first frame.
        hello: Frame,
        /// `host:port` of the entry.
        address: String,
        /// Its key; `None`: any key, and `Up` is not trusted.
        key: Option<[u8; 32]>,
    },
    /// Hang up, then say `Down`.
    Disconnect,
    /// The network was left: hang up, and say nothing more of this connection nor of its jobs.
    Leave,
    /// A frame for the schedule of the line.
    Frame(ScheduledFrame),
    /// Run a job and hand it back.
    Job(ClientJob),
}

snapshot!(enum MixnetOutput [
    Connect { at, hello, address, key }, Disconnect, Leave, Frame(a), Job(a),
]);

impl fmt::Debug for MixnetInput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Join(_) => f.write_str("Join"),
            Self::Leave => f.write_str("Leave"),
            Self::AskWho(contact) => write!(f, "AskWho({})", contact.0),
            Self::Up { trusted } => write!(f, "Up({trusted})"),
            Self::Down => f.write_str("Down"),
            Self::Frame { frame, .. } => write!(f, "{frame:?}"),
            Self::Done(job, _) => write!(f, "Done({job:?})"),
            Self::Lost(round) => write!(f, "Lost({round:?})"),
        }
    }
}
