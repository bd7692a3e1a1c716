//! Cuts a byte stream into frames.

use alloc::vec::Vec;

use crate::wire::DecodeError;

/// Error: a frame would be longer than its length field or its format allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("longer than a frame may be")]
pub struct FrameTooLong;

/// Collects one frame at a time: a length of `LENGTH` bytes (at most 4), big-endian, then `MIN` to
/// `MAX` bytes. Between two frames it holds no memory.
#[derive(Debug)]
pub struct Deframer<const LENGTH: usize, const MIN: usize, const MAX: usize> {
    length: [u8; LENGTH],
    length_bytes: usize,
    frame: Vec<u8>,
}

impl<const LENGTH: usize, const MIN: usize, const MAX: usize> Default
    for Deframer<LENGTH, MIN, MAX>
{
    fn default() -> Self {
        Self { length: [0; LENGTH], length_bytes: 0, frame: Vec::new() }
    }
}

impl<const LENGTH: usize, const MIN: usize, const MAX: usize> Deframer<LENGTH, MIN, MAX> {
    /// Consumes bytes from the front of `input`. Returns the content of a frame, without its
    /// length, as soon as the frame is complete; otherwise uses up `input` and returns `None`. The
    /// buffer grows with the received bytes, not with the value of a length field.
    ///
    /// # Errors
    /// [`DecodeError::Value`] for a length below `MIN` or above `MAX`. The stream cannot be used
    /// after this.
    pub fn next_frame(&mut self, input: &mut &[u8]) -> Result<Option<Vec<u8>>, DecodeError> {
        let head = take_front(input, LENGTH - self.length_bytes);
        self.length[self.length_bytes..][..head.len()].copy_from_slice(head);
        self.length_bytes += head.len();
        if self.length_bytes < LENGTH {
            return Ok(None);
        }
        let len = self.length.iter().fold(0, |len, byte| (len << 8) | usize::from(*byte));
        if !(MIN..=MAX).contains(&len) {
            return Err(DecodeError::Value);
        }
        self.frame.extend_from_slice(take_front(input, len - self.frame.len()));
        if self.frame.len() < len {
            return Ok(None);
        }
        self.length_bytes = 0;
        Ok(Some(core::mem::take(&mut self.frame)))
    }

    /// Returns the number of buffered bytes of an incomplete frame.
    pub fn buffered_bytes(&self) -> usize {
        self.length_bytes + self.frame.len()
    }
}

/// Removes at most `n` bytes from the front of `input` and returns them.
fn take_front<'a>(input: &mut &'a [u8], n: usize) -> &'a [u8] {
    let (head, tail) = input.split_at(n.min(input.len()));
    *input = tail;
    head
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_promise_of_bytes_allocates_nothing() {
        let mut splitter = Deframer::<3, 1, 65_536>::default();
        assert_eq!(splitter.next_frame(&mut &[1, 0, 0, 0x12][..]), Ok(None));
        assert!(splitter.frame.capacity() < 64);
        assert_eq!(splitter.buffered_bytes(), 4);
    }

    #[test]
    fn lengths_outside_the_limits_end_the_stream() {
        for bad in [[0, 0, 0, 9], [0, 0, 0, 13], [0xff; 4]] {
            assert_eq!(
                Deframer::<4, 10, 12>::default().next_frame(&mut &bad[..]),
                Err(DecodeError::Value)
            );
        }
    }
}
