//! Time: the CPU time of this thread, the spread of samples, and detection of a busy machine.

use std::time::{Duration, Instant};

use anyhow::Result;
use nix::time::{ClockId, clock_gettime};
use serde::Serialize;

use crate::machine;

/// Length of the fixed loop, ms.
pub const LOOP_MS: u64 = 20;
/// A round is disturbed if its fixed loop deviates by more than this share from the run's median.
const OFF_MAX: f64 = 0.08;
/// Maximum repetitions of a disturbed round.
const REPEATS: usize = 3;
/// Loops for the first median.
const FIRST_LOOPS: usize = 5;
/// Steps of the loop that calibrates the pace.
const PACE_STEPS: u64 = 2_000_000;

/// Returns the CPU time of this thread.
///
/// # Errors
/// If the system has no such clock.
pub fn thread_cpu() -> Result<Duration> {
    Ok(clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID)?.into())
}

/// Runs `work`. Returns its value and its CPU time in nanoseconds, including the clock reads.
///
/// # Errors
/// If the system has no such clock.
pub fn cost_ns<T>(work: impl FnOnce() -> T) -> Result<(T, f64)> {
    let began = thread_cpu()?;
    let value = work();
    let ended = thread_cpu()?;
    Ok((value, to_ns(ended.saturating_sub(began))))
}

/// Returns the cost that [`cost_ns`] reports for empty work, in nanoseconds.
///
/// # Errors
/// If the system has no such clock.
pub fn clock_cost_ns() -> Result<f64> {
    let mut samples = Vec::new();
    for _ in 0..1_000 {
        samples.push(cost_ns(|| ())?.1);
    }
    Ok(Spread::from_samples(samples).median)
}

/// Converts a duration to nanoseconds.
pub fn to_ns(time: Duration) -> f64 {
    time.as_secs_f64() * 1e9
}

/// The spread of the samples of one round.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Spread {
    /// The number of samples.
    pub n: usize,
    /// The minimum.
    pub min: f64,
    /// The 10th percentile.
    pub p10: f64,
    /// The median.
    pub median: f64,
    /// The median absolute deviation from the median.
    pub mad: f64,
}

impl Spread {
    /// Computes the spread of samples in any order; NaN if there are none.
    pub fn from_samples(samples: Vec<f64>) -> Self {
        let sorted = sort_samples(samples);
        let median = quantile(&sorted, 0.5);
        let distances = sort_samples(sorted.iter().map(|sample| (sample - median).abs()).collect());
        Self {
            n: sorted.len(),
            min: quantile(&sorted, 0.0),
            p10: quantile(&sorted, 0.1),
            median,
            mad: quantile(&distances, 0.5),
        }
    }

    /// Returns the spread of a single value.
    pub fn single(value: f64) -> Self {
        Self::from_samples(vec![value])
    }
}

/// Sorts samples in ascending order.
pub fn sort_samples(mut samples: Vec<f64>) -> Vec<f64> {
    samples.sort_by(f64::total_cmp);
    samples
}

/// Returns the quantile `q` of sorted samples (nearest rank).
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "ranks are small, whole and positive"
)]
pub fn quantile(sorted: &[f64], q: f64) -> f64 {
    let rank = (q * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.max(1) - 1).copied().unwrap_or(f64::NAN)
}

/// Returns the median of figures in any order.
pub fn median(figures: &[f64]) -> f64 {
    quantile(&sort_samples(figures.to_vec()), 0.5)
}

/// Detects if other programs use the processors.
pub struct LoadWatch {
    steps: u64,
    repeats: usize,
    seen_ns: Vec<f64>,
}

/// One round and its value.
pub struct BenchRound<T> {
    /// The value of the work.
    pub value: T,
    /// True if the machine was busy during the round.
    pub busy: bool,
}

impl LoadWatch {
    /// Makes a watch whose fixed loop takes about `loop_ms`; with `patient` it repeats busy rounds.
    pub fn new(loop_ms: u64, patient: bool) -> Self {
        let pace = spin_loop(PACE_STEPS).as_secs_f64().max(1e-9);
        let steps = Duration::from_millis(loop_ms).as_secs_f64() / pace;
        let steps = scale_count(PACE_STEPS, steps).max(1);
        let seen_ns = (0..FIRST_LOOPS).map(|_| to_ns(spin_loop(steps))).collect();
        Self { steps, repeats: if patient { REPEATS } else { 0 }, seen_ns }
    }

    /// Runs `work` between two fixed loops, and repeats busy rounds. Returns all rounds.
    ///
    /// # Errors
    /// The error of `work`.
    pub fn run_rounds<T>(
        &mut self,
        mut work: impl FnMut() -> Result<T>,
    ) -> Result<Vec<BenchRound<T>>> {
        let mut all = Vec::new();
        for _ in 0..=self.repeats {
            let before = self.is_loop_off();
            let value = work()?;
            let busy = self.is_loop_off()
                || before
                || is_loaded(machine::read_load(), machine::count_cores());
            all.push(BenchRound { value, busy });
            if !busy {
                break;
            }
        }
        Ok(all)
    }

    /// Returns true if the fixed loop is too slow or too fast now.
    fn is_loop_off(&mut self) -> bool {
        let took = to_ns(spin_loop(self.steps));
        let off = is_off(took, median(&self.seen_ns));
        self.seen_ns.push(took);
        off
    }

    /// Works as [`Self::run_rounds`]; but if all repetitions were busy, the machine is permanently
    /// busy, and later rounds are not repeated.
    ///
    /// # Errors
    /// The error of `work`.
    pub fn rounds_or_give_up<T>(
        &mut self,
        work: impl FnMut() -> Result<T>,
    ) -> Result<Vec<BenchRound<T>>> {
        let all = self.run_rounds(work)?;
        if all.len() > 1 && all.iter().all(|round| round.busy) {
            self.repeats = 0;
        }
        Ok(all)
    }

    /// Returns the spread of this run's fixed loops: the greatest divided by the median.
    pub fn loop_spread(&self) -> f64 {
        let greatest = self.seen_ns.iter().copied().fold(0.0, f64::max);
        greatest / median(&self.seen_ns)
    }
}

/// Returns the values of the quiet rounds, or of all rounds if every round was busy.
pub fn quiet_values<T: Copy>(rounds: &[BenchRound<T>]) -> Vec<T> {
    let quiet: Vec<T> = rounds.iter().filter(|round| !round.busy).map(|r| r.value).collect();
    if quiet.is_empty() { rounds.iter().map(|round| round.value).collect() } else { quiet }
}

/// Extracts the figure at one index from each round.
pub fn figure_of<const N: usize>(
    rounds: &[BenchRound<[f64; N]>],
    at: usize,
) -> Vec<BenchRound<f64>> {
    rounds.iter().map(|r| BenchRound { value: r.value[at], busy: r.busy }).collect()
}

/// Returns the number of busy rounds.
pub fn busy_count<T>(rounds: &[BenchRound<T>]) -> usize {
    rounds.iter().filter(|round| round.busy).count()
}

/// Returns true if more than a third of the rounds were disturbed, so that their median no longer decides.
pub fn is_busy(busy: usize, rounds: usize) -> bool {
    3 * busy > rounds
}

/// Returns the deciding value: the median of the quiet rounds; if more than a third were busy, the
/// minimum of all, which other programs disturb least.
pub fn deciding_value(rounds: &[BenchRound<f64>]) -> f64 {
    if is_busy(busy_count(rounds), rounds.len()) {
        return rounds.iter().map(|round| round.value).fold(f64::INFINITY, f64::min);
    }
    median(&quiet_values(rounds))
}

/// Describes the busy rounds of a row for the user; `None` if there are none.
pub fn busy_words<T>(rounds: &[BenchRound<T>]) -> Option<String> {
    let busy = busy_count(rounds);
    (busy > 0).then(|| format!("busy machine: {busy} of {} rounds disturbed", rounds.len()))
}

fn is_off(took_ns: f64, median_ns: f64) -> bool {
    (took_ns / median_ns - 1.0).abs() > OFF_MAX
}

fn is_loaded(load: Option<f64>, cores: usize) -> bool {
    let cores = u32::try_from(cores).unwrap_or(u32::MAX);
    load.is_some_and(|load| load > f64::from(cores) + 1.0)
}

#[expect(clippy::cast_precision_loss, clippy::cast_sign_loss, reason = "a count of steps")]
fn scale_count(count: u64, by: f64) -> u64 {
    (count as f64 * by) as u64
}

/// Computes a fixed number of steps and returns the wall time, because other programs take wall
/// time away. Four chains keep the units of a core busy; a single chain would not slow down when
/// another program uses the second thread of the core.
fn spin_loop(steps: u64) -> Duration {
    let began = Instant::now();
    let mut chains = std::hint::black_box([1_u64, 2, 3, 4]);
    for _ in 0..steps {
        for x in &mut chains {
            *x = x.rotate_left(13).wrapping_add(*x >> 7) ^ (*x << 17);
        }
    }
    std::hint::black_box(chains);
    began.elapsed()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spreads_by_hand() {
        let spread = Spread::from_samples(vec![5.0, 1.0, 2.0, 9.0, 3.0]);
        assert_eq!(spread, Spread { n: 5, min: 1.0, p10: 1.0, median: 3.0, mad: 2.0 });
        assert!(Spread::from_samples(vec![]).median.is_nan());
        let hundred = sort_samples((1..=100).map(f64::from).collect());
        assert_eq!(quantile(&hundred, 0.99).to_bits(), 99.0_f64.to_bits());
        assert_eq!(quantile(&hundred, 1.0).to_bits(), 100.0_f64.to_bits());
    }

    #[test]
    fn a_loop_that_is_off_and_a_load_that_is_high() {
        assert!(!is_off(107.0, 100.0) && !is_off(93.0, 100.0));
        assert!(is_off(109.0, 100.0) && is_off(91.0, 100.0));
        assert!(!is_loaded(Some(3.0), 2) && is_loaded(Some(3.1), 2) && !is_loaded(None, 2));
    }

    #[test]
    fn lab_15_busy_rounds_are_kept_marked_and_not_averaged_in() {
        let round = |value, busy| BenchRound { value, busy };
        let rounds = [round(9, true), round(1, false), round(8, true), round(2, false)];
        assert_eq!(quiet_values(&rounds), [1, 2]);
        assert_eq!(busy_words(&rounds).as_deref(), Some("busy machine: 2 of 4 rounds disturbed"));
        assert_eq!(quiet_values(&[round(9, true)]), [9]);
        let costs = |busy: [bool; 3]| {
            let rounds = [3.0, 1.0, 2.0].into_iter().zip(busy);
            deciding_value(
                &rounds.map(|(value, busy)| BenchRound { value, busy }).collect::<Vec<_>>(),
            )
        };
        let costs = [[false; 3], [false, true, false], [true, true, false]].map(costs);
        assert_eq!(costs.map(|cost| cost.to_string()), ["2", "2", "1"]);
        assert_eq!(busy_words(&[round(1, false)]), None);
        // A watch to which every loop seems off repeats three times.
        let mut watch = LoadWatch { steps: 50_000, repeats: REPEATS, seen_ns: vec![1.0; 99] };
        let all = watch.run_rounds(|| Ok(7)).unwrap();
        assert!(all.len() == 4 && all.iter().all(|round| round.busy && round.value == 7));
        // After all repetitions were busy, the watch does not repeat.
        let counts = [(); 2].map(|()| watch.rounds_or_give_up(|| Ok(7)).unwrap().len());
        assert_eq!(counts, [4, 1]);
        let second = figure_of(&[BenchRound { value: [0.5, 1.5], busy: true }], 1);
        assert_eq!((second[0].value.to_string(), second[0].busy), ("1.5".to_owned(), true));
    }

    /// The CPU time of another thread does not count.
    #[test]
    fn slow_thread_cpu_is_that_of_this_thread() {
        let ((), own) = cost_ns(|| {
            std::thread::spawn(|| while spin_loop(1_000_000) < Duration::from_millis(5) {})
                .join()
                .ok();
            let other =
                std::thread::spawn(|| (0..20).map(|_| spin_loop(1_000_000)).sum::<Duration>());
            assert!(other.join().unwrap() > Duration::from_millis(1));
        })
        .unwrap();
        let (_, busy) = cost_ns(|| spin_loop(40_000_000)).unwrap();
        assert!(own < busy, "{own} {busy}");
        assert!(clock_cost_ns().unwrap() < 100_000.0);
    }
}
