//! Errors for refused inputs, records and frames.

use mezza_core::{DecodeError, snapshot};

/// Why a machine refused an input; a refused input leaves the machine unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LinkError {
    /// Not a frame of this protocol, version or suite.
    #[error("malformed frame: {0}")]
    Malformed(#[from] DecodeError),
    /// A frame for another pair, of the wrong role, or of an attempt that is over; a tag that
    /// matches no state. The peer cannot distinguish these cases.
    #[error("refused")]
    Refused,
    /// Too much at once; the frame may be repeated.
    #[error("too much at once")]
    Busy,
    /// The caller reports an unknown write, or names an unknown session.
    #[error("there is no such write or session")]
    Unknown,
}

/// Why stored bytes could not be opened as a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// The seal does not open: torn, damaged, or sealed under another key.
    #[error("the seal does not open")]
    Sealed,
    /// The seal opens, but no version of this program writes this content.
    #[error("malformed record: {0}")]
    Malformed(#[from] DecodeError),
}

/// Why a protected frame is dropped; counted separately, but the peer cannot distinguish these
/// cases.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// Too short, beyond the last packet number, or a wrong tag.
    #[error("forged")]
    Forged,
    /// A packet number that was seen already, or is too old to know.
    #[error("replayed")]
    Replayed,
}

snapshot!(enum LinkError [Malformed(cause), Refused, Busy, Unknown]);
