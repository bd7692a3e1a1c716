use super::ledger::{BudgetState, PrivacyCost};
use super::*;
use crate::config::NetworkId;
use crate::config::tests::service;
use crate::limits::{MU_MAX, SCALE_MAX, SLOTS_MAX};
use core::f64::consts::{LN_2, LN_10};
use mezza_core::{DecodeError, Reader, Writer};

pub fn spent(service: Service, law: Law, rounds: u64) -> RoundsSpent {
    RoundsSpent { service, law, slots: 1, rounds }
}

pub fn talk(law: Law, rounds: u64) -> RoundsSpent {
    spent(Service::Conversation, law, rounds)
}

pub const fn gauss(mu: u32, scale: u32) -> Law {
    Law { mode: Mode::Gauss, mu, scale }
}

pub const fn paper(mu: u32, scale: u32) -> Law {
    Law { mode: Mode::Paper, mu, scale }
}

fn near(value: f64, expected: f64, relative: f64) {
    assert!((value / expected - 1.0).abs() < relative, "{value} is not {expected}");
}

#[test]
fn mix_20_the_check_values_of_the_specification() {
    let cases = [
        (240_000, 6_892, LN_2, 7.619_261e-5),
        (70_000, 3_724, LN_2, 7.566_056e-5),
        (240_000, 2_360, LN_10, 7.406_599e-5),
        (120_000, 6_892, LN_2, 1.021_047e-7),
    ];
    for (rounds, sigma, eps, expected) in cases {
        let (delta, _) = divergence_delta(&[talk(gauss(0, sigma), rounds)], eps);
        near(delta, expected, 1e-6);
    }
    let standard = talk(gauss(45_710, 6_892), 240_000);
    let (divergence, order) = divergence_delta(&[standard], LN_2);
    near(order, 18.97, 1e-3);
    near(delta(&[standard], LN_2) - divergence, 2.379_1e-5, 1e-4);
    near(laplace_rho(2.0, 0.01), 9.966_419_17e-5, 1e-9);
}

/// Google's dp-accounting 0.6.0, `PLDAccountant` of k Gaussian events with noise multiplier
/// sigma / sqrt(8), or sigma / sqrt(2) for calls: the true delta, which no bound may undercut.
#[test]
fn mix_20_no_result_is_below_that_of_an_independent_accountant() {
    let cases = [
        (Service::Conversation, 6_892, 240_000, LN_2, 2.036_239e-5),
        (Service::Conversation, 2_360, 240_000, LN_10, 1.799_871e-5),
        (Service::Conversation, 446, 1_000, LN_2, 1.962_759e-5),
        (Service::Conversation, 2_308, 240_000, 3.0, 1.401_657e-7),
        (Service::Call, 417, 3_500, LN_2, 1.976_187e-5),
        (Service::Invitation, 223, 1_000, LN_2, 1.962_759e-5),
    ];
    for (service, sigma, k, eps, least) in cases {
        let (ours, _) = divergence_delta(&[spent(service, gauss(0, sigma), k)], eps);
        assert!((least..6.0 * least).contains(&ours), "{service:?}, sigma {sigma}: {ours}");
    }
}

#[test]
fn mix_20_the_presets_keep_their_promises_and_no_less_noise_would() {
    let call = |mu, scale| spent(Service::Call, gauss(mu, scale), 1);
    let talk = |mu, scale| talk(gauss(mu, scale), 1);
    let cases = [
        (talk(24_000, 3_724), 70_000, LN_2, 1e-4),
        (talk(45_710, 6_892), 240_000, LN_2, 1e-4),
        (talk(96_218, 14_052), 1_000_000, LN_2, 1e-4),
        (talk(16_070, 2_360), 240_000, LN_10, 1e-4),
        (talk(2_566, 446), 1_000, LN_2, 1e-4),
        (talk(8_646, 1_408), 10_000, LN_2, 1e-4),
        (talk(17_336, 2_308), 240_000, 3.0, 1e-6),
        (call(2_487, 417), 3_500, LN_2, 1e-4),
        (call(8_346, 1_316), 35_000, LN_2, 1e-4),
        (call(1_283, 223), 1_000, LN_2, 1e-4),
    ];
    for (one, k, eps, delta_max) in cases {
        let fits = count_rounds(one, eps, delta_max, delta);
        assert!(fits >= k, "{:?} lasts {fits} of {k} rounds", one.law);
        assert!(fits < k + k / 50 + 10, "{:?} lasts {fits}, {k} were asked for", one.law);
    }
}

#[test]
fn mix_20_the_laplace_column_of_the_table() {
    for (k, mu, b) in
        [(70_000, 85_600, 3_709), (240_000, 166_934, 6_867), (1_000_000, 360_754, 14_018)]
    {
        let reached = delta(&[talk(paper(mu, b), k)], LN_2);
        assert!((0.95e-4..1.003e-4).contains(&reached), "{k} rounds: {reached}");
    }
}

#[test]
fn mix_20_the_paper_mode_lasts_as_long_as_the_paper_says() {
    for (mu, b, k) in
        [(300_000, 13_800, 239_826), (150_000, 7_300, 68_888), (450_000, 20_000, 507_028)]
    {
        assert_eq!(count_rounds(talk(paper(mu, b), 1), LN_2, 1e-4, advanced_delta), k);
    }
    let nothing = talk(paper(300_000, 13_800), 0);
    near(advanced_delta(&[nothing], 1.0) + 1.0, 1.0, 1e-12);
    near(advanced_delta(&[talk(paper(10, 1), 1_000)], 0.1), 1.0, 1e-12);
}

#[test]
fn slots_cost_what_scaled_noise_pays() {
    let one = talk(gauss(45_710, 6_892), 240_000);
    let two = RoundsSpent { slots: 2, law: Law { mu: 91_420, scale: 13_784, ..one.law }, ..one };
    near(delta(&[two], LN_2), delta(&[one], LN_2), 1e-9);
    assert!(delta(&[RoundsSpent { slots: 2, ..one }], LN_2) > 0.01, "unscaled slots are not free");
}

#[test]
fn all_services_of_one_user_add() {
    let all = [
        talk(gauss(45_710, 6_892), 240_000),
        spent(Service::Call, gauss(2_487, 417), 3_500),
        spent(Service::Invitation, gauss(1_283, 223), 1_000),
    ];
    let eps = least_epsilon(&all, 3e-4).expect("an epsilon");
    near(eps, 1.19, 0.01);
    near(fifty_becomes(eps), 0.77, 0.01);
    near(fifty_becomes(LN_2), 2.0 / 3.0, 1e-12);
    assert_eq!(least_epsilon(&[talk(gauss(10, 0), 1)], 1e-4), None, "no noise, no promise");
    near(least_epsilon(&[], 1e-4).expect("an epsilon") + 1.0, 1.0, 1e-6);
}

#[test]
fn the_least_noise_is_that_of_the_presets() {
    let target = |service, rounds, epsilon, delta| PrivacyTarget {
        service,
        rounds,
        slots: 1,
        epsilon,
        delta,
    };
    let cases = [
        (target(Service::Conversation, 240_000, LN_2, 1e-4), 45_710),
        (target(Service::Conversation, 1_000, LN_2, 1e-4), 2_566),
        (target(Service::Call, 3_500, LN_2, 1e-4), 2_487),
    ];
    for (target, mu) in cases {
        let law = noise_for(&target, Accounting::Gauss).expect("a law");
        assert!(law.mu.abs_diff(mu) <= 2, "{law:?}, the specification has {mu}");
        let spent = RoundsSpent { service: target.service, law, slots: 1, rounds: target.rounds };
        assert!(delta(&[spent], target.epsilon) <= target.delta);
    }
    let laplace = noise_for(&cases[0].0, Accounting::Laplace).expect("a law");
    assert!((165_000..166_934).contains(&laplace.mu), "below the table's: {laplace:?}");
    let paper = noise_for(&cases[0].0, Accounting::Paper).expect("a law");
    near(f64::from(paper.mu), 290_000.0, 1e-2);
    assert_eq!(noise_for(&target(Service::Call, 1 << 40, 1e-6, 1e-12), Accounting::Gauss), None);
}

#[test]
fn mix_54_budgets_and_least_noise_are_counted_by_the_bound() {
    let target = PrivacyTarget {
        service: Service::Conversation,
        rounds: 240_000,
        slots: 1,
        epsilon: LN_2,
        delta: 1e-4,
    };
    let law = noise_for(&target, Accounting::Gauss).expect("a law");
    let spent = RoundsSpent { service: target.service, law, slots: 1, rounds: target.rounds };
    assert!((0.99e-4..=1e-4).contains(&delta(&[spent], LN_2)), "no less noise keeps it by Rényi");
    assert!(
        tight_delta(&spent, LN_2).expect("a figure").high < 0.3e-4,
        "by the tight one less would"
    );
    // Spent rounds are compared with the number of rounds that the bound allows.
    let lasts = count_rounds(RoundsSpent { rounds: 1, ..spent }, LN_2, 1e-4, delta);
    assert!((240_000..240_100).contains(&lasts), "{lasts}");
}

#[test]
fn mix_55_another_story_differs_in_twice_the_rounds() {
    let spent = talk(gauss(45_710, 6_892), 240_000);
    let other = spent.other_story();
    assert_eq!((other.rounds, RoundsSpent { rounds: 240_000, ..other }), (480_000, spent));
    near(delta(&[other], LN_2), 2.909_4e-3, 1e-4);
    assert_eq!(talk(gauss(2, 2), u64::MAX).other_story().rounds, u64::MAX);
}

#[test]
fn mix_24_the_ledger_never_decreases() {
    let policy = service(Service::Conversation);
    let mut ledger = Ledger::new(NetworkId([1; 16]), 7);
    ledger.record_join(100, 0, 5_000);
    for _ in 0..5 {
        ledger.charge_round(PrivacyCost::from_policy(&policy));
    }
    let backup = ledger.clone();
    ledger.charge_round(PrivacyCost::from_policy(&policy));
    ledger.merge(&backup);
    assert_eq!(ledger.used_rounds(Service::Conversation), 6);
    let mut restored = backup;
    restored.merge(&ledger);
    assert_eq!(restored, ledger);
    let mut foreign = Ledger::new(NetworkId([2; 16]), 7);
    foreign.charge_round(PrivacyCost::from_policy(&policy));
    ledger.merge(&foreign);
    assert_eq!(ledger.used_rounds(Service::Conversation), 6);
    let bytes = ledger.encode();
    assert_eq!(Ledger::decode(&bytes).as_ref(), Ok(&ledger));
    for cut in 0..bytes.len() {
        assert!(Ledger::decode(&bytes[..cut]).is_err(), "cut to {cut}");
    }
}

#[test]
fn mix_24_what_a_round_costs_is_read_inside_its_limits_alone() {
    let again = |kind: PrivacyCost| {
        let mut w = Writer::new();
        kind.write_to(&mut w);
        Reader::decode_exact(w.as_slice(), PrivacyCost::read_from)
    };
    let law = Law { mode: Mode::Paper, mu: MU_MAX, scale: SCALE_MAX };
    let most = PrivacyCost { service: Service::Call, law, slots: SLOTS_MAX };
    let gauss = PrivacyCost { law: Law { mode: Mode::Gauss, mu: 0, scale: 0 }, slots: 1, ..most };
    for kind in [most, gauss] {
        assert_eq!(again(kind), Ok(kind));
    }
    for wrong in [
        PrivacyCost { law: Law { mu: MU_MAX + 1, ..law }, ..most },
        PrivacyCost { law: Law { scale: SCALE_MAX + 1, ..law }, ..most },
        PrivacyCost { slots: SLOTS_MAX + 1, ..most },
        PrivacyCost { slots: 0, ..most },
    ] {
        assert_eq!(again(wrong), Err(DecodeError::Value), "{wrong:?}");
    }
    let no_mode = [&[1, 2][..], &[0; 8], &[1]].concat();
    assert_eq!(Reader::decode_exact(&no_mode, PrivacyCost::read_from), Err(DecodeError::Value));
}

#[test]
fn mix_25_budgets_are_counted_per_period_and_losses_add() {
    let policy = ServicePolicy { rounds: 10, ..service(Service::Conversation) };
    let call = ServicePolicy { rounds: 10, ..service(Service::Call) };
    let mut ledger = Ledger::new(NetworkId([1; 16]), 7);
    ledger.record_join(1_000, 0, policy.interval_ms);
    let levels = [
        (7, BudgetState::Plenty),
        (8, BudgetState::Low),
        (9, BudgetState::Low),
        (10, BudgetState::Used),
    ];
    for (used, level) in levels {
        while ledger.used_rounds(Service::Conversation) < used {
            ledger.charge_round(PrivacyCost::from_policy(&policy));
        }
        assert_eq!(ledger.budget_state(&policy), level, "{used} used");
    }
    assert_eq!(ledger.budget_state(&call), BudgetState::Plenty, "each service has its own budget");
    let period = 6_307_200; // of 5 s make 365 days
    assert_eq!(policy.interval_ms, 5_000);
    ledger.record_join(1_000 + period - 1, 0, policy.interval_ms);
    assert_eq!((ledger.period(), ledger.budget_state(&policy)), (0, BudgetState::Used));
    ledger.record_join(1_000 + period, 0, policy.interval_ms);
    assert_eq!((ledger.period(), ledger.budget_state(&policy)), (1, BudgetState::Plenty));
    ledger.record_join(1_000, 0, policy.interval_ms);
    assert_eq!(ledger.period(), 1, "an older round takes nothing back");
    ledger.charge_round(PrivacyCost::from_policy(&policy));
    let total: u64 = ledger.all_spent().iter().map(|s| s.rounds).sum();
    assert_eq!(total, 11);
    assert_eq!(Ledger::decode(&ledger.encode()), Ok(ledger));
}

#[test]
fn mix_24_what_two_branches_spent_adds() {
    let kind = PrivacyCost::from_policy(&service(Service::Conversation));
    let mut phone = Ledger::new(NetworkId([1; 16]), 7);
    (0..5).for_each(|_| phone.charge_round(kind));
    let mut restored = phone.clone();
    restored.branch_off(8);
    (0..3).for_each(|_| phone.charge_round(kind));
    (0..2).for_each(|_| restored.charge_round(kind));
    let mut here = phone.clone();
    let mut there = restored.clone();
    here.merge(&restored);
    there.merge(&phone);
    for ledger in [&here, &there] {
        assert_eq!(ledger.used_rounds(Service::Conversation), 5 + 3 + 2);
    }
    here.merge(&there);
    assert_eq!(here.used_rounds(Service::Conversation), 10, "nothing is counted twice");
    assert_eq!(Ledger::decode(&here.encode()), Ok(here));
}

#[test]
fn mix_25_rounds_that_a_config_skips_begin_no_period() {
    let mut ledger = Ledger::new(NetworkId([1; 16]), 7);
    ledger.record_join(1_000, 0, 5_000);
    let far = 1 << 40;
    ledger.record_join(far + 10, far, 5_000);
    assert_eq!(ledger.period(), 0, "the jump of the base round is no time");
    ledger.record_join(1_001, 0, 5_000);
    ledger.record_join(4 * far, 0, 5_000);
    ledger.record_join(far + 6_307_199, far, 5_000);
    assert_eq!(ledger.period(), 0);
    ledger.record_join(far + 6_307_200, far, 5_000);
    assert_eq!(ledger.period(), 1);
    ledger.record_join(2 * far + 105_119, 2 * far, 300_000);
    assert_eq!(ledger.period(), 1, "longer rounds, fewer of them");
    ledger.record_join(2 * far + 105_120, 2 * far, 300_000);
    assert_eq!(ledger.period(), 2);
}

#[test]
fn mix_24_a_ledger_of_another_network_adds_nothing() {
    let kind = PrivacyCost::from_policy(&service(Service::Conversation));
    let mut here = Ledger::new(NetworkId([1; 16]), 7);
    here.charge_round(kind);
    let mut elsewhere = Ledger::new(NetworkId([2; 16]), 8);
    (0..5).for_each(|_| elsewhere.charge_round(kind));
    here.merge(&elsewhere);
    assert_eq!(here.used_rounds(Service::Conversation), 1);
}
