//! Runs with many seeds, and the replay of one seed.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// Runs `world` with the seeds 0, 1, .. `count` - 1. The seed of a run that panics is printed.
///
/// `MEZZA_SEED=n cargo test ..` runs only the seed n, `MEZZA_TEST_SEEDS=n cargo test ..` runs n
/// seeds instead of `count`. Both are read when this crate is compiled (cargo compiles it again
/// when they change): code below floor 3 reads no environment at run time.
pub fn for_each_seed(count: u64, mut world: impl FnMut(u64)) {
    let number = |text: Option<&str>| text.and_then(|t| t.trim().parse().ok());
    let one = number(option_env!("MEZZA_SEED"));
    let many = number(option_env!("MEZZA_TEST_SEEDS"));
    run_seeds(one, many.unwrap_or(count), &mut world, |seed| {
        eprintln!("the world of seed {seed} failed; replay with MEZZA_SEED={seed}");
    });
}

fn run_seeds(
    one: Option<u64>,
    count: u64,
    world: &mut impl FnMut(u64),
    mut failed: impl FnMut(u64),
) {
    let seeds = one.map_or(0..count, |seed| seed..seed.saturating_add(1));
    for seed in seeds {
        if let Err(cause) = catch_unwind(AssertUnwindSafe(|| world(seed))) {
            failed(seed);
            resume_unwind(cause);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_seeds_or_the_one() {
        let seen = |one, count| {
            let mut seeds = Vec::new();
            run_seeds(one, count, &mut |seed| seeds.push(seed), |_| {});
            seeds
        };
        assert_eq!(seen(None, 3), [0, 1, 2]);
        assert_eq!(seen(Some(77), 3), [77]);
    }

    #[test]
    fn the_failing_seed_is_named_and_the_panic_goes_on() {
        let mut named = None;
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            run_seeds(None, 9, &mut |seed| assert!(seed != 4, "seed four"), |seed| {
                named = Some(seed);
            });
        }));
        assert!(outcome.is_err());
        assert_eq!(named, Some(4));
    }
}
