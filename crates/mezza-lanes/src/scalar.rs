//! Secret scalars: boxed, wiped, never printed.

use alloc::boxed::Box;
use core::fmt;

use crate::wipe::wipe_bytes;

/// The 32 bytes of an X25519 scalar, little-endian, clamped at each use (RFC 7748, section 5). The
/// bytes live on the heap, so that a move leaves no copy, and are wiped on drop.
pub struct Scalar(Box<[u8; 32]>);

impl Scalar {
    /// Makes a scalar; `write` fills its bytes in place.
    pub fn fill_with(write: impl FnOnce(&mut [u8; 32])) -> Self {
        let mut bytes = Box::new([0; 32]);
        write(&mut bytes);
        Self(bytes)
    }

    /// Copies 32 bytes. The caller wipes the original if it is secret.
    pub fn copy_from(bytes: &[u8; 32]) -> Self {
        Self::fill_with(|own| own.copy_from_slice(bytes))
    }

    /// Returns the bytes as given, not clamped.
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
