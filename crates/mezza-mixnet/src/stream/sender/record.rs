//! The stored form of a sender, and its restore together with pieces sealed after the snapshot.

use mezza_core::{DecodeError, Reader, Wiping, Writer};

use super::{Message, MessageInTransit, PieceState, Sender};
use crate::limits::MESSAGE_BYTES_MAX;
use crate::stream::{LENGTH_BYTES, WINDOW};
use crate::wire::cell::{PIECE_BYTES, Piece};

impl Sender {
    /// Restores a sealed piece from a record, with the number of the first piece of its message.
    /// Records are applied in their order.
    ///
    /// # Errors
    /// [`DecodeError::Value`] if the piece does not continue the earlier ones.
    pub fn restore_sealed(
        &mut self,
        seq: u32,
        first: u32,
        piece: &Piece,
    ) -> Result<(), DecodeError> {
        // The snapshot or an earlier record already has this piece.
        if seq < self.next {
            return Ok(());
        }
        let bytes = piece.bytes();
        // A gap means that a row is missing, and the content of a number must not be guessed.
        if seq != self.next || seq >= u32::MAX - WINDOW {
            return Err(DecodeError::Value);
        }
        if seq == first {
            let framed = Wiping::new(bytes.to_vec());
            let message = Message { ticket: None, told: false, framed };
            let cut = MessageInTransit::begin(message, first);
            let ended = self.cuts.back().is_none_or(|last| last.end() <= first);
            if !ended || !cut.message.is_sound() {
                return Err(DecodeError::Value);
            }
            self.cuts.push_back(cut);
        } else {
            let cut = self.cuts.back_mut().filter(|cut| cut.first == first && seq < cut.end());
            let message = &mut cut.ok_or(DecodeError::Value)?.message;
            let at = (seq - first) as usize * PIECE_BYTES;
            if message.framed.len() == at {
                let grown = Wiping::new([message.framed.as_slice(), bytes].concat());
                message.framed = grown;
            }
            let due = message.len().saturating_sub(at).min(PIECE_BYTES);
            let same = message.framed.get(at..).is_some_and(|rest| rest.starts_with(bytes));
            if !same || bytes.len() != due || !message.is_sound() {
                return Err(DecodeError::Value);
            }
        }
        // The result of its round is unknown, so the piece is sent again.
        self.places.insert(seq, PieceState::Failed);
        self.next = seq + 1;
        Ok(())
    }

    /// Writes the state for a start: `next u32 | count u16 | count x (first u32 | unacknowledged
    /// pieces, a bit each, u64 | var16 length and bytes)`. Messages without sealed pieces are not
    /// included. All pieces of a message that was fully acknowledged ahead of earlier ones are sent
    /// again after a start.
    pub fn write_to(&self, w: &mut Writer) {
        w.put_u32(self.next).put_u16(self.cuts.len() as u16);
        for cut in &self.cuts {
            let open = self.places.range(cut.first..cut.end());
            let mut bits = open.fold(0_u64, |bits, (seq, _)| bits | 1 << (seq - cut.first));
            // Only zero bits would mean that the message is acknowledged and removed, which it is
            // not yet.
            if bits == 0 && cut.end() <= self.next {
                bits = (1 << cut.message.piece_count()) - 1;
            }
            w.put_u32(cut.first).put_u64(bits).put_var16(&cut.message.framed);
        }
    }

    /// Reads the form of [`write_to`](Self::write_to). The messages have no tickets, and every
    /// piece is sent again, because the result of its round is unknown.
    ///
    /// # Errors
    /// [`DecodeError`] unless the bytes are the result of `write_to`.
    pub fn read_from(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let mut sender = Self { next: r.read_u32()?, ..Self::default() };
        let count = r.read_u16()?;
        let mut begins = None;
        for at in 0..count {
            let first = r.read_u32()?;
            let bits = r.read_u64()?;
            let framed = r.read_var16()?;
            let framed = Wiping::new(framed.to_vec());
            let mut cut =
                MessageInTransit::begin(Message { ticket: None, told: false, framed }, first);
            let last = at + 1 == count;
            let pieces = cut.message.piece_count();
            let sealed = sender.next.saturating_sub(first).min(pieces);
            let follows = begins.is_none_or(|begins| begins <= first);
            let known = u64::from(sealed) * PIECE_BYTES as u64;
            let whole = cut.message.framed.len() == cut.message.len();
            // `write_to` fulfils each of these conditions. Other bytes could reuse a number for
            // different content.
            if !follows
                || !cut.message.is_sound()
                || sealed == 0
                || (!last && sealed < pieces)
                || !(whole || cut.message.framed.len() as u64 >= known)
                || bits >> sealed != 0
                || (bits == 0 && sealed == pieces)
            {
                return Err(DecodeError::Value);
            }
            let open = (0..sealed).filter(|i| bits >> i & 1 == 1);
            sender.places.extend(open.map(|i| (first + i, PieceState::Failed)));
            cut.met = ((1 << sealed) - 1) & !bits;
            begins = Some(cut.end());
            sender.cuts.push_back(cut);
        }
        Ok(sender)
    }
}

impl Message {
    /// Returns true if this is a whole message, or its beginning in whole pieces.
    fn is_sound(&self) -> bool {
        let known = self.framed.len();
        known > LENGTH_BYTES
            && (LENGTH_BYTES + 1..=LENGTH_BYTES + MESSAGE_BYTES_MAX).contains(&self.len())
            && (known == self.len() || (known < self.len() && known.is_multiple_of(PIECE_BYTES)))
    }
}
