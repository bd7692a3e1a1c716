//! Seeded random numbers with three methods for tests.

use core::ops::RangeInclusive;

use mezza_core::CryptoRng;
use rand_chacha::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};

/// A seeded generator: the same seed and stream give the same numbers on every machine.
#[derive(Clone, Debug)]
pub struct SimRng(ChaCha20Rng);

impl SimRng {
    /// Makes the generator of `seed`; different streams of one seed are independent of each other.
    pub fn new(seed: u64, stream: u64) -> Self {
        let mut rng = ChaCha20Rng::seed_from_u64(seed);
        rng.set_stream(stream);
        Self(rng)
    }

    /// Draws a number from `low` to `high`, both included (`low` if the range is empty).
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        match high.checked_sub(low) {
            None | Some(0) => low,
            Some(u64::MAX) => self.0.next_u64(),
            // The bias of the remainder is below 2^-32 for every span a test uses.
            Some(span) => low + self.0.next_u64() % (span + 1),
        }
    }

    /// Returns true with a probability of `permille` in a thousand.
    pub fn chance(&mut self, permille: u32) -> bool {
        self.between(0, 999) < u64::from(permille)
    }

    /// Picks one of `choices`; `None` if there are none.
    pub fn pick<'a, T>(&mut self, choices: &'a [T]) -> Option<&'a T> {
        let last = choices.len().checked_sub(1)?;
        choices.get(usize::try_from(self.between(0, last as u64)).ok()?)
    }

    /// Draws a pause of human length, ms: log-normal around `median_ms`, limited to `bounds`.
    /// `sigma` is the standard deviation of its logarithm.
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_sign_loss,
        reason = "milliseconds of days, and what is negative or too large is cut to the bounds"
    )]
    pub fn pause_ms(&mut self, median_ms: u32, sigma: f64, bounds: RangeInclusive<u64>) -> u64 {
        // The sum of twelve uniform numbers is nearly normal.
        let sum: u64 = (0..12).map(|_| self.between(0, 1_000)).sum();
        let normal = sum as f64 / 1_000.0 - 6.0;
        let ms = f64::from(median_ms) * (sigma * normal).exp();
        (ms as u64).clamp(*bounds.start(), *bounds.end())
    }

    /// Returns the generator as machines take it.
    pub fn rng(&mut self) -> &mut dyn CryptoRng {
        &mut self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_repeat_and_stay_in_range() {
        let mut one = SimRng::new(3, 0);
        let mut two = SimRng::new(3, 0);
        let mut other = SimRng::new(3, 1);
        let row = |dice: &mut SimRng| (0..64).map(|_| dice.between(10, 19)).collect::<Vec<_>>();
        let first = row(&mut one);
        assert_eq!(first, row(&mut two));
        assert_ne!(first, row(&mut other));
        assert!((10..=19).all(|n| first.contains(&n)), "all ten values in 64 throws: {first:?}");
        assert_eq!((one.between(5, 5), one.between(9, 2)), (5, 9));
        let _ = one.between(0, u64::MAX);
    }

    #[test]
    fn pauses_lie_around_their_median() {
        let mut dice = SimRng::new(5, 0);
        let mut all: Vec<u64> = (0..1_001).map(|_| dice.pause_ms(600, 2.0, 1..=9_000)).collect();
        all.sort_unstable();
        assert!((500..720).contains(&all[500]), "{}", all[500]);
        assert!(all[50] < 60 && all[1_000] == 9_000, "{} {}", all[50], all[1_000]);
    }

    #[test]
    fn chances_at_the_edges() {
        let mut dice = SimRng::new(1, 0);
        assert!((0..100).all(|_| !dice.chance(0)));
        assert!((0..100).all(|_| dice.chance(1_000)));
        let hits = (0..10_000).filter(|_| dice.chance(100)).count();
        assert!((900..1_100).contains(&hits), "{hits}");
        assert_eq!(dice.pick::<u8>(&[]), None);
        assert_eq!(dice.pick(&[4]), Some(&4));
    }
}
