//! The three services, and the sizes of their messages.

use mezza_core::{DecodeError, Reader, Writer, snapshot};

use crate::limits::{FRAME_BYTES_MAX, GROUP};

/// Bytes of an AEAD tag.
pub const TAG_BYTES: usize = 16;
/// Bytes that one layer adds to an onion: a public key and a tag.
pub const LAYER_BYTES: usize = 32 + TAG_BYTES;
/// Bytes of a dead drop's id.
pub const DROP_BYTES: usize = 16;
/// Bytes of a sealed cell.
pub const CELL_BYTES: usize = 256;
/// Bytes of a token of the call service.
pub const TOKEN_BYTES: usize = 16;
/// Bytes of a sealed invitation.
pub const INVITATION_BYTES: usize = 260;
/// Bytes of a batch frame's body before its items: offset and count.
const ITEMS_HEAD_BYTES: usize = 6;
/// Bytes of a frame's head after the length field: type, service, round.
pub(crate) const HEAD_BYTES: usize = 10;

/// The purpose of a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Service {
    /// Cells are swapped in dead drops, and replies return.
    Conversation,
    /// Tokens are published as one set per bucket.
    Call,
    /// Invitations are published per bucket.
    Invitation,
}

snapshot!(enum Service [Conversation, Call, Invitation]);

impl Service {
    /// All services, ascending.
    pub const ALL: [Self; 3] = [Self::Conversation, Self::Call, Self::Invitation];

    /// Returns the number on the wire.
    pub const fn number(self) -> u8 {
        match self {
            Self::Conversation => 1,
            Self::Call => 2,
            Self::Invitation => 3,
        }
    }

    /// Returns the service with this number.
    ///
    /// # Errors
    /// [`DecodeError::Value`] for any number but 1, 2, 3.
    pub fn from_number(number: u8) -> Result<Self, DecodeError> {
        Self::ALL.into_iter().find(|s| s.number() == number).ok_or(DecodeError::Value)
    }

    /// Returns the bytes of the innermost plaintext: 272, 20 or 264.
    pub const fn innermost_bytes(self) -> usize {
        match self {
            Self::Conversation => DROP_BYTES + CELL_BYTES,
            Self::Call => 4 + TOKEN_BYTES,
            Self::Invitation => 4 + INVITATION_BYTES,
        }
    }

    /// Returns the bytes of an onion with `layers` layers left; 0 layers give the innermost
    /// plaintext.
    pub const fn onion_bytes(self, layers: usize) -> usize {
        self.innermost_bytes() + LAYER_BYTES * layers
    }

    /// Returns true if onions get replies.
    pub const fn has_replies(self) -> bool {
        matches!(self, Self::Conversation)
    }
}

/// Returns the bytes of a reply sealed by `layers` mixes. A client of n mixes gets n layers.
pub const fn reply_bytes(layers: usize) -> usize {
    CELL_BYTES + TAG_BYTES * layers
}

/// Returns the number of items of `size` bytes in each batch frame except the last: whole groups of
/// 256.
pub const fn items_per_frame(size: usize) -> usize {
    // Whole groups: the batch inversion of the kernel works on 256 points at a time.
    GROUP * ((FRAME_BYTES_MAX - HEAD_BYTES - ITEMS_HEAD_BYTES) / (GROUP * size))
}

/// One round of one service. Round numbers only increase.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RoundId {
    /// The service of the round.
    pub service: Service,
    /// Number of the round.
    pub round: u64,
}

snapshot!(struct RoundId { service, round });

impl RoundId {
    /// Reads the 9 bytes of service and round.
    ///
    /// # Errors
    /// [`DecodeError`] if bytes are missing or the service is unknown.
    pub fn read_from(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self { service: Service::from_number(reader.read_u8()?)?, round: reader.read_u64()? })
    }

    /// Writes the 9 bytes of service and round.
    pub fn write_to(self, writer: &mut Writer) {
        writer.put_u8(self.service.number()).put_u64(self.round);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The values of the table of onions in section "Messages" of the specification.
    #[test]
    fn sizes_are_those_of_the_specification() {
        assert_eq!(Service::ALL.map(|s| s.onion_bytes(3)), [416, 164, 408]);
        assert_eq!(reply_bytes(3), 304);
        assert_eq!([416, 368].map(items_per_frame), [512; 2]);
        assert_eq!([320, 304, 288, 272].map(items_per_frame), [768; 4]);
        assert!(Service::ALL.map(|s| items_per_frame(s.onion_bytes(8))).iter().all(|n| *n > 0));
    }
}
