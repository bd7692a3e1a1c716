//! Cuts a byte stream into frames.

use alloc::vec::Vec;

use mezza_core::DecodeError;

use super::LENGTH_BYTES;
use crate::limits::FRAME_BYTES_MAX;
use crate::service::HEAD_BYTES;

/// Collects one frame at a time; between frames it holds no memory.
#[derive(Debug, Default)]
pub struct Splitter {
    length: [u8; LENGTH_BYTES],
    length_bytes: usize,
    frame: Vec<u8>,
}

impl Splitter {
    /// Eats from the front of `input`; gives `type | service | round | body` as soon as a frame is
    /// whole, else `None` with `input` used up. The buffer grows with what arrives, never with
    /// what a length field promises.
    ///
    /// # Errors
    /// [`DecodeError::Value`] for a length below 10 or above 262,144: the stream is lost from
    /// there on.
    pub fn next(&mut self, input: &mut &[u8]) -> Result<Option<Vec<u8>>, DecodeError> {
        let head = eat(input, LENGTH_BYTES - self.length_bytes);
        self.length[self.length_bytes..][..head.len()].copy_from_slice(head);
        self.length_bytes += head.len();
        if self.length_bytes < LENGTH_BYTES {
            return Ok(None);
        }
        let len = u32::from_be_bytes(self.length) as usize;
        if !(HEAD_BYTES..=FRAME_BYTES_MAX).contains(&len) {
            return Err(DecodeError::Value);
        }
        self.frame.extend_from_slice(eat(input, len - self.frame.len()));
        if self.frame.len() < len {
            return Ok(None);
        }
        self.length_bytes = 0;
        Ok(Some(core::mem::take(&mut self.frame)))
    }

    /// Bytes held back because their frame is not whole yet.
    pub fn held_bytes(&self) -> usize {
        self.length_bytes + self.frame.len()
    }
}

/// At most `n` bytes from the front of `input`.
fn eat<'a>(input: &mut &'a [u8], n: usize) -> &'a [u8] {
    let (head, tail) = input.split_at(n.min(input.len()));
    *input = tail;
    head
}
