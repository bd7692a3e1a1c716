//! The byte stream between two contacts: pieces in cells, each delivered once and in order, however
//! many meetings fail.
//!
//! ```text
//! message -> u16 length | bytes -> pieces of at most 225 bytes -> one cell per meeting
//! sealed -> in flight -> Met: sent          -> acknowledged: gone
//!                     -> else: first in line
//! ```
//!
//! The content of a piece is fixed when it is first sealed. A piece in flight is not sent again. A
//! sent piece is sent again if four later results were Met and it is not acknowledged. Every piece
//! of a message except its last is full.
//!
//! After a start both sides are restored from durable data: [`Sender::restore_sealed`],
//! [`Receiver::restore_piece`].

mod receiver;
mod sender;

pub use receiver::{ReceivedMessage, Receiver, StreamBroken};
pub use sender::{CellOutcome, Sender, StreamError};

/// Most pieces under way at a time, which `ack` and `sack` can acknowledge.
pub const WINDOW: u32 = 32;
/// Most bytes of messages that wait for one contact.
pub const QUEUE_BYTES_MAX: usize = 262_144;
/// Number of later Met results after which a piece counts as lost.
const PATIENCE: u32 = 4;
/// Bytes of the length field before a message.
const LENGTH_BYTES: usize = 2;

#[cfg(test)]
mod tests;
