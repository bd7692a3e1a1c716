//! Inputs without a fuzzer: random bytes, and damaged copies of valid inputs.

use rand_chacha::ChaCha8Rng;
use rand_core::{Rng, SeedableRng};

/// Maximum size of an input, bytes.
const BYTES_MAX: usize = 20_000;

/// Makes inputs from a seed; equal seeds make equal inputs.
pub struct Mutator {
    rng: ChaCha8Rng,
    seeds: Vec<Vec<u8>>,
}

impl Mutator {
    /// Damages copies of `seeds`, or makes random bytes if there are none.
    pub fn new(seed: u64, seeds: Vec<Vec<u8>>) -> Self {
        Self { rng: ChaCha8Rng::seed_from_u64(seed), seeds }
    }

    /// Returns the next input.
    pub fn next_input(&mut self) -> Vec<u8> {
        if self.seeds.is_empty() || self.below(8) == 0 {
            let length = [16, 200, 2_000][self.below(3)];
            let mut bytes = vec![0; self.below(length)];
            self.rng.fill_bytes(&mut bytes);
            return bytes;
        }
        let at = self.below(self.seeds.len());
        let mut bytes = self.seeds[at].clone();
        // The undamaged copy is an input too.
        for _ in 0..self.below(5) {
            self.damage_bytes(&mut bytes);
        }
        bytes.truncate(BYTES_MAX);
        bytes
    }

    fn damage_bytes(&mut self, bytes: &mut Vec<u8>) {
        let at = self.below(bytes.len().max(1));
        let end = (at + self.below(33)).min(bytes.len());
        match self.below(8) {
            0 if at < bytes.len() => bytes[at] ^= 1 << self.below(8),
            1 if at < bytes.len() => bytes[at] = [0, 1, 0x7f, 0x80, 0xff][self.below(5)],
            2 => bytes.truncate(at),
            3 => drop(bytes.drain(at..end)),
            4 => {
                let copy = bytes[at..end].to_vec();
                bytes.splice(at..at, copy);
            }
            5 => {
                let mut random = vec![0; self.below(17)];
                self.rng.fill_bytes(&mut random);
                bytes.splice(at..at, random);
            }
            6 => {
                let other = self.below(self.seeds.len());
                let tail = self.seeds[other].get(at..).unwrap_or_default().to_vec();
                bytes.splice(at.., tail);
            }
            _ => bytes.push(self.below(256) as u8),
        }
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.rng.next_u64() % limit.max(1) as u64) as usize
    }
}
