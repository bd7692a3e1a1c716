//! Tests if time depends on a secret: Welch's t-test on two classes of inputs (Reparaz, Balasch,
//! Verbauwhede, "Dude, is my code constant time?", 2017).
//!
//! The caller supplies the clock. A single value slightly above [`LIMIT`] is often chance: a leak
//! grows with the number of measurements.

use crate::SimRng;

/// If the absolute value exceeds this, the classes differ.
pub const LIMIT: f64 = 4.5;

/// Mean and variance, updated value by value (Welford 1962).
#[derive(Default)]
struct Class {
    n: f64,
    mean: f64,
    squares: f64,
}

impl Class {
    fn add_time(&mut self, x: f64) {
        self.n += 1.0;
        let before = x - self.mean;
        self.mean += before / self.n;
        self.squares += before * (x - self.mean);
    }

    fn squared_error(&self) -> f64 {
        self.squares / (self.n - 1.0) / self.n
    }
}

/// Returns Welch's t of `count` times, of two classes in random order. `time` gets the class, draws
/// its inputs from the generator (equally many for both classes), and returns the duration of the
/// operation in any unit.
pub fn welch_t(count: usize, mut time: impl FnMut(bool, &mut SimRng) -> f64) -> f64 {
    let mut dice = SimRng::new(7, 0);
    let times: Vec<(bool, f64)> = (0..count)
        .map(|_| {
            let class = dice.chance(500);
            (class, time(class, &mut dice))
        })
        .collect();
    let mut sorted: Vec<f64> = times.iter().map(|(_, time)| *time).collect();
    sorted.sort_by(f64::total_cmp);
    // Drop the slowest tenth, which the machine causes.
    let limit = sorted.get(count * 9 / 10).copied().unwrap_or(f64::INFINITY);
    let mut classes = [Class::default(), Class::default()];
    for (class, time) in times.iter().filter(|(_, time)| *time <= limit) {
        classes[usize::from(*class)].add_time(*time);
    }
    let [a, b] = classes;
    (a.mean - b.mean) / (a.squared_error() + b.squared_error()).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Draws from 0 to 999.
    fn noise(dice: &mut SimRng) -> f64 {
        f64::from(dice.between(0, 999) as u32)
    }

    fn t(difference: f64) -> f64 {
        welch_t(20_000, |class, dice| 1_000.0 + noise(dice) + if class { difference } else { 0.0 })
    }

    #[test]
    fn a_small_difference_is_seen_and_none_is_not() {
        assert!(t(0.0).abs() < LIMIT, "{}", t(0.0));
        assert!(t(80.0) < -LIMIT, "{}", t(80.0));
        assert!(t(-80.0) > LIMIT, "{}", t(-80.0));
    }

    #[test]
    fn it_grows_with_the_number_of_measurements() {
        let of = |count| welch_t(count, |class, dice| noise(dice) + if class { 10.0 } else { 0.0 });
        assert!(of(200_000).abs() > 2.0 * of(10_000).abs());
    }
}
