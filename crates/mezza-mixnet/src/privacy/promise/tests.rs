use core::f64::consts::LN_2;

use super::*;
use crate::config::NetworkId;
use crate::config::tests::config;
use crate::mix::NoiseFloor;
use crate::noise::Law;
use crate::privacy::ledger::{BudgetState, PrivacyCost};
use crate::privacy::{Ledger, NoisePreset};

fn preset(preset: NoisePreset) -> Config {
    let mut config = config(3);
    config.services.iter_mut().for_each(|policy| preset.fill_policy(policy));
    config
}

/// Returns a config whose noise keeps eps = ln 2 and delta = 1e-4 for each service alone, but not
/// for all together.
fn each_alone() -> Config {
    let mut config = preset(NoisePreset::Standard);
    for (policy, law) in
        config.services.iter_mut().zip([(45_710, 6_892), (2_487, 417), (1_283, 223)])
    {
        (policy.mu, policy.scale) = law;
    }
    config
}

#[test]
fn mix_70_presets_keep_one_promise_over_all_services() {
    for name in NoisePreset::ALL {
        let promise = NetworkPromise::from_config(&preset(name));
        let reached = promise.reached_after(1);
        assert!(promise.is_kept() && reached > 0.99 * promise.delta, "{name:?}: {reached:e}");
        assert!(promise.reached_after(2) > promise.delta, "{name:?}: losses of years add");
    }
    for alone in each_alone().services {
        let spent = RoundsSpent::from_policy(&alone, alone.rounds);
        assert!(delta(&[spent], LN_2) < 1e-4, "{:?} keeps it alone", alone.service);
    }
    let promise = NetworkPromise::from_config(&each_alone());
    assert!(!promise.is_kept() && promise.reached_after(1) > 1e-2, "all three do not");
}

#[test]
fn mix_71_a_floor_adds_the_services_and_takes_the_larger_number_of_rounds() {
    let standard = NoiseFloor::STANDARD;
    let relaxed = NoiseFloor::RELAXED;
    assert!(standard.allows_config(&preset(NoisePreset::Standard)));
    assert!(!standard.allows_config(&each_alone()));
    assert!(relaxed.allows_config(&preset(NoisePreset::Relaxed)));
    assert!(!standard.allows_config(&preset(NoisePreset::Relaxed)));
    assert!(!relaxed.allows_config(&preset(NoisePreset::Small)));
    for at in 0..3 {
        let mut more = preset(NoisePreset::Standard);
        more.services[at].rounds *= 2;
        assert!(!standard.allows_config(&more), "service {at}: more rounds than the floor names");
        more.services[at].rounds = 1;
        assert!(standard.allows_config(&more), "service {at}: fewer rounds than the floor names");
        more.services[at].rounds = u64::from(u32::MAX);
        assert!(!relaxed.allows_config(&more) && NetworkPromise::from_config(&more).is_none());
        assert!(NoiseFloor::None.allows_config(&more));
    }
    let mut laplace = preset(NoisePreset::Standard);
    laplace.services[1].mode = Mode::Paper;
    (laplace.services[1].mu, laplace.services[1].scale) = (1_000_000, 60_000);
    assert!(!standard.allows_config(&laplace), "Laplace noise does not count");
}

#[test]
fn mix_72_rounds_under_less_noise_count_as_many_as_they_lose() {
    let small = preset(NoisePreset::Small);
    let standard = preset(NoisePreset::Standard);
    let mut ledger = Ledger::new(NetworkId([1; 16]), 7);
    let charge = |ledger: &mut Ledger, policy: &ServicePolicy, rounds: u64| {
        (0..rounds).for_each(|_| ledger.charge_round(PrivacyCost::from_policy(policy)));
    };
    charge(&mut ledger, &small.services[0], 500);
    assert_eq!(ledger.count_used(&small.services[0]), 500);
    let used = ledger.count_used(&standard.services[0]);
    assert!((119_000..140_000).contains(&used), "half of the year: {used}");
    charge(&mut ledger, &small.services[0], 500);
    assert_eq!(ledger.budget_state(&standard.services[0]), BudgetState::Used);
    assert_eq!(ledger.budget_state(&small.services[0]), BudgetState::Used);
    // Whatever mixture of noise was used, a budget that is not exhausted keeps the promise.
    for rounds in [100, 300, 700] {
        let mut ledger = Ledger::new(NetworkId([1; 16]), 7);
        charge(&mut ledger, &small.services[0], rounds);
        let left = 240_000 - ledger.count_used(&standard.services[0]);
        let mut spent = ledger.all_spent();
        spent.push(RoundsSpent::from_policy(&standard.services[0], left));
        spent.extend(
            standard.services[1..].iter().map(|of| RoundsSpent::from_policy(of, of.rounds)),
        );
        assert!(
            delta(&spent, LN_2) <= 1e-4,
            "{rounds} of `small` before: {:e}",
            delta(&spent, LN_2)
        );
    }
}

#[test]
fn mix_72_rounds_without_noise_use_all_of_a_budget() {
    let standard = preset(NoisePreset::Standard);
    let policy = &standard.services[0];
    let bare = ServicePolicy { mu: 0, scale: 0, ..policy.clone() };
    let mut ledger = Ledger::new(NetworkId([1; 16]), 7);
    ledger.charge_round(PrivacyCost::from_policy(&bare));
    assert_eq!(ledger.count_used(policy), u64::MAX);
    assert_eq!(ledger.count_used(&bare), 1, "a network without noise has no other count");
    assert_eq!(
        RoundsSpent { law: Law::from_policy(policy), ..RoundsSpent::from_policy(policy, 7) }
            .count_as(&RoundsSpent::from_policy(policy, 1)),
        7
    );
}

#[test]
fn mix_70_the_largest_epsilon_of_a_service_is_the_promise() {
    let mut mixed = preset(NoisePreset::Standard);
    mixed.services[1].epsilon_micro = 100;
    mixed.services[2].delta_pico = 7;
    let promise = NetworkPromise::from_config(&mixed);
    assert!((promise.epsilon - LN_2).abs() < 1e-6 && (promise.delta - 1e-4).abs() < 1e-12);
}

#[test]
fn mix_72_a_part_of_a_round_counts_as_a_whole_one() {
    let standard = preset(NoisePreset::Standard);
    let policy = &standard.services[0];
    let less = ServicePolicy { mu: policy.mu - 100, ..policy.clone() };
    let unit = RoundsSpent::from_policy(policy, 1);
    assert_eq!(RoundsSpent::from_policy(&less, 1).count_as(&unit), 2, "a little more than one");
}

#[test]
fn mix_55_another_story_differs_in_twice_the_rounds_of_all_services() {
    let promise = NetworkPromise::from_config(&preset(NoisePreset::Standard));
    let other = promise.reached_by_other_story();
    assert!((2.9e-3..3.0e-3).contains(&other), "{other:e}");
}
