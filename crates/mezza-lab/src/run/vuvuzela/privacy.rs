//! eps' and delta' over the number of rounds for the noise of SOSP 2015, by its own composition and
//! by ours, and the minimum noise for one promise (E-V3).

use anyhow::{Context as _, Result};
use mezza_mixnet::Service;
use mezza_mixnet::config::Mode;
use mezza_mixnet::noise::Law;
use mezza_mixnet::privacy::{
    Accounting, PrivacyTarget, RoundsSpent, advanced_delta, count_rounds, delta, least_epsilon,
    noise_for,
};

use crate::bench::Bench;
use crate::run::experiment::Report;
use crate::shape::Claim;
use crate::{papers, parallel};

/// Rounds at which the curves are computed.
const ROUNDS: [u64; 7] = [10_000, 30_000, 70_000, 140_000, 240_000, 500_000, 1_000_000];
/// The promise: the odds change by at most a factor of 2, except with probability 1e-4.
const EPSILON: f64 = std::f64::consts::LN_2;
const DELTA: f64 = 1e-4;
/// Rounds that the three levels last by the paper's composition: check values from the
/// specification.
const LAST: [u64; 3] = [68_888, 239_826, 507_028];
/// Noise for the promise over 240,000 rounds: the paper's to two digits, Laplace, Gauss.
const STANDARD: (u64, [u32; 3]) = (240_000, [290_000, 166_934, 45_710]);
/// Minimum factor by which our accounting needs less noise.
const SAVED: f64 = 6.0;

/// The compared curves.
const MODES: [(&str, Mode, Account); 3] = [
    ("SOSP 2015", Mode::Paper, Account::Advanced),
    ("Laplace, RDP", Mode::Paper, Account::Renyi),
    ("Gauss, RDP", Mode::Gauss, Account::Renyi),
];

#[derive(Clone, Copy)]
enum Account {
    /// The composition of the paper.
    Advanced,
    /// Our composition, by Rényi divergence.
    Renyi,
}

impl Account {
    fn find_delta(self, spent: &[RoundsSpent], epsilon: f64) -> f64 {
        match self {
            Self::Advanced => advanced_delta(spent, epsilon),
            Self::Renyi => delta(spent, epsilon),
        }
    }

    /// Returns the minimum epsilon, or NaN if there is none.
    fn least_epsilon(self, spent: RoundsSpent) -> f64 {
        match self {
            Self::Advanced => advanced_epsilon(spent).unwrap_or(f64::NAN),
            Self::Renyi => least_epsilon(&[spent], DELTA).unwrap_or(f64::NAN),
        }
    }
}

/// Returns the minimum epsilon of the paper's composition, to 10^-6. Bisection works, since delta
/// falls as epsilon rises.
fn advanced_epsilon(spent: RoundsSpent) -> Option<f64> {
    let fits = |epsilon: f64| advanced_delta(&[spent], epsilon) <= DELTA;
    let mut low = 0.0;
    let mut high = 64.0;
    if !fits(high) {
        return None;
    }
    while high - low > 1e-6 {
        let middle = f64::midpoint(low, high);
        if fits(middle) { high = middle } else { low = middle }
    }
    Some(high)
}

fn make_spent(mode: Mode, level: papers::NoiseLevel, rounds: u64) -> RoundsSpent {
    let law = Law { mode, mu: level.mu, scale: level.scale };
    RoundsSpent { service: Service::Conversation, law, slots: 1, rounds }
}

/// Adds curves, lifetimes, and the noise needed for one promise.
///
/// # Errors
/// A raw line that cannot be written.
pub fn add_results(bench: &mut Bench, report: &mut Report) -> Result<()> {
    let levels = papers::load_vuvuzela()?.level;
    report.add_line("privacy, calculated: eps' at delta' 1e-4, and delta' at eps' ln 2, after k rounds of conversation");
    report.add_line("noise and composition of SOSP 2015, since the reproduction gives none; RDP: our accounting, without outside review");
    for level in &levels {
        report.add_line(format!("  mu {} scale {}", level.mu, level.scale));
        let names = MODES.map(|(name, ..)| format!("{name:>24}"));
        report.add_line(format!("  {:>9} {}", "k", names.concat()));
        let points = parallel::map_parallel(ROUNDS.to_vec(), |k| {
            MODES.map(|(_, mode, account)| {
                let spent = make_spent(mode, *level, k);
                [account.least_epsilon(spent), account.find_delta(&[spent], EPSILON)]
            })
        });
        let mut curves: [Vec<[f64; 2]>; 3] = Default::default();
        for (k, points) in ROUNDS.into_iter().zip(points) {
            let mut cells = Vec::new();
            for (((name, ..), point), curve) in MODES.into_iter().zip(points).zip(&mut curves) {
                let exists = point[0].is_finite();
                let least = if exists { format!("{:.3}", point[0]) } else { "-".into() };
                cells.push(format!("{least:>12} {:>11.1e}", point[1]));
                let who = format!("ours:{name}");
                let op = |what| format!("{what}_{}_{k}", level.mu);
                if exists {
                    bench.note_count(&who, &op("epsilon"), "1", point[0])?;
                }
                bench.note_count(&who, &op("delta"), "1", point[1])?;
                curve.push(point);
            }
            report.add_line(format!("  {k:>9} {}", cells.concat()));
        }
        add_claims(report, *level, &curves);
        report.add_losses(list_losses(*level, &curves));
    }
    add_lifetimes(report, &levels);
    add_price(bench, report)
}

/// Adds the claims: every curve rises, and our curves are lower.
fn add_claims(report: &mut Report, level: papers::NoiseLevel, curves: &[Vec<[f64; 2]>; 3]) {
    let rising = curves.iter().filter(|curve| is_rising(curve)).count();
    let claim = format!("mu {}: eps' and delta' rise with k, curves", level.mu);
    report.shapes.push(count_all(claim, rising, MODES.len()));
    let pairs = |curve: usize| curves[curve].iter().zip(&curves[0]);
    let below = pairs(2).filter(|(a, b)| (0..2).all(|i| is_below(a[i], b[i]))).count();
    let claim = format!("mu {}: Gauss of the same mean and scale is below, points", level.mu);
    report.shapes.push(count_all(claim, below, ROUNDS.len()));
    // Our accounting charges clamped Laplace noise three times as much as the paper does, and
    // clamping is nearly all of delta. So a mean that suits the paper's composition is too low for
    // ours.
    let both = pairs(1).filter(|(a, b)| a[0].is_finite() && b[0].is_finite());
    let (points, lower) =
        both.fold((0, 0), |(n, low), (a, b)| (n + 1, low + usize::from(a[0] < b[0])));
    let claim = format!("mu {}: Rényi accounting gives a lower eps' where both exist", level.mu);
    let found = format!("{lower} of {points} points");
    report.shapes.push(Claim::is(claim, found, points > 0 && lower == points));
}

/// Returns true if a value is below another. A missing epsilon, NaN, is infinite: each number is
/// below it, and it is below nothing.
fn is_below(value: f64, other: f64) -> bool {
    value < if other.is_nan() { f64::INFINITY } else { other }
}

/// Returns true if eps' and delta' are greater at each point than at the one before. After a missing
/// epsilon all are missing.
fn is_rising(curve: &[[f64; 2]]) -> bool {
    let rises = |[now, next]: [f64; 2]| is_below(now, next) || (now.is_nan() && next.is_nan());
    curve.windows(2).all(|w| (0..2).all(|i| rises([w[0][i], w[1][i]])))
}

/// Lists each point of a curve of ours that is above that of SOSP 2015.
fn list_losses(level: papers::NoiseLevel, curves: &[Vec<[f64; 2]>; 3]) -> Vec<String> {
    let mut losses = Vec::new();
    for ((name, ..), curve) in MODES.into_iter().zip(curves).skip(1) {
        for ((k, ours), theirs) in ROUNDS.into_iter().zip(curve).zip(&curves[0]) {
            let mu = level.mu;
            // A missing epsilon is infinite.
            let [least, other] =
                [ours[0], theirs[0]].map(|e| if e.is_nan() { f64::INFINITY } else { e });
            if least > other {
                let least = if least.is_finite() { format!("{least:.3}") } else { "none".into() };
                losses.push(format!(
                    "mu {mu}, k = {k}: eps' {least} ({name}) against {other:.3} (SOSP 2015)"
                ));
            }
            if ours[1] > theirs[1] {
                losses.push(format!(
                    "mu {mu}, k = {k}: delta' {:.1e} ({name}) against {:.1e} (SOSP 2015)",
                    ours[1], theirs[1]
                ));
            }
        }
    }
    losses
}

/// Adds the number of rounds that each level lasts.
fn add_lifetimes(report: &mut Report, levels: &[papers::NoiseLevel]) {
    report.add_line("");
    report.add_line("rounds until (ln 2, 1e-4) is spent");
    let last = parallel::map_parallel(levels.to_vec(), |level| {
        MODES.map(|(_, mode, account)| {
            count_rounds(make_spent(mode, level, 0), EPSILON, DELTA, |spent, epsilon| {
                account.find_delta(spent, epsilon)
            })
        })
    });
    for ((level, expected), [paper, laplace, gauss]) in levels.iter().zip(LAST).zip(last) {
        report.add_line(format!(
            "  mu {:>7} scale {:>6}   SOSP 2015 {paper:>9}   Laplace, RDP {laplace:>9}   Gauss, RDP {gauss:>9}",
            level.mu, level.scale
        ));
        if laplace < paper {
            let mu = level.mu;
            report.add_loss(format!(
                "mu {mu}: {laplace} rounds (Laplace, RDP) against {paper} (SOSP 2015)"
            ));
        }
        let claim = format!("mu {} lasts so many rounds by the composition of SOSP 2015", level.mu);
        let found = format!("{paper} (must be {expected})");
        report.shapes.push(Claim::is(claim, found, paper == expected));
    }
}

/// Claims that something is true of all.
fn count_all(claim: String, count: usize, all: usize) -> Claim {
    Claim::is(claim, format!("{count} of {all}"), count == all)
}

/// Adds E-V3: the minimum noise for one promise, by each accounting.
fn add_price(bench: &mut Bench, report: &mut Report) -> Result<()> {
    let (rounds, expected) = STANDARD;
    let target = PrivacyTarget {
        service: Service::Conversation,
        rounds,
        slots: 1,
        epsilon: EPSILON,
        delta: DELTA,
    };
    let accountings = vec![Accounting::Paper, Accounting::Laplace, Accounting::Gauss];
    let laws = parallel::map_parallel(accountings, |accounting| noise_for(&target, accounting));
    let laws: Option<Vec<Law>> = laws.into_iter().collect();
    let laws = laws.context("no noise is enough")?;
    report.add_line("");
    report.add_line(format!("least noise for (ln 2, 1e-4) over {rounds} rounds (E-V3)"));
    for ((name, ..), law) in MODES.into_iter().zip(&laws) {
        let saved = f64::from(laws[0].mu) / f64::from(law.mu);
        let saved =
            if saved > 1.0 { format!("   mu {saved:.2} times less") } else { String::new() };
        report.add_line(format!("  {name:<14} mu {:>7} scale {:>6}{saved}", law.mu, law.scale));
        bench.note_count(&format!("ours:{name}"), "mu_240000", "messages", law.mu.into())?;
    }
    let least = laws[1..].iter().zip(&expected[1..]).all(|(law, mu)| law.mu <= *mu);
    let found = format!(
        "{}, {} (must be at most {}, {})",
        laws[1].mu, laws[2].mu, expected[1], expected[2]
    );
    report.shapes.push(Claim::is("mu, Laplace and Gauss, as specified", found, least));
    let saved = f64::from(laws[0].mu) / f64::from(laws[2].mu);
    report.shapes.push(Claim::above(
        "E-V3: times less noise for the same promise, discrete Gaussian and Rényi accounting",
        saved,
        SAVED,
    ));
    let off = f64::from(laws[0].mu) / f64::from(expected[0]) - 1.0;
    report.shapes.push(Claim::below(
        "noise by the composition of SOSP 2015, distance from 290,000",
        off.abs(),
        0.01,
    ));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_curve_that_does_not_grow_does_not_rise() {
        let none = f64::NAN;
        assert!(is_rising(&[[0.1, 1e-5], [0.2, 1e-4], [none, 1e-3], [none, 1e-2]]));
        for flat in
            [[[0.1, 1e-5], [0.1, 1e-4]], [[0.1, 1e-5], [0.2, 1e-5]], [[none, 1e-5], [0.2, 1e-4]]]
        {
            assert!(!is_rising(&flat), "{flat:?}");
        }
        assert!(is_below(0.1, none) && !is_below(none, none) && !is_below(none, 0.1));
        assert!(!is_below(0.1, 0.1));
    }

    #[test]
    fn each_point_at_which_our_accounting_is_worse_is_listed() {
        let level = papers::NoiseLevel { mu: 150_000, scale: 7_300 };
        let paper = vec![[0.24, 1.2e-5], [0.701, 1e-4], [f64::NAN, 6.6e-3]];
        let laplace = vec![[0.112, 3.6e-5], [f64::NAN, 2.5e-4], [f64::NAN, 5e-4]];
        let gauss = vec![[0.1, 1e-73], [0.3, 1e-12], [0.4, 1e-7]];
        let losses = list_losses(level, &[paper, laplace, gauss]);
        assert_eq!(
            losses,
            [
                "mu 150000, k = 10000: delta' 3.6e-5 (Laplace, RDP) against 1.2e-5 (SOSP 2015)",
                "mu 150000, k = 30000: eps' none (Laplace, RDP) against 0.701 (SOSP 2015)",
                "mu 150000, k = 30000: delta' 2.5e-4 (Laplace, RDP) against 1.0e-4 (SOSP 2015)",
            ]
        );
    }
}
