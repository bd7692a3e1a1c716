//! A list of operations encoded as bytes, with which fuzzers and property tests drive a machine.

use rand_chacha::ChaCha8Rng;
use rand_core::{Rng, SeedableRng};

/// Maximum number of operations of one input, so that one input takes milliseconds.
const OPERATIONS_MAX: usize = 200;

/// Reads operations and their arguments from bytes; after the end every value is 0.
pub struct Operations<'a> {
    bytes: &'a [u8],
    left: usize,
}

impl<'a> Operations<'a> {
    /// Makes a reader of the operations in `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, left: OPERATIONS_MAX }
    }

    /// Returns the next operation, a number below `kinds`, or `None` at the end.
    pub fn next_kind(&mut self, kinds: usize) -> Option<usize> {
        self.left = self.left.checked_sub(1)?;
        (!self.bytes.is_empty()).then(|| self.draw_below(kinds))
    }

    /// Returns an argument below `limit` (0 if `limit` is 0).
    pub fn draw_below(&mut self, limit: usize) -> usize {
        usize::from(self.next_byte()) % limit.max(1)
    }

    /// Returns one byte.
    pub fn next_byte(&mut self) -> u8 {
        let Some((first, rest)) = self.bytes.split_first() else { return 0 };
        self.bytes = rest;
        *first
    }

    /// Returns up to `count` raw bytes.
    pub fn next_bytes(&mut self, count: usize) -> Vec<u8> {
        let (taken, rest) = self.bytes.split_at(count.min(self.bytes.len()));
        self.bytes = rest;
        taken.to_vec()
    }
}

/// Returns long random lists from a fixed seed.
pub fn random_lists() -> Vec<Vec<u8>> {
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let mut list = |_| {
        let mut bytes = vec![0; 600];
        rng.fill_bytes(&mut bytes);
        bytes
    };
    (0..16).map(&mut list).collect()
}
