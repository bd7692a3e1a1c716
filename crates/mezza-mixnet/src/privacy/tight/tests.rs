use alloc::collections::BTreeMap;
use alloc::format;
use alloc::vec::Vec;
use core::f64::consts::{LN_2, LN_10};

use proptest::prelude::*;

use super::super::tests::{gauss, paper, spent, talk};
use super::super::{Law, count_rounds, delta};
use super::*;

/// A mean so large that no count is ever clamped at 0.
const FAR: u32 = 4_000_000;

/// Returns the outcomes of one round of one count: the probability of each number under both
/// stories. With `down` the count is lower in the first story.
fn outcomes(mode: Mode, count: &Count, down: bool) -> Vec<(f64, f64)> {
    let most = 90;
    let below = |n: i64| libm::exp(-(count.mean - far(n)).abs() / count.scale) / 2.0;
    let until = |n: i64| if far(n) <= count.mean { below(n) } else { 1.0 - below(n) };
    let bell = |n: i64| {
        let x = (far(n) - count.mean) / count.scale;
        libm::exp(-x * x / 2.0)
    };
    let all: f64 = (-most..=2 * most).map(bell).sum();
    let noise = |n: i64| match (mode, n) {
        (_, ..0) => 0.0,
        (Mode::Gauss, 0) => (-most..=0).map(bell).sum::<f64>() / all,
        (Mode::Gauss, _) => bell(n) / all,
        (Mode::Paper, 0) => until(0),
        (Mode::Paper, _) => until(n) - until(n - 1),
    };
    let both = (0..=2 * most).map(|n| (noise(n), noise(n - i64::from(count.shift))));
    both.map(|(p, q)| if down { (p, q) } else { (q, p) }).collect()
}

#[expect(clippy::cast_precision_loss, reason = "small numbers of a test")]
fn far(n: i64) -> f64 {
    n as f64
}

/// The law of a loss, in units of 10^-9, and the probability of outcomes that only P can have.
type Losses = (BTreeMap<i64, f64>, f64);

fn losses(outcomes: &[(f64, f64)]) -> Losses {
    let mut finite = BTreeMap::new();
    let mut lost = 0.0;
    for (p, q) in outcomes.iter().filter(|(p, _)| *p > 0.0) {
        if *q > 0.0 {
            *finite.entry(libm::round(libm::log(p / q) * 1e9) as i64).or_insert(0.0) += p;
        } else {
            lost += p;
        }
    }
    (finite, lost)
}

fn add((one, lost_one): &Losses, (two, lost_two): &Losses) -> Losses {
    let mut sum = BTreeMap::new();
    for (a, p) in one {
        for (b, q) in two.iter().filter(|(_, q)| p * *q > 1e-16) {
            *sum.entry(a + b).or_insert(0.0) += p * q;
        }
    }
    (sum, lost_one + lost_two - lost_one * lost_two)
}

/// Returns the exact delta by enumerating every outcome of every round, with the stories in both
/// orders.
fn enumerated(spent: &RoundsSpent, epsilon: f64) -> f64 {
    let counts = moved_counts(spent).expect("counts");
    let delta = |down: bool| {
        let mode = spent.law.mode;
        let [one, two] =
            [(0, down), (1, !down)].map(|(i, d)| losses(&outcomes(mode, &counts[i], d)));
        let round = add(&one, &two);
        let all = (1..spent.rounds).fold(round.clone(), |sum, _| add(&sum, &round));
        let above =
            |(loss, p): (&i64, &f64)| -p * libm::expm1((epsilon - far(*loss) / 1e9).min(0.0));
        all.0.iter().map(above).sum::<f64>() + all.1
    };
    delta(true).max(delta(false))
}

#[test]
fn mix_53_the_true_delta_of_small_noise_lies_between() {
    let laws = [
        gauss(40, 4),
        gauss(12, 4),
        gauss(60, 6),
        gauss(20, 2),
        paper(60, 3),
        paper(20, 5),
        paper(8, 2),
    ];
    for law in laws {
        for service in [Service::Conversation, Service::Call] {
            for (k, epsilon) in [(1, 0.2), (1, 1.5), (2, LN_2), (3, 2.5)] {
                let spent = spent(service, law, k);
                let found = tight_delta(&spent, epsilon).expect("a figure");
                let truth = enumerated(&spent, epsilon);
                let what = format!("{spent:?}, eps {epsilon}: {truth} in {found:?}");
                assert!(found.low <= truth + 1e-8 && truth <= found.high + 1e-8, "{what}");
                if law.mu >= 10 * law.scale && law.mode == Mode::Gauss {
                    assert!(found.high - found.low < 1e-7, "nothing is clamped: {what}");
                }
            }
        }
    }
}

/// Google's dp-accounting 0.6.0, as in the test of MIX-20: its figures are rounded up on a grid.
#[test]
fn mix_53_the_figures_of_an_independent_accountant_are_met() {
    let cases = [
        (Service::Conversation, 6_892, 240_000, LN_2, 2.036_239e-5),
        (Service::Conversation, 2_360, 240_000, LN_10, 1.799_871e-5),
        (Service::Conversation, 446, 1_000, LN_2, 1.962_759e-5),
        (Service::Conversation, 2_308, 240_000, 3.0, 1.401_657e-7),
        (Service::Call, 417, 3_500, LN_2, 1.976_187e-5),
        (Service::Invitation, 223, 1_000, LN_2, 1.962_759e-5),
    ];
    for (service, sigma, k, epsilon, theirs) in cases {
        let ours = tight_delta(&spent(service, gauss(FAR, sigma), k), epsilon).expect("a figure");
        assert!(ours.low <= theirs && theirs <= 1.000_001 * ours.high, "{ours:?}, not {theirs}");
        assert!(ours.high < 1.001 * theirs, "{ours:?}, not {theirs}");
    }
}

#[test]
fn mix_53_both_ways_to_a_figure_agree() {
    for (sigma, k, epsilon) in [(100, 120, LN_2), (200, 50, 0.1), (160, 60, 1e-3), (400, 8, 0.2)] {
        let spent = talk(gauss(FAR, sigma), k);
        let counts = moved_counts(&spent).expect("counts");
        let closed = smooth::delta(&counts, k, epsilon).expect("smooth enough");
        let tilt = super::super::divergence_delta(&[spent], epsilon).1 - 1.0;
        let summed =
            Lattice::from_counts(Mode::Gauss, &counts).delta(k, epsilon, tilt).expect("it fits");
        assert!(closed.low <= summed.low && summed.high <= closed.high, "{closed:?} {summed:?}");
        assert!(summed.high - summed.low < 1e-6 * summed.high, "{summed:?}");
    }
}

#[test]
fn mix_53_the_upper_figure_is_below_renyi_for_every_preset_and_both_laws() {
    let cases = [
        (talk(gauss(24_000, 3_724), 70_000), LN_2),
        (talk(gauss(45_710, 6_892), 240_000), LN_2),
        (talk(gauss(96_218, 14_052), 1_000_000), LN_2),
        (talk(gauss(16_070, 2_360), 240_000), LN_10),
        (talk(gauss(17_336, 2_308), 240_000), 3.0),
        (spent(Service::Call, gauss(2_487, 417), 3_500), LN_2),
        (talk(paper(85_600, 3_709), 70_000), LN_2),
        (talk(paper(166_934, 6_867), 240_000), LN_2),
        (talk(paper(300_000, 13_800), 239_826), LN_2),
    ];
    for (spent, epsilon) in cases {
        let found = tight_delta(&spent, epsilon).expect("a figure");
        let renyi = delta(&[spent], epsilon);
        assert!(
            found.low <= found.high && found.high < 0.5 * renyi,
            "{spent:?}: {found:?} {renyi}"
        );
        assert!(found.low > 0.5 * found.high, "{spent:?}: {found:?}");
        let longer = RoundsSpent { rounds: 2 * spent.rounds, ..spent };
        assert!(
            tight_delta(&longer, epsilon).expect("a figure").low > found.high,
            "twice the rounds"
        );
        assert!(
            tight_delta(&spent, 1.1 * epsilon).expect("a figure").high < found.high,
            "a larger eps"
        );
    }
}

#[test]
fn rounds_that_a_promise_lasts_by_the_tight_accountant() {
    let one = talk(gauss(45_710, 6_892), 1);
    let high = |spent: &[RoundsSpent], epsilon| {
        tight_delta(&spent[0], epsilon).map_or(1.0, |found| found.high)
    };
    let lasts = count_rounds(one, LN_2, 1e-4, high);
    assert!((290_000..320_000).contains(&lasts), "{lasts} instead of 240,000");
}

#[test]
fn what_has_no_figure() {
    let none = |law, rounds| tight_delta(&talk(law, rounds), LN_2);
    assert_eq!(none(gauss(45_711, 6_892), 9), None);
    assert_eq!(none(gauss(45_710, 6_891), 9), None);
    assert_eq!(none(paper(45_711, 6_892), 9), None);
    assert_eq!(none(paper(1 << 22, 1 << 20), 1 << 40), None, "too long a sum");
    assert_eq!(none(gauss(10, 0), 9), Some(Bracket { low: 1.0, high: 1.0 }), "no noise");
    assert_eq!(none(gauss(10, 2), 0), Some(Bracket { low: 0.0, high: 0.0 }), "no round");
    // e to the power of this epsilon is too large for a float, so only the clamped part of delta is
    // left.
    for spent in [gauss(45_710, 6_892), paper(45_710, 6_867)].map(|law| talk(law, 9)) {
        let found = tight_delta(&spent, 1_000.0).expect("a figure");
        assert!(0.0 <= found.low && found.low <= found.high && found.high < 0.1, "{found:?}");
    }
    // With so little noise, delta is 1.
    assert!(none(gauss(40, 4), 100).expect("a figure").high > 0.999);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// More rounds or less noise give a larger delta, and a larger epsilon a smaller one. Rényi's
    /// bound is above.
    #[test]
    fn mix_53_figures_move_the_right_way(
        is_gauss: bool,
        calls: bool,
        half in 8_u32..150,
        k in 1_u64..2_000,
        epsilon in 0.02_f64..3.0,
    ) {
        let service = if calls { Service::Call } else { Service::Conversation };
        let one = spent(service, if is_gauss { gauss(FAR, 2 * half) } else { paper(FAR, 2 * half) }, k);
        let of = |spent: &RoundsSpent, epsilon| tight_delta(spent, epsilon).expect("a figure");
        let found = of(&one, epsilon);
        prop_assert!(0.0 <= found.low && found.low <= found.high && found.high <= 1.0);
        prop_assert!(found.high <= delta(&[one], epsilon) * (1.0 + 1e-9) + 1e-300);
        prop_assert!(of(&one, 1.05 * epsilon).low <= found.high);
        let longer = RoundsSpent { rounds: k + 1 + k / 20, ..one };
        let quiet = RoundsSpent { law: Law { scale: 2 * half - 2, ..one.law }, ..one };
        for dearer in [longer, quiet] {
            prop_assert!(of(&dearer, epsilon).high >= found.low);
        }
    }
}
