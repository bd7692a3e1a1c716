//! The byte stream between two contacts: pieces in cells, each delivered once and in order however
//! many meetings fail.
//!
//! ```text
//! message -> u16 length | bytes -> pieces of at most 225 bytes -> one cell per meeting
//! sealed -> in flight -> Met: sent          -> acknowledged: gone
//!                     -> else: first in line
//! ```
//!
//! The content of a piece is fixed when it is first sealed. A piece in flight is not sent again, one
//! that was sent is sent again when four later results were Met and it is not acknowledged. Every
//! piece of a message but its last is full.
//!
//! Both sides are rebuilt after a start from what was durable: [`Sender::restore_sealed`],
//! [`Receiver::restore_piece`].

mod receiver;
mod sender;

pub use receiver::{ReceivedMessage, Receiver, StreamBroken};
pub use sender::{CellOutcome, Sender, StreamError};

/// Pieces that may be under way at a time: those that `ack` and `sack` can name.
pub const WINDOW: u32 = 32;
/// Bytes of messages that wait for one contact, at most.
pub const QUEUE_BYTES_MAX: usize = 262_144;
/// Later results that must be Met before a piece counts as lost.
const PATIENCE: u32 = 4;
/// Bytes of the length in front of a message.
const LENGTH_BYTES: usize = 2;

#[cfg(test)]
mod tests;
