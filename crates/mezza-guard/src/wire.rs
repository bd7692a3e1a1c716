//! Every frame that a guard sees: GKX between two ends, control frames between a client and its guard.
//!
//! ```text
//! 01 | kind u8 | ..          01-04 GKX, 15-17 SEKA, 20 RECORD (len u16), 21 CLOSE, 70-78 control (len u16)
//! ```

pub mod control;

use mezza_core::DecodeError;

/// The version byte at the beginning of every frame.
pub const VERSION: u8 = 0x01;
/// Kind of G1, the commitment.
pub const G1: u8 = 0x01;
/// Kind of G2, the answer.
pub const G2: u8 = 0x02;
/// Kind of G3, the opening with the tag of the initiator.
pub const G3: u8 = 0x03;
/// Kind of G4, the tag of the responder.
pub const G4: u8 = 0x04;
/// Kind of RECORD, a protected record of a link.
pub const RECORD: u8 = 0x20;
/// Kind of CLOSE, the end of a link.
pub const CLOSE: u8 = 0x21;
/// Bytes of G1: C1 and C2.
pub const G1_BYTES: usize = 66;
/// Bytes of G2: Y.
pub const G2_BYTES: usize = 34;
/// Bytes of G3: r, s and a tag.
pub const G3_BYTES: usize = 82;
/// Bytes of G4: a tag.
pub const G4_BYTES: usize = 18;
/// Bytes of a tag. A forgery succeeds with a probability of 2^-128, and a tampered client can hide
/// only half the bits of a 32-byte tag in it (attack A11).
pub const TAG_BYTES: usize = 16;

/// Returns the body of a frame with exactly `N` bytes after version and kind.
///
/// # Errors
/// [`DecodeError`] for another version, kind or size.
pub fn frame_body<const N: usize>(frame: &[u8], kind: u8) -> Result<&[u8; N], DecodeError> {
    match frame {
        [VERSION, seen, body @ ..] if *seen == kind => {
            // Sizes are fixed, because a length that the client chooses would be a channel
            // (GUARD-5).
            let is_short = body.len() < N;
            body.try_into()
                .map_err(|_| if is_short { DecodeError::Truncated } else { DecodeError::Trailing })
        }
        [_, _, ..] => Err(DecodeError::Value),
        _ => Err(DecodeError::Truncated),
    }
}

/// Puts version and kind before a body.
pub fn build_frame(kind: u8, parts: &[&[u8]]) -> alloc::vec::Vec<u8> {
    let mut frame = alloc::vec![VERSION, kind];
    for part in parts {
        frame.extend_from_slice(part);
    }
    frame
}

/// Splits a body into two fields of 32 bytes.
pub(crate) fn split_pair(body: &[u8; 64]) -> [&[u8]; 2] {
    let (first, second) = body.split_at(32);
    [first, second]
}
