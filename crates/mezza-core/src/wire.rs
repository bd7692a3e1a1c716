//! The wire codec: big-endian integers, every length checked before use, no trailing byte.

use alloc::vec::Vec;

/// The reason why bytes cannot be decoded as a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// Fewer bytes than the format needs.
    #[error("cut short")]
    Truncated,
    /// Bytes after the end of the message.
    #[error("bytes after the end")]
    Trailing,
    /// A field holds a value that the format does not allow.
    #[error("a field holds a value that is not allowed")]
    Value,
}

/// Reads fields from the front of a byte string.
#[derive(Clone, Debug)]
pub struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    /// A reader at the start of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// Decodes all of `bytes` with `decode`.
    ///
    /// # Errors
    /// The error of `decode`, or [`DecodeError::Trailing`] if bytes are left over.
    pub fn decode_exact<T, E: From<DecodeError>>(
        bytes: &'a [u8],
        decode: impl FnOnce(&mut Self) -> Result<T, E>,
    ) -> Result<T, E> {
        let mut reader = Self(bytes);
        let value = decode(&mut reader)?;
        reader.expect_end()?;
        Ok(value)
    }

    /// Number of bytes left.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns true if nothing is left.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns all bytes left, without advancing the reader.
    pub fn peek(&self) -> &'a [u8] {
        self.0
    }

    /// Reads `n` bytes.
    pub fn read_bytes(&mut self, n: usize) -> Result<&'a [u8], DecodeError> {
        let (head, tail) = self.0.split_at_checked(n).ok_or(DecodeError::Truncated)?;
        self.0 = tail;
        Ok(head)
    }

    /// Reads all bytes left.
    pub fn read_rest(&mut self) -> &'a [u8] {
        core::mem::take(&mut self.0)
    }

    /// Reads the next `N` bytes as a reference.
    pub fn read_array_ref<const N: usize>(&mut self) -> Result<&'a [u8; N], DecodeError> {
        let (head, tail) = self.0.split_first_chunk().ok_or(DecodeError::Truncated)?;
        self.0 = tail;
        Ok(head)
    }

    /// Reads the next `N` bytes.
    pub fn read_array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        self.read_array_ref().copied()
    }

    /// Reads an integer of 1 byte.
    pub fn read_u8(&mut self) -> Result<u8, DecodeError> {
        Ok(u8::from_be_bytes(self.read_array()?))
    }

    /// Reads an integer of 2 bytes.
    pub fn read_u16(&mut self) -> Result<u16, DecodeError> {
        Ok(u16::from_be_bytes(self.read_array()?))
    }

    /// Reads an integer of 3 bytes.
    pub fn read_u24(&mut self) -> Result<u32, DecodeError> {
        let [a, b, c] = self.read_array()?;
        Ok(u32::from_be_bytes([0, a, b, c]))
    }

    /// Reads an integer of 4 bytes.
    pub fn read_u32(&mut self) -> Result<u32, DecodeError> {
        Ok(u32::from_be_bytes(self.read_array()?))
    }

    /// Reads an integer of 6 bytes.
    pub fn read_u48(&mut self) -> Result<u64, DecodeError> {
        let [a, b, c, d, e, f] = self.read_array()?;
        Ok(u64::from_be_bytes([0, 0, a, b, c, d, e, f]))
    }

    /// Reads an integer of 8 bytes.
    pub fn read_u64(&mut self) -> Result<u64, DecodeError> {
        Ok(u64::from_be_bytes(self.read_array()?))
    }

    /// Reads a length of 1 byte and the byte string after it.
    pub fn read_var8(&mut self) -> Result<&'a [u8], DecodeError> {
        let n = self.read_u8()?;
        self.read_bytes(usize::from(n))
    }

    /// Reads a length of 2 bytes and the byte string after it.
    pub fn read_var16(&mut self) -> Result<&'a [u8], DecodeError> {
        let n = self.read_u16()?;
        self.read_bytes(usize::from(n))
    }

    /// Checks that no byte is left.
    ///
    /// # Errors
    /// [`DecodeError::Trailing`] if bytes are left over.
    pub fn expect_end(&self) -> Result<(), DecodeError> {
        if self.0.is_empty() { Ok(()) } else { Err(DecodeError::Trailing) }
    }
}

/// Writes fields one after another.
#[derive(Debug, Default)]
pub struct Writer(Vec<u8>);

impl Writer {
    /// Creates an empty message.
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates an empty message with room for `bytes` bytes.
    pub fn with_capacity(bytes: usize) -> Self {
        Self(Vec::with_capacity(bytes))
    }

    /// Number of bytes written.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns true if nothing was written.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the bytes written so far.
    pub fn as_slice(&self) -> &[u8] {
        &self.0
    }

    /// Returns the message.
    pub fn finish(self) -> Vec<u8> {
        self.0
    }

    /// Writes bytes without a length.
    #[inline]
    pub fn put_bytes(&mut self, bytes: &[u8]) -> &mut Self {
        self.0.extend_from_slice(bytes);
        self
    }

    /// Writes an integer of 1 byte.
    pub fn put_u8(&mut self, value: u8) -> &mut Self {
        self.put_bytes(&[value])
    }

    /// Writes an integer of 2 bytes.
    pub fn put_u16(&mut self, value: u16) -> &mut Self {
        self.put_bytes(&value.to_be_bytes())
    }

    /// Writes an integer of 3 bytes; higher bits must be zero.
    pub fn put_u24(&mut self, value: u32) -> &mut Self {
        debug_assert!(value < 1 << 24);
        self.put_bytes(&value.to_be_bytes()[1..])
    }

    /// Writes an integer of 4 bytes.
    pub fn put_u32(&mut self, value: u32) -> &mut Self {
        self.put_bytes(&value.to_be_bytes())
    }

    /// Writes an integer of 6 bytes; higher bits must be zero.
    pub fn put_u48(&mut self, value: u64) -> &mut Self {
        debug_assert!(value < 1 << 48);
        self.put_bytes(&value.to_be_bytes()[2..])
    }

    /// Writes an integer of 8 bytes.
    pub fn put_u64(&mut self, value: u64) -> &mut Self {
        self.put_bytes(&value.to_be_bytes())
    }

    /// Writes a length of 1 byte and a byte string of at most 255 bytes.
    pub fn put_var8(&mut self, bytes: &[u8]) -> &mut Self {
        debug_assert!(bytes.len() <= 0xff);
        self.put_u8(bytes.len() as u8).put_bytes(bytes)
    }

    /// Writes a length of 2 bytes and a byte string of at most 65,535 bytes.
    pub fn put_var16(&mut self, bytes: &[u8]) -> &mut Self {
        debug_assert!(bytes.len() <= 0xffff);
        self.put_u16(bytes.len() as u16).put_bytes(bytes)
    }

    /// Writes zeros until the message has `len` bytes. Writes nothing if it is already longer.
    pub fn pad_to(&mut self, len: usize) -> &mut Self {
        if self.0.len() < len {
            self.0.resize(len, 0);
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_written_is_read(a: u8, b: u16, c in 0u32..1 << 24, d: u32, e in 0u64..1 << 48,
                                   f: u64, s in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut w = Writer::new();
            w.put_u8(a).put_u16(b).put_u24(c).put_u32(d).put_u48(e).put_u64(f).put_var8(&s).put_var16(&s);
            let bytes = w.finish();
            let read = |r: &mut Reader<'_>| -> Result<_, DecodeError> {
                Ok((r.read_u8()?, r.read_u16()?, r.read_u24()?, r.read_u32()?, r.read_u48()?, r.read_u64()?,
                    r.read_var8()?.to_vec(), r.read_var16()?.to_vec()))
            };
            prop_assert_eq!(Reader::decode_exact(&bytes, read), Ok((a, b, c, d, e, f, s.clone(), s)));
            for cut in 0..bytes.len() {
                prop_assert_eq!(Reader::decode_exact(&bytes[..cut], read), Err(DecodeError::Truncated));
            }
            let mut long = bytes;
            long.push(0);
            prop_assert_eq!(Reader::decode_exact(&long, read), Err(DecodeError::Trailing));
        }
    }
}
