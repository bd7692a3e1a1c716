//! Cuts the bytes of one side into frames.
//!
//! ```text
//! 01 | kind | ..    01-04 GKX and 15-17 SEKA of fixed size, 20 RECORD and 70-78 control with a length
//! ```

use mezza_guard::wire::control::{CONTROL_BODY_MAX, Control};
use mezza_guard::wire::{
    CLOSE, G1, G1_BYTES, G2, G2_BYTES, G3, G3_BYTES, G4, G4_BYTES, RECORD, VERSION,
};
use mezza_seka::wire::{Ke1, Ke2, Ke3};

use super::table::RECORD_LENGTHS;

/// Bytes before the length field of a record or control frame is complete.
const HEADER_BYTES: usize = 4;

/// Bytes that begin no frame of this version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the bytes are no frame of a link, or a record of another length")]
pub(crate) struct NoFrame;

/// Collects the bytes of one side, one frame at a time.
#[derive(Debug, Default)]
pub(crate) struct FrameCutter {
    frame: Vec<u8>,
}

impl FrameCutter {
    /// Consumes bytes from the front of `input`. Returns a frame as soon as it is complete;
    /// otherwise uses up `input` and returns `None`. The buffer grows with the received bytes, not
    /// with the value of a length field.
    ///
    /// # Errors
    /// [`NoFrame`] for another version, kind or length. The stream cannot be used after this.
    pub(crate) fn next_frame(&mut self, input: &mut &[u8]) -> Result<Option<Vec<u8>>, NoFrame> {
        loop {
            let wanted = match find_size(&self.frame)? {
                Some(size) if self.frame.len() == size => {
                    return Ok(Some(std::mem::take(&mut self.frame)));
                }
                Some(size) => size,
                // The size is in the first bytes, which are taken one by one.
                None => self.frame.len() + 1,
            };
            if input.is_empty() {
                return Ok(None);
            }
            let count = (wanted - self.frame.len()).min(input.len());
            let (head, rest) = input.split_at(count);
            self.frame.extend_from_slice(head);
            *input = rest;
        }
    }
}

/// Returns the size of the frame that begins with these bytes, or `None` if more bytes are needed.
fn find_size(bytes: &[u8]) -> Result<Option<usize>, NoFrame> {
    let kind = match bytes {
        [] | [VERSION] => return Ok(None),
        [VERSION, kind, ..] => *kind,
        _ => return Err(NoFrame),
    };
    Ok(Some(match kind {
        G1 => G1_BYTES,
        G2 => G2_BYTES,
        G3 => G3_BYTES,
        G4 => G4_BYTES,
        Ke1::KIND => Ke1::BYTES,
        Ke2::KIND => Ke2::BYTES,
        Ke3::KIND => Ke3::BYTES,
        CLOSE => 2,
        RECORD => match read_length(bytes) {
            None => return Ok(None),
            // Another length would be a free choice of the client (GUARD-31).
            Some(length) if !RECORD_LENGTHS.contains(&length) => return Err(NoFrame),
            Some(length) => HEADER_BYTES + usize::from(length),
        },
        kind if Control::is_kind(kind) => match read_length(bytes) {
            None => return Ok(None),
            Some(length) if usize::from(length) > CONTROL_BODY_MAX => return Err(NoFrame),
            Some(length) => HEADER_BYTES + usize::from(length),
        },
        _ => return Err(NoFrame),
    }))
}

fn read_length(bytes: &[u8]) -> Option<u16> {
    let [_, _, high, low] = bytes.first_chunk::<HEADER_BYTES>()?;
    Some(u16::from_be_bytes([*high, *low]))
}

/// Returns true if a frame belongs to an established link.
pub(crate) fn is_of_link(frame: &[u8]) -> bool {
    matches!(frame, [VERSION, RECORD | CLOSE, ..])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(pieces: &[&[u8]]) -> Result<Vec<Vec<u8>>, NoFrame> {
        let mut cutter = FrameCutter::default();
        let mut frames = Vec::new();
        for piece in pieces {
            let mut input = *piece;
            while let Some(frame) = cutter.next_frame(&mut input)? {
                frames.push(frame);
            }
            assert!(input.is_empty());
        }
        Ok(frames)
    }

    #[test]
    fn frames_come_out_whole_however_the_bytes_arrive() {
        let record = [&[1, RECORD, 1, 0][..], &[7; 256]].concat();
        let first = [&[1, Ke1::KIND][..], &[9; 86]].concat();
        let control = [1, 0x77, 0, 3, 1, 2, 3];
        let all = [&record[..], &first, &control, &[1, CLOSE]].concat();
        let whole = cut(&[&all]).expect("frames");
        let bytes: Vec<&[u8]> = all.chunks(1).collect();
        assert_eq!(cut(&bytes), Ok(whole.clone()));
        assert_eq!(whole, [record, first, control.to_vec(), vec![1, CLOSE]]);
    }

    #[test]
    fn guard_36_a_length_is_checked_before_anything_is_collected() {
        for bad in [
            &[2_u8][..],
            &[1, 0x30],
            &[1, 0x81],
            &[1, RECORD, 1, 1],
            &[1, RECORD, 0xff, 0xff],
            &[1, 0x70, 0, 65],
        ] {
            assert_eq!(cut(&[bad]), Err(NoFrame), "{bad:?}");
            let bytes: Vec<&[u8]> = bad.chunks(1).collect();
            assert_eq!(cut(&bytes), Err(NoFrame), "{bad:?}");
        }
        let mut cutter = FrameCutter::default();
        assert_eq!(cutter.next_frame(&mut &[1, RECORD, 0x40, 0][..]), Ok(None));
        assert!(cutter.frame.capacity() < 64);
    }
}
