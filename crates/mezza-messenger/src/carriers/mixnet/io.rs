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
    /// Leave the joined network.
    Leave,
    /// Request the identity of an inviter: its hello and card then arrive in cells (messenger 4.4).
    AskWho(ContactId),
    /// The entry server answered, and the hello was sent.
    Up {
        /// True if the server's key equals the key in the config.
        trusted: bool,
    },
    /// The connection broke or could not be made.
    Down,
    /// A frame from the entry server.
    Frame {
        /// The received frame.
        frame: Frame,
        /// Milliseconds since the frame was read from the line.
        age_ms: u64,
    },
    /// A job ended.
    Done(ClientJob, ClientJobOutput),
    /// A job of this round was lost and will not end.
    Lost(RoundId),
}

/// Requests of the device to the network.
#[derive(Debug)]
pub enum MixnetOutput {
    /// Connect at this time and send the hello at once. Report `Up` or `Down`.
    Connect {
        /// Time of the connection attempt.
        at: Time,
        /// The hello, which is the first frame.
        hello: Frame,
        /// `host:port` of the entry.
        address: String,
        /// Ed25519 key of the entry server; with `None` any key is accepted, and `Up` is not
        /// trusted.
        key: Option<[u8; 32]>,
    },
    /// Close the connection, then report `Down`.
    Disconnect,
    /// The network was left: close the connection and report nothing more about it or its jobs.
    Leave,
    /// A frame for the schedule of the line.
    Frame(ScheduledFrame),
    /// Run a job and return its result by [`MixnetInput::Done`].
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
