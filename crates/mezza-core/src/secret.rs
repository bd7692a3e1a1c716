//! Secret bytes: boxed, filled in place, wiped on drop, compared in constant time.

use alloc::boxed::Box;
use core::fmt;

use crate::wiping::wipe_bytes;
use crate::wire::{DecodeError, Reader};
use rand_core::CryptoRng;
use subtle::ConstantTimeEq;
use zeroize::{Zeroize, ZeroizeOnDrop};

/// `N` secret bytes on the heap, so that a move leaves no copy in the old place.
///
/// There is no `Clone`, and `Debug` shows only the size.
pub struct Secret<const N: usize>(Box<[u8; N]>);

impl<const N: usize> Secret<N> {
    /// Creates a secret in its final place on the heap; `write` fills it there.
    pub fn init_with(write: impl FnOnce(&mut [u8; N])) -> Self {
        let mut bytes = Box::new([0; N]);
        write(&mut bytes);
        Self(bytes)
    }

    /// Creates a secret of `N` random bytes from the caller's generator.
    pub fn random(rng: &mut dyn CryptoRng) -> Self {
        Self::init_with(|bytes| rng.fill_bytes(bytes))
    }

    /// Copies `bytes`. The caller wipes its own copy if that was secret.
    pub fn copy_from(bytes: &[u8; N]) -> Self {
        Self::init_with(|own| own.copy_from_slice(bytes))
    }

    /// Reads a secret from the next `N` bytes of a stored form.
    pub fn read_from(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self::copy_from(reader.read_array_ref()?))
    }

    /// Overwrites this secret in place; `write` fills in the new bytes.
    pub fn overwrite_with(&mut self, write: impl FnOnce(&mut [u8; N])) {
        write(&mut self.0);
    }

    /// Returns the bytes for a primitive that needs them.
    pub fn expose(&self) -> &[u8; N] {
        &self.0
    }

    /// Copies the secret. There is no `Clone`, so that a review sees each copy.
    #[must_use]
    pub fn duplicate(&self) -> Self {
        Self::copy_from(&self.0)
    }
}

impl<const N: usize> PartialEq for Secret<N> {
    fn eq(&self, other: &Self) -> bool {
        self.0.as_slice().ct_eq(other.0.as_slice()).into()
    }
}

impl<const N: usize> Eq for Secret<N> {}

impl<const N: usize> fmt::Debug for Secret<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Secret<{N}>")
    }
}

impl<const N: usize> Zeroize for Secret<N> {
    fn zeroize(&mut self) {
        wipe_bytes(self.0.as_mut_slice());
    }
}

impl<const N: usize> Drop for Secret<N> {
    fn drop(&mut self) {
        self.zeroize();
    }
}

impl<const N: usize> ZeroizeOnDrop for Secret<N> {}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;

    #[test]
    fn debug_is_silent() {
        let secret = Secret::<4>::init_with(|b| b.copy_from_slice(&[0xde, 0xad, 0xbe, 0xef]));
        assert_eq!(format!("{secret:?}"), "Secret<4>");
    }

    #[test]
    fn equality_looks_at_every_byte() {
        let zeros = Secret::<32>::init_with(|_| {});
        for i in 0..32 {
            assert_ne!(zeros, Secret::init_with(|b| b[i] = 1));
        }
        assert_eq!(zeros, zeros.duplicate());
    }

    #[test]
    fn wiping_leaves_zeros() {
        let mut secret = Secret::<32>::init_with(|b| b.fill(7));
        secret.zeroize();
        assert_eq!(secret.expose(), &[0; 32]);
    }
}
