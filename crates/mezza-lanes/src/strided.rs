//! The layout of many equal-sized messages in one buffer.

use core::fmt;

/// Bytes of an authentication tag (RFC 8439, section 2.5).
const TAG_BYTES: usize = 16;

/// Messages of equal size at equal distances in one buffer:
///
/// ```text
/// |<- offset ->|<- len ->|<- 16 ->|          |<- offset ->|<- len ->|<- 16 ->|
/// |            |  body   |  tag   |          |            |  body   |  tag   |          | ..
/// |<--------------- stride ----------------->|<--------------- stride ----------------->| ..
/// ```
pub struct Strided<'a> {
    bytes: &'a mut [u8],
    stride: usize,
    offset: usize,
    len: usize,
    count: usize,
}

impl<'a> Strided<'a> {
    /// Describes one message every `stride` bytes: a body of `len` bytes from `offset` on, then its
    /// tag of 16 bytes. The bytes between messages are not touched.
    ///
    /// # Panics
    /// If body and tag do not fit into a stride, or the length of `bytes` is no multiple of
    /// `stride`.
    pub fn new(bytes: &'a mut [u8], stride: usize, offset: usize, len: usize) -> Self {
        let end = offset.checked_add(len).and_then(|end| end.checked_add(TAG_BYTES));
        assert!(end.is_some_and(|end| end <= stride), "body and tag lie within the stride");
        assert!(bytes.len().is_multiple_of(stride), "whole strides");
        let count = bytes.len() / stride;
        Self { bytes, stride, offset, len, count }
    }

    /// Returns the number of messages.
    pub fn message_count(&self) -> usize {
        self.count
    }

    /// Returns the length of a body in bytes.
    pub fn body_bytes(&self) -> usize {
        self.len
    }

    /// Returns body and tag of each message, in order.
    pub fn messages(&mut self) -> impl Iterator<Item = (&mut [u8], &mut [u8; TAG_BYTES])> {
        self.messages_from(0)
    }

    /// Returns body and tag of each message from message `first` on, which must exist.
    pub(crate) fn messages_from(
        &mut self,
        first: usize,
    ) -> impl Iterator<Item = (&mut [u8], &mut [u8; TAG_BYTES])> {
        let offset = self.offset;
        let len = self.len;
        self.bytes[first * self.stride..].chunks_exact_mut(self.stride).filter_map(move |chunk| {
            let (body, rest) = chunk.get_mut(offset..)?.split_at_mut_checked(len)?;
            Some((body, rest.first_chunk_mut()?))
        })
    }
}

#[cfg(any(test, target_arch = "x86_64"))]
impl Strided<'_> {
    /// Returns all bytes, gaps included.
    pub(crate) fn all_bytes(&self) -> &[u8] {
        self.bytes
    }

    /// Returns the offset of the body of message `i`; beyond the last message, the offset of the
    /// last.
    pub(crate) fn body_start(&self, i: usize) -> usize {
        i.min(self.count - 1) * self.stride + self.offset
    }
}

impl fmt::Debug for Strided<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Strided<{} x {}>", self.count, self.len)
    }
}
