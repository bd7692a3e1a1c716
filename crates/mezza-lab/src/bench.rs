//! A measurement: raw lines, detection of a busy machine, and comparisons of operations of several
//! programs that run interleaved.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, anyhow};
use mezza::testing::api::{Exit, Fault};
use rand_chacha::ChaCha20Rng;
use rand_core::{Rng as _, SeedableRng as _};

use crate::clock::{
    BenchRound, LOOP_MS, LoadWatch, Spread, busy_count, is_busy, median, quiet_values, sort_samples,
};
use crate::peer::{OpCost, PeerProcess};
use crate::place::MeasurementLock;
use crate::profile::Profile;
use crate::raw::{self, Raw, RawFigure, RunSpec};

/// The factor by which a smoke run makes fewer calls.
const SMOKE: usize = 20;
/// Maximum bytes of a text in a smoke run.
const SMOKE_BYTES: usize = 28_000;

/// The tools of one measurement.
pub struct Bench {
    /// The profile, which determines the length of the measurement.
    pub profile: Profile,
    /// The seed of all random draws.
    pub seed: u64,
    /// Options of the command line beyond the profile.
    pub params: serde_json::Value,
    /// The raw lines collected so far.
    pub raw: Raw,
    /// Detects if other programs use the machine.
    pub watch: LoadWatch,
    /// A temporary folder on the measured disk.
    pub folder: tempfile::TempDir,
    /// The path of the raw file, which is written at the end.
    path: PathBuf,
    /// The lock that keeps other runs of the lab from measuring at the same time.
    _lock: Option<MeasurementLock>,
}

impl Bench {
    /// Takes the measurement lock of this machine. A smoke run takes no lock, since its figures
    /// decide nothing. Runs that measure no time share the lock.
    ///
    /// # Errors
    /// If another run of the lab measures, or the disk fails.
    pub fn new(run: &RunSpec, out: &Path) -> Result<Self> {
        let RunSpec { profile, seed, exclusive, .. } = *run;
        let params = run.params.clone();
        let decides = profile != Profile::Smoke;
        let lock = if decides { Some(MeasurementLock::take(exclusive)?) } else { None };
        let cannot = |_| {
            let text = format!("{} cannot be written", out.display());
            Fault::new(Exit::CannotWrite, text, "choose another with `--out DIR`")
        };
        std::fs::create_dir_all(out).map_err(cannot)?;
        let folder = tempfile::Builder::new().prefix("lab-").tempdir_in(out).map_err(cannot)?;
        let watch = LoadWatch::new(profile.pick(2, LOOP_MS, LOOP_MS), decides);
        let path = raw::raw_path(out, run.experiment, run.shard);
        Ok(Self { profile, seed, params, raw: Raw::new(run), watch, folder, path, _lock: lock })
    }

    /// Adds a figure to the raw lines.
    ///
    /// # Errors
    /// A value that JSON cannot hold.
    pub fn note_figure(&mut self, line: &RawFigure<'_>) -> Result<()> {
        self.raw.push_figure(line)
    }

    /// Adds a value that was calculated, simulated or counted.
    ///
    /// # Errors
    /// A value that JSON cannot hold.
    pub fn note_count(
        &mut self,
        who: &str,
        op: &str,
        unit: &'static str,
        value: f64,
    ) -> Result<()> {
        self.note_figure(&RawFigure::single(who, op, "count", unit, value))
    }

    /// Writes the raw file and returns its path.
    ///
    /// # Errors
    /// If the disk fails.
    pub fn write_raw(self) -> Result<PathBuf> {
        self.raw.write_file(&self.path)?;
        Ok(self.path)
    }

    /// Returns a case with the calls and sizes of this profile.
    fn fit_case(&self, case: BenchCase) -> BenchCase {
        let calls = self.profile.pick(case.calls.div_ceil(SMOKE), case.calls, case.calls);
        BenchCase { size: self.fit_bytes(case.size), calls, ..case }
    }

    /// Returns a size reduced for this profile: a smoke run uses small texts.
    pub fn fit_bytes(&self, size: usize) -> usize {
        self.profile.pick(size.min(SMOKE_BYTES), size, size)
    }

    /// Measures all cases on `peers` in each of several rounds, in seeded random order. The key of
    /// a case finds its figures in the result.
    ///
    /// # Errors
    /// A value that JSON cannot hold.
    pub fn run_interleaved<K>(
        &mut self,
        peers: &mut [PeerProcess],
        cases: Vec<(K, BenchCase)>,
    ) -> Result<Comparison<K>> {
        let mut rng = ChaCha20Rng::seed_from_u64(self.seed);
        let (keys, cases): (Vec<K>, Vec<_>) = cases.into_iter().unzip();
        let cases: Vec<_> = cases.into_iter().map(|case| self.fit_case(case)).collect();
        let mut refused: Vec<Option<String>> = vec![None; cases.len()];
        let mut rounds = Vec::new();
        for _ in 0..self.profile.pick(1, 5, 11) {
            let work = || Ok(one_round(peers, &cases, &mut refused, &mut rng));
            rounds.extend(self.watch.rounds_or_give_up(work)?);
        }
        self.note_rounds(&cases, &rounds)?;
        let busy = busy_count(&rounds);
        let all_busy = is_busy(busy, rounds.len());
        let of_case = |at: usize| {
            let of_round = |round: &BenchRound<Vec<Option<OpCost>>>| {
                round.value[at].map(|value| BenchRound { value, busy: round.busy })
            };
            if let Some(reason) = &refused[at] {
                return Err(format!("{} {}: {reason}", cases[at].who, cases[at].op));
            }
            let rates = quiet_values(&rounds.iter().filter_map(of_round).collect::<Vec<_>>());
            Ok(Series { rates, busy: all_busy })
        };
        let series = keys.into_iter().zip((0..cases.len()).map(of_case)).collect();
        Ok(Comparison { series, rounds: rounds.len(), busy })
    }

    fn note_rounds(
        &mut self,
        cases: &[BenchCase],
        rounds: &[BenchRound<Vec<Option<OpCost>>>],
    ) -> Result<()> {
        for (number, BenchRound { value, busy }) in rounds.iter().enumerate() {
            for (case, cost) in cases.iter().zip(value) {
                let Some(OpCost { min, median }) = *cost else { continue };
                let spread = Spread { n: case.calls, min, p10: min, median, mad: 0.0 };
                let op = format!("{}_{}", case.op, case.size);
                let figure = RawFigure::single(&case.who, &op, "thread_cpu", "ns", median);
                self.note_figure(&RawFigure { round: number + 1, spread, busy: *busy, ..figure })?;
            }
        }
        Ok(())
    }
}

/// One operation of one program.
#[derive(Clone, Debug)]
pub struct BenchCase {
    /// The name of the implementation in raw lines.
    pub who: String,
    /// The index of the program in `peers`.
    pub peer: usize,
    /// The operation as the program names it.
    pub op: String,
    /// Bytes of the text that the operation processes.
    pub size: usize,
    /// Calls in a batch.
    pub calls: usize,
}

/// The results of all rounds, by the key of each case.
pub struct Comparison<K> {
    /// The figures of each case, or the reason why it has none.
    series: Vec<(K, Result<Series, String>)>,
    rounds: usize,
    /// The number of disturbed rounds.
    busy: usize,
}

impl<K: PartialEq> Comparison<K> {
    /// Returns the figures of a case.
    ///
    /// # Errors
    /// The reason why the case has no figures.
    pub fn find_series(&self, key: &K) -> Result<&Series> {
        let found = self.series.iter().find(|(other, _)| other == key);
        let (_, series) = found.context("nobody measured that")?;
        series.as_ref().map_err(|reason| anyhow!(reason.clone()))
    }

    /// Describes the number of disturbed rounds for the user.
    pub fn describe_disturbed(&self) -> String {
        let Self { rounds, busy, .. } = self;
        match busy {
            0 => format!("{rounds} rounds, not busy"),
            _ if !is_busy(*busy, *rounds) => {
                format!("{rounds} rounds, {busy} disturbed ones left out")
            }
            _ => format!("{busy} of {rounds} rounds on a busy machine: ratios of minima count"),
        }
    }
}

/// The figures of one case in the rounds that count.
#[derive(Clone, Debug)]
pub struct Series {
    rates: Vec<OpCost>,
    busy: bool,
}

impl Series {
    /// Returns the deciding cost in ns: the median over the rounds of their medians; on a busy
    /// machine the minimum of all, which other programs disturb least.
    pub fn deciding_cost(&self) -> f64 {
        if self.busy {
            return self.least_cost();
        }
        median(&self.rates.iter().map(|rate| rate.median).collect::<Vec<_>>())
    }

    /// Returns the minimum of all costs, ns.
    pub fn least_cost(&self) -> f64 {
        self.rates.iter().map(|rate| rate.min).fold(f64::INFINITY, f64::min)
    }

    /// Returns the ratio of this series to `other`, computed round by round.
    pub fn ratio_to(&self, other: &Self) -> Ratio {
        let pairs = self.rates.iter().zip(&other.rates);
        let sorted = sort_samples(pairs.map(|(a, b)| a.median / b.median).collect());
        let end = |at: Option<&f64>| at.copied().unwrap_or(f64::NAN);
        let of_minima = self.least_cost() / other.least_cost();
        let value = if self.busy { of_minima } else { median(&sorted) };
        Ratio { value, low: end(sorted.first()), high: end(sorted.last()), of_minima }
    }
}

/// A ratio from one run.
#[derive(Clone, Copy, Debug)]
pub struct Ratio {
    /// The deciding ratio: the median over the rounds; on a busy machine the ratio of the minima.
    pub value: f64,
    /// The smallest ratio of a round.
    pub low: f64,
    /// The largest ratio of a round.
    pub high: f64,
    /// The ratio of the minimum costs of both sides. Other programs disturb it least.
    pub of_minima: f64,
}

impl std::fmt::Display for Ratio {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { value, low, high, of_minima } = self;
        write!(f, "{value:.2} [{low:.2}, {high:.2}], of minima {of_minima:.2}")
    }
}

/// Measures each case once. A refused case is not tried again.
fn one_round(
    peers: &mut [PeerProcess],
    cases: &[BenchCase],
    refused: &mut [Option<String>],
    rng: &mut ChaCha20Rng,
) -> Vec<Option<OpCost>> {
    let mut rates = vec![None; cases.len()];
    for at in shuffle_numbers(cases.len(), rng) {
        let BenchCase { peer, op, size, calls, .. } = &cases[at];
        if refused[at].is_some() {
            continue;
        }
        match peers[*peer].measure_cost(op, *size, *calls) {
            Ok(rate) => rates[at] = Some(rate),
            Err(error) => refused[at] = Some(format!("{error:#}")),
        }
    }
    rates
}

/// Returns the numbers below `n` in random order.
fn shuffle_numbers(n: usize, rng: &mut ChaCha20Rng) -> Vec<usize> {
    let mut order: Vec<(u64, usize)> = (0..n).map(|at| (rng.next_u64(), at)).collect();
    order.sort_unstable();
    order.into_iter().map(|(_, at)| at).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(medians: &[f64], busy: bool) -> Series {
        let rates = medians.iter().map(|m| OpCost { min: m - 1.0, median: *m }).collect();
        Series { rates, busy }
    }

    #[test]
    fn ratios_are_taken_round_by_round() {
        let ours = [10.0, 40.0, 30.0];
        let theirs = [10.0, 10.0, 10.0];
        let ratio = series(&ours, false).ratio_to(&series(&theirs, false));
        assert_eq!(ratio.to_string(), "3.00 [1.00, 4.00], of minima 1.00");
        // On a busy machine the minimum costs decide.
        let ratio = series(&ours, true).ratio_to(&series(&theirs, true));
        assert_eq!(ratio.to_string(), "1.00 [1.00, 4.00], of minima 1.00");
        let costs = [false, true].map(|busy| series(&ours, busy).deciding_cost().to_bits());
        assert_eq!(costs, [30.0_f64, 9.0].map(f64::to_bits));
        assert!(is_busy(2, 5) && !is_busy(1, 5) && !is_busy(0, 1));
    }

    #[test]
    fn each_entry_has_its_turn_and_the_seed_decides_when() {
        let order = |seed| shuffle_numbers(20, &mut ChaCha20Rng::seed_from_u64(seed));
        let mut sorted = order(7);
        sorted.sort_unstable();
        assert_eq!(sorted, (0..20).collect::<Vec<_>>());
        assert_eq!(order(7), order(7));
        assert_ne!(order(7), order(8));
    }
}
