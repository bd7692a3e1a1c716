//! A list of operations, spelt by bytes: what a fuzzer and a property test drive a machine with.

use rand_chacha::ChaCha8Rng;
use rand_core::{Rng, SeedableRng};

/// Operations of one input; the rest is ignored, so that one input takes milliseconds.
const OPERATIONS_MAX: usize = 200;

/// Reads operations and their arguments from bytes; at the end every answer is 0.
pub struct Operations<'a> {
    bytes: &'a [u8],
    left: usize,
}

impl<'a> Operations<'a> {
    /// The operations that `bytes` spells.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, left: OPERATIONS_MAX }
    }

    /// The next operation: a number below `kinds`; `None` at the end.
    pub fn next_kind(&mut self, kinds: usize) -> Option<usize> {
        self.left = self.left.checked_sub(1)?;
        (!self.bytes.is_empty()).then(|| self.draw_below(kinds))
    }

    /// An argument below `limit` (0 if that is 0).
    pub fn draw_below(&mut self, limit: usize) -> usize {
        usize::from(self.next_byte()) % limit.max(1)
    }

    /// One byte.
    pub fn next_byte(&mut self) -> u8 {
        let Some((first, rest)) = self.bytes.split_first() else { return 0 };
        self.bytes = rest;
        *first
    }

    /// Up to `count` raw bytes.
    pub fn next_bytes(&mut self, count: usize) -> Vec<u8> {
        let (taken, rest) = self.bytes.split_at(count.min(self.bytes.len()));
        self.bytes = rest;
        taken.to_vec()
    }
}

/// Long random lists, from a fixed seed.
pub fn random_lists() -> Vec<Vec<u8>> {
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let mut list = |_| {
        let mut bytes = vec![0; 600];
        rng.fill_bytes(&mut bytes);
        bytes
    };
    (0..16).map(&mut list).collect()
}
