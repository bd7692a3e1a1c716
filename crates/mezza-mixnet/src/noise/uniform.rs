//! Uniform integers by rejection, exact for every bound.

use mezza_core::CryptoRng;

/// Draws a uniform integer in `0..bound`.
///
/// # Panics
/// If `bound` is 0, which is an error of the caller.
pub fn draw_below(bound: u128, rng: &mut dyn CryptoRng) -> u128 {
    assert!(bound > 0, "nothing lies below 0");
    let bits = u128::BITS - (bound - 1).leading_zeros();
    loop {
        let drawn = match bits {
            0 => 0,
            1..=64 => u128::from(rng.next_u64() >> (64 - bits)),
            _ => ((u128::from(rng.next_u64()) << 64) | u128::from(rng.next_u64())) >> (128 - bits),
        };
        // A modulo would prefer small numbers. Each attempt succeeds with a probability above one
        // half.
        if drawn < bound {
            return drawn;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_chacha::ChaCha20Rng;
    use rand_core::SeedableRng;

    #[test]
    fn every_value_below_the_bound_comes_equally_often() {
        let mut rng = ChaCha20Rng::from_seed([3; 32]);
        for bound in [1_u128, 2, 3, 5, 8, 13] {
            let mut seen = alloc::vec![0_u32; bound as usize];
            let draws = 13_000 * bound as u32;
            for _ in 0..draws {
                seen[draw_below(bound, &mut rng) as usize] += 1;
            }
            // 690 is six standard deviations of a count of 13,000.
            assert!(seen.iter().all(|n| n.abs_diff(13_000) < 690), "{bound}: {seen:?}");
        }
        let big = (1_u128 << 81) + 7;
        assert!((0..1_000).any(|_| draw_below(big, &mut rng) > 1 << 80));
        assert!((0..1_000).all(|_| draw_below(big, &mut rng) < big));
    }
}
