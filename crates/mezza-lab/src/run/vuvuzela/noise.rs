//! The plots of the reproduction, true and noisy counts of conversations over rounds, and a test of
//! the samplers against their distributions.

use anyhow::Result;
use mezza_mixnet::config::Mode;
use mezza_mixnet::noise::Law;
use rand_chacha::ChaCha20Rng;
use rand_core::SeedableRng as _;

use super::law::CountLaw;
use crate::bench::Bench;
use crate::plot::Plot;
use crate::run::experiment::Report;
use crate::shape::Claim;
use crate::{papers, parallel};

/// Rounds in the plots.
const ROUNDS: u32 = 10;
/// Number of other users' conversations.
const OTHERS: u32 = 10;
/// Number of equally likely cells in the chi-square test.
const CELLS: f64 = 64.0;
/// Maximum deviation of chi-square above its mean, in standard deviations.
const DEVIATIONS: f64 = 5.0;

/// The tested distributions, with names.
const LAWS: [(Mode, u32, u32, &str); 4] = [
    (Mode::Paper, 100, 20, "Laplace 100 / 20"),
    (Mode::Paper, 300_000, 13_800, "Laplace 300,000 / 13,800"),
    (Mode::Gauss, 100, 20, "Gauss 100 / 20"),
    (Mode::Gauss, 51_962, 7_784, "Gauss 51,962 / 7,784 (`standard`)"),
];

/// Runs the experiment.
///
/// # Errors
/// A raw line that cannot be written.
pub fn make_report(bench: &mut Bench) -> Result<Report> {
    let mut report = Report::default();
    add_plots(bench, &mut report)?;
    let draws = bench.profile.pick(6_400, 200_000, 2_000_000);
    report.add_line("");
    report.add_line(format!("counts against their exact law, {CELLS} cells, {draws} rounds"));
    let seed = bench.seed;
    let found = parallel::map_parallel(LAWS.to_vec(), |(mode, mu, scale, name)| {
        (name, chi_squares(Law { mode, mu, scale }, draws, seed))
    });
    for (name, found) in found {
        for (what, deviation) in [("singles", found[0]), ("pairs", found[1])] {
            bench.note_count(&format!("ours:{name}"), &format!("chi2_{what}"), "sd", deviation)?;
            report.add_line(format!(
                "  {name:<34} {what:<8} chi-square {deviation:>6.2} sd above its mean"
            ));
            let claim = format!("{name}, {what}: chi-square against the law, sd above its mean");
            report.shapes.push(Claim::below(claim, deviation, DEVIATIONS));
        }
    }
    Ok(report)
}

/// Adds plots in which Alice and Bob stop in a round, with and without noise of mu 100, as in the
/// reproduction's demonstration.
fn add_plots(bench: &mut Bench, report: &mut Report) -> Result<()> {
    let paper = papers::load_vuvuzela()?;
    paper.list_values("vuvuzela-noise").into_iter().for_each(|line| report.add_line(line));
    let stop = paper.find_first("vuvuzela-noise", "round in which two people stop");
    let mut rng = ChaCha20Rng::seed_from_u64(bench.seed);
    let laws = [
        Law { mode: Mode::Paper, mu: 100, scale: 20 },
        Law { mode: Mode::Gauss, mu: 100, scale: 20 },
    ];
    report.add_line(format!("drops with two accesses, each drawn by the sampler of one mix: no mixes ran, and none with mu 100,000; two people stop in round {stop:.0}"));
    report.add_line(format!(
        "  {:>5} {:>6} {:>14} {:>14}",
        "round", "true", "Laplace 100/20", "Gauss 100/20"
    ));
    let mut counts = Vec::new();
    for round in 1..=ROUNDS {
        let real = OTHERS + u32::from(f64::from(round) < stop);
        let noisy = laws.map(|law| real + law.draw_conversation(&mut rng).pairs);
        report.add_line(format!("  {round:>5} {real:>6} {:>14} {:>14}", noisy[0], noisy[1]));
        counts.push([round, real, noisy[0], noisy[1]].map(f64::from));
        bench.note_count("true", &format!("pairs_{round}"), "drops", real.into())?;
        for (who, noisy) in [("ours:Laplace", noisy[0]), ("ours:Gauss", noisy[1])] {
            bench.note_count(who, &format!("pairs_{round}"), "drops", noisy.into())?;
        }
    }
    let mut plot = Plot::new("drops with two accesses", ["round", "drops"]);
    for (at, name) in [(1, "true"), (2, "Laplace 100/20"), (3, "Gauss 100/20")] {
        plot.add_curve(name, counts.iter().map(|count| [count[0], count[at]]));
    }
    report.plot = Some(plot);
    Ok(())
}

/// Returns chi-square of singles and of pairs, as standard deviations above the mean.
fn chi_squares(law: Law, draws: u32, seed: u64) -> [f64; 2] {
    let mut rng = ChaCha20Rng::seed_from_u64(seed);
    let mut tests = [CountLaw::singles(law), CountLaw::pairs(law)].map(Test::new);
    for _ in 0..draws {
        let counts = law.draw_conversation(&mut rng);
        tests[0].count_value(counts.singles);
        tests[1].count_value(counts.pairs);
    }
    tests.map(|test| test.find_deviation())
}

/// Cells of about equal probability, and the counts in each cell.
struct Test {
    /// The first count of each cell except the first.
    bounds: Vec<u32>,
    shares: Vec<f64>,
    seen: Vec<u32>,
}

impl Test {
    /// Makes the cells. Counts are integers, so a narrow distribution has fewer cells than a wide
    /// one.
    fn new(count: CountLaw) -> Self {
        let mut bounds = Vec::new();
        let mut shares = Vec::new();
        let mut share = 0.0;
        let mut left = 1.0;
        for (count, p) in (0_u32..).zip(count.list_probabilities()) {
            if share >= 1.0 / CELLS && left >= 1.0 / CELLS {
                bounds.push(count);
                shares.push(std::mem::take(&mut share));
            }
            share += p;
            left -= p;
        }
        // The last cell includes the tail beyond the last probability.
        shares.push(share + left.max(0.0));
        Self { seen: vec![0; shares.len()], bounds, shares }
    }

    fn count_value(&mut self, count: u32) {
        self.seen[self.bounds.partition_point(|bound| *bound <= count)] += 1;
    }

    fn find_deviation(&self) -> f64 {
        let total: f64 = self.seen.iter().map(|seen| f64::from(*seen)).sum();
        let part = |(seen, share): (&u32, &f64)| {
            (f64::from(*seen) - share * total).powi(2) / (share * total)
        };
        let sum: f64 = self.seen.iter().zip(&self.shares).map(part).sum();
        let free = self.seen.iter().map(|_| 1.0).sum::<f64>() - 1.0;
        (sum - free) / (2.0 * free).sqrt()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_scale_is_caught() {
        for mode in [Mode::Gauss, Mode::Paper] {
            let law = Law { mode, mu: 400, scale: 40 };
            assert!(chi_squares(law, 4_000, 1).iter().all(|sd| *sd < DEVIATIONS));
            let mut test = Test::new(CountLaw::singles(law));
            let mut rng = ChaCha20Rng::seed_from_u64(1);
            let wider = Law { scale: 50, ..law };
            (0..4_000).for_each(|_| test.count_value(wider.draw_conversation(&mut rng).singles));
            assert!(test.find_deviation() > DEVIATIONS, "{mode:?}: {}", test.find_deviation());
        }
    }

    #[test]
    fn cells_hold_everything_once() {
        for (mode, mu, scale, name) in LAWS {
            let test = Test::new(CountLaw::pairs(Law { mode, mu, scale }));
            let sum: f64 = test.shares.iter().sum();
            assert!((sum - 1.0).abs() < 1e-9, "{name}: {sum}");
            assert!((10..=64).contains(&test.shares.len()), "{name}: {}", test.shares.len());
        }
    }
}
