//! Lists of 32-byte keys, wiped on drop.

use alloc::vec;
use alloc::vec::Vec;
use core::fmt;
use core::ops::{Deref, DerefMut};

use mezza_core::{CryptoRng, snapshot, wipe_bytes};

/// Keys, scalars or shared secrets, 32 bytes each. The length is fixed, because growing would leave
/// copies in memory. `Debug` shows the number only.
#[derive(Default)]
pub struct SecretVec(Vec<[u8; 32]>);

snapshot!(struct SecretVec(inner));

impl SecretVec {
    /// Creates `count` keys of zeros.
    pub fn zeros(count: usize) -> Self {
        Self(vec![[0; 32]; count])
    }

    /// Draws `count` random keys.
    pub fn draw(count: usize, rng: &mut dyn CryptoRng) -> Self {
        let mut keys = Self::zeros(count);
        // Filled in place, so that no copy of a key is left on the stack.
        rng.fill_bytes(keys.as_flattened_mut());
        keys
    }
}

impl Deref for SecretVec {
    type Target = [[u8; 32]];

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl DerefMut for SecretVec {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.0
    }
}

impl Drop for SecretVec {
    fn drop(&mut self) {
        wipe_bytes(self.0.as_flattened_mut());
    }
}

impl fmt::Debug for SecretVec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SecretVec({})", self.0.len())
    }
}
