//! Random numbers for engines and clocks.

use rand_core::Rng;

/// Returns a random number below `count`, or 0; the bias is below `count` times 2^-32.
#[inline]
pub(crate) fn draw_below(rng: &mut (impl Rng + ?Sized), count: usize) -> usize {
    ((u64::from(rng.next_u32()) * count as u64) >> 32) as usize
}
