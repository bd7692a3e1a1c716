//! The receiving side of a stream, which joins pieces to messages.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use core::fmt;

use mezza_core::{DecodeError, Reader, Wiping, Writer, snapshot};

use super::{LENGTH_BYTES, WINDOW};
use crate::limits::MESSAGE_BYTES_MAX;
use crate::wire::cell::{PIECE_BYTES, Piece};

/// Error: the partner sent pieces that no sender creates. The stream delivers nothing more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the partner's stream is broken")]
pub struct StreamBroken;

/// A complete message.
#[derive(Debug, PartialEq, Eq)]
pub struct ReceivedMessage {
    /// Number of its last piece, which identifies it in [`Receiver::mark_kept`].
    pub last: u32,
    /// The message, 1 to 8,998 bytes.
    pub bytes: Wiping<Vec<u8>>,
}

/// Most stored pieces. A partner that respects the window reaches 40 of a message and 33 after it.
const HELD_MAX: usize = 255;

struct Held {
    piece: Piece,
    durable: bool,
}

snapshot!(struct Held { piece, durable });

/// Received pieces of one contact. A piece stays until its message is stored by the messenger.
#[derive(Default)]
pub struct Receiver {
    /// The first piece of the first message that the messenger has not stored.
    start: u32,
    /// The first piece of the first incomplete message.
    open: u32,
    /// The pieces from `start` on.
    held: BTreeMap<u32, Held>,
    /// The last pieces of messages between `start` and `open`.
    ends: BTreeSet<u32>,
    /// The first piece that is not acknowledged.
    ack: u32,
    broken: bool,
}

snapshot!(struct Receiver { start, open, held, ends, ack, broken });

impl Receiver {
    /// Returns true if a piece is new and inside the window.
    pub fn wants_piece(&self, seq: u32) -> bool {
        // The window bounds the pieces that a partner can store here. `sack` covers no more,
        // either.
        let ahead = seq.checked_sub(self.ack).is_some_and(|ahead| ahead <= WINDOW);
        ahead && self.has_room(seq)
    }

    fn has_room(&self, seq: u32) -> bool {
        let new = seq >= self.start && !self.held.contains_key(&seq);
        // A full store refuses new pieces. They are sent again once the messenger has stored
        // messages.
        new && !self.broken && self.held.len() < HELD_MAX
    }

    /// Adds a piece from a cell that opened. Returns the messages that it completes, in order. A
    /// repeated piece, or one beyond the window, changes nothing.
    ///
    /// # Errors
    /// [`StreamBroken`] for a message of length 0 or above 8,998 bytes, and for a piece whose size
    /// does not fit its place in the message. After that, every call returns this error.
    pub fn receive_piece(
        &mut self,
        seq: u32,
        piece: &Piece,
    ) -> Result<Vec<ReceivedMessage>, StreamBroken> {
        // After one broken message no later position is certain.
        if self.broken {
            return Err(StreamBroken);
        }
        if self.wants_piece(seq) {
            self.held.insert(seq, Held { piece: piece.clone(), durable: false });
        }
        self.take_messages()
    }

    /// Returns the messages that have become complete.
    ///
    /// # Errors
    /// [`StreamBroken`], as for [`receive_piece`](Self::receive_piece).
    pub fn take_messages(&mut self) -> Result<Vec<ReceivedMessage>, StreamBroken> {
        let mut messages = Vec::new();
        loop {
            match self.next_message() {
                Ok(Some(message)) => messages.push(message),
                Ok(None) => {
                    self.move_on();
                    return Ok(messages);
                }
                Err(broken) => {
                    self.held.clear();
                    self.ends.clear();
                    // All stored pieces are dropped, because they cannot become messages any more.
                    (self.start, self.open, self.broken) = (self.ack, self.ack, true);
                    return Err(broken);
                }
            }
        }
    }

    /// Returns the message that begins at `open` if all its pieces have arrived.
    fn next_message(&mut self) -> Result<Option<ReceivedMessage>, StreamBroken> {
        let Some(first) = self.held.get(&self.open) else { return Ok(None) };
        let length = first.piece.bytes().first_chunk().map_or(0, |n| u16::from_be_bytes(*n));
        let length = usize::from(length);
        // The length determines the number of pieces, so it is checked before any of them.
        if !(1..=MESSAGE_BYTES_MAX).contains(&length) {
            return Err(StreamBroken);
        }
        let mut left = LENGTH_BYTES + length;
        let count = left.div_ceil(PIECE_BYTES) as u32;
        let last = self.open.checked_add(count - 1).ok_or(StreamBroken)?;
        let mut whole = Wiping::new(Vec::with_capacity(left));
        for seq in self.open..=last {
            let due = left.min(PIECE_BYTES);
            left -= due;
            match self.held.get(&seq).map(|held| held.piece.bytes()) {
                // Every piece except the last is full. Another size means that the positions of the
                // two sides differ.
                Some(bytes) if bytes.len() != due => return Err(StreamBroken),
                Some(bytes) => whole.extend_from_slice(bytes),
                None => return Ok(None),
            }
        }
        self.open = last + 1;
        self.ends.insert(last);
        let bytes = Wiping::new(whole[LENGTH_BYTES..].to_vec());
        Ok(Some(ReceivedMessage { last, bytes }))
    }

    /// Records that a piece is durable here.
    pub fn mark_durable(&mut self, seq: u32) {
        if let Some(held) = self.held.get_mut(&seq) {
            held.durable = true;
        }
        self.move_on();
    }

    /// Records that the message with this last piece, and all earlier ones, are durable at the
    /// messenger.
    pub fn mark_kept(&mut self, last: u32) {
        // The message is unknown or already confirmed; a repeated confirmation changes nothing.
        if !self.ends.contains(&last) {
            return;
        }
        self.start = last + 1;
        self.ends = self.ends.split_off(&self.start);
        self.held = self.held.split_off(&self.start);
        self.ack = self.ack.max(self.start);
        self.move_on();
    }

    fn move_on(&mut self) {
        while self.is_ackable(self.ack) {
            self.ack += 1;
        }
    }

    /// Returns true if a piece may be acknowledged: it is durable, and not the end of a message
    /// that the messenger has not stored (MIX-33).
    fn is_ackable(&self, seq: u32) -> bool {
        self.held.get(&seq).is_some_and(|held| held.durable) && !self.ends.contains(&seq)
    }

    /// Returns `ack` and `sack` for the next cell, which cover durable pieces. A piece ahead of a
    /// gap is covered only if it is full, because a shorter one is the end of a message.
    pub fn ack_fields(&self) -> (u32, u32) {
        let full =
            |seq: &u32| self.held.get(seq).is_some_and(|h| h.piece.bytes().len() == PIECE_BYTES);
        // A short piece may be the end of a message that the messenger has not stored (MIX-33).
        let named = |seq: &u32| self.is_ackable(*seq) && (*seq < self.open || full(seq));
        let behind = (0..WINDOW).filter_map(|j| Some((j, self.ack.checked_add(1 + j)?)));
        let sack = behind.filter(|(_, seq)| named(seq)).map(|(j, _)| 1 << j).sum();
        (self.ack, sack)
    }

    /// Returns the first piece of the first message that the messenger has not stored.
    pub const fn start(&self) -> u32 {
        self.start
    }

    /// Returns a stored piece.
    pub fn held_piece(&self, seq: u32) -> Option<&Piece> {
        self.held.get(&seq).map(|held| &held.piece)
    }

    /// Returns the numbers of all stored pieces.
    pub fn held_pieces(&self) -> impl Iterator<Item = u32> {
        self.held.keys().copied()
    }

    /// Restores a piece from a record. [`take_messages`](Self::take_messages) returns the complete
    /// messages. The piece was inside the window when it arrived, but only later records of the
    /// same line show the position of that window.
    pub fn restore_piece(&mut self, seq: u32, piece: &Piece) {
        // The window is not checked, because its position at that time is known from later records
        // only.
        if self.has_room(seq) {
            self.held.insert(seq, Held { piece: piece.clone(), durable: true });
        }
    }

    /// Applies `start` and `ack` of a record that was written before the start.
    ///
    /// # Errors
    /// [`DecodeError::Value`] if a piece in between is missing.
    pub fn was_at(&mut self, start: u32, ack: u32) -> Result<(), DecodeError> {
        if start > self.start {
            (self.start, self.open) = (start, start);
            self.held = self.held.split_off(&start);
        }
        // `ack` never decreases, because the partner may have dropped acknowledged pieces.
        self.ack = self.ack.max(ack).max(start);
        if self.is_whole() { Ok(()) } else { Err(DecodeError::Value) }
    }

    /// Returns true if all acknowledged pieces that may still be needed are there.
    fn is_whole(&self) -> bool {
        let due = self.ack.checked_sub(self.start);
        due.is_some_and(|due| self.held.range(..self.ack).count() as u64 == u64::from(due))
    }

    /// Writes `start u32 | ack u32 | broken u8 | count u8 | count x (seq u32 | var8 piece)`.
    pub fn write_to(&self, w: &mut Writer) {
        w.put_u32(self.start)
            .put_u32(self.ack)
            .put_u8(u8::from(self.broken))
            .put_u8(self.held.len() as u8);
        for (seq, held) in &self.held {
            w.put_u32(*seq).put_var8(held.piece.bytes());
        }
    }

    /// Reads the form of [`write_to`](Self::write_to); all pieces in it are durable.
    /// [`take_messages`](Self::take_messages) returns complete messages again.
    ///
    /// # Errors
    /// [`DecodeError`] unless the bytes are the result of `write_to`.
    pub fn read_from(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let start = r.read_u32()?;
        let ack = r.read_u32()?;
        let broken = match r.read_u8()? {
            0 => false,
            1 => true,
            _ => return Err(DecodeError::Value),
        };
        let mut receiver = Self { start, open: start, ack, broken, ..Self::default() };
        for _ in 0..r.read_u8()? {
            let seq = r.read_u32()?;
            let piece = Piece::new(r.read_var8()?).ok_or(DecodeError::Value)?;
            let ascends = receiver.held.last_key_value().is_none_or(|(last, _)| *last < seq);
            // A broken stream has no pieces, and pieces before `start` belong to delivered
            // messages.
            if !ascends || seq < start || broken {
                return Err(DecodeError::Value);
            }
            receiver.held.insert(seq, Held { piece, durable: true });
        }
        if receiver.is_whole() { Ok(receiver) } else { Err(DecodeError::Value) }
    }
}

impl fmt::Debug for Receiver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Receiver(at {}, {} pieces)", self.ack, self.held.len())
    }
}

#[cfg(test)]
mod tests;
