//! Cuts the bytes of a connection into frames of SEKA.

use alloc::vec::Vec;

use mezza_core::DecodeError;
use mezza_guard::wire::control::{CONTROL_BODY_MAX, Control};
use mezza_seka::stream::{BODY_BYTES, CLOSE, RECORD, RECORD_HEADER_BYTES, body_bytes};
use mezza_seka::wire::{Ke1, Ke2, Ke3, S1, S2, S3, VERSION};

/// Bytes of version and kind, with which every frame begins.
const KIND_BYTES: usize = 2;
/// Bytes before the body of a control frame.
const CONTROL_HEADER_BYTES: usize = 4;

/// Collects one frame at a time. The buffer grows with the received bytes, and never beyond the
/// longest frame of 16,388 bytes.
#[derive(Debug, Default)]
pub struct StreamDeframer {
    frame: Vec<u8>,
}

impl StreamDeframer {
    /// Consumes bytes from the front of `input`. Returns a frame as soon as it is complete;
    /// otherwise uses up `input` and returns `None`.
    ///
    /// # Errors
    /// A frame of another version or of a kind that no stream carries, or a record of an invalid
    /// size. The stream cannot be used after this.
    pub fn next_frame(&mut self, input: &mut &[u8]) -> Result<Option<Vec<u8>>, DecodeError> {
        loop {
            let missing = bytes_needed(&self.frame)? - self.frame.len();
            if missing == 0 {
                return Ok(Some(core::mem::take(&mut self.frame)));
            }
            if input.is_empty() {
                return Ok(None);
            }
            let (head, tail) = input.split_at(missing.min(input.len()));
            self.frame.extend_from_slice(head);
            *input = tail;
        }
    }

    /// Returns the number of buffered bytes of an incomplete frame.
    pub fn buffered_bytes(&self) -> usize {
        self.frame.len()
    }
}

/// Returns the length in bytes of the frame that begins with these bytes, or of the part that shows
/// its length.
fn bytes_needed(frame: &[u8]) -> Result<usize, DecodeError> {
    let Some(kind) = kind_of(frame) else {
        // The version is checked at the first byte, so that other protocols are refused at once.
        return match frame.first() {
            Some(version) if *version != VERSION => Err(DecodeError::Value),
            _ => Ok(KIND_BYTES),
        };
    };
    if frame[0] != VERSION {
        return Err(DecodeError::Value);
    }
    match kind {
        RECORD if frame.len() < RECORD_HEADER_BYTES => Ok(RECORD_HEADER_BYTES),
        RECORD => Ok(RECORD_HEADER_BYTES + body_bytes(frame)?),
        CLOSE => Ok(KIND_BYTES),
        S1::KIND => Ok(S1::BYTES),
        S2::KIND => Ok(S2::BYTES),
        S3::KIND => Ok(S3::BYTES),
        Ke1::KIND => Ok(Ke1::BYTES),
        Ke2::KIND => Ok(Ke2::BYTES),
        Ke3::KIND => Ok(Ke3::BYTES),
        // Control frames of a guard.
        kind if Control::is_kind(kind) => match frame.first_chunk::<CONTROL_HEADER_BYTES>() {
            None => Ok(CONTROL_HEADER_BYTES),
            Some([_, _, high, low]) => {
                let bytes = usize::from(u16::from_be_bytes([*high, *low]));
                if bytes > CONTROL_BODY_MAX {
                    Err(DecodeError::Value)
                } else {
                    Ok(CONTROL_HEADER_BYTES + bytes)
                }
            }
        },
        // Optimistic pairing and nudges belong to the tunnel.
        _ => Err(DecodeError::Value),
    }
}

/// Returns the kind of a frame, its second byte.
pub(super) fn kind_of(frame: &[u8]) -> Option<u8> {
    frame.get(KIND_BYTES - 1).copied()
}

const _: () = assert!(BODY_BYTES[5] == 16_384, "the longest frame is documented");

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    #[test]
    fn frames_are_cut_at_any_byte_and_the_buffer_is_bounded() {
        let mut record = vec![VERSION, RECORD, 1, 0];
        record.resize(4 + 256, 7);
        let mut ke3 = vec![VERSION, Ke3::KIND];
        ke3.resize(Ke3::BYTES, 9);
        let seed = [&[VERSION, 0x76, 0, 48][..], &[5; 48]].concat();
        let stream = [&record[..], &ke3, &seed, &[VERSION, CLOSE], &record].concat();
        for step in [1, 2, 3, 255, 1_000] {
            let mut deframer = StreamDeframer::default();
            let mut frames = Vec::new();
            for mut chunk in stream.chunks(step) {
                while let Some(frame) = deframer.next_frame(&mut chunk).expect("sound") {
                    frames.push(frame);
                }
                assert!(deframer.buffered_bytes() < 4 + 256);
            }
            assert_eq!(frames, [&record[..], &ke3, &seed, &[VERSION, CLOSE], &record]);
            assert_eq!(deframer.buffered_bytes(), 0);
        }
    }

    #[test]
    fn other_protocols_and_sizes_end_the_stream() {
        let bad: [&[u8]; 8] = [
            b"GET / HTTP/1.1",
            &[2],
            &[VERSION, 0x10, 0, 0],
            &[VERSION, 0x18],
            &[VERSION, RECORD, 0, 255],
            &[VERSION, 0x71, 0, 65],
            &[VERSION, 0x79],
            &[VERSION, RECORD, 0xff, 0xff],
        ];
        for mut bytes in bad {
            assert!(StreamDeframer::default().next_frame(&mut bytes).is_err());
        }
    }
}
