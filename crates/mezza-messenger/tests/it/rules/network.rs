//! A mixnet whose noise is weak, whose config is over, or whose entry serves another network.

use mezza_messenger::evidence::{NoteState, WaitReason};
use mezza_messenger::io::NoiseGrade;
use mezza_messenger::policy::Policy;
use mezza_messenger::view::{NetworkTrouble, NetworkView};
use mezza_messenger::{CarrierId, Command};
use mezza_mixnet::config::Config;

use crate::stage::START;
use crate::town::{ROUND_MS, Town, cells, config};

const ANN: usize = 0;
const BEN: usize = 1;

fn view(town: &Town) -> NetworkView {
    town.members[ANN].device.carriers().network_view(town.now()).expect("joined")
}

/// The config of a network of which a year has `rounds` of each service, under this noise.
fn noisy(rounds: u64, mean: u32, scale: u32) -> Config {
    let mut config = config();
    for policy in &mut config.services {
        (policy.rounds, policy.mu, policy.scale) = (rounds, mean, scale);
        (policy.epsilon_micro, policy.delta_pico) = (2_302_585, 100_000_000_000);
    }
    config
}

#[test]
fn msg_122_noise_that_promises_nothing_differs_from_noise_below_the_standard() {
    let cases = [
        (noisy(u64::from(u32::MAX), 160, 40), NoiseGrade::Nothing),
        (noisy(1_000_000, 2, 2), NoiseGrade::Nothing),
        (noisy(10, 160, 40), NoiseGrade::Weak),
    ];
    for (config, grade) in cases {
        let town = Town::with(config, &["ann"]);
        assert_eq!((view(&town).noise, view(&town).level), (Some(grade), 1));
        let carrier = |carrier: CarrierId| {
            let all = town.members[ANN].device.connections(town.now());
            all.into_iter().find(|one| one.carrier == carrier).expect("there").caps.noise
        };
        assert_eq!(carrier(CarrierId::MIXNET), Some(grade), "one source for all texts");
    }
}

#[test]
fn msg_123_a_network_whose_config_is_over_is_down_and_says_so() {
    let mut config = config();
    config.valid_until = START.plus_ms(6 * ROUND_MS);
    let mut town = Town::with(config, &["ann", "ben"]);
    let ben = town.add(ANN, BEN, Policy::default());
    town.command(ANN, Command::Policy { contact: ben, policy: cells(1) }).expect("sound");
    assert_eq!((view(&town).up, view(&town).trouble), (true, None));
    town.pass(8 * ROUND_MS);
    let net = view(&town);
    assert!(!net.up && matches!(net.trouble, Some(NetworkTrouble::Ended { .. })), "{net:?}");
    let note = town.say(ANN, ben, "to nobody");
    assert_eq!(town.state(ANN, note), NoteState::Queued(WaitReason::NoCarrier));
}

#[test]
fn msg_123_an_entry_that_announces_rounds_of_another_network_is_named() {
    let mut town = Town::new(&["ann"]);
    assert_eq!((view(&town).up, view(&town).trouble), (true, None));
    town.members[ANN].entry.serve_another_network();
    town.pass(5 * ROUND_MS);
    assert_eq!((view(&town).up, view(&town).trouble), (false, Some(NetworkTrouble::Foreign)));
    town.members[ANN].entry.end();
    town.pass(3 * ROUND_MS);
    assert_eq!((view(&town).up, view(&town).trouble), (true, None), "nothing is left of it");
}
