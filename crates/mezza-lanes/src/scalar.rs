//! A secret scalar: boxed, wiped, silent.

use alloc::boxed::Box;
use core::fmt;

use crate::wipe::wipe_bytes;

/// The 32 bytes of an X25519 scalar, little-endian, clamped where they are used (RFC 7748,
/// section 5). They live on the heap, where a move leaves no copy behind, and are wiped on drop.
pub struct Scalar(Box<[u8; 32]>);

impl Scalar {
    /// Makes a scalar by writing it where it will live.
    pub fn fill_with(write: impl FnOnce(&mut [u8; 32])) -> Self {
        let mut bytes = Box::new([0; 32]);
        write(&mut bytes);
        Self(bytes)
    }

    /// Copies 32 bytes, which the caller then wipes if they were secret where they lay.
    pub fn copy_from(bytes: &[u8; 32]) -> Self {
        Self::fill_with(|own| own.copy_from_slice(bytes))
    }

    /// The bytes as they came in, not clamped.
    pub fn expose(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Debug for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Scalar")
    }
}

impl Drop for Scalar {
    fn drop(&mut self) {
        wipe_bytes(self.0.as_mut_slice());
    }
}
