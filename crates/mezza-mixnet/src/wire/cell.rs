//! A cell: 240 bytes with header and piece of the byte stream between two contacts.
//!
//! `flags 1 | seq 4 | ack 4 | sack 4 | len 2 | bytes 225, zero padded`

use mezza_core::{DecodeError, Reader, Writer, snapshot};

/// Bytes of a cell before it is sealed.
pub const PLAIN_BYTES: usize = 240;
/// Most bytes of the stream in one cell.
pub const PIECE_BYTES: usize = 225;
/// Bytes before the piece.
const HEAD_BYTES: usize = PLAIN_BYTES - PIECE_BYTES;

const DATA: u8 = 1;
const LEAVING: u8 = 4;

/// The content of a cell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cell {
    /// True in the last three cells before the sender stops serving this contact.
    pub leaving: bool,
    /// Number of the piece, or of the next new one if the cell has none.
    pub seq: u32,
    /// Number of the first piece that the sender lacks.
    pub ack: u32,
    /// Bit j is set if the sender has piece `ack + 1 + j`.
    pub sack: u32,
    /// The piece, 0 to 225 bytes, if the cell has one.
    pub piece: Option<Piece>,
}

/// A piece of the byte stream, at most 225 bytes.
#[derive(Clone, PartialEq, Eq)]
pub struct Piece {
    len: u8,
    bytes: [u8; PIECE_BYTES],
}

snapshot!(struct Piece { len, bytes });

impl Piece {
    /// Creates a piece of these bytes, or returns `None` above 225 bytes.
    pub fn new(piece: &[u8]) -> Option<Self> {
        let mut bytes = [0; PIECE_BYTES];
        bytes.get_mut(..piece.len())?.copy_from_slice(piece);
        Some(Self { len: piece.len() as u8, bytes })
    }

    /// Returns the bytes of the stream.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

impl core::fmt::Debug for Piece {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Piece({} bytes)", self.len)
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        // A piece is unencrypted until it is sealed, so it is wiped.
        mezza_core::wipe_bytes(&mut self.bytes);
    }
}

/// Error: the decrypted bytes are not a cell. They count as a meeting, and their content is
/// ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the cell holds what no cell holds")]
pub struct MalformedCell;

impl Cell {
    /// Encodes the 240 bytes that are sealed.
    pub fn encode(&self) -> [u8; PLAIN_BYTES] {
        let flags = u8::from(self.piece.is_some()) * DATA + u8::from(self.leaving) * LEAVING;
        let piece = self.piece.as_ref().map_or(&[][..], Piece::bytes);
        let mut head = Writer::with_capacity(HEAD_BYTES);
        head.put_u8(flags)
            .put_u32(self.seq)
            .put_u32(self.ack)
            .put_u32(self.sack)
            .put_u16(piece.len() as u16);
        let mut cell = [0; PLAIN_BYTES];
        cell[..HEAD_BYTES].copy_from_slice(head.as_slice());
        cell[HEAD_BYTES..HEAD_BYTES + piece.len()].copy_from_slice(piece);
        cell
    }

    /// Reads 240 decrypted bytes.
    ///
    /// # Errors
    /// [`MalformedCell`] for an unknown flag, a length above 225 or without data, or padding other
    /// than zeros.
    pub fn decode(plain: &[u8; PLAIN_BYTES]) -> Result<Self, MalformedCell> {
        let (head, tail) = plain.split_at(HEAD_BYTES);
        let (flags, seq, ack, sack, len) = head_of(head).map_err(|_| MalformedCell)?;
        let (piece, padding) = tail.split_at_checked(len).ok_or(MalformedCell)?;
        let data = flags & DATA != 0;
        let known = flags & !(DATA | LEAVING) == 0;
        // Each cell has one form, because unknown flags and padding would be a hidden channel.
        if !known || (!data && len > 0) || padding.iter().any(|byte| *byte != 0) {
            return Err(MalformedCell);
        }
        let piece = data.then(|| Piece::new(piece)).flatten();
        Ok(Self { leaving: flags & LEAVING != 0, seq, ack, sack, piece })
    }
}

fn head_of(head: &[u8]) -> Result<(u8, u32, u32, u32, usize), DecodeError> {
    Reader::decode_exact(head, |r| {
        Ok((r.read_u8()?, r.read_u32()?, r.read_u32()?, r.read_u32()?, usize::from(r.read_u16()?)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn cells() -> impl Strategy<Value = Cell> {
        let piece = proptest::option::of(proptest::collection::vec(any::<u8>(), 0..=PIECE_BYTES));
        (any::<bool>(), any::<[u32; 3]>(), piece).prop_map(|(leaving, [seq, ack, sack], piece)| {
            Cell { leaving, seq, ack, sack, piece: piece.and_then(|p| Piece::new(&p)) }
        })
    }

    proptest! {
        #[test]
        fn what_is_encoded_is_decoded(cell in cells()) {
            prop_assert_eq!(Cell::decode(&cell.encode()), Ok(cell));
        }

        #[test]
        fn what_is_decoded_is_encoded_alike(at in 0..PLAIN_BYTES, bit in 0..8, cell in cells()) {
            let mut plain = cell.encode();
            plain[at] ^= 1_u8 << bit;
            if let Ok(other) = Cell::decode(&plain) {
                prop_assert_eq!(other.encode(), plain);
            }
        }
    }

    #[test]
    fn what_no_cell_holds_is_refused() {
        let plain =
            Cell { leaving: false, seq: 1, ack: 2, sack: 3, piece: Piece::new(b"x") }.encode();
        for (at, value) in [(0, 3), (0, 9), (0, 0), (13, 1), (14, 226), (16, 1), (239, 1)] {
            let mut wrong = plain;
            wrong[at] = value;
            assert_eq!(Cell::decode(&wrong), Err(MalformedCell), "byte {at} = {value}");
        }
        assert!(Piece::new(&[0; PIECE_BYTES + 1]).is_none());
    }
}
