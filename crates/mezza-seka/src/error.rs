//! Why an input is refused.

use mezza_core::{DecodeError, snapshot};

/// Why a machine refuses an input; what it refuses leaves it as it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LinkError {
    /// Not a frame of this protocol, version or suite.
    #[error("malformed frame: {0}")]
    Malformed(#[from] DecodeError),
    /// A frame for another pair, of the wrong role, or of an attempt that is over; a tag that fits no
    /// state. All of these look alike outside.
    #[error("refused")]
    Refused,
    /// Too much at once: the frame may come again.
    #[error("too much at once")]
    Busy,
    /// The caller answers a write that is not out, or a session that is not there.
    #[error("there is no such write or session")]
    Unknown,
}

/// Why stored bytes are no record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// The seal does not open: torn, damaged, or sealed under another key.
    #[error("the seal does not open")]
    Sealed,
    /// It opens and holds what no version of this program writes.
    #[error("malformed record: {0}")]
    Malformed(#[from] DecodeError),
}

/// Why a protected frame is dropped; counted apart, alike outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// Too short, beyond the last packet number, or a tag that does not fit.
    #[error("forged")]
    Forged,
    /// A packet number that was seen already, or is too old to tell.
    #[error("replayed")]
    Replayed,
}

snapshot!(enum LinkError [Malformed(cause), Refused, Busy, Unknown]);
