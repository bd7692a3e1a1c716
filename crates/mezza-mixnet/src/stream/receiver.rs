//! The side that puts pieces together again.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::fmt;

use mezza_core::Wiping;

use super::{LENGTH_BYTES, WINDOW};
use crate::limits::MESSAGE_BYTES_MAX;
use crate::wire::cell::Piece;

/// The partner sent what no sender makes: nothing more comes out of this stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the partner's stream is broken")]
pub struct Broken;

/// Pieces of one contact on their way to become messages.
#[derive(Default)]
pub struct Receiver {
    /// The piece that is waited for.
    expected: u32,
    /// Pieces behind it.
    held: BTreeMap<u32, Piece>,
    /// The beginning of a message.
    partial: Wiping<Vec<u8>>,
    broken: bool,
    /// What may be acknowledged: `ack` and `sack` of what is durable.
    durable: (u32, u32),
}

impl Receiver {
    /// A piece of a cell that opened; the messages that it completes, in order. A piece that came
    /// before, or lies beyond the window, changes nothing.
    ///
    /// # Errors
    /// [`Broken`] for a message of no length or above 8,998 bytes, and ever after.
    pub fn receive(&mut self, seq: u32, piece: &Piece) -> Result<Vec<Wiping<Vec<u8>>>, Broken> {
        if self.broken {
            return Err(Broken);
        }
        if seq.checked_sub(self.expected).is_some_and(|ahead| ahead <= WINDOW) {
            self.held.entry(seq).or_insert_with(|| piece.clone());
        }
        let mut messages = Vec::new();
        while let Some(piece) = self.held.remove(&self.expected) {
            self.expected = self.expected.saturating_add(1);
            if let Err(broken) = self.append(piece.bytes(), &mut messages) {
                *self = Self { expected: self.expected, broken: true, ..Self::default() };
                return Err(broken);
            }
        }
        Ok(messages)
    }

    /// Appends to the message that is being put together. A message ends where its piece ends: a
    /// sender begins each one with a new piece.
    fn append(&mut self, piece: &[u8], messages: &mut Vec<Wiping<Vec<u8>>>) -> Result<(), Broken> {
        if self.partial.capacity() == 0 {
            // All at once, so that growing leaves no copy behind.
            self.partial = Wiping::new(Vec::with_capacity(LENGTH_BYTES + MESSAGE_BYTES_MAX));
        }
        if self.partial.len() + piece.len() > LENGTH_BYTES + MESSAGE_BYTES_MAX {
            return Err(Broken);
        }
        self.partial.extend_from_slice(piece);
        let Some((length, body)) = self.partial.split_first_chunk::<LENGTH_BYTES>() else {
            return Ok(());
        };
        let length = usize::from(u16::from_be_bytes(*length));
        if length == 0 || length > MESSAGE_BYTES_MAX || body.len() > length {
            return Err(Broken);
        }
        if body.len() == length {
            messages.push(Wiping::new(body.to_vec()));
            self.partial = Wiping::default();
        }
        Ok(())
    }

    /// Everything that came until now is durable, and so are the messages it completed (MIX-33).
    pub fn commit(&mut self) {
        let bit = |seq: &u32| 1_u32.checked_shl(*seq - self.expected - 1).unwrap_or(0);
        self.durable = (self.expected, self.held.keys().map(bit).fold(0, |sack, bit| sack | bit));
    }

    /// `ack` and `sack` for the next cell: what was durable at the last [`commit`](Self::commit).
    pub const fn acknowledged(&self) -> (u32, u32) {
        self.durable
    }
}

impl fmt::Debug for Receiver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Receiver(expects {}, {} behind)", self.expected, self.held.len())
    }
}
